/*
 * replay_kit.c - follows the events of an execution as a reader that may come and go, and
 * fails the test on whatever is not told once, in order and without a hole. See
 * ask_kit.h.
 */
#include "tests/ask_kit.h"

#include "base/fd.h"
#include "tests/helpers/pattern.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int base64_value(char c)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = c != '\0' ? strchr(digits, c) : NULL;
    ck_assert_msg(found != NULL, "no base64: '%c'", c);
    return (int)(found - digits);
}

/* Strict: with its padding. */
static size_t decode(const char *text, char *buffer)
{
    size_t length = strlen(text);
    size_t count = 0;
    ck_assert_uint_eq(length % 4, 0);
    for (size_t i = 0; i < length; i += 4) {
        unsigned bits = 0;
        size_t bytes = text[i + 2] == '=' ? 1 : text[i + 3] == '=' ? 2 : 3;
        for (size_t j = 0; j < 4; j++) {
            bits = bits << 6 | (j <= bytes ? (unsigned)base64_value(text[i + j]) : 0);
        }
        for (size_t j = 0; j < bytes; j++) {
            buffer[count++] = (char)(bits >> (16 - 8 * j) & 0xff);
        }
    }
    return count;
}

static const char *text_of(const json_t *event, const char *key)
{
    const json_t *item = json_object_get(event, key);
    ck_assert_msg(json_is_string(item), "an event without %s", key);
    return json_string_value(item);
}

static uint64_t number_of(const json_t *event, const char *key)
{
    const json_t *item = json_object_get(event, key);
    ck_assert_msg(json_is_integer(item), "an event without %s", key);
    return (uint64_t)json_integer_value(item);
}

static int stream_of(const char *name)
{
    ck_assert_msg(strcmp(name, "stdout") == 0 || strcmp(name, "stderr") == 0, "stream %s",
                  name);
    return strcmp(name, "stdout") == 0 ? 0 : 1;
}

static void take_data(struct replay *replay, const json_t *event, int stream)
{
    const json_t *text = json_object_get(event, "data");
    const json_t *encoded = json_object_get(event, "data_base64");
    uint64_t offset = number_of(event, "offset");
    uint64_t length = number_of(event, "length");
    ck_assert_msg((text != NULL) != (encoded != NULL), "data and data_base64");
    /* Where events were not kept, bytes may be missing in between. */
    if (replay->first_after_gap == replay->after && offset > replay->next[stream]) {
        replay->next[stream] = offset;
    }
    ck_assert_msg(offset == replay->next[stream] || replay->first_after_gap > 0,
                  "stream %d goes on at %llu and not at %llu", stream,
                  (unsigned long long)offset, (unsigned long long)replay->next[stream]);
    size_t old = replay->length[stream];
    replay->data[stream] = realloc(replay->data[stream], old + (size_t)length + 4);
    ck_assert_ptr_nonnull(replay->data[stream]);
    if (text != NULL) {
        ck_assert_uint_eq(json_string_length(text), length);
        memcpy(replay->data[stream] + old, json_string_value(text), (size_t)length);
        replay->texts++;
    } else {
        ck_assert_uint_eq(strlen(text_of(event, "data_base64")), (length + 2) / 3 * 4);
        ck_assert_uint_eq(
            decode(text_of(event, "data_base64"), replay->data[stream] + old), length);
        replay->base64++;
    }
    replay->length[stream] += (size_t)length;
    replay->next[stream] = offset + length;
}

static void take_end(struct replay *replay, const json_t *event)
{
    replay->finished = true;
    replay->report = json_incref(json_object_get(event, "report"));
    (void)snprintf(replay->status, sizeof(replay->status), "%s",
                   text_of(event, "status"));
}

static void take_event(struct replay *replay, const json_t *event)
{
    const char *type = text_of(event, "type");
    const char *at = text_of(event, "at");
    ck_assert_msg(strlen(at) >= 20 && at[4] == '-' && at[10] == 'T' &&
                      at[strlen(at) - 1] == 'Z',
                  "at %s", at);
    ck_assert_msg(!replay->finished, "%s behind finished", type);
    ck_assert_msg((replay->after == 1) == (strcmp(type, "started") == 0),
                  "event %llu is %s", (unsigned long long)replay->after, type);
    replay->events++;
    if (strcmp(type, "started") == 0) {
        replay->started = true;
    } else if (strcmp(type, "stdout") == 0 || strcmp(type, "stderr") == 0) {
        take_data(replay, event, stream_of(type));
    } else if (strcmp(type, "gap") == 0) {
        int stream = stream_of(text_of(event, "stream"));
        replay->dropped[stream] += number_of(event, "length");
    } else if (strcmp(type, "warning") == 0) {
        replay->warnings++;
    } else if (strcmp(type, "breach") == 0) {
        replay->breaches++;
    } else if (strcmp(type, "finished") == 0) {
        take_end(replay, event);
    } else {
        ck_abort_msg("an event of type %s", type);
    }
}

size_t replay_poll(const struct service *service, struct replay *replay, const char *id,
                   const char *wait)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "/v1/executions/%s/events?after=%llu%s%s", id,
                   (unsigned long long)replay->after, wait != NULL ? "&wait=" : "",
                   wait != NULL ? wait : "");
    const struct answer *answer = ask_expect(ask(service, "GET", "%s", path), 200);
    const json_t *events = ask_item(answer->json, "events");
    uint64_t first = (uint64_t)ask_integer(answer, "first_sequence");
    uint64_t latest = (uint64_t)ask_integer(answer, "latest_sequence");
    bool expired = json_is_true(ask_item(answer->json, "expired"));
    ck_assert_msg(json_is_array(events), "no events: %s", answer->body);
    ck_assert_msg(expired == (replay->after + 1 < first),
                  "after %llu, first %llu, expired %d", (unsigned long long)replay->after,
                  (unsigned long long)first, expired);
    if (expired) {
        replay->first_after_gap = first;
        replay->after = first - 1;
    }
    size_t index;
    const json_t *event;
    json_array_foreach(events, index, event)
    {
        ck_assert_uint_eq(number_of(event, "sequence"), replay->after + 1);
        replay->after++;
        take_event(replay, event);
    }
    ck_assert_uint_ge(latest, replay->after);
    return json_array_size(events);
}

void replay_all(const struct service *service, struct replay *replay, const char *id,
                double seconds)
{
    double end = service_now() + seconds;
    while (!replay->finished) {
        ck_assert_msg(service_now() < end, "%s has not finished after %.1f s", id,
                      seconds);
        (void)replay_poll(service, replay, id, "5");
    }
}

void replay_done(struct replay *replay)
{
    free(replay->data[0]);
    free(replay->data[1]);
    json_decref(replay->report);
    *replay = (struct replay){0};
}

/* --- the pattern -----------------------------------------------------------------------
 */

void ask_start_emit(const struct service *service, const char *id, const char *keys,
                    const char *size, const char *chunk)
{
    char helper[SBX_FIXTURE_PATH_SIZE];
    ask_start(service, 201,
              "{'id': '%s', %s 'command': '%s', 'args': ['%s', '%s', 'exit']}", id, keys,
              sbx_fixture_helper(helper, "emit"), size, chunk);
}

void ask_expect_pattern(const char *bytes, uint64_t offset, size_t length)
{
    SBX_AUTO_FREE unsigned char *expected = malloc(length + 1);
    ck_assert_ptr_nonnull(expected);
    pattern_fill(expected, offset, length);
    size_t wrong = 0;
    while (wrong < length && (unsigned char)bytes[wrong] == expected[wrong]) {
        wrong++;
    }
    ck_assert_msg(wrong == length, "byte %zu behind offset %llu is wrong", wrong,
                  (unsigned long long)offset);
}
