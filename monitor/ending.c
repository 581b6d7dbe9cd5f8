/*
 * ending.c - verdicts and the way to the end: who has ended, what follows, and the steps
 * of the termination machine carried out. The only file that reaps in the monitor, so
 * that nobody takes the leader's status away from us.
 */
#include "monitor/watch_private.h"

#include "base/clock.h"
#include "base/error.h"
#include "reaper/polite.h"
#include "reaper/sweep.h"
#include "reaper/wrapper.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* The kernel holds the CPU ceiling by ticks, each charged whole to who runs when it
 * comes; the figures that we read are exact. On a busy machine the two have been seen
 * more than a quarter apart in the first second. A leader killed at its hard ceiling may
 * show less than it by one part of these, and by that much in any case. */
#define CPU_SLACK_PART 4U
#define CPU_SLACK_US (SBX_US_PER_S / 2U)

static void carry_out(struct sbx_watch *watch, enum sbx_step step);

uint64_t sbx_watch_elapsed_us(const struct sbx_watch *watch)
{
    return sbx_clock_us() - watch->launched_us;
}

/* --- the end of the leader --- */

static uint64_t nearly_us(rlim_t seconds)
{
    if (seconds > UINT64_MAX / SBX_US_PER_S) {
        return SBX_FOREVER_US;
    }
    uint64_t limit_us = (uint64_t)seconds * SBX_US_PER_S;
    uint64_t slack_us = limit_us / CPU_SLACK_PART;
    slack_us = slack_us > CPU_SLACK_US ? slack_us : CPU_SLACK_US;
    return limit_us > slack_us ? limit_us - slack_us : 0;
}

/* Which ceiling ended the leader, if one did; -1 else. */
static int ceiling_that_fired(const struct sbx_watch *watch, int signal_number)
{
    for (int i = 0; i < SBX_CEILING_COUNT; i++) {
        const struct sbx_ceiling *ceiling = &watch->spec->ceilings[i];
        int resource = sbx_ceiling_kinds[i].resource;
        if (!ceiling->asked) {
            continue;
        }
        if (resource == RLIMIT_FSIZE && signal_number == SIGXFSZ) {
            return i;
        }
        if (resource != RLIMIT_CPU) {
            continue;
        }
        /* SIGKILL comes at the hard limit, and only then is it the ceiling's. */
        bool at_hard = ceiling->hard != RLIM_INFINITY &&
                       watch->leader_cpu_us >= nearly_us(ceiling->hard);
        if (signal_number == SIGXCPU || (signal_number == SIGKILL && at_hard)) {
            return i;
        }
    }
    return -1;
}

static void note_ceiling(struct sbx_watch *watch, int signal_number)
{
    int index = ceiling_that_fired(watch, signal_number);
    if (index < 0 || watch->record->breach.reason != SBX_REASON_NONE) {
        return;
    }
    const struct sbx_ceiling *ceiling = &watch->spec->ceilings[index];
    struct sbx_breach breach = {
        .reason = SBX_REASON_CEILING,
        .ceiling = index,
        .limit = ceiling->soft,
        .observed = SBX_UNKNOWN,
        .at_us = sbx_watch_elapsed_us(watch),
    };
    if (sbx_ceiling_kinds[index].resource == RLIMIT_CPU) {
        rlim_t reached = signal_number == SIGKILL ? ceiling->hard : ceiling->soft;
        breach.limit = reached * SBX_US_PER_S;
        breach.observed = watch->leader_cpu_us;
    }
    watch->record->breach = breach;
}

static void take_leader_end(struct sbx_watch *watch, int status)
{
    struct sbx_record *record = watch->record;
    watch->leader_ended = true;
    record->usage.wall_us = sbx_watch_elapsed_us(watch);
    if (WIFEXITED(status)) {
        record->exit_code = WEXITSTATUS(status);
        record->has_exit_code = true;
    } else {
        record->signal = WTERMSIG(status);
        record->core_dumped = WCOREDUMP(status);
        if (sbx_terminate_judges(&watch->terminate)) {
            note_ceiling(watch, record->signal);
        }
    }
    if (watch->ending_us == 0) {
        watch->ending_us = sbx_clock_us();
    }
}

/* Its own CPU is in its zombie's stat, and nowhere else: wait's figures include its
 * children. */
static void look_at_dead_leader(struct sbx_watch *watch)
{
    siginfo_t info = {0};
    struct sbx_proc_stat stat;
    if (!watch->leader_ended &&
        waitid(P_PID, (id_t)watch->leader, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == watch->leader &&
        sbx_proc_stat_at(watch->proc_fd, watch->leader, &stat) == 0) {
        watch->leader_cpu_us = sbx_proc_own_cpu_us(&stat);
        sbx_watch_take_noted_cpu(watch);
    }
}

/* Reaps everybody who has ended. 0 while children are left, -ECHILD when there are none:
 * the proof. */
static int reap(void *context)
{
    struct sbx_watch *watch = context;
    look_at_dead_leader(watch);
    for (;;) {
        int status = 0;
        struct rusage rusage;
        pid_t pid = wait4(-1, &status, WNOHANG | __WALL, &rusage);
        if (pid == 0) {
            return 0;
        }
        if (pid < 0) {
            if (errno == EINTR) {
                continue;
            }
            return -errno;
        }
        sbx_watch_hear_of_heir(watch, pid, status);
        bool known = sbx_tree_reaped(watch->tree, pid);
        sbx_meter_reaped(&watch->meter, &rusage, known);
        if (pid == watch->leader && !watch->leader_ended) {
            take_leader_end(watch, sbx_watch_status_of_command(watch, status));
        }
    }
}

bool sbx_watch_reap_all(struct sbx_watch *watch)
{
    return reap(watch) == -ECHILD;
}

void sbx_watch_note_stray(struct sbx_watch *watch, const struct sbx_member *member)
{
    if (watch->leader_ended && !member->wrapper &&
        !sbx_watch_is_heir(watch, member->stat.pid)) {
        sbx_record_stray(watch->record, member->stat.pid, member->stat.name);
    }
}

static void note_stray(const struct sbx_member *member, void *context)
{
    sbx_watch_note_stray(context, member);
}

static void note_strays(struct sbx_watch *watch)
{
    struct sbx_error ignored;
    /* Not that of the run: the leader may have ended just in time. */
    sbx_tree_set_deadline(watch->tree, sbx_clock_us() + SBX_SWEEP_BOUND_US);
    (void)sbx_tree_walk(watch->tree, NULL, &ignored); /* a failed walk: whom it met */
    sbx_wrapper_mark(watch->tree, watch->proc_fd);
    for (size_t i = 0; i < sbx_tree_count(watch->tree); i++) {
        const struct sbx_member *member = sbx_tree_member(watch->tree, i);
        if (!sbx_member_ended(member)) {
            note_stray(member, watch);
        }
    }
}

/* Reaps, and tells the termination machine what that showed. */
void sbx_watch_reap(struct sbx_watch *watch)
{
    if (watch->attach.on) {
        sbx_attach_look(watch); /* that we have no child says nothing */
        return;
    }
    bool ended_before = watch->leader_ended;
    bool empty = reap(watch) == -ECHILD;
    sbx_watch_judge_group(watch); /* what the kernel has counted by now comes first */
    if (empty) {
        watch->record->termination.proof = SBX_PROOF_NO_CHILDREN;
        carry_out(watch,
                  sbx_terminate_next(&watch->terminate, SBX_EVENT_EMPTY, sbx_clock_us()));
        return;
    }
    if (watch->leader_ended && !ended_before) {
        carry_out(watch, sbx_terminate_next(&watch->terminate, SBX_EVENT_LEADER_ENDED,
                                            sbx_clock_us()));
    }
}

static void note_survivor(const struct sbx_member *member, const char *why, void *context)
{
    struct sbx_watch *watch = context;
    sbx_record_survivor(watch->record, member->stat.pid, member->stat.name, why);
}

void sbx_watch_sweep(struct sbx_watch *watch)
{
    if (watch->attach.on) {
        sbx_attach_sweep(watch);
        return;
    }
    struct sbx_termination *termination = &watch->record->termination;
    struct sbx_sweep_hooks hooks = {
        .reap = reap, .met = note_stray, .survivor = note_survivor, .context = watch};
    struct sbx_sweep_result result = {0};
    if (sbx_watch_kill_group(watch)) {
        termination->proof = SBX_PROOF_NO_CHILDREN;
        return;
    }
    int r = sbx_sweep(watch->tree, watch->proc_fd, &hooks, &result);
    if (r < 0) {
        sbx_record_warn(watch->record,
                        "the tree could not be read while it was swept: %s",
                        sbx_errno_name(-r));
    }
    sbx_watch_count_killed(watch, result.killed_count);
    termination->escalated = termination->killed_count > 0;
    if (watch->record->kill == SBX_KILL_NONE) {
        watch->record->kill = result.by_namespace ? SBX_KILL_NAMESPACE : SBX_KILL_SWEEP;
    }
    if (result.empty) {
        termination->proof = SBX_PROOF_NO_CHILDREN;
    } else if (termination->survivors_count == 0) {
        /* Children are left that /proc does not show to us. */
        sbx_record_survivor(watch->record, 0, "", "hidden from /proc");
    }
}

static void signal_politely(struct sbx_watch *watch)
{
    struct sbx_error ignored;
    /* The deadline of the run has passed when this is its end, and would cut the walk
     * short. */
    sbx_tree_set_deadline(watch->tree, watch->terminate.deadline_us);
    if (watch->attach.on) {
        sbx_attach_meet_all(watch);
    } else {
        /* After a failed walk: whom we know. */
        (void)sbx_tree_walk(watch->tree, NULL, &ignored);
    }
    sbx_wrapper_mark(watch->tree, watch->proc_fd); /* some are younger than the sample */
    watch->record->termination.signal = watch->spec->signal;
    if (watch->spec->pid_namespace) { /* the init has to know whom it will reap */
        sbx_polite_choose(watch->tree, watch->proc_fd, watch->spec->signal);
        sbx_watch_name_heir(watch);
    }
    (void)sbx_polite(watch->tree, watch->proc_fd, watch->spec->signal);
    if (watch->attach.on) {
        return; /* whose end would tell us nothing, as we reap nobody */
    }
    sbx_watch_note_command(watch); /* it may be younger than the last sample */
    if (!watch->spec->pid_namespace) {
        sbx_watch_name_heir(watch);
    }
}

void sbx_watch_set_overdue(struct sbx_watch *watch)
{
    uint64_t end = watch->terminate.deadline_us;
    if (sbx_terminate_judges(&watch->terminate)) {
        end = watch->spec->limits.wall_us == 0
                  ? SBX_FOREVER_US
                  : sbx_clock_add(watch->launched_us, watch->spec->limits.wall_us);
        end = sbx_clock_add(end, watch->spec->grace_us);
    } else if (end == SBX_FOREVER_US) {
        end = sbx_clock_us();
    }
    atomic_store(&watch->link->pair->overdue_us,
                 sbx_clock_add(end, SBX_SWEEP_PATIENCE_US));
}

static void carry_out(struct sbx_watch *watch, enum sbx_step step)
{
    if (step != SBX_STEP_NONE && watch->ending_us == 0) {
        watch->ending_us = sbx_clock_us();
    }
    sbx_watch_set_overdue(watch);
    sbx_logger_look(watch->logger, watch->record, watch->terminate.phase);
    sbx_watch_tell_news(watch);
    switch (step) {
    case SBX_STEP_SIGNAL:
        sbx_watch_let_go(watch);
        signal_politely(watch);
        break;
    case SBX_STEP_SWEEP: /* reaches also those who are held */
        sbx_watch_sweep(watch);
        sbx_loop_stop(watch->loop);
        return;
    case SBX_STEP_FINISH:
        sbx_watch_let_go(watch);
        if (watch->spec->strays == SBX_STRAYS_KEEP) {
            note_strays(watch);
        }
        sbx_loop_stop(watch->loop);
        return;
    case SBX_STEP_NONE:
        break;
    }
    (void)sbx_source_arm(watch->on_phase, watch->terminate.deadline_us);
}

/* Memory and counts grow while one waits: no grace, unless it was asked for. */
static bool gets_grace(const struct sbx_watch *watch, enum sbx_reason reason)
{
    bool urgent = reason == SBX_REASON_MEMORY || reason == SBX_REASON_PROCESSES ||
                  reason == SBX_REASON_THREADS;
    return !urgent || watch->spec->grace_asked;
}

void sbx_watch_breach(struct sbx_watch *watch, const struct sbx_breach *breach)
{
    if (!sbx_terminate_judges(&watch->terminate)) {
        return; /* the first reason has won, or clean-up has begun */
    }
    if (watch->attach.on && watch->attach.observes) {
        sbx_attach_leave(watch, sbx_reason_name(breach->reason));
        return;
    }
    watch->record->breach = *breach;
    enum sbx_event event =
        gets_grace(watch, breach->reason) ? SBX_EVENT_STOP_POLITE : SBX_EVENT_STOP_NOW;
    carry_out(watch, sbx_terminate_next(&watch->terminate, event, sbx_clock_us()));
}

void sbx_watch_breach_plain(struct sbx_watch *watch, enum sbx_reason reason)
{
    struct sbx_breach plain = {.reason = reason,
                               .ceiling = -1,
                               .limit = SBX_UNKNOWN,
                               .observed = SBX_UNKNOWN,
                               .at_us = sbx_watch_elapsed_us(watch)};
    sbx_watch_breach(watch, &plain);
}

/* A signal to our process group, or to all of a service, reaches guard and monitor: one
 * request that comes twice, and no second one. */
static bool is_echo(struct sbx_watch *watch, int signal_number, bool direct)
{
    if (!watch->echo_due || watch->echo_direct != direct ||
        watch->record->cancel_signal != signal_number) {
        return false;
    }
    watch->echo_due = false;
    return true;
}

void sbx_watch_cancel(struct sbx_watch *watch, int signal_number, bool direct)
{
    if (watch->attach.on && watch->attach.observes) {
        sbx_attach_leave(watch, NULL);
        return;
    }
    if (is_echo(watch, signal_number, direct)) {
        return;
    }
    enum sbx_event event = SBX_EVENT_STOP_NOW; /* a second one skips the grace */
    if (sbx_terminate_judges(&watch->terminate)) {
        watch->echo_due = true;
        watch->echo_direct = !direct;
        watch->record->cancel_signal = signal_number;
        event = SBX_EVENT_STOP_POLITE;
    }
    carry_out(watch, sbx_terminate_next(&watch->terminate, event, sbx_clock_us()));
}

void sbx_watch_empty(struct sbx_watch *watch)
{
    carry_out(watch,
              sbx_terminate_next(&watch->terminate, SBX_EVENT_EMPTY, sbx_clock_us()));
}

void sbx_watch_phase_over(struct sbx_watch *watch)
{
    carry_out(watch,
              sbx_terminate_next(&watch->terminate, SBX_EVENT_TIME, sbx_clock_us()));
}
