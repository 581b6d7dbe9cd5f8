/*
 * plan_json.c - a plan as JSON, for audit: one line, the same bytes for the same plan.
 * Names of variables and never their values.
 */
#include "sandbox/plan.h"

#include "monitor/json.h"
#include "sandbox/seccomp.h"

#include <stdlib.h>
#include <string.h>

/* Each byte of a text takes 5 at most ("\\xHH"), and there is some wording around each.
 */
#define BYTES_EACH 5U
#define WORDING ((size_t)256)

static const char *const kind_names[] = {
    [SBX_MOUNT_RO_BIND] = "ro-bind",
    [SBX_MOUNT_BIND] = "bind",
    [SBX_MOUNT_SYMLINK] = "symlink",
    [SBX_MOUNT_TMPFS] = "tmpfs",
    [SBX_MOUNT_DEV] = "dev",
    [SBX_MOUNT_PROC] = "proc",
    [SBX_MOUNT_DIRECTORY] = "directory",
    [SBX_MOUNT_MASK] = "mask",
    [SBX_MOUNT_MASK_FILE] = "mask",
};
static const char *const why_names[] = {
    [SBX_WHY_SYSTEM] = "system",     [SBX_WHY_POLICY] = "policy",
    [SBX_WHY_EXPLICIT] = "explicit", [SBX_WHY_DEFAULT_MASK] = "default-mask",
    [SBX_WHY_COMMAND] = "command",
};

static void write_text(struct sbx_json *json, const char *key, const char *text)
{
    sbx_json_bytes(json, key, text, strlen(text));
}

static void write_mounts(struct sbx_json *json, const struct sbx_plan *plan)
{
    sbx_json_array(json, "mounts");
    for (size_t i = 0; i < plan->mount_count; i++) {
        const struct sbx_mount *mount = &plan->mounts[i];
        sbx_json_object(json, NULL);
        sbx_json_string(json, "kind", kind_names[mount->kind]);
        write_text(json, "path", mount->destination);
        if (mount->source != NULL) {
            write_text(json, mount->kind == SBX_MOUNT_SYMLINK ? "target" : "source",
                       mount->source);
        }
        if (mount->asked != NULL) {
            write_text(json, "asked", mount->asked);
        }
        sbx_json_string(json, "why", why_names[mount->why]);
        sbx_json_close(json);
    }
    sbx_json_close(json);
}

static void write_environment(struct sbx_json *json, const struct sbx_plan *plan)
{
    sbx_json_array(json, "environment");
    for (size_t i = 0; plan->environment[i] != NULL; i++) {
        const char *text = plan->environment[i];
        sbx_json_bytes(json, NULL, text, strcspn(text, "="));
    }
    sbx_json_close(json);
}

static void write_ceiling(struct sbx_json *json, const char *key, rlim_t value)
{
    if (value == RLIM_INFINITY) {
        sbx_json_string(json, key, "unlimited");
    } else {
        sbx_json_number(json, key, value);
    }
}

static void write_ceilings(struct sbx_json *json, const struct sbx_plan *plan)
{
    sbx_json_object(json, "ceilings");
    for (int i = 0; i < SBX_CEILING_COUNT; i++) {
        if (plan->ceilings[i].asked) {
            sbx_json_object(json, sbx_ceiling_kinds[i].name);
            write_ceiling(json, "soft", plan->ceilings[i].soft);
            write_ceiling(json, "hard", plan->ceilings[i].hard);
            sbx_json_close(json);
        }
    }
    sbx_json_close(json);
}

static void write_filter(struct sbx_json *json, const struct sbx_plan *plan)
{
    static const char *const modes[] = {[SBX_FILTER_DEFAULT] = "default",
                                        [SBX_FILTER_NONE] = "none",
                                        [SBX_FILTER_OWN] = "own"};
    size_t count = 0;
    const char *const *refused = sbx_seccomp_refused(&count);
    sbx_json_object(json, "seccomp");
    sbx_json_string(json, "mode", modes[plan->filter]);
    if (plan->filter == SBX_FILTER_DEFAULT) {
        sbx_json_array(json, "refused");
        for (size_t i = 0; i < count; i++) {
            sbx_json_string(json, NULL, refused[i]);
        }
        sbx_json_close(json);
    }
    sbx_json_close(json);
}

/* /dev/fd and its like are links into /proc. */
static void write_proc(struct sbx_json *json, const struct sbx_plan *plan)
{
    sbx_json_string(json, "proc",
                    plan->proc ? "private"
                               : (plan->self_exe != NULL ? "self-exe" : "none"));
    if (plan->self_exe != NULL) {
        write_text(json, "self_exe", plan->self_exe);
    }
    sbx_json_object(json, "dev_fd");
    sbx_json_bool(json, "works", plan->proc);
    if (!plan->proc) {
        sbx_json_string(
            json, "why",
            "/dev/fd, /dev/stdin and process substitution lead through /proc, "
            "which takes --proc");
    }
    sbx_json_close(json);
}

static void write_namespaces(struct sbx_json *json, const struct sbx_plan *plan)
{
    static const char *const names[] = {"user", "pid", "ipc", "uts", "cgroup", "mount"};
    sbx_json_array(json, "namespaces");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        sbx_json_string(json, NULL, names[i]);
    }
    if (plan->network == SBX_NETWORK_NONE) {
        sbx_json_string(json, NULL, "network");
    }
    sbx_json_close(json);
}

static void write_identity(struct sbx_json *json, const struct sbx_plan *plan)
{
    sbx_json_object(json, "identity");
    sbx_json_number(json, "uid", plan->uid);
    sbx_json_number(json, "gid", plan->gid);
    sbx_json_array(json, "capabilities");
    sbx_json_close(json);
    sbx_json_bool(json, "no_new_privileges", true);
    sbx_json_close(json);
}

static void write_lists(struct sbx_json *json, const struct sbx_plan *plan)
{
    sbx_json_array(json, "hidden");
    for (size_t i = 0; i < plan->masked.count; i++) {
        write_text(json, NULL, plan->masked.items[i]);
    }
    sbx_json_close(json);
    sbx_json_array(json, "warnings");
    for (size_t i = 0; i < plan->warnings.count; i++) {
        write_text(json, NULL, plan->warnings.items[i]);
    }
    sbx_json_close(json);
    sbx_json_array(json, "argv");
    for (size_t i = 0; i < plan->argument_count; i++) {
        write_text(json, NULL, plan->arguments[i].text);
    }
    sbx_json_close(json);
}

static void write_plan(struct sbx_json *json, const struct sbx_plan *plan)
{
    sbx_json_object(json, NULL);
    sbx_json_string(json, "schema", "sbx.plan/1");
    sbx_json_array(json, "command");
    for (size_t i = 0; i < plan->argv_count; i++) {
        write_text(json, NULL, plan->argv[i]);
    }
    sbx_json_close(json);
    write_text(json, "directory", plan->directory);
    write_environment(json, plan);
    write_identity(json, plan);
    write_namespaces(json, plan);
    sbx_json_string(json, "network", plan->network == SBX_NETWORK_NONE ? "none" : "host");
    write_mounts(json, plan);
    write_proc(json, plan);
    if (plan->tmp_size_bytes != 0) {
        sbx_json_number(json, "tmp_size_bytes", plan->tmp_size_bytes);
    }
    write_ceilings(json, plan);
    write_filter(json, plan);
    write_text(json, "bwrap", plan->bwrap);
    sbx_json_bool(json, "bwrap_is_setuid", plan->bwrap_is_setuid);
    write_text(json, "inner", plan->inner);
    write_lists(json, plan);
    sbx_json_close(json);
}

static size_t measure(const struct sbx_plan *plan)
{
    size_t size = 32768 + plan->secrets_size;
    for (size_t i = 0; i < plan->argument_count; i++) {
        size += strlen(plan->arguments[i].text) + WORDING;
    }
    for (size_t i = 0; i < plan->texts.count; i++) {
        size += strlen(plan->texts.items[i]) + WORDING;
    }
    for (size_t i = 0; i < plan->masked.count; i++) {
        size += strlen(plan->masked.items[i]) + WORDING;
    }
    for (size_t i = 0; i < plan->warnings.count; i++) {
        size += strlen(plan->warnings.items[i]) + WORDING;
    }
    return size * BYTES_EACH;
}

char *sbx_plan_write_json(const struct sbx_plan *plan)
{
    struct sbx_json json;
    size_t size = measure(plan);
    char *buffer = malloc(size);
    if (buffer == NULL) {
        return NULL;
    }
    sbx_json_init(&json, buffer, size);
    write_plan(&json, plan);
    if (sbx_json_finish(&json) < 0) {
        free(buffer);
        return NULL;
    }
    return buffer;
}
