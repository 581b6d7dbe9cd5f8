/*
 * plan.h - exactly what a sandbox will be: what is mounted where and why, the arguments
 * of bubblewrap, names of the environment, ceilings, filter. A value: made once (plan.c),
 * never changed, read by the launch, the JSON of it and everybody who wants to know.
 *
 * Making it looks at the named paths and changes nothing. What it has found may have
 * changed by the launch: that opens each source anew, without following any link, and
 * refuses what is not what was planned.
 */
#ifndef SBX_SANDBOX_PLAN_H
#define SBX_SANDBOX_PLAN_H

#include "sandbox/sandbox.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What lies at a place inside. The order of the list is that of the mounting. */
enum sbx_mount_kind {
    SBX_MOUNT_RO_BIND = 0,
    SBX_MOUNT_BIND,
    SBX_MOUNT_SYMLINK, /* `source` is its text */
    SBX_MOUNT_TMPFS,   /* fresh, writable, with a bound */
    SBX_MOUNT_DEV,
    SBX_MOUNT_PROC,
    SBX_MOUNT_DIRECTORY, /* an empty one in the root */
    SBX_MOUNT_MASK,      /* an empty directory, read-only */
    SBX_MOUNT_MASK_FILE, /* a file that cannot be opened */
};

/* Who wants it. Nothing implicit is shown through a mask. */
enum sbx_mount_why {
    SBX_WHY_SYSTEM = 0,   /* a system root, or what it needs */
    SBX_WHY_POLICY,       /* fresh places, and what replaces /proc */
    SBX_WHY_EXPLICIT,     /* --bind, --ro-bind, --mask, --self-exe, --proc */
    SBX_WHY_DEFAULT_MASK, /* /home /root /var /data */
    SBX_WHY_COMMAND,      /* the command's own file */
};

struct sbx_mount {
    enum sbx_mount_kind kind;
    enum sbx_mount_why why;
    const char *source; /* resolved; of the plan's texts; NULL where none is needed */
    const char *destination; /* resolved inside */
    const char *asked;       /* as it was written; NULL: not by anybody */
    bool directory;          /* the source is one */
};

#define SBX_PLAN_MOUNTS_MAX 256

/* One argument of bubblewrap. */
enum sbx_argument_kind {
    SBX_ARGUMENT_TEXT = 0,
    SBX_ARGUMENT_SOURCE, /* a path; the launch opens it and hands that over in its place
                          */
    SBX_ARGUMENT_INNER,  /* descriptors that only the launch has: "{inner}" ... */
    SBX_ARGUMENT_STATUS,
    SBX_ARGUMENT_ORDERS,
};

struct sbx_argument {
    enum sbx_argument_kind kind;
    const char *text;
    const struct sbx_mount *mount; /* of a source */
};

struct sbx_plan {
    struct sbx_strings texts;  /* owns what the others point to */
    struct sbx_strings masked; /* resolved paths that nothing implicit may be below */
    struct sbx_strings explicitly_masked;
    struct sbx_strings kernel_mounts; /* where the host has the kernel's file systems */
    struct sbx_strings device_mounts;
    struct sbx_strings warnings;
    bool no_memory; /* sticky */

    struct sbx_mount mounts[SBX_PLAN_MOUNTS_MAX];
    size_t mount_count;
    struct sbx_argument *arguments; /* of bubblewrap, argv[0] first */
    size_t argument_count;

    const char *bwrap;     /* absolute */
    bool bwrap_is_setuid;  /* and we are not root */
    const char *inner;     /* absolute path of sbx-inner */
    const char *directory; /* inside */
    const char **argv;     /* the command's; of the texts */
    size_t argv_count;
    const char *executable;   /* its argv[0] */
    const char **environment; /* NAME=VALUE, NULL-terminated */
    char *secrets;            /* what `environment` points into */
    size_t secrets_size;

    bool as_user;
    uid_t uid; /* the identity that it has outside */
    gid_t gid;
    bool root_is_shown; /* "/" is an explicit bind */
    enum sbx_network network;
    bool proc;
    const char *self_exe;
    uint64_t tmp_size_bytes;
    struct sbx_ceiling ceilings[SBX_CEILING_COUNT];
    enum sbx_filter filter;
    int filter_fd;
    char *json;
};

/* Keeps a copy in the plan. Never NULL: "" after no_memory, which is sticky. */
const char *sbx_plan_text(struct sbx_plan *plan, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds a remark. */
void sbx_plan_warn(struct sbx_plan *plan, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds at the end. 0, or -E2BIG when there are too many. */
int sbx_plan_mount(struct sbx_plan *plan, const struct sbx_mount *mount,
                   struct sbx_error *err);

/* Takes away what lies at or below a path: something else is to be mounted over it. */
void sbx_plan_uncover(struct sbx_plan *plan, const char *path);

/* The steps of plan.c, in their order. Each 0 or a negative errno. */
int sbx_plan_masks(struct sbx_plan *plan, const struct sbx_sandbox *sandbox,
                   struct sbx_error *err); /* plan_masks.c: what is hidden */
int sbx_plan_mounts(struct sbx_plan *plan, const struct sbx_sandbox *sandbox,
                    struct sbx_error *err); /* plan_mounts.c: what is shown */
int sbx_plan_apply_masks(struct sbx_plan *plan, const struct sbx_sandbox *sandbox,
                         struct sbx_error *err); /* plan_masks.c: over what is shown */
int sbx_plan_cover_defaults(struct sbx_plan *plan, const struct sbx_mount *shown,
                            struct sbx_error *err); /* the default ones over one bind */
int sbx_plan_kernel_mounts(struct sbx_plan *plan,
                           struct sbx_error *err); /* plan_kernel.c: finds them */
int sbx_plan_cover_kernel(struct sbx_plan *plan, const struct sbx_mount *shown,
                          struct sbx_error *err); /* those that come with one bind */
int sbx_plan_empty_masks(struct sbx_plan *plan,
                         struct sbx_error *err); /* empty directories in the root */
int sbx_plan_command(struct sbx_plan *plan, const struct sbx_sandbox *sandbox,
                     struct sbx_error *err); /* plan_command.c: directory, executable */
int sbx_plan_streams(struct sbx_plan *plan, const struct sbx_sandbox *sandbox,
                     struct sbx_error *err); /* streams.c: 0 to 2 are no doors */
int sbx_plan_programs(struct sbx_plan *plan, const struct sbx_sandbox *sandbox,
                      struct sbx_error *err); /* find.c: bubblewrap and sbx-inner */
int sbx_plan_arguments(struct sbx_plan *plan, struct sbx_error *err);

/* Whether the path is at or below one that is masked (of all, or of the explicit ones).
 */
bool sbx_plan_hides(const struct sbx_plan *plan, const char *path);
bool sbx_plan_hides_explicitly(const struct sbx_plan *plan, const char *path);

/* The file system of the kernel that the path, which exists, lies in: its mount point.
 * NULL: it lies in none. */
const char *sbx_plan_kernel_mount(const struct sbx_plan *plan, const char *path);

/* NULL on failure. */
char *sbx_plan_write_json(const struct sbx_plan *plan);

#endif
