/*
 * leaf_private.h - what the files of the leaf share. For leaf*.c alone.
 */
#ifndef SBX_CGROUP_LEAF_PRIVATE_H
#define SBX_CGROUP_LEAF_PRIVATE_H

#include "cgroup/leaf.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What a leaf's name says. */
struct sbx_leaf_name {
    uint64_t scope;
    pid_t pid;
    uint64_t start_ticks;
};

bool sbx_leaf_parse_name(const char *name, struct sbx_leaf_name *ret_name);

/* Of this process: boot, PID namespace, time namespace. 0 or a negative errno. */
int sbx_leaf_scope(uint64_t *ret_scope);

/* A directory within a leaf that says: who lives here is left on purpose. */
#define SBX_LEAF_KEPT "sbx-kept"

#endif
