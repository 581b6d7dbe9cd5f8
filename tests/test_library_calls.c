/*
 * test_library_calls.c - what the calls of a run give: results, progress, orders, values
 * of the report, and errors that say what was wrong.
 *
 * The test process is a subreaper, so that what is left of a run would be its child. What
 * a run does to its caller is in test_library.c.
 */
#include "tests/library_kit.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define CASE_SECONDS 120
#define QUICK_US 20000000 /* well below every grace and lifetime in here */

static const struct sbx_result *finish(struct sbx_run *run)
{
    ck_assert_int_eq(sbx_run_wait(run, LIBRARY_LONG_US), 0);
    const struct sbx_result *result = sbx_run_result(run);
    ck_assert_ptr_nonnull(result);
    ck_assert_ptr_nonnull(result->outcome);
    return result;
}

static void expect(const struct sbx_result *result, const char *outcome, int status)
{
    ck_assert_msg(strcmp(result->outcome, outcome) == 0 && result->status == status,
                  "%s, status %d: %s%s", result->outcome, result->status,
                  result->error.message, result->report != NULL ? result->report : "");
}

/* --- results ---------------------------------------------------------------------------
 */

START_TEST(a_result_says_how_it_ended)
{
    struct sbx_run *run = library_start(library_script("wall=60", "exit 7"));
    ck_assert_ptr_null(sbx_run_result(run));
    const struct sbx_result *result = finish(run);
    expect(result, "exited", 7);
    ck_assert_int_eq(result->exit_code, 7);
    ck_assert_int_eq(result->signal, 0);
    ck_assert_ptr_null(result->reason);
    ck_assert_int_eq(result->error.code, 0);
    ck_assert_uint_eq(result->report_length, strlen(result->report));
    ck_assert_int_eq(sbx_run_next(run, NULL), SBX_RUN_FINISHED);
    ck_assert_int_eq(sbx_run_wait(run, 0), 0);
    ck_assert_int_eq(sbx_run_cancel(run), -ESRCH);
    ck_assert_int_eq(sbx_run_signal(run, SIGUSR1), -ESRCH);
    sbx_run_free(run);
}
END_TEST

START_TEST(a_breach_has_its_reason)
{
    struct sbx_run *run = library_start(library_script("wall=200ms", "exec sleep 60"));
    const struct sbx_result *result = finish(run);
    expect(result, "breach", SBX_STATUS_BREACH);
    ck_assert_str_eq(result->reason, "wall");
    ck_assert_int_eq(result->exit_code, -1);
    ck_assert_int_eq(result->signal, SIGTERM);
    sbx_run_free(run);
}
END_TEST

static const struct failure_row {
    const char *command;
    int status;
    int code;
    enum sbx_stage stage;
} failures[] = {
    {"/nonexistent/command", SBX_STATUS_NOT_FOUND, ENOENT, SBX_STAGE_EXEC},
    {"/dev/null", SBX_STATUS_NOT_EXECUTABLE, EACCES, SBX_STAGE_EXEC},
};

START_TEST(a_launch_that_fails_is_a_result)
{
    const struct failure_row *row = &failures[_i];
    const char *const command[] = {row->command, NULL};
    struct sbx_run *run = library_start(library_spec("wall=60", command));
    const struct sbx_result *result = finish(run);
    expect(result, "launch-failed", row->status);
    ck_assert_int_eq(result->error.code, row->code);
    ck_assert_int_eq(result->error.stage, row->stage);
    ck_assert_ptr_nonnull(strstr(result->error.message, row->command));
    ck_assert_ptr_nonnull(result->report);
    sbx_run_free(run);
}
END_TEST

START_TEST(values_of_the_report_are_found_by_path)
{
    uint64_t number = 4711;
    const char *text = NULL;
    const char *const command[] = {"sh", "-c", "exit 3", "a\"b\\c", NULL};
    struct sbx_run *run = library_start(library_spec("wall=60", command));
    ck_assert_int_eq(sbx_run_report_number(run, "exit_code", &number), -ENOENT);
    (void)finish(run);
    ck_assert_int_eq(sbx_run_report_number(run, "exit_code", &number), 0);
    ck_assert_uint_eq(number, 3);
    ck_assert_int_eq(sbx_run_report_number(run, "limits.wall_us", &number), 0);
    ck_assert_uint_eq(number, 60000000);
    ck_assert_int_eq(sbx_run_report_string(run, "termination.proof", &text), 0);
    ck_assert(strcmp(text, "no-children") == 0 || strcmp(text, "group-empty") == 0);
    ck_assert_int_eq(sbx_run_report_string(run, "command.3", &text), 0);
    ck_assert_str_eq(text, "a\"b\\x5Cc"); /* as every backslash in a report */
    ck_assert_int_eq(sbx_run_report_number(run, "outcome", &number), -EINVAL);
    ck_assert_int_eq(sbx_run_report_string(run, "exit_code", &text), -EINVAL);
    ck_assert_int_eq(sbx_run_report_number(run, "usage", &number), -ENOENT);
    ck_assert_int_eq(sbx_run_report_number(run, "breach.limit", &number), -ENOENT);
    ck_assert_int_eq(sbx_run_report_string(run, "", &text), -ENOENT);
    sbx_run_free(run);
}
END_TEST

/* --- what the command gets -------------------------------------------------------------
 */

START_TEST(a_command_has_the_callers_surroundings)
{
    char script[2048];
    struct sbx_run *run;
    ck_assert_int_eq(setenv("SBX_LIBRARY_TEST", "at the start", 1), 0);
    ck_assert_int_eq(chdir(sbx_fixture_dir()), 0);
    (void)umask(027);
    (void)snprintf(script, sizeof script,
                   "test \"$SBX_LIBRARY_TEST\" = 'at the start' || exit 11\n"
                   "test \"$(pwd -P)\" = \"$(cd '%s' && pwd -P)\" || exit 12\n"
                   "test \"$(umask)\" = 0027 || exit 13\n",
                   sbx_fixture_dir());
    run = library_start(library_script("wall=60", script));
    ck_assert_int_eq(setenv("SBX_LIBRARY_TEST", "later", 1), 0);
    ck_assert_int_eq(chdir("/"), 0);
    expect(finish(run), "exited", 0);
    sbx_run_free(run);
}
END_TEST

/* The path means the directory of the time when it was set, the command that of its
 * start. */
START_TEST(a_relative_report_lies_where_it_was_asked_for)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char text[8192];
    ck_assert_int_eq(chdir(sbx_fixture_dir()), 0);
    struct sbx_spec *spec =
        library_script("wall=60 report=report.json log=file:log.txt log-level=info "
                       "stdout=out.txt",
                       "pwd; test \"$(pwd)\" = /");
    ck_assert_int_eq(chdir("/"), 0);
    struct sbx_run *run = library_start(spec);
    const struct sbx_result *result = finish(run);
    expect(result, "exited", 0);
    ck_assert_int_gt(sbx_fd_read_text_at(AT_FDCWD, sbx_fixture_path(path, "report.json"),
                                         text, sizeof text),
                     0);
    ck_assert_str_eq(text, result->report);
    ck_assert_int_gt(sbx_fd_read_text_at(AT_FDCWD, sbx_fixture_path(path, "log.txt"),
                                         text, sizeof text),
                     0);
    ck_assert_int_gt(sbx_fd_read_text_at(AT_FDCWD, sbx_fixture_path(path, "out.txt"),
                                         text, sizeof text),
                     0);
    ck_assert_str_eq(text, "/\n");
    sbx_run_free(run);
}
END_TEST

/* In another form, to a descriptor; what the caller gets is JSON all the same. */
START_TEST(a_report_goes_to_a_descriptor_too)
{
    char options[128];
    char text[8192];
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0); /* NOLINT(android-cloexec-pipe): to be inherited */
    (void)snprintf(options, sizeof options, "wall=60 format=kv report-fd=%d", ends[1]);
    struct sbx_run *run = library_start(library_script(options, "exit 3"));
    (void)close(ends[1]);
    const struct sbx_result *result = finish(run);
    expect(result, "exited", 3);
    ck_assert_int_eq(result->report[0], '{');
    ssize_t length = read(ends[0], text, sizeof text - 1);
    ck_assert_int_gt(length, 0);
    text[length] = '\0';
    ck_assert_msg(strstr(text, "\nexit_code=3\n") != NULL, "%s", text);
    ck_assert_int_eq(read(ends[0], text, sizeof text), 0);
    (void)close(ends[0]);
    sbx_run_free(run);
}
END_TEST

/* Whatever becomes of the file, and of the directory that its path started at. */
START_TEST(files_and_directories_of_options_are_those_of_the_time_they_were_set)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char script[1024];
    ck_assert_int_eq(chdir(sbx_fixture_dir()), 0);
    ck_assert_int_eq(mkdir("sub", 0755), 0);
    FILE *file = fopen("variables", "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_gt(fprintf(file, "FROM_FILE=a b\nBOTH=file\n"), 0);
    ck_assert_int_eq(fclose(file), 0);
    (void)snprintf(script, sizeof script,
                   "test \"$FROM_FILE\" = 'a b' || exit 11; test \"$BOTH\" = option || "
                   "exit 12; test \"$(pwd -P)\" = \"$(cd '%s' && pwd -P)\" || exit 13",
                   sbx_fixture_path(path, "sub"));
    struct sbx_spec *spec =
        library_script("wall=60 env=BOTH=option env-from=variables chdir=sub", script);
    ck_assert_int_eq(unlink("variables"), 0);
    ck_assert_int_eq(chdir("/"), 0);
    struct sbx_run *run = library_start(spec);
    expect(finish(run), "exited", 0);
    sbx_run_free(run);
}
END_TEST

START_TEST(a_large_command_line_arrives)
{
    enum { ARGUMENTS = 8, LENGTH = 128 * 1024 - 1 };
    static char argument[LENGTH + 1];
    const char *command[ARGUMENTS + 5] = {
        "sh", "-c", "test $# = 8 && test ${#8} = 131071 || exit 9", "sh"};
    memset(argument, 'x', LENGTH);
    for (int i = 0; i < ARGUMENTS; i++) {
        command[4 + i] = argument;
    }
    struct sbx_run *run = library_start(library_spec("wall=60", command));
    expect(finish(run), "exited", 0);
    sbx_run_free(run);
}
END_TEST

/* --- progress and patience -------------------------------------------------------------
 */

static struct sbx_run *start_with_progress(const char *options, const char *script,
                                           uint64_t interval_us)
{
    struct sbx_error error = {0};
    struct sbx_spec *spec = library_script(options, script);
    ck_assert_int_eq(sbx_spec_set_progress(spec, interval_us, &error), 0);
    return library_start(spec);
}

START_TEST(progress_comes_when_it_is_wanted)
{
    struct sbx_progress progress = {0};
    uint64_t elapsed_us = 0;
    uint64_t most = 0;
    int samples = 0;
    enum sbx_run_event event;
    struct sbx_run *run = start_with_progress(
        "wall=60 interval=20ms", "sleep 0.4 & sleep 0.5 & wait; wait", 10000);
    while ((event = sbx_run_next(run, &progress)) != SBX_RUN_FINISHED) {
        if (event == SBX_RUN_PROGRESS) {
            samples++;
            ck_assert_uint_gt(progress.elapsed_us, elapsed_us);
            elapsed_us = progress.elapsed_us;
            most = progress.processes > most ? progress.processes : most;
            ck_assert_uint_ne(progress.threads, 0);
            continue;
        }
        struct pollfd fd = {.fd = sbx_run_fd(run), .events = POLLIN};
        ck_assert_int_eq(poll(&fd, 1, QUICK_US / 1000), 1);
    }
    ck_assert_int_ge(samples, 2);
    ck_assert_uint_eq(most, 3);
    ck_assert_uint_lt(elapsed_us, QUICK_US);
    expect(sbx_run_result(run), "exited", 0);
    sbx_run_free(run);
}
END_TEST

START_TEST(no_progress_comes_unasked)
{
    struct sbx_run *run =
        library_start(library_script("wall=60 interval=10ms", "sleep 0.3"));
    enum sbx_run_event event;
    while ((event = sbx_run_next(run, NULL)) != SBX_RUN_FINISHED) {
        ck_assert_int_eq(event, SBX_RUN_NOTHING);
        struct pollfd fd = {.fd = sbx_run_fd(run), .events = POLLIN};
        ck_assert_int_eq(poll(&fd, 1, QUICK_US / 1000), 1);
    }
    sbx_run_free(run);
}
END_TEST

START_TEST(a_wait_has_its_bound)
{
    struct sbx_run *run = library_start(library_script("wall=60", "exec sleep 60"));
    uint64_t before = sbx_clock_us();
    ck_assert_int_eq(sbx_run_wait(run, 50000), -ETIMEDOUT);
    ck_assert_uint_ge(sbx_clock_us() - before, 50000);
    ck_assert_ptr_null(sbx_run_result(run));
    ck_assert_int_eq(sbx_run_cancel(run), 0);
    expect(finish(run), "cancelled", 128 + SIGTERM);
    sbx_run_free(run);
}
END_TEST

/* Until its processes are gone, nothing is read: not the progress, which would fill the
 * socket many times over, not the result, whose report is as long as reports get. */
START_TEST(a_caller_that_never_reads_holds_up_nobody)
{
    enum { ARGUMENTS = 20, LENGTH = 8000 };
    static char argument[LENGTH + 1];
    const char *command[ARGUMENTS + 4] = {
        "sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"};
    struct sbx_error error = {0};
    memset(argument, '"', LENGTH);
    for (int i = 0; i < ARGUMENTS; i++) {
        command[3 + i] = argument;
    }
    struct sbx_spec *spec = library_spec("wall=60 interval=1ms memory=1T", command);
    ck_assert_int_eq(sbx_spec_set_progress(spec, 1000, &error), 0);
    struct sbx_run *run = library_start(spec);
    struct pollfd fd = {.fd = sbx_run_fd(run)}; /* the hang-up alone */
    ck_assert_int_eq(poll(&fd, 1, QUICK_US / 1000), 1);
    ck_assert_int_ne(fd.revents & POLLHUP, 0);
    int samples = 0;
    while (sbx_run_next(run, NULL) == SBX_RUN_PROGRESS) {
        samples++;
    }
    const struct sbx_result *result = finish(run);
    expect(result, "exited", 0);
    ck_assert_int_gt(samples, 0);
    ck_assert_ptr_nonnull(result->report);
    ck_assert_uint_gt(result->report_length, 100000);
    ck_assert_int_eq(result->report[result->report_length - 1], '\n');
    sbx_run_free(run);
}
END_TEST

/* --- orders
 * ------------------------------------------------------------------------------ */

static struct sbx_run *start_up(const char *options, const char *script)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char whole[SBX_FIXTURE_PATH_SIZE + 256];
    (void)snprintf(whole, sizeof whole, "up='%s'; %s", sbx_fixture_path(path, "up"),
                   script);
    struct sbx_run *run = library_start(library_script(options, whole));
    ck_assert(library_file_comes(path, 30));
    return run;
}

static void *cancel_twice(void *context)
{
    struct sbx_run *run = context;
    const struct timespec pause = {.tv_nsec = 50000000};
    (void)sbx_run_cancel(run);
    (void)nanosleep(&pause, NULL);
    (void)sbx_run_cancel(run);
    return NULL;
}

START_TEST(a_second_cancel_from_another_thread_skips_the_grace)
{
    pthread_t thread;
    struct sbx_run *run = start_up(
        "wall=120 grace=100", "trap '' TERM; echo $$ >$up; while :; do sleep 60; done");
    uint64_t before = sbx_clock_us();
    ck_assert_int_eq(pthread_create(&thread, NULL, cancel_twice, run), 0);
    const struct sbx_result *result = finish(run);
    (void)pthread_join(thread, NULL);
    expect(result, "cancelled", 128 + SIGTERM);
    ck_assert_int_eq(result->signal, SIGKILL);
    ck_assert_uint_lt(sbx_clock_us() - before, QUICK_US);
    sbx_run_free(run);
}
END_TEST

/* A process that the caller forks has a copy of everything, and may clean up. */
START_TEST(a_forked_process_frees_its_copy_alone)
{
    struct sbx_run *run = library_start(library_script("wall=60", "exec sleep 60"));
    pid_t child = fork();
    int status = -1;
    if (child == 0) {
        sbx_run_free(run);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(sbx_run_cancel(run), 0);
    expect(finish(run), "cancelled", 128 + SIGTERM);
    sbx_run_free(run);
}
END_TEST

START_TEST(a_signal_is_passed_to_the_command)
{
    struct sbx_run *run =
        start_up("wall=60", "exec 2>/dev/null; trap 'exit 42' USR1; echo $$ >$up; while "
                            ":; do sleep 0.02; done");
    ck_assert_int_eq(sbx_run_signal(run, 0), -EINVAL);
    ck_assert_int_eq(sbx_run_signal(run, SIGRTMAX + 1), -EINVAL);
    ck_assert_int_eq(sbx_run_signal(run, SIGUSR1), 0);
    expect(finish(run), "exited", 42);
    sbx_run_free(run);
}
END_TEST

/* --- when processes of the run are killed
 * ------------------------------------------------- */

/* The first child of a process as the kernel lists them, with that name. */
static pid_t child_of(pid_t parent, const char *name)
{
    char path[64];
    char list[4096];
    char comm[64];
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent,
                   (int)parent);
    if (sbx_fd_read_text_at(AT_FDCWD, path, list, sizeof list) < 0) {
        return -1;
    }
    for (char *at = list; *at >= '0' && *at <= '9'; at += *at == ' ') {
        pid_t pid = (pid_t)strtol(at, &at, 10);
        (void)snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
        if (sbx_fd_read_text_at(AT_FDCWD, path, comm, sizeof comm) > 0 &&
            strncmp(comm, name, strlen(name)) == 0) {
            return pid;
        }
    }
    return -1;
}

START_TEST(a_killed_guard_is_replaced_by_the_monitor)
{
    struct sbx_run *run =
        start_up("wall=60", "setsid sleep 60 & echo $$ >$up; exec sleep 60");
    pid_t guard = child_of(getpid(), "sbx-guard");
    ck_assert_int_gt(guard, 1);
    ck_assert_int_eq(kill(guard, SIGKILL), 0); /* our own un-reaped child */
    const struct sbx_result *result = finish(run);
    expect(result, "breach", SBX_STATUS_BREACH);
    ck_assert_str_eq(result->reason, "guard-lost");
    ck_assert(library_is_proved(result->report));
    sbx_run_free(run);
    library_expect_no_child(20);
}
END_TEST

START_TEST(a_run_whose_processes_are_all_killed_is_lost)
{
    struct sbx_run *run = start_up("wall=60", "echo $$ >$up; exec sleep 20");
    pid_t guard = child_of(getpid(), "sbx-guard");
    ck_assert_int_gt(guard, 1);
    pid_t monitor = child_of(guard, "sbx-monitor");
    ck_assert_int_gt(monitor, 1);
    ck_assert_int_eq(kill(guard, SIGSTOP), 0);
    ck_assert_int_eq(kill(monitor, SIGKILL), 0); /* the guard, its parent, cannot reap */
    ck_assert_int_eq(kill(guard, SIGKILL), 0);
    const struct sbx_result *result = finish(run);
    expect(result, "lost", SBX_STATUS_FAILED);
    ck_assert_int_eq(result->error.code, ESRCH);
    ck_assert_ptr_null(result->report);
    sbx_run_free(run);
    /* What is told is true: the command is left, and is ours now. */
    char path[SBX_FIXTURE_PATH_SIZE];
    pid_t command = library_read_pid(sbx_fixture_path(path, "up"));
    ck_assert_int_eq(kill(command, SIGKILL), 0);
    library_expect_no_child(20);
}
END_TEST

/* --- errors
 * ------------------------------------------------------------------------------ */

struct error_row {
    const char *options;
    const char *monitor;
    int code;
    const char *says;
};

static const struct error_row errors[] = {
    {"report=/nonexistent/dir/report", NULL, ENOENT, "/nonexistent/dir/report"},
    {"wall=5", "/nonexistent/sbx-monitor", ENOENT, "/nonexistent/sbx-monitor"},
    {"wall=5", "/dev/null", EACCES, "/dev/null"},
    {"wall=5", "/etc/passwd/x", ENOTDIR, "/etc/passwd/x"},
};

START_TEST(a_run_that_cannot_start_says_why)
{
    const struct error_row *row = &errors[_i];
    struct sbx_error error = {0};
    struct sbx_run *run = NULL;
    struct sbx_spec *spec = library_script(row->options, "exit 0");
    ck_assert_int_eq(sbx_spec_set_monitor(spec, row->monitor, &error), 0);
    ck_assert_int_eq(sbx_run_start(spec, &run, &error), -row->code);
    ck_assert_int_eq(error.code, row->code);
    ck_assert_msg(strstr(error.message, row->says) != NULL, "%s", error.message);
    ck_assert_ptr_null(run);
    ck_assert_int_eq(sbx_run_start(spec, &run, NULL), -row->code);
    ck_assert(library_has_no_child());
    sbx_spec_free(spec);
}
END_TEST

START_TEST(a_spec_without_a_command_is_refused)
{
    struct sbx_error error = {0};
    struct sbx_run *run = NULL;
    struct sbx_spec *spec = library_spec("wall=5", NULL);
    ck_assert_int_eq(sbx_run(spec, &run, &error), -EINVAL);
    ck_assert_msg(strstr(error.message, "no command") != NULL, "%s", error.message);
    ck_assert_ptr_null(run);
    ck_assert_int_eq(sbx_spec_set_monitor(spec, "relative/path", &error), -EINVAL);
    ck_assert_int_eq(sbx_spec_set_progress(spec, 999, &error), -ERANGE);
    ck_assert_int_eq(sbx_spec_set_progress(spec, UINT64_MAX, &error), -ERANGE);
    ck_assert_int_eq(sbx_spec_set_progress(spec, 0, &error), 0);
    sbx_spec_free(spec);
}
END_TEST

START_TEST(a_run_that_would_detach_is_refused)
{
    struct sbx_error error = {0};
    struct sbx_run *run = NULL;
    struct sbx_spec *spec = library_script("wall=5 detach report=/dev/null", "exit 0");
    ck_assert_int_eq(sbx_run_start(spec, &run, &error), -EINVAL);
    ck_assert_msg(strstr(error.message, "--detach") != NULL, "%s", error.message);
    sbx_spec_free(spec);
}
END_TEST

/* Its number may by then be one of the library's own. */
START_TEST(a_kept_descriptor_that_was_closed_is_refused)
{
    char options[64];
    struct sbx_error error = {0};
    struct sbx_run *run = NULL;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void)snprintf(options, sizeof options, "wall=5 keep-fd=%d", fd);
    struct sbx_spec *spec = library_script(options, "exit 0");
    (void)close(fd);
    ck_assert_int_eq(sbx_run_start(spec, &run, &error), -EBADF);
    ck_assert_msg(strstr(error.message, "not open") != NULL, "%s", error.message);
    sbx_spec_free(spec);
}
END_TEST

/* However few there may be, nothing is lost over it: it starts, or says what is short. */
START_TEST(short_descriptors_are_told_and_none_is_lost)
{
    struct rlimit limit;
    size_t before = library_count_fds();
    int refused = 0;
    int r = -1;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    for (rlim_t most = 3; r < 0; most++) {
        struct sbx_error error = {0};
        struct sbx_run *run = NULL;
        const struct rlimit lowered = {most, limit.rlim_max};
        struct sbx_spec *spec = library_script("wall=60", "exit 3");
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &lowered), 0);
        r = sbx_run_start(spec, &run, &error);
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
        if (r == 0) {
            (void)finish(run); /* what that says depends on what a shell needs */
        } else {
            ck_assert_msg(r == -EMFILE, "%d: %s", r, error.message);
            refused++;
        }
        sbx_run_free(run);
        sbx_spec_free(spec);
        ck_assert(library_has_no_child());
        ck_assert_uint_eq(library_count_fds(), before);
        ck_assert_uint_lt(most, 256);
    }
    ck_assert_int_ge(refused, 4);
}
END_TEST

/* Found out when it is told, or, if it takes its time to end, by its silence. */
/* Else our short-lived process would be it, and the caller could fork no more. */
static void start_before_the_init(void)
{
    struct sbx_run *run = NULL;
    struct sbx_error error = {0};
    struct sbx_spec *spec = library_script("wall=60", "exit 7");
    if (unshare(CLONE_NEWPID | (geteuid() != 0 ? CLONE_NEWUSER : 0)) < 0) {
        _exit(77);
    }
    int r = sbx_run_start(spec, &run, &error);
    pid_t init = fork();
    if (init == 0) {
        _exit(0);
    }
    _exit(r == -ENOTSUP && strstr(error.message, "namespace") != NULL && init > 0 ? 0
                                                                                  : 1);
}

START_TEST(a_run_is_no_init_of_the_callers_namespace)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        start_before_the_init();
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        puts("SKIP: a_run_is_no_init_of_the_callers_namespace: no unshare here");
        return;
    }
    ck_assert_int_eq(status, 0);
    while (waitpid(-1, NULL, 0) > 0) {
        continue; /* its init may have come to us */
    }
}
END_TEST

START_TEST(a_monitor_that_is_none_is_told)
{
    struct sbx_error error = {0};
    struct sbx_run *run = NULL;
    struct sbx_spec *spec = library_script("wall=5", "exit 0");
    ck_assert_int_eq(sbx_spec_set_monitor(spec, "/bin/true", &error), 0);
    int r = sbx_run_start(spec, &run, &error);
    if (r == 0) {
        const struct sbx_result *result = finish(run);
        expect(result, "launch-failed", SBX_STATUS_FAILED);
        error = result->error;
    }
    ck_assert_int_eq(error.code, EPROTO);
    ck_assert_msg(strstr(error.message, "version") != NULL, "%s", error.message);
    sbx_run_free(run);
    sbx_spec_free(spec);
    library_expect_no_child(10);
}
END_TEST

START_TEST(a_monitor_started_by_hand_does_nothing)
{
    char name[] = "sbx-monitor";
    char number[] = "0";
    char word[] = "x";
    char *arguments[] = {name, number, word, NULL};
    ck_assert_int_eq(sbx_monitor_main(1, arguments), SBX_STATUS_FAILED);
    ck_assert_int_eq(sbx_monitor_main(3, arguments), SBX_STATUS_FAILED);
}
END_TEST

int main(void)
{
    library_use_built_monitor(SBX_TEST_MONITOR);
    Suite *suite = suite_create("library_calls");
    TCase *tests = sbx_fixture_case(suite, "calls", CASE_SECONDS);
    tcase_add_test(tests, a_result_says_how_it_ended);
    tcase_add_test(tests, a_breach_has_its_reason);
    tcase_add_loop_test(tests, a_launch_that_fails_is_a_result, 0, 2);
    tcase_add_test(tests, values_of_the_report_are_found_by_path);
    tcase_add_test(tests, a_command_has_the_callers_surroundings);
    tcase_add_test(tests, a_relative_report_lies_where_it_was_asked_for);
    tcase_add_test(tests,
                   files_and_directories_of_options_are_those_of_the_time_they_were_set);
    tcase_add_test(tests, a_report_goes_to_a_descriptor_too);
    tcase_add_test(tests, a_large_command_line_arrives);
    tcase_add_test(tests, progress_comes_when_it_is_wanted);
    tcase_add_test(tests, no_progress_comes_unasked);
    tcase_add_test(tests, a_wait_has_its_bound);
    tcase_add_test(tests, a_caller_that_never_reads_holds_up_nobody);
    tcase_add_test(tests, a_second_cancel_from_another_thread_skips_the_grace);
    tcase_add_test(tests, a_forked_process_frees_its_copy_alone);
    tcase_add_test(tests, a_signal_is_passed_to_the_command);
    tcase_add_test(tests, a_killed_guard_is_replaced_by_the_monitor);
    tcase_add_test(tests, a_run_whose_processes_are_all_killed_is_lost);
    tcase_add_loop_test(tests, a_run_that_cannot_start_says_why, 0,
                        sizeof errors / sizeof errors[0]);
    tcase_add_test(tests, a_spec_without_a_command_is_refused);
    tcase_add_test(tests, a_run_that_would_detach_is_refused);
    tcase_add_test(tests, a_kept_descriptor_that_was_closed_is_refused);
    tcase_add_test(tests, short_descriptors_are_told_and_none_is_lost);
    tcase_add_test(tests, a_run_is_no_init_of_the_callers_namespace);
    tcase_add_test(tests, a_monitor_that_is_none_is_told);
    tcase_add_test(tests, a_monitor_started_by_hand_does_nothing);
    return sbx_fixture_run(suite);
}
