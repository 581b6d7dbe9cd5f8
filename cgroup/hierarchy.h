/*
 * hierarchy.h - where the cgroup v2 hierarchy is, and where in it we are.
 *
 * Read from /proc (mountinfo, self/cgroup) by a descriptor of its root, so that captured
 * ones can be read too. A host may have it alone (pure), beside v1 hierarchies that hold
 * the controllers (hybrid), or not at all. Groups are named here as in /proc/PID/cgroup
 * as seen from the root of the mount: "/" is the mount's root, "/a/b" a group below.
 */
#ifndef SBX_CGROUP_HIERARCHY_H
#define SBX_CGROUP_HIERARCHY_H

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stddef.h>

/* The controllers that can do something for a run, as bits (1 << controller). */
enum sbx_controller {
    SBX_CONTROLLER_MEMORY = 0,
    SBX_CONTROLLER_PIDS,
    SBX_CONTROLLER_CPU,
    SBX_CONTROLLER_COUNT
};
#define SBX_CONTROLLER_BIT(controller) (1U << (unsigned)(controller))

/* "memory", "pids", "cpu". */
const char *sbx_controller_name(enum sbx_controller controller);

/* Bits of those named in a text such as "cpuset cpu io memory\n"; others are ignored. */
unsigned sbx_controllers_parse(const char *text);

#define SBX_GROUP_PATH_SIZE 4096

enum sbx_hierarchy_kind {
    SBX_HIERARCHY_NONE = 0,
    SBX_HIERARCHY_HYBRID, /* there are v1 hierarchies with controllers as well */
    SBX_HIERARCHY_PURE,
};

struct sbx_hierarchy {
    enum sbx_hierarchy_kind kind;
    unsigned held_by_v1; /* controllers that are in a v1 hierarchy, so not here */
    bool read_only;      /* the mount, as in most containers */
    char mount[SBX_GROUP_PATH_SIZE];
    /* Our own group below the mount; "" when it is not visible there. */
    char own[SBX_GROUP_PATH_SIZE];
};

/* 0, or a negative errno when /proc cannot be read. That there is no hierarchy is no
 * failure: kind NONE. Of several mounts the one is taken that shows our own group, a
 * writable one first; one that another is mounted over does not count. Only /proc is
 * read: that the directory is what it is said to be shows when a group is opened. */
int sbx_hierarchy_find(int proc_fd, struct sbx_hierarchy *ret_hierarchy,
                       struct sbx_error *err);

/* Opens a group by its path below the mount. The descriptor is O_RDONLY, close-on-exec,
 * above 2. 0 or a negative errno: -EINVAL when that is no directory of a cgroup2. */
int sbx_hierarchy_open_group(const struct sbx_hierarchy *hierarchy, const char *group,
                             int *ret_fd);

struct sbx_named_group {
    int fd; /* O_RDONLY, close-on-exec, above 2; owned */
    /* The group below the mount, or the path as given when it lies elsewhere. */
    char path[SBX_GROUP_PATH_SIZE];
};

/*
 * Opens a group that a user has named: a directory of a cgroup2 file system, or, if it
 * starts with "/" and is none, a group below the mount ("/system.slice/x.service").
 * A relative path starts at `directory_fd` (AT_FDCWD: the working directory). -EINVAL for
 * a directory that is no cgroup2 (a v1 one is named so).
 */
int sbx_hierarchy_open(const struct sbx_hierarchy *hierarchy, int directory_fd,
                       const char *path, struct sbx_named_group *ret_group,
                       struct sbx_error *err);

#endif
