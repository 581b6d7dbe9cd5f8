/*
 * output.c - what the monitor does about the command's output: the servants' news, the
 * limits --output and --idle, and what is left to be passed on when the tree is over.
 *
 * The copying is the servants' (passer.h): the monitor reads their figures, and never
 * touches a pipe's contents or its target.
 */
#include "monitor/watch_private.h"

#include "base/clock.h"
#include "base/error.h"

#include <errno.h>
#include <unistd.h>

/* After a sample that failed. */
#define IDLE_RETRY_US 20000U

static uint64_t written_bytes(const struct sbx_watch *watch)
{
    return atomic_load(&watch->capture->area->seen_bytes);
}

static struct sbx_breach output_breach(const struct sbx_watch *watch)
{
    uint64_t crossed_us = atomic_load(&watch->capture->area->crossed_us);
    struct sbx_sample now = {.output_bytes = written_bytes(watch)};
    now.elapsed_us = crossed_us > watch->launched_us ? crossed_us - watch->launched_us
                                                     : sbx_watch_elapsed_us(watch);
    return sbx_breach_of(SBX_REASON_OUTPUT, &watch->spec->limits, &now);
}

static bool is_too_much(const struct sbx_watch *watch)
{
    uint64_t limit = watch->spec->limits.output_bytes;
    return limit != 0 && written_bytes(watch) > limit;
}

static bool is_closed(const struct sbx_watch *watch)
{
    const struct sbx_capture *capture = watch->capture;
    for (size_t i = 0; i < capture->count; i++) {
        if (atomic_load(&capture->area->streams[i].closed)) {
            return true;
        }
    }
    return false;
}

/* --- the servants' news --- */

static void on_output(void *context)
{
    struct sbx_watch *watch = context;
    uint64_t news;
    (void)!read(watch->capture->notice_event, &news, sizeof news);
    if (is_too_much(watch)) {
        struct sbx_breach breach = output_breach(watch);
        sbx_watch_breach(watch, &breach);
    }
    if (is_closed(watch)) {
        sbx_watch_breach_plain(watch, SBX_REASON_OUTPUT_CLOSED);
    }
}

/* One that has drained its pipe is through. One that was killed leaves the
 * command with a pipe that nobody empties, and us without a count. */
static void servant_ended(struct sbx_watch *watch, size_t index)
{
    sbx_source_free(watch->on_servants[index]);
    watch->on_servants[index] = NULL;
    if (atomic_load(&watch->capture->area->streams[index].drained) ||
        !sbx_terminate_judges(&watch->terminate)) {
        return;
    }
    sbx_record_warn(watch->record, "%s: the process that passes it on was killed",
                    watch->capture->streams[index].name);
    sbx_watch_breach_plain(watch, SBX_REASON_UNMEASURABLE);
}

static void on_first_servant(void *context)
{
    servant_ended(context, 0);
}

static void on_second_servant(void *context)
{
    servant_ended(context, 1);
}

/* --- idleness --- */

/* Who waits for a processor is not idle, however long that takes. */
static bool has_runnable(const struct sbx_watch *watch)
{
    for (size_t i = 0; i < sbx_tree_count(watch->tree); i++) {
        const struct sbx_member *member = sbx_tree_member(watch->tree, i);
        if (!sbx_member_ended(member) && member->stat.state == 'R') {
            return true;
        }
    }
    return false;
}

void sbx_watch_note_output(struct sbx_watch *watch, struct sbx_sample *sample,
                           uint64_t at_us)
{
    if (watch->capture->count == 0) {
        return;
    }
    sbx_capture_continue(watch->capture);
    sample->output_bytes = written_bytes(watch);
    watch->record->usage.output_bytes = sample->output_bytes;
    if (watch->spec->limits.idle_us != 0 &&
        (sample->cpu_us > watch->active_cpu_us || has_runnable(watch))) {
        watch->active_us = at_us;
        watch->active_cpu_us = sample->cpu_us;
    }
}

/* What was written and not taken by its reader is not idleness of the tree. */
static uint64_t last_active_us(const struct sbx_watch *watch)
{
    if (sbx_capture_is_pending(watch->capture)) {
        return sbx_clock_us();
    }
    uint64_t written_us = atomic_load(&watch->capture->area->active_us);
    return written_us > watch->active_us ? written_us : watch->active_us;
}

static void arm_idle(struct sbx_watch *watch, uint64_t at_us)
{
    (void)sbx_source_arm(watch->on_idle, at_us);
}

/* Looks again before it judges: what the last sample saw may be old. */
static void on_idle(void *context)
{
    struct sbx_watch *watch = context;
    uint64_t idle = watch->spec->limits.idle_us;
    uint64_t samples = watch->record->sampling.samples;
    uint64_t due_us = sbx_clock_add(last_active_us(watch), idle);
    if (!sbx_terminate_judges(&watch->terminate) || watch->pause.on) {
        return;
    }
    if (sbx_clock_us() < due_us) {
        arm_idle(watch, due_us);
        return;
    }
    sbx_watch_on_sample(watch);
    if (watch->record->sampling.samples == samples) {
        arm_idle(watch, sbx_clock_us() + IDLE_RETRY_US);
        return;
    }
    uint64_t active_us = last_active_us(watch);
    uint64_t now_us = sbx_clock_us();
    if (now_us < sbx_clock_add(active_us, idle)) {
        arm_idle(watch, sbx_clock_add(active_us, idle));
        return;
    }
    if (!sbx_terminate_judges(&watch->terminate)) {
        return; /* another limit was crossed */
    }
    sbx_watch_reap(watch); /* a leader that is dead by now has ended in time */
    struct sbx_sample now = {.elapsed_us = now_us - watch->launched_us,
                             .idle_us = now_us - active_us};
    struct sbx_breach breach = sbx_breach_of(SBX_REASON_IDLE, &watch->spec->limits, &now);
    sbx_watch_breach(watch, &breach);
}

void sbx_watch_start_idle(struct sbx_watch *watch)
{
    uint64_t idle = watch->spec->limits.idle_us;
    watch->active_us = watch->launched_us;
    if (idle != 0) {
        arm_idle(watch, sbx_clock_add(watch->launched_us, idle));
    }
}

void sbx_watch_restart_idle(struct sbx_watch *watch)
{
    watch->active_us = sbx_clock_us();
    if (watch->spec->limits.idle_us != 0) {
        arm_idle(watch, sbx_clock_add(watch->active_us, watch->spec->limits.idle_us));
    }
}

/* --- from the beginning to the end --- */

int sbx_watch_open_output(struct sbx_watch *watch, struct sbx_error *err)
{
    static sbx_callback *const on_servant[] = {on_first_servant, on_second_servant};
    struct sbx_capture *capture = watch->capture;
    if (capture->count == 0) {
        return 0;
    }
    int r = sbx_loop_add_fd(watch->loop, capture->notice_event, on_output, watch,
                            &watch->on_output);
    r = r < 0 ? r : sbx_loop_add_timer(watch->loop, on_idle, watch, &watch->on_idle);
    for (size_t i = 0; i < SBX_CAPTURE_MAX && i < capture->count && r == 0; i++) {
        r = sbx_loop_add_fd(watch->loop, capture->streams[i].servant.pidfd, on_servant[i],
                            watch, &watch->on_servants[i]);
    }
    return r < 0 ? sbx_error_set(err, ENOMEM, SBX_STAGE_LAUNCH,
                                 "the event loop cannot watch output: no memory")
                 : 0;
}

void sbx_watch_close_output(struct sbx_watch *watch)
{
    sbx_source_free(watch->on_output);
    sbx_source_free(watch->on_idle);
    for (size_t i = 0; i < SBX_CAPTURE_MAX; i++) {
        sbx_source_free(watch->on_servants[i]);
    }
}

/* Somebody asks us to end who does not know that the tree has ended. */
static bool is_cancelled(void *context)
{
    const struct sbx_watch *watch = context;
    struct sbx_pair_message message;
    while (sbx_pair_receive(watch->link->socket, &message) == 1) {
        if (message.kind == SBX_MESSAGE_CANCEL ||
            message.kind == SBX_MESSAGE_CALLER_LOST) {
            return true;
        }
    }
    return false;
}

void sbx_watch_drain_output(struct sbx_watch *watch)
{
    struct sbx_record *record = watch->record;
    sbx_capture_finish(watch->capture, record, watch->link->socket, is_cancelled, watch);
    /* What the tree has written is counted when it is read, but was written while limits
     * were judged. */
    bool ended_by_us =
        record->breach.reason != SBX_REASON_NONE || record->cancel_signal != 0;
    if (!ended_by_us && watch->leader_ended && is_too_much(watch)) {
        record->breach = output_breach(watch);
    }
}
