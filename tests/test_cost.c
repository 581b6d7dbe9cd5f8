/*
 * test_cost.c - watching is cheap: what the monitor of the built sbx-watch uses for an
 * idle tree, in the processor's time and in system calls, and that it does not depend on
 * what else lives on the host.
 *
 * The monitor is looked at from outside, through its own files of /proc. It sleeps once
 * for each sample, so its voluntary context switches count the samples. Ratios are
 * medians of windows with and without, in turn, in one and the same run.
 */
#include "tests/fixture.h"
#include "tests/net.h"
#include "tests/trial.h"

#include "base/clock.h"
#include "base/fd.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MEMBERS 100
#define BYSTANDERS 1000
#define BYSTANDERS_LONG 5000
#define ROUNDS 5
#define ATTEMPTS 3
#define BARE_ROUNDS 12
#define PATIENCE_SECONDS 60

/* A sanitized monitor is slower; that it does not grow is the same. */
#ifdef __SANITIZE_ADDRESS__
#define SLOWNESS 8
#else
#define SLOWNESS 1
#endif

/* --- the monitor, from outside ---------------------------------------------------------
 */

struct counters {
    uint64_t run_ns; /* on a processor */
    uint64_t samples;
    uint64_t reads;  /* system calls that read */
    uint64_t faults; /* pages of memory that it got */
};

static void read_file(char *text, size_t size, pid_t pid, const char *name)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    ssize_t length = sbx_fd_read_text_at(AT_FDCWD, path, text, size);
    ck_assert_msg(length > 0, "%s: %s", path, strerror(errno));
}

static uint64_t find_number(const char *text, const char *key)
{
    const char *found = strstr(text, key);
    ck_assert_msg(found != NULL, "no %s", key);
    return strtoull(found + strlen(key), NULL, 10);
}

static struct counters look(pid_t monitor)
{
    char text[8192];
    struct counters now;
    read_file(text, sizeof(text), monitor, "schedstat");
    now.run_ns = strtoull(text, NULL, 10);
    read_file(text, sizeof(text), monitor, "status");
    now.samples = find_number(text, "\nvoluntary_ctxt_switches:");
    read_file(text, sizeof(text), monitor, "io");
    now.reads = find_number(text, "syscr:");
    read_file(text, sizeof(text), monitor, "stat");
    const char *field = strrchr(text, ')');
    for (int i = 2; field != NULL && i < 10; i++) { /* minflt is the tenth */
        field = strchr(field + 1, ' ');
    }
    ck_assert_ptr_nonnull(field);
    now.faults = strtoull(field, NULL, 10);
    return now;
}

/* Looks again when that many more samples have been taken. */
static struct counters look_after(pid_t monitor, const struct counters *since,
                                  uint64_t samples)
{
    uint64_t end = sbx_clock_us() + PATIENCE_SECONDS * SBX_US_PER_S;
    for (;;) {
        struct counters now = look(monitor);
        if (now.samples >= since->samples + samples) {
            return now;
        }
        ck_assert_msg(sbx_clock_us() < end, "no sample for %d s", PATIENCE_SECONDS);
        struct timespec rest = {0, 10000000};
        (void)nanosleep(&rest, NULL);
    }
}

/* The guard's child of that name; it may have others. */
static pid_t monitor_of(const struct sbx_trial *trial)
{
    char text[4096];
    char name[64];
    (void)snprintf(name, sizeof(name), "task/%d/children", (int)trial->pid);
    read_file(text, sizeof(text), trial->pid, name);
    char *rest = NULL;
    for (char *word = strtok_r(text, " \n", &rest); word != NULL;
         word = strtok_r(NULL, " \n", &rest)) {
        pid_t pid = (pid_t)strtol(word, NULL, 10);
        read_file(name, sizeof(name), pid, "comm");
        if (strcmp(name, "sbx-monitor\n") == 0) {
            return pid;
        }
    }
    ck_abort_msg("no monitor");
}

/* An idle tree that is watched; its monitor. */
static pid_t start_idle(struct sbx_trial *trial)
{
    static const char *const command[] = {"@crowd", "100", "10", NULL};
    trial->command = command;
    sbx_trial_start(trial);
    sbx_trial_wait_output(trial, "up ", PATIENCE_SECONDS);
    pid_t monitor = monitor_of(trial);
    struct counters at = look(monitor);
    (void)look_after(monitor, &at, 5); /* it has met all of them */
    return monitor;
}

static void end_idle(struct sbx_trial *trial)
{
    ck_assert_int_eq(kill(trial->pid, SIGTERM), 0);
    sbx_trial_wait(trial);
    sbx_trial_expect(trial, 143, "cancelled", NULL);
    sbx_trial_done(trial);
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare);
    return values[count / 2];
}

/* --- processes that are none of the run's --- */

/* Idle processes that are none of the run's, in a group of their own. */
static pid_t start_bystanders(const struct sbx_net *net, unsigned count)
{
    int ends[2];
    char path[SBX_FIXTURE_PATH_SIZE];
    char number[16];
    (void)sbx_fixture_helper(path, "crowd");
    (void)snprintf(number, sizeof(number), "%u", count);
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        sbx_net_enter(net);
        if (setpgid(0, 0) == 0 && dup2(ends[1], STDOUT_FILENO) == STDOUT_FILENO) {
            (void)execl(path, path, number, "100", NULL);
        }
        _exit(94);
    }
    (void)close(ends[1]);
    char up;
    ssize_t length = read(ends[0], &up, 1);
    (void)close(ends[0]);
    ck_assert_msg(length == 1, "%u bystanders did not come to be", count);
    return pid;
}

/* The group's leader is our un-reaped child, so the group is nobody else's. The children
 * of one that has ended are ours by the time its end is seen. */
static void end_bystanders(pid_t leader)
{
    ck_assert_int_eq(kill(-leader, SIGKILL), 0);
    ck_assert_int_eq(waitpid(leader, NULL, 0), leader);
    while (waitpid(-leader, NULL, 0) > 0) {
    }
}

/* Opens stat and children of a process and of all below it; at most 2 * MEMBERS. */
static size_t open_files(pid_t pid, int fds[static 2 * MEMBERS], size_t count)
{
    char path[96];
    char text[4096];
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    fds[count++] = open(path, O_RDONLY | O_CLOEXEC);
    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
    fds[count++] = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fds[count - 1], 0);
    ssize_t length = sbx_fd_pread_text(fds[count - 1], text, sizeof(text));
    ck_assert_int_ge(length, 0);
    char *rest = NULL;
    for (const char *word = strtok_r(text, " \n", &rest);
         word != NULL && count < 2 * MEMBERS; word = strtok_r(NULL, " \n", &rest)) {
        count = open_files((pid_t)strtol(word, NULL, 10), fds, count);
    }
    return count;
}

/* What it costs on this machine, now, to do no more than to read the two files of each
 * member four times a second; in percent of a processor. With caches that others have
 * emptied that is several times what it is on a machine of one's own. */
static double bare_share(void)
{
    static const struct sbx_net none;
    int fds[2 * MEMBERS];
    char text[4096];
    uint64_t used_us = 0;
    pid_t crowd = start_bystanders(&none, MEMBERS);
    size_t count = open_files(crowd, fds, 0);
    ck_assert_uint_eq(count, 2 * MEMBERS);
    for (int round = 0; round < BARE_ROUNDS; round++) {
        struct timespec rest = {0, 250000000};
        (void)nanosleep(&rest, NULL);
        uint64_t before = sbx_clock_cpu_us();
        for (size_t i = 0; i < count; i++) {
            (void)!pread(fds[i], text, sizeof(text), 0);
        }
        used_us += sbx_clock_cpu_us() - before;
    }
    for (size_t i = 0; i < count; i++) {
        (void)close(fds[i]);
    }
    end_bystanders(crowd);
    return (double)used_us * 100 / (BARE_ROUNDS * 250000.0);
}

/* --- an idle tree ----------------------------------------------------------------------
 */

/* Its share of the processor's time, in percent. */
static double share_of(const struct sbx_trial *trial, double bare)
{
    sbx_trial_expect(trial, 124, "breach", "wall");
    ck_assert_int_eq(sbx_trial_integer(trial, "usage.processes_peak"), MEMBERS);
    ck_assert_int_eq(sbx_trial_integer(trial, "sampling.interval_us"), 250000);
    int64_t samples = sbx_trial_integer(trial, "sampling.samples");
    int64_t cpu_us = sbx_trial_integer(trial, "sampling.monitor_cpu_us");
    double share =
        (double)cpu_us * 100 / (double)sbx_trial_integer(trial, "usage.wall_us");
    (void)fprintf(stderr,
                  "# an idle tree of %d as %s: %.2f %% of a processor, %lld samples "
                  "(mere reading: %.2f %%)\n",
                  MEMBERS, trial->as_nobody ? "nobody" : "caller", share,
                  (long long)samples, bare);
    ck_assert_int_ge(samples, 4); /* a busy machine may let it wait */
    ck_assert_int_le(samples, 60);
    return share;
}

/* Launch and end included. Under 1 %; on a machine where the mere reading takes more than
 * half of that, not much more than the reading. The identities at the same time: they are
 * idle. */
START_TEST(an_idle_tree_costs_next_to_nothing)
{
    const char *const command[] = {"@crowd", "100", "10", NULL};
    int identities = sbx_trial_identities();
    double share = 100;
    double allowed = 0;
    for (int i = 0; i < ATTEMPTS && share >= allowed; i++) {
        struct sbx_trial trials[2];
        double bare = bare_share();
        allowed = (bare > 0.5 ? 2 * bare : 1) * SLOWNESS;
        share = 0;
        for (int who = 0; who < identities; who++) {
            trials[who] = (struct sbx_trial){
                .command = command, .options = "--wall 8", .as_nobody = who == 1};
            sbx_trial_start(&trials[who]);
        }
        for (int who = 0; who < identities; who++) {
            sbx_trial_wait(&trials[who]);
            double this = share_of(&trials[who], bare);
            share = this > share ? this : share;
            sbx_trial_done(&trials[who]);
        }
    }
    ck_assert_msg(share < allowed, "%.2f %% of a processor, allowed are %.2f", share,
                  allowed);
}
END_TEST

/* Two reads for each member: its stat and its children. Those who have children take one
 * more (to see their end), and a few members in turn are looked at more closely. */
START_TEST(a_sample_is_two_reads_for_each_member)
{
    struct sbx_trial trial = {.options = "--wall 60 --interval 20ms"};
    pid_t monitor = start_idle(&trial);
    pid_t guard = trial.pid;
    char text[256];
    read_file(text, sizeof(text), guard, "schedstat");
    uint64_t guard_before = strtoull(text, NULL, 10);
    struct counters before = look(monitor);
    struct counters after = look_after(monitor, &before, 50);
    read_file(text, sizeof(text), guard, "schedstat");
    double samples = (double)(after.samples - before.samples);
    double reads = (double)(after.reads - before.reads) / samples;
    (void)fprintf(stderr, "# %d members: %.1f reads and %.3f ms for each sample\n",
                  MEMBERS, reads, (double)(after.run_ns - before.run_ns) / samples / 1e6);
    ck_assert_msg(reads > MEMBERS && reads < MEMBERS * 2.4, "%.1f reads", reads);
    ck_assert_msg(SLOWNESS > 1 || after.faults - before.faults < 8,
                  "%llu more pages in %.0f samples",
                  (unsigned long long)(after.faults - before.faults), samples);
    ck_assert_msg(strtoull(text, NULL, 10) - guard_before < 5000000,
                  "the guard works too");
    end_idle(&trial);
}
END_TEST

/* --- the same, call by call
 * -------------------------------------------------------------- */

struct calls {
    unsigned reads;
    unsigned opens;
    unsigned closes;
    unsigned memory;
    unsigned all;
};

static void count_call(struct calls *calls, const char *name)
{
    static const char *const memory[] = {"brk", "mmap", "munmap", "mremap"};
    size_t length = strcspn(name, "( ");
    calls->all++;
    calls->reads += strncmp(name, "pread64", length) == 0 ? 1U : 0U;
    calls->opens += strncmp(name, "openat", length) == 0 ? 1U : 0U;
    calls->closes += strncmp(name, "close", length) == 0 ? 1U : 0U;
    for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++) {
        calls->memory += strncmp(name, memory[i], length) == 0 ? 1U : 0U;
    }
}

/* Splits what the monitor (the one that waits in epoll_wait) has called into what lies
 * between two waits, and keeps those parts in which it has read every member. */
static size_t split_trace(FILE *trace, struct calls *samples, size_t size)
{
    char line[1024];
    long monitor = 0;
    size_t count = 0;
    struct calls calls = {0};
    while (count < size && fgets(line, sizeof(line), trace) != NULL) {
        char *name = NULL;
        long pid = strtol(line, &name, 10);
        name += strspn(name, " ");
        bool waits = strncmp(name, "epoll_wait(", strlen("epoll_wait(")) == 0;
        if (monitor == 0 && waits) {
            monitor = pid;
        }
        if (pid != monitor || !isalpha((unsigned char)*name)) {
            continue;
        }
        if (waits) {
            if (calls.reads >= 2 * MEMBERS) {
                samples[count++] = calls;
            }
            calls = (struct calls){0};
        }
        count_call(&calls, name);
    }
    return count;
}

START_TEST(a_sample_opens_next_to_nothing)
{
    const char *const probe[] = {"strace", "-o", "/dev/null", "true", NULL};
    struct sbx_trial trial = {.command = probe};
    sbx_trial_run(&trial);
    bool traces = trial.status == 0;
    sbx_trial_done(&trial);
    if (SLOWNESS > 1 || !traces) {
        (void)fprintf(stderr, "# SKIP: no strace here, or sanitized\n");
        return;
    }
    const char *const launcher[] = {"strace", "-f", "-o", "@/trace", NULL};
    const char *const command[] = {"@crowd", "100", "10", NULL};
    trial = (struct sbx_trial){
        .command = command, .launcher = launcher, .options = "--wall 3 --interval 100ms"};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 124, "breach", "wall");
    char path[SBX_FIXTURE_PATH_SIZE];
    FILE *trace = fopen(sbx_trial_path(&trial, path, "trace"), "re");
    ck_assert_ptr_nonnull(trace);
    static struct calls samples[1000];
    size_t count = split_trace(trace, samples, 1000);
    (void)fclose(trace);
    /* Not all: the first met the members, one in between may look closer at somebody, and
     * the last belong to the end. */
    size_t plain = 0;
    for (size_t i = 0; i < count; i++) {
        const struct calls *calls = &samples[i];
        plain += calls->reads <= 2 * MEMBERS + 30 && calls->opens <= 8 &&
                         calls->opens == calls->closes && calls->memory == 0 &&
                         calls->all <= 2 * MEMBERS + 60
                     ? 1U
                     : 0U;
    }
    const struct calls *middle = &samples[count / 2];
    (void)fprintf(stderr,
                  "# %zu of %zu samples plain; one: %u calls, %u reads, %u opens\n",
                  plain, count, middle->all, middle->reads, middle->opens);
    ck_assert_msg(count >= 10 && plain * 4 >= count * 3,
                  "only %zu of %zu samples are what they should be", plain, count);
    sbx_trial_done(&trial);
}
END_TEST

/* --- bystanders
 * ---------------------------------------------------------------------------- */

static double cost_of_samples(pid_t monitor)
{
    struct counters before = look(monitor);
    struct counters after = look_after(monitor, &before, 25);
    return (double)(after.run_ns - before.run_ns) /
           (double)(after.samples - before.samples);
}

/* With and without in turn, so that what else the machine does falls on both. */
static double bystander_ratio(pid_t monitor, const struct sbx_net *net, unsigned count)
{
    double with[ROUNDS];
    double without[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        without[i] = cost_of_samples(monitor);
        pid_t bystanders = start_bystanders(net, count);
        with[i] = cost_of_samples(monitor);
        end_bystanders(bystanders);
    }
    double alone = median(without, ROUNDS);
    double ratio = median(with, ROUNDS) / alone;
    (void)fprintf(stderr,
                  "# %u bystanders: a sample costs %.2f times what it costs without them "
                  "(%.3f ms)\n",
                  count, ratio, alone / 1e6);
    return ratio;
}

static unsigned bystander_count(void)
{
    const char *wanted = getenv("SBX_LONG");
    unsigned count = wanted != NULL && *wanted != '\0' ? BYSTANDERS_LONG : BYSTANDERS;
    struct rlimit mine;
    ck_assert_int_eq(getrlimit(RLIMIT_NPROC, &mine), 0);
    while (count > 1 && (!sbx_net_fits(count) || mine.rlim_cur < 2UL * count)) {
        count /= 2;
    }
    return count;
}

START_TEST(bystanders_cost_nothing)
{
    unsigned count = bystander_count();
    ck_assert_msg(count >= 100, "there is no room for bystanders on this host");
    struct sbx_net net;
    (void)sbx_net_make(&net, count + 10);
    struct sbx_trial trial = {.options = "--wall 55 --interval 20ms"};
    double ratio = 100;
    for (int i = 0; i < ATTEMPTS && ratio >= 1.3; i++) {
        pid_t monitor = start_idle(&trial);
        ratio = bystander_ratio(monitor, &net, count);
        end_idle(&trial);
    }
    ck_assert_msg(ratio < 1.3, "%u bystanders make a sample %.2f times as dear", count,
                  ratio);
    ck_assert(sbx_net_remove(&net));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cost");
    TCase *idle = sbx_fixture_case(suite, "idle", 90);
    tcase_add_test(idle, an_idle_tree_costs_next_to_nothing);
    tcase_add_test(idle, a_sample_is_two_reads_for_each_member);
    tcase_add_test(idle, a_sample_opens_next_to_nothing);
    TCase *bystanders = sbx_fixture_case(suite, "bystanders", 200);
    tcase_add_test(bystanders, bystanders_cost_nothing);
    return sbx_fixture_run(suite);
}
