/*
 * launch.h - from fork to exec: the leader is born with everything set, or not at all.
 *
 * The steps between fork and exec run in the child in a fixed order; the first that fails
 * sends one whole error record up a close-on-exec pipe and ends the child, so that the
 * command has never run. End of file without a record means that exec has happened or
 * that the child has ended; the kernel tells which.
 *
 * The caller has every signal blocked around the call, and SIGCHLD not ignored. Every
 * wait is bounded: a minute until exec, half a minute to reap a child that failed.
 */
#ifndef SBX_REAPER_LAUNCH_H
#define SBX_REAPER_LAUNCH_H

#include "reaper/ceiling.h"
#include "reaper/namespace.h"
#include "reaper/start.h"

#include <sbx/sbx.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define SBX_KEEP_FD_MAX 64

struct sbx_launch {
    const char *const
        *argv; /* NULL-terminated; argv[0] is looked up in PATH when it has no slash */
    const char *const *envp;            /* NULL-terminated */
    const struct sbx_ceiling *ceilings; /* SBX_CEILING_COUNT of them; NULL: none */
    const int *keep_fds;                /* open descriptors that the command keeps */
    size_t keep_fd_count;
    /* What becomes standard input, output and error: descriptors above 2; 0 and below: as
     * they are. */
    int stdio[3];
    bool own_group; /* a process group of its own; else it stays in the caller's */
    int tty_fd;     /* the terminal handed over to the new group; -1: none */
    /* A descriptor of the directory of a cgroup v2 group, above 2, that the leader is
     * born in; -1: none. */
    int group_fd;
    const struct sbx_start *start; /* NULL: in all else as the caller */
    /* The command gets a PID namespace of its own, and this tells what becomes of it. In
     * memory shared with children, all zeros; NULL: it gets none. */
    struct sbx_namespace_note *note;
    bool stays; /* whoever is left in there at its end outlives the caller */
    /* INT, HUP, QUIT, TERM that were ignored when the program started stay ignored
     * (nohup); all else is default. */
    sigset_t inherited_ignored;
    /* RLIMIT_NOFILE as the program was started with, in case the caller raised its own.
     */
    struct rlimit nofile;
};

/*
 * Starts the leader as a child of the caller. On success *ret_pid is its pid, and either
 * it has executed the command or a signal has ended it before (then it is a zombie that
 * was killed, and nothing has run). With a namespace it is the front's pid, and the
 * command's is in the note. After -errno no child is left (it was reaped; one
 * that a tracer holds is named in the message), and a terminal that was handed over is
 * back where it was. err->stage is SBX_STAGE_EXEC when only execve itself failed,
 * SBX_STAGE_ARM for a ceiling, else SBX_STAGE_LAUNCH. *ret_status receives the exit
 * status that goes with the failure: 127 when there is no such command, 126 when it
 * cannot be executed, else 125; untouched on success.
 */
int sbx_launch(const struct sbx_launch *launch, pid_t *ret_pid, int *ret_status,
               struct sbx_error *err);

#endif
