/*
 * attach.c - see attach.h: from a pid to a tree that is watched.
 *
 * From the first look on a process is its pid and its start time. What cannot be done as
 * asked is found out before anything is changed; the ceilings come last. We are never
 * members ourselves, nor are guard and reader, and with --enforce not our ancestors
 * either.
 */
#include "monitor/attach.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "monitor/watch_private.h"
#include "reaper/arming.h"
#include "reaper/attached.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ANCESTORS_MAX 64
/* Walks in search of members that nobody has met; rounds of ceilings. */
#define WALKS_MAX 16
#define ROUNDS_MAX 64
/* A fork under way may have copied the old ceilings and show its child a little later. */
#define SETTLE_NS 5000000L
#define LATE_US (2U * SBX_US_PER_S)
#define READ_US (1U * SBX_US_PER_S)

#define NAME_SIZE (4 * SBX_PROC_NAME_SIZE + 1)

static const char *shown(const char *name, char text[static NAME_SIZE])
{
    (void)sbx_text_escape(text, NAME_SIZE, name, strnlen(name, SBX_PROC_NAME_SIZE));
    return text;
}

int sbx_attach_open_tree(struct sbx_watch *watch, size_t fd_budget, struct sbx_error *err)
{
    int r = sbx_tree_new_attached(watch->proc_fd, fd_budget, &watch->tree, err);
    if (r == 0 && watch->attach.observes) {
        sbx_tree_pass_over_hidden(watch->tree); /* said in a warning */
    }
    return r;
}

/* --- who it is --- */

static int no_such(pid_t pid, int code, struct sbx_error *err)
{
    if (code == ENOENT && sbx_pid_exists(pid)) {
        return sbx_error_set(err, EACCES, SBX_STAGE_CHECK,
                             "option --pid: process %d is hidden from us by /proc "
                             "(hidepid)",
                             pid);
    }
    if (code == ESRCH || code == ENOENT) {
        return sbx_error_set(err, ESRCH, SBX_STAGE_CHECK,
                             "option --pid: there is no process %d", pid);
    }
    if (code == EINVAL) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_CHECK,
                             "option --pid: %d is a thread, not a process", pid);
    }
    return sbx_error_set(err, code, SBX_STAGE_CHECK, "option --pid: process %d: %s", pid,
                         sbx_errno_text(code).text);
}

static bool has_ended(int pidfd)
{
    struct pollfd end = {.fd = pidfd, .events = POLLIN};
    return poll(&end, 1, 0) > 0;
}

/* The first look. Its pidfd is open around the reading of its stat, so that both are of
 * one process. */
static int identify(struct sbx_watch *watch, pid_t pid, struct sbx_error *err)
{
    struct sbx_proc_stat stat;
    struct sbx_proc_status status = {.hwm_bytes = SBX_UNKNOWN};
    char name[NAME_SIZE];
    SBX_AUTO_CLOSE int pidfd = sbx_pidfd_open(pid);
    if (pidfd < 0) {
        return no_such(pid, pidfd == -ENOENT ? EINVAL : -pidfd, err);
    }
    int r = sbx_proc_stat_at(watch->proc_fd, pid, &stat);
    if (r < 0) {
        return no_such(pid, -r, err);
    }
    bool threads_left = stat.threads > 1;
    if (has_ended(pidfd) || (stat.state == 'Z' && !threads_left)) {
        return sbx_error_set(err, ESRCH, SBX_STAGE_CHECK,
                             "option --pid: process %d (%s) has ended, and waits for its "
                             "parent to take notice (zombie)",
                             pid, shown(stat.name, name));
    }
    r = sbx_proc_status_at(watch->proc_fd, pid, &status);
    if (r < 0) {
        return no_such(pid, -r, err);
    }
    if (status.hwm_bytes == SBX_UNKNOWN && stat.state != 'Z') {
        return sbx_error_set(err, EINVAL, SBX_STAGE_CHECK,
                             "option --pid: process %d (%s) has no memory of its own: it "
                             "is a thread of the kernel, or about to end",
                             pid, shown(stat.name, name));
    }
    watch->attach.root = (struct sbx_pidref){pid, stat.start_ticks};
    return 0;
}

/* --- that it is not us --- */

static int exclude(struct sbx_watch *watch, const struct sbx_pidref *ref,
                   const char *relation, struct sbx_error *err)
{
    if (ref->pid == watch->attach.root.pid) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_CHECK,
                             "option --pid: process %d is %s", ref->pid, relation);
    }
    return sbx_tree_exclude(watch->tree, ref) == 0
               ? 0
               : sbx_error_set(err, ENOSPC, SBX_STAGE_CHECK,
                               "option --pid: sbx-watch has too many ancestors");
}

/* Guard and reader, and a front, are sbx-watch itself; who comes before them is an
 * ancestor. */
int sbx_attach_exclude_us(struct sbx_watch *watch, struct sbx_error *err)
{
    const struct sbx_pair_link *link = watch->link;
    struct sbx_pidref ancestors[ANCESTORS_MAX];
    struct sbx_proc_stat self;
    size_t ours = link->below_front ? 2 : 1;
    int r = sbx_proc_stat_at(watch->proc_fd, getpid(), &self);
    if (r < 0) {
        return no_such(getpid(), -r, err);
    }
    size_t count = sbx_ancestors(watch->proc_fd, getpid(), ancestors, ANCESTORS_MAX);
    const struct sbx_pidref monitor = {self.pid, self.start_ticks};
    r = exclude(watch, &monitor, "sbx-watch itself", err);
    for (size_t i = 0; i < count && r == 0; i++) {
        if (i < ours) {
            r = exclude(watch, &ancestors[i], "sbx-watch itself", err);
        } else if (!watch->attach.observes) {
            r = exclude(watch, &ancestors[i],
                        "an ancestor of sbx-watch, which cannot end the tree that it "
                        "is in itself (without --enforce it can be observed)",
                        err);
        }
    }
    sbx_tree_exclude_children(watch->tree, link->guard_pid);
    if (r == 0 && watch->attach.root.pid == 1 && !watch->attach.observes) {
        r = sbx_error_set(err, EINVAL, SBX_STAGE_CHECK,
                          "option --pid: process 1 is the init of this host or "
                          "container: it can be observed, but not ended");
    }
    return r;
}

/* --- all of its members --- */

static int load_scan(struct sbx_watch *watch, struct sbx_error *err)
{
    struct sbx_error error = {0};
    int r = sbx_tree_load_scan(watch->tree, &error);
    if (r == 0) {
        return 0;
    }
    if (watch->attach.observes) {
        sbx_record_warn(watch->record, "orphans may be missed: %s", error.message);
        return 0;
    }
    if (err != NULL) {
        *err = error;
    }
    sbx_error_prefix(err, "option --enforce");
    return r;
}

/* Until a walk meets nobody new, or all have ended meanwhile: that was observed. A tree
 * that never comes to rest is watched all the same: each sample is such a walk. */
static int meet(struct sbx_watch *watch, struct sbx_error *err)
{
    int r = sbx_tree_remember(watch->tree, &watch->attach.root);
    if (r < 0) {
        return no_such(watch->attach.root.pid, -r, err);
    }
    sbx_tree_scan_next(watch->tree);
    r = sbx_meter_attach(&watch->meter, watch->tree, err);
    for (int i = 0; i < WALKS_MAX && r == 0 && sbx_tree_new_count(watch->tree) > 0; i++) {
        r = sbx_meter_walk(&watch->meter, watch->tree, err);
    }
    return r;
}

/* A signal of number 0 tells whether others would be allowed. */
static int check_signals(struct sbx_watch *watch, struct sbx_error *err)
{
    char name[NAME_SIZE];
    for (size_t i = 0; i < sbx_tree_count(watch->tree); i++) {
        const struct sbx_member *member = sbx_tree_member(watch->tree, i);
        const struct sbx_pidref ref = {member->stat.pid, member->stat.start_ticks};
        int r = sbx_member_ended(member) ? 0 : sbx_pidref_signal(watch->proc_fd, &ref, 0);
        if (r < 0 && r != -ESRCH) {
            return sbx_error_set(err, -r, SBX_STAGE_CHECK,
                                 "option --enforce: process %d (%s) of the tree may not "
                                 "be signalled: %s",
                                 ref.pid, shown(member->stat.name, name),
                                 sbx_errno_name(-r));
        }
    }
    return 0;
}

/* A limit of memory wants to know who shares what. The reader looks, since the monitor
 * must not wait for a member's lock. */
static int check_memory(struct sbx_watch *watch, struct sbx_error *err)
{
    if (watch->spec->limits.memory_bytes == 0) {
        return 0;
    }
    sbx_pss_restart(watch->pss);
    for (size_t i = 0; i < sbx_tree_count(watch->tree); i++) {
        const struct sbx_member *member = sbx_tree_member(watch->tree, i);
        if (!sbx_member_ended(member)) {
            (void)sbx_pss_add(watch->pss, member->memory_pid, 0);
        }
    }
    (void)sbx_pss_read(watch->pss, READ_US); /* who hangs is not refused */
    for (size_t i = 0; i < sbx_pss_count(watch->pss); i++) {
        const struct sbx_pss_entry *entry = sbx_pss_entry_at(watch->pss, i);
        if (__atomic_load_n(&entry->state, __ATOMIC_ACQUIRE) == SBX_PSS_REFUSED) {
            return sbx_error_set(err, EACCES, SBX_STAGE_CHECK,
                                 "option --memory: what process %d of the tree shares "
                                 "with others may not be read (smaps)",
                                 entry->pid);
        }
    }
    return 0;
}

/* --- ceilings --- */

static bool wants_ceilings(const struct sbx_spec *spec)
{
    for (int i = 0; i < SBX_CEILING_COUNT; i++) {
        if (spec->ceilings[i].asked) {
            return true;
        }
    }
    return false;
}

/* Rounds until two in a row, a moment apart, have changed nothing. */
static int arm_all(struct sbx_watch *watch, struct sbx_arming *arming,
                   struct sbx_error *err)
{
    static const struct timespec moment = {.tv_nsec = SETTLE_NS};
    int quiet = 0;
    for (int round = 0; round < ROUNDS_MAX && quiet < 2; round++) {
        bool changed = false;
        int r = sbx_meter_walk(&watch->meter, watch->tree, err);
        if (r == 0) {
            r = sbx_arming_round(arming, watch->tree, &changed, err);
        }
        if (r < 0) {
            return r;
        }
        quiet = changed ? 0 : quiet + 1;
        if (quiet == 1) {
            (void)nanosleep(&moment, NULL);
        }
    }
    return quiet == 2 ? 0
                      : sbx_error_set(err, EAGAIN, SBX_STAGE_ARM,
                                      "option --rlimit: new processes without it keep "
                                      "turning up");
}

static int arm(struct sbx_watch *watch, struct sbx_error *err)
{
    struct sbx_arming *arming = NULL;
    if (!wants_ceilings(watch->spec)) {
        return 0;
    }
    if (sbx_arming_new(watch->proc_fd, watch->spec->ceilings, &arming) < 0) {
        return sbx_error_set(err, ENOMEM, SBX_STAGE_ARM, "no memory for --rlimit");
    }
    int r = arm_all(watch, arming, err);
    if (r < 0) {
        sbx_arming_undo(arming, err);
    }
    sbx_arming_free(arming);
    return r;
}

void sbx_attach_arm_late(struct sbx_watch *watch)
{
    struct sbx_arming *arming = NULL;
    struct sbx_error error = {0};
    bool changed = false;
    if (sbx_watch_elapsed_us(watch) >= LATE_US || sbx_tree_new_count(watch->tree) == 0 ||
        !wants_ceilings(watch->spec) ||
        sbx_arming_new(watch->proc_fd, watch->spec->ceilings, &arming) < 0) {
        return;
    }
    if (sbx_arming_round(arming, watch->tree, &changed, &error) < 0) {
        sbx_record_warn(watch->record, "%s", error.message);
    }
    sbx_arming_free(arming);
}

/* --- together --- */

static int enforce(struct sbx_watch *watch, struct sbx_error *err)
{
    int r = check_signals(watch, err);
    if (r == 0) {
        r = check_memory(watch, err);
    }
    return r == 0 ? arm(watch, err) : r;
}

int sbx_attach_begin(struct sbx_watch *watch, struct sbx_error *err)
{
    watch->record->started_real_us = sbx_clock_real_us();
    watch->launched_us = sbx_clock_us();
    atomic_store(&watch->link->pair->due_us, watch->launched_us);
    if (watch->spec->attach.cgroup != NULL) {
        return sbx_attach_group_begin(watch, err);
    }
    int r = identify(watch, watch->spec->attach.pid, err);
    if (r == 0) {
        r = sbx_attach_exclude_us(watch, err);
    }
    if (r == 0) {
        r = load_scan(watch, err);
    }
    if (r == 0) {
        r = meet(watch, err);
    }
    if (r == 0 && !watch->attach.observes) {
        r = enforce(watch, err);
    }
    if (r < 0) {
        return r;
    }
    watch->leader = watch->attach.root.pid;
    return 0;
}
