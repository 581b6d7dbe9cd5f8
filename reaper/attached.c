/*
 * attached.c - see attached.h: who belongs to a tree that somebody else started.
 *
 * The number of a session or group is no pid of anybody new as long as somebody is in it.
 * So a number that a member made, and in which a member still is, means what it has
 * always meant. When the last known one has just gone, it most likely still does: such a
 * number counts for one second, and not when a stranger has it as his pid.
 */
#include "reaper/attached.h"

#include "base/clock.h"
#include "base/error.h"
#include "reaper/scan.h"
#include "reaper/tree_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXCLUDED_MAX 72
#define ADOPTERS_MAX 64
#define GRAVES_MAX 256
/* How long a number counts in which no member is known any more. */
#define GRAVE_US SBX_US_PER_S
/* Scans of the host take at most one part of these. */
#define SCAN_SHARE 50U

/* A session, or a group, that a member has made. */
struct made {
    pid_t id;
    bool session;
    bool stranger;       /* somebody who is no member has this pid */
    bool inhabited;      /* a living member is in it */
    uint64_t seen_us;    /* by then a member was in it... */
    uint64_t seen_ticks; /* ...in the unit of start times */
};

/* How a pid that may be a member's came to us. */
enum way {
    WAY_REMEMBERED = 0, /* a member had it */
    WAY_LISTED,         /* a member's list of children */
    WAY_GROUP,          /* session or group */
    WAY_NAMED,          /* the source that is followed */
};

struct sbx_attached {
    struct sbx_pidref expected; /* who is being remembered; pid 0: nobody */
    uint64_t since_ticks;       /* when the tree was made */
    uint64_t walk_us;           /* when the walk under way, or the last one, began */
    uint64_t walk_ticks;
    uint64_t before_us; /* the one before */
    uint64_t before_ticks;

    struct sbx_pidref excluded[EXCLUDED_MAX];
    size_t excluded_count;
    pid_t excluded_parent;
    struct sbx_pidref adopters[ADOPTERS_MAX]; /* ancestors of the root */
    size_t adopter_count;

    sbx_tree_source *source; /* NULL: members are known by descent */
    void *source_context;
    struct sbx_scan *scan; /* NULL: there is none */
    bool scan_due;
    bool scan_always;
    enum way way; /* by which those were found who are admitted now */
    uint64_t next_scan_us;
    struct made
        graves[GRAVES_MAX]; /* of members that have vanished since the last scan */
    size_t grave_count;
    struct made *made; /* of the scan under way, sorted */
    size_t made_count;
    size_t made_capacity;
    pid_t *found;
    size_t found_count;
    size_t found_capacity;
};

/* Time since boot in the unit of start times, rounded down as those are. */
static uint64_t now_ticks(void)
{
    struct timespec now;
    uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * hz + (uint64_t)now.tv_nsec * hz / 1000000000U;
}

/* --- making, asking --- */

int sbx_tree_new_attached(int proc_fd, size_t fd_budget, struct sbx_tree **ret_tree,
                          struct sbx_error *err)
{
    struct sbx_tree *tree = NULL;
    int r = sbx_tree_new(proc_fd, fd_budget, &tree, err);
    if (r < 0) {
        return r;
    }
    tree->attached = calloc(1, sizeof *tree->attached);
    if (tree->attached == NULL) {
        sbx_tree_free(tree);
        return sbx_error_set(err, ENOMEM, SBX_STAGE_MONITOR,
                             "no memory for the process tree");
    }
    tree->attached->since_ticks = now_ticks();
    *ret_tree = tree;
    return 0;
}

uint64_t sbx_tree_since_ticks(const struct sbx_tree *tree)
{
    return tree->attached->since_ticks;
}

void sbx_attached_free(struct sbx_attached *attached)
{
    if (attached == NULL) {
        return;
    }
    sbx_scan_free(attached->scan);
    free(attached->made);
    free(attached->found);
    free(attached);
}

int sbx_tree_load_scan(struct sbx_tree *tree, struct sbx_error *err)
{
    struct sbx_attached *attached = tree->attached;
    return attached->scan != NULL ? 0 : sbx_scan_new(&attached->scan, err);
}

void sbx_tree_scan_next(struct sbx_tree *tree)
{
    tree->attached->scan_due = true;
    tree->attached->next_scan_us = 0;
}

void sbx_tree_scan_always(struct sbx_tree *tree)
{
    tree->attached->scan_always = true;
}

void sbx_tree_pass_over_hidden(struct sbx_tree *tree)
{
    tree->passes_over_hidden = true;
}

pid_t sbx_tree_hidden(const struct sbx_tree *tree)
{
    return tree->hidden_once_pid;
}

bool sbx_tree_is_alive(struct sbx_tree *tree)
{
    for (size_t i = 0; i < sbx_tree_count(tree); i++) {
        if (!sbx_member_ended(sbx_tree_member(tree, i))) {
            return true;
        }
    }
    return false;
}

size_t sbx_ancestors(int proc_fd, pid_t pid, struct sbx_pidref *list, size_t max)
{
    struct sbx_proc_stat stat;
    size_t count = 0;
    if (sbx_proc_stat_at(proc_fd, pid, &stat) < 0) {
        return 0;
    }
    while (count < max && stat.ppid > 0 &&
           sbx_proc_stat_at(proc_fd, stat.ppid, &stat) == 0) {
        list[count++] = (struct sbx_pidref){stat.pid, stat.start_ticks};
    }
    return count;
}

int sbx_tree_remember(struct sbx_tree *tree, const struct sbx_pidref *ref)
{
    struct sbx_attached *attached = tree->attached;
    uint32_t slot = sbx_members_find(&tree->members, ref->pid);
    if (slot != SBX_NO_SLOT) {
        bool same = tree->members.slots[slot].stat.start_ticks == ref->start_ticks;
        return same ? 0 : -ESRCH;
    }
    if (attached->adopter_count == 0) {
        attached->adopter_count =
            sbx_ancestors(tree->proc_fd, ref->pid, attached->adopters, ADOPTERS_MAX);
    }
    attached->expected = *ref;
    int r = sbx_tree_add(tree, ref->pid, &slot);
    attached->expected = (struct sbx_pidref){0};
    return r == -ENOENT ? -ESRCH : r;
}

void sbx_tree_follow(struct sbx_tree *tree, sbx_tree_source *source, void *context)
{
    tree->attached->source = source;
    tree->attached->source_context = context;
}

bool sbx_attached_follows(const struct sbx_tree *tree)
{
    return tree->attached != NULL && tree->attached->source != NULL;
}

int sbx_tree_exclude(struct sbx_tree *tree, const struct sbx_pidref *ref)
{
    struct sbx_attached *attached = tree->attached;
    if (attached->excluded_count == EXCLUDED_MAX) {
        return -ENOSPC;
    }
    attached->excluded[attached->excluded_count++] = *ref;
    return 0;
}

void sbx_tree_exclude_children(struct sbx_tree *tree, pid_t parent)
{
    tree->attached->excluded_parent = parent;
}

/* --- who belongs to it --- */

static bool is_listed(const struct sbx_pidref *list, size_t count, pid_t pid,
                      uint64_t start_ticks)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i].pid == pid && list[i].start_ticks == start_ticks) {
            return true;
        }
    }
    return false;
}

static bool is_excluded(const struct sbx_attached *attached,
                        const struct sbx_proc_stat *stat)
{
    return (attached->excluded_parent > 1 && stat->ppid == attached->excluded_parent) ||
           is_listed(attached->excluded, attached->excluded_count, stat->pid,
                     stat->start_ticks);
}

static int compare_made(const void *a, const void *b)
{
    const struct made *left = a;
    const struct made *right = b;
    if (left->id != right->id) {
        return left->id < right->id ? -1 : 1;
    }
    return (int)left->session - (int)right->session;
}

static struct made *find_made(const struct sbx_attached *attached, pid_t id, bool session)
{
    const struct made wanted = {.id = id, .session = session};
    if (attached->made_count == 0) {
        return NULL;
    }
    return bsearch(&wanted, attached->made, attached->made_count, sizeof wanted,
                   compare_made);
}

/* Whether that number still means what a member made. */
static bool still_means(const struct sbx_attached *attached, const struct made *made,
                        const struct sbx_scanned *process)
{
    if (made == NULL) {
        return false;
    }
    if (made->inhabited) {
        return true;
    }
    bool before = process->start_ticks <= made->seen_ticks;
    bool fresh = attached->walk_us - made->seen_us <= GRAVE_US;
    return !made->stranger && (before || fresh);
}

/* A group of ours can be joined by others of its session (the rest of a pipeline), which
 * their parent does; a session cannot. So he counts only when he looks like an orphan. */
static bool is_orphan(const struct sbx_attached *attached,
                      const struct sbx_scanned *process)
{
    bool adopted = process->ppid == 1;
    for (size_t i = 0; i < attached->adopter_count && !adopted; i++) {
        adopted = attached->adopters[i].pid == process->ppid;
    }
    return adopted && process->start_ticks >= attached->since_ticks;
}

static bool is_by_group(const struct sbx_attached *attached,
                        const struct sbx_scanned *process)
{
    const struct made *session = find_made(attached, process->session, true);
    const struct made *group = find_made(attached, process->pgrp, false);
    return still_means(attached, session, process) ||
           (still_means(attached, group, process) && is_orphan(attached, process));
}

bool sbx_attached_takes(const struct sbx_tree *tree, const struct sbx_proc_stat *stat)
{
    const struct sbx_attached *attached = tree->attached;
    if (is_excluded(attached, stat)) {
        return false;
    }
    if (attached->expected.pid != 0) {
        return stat->pid == attached->expected.pid &&
               stat->start_ticks == attached->expected.start_ticks;
    }
    if (attached->way == WAY_NAMED ||
        sbx_members_find(&tree->members, stat->ppid) != SBX_NO_SLOT) {
        return true;
    }
    if (attached->way == WAY_GROUP) {
        const struct sbx_scanned process = {stat->pid, stat->ppid, stat->pgrp,
                                            stat->session, stat->start_ticks};
        return is_by_group(attached, &process);
    }
    /* Its parent ended after it was listed as a child. It has had this pid since before
     * the list was read, so it is the one who was listed. */
    return attached->way == WAY_LISTED && stat->start_ticks < attached->walk_ticks;
}

/* Whether a member made the session, or group, that this member is in. */
static bool is_made_by_member(const struct sbx_tree *tree,
                              const struct sbx_member *member, bool session)
{
    pid_t id = session ? member->stat.session : member->stat.pgrp;
    if (id == member->stat.pid) {
        return true;
    }
    if (sbx_members_find(&tree->members, id) != SBX_NO_SLOT) {
        return true;
    }
    uint32_t parent = sbx_members_find(&tree->members, member->stat.ppid);
    if (parent != SBX_NO_SLOT) {
        const struct sbx_member *other = &tree->members.slots[parent];
        if ((session ? other->session_noted : other->group_noted) == id) {
            return session ? other->session_ours : other->group_ours;
        }
    }
    for (uint32_t slot = 0; slot < tree->members.capacity; slot++) {
        const struct sbx_member *other = &tree->members.slots[slot];
        if (tree->members.used[slot] && other != member &&
            (session ? other->session_ours && other->session_noted == id
                     : other->group_ours && other->group_noted == id)) {
            return true;
        }
    }
    return false;
}

void sbx_attached_enlisted(struct sbx_tree *tree, uint32_t slot)
{
    struct sbx_member *member = &tree->members.slots[slot];
    const struct sbx_attached *attached = tree->attached;
    if (sbx_member_ended(member) && !member->mourned) {
        member->mourned = true; /* as good as vanished: its children have left it */
        tree->attached->scan_due =
            tree->attached->scan_due || member->session_ours || member->group_ours;
    }
    member->outside = sbx_members_find(&tree->members, member->stat.ppid) == SBX_NO_SLOT;
    if (member->session_noted != member->stat.session) {
        member->session_ours = is_made_by_member(tree, member, true) ||
                               find_made(attached, member->stat.session, true) != NULL;
        member->session_noted = member->stat.session;
    }
    if (member->group_noted != member->stat.pgrp) {
        member->group_ours = is_made_by_member(tree, member, false) ||
                             find_made(attached, member->stat.pgrp, false) != NULL;
        member->group_noted = member->stat.pgrp;
    }
}

/* --- the numbers that are ours --- */

static void bury(struct sbx_attached *attached, pid_t id, bool session)
{
    struct made *grave = NULL;
    for (size_t i = 0; i < attached->grave_count && grave == NULL; i++) {
        if (attached->graves[i].id == id && attached->graves[i].session == session) {
            grave = &attached->graves[i];
        }
    }
    if (grave == NULL) {
        if (attached->grave_count == GRAVES_MAX) {
            return;
        }
        grave = &attached->graves[attached->grave_count++];
        *grave = (struct made){.id = id, .session = session};
    }
    grave->seen_us = attached->before_us;
    grave->seen_ticks = attached->before_ticks;
}

void sbx_attached_vanished(struct sbx_tree *tree, uint32_t slot)
{
    struct sbx_attached *attached = tree->attached;
    const struct sbx_member *member = &tree->members.slots[slot];
    if (member->session_ours) {
        bury(attached, member->session_noted, true);
    }
    if (member->group_ours) {
        bury(attached, member->group_noted, false);
    }
    attached->scan_due = attached->scan_due || member->session_ours || member->group_ours;
}

/* Room for one more; NULL when memory is short. */
static struct made *add_made(struct sbx_attached *attached)
{
    if (attached->made_count == attached->made_capacity) {
        size_t capacity = attached->made_capacity == 0 ? 64 : attached->made_capacity * 2;
        struct made *made = realloc(attached->made, capacity * sizeof *made);
        if (made == NULL) {
            return NULL;
        }
        attached->made = made;
        attached->made_capacity = capacity;
    }
    return &attached->made[attached->made_count++];
}

static int add_inhabited(struct sbx_attached *attached, pid_t id, bool session)
{
    struct made *made = add_made(attached);
    if (made == NULL) {
        return -ENOMEM;
    }
    *made = (struct made){.id = id, .session = session, .inhabited = true};
    return 0;
}

/* Of entries with one number the first stays; one with a living member in it counts. */
static void make_unique(struct sbx_attached *attached)
{
    size_t kept = 0;
    qsort(attached->made, attached->made_count, sizeof *attached->made, compare_made);
    for (size_t i = 0; i < attached->made_count; i++) {
        struct made *made = &attached->made[i];
        if (kept > 0 && compare_made(&attached->made[kept - 1], made) == 0) {
            attached->made[kept - 1].inhabited =
                attached->made[kept - 1].inhabited || made->inhabited;
        } else {
            attached->made[kept++] = *made;
        }
    }
    attached->made_count = kept;
}

static int collect_made(struct sbx_tree *tree)
{
    struct sbx_attached *attached = tree->attached;
    int r = 0;
    attached->made_count = 0;
    for (size_t i = 0; i < attached->grave_count && r == 0; i++) {
        struct made *made = add_made(attached);
        r = made == NULL ? -ENOMEM : 0;
        if (made != NULL) {
            *made = attached->graves[i];
        }
    }
    for (size_t i = 0; i < sbx_tree_count(tree) && r == 0; i++) {
        const struct sbx_member *member = sbx_tree_member(tree, i);
        if (member->session_ours) {
            r = add_inhabited(attached, member->session_noted, true);
        }
        if (r == 0 && member->group_ours) {
            r = add_inhabited(attached, member->group_noted, false);
        }
    }
    if (r == 0 && attached->made_count > 1) {
        make_unique(attached);
    }
    return r;
}

/* --- the walk --- */

int sbx_attached_start(struct sbx_tree *tree)
{
    struct sbx_attached *attached = tree->attached;
    attached->before_us = attached->walk_us;
    attached->before_ticks = attached->walk_ticks;
    attached->walk_us = sbx_clock_us();
    attached->walk_ticks = now_ticks();
    if (attached->source != NULL) {
        attached->way = WAY_NAMED;
        return attached->source(sbx_tree_admit, tree, attached->source_context);
    }
    attached->way = WAY_REMEMBERED;
    if (tree->scan != NULL) {
        int r = sbx_tree_scan_host(tree, NULL);
        if (r < 0) {
            return r;
        }
    }
    for (uint32_t slot = 0; slot < tree->members.capacity; slot++) {
        const struct sbx_member *member = &tree->members.slots[slot];
        if (!tree->members.used[slot] ||
            sbx_members_find(&tree->members, member->stat.ppid) != SBX_NO_SLOT) {
            continue;
        }
        pid_t pid = member->stat.pid;
        int r = sbx_tree_admit(pid, tree);
        if (r < 0) {
            return r;
        }
    }
    attached->way = WAY_LISTED;
    return 0;
}

/* Each process of the host: whether its pid is one of our numbers though it is no member,
 * and whether it is in a session or group of ours. */
static int look_at(const struct sbx_scanned *process, void *context)
{
    struct sbx_tree *tree = context;
    struct sbx_attached *attached = tree->attached;
    if (sbx_members_find(&tree->members, process->pid) != SBX_NO_SLOT) {
        return 0;
    }
    for (int session = 0; session <= 1; session++) {
        struct made *made = find_made(attached, process->pid, session == 1);
        if (made != NULL) {
            made->stranger = true;
        }
    }
    if (find_made(attached, process->session, true) == NULL &&
        find_made(attached, process->pgrp, false) == NULL) {
        return 0;
    }
    if (attached->found_count == attached->found_capacity) {
        size_t capacity =
            attached->found_capacity == 0 ? 64 : attached->found_capacity * 2;
        pid_t *found = realloc(attached->found, capacity * sizeof *found);
        if (found == NULL) {
            return -ENOMEM;
        }
        attached->found = found;
        attached->found_capacity = capacity;
    }
    attached->found[attached->found_count++] = process->pid;
    return 0;
}

static int admit_found(struct sbx_tree *tree)
{
    struct sbx_attached *attached = tree->attached;
    int r = 0;
    attached->way = WAY_GROUP;
    for (size_t i = 0; i < attached->found_count && r == 0; i++) {
        r = sbx_tree_admit(attached->found[i], tree);
    }
    attached->way = WAY_LISTED;
    return r;
}

int sbx_attached_finish(struct sbx_tree *tree, uint32_t *next)
{
    struct sbx_attached *attached = tree->attached;
    bool due = attached->scan_due && attached->walk_us >= attached->next_scan_us;
    if (attached->scan == NULL || !(due || attached->scan_always)) {
        return 0;
    }
    uint64_t before = sbx_clock_cpu_us();
    int r = collect_made(tree);
    attached->found_count = 0;
    if (r == 0 && attached->made_count > 0) {
        r = sbx_scan_run(attached->scan, look_at, tree, NULL);
    }
    if (r == 0) {
        r = admit_found(tree);
    }
    attached->made_count = 0;
    if (r == 0) {
        attached->scan_due = false;
        attached->grave_count = 0;
        r = sbx_tree_expand_from(tree, next);
    }
    attached->next_scan_us = sbx_clock_us() + (sbx_clock_cpu_us() - before) * SCAN_SHARE;
    return r;
}
