/*
 * lost.c - the guard's turn: its monitor died, and the tree fell to it. Ends what is left
 * and completes the record with what is known. Uses nothing of the monitor's memory but
 * the record.
 */
#include "monitor/watch.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "monitor/grouped.h"
#include "reaper/boost.h"
#include "reaper/sweep.h"
#include "reaper/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>

/* A list of the leaf that takes longer is one that somebody makes longer. */
#define LIST_BOUND_US 500000U

struct remains {
    struct sbx_record *record;
    const struct sbx_namespace_note *note;
    struct sbx_tree *tree;
    int proc_fd;
    pid_t leader;
};

static void take_leader_end(const struct remains *remains, int status)
{
    struct sbx_record *record = remains->record;
    if (atomic_load(&remains->note->ended) != 0) { /* it was only the front */
        status = atomic_load(&remains->note->status);
    }
    record->has_exit_code = WIFEXITED(status);
    record->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    record->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    record->core_dumped = WIFSIGNALED(status) && WCOREDUMP(status);
}

static int reap_remains(void *context)
{
    struct remains *remains = context;
    struct sbx_record *record = remains->record;
    for (;;) {
        int status = 0;
        pid_t pid = waitpid(-1, &status, WNOHANG | __WALL);
        if (pid == 0) {
            return 0;
        }
        if (pid < 0) {
            if (errno == EINTR) {
                continue;
            }
            return -errno;
        }
        (void)sbx_tree_reaped(remains->tree, pid);
        if (pid == remains->leader && !record->has_exit_code && record->signal == 0) {
            take_leader_end(remains, status);
        }
    }
}

static void note_remains_survivor(const struct sbx_member *member, const char *why,
                                  void *context)
{
    struct remains *remains = context;
    sbx_record_survivor(remains->record, member->stat.pid, member->stat.name, why);
}

static int count_one(pid_t pid, void *context)
{
    (void)pid;
    *(uint64_t *)context += 1;
    return 0;
}

/* All at once; then who else is there. How many there were; 0 if the kernel cannot. */
static uint64_t kill_group(const struct sbx_grouped *grouped, struct sbx_record *record)
{
    int leaf = grouped->group.leaf.fd;
    uint64_t count = 0;
    (void)sbx_leaf_each_process(leaf, sbx_clock_us() + LIST_BOUND_US, count_one, &count);
    if (sbx_leaf_kill(leaf) < 0) {
        return 0;
    }
    record->kill = SBX_KILL_CGROUP;
    return count;
}

static int name_member(pid_t pid, void *context)
{
    struct remains *remains = context;
    struct sbx_proc_stat stat;
    if (sbx_proc_stat_at(remains->proc_fd, pid, &stat) == 0 && stat.state != 'Z') {
        sbx_record_survivor(remains->record, pid, stat.name,
                            stat.state == 'D' ? SBX_SWEEP_WHY_STUCK
                                              : "still in the group");
    }
    return 0;
}

static void end_group(struct sbx_grouped *grouped, struct remains *remains)
{
    struct sbx_record *record = remains->record;
    if (sbx_grouped_end_rest(grouped, record)) {
        record->kill = SBX_KILL_CGROUP;
    }
    if (sbx_leaf_populated(grouped->group.leaf.fd) != 0) {
        record->termination.proof = SBX_PROOF_NONE;
        (void)sbx_leaf_each_process(grouped->group.leaf.fd,
                                    sbx_clock_us() + LIST_BOUND_US, name_member, remains);
    } else if (record->termination.proof == SBX_PROOF_NO_CHILDREN) {
        record->termination.proof = SBX_PROOF_GROUP_EMPTY;
    }
    sbx_grouped_take_figures(grouped, record);
    record->usage.cpu_complete = false; /* the report calls the run lost */
    sbx_grouped_close(grouped, record, false);
}

void sbx_watch_lost(const struct sbx_spec *spec, struct sbx_record *record,
                    const struct sbx_pair *pair, struct sbx_grouped *grouped)
{
    (void)spec;
    uint64_t started = sbx_clock_us();
    struct remains remains = {.record = record,
                              .note = &pair->note,
                              .proc_fd = -1,
                              .leader = atomic_load(&pair->leader_pid)};
    struct sbx_sweep_hooks hooks = {
        .reap = reap_remains, .survivor = note_remains_survivor, .context = &remains};
    struct sbx_sweep_result result = {0};
    SBX_AUTO_CLOSE int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool grouped_on = sbx_grouped_is_on(grouped);
    remains.proc_fd = proc_fd;
    sbx_boost();
    sbx_boost_session(proc_fd);
    record->kill = SBX_KILL_SWEEP;
    if (grouped_on) {
        sbx_grouped_step_out(grouped, record);
    }
    uint64_t killed = grouped_on ? kill_group(grouped, record) : 0;
    int r = sbx_tree_new(proc_fd, 0, &remains.tree, &record->error);
    if (r == 0) {
        (void)sbx_sweep(remains.tree, proc_fd, &hooks, &result);
    }
    if (result.by_namespace && record->kill == SBX_KILL_SWEEP) {
        record->kill = SBX_KILL_NAMESPACE;
    }
    record->outcome = SBX_OUTCOME_LOST;
    record->usage.cpu_complete = false;
    /* Those of the group whom the sweep met before they were gone count once. */
    killed = killed > result.killed_count ? killed : result.killed_count;
    record->termination.killed_count += killed;
    record->termination.escalated = record->termination.killed_count > 0;
    record->termination.proof = result.empty ? SBX_PROOF_NO_CHILDREN : SBX_PROOF_NONE;
    if (record->tracking == SBX_TRACKING_NAMESPACE && result.empty) {
        record->termination.proof = SBX_PROOF_NAMESPACE_GONE;
    }
    if (grouped_on) {
        end_group(grouped, &remains);
    }
    record->termination.duration_us = sbx_clock_us() - started;
    record->finished_real_us = sbx_clock_real_us();
    if (record->error.code == 0) {
        (void)sbx_error_set(&record->error, ESRCH, SBX_STAGE_MONITOR,
                            "the monitor died; the guard has ended the tree");
    }
    sbx_tree_free(remains.tree);
}
