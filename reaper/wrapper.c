/*
 * wrapper.c - see wrapper.h. Looks at /proc/PID/exe of namespace inits and their parents,
 * at nothing else.
 */
#include "reaper/wrapper.h"

#include "reaper/namespace.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHAIN_MAX 64

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

/* `known` where it cannot be told: who is about to end runs no file any more. */
static bool same_executable(int proc_fd, pid_t a, pid_t b, bool known)
{
    struct statx of_a;
    struct statx of_b;
    if (identify(proc_fd, a, &of_a) < 0 || identify(proc_fd, b, &of_b) < 0) {
        return known;
    }
    return of_a.stx_ino == of_b.stx_ino && of_a.stx_dev_major == of_b.stx_dev_major &&
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

/* A walk is no snapshot: one whose parent was gone when that was to be met comes to us,
 * or to an init below us, before the next. */
static bool is_on_its_way(struct sbx_tree *tree, const struct sbx_member *member)
{
    return is_own_child(tree, member) && !member->outside &&
           member->stat.ppid != getpid();
}

/* The one living member that has nobody above it; NULL when there are several. */
static struct sbx_member *count_children(struct sbx_tree *tree, struct sbx_member *front)
{
    struct sbx_member *top = NULL;
    bool several = false;
    size_t count = sbx_tree_count(tree);
    for (size_t i = 0; i < count; i++) {
        sbx_tree_member(tree, i)->living_children = 0;
    }
    for (size_t i = 0; i < count; i++) {
        struct sbx_member *member = sbx_tree_member(tree, i);
        struct sbx_member *above = sbx_wrapper_above(tree, member, front);
        if (sbx_member_ended(member) || is_on_its_way(tree, member)) {
            continue;
        }
        if (above != NULL && !sbx_member_ended(above)) {
            above->living_children++;
            above->only_child = member->stat.pid;
        } else {
            several = several || top != NULL;
            top = member;
        }
    }
    return several ? NULL : top;
}

/* An init that has lost its parent is what it was. */
static bool never_execd(struct sbx_tree *tree, int proc_fd, struct sbx_member *init)
{
    const struct sbx_member *parent = sbx_tree_find(tree, init->stat.ppid);
    if (parent != NULL || !init->parents_file) {
        init->parents_file =
            same_executable(proc_fd, init->stat.pid, init->stat.ppid, init->parents_file);
    }
    return init->parents_file;
}

/* By its name, which anybody can give himself: no more is needed to look like one. */
static bool is_ours(const struct sbx_member *init)
{
    return strcmp(init->stat.name, SBX_INNER_NAME) == 0 ||
           strcmp(init->stat.name, SBX_NAMESPACE_INIT_NAME) == 0;
}

/* On its way to such an init, by way of launchers whose files may not be looked at (they
 * are set-user-id). It hears a signal until that is there. */
bool sbx_wrapper_opens(const struct sbx_member *member)
{
    return strcmp(member->stat.name, SBX_OPENER_NAME) == 0;
}

/* The two ends of the launcher, and who does nothing but wait for it. Who has more to
 * look after is none: a build, say, that runs one of its steps in a sandbox. */
static void mark_launcher(struct sbx_tree *tree, struct sbx_member *init,
                          struct sbx_member *front)
{
    struct sbx_member *next = init;
    for (int i = 0; next != NULL && i < CHAIN_MAX; i++) {
        if (i > 1 && next->living_children != 1) {
            return;
        }
        next->launcher = true;
        next = sbx_wrapper_above(tree, next, front);
    }
}

/* From the top down, as long as there is one way: the first init on it holds all the
 * rest, and whoever stands above the last one that is a wrapper is one too. */
static void mark_chain(struct sbx_tree *tree, struct sbx_member *top)
{
    struct sbx_member *chain[CHAIN_MAX];
    size_t length = 0;
    size_t wrappers = 0;
    bool held = false;
    struct sbx_member *next = top;
    while (next != NULL && length < CHAIN_MAX) {
        chain[length++] = next;
        if (next->namespace_init) {
            next->holds_all = !held;
            held = true;
            wrappers = next->launcher ? length : wrappers;
        }
        next = next->living_children == 1 ? sbx_tree_find(tree, next->only_child) : NULL;
    }
    if (wrappers == 0 && length > 0 && sbx_wrapper_opens(top)) {
        wrappers = length > 1 ? length - 1 : 1; /* all of them still open it */
    }
    for (size_t i = 0; i < wrappers; i++) {
        chain[i]->wrapper = true;
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
        any =
            any || member->namespace_init || member->wrapper || sbx_wrapper_opens(member);
        member->launcher = false;
        member->wrapper = false;
        member->holds_all = false;
    }
    if (!any) {
        return;
    }
    struct sbx_member *front = sbx_wrapper_front(tree);
    struct sbx_member *top = count_children(tree, front);
    for (size_t i = 0; i < count; i++) {
        struct sbx_member *member = sbx_tree_member(tree, i);
        if (member->namespace_init && !sbx_member_ended(member) &&
            (is_ours(member) || never_execd(tree, proc_fd, member))) {
            mark_launcher(tree, member, front);
        }
    }
    mark_chain(tree, top);
}

struct sbx_member *sbx_wrapper_init(struct sbx_tree *tree)
{
    for (size_t i = 0; i < sbx_tree_count(tree); i++) {
        struct sbx_member *member = sbx_tree_member(tree, i);
        if (member->holds_all && !sbx_member_ended(member)) {
            return member;
        }
    }
    return NULL;
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
