/*
 * hold.c - see hold.h. Signals own children by pid, all others by identity. Never reaps,
 * so that between a walk and the signals that follow it no child's pid becomes another's.
 */
#include "reaper/hold.h"

#include "base/clock.h"
#include "reaper/pidref.h"
#include "reaper/wrapper.h"

#include <signal.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#define REST_LOOK_NS 500000L
/* A tree that cannot be read at once may be read a moment later. */
#define END_WALKS 3

static int signal_one(const struct sbx_hold *hold, const struct sbx_member *member,
                      int signal_number)
{
    if (member->stat.ppid == getpid()) {
        return sbx_child_signal(member->stat.pid, signal_number);
    }
    const struct sbx_pidref ref = {member->stat.pid, member->stat.start_ticks};
    return sbx_pidref_signal(hold->proc_fd, &ref, signal_number);
}

/* Neither held, nor stopped by somebody else. */
static bool is_loose(const struct sbx_member *member)
{
    return !sbx_member_ended(member) && !member->in_group && !member->held &&
           member->stat.state != 'T';
}

bool sbx_hold_is_leaky(struct sbx_tree *tree)
{
    for (size_t i = 0; i < sbx_tree_count(tree); i++) {
        if (is_loose(sbx_tree_member(tree, i))) {
            return true;
        }
    }
    return false;
}

/* One walk and what follows from it. True: nothing was left to be done. */
static bool stop_all(const struct sbx_hold *hold)
{
    bool still = sbx_tree_walk(hold->tree, NULL, NULL) == 0;
    hold->mark(hold->context);
    for (size_t i = 0; i < sbx_tree_count(hold->tree); i++) {
        struct sbx_member *member = sbx_tree_member(hold->tree, i);
        if (is_loose(member)) {
            member->held = signal_one(hold, member, SIGSTOP) == 0;
            still =
                still && !member->held; /* who may not be signalled is not waited for */
        } else if (member->held && member->stat.state == 'R') {
            still = false; /* needs a processor to stop on */
        }
    }
    return still;
}

bool sbx_hold(const struct sbx_hold *hold, uint64_t until_us)
{
    const struct timespec moment = {.tv_nsec = REST_LOOK_NS};
    sbx_tree_set_deadline(hold->tree, until_us);
    while (!stop_all(hold)) {
        if (sbx_clock_us() >= until_us) {
            return false;
        }
        (void)nanosleep(&moment, NULL);
    }
    return true;
}

static void let_go(const struct sbx_hold *hold, struct sbx_member *member)
{
    if (member->held && !sbx_member_ended(member)) {
        (void)signal_one(hold, member, SIGCONT);
    }
    member->held = false;
}

void sbx_hold_end(const struct sbx_hold *hold, uint64_t until_us)
{
    int r = -1;
    sbx_tree_set_deadline(hold->tree, until_us);
    for (int walks = 0; walks < END_WALKS && r < 0; walks++) {
        r = sbx_tree_walk(hold->tree, NULL, NULL);
    }
    sbx_wrapper_mark(hold->tree, hold->proc_fd);
    struct sbx_member *init = sbx_wrapper_init(hold->tree);
    for (size_t i = sbx_tree_count(hold->tree); i > 0; i--) {
        struct sbx_member *member = sbx_tree_member(hold->tree, i - 1);
        if (member != init) {
            let_go(hold, member);
        }
    }
    if (init != NULL) {
        let_go(hold, init);
    }
}
