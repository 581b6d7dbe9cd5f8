/*
 * pidref.c - see pidref.h. The only file that sends a signal to another process.
 */
#include "reaper/pidref.h"

#include "base/fd.h"
#include "reaper/proc.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int sbx_pidfd_open(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0U);
    return fd < 0 ? -errno : fd;
}

int sbx_pidfd_signal(int pidfd, int signal_number)
{
    return syscall(SYS_pidfd_send_signal, pidfd, signal_number, NULL, 0U) < 0 ? -errno
                                                                              : 0;
}

int sbx_pidref_signal(int proc_fd, const struct sbx_pidref *ref, int signal_number)
{
    if (ref->pid <= 1) {
        return -EINVAL;
    }
    SBX_AUTO_CLOSE int pidfd = sbx_pidfd_open(ref->pid);
    if (pidfd < 0) {
        return pidfd;
    }
    struct sbx_proc_stat stat;
    int r = sbx_proc_stat_at(proc_fd, ref->pid, &stat);
    if (r < 0) {
        return r == -ENOENT ? -ESRCH : r;
    }
    if (stat.start_ticks != ref->start_ticks) {
        return -ESRCH;
    }
    return sbx_pidfd_signal(pidfd, signal_number);
}

bool sbx_pid_exists(pid_t pid)
{
    return pid > 1 && (kill(pid, 0) == 0 || errno == EPERM);
}

/* A namespace has no name before it has an init. */
bool sbx_child_would_be_init(void)
{
    static const char own[] = "/proc/thread-self/ns/pid";
    static const char next[] = "/proc/thread-self/ns/pid_for_children";
    char name[64];
    struct stat status;
    return readlink(own, name, sizeof name) > 0 && lstat(next, &status) == 0 &&
           readlink(next, name, sizeof name) < 0 && errno == ENOENT;
}

int sbx_child_signal(pid_t pid, int signal_number)
{
    if (pid <= 1) {
        return -EINVAL;
    }
    return kill(pid, signal_number) < 0 ? -errno : 0;
}

int sbx_child_group_signal(pid_t pgid, int signal_number)
{
    if (pgid <= 1 || pgid == getpgrp()) {
        return -EINVAL;
    }
    return kill(-pgid, signal_number) < 0 ? -errno : 0;
}
