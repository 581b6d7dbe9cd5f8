/*
 * test_servant.c - a process of ours for what may block: it is out of the way of signals
 * and terminal, its end is seen, a hung one is ended, and one that its parent has lost
 * can still be ended by whoever holds the pidfd.
 */
#include "reaper/servant.h"

#include "base/clock.h"
#include "base/fd.h"
#include "tests/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG_US (20 * (uint64_t)SBX_US_PER_S)

/* What a servant says of itself, in one write. */
struct words {
    char name[16];
    pid_t group;
    pid_t pid;
};

static void say_who(void *context)
{
    struct words words = {.group = getpgrp(), .pid = getpid()};
    (void)prctl(PR_GET_NAME, words.name, 0, 0, 0);
    (void)sbx_fd_write_all(*(int *)context, &words, sizeof words);
}

static void hang(void *context)
{
    (void)context;
    for (int i = 0; i < 60; i++) {
        (void)poll(NULL, 0, 1000);
    }
}

static struct sbx_servant start(void (*serve)(void *), void *context)
{
    struct sbx_servant servant = SBX_NO_SERVANT;
    struct sbx_error error;
    ck_assert_msg(sbx_servant_start(&servant, "test-servant", serve, context, &error) ==
                      0,
                  "%s", error.message);
    ck_assert_int_gt(servant.pid, 0);
    ck_assert_int_ge(servant.pidfd, 0);
    return servant;
}

START_TEST(it_serves_and_its_end_is_seen)
{
    int ends[2];
    struct words words;
    ck_assert_int_eq(pipe(ends), 0);
    struct sbx_servant servant = start(say_who, &ends[1]);
    ck_assert_int_eq(read(ends[0], &words, sizeof words), sizeof words);
    ck_assert_str_eq(words.name, "test-servant");
    ck_assert_int_eq(words.pid, servant.pid);
    ck_assert_int_eq(words.group, servant.pid);
    ck_assert(sbx_servant_wait(&servant, sbx_clock_us() + LONG_US));
    sbx_servant_done(&servant);
    ck_assert_int_eq(servant.pid, 0);
    ck_assert_int_eq(servant.pidfd, -1);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);
    (void)close(ends[0]);
    (void)close(ends[1]);
}
END_TEST

START_TEST(a_hung_one_is_waited_for_with_a_bound_and_ended)
{
    struct sbx_servant servant = start(hang, NULL);
    uint64_t before_us = sbx_clock_us();
    ck_assert(!sbx_servant_wait(&servant, before_us + 50000));
    ck_assert_uint_ge(sbx_clock_us(), before_us + 50000);
    ck_assert(!sbx_servant_wait(&servant, 0));
    sbx_servant_done(&servant);
    ck_assert_uint_lt(sbx_clock_us(), before_us + LONG_US);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);
}
END_TEST

/* As the monitor does, which is no parent of it. */
START_TEST(another_process_can_end_it)
{
    struct sbx_servant servant = start(hang, NULL);
    pid_t other = fork();
    if (other == 0) {
        sbx_servant_done(&servant);
        _exit(servant.pidfd == -1 ? 0 : 1);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(other, &status, 0), other);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ck_assert(sbx_servant_wait(&servant, sbx_clock_us() + LONG_US));
    ck_assert_int_eq(waitpid(servant.pid, &status, WNOHANG), servant.pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    sbx_servant_done(&servant);
}
END_TEST

struct keeper {
    int kept[4];
    int lost[2];
    int say;
};

static void keep_only(void *context)
{
    const struct keeper *keeper = context;
    char verdict = 'y';
    sbx_servant_keep_only(keeper->kept, 4);
    for (size_t i = 0; i < 4; i++) {
        verdict =
            keeper->kept[i] < 0 || fcntl(keeper->kept[i], F_GETFD) >= 0 ? verdict : 'k';
    }
    for (size_t i = 0; i < 2; i++) {
        verdict = fcntl(keeper->lost[i], F_GETFD) < 0 ? verdict : 'l';
    }
    (void)sbx_fd_write_all(keeper->say, &verdict, 1);
}

START_TEST(it_keeps_what_it_names_and_nothing_else)
{
    int ends[2];
    int others[4];
    char verdict = 0;
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(pipe(others), 0);
    ck_assert_int_eq(pipe(others + 2), 0);
    /* Neighbours, out of order, twice, and one that is none. */
    struct keeper keeper = {.kept = {others[2], ends[1], -1, ends[1]},
                            .lost = {others[0], others[3]},
                            .say = ends[1]};
    struct sbx_servant servant = start(keep_only, &keeper);
    ck_assert_int_eq(read(ends[0], &verdict, 1), 1);
    ck_assert_int_eq(verdict, 'y');
    ck_assert(sbx_servant_wait(&servant, sbx_clock_us() + LONG_US));
    sbx_servant_done(&servant);
    for (size_t i = 0; i < 4; i++) {
        (void)close(others[i]);
    }
    (void)close(ends[0]);
    (void)close(ends[1]);
}
END_TEST

START_TEST(none_is_no_burden)
{
    struct sbx_servant none = SBX_NO_SERVANT;
    ck_assert(sbx_servant_wait(&none, 0));
    sbx_servant_kill(&none);
    sbx_servant_done(&none);
    ck_assert_int_eq(none.pidfd, -1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("servant");
    TCase *all = sbx_fixture_case(suite, "servant", 60);
    tcase_add_test(all, it_serves_and_its_end_is_seen);
    tcase_add_test(all, a_hung_one_is_waited_for_with_a_bound_and_ended);
    tcase_add_test(all, another_process_can_end_it);
    tcase_add_test(all, it_keeps_what_it_names_and_nothing_else);
    tcase_add_test(all, none_is_no_burden);
    return sbx_fixture_run(suite);
}
