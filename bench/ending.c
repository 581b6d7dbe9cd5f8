/*
 * ending.c - how long it takes until a tree is proved empty: idle trees that go at the
 * polite signal, the same killed at once, and a bomb of 1,500 processes each in a session
 * of its own, in a net.
 */
#include "bench/runner.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS_MAX 7
#define BOMB_TASKS 1800
#define BOMB_WALL_MS 2000.0
#define BOMB_GRACE_MS 500.0

static void measure(const struct sbx_bench *bench, const char *count, const char *grace,
                    bool as_nobody)
{
    double ending[ROUNDS_MAX];
    size_t rounds = bench->quick ? 3 : ROUNDS_MAX;
    for (size_t i = 0; i < rounds; i++) {
        struct sbx_bench_run run = {.words = {"%W", "--wall", "50", "--grace", grace,
                                              "--report", "%R", "--", "@crowd", count},
                                    .as_nobody = as_nobody};
        sbx_bench_start(bench, &run);
        sbx_bench_wait_up(&run);
        (void)kill(run.pid, SIGTERM);
        sbx_bench_finish(bench, &run);
        if (run.status != 128 + SIGTERM) {
            sbx_bench_fail("the tree ended with status %d", run.status);
        }
        ending[i] = (double)sbx_bench_number(&run, "duration_us") / 1000;
    }
    (void)printf(
        "%8s %-8s %-12s %12.1f %12.1f %12.1f\n", count, as_nobody ? "nobody" : "caller",
        strcmp(grace, "0") == 0 ? "SIGKILL" : "SIGTERM",
        sbx_bench_quantile(ending, rounds, 0), sbx_bench_quantile(ending, rounds, 0.5),
        sbx_bench_quantile(ending, rounds, 1));
}

/* We are a subreaper: what survives comes to us. It ends by itself. */
static void reap_survivors(void)
{
    while (waitpid(-1, NULL, 0) > 0) {
    }
}

static void burst(const struct sbx_bench *bench, const struct sbx_net *net,
                  bool as_nobody)
{
    struct sbx_bench_run run = {.words = {"%W", "--wall", "2", "--grace", "500ms",
                                          "--report", "%R", "--", "@setsid_bomb", "1500",
                                          "15"},
                                .as_nobody = as_nobody,
                                .net = net};
    sbx_bench_run(bench, &run);
    reap_survivors();
    bool survived = sbx_bench_number(&run, "survivors_count") > 0;
    (void)printf("%8s %-8s %-12s %12s %12.1f %12s %s\n", "1500",
                 as_nobody ? "nobody" : "caller", "setsid bomb", "",
                 (double)run.elapsed_us / 1000 - BOMB_WALL_MS - BOMB_GRACE_MS, "",
                 survived ? "(survivors named)" : "(empty)");
}

void sbx_bench_ending(const struct sbx_bench *bench)
{
    static const char *const counts[] = {"10", "100", "1000"};
    int users = geteuid() == 0 ? 2 : 1;
    (void)printf("\nFrom the signal to the proof that the tree is empty\n");
    (void)printf("%8s %-8s %-12s %12s %12s %12s\n", "members", "as", "ended by",
                 "fastest ms", "median ms", "worst ms");
    for (int user = 0; user < users; user++) {
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
            measure(bench, counts[i], "20", user == 1);
            measure(bench, counts[i], "0", user == 1);
        }
    }
    struct sbx_net net;
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || !sbx_net_fits(BOMB_TASKS) ||
        !sbx_net_make(&net, BOMB_TASKS)) {
        (void)printf(
            "    1500 setsid bomb: skipped, there is no net for it (root, and a v1 "
            "pids hierarchy)\n");
        return;
    }
    for (int user = 0; user < users; user++) {
        burst(bench, &net, user == 1);
    }
    (void)sbx_net_remove(&net);
}
