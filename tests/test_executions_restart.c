/*
 * test_executions_restart.c - executions whose service or whose own processes are killed:
 * nothing is lost that can be known, nothing is doubled, nothing goes on without its
 * limits, and what is dead is not shown as running.
 * Kills at random moments are in test_executions_storm.c.
 */
#include "tests/ask_kit.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECONDS 60
#define PROCESSES_MAX 16

/* --- sbxd is killed
 * ----------------------------------------------------------------------- */

START_TEST(what_runs_is_adopted)
{
    struct replay replay = {0};
    struct service service = {0};
    char go[SBX_FIXTURE_PATH_SIZE];
    char script[2 * SBX_FIXTURE_PATH_SIZE];
    (void)sbx_fixture_path(go, "go");
    (void)snprintf(script, sizeof(script),
                   "i=0; until [ -e %s ]; do echo $i; i=$((i+1)); sleep 0.01; done; "
                   "echo last; cat",
                   go);
    service_start(&service);
    ask_script(&service, "a", "'stdin': 'open'", script);
    ask_start(&service, 201, "{'id': 'b', 'command': 'sleep', 'args': ['60']}");
    for (int i = 0; i < 4; i++) {
        uint64_t before = replay.after;
        while (replay.after < before + 3) {
            (void)replay_poll(&service, &replay, "a", "5");
        }
        service_kill(&service);
        if (i == 1) {
            service_nap_ms(100); /* it goes on for nobody */
        }
        service_start(&service);
        ck_assert_str_eq(ask_string(ask(&service, "GET", "/v1/executions/a"), "status"),
                         "running");
        ck_assert_uint_eq(ask_stat(&service, "active_count"), 2);
        ck_assert_uint_eq(ask_stat(&service, "adopted_total"), 2);
    }
    /* Every order reaches it still. */
    ask_expect(ask_bytes(&service, "POST", "/v1/executions/a/stdin?close=1", "in\n", 3),
               204);
    ask_expect(ask(&service, "POST", "/v1/executions/a/pause"), 204);
    ask_expect(ask(&service, "POST", "/v1/executions/a/resume"), 204);
    FILE *file = fopen(go, "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fclose(file), 0);
    replay_all(&service, &replay, "a", 20);
    ck_assert_str_eq(replay.status, "completed");
    ck_assert_uint_eq(replay.first_after_gap, 0);
    ck_assert_int_eq(strncmp(replay.data[0], "0\n1\n2\n3\n", 8), 0);
    ck_assert_int_eq(memcmp(replay.data[0] + replay.length[0] - 8, "last\nin\n", 8), 0);
    replay_done(&replay);
    const struct answer *end =
        ask_expect(ask(&service, "POST", "/v1/executions/b/cancel?wait=20"), 200);
    ck_assert_str_eq(ask_string(end, "status"), "cancelled");
    service_done(&service);
}
END_TEST

START_TEST(results_are_kept)
{
    static const char *const ids[] = {"ok", "code", "wall", "launch", "meanwhile"};
    char *before[5] = {NULL};
    struct service service = {0};
    service_start(&service);
    ask_script(&service, "ok", NULL, "echo out; echo err >&2");
    ask_script(&service, "code", NULL, "exit 5");
    ask_script(&service, "wall", "'limits': {'wall': '100ms'}", "sleep 60");
    ask_start(&service, 201, "{'id': 'launch', 'command': '/does/not/exist'}");
    for (size_t i = 0; i < 4; i++) {
        before[i] = strdup(ask_settled(&service, ids[i], 20)->body);
    }
    ask_script(&service, "meanwhile", "'limits': {'wall': '300ms'}", "echo x; sleep 60");
    for (int i = 0; i < 2; i++) {
        service_kill(&service);
        service_wait_alone(&service, 20); /* the limit was held by nobody but the run */
        service_start(&service);
        for (size_t j = 0; j < 4; j++) {
            const struct answer *now =
                ask_expect(ask(&service, "GET", "/v1/executions/%s", ids[j]), 200);
            ck_assert_str_eq(now->body, before[j]);
        }
        const struct answer *end = ask_ends(&service, "meanwhile", "timed_out");
        ck_assert_str_eq(ask_string(end, "report.breach.reason"), "wall");
        ask_expect(ask(&service, "GET", "/v1/executions/meanwhile/events?after=3"), 200);
        const struct answer *list = ask(&service, "GET", "/v1/executions");
        ck_assert_uint_eq(json_array_size(ask_item(list->json, "executions")), 5);
        ck_assert_str_eq(ask_string(list, "executions.4.id"), "meanwhile");
    }
    size_t length;
    SBX_AUTO_FREE char *text = ask_output(&service, "ok", "stderr", &length, NULL);
    ck_assert_str_eq(text, "err\n");
    ask_start(&service, 200, "{'id': 'launch', 'command': '/does/not/exist'}");
    ask_start(&service, 409, "{'id': 'launch', 'command': '/does/not/either'}");
    for (size_t i = 0; i < 4; i++) {
        free(before[i]);
    }
    service_done(&service);
}
END_TEST

/* --- processes of the run are killed
 * -------------------------------------------------------- */

#define KEEPER 1U
#define GUARD 2U
#define MONITOR 4U

static const struct {
    const char *id;
    unsigned killed;
    bool served; /* an sbxd is there meanwhile */
} kills[] = {
    {"keeper", KEEPER, true},
    {"keeper-alone", KEEPER, false},
    {"guard", GUARD, true},
    {"guard-alone", GUARD, false},
    {"monitor", MONITOR, true},
    {"monitor-alone", MONITOR, false},
    {"guard-monitor", GUARD | MONITOR, true},
    {"guard-monitor-alone", GUARD | MONITOR, false},
    {"keeper-monitor", KEEPER | MONITOR, true},
    {"all", KEEPER | GUARD | MONITOR, true},
    {"all-alone", KEEPER | GUARD | MONITOR, false},
};
#define KILL_COUNT (sizeof(kills) / sizeof(kills[0]))

/* Its processes are stopped first, so that none of them can answer the end of another
 * before it is its own turn. */
static void kill_some(const struct service *service, const char *id, unsigned which)
{
    pid_t pids[PROCESSES_MAX];
    size_t count = service_processes(service, id, pids, PROCESSES_MAX);
    ck_assert_msg(count >= 3, "%s: %zu processes", id, count);
    for (size_t i = 0; i < 3; i++) {
        if ((which & 1U << i) != 0) {
            ck_assert_int_eq(kill(pids[i], SIGSTOP), 0);
        }
    }
    for (size_t i = 0; i < 3; i++) {
        if ((which & 1U << i) != 0) {
            /* The end of the one before may have been its own. */
            ck_assert(kill(pids[i], SIGKILL) == 0 || errno == ESRCH);
        }
    }
}

/* Where all three were killed nobody is there to end the command: the test is. */
static void end_orphans(const struct service *service)
{
    double end = service_now() + 20;
    char path[64];
    char text[4096];
    while (service_others(service) > 0 && service_now() < end) {
        (void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
        ssize_t length = sbx_fd_read_text_at(AT_FDCWD, path, text, sizeof(text));
        text[length > 0 ? length : 0] = '\0';
        for (char *at = text, *blank; (blank = strchr(at, ' ')) != NULL; at = blank + 1) {
            pid_t pid = (pid_t)strtol(at, NULL, 10);
            if (pid > 1 && pid != service->pid) {
                (void)kill(pid, SIGKILL);
            }
        }
        service_nap_ms(2);
    }
}

START_TEST(what_is_dead_is_not_shown_as_running)
{
    struct service service = {0};
    unsigned which = kills[_i].killed;
    const char *id = kills[_i].id;
    service_start(&service);
    ask_script(&service, id, NULL, "setsid sleep 100 & echo up; exec sleep 100");
    ask_wait_output(&service, id, "up");
    if (!kills[_i].served) {
        service_kill(&service);
    }
    kill_some(&service, id, which);
    bool all = which == (KEEPER | GUARD | MONITOR);
    if (!all) {
        /* One of them is left, and sees to it that nobody else is. */
        if (!kills[_i].served) {
            service_wait_alone(&service, 30);
        }
    }
    if (!kills[_i].served) {
        service_start(&service);
    }
    const struct answer *end = ask_ends(&service, id, "lost");
    if (!all) {
        ck_assert_msg((which & (KEEPER | GUARD)) == (KEEPER | GUARD) ||
                          json_is_object(ask_item(end->json, "report")),
                      "no report: %s", end->body);
        service_wait_alone(&service, 20);
    } else {
        end_orphans(&service);
    }
    /* The events have an end, and what was written is still there. */
    struct replay replay = {0};
    replay_all(&service, &replay, id, 20);
    ck_assert_str_eq(replay.status, "lost");
    ck_assert_uint_eq(replay.length[0], 3);
    replay_done(&replay);
    size_t length;
    SBX_AUTO_FREE char *text = ask_output(&service, id, "stdout", &length, NULL);
    ck_assert_str_eq(text, "up\n");
    ask_expect(ask(&service, "POST", "/v1/executions/%s/cancel?wait=5", id), 200);
    ask_expect(ask(&service, "DELETE", "/v1/executions/%s", id), 204);
    service_done(&service);
}
END_TEST

START_TEST(a_keeper_that_is_stopped_holds_nobody_up)
{
    pid_t pids[PROCESSES_MAX];
    struct service service = {0};
    service_start(&service);
    ask_start(
        &service, 201,
        "{'id': 'a', 'command': 'sleep', 'args': ['60'], 'limits': {'wall': '1s'}}");
    (void)ask_expect(ask(&service, "GET", "/v1/executions/a/events?wait=20"), 200);
    ck_assert_uint_ge(service_processes(&service, "a", pids, PROCESSES_MAX), 3);
    ck_assert_int_eq(kill(pids[0], SIGSTOP), 0);
    int fd = ask_connect(&service);
    ck_assert_int_ge(fd, 0);
    ck_assert(
        ask_send(fd, "POST", "/v1/executions/a/signal", "{\"signal\":\"CONT\"}", 17));
    ask_start(&service, 201, "{'id': 'b', 'command': 'true'}");
    (void)ask_ends(&service, "b", "completed");
    ck_assert_str_eq(ask_string(ask(&service, "GET", "/v1/executions/a"), "status"),
                     "running");
    ck_assert_int_eq(kill(pids[0], SIGCONT), 0);
    ck_assert_ptr_nonnull(ask_receive(fd, 20));
    (void)ask_ends(&service, "a", "timed_out");
    service_done(&service);
}
END_TEST

/* --- what an sbxd finds
 * ------------------------------------------------------------------------- */

static void make_file(const char *directory, const char *name, const char *text)
{
    char path[2 * SBX_FIXTURE_PATH_SIZE];
    (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
    FILE *file = fopen(path, "we");
    ck_assert_msg(file != NULL, "%s: %s", path, strerror(errno));
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

START_TEST(places_half_made_are_cleaned_up)
{
    char path[2 * SBX_FIXTURE_PATH_SIZE];
    struct stat status;
    struct service service = {0};
    service_start(&service);
    ask_start(&service, 201, "{'id': 'good', 'command': 'true'}");
    (void)ask_ends(&service, "good", "completed");
    service_kill(&service);
    (void)snprintf(path, sizeof(path), "%s/new/x123", service.state);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    make_file(path, "request", "half");
    make_file(path, "lock", "");
    (void)snprintf(path, sizeof(path), "%s/executions/empty", service.state);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof(path), "%s/executions/damaged", service.state);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    make_file(path, "request", "no request at all");
    make_file(path, "page", "");
    make_file(path, "events", "x");
    make_file(path, "report.json", "{\"outcome\":");
    /* Links lead nowhere. */
    make_file(service.directory, "outside", "mine");
    (void)snprintf(path, sizeof(path), "%s/executions/linked", service.state);
    ck_assert_int_eq(symlink(service.directory, path), 0);
    service_start(&service);
    (void)snprintf(path, sizeof(path), "%s/new/x123", service.state);
    ck_assert_int_lt(lstat(path, &status), 0);
    (void)ask_ends(&service, "good", "completed");
    static const char *const ids[] = {"empty", "damaged", "linked"};
    for (size_t i = 0; i < 3; i++) {
        const struct answer *answer = ask(&service, "GET", "/v1/executions/%s", ids[i]);
        ck_assert_msg(answer->status == 404 ||
                          (answer->status == 200 &&
                           strcmp(ask_string(answer, "status"), "lost") == 0),
                      "%s: %d: %s", ids[i], answer->status, answer->body);
        ask_expect(ask(&service, "GET", "/v1/executions"), 200);
    }
    (void)snprintf(path, sizeof(path), "%s/outside", service.directory);
    ck_assert_int_eq(lstat(path, &status), 0);
    ask_start(&service, 201, "{'id': 'next', 'command': 'true'}");
    (void)ask_ends(&service, "next", "completed");
    service_done(&service);
}
END_TEST

START_TEST(a_place_that_is_taken_away_harms_nobody)
{
    char path[2 * SBX_FIXTURE_PATH_SIZE];
    struct service service = {0};
    static const char *const names[] = {"events", "stdout",      "stderr",
                                        "page",   "report.json", "request"};
    service_start(&service);
    for (size_t i = 0; i < 6; i++) {
        ask_start(&service, 201, "{'id': 'a%zu', 'command': 'echo', 'args': ['x']}", i);
        char id[16];
        (void)snprintf(id, sizeof(id), "a%zu", i);
        (void)ask_ends(&service, id, "completed");
        (void)snprintf(path, sizeof(path), "%s/executions/%s/%s", service.state, id,
                       names[i]);
        ck_assert_int_eq(truncate(path, 10), 0);
    }
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < 6; i++) {
            (void)ask(&service, "GET", "/v1/executions/a%zu", i);
            (void)ask(&service, "GET", "/v1/executions/a%zu/events", i);
            (void)ask(&service, "GET", "/v1/executions/a%zu/stdout", i);
            (void)ask(&service, "GET", "/v1/executions/a%zu/stderr", i);
        }
        ask_expect(ask(&service, "GET", "/v1/executions"), 200);
        ask_start(&service, round == 0 ? 201 : 200, "{'id': 'next', 'command': 'true'}");
        (void)ask_ends(&service, "next", "completed");
        service_kill(&service);
        service_start(&service);
    }
    service_done(&service);
}
END_TEST

/* It runs as the user whose files these are: it can harm itself, and nobody else. */
START_TEST(a_command_that_cuts_its_own_place_short_ends_itself_alone)
{
    static const char *const names[] = {"stdout",  "events", "page",
                                        "request", "lock",   "control"};
    char script[3 * SBX_FIXTURE_PATH_SIZE];
    struct service service = {0};
    service_start(&service);
    for (size_t i = 0; i < 6; i++) {
        char id[16];
        (void)snprintf(id, sizeof(id), "cut%zu", i);
        (void)snprintf(script, sizeof(script),
                       "cd %s/executions/%s && rm -f control && : >%s; i=0; "
                       "while [ $i -lt 3000 ]; do echo 0123456789 $i; i=$((i+1)); done; "
                       "exec sleep 60",
                       service.state, id, names[i]);
        ask_script(&service, id, "'limits': {'wall': '1s'}", script);
    }
    for (size_t i = 0; i < 6; i++) {
        char id[16];
        (void)snprintf(id, sizeof(id), "cut%zu", i);
        const struct answer *end = ask_settled(&service, id, 20);
        /* Where its keeper dies of it, the pipe breaks, and the command may end first. */
        ck_assert_str_ne(ask_string(end, "status"), "completed");
        (void)ask(&service, "GET", "/v1/executions/%s/events", id);
        (void)ask(&service, "GET", "/v1/executions/%s/stdout", id);
    }
    service_wait_alone(&service, 20);
    ask_start(&service, 201, "{'id': 'next', 'command': 'true'}");
    (void)ask_ends(&service, "next", "completed");
    service_kill(&service);
    service_start(&service);
    (void)ask_ends(&service, "next", "completed");
    service_done(&service);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("executions_restart");
    TCase *service = sbx_fixture_case(suite, "service", SECONDS);
    tcase_add_test(service, what_runs_is_adopted);
    tcase_add_test(service, results_are_kept);
    TCase *processes = sbx_fixture_case(suite, "processes", SECONDS);
    tcase_add_loop_test(processes, what_is_dead_is_not_shown_as_running, 0,
                        (int)KILL_COUNT);
    tcase_add_test(processes, a_keeper_that_is_stopped_holds_nobody_up);
    TCase *places = sbx_fixture_case(suite, "places", SECONDS);
    tcase_add_test(places, places_half_made_are_cleaned_up);
    tcase_add_test(places, a_place_that_is_taken_away_harms_nobody);
    tcase_add_test(places, a_command_that_cuts_its_own_place_short_ends_itself_alone);
    return sbx_fixture_run(suite);
}
