/*
 * sweep_private.h - what the sweep of our own tree (sweep.c) and that of a remembered one
 * (sweep_remembered.c) have in common: signals by identity, freezing, and who is worth
 * waiting for. For these two alone.
 */
#ifndef SBX_REAPER_SWEEP_PRIVATE_H
#define SBX_REAPER_SWEEP_PRIVATE_H

#include "reaper/sweep.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* For the walk that only names who is left. */
#define SBX_SWEEP_NAMING_US UINT64_C(2000000)

struct sweep {
    struct sbx_tree *tree;
    int proc_fd;
    pid_t self;
    const struct sbx_sweep_hooks *hooks;
    struct sbx_sweep_result result;
    uint64_t started_us;
    uint64_t hopeless_since_us; /* SBX_FOREVER_US: somebody left may still die */
    uint64_t last_met_us;       /* when a walk last met a new member */
    size_t stopped_now;         /* members that the freezing walk under way stopped */
    size_t running_now; /* members it met that were stopped before, yet still run */
};

/* One walk, in which new members are told. 0 or a negative errno. */
int sbx_sweep_meet(struct sweep *sweep);

/* SIGSTOP until a walk stops nobody new and finds all that were stopped before at rest.
 */
void sbx_sweep_freeze(struct sweep *sweep);

/* SIGKILL to everybody of the last walk, deepest first. */
void sbx_sweep_kill_known(struct sweep *sweep);

bool sbx_sweep_out_of_time(const struct sweep *sweep);

/* Only members are left whom SIGKILL does not end, for long enough. */
bool sbx_sweep_is_hopeless(struct sweep *sweep);

const char *sbx_sweep_why_alive(const struct sbx_member *member);

#endif
