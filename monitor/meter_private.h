/*
 * meter_private.h - what the files of the meter share: meter.c (CPU, counts, the sample)
 * and meter_memory.c (memory).
 */
#ifndef SBX_MONITOR_METER_PRIVATE_H
#define SBX_MONITOR_METER_PRIVATE_H

#include "monitor/meter.h"

#include <stdint.h>
#include <string.h>

static inline uint64_t sbx_known_or(uint64_t value, uint64_t other)
{
    return value == SBX_UNKNOWN ? other : value;
}

static inline void sbx_raise_to(uint64_t *peak, uint64_t value)
{
    if (value != SBX_UNKNOWN && (*peak == SBX_UNKNOWN || value > *peak)) {
        *peak = value;
    }
}

static inline void sbx_offer_culprit(struct sbx_culprit *culprit,
                                     const struct sbx_member *member, uint64_t value)
{
    if (culprit->pid == 0 || value > culprit->value) {
        culprit->pid = member->stat.pid;
        culprit->value = value;
        memcpy(culprit->name, member->stat.name, sizeof culprit->name);
    }
}

/*
 * Measures memory where that matters, and completes the sample: it has the time, the
 * number of processes and the bound, the sum of RSS and swap. `cpu_us` is what the tree
 * has used so far.
 */
void sbx_meter_take_memory(struct sbx_meter *meter, struct sbx_tree *tree,
                           uint64_t cpu_us, struct sbx_sample *sample);

#endif
