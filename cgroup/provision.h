/*
 * provision.h - groups that somebody sets up, rather than a run: made, bounded, filled
 * and taken away by name, each step read back. And where libcgroup sees the hierarchy, as
 * a cross-check of our own reader.
 *
 * libcgroup does what it does well, where it is installed and sees the controllers in
 * this very cgroup2 mount; else the same file is written directly. It is loaded when
 * something here is called, never for a plain run, and never believed: what counts is
 * what our own reading shows afterwards.
 *
 * `mount` is the directory of a cgroup2 mount, `group` a group below it ("/a/b"), without
 * "." and "..". All functions return 0 or a negative errno, stage arm. Not for several
 * threads.
 */
#ifndef SBX_CGROUP_PROVISION_H
#define SBX_CGROUP_PROVISION_H

#include "cgroup/hierarchy.h"

#include <sbx/sbx.h>
#include <stdbool.h>
#include <sys/types.h>

/* The library is there and initialised (which happens once in a process: mounts that come
 * later it does not see). -ELIBACC when it cannot be loaded. */
int sbx_provision_available(struct sbx_error *err);

/* What libcgroup sees. It knows mounts by their controllers alone: a cgroup2 without any
 * is invisible to it, mount is "" then. */
struct sbx_provision_view {
    enum sbx_hierarchy_kind kind;
    unsigned controllers; /* that the cgroup2 hierarchy has */
    unsigned held_by_v1;
    char mount[SBX_GROUP_PATH_SIZE];
};
int sbx_provision_find(struct sbx_provision_view *ret_view, struct sbx_error *err);

/*
 * Makes a group whose parent is there. With controllers (bits) it is root's alone, and
 * all groups above must have them on for their children already: nothing is switched on
 * there; -EOPNOTSUPP names the file and the remedy. -EEXIST when the group is there. On
 * failure there is no group.
 */
int sbx_provision_create(const char *mount, const char *group, unsigned controllers,
                         struct sbx_error *err);

/* Writes a limit ("memory.max") and reads it back. A memory limit may come back rounded
 * down to pages; if it is anything else the old one is put back. Files of the core
 * ("cgroup.…") are no limits: -EINVAL. */
int sbx_provision_limit(const char *mount, const char *group, const char *file,
                        const char *value, struct sbx_error *err);

/* Moves a process into the group, and looks whether it is there. -ESRCH when it is gone.
 */
int sbx_provision_attach(const char *mount, const char *group, pid_t pid,
                         struct sbx_error *err);

/* Takes a group away that is empty and has no groups below: -EBUSY else, and then nothing
 * has changed. -ENOENT when there is none. */
int sbx_provision_remove(const char *mount, const char *group, struct sbx_error *err);

#endif
