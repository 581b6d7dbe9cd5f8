/*
 * bench.c - sbx-bench [--quick] [start|memory|sampling|ending|confine|executions]...:
 * measures the built sbx-watch, sbx-run and sbxd and prints a table for each bench; all
 * of them unless some are named.
 *
 * Numbers depend on the machine and on what else it does: its load is printed before and
 * after. Ratios and medians are worth more than times.
 */
#include "bench/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static const struct {
    const char *name;
    void (*run)(const struct sbx_bench *bench);
} benches[] = {
    {"start", sbx_bench_starts},      {"memory", sbx_bench_memory},
    {"sampling", sbx_bench_sampling}, {"ending", sbx_bench_ending},
    {"confine", sbx_bench_confine},   {"executions", sbx_bench_executions},
};
#define BENCH_COUNT (sizeof(benches) / sizeof(benches[0]))

static void say_machine(void)
{
    struct utsname host;
    double load[3] = {0};
    if (uname(&host) == 0 && getloadavg(load, 3) > 0) {
        (void)printf("%s %s, %ld processors, load %.1f, uid %d\n", host.sysname,
                     host.release, sysconf(_SC_NPROCESSORS_ONLN), load[0],
                     (int)geteuid());
    }
}

static bool is_wanted(const char *name, char *const *names)
{
    bool any = false;
    for (; *names != NULL; names++) {
        if (strcmp(*names, name) == 0) {
            return true;
        }
        any = true;
    }
    return !any;
}

int main(int argc, char **argv)
{
    struct sbx_bench bench;
    bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    char **names = argv + (quick ? 2 : 1);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    for (char **name = names; *name != NULL; name++) {
        bool known = false;
        for (size_t i = 0; i < BENCH_COUNT; i++) {
            known = known || strcmp(*name, benches[i].name) == 0;
        }
        if (!known) {
            (void)fprintf(stderr, "usage: sbx-bench [--quick] "
                                  "[start|memory|sampling|ending|confine|"
                                  "executions]...\n");
            return 2;
        }
    }
    sbx_bench_init(&bench, quick);
    say_machine();
    for (size_t i = 0; i < BENCH_COUNT; i++) {
        if (is_wanted(benches[i].name, names)) {
            benches[i].run(&bench);
        }
    }
    (void)printf("\n");
    say_machine();
    sbx_bench_done(&bench);
    return 0;
}
