/*
 * fork_kit.h - what tests of runs whose guard is forked have in common: a run from
 * options and a script, its processes by name, and who holds a file. The test process is
 * the keeper: a subreaper with one thread.
 */
#ifndef SBX_TESTS_FORK_KIT_H
#define SBX_TESTS_FORK_KIT_H

#include "tests/library_kit.h"

#include "monitor/handle.h"

#include <stdbool.h>
#include <stddef.h>

/* Pipes to and from the command, and a lock; each end may be closed by the test. */
struct fork_run {
    struct sbx_run *run;
    int in;  /* write end of its standard input */
    int out; /* read ends */
    int err;
    int lock; /* the file, opened anew and without the lock; see fork_is_locked */
    char lock_path[SBX_FIXTURE_PATH_SIZE];
    struct sbx_notice notices[24]; /* that have come */
    size_t notice_count;
};

/* Forks the run of "sh -c SCRIPT", whose $1 is the test's directory; from now on only
 * processes of the run hold the lock. */
void fork_start(struct fork_run *fork, const char *options, const char *script);

/* Closes what is open and frees the run. */
void fork_done(struct fork_run *fork);

/* Takes events until that many notices are there, it has finished, or too much time has
 * passed, which fails the test. True: it has finished. */
bool fork_step(struct fork_run *fork, size_t notices);

/* Until it has finished; fails the test unless it ended so. */
const struct sbx_result *fork_finish(struct fork_run *fork, const char *outcome);

/* Whether some process holds the lock. */
bool fork_is_locked(const struct fork_run *fork);

/* Waits until the lock is free. */
void fork_await_unlocked(const struct fork_run *fork);

/* The process of that name that descends from this one; 0: none. */
pid_t fork_find(const char *name);

/* The same, waiting for it with a bound; fails the test. */
pid_t fork_await_process(const char *name);

/* The state of a process, as /proc has it; 0: it is gone. */
char fork_state(pid_t pid);

/* Whether all that descend from the monitor are stopped, zombies left out. */
bool fork_is_stopped(void);

/* The names of all processes but this one that have the file of `fd` open, once each,
 * with blanks between, sorted. Text in static storage. */
const char *fork_holders(int fd);

/* Waits until they are these; fails the test. */
void fork_await_holders(int fd, const char *names);

/* Whether it ended because what it asked for cannot be had here; says so on stderr. */
bool fork_is_refused(const struct sbx_result *result, const char *what);

/* Reads until the end of the file; fails the test if that does not come. The text is in
 * static storage. */
const char *fork_read_all(int fd);

/* Kills and reaps what was left to us. */
void fork_end_children(void);

#endif
