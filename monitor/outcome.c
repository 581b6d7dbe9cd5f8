/*
 * outcome.c - what the end of a run means to the caller of the program: its exit status,
 * and the one line on stderr (see report.h).
 *
 * Pure functions over specification and record. Names of processes are escaped, and the
 * line is one line whatever they contain. Never allocates.
 */
#include "monitor/report.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SIGNAL_BASE 128
#define NAMES_SHOWN 3
#define TEXT_SIZE 32
#define NAME_TEXT_SIZE (4 * SBX_PROC_NAME_SIZE + 1)

/* The leader's own end as a shell would say it; -1 when it is unknown. */
static int own_status(const struct sbx_record *record)
{
    if (record->has_exit_code) {
        return record->exit_code & 0xff;
    }
    return record->signal > 0 ? SIGNAL_BASE + record->signal : -1;
}

static int breach_status(const struct sbx_spec *spec, const struct sbx_record *record)
{
    int own = own_status(record);
    return spec->preserve_status && own >= 0 ? own : spec->breach_status;
}

static int failed_status(const struct sbx_record *record)
{
    int status = record->failed_status;
    return status == SBX_STATUS_NOT_EXECUTABLE || status == SBX_STATUS_NOT_FOUND
               ? status
               : SBX_STATUS_FAILED;
}

int sbx_report_status(const struct sbx_spec *spec, const struct sbx_record *record)
{
    int own = own_status(record);
    if (record->termination.survivors_count > 0) {
        return SBX_STATUS_FAILED;
    }
    switch (record->outcome) {
    case SBX_OUTCOME_EXITED:
    case SBX_OUTCOME_SIGNALED:
        return own >= 0 ? own : SBX_STATUS_FAILED;
    case SBX_OUTCOME_BREACH:
        return breach_status(spec, record);
    case SBX_OUTCOME_CANCELLED:
        return record->cancel_signal > 0 ? SIGNAL_BASE + record->cancel_signal
                                         : SBX_STATUS_FAILED;
    case SBX_OUTCOME_LAUNCH_FAILED:
        return failed_status(record);
    case SBX_OUTCOME_OBSERVED:
        return 0;
    case SBX_OUTCOME_LOST:
        break;
    }
    return SBX_STATUS_FAILED;
}

/* The line while it is put together; larger than what is shown of it. */
struct line {
    char text[4 * SBX_REPORT_LINE_SIZE];
    size_t used;
    bool said;
};

static void __attribute__((format(printf, 2, 3)))
add(struct line *line, const char *format, ...)
{
    size_t room = sizeof line->text - line->used;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line->text + line->used, room, format, args);
    va_end(args);
    if (length > 0) {
        line->used += (size_t)length < room ? (size_t)length : room - 1;
    }
}

/* Starts one thing that is worth saying. */
static void begin(struct line *line)
{
    add(line, "%s", line->said ? "; " : "sbx-watch: ");
    line->said = true;
}

static void add_name(struct line *line, const char name[static SBX_PROC_NAME_SIZE])
{
    char text[NAME_TEXT_SIZE];
    (void)sbx_text_escape(text, sizeof text, name, strnlen(name, SBX_PROC_NAME_SIZE));
    add(line, "%s", text);
}

static void add_prose(struct line *line, const char *message, size_t size)
{
    char text[SBX_REPORT_PROSE_SIZE(SBX_ERROR_MESSAGE_SIZE)];
    (void)sbx_report_prose(text, sizeof text, message, size);
    add(line, "%s", text);
}

/* "2s", "2.001s", "250ms": exact, without zeros at the end of the fraction. */
static void spell_us(uint64_t us, char text[static TEXT_SIZE])
{
    bool seconds = us == 0 || us >= 1000000;
    uint64_t whole = us / (seconds ? 1000000 : 1000);
    uint64_t rest = us % (seconds ? 1000000 : 1000);
    int length = snprintf(text, TEXT_SIZE, "%" PRIu64, whole);
    if (rest != 0) {
        length = snprintf(text, TEXT_SIZE, "%" PRIu64 ".%0*" PRIu64, whole,
                          seconds ? 6 : 3, rest);
        while (text[length - 1] == '0') {
            length--;
        }
    }
    (void)snprintf(text + length, TEXT_SIZE - (size_t)length, "%s", seconds ? "s" : "ms");
}

/* "512 B", "200.0 MiB". */
static void spell_bytes(uint64_t bytes, char text[static TEXT_SIZE])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        (void)snprintf(text, TEXT_SIZE, "%" PRIu64 " B", bytes);
        return;
    }
    double value = (double)bytes / 1024;
    size_t unit = 0;
    /* 1023.95 would read as 1024.0. */
    while (value >= 1023.95 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(text, TEXT_SIZE, "%.1f %s", value, units[unit]);
}

static void spell(uint64_t value, const char *unit, char text[static TEXT_SIZE])
{
    if (strcmp(unit, "us") == 0) {
        spell_us(value, text);
    } else if (strcmp(unit, "bytes") == 0) {
        spell_bytes(value, text);
    } else {
        (void)snprintf(text, TEXT_SIZE, "%" PRIu64, value);
    }
}

/* A time is shown to the millisecond where that does not make it look below the limit. */
static uint64_t rounded_observed(const struct sbx_breach *breach, const char *unit)
{
    uint64_t rounded = breach->observed - breach->observed % 1000;
    bool below = breach->limit != SBX_UNKNOWN && rounded <= breach->limit;
    return strcmp(unit, "us") == 0 && !below && rounded > 0 ? rounded : breach->observed;
}

static void add_numbers(struct line *line, const struct sbx_breach *breach)
{
    char text[TEXT_SIZE];
    const char *unit = sbx_breach_unit(breach);
    if (unit == NULL) {
        return;
    }
    if (breach->limit != SBX_UNKNOWN) {
        spell(breach->limit, unit, text);
        add(line, " limit %s", text);
    }
    if (breach->observed != SBX_UNKNOWN) {
        spell(rounded_observed(breach, unit), unit, text);
        add(line, ", observed %s", text);
    }
}

static void say_breach(struct line *line, const struct sbx_record *record)
{
    const struct sbx_breach *breach = &record->breach;
    begin(line);
    add(line, "breach: %s", sbx_reason_name(breach->reason));
    if (breach->reason == SBX_REASON_CEILING && breach->ceiling >= 0 &&
        breach->ceiling < SBX_CEILING_COUNT) {
        add(line, " %s", sbx_ceiling_kinds[breach->ceiling].name);
    }
    add_numbers(line, breach);
    if (breach->reason == SBX_REASON_OOM) {
        add(line, ": a process of it was killed, but for no limit of this run");
    }
    if (breach->culprit.pid > 0) {
        add(line, " by ");
        add_name(line, breach->culprit.name);
        add(line, " (pid %d)", breach->culprit.pid);
    }
    if (record->error.code > 0) {
        add(line, ": ");
        add_prose(line, record->error.message, sizeof record->error.message);
    }
}

/* What became of strays is the user's wish, unless something else ended the run. */
static const char *stray_fate(const struct sbx_spec *spec,
                              const struct sbx_record *record)
{
    if (record->termination.survivors_count > 0) {
        return "found"; /* not all of them were ended: see the survivors */
    }
    if (record->termination.proof != SBX_PROOF_NONE &&
        record->termination.killed_count == 0 && spec->strays == SBX_STRAYS_WAIT) {
        return "waited for";
    }
    bool wished =
        spec->strays == SBX_STRAYS_KEEP || record->outcome == SBX_OUTCOME_OBSERVED;
    bool kept = wished && record->outcome != SBX_OUTCOME_LOST &&
                record->termination.proof == SBX_PROOF_NONE;
    return kept ? "left running" : "ended";
}

static void say_strays(struct line *line, const struct sbx_spec *spec,
                       const struct sbx_record *record)
{
    const struct sbx_termination *termination = &record->termination;
    uint64_t count = termination->strays_count;
    if (count == 0) {
        return;
    }
    begin(line);
    add(line, "%" PRIu64 " %s %s: ", count, count == 1 ? "stray was" : "strays were",
        stray_fate(spec, record));
    for (uint64_t i = 0; i < count && i < NAMES_SHOWN; i++) {
        add(line, "%s", i > 0 ? ", " : "");
        add_name(line, termination->strays[i].name);
        add(line, " (%d)", termination->strays[i].pid);
    }
    add(line, "%s", count > NAMES_SHOWN ? ", ..." : "");
}

static void add_survivor(struct line *line, const struct sbx_survivor *survivor)
{
    bool named = survivor->pid > 0;
    if (named) {
        add_name(line, survivor->name);
        add(line, " (%d)", survivor->pid);
    }
    if (survivor->why[0] != '\0') {
        add(line, "%s", named ? ": " : "");
        add_prose(line, survivor->why, sizeof survivor->why);
    }
}

static void say_survivors(struct line *line, const struct sbx_termination *termination)
{
    uint64_t count = termination->survivors_count;
    if (count == 0) {
        return;
    }
    begin(line);
    add(line, "%" PRIu64 " %s survived: ", count, count == 1 ? "process" : "processes");
    for (uint64_t i = 0; i < count && i < NAMES_SHOWN; i++) {
        add(line, "%s", i > 0 ? ", " : "");
        add_survivor(line, &termination->survivors[i]);
    }
    add(line, "%s", count > NAMES_SHOWN ? ", ..." : "");
}

static void say_failure(struct line *line, const struct sbx_record *record)
{
    begin(line);
    if (record->outcome == SBX_OUTCOME_LOST) {
        add(line, "lost: the monitor died before the run ended");
        add(line, "%s", record->error.code > 0 ? ": " : "");
    } else if (record->error.message[0] == '\0') {
        add(line, "the command could not be started");
    }
    add_prose(line, record->error.message, sizeof record->error.message);
}

/* Where a text may end at the latest: not inside a character, nor inside an escape. */
static size_t cut_length(const char *text, size_t length, size_t room)
{
    if (length <= room) {
        return length;
    }
    size_t end = room;
    while (end > 0 && ((unsigned char)text[end] & 0xC0U) == 0x80U) {
        end--;
    }
    for (size_t back = 1; back <= 3 && back <= end; back++) {
        if (text[end - back] == '\\') {
            return end - back;
        }
    }
    return end;
}

const char *sbx_report_line(const struct sbx_spec *spec, const struct sbx_record *record,
                            char buffer[static SBX_REPORT_LINE_SIZE])
{
    struct line line = {.used = 0};
    if (record->outcome == SBX_OUTCOME_LAUNCH_FAILED ||
        record->outcome == SBX_OUTCOME_LOST) {
        say_failure(&line, record);
    } else if (record->outcome == SBX_OUTCOME_BREACH && !spec->quiet) {
        say_breach(&line, record);
    }
    /* What survives the run is the more urgent news. */
    say_survivors(&line, &record->termination);
    if (!spec->quiet) {
        say_strays(&line, spec, record);
    }
    size_t length = cut_length(line.text, line.used, SBX_REPORT_LINE_SIZE - 1);
    memcpy(buffer, line.text, length);
    buffer[length] = '\0';
    return buffer;
}
