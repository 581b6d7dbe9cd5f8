/*
 * armament.c - see armament.h. Pure: looks at nothing but its arguments.
 */
#include "monitor/armament.h"

#include "base/error.h"

#include <errno.h>

#define REMEDY                                                                           \
    "run it in a delegated group (systemd-run --user --scope -p Delegate=yes), or give " \
    "one by --cgroup-root"

static bool requires(const struct sbx_spec *spec, enum sbx_require what)
{
    return (spec->require & 1U << (unsigned)what) != 0;
}

/* The first option that makes no sense without a group; NULL: none was given. */
static const char *needs_group(const struct sbx_spec *spec)
{
    if (spec->limits.swap_bytes != 0) {
        return "swap";
    }
    if (spec->limits.cpu_quota_percent != 0) {
        return "cpu-quota";
    }
    if (spec->cgroup_root != NULL) {
        return "cgroup-root";
    }
    if (requires(spec, SBX_REQUIRE_CGROUP2)) {
        return "require cgroup2";
    }
    return requires(spec, SBX_REQUIRE_KERNEL_LIMITS) ? "require kernel-limits" : NULL;
}

int sbx_armament_check_options(const struct sbx_spec *spec, struct sbx_error *err)
{
    const char *option = needs_group(spec);
    if (spec->backend == SBX_BACKEND_PROC && option != NULL) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_CHECK,
                             "option --%s: needs a cgroup, and --backend proc makes none",
                             option);
    }
    if (requires(spec, SBX_REQUIRE_PID_NAMESPACE) && !spec->pid_namespace &&
        !sbx_spec_attaches(spec)) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_CHECK,
                             "option --require: 'pid-namespace' is certain with "
                             "--pid-namespace alone: give that as well (whether a "
                             "launcher will make one is not known before)");
    }
    if (spec->limits.swap_bytes != 0 && spec->limits.memory_bytes == 0) {
        return sbx_error_set(
            err, EINVAL, SBX_STAGE_CHECK,
            "option --swap: needs --memory, beside which it allows swap");
    }
    return 0;
}

static const char *reason(const struct sbx_armament *armament,
                          enum sbx_controller controller)
{
    if (!armament->has_leaf) {
        return armament->why_none;
    }
    const char *why = armament->why[controller];
    return why != NULL && why[0] != '\0' ? why : "the group has not got it";
}

static int refuse_leaf(const struct sbx_spec *spec, const struct sbx_armament *armament,
                       struct sbx_error *err)
{
    const char *option = spec->backend == SBX_BACKEND_CGROUP2 ? "--backend" : "--require";
    return sbx_error_set(err, ENOTSUP, SBX_STAGE_ARM,
                         "option %s: cgroup2 cannot be had: %s; " REMEDY, option,
                         armament->why_none);
}

static int refuse(const struct sbx_armament *armament, const char *option,
                  enum sbx_controller controller, const char *file, struct sbx_error *err)
{
    return sbx_error_set(
        err, ENOTSUP, SBX_STAGE_ARM,
        "option %s: the kernel cannot hold it (controller %s, %s): %s; " REMEDY, option,
        sbx_controller_name(controller), file, reason(armament, controller));
}

int sbx_armament_check(const struct sbx_spec *spec, const struct sbx_armament *armament,
                       struct sbx_error *err)
{
    const struct sbx_limits *limits = &spec->limits;
    static const struct sbx_leaf_limits nothing = {SBX_UNKNOWN, SBX_UNKNOWN, false,
                                                   SBX_UNKNOWN, SBX_UNKNOWN};
    /* Whatever else it says: without a leaf nothing is held. */
    const struct sbx_leaf_limits *armed =
        armament->has_leaf ? &armament->armed : &nothing;
    bool demanded = requires(spec, SBX_REQUIRE_KERNEL_LIMITS);
    if (!armament->has_leaf &&
        (spec->backend == SBX_BACKEND_CGROUP2 || requires(spec, SBX_REQUIRE_CGROUP2))) {
        return refuse_leaf(spec, armament, err);
    }
    if (demanded && limits->memory_bytes != 0 && armed->memory_bytes == SBX_UNKNOWN) {
        return refuse(armament, "--require kernel-limits: --memory",
                      SBX_CONTROLLER_MEMORY, "memory.max", err);
    }
    if (demanded && limits->threads_count != 0 && armed->threads_count == SBX_UNKNOWN) {
        return refuse(armament, "--require kernel-limits: --threads", SBX_CONTROLLER_PIDS,
                      "pids.max", err);
    }
    if (limits->swap_bytes != 0 && armed->swap_bytes == SBX_UNKNOWN) {
        return refuse(armament, "--swap", SBX_CONTROLLER_MEMORY, "memory.swap.max", err);
    }
    if (limits->cpu_quota_percent != 0 && armed->cpu_percent == SBX_UNKNOWN) {
        return refuse(armament, "--cpu-quota", SBX_CONTROLLER_CPU, "cpu.max", err);
    }
    return 0;
}
