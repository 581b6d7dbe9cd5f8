/*
 * ancestors.h - whose OOM killer it was. The limits above a leaf have counters of their
 * own; what they stood at before the launch is compared with what they show after an OOM
 * kill.
 */
#ifndef SBX_CGROUP_ANCESTORS_H
#define SBX_CGROUP_ANCESTORS_H

#include "cgroup/hierarchy.h"

#include <stddef.h>
#include <stdint.h>

#define SBX_ANCESTORS_MAX 32

struct sbx_ancestors {
    size_t count; /* from the parent upwards; only those with memory.events.local */
    int fds[SBX_ANCESTORS_MAX];
    uint64_t oom[SBX_ANCESTORS_MAX]; /* when it was opened */
    int depth[SBX_ANCESTORS_MAX];    /* how many components of the path it has */
};

/* Holds the counters of the groups above the one at `path` below the mount. */
void sbx_ancestors_open(const char *mount, const char *path,
                        struct sbx_ancestors *ret_ancestors);

/* The nearest one whose own limit was hit since: how many components its path has (0: the
 * root). -1: none of them, so it was the host's. */
int sbx_ancestors_blame(const struct sbx_ancestors *ancestors);

void sbx_ancestors_close(struct sbx_ancestors *ancestors);

#endif
