/*
 * place.h - below which group the leaf of a run can be made, and which controllers it
 * would have there.
 *
 * The nearest one counts: our own group, then its ancestors, as long as we may write
 * there. The climb ends below a group that carries a limit (memory.max, memory.high,
 * memory.swap.max, pids.max, cpu.max, io.max, cpuset.cpus, cpuset.mems): a run must not
 * get away from a bound that somebody has set for us. And it ends at the leaf of another
 * run, which must not lose a member. Of the places that are left, the nearest with all
 * wanted controllers is taken, else the nearest with most of them. With --cgroup-root
 * there is that one place.
 *
 * Only looks: nothing is changed here.
 */
#ifndef SBX_CGROUP_PLACE_H
#define SBX_CGROUP_PLACE_H

#include "cgroup/hierarchy.h"

#include <sbx/sbx.h>
#include <stdbool.h>

#define SBX_WHY_SIZE 200

struct sbx_place {
    int fd; /* the directory, O_RDONLY | O_DIRECTORY; owned; above 2 */
    char path[SBX_GROUP_PATH_SIZE];
    unsigned on;      /* controllers that its children have already */
    unsigned offered; /* others that could be switched on for its children */
    /* To switch them on, processes of ours must leave the group (a group has either
     * processes or children with controllers). Nobody else is in it. */
    bool must_leave;
    bool is_own; /* we are in it */
    /* Of each controller that cannot be had: why, as the end of a message, with the file
     * where one is to blame: "not in /lane/cgroup.controllers". Else "". */
    char why[SBX_CONTROLLER_COUNT][SBX_WHY_SIZE];
};

struct sbx_place_request {
    const char *root;      /* --cgroup-root; NULL: none */
    int root_directory_fd; /* where a relative one starts */
    unsigned wanted;       /* controllers */
    /* Processes of ours that may have to leave our own group. */
    const int *ours; /* pids */
    size_t ours_count;
};

/*
 * 1 and *ret_place, or 0 when no leaf can be made anywhere (ret_why says why, as the end
 * of a message), or a negative errno: --cgroup-root is no place for one, /proc cannot be
 * read.
 */
int sbx_place_find(int proc_fd, const struct sbx_place_request *request,
                   struct sbx_place *ret_place, char ret_why[static SBX_WHY_SIZE],
                   struct sbx_error *err);

void sbx_place_done(struct sbx_place *place);

#endif
