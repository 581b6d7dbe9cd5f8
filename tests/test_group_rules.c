/*
 * test_group_rules.c - the kernel's own rules that the groups of runs rely on, on plain
 * files of plain groups. Where no group can be made that is said; what needs a controller
 * is tested in a virtual machine.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "tests/fixture.h"
#include "tests/group_kit.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define BOUND_S 20

static char path[SBX_GROUP_KIT_SIZE];

static bool prepare(void)
{
    if (!sbx_group_kit_make(path)) {
        sbx_group_kit_skip("a rule of groups", "none can be made here");
        return false;
    }
    return true;
}

static bool prepare_with_controllers(void)
{
    if (!sbx_group_kit_make_controlled(path)) {
        sbx_group_kit_skip("a rule of controllers", "none can be had here");
        return false;
    }
    return true;
}

static int attach(const char *directory, pid_t pid)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%d", (int)pid);
    return sbx_group_kit_write(directory, "cgroup.procs", text);
}

static pid_t start_sleeper(void)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void)alarm(60);
        for (;;) {
            (void)pause();
        }
    }
    return pid;
}

static void end_child(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

static bool holds(const char *directory, pid_t pid)
{
    char word[32];
    (void)snprintf(word, sizeof word, "%d", (int)pid);
    return sbx_group_kit_has(directory, "cgroup.procs", word);
}

START_TEST(a_frozen_group_can_be_killed)
{
    if (!prepare()) {
        return;
    }
    pid_t pid = start_sleeper();
    ck_assert_int_eq(attach(path, pid), 0);
    ck_assert_int_eq(sbx_group_kit_write(path, "cgroup.freeze", "1"), 0);
    uint64_t end_us = sbx_clock_us() + BOUND_S * SBX_US_PER_S;
    while (sbx_group_kit_number(path, "cgroup.events", "frozen") != 1 &&
           sbx_clock_us() < end_us) {
        (void)usleep(1000);
    }
    ck_assert_int_eq(sbx_group_kit_number(path, "cgroup.events", "frozen"), 1);
    end_child(pid); /* waits, within the test's bound */
    sbx_group_kit_remove(path);
}
END_TEST

/* A pread right after the last wait: the event comes later. */
START_TEST(an_empty_group_says_so_at_once)
{
    if (!prepare()) {
        return;
    }
    for (int i = 0; i < 20; i++) {
        pid_t pid = start_sleeper();
        ck_assert_int_eq(attach(path, pid), 0);
        ck_assert_int_eq(sbx_group_kit_number(path, "cgroup.events", "populated"), 1);
        end_child(pid);
        ck_assert_int_eq(sbx_group_kit_number(path, "cgroup.events", "populated"), 0);
    }
    sbx_group_kit_remove(path);
}
END_TEST

/* One with a child, which is told. */
static pid_t start_parent(int to)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        pid_t child = start_sleeper();
        (void)sbx_fd_write_all(to, &child, sizeof child);
        (void)alarm(60);
        (void)waitpid(child, NULL, 0);
        _exit(0);
    }
    return pid;
}

/* Who has forked before it is moved leaves the child outside: hence born in the leaf. */
START_TEST(a_move_leaves_earlier_children_outside)
{
    int fds[2];
    pid_t grandchild = 0;
    if (!prepare()) {
        return;
    }
    ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
    pid_t pid = start_parent(fds[1]);
    ck_assert_int_eq(read(fds[0], &grandchild, sizeof grandchild), sizeof grandchild);
    ck_assert_int_eq(attach(path, pid), 0);
    ck_assert(holds(path, pid));
    ck_assert(!holds(path, grandchild));
    ck_assert_int_eq(kill(grandchild, SIGKILL), 0); /* un-reaped: the child waits */
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    (void)close(fds[0]);
    (void)close(fds[1]);
    sbx_group_kit_remove(path);
}
END_TEST

static void *wait_for_the_end(void *nothing)
{
    (void)pause();
    return nothing;
}

/* One process that makes threads when it is told to; how many it could make is its
 * status. */
static pid_t start_threads(int from)
{
    char go;
    int made = 0;
    pthread_t thread;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid > 0) {
        return pid;
    }
    (void)alarm(60);
    (void)!read(from, &go, 1);
    while (made < 20 && pthread_create(&thread, NULL, wait_for_the_end, NULL) == 0) {
        made++;
    }
    _exit(made);
}

START_TEST(a_bound_of_tasks_counts_threads)
{
    enum { BOUND = 5 };
    char child[SBX_GROUP_KIT_SIZE];
    int fds[2];
    int status;
    if (!prepare_with_controllers()) {
        return;
    }
    sbx_group_kit_below(path, "child", child);
    ck_assert_int_eq(sbx_group_kit_write(child, "pids.max", "5"), 0);
    ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
    pid_t pid = start_threads(fds[0]);
    ck_assert_int_eq(attach(child, pid), 0);
    ck_assert_int_eq(write(fds[1], "x", 1), 1);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, (BOUND - 1) << 8);
    (void)close(fds[0]);
    (void)close(fds[1]);
    sbx_group_kit_remove(path);
}
END_TEST

START_TEST(a_memory_limit_is_rounded_down)
{
    char child[SBX_GROUP_KIT_SIZE];
    long page = sysconf(_SC_PAGESIZE);
    if (!prepare_with_controllers()) {
        return;
    }
    sbx_group_kit_below(path, "child", child);
    ck_assert_int_eq(sbx_group_kit_write(child, "memory.max", "1234567"), 0);
    ck_assert_int_eq(sbx_group_kit_number(child, "memory.max", NULL),
                     1234567 / page * page);
    sbx_group_kit_remove(path);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("group_rules");
    TCase *rules = sbx_fixture_case(suite, "rules", 60);
    tcase_add_test(rules, a_frozen_group_can_be_killed);
    tcase_add_test(rules, an_empty_group_says_so_at_once);
    tcase_add_test(rules, a_move_leaves_earlier_children_outside);
    tcase_add_test(rules, a_bound_of_tasks_counts_threads);
    tcase_add_test(rules, a_memory_limit_is_rounded_down);
    return sbx_fixture_run(suite);
}
