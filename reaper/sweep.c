/*
 * sweep.c - see sweep.h.
 *
 * Why in this order. Killing what is known at once ends ordinary trees and hungry ones
 * soonest. Killing only own children in a loop ends hoppers, whose pids live too short
 * for anything else. Freezing before killing ends bombs: a killed member frees a place
 * that its siblings fill, a stopped one does not. Deepest first at the kill: the death of
 * a parent may orphan a stopped process group, and the kernel wakes such a group with
 * SIGHUP and SIGCONT; by then SIGKILL is already pending.
 */
#include "reaper/sweep.h"

#include "base/clock.h"
#include "reaper/boost.h"
#include "reaper/pidref.h"
#include "reaper/polite.h"
#include "reaper/sweep_private.h"
#include "reaper/wrapper.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Rounds of killing own children before the tree is frozen, and walks of one freeze. */
#define QUICK_ROUNDS 8
#define FREEZE_WALKS 64
#define WAIT_SHORT_US 2000U
#define WAIT_LONG_US 20000U
#define DRAIN_US 200000U
/* New members within this time: it is a race, and not only a loaded machine. */
#define BIRTHS_US 1000000U
#define WAITER_LOOK_NS 100000L
/* What a namespace may take to be gone before its members are looked at one by one. */
#define NAMESPACE_US 2000000U

/* To an own child by pid (it cannot have been reused), to any other member by identity.
 */
static int signal_member(struct sweep *sweep, struct sbx_member *member,
                         int signal_number)
{
    if (member->stat.ppid == sweep->self) {
        /* Its parent was us when it was read, and we are the only one to reap it; that
         * happens between walks. */
        int r = sbx_child_signal(member->stat.pid, signal_number);
        member->refused = r == -EPERM;
        return r;
    }
    struct sbx_pidref ref = {member->stat.pid, member->stat.start_ticks};
    int r = sbx_pidref_signal(sweep->proc_fd, &ref, signal_number);
    member->refused = r == -EPERM;
    return r;
}

static void meet(struct sweep *sweep, struct sbx_member *member)
{
    if (!member->met) {
        member->met = true;
        sweep->last_met_us = sbx_clock_us();
        if (sweep->hooks->met != NULL) {
            sweep->hooks->met(member, sweep->hooks->context);
        }
    }
}

static void kill_member(struct sweep *sweep, struct sbx_member *member)
{
    if (sbx_member_ended(member)) {
        return;
    }
    if (signal_member(sweep, member, SIGKILL) == 0 && !member->killed) {
        member->killed = true;
        sweep->result.killed_count++;
    }
}

void sbx_sweep_kill_known(struct sweep *sweep)
{
    for (size_t i = sbx_tree_count(sweep->tree); i > 0; i--) {
        kill_member(sweep, sbx_tree_member(sweep->tree, i - 1));
    }
}

/* A zombie takes every signal and is not killed by any. */
static bool has_ended(pid_t pid)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 &&
           info.si_pid == pid;
}

static int kill_child(pid_t pid, void *context)
{
    struct sweep *sweep = context;
    struct sbx_member *member = sbx_tree_find(sweep->tree, pid);
    if (!has_ended(pid) && sbx_child_signal(pid, SIGKILL) == 0 &&
        (member == NULL || !member->killed)) {
        sweep->result.killed_count++;
        if (member != NULL) {
            member->killed = true;
        }
    }
    return 0;
}

static void visit_freeze(struct sbx_member *member, void *context)
{
    struct sweep *sweep = context;
    if (sbx_member_ended(member)) {
        return;
    }
    meet(sweep, member);
    if (!member->frozen) {
        member->frozen = true;
        if (signal_member(sweep, member, SIGSTOP) == 0) {
            sweep->stopped_now++;
        }
    } else if (member->stat.state == 'R' && !member->refused) {
        sweep->running_now++;
    }
}

static int walk(struct sweep *sweep, void (*visit)(struct sbx_member *, void *))
{
    struct sbx_tree_hooks hooks = {.visit = visit, .context = sweep};
    return sbx_tree_walk(sweep->tree, &hooks, NULL);
}

/* Launchers first: who is met is told by name, and they are nobody's strays. */
int sbx_sweep_meet(struct sweep *sweep)
{
    int r = sbx_tree_walk(sweep->tree, NULL, NULL);
    sbx_wrapper_mark(sweep->tree, sweep->proc_fd);
    for (size_t i = 0; i < sbx_tree_count(sweep->tree); i++) {
        struct sbx_member *member = sbx_tree_member(sweep->tree, i);
        if (!sbx_member_ended(member)) {
            meet(sweep, member);
        }
    }
    return r;
}

bool sbx_sweep_out_of_time(const struct sweep *sweep)
{
    uint64_t now = sbx_clock_us();
    bool births = now - sweep->last_met_us < BIRTHS_US;
    return now - sweep->started_us >=
           (births ? SBX_SWEEP_BOUND_US : SBX_SWEEP_PATIENCE_US);
}

/* Sleeps until a child ends, at most that long. False when none did. */
static bool wait_for_child(uint64_t us)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    struct timespec bound = {(time_t)(us / SBX_US_PER_S),
                             (long)(us % SBX_US_PER_S) * 1000L};
    return sigtimedwait(&set, NULL, &bound) == SIGCHLD;
}

void sbx_sweep_freeze(struct sweep *sweep)
{
    for (int walks = 0; walks < FREEZE_WALKS && !sbx_sweep_out_of_time(sweep); walks++) {
        sweep->stopped_now = 0;
        sweep->running_now = 0;
        if (walk(sweep, visit_freeze) < 0) {
            return;
        }
        if (sweep->stopped_now == 0 && sweep->running_now == 0) {
            return;
        }
        if (sweep->stopped_now == 0) {
            (void)wait_for_child(WAIT_SHORT_US); /* they need a processor to stop on */
        }
    }
}

static bool reaped_all(struct sweep *sweep)
{
    sweep->result.empty = sweep->hooks->reap(sweep->hooks->context) == -ECHILD;
    return sweep->result.empty;
}

static bool end_quickly(struct sweep *sweep)
{
    for (int round = 0; round < QUICK_ROUNDS; round++) {
        (void)sbx_tree_each_child(sweep->tree, kill_child, sweep);
        if (reaped_all(sweep)) {
            return true;
        }
        (void)wait_for_child(WAIT_SHORT_US);
        if (reaped_all(sweep)) {
            return true;
        }
    }
    return false;
}

/* The dead still have to be put away, and we run before them: as long as they come,
 * nothing is done but reaping, or their exits would wait for our walks. */
static bool drain(struct sweep *sweep)
{
    uint64_t until = sbx_clock_us() + DRAIN_US;
    do {
        if (reaped_all(sweep)) {
            return true;
        }
    } while (wait_for_child(WAIT_LONG_US) && sbx_clock_us() < until);
    return false;
}

/* How long those who are left are worth waiting for. */
static uint64_t worth_us(struct sweep *sweep)
{
    bool all_refused = true;
    bool all_stuck = true; /* zombies that cannot be reaped are stuck, too */
    size_t alive = 0;
    for (size_t i = 0; i < sbx_tree_count(sweep->tree); i++) {
        const struct sbx_member *member = sbx_tree_member(sweep->tree, i);
        if (sbx_member_ended(member)) {
            continue;
        }
        alive++;
        all_refused = all_refused && member->refused;
        all_stuck = all_stuck && (member->refused || member->stat.state == 'D');
    }
    if (alive > 0 && all_refused) {
        return SBX_SWEEP_REFUSED_US;
    }
    return all_stuck ? SBX_SWEEP_STUCK_US : SBX_FOREVER_US;
}

bool sbx_sweep_is_hopeless(struct sweep *sweep)
{
    uint64_t worth = worth_us(sweep);
    uint64_t now = sbx_clock_us();
    if (worth == SBX_FOREVER_US) {
        sweep->hopeless_since_us = SBX_FOREVER_US;
        return false;
    }
    if (sweep->hopeless_since_us == SBX_FOREVER_US) {
        sweep->hopeless_since_us = now;
    }
    return now - sweep->hopeless_since_us >= worth;
}

const char *sbx_sweep_why_alive(const struct sbx_member *member)
{
    if (member->refused) {
        return "not permitted (EPERM)";
    }
    if (sbx_member_ended(member)) {
        return "zombie, held by a tracer or its parent";
    }
    if (member->stat.state == 'D') {
        return SBX_SWEEP_WHY_STUCK;
    }
    return member->killed ? "killed, but not yet scheduled to die" : "still forking";
}

static bool is_anybody_else_left(struct sbx_tree *tree)
{
    for (size_t i = 0; i < sbx_tree_count(tree); i++) {
        if (!sbx_tree_member(tree, i)->wrapper) {
            return true;
        }
    }
    return false;
}

static void name_survivors(struct sweep *sweep)
{
    /* The time is up, but a list that stops half way would call the others ended. */
    sbx_tree_set_deadline(sweep->tree, sbx_clock_us() + SBX_SWEEP_NAMING_US);
    (void)sbx_sweep_meet(sweep);
    if (reaped_all(sweep)) {
        return;
    }
    bool others = is_anybody_else_left(sweep->tree);
    for (size_t i = 0; i < sbx_tree_count(sweep->tree); i++) {
        const struct sbx_member *member = sbx_tree_member(sweep->tree, i);
        if (!member->wrapper || !others) {
            sweep->hooks->survivor(member, sbx_sweep_why_alive(member),
                                   sweep->hooks->context);
        }
    }
}

/* --- a namespace --- */

/* The kernel ends all that is inside before the init is gone. Whoever stands above that
 * has no more to wait for, and is not to begin anything else: the outermost first. */
static bool kill_namespace(struct sweep *sweep)
{
    struct sbx_member *init = sbx_wrapper_init(sweep->tree);
    bool inside = false;
    if (init == NULL || signal_member(sweep, init, SIGKILL) < 0) {
        return false;
    }
    for (size_t i = 0; i < sbx_tree_count(sweep->tree); i++) {
        struct sbx_member *member = sbx_tree_member(sweep->tree, i);
        inside = inside || member == init;
        if (sbx_member_ended(member)) {
            continue;
        }
        if (!inside) {
            (void)signal_member(sweep, member, SIGKILL);
        }
        sweep->result.killed_count += member->killed || member->wrapper ? 0 : 1;
        member->killed = true;
    }
    sweep->result.by_namespace = true;
    return true;
}

static bool end_namespace(struct sweep *sweep)
{
    uint64_t until = sbx_clock_us() + NAMESPACE_US;
    if (!kill_namespace(sweep)) {
        return false;
    }
    do {
        if (reaped_all(sweep)) {
            return true;
        }
        (void)wait_for_child(WAIT_LONG_US);
    } while (sbx_clock_us() < until);
    return reaped_all(sweep);
}

static bool end_by_freezing(struct sweep *sweep)
{
    sbx_boost_sweep();
    while (!sbx_sweep_out_of_time(sweep)) {
        sbx_sweep_freeze(sweep);
        sbx_sweep_kill_known(sweep);
        if (drain(sweep) || end_quickly(sweep)) {
            return true;
        }
        if (sbx_sweep_meet(sweep) == 0 && sbx_sweep_is_hopeless(sweep)) {
            return false;
        }
    }
    return false;
}

int sbx_sweep(struct sbx_tree *tree, int proc_fd, const struct sbx_sweep_hooks *hooks,
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
    int r = 0;
    if (!reaped_all(&sweep)) {
        sbx_tree_set_deadline(tree, sweep.started_us + SBX_SWEEP_PATIENCE_US);
        r = sbx_sweep_meet(&sweep);
        if (end_namespace(&sweep)) {
            *ret_result = sweep.result;
            return 0;
        }
        sbx_sweep_kill_known(&sweep);
        if (!end_quickly(&sweep) && !end_by_freezing(&sweep)) {
            name_survivors(&sweep);
        }
    }
    *ret_result = sweep.result;
    return sweep.result.empty ? 0 : r;
}

/* --- the polite signal --- */

/* Who may not be signalled may have a launcher that may, and that passes it on. */
static uint64_t tell_launchers(struct sweep *sweep, int signal_number)
{
    uint64_t signalled = 0;
    for (size_t i = sbx_tree_count(sweep->tree); i > 0; i--) {
        struct sbx_member *member = sbx_tree_member(sweep->tree, i - 1);
        const struct sbx_member *child =
            member->spared ? sbx_tree_find(sweep->tree, member->only_child) : NULL;
        if (child != NULL && child->refused &&
            signal_member(sweep, member, signal_number) == 0) {
            signalled++;
        }
    }
    return signalled;
}

static void await_end(const struct sweep *sweep, const struct sbx_member *member,
                      uint64_t until_us)
{
    const struct timespec moment = {.tv_nsec = WAITER_LOOK_NS};
    struct sbx_proc_stat stat;
    while (sbx_proc_stat_at(sweep->proc_fd, member->stat.pid, &stat) == 0 &&
           stat.start_ticks == member->stat.start_ticks && stat.state != 'Z' &&
           stat.state != 'X' && sbx_clock_us() < until_us) {
        (void)nanosleep(&moment, NULL);
    }
}

/* Whether this member's parent waits for it alone, and was told. */
static const struct sbx_member *waiting_parent(struct sbx_tree *tree,
                                               const struct sbx_member *member)
{
    const struct sbx_member *parent = sbx_tree_find(tree, member->stat.ppid);
    return parent != NULL && !parent->refused && sbx_polite_waits(tree, parent) ? parent
                                                                                : NULL;
}

/* Parents before their children: a shell whose command ends would go on to the next one,
 * were it not told by then. And who only waits for a child is dead when that is told: one
 * that has not yet got a processor to die on would still take the child's status, and
 * then die with it. Without waiting for long: most die at once, and one in state D not at
 * all. */
static uint64_t tell_members(struct sweep *sweep, int signal_number)
{
    uint64_t signalled = 0;
    uint64_t until_us = 0;
    for (size_t i = 0; i < sbx_tree_count(sweep->tree); i++) {
        struct sbx_member *member = sbx_tree_member(sweep->tree, i);
        if (!member->hears) {
            continue;
        }
        const struct sbx_member *parent = waiting_parent(sweep->tree, member);
        if (parent != NULL) {
            until_us = until_us != 0 ? until_us : sbx_clock_us() + SBX_POLITE_BOUND_US;
            await_end(sweep, parent, until_us);
        }
        signalled += signal_member(sweep, member, signal_number) == 0 ? 1U : 0U;
        if (sbx_polite_waits(sweep->tree, member)) {
            (void)signal_member(sweep, member, SIGCONT); /* a stopped one does not die */
        }
    }
    return signalled;
}

uint64_t sbx_polite(struct sbx_tree *tree, int proc_fd, int signal_number)
{
    struct sweep sweep = {.tree = tree, .proc_fd = proc_fd, .self = getpid()};
    sbx_polite_choose(tree, proc_fd, signal_number);
    uint64_t signalled = tell_members(&sweep, signal_number);
    signalled += tell_launchers(&sweep, signal_number);
    for (size_t i = 0; i < sbx_tree_count(tree); i++) {
        struct sbx_member *member = sbx_tree_member(tree, i);
        if (!sbx_member_ended(member)) {
            (void)signal_member(&sweep, member, SIGCONT);
        }
    }
    return signalled;
}
