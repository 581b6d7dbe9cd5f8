/*
 * test_executions_input.c - what a command of an execution reads, and a command that is
 * to wait for the reader of its output, on a real sbxd.
 */
#include "tests/ask_kit.h"

#include "base/fd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS 60

/* --- standard input
 * ------------------------------------------------------------------------- */

START_TEST(standard_input_comes_with_the_request)
{
    struct service service = {0};
    size_t length;
    service_start(&service);
    ask_start(&service, 201,
              "{'id': 'text', 'command': 'cat', 'stdin': {'data': 'h\\u00e9llo\\n'}}");
    ask_start(&service, 201,
              "{'id': 'bytes', 'command': 'cat', 'stdin': {'data_base64': 'AP8KAQ=='}}");
    ask_start(&service, 201, "{'id': 'none', 'command': 'cat', 'stdin': 'null'}");
    ask_start(&service, 201, "{'id': 'left', 'command': 'cat'}");
    SBX_AUTO_FREE char *text = ask_output(&service, "text", "stdout", &length, NULL);
    ck_assert_str_eq(text, "h\xc3\xa9llo\n");
    SBX_AUTO_FREE char *bytes = ask_output(&service, "bytes", "stdout", &length, NULL);
    ck_assert_uint_eq(length, 4);
    ck_assert_int_eq(memcmp(bytes, "\0\377\n\1", 4), 0);
    (void)ask_ends(&service, "none", "completed");
    (void)ask_ends(&service, "left", "completed");
    /* More than a pipe holds. */
    size_t size = 300000;
    SBX_AUTO_FREE char *long_text = malloc(size + 1);
    ck_assert_ptr_nonnull(long_text);
    memset(long_text, 'y', size);
    long_text[size] = '\0';
    ask_start(&service, 201,
              "{'id': 'long', 'command': 'sh', 'args': ['-c', 'sleep 0.2; exec wc -c'],"
              " 'stdin': {'data': '%s'}}",
              long_text);
    SBX_AUTO_FREE char *counted = ask_output(&service, "long", "stdout", &length, NULL);
    ck_assert_str_eq(counted, "300000\n");
    service_done(&service);
}
END_TEST

START_TEST(standard_input_that_stays_open)
{
    struct service service = {0};
    size_t length;
    service_start(&service);
    ask_start(&service, 201, "{'id': 'a', 'command': 'cat', 'stdin': 'open'}");
    ask_expect(ask_bytes(&service, "POST", "/v1/executions/a/stdin", "one\n", 4), 204);
    ask_wait_output(&service, "a", "one\n");
    ask_expect(ask_bytes(&service, "POST", "/v1/executions/a/stdin", "t\0o\n", 4), 204);
    ask_expect(ask_bytes(&service, "POST", "/v1/executions/a/stdin?close=1", "end", 3),
               204);
    SBX_AUTO_FREE char *text = ask_output(&service, "a", "stdout", &length, NULL);
    ck_assert_uint_eq(length, 11);
    ck_assert_int_eq(memcmp(text, "one\nt\0o\nend", 11), 0);
    ask_expect(ask_bytes(&service, "POST", "/v1/executions/a/stdin", "x", 1), 409);
    (void)ask_ends(&service, "a", "completed");
    ask_expect(ask_bytes(&service, "POST", "/v1/executions/a/stdin", "x", 1), 409);
    /* Closed twice, without data. */
    ask_start(&service, 201, "{'id': 'b', 'command': 'cat', 'stdin': 'open'}");
    ask_expect(ask_bytes(&service, "POST", "/v1/executions/b/stdin?close=1", NULL, 0),
               204);
    ask_expect(ask_bytes(&service, "POST", "/v1/executions/b/stdin?close=1", NULL, 0),
               409);
    (void)ask_ends(&service, "b", "completed");
    service_done(&service);
}
END_TEST

START_TEST(standard_input_that_is_full_takes_all_or_nothing)
{
    char go[SBX_FIXTURE_PATH_SIZE];
    char script[2 * SBX_FIXTURE_PATH_SIZE];
    struct service service = {0};
    size_t length;
    size_t taken = 0;
    int status = 204;
    size_t size = 100000;
    SBX_AUTO_FREE char *bytes = malloc(size);
    ck_assert_ptr_nonnull(bytes);
    memset(bytes, 'z', size);
    (void)sbx_fixture_path(go, "go");
    (void)snprintf(script, sizeof(script),
                   "until [ -e %s ]; do sleep 0.02; done; exec wc -c", go);
    service_start(&service);
    ask_script(&service, "a", "'stdin': 'open'", script);
    for (int i = 0; i < 64 && status == 204; i++) {
        status =
            ask_bytes(&service, "POST", "/v1/executions/a/stdin", bytes, size)->status;
        taken += status == 204 ? size : 0;
    }
    ck_assert_msg(status == 429 || status == 503 || status == 409, "%zu bytes, status %d",
                  taken, status);
    FILE *file = fopen(go, "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fclose(file), 0);
    double end = service_now() + 20;
    while (
        (status = ask_bytes(&service, "POST", "/v1/executions/a/stdin?close=1", bytes, 7)
                      ->status) != 204) {
        ck_assert_msg(service_now() < end, "status %d", status);
        service_nap_ms(5);
    }
    taken += 7;
    char expected[32];
    (void)snprintf(expected, sizeof(expected), "%zu\n", taken);
    SBX_AUTO_FREE char *counted = ask_output(&service, "a", "stdout", &length, NULL);
    ck_assert_str_eq(counted, expected);
    service_done(&service);
}
END_TEST

/* --- a command that waits for its reader
 * ------------------------------------------------------- */

START_TEST(a_command_waits_for_its_reader_where_it_was_told_to)
{
    struct service service = {0};
    size_t length;
    uint64_t gap;
    service_start(&service);
    ask_start_emit(&service, "a", "'when_full': 'pause', 'output_limit': '16K',",
                   "1000000", "4000");
    ask_start_emit(&service, "b", "'when_full': 'drop', 'output_limit': '16K',",
                   "1000000", "4000");
    /* The one beside it, which drops, is over; this one goes on for nobody. */
    double start = service_now();
    (void)ask_ends(&service, "b", "completed");
    double took = service_now() - start;
    double end = service_now() + took + 0.2;
    while (service_now() < end) {
        ck_assert_str_eq(ask_string(ask(&service, "GET", "/v1/executions/a"), "status"),
                         "running");
        service_nap_ms(20);
    }
    SBX_AUTO_FREE char *bytes = ask_output(&service, "a", "stdout", &length, &gap);
    ck_assert_uint_eq(gap, 0);
    ck_assert_uint_eq(length, 1000000);
    ask_expect_pattern(bytes, 0, length);
    (void)ask_ends(&service, "a", "completed");
    service_done(&service);
}
END_TEST

/* Whoever serves: the keeper knows what was taken. */
START_TEST(a_command_that_waits_for_its_reader_waits_through_a_restart)
{
    struct service service = {0};
    service_start(&service);
    ask_start_emit(&service, "a", "'when_full': 'pause', 'output_limit': '16K',",
                   "300000", "4000");
    uint64_t next = 0;
    for (int round = 0; next < 300000; round++) {
        const struct answer *part =
            ask_expect(ask(&service, "GET", "/v1/executions/a/stdout?offset=%llu&wait=20",
                           (unsigned long long)next),
                       200);
        ck_assert_msg(part->gap == 0 && part->length > 0, "at %llu: gap %llu",
                      (unsigned long long)next, (unsigned long long)part->gap);
        ask_expect_pattern(part->body, next, part->length);
        next = part->next;
        if (round % 3 == 1 && round < 10) {
            service_kill(&service);
            service_start(&service);
        }
    }
    ck_assert_uint_eq(next, 300000);
    (void)ask_ends(&service, "a", "completed");
    service_done(&service);
}
END_TEST

START_TEST(a_command_that_waits_for_its_reader_can_be_ended)
{
    struct service service = {0};
    service_start(&service);
    ask_start_emit(
        &service, "a",
        "'when_full': 'pause', 'output_limit': '16K', 'limits': {'wall': '300ms'},",
        "1000000", "4000");
    ask_start_emit(&service, "b", "'when_full': 'pause', 'output_limit': '16K',",
                   "1000000", "4000");
    (void)ask_ends(&service, "a", "timed_out");
    const struct answer *answer =
        ask_expect(ask(&service, "POST", "/v1/executions/b/cancel?wait=20"), 200);
    ck_assert_str_eq(ask_string(answer, "status"), "cancelled");
    service_done(&service);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("executions_input");
    TCase *input = sbx_fixture_case(suite, "input", SECONDS);
    tcase_add_test(input, standard_input_comes_with_the_request);
    tcase_add_test(input, standard_input_that_stays_open);
    tcase_add_test(input, standard_input_that_is_full_takes_all_or_nothing);
    TCase *full = sbx_fixture_case(suite, "full", SECONDS);
    tcase_add_test(full, a_command_waits_for_its_reader_where_it_was_told_to);
    tcase_add_test(full, a_command_that_waits_for_its_reader_waits_through_a_restart);
    tcase_add_test(full, a_command_that_waits_for_its_reader_can_be_ended);
    return sbx_fixture_run(suite);
}
