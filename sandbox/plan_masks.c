/*
 * plan_masks.c - what is hidden: the default masks and those that were asked for, first
 * as paths of the host that nothing implicit may show, then as mounts over what is shown.
 *
 * A mask is about the host's file: it also covers what another bind shows of it under
 * another name, and the place that a link leads to.
 */
#include "sandbox/plan.h"

#include "base/error.h"
#include "monitor/option_rules.h"
#include "sandbox/inside.h"
#include "sandbox/paths.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const default_masks[] = {"/home", "/root", "/var", "/data"};

/* An ordinary user cannot read these; whoever is confined as root would be their owner.
 */
static const char *const secrets[] = {"/etc/shadow",
                                      "/etc/shadow-",
                                      "/etc/gshadow",
                                      "/etc/gshadow-",
                                      "/etc/sudoers",
                                      "/etc/sudoers.d",
                                      "/etc/ssl/private",
                                      "/etc/security/opasswd",
                                      "/etc/krb5.keytab",
                                      "/etc/ssh/ssh_host_rsa_key",
                                      "/etc/ssh/ssh_host_ecdsa_key",
                                      "/etc/ssh/ssh_host_ed25519_key"};

static bool is_below_one(const struct sbx_strings *masks, const char *path)
{
    for (size_t i = 0; i < masks->count; i++) {
        if (sbx_path_is_within(path, masks->items[i])) {
            return true;
        }
    }
    return false;
}

bool sbx_plan_hides(const struct sbx_plan *plan, const char *path)
{
    return is_below_one(&plan->masked, path);
}

bool sbx_plan_hides_explicitly(const struct sbx_plan *plan, const char *path)
{
    return is_below_one(&plan->explicitly_masked, path);
}

static void note(struct sbx_plan *plan, struct sbx_strings *masks, const char *path)
{
    if (sbx_strings_add(masks, path, strlen(path)) < 0) {
        plan->no_memory = true;
    }
}

/* The path as it is written, and where its links lead. */
static void note_both(struct sbx_plan *plan, struct sbx_strings *masks, const char *path)
{
    char real[PATH_MAX];
    note(plan, masks, path);
    if (realpath(path, real) != NULL && strcmp(real, path) != 0) {
        note(plan, masks, real);
    }
}

/* What the sandbox has of its own cannot be hidden: that would be dropped in silence. */
static bool is_fresh(const struct sbx_plan *plan, const char *path)
{
    return sbx_path_is_within(path, "/dev") ||
           (plan->proc && sbx_path_is_within(path, "/proc")) ||
           strcmp(path, "/tmp") == 0 || strcmp(path, "/run") == 0;
}

static int note_asked(struct sbx_plan *plan, const char *cwd, const char *asked,
                      struct sbx_error *err)
{
    char quoted[SBX_QUOTE_SIZE];
    char path[PATH_MAX];
    char real[PATH_MAX];
    int r = sbx_path_absolute(cwd, asked, path);
    if (r == 0 && realpath(path, real) == NULL) {
        r = errno == ENOENT && !sbx_path_climbs(path) ? 0 : -errno;
        memcpy(real, path, strlen(path) + 1); /* perhaps a bind shows something there */
    }
    if (r < 0) {
        return sbx_error_set(err, -r, SBX_STAGE_OPTIONS, "option --mask: '%s': %s",
                             sbx_option_quote(quoted, asked), sbx_errno_text(-r).text);
    }
    if (strcmp(real, "/") == 0) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "option --mask: '%s' is the root, below which everything is",
                             sbx_option_quote(quoted, asked));
    }
    if (is_fresh(plan, real)) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "option --mask: '%s' is fresh in every sandbox, and shows "
                             "nothing of the host",
                             sbx_option_quote(quoted, asked));
    }
    note_both(plan, &plan->masked, sbx_path_climbs(path) ? real : path);
    note_both(plan, &plan->explicitly_masked, sbx_path_climbs(path) ? real : path);
    return 0;
}

int sbx_plan_masks(struct sbx_plan *plan, const struct sbx_sandbox *sandbox,
                   struct sbx_error *err)
{
    char cwd[PATH_MAX];
    bool defaults = !sandbox->no_default_masks;
    for (size_t i = 0; defaults && i < SBX_LENGTH(default_masks); i++) {
        note_both(plan, &plan->masked, default_masks[i]);
    }
    for (size_t i = 0; defaults && plan->uid == 0 && i < SBX_LENGTH(secrets); i++) {
        if (access(secrets[i], F_OK) == 0) {
            note_both(plan, &plan->masked, secrets[i]);
        }
    }
    if (sandbox->masks.count > 0 && getcwd(cwd, sizeof cwd) == NULL) {
        return sbx_error_set(err, errno, SBX_STAGE_CHECK, "working directory: %s",
                             sbx_errno_text(errno).text);
    }
    for (size_t i = 0; i < sandbox->masks.count; i++) {
        int r = note_asked(plan, cwd, sandbox->masks.items[i], err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* --- over what is shown --- */

/* 1, or a negative errno. */
static int cover(struct sbx_plan *plan, const struct sbx_inside *at,
                 enum sbx_mount_why why, const char *asked, struct sbx_error *err)
{
    struct sbx_mount mount = {
        .kind = S_ISDIR(at->mode) ? SBX_MOUNT_MASK : SBX_MOUNT_MASK_FILE,
        .why = why,
        .destination = sbx_plan_text(plan, "%s", at->path),
        .asked = asked,
        .directory = S_ISDIR(at->mode),
    };
    sbx_plan_uncover(plan, mount.destination);
    int r = sbx_plan_mount(plan, &mount, err);
    return r < 0 ? r : 1;
}

/* Covers what one mount shows of a path of the host: 1 if it shows any, else 0. */
static int cover_in(struct sbx_plan *plan, const struct sbx_mount *shown,
                    const char *masked, enum sbx_mount_why why, struct sbx_error *err)
{
    char path[PATH_MAX];
    struct sbx_inside at;
    if ((shown->kind != SBX_MOUNT_BIND && shown->kind != SBX_MOUNT_RO_BIND) ||
        !sbx_path_is_within(masked, shown->source) ||
        strcmp(masked, shown->source) == 0) {
        return 0;
    }
    int r = sbx_path_absolute(shown->destination,
                              sbx_path_rest(masked, shown->source) + 1, path);
    r = r == 0 ? sbx_inside(plan, path, &at) : r;
    if (r == 0 && at.exists && at.mount != NULL && at.host[0] != '\0') {
        return cover(plan, &at, why, masked, err);
    }
    if (r < 0) {
        char quoted[SBX_QUOTE_SIZE];
        return sbx_error_set(err, -r, SBX_STAGE_CHECK, "mask of '%s': %s",
                             sbx_option_quote(quoted, masked), sbx_errno_text(-r).text);
    }
    return 0;
}

int sbx_plan_cover_defaults(struct sbx_plan *plan, const struct sbx_mount *shown,
                            struct sbx_error *err)
{
    const struct sbx_mount copy = *shown; /* the list may grow */
    for (size_t i = 0; i < plan->masked.count; i++) {
        const char *masked = plan->masked.items[i];
        if (!sbx_plan_hides_explicitly(plan, masked)) {
            int r = cover_in(plan, &copy, masked, SBX_WHY_DEFAULT_MASK, err);
            if (r < 0) {
                return r;
            }
        }
    }
    return 0;
}

int sbx_plan_empty_masks(struct sbx_plan *plan, struct sbx_error *err)
{
    for (size_t i = 0; i < SBX_LENGTH(default_masks); i++) {
        struct stat status;
        struct sbx_mount mount = {.kind = SBX_MOUNT_MASK,
                                  .why = SBX_WHY_DEFAULT_MASK,
                                  .destination = default_masks[i],
                                  .directory = true};
        if (!sbx_plan_hides(plan, default_masks[i]) ||
            stat(default_masks[i], &status) < 0 || !S_ISDIR(status.st_mode)) {
            continue;
        }
        int r = sbx_plan_mount(plan, &mount, err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static bool is_applied(const struct sbx_plan *plan, const char *masked)
{
    for (size_t i = 0; i < plan->mount_count; i++) {
        if (plan->mounts[i].asked == masked) {
            return true;
        }
    }
    return false;
}

/* Over everything that shows it. A mask takes away what it hides, so the list changes:
 * from the beginning then, until there is nothing more to cover. */
static int cover_everywhere(struct sbx_plan *plan, const char *masked,
                            struct sbx_error *err)
{
    for (size_t i = 0; i < plan->mount_count; i++) {
        const struct sbx_mount shown = plan->mounts[i];
        int r = cover_in(plan, &shown, masked, SBX_WHY_EXPLICIT, err);
        if (r < 0) {
            return r;
        }
        if (r > 0) {
            i = SIZE_MAX; /* the next is 0 */
        }
    }
    return 0;
}

static int apply(struct sbx_plan *plan, const char *masked, struct sbx_error *err)
{
    struct sbx_inside at;
    struct stat status;
    int r = cover_everywhere(plan, masked, err);
    /* And as a path of the sandbox, where a bind shows something else under this name. */
    if (r == 0 && sbx_inside(plan, masked, &at) == 0 && at.exists && at.host[0] != '\0') {
        r = cover(plan, &at, SBX_WHY_EXPLICIT, masked, err);
    }
    if (r == 0 && !is_applied(plan, masked) && lstat(masked, &status) < 0) {
        char quoted[SBX_QUOTE_SIZE];
        int code = errno;
        return sbx_error_set(err, code, SBX_STAGE_OPTIONS, "option --mask: '%s': %s",
                             sbx_option_quote(quoted, masked), sbx_errno_text(code).text);
    }
    return r < 0 ? r : 0;
}

int sbx_plan_apply_masks(struct sbx_plan *plan, const struct sbx_sandbox *sandbox,
                         struct sbx_error *err)
{
    (void)sandbox;
    for (size_t i = 0; i < plan->explicitly_masked.count; i++) {
        int r = apply(plan, plan->explicitly_masked.items[i], err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}
