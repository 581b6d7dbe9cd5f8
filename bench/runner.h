/*
 * runner.h - runs commands and takes their times, for the benches. One run at a time; a
 * bench that cannot run what it measures says so and ends the program.
 */
#ifndef SBX_BENCH_RUNNER_H
#define SBX_BENCH_RUNNER_H

#include "tests/net.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SBX_BENCH_PATH 512
#define SBX_BENCH_WORDS 192

/* What is measured in this call of the program. */
struct sbx_bench {
    bool quick;         /* fewer rounds, smaller trees */
    char directory[64]; /* for programs, reports and outputs; anybody may enter */
    char watch[SBX_BENCH_PATH];
    char run[SBX_BENCH_PATH];
};

/* A zeroed struct with `words` is a plain run. */
struct sbx_bench_run {
    /* Words that begin with "@" are helper programs; "%W" alone is sbx-watch, "%S" is
     * sbx-run, and "%R" the report of this run. */
    const char *words[SBX_BENCH_WORDS];
    bool as_nobody;            /* needs root */
    const struct sbx_net *net; /* or NULL */

    pid_t pid;
    int output; /* read end of its standard output while it runs */
    uint64_t started_us;
    uint64_t elapsed_us;
    int status; /* as a shell has it */
    char report[16 * 1024];
};

/* Makes the directory, with copies of sbx-watch and of the helpers in it. */
void sbx_bench_init(struct sbx_bench *bench, bool quick);
void sbx_bench_done(const struct sbx_bench *bench);

void sbx_bench_start(const struct sbx_bench *bench, struct sbx_bench_run *run);
/* Waits until it has written something: helpers say when they are what they shall be. */
void sbx_bench_wait_up(struct sbx_bench_run *run);
/* Waits for its end and reads its report, if there is one. */
void sbx_bench_finish(const struct sbx_bench *bench, struct sbx_bench_run *run);
void sbx_bench_run(const struct sbx_bench *bench, struct sbx_bench_run *run);

/* The number of a key that occurs once in the report; 0 where it is absent. */
uint64_t sbx_bench_number(const struct sbx_bench_run *run, const char *key);

/* Sorts the values. `part` 0.5 is the median. */
double sbx_bench_quantile(double *values, size_t count, double part);

_Noreturn void sbx_bench_fail(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* The benches. Each prints its own table. */
void sbx_bench_starts(const struct sbx_bench *bench);
void sbx_bench_memory(const struct sbx_bench *bench);
void sbx_bench_sampling(const struct sbx_bench *bench);
void sbx_bench_ending(const struct sbx_bench *bench);
void sbx_bench_confine(const struct sbx_bench *bench);
void sbx_bench_executions(const struct sbx_bench *bench);

#endif
