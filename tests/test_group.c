/*
 * test_group.c - the group of a run from the wish to the last trace: what is switched on
 * for it at its place, who moves for that, and that all of it is put back, by the last of
 * several runs, after a step has failed, and after a run was killed at any moment.
 *
 * The place is a group of the test's own, with the memory and pids controllers where one
 * of our groups has them (then its own subtree_control is changed, by what is tested).
 * Without them the same tests show that a wish stays a wish and nothing is left. The
 * linker's --wrap puts this file between the code and its system calls.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "cgroup/group.h"
#include "tests/fixture.h"
#include "tests/group_kit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define U UINT64_MAX
#define START 78
#define KILLS 30
#define KILL_SPREAD_US 6000U
#define FAULTS_MAX 400

/* --- system calls that fail --- */

static int until_fault = -1; /* so many calls go through; -1: all of them */

static bool strikes(void)
{
    if (until_fault < 0 || until_fault-- > 0) {
        return false;
    }
    errno = EACCES;
    return true;
}

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): ld's names */
int __real_openat(int directory, const char *path, int flags, ...);
int __wrap_openat(int directory, const char *path, int flags, ...);
int __wrap_openat(int directory, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = (flags & O_CREAT) != 0 ? va_arg(args, mode_t) : 0;
    va_end(args);
    return strikes() ? -1 : __real_openat(directory, path, flags, mode);
}

#define WRAP(type, name, parameters, arguments)                                          \
    type __real_##name parameters;                                                       \
    type __wrap_##name parameters;                                                       \
    type __wrap_##name parameters                                                        \
    {                                                                                    \
        return strikes() ? (type)-1 : __real_##name arguments;                           \
    }

WRAP(int, mkdirat, (int directory, const char *path, mode_t mode),
     (directory, path, mode))
WRAP(int, unlinkat, (int directory, const char *path, int flags),
     (directory, path, flags))
WRAP(int, flock, (int fd, int operation), (fd, operation))
WRAP(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

/* --- a place --- */

static char root[SBX_GROUP_KIT_SIZE];
static bool controlled;
static int proc_fd;
static struct sbx_group group;

/* The nearest group of ours whose children have the controllers. */
static bool make_controlled(void)
{
    char parent[SBX_GROUP_KIT_SIZE];
    if (!sbx_group_kit_own(parent)) {
        return false;
    }
    for (char *slash; (slash = strrchr(parent, '/')) != NULL; *slash = '\0') {
        (void)snprintf(root, sizeof root, "%.400s/sbxtest-%d-0", parent, (int)getpid());
        if (!sbx_group_kit_has(parent, "cgroup.subtree_control", "memory") ||
            !sbx_group_kit_has(parent, "cgroup.subtree_control", "pids") ||
            mkdir(root, 0755) < 0) {
            continue;
        }
        return true;
    }
    return false;
}

static bool begin(void)
{
    controlled = make_controlled();
    if (!controlled && !sbx_group_kit_make(root)) {
        sbx_group_kit_skip("group", "no group can be made here");
        return false;
    }
    if (!controlled) {
        sbx_group_kit_skip("limits of a group", "no controllers for our groups here");
    }
    proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(proc_fd, 0);
    return true;
}

/* As it was made: nothing below it, nothing on. */
static void check_clean(const char *when)
{
    char first[SBX_GROUP_KIT_SIZE];
    char text[256];
    size_t count = sbx_group_kit_count(root, "", first);
    /* "." and ".." */
    ck_assert_msg(count == 2, "%s: %zu groups are left, such as %s", when, count - 2,
                  first);
    (void)sbx_group_kit_read(root, "cgroup.subtree_control", text, sizeof text);
    ck_assert_msg(text[strspn(text, "\n")] == '\0', "%s: still on: %s", when, text);
}

static void end(void)
{
    check_clean("at the end");
    sbx_fd_drop(&proc_fd);
    sbx_group_kit_remove(root);
}

static bool all_died; /* what lives() says of everybody then */

static bool lives(pid_t pid, uint64_t start_ticks, void *context)
{
    (void)context;
    return !all_died && start_ticks == START && kill(pid, 0) == 0;
}

static struct sbx_group_wish wish(uint64_t memory_bytes, uint64_t threads_count)
{
    return (struct sbx_group_wish){
        .root = root,
        .root_directory_fd = AT_FDCWD,
        .limits = {memory_bytes, U, true, threads_count, U},
        .owner = {.pid = getpid(), .start_ticks = START, .lives = lives},
        .ours = {getpid()},
        .ours_count = 1,
    };
}

static void open_group(struct sbx_group *ret_group)
{
    struct sbx_error err = {0};
    struct sbx_group_wish some = wish(1234567, 20);
    ck_assert_msg(sbx_group_open(proc_fd, &some, ret_group, &err) == 0, "%s",
                  err.message);
    ck_assert_msg(ret_group->leaf.fd > STDERR_FILENO, "%s", ret_group->why_none);
}

static bool marked(const char *name)
{
    char path[SBX_GROUP_KIT_SIZE];
    (void)snprintf(path, sizeof path, "%.400s/%s", root, name);
    return sbx_group_kit_is_there(path);
}

static bool is_on(const char *controller)
{
    return sbx_group_kit_has(root, "cgroup.subtree_control", controller);
}

static bool is_in(const char *path, pid_t pid)
{
    char word[32];
    (void)snprintf(word, sizeof word, "%d", (int)pid);
    return sbx_group_kit_has(path, "cgroup.procs", word);
}

/* --- one run --- */

START_TEST(test_one)
{
    char text[256];
    if (!begin()) {
        return;
    }
    open_group(&group);
    ck_assert(sbx_group_kit_is_there(group.path));
    ck_assert(strncmp(group.path, root, strlen(root)) == 0);
    ck_assert_int_eq(is_on("memory"), controlled);
    ck_assert_int_eq(marked("sbx-on.memory"), controlled);
    ck_assert_int_eq(marked("sbx-on.pids"), controlled);
    ck_assert(!marked("sbx-on.cpu") && !is_on("cpu") && !marked("sbx-self"));
    if (controlled) {
        ck_assert_uint_eq(group.armed.memory_bytes, 1232896);
        ck_assert_uint_eq(group.armed.swap_bytes, 0);
        ck_assert_uint_eq(group.armed.threads_count, 20);
        ck_assert(group.armed.group_kill);
        ck_assert_int_eq(sbx_group_kit_number(group.path, "memory.max", NULL), 1232896);
        ck_assert_int_eq(sbx_group_kit_number(group.path, "pids.max", NULL), 20);
        ck_assert_int_eq(sbx_group_kit_number(group.path, "memory.oom.group", NULL), 1);
    } else {
        ck_assert_uint_eq(group.armed.memory_bytes, U);
        ck_assert_uint_eq(group.armed.threads_count, U);
        ck_assert_str_ne(group.place.why[SBX_CONTROLLER_MEMORY], "");
        ck_assert_str_ne(group.place.why[SBX_CONTROLLER_PIDS], "");
    }
    (void)snprintf(text, sizeof text, "%.200s", group.path);
    ck_assert_int_eq(sbx_group_close(&group, false), 0);
    ck_assert(!sbx_group_kit_is_there(text));
    ck_assert_int_eq(group.leaf.fd, -1);
    end();
}
END_TEST

/* Every value that the kernel takes, and those that it refuses. */
START_TEST(test_values)
{
    static const struct {
        struct sbx_leaf_limits asked;
        int result;
        struct sbx_leaf_limits armed;
    } rows[] = {
        {{1 << 26, U, false, U, U}, 0, {1 << 26, 0, false, U, U}},
        {{1 << 26, 1 << 20, true, U, U}, 0, {1 << 26, 1 << 20, true, U, U}},
        {{U - 1, U, false, U, U}, 0, {U - 1, 0, false, U, U}},
        {{U, U, false, 1, U}, 0, {U, U, false, 1, U}},
        {{U, U, false, 4194304, U}, 0, {U, U, false, 4194304, U}},
        {{U, U, false, U - 1, U}, 0, {U, U, false, U - 1, U}},
        {{U, U, false, U, 1}, 0, {U, U, false, U, 1}},
        {{U, U, false, U, 250}, 0, {U, U, false, U, 250}},
        {{U, U, false, U, 0}, -EINVAL, {0}},
        {{U, U, false, U, 184467440737096}, -ERANGE, {0}},
    };
    if (!begin()) {
        return;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && controlled; i++) {
        struct sbx_error err = {0};
        struct sbx_group_wish some = wish(U, U);
        some.limits = rows[i].asked;
        int r = sbx_group_open(proc_fd, &some, &group, &err);
        ck_assert_msg(r == rows[i].result, "row %zu: %d, %s", i, r, err.message);
        if (r == 0) {
            const struct sbx_leaf_limits *armed = &rows[i].armed;
            ck_assert_uint_eq(group.armed.memory_bytes, armed->memory_bytes);
            ck_assert_uint_eq(group.armed.swap_bytes, armed->swap_bytes);
            ck_assert_int_eq(group.armed.group_kill, armed->group_kill);
            ck_assert_uint_eq(group.armed.threads_count, armed->threads_count);
            ck_assert_uint_eq(group.armed.cpu_percent, armed->cpu_percent);
            ck_assert_int_eq(sbx_group_close(&group, false), 0);
        } else {
            ck_assert_int_eq(err.stage, SBX_STAGE_ARM);
        }
        check_clean("after a row");
    }
    end();
}
END_TEST

/* --- several --- */

START_TEST(test_shared)
{
    static struct sbx_group second;
    if (!begin()) {
        return;
    }
    open_group(&group);
    open_group(&second);
    ck_assert_int_eq(sbx_group_close(&group, false), 0);
    ck_assert_int_eq(is_on("memory"), controlled);
    ck_assert_int_eq(sbx_group_kit_number(second.path, "pids.max", NULL),
                     controlled ? 20 : -1);
    ck_assert_int_eq(sbx_group_close(&second, false), 0);
    end();
}
END_TEST

/* What was on without us stays on. */
START_TEST(test_on_before)
{
    if (!begin()) {
        return;
    }
    if (controlled) {
        ck_assert_int_eq(sbx_group_kit_write(root, "cgroup.subtree_control", "+pids"), 0);
        open_group(&group);
        ck_assert(marked("sbx-on.memory") && !marked("sbx-on.pids"));
        ck_assert_int_eq(sbx_group_close(&group, false), 0);
        ck_assert(is_on("pids") && !is_on("memory"));
        ck_assert_int_eq(sbx_group_kit_write(root, "cgroup.subtree_control", "-pids"), 0);
    }
    end();
}
END_TEST

static void move_to(const char *path, pid_t pid)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%d", (int)pid);
    ck_assert_int_eq(sbx_group_kit_write(path, "cgroup.procs", text), 0);
}

/* A process of ours is in the way: it moves, and comes back. */
START_TEST(test_in_the_way)
{
    char self[SBX_GROUP_KIT_SIZE];
    if (!begin()) {
        return;
    }
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    while (child == 0) {
        (void)pause();
    }
    move_to(root, child);
    (void)snprintf(self, sizeof self, "%.400s/sbx-self", root);
    struct sbx_error err = {0};
    struct sbx_group_wish some = wish(1234567, 20);
    some.ours[some.ours_count++] = child;
    ck_assert_msg(sbx_group_open(proc_fd, &some, &group, &err) == 0, "%s", err.message);
    ck_assert_int_eq(is_in(self, child), controlled);
    ck_assert_int_eq(is_in(root, child), !controlled);
    ck_assert_uint_eq(group.armed.threads_count, controlled ? 20 : U);
    ck_assert_int_eq(sbx_group_close(&group, false), 0);
    ck_assert(is_in(root, child));
    check_clean("after one that moved");

    /* Somebody else's is not moved: then there is no limit, and that is told. */
    some.ours_count = 1;
    ck_assert_msg(sbx_group_open(proc_fd, &some, &group, &err) == 0, "%s", err.message);
    ck_assert(is_in(root, child));
    ck_assert_uint_eq(group.armed.threads_count, U);
    ck_assert_str_ne(group.place.why[SBX_CONTROLLER_PIDS], "");
    ck_assert_int_eq(sbx_group_close(&group, false), 0);
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    end();
}
END_TEST

/* Who holds the lock costs us the controllers, for a bounded time, and not the run. */
START_TEST(test_lock_held)
{
    if (!begin()) {
        return;
    }
    char path[SBX_GROUP_PATH_SIZE];
    (void)snprintf(path, sizeof path, "%.400s/cgroup.subtree_control", root);
    SBX_AUTO_CLOSE int held = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(flock(held, LOCK_EX), 0);
    uint64_t before = sbx_clock_us();
    open_group(&group);
    ck_assert_uint_lt(sbx_clock_us() - before, 20 * SBX_US_PER_S);
    ck_assert_uint_eq(group.armed.memory_bytes, U);
    ck_assert(!is_on("memory"));
    ck_assert_str_ne(group.place.why[SBX_CONTROLLER_MEMORY], "");
    if (controlled) {
        ck_assert_ptr_nonnull(strstr(group.place.why[SBX_CONTROLLER_MEMORY], "lock"));
    }
    ck_assert_int_eq(sbx_group_close(&group, false), 0);
    end();
}
END_TEST

/* The place is the leaf of a run around this one, which holds its lock. */
START_TEST(test_leaf_of_another)
{
    if (!begin()) {
        return;
    }
    SBX_AUTO_CLOSE int held = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(flock(held, LOCK_SH), 0);
    open_group(&group);
    if (controlled) {
        ck_assert_uint_ne(group.armed.memory_bytes, U);
        ck_assert(is_on("memory"));
    }
    ck_assert_int_eq(sbx_group_close(&group, false), 0);
    ck_assert(!is_on("memory"));
    end();
}
END_TEST

/* One that is kept stays as long as somebody lives in it. */
START_TEST(test_kept)
{
    char path[SBX_GROUP_PATH_SIZE];
    if (!begin()) {
        return;
    }
    pid_t owner = fork();
    ck_assert_int_ge(owner, 0);
    if (owner == 0) {
        open_group(&group);
        _exit(sbx_group_close(&group, true) < 0 ? 1 : 0);
    }
    int status = 0;
    char first[SBX_GROUP_KIT_SIZE];
    ck_assert_int_eq(waitpid(owner, &status, 0), owner);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(sbx_group_kit_count(root, "sbx-", first), controlled ? 3 : 1);
    SBX_AUTO_CLOSEDIR DIR *directory = opendir(root);
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL && !sbx_leaf_is_name(entry->d_name)) {
    }
    ck_assert_ptr_nonnull(entry);
    (void)snprintf(path, sizeof path, "%.400s/%.100s", root, entry->d_name);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    while (child == 0) {
        (void)pause();
    }
    move_to(path, child);
    open_group(&group); /* the sweep of another run */
    ck_assert_int_eq(sbx_group_close(&group, false), 0);
    ck_assert(is_in(path, child));
    ck_assert_int_eq(is_on("memory"), controlled);
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    struct sbx_group_wish nothing = wish(U, U);
    ck_assert_int_eq(sbx_group_open(proc_fd, &nothing, &group, NULL), 0);
    ck_assert(!is_on("memory") && !marked("sbx-on.memory"));
    ck_assert_int_eq(sbx_group_close(&group, false), 0);
    end();
}
END_TEST

/* --- what goes wrong --- */

/* Each system call of it fails once: nothing is left when it is over. */
START_TEST(test_broken_open)
{
    if (!begin()) {
        return;
    }
    int n = 0;
    for (bool struck = true; struck; n++) {
        char when[64];
        struct sbx_error err = {0};
        struct sbx_group_wish some = wish(1234567, 20);
        ck_assert_int_lt(n, FAULTS_MAX);
        until_fault = n;
        int r = sbx_group_open(proc_fd, &some, &group, &err);
        struck = until_fault < 0;
        until_fault = -1;
        ck_assert_msg(r == 0 || err.message[0] != '\0', "call %d", n);
        if (r == 0 && group.armed.threads_count == U) {
            ck_assert_msg(group.why_none[0] != '\0' ||
                              group.place.why[SBX_CONTROLLER_PIDS][0] != '\0',
                          "call %d: not armed, and not told why", n);
        }
        (void)snprintf(when, sizeof when, "call %d of opening failed", n);
        if (r == 0) {
            ck_assert_msg(sbx_group_close(&group, false) == 0, "%s", when);
        }
        check_clean(when);
    }
    ck_assert_int_gt(n, 5);
    end();
}
END_TEST

/* The same of closing: whatever is left then is told, and goes with the next run. */
START_TEST(test_broken_close)
{
    if (!begin()) {
        return;
    }
    int n = 0;
    for (bool struck = true; struck; n++) {
        char when[64];
        ck_assert_int_lt(n, FAULTS_MAX);
        open_group(&group);
        until_fault = n;
        int r = sbx_group_close(&group, false);
        struck = until_fault < 0;
        until_fault = -1;
        (void)snprintf(when, sizeof when, "call %d of closing failed", n);
        if (r == 0) {
            check_clean(when);
        }
        struct sbx_group_wish later = wish(U, U);
        later.owner.start_ticks = START + 1;
        all_died = true;
        ck_assert_int_eq(sbx_group_open(proc_fd, &later, &group, NULL), 0);
        ck_assert_int_eq(sbx_group_close(&group, false), 0);
        all_died = false;
        check_clean(when);
    }
    ck_assert_int_gt(n, 1);
    end();
}
END_TEST

/* The owner is killed at any moment, with somebody in its leaf or in sbx-self. */
START_TEST(test_killed)
{
    if (!begin()) {
        return;
    }
    srand((unsigned)getpid());
    for (int i = 0; i < KILLS; i++) {
        pid_t owner = fork();
        ck_assert_int_ge(owner, 0);
        if (owner == 0) {
            struct sbx_group_wish some = wish(1234567, 20);
            move_to(root, getpid());
            while (sbx_group_open(proc_fd, &some, &group, NULL) == 0 &&
                   sbx_group_close(&group, false) == 0) {
            }
            _exit(1);
        }
        const struct timespec while_it_works = {
            .tv_nsec = 1000L * (rand() % (int)KILL_SPREAD_US)};
        int status = 0;
        (void)nanosleep(&while_it_works, NULL);
        ck_assert_int_eq(kill(owner, SIGKILL), 0);
        ck_assert_int_eq(waitpid(owner, &status, 0), owner);
        ck_assert_msg(WIFSIGNALED(status), "round %d: it could not go on", i);
        struct sbx_group_wish any = i % 2 == 0 ? wish(U, U) : wish(1234567, 20);
        ck_assert_int_eq(sbx_group_open(proc_fd, &any, &group, NULL), 0);
        ck_assert_msg(sbx_group_close(&group, false) == 0, "round %d", i);
        check_clean("after one that was killed");
    }
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("group");
    TCase *tests = sbx_fixture_case(suite, "group", 120);
    tcase_add_test(tests, test_one);
    tcase_add_test(tests, test_values);
    tcase_add_test(tests, test_shared);
    tcase_add_test(tests, test_on_before);
    tcase_add_test(tests, test_in_the_way);
    tcase_add_test(tests, test_lock_held);
    tcase_add_test(tests, test_leaf_of_another);
    tcase_add_test(tests, test_kept);
    tcase_add_test(tests, test_broken_open);
    tcase_add_test(tests, test_broken_close);
    tcase_add_test(tests, test_killed);
    return sbx_fixture_run(suite);
}
