/*
 * record.c - see record.h.
 *
 * The record lies in memory that another process reads after this one was killed at any
 * moment. So an entry of a list is complete before the count that makes it visible is
 * stored. Never allocates.
 */
#include "monitor/record.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void sbx_record_init(struct sbx_record *record)
{
    *record = (struct sbx_record){
        .outcome = SBX_OUTCOME_LOST,
        .breach = {.ceiling = -1,
                   .limit = SBX_UNKNOWN,
                   .observed = SBX_UNKNOWN,
                   .at_us = SBX_UNKNOWN,
                   .culprit = {.value = SBX_UNKNOWN}},
        .usage = {.wall_us = SBX_UNKNOWN,
                  .cpu_us = SBX_UNKNOWN,
                  .cpu_user_us = SBX_UNKNOWN,
                  .cpu_system_us = SBX_UNKNOWN,
                  .memory_peak_bytes = SBX_UNKNOWN,
                  .memory_peak_at_us = SBX_UNKNOWN,
                  .memory_anon_peak_bytes = SBX_UNKNOWN,
                  .swap_peak_bytes = SBX_UNKNOWN,
                  .process_memory_peak_bytes = SBX_UNKNOWN,
                  .processes_peak = SBX_UNKNOWN,
                  .processes_total = SBX_UNKNOWN,
                  .threads_peak = SBX_UNKNOWN,
                  .output_bytes = SBX_UNKNOWN,
                  .oom_kills = SBX_UNKNOWN,
                  .memory_pressure_us = SBX_UNKNOWN},
        .armed = {.memory_bytes = SBX_UNKNOWN,
                  .swap_bytes = SBX_UNKNOWN,
                  .threads_count = SBX_UNKNOWN,
                  .cpu_quota_percent = SBX_UNKNOWN},
        .sampling = {.interval_us = SBX_UNKNOWN,
                     .max_gap_us = SBX_UNKNOWN,
                     .monitor_cpu_us = SBX_UNKNOWN},
        .termination = {.duration_us = SBX_UNKNOWN},
    };
}

static void store_count(uint64_t *count, uint64_t value)
{
    __atomic_store_n(count, value, __ATOMIC_RELEASE);
}

void sbx_record_warn(struct sbx_record *record, const char *format, ...)
{
    uint64_t count = record->warnings_count;
    if (count < SBX_WARNING_MAX) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(record->warnings[count], SBX_WARNING_SIZE, format, args);
        va_end(args);
    }
    store_count(&record->warnings_count, count + 1);
}

static void copy_name(char *target, size_t size, const char *source)
{
    size_t length = strnlen(source, size - 1);
    memcpy(target, source, length);
    target[length] = '\0';
}

static uint64_t listed(uint64_t count)
{
    return count < SBX_LIST_MAX ? count : SBX_LIST_MAX;
}

static bool same_name(const char *kept, const char *name)
{
    return strncmp(kept, name, SBX_PROC_NAME_SIZE - 1) == 0;
}

void sbx_record_stray(struct sbx_record *record, pid_t pid, const char *name)
{
    struct sbx_termination *termination = &record->termination;
    uint64_t count = termination->strays_count;
    for (uint64_t i = 0; i < listed(count); i++) {
        const struct sbx_stray *known = &termination->strays[i];
        if (known->pid == pid && same_name(known->name, name)) {
            return;
        }
    }
    if (count < SBX_LIST_MAX) {
        struct sbx_stray *stray = &termination->strays[count];
        stray->pid = pid;
        copy_name(stray->name, sizeof stray->name, name);
    }
    store_count(&termination->strays_count, count + 1);
}

void sbx_record_survivor(struct sbx_record *record, pid_t pid, const char *name,
                         const char *why)
{
    struct sbx_termination *termination = &record->termination;
    uint64_t count = termination->survivors_count;
    for (uint64_t i = 0; i < listed(count); i++) {
        struct sbx_survivor *known = &termination->survivors[i];
        if (known->pid == pid && same_name(known->name, name)) {
            copy_name(known->why, sizeof known->why, why);
            return;
        }
    }
    if (count < SBX_LIST_MAX) {
        struct sbx_survivor *survivor = &termination->survivors[count];
        survivor->pid = pid;
        copy_name(survivor->name, sizeof survivor->name, name);
        copy_name(survivor->why, sizeof survivor->why, why);
    }
    store_count(&termination->survivors_count, count + 1);
}

const char *sbx_outcome_name(enum sbx_outcome outcome)
{
    static const char *const names[] = {
        [SBX_OUTCOME_LOST] = "lost",
        [SBX_OUTCOME_EXITED] = "exited",
        [SBX_OUTCOME_SIGNALED] = "signaled",
        [SBX_OUTCOME_BREACH] = "breach",
        [SBX_OUTCOME_CANCELLED] = "cancelled",
        [SBX_OUTCOME_LAUNCH_FAILED] = "launch-failed",
        [SBX_OUTCOME_OBSERVED] = "observed",
    };
    size_t index = (size_t)outcome;
    return index < sizeof names / sizeof names[0] ? names[index] : "lost";
}

const char *sbx_reason_name(enum sbx_reason reason)
{
    static const char *const names[] = {
        [SBX_REASON_NONE] = "none",
        [SBX_REASON_WALL] = "wall",
        [SBX_REASON_CPU] = "cpu",
        [SBX_REASON_MEMORY] = "memory",
        [SBX_REASON_PROCESSES] = "processes",
        [SBX_REASON_THREADS] = "threads",
        [SBX_REASON_CEILING] = "ceiling",
        [SBX_REASON_UNMEASURABLE] = "unmeasurable",
        [SBX_REASON_GUARD_LOST] = "guard-lost",
        [SBX_REASON_CALLER_LOST] = "caller-lost",
        [SBX_REASON_OUTPUT] = "output",
        [SBX_REASON_IDLE] = "idle",
        [SBX_REASON_OUTPUT_CLOSED] = "output-closed",
        [SBX_REASON_OOM] = "oom",
    };
    size_t index = (size_t)reason;
    return index < sizeof names / sizeof names[0] ? names[index] : "none";
}

static const char *ceiling_unit(int ceiling)
{
    if (ceiling < 0 || ceiling >= SBX_CEILING_COUNT) {
        return NULL;
    }
    switch (sbx_ceiling_kinds[ceiling].unit) {
    case SBX_UNIT_COUNT:
        return "count";
    case SBX_UNIT_BYTES:
        return "bytes";
    case SBX_UNIT_SECONDS:
    case SBX_UNIT_US:
        return "us";
    }
    return NULL;
}

const char *sbx_breach_unit(const struct sbx_breach *breach)
{
    switch (breach->reason) {
    case SBX_REASON_WALL:
    case SBX_REASON_CPU:
    case SBX_REASON_IDLE:
        return "us";
    case SBX_REASON_MEMORY:
    case SBX_REASON_OUTPUT:
        return "bytes";
    case SBX_REASON_PROCESSES:
    case SBX_REASON_THREADS:
        return "count";
    case SBX_REASON_CEILING:
        return ceiling_unit(breach->ceiling);
    case SBX_REASON_NONE:
    case SBX_REASON_UNMEASURABLE:
    case SBX_REASON_GUARD_LOST:
    case SBX_REASON_CALLER_LOST:
    case SBX_REASON_OUTPUT_CLOSED:
    case SBX_REASON_OOM:
        break;
    }
    return NULL;
}
