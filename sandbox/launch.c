/*
 * launch.c - from a plan to a running bubblewrap.
 *
 * It starts with an empty environment: what the command is to have must not act on the
 * loader of a program that is not confined yet. And with all signals blocked: those that
 * reach our process group are for us to pass on, and the one that would end bubblewrap
 * would take away the command's time to react to it.
 */
#include "sandbox/launch.h"

#include "base/error.h"
#include "base/fd.h"
#include "sandbox/layers.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the child. Returns errno of what failed. */
static int become(const struct sbx_plan *plan)
{
    if (!plan->as_user) {
        return 0;
    }
    if (setgroups(0, NULL) < 0 || setresgid(plan->gid, plan->gid, plan->gid) < 0 ||
        setresuid(plan->uid, plan->uid, plan->uid) < 0) {
        return errno;
    }
    bool is_that = getuid() == plan->uid && geteuid() == plan->uid &&
                   getgid() == plan->gid && getegid() == plan->gid;
    return is_that ? 0 : EPERM;
}

static int place_descriptors(const struct sbx_flight *flight)
{
    int r = sbx_fd_cloexec_from(STDERR_FILENO + 1);
    if (r < 0) {
        return -r;
    }
    for (size_t i = 0; i < flight->fd_count; i++) {
        if (fcntl(flight->fds[i], F_SETFD, 0) < 0) {
            return errno;
        }
    }
    return dup2(flight->said_write, STDERR_FILENO) < 0 ? errno : 0;
}

/* bubblewrap asks for that itself, but does not look whether it was too late. */
static int die_with(pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0, 0, 0) < 0) {
        return errno;
    }
    return getppid() == parent ? 0 : ESRCH;
}

static _Noreturn void be_bubblewrap(const struct sbx_flight *flight, pid_t parent,
                                    int tell)
{
    static char *const nothing[] = {NULL};
    int code = place_descriptors(flight);
    code = code == 0 ? become(flight->plan) : code;
    code = code == 0 ? die_with(parent) : code; /* a change of user would clear it */
    if (code == 0) {
        (void)execve(flight->plan->bwrap, flight->argv, nothing);
        code = errno;
    }
    (void)!write(tell, &code, sizeof code);
    _exit(SBX_STATUS_FAILED);
}

int sbx_flight_start(struct sbx_flight *flight, struct sbx_error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return sbx_error_set(err, errno, SBX_STAGE_LAUNCH, "pipe: %s",
                             sbx_errno_text(errno).text);
    }
    flight->exec_failed = ends[0];
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        be_bubblewrap(flight, parent, ends[1]);
    }
    int code = errno;
    (void)close(ends[1]);
    if (pid < 0) {
        return sbx_error_set(err, code, SBX_STAGE_LAUNCH, "fork: %s",
                             sbx_errno_text(code).text);
    }
    flight->bwrap = pid;
    sbx_flight_note_bwrap(flight);
    /* Ours are closed: else no end would ever show. */
    for (size_t i = 0; i < flight->fd_count; i++) {
        (void)close(flight->fds[i]);
    }
    flight->fd_count = 0;
    sbx_fd_drop(&flight->said_write);
    return 0;
}

/* One that is too old does not know some of its arguments, and fails. With set-user-id
 * rights it is not given those, and has to be asked. */
static int check_version(const struct sbx_plan *plan, struct sbx_error *err)
{
    struct sbx_layer layer;
    if (!plan->bwrap_is_setuid) {
        return 0;
    }
    int r = sbx_layer_bwrap(plan->bwrap, plan->uid, plan->gid, &layer);
    if (r < 0) {
        return sbx_error_set(err, -r, SBX_STAGE_CHECK, "%s --version: %s", plan->bwrap,
                             sbx_errno_text(-r).text);
    }
    return layer.ok ? 0
                    : sbx_error_set(err, ENOTSUP, SBX_STAGE_CHECK, "%s: %s; %s",
                                    plan->bwrap, layer.detail, layer.remedy);
}

/* What is the caller's, while we are at work. */
struct surroundings {
    sigset_t mask;
    struct sigaction of_child;
    struct sigaction of_size;
    int reaps;
};

static int arrange(struct surroundings *before, struct sbx_error *err)
{
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigset_t all;
    (void)sigfillset(&all);
    (void)sigdelset(&all, SIGXFSZ); /* one that is blocked is not ignored */
    if (sigprocmask(SIG_SETMASK, &all, &before->mask) < 0 ||
        sigaction(SIGCHLD, &plain, &before->of_child) < 0 ||
        sigaction(SIGXFSZ, &ignore, &before->of_size) < 0 || /* an error is enough */
        prctl(PR_GET_CHILD_SUBREAPER, &before->reaps) < 0 ||
        prctl(PR_SET_CHILD_SUBREAPER, 1) < 0) {
        return sbx_error_set(err, errno, SBX_STAGE_LAUNCH, "signals: %s",
                             sbx_errno_text(errno).text);
    }
    return 0;
}

static void restore(const struct surroundings *before)
{
    (void)prctl(PR_SET_CHILD_SUBREAPER, before->reaps);
    (void)sigaction(SIGXFSZ, &before->of_size, NULL);
    (void)sigaction(SIGCHLD, &before->of_child, NULL);
    (void)sigprocmask(SIG_SETMASK, &before->mask, NULL);
}

static int fly(const struct sbx_plan *plan, struct sbx_ending *ret_ending,
               int *ret_status, struct sbx_error *err)
{
    struct sbx_flight flight;
    int r = check_version(plan, err);
    if (r < 0) {
        return r;
    }
    r = sbx_flight_init(&flight, plan, err);
    r = r == 0 ? sbx_flight_start(&flight, err) : r;
    r = r == 0 ? sbx_flight_watch(&flight, ret_ending, ret_status, err) : r;
    sbx_flight_done(&flight);
    return r;
}

int sbx_plan_run(const struct sbx_plan *plan, struct sbx_ending *ret_ending,
                 int *ret_status, struct sbx_error *err)
{
    struct surroundings before;
    *ret_status = SBX_STATUS_FAILED;
    int r = arrange(&before, err);
    if (r == 0) {
        r = fly(plan, ret_ending, ret_status, err);
        restore(&before);
    }
    return r;
}
