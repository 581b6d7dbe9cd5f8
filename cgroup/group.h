/*
 * group.h - the cgroup of one run, from the wish to the last trace: finds the place, sees
 * to its controllers, makes and arms the leaf, and puts everything back.
 *
 * Made in the guard before the monitor is forked, so that both have it; either may close
 * it, once. What had to be switched on at the place is shared with other runs there: a
 * directory `sbx-on.CONTROLLER` beside the leaves says that it was us, and the last run
 * to leave switches it off again. If processes of ours stood in the way they move into
 * `sbx-self`, and back. All of that happens under a flock of the place's
 * cgroup.subtree_control, which is waited for with a bound.
 */
#ifndef SBX_CGROUP_GROUP_H
#define SBX_CGROUP_GROUP_H

#include "cgroup/leaf.h"
#include "cgroup/place.h"

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SBX_OURS_MAX 4

struct sbx_group_wish {
    const char *root; /* --cgroup-root, or NULL */
    int root_directory_fd;
    struct sbx_leaf_limits limits; /* as asked for; SBX_UNKNOWN: not */
    unsigned measured;             /* controllers wanted for their figures alone */
    struct sbx_owner owner;
    int ours[SBX_OURS_MAX]; /* pids that may be moved, the caller's own among them */
    size_t ours_count;
};

struct sbx_group {
    struct sbx_leaf leaf; /* leaf.fd is -1 when there is none */
    struct sbx_place place;
    int home_fd; /* the group of whoever made the leaf; -1: not known */
    char path[SBX_GROUP_PATH_SIZE]; /* of the leaf, in the file system */
    struct sbx_leaf_limits armed;   /* as read back; SBX_UNKNOWN: not armed */
    char why_none[SBX_WHY_SIZE];    /* why there is no leaf */
};

/* No leaf, nothing armed. */
void sbx_group_init(struct sbx_group *group);

/*
 * 0: there is a leaf, or none could be made (leaf.fd is -1, why_none says why): a limit
 * whose controller cannot be had is left out of `armed`, and place.why tells why. What
 * can be armed is armed exactly, or -errno, stage arm; then nothing is left behind. Also
 * -errno when --cgroup-root is no place for a leaf.
 */
int sbx_group_open(int proc_fd, const struct sbx_group_wish *wish,
                   struct sbx_group *ret_group, struct sbx_error *err);

/*
 * Takes the leaf away and puts the place back, if we are the last there. The leaf must be
 * empty (or is `kept`: then it stays, and only the descriptors go). 0, or a negative
 * errno when something of ours is left: group->path tells what. Call it in one process;
 * the descriptors of the others are closed with sbx_group_drop.
 */
int sbx_group_close(struct sbx_group *group, bool kept);

/*
 * A process that is not of the run may have been moved into the leaf, or below it, by the
 * command: it goes to the group of whoever made the leaf. 1: it was there; 0: it was not;
 * or a negative errno, and it still is there. What may be frozen with the leaf must not
 * be what is to thaw it.
 */
int sbx_group_recall(const struct sbx_group *group, int proc_fd, pid_t pid);

/* Closes the descriptors and changes nothing. */
void sbx_group_drop(struct sbx_group *group);

#endif
