/*
 * spawn.h - a program as a process that is nobody's child, from a caller that may have
 * threads, and whose signal handlers, mask, dispositions, children and subreaper flag
 * stay as they are.
 *
 * An exec'd child sends SIGCHLD to its parent, whatever it was cloned with. So between
 * the two stands a process that ends at once: a clone without an exit signal, which no
 * handler hears of and no plain wait meets. What it leaves is an orphan.
 */
#ifndef SBX_MONITOR_SPAWN_H
#define SBX_MONITOR_SPAWN_H

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stddef.h>

struct sbx_spawn {
    const char *path;
    char *const *argv;
    char *const *envp;
    const int *fds; /* open descriptors that it keeps, under their numbers; 0 to 2 too */
    size_t fd_count;
};

/*
 * Executes the program, with all signals blocked. When it returns the program has been
 * executed or has not. *ret_pidfd receives a pidfd of it: for as long as the kernel makes
 * the caller itself its parent (a subreaper, process 1) it is the caller's to reap; else
 * -1. 0, or a negative errno: nothing runs, and nothing is left.
 */
int sbx_spawn_orphan(const struct sbx_spawn *spawn, int *ret_pidfd,
                     struct sbx_error *err);

/* Reaps what such a pidfd means if it has ended, waiting at most that long. True when it
 * is gone, whoever has reaped it. */
bool sbx_spawn_reap(int pidfd, int timeout_ms);

#endif
