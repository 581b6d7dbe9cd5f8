/*
 * test_launch_group.c - the leader is in its group from its first instruction, by clone3
 * or by a move that is verified, or nothing has run.
 *
 * On bare groups of the test's own; where none can be made (an ordinary user without a
 * delegated group) that is said, and only what needs none is tested. Calls go wrong by
 * the linker's --wrap, as in test_launch_broken.c.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "reaper/launch.h"
#include "tests/fixture.h"
#include "tests/group_kit.h"
#include "tests/launch_faults.h"
#include "tests/launch_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Writes its group, and then a child's, into the working directory. */
static const char *const telling[] = {
    "/bin/sh", "-c",
    "while IFS= read -r line; do printf '%s\\n' \"$line\"; done "
    "</proc/self/cgroup >own; cat /proc/self/cgroup >child; : >ran",
    NULL};

static char group[SBX_GROUP_KIT_SIZE];

/* A launch into a fresh group; false (said on stderr): none can be made. */
static bool prepare(struct sbx_launch *launch, const char *const *argv)
{
    if (!sbx_group_kit_make(group)) {
        sbx_group_kit_skip("a launch into a group", "no group can be made here");
        return false;
    }
    ck_assert_int_eq(chdir(sbx_fixture_dir()), 0);
    *launch = sbx_kit_launch(argv);
    launch->group_fd = open(group, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_gt(launch->group_fd, 2);
    return true;
}

static void clean_up(struct sbx_launch *launch)
{
    (void)close(launch->group_fd);
    sbx_group_kit_remove(group);
}

/* The line of the cgroup2 hierarchy ends with the group's name. */
static void assert_in_group(const char *file)
{
    char text[8192];
    char end[128];
    ck_assert_int_gt(sbx_fd_read_text_at(AT_FDCWD, file, text, sizeof text), 0);
    const char *line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
    (void)snprintf(end, sizeof end, "%s\n", strrchr(group, '/'));
    ck_assert_msg(line != NULL && strstr(line, end) != NULL, "%s is not in %s: %s", file,
                  group, text);
}

static void assert_told(void)
{
    ck_assert_int_eq(access("ran", F_OK), 0);
    assert_in_group("own");
    assert_in_group("child");
}

static void assert_not_run(void)
{
    ck_assert_msg(access("ran", F_OK) != 0, "the command has run");
    ck_assert_msg(sbx_group_kit_number(group, "cgroup.events", "populated") <= 0,
                  "somebody is left in the group");
}

/* --- born in it --------------------------------------------------------------------- */

START_TEST(born_in_its_group)
{
    struct sbx_launch launch;
    if (!prepare(&launch, telling)) {
        return;
    }
    sbx_kit_assert_exited(sbx_kit_run(&launch), 0);
    assert_told();
    clean_up(&launch);
}
END_TEST

/* Waits until the group has somebody in it and all of it stands still, then lets it go.
 * Whether nothing was written by then. */
static bool thaw_the_first(void)
{
    char procs[64] = "";
    uint64_t end_us = sbx_clock_us() + 20 * (uint64_t)SBX_US_PER_S;
    while (sbx_clock_us() < end_us &&
           (procs[0] == '\0' ||
            sbx_group_kit_number(group, "cgroup.events", "frozen") != 1)) {
        (void)sbx_group_kit_read(group, "cgroup.procs", procs, sizeof procs);
        (void)usleep(2000);
    }
    bool early = access("ran", F_OK) == 0;
    (void)sbx_group_kit_write(group, "cgroup.freeze", "0");
    return procs[0] != '\0' && !early;
}

/* A frozen group stops whoever is in it: a leader that was outside for one instruction
 * would have left its file before the thaw. */
static void run_frozen(const struct sbx_launch *launch)
{
    int status = -1;
    struct sbx_error error = {.code = 0};
    pid_t leader = -1;
    ck_assert_int_eq(sbx_group_kit_write(group, "cgroup.freeze", "1"), 0);
    pid_t other = fork();
    ck_assert_int_ge(other, 0);
    if (other == 0) {
        _exit(thaw_the_first() ? 0 : 1);
    }
    int result = sbx_kit_start(launch, &leader, &status, &error);
    ck_assert_msg(result == 0, "%s", error.message);
    ck_assert_int_eq(waitpid(other, &status, 0), other);
    sbx_kit_assert_exited(status, 0);
    ck_assert_int_eq(waitpid(leader, &status, 0), leader);
    sbx_kit_assert_exited(status, 0);
}

START_TEST(not_one_instruction_outside)
{
    struct sbx_launch launch;
    if (!prepare(&launch, telling)) {
        return;
    }
    run_frozen(&launch);
    assert_told();
    clean_up(&launch);
}
END_TEST

/* What the kernel says of the leader right after the launch, before it does anything. */
START_TEST(the_kernel_says_so)
{
    static const char *const reading[] = {"/bin/sh", "-c", "read -r line", NULL};
    struct sbx_launch launch;
    char file[64];
    pid_t leader = -1;
    int status = -1;
    int ends[2];
    if (!prepare(&launch, reading)) {
        return;
    }
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    launch.stdio[0] = ends[0];
    ck_assert_int_eq(sbx_kit_start(&launch, &leader, &status, NULL), 0);
    (void)snprintf(file, sizeof file, "/proc/%d/cgroup", (int)leader);
    assert_in_group(file);
    (void)close(ends[0]);
    (void)close(ends[1]);
    ck_assert_int_eq(waitpid(leader, &status, 0), leader);
    clean_up(&launch);
}
END_TEST

/* --- where clone3 is refused -------------------------------------------------------- */

static const int refusals[] = {ENOSYS, EINVAL,     EPERM,  E2BIG, EACCES,
                               EBUSY,  EOPNOTSUPP, ENOENT, ENODEV};

START_TEST(a_refused_clone_is_made_good)
{
    const struct fault fault = CALLER("syscall", FAIL, refusals[_i]);
    struct sbx_launch launch;
    if (!prepare(&launch, telling)) {
        return;
    }
    sbx_faults_begin(&fault, 1);
    int status = sbx_kit_run(&launch);
    ck_assert(!sbx_faults_end());
    sbx_kit_assert_exited(status, 0);
    assert_told();
    clean_up(&launch);
}
END_TEST

/* A move freezes before the first step after it. */
START_TEST(a_move_comes_first)
{
    const struct fault fault = CALLER("syscall", FAIL, ENOSYS);
    struct sbx_launch launch;
    if (!prepare(&launch, telling)) {
        return;
    }
    sbx_faults_begin(&fault, 1);
    run_frozen(&launch);
    ck_assert(!sbx_faults_end());
    assert_told();
    clean_up(&launch);
}
END_TEST

static const struct {
    struct fault faults[3];
    int code;
    const char *message;
} failures[] = {
    /* What holds for any new process is not got around by a move. */
    {{CALLER("syscall", FAIL, EAGAIN)},
     EAGAIN,
     "clone3 into the group: resource temporarily unavailable (EAGAIN)"},
    {{CALLER("syscall", FAIL, ENOMEM)},
     ENOMEM,
     "clone3 into the group: cannot allocate memory (ENOMEM)"},
    {{CALLER("syscall", FAIL, ENOSYS), CALLER("fork", FAIL, EAGAIN)},
     EAGAIN,
     "fork: resource temporarily unavailable (EAGAIN)"},
    /* The move. */
    {{CALLER("syscall", FAIL, ENOSYS), CHILD("openat", FAIL, EACCES)},
     EACCES,
     "group: open cgroup.procs: permission denied (EACCES)"},
    {{CALLER("syscall", FAIL, EBUSY), CHILD("write", FAIL, EBUSY)},
     EBUSY,
     "group: write 0 to cgroup.procs: device or resource busy (EBUSY)"},
    {{CALLER("syscall", FAIL, EPERM), CHILD("pread", FAIL, EIO)},
     EIO,
     "group: read cgroup.procs: input/output error (EIO)"},
    /* It says that somebody else is in it. */
    {{CALLER("syscall", FAIL, EPERM), CHILD("pread", LIE, 0)},
     EIO,
     "group: cgroup.procs: wrote 0, but process "},
};

START_TEST(a_failed_move_is_told)
{
    struct sbx_launch launch;
    struct sbx_error error;
    if (!prepare(&launch, telling)) {
        return;
    }
    sbx_faults_begin(failures[_i].faults, 3);
    int status = sbx_kit_fail(&launch, &error);
    ck_assert(!sbx_faults_end());
    ck_assert_msg(
        strncmp(error.message, failures[_i].message, strlen(failures[_i].message)) == 0,
        "%s", error.message);
    ck_assert_int_eq(status, 125);
    ck_assert_int_eq(error.stage, SBX_STAGE_LAUNCH);
    ck_assert_int_eq(error.code, failures[_i].code);
    assert_not_run();
    clean_up(&launch);
}
END_TEST

/* --- a group that takes nobody ------------------------------------------------------ */

/* Gone before the launch; with clone3 and without. */
START_TEST(a_group_that_is_gone_is_told)
{
    const struct fault fault = CALLER("syscall", FAIL, ENOSYS);
    struct sbx_launch launch;
    struct sbx_error error;
    if (!prepare(&launch, telling)) {
        return;
    }
    ck_assert_int_eq(rmdir(group), 0);
    if (_i == 1) {
        sbx_faults_begin(&fault, 1);
    }
    int status = sbx_kit_fail(&launch, &error);
    ck_assert(!sbx_faults_end());
    ck_assert_int_eq(status, 125);
    ck_assert_int_eq(error.stage, SBX_STAGE_LAUNCH);
    ck_assert_int_eq(error.code, ENOENT);
    ck_assert_msg(strstr(error.message, "group: open cgroup.procs: no such file") != NULL,
                  "%s", error.message);
    assert_not_run();
    clean_up(&launch);
}
END_TEST

/* Neither way into a group of this type: told by the move, which names the file. */
START_TEST(a_threaded_group_is_told)
{
    struct sbx_launch launch;
    struct sbx_error error;
    char threaded[SBX_GROUP_KIT_SIZE];
    char below[SBX_GROUP_KIT_SIZE];
    if (!prepare(&launch, telling)) {
        return;
    }
    /* A group made below a threaded one is of no use until it is threaded too. */
    sbx_group_kit_below(group, "threaded", threaded);
    ck_assert_int_eq(sbx_group_kit_write(threaded, "cgroup.type", "threaded"), 0);
    sbx_group_kit_below(threaded, "invalid", below);
    (void)close(launch.group_fd);
    launch.group_fd = open(below, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int status = sbx_kit_fail(&launch, &error);
    ck_assert_int_eq(status, 125);
    ck_assert_int_eq(error.code, EOPNOTSUPP);
    ck_assert_msg(strstr(error.message, "group: write 0 to cgroup.procs: ") != NULL, "%s",
                  error.message);
    assert_not_run();
    clean_up(&launch);
}
END_TEST

/* No cgroup2 directory at all: a clear error too, and no process outside. */
START_TEST(a_plain_directory_is_told)
{
    struct sbx_error error;
    ck_assert_int_eq(chdir(sbx_fixture_dir()), 0);
    struct sbx_launch launch = sbx_kit_launch(telling);
    launch.group_fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(sbx_kit_fail(&launch, &error), 125);
    ck_assert_int_eq(error.code, EBADF);
    ck_assert_ptr_nonnull(strstr(error.message, "clone3 into the group: "));
    ck_assert_int_ne(access("ran", F_OK), 0);
    (void)close(launch.group_fd);
}
END_TEST

/* --- without a group ---------------------------------------------------------------- */

/* The caller's first clone3, were there one, would end the test; the child's first file
 * is that of the next step. */
START_TEST(without_a_group_no_call_is_made)
{
    static const struct fault rows[] = {
        CALLER("syscall", EXIT, 99),
        CHILD("openat", FAIL, EACCES),
    };
    struct sbx_error error;
    ck_assert_int_eq(chdir(sbx_fixture_dir()), 0);
    struct sbx_launch launch = sbx_kit_launch(telling);
    sbx_faults_begin(rows, LENGTH(rows));
    int status = sbx_kit_fail(&launch, &error);
    ck_assert(!sbx_faults_end());
    ck_assert_int_eq(status, 125);
    ck_assert_msg(strncmp(error.message, "oom score: read ", 16) == 0, "%s",
                  error.message);
}
END_TEST

/* Born in it, the child makes none either. */
START_TEST(a_birth_needs_no_step)
{
    static const struct fault rows[] = {CHILD("openat", FAIL, EACCES)};
    struct sbx_launch launch;
    struct sbx_error error;
    if (!prepare(&launch, telling)) {
        return;
    }
    sbx_faults_begin(rows, LENGTH(rows));
    int status = sbx_kit_fail(&launch, &error);
    ck_assert(!sbx_faults_end());
    ck_assert_int_eq(status, 125);
    ck_assert_msg(strncmp(error.message, "oom score: read ", 16) == 0, "%s",
                  error.message);
    assert_not_run();
    clean_up(&launch);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("launch_group");
    TCase *born = sbx_fixture_case(suite, "born", 60);
    tcase_add_test(born, born_in_its_group);
    tcase_add_test(born, not_one_instruction_outside);
    tcase_add_test(born, the_kernel_says_so);
    tcase_add_test(born, a_birth_needs_no_step);
    tcase_add_test(born, without_a_group_no_call_is_made);
    TCase *moved = sbx_fixture_case(suite, "moved", 60);
    tcase_add_loop_test(moved, a_refused_clone_is_made_good, 0, (int)LENGTH(refusals));
    tcase_add_test(moved, a_move_comes_first);
    tcase_add_loop_test(moved, a_failed_move_is_told, 0, (int)LENGTH(failures));
    TCase *none = sbx_fixture_case(suite, "none", 60);
    tcase_add_loop_test(none, a_group_that_is_gone_is_told, 0, 2);
    tcase_add_test(none, a_threaded_group_is_told);
    tcase_add_test(none, a_plain_directory_is_told);
    return sbx_group_kit_finish(sbx_fixture_run(suite));
}
