/*
 * verdict.h - what the kernel's counters of a group say about the limits that it holds.
 * Pure: no clock, no system call.
 *
 * An OOM kill is ours (reason memory) if it was the limit of the leaf itself that had
 * nothing left to give, whoever in it or below was killed for it. Clearly more than the
 * limit in samples is a breach as well: then somebody has taken the limit away, as a
 * command of the same user can. If no limit in the leaf
 * or below was hit, it was an ancestor's or the host's (reason oom). A limit that the
 * command has set for a group of its own below is its own affair. A fork that the leaf's
 * pids.max refused is a breach of threads.
 */
#ifndef SBX_MONITOR_VERDICT_H
#define SBX_MONITOR_VERDICT_H

#include "cgroup/leaf.h"
#include "cgroup/statistics.h"
#include "monitor/record.h"

#include <stdbool.h>
#include <stdint.h>

struct sbx_evidence {
    struct sbx_figures before; /* when the group was opened */
    struct sbx_figures now;
    struct sbx_leaf_limits armed; /* SBX_UNKNOWN: that limit is not held by the kernel */
    uint64_t anon_peak_bytes;     /* largest sample; SBX_UNKNOWN: none yet */
    /* For kernels whose pids.events counts where the fork was refused (see
     * sbx_statistics_refused_below). */
    uint64_t refused_below;
};

struct sbx_verdict {
    enum sbx_reason reason; /* memory, threads or oom */
    uint64_t limit;         /* SBX_UNKNOWN for oom */
    uint64_t observed;
};

/* Whether refused_below would make a difference: else it need not be looked for. */
bool sbx_verdict_needs_below(const struct sbx_evidence *evidence);

/* True and *ret_verdict when a limit was crossed: memory before threads before oom. */
bool sbx_verdict(const struct sbx_evidence *evidence, struct sbx_verdict *ret_verdict);

#endif
