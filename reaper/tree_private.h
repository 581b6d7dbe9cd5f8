/*
 * tree_private.h - a tree as tree.c (the walk, and trees below the calling process) and
 * attached.c (trees that somebody else started) share it. For these two alone.
 */
#ifndef SBX_REAPER_TREE_PRIVATE_H
#define SBX_REAPER_TREE_PRIVATE_H

#include "reaper/members.h"
#include "reaper/scan.h"
#include "reaper/tree.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct relation {
    pid_t pid;
    pid_t ppid;
};

struct sbx_attached;

struct sbx_tree {
    int proc_fd;
    pid_t self;
    int self_children_fd; /* -1: no such file on this kernel */
    struct sbx_members members;

    uint64_t deadline_us;
    uint32_t generation;
    size_t new_count;
    pid_t hidden_pid;      /* met in the walk under way; 0: none */
    pid_t hidden_once_pid; /* in whichever walk */
    bool passes_over_hidden;
    uint64_t total_count;

    const struct sbx_tree_hooks *hooks; /* of the walk under way */

    struct sbx_scan *scan; /* NULL: descent by children files */
    struct relation *relations;
    size_t relation_count;
    size_t relation_capacity;

    struct sbx_attached *attached; /* NULL: the root is the calling process */
};

/* --- tree.c --- */

/* Reads a process and makes it a member if it belongs to the tree. -ESRCH: it does not,
 * or is gone. */
int sbx_tree_add(struct sbx_tree *tree, pid_t pid, uint32_t *ret_slot);

/* A pid that may be a member's (context: the tree): known, or added; enlisted once in a
 * walk. 0, or a negative errno that ends the walk. */
int sbx_tree_admit(pid_t pid, void *context);

/* The children of all members that are enlisted, from *next on. */
int sbx_tree_expand_from(struct sbx_tree *tree, uint32_t *next);

/* In scan mode: who is whose child, now. */
int sbx_tree_scan_host(struct sbx_tree *tree, struct sbx_error *err);

/* --- attached.c: for trees that have `attached` --- */

void sbx_attached_free(struct sbx_attached *attached);

/* Whether a process that is no member yet, and was just read, is one. */
bool sbx_attached_takes(const struct sbx_tree *tree, const struct sbx_proc_stat *stat);

/* Whether a source names the members: nobody is looked for. */
bool sbx_attached_follows(const struct sbx_tree *tree);

/* The beginning of a walk: members without a parent among the members. */
int sbx_attached_start(struct sbx_tree *tree);

/* The end of a walk: whom descent does not tell. */
int sbx_attached_finish(struct sbx_tree *tree, uint32_t *next);

/* A member was read in this walk; one is about to be forgotten. */
void sbx_attached_enlisted(struct sbx_tree *tree, uint32_t slot);
void sbx_attached_vanished(struct sbx_tree *tree, uint32_t slot);

#endif
