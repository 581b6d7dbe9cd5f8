/*
 * members.h - the table of members: slots that stay where they are while others come and
 * go, found by pid, and listed in the order of the last walk. For tree.c alone.
 *
 * Allocates only when it grows. Knows nothing of /proc; it closes the descriptors of a
 * member that is forgotten.
 */
#ifndef SBX_REAPER_MEMBERS_H
#define SBX_REAPER_MEMBERS_H

#include "reaper/tree.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SBX_NO_SLOT UINT32_MAX

struct sbx_members {
    struct sbx_member *slots; /* moves when the table grows */
    bool *used;
    uint32_t *hash;
    uint32_t *order;   /* slots of the last walk, breadth first */
    uint32_t capacity; /* of slots, used and order; a power of two */
    uint32_t free_hint;
    uint32_t live; /* used slots */
    uint32_t order_count;
    size_t fd_budget; /* descriptors that may still be kept */
};

/* 0 or -ENOMEM. */
int sbx_members_init(struct sbx_members *members, size_t fd_budget);
void sbx_members_done(struct sbx_members *members);

/* The slot of pid, or SBX_NO_SLOT. */
uint32_t sbx_members_find(const struct sbx_members *members, pid_t pid);

/* Puts a copy of *member (its stat.pid is not in the table yet) into a free slot. 0 or
 * -ENOMEM. */
int sbx_members_add(struct sbx_members *members, const struct sbx_member *member,
                    uint32_t *ret_slot);

/* Closes its descriptors and frees its slot; takes it out of the order. */
void sbx_members_forget(struct sbx_members *members, uint32_t slot);

/* Starts a new order; appends a slot to it. */
void sbx_members_restart(struct sbx_members *members);
void sbx_members_enlist(struct sbx_members *members, uint32_t slot);

/* A descriptor that is to be kept for a member: counts it if it is one. Returns it. */
int sbx_members_keep(struct sbx_members *members, int fd);
/* Closes and uncounts a kept descriptor; -1 is allowed. */
void sbx_members_drop(struct sbx_members *members, int *fd);

#endif
