/*
 * log.c - see log.h: lines out of the record. The record may have been cut off in the
 * middle of a change by a SIGKILL, so no string in it is trusted to end. Never allocates.
 */
#include "monitor/log.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

void sbx_log_fault(struct sbx_log_told *told, int code)
{
    int none = 0;
    (void)atomic_compare_exchange_strong(&told->code, &none, code);
}

static void start(struct sbx_log_line *line, enum sbx_log_event event,
                  enum sbx_log_level level, const struct sbx_record *record)
{
    *line = (struct sbx_log_line){.event = event,
                                  .level = level,
                                  .at_real_us = sbx_clock_real_us(),
                                  .leader_pid = record->leader_pid};
}

static void take_message(struct sbx_log_line *line, const char *text, size_t size)
{
    size_t room = sizeof line->message - 1;
    size_t length = strnlen(text, size < room ? size : room);
    memcpy(line->message, text, length);
    line->message[length] = '\0';
}

void sbx_log_started(struct sbx_log_line *line, const struct sbx_record *record)
{
    start(line, SBX_LOG_STARTED, SBX_LOG_DEBUG, record);
    line->at_real_us = record->started_real_us;
}

void sbx_log_phase(struct sbx_log_line *line, const struct sbx_record *record,
                   const char *phase, int polite_signal)
{
    start(line, SBX_LOG_PHASE, SBX_LOG_DEBUG, record);
    line->phase = phase;
    line->polite_signal = polite_signal;
}

void sbx_log_warned(struct sbx_log_line *line, const struct sbx_record *record,
                    uint64_t index)
{
    start(line, SBX_LOG_WARNED, SBX_LOG_WARNING, record);
    if (index < SBX_WARNING_MAX) {
        take_message(line, record->warnings[index], SBX_WARNING_SIZE);
    }
}

void sbx_log_breached(struct sbx_log_line *line, const struct sbx_record *record)
{
    start(line, SBX_LOG_BREACHED, SBX_LOG_WARNING, record);
    line->breach = record->breach;
}

void sbx_log_finished(struct sbx_log_line *line, const struct sbx_record *record)
{
    const struct sbx_termination *termination = &record->termination;
    bool bad = record->outcome == SBX_OUTCOME_LOST ||
               record->outcome == SBX_OUTCOME_LAUNCH_FAILED ||
               termination->survivors_count > 0;
    /* Strays are worth a line on standard error without any log. */
    enum sbx_log_level level =
        termination->strays_count > 0 ? SBX_LOG_WARNING : SBX_LOG_INFO;
    start(line, SBX_LOG_FINISHED, bad ? SBX_LOG_ERROR : level, record);
    line->at_real_us = record->finished_real_us;
    line->breach = record->breach;
    line->outcome = record->outcome;
    line->has_exit_code = record->has_exit_code;
    line->exit_code = record->exit_code;
    line->signal = record->signal;
    line->cancel_signal =
        record->outcome == SBX_OUTCOME_CANCELLED ? record->cancel_signal : 0;
    line->wall_us = record->usage.wall_us;
    line->cpu_us = record->usage.cpu_us;
    line->memory_peak_bytes = record->usage.memory_peak_bytes;
    line->killed_count = termination->killed_count;
    line->strays_count = termination->strays_count;
    line->survivors_count = termination->survivors_count;
    line->warnings_count = record->warnings_count;
    if (record->error.code > 0) {
        line->stage = record->error.stage;
        take_message(line, record->error.message, sizeof record->error.message);
    }
}

enum sbx_log_level sbx_log_level_of(const struct sbx_log_plan *plan)
{
    return plan->verbose ? SBX_LOG_DEBUG : (enum sbx_log_level)plan->level;
}

void sbx_log_target_name(const struct sbx_log_target *target, char *buffer, size_t size)
{
    static const char *const names[] = {
        [SBX_LOG_STDERR] = "stderr",
        [SBX_LOG_FILE] = "file:",
        [SBX_LOG_SYSLOG] = "syslog",
        [SBX_LOG_JOURNAL] = "journal",
    };
    (void)snprintf(buffer, size, "%s%s", names[target->kind],
                   target->path != NULL ? target->path : "");
}
