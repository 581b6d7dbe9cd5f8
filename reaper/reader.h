/*
 * reader.h - a process of the guard's that reads for the monitor what may block without
 * end (see monitor/pss.h). It hangs alone, and can be replaced.
 *
 * Both ends of its socket are made before the monitor is forked: the monitor has one, the
 * reader the other, and the guard keeps a copy of the reader's for the next one.
 */
#ifndef SBX_REAPER_READER_H
#define SBX_REAPER_READER_H

#include <sys/types.h>

struct sbx_reader {
    pid_t pid;       /* 0: none */
    int monitor_end; /* -1: none */
    int reader_end;
    void (*serve)(int socket, void *context); /* NULL: no reader is wanted */
    void *context;
};

/* Makes the sockets. 0 or a negative errno. */
int sbx_reader_open(struct sbx_reader *reader);

/* Forks the reader. Without one the monitor goes on: nothing is returned. */
void sbx_reader_start(struct sbx_reader *reader);

/* Kills the present one and forks another. May wait as a fork and a dying process do. */
void sbx_reader_replace(struct sbx_reader *reader);

/* Kills it, and does not wait: it dies while others work. */
void sbx_reader_stop(struct sbx_reader *reader);

/* Kills and reaps it, with a bound; closes what is open. */
void sbx_reader_done(struct sbx_reader *reader);

#endif
