/*
 * boost.c - see boost.h. SCHED_RESET_ON_FORK keeps both a negative nice value and a
 * real-time class from the command.
 *
 * Why not real-time from the beginning: a real-time process that waits by spinning for
 * one of normal priority that it has itself preempted on the same processor (the kernel
 * does so when it puts away the /proc entries of a dying thread) spins until the kernel
 * throttles it, nearly a second.
 */
#include "reaper/boost.h"

#include "base/fd.h"

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static bool leads_session(void)
{
    return getsid(0) == getpid();
}

void sbx_boost(void)
{
    struct sched_param none = {.sched_priority = 0};
    if (sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &none) == 0) {
        (void)setpriority(PRIO_PROCESS, 0, -20);
    }
}

void sbx_boost_session(int proc_fd)
{
    static const char best[] = "-20";
    if (!leads_session()) {
        return; /* the group is the caller's, too */
    }
    SBX_AUTO_CLOSE int fd = openat(proc_fd, "self/autogroup", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)sbx_fd_write_all(fd, best, strlen(best));
    }
}

void sbx_boost_starved(pid_t pid)
{
    struct sched_param lowest = {.sched_priority = 1};
    (void)sched_setscheduler(pid, SCHED_RR | SCHED_RESET_ON_FORK, &lowest);
}

void sbx_boost_sweep(void)
{
    if (!leads_session()) {
        sbx_boost_starved(0);
    }
}
