/*
 * servant.c - see servant.h. Everything goes by the pidfd, opened while the servant was
 * an un-reaped child: it names nobody else, also for the monitor, which is no parent.
 */
#include "reaper/servant.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "reaper/pidref.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* From SIGKILL to its end it only has to be scheduled. */
#define DEATH_BOUND_US SBX_US_PER_S

static _Noreturn void be_servant(const char *name, void (*serve)(void *context),
                                 void *context)
{
    (void)prctl(PR_SET_NAME, name, 0, 0, 0);
    (void)setpgid(0, 0);
    serve(context);
    _exit(0);
}

int sbx_servant_start(struct sbx_servant *servant, const char *name,
                      void (*serve)(void *context), void *context, struct sbx_error *err)
{
    pid_t pid = fork();
    if (pid == 0) {
        be_servant(name, serve, context);
    }
    int code = errno;
    int pidfd = pid < 0 ? -1 : sbx_pidfd_open(pid);
    if (pid > 0 && pidfd < 0) {
        code = -pidfd;
        (void)sbx_child_signal(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    }
    if (pidfd < 0) {
        return sbx_error_set(err, code, SBX_STAGE_LAUNCH, "fork of %s: %s", name,
                             sbx_errno_text(code).text);
    }
    *servant = (struct sbx_servant){.pid = pid, .pidfd = pidfd};
    return 0;
}

/* The lowest of them from `first` up; UINT_MAX: none. */
static unsigned next_of(const int fds[], size_t count, unsigned first)
{
    unsigned lowest = UINT_MAX;
    for (size_t i = 0; i < count; i++) {
        if (fds[i] >= 0 && (unsigned)fds[i] >= first && (unsigned)fds[i] < lowest) {
            lowest = (unsigned)fds[i];
        }
    }
    return lowest;
}

void sbx_servant_keep_only(const int fds[], size_t count)
{
    unsigned first = 0;
    for (;;) {
        unsigned kept = next_of(fds, count, first);
        if (kept > first) {
            (void)close_range(first, kept == UINT_MAX ? UINT_MAX : kept - 1, 0);
        }
        if (kept == UINT_MAX) {
            return;
        }
        first = kept + 1;
    }
}

bool sbx_servant_wait(const struct sbx_servant *servant, uint64_t until_us)
{
    if (servant->pidfd < 0) {
        return true;
    }
    for (;;) {
        uint64_t now_us = sbx_clock_us();
        uint64_t left_ms = now_us < until_us ? (until_us - now_us) / 1000U + 1 : 0;
        struct pollfd end = {.fd = servant->pidfd, .events = POLLIN};
        int ready = poll(&end, 1, left_ms < INT_MAX ? (int)left_ms : INT_MAX);
        if (ready > 0) {
            return true;
        }
        if (left_ms == 0 || (ready < 0 && errno != EINTR)) {
            return false;
        }
    }
}

void sbx_servant_continue(const struct sbx_servant *servant)
{
    if (servant->pidfd >= 0) {
        (void)sbx_pidfd_signal(servant->pidfd, SIGCONT);
    }
}

void sbx_servant_kill(const struct sbx_servant *servant)
{
    if (servant->pidfd >= 0) {
        (void)sbx_pidfd_signal(servant->pidfd, SIGKILL);
    }
}

void sbx_servant_done(struct sbx_servant *servant)
{
    if (servant->pidfd < 0) {
        return;
    }
    sbx_servant_kill(servant);
    (void)sbx_servant_wait(servant, sbx_clock_us() + DEATH_BOUND_US);
    (void)waitpid(servant->pid, NULL, WNOHANG); /* ECHILD: somebody else's to reap */
    sbx_fd_drop(&servant->pidfd);
    *servant = SBX_NO_SERVANT;
}
