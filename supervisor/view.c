/*
 * view.c - see view.h: snapshots, the list of them, errors, and what the views share.
 */
#include "supervisor/view_private.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/text.h"
#include "monitor/flatten.h"
#include "supervisor/journal.h"
#include "supervisor/stream.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lists in a report are capped, and arguments that a command can have are not: what is
 * larger is left out of a view, and is in its file. */
#define REPORT_MAX ((size_t)512 * 1024)
#define TEXT_FIRST_SIZE ((size_t)512)
#define MESSAGE_SIZE 1024

/* --- a text that grows --- */

static bool make_room(struct sbx_view_text *text, size_t length)
{
    size_t size = text->size > 0 ? text->size : TEXT_FIRST_SIZE;
    if (text->failed || length > SIZE_MAX / 4 - text->length) {
        text->failed = true;
        return false;
    }
    while (size - text->length <= length) {
        size *= 2;
    }
    if (size == text->size) {
        return true;
    }
    char *data = realloc(text->data, size);
    if (data == NULL) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->size = size;
    return true;
}

void sbx_view_text_add(struct sbx_view_text *text, const char *data, size_t length)
{
    if (make_room(text, length)) {
        memcpy(text->data + text->length, data, length);
        text->length += length;
        text->data[text->length] = '\0';
    }
}

void sbx_view_text_format(struct sbx_view_text *text, const char *format, ...)
{
    char line[MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof line) {
        text->failed = true;
        return;
    }
    sbx_view_text_add(text, line, (size_t)length);
}

static int add_dumped(const char *data, size_t length, void *context)
{
    struct sbx_view_text *text = context;
    sbx_view_text_add(text, data, length);
    return text->failed ? -1 : 0;
}

void sbx_view_text_json_take(struct sbx_view_text *text, json_t *value)
{
    if (value == NULL || json_dump_callback(value, add_dumped, text, JSON_COMPACT) < 0) {
        text->failed = true;
    }
    json_decref(value);
}

char *sbx_view_text_take(struct sbx_view_text *text)
{
    char *data = text->failed ? NULL : text->data;
    if (text->failed) {
        free(text->data);
    }
    *text = (struct sbx_view_text){0};
    return data;
}

char *sbx_view_line_take(json_t *value)
{
    struct sbx_view_text text = {0};
    sbx_view_text_json_take(&text, value);
    sbx_view_text_add(&text, "\n", 1);
    return sbx_view_text_take(&text);
}

json_t *sbx_view_time(uint64_t real_us)
{
    char buffer[SBX_CLOCK_TEXT_SIZE];
    return json_string(sbx_clock_text(real_us, buffer));
}

bool sbx_view_set_take(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

/* --- the report --- */

static char *find_report(const struct sbx_execution *execution, size_t *ret_length)
{
    uint64_t written_us = 0;
    char *report = sbx_execution_report(execution, ret_length);
    if (report == NULL) {
        report =
            sbx_place_report(sbx_execution_directory(execution), ret_length, &written_us);
    }
    return report;
}

json_t *sbx_view_report(const struct sbx_execution *execution)
{
    size_t length = 0;
    SBX_AUTO_FREE char *report = find_report(execution, &length);
    if (report == NULL || length > REPORT_MAX) {
        return NULL;
    }
    return json_loadb(report, length, JSON_REJECT_DUPLICATES, NULL);
}

/* "exited" ... of a report that is too dear to be parsed for each line of a list. */
static json_t *outcome_of(const struct sbx_execution *execution)
{
    size_t length = 0;
    struct sbx_flat flat;
    SBX_AUTO_FREE char *report = find_report(execution, &length);
    if (report == NULL || !sbx_flatten_find(report, length, "outcome", &flat) ||
        flat.length < 2 || flat.value[0] != '"') {
        return NULL;
    }
    return json_stringn(flat.value + 1, flat.length - 2);
}

/* --- one execution --- */

static bool set_page(json_t *snapshot, const struct sbx_execution *execution)
{
    struct sbx_page page;
    if (sbx_page_read(sbx_execution_directory(execution), &page) < 0) {
        return true;
    }
    uint64_t started_us = page.started_real_us;
    bool running = sbx_execution_status(execution) == SBX_EXECUTION_RUNNING;
    return (started_us == 0 ||
            sbx_view_set_take(snapshot, "started_at", sbx_view_time(started_us))) &&
           (!running ||
            (sbx_view_set_take(snapshot, "paused", json_boolean(page.paused != 0)) &&
             sbx_view_set_take(snapshot, "stdin_open",
                               json_boolean(page.stdin_open != 0))));
}

static bool set_facts(json_t *snapshot, const struct sbx_execution *execution)
{
    const struct sbx_facts *facts = sbx_execution_facts(execution);
    enum sbx_execution_status status = sbx_execution_status(execution);
    uint64_t finished_us = sbx_execution_finished_us(execution);
    return sbx_view_set_take(snapshot, "id", json_string(facts->id)) &&
           sbx_view_set_take(snapshot, "status",
                             json_string(sbx_execution_status_name(status))) &&
           sbx_view_set_take(snapshot, "created_at",
                             sbx_view_time(facts->created_real_us)) &&
           (finished_us == 0 ||
            sbx_view_set_take(snapshot, "finished_at", sbx_view_time(finished_us)));
}

static bool set_latest(json_t *snapshot, const struct sbx_execution *execution)
{
    struct sbx_journal_state state = {0};
    (void)sbx_journal_look(sbx_execution_directory(execution), "events", &state);
    return sbx_view_set_take(snapshot, "latest_sequence",
                             json_integer((json_int_t)state.latest_sequence));
}

/* How much the command has written, kept or not. */
static bool set_written(json_t *snapshot, const struct sbx_execution *execution)
{
    static const struct {
        const char *file;
        const char *key;
    } rows[] = {{"stdout", "stdout_bytes"}, {"stderr", "stderr_bytes"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sbx_stream_state state;
        if (sbx_stream_look(sbx_execution_directory(execution), rows[i].file, &state) ==
                0 &&
            !sbx_view_set_take(snapshot, rows[i].key,
                               json_integer((json_int_t)state.total_bytes))) {
            return false;
        }
    }
    return true;
}

/* A key whose value is not known is left out; a value that is NULL is one. */
static bool set_known(json_t *snapshot, const char *key, json_t *value)
{
    return value == NULL || sbx_view_set_take(snapshot, key, value);
}

static json_t *snapshot_of(const struct sbx_execution *execution, bool whole)
{
    json_t *snapshot = json_object();
    bool settled = sbx_execution_status(execution) != SBX_EXECUTION_RUNNING;
    bool complete =
        snapshot != NULL && set_facts(snapshot, execution) &&
        (!whole || (set_page(snapshot, execution) && set_written(snapshot, execution) &&
                    set_latest(snapshot, execution)));
    if (complete && settled) {
        complete = whole ? set_known(snapshot, "report", sbx_view_report(execution))
                         : set_known(snapshot, "outcome", outcome_of(execution));
    }
    if (!complete) {
        json_decref(snapshot);
        return NULL;
    }
    return snapshot;
}

char *sbx_view_snapshot(const struct sbx_execution *execution)
{
    return sbx_view_line_take(snapshot_of(execution, true));
}

static bool add_to_list(struct sbx_execution *execution, void *context)
{
    struct sbx_view_text *text = context;
    if (text->data[text->length - 1] != '[') {
        sbx_view_text_add(text, ",", 1);
    }
    sbx_view_text_json_take(text, snapshot_of(execution, false));
    return !text->failed;
}

char *sbx_view_list(struct sbx_supervisor *supervisor, const struct sbx_peer *peer)
{
    struct sbx_view_text text = {0};
    sbx_view_text_format(&text, "{\"executions\":[");
    if (!text.failed) {
        sbx_supervisor_each(supervisor, peer, add_to_list, &text);
    }
    sbx_view_text_format(&text, "]}\n");
    return sbx_view_text_take(&text);
}

/* --- errors --- */

/* What a message quotes need not be UTF-8. */
static json_t *message_text(const char *message)
{
    char escaped[MESSAGE_SIZE];
    json_t *text = json_string(message);
    if (text != NULL) {
        return text;
    }
    size_t length = sbx_text_escape(escaped, sizeof escaped, message, strlen(message));
    return json_stringn(escaped, length);
}

char *sbx_view_error(const char *code, const char *message)
{
    json_t *text = message_text(message);
    return sbx_view_line_take(
        json_pack("{s:{s:s,s:o}}", "error", "code", code, "message", text));
}
