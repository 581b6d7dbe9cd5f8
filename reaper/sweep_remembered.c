/*
 * sweep_remembered.c - see sweep.h: the end of a tree that somebody else started.
 *
 * Nothing comes to us when a parent dies here: his children go to init, and whoever was
 * not met before is lost to descent. So nobody is killed before all are stopped. Signals
 * go by identity alone; a member that has ended is its parent's to reap.
 */
#include "reaper/attached.h"
#include "reaper/pidref.h"
#include "reaper/sweep_private.h"

#include "base/clock.h"
#include "base/fd.h"

#include <poll.h>
#include <unistd.h>

/* How long the killed are waited for before those who are left are stopped anew. */
#define ENDS_US 300000U
#define LOOK_MS 20

/* Somebody of the last walk who has not ended, or NULL. */
static const struct sbx_member *first_alive(struct sbx_tree *tree)
{
    for (size_t i = 0; i < sbx_tree_count(tree); i++) {
        const struct sbx_member *member = sbx_tree_member(tree, i);
        if (!sbx_member_ended(member)) {
            return member;
        }
    }
    return NULL;
}

static void wait_for(pid_t pid)
{
    SBX_AUTO_CLOSE int pidfd = sbx_pidfd_open(pid);
    struct pollfd end = {.fd = pidfd, .events = POLLIN};
    (void)poll(&end, 1, LOOK_MS); /* without a descriptor: only the time */
}

/* True when all have ended; false when there are new ones, or it takes long. */
static bool all_end(struct sweep *sweep)
{
    uint64_t until = sbx_clock_us() + ENDS_US;
    do {
        if (sbx_sweep_meet(sweep) < 0 || sbx_tree_new_count(sweep->tree) > 0) {
            return false;
        }
        const struct sbx_member *left = first_alive(sweep->tree);
        if (left == NULL) {
            return true;
        }
        wait_for(left->stat.pid);
    } while (sbx_clock_us() < until);
    return false;
}

static void name_survivors(struct sweep *sweep)
{
    sbx_tree_set_deadline(sweep->tree, sbx_clock_us() + SBX_SWEEP_NAMING_US);
    (void)sbx_sweep_meet(sweep);
    sweep->result.empty = true;
    for (size_t i = 0; i < sbx_tree_count(sweep->tree); i++) {
        const struct sbx_member *member = sbx_tree_member(sweep->tree, i);
        if (!sbx_member_ended(member)) {
            sweep->result.empty = false;
            sweep->hooks->survivor(member, sbx_sweep_why_alive(member),
                                   sweep->hooks->context);
        }
    }
}

int sbx_sweep_remembered(struct sbx_tree *tree, int proc_fd,
                         const struct sbx_sweep_hooks *hooks,
                         struct sbx_sweep_result *ret_result)
{
    struct sweep sweep = {
        .tree = tree,
        .proc_fd = proc_fd,
        .self = getpid(),
        .hooks = hooks,
        .started_us = sbx_clock_us(),
        .hopeless_since_us = SBX_FOREVER_US,
    };
    sbx_tree_scan_always(tree);
    sbx_tree_pass_over_hidden(tree); /* who is not shown cannot be ended; the rest can */
    sbx_tree_set_deadline(tree, sweep.started_us + SBX_SWEEP_PATIENCE_US);
    int r = sbx_sweep_meet(&sweep);
    while (!sweep.result.empty && !sbx_sweep_out_of_time(&sweep)) {
        sbx_sweep_freeze(&sweep);
        sbx_sweep_kill_known(&sweep);
        sweep.result.empty = all_end(&sweep);
        if (!sweep.result.empty && sbx_sweep_is_hopeless(&sweep)) {
            break;
        }
    }
    if (!sweep.result.empty) {
        name_survivors(&sweep);
    }
    *ret_result = sweep.result;
    return sweep.result.empty ? 0 : r;
}
