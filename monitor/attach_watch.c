/*
 * attach_watch.c - see attach.h: an attached tree from its first sample to its end, and
 * what the guard does about it when the monitor was killed.
 *
 * Nobody here is ours to wait for. That a member has ended is told by its pidfd, or by
 * its stat in the next sample; that all have, by a walk that looks at the whole host.
 */
#include "monitor/attach.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "monitor/watch_private.h"
#include "reaper/attached.h"
#include "reaper/boost.h"
#include "reaper/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* --- whose end wakes us --- */

static void await_nobody(struct sbx_watch_attach *attach)
{
    sbx_source_free(attach->on_end);
    attach->on_end = NULL;
    sbx_fd_drop(&attach->awaited_fd);
}

static void on_end(void *context)
{
    struct sbx_watch *watch = context;
    await_nobody(&watch->attach); /* its pid stays noted: it is not awaited again */
    sbx_watch_on_sample(watch);
}

/* The last one to end should be noticed at once. Who that will be nobody knows; so it is
 * somebody, and after that one's end somebody else. */
static void await_somebody(struct sbx_watch *watch)
{
    struct sbx_watch_attach *attach = &watch->attach;
    const struct sbx_member *member = NULL;
    if (attach->awaited_fd >= 0) {
        return;
    }
    for (size_t i = 0; i < sbx_tree_count(watch->tree) && member == NULL; i++) {
        const struct sbx_member *next = sbx_tree_member(watch->tree, i);
        if (!sbx_member_ended(next) && next->stat.pid != attach->awaited) {
            member = next;
        }
    }
    if (member == NULL) {
        return;
    }
    attach->awaited = member->stat.pid;
    attach->awaited_fd = sbx_pidfd_open(member->stat.pid);
    if (attach->awaited_fd >= 0 && sbx_loop_add_fd(watch->loop, attach->awaited_fd,
                                                   on_end, watch, &attach->on_end) < 0) {
        sbx_fd_drop(&attach->awaited_fd);
    }
}

/* --- each sample --- */

static void note_root(struct sbx_watch *watch)
{
    const struct sbx_pidref *root = &watch->attach.root;
    const struct sbx_member *member = sbx_tree_find(watch->tree, root->pid);
    if (member == NULL || member->stat.start_ticks != root->start_ticks ||
        sbx_member_ended(member)) {
        watch->leader_ended = true;
    }
}

static void note_unseen(struct sbx_watch *watch)
{
    struct sbx_watch_attach *attach = &watch->attach;
    pid_t hidden = sbx_tree_hidden(watch->tree);
    if (hidden != 0 && !attach->told_hidden) {
        attach->told_hidden = true;
        sbx_record_warn(watch->record,
                        "process %d of the tree, at least, is hidden from us (hidepid): "
                        "the figures are too low",
                        hidden);
    }
    if (watch->record->usage.memory_method == SBX_MEMORY_RSS && !attach->told_rss) {
        attach->told_rss = true;
        sbx_record_warn(watch->record, "what some processes of the tree share may not be "
                                       "read: their memory counts with RSS");
    }
}

static void call_roll(const struct sbx_watch *watch)
{
    struct sbx_attach_roll *roll = watch->attach.roll;
    uint32_t count = 0;
    for (size_t i = 0; i < sbx_tree_count(watch->tree) && count < SBX_ROLL_MAX; i++) {
        const struct sbx_member *member = sbx_tree_member(watch->tree, i);
        if (!sbx_member_ended(member)) {
            roll->members[count++] =
                (struct sbx_pidref){member->stat.pid, member->stat.start_ticks};
        }
    }
    __atomic_store_n(&roll->count, count, __ATOMIC_RELEASE);
}

/* Who lost his parent since the last look may be there still. */
static bool is_over(struct sbx_watch *watch)
{
    struct sbx_error ignored;
    if (sbx_tree_is_alive(watch->tree)) {
        return false;
    }
    sbx_tree_scan_next(watch->tree);
    return sbx_meter_walk(&watch->meter, watch->tree, &ignored) == 0 &&
           !sbx_tree_is_alive(watch->tree);
}

void sbx_attach_sampled(struct sbx_watch *watch)
{
    if (watch->attach.group.on) {
        note_unseen(watch);
        sbx_attach_group_sampled(watch);
        return;
    }
    note_root(watch);
    note_unseen(watch);
    if (!watch->attach.observes) {
        call_roll(watch);
        sbx_attach_arm_late(watch);
    }
    if (is_over(watch)) {
        sbx_watch_empty(watch);
    } else {
        await_somebody(watch);
    }
}

void sbx_attach_look(struct sbx_watch *watch)
{
    sbx_watch_on_sample(watch);
}

/* --- the end --- */

static void note_stray(const struct sbx_member *member, void *context)
{
    struct sbx_watch *watch = context;
    if (watch->leader_ended && !member->wrapper) {
        sbx_record_stray(watch->record, member->stat.pid, member->stat.name);
    }
}

static void note_strays(struct sbx_watch *watch)
{
    for (size_t i = 0; i < sbx_tree_count(watch->tree); i++) {
        const struct sbx_member *member = sbx_tree_member(watch->tree, i);
        if (!sbx_member_ended(member)) {
            note_stray(member, watch);
        }
    }
}

void sbx_attach_leave(struct sbx_watch *watch, const char *why)
{
    if (!sbx_terminate_judges(&watch->terminate)) {
        return;
    }
    if (why != NULL) {
        sbx_record_warn(watch->record, "not observed to the end: %s", why);
    }
    sbx_watch_empty(watch); /* the run is over, whoever is left */
    sbx_watch_on_sample(watch);
    if (sbx_tree_is_alive(watch->tree)) {
        note_strays(watch);
    }
}

void sbx_attach_meet_all(struct sbx_watch *watch)
{
    struct sbx_error ignored;
    sbx_tree_scan_next(watch->tree);
    (void)sbx_meter_walk(&watch->meter, watch->tree, &ignored);
    note_root(watch);
    note_strays(watch);
}

static void note_survivor(const struct sbx_member *member, const char *why, void *context)
{
    struct sbx_record *record = context;
    sbx_record_survivor(record, member->stat.pid, member->stat.name, why);
}

static void watch_survivor(const struct sbx_member *member, const char *why,
                           void *context)
{
    struct sbx_watch *watch = context;
    note_survivor(member, why, watch->record);
}

static void take_result(struct sbx_record *record, const struct sbx_sweep_result *result,
                        struct sbx_tree *tree)
{
    struct sbx_termination *termination = &record->termination;
    pid_t hidden = sbx_tree_hidden(tree);
    termination->killed_count += result->killed_count;
    termination->escalated = termination->killed_count > 0;
    record->kill = SBX_KILL_SWEEP;
    if (hidden != 0 && sbx_pid_exists(hidden)) {
        sbx_record_survivor(record, hidden, "", "hidden from /proc");
    }
}

void sbx_attach_sweep(struct sbx_watch *watch)
{
    struct sbx_sweep_hooks hooks = {
        .met = note_stray, .survivor = watch_survivor, .context = watch};
    struct sbx_sweep_result result = {0};
    note_root(watch);
    int r = sbx_sweep_remembered(watch->tree, watch->proc_fd, &hooks, &result);
    if (r < 0) {
        sbx_record_warn(watch->record,
                        "the tree could not be read while it was swept: %s",
                        sbx_errno_name(-r));
    }
    take_result(watch->record, &result, watch->tree);
}

void sbx_attach_complete(struct sbx_watch *watch)
{
    watch->record->usage.wall_us = sbx_watch_elapsed_us(watch);
    if (watch->record->outcome == SBX_OUTCOME_OBSERVED) {
        watch->record->termination.duration_us = SBX_UNKNOWN; /* nothing was ended */
    }
    if (watch->attach.group.on && watch->record->usage.cpu_method == SBX_METHOD_CGROUP) {
        watch->record->usage.cpu_complete = !watch->attach.group.unread;
    }
}

void sbx_attach_release(struct sbx_watch *watch)
{
    await_nobody(&watch->attach);
    sbx_attach_group_release(watch);
}

/* --- the guard's turn --- */

static int remember(struct sbx_tree *tree, const struct sbx_attach_roll *roll)
{
    uint32_t count = __atomic_load_n(&roll->count, __ATOMIC_ACQUIRE);
    int remembered = 0;
    for (uint32_t i = 0; i < count && i < SBX_ROLL_MAX; i++) {
        remembered += sbx_tree_remember(tree, &roll->members[i]) == 0 ? 1 : 0;
    }
    return remembered;
}

static void exclude_us(struct sbx_tree *tree, int proc_fd)
{
    struct sbx_pidref refs[64];
    struct sbx_proc_stat self;
    if (sbx_proc_stat_at(proc_fd, getpid(), &self) == 0) {
        refs[0] = (struct sbx_pidref){self.pid, self.start_ticks};
        (void)sbx_tree_exclude(tree, &refs[0]);
    }
    size_t count = sbx_ancestors(proc_fd, getpid(), refs, 64);
    for (size_t i = 0; i < count; i++) {
        (void)sbx_tree_exclude(tree, &refs[i]);
    }
    sbx_tree_exclude_children(tree, getpid());
}

static void end_remembered(struct sbx_record *record, const struct sbx_attach_roll *roll)
{
    struct sbx_tree *tree = NULL;
    struct sbx_sweep_hooks hooks = {.survivor = note_survivor, .context = record};
    struct sbx_sweep_result result = {0};
    uint64_t started = sbx_clock_us();
    SBX_AUTO_CLOSE int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sbx_boost();
    if (sbx_tree_new_attached(proc_fd, 0, &tree, &record->error) < 0) {
        return;
    }
    (void)sbx_tree_load_scan(tree, NULL);
    exclude_us(tree, proc_fd);
    if (remember(tree, roll) > 0) {
        (void)sbx_sweep_remembered(tree, proc_fd, &hooks, &result);
        take_result(record, &result, tree);
        record->termination.duration_us = sbx_clock_us() - started;
    }
    sbx_tree_free(tree);
}

void sbx_attach_lost(const struct sbx_spec *spec, struct sbx_record *record,
                     const struct sbx_attach_roll *roll)
{
    bool enforced = spec->attach.enforce && record->leader_pid > 0;
    if (enforced) {
        end_remembered(record, roll);
    }
    record->outcome = SBX_OUTCOME_LOST;
    record->usage.cpu_complete = false;
    record->termination.proof = SBX_PROOF_NONE;
    record->finished_real_us = sbx_clock_real_us();
    if (record->error.code == 0) {
        (void)sbx_error_set(&record->error, ESRCH, SBX_STAGE_MONITOR,
                            enforced ? "the monitor died; the guard has ended the "
                                       "processes that were known"
                                     : "the monitor died; the tree was left alone");
    }
}
