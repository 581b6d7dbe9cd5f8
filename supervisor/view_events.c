/*
 * view_events.c - the events of an execution as JSON.
 *
 * An event is shown as it was recorded: one whose bytes begin or end inside a character
 * is no text, and stands as base64; nothing is put together again or cut here.
 *
 * `finished` is held back until the core knows of the end as well, so that nobody who has
 * seen it finds the execution running.
 */
#include "supervisor/view_private.h"

#include "base/fd.h"
#include "supervisor/journal.h"

#include <stdlib.h>
#include <string.h>

/* What an answer has reached ends it; one event more may be on top of that. */
#define EVENTS_MAX ((size_t)768 * 1024)

struct walk {
    const struct sbx_execution *execution;
    struct sbx_view_text text;
    size_t count;
    uint64_t held; /* sequence number of an event that is not shown yet; 0: none */
};

/* Padded, as RFC 4648 has it. NULL: no memory. */
static json_t *base64_of(const char *data, size_t length)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char text[(SBX_EVENT_DATA_MAX + 2) / 3 * 4];
    size_t used = 0;
    if (length > SBX_EVENT_DATA_MAX) {
        return NULL;
    }
    for (size_t at = 0; at < length; at += 3) {
        size_t rest = length - at;
        uint32_t group = (uint32_t)(unsigned char)data[at] << 16;
        group |= rest > 1 ? (uint32_t)(unsigned char)data[at + 1] << 8 : 0;
        group |= rest > 2 ? (uint32_t)(unsigned char)data[at + 2] : 0;
        text[used++] = digits[group >> 18];
        text[used++] = digits[group >> 12 & 63];
        text[used++] = '=';
        text[used++] = '=';
        if (rest > 1) {
            text[used - 2] = digits[group >> 6 & 63];
        }
        if (rest > 2) {
            text[used - 1] = digits[group & 63];
        }
    }
    return json_stringn(text, used);
}

static bool set_data(json_t *object, const struct sbx_event *event)
{
    bool has_zero = event->length > 0 && memchr(event->data, '\0', event->length) != NULL;
    json_t *text = has_zero ? NULL : json_stringn(event->data, event->length);
    if (text != NULL) {
        return sbx_view_set_take(object, "data", text);
    }
    return sbx_view_set_take(object, "data_base64",
                             base64_of(event->data, event->length));
}

static bool set_number(json_t *object, const char *key, uint64_t number)
{
    return sbx_view_set_take(object, key, json_integer((json_int_t)number));
}

/* Where the text is no UTF-8 or no JSON, the key is left out. */
static bool set_known(json_t *object, const char *key, json_t *value)
{
    return value == NULL || sbx_view_set_take(object, key, value);
}

static const char *stream_name(int stream)
{
    return stream == 2 ? "stderr" : "stdout";
}

static bool set_finished(json_t *object, const struct sbx_event *event,
                         const struct sbx_execution *execution)
{
    bool known = event->value <= SBX_EXECUTION_LOST;
    enum sbx_execution_status status =
        known ? (enum sbx_execution_status)event->value : SBX_EXECUTION_LOST;
    return sbx_view_set_take(object, "status",
                             json_string(sbx_execution_status_name(status))) &&
           set_known(object, "report", sbx_view_report(execution));
}

static bool set_details(json_t *object, const struct sbx_event *event,
                        const struct sbx_execution *execution)
{
    switch (event->type) {
    case SBX_EVENT_STARTED:
        return event->value == 0 || set_number(object, "pid", event->value);
    case SBX_EVENT_STDOUT:
    case SBX_EVENT_STDERR:
        return set_number(object, "offset", event->offset) &&
               set_number(object, "length", event->length) && set_data(object, event);
    case SBX_EVENT_GAP:
        return sbx_view_set_take(object, "stream",
                                 json_string(stream_name(event->stream))) &&
               set_number(object, "offset", event->offset) &&
               set_number(object, "length", event->value);
    case SBX_EVENT_WARNING:
        return set_known(object, "message", json_stringn(event->data, event->length));
    case SBX_EVENT_BREACH:
        return set_known(object, "breach",
                         json_loadb(event->data, event->length, 0, NULL));
    case SBX_EVENT_FINISHED:
        return set_finished(object, event, execution);
    default:
        return true;
    }
}

static json_t *event_of(const struct sbx_event *event,
                        const struct sbx_execution *execution)
{
    const char *type = sbx_event_type_name(event->type);
    json_t *object = json_object();
    bool complete =
        object != NULL && set_number(object, "sequence", event->sequence) &&
        sbx_view_set_take(object, "type", json_string(type != NULL ? type : "unknown")) &&
        sbx_view_set_take(object, "at", sbx_view_time(event->at_real_us)) &&
        set_details(object, event, execution);
    if (!complete) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static bool add_event(const struct sbx_event *event, void *context)
{
    struct walk *walk = context;
    if (event->type == SBX_EVENT_FINISHED &&
        sbx_execution_status(walk->execution) == SBX_EXECUTION_RUNNING) {
        walk->held = event->sequence;
        return false;
    }
    if (walk->count > 0) {
        sbx_view_text_add(&walk->text, ",", 1);
    }
    sbx_view_text_json_take(&walk->text, event_of(event, walk->execution));
    walk->count++;
    return !walk->text.failed && walk->text.length < EVENTS_MAX;
}

char *sbx_view_events(const struct sbx_execution *execution, uint64_t after,
                      size_t *ret_count)
{
    struct walk walk = {.execution = execution};
    struct sbx_journal_state state = {.first_sequence = 1};
    sbx_view_text_format(&walk.text, "{\"events\":[");
    int r = sbx_journal_read(sbx_execution_directory(execution), "events", after,
                             add_event, &walk, &state);
    if (r < 0) {
        state = (struct sbx_journal_state){.first_sequence = 1};
    }
    uint64_t latest = walk.held > 0 ? walk.held - 1 : state.latest_sequence;
    bool expired = state.first_sequence > 0 && after < state.first_sequence - 1;
    sbx_view_text_format(
        &walk.text,
        "],\"latest_sequence\":%llu,\"expired\":%s,\"first_sequence\":%llu}\n",
        (unsigned long long)latest, expired ? "true" : "false",
        (unsigned long long)state.first_sequence);
    char *events = sbx_view_text_take(&walk.text);
    if (events != NULL) {
        *ret_count = walk.count;
    }
    return events;
}
