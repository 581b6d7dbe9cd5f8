/*
 * guard_job.c - the guard and the terminal: who has it, and what becomes of us when the
 * command is stopped. A shell knows the guard alone, so it has to stop when the command
 * does, and to continue it.
 */
#include "reaper/guard_private.h"

#include "base/fd.h"
#include "reaper/proc.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>

/* If our group is in the foreground, the command is to have the terminal. */
static void hand_over(struct sbx_guard *guard)
{
    if (sbx_terminal_hands_over(&guard->terminal) &&
        sbx_terminal_is_ours(&guard->terminal)) {
        sbx_terminal_give(&guard->terminal, atomic_load(&guard->pair->leader_pid));
    }
}

void sbx_guard_go_on(struct sbx_guard *guard)
{
    hand_over(guard);
    sbx_pair_send(guard->socket, SBX_MESSAGE_CONTINUE, guard->stops);
}

/* A shell may have continued the whole group while the news of the stop was on its way.
 * To stop now would surprise it: nobody would continue us. An attached tree's root, which
 * is no child of the monitor, has not stopped at all: there ^Z was meant for us. */
static bool runs_again(const struct sbx_guard *guard, pid_t leader)
{
    struct sbx_proc_stat stat;
    SBX_AUTO_CLOSE int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return sbx_proc_stat_at(proc_fd, leader, &stat) == 0 && stat.ppid == guard->monitor &&
           stat.state != 'T' && stat.state != 't';
}

/* A stop that is not the terminal's. But a stopped command in the foreground leaves the
 * user without anybody to talk to, who expects the shell then. */
static void follow_plain_stop(struct sbx_guard *guard, pid_t leader)
{
    if (!sbx_terminal_hands_over(&guard->terminal) ||
        !sbx_terminal_is_held_by(&guard->terminal, leader)) {
        return;
    }
    sbx_terminal_take(&guard->terminal, leader);
    if (sbx_terminal_stop_self(SIGTSTP)) {
        sbx_guard_go_on(guard);
    } else {
        hand_over(guard);
    }
}

static void follow_stop(struct sbx_guard *guard, int signal_number, pid_t leader)
{
    bool hands_over = sbx_terminal_hands_over(&guard->terminal);
    bool reading = signal_number != SIGTSTP; /* or setting, from the background */
    if (reading && hands_over && sbx_terminal_is_ours(&guard->terminal)) {
        /* Brought to the foreground while it ran, of which a shell does not tell. */
        sbx_guard_go_on(guard);
        return;
    }
    if (hands_over) {
        sbx_terminal_take(&guard->terminal, leader);
    }
    if (!sbx_terminal_stop_self(signal_number) && reading) {
        /* Without a shell nobody would ever bring it to the foreground. As the kernel
         * does with stopped groups that become orphans. */
        sbx_pair_send(guard->socket, SBX_MESSAGE_PASS, SIGHUP);
    }
    sbx_guard_go_on(guard);
}

void sbx_guard_stop_with_leader(struct sbx_guard *guard, int signal_number)
{
    pid_t leader = atomic_load(&guard->pair->leader_pid);
    if (guard->terminal.fd < 0) {
        return; /* no shell that would continue us */
    }
    if (runs_again(guard, leader)) {
        return;
    }
    if (signal_number == SIGSTOP) {
        follow_plain_stop(guard, leader);
    } else {
        follow_stop(guard, signal_number, leader);
    }
}
