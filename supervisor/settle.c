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
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>

/* More than any report is. */
#define REPORT_MAX ((off_t)1024 * 1024)

/* --- the report --- */

static char *read_report(int directory, size_t *ret_length, uint64_t *ret_written_us)
{
    SBX_AUTO_CLOSE int fd =
        openat(directory, "report.json", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) ||
        status.st_size <= 0 || status.st_size > REPORT_MAX) {
        return NULL;
    }
    size_t size = (size_t)status.st_size;
    SBX_AUTO_FREE char *text = malloc(size + 1);
    ssize_t length = text == NULL ? -1 : pread(fd, text, size, 0);
    if (length <= 0) {
        return NULL;
    }
    text[length] = '\0';
    char *report = text;
    text = NULL;
    *ret_length = (size_t)length;
    *ret_written_us = (uint64_t)status.st_mtim.tv_sec * SBX_US_PER_S +
                      (uint64_t)status.st_mtim.tv_nsec / 1000;
    return report;
}

char *sbx_execution_report(const struct sbx_execution *execution, size_t *ret_length)
{
    uint64_t written_us = 0;
    int directory = sbx_execution_directory(execution);
    if (execution->bond != SBX_BOND_SETTLED || directory < 0) {
        return NULL;
    }
    return read_report(directory, ret_length, &written_us);
}

/* --- settling --- */

static void settle(struct sbx_execution *execution, enum sbx_execution_status status,
                   uint64_t finished_real_us)
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
    supervisor->stats.finished_total[status]++;
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
    bool known = status > SBX_EXECUTION_RUNNING && status <= SBX_EXECUTION_LOST;
    settle(execution, known ? (enum sbx_execution_status)status : SBX_EXECUTION_LOST,
           atomic_load(&page->finished_real_us));
}

/* --- concluding --- */

/* So that the next sbxd finds the same, and a reader of events sees the end. */
static void write_down(const struct sbx_execution *execution, const struct sbx_page *page,
                       enum sbx_execution_status status, uint64_t finished_real_us)
{
    struct sbx_journal *journal = NULL;
    if (sbx_journal_open(execution->directory, "events", &journal, NULL) == 0) {
        const struct sbx_event event = {.type = SBX_EVENT_FINISHED,
                                        .at_real_us = finished_real_us,
                                        .value = (uint64_t)status};
        (void)sbx_journal_append(journal, &event);
        sbx_journal_close(journal);
    }
    struct sbx_page settled = *page;
    settled.stdin_open = 0;
    settled.paused = 0;
    settled.status = (uint32_t)status;
    settled.finished_real_us = finished_real_us;
    settled.phase = SBX_PHASE_FINISHED;
    (void)sbx_page_write(execution->directory, &settled);
}

void sbx_execution_conclude(struct sbx_execution *execution, const struct sbx_page *page)
{
    size_t length = 0;
    uint64_t finished_us = sbx_clock_real_us();
    uint32_t phase = atomic_load(&page->phase);
    SBX_AUTO_FREE char *report = read_report(execution->directory, &length, &finished_us);
    if (phase == SBX_PHASE_RESERVED && report == NULL && execution->adopted) {
        /* An sbxd was killed between the reservation and the start: nothing has run, and
         * nobody was told that it would. */
        (void)sbx_state_remove(execution->supervisor->state, execution->facts.id, NULL);
        sbx_execution_free(execution, ECANCELED);
        return;
    }
    enum sbx_execution_status status =
        report != NULL                ? sbx_execution_status_of(report, length)
        : phase == SBX_PHASE_RESERVED ? SBX_EXECUTION_FAILED
                                      : SBX_EXECUTION_LOST;
    write_down(execution, page, status, finished_us);
    settle(execution, status, finished_us);
}
