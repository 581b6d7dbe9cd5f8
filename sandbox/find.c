/*
 * find.c - see find.h; and what of that goes into a plan: bubblewrap, and our own program
 * that runs inside.
 */
#include "sandbox/find.h"

#include "base/error.h"
#include "monitor/option_rules.h"
#include "sandbox/orders.h"
#include "sandbox/paths.h"
#include "sandbox/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_DIRECTORIES "/usr/local/bin:/usr/bin:/bin"
#define BWRAP "bwrap"
/* What the file system itself takes beside the file. */
#define INNER_ROOM 65536U
/* It maps this one beside the caller's, to have an owner for /dev/pts. */
#define OVERFLOW_UID 65534

static bool is_program(const char *path, struct stat *ret_status)
{
    return stat(path, ret_status) == 0 && S_ISREG(ret_status->st_mode) &&
           access(path, X_OK) == 0;
}

/* --- bubblewrap --- */

bool sbx_find_bwrap(char ret_path[static PATH_MAX], struct stat *ret_status)
{
    const char *next = getenv("PATH");
    next = next != NULL ? next : DEFAULT_DIRECTORIES;
    while (*next != '\0') {
        size_t length = strcspn(next, ":");
        /* Not what lies in whatever directory this is. */
        if (length > 0 && length + sizeof "/" BWRAP < PATH_MAX && next[0] == '/') {
            memcpy(ret_path, next, length);
            memcpy(ret_path + length, "/" BWRAP, sizeof "/" BWRAP);
            if (is_program(ret_path, ret_status)) {
                return true;
            }
        }
        next += length + (next[length] == ':' ? 1 : 0);
    }
    return false;
}

static int find_bwrap(struct sbx_plan *plan, const char *asked, struct sbx_error *err)
{
    char quoted[SBX_QUOTE_SIZE];
    char cwd[PATH_MAX] = "/";
    char path[PATH_MAX];
    struct stat status = {.st_mode = 0};
    if (asked == NULL) {
        if (!sbx_find_bwrap(path, &status)) {
            return sbx_error_set(err, ENOENT, SBX_STAGE_CHECK,
                                 "bubblewrap (bwrap) is not installed, or not in PATH: "
                                 "install the package bubblewrap, or name it by --bwrap");
        }
    } else {
        (void)!getcwd(cwd, sizeof cwd);
        int r = sbx_path_absolute(cwd, asked, path);
        if (r == 0 && !is_program(path, &status)) {
            r = stat(path, &status) < 0 ? -errno : -EACCES;
        }
        if (r < 0) {
            return sbx_error_set(err, -r, SBX_STAGE_CHECK, "option --bwrap: '%s': %s",
                                 sbx_option_quote(quoted, asked),
                                 sbx_errno_text(-r).text);
        }
    }
    plan->bwrap = sbx_plan_text(plan, "%s", path);
    plan->bwrap_is_setuid =
        (status.st_mode & S_ISUID) != 0 && status.st_uid == 0 && plan->uid != 0;
    return 0;
}

/* --- our own --- */

/* The directory of the program that we are. */
static bool own_directory(char path[static PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (length <= 0) {
        return false;
    }
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    if (slash == NULL) {
        return false;
    }
    *slash = '\0';
    return true;
}

/* By its real path: a way through a directory above leads nowhere inside of a sandbox. */
static bool is_there(char ret_path[static PATH_MAX], struct stat *ret_status,
                     const char *first, const char *rest)
{
    char real[PATH_MAX];
    int length = snprintf(ret_path, PATH_MAX, "%s%s", first, rest);
    if (length >= PATH_MAX || ret_path[0] != '/' || realpath(ret_path, real) == NULL ||
        stat(real, ret_status) < 0 || !S_ISREG(ret_status->st_mode)) {
        return false;
    }
    memcpy(ret_path, real, strlen(real) + 1);
    return true;
}

bool sbx_find_ours(const char *name, const char *variable, const char *installed,
                   char ret_path[static PATH_MAX], struct stat *ret_status)
{
    char own[PATH_MAX];
    char beside[NAME_MAX];
    char below[NAME_MAX];
    const char *asked = secure_getenv(variable);
    if (asked != NULL) {
        return is_there(ret_path, ret_status, asked, "");
    }
    (void)snprintf(beside, sizeof beside, "/%s", name);
    (void)snprintf(below, sizeof below, "/../libexec/sbx/%s", name);
    return (own_directory(own) && (is_there(ret_path, ret_status, own, beside) ||
                                   is_there(ret_path, ret_status, own, below))) ||
           is_there(ret_path, ret_status, installed, "");
}

static int find_inner(struct sbx_plan *plan, struct sbx_error *err)
{
    char path[PATH_MAX];
    struct stat status = {.st_size = 0};
    if (!sbx_find_ours(SBX_INNER_NAME, "SBX_INNER", SBX_INNER_INSTALLED, path, &status)) {
        return sbx_error_set(err, ENOENT, SBX_STAGE_CHECK,
                             "%s: no such program (it belongs to sbx; the environment "
                             "variable SBX_INNER can say where it is)",
                             path);
    }
    plan->inner = sbx_plan_text(plan, "%s", path);
    if (plan->tmp_size_bytes != 0 &&
        (uint64_t)status.st_size + INNER_ROOM > plan->tmp_size_bytes) {
        return sbx_error_set(err, ERANGE, SBX_STAGE_OPTIONS,
                             "option --tmp-size: %s does not fit in it while the sandbox "
                             "starts",
                             plan->inner);
    }
    return 0;
}

int sbx_plan_programs(struct sbx_plan *plan, const struct sbx_sandbox *sandbox,
                      struct sbx_error *err)
{
    int r = find_bwrap(plan, sandbox->bwrap, err);
    if (r == 0 && plan->bwrap_is_setuid && sandbox->tmp_size_bytes != 0) {
        return sbx_error_set(err, EOPNOTSUPP, SBX_STAGE_ARM,
                             "option --tmp-size: bubblewrap sets no size where it is "
                             "set-user-id (%s): leave the option out, or use one that is "
                             "not",
                             plan->bwrap);
    }
    if (r == 0 && plan->bwrap_is_setuid && plan->uid == OVERFLOW_UID) {
        return sbx_error_set(
            err, EOPNOTSUPP, SBX_STAGE_CHECK,
            "%s: where it is set-user-id, bubblewrap cannot serve uid %d, "
            "which it needs for itself: use another user, or one that is "
            "not set-user-id",
            plan->bwrap, OVERFLOW_UID);
    }
    if (r == 0 && plan->bwrap_is_setuid) {
        plan->tmp_size_bytes = 0;
        sbx_plan_warn(plan, "/tmp, /run and /dev/shm have no bound: bubblewrap sets none "
                            "where it is set-user-id");
    }
    return r == 0 ? find_inner(plan, err) : r;
}
