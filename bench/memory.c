/*
 * memory.c - how far a flood gets: 1 GiB touched at full speed against 200 MiB, by one
 * process and by ten, as root and as an ordinary user.
 */
#include "bench/runner.h"

#include <stdio.h>
#include <unistd.h>

#define ROUNDS_MAX 10
#define MIB (1024.0 * 1024.0)

static void measure(const struct sbx_bench *bench, const char *processes, bool as_nobody)
{
    double observed[ROUNDS_MAX];
    double ending[ROUNDS_MAX];
    double cost[ROUNDS_MAX];
    size_t rounds = bench->quick ? 3 : ROUNDS_MAX;
    for (size_t i = 0; i < rounds; i++) {
        struct sbx_bench_run run = {.words = {"%W", "--memory", "200M", "--report", "%R",
                                              "--", "@touch", "1024", processes},
                                    .as_nobody = as_nobody};
        sbx_bench_run(bench, &run);
        if (run.status != 124) {
            sbx_bench_fail("the flood ended with status %d", run.status);
        }
        observed[i] = (double)sbx_bench_number(&run, "observed") / MIB;
        ending[i] = (double)sbx_bench_number(&run, "duration_us") / 1000;
        cost[i] = (double)sbx_bench_number(&run, "monitor_cpu_us") / 1000;
    }
    double median = sbx_bench_quantile(observed, rounds, 0.5);
    (void)printf("%3s %-8s %12.1f %8.2f %12.1f %12.1f %12.1f\n", processes,
                 as_nobody ? "nobody" : "caller", median, median / 200,
                 sbx_bench_quantile(observed, rounds, 1),
                 sbx_bench_quantile(ending, rounds, 0.5),
                 sbx_bench_quantile(cost, rounds, 0.5));
}

void sbx_bench_memory(const struct sbx_bench *bench)
{
    (void)printf("\n1 GiB touched at full speed against 200 MiB, %d runs each\n",
                 bench->quick ? 3 : ROUNDS_MAX);
    (void)printf("%-12s %12s %8s %12s %12s %12s\n", "by, as", "median MiB", "ratio",
                 "worst MiB", "to empty ms", "monitor ms");
    for (int user = 0; user < (geteuid() == 0 ? 2 : 1); user++) {
        measure(bench, "1", user == 1);
        measure(bench, "10", user == 1);
    }
}
