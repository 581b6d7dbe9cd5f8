/*
 * pidref.h - who a process is: pid and start time, never a bare pid.
 *
 * A pid is reused as soon as its process has been reaped. So a process that is not our
 * own un-reaped child is signalled in three steps: open a pidfd, check that pid still has
 * the start time we know, signal through the pidfd. Whatever happens to the pid after the
 * first step, the signal reaches that process or nobody.
 */
#ifndef SBX_REAPER_PIDREF_H
#define SBX_REAPER_PIDREF_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct sbx_pidref {
    pid_t pid;
    uint64_t start_ticks; /* field 22 of /proc/PID/stat: since boot */
};

/* A pidfd of pid, close-on-exec, or a negative errno. */
int sbx_pidfd_open(pid_t pid);

/* Signals whoever the pidfd names. 0 or a negative errno. */
int sbx_pidfd_signal(int pidfd, int signal_number);

/* 0, -ESRCH when that process is gone (whoever has its pid now), -EPERM, -EINVAL for pid
 * <= 1, or another negative errno. */
int sbx_pidref_signal(int proc_fd, const struct sbx_pidref *ref, int signal_number);

/* Whether there is a process of that number, also one that /proc hides from us. Sends
 * nothing. */
bool sbx_pid_exists(pid_t pid);

/* Whether the next child of the calling thread would be the init of a PID namespace, with
 * whose end all others in there end, and no more can be born (unshare, before anybody is
 * there). */
bool sbx_child_would_be_init(void);

/* Signals a child of the calling process that has not been reaped: its pid cannot have
 * been reused. Refuses pid <= 1. */
int sbx_child_signal(pid_t pid, int signal_number);

/* Signals the process group of an un-reaped child, which leads it. Refuses pgid <= 1 and
 * the caller's own group. */
int sbx_child_group_signal(pid_t pgid, int signal_number);

#endif
