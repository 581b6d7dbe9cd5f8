/*
 * namespaced.c - see watch_private.h: a run whose command is in a PID namespace, that it
 * has made (reaper/namespace.h) or that a launcher has, and that is found.
 *
 * With the end of its init all in it end. That is another way to kill, and another proof,
 * not another way to find members: they descend from us as everybody does.
 */
#include "monitor/watch_private.h"

#include "reaper/pidref.h"
#include "reaper/wrapper.h"

#include <signal.h>

/* Of a namespace that we have made. */
#define NAMESPACE_DEPTH 2U

static const struct sbx_namespace_note *note_of(const struct sbx_watch *watch)
{
    return &watch->link->pair->note;
}

/* A launcher's namespace counts as long as it holds everybody. Who has ended does not
 * tell: the last word of those who lived stands. */
void sbx_watch_note_namespace(struct sbx_watch *watch)
{
    struct sbx_record *record = watch->record;
    bool alive = false;
    if (watch->attach.on || watch->spec->pid_namespace ||
        record->tracking == SBX_TRACKING_CGROUP) {
        return;
    }
    for (size_t i = 0; i < sbx_tree_count(watch->tree) && !alive; i++) {
        alive = !sbx_member_ended(sbx_tree_member(watch->tree, i));
    }
    if (alive) {
        record->tracking = sbx_wrapper_init(watch->tree) != NULL ? SBX_TRACKING_NAMESPACE
                                                                 : SBX_TRACKING_SUBREAPER;
    }
}

void sbx_watch_note_front(struct sbx_watch *watch)
{
    pid_t command = atomic_load(&note_of(watch)->command_pid);
    if (watch->spec->pid_namespace && command > 0) {
        watch->record->leader_pid = command;
        watch->record->wrapper_pid = watch->leader;
    }
}

int sbx_watch_status_of_command(const struct sbx_watch *watch, int status)
{
    const struct sbx_namespace_note *note = note_of(watch);
    return atomic_load(&note->ended) != 0 ? atomic_load(&note->status) : status;
}

/* That of the front says nothing. */
void sbx_watch_take_noted_cpu(struct sbx_watch *watch)
{
    const struct sbx_namespace_note *note = note_of(watch);
    if (atomic_load(&note->ended) != 0) {
        watch->leader_cpu_us = atomic_load(&note->cpu_us);
    }
}

/* Stopped when the command was killed: see that it goes on. The init does so too, where
 * nobody else would be continued with it. */
void sbx_watch_nudge_front(const struct sbx_watch *watch)
{
    if (atomic_load(&note_of(watch)->ended) != 0 && !watch->leader_ended) {
        (void)sbx_child_signal(watch->leader, SIGCONT);
    }
}

/* It is not ours to reap: its init tells how it ends. */
void sbx_watch_ask_for_heir(struct sbx_watch *watch)
{
    struct sbx_proc_status status;
    if (watch->spec->pid_namespace && watch->heir.pid != 0 &&
        sbx_proc_status_at(watch->proc_fd, watch->heir.pid, &status) == 0 &&
        status.namespace_depth == NAMESPACE_DEPTH) {
        atomic_store(&watch->link->pair->note.heir_pid_inside, status.namespace_pid);
    }
}

void sbx_watch_take_noted_heir(struct sbx_watch *watch)
{
    const struct sbx_namespace_note *note = note_of(watch);
    uint64_t ended_us = atomic_load(&note->heir_ended_us);
    if (ended_us != 0 && !watch->heir.ended) {
        watch->heir.ended = true;
        watch->heir.status = atomic_load(&note->heir_status);
        watch->heir.wall_us = ended_us - watch->launched_us;
    }
}

void sbx_watch_complete_namespace(struct sbx_watch *watch)
{
    struct sbx_termination *termination = &watch->record->termination;
    if (watch->record->tracking == SBX_TRACKING_NAMESPACE &&
        termination->proof == SBX_PROOF_NO_CHILDREN) {
        termination->proof = SBX_PROOF_NAMESPACE_GONE;
    }
}
