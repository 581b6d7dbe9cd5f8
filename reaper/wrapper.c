/*
 * wrapper.c - see wrapper.h. Looks at /proc/PID/exe of namespace inits and their parents,
 * at nothing else.
 */
#include "reaper/wrapper.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define ANCESTORS_MAX 64

bool sbx_wrapper_is_namespace_init(const struct sbx_proc_status *status)
{
    return status->namespace_depth > 1 && status->namespace_pid == 1;
}

/* What the kernel has in memory is enough: a look at the file itself would wait for
 * whoever serves it, and with FUSE that may be a member. */
static int identify(int proc_fd, pid_t pid, struct statx *ret_file)
{
    char path[32];
    (void)snprintf(path, sizeof path, "%d/exe", pid);
    return statx(proc_fd, path, AT_STATX_DONT_SYNC, STATX_INO, ret_file);
}

static bool same_executable(int proc_fd, pid_t a, pid_t b)
{
    struct statx of_a;
    struct statx of_b;
    return identify(proc_fd, a, &of_a) == 0 && identify(proc_fd, b, &of_b) == 0 &&
           of_a.stx_ino == of_b.stx_ino && of_a.stx_dev_major == of_b.stx_dev_major &&
           of_a.stx_dev_minor == of_b.stx_dev_minor;
}

/* Who has no member as its parent is our own child. */
static bool is_own_child(struct sbx_tree *tree, const struct sbx_member *member)
{
    return sbx_tree_find(tree, member->stat.ppid) == NULL;
}

struct sbx_member *sbx_wrapper_front(struct sbx_tree *tree)
{
    struct sbx_member *first = NULL;
    size_t count = sbx_tree_count(tree);
    for (size_t i = 0; i < count; i++) {
        struct sbx_member *member = sbx_tree_member(tree, i);
        if (is_own_child(tree, member) &&
            (first == NULL || member->stat.start_ticks < first->stat.start_ticks)) {
            first = member;
        }
    }
    if (first == NULL || sbx_member_ended(first)) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        const struct sbx_member *member = sbx_tree_member(tree, i);
        if (member->stat.ppid == first->stat.pid && !sbx_member_ended(member)) {
            return NULL;
        }
    }
    return first;
}

struct sbx_member *sbx_wrapper_above(struct sbx_tree *tree,
                                     const struct sbx_member *member,
                                     struct sbx_member *front)
{
    struct sbx_member *parent = sbx_tree_find(tree, member->stat.ppid);
    return parent != NULL || member == front ? parent : front;
}

static void count_children(struct sbx_tree *tree)
{
    size_t count = sbx_tree_count(tree);
    for (size_t i = 0; i < count; i++) {
        sbx_tree_member(tree, i)->living_children = 0;
    }
    for (size_t i = 0; i < count; i++) {
        const struct sbx_member *member = sbx_tree_member(tree, i);
        struct sbx_member *parent = sbx_tree_find(tree, member->stat.ppid);
        if (parent != NULL && !sbx_member_ended(member)) {
            parent->living_children++;
        }
    }
}

static bool has_other_children(const struct sbx_member *parent,
                               const struct sbx_member *child)
{
    bool own = child->stat.ppid == parent->stat.pid && !sbx_member_ended(child);
    return parent->living_children > (own ? 1U : 0U);
}

/* The two ends of the launcher, and who does nothing but wait for it. Who has more to
 * look after is no launcher: a build, say, that runs one of its steps in a sandbox. */
static void mark_with_ancestors(struct sbx_tree *tree, struct sbx_member *init,
                                struct sbx_member *front)
{
    struct sbx_member *below = init;
    init->wrapper = true;
    for (int i = 0; i < ANCESTORS_MAX; i++) {
        struct sbx_member *above = sbx_wrapper_above(tree, below, front);
        if (above == NULL || (i > 0 && has_other_children(above, below))) {
            return;
        }
        above->wrapper = true;
        below = above;
    }
}

static void look_at_new(struct sbx_member *member, int proc_fd)
{
    struct sbx_proc_status status;
    if (member->status_due && !sbx_member_ended(member) &&
        sbx_proc_status_at(proc_fd, member->stat.pid, &status) == 0) {
        member->namespace_init = sbx_wrapper_is_namespace_init(&status);
        member->namespace_depth = status.namespace_depth;
    }
}

void sbx_wrapper_mark(struct sbx_tree *tree, int proc_fd)
{
    size_t count = sbx_tree_count(tree);
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        struct sbx_member *member = sbx_tree_member(tree, i);
        look_at_new(member, proc_fd);
        any = any || member->namespace_init || member->wrapper;
    }
    if (!any) {
        return;
    }
    struct sbx_member *front = sbx_wrapper_front(tree);
    count_children(tree);
    for (size_t i = 0; i < count; i++) {
        sbx_tree_member(tree, i)->wrapper = false;
    }
    for (size_t i = 0; i < count; i++) {
        struct sbx_member *member = sbx_tree_member(tree, i);
        if (member->namespace_init && !sbx_member_ended(member) &&
            same_executable(proc_fd, member->stat.pid, member->stat.ppid)) {
            mark_with_ancestors(tree, member, front);
        }
    }
}

pid_t sbx_wrapper_command(struct sbx_tree *tree, pid_t leader)
{
    const struct sbx_member *first = sbx_tree_find(tree, leader);
    if (first == NULL || !first->wrapper) {
        return leader;
    }
    for (size_t i = 0; i < sbx_tree_count(tree); i++) {
        const struct sbx_member *member = sbx_tree_member(tree, i);
        if (!member->wrapper && !sbx_member_ended(member)) {
            return member->stat.pid;
        }
    }
    return 0;
}
