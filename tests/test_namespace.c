/*
 * test_namespace.c - a command in a PID namespace of its own (--pid-namespace), on the
 * built program: it starts, is seen, is stopped and ends as without one; what only a
 * namespace gives is there; and whichever of the processes around it is killed, nothing
 * of it is left.
 *
 * As root, most of it runs once more as an ordinary user, whose namespace needs a user
 * namespace around it. Runs without a cgroup unless a test says so: that is a rung of its
 * own. The survivor matrix on this rung is in test_survivors.c.
 */
#include "tests/fixture.h"
#include "tests/launch_kit.h"
#include "tests/trial.h"

#include "base/clock.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPTIONS "--backend proc --pid-namespace "
#define NOBODY 65534U
#define BOUND_SECONDS 40 /* for what takes a moment on a quiet machine */
#define QUICK_US 20000000

/* --- as without one --------------------------------------------------------------- */

static struct sbx_trial run(const char *options, const char *script, bool as_nobody)
{
    const char *const command[] = {"sh", "-c", script, NULL};
    struct sbx_trial trial = {
        .options = options, .command = command, .as_nobody = as_nobody};
    sbx_trial_run(&trial);
    trial.command = NULL; /* it was on our stack */
    return trial;
}

static void expect_namespace(const struct sbx_trial *trial)
{
    sbx_trial_expect_empty(trial);
    ck_assert_str_eq(sbx_trial_string(trial, "containment.tracking"), "pid-namespace");
    ck_assert_str_eq(sbx_trial_string(trial, "containment.guarantee"), "complete");
    ck_assert_str_eq(sbx_trial_string(trial, "termination.proof"), "namespace-gone");
    ck_assert_int_ne(sbx_trial_integer(trial, "wrapper_pid"),
                     sbx_trial_integer(trial, "leader_pid"));
}

/* The front with it, so that something may be left for a moment. */
#define ALL "kill -KILL 0"

static const struct end_row {
    const char *script;
    int status;
    const char *signal; /* NULL: it exits */
} ends[] = {
    {"exit 0", 0, NULL},
    {"exit 42", 42, NULL},
    {"exit 125", 125, NULL},
    {"kill -SEGV $$", 139, "SIGSEGV"},
    {"kill -KILL $$", 137, "SIGKILL"},
    {"kill -TERM $$", 143, "SIGTERM"}, /* which an init would not die of */
    {ALL, 137, "SIGKILL"},
    {"kill -TERM 0", 143, "SIGTERM"}, /* but that is deaf */
};
#define END_COUNT (int)(sizeof(ends) / sizeof(ends[0]))

START_TEST(it_ends_as_the_command_does)
{
    for (int i = 0; i < END_COUNT; i++) {
        const struct end_row *row = &ends[i];
        struct sbx_trial trial = run(OPTIONS, row->script, _i == 1);
        sbx_trial_expect(&trial, row->status, row->signal != NULL ? "signaled" : "exited",
                         NULL);
        expect_namespace(&trial);
        if (row->signal != NULL) {
            ck_assert_str_eq(sbx_trial_string(&trial, "signal"), row->signal);
            (void)sbx_trial_boolean(&trial, "core_dumped");
        } else {
            ck_assert_int_eq(sbx_trial_integer(&trial, "exit_code"), row->status);
        }
        if (strcmp(row->script, ALL) != 0) {
            ck_assert(!sbx_trial_boolean(&trial, "termination.escalated"));
            ck_assert(!sbx_trial_has(&trial, "containment.kill"));
            ck_assert_int_eq(sbx_trial_integer(&trial, "termination.strays_count"), 0);
        }
        sbx_trial_done(&trial);
    }
}
END_TEST

/* Where cores go to a file, one is there, of the command alone. */
START_TEST(a_core_is_the_commands)
{
    char pattern[128];
    char path[SBX_FIXTURE_PATH_SIZE];
    if (sbx_fd_read_text_at(AT_FDCWD, "/proc/sys/kernel/core_pattern", pattern,
                            sizeof pattern) <= 0 ||
        strchr(pattern, '/') != NULL || pattern[0] == '|') {
        (void)fprintf(stderr, "SKIPPED: cores do not go to the working directory\n");
        return;
    }
    char options[SBX_FIXTURE_PATH_SIZE + 64];
    (void)snprintf(options, sizeof options, OPTIONS "--chdir %s", sbx_fixture_dir());
    struct sbx_trial trial = run(options, "ulimit -c unlimited && kill -SEGV $$", false);
    sbx_trial_expect(&trial, 139, "signaled", NULL);
    bool core = access(sbx_fixture_path(path, "core"), F_OK) == 0;
    ck_assert_msg(core == sbx_trial_boolean(&trial, "core_dumped") || pattern[0] != 'c',
                  "core_dumped, pattern %s", pattern);
    sbx_trial_done(&trial);
}
END_TEST

static const struct failing_row {
    const char *options;
    const char *command[4];
    int status;
    const char *message;
} failing[] = {
    {OPTIONS, {"/nonesuch/program", NULL}, 127, "/nonesuch/program"},
    {OPTIONS, {"/etc/passwd", NULL}, 126, "/etc/passwd"},
    {OPTIONS "--chdir /nonesuch", {"@touch", "@/ran", NULL}, 125, "/nonesuch"},
    {OPTIONS "--cpus 1023", {"@touch", "@/ran", NULL}, 125, "cpus"},
    {OPTIONS "--rlimit nofile=5000000000", {"@touch", "@/ran", NULL}, 125, "nofile"},
    {"--backend proc --require pid-namespace",
     {"@touch", "@/ran", NULL},
     125,
     "--pid-namespace"},
    {"--pid-namespace --pid 1", {NULL}, 125, "--pid-namespace"},
    {"--pid 1 --require pid-namespace", {NULL}, 125, "'pid-namespace'"},
};
#define FAILING_COUNT (int)(sizeof(failing) / sizeof(failing[0]))

static void expect_nothing_ran(struct sbx_trial *trial, int status, const char *message)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    ck_assert_msg(trial->status == status, "status %d: %s", trial->status, trial->err);
    ck_assert_msg(strstr(trial->err, message) != NULL, "%s lacks %s", trial->err,
                  message);
    ck_assert_int_ne(access(sbx_trial_path(trial, path, "ran"), F_OK), 0);
    if (trial->report != NULL) {
        ck_assert_str_eq(sbx_trial_string(trial, "outcome"), "launch-failed");
        ck_assert_int_gt(sbx_trial_integer(trial, "error.errno"), 0);
    }
    json_decref(trial->report);
    trial->report = NULL;
    sbx_trial_expect_empty(trial);
    sbx_trial_done(trial);
}

START_TEST(what_fails_has_not_run)
{
    static const char *const none[] = {NULL};
    for (int i = 0; i < FAILING_COUNT; i++) {
        const struct failing_row *row = &failing[i];
        struct sbx_trial trial = {
            .options = row->options,
            .command = row->command[0] != NULL ? row->command : none,
            .as_nobody = _i == 1,
        };
        sbx_trial_run(&trial);
        expect_nothing_ran(&trial, row->status, row->message);
    }
}
END_TEST

static void expect_stray(const struct sbx_trial *trial, const char *name)
{
    ck_assert_int_eq(sbx_trial_integer(trial, "termination.strays_count"), 1);
    ck_assert_str_eq(sbx_trial_string(trial, "termination.strays.0.name"), name);
}

/* "got" waits until the stray is what it is called. */
#define STRAY "\"$HELPER\" --stray got | { read -r up; exit 3; }"

static void set_helper(void)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    ck_assert_int_eq(setenv("HELPER", sbx_fixture_helper(path, "named"), 1), 0);
}

START_TEST(strays_are_named_and_ended)
{
    set_helper();
    struct sbx_trial trial = run(OPTIONS "--grace 1", STRAY, _i == 1);
    sbx_trial_expect(&trial, 3, "exited", NULL);
    expect_namespace(&trial);
    expect_stray(&trial, "got");
    ck_assert_str_eq(sbx_trial_string(&trial, "containment.kill"), "namespace-init");
    ck_assert_int_eq(sbx_trial_integer(&trial, "termination.killed_count"), 1);
    ck_assert(sbx_trial_boolean(&trial, "termination.escalated"));
    ck_assert_int_lt((int64_t)trial.elapsed_us, QUICK_US);
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(strays_may_linger_and_be_waited_for)
{
    static const char *const options[] = {OPTIONS "--linger 30", OPTIONS "--strays wait"};
    for (int i = 0; i < 2; i++) {
        struct sbx_trial trial = run(options[i], "sleep 0.2 & exit 3", _i == 1);
        sbx_trial_expect(&trial, 3, "exited", NULL);
        expect_namespace(&trial);
        ck_assert_int_eq(sbx_trial_integer(&trial, "termination.killed_count"), 0);
        ck_assert_int_ge((int64_t)trial.elapsed_us, 180000);
        ck_assert_int_lt((int64_t)trial.elapsed_us, QUICK_US);
        sbx_trial_done(&trial);
    }
    struct sbx_trial trial =
        run(OPTIONS "--strays wait --wall 0.3 --grace 10", "sleep 60 & exit 3", _i == 1);
    sbx_trial_expect(&trial, 124, "breach", "wall");
    expect_namespace(&trial);
    ck_assert_int_eq(sbx_trial_integer(&trial, "exit_code"), 3);
    sbx_trial_done(&trial);
}
END_TEST

/* A named one, PIPE in the environment, that both ends hold open. */
static int make_pipe(void)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    (void)sbx_fixture_path(path, "pipe");
    ck_assert_int_eq(mkfifo(path, 0666), 0);
    ck_assert_int_eq(chmod(path, 0666), 0);
    ck_assert_int_eq(setenv("PIPE", path, 1), 0);
    int pipe = open(path, O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(pipe, 0);
    return pipe;
}

/* The namespace stays with them, and its end is theirs. */
START_TEST(strays_may_be_kept)
{
    SBX_AUTO_CLOSE int pipe = make_pipe();
    struct sbx_trial trial =
        run(OPTIONS "--strays keep", "{ read -r go; echo went; } <$PIPE >&2 & exit 3",
            _i == 1);
    sbx_trial_expect(&trial, 3, "exited", NULL);
    ck_assert_str_eq(sbx_trial_string(&trial, "termination.proof"), "none");
    ck_assert_int_eq(sbx_trial_integer(&trial, "termination.strays_count"), 1);
    ck_assert_int_eq(sbx_trial_integer(&trial, "termination.survivors_count"), 0);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), 0); /* the init has come to us */
    ck_assert_int_eq(sbx_fd_write_all(pipe, "go\n", 3), 0);
    int status = -1;
    ck_assert_int_gt(waitpid(-1, &status, 0), 0);
    ck_assert(WIFEXITED(status));
    json_decref(trial.report);
    trial.report = NULL;
    sbx_trial_expect_empty(&trial);
    ck_assert_ptr_nonnull(strstr(trial.err, "left running"));
    sbx_trial_done(&trial);
}
END_TEST

/* --- limits, signals, streams ----------------------------------------------------- */

START_TEST(the_command_hears_of_its_end)
{
    struct sbx_trial trial = run(OPTIONS "--wall 0.4 --grace 20",
                                 "trap 'exit 42' TERM; sleep 60 & wait", _i == 1);
    sbx_trial_expect(&trial, 124, "breach", "wall");
    expect_namespace(&trial);
    ck_assert_int_eq(sbx_trial_integer(&trial, "exit_code"), 42);
    ck_assert_int_eq(sbx_trial_integer(&trial, "termination.killed_count"), 0);
    sbx_trial_done(&trial);
    trial = run(OPTIONS "--wall 0.4 --grace 0.1", "trap '' TERM; sleep 60 & sleep 60",
                _i == 1);
    sbx_trial_expect(&trial, 124, "breach", "wall");
    expect_namespace(&trial);
    ck_assert_str_eq(sbx_trial_string(&trial, "signal"), "SIGKILL");
    ck_assert_str_eq(sbx_trial_string(&trial, "containment.kill"), "namespace-init");
    ck_assert_int_eq(sbx_trial_integer(&trial, "termination.killed_count"), 3);
    sbx_trial_done(&trial);
}
END_TEST

/* A shell that only waits would take the command's status with it. */
START_TEST(an_heirs_end_counts)
{
    struct sbx_trial trial = run(
        OPTIONS "--wall 0.4 --grace 20",
        "sh -c 'trap \"exit 42\" TERM; while :; do sleep 0.05; done'; exit $?", _i == 1);
    sbx_trial_expect(&trial, 124, "breach", "wall");
    expect_namespace(&trial);
    ck_assert_int_eq(sbx_trial_integer(&trial, "exit_code"), 42);
    sbx_trial_done(&trial);
}
END_TEST

/* Neither front nor init count, for any limit. */
START_TEST(only_the_commands_processes_count)
{
    struct sbx_trial trial =
        run(OPTIONS "--processes 2 --threads 2", "sleep 0.3; exit 5", _i == 1);
    sbx_trial_expect(&trial, 5, "exited", NULL);
    ck_assert_int_le(sbx_trial_integer(&trial, "usage.processes_peak"), 2);
    sbx_trial_done(&trial);
    trial = run(OPTIONS "--processes 2", "sleep 60 & sleep 60 & wait", _i == 1);
    sbx_trial_expect(&trial, 124, "breach", "processes");
    expect_namespace(&trial);
    ck_assert_int_eq(sbx_trial_integer(&trial, "breach.observed"), 3);
    sbx_trial_done(&trial);
}
END_TEST

/* The ceiling that kills is told by the command's own time, which only the init sees. */
START_TEST(a_cpu_ceiling_is_one)
{
    struct sbx_trial trial = {
        .options = OPTIONS "--rlimit cpu=1:1 --wall 60",
        .command = (const char *const[]){"sh", "-c", "while :; do :; done", NULL},
        .as_nobody = _i == 1};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 124, "breach", "ceiling");
    ck_assert_str_eq(sbx_trial_string(&trial, "breach.name"), "cpu");
    expect_namespace(&trial);
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(output_is_bounded_and_watched)
{
    struct sbx_trial trial = run(OPTIONS "--output 1000 --grace 5", "yes", _i == 1);
    sbx_trial_expect(&trial, 124, "breach", "output");
    expect_namespace(&trial);
    sbx_trial_done(&trial);
    trial = run(OPTIONS "--idle 0.3 --grace 5", "echo one; exec sleep 60", _i == 1);
    sbx_trial_expect(&trial, 124, "breach", "idle");
    ck_assert_str_eq(trial.out, "one\n");
    expect_namespace(&trial);
    sbx_trial_done(&trial);
}
END_TEST

/* --- what only a namespace gives -------------------------------------------------- */

START_TEST(it_sees_the_namespace_alone)
{
    struct sbx_trial trial =
        run(OPTIONS, "echo $$; echo /proc/[0-9]*; cat /proc/self/comm", _i == 1);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    expect_namespace(&trial);
    ck_assert_str_eq(trial.out, "2\n/proc/1 /proc/2\ncat\n");
    sbx_trial_done(&trial);
    trial = run(OPTIONS, "kill -KILL -1; kill -KILL 1; exit 7", _i == 1);
    sbx_trial_expect(&trial, 7, "exited", NULL);
    expect_namespace(&trial);
    sbx_trial_done(&trial);
    /* Nobody tells it what it was not given. */
    ck_assert_int_eq(setenv("SBX_TEST_SECRET", "s3cret", 1), 0);
    trial = run(OPTIONS "--clear-env --env PATH",
                "cat /proc/[0-9]*/environ | grep -ac s3cret", _i == 1);
    ck_assert_int_eq(unsetenv("SBX_TEST_SECRET"), 0);
    sbx_trial_expect(&trial, 1, "exited", NULL);
    ck_assert_str_eq(trial.out, "0\n");
    sbx_trial_done(&trial);
    /* ours is what it was */
    ck_assert_int_eq(access("/proc/1/stat", F_OK), 0);
    ck_assert_int_eq(access("/proc/self/exe", F_OK), 0);
}
END_TEST

START_TEST(it_is_who_it_was)
{
    char expected[64];
    (void)snprintf(expected, sizeof expected, "%u %u\n", _i == 1 ? NOBODY : getuid(),
                   _i == 1 ? NOBODY : getgid());
    struct sbx_trial trial = run(OPTIONS, "echo $(id -u) $(id -g)", _i == 1);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    ck_assert_str_eq(trial.out, expected);
    sbx_trial_done(&trial);
    if (_i == 0 && getuid() == 0) {
        trial =
            run(OPTIONS "--user 65534", "echo $(id -u) $(id -g); kill -KILL 1", false);
        sbx_trial_expect(&trial, 1, "exited", NULL);
        ck_assert_str_eq(trial.out, "65534 65534\n");
        expect_namespace(&trial);
        sbx_trial_done(&trial);
    }
}
END_TEST

/* With a cgroup as well, that is the rung that is named. */
START_TEST(a_group_is_the_better_rung)
{
    struct sbx_trial trial =
        run("--pid-namespace --require pid-namespace", "sleep 60 & exit 3", _i == 1);
    sbx_trial_expect(&trial, 3, "exited", NULL);
    sbx_trial_expect_empty(&trial);
    bool group = strcmp(sbx_trial_string(&trial, "containment.tracking"), "cgroup2") == 0;
    ck_assert_str_eq(sbx_trial_string(&trial, "termination.proof"),
                     group ? "group-empty" : "namespace-gone");
    ck_assert_str_eq(sbx_trial_string(&trial, "containment.kill"),
                     group ? "cgroup.kill" : "namespace-init");
    ck_assert_int_eq(sbx_trial_integer(&trial, "termination.strays_count"), 1);
    sbx_trial_done(&trial);
}
END_TEST

/* Where the kernel holds it in the group, front and init are in there too. */
START_TEST(threads_are_the_commands_alone)
{
    struct sbx_trial trial =
        run("--pid-namespace --threads 1", "exec sleep 0.1", _i == 1);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    sbx_trial_expect_empty(&trial);
    if (sbx_trial_has(&trial, "armed.threads")) {
        ck_assert_int_eq(sbx_trial_integer(&trial, "armed.threads"), 3);
    }
    ck_assert_int_eq(sbx_trial_integer(&trial, "limits.threads"), 1);
    sbx_trial_done(&trial);
    trial = run("--pid-namespace --threads 2", "sleep 60 & sleep 60 & wait", _i == 1);
    sbx_trial_expect(&trial, 124, "breach", "threads");
    sbx_trial_expect_empty(&trial);
    ck_assert_int_eq(sbx_trial_integer(&trial, "breach.limit"), 2);
    ck_assert_int_eq(sbx_trial_integer(&trial, "breach.observed"), 3);
    sbx_trial_done(&trial);
}
END_TEST

/* --- refused ---------------------------------------------------------------------- */

/* Each in a user namespace of the test's own, where nothing else is touched. */
static const struct refused_row {
    const char *prepare;
    const char *layer;
} refused[] = {
    {"echo 0 >/proc/sys/user/max_user_namespaces", "user.max_user_namespaces is 0"},
    {"echo 0 >/proc/sys/user/max_pid_namespaces", "user.max_pid_namespaces is 0"},
    {"mount --bind /dev/null /proc/uptime", "mounting a /proc of its own"},
};

START_TEST(what_the_kernel_refuses_is_told)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        char script[256];
        (void)snprintf(script, sizeof script,
                       "%s || exit 77; exec setpriv --ambient-caps=-all --inh-caps=-all "
                       "\"$@\"",
                       refused[i].prepare);
        const char *const launcher[] = {"unshare",
                                        "-Um",
                                        "--map-user=1000",
                                        "--map-group=1000",
                                        "--keep-caps",
                                        "sh",
                                        "-c",
                                        script,
                                        "sh",
                                        NULL};
        struct sbx_trial trial = {
            .options = OPTIONS,
            .launcher = launcher,
            .command = (const char *const[]){"@touch", "@/ran", NULL},
            .as_nobody = _i == 1,
        };
        sbx_trial_run(&trial);
        if (trial.status == 77 || strstr(trial.err, "unshare: ") != NULL) {
            (void)fprintf(stderr, "SKIPPED: %s: %s\n", refused[i].prepare, trial.err);
            sbx_trial_done(&trial);
            continue;
        }
        expect_nothing_ran(&trial, 125, refused[i].layer);
    }
}
END_TEST

/* --- deaths ----------------------------------------------------------------------- */

enum who { GUARD = 1, MONITOR = 2, FRONT = 4, INIT = 8 };

struct cast {
    pid_t monitor;
    pid_t front;
    pid_t init;
};

static bool has_name(pid_t pid, const char *name)
{
    char path[64];
    char text[64] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    (void)sbx_fd_read_text_at(AT_FDCWD, path, text, sizeof text);
    return strncmp(text, name, strlen(name)) == 0 && text[strlen(name)] == '\n';
}

static pid_t child_named(pid_t parent, const char *name)
{
    char path[64];
    char list[4096] = "";
    char *rest = NULL;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", parent, parent);
    (void)sbx_fd_read_text_at(AT_FDCWD, path, list, sizeof list);
    for (char *word = strtok_r(list, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        pid_t pid = (pid_t)strtol(word, NULL, 10);
        if (has_name(pid, name)) {
            return pid;
        }
    }
    return 0;
}

/* `left`: the command has ended, and its init is the monitor's child. */
static struct cast find_cast(const struct sbx_trial *trial, bool left)
{
    struct cast cast = {0};
    uint64_t end_us = sbx_clock_us() + BOUND_SECONDS * SBX_US_PER_S;
    while (cast.init == 0) {
        ck_assert_msg(sbx_clock_us() < end_us, "there is no init");
        cast.monitor = child_named(trial->pid, "sbx-monitor");
        cast.front = left ? 0 : child_named(cast.monitor, "sbx-front");
        cast.init = child_named(left ? cast.monitor : cast.front, "sbx-init");
        (void)poll(NULL, 0, 1);
    }
    return cast;
}

/* How many of its descriptors lead to what begins so. */
static int count_open(pid_t pid, const char *kind)
{
    char path[64];
    char link[256];
    int count = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    SBX_AUTO_CLOSEDIR DIR *directory = opendir(path);
    ck_assert_ptr_nonnull(directory);
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        ssize_t length =
            readlinkat(dirfd(directory), entry->d_name, link, sizeof link - 1);
        link[length > 0 ? length : 0] = '\0';
        count += strncmp(link, kind, strlen(kind)) == 0 ? 1 : 0;
    }
    return count;
}

/* Whoever reads what the command writes gets an end of file with the command's: front and
 * init hold none of that, nor its working directory. */
START_TEST(nothing_is_held_for_the_command)
{
    int ends_of_pipe[2];
    ck_assert_int_eq(pipe2(ends_of_pipe, O_CLOEXEC), 0);
    struct sbx_trial trial = {
        .options = OPTIONS,
        .command = (const char *const[]){"sleep", "60", NULL},
        .as_nobody = _i == 1,
        .stdio = {0, ends_of_pipe[1], 0},
    };
    sbx_trial_start(&trial);
    struct cast cast = find_cast(&trial, false);
    const pid_t pids[] = {cast.front, cast.init};
    uint64_t end_us = sbx_clock_us() + BOUND_SECONDS * SBX_US_PER_S;
    for (size_t i = 0; i < 2; i++) {
        char path[64];
        char link[8] = "";
        while (count_open(pids[i], "pipe:") > 0 || count_open(pids[i], "/dev/") > 0) {
            ck_assert_msg(sbx_clock_us() < end_us, "row %zu holds a stream", i);
            (void)poll(NULL, 0, 1);
        }
        (void)snprintf(path, sizeof path, "/proc/%d/cwd", pids[i]);
        ck_assert_int_eq(readlink(path, link, sizeof link - 1), 1);
        ck_assert_str_eq(link, "/");
    }
    ck_assert_int_eq(kill(trial.pid, SIGTERM), 0);
    sbx_trial_wait(&trial);
    (void)close(ends_of_pipe[0]);
    (void)close(ends_of_pipe[1]);
    sbx_trial_expect(&trial, 143, "cancelled", NULL);
    expect_namespace(&trial);
    ck_assert_str_eq(sbx_trial_string(&trial, "signal"), "SIGTERM");
    sbx_trial_done(&trial);
}
END_TEST

static void await_no_children(const char *what)
{
    uint64_t end_us = sbx_clock_us() + BOUND_SECONDS * SBX_US_PER_S;
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG | __WALL)) >= 0) {
        ck_assert_msg(sbx_clock_us() < end_us, "processes are left: %s", what);
        if (pid == 0) {
            (void)poll(NULL, 0, 2);
        }
    }
}

/* None of them can answer the death of another: all are stopped first. */
static void kill_all(const struct sbx_trial *trial, const struct cast *cast,
                     unsigned victims)
{
    static const int numbers[] = {SIGSTOP, SIGKILL};
    const pid_t pids[] = {trial->pid, cast->monitor, cast->front, cast->init};
    for (size_t n = 0; n < 2; n++) {
        for (unsigned i = 0; i < 4; i++) {
            if ((victims & 1U << i) != 0) {
                ck_assert_int_gt(pids[i], 1);
                (void)kill(pids[i], numbers[n]);
            }
        }
    }
}

static const struct death_row {
    unsigned victims;
    bool left;           /* the command has ended already, a stray has not */
    const char *outcome; /* NULL: nobody is left to write a report */
    const char *reason;
} deaths[] = {
    {GUARD, false, "breach", "guard-lost"},
    {MONITOR, false, "lost", NULL},
    {FRONT, false, "signaled", NULL},
    {INIT, false, "signaled", NULL},
    {GUARD | MONITOR, false, NULL, NULL},
    {GUARD | FRONT, false, "breach", "guard-lost"},
    {GUARD | INIT, false, "breach", "guard-lost"},
    {MONITOR | FRONT, false, "lost", NULL},
    {MONITOR | INIT, false, "lost", NULL},
    {FRONT | INIT, false, "signaled", NULL},
    {GUARD, true, "breach", "guard-lost"},
    {MONITOR, true, "lost", NULL},
    {INIT, true, "exited", NULL},
    {GUARD | MONITOR, true, NULL, NULL},
    {MONITOR | INIT, true, "lost", NULL},
};
#define DEATH_COUNT (int)(sizeof(deaths) / sizeof(deaths[0]))

/* A run that ends with both at once may not see the guard go. */
static void expect_death(struct sbx_trial *trial, const struct death_row *row,
                         const char *what)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    json_decref(trial->report);
    trial->report = json_load_file(sbx_trial_path(trial, path, "report"),
                                   JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg((trial->report != NULL) == (row->outcome != NULL), "report: %s", what);
    if (row->outcome != NULL) {
        const char *outcome = sbx_trial_string(trial, "outcome");
        bool both = (row->victims & GUARD) != 0 && (row->victims & (FRONT | INIT)) != 0;
        ck_assert_msg(strcmp(outcome, row->outcome) == 0 ||
                          (both && strcmp(outcome, "signaled") == 0),
                      "outcome %s: %s", outcome, what);
        sbx_trial_expect_proof(trial);
        ck_assert_int_eq(sbx_trial_integer(trial, "termination.survivors_count"), 0);
    }
    json_decref(trial->report);
    trial->report = NULL;
    sbx_trial_expect_empty(trial); /* nobody has the run's mark */
}

START_TEST(whoever_is_killed_nothing_is_left)
{
    const char *const running[] = {"sh", "-c", "sleep 70 & echo up; wait", NULL};
    const char *const leaving[] = {"sh", "-c", "sleep 70 & echo up", NULL};
    for (int i = 0; i < DEATH_COUNT; i++) {
        const struct death_row *row = &deaths[i];
        struct sbx_trial trial = {.options = OPTIONS "--linger 70 --grace 0.1",
                                  .command = row->left ? leaving : running,
                                  .as_nobody = _i == 1};
        char what[64];
        (void)snprintf(what, sizeof what, "row %d", i);
        sbx_trial_start(&trial);
        sbx_trial_wait_output(&trial, "up", BOUND_SECONDS);
        struct cast cast = find_cast(&trial, row->left);
        kill_all(&trial, &cast, row->victims);
        sbx_trial_wait(&trial);
        await_no_children(what);
        expect_death(&trial, row, what);
        ck_assert_msg(trial.elapsed_us < QUICK_US, "%s took too long", what);
        sbx_trial_done(&trial);
    }
}
END_TEST

/* --- found ------------------------------------------------------------------------ */

static bool bwrap_works(void)
{
    int status = system("bwrap --unshare-pid --dev-bind / / true 2>/dev/null");
    if (status != 0) {
        (void)fprintf(stderr, "SKIPPED: bwrap runs nothing here\n");
    }
    (void)sbx_trial_end_children(20); /* its init comes to us */
    return status == 0;
}

/* Its own processes are no strays, with its outside gone as well. */
START_TEST(a_launchers_namespace_is_used)
{
    if (!bwrap_works()) {
        return;
    }
    const char *const deaf[] = {"bwrap",      "--unshare-pid",
                                "--dev-bind", "/",
                                "/",          "sh",
                                "-c",         "trap '' TERM; sleep 60 & sleep 60",
                                NULL};
    struct sbx_trial trial = {.options = "--backend proc --wall 0.4 --grace 0.1",
                              .command = deaf,
                              .as_nobody = _i == 1};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 124, "breach", "wall");
    expect_namespace(&trial);
    ck_assert_str_eq(sbx_trial_string(&trial, "containment.kill"), "namespace-init");
    ck_assert_int_eq(sbx_trial_integer(&trial, "termination.killed_count"), 3);
    sbx_trial_done(&trial);
    /* its outside is killed: the init comes to us with all that is in it */
    SBX_AUTO_CLOSE int pipe = make_pipe();
    ck_assert_int_ge(pipe, 0);
    trial = run("--backend proc --linger 0.1",
                "exec 3<>$PIPE; bwrap --unshare-pid --dev-bind / / sh -c 'echo up >&3; "
                "exec sleep 60' & read -r up <&3; kill -KILL $!; exit 4",
                _i == 1);
    sbx_trial_expect(&trial, 4, "exited", NULL);
    sbx_trial_expect_empty(&trial);
    ck_assert_str_eq(sbx_trial_string(&trial, "containment.kill"), "namespace-init");
    sbx_trial_done(&trial);
}
END_TEST

/* --- at the launch itself --------------------------------------------------------- */

static struct sbx_namespace_note *map_note(void)
{
    void *memory = mmap(NULL, sizeof(struct sbx_namespace_note), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(memory != MAP_FAILED);
    return memory;
}

/* The shell that looks after jobs knows the front alone. */
START_TEST(the_front_stops_as_the_command_does)
{
    static const struct {
        const char *script;
        int number;
    } rows[] = {
        {"kill -STOP $$; exit 5", SIGSTOP},
        {"kill -TSTP 0; exit 5", SIGTSTP},
        {"kill -TTIN $$; exit 5", SIGTTIN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *const argv[] = {"sh", "-c", rows[i].script, NULL};
        struct sbx_launch launch = sbx_kit_launch(argv);
        struct sbx_error error = {0};
        siginfo_t info = {0};
        pid_t front = -1;
        int failed = 0;
        launch.note = map_note();
        ck_assert_msg(sbx_kit_start(&launch, &front, &failed, &error) == 0, "%s",
                      error.message);
        ck_assert_int_eq(waitid(P_PID, (id_t)front, &info, WSTOPPED | WEXITED), 0);
        ck_assert_int_eq(info.si_code, CLD_STOPPED);
        ck_assert_int_eq(info.si_status, rows[i].number);
        ck_assert_int_eq(kill(-front, SIGCONT), 0);
        ck_assert_int_eq(waitpid(front, NULL, 0), front);
        ck_assert_int_eq(atomic_load(&launch.note->ended), 1);
        sbx_kit_assert_exited(atomic_load(&launch.note->status), 5);
        sbx_kit_assert_no_child();
        (void)munmap(launch.note, sizeof *launch.note);
    }
}
END_TEST

/* Killed while it is stopped, the command ends, and so does the front. */
START_TEST(a_stopped_command_can_be_killed)
{
    const char *const argv[] = {"sh", "-c", "kill -STOP $$; exit 5", NULL};
    struct sbx_launch launch = sbx_kit_launch(argv);
    siginfo_t info = {0};
    pid_t front = -1;
    int failed = 0;
    launch.note = map_note();
    ck_assert_int_eq(sbx_kit_start(&launch, &front, &failed, NULL), 0);
    ck_assert_int_eq(waitid(P_PID, (id_t)front, &info, WSTOPPED), 0);
    ck_assert_int_eq(kill(atomic_load(&launch.note->command_pid), SIGKILL), 0);
    int status = -1;
    uint64_t end_us = sbx_clock_us() + BOUND_SECONDS * SBX_US_PER_S;
    while (waitpid(front, &status, WNOHANG) == 0) {
        ck_assert_msg(sbx_clock_us() < end_us, "the front stays stopped");
        (void)poll(NULL, 0, 2);
    }
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WTERMSIG(atomic_load(&launch.note->status)), SIGKILL);
    sbx_kit_assert_no_child();
    (void)munmap(launch.note, sizeof *launch.note);
}
END_TEST

/* The linker has the launch in this program call this. */
static bool is_old;
int __real_close_range(unsigned first, unsigned last, int flags);
int __wrap_close_range(unsigned first, unsigned last, int flags);
int __wrap_close_range(unsigned first, unsigned last, int flags)
{
    if (is_old) {
        errno = ENOSYS;
        return -1;
    }
    return __real_close_range(first, last, flags);
}

START_TEST(nor_is_it_without_close_range)
{
    const char *const argv[] = {"sleep", "60", NULL};
    struct sbx_launch launch = sbx_kit_launch(argv);
    int ends_of_pipe[2];
    pid_t front = -1;
    int failed = 0;
    launch.note = map_note();
    ck_assert_int_eq(pipe2(ends_of_pipe, O_CLOEXEC), 0);
    is_old = true;
    ck_assert_int_eq(sbx_kit_start(&launch, &front, &failed, NULL), 0);
    is_old = false;
    const pid_t pids[] = {front, atomic_load(&launch.note->init_pid)};
    uint64_t end_us = sbx_clock_us() + BOUND_SECONDS * SBX_US_PER_S;
    for (size_t i = 0; i < 2; i++) {
        while (count_open(pids[i], "pipe:") > 0) {
            ck_assert_msg(sbx_clock_us() < end_us, "process %zu holds a pipe", i);
            (void)poll(NULL, 0, 1);
        }
    }
    ck_assert_int_eq(kill(front, SIGKILL), 0);
    ck_assert_int_eq(waitpid(front, NULL, 0), front);
    ck_assert_int_eq(waitpid(pids[1], NULL, 0), pids[1]); /* it has come to us */
    sbx_kit_assert_no_child();
    (void)close(ends_of_pipe[0]);
    (void)close(ends_of_pipe[1]);
    (void)munmap(launch.note, sizeof *launch.note);
}
END_TEST

int main(void)
{
    int identities = sbx_trial_identities();
    Suite *suite = suite_create("namespace");
    TCase *tcase = sbx_fixture_case(suite, "namespace", 120);
    tcase_add_loop_test(tcase, it_ends_as_the_command_does, 0, identities);
    tcase_add_test(tcase, a_core_is_the_commands);
    tcase_add_loop_test(tcase, what_fails_has_not_run, 0, identities);
    tcase_add_loop_test(tcase, strays_are_named_and_ended, 0, identities);
    tcase_add_loop_test(tcase, strays_may_linger_and_be_waited_for, 0, identities);
    tcase_add_loop_test(tcase, strays_may_be_kept, 0, identities);
    tcase_add_loop_test(tcase, the_command_hears_of_its_end, 0, identities);
    tcase_add_loop_test(tcase, an_heirs_end_counts, 0, identities);
    tcase_add_loop_test(tcase, only_the_commands_processes_count, 0, identities);
    tcase_add_test(tcase, a_cpu_ceiling_is_one);
    tcase_add_loop_test(tcase, output_is_bounded_and_watched, 0, identities);
    tcase_add_loop_test(tcase, nothing_is_held_for_the_command, 0, identities);
    tcase_add_loop_test(tcase, it_sees_the_namespace_alone, 0, identities);
    tcase_add_loop_test(tcase, it_is_who_it_was, 0, identities);
    tcase_add_loop_test(tcase, a_group_is_the_better_rung, 0, identities);
    tcase_add_loop_test(tcase, threads_are_the_commands_alone, 0, identities);
    tcase_add_loop_test(tcase, what_the_kernel_refuses_is_told, 0, identities);
    tcase_add_loop_test(tcase, whoever_is_killed_nothing_is_left, 0, identities);
    tcase_add_loop_test(tcase, a_launchers_namespace_is_used, 0, identities);
    tcase_add_test(tcase, the_front_stops_as_the_command_does);
    tcase_add_test(tcase, a_stopped_command_can_be_killed);
    tcase_add_test(tcase, nor_is_it_without_close_range);
    return sbx_fixture_run(suite);
}
