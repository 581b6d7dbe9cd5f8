/*
 * launch_child.c - the child's side between fork and exec: a table of steps in a fixed
 * order, see launch.h.
 *
 * The order matters. The cgroup comes first, while nothing has been done outside of it.
 * The terminal belongs to the process group, so it comes after that. A PID namespace of
 * its own comes then, with two processes in between that share these three. What needs a
 * descriptor (oom_score_adj, and the listing of descriptors on old kernels) comes before
 * the limit on descriptors is lowered again; from the ceilings on nothing takes memory or
 * a descriptor. The user comes after the ceilings, which may take privileges to set, and
 * before the working directory: whether that may be entered is a question of the new
 * user's permissions. Signals stay blocked until everything else is done, so that none
 * can be lost or caught by the caller's handlers: one that was pending then ends the
 * child by its default action, and the command has not run.
 *
 * Never returns into the caller's code, never runs exit handlers, never allocates but for
 * the listing of descriptors.
 */
#include "reaper/launch_child.h"

#include "base/error.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#define OOM_FILE "/proc/self/oom_score_adj"

int sbx_launch_failed(struct sbx_error *err, int code, const char *format, ...)
{
    char what[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return sbx_error_set(err, code, SBX_STAGE_LAUNCH, "%s: %s", what,
                         sbx_errno_text(code).text);
}

/* The leader of a new session has a group of its own too, and no terminal. */
static int enter_group(const struct sbx_launch_child *child, struct sbx_error *err)
{
    const struct sbx_start *start = child->launch->start;
    if (start != NULL && start->new_session) {
        return setsid() < 0 ? sbx_launch_failed(err, errno, "setsid") : 0;
    }
    if (child->launch->own_group && setpgid(0, 0) < 0) {
        return sbx_launch_failed(err, errno, "setpgid");
    }
    return 0;
}

/* From the background this would stop us with SIGTTOU, were that not blocked. */
static int take_terminal(const struct sbx_launch_child *child, struct sbx_error *err)
{
    int fd = child->launch->tty_fd;
    if (fd >= 0 && tcsetpgrp(fd, getpgrp()) < 0) {
        return sbx_launch_failed(err, errno, "tcsetpgrp on descriptor %d", fd);
    }
    return 0;
}

static int read_oom_score(long *ret_score, struct sbx_error *err)
{
    char text[32];
    ssize_t length = sbx_fd_read_text_at(AT_FDCWD, OOM_FILE, text, sizeof text);
    if (length < 0) {
        return sbx_launch_failed(err, (int)-length, "read " OOM_FILE);
    }
    char *end = NULL;
    errno = 0;
    long score = strtol(text, &end, 10);
    if (errno != 0 || end == text || (*end != '\n' && *end != '\0')) {
        return sbx_launch_failed(err, EBADMSG, "read " OOM_FILE);
    }
    *ret_score = score;
    return 0;
}

/* An inherited negative score would exempt the tree from the OOM killer, and so from a
 * memory limit. A positive one is the caller's wish. */
static int reset_oom_score(const struct sbx_launch_child *child, struct sbx_error *err)
{
    (void)child;
    long score = 0;
    int error = read_oom_score(&score, err);
    if (error < 0 || score >= 0) {
        return error;
    }
    SBX_AUTO_CLOSE int fd = open(OOM_FILE, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return sbx_launch_failed(err, errno, "open " OOM_FILE);
    }
    error = sbx_fd_write_all(fd, "0", 1);
    if (error < 0) {
        return sbx_launch_failed(err, -error, "write 0 to " OOM_FILE);
    }
    error = read_oom_score(&score, err);
    if (error == 0 && score < 0) {
        error = sbx_error_set(err, EIO, SBX_STAGE_LAUNCH,
                              OOM_FILE ": wrote 0, but %ld was read back", score);
    }
    return error;
}

static int place_streams(const struct sbx_launch_child *child, struct sbx_error *err)
{
    for (int i = 0; i < 3; i++) {
        int fd = child->launch->stdio[i];
        if (fd > 0 && dup2(fd, i) < 0) {
            return sbx_launch_failed(err, errno, "dup2 of descriptor %d to %d", fd, i);
        }
    }
    return 0;
}

static int keep_descriptors(const struct sbx_launch_child *child, struct sbx_error *err)
{
    int error = sbx_fd_cloexec_from(STDERR_FILENO + 1);
    if (error < 0) {
        return sbx_launch_failed(err, -error, "close-on-exec from 3 up");
    }
    for (size_t i = 0; i < child->launch->keep_fd_count; i++) {
        int fd = child->launch->keep_fds[i];
        int flags = fcntl(fd, F_GETFD);
        if (flags < 0 || fcntl(fd, F_SETFD, flags & ~FD_CLOEXEC) < 0) {
            return sbx_launch_failed(err, errno, "keep descriptor %d", fd);
        }
    }
    return 0;
}

static int restore_nofile(const struct sbx_launch_child *child, struct sbx_error *err)
{
    const struct rlimit *wanted = &child->launch->nofile;
    if (setrlimit(RLIMIT_NOFILE, wanted) < 0) {
        return sbx_launch_failed(err, errno, "setrlimit nofile back to %ju:%ju",
                                 (uintmax_t)wanted->rlim_cur,
                                 (uintmax_t)wanted->rlim_max);
    }
    struct rlimit now;
    if (getrlimit(RLIMIT_NOFILE, &now) < 0) {
        return sbx_launch_failed(err, errno, "getrlimit nofile");
    }
    if (now.rlim_cur != wanted->rlim_cur || now.rlim_max != wanted->rlim_max) {
        return sbx_error_set(err, EIO, SBX_STAGE_LAUNCH,
                             "nofile: wanted %ju:%ju back, but %ju:%ju was read",
                             (uintmax_t)wanted->rlim_cur, (uintmax_t)wanted->rlim_max,
                             (uintmax_t)now.rlim_cur, (uintmax_t)now.rlim_max);
    }
    return 0;
}

#define STACK_RESERVE_SIZE ((size_t)64 * 1024)

/* Under a ceiling on stack or as, the stack could not grow any more, and the child would
 * crash on its way to exec: let it have grown before. */
static __attribute__((noinline)) void reserve_stack(void)
{
    volatile char room[STACK_RESERVE_SIZE];
    for (size_t i = 0; i < sizeof room; i += 1024) {
        room[i] = 0;
    }
}

static int arm_ceilings(const struct sbx_launch_child *child, struct sbx_error *err)
{
    if (child->launch->ceilings == NULL) {
        return 0;
    }
    reserve_stack();
    return sbx_ceiling_arm(child->launch->ceilings, err);
}

/* The C library keeps the numbers below SIGRTMIN for itself and refuses them. All zeros
 * is the default action, without flags, whatever the kernel's struct looks like here. */
static int reset_reserved(int number)
{
    static const unsigned long zeros[16];
    return (int)syscall(SYS_rt_sigaction, number, zeros, NULL, (size_t)SIGRTMAX / 8);
}

static int reset_dispositions(const struct sbx_launch_child *child, struct sbx_error *err)
{
    struct sigaction action = {.sa_flags = 0};
    (void)sigemptyset(&action.sa_mask);
    for (int number = 1; number <= SIGRTMAX; number++) {
        int result = 0;
        if (number == SIGKILL || number == SIGSTOP) {
            continue;
        }
        if (number > SIGSYS && number < SIGRTMIN) {
            result = reset_reserved(number);
        } else {
            bool ignore = sigismember(&child->launch->inherited_ignored, number) == 1;
            action.sa_handler = ignore ? SIG_IGN : SIG_DFL;
            result = sigaction(number, &action, NULL);
        }
        if (result < 0) {
            return sbx_launch_failed(err, errno, "sigaction of signal %d", number);
        }
    }
    return 0;
}

static int empty_mask(const struct sbx_launch_child *child, struct sbx_error *err)
{
    (void)child;
    sigset_t none;
    (void)sigemptyset(&none);
    if (sigprocmask(SIG_SETMASK, &none, NULL) < 0) {
        return sbx_launch_failed(err, errno, "sigprocmask");
    }
    return 0;
}

static const struct step {
    const char *name;
    int (*run)(const struct sbx_launch_child *child, struct sbx_error *err);
} steps[] = {
    {"group", sbx_launch_enter_group}, /* first: before anything is used up or done */
    {"process group", enter_group},
    {"terminal", take_terminal},
    {"pid namespace", sbx_launch_enter_namespace}, /* all that follows is the command's */
    {"oom score", reset_oom_score},
    {"standard streams", place_streams}, /* from descriptors that are closed next */
    {"descriptors", keep_descriptors},
    {"descriptor limit", restore_nofile},
    {"cpus", sbx_launch_set_cpus},
    {"umask", sbx_launch_set_umask},
    {"ceilings", arm_ceilings},
    {"user", sbx_launch_set_user},
    {"working directory", sbx_launch_set_directory},
    {"new privileges", sbx_launch_bar_privileges},
    {"signal dispositions", reset_dispositions},
    {"signal mask", empty_mask},
};

/* A record that cannot be sent is noticed all the same: the child ends without exec. */
static _Noreturn void give_up(int error_fd, const struct sbx_launch_record *record)
{
    sigset_t all;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)sbx_fd_write_all(error_fd, record, sizeof *record);
    _exit(SBX_STATUS_FAILED);
}

_Noreturn void sbx_launch_child(const struct sbx_launch_child *child)
{
    struct sbx_launch_record record;
    memset(&record, 0, sizeof record);
    record.status = SBX_STATUS_FAILED;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        if (steps[i].run(child, &record.error) < 0) {
            if (record.error.stage == SBX_STAGE_LAUNCH) {
                sbx_error_prefix(&record.error, "%s", steps[i].name);
            }
            give_up(child->error_fd, &record);
        }
    }
    (void)sbx_launch_exec(child, &record.status, &record.error);
    give_up(child->error_fd, &record);
}
