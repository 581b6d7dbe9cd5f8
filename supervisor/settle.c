/*
 * settle.c - how an execution ends for sbxd: its keeper has written all of it down, or
 * the keeper was killed, and what is on file has to do. A report that guard or monitor
 * left is the truth then; without one the execution is lost.
 */
#include "supervisor/supervisor_private.h"

#include "base/clock.h"
#include "base/fd.h"
#include "supervisor/journal.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

char *sbx_execution_report(const struct sbx_execution *execution, size_t *ret_length)
{
    uint64_t written_us = 0;
    int directory = sbx_execution_directory(execution);
    if (execution->bond != SBX_BOND_SETTLED || directory < 0) {
        return NULL;
    }
    return sbx_place_report(directory, ret_length, &written_us);
}

/* --- settling --- */

/* `counts`: it has ended in the time of this sbxd. */
static void settle(struct sbx_execution *execution, enum sbx_execution_status status,
                   uint64_t finished_real_us, bool counts)
{
    struct sbx_supervisor *supervisor = execution->supervisor;
    sbx_execution_disconnect(execution);
    sbx_fd_drop(&execution->directory);
    execution->seek_us = SBX_FOREVER_US;
    execution->bond = SBX_BOND_SETTLED;
    execution->status = status;
    execution->finished_real_us = finished_real_us;
    TAILQ_INSERT_TAIL(&supervisor->settled, execution, settled_link);
    supervisor->settled_count++;
    supervisor->stats.finished_total[status] += counts ? 1 : 0;
    sbx_waiters_finish(execution, 0);
    sbx_retain(execution);
    if (supervisor->ends_empty && supervisor->settled_count == supervisor->count) {
        /* Whoever asked for the end may not have its answer yet. */
        (void)sbx_source_arm(supervisor->on_bound, sbx_clock_us() + SBX_US_PER_S / 10);
    }
}

void sbx_execution_settle(struct sbx_execution *execution, const struct sbx_page *page)
{
    uint32_t status = atomic_load(&page->status);
    uint64_t finished_us = atomic_load(&page->finished_real_us);
    uint64_t now_us = sbx_clock_real_us();
    bool known = status > SBX_EXECUTION_RUNNING && status <= SBX_EXECUTION_LOST;
    settle(execution, known ? (enum sbx_execution_status)status : SBX_EXECUTION_LOST,
           finished_us > 0 && finished_us < now_us ? finished_us : now_us,
           !execution->adopted);
}

/* --- concluding --- */

/* How it ended, as it is told to everybody. */
struct end {
    enum sbx_execution_status status;
    uint64_t real_us;
};

static bool take_end(const struct sbx_event *event, void *context)
{
    struct end *end = context;
    bool known =
        event->value > SBX_EXECUTION_RUNNING && event->value <= SBX_EXECUTION_LOST;
    if (event->type == SBX_EVENT_FINISHED && known) {
        *end = (struct end){(enum sbx_execution_status)event->value, event->at_real_us};
    }
    return false;
}

/* Whoever was killed before the page was written may have told the end already. */
static bool is_told(const struct sbx_execution *execution, struct end *ret_end)
{
    struct sbx_journal_state state = {0, 0};
    struct end end = {SBX_EXECUTION_RUNNING, 0};
    if (sbx_journal_look(execution->directory, "events", &state) < 0 ||
        state.latest_sequence == 0 ||
        sbx_journal_read(execution->directory, "events", state.latest_sequence - 1,
                         take_end, &end, &state) < 0 ||
        end.status == SBX_EXECUTION_RUNNING) {
        return false;
    }
    *ret_end = end;
    return true;
}

static void tell(const struct sbx_execution *execution, const struct end *end)
{
    struct sbx_journal *journal = NULL;
    if (sbx_journal_open(execution->directory, "events", &journal, NULL) == 0) {
        const struct sbx_event event = {.type = SBX_EVENT_FINISHED,
                                        .at_real_us = end->real_us,
                                        .value = (uint64_t)end->status};
        (void)sbx_journal_append(journal, &event);
        sbx_journal_close(journal);
    }
}

/* So that the next sbxd finds the same. */
static void write_down(const struct sbx_execution *execution, const struct sbx_page *page,
                       const struct end *end)
{
    struct sbx_page settled = *page;
    settled.stdin_open = 0;
    settled.paused = 0;
    settled.status = (uint32_t)end->status;
    settled.finished_real_us = end->real_us;
    settled.phase = SBX_PHASE_FINISHED;
    (void)sbx_page_write(execution->directory, &settled);
}

/* Whether the page is what was written to it: of one from before a crash of the machine
 * any part may not have come to the disk. */
static bool is_of_this_boot(const struct sbx_execution *execution)
{
    char boot[SBX_BOOT_SIZE];
    sbx_boot_id(boot);
    return boot[0] != '\0' && strcmp(boot, execution->facts.boot) == 0;
}

void sbx_execution_conclude(struct sbx_execution *execution, const struct sbx_page *page)
{
    size_t length = 0;
    struct end end = {SBX_EXECUTION_LOST, sbx_clock_real_us()};
    bool ran =
        atomic_load(&page->phase) != SBX_PHASE_RESERVED || !is_of_this_boot(execution);
    SBX_AUTO_FREE char *report =
        sbx_place_report(execution->directory, &length, &end.real_us);
    if (!ran && report == NULL && execution->adopted) {
        /* An sbxd was killed between the reservation and the start, or its keeper was
         * before it had begun: nothing has run, and the id may be used again. */
        (void)sbx_state_remove(execution->supervisor->state, execution->facts.id, NULL);
        sbx_execution_free(execution, ECANCELED);
        return;
    }
    if (report != NULL) {
        end.status = sbx_execution_status_of(report, length);
    } else if (!ran) {
        end.status = SBX_EXECUTION_FAILED;
    }
    if (!is_told(execution, &end)) {
        tell(execution, &end);
    }
    write_down(execution, page, &end);
    settle(execution, end.status, end.real_us, true);
}
