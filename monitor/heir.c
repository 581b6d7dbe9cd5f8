/*
 * heir.c - a leader that only waits for the command (`sh -c CMD`), and the polite signal:
 * each of the two gets it, the leader dies of it at once, and the command acts on it.
 * The command's end is what the run ended with. Its parent being dead, it is ours to
 * reap, so its status is known; where another took it, the leader's own end stands.
 */
#include "monitor/watch_private.h"

#include "reaper/polite.h"

#include <sys/wait.h>

#define SIGNAL_BASE 128 /* how a launcher passes on that a signal ended its child */

void sbx_watch_name_heir(struct sbx_watch *watch)
{
    const struct sbx_member *heir =
        watch->leader_ended ? NULL : sbx_polite_heir(watch->tree, watch->leader);
    if (heir != NULL) {
        watch->heir.pid = heir->stat.pid;
        watch->heir.start_ticks = heir->stat.start_ticks;
        sbx_watch_ask_for_heir(watch);
    }
}

bool sbx_watch_is_heir(const struct sbx_watch *watch, pid_t pid)
{
    return pid == watch->heir.pid;
}

void sbx_watch_hear_of_heir(struct sbx_watch *watch, pid_t pid, int status)
{
    struct sbx_heir *heir = &watch->heir;
    if (pid != heir->pid || heir->ended) {
        return;
    }
    /* Somebody else by now, if a walk says so: its parent lived on, and reaped it. */
    const struct sbx_member *member = sbx_tree_find(watch->tree, pid);
    if (member != NULL && member->stat.start_ticks == heir->start_ticks) {
        heir->ended = true;
        heir->status = status;
        heir->wall_us = sbx_watch_elapsed_us(watch);
    }
}

void sbx_watch_take_heir(struct sbx_watch *watch)
{
    const struct sbx_heir *heir = &watch->heir;
    struct sbx_record *record = watch->record;
    int polite = watch->spec->signal;
    sbx_watch_take_noted_heir(watch);
    bool by_signal = record->has_exit_code ? record->exit_code == SIGNAL_BASE + polite
                                           : record->signal == polite;
    if (!heir->ended || !watch->leader_ended || !by_signal) {
        return;
    }
    record->has_exit_code = WIFEXITED(heir->status);
    record->exit_code = record->has_exit_code ? WEXITSTATUS(heir->status) : 0;
    record->signal = record->has_exit_code ? 0 : WTERMSIG(heir->status);
    record->core_dumped = !record->has_exit_code && WCOREDUMP(heir->status);
    record->usage.wall_us = heir->wall_us;
    record->leader_pid = heir->pid;
    record->wrapper_pid = watch->leader;
}
