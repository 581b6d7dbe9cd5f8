/*
 * members.c - see members.h. The hash is open addressing with linear probing and is at
 * most a quarter full, so that a probe is short and a removal closes its gap at once.
 */
#include "reaper/members.h"

#include "base/fd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 64U
#define HASH_FACTOR 4U /* hash entries for each slot */

static uint32_t hash_size(const struct sbx_members *members)
{
    return members->capacity * HASH_FACTOR;
}

static uint32_t hash_home(const struct sbx_members *members, pid_t pid)
{
    return ((uint32_t)pid * 2654435761U) & (hash_size(members) - 1U);
}

/* Index in the hash of pid, or of the free entry where it would go. */
static uint32_t hash_probe(const struct sbx_members *members, pid_t pid)
{
    uint32_t mask = hash_size(members) - 1U;
    uint32_t at = hash_home(members, pid);
    while (members->hash[at] != SBX_NO_SLOT &&
           members->slots[members->hash[at]].stat.pid != pid) {
        at = (at + 1U) & mask;
    }
    return at;
}

static void hash_remove(struct sbx_members *members, pid_t pid)
{
    uint32_t mask = hash_size(members) - 1U;
    uint32_t hole = hash_probe(members, pid);
    if (members->hash[hole] == SBX_NO_SLOT) {
        return;
    }
    members->hash[hole] = SBX_NO_SLOT;
    /* Linear probing: entries behind the hole that it cut off from their home move up. */
    for (uint32_t at = (hole + 1U) & mask; members->hash[at] != SBX_NO_SLOT;
         at = (at + 1U) & mask) {
        uint32_t home = hash_home(members, members->slots[members->hash[at]].stat.pid);
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            members->hash[hole] = members->hash[at];
            members->hash[at] = SBX_NO_SLOT;
            hole = at;
        }
    }
}

static int grow(struct sbx_members *members)
{
    uint32_t capacity = members->capacity == 0 ? FIRST_CAPACITY : members->capacity * 2U;
    struct sbx_member *slots = realloc(members->slots, capacity * sizeof *slots);
    if (slots == NULL) {
        return -ENOMEM;
    }
    members->slots = slots;
    uint32_t *order = realloc(members->order, capacity * sizeof *order);
    if (order == NULL) {
        return -ENOMEM;
    }
    members->order = order;
    bool *used = realloc(members->used, capacity * sizeof *used);
    if (used == NULL) {
        return -ENOMEM;
    }
    members->used = used;
    uint32_t *hash = malloc((size_t)capacity * HASH_FACTOR * sizeof *hash);
    if (hash == NULL) {
        return -ENOMEM;
    }
    free(members->hash);
    members->hash = hash;
    memset(used + members->capacity, 0, (capacity - members->capacity) * sizeof *used);
    memset(hash, 0xff, (size_t)capacity * HASH_FACTOR * sizeof *hash);
    members->free_hint = members->capacity;
    members->capacity = capacity;
    for (uint32_t slot = 0; slot < capacity; slot++) {
        if (used[slot]) {
            hash[hash_probe(members, slots[slot].stat.pid)] = slot;
        }
    }
    return 0;
}

static int take_slot(struct sbx_members *members, uint32_t *ret_slot)
{
    if (members->live == members->capacity) {
        int r = grow(members);
        if (r < 0) {
            return r;
        }
    }
    uint32_t slot = members->free_hint;
    while (members->used[slot & (members->capacity - 1U)]) {
        slot++;
    }
    slot &= members->capacity - 1U;
    members->used[slot] = true;
    members->free_hint = slot + 1U;
    members->live++;
    *ret_slot = slot;
    return 0;
}

int sbx_members_keep(struct sbx_members *members, int fd)
{
    if (fd >= 0 && members->fd_budget > 0) {
        members->fd_budget--;
    }
    return fd;
}

void sbx_members_drop(struct sbx_members *members, int *fd)
{
    if (*fd >= 0) {
        sbx_fd_drop(fd);
        members->fd_budget++;
    }
}

int sbx_members_add(struct sbx_members *members, const struct sbx_member *member,
                    uint32_t *ret_slot)
{
    uint32_t slot = 0;
    int r = take_slot(members, &slot);
    if (r < 0) {
        return r;
    }
    members->slots[slot] = *member;
    members->slots[slot].order_index = SBX_NO_SLOT;
    members->hash[hash_probe(members, member->stat.pid)] = slot;
    *ret_slot = slot;
    return 0;
}

void sbx_members_restart(struct sbx_members *members)
{
    members->order_count = 0;
}

void sbx_members_enlist(struct sbx_members *members, uint32_t slot)
{
    members->slots[slot].order_index = members->order_count;
    members->order[members->order_count++] = slot;
}

static void take_out_of_order(struct sbx_members *members, uint32_t slot)
{
    uint32_t index = members->slots[slot].order_index;
    if (index >= members->order_count || members->order[index] != slot) {
        return;
    }
    uint32_t last = members->order[--members->order_count];
    members->order[index] = last;
    members->slots[last].order_index = index;
}

void sbx_members_forget(struct sbx_members *members, uint32_t slot)
{
    struct sbx_member *member = &members->slots[slot];
    sbx_members_drop(members, &member->stat_fd);
    sbx_members_drop(members, &member->children_fd);
    take_out_of_order(members, slot);
    hash_remove(members, member->stat.pid);
    members->used[slot] = false;
    members->free_hint = slot;
    members->live--;
}

uint32_t sbx_members_find(const struct sbx_members *members, pid_t pid)
{
    return members->capacity == 0 ? SBX_NO_SLOT : members->hash[hash_probe(members, pid)];
}

int sbx_members_init(struct sbx_members *members, size_t fd_budget)
{
    memset(members, 0, sizeof *members);
    members->fd_budget = fd_budget;
    return grow(members);
}

void sbx_members_done(struct sbx_members *members)
{
    for (uint32_t slot = 0; members->used != NULL && slot < members->capacity; slot++) {
        if (members->used[slot]) {
            sbx_fd_drop(&members->slots[slot].stat_fd);
            sbx_fd_drop(&members->slots[slot].children_fd);
        }
    }
    free(members->slots);
    free(members->used);
    free(members->hash);
    free(members->order);
    memset(members, 0, sizeof *members);
}
