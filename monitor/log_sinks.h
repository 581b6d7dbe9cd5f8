/*
 * log_sinks.h - where lines and rows go: files that are appended to, standard error,
 * syslog, the journal.
 *
 * Files are opened by whoever prepares the run, before anything has started, so that a
 * path that leads nowhere is an error then; all else is reached for by the servant that
 * writes. Putting a line never waits: what a sink does not take now has to be offered
 * again. Only a dead disk can hold a writer up.
 */
#ifndef SBX_MONITOR_LOG_SINKS_H
#define SBX_MONITOR_LOG_SINKS_H

#include "monitor/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A file to append to. Both -1: none. */
struct sbx_log_file {
    int fd;   /* non-blocking where that means something; -1: a FIFO without a reader */
    int node; /* that FIFO */
};

#define SBX_NO_LOG_FILE ((struct sbx_log_file){.fd = -1, .node = -1})

/* Opens path below directory (or AT_FDCWD), makes it where it is absent. A FIFO without a
 * reader is no failure. 0 or a negative errno; never waits. */
int sbx_log_file_open(int directory, const char *path, mode_t mode,
                      struct sbx_log_file *ret_file);
/* Whether it can be written to now: a FIFO may have got its reader. 0 or -ENXIO. */
int sbx_log_file_ready(struct sbx_log_file *file);
void sbx_log_file_close(struct sbx_log_file *file);

struct sbx_log_journal; /* libsystemd, loaded */

struct sbx_log_sink {
    enum sbx_log_kind kind;
    enum sbx_log_form form;
    pid_t pid;                /* that syslog shows */
    struct sbx_log_file file; /* also of syslog's socket */
    bool socket;              /* sent to rather than written to */
    bool stream;              /* a socket that keeps no messages apart */
    bool look_first;          /* a write may block: ask poll before */
    size_t done;              /* bytes of the present line that are through */
    bool torn;                /* a line broke off: the next one begins a new line */
    struct sbx_log_journal *journal;
};

/* A sink of that kind; takes the file over. Opens nothing yet but standard error anew. */
void sbx_log_sink_init(struct sbx_log_sink *sink, enum sbx_log_kind kind,
                       struct sbx_log_file file);

/* Puts one line: 0 it is there, as a whole and once; -EAGAIN not now, offer it again;
 * another negative errno, it is lost. */
int sbx_log_sink_put(struct sbx_log_sink *sink, const struct sbx_log_identity *identity,
                     const struct sbx_log_line *line);

void sbx_log_sink_done(struct sbx_log_sink *sink);

/* --- log_journal.c --- */

/* The journal takes datagrams at a socket, and libsystemd knows their form. The library
 * is loaded here, and nowhere linked against. */
int sbx_log_journal_put(struct sbx_log_journal **journal,
                        const struct sbx_log_fields *fields,
                        const struct sbx_log_line *line, enum sbx_log_form form);
void sbx_log_journal_free(struct sbx_log_journal *journal);

#endif
