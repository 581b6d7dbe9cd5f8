/*
 * start.c - what a run costs that does nothing: from start to exit of a static `true`,
 * bare and under those who run commands. In turn, so that what else the machine does
 * falls on all of them.
 */
#include "bench/runner.h"

#include <stdio.h>

#define ROUNDS_MAX 300

static const struct way {
    const char *name;
    const char *words[SBX_BENCH_WORDS];
} ways[] = {
    {"fork and exec", {"@measure_nothing"}},
    {"env", {"env", "@measure_nothing"}},
    {"timeout 60", {"timeout", "60", "@measure_nothing"}},
    {"sbx-watch", {"%W", "--", "@measure_nothing"}},
    {"sbx-watch --wall --memory --cpu",
     {"%W", "--wall", "60", "--memory", "1G", "--cpu", "60", "--", "@measure_nothing"}},
    {"sbx-watch --report FILE", {"%W", "--report", "%R", "--", "@measure_nothing"}},
};
#define WAY_COUNT (sizeof(ways) / sizeof(ways[0]))

void sbx_bench_starts(const struct sbx_bench *bench)
{
    static double times[WAY_COUNT][ROUNDS_MAX];
    size_t rounds = bench->quick ? 40 : ROUNDS_MAX;
    for (size_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < WAY_COUNT; i++) {
            struct sbx_bench_run run = {0};
            for (size_t word = 0; word < SBX_BENCH_WORDS; word++) {
                run.words[word] = ways[i].words[word];
            }
            sbx_bench_run(bench, &run);
            if (run.status != 0) {
                sbx_bench_fail("%s: status %d", ways[i].name, run.status);
            }
            times[i][round] = (double)run.elapsed_us / 1000;
        }
    }
    (void)printf("\nStart to exit of a static true, %zu rounds in turn\n", rounds);
    (void)printf("%-34s %10s %10s %10s %8s\n", "", "fastest ms", "median ms", "9 of 10",
                 "ratio");
    double bare = sbx_bench_quantile(times[0], rounds, 0.5);
    for (size_t i = 0; i < WAY_COUNT; i++) {
        double median = sbx_bench_quantile(times[i], rounds, 0.5);
        (void)printf("%-34s %10.2f %10.2f %10.2f %8.2f\n", ways[i].name,
                     sbx_bench_quantile(times[i], rounds, 0), median,
                     sbx_bench_quantile(times[i], rounds, 0.9), median / bare);
    }
}
