/*
 * spawn.c - see spawn.h.
 *
 * Both processes are clones that borrow the caller's memory while the thread that made
 * them waits for their exec or end, as posix_spawn(3) does it: nothing is copied, however
 * large the caller is, no pthread_atfork handler runs, and what failed can be written
 * down for the caller to read. In exchange they may do nothing but plain system calls on
 * what was made ready before: no function of the C library that could lock, allocate, act
 * on a thread's cancellation, or be intercepted by a sanitizer. All signals are blocked
 * meanwhile, also those that the C library keeps for itself, so that no handler runs in
 * the caller's memory from another process.
 */
#include "monitor/spawn.h"

#include "base/error.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

/* Each of the two has a stack; the page below it cannot be touched. */
#define STACK_SIZE ((size_t)64 * 1024) /* whole pages, on any machine */
#define GUARD_SIZE ((size_t)64 * 1024)

/* Frames that end without a return must leave no trace in a sanitizer's books. */
#define BORROWED                                                                         \
    __attribute__((noinline, no_sanitize("address"), no_sanitize("undefined"),           \
                   no_sanitize("thread")))

struct plan {
    const struct sbx_spawn *spawn;
    char *outer_stack; /* their upper ends */
    char *inner_stack;
    int pidfd;        /* of the program; the descriptor table is shared with the caller */
    int code;         /* what has failed, 0: nothing */
    const char *step; /* and where */
};

/* --- in the caller's borrowed memory --- */

/* Has a descriptor table of its own. */
BORROWED static int become_program(void *context)
{
    struct plan *plan = context;
    const struct sbx_spawn *spawn = plan->spawn;
    for (size_t i = 0; i < spawn->fd_count; i++) {
        if (syscall(SYS_fcntl, spawn->fds[i], F_SETFD, 0) < 0) {
            plan->code = errno;
            plan->step = "descriptor";
            return 0;
        }
    }
    (void)syscall(SYS_execve, spawn->path, spawn->argv, spawn->envp);
    plan->code = errno;
    plan->step = spawn->path;
    return 0;
}

BORROWED static int beget_orphan(void *context)
{
    struct plan *plan = context;
    int pidfd = -1;
    int pid = clone(become_program, plan->inner_stack,
                    CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, plan, &pidfd);
    if (pid < 0) {
        plan->code = errno;
        plan->step = "clone";
        return 0;
    }
    if (plan->code != 0) {
        /* Nobody else is to meet what is left of it. */
        (void)syscall(SYS_wait4, pid, NULL, __WALL, NULL);
        (void)syscall(SYS_close, pidfd);
        return 0;
    }
    plan->pidfd = pidfd;
    return 0;
}

/* --- the caller --- */

static long change_mask(int how, const uint64_t *set, uint64_t *old)
{
    return syscall(SYS_rt_sigprocmask, how, set, old, sizeof *set);
}

/* No signal meets it, so it is there for us to reap, however the caller treats SIGCHLD;
 * a thread that waits for everything (__WALL) may have been faster. */
static void reap_at_once(int pidfd)
{
    siginfo_t info;
    while (waitid((idtype_t)P_PIDFD, (id_t)pidfd, &info, WEXITED | __WALL) < 0 &&
           errno == EINTR) {
        continue;
    }
}

static void run_plan(struct plan *plan)
{
    const uint64_t all = UINT64_MAX;
    uint64_t before = 0;
    int pidfd = -1;
    (void)change_mask(SIG_BLOCK, &all, &before);
    int pid = clone(beget_orphan, plan->outer_stack,
                    CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_PIDFD, plan, &pidfd);
    if (pid < 0) {
        plan->code = errno;
        plan->step = "clone";
    } else {
        reap_at_once(pidfd);
        (void)close(pidfd);
    }
    (void)change_mask(SIG_SETMASK, &before, NULL);
}

/* Whether the kernel lets the caller wait for it. */
static bool is_ours(int pidfd)
{
    siginfo_t info;
    return waitid((idtype_t)P_PIDFD, (id_t)pidfd, &info,
                  WEXITED | WNOHANG | WNOWAIT | __WALL) == 0;
}

int sbx_spawn_orphan(const struct sbx_spawn *spawn, int *ret_pidfd, struct sbx_error *err)
{
    size_t size = 2 * (GUARD_SIZE + STACK_SIZE);
    char *memory = mmap(NULL, size, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) {
        return sbx_error_set(err, errno, SBX_STAGE_LAUNCH, "no memory for a stack");
    }
    struct plan plan = {.spawn = spawn,
                        .outer_stack = memory + GUARD_SIZE + STACK_SIZE,
                        .inner_stack = memory + size,
                        .pidfd = -1};
    if (mprotect(memory + GUARD_SIZE, STACK_SIZE, PROT_READ | PROT_WRITE) < 0 ||
        mprotect(memory + size - STACK_SIZE, STACK_SIZE, PROT_READ | PROT_WRITE) < 0) {
        plan.code = errno;
        plan.step = "stack";
    } else {
        run_plan(&plan);
    }
    (void)munmap(memory, size);
    if (plan.code != 0) {
        return sbx_error_set(err, plan.code, SBX_STAGE_LAUNCH, "%s: %s", plan.step,
                             sbx_errno_text(plan.code).text);
    }
    if (!is_ours(plan.pidfd)) {
        sbx_fd_drop(&plan.pidfd);
    }
    *ret_pidfd = plan.pidfd;
    return 0;
}

bool sbx_spawn_reap(int pidfd, int timeout_ms)
{
    siginfo_t info = {0};
    struct pollfd fd = {.fd = pidfd, .events = POLLIN};
    if (timeout_ms > 0) {
        (void)poll(&fd, 1, timeout_ms);
    }
    int r = waitid((idtype_t)P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG | __WALL);
    return r < 0 || info.si_pid != 0;
}
