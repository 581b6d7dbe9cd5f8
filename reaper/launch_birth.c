/*
 * launch_birth.c - how the leader comes into being: by fork, or in a cgroup of its own,
 * see launch.h.
 *
 * With a group it is born there: clone3 with CLONE_INTO_CGROUP, so that nothing it does
 * is ever outside, and the kernel's word needs no proof. Where clone3 is refused (by its
 * age, or by a filter of system calls) it is forked, and its first step moves it: before
 * exec, since what it forked by then would stay outside, and read back, since a group
 * that has not got it holds no limit.
 *
 * A child of clone3 has not been through what the C library does around a fork. Nothing
 * of that is missed: the caller has one thread, so no lock of the library or of a
 * sanitizer can be held by another (the handlers of pthread_atfork are there for those),
 * and the kernel itself forgets the list of robust mutexes. Stale is the thread id that
 * the library remembers, which only what waits for or signals threads asks for; the child
 * does neither before exec, and ends by _exit.
 */
#include "reaper/launch_child.h"

#include "base/error.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>

#ifndef SYS_clone3
#define SYS_clone3 435
#endif

#define PROCS_FILE "cgroup.procs"

/* struct clone_args and CLONE_INTO_CGROUP of linux/sched.h, which older headers lack. */
#define INTO_CGROUP UINT64_C(0x200000000)
struct birth {
    uint64_t flags;
    uint64_t pidfd;
    uint64_t child_tid;
    uint64_t parent_tid;
    uint64_t exit_signal;
    uint64_t stack; /* 0: as with fork, a copy of the caller's */
    uint64_t stack_size;
    uint64_t tls;
    uint64_t set_tid;
    uint64_t set_tid_size;
    uint64_t cgroup;
};

/*
 * Whether it may still work by fork and a move. Not in the kernel: ENOSYS; the flag is
 * not: EINVAL, or E2BIG for the longer struct; a filter of system calls: EPERM, ENOSYS.
 * The others are what the group says to everybody who wants to come in (permissions, it
 * hands on controllers, it is threaded, it is gone or out of our namespace): the move
 * will be told the same, and names the file. Everything else holds for any new process
 * (EAGAIN: pids.max or the user's number of processes, which a move would get around;
 * ENOMEM), or that is no group (EBADF).
 */
static bool is_worth_a_move(int code)
{
    switch (code) {
    case ENOSYS:
    case EINVAL:
    case E2BIG:
    case EPERM:
    case EACCES:
    case EBUSY:
    case EOPNOTSUPP:
    case ENOENT:
    case ENODEV:
        return true;
    default:
        return false;
    }
}

/* In the child: 0. Else its pid, or a negative errno. */
static pid_t clone_into(int group_fd)
{
    struct birth birth = {
        .flags = INTO_CGROUP,
        .exit_signal = SIGCHLD,
        .cgroup = (uint64_t)group_fd,
    };
    long pid = syscall(SYS_clone3, &birth, sizeof birth);
    return pid < 0 ? -errno : (pid_t)pid;
}

/* Never returns a pid that is no target. */
int sbx_launch_birth(struct sbx_launch_child *child, pid_t *ret_pid,
                     struct sbx_error *err)
{
    int group_fd = child->launch->group_fd;
    child->moves = group_fd >= 0 && child->forks;
    if (group_fd >= 0 && !child->forks) {
        pid_t pid = clone_into(group_fd);
        if (pid == 0) {
            sbx_launch_child(child);
        }
        if (pid > 0) {
            *ret_pid = pid;
            return 0;
        }
        if (!is_worth_a_move(-pid)) {
            return sbx_launch_failed(err, -pid, "clone3 into the group");
        }
        child->moves = true;
    }
    pid_t pid = fork();
    if (pid < 0) {
        return sbx_launch_failed(err, errno, "fork");
    }
    if (pid == 0) {
        sbx_launch_child(child);
    }
    *ret_pid = pid;
    return 0;
}

/* Whether that number stands on a line of its own. */
static bool lists(const char *text, pid_t pid)
{
    for (const char *next = text; *next != '\0';) {
        char *end = NULL;
        long number = strtol(next, &end, 10);
        if (end == next) {
            return false;
        }
        if (number == (long)pid && (*end == '\n' || *end == '\0')) {
            return true;
        }
        next = *end == '\n' ? end + 1 : end;
    }
    return false;
}

int sbx_launch_enter_group(const struct sbx_launch_child *child, struct sbx_error *err)
{
    char text[4096];
    if (!child->moves) {
        return 0;
    }
    SBX_AUTO_CLOSE int fd =
        openat(child->launch->group_fd, PROCS_FILE, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return sbx_launch_failed(err, errno, "open " PROCS_FILE);
    }
    int error = sbx_fd_write_all(fd, "0", 1);
    if (error < 0) {
        return sbx_launch_failed(err, -error, "write 0 to " PROCS_FILE);
    }
    ssize_t length = sbx_fd_pread_text(fd, text, sizeof text);
    if (length < 0) {
        return sbx_launch_failed(err, (int)-length, "read " PROCS_FILE);
    }
    if (!lists(text, getpid())) {
        return sbx_error_set(err, EIO, SBX_STAGE_LAUNCH,
                             PROCS_FILE ": wrote 0, but process %d is not in it",
                             (int)getpid());
    }
    return 0;
}
