/*
 * test_service.c - every call of the service, as it is answered: statuses, headers,
 * bodies, and when.
 */
#include "tests/web_kit.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static int64_t number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    ck_assert_msg(json_is_integer(value), "%s is no number", key);
    return json_integer_value(value);
}

/* --- one from its start to its removal --- */

static void check_events(const struct web *web)
{
    static const char *const types[] = {"started", "stdout", "finished"};
    json_t *events = web_json(web, 200, "GET", "/v1/executions/a/events?after=0", NULL);
    const json_t *list = json_object_get(events, "events");
    ck_assert_uint_eq(json_array_size(list), LENGTH(types));
    for (size_t i = 0; i < LENGTH(types); i++) {
        const json_t *event = json_array_get(list, i);
        ck_assert_str_eq(text_of(event, "type"), types[i]);
        ck_assert_int_eq(number_of(event, "sequence"), (int64_t)i + 1);
        ck_assert_uint_eq(strlen(text_of(event, "at")),
                          strlen("2026-11-29T22:53:30.123456Z"));
    }
    ck_assert_int_gt(number_of(json_array_get(list, 0), "pid"), 0);
    ck_assert_str_eq(text_of(json_array_get(list, 1), "data"), "hello\n");
    ck_assert_int_eq(number_of(json_array_get(list, 1), "offset"), 0);
    ck_assert_int_eq(number_of(json_array_get(list, 1), "length"), 6);
    const json_t *report = json_object_get(json_array_get(list, 2), "report");
    ck_assert_str_eq(text_of(report, "schema"), "sbx.report/1");
    ck_assert_str_eq(text_of(report, "outcome"), "exited");
    ck_assert_int_eq(number_of(events, "latest_sequence"), 3);
    ck_assert_int_eq(number_of(events, "first_sequence"), 1);
    ck_assert(json_is_false(json_object_get(events, "expired")));
    json_decref(events);
    /* Nothing more will come: also with a long wait that is known at once. */
    events = web_json(web, 200, "GET", "/v1/executions/a/events?after=3&wait=60s", NULL);
    ck_assert_uint_eq(json_array_size(json_object_get(events, "events")), 0);
    json_decref(events);
}

static void check_output(const struct web *web)
{
    struct answer answer;
    web_ask(web, 200, "GET", "/v1/executions/a/stdout?offset=2&wait=60s", NULL, &answer);
    ck_assert_str_eq(answer.body, "llo\n");
    ck_assert_str_eq(answer_header(&answer, "Content-Type"), "application/octet-stream");
    ck_assert_int_eq(answer_number(&answer, "X-Sbx-Offset"), 2);
    ck_assert_int_eq(answer_number(&answer, "X-Sbx-Next"), 6);
    ck_assert_int_eq(answer_number(&answer, "X-Sbx-Eof"), 1);
    ck_assert_int_eq(answer_number(&answer, "X-Sbx-Gap"), 0);
    answer_done(&answer);
    web_ask(web, 200, "GET", "/v1/executions/a/stderr", NULL, &answer);
    ck_assert_uint_eq(answer.length, 0);
    ck_assert_int_eq(answer_number(&answer, "X-Sbx-Next"), 0);
    ck_assert_int_eq(answer_number(&answer, "X-Sbx-Eof"), 1);
    answer_done(&answer);
}

static void check_snapshot(const json_t *snapshot, const char *status)
{
    ck_assert_str_eq(text_of(snapshot, "id"), "a");
    ck_assert_str_eq(text_of(snapshot, "status"), status);
    ck_assert_str_ne(text_of(snapshot, "created_at"), "");
    (void)number_of(snapshot, "latest_sequence");
}

#define START_A "{\"id\":\"a\",\"command\":\"/bin/sh\",\"args\":[\"-c\",\"echo hello\"]}"

START_TEST(life)
{
    struct web web = {0};
    struct answer answer;
    web_start(&web);
    web_ask(&web, 201, "POST", "/v1/executions", START_A, &answer);
    ck_assert_str_eq(answer_header(&answer, "Location"), "/v1/executions/a");
    answer_done(&answer);
    ck_assert_str_eq(web_settled(&web, "a"), "completed");
    /* Again: the same one; another request: a conflict, and nothing has changed. */
    json_t *snapshot = web_json(&web, 200, "POST", "/v1/executions", START_A);
    check_snapshot(snapshot, "completed");
    ck_assert_str_ne(text_of(snapshot, "finished_at"), "");
    ck_assert_str_eq(text_of(json_object_get(snapshot, "report"), "outcome"), "exited");
    json_decref(snapshot);
    web_refused(&web, 409, "conflict", "POST", "/v1/executions",
                "{\"id\":\"a\",\"command\":\"/bin/true\"}");
    check_events(&web);
    check_output(&web);
    json_t *list = web_json(&web, 200, "GET", "/v1/executions", NULL);
    const json_t *items = json_object_get(list, "executions");
    ck_assert_uint_eq(json_array_size(items), 1);
    ck_assert_str_eq(text_of(json_array_get(items, 0), "id"), "a");
    ck_assert_str_eq(text_of(json_array_get(items, 0), "outcome"), "exited");
    ck_assert_ptr_null(json_object_get(json_array_get(items, 0), "report"));
    json_decref(list);
    /* The id may be spelled in another way. */
    json_decref(web_json(&web, 200, "GET", "/v1/executions/%61", NULL));
    ck_assert_ptr_null(web_json(&web, 204, "DELETE", "/v1/executions/a", NULL));
    web_refused(&web, 404, "not_found", "GET", "/v1/executions/a", NULL);
    web_stop(&web);
}
END_TEST

/* --- what is refused --- */

struct refusal {
    int status;
    const char *code;
    const char *method;
    const char *path;
    const char *body;
};

#define IT "/v1/executions/it"

static const struct refusal refusals[] = {
    {404, "not_found", "GET", "/", NULL},
    {404, "not_found", "GET", "/v2/executions", NULL},
    {404, "not_found", "GET", "/v1/executions/", NULL},
    {404, "not_found", "GET", "/v1/executionsx", NULL},
    {404, "not_found", "GET", IT "/", NULL},
    {404, "not_found", "GET", IT "/nothing", NULL},
    {404, "not_found", "GET", IT "/events/", NULL},
    {404, "not_found", "GET", "/v1/executions/other", NULL},
    {404, "not_found", "GET", "/v1/executions/other/stdout", NULL},
    {404, "not_found", "GET", "/v1/executions/other/events?wait=60s", NULL},
    {404, "not_found", "POST", "/v1/executions/other/cancel", NULL},
    {404, "not_found", "POST", "/v1/executions/other/pause", NULL},
    {404, "not_found", "POST", "/v1/executions/other/stdin", "x"},
    {404, "not_found", "POST", "/v1/executions/other/signal", "{\"signal\":\"TERM\"}"},
    {404, "not_found", "DELETE", "/v1/executions/other", NULL},
    {400, "bad_request", "GET", "/v1/executions/.", NULL},
    {400, "bad_request", "GET", "/v1/executions/..%2f..%2fetc", NULL},
    {400, "bad_request", "GET", "/v1/executions/a%00b", NULL},
    {400, "bad_request", "GET", "/v1/executions/a%4", NULL},
    {400, "bad_request", "GET", IT "?wait=1s", NULL},
    {400, "bad_request", "GET", IT "/events?after=-1", NULL},
    {400, "bad_request", "GET", IT "/events?after=1&after=1", NULL},
    {400, "bad_request", "GET", IT "/events?after=", NULL},
    {400, "bad_request", "GET", IT "/events?after=1&", NULL},
    {400, "bad_request", "GET", IT "/events?wait=soon", NULL},
    {400, "bad_request", "GET", IT "/events?offset=1", NULL},
    {400, "bad_request", "GET", IT "/stdout?after=1", NULL},
    {400, "bad_request", "GET", IT "/stdout?offset=18446744073709551616", NULL},
    {400, "bad_request", "POST", IT "/stdin?close=yes", "x"},
    {400, "bad_request", "POST", IT "/signal", NULL},
    {400, "bad_request", "POST", IT "/signal", "{\"signal\":\"NONE\"}"},
    {400, "bad_request", "POST", IT "/signal", "{\"signal\":0}"},
    {400, "bad_request", "POST", IT "/signal", "{\"signal\":\"TERM\",\"more\":1}"},
    {400, "bad_request", "POST", IT "/signal", "[\"TERM\"]"},
    {400, "bad_request", "POST", "/v1/executions", NULL},
    {400, "bad_request", "POST", "/v1/executions", "{"},
    {400, "bad_request", "POST", "/v1/executions", "{\"command\":\"x\",\"unknown\":1}"},
    {400, "bad_request", "POST", "/v1/executions",
     "{\"command\":\"x\",\"limits\":{\"wall\":\"never\"}}"},
    {400, "bad_request", "POST", "/v1/shutdown", "{\"cancel\":1}"},
    {403, "not_allowed", "POST", "/v1/executions",
     "{\"command\":\"x\",\"limits\":{\"memory\":\"1T\"}}"},
    {409, "stdin_closed", "POST", IT "/stdin", "x"},
    {405, "bad_method", "PUT", "/v1/executions", "{}"},
    {405, "bad_method", "DELETE", "/v1/executions", NULL},
    {405, "bad_method", "GET", IT "/cancel", NULL},
    {405, "bad_method", "POST", IT "/stdout", NULL},
    {405, "bad_method", "BREW", "/v1/stats", NULL},
    {405, "bad_method", "OPTIONS", "/metrics", NULL},
};

/* Also from the execution, once it is over. */
static const struct refusal afterwards[] = {
    {409, "settled", "POST", IT "/signal", "{\"signal\":\"TERM\"}"},
    {409, "settled", "POST", IT "/pause", NULL},
    {409, "settled", "POST", IT "/resume", NULL},
    {409, "settled", "POST", IT "/stdin", "x"},
};

static void try_all(const struct web *web, const struct refusal *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        web_refused(web, list[i].status, list[i].code, list[i].method, list[i].path,
                    list[i].body);
    }
}

START_TEST(refused)
{
    static const char *const options[] = {"max-memory", "1G", NULL};
    struct web web = {.options = options};
    struct answer answer;
    web_start(&web);
    web_execute(&web, "it", "exec sleep 1000", "");
    try_all(&web, refusals, LENGTH(refusals));
    web_ask(&web, 405, "PUT", IT, "", &answer);
    ck_assert_str_eq(answer_header(&answer, "Allow"), "GET, DELETE");
    answer_done(&answer);
    json_t *snapshot = web_json(&web, 200, "GET", IT, NULL);
    ck_assert_str_eq(text_of(snapshot, "status"), "running");
    ck_assert(json_is_false(json_object_get(snapshot, "paused")));
    ck_assert(json_is_false(json_object_get(snapshot, "stdin_open")));
    json_decref(snapshot);
    json_decref(web_json(&web, 200, "POST", IT "/cancel?wait=30s", NULL));
    try_all(&web, afterwards, LENGTH(afterwards));
    web_stop(&web);
}
END_TEST

START_TEST(capacity)
{
    static const char *const options[] = {"max-executions", "1", NULL};
    struct web web = {.options = options};
    web_start(&web);
    web_execute(&web, "it", "exec sleep 1000", "");
    web_refused(&web, 429, "capacity", "POST", "/v1/executions",
                "{\"command\":\"/bin/true\"}");
    json_decref(web_json(&web, 200, "POST", IT "/cancel?wait=30s", NULL));
    json_decref(
        web_json(&web, 201, "POST", "/v1/executions", "{\"command\":\"/bin/true\"}"));
    web_refused(&web, 404, "not_found", "GET", IT, NULL); /* made room */
    ck_assert_int_eq(web_stat(&web, "evicted_total"), 1);
    ck_assert_int_eq(web_stat(&web, "refused_total"), 1);
    web_stop(&web);
}
END_TEST

/* --- waiting --- */

/* Sends a poll, and returns when the service waits for it. */
static int begin_poll(const struct web *web, const char *method, const char *path)
{
    int64_t before = web_stat(web, "waiters_count");
    int fd = web_connect(web);
    web_request(fd, method, path, NULL);
    web_wait_stat(web, "waiters_count", before + 1, 10);
    return fd;
}

static void end_poll(int fd, int status, struct answer *answer)
{
    web_read(fd, answer, 20);
    (void)close(fd);
    ck_assert_msg(answer->status == status, "%d: %s", answer->status, answer->body);
}

START_TEST(polls_wake)
{
    struct web web = {0};
    struct answer answer;
    web_start(&web);
    web_execute(&web, "it", "cat", "\"stdin\":\"open\"");
    json_decref(web_json(&web, 200, "GET", IT "/events?after=0&wait=30s", NULL));
    int events = begin_poll(&web, "GET", IT "/events?after=1&wait=60s");
    int output = begin_poll(&web, "GET", IT "/stdout?offset=0&wait=60s");
    int errors = begin_poll(&web, "GET", IT "/stderr?offset=0&wait=");
    ck_assert_ptr_null(web_json(&web, 204, "POST", IT "/stdin", "one"));
    end_poll(events, 200, &answer);
    ck_assert_ptr_nonnull(strstr(answer.body, "\"data\":\"one\""));
    answer_done(&answer);
    end_poll(output, 200, &answer);
    ck_assert_str_eq(answer.body, "one");
    ck_assert_int_eq(answer_number(&answer, "X-Sbx-Eof"), 0);
    answer_done(&answer);
    /* The end of a stream is news to one who waits for bytes of it. */
    output = begin_poll(&web, "GET", IT "/stdout?offset=3&wait=60s");
    ck_assert_ptr_null(web_json(&web, 204, "POST", IT "/stdin?close=1", ""));
    end_poll(output, 200, &answer);
    ck_assert_uint_eq(answer.length, 0);
    ck_assert_int_eq(answer_number(&answer, "X-Sbx-Eof"), 1);
    answer_done(&answer);
    end_poll(errors, 200, &answer);
    ck_assert_int_eq(answer_number(&answer, "X-Sbx-Eof"), 1);
    answer_done(&answer);
    ck_assert_str_eq(web_settled(&web, "it"), "completed");
    ck_assert_int_eq(web_stat(&web, "waiters_count"), 0);
    web_stop(&web);
}
END_TEST

START_TEST(polls_end)
{
    struct web web = {0};
    struct answer answer;
    web_start(&web);
    web_execute(&web, "it", "exec sleep 1000", "");
    json_decref(web_json(&web, 200, "GET", IT "/events?after=0&wait=30s", NULL));
    uint64_t begin = sbx_clock_us();
    web_ask(&web, 200, "GET", IT "/events?after=1&wait=200ms", NULL, &answer);
    ck_assert_uint_ge(sbx_clock_us() - begin, 200000);
    ck_assert_ptr_nonnull(strstr(answer.body, "\"events\":[]"));
    answer_done(&answer);
    web_ask(&web, 200, "GET", IT "/stdout?wait=100ms", NULL, &answer);
    ck_assert_uint_eq(answer.length, 0);
    ck_assert_int_eq(answer_number(&answer, "X-Sbx-Eof"), 0);
    answer_done(&answer);
    /* Not to wait is not to wait. */
    web_ask(&web, 200, "GET", IT "/events?after=1", NULL, &answer);
    answer_done(&answer);
    json_decref(web_json(&web, 202, "DELETE", IT "?wait=0", NULL));
    web_wait_stat(&web, "active_count", 0, 20);
    web_refused(&web, 404, "not_found", "GET", IT, NULL);
    web_stop(&web);
}
END_TEST

START_TEST(removed_under_polls)
{
    struct web web = {0};
    struct answer answer;
    web_start(&web);
    web_execute(&web, "it", "exec sleep 1000", "");
    json_decref(web_json(&web, 200, "GET", IT "/events?after=0&wait=30s", NULL));
    int events = begin_poll(&web, "GET", IT "/events?after=1&wait=60s");
    int cancel = begin_poll(&web, "POST", IT "/cancel?wait=60s");
    ck_assert_ptr_null(web_json(&web, 204, "DELETE", IT "?wait=30s", NULL));
    /* It has heard of the end, or it is gone already. */
    web_read(events, &answer, 20);
    (void)close(events);
    ck_assert(answer.status == 404 ||
              (answer.status == 200 && strstr(answer.body, "\"finished\"") != NULL));
    answer_done(&answer);
    /* Cancelled it was, or the same. */
    web_read(cancel, &answer, 20);
    (void)close(cancel);
    ck_assert(answer.status == 200 || answer.status == 404);
    answer_done(&answer);
    web_stop(&web);
}
END_TEST

/* --- orders --- */

START_TEST(orders)
{
    struct web web = {0};
    struct answer answer;
    web_start(&web);
    web_execute(&web, "it",
                "trap 'echo one' USR1; echo ready; while :; do sleep 0.05; done",
                "\"signal\":\"KILL\"");
    web_ask(&web, 200, "GET", IT "/stdout?wait=30s", NULL, &answer);
    ck_assert_str_eq(answer.body, "ready\n");
    answer_done(&answer);
    ck_assert_ptr_null(
        web_json(&web, 204, "POST", IT "/signal", "{\"signal\":\"USR1\"}"));
    web_ask(&web, 200, "GET", IT "/stdout?offset=6&wait=30s", NULL, &answer);
    ck_assert_str_eq(answer.body, "one\n");
    answer_done(&answer);
    ck_assert_ptr_null(web_json(&web, 204, "POST", IT "/pause", NULL));
    json_t *snapshot = web_json(&web, 200, "GET", IT, NULL);
    ck_assert(json_is_true(json_object_get(snapshot, "paused")));
    json_decref(snapshot);
    ck_assert_ptr_null(web_json(&web, 204, "POST", IT "/resume", NULL));
    ck_assert_ptr_null(web_json(&web, 204, "POST", IT "/signal", "{\"signal\":10}"));
    web_ask(&web, 200, "GET", IT "/stdout?offset=10&wait=30s", NULL, &answer);
    ck_assert_str_eq(answer.body, "one\n");
    answer_done(&answer);
    /* At once, and again, and until it is over. */
    json_decref(web_json(&web, 202, "POST", IT "/cancel", NULL));
    snapshot = web_json(&web, 200, "POST", IT "/cancel?wait=30s", NULL);
    ck_assert_str_eq(text_of(snapshot, "status"), "cancelled");
    json_decref(snapshot);
    json_decref(web_json(&web, 202, "POST", IT "/cancel", NULL));
    json_decref(web_json(&web, 200, "POST", IT "/cancel?wait=30s", NULL));
    web_stop(&web);
}
END_TEST

START_TEST(input)
{
    enum { LARGE = 1024 * 1024 };
    struct web web = {0};
    struct answer answer;
    char *body = malloc(LARGE + 2);
    ck_assert_ptr_nonnull(body);
    memset(body, 'x', LARGE + 1);
    body[LARGE + 1] = '\0';
    web_start(&web);
    web_execute(&web, "it", "read line; exec wc -c", "\"stdin\":\"open\"");
    web_refused(&web, 413, "too_large", "POST", IT "/stdin", body);
    body[LARGE] = '\0';
    /* Nobody reads: so much is held back, and no more; nothing of the rest is taken. */
    ck_assert_ptr_null(web_json(&web, 204, "POST", IT "/stdin", body));
    web_ask(&web, 429, "POST", IT "/stdin", body, &answer);
    ck_assert_ptr_nonnull(strstr(answer.body, "\"stdin_full\""));
    answer_done(&answer);
    free(body);
    web_stop(&web);
}
END_TEST

/* A gap is told, and output beyond the bound of one answer comes in pieces. */
START_TEST(pieces)
{
    enum { TOTAL = 700000 };
    struct web web = {0};
    struct answer answer;
    char path[128];
    web_start(&web);
    web_execute(&web, "it", "head -c 700000 /dev/zero | tr '\\0' a",
                "\"output_limit\":\"1M\"");
    web_execute(&web, "cut", "head -c 700000 /dev/zero | tr '\\0' a; echo end",
                "\"output_limit\":\"64K\"");
    ck_assert_str_eq(web_settled(&web, "it"), "completed");
    ck_assert_str_eq(web_settled(&web, "cut"), "completed");
    int64_t next = 0;
    int64_t eof = 0;
    int count = 0;
    while (eof == 0) {
        (void)snprintf(path, sizeof path, IT "/stdout?offset=%lld", (long long)next);
        web_ask(&web, 200, "GET", path, NULL, &answer);
        ck_assert_uint_le(answer.length, 256 * 1024);
        ck_assert_int_eq(answer_number(&answer, "X-Sbx-Offset"), next);
        next = answer_number(&answer, "X-Sbx-Next");
        eof = answer_number(&answer, "X-Sbx-Eof");
        answer_done(&answer);
        ck_assert_int_lt(count++, 100);
    }
    ck_assert_int_eq(next, TOTAL);
    ck_assert_int_ge(count, 3);
    web_ask(&web, 200, "GET", "/v1/executions/cut/stdout?offset=40000", NULL, &answer);
    ck_assert_int_gt(answer_number(&answer, "X-Sbx-Gap"), 0);
    ck_assert_int_eq(answer_number(&answer, "X-Sbx-Offset"),
                     40000 + answer_number(&answer, "X-Sbx-Gap"));
    ck_assert_str_eq(answer.body + answer.length - 4, "end\n");
    ck_assert_int_eq(answer_number(&answer, "X-Sbx-Eof"), 1);
    answer_done(&answer);
    web_stop(&web);
}
END_TEST

/* --- the service --- */

START_TEST(numbers)
{
    struct web web = {0};
    struct answer answer;
    web_start(&web);
    web_execute(&web, "it", "exit 3", "");
    ck_assert_str_eq(web_settled(&web, "it"), "failed");
    json_t *stats = web_json(&web, 200, "GET", "/v1/stats", NULL);
    ck_assert_int_eq(number_of(stats, "started_total"), 1);
    ck_assert_int_eq(number_of(stats, "retained_count"), 1);
    ck_assert_int_eq(number_of(json_object_get(stats, "finished_total"), "failed"), 1);
    json_decref(stats);
    web_ask(&web, 200, "GET", "/metrics", NULL, &answer);
    ck_assert_str_eq(answer_header(&answer, "Content-Type"), "text/plain; version=0.0.4");
    ck_assert_ptr_nonnull(strstr(answer.body, "\nsbx_executions_started_total 1\n"));
    ck_assert_ptr_nonnull(
        strstr(answer.body, "\nsbx_executions_finished_total{status=\"failed\"} 1\n"));
    ck_assert_ptr_nonnull(strstr(answer.body, "\n# TYPE sbx_connections gauge\n"));
    answer_done(&answer);
    web_stop(&web);
}
END_TEST

/* Two that ask get one answer, and others are answered meanwhile. */
START_TEST(verification)
{
    struct web web = {0};
    struct answer answers[2];
    web_start(&web);
    int first = web_connect(&web);
    int second = web_connect(&web);
    int left = web_connect(&web);
    web_request(first, "GET", "/v1/verify", NULL);
    web_request(second, "GET", "/v1/verify", NULL);
    web_request(left, "GET", "/v1/verify", NULL);
    (void)close(left);
    json_decref(web_json(&web, 200, "GET", "/v1/stats", NULL));
    web_read(first, &answers[0], 70);
    web_read(second, &answers[1], 10);
    ck_assert_int_eq(answers[0].status, 200);
    ck_assert_str_eq(answers[0].body, answers[1].body);
    json_t *found = json_loadb(answers[0].body, answers[0].length, 0, NULL);
    ck_assert_ptr_nonnull(json_object_get(found, "supported"));
    json_decref(found);
    json_t *again = web_json(&web, 200, "GET", "/v1/verify", NULL);
    ck_assert_ptr_nonnull(json_object_get(again, "checks"));
    json_decref(again);
    answer_done(&answers[0]);
    answer_done(&answers[1]);
    (void)close(first);
    (void)close(second);
    web_stop(&web);
}
END_TEST

/* One that is ended while it verifies takes that along. */
START_TEST(verification_cut)
{
    struct web web = {0};
    web_start(&web);
    int fd = web_connect(&web);
    web_request(fd, "GET", "/v1/verify", NULL);
    json_decref(web_json(&web, 200, "GET", "/v1/stats", NULL));
    web_terminate(&web);
    (void)close(fd);
    web_wait_alone();
}
END_TEST

START_TEST(shut_down)
{
    struct web web = {0};
    web_start(&web);
    web_execute(&web, "it", "exec sleep 1000", "");
    web_execute(&web, "other", "trap '' TERM; sleep 1000", "\"grace\":\"200ms\"");
    web_stop(&web);
    ck_assert_int_ne(access(web.socket, F_OK), 0);
}
END_TEST

int main(int argc, char *argv[])
{
    web_main(argc, argv);
    Suite *suite = suite_create("service");
    TCase *calls = sbx_fixture_case(suite, "calls", 60);
    tcase_add_test(calls, life);
    tcase_add_test(calls, refused);
    tcase_add_test(calls, capacity);
    tcase_add_test(calls, orders);
    tcase_add_test(calls, input);
    tcase_add_test(calls, pieces);
    tcase_add_test(calls, numbers);
    tcase_add_test(calls, shut_down);
    TCase *waiting = sbx_fixture_case(suite, "waiting", 60);
    tcase_add_test(waiting, polls_wake);
    tcase_add_test(waiting, polls_end);
    tcase_add_test(waiting, removed_under_polls);
    TCase *verifying = sbx_fixture_case(suite, "verifying", 120);
    tcase_add_test(verifying, verification);
    tcase_add_test(verifying, verification_cut);
    return sbx_fixture_run(suite);
}
