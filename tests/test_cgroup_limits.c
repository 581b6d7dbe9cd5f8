/*
 * test_cgroup_limits.c - limits that the kernel holds, and verdicts from its counters:
 * the built sbx-watch with the controllers memory, pids and cpu.
 *
 * Needs a delegated group whose children have them, named by SBX_GUEST_CGROUP in the
 * environment (as the virtual machines' guests have); without it every scene says that it
 * is skipped. SBX_GUEST_EMPTY_CGROUP may name another, which nobody is in and which hands
 * on no controllers yet. Memory is bounded by the commands as well as by the limits: at
 * most 200 MiB.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "tests/cgroup_scene.h"
#include "tests/fixture.h"
#include "tests/trial.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define MIB INT64_C(1048576)

static const char *const leave_file[] = {"/bin/sh", "-c", ": >\"$0\"", "@/ran", NULL};

/* Runs it with those options and P; the caller ends the trial. */
static void run(struct sbx_trial *trial, const char *const *command, const char *options)
{
    *trial = (struct sbx_trial){.command = command, .prepare = sbx_scene_tell};
    trial->options = sbx_scene_options("%s", options);
    sbx_trial_run(trial);
}

/* Of what the command printed, behind the word. */
static long long told(const struct sbx_trial *trial, const char *word)
{
    const char *at = strstr(trial->out, word);
    ck_assert_msg(at != NULL, "no %s in: %s (stderr: %s)", word, trial->out, trial->err);
    return strtoll(at + strlen(word), NULL, 10);
}

static void finish(struct sbx_trial *trial)
{
    sbx_trial_validate(trial);
    sbx_trial_done(trial);
    sbx_scene_end();
}

/* --- memory --------------------------------------------------------------------------
 */

static const char in_nested[] = SBX_SCENE_LEAF
    "mkdir $g/n; sh -c 'echo 0 >'$g'/n/cgroup.procs; exec \"$0\" 150 20000 "
    "0' \"$0\"; exit 0";

static const struct {
    const char *name;
    const char *const command[8];
} greedy[] = {
    {"a leader over --memory", {"@spike", "150", "20000", "0", NULL}},
    {"a grandchild over --memory",
     {"/bin/sh", "-c", "(\"$0\" 150 20000 0; true) & wait; exit 0", "@spike", NULL}},
    {"a victim in a nested group", {"/bin/sh", "-c", in_nested, "@spike", NULL}},
};

START_TEST(over_memory_is_stopped_by_the_kernel)
{
    struct sbx_trial trial;
    if (!sbx_scene_with_controllers(greedy[_i].name)) {
        return;
    }
    run(&trial, greedy[_i].command, "--memory 64M");
    sbx_trial_expect(&trial, 124, "breach", "memory");
    sbx_scene_expect_contained(&trial, NULL);
    sbx_scene_number(&trial, "breach.limit", 64 * MIB, 64 * MIB);
    sbx_scene_number(&trial, "breach.observed", 60 * MIB, INT64_MAX);
    sbx_scene_text(&trial, "usage.memory_method", "cgroup2");
    sbx_scene_number(&trial, "armed.memory_bytes", 64 * MIB, 64 * MIB);
    sbx_scene_number(&trial, "usage.memory_peak_bytes", 60 * MIB, INT64_MAX);
    sbx_scene_number(&trial, "usage.memory_peak_bytes", 0, 65 * MIB);
    sbx_scene_number(&trial, "usage.oom_kills", 1, INT64_MAX);
    /* Nobody had as much as it asked for. */
    ck_assert_uint_lt(trial.elapsed_us, 20 * SBX_US_PER_S);
    finish(&trial);
}
END_TEST

/* A command of the same user can take the limit away, or leave it. What was armed is not
 * what holds then, and the samples say so. */
static const struct {
    const char *name;
    const char *script;
    const char *method;
} evasions[] = {
    {"a limit that is taken back",
     SBX_SCENE_LEAF "echo max >$g/memory.max || exit 5; \"$0\" 150 20000 0; exit 0",
     "cgroup2"},
    {"a member outside",
     "mkdir $P/out; echo $$ >$P/out/cgroup.procs || exit 5; \"$0\" 150 20000 0; exit 0",
     "pss"},
};

START_TEST(nobody_gets_away_from_the_limit)
{
    const char *const command[] = {"/bin/sh", "-c", evasions[_i].script, "@spike", NULL};
    struct sbx_trial trial;
    if (!sbx_scene_with_controllers(evasions[_i].name)) {
        return;
    }
    run(&trial, command, "--memory 64M");
    sbx_trial_expect(&trial, 124, "breach", "memory");
    sbx_scene_expect_contained(&trial, "cgroup.kill");
    sbx_scene_number(&trial, "breach.limit", 64 * MIB, 64 * MIB);
    sbx_scene_number(&trial, "breach.observed", 64 * MIB, INT64_MAX);
    sbx_scene_number(&trial, "usage.memory_peak_bytes", 64 * MIB, INT64_MAX);
    sbx_scene_text(&trial, "usage.memory_method", evasions[_i].method);
    ck_assert_uint_lt(trial.elapsed_us, 15 * SBX_US_PER_S); /* not by itself */
    finish(&trial);
}
END_TEST

/* A limit that the command has set for a group of its own below is its own affair. */
START_TEST(its_own_limits_are_its_own_affair)
{
    static const char *const command[] = {
        "/bin/sh", "-c",
        SBX_SCENE_LEAF
        "mkdir $g/me $g/n; echo 0 >$g/me/cgroup.procs; "
        "echo +memory >$g/cgroup.subtree_control; echo 16M >$g/n/memory.max; "
        "echo 0 >$g/n/memory.swap.max; "
        "sh -c 'echo 0 >'$g'/n/cgroup.procs; exec \"$0\" 60 20000 0' \"$0\"; "
        "echo status $?; exit 5",
        "@spike", NULL};
    struct sbx_trial trial;
    if (!sbx_scene_with_controllers("a limit of the command's own")) {
        return;
    }
    run(&trial, command, "--memory 128M");
    sbx_trial_expect(&trial, 5, "exited", NULL);
    ck_assert_int_eq(told(&trial, "status "), 128 + SIGKILL);
    sbx_scene_expect_contained(&trial, NULL);
    finish(&trial);
}
END_TEST

/* What the group says itself at the same moment. */
START_TEST(the_peak_is_the_groups)
{
    static const char script[] =
        SBX_SCENE_LEAF "\"$0\" 40 100 0; echo peak $(cat $g/memory.peak)";
    static const char *const command[] = {"/bin/sh", "-c", script, "@spike", NULL};
    struct sbx_trial trial;
    if (!sbx_scene_with_controllers("the peak")) {
        return;
    }
    run(&trial, command, "--memory 128M");
    sbx_trial_expect(&trial, 0, "exited", NULL);
    double peak = (double)told(&trial, "peak ");
    double reported = (double)sbx_trial_integer(&trial, "usage.memory_peak_bytes");
    ck_assert_msg(reported >= 0.98 * peak && reported <= 1.02 * peak,
                  "memory.peak %.0f, reported %.0f", peak, reported);
    ck_assert_double_ge(peak, 40.0 * 1048576);
    sbx_scene_text(&trial, "usage.memory_method", "cgroup2");
    sbx_scene_number(&trial, "usage.memory_anon_peak_bytes", 0, (int64_t)(1.02 * peak));
    finish(&trial);
}
END_TEST

/* Also without a limit: measured by the group where it can be. */
START_TEST(measured_without_a_limit)
{
    static const char *const command[] = {"@spike", "40", "100", "0", NULL};
    struct sbx_trial trial;
    if (!sbx_scene_with_controllers("a run without limits")) {
        return;
    }
    run(&trial, command, "");
    sbx_trial_expect(&trial, 0, "exited", NULL);
    sbx_scene_text(&trial, "usage.memory_method", "cgroup2");
    sbx_scene_text(&trial, "usage.cpu_method", "cgroup2");
    sbx_scene_number(&trial, "usage.memory_peak_bytes", 40 * MIB, INT64_MAX);
    sbx_scene_absent(&trial, "armed");
    finish(&trial);
}
END_TEST

/* A file on something that has page cache: the test's directory, or a disk that we may
 * read. Memory file systems have none of it: their files are memory. */
static const char *cached_file(char path[static SBX_FIXTURE_PATH_SIZE], bool *ret_write)
{
    static const char *const disks[] = {"/dev/ram1", "/dev/vda", "/dev/sda"};
    static const long memory_magics[] = {0x01021994, (long)0x858458f6}; /* tmpfs, ramfs */
    struct statfs status;
    ck_assert_int_eq(statfs(sbx_fixture_dir(), &status), 0);
    *ret_write = true;
    if (status.f_type != memory_magics[0] && status.f_type != memory_magics[1]) {
        return sbx_fixture_path(path, "cached");
    }
    *ret_write = false;
    for (size_t i = 0; i < LENGTH(disks); i++) {
        if (access(disks[i], R_OK) == 0) {
            return disks[i];
        }
    }
    return NULL;
}

START_TEST(page_cache_is_no_breach)
{
    struct sbx_trial trial;
    char path[SBX_FIXTURE_PATH_SIZE];
    bool writes;
    const char *file = cached_file(path, &writes);
    if (file == NULL) {
        sbx_group_kit_skip("page cache", "no disk here");
        return;
    }
    const char *const command[] = {
        "/bin/sh", "-c",
        writes ? "dd if=/dev/zero of=\"$0\" bs=1048576 count=200 2>&1"
               : "dd if=\"$0\" of=/dev/null bs=1048576 count=200 2>&1",
        file, NULL};
    if (!sbx_scene_with_controllers("page cache")) {
        return;
    }
    run(&trial, command, "--memory 64M");
    sbx_trial_expect(&trial, 0, "exited", NULL);
    sbx_scene_expect_contained(&trial, NULL);
    sbx_scene_text(&trial, "usage.memory_method", "cgroup2");
    sbx_scene_number(&trial, "usage.memory_anon_peak_bytes", 0, 32 * MIB);
    finish(&trial);
}
END_TEST

/* --- whose OOM killer it was ---------------------------------------------------------
 */

START_TEST(an_ancestors_oom_is_told_apart)
{
    static const char *const command[] = {"@spike", "150", "20000", "0", NULL};
    struct sbx_trial trial;
    if (!sbx_scene_with_controllers("an ancestor's limit")) {
        return;
    }
    ck_assert_int_eq(sbx_group_kit_write(sbx_scene_place, "memory.max", "48M"), 0);
    (void)sbx_group_kit_write(sbx_scene_place, "memory.swap.max", "0");
    run(&trial, command, "--memory 400M");
    sbx_trial_expect(&trial, 124, "breach", "oom");
    sbx_scene_expect_contained(&trial, NULL);
    sbx_scene_number(&trial, "usage.oom_kills", 1, INT64_MAX);
    ck_assert_int_gt(sbx_group_kit_number(sbx_scene_place, "memory.events", "oom"), 0);
    finish(&trial);
}
END_TEST

/* --- tasks ---------------------------------------------------------------------------
 */

START_TEST(a_fork_storm_never_has_more_tasks)
{
    static const char *const command[] = {"@setsid_bomb", "100", "10", NULL};
    struct sbx_trial trial;
    if (!sbx_scene_with_controllers("a fork storm under --threads")) {
        return;
    }
    run(&trial, command, "--threads 20");
    sbx_trial_expect(&trial, 124, "breach", "threads");
    sbx_scene_expect_contained(&trial, "cgroup.kill");
    sbx_scene_number(&trial, "breach.limit", 20, 20);
    sbx_scene_number(&trial, "armed.threads", 20, 20);
    sbx_scene_number(&trial, "usage.threads_peak", 0, 20);
    /* Nobody but the leaf is in the place, which counts for itself. */
    long long peak = sbx_group_kit_number(sbx_scene_place, "pids.peak", NULL);
    ck_assert_int_ge(peak, 20);
    ck_assert_int_le(peak, 20);
    ck_assert_uint_lt(trial.elapsed_us, 9 * SBX_US_PER_S); /* not by itself */
    finish(&trial);
}
END_TEST

/* A refused fork is a breach although the leader takes it well and exits 0, wherever the
 * kernel counts it. */
static const struct {
    const char *name;
    const char *const command[6];
} forkers[] = {
    {"a refused fork", {"@fork_count", "30", NULL}},
    {"a refused fork behind a larger limit of its own",
     {"/bin/sh", "-c",
      SBX_SCENE_LEAF "mkdir $g/n; echo $$ >$g/n/cgroup.procs; "
                     "echo +pids >$g/cgroup.subtree_control; "
                     "echo 100 >$g/n/pids.max || exit 5; exec \"$0\" 30",
      "@fork_count", NULL}},
};

START_TEST(a_refused_fork_is_a_breach)
{
    struct sbx_trial trial;
    if (!sbx_scene_with_controllers(forkers[_i].name)) {
        return;
    }
    run(&trial, forkers[_i].command, "--threads 20");
    sbx_trial_expect(&trial, 124, "breach", "threads");
    ck_assert_msg(strstr(trial.out, "forked ") == NULL || told(&trial, "forked ") == 19,
                  "%s", trial.out);
    finish(&trial);
}
END_TEST

/* --processes is the monitor's: zombies and threads are not counted. */
START_TEST(a_storm_under_processes_is_ended)
{
    static const char *const command[] = {"@setsid_bomb", "100", "10", NULL};
    struct sbx_trial trial;
    if (!sbx_scene_with_controllers("a fork storm under --processes")) {
        return;
    }
    run(&trial, command, "--processes 20");
    sbx_trial_expect(&trial, 124, "breach", "processes");
    sbx_scene_expect_contained(&trial, "cgroup.kill");
    sbx_scene_number(&trial, "breach.observed", 20 + 1, INT64_MAX);
    sbx_scene_absent(&trial, "armed");
    ck_assert_uint_lt(trial.elapsed_us, 9 * SBX_US_PER_S);
    finish(&trial);
}
END_TEST

/* --- armed as asked, and read back ---------------------------------------------------
 */

/* The options, a file of the leaf, what is in it, and what the report says of it. */
static const struct {
    const char *options;
    const char *file;
    const char *content;
    const char *key;
    int64_t value;
} armed[] = {
    {"--memory 64M", "memory.max", "67108864", "armed.memory_bytes", 64 * MIB},
    {"--memory 64M", "memory.swap.max", "0", NULL, 0},
    {"--memory 64M", "memory.oom.group", "1", NULL, 0},
    /* Down to pages, and said so. */
    {"--memory 67110000", "memory.max", "67108864", "armed.memory_bytes", 64 * MIB},
    {"--memory 64M --swap 32M", "memory.swap.max", "33554432", "armed.swap_bytes",
     32 * MIB},
    {"--threads 20", "pids.max", "20", "armed.threads", 20},
    {"--processes 20", "pids.max", "max", NULL, 0},
    {"--cpu-quota 50", "cpu.max", "50000 100000", "armed.cpu_quota_percent", 50},
    {"--cpu-quota 250", "cpu.max", "250000 100000", "armed.cpu_quota_percent", 250},
};

START_TEST(armed_as_asked)
{
    char script[512];
    char line[64];
    const char *const command[] = {"/bin/sh", "-c", script, NULL};
    struct sbx_trial trial;
    if (!sbx_scene_with_controllers(armed[_i].options)) {
        return;
    }
    (void)snprintf(script, sizeof script, SBX_SCENE_LEAF "echo is $(cat $g/%s)",
                   armed[_i].file);
    (void)snprintf(line, sizeof line, "is %s\n", armed[_i].content);
    run(&trial, command, armed[_i].options);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    ck_assert_msg(strcmp(trial.out, line) == 0, "%s: %s, not %s", armed[_i].file,
                  trial.out, armed[_i].content);
    if (armed[_i].key != NULL) {
        ck_assert_int_eq(sbx_trial_integer(&trial, armed[_i].key), armed[_i].value);
    }
    finish(&trial);
}
END_TEST

START_TEST(the_demand_is_met)
{
    struct sbx_trial trial;
    char path[SBX_FIXTURE_PATH_SIZE];
    if (!sbx_scene_with_controllers("--require kernel-limits")) {
        return;
    }
    run(&trial, leave_file,
        "--require kernel-limits --require cgroup2 --memory 64M --threads 20");
    sbx_trial_expect(&trial, 0, "exited", NULL);
    ck_assert_int_eq(access(sbx_trial_path(&trial, path, "ran"), F_OK), 0);
    sbx_scene_number(&trial, "armed.memory_bytes", 64 * MIB, 64 * MIB);
    sbx_scene_number(&trial, "armed.threads", 20, 20);
    finish(&trial);
}
END_TEST

static bool has_swap(void)
{
    char text[1024] = "";
    (void)sbx_fd_read_text_at(AT_FDCWD, "/proc/swaps", text, sizeof text);
    const char *second = strchr(text, '\n');
    return second != NULL && second[1] == '/';
}

/* What does not fit into the memory goes into the swap that was allowed. */
START_TEST(swap_is_used_as_far_as_allowed)
{
    static const char *const command[] = {"@spike", "90", "100", "0", NULL};
    struct sbx_trial trial;
    if (!has_swap()) {
        sbx_group_kit_skip("the use of --swap", "no swap here");
        return;
    }
    if (!sbx_scene_with_controllers("the use of --swap")) {
        return;
    }
    run(&trial, command, "--memory 64M");
    sbx_trial_expect(&trial, 124, "breach", "memory");
    sbx_trial_done(&trial);
    run(&trial, command, "--memory 64M --swap 64M");
    sbx_trial_expect(&trial, 0, "exited", NULL);
    sbx_scene_number(&trial, "usage.swap_peak_bytes", 16 * MIB, INT64_MAX);
    finish(&trial);
}
END_TEST

/* Two processes that would use 100 to 200 % get about 50. */
START_TEST(the_quota_holds)
{
    static const char *const command[] = {"@spin", "400", "2", NULL};
    struct sbx_trial trial;
    if (!sbx_scene_with_controllers("--cpu-quota")) {
        return;
    }
    run(&trial, command, "--cpu-quota 50");
    sbx_trial_expect(&trial, 0, "exited", NULL);
    double cpu_us = (double)sbx_trial_integer(&trial, "usage.cpu_us");
    double wall_us = (double)sbx_trial_integer(&trial, "usage.wall_us");
    ck_assert_double_ge(cpu_us, 700000.0);
    ck_assert_msg(cpu_us <= 0.65 * wall_us, "%.0f us of CPU in %.0f us", cpu_us, wall_us);
    finish(&trial);
}
END_TEST

/* --- found by itself, and controllers that have to be switched on --------------------
 */

/* Without --cgroup-root: the nearest place that has them. Its other groups are not ours
 * to look at, but the leaf is gone. */
START_TEST(the_place_is_found)
{
    static const char *const command[] = {"/bin/sh", "-c", "cat /proc/self/cgroup", NULL};
    struct sbx_trial trial = {.command = command};
    if (!sbx_scene_with_controllers("a place with controllers")) {
        return;
    }
    trial.options = "--require kernel-limits --memory 64M";
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    sbx_scene_text(&trial, "usage.memory_method", "cgroup2");
    char group[SBX_GROUP_KIT_SIZE];
    char leaf[SBX_GROUP_KIT_SIZE];
    const char *name = strrchr(sbx_scene_group_of(trial.out, group), '/');
    ck_assert_msg(name != NULL && strncmp(name, "/sbx-", 5) == 0, "%s", group);
    sbx_group_kit_join(leaf, getenv("SBX_GUEST_CGROUP"), name + 1);
    ck_assert(!sbx_group_kit_is_there(leaf));
    finish(&trial);
}
END_TEST

static bool begin_alone(const char *what)
{
    const char *empty = getenv("SBX_GUEST_EMPTY_CGROUP");
    if (empty == NULL) {
        return sbx_scene_without_enabled(what);
    }
    return sbx_scene_in(empty);
}

/* Alone in a group that hands on nothing: sbx-watch steps aside, switches on what it
 * needs, and puts everything back. Once found by itself, once named. */
START_TEST(what_was_switched_on_is_switched_off)
{
    static const char *const command[] = {
        "/bin/sh", "-c",
        SBX_SCENE_LEAF "echo max $(cat $g/memory.max) $(cat $g/pids.max)", NULL};
    struct sbx_trial trial = {.command = command, .prepare = sbx_scene_enter};
    if (!begin_alone("controllers to switch on")) {
        return;
    }
    trial.options =
        _i == 0 ? "--require kernel-limits --memory 64M --threads 30"
                : sbx_scene_options("--require kernel-limits --memory 64M --threads 30");
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    ck_assert_msg(strcmp(trial.out, "max 67108864 30\n") == 0, "%s%s", trial.out,
                  trial.err);
    sbx_scene_expect_contained(&trial, NULL);
    finish(&trial);
}
END_TEST

/* From outside two runs share what one of them has switched on; the last one, whichever
 * that is, switches it off. */
START_TEST(the_last_one_switches_off)
{
    static const char *const command[] = {"/bin/sh", "-c", "echo up; read -r line", NULL};
    struct sbx_trial trials[2];
    int pipes[2][2];
    if (!begin_alone("controllers shared by runs")) {
        return;
    }
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(pipe2(pipes[i], O_CLOEXEC), 0);
        trials[i] = (struct sbx_trial){.command = command, .stdio = {pipes[i][0]}};
        trials[i].options = sbx_scene_options("--require kernel-limits --memory 64M");
        sbx_trial_start(&trials[i]);
        sbx_trial_wait_output(&trials[i], "up", 60);
    }
    for (size_t i = 0; i < 2; i++) {
        size_t next = i ^ (size_t)_i;
        ck_assert(sbx_group_kit_has(sbx_scene_place, "cgroup.subtree_control", "memory"));
        (void)close(pipes[next][0]);
        (void)close(pipes[next][1]);
        sbx_trial_wait(&trials[next]);
        sbx_trial_expect(&trials[next], 1, "exited", NULL);
        sbx_trial_done(&trials[next]);
    }
    sbx_scene_end();
}
END_TEST

/* Both of its processes are killed, and cannot put anything back: the next start does. */
START_TEST(the_next_start_switches_off)
{
    static const char *const command[] = {"/bin/sh", "-c", "echo up; sleep 60", NULL};
    static const char *const nothing[] = {"/bin/true", NULL};
    struct sbx_trial trial = {.command = command};
    char list[256] = "";
    char path[64];
    if (!begin_alone("controllers of a run that was killed")) {
        return;
    }
    trial.options = sbx_scene_options("--require kernel-limits --memory 64M");
    sbx_trial_start(&trial);
    sbx_trial_wait_output(&trial, "up", 60);
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)trial.pid,
                   (int)trial.pid);
    (void)sbx_fd_read_text_at(AT_FDCWD, path, list, sizeof list);
    (void)kill(trial.pid,
               SIGSTOP); /* its children cannot be reaped: the pids are theirs */
    char *rest = NULL;
    for (char *word = strtok_r(list, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        (void)kill((pid_t)strtol(word, NULL, 10), SIGKILL);
    }
    (void)kill(trial.pid, SIGKILL);
    sbx_trial_wait(&trial);
    sbx_trial_done(&trial);
    sbx_scene_wait_gone("sbx-", 30);
    ck_assert(sbx_group_kit_has(sbx_scene_place, "cgroup.subtree_control", "memory"));
    run(&trial, nothing, "");
    sbx_trial_expect(&trial, 0, "exited", NULL);
    sbx_trial_done(&trial);
    sbx_scene_wait_gone("", 30); /* the sleep was ended by that start */
    sbx_scene_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cgroup_limits");
    TCase *memory = sbx_fixture_case(suite, "memory", 120);
    tcase_add_loop_test(memory, over_memory_is_stopped_by_the_kernel, 0,
                        (int)LENGTH(greedy));
    tcase_add_loop_test(memory, nobody_gets_away_from_the_limit, 0,
                        (int)LENGTH(evasions));
    tcase_add_test(memory, its_own_limits_are_its_own_affair);
    tcase_add_test(memory, the_peak_is_the_groups);
    tcase_add_test(memory, measured_without_a_limit);
    tcase_add_test(memory, page_cache_is_no_breach);
    tcase_add_test(memory, an_ancestors_oom_is_told_apart);
    tcase_add_test(memory, swap_is_used_as_far_as_allowed);
    TCase *tasks = sbx_fixture_case(suite, "tasks", 120);
    tcase_add_test(tasks, a_fork_storm_never_has_more_tasks);
    tcase_add_loop_test(tasks, a_refused_fork_is_a_breach, 0, (int)LENGTH(forkers));
    tcase_add_test(tasks, a_storm_under_processes_is_ended);
    TCase *held = sbx_fixture_case(suite, "armed", 120);
    tcase_add_loop_test(held, armed_as_asked, 0, (int)LENGTH(armed));
    tcase_add_test(held, the_demand_is_met);
    tcase_add_test(held, the_quota_holds);
    TCase *place = sbx_fixture_case(suite, "place", 120);
    tcase_add_test(place, the_place_is_found);
    tcase_add_loop_test(place, what_was_switched_on_is_switched_off, 0, 2);
    tcase_add_loop_test(place, the_last_one_switches_off, 0, 2);
    tcase_add_test(place, the_next_start_switches_off);
    return sbx_group_kit_finish(sbx_fixture_run(suite));
}
