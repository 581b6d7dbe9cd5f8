/*
 * test_executions_ends.c - how executions go on and end, on a real sbxd: signals, pauses,
 * cancels; limits, ceilings, launchers, sandboxes; what wins when there are two reasons;
 * and that nothing is left when it is said to be over.
 */
#include "tests/ask_kit.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECONDS 60

/* Waits until its standard output has a whole line, and takes the number in it. */
static pid_t wait_pid(const struct service *service, const char *id)
{
    ask_wait_output(service, id, "\n");
    const struct answer *out =
        ask_expect(ask(service, "GET", "/v1/executions/%s/stdout", id), 200);
    pid_t pid = (pid_t)strtol(out->body, NULL, 10);
    ck_assert_msg(pid > 1, "no pid: %s", out->body);
    return pid;
}

static void expect_gone(pid_t pid)
{
    ck_assert_msg(kill(pid, 0) < 0 && errno == ESRCH, "process %d is there", (int)pid);
}

/* --- signals and pauses
 * ------------------------------------------------------------------ */

START_TEST(a_signal_arrives)
{
    struct service service = {0};
    service_start(&service);
    ask_script(&service, "a", NULL,
               "trap 'echo got; exit 7' USR1; echo up; while :; do sleep 0.02; done");
    ask_wait_output(&service, "a", "up");
    ask_expect(ask_post(&service, "/v1/executions/a/signal", "{'signal': 'USR1'}"), 204);
    const struct answer *end = ask_ends(&service, "a", "failed");
    ck_assert_int_eq(ask_integer(end, "report.exit_code"), 7);
    ask_wait_output(&service, "a", "got");
    /* By number, and one that ends it: the caller's doing, so no breach. */
    ask_start(&service, 201, "{'id': 'b', 'command': 'sleep', 'args': ['60']}");
    (void)ask_expect(ask(&service, "GET", "/v1/executions/b/events?wait=20"), 200);
    ask_expect(ask_post(&service, "/v1/executions/b/signal", "{'signal': 'SIGKILL'}"),
               204);
    end = ask_ends(&service, "b", "failed");
    ck_assert_str_eq(ask_string(end, "report.outcome"), "signaled");
    ck_assert_str_eq(ask_string(end, "report.signal"), "SIGKILL");
    service_done(&service);
}
END_TEST

static uint64_t output_end(const struct service *service, const char *id)
{
    return ask_expect(ask(service, "GET", "/v1/executions/%s/stdout?offset=%llu", id,
                          9999999999ULL),
                      200)
        ->next;
}

START_TEST(a_paused_execution_does_nothing_until_it_is_resumed)
{
    struct service service = {0};
    service_start(&service);
    ask_script(&service, "a", "'output_limit': '1M'",
               "setsid sh -c 'while :; do echo b; sleep 0.01; done' & "
               "while :; do echo a; sleep 0.01; done");
    ask_wait_output(&service, "a", "b");
    ask_expect(ask(&service, "POST", "/v1/executions/a/pause"), 204);
    /* What was in the pipes still comes; then nothing. */
    double end = service_now() + 20;
    uint64_t before = output_end(&service, "a");
    for (;;) {
        ck_assert_msg(service_now() < end, "it goes on while it is paused");
        service_nap_ms(250);
        uint64_t now = output_end(&service, "a");
        if (now == before) {
            break;
        }
        before = now;
    }
    ask_expect(ask(&service, "POST", "/v1/executions/a/resume"), 204);
    (void)ask_expect(ask(&service, "GET", "/v1/executions/a/stdout?offset=%llu&wait=20",
                         (unsigned long long)before),
                     200);
    ck_assert_uint_gt(output_end(&service, "a"), before);
    /* One that is paused can be cancelled. */
    ask_expect(ask(&service, "POST", "/v1/executions/a/pause"), 204);
    const struct answer *answer =
        ask_expect(ask(&service, "POST", "/v1/executions/a/cancel?wait=20"), 200);
    ck_assert_str_eq(ask_string(answer, "status"), "cancelled");
    service_done(&service);
}
END_TEST

/* --- cancels
 * -------------------------------------------------------------------------------- */

START_TEST(a_cancel_is_graceful_and_leaves_nobody)
{
    struct replay replay = {0};
    struct service service = {0};
    service_start(&service);
    /* A child in a session of its own, whose number is told, and one that must be killed.
     */
    ask_script(&service, "a", "'grace': '10s'",
               "trap 'sleep 0.3; echo bye; exit 0' TERM; setsid sleep 300 & echo $!; "
               "while :; do sleep 0.02; done");
    pid_t child = wait_pid(&service, "a");
    ck_assert_int_eq(kill(child, 0), 0);
    ask_expect(ask(&service, "POST", "/v1/executions/a/cancel"), 202);
    ask_expect(ask(&service, "POST", "/v1/executions/a/cancel"), 202);
    const struct answer *answer =
        ask_expect(ask(&service, "POST", "/v1/executions/a/cancel?wait=20"), 200);
    expect_gone(child);
    ck_assert_str_eq(ask_string(answer, "status"), "cancelled");
    ck_assert_str_eq(ask_string(answer, "report.outcome"), "cancelled");
    ck_assert_str_ne(ask_string(answer, "report.termination.proof"), "none");
    replay_all(&service, &replay, "a", 10);
    ck_assert_ptr_nonnull(memmem(replay.data[0], replay.length[0], "bye\n", 4));
    ck_assert_str_eq(replay.status, "cancelled");
    replay_done(&replay);
    /* Again, when it is over: nothing new. */
    answer = ask_expect(ask(&service, "POST", "/v1/executions/a/cancel?wait=20"), 200);
    ck_assert_str_eq(ask_string(answer, "status"), "cancelled");
    service_wait_alone(&service, 10);
    service_done(&service);
}
END_TEST

START_TEST(what_ignores_the_signal_is_killed)
{
    char helper[SBX_FIXTURE_PATH_SIZE];
    struct service service = {0};
    service_start(&service);
    ask_start(&service, 201, "{'id': 'a', 'command': '%s', 'grace': '200ms'}",
              sbx_fixture_helper(helper, "stubborn"));
    ask_wait_output(&service, "a", "up");
    const struct answer *answer =
        ask_expect(ask(&service, "POST", "/v1/executions/a/cancel?wait=20"), 200);
    ck_assert_str_eq(ask_string(answer, "status"), "cancelled");
    ck_assert(json_is_true(ask_item(answer->json, "report.termination.escalated")));
    service_wait_alone(&service, 10);
    service_done(&service);
}
END_TEST

/* Stops those that hold it: $k the keeper, $g the guard, $PPID the monitor. Its wall
 * limit holds all the same, or, where nobody of them goes on, a cancel does. */
static const struct {
    const char *stops;
    const char *wall;
    const char *status;
} stops[] = {{"$k", "2s", "timed_out"},
             {"$g $PPID", "2s", "timed_out"},
             {"$k $g $PPID", "50s", "cancelled"}};

static void wait_stopped(pid_t pid)
{
    char path[64];
    char text[512] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    for (int i = 0; i < 2000 && strstr(text, ") T ") == NULL; i++) {
        ck_assert_int_gt(sbx_fd_read_text_at(AT_FDCWD, path, text, sizeof text), 0);
        (void)usleep(5000);
    }
    ck_assert_ptr_nonnull(strstr(text, ") T "));
}

/* Two numbers in a line: the shell, which goes on when it gets SIGUSR1, and its keeper.
 */
START_TEST(a_command_that_stops_its_supervisors_gets_nowhere)
{
    char script[512];
    char keys[64];
    char *rest = NULL;
    struct service service = {0};
    service_start(&service);
    (void)snprintf(script, sizeof script,
                   "parent() { sed 's/.*) . \\([0-9]*\\) .*/\\1/' /proc/$1/stat; }; "
                   "g=$(parent $PPID); k=$(parent $g); trap 'kill -STOP %s' USR1; "
                   "echo $$ $k; while :; do sleep 0.05; done",
                   stops[_i].stops);
    (void)snprintf(keys, sizeof keys, "'limits': {'wall': '%s'}", stops[_i].wall);
    ask_script(&service, "a", keys, script);
    ask_wait_output(&service, "a", "\n");
    const struct answer *out =
        ask_expect(ask(&service, "GET", "/v1/executions/a/stdout"), 200);
    pid_t shell = (pid_t)strtol(out->body, &rest, 10);
    pid_t keeper = (pid_t)strtol(rest, NULL, 10);
    ck_assert_msg(shell > 1 && keeper > 1, "no pids: %s", out->body);
    ck_assert_int_eq(kill(shell, SIGUSR1), 0);
    if (strcmp(stops[_i].status, "cancelled") == 0) {
        wait_stopped(keeper);
        ask_expect(ask(&service, "POST", "/v1/executions/a/cancel?wait=20"), 200);
    }
    (void)ask_ends(&service, "a", stops[_i].status);
    service_wait_alone(&service, 10);
    service_done(&service);
}
END_TEST

START_TEST(the_first_reason_wins)
{
    struct service service = {0};
    service_start(&service);
    static const char script[] =
        "trap 'echo told; sleep 0.6; exit 0' TERM; echo up; while :; do sleep 0.02; done";
    ask_script(&service, "breach", "'limits': {'wall': '300ms'}, 'grace': '10s'", script);
    ask_script(&service, "cancel", "'limits': {'wall': '2500ms'}, 'grace': '10s'",
               "trap 'echo told; sleep 3; exit 0' TERM; echo up; while :; do sleep 0.02; "
               "done");
    ask_wait_output(&service, "cancel", "up");
    ask_expect(ask(&service, "POST", "/v1/executions/cancel/cancel"), 202);
    ask_wait_output(&service, "breach", "told");
    const struct answer *answer =
        ask_expect(ask(&service, "POST", "/v1/executions/breach/cancel?wait=20"), 200);
    ck_assert_str_eq(ask_string(answer, "status"), "timed_out");
    ck_assert_str_eq(ask_string(answer, "report.breach.reason"), "wall");
    answer = ask_ends(&service, "cancel", "cancelled");
    ck_assert_ptr_null(ask_item(answer->json, "report.breach"));
    service_done(&service);
}
END_TEST

START_TEST(a_cancel_of_what_has_just_started)
{
    struct service service = {0};
    service_start(&service);
    /* One connection: the cancel is there before the command is. */
    for (int i = 0; i < 10; i++) {
        ask_start(&service, 201, "{'id': 'a%d', 'command': 'sleep', 'args': ['60']}", i);
        const struct answer *answer = ask_expect(
            ask(&service, "POST", "/v1/executions/a%d/cancel?wait=20", i), 200);
        ck_assert_str_eq(ask_string(answer, "status"), "cancelled");
    }
    service_wait_alone(&service, 10);
    service_done(&service);
}
END_TEST

/* --- limits and other ends
 * -------------------------------------------------------------------- */

static const struct {
    const char *id;
    const char *keys;
    const char *script;
    const char *status;
    const char *item; /* of the report, a text */
    const char *value;
} ends[] = {
    {"ok", NULL, "exit 0", "completed", "outcome", "exited"},
    {"code", NULL, "exit 9", "failed", "outcome", "exited"},
    {"killed", NULL, "kill -SEGV $$", "failed", "signal", "SIGSEGV"},
    {"wall", "'limits': {'wall': '200ms'}", "sleep 60", "timed_out", "breach.reason",
     "wall"},
    {"wall-number", "'limits': {'wall': 0.2}", "sleep 60", "timed_out", "breach.reason",
     "wall"},
    {"idle", "'limits': {'idle': '300ms'}", "sleep 60", "timed_out", "breach.reason",
     "idle"},
    {"cpu", "'limits': {'cpu': '200ms', 'wall': 50}", "while :; do :; done", "breached",
     "breach.reason", "cpu"},
    {"output", "'limits': {'output': 1000}", "while echo 0123456789; do :; done",
     "breached", "breach.reason", "output"},
    {"memory", "'limits': {'memory': '40M', 'wall': 50}", "@measure_grow", "breached",
     "breach.reason", "memory"},
    {"processes", "'limits': {'processes': 3, 'wall': 50}",
     "for i in 1 2 3 4 5; do sleep 50 & done; wait", "breached", "breach.reason",
     "processes"},
    {"ceiling", "'ceilings': {'fsize': 1000}",
     "exec dd if=/dev/zero of=big bs=600 count=4 status=none", "breached",
     "breach.reason", "ceiling"},
    {"strays", NULL, "setsid sleep 300 & exit 0", "completed", "outcome", "exited"},
    {"linger", "'linger': '10s'", "(sleep 0.3; echo late) & exit 0", "completed",
     "outcome", "exited"},
};
#define END_COUNT (sizeof(ends) / sizeof(ends[0]))

START_TEST(each_end_has_its_status)
{
    char helper[SBX_FIXTURE_PATH_SIZE];
    char keys[1024];
    struct service service = {0};
    char complaints[2048] = "";
    size_t length = 0;
    service_start(&service);
    for (size_t i = 0; i < END_COUNT; i++) {
        char script[SBX_FIXTURE_PATH_SIZE + 64];
        const char *at = strchr(ends[i].script, '@');
        (void)snprintf(script, sizeof(script), "%s", ends[i].script);
        if (at != NULL) {
            (void)sbx_fixture_helper(helper, "measure_grow");
            (void)snprintf(script, sizeof(script), "exec %s / 200", helper);
        }
        (void)snprintf(keys, sizeof(keys), "'cwd': '%s'%s%s", sbx_fixture_dir(),
                       ends[i].keys != NULL ? ", " : "",
                       ends[i].keys != NULL ? ends[i].keys : "");
        ask_script(&service, ends[i].id, keys, script);
    }
    for (size_t i = 0; i < END_COUNT; i++) {
        struct replay replay = {0};
        const struct answer *end = ask_settled(&service, ends[i].id, 50);
        const char *value =
            json_string_value(ask_item(ask_item(end->json, "report"), ends[i].item));
        replay_all(&service, &replay, ends[i].id, 10);
        bool breach = strncmp(ends[i].item, "breach", 6) == 0;
        if ((strcmp(ask_string(end, "status"), ends[i].status) != 0 || value == NULL ||
             strcmp(value, ends[i].value) != 0 || replay.breaches != (breach ? 1 : 0) ||
             strcmp(replay.status, ends[i].status) != 0) &&
            length + 512 < sizeof(complaints)) {
            length +=
                (size_t)snprintf(complaints + length, 512, "\n%s (%zu breaches): %.400s",
                                 ends[i].id, replay.breaches, end->body);
        }
        replay_done(&replay);
    }
    ck_assert_msg(length == 0, "not as promised:%s", complaints);
    ask_wait_output(&service, "linger", "late");
    service_wait_alone(&service, 20);
    service_done(&service);
}
END_TEST

START_TEST(what_cannot_be_launched_has_failed)
{
    static const struct {
        const char *request;
        const char *stage;
    } rows[] = {
        {"{'id': 'none', 'command': '/does/not/exist'}", "exec"},
        {"{'id': 'data', 'command': '/etc/passwd'}", "exec"},
        {"{'id': 'where', 'command': 'true', 'cwd': '/does/not/exist'}", "launch"},
        {"{'id': 'arm', 'command': 'true', 'require': ['kernel-limits'],"
         " 'backend': 'proc', 'limits': {'memory': '1G'}}",
         NULL},
    };
    struct service service = {0};
    service_start(&service);
    for (size_t i = 0; i < 4; i++) {
        const struct answer *answer =
            ask_post(&service, "/v1/executions", "%s", rows[i].request);
        if (rows[i].stage == NULL && answer->status == 400) {
            continue; /* it may be seen before anything is started */
        }
        answer = ask_ends(&service, ask_string(ask_expect(answer, 201), "id"), "failed");
        ck_assert_str_eq(ask_string(answer, "report.outcome"), "launch-failed");
        ck_assert(rows[i].stage == NULL ||
                  strcmp(ask_string(answer, "report.error.stage"), rows[i].stage) == 0);
        answer = ask_expect(
            ask(&service, "GET", "/v1/executions/%s/events", ask_string(answer, "id")),
            200);
        ck_assert_str_eq(ask_string(answer, "events.0.type"), "finished");
    }
    service_done(&service);
}
END_TEST

/* --- how the command starts
 * ---------------------------------------------------------------------- */

static void expect_output(const struct service *service, const char *id,
                          const char *expected)
{
    size_t length;
    SBX_AUTO_FREE char *text = ask_output(service, id, "stdout", &length, NULL);
    ck_assert_msg(strcmp(text, expected) == 0, "%s has written '%s'", id, text);
}

START_TEST(the_command_starts_as_asked)
{
    struct service service = {0};
    char expected[SBX_FIXTURE_PATH_SIZE + 8];
    service_start(&service);
    ask_start(
        &service, 201,
        "{'id': 'launcher', 'launcher': ['env', 'WHO=launched', 'sh', '-c', "
        "'\\'$@\\'; echo after', 'sh'], 'command': 'sh', 'args': ['-c', 'echo $WHO']}");
    expect_output(&service, "launcher", "launched\nafter\n");
    ask_script(&service, "ceilings", "'ceilings': {'nofile': 64, 'core': '0:0'}",
               "ulimit -n; ulimit -c");
    expect_output(&service, "ceilings", "64\n0\n");
    char keys[SBX_FIXTURE_PATH_SIZE + 16];
    (void)snprintf(keys, sizeof(keys), "'cwd': '%s'", sbx_fixture_dir());
    ask_script(&service, "cwd", keys, "pwd");
    (void)snprintf(expected, sizeof(expected), "%s\n", sbx_fixture_dir());
    expect_output(&service, "cwd", expected);
    ask_script(&service, "umask", "'umask': '027'", "umask");
    expect_output(&service, "umask", "0027\n");
    /* No descriptor of ours. */
    ask_script(&service, "fds", NULL, "ls /proc/self/fd | wc -l");
    expect_output(&service, "fds", "4\n");
    service_done(&service);
}
END_TEST

#define SECRET "tr0ub4dor-and-3"

static int look_for_secret(const char *path, const struct stat *status, int type,
                           struct FTW *walk)
{
    (void)walk;
    if (type == FTW_F && status->st_size > 0) {
        SBX_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        SBX_AUTO_FREE char *text = malloc((size_t)status->st_size);
        ssize_t length = fd >= 0 ? read(fd, text, (size_t)status->st_size) : 0;
        ck_assert_msg(length <= 0 ||
                          memmem(text, (size_t)length, SECRET, strlen(SECRET)) == NULL,
                      "%s has the value of a variable", path);
    }
    return 0;
}

START_TEST(no_value_of_the_environment_is_on_the_disk_or_in_an_argument)
{
    pid_t pids[16];
    struct service service = {0};
    service_start(&service);
    ask_script(&service, "a", "'env': {'TOKEN': '" SECRET "'}, 'stdin': 'open'",
               "echo ${#TOKEN}; cat");
    ask_wait_output(&service, "a", "15\n");
    ck_assert_int_eq(nftw(service.state, look_for_secret, 8, FTW_PHYS), 0);
    size_t count = service_processes(&service, "a", pids, 16);
    ck_assert_uint_ge(count, 3);
    for (size_t i = 0; i < count; i++) {
        char path[64];
        char words[4096];
        (void)snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pids[i]);
        SBX_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t length = fd >= 0 ? read(fd, words, sizeof(words)) : 0;
        ck_assert(length <= 0 ||
                  memmem(words, (size_t)length, SECRET, strlen(SECRET)) == NULL);
    }
    ask_expect(ask_bytes(&service, "POST", "/v1/executions/a/stdin?close=1", NULL, 0),
               204);
    (void)ask_ends(&service, "a", "completed");
    ck_assert_int_eq(nftw(service.state, look_for_secret, 8, FTW_PHYS), 0);
    service_done(&service);
}
END_TEST

/* Whether a sandbox can be made here, and else says so. */
static bool can_confine(void)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        (void)dup2(null, 0);
        (void)dup2(null, 2);
        (void)execl(SBX_TEST_RUN, SBX_TEST_RUN, "--", "true", (char *)NULL);
        _exit(125);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    if (status != 0) {
        (void)fprintf(stderr, "SKIP: no sandbox can be made here\n");
    }
    return status == 0;
}

START_TEST(a_sandbox_confines)
{
    struct service service = {0};
    char keys[2 * SBX_FIXTURE_PATH_SIZE];
    if (!can_confine()) {
        return;
    }
    service_start(&service);
    (void)snprintf(keys, sizeof(keys),
                   "'sandbox': {'network': 'none', 'proc': true, 'bind': ['%s']}, "
                   "'cwd': '%s', 'env': {'TOKEN': '" SECRET "'}",
                   sbx_fixture_dir(), sbx_fixture_dir());
    ask_script(&service, "a", keys,
               "pwd >here; grep -c : /proc/net/dev; ls /proc | grep -c '^[0-9]'; "
               "echo $TOKEN; ls -A /root /home 2>/dev/null | wc -l");
    size_t length;
    SBX_AUTO_FREE char *text = ask_output(&service, "a", "stdout", &length, NULL);
    const struct answer *end = ask_ends(&service, "a", "completed");
    int interfaces;
    int processes;
    char token[32];
    ck_assert_msg(sscanf(text, "%d\n%d\n%31s", &interfaces, &processes, token) == 3, "%s",
                  text);
    ck_assert_msg(interfaces == 1 && processes < 10, "%s", text);
    ck_assert_str_eq(token, SECRET);
    ck_assert_str_ne(ask_string(end, "report.termination.proof"), "none");
    char path[SBX_FIXTURE_PATH_SIZE];
    sbx_fixture_wait_file(sbx_fixture_path(path, "here"), 5);
    /* A cancel reaches what is inside. */
    ask_start(&service, 201,
              "{'id': 'b', 'sandbox': {}, 'command': 'sh', 'args': ['-c', "
              "'echo up; setsid sleep 300 & exec sleep 300']}");
    ask_wait_output(&service, "b", "up");
    end = ask_expect(ask(&service, "POST", "/v1/executions/b/cancel?wait=20"), 200);
    ck_assert_str_eq(ask_string(end, "status"), "cancelled");
    service_wait_alone(&service, 10);
    service_done(&service);
}
END_TEST

START_TEST(the_operator_can_force_a_sandbox)
{
    struct service service = {.options = "--force-sandbox"};
    size_t length;
    if (!can_confine()) {
        return;
    }
    service_start(&service);
    ask_script(&service, "a", NULL,
               "touch /usr/sbx-was-here; echo $?; ls -A /tmp | wc -l");
    SBX_AUTO_FREE char *text = ask_output(&service, "a", "stdout", &length, NULL);
    ck_assert_str_eq(text, "1\n0\n");
    ck_assert_int_lt(access("/usr/sbx-was-here", F_OK), 0);
    (void)ask_ends(&service, "a", "completed");
    /* Another wrapper is no way around it. */
    ask_script(&service, "b", "'launcher': ['env', 'A=b']",
               "touch /usr/sbx-was-here; echo $? $A");
    SBX_AUTO_FREE char *other = ask_output(&service, "b", "stdout", &length, NULL);
    ck_assert_str_eq(other, "1 b\n");
    ck_assert_int_lt(access("/usr/sbx-was-here", F_OK), 0);
    service_done(&service);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("executions_ends");
    TCase *orders = sbx_fixture_case(suite, "orders", SECONDS);
    tcase_add_test(orders, a_signal_arrives);
    tcase_add_test(orders, a_paused_execution_does_nothing_until_it_is_resumed);
    tcase_add_test(orders, a_cancel_is_graceful_and_leaves_nobody);
    tcase_add_test(orders, what_ignores_the_signal_is_killed);
    tcase_add_loop_test(orders, a_command_that_stops_its_supervisors_gets_nowhere, 0,
                        (int)(sizeof stops / sizeof stops[0]));
    tcase_add_test(orders, the_first_reason_wins);
    tcase_add_test(orders, a_cancel_of_what_has_just_started);
    TCase *all = sbx_fixture_case(suite, "ends", SECONDS);
    tcase_add_test(all, each_end_has_its_status);
    tcase_add_test(all, what_cannot_be_launched_has_failed);
    TCase *starts = sbx_fixture_case(suite, "starts", SECONDS);
    tcase_add_test(starts, the_command_starts_as_asked);
    tcase_add_test(starts, no_value_of_the_environment_is_on_the_disk_or_in_an_argument);
    tcase_add_test(starts, a_sandbox_confines);
    tcase_add_test(starts, the_operator_can_force_a_sandbox);
    return sbx_fixture_run(suite);
}
