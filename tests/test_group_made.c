/*
 * test_group_made.c - the group of --cgroup-root that is not there: root's runs make it,
 * the last of them takes it away, and nobody takes away what no run has made. Groups are
 * opened as the guard opens them.
 */
#include "base/fd.h"
#include "cgroup/group.h"
#include "monitor/record.h"
#include "tests/fixture.h"
#include "tests/group_kit.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char path[SBX_GROUP_KIT_SIZE];     /* a group of the test's own */
static char root[SBX_GROUP_KIT_SIZE + 8]; /* in it, not there at first */

static bool lives(pid_t pid, uint64_t start_ticks, void *context)
{
    (void)context;
    (void)start_ticks;
    return pid == getpid();
}

static bool prepare(bool controlled)
{
    bool made =
        controlled ? sbx_group_kit_make_controlled(path) : sbx_group_kit_make(path);
    if (!made) {
        sbx_group_kit_skip("a root that is not there", "no group can be made here");
        return false;
    }
    (void)snprintf(root, sizeof root, "%s/new", path);
    return true;
}

static int open_group(const char *where, uint64_t threads_count, struct sbx_group *group,
                      struct sbx_error *err)
{
    const struct sbx_group_wish wish = {
        .root = where,
        .root_directory_fd = AT_FDCWD,
        .limits = {.memory_bytes = SBX_UNKNOWN,
                   .swap_bytes = SBX_UNKNOWN,
                   .threads_count = threads_count,
                   .cpu_percent = SBX_UNKNOWN},
        .owner = {.pid = getpid(), .start_ticks = 1, .lives = lives},
        .ours = {getpid()},
        .ours_count = 1,
    };
    SBX_AUTO_CLOSE int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    err->message[0] = '\0';
    return sbx_group_open(proc, &wish, group, err);
}

static void open_well(struct sbx_group *group, uint64_t threads_count)
{
    struct sbx_error err;
    int rc = open_group(root, threads_count, group, &err);
    ck_assert_msg(rc == 0, "%s", err.message);
    ck_assert_msg(group->leaf.fd >= 0, "%s", group->why_none);
    ck_assert_int_eq(strncmp(group->path, root, strlen(root)), 0);
}

START_TEST(the_last_run_takes_it_away)
{
    struct sbx_group first;
    struct sbx_group second;
    char marker[2 * SBX_GROUP_KIT_SIZE];
    if (geteuid() != 0 || !prepare(false)) {
        return;
    }
    (void)snprintf(marker, sizeof marker, "%s/sbx-made", root);
    for (int i = 0; i < 2; i++) {
        open_well(&first, SBX_UNKNOWN);
        ck_assert(sbx_group_kit_is_there(marker));
        open_well(&second, SBX_UNKNOWN);
        ck_assert_int_eq(sbx_group_close(&first, false), 0);
        ck_assert(sbx_group_kit_is_there(marker));
        ck_assert_int_eq(sbx_group_close(&second, false), 0);
        ck_assert(!sbx_group_kit_is_there(root));
    }
    sbx_group_kit_remove(path);
}
END_TEST

START_TEST(what_no_run_made_stays)
{
    struct sbx_group group;
    if (geteuid() != 0 || !prepare(false)) {
        return;
    }
    char there[SBX_GROUP_KIT_SIZE];
    sbx_group_kit_below(path, "new", there);
    open_well(&group, SBX_UNKNOWN);
    ck_assert_int_eq(sbx_group_close(&group, false), 0);
    ck_assert(sbx_group_kit_is_there(root));
    sbx_group_kit_remove(path);
}
END_TEST

/* Somebody else has put a group, or a process, into what we made: it stays for them, and
 * is still known to be ours. */
START_TEST(others_keep_it)
{
    struct sbx_group group;
    char other[SBX_GROUP_KIT_SIZE];
    if (geteuid() != 0 || !prepare(false)) {
        return;
    }
    open_well(&group, SBX_UNKNOWN);
    sbx_group_kit_below(root, "other", other);
    ck_assert_int_eq(sbx_group_close(&group, false), 0);
    ck_assert(sbx_group_kit_is_there(other));
    ck_assert_int_eq(rmdir(other), 0);
    open_well(&group, SBX_UNKNOWN);
    ck_assert_int_eq(sbx_group_close(&group, false), 0);
    ck_assert(!sbx_group_kit_is_there(root));
    sbx_group_kit_remove(path);
}
END_TEST

static bool is_refused(const char *where)
{
    struct sbx_group group;
    struct sbx_error err;
    int rc = open_group(where, SBX_UNKNOWN, &group, &err);
    if (rc == 0) {
        (void)sbx_group_close(&group, false);
    }
    return rc < 0 && strstr(err.message, "--cgroup-root") != NULL;
}

START_TEST(nothing_is_left_of_what_cannot_be)
{
    char deeper[2 * SBX_GROUP_KIT_SIZE];
    if (!prepare(false)) {
        return;
    }
    if (geteuid() != 0) {
        ck_assert(is_refused(root)); /* no root's run */
    }
    (void)snprintf(deeper, sizeof deeper, "%s/deeper", root);
    ck_assert(is_refused(deeper));
    ck_assert(!sbx_group_kit_is_there(root));
    (void)snprintf(deeper, sizeof deeper, "%s/..", root);
    ck_assert(is_refused(deeper));
    ck_assert(is_refused(sbx_fixture_path(deeper, "no-group")));
    ck_assert(!sbx_group_kit_is_there(deeper));
    /* Threaded from above: no place for a leaf, so what was made for it goes. */
    if (geteuid() == 0 && sbx_group_kit_write(path, "cgroup.type", "threaded") == 0) {
        ck_assert(is_refused(root));
        ck_assert(!sbx_group_kit_is_there(root));
    }
    sbx_group_kit_remove(path);
}
END_TEST

static void open_bounded(void)
{
    struct sbx_group group;
    open_well(&group, 7);
    ck_assert_uint_eq(group.armed.threads_count, 7);
    ck_assert_int_eq(sbx_group_kit_number(group.path, "pids.max", NULL), 7);
    ck_assert_int_eq(sbx_group_close(&group, false), 0);
}

START_TEST(with_controllers)
{
    char before[1024];
    char after[1024];
    if (geteuid() != 0 || !prepare(true)) {
        return;
    }
    (void)sbx_group_kit_read(path, "cgroup.subtree_control", before, sizeof before);
    open_bounded();
    ck_assert(!sbx_group_kit_is_there(root));
    (void)sbx_group_kit_read(path, "cgroup.subtree_control", after, sizeof after);
    ck_assert_str_eq(before, after);
    sbx_group_kit_remove(path);
}
END_TEST

/* A process that opens and closes it again and again; its status is 0 if it always had a
 * leaf. */
static pid_t start_runs(int rounds)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid > 0) {
        return pid;
    }
    for (int i = 0; i < rounds; i++) {
        struct sbx_group group;
        struct sbx_error err;
        int rc = open_group(root, SBX_UNKNOWN, &group, &err);
        if (rc < 0 || group.leaf.fd < 0 || sbx_group_close(&group, false) < 0) {
            (void)fprintf(stderr, "%s %s\n", err.message, group.why_none);
            _exit(1);
        }
    }
    _exit(0);
}

/* Runs that come and go: none of them is without a leaf because another has just left. */
START_TEST(many_at_once)
{
    enum { RUNS = 4, ROUNDS = 25 };
    pid_t pids[RUNS];
    if (geteuid() != 0 || !prepare(false)) {
        return;
    }
    for (int i = 0; i < RUNS; i++) {
        pids[i] = start_runs(ROUNDS);
    }
    for (int i = 0; i < RUNS; i++) {
        int status = -1;
        ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
        ck_assert_int_eq(status, 0);
    }
    ck_assert(!sbx_group_kit_is_there(root));
    sbx_group_kit_remove(path);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("group_made");
    TCase *made = sbx_fixture_case(suite, "made", 60);
    tcase_add_test(made, the_last_run_takes_it_away);
    tcase_add_test(made, what_no_run_made_stays);
    tcase_add_test(made, others_keep_it);
    tcase_add_test(made, nothing_is_left_of_what_cannot_be);
    tcase_add_test(made, with_controllers);
    tcase_add_test(made, many_at_once);
    return sbx_fixture_run(suite);
}
