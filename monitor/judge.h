/*
 * judge.h - limits against one sample, and when to look next. Pure: time and numbers come
 * in as arguments.
 */
#ifndef SBX_MONITOR_JUDGE_H
#define SBX_MONITOR_JUDGE_H

#include "monitor/record.h"

#include <stdbool.h>
#include <stdint.h>

/* What the tree was like at one moment. */
struct sbx_sample {
    uint64_t elapsed_us;   /* since launch */
    uint64_t cpu_us;       /* of the whole tree so far, ended members included */
    uint64_t memory_bytes; /* PSS + swap; SBX_UNKNOWN when a cheaper bound already showed
                              it below the limit */
    uint64_t memory_bound_bytes; /* RSS + swap: never less than memory_bytes */
    uint64_t processes;
    uint64_t threads;
    uint64_t output_bytes;             /* so far; 0 where it is not captured */
    uint64_t idle_us;                  /* since something was written or CPU time used */
    struct sbx_culprit memory_culprit; /* the member with the most of each */
    struct sbx_culprit cpu_culprit;
    struct sbx_culprit processes_culprit; /* most children */
    struct sbx_culprit threads_culprit;
};

/* The first limit that the sample crosses, in the order wall, cpu, memory, processes,
 * threads, output, idle. False: none, *ret_breach is untouched. Times are crossed when
 * they are used up, the others when they are exceeded. */
bool sbx_judge(const struct sbx_limits *limits, const struct sbx_sample *sample,
               struct sbx_breach *ret_breach);

/* The breach that `reason` alone makes of this sample, whether or not it is crossed. */
struct sbx_breach sbx_breach_of(enum sbx_reason reason, const struct sbx_limits *limits,
                                const struct sbx_sample *sample);

/* Bit (1 << reason) for each limit of which at least `percent` is known to be used. */
unsigned sbx_near(const struct sbx_limits *limits, const struct sbx_sample *sample,
                  uint64_t percent);

#define SBX_PERIOD_MIN_US 1000U

struct sbx_pace {
    uint64_t interval_us; /* longest period */
    unsigned cpus;        /* that can work for the tree at once */
    uint64_t cost_us;     /* what the last sample cost us */
};

/*
 * How long the next sample may wait: as long as no limit can be crossed meanwhile by a
 * tree that grows as fast as this kind of machine lets it (CPU: all processors; memory:
 * page-fault bandwidth; processes and threads: what was seen growing). At most the
 * interval, at least 1 ms, and never so often that watching takes more than a small share
 * of a processor (a larger one while memory grows). Young runs are looked at sooner, so
 * that short ones are seen at all. `before` may be NULL.
 */
uint64_t sbx_period(const struct sbx_limits *limits, const struct sbx_sample *before,
                    const struct sbx_sample *now, const struct sbx_pace *pace);

#endif
