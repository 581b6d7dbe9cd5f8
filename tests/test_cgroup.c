/*
 * test_cgroup.c - a run in a leaf of its own, end to end: the built sbx-watch on bare
 * groups, which have no controllers. What only controllers give is in
 * test_cgroup_limits.c.
 *
 * Each scene has a place of its own for leaves, and ends with a look at what is left
 * there. Where no group can be made (an ordinary user without a delegated one) the scenes
 * say so, and only the refusals are tested. Signals the guard as our own un-reaped child
 * and the monitor through a pidfd.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "tests/cgroup_scene.h"
#include "tests/fixture.h"
#include "tests/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define REMEDY "systemd-run --user --scope -p Delegate=yes"

static const char *const leave_file[] = {"/bin/sh", "-c", ": >\"$0\"", "@/ran", NULL};

/* The leaf, "sbx-...", that a command has told by the content of its /proc/self/cgroup.
 */
static const char *leaf_of(const struct sbx_trial *trial,
                           char leaf[static SBX_GROUP_KIT_SIZE])
{
    char group[SBX_GROUP_KIT_SIZE];
    (void)sbx_scene_group_of(trial->out, group);
    const char *slash = strrchr(group, '/');
    ck_assert_ptr_nonnull(slash);
    ck_assert_msg(strncmp(slash + 1, "sbx-", 4) == 0, "the command ran in %s", group);
    sbx_group_kit_join(leaf, sbx_scene_place, slash + 1);
    return leaf;
}

static bool has_stray(const struct sbx_trial *trial, const char *name)
{
    size_t index;
    const json_t *stray;
    json_array_foreach(sbx_trial_item(trial, "termination.strays"), index, stray)
    {
        const char *its = json_string_value(json_object_get(stray, "name"));
        if (its != NULL && strcmp(its, name) == 0) {
            return true;
        }
    }
    return false;
}

/* --- what the report says ----------------------------------------------------------- */

static const char stray_script[] = "cat /proc/self/cgroup; " SBX_SCENE_STRAY "exit 3";
static const char *const with_stray[] = {"/bin/sh", "-c", stray_script, NULL};

static void expect_first_rung(const struct sbx_trial *trial)
{
    sbx_trial_expect(trial, 3, "exited", NULL);
    sbx_scene_expect_contained(trial, "cgroup.kill");
    sbx_scene_text(trial, "usage.cpu_method", "cgroup2");
    ck_assert(sbx_trial_boolean(trial, "usage.cpu_complete"));
    sbx_scene_number(trial, "termination.strays_count", 1, 1);
    ck_assert(has_stray(trial, "sleep"));
}

START_TEST(the_report_names_the_rung)
{
    char leaf[SBX_GROUP_KIT_SIZE];
    struct sbx_trial trial = {.command = with_stray};
    if (!sbx_scene_bare("a run in a leaf")) {
        return;
    }
    trial.options = sbx_scene_options(" ");
    sbx_trial_run(&trial);
    expect_first_rung(&trial);
    sbx_scene_absent(&trial, "armed");
    ck_assert(!sbx_group_kit_is_there(leaf_of(&trial, leaf)));
    sbx_trial_validate(&trial);
    sbx_trial_done(&trial);
    sbx_scene_end();
}
END_TEST

/* No option at all, from a group of our own: the leaf is there or above it, fresh, and
 * gone afterwards. */
START_TEST(it_is_found_by_itself)
{
    char leaf[SBX_GROUP_KIT_SIZE];
    char above[SBX_GROUP_KIT_SIZE];
    struct sbx_trial trial = {.command = with_stray, .prepare = sbx_scene_enter};
    if (!sbx_scene_bare("a leaf below our own group")) {
        return;
    }
    sbx_trial_run(&trial);
    expect_first_rung(&trial);
    char name[SBX_GROUP_KIT_SIZE];
    (void)snprintf(name, sizeof name, "%s", strrchr(leaf_of(&trial, leaf), '/') + 1);
    (void)snprintf(above, sizeof above, "%s", sbx_scene_place);
    for (char *slash; (slash = strrchr(above, '/')) > above; *slash = '\0') {
        sbx_group_kit_join(leaf, above, name);
        ck_assert_msg(!sbx_group_kit_is_there(leaf), "%s is left", leaf);
    }
    sbx_trial_done(&trial);
    sbx_scene_end();
}
END_TEST

/* From a group whose members were once ended by cgroup.kill, as by a service manager that
 * starts a service again: there are kernels that kill who is born in another group then.
 */
START_TEST(a_group_that_was_ended_once)
{
    static const char *const command[] = {"/bin/sh", "-c", "cat /proc/self/cgroup", NULL};
    char leaf[SBX_GROUP_KIT_SIZE];
    struct sbx_trial trial = {.command = command, .prepare = sbx_scene_enter};
    if (!sbx_scene_bare("a leaf below a group that was ended once")) {
        return;
    }
    int r = sbx_group_kit_write(sbx_scene_place, "cgroup.kill", "1");
    ck_assert_msg(r == 0 || r == -ENOENT, "cgroup.kill: %d", r); /* before 5.14 */
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    sbx_scene_expect_contained(&trial, NULL);
    ck_assert(!sbx_group_kit_is_there(leaf_of(&trial, leaf)));
    sbx_trial_done(&trial);
    sbx_scene_end();
}
END_TEST

/* Nobody to kill: nothing is said about how. */
START_TEST(an_empty_end_is_proved)
{
    static const char *const command[] = {"/bin/sh", "-c", "cat /proc/self/cgroup", NULL};
    char leaf[SBX_GROUP_KIT_SIZE];
    struct sbx_trial trial = {.command = command};
    if (!sbx_scene_bare("a run in a leaf")) {
        return;
    }
    trial.options = sbx_scene_options("--require cgroup2 --backend cgroup2");
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    sbx_scene_expect_contained(&trial, NULL);
    ck_assert(!sbx_group_kit_is_there(leaf_of(&trial, leaf)));
    sbx_scene_absent(&trial, "termination.strays.0");
    sbx_trial_done(&trial);
    sbx_scene_end();
}
END_TEST

START_TEST(proc_makes_no_group)
{
    struct sbx_trial trial = {
        .options = "--backend proc", .command = with_stray, .prepare = sbx_scene_enter};
    char group[SBX_GROUP_KIT_SIZE];
    if (!sbx_scene_bare("--backend proc")) {
        return;
    }
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 3, "exited", NULL);
    sbx_trial_expect_empty(&trial);
    sbx_scene_text(&trial, "containment.tracking", "subreaper");
    sbx_scene_text(&trial, "containment.kill", "sweep");
    sbx_scene_text(&trial, "termination.proof", "no-children");
    ck_assert_str_eq(strrchr(sbx_scene_group_of(trial.out, group), '/'),
                     strrchr(sbx_scene_place, '/'));
    sbx_trial_done(&trial);
    sbx_scene_end();
}
END_TEST

/* Two at once share the place, and none takes the other's leaf for left behind. */
START_TEST(runs_side_by_side)
{
    static const char *const command[] = {"/bin/sh", "-c", "echo up; read -r line", NULL};
    struct sbx_trial trials[3];
    int ends[2];
    if (!sbx_scene_bare("runs side by side")) {
        return;
    }
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    for (size_t i = 0; i < LENGTH(trials); i++) {
        trials[i] = (struct sbx_trial){.command = command, .stdio = {ends[0]}};
        trials[i].options = sbx_scene_options(" ");
        sbx_trial_start(&trials[i]);
        sbx_trial_wait_output(&trials[i], "up", 60);
    }
    (void)close(ends[0]);
    (void)close(ends[1]);
    for (size_t i = 0; i < LENGTH(trials); i++) {
        sbx_trial_wait(&trials[i]);
        sbx_trial_expect(&trials[i], 1, "exited", NULL); /* read at the end of file */
        sbx_scene_text(&trials[i], "termination.proof", "group-empty");
        sbx_trial_done(&trials[i]);
    }
    sbx_scene_end();
}
END_TEST

/* --- what a command can do to its groups -------------------------------------------- */

/* In a shell script: $G becomes the guard. */
#define ITS_GUARD "read -r a b c G rest </proc/$PPID/stat; "

static const struct {
    const char *name;
    const char *script;
    const char *options;
    int status;
    const char *outcome;
    const char *reason;
    const char *stray;
} courses[] = {
    {"nested groups",
     SBX_SCENE_LEAF "mkdir -p $g/a/b $g/c; " SBX_SCENE_STRAY
                    "echo $! >$g/a/b/cgroup.procs; exit 4",
     "", 4, "exited", NULL, "sleep"},
    {"a frozen group below",
     SBX_SCENE_LEAF "mkdir $g/a; " SBX_SCENE_STRAY
                    "echo $! >$g/a/cgroup.procs; echo 1 >$g/a/cgroup.freeze; exit 4",
     "", 4, "exited", NULL, "sleep"},
    {"a leader that freezes itself", SBX_SCENE_LEAF "echo 1 >$g/cgroup.freeze; exit 4",
     "--wall 300ms --grace 100ms", 124, "breach", "wall", NULL},
    /* Frozen with it, nobody would be left to end it. */
    {"all that is ours in its group",
     SBX_SCENE_LEAF ITS_GUARD "for p in $G $(cat /proc/$G/task/$G/children); do "
                              "echo $p >$g/cgroup.procs; done; " SBX_SCENE_STRAY "exit 4",
     "", 4, "exited", NULL, "sleep"},
    {"a guard in its group, and no monitor",
     SBX_SCENE_LEAF ITS_GUARD "echo $G >$g/cgroup.procs; kill -9 $PPID; exec sleep 60",
     "", 125, "lost", NULL, NULL},
    {"a monitor in its frozen group",
     SBX_SCENE_LEAF "mkdir $g/a; echo $PPID >$g/a/cgroup.procs; "
                    "echo 1 >$g/cgroup.freeze; exit 4",
     "--wall 300ms --grace 100ms", 124, "breach", "wall", NULL},
    /* One that left is still ours: it was seen before, and descends from the leader. */
    {"a member that moves out",
     "sh -c 'echo 0 >$P/../cgroup.procs || exit 1; exec sleep 60' & "
     "n=0; while [ $n -lt 200 ]; do read -r line </proc/$!/comm; "
     "[ \"$line\" = sleep ] && exit 4; n=$((n + 1)); sleep 0.05; done; exit 5",
     "--interval 10ms", 4, "exited", NULL, "sleep"},
};

START_TEST(whatever_it_does_it_is_ended)
{
    struct sbx_trial trial = {.prepare = sbx_scene_tell};
    const char *const command[] = {"/bin/sh", "-c", courses[_i].script, NULL};
    if (!sbx_scene_bare(courses[_i].name)) {
        return;
    }
    trial.command = command;
    trial.options = sbx_scene_options("%s", courses[_i].options);
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, courses[_i].status, courses[_i].outcome, courses[_i].reason);
    sbx_trial_expect_empty(&trial);
    sbx_scene_text(&trial, "containment.tracking", "cgroup2");
    ck_assert_msg(courses[_i].stray == NULL || has_stray(&trial, courses[_i].stray),
                  "%s: no stray %s", courses[_i].name, courses[_i].stray);
    ck_assert_msg(!has_stray(&trial, "sbx-watch") && !has_stray(&trial, "sbx-reader"),
                  "%s: who watches is called a stray", courses[_i].name);
    ck_assert_uint_lt(trial.elapsed_us, 30 * SBX_US_PER_S);
    sbx_trial_done(&trial);
    sbx_scene_end();
}
END_TEST

/* --- limits without controllers ----------------------------------------------------- */

static const struct {
    const char *options;
    const char *words[4];
} demands[] = {
    {"--require kernel-limits --memory 100M", {"kernel-limits", "memory", REMEDY, NULL}},
    {"--require kernel-limits --threads 20", {"kernel-limits", "pids", REMEDY, NULL}},
    {"--memory 100M --swap 10M", {"swap", "memory", REMEDY, NULL}},
    {"--cpu-quota 50", {"cpu-quota", "cpu", REMEDY, NULL}},
};

START_TEST(what_only_the_kernel_can_do_is_refused)
{
    struct sbx_trial trial = {.command = leave_file};
    if (!sbx_scene_bare(demands[_i].options)) {
        return;
    }
    trial.options = sbx_scene_options("%s", demands[_i].options);
    sbx_trial_run(&trial);
    sbx_scene_expect_refused(&trial, "arm", demands[_i].words);
    sbx_trial_done(&trial);
    sbx_scene_end();
}
END_TEST

/* Not demanded, the monitor holds it, and the report does not say that the kernel does.
 */
START_TEST(without_the_demand_the_monitor_holds_it)
{
    static const char *const command[] = {"@spike", "20", "300", "0", NULL};
    struct sbx_trial trial = {.command = command};
    if (!sbx_scene_bare("a memory limit on a bare leaf")) {
        return;
    }
    trial.options = sbx_scene_options("--memory 100M");
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    sbx_scene_expect_contained(&trial, NULL);
    sbx_scene_text(&trial, "usage.memory_method", "pss");
    sbx_scene_number(&trial, "limits.memory_bytes", 100 << 20, 100 << 20);
    sbx_scene_absent(&trial, "armed");
    sbx_trial_done(&trial);
    sbx_scene_end();
}
END_TEST

START_TEST(over_memory_on_a_bare_leaf)
{
    static const char *const command[] = {
        "/bin/sh", "-c", "\"$0\" 150 20000 0 & wait; exit 0", "@spike", NULL};
    struct sbx_trial trial = {.command = command};
    if (!sbx_scene_bare("a memory limit on a bare leaf")) {
        return;
    }
    trial.options = sbx_scene_options("--memory 60M");
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 124, "breach", "memory");
    sbx_scene_expect_contained(&trial, "cgroup.kill");
    sbx_scene_number(&trial, "breach.limit", 60 << 20, 60 << 20);
    sbx_scene_number(&trial, "breach.observed", 60 << 20, INT64_MAX);
    sbx_trial_done(&trial);
    sbx_scene_end();
}
END_TEST

/* --- where there is no group -------------------------------------------------------- */

static const struct {
    const char *options;
    const char *words[3];
} refused[] = {
    {"--backend cgroup2", {"--backend", "cgroup2 cannot be had: ", NULL}},
    {"--require cgroup2", {"--require", "cgroup2 cannot be had: ", NULL}},
};

/* Whether an ordinary user can make one here; as root: one that is no user of any. */
START_TEST(no_group_is_told)
{
    char path[SBX_GROUP_KIT_SIZE];
    struct sbx_trial trial = {.command = leave_file,
                              .options = refused[_i].options,
                              .as_nobody = geteuid() == 0};
    if (!trial.as_nobody && sbx_group_kit_make(path)) {
        sbx_group_kit_remove(path);
        sbx_group_kit_skip(refused[_i].options, "this user can make a group");
        return;
    }
    sbx_trial_run(&trial);
    sbx_scene_expect_refused(&trial, "arm", refused[_i].words);
    sbx_trial_done(&trial);
}
END_TEST

/* `auto` goes on, and says what it has. */
START_TEST(without_a_group_it_goes_on)
{
    char path[SBX_GROUP_KIT_SIZE];
    struct sbx_trial trial = {.command = with_stray, .as_nobody = geteuid() == 0};
    if (!trial.as_nobody && sbx_group_kit_make(path)) {
        sbx_group_kit_remove(path);
        sbx_group_kit_skip("a run without a group", "this user can make one");
        return;
    }
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 3, "exited", NULL);
    sbx_trial_expect_empty(&trial);
    sbx_scene_text(&trial, "containment.tracking", "subreaper");
    sbx_scene_text(&trial, "termination.proof", "no-children");
    sbx_trial_done(&trial);
}
END_TEST

/* A --cgroup-root that is no group, none of cgroup2, or has no parent to be made in. */
static const char *const no_roots[] = {"/proc", "/nowhere/below", "/tmp"};

START_TEST(a_wrong_root_is_told)
{
    char options[128];
    const char *const words[] = {no_roots[_i], NULL};
    struct sbx_trial trial = {.command = leave_file, .options = options};
    (void)snprintf(options, sizeof options, "--cgroup-root %s", no_roots[_i]);
    sbx_trial_run(&trial);
    char path[SBX_FIXTURE_PATH_SIZE];
    ck_assert_int_eq(trial.status, 125);
    ck_assert_msg(access(sbx_trial_path(&trial, path, "ran"), F_OK) < 0,
                  "the command has run");
    ck_assert_msg(strstr(trial.err, words[0]) != NULL, "%s", trial.err);
    sbx_trial_done(&trial);
}
END_TEST

/* --- kills ---------------------------------------------------------------------------
 */

static uint64_t random_below(uint64_t bound)
{
    static uint64_t state;
    if (state == 0) {
        const char *given = getenv("SBX_SEED");
        state = given != NULL ? strtoull(given, NULL, 10) : sbx_clock_us();
    }
    state += UINT64_C(0x9e3779b97f4a7c15); /* SplitMix64 */
    uint64_t z = (state ^ (state >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    return (z ^ (z >> 27)) % bound;
}

static void sleep_us(uint64_t us)
{
    struct timespec rest = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
    while (nanosleep(&rest, &rest) < 0 && errno == EINTR) {
    }
}

/* A pidfd of the guard's child "sbx-monitor"; -1: it has none now. */
static int open_monitor(pid_t guard)
{
    char path[64];
    char list[1024] = "";
    char *rest = NULL;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)guard,
                   (int)guard);
    (void)sbx_fd_read_text_at(AT_FDCWD, path, list, sizeof list);
    for (char *word = strtok_r(list, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        char name[64] = "";
        pid_t pid = (pid_t)strtol(word, NULL, 10);
        int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        (void)snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
        (void)sbx_fd_read_text_at(AT_FDCWD, path, name, sizeof name);
        if (pidfd >= 0 && strcmp(name, "sbx-monitor\n") == 0) {
            return pidfd;
        }
        sbx_fd_drop(&pidfd);
    }
    return -1;
}

enum target { MONITOR, GUARD, BOTH, TARGETS };

/* At a random moment from before the launch to after the leader's end. */
static void kill_at_random(const struct sbx_trial *trial, enum target target)
{
    sleep_us(random_below(60000));
    SBX_AUTO_CLOSE int monitor = open_monitor(trial->pid);
    if (target != MONITOR) {
        (void)kill(trial->pid, SIGKILL);
    }
    if (target != GUARD && monitor >= 0) {
        (void)syscall(SYS_pidfd_send_signal, monitor, SIGKILL, NULL, 0);
    }
}

static const char *const restless[] = {
    "/bin/sh", "-c",
    SBX_SCENE_LEAF "mkdir $g/a; sleep 60 & echo $! >$g/a/cgroup.procs; sleep 0.03", NULL};

/* Whatever was killed, and when: after the next start nothing is left, of processes and
 * of groups, and no controller is on that was not. With both gone there is nobody but
 * that next start. */
START_TEST(no_kill_leaves_a_group)
{
    const bool switched = _i == 1; /* the place's controllers are to be switched on */
    const char *options =
        switched ? "--require kernel-limits --memory 64M --threads 50" : " ";
    int rounds = getenv("SBX_LONG") != NULL ? 100 : 10;
    if (switched ? !sbx_scene_without_enabled("kills where controllers are switched on")
                 : !sbx_scene_bare("kills at random moments")) {
        return;
    }
    for (int round = 0; round < rounds; round++) {
        enum target target = (enum target)((unsigned)round % TARGETS);
        struct sbx_trial trial = {.command = restless, .prepare = sbx_scene_tell};
        trial.options = sbx_scene_options("%s", options);
        sbx_trial_start(&trial);
        kill_at_random(&trial, target);
        sbx_trial_wait(&trial);
        sbx_trial_done(&trial);
        /* With both gone, their tree lives on until the next start; which takes nothing
         * for left behind as long as somebody of that run lives. */
        sbx_scene_wait_gone(target == BOTH ? "sbx-" : "", 30);
    }
    struct sbx_trial last = {.command = restless, .prepare = sbx_scene_tell};
    last.options = sbx_scene_options("%s", options);
    sbx_trial_run(&last);
    sbx_trial_expect(&last, 0, "exited", NULL);
    ck_assert_str_eq(sbx_trial_string(&last, "termination.proof"), "group-empty");
    sbx_trial_done(&last);
    sbx_scene_wait_gone("", 30);
    sbx_scene_end();
}
END_TEST

/* The guard alone finishes what the monitor has begun, with the same tools. */
START_TEST(the_guard_ends_the_leaf)
{
    static const char *const command[] = {
        "/bin/sh", "-c",
        SBX_SCENE_LEAF "mkdir $g/a; sleep 60 & echo $! >$g/a/cgroup.procs; echo up; wait",
        NULL};
    struct sbx_trial trial = {.command = command, .prepare = sbx_scene_tell};
    if (!sbx_scene_bare("a run without its monitor")) {
        return;
    }
    trial.options = sbx_scene_options(" ");
    sbx_trial_start(&trial);
    sbx_trial_wait_output(&trial, "up", 60);
    int monitor = open_monitor(trial.pid);
    ck_assert_int_ge(monitor, 0);
    ck_assert_int_eq((int)syscall(SYS_pidfd_send_signal, monitor, SIGKILL, NULL, 0), 0);
    (void)close(monitor);
    sbx_trial_wait(&trial);
    sbx_trial_expect(&trial, 125, "lost", NULL);
    sbx_trial_expect_empty(&trial);
    sbx_scene_text(&trial, "containment.tracking", "cgroup2");
    sbx_scene_text(&trial, "containment.kill", "cgroup.kill");
    sbx_scene_number(&trial, "termination.killed_count", 2, 2); /* sh, and its sleep */
    sbx_trial_done(&trial);
    sbx_scene_end();
}
END_TEST

/* --- strays that may stay ------------------------------------------------------------
 */

static void run_beside(void)
{
    static const char *const command[] = {"/bin/true", NULL};
    struct sbx_trial trial = {.command = command};
    trial.options = sbx_scene_options(" ");
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    sbx_trial_done(&trial);
}

/* A child of ours by now. */
static void assert_alive(pid_t pid)
{
    ck_assert_int_gt(pid, 1);
    ck_assert_msg(waitpid(pid, NULL, WNOHANG) == 0, "process %d is gone", (int)pid);
}

START_TEST(a_kept_stray_keeps_its_group)
{
    static const char script[] = "cat /proc/self/cgroup; " SBX_SCENE_STRAY "exit 0";
    static const char *const command[] = {"/bin/sh", "-c", script, NULL};
    char leaf[SBX_GROUP_KIT_SIZE];
    char name[SBX_GROUP_KIT_SIZE];
    struct sbx_trial trial = {.command = command};
    if (!sbx_scene_bare("--strays keep")) {
        return;
    }
    trial.options = sbx_scene_options("--strays keep");
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    sbx_scene_text(&trial, "termination.proof", "none");
    const char *left = sbx_trial_string(&trial, "containment.group_left");
    ck_assert_msg(strstr(left, strrchr(leaf_of(&trial, leaf), '/')) != NULL,
                  "group_left is %s, not %s", left, leaf);
    ck_assert(has_stray(&trial, "sleep"));
    pid_t stray = (pid_t)sbx_trial_integer(&trial, "termination.strays.0.pid");
    assert_alive(stray);
    run_beside();
    assert_alive(stray);
    ck_assert_int_eq(sbx_group_kit_number(leaf, "cgroup.events", "populated"), 1);
    ck_assert_int_eq(sbx_trial_end_children(30), 1);
    ck_assert_uint_eq(sbx_group_kit_count(sbx_scene_place, "sbx-", name), 1);
    run_beside();
    sbx_trial_done(&trial);
    sbx_scene_end();
}
END_TEST

/* One that has come in is a stray like others. */
START_TEST(who_came_in_is_kept)
{
    static const char script[] = SBX_SCENE_LEAF "echo $Q >$g/cgroup.procs && exit 4";
    static const char *const command[] = {"/bin/sh", "-c", script, NULL};
    char number[32];
    char name[SBX_GROUP_KIT_SIZE];
    struct sbx_trial trial = {.command = command, .prepare = sbx_scene_tell};
    if (!sbx_scene_bare("--strays keep for somebody else")) {
        return;
    }
    pid_t guest = fork();
    if (guest == 0) {
        (void)alarm(60);
        (void)pause();
        _exit(0);
    }
    ck_assert_int_gt(guest, 0);
    (void)snprintf(number, sizeof number, "%d", (int)guest);
    ck_assert_int_eq(setenv("Q", number, 1), 0);
    trial.options = sbx_scene_options("--strays keep");
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 4, "exited", NULL);
    sbx_scene_text(&trial, "termination.proof", "none");
    sbx_scene_number(&trial, "termination.strays.0.pid", guest, guest);
    ck_assert_ptr_nonnull(sbx_trial_item(&trial, "containment.group_left"));
    ck_assert_int_eq(kill(guest, 0), 0);
    run_beside();
    ck_assert_int_eq(waitpid(guest, NULL, WNOHANG), 0);
    ck_assert_int_eq(kill(guest, SIGKILL), 0);
    ck_assert_int_eq(waitpid(guest, NULL, 0), guest);
    ck_assert_uint_eq(sbx_group_kit_count(sbx_scene_place, "sbx-", name), 1);
    run_beside();
    sbx_trial_done(&trial);
    sbx_scene_end();
}
END_TEST

static void enter_with_few(const struct sbx_trial *trial)
{
    const struct rlimit few = {24, 24};
    sbx_scene_enter(trial);
    (void)setrlimit(RLIMIT_NOFILE, &few);
}

/* A leaf is nothing to fail for where nobody has asked for it. */
START_TEST(with_few_descriptors_it_goes_on)
{
    struct sbx_trial trial = {.command = with_stray, .prepare = enter_with_few};
    if (!sbx_scene_bare("a run with few descriptors")) {
        return;
    }
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 3, "exited", NULL);
    sbx_trial_expect_empty(&trial);
    sbx_scene_text(&trial, "containment.tracking", "subreaper");
    sbx_trial_done(&trial);
    sbx_scene_end();
}
END_TEST

/* But what is demanded of the kernel is not had without one. */
static const char *const too_few[] = {
    "--require kernel-limits --memory 100M", "--require kernel-limits --threads 100",
    "--memory 100M --swap 10M", "--cpu-quota 50", "--require cgroup2"};

START_TEST(with_few_descriptors_nothing_demanded_runs)
{
    struct sbx_trial trial = {
        .command = with_stray, .options = too_few[_i], .prepare = enter_with_few};
    if (!sbx_scene_bare("a demand with few descriptors")) {
        return;
    }
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 125, "launch-failed", NULL);
    ck_assert_ptr_nonnull(strstr(trial.err, "too few descriptors"));
    ck_assert(!sbx_trial_has(&trial, "armed"));
    sbx_trial_done(&trial);
    sbx_scene_end();
}
END_TEST

/* --- who does not die ----------------------------------------------------------------
 */

static char
    frozen[64]; /* a group of cgroup v1: SIGKILL does nothing until it is thawed */

static bool make_frozen(void)
{
    (void)snprintf(frozen, sizeof frozen, "/sys/fs/cgroup/freezer/sbxtest-%d",
                   (int)getpid());
    if (mkdir(frozen, 0755) < 0) {
        sbx_group_kit_skip("a frozen member", "no freezer of cgroup v1 for this user");
        return false;
    }
    return true;
}

static void tell_frozen(const struct sbx_trial *trial)
{
    sbx_scene_tell(trial);
    (void)setenv("F", frozen, 1);
}

/* It is named, by what it is, and counts once, although three ways to end it were tried;
 * and none of them waits for as long as if it were the only one. */
START_TEST(who_does_not_die_is_named)
{
    static const char *const command[] = {
        "/bin/sh", "-c",
        "echo $$ >$F/cgroup.procs; echo FROZEN >$F/freezer.state; exit 6", NULL};
    struct sbx_trial trial = {.command = command, .prepare = tell_frozen};
    if (!sbx_scene_bare("a frozen member")) {
        return;
    }
    if (make_frozen()) {
        trial.options = sbx_scene_options("--wall 300ms --grace 0");
        sbx_trial_run(&trial);
        (void)sbx_group_kit_write(frozen, "freezer.state", "THAWED");
        (void)sbx_trial_end_children(30);
        ck_assert_int_eq(rmdir(frozen), 0);
        sbx_trial_expect(&trial, 125, "breach", "wall");
        sbx_scene_text(&trial, "termination.proof", "none");
        sbx_scene_number(&trial, "termination.killed_count", 1, 1);
        sbx_scene_number(&trial, "termination.survivors_count", 1, 1);
        sbx_scene_text(&trial, "termination.survivors.0.why",
                       "uninterruptible or frozen (state D)");
        sbx_scene_number(&trial, "termination.duration_us", 0, 9 * SBX_US_PER_S);
        run_beside(); /* takes its group away */
        sbx_trial_done(&trial);
    }
    sbx_scene_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cgroup");
    TCase *rung = sbx_fixture_case(suite, "rung", 120);
    tcase_add_test(rung, the_report_names_the_rung);
    tcase_add_test(rung, it_is_found_by_itself);
    tcase_add_test(rung, a_group_that_was_ended_once);
    tcase_add_test(rung, an_empty_end_is_proved);
    tcase_add_test(rung, proc_makes_no_group);
    tcase_add_test(rung, runs_side_by_side);
    tcase_add_loop_test(rung, whatever_it_does_it_is_ended, 0, (int)LENGTH(courses));
    TCase *bare = sbx_fixture_case(suite, "bare", 120);
    tcase_add_loop_test(bare, what_only_the_kernel_can_do_is_refused, 0,
                        (int)LENGTH(demands));
    tcase_add_test(bare, without_the_demand_the_monitor_holds_it);
    tcase_add_test(bare, over_memory_on_a_bare_leaf);
    TCase *none = sbx_fixture_case(suite, "none", 120);
    tcase_add_loop_test(none, no_group_is_told, 0, (int)LENGTH(refused));
    tcase_add_test(none, without_a_group_it_goes_on);
    tcase_add_test(none, with_few_descriptors_it_goes_on);
    tcase_add_loop_test(none, with_few_descriptors_nothing_demanded_runs, 0,
                        (int)LENGTH(too_few));
    tcase_add_loop_test(none, a_wrong_root_is_told, 0, (int)LENGTH(no_roots));
    TCase *left = sbx_fixture_case(suite, "left", 300);
    tcase_add_loop_test(left, no_kill_leaves_a_group, 0, 2);
    tcase_add_test(left, the_guard_ends_the_leaf);
    tcase_add_test(left, a_kept_stray_keeps_its_group);
    tcase_add_test(left, who_came_in_is_kept);
    if (getenv("SBX_LONG") != NULL) { /* most of it is waiting */
        tcase_add_test(left, who_does_not_die_is_named);
    }
    return sbx_group_kit_finish(sbx_fixture_run(suite));
}
