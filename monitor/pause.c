/*
 * pause.c - see watch_private.h: the members of a run are held where they are, and go on
 * later.
 *
 * A leaf is frozen, which nobody in it can notice or undo; who is outside of it, or all
 * where there is none, is stopped (reaper/hold.h). Time goes on meanwhile, and limits are
 * judged; only idleness begins anew. What ends a run that is paused first lets its
 * members go, as far as they are to hear of it: SIGKILL reaches them as they are.
 */
#include "monitor/watch_private.h"

#include "base/clock.h"
#include "reaper/hold.h"

#include <errno.h>
#include <signal.h>

/* Who does not freeze or stop by then (state D) will as soon as it can. */
#define FREEZE_BOUND_US 50000U
#define HOLD_BOUND_US 200000U
#define END_BOUND_US 1000000U

static int leaf_of(const struct sbx_watch *watch)
{
    return sbx_grouped_is_on(watch->grouped) ? watch->grouped->group.leaf.fd : -1;
}

static void mark(void *context)
{
    struct sbx_watch *watch = context;
    if (watch->pause.frozen) {
        (void)sbx_watch_mark_group(watch);
    } else {
        sbx_watch_unmark_group(watch);
    }
}

static struct sbx_hold hold_of(struct sbx_watch *watch)
{
    return (struct sbx_hold){
        .tree = watch->tree, .proc_fd = watch->proc_fd, .mark = mark, .context = watch};
}

static void restore_deadline(struct sbx_watch *watch)
{
    uint64_t wall = watch->spec->limits.wall_us;
    sbx_tree_set_deadline(watch->tree, wall != 0 ? sbx_clock_add(watch->launched_us, wall)
                                                 : SBX_FOREVER_US);
}

static void hold(struct sbx_watch *watch)
{
    const struct sbx_hold hold = hold_of(watch);
    (void)sbx_hold(&hold, sbx_clock_us() + HOLD_BOUND_US);
    restore_deadline(watch);
}

/* Whoever of ours was moved into the leaf would freeze with it. */
static bool freeze(const struct sbx_watch *watch)
{
    int leaf = leaf_of(watch);
    if (leaf < 0) {
        return false;
    }
    sbx_grouped_step_out(watch->grouped, watch->record);
    int r = sbx_leaf_freeze(leaf, true, FREEZE_BOUND_US);
    if (r < 0 && r != -ETIMEDOUT) {
        (void)sbx_leaf_freeze(leaf, false, FREEZE_BOUND_US);
        return false;
    }
    return true;
}

/* Only members of our own, and only as long as the run is not being ended. */
static bool may_pause(const struct sbx_watch *watch)
{
    enum sbx_phase phase = watch->terminate.phase;
    return !watch->attach.on &&
           (phase == SBX_PHASE_RUNNING || phase == SBX_PHASE_LINGERING ||
            phase == SBX_PHASE_WAITING);
}

void sbx_watch_pause(struct sbx_watch *watch)
{
    if (watch->pause.on || !may_pause(watch)) {
        return;
    }
    watch->pause = (struct sbx_watch_pause){.on = true, .frozen = freeze(watch)};
    hold(watch);
}

void sbx_watch_let_go(struct sbx_watch *watch)
{
    if (!watch->pause.on) {
        return;
    }
    const struct sbx_hold hold = hold_of(watch);
    if (watch->pause.frozen) {
        (void)sbx_leaf_freeze(leaf_of(watch), false, FREEZE_BOUND_US);
    }
    sbx_hold_end(&hold, sbx_clock_us() + END_BOUND_US);
    restore_deadline(watch);
    watch->pause.on = false;
}

void sbx_watch_resume(struct sbx_watch *watch)
{
    if (!watch->pause.on) {
        return;
    }
    sbx_watch_let_go(watch);
    sbx_watch_restart_idle(watch);
    if (watch->pause.held_signal != 0) {
        sbx_watch_pass(watch, watch->pause.held_signal);
    }
}

void sbx_watch_keep_paused(struct sbx_watch *watch)
{
    if (watch->pause.on && !watch->pause.frozen && sbx_hold_is_leaky(watch->tree)) {
        hold(watch);
    }
}

/* Each of them undoes the others, and what we have done. */
bool sbx_watch_holds_back(struct sbx_watch *watch, int signal_number)
{
    bool job_control = signal_number == SIGCONT || signal_number == SIGSTOP ||
                       signal_number == SIGTSTP || signal_number == SIGTTIN ||
                       signal_number == SIGTTOU;
    if (!watch->pause.on || !job_control) {
        return false;
    }
    watch->pause.held_signal = signal_number;
    return true;
}
