/*
 * verify_table.c - the checks of a verification, in the order in which they are shown,
 * and what can be found.
 *
 * The table is the one place that knows their names: --need, the documents and the tests
 * follow it. A ceiling that no kernel holds any more is in no group: a need that never
 * can be met would be no use to anybody.
 */
#include "sandbox/verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct sbx_check_kind sbx_check_kinds[] = {
    {"sandbox", NULL, "sandbox", sbx_verify_sandbox},
    {"network", NULL, "network", sbx_verify_sandbox},
    {"user-namespaces", "namespaces", NULL, sbx_verify_user_namespaces},
    {"nested-proc", "namespaces", NULL, sbx_verify_nested_proc},
    {"bubblewrap", NULL, NULL, sbx_verify_bwrap},
    {"setuid-bubblewrap", NULL, NULL, sbx_verify_setuid},
    {"seccomp", "kernel", NULL, sbx_verify_seccomp},
    {"kernel-version", "kernel", NULL, sbx_verify_kernel},
    {"pidfd", "kernel", NULL, sbx_verify_pidfd},
    {"pressure", NULL, NULL, sbx_verify_pressure},
    {"cgroup-leaf", "cgroup", NULL, NULL},
    {"cgroup-kill", "cgroup", NULL, NULL},
    {"cgroup-birth", "cgroup", NULL, NULL},
    {"cgroup-memory", "controllers", NULL, NULL},
    {"cgroup-pids", "controllers", NULL, NULL},
    {"cgroup-cpu", "controllers", NULL, NULL},
    {"limit-wall", "limits", "wall", sbx_verify_limit},
    {"limit-cpu", "limits", "cpu", sbx_verify_limit},
    {"limit-memory", "limits", "memory", sbx_verify_limit},
    {"limit-processes", "limits", "processes", sbx_verify_limit},
    {"limit-threads", "limits", "threads", sbx_verify_limit},
    {"limit-output", "limits", "output", sbx_verify_limit},
    {"limit-idle", "limits", "idle", sbx_verify_limit},
    {"ceiling-as", "ceilings", "as", sbx_verify_ceiling},
    {"ceiling-core", "ceilings", "core", sbx_verify_ceiling},
    {"ceiling-cpu", "ceilings", "cpu", sbx_verify_ceiling},
    {"ceiling-data", "ceilings", "data", sbx_verify_ceiling},
    {"ceiling-fsize", "ceilings", "fsize", sbx_verify_ceiling},
    {"ceiling-locks", NULL, "locks", sbx_verify_ceiling},
    {"ceiling-memlock", "ceilings", "memlock", sbx_verify_ceiling},
    {"ceiling-msgqueue", "ceilings", "msgqueue", sbx_verify_ceiling},
    {"ceiling-nice", "ceilings", "nice", sbx_verify_ceiling},
    {"ceiling-nofile", "ceilings", "nofile", sbx_verify_ceiling},
    {"ceiling-nproc", "ceilings", "nproc", sbx_verify_ceiling},
    {"ceiling-rss", NULL, "rss", sbx_verify_ceiling},
    {"ceiling-rtprio", "ceilings", "rtprio", sbx_verify_ceiling},
    {"ceiling-rttime", "ceilings", "rttime", sbx_verify_ceiling},
    {"ceiling-sigpending", "ceilings", "sigpending", sbx_verify_ceiling},
    {"ceiling-stack", "ceilings", "stack", sbx_verify_ceiling},
};
const size_t sbx_check_count = sizeof sbx_check_kinds / sizeof sbx_check_kinds[0];

_Static_assert(sizeof sbx_check_kinds / sizeof sbx_check_kinds[0] <= SBX_CHECK_MAX,
               "a board holds them all");

int sbx_check_find(const char *name)
{
    for (size_t i = 0; i < sbx_check_count; i++) {
        if (strcmp(sbx_check_kinds[i].name, name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

/* --- findings --- */

__attribute__((format(printf, 3, 0))) static void write_finding(struct sbx_finding *ret,
                                                                enum sbx_verdict verdict,
                                                                const char *format,
                                                                va_list arguments)
{
    memset(ret, 0, sizeof *ret);
    (void)vsnprintf(ret->layer.detail, sizeof ret->layer.detail, format, arguments);
    ret->verdict = verdict;
}

void sbx_finding_yes(struct sbx_finding *ret, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_finding(ret, SBX_VERDICT_YES, format, arguments);
    va_end(arguments);
}

void sbx_finding_skip(struct sbx_finding *ret, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_finding(ret, SBX_VERDICT_NOT_APPLICABLE, format, arguments);
    va_end(arguments);
}

void sbx_finding_no(struct sbx_finding *ret, const char *layer, const char *remedy,
                    const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_finding(ret, SBX_VERDICT_NO, format, arguments);
    va_end(arguments);
    (void)snprintf(ret->layer.layer, sizeof ret->layer.layer, "%s", layer);
    (void)snprintf(ret->layer.remedy, sizeof ret->layer.remedy, "%s", remedy);
}

void sbx_finding_layer(struct sbx_finding *ret, const struct sbx_layer *layer)
{
    ret->layer = *layer;
    ret->verdict = layer->ok ? SBX_VERDICT_YES : SBX_VERDICT_NO;
}
