/*
 * sampling.c - what watching an idle tree costs, by its size: processor time and system
 * calls of the monitor, from its own files of /proc. It sleeps once for each sample, so
 * its voluntary context switches count them.
 */
#include "bench/runner.h"

#include "base/clock.h"
#include "base/fd.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PERIOD_MS 250.0 /* the default */
#define ROUNDS 5

struct counters {
    double run_us;
    double samples;
    double reads;
};

static double number_of(pid_t pid, const char *file, const char *key)
{
    char path[64];
    char text[8192];
    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    if (sbx_fd_read_text_at(AT_FDCWD, path, text, sizeof(text)) <= 0) {
        sbx_bench_fail("%s cannot be read", path);
    }
    const char *found = strstr(text, key);
    return found != NULL ? strtod(found + strlen(key), NULL) : 0;
}

static struct counters look(pid_t monitor)
{
    return (struct counters){
        .run_us = number_of(monitor, "schedstat", "") / 1000,
        .samples = number_of(monitor, "status", "\nvoluntary_ctxt_switches:"),
        .reads = number_of(monitor, "io", "syscr:"),
    };
}

static struct counters look_after(pid_t monitor, double samples)
{
    double from = look(monitor).samples;
    uint64_t end = sbx_clock_us() + 60 * SBX_US_PER_S;
    for (;;) {
        struct counters now = look(monitor);
        if (now.samples >= from + samples) {
            return now;
        }
        if (sbx_clock_us() > end) {
            sbx_bench_fail("the monitor takes no samples");
        }
        struct timespec rest = {0, 20000000};
        (void)nanosleep(&rest, NULL);
    }
}

/* The guard's child of that name. */
static pid_t monitor_of(pid_t guard)
{
    char path[64];
    char text[4096];
    char name[64];
    char *rest = NULL;
    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)guard,
                   (int)guard);
    if (sbx_fd_read_text_at(AT_FDCWD, path, text, sizeof(text)) <= 0) {
        sbx_bench_fail("%s cannot be read", path);
    }
    for (const char *word = strtok_r(text, " \n", &rest); word != NULL;
         word = strtok_r(NULL, " \n", &rest)) {
        (void)snprintf(path, sizeof(path), "/proc/%.16s/comm", word);
        if (sbx_fd_read_text_at(AT_FDCWD, path, name, sizeof(name)) > 0 &&
            strcmp(name, "sbx-monitor\n") == 0) {
            return (pid_t)strtol(word, NULL, 10);
        }
    }
    sbx_bench_fail("no monitor");
}

static void measure(const struct sbx_bench *bench, const char *count)
{
    struct sbx_bench_run run = {.words = {"%W", "--wall", "50", "--interval", "50ms",
                                          "--report", "%R", "--", "@crowd", count}};
    double cost[ROUNDS];
    double reads[ROUNDS];
    double members = strtod(count, NULL);
    sbx_bench_start(bench, &run);
    sbx_bench_wait_up(&run);
    pid_t monitor = monitor_of(run.pid);
    struct counters before = look_after(monitor, 3);
    for (int i = 0; i < ROUNDS; i++) {
        struct counters after = look_after(monitor, bench->quick ? 5 : 20);
        double samples = after.samples - before.samples;
        cost[i] = (after.run_us - before.run_us) / samples;
        reads[i] = (after.reads - before.reads) / samples;
        before = after;
    }
    (void)kill(run.pid, SIGTERM);
    sbx_bench_finish(bench, &run);
    double median = sbx_bench_quantile(cost, ROUNDS, 0.5);
    (void)printf("%8s %14.0f %14.2f %14.2f %14.2f\n", count, median, median / members,
                 sbx_bench_quantile(reads, ROUNDS, 0.5) / members,
                 median / (PERIOD_MS * 1000) * 100);
}

void sbx_bench_sampling(const struct sbx_bench *bench)
{
    (void)printf("\nOne sample of an idle tree, medians of %d windows\n", ROUNDS);
    (void)printf("%8s %14s %14s %14s %14s\n", "members", "us", "us a member",
                 "reads a member", "% of a core *");
    measure(bench, "10");
    measure(bench, "100");
    measure(bench, "1000");
    (void)printf("* at the default period of 250 ms\n");
}
