/*
 * test_tree.c - the members of a tree, on real processes, and their table against a
 * model.
 */
#include "tests/fixture.h"
#include "tests/tree_kit.h"

#include "base/clock.h"
#include "base/fd.h"
#include "reaper/members.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MANY 4096U /* a budget that no test here uses up */

static const size_t budgets[] = {0, 7, MANY};
#define BUDGET_COUNT (int)(sizeof budgets / sizeof budgets[0])

static size_t open_descriptors(void)
{
    SBX_AUTO_CLOSEDIR DIR *directory = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(directory);
    size_t count = 0;
    while (readdir(directory) != NULL) {
        count++;
    }
    return count - 3; /* ".", ".." and the directory itself */
}

static void expect_parents_first(struct sbx_kit *kit)
{
    size_t count = sbx_tree_count(kit->tree);
    for (size_t i = 0; i < count; i++) {
        const struct sbx_member *member = sbx_tree_member(kit->tree, i);
        bool found = member->stat.ppid == getpid();
        for (size_t j = 0; j < i && !found; j++) {
            found = sbx_tree_member(kit->tree, j)->stat.pid == member->stat.ppid;
        }
        ck_assert_msg(found, "member %zu (%d) comes before its parent %d", i,
                      (int)member->stat.pid, (int)member->stat.ppid);
    }
}

/* --- who is found --- */

/* Each with every budget, by descent, and by whole-host scan. */
static const struct {
    const char *command[4];
    size_t members;
    unsigned ups; /* processes that say when they are up; 0: one */
} trees[] = {
    {{"spin", "60000"}, 1, 0},
    {{"crowd", "3", "1"}, 3, 0},
    {{"setsid_child"}, 2, 0},
    {{"daemon"}, 2, 0},
    {{"thread_forker"}, 2, 0},
    {{"zombie_leader"}, 1, 0},
    {{"stopped"}, 2, 0},
    {{"named", "x) Z 1 1 1 (y"}, 1, 0},
    {{"named", "new\nline"}, 1, 0},
    {{"subreaper"}, 7, 5},
    {{"crowd", "300", "10"}, 300, 0},
    {{"crowd", "300", "1"}, 300, 0},
    {{"crowd", "300", "299"}, 300, 0},
};
#define TREE_COUNT (int)(sizeof trees / sizeof trees[0])

START_TEST(finds_all_of_them)
{
    struct sbx_kit kit;
    size_t budget = budgets[_i / TREE_COUNT];
    sbx_kit_open(&kit, budget);
    size_t before = open_descriptors();
    ck_assert_uint_eq(sbx_kit_walk(&kit), 0);
    (void)sbx_kit_helper_ups(
        trees[_i % TREE_COUNT].command,
        trees[_i % TREE_COUNT].ups == 0 ? 1 : trees[_i % TREE_COUNT].ups);
    sbx_kit_settle(&kit, trees[_i % TREE_COUNT].members);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(sbx_kit_walk(&kit), trees[_i % TREE_COUNT].members);
        expect_parents_first(&kit);
        ck_assert_uint_eq(sbx_tree_new_count(kit.tree), 0);
    }
    ck_assert_uint_le(open_descriptors(), before + budget);
    if (budget == MANY) {
        ck_assert_uint_ge(open_descriptors(),
                          before + 2 * trees[_i % TREE_COUNT].members);
    }
    sbx_kit_close(&kit);
}
END_TEST

/* Known by descent already, or found by the scan. */
START_TEST(a_scan_finds_the_same)
{
    for (int known = 0; known <= 1; known++) {
        struct sbx_kit kit;
        struct sbx_kit other;
        sbx_kit_open(&kit, MANY);
        sbx_kit_open(&other, known == 0 ? 0 : MANY);
        (void)sbx_kit_helper_ups(trees[_i].command,
                                 trees[_i].ups == 0 ? 1 : trees[_i].ups);
        sbx_kit_settle(&kit, trees[_i].members);
        if (known == 1) {
            sbx_kit_settle(&other, trees[_i].members);
        }
        sbx_tree_force_scan(other.tree);
        ck_assert_uint_eq(sbx_kit_walk(&other), trees[_i].members);
        expect_parents_first(&other);
        for (size_t i = 0; i < sbx_tree_count(kit.tree); i++) {
            const struct sbx_member *member = sbx_tree_member(kit.tree, i);
            const struct sbx_member *same = sbx_tree_find(other.tree, member->stat.pid);
            ck_assert_msg(same != NULL &&
                              same->stat.start_ticks == member->stat.start_ticks,
                          "%d is not in the scanned tree", (int)member->stat.pid);
        }
        sbx_tree_free(other.tree);
        (void)close(other.proc_fd);
        sbx_kit_close(&kit);
    }
}
END_TEST

START_TEST(orphans_come_to_the_root)
{
    struct sbx_kit kit;
    sbx_kit_open(&kit, MANY);
    pid_t leader = sbx_kit_helper((const char *const[]){"daemon", NULL});
    sbx_kit_walk_until(&kit, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct sbx_member *member = sbx_tree_member(kit.tree, i);
        ck_assert_int_eq(member->stat.ppid, getpid());
        ck_assert_int_eq(member->stat.session == member->stat.pgrp,
                         member->stat.pid != leader);
    }
    sbx_kit_close(&kit);
}
END_TEST

/* A child whose parent ends between two walks: it moves, and stays the same member. */
START_TEST(a_member_that_moves_stays_one)
{
    struct sbx_kit kit;
    sbx_kit_open(&kit, MANY);
    pid_t leader = sbx_kit_helper((const char *const[]){"crowd", "2", "1", NULL});
    sbx_kit_walk_until(&kit, 2);
    pid_t child = sbx_tree_member(kit.tree, 1)->stat.pid;
    sbx_tree_find(kit.tree, child)->met = true;
    sbx_kit_kill(leader);
    ck_assert(sbx_tree_reaped(kit.tree, leader));
    ck_assert_uint_eq(sbx_kit_walk(&kit), 1);
    const struct sbx_member *member = sbx_tree_find(kit.tree, child);
    ck_assert_ptr_nonnull(member);
    ck_assert(member->met);
    ck_assert_int_eq(member->stat.ppid, getpid());
    ck_assert_uint_eq(sbx_tree_new_count(kit.tree), 0);
    ck_assert_uint_eq(sbx_tree_total_count(kit.tree), 2);
    sbx_kit_close(&kit);
}
END_TEST

struct mover {
    struct sbx_kit kit;
    pid_t parent;
};

static void end_parent(struct sbx_member *member, void *context)
{
    const struct mover *mover = context;
    if (member->stat.pid == mover->parent) {
        (void)kill(mover->parent, SIGKILL);
        sbx_kit_wait_state(&mover->kit, mover->parent, 'Z');
    }
}

/* Its parent ends after the list of our children was read and before that of its own is:
 * it comes to us, and no list of this walk has it. */
START_TEST(a_member_that_moves_during_a_walk_is_not_missed)
{
    for (int budget = 0; budget < BUDGET_COUNT; budget++) {
        struct mover mover;
        sbx_kit_open(&mover.kit, budgets[budget]);
        (void)sbx_kit_helper((const char *const[]){"crowd", "4", "1", NULL});
        sbx_kit_settle(&mover.kit, 4);
        mover.parent = sbx_tree_member(mover.kit.tree, 1)->stat.pid;
        struct sbx_tree_hooks hooks = {.visit = end_parent, .context = &mover};
        ck_assert_int_eq(sbx_tree_walk(mover.kit.tree, &hooks, NULL), 0);
        ck_assert_uint_eq(sbx_tree_count(mover.kit.tree), 4);
        ck_assert_uint_eq(sbx_tree_new_count(mover.kit.tree), 0);
        ck_assert_uint_eq(sbx_tree_total_count(mover.kit.tree), 4);
        sbx_kit_close(&mover.kit);
    }
}
END_TEST

START_TEST(a_zombie_leader_is_alive_and_has_its_memory)
{
    for (int budget = 0; budget < BUDGET_COUNT; budget++) {
        struct sbx_kit kit;
        sbx_kit_open(&kit, budgets[budget]);
        pid_t pid = sbx_kit_helper((const char *const[]){"zombie_leader", "20", NULL});
        ck_assert_uint_eq(sbx_kit_walk(&kit), 1);
        const struct sbx_member *member = sbx_tree_find(kit.tree, pid);
        ck_assert_ptr_nonnull(member);
        ck_assert_int_eq(member->stat.state, 'Z');
        ck_assert(!sbx_member_ended(member));
        ck_assert_int_ne(member->memory_pid, pid);
        ck_assert_uint_ge(member->rss_bytes, 20U << 20);
        sbx_kit_close(&kit);
    }
}
END_TEST

START_TEST(a_zombie_has_ended)
{
    struct sbx_kit kit;
    sbx_kit_open(&kit, MANY);
    pid_t pid = sbx_kit_fork();
    if (pid == 0) {
        _exit(0);
    }
    sbx_kit_wait_state(&kit, pid, 'Z');
    ck_assert_uint_eq(sbx_kit_walk(&kit), 1);
    ck_assert(sbx_member_ended(sbx_tree_member(kit.tree, 0)));
    ck_assert_uint_eq(sbx_tree_member(kit.tree, 0)->rss_bytes, 0);
    sbx_kit_close(&kit);
}
END_TEST

static int count_child(pid_t pid, void *context)
{
    pid_t *seen = context;
    if (seen[0] == pid || seen[1] == pid) {
        return 1;
    }
    return 0;
}

START_TEST(each_child_is_each_child)
{
    for (int scan = 0; scan <= 1; scan++) {
        struct sbx_kit kit;
        sbx_kit_open(&kit, MANY);
        if (scan == 1) {
            sbx_tree_force_scan(kit.tree);
        }
        pid_t none[2] = {0, 0};
        ck_assert_int_eq(sbx_tree_each_child(kit.tree, count_child, none), 0);
        pid_t zombie = sbx_kit_fork();
        if (zombie == 0) {
            _exit(0);
        }
        sbx_kit_wait_state(&kit, zombie, 'Z');
        pid_t leader = sbx_kit_helper((const char *const[]){"crowd", "2", "1", NULL});
        pid_t wanted[2] = {zombie, 0};
        ck_assert_int_eq(sbx_tree_each_child(kit.tree, count_child, wanted), 1);
        wanted[0] = leader;
        ck_assert_int_eq(sbx_tree_each_child(kit.tree, count_child, wanted), 1);
        sbx_kit_walk_until(&kit, 2);
        for (size_t i = 0; i < sbx_tree_count(kit.tree); i++) {
            const struct sbx_member *member = sbx_tree_member(kit.tree, i);
            wanted[0] = member->stat.pid;
            ck_assert_int_eq(sbx_tree_each_child(kit.tree, count_child, wanted),
                             member->stat.ppid == getpid());
        }
        sbx_kit_close(&kit);
    }
}
END_TEST

/* --- coming and going --- */

struct vanished {
    unsigned count;
    pid_t pid;
    pid_t parent;
};

static void note_vanished(const struct sbx_member *member,
                          const struct sbx_member *parent, void *context)
{
    struct vanished *vanished = context;
    vanished->count++;
    vanished->pid = member->stat.pid;
    vanished->parent = parent == NULL ? 0 : parent->stat.pid;
}

static void walk_noting(struct sbx_kit *kit, struct vanished *ret_vanished)
{
    *ret_vanished = (struct vanished){0};
    struct sbx_tree_hooks hooks = {.vanished = note_vanished, .context = ret_vanished};
    ck_assert_int_eq(sbx_tree_walk(kit->tree, &hooks, NULL), 0);
}

/* A parent that waits for nobody: its children go without a trace. */
START_TEST(who_is_reaped_by_others_has_vanished)
{
    for (int budget = 0; budget < BUDGET_COUNT; budget++) {
        struct sbx_kit kit;
        struct vanished vanished;
        int go[2];
        int gone[2];
        sbx_kit_open(&kit, budgets[budget]);
        ck_assert_int_eq(pipe2(go, O_CLOEXEC), 0);
        ck_assert_int_eq(pipe2(gone, O_CLOEXEC), 0);
        pid_t parent = sbx_kit_fork();
        if (parent == 0) {
            (void)signal(SIGCHLD, SIG_IGN);
            if (sbx_kit_fork() == 0) {
                char byte;
                _exit(read(go[0], &byte, 1) == 1 ? 0 : 1);
            }
            (void)waitpid(-1, NULL, 0); /* comes back when there is none any more */
            sbx_kit_tell(gone[1]);
            sbx_kit_idle();
        }
        sbx_kit_walk_until(&kit, 2);
        pid_t child = sbx_tree_member(kit.tree, 1)->stat.pid;
        walk_noting(&kit, &vanished);
        ck_assert_uint_eq(vanished.count, 0);
        sbx_kit_tell(go[1]);
        sbx_kit_hear(gone[0]);
        walk_noting(&kit, &vanished);
        ck_assert_uint_eq(vanished.count, 1);
        ck_assert_int_eq(vanished.pid, child);
        ck_assert_int_eq(vanished.parent, parent);
        ck_assert_ptr_null(sbx_tree_find(kit.tree, child));
        ck_assert_uint_eq(sbx_tree_count(kit.tree), 1);
        /* one that we reap has not */
        sbx_kit_kill(parent);
        ck_assert(sbx_tree_reaped(kit.tree, parent));
        ck_assert(!sbx_tree_reaped(kit.tree, parent));
        walk_noting(&kit, &vanished);
        ck_assert_uint_eq(vanished.count, 0);
        ck_assert_uint_eq(sbx_tree_total_count(kit.tree), 2);
        for (int i = 0; i < 2; i++) {
            (void)close(go[i]);
            (void)close(gone[i]);
        }
        sbx_kit_close(&kit);
    }
}
END_TEST

START_TEST(thousands_come_and_go_and_leave_nothing)
{
    enum { ROUNDS = 40, BATCH = 50 };
    struct sbx_kit kit;
    sbx_kit_open(&kit, (size_t)_i == 0 ? MANY : 60);
    size_t before = open_descriptors();
    for (int round = 0; round < ROUNDS; round++) {
        pid_t pids[BATCH];
        for (int i = 0; i < BATCH; i++) {
            pids[i] = sbx_kit_fork();
            if (pids[i] == 0) {
                if (i % 2 == 0) {
                    _exit(0);
                }
                sbx_kit_idle();
            }
        }
        ck_assert_uint_eq(sbx_kit_walk(&kit), BATCH);
        ck_assert_uint_eq(sbx_tree_new_count(kit.tree), BATCH);
        ck_assert_uint_le(open_descriptors(), before + (_i == 0 ? MANY : 60));
        for (int i = 0; i < BATCH; i++) {
            sbx_kit_kill(pids[i]);
            /* every third one is left for the next walk to notice */
            ck_assert(i % 3 == 0 || sbx_tree_reaped(kit.tree, pids[i]));
        }
    }
    ck_assert_uint_eq(sbx_kit_walk(&kit), 0);
    ck_assert_uint_eq(sbx_tree_total_count(kit.tree), ROUNDS * BATCH);
    ck_assert_uint_eq(open_descriptors(), before);
    sbx_kit_close(&kit);
}
END_TEST

/* --- identity --- */

START_TEST(a_recycled_pid_is_a_new_member)
{
    for (int budget = 0; budget < BUDGET_COUNT; budget++) {
        struct sbx_kit kit;
        struct vanished vanished;
        sbx_kit_open(&kit, budgets[budget]);
        pid_t pid = sbx_kit_fork();
        if (pid == 0) {
            sbx_kit_idle();
        }
        ck_assert_uint_eq(sbx_kit_walk(&kit), 1);
        struct sbx_member *member = sbx_tree_find(kit.tree, pid);
        uint64_t start = member->stat.start_ticks;
        member->met = true;
        member->killed = true;
        member->own_memory = true;
        member->hwm_bytes = 1;
        sbx_kit_kill(pid); /* and the tree is not told */
        sbx_kit_next_tick();
        pid_t again = sbx_kit_fork_as(pid);
        if (again == 0) {
            sbx_kit_idle();
        }
        if (again < 0) {
            sbx_kit_skip("a recycled pid",
                         "no process may be given a pid of choice here");
            sbx_kit_close(&kit);
            return;
        }
        walk_noting(&kit, &vanished);
        ck_assert_uint_eq(vanished.count, 1);
        ck_assert_int_eq(vanished.pid, pid);
        ck_assert_uint_eq(sbx_tree_count(kit.tree), 1);
        ck_assert_uint_eq(sbx_tree_new_count(kit.tree), 1);
        ck_assert_uint_eq(sbx_tree_total_count(kit.tree), 2);
        member = sbx_tree_find(kit.tree, pid);
        ck_assert_uint_gt(member->stat.start_ticks, start);
        ck_assert(!member->met && !member->killed && !member->own_memory);
        ck_assert_uint_eq(member->hwm_bytes, SBX_UNKNOWN);
        sbx_kit_close(&kit);
    }
}
END_TEST

/* The root of a tree of its own, below the test. Its second child ends while it walks,
 * after the list of children was read; the test, which is outside of that tree, then
 * starts somebody with that very pid. */
struct swap {
    int to_test[2];
    int to_root[2];
    pid_t first;
    pid_t second;
};

static void swap_second(struct sbx_member *member, void *context)
{
    struct swap *swap = context;
    if (member->stat.pid != swap->first) {
        return;
    }
    sbx_kit_kill(swap->second);
    if (write(swap->to_test[1], &swap->second, sizeof swap->second) !=
        (ssize_t)sizeof swap->second) {
        _exit(94);
    }
    sbx_kit_hear(swap->to_root[0]);
}

static int walk_past_a_stranger(struct swap *swap, bool scan)
{
    struct sbx_kit kit;
    sbx_kit_open(&kit, scan ? 0 : MANY);
    if (scan) {
        sbx_tree_force_scan(kit.tree);
    }
    if ((swap->first = sbx_kit_fork()) == 0 || (swap->second = sbx_kit_fork()) == 0) {
        sbx_kit_idle();
    }
    struct sbx_tree_hooks hooks = {.visit = swap_second, .context = swap};
    ck_assert_int_eq(sbx_tree_walk(kit.tree, &hooks, NULL), 0);
    int result = sbx_tree_find(kit.tree, swap->second) != NULL ? 1 : 0;
    result += sbx_tree_count(kit.tree) != 1 ? 2 : 0;
    (void)sbx_kit_walk(&kit);
    result += sbx_tree_find(kit.tree, swap->second) != NULL ? 4 : 0;
    sbx_kit_close(&kit);
    return result;
}

START_TEST(a_stranger_with_the_pid_of_a_child_is_none)
{
    struct swap swap;
    pid_t pid = -1;
    ck_assert_int_eq(pipe2(swap.to_test, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(swap.to_root, O_CLOEXEC), 0);
    pid_t root = sbx_kit_fork();
    if (root == 0) {
        _exit(walk_past_a_stranger(&swap, _i == 1));
    }
    ck_assert_int_eq((int)read(swap.to_test[0], &pid, sizeof pid), (int)sizeof pid);
    pid_t stranger = sbx_kit_fork_as(pid);
    if (stranger == 0) {
        sbx_kit_idle();
    }
    sbx_kit_tell(swap.to_root[1]);
    int status = -1;
    ck_assert_int_eq(waitpid(root, &status, 0), root);
    if (stranger < 0) {
        sbx_kit_skip("a stranger with a member's pid",
                     "no process may be given a pid of choice here");
    } else {
        ck_assert_int_eq(stranger, pid);
        sbx_kit_kill(stranger);
    }
    ck_assert_msg(status == 0, "status %#x", (unsigned)status);
    for (int i = 0; i < 2; i++) {
        (void)close(swap.to_test[i]);
        (void)close(swap.to_root[i]);
    }
}
END_TEST

START_TEST(another_name_asks_for_its_status)
{
    struct sbx_kit kit;
    int go[2];
    int done[2];
    sbx_kit_open(&kit, MANY);
    ck_assert_int_eq(pipe2(go, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(done, O_CLOEXEC), 0);
    pid_t pid = sbx_kit_fork();
    if (pid == 0) {
        sbx_kit_hear(go[0]);
        (void)prctl(PR_SET_NAME, "another");
        sbx_kit_tell(done[1]);
        sbx_kit_idle();
    }
    ck_assert_uint_eq(sbx_kit_walk(&kit), 1);
    struct sbx_member *member = sbx_tree_member(kit.tree, 0);
    ck_assert(member->status_due);
    member->status_due = false;
    (void)sbx_kit_walk(&kit);
    ck_assert(!sbx_tree_member(kit.tree, 0)->status_due);
    sbx_kit_tell(go[1]);
    sbx_kit_hear(done[0]);
    (void)sbx_kit_walk(&kit);
    ck_assert(sbx_tree_member(kit.tree, 0)->status_due);
    ck_assert_str_eq(sbx_tree_member(kit.tree, 0)->stat.name, "another");
    for (int i = 0; i < 2; i++) {
        (void)close(go[i]);
        (void)close(done[i]);
    }
    sbx_kit_close(&kit);
}
END_TEST

/* --- bounds and refusals --- */

START_TEST(a_walk_ends_at_its_deadline)
{
    struct sbx_kit kit;
    struct sbx_error error = {0};
    sbx_kit_open(&kit, MANY);
    (void)sbx_kit_helper((const char *const[]){"crowd", "100", "1", NULL});
    sbx_kit_walk_until(&kit, 100);
    sbx_tree_set_deadline(kit.tree, sbx_clock_us());
    ck_assert_int_eq(sbx_tree_walk(kit.tree, NULL, &error), -ETIME);
    ck_assert_int_eq(error.code, ETIME);
    ck_assert_uint_lt(sbx_tree_count(kit.tree), 100);
    sbx_tree_set_deadline(kit.tree, sbx_clock_us() + 60 * SBX_US_PER_S);
    ck_assert_uint_eq(sbx_kit_walk(&kit), 100);
    ck_assert_uint_eq(sbx_tree_total_count(kit.tree), 100);
    sbx_tree_set_deadline(kit.tree, SBX_FOREVER_US);
    ck_assert_uint_eq(sbx_kit_walk(&kit), 100);
    sbx_kit_close(&kit);
}
END_TEST

START_TEST(the_proc_of_others_is_refused)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    struct sbx_error error = {0};
    struct sbx_tree *untouched = (struct sbx_tree *)&error;
    SBX_AUTO_CLOSE int directory =
        open(sbx_fixture_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(sbx_tree_new(directory, 0, &untouched, &error), -ENOENT);
    ck_assert_int_eq(symlink("1", sbx_fixture_path(path, "self")), 0);
    ck_assert_int_eq(sbx_tree_new(directory, 0, &untouched, &error), -EXDEV);
    ck_assert_int_eq(error.code, EXDEV);
    ck_assert_int_eq((int)error.stage, (int)SBX_STAGE_MONITOR);
    ck_assert_ptr_eq(untouched, &error);
    sbx_tree_free(NULL);
}
END_TEST

/* A budget that the process's own limit does not keep: the walk that meets it fails and
 * says why, and the next finds everybody when there is room again. */
START_TEST(short_of_descriptors_it_says_so)
{
    struct sbx_kit kit;
    struct sbx_error error = {0};
    struct rlimit before;
    sbx_kit_open(&kit, MANY);
    (void)sbx_kit_helper((const char *const[]){"crowd", "100", "3", NULL});
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit few = {(rlim_t)open_descriptors() + 20, before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    ck_assert_int_eq(sbx_tree_walk(kit.tree, NULL, &error), -EMFILE);
    ck_assert_int_eq(error.code, EMFILE);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_uint_eq(sbx_kit_walk(&kit), 100);
    ck_assert_uint_eq(sbx_tree_total_count(kit.tree), 100);
    sbx_kit_close(&kit);
}
END_TEST

/* --- the table --- */

#define MODEL_SIZE 3000U

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525U + 1013904223U;
    return *state >> 8;
}

/* Far enough apart to get in each other's way in the hash. */
static pid_t pid_of(uint32_t index)
{
    return 1 + (pid_t)index * 64;
}

static struct sbx_member member_of(pid_t pid)
{
    return (struct sbx_member){.stat = {.pid = pid, .start_ticks = (uint64_t)pid * 7},
                               .stat_fd = -1,
                               .children_fd = -1};
}

static void compare_with_model(const struct sbx_members *members, const bool *model)
{
    uint32_t live = 0;
    for (uint32_t i = 0; i < MODEL_SIZE; i++) {
        pid_t pid = pid_of(i);
        uint32_t slot = sbx_members_find(members, pid);
        ck_assert_msg((slot != SBX_NO_SLOT) == model[i], "pid %d", (int)pid);
        if (slot != SBX_NO_SLOT) {
            ck_assert_int_eq(members->slots[slot].stat.pid, pid);
            ck_assert_uint_eq(members->slots[slot].stat.start_ticks, (uint64_t)pid * 7);
            ck_assert(members->used[slot]);
            live++;
        }
    }
    ck_assert_uint_eq(live, members->live);
}

START_TEST(the_table_does_as_a_model)
{
    static bool model[MODEL_SIZE];
    struct sbx_members members;
    uint32_t state = 2463534242U + (uint32_t)_i;
    ck_assert_int_eq(sbx_members_init(&members, 0), 0);
    for (int step = 0; step < 60000; step++) {
        uint32_t index = next_random(&state) % MODEL_SIZE;
        uint32_t slot = sbx_members_find(&members, pid_of(index));
        ck_assert_int_eq(slot != SBX_NO_SLOT, model[index]);
        bool shrinks = step / 10000 % 2 == 1;
        if (slot == SBX_NO_SLOT && (!shrinks || next_random(&state) % 4 == 0)) {
            struct sbx_member member = member_of(pid_of(index));
            ck_assert_int_eq(sbx_members_add(&members, &member, &slot), 0);
            model[index] = true;
        } else if (slot != SBX_NO_SLOT && (shrinks || next_random(&state) % 4 == 0)) {
            sbx_members_forget(&members, slot);
            model[index] = false;
        }
        if (step % 5000 == 0) {
            compare_with_model(&members, model);
        }
    }
    compare_with_model(&members, model);
    ck_assert_uint_le(members.capacity, 4096);
    sbx_members_done(&members);
}
END_TEST

START_TEST(slots_are_used_again)
{
    struct sbx_members members;
    ck_assert_int_eq(sbx_members_init(&members, 0), 0);
    uint32_t capacity = members.capacity;
    for (pid_t pid = 1; pid < 20000; pid++) {
        uint32_t slot;
        struct sbx_member member = member_of(pid);
        ck_assert_int_eq(sbx_members_add(&members, &member, &slot), 0);
        if (pid > 60) {
            sbx_members_forget(&members, sbx_members_find(&members, pid - 60));
        }
    }
    ck_assert_uint_eq(members.capacity, capacity);
    ck_assert_uint_eq(members.live, 60);
    sbx_members_done(&members);
}
END_TEST

START_TEST(who_is_forgotten_leaves_the_order)
{
    struct sbx_members members;
    uint32_t slots[10];
    ck_assert_int_eq(sbx_members_init(&members, 0), 0);
    sbx_members_restart(&members);
    for (pid_t pid = 1; pid <= 10; pid++) {
        struct sbx_member member = member_of(pid);
        ck_assert_int_eq(sbx_members_add(&members, &member, &slots[pid - 1]), 0);
        if (pid != 5) { /* one that the walk has not met */
            sbx_members_enlist(&members, slots[pid - 1]);
        }
    }
    ck_assert_uint_eq(members.order_count, 9);
    sbx_members_forget(&members, slots[4]);
    ck_assert_uint_eq(members.order_count, 9);
    sbx_members_forget(&members, slots[9]); /* the last */
    sbx_members_forget(&members, slots[0]); /* the first */
    sbx_members_forget(&members, slots[6]); /* one between */
    ck_assert_uint_eq(members.order_count, 6);
    unsigned seen = 0;
    for (uint32_t i = 0; i < members.order_count; i++) {
        ck_assert(members.used[members.order[i]]);
        seen |= 1U << members.slots[members.order[i]].stat.pid;
    }
    ck_assert_uint_eq(seen, 1U << 2 | 1U << 3 | 1U << 4 | 1U << 6 | 1U << 8 | 1U << 9);
    /* an order that begins anew knows nothing of the old places */
    sbx_members_restart(&members);
    sbx_members_enlist(&members, slots[8]);
    sbx_members_forget(&members, slots[1]);
    ck_assert_uint_eq(members.order_count, 1);
    ck_assert_uint_eq(members.order[0], slots[8]);
    sbx_members_done(&members);
}
END_TEST

START_TEST(kept_descriptors_are_counted)
{
    struct sbx_members members;
    struct sbx_member member = member_of(5);
    uint32_t slot;
    size_t before = open_descriptors();
    ck_assert_int_eq(sbx_members_init(&members, 3), 0);
    member.stat_fd = sbx_members_keep(&members, open("/dev/null", O_RDONLY | O_CLOEXEC));
    member.children_fd =
        sbx_members_keep(&members, open("/dev/null", O_RDONLY | O_CLOEXEC));
    ck_assert_uint_eq(members.fd_budget, 1);
    ck_assert_int_eq(sbx_members_keep(&members, -1), -1);
    ck_assert_uint_eq(members.fd_budget, 1);
    ck_assert_int_eq(sbx_members_add(&members, &member, &slot), 0);
    ck_assert_uint_eq(open_descriptors(), before + 2);
    sbx_members_forget(&members, slot);
    ck_assert_uint_eq(members.fd_budget, 3);
    ck_assert_uint_eq(open_descriptors(), before);
    int none = -1;
    sbx_members_drop(&members, &none);
    ck_assert_uint_eq(members.fd_budget, 3);
    /* done closes what is still kept */
    member.stat_fd = sbx_members_keep(&members, open("/dev/null", O_RDONLY | O_CLOEXEC));
    member.children_fd = -1;
    ck_assert_int_eq(sbx_members_add(&members, &member, &slot), 0);
    sbx_members_done(&members);
    ck_assert_uint_eq(open_descriptors(), before);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tree");
    TCase *tcase = sbx_fixture_case(suite, "tree", 60);
    tcase_add_loop_test(tcase, finds_all_of_them, 0, TREE_COUNT * BUDGET_COUNT);
    tcase_add_loop_test(tcase, a_scan_finds_the_same, 0, TREE_COUNT);
    tcase_add_test(tcase, orphans_come_to_the_root);
    tcase_add_test(tcase, a_member_that_moves_stays_one);
    tcase_add_test(tcase, a_member_that_moves_during_a_walk_is_not_missed);
    tcase_add_test(tcase, a_zombie_leader_is_alive_and_has_its_memory);
    tcase_add_test(tcase, a_zombie_has_ended);
    tcase_add_test(tcase, each_child_is_each_child);
    tcase_add_test(tcase, who_is_reaped_by_others_has_vanished);
    tcase_add_loop_test(tcase, thousands_come_and_go_and_leave_nothing, 0, 2);
    tcase_add_test(tcase, a_recycled_pid_is_a_new_member);
    tcase_add_loop_test(tcase, a_stranger_with_the_pid_of_a_child_is_none, 0, 2);
    tcase_add_test(tcase, another_name_asks_for_its_status);
    tcase_add_test(tcase, a_walk_ends_at_its_deadline);
    tcase_add_test(tcase, the_proc_of_others_is_refused);
    tcase_add_test(tcase, short_of_descriptors_it_says_so);
    tcase = sbx_fixture_case(suite, "members", 60);
    tcase_add_loop_test(tcase, the_table_does_as_a_model, 0, 4);
    tcase_add_test(tcase, slots_are_used_again);
    tcase_add_test(tcase, who_is_forgotten_leaves_the_order);
    tcase_add_test(tcase, kept_descriptors_are_counted);
    return sbx_fixture_run(suite);
}
