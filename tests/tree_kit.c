/*
 * tree_kit.c - see tree_kit.h. Signals only own un-reaped children: in sbx_kit_close all
 * that is deeper comes up to us as its parents die.
 */
#include "tests/tree_kit.h"

#include "tests/fixture.h"

#include "base/clock.h"
#include "base/fd.h"
#include "reaper/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_US (20U * SBX_US_PER_S)

static void nap(uint64_t us)
{
    struct timespec time = {(time_t)(us / SBX_US_PER_S),
                            (long)(us % SBX_US_PER_S) * 1000L};
    (void)nanosleep(&time, NULL);
}

static void block_sigchld(int how)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    (void)sigprocmask(how, &set, NULL);
}

void sbx_kit_open(struct sbx_kit *kit, size_t fd_budget)
{
    struct sbx_error error = {0};
    block_sigchld(SIG_BLOCK);
    kit->proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(kit->proc_fd, 0);
    ck_assert_msg(sbx_tree_new(kit->proc_fd, fd_budget, &kit->tree, &error) == 0, "%s",
                  error.message);
}

static int kill_one(pid_t pid, void *context)
{
    (void)context;
    (void)kill(pid, SIGKILL);
    return 0;
}

void sbx_kit_close(struct sbx_kit *kit)
{
    uint64_t end = sbx_clock_us() + PATIENCE_US;
    SBX_AUTO_CLOSE int children =
        sbx_proc_open_children(kit->proc_fd, getpid(), getpid());
    ck_assert_int_ge(children, 0);
    for (;;) {
        (void)sbx_proc_read_children(children, kill_one, NULL);
        pid_t pid;
        while ((pid = waitpid(-1, NULL, WNOHANG | __WALL)) > 0) {
        }
        if (pid < 0 && errno == ECHILD) {
            break;
        }
        ck_assert_msg(sbx_clock_us() < end, "children are left that do not end");
        nap(500);
    }
    sbx_tree_free(kit->tree);
    (void)close(kit->proc_fd);
}

size_t sbx_kit_walk(struct sbx_kit *kit)
{
    struct sbx_error error = {0};
    ck_assert_msg(sbx_tree_walk(kit->tree, NULL, &error) == 0, "%s", error.message);
    return sbx_tree_count(kit->tree);
}

size_t sbx_kit_alive(struct sbx_kit *kit)
{
    size_t alive = 0;
    for (size_t i = 0; i < sbx_tree_count(kit->tree); i++) {
        alive += sbx_member_ended(sbx_tree_member(kit->tree, i)) ? 0U : 1U;
    }
    return alive;
}

void sbx_kit_walk_until(struct sbx_kit *kit, size_t alive)
{
    uint64_t end = sbx_clock_us() + PATIENCE_US;
    for (;;) {
        (void)sbx_kit_walk(kit);
        if (sbx_kit_alive(kit) == alive) {
            return;
        }
        ck_assert_msg(sbx_clock_us() < end, "%zu members are alive, not %zu",
                      sbx_kit_alive(kit), alive);
        nap(1000);
    }
}

void sbx_kit_settle(struct sbx_kit *kit, size_t members)
{
    uint64_t end = sbx_clock_us() + PATIENCE_US;
    while (sbx_kit_walk(kit) != members || sbx_tree_new_count(kit->tree) != 0) {
        ck_assert_msg(sbx_clock_us() < end, "%zu members, not %zu",
                      sbx_tree_count(kit->tree), members);
        nap(1000);
    }
}

pid_t sbx_kit_fork(void)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void)signal(SIGALRM, SIG_DFL);
        (void)alarm(SBX_KIT_LIFETIME_S);
        block_sigchld(SIG_UNBLOCK);
    }
    return pid;
}

_Noreturn void sbx_kit_idle(void)
{
    for (;;) {
        (void)pause();
    }
}

pid_t sbx_kit_start(const char *const argv[], int in, int *ret_out)
{
    int out[2];
    ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
    pid_t pid = sbx_kit_fork();
    if (pid == 0) {
        (void)dup2(out[1], STDOUT_FILENO);
        (void)fcntl(out[0], F_SETFD, 0); /* a reader: to be heard by nobody ends no one */
        if (in >= 0) {
            (void)dup2(in, STDIN_FILENO);
        }
        char **words = (char **)(uintptr_t)argv;
        (void)execvp(words[0], words);
        _exit(127);
    }
    (void)close(out[1]);
    *ret_out = out[0];
    return pid;
}

static unsigned count_ups(const char *text)
{
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, "up ")) != NULL; at++) {
        count++;
    }
    return count;
}

pid_t sbx_kit_helper_ups(const char *const argv[], unsigned ups)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    const char *words[8] = {sbx_fixture_helper(path, argv[0])};
    for (size_t i = 1; argv[i] != NULL; i++) {
        ck_assert_uint_lt(i, 7);
        words[i] = argv[i];
    }
    int out = -1;
    pid_t pid = sbx_kit_start(words, -1, &out);
    char text[512] = "";
    size_t length = 0;
    struct pollfd readable = {.fd = out, .events = POLLIN};
    while (count_ups(text) < ups) {
        ssize_t got = poll(&readable, 1, (int)(PATIENCE_US / 1000U)) == 1
                          ? read(out, text + length, sizeof text - 1 - length)
                          : 0;
        ck_assert_msg(got > 0, "%s has not come up: '%s'", path, text);
        length += (size_t)got;
        text[length] = '\0';
    }
    (void)close(out);
    return pid;
}

pid_t sbx_kit_helper(const char *const argv[])
{
    return sbx_kit_helper_ups(argv, 1);
}

void sbx_kit_kill(pid_t pid)
{
    ck_assert_int_gt(pid, 1);
    (void)kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, __WALL), pid);
}

void sbx_kit_wait_state(const struct sbx_kit *kit, pid_t pid, char state)
{
    uint64_t end = sbx_clock_us() + PATIENCE_US;
    struct sbx_proc_stat stat = {0};
    for (;;) {
        int r = sbx_proc_stat_at(kit->proc_fd, pid, &stat);
        ck_assert_msg(r == 0, "process %d is gone", (int)pid);
        if (stat.state == state) {
            return;
        }
        ck_assert_msg(sbx_clock_us() < end, "process %d is in state %c, not %c", (int)pid,
                      stat.state, state);
        nap(500);
    }
}

void sbx_kit_tell(int fd)
{
    if (write(fd, "x", 1) != 1) {
        _exit(93);
    }
}

void sbx_kit_hear(int fd)
{
    char byte;
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    ck_assert_msg(poll(&readable, 1, (int)(PATIENCE_US / 1000U)) == 1 &&
                      read(fd, &byte, 1) == 1,
                  "the word from the other process has not come");
}

pid_t sbx_kit_fork_as(pid_t pid)
{
    struct clone_args args = {
        .exit_signal = SIGCHLD,
        .set_tid = (uint64_t)(uintptr_t)&pid,
        .set_tid_size = 1,
    };
    long r = syscall(SYS_clone3, &args, sizeof args);
    if (r == 0) {
        (void)alarm(SBX_KIT_LIFETIME_S);
    }
    return r < 0 ? -errno : (pid_t)r;
}

uint64_t sbx_kit_start_ticks(const struct sbx_kit *kit, pid_t pid)
{
    struct sbx_proc_stat stat;
    ck_assert_int_eq(sbx_proc_stat_at(kit->proc_fd, pid, &stat), 0);
    return stat.start_ticks;
}

static uint64_t boot_ticks(void)
{
    struct timespec now;
    uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * hz + (uint64_t)now.tv_nsec * hz / 1000000000U;
}

void sbx_kit_next_tick(void)
{
    uint64_t before = boot_ticks();
    while (boot_ticks() <= before + 1) {
        nap(1000);
    }
}

int sbx_kit_reap(void *context)
{
    struct sbx_kit *kit = context;
    for (;;) {
        pid_t pid = waitpid(-1, NULL, WNOHANG | __WALL);
        if (pid == 0) {
            return 0;
        }
        if (pid < 0) {
            return -errno;
        }
        (void)sbx_tree_reaped(kit->tree, pid);
    }
}

void sbx_kit_skip(const char *what, const char *why)
{
    (void)fprintf(stderr, "skipped: %s: %s\n", what, why);
}
