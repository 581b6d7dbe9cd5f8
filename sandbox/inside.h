/*
 * inside.h - what a path means inside of a planned sandbox: followed component by
 * component through what the plan mounts, the links of the sandbox and the links of the
 * files shown in it. So a question such as "does this lie in a bind once all links are
 * followed" is answered about the sandbox, not about the host.
 *
 * Looks at the host's files with lstat and readlink; changes nothing.
 */
#ifndef SBX_SANDBOX_INSIDE_H
#define SBX_SANDBOX_INSIDE_H

#include "sandbox/plan.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct sbx_inside {
    char path[PATH_MAX]; /* without links; where it stops existing, the rest as it
                            was, ".." resolved */
    const struct sbx_mount *mount; /* what it lies in; NULL: the sandbox's root */
    bool exists;
    mode_t mode;         /* of what exists: its type is what counts */
    char host[PATH_MAX]; /* the file on the host, where the mount is a bind; else "" */
};

/* 0, or -ELOOP, -ENAMETOOLONG, -EACCES and what else lstat has to say but ENOENT. `path`
 * is absolute and tidy. */
int sbx_inside(const struct sbx_plan *plan, const char *path, struct sbx_inside *ret);

#endif
