/*
 * test_attach.c - sbx-watch --pid, on trees that the test starts itself: nothing is
 * touched without --enforce; with it, limits and ceilings hold, and whoever was known is
 * ended though his parents are gone.
 *
 * The kernel's own figures (wait rusage, VmHWM) are what the report is compared with.
 */
#include "tests/attach_kit.h"
#include "tests/tree_kit.h"

#include "base/clock.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1024 * 1024)

/* An idle target with an idle child in a session of its own. */
static pid_t start_pair(pid_t *ret_child)
{
    pid_t root = sbx_kit_helper((const char *const[]){"setsid_child", NULL});
    *ret_child = sbx_attach_child(root);
    return root;
}

static pid_t start_idle(void)
{
    return sbx_kit_helper((const char *const[]){"spin", "0", NULL});
}

/* The report: of an attached run. */
static void expect_attached(const struct sbx_trial *trial, pid_t pid)
{
    ck_assert_int_eq(sbx_trial_integer(trial, "leader_pid"), pid);
    ck_assert(!sbx_trial_has(trial, "command"));
    ck_assert(!sbx_trial_has(trial, "exit_code") && !sbx_trial_has(trial, "signal"));
    ck_assert_str_eq(sbx_trial_string(trial, "containment.tracking"), "remembered");
    ck_assert_str_eq(sbx_trial_string(trial, "containment.guarantee"), "best-effort");
    ck_assert_str_eq(sbx_trial_string(trial, "termination.proof"), "none");
}

static void expect_untouched(const struct sbx_trial *trial)
{
    ck_assert(!sbx_trial_has(trial, "termination.signal"));
    ck_assert(!sbx_trial_has(trial, "containment.kill"));
    ck_assert_int_eq(sbx_trial_integer(trial, "termination.killed_count"), 0);
}

/* --- what is refused -----------------------------------------------------------------
 */

static const struct refused_row {
    const char *options;
    const char *word; /* of a command; NULL: none */
    const char *message;
} refused_rows[] = {
    {"--pid %d --wall 1s", NULL, "--wall: with --pid it needs --enforce"},
    {"--pid %d -c 1s", NULL, "--cpu: with --pid it needs --enforce"},
    {"-m 1G --pid %d", NULL, "--memory: with --pid it needs --enforce"},
    {"--pid %d --processes 5", NULL, "--processes: with --pid it needs --enforce"},
    {"--pid %d --threads 5", NULL, "--threads: with --pid it needs --enforce"},
    {"--pid %d --rlimit nofile=9", NULL, "--rlimit: with --pid it needs --enforce"},
    {"--pid %d --grace 1s", NULL, "--grace: with --pid it needs --enforce"},
    {"--pid %d --signal INT", NULL, "--signal: with --pid it needs --enforce"},
    {"--pid %d --breach-status 7", NULL, "--breach-status: with --pid it needs"},
    {"--pid %d --enforce --linger 1s", NULL, "--linger: does not go with --pid"},
    {"--pid %d --enforce --strays keep", NULL, "--strays: does not go with --pid"},
    {"--pid %d --keep-fd 3", NULL, "--keep-fd: does not go with --pid"},
    {"--pid %d --enforce --preserve-status", NULL, "--preserve-status: does not go"},
    {"--pid %d --require complete", NULL, "'complete' cannot be had with --pid"},
    {"--pid %d --require cgroup2", NULL, "'cgroup2' cannot be had with --pid"},
    {"--pid %d --require kernel-limits", NULL, "'kernel-limits' cannot be had with"},
    {"--pid %d --backend cgroup2", NULL, "--backend: 'cgroup2' cannot be had with --pid"},
    {"--pid %d --cgroup-root /x", NULL, "--cgroup-root: does not go with --pid"},
    {"--pid %d --enforce -m 1G --swap 1G", NULL, "--swap: does not go with --pid"},
    {"--pid %d --enforce --cpu-quota 50", NULL, "--cpu-quota: does not go with --pid"},
    {"--pid %d", "true", "--pid: takes no command"},
    {"--pid %d --enforce", "true", "--pid: takes no command"},
    {"--enforce --grace %d", "true", "--enforce: needs --pid"},
    {"--pid 0 --grace %d", NULL, "'0' is out of range"},
    {"--pid 99999999999 --grace %d", NULL, "is out of range"},
    {"--pid -%d", NULL, "is not a number"},
};
#define REFUSED_COUNT (int)(sizeof refused_rows / sizeof refused_rows[0])

static void keep_descriptor_3(const struct sbx_trial *trial)
{
    (void)trial;
    (void)dup2(STDERR_FILENO, 3);
}

static void expect_refused(struct sbx_trial *trial, const char *message)
{
    sbx_trial_run(trial);
    sbx_trial_expect(trial, 125, "launch-failed", NULL);
    ck_assert_msg(strstr(trial->err, message) != NULL, "no '%s' in: %s", message,
                  trial->err);
    sbx_trial_done(trial);
}

START_TEST(options_that_make_no_sense_are_refused)
{
    const struct refused_row *row = &refused_rows[_i];
    const char *const command[] = {row->word, NULL};
    struct sbx_kit kit;
    sbx_kit_open(&kit, 0);
    pid_t child;
    pid_t root = start_pair(&child);
    struct sbx_trial trial = {.command = command,
                              .prepare = keep_descriptor_3,
                              .options = sbx_attach_options(row->options, root)};
    expect_refused(&trial, row->message);
    ck_assert(sbx_attach_is_alive(root) && sbx_attach_is_alive(child));
    sbx_kit_close(&kit);
}
END_TEST

static void *idle_thread(void *context)
{
    *(_Atomic pid_t *)context = (pid_t)syscall(SYS_gettid);
    sbx_kit_idle();
}

/* The second thread of a process, as soon as there is one; 0 after ten seconds. */
static pid_t other_thread(pid_t pid)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    pid_t thread = 0;
    for (int i = 0; i < 10000 && thread == 0; i++) {
        (void)usleep(1000);
        SBX_AUTO_CLOSEDIR DIR *tasks = opendir(path);
        ck_assert_ptr_nonnull(tasks);
        const struct dirent *entry = NULL;
        while (thread == 0 && (entry = readdir(tasks)) != NULL) {
            pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
            thread = tid != pid ? tid : 0;
        }
    }
    return thread;
}

START_TEST(what_is_no_process_is_refused)
{
    static _Atomic pid_t tid;
    struct sbx_kit kit;
    sbx_kit_open(&kit, 0);
    /* One that was there, and then one that has ended and is not waited for. */
    pid_t gone = start_idle();
    sbx_kit_wait_state(&kit, gone, 'Z');
    struct sbx_trial trial = {.options = sbx_attach_options("--pid %d", gone)};
    expect_refused(&trial, "has ended");
    ck_assert_int_eq(waitpid(gone, NULL, 0), gone);
    trial = (struct sbx_trial){.options = sbx_attach_options("--pid %d", gone)};
    expect_refused(&trial, "there is no process");

    pid_t threaded = sbx_kit_fork();
    if (threaded == 0) {
        pthread_t thread;
        (void)pthread_create(&thread, NULL, idle_thread, &tid);
        while (tid == 0) {
            (void)usleep(1000);
        }
        sbx_kit_idle();
    }
    pid_t thread = other_thread(threaded);
    ck_assert_int_ne(thread, 0);
    trial = (struct sbx_trial){.options = sbx_attach_options("--pid %d", thread)};
    expect_refused(&trial, "is a thread, not a process");

    struct sbx_proc_stat second;
    if (sbx_proc_stat_at(kit.proc_fd, 2, &second) == 0 &&
        strcmp(second.name, "kthreadd") == 0) {
        trial = (struct sbx_trial){.options = sbx_attach_options("--pid %d", 2)};
        expect_refused(&trial, "is a thread of the kernel");
    } else {
        sbx_kit_skip("a thread of the kernel", "there is none to be seen");
    }
    sbx_kit_close(&kit);
}
END_TEST

START_TEST(the_tree_that_it_is_in_is_not_ended)
{
    struct sbx_trial trial = {
        .options = sbx_attach_options("--pid %d --enforce --wall 1s", getpid())};
    expect_refused(&trial, "is an ancestor of sbx-watch");
    trial = (struct sbx_trial){.options =
                                   sbx_attach_options("--pid %d --enforce", getppid())};
    expect_refused(&trial, "is an ancestor of sbx-watch");
    trial = (struct sbx_trial){.options = sbx_attach_options("--pid %d --enforce", 1)};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 125, "launch-failed", NULL);
    sbx_trial_done(&trial);
    /* Itself, as a guard, and as the front of a shell's other children. */
    static const char *const scripts[] = {
        "exec \"$0\" --report \"$2\" --pid $$",
        "sleep 60 & child=$!; trap '' TERM; exec \"$0\" --report \"$2\" --pid $$",
    };
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        const char *const launcher[] = {"sh", "-c", scripts[i], NULL};
        trial = (struct sbx_trial){.launcher = launcher};
        expect_refused(&trial, "is sbx-watch itself");
    }
    (void)sbx_trial_end_children(10);
}
END_TEST

/* --- observing -----------------------------------------------------------------------
 */

static const int leave_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

START_TEST(a_signal_detaches)
{
    struct sbx_kit kit;
    sbx_kit_open(&kit, 0);
    pid_t child;
    pid_t root = start_pair(&child);
    ck_assert_int_eq(kill(child, SIGSTOP), 0);
    sbx_kit_wait_state(&kit, child, 'T');
    struct sbx_trial trial = {.options = sbx_attach_options("--pid %d", root)};
    sbx_attach_start(&trial, child);
    ck_assert_int_eq(kill(trial.pid, leave_signals[_i]), 0);
    sbx_trial_wait(&trial);
    sbx_trial_expect(&trial, 0, "observed", NULL);
    expect_attached(&trial, root);
    expect_untouched(&trial);
    ck_assert_int_eq(sbx_trial_integer(&trial, "usage.processes_peak"), 2);
    ck_assert_int_le(sbx_trial_integer(&trial, "usage.wall_us"),
                     (int64_t)trial.elapsed_us);
    ck_assert_str_eq(trial.err, "");
    ck_assert(sbx_attach_is_alive(root));
    sbx_kit_wait_state(&kit, child, 'T');
    sbx_trial_done(&trial);
    sbx_kit_close(&kit);
}
END_TEST

START_TEST(it_stays_until_the_last_one_is_gone)
{
    struct sbx_kit kit;
    sbx_kit_open(&kit, 0);
    pid_t child;
    pid_t root = start_pair(&child);
    struct sbx_trial trial = {.options = sbx_attach_options("--pid %d", root)};
    sbx_attach_start(&trial, child);
    sbx_kit_kill(root);
    ck_assert_int_eq(waitpid(trial.pid, NULL, WNOHANG), 0);
    if (_i == 0) {
        sbx_kit_kill(child); /* come to us */
    } else {
        /* A zombie has ended, too. */
        ck_assert_int_eq(kill(child, SIGKILL), 0);
    }
    sbx_trial_wait(&trial);
    sbx_trial_expect(&trial, 0, "observed", NULL);
    expect_attached(&trial, root);
    expect_untouched(&trial);
    ck_assert_int_eq(sbx_trial_integer(&trial, "termination.strays_count"), 0);
    sbx_trial_done(&trial);
    sbx_kit_close(&kit);
}
END_TEST

START_TEST(who_is_left_running_is_named)
{
    struct sbx_kit kit;
    sbx_kit_open(&kit, 0);
    pid_t child;
    pid_t root = start_pair(&child);
    struct sbx_trial trial = {.options = sbx_attach_options("--pid %d", root)};
    sbx_attach_start(&trial, child);
    sbx_kit_kill(root);
    ck_assert_int_eq(kill(trial.pid, SIGTERM), 0);
    sbx_trial_wait(&trial);
    sbx_trial_expect(&trial, 0, "observed", NULL);
    expect_untouched(&trial);
    ck_assert_int_eq(sbx_trial_integer(&trial, "termination.strays.0.pid"), child);
    ck_assert_msg(strstr(trial.err, "left running") != NULL, "stderr: %s", trial.err);
    ck_assert(sbx_attach_is_alive(child));
    sbx_trial_done(&trial);
    sbx_kit_close(&kit);
}
END_TEST

/* The tree that it is in: all but its own processes. */
START_TEST(it_does_not_count_itself)
{
    struct sbx_kit kit;
    sbx_kit_open(&kit, 0);
    pid_t child;
    (void)start_pair(&child);
    struct sbx_trial trial = {.options = sbx_attach_options("--pid %d", getpid())};
    sbx_attach_start(&trial, child);
    ck_assert_int_eq(kill(trial.pid, SIGTERM), 0);
    sbx_trial_wait(&trial);
    sbx_trial_expect(&trial, 0, "observed", NULL);
    ck_assert_int_eq(sbx_trial_integer(&trial, "usage.processes_total"), 3);
    sbx_trial_done(&trial);
    sbx_kit_close(&kit);
}
END_TEST

/* --- figures -------------------------------------------------------------------------
 */

static void expect_near(const char *what, int64_t figure, int64_t truth, int64_t slack)
{
    int64_t bound = truth / 20 + slack;
    (void)fprintf(stderr, "# %s: %" PRId64 " reported, %" PRId64 " by the kernel\n", what,
                  figure, truth);
    ck_assert_msg(figure >= truth - bound && figure <= truth + bound,
                  "%s: %" PRId64 " reported, %" PRId64 " by the kernel", what, figure,
                  truth);
}

/* A build: one step after the other, each in processes of its own that use memory and the
 * processor, below a shell that waits for them. Its parent waits for it at once, so that
 * nothing can be read from its zombie. */
START_TEST(the_peaks_of_a_build_are_the_kernels)
{
    char spike[SBX_FIXTURE_PATH_SIZE];
    char spin[SBX_FIXTURE_PATH_SIZE];
    struct sbx_kit kit;
    sbx_kit_open(&kit, 0);
    const char *const words[] = {"sh",
                                 "-c",
                                 "echo up; read go; for i in 1 2 3 4; do "
                                 "\"$1\" 500 >&2 & \"$0\" 200 150 10 >&2; wait; "
                                 "done; exit 0",
                                 sbx_fixture_helper(spike, "spike"),
                                 sbx_fixture_helper(spin, "spin"),
                                 NULL};
    int in[2];
    int out = -1;
    ck_assert_int_eq(pipe2(in, O_CLOEXEC), 0);
    pid_t root = sbx_kit_start(words, in[0], &out);
    sbx_kit_hear(out);
    struct sbx_trial trial = {.options = sbx_attach_options("--pid %d", root)};
    sbx_attach_start(&trial, root);
    ck_assert_int_eq(write(in[1], "\n", 1), 1);
    struct rusage rusage;
    int status = -1;
    ck_assert_int_eq(wait4(root, &status, 0, &rusage), root);
    ck_assert_int_eq(status, 0);
    sbx_trial_wait(&trial);
    sbx_trial_expect(&trial, 0, "observed", NULL);
    expect_attached(&trial, root);
    int64_t cpu_us = (rusage.ru_utime.tv_sec + rusage.ru_stime.tv_sec) * 1000000 +
                     rusage.ru_utime.tv_usec + rusage.ru_stime.tv_usec;
    expect_near("cpu", sbx_trial_integer(&trial, "usage.cpu_us"), cpu_us, 20000);
    expect_near("peak of a process",
                sbx_trial_integer(&trial, "usage.process_memory_peak_bytes"),
                rusage.ru_maxrss * 1024, 0);
    /* One spike at a time, and little else. */
    expect_near("peak of the tree", sbx_trial_integer(&trial, "usage.memory_peak_bytes"),
                rusage.ru_maxrss * 1024, 4 * MIB);
    ck_assert(!sbx_trial_boolean(&trial, "usage.cpu_complete"));
    sbx_trial_done(&trial);
    (void)close(in[0]);
    (void)close(in[1]);
    (void)close(out);
    sbx_kit_close(&kit);
}
END_TEST

static int64_t high_water(const struct sbx_kit *kit, pid_t pid)
{
    struct sbx_proc_status status;
    ck_assert_int_eq(sbx_proc_status_at(kit->proc_fd, pid, &status), 0);
    return (int64_t)status.hwm_bytes;
}

/* Detaches after a while, and after a longer one when the reader of memory had not had
 * its turn by then. */
static void observe_memory(struct sbx_trial *trial, const char *options, pid_t member)
{
    const bool as_nobody = trial->as_nobody;
    for (unsigned attempt = 1;; attempt++) {
        *trial = (struct sbx_trial){.as_nobody = as_nobody, .options = options};
        sbx_attach_start(trial, member);
        (void)usleep(attempt * 50000U);
        ck_assert_int_eq(kill(trial->pid, SIGTERM), 0);
        sbx_trial_wait(trial);
        sbx_trial_expect(trial, 0, "observed", NULL);
        if (sbx_trial_has(trial, "usage.memory_peak_bytes")) {
            return;
        }
        ck_assert_uint_lt(attempt, 8);
        sbx_trial_done(trial);
    }
}

START_TEST(memory_that_is_there_counts_once)
{
    struct sbx_kit kit;
    sbx_kit_open(&kit, 0);
    pid_t root = sbx_kit_helper_ups((const char *const[]){"touch", "150", NULL}, 1);
    for (int i = 0; i < 20000 && high_water(&kit, root) < (int64_t)150 * MIB; i++) {
        (void)usleep(1000);
    }
    struct sbx_trial trial = {0};
    observe_memory(&trial, sbx_attach_options("--pid %d", root), root);
    expect_attached(&trial, root);
    int64_t truth = high_water(&kit, root);
    expect_near("peak", sbx_trial_integer(&trial, "usage.memory_peak_bytes"), truth, 0);
    expect_near("peak of a process",
                sbx_trial_integer(&trial, "usage.process_memory_peak_bytes"), truth, 0);
    /* What it had used before is not ours to count. */
    ck_assert_int_le(sbx_trial_integer(&trial, "usage.cpu_us"), 20000);
    sbx_trial_done(&trial);
    sbx_kit_close(&kit);
}
END_TEST

/* --- enforcing -----------------------------------------------------------------------
 */

/* The root is killed by the test; a member in another session was known before. */
START_TEST(a_stray_that_was_known_is_ended)
{
    bool cancels = _i % 2 == 0;
    bool stubborn = _i / 2 == 1;
    struct sbx_kit kit;
    sbx_kit_open(&kit, 0);
    pid_t root = sbx_kit_helper(
        (const char *const[]){stubborn ? "stubborn" : "setsid_child", NULL});
    pid_t child = sbx_attach_child(root);
    struct sbx_trial trial = {.options = sbx_attach_options(
                                  cancels ? "--enforce --grace 300ms --pid %d"
                                          : "--enforce --grace 300ms --wall 1s --pid %d",
                                  root)};
    sbx_attach_start(&trial, child);
    sbx_kit_kill(root);
    if (cancels) {
        ck_assert_int_eq(kill(trial.pid, SIGTERM), 0);
    }
    sbx_trial_wait(&trial);
    sbx_trial_expect(&trial, cancels ? 143 : 124, cancels ? "cancelled" : "breach",
                     cancels ? NULL : "wall");
    expect_attached(&trial, root);
    ck_assert(!sbx_attach_is_alive(child));
    ck_assert_int_eq(sbx_trial_integer(&trial, "termination.strays.0.pid"), child);
    ck_assert_int_eq(sbx_trial_integer(&trial, "termination.killed_count"), stubborn);
    ck_assert_str_eq(sbx_trial_string(&trial, "termination.signal"), "SIGTERM");
    ck_assert_int_eq(sbx_trial_integer(&trial, "termination.survivors_count"), 0);
    sbx_trial_done(&trial);
    sbx_kit_close(&kit);
}
END_TEST

static const struct tree_row {
    const char *command[4];
    bool certain; /* nobody of it can get away */
} tree_rows[] = {
    {{"setsid_child"}, true},
    {{"daemon"}, true},
    {{"stubborn"}, true},
    {{"stopped"}, true},
    {{"subreaper"}, true},
    {{"thread_forker"}, true},
    {{"zombie_leader"}, true},
    {{"named", "x) Z 1 1 1 (y"}, true},
    {{"crowd", "300", "10"}, true},
    {{"hopper", "8", "1500"}, false},
    {{"hopper", "16", "500"}, false},
};
#define TREE_COUNT (int)(sizeof tree_rows / sizeof tree_rows[0])

START_TEST(a_breach_ends_the_tree)
{
    const struct tree_row *row = &tree_rows[_i];
    struct sbx_kit kit;
    sbx_kit_open(&kit, 0);
    pid_t root = sbx_kit_helper(row->command);
    struct sbx_trial trial = {.options = sbx_attach_options(
                                  "--enforce --wall 400ms --grace 300ms --pid %d", root)};
    sbx_trial_run(&trial);
    if (row->certain) {
        sbx_trial_expect(&trial, 124, "breach", "wall");
        expect_attached(&trial, root);
    }
    ck_assert(trial.status == 124 || trial.status == 125);
    ck_assert(!sbx_attach_is_alive(root));
    (void)sbx_kit_walk(&kit);
    size_t alive = sbx_kit_alive(&kit);
    ck_assert_msg(!row->certain || alive == 0 || strcmp(row->command[0], "daemon") == 0,
                  "%zu are alive", alive);
    sbx_trial_done(&trial);
    sbx_kit_close(&kit);
}
END_TEST

/* One that daemonized before anybody looked is not known; one after the attaching is. */
START_TEST(limits_hold_from_attaching_on)
{
    static const struct {
        const char *options;
        const char *command[4];
        const char *reason;
    } rows[] = {
        {"--enforce --cpu 300ms --pid %d", {"spin", "30000", "2"}, "cpu"},
        {"--enforce --processes 20 --pid %d", {"crowd", "51", "50"}, "processes"},
        {"--enforce --threads 20 --pid %d", {"crowd", "51", "50"}, "threads"},
        {"--enforce --memory 100M --pid %d", {"touch", "150"}, "memory"},
        {"--enforce --memory 100M --pid %d", {"touch", "200", "4"}, "memory"},
    };
    struct sbx_kit kit;
    sbx_kit_open(&kit, 0);
    pid_t root = sbx_kit_helper(rows[_i].command);
    struct sbx_trial trial = {.options = sbx_attach_options(rows[_i].options, root)};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 124, "breach", rows[_i].reason);
    expect_attached(&trial, root);
    ck_assert_int_ge(sbx_trial_integer(&trial, "breach.observed"),
                     sbx_trial_integer(&trial, "breach.limit"));
    (void)sbx_kit_walk(&kit);
    ck_assert_uint_eq(sbx_kit_alive(&kit), 0);
    sbx_trial_done(&trial);
    sbx_kit_close(&kit);
}
END_TEST

START_TEST(a_tree_that_ends_by_itself_was_observed)
{
    struct sbx_kit kit;
    sbx_kit_open(&kit, 0);
    pid_t child;
    pid_t root = start_pair(&child);
    struct sbx_trial trial = {
        .options = sbx_attach_options("--enforce --wall 60s --pid %d", root)};
    sbx_attach_start(&trial, child);
    sbx_kit_kill(root);
    sbx_kit_kill(child);
    sbx_trial_wait(&trial);
    sbx_trial_expect(&trial, 0, "observed", NULL);
    expect_untouched(&trial);
    sbx_trial_done(&trial);
    sbx_kit_close(&kit);
}
END_TEST

/* --- ceilings ------------------------------------------------------------------------
 */

static void expect_limit(pid_t pid, __rlimit_resource_t resource, rlim_t soft,
                         rlim_t hard)
{
    struct rlimit now;
    ck_assert_int_eq(prlimit(pid, resource, NULL, &now), 0);
    ck_assert_msg(now.rlim_cur == soft && now.rlim_max == hard,
                  "process %d has %llu:%llu, not %llu:%llu", (int)pid,
                  (unsigned long long)now.rlim_cur, (unsigned long long)now.rlim_max,
                  (unsigned long long)soft, (unsigned long long)hard);
}

START_TEST(every_member_gets_the_ceilings)
{
    struct sbx_kit kit;
    int go[2];
    int born[2];
    sbx_kit_open(&kit, 0);
    ck_assert_int_eq(pipe2(go, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(born, O_CLOEXEC), 0);
    pid_t root = sbx_kit_fork();
    if (root == 0) {
        if (sbx_kit_fork() == 0) {
            (void)setsid();
            sbx_kit_idle();
        }
        sbx_kit_hear(go[0]);
        if (sbx_kit_fork() == 0) {
            sbx_kit_tell(born[1]);
        }
        sbx_kit_idle();
    }
    pid_t child = sbx_attach_child(root);
    struct sbx_trial trial = {
        .options = sbx_attach_options(
            "--enforce --rlimit nofile=40:50 --rlimit core=0 --pid %d", root)};
    sbx_attach_start(&trial, child);
    sbx_kit_tell(go[1]);
    sbx_kit_hear(born[0]);
    pid_t members[3] = {root};
    ck_assert_uint_eq(sbx_attach_children(root, members + 1, 2), 2);
    for (int i = 0; i < 3; i++) {
        expect_limit(members[i], RLIMIT_NOFILE, 40, 50);
        expect_limit(members[i], RLIMIT_CORE, 0, 0);
    }
    ck_assert_int_eq(kill(trial.pid, SIGINT), 0);
    sbx_trial_wait(&trial);
    sbx_trial_expect(&trial, 130, "cancelled", NULL);
    ck_assert_int_eq(sbx_trial_integer(&trial, "ceilings.nofile.soft"), 40);
    sbx_trial_done(&trial);
    for (int i = 0; i < 2; i++) {
        (void)close(go[i]);
        (void)close(born[i]);
    }
    sbx_kit_close(&kit);
}
END_TEST

/* More descriptors than the kernel ever allows: refused to everybody. */
START_TEST(ceilings_are_set_for_all_or_nobody)
{
    struct sbx_kit kit;
    struct rlimit core;
    sbx_kit_open(&kit, 0);
    pid_t child;
    pid_t root = start_pair(&child);
    ck_assert_int_eq(prlimit(child, RLIMIT_CORE, NULL, &core), 0);
    struct sbx_trial trial = {
        .options = sbx_attach_options(
            "--enforce --rlimit core=0:0 --rlimit nofile=unlimited --pid %d", root)};
    char message[64];
    (void)snprintf(message, sizeof message, "ceiling nofile of process %d (", root);
    expect_refused(&trial, message);
    expect_limit(root, RLIMIT_CORE, core.rlim_cur, core.rlim_max);
    expect_limit(child, RLIMIT_CORE, core.rlim_cur, core.rlim_max);
    ck_assert(sbx_attach_is_alive(root) && sbx_attach_is_alive(child));
    if (getuid() == 0) {
        trial = (struct sbx_trial){
            .options = sbx_attach_options("--enforce --rlimit nproc=50 --pid %d", root)};
        expect_refused(&trial, "does not hold it for uid 0");
    }
    sbx_kit_close(&kit);
}
END_TEST

/* --- users ---------------------------------------------------------------------------
 */

static pid_t start_pair_as_nobody(pid_t *ret_child)
{
    pid_t root = sbx_kit_fork();
    if (root == 0) {
        if (setgroups(0, NULL) < 0 ||
            setresgid(SBX_KIT_NOBODY, SBX_KIT_NOBODY, SBX_KIT_NOBODY) < 0 ||
            setresuid(SBX_KIT_NOBODY, SBX_KIT_NOBODY, SBX_KIT_NOBODY) < 0) {
            _exit(1);
        }
        (void)execl("/bin/sh", "sh", "-c", "sleep 60 & wait", NULL);
        _exit(1);
    }
    *ret_child = sbx_attach_child(root);
    return root;
}

START_TEST(who_belongs_to_others_is_observed_but_not_ended)
{
    struct sbx_kit kit;
    if (getuid() != 0) {
        sbx_kit_skip("processes of another user", "only root can be two");
        return;
    }
    sbx_kit_open(&kit, 0);
    pid_t child;
    pid_t root = start_pair(&child);
    struct sbx_trial trial = {.as_nobody = true};
    observe_memory(&trial, sbx_attach_options("--pid %d", root), child);
    expect_untouched(&trial);
    ck_assert_str_eq(sbx_trial_string(&trial, "usage.memory_method"), "rss");
    ck_assert_msg(strstr(sbx_trial_string(&trial, "warnings.0"), "RSS") != NULL, "%s",
                  sbx_trial_string(&trial, "warnings.0"));
    sbx_trial_done(&trial);
    trial = (struct sbx_trial){
        .as_nobody = true,
        .options = sbx_attach_options("--enforce --wall 1s --pid %d", root)};
    expect_refused(&trial, "may not be signalled: EPERM");
    ck_assert(sbx_attach_is_alive(root) && sbx_attach_is_alive(child));
    sbx_kit_close(&kit);
}
END_TEST

START_TEST(an_ordinary_users_own_tree_is_ended)
{
    struct sbx_kit kit;
    if (getuid() != 0) {
        sbx_kit_skip("processes of another user", "only root can be two");
        return;
    }
    for (int i = 0; i < 2; i++) {
        sbx_kit_open(&kit, 0);
        pid_t child;
        pid_t root = start_pair_as_nobody(&child);
        struct sbx_trial trial = {
            .as_nobody = i == 0,
            .options =
                sbx_attach_options("--enforce --wall 300ms --memory 1G --pid %d", root)};
        sbx_trial_run(&trial);
        sbx_trial_expect(&trial, 124, "breach", "wall");
        ck_assert(!sbx_attach_is_alive(root) && !sbx_attach_is_alive(child));
        sbx_trial_done(&trial);
        sbx_kit_close(&kit);
    }
}
END_TEST

/* --- when one of the two is killed ----------------------------------------------------
 */

START_TEST(a_killed_monitor_leaves_the_tree_alone)
{
    struct sbx_kit kit;
    sbx_kit_open(&kit, 0);
    pid_t child;
    pid_t root = start_pair(&child);
    struct sbx_trial trial = {.options = sbx_attach_options("--pid %d", root)};
    sbx_attach_start(&trial, child);
    ck_assert_int_eq(kill(sbx_attach_monitor(&trial), SIGKILL), 0);
    sbx_trial_wait(&trial);
    sbx_trial_expect(&trial, 125, "lost", NULL);
    expect_untouched(&trial);
    ck_assert(sbx_attach_is_alive(root) && sbx_attach_is_alive(child));
    sbx_trial_done(&trial);
    sbx_kit_close(&kit);
}
END_TEST

START_TEST(the_guard_ends_whom_the_monitor_knew)
{
    struct sbx_kit kit;
    sbx_kit_open(&kit, 0);
    pid_t root = sbx_kit_helper((const char *const[]){"stubborn", NULL});
    pid_t child = sbx_attach_child(root);
    pid_t other = sbx_kit_fork();
    if (other == 0) {
        sbx_kit_idle();
    }
    struct sbx_trial trial = {.options = sbx_attach_options(
                                  "--enforce --wall 60s --rlimit core=0 --pid %d", root)};
    sbx_attach_start(&trial, child);
    sbx_kit_kill(root);
    ck_assert_int_eq(kill(sbx_attach_monitor(&trial), SIGKILL), 0);
    sbx_trial_wait(&trial);
    sbx_trial_expect(&trial, 125, "lost", NULL);
    ck_assert_int_eq(sbx_trial_integer(&trial, "termination.killed_count"), 1);
    ck_assert(!sbx_attach_is_alive(child));
    ck_assert(sbx_attach_is_alive(other));
    sbx_trial_done(&trial);
    sbx_kit_close(&kit);
}
END_TEST

static void wait_for_report(struct sbx_trial *trial)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    int status;
    ck_assert_int_eq(waitpid(trial->pid, &status, 0), trial->pid);
    sbx_fixture_wait_file(sbx_trial_path(trial, path, "report"), 20);
    json_error_t error;
    trial->report = json_load_file(path, 0, &error);
    ck_assert_msg(trial->report != NULL, "report: %s", error.text);
}

START_TEST(a_killed_guard_is_missed)
{
    bool enforces = _i == 1;
    struct sbx_kit kit;
    sbx_kit_open(&kit, 0);
    pid_t child;
    pid_t root = start_pair(&child);
    struct sbx_trial trial = {.options = sbx_attach_options(
                                  enforces ? "--enforce --pid %d" : "--pid %d", root)};
    sbx_attach_start(&trial, child);
    pid_t monitor = sbx_attach_monitor(&trial);
    ck_assert_int_eq(kill(trial.pid, SIGKILL), 0);
    wait_for_report(&trial);
    sbx_attach_wait_gone(monitor);
    sbx_trial_validate(&trial);
    ck_assert_str_eq(sbx_trial_string(&trial, "outcome"),
                     enforces ? "breach" : "observed");
    if (enforces) {
        ck_assert_str_eq(sbx_trial_string(&trial, "breach.reason"), "guard-lost");
    } else {
        ck_assert_ptr_nonnull(
            strstr(sbx_trial_string(&trial, "warnings.0"), "guard-lost"));
    }
    ck_assert_int_eq(sbx_attach_is_alive(root), !enforces);
    ck_assert_int_eq(sbx_attach_is_alive(child), !enforces);
    json_decref(trial.report);
    sbx_kit_close(&kit);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("attach");
    TCase *refused = sbx_fixture_case(suite, "refused", 60);
    tcase_add_loop_test(refused, options_that_make_no_sense_are_refused, 0,
                        REFUSED_COUNT);
    tcase_add_test(refused, what_is_no_process_is_refused);
    tcase_add_test(refused, the_tree_that_it_is_in_is_not_ended);
    TCase *observed = sbx_fixture_case(suite, "observed", 60);
    tcase_add_loop_test(observed, a_signal_detaches, 0, 4);
    tcase_add_loop_test(observed, it_stays_until_the_last_one_is_gone, 0, 2);
    tcase_add_test(observed, who_is_left_running_is_named);
    tcase_add_test(observed, it_does_not_count_itself);
    tcase_add_test(observed, the_peaks_of_a_build_are_the_kernels);
    tcase_add_test(observed, memory_that_is_there_counts_once);
    TCase *enforced = sbx_fixture_case(suite, "enforced", 120);
    tcase_add_loop_test(enforced, a_stray_that_was_known_is_ended, 0, 4);
    tcase_add_loop_test(enforced, a_breach_ends_the_tree, 0, TREE_COUNT);
    tcase_add_loop_test(enforced, limits_hold_from_attaching_on, 0, 5);
    tcase_add_test(enforced, a_tree_that_ends_by_itself_was_observed);
    tcase_add_test(enforced, every_member_gets_the_ceilings);
    tcase_add_test(enforced, ceilings_are_set_for_all_or_nobody);
    tcase_add_test(enforced, who_belongs_to_others_is_observed_but_not_ended);
    tcase_add_test(enforced, an_ordinary_users_own_tree_is_ended);
    TCase *killed = sbx_fixture_case(suite, "killed", 60);
    tcase_add_test(killed, a_killed_monitor_leaves_the_tree_alone);
    tcase_add_test(killed, the_guard_ends_whom_the_monitor_knew);
    tcase_add_loop_test(killed, a_killed_guard_is_missed, 0, 2);
    return sbx_fixture_run(suite);
}
