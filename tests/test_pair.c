/*
 * test_pair.c - guard and monitor watch each other: whichever of the two is killed or
 * stopped, at whatever moment, the tree ends and there is one report.
 *
 * Runs the built program. The moments are random; a failure names the seed, and
 * SBX_SEED=N repeats it. SBX_LONG in the environment makes five times as many. Signals
 * the guard as our own un-reaped child and the monitor through a pidfd.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "tests/fixture.h"
#include "tests/trial.h"

#include <dirent.h>
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
#include <time.h>
#include <unistd.h>

#define BOUND_SECONDS 60 /* for what takes well below a second on a quiet machine */
#define QUICK_US 25000000
#define MOMENTS 10 /* of one course and one target */

/* --- random moments -------------------------------------------------------------------
 */

static uint64_t random_state;

static void seed(unsigned test)
{
    const char *given = getenv("SBX_SEED");
    random_state = given != NULL ? strtoull(given, NULL, 10) : sbx_clock_us();
    random_state = (random_state << 8 | test) & INT64_MAX;
}

/* Steele, Lea and Flood: SplitMix64. */
static uint64_t random_below(uint64_t bound)
{
    random_state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = random_state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return bound == 0 ? 0 : (z ^ (z >> 31)) % bound;
}

static void sleep_us(uint64_t us)
{
    struct timespec rest = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
    while (nanosleep(&rest, &rest) < 0 && errno == EINTR) {
    }
}

/* --- who is who -----------------------------------------------------------------------
 */

static int open_pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static int pidfd_signal(int pidfd, int signal_number)
{
    return (int)syscall(SYS_pidfd_send_signal, pidfd, signal_number, NULL, 0);
}

static bool has_name(pid_t pid, const char *name)
{
    char path[64];
    char text[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    ssize_t length = sbx_fd_read_text_at(AT_FDCWD, path, text, sizeof(text));
    return length > 0 && strncmp(text, name, strlen(name)) == 0 &&
           text[strlen(name)] == '\n';
}

/* The child of `parent` of that name, or 0. */
static pid_t child_named(pid_t parent, const char *name)
{
    char path[64];
    char list[4096];
    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent,
                   (int)parent);
    if (sbx_fd_read_text_at(AT_FDCWD, path, list, sizeof(list)) <= 0) {
        return 0;
    }
    char *rest = NULL;
    for (char *word = strtok_r(list, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        pid_t pid = (pid_t)strtol(word, NULL, 10);
        if (has_name(pid, name)) {
            return pid;
        }
    }
    return 0;
}

static bool is_ended(pid_t child)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
           info.si_pid == child;
}

/* Waits until `guard` has its monitor: a pidfd of it. -1 when the run was over sooner. */
static int await_monitor(const struct sbx_trial *trial, pid_t guard)
{
    uint64_t end_us = sbx_clock_us() + BOUND_SECONDS * SBX_US_PER_S;
    while (!is_ended(trial->pid)) {
        pid_t monitor = child_named(guard, "sbx-monitor");
        int pidfd = monitor > 0 ? open_pidfd(monitor) : -1;
        if (pidfd >= 0 && child_named(guard, "sbx-monitor") == monitor) {
            return pidfd; /* its child still: so the pidfd is of that process */
        }
        if (pidfd >= 0) {
            (void)close(pidfd);
        }
        ck_assert_msg(sbx_clock_us() < end_us, "the monitor does not appear");
        sleep_us(50);
    }
    return -1;
}

/* --- the end of everything ------------------------------------------------------------
 */

/* Reaps all that has come to us as orphans, until the kernel says that no child is left.
 */
static void await_no_children(const char *what)
{
    uint64_t end_us = sbx_clock_us() + BOUND_SECONDS * SBX_US_PER_S;
    sigset_t child;
    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &child, NULL);
    for (;;) {
        pid_t pid = waitpid(-1, NULL, WNOHANG | __WALL);
        if (pid < 0 && errno == ECHILD) {
            return;
        }
        ck_assert_msg(sbx_clock_us() < end_us, "processes are left: %s", what);
        if (pid == 0) {
            struct timespec bound = {0, 100000000};
            (void)sigtimedwait(&child, NULL, &bound);
        }
    }
}

/* The report is whole, the only file of ours, and there is nothing beside it. */
static void read_final_report(struct sbx_trial *trial, const char *what)
{
    SBX_AUTO_CLOSEDIR DIR *directory = opendir(trial->directory);
    ck_assert_ptr_nonnull(directory);
    int reports = 0;
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        const char *name = entry->d_name;
        bool dots = strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
        ck_assert_msg(dots || name[0] != '.', "a temporary file is left: %s: %s", name,
                      what);
        reports += strncmp(name, "report", 6) == 0 ? 1 : 0;
    }
    ck_assert_msg(reports == 1, "%d reports: %s", reports, what);
    char path[SBX_FIXTURE_PATH_SIZE];
    json_error_t error;
    json_decref(trial->report);
    trial->report = json_load_file(sbx_trial_path(trial, path, "report"),
                                   JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(trial->report != NULL, "report: %s: %s", error.text, what);
}

/* Nothing is left, and the report says so; but one that never heard of a leader, as the
 * monitor died before it could say that there is one, says nothing of an ending. */
static void expect_nothing_left(struct sbx_trial *trial, const char *what)
{
    const json_t *proof = sbx_trial_item(trial, "termination.proof");
    bool proved = json_is_string(proof) && strcmp(json_string_value(proof), "none") != 0;
    bool unheard = strcmp(sbx_trial_string(trial, "outcome"), "lost") == 0 &&
                   !sbx_trial_has(trial, "leader_pid");
    if (!proved && !unheard) {
        ck_abort_msg("no proof: %s: %s", what, json_dumps(trial->report, 0));
    }
    json_t *report = trial->report;
    trial->report = proved ? report : NULL;
    sbx_trial_expect_empty(trial);
    trial->report = report;
}

/* The run is over in every sense; then the report is there to be looked at. */
static void finish(struct sbx_trial *trial, const char *what)
{
    sbx_trial_wait(trial);
    await_no_children(what);
    read_final_report(trial, what);
    expect_nothing_left(trial, what);
    ck_assert_msg(trial->elapsed_us < QUICK_US, "it took too long: %s", what);
}

static const char *reason_of(const struct sbx_trial *trial)
{
    return sbx_trial_has(trial, "breach") ? sbx_trial_string(trial, "breach.reason") : "";
}

/* --- SIGKILL at random moments ---------------------------------------------------------
 */

static const struct course {
    const char *command[4];
    const char *options;
    const char *outcome; /* of a run that is left alone */
    const char *reason;
    int status;
} courses[] = {
    {{"@setsid_child"}, "--wall 0.15 --grace 0.1", "breach", "wall", 124},
    {{"@leaver"}, "--grace 0.1", "exited", "", 0},
    {{"@stubborn"}, "--wall 0.05 --grace 0.15", "breach", "wall", 124},
    {{"@hopper", "4"}, "--wall 0.1 --grace 0.1", "breach", "wall", 124},
    {{"sh", "-c", "exit 3"}, NULL, "exited", "", 3},
};
#define COURSE_COUNT (int)(sizeof(courses) / sizeof(courses[0]))

enum target { TARGET_GUARD, TARGET_MONITOR };

/* How long a run takes from the moment its monitor is seen until its report is there. */
static uint64_t measure(const struct course *course)
{
    struct sbx_trial trial = {.command = course->command, .options = course->options};
    char path[SBX_FIXTURE_PATH_SIZE];
    sbx_trial_start(&trial);
    int monitor = await_monitor(&trial, trial.pid);
    sbx_fd_drop(&monitor);
    uint64_t seen_us = sbx_clock_us();
    while (!is_ended(trial.pid) &&
           access(sbx_trial_path(&trial, path, "report"), F_OK) < 0) {
        sleep_us(50);
    }
    uint64_t span_us = sbx_clock_us() - seen_us;
    finish(&trial, "left alone");
    sbx_trial_expect(&trial, course->status, course->outcome,
                     course->reason[0] != '\0' ? course->reason : NULL);
    sbx_trial_done(&trial);
    return span_us;
}

/* Half of them anywhere, half near the report: there the hand-over is. */
static uint64_t random_moment(uint64_t span_us)
{
    uint64_t margin_us = span_us / 8 + 3000;
    if (random_below(2) == 0) {
        return random_below(span_us + margin_us);
    }
    uint64_t from_us = span_us > margin_us ? span_us - margin_us : 0;
    return from_us + random_below(2 * margin_us);
}

static void expect_course(const struct sbx_trial *trial, const struct course *course,
                          enum target target, const char *what)
{
    const char *outcome = sbx_trial_string(trial, "outcome");
    const char *reason = reason_of(trial);
    bool complete =
        strcmp(outcome, course->outcome) == 0 && strcmp(reason, course->reason) == 0;
    bool lost = target == TARGET_MONITOR && strcmp(outcome, "lost") == 0;
    bool guard_lost = target == TARGET_GUARD && strcmp(outcome, "breach") == 0 &&
                      strcmp(reason, "guard-lost") == 0;
    ck_assert_msg(complete || lost || guard_lost, "outcome %s, reason %s: %s", outcome,
                  reason, what);
    int expected = lost ? 125 : course->status;
    bool killed = target == TARGET_GUARD && trial->status == 128 + SIGKILL;
    ck_assert_msg(killed || trial->status == expected, "status %d, outcome %s: %s",
                  trial->status, outcome, what);
    ck_assert_msg(!guard_lost || killed, "guard-lost, but it lived: %s", what);
}

static void kill_once(const struct course *course, enum target target, uint64_t span_us)
{
    char what[160];
    uint64_t state = random_state;
    uint64_t moment_us = random_moment(span_us);
    (void)snprintf(
        what, sizeof(what), "%s killed after %llu us, of %s (random state %llu)",
        target == TARGET_GUARD ? "guard" : "monitor", (unsigned long long)moment_us,
        course->command[0], (unsigned long long)state);
    struct sbx_trial trial = {
        .command = course->command, .options = course->options, .seconds = BOUND_SECONDS};
    sbx_trial_start(&trial);
    SBX_AUTO_CLOSE int monitor = await_monitor(&trial, trial.pid);
    sleep_us(moment_us);
    if (target == TARGET_GUARD) {
        ck_assert_int_eq(kill(trial.pid, SIGKILL), 0); /* un-reaped, if only a zombie */
    } else if (monitor >= 0) {
        (void)pidfd_signal(monitor, SIGKILL);
    }
    finish(&trial, what);
    expect_course(&trial, course, target, what);
    sbx_trial_done(&trial);
}

START_TEST(a_kill_at_any_moment_leaves_no_stray_and_a_report)
{
    const struct course *course = &courses[_i / 2];
    enum target target = _i % 2 == 0 ? TARGET_GUARD : TARGET_MONITOR;
    int moments = getenv("SBX_LONG") != NULL ? 5 * MOMENTS : MOMENTS;
    seed((unsigned)_i);
    uint64_t span_us = measure(course);
    for (int i = 0; i < moments; i++) {
        kill_once(course, target, span_us);
    }
}
END_TEST

/* --- one of them stopped ---------------------------------------------------------------
 */

static const char *const sleeper[] = {"@setsid_child", NULL};

static void start_up(struct sbx_trial *trial)
{
    trial->seconds = BOUND_SECONDS;
    sbx_trial_start(trial);
    sbx_trial_wait_output(trial, "up ", BOUND_SECONDS);
}

static void stop_guard(const struct sbx_trial *trial)
{
    siginfo_t info;
    ck_assert_int_eq(kill(trial->pid, SIGSTOP), 0);
    ck_assert_int_eq(waitid(P_PID, (id_t)trial->pid, &info, WSTOPPED), 0);
    ck_assert_int_eq(info.si_code, CLD_STOPPED);
}

/* The pid of the line "up PID". */
static pid_t up_pid(const struct sbx_trial *trial)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char text[256];
    ck_assert_int_gt(sbx_fd_read_text_at(AT_FDCWD, sbx_trial_path(trial, path, "out"),
                                         text, sizeof(text)),
                     0);
    const char *up = strstr(text, "up ");
    ck_assert_ptr_nonnull(up);
    return (pid_t)strtol(up + 3, NULL, 10);
}

static void await_end(int pidfd, const char *what)
{
    struct pollfd fd = {.fd = pidfd, .events = POLLIN};
    ck_assert_msg(poll(&fd, 1, BOUND_SECONDS * 1000) == 1, "%s has not ended", what);
}

START_TEST(a_stopped_guard_does_not_hold_the_limit)
{
    struct sbx_trial trial = {.command = sleeper, .options = "--wall 1.5 --grace 0.2"};
    start_up(&trial);
    SBX_AUTO_CLOSE int member = open_pidfd(up_pid(&trial));
    ck_assert_int_ge(member, 0);
    stop_guard(&trial);
    await_end(member, "the tree");
    if (_i == 1) {
        ck_assert_int_eq(kill(trial.pid, SIGCONT), 0);
    } /* else the monitor continues it */
    finish(&trial, "guard stopped");
    sbx_trial_expect(&trial, 124, "breach", "wall");
    sbx_trial_done(&trial);
}
END_TEST

static bool has_ended(pid_t pid)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == pid;
}

/* Stops the guard again whenever the monitor continues it, until the monitor is gone.
 * False when the guard was quicker: a moment was enough for it to publish and exit. */
static bool hold_guard(const struct sbx_trial *trial, int monitor)
{
    uint64_t end_us = sbx_clock_us() + BOUND_SECONDS * SBX_US_PER_S;
    struct pollfd gone = {.fd = monitor, .events = POLLIN};
    while (poll(&gone, 1, 0) == 0) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)trial->pid, &info, WCONTINUED | WNOHANG) == 0 &&
            info.si_pid == trial->pid) {
            (void)kill(trial->pid, SIGSTOP);
        }
        ck_assert_msg(sbx_clock_us() < end_us, "the monitor does not end");
        sleep_us(100);
    }
    return !has_ended(trial->pid);
}

/* Stopped again whenever it is continued: the monitor publishes by itself. */
START_TEST(a_guard_stopped_for_ever_does_not_hold_the_report)
{
    bool held = false;
    for (int attempt = 0; attempt < 20 && !held; attempt++) {
        struct sbx_trial trial = {.command = sleeper,
                                  .options = "--wall 1.5 --grace 0.2"};
        char path[SBX_FIXTURE_PATH_SIZE];
        start_up(&trial);
        SBX_AUTO_CLOSE int monitor = await_monitor(&trial, trial.pid);
        ck_assert_int_ge(monitor, 0);
        stop_guard(&trial);
        bool alive = hold_guard(&trial, monitor);
        ck_assert_int_eq(access(sbx_trial_path(&trial, path, "report"), F_OK), 0);
        if (alive) {
            ck_assert_int_eq(kill(trial.pid, SIGKILL), 0);
        }
        finish(&trial, "guard stopped for ever");
        held = trial.status == 128 + SIGKILL; /* else it was on its way out already */
        sbx_trial_expect(&trial, held ? 128 + SIGKILL : 124, "breach", "wall");
        sbx_trial_done(&trial);
    }
    ck_assert_msg(held, "the guard could never be held");
}
END_TEST

START_TEST(a_guard_continued_late_does_not_publish_again)
{
    struct sbx_trial trial = {.command = sleeper, .options = "--wall 1.5 --grace 0.2"};
    char path[SBX_FIXTURE_PATH_SIZE];
    struct stat first;
    struct stat last;
    start_up(&trial);
    SBX_AUTO_CLOSE int monitor = await_monitor(&trial, trial.pid);
    ck_assert_int_ge(monitor, 0);
    stop_guard(&trial);
    struct pollfd gone = {.fd = monitor, .events = POLLIN};
    uint64_t end_us = sbx_clock_us() + BOUND_SECONDS * SBX_US_PER_S;
    while (poll(&gone, 1, 0) == 0) {
        (void)kill(trial.pid, SIGSTOP);
        ck_assert_msg(sbx_clock_us() < end_us, "the monitor does not end");
        sleep_us(200);
    }
    ck_assert_int_eq(stat(sbx_trial_path(&trial, path, "report"), &first), 0);
    ck_assert_int_eq(kill(trial.pid, SIGCONT), 0);
    finish(&trial, "guard continued late");
    sbx_trial_expect(&trial, 124, "breach", "wall");
    ck_assert_int_eq(stat(path, &last), 0);
    ck_assert_uint_eq(first.st_ino, last.st_ino);
    sbx_trial_done(&trial);
}
END_TEST

/* Both are stopped, and somebody loses patience with the one that he knows. */
START_TEST(a_guard_killed_while_both_are_stopped_leaves_no_stray)
{
    struct sbx_trial trial = {.command = sleeper, .options = "--wall 1.5 --grace 0.2"};
    start_up(&trial);
    SBX_AUTO_CLOSE int monitor = await_monitor(&trial, trial.pid);
    ck_assert_int_ge(monitor, 0);
    stop_guard(&trial);
    ck_assert_int_eq(pidfd_signal(monitor, SIGSTOP), 0);
    ck_assert_int_eq(kill(trial.pid, SIGKILL), 0);
    await_end(monitor, "the monitor");
    finish(&trial, "both stopped");
    ck_assert_int_eq(trial.status, 128 + SIGKILL);
    ck_assert_str_eq(sbx_trial_string(&trial, "outcome"), "breach");
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(a_stopped_monitor_is_continued)
{
    struct sbx_trial trial = {.command = sleeper, .options = "--wall 1.5 --grace 0.2"};
    start_up(&trial);
    SBX_AUTO_CLOSE int monitor = await_monitor(&trial, trial.pid);
    ck_assert_int_ge(monitor, 0);
    ck_assert_int_eq(pidfd_signal(monitor, SIGSTOP), 0);
    finish(&trial, "monitor stopped");
    sbx_trial_expect(&trial, 124, "breach", "wall");
    sbx_trial_done(&trial);
}
END_TEST

/* Somebody who stops the monitor all the time, until it is gone. */
static pid_t start_tormentor(int monitor, uint64_t pause_us)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void)alarm(BOUND_SECONDS);
        while (pidfd_signal(monitor, SIGSTOP) == 0) {
            sleep_us(pause_us);
        }
        _exit(0);
    }
    return pid;
}

static const uint64_t torments_us[] = {0, 20, 500};
#define TORMENT_COUNT (int)(sizeof(torments_us) / sizeof(torments_us[0]))

/* Either it gets enough done in between, or the guard does its work in the end. */
START_TEST(a_monitor_stopped_again_and_again_ends_all_the_same)
{
    struct sbx_trial trial = {.command = sleeper, .options = "--wall 1.5 --grace 0.2"};
    start_up(&trial);
    SBX_AUTO_CLOSE int monitor = await_monitor(&trial, trial.pid);
    ck_assert_int_ge(monitor, 0);
    pid_t tormentor = start_tormentor(monitor, torments_us[_i]);
    sbx_trial_wait(&trial);
    ck_assert_int_eq(waitpid(tormentor, NULL, 0), tormentor);
    await_no_children("monitor tormented");
    read_final_report(&trial, "monitor tormented");
    sbx_trial_expect_empty(&trial);
    bool lost = strcmp(sbx_trial_string(&trial, "outcome"), "lost") == 0;
    if (!lost) {
        sbx_trial_expect(&trial, 124, "breach", "wall");
    }
    ck_assert_int_eq(trial.status, lost ? 125 : 124);
    ck_assert_uint_lt(trial.elapsed_us, QUICK_US);
    sbx_trial_done(&trial);
}
END_TEST

/* --- the caller's end ------------------------------------------------------------------
 */

/* A shell that stays while sbx-watch runs: the caller. */
static const char *const calling_shell[] = {"sh", "-c", "\"$@\" & wait", "sh", NULL};

START_TEST(a_bound_run_ends_with_its_caller)
{
    struct sbx_trial trial = {.command = sleeper,
                              .launcher = calling_shell,
                              .options = "--die-with-parent --grace 0.2"};
    start_up(&trial);
    ck_assert_int_eq(kill(trial.pid, SIGKILL), 0);
    finish(&trial, "caller killed");
    sbx_trial_expect(&trial, 128 + SIGKILL, "breach", "caller-lost");
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(a_run_that_is_not_bound_lives_on)
{
    const char *const command[] = {
        "sh", "-c",   "echo up .; while [ ! -e \"$1\" ]; do sleep 0.01; done; exit 5",
        "sh", "@/go", NULL};
    struct sbx_trial trial = {
        .command = command, .launcher = calling_shell, .options = "--wall 50"};
    char path[SBX_FIXTURE_PATH_SIZE];
    start_up(&trial);
    ck_assert_int_eq(kill(trial.pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(trial.pid, NULL, 0), trial.pid);
    ck_assert_int_eq(access(sbx_trial_path(&trial, path, "report"), F_OK), -1);
    ck_assert_int_eq(mkdir(sbx_trial_path(&trial, path, "go"), 0700), 0);
    await_no_children("caller gone");
    read_final_report(&trial, "caller gone");
    sbx_trial_expect_empty(&trial);
    ck_assert_str_eq(sbx_trial_string(&trial, "outcome"), "exited");
    ck_assert_int_eq(sbx_trial_integer(&trial, "exit_code"), 5);
    sbx_trial_done(&trial);
}
END_TEST

/* --- below a front ---------------------------------------------------------------------
 */

/* One that has a child already when it becomes sbx-watch. */
static const char *const bystander_shell[] = {
    "sh", "-c", "sleep 50 >/dev/null 2>&1 & echo bystander $!; exec \"$@\"", "sh", NULL};

static pid_t await_guard(const struct sbx_trial *trial)
{
    uint64_t end_us = sbx_clock_us() + BOUND_SECONDS * SBX_US_PER_S;
    pid_t guard;
    while ((guard = child_named(trial->pid, "sbx-watch")) == 0) {
        ck_assert_msg(sbx_clock_us() < end_us, "no guard below the front");
        sleep_us(100);
    }
    return guard;
}

/* Not ended, not waited for; then ended by us. */
static void end_bystander(const struct sbx_trial *trial)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char text[256];
    ck_assert_int_gt(sbx_fd_read_text_at(AT_FDCWD, sbx_trial_path(trial, path, "out"),
                                         text, sizeof(text)),
                     0);
    pid_t bystander = 0;
    ck_assert_int_eq(sscanf(text, "bystander %d", &bystander), 1);
    ck_assert_int_eq(waitpid(bystander, NULL, WNOHANG), 0);
    ck_assert_int_eq(kill(bystander, SIGKILL), 0);
    ck_assert_int_eq(waitpid(bystander, NULL, 0), bystander);
}

enum below { BELOW_FRONT, BELOW_GUARD, BELOW_MONITOR };

static const struct below_row {
    enum below killed;
    int status;
    const char *outcome;
    const char *reason;
} below_rows[] = {
    {BELOW_FRONT, 128 + SIGKILL, "breach", "guard-lost"},
    {BELOW_GUARD, 125, "breach", "guard-lost"},
    {BELOW_MONITOR, 125, "lost", NULL},
};
#define BELOW_COUNT (int)(sizeof(below_rows) / sizeof(below_rows[0]))

START_TEST(any_of_three_may_be_killed)
{
    const struct below_row *row = &below_rows[_i];
    struct sbx_trial trial = {
        .command = sleeper, .launcher = bystander_shell, .options = "--grace 0.2"};
    start_up(&trial);
    pid_t guard = await_guard(&trial);
    SBX_AUTO_CLOSE int guard_fd = open_pidfd(guard);
    SBX_AUTO_CLOSE int monitor = await_monitor(&trial, guard);
    ck_assert(guard_fd >= 0 && monitor >= 0);
    if (row->killed == BELOW_FRONT) {
        ck_assert_int_eq(kill(trial.pid, SIGKILL), 0);
    } else {
        ck_assert_int_eq(
            pidfd_signal(row->killed == BELOW_GUARD ? guard_fd : monitor, SIGKILL), 0);
    }
    sbx_trial_wait(&trial);
    await_end(guard_fd, "the guard");
    await_end(monitor, "the monitor");
    end_bystander(&trial);
    await_no_children("killed below a front");
    read_final_report(&trial, "killed below a front");
    sbx_trial_expect_empty(&trial);
    sbx_trial_expect(&trial, row->status, row->outcome, row->reason);
    ck_assert_uint_lt(trial.elapsed_us, QUICK_US);
    sbx_trial_done(&trial);
}
END_TEST

/* --- signals ---------------------------------------------------------------------------
 */

static void lead_group(const struct sbx_trial *trial)
{
    (void)trial;
    if (setpgid(0, 0) < 0) {
        _exit(1);
    }
}

static int count_of(const char *text, const char *what)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++) {
        count++;
    }
    return count;
}

/* What follows a first signal: the command is told once, has its grace, and can still be
 * talked to. */
static void expect_counted_once(struct sbx_trial *trial)
{
    sbx_trial_wait_output(trial, "got 15\n", BOUND_SECONDS);
    ck_assert_int_eq(kill(trial->pid, SIGUSR2), 0);
    sbx_trial_wait(trial);
    await_no_children("signal to the group"); /* which the bystander had too */
    sbx_trial_expect(trial, 143, "cancelled", NULL);
    ck_assert_int_eq(sbx_trial_integer(trial, "exit_code"), 42);
    ck_assert_int_eq(count_of(trial->out, "got 15\n"), 1);
    ck_assert_int_eq(count_of(trial->out, "got 12\n"), 1);
    sbx_trial_done(trial);
}

/* As a shell's `kill %1` does it: everybody in the group gets it at once. */
START_TEST(a_signal_to_the_whole_group_counts_once)
{
    const char *const command[] = {"@tty_probe", "--keep-term", NULL};
    for (int i = 0; i < 15; i++) {
        struct sbx_trial trial = {.command = command,
                                  .launcher = _i == 1 ? bystander_shell : NULL,
                                  .prepare = lead_group,
                                  .options = "--grace 50"};
        start_up(&trial);
        ck_assert_int_eq(kill(-trial.pid, SIGTERM), 0);
        expect_counted_once(&trial);
    }
}
END_TEST

START_TEST(an_early_signal_to_the_whole_group_counts_once)
{
    const char *const command[] = {"@trap", NULL};
    for (uint64_t delay_us = 0; delay_us < 8000; delay_us += 100) {
        struct sbx_trial trial = {.command = command,
                                  .prepare = lead_group,
                                  .options = "--grace 50",
                                  .seconds = BOUND_SECONDS};
        sbx_trial_start(&trial);
        (void)setpgid(trial.pid, trial.pid); /* either of us is first */
        sleep_us(delay_us);
        ck_assert_int_eq(kill(-trial.pid, SIGTERM), 0);
        sbx_trial_wait(&trial);
        sbx_trial_expect(&trial, 143, NULL, NULL);
        sbx_trial_expect_empty(&trial);
        if (trial.report != NULL) {
            ck_assert_msg(!sbx_trial_boolean(&trial, "termination.escalated"),
                          "counted twice after %d us", (int)delay_us);
        }
        sbx_trial_done(&trial);
    }
}
END_TEST

static const int passed[] = {SIGUSR2, SIGWINCH, SIGCONT};
#define PASSED_COUNT (int)(sizeof(passed) / sizeof(passed[0]))

START_TEST(a_signal_for_the_command_is_passed_on_once)
{
    const char *const command[] = {"@tty_probe", "--late", NULL};
    int number = passed[_i / 2];
    bool below_front = _i % 2 == 1;
    char got[32];
    (void)snprintf(got, sizeof(got), "got %d", number);
    struct sbx_trial trial = {
        .command = command,
        .launcher = below_front ? bystander_shell : NULL,
        .prepare = lead_group,
    };
    start_up(&trial);
    ck_assert_int_eq(kill(-trial.pid, number), 0);
    sbx_trial_wait_output(&trial, got, BOUND_SECONDS);
    ck_assert_int_eq(kill(trial.pid, SIGTERM), 0);
    sbx_trial_wait(&trial);
    if (below_front) {
        if (number == SIGUSR2) {
            await_no_children("the bystander had it too");
        } else {
            end_bystander(&trial);
        }
    }
    await_no_children("signal passed on");
    sbx_trial_expect(&trial, 143, "cancelled", NULL);
    /* SIGCONT comes with the polite signal as well; by then the probe has ended. */
    ck_assert_msg(count_of(trial.out, got) == 1, "%s", trial.out);
    sbx_trial_done(&trial);
}
END_TEST

/* --- a reader that waits for us --------------------------------------------------------
 */

/* A full pipe on stderr, and nobody reads until sbx-watch has ended: as a program that
 * waits first and reads then. */
START_TEST(a_full_stderr_does_not_hold_the_end)
{
    int ends[2];
    char block[4096] = {0};
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    while (write(ends[1], block, sizeof(block)) > 0) {
    }
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_int_eq(fcntl(ends[1], F_SETFL, O_WRONLY), 0);
    struct sbx_trial trial = {.command = sleeper,
                              .options = "--wall 1.5 --grace 0.2",
                              .stdio = {0, 0, ends[1]}};
    start_up(&trial);
    finish(&trial, "stderr full");
    sbx_trial_expect(&trial, 124, "breach", "wall");
    (void)close(ends[0]);
    (void)close(ends[1]);
    sbx_trial_done(&trial);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pair");
    TCase *kills = sbx_fixture_case(suite, "kills", 250);
    tcase_add_loop_test(kills, a_kill_at_any_moment_leaves_no_stray_and_a_report, 0,
                        2 * COURSE_COUNT);
    TCase *stops = sbx_fixture_case(suite, "stops", 120);
    tcase_add_loop_test(stops, a_stopped_guard_does_not_hold_the_limit, 0, 2);
    tcase_add_test(stops, a_guard_stopped_for_ever_does_not_hold_the_report);
    tcase_add_test(stops, a_guard_continued_late_does_not_publish_again);
    tcase_add_test(stops, a_guard_killed_while_both_are_stopped_leaves_no_stray);
    tcase_add_test(stops, a_stopped_monitor_is_continued);
    tcase_add_loop_test(stops, a_monitor_stopped_again_and_again_ends_all_the_same, 0,
                        TORMENT_COUNT);
    TCase *callers = sbx_fixture_case(suite, "callers", 120);
    tcase_add_test(callers, a_bound_run_ends_with_its_caller);
    tcase_add_test(callers, a_run_that_is_not_bound_lives_on);
    tcase_add_loop_test(callers, any_of_three_may_be_killed, 0, BELOW_COUNT);
    TCase *signals = sbx_fixture_case(suite, "signals", 200);
    tcase_add_loop_test(signals, a_signal_to_the_whole_group_counts_once, 0, 2);
    tcase_add_test(signals, an_early_signal_to_the_whole_group_counts_once);
    tcase_add_loop_test(signals, a_signal_for_the_command_is_passed_on_once, 0,
                        2 * PASSED_COUNT);
    tcase_add_test(signals, a_full_stderr_does_not_hold_the_end);
    return sbx_fixture_run(suite);
}
