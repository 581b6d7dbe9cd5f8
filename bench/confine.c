/*
 * confine.c - what a sandbox costs that runs nothing in it: from start to exit of a
 * static `true` under bubblewrap alone and under sbx-run, which does the same and more.
 * The arguments of that bubblewrap are those of `sbx-run --plan`, so that both have the
 * same policy. In turn, so that what else the machine does falls on all of them.
 */
#include "bench/runner.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS_MAX 200
#define PLAN_SIZE (64 * 1024)

static struct way {
    const char *name;
    const char *words[SBX_BENCH_WORDS];
} ways[] = {
    {"fork and exec", {"@measure_nothing"}},
    {"bwrap, same policy", {NULL}}, /* from the plan */
    {"sbx-run --seccomp none", {"%S", "--seccomp", "none", "--", "@measure_nothing"}},
    {"sbx-run", {"%S", "--", "@measure_nothing"}},
    {"sbx-watch -- sbx-run", {"%W", "--", "%S", "--", "@measure_nothing"}},
    {"sbx-watch --wall --memory -- sbx-run",
     {"%W", "--wall", "60", "--memory", "1G", "--", "%S", "--", "@measure_nothing"}},
};
#define WAY_COUNT (sizeof(ways) / sizeof(ways[0]))
#define BWRAP 1 /* the one that the others are compared with */

/* The next text of a JSON array, in place; NULL at its end. The paths of a bench have
 * nothing in them that would have to be escaped. */
static char *next_text(char **at)
{
    char *start = *at + strspn(*at, ", ");
    if (*start != '"') {
        return NULL;
    }
    char *end = strchr(++start, '"');
    if (end == NULL || memchr(start, '\\', (size_t)(end - start)) != NULL) {
        sbx_bench_fail("sbx-run --plan: cannot read the arguments");
    }
    *end = '\0';
    *at = end + 1;
    return start;
}

/* What has to do with our own program inside is left out, and the command is put in its
 * place. */
static void take_arguments(char *at, const char **words)
{
    size_t count = 0;
    char *text;
    while ((text = next_text(&at)) != NULL && strcmp(text, "--") != 0) {
        if (count + 3 >= SBX_BENCH_WORDS) {
            sbx_bench_fail("sbx-run --plan: too many arguments");
        }
        if (strcmp(text, "{status}") == 0) {
            count--; /* and its option */
        } else if (strcmp(text, "{inner}") == 0) {
            count -= 3; /* --perms 0555 --file, and where it would go */
            text = next_text(&at);
        } else {
            words[count++] = text;
        }
        if (text == NULL) {
            break;
        }
    }
    if (text == NULL) {
        sbx_bench_fail("sbx-run --plan: no command");
    }
    words[count++] = "--";
    words[count++] = "@measure_nothing";
}

static void plan(const struct sbx_bench *bench)
{
    static char json[PLAN_SIZE];
    size_t length = 0;
    ssize_t got = 0;
    struct sbx_bench_run run = {
        .words = {"%S", "--seccomp", "none", "--plan", "--", "@measure_nothing"}};
    sbx_bench_start(bench, &run);
    while ((got = read(run.output, json + length, sizeof(json) - 1 - length)) > 0) {
        length += (size_t)got;
    }
    sbx_bench_finish(bench, &run);
    char *argv = strstr(json, "\"argv\":[");
    if (run.status != 0 || argv == NULL) {
        sbx_bench_fail("sbx-run --plan: status %d (is bubblewrap installed?)",
                       run.status);
    }
    take_arguments(argv + strlen("\"argv\":["), ways[BWRAP].words);
}

void sbx_bench_confine(const struct sbx_bench *bench)
{
    static double times[WAY_COUNT][ROUNDS_MAX];
    size_t rounds = bench->quick ? 30 : ROUNDS_MAX;
    plan(bench);
    for (size_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < WAY_COUNT; i++) {
            struct sbx_bench_run run = {0};
            memcpy(run.words, ways[i].words, sizeof(run.words));
            sbx_bench_run(bench, &run);
            if (run.status != 0) {
                sbx_bench_fail("%s: status %d", ways[i].name, run.status);
            }
            times[i][round] = (double)run.elapsed_us / 1000;
        }
    }
    (void)printf("\nStart to exit of a static true in a sandbox, %zu rounds in turn\n",
                 rounds);
    (void)printf("%-38s %10s %10s %10s %8s\n", "", "fastest ms", "median ms", "9 of 10",
                 "ratio");
    double bare = sbx_bench_quantile(times[BWRAP], rounds, 0.5);
    for (size_t i = 0; i < WAY_COUNT; i++) {
        double median = sbx_bench_quantile(times[i], rounds, 0.5);
        (void)printf("%-38s %10.2f %10.2f %10.2f %8.2f\n", ways[i].name,
                     sbx_bench_quantile(times[i], rounds, 0), median,
                     sbx_bench_quantile(times[i], rounds, 0.9), median / bare);
    }
}
