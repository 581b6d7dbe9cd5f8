/*
 * made.h - the group that --cgroup-root names when it is not there yet: root's runs make
 * it, and the last of them takes it away. A directory `sbx-made` in it says that it was a
 * run; like the rest of what runs share (scope.h) it outlives each of them, and is looked
 * at under the flock of the group's directory. Inside of this room: see group.h.
 */
#ifndef SBX_CGROUP_MADE_H
#define SBX_CGROUP_MADE_H

#include <sbx/sbx.h>
#include <stdbool.h>

struct sbx_made_wish {
    const char *root; /* --cgroup-root */
    int root_directory_fd;
    unsigned wanted; /* controllers */
};

/*
 * 1: made, with those of the wanted controllers that its parent has on for its children;
 * 0: it is there, or it is not ours to make (no root, no parent, no cgroup2): looking for
 * the place will tell. Or a negative errno; then there is none. With 1, *ret_fd is its
 * directory.
 */
int sbx_made_open(int proc_fd, const struct sbx_made_wish *wish, int *ret_fd,
                  struct sbx_error *err);

/* Whether the group could be made, or is there: so that it is not may be because another
 * run has taken it away just now. */
bool sbx_made_is_possible(int proc_fd, const char *root, int directory_fd);

/* Whether a run has made the group. */
bool sbx_made_is_marked(int place_fd);

/* With the lock: the group goes, if a run has made it and nobody and nothing else is in
 * it. 0, also when it stays for others, or a negative errno. */
int sbx_made_take_away(int place_fd);

#endif
