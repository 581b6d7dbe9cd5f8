/*
 * launch_kit.c - see launch_kit.h.
 */
#include "tests/launch_kit.h"

#include "tests/fixture.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const plain_environment[] = {"PATH=/usr/local/bin:/usr/bin:/bin",
                                                NULL};

struct sbx_launch sbx_kit_launch(const char *const *argv)
{
    struct sbx_launch launch = {.argv = argv,
                                .envp = plain_environment,
                                .own_group = true,
                                .tty_fd = -1,
                                .group_fd = -1};
    (void)sigemptyset(&launch.inherited_ignored);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &launch.nofile), 0);
    return launch;
}

/* As the contract wants it: every signal blocked around the call. */
int sbx_kit_start(const struct sbx_launch *launch, pid_t *ret_pid, int *ret_status,
                  struct sbx_error *err)
{
    sigset_t all;
    sigset_t old;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &old);
    int result = sbx_launch(launch, ret_pid, ret_status, err);
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
    return result;
}

/* Launches and waits; returns the wait status. */
int sbx_kit_run(const struct sbx_launch *launch)
{
    struct sbx_error error = {.code = 0};
    pid_t pid = -1;
    int status = -1;
    int result = sbx_kit_start(launch, &pid, &status, &error);
    ck_assert_msg(result == 0, "%s", error.message);
    ck_assert_int_gt(pid, 1);
    ck_assert_int_eq(status, -1);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

void sbx_kit_assert_no_child(void)
{
    siginfo_t info;
    int result = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT);
    ck_assert_msg(result < 0 && errno == ECHILD, "a child is left");
}

/* Launches what cannot be launched; returns the exit status that goes with it. */
int sbx_kit_fail(const struct sbx_launch *launch, struct sbx_error *ret_error)
{
    pid_t pid = -7;
    int status = -1;
    struct sbx_error error = {.code = 0};
    int result = sbx_kit_start(launch, &pid, &status, &error);
    ck_assert_int_lt(result, 0);
    ck_assert_int_eq(pid, -7);
    ck_assert_int_eq(error.code, -result);
    ck_assert_uint_gt(strlen(error.message), 0);
    ck_assert_ptr_null(strchr(error.message, '\n'));
    sbx_kit_assert_no_child();
    *ret_error = error;
    return status;
}

void sbx_kit_assert_exited(int status, int code)
{
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == code, "wait status %#x",
                  (unsigned)status);
}

struct sbx_kit_fill sbx_kit_fill(void)
{
    struct sbx_kit_fill fill = {.count = 0};
    while (fill.count < SBX_KIT_FILL_COUNT) {
        int fd = dup(0);
        ck_assert_int_ge(fd, 0);
        fill.fds[fill.count++] = fd;
    }
    return fill;
}

void sbx_kit_unfill(const struct sbx_kit_fill *fill)
{
    for (int i = 0; i < fill->count; i++) {
        (void)close(fill->fds[i]);
    }
}
