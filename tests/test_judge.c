/*
 * test_judge.c - limits against samples, and when to look next, by tables.
 */
#include "tests/fixture.h"

#include "monitor/judge.h"

#include <stdint.h>
#include <string.h>

#define MAX UINT64_MAX
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* --- the verdict --- */

struct verdict {
    struct sbx_limits limits;
    struct sbx_sample sample;
    enum sbx_reason reason; /* SBX_REASON_NONE: no limit is crossed */
    uint64_t limit;
    uint64_t observed;
};

static const struct verdict verdicts[] = {
    /* nothing is asked for: nothing is crossed */
    {{0}, {0}, SBX_REASON_NONE, 0, 0},
    {{0},
     {MAX, MAX, MAX, MAX, MAX, MAX, MAX, MAX, {0}, {0}, {0}, {0}},
     SBX_REASON_NONE,
     0,
     0},
    /* time is crossed when it is used up */
    {{.wall_us = 1000}, {.elapsed_us = 999}, SBX_REASON_NONE, 0, 0},
    {{.wall_us = 1000}, {.elapsed_us = 1000}, SBX_REASON_WALL, 1000, 1000},
    {{.wall_us = 1000}, {.elapsed_us = 1001}, SBX_REASON_WALL, 1000, 1001},
    {{.cpu_us = 1000}, {.cpu_us = 999}, SBX_REASON_NONE, 0, 0},
    {{.cpu_us = 1000}, {.cpu_us = 1000}, SBX_REASON_CPU, 1000, 1000},
    {{.cpu_us = 1000}, {.cpu_us = 1001}, SBX_REASON_CPU, 1000, 1001},
    /* the others when they are exceeded */
    {{.memory_bytes = 1000}, {.memory_bytes = 999}, SBX_REASON_NONE, 0, 0},
    {{.memory_bytes = 1000}, {.memory_bytes = 1000}, SBX_REASON_NONE, 0, 0},
    {{.memory_bytes = 1000}, {.memory_bytes = 1001}, SBX_REASON_MEMORY, 1000, 1001},
    {{.processes_count = 10}, {.processes = 9}, SBX_REASON_NONE, 0, 0},
    {{.processes_count = 10}, {.processes = 10}, SBX_REASON_NONE, 0, 0},
    {{.processes_count = 10}, {.processes = 11}, SBX_REASON_PROCESSES, 10, 11},
    {{.threads_count = 10}, {.threads = 9}, SBX_REASON_NONE, 0, 0},
    {{.threads_count = 10}, {.threads = 10}, SBX_REASON_NONE, 0, 0},
    {{.threads_count = 10}, {.threads = 11}, SBX_REASON_THREADS, 10, 11},
    {{.output_bytes = 10}, {.output_bytes = 10}, SBX_REASON_NONE, 0, 0},
    {{.output_bytes = 10}, {.output_bytes = 11}, SBX_REASON_OUTPUT, 10, 11},
    {{.idle_us = 1000}, {.idle_us = 999}, SBX_REASON_NONE, 0, 0},
    {{.idle_us = 1000}, {.idle_us = 1000}, SBX_REASON_IDLE, 1000, 1000},
    /* memory that is not known is not over its limit, whatever the bound says */
    {{.memory_bytes = 1000},
     {.memory_bytes = SBX_UNKNOWN, .memory_bound_bytes = 5000},
     SBX_REASON_NONE,
     0,
     0},
    {{.memory_bytes = MAX},
     {.memory_bytes = SBX_UNKNOWN, .memory_bound_bytes = MAX},
     SBX_REASON_NONE,
     0,
     0},
    {{.memory_bytes = 1000}, {.memory_bytes = MAX - 1}, SBX_REASON_MEMORY, 1000, MAX - 1},
    /* huge numbers */
    {{.wall_us = MAX}, {.elapsed_us = MAX - 1}, SBX_REASON_NONE, 0, 0},
    {{.wall_us = MAX}, {.elapsed_us = MAX}, SBX_REASON_WALL, MAX, MAX},
    {{.cpu_us = MAX}, {.cpu_us = MAX - 1}, SBX_REASON_NONE, 0, 0},
    {{.processes_count = MAX}, {.processes = MAX}, SBX_REASON_NONE, 0, 0},
    {{.threads_count = 1}, {.threads = MAX}, SBX_REASON_THREADS, 1, MAX},
    /* one that was not asked for stays out of it */
    {{.cpu_us = 5}, {.elapsed_us = MAX, .processes = 100}, SBX_REASON_NONE, 0, 0},
    /* the order, when several are crossed at once */
    {{5, 5, 5, 5, 5, 5, 5, 0, 0},
     {.elapsed_us = 9, .cpu_us = 9, .memory_bytes = 9, .processes = 9, .threads = 9},
     SBX_REASON_WALL,
     5,
     9},
    {{5, 5, 5, 5, 5, 5, 5, 0, 0},
     {.elapsed_us = 1, .cpu_us = 9, .memory_bytes = 9, .processes = 9, .threads = 9},
     SBX_REASON_CPU,
     5,
     9},
    {{5, 5, 5, 5, 5, 5, 5, 0, 0},
     {.elapsed_us = 1, .cpu_us = 1, .memory_bytes = 9, .processes = 9, .threads = 9},
     SBX_REASON_MEMORY,
     5,
     9},
    {{5, 5, 5, 5, 5, 5, 5, 0, 0},
     {.elapsed_us = 1, .cpu_us = 1, .memory_bytes = 1, .processes = 9, .threads = 9},
     SBX_REASON_PROCESSES,
     5,
     9},
    {{5, 5, 5, 5, 5, 5, 5, 0, 0},
     {.elapsed_us = 1, .cpu_us = 1, .memory_bytes = 1, .processes = 1, .threads = 9},
     SBX_REASON_THREADS,
     5,
     9},
    {{5, 5, 5, 5, 5, 5, 5, 0, 0},
     {.elapsed_us = 1, .output_bytes = 9, .idle_us = 9},
     SBX_REASON_OUTPUT,
     5,
     9},
    {{5, 5, 5, 5, 5, 5, 5, 0, 0},
     {.elapsed_us = 1, .output_bytes = 5, .idle_us = 9},
     SBX_REASON_IDLE,
     5,
     9},
};

START_TEST(judges_as_the_table_says)
{
    for (size_t i = 0; i < sizeof verdicts / sizeof verdicts[0]; i++) {
        const struct verdict *row = &verdicts[i];
        struct sbx_breach breach;
        memset(&breach, 0x5a, sizeof breach);
        struct sbx_breach before = breach;
        bool crossed = sbx_judge(&row->limits, &row->sample, &breach);
        if (row->reason == SBX_REASON_NONE) {
            ck_assert_msg(!crossed, "row %zu: breach %d", i, (int)breach.reason);
            ck_assert_msg(memcmp(&breach, &before, sizeof breach) == 0,
                          "row %zu: the breach was touched", i);
            continue;
        }
        ck_assert_msg(crossed && breach.reason == row->reason, "row %zu: reason %d", i,
                      crossed ? (int)breach.reason : 0);
        ck_assert_msg(breach.limit == row->limit && breach.observed == row->observed,
                      "row %zu: %llu of %llu", i, (unsigned long long)breach.observed,
                      (unsigned long long)breach.limit);
        ck_assert_int_eq(breach.ceiling, -1);
        ck_assert_uint_eq(breach.at_us, row->sample.elapsed_us);
    }
}
END_TEST

START_TEST(names_the_culprit_of_its_own_reason)
{
    const struct sbx_sample sample = {
        .elapsed_us = 77,
        .cpu_us = 1,
        .memory_bytes = 2,
        .processes = 3,
        .threads = 4,
        .output_bytes = 5,
        .idle_us = 6,
        .cpu_culprit = {11, "cpu", 1},
        .memory_culprit = {12, "memory", 2},
        .processes_culprit = {13, "processes", 3},
        .threads_culprit = {14, "threads", 4},
    };
    const struct sbx_limits limits = {100, 100, 100, 100, 100, 100, 100, 0, 0};
    const struct {
        enum sbx_reason reason;
        pid_t culprit;
        uint64_t limit;
        uint64_t observed;
    } rows[] = {
        {SBX_REASON_WALL, 0, 100, 77},
        {SBX_REASON_CPU, 11, 100, 1},
        {SBX_REASON_MEMORY, 12, 100, 2},
        {SBX_REASON_PROCESSES, 13, 100, 3},
        {SBX_REASON_THREADS, 14, 100, 4},
        {SBX_REASON_OUTPUT, 0, 100, 5},
        {SBX_REASON_IDLE, 0, 100, 6},
        {SBX_REASON_UNMEASURABLE, 0, SBX_UNKNOWN, SBX_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sbx_breach breach = sbx_breach_of(rows[i].reason, &limits, &sample);
        ck_assert_int_eq((int)breach.reason, (int)rows[i].reason);
        ck_assert_int_eq(breach.culprit.pid, rows[i].culprit);
        ck_assert_uint_eq(breach.limit, rows[i].limit);
        ck_assert_uint_eq(breach.observed, rows[i].observed);
        ck_assert_uint_eq(breach.at_us, 77);
        ck_assert_int_eq(breach.ceiling, -1);
    }
}
END_TEST

/* --- near --- */

#define BIT(reason) (1U << (unsigned)(reason))

START_TEST(near_is_from_that_percentage_on)
{
    const struct {
        struct sbx_limits limits;
        struct sbx_sample sample;
        uint64_t percent;
        unsigned near;
    } rows[] = {
        {{0}, {.elapsed_us = MAX, .cpu_us = MAX}, 90, 0},
        {{.wall_us = 1000}, {.elapsed_us = 899}, 90, 0},
        {{.wall_us = 1000}, {.elapsed_us = 900}, 90, BIT(SBX_REASON_WALL)},
        {{.cpu_us = 1000}, {.cpu_us = 899}, 90, 0},
        {{.cpu_us = 1000}, {.cpu_us = 900}, 90, BIT(SBX_REASON_CPU)},
        {{.memory_bytes = 1000}, {.memory_bytes = 899}, 90, 0},
        {{.memory_bytes = 1000}, {.memory_bytes = 900}, 90, BIT(SBX_REASON_MEMORY)},
        /* memory of which only a bound is known may be less by far */
        {{.memory_bytes = 1000},
         {.memory_bytes = SBX_UNKNOWN, .memory_bound_bytes = 950},
         90,
         0},
        {{.memory_bytes = 1000},
         {.memory_bytes = 100, .memory_bound_bytes = 5000},
         90,
         0},
        {{.processes_count = 10}, {.processes = 8}, 90, 0},
        {{.processes_count = 10}, {.processes = 9}, 90, BIT(SBX_REASON_PROCESSES)},
        {{.threads_count = 10}, {.threads = 9}, 90, BIT(SBX_REASON_THREADS)},
        {{.threads_count = 10}, {.threads = 9}, 100, 0},
        {{.output_bytes = 10}, {.output_bytes = 8}, 90, 0},
        {{.output_bytes = 10}, {.output_bytes = 9}, 90, BIT(SBX_REASON_OUTPUT)},
        {{.idle_us = 10}, {.idle_us = 9}, 90, 0}, /* that is how one gets to it */
        {{.threads_count = 10}, {.threads = 10}, 100, BIT(SBX_REASON_THREADS)},
        {{1, 1, 1, 1, 1, 1, 1, 0, 0},
         {.elapsed_us = 1, .cpu_us = 1, .memory_bytes = 1, .processes = 1, .threads = 1},
         100,
         BIT(SBX_REASON_WALL) | BIT(SBX_REASON_CPU) | BIT(SBX_REASON_MEMORY) |
             BIT(SBX_REASON_PROCESSES) | BIT(SBX_REASON_THREADS)},
        /* products that do not fit into 64 bits */
        {{.wall_us = MAX}, {.elapsed_us = MAX / 2}, 90, 0},
        {{.wall_us = MAX}, {.elapsed_us = MAX - 1}, 90, BIT(SBX_REASON_WALL)},
        {{.memory_bytes = MAX / 2}, {.memory_bytes = MAX / 4}, 90, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unsigned near = sbx_near(&rows[i].limits, &rows[i].sample, rows[i].percent);
        ck_assert_msg(near == rows[i].near, "row %zu: %#x instead of %#x", i, near,
                      rows[i].near);
    }
}
END_TEST

/* --- the period --- */

#define INTERVAL 250000U

static const struct sbx_pace calm = {.interval_us = INTERVAL, .cpus = 2, .cost_us = 10};

static uint64_t period(const struct sbx_limits *limits, const struct sbx_sample *before,
                       const struct sbx_sample *now, const struct sbx_pace *pace)
{
    uint64_t us = sbx_period(limits, before, now, pace);
    ck_assert_msg(us >= SBX_PERIOD_MIN_US && us <= pace->interval_us, "period %llu",
                  (unsigned long long)us);
    return us;
}

START_TEST(period_stays_within_its_bounds)
{
    static const uint64_t values[] = {0,   1,       999,     1000, 1000000,
                                      GIB, MAX / 2, MAX - 1, MAX};
    const size_t count = sizeof values / sizeof values[0];
    const struct sbx_pace paces[] = {
        calm,
        {.interval_us = 1000, .cpus = 1, .cost_us = 0},
        {.interval_us = 1000, .cpus = 0, .cost_us = MAX / 50},
        {.interval_us = MAX, .cpus = 4096, .cost_us = 100000},
    };
    for (size_t p = 0; p < sizeof paces / sizeof paces[0]; p++) {
        for (size_t l = 0; l < count; l++) {
            for (size_t b = 0; b < count; b++) {
                for (size_t n = 0; n < count; n++) {
                    uint64_t limit = values[l];
                    const struct sbx_limits limits = {limit, limit, limit, limit, limit,
                                                      limit, limit, 0,     0};
                    const struct sbx_sample before = {.cpu_us = values[b],
                                                      .memory_bytes = values[b],
                                                      .memory_bound_bytes = values[b],
                                                      .processes = values[b],
                                                      .threads = values[b]};
                    const struct sbx_sample now = {.elapsed_us = values[n],
                                                   .cpu_us = values[n],
                                                   .memory_bytes = values[n],
                                                   .memory_bound_bytes = values[n],
                                                   .processes = values[n],
                                                   .threads = values[n]};
                    (void)period(&limits, &before, &now, &paces[p]);
                    (void)period(&limits, NULL, &now, &paces[p]);
                }
            }
        }
    }
}
END_TEST

/* An old run of which nothing is near. */
#define OLD_US (100U * 1000000U)

START_TEST(far_from_every_limit_it_is_the_interval)
{
    const struct sbx_limits none = {0};
    const struct sbx_limits wide = {MAX, MAX, MAX, MAX, MAX, MAX, MAX, 0, 0};
    const struct sbx_sample now = {.elapsed_us = OLD_US,
                                   .cpu_us = 5,
                                   .memory_bytes = MIB,
                                   .processes = 3,
                                   .threads = 3};
    ck_assert_uint_eq(period(&none, NULL, &now, &calm), INTERVAL);
    ck_assert_uint_eq(period(&wide, NULL, &now, &calm), INTERVAL);
    ck_assert_uint_eq(period(&wide, &now, &now, &calm), INTERVAL);
}
END_TEST

START_TEST(shrinks_with_the_headroom)
{
    const struct {
        struct sbx_limits limits;
        struct sbx_sample now;
        uint64_t least;
        uint64_t most;
    } rows[] = {
        /* 100 ms of CPU left, two processors: used up in 50 ms at the soonest */
        {{.cpu_us = 1000000}, {.cpu_us = 900000}, 10000, 50000},
        {{.cpu_us = 1000000}, {.cpu_us = 999999}, 1000, 1000},
        {{.cpu_us = 1000000}, {.cpu_us = 2000000}, 1000, 1000},
        /* 64 MiB left: two processors can touch that in some 10 ms */
        {{.memory_bytes = GIB}, {.memory_bytes = GIB - 64 * MIB}, 1000, 15000},
        {{.memory_bytes = GIB}, {.memory_bytes = GIB - MIB}, 1000, 1000},
        {{.memory_bytes = GIB}, {.memory_bytes = 2 * GIB}, 1000, 1000},
        /* only the bound is known: it counts as that much */
        {{.memory_bytes = GIB},
         {.memory_bytes = SBX_UNKNOWN, .memory_bound_bytes = GIB - MIB},
         1000,
         1000},
        {{.processes_count = 100}, {.processes = 100}, 1000, 1000},
        {{.processes_count = 100}, {.processes = 98}, 1000, 10000},
        {{.threads_count = 100}, {.threads = 100}, 1000, 1000},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sbx_sample now = rows[i].now;
        now.elapsed_us = OLD_US;
        uint64_t us = period(&rows[i].limits, NULL, &now, &calm);
        ck_assert_msg(us >= rows[i].least && us <= rows[i].most, "row %zu: %llu us", i,
                      (unsigned long long)us);
    }
}
END_TEST

/* More processors use up what is left sooner. */
START_TEST(processors_shorten_it)
{
    const struct sbx_limits limits = {.cpu_us = 1000000};
    const struct sbx_sample now = {.elapsed_us = OLD_US, .cpu_us = 800000};
    struct sbx_pace one = calm;
    struct sbx_pace many = calm;
    one.cpus = 1;
    many.cpus = 64;
    ck_assert_uint_gt(period(&limits, NULL, &now, &one),
                      10 * period(&limits, NULL, &now, &many));
}
END_TEST

START_TEST(growth_of_tasks_shortens_it)
{
    const struct sbx_limits limits = {.processes_count = 2000};
    const struct sbx_sample before = {.elapsed_us = OLD_US - 100000, .processes = 100};
    const struct sbx_sample still = {.elapsed_us = OLD_US, .processes = 100};
    const struct sbx_sample grown = {.elapsed_us = OLD_US, .processes = 1100};
    ck_assert_uint_eq(period(&limits, &before, &still, &calm), INTERVAL);
    /* 1000 in 100 ms; 900 more may come in 90 ms */
    ck_assert_uint_le(period(&limits, &before, &grown, &calm), 90000);
}
END_TEST

START_TEST(young_runs_are_looked_at_sooner)
{
    const struct sbx_limits none = {0};
    struct sbx_sample now = {.elapsed_us = 0};
    ck_assert_uint_eq(period(&none, NULL, &now, &calm), SBX_PERIOD_MIN_US);
    now.elapsed_us = 4000;
    ck_assert_uint_le(period(&none, NULL, &now, &calm), 4000);
    now.elapsed_us = INTERVAL / 2;
    ck_assert_uint_le(period(&none, NULL, &now, &calm), INTERVAL / 2);
}
END_TEST

/* Watching never takes more than a small part of a processor, but more of one while
 * memory grows; whatever other limit is near at the same time. */
START_TEST(cost_holds_it_back)
{
    const struct sbx_limits limits = {
        .cpu_us = 1000000, .memory_bytes = GIB, .processes_count = 10};
    const struct sbx_pace dear = {.interval_us = INTERVAL, .cpus = 2, .cost_us = 1000};
    const struct sbx_sample before = {.elapsed_us = OLD_US - 10000,
                                      .memory_bytes = GIB / 2};
    struct sbx_sample now = {.elapsed_us = OLD_US, .cpu_us = 999999};
    /* near the limit of CPU alone: a calm share */
    const struct sbx_limits only_cpu = {.cpu_us = limits.cpu_us};
    uint64_t calm_us = period(&only_cpu, NULL, &now, &dear);
    ck_assert_uint_ge(calm_us, 20 * dear.cost_us);
    now.cpu_us = 0;
    now.memory_bytes = GIB - MIB;
    uint64_t near_us = period(&limits, &now, &now, &dear);
    ck_assert_uint_ge(near_us, 10 * dear.cost_us);
    ck_assert_uint_lt(near_us, calm_us);
    uint64_t growing_us = period(&limits, &before, &now, &dear);
    ck_assert_uint_ge(growing_us, 2 * dear.cost_us);
    ck_assert_uint_lt(growing_us, near_us);
    /* at the limit of processes, and all of its CPU used: memory is watched as closely */
    now.cpu_us = 1000000;
    now.processes = 10;
    ck_assert_uint_eq(period(&limits, &before, &now, &dear), growing_us);
    /* so dear that it cannot be often: the interval all the same */
    const struct sbx_pace ruinous = {
        .interval_us = INTERVAL, .cpus = 2, .cost_us = 1000000};
    ck_assert_uint_eq(period(&limits, &before, &now, &ruinous), INTERVAL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("judge");
    TCase *tcase = sbx_fixture_case(suite, "judge", 30);
    tcase_add_test(tcase, judges_as_the_table_says);
    tcase_add_test(tcase, names_the_culprit_of_its_own_reason);
    tcase_add_test(tcase, near_is_from_that_percentage_on);
    tcase_add_test(tcase, period_stays_within_its_bounds);
    tcase_add_test(tcase, far_from_every_limit_it_is_the_interval);
    tcase_add_test(tcase, shrinks_with_the_headroom);
    tcase_add_test(tcase, processors_shorten_it);
    tcase_add_test(tcase, growth_of_tasks_shortens_it);
    tcase_add_test(tcase, young_runs_are_looked_at_sooner);
    tcase_add_test(tcase, cost_holds_it_back);
    return sbx_fixture_run(suite);
}
