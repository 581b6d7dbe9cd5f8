/*
 * test_capture_lost.c - while output flows, one of our processes is killed at a random
 * moment: the run ends, nothing of it stays, and what the report says of the output is
 * true.
 *
 * Runs the built program. What has arrived is always a beginning of what was written:
 * nothing is doubled, nothing is missing in between. And where the report says that
 * nothing was cut off, every byte has arrived. A failure names the seed, and SBX_SEED=N
 * repeats it.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "tests/fixture.h"
#include "tests/stream_kit.h"
#include "tests/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BOUND_SECONDS 60
#define QUICK_US 30000000
#define MOMENTS 4

static uint64_t random_state;

/* Steele, Lea and Flood: SplitMix64. */
static uint64_t random_below(uint64_t bound)
{
    random_state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = random_state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % bound;
}

static void sleep_us(uint64_t us)
{
    struct timespec rest = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
    while (nanosleep(&rest, &rest) < 0 && errno == EINTR) {
    }
}

/* A pidfd of the child of `parent` of that name; -1: there is none. */
static int find_child(pid_t parent, const char *name)
{
    char path[64];
    char list[1024];
    char comm[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent,
                   (int)parent);
    if (sbx_fd_read_text_at(AT_FDCWD, path, list, sizeof(list)) <= 0) {
        return -1;
    }
    char *rest = NULL;
    for (char *word = strtok_r(list, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        pid_t pid = (pid_t)strtol(word, NULL, 10);
        int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        (void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
        if (pidfd >= 0 && sbx_fd_read_text_at(AT_FDCWD, path, comm, sizeof(comm)) > 0 &&
            strncmp(comm, name, strlen(name)) == 0) {
            return pidfd; /* the guard reaps at its end alone: it is that process */
        }
        sbx_fd_drop(&pidfd);
    }
    return -1;
}

static int await_child(pid_t parent, const char *name)
{
    uint64_t end_us = sbx_clock_us() + BOUND_SECONDS * SBX_US_PER_S;
    for (;;) {
        int pidfd = find_child(parent, name);
        if (pidfd >= 0) {
            return pidfd;
        }
        ck_assert_msg(sbx_clock_us() < end_us, "no %s", name);
        sleep_us(100);
    }
}

/* Orphans of the run come to us. */
static void await_no_children(const char *what)
{
    uint64_t end_us = sbx_clock_us() + BOUND_SECONDS * SBX_US_PER_S;
    while (waitpid(-1, NULL, WNOHANG | __WALL) >= 0) {
        ck_assert_msg(sbx_clock_us() < end_us, "processes are left: %s", what);
        sleep_us(1000);
    }
    ck_assert_int_eq(errno, ECHILD);
}

enum victim { VICTIM_MONITOR, VICTIM_GUARD, VICTIM_SERVANT, VICTIM_COUNT };
enum way { WAY_FILE, WAY_APPEND, WAY_PIPE, WAY_COUNT };

static const char *const victims[] = {"sbx-monitor", "the guard", "sbx-stdout"};
static const char *const ways[] = {"file", "file opened to append", "pipe"};

static const char *const flood[] = {"@emit", "1000000000000", "8192", NULL};

/* Reads the report as it is now: the guard may have been killed, and the monitor have
 * written it after that. */
static void read_report(struct sbx_trial *trial, const char *what)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    json_error_t error;
    json_decref(trial->report);
    trial->report = json_load_file(sbx_trial_path(trial, path, "report"),
                                   JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(trial->report != NULL, "report: %s: %s", error.text, what);
}

static void expect_truth(const struct sbx_trial *trial, enum victim victim,
                         uint64_t arrived, const char *what)
{
    static const char *const outcomes[] = {"lost", "breach", "breach"};
    static const char *const reasons[] = {NULL, "guard-lost", "unmeasurable"};
    ck_assert_msg(strcmp(sbx_trial_string(trial, "outcome"), outcomes[victim]) == 0,
                  "outcome %s: %s", sbx_trial_string(trial, "outcome"), what);
    if (reasons[victim] != NULL) {
        ck_assert_str_eq(sbx_trial_string(trial, "breach.reason"), reasons[victim]);
    }
    sbx_trial_expect_proof(trial);
    bool truncated = sbx_trial_boolean(trial, "output_truncated");
    uint64_t seen = (uint64_t)sbx_trial_integer(trial, "usage.output_bytes");
    ck_assert_msg(truncated || arrived == seen, "%llu of %llu bytes arrived: %s",
                  (unsigned long long)arrived, (unsigned long long)seen, what);
    ck_assert_msg(victim != VICTIM_SERVANT || truncated, "not truncated: %s", what);
    /* The others lose nothing: nobody was in the middle of something that hung. */
    ck_assert_msg(victim == VICTIM_SERVANT || !truncated, "truncated: %s", what);
}

static void kill_once(enum victim victim, enum way way)
{
    char what[160];
    char path[SBX_FIXTURE_PATH_SIZE];
    uint64_t state = random_state;
    uint64_t moment_us = random_below(30000);
    (void)snprintf(what, sizeof(what), "%s killed after %llu us, output to a %s (%llu)",
                   victims[victim], (unsigned long long)moment_us, ways[way],
                   (unsigned long long)state);
    struct sbx_trial trial = {.command = flood, .options = "--output 1T --grace 1"};
    struct sbx_stream_reader reader = {.write_end = -1};
    if (way == WAY_FILE) {
        trial.options = "--output 1T --grace 1 --stdout @/out";
    } else if (way == WAY_PIPE) {
        reader = sbx_stream_reader();
        trial.stdio[1] = reader.write_end;
    }
    sbx_trial_start(&trial);
    sbx_stream_started(&reader);
    SBX_AUTO_CLOSE int monitor = await_child(trial.pid, "sbx-monitor");
    SBX_AUTO_CLOSE int servant = await_child(trial.pid, "sbx-stdout");
    SBX_AUTO_CLOSE int guard = (int)syscall(SYS_pidfd_open, trial.pid, 0);
    const int pidfds[] = {monitor, guard, servant};
    sleep_us(5000 + moment_us); /* the command has been launched, on a quiet machine */
    ck_assert_int_eq(syscall(SYS_pidfd_send_signal, pidfds[victim], SIGKILL, NULL, 0), 0);
    sbx_trial_wait(&trial);
    uint64_t arrived = way == WAY_PIPE ? sbx_stream_join(&reader) : 0;
    await_no_children(what);
    read_report(&trial, what);
    if (way != WAY_PIPE) {
        arrived = sbx_stream_file(sbx_trial_path(&trial, path, "out"));
    }
    if (sbx_trial_has(&trial, "leader_pid")) { /* else it came before the launch */
        expect_truth(&trial, victim, arrived, what);
    }
    ck_assert_msg(trial.elapsed_us < QUICK_US, "it took too long: %s", what);
    sbx_trial_expect_empty(&trial);
    sbx_trial_done(&trial);
    (void)unlink(path);
}

START_TEST(a_kill_while_output_flows_ends_in_a_true_report)
{
    int moments = getenv("SBX_LONG") != NULL ? 5 * MOMENTS : MOMENTS;
    const char *given = getenv("SBX_SEED");
    random_state = given != NULL ? strtoull(given, NULL, 10) : sbx_clock_us();
    for (int i = 0; i < moments; i++) {
        kill_once((enum victim)(_i / WAY_COUNT), (enum way)(_i % WAY_COUNT));
    }
}
END_TEST

/* Nobody reads: the servant hangs over its target, and must not hold anybody's end. */
START_TEST(a_kill_while_nobody_reads_holds_nobody)
{
    enum victim victim = (enum victim)_i;
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    struct sbx_trial trial = {
        .command = flood, .options = "--output 1T --grace 1", .stdio = {0, ends[1], 0}};
    sbx_trial_start(&trial);
    (void)close(ends[1]);
    SBX_AUTO_CLOSE int monitor = await_child(trial.pid, "sbx-monitor");
    SBX_AUTO_CLOSE int servant = await_child(trial.pid, "sbx-stdout");
    SBX_AUTO_CLOSE int guard = (int)syscall(SYS_pidfd_open, trial.pid, 0);
    const int pidfds[] = {monitor, guard, servant};
    ck_assert_uint_eq(sbx_stream_read(ends[0], 0, 100), 100); /* it flows */
    ck_assert_int_eq(syscall(SYS_pidfd_send_signal, pidfds[victim], SIGKILL, NULL, 0), 0);
    sbx_trial_wait(&trial);
    uint64_t arrived = 100 + sbx_stream_read(ends[0], 100, UINT64_MAX);
    await_no_children("nobody reads");
    read_report(&trial, "nobody reads");
    int64_t seen = sbx_trial_integer(&trial, "usage.output_bytes");
    ck_assert_int_ge(seen, (int64_t)arrived);
    /* When the guard is gone we read on, and all of it comes. */
    ck_assert(sbx_trial_boolean(&trial, "output_truncated") ||
              (victim == VICTIM_GUARD && seen == (int64_t)arrived));
    ck_assert_uint_lt(trial.elapsed_us, QUICK_US);
    sbx_trial_expect_empty(&trial);
    (void)close(ends[0]);
    sbx_trial_done(&trial);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("capture_lost");
    TCase *kills = sbx_fixture_case(suite, "kills", 200);
    tcase_add_loop_test(kills, a_kill_while_output_flows_ends_in_a_true_report, 0,
                        VICTIM_COUNT * WAY_COUNT);
    /* The guard alone waits 10 seconds for a reader. */
    tcase_add_loop_test(kills, a_kill_while_nobody_reads_holds_nobody,
                        getenv("SBX_LONG") != NULL ? VICTIM_MONITOR : VICTIM_GUARD,
                        VICTIM_COUNT);
    return sbx_fixture_run(suite);
}
