/*
 * plan.c - putting a plan together, see plan.h.
 */
#include "sandbox/plan.h"

#include "base/error.h"
#include "base/fd.h"
#include "monitor/option_rules.h"
#include "sandbox/paths.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* --- what the plan owns --- */

static const char *keep(struct sbx_plan *plan, struct sbx_strings *strings,
                        const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
static const char *keep(struct sbx_plan *plan, struct sbx_strings *strings,
                        const char *format, va_list args)
{
    SBX_AUTO_FREE char *text = NULL;
    if (vasprintf(&text, format, args) < 0) {
        text = NULL;
    }
    if (text == NULL || sbx_strings_add(strings, text, strlen(text)) < 0) {
        plan->no_memory = true;
        return "";
    }
    return strings->items[strings->count - 1];
}

const char *sbx_plan_text(struct sbx_plan *plan, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = keep(plan, &plan->texts, format, args);
    va_end(args);
    return text;
}

void sbx_plan_warn(struct sbx_plan *plan, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)keep(plan, &plan->warnings, format, args);
    va_end(args);
}

int sbx_plan_mount(struct sbx_plan *plan, const struct sbx_mount *mount,
                   struct sbx_error *err)
{
    if (plan->mount_count == SBX_PLAN_MOUNTS_MAX) {
        return sbx_error_set(err, E2BIG, SBX_STAGE_OPTIONS,
                             "more than %d binds and masks in one sandbox",
                             SBX_PLAN_MOUNTS_MAX);
    }
    plan->mounts[plan->mount_count++] = *mount;
    return 0;
}

void sbx_plan_uncover(struct sbx_plan *plan, const char *path)
{
    size_t kept = 0;
    for (size_t i = 0; i < plan->mount_count; i++) {
        if (!sbx_path_is_within(plan->mounts[i].destination, path)) {
            plan->mounts[kept++] = plan->mounts[i];
        }
    }
    plan->mount_count = kept;
}

void sbx_plan_free(struct sbx_plan *plan)
{
    if (plan == NULL) {
        return;
    }
    if (plan->secrets != NULL) {
        explicit_bzero(plan->secrets, plan->secrets_size);
    }
    free(plan->secrets);
    free(plan->environment);
    free(plan->argv);
    free(plan->arguments);
    free(plan->json);
    sbx_strings_done(&plan->texts);
    sbx_strings_done(&plan->masked);
    sbx_strings_done(&plan->explicitly_masked);
    sbx_strings_done(&plan->kernel_mounts);
    sbx_strings_done(&plan->device_mounts);
    sbx_strings_done(&plan->warnings);
    free(plan);
}

const char *sbx_plan_json(struct sbx_plan *plan)
{
    if (plan->json == NULL) {
        plan->json = sbx_plan_write_json(plan);
    }
    return plan->json;
}

const char *sbx_plan_warning(const struct sbx_plan *plan, size_t index)
{
    return index < plan->warnings.count ? plan->warnings.items[index] : NULL;
}

/* --- the parts that are copied --- */

static int plan_argv(struct sbx_plan *plan, const struct sbx_sandbox *sandbox,
                     struct sbx_error *err)
{
    size_t count = 0;
    if (sandbox->spec->argv == NULL) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS, "no command to confine");
    }
    while (sandbox->spec->argv[count] != NULL) {
        count++;
    }
    plan->argv = calloc(count + 1, sizeof *plan->argv);
    if (plan->argv == NULL) {
        plan->no_memory = true;
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        plan->argv[i] = sbx_plan_text(plan, "%s", sandbox->spec->argv[i]);
    }
    plan->argv_count = count;
    return 0;
}

/* A name that the caller lacks is told: the command would miss it. */
static void warn_of_missing(struct sbx_plan *plan, const struct sbx_environment *wanted)
{
    for (size_t i = 0; i < wanted->given.count; i++) {
        const char *text = wanted->given.items[i];
        if (strchr(text, '=') == NULL && getenv(text) == NULL) {
            sbx_plan_warn(plan, "env %s: the caller has none, so the command has none",
                          text);
        }
    }
}

static bool has_path(const char *const *variables)
{
    for (size_t i = 0; variables[i] != NULL; i++) {
        if (strncmp(variables[i], "PATH=", 5) == 0) {
            return true;
        }
    }
    return false;
}

/* Copied: what the options hold may be gone when the plan runs. */
static bool copy_environment(struct sbx_plan *plan, const char *const *variables)
{
    size_t count = 0;
    size_t size = sizeof DEFAULT_PATH;
    for (; variables[count] != NULL; count++) {
        size += strlen(variables[count]) + 1;
    }
    plan->environment = calloc(count + 2, sizeof *plan->environment);
    plan->secrets = malloc(size);
    plan->secrets_size = size;
    if (plan->environment == NULL || plan->secrets == NULL) {
        return false;
    }
    char *at = plan->secrets;
    size_t used = 0;
    if (!has_path(variables)) {
        plan->environment[used++] = at;
        at = stpcpy(at, DEFAULT_PATH) + 1;
    }
    for (size_t i = 0; i < count; i++) {
        plan->environment[used++] = at;
        at = stpcpy(at, variables[i]) + 1;
    }
    plan->secrets_size = (size_t)(at - plan->secrets);
    return true;
}

static void plan_environment(struct sbx_plan *plan, const struct sbx_sandbox *sandbox)
{
    SBX_AUTO_FREE const char **variables = NULL;
    const struct sbx_environment *wanted = &sandbox->spec->environment;
    warn_of_missing(plan, wanted);
    if (sbx_environment_make(wanted, (const char *const *)environ, NULL, &variables) <
            0 ||
        !copy_environment(plan, variables)) {
        plan->no_memory = true;
    }
}

static int plan_identity(struct sbx_plan *plan, const struct sbx_sandbox *sandbox,
                         struct sbx_error *err)
{
    const struct sbx_start *start = &sandbox->spec->start;
    plan->as_user = start->user_asked &&
                    (start->uid != getuid() || start->gid != getgid() || getuid() == 0);
    plan->uid = start->user_asked ? start->uid : getuid();
    plan->gid = start->user_asked ? start->gid : getgid();
    if (plan->as_user && geteuid() != 0) {
        return sbx_error_set(err, EPERM, SBX_STAGE_CHECK,
                             "option --as-user: only root can become uid %u gid %u",
                             plan->uid, plan->gid);
    }
    if (geteuid() != getuid() || getegid() != getgid()) {
        return sbx_error_set(err, EPERM, SBX_STAGE_CHECK,
                             "not for a set-user-id program: real and effective user "
                             "differ");
    }
    memcpy(plan->ceilings, sandbox->spec->ceilings, sizeof plan->ceilings);
    return sbx_ceiling_check(plan->ceilings, plan->uid, err);
}

static int plan_rest(struct sbx_plan *plan, const struct sbx_sandbox *sandbox,
                     struct sbx_error *err)
{
    if (sandbox->proc && sandbox->self_exe != NULL) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "options --proc and --self-exe: one or the other");
    }
    if (sandbox->self_exe != NULL && sandbox->self_exe[0] != '/') {
        char quoted[SBX_QUOTE_SIZE];
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "option --self-exe: '%s' is not an absolute path",
                             sbx_option_quote(quoted, sandbox->self_exe));
    }
    plan->self_exe =
        sandbox->self_exe != NULL ? sbx_plan_text(plan, "%s", sandbox->self_exe) : NULL;
    plan->proc = sandbox->proc;
    plan->network = sandbox->network;
    plan->tmp_size_bytes =
        sandbox->tmp_size_bytes != 0 ? sandbox->tmp_size_bytes : SBX_TMP_SIZE_DEFAULT;
    plan->filter = sandbox->filter;
    plan->filter_fd = sandbox->filter_fd;
    return 0;
}

static int make(struct sbx_plan *plan, const struct sbx_sandbox *sandbox,
                struct sbx_error *err)
{
    int r = plan_argv(plan, sandbox, err);
    r = r == 0 ? plan_rest(plan, sandbox, err) : r;
    r = r == 0 ? plan_identity(plan, sandbox, err) : r;
    r = r == 0 ? sbx_plan_streams(plan, sandbox, err) : r;
    r = r == 0 ? sbx_plan_masks(plan, sandbox, err) : r;
    r = r == 0 ? sbx_plan_kernel_mounts(plan, err) : r;
    r = r == 0 ? sbx_plan_mounts(plan, sandbox, err) : r;
    r = r == 0 ? sbx_plan_apply_masks(plan, sandbox, err) : r;
    r = r == 0 ? sbx_plan_command(plan, sandbox, err) : r;
    r = r == 0 ? sbx_plan_programs(plan, sandbox, err) : r;
    if (r == 0) {
        plan_environment(plan, sandbox);
        r = sbx_plan_arguments(plan, err);
    }
    return r;
}

int sbx_sandbox_plan(const struct sbx_sandbox *sandbox, struct sbx_plan **ret_plan,
                     struct sbx_error *err)
{
    struct sbx_plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL) {
        return sbx_error_set(err, ENOMEM, SBX_STAGE_CHECK, "no memory for the plan");
    }
    int r = make(plan, sandbox, err);
    if (r == 0 && plan->no_memory) {
        r = sbx_error_set(err, ENOMEM, SBX_STAGE_CHECK, "no memory for the plan");
    }
    if (r < 0) {
        sbx_plan_free(plan);
        return r;
    }
    *ret_plan = plan;
    return 0;
}
