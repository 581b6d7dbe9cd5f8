/*
 * test_run_fork.c - a run whose guard is forked (monitor/handle.h): what of the caller's
 * its processes hold and for how long, the notices that it gives, and whom its guard is
 * left to.
 *
 * Kills guard and monitor as children of the test process, or of such a child.
 */
#include "tests/fork_kit.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define CASE_SECONDS 120
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* --- a run, and its guard ------------------------------------------------------------
 */

START_TEST(a_run_has_the_streams_and_a_result)
{
    struct fork_run fork;
    fork_start(&fork, "wall=60",
               "read -r line; echo \"got $line\"; echo bad >&2; exit 7");
    ck_assert_int_eq((int)write(fork.in, "in\n", 3), 3);
    ck_assert_str_eq(fork_read_all(fork.out), "got in\n");
    ck_assert_str_eq(fork_read_all(fork.err), "bad\n");
    const struct sbx_result *result = fork_finish(&fork, "exited");
    ck_assert_int_eq(result->exit_code, 7);
    ck_assert_ptr_nonnull(result->report);
    ck_assert(library_is_proved(result->report));
    sbx_fixture_collect(result->report);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1); /* the guard was reaped */
    ck_assert_int_eq(errno, ECHILD);
    fork_done(&fork);
}
END_TEST

START_TEST(whoever_reaps_everything_may_reap_the_guard)
{
    struct fork_run fork;
    fork_start(&fork, "wall=60", "exit 3");
    library_expect_no_child(60);
    ck_assert_int_eq(fork_finish(&fork, "exited")->exit_code, 3);
    fork_done(&fork);
}
END_TEST

START_TEST(orders_go_the_same_way)
{
    struct fork_run fork;
    fork_start(&fork, "wall=60",
               "trap 'echo usr1; exec sleep 60' USR1; echo up; while :; do sleep 0.02; "
               "done");
    char line[8];
    ck_assert_int_eq((int)read(fork.out, line, 3), 3);
    ck_assert_int_eq(sbx_run_signal(fork.run, SIGUSR1), 0);
    ck_assert_int_eq((int)read(fork.out, line, 5), 5);
    ck_assert_int_eq(sbx_run_cancel(fork.run), 0);
    (void)fork_finish(&fork, "cancelled");
    ck_assert_int_eq(sbx_run_cancel(fork.run), -ESRCH);
    fork_done(&fork);
}
END_TEST

static void expect_refused(const struct sbx_spec *spec,
                           const struct sbx_run_family *family, int code)
{
    struct sbx_error error = {0};
    struct sbx_run *run = NULL;
    size_t fds = library_count_fds();
    ck_assert_int_eq(sbx_run_fork(spec, family, &run, &error), -code);
    ck_assert_int_eq(error.code, code);
    ck_assert_ptr_null(run);
    ck_assert_uint_eq(library_count_fds(), fds);
    ck_assert(library_has_no_child());
}

START_TEST(what_is_not_open_is_refused)
{
    const char *const command[] = {"true", NULL};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int gone = fcntl(null, F_DUPFD_CLOEXEC, 50);
    char option[64];
    (void)snprintf(option, sizeof option, "wall=60 keep-fd=%d", gone);
    struct sbx_spec *spec = library_spec(option, command);
    struct sbx_spec *plain = library_spec("wall=60", command);
    struct sbx_run_family family = {.stdio = {null, null, null}, .shared_fd = -1};
    (void)close(gone);
    expect_refused(spec, &family, EBADF);
    family.shared_fd = gone;
    expect_refused(plain, &family, EBADF);
    family.shared_fd = -1;
    family.stdio[2] = gone;
    expect_refused(plain, &family, EBADF);
    sbx_spec_free(spec);
    sbx_spec_free(plain);
    (void)close(null);
}
END_TEST

/* --- standard streams ----------------------------------------------------------------
 */

static const char *const ways[] = {"wall=60", "wall=60 pid-namespace"};

static const char let_go[] = "echo up; exec <&- >&- 2>&-; exec sleep 60";

/* False: the way cannot be gone here, which was said; the run is done with. */
static bool has_begun(struct fork_run *fork, const char *way)
{
    if (fork_step(fork, 1) && fork_is_refused(sbx_run_result(fork->run), way)) {
        fork_done(fork);
        return false;
    }
    return true;
}

static void expect_no_reader(int fd)
{
    struct pollfd entry = {.fd = fd};
    ck_assert_int_eq(poll(&entry, 1, 30000), 1);
    (void)signal(SIGPIPE, SIG_IGN);
    ck_assert_int_eq((int)write(fd, "x", 1), -1);
    ck_assert_int_eq(errno, EPIPE);
}

START_TEST(streams_are_the_commands_alone)
{
    struct fork_run fork;
    fork_start(&fork, ways[_i], let_go);
    if (!has_begun(&fork, ways[_i])) {
        return;
    }
    ck_assert_str_eq(fork_read_all(fork.out), "up\n");
    ck_assert_str_eq(fork_read_all(fork.err), "");
    expect_no_reader(fork.in);
    ck_assert_int_eq(sbx_run_next(fork.run, NULL), SBX_RUN_NOTHING);
    ck_assert_int_eq(sbx_run_cancel(fork.run), 0);
    (void)fork_finish(&fork, "cancelled");
    fork_done(&fork);
}
END_TEST

START_TEST(captured_output_comes_to_its_end)
{
    struct fork_run fork;
    fork_start(&fork, "wall=60 output=1M", "echo one; echo two >&2");
    ck_assert_str_eq(fork_read_all(fork.out), "one\n");
    ck_assert_str_eq(fork_read_all(fork.err), "two\n");
    (void)fork_finish(&fork, "exited");
    fork_done(&fork);
}
END_TEST

/* --- the lock ------------------------------------------------------------------------
 */

/* With every kind of process that a run may have. */
START_TEST(only_guard_and_monitor_hold_the_lock)
{
    struct fork_run fork;
    char options[SBX_FIXTURE_PATH_SIZE * 2];
    char path[SBX_FIXTURE_PATH_SIZE];
    (void)snprintf(options, sizeof options, "%s output=1M log=file:%s", ways[_i],
                   sbx_fixture_path(path, "log"));
    fork_start(&fork, options, "exec sleep 60");
    if (!has_begun(&fork, ways[_i])) {
        return;
    }
    (void)fork_await_process("sleep");
    (void)fork_await_process("sbx-reader");
    ck_assert(fork_is_locked(&fork));
    fork_await_holders(fork.lock, "sbx-guard sbx-monitor");
    /* The end of the socket says the same. */
    ck_assert_int_eq(sbx_run_cancel(fork.run), 0);
    (void)fork_finish(&fork, "cancelled");
    fork_await_unlocked(&fork);
    fork_done(&fork);
}
END_TEST

static const struct killed_row {
    const char *first;
    const char *second; /* NULL: it lives, and ends the run */
    const char *outcome;
    const char *reason;
} killed_rows[] = {
    {"sbx-guard", NULL, "breach", "guard-lost"},
    {"sbx-monitor", NULL, "lost", NULL},
    {"sbx-guard", "sbx-monitor", "lost", NULL},
};

/* The guard stopped first, so that it does not act on the monitor's end. */
static void kill_them(const struct killed_row *row)
{
    pid_t first = fork_await_process(row->first);
    pid_t second = row->second != NULL ? fork_await_process(row->second) : 0;
    if (second != 0) {
        ck_assert_int_eq(kill(first, SIGSTOP), 0);
        ck_assert_int_eq(kill(second, SIGKILL), 0);
    }
    ck_assert_int_eq(kill(first, SIGKILL), 0);
}

static void expect_reason(const struct sbx_result *result, const char *reason)
{
    ck_assert((result->reason == NULL) == (reason == NULL));
    ck_assert(reason == NULL || strcmp(result->reason, reason) == 0);
}

START_TEST(the_lock_is_free_when_both_are_gone)
{
    const struct killed_row *row = &killed_rows[_i];
    struct fork_run fork;
    fork_start(&fork, "wall=60 grace=50ms",
               "trap '' TERM; echo up; while :; do sleep 1; done");
    (void)fork_step(&fork, 1);
    char line[8];
    ck_assert_int_eq((int)read(fork.out, line, 3), 3);
    ck_assert(fork_is_locked(&fork));
    kill_them(row);
    const struct sbx_result *result = fork_finish(&fork, row->outcome);
    expect_reason(result, row->reason);
    fork_await_unlocked(&fork);
    /* What is left when both are killed is ours; else nothing is. */
    if (row->second == NULL) {
        ck_assert(library_is_proved(result->report));
        library_expect_no_child(60);
    } else {
        ck_assert_ptr_null(result->report);
        ck_assert_int_ne(fork_find("sh"), 0);
        fork_end_children();
    }
    fork_done(&fork);
}
END_TEST

/* A caller that is killed, while the test looks at what its run does. */
static int be_caller(void *context)
{
    struct fork_run fork;
    fork_start(&fork, context, "echo up; exec sleep 60");
    (void)fork_step(&fork, 1);
    char line[8];
    LIBRARY_WANT(read(fork.out, line, 3) == 3, "it has not started");
    LIBRARY_WANT(kill(getpid(), SIGKILL) == 0, "kill");
    return 0;
}

START_TEST(the_end_of_the_caller_ends_the_run)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char options[SBX_FIXTURE_PATH_SIZE * 2];
    char text[16384];
    struct fork_run lock = {.run = NULL, .in = -1, .out = -1, .err = -1};
    (void)snprintf(options, sizeof options, "wall=60 report=%s",
                   sbx_fixture_path(path, "report"));
    pid_t caller = library_fork(be_caller, options);
    int status = 0;
    ck_assert_int_eq(waitpid(caller, &status, 0), caller);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    lock.lock = open(sbx_fixture_path(lock.lock_path, "lock"), O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(lock.lock, 0);
    fork_await_unlocked(&lock);
    /* The report was there before that. */
    ck_assert_int_gt((int)sbx_fd_read_text_at(AT_FDCWD, path, text, sizeof text), 0);
    ck_assert_ptr_nonnull(strstr(text, "\"reason\":\"caller-lost\""));
    sbx_fixture_collect(text);
    library_expect_no_child(60);
    fork_done(&lock);
}
END_TEST

/* --- notices -------------------------------------------------------------------------
 */

static const char more_and_more[] =
    "for i in 1 2 3 4 5; do sleep 60 & done; read -r line; "
    "for i in 1 2 3 4 5 6 7 8; do sleep 60 & done; wait";

static void expect_in_report(const struct sbx_result *result, const char *before,
                             const char *text)
{
    char both[SBX_NOTICE_TEXT_SIZE + 32];
    (void)snprintf(both, sizeof both, "%s%s", before, text);
    ck_assert_msg(strstr(result->report, both) != NULL, "%s: %s", both, result->report);
}

static void expect_start(const struct sbx_notice *notice, uint64_t after_us)
{
    ck_assert_int_eq(notice->kind, SBX_NOTICE_STARTED);
    ck_assert_uint_ge(notice->at_real_us, after_us);
    ck_assert_uint_le(notice->at_real_us, sbx_clock_real_us());
    ck_assert_int_gt(notice->leader_pid, 0);
}

START_TEST(notices_come_in_order_while_it_happens)
{
    struct fork_run fork;
    uint64_t before = sbx_clock_real_us();
    fork_start(&fork, "wall=60 processes=10 warn=50 interval=20ms", more_and_more);
    ck_assert(!fork_step(&fork, 2));
    const struct sbx_notice *told = fork.notices;
    expect_start(&told[0], before);
    ck_assert_int_eq(told[1].kind, SBX_NOTICE_WARNING);
    ck_assert_ptr_nonnull(strstr(told[1].text, "processes is near its limit"));
    ck_assert_int_eq((int)write(fork.in, "\n", 1), 1);
    const struct sbx_result *result = fork_finish(&fork, "breach");
    ck_assert_uint_eq(fork.notice_count, 3);
    ck_assert_int_eq(told[2].kind, SBX_NOTICE_BREACH);
    ck_assert_uint_ge(told[2].at_real_us, told[0].at_real_us);
    expect_in_report(result, "\"breach\":", told[2].text);
    expect_in_report(result, "\"warnings\":[\"", told[1].text);
    uint64_t leader = 0;
    ck_assert_int_eq(sbx_run_report_number(fork.run, "leader_pid", &leader), 0);
    ck_assert_int_eq(told[0].leader_pid, (pid_t)leader);
    fork_done(&fork);
}
END_TEST

/* The second to tell them begins where the first has stopped. */
START_TEST(a_guard_that_is_killed_takes_no_notice_with_it)
{
    struct fork_run fork;
    fork_start(&fork, "wall=60", "exec sleep 60");
    ck_assert(!fork_step(&fork, 1));
    ck_assert_int_eq(kill(fork_await_process("sbx-guard"), SIGKILL), 0);
    const struct sbx_result *result = fork_finish(&fork, "breach");
    ck_assert_uint_eq(fork.notice_count, 2);
    ck_assert_int_eq(fork.notices[0].kind, SBX_NOTICE_STARTED);
    ck_assert_int_eq(fork.notices[1].kind, SBX_NOTICE_BREACH);
    expect_in_report(result, "\"breach\":", fork.notices[1].text);
    library_expect_no_child(60);
    fork_done(&fork);
}
END_TEST

START_TEST(what_has_not_started_is_not_told)
{
    struct fork_run fork;
    fork_start(&fork, "wall=60", "exit 0");
    fork_done(&fork); /* of any run: freed at once */
    library_expect_no_child(60);
    const char *const command[] = {"/nonexistent/command", NULL};
    struct sbx_spec *spec = library_spec("wall=60", command);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const struct sbx_run_family family = {.stdio = {null, null, null}, .shared_fd = -1};
    struct fork_run failed = {.in = null, .out = -1, .err = -1, .lock = -1};
    ck_assert_int_eq(sbx_run_fork(spec, &family, &failed.run, NULL), 0);
    sbx_spec_free(spec);
    ck_assert_int_eq(fork_finish(&failed, "launch-failed")->status, SBX_STATUS_NOT_FOUND);
    ck_assert_uint_eq(failed.notice_count, 0);
    fork_done(&failed);
}
END_TEST

START_TEST(other_runs_give_no_notices)
{
    struct sbx_notice notice;
    struct sbx_run *run = library_start(library_script("wall=50ms", "exec sleep 60"));
    ck_assert_int_eq(sbx_run_wait(run, LIBRARY_LONG_US), 0);
    ck_assert_str_eq(sbx_run_result(run)->outcome, "breach");
    ck_assert_int_eq(sbx_run_notice(run, &notice), 0);
    sbx_run_free(run);
}
END_TEST

int main(void)
{
    library_use_built_monitor(SBX_TEST_MONITOR);
    Suite *suite = suite_create("run_fork");
    TCase *plain = sbx_fixture_case(suite, "plain", CASE_SECONDS);
    tcase_add_test(plain, a_run_has_the_streams_and_a_result);
    tcase_add_test(plain, whoever_reaps_everything_may_reap_the_guard);
    tcase_add_test(plain, orders_go_the_same_way);
    tcase_add_test(plain, what_is_not_open_is_refused);
    TCase *held = sbx_fixture_case(suite, "held", CASE_SECONDS);
    tcase_add_loop_test(held, streams_are_the_commands_alone, 0, (int)LENGTH(ways));
    tcase_add_test(held, captured_output_comes_to_its_end);
    tcase_add_loop_test(held, only_guard_and_monitor_hold_the_lock, 0, (int)LENGTH(ways));
    tcase_add_loop_test(held, the_lock_is_free_when_both_are_gone, 0,
                        (int)LENGTH(killed_rows));
    tcase_add_test(held, the_end_of_the_caller_ends_the_run);
    TCase *notices = sbx_fixture_case(suite, "notices", CASE_SECONDS);
    tcase_add_test(notices, notices_come_in_order_while_it_happens);
    tcase_add_test(notices, a_guard_that_is_killed_takes_no_notice_with_it);
    tcase_add_test(notices, what_has_not_started_is_not_told);
    tcase_add_test(notices, other_runs_give_no_notices);
    return sbx_fixture_run(suite);
}
