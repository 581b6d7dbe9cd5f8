/*
 * events.c - what the event loop calls: the next sample, the deadline, signals, the
 * guard's messages and its death. Decides nothing by itself but when to look again.
 */
#include "monitor/notice.h"
#include "monitor/watch_private.h"

#include "base/clock.h"
#include "reaper/pidref.h"
#include "reaper/wrapper.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* So many samples in a row may fail, this far apart, before the tree counts as
 * unmeasurable. */
#define UNMEASURED_MAX 5
#define UNMEASURED_RETRY_US 20000U

/* A sample that young is as good as a new one; also what bounds the cost of being asked
 * without end. */
#define USAGE_FRESH_US 50000U

static void warn_if_near(struct sbx_watch *watch, const struct sbx_sample *sample)
{
    struct sbx_limits limits = watch->spec->limits;
    const struct sbx_armed *armed = &watch->record->armed;
    if (armed->swap_bytes != SBX_UNKNOWN && armed->swap_bytes < SBX_UNKNOWN / 2) {
        limits.memory_bytes += armed->swap_bytes; /* the sample's memory is with swap */
    }
    unsigned near = sbx_near(&limits, sample, watch->spec->warn_percent) & ~watch->warned;
    watch->warned |= near;
    for (int reason = 0; near != 0; reason++, near >>= 1U) {
        if ((near & 1U) == 0) {
            continue;
        }
        struct sbx_breach at = sbx_breach_of((enum sbx_reason)reason, &limits, sample);
        const char *unit = sbx_breach_unit(&at);
        sbx_record_warn(watch->record, "%s is near its limit: %llu of %llu %s",
                        sbx_reason_name(at.reason), (unsigned long long)at.observed,
                        (unsigned long long)at.limit, unit != NULL ? unit : "");
    }
}

/* One that is named stays named: whoever is left when it has ended is a stray. Unless it
 * was a launcher itself, and is known as one now. */
static bool is_named(const struct sbx_watch *watch)
{
    const struct sbx_record *record = watch->record;
    const struct sbx_member *named = sbx_tree_find(watch->tree, record->leader_pid);
    return record->leader_pid != watch->leader && (named == NULL || !named->wrapper);
}

void sbx_watch_tell_news(struct sbx_watch *watch)
{
    const struct sbx_record *record = watch->record;
    unsigned news = 0;
    if (!watch->tells) {
        return;
    }
    if (record->warnings_count != watch->told_warnings) {
        watch->told_warnings = record->warnings_count;
        news |= SBX_NEWS_WARNING;
    }
    if (record->breach.reason != SBX_REASON_NONE && !watch->told_breach) {
        watch->told_breach = true;
        news |= SBX_NEWS_BREACH;
    }
    if (news != 0) {
        sbx_pair_send(watch->link->socket, SBX_MESSAGE_NEWS, (int)news);
    }
}

void sbx_watch_note_command(struct sbx_watch *watch)
{
    pid_t command = sbx_wrapper_command(watch->tree, watch->leader);
    if (command != 0 && command != watch->leader && !is_named(watch)) {
        watch->record->leader_pid = command;
        watch->record->wrapper_pid = watch->leader;
    }
}

static void note_sampling(struct sbx_watch *watch, uint64_t at_us)
{
    struct sbx_sampling *sampling = &watch->record->sampling;
    if (watch->last_at_us != 0) {
        uint64_t gap = at_us - watch->last_at_us;
        if (sampling->max_gap_us == SBX_UNKNOWN || gap > sampling->max_gap_us) {
            sampling->max_gap_us = gap;
        }
    }
    sampling->samples++;
    watch->last_at_us = at_us;
}

/* For who asks meanwhile: see usage.h. */
static void note_current(struct sbx_watch *watch, const struct sbx_sample *now,
                         uint64_t at_us)
{
    struct sbx_current *current = &watch->record->current;
    current->memory_is_bound = now->memory_bytes == SBX_UNKNOWN;
    current->memory_bytes =
        current->memory_is_bound ? now->memory_bound_bytes : now->memory_bytes;
    current->processes = now->processes;
    current->threads = now->threads;
    current->sampled_us = at_us;
}

static void arm_sample(struct sbx_watch *watch, uint64_t at_us)
{
    (void)sbx_source_arm(watch->on_sample, at_us);
    atomic_store(&watch->link->pair->due_us, at_us);
}

static void fail_sample(struct sbx_watch *watch, const struct sbx_error *err)
{
    if (err->code == ETIME) {
        return; /* the deadline has come meanwhile: its timer is next */
    }
    if (++watch->unmeasured < UNMEASURED_MAX) {
        arm_sample(watch, sbx_clock_us() + UNMEASURED_RETRY_US);
        return;
    }
    sbx_record_warn(watch->record, "%s", err->message);
    sbx_watch_breach_plain(watch, SBX_REASON_UNMEASURABLE);
}

/* Those that a sample can cross. The deadline has its own timer, which asks first whether
 * the leader has ended; memory that the kernel holds is judged by the kernel's counters,
 * as long as it does hold it. */
static struct sbx_limits judged_limits(const struct sbx_watch *watch)
{
    struct sbx_limits limits = watch->spec->limits;
    limits.wall_us = 0;
    if (watch->record->armed.memory_bytes != SBX_UNKNOWN) {
        limits.memory_bytes = 0;
    }
    return limits;
}

/* Memory that the kernel should hold, and does not. */
static bool is_out_of_hand(const struct sbx_watch *watch, const struct sbx_sample *now,
                           struct sbx_breach *ret_breach)
{
    if (watch->record->armed.memory_bytes == SBX_UNKNOWN ||
        now->memory_bytes == SBX_UNKNOWN ||
        now->memory_bytes <= sbx_watch_backstop_bytes(watch)) {
        return false;
    }
    *ret_breach = sbx_breach_of(SBX_REASON_MEMORY, &watch->spec->limits, now);
    return true;
}

void sbx_watch_on_sample(void *context)
{
    struct sbx_watch *watch = context;
    uint64_t started = sbx_clock_us();
    uint64_t cpu_before = sbx_clock_cpu_us();
    struct sbx_sample now;
    struct sbx_error error;
    sbx_watch_read_group(watch);
    if (sbx_meter_sample(&watch->meter, watch->tree, started - watch->launched_us, &now,
                         &error) < 0) {
        fail_sample(watch, &error);
        return;
    }
    watch->unmeasured = 0;
    if (watch->attach.group.on) {
        sbx_attach_group_figures(watch, &now);
    }
    note_sampling(watch, started);
    sbx_watch_note_output(watch, &now, started);
    note_current(watch, &now, started);
    if (watch->attach.on) {
        sbx_attach_sampled(watch);
    } else {
        sbx_watch_note_command(watch);
        sbx_watch_note_namespace(watch);
        sbx_watch_nudge_front(watch);
        sbx_watch_keep_paused(watch);
    }
    sbx_logger_row(watch->logger, &now);
    struct sbx_pace pace = {.interval_us = watch->spec->interval_us,
                            .cpus = watch->cpus,
                            .cost_us = sbx_clock_cpu_us() - cpu_before};
    const struct sbx_limits limits = judged_limits(watch);
    uint64_t period = sbx_period(
        &limits, watch->record->sampling.samples > 1 ? &watch->last : NULL, &now, &pace);
    watch->last = now;
    watch->record->sampling.monitor_cpu_us = cpu_before + pace.cost_us;
    if (!sbx_terminate_judges(&watch->terminate)) {
        /* Nothing hangs on a limit any more, however near it is. */
        arm_sample(watch, started + watch->spec->interval_us);
        return;
    }
    arm_sample(watch, started + period);
    warn_if_near(watch, &now);
    sbx_watch_tell_news(watch);
    sbx_logger_look(watch->logger, watch->record, watch->terminate.phase);
    struct sbx_breach crossed;
    sbx_watch_judge_group(watch);
    if (sbx_judge(&limits, &now, &crossed) || is_out_of_hand(watch, &now, &crossed)) {
        sbx_watch_breach(watch, &crossed);
    }
}

/* The kernel tells no time of exit: a leader that is dead when the deadline is looked at
 * has exited in time. */
void sbx_watch_on_deadline(void *context)
{
    struct sbx_watch *watch = context;
    uint64_t wall = watch->spec->limits.wall_us;
    if (sbx_watch_elapsed_us(watch) < wall) {
        (void)sbx_source_arm(watch->on_wall, sbx_clock_add(watch->launched_us, wall));
        return;
    }
    sbx_watch_reap(watch);
    struct sbx_sample now = {.elapsed_us = sbx_watch_elapsed_us(watch)};
    struct sbx_breach crossed =
        sbx_breach_of(SBX_REASON_WALL, &watch->spec->limits, &now);
    sbx_watch_breach(watch, &crossed);
}

void sbx_watch_on_phase(void *context)
{
    sbx_watch_phase_over(context);
}

static void look_at_stopped_leader(struct sbx_watch *watch)
{
    siginfo_t info = {0};
    if (watch->leader_ended || watch->attach.on ||
        waitid(P_PID, (id_t)watch->leader, &info, WSTOPPED | WNOHANG) < 0 ||
        info.si_pid != watch->leader || info.si_code != CLD_STOPPED) {
        return;
    }
    watch->stops++;
    sbx_pair_send(watch->link->socket, SBX_MESSAGE_STOPPED, info.si_status);
}

void sbx_watch_on_signals(void *context)
{
    struct sbx_watch *watch = context;
    struct signalfd_siginfo info;
    bool child = false;
    while (read(watch->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if ((int)info.ssi_signo == SIGCHLD) {
            child = true;
        } else if (sigismember(&watch->link->inherited_ignored, (int)info.ssi_signo) !=
                   1) {
            sbx_watch_cancel(watch, (int)info.ssi_signo, true);
        }
    }
    if (child) {
        look_at_stopped_leader(watch);
        sbx_watch_reap(watch);
    }
}

void sbx_watch_pass(struct sbx_watch *watch, int signal_number)
{
    if (watch->attach.on) {
        if (signal_number == SIGTSTP) {
            /* ^Z is meant for us alone: the guard stops, and we go on. */
            sbx_pair_send(watch->link->socket, SBX_MESSAGE_STOPPED, SIGTSTP);
        }
        return;
    }
    if (watch->leader_ended) {
        return; /* its pid, and its group's, may be somebody else's by now */
    }
    if (sbx_watch_holds_back(watch, signal_number)) {
        return;
    }
    if (!watch->own_group ||
        sbx_child_group_signal(watch->leader, signal_number) == -ESRCH) {
        (void)sbx_child_signal(watch->leader, signal_number); /* has left its group */
    }
}

/* The guard was continued after so many stops of the leader. Late news, where the
 * terminal has stopped the leader again: that stop has to be answered by a new one. */
static void continue_command(struct sbx_watch *watch, int stops)
{
    look_at_stopped_leader(watch);
    if (watch->stops == stops) {
        sbx_watch_pass(watch, SIGCONT);
    }
}

/* Somebody wants to know: a sample out of turn, unless there has just been one. It is
 * judged like any other. */
static void answer_usage(struct sbx_watch *watch)
{
    if (sbx_clock_us() - watch->last_at_us >= USAGE_FRESH_US) {
        sbx_watch_on_sample(watch);
    }
    sbx_pair_send(watch->link->socket, SBX_MESSAGE_USAGE, 0);
}

void sbx_watch_on_messages(void *context)
{
    struct sbx_watch *watch = context;
    struct sbx_pair_message message;
    int r;
    while ((r = sbx_pair_receive(watch->link->socket, &message)) == 1) {
        if (message.kind == SBX_MESSAGE_CANCEL) {
            sbx_watch_cancel(watch, message.value, false);
        } else if (message.kind == SBX_MESSAGE_PASS) {
            sbx_watch_pass(watch, message.value);
        } else if (message.kind == SBX_MESSAGE_CONTINUE) {
            continue_command(watch, message.value);
        } else if (message.kind == SBX_MESSAGE_CALLER_LOST) {
            sbx_watch_breach_plain(watch, SBX_REASON_CALLER_LOST);
        } else if (message.kind == SBX_MESSAGE_FRONT_LOST) {
            sbx_watch_breach_plain(watch, SBX_REASON_GUARD_LOST);
        } else if (message.kind == SBX_MESSAGE_USAGE) {
            answer_usage(watch);
        } else if (message.kind == SBX_MESSAGE_PAUSE) {
            sbx_watch_pause(watch);
        } else if (message.kind == SBX_MESSAGE_RESUME) {
            sbx_watch_resume(watch);
        }
    }
    if (r < 0) {
        sbx_source_free(watch->on_socket); /* its pidfd tells the rest */
        watch->on_socket = NULL;
    }
}

void sbx_watch_on_guard_lost(void *context)
{
    struct sbx_watch *watch = context;
    sbx_source_free(watch->on_guard);
    watch->on_guard = NULL;
    sbx_watch_breach_plain(watch, SBX_REASON_GUARD_LOST);
}
