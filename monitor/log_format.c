/*
 * log_format.c - see log.h: a line as keys and values, and those as text. Names,
 * arguments and messages are spelled as in the report, so that whatever a process is
 * called, its line stays one line and has no key that is not ours. Pure, and never
 * allocates.
 */
#include "monitor/log.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "monitor/json.h"
#include "monitor/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

/* How much of a text is shown, escapes included; quotes may still make four of one. */
#define MESSAGE_SHOWN 1024
#define COMMAND_SHOWN 384

static const char *const event_names[] = {
    [SBX_LOG_STARTED] = "started",   [SBX_LOG_PHASE] = "phase",
    [SBX_LOG_WARNED] = "warning",    [SBX_LOG_BREACHED] = "breach",
    [SBX_LOG_FINISHED] = "finished",
};

const char *sbx_log_level_name(enum sbx_log_level level)
{
    static const char *const names[] = {
        [SBX_LOG_ERROR] = "error",
        [SBX_LOG_WARNING] = "warning",
        [SBX_LOG_INFO] = "info",
        [SBX_LOG_DEBUG] = "debug",
    };
    return names[level];
}

int sbx_log_severity(enum sbx_log_level level)
{
    static const int severities[] = {
        [SBX_LOG_ERROR] = LOG_ERR,
        [SBX_LOG_WARNING] = LOG_WARNING,
        [SBX_LOG_INFO] = LOG_INFO,
        [SBX_LOG_DEBUG] = LOG_DEBUG,
    };
    return severities[level];
}

/* --- keys and values --- */

static void add_as(struct sbx_log_fields *fields, enum sbx_log_value kind,
                   const char *key, const char *value)
{
    if (fields->count < SBX_LOG_FIELD_MAX) {
        fields->list[fields->count++] =
            (struct sbx_log_field){.key = key, .value = value, .kind = kind};
    }
}

/* A word in static storage. */
static void add(struct sbx_log_fields *fields, const char *key, const char *word)
{
    add_as(fields, SBX_LOG_WORD, key, word);
}

/* Room for a value of at most `most` bytes, or NULL. */
static char *room(struct sbx_log_fields *fields, size_t most)
{
    bool fits = fields->used + most < sizeof fields->storage;
    return fits ? fields->storage + fields->used : NULL;
}

/* A word that is not in static storage. */
static void add_copy(struct sbx_log_fields *fields, enum sbx_log_value kind,
                     const char *key, const char *word)
{
    size_t length = strlen(word);
    char *value = room(fields, length);
    if (value != NULL) {
        memcpy(value, word, length + 1);
        fields->used += length + 1;
        add_as(fields, kind, key, value);
    }
}

static void add_number(struct sbx_log_fields *fields, const char *key, uint64_t number)
{
    char digits[24];
    if (number == SBX_UNKNOWN) {
        return;
    }
    (void)snprintf(digits, sizeof digits, "%" PRIu64, number);
    add_copy(fields, SBX_LOG_NUMBER, key, digits);
}

static void add_signal(struct sbx_log_fields *fields, const char *key, int number)
{
    char name[SBX_SIGNAL_NAME_SIZE];
    if (number > 0) {
        add_copy(fields, SBX_LOG_WORD, key, sbx_text_signal_name(number, name));
    }
}

/* What was spelled into the room becomes the value. */
static void add_spelled(struct sbx_log_fields *fields, const char *key, char *value,
                        size_t length)
{
    fields->used += length + 1;
    add_as(fields, SBX_LOG_QUOTED, key, value);
}

static void add_name(struct sbx_log_fields *fields, const char *key,
                     const char name[static SBX_PROC_NAME_SIZE])
{
    size_t most = (size_t)4 * SBX_PROC_NAME_SIZE + 1;
    char *value = room(fields, most);
    if (value != NULL) {
        add_spelled(
            fields, key, value,
            sbx_text_escape(value, most, name, strnlen(name, SBX_PROC_NAME_SIZE)));
    }
}

static void add_message(struct sbx_log_fields *fields, const char *message, size_t size)
{
    char *value = room(fields, MESSAGE_SHOWN);
    if (value != NULL && message[0] != '\0') {
        add_spelled(fields, "message", value,
                    sbx_report_prose(value, MESSAGE_SHOWN, message, size));
    }
}

/* The arguments with a blank between them, as much as is shown: to be recognized, not to
 * be run again. */
static void add_command(struct sbx_log_fields *fields, char *const argv[])
{
    char *value = room(fields, COMMAND_SHOWN);
    size_t used = 0;
    if (value == NULL || argv == NULL) {
        return;
    }
    for (size_t i = 0; argv[i] != NULL && used + 5 < COMMAND_SHOWN; i++) {
        if (i > 0) {
            value[used++] = ' ';
        }
        used += sbx_text_escape(value + used, COMMAND_SHOWN - used, argv[i],
                                strnlen(argv[i], COMMAND_SHOWN));
    }
    value[used] = '\0';
    add_spelled(fields, "command", value, used);
}

static void add_breach(struct sbx_log_fields *fields, const struct sbx_breach *breach)
{
    const char *unit = sbx_breach_unit(breach);
    add(fields, "reason", sbx_reason_name(breach->reason));
    if (breach->reason == SBX_REASON_CEILING && breach->ceiling >= 0 &&
        breach->ceiling < SBX_CEILING_COUNT) {
        add(fields, "name", sbx_ceiling_kinds[breach->ceiling].name);
    }
    if (unit != NULL &&
        (breach->limit != SBX_UNKNOWN || breach->observed != SBX_UNKNOWN)) {
        add_number(fields, "limit", breach->limit);
        add_number(fields, "observed", breach->observed);
        add(fields, "unit", unit);
    }
    add_number(fields, "at_us", breach->at_us);
    if (breach->culprit.pid > 0) {
        add_number(fields, "culprit_pid", (uint64_t)breach->culprit.pid);
        add_name(fields, "culprit_name", breach->culprit.name);
        add_number(fields, "culprit_value", breach->culprit.value);
    }
}

static void add_end(struct sbx_log_fields *fields, const struct sbx_log_line *line)
{
    add(fields, "outcome", sbx_outcome_name(line->outcome));
    if (line->outcome == SBX_OUTCOME_BREACH) {
        add(fields, "reason", sbx_reason_name(line->breach.reason));
    }
    if (line->has_exit_code) {
        add_number(fields, "exit_code", (uint64_t)(line->exit_code & 0xff));
    } else {
        add_signal(fields, "signal", line->signal);
    }
    add_signal(fields, "cancel_signal", line->cancel_signal);
    add_number(fields, "wall_us", line->wall_us);
    add_number(fields, "cpu_us", line->cpu_us);
    add_number(fields, "memory_peak_bytes", line->memory_peak_bytes);
    add_number(fields, "killed_count", line->killed_count);
    add_number(fields, "strays_count", line->strays_count);
    add_number(fields, "survivors_count", line->survivors_count);
    add_number(fields, "warnings_count", line->warnings_count);
    if (line->stage != SBX_STAGE_NONE) {
        add(fields, "stage", sbx_stage_name(line->stage));
        add_message(fields, line->message, sizeof line->message);
    }
}

void sbx_log_fields(const struct sbx_log_identity *identity,
                    const struct sbx_log_line *line, struct sbx_log_fields *fields)
{
    char text[SBX_CLOCK_TEXT_SIZE];
    fields->count = 0;
    fields->used = 0;
    add_copy(fields, SBX_LOG_WORD, "time", sbx_clock_text(line->at_real_us, text));
    add(fields, "level", sbx_log_level_name(line->level));
    add(fields, "event", event_names[line->event]);
    char run_id[SBX_RUN_ID_SIZE];
    (void)snprintf(run_id, sizeof run_id, "%.*s", SBX_RUN_ID_SIZE - 1, identity->run_id);
    add_copy(fields, SBX_LOG_WORD, "run_id", run_id);
    if (line->leader_pid > 0) {
        add_number(fields, "leader_pid", (uint64_t)line->leader_pid);
    }
    switch (line->event) {
    case SBX_LOG_STARTED:
        add_command(fields, identity->argv);
        break;
    case SBX_LOG_PHASE:
        add(fields, "phase", line->phase);
        add_signal(fields, "signal", line->polite_signal);
        break;
    case SBX_LOG_WARNED:
        add_message(fields, line->message, sizeof line->message);
        break;
    case SBX_LOG_BREACHED:
        add_breach(fields, &line->breach);
        break;
    case SBX_LOG_FINISHED:
        add_end(fields, line);
        break;
    }
}

/* --- text --- */

struct text {
    char *buffer;
    size_t used;
};

static void put(struct text *text, const char *bytes, size_t length)
{
    size_t left = SBX_LOG_TEXT_SIZE - 1 - text->used;
    length = length < left ? length : left;
    memcpy(text->buffer + text->used, bytes, length);
    text->used += length;
}

/* The text has no quote in it, so it cannot end early. */
static void put_quoted(struct text *text, const char *value)
{
    put(text, "\"", 1);
    while (*value != '\0') {
        size_t plain = strcspn(value, "\"");
        put(text, value, plain);
        value += plain;
        if (*value != '\0') {
            put(text, "\\x22", 4);
            value++;
        }
    }
    put(text, "\"", 1);
}

static size_t put_kv(const struct sbx_log_fields *fields, size_t first, char *buffer)
{
    struct text text = {.buffer = buffer};
    for (size_t i = first; i < fields->count; i++) {
        const struct sbx_log_field *field = &fields->list[i];
        put(&text, " ", i > first ? 1 : 0);
        put(&text, field->key, strlen(field->key));
        put(&text, "=", 1);
        if (field->kind == SBX_LOG_QUOTED) {
            put_quoted(&text, field->value);
        } else {
            put(&text, field->value, strlen(field->value));
        }
    }
    buffer[text.used] = '\0';
    return text.used;
}

static size_t put_json(const struct sbx_log_fields *fields, size_t first, char *buffer)
{
    struct sbx_json json;
    sbx_json_init(&json, buffer, SBX_LOG_TEXT_SIZE);
    sbx_json_object(&json, NULL);
    for (size_t i = first; i < fields->count; i++) {
        const struct sbx_log_field *field = &fields->list[i];
        if (field->kind == SBX_LOG_NUMBER) {
            uint64_t number = 0;
            (void)sbx_text_count(field->value, &number);
            sbx_json_number(&json, field->key, number);
        } else {
            sbx_json_string(&json, field->key, field->value);
        }
    }
    sbx_json_close(&json);
    ssize_t length = sbx_json_finish(&json);
    length = length > 0 ? length - 1 : 0; /* its line feed */
    buffer[length] = '\0';
    return (size_t)length;
}

size_t sbx_log_text(const struct sbx_log_fields *fields, enum sbx_log_form form,
                    bool bare, char buffer[static SBX_LOG_TEXT_SIZE])
{
    size_t first = bare ? 2 : 0; /* time and level */
    return form == SBX_LOG_JSON ? put_json(fields, first, buffer)
                                : put_kv(fields, first, buffer);
}
