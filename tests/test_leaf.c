/*
 * test_leaf.c - the group of one run: its name and lock, its limits read back, who lives
 * in it, its end, and what becomes of those that were left behind.
 *
 * All of it below a group of the test's own. Without controllers there, arming is tested
 * for its refusals only; where no group can be made, only names are.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "cgroup/leaf.h"
#include "cgroup/leaf_private.h"
#include "tests/fixture.h"
#include "tests/group_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define START 77
#define ALIVE 4000001
#define DEAD 4000002
#define DEPTH 300
#define WIDTH 300
#define CROWD 200
#define BOUND_US UINT64_C(20000000)

static struct sbx_place place;
static char root[SBX_GROUP_KIT_SIZE];

static bool lives(pid_t pid, uint64_t start_ticks, void *context)
{
    (void)start_ticks;
    (void)context;
    return pid == ALIVE;
}

static struct sbx_owner owner(void)
{
    return (struct sbx_owner){.pid = getpid(), .start_ticks = START, .lives = lives};
}

static int open_group(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
    return fd;
}

/* A place of the test's own; false, said aloud: none here. */
static bool begin(void)
{
    memset(&place, 0, sizeof place);
    place.fd = -1;
    if (!sbx_group_kit_make(root)) {
        sbx_group_kit_skip("leaf", "no group can be made here");
        return false;
    }
    place.fd = open_group(root);
    return true;
}

static void end(void)
{
    sbx_place_done(&place);
    sbx_group_kit_remove(root);
}

static struct sbx_leaf make(char path[static SBX_GROUP_KIT_SIZE])
{
    struct sbx_leaf leaf = {.fd = -1};
    struct sbx_owner us = owner();
    struct sbx_error err = {0};
    ck_assert_msg(sbx_leaf_make(&place, &us, &leaf, &err) == 0, "%s", err.message);
    (void)snprintf(path, SBX_GROUP_KIT_SIZE, "%.400s/%s", root, leaf.name);
    return leaf;
}

/* A child that waits to be ended, in that group. */
static pid_t settle(const char *path)
{
    char text[32];
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        for (;;) {
            (void)pause();
        }
    }
    (void)snprintf(text, sizeof text, "%d", (int)pid);
    ck_assert_int_eq(sbx_group_kit_write(path, "cgroup.procs", text), 0);
    return pid;
}

static void reap(pid_t pid)
{
    int status = 0;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* --- names and locks --- */

START_TEST(test_names)
{
    static const struct {
        const char *name;
        bool is;
    } rows[] = {
        {"sbx-0123456789abcdef-1-2-3", true},
        {"sbx-ffffffffffffffff-4194304-18446744073709551615-4294967295", true},
        {"sbx-0123456789abcdef-1-0-3", true},
        {"sbx-0123456789abcde-1-2-3", false},
        {"sbx-0x23456789abcdef-1-2-3", false},
        {"sbx-0123456789abcdef0-1-2-3", false},
        {"sbx-0123456789ABCDEF-1-2-3", false},
        {"sbx-0123456789abcdef-0-2-3", false},
        {"sbx-0123456789abcdef-+1-2-3", false},
        {"sbx-0123456789abcdef-01-2-3", false},
        {"sbx-0123456789abcdef-2147483648-2-3", false},
        {"sbx-0123456789abcdef-1-18446744073709551616-3", false},
        {"sbx-0123456789abcdef-1-2-3-", false},
        {"sbx-0123456789abcdef-1-2-", false},
        {"sbx-0123456789abcdef-1-2", false},
        {"sbx-0123456789abcdef", false},
        {"sbx-", false},
        {"sbx-self", false},
        {"sbx-on.memory", false},
        {"sbx-kept", false},
        {"", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ck_assert_msg(sbx_leaf_is_name(rows[i].name) == rows[i].is, "%s", rows[i].name);
    }
}
END_TEST

static bool is_locked(const char *path)
{
    SBX_AUTO_CLOSE int fd = open_group(path);
    return flock(fd, LOCK_EX | LOCK_NB) < 0;
}

START_TEST(test_made)
{
    char first[SBX_GROUP_KIT_SIZE];
    char second[SBX_GROUP_KIT_SIZE];
    uint64_t scope = 0;
    struct sbx_leaf_name name;
    if (!begin()) {
        return;
    }
    struct sbx_leaf leaf = make(first);
    struct sbx_leaf other = make(second);
    ck_assert_str_ne(leaf.name, other.name);
    ck_assert(sbx_leaf_parse_name(leaf.name, &name));
    ck_assert_int_eq(sbx_leaf_scope(&scope), 0);
    ck_assert_uint_eq(name.scope, scope);
    ck_assert_int_eq(name.pid, getpid());
    ck_assert_uint_eq(name.start_ticks, START);
    ck_assert_int_eq(fcntl(leaf.fd, F_GETFD), FD_CLOEXEC);
    ck_assert_int_eq(sbx_leaf_populated(leaf.fd), 0);
    sbx_fd_drop(&leaf.fd);
    ck_assert_int_eq(sbx_leaf_remove(place.fd, leaf.name, 0), 0);
    ck_assert_int_eq(sbx_leaf_remove(place.fd, leaf.name, 0), 0); /* gone is gone */
    ck_assert(!sbx_group_kit_is_there(first) && sbx_group_kit_is_there(second));
    sbx_fd_drop(&other.fd);
    end();
}
END_TEST

/* The lock is that of all who were forked with it, and goes with the last of them. */
START_TEST(test_lock)
{
    char path[SBX_GROUP_KIT_SIZE];
    if (!begin()) {
        return;
    }
    struct sbx_leaf leaf = make(path);
    ck_assert(is_locked(path));
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        for (;;) {
            (void)pause();
        }
    }
    sbx_fd_drop(&leaf.fd);
    ck_assert(is_locked(path));
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    reap(child);
    ck_assert(!is_locked(path));
    end();
}
END_TEST

START_TEST(test_not_made)
{
    struct sbx_leaf leaf = {.fd = -7};
    struct sbx_owner us = owner();
    struct sbx_error err = {0};
    struct sbx_place nowhere = {.fd = open("/proc/self", O_RDONLY | O_CLOEXEC)};
    ck_assert_int_lt(sbx_leaf_make(&nowhere, &us, &leaf, &err), 0);
    ck_assert_int_eq(leaf.fd, -7);
    ck_assert_ptr_nonnull(strstr(err.message, "make the group sbx-"));
    sbx_place_done(&nowhere);
}
END_TEST

/* --- who lives there --- */

struct seen {
    pid_t pids[CROWD + 8];
    size_t count;
    size_t stop_at;
};

static int note(pid_t pid, void *context)
{
    struct seen *seen = context;
    ck_assert_uint_lt(seen->count, sizeof seen->pids / sizeof seen->pids[0]);
    seen->pids[seen->count++] = pid;
    return seen->count == seen->stop_at ? 42 : 0;
}

static bool has(const struct seen *seen, pid_t pid)
{
    for (size_t i = 0; i < seen->count; i++) {
        if (seen->pids[i] == pid) {
            return true;
        }
    }
    return false;
}

START_TEST(test_lived_in)
{
    static struct seen seen;
    static pid_t crowd[CROWD];
    char path[SBX_GROUP_KIT_SIZE];
    char below[SBX_GROUP_KIT_SIZE];
    char beside[SBX_GROUP_KIT_SIZE];
    char deepest[SBX_GROUP_KIT_SIZE];
    if (!begin()) {
        return;
    }
    struct sbx_leaf leaf = make(path);
    sbx_group_kit_below(path, "a", below);
    sbx_group_kit_below(path, "b", beside);
    sbx_group_kit_below(below, "c", deepest);
    const char *const where[] = {path, below, beside, deepest};
    for (size_t i = 0; i < CROWD; i++) {
        crowd[i] = settle(where[i % 4]);
    }
    memset(&seen, 0, sizeof seen);
    ck_assert_int_eq(sbx_leaf_each_process(leaf.fd, UINT64_MAX, note, &seen), 0);
    ck_assert_uint_eq(seen.count, CROWD);
    for (size_t i = 0; i < CROWD; i++) {
        ck_assert(has(&seen, crowd[i]));
    }
    for (size_t stop = 1; stop < CROWD; stop += 33) {
        memset(&seen, 0, sizeof seen);
        seen.stop_at = stop;
        ck_assert_int_eq(sbx_leaf_each_process(leaf.fd, UINT64_MAX, note, &seen), 42);
        ck_assert_uint_eq(seen.count, stop);
    }
    ck_assert_int_eq(sbx_leaf_populated(leaf.fd), 1);
    ck_assert_int_eq(sbx_leaf_freeze(leaf.fd, true, BOUND_US), 0);
    int killed = sbx_leaf_kill(leaf.fd); /* also of the frozen */
    for (size_t i = 0; i < CROWD; i++) {
        ck_assert(killed == 0 || kill(crowd[i], SIGKILL) == 0);
    }
    ck_assert(killed == 0 || killed == -EOPNOTSUPP);
    for (size_t i = 0; i < CROWD; i++) {
        reap(crowd[i]);
    }
    ck_assert_int_eq(sbx_leaf_populated(leaf.fd), 0);
    ck_assert_int_eq(sbx_leaf_freeze(leaf.fd, false, BOUND_US), 0);
    ck_assert_int_eq(sbx_leaf_remove(place.fd, leaf.name, BOUND_US), 0);
    sbx_fd_drop(&leaf.fd);
    end();
}
END_TEST

/* --- the end --- */

/* A chain of groups, and many at its end. Returns the deepest, to be closed. */
static int dig(int fd)
{
    char name[32];
    int here = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < DEPTH; i++) {
        ck_assert_int_eq(mkdirat(here, "deep", 0755), 0);
        int below = openat(here, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ck_assert_int_ge(below, 0);
        sbx_fd_drop(&here);
        here = below;
    }
    for (int i = 0; i < WIDTH; i++) {
        (void)snprintf(name, sizeof name, "wide%d", i);
        ck_assert_int_eq(mkdirat(here, name, 0755), 0);
        (void)snprintf(name, sizeof name, "wide%d/x", i);
        ck_assert_int_eq(mkdirat(here, name, 0755), 0);
    }
    return here;
}

START_TEST(test_deep_and_wide)
{
    static struct seen seen;
    char path[SBX_GROUP_KIT_SIZE];
    char number[32];
    if (!begin()) {
        return;
    }
    struct sbx_leaf leaf = make(path);
    int deepest = dig(leaf.fd);
    pid_t pid = settle(path);
    SBX_AUTO_CLOSE int procs =
        openat(deepest, "wide7/x/cgroup.procs", O_WRONLY | O_CLOEXEC);
    (void)snprintf(number, sizeof number, "%d", (int)pid);
    ck_assert_int_eq(sbx_fd_write_all(procs, number, strlen(number)), 0);
    memset(&seen, 0, sizeof seen);
    ck_assert_int_eq(sbx_leaf_each_process(leaf.fd, sbx_clock_us(), note, &seen),
                     -ETIMEDOUT); /* whoever goes on making groups */
    ck_assert_uint_eq(seen.count, 0);
    ck_assert_int_eq(sbx_leaf_each_process(leaf.fd, UINT64_MAX, note, &seen), 0);
    ck_assert(seen.count == 1 && seen.pids[0] == pid);

    uint64_t before = sbx_clock_us();
    ck_assert_int_eq(sbx_leaf_remove(place.fd, leaf.name, 300000), -EBUSY);
    ck_assert_uint_lt(sbx_clock_us() - before, BOUND_US);
    ck_assert_int_eq(sbx_leaf_populated(leaf.fd), 1); /* who lives there stays there */
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    reap(pid);
    ck_assert_int_eq(sbx_leaf_remove(place.fd, leaf.name, BOUND_US), 0);
    ck_assert(!sbx_group_kit_is_there(path));
    sbx_fd_drop(&deepest);
    sbx_fd_drop(&leaf.fd);
    end();
}
END_TEST

/* --- left behind --- */

struct left {
    const char *what;
    pid_t pid;
    bool foreign; /* another scope */
    bool locked;
    bool kept;
    bool lived_in;
    bool goes;
};

static const struct left lefts[] = {
    {"of a dead owner", DEAD, false, false, false, false, true},
    {"of a dead owner, lived in", DEAD, false, false, false, true, true},
    {"kept and empty", DEAD, false, false, true, false, true},
    {"kept and lived in", DEAD, false, false, true, true, false},
    {"locked", DEAD, false, true, false, true, false},
    {"of a live owner", ALIVE, false, false, false, true, false},
    {"of a live owner, empty", ALIVE, false, false, false, false, false},
    {"of another scope", DEAD, true, false, false, true, false},
    {"our own", 0, false, false, false, true, false},
};
#define LEFTS (sizeof lefts / sizeof lefts[0])

START_TEST(test_left_behind)
{
    char paths[LEFTS][SBX_GROUP_KIT_SIZE];
    char nested[SBX_GROUP_KIT_SIZE];
    int locks[LEFTS];
    pid_t pids[LEFTS];
    uint64_t scope = 0;
    int stay = 0;
    if (!begin()) {
        return;
    }
    ck_assert_int_eq(sbx_leaf_scope(&scope), 0);
    for (size_t i = 0; i < LEFTS; i++) {
        const struct left *row = &lefts[i];
        char name[SBX_LEAF_NAME_SIZE];
        (void)snprintf(name, sizeof name, "sbx-%016" PRIx64 "-%d-%d-%zu",
                       row->foreign ? ~scope : scope,
                       row->pid == 0 ? (int)getpid() : (int)row->pid, START, i);
        sbx_group_kit_below(root, name, paths[i]);
        sbx_group_kit_below(paths[i], "nested", nested);
        locks[i] = open_group(paths[i]);
        ck_assert_int_eq(row->kept ? sbx_leaf_mark_kept(locks[i]) : 0, 0);
        ck_assert_int_eq(row->locked ? flock(locks[i], LOCK_SH) : 0, 0);
        pids[i] = row->lived_in ? settle(nested) : 0;
        stay += row->goes ? 0 : 1;
    }
    sbx_group_kit_below(root, "sbx-not-a-leaf", nested);
    struct sbx_owner us = owner();
    ck_assert_int_eq(sbx_leaf_sweep_stale(place.fd, &us, BOUND_US), stay);
    ck_assert(sbx_group_kit_is_there(nested));
    for (size_t i = 0; i < LEFTS; i++) {
        bool there = sbx_group_kit_is_there(paths[i]);
        ck_assert_msg(there != lefts[i].goes, "%s", lefts[i].what);
        if (pids[i] != 0 && there) {
            ck_assert_msg(waitpid(pids[i], NULL, WNOHANG) == 0, "%s", lefts[i].what);
            ck_assert_int_eq(kill(pids[i], SIGKILL), 0);
        }
        if (pids[i] != 0) {
            reap(pids[i]);
        }
        sbx_fd_drop(&locks[i]);
    }
    /* Kept no more, and locked no more. The first few go, however late it is. */
    ck_assert_int_eq(sbx_leaf_sweep_stale(place.fd, &us, 0), stay - 2);
    end();
}
END_TEST

/* --- limits --- */

#define U UINT64_MAX

/* Without controllers each demand is refused, naming the file. */
START_TEST(test_refused)
{
    static const struct {
        struct sbx_leaf_limits asked;
        const char *file;
    } rows[] = {
        {{1 << 20, U, true, U, U}, "memory."},
        {{U, U, false, 20, U}, "pids.max"},
        {{U, U, false, U, 50}, "cpu.max"},
        {{U, U, false, U, UINT64_MAX - 1}, "cpu.max"},
    };
    char path[SBX_GROUP_KIT_SIZE];
    if (!begin()) {
        return;
    }
    struct sbx_leaf leaf = make(path);
    struct sbx_leaf_limits armed = {1, 2, true, 3, 4};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && leaf.controllers == 0; i++) {
        struct sbx_error err = {0};
        ck_assert_int_lt(sbx_leaf_arm(&leaf, &rows[i].asked, &armed, &err), 0);
        ck_assert_int_eq(err.stage, SBX_STAGE_ARM);
        ck_assert_ptr_nonnull(strstr(err.message, rows[i].file));
        ck_assert(armed.memory_bytes == 1 && armed.cpu_percent == 4);
    }
    struct sbx_leaf_limits none = {U, U, true, U, U};
    ck_assert_int_eq(sbx_leaf_arm(&leaf, &none, &armed, NULL), 0);
    ck_assert(armed.memory_bytes == U && armed.threads_count == U);
    sbx_fd_drop(&leaf.fd);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("leaf");
    TCase *tests = sbx_fixture_case(suite, "leaf", 60);
    tcase_add_test(tests, test_names);
    tcase_add_test(tests, test_made);
    tcase_add_test(tests, test_lock);
    tcase_add_test(tests, test_not_made);
    tcase_add_test(tests, test_lived_in);
    tcase_add_test(tests, test_deep_and_wide);
    tcase_add_test(tests, test_left_behind);
    tcase_add_test(tests, test_refused);
    return sbx_fixture_run(suite);
}
