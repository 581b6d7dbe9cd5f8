/*
 * test_library.c - what a run of the library does to its caller: nothing. And what the
 * caller's end does to the run: it ends it.
 *
 * Threads, a SIGCHLD handler, children of its own, ignored SIGCHLD, a subreaper, closed
 * standard streams, descriptors that are not close-on-exec. What calls return is in
 * test_library_calls.c.
 */
#include "tests/library_kit.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define CASE_SECONDS 120

/* --- a threaded caller with children and a handler of its own ------------------------
 */

#define OWN_CHILDREN 3
#define SEEN_MAX 64
#define SIGNALS 65

static _Atomic int seen_count;
static _Atomic pid_t seen_pids[SEEN_MAX];

static void on_child(int signal_number, siginfo_t *info, void *context)
{
    (void)signal_number;
    (void)context;
    int at = atomic_fetch_add(&seen_count, 1);
    if (at < SEEN_MAX) {
        atomic_store(&seen_pids[at], info->si_pid);
    }
}

struct own_child {
    pid_t pid;
    int release; /* it ends when something is written there */
};

static void make_child(struct own_child *child, int code)
{
    int ends[2];
    LIBRARY_WANT(pipe2(ends, O_CLOEXEC) == 0, "pipe2");
    child->pid = fork();
    LIBRARY_WANT(child->pid >= 0, "fork");
    if (child->pid == 0) {
        char byte;
        (void)close(ends[1]);
        _exit(read(ends[0], &byte, 1) == 1 ? code : 99);
    }
    (void)close(ends[0]);
    child->release = ends[1];
}

/* One run of many, and how it has to end. */
struct job {
    const char *options;
    const char *script; /* NULL: a command that does not exist */
    const char *outcome;
    const char *reason;
    int status;
};

static const struct job jobs[] = {
    {"wall=60", "exit 0", "exited", NULL, 0},
    {"wall=60", "exit 7", "exited", NULL, 7},
    {"wall=60", "kill -KILL $$", "signaled", NULL, 137},
    {"wall=300ms grace=5s", "sleep 60", "breach", "wall", 124},
    {"wall=60 cpu=200ms", "while :; do :; done", "breach", "cpu", 124},
    {"wall=60 processes=4", "for i in 1 2 3 4 5 6; do sleep 60 & done; wait", "breach",
     "processes", 124},
    {"wall=60", NULL, "launch-failed", NULL, 127},
    {"wall=60 rlimit=nofile=32", "exit $(ulimit -n)", "exited", NULL, 32},
    {"wall=60", "setsid sleep 60 & exit 3", "exited", NULL, 3},
    {"wall=60 pid-namespace", "setsid sleep 60 & exit $(($$ + 40))", "exited", NULL, 42},
    {"wall=300ms grace=100ms pid-namespace backend=proc", "trap '' TERM; sleep 60",
     "breach", "wall", 124},
    {"wall=60 breach-status=9 threads=3",
     "sleep 60 & sleep 60 & sleep 60 & sleep 60 & wait", "breach", "threads", 9},
};
#define JOB_COUNT (sizeof jobs / sizeof jobs[0])

static void expect_job(const struct job *job, const struct sbx_result *result)
{
    LIBRARY_WANT(result->report != NULL, "%s", job->options);
    LIBRARY_WANT(strcmp(result->outcome, job->outcome) == 0, "%s: %s%s", job->options,
                 result->outcome, result->report);
    LIBRARY_WANT(result->status == job->status, "%s: %d", job->options, result->status);
    LIBRARY_WANT((job->reason == NULL) == (result->reason == NULL) &&
                     (job->reason == NULL || strcmp(result->reason, job->reason) == 0),
                 "%s: another reason", job->options);
    LIBRARY_WANT(library_is_proved(result->report) ||
                     strcmp(job->outcome, "launch-failed") == 0,
                 "%s: %s", job->options, result->report);
}

static void *do_job(void *context)
{
    const struct job *job = context;
    const char *const missing[] = {"/nonexistent/command", NULL};
    struct sbx_error error = {0};
    struct sbx_run *run = NULL;
    struct sbx_spec *spec = job->script != NULL
                                ? library_script(job->options, job->script)
                                : library_spec(job->options, missing);
    LIBRARY_WANT(sbx_run(spec, &run, &error) == 0, "%s", error.message);
    sbx_spec_free(spec);
    expect_job(job, sbx_run_result(run));
    sbx_run_free(run);
    return NULL;
}

static void do_jobs(void)
{
    pthread_t threads[JOB_COUNT];
    for (size_t i = 0; i < JOB_COUNT; i++) {
        struct job *job = (struct job *)(uintptr_t)&jobs[i];
        LIBRARY_WANT(pthread_create(&threads[i], NULL, do_job, job) == 0, "thread");
    }
    for (size_t i = 0; i < JOB_COUNT; i++) {
        (void)pthread_join(threads[i], NULL);
    }
}

/* One after the other, so that no SIGCHLD stands for two. */
static void end_child(struct own_child *child, int code, int expected_count)
{
    int status = 0;
    LIBRARY_WANT(waitpid(child->pid, &status, WNOHANG) == 0, "a child is gone");
    LIBRARY_WANT(write(child->release, "", 1) == 1, "write");
    (void)close(child->release);
    while (waitpid(child->pid, &status, 0) < 0) {
        LIBRARY_WANT(errno == EINTR, "waitpid: %s", strerror(errno));
    }
    LIBRARY_WANT(WIFEXITED(status) && WEXITSTATUS(status) == code, "%#x",
                 (unsigned)status);
    LIBRARY_WANT(atomic_load(&seen_count) == expected_count, "%d",
                 atomic_load(&seen_count));
    LIBRARY_WANT(atomic_load(&seen_pids[expected_count - 1]) == child->pid, "pid");
}

/* What of a process a library could change. */
struct state {
    sigset_t mask;
    struct sigaction actions[SIGNALS];
    int subreaper;
    mode_t umask;
    pid_t group;
    size_t fds;
};

static void read_state(struct state *state)
{
    *state = (struct state){.group = getpgrp()};
    (void)pthread_sigmask(SIG_SETMASK, NULL, &state->mask);
    for (int i = 1; i < SIGNALS; i++) {
        (void)sigaction(i, NULL, &state->actions[i]);
    }
    (void)prctl(PR_GET_CHILD_SUBREAPER, &state->subreaper, 0, 0, 0);
    state->umask = umask(0);
    (void)umask(state->umask);
    state->fds = library_count_fds();
}

static void expect_same_state(const struct state *before)
{
    struct state after;
    read_state(&after);
    for (int i = 1; i < SIGNALS; i++) {
        LIBRARY_WANT(sigismember(&after.mask, i) == sigismember(&before->mask, i),
                     "signal %d in the mask", i);
        LIBRARY_WANT(after.actions[i].sa_sigaction == before->actions[i].sa_sigaction &&
                         after.actions[i].sa_flags == before->actions[i].sa_flags,
                     "disposition of signal %d", i);
    }
    LIBRARY_WANT(after.subreaper == before->subreaper, "%d", after.subreaper);
    LIBRARY_WANT(after.umask == before->umask, "%o", after.umask);
    LIBRARY_WANT(after.group == before->group, "%d", after.group);
    LIBRARY_WANT(after.fds == before->fds, "%zu instead of %zu", after.fds, before->fds);
}

static void set_signals(void)
{
    struct sigaction action = {.sa_sigaction = on_child, .sa_flags = SA_SIGINFO};
    sigset_t blocked;
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGCHLD, &action, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigemptyset(&blocked);
    (void)sigaddset(&blocked, SIGUSR2);
    (void)pthread_sigmask(SIG_BLOCK, &blocked, NULL);
}

static int threaded_caller(void *context)
{
    struct own_child children[OWN_CHILDREN];
    struct state before;
    (void)context;
    set_signals();
    for (int i = 0; i < OWN_CHILDREN; i++) {
        make_child(&children[i], 20 + i);
    }
    read_state(&before);
    do_jobs();
    LIBRARY_WANT(atomic_load(&seen_count) == 0, "%d signals of strangers",
                 atomic_load(&seen_count));
    expect_same_state(&before);
    for (int i = 0; i < OWN_CHILDREN; i++) {
        end_child(&children[i], 20 + i, i + 1);
    }
    LIBRARY_WANT(library_has_no_child(), "a child is left");
    return 0;
}

START_TEST(a_threaded_caller_keeps_its_children_signals_and_descriptors)
{
    library_expect_success(library_fork(threaded_caller, NULL));
    library_expect_no_child(30);
}
END_TEST

/* --- callers that are parents of their orphans, or do not care for children -----------
 */

START_TEST(a_subreaper_is_left_without_a_child)
{
    struct sbx_error error = {0};
    for (int i = 0; i < 3; i++) {
        struct sbx_run *run = NULL;
        struct sbx_spec *spec = library_script("wall=60", "exit 5");
        ck_assert_msg(sbx_run(spec, &run, &error) == 0, "%s", error.message);
        ck_assert_int_eq(sbx_run_result(run)->status, 5);
        ck_assert_msg(library_has_no_child(), "the guard was not reaped");
        sbx_run_free(run);
        sbx_spec_free(spec);
    }
}
END_TEST

/* Somebody else reaps whatever comes: the run does not need it. */
START_TEST(a_subreaper_may_reap_the_guard_itself)
{
    struct sbx_run *run = library_start(library_script("wall=60", "exit 6"));
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR) {
        continue;
    }
    ck_assert_int_eq(errno, ECHILD);
    ck_assert_int_eq(sbx_run_wait(run, LIBRARY_LONG_US), 0);
    ck_assert_int_eq(sbx_run_result(run)->status, 6);
    sbx_run_free(run);
}
END_TEST

struct careless {
    bool no_wait_flag; /* SA_NOCLDWAIT, else SIG_IGN */
    bool subreaper;
};

static int careless_caller(void *context)
{
    const struct careless *careless = context;
    struct sigaction action = {.sa_handler = careless->no_wait_flag ? SIG_DFL : SIG_IGN,
                               .sa_flags = careless->no_wait_flag ? SA_NOCLDWAIT : 0};
    struct state before;
    LIBRARY_WANT(sigaction(SIGCHLD, &action, NULL) == 0, "sigaction");
    if (careless->subreaper) {
        LIBRARY_WANT(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0, "prctl");
    }
    read_state(&before);
    do_job((struct job *)(uintptr_t)&jobs[1]);
    do_job((struct job *)(uintptr_t)&jobs[8]);
    expect_same_state(&before);
    LIBRARY_WANT(library_has_no_child(), "a child is left");
    return 0;
}

START_TEST(a_caller_may_ignore_sigchld)
{
    struct careless careless = {.no_wait_flag = (_i & 1) != 0,
                                .subreaper = (_i & 2) != 0};
    library_expect_success(library_fork(careless_caller, &careless));
    library_expect_no_child(30);
}
END_TEST

static int bare_caller(void *context)
{
    (void)context;
    (void)close(0);
    (void)close(1);
    struct state before;
    read_state(&before);
    struct sbx_run *run =
        library_start(library_script("wall=60", "echo out; cat && exit 4"));
    LIBRARY_WANT(sbx_run_fd(run) > 2, "%d", sbx_run_fd(run));
    LIBRARY_WANT(sbx_run_wait(run, LIBRARY_LONG_US) == 0, "late");
    LIBRARY_WANT(sbx_run_result(run)->status == 4, "%s", sbx_run_result(run)->report);
    sbx_run_free(run);
    expect_same_state(&before);
    return 0;
}

START_TEST(a_caller_may_have_closed_its_standard_streams)
{
    library_expect_success(library_fork(bare_caller, NULL));
    library_expect_no_child(30);
}
END_TEST

/* --- descriptors -----------------------------------------------------------------------
 */

/* Nobody but the caller has the other end of a pipe, although it is not close-on-exec. */
START_TEST(no_descriptor_of_the_caller_stays_in_a_run)
{
    int ends[2];
    char byte;
    char up[SBX_FIXTURE_PATH_SIZE];
    char script[SBX_FIXTURE_PATH_SIZE + 64];
    ck_assert_int_eq(pipe(ends), 0); /* NOLINT(android-cloexec-pipe): on purpose */
    (void)snprintf(script, sizeof script, "echo $$ >%s; exec sleep 60",
                   sbx_fixture_path(up, "up"));
    struct sbx_run *run = library_start(library_script("wall=60", script));
    ck_assert(library_file_comes(up, 30));
    (void)close(ends[1]);
    struct pollfd fd = {.fd = ends[0], .events = POLLIN};
    ck_assert_msg(poll(&fd, 1, 10000) == 1 && read(ends[0], &byte, 1) == 0,
                  "somebody holds it");
    (void)close(ends[0]);
    ck_assert_int_eq(sbx_run_cancel(run), 0);
    ck_assert_int_eq(sbx_run_wait(run, LIBRARY_LONG_US), 0);
    sbx_run_free(run);
}
END_TEST

START_TEST(a_command_gets_what_it_is_to_keep_and_nothing_else)
{
    char out[SBX_FIXTURE_PATH_SIZE];
    char helper[SBX_FIXTURE_PATH_SIZE];
    char kept[64];
    char options[64];
    char text[4096];
    int number;
    int fds[6];
    for (int i = 0; i < 6; i += 2) {
        ck_assert_int_eq(pipe2(fds + i, i == 2 ? O_CLOEXEC : 0), 0);
    }
    const char *const command[] = {sbx_fixture_helper(helper, "print_fds"),
                                   sbx_fixture_path(out, "fds"), NULL};
    (void)snprintf(options, sizeof options, "wall=60 keep-fd=%d", fds[2]);
    struct sbx_run *run = library_start(library_spec(options, command));
    ck_assert_int_eq(sbx_run_wait(run, LIBRARY_LONG_US), 0);
    ck_assert_int_eq(sbx_run_result(run)->status, 0);
    ck_assert_int_gt(sbx_fd_read_text_at(AT_FDCWD, out, text, sizeof text), 0);
    (void)snprintf(kept, sizeof kept, "\n%d pipe:", fds[2]);
    ck_assert_msg(strstr(text, kept) != NULL, "%s", text);
    int lines = 0;
    for (const char *line = text; sscanf(line, "%d", &number) == 1; lines++) {
        ck_assert_msg(number <= 2 || number == fds[2], "%s", text);
        line = strchr(line, '\n') + 1;
    }
    ck_assert_int_eq(lines, 4);
    sbx_run_free(run);
    for (int i = 0; i < 6; i++) {
        (void)close(fds[i]);
    }
}
END_TEST

/* --- the caller's end ------------------------------------------------------------------
 */

struct doomed {
    char up[SBX_FIXTURE_PATH_SIZE];
    char report[SBX_FIXTURE_PATH_SIZE];
    bool with_heir; /* a child of the caller's holds its descriptors and outlives it */
    bool freed;     /* it lets go of the run itself, and lives on for a while */
    int heir_ends;  /* read end: until the test is over */
};

static struct sbx_run *start_doomed(const struct doomed *doomed)
{
    char options[SBX_FIXTURE_PATH_SIZE + 64];
    char script[SBX_FIXTURE_PATH_SIZE + 96];
    (void)snprintf(options, sizeof options, "wall=60 grace=200ms report=%s",
                   doomed->report);
    (void)snprintf(
        script, sizeof script,
        "setsid sh -c 'trap \"\" TERM; echo $$ >%s; sleep 60; sleep 60' & wait",
        doomed->up);
    return library_start(library_script(options, script));
}

static int doomed_caller(void *context)
{
    struct doomed *doomed = context;
    char byte;
    struct sbx_run *run = start_doomed(doomed);
    if (doomed->with_heir && fork() == 0) {
        (void)!read(doomed->heir_ends, &byte, 1);
        _exit(0);
    }
    if (doomed->freed) {
        LIBRARY_WANT(library_file_comes(doomed->up, 30), "not up");
        sbx_run_free(run);
        (void)!read(doomed->heir_ends, &byte, 1);
        _exit(0);
    }
    pause();
    return 1;
}

/* By the time that the report is there, nothing of the tree is. */
static void expect_caller_lost(const struct doomed *doomed)
{
    char text[8192] = "";
    for (int i = 0; i < 20000 && text[0] == '\0'; i++) {
        (void)usleep(1000);
        (void)sbx_fd_read_text_at(AT_FDCWD, doomed->report, text, sizeof text);
    }
    ck_assert_msg(strstr(text, "\"reason\":\"caller-lost\"") != NULL, "report: %s", text);
    ck_assert_msg(library_is_proved(text), "report: %s", text);
}

START_TEST(a_killed_caller_leaves_no_stray)
{
    int ends[2];
    struct doomed doomed = {.with_heir = (_i & 1) != 0, .freed = (_i & 2) != 0};
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    doomed.heir_ends = ends[0];
    (void)sbx_fixture_path(doomed.up, "up");
    (void)sbx_fixture_path(doomed.report, "report");
    pid_t caller = fork();
    ck_assert_int_ge(caller, 0);
    if (caller == 0) {
        (void)close(ends[1]);
        _exit(doomed_caller(&doomed));
    }
    ck_assert(library_file_comes(doomed.up, 30));
    if (!doomed.freed) {
        ck_assert_int_eq(kill(caller, SIGKILL), 0);
    }
    expect_caller_lost(&doomed);
    (void)close(ends[1]); /* lets an heir go */
    (void)close(ends[0]);
    /* We are the subreaper: what had been left would be our child. */
    library_expect_no_child(20);
}
END_TEST

START_TEST(a_run_that_is_freed_ends)
{
    struct doomed doomed = {.with_heir = false};
    (void)sbx_fixture_path(doomed.up, "up");
    (void)sbx_fixture_path(doomed.report, "report");
    struct sbx_run *run = start_doomed(&doomed);
    ck_assert(library_file_comes(doomed.up, 30));
    sbx_run_free(run);
    expect_caller_lost(&doomed);
    library_expect_no_child(20);
}
END_TEST

START_TEST(a_run_that_is_freed_at_once_ends)
{
    struct sbx_run *run = library_start(library_script("wall=60", "sleep 60"));
    sbx_run_free(run);
    library_expect_no_child(20);
}
END_TEST

int main(void)
{
    library_use_built_monitor(SBX_TEST_MONITOR);
    Suite *suite = suite_create("library");
    TCase *tests = sbx_fixture_case(suite, "caller", CASE_SECONDS);
    tcase_add_test(tests, a_threaded_caller_keeps_its_children_signals_and_descriptors);
    tcase_add_test(tests, a_subreaper_is_left_without_a_child);
    tcase_add_test(tests, a_subreaper_may_reap_the_guard_itself);
    tcase_add_loop_test(tests, a_caller_may_ignore_sigchld, 0, 4);
    tcase_add_test(tests, a_caller_may_have_closed_its_standard_streams);
    tcase_add_test(tests, no_descriptor_of_the_caller_stays_in_a_run);
    tcase_add_test(tests, a_command_gets_what_it_is_to_keep_and_nothing_else);
    tcase_add_loop_test(tests, a_killed_caller_leaves_no_stray, 0, 4);
    tcase_add_test(tests, a_run_that_is_freed_ends);
    tcase_add_test(tests, a_run_that_is_freed_at_once_ends);
    return sbx_fixture_run(suite);
}
