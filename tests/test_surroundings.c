/*
 * test_surroundings.c - what the command inherits from whoever started sbx-watch, what it
 * does not, and what becomes of processes beside it and after it.
 *
 * Runs the built program. Descriptors, signal dispositions, bystanders, strays.
 */
#include "tests/fixture.h"
#include "tests/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QUICK_US 15000000 /* well below every lifetime in here */
#define SECRET_FD 50

/* --- descriptors ---------------------------------------------------------------------
 */

static void open_secrets(const struct sbx_trial *trial)
{
    (void)trial;
    int fd = open("/dev/zero", O_RDONLY); /* not close-on-exec: that is the point */
    if (fd < 0 || dup2(fd, SECRET_FD) < 0 || dup2(fd, SECRET_FD + 7) < 0 ||
        dup2(fd, 1000) < 0) {
        _exit(1);
    }
}

START_TEST(descriptors_above_2_are_closed)
{
    const char *const command[] = {"@print_fds", NULL};
    struct sbx_trial trial = {.command = command, .prepare = open_secrets};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    ck_assert_msg(strncmp(trial.out, "0 /dev/null\n1 /", 15) == 0 &&
                      strstr(trial.out, "\n2 /") != NULL &&
                      strstr(trial.out, "/dev/zero") == NULL,
                  "%s", trial.out);
    int lines = 0;
    for (const char *line = trial.out; (line = strchr(line, '\n')) != NULL; line++) {
        lines++;
    }
    ck_assert_msg(lines == 3, "%s", trial.out);
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(a_named_descriptor_is_kept)
{
    const char *const command[] = {"@print_fds", NULL};
    struct sbx_trial trial = {
        .command = command, .options = "--keep-fd 50", .prepare = open_secrets};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    char *kept = strstr(trial.out, "\n50 /dev/zero\n");
    ck_assert_msg(kept != NULL && kept[strlen("\n50 /dev/zero\n")] == '\0', "%s",
                  trial.out);
    sbx_trial_done(&trial);
}
END_TEST

/* Each of 0, 1 and 2 closed or not: the command has nothing of ours there, and what we
 * open never ends up where the command writes. */
START_TEST(closed_standard_streams_do_no_harm)
{
    const char *const list[] = {"@print_fds", "@/fds", NULL};
    const char *const fail[] = {"sh", "-c", "echo out; echo err >&2; exit 7", NULL};
    struct sbx_trial trial = {.command = list};
    struct sbx_trial failing = {.command = fail, .options = "--wall 30"};
    for (int which = 0; which < 3; which++) {
        trial.stdio[which] = (_i >> which & 1) != 0 ? SBX_TRIAL_CLOSED : 0;
        failing.stdio[which] = trial.stdio[which];
    }
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    char path[SBX_FIXTURE_PATH_SIZE];
    FILE *file = fopen(sbx_trial_path(&trial, path, "fds"), "re");
    ck_assert_ptr_nonnull(file);
    int fd;
    char target[512];
    while (fscanf(file, "%d %511[^\n]", &fd, target) == 2) {
        ck_assert_msg(fd <= 2, "descriptor %d is open (%s)", fd, target);
        ck_assert_msg(trial.stdio[fd] == 0 || strcmp(target, "/dev/null") == 0,
                      "descriptor %d was closed and is %s", fd, target);
    }
    ck_assert_int_eq(fclose(file), 0);
    sbx_trial_done(&trial);
    sbx_trial_run(&failing);
    sbx_trial_expect(&failing, 7, "exited", NULL);
    sbx_trial_expect_empty(&failing);
    sbx_trial_done(&failing);
}
END_TEST

/* --- signals --------------------------------------------------------------------------
 */

static void ignore_and_block(const struct sbx_trial *trial)
{
    sigset_t all;
    (void)trial;
    (void)signal(SIGCHLD, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGUSR1, SIG_IGN);
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
}

static void ignore_hangup(const struct sbx_trial *trial)
{
    (void)trial;
    (void)signal(SIGHUP, SIG_IGN);
    (void)signal(SIGQUIT, SIG_IGN);
}

START_TEST(dispositions_and_mask_are_not_inherited)
{
    const char *const command[] = {"@print_signals", NULL};
    struct sbx_trial trial = {.command = command, .prepare = ignore_and_block};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    ck_assert_str_eq(trial.out, "blocked\nignored\n");
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(what_nohup_ignores_stays_ignored)
{
    const char *const command[] = {"@print_signals", NULL};
    struct sbx_trial trial = {.command = command, .prepare = ignore_hangup};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    ck_assert_str_eq(trial.out, "blocked\nignored 1 3\n"); /* HUP and QUIT */
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(an_ignored_hangup_does_not_cancel)
{
    const char *const command[] = {
        "sh", "-c",   "echo up; while [ ! -e \"$1\" ]; do sleep 0.01; done; exit 5",
        "sh", "@/go", NULL};
    struct sbx_trial trial = {.command = command, .prepare = ignore_hangup};
    sbx_trial_start(&trial);
    sbx_trial_wait_output(&trial, "up", 20);
    ck_assert_int_eq(kill(trial.pid, SIGHUP), 0);
    char path[SBX_FIXTURE_PATH_SIZE];
    ck_assert_int_eq(mkdir(sbx_trial_path(&trial, path, "go"), 0700), 0);
    sbx_trial_wait(&trial);
    sbx_trial_expect(&trial, 5, "exited", NULL);
    sbx_trial_expect_empty(&trial);
    sbx_trial_done(&trial);
}
END_TEST

/* With SIGCHLD ignored the kernel would reap the leader for us, and its status be lost.
 */
START_TEST(a_caller_that_ignores_sigchld_gets_the_status)
{
    const char *const fails[] = {"sh", "-c", "exit 7", NULL};
    const char *const stays[] = {"@stubborn", NULL};
    struct sbx_trial trial = {.command = fails, .prepare = ignore_and_block};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 7, "exited", NULL);
    sbx_trial_expect_empty(&trial);
    sbx_trial_done(&trial);
    struct sbx_trial breach = {.command = stays,
                               .prepare = ignore_and_block,
                               .options = "--wall 0.3 --grace 0.2"};
    sbx_trial_run(&breach);
    sbx_trial_expect(&breach, 124, "breach", "wall");
    sbx_trial_expect_empty(&breach);
    sbx_trial_done(&breach);
}
END_TEST

/* --- bystanders: children that the executing shell had already ------------------------
 */

static const char *const bystander_shell[] = {
    "sh", "-c", "sleep 50 >/dev/null 2>&1 & echo $!; exec \"$@\"", "sh", NULL};

static void expect_bystander_lives(const struct sbx_trial *trial)
{
    pid_t bystander = (pid_t)strtol(trial->out, NULL, 10);
    ck_assert_int_gt(bystander, 1);
    /* It has come to us, and is alive: no end to be waited for. */
    ck_assert_int_eq(waitpid(bystander, NULL, WNOHANG), 0);
    ck_assert(!sbx_trial_has(trial, "termination.strays.0"));
    ck_assert(!sbx_trial_has(trial, "termination.survivors.0"));
    sbx_trial_expect_proof(trial);
    ck_assert_int_lt((int64_t)trial->elapsed_us, QUICK_US);
    ck_assert_int_eq(kill(bystander, SIGKILL), 0);
    ck_assert_int_eq(waitpid(bystander, NULL, 0), bystander);
    sbx_trial_expect_empty(trial);
}

START_TEST(bystanders_are_not_waited_for)
{
    const char *const command[] = {"true", NULL};
    struct sbx_trial trial = {.command = command, .launcher = bystander_shell};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    expect_bystander_lives(&trial);
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(bystanders_are_not_swept)
{
    const char *const command[] = {"@stubborn", NULL};
    struct sbx_trial trial = {.command = command,
                              .launcher = bystander_shell,
                              .options = "--wall 0.3 --grace 0.2"};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 124, "breach", "wall");
    expect_bystander_lives(&trial);
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(a_front_over_bystanders_passes_signals_on)
{
    const char *const command[] = {"@trap", NULL};
    struct sbx_trial trial = {
        .command = command, .launcher = bystander_shell, .options = "--grace 40"};
    sbx_trial_start(&trial);
    sbx_trial_wait_output(&trial, "up ", 20);
    ck_assert_int_eq(kill(trial.pid, SIGTERM), 0);
    sbx_trial_wait(&trial);
    sbx_trial_expect(&trial, 143, "cancelled", NULL);
    expect_bystander_lives(&trial);
    sbx_trial_done(&trial);
}
END_TEST

/* --- strays ----------------------------------------------------------------------------
 */

/* The leader's end is the end, whoever still holds its standard output. */
START_TEST(a_held_pipe_does_not_hold_the_run)
{
    int pipe_fds[2];
    ck_assert_int_eq(pipe2(pipe_fds, O_CLOEXEC), 0);
    const char *const command[] = {"sh", "-c", "\"$0\"; exit 3", "@leaver", NULL};
    struct sbx_trial trial = {.command = command, .stdio = {0, pipe_fds[1], 0}};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 3, "exited", NULL);
    sbx_trial_expect_empty(&trial);
    ck_assert_int_lt((int64_t)trial.elapsed_us, QUICK_US);
    ck_assert_int_eq(sbx_trial_integer(&trial, "termination.strays_count"), 1);
    ck_assert_str_eq(sbx_trial_string(&trial, "termination.strays.0.name"), "leaver");
    ck_assert_int_eq(close(pipe_fds[1]), 0);
    char text[64];
    ck_assert_int_gt(read(pipe_fds[0], text, sizeof(text)), 0); /* "up PID" */
    ck_assert_int_eq(read(pipe_fds[0], text, sizeof(text)), 0);
    ck_assert_int_eq(close(pipe_fds[0]), 0);
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(linger_lets_a_short_one_finish)
{
    const char *const command[] = {"@leaver", "400", NULL};
    struct sbx_trial trial = {.command = command, .options = "--linger 40"};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    sbx_trial_expect_empty(&trial);
    ck_assert_int_ge((int64_t)trial.elapsed_us, 400000);
    ck_assert_int_lt((int64_t)trial.elapsed_us, QUICK_US);
    ck_assert_int_eq(sbx_trial_integer(&trial, "termination.strays_count"), 0);
    ck_assert(!sbx_trial_has(&trial, "termination.signal"));
    ck_assert_str_eq(trial.err, "");
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(linger_ends)
{
    const char *const command[] = {"@leaver", NULL};
    struct sbx_trial trial = {.command = command, .options = "--linger 0.5"};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    sbx_trial_expect_empty(&trial);
    ck_assert_int_ge((int64_t)trial.elapsed_us, 500000);
    ck_assert_int_lt((int64_t)trial.elapsed_us, QUICK_US);
    ck_assert_int_eq(sbx_trial_integer(&trial, "termination.strays_count"), 1);
    ck_assert_int_lt(sbx_trial_integer(&trial, "usage.wall_us"),
                     (int64_t)trial.elapsed_us - 400000);
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(strays_can_be_waited_for)
{
    const char *const command[] = {"sh", "-c", "(sleep 0.4; echo late) & exit 6", NULL};
    struct sbx_trial trial = {.command = command, .options = "--strays wait --wall 40"};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 6, "exited", NULL);
    sbx_trial_expect_empty(&trial);
    ck_assert_str_eq(trial.out, "late\n");
    ck_assert(!sbx_trial_has(&trial, "termination.signal"));
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(limits_stay_on_while_strays_are_waited_for)
{
    const char *const command[] = {"@leaver", NULL};
    struct sbx_trial trial = {.command = command,
                              .options = "--strays wait --wall 2 --grace 0.5"};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 124, "breach", "wall");
    sbx_trial_expect_empty(&trial);
    ck_assert_int_eq(sbx_trial_integer(&trial, "exit_code"), 0);
    ck_assert_int_lt(sbx_trial_integer(&trial, "usage.wall_us"), 2000000);
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(strays_can_be_kept)
{
    const char *const command[] = {"@leaver", NULL};
    struct sbx_trial trial = {.command = command, .options = "--strays keep --wall 40"};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    ck_assert_int_eq(sbx_trial_integer(&trial, "termination.strays_count"), 1);
    ck_assert_str_eq(sbx_trial_string(&trial, "termination.proof"), "none");
    ck_assert_int_lt((int64_t)trial.elapsed_us, QUICK_US);
    pid_t stray = (pid_t)sbx_trial_integer(&trial, "termination.strays.0.pid");
    ck_assert_msg(waitpid(stray, NULL, WNOHANG) == 0, "the stray is not alive with us");
    ck_assert_int_eq(kill(stray, SIGKILL), 0);
    ck_assert_int_eq(waitpid(stray, NULL, 0), stray);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    sbx_trial_done(&trial);
}
END_TEST

/* Swallowing it in silence would be a run without its report. */
START_TEST(a_report_to_a_closed_standard_error_is_refused)
{
    static const char *const command[] = {"touch", "@/ran", NULL};
    char ran[SBX_FIXTURE_PATH_SIZE];
    struct sbx_trial trial = {.command = command,
                              .options = "-r -",
                              .without_report = true,
                              .stdio = {0, 0, SBX_TRIAL_CLOSED}};
    sbx_trial_run(&trial);
    ck_assert_int_eq(trial.status, 125);
    ck_assert_int_lt(access(sbx_trial_path(&trial, ran, "ran"), F_OK), 0);
    sbx_trial_expect_empty(&trial);
    sbx_trial_done(&trial);
}
END_TEST

/* Not even an error is worth waiting for ever. */
START_TEST(a_message_that_nobody_takes_is_given_up)
{
    static const char *const command[] = {"true", NULL};
    static const char filler[4096];
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    while (write(ends[1], filler, sizeof filler) > 0) {
    }
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_int_eq(fcntl(ends[1], F_SETFL, 0), 0);
    struct sbx_trial trial = {.command = command,
                              .options = "--report /nonexistent/directory/report",
                              .without_report = true,
                              .stdio = {0, 0, ends[1]}};
    sbx_trial_run(&trial);
    ck_assert_int_eq(trial.status, 125);
    ck_assert_uint_lt(trial.elapsed_us, QUICK_US);
    sbx_trial_expect_empty(&trial);
    sbx_trial_done(&trial);
    (void)close(ends[0]);
    (void)close(ends[1]);
}
END_TEST

/* A member that /proc hides cannot be measured: the run is not left without its limits.
 */
START_TEST(a_hidden_member_is_unmeasurable)
{
    static const char *const command[] = {"@hidden", "5", NULL};
    static const char *const launcher[] = {
        "unshare",
        "-m",
        "sh",
        "-c",
        "mount -t proc -o hidepid=2 proc /proc && exec setpriv --reuid=65534 "
        "--regid=65534 --clear-groups \"$@\"",
        "sh",
        NULL};
    struct sbx_trial trial = {.command = command,
                              .launcher = launcher,
                              .as_nobody = false,
                              .without_report = true,
                              .options = "--processes 3 --wall 40 -r -"};
    if (getuid() != 0) {
        (void)fprintf(stderr, "# skipped: hidepid needs root to mount\n");
        return;
    }
    sbx_trial_run(&trial);
    if (strstr(trial.err, "unshare") != NULL || strstr(trial.err, "mount:") != NULL ||
        strstr(trial.err, "setpriv") != NULL) {
        (void)fprintf(stderr, "# skipped: %s\n", trial.err);
        return;
    }
    ck_assert_msg(trial.status == 124 && strstr(trial.err, "unmeasurable") != NULL,
                  "status %d: %s", trial.status, trial.err);
    sbx_trial_expect_empty(&trial);
    sbx_trial_done(&trial);
}
END_TEST

/* A leak sanitizer looks around at the end in a process of its own, which would be the
 * init here, and waits for ever. */
static void without_leak_check(const struct sbx_trial *trial)
{
    (void)trial;
    (void)setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
}

/* The first of ours would be the init, and the rest could not outlive it. */
START_TEST(a_namespace_without_an_init_is_refused)
{
    static const char *const command[] = {"touch", "@/ran", NULL};
    static const char *const as_root[] = {"unshare", "-p", NULL};
    static const char *const as_user[] = {"unshare", "-Up", NULL};
    char ran[SBX_FIXTURE_PATH_SIZE];
    struct sbx_trial trial = {.command = command,
                              .launcher = getuid() == 0 ? as_root : as_user,
                              .without_report = true,
                              .prepare = without_leak_check,
                              .options = "--wall 10",
                              .seconds = 15};
    sbx_trial_run(&trial);
    if (strncmp(trial.err, "unshare:", 8) == 0) {
        (void)fprintf(stderr, "# skipped: %s\n", trial.err);
        return;
    }
    ck_assert_msg(trial.status == 125 && strstr(trial.err, "PID namespace") != NULL,
                  "status %d: %s", trial.status, trial.err);
    ck_assert_int_lt(access(sbx_trial_path(&trial, ran, "ran"), F_OK), 0);
    sbx_trial_expect_empty(&trial);
    sbx_trial_done(&trial);
}
END_TEST

static void few_descriptors(const struct sbx_trial *trial)
{
    const rlim_t *count = trial->context;
    struct rlimit limit = {*count, *count};
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0) {
        _exit(99);
    }
}

/* Few descriptors: it runs, or says in one line that nothing ran. */
START_TEST(few_descriptors_are_no_lost_run)
{
    static const char *const command[] = {"touch", "@/ran", NULL};
    rlim_t count = (rlim_t)_i;
    char ran[SBX_FIXTURE_PATH_SIZE];
    struct sbx_trial trial = {.command = command,
                              .without_report = true,
                              .prepare = few_descriptors,
                              .context = &count};
    sbx_trial_run(&trial);
    bool there = access(sbx_trial_path(&trial, ran, "ran"), F_OK) == 0;
    ck_assert_msg(there ? trial.status == 0 : trial.status == 125,
                  "%d descriptors: %d: %s", _i, trial.status, trial.err);
    ck_assert_msg(strstr(trial.err, "lost") == NULL && strstr(trial.err, "[err]") == NULL,
                  "%d descriptors: %s", _i, trial.err);
    ck_assert(there || _i < 30);
    sbx_trial_done(&trial);
}
END_TEST

/* A tracer that holds the monitor would hold up every limit: the guard takes over. */
START_TEST(a_traced_monitor_is_replaced)
{
    static const char *const command[] = {"@tracer", NULL};
    struct sbx_trial trial = {.command = command, .options = "--wall 1 --grace 1"};
    sbx_trial_run(&trial);
    if (trial.status == 3) {
        (void)fprintf(stderr, "# skipped: ptrace is refused here\n");
    } else {
        sbx_trial_expect(&trial, 125, "lost", NULL);
        ck_assert_uint_lt(trial.elapsed_us, 25000000U);
    }
    sbx_trial_expect_empty(&trial);
    sbx_trial_done(&trial);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("surroundings");
    TCase *descriptors = sbx_fixture_case(suite, "descriptors", 60);
    tcase_add_test(descriptors, descriptors_above_2_are_closed);
    tcase_add_test(descriptors, a_named_descriptor_is_kept);
    tcase_add_loop_test(descriptors, closed_standard_streams_do_no_harm, 0, 8);
    TCase *signals = sbx_fixture_case(suite, "signals", 60);
    tcase_add_test(signals, dispositions_and_mask_are_not_inherited);
    tcase_add_test(signals, what_nohup_ignores_stays_ignored);
    tcase_add_test(signals, an_ignored_hangup_does_not_cancel);
    tcase_add_test(signals, a_caller_that_ignores_sigchld_gets_the_status);
    TCase *bystanders = sbx_fixture_case(suite, "bystanders", 60);
    tcase_add_test(bystanders, bystanders_are_not_waited_for);
    tcase_add_test(bystanders, bystanders_are_not_swept);
    tcase_add_test(bystanders, a_front_over_bystanders_passes_signals_on);
    TCase *strays = sbx_fixture_case(suite, "strays", 60);
    tcase_add_test(strays, a_held_pipe_does_not_hold_the_run);
    tcase_add_test(strays, linger_lets_a_short_one_finish);
    tcase_add_test(strays, linger_ends);
    tcase_add_test(strays, strays_can_be_waited_for);
    tcase_add_test(strays, limits_stay_on_while_strays_are_waited_for);
    tcase_add_test(strays, strays_can_be_kept);
    tcase_add_test(strays, a_report_to_a_closed_standard_error_is_refused);
    tcase_add_test(strays, a_message_that_nobody_takes_is_given_up);
    tcase_add_test(strays, a_hidden_member_is_unmeasurable);
    tcase_add_test(strays, a_namespace_without_an_init_is_refused);
    tcase_add_test(strays, a_traced_monitor_is_replaced);
    tcase_add_loop_test(strays, few_descriptors_are_no_lost_run, 6, 34);
    return sbx_fixture_run(suite);
}
