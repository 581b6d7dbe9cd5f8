/*
 * plan_mounts.c - what is shown: system roots, fresh places, and the binds that were
 * asked for, in the order of their mounting.
 *
 * Parents come before what is mounted in them. A destination is resolved inside of what
 * the sandbox is by then, so that bubblewrap never follows a link in a half-built root,
 * and must exist where it lies in a bind: it would be made on the host else.
 */
#include "sandbox/plan.h"

#include "base/error.h"
#include "base/fd.h"
#include "monitor/option_rules.h"
#include "sandbox/inside.h"
#include "sandbox/paths.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const system_roots[] = {"/usr", "/etc", "/opt"};
/* Links into /usr on a merged system, directories of their own on others. */
static const char *const beside_usr[] = {"/bin",   "/sbin",  "/lib",
                                         "/lib32", "/lib64", "/libx32"};
#define RESOLVER "/etc/resolv.conf"

/* --- what nobody asked for --- */

static int show_root(struct sbx_plan *plan, const char *place, struct sbx_error *err)
{
    char real[PATH_MAX];
    struct stat status;
    if (sbx_plan_hides_explicitly(plan, place) || realpath(place, real) == NULL ||
        stat(real, &status) < 0) {
        return 0;
    }
    if (sbx_plan_hides(plan, place) || sbx_plan_hides(plan, real)) {
        sbx_plan_warn(plan, "%s is not shown: it leads to %s, which is hidden", place,
                      real);
        return 0;
    }
    struct sbx_mount mount = {.kind = SBX_MOUNT_RO_BIND,
                              .why = SBX_WHY_SYSTEM,
                              .source = sbx_plan_text(plan, "%s", real),
                              .destination = place,
                              .directory = S_ISDIR(status.st_mode)};
    int r = sbx_plan_mount(plan, &mount, err);
    r = r == 0 ? sbx_plan_cover_defaults(plan, &mount, err) : r;
    return r == 0 ? sbx_plan_cover_kernel(plan, &mount, err) : r;
}

/* A link stays a link, if it leads to something that is shown. */
static int show_beside(struct sbx_plan *plan, const char *place, struct sbx_error *err)
{
    char target[PATH_MAX];
    struct sbx_inside at;
    ssize_t length = readlink(place, target, sizeof target - 1);
    if (length <= 0) {
        return show_root(plan, place, err);
    }
    target[length] = '\0';
    struct sbx_mount mount = {.kind = SBX_MOUNT_SYMLINK,
                              .why = SBX_WHY_SYSTEM,
                              .source = sbx_plan_text(plan, "%s", target),
                              .destination = place};
    if (sbx_plan_hides(plan, place)) {
        return 0;
    }
    int r = sbx_plan_mount(plan, &mount, err);
    if (r == 0 && (sbx_inside(plan, place, &at) < 0 || !at.exists)) {
        plan->mount_count--;
        return show_root(plan, place, err);
    }
    return r;
}

/* The address of the name servers lies in /run on many hosts, of which nothing else is
 * shown. */
static int show_resolver(struct sbx_plan *plan, struct sbx_error *err)
{
    char real[PATH_MAX];
    struct stat status;
    struct sbx_inside at;
    if (plan->network == SBX_NETWORK_NONE || sbx_inside(plan, RESOLVER, &at) < 0 ||
        at.exists || realpath(RESOLVER, real) == NULL || stat(real, &status) < 0 ||
        !S_ISREG(status.st_mode)) {
        return 0;
    }
    if (at.host[0] != '\0' || sbx_plan_hides(plan, at.path) ||
        sbx_plan_hides(plan, real)) {
        sbx_plan_warn(plan,
                      RESOLVER " leads to %s, which is hidden: bind it for names "
                               "to be resolved",
                      real);
        return 0;
    }
    struct sbx_mount mount = {.kind = SBX_MOUNT_RO_BIND,
                              .why = SBX_WHY_SYSTEM,
                              .source = sbx_plan_text(plan, "%s", real),
                              .destination = sbx_plan_text(plan, "%s", at.path)};
    return sbx_plan_mount(plan, &mount, err);
}

static int show_system(struct sbx_plan *plan, struct sbx_error *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < SBX_LENGTH(system_roots); i++) {
        r = show_root(plan, system_roots[i], err);
    }
    for (size_t i = 0; r == 0 && i < SBX_LENGTH(beside_usr); i++) {
        r = show_beside(plan, beside_usr[i], err);
    }
    return r == 0 ? sbx_plan_empty_masks(plan, err) : r;
}

/* --- fresh places --- */

static int make_fresh(struct sbx_plan *plan, const char *place, enum sbx_mount_kind kind,
                      struct sbx_error *err)
{
    struct sbx_inside at;
    struct sbx_mount mount = {
        .kind = kind, .why = SBX_WHY_POLICY, .destination = place, .directory = true};
    int r = sbx_inside(plan, place, &at);
    if (r == 0 && at.exists && S_ISDIR(at.mode) && strcmp(at.path, place) == 0) {
        return sbx_plan_mount(plan, &mount, err);
    }
    if (r == 0 && !at.exists && at.host[0] == '\0') {
        return sbx_plan_mount(plan, &mount, err);
    }
    return sbx_error_set(err, r < 0 ? -r : ENOTDIR, SBX_STAGE_CHECK,
                         "the root that is shown has no directory %s to mount a fresh "
                         "one on",
                         place);
}

/* What the host has there is of other processes, and is never shown. */
static int cover_kernel_files(struct sbx_plan *plan, const char *place,
                              struct sbx_error *err)
{
    struct sbx_inside at;
    struct sbx_mount mount = {.kind = SBX_MOUNT_MASK,
                              .why = SBX_WHY_POLICY,
                              .destination = place,
                              .directory = true};
    int r = sbx_inside(plan, place, &at);
    if (r == 0 && at.exists && S_ISDIR(at.mode)) {
        mount.destination = sbx_plan_text(plan, "%s", at.path);
        return sbx_plan_mount(plan, &mount, err);
    }
    return 0;
}

static int show_self_exe(struct sbx_plan *plan, struct sbx_error *err)
{
    struct sbx_mount proc = {.kind = SBX_MOUNT_DIRECTORY,
                             .why = SBX_WHY_EXPLICIT,
                             .destination = "/proc",
                             .directory = true};
    struct sbx_mount link = {.kind = SBX_MOUNT_SYMLINK,
                             .why = SBX_WHY_EXPLICIT,
                             .source = plan->self_exe,
                             .destination = "/proc/self/exe"};
    if (plan->root_is_shown) {
        proc.kind = SBX_MOUNT_MASK; /* over the host's */
    }
    int r = sbx_plan_mount(plan, &proc, err);
    return r < 0 ? r : sbx_plan_mount(plan, &link, err);
}

static int show_fresh(struct sbx_plan *plan, struct sbx_error *err)
{
    int r = make_fresh(plan, "/dev", SBX_MOUNT_DEV, err);
    r = r == 0 ? make_fresh(plan, "/dev/shm", SBX_MOUNT_TMPFS, err) : r;
    r = r == 0 ? make_fresh(plan, "/tmp", SBX_MOUNT_TMPFS, err) : r;
    r = r == 0 ? make_fresh(plan, "/run", SBX_MOUNT_TMPFS, err) : r;
    if (r == 0 && plan->proc) {
        r = make_fresh(plan, "/proc", SBX_MOUNT_PROC, err);
    } else if (r == 0 && plan->self_exe != NULL) {
        r = show_self_exe(plan, err);
    } else if (r == 0) {
        r = cover_kernel_files(plan, "/proc", err);
    }
    return r == 0 ? cover_kernel_files(plan, "/sys", err) : r;
}

/* --- binds --- */

/* One that was asked for, on its way into the plan. */
struct wish {
    const struct sbx_asked_bind *asked;
    const char *option;
    char real[PATH_MAX];
    char destination[PATH_MAX];
    bool directory;
    size_t depth;
    size_t order;
};

static int refuse(const struct wish *wish, int code, const char *why,
                  struct sbx_error *err)
{
    char quoted[SBX_QUOTE_SIZE];
    return sbx_error_set(err, code, SBX_STAGE_OPTIONS, "option --%s: '%s': %s",
                         wish->option, sbx_option_quote(quoted, wish->asked->source),
                         why);
}

static int refuse_source(const struct wish *wish, int code, struct sbx_error *err)
{
    char why[SBX_ERROR_MESSAGE_SIZE / 2];
    bool was_to_divide =
        wish->asked->destination == NULL && strchr(wish->asked->source, ':') != NULL;
    (void)snprintf(why, sizeof why, "%s%s", sbx_errno_text(code).text,
                   was_to_divide ? " (in SRC:DEST, DEST is an absolute path)" : "");
    return refuse(wish, code, why, err);
}

static int refuse_destination(const struct wish *wish, int code, const char *why,
                              struct sbx_error *err)
{
    char quoted[SBX_QUOTE_SIZE];
    return sbx_error_set(err, code, SBX_STAGE_OPTIONS, "option --%s: '%s' %s",
                         wish->option, sbx_option_quote(quoted, wish->destination), why);
}

static int check_places(const struct sbx_plan *plan, const struct wish *wish,
                        struct sbx_error *err)
{
    const char *to = wish->destination;
    if (sbx_path_is_within(wish->real, "/proc")) {
        return refuse(
            wish, EINVAL,
            "the host's /proc is not shown (accepted: --proc for a private one)", err);
    }
    if (sbx_plan_kernel_mount(plan, wish->real) != NULL) {
        return refuse(wish, EINVAL,
                      "is of the kernel's own files, and shows the host's (accepted: "
                      "what lies in no /proc, /sys or the like)",
                      err);
    }
    if (strcmp(to, "/dev") == 0 || strcmp(to, "/run") == 0 ||
        sbx_path_is_within(to, "/proc")) {
        return refuse_destination(
            wish, EINVAL,
            "is fresh in every sandbox (accepted: a path below /dev or /run)", err);
    }
    if (sbx_path_is_within(to, "/run/sbx-inner")) {
        return refuse_destination(wish, EINVAL, "is in use while a sandbox starts", err);
    }
    for (size_t i = 0; i < plan->explicitly_masked.count; i++) {
        const char *mask = plan->explicitly_masked.items[i];
        if (strcmp(to, mask) == 0 || strcmp(wish->real, mask) == 0) {
            return refuse_destination(wish, EINVAL, "is named by --mask as well", err);
        }
        if (sbx_path_is_within(to, mask) || sbx_path_is_within(wish->real, mask)) {
            return refuse_destination(wish, EINVAL, "lies below a path of --mask", err);
        }
    }
    return 0;
}

static int look_at(const struct sbx_plan *plan, const char *cwd, struct wish *wish,
                   struct sbx_error *err)
{
    struct stat status = {.st_mode = 0};
    char path[PATH_MAX];
    const char *to = wish->asked->destination;
    int r = sbx_path_absolute(cwd, wish->asked->source, path);
    if (r == 0 && (realpath(path, wish->real) == NULL || stat(wish->real, &status) < 0)) {
        r = -errno;
    }
    if (r < 0) {
        return refuse_source(wish, -r, err);
    }
    wish->directory = S_ISDIR(status.st_mode);
    if (to == NULL) {
        to = sbx_path_climbs(path) ? wish->real : path;
    }
    r = sbx_path_absolute("/", to, wish->destination);
    if (r < 0) {
        return refuse(wish, -r, sbx_errno_text(-r).text, err);
    }
    if (sbx_path_climbs(to)) {
        return refuse_destination(wish, EINVAL, "has a '..' (accepted: a plain path)",
                                  err);
    }
    wish->depth = sbx_path_depth(wish->destination);
    return check_places(plan, wish, err);
}

static int compare_depths(const void *left, const void *right)
{
    const struct wish *a = left;
    const struct wish *b = right;
    if (a->depth != b->depth) {
        return a->depth < b->depth ? -1 : 1;
    }
    return a->order < b->order ? -1 : a->order > b->order;
}

/* Where it will be mounted, or why not. */
static int find_place(const struct sbx_plan *plan, const struct wish *wish,
                      struct sbx_inside *at, struct sbx_error *err)
{
    int r = sbx_inside(plan, wish->destination, at);
    if (r < 0) {
        return refuse_destination(wish, -r, sbx_errno_text(-r).text, err);
    }
    if (at->exists && S_ISDIR(at->mode) != wish->directory) {
        return refuse_destination(wish, wish->directory ? ENOTDIR : EISDIR,
                                  wish->directory
                                      ? "is no directory inside, but its source is one"
                                      : "is a directory inside, but its source is none",
                                  err);
    }
    if (!at->exists && at->host[0] != '\0') {
        return refuse_destination(wish, ENOENT,
                                  "does not exist in what is shown there, and would have "
                                  "to be made on the host: make it first",
                                  err);
    }
    /* Through a link into a place that is no good. */
    if (at->mount != NULL && strcmp(at->path, at->mount->destination) == 0 &&
        (at->mount->kind == SBX_MOUNT_DEV || at->mount->kind == SBX_MOUNT_PROC)) {
        return refuse_destination(wish, EINVAL, "leads to a fresh place", err);
    }
    return 0;
}

/* The host's kernel files come with the root, under whatever name. */
static int cover_what_comes_along(struct sbx_plan *plan, const struct sbx_mount *mount,
                                  struct sbx_error *err)
{
    char path[PATH_MAX];
    int r = sbx_plan_cover_defaults(plan, mount, err);
    if (r < 0 || strcmp(mount->source, "/") != 0 ||
        strcmp(mount->destination, "/") == 0) {
        return r < 0 ? r : sbx_plan_cover_kernel(plan, mount, err);
    }
    static const char *const places[] = {"proc", "sys", "dev"};
    for (size_t i = 0; r == 0 && i < SBX_LENGTH(places); i++) {
        r = sbx_path_absolute(mount->destination, places[i], path);
        r = r == 0 ? cover_kernel_files(plan, path, err) : r;
    }
    return r == 0 ? sbx_plan_cover_kernel(plan, mount, err) : r;
}

static int show_bind(struct sbx_plan *plan, const struct wish *wish,
                     struct sbx_error *err)
{
    struct sbx_inside at;
    const struct sbx_asked_bind *asked = wish->asked;
    if (asked == NULL) {
        return -EINVAL; /* none was looked at */
    }
    int r = find_place(plan, wish, &at, err);
    if (r < 0) {
        return r;
    }
    struct sbx_mount mount = {
        .kind = asked->writable ? SBX_MOUNT_BIND : SBX_MOUNT_RO_BIND,
        .why = SBX_WHY_EXPLICIT,
        .source = sbx_plan_text(plan, "%s", wish->real),
        .destination = sbx_plan_text(plan, "%s", at.path),
        .asked = sbx_plan_text(plan, "%s", asked->source),
        .directory = wish->directory,
    };
    for (size_t i = 0; i < plan->mount_count; i++) {
        const struct sbx_mount *other = &plan->mounts[i];
        if (other->why != SBX_WHY_EXPLICIT || strcmp(other->destination, at.path) != 0 ||
            (other->kind != SBX_MOUNT_BIND && other->kind != SBX_MOUNT_RO_BIND)) {
            continue;
        }
        if (strcmp(other->source, mount.source) == 0 && other->kind == mount.kind) {
            return 0;
        }
        return refuse_destination(wish, EINVAL, "is the place of two different binds",
                                  err);
    }
    sbx_plan_uncover(plan, mount.destination);
    r = sbx_plan_mount(plan, &mount, err);
    return r < 0 ? r : cover_what_comes_along(plan, &mount, err);
}

static int take_wishes(struct sbx_plan *plan, const struct sbx_sandbox *sandbox,
                       struct wish *wishes, struct sbx_error *err)
{
    char cwd[PATH_MAX];
    if (sandbox->bind_count > 0 && getcwd(cwd, sizeof cwd) == NULL) {
        return sbx_error_set(err, errno, SBX_STAGE_CHECK, "working directory: %s",
                             sbx_errno_text(errno).text);
    }
    for (size_t i = 0; i < sandbox->bind_count; i++) {
        wishes[i].asked = &sandbox->binds[i];
        wishes[i].option = sandbox->binds[i].writable ? "bind" : "ro-bind";
        wishes[i].order = i;
        int r = look_at(plan, cwd, &wishes[i], err);
        if (r < 0) {
            return r;
        }
    }
    qsort(wishes, sandbox->bind_count, sizeof *wishes, compare_depths);
    return 0;
}

int sbx_plan_mounts(struct sbx_plan *plan, const struct sbx_sandbox *sandbox,
                    struct sbx_error *err)
{
    size_t count = sandbox->bind_count;
    size_t next = 0;
    SBX_AUTO_FREE struct wish *wishes = calloc(count + 1, sizeof *wishes);
    if (wishes == NULL) {
        return sbx_error_set(err, ENOMEM, SBX_STAGE_CHECK, "no memory for the plan");
    }
    int r = take_wishes(plan, sandbox, wishes, err);
    for (; r == 0 && next < count && wishes[next].depth == 0; next++) {
        plan->root_is_shown = true; /* sorted, so it is the first */
        r = show_bind(plan, &wishes[next], err);
    }
    if (r == 0 && !plan->root_is_shown) {
        r = show_system(plan, err);
    }
    r = r == 0 ? show_fresh(plan, err) : r;
    r = r == 0 ? show_resolver(plan, err) : r;
    for (; r == 0 && next < count; next++) {
        r = show_bind(plan, &wishes[next], err);
    }
    return r;
}
