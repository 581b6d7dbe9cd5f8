/*
 * guard_care.c - a monitor that does not get on: it is stopped, held by a tracer, or gets
 * no processor. While that lasts nobody holds a limit. It is continued, helped, and in
 * the end killed, so that its work falls to the guard.
 */
#include "reaper/guard_private.h"

#include "base/clock.h"
#include "base/fd.h"
#include "reaper/boost.h"
#include "reaper/pidref.h"
#include "reaper/proc.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

/* How late before it is replaced when a tracer holds it. */
#define TRACED_US (2U * SBX_US_PER_S)

/* A stopped monitor holds no limit. Nobody has a right to stop it: a shell's job control
 * does not reach it. First it is continued; when it is stopped again and again although
 * everything should be over, it is beyond help, and the guard does its work. */
static void continue_monitor(struct sbx_guard *guard)
{
    uint64_t now = sbx_clock_us();
    bool late = now >= atomic_load(&guard->pair->overdue_us);
    if (late && guard->stopped_late_us == 0) {
        guard->stopped_late_us = now;
    }
    bool beyond_help = late && now - guard->stopped_late_us >= SBX_GUARD_STOPPED_US;
    (void)sbx_child_signal(guard->monitor, beyond_help ? SIGKILL : SIGCONT);
}

void sbx_guard_look_at_monitor(struct sbx_guard *guard)
{
    siginfo_t info = {0};
    while (waitid(P_PID, (id_t)guard->monitor, &info,
                  WEXITED | WSTOPPED | WCONTINUED | WNOHANG) == 0 &&
           info.si_pid == guard->monitor) {
        if (info.si_code == CLD_STOPPED) {
            guard->monitor_stopped = true;
            continue_monitor(guard);
        } else if (info.si_code == CLD_CONTINUED) {
            guard->monitor_stopped = false;
        } else if (info.si_code != CLD_TRAPPED) {
            guard->monitor_ended = true;
            return;
        }
        info = (siginfo_t){0};
    }
}

/* A monitor that cannot be continued at all (a tracer holds it). */
void sbx_guard_replace_if_overdue(struct sbx_guard *guard)
{
    uint64_t overdue = atomic_load(&guard->pair->overdue_us);
    if (guard->monitor_stopped &&
        sbx_clock_us() >= sbx_clock_add(overdue, SBX_GUARD_STOPPED_US)) {
        (void)sbx_child_signal(guard->monitor, SIGKILL);
    }
}

/* One that is due and late may have no processor, or be held by a tracer, which tells its
 * parent nothing: a tracer could hold up every limit. */
static void look_after(struct sbx_guard *guard, int proc_fd, pid_t pid, uint64_t late_us)
{
    struct sbx_proc_stat stat;
    if (pid <= 0 || sbx_proc_stat_at(proc_fd, pid, &stat) < 0) {
        return;
    }
    if (stat.state == 'R') {
        sbx_boost_starved(pid);
    }
    if (pid != guard->monitor || late_us < TRACED_US) {
        return;
    }
    if (guard->hooks->late != NULL) {
        guard->hooks->late(pid, guard->hooks->context);
    }
    if (stat.state == 't') {
        (void)sbx_child_signal(pid, SIGKILL); /* its work falls to us */
    } else if (stat.state == 'Z') {
        guard->monitor_ended = true; /* wait does not say so while a tracer holds it */
    }
}

void sbx_guard_look_after_late_ones(struct sbx_guard *guard)
{
    uint64_t due = atomic_load(&guard->pair->due_us);
    uint64_t now = sbx_clock_us();
    if (due == 0 || now < sbx_clock_add(due, SBX_GUARD_STARVED_US)) {
        return;
    }
    SBX_AUTO_CLOSE int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    look_after(guard, proc_fd, guard->monitor, now - due);
    look_after(guard, proc_fd, guard->reader.pid, now - due);
}

/* Where it goes on anyway, this is nothing. Else nobody would hear of the end. */
void sbx_guard_continue_caller(const struct sbx_guard *guard)
{
    if (guard->bonds.caller_is_ours && guard->bonds.caller_pidfd >= 0) {
        (void)sbx_pidfd_signal(guard->bonds.caller_pidfd, SIGCONT);
    }
}
