/*
 * test_executions.c - the calls of the service, on a real sbxd over its real socket: what
 * each answers, starts under an id, requests that make no sense, clients that misbehave.
 *
 * Beside it: test_executions_output.c and _input.c (what a command writes and reads),
 * _ends.c (orders, limits, how it starts), _bounds.c (what is kept, and for whom),
 * _restart.c and _storm.c (kills), _load.c (many, and much).
 */
#include "tests/ask_kit.h"

#include "base/fd.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECONDS 60
#define SLEEPER "'command': 'sleep', 'args': ['60']"

/* --- each call, each status -----------------------------------------------------------
 */

/* With one that runs, "live", one that has ended, "over", and none of the name "none". */
static const struct row {
    const char *method;
    const char *path;
    const char *body; /* ' for "; NULL: none */
    int status;
} rows[] = {
    {"GET", "/v1/executions", NULL, 200},
    {"GET", "/v1/executions/live", NULL, 200},
    {"GET", "/v1/executions/over", NULL, 200},
    {"GET", "/v1/executions/none", NULL, 404},
    {"PUT", "/v1/executions/live", NULL, 405},
    {"PUT", "/v1/executions", NULL, 405},
    {"GET", "/v1/executions/live/events", NULL, 200},
    {"GET", "/v1/executions/live/events?after=0", NULL, 200},
    {"GET", "/v1/executions/over/events?after=1&wait=60", NULL, 200},
    {"GET", "/v1/executions/over/events?after=100&wait=60", NULL, 200}, /* at once */
    {"GET", "/v1/executions/none/events", NULL, 404},
    {"GET", "/v1/executions/over/events?after=x", NULL, 400},
    {"GET", "/v1/executions/over/events?after=-1", NULL, 400},
    {"GET", "/v1/executions/over/events?after=18446744073709551616", NULL, 400},
    {"GET", "/v1/executions/over/events?wait=soon", NULL, 400},
    {"POST", "/v1/executions/over/events", "{}", 405},
    {"GET", "/v1/executions/over/stdout", NULL, 200},
    {"GET", "/v1/executions/over/stderr?offset=1&wait=1", NULL, 200},
    {"GET", "/v1/executions/over/stdout?offset=99999", NULL, 200},
    {"GET", "/v1/executions/over/stdout?offset=one", NULL, 400},
    {"GET", "/v1/executions/none/stdout", NULL, 404},
    {"GET", "/v1/executions/over/stdlog", NULL, 404},
    {"POST", "/v1/executions/live/stdin", "x", 409}, /* it has none */
    {"POST", "/v1/executions/over/stdin", "x", 409},
    {"POST", "/v1/executions/none/stdin", "x", 404},
    {"POST", "/v1/executions/live/signal", "{'signal': 'CONT'}", 204},
    {"POST", "/v1/executions/live/signal", "{'signal': 'HUPS'}", 400},
    {"POST", "/v1/executions/live/signal", "{'signal': 0}", 400},
    {"POST", "/v1/executions/live/signal", "{}", 400},
    {"POST", "/v1/executions/live/signal", "{'signal': 'CONT', 'to': 1}", 400},
    {"POST", "/v1/executions/live/signal", NULL, 400},
    {"POST", "/v1/executions/over/signal", "{'signal': 'TERM'}", 409},
    {"POST", "/v1/executions/none/signal", "{'signal': 'TERM'}", 404},
    {"POST", "/v1/executions/live/pause", NULL, 204},
    {"POST", "/v1/executions/live/pause", NULL, 204},
    {"POST", "/v1/executions/live/resume", NULL, 204},
    {"POST", "/v1/executions/live/resume", NULL, 204},
    {"POST", "/v1/executions/over/pause", NULL, 409},
    {"POST", "/v1/executions/none/pause", NULL, 404},
    {"POST", "/v1/executions/none/resume", NULL, 404},
    {"GET", "/v1/executions/live/cancel", NULL, 405},
    {"POST", "/v1/executions/none/cancel", NULL, 404},
    {"POST", "/v1/executions/live/cancel?wait=long", NULL, 400},
    {"POST", "/v1/executions/over/cancel?wait=60", NULL, 200},
    {"DELETE", "/v1/executions/none", NULL, 404},
    {"DELETE", "/v1/executions", NULL, 405},
    {"GET", "/v1/stats", NULL, 200},
    {"GET", "/metrics", NULL, 200},
    {"POST", "/v1/stats", "{}", 405},
    {"POST", "/v1/shutdown", "{'cancel': 7}", 400},
    {"POST", "/v1/shutdown", "{'now': true}", 400},
    {"GET", "/", NULL, 404},
    {"GET", "/v2/executions", NULL, 404},
    {"GET", "/v1/executions/over/", NULL, 404},
    /* No path leads out of the state directory. */
    {"GET", "/v1/executions/..", NULL, 400},
    {"GET", "/v1/executions/../key", NULL, 404},
    {"GET", "/v1/executions/..%2fkey", NULL, 400},
    {"GET", "/v1/executions/%2e%2e", NULL, 400},
    {"GET", "/v1/executions/over%00", NULL, 400},
    {"DELETE", "/v1/executions/..%2f..%2fstate", NULL, 400},
    {"DELETE", "/v1/executions/.", NULL, 400},
};

START_TEST(each_call_answers_as_promised)
{
    struct service service = {0};
    service_start(&service);
    ask_start(&service, 201, "{'id': 'live', " SLEEPER "}");
    ask_start(
        &service, 201,
        "{'id': 'over', 'command': 'sh', 'args': ['-c', 'echo out; echo err >&2']}");
    (void)ask_ends(&service, "over", "completed");
    char complaints[4096] = "";
    size_t length = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        SBX_AUTO_FREE char *body = strdup(row->body != NULL ? row->body : "");
        for (char *quote = body; (quote = strchr(quote, '\'')) != NULL;) {
            *quote = '"';
        }
        const struct answer *answer =
            ask_bytes(&service, row->method, row->path, row->body != NULL ? body : NULL,
                      strlen(body));
        bool told = answer->status < 400 || json_is_object(answer->json);
        if ((answer->status != row->status || !told) &&
            length + 512 < sizeof(complaints)) {
            length +=
                (size_t)snprintf(complaints + length, 512, "\n%s %s: %d: %.300s",
                                 row->method, row->path, answer->status, answer->body);
        } else if (answer->status >= 400) {
            ck_assert_str_ne(ask_code(answer), "");
        }
    }
    ck_assert_msg(length == 0, "not as promised:%s", complaints);
    ck_assert_str_eq(ask_string(ask(&service, "GET", "/v1/executions/live"), "status"),
                     "running");
    service_done(&service);
}
END_TEST

START_TEST(what_answers_contain)
{
    struct service service = {0};
    service_start(&service);
    const struct answer *new =
        ask_start(&service, 201,
                  "{'id': 'a', 'command': 'sh', 'args': ['-c', 'printf hello; exit 3']}");
    ck_assert_str_eq(ask_string(new, "id"), "a");
    ck_assert_str_eq(ask_string(new, "status"), "running");
    ck_assert_uint_ge(strlen(ask_string(new, "created_at")), 20);
    const struct answer *end = ask_ends(&service, "a", "failed");
    ck_assert_str_eq(ask_string(end, "created_at"), ask_string(new, "created_at"));
    ck_assert_str_ge(ask_string(end, "finished_at"), ask_string(end, "created_at"));
    ck_assert_int_eq(ask_integer(end, "latest_sequence"), 3);
    ck_assert_str_eq(ask_string(end, "report.outcome"), "exited");
    ck_assert_int_eq(ask_integer(end, "report.exit_code"), 3);
    ck_assert_str_ne(ask_string(end, "report.termination.proof"), "none");
    ask_start(&service, 201, "{'id': 'b', " SLEEPER "}");
    const struct answer *list = ask_expect(ask(&service, "GET", "/v1/executions"), 200);
    ck_assert_uint_eq(json_array_size(ask_item(list->json, "executions")), 2);
    ck_assert_str_eq(ask_string(list, "executions.0.id"), "a");
    ck_assert_str_eq(ask_string(list, "executions.0.outcome"), "exited");
    ck_assert_str_eq(ask_string(list, "executions.1.id"), "b");
    ck_assert_str_eq(ask_string(list, "executions.1.status"), "running");
    const struct answer *out =
        ask_expect(ask(&service, "GET", "/v1/executions/a/stdout"), 200);
    ck_assert_str_eq(out->body, "hello");
    ck_assert(out->eof && out->offset == 0 && out->next == 5 && out->gap == 0);
    ck_assert_uint_eq(ask_stat(&service, "active_count"), 1);
    ck_assert_uint_eq(ask_stat(&service, "retained_count"), 1);
    ck_assert_uint_eq(ask_stat(&service, "started_total"), 2);
    const struct answer *metrics = ask_expect(ask(&service, "GET", "/metrics"), 200);
    ck_assert_ptr_nonnull(strstr(metrics->body, "# TYPE "));
    service_done(&service);
}
END_TEST

START_TEST(verification_by_the_service)
{
    struct service service = {0};
    service_start(&service);
    ask_start(&service, 201, "{'id': 'live', " SLEEPER "}");
    /* The service goes on meanwhile. */
    int fd = ask_connect(&service);
    ck_assert_int_ge(fd, 0);
    ck_assert(ask_send(fd, "GET", "/v1/verify", NULL, 0));
    (void)ask_expect(ask(&service, "GET", "/v1/executions/live"), 200);
    const struct answer *answer = ask_expect(ask_receive(fd, 50), 200);
    ck_assert(json_is_boolean(ask_item(answer->json, "supported")));
    ck_assert(json_is_array(ask_item(answer->json, "checks")));
    service_done(&service);
}
END_TEST

/* --- the id
 * ------------------------------------------------------------------------------ */

START_TEST(an_id_is_made_where_none_is_given)
{
    struct service service = {0};
    service_start(&service);
    const struct answer *first = ask_start(&service, 201, "{'command': 'true'}");
    const struct answer *second = ask_start(&service, 201, "{'command': 'true'}");
    ck_assert_uint_eq(strlen(ask_string(first, "id")), 32);
    ck_assert_str_ne(ask_string(first, "id"), ask_string(second, "id"));
    (void)ask_ends(&service, ask_string(first, "id"), "completed");
    (void)ask_ends(&service, ask_string(second, "id"), "completed");
    service_done(&service);
}
END_TEST

START_TEST(the_same_id_and_request_is_the_same_execution)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    struct service service = {0};
    service_start(&service);
    (void)sbx_fixture_path(path, "count");
    char text[SBX_FIXTURE_PATH_SIZE + 16];
    (void)snprintf(text, sizeof(text), "echo once >>%s", path);
    ask_start(&service, 201,
              "{'id': 'a', 'command': 'sh', 'args': ['-c', '%s'], 'limits': {'wall': 60},"
              " 'env': {'ONE': '1', 'TWO': '2'}}",
              text);
    /* The order of keys is not part of it, nor is how a value is written. */
    ask_start(&service, 200,
              "{'env': {'TWO': '2', 'ONE': '1'}, 'limits': {'wall': '1m'},"
              " 'args': ['-c', '%s'], 'command': 'sh', 'id': 'a'}",
              text);
    (void)ask_ends(&service, "a", "completed");
    const struct answer *again =
        ask_start(&service, 200,
                  "{'id': 'a', 'command': 'sh', 'args': ['-c', '%s'], 'limits': {'wall': "
                  "60}, 'env': {'ONE': '1', 'TWO': '2'}}",
                  text);
    ck_assert_str_eq(ask_string(again, "status"), "completed");
    struct stat status;
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_int_eq(status.st_size, 5);
    service_done(&service);
}
END_TEST

START_TEST(another_request_of_that_id_changes_nothing)
{
    static const char *const others[] = {
        "{'id': 'a', 'command': 'sleep', 'args': ['61'], 'env': {'SECRET': 'one'}}",
        "{'id': 'a', 'command': 'sleep', 'args': ['60'], 'env': {'SECRET': 'two'}}",
        "{'id': 'a', 'command': 'sleep', 'args': ['60']}",
        "{'id': 'a', 'command': 'sleep', 'args': ['60'], 'env': {'SECRET': 'one'},"
        " 'limits': {'wall': 50}}",
        "{'id': 'a', 'command': 'sleep', 'args': ['60'], 'env': {'SECRET': 'one'},"
        " 'stdin': {'data': 'x'}}",
        "{'id': 'a', 'command': 'sleep', 'args': ['60'], 'env': {'SECRET': 'one'},"
        " 'retention': 1}",
    };
    struct service service = {0};
    service_start(&service);
    ask_start(
        &service, 201,
        "{'id': 'a', 'command': 'sleep', 'args': ['60'], 'env': {'SECRET': 'one'}}");
    (void)ask_expect(ask(&service, "GET", "/v1/executions/a/events?wait=30"), 200);
    const struct answer *before = ask(&service, "GET", "/v1/executions/a");
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const struct answer *refused = ask_start(&service, 409, "%s", others[i]);
        ck_assert_str_ne(ask_code(refused), "");
    }
    const struct answer *after = ask(&service, "GET", "/v1/executions/a");
    ck_assert_str_eq(after->body, before->body);
    ck_assert_uint_eq(ask_stat(&service, "conflicts_total"), 6);
    ck_assert_uint_eq(ask_stat(&service, "started_total"), 1);
    service_done(&service);
}
END_TEST

START_TEST(a_start_whose_client_has_left_is_found_again)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char body[2 * SBX_FIXTURE_PATH_SIZE];
    struct service service = {0};
    service_start(&service);
    (void)sbx_fixture_path(path, "count");
    for (int i = 0; i < 20; i++) {
        int length =
            snprintf(body, sizeof(body),
                     "{\"id\": \"left-%d\", \"command\": \"sh\", \"args\": [\"-c\", "
                     "\"echo %d >>%s\"]}",
                     i, i, path);
        int fd = ask_connect(&service);
        ck_assert_int_ge(fd, 0);
        (void)ask_send(fd, "POST", "/v1/executions", body, (size_t)length);
        (void)close(fd);
        /* Whether the first one was taken or not: now there is one. */
        const struct answer *again =
            ask_bytes(&service, "POST", "/v1/executions", body, (size_t)length);
        ck_assert_msg(again->status == 200 || again->status == 201, "%d: %s",
                      again->status, again->body);
        (void)ask_ends(&service, ask_string(again, "id"), "completed");
    }
    SBX_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    char lines[256];
    ssize_t got = read(fd, lines, sizeof(lines) - 1);
    ck_assert_int_eq(got, 10 * 2 + 10 * 3);
    ck_assert_uint_eq(ask_stat(&service, "started_total"), 20);
    service_done(&service);
}
END_TEST

#define CROWD 100

START_TEST(a_hundred_starts_of_one_id_at_once_are_one_execution)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char body[2 * SBX_FIXTURE_PATH_SIZE];
    int fds[CROWD];
    int created = 0;
    struct service service = {0};
    service_start(&service);
    (void)sbx_fixture_path(path, "count");
    int length = snprintf(body, sizeof(body),
                          "{\"id\": \"one\", \"command\": \"sh\", \"args\": [\"-c\", "
                          "\"echo x >>%s; sleep 0.3\"]}",
                          path);
    for (int i = 0; i < CROWD; i++) {
        fds[i] = ask_connect(&service);
        ck_assert_int_ge(fds[i], 0);
    }
    for (int i = 0; i < CROWD; i++) {
        ck_assert(ask_send(fds[i], "POST", "/v1/executions", body, (size_t)length));
    }
    for (int i = 0; i < CROWD; i++) {
        const struct answer *answer = ask_receive(fds[i], 30);
        ck_assert_ptr_nonnull(answer);
        ck_assert_msg(answer->status == 200 || answer->status == 201, "%d: %s",
                      answer->status, answer->body);
        created += answer->status == 201 ? 1 : 0;
        ck_assert_str_eq(ask_string(answer, "id"), "one");
    }
    ck_assert_int_eq(created, 1);
    (void)ask_ends(&service, "one", "completed");
    struct stat status;
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_int_eq(status.st_size, 2);
    service_done(&service);
}
END_TEST

/* --- requests that make no sense
 * --------------------------------------------------------- */

static const char *const senseless[] = {
    "",
    "{",
    "[]",
    "7",
    "'x'",
    "{'command': 'true'} x",
    "{'command': 'true', 'command': 'false'}",
    "{}",
    "{'args': ['x']}",
    "{'command': ''}",
    "{'command': 7}",
    "{'command': 'true', 'args': 'x'}",
    "{'command': 'true', 'args': [1]}",
    "{'command': 'true', 'colour': 'red'}",
    "{'command': 'true', 'limits': {'wal': 5}}",
    "{'command': 'true', 'limits': {'wall': '5x'}}",
    "{'command': 'true', 'limits': {'wall': 0}}",
    "{'command': 'true', 'limits': {'wall': -1}}",
    "{'command': 'true', 'limits': {'memory': '1Q'}}",
    "{'command': 'true', 'limits': []}",
    "{'command': 'true', 'ceilings': {'nofiles': 64}}",
    "{'command': 'true', 'ceilings': {'nofile': 'many'}}",
    "{'command': 'true', 'env': {'A=B': 'x'}}",
    "{'command': 'true', 'env': {'A': 7}}",
    "{'command': 'true', 'env': ['A=x']}",
    "{'command': 'true', 'stdin': 'closed'}",
    "{'command': 'true', 'stdin': {'data_base64': '!!!'}}",
    "{'command': 'true', 'stdin': {'data': 'x', 'data_base64': 'eA=='}}",
    "{'command': 'true', 'when_full': 'explode'}",
    "{'command': 'true', 'output_limit': 'much'}",
    "{'command': 'true', 'event_limit': 0}",
    "{'command': 'true', 'retention': 'for ever'}",
    "{'command': 'true', 'signal': 'SIGNOTHING'}",
    "{'command': 'true', 'launcher': 'env'}",
    "{'command': 'true', 'sandbox': {'network': 'some'}}",
    "{'command': 'true', 'sandbox': {'bin': ['/tmp']}}",
    /* About terminal, report, log, attach or descriptors: no keys of a request. */
    "{'command': 'true', 'report': '/tmp/x'}",
    "{'command': 'true', 'report_fd': 3}",
    "{'command': 'true', 'keep_fd': [3]}",
    "{'command': 'true', 'log': ['stderr']}",
    "{'command': 'true', 'detach': true}",
    "{'command': 'true', 'pid': 1}",
    "{'id': '', 'command': 'true'}",
    "{'id': '.', 'command': 'true'}",
    "{'id': '../up', 'command': 'true'}",
    "{'id': 'a/b', 'command': 'true'}",
    "{'id': '-a', 'command': 'true'}",
    "{'id': 7, 'command': 'true'}",
    "{'id': 'a\\u0000b', 'command': 'true'}",
    "{'command': 'tr\\u0000ue'}",
};

START_TEST(requests_that_make_no_sense_start_nothing)
{
    struct service service = {0};
    char complaints[2048] = "";
    size_t length = 0;
    service_start(&service);
    for (size_t i = 0; i < sizeof(senseless) / sizeof(senseless[0]); i++) {
        const struct answer *answer =
            ask_post(&service, "/v1/executions", "%s", senseless[i]);
        if (answer->status == 400) {
            ck_assert_str_ne(ask_code(answer), "");
        } else if (length + 256 < sizeof(complaints)) {
            length += (size_t)snprintf(complaints + length, 256, "\n%d: %s",
                                       answer->status, senseless[i]);
        }
    }
    ck_assert_msg(length == 0, "no 400:%s", complaints);
    ck_assert_uint_eq(ask_stat(&service, "started_total"), 0);
    ck_assert_uint_eq(service_others(&service), 0);
    /* The message names the key. */
    const struct answer *answer =
        ask_start(&service, 400, "{'command': 'true', 'limits': {'wall': '5x'}}");
    ck_assert_ptr_nonnull(strstr(ask_string(answer, "error.message"), "limits.wall"));
    service_done(&service);
}
END_TEST

/* --- clients that misbehave
 * ---------------------------------------------------------------- */

START_TEST(what_is_too_large_is_refused)
{
    struct service service = {0};
    service_start(&service);
    size_t size = 64UL * 1024 * 1024;
    SBX_AUTO_FREE char *large = malloc(size);
    ck_assert_ptr_nonnull(large);
    memset(large, ' ', size);
    int fd = ask_connect(&service);
    ck_assert_int_ge(fd, 0);
    (void)ask_send(fd, "POST", "/v1/executions", large, size);
    const struct answer *answer = ask_receive(fd, 30);
    ck_assert_msg(answer == NULL || answer->status == 413, "status %d",
                  answer != NULL ? answer->status : 0);
    /* Headers without an end. */
    memset(large, 'x', size);
    memcpy(large, "GET /v1/stats HTTP/1.1\r\nX-Long: ", 32);
    fd = ask_connect(&service);
    ck_assert_int_ge(fd, 0);
    for (size_t done = 0; done < size;) {
        ssize_t sent = send(fd, large + done, size - done, MSG_NOSIGNAL);
        if (sent < 0) {
            break;
        }
        done += (size_t)sent;
    }
    answer = ask_receive(fd, 30);
    ck_assert(answer == NULL || (answer->status >= 400 && answer->status < 500));
    (void)ask_stat(&service, "active_count");
    ck_assert_uint_lt(service_memory(service.pid).rss_kib, 64UL * 1024);
    service_done(&service);
}
END_TEST

START_TEST(half_a_request_harms_nobody)
{
    static const char *const halves[] = {
        "",
        "POST /v1/exec",
        "POST /v1/executions HTTP/1.1\r\nHost: x\r\nContent-Le",
        "POST /v1/executions HTTP/1.1\r\nContent-Length: 40\r\n\r\n{\"command\": ",
        "POST /v1/executions HTTP/1.1\r\nContent-Length: -4\r\n\r\n",
        "POST /v1/executions HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n{}",
        "POST /v1/executions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n{",
        "POST /v1/executions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "\r\n\r\n\r\n",
        "\x16\x03\x01\x02",
        "GET /v1/executions HTTP/9.9\r\n\r\n",
        "GET  HTTP/1.1\r\n\r\n",
        "GET http://[::1/v1 HTTP/1.1\r\n\r\n",
    };
    enum { COUNT = sizeof(halves) / sizeof(halves[0]) };
    int fds[COUNT];
    struct service service = {0};
    service_start(&service);
    ask_start(&service, 201, "{'id': 'first', 'command': 'true'}");
    (void)ask_ends(&service, "first", "completed");
    size_t before = service_descriptors(service.pid);
    for (size_t i = 0; i < COUNT; i++) {
        fds[i] = ask_connect(&service);
        ck_assert_int_ge(fds[i], 0);
        (void)send(fds[i], halves[i], strlen(halves[i]), MSG_NOSIGNAL);
    }
    ask_start(&service, 201, "{'id': 'a', 'command': 'true'}");
    (void)ask_ends(&service, "a", "completed");
    for (size_t i = 0; i < COUNT; i++) {
        (void)close(fds[i]);
    }
    double end = service_now() + 10;
    while (service_descriptors(service.pid) > before) {
        ck_assert_msg(service_now() < end, "%zu descriptors, and %zu before",
                      service_descriptors(service.pid), before);
        service_nap_ms(5);
    }
    ck_assert_uint_eq(ask_stat(&service, "started_total"), 2);
    service_done(&service);
}
END_TEST

/* --- by curl
 * ------------------------------------------------------------------------------ */

static char *output_of(const char *command)
{
    static char text[65536];
    FILE *pipe = popen(command, "re"); /* NOLINT(cert-env33-c): the point of it */
    ck_assert_ptr_nonnull(pipe);
    size_t length = fread(text, 1, sizeof(text) - 1, pipe);
    text[length] = '\0';
    int status = pclose(pipe);
    ck_assert_msg(status == 0, "%s: status %d: %s", command, status, text);
    return text;
}

START_TEST(curl_is_a_client)
{
    char command[4096];
    struct service service = {0};
    if (access("/usr/bin/curl", X_OK) < 0) {
        (void)fprintf(stderr, "SKIP: there is no curl\n");
        return;
    }
    service_start(&service);
    (void)snprintf(command, sizeof(command),
                   "c() { curl -sS --max-time 30 --unix-socket %s \"$@\"; };"
                   "c -w '%%{http_code} ' -o /dev/null http://sbx/v1/executions -d "
                   "'{\"id\": \"a\", \"command\": \"cat\", \"stdin\": \"open\"}' &&"
                   "c -w '%%{http_code} ' --data-binary 'hello\n' "
                   "'http://sbx/v1/executions/a/stdin?close=1' &&"
                   "c -o /dev/null -w '%%{http_code} ' -X POST "
                   "'http://sbx/v1/executions/none/cancel' &&"
                   "c 'http://sbx/v1/executions/a/stdout?wait=20' &&"
                   "c -X DELETE -w '%%{http_code}' 'http://sbx/v1/executions/a?wait=20'",
                   service.socket);
    ck_assert_str_eq(output_of(command), "201 204 404 hello\n204");
    service_done(&service);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("executions");
    TCase *calls = sbx_fixture_case(suite, "calls", SECONDS);
    tcase_add_test(calls, each_call_answers_as_promised);
    tcase_add_test(calls, what_answers_contain);
    tcase_add_test(calls, verification_by_the_service);
    TCase *ids = sbx_fixture_case(suite, "ids", SECONDS);
    tcase_add_test(ids, an_id_is_made_where_none_is_given);
    tcase_add_test(ids, the_same_id_and_request_is_the_same_execution);
    tcase_add_test(ids, another_request_of_that_id_changes_nothing);
    tcase_add_test(ids, a_start_whose_client_has_left_is_found_again);
    tcase_add_test(ids, a_hundred_starts_of_one_id_at_once_are_one_execution);
    TCase *clients = sbx_fixture_case(suite, "clients", SECONDS);
    tcase_add_test(clients, requests_that_make_no_sense_start_nothing);
    tcase_add_test(clients, what_is_too_large_is_refused);
    tcase_add_test(clients, half_a_request_harms_nobody);
    tcase_add_test(clients, curl_is_a_client);
    return sbx_fixture_run(suite);
}
