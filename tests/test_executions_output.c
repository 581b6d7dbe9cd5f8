/*
 * test_executions_output.c - events and output of executions, on a real sbxd: each event
 * once and in order, whoever asks when; two bounds that bite alone; bytes of every kind;
 * long polls.
 */
#include "tests/ask_kit.h"

#include "base/fd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECONDS 60

static unsigned random_state = 20261130;

static unsigned next_random(unsigned below)
{
    random_state = random_state * 1664525U + 1013904223U;
    return (random_state >> 8) % below;
}

/* --- once, in order --------------------------------------------------------------------
 */

/* Events behind a cursor are those that an earlier reader had, from there on. */
static void expect_replay(const struct service *service, const char *id,
                          const json_t *known)
{
    size_t count = json_array_size(known);
    for (int i = 0; i < 60; i++) {
        unsigned after = next_random((unsigned)count + 1);
        const struct answer *answer =
            ask_expect(ask(service, "GET", "/v1/executions/%s/events?after=%u&wait=%ums",
                           id, after, next_random(3)),
                       200);
        const json_t *events = ask_item(answer->json, "events");
        size_t index;
        const json_t *event;
        ck_assert(after == count || json_array_size(events) > 0);
        json_array_foreach(events, index, event)
        {
            ck_assert_msg(json_equal(event, json_array_get(known, after + index)),
                          "event %zu behind %u is another one: %s", index, after,
                          answer->body);
        }
    }
}

static json_t *all_events(const struct service *service, const char *id)
{
    json_t *all = json_array();
    size_t got;
    do {
        const struct answer *answer =
            ask_expect(ask(service, "GET", "/v1/executions/%s/events?after=%zu", id,
                           json_array_size(all)),
                       200);
        json_t *events = json_object_get(answer->json, "events");
        got = json_array_size(events);
        ck_assert_int_eq(json_array_extend(all, events), 0);
    } while (got > 0);
    return all;
}

START_TEST(events_come_once_and_in_order)
{
    struct replay replay = {0};
    struct service service = {0};
    service_start(&service);
    ask_script(&service, "a", NULL,
               "i=0; while [ $i -lt 60 ]; do echo out $i; echo err $i >&2; i=$((i+1)); "
               "[ $((i % 10)) != 0 ] || sleep 0.02; done");
    static const char *const waits[] = {NULL, "1ms", "20ms", "300ms", "5"};
    while (!replay.finished) {
        (void)replay_poll(&service, &replay, "a", waits[next_random(5)]);
    }
    ck_assert_uint_eq(replay.first_after_gap, 0);
    ck_assert_str_eq(replay.status, "completed");
    ck_assert_str_eq(json_string_value(ask_item(replay.report, "outcome")), "exited");
    for (int stream = 0; stream < 2; stream++) {
        char expected[1024];
        size_t length = 0;
        for (int i = 0; i < 60; i++) {
            length += (size_t)snprintf(expected + length, sizeof(expected) - length,
                                       "%s %d\n", stream == 0 ? "out" : "err", i);
        }
        ck_assert_uint_eq(replay.length[stream], length);
        ck_assert_int_eq(memcmp(replay.data[stream], expected, length), 0);
    }
    json_t *all = all_events(&service, "a");
    ck_assert_uint_eq(json_array_size(all), replay.events);
    expect_replay(&service, "a", all);
    json_decref(all);
    replay_done(&replay);
    service_done(&service);
}
END_TEST

START_TEST(the_streams_keep_their_order_among_each_other)
{
    struct service service = {0};
    service_start(&service);
    ask_script(&service, "a", NULL, "echo 1; sleep 0.1; echo 2 >&2; sleep 0.1; echo 3");
    (void)ask_ends(&service, "a", "completed");
    json_t *all = all_events(&service, "a");
    ck_assert_uint_eq(json_array_size(all), 5);
    static const char *const types[] = {"started", "stdout", "stderr", "stdout",
                                        "finished"};
    for (size_t i = 0; i < 5; i++) {
        ck_assert_str_eq(
            json_string_value(json_object_get(json_array_get(all, i), "type")), types[i]);
    }
    json_decref(all);
    service_done(&service);
}
END_TEST

START_TEST(a_cursor_that_is_too_old_is_told)
{
    struct service service = {0};
    service_start(&service);
    ask_start_emit(&service, "a", "'event_limit': 8,", "400000", "1000");
    (void)ask_ends(&service, "a", "completed");
    const struct answer *answer =
        ask_expect(ask(&service, "GET", "/v1/executions/a/events?after=1"), 200);
    int64_t first = ask_integer(answer, "first_sequence");
    int64_t latest = ask_integer(answer, "latest_sequence");
    ck_assert(json_is_true(ask_item(answer->json, "expired")));
    ck_assert_int_gt(first, 2);
    ck_assert_int_lt(latest - first, 8);
    ck_assert_int_eq(ask_integer(answer, "events.0.sequence"), first);
    /* From there on nothing is missing, and the last one is the end. */
    answer = ask_expect(
        ask(&service, "GET", "/v1/executions/a/events?after=%lld", (long long)first - 1),
        200);
    ck_assert(json_is_false(ask_item(answer->json, "expired")));
    struct replay replay = {.after = (uint64_t)first - 1};
    replay.first_after_gap = (uint64_t)first;
    replay_all(&service, &replay, "a", 20);
    ck_assert_uint_eq(replay.after, (uint64_t)latest);
    replay_done(&replay);
    /* One behind the end waits for nothing. */
    answer = ask_expect(
        ask(&service, "GET", "/v1/executions/a/events?after=%lld", (long long)latest),
        200);
    ck_assert(json_is_false(ask_item(answer->json, "expired")));
    ck_assert_uint_eq(json_array_size(ask_item(answer->json, "events")), 0);
    service_done(&service);
}
END_TEST

/* --- two bounds
 * -------------------------------------------------------------------------- */

#define LONG_OUTPUT 300000UL

START_TEST(the_bound_of_output_bites_alone)
{
    struct replay replay = {0};
    struct service service = {0};
    size_t length;
    uint64_t gap;
    service_start(&service);
    ask_start_emit(&service, "a", "'output_limit': '8K', 'event_limit': 2000,", "300000",
                   "5000");
    replay_all(&service, &replay, "a", 30);
    ck_assert_str_eq(replay.status, "completed");
    ck_assert_uint_eq(replay.first_after_gap, 0);
    ck_assert_uint_eq(replay.length[0], LONG_OUTPUT);
    ask_expect_pattern(replay.data[0], 0, LONG_OUTPUT);
    SBX_AUTO_FREE char *bytes = ask_output(&service, "a", "stdout", &length, &gap);
    ck_assert_uint_eq(length + gap, LONG_OUTPUT);
    ck_assert_uint_le(length, 8192);
    ck_assert_uint_ge(length, 4096);
    const struct answer *head =
        ask_expect(ask(&service, "GET", "/v1/executions/a/stdout?offset=0"), 200);
    ck_assert(head->length > 0 && head->length < length && !head->eof);
    ask_expect_pattern(bytes, 0, head->length);
    ask_expect_pattern(bytes + head->length, head->length + gap, length - head->length);
    /* From within what was dropped, one is told how much of it that was. */
    const struct answer *within =
        ask_expect(ask(&service, "GET", "/v1/executions/a/stdout?offset=100000"), 200);
    ck_assert_uint_eq(within->offset, head->length + gap);
    ck_assert_uint_eq(within->gap, within->offset - 100000);
    replay_done(&replay);
    service_done(&service);
}
END_TEST

START_TEST(the_bound_of_events_bites_alone)
{
    struct service service = {0};
    size_t length;
    uint64_t gap;
    service_start(&service);
    ask_start_emit(&service, "a", "'output_limit': '1M', 'event_limit': 8,", "300000",
                   "5000");
    (void)ask_ends(&service, "a", "completed");
    SBX_AUTO_FREE char *bytes = ask_output(&service, "a", "stdout", &length, &gap);
    ck_assert_uint_eq(length, LONG_OUTPUT);
    ck_assert_uint_eq(gap, 0);
    ask_expect_pattern(bytes, 0, length);
    const struct answer *answer =
        ask_expect(ask(&service, "GET", "/v1/executions/a/events?after=0"), 200);
    ck_assert(json_is_true(ask_item(answer->json, "expired")));
    ck_assert_int_gt(ask_integer(answer, "first_sequence"), 2);
    service_done(&service);
}
END_TEST

/* --- bytes of every kind
 * ------------------------------------------------------------------- */

START_TEST(bytes_of_every_kind_survive)
{
    struct replay replay = {0};
    struct service service = {0};
    size_t length;
    service_start(&service);
    ask_start_emit(&service, "binary", "'output_limit': '1M', 'event_limit': 4000,",
                   "200000", "333");
    (void)ask_ends(&service, "binary", "completed");
    replay_all(&service, &replay, "binary", 30);
    ck_assert_uint_eq(replay.length[0], 200000);
    ck_assert_uint_gt(replay.base64, 0);
    ask_expect_pattern(replay.data[0], 0, 200000);
    SBX_AUTO_FREE char *bytes = ask_output(&service, "binary", "stdout", &length, NULL);
    ck_assert_uint_eq(length, 200000);
    ask_expect_pattern(bytes, 0, length);
    replay_done(&replay);
    service_done(&service);
}
END_TEST

/* Written whole, then compared with what events and output have. */
static void expect_same(const struct service *service, const char *id, const char *data,
                        size_t size)
{
    struct replay replay = {0};
    size_t length;
    replay_all(service, &replay, id, 30);
    SBX_AUTO_FREE char *bytes = ask_output(service, id, "stdout", &length, NULL);
    ck_assert_uint_eq(length, size);
    ck_assert_int_eq(memcmp(bytes, data, size), 0);
    ck_assert_uint_eq(replay.length[0], size);
    ck_assert(size == 0 || memcmp(replay.data[0], data, size) == 0);
    replay_done(&replay);
}

START_TEST(characters_are_cut_nowhere)
{
    static const char *const characters[] = {
        "a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\n", "\"", "\\"};
    char path[SBX_FIXTURE_PATH_SIZE];
    struct replay replay = {0};
    struct service service = {0};
    SBX_AUTO_FREE char *text = malloc(200008);
    size_t size = 0;
    ck_assert_ptr_nonnull(text);
    while (size < 200000) {
        const char *next = characters[next_random(7)];
        memcpy(text + size, next, strlen(next));
        size += strlen(next);
    }
    FILE *file = fopen(sbx_fixture_path(path, "text"), "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
    service_start(&service);
    /* In pieces of 4,099 bytes, whose ends are within characters. */
    ask_start(
        &service, 201,
        "{'id': 'text', 'output_limit': '1M', 'event_limit': 4000, 'command': 'dd', "
        "'args': ['if=%s', 'bs=4099', 'status=none']}",
        path);
    expect_same(&service, "text", text, size);
    replay_all(&service, &replay, "text", 10);
    ck_assert_msg(replay.base64 == 0, "%zu events are base64, %zu text", replay.base64,
                  replay.texts);
    replay_done(&replay);
    service_done(&service);
}
END_TEST

static const struct {
    const char *id;
    const char *script; /* for printf in octal */
    const char *data;
    size_t size;
} oddities[] = {
    {"nul", "printf 'a\\000b'", "a\0b", 3},
    {"invalid", "printf 'a\\377\\376b'", "a\377\376b", 4},
    {"surrogate", "printf '\\355\\240\\200'", "\355\240\200", 3},
    {"overlong", "printf '\\300\\200'", "\300\200", 2},
    {"controls", "printf '\\001\\033[31m\\177\\r\\n'", "\001\033[31m\177\r\n", 9},
    {"half", "printf 'x\\303'", "x\303", 2}, /* a character that never ends */
    {"slow", "printf '\\342'; sleep 0.1; printf '\\202'; sleep 0.1; printf '\\254'",
     "\342\202\254", 3},
    {"empty", "true", "", 0},
};

START_TEST(odd_bytes_survive)
{
    struct service service = {0};
    service_start(&service);
    for (size_t i = 0; i < sizeof(oddities) / sizeof(oddities[0]); i++) {
        ask_script(&service, oddities[i].id, NULL, oddities[i].script);
    }
    for (size_t i = 0; i < sizeof(oddities) / sizeof(oddities[0]); i++) {
        expect_same(&service, oddities[i].id, oddities[i].data, oddities[i].size);
    }
    service_done(&service);
}
END_TEST

START_TEST(a_huge_line_is_only_long)
{
    size_t size = 3UL * 1024 * 1024;
    size_t length;
    uint64_t gap;
    struct service service = {0};
    service_start(&service);
    ask_script(&service, "a", "'output_limit': '4M'",
               "head -c 3145728 /dev/zero | tr '\\000' x");
    SBX_AUTO_FREE char *bytes = ask_output(&service, "a", "stdout", &length, &gap);
    ck_assert_uint_eq(length, size);
    ck_assert_uint_eq(gap, 0);
    ck_assert_uint_eq(strspn(bytes, "x"), size);
    (void)ask_ends(&service, "a", "completed");
    service_done(&service);
}
END_TEST

/* --- long polls
 * ------------------------------------------------------------------------------ */

START_TEST(a_poll_waits_for_news_and_no_longer)
{
    char go[SBX_FIXTURE_PATH_SIZE];
    char script[2 * SBX_FIXTURE_PATH_SIZE];
    struct service service = {0};
    (void)sbx_fixture_path(go, "go");
    (void)snprintf(script, sizeof(script),
                   "until [ -e %s ]; do sleep 0.01; done; echo now; exec sleep 60", go);
    service_start(&service);
    ask_script(&service, "a", NULL, script);
    (void)ask_expect(ask(&service, "GET", "/v1/executions/a/events?wait=20"), 200);
    /* Nothing comes: it answers when its time is over, with nothing. */
    double start = service_now();
    const struct answer *answer = ask_expect(
        ask(&service, "GET", "/v1/executions/a/events?after=1&wait=200ms"), 200);
    ck_assert_uint_eq(json_array_size(ask_item(answer->json, "events")), 0);
    ck_assert_int_eq(ask_integer(answer, "latest_sequence"), 1);
    ck_assert_double_ge(service_now() - start, 0.19);
    answer = ask_expect(ask(&service, "GET", "/v1/executions/a/stdout?wait=100ms"), 200);
    ck_assert(answer->length == 0 && !answer->eof && answer->next == 0);
    /* It comes: both answer long before their time is over. */
    int events = ask_connect(&service);
    int output = ask_connect(&service);
    int other = ask_connect(&service);
    ck_assert(events >= 0 && output >= 0 && other >= 0);
    ck_assert(
        ask_send(events, "GET", "/v1/executions/a/events?after=1&wait=20", NULL, 0));
    ck_assert(
        ask_send(output, "GET", "/v1/executions/a/stdout?offset=0&wait=20", NULL, 0));
    ck_assert(
        ask_send(other, "GET", "/v1/executions/a/stderr?offset=0&wait=20", NULL, 0));
    while (ask_stat(&service, "waiters_count") < 3) {
        service_nap_ms(2);
    }
    FILE *file = fopen(go, "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fclose(file), 0);
    start = service_now();
    answer = ask_expect(ask_receive(events, 15), 200);
    ck_assert_str_eq(ask_string(answer, "events.0.data"), "now\n");
    answer = ask_expect(ask_receive(output, 15), 200);
    ck_assert_str_eq(answer->body, "now\n");
    ck_assert_double_lt(service_now() - start, 10);
    /* The end is news as well, on a stream with nothing in it. */
    (void)ask_expect(ask(&service, "POST", "/v1/executions/a/cancel"), 202);
    answer = ask_expect(ask_receive(other, 15), 200);
    ck_assert_uint_eq(answer->length, 0);
    service_done(&service);
}
END_TEST

/* Nothing of its place is there yet, or half of it. */
START_TEST(a_reader_may_come_before_the_command)
{
    struct service service = {0};
    service_start(&service);
    for (int i = 0; i < 20; i++) {
        ask_start(&service, 201, "{'id': 'a%d', 'command': 'true'}", i);
        for (int j = 0; j < 10; j++) {
            const struct answer *answer =
                ask_expect(ask(&service, "GET", "/v1/executions/a%d/stdout", i), 200);
            ck_assert_uint_eq(answer->next, 0);
            (void)ask_expect(ask(&service, "GET", "/v1/executions/a%d/stderr", i), 200);
            answer =
                ask_expect(ask(&service, "GET", "/v1/executions/a%d/events", i), 200);
            ck_assert(json_is_false(ask_item(answer->json, "expired")));
            (void)ask_expect(ask(&service, "GET", "/v1/executions/a%d", i), 200);
        }
    }
    for (int i = 0; i < 20; i++) {
        char id[16];
        (void)snprintf(id, sizeof(id), "a%d", i);
        (void)ask_ends(&service, id, "completed");
    }
    service_done(&service);
}
END_TEST

START_TEST(a_poll_whose_client_has_left_costs_nothing)
{
    int fds[50];
    struct service service = {0};
    service_start(&service);
    ask_start(&service, 201, "{'id': 'a', 'command': 'sleep', 'args': ['60']}");
    (void)ask_expect(ask(&service, "GET", "/v1/executions/a/events?wait=20"), 200);
    size_t descriptors = service_descriptors(service.pid);
    ck_assert_uint_eq(ask_stat(&service, "waiters_count"), 0);
    for (int i = 0; i < 50; i++) {
        fds[i] = ask_connect(&service);
        ck_assert_int_ge(fds[i], 0);
        ck_assert(ask_send(fds[i], "GET",
                           i % 2 == 0 ? "/v1/executions/a/events?after=1&wait=25"
                                      : "/v1/executions/a/stdout?wait=25",
                           NULL, 0));
    }
    double end = service_now() + 10;
    while (ask_stat(&service, "waiters_count") < 50) {
        ck_assert_double_lt(service_now(), end);
    }
    for (int i = 0; i < 50; i++) {
        (void)close(fds[i]);
    }
    /* At once: long before their time is over. */
    end = service_now() + 5;
    while (ask_stat(&service, "waiters_count") > 0 ||
           service_descriptors(service.pid) > descriptors) {
        ck_assert_msg(service_now() < end, "%llu waiters, %zu descriptors (%zu before)",
                      (unsigned long long)ask_stat(&service, "waiters_count"),
                      service_descriptors(service.pid), descriptors);
        service_nap_ms(2);
    }
    service_done(&service);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("executions_output");
    TCase *events = sbx_fixture_case(suite, "events", SECONDS);
    tcase_add_test(events, events_come_once_and_in_order);
    tcase_add_test(events, the_streams_keep_their_order_among_each_other);
    tcase_add_test(events, a_cursor_that_is_too_old_is_told);
    TCase *bounds = sbx_fixture_case(suite, "bounds", SECONDS);
    tcase_add_test(bounds, the_bound_of_output_bites_alone);
    tcase_add_test(bounds, the_bound_of_events_bites_alone);
    TCase *bytes = sbx_fixture_case(suite, "bytes", SECONDS);
    tcase_add_test(bytes, bytes_of_every_kind_survive);
    tcase_add_test(bytes, characters_are_cut_nowhere);
    tcase_add_test(bytes, odd_bytes_survive);
    tcase_add_test(bytes, a_huge_line_is_only_long);
    TCase *polls = sbx_fixture_case(suite, "polls", SECONDS);
    tcase_add_test(polls, a_poll_waits_for_news_and_no_longer);
    tcase_add_test(polls, a_reader_may_come_before_the_command);
    tcase_add_test(polls, a_poll_whose_client_has_left_costs_nothing);
    return sbx_fixture_run(suite);
}
