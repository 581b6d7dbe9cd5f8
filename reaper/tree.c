/*
 * tree.c - see tree.h.
 *
 * Members lie in a table of slots (members.h), listed breadth first. Relies on proc.h for
 * every read. Never signals and never waits: that is for those who walk.
 */
#include "reaper/tree.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "reaper/members.h"
#include "reaper/pidref.h"
#include "reaper/scan.h"
#include "reaper/tree_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A walk looks at the clock once for so many members. */
#define LOOK_AT_CLOCK 32U

/* --- one member --- */

static bool is_gone(int error)
{
    return error == -ESRCH || error == -ENOENT;
}

/* Reads a stat through the kept descriptor. A descriptor belongs to one process for ever,
 * so an answer proves identity. */
static int read_kept(int fd, struct sbx_proc_stat *ret_stat)
{
    char text[SBX_PROC_STAT_SIZE];
    ssize_t length = sbx_fd_pread_text(fd, text, sizeof text);
    if (length < 0) {
        return (int)length;
    }
    return sbx_proc_parse_stat(text, (size_t)length, ret_stat);
}

static int take_first_thread(pid_t tid, void *context)
{
    pid_t *found = context;
    if (tid == found[0]) {
        return 0; /* the dead leader itself */
    }
    found[1] = tid;
    return 1;
}

/* The leader thread of this process has ended, others live on: memory is theirs, and only
 * their files tell it. */
static void find_memory_of_zombie_leader(struct sbx_tree *tree, struct sbx_member *member)
{
    pid_t found[2] = {member->stat.pid, 0};
    member->memory_pid = member->stat.pid;
    if (sbx_proc_each_thread(tree->proc_fd, member->stat.pid, take_first_thread, found) !=
        1) {
        return;
    }
    struct sbx_proc_stat thread;
    if (sbx_proc_stat_at(tree->proc_fd, found[1], &thread) == 0) {
        member->memory_pid = found[1];
        member->rss_bytes = sbx_proc_rss_bytes(&thread);
    }
}

static uint64_t waited_us(const struct sbx_proc_stat *stat)
{
    return sbx_proc_tree_cpu_us(stat) - sbx_proc_own_cpu_us(stat);
}

static void take_stat(struct sbx_tree *tree, struct sbx_member *member,
                      const struct sbx_proc_stat *stat)
{
    if (strcmp(stat->name, member->stat.name) != 0) {
        member->status_due = true;
    }
    member->waited_before_us = waited_us(&member->stat);
    member->stat = *stat;
    member->memory_pid = stat->pid;
    member->rss_bytes = sbx_proc_rss_bytes(stat);
    if (stat->state == 'Z' && stat->threads > 1) {
        find_memory_of_zombie_leader(tree, member);
    }
}

bool sbx_member_ended(const struct sbx_member *member)
{
    char state = member->stat.state;
    return state == 'X' || state == 'x' || (state == 'Z' && member->stat.threads <= 1);
}

/* An entry that is not there belongs to nobody, or to somebody whom /proc hides (hidepid,
 * and a process that is not dumpable or has another uid). Such a member cannot be
 * measured; the walk goes on, since it can still be swept, and fails at its end. */
static int tell_hidden(struct sbx_tree *tree, pid_t pid, int error)
{
    struct sbx_proc_stat stat;
    if (error != -ENOENT || !sbx_pid_exists(pid)) {
        return error;
    }
    /* Its number may have been given to somebody new between the two looks. */
    if (sbx_proc_stat_at(tree->proc_fd, pid, &stat) == -ENOENT && sbx_pid_exists(pid)) {
        tree->hidden_pid = pid;
        tree->hidden_once_pid = pid;
    }
    return error;
}

/* Reads a known member anew. -ESRCH when it is gone or its pid is somebody else's now. */
static int refresh(struct sbx_tree *tree, uint32_t slot)
{
    struct sbx_member *member = &tree->members.slots[slot];
    struct sbx_proc_stat stat;
    int r = member->stat_fd >= 0
                ? read_kept(member->stat_fd, &stat)
                : sbx_proc_stat_at(tree->proc_fd, member->stat.pid, &stat);
    if (r < 0) {
        return is_gone(tell_hidden(tree, member->stat.pid, r)) ? -ESRCH : r;
    }
    if (stat.start_ticks != member->stat.start_ticks) {
        return -ESRCH;
    }
    take_stat(tree, member, &stat);
    return 0;
}

static int read_new(struct sbx_tree *tree, pid_t pid, int *ret_fd,
                    struct sbx_proc_stat *ret_stat)
{
    if (tree->members.fd_budget < 2) {
        return sbx_proc_stat_at(tree->proc_fd, pid, ret_stat);
    }
    SBX_AUTO_CLOSE int fd = sbx_proc_open(tree->proc_fd, pid, "stat");
    if (fd < 0) {
        /* Out of descriptors after all (somebody else uses them): go on without keeping
         * any. */
        if (fd == -EMFILE || fd == -ENFILE) {
            tree->members.fd_budget = 0;
        }
        return fd;
    }
    int r = read_kept(fd, ret_stat);
    if (r == 0) {
        *ret_fd = sbx_members_keep(&tree->members, sbx_fd_steal(&fd));
    }
    return r;
}

/* Between the list that named it and this look a child can be reaped and its pid given to
 * a stranger. The parent of a descendant is always one too, or the root. */
static bool belongs(const struct sbx_tree *tree, const struct sbx_proc_stat *stat)
{
    if (tree->attached != NULL) {
        return sbx_attached_takes(tree, stat);
    }
    return stat->ppid == tree->self ||
           sbx_members_find(&tree->members, stat->ppid) != SBX_NO_SLOT;
}

int sbx_tree_add(struct sbx_tree *tree, pid_t pid, uint32_t *ret_slot)
{
    struct sbx_proc_stat stat;
    int stat_fd = -1;
    int r = read_new(tree, pid, &stat_fd, &stat);
    if (r == 0 && !belongs(tree, &stat)) {
        sbx_members_drop(&tree->members, &stat_fd);
        r = -ESRCH;
    }
    if (r < 0) {
        return r;
    }
    struct sbx_member member = {
        .stat_fd = stat_fd,
        .children_fd = -1,
        .hwm_bytes = SBX_UNKNOWN,
        .swap_bytes = SBX_UNKNOWN,
        .pss_bytes = SBX_UNKNOWN,
        .status_due = true,
    };
    take_stat(tree, &member, &stat);
    member.waited_before_us = waited_us(&stat);
    r = sbx_members_add(&tree->members, &member, ret_slot);
    if (r < 0) {
        sbx_members_drop(&tree->members, &stat_fd);
        return r;
    }
    tree->new_count++;
    tree->total_count++;
    if (tree->hooks != NULL && tree->hooks->found != NULL) {
        tree->hooks->found(&tree->members.slots[*ret_slot], tree->hooks->context);
    }
    return 0;
}

static void vanish(struct sbx_tree *tree, uint32_t slot)
{
    const struct sbx_tree_hooks *hooks = tree->hooks;
    if (hooks != NULL && hooks->vanished != NULL) {
        const struct sbx_member *member = &tree->members.slots[slot];
        uint32_t parent = sbx_members_find(&tree->members, member->stat.ppid);
        hooks->vanished(member,
                        parent == SBX_NO_SLOT ? NULL : &tree->members.slots[parent],
                        hooks->context);
    }
    if (tree->attached != NULL) {
        sbx_attached_vanished(tree, slot);
    }
    sbx_members_forget(&tree->members, slot);
}

/* --- the walk --- */

static void enlist(struct sbx_tree *tree, uint32_t slot)
{
    tree->members.slots[slot].seen_generation = tree->generation;
    sbx_members_enlist(&tree->members, slot);
    if (tree->attached != NULL) {
        sbx_attached_enlisted(tree, slot);
    }
    const struct sbx_tree_hooks *hooks = tree->hooks;
    if (hooks != NULL && hooks->visit != NULL) {
        hooks->visit(&tree->members.slots[slot], hooks->context);
    }
}

/* A pid that some thread names as its child. Returns 0, or a negative errno that ends the
 * walk. */
int sbx_tree_admit(pid_t pid, void *context)
{
    struct sbx_tree *tree = context;
    uint32_t slot = sbx_members_find(&tree->members, pid);
    int r = 0;
    if (slot != SBX_NO_SLOT) {
        if (tree->members.slots[slot].seen_generation == tree->generation) {
            return 0;
        }
        r = refresh(tree, slot);
        if (r == -ESRCH) {
            vanish(tree, slot);
            slot = SBX_NO_SLOT;
            r = 0;
        }
    }
    if (slot == SBX_NO_SLOT) {
        r = sbx_tree_add(tree, pid, &slot);
    }
    if (r < 0) {
        return is_gone(tell_hidden(tree, pid, r)) ? 0 : r;
    }
    enlist(tree, slot);
    return 0;
}

static int admit_children_of_thread(pid_t pid, pid_t tid, struct sbx_tree *tree)
{
    SBX_AUTO_CLOSE int fd = sbx_proc_open_children(tree->proc_fd, pid, tid);
    if (fd < 0) {
        return is_gone(tell_hidden(tree, pid, fd)) ? 0 : fd;
    }
    int r = sbx_proc_read_children(fd, sbx_tree_admit, tree);
    return is_gone(r) ? 0 : r;
}

struct thread_walk {
    struct sbx_tree *tree;
    pid_t pid;
};

static int admit_thread(pid_t tid, void *context)
{
    struct thread_walk *walk = context;
    return tid == walk->pid ? 0 : admit_children_of_thread(walk->pid, tid, walk->tree);
}

/* The children of the main thread, by the kept descriptor where there is one. */
static int expand_main_thread(struct sbx_tree *tree, uint32_t slot)
{
    struct sbx_member *member = &tree->members.slots[slot];
    pid_t pid = member->stat.pid;
    if (member->children_fd < 0 && tree->members.fd_budget > 0) {
        int fd = sbx_proc_open_children(tree->proc_fd, pid, pid);
        if (fd == -EMFILE || fd == -ENFILE) {
            tree->members.fd_budget = 0;
        } else if (fd < 0) {
            return is_gone(tell_hidden(tree, pid, fd)) ? 0 : fd;
        } else {
            member->children_fd = sbx_members_keep(&tree->members, fd);
        }
    }
    if (member->children_fd < 0) {
        return admit_children_of_thread(pid, pid, tree);
    }
    /* The table may move while children are admitted: `member` is not used after this. */
    int r = sbx_proc_read_children(member->children_fd, sbx_tree_admit, tree);
    return is_gone(r) ? 0 : r;
}

static int compare_ppid(const void *a, const void *b)
{
    const struct relation *left = a;
    const struct relation *right = b;
    return (left->ppid > right->ppid) - (left->ppid < right->ppid);
}

/* In scan mode: everybody whose parent is `ppid`. */
static int each_scanned_child(struct sbx_tree *tree, pid_t ppid, sbx_proc_visit *visit,
                              void *context)
{
    size_t low = 0;
    size_t high = tree->relation_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (tree->relations[middle].ppid < ppid) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; low < tree->relation_count && tree->relations[low].ppid == ppid; low++) {
        int r = visit(tree->relations[low].pid, context);
        if (r != 0) {
            return r;
        }
    }
    return 0;
}

static int expand(struct sbx_tree *tree, uint32_t slot)
{
    const struct sbx_member *member = &tree->members.slots[slot];
    pid_t pid = member->stat.pid;
    if (sbx_member_ended(member) || sbx_attached_follows(tree)) {
        return 0; /* its children have another parent already */
    }
    if (tree->scan != NULL) {
        return each_scanned_child(tree, pid, sbx_tree_admit, tree);
    }
    bool threaded = member->stat.threads > 1;
    int r = expand_main_thread(tree, slot);
    if (r < 0 || !threaded) {
        return r;
    }
    struct thread_walk walk = {tree, pid};
    r = sbx_proc_each_thread(tree->proc_fd, pid, admit_thread, &walk);
    return is_gone(r) ? 0 : r;
}

static bool is_late(const struct sbx_tree *tree, uint32_t step)
{
    return step % LOOK_AT_CLOCK == LOOK_AT_CLOCK - 1 &&
           tree->deadline_us != SBX_FOREVER_US && sbx_clock_us() >= tree->deadline_us;
}

int sbx_tree_expand_from(struct sbx_tree *tree, uint32_t *next)
{
    for (; *next < tree->members.order_count; (*next)++) {
        if (is_late(tree, *next)) {
            return -ETIME;
        }
        int r = expand(tree, tree->members.order[*next]);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* Members that this walk did not meet: they are gone, or on their way to another parent.
 */
static int look_for_missing(struct sbx_tree *tree, uint32_t *next)
{
    for (uint32_t slot = 0; slot < tree->members.capacity; slot++) {
        if (!tree->members.used[slot] ||
            tree->members.slots[slot].seen_generation == tree->generation) {
            continue;
        }
        int r = sbx_attached_follows(tree) ? -ESRCH : refresh(tree, slot);
        if (r == -ESRCH) {
            vanish(tree, slot);
            continue;
        }
        if (r < 0) {
            return r;
        }
        enlist(tree, slot);
        r = sbx_tree_expand_from(tree, next);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int note_relation(const struct sbx_scanned *process, void *context)
{
    struct sbx_tree *tree = context;
    if (tree->relation_count == tree->relation_capacity) {
        size_t capacity =
            tree->relation_capacity == 0 ? 1024 : tree->relation_capacity * 2;
        struct relation *relations =
            realloc(tree->relations, capacity * sizeof *relations);
        if (relations == NULL) {
            return -ENOMEM;
        }
        tree->relations = relations;
        tree->relation_capacity = capacity;
    }
    tree->relations[tree->relation_count++] =
        (struct relation){process->pid, process->ppid};
    return 0;
}

int sbx_tree_scan_host(struct sbx_tree *tree, struct sbx_error *err)
{
    tree->relation_count = 0;
    int r = sbx_scan_run(tree->scan, note_relation, tree, err);
    if (r < 0) {
        return r;
    }
    if (tree->relation_count > 1) {
        qsort(tree->relations, tree->relation_count, sizeof *tree->relations,
              compare_ppid);
    }
    return 0;
}

int sbx_tree_each_child(struct sbx_tree *tree, sbx_proc_visit *visit, void *context)
{
    if (tree->scan != NULL) {
        int r = sbx_tree_scan_host(tree, NULL);
        return r < 0 ? r : each_scanned_child(tree, tree->self, visit, context);
    }
    return sbx_proc_read_children(tree->self_children_fd, visit, context);
}

int sbx_tree_walk(struct sbx_tree *tree, const struct sbx_tree_hooks *hooks,
                  struct sbx_error *err)
{
    tree->generation++;
    sbx_members_restart(&tree->members);
    tree->new_count = 0;
    tree->hidden_pid = 0;
    tree->hooks = hooks;
    int r = tree->attached != NULL ? sbx_attached_start(tree)
                                   : sbx_tree_each_child(tree, sbx_tree_admit, tree);
    uint32_t next = 0;
    if (r == 0) {
        r = sbx_tree_expand_from(tree, &next);
    }
    if (r == 0) {
        r = look_for_missing(tree, &next);
    }
    if (r == 0 && tree->attached != NULL) {
        r = sbx_attached_finish(tree, &next);
    }
    tree->hooks = NULL;
    if (r == 0 && tree->hidden_pid != 0 && !tree->passes_over_hidden) {
        return sbx_error_set(err, EACCES, SBX_STAGE_MONITOR,
                             "process %d of the tree is hidden from us (hidepid)",
                             tree->hidden_pid);
    }
    if (r < 0) {
        return sbx_error_set(err, -r, SBX_STAGE_MONITOR,
                             "the process tree cannot be read: %s",
                             sbx_errno_text(-r).text);
    }
    return 0;
}

/* --- making, asking --- */

/* The pids of this /proc must be ours: with the /proc of another PID namespace every
 * number would mean somebody else. */
static int check_namespace(int proc_fd, struct sbx_error *err)
{
    char link[32] = "";
    char own[32];
    (void)snprintf(own, sizeof own, "%d", getpid());
    ssize_t length = readlinkat(proc_fd, "self", link, sizeof link - 1);
    if (length < 0) {
        return sbx_error_set(err, errno, SBX_STAGE_MONITOR,
                             "/proc/self cannot be read: is procfs mounted on /proc?");
    }
    if (strcmp(link, own) != 0) {
        return sbx_error_set(err, EXDEV, SBX_STAGE_MONITOR,
                             "/proc belongs to another PID namespace (self is %s there, "
                             "%s here): mount a procfs of this one",
                             link, own);
    }
    return 0;
}

int sbx_tree_new(int proc_fd, size_t fd_budget, struct sbx_tree **ret_tree,
                 struct sbx_error *err)
{
    int r = check_namespace(proc_fd, err);
    if (r < 0) {
        return r;
    }
    struct sbx_tree *tree = calloc(1, sizeof *tree);
    if (tree == NULL) {
        return sbx_error_set(err, ENOMEM, SBX_STAGE_MONITOR,
                             "no memory for the process tree");
    }
    tree->proc_fd = proc_fd;
    tree->self = getpid();
    tree->self_children_fd = -1;
    tree->deadline_us = SBX_FOREVER_US;
    r = sbx_members_init(&tree->members, fd_budget);
    if (r < 0) {
        sbx_tree_free(tree);
        return sbx_error_set(err, -r, SBX_STAGE_MONITOR,
                             "no memory for the process tree");
    }
    tree->self_children_fd = sbx_proc_open_children(proc_fd, tree->self, tree->self);
    if (tree->self_children_fd == -ENOENT) {
        r = sbx_scan_new(&tree->scan, err);
        if (r < 0) {
            sbx_error_prefix(err, "this kernel does not list the children of a process");
        }
    } else if (tree->self_children_fd < 0) {
        r = sbx_error_set(err, -tree->self_children_fd, SBX_STAGE_MONITOR,
                          "the list of children cannot be opened");
    }
    if (r < 0) {
        sbx_tree_free(tree);
        return r;
    }
    *ret_tree = tree;
    return 0;
}

void sbx_tree_set_deadline(struct sbx_tree *tree, uint64_t at_us)
{
    tree->deadline_us = at_us;
}

void sbx_tree_force_scan(struct sbx_tree *tree)
{
    if (tree->scan == NULL) {
        (void)sbx_scan_new(&tree->scan, NULL);
    }
}

void sbx_tree_free(struct sbx_tree *tree)
{
    if (tree == NULL) {
        return;
    }
    sbx_members_done(&tree->members);
    sbx_fd_drop(&tree->self_children_fd);
    sbx_scan_free(tree->scan);
    sbx_attached_free(tree->attached);
    free(tree->relations);
    free(tree);
}

size_t sbx_tree_count(const struct sbx_tree *tree)
{
    return tree->members.order_count;
}

struct sbx_member *sbx_tree_member(struct sbx_tree *tree, size_t index)
{
    return &tree->members.slots[tree->members.order[index]];
}

struct sbx_member *sbx_tree_find(struct sbx_tree *tree, pid_t pid)
{
    uint32_t slot = sbx_members_find(&tree->members, pid);
    return slot == SBX_NO_SLOT ? NULL : &tree->members.slots[slot];
}

size_t sbx_tree_new_count(const struct sbx_tree *tree)
{
    return tree->new_count;
}

uint64_t sbx_tree_total_count(const struct sbx_tree *tree)
{
    return tree->total_count;
}

bool sbx_tree_reaped(struct sbx_tree *tree, pid_t pid)
{
    uint32_t slot = sbx_members_find(&tree->members, pid);
    if (slot == SBX_NO_SLOT) {
        return false;
    }
    sbx_members_forget(&tree->members, slot);
    return true;
}
