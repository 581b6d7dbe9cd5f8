/*
 * test_fixture.c - the fixture notices what it is there to notice.
 *
 * Each row names a test that misbehaves. It is run by this program started anew with the
 * row's name, so that the run is one as any other; that run must fail, with the message
 * of the row, and leave nothing behind (the fixture around the outer test sees to that).
 * Rows that pass are the proof that failing is not all it can do.
 */
#include "tests/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534

/* Never more than a minute, whatever fails. */
static void idle(void)
{
    (void)alarm(60);
    for (;;) {
        (void)pause();
    }
}

static pid_t fork_idle(void)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        idle();
    }
    return pid;
}

/* A daemon in its own session, with a parent that has gone. */
static void make_daemon(void)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        if (setsid() < 0 || signal(SIGTERM, SIG_IGN) == SIG_ERR || fork() != 0) {
            _exit(0);
        }
        idle();
    }
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

START_TEST(behaves)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    int fd = open(sbx_fixture_path(path, "file"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "x", 1), 1);
    ck_assert_int_eq(close(fd), 0);
    sbx_fixture_wait_file(path, 1);
    ck_assert_int_eq(mkdir(sbx_fixture_path(path, "directory"), 0700), 0);
    pid_t pid = fork_idle();
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}
END_TEST

START_TEST(leaks_descriptor)
{
    ck_assert_int_ge(open("/dev/zero", O_RDONLY | O_CLOEXEC), 0);
}
END_TEST

START_TEST(closes_descriptor)
{
    ck_assert_int_eq(close(STDIN_FILENO), 0);
}
END_TEST

START_TEST(replaces_descriptor)
{
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(dup2(fd, STDIN_FILENO), STDIN_FILENO);
    ck_assert_int_eq(close(fd), 0);
}
END_TEST

START_TEST(leaves_child)
{
    (void)fork_idle();
}
END_TEST

START_TEST(leaves_zombie)
{
    pid_t pid = fork();
    if (pid == 0) {
        _exit(0);
    }
    siginfo_t info;
    ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}
END_TEST

START_TEST(leaves_stopped)
{
    pid_t pid = fork_idle();
    ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(pid, NULL, WUNTRACED), pid);
}
END_TEST

START_TEST(leaves_session)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        if (fork() == 0 && setsid() < 0) {
            _exit(1);
        }
        idle();
    }
}
END_TEST

START_TEST(leaves_daemon)
{
    make_daemon();
}
END_TEST

START_TEST(is_late)
{
    idle();
}
END_TEST

START_TEST(is_late_with_daemon)
{
    make_daemon();
    idle();
}
END_TEST

START_TEST(fails_with_daemon)
{
    make_daemon();
    ck_abort_msg("the reason of its own");
}
END_TEST

START_TEST(crashes)
{
    (void)raise(SIGKILL);
}
END_TEST

START_TEST(crashes_with_daemon)
{
    make_daemon();
    (void)raise(SIGKILL);
}
END_TEST

START_TEST(exits)
{
    _exit(0);
}
END_TEST

START_TEST(locks_directory)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    ck_assert_int_eq(mkdir(sbx_fixture_path(path, "locked"), 0700), 0);
    ck_assert_int_eq(mkdir(sbx_fixture_path(path, "locked/inner"), 0700), 0);
    ck_assert_int_eq(chmod(sbx_fixture_path(path, "locked"), 0500), 0);
}
END_TEST

static const struct row {
    const char *name;
    const TTest *const *test;
    const char *message; /* NULL: must pass */
} rows[] = {
    {"behaves", &behaves, NULL},
    {"leaks-descriptor", &leaks_descriptor, "was left open (/dev/zero)"},
    {"closes-descriptor", &closes_descriptor, "descriptor 0 was closed"},
    {"replaces-descriptor", &replaces_descriptor, "descriptor 0 is another file"},
    {"leaves-child", &leaves_child, "left behind: "},
    {"leaves-zombie", &leaves_zombie, "left behind: "},
    {"leaves-stopped", &leaves_stopped, "left behind: "},
    {"leaves-session", &leaves_session, "left behind: "},
    {"leaves-daemon", &leaves_daemon, "left behind: "},
    {"is-late", &is_late, "the time limit of 1.0 s has passed"},
    {"is-late-with-daemon", &is_late_with_daemon,
     "the time limit of 1.0 s has passed; left behind: "},
    {"fails-with-daemon", &fails_with_daemon, "the reason of its own"},
    {"crashes", &crashes, "signal 9"},
    {"crashes-with-daemon", &crashes_with_daemon, "signal 9; left behind: "},
    {"exits", &exits, "the test has called exit"},
    {"locks-directory", &locks_directory, "cannot remove the directory"},
};
#define ROW_COUNT (sizeof(rows) / sizeof(rows[0]))

static int run_row(const char *name)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            Suite *suite = suite_create(name);
            tcase_add_test(sbx_fixture_case(suite, name, 1), *rows[i].test);
            return sbx_fixture_run(suite);
        }
    }
    return 2;
}

/* In the child: this program anew, as an ordinary user, with its output in a file. */
static _Noreturn void exec_row(const char *name, const char *output)
{
    int fd = open(output, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    char *const argv[] = {(char[]){"test_fixture"}, strdup(name), NULL};
    if (fd >= 0 && dup2(fd, 1) == 1 && dup2(fd, 2) == 2 &&
        setenv("TMPDIR", sbx_fixture_dir(), 1) == 0 &&
        setenv("CK_VERBOSITY", "normal", 1) == 0) {
        int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        if (geteuid() != 0 ||
            (setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0)) {
            (void)fexecve(self, argv, environ);
        }
    }
    _exit(3);
}

/* The status of the inner run, its output in text. */
static int inner_run(const char *name, char *text, size_t size)
{
    char output[SBX_FIXTURE_PATH_SIZE];
    (void)sbx_fixture_path(output, "output");
    ck_assert_int_eq(chmod(sbx_fixture_dir(), 01777), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        exec_row(name, output);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    int fd = open(output, O_RDONLY | O_CLOEXEC);
    ssize_t length = read(fd, text, size - 1);
    ck_assert_int_gt(length, 0);
    text[length] = '\0';
    ck_assert_int_eq(close(fd), 0);
    return WEXITSTATUS(status);
}

START_TEST(row_ends_as_expected)
{
    const struct row *row = &rows[_i];
    char text[4096];
    int status = inner_run(row->name, text, sizeof(text));
    ck_assert_msg(status == (row->message == NULL ? 0 : 1), "%s: status %d: %s",
                  row->name, status, text);
    if (row->message != NULL) {
        ck_assert_msg(strstr(text, row->message) != NULL, "%s: %s", row->name, text);
    }
    /* Nothing may have come down to us. */
    ck_assert_msg(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD,
                  "%s: a process is left", row->name);
    char *directory = strstr(text, "cannot remove the directory ");
    if (directory != NULL) {
        char *path = directory + strlen("cannot remove the directory ");
        path[strcspn(path, ":")] = '\0';
        char locked[SBX_FIXTURE_PATH_SIZE];
        (void)snprintf(locked, sizeof(locked), "%s/locked", path);
        ck_assert_int_eq(chmod(locked, 0700), 0);
    }
}
END_TEST

START_TEST(a_run_without_tests_fails)
{
    char text[4096];
    ck_assert_int_eq(setenv("CK_RUN_CASE", "none-of-that-name", 1), 0);
    ck_assert_int_eq(inner_run("behaves", text, sizeof(text)), 1);
    ck_assert_msg(strstr(text, "no test was run") != NULL, "%s", text);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 1) {
        return run_row(argv[1]);
    }
    Suite *suite = suite_create("fixture");
    TCase *tcase = sbx_fixture_case(suite, "must-fail", 60);
    tcase_add_loop_test(tcase, row_ends_as_expected, 0, (int)ROW_COUNT);
    tcase_add_test(tcase, a_run_without_tests_fails);
    return sbx_fixture_run(suite);
}
