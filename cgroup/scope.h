/*
 * scope.h - what runs at one place share: controllers that one of them has switched on
 * there, and the group into which processes of ours have moved for it. The state lies in
 * the place itself, as directories, so that it outlives everybody; it is changed under a
 * flock of the place's cgroup.subtree_control. Inside of this room: see group.h.
 */
#ifndef SBX_CGROUP_SCOPE_H
#define SBX_CGROUP_SCOPE_H

#include "cgroup/place.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A descriptor that holds the lock until it is closed, or a negative errno: -ETIMEDOUT
 * when somebody else has it all that time (anybody can who may open that file). */
int sbx_scope_lock(int place_fd, uint64_t bound_us);

/* Whether something there was changed by a run of ours, this one or another. */
bool sbx_scope_is_changed(int place_fd);

/* Of those controllers: the ones that are on because of a run of ours. */
unsigned sbx_scope_marked(int place_fd, unsigned controllers);

/* Those that are on for the place's children, whoever did it; 0 when that cannot be read.
 */
unsigned sbx_scope_on(int place_fd);

/* 1: a leaf of a run, whoever's, is at the place; 0; or a negative errno. */
int sbx_scope_has_leaves(int place_fd);

/* With the lock: switches on what is needed for the place's children. Processes of ours
 * that are in the way move. What fails is undone, and told in place->why. */
void sbx_scope_switch_on(struct sbx_place *place, unsigned needed, const int *ours,
                         size_t ours_count);

/* With the lock: if no leaf of a run is left at the place, makes it as it was. 0, also
 * when others are still there, or a negative errno: something could not be undone. */
int sbx_scope_restore(int place_fd);

#endif
