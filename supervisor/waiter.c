/*
 * waiter.c - who waits for what. A waiter that is done moves to one list of the
 * supervisor, which the loop works off: no callback runs inside of the call that made it
 * due, so that it may do anything, also remove what it waited for.
 */
#include "supervisor/supervisor_private.h"

#include "base/clock.h"
#include "supervisor/journal.h"
#include "supervisor/stream.h"

#include <errno.h>
#include <stdlib.h>

struct sbx_waiter *sbx_waiter_new(struct sbx_execution *execution,
                                  enum sbx_waiter_kind kind, sbx_done_callback *done,
                                  void *context)
{
    struct sbx_waiter *waiter = calloc(1, sizeof *waiter);
    if (waiter != NULL) {
        waiter->supervisor = execution->supervisor;
        waiter->execution = execution;
        waiter->kind = kind;
        waiter->done = done;
        waiter->context = context;
        TAILQ_INSERT_TAIL(&execution->waiters, waiter, link);
        execution->supervisor->stats.waiters_count++;
    }
    return waiter;
}

static void take_out(struct sbx_waiter *waiter)
{
    struct sbx_waiters *list = waiter->execution != NULL ? &waiter->execution->waiters
                                                         : &waiter->supervisor->due;
    TAILQ_REMOVE(list, waiter, link);
}

void sbx_waiter_free(struct sbx_waiter *waiter)
{
    if (waiter != NULL) {
        take_out(waiter);
        waiter->supervisor->stats.waiters_count--;
        free(waiter);
    }
}

void sbx_waiter_finish(struct sbx_waiter *waiter, int code)
{
    struct sbx_supervisor *supervisor = waiter->supervisor;
    take_out(waiter);
    waiter->execution = NULL;
    waiter->code = code;
    TAILQ_INSERT_TAIL(&supervisor->due, waiter, link);
    (void)sbx_source_arm(supervisor->on_due, sbx_clock_us());
}

void sbx_waiters_finish(struct sbx_execution *execution, int code)
{
    struct sbx_waiter *waiter;
    while ((waiter = TAILQ_FIRST(&execution->waiters)) != NULL) {
        /* An order that nobody has answered was not carried out. */
        sbx_waiter_finish(waiter,
                          waiter->kind == SBX_WAITER_ORDER && code == 0 ? ESRCH : code);
    }
}

void sbx_waiters_finish_orders(struct sbx_execution *execution, int code)
{
    struct sbx_waiter *waiter = TAILQ_FIRST(&execution->waiters);
    while (waiter != NULL) {
        struct sbx_waiter *next = TAILQ_NEXT(waiter, link);
        if (waiter->kind == SBX_WAITER_ORDER) {
            sbx_waiter_finish(waiter, code);
        }
        waiter = next;
    }
}

/* As many as are due now: those that a callback adds have their turn in the next round,
 * so that others have theirs. A callback may withdraw any of them. */
void sbx_waiters_on_due(void *context)
{
    struct sbx_supervisor *supervisor = context;
    size_t count = 0;
    struct sbx_waiter *waiter;
    TAILQ_FOREACH(waiter, &supervisor->due, link)
    {
        count++;
    }
    for (; count > 0 && (waiter = TAILQ_FIRST(&supervisor->due)) != NULL; count--) {
        sbx_done_callback *done = waiter->done;
        void *done_context = waiter->context;
        int code = waiter->code;
        sbx_waiter_free(waiter);
        done(code, done_context);
    }
    if (!TAILQ_EMPTY(&supervisor->due)) {
        (void)sbx_source_arm(supervisor->on_due, sbx_clock_us());
    }
}

/* --- news --- */

struct news {
    uint64_t latest_sequence;
    struct sbx_stream_state outputs[2];
};

static void read_news(const struct sbx_execution *execution, struct news *news)
{
    static const char *const names[] = {"stdout", "stderr"};
    struct sbx_journal_state journal = {0, 0};
    if (sbx_journal_look(execution->directory, "events", &journal) == 0) {
        news->latest_sequence = journal.latest_sequence;
    }
    for (int i = 0; i < 2; i++) {
        (void)sbx_stream_look(execution->directory, names[i], &news->outputs[i]);
    }
}

static bool is_met(const struct sbx_waiter *waiter, const struct news *news)
{
    if (news->latest_sequence > waiter->marks.sequence) {
        return true;
    }
    for (int i = 0; i < 2; i++) {
        uint64_t mark = waiter->marks.output[i];
        if (mark != UINT64_MAX &&
            (news->outputs[i].total_bytes > mark || news->outputs[i].ended)) {
            return true;
        }
    }
    return false;
}

bool sbx_waiters_look(struct sbx_execution *execution)
{
    bool any = false;
    struct news news = {.latest_sequence = 0};
    read_news(execution, &news);
    struct sbx_waiter *waiter = TAILQ_FIRST(&execution->waiters);
    while (waiter != NULL) {
        struct sbx_waiter *next = TAILQ_NEXT(waiter, link);
        if (waiter->kind == SBX_WAITER_NEWS && is_met(waiter, &news)) {
            sbx_waiter_finish(waiter, 0);
            any = true;
        }
        waiter = next;
    }
    return any;
}

static uint64_t lower(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

bool sbx_waiters_marks(const struct sbx_execution *execution,
                       struct sbx_control_marks *ret_marks)
{
    struct sbx_control_marks marks = {UINT64_MAX, {UINT64_MAX, UINT64_MAX}};
    const struct sbx_waiter *waiter = NULL;
    bool any = false;
    TAILQ_FOREACH(waiter, &execution->waiters, link)
    {
        if (waiter->kind == SBX_WAITER_NEWS) {
            any = true;
            marks.sequence = lower(marks.sequence, waiter->marks.sequence);
            marks.output[0] = lower(marks.output[0], waiter->marks.output[0]);
            marks.output[1] = lower(marks.output[1], waiter->marks.output[1]);
        }
    }
    *ret_marks = marks;
    return any;
}

static struct sbx_waiter *wait_for(struct sbx_execution *execution,
                                   enum sbx_waiter_kind kind, sbx_done_callback *done,
                                   void *context)
{
    struct sbx_waiter *waiter = sbx_waiter_new(execution, kind, done, context);
    if (waiter != NULL && execution->bond == SBX_BOND_SETTLED) {
        sbx_waiter_finish(waiter, 0);
    }
    return waiter;
}

struct sbx_waiter *sbx_execution_wait_news(struct sbx_execution *execution,
                                           const struct sbx_control_marks *marks,
                                           sbx_done_callback *done, void *context)
{
    struct sbx_waiter *waiter = wait_for(execution, SBX_WAITER_NEWS, done, context);
    if (waiter != NULL && waiter->execution != NULL) {
        waiter->marks = *marks;
        sbx_execution_watch(execution);
    }
    return waiter;
}

struct sbx_waiter *sbx_execution_wait_settled(struct sbx_execution *execution,
                                              sbx_done_callback *done, void *context)
{
    return wait_for(execution, SBX_WAITER_SETTLED, done, context);
}
