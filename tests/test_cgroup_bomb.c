/*
 * test_cgroup_bomb.c - what our ending of the worst tree costs, against the cheapest way
 * there is: a bomb of 1,500 processes, each in a session of its own, in a group of its
 * own, is ended by one write to cgroup.kill; then by a run of sbx-watch. Both in one net
 * that the kernel holds, alternately, so that the machine's load is the same for both.
 */
#include "tests/fixture.h"
#include "tests/group_kit.h"
#include "tests/net.h"
#include "tests/trial.h"

#include "base/clock.h"
#include "base/fd.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BOMB_COUNT "1500"
#define BOMB_SECONDS "12"
#define NET_TASKS 1800
#define ROUNDS 3
#define FACTOR 10

static void enter_net(const struct sbx_trial *trial)
{
    sbx_net_enter(trial->context);
}

static void nap(void)
{
    const struct timespec moment = {.tv_nsec = 200000};
    (void)nanosleep(&moment, NULL);
}

static void reap_all(void)
{
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}

/* In the group and in the net, its words go to a pipe. */
static int start_bare(const struct sbx_net *net, const char *group)
{
    char helper[SBX_FIXTURE_PATH_SIZE];
    int ends[2];
    sbx_fixture_helper(helper, "setsid_bomb");
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        sbx_net_enter(net);
        if (sbx_group_kit_write(group, "cgroup.procs", "0") < 0 || dup2(ends[1], 1) < 0) {
            _exit(99);
        }
        (void)execl(helper, helper, BOMB_COUNT, BOMB_SECONDS, (char *)NULL);
        _exit(99);
    }
    (void)close(ends[1]);
    return ends[0];
}

/* From the write to the last one's end. Two seconds after the start, as in the run. */
static double end_bare(const struct sbx_net *net)
{
    char group[SBX_GROUP_KIT_SIZE];
    char word[8];
    ck_assert(sbx_group_kit_make(group));
    uint64_t started = sbx_clock_us();
    SBX_AUTO_CLOSE int fd = start_bare(net, group);
    ck_assert_int_gt(read(fd, word, sizeof(word)), 0);
    while (sbx_clock_us() - started < 2 * SBX_US_PER_S) {
        nap();
    }
    uint64_t before = sbx_clock_us();
    ck_assert_int_eq(sbx_group_kit_write(group, "cgroup.kill", "1"), 0);
    while (sbx_group_kit_number(group, "cgroup.events", "populated") != 0) {
        ck_assert_uint_lt(sbx_clock_us() - before, 20 * SBX_US_PER_S);
        reap_all();
        nap();
    }
    double took = (double)(sbx_clock_us() - before) / 1000;
    reap_all();
    sbx_group_kit_remove(group);
    return took;
}

static double end_by_run(const struct sbx_net *net)
{
    static const char *const command[] = {"@setsid_bomb", BOMB_COUNT, BOMB_SECONDS, NULL};
    struct sbx_trial trial = {.command = command,
                              .options = "--wall 2 --grace 0 --require cgroup2",
                              .prepare = enter_net,
                              .context = net};
    sbx_trial_run(&trial);
    ck_assert_msg(strstr(trial.out, "up ") != NULL, "the bomb has not gone off");
    sbx_trial_expect(&trial, 124, "breach", "wall");
    sbx_trial_expect_empty(&trial);
    ck_assert_str_eq(sbx_trial_string(&trial, "containment.kill"), "cgroup.kill");
    ck_assert_str_eq(sbx_trial_string(&trial, "containment.guarantee"), "complete");
    ck_assert_int_gt(sbx_trial_integer(&trial, "termination.killed_count"), 100);
    double took = (double)sbx_trial_integer(&trial, "termination.duration_us") / 1000;
    sbx_trial_done(&trial);
    return took;
}

static int by_size(const void *a, const void *b)
{
    const double *first = a;
    const double *second = b;
    return (*first > *second) - (*first < *second);
}

START_TEST(a_bomb_ends_about_as_fast_as_by_a_bare_kill)
{
    char group[SBX_GROUP_KIT_SIZE];
    struct sbx_net net;
    double bare[ROUNDS];
    double run[ROUNDS];
    if (!sbx_net_fits(NET_TASKS) || !sbx_net_make(&net, NET_TASKS)) {
        sbx_group_kit_skip("the bomb in a group", "there is no net for it");
        return;
    }
    if (!sbx_group_kit_make(group)) {
        sbx_group_kit_skip("the bomb in a group", "no group can be made here");
        ck_assert(sbx_net_remove(&net));
        return;
    }
    sbx_group_kit_remove(group);
    for (int i = 0; i < ROUNDS; i++) {
        bare[i] = end_bare(&net);
        run[i] = end_by_run(&net);
    }
    qsort(bare, ROUNDS, sizeof(bare[0]), by_size);
    qsort(run, ROUNDS, sizeof(run[0]), by_size);
    (void)fprintf(stderr,
                  "# bomb of " BOMB_COUNT ": bare cgroup.kill %.1f ms, a run %.1f ms\n",
                  bare[ROUNDS / 2], run[ROUNDS / 2]);
    ck_assert_msg(run[ROUNDS / 2] < FACTOR * bare[ROUNDS / 2], "%.1f ms against %.1f ms",
                  run[ROUNDS / 2], bare[ROUNDS / 2]);
    ck_assert(sbx_net_remove(&net));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cgroup_bomb");
    TCase *bomb = sbx_fixture_case(suite, "bomb", 200);
    tcase_add_test(bomb, a_bomb_ends_about_as_fast_as_by_a_bare_kill);
    return sbx_group_kit_finish(sbx_fixture_run(suite));
}
