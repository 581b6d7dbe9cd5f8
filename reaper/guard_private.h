/*
 * guard_private.h - one guard, shared by the files that make it up: guard.c (start, loop,
 * end), guard_job.c (the terminal and job control) and guard_care.c (a monitor that does
 * not get on).
 */
#ifndef SBX_REAPER_GUARD_PRIVATE_H
#define SBX_REAPER_GUARD_PRIVATE_H

#include "reaper/front.h"
#include "reaper/guard.h"
#include "reaper/reader.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct sbx_guard {
    struct sbx_pair *pair;
    const struct sbx_guard_hooks *hooks;
    struct sbx_terminal terminal;
    struct sbx_guard_bonds bonds;
    sigset_t inherited_ignored;
    pid_t monitor;
    struct sbx_reader reader;
    int socket;
    int signals;
    bool monitor_ended;
    bool monitor_stopped;
    uint64_t stopped_late_us; /* first stop seen when all should be over; 0: none */
    uint64_t usage_due_us;    /* asked for, and to be told by then; 0: not asked for */
    int stops;                /* of the leader that the monitor has told of */
    bool below_front;
    bool finished; /* the monitor says so */
};

/* How late the monitor has to be before we look whether it gets no processor. */
#define SBX_GUARD_STARVED_US 300000U
/* How long a monitor may stay stopped. */
#define SBX_GUARD_STOPPED_US (1U * SBX_US_PER_S)

/* --- guard_job.c --- */

/* Continued, in the foreground or by `bg`. */
void sbx_guard_go_on(struct sbx_guard *guard);

/* The leader was stopped by that signal. */
void sbx_guard_stop_with_leader(struct sbx_guard *guard, int signal_number);

/* --- guard_care.c --- */

/* SIGCHLD: has the monitor ended, been stopped or continued? */
void sbx_guard_look_at_monitor(struct sbx_guard *guard);

/* Now and then: one that stays stopped, is held by a tracer or gets no processor. */
void sbx_guard_replace_if_overdue(struct sbx_guard *guard);
void sbx_guard_look_after_late_ones(struct sbx_guard *guard);

/* Now and then, and at the end: a caller that is one of ours goes on. */
void sbx_guard_continue_caller(const struct sbx_guard *guard);

#endif
