/*
 * meter.h - from the members of a tree to one sample, and to the usage that the report
 * shows.
 *
 * CPU: what live members used, with the children that they have waited for (stat), plus
 * what the members that we reaped used, with theirs (wait rusage). Each tick is counted
 * once, and at the end, when all have been reaped, the sum is the kernel's own. Lost is
 * only what children of a process that ignores SIGCHLD used; what was sampled of it is
 * counted, and cpu_complete is false. Memory: the sum of RSS bounds PSS from above and
 * costs nothing, so smaps_rollup (which stalls the process that is read) is read only
 * when that bound passes the limit or promises a new peak.
 */
#ifndef SBX_MONITOR_METER_H
#define SBX_MONITOR_METER_H

#include "cgroup/statistics.h"
#include "monitor/judge.h"
#include "monitor/pss.h"
#include "monitor/record.h"
#include "reaper/tree.h"

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

struct sbx_meter {
    int proc_fd; /* borrowed */
    struct sbx_limits limits;
    struct sbx_usage *usage; /* borrowed; kept current */
    bool swap_on;            /* the host has swap */
    uint64_t
        own_rss_bytes; /* ours before the launch: ru_maxrss of a child starts there */

    uint64_t reaped_user_us;
    uint64_t reaped_system_us;
    /* Of an attached tree: members that nobody among them waits for count as reaped, with
     * what was last seen of them. */
    bool attached;
    uint64_t attached_ticks; /* when, in the unit of start times */
    uint64_t before_user_us; /* what members had used by then */
    uint64_t before_system_us;
    uint64_t unseen_count;   /* reaped, but never met by a walk */
    uint64_t lost_cpu_us;    /* last seen of children that nobody waited for */
    struct sbx_pss *pss;     /* borrowed */
    uint64_t doubt_since_us; /* a sum in doubt is above the limit since; SBX_UNKNOWN */
    unsigned doubts;         /* in how many samples in a row */
    uint64_t peak_retry_us;  /* since launch: no reading for a peak alone before that */
    /* At the last reading of PSS: */
    uint64_t read_bound_bytes; /* RSS + swap */
    uint64_t read_cpu_us;      /* CPU of the tree */
    uint64_t read_at_us;       /* since launch */
    uint64_t read_cost_us;
    size_t status_cursor; /* rotates through the members */
    /* Where the run has a group: what that told before this sample. */
    bool grouped;
    bool left; /* ...but somebody is outside, so its memory is not the tree's */
    struct sbx_figures figures;
};

/* Call it before the launch (it looks at the caller's own memory). `pss` is borrowed. */
void sbx_meter_init(struct sbx_meter *meter, int proc_fd, const struct sbx_limits *limits,
                    struct sbx_pss *pss, struct sbx_usage *usage);

/* For an attached tree, after sbx_meter_init: the first walk. What members have used
 * until now does not count. 0, or a negative errno. */
int sbx_meter_attach(struct sbx_meter *meter, struct sbx_tree *tree,
                     struct sbx_error *err);

/* One walk that measures nothing, but misses nobody who vanishes. */
int sbx_meter_walk(struct sbx_meter *meter, struct sbx_tree *tree, struct sbx_error *err);

/* A child of ours was reaped; `known`: it had been a member. */
void sbx_meter_reaped(struct sbx_meter *meter, const struct rusage *rusage, bool known);

/* Walks the tree and measures it. `elapsed_us` since launch. 0, or a negative errno when
 * the tree could not be read. */
int sbx_meter_sample(struct sbx_meter *meter, struct sbx_tree *tree, uint64_t elapsed_us,
                     struct sbx_sample *ret_sample, struct sbx_error *err);

/* After the last member was reaped: the usage says what is final. */
void sbx_meter_finish(struct sbx_meter *meter, struct sbx_tree *tree, bool all_reaped);

#endif
