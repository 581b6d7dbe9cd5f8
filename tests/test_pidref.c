/*
 * test_pidref.c - a signal reaches the process that was meant, or nobody.
 */
#include "tests/fixture.h"
#include "tests/tree_kit.h"

#include "reaper/pidref.h"
#include "reaper/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A child that takes SIGUSR1 as its end: its status tells what has arrived. */
static pid_t listener(void)
{
    pid_t pid = sbx_kit_fork();
    if (pid == 0) {
        sbx_kit_idle();
    }
    return pid;
}

static struct sbx_pidref ref_of(const struct sbx_kit *kit, pid_t pid)
{
    return (struct sbx_pidref){pid, sbx_kit_start_ticks(kit, pid)};
}

/* What ended it, after it was told to end by SIGTERM at the latest. */
static int end_of(pid_t pid)
{
    int status = 0;
    (void)kill(pid, SIGTERM);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

START_TEST(refuses_what_is_nobody)
{
    struct sbx_kit kit;
    sbx_kit_open(&kit, 0);
    const pid_t nobody[] = {1, 0, -1, -2};
    for (size_t i = 0; i < sizeof nobody / sizeof nobody[0]; i++) {
        struct sbx_pidref ref = {nobody[i], 0};
        ck_assert_int_eq(sbx_pidref_signal(kit.proc_fd, &ref, 0), -EINVAL);
        ck_assert_int_eq(sbx_child_signal(nobody[i], 0), -EINVAL);
        ck_assert_int_eq(sbx_child_group_signal(nobody[i], 0), -EINVAL);
    }
    sbx_kit_close(&kit);
}
END_TEST

/* With a signal that harms nobody, should it arrive. */
START_TEST(refuses_our_own_group)
{
    ck_assert_int_eq(sbx_child_group_signal(getpgrp(), SIGURG), -EINVAL);
}
END_TEST

START_TEST(signals_the_group_of_a_child)
{
    struct sbx_kit kit;
    sbx_kit_open(&kit, 0);
    pid_t pid = listener();
    ck_assert_int_eq(setpgid(pid, pid), 0);
    ck_assert_int_eq(sbx_child_group_signal(pid, SIGUSR2), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert_int_eq(sbx_child_group_signal(pid, SIGUSR2), -ESRCH);
    sbx_kit_close(&kit);
}
END_TEST

START_TEST(the_right_one_is_signalled)
{
    struct sbx_kit kit;
    sbx_kit_open(&kit, 0);
    pid_t pid = listener();
    struct sbx_pidref ref = ref_of(&kit, pid);
    ck_assert_int_eq(sbx_pidref_signal(kit.proc_fd, &ref, 0), 0);
    ck_assert_int_eq(sbx_pidref_signal(kit.proc_fd, &ref, SIGUSR1), 0);
    ck_assert_int_eq(end_of(pid), SIGUSR1);
    ck_assert_int_eq(sbx_pidref_signal(kit.proc_fd, &ref, SIGUSR1), -ESRCH);
    pid = listener();
    ck_assert_int_eq(sbx_child_signal(pid, SIGUSR2), 0);
    ck_assert_int_eq(end_of(pid), SIGUSR2);
    ck_assert_int_eq(sbx_child_signal(pid, SIGUSR2), -ESRCH);
    sbx_kit_close(&kit);
}
END_TEST

START_TEST(another_start_time_is_another_process)
{
    struct sbx_kit kit;
    sbx_kit_open(&kit, 0);
    pid_t pid = listener();
    struct sbx_pidref right = ref_of(&kit, pid);
    const uint64_t wrong[] = {right.start_ticks - 1, right.start_ticks + 1, 0,
                              UINT64_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct sbx_pidref ref = {pid, wrong[i]};
        ck_assert_int_eq(sbx_pidref_signal(kit.proc_fd, &ref, SIGUSR1), -ESRCH);
    }
    ck_assert_msg(end_of(pid) == SIGTERM, "a signal has arrived all the same");
    sbx_kit_close(&kit);
}
END_TEST

/* The number comes back as somebody else's. */
START_TEST(a_pid_that_was_given_out_again_is_not_signalled)
{
    struct sbx_kit kit;
    sbx_kit_open(&kit, 0);
    pid_t pid = listener();
    struct sbx_pidref old = ref_of(&kit, pid);
    sbx_kit_kill(pid);
    sbx_kit_next_tick();
    pid_t again = sbx_kit_fork_as(pid);
    if (again == 0) {
        sbx_kit_idle();
    }
    if (again < 0) {
        sbx_kit_skip("a recycled pid", "no process may be given a pid of choice here");
        sbx_kit_close(&kit);
        return;
    }
    ck_assert_int_eq(again, pid);
    ck_assert_int_eq(sbx_pidref_signal(kit.proc_fd, &old, SIGUSR1), -ESRCH);
    struct sbx_pidref new = ref_of(&kit, pid);
    ck_assert_uint_ne(new.start_ticks, old.start_ticks);
    ck_assert_int_eq(end_of(pid), SIGTERM);
    sbx_kit_close(&kit);
}
END_TEST

START_TEST(a_zombie_takes_signals_and_stays_one)
{
    struct sbx_kit kit;
    sbx_kit_open(&kit, 0);
    pid_t pid = sbx_kit_fork();
    if (pid == 0) {
        _exit(7);
    }
    sbx_kit_wait_state(&kit, pid, 'Z');
    struct sbx_pidref ref = ref_of(&kit, pid);
    ck_assert_int_eq(sbx_pidref_signal(kit.proc_fd, &ref, SIGKILL), 0);
    ck_assert_int_eq(sbx_child_signal(pid, SIGKILL), 0);
    int status = 0;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    ck_assert_int_eq(sbx_pidref_signal(kit.proc_fd, &ref, SIGKILL), -ESRCH);
    sbx_kit_close(&kit);
}
END_TEST

/* As root: a process of root, seen by this test when it is nobody. It ends by itself when
 * the pipe does. */
START_TEST(what_is_not_permitted_says_so)
{
    struct sbx_kit kit;
    int pipe_fds[2];
    if (getuid() != 0) {
        sbx_kit_skip("a signal that is not permitted", "needs root, to be two users");
        return;
    }
    sbx_kit_open(&kit, 0);
    ck_assert_int_eq(pipe2(pipe_fds, O_CLOEXEC), 0);
    pid_t pid = sbx_kit_fork();
    if (pid == 0) {
        char byte;
        (void)close(pipe_fds[1]);
        _exit(read(pipe_fds[0], &byte, 1) == 0 ? 0 : 1);
    }
    struct sbx_pidref ref = ref_of(&kit, pid);
    ck_assert_int_eq(setresuid(SBX_KIT_NOBODY, SBX_KIT_NOBODY, SBX_KIT_NOBODY), 0);
    (void)prctl(PR_SET_DUMPABLE, 1); /* our /proc entries are ours again */
    ck_assert_int_eq(sbx_pidref_signal(kit.proc_fd, &ref, SIGTERM), -EPERM);
    ck_assert_int_eq(sbx_child_signal(pid, SIGTERM), -EPERM);
    ref.start_ticks++;
    ck_assert_int_eq(sbx_pidref_signal(kit.proc_fd, &ref, SIGTERM), -ESRCH);
    (void)close(pipe_fds[0]);
    (void)close(pipe_fds[1]);
    int status = -1;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    sbx_kit_close(&kit);
}
END_TEST

START_TEST(a_pidfd_is_of_that_process)
{
    struct sbx_kit kit;
    sbx_kit_open(&kit, 0);
    pid_t pid = listener();
    int fd = sbx_pidfd_open(pid);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    ck_assert_int_eq(poll(&ended, 1, 0), 0);
    (void)kill(pid, SIGKILL);
    ck_assert_int_eq(poll(&ended, 1, 20000), 1);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    (void)close(fd);
    ck_assert_int_eq(sbx_pidfd_open(pid), -ESRCH);
    ck_assert_int_eq(sbx_pidfd_open(-1), -EINVAL);
    sbx_kit_close(&kit);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pidref");
    TCase *tcase = sbx_fixture_case(suite, "pidref", 60);
    tcase_add_test(tcase, refuses_what_is_nobody);
    tcase_add_test(tcase, refuses_our_own_group);
    tcase_add_test(tcase, signals_the_group_of_a_child);
    tcase_add_test(tcase, the_right_one_is_signalled);
    tcase_add_test(tcase, another_start_time_is_another_process);
    tcase_add_test(tcase, a_pid_that_was_given_out_again_is_not_signalled);
    tcase_add_test(tcase, a_zombie_takes_signals_and_stays_one);
    tcase_add_test(tcase, what_is_not_permitted_says_so);
    tcase_add_test(tcase, a_pidfd_is_of_that_process);
    return sbx_fixture_run(suite);
}
