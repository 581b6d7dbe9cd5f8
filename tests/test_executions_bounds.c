/*
 * test_executions_bounds.c - what is held of executions and by whom, on a real sbxd:
 * retention, capacity, forgetting; what the operator allows; who may ask at all; who has
 * the state directory and the socket, and lets go of them.
 */
#include "tests/ask_kit.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECONDS 60
#define SLEEPER "'command': 'sleep', 'args': ['60']"
#define NOBODY 65534
#define SOMEBODY 65533

static void wait_forgotten(const struct service *service, const char *id, double seconds)
{
    double end = service_now() + seconds;
    while (ask(service, "GET", "/v1/executions/%s", id)->status != 404) {
        ck_assert_msg(service_now() < end, "%s is there after %.1f s", id, seconds);
        service_nap_ms(10);
    }
}

/* --- retention
 * -------------------------------------------------------------------------- */

START_TEST(results_stay_until_retention_ends_and_are_gone_after)
{
    struct service service = {0};
    service_start(&service);
    double start = service_now();
    ask_start(&service, 201, "{'id': 'short', 'command': 'true', 'retention': '1500ms'}");
    ask_start(&service, 201, "{'id': 'long', 'command': 'true', 'retention': '1h'}");
    (void)ask_ends(&service, "short", "completed");
    (void)ask_ends(&service, "long", "completed");
    double ended = service_now();
    ck_assert(service_place_exists(&service, "short"));
    /* Nobody asks meanwhile: it is a timer that ends it. */
    while (service_place_exists(&service, "short")) {
        ck_assert_double_lt(service_now(), ended + 20);
        service_nap_ms(5);
    }
    ck_assert_double_ge(service_now() - start, 1.49);
    ask_expect(ask(&service, "GET", "/v1/executions/short"), 404);
    ask_expect(ask(&service, "GET", "/v1/executions/short/events"), 404);
    ck_assert_uint_eq(ask_stat(&service, "expired_total"), 1);
    /* The id is free again, for another request. */
    ask_start(&service, 201,
              "{'id': 'short', 'command': 'sh', 'args': ['-c', 'exit 1']}");
    (void)ask_ends(&service, "short", "failed");
    ask_expect(ask(&service, "GET", "/v1/executions/long"), 200);
    service_done(&service);
}
END_TEST

START_TEST(retention_goes_on_while_nobody_serves)
{
    struct service service = {.options = "--retention 300ms"};
    service_start(&service);
    ask_start(&service, 201, "{'id': 'a', 'command': 'true'}");
    ask_start(&service, 201,
              "{'id': 'b', 'command': 'sleep', 'args': ['0.5'], 'retention': '5m'}");
    service_kill(&service);
    service_wait_alone(&service, 20);
    service_nap_ms(350); /* the time of `a` passes */
    service_start(&service);
    wait_forgotten(&service, "a", 10);
    ck_assert(!service_place_exists(&service, "a"));
    (void)ask_ends(&service, "b", "completed");
    service_done(&service);
}
END_TEST

START_TEST(an_execution_that_runs_is_not_forgotten)
{
    char go[SBX_FIXTURE_PATH_SIZE];
    char script[2 * SBX_FIXTURE_PATH_SIZE];
    struct service service = {0};
    service_start(&service);
    (void)snprintf(script, sizeof(script), "until [ -e %s ]; do sleep 0.02; done",
                   sbx_fixture_path(go, "go"));
    ask_script(&service, "a", "'retention': '100ms'", script);
    service_nap_ms(300);
    ck_assert_str_eq(ask_string(ask(&service, "GET", "/v1/executions/a"), "status"),
                     "running");
    int fd = open(go, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
    (void)close(fd);
    wait_forgotten(&service, "a", 20);
    service_done(&service);
}
END_TEST

/* --- capacity
 * --------------------------------------------------------------------------- */

START_TEST(the_oldest_settled_one_makes_room)
{
    struct service service = {.options = "--max-executions 3"};
    service_start(&service);
    ask_start(&service, 201, "{'id': 'live', 'command': 'sleep', 'args': ['60']}");
    /* It was started later, and ends first: that counts. */
    ask_start(&service, 201, "{'id': 'late', 'command': 'cat', 'stdin': 'open'}");
    ask_start(&service, 201, "{'id': 'early', 'command': 'true'}");
    (void)ask_ends(&service, "early", "completed");
    ask_expect(ask_bytes(&service, "POST", "/v1/executions/late/stdin?close=1", NULL, 0),
               204);
    (void)ask_ends(&service, "late", "completed");
    ask_start(&service, 201, "{'id': 'next', 'command': 'sleep', 'args': ['60']}");
    ask_expect(ask(&service, "GET", "/v1/executions/early"), 404);
    ck_assert(!service_place_exists(&service, "early"));
    ask_expect(ask(&service, "GET", "/v1/executions/late"), 200);
    ask_start(&service, 201, "{'id': 'third', 'command': 'sleep', 'args': ['60']}");
    ask_expect(ask(&service, "GET", "/v1/executions/late"), 404);
    /* All run: nobody makes room, and nothing changes. */
    const struct answer *refused =
        ask_start(&service, 429, "{'id': 'fourth', 'command': 'true'}");
    ck_assert_str_ne(ask_code(refused), "");
    ask_expect(ask(&service, "GET", "/v1/executions/fourth"), 404);
    ck_assert(!service_place_exists(&service, "fourth"));
    ask_expect(ask(&service, "GET", "/v1/executions/live"), 200);
    /* Who is there already is found all the same. */
    ask_start(&service, 200, "{'id': 'live', 'command': 'sleep', 'args': ['60']}");
    ask_start(&service, 409, "{'id': 'live', 'command': 'sleep', 'args': ['61']}");
    ck_assert_uint_eq(ask_stat(&service, "evicted_total"), 2);
    ck_assert_uint_eq(ask_stat(&service, "refused_total"), 1);
    /* One that makes no sense does not make anybody go. */
    ask_expect(ask(&service, "POST", "/v1/executions/third/cancel?wait=20"), 200);
    ask_start(&service, 400, "{'id': 'bad', 'command': 7}");
    ask_expect(ask(&service, "GET", "/v1/executions/third"), 200);
    ask_start(&service, 201, "{'id': 'fourth', 'command': 'true'}");
    ask_expect(ask(&service, "GET", "/v1/executions/third"), 404);
    service_done(&service);
}
END_TEST

START_TEST(capacity_holds_after_a_restart)
{
    struct service service = {.options = "--max-executions 2"};
    service_start(&service);
    ask_start(&service, 201, "{'id': 'a', 'command': 'sleep', 'args': ['60']}");
    ask_start(&service, 201, "{'id': 'b', 'command': 'sleep', 'args': ['60']}");
    service_kill(&service);
    service_start(&service);
    ask_start(&service, 429, "{'id': 'c', 'command': 'true'}");
    ck_assert_uint_eq(ask_stat(&service, "active_count"), 2);
    service_done(&service);
}
END_TEST

/* --- forgetting
 * ------------------------------------------------------------------------- */

START_TEST(what_is_deleted_is_gone)
{
    struct service service = {0};
    service_start(&service);
    ask_start(&service, 201, "{'id': 'over', 'command': 'true'}");
    (void)ask_ends(&service, "over", "completed");
    ask_expect(ask(&service, "DELETE", "/v1/executions/over"), 204);
    ask_expect(ask(&service, "GET", "/v1/executions/over"), 404);
    ask_expect(ask(&service, "DELETE", "/v1/executions/over"), 404);
    ck_assert(!service_place_exists(&service, "over"));
    /* One that runs is ended first. */
    ask_start(&service, 201, "{'id': 'live', 'command': 'sleep', 'args': ['60']}");
    ask_expect(ask(&service, "DELETE", "/v1/executions/live?wait=20"), 204);
    ask_expect(ask(&service, "GET", "/v1/executions/live"), 404);
    ck_assert(!service_place_exists(&service, "live"));
    service_wait_alone(&service, 10);
    /* Without waiting it is known until it is over. */
    ask_script(&service, "slow", "'grace': '10s'",
               "trap 'sleep 0.5; exit' TERM; echo up; while :; do sleep 0.02; done");
    ask_wait_output(&service, "slow", "up");
    ask_expect(ask(&service, "DELETE", "/v1/executions/slow"), 202);
    ask_expect(ask(&service, "DELETE", "/v1/executions/slow?wait=1ms"), 202);
    ask_expect(ask(&service, "GET", "/v1/executions/slow"), 200);
    ask_start(&service, 409, "{'id': 'slow', 'command': 'true'}");
    wait_forgotten(&service, "slow", 20);
    ck_assert(!service_place_exists(&service, "slow"));
    /* Who waits for news of it is told. */
    ask_start(&service, 201, "{'id': 'polled', 'command': 'true'}");
    (void)ask_ends(&service, "polled", "completed");
    ask_start(&service, 201, "{'id': 'live', 'command': 'sleep', 'args': ['60']}");
    int fd = ask_connect(&service);
    ck_assert_int_ge(fd, 0);
    ck_assert(ask_send(fd, "GET", "/v1/executions/live/stderr?wait=25", NULL, 0));
    while (ask_stat(&service, "waiters_count") < 1) {
        service_nap_ms(2);
    }
    ask_expect(ask(&service, "DELETE", "/v1/executions/live?wait=20"), 204);
    const struct answer *polled = ask_receive(fd, 15);
    ck_assert(polled != NULL && (polled->status == 200 || polled->status == 404));
    service_done(&service);
}
END_TEST

/* --- what the operator allows
 * ---------------------------------------------------------------- */

START_TEST(limits_of_the_operator_cannot_be_widened)
{
    struct service service = {.options = "--max-memory 50M --max-output 64K --max-events "
                                         "100 --max-retention 1h"};
    static const char *const wider[] = {
        "{'command': 'true', 'limits': {'memory': '51M'}}",
        "{'command': 'true', 'limits': {'memory': 52428801}}",
        "{'command': 'true', 'output_limit': '65K'}",
        "{'command': 'true', 'event_limit': 101}",
        "{'command': 'true', 'retention': '61m'}",
        "{'command': 'true', 'limits': {'memory': '18446744073709551616'}}",
    };
    service_start(&service);
    for (size_t i = 0; i < 6; i++) {
        const struct answer *answer =
            ask_post(&service, "/v1/executions", "%s", wider[i]);
        ck_assert_msg(answer->status == (i < 5 ? 403 : 400) ||
                          (i > 0 && answer->status == 400),
                      "%s: %d: %s", wider[i], answer->status, answer->body);
    }
    /* Who asks for nothing gets it all the same, and it is held. */
    char helper[SBX_FIXTURE_PATH_SIZE];
    ask_start(&service, 201, "{'id': 'grow', 'command': '%s', 'args': ['/', '200']}",
              sbx_fixture_helper(helper, "measure_grow"));
    ask_start(&service, 201,
              "{'id': 'less', 'command': 'true', 'limits': {'memory': '20M'}}");
    const struct answer *end = ask_ends(&service, "grow", "breached");
    ck_assert_str_eq(ask_string(end, "report.breach.reason"), "memory");
    ck_assert_int_eq(ask_integer(end, "report.limits.memory_bytes"), 50LL * 1024 * 1024);
    end = ask_ends(&service, "less", "completed");
    ck_assert_int_eq(ask_integer(end, "report.limits.memory_bytes"), 20LL * 1024 * 1024);
    service_done(&service);
}
END_TEST

START_TEST(defaults_are_held)
{
    struct service service = {0};
    service_start(&service);
    ask_start(&service, 201, "{'id': 'a', 'command': 'true'}");
    const struct answer *end = ask_ends(&service, "a", "completed");
    ck_assert_int_eq(ask_integer(end, "report.limits.wall_us"), 120000000);
    service_done(&service);
}
END_TEST

/* --- who may ask
 * ------------------------------------------------------------------------------ */

static bool is_root(void)
{
    if (geteuid() != 0) {
        (void)fprintf(stderr, "SKIP: only root can be others\n");
    }
    return geteuid() == 0;
}

/* Asks as that user, in a process of its own: the status; 0: not even a connection. */
static int ask_as(const struct service *service, uid_t uid, const char *method,
                  const char *path, const char *body)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 ||
            setresuid(uid, uid, uid) < 0) {
            _exit(255);
        }
        int fd = ask_connect(service);
        if (fd < 0) {
            _exit(fd == -EACCES || fd == -ECONNREFUSED ? 0 : 254);
        }
        const struct answer *answer =
            ask_send(fd, method, path, body, body != NULL ? strlen(body) : 0)
                ? ask_receive(fd, 20)
                : NULL;
        /* 8 bits: 2.. is 200, 4.. is 400. */
        int status = answer != NULL ? answer->status : 0;
        ask_forget();
        _exit(status == 0 ? 0 : status / 100 * 40 + status % 100 % 40);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) < 250);
    int code = WEXITSTATUS(status);
    return code == 0 ? 0 : code / 40 * 100 + code % 40;
}

START_TEST(others_are_refused)
{
    struct service service = {0};
    struct service theirs = {.uid = NOBODY};
    if (!is_root()) {
        return;
    }
    service_start(&service);
    int status = ask_as(&service, NOBODY, "GET", "/v1/stats", NULL);
    ck_assert_msg(status == 0 || status == 403, "status %d", status);
    /* Even if the socket lets them connect. */
    ck_assert_int_eq(chmod(service.socket, 0666), 0);
    status = ask_as(&service, NOBODY, "GET", "/v1/stats", NULL);
    ck_assert_msg(status == 0 || status == 403, "status %d", status);
    status =
        ask_as(&service, NOBODY, "POST", "/v1/executions", "{\"command\": \"true\"}");
    ck_assert_msg(status == 0 || status == 403, "status %d", status);
    ck_assert_uint_eq(ask_stat(&service, "started_total"), 0);
    service_done(&service);
    /* Root may ask anybody's; one user not another's. */
    service_start(&theirs);
    ck_assert_int_eq(ask_as(&theirs, NOBODY, "GET", "/v1/stats", NULL), 200);
    ck_assert_int_eq(chmod(theirs.socket, 0666), 0);
    status = ask_as(&theirs, SOMEBODY, "GET", "/v1/stats", NULL);
    ck_assert_msg(status == 0 || status == 403, "status %d", status);
    ask_start(&theirs, 201, "{'id': 'a', 'command': 'id', 'args': ['-u']}");
    ask_wait_output(&theirs, "a", "65534\n");
    service_done(&theirs);
}
END_TEST

START_TEST(users_that_are_allowed_have_executions_of_their_own)
{
    struct service service = {.options = "--allow-uid 65534 --allow-uid 65533"};
    if (!is_root()) {
        return;
    }
    service_start(&service);
    ask_start(&service, 201, "{'id': 'root', 'command': 'sleep', 'args': ['60']}");
    ck_assert_int_eq(ask_as(&service, NOBODY, "POST", "/v1/executions",
                            "{\"id\": \"theirs\", \"command\": \"id\", \"args\": "
                            "[\"-u\"]}"),
                     201);
    /* It runs as who has asked for it. */
    ask_wait_output(&service, "theirs", "65534\n");
    (void)ask_ends(&service, "theirs", "completed");
    ck_assert_int_eq(ask_as(&service, NOBODY, "GET", "/v1/executions/theirs", NULL), 200);
    ck_assert_int_eq(ask_as(&service, SOMEBODY, "GET", "/v1/executions/theirs", NULL),
                     404);
    ck_assert_int_eq(ask_as(&service, NOBODY, "GET", "/v1/executions/root", NULL), 404);
    ck_assert_int_eq(ask_as(&service, NOBODY, "POST", "/v1/executions/root/cancel", NULL),
                     404);
    ck_assert_int_eq(ask_as(&service, NOBODY, "DELETE", "/v1/executions/root", NULL),
                     404);
    /* As somebody else, or to end the service: not for them. */
    ck_assert_int_eq(ask_as(&service, NOBODY, "POST", "/v1/executions",
                            "{\"command\": \"true\", \"user\": \"0:0\"}"),
                     403);
    ck_assert_int_eq(ask_as(&service, NOBODY, "POST", "/v1/shutdown", "{}"), 403);
    ck_assert_int_eq(ask_as(&service, 65532, "GET", "/v1/stats", NULL), 403);
    ck_assert_str_eq(ask_string(ask(&service, "GET", "/v1/executions/root"), "status"),
                     "running");
    service_done(&service);
}
END_TEST

static int start_as_nobody(const struct service *service, const char *id)
{
    char body[128];
    (void)snprintf(body, sizeof body,
                   "{\"id\": \"%s\", \"command\": \"sleep\", \"args\": [\"60\"]}", id);
    return ask_as(service, NOBODY, "POST", "/v1/executions", body);
}

START_TEST(users_that_are_allowed_leave_room_for_root)
{
    struct service service = {.options = "--allow-uid 65534 --max-executions 4"};
    if (!is_root()) {
        return;
    }
    service_start(&service);
    ask_start(&service, 201, "{'id': 'r', 'command': 'true'}");
    (void)ask_ends(&service, "r", "completed");
    /* Three of four; and the results of others do not make room for more. */
    ck_assert_int_eq(start_as_nobody(&service, "a"), 201);
    ck_assert_int_eq(start_as_nobody(&service, "b"), 201);
    ck_assert_int_eq(start_as_nobody(&service, "c"), 201);
    ck_assert_int_eq(start_as_nobody(&service, "d"), 429);
    (void)ask_expect(ask(&service, "GET", "/v1/executions/r"), 200);
    (void)ask_expect(ask(&service, "DELETE", "/v1/executions/r"), 204);
    ck_assert_int_eq(start_as_nobody(&service, "d"), 429);
    ask_start(&service, 201, "{'id': 'r', 'command': 'true'}");
    (void)ask_ends(&service, "r", "completed");
    /* Their own make room. */
    ck_assert_int_eq(
        ask_as(&service, NOBODY, "POST", "/v1/executions/a/cancel?wait=20", NULL), 200);
    ck_assert_int_eq(start_as_nobody(&service, "d"), 201);
    ck_assert_int_eq(ask_as(&service, NOBODY, "GET", "/v1/executions/a", NULL), 404);
    (void)ask_expect(ask(&service, "GET", "/v1/executions/r"), 200);
    service_done(&service);
}
END_TEST

/* --- who serves
 * --------------------------------------------------------------------------- */

START_TEST(shutdown_leaves_executions_alone_or_cancels_them)
{
    struct service service = {0};
    service_start(&service);
    ask_start(&service, 201, "{'id': 'a', " SLEEPER "}");
    (void)ask_expect(ask_post(&service, "/v1/shutdown", "{}"), 202);
    ck_assert_int_eq(service_wait(&service, 20), 0);
    ck_assert_uint_gt(service_others(&service), 0);
    struct stat status;
    ck_assert_int_lt(lstat(service.socket, &status), 0);
    service_start(&service);
    ck_assert_str_eq(ask_string(ask(&service, "GET", "/v1/executions/a"), "status"),
                     "running");
    service_stop(&service);
    ck_assert_uint_gt(service_others(&service), 0);
    service_start(&service);
    (void)ask_expect(ask_post(&service, "/v1/shutdown", "{'cancel': true}"), 202);
    ck_assert_int_eq(service_wait(&service, 20), 0);
    service_wait_alone(&service, 0.5);
    service_start(&service);
    ck_assert_str_eq(ask_string(ask(&service, "GET", "/v1/executions/a"), "status"),
                     "cancelled");
    service_done(&service);
}
END_TEST

START_TEST(state_and_socket_belong_to_one)
{
    struct service first = {0};
    struct service same_state = {0};
    struct service same_socket = {0};
    service_start(&first);
    (void)snprintf(same_state.state, sizeof(same_state.state), "%s", first.state);
    (void)snprintf(same_socket.socket, sizeof(same_socket.socket), "%s", first.socket);
    service_spawn(&same_state);
    ck_assert_int_ne(service_wait(&same_state, 20), 0);
    ck_assert_ptr_nonnull(strstr(service_said(&same_state), first.state));
    service_spawn(&same_socket);
    ck_assert_int_ne(service_wait(&same_socket, 20), 0);
    ck_assert_ptr_nonnull(strstr(service_said(&same_socket), first.socket));
    /* The first one is not disturbed, and a start of it afterwards is. */
    ask_start(&first, 201, "{'id': 'a', 'command': 'true'}");
    (void)ask_ends(&first, "a", "completed");
    service_done(&first);
}
END_TEST

START_TEST(a_stale_socket_is_replaced)
{
    struct stat status;
    struct service service = {0};
    service_start(&service);
    ck_assert_int_eq(stat(service.socket, &status), 0);
    ck_assert_uint_eq(status.st_mode & 07777, 0600);
    service_kill(&service);
    ck_assert_int_eq(lstat(service.socket, &status), 0);
    service_start(&service);
    service_done(&service);
    /* What is no socket is not removed. */
    int fd = open(service.socket, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "mine", 4), 4);
    (void)close(fd);
    service_spawn(&service);
    ck_assert_int_ne(service_wait(&service, 20), 0);
    ck_assert_int_eq(stat(service.socket, &status), 0);
    ck_assert_int_eq(status.st_size, 4);
}
END_TEST

START_TEST(a_state_directory_of_others_is_refused)
{
    struct service service = {0};
    struct stat status;
    service_start(&service);
    service_done(&service);
    ck_assert_int_eq(stat(service.state, &status), 0);
    ck_assert_uint_eq(status.st_mode & 07777, 0700);
    ck_assert_int_eq(chmod(service.state, 0777), 0);
    service_spawn(&service);
    ck_assert_int_ne(service_wait(&service, 20), 0);
    ck_assert_ptr_nonnull(strstr(service_said(&service), service.state));
    ck_assert_int_eq(chmod(service.state, 0700), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("executions_bounds");
    TCase *retention = sbx_fixture_case(suite, "retention", SECONDS);
    tcase_add_test(retention, results_stay_until_retention_ends_and_are_gone_after);
    tcase_add_test(retention, retention_goes_on_while_nobody_serves);
    tcase_add_test(retention, an_execution_that_runs_is_not_forgotten);
    TCase *capacity = sbx_fixture_case(suite, "capacity", SECONDS);
    tcase_add_test(capacity, the_oldest_settled_one_makes_room);
    tcase_add_test(capacity, capacity_holds_after_a_restart);
    tcase_add_test(capacity, what_is_deleted_is_gone);
    TCase *operator= sbx_fixture_case(suite, "operator", SECONDS);
    tcase_add_test(operator, limits_of_the_operator_cannot_be_widened);
    tcase_add_test(operator, defaults_are_held);
    TCase *users = sbx_fixture_case(suite, "users", SECONDS);
    tcase_add_test(users, others_are_refused);
    tcase_add_test(users, users_that_are_allowed_have_executions_of_their_own);
    tcase_add_test(users, users_that_are_allowed_leave_room_for_root);
    TCase *serving = sbx_fixture_case(suite, "serving", SECONDS);
    tcase_add_test(serving, shutdown_leaves_executions_alone_or_cancels_them);
    tcase_add_test(serving, state_and_socket_belong_to_one);
    tcase_add_test(serving, a_stale_socket_is_replaced);
    tcase_add_test(serving, a_state_directory_of_others_is_refused);
    return sbx_fixture_run(suite);
}
