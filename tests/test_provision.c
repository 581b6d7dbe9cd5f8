/*
 * test_provision.c - groups set up by name, and the traps that lie around them.
 *
 * Each trap of libcgroup has a test with two halves: what the library does is looked at
 * and told (another version may be better), and what ours does in the same place is
 * asserted. The library is linked here, directly, for the first half. Groups are made
 * where one can be made; what needs a controller is tested in a virtual machine.
 */
#include "base/fd.h"
#include "cgroup/hierarchy.h"
#include "cgroup/provision.h"
#include "tests/fixture.h"
#include "tests/group_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <libcgroup.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char mount[SBX_GROUP_PATH_SIZE];
static char path[SBX_GROUP_KIT_SIZE]; /* of the test's group, in the file system */
static const char *group;             /* the same, below the mount */

static void tell(const char *trap, bool is_there)
{
    (void)fprintf(stderr, "libcgroup here %s: %s\n",
                  is_there ? "has the trap" : "does not have the trap", trap);
}

/* --- a group for the test ----------------------------------------------------------- */

static bool has_mount(void)
{
    struct sbx_hierarchy hierarchy;
    SBX_AUTO_CLOSE int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(sbx_hierarchy_find(proc, &hierarchy, NULL), 0);
    (void)snprintf(mount, sizeof mount, "%s", hierarchy.mount);
    return hierarchy.kind != SBX_HIERARCHY_NONE;
}

static bool prepare(void)
{
    if (!has_mount() || !sbx_group_kit_make(path)) {
        sbx_group_kit_skip("a group set up by name", "none can be made here");
        return false;
    }
    ck_assert_int_eq(strncmp(path, mount, strlen(mount)), 0);
    group = path + strlen(mount);
    return true;
}

/* A test's group whose children have memory and pids. */
static bool prepare_with_controllers(void)
{
    if (!has_mount() || !sbx_group_kit_make_controlled(path)) {
        sbx_group_kit_skip("controllers", "none can be had here");
        return false;
    }
    group = path + strlen(mount);
    return true;
}

static void assert_done(int rc, const struct sbx_error *err)
{
    ck_assert_msg(rc == 0, "%d: %s", rc, err->message);
}

static const char *named(const char *name, char buffer[static SBX_GROUP_KIT_SIZE])
{
    (void)snprintf(buffer, SBX_GROUP_KIT_SIZE, "%.400s/%s", group, name);
    return buffer;
}

static bool is_there(const char *below)
{
    char whole[2 * SBX_GROUP_PATH_SIZE];
    (void)snprintf(whole, sizeof whole, "%s%.500s", mount, below);
    return sbx_group_kit_is_there(whole);
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

static void log_nothing(void *context, int level, const char *format, va_list values)
{
    (void)context;
    (void)level;
    (void)format;
    (void)values;
}

/* As the library is used by who believes it; silenced, so that the tests' output is
 * theirs. */
static void start_library(void)
{
    cgroup_set_logger(log_nothing, CGROUP_LOG_ERROR, NULL);
    ck_assert_int_eq(cgroup_init(), 0);
}

static struct cgroup *described(const char *below, const char *a, const char *b)
{
    struct cgroup *it = cgroup_new_cgroup(below + 1);
    ck_assert_ptr_nonnull(it);
    ck_assert(a == NULL || cgroup_add_controller(it, a) != NULL);
    ck_assert(b == NULL || cgroup_add_controller(it, b) != NULL);
    return it;
}

/* --- what is seen ------------------------------------------------------------------- */

static void compare(const struct sbx_provision_view *view,
                    const struct sbx_hierarchy *own)
{
    char text[1024];
    (void)sbx_group_kit_read(view->mount, "cgroup.controllers", text, sizeof text);
    ck_assert_str_eq(view->mount, own->mount);
    ck_assert_int_eq(view->kind, own->kind);
    ck_assert_uint_eq(view->controllers, sbx_controllers_parse(text));
}

START_TEST(sees_what_we_see)
{
    struct sbx_error err = {.code = 0};
    struct sbx_provision_view view;
    struct sbx_hierarchy own;
    SBX_AUTO_CLOSE int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(sbx_hierarchy_find(proc, &own, NULL), 0);
    assert_done(sbx_provision_find(&view, &err), &err);
    ck_assert_uint_eq(view.held_by_v1, own.held_by_v1);
    if (view.mount[0] == '\0') {
        sbx_group_kit_skip("the mount that libcgroup sees", "it sees no cgroup2");
    } else {
        compare(&view, &own);
    }
}
END_TEST

/* In a process of its own, whose stdout is a file: how much of it is written. */
static off_t output_of(void (*act)(void))
{
    char file[SBX_FIXTURE_PATH_SIZE];
    SBX_AUTO_CLOSE int fd = open(sbx_fixture_path(file, "output"),
                                 O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void)dup2(fd, 1);
        act();
        (void)fflush(stdout);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    return lseek(fd, 0, SEEK_END);
}

static void fail_in_the_open(void)
{
    struct cgroup *it;
    (void)setenv("CGROUP_LOGLEVEL", "DEBUG", 1);
    (void)cgroup_init();
    it = cgroup_new_cgroup("sbxtest-that-is-not-there");
    (void)cgroup_get_cgroup(it);
    cgroup_free(&it);
}

static void fail_with_ours(void)
{
    struct sbx_provision_view view;
    (void)setenv("CGROUP_LOGLEVEL", "DEBUG", 1);
    (void)sbx_provision_find(&view, NULL);
    (void)sbx_provision_attach(mount, "/sbxtest-that-is-not-there", getpid(), NULL);
    struct cgroup *it = cgroup_new_cgroup("sbxtest-that-is-not-there");
    (void)cgroup_get_cgroup(it);
    cgroup_free(&it);
}

START_TEST(logs_nothing)
{
    tell("logs to stdout", output_of(fail_in_the_open) > 0);
    (void)has_mount();
    ck_assert_int_eq(output_of(fail_with_ours), 0);
}
END_TEST

START_TEST(tells_the_group_of_a_process)
{
    char *found = NULL;
    start_library();
    int rc = cgroup_get_current_controller_path(getpid(), "memory", &found);
    tell("get_current_controller_path fails on cgroup2", rc != 0);
    free(found);
}
END_TEST

/* --- making ------------------------------------------------------------------------- */

START_TEST(make_one_without_a_controller)
{
    char below[SBX_GROUP_KIT_SIZE];
    struct sbx_error err = {.code = 0};
    if (!prepare()) {
        return;
    }
    start_library();
    struct cgroup *it = described(named("theirs", below), NULL, NULL);
    int rc = cgroup_create_cgroup(it, 1);
    tell("create without a controller returns 0 and makes nothing",
         rc == 0 && !is_there(below));
    cgroup_free(&it);

    rc = sbx_provision_create(mount, named("ours", below), 0, &err);
    ck_assert_msg(rc == 0, "%s", err.message);
    ck_assert(is_there(below));
    ck_assert_int_eq(sbx_provision_create(mount, below, 0, &err), -EEXIST);
    ck_assert_int_eq(sbx_provision_remove(mount, below, NULL), 0);
    ck_assert(!is_there(below));
    ck_assert_int_eq(sbx_provision_remove(mount, below, NULL), -ENOENT);
    sbx_group_kit_remove(path);
}
END_TEST

START_TEST(refuse_what_is_no_group)
{
    static const char *const paths[] = {
        "", "/", "a", "/a/", "//a", "/./a", "/../a", "/a/..", "/sbxtest-not-there/a"};
    struct sbx_error err = {.code = 0};
    if (!has_mount()) {
        return;
    }
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        int rc = sbx_provision_create(mount, paths[i], 0, &err);
        ck_assert_msg(rc == -EINVAL || rc == -ENOENT, "%s: %d", paths[i], rc);
    }
    ck_assert_int_eq(sbx_provision_create("/", "/sbxtest-nowhere", 0, &err), -EINVAL);
    ck_assert_int_eq(sbx_provision_attach(mount, "/sbxtest-not-there", 0, NULL), -EINVAL);
}
END_TEST

/* Above a group nothing is switched on for it. The library would. */
START_TEST(leave_alone_what_is_above)
{
    char middle[SBX_GROUP_KIT_SIZE];
    char below[SBX_GROUP_KIT_SIZE];
    struct sbx_error err = {.code = 0};
    const unsigned pids = SBX_CONTROLLER_BIT(SBX_CONTROLLER_PIDS);
    if (!prepare_with_controllers()) {
        return;
    }
    sbx_group_kit_below(path, "middle", middle);
    int rc = sbx_provision_create(mount, named("middle/ours", below), pids, &err);
    if (geteuid() != 0) {
        ck_assert_int_eq(rc, -EPERM);
    } else {
        ck_assert_int_eq(rc, -EOPNOTSUPP);
        ck_assert_msg(strstr(err.message, "middle/cgroup.subtree_control") != NULL &&
                          strstr(err.message, "+pids") != NULL,
                      "%s", err.message);
    }
    ck_assert(!is_there(below));
    ck_assert(!sbx_group_kit_has(middle, "cgroup.subtree_control", "pids"));

    start_library();
    struct cgroup *it = described(named("middle/theirs", below), "pids", NULL);
    rc = cgroup_create_cgroup(it, 1);
    cgroup_free(&it);
    tell("create rewrites cgroup.subtree_control above",
         sbx_group_kit_has(middle, "cgroup.subtree_control", "pids"));
    if (geteuid() != 0) {
        tell("a refused write above (in a delegated subtree) is 50015", rc == 50015);
    }
    sbx_group_kit_remove(path);
}
END_TEST

static void read_all_above(const char *whole, char *text, size_t size)
{
    char directory[SBX_GROUP_KIT_SIZE];
    (void)snprintf(directory, sizeof directory, "%s", whole);
    text[0] = '\0';
    for (char *end = NULL; (end = strrchr(directory, '/')) != NULL;) {
        size_t used = strlen(text);
        (void)sbx_group_kit_read(directory, "cgroup.subtree_control", text + used,
                                 size - used);
        *end = '\0';
    }
}

static void assert_made(const char *below, int rc, const struct sbx_error *err)
{
    if (geteuid() != 0) {
        ck_assert_int_eq(rc, -EPERM);
        return;
    }
    assert_done(rc, err);
    char whole[2 * SBX_GROUP_KIT_SIZE];
    (void)snprintf(whole, sizeof whole, "%s/ours", path);
    ck_assert(sbx_group_kit_has(whole, "cgroup.controllers", "memory"));
    ck_assert(sbx_group_kit_has(whole, "cgroup.controllers", "pids"));
    ck_assert_int_eq(sbx_provision_remove(mount, below, NULL), 0);
}

START_TEST(make_one_with_controllers)
{
    char below[SBX_GROUP_KIT_SIZE];
    static char before[16384];
    static char after[16384];
    struct sbx_error err = {.code = 0};
    const unsigned both = SBX_CONTROLLER_BIT(SBX_CONTROLLER_PIDS) |
                          SBX_CONTROLLER_BIT(SBX_CONTROLLER_MEMORY);
    if (!prepare_with_controllers()) {
        return;
    }
    read_all_above(path, before, sizeof before);
    int rc = sbx_provision_create(mount, named("ours", below), both, &err);
    read_all_above(path, after, sizeof after);
    ck_assert_str_eq(before, after);
    assert_made(below, rc, &err);
    ck_assert(!is_there(below));
    sbx_group_kit_remove(path);
}
END_TEST

/* On a hybrid host the library would make the group in the hierarchy of v1. */
START_TEST(refuse_a_controller_that_is_not_here)
{
    char below[SBX_GROUP_KIT_SIZE];
    struct sbx_error err = {.code = 0};
    if (!prepare()) {
        return;
    }
    if (sbx_group_kit_has(path, "cgroup.controllers", "memory") || geteuid() != 0) {
        sbx_group_kit_remove(path);
        return;
    }
    ck_assert_int_eq(sbx_provision_create(mount, named("ours", below),
                                          SBX_CONTROLLER_BIT(SBX_CONTROLLER_MEMORY),
                                          &err),
                     -EOPNOTSUPP);
    ck_assert(!is_there(below));
    ck_assert_int_eq(access("/sys/fs/cgroup/memory/sbxtest-provision", F_OK), -1);
    sbx_group_kit_remove(path);
}
END_TEST

/* --- limits ------------------------------------------------------------------------- */

START_TEST(change_a_limit)
{
    static const struct {
        const char *file;
        const char *value;
        int result;    /* 1: any failure */
        long long now; /* then in the file; -1: not looked at */
    } changes[] = {
        {"memory.max", "1234567", 0, 1232896}, /* rounded down to pages */
        {"pids.max", "7", 0, 7},
        {"pids.max", "-3", 1, 7},
        {"pids.max", "8 and more", 1, 7},
        {"pids.max", "max", 0, -1},
        {"cgroup.kill", "1", -EINVAL, -1}, /* no limits */
        {"memory.max/..", "1", -EINVAL, -1},
        {"memory.nothing", "1", -ENOENT, -1},
    };
    char child[SBX_GROUP_KIT_SIZE];
    char below[SBX_GROUP_KIT_SIZE];
    if (!prepare_with_controllers()) {
        return;
    }
    sbx_group_kit_below(path, "child", child);
    (void)named("child", below);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        int rc =
            sbx_provision_limit(mount, below, changes[i].file, changes[i].value, NULL);
        ck_assert_msg(changes[i].result == 1 ? rc < 0 : rc == changes[i].result,
                      "%s %s: %d", changes[i].file, changes[i].value, rc);
        ck_assert(changes[i].now < 0 ||
                  changes[i].now == sbx_group_kit_number(child, changes[i].file, NULL));
    }
    sbx_group_kit_remove(path);
}
END_TEST

START_TEST(end_those_in_a_group)
{
    struct sbx_error err = {.code = 0};
    if (!prepare()) {
        return;
    }
    pid_t pid = start_sleeper();
    ck_assert_int_eq(sbx_provision_attach(mount, group, pid, &err), 0);
    start_library();
    struct cgroup *it = cgroup_new_cgroup(group + 1);
    struct cgroup_controller *core = cgroup_add_controller(it, "cgroup");
    int rc = core == NULL ? -1 : cgroup_add_value_string(core, "cgroup.kill", "1");
    rc = rc == 0 ? cgroup_modify_cgroup(it) : rc;
    cgroup_free(&it);
    struct pollfd ended = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
    tell("cgroup.kill cannot be written through it (root can)",
         rc != 0 || poll(&ended, 1, 200) == 0);
    (void)close(ended.fd);
    end_child(pid);
    sbx_group_kit_remove(path);
}
END_TEST

/* --- moving and taking away --------------------------------------------------------- */

START_TEST(move_a_process)
{
    struct sbx_error err = {.code = 0};
    if (!prepare()) {
        return;
    }
    pid_t pid = start_sleeper();
    start_library();
    struct cgroup *it = described(group, NULL, NULL);
    int rc = cgroup_attach_task_pid(it, pid);
    cgroup_free(&it);
    tell("attach without a controller returns 0 and does nothing",
         rc == 0 && !holds(path, pid));
    rc = sbx_provision_attach(mount, group, pid, &err);
    ck_assert_msg(rc == 0, "%s", err.message);
    ck_assert(holds(path, pid));
    end_child(pid);
    ck_assert_int_eq(sbx_provision_attach(mount, group, pid, &err), -ESRCH);
    sbx_group_kit_remove(path);
}
END_TEST

/* One with a process in it. The library says that it is gone and leaves it, or moves the
 * process to the parent. */
static void try_their_delete(const char *name, int flags, const char *trap)
{
    char child[SBX_GROUP_KIT_SIZE];
    char below[SBX_GROUP_KIT_SIZE];
    sbx_group_kit_below(path, name, child);
    pid_t pid = start_sleeper();
    ck_assert_int_eq(sbx_provision_attach(mount, named(name, below), pid, NULL), 0);
    struct cgroup *it = described(below, "memory", NULL);
    int rc = cgroup_delete_cgroup_ext(it, flags);
    cgroup_free(&it);
    bool gone = !is_there(below);
    bool alive = kill(pid, 0) == 0;
    tell(trap, flags != 0 ? rc == 0 && !gone : gone && alive);
    end_child(pid);
}

START_TEST(never_take_a_populated_group_away)
{
    char child[SBX_GROUP_KIT_SIZE];
    char below[SBX_GROUP_KIT_SIZE];
    struct sbx_error err = {.code = 0};
    if (!prepare()) {
        return;
    }
    sbx_group_kit_below(path, "ours", child);
    pid_t pid = start_sleeper();
    ck_assert_int_eq(sbx_provision_attach(mount, named("ours", below), pid, &err), 0);
    ck_assert_int_eq(sbx_provision_remove(mount, below, &err), -EBUSY);
    ck_assert(holds(child, pid)); /* neither moved nor ended */
    end_child(pid);
    ck_assert_int_eq(sbx_provision_remove(mount, below, &err), 0);
    sbx_group_kit_remove(path);
}
END_TEST

START_TEST(their_ways_to_take_a_group_away)
{
    char child[SBX_GROUP_KIT_SIZE];
    char below[SBX_GROUP_KIT_SIZE];
    if (!prepare_with_controllers()) {
        return;
    }
    start_library();
    try_their_delete("a", CGFLAG_DELETE_EMPTY_ONLY,
                     "EMPTY_ONLY delete of a populated group returns 0 and leaves it");
    /* For processes to be moved to it, the parent must have none of the two on. */
    char top[SBX_GROUP_KIT_SIZE];
    (void)snprintf(top, sizeof top, "%s", path);
    sbx_group_kit_below(path, "c", child);
    struct cgroup *it = described(named("c", below), "memory", "pids");
    int rc = cgroup_delete_cgroup(it, 0);
    cgroup_free(&it);
    tell("delete with two controllers succeeds and returns an error",
         rc != 0 && !is_there(below));
    ck_assert_int_eq(sbx_group_kit_write(top, "cgroup.subtree_control", "-memory -pids"),
                     0);
    try_their_delete("b", 0, "delete moves live processes to the parent");
    sbx_group_kit_remove(path);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("provision");
    TCase *library = sbx_fixture_case(suite, "library", 60);
    tcase_add_test(library, sees_what_we_see);
    tcase_add_test(library, logs_nothing);
    tcase_add_test(library, tells_the_group_of_a_process);
    tcase_add_test(library, make_one_without_a_controller);
    tcase_add_test(library, refuse_what_is_no_group);
    tcase_add_test(library, leave_alone_what_is_above);
    tcase_add_test(library, make_one_with_controllers);
    tcase_add_test(library, refuse_a_controller_that_is_not_here);
    tcase_add_test(library, change_a_limit);
    tcase_add_test(library, end_those_in_a_group);
    tcase_add_test(library, move_a_process);
    tcase_add_test(library, never_take_a_populated_group_away);
    tcase_add_test(library, their_ways_to_take_a_group_away);
    return sbx_fixture_run(suite);
}
