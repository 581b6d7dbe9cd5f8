/*
 * executions.c - what it costs to have sbxd run a command, and to follow it: start to
 * answer and start to end of /bin/true beside a bare fork and exec and other supervisors,
 * executions a second, the time from a write of the command to whoever polls for it, and
 * the memory of what waits.
 *
 * All ways in turn, so that what else the machine does falls on all of them.
 */
#include "bench/service.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS_MAX 300
#define STAMPS_MAX 2000
#define ACTIVE 100
#define FAMILY_MAX 2048

static struct sbx_bench_service service;
static unsigned long number; /* of the last execution */

/* --- start and end
 * ---------------------------------------------------------------------- */

static void spawn_and_wait(const char *const *argv)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        (void)dup2(null, 0);
        (void)dup2(null, 1);
        (void)dup2(null, 2);
        (void)execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(96);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        sbx_bench_fail("%s: status %d", argv[0], status);
    }
}

static void run_bare(void)
{
    static const char *const argv[] = {"/bin/true", NULL};
    spawn_and_wait(argv);
}

static void run_watch(void)
{
    static const char *const argv[] = {SBX_BENCH_WATCH, "--wall", "60", "--",
                                       "/bin/true",     NULL};
    spawn_and_wait(argv);
}

static void start_one(void)
{
    char body[256];
    (void)snprintf(body, sizeof(body), "{'id': 'b%lu', 'command': '/bin/true'}",
                   ++number);
    (void)sbx_bench_ask(&service, 201, "POST", "/v1/executions", body);
}

/* Waits for the end of that one. */
static void wait_one(unsigned long which)
{
    char path[128];
    for (;;) {
        (void)snprintf(path, sizeof(path), "/v1/executions/b%lu/events?after=1&wait=30",
                       which);
        if (strstr(sbx_bench_ask(&service, 200, "GET", path, NULL), "\"finished\"") !=
            NULL) {
            return;
        }
    }
}

static void run_executed(void)
{
    start_one();
    wait_one(number);
}

static void run_answered(void)
{
    start_one();
}

static bool has_tsp(void)
{
    return access("/usr/bin/tsp", X_OK) == 0;
}

static void run_tsp(void)
{
    static const char *const argv[] = {"tsp", "-n", "-f", "/bin/true", NULL};
    spawn_and_wait(argv);
}

static void queue_tsp(void)
{
    static const char *const argv[] = {"tsp", "-n", "/bin/true", NULL};
    spawn_and_wait(argv);
}

/* What was only queued or answered runs still. */
static void wait_tsp(void)
{
    static const char *const argv[] = {"tsp", "-w", NULL};
    spawn_and_wait(argv);
}

static void wait_answered(void)
{
    wait_one(number);
}

static bool has_systemd(void)
{
    return access("/run/systemd/system", F_OK) == 0 && geteuid() == 0;
}

static void run_systemd(void)
{
    static const char *const argv[] = {"systemd-run", "--quiet",   "--collect",
                                       "--wait",      "/bin/true", NULL};
    spawn_and_wait(argv);
}

static void start_systemd(void)
{
    static const char *const argv[] = {"systemd-run", "--quiet", "--collect", "/bin/true",
                                       NULL};
    spawn_and_wait(argv);
}

static const struct way {
    const char *name;
    void (*run)(void);
    bool (*is_there)(void); /* NULL: always */
    void (*after)(void);    /* not measured */
} ways[] = {
    {"fork and exec, to its end", run_bare, NULL, NULL},
    {"sbx-watch --wall, to its end", run_watch, NULL, NULL},
    {"sbxd: POST to 201", run_answered, NULL, wait_answered},
    {"sbxd: POST to `finished`", run_executed, NULL, NULL},
    {"task-spooler: queued", queue_tsp, has_tsp, wait_tsp},
    {"task-spooler: to its end", run_tsp, has_tsp, NULL},
    {"systemd-run: started", start_systemd, has_systemd, NULL},
    {"systemd-run --wait", run_systemd, has_systemd, NULL},
};
#define WAY_COUNT (sizeof(ways) / sizeof(ways[0]))

static bool is_there(const struct way *way)
{
    return way->is_there == NULL || way->is_there();
}

static void measure_starts(const struct sbx_bench *bench)
{
    static double times[WAY_COUNT][ROUNDS_MAX];
    size_t rounds = bench->quick ? 40 : ROUNDS_MAX;
    for (size_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < WAY_COUNT; i++) {
            if (is_there(&ways[i])) {
                uint64_t start = sbx_clock_us();
                ways[i].run();
                times[i][round] = (double)(sbx_clock_us() - start) / 1000;
                if (ways[i].after != NULL) {
                    ways[i].after();
                }
            }
        }
    }
    (void)printf("\n/bin/true, one at a time, %zu rounds in turn\n", rounds);
    (void)printf("%-34s %10s %10s %10s %8s\n", "", "fastest ms", "median ms", "9 of 10",
                 "ratio");
    double bare = sbx_bench_quantile(times[0], rounds, 0.5);
    for (size_t i = 0; i < WAY_COUNT; i++) {
        if (is_there(&ways[i])) {
            double median = sbx_bench_quantile(times[i], rounds, 0.5);
            (void)printf("%-34s %10.2f %10.2f %10.2f %8.2f\n", ways[i].name,
                         sbx_bench_quantile(times[i], rounds, 0), median,
                         sbx_bench_quantile(times[i], rounds, 0.9), median / bare);
        } else {
            (void)printf("%-34s %10s\n", ways[i].name, "not here");
        }
    }
}

/* --- as many as go
 * ------------------------------------------------------------------------ */

#define IN_FLIGHT 8

static double rate_bare(size_t count)
{
    size_t started = 0;
    uint64_t start = sbx_clock_us();
    for (size_t ended = 0; ended < count;) {
        if (started < count && started - ended < IN_FLIGHT) {
            pid_t child = fork();
            if (child == 0) {
                (void)execl("/bin/true", "true", (char *)NULL);
                _exit(96);
            }
            started++;
        } else {
            ended += waitpid(-1, NULL, 0) > 0 ? 1 : 0;
        }
    }
    return (double)count * 1e6 / (double)(sbx_clock_us() - start);
}

static double rate_executed(size_t count)
{
    unsigned long first = number + 1;
    uint64_t start = sbx_clock_us();
    for (size_t ended = 0; ended < count; ended++) {
        while (number + 1 - first < count && number + 1 - first - ended < IN_FLIGHT) {
            start_one();
        }
        wait_one(first + ended);
    }
    return (double)count * 1e6 / (double)(sbx_clock_us() - start);
}

static void measure_rate(const struct sbx_bench *bench)
{
    double bare[5];
    double executed[5];
    size_t rounds = bench->quick ? 2 : 5;
    for (size_t i = 0; i < rounds; i++) {
        /* sbxd is no child that a wait for any would find: it goes on. */
        bare[i] = rate_bare(400);
        executed[i] = rate_executed(200);
    }
    double plain = sbx_bench_quantile(bare, rounds, 0.5);
    double kept = sbx_bench_quantile(executed, rounds, 0.5);
    (void)printf("\n/bin/true, %d under way at a time: %.0f a second by fork and exec, "
                 "%.0f by sbxd (to `finished`): ratio %.1f\n",
                 IN_FLIGHT, plain, kept, plain / kept);
}

/* --- latency
 * --------------------------------------------------------------------------------- */

static size_t latencies_bare(const char *helper, const char *count, double *ret_us)
{
    int ends[2];
    char line[64];
    size_t got = 0;
    if (pipe2(ends, O_CLOEXEC) < 0) {
        sbx_bench_fail("pipe: %s", strerror(errno));
    }
    pid_t child = fork();
    if (child == 0) {
        (void)dup2(ends[1], 1);
        (void)execl(helper, helper, count, "3000", (char *)NULL);
        _exit(96);
    }
    (void)close(ends[1]);
    FILE *pipe = fdopen(ends[0], "re");
    if (child < 0 || pipe == NULL) {
        sbx_bench_fail("%s: %s", helper, strerror(errno));
    }
    while (fgets(line, sizeof(line), pipe) != NULL) {
        double now = (double)sbx_clock_us();
        if (line[0] != 'u' && got < STAMPS_MAX) {
            ret_us[got++] = now - strtod(line, NULL);
        }
    }
    (void)fclose(pipe);
    (void)waitpid(child, NULL, 0);
    return got;
}

/* By a poll for events (or for output), which is there before the command writes. */
static size_t latencies_polled(const char *count, const char *helper, bool events,
                               double *ret_us)
{
    char text[2 * SBX_BENCH_PATH];
    unsigned long next = events ? 1 : 0;
    size_t got = 0;
    (void)snprintf(text, sizeof(text),
                   "{'id': 'b%lu', 'command': '%s', 'args': ['%s', '3000'], "
                   "'event_limit': 5000}",
                   ++number, helper, count);
    (void)sbx_bench_ask(&service, 201, "POST", "/v1/executions", text);
    for (;;) {
        (void)snprintf(text, sizeof(text), "/v1/executions/b%lu/%s=%lu&wait=30", number,
                       events ? "events?after" : "stdout?offset", next);
        const char *answer = sbx_bench_ask(&service, 200, "GET", text, NULL);
        double now = (double)sbx_clock_us();
        const char *data = events ? strstr(answer, "\"data\":\"") : answer;
        const char *latest = strstr(answer, "\"latest_sequence\":");
        if (data != NULL && answer[0] != '\0' && got < STAMPS_MAX) {
            double stamp = strtod(data + (events ? 8 : 0), NULL);
            ret_us[got] = now - stamp;
            got += stamp > 0 ? 1 : 0;
        }
        if (events ? strstr(answer, "\"finished\"") != NULL : answer[0] == '\0') {
            return got;
        }
        next = events ? strtoul(latest + strlen("\"latest_sequence\":"), NULL, 10)
                      : next + strlen(answer);
    }
}

static void print_latency(const char *name, double *us, size_t count, double bare)
{
    double median = sbx_bench_quantile(us, count, 0.5);
    (void)printf("%-34s %10.0f %10.0f %10.0f %8.1f\n", name, median,
                 sbx_bench_quantile(us, count, 0.99), sbx_bench_quantile(us, count, 1),
                 median / (bare > 0 ? bare : median));
}

static void measure_latency(const struct sbx_bench *bench)
{
    static double bare[STAMPS_MAX];
    static double events[STAMPS_MAX];
    static double output[STAMPS_MAX];
    const char *count = bench->quick ? "200" : "1000";
    const char *helper = SBX_BENCH_HELPERS "/stamps";
    size_t of_bare = latencies_bare(helper, count, bare);
    size_t of_events = latencies_polled(count, helper, true, events);
    size_t of_output = latencies_polled(count, helper, false, output);
    if (of_bare == 0 || of_events == 0 || of_output == 0) {
        sbx_bench_fail("no line has come: %zu, %zu, %zu", of_bare, of_events, of_output);
    }
    double plain = sbx_bench_quantile(bare, of_bare, 0.5);
    (void)printf("\nFrom a write of the command to its reader, a line every 3 ms\n");
    (void)printf("%-34s %10s %10s %10s %8s\n", "", "median us", "99 of 100", "worst us",
                 "ratio");
    print_latency("a pipe", bare, of_bare, plain);
    print_latency("sbxd: a long poll for events", events, of_events, plain);
    print_latency("sbxd: a long poll for stdout", output, of_output, plain);
}

/* --- memory
 * ----------------------------------------------------------------------------------- */

/* PSS of all that comes from us but sbxd and the sleepers, KiB. */
static double keepers_pss(size_t *ret_count)
{
    static pid_t pids[FAMILY_MAX];
    size_t count = sbx_bench_family(getpid(), pids, FAMILY_MAX);
    double sum = 0;
    *ret_count = 0;
    for (size_t i = 0; i < count; i++) {
        char path[64];
        char name[32] = "";
        (void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)pids[i]);
        (void)sbx_fd_read_text_at(AT_FDCWD, path, name, sizeof(name));
        if (strncmp(name, "sleep", 5) != 0 && pids[i] != service.pid) {
            sum += sbx_bench_pss(pids[i]);
            ++*ret_count;
        }
    }
    return sum;
}

static void measure_memory(const struct sbx_bench *bench)
{
    char text[256];
    size_t processes = 0;
    /* A keeper is nobody's child: here it becomes ours. */
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    /* A fresh one, which retains nothing yet. */
    sbx_bench_service_stop(&service);
    sbx_bench_service_start(bench, &service);
    double before = sbx_bench_pss(service.pid);
    unsigned long first = number + 1;
    for (int i = 0; i < ACTIVE; i++) {
        (void)snprintf(text, sizeof(text),
                       "{'id': 'b%lu', 'command': 'sleep', 'args': ['100']}", ++number);
        (void)sbx_bench_ask(&service, 201, "POST", "/v1/executions", text);
    }
    (void)snprintf(text, sizeof(text), "/v1/executions/b%lu/events?wait=30", number);
    (void)sbx_bench_ask(&service, 200, "GET", text, NULL);
    double during = sbx_bench_pss(service.pid);
    double keepers = keepers_pss(&processes);
    for (unsigned long i = first; i <= number; i++) {
        (void)snprintf(text, sizeof(text), "/v1/executions/b%lu/cancel?wait=30", i);
        (void)sbx_bench_ask(&service, 200, "POST", text, NULL);
    }
    double after = sbx_bench_pss(service.pid);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 0);
    (void)printf("\nMemory (PSS) with %d executions of sleep\n", ACTIVE);
    (void)printf("%-52s %10.0f KiB\n", "keeper, guard, monitor and reader of each",
                 keepers / ACTIVE);
    (void)printf("%-52s %10.1f\n", "processes of each, without the command's",
                 (double)processes / ACTIVE);
    (void)printf("%-52s %10.0f KiB\n", "sbxd before", before);
    (void)printf("%-52s %10.1f KiB\n", "sbxd for each active one",
                 (during - before) / ACTIVE);
    (void)printf("%-52s %10.1f KiB\n", "sbxd for each retained one",
                 (after - before) / ACTIVE);
}

void sbx_bench_executions(const struct sbx_bench *bench)
{
    static const char *const end[] = {"tsp", "-K", NULL};
    char path[SBX_BENCH_PATH];
    (void)snprintf(path, sizeof(path), "%s/tsp", bench->directory);
    (void)setenv("TS_SOCKET", path, 1);
    (void)setenv("TMPDIR", bench->directory, 1);
    if (has_tsp()) {
        queue_tsp(); /* which starts its server */
    }
    sbx_bench_service_start(bench, &service);
    measure_starts(bench);
    measure_rate(bench);
    measure_latency(bench);
    measure_memory(bench);
    sbx_bench_service_stop(&service);
    if (has_tsp()) {
        spawn_and_wait(end);
    }
}
