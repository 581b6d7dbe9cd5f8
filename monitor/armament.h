/*
 * armament.h - whether what was demanded of the kernel is what the kernel holds.
 *
 * `auto` is content with what can be had. What was demanded by name (--swap, --cpu-quota,
 * --require, --backend cgroup2) is there, or nothing runs. `kernel-limits` speaks of the
 * limits of memory and threads that were asked for: where neither was, it is content.
 */
#ifndef SBX_MONITOR_ARMAMENT_H
#define SBX_MONITOR_ARMAMENT_H

#include "cgroup/leaf.h"
#include "monitor/spec.h"

#include <sbx/sbx.h>
#include <stdbool.h>

/* Whether what is asked for goes together, wherever it runs: 0, or -EINVAL, stage check,
 * with a message that names both options. */
int sbx_armament_check_options(const struct sbx_spec *spec, struct sbx_error *err);

struct sbx_armament {
    bool has_leaf;
    struct sbx_leaf_limits armed;          /* as read back */
    const char *why_none;                  /* why there is no leaf; "" */
    const char *why[SBX_CONTROLLER_COUNT]; /* why a controller cannot be had; "" */
};

/* 0, or a negative errno, stage arm, with a message that names option, controller, reason
 * and remedy. */
int sbx_armament_check(const struct sbx_spec *spec, const struct sbx_armament *armament,
                       struct sbx_error *err);

#endif
