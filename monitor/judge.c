/*
 * judge.c - see judge.h. No clock, no system call, no state.
 */
#include "monitor/judge.h"

#include <stddef.h>

/* First touch of fresh pages by one processor: 1.5 to 2.5 GiB/s measured on current
 * machines; taken higher to be early. */
#define GROWTH_BYTES_PER_S (3ULL << 30)
/* Processes and threads: a limit crossed late is only a number, so what counts is the
 * growth that was seen, and this. */
#define GROWTH_TASKS_PER_S 200U
/* Largest share of one processor that watching may take: 1 part of these. */
#define CALM_SHARE 50U
#define NEAR_SHARE 20U
#define GROWING_SHARE 4U

static struct sbx_breach make(enum sbx_reason reason, uint64_t limit, uint64_t observed,
                              const struct sbx_culprit *culprit)
{
    struct sbx_breach breach = {
        .reason = reason, .ceiling = -1, .limit = limit, .observed = observed};
    if (culprit != NULL) {
        breach.culprit = *culprit;
    }
    return breach;
}

struct sbx_breach sbx_breach_of(enum sbx_reason reason, const struct sbx_limits *limits,
                                const struct sbx_sample *sample)
{
    struct sbx_breach breach = make(reason, SBX_UNKNOWN, SBX_UNKNOWN, NULL);
    if (reason == SBX_REASON_WALL) {
        breach = make(reason, limits->wall_us, sample->elapsed_us, NULL);
    } else if (reason == SBX_REASON_CPU) {
        breach = make(reason, limits->cpu_us, sample->cpu_us, &sample->cpu_culprit);
    } else if (reason == SBX_REASON_MEMORY) {
        breach = make(reason, limits->memory_bytes, sample->memory_bytes,
                      &sample->memory_culprit);
    } else if (reason == SBX_REASON_PROCESSES) {
        breach = make(reason, limits->processes_count, sample->processes,
                      &sample->processes_culprit);
    } else if (reason == SBX_REASON_THREADS) {
        breach = make(reason, limits->threads_count, sample->threads,
                      &sample->threads_culprit);
    } else if (reason == SBX_REASON_OUTPUT) {
        breach = make(reason, limits->output_bytes, sample->output_bytes, NULL);
    } else if (reason == SBX_REASON_IDLE) {
        breach = make(reason, limits->idle_us, sample->idle_us, NULL);
    }
    breach.at_us = sample->elapsed_us;
    return breach;
}

bool sbx_judge(const struct sbx_limits *limits, const struct sbx_sample *sample,
               struct sbx_breach *ret_breach)
{
    enum sbx_reason reason = SBX_REASON_NONE;
    if (limits->wall_us != 0 && sample->elapsed_us >= limits->wall_us) {
        reason = SBX_REASON_WALL;
    } else if (limits->cpu_us != 0 && sample->cpu_us >= limits->cpu_us) {
        reason = SBX_REASON_CPU;
    } else if (limits->memory_bytes != 0 && sample->memory_bytes != SBX_UNKNOWN &&
               sample->memory_bytes > limits->memory_bytes) {
        reason = SBX_REASON_MEMORY;
    } else if (limits->processes_count != 0 &&
               sample->processes > limits->processes_count) {
        reason = SBX_REASON_PROCESSES;
    } else if (limits->threads_count != 0 && sample->threads > limits->threads_count) {
        reason = SBX_REASON_THREADS;
    } else if (limits->output_bytes != 0 && sample->output_bytes > limits->output_bytes) {
        reason = SBX_REASON_OUTPUT;
    } else if (limits->idle_us != 0 && sample->idle_us >= limits->idle_us) {
        reason = SBX_REASON_IDLE;
    }
    if (reason == SBX_REASON_NONE) {
        return false;
    }
    *ret_breach = sbx_breach_of(reason, limits, sample);
    return true;
}

/* What a sample says of its memory for pacing: the exact figure, else the bound that
 * showed it small. */
static uint64_t memory_of(const struct sbx_sample *sample)
{
    return sample->memory_bytes != SBX_UNKNOWN ? sample->memory_bytes
                                               : sample->memory_bound_bytes;
}

static bool is_near(uint64_t limit, uint64_t value, uint64_t percent)
{
    /* As doubles: the products do not fit into 64 bits, and nothing hangs on the last
     * digit. */
    return limit != 0 && (double)value * 100.0 >= (double)limit * (double)percent;
}

unsigned sbx_near(const struct sbx_limits *limits, const struct sbx_sample *sample,
                  uint64_t percent)
{
    const struct {
        enum sbx_reason reason;
        uint64_t limit;
        uint64_t value;
    } rows[] = {
        {SBX_REASON_WALL, limits->wall_us, sample->elapsed_us},
        {SBX_REASON_CPU, limits->cpu_us, sample->cpu_us},
        /* A bound is no figure: shared memory is in it many times over. */
        {SBX_REASON_MEMORY, limits->memory_bytes,
         sample->memory_bytes == SBX_UNKNOWN ? 0 : sample->memory_bytes},
        {SBX_REASON_PROCESSES, limits->processes_count, sample->processes},
        {SBX_REASON_THREADS, limits->threads_count, sample->threads},
        {SBX_REASON_OUTPUT, limits->output_bytes, sample->output_bytes},
    };
    unsigned near = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (is_near(rows[i].limit, rows[i].value, percent)) {
            near |= 1U << rows[i].reason;
        }
    }
    return near;
}

static uint64_t headroom(uint64_t limit, uint64_t value)
{
    return value >= limit ? 0 : limit - value;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Microseconds until `room` is used up at `per_s` units a second. */
static uint64_t time_to_use(uint64_t room, uint64_t per_s)
{
    if (room > UINT64_MAX / 1000000U) {
        return UINT64_MAX;
    }
    return room * 1000000U / (per_s == 0 ? 1 : per_s);
}

/* Twice the growth that was seen since the sample before, per second. */
static uint64_t seen_growth(uint64_t before, uint64_t now, uint64_t elapsed_us)
{
    if (now <= before || elapsed_us == 0) {
        return 0;
    }
    return (now - before) * 2U * 1000000U / elapsed_us;
}

static uint64_t tasks_period(uint64_t limit, uint64_t before, uint64_t now,
                             uint64_t elapsed_us)
{
    if (limit == 0) {
        return UINT64_MAX;
    }
    return time_to_use(headroom(limit, now),
                       GROWTH_TASKS_PER_S + seen_growth(before, now, elapsed_us));
}

uint64_t sbx_period(const struct sbx_limits *limits, const struct sbx_sample *before,
                    const struct sbx_sample *now, const struct sbx_pace *pace)
{
    const struct sbx_sample *past = before != NULL ? before : now;
    uint64_t elapsed = now->elapsed_us - past->elapsed_us;
    uint64_t cpus = pace->cpus == 0 ? 1 : pace->cpus;
    uint64_t period = pace->interval_us;
    uint64_t share = CALM_SHARE;
    if (limits->cpu_us != 0) {
        period = smaller(period, headroom(limits->cpu_us, now->cpu_us) / cpus);
    }
    period = smaller(period, tasks_period(limits->processes_count, past->processes,
                                          now->processes, elapsed));
    period = smaller(period, tasks_period(limits->threads_count, past->threads,
                                          now->threads, elapsed));
    if (limits->memory_bytes != 0) {
        uint64_t room = headroom(limits->memory_bytes, memory_of(now));
        uint64_t due = time_to_use(room, GROWTH_BYTES_PER_S * cpus);
        bool grows = memory_of(now) > memory_of(past) &&
                     memory_of(now) - memory_of(past) > limits->memory_bytes / 100;
        /* Whatever else is near: memory alone says how much watching is worth to it. */
        if (due < pace->interval_us) {
            share = grows ? GROWING_SHARE : NEAR_SHARE;
        }
        period = smaller(period, due);
    }
    uint64_t young = now->elapsed_us;
    period = smaller(period, young);
    if (period < pace->cost_us * share) {
        period = pace->cost_us * share;
    }
    if (period < SBX_PERIOD_MIN_US) {
        period = SBX_PERIOD_MIN_US;
    }
    return smaller(period, pace->interval_us);
}
