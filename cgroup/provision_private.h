/*
 * provision_private.h - our own reading and writing of groups that are named by a path,
 * which is what provision.c believes instead of the library. For provision*.c alone.
 */
#ifndef SBX_CGROUP_PROVISION_PRIVATE_H
#define SBX_CGROUP_PROVISION_PRIVATE_H

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stddef.h>

#define SBX_PROVISION_TEXT_SIZE 1024
#define SBX_PROVISION_DEPTH_MAX 32

/* "MOUNT/GROUP/FILE", for messages; the end of it when it is long. */
struct sbx_provision_name {
    char text[160];
};
struct sbx_provision_name sbx_provision_where(const char *mount, const char *group,
                                              const char *file);

bool sbx_provision_is_cgroup2(int fd);

/* Opens the parent of a group: the descriptor, or a negative errno. *ret_name is the last
 * part of `group`. */
int sbx_provision_open_parent(const char *mount, const char *group, const char **ret_name,
                              struct sbx_error *err);

/* The group itself. */
int sbx_provision_open_group(const char *mount, const char *group, struct sbx_error *err);

/* The bits of those that a file lists; none when it cannot be read. */
unsigned sbx_provision_controllers(int fd, const char *file);

int sbx_provision_write(int fd, const char *file, const char *text);

/* What the groups above have on for their children, from the mount's root downwards. */
struct sbx_provision_above {
    size_t count;
    char text[SBX_PROVISION_DEPTH_MAX][SBX_PROVISION_TEXT_SIZE];
};
int sbx_provision_read_above(const char *mount, const char *group,
                             struct sbx_provision_above *ret_above,
                             struct sbx_error *err);

/* All of them are on in every group above, so the library has nothing to switch on. */
int sbx_provision_check_above(const char *mount, const char *group, unsigned controllers,
                              const struct sbx_provision_above *above,
                              struct sbx_error *err);

/* The group has what was asked for, and nothing above it has changed. */
int sbx_provision_verify(const char *mount, const char *group, unsigned controllers,
                         const struct sbx_provision_above *before, struct sbx_error *err);

#endif
