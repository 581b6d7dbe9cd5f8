/*
 * group.c - see group.h.
 */
#include "cgroup/group.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "cgroup/hierarchy.h"
#include "cgroup/made.h"
#include "cgroup/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#define UNKNOWN UINT64_MAX
#define STALE_BOUND_US 200000U
#define LOCK_BOUND_US 2000000U
#define REMOVE_BOUND_US 2000000U
/* How long the group of --cgroup-root is made again when another run has taken it away.
 */
#define VANISH_BOUND_US 2000000U
#define VANISH_PAUSE_NS 200000L

static const struct sbx_leaf_limits no_limits = {UNKNOWN, UNKNOWN, false, UNKNOWN,
                                                 UNKNOWN};

static unsigned needed_for(const struct sbx_leaf_limits *limits)
{
    unsigned needed = 0;
    if (limits->memory_bytes != UNKNOWN) {
        needed |= SBX_CONTROLLER_BIT(SBX_CONTROLLER_MEMORY);
    }
    if (limits->threads_count != UNKNOWN) {
        needed |= SBX_CONTROLLER_BIT(SBX_CONTROLLER_PIDS);
    }
    if (limits->cpu_percent != UNKNOWN) {
        needed |= SBX_CONTROLLER_BIT(SBX_CONTROLLER_CPU);
    }
    return needed;
}

static void forbid(struct sbx_group *group, enum sbx_controller controller,
                   const char *why)
{
    group->leaf.controllers &= ~SBX_CONTROLLER_BIT(controller);
    if (group->place.why[controller][0] == '\0') {
        (void)snprintf(group->place.why[controller], SBX_WHY_SIZE, "%s", why);
    }
}

/* Makes the leaf with what it needs. Controllers are switched on for limits alone: for a
 * mere figure nothing is changed. */
static int make(struct sbx_group *group, const struct sbx_group_wish *wish,
                struct sbx_error *err)
{
    struct sbx_place *place = &group->place;
    unsigned needed = needed_for(&wish->limits);
    (void)sbx_leaf_sweep_stale(place->fd, &wish->owner, STALE_BOUND_US);
    /* Anybody who may open its file can hold the lock: not needed, not asked for. */
    unsigned missing = needed & (place->on | place->offered) & ~sbx_scope_on(place->fd);
    if (missing == 0 && !sbx_scope_is_changed(place->fd)) {
        return sbx_leaf_make(place, &wish->owner, &group->leaf, err);
    }
    SBX_AUTO_CLOSE int lock = sbx_scope_lock(place->fd, LOCK_BOUND_US);
    if (lock >= 0) {
        (void)sbx_scope_restore(place->fd); /* what runs that were killed have left */
        sbx_scope_switch_on(place, needed, wish->ours, wish->ours_count);
    }
    int r = sbx_leaf_make(place, &wish->owner, &group->leaf, err);
    if (r < 0 || lock >= 0) {
        return r;
    }
    /* Without the lock what runs of ours have switched on may go at any moment. */
    unsigned lost =
        sbx_scope_marked(place->fd, ~0U) | (needed & ~group->leaf.controllers);
    for (unsigned i = 0; i < SBX_CONTROLLER_COUNT; i++) {
        if ((lost & SBX_CONTROLLER_BIT(i)) != 0) {
            forbid(group, (enum sbx_controller)i,
                   "somebody keeps cgroup.subtree_control of the group locked (flock)");
        }
    }
    return 0;
}

/* What of the wish the leaf can do. */
static struct sbx_leaf_limits possible(struct sbx_group *group,
                                       const struct sbx_leaf_limits *wanted)
{
    unsigned missing = needed_for(wanted) & ~group->leaf.controllers;
    for (unsigned i = 0; i < SBX_CONTROLLER_COUNT; i++) {
        if ((missing & SBX_CONTROLLER_BIT(i)) != 0) {
            forbid(group, (enum sbx_controller)i,
                   "not in the group's cgroup.controllers");
        }
    }
    struct sbx_leaf_limits limits = *wanted;
    struct sysinfo host;
    bool swaps = sysinfo(&host) < 0 || host.totalswap > 0;
    if ((group->leaf.controllers & SBX_CONTROLLER_BIT(SBX_CONTROLLER_MEMORY)) != 0 &&
        swaps && faccessat(group->leaf.fd, "memory.swap.max", F_OK, 0) < 0) {
        forbid(group, SBX_CONTROLLER_MEMORY, "no memory.swap.max: swap is not accounted");
    }
    if ((group->leaf.controllers & SBX_CONTROLLER_BIT(SBX_CONTROLLER_MEMORY)) == 0) {
        limits.memory_bytes = UNKNOWN;
        limits.swap_bytes = UNKNOWN;
    }
    if ((group->leaf.controllers & SBX_CONTROLLER_BIT(SBX_CONTROLLER_PIDS)) == 0) {
        limits.threads_count = UNKNOWN;
    }
    if ((group->leaf.controllers & SBX_CONTROLLER_BIT(SBX_CONTROLLER_CPU)) == 0) {
        limits.cpu_percent = UNKNOWN;
    }
    return limits;
}

static void note_path(struct sbx_group *group)
{
    char link[64];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", group->leaf.fd);
    ssize_t length = readlink(link, group->path, sizeof group->path - 1);
    if (length < 0) {
        length = snprintf(group->path, sizeof group->path, "%s", group->leaf.name);
    }
    group->path[length] = '\0';
}

static int put_back(int place_fd);

/* Finds the place; that of --cgroup-root is made for root when it is not there. */
static int find_place(int proc_fd, const struct sbx_group_wish *wish,
                      struct sbx_group *group, struct sbx_error *err)
{
    const unsigned wanted = wish->measured | needed_for(&wish->limits);
    const struct sbx_place_request request = {.root = wish->root,
                                              .root_directory_fd =
                                                  wish->root_directory_fd,
                                              .wanted = wanted,
                                              .ours = wish->ours,
                                              .ours_count = wish->ours_count};
    const struct sbx_made_wish made = {wish->root, wish->root_directory_fd, wanted};
    SBX_AUTO_CLOSE int made_fd = -1;
    int r = wish->root == NULL ? 0 : sbx_made_open(proc_fd, &made, &made_fd, err);
    if (r < 0) {
        return r;
    }
    r = sbx_place_find(proc_fd, &request, &group->place, group->why_none, err);
    if (r <= 0 && made_fd >= 0) {
        (void)put_back(made_fd);
    }
    return r;
}

/* The place, and the leaf in it. 1; 0: no place; or a negative errno: of the place, with
 * err, or of the leaf (then there is a place), with *refused. */
static int find_and_make(int proc_fd, const struct sbx_group_wish *wish,
                         struct sbx_group *group, struct sbx_error *refused,
                         struct sbx_error *err)
{
    const struct timespec moment = {.tv_nsec = VANISH_PAUSE_NS};
    uint64_t until = sbx_clock_add(sbx_clock_us(), VANISH_BOUND_US);
    for (;;) {
        struct sbx_error failure = {0};
        int r = find_place(proc_fd, wish, group, &failure);
        r = r <= 0 ? r : make(group, wish, refused);
        bool vanished =
            (r == -ENOENT || r == -ENODEV) && wish->root != NULL &&
            sbx_made_is_possible(proc_fd, wish->root, wish->root_directory_fd);
        if (!vanished || sbx_clock_us() >= until) {
            if (r < 0 && group->place.fd < 0 && err != NULL) {
                *err = failure;
            }
            return r == 0 && group->place.fd >= 0 ? 1 : r;
        }
        sbx_group_drop(group);
        (void)nanosleep(&moment, NULL);
    }
}

/* After processes of ours have moved for the leaf. */
static void note_home(struct sbx_group *group, int proc_fd)
{
    struct sbx_hierarchy hierarchy;
    if (sbx_hierarchy_find(proc_fd, &hierarchy, NULL) == 0 && hierarchy.own[0] != '\0') {
        (void)sbx_hierarchy_open_group(&hierarchy, hierarchy.own, &group->home_fd);
    }
}

void sbx_group_init(struct sbx_group *group)
{
    memset(group, 0, sizeof *group);
    group->leaf.fd = -1;
    group->place.fd = -1;
    group->home_fd = -1;
    group->armed = no_limits;
}

int sbx_group_open(int proc_fd, const struct sbx_group_wish *wish,
                   struct sbx_group *ret_group, struct sbx_error *err)
{
    struct sbx_group *group = ret_group;
    struct sbx_error refused = {0};
    sbx_group_init(group);
    int r = find_and_make(proc_fd, wish, group, &refused, err);
    if (r == 0 || (r < 0 && group->place.fd < 0)) {
        return r;
    }
    if (r < 0) {
        /* There is none, with whatever comes of that. What was changed for it goes. */
        (void)snprintf(group->why_none, sizeof group->why_none, "%.*s", SBX_WHY_SIZE - 1,
                       refused.message);
        (void)sbx_group_close(group, false);
        return wish->root == NULL
                   ? 0
                   : sbx_error_set(err, -r, SBX_STAGE_ARM, "--cgroup-root %.120s: %s",
                                   wish->root, group->why_none);
    }
    note_path(group);
    note_home(group, proc_fd);
    struct sbx_leaf_limits limits = possible(group, &wish->limits);
    r = sbx_leaf_arm(&group->leaf, &limits, &group->armed, err);
    if (r < 0) {
        (void)sbx_group_close(group, false);
    }
    return r;
}

static bool is_to_put_back(int place_fd)
{
    return sbx_scope_is_changed(place_fd) || sbx_made_is_marked(place_fd);
}

static int put_back(int place_fd)
{
    if (!is_to_put_back(place_fd)) {
        return 0;
    }
    SBX_AUTO_CLOSE int lock = sbx_scope_lock(place_fd, LOCK_BOUND_US);
    if (!is_to_put_back(place_fd)) {
        return 0; /* another run was quicker; the place may be gone */
    }
    if (lock < 0) {
        return sbx_scope_has_leaves(place_fd) == 1 ? 0 : lock; /* another is the last */
    }
    int r = sbx_scope_restore(place_fd);
    return r < 0 ? r : sbx_made_take_away(place_fd);
}

int sbx_group_close(struct sbx_group *group, bool kept)
{
    int r = 0;
    if (group->leaf.fd >= 0) {
        /* Who is in it now does not die: he is named already, and not worth a wait. */
        bool stays = !kept && sbx_leaf_populated(group->leaf.fd) == 1;
        r = kept ? sbx_leaf_mark_kept(group->leaf.fd)
                 : sbx_leaf_remove(group->place.fd, group->leaf.name,
                                   stays ? 0 : REMOVE_BOUND_US);
    }
    if (group->place.fd >= 0 && !kept) {
        int back = put_back(group->place.fd);
        char *name = strrchr(group->path, '/');
        if (r == 0 && back < 0 && name != NULL) {
            *name = '\0'; /* the leaf is gone, what is left is at the place */
        }
        r = r < 0 ? r : back;
    }
    sbx_group_drop(group);
    return r;
}

/* By the name, which no other group has. */
static int is_in_leaf(const struct sbx_group *group, int proc_fd, pid_t pid)
{
    char file[32];
    char text[2 * SBX_GROUP_PATH_SIZE]; /* the groups of all hierarchies */
    (void)snprintf(file, sizeof file, "%d/cgroup", (int)pid);
    ssize_t length = sbx_fd_read_text_at(proc_fd, file, text, sizeof text);
    return length < 0 ? (int)length : strstr(text, group->leaf.name) != NULL;
}

int sbx_group_recall(const struct sbx_group *group, int proc_fd, pid_t pid)
{
    char text[32];
    int r = group->leaf.fd >= 0 ? is_in_leaf(group, proc_fd, pid) : 0;
    if (r <= 0) {
        return r;
    }
    if (group->home_fd < 0) {
        return -ENODEV;
    }
    SBX_AUTO_CLOSE int fd = openat(group->home_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    (void)snprintf(text, sizeof text, "%d", (int)pid);
    r = fd < 0 ? -errno : sbx_fd_write_all(fd, text, strlen(text));
    return r < 0 ? r : 1;
}

void sbx_group_drop(struct sbx_group *group)
{
    sbx_fd_drop(&group->home_fd);
    sbx_fd_drop(&group->leaf.fd);
    sbx_place_done(&group->place);
}
