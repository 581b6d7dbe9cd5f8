/*
 * polite.c - see polite.h. Reads /proc/PID/status of the members, and of a few of them
 * where the exe link points to, and wchan: none of these waits for anybody.
 */
#include "reaper/polite.h"

#include "base/fd.h"
#include "reaper/namespace.h"
#include "reaper/wrapper.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CHAIN_MAX 64
#define EXE_PATH_SIZE 512

/* With one child, they do nothing but wait for it and end as it does. */
static const char *const launchers[] = {
    "bwrap", /* its death kills the command, by --die-with-parent */
    "doas",  "runuser", "script", "su", "sudo", "timeout",
};

/* --- what is known of each ---------------------------------------------------------- */

static bool is_in(uint64_t mask, int signal_number)
{
    return mask != SBX_UNKNOWN && (mask >> (signal_number - 1) & 1U) != 0;
}

static bool kills_by_default(int signal_number)
{
    return signal_number != SIGCHLD && signal_number != SIGURG &&
           signal_number != SIGWINCH && signal_number != SIGCONT;
}

static void look_at(struct sbx_member *member, int proc_fd, int signal_number)
{
    struct sbx_proc_status status;
    member->catches = false;
    member->mortal = false;
    member->spared = false;
    member->busy = false;
    member->living_children = 0;
    member->only_child = 0;
    if (sbx_member_ended(member) ||
        sbx_proc_status_at(proc_fd, member->stat.pid, &status) < 0) {
        return;
    }
    member->namespace_init = sbx_wrapper_is_namespace_init(&status);
    member->namespace_depth = status.namespace_depth;
    member->catches = is_in(status.sig_caught, signal_number);
    member->blocks = is_in(status.sig_blocked, signal_number);
    member->mortal = kills_by_default(signal_number) && !member->catches &&
                     !member->namespace_init && !is_in(status.sig_ignored, signal_number);
}

static void count_children(struct sbx_tree *tree, struct sbx_member *front)
{
    for (size_t i = 0; i < sbx_tree_count(tree); i++) {
        const struct sbx_member *member = sbx_tree_member(tree, i);
        struct sbx_member *above = sbx_wrapper_above(tree, member, front);
        if (above != NULL && !sbx_member_ended(member)) {
            above->living_children++;
            above->only_child = member->stat.pid;
        }
    }
}

/* Not who blocks it: that may be how it waits for it (sigwait, signalfd). */
static bool would_die(const struct sbx_member *member)
{
    return member->hears && member->mortal && !member->blocks;
}

/* Whether it waits for something, and that is neither a child, nor the signal that tells
 * of one, nor what a child writes (a shell's $(CMD)). Where that cannot be known, no: the
 * kernel names no function ("0") for who runs, and where it was built without names or
 * refuses to tell; and a sleep that no signal ends is for a lock or a disk, and says
 * nothing. */
static bool is_busy(const struct sbx_member *member, int proc_fd)
{
    static const char *const waits[] = {"do_wait",      "kernel_wait", "sigsuspend",
                                        "sigtimedwait", "pipe_read",   "pipe_wait"};
    struct sbx_proc_stat stat;
    char path[32];
    char name[128];
    (void)snprintf(path, sizeof path, "%d/wchan", member->stat.pid);
    SBX_AUTO_CLOSE int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, name, sizeof name - 1) : -1;
    if (length <= 0 || name[0] == '0' ||
        sbx_proc_stat_at(proc_fd, member->stat.pid, &stat) < 0 || stat.state != 'S') {
        return false;
    }
    name[length] = '\0';
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        if (strstr(name, waits[i]) != NULL) {
            return false;
        }
    }
    return true;
}

/* Before the signal is sent: who has ended waits for nobody. */
static void look_for_work(struct sbx_tree *tree, int proc_fd)
{
    for (size_t i = 0; i < sbx_tree_count(tree); i++) {
        struct sbx_member *member = sbx_tree_member(tree, i);
        if (member->hears && member->mortal && member->living_children == 1) {
            member->busy = is_busy(member, proc_fd);
        }
    }
}

/* --- who is spared ------------------------------------------------------------------ */

/* By the file that it runs; a set-user-id program does not show that to everybody. A
 * script of that name is no such launcher: it runs its interpreter. */
static bool is_launcher(const struct sbx_member *member, int proc_fd)
{
    char link[32];
    char path[EXE_PATH_SIZE];
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        if (strcmp(member->stat.name, launchers[i]) != 0) {
            continue;
        }
        (void)snprintf(link, sizeof link, "%d/exe", member->stat.pid);
        ssize_t length = readlinkat(proc_fd, link, path, sizeof path - 1);
        path[length > 0 ? length : 0] = '\0';
        const char *slash = strrchr(path, '/');
        return length <= 0 || (slash != NULL && strcmp(slash + 1, launchers[i]) == 0);
    }
    return false;
}

static bool is_reached(const struct sbx_member *member)
{
    return member->hears || member->spared;
}

static void spare(struct sbx_member *member)
{
    member->hears = false;
    member->spared = true;
}

/* From who is in a PID namespace below its parent's, up to the leader or to the first who
 * has more to look after, or acts on the signal itself. */
static void spare_above(struct sbx_tree *tree, const struct sbx_member *inside,
                        struct sbx_member *front)
{
    struct sbx_member *above = sbx_wrapper_above(tree, inside, front);
    for (int i = 0; above != NULL && i < CHAIN_MAX; i++) {
        if (above->living_children != 1 || above->catches) {
            return;
        }
        if (would_die(above)) {
            spare(above);
        }
        above = sbx_wrapper_above(tree, above, front);
    }
}

static bool is_across(struct sbx_tree *tree, const struct sbx_member *member)
{
    const struct sbx_member *parent = sbx_tree_find(tree, member->stat.ppid);
    unsigned outside = parent != NULL ? parent->namespace_depth : 1;
    return outside != 0 && member->namespace_depth > outside;
}

static void spare_launchers(struct sbx_tree *tree, int proc_fd, struct sbx_member *front)
{
    /* Children before their parents: a launcher may stand in front of another. */
    for (size_t i = sbx_tree_count(tree); i > 0; i--) {
        struct sbx_member *member = sbx_tree_member(tree, i - 1);
        const struct sbx_member *child =
            member->living_children == 1 ? sbx_tree_find(tree, member->only_child) : NULL;
        if (member->hears && child != NULL && is_reached(child) &&
            is_launcher(member, proc_fd)) {
            spare(member);
        }
        if (is_reached(member) && is_across(tree, member)) {
            spare_above(tree, member, front);
        }
    }
}

/* Nothing but launchers yet: the one of ours keeps the signal until there is a command.
 */
static void tell_opener(struct sbx_tree *tree)
{
    struct sbx_member *opener = NULL;
    for (size_t i = 0; i < sbx_tree_count(tree); i++) {
        struct sbx_member *member = sbx_tree_member(tree, i);
        if (member->hears) {
            return;
        }
        if (opener == NULL && !sbx_member_ended(member) && sbx_wrapper_opens(member)) {
            opener = member;
        }
    }
    if (opener != NULL) {
        opener->hears = true;
    }
}

void sbx_polite_choose(struct sbx_tree *tree, int proc_fd, int signal_number)
{
    size_t count = sbx_tree_count(tree);
    for (size_t i = 0; i < count; i++) {
        look_at(sbx_tree_member(tree, i), proc_fd, signal_number);
    }
    for (size_t i = 0; i < count; i++) {
        struct sbx_member *member = sbx_tree_member(tree, i);
        member->hears = !sbx_member_ended(member) && !member->launcher &&
                        (!member->namespace_init || member->catches);
    }
    struct sbx_member *front = sbx_wrapper_front(tree);
    count_children(tree, front);
    spare_launchers(tree, proc_fd, front);
    tell_opener(tree);
    look_for_work(tree, proc_fd);
}

/* --- whose end is the command's ----------------------------------------------------- */

/* The init of a namespace of ours does not go with the command, as others do. */
static bool outlives_parent(struct sbx_tree *tree, const struct sbx_member *member)
{
    const struct sbx_member *init = sbx_wrapper_init(tree);
    return member->namespace_depth <= 1 ||
           (init != NULL && init->namespace_depth == member->namespace_depth &&
            init->wrapper && strcmp(init->stat.name, SBX_NAMESPACE_INIT_NAME) == 0);
}

bool sbx_polite_waits(struct sbx_tree *tree, const struct sbx_member *member)
{
    if (!would_die(member) || member->living_children != 1 ||
        !outlives_parent(tree, member)) {
        return false;
    }
    const struct sbx_member *child = sbx_tree_find(tree, member->only_child);
    return child != NULL && child->hears && child->stat.ppid == member->stat.pid;
}

const struct sbx_member *sbx_polite_heir(struct sbx_tree *tree, pid_t leader)
{
    const struct sbx_member *heir = NULL;
    const struct sbx_member *member = sbx_tree_find(tree, leader);
    for (int i = 0; member != NULL && i < CHAIN_MAX; i++) {
        bool acts = member->hears && (member->catches || member->busy);
        if (acts || member->living_children != 1) {
            break; /* it acts itself, or looks after several: nobody speaks for it */
        }
        const struct sbx_member *child = sbx_tree_find(tree, member->only_child);
        if (child == NULL || child->stat.ppid != member->stat.pid) {
            break;
        }
        /* A shell that has just started it may still block the signal for a moment. */
        if (member->hears && member->mortal) {
            heir = child; /* an orphan soon, and so our child */
        }
        member = child;
    }
    return heir;
}
