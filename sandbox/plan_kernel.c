/*
 * plan_kernel.c - the kernel's own file systems, wherever they are mounted: what they
 * have is of the whole host, and some of it (sys/kernel/core_pattern in any procfs) asks
 * for uid 0 and for no capability. A bind brings along all that is mounted below its
 * source, a chroot with its /proc for example: that is covered. A bind that starts in one
 * is refused.
 *
 * Reads the mount table once for a plan; looks at nothing that may be on a network.
 */
#include "sandbox/plan.h"

#include "base/error.h"
#include "base/fd.h"
#include "monitor/option_rules.h"
#include "sandbox/inside.h"
#include "sandbox/paths.h"

#include <errno.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A path of which every byte is escaped, and options of an overlay. */
#define LINE_SIZE ((size_t)64 * 1024)

/* Devices are of no use in a bind (nodev), but the directory is the host's. */
static const char *const device_types[] = {"devtmpfs", "devpts"};
static const char *const types[] = {"proc",     "sysfs",      "cgroup",     "cgroup2",
                                    "debugfs",  "tracefs",    "securityfs", "configfs",
                                    "efivarfs", "bpf",        "pstore",     "mqueue",
                                    "resctrl",  "fusectl",    "smackfs",    "selinuxfs",
                                    "nfsd",     "rpc_pipefs", "binfmt_misc"};

static bool is_one_of(const char *const *names, size_t count, const char *type)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], type) == 0) {
            return true;
        }
    }
    return false;
}

static bool note(struct sbx_plan *plan, const struct mntent *mount)
{
    struct sbx_strings *list = NULL;
    if (is_one_of(types, SBX_LENGTH(types), mount->mnt_type)) {
        list = &plan->kernel_mounts;
    } else if (is_one_of(device_types, SBX_LENGTH(device_types), mount->mnt_type)) {
        list = &plan->device_mounts;
    }
    return list == NULL ||
           sbx_strings_add(list, mount->mnt_dir, strlen(mount->mnt_dir)) == 0;
}

int sbx_plan_kernel_mounts(struct sbx_plan *plan, struct sbx_error *err)
{
    struct mntent mount;
    SBX_AUTO_FREE char *line = malloc(LINE_SIZE);
    FILE *table = setmntent("/proc/self/mounts", "re");
    if (table == NULL && errno == ENOENT) {
        return 0; /* no /proc: bubblewrap, which needs one itself, will show nothing */
    }
    if (table == NULL) {
        return sbx_error_set(err, errno, SBX_STAGE_CHECK, "/proc/self/mounts: %s",
                             sbx_errno_text(errno).text);
    }
    bool fits = line != NULL;
    while (fits && getmntent_r(table, &mount, line, (int)LINE_SIZE) != NULL) {
        fits = note(plan, &mount);
    }
    bool failed = ferror(table) != 0;
    (void)endmntent(table);
    plan->no_memory = plan->no_memory || !fits;
    return failed ? sbx_error_set(err, EIO, SBX_STAGE_CHECK, "/proc/self/mounts: %s",
                                  sbx_errno_text(EIO).text)
                  : 0;
}

const char *sbx_plan_kernel_mount(const struct sbx_plan *plan, const char *path)
{
    struct stat there;
    struct stat top;
    for (size_t i = 0; i < plan->kernel_mounts.count; i++) {
        const char *point = plan->kernel_mounts.items[i];
        if (sbx_path_is_within(path, point) && stat(path, &there) == 0 &&
            stat(point, &top) == 0 && there.st_dev == top.st_dev) {
            return point;
        }
    }
    return NULL;
}

/* What is fresh in every sandbox covers it without our help, where the root is shown. */
static bool is_covered(const struct sbx_mount *shown, const char *point)
{
    static const char *const fresh[] = {"/dev", "/proc", "/sys", "/tmp", "/run"};
    bool covered = false;
    for (size_t i = 0; i < SBX_LENGTH(fresh); i++) {
        covered = covered || sbx_path_is_within(point, fresh[i]);
    }
    return covered && strcmp(shown->destination, "/") == 0;
}

static int cover(struct sbx_plan *plan, const struct sbx_mount *shown, const char *point,
                 struct sbx_error *err)
{
    char path[PATH_MAX];
    char quoted[SBX_QUOTE_SIZE];
    struct sbx_inside at = {.exists = false};
    int r = sbx_path_absolute(shown->destination, sbx_path_rest(point, shown->source) + 1,
                              path);
    r = r == 0 ? sbx_inside(plan, path, &at) : r;
    if (r < 0) {
        return sbx_error_set(err, -r, SBX_STAGE_CHECK, "kernel's files in '%s': %s",
                             sbx_option_quote(quoted, point), sbx_errno_text(-r).text);
    }
    if (!at.exists || at.host[0] == '\0') {
        return 0;
    }
    struct sbx_mount mount = {
        .kind = S_ISDIR(at.mode) ? SBX_MOUNT_MASK : SBX_MOUNT_MASK_FILE,
        .why = SBX_WHY_POLICY,
        .destination = sbx_plan_text(plan, "%s", at.path),
        .directory = S_ISDIR(at.mode),
    };
    return sbx_plan_mount(plan, &mount, err);
}

static int cover_all(struct sbx_plan *plan, const struct sbx_mount *shown,
                     const struct sbx_strings *points, struct sbx_error *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < points->count; i++) {
        const char *point = points->items[i];
        if (sbx_path_is_within(point, shown->source) &&
            strcmp(point, shown->source) != 0 && !is_covered(shown, point)) {
            r = cover(plan, shown, point, err);
        }
    }
    return r;
}

int sbx_plan_cover_kernel(struct sbx_plan *plan, const struct sbx_mount *shown,
                          struct sbx_error *err)
{
    const struct sbx_mount copy = *shown; /* the list may grow */
    int r = cover_all(plan, &copy, &plan->kernel_mounts, err);
    return r == 0 ? cover_all(plan, &copy, &plan->device_mounts, err) : r;
}
