/*
 * handle.h - more about a run beside other work (<sbx/sbx.h>), for who lives in this
 * library: a run whose guard is forked from the calling process, and notices.
 */
#ifndef SBX_MONITOR_HANDLE_H
#define SBX_MONITOR_HANDLE_H

#include "monitor/spec.h"

#include <sbx/sbx.h>
#include <stdint.h>
#include <sys/types.h>

enum sbx_notice_kind {
    SBX_NOTICE_STARTED = 1, /* the command has been executed */
    SBX_NOTICE_WARNING,     /* text: one line, as in "warnings" of the report */
    SBX_NOTICE_BREACH,      /* text: a JSON object, as "breach" in the report */
};

#define SBX_NOTICE_TEXT_SIZE 1024

/* Something that happened in the run, while it happens. */
struct sbx_notice {
    enum sbx_notice_kind kind;
    pid_t leader_pid;                /* of STARTED */
    uint64_t at_real_us;             /* since the epoch */
    char text[SBX_NOTICE_TEXT_SIZE]; /* terminated */
};

/* What the processes of a run get from a process that forks them. */
struct sbx_run_family {
    int stdio[3];  /* the command's standard streams; borrowed */
    int shared_fd; /* stays open in guard and monitor until the run is over, and in no
                      other process; borrowed; -1: none */
};

/*
 * As sbx_run_start, for a process with one thread that is made for this: the guard is its
 * child, forked and not executed, with all signals blocked, and has none of its
 * descriptors but those of `family`. Of the standard streams no process of the run keeps
 * one but the command (and whoever passes its output on), so that their other ends see
 * when the command has closed them. The caller must be a child subreaper or reap what it
 * finds; it learns of the end by sbx_run_next.
 */
int sbx_run_fork(const struct sbx_spec *spec, const struct sbx_run_family *family,
                 struct sbx_run **ret_run, struct sbx_error *err);

/* The next notice of a run made by sbx_run_fork, in order: 1; 0: there is none now.
 * sbx_run_next takes them in, also when it finds nothing else; when it says that the run
 * has finished, all are there. */
int sbx_run_notice(struct sbx_run *run, struct sbx_notice *ret_notice);

/* After a SIGCHLD: a guard that was stopped goes on. Nobody has a right to stop it, and
 * while it is, and the monitor too, no limit holds. */
void sbx_run_continue_guard(struct sbx_run *run);

#endif
