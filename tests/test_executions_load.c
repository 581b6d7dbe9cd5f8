/*
 * test_executions_load.c - many executions at once, many in a row, many that wait, much
 * output: what sbxd and its keepers use stays bounded and flat, and nothing is left.
 *
 * Always a short form; with SBX_LONG in the environment the numbers of the promise: 1,000
 * at once, 10,000 in a row, 10 GB, 1,000 long polls. What was measured is printed.
 */
#include "tests/ask_kit.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG_SECONDS 1700
#define POLLERS_MAX 1000

#if defined(__SANITIZE_ADDRESS__)
#define IS_SANITIZED                                                                     \
    true /* which keeps what is freed, and takes several times as much                   \
          */
#else
#define IS_SANITIZED false
#endif

static bool is_long(void)
{
    return getenv("SBX_LONG") != NULL;
}

/* Many connections: as many descriptors as this process may have. */
static void raise_descriptors(void)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* --- many at once
 * --------------------------------------------------------------------------- */

/* They sleep until the test lets go of the lock of that file, however long it takes to
 * start all of them. */
static void start_many(const struct service *service, int count, const char *path)
{
    for (int i = 0; i < count; i++) {
        ask_start(service, 201,
                  "{'id': 'm%d', 'command': 'flock', 'args': ['-s', '%s', 'sleep', "
                  "'0.1'], 'limits': {'wall': '10m'}}",
                  i, path);
        ask_forget();
    }
}

static void end_many(const struct service *service, int count)
{
    for (int i = 0; i < count; i++) {
        char id[16];
        (void)snprintf(id, sizeof(id), "m%d", i);
        const struct answer *end = ask_ends(service, id, "completed");
        ck_assert_str_eq(ask_string(end, "report.outcome"), "exited");
        ask_forget();
        service_reap(service);
    }
}

static void forget_many(const struct service *service, int count)
{
    for (int i = 0; i < count; i++) {
        ask_expect(ask(service, "DELETE", "/v1/executions/m%d", i), 204);
        ask_forget();
    }
}

struct use {
    uint64_t kib;
    size_t descriptors;
};

static struct use use_of(const struct service *service)
{
    return (struct use){service_memory(service->pid).dirty_kib,
                        service_descriptors(service->pid)};
}

START_TEST(many_at_once)
{
    int count = is_long() ? 1000 : 60;
    char path[SBX_FIXTURE_PATH_SIZE];
    struct service service = {.options = "--max-executions 2000"};
    struct use first_active = {0};
    struct use first_after = {0};
    SBX_AUTO_CLOSE int lock =
        open(sbx_fixture_path(path, "lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    ck_assert_int_ge(lock, 0);
    service_start(&service);
    ask_start(&service, 201, "{'id': 'warm', 'command': 'true'}");
    (void)ask_ends(&service, "warm", "completed");
    struct use empty = use_of(&service);
    for (int wave = 0; wave < 2; wave++) {
        double start = service_now();
        ck_assert_int_eq(flock(lock, LOCK_EX), 0);
        start_many(&service, count, path);
        double took = service_now() - start;
        struct use active = use_of(&service);
        ck_assert_uint_eq(ask_stat(&service, "active_count"), (uint64_t)count);
        ck_assert_int_eq(flock(lock, LOCK_UN), 0);
        end_many(&service, count);
        struct use retained = use_of(&service);
        forget_many(&service, count);
        struct use after = use_of(&service);
        (void)printf("# %d at once (started in %.1f s): sbxd %llu KiB, %zu descriptors; "
                     "%llu KiB and %zu active; %llu KiB retained; %llu KiB and %zu "
                     "forgotten\n",
                     count, took, (unsigned long long)empty.kib, empty.descriptors,
                     (unsigned long long)active.kib, active.descriptors,
                     (unsigned long long)retained.kib, (unsigned long long)after.kib,
                     after.descriptors);
        /* At most so much for each of them: a place, a socket, a few kilobytes. */
        ck_assert_uint_le(active.descriptors, empty.descriptors + 3 * (size_t)count + 4);
        ck_assert_uint_le(after.descriptors, empty.descriptors + 2);
        ck_assert(IS_SANITIZED || active.kib < empty.kib + 8 * (uint64_t)count + 2048);
        first_active = wave == 0 ? active : first_active;
        first_after = wave == 0 ? after : first_after;
        /* The second time it costs nothing more. */
        ck_assert(IS_SANITIZED || active.kib < first_active.kib + 512);
        ck_assert(IS_SANITIZED || after.kib < first_after.kib + 512);
        if (is_long()) {
            break;
        }
    }
    service_wait_alone(&service, 20);
    service_done(&service);
}
END_TEST

/* --- many in a row
 * ------------------------------------------------------------------------------ */

START_TEST(many_in_a_row)
{
    int count = is_long() ? 10000 : 150;
    struct use third = {0};
    struct service service = {.options = "--max-executions 50"};
    service_start(&service);
    double start = service_now();
    for (int i = 0; i < count; i++) {
        char id[16];
        (void)snprintf(id, sizeof(id), "r%d", i);
        ask_start(&service, 201, "{'id': '%s', 'command': 'true'}", id);
        (void)ask_ends(&service, id, "completed");
        ask_forget();
        service_reap(&service);
        if (i == count / 3) {
            third = use_of(&service);
        }
    }
    double took = service_now() - start;
    struct use end = use_of(&service);
    (void)printf("# %d in a row: %.2f ms each; sbxd %llu KiB, %zu descriptors after a "
                 "third; %llu KiB, %zu at the end\n",
                 count, took * 1000 / count, (unsigned long long)third.kib,
                 third.descriptors, (unsigned long long)end.kib, end.descriptors);
    (void)fflush(stdout);
    ck_assert_uint_le(end.descriptors, third.descriptors + 3);
    ck_assert(IS_SANITIZED || end.kib < third.kib + 512);
    ck_assert_uint_eq(ask_stat(&service, "started_total"), (uint64_t)count);
    ck_assert_uint_eq(ask_stat(&service, "evicted_total"), (uint64_t)count - 50);
    ck_assert_uint_eq(ask_stat(&service, "retained_count"), 50);
    service_wait_alone(&service, 20);
    service_done(&service);
}
END_TEST

/* --- much output
 * ---------------------------------------------------------------------------------- */

/* The same command into a reader that throws all away: seconds. */
static double time_with_reader(const char *script)
{
    char text[512];
    (void)snprintf(text, sizeof(text), "{ %s; } | cat >/dev/null", script);
    double start = service_now();
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        (void)execl("/bin/sh", "sh", "-c", text, (char *)NULL);
        _exit(127);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    return service_now() - start;
}

START_TEST(much_output_with_no_reader)
{
    char script[256];
    pid_t pids[8];
    uint64_t most_kib = 0;
    uint64_t most_bytes = 0;
    unsigned long long size = is_long() ? 10000000000ULL : 256000000ULL;
    struct service service = {0};
    service_start(&service);
    (void)snprintf(script, sizeof(script), "head -c %llu /dev/zero; echo the end", size);
    double before = time_with_reader(script);
    ask_script(&service, "a", "'limits': {'wall': '20m'}", script);
    (void)ask_expect(ask(&service, "GET", "/v1/executions/a/events?wait=20"), 200);
    size_t processes = service_processes(&service, "a", pids, 8);
    while (strcmp(ask_string(ask(&service, "GET", "/v1/executions/a"), "status"),
                  "running") == 0) {
        uint64_t kib = processes > 0 ? service_memory(pids[0]).rss_kib : 0;
        uint64_t bytes = service_place_bytes(&service, "a");
        most_kib = kib > most_kib ? kib : most_kib;
        most_bytes = bytes > most_bytes ? bytes : most_bytes;
        ask_forget();
        service_nap_ms(50);
    }
    double after = time_with_reader(script);
    const struct answer *end = ask_ends(&service, "a", "completed");
    double took = (double)ask_integer(end, "report.usage.wall_us") / 1e6;
    double with_reader = before < after ? before : after;
    (void)printf("# %llu bytes: %.2f s without a reader, %.2f and %.2f s into cat (ratio "
                 "%.2f); keeper %llu KiB, place %llu KiB\n",
                 size, took, before, after, took / with_reader,
                 (unsigned long long)most_kib, (unsigned long long)most_bytes / 1024);
    (void)fflush(stdout);
    ck_assert(IS_SANITIZED || took < 4 * with_reader + 5);
    ck_assert(IS_SANITIZED || most_kib < 16UL * 1024);
    ck_assert_uint_lt(most_bytes, 4UL * 1024 * 1024);
    const struct answer *tail = ask_expect(
        ask(&service, "GET", "/v1/executions/a/stdout?offset=%llu", size - 100), 200);
    ck_assert_uint_eq(tail->offset, size - 100);
    ck_assert_uint_eq(tail->length, 108);
    ck_assert_str_eq(tail->body + 100, "the end\n");
    ck_assert(tail->eof);
    size_t length;
    uint64_t gap;
    free(ask_output(&service, "a", "stdout", &length, &gap));
    ck_assert_uint_eq(length + gap, size + 8);
    service_done(&service);
}
END_TEST

/* Readers that ask for much and take nothing of it. */
START_TEST(readers_that_read_nothing)
{
    int fds[100];
    struct service service = {0};
    service_start(&service);
    ask_script(&service, "a", "'output_limit': '16M', 'event_limit': 8000",
               "head -c 12000000 /dev/zero");
    (void)ask_ends(&service, "a", "completed");
    ask_forget();
    struct use before = use_of(&service);
    for (int i = 0; i < 100; i++) {
        fds[i] = ask_connect(&service);
        ck_assert_int_ge(fds[i], 0);
        ck_assert(ask_send(fds[i], "GET",
                           i % 2 == 0 ? "/v1/executions/a/stdout?offset=0"
                                      : "/v1/executions/a/events?after=0",
                           NULL, 0));
    }
    /* When this one is answered, so were those before it. */
    (void)ask_stat(&service, "active_count");
    struct use during = use_of(&service);
    for (int i = 0; i < 100; i++) {
        (void)close(fds[i]);
    }
    double end = service_now() + 10;
    struct use after = use_of(&service);
    while (after.descriptors > before.descriptors ||
           (!IS_SANITIZED && after.kib > before.kib + 4 * 1024UL)) {
        ck_assert_msg(service_now() < end,
                      "%llu KiB and %zu descriptors, before %llu, %zu",
                      (unsigned long long)after.kib, after.descriptors,
                      (unsigned long long)before.kib, before.descriptors);
        service_nap_ms(2);
        after = use_of(&service);
    }
    (void)printf("# 100 readers that read nothing: sbxd %llu KiB before, %llu KiB "
                 "meanwhile, %llu KiB after\n",
                 (unsigned long long)before.kib, (unsigned long long)during.kib,
                 (unsigned long long)after.kib);
    (void)fflush(stdout);
    ck_assert(IS_SANITIZED || during.kib < before.kib + 100 * 1024UL);
    service_done(&service);
}
END_TEST

/* --- many that wait
 * --------------------------------------------------------------------------------- */

START_TEST(many_long_polls)
{
    static int fds[POLLERS_MAX];
    int count = is_long() ? POLLERS_MAX : 200;
    struct service service = {0};
    service_start(&service);
    raise_descriptors();
    ask_start(&service, 201, "{'id': 'a', 'command': 'cat', 'stdin': 'open'}");
    (void)ask_expect(ask(&service, "GET", "/v1/executions/a/events?wait=20"), 200);
    struct use before = use_of(&service);
    for (int i = 0; i < count; i++) {
        fds[i] = ask_connect(&service);
        ck_assert_int_ge(fds[i], 0);
        ck_assert(ask_send(fds[i], "GET",
                           i % 2 == 0 ? "/v1/executions/a/events?after=1&wait=60"
                                      : "/v1/executions/a/stdout?wait=60",
                           NULL, 0));
    }
    double end = service_now() + 20;
    while (ask_stat(&service, "waiters_count") < (uint64_t)count) {
        ck_assert_double_lt(service_now(), end);
        ask_forget();
    }
    struct use during = use_of(&service);
    double start = service_now();
    ask_expect(ask_bytes(&service, "POST", "/v1/executions/a/stdin", "news\n", 5), 204);
    for (int i = 0; i < count; i++) {
        const struct answer *answer = ask_expect(ask_receive(fds[i], 20), 200);
        ck_assert(strstr(answer->body, "news") != NULL);
        ask_forget();
    }
    double took = service_now() - start;
    ck_assert_uint_eq(ask_stat(&service, "waiters_count"), 0);
    end = service_now() + 10;
    while (service_descriptors(service.pid) > before.descriptors) {
        ck_assert_double_lt(service_now(), end);
        service_nap_ms(2);
    }
    struct use after = use_of(&service);
    (void)printf("# %d long polls: all told in %.0f ms; sbxd %llu KiB before, %llu KiB "
                 "meanwhile, %llu KiB after\n",
                 count, took * 1000, (unsigned long long)before.kib,
                 (unsigned long long)during.kib, (unsigned long long)after.kib);
    (void)fflush(stdout);
    ck_assert(IS_SANITIZED || during.kib < before.kib + 32 * (uint64_t)count + 2048);
    ck_assert_double_lt(took, 15);
    service_done(&service);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("executions_load");
    TCase *many = sbx_fixture_case(suite, "many", LONG_SECONDS);
    tcase_add_test(many, many_at_once);
    tcase_add_test(many, many_in_a_row);
    TCase *readers = sbx_fixture_case(suite, "readers", LONG_SECONDS);
    tcase_add_test(readers, much_output_with_no_reader);
    tcase_add_test(readers, readers_that_read_nothing);
    tcase_add_test(readers, many_long_polls);
    return sbx_fixture_run(suite);
}
