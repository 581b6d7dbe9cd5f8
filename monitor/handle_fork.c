/*
 * handle_fork.c - see handle.h: a run whose guard is forked from the calling process, and
 * the notices that such a run gives.
 *
 * The guard is born with a copy of the caller's memory, so the specification needs no
 * way to it; and it has to get rid of all else that it was born with. Relies on the
 * caller having one thread: the child goes on where the caller was, in whatever the C
 * library was doing.
 */
#include "monitor/handle_private.h"
#include "monitor/run.h"
#include "monitor/serve.h"

#include "base/error.h"
#include "base/fd.h"
#include "reaper/pidref.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* One of the two others each, and all warnings that a record holds. */
#define NOTICES_MAX (SBX_WARNING_MAX + 2)

/* In the order in which they have come; each comes at most once. */
struct sbx_run_notices {
    struct sbx_notice list[NOTICES_MAX];
    size_t come;
    size_t given;
    int32_t next[SBX_NOTICE_BREACH + 1]; /* index of each kind that is new */
};

/* --- notices --- */

/* A first sender may have been killed between saying it and noting that it has. */
void sbx_run_take_notice(struct sbx_run *run, const struct sbx_wire_notice *notice)
{
    struct sbx_run_notices *notices = run->notices;
    if (notices == NULL || notices->come >= NOTICES_MAX ||
        notice->kind < SBX_NOTICE_STARTED || notice->kind > SBX_NOTICE_BREACH ||
        notice->index < notices->next[notice->kind] || notice->index == INT32_MAX) {
        return;
    }
    notices->next[notice->kind] = notice->index + 1;
    struct sbx_notice *taken = &notices->list[notices->come++];
    *taken = (struct sbx_notice){.kind = (enum sbx_notice_kind)notice->kind,
                                 .leader_pid = (pid_t)notice->leader_pid,
                                 .at_real_us = notice->at_real_us};
    size_t length = strnlen(notice->text, sizeof taken->text - 1);
    memcpy(taken->text, notice->text, length);
}

int sbx_run_notice(struct sbx_run *run, struct sbx_notice *ret_notice)
{
    struct sbx_run_notices *notices = run->notices;
    if (notices == NULL || notices->given == notices->come) {
        return 0;
    }
    *ret_notice = notices->list[notices->given++];
    return 1;
}

void sbx_run_continue_guard(struct sbx_run *run)
{
    siginfo_t info = {0};
    while (waitid(P_PIDFD, (id_t)run->guard_pidfd, &info, WSTOPPED | WNOHANG) == 0 &&
           info.si_pid != 0) {
        (void)sbx_pidfd_signal(run->guard_pidfd, SIGCONT);
        info = (siginfo_t){0};
    }
}

/* --- the guard's birth --- */

struct birth {
    const struct sbx_spec *spec;
    struct sbx_service service; /* its descriptors are those of the guard */
    int stdio[3];               /* above 2 */
};

static void drop_birth(struct birth *birth)
{
    for (size_t i = 0; i < 3; i++) {
        sbx_fd_drop(&birth->stdio[i]);
    }
    sbx_fd_drop(&birth->service.socket);
    sbx_fd_drop(&birth->service.caller_pidfd);
    sbx_fd_drop(&birth->service.shared_fd);
}

/* A copy above 2, where the standard streams do not come to lie over it. */
static int copy_above(int fd, int *ret_copy, const char *what, struct sbx_error *err)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (copy < 0) {
        return sbx_error_set(err, errno, SBX_STAGE_LAUNCH, "%s, descriptor %d: %s", what,
                             fd, sbx_errno_text(errno).text);
    }
    *ret_copy = copy;
    return 0;
}

static int prepare(struct birth *birth, const struct sbx_run_family *family,
                   struct sbx_error *err)
{
    static const char *const names[] = {"standard input", "standard output",
                                        "standard error"};
    int r = 0;
    for (size_t i = 0; i < 3 && r == 0; i++) {
        r = copy_above(family->stdio[i], &birth->stdio[i], names[i], err);
    }
    if (r == 0 && family->shared_fd >= 0) {
        r = copy_above(family->shared_fd, &birth->service.shared_fd, "lock", err);
    }
    if (r < 0) {
        return r;
    }
    int self = sbx_pidfd_open(getpid());
    birth->service.caller_pidfd = self < 0 ? self : sbx_run_above_standard(self);
    if (birth->service.caller_pidfd < 0) {
        int code = self < 0 ? -self : errno;
        return sbx_error_set(err, code, SBX_STAGE_LAUNCH, "pidfd_open: %s",
                             sbx_errno_text(code).text);
    }
    return 0;
}

static void put_streams(const struct birth *birth)
{
    for (int i = 0; i < 3; i++) {
        (void)dup2(birth->stdio[i], i);
    }
}

/* All signals are blocked. */
static _Noreturn void be_guard(struct birth *birth)
{
    (void)prctl(PR_SET_NAME, "sbx-guard", 0, 0, 0);
    put_streams(birth);
    sbx_serve_forked(birth->spec, &birth->service);
    _exit(0);
}

/* No signal meets the child before it has them all blocked, for ever. */
static pid_t fork_guard(struct birth *birth)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) {
        be_guard(birth);
    }
    int code = errno;
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    errno = code;
    return pid;
}

static int bear(struct birth *birth, struct sbx_run *run, struct sbx_error *err)
{
    pid_t pid = fork_guard(birth);
    if (pid < 0) {
        return sbx_error_set(err, errno, SBX_STAGE_LAUNCH, "fork of the guard: %s",
                             sbx_errno_text(errno).text);
    }
    run->guard_pidfd = sbx_pidfd_open(pid);
    if (run->guard_pidfd < 0) {
        int code = -run->guard_pidfd;
        (void)sbx_child_signal(pid, SIGKILL); /* it has started nobody who would mind */
        (void)waitpid(pid, NULL, 0);
        return sbx_error_set(err, code, SBX_STAGE_LAUNCH, "pidfd_open: %s",
                             sbx_errno_text(code).text);
    }
    run->guard_pidfd = sbx_run_above_standard(run->guard_pidfd);
    return 0;
}

/* A number that was closed since may become one of ours. */
static int check_named(const struct sbx_spec *spec, struct sbx_error *err)
{
    int named[SBX_SPEC_FDS_MAX];
    size_t count = sbx_spec_fds(spec, named);
    for (size_t i = 0; i < count; i++) {
        if (fcntl(named[i], F_GETFD) < 0) {
            return sbx_error_set(err, EBADF, SBX_STAGE_CHECK,
                                 "descriptor %d, which an option names, is not open",
                                 named[i]);
        }
    }
    return 0;
}

static int fork_run(const struct sbx_spec *spec, const struct sbx_run_family *family,
                    struct sbx_run *run, struct sbx_error *err)
{
    int ends[2] = {-1, -1};
    struct birth birth = {
        .spec = spec,
        .service = {.socket = -1, .caller_pidfd = -1, .shared_fd = -1, .notices = true},
        .stdio = {-1, -1, -1}};
    int r = sbx_run_open_sockets(ends, err);
    if (r == 0) {
        run->socket = ends[0];
        birth.service.socket = ends[1];
        r = prepare(&birth, family, err);
    }
    if (r == 0) {
        r = bear(&birth, run, err);
    }
    drop_birth(&birth);
    return r;
}

int sbx_run_fork(const struct sbx_spec *spec, const struct sbx_run_family *family,
                 struct sbx_run **ret_run, struct sbx_error *err)
{
    int r = sbx_run_check_settings(spec, err);
    r = r < 0 ? r : check_named(spec, err);
    r = r < 0 ? r : sbx_run_check(spec, err);
    if (r < 0) {
        return r;
    }
    struct sbx_run *run = sbx_run_new(err);
    if (run == NULL) {
        return -ENOMEM;
    }
    run->notices = calloc(1, sizeof *run->notices);
    r = run->notices == NULL
            ? sbx_error_set(err, ENOMEM, SBX_STAGE_LAUNCH, "no memory for a run")
            : fork_run(spec, family, run, err);
    if (r < 0) {
        sbx_run_free(run);
        return r;
    }
    run->greeted = true; /* it has the specification from its birth on */
    *ret_run = run;
    return 0;
}
