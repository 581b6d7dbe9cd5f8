/*
 * plan_command.c - where the command starts, and whether its file is to be seen there.
 *
 * A command that is named by a path and that no bind shows gets its own file, read-only,
 * and nothing beside it; one that is hidden by a mask is refused: showing it takes a
 * bind.
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

static bool is_bind(const struct sbx_mount *mount)
{
    return mount != NULL && mount->why == SBX_WHY_EXPLICIT &&
           (mount->kind == SBX_MOUNT_BIND || mount->kind == SBX_MOUNT_RO_BIND);
}

/* --- the working directory --- */

static bool is_good(const struct sbx_inside *at)
{
    return at->exists && S_ISDIR(at->mode) && is_bind(at->mount);
}

static int refuse_directory(const char *asked, int code, const char *why,
                            struct sbx_error *err)
{
    char quoted[SBX_QUOTE_SIZE];
    return sbx_error_set(err, code, SBX_STAGE_OPTIONS, "option --chdir: '%s' %s",
                         sbx_option_quote(quoted, asked), why);
}

/* As a path of the sandbox; else, when there is nothing at all, as one of the host that a
 * link leads from to a place that is shown. */
static int find_directory(const struct sbx_plan *plan, const char *path,
                          struct sbx_inside *at)
{
    char real[PATH_MAX];
    int r = sbx_inside(plan, path, at);
    if (r == 0 && !at->exists && at->host[0] == '\0' && realpath(path, real) != NULL) {
        r = sbx_inside(plan, real, at);
    }
    return r;
}

static int plan_directory(struct sbx_plan *plan, const char *asked, struct sbx_error *err)
{
    char cwd[PATH_MAX];
    char path[PATH_MAX];
    struct sbx_inside at = {.exists = false};
    bool has_cwd = getcwd(cwd, sizeof cwd) != NULL && cwd[0] == '/';
    plan->directory = "/";
    if (asked == NULL) {
        if (has_cwd && sbx_inside(plan, cwd, &at) == 0 && is_good(&at)) {
            plan->directory = sbx_plan_text(plan, "%s", at.path);
        }
        return 0;
    }
    int r = has_cwd || asked[0] == '/'
                ? sbx_path_absolute(has_cwd ? cwd : "/", asked, path)
                : -ENOENT;
    r = r == 0 ? find_directory(plan, path, &at) : r;
    if (r < 0) {
        return refuse_directory(asked, -r, sbx_errno_text(-r).text, err);
    }
    if (at.exists && !S_ISDIR(at.mode)) {
        return refuse_directory(asked, ENOTDIR, "is no directory inside", err);
    }
    if (!is_good(&at)) {
        return refuse_directory(asked, at.exists ? EACCES : ENOENT,
                                at.exists
                                    ? "does not lie inside of a bind once its links "
                                      "are followed (add --bind or --ro-bind)"
                                    : "does not exist inside (add --bind or "
                                      "--ro-bind)",
                                err);
    }
    plan->directory = sbx_plan_text(plan, "%s", at.path);
    return 0;
}

/* --- the command's file --- */

static int refuse_command(const char *path, int code, const char *why,
                          struct sbx_error *err)
{
    char quoted[SBX_QUOTE_SIZE];
    return sbx_error_set(err, code, SBX_STAGE_CHECK, "command '%s' %s",
                         sbx_option_quote(quoted, path), why);
}

/* The host's file at this place, which nothing shows. What is not there either is left
 * for the execution to say. */
static int show_file(struct sbx_plan *plan, const struct sbx_inside *at, const char *path,
                     struct sbx_error *err)
{
    char real[PATH_MAX];
    struct stat status;
    if (realpath(path, real) == NULL || stat(real, &status) < 0 ||
        !S_ISREG(status.st_mode)) {
        return 0;
    }
    if (sbx_plan_hides(plan, path) || sbx_plan_hides(plan, real) ||
        sbx_plan_hides(plan, at->path)) {
        return refuse_command(path, EACCES, "is hidden by a mask: show it with --ro-bind",
                              err);
    }
    if (at->host[0] != '\0' || sbx_path_is_within(real, "/proc") ||
        sbx_path_is_within(at->path, "/proc")) {
        return refuse_command(path, ENOENT,
                              "is not what is shown at its place: show it with --ro-bind",
                              err);
    }
    struct sbx_mount mount = {.kind = SBX_MOUNT_RO_BIND,
                              .why = SBX_WHY_COMMAND,
                              .source = sbx_plan_text(plan, "%s", real),
                              .destination = sbx_plan_text(plan, "%s", at->path)};
    plan->executable = mount.destination; /* the way to it may not be there: a/../b */
    return sbx_plan_mount(plan, &mount, err);
}

/* A relative path means what it means where the command starts. Who has written it was
 * often thinking of where he is. */
static int refuse_if_elsewhere(const struct sbx_plan *plan, struct sbx_error *err)
{
    char quoted[SBX_QUOTE_SIZE];
    char directory[SBX_QUOTE_SIZE];
    struct stat status;
    if (plan->executable[0] == '/' || stat(plan->executable, &status) < 0 ||
        !S_ISREG(status.st_mode)) {
        return 0;
    }
    return sbx_error_set(err, ENOENT, SBX_STAGE_CHECK,
                         "command '%s' is in the caller's directory, but would start in "
                         "'%s', where it is not: add --bind . or --ro-bind ., or see "
                         "--chdir",
                         sbx_option_quote(quoted, plan->executable),
                         sbx_option_quote(directory, plan->directory));
}

static int plan_executable(struct sbx_plan *plan, struct sbx_error *err)
{
    char path[PATH_MAX];
    struct sbx_inside at = {.exists = false};
    plan->executable = plan->argv[0];
    if (strchr(plan->executable, '/') == NULL) {
        return 0; /* looked up inside */
    }
    int r = sbx_path_absolute(plan->directory, plan->executable, path);
    r = r == 0 ? sbx_inside(plan, path, &at) : r;
    if (r < 0) {
        return refuse_command(plan->executable, -r, sbx_errno_text(-r).text, err);
    }
    if (at.exists) {
        return 0;
    }
    size_t before = plan->mount_count;
    r = show_file(plan, &at, path, err);
    return r < 0 || plan->mount_count > before ? r : refuse_if_elsewhere(plan, err);
}

static int check_self_exe(struct sbx_plan *plan, struct sbx_error *err)
{
    struct sbx_inside at;
    char quoted[SBX_QUOTE_SIZE];
    if (plan->self_exe == NULL) {
        return 0;
    }
    int r = sbx_inside(plan, plan->self_exe, &at);
    if (r < 0 || !at.exists || !S_ISREG(at.mode)) {
        return sbx_error_set(err, r < 0 ? -r : ENOENT, SBX_STAGE_OPTIONS,
                             "option --self-exe: '%s' is no file inside (show it with "
                             "--ro-bind)",
                             sbx_option_quote(quoted, plan->self_exe));
    }
    return 0;
}

int sbx_plan_command(struct sbx_plan *plan, const struct sbx_sandbox *sandbox,
                     struct sbx_error *err)
{
    int r = plan_directory(plan, sandbox->directory, err);
    r = r == 0 ? plan_executable(plan, err) : r;
    return r == 0 ? check_self_exe(plan, err) : r;
}
