/*
 * test_detach.c - --detach on the built program: the caller is told which run it is and
 * is let go, the run goes on in a session of its own and holds nothing of the caller's,
 * and what could not be started is told as without --detach.
 *
 * The test is a subreaper, so the guard of a detached run becomes its child: its end and
 * status can be waited for.
 */
#include "monitor/detach.h"
#include "tests/trial.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define FOREIGN_FD 20

/* Ends when the file "end" is there; says so in "began". */
static const char *const patient[] = {"sh", "-c",
                                      "exec >/dev/null; echo x >\"$0/began\"; while ! "
                                      "test -e \"$0/end\"; do sleep 0.02; done; "
                                      "exit 5",
                                      "@/.", NULL};

/* What the caller is told. */
struct told {
    char run_id[64];
    pid_t pid;
    char report[SBX_FIXTURE_PATH_SIZE];
};

static void read_told(const char *text, struct told *told)
{
    json_error_t error;
    json_t *line = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(line != NULL, "%s: \"%s\"", error.text, text);
    ck_assert_uint_eq(json_object_size(line), 3);
    const char *feed = strchr(text, '\n');
    ck_assert_msg(feed != NULL && feed[1] == '\0', "not one line: %s", text);
    (void)snprintf(told->run_id, sizeof told->run_id, "%s",
                   json_string_value(json_object_get(line, "run_id")));
    told->pid = (pid_t)json_integer_value(json_object_get(line, "pid"));
    (void)snprintf(told->report, sizeof told->report, "%s",
                   json_string_value(json_object_get(line, "report")));
    json_decref(line);
    ck_assert_int_gt(told->pid, 1);
}

/* The guard's end, as a shell has it. */
static int wait_guard(pid_t guard)
{
    SBX_AUTO_CLOSE int pidfd = (int)syscall(SYS_pidfd_open, guard, 0);
    ck_assert_msg(pidfd >= 0, "pidfd_open of the guard: %s", strerror(errno));
    struct pollfd end = {.fd = pidfd, .events = POLLIN};
    ck_assert_msg(poll(&end, 1, 30000) == 1, "the run does not end");
    int status = 0;
    ck_assert_int_eq(waitpid(guard, &status, 0), guard);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void make_file(const struct sbx_trial *trial, const char *name)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    int fd =
        open(sbx_trial_path(trial, path, name), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(close(fd), 0);
}

static void wait_began(const struct sbx_trial *trial)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    sbx_fixture_wait_file(sbx_trial_path(trial, path, "began"), 30);
}

/* The report in place of the one that the caller has not seen. */
static void read_report(struct sbx_trial *trial, const struct told *told)
{
    char text[16384];
    json_error_t error;
    ck_assert_int_gt(sbx_fd_read_text_at(AT_FDCWD, told->report, text, sizeof text), 0);
    sbx_fixture_collect(text);
    json_decref(trial->report);
    trial->report = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(trial->report != NULL, "%s: %s", error.text, text);
    ck_assert_str_eq(sbx_trial_string(trial, "run_id"), told->run_id);
}

static void expect_exited(struct sbx_trial *trial, const struct told *told)
{
    make_file(trial, "end");
    ck_assert_int_eq(wait_guard(told->pid), 5);
    read_report(trial, told);
    ck_assert_str_eq(sbx_trial_string(trial, "outcome"), "exited");
    ck_assert_int_eq(sbx_trial_integer(trial, "exit_code"), 5);
    sbx_trial_expect_empty(trial);
}

/* Field of /proc/PID/stat behind the name: 4 is the session, 5 the terminal. */
static long stat_field(pid_t pid, int field)
{
    char path[64];
    char text[1024];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    ck_assert_int_gt(sbx_fd_read_text_at(AT_FDCWD, path, text, sizeof text), 0);
    const char *at = strrchr(text, ')');
    for (int i = 0; i < field && at != NULL; i++) {
        at = strchr(at + 1, ' ');
    }
    ck_assert_ptr_nonnull(at);
    return strtol(at, NULL, 10);
}

static void go_to_directory(const struct sbx_trial *trial)
{
    if (chdir(trial->directory) < 0) {
        _exit(121);
    }
}

/* Told, let go, in a session of its own; the path of the report is whole. */
START_TEST(test_goes_on)
{
    char wanted[SBX_FIXTURE_PATH_SIZE];
    struct told told;
    struct sbx_trial trial = {.command = patient,
                              .options = "--detach -r relative.json",
                              .without_report = true,
                              .prepare = go_to_directory,
                              .as_nobody = _i == 1};
    sbx_trial_run(&trial);
    ck_assert_msg(trial.status == 0, "status %d: %s", trial.status, trial.err);
    read_told(trial.out, &told);
    ck_assert_str_eq(told.report, sbx_trial_path(&trial, wanted, "relative.json"));
    wait_began(&trial);
    ck_assert_int_eq(stat_field(told.pid, 4), told.pid);
    ck_assert_int_eq(stat_field(told.pid, 5), 0);
    ck_assert_int_eq(access(told.report, F_OK), -1);
    expect_exited(&trial, &told);
    ck_assert_str_eq(trial.err, "");
    sbx_trial_done(&trial);
}
END_TEST

/* A signal to the pid that was told ends it in order. */
START_TEST(test_is_cancelled)
{
    struct told told;
    struct sbx_trial trial = {
        .command = patient, .options = "--detach --grace 5", .as_nobody = _i == 1};
    sbx_trial_run(&trial);
    ck_assert_int_eq(trial.status, 0);
    read_told(trial.out, &told);
    wait_began(&trial);
    ck_assert_int_eq(kill(told.pid, SIGTERM), 0);
    ck_assert_int_eq(wait_guard(told.pid), 128 + SIGTERM);
    read_report(&trial, &told);
    ck_assert_str_eq(sbx_trial_string(&trial, "outcome"), "cancelled");
    ck_assert_str_eq(sbx_trial_string(&trial, "cancel_signal"), "SIGTERM");
    sbx_trial_expect_empty(&trial);
    sbx_trial_done(&trial);
}
END_TEST

static void own_session(const struct sbx_trial *trial)
{
    (void)trial;
    (void)setsid();
}

/* Hangup and SIGKILL for the caller's whole group: the run does not notice. */
START_TEST(test_caller_dies)
{
    static const char *const launchers[2][5] = {
        {"sh", "-c", "\"$@\"; kill -HUP 0; sleep 5", "sh", NULL},
        {"sh", "-c", "\"$@\"; kill -KILL 0; sleep 5", "sh", NULL},
    };
    struct told told;
    struct sbx_trial trial = {.command = patient,
                              .options = "--detach",
                              .launcher = launchers[_i],
                              .prepare = own_session};
    sbx_trial_run(&trial);
    ck_assert_int_eq(trial.status, 128 + (_i == 0 ? SIGHUP : SIGKILL));
    read_told(trial.out, &told);
    wait_began(&trial);
    expect_exited(&trial, &told);
    sbx_trial_done(&trial);
}
END_TEST

/* --- what could not be started --- */

static const struct {
    const char *command[3];
    const char *options;
    int status;
    const char *says;
} failures[] = {
    {{"./nosuch", NULL}, "--detach -r @/r", 127, "sbx-watch: exec ./nosuch: "},
    {{"/dev/null", NULL}, "--detach -r @/r", 126, "sbx-watch: exec /dev/null: "},
    {{"true", NULL}, "--detach -r @/r --wall 5x", 125, "option --wall: '5x'"},
    {{"true", NULL}, "--detach", 125, "option --detach: needs --report FILE"},
    {{"true", NULL}, "--detach --report -", 125, "option --detach: needs --report FILE"},
    {{"true", NULL},
     "--detach -r @/r --die-with-parent",
     125,
     "option --detach: contradicts --die-with-parent"},
    {{"true", NULL}, "--detach -r @/no/such/r", 125, "no/such/r: cannot be written"},
};

START_TEST(test_failures)
{
    struct sbx_trial trial = {.command = failures[_i].command,
                              .options = failures[_i].options,
                              .without_report = true};
    sbx_trial_run(&trial);
    ck_assert_msg(trial.status == failures[_i].status, "status %d: %s", trial.status,
                  trial.err);
    ck_assert_str_eq(trial.out, "");
    ck_assert_msg(strstr(trial.err, failures[_i].says) != NULL, "%s", trial.err);
    char path[SBX_FIXTURE_PATH_SIZE];
    if (strstr(failures[_i].options, "@/r") != NULL) {
        char text[8192];
        (void)sbx_trial_path(&trial, path, "r");
        ck_assert_int_gt(sbx_fd_read_text_at(AT_FDCWD, path, text, sizeof text), 0);
        ck_assert_ptr_nonnull(strstr(text, "\"outcome\":\"launch-failed\""));
        sbx_fixture_collect(text);
    }
    /* The guard of what failed has ended before, or is about to. */
    while (waitpid(-1, NULL, 0) > 0) {
        continue;
    }
    sbx_trial_expect_empty(&trial);
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(test_closed_stdout)
{
    struct sbx_trial trial = {
        .command = patient, .options = "--detach", .stdio = {0, SBX_TRIAL_CLOSED, 0}};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 125, "launch-failed", NULL);
    ck_assert_str_eq(trial.err,
                     "sbx-watch: option --detach: standard output is closed\n");
    sbx_trial_done(&trial);
}
END_TEST

/* Nobody can be told of the run: it is ended, and the status says so. */
START_TEST(test_nobody_is_told)
{
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_int_eq(close(ends[0]), 0);
    struct sbx_trial trial = {.command = patient,
                              .options = "--detach -r @/r",
                              .without_report = true,
                              .stdio = {0, ends[1], 0}};
    sbx_trial_run(&trial);
    ck_assert_int_eq(close(ends[1]), 0);
    ck_assert_int_eq(trial.status, 125);
    ck_assert_msg(strstr(trial.err, "standard output cannot be told of the run: ") !=
                      NULL,
                  "%s", trial.err);
    int status = 0;
    while (waitpid(-1, &status, 0) > 0) {
        continue;
    }
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGTERM);
    char path[SBX_FIXTURE_PATH_SIZE];
    char text[8192];
    (void)sbx_trial_path(&trial, path, "r");
    ck_assert_int_gt(sbx_fd_read_text_at(AT_FDCWD, path, text, sizeof text), 0);
    ck_assert_ptr_nonnull(strstr(text, "\"outcome\":\"cancelled\""));
    sbx_fixture_collect(text);
    sbx_trial_expect_empty(&trial);
    sbx_trial_done(&trial);
}
END_TEST

/* A caller that is gone before it could be told. */
START_TEST(test_caller_is_gone)
{
    int ends[2];
    (void)signal(SIGPIPE, SIG_IGN);
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_int_eq(close(ends[0]), 0);
    struct sbx_detach detach = {.pipe = ends[1]};
    ck_assert(!sbx_detach_tell_start(&detach));
    ck_assert_int_eq(detach.pipe, -1);
    ck_assert(sbx_detach_tell_start(&detach)); /* nobody is to be told any more */
    sbx_detach_tell_end(&detach, 7);
}
END_TEST

/* --- what it holds --- */

/* Whoever reads the caller's output to its end waits for the command, not for the run. */
START_TEST(test_lets_go_of_stdout)
{
    int ends[2];
    char text[4096];
    struct told told;
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    struct sbx_trial trial = {.command = patient,
                              .options = "--detach -r @/r",
                              .without_report = true,
                              .stdio = {0, ends[1], 0}};
    sbx_trial_run(&trial);
    ck_assert_int_eq(trial.status, 0);
    ck_assert_int_eq(close(ends[1]), 0);
    size_t used = 0;
    ssize_t length;
    struct pollfd ready = {.fd = ends[0], .events = POLLIN};
    do { /* to its end, while the run goes on */
        ck_assert_msg(poll(&ready, 1, 30000) == 1, "stdout is held open");
        length = read(ends[0], text + used, sizeof text - 1 - used);
        used += length > 0 ? (size_t)length : 0;
    } while (length > 0);
    ck_assert_int_eq(close(ends[0]), 0);
    text[used] = '\0';
    read_told(text, &told);
    wait_began(&trial);
    ck_assert_int_eq(waitpid(told.pid, NULL, WNOHANG), 0);
    expect_exited(&trial, &told);
    sbx_trial_done(&trial);
}
END_TEST

/* A command that keeps its output open does not keep the caller. */
START_TEST(test_command_holds_stdout)
{
    static const char *const command[] = {
        "sh", "-c",
        "echo x >\"$0/began\"; while ! test -e \"$0/end\"; do sleep 0.02; done; exit 5",
        "@/.", NULL};
    struct told told;
    struct sbx_trial trial = {.command = command, .options = "--detach", .seconds = 20};
    sbx_trial_run(&trial);
    ck_assert_int_eq(trial.status, 0);
    read_told(trial.out, &told);
    wait_began(&trial);
    expect_exited(&trial, &told);
    sbx_trial_done(&trial);
}
END_TEST

static void inherit(const struct sbx_trial *trial)
{
    if (dup2(*(const int *)trial->context, FOREIGN_FD) < 0) {
        _exit(121);
    }
}

/* Descriptors of the caller above 2: none, but those that the command is to keep. */
START_TEST(test_holds_no_foreign_descriptor)
{
    int ends[2];
    struct told told;
    bool kept = _i == 1;
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    struct sbx_trial trial = {.command = patient,
                              .options = kept ? "--detach --keep-fd 20" : "--detach",
                              .prepare = inherit,
                              .context = &ends[1]};
    sbx_trial_run(&trial);
    ck_assert_int_eq(close(ends[1]), 0);
    read_told(trial.out, &told);
    wait_began(&trial);
    struct pollfd end = {.fd = ends[0], .events = POLLIN};
    ck_assert_int_eq(poll(&end, 1, 0), kept ? 0 : 1);
    expect_exited(&trial, &told);
    ck_assert_int_eq(poll(&end, 1, 0), 1);
    ck_assert_int_eq(close(ends[0]), 0);
    sbx_trial_done(&trial);
}
END_TEST

/* How many children a process has. */
static int count_children(pid_t pid)
{
    char path[64];
    char text[1024];
    int count = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    ck_assert_int_gt(sbx_fd_read_text_at(AT_FDCWD, path, text, sizeof text), 0);
    for (const char *at = text; (at = strchr(at, ' ')) != NULL; at++) {
        count++;
    }
    return count;
}

/* The caller's own children stay the caller's: the guard has monitor and reader, and
 * nobody else, also where sbx-watch was executed by who has children. */
START_TEST(test_no_bystanders)
{
    static const char *const launcher[] = {
        "sh", "-c", "sleep 50 >/dev/null 2>&1 & exec \"$@\"", "sh", NULL};
    struct told told;
    struct sbx_trial trial = {
        .command = patient, .options = "--detach", .launcher = launcher};
    sbx_trial_run(&trial);
    ck_assert_int_eq(trial.status, 0);
    read_told(trial.out, &told);
    wait_began(&trial);
    ck_assert_int_eq(count_children(told.pid), 2);
    make_file(&trial, "end");
    ck_assert_int_eq(wait_guard(told.pid), 5);
    read_report(&trial, &told);
    ck_assert_int_eq(sbx_trial_integer(&trial, "termination.strays_count"), 0);
    ck_assert_int_eq(sbx_trial_end_children(30), 1); /* the bystander has lived on */
    sbx_trial_expect_empty(&trial);
    sbx_trial_done(&trial);
}
END_TEST

/* Usage on demand, at the pid that was told. */
START_TEST(test_usage)
{
    struct told told;
    char path[SBX_FIXTURE_PATH_SIZE];
    struct sbx_trial trial = {.command = patient, .options = "--detach"};
    sbx_trial_run(&trial);
    read_told(trial.out, &told);
    wait_began(&trial);
    ck_assert_int_eq(kill(told.pid, SIGUSR1), 0);
    sbx_fixture_wait_file(sbx_trial_path(&trial, path, "err"), 30);
    expect_exited(&trial, &told);
    sbx_trial_done(&trial);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("detach");
    int identities = sbx_trial_identities();
    TCase *run = sbx_fixture_case(suite, "run", 90);
    tcase_add_loop_test(run, test_goes_on, 0, identities);
    tcase_add_loop_test(run, test_is_cancelled, 0, identities);
    tcase_add_loop_test(run, test_caller_dies, 0, 2);
    tcase_add_test(run, test_usage);
    TCase *failure = sbx_fixture_case(suite, "failure", 90);
    tcase_add_loop_test(failure, test_failures, 0, (int)LENGTH(failures));
    tcase_add_test(failure, test_closed_stdout);
    tcase_add_test(failure, test_nobody_is_told);
    tcase_add_test(failure, test_caller_is_gone);
    TCase *held = sbx_fixture_case(suite, "held", 90);
    tcase_add_test(held, test_lets_go_of_stdout);
    tcase_add_test(held, test_command_holds_stdout);
    tcase_add_loop_test(held, test_holds_no_foreign_descriptor, 0, 2);
    tcase_add_test(held, test_no_bystanders);
    return sbx_fixture_run(suite);
}
