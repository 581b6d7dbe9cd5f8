/*
 * test_capture.c - captured output: every byte of it arrives, bounds hold to the byte,
 * and neither a slow reader nor one that leaves, nor a writer that stays, holds a run.
 *
 * Runs the built program. The helper emit writes a pattern in which every place is
 * different. SBX_LONG in the environment makes it 5 GB instead of 512 MB.
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
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QUICK_US 25000000
#define MIB (UINT64_C(1) << 20)
#define LENGTH(array) (int)(sizeof(array) / sizeof((array)[0]))

/* A pipe for the run's standard output: the test reads from *ret_read. */
static int open_pipe(int *ret_read)
{
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    *ret_read = ends[0];
    return ends[1];
}

static void start_into(struct sbx_trial *trial, int fd)
{
    trial->stdio[1] = fd;
    sbx_trial_start(trial);
    (void)close(fd);
}

static void finish(struct sbx_trial *trial, int status, const char *outcome,
                   const char *reason)
{
    sbx_trial_wait(trial);
    sbx_trial_expect(trial, status, outcome, reason);
    sbx_trial_expect_empty(trial);
    ck_assert_uint_lt(trial->elapsed_us, QUICK_US);
}

static void expect_figures(const struct sbx_trial *trial, uint64_t bytes, bool truncated)
{
    ck_assert_int_eq(sbx_trial_integer(trial, "usage.output_bytes"), (int64_t)bytes);
    ck_assert_int_eq(sbx_trial_boolean(trial, "output_truncated"), truncated);
}

/* --- every byte ----------------------------------------------------------------------
 */

static double seconds_since(uint64_t us)
{
    return (double)(sbx_clock_us() - us) / 1e6;
}

/* The same bytes straight through a pipe: how long that takes. */
static double read_directly(const char *size)
{
    char emit[SBX_FIXTURE_PATH_SIZE];
    int fd = -1;
    int write_end = open_pipe(&fd);
    uint64_t started_us = sbx_clock_us();
    (void)sbx_fixture_helper(emit, "emit");
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void)dup2(write_end, STDOUT_FILENO);
        (void)execl(emit, "emit", size, "65536", NULL);
        _exit(1);
    }
    (void)close(write_end);
    ck_assert_uint_eq(sbx_stream_read(fd, 0, UINT64_MAX), strtoull(size, NULL, 10));
    double seconds = seconds_since(started_us);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    (void)close(fd);
    return seconds;
}

START_TEST(every_byte_arrives_and_memory_stays_flat)
{
    bool more = getenv("SBX_LONG") != NULL;
    const char *size = more ? "5368709120" : "536870912";
    const char *const command[] = {"@emit", size, "65536", NULL};
    const char *less = more ? "1073741824" : "134217728";
    struct sbx_trial trial = {
        .command = command, .options = "--output 6G", .seconds = 200};
    int fd = -1;
    uint64_t total = strtoull(size, NULL, 10);
    double direct = read_directly(less);
    uint64_t started_us = sbx_clock_us();
    start_into(&trial, open_pipe(&fd));
    uint64_t got = sbx_stream_read(fd, 0, 16 * MIB);
    /* Monitor, reader, and one servant for each stream. */
    uint64_t early = sbx_stream_memory(trial.pid, 4);
    got += sbx_stream_read(fd, got, total - 32 * MIB - got);
    uint64_t late = sbx_stream_memory(trial.pid, 4);
    got += sbx_stream_read(fd, got, UINT64_MAX);
    double captured = seconds_since(started_us);
    ck_assert_uint_eq(got, total);
    sbx_trial_wait(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    sbx_trial_expect_empty(&trial);
    expect_figures(&trial, total, false);
    (void)printf(
        "# captured %.0f MB/s, direct %.0f MB/s; our memory %llu KiB, later %llu "
        "KiB\n",
        (double)total / 1e6 / captured, strtod(less, NULL) / 1e6 / direct,
        (unsigned long long)(early / 1024), (unsigned long long)(late / 1024));
    ck_assert_uint_le(late, early + 4 * MIB);
    (void)close(fd);
    sbx_trial_done(&trial);
}
END_TEST

enum target { TARGET_APPEND, TARGET_SOCKET, TARGET_PIPE, TARGET_FILE, TARGET_COUNT };

static const char *const chunks[] = {"7", "4096", "100000"};

/* Odd sizes, into everything that output leads to. */
START_TEST(any_target_gets_every_byte)
{
    enum target target = (enum target)(_i % TARGET_COUNT);
    const char *const command[] = {"@emit", "3000001", chunks[_i / TARGET_COUNT], NULL};
    char path[SBX_FIXTURE_PATH_SIZE];
    struct sbx_trial trial = {.command = command, .options = "--output 1G"};
    trial.as_nobody = geteuid() == 0 && _i % 2 == 1;
    int ends[2] = {-1, -1};
    uint64_t got = 0;
    if (target == TARGET_SOCKET) {
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    } else if (target == TARGET_PIPE) {
        ends[1] = open_pipe(&ends[0]);
        /* As some programs leave theirs to their children. */
        ck_assert_int_eq(fcntl(ends[1], F_SETFL, _i < TARGET_COUNT ? 0 : O_NONBLOCK), 0);
    } else if (target == TARGET_FILE) {
        trial.options = "--output 1G --stdout @/data";
    }
    if (ends[0] >= 0) {
        start_into(&trial, ends[1]);
        got = sbx_stream_read(ends[0], 0, UINT64_MAX);
        (void)close(ends[0]);
    } else {
        sbx_trial_start(&trial);
    }
    finish(&trial, 0, "exited", NULL);
    const char *name = target == TARGET_FILE ? "data" : "out";
    got = ends[0] >= 0 ? got : sbx_stream_file(sbx_trial_path(&trial, path, name));
    ck_assert_uint_eq(got, 3000001);
    expect_figures(&trial, 3000001, false);
    sbx_trial_done(&trial);
}
END_TEST

static const char *const ends_of[] = {"exit", "kill"};
static const char *const lengths[] = {"1", "4097", "65536", "300000", "1500000"};

/* What was written right before the end is not lost, however it ends. */
START_TEST(the_last_bytes_are_not_lost)
{
    for (int i = 0; i < 10; i++) {
        const char *length = lengths[(_i + i) % LENGTH(lengths)];
        const char *const command[] = {"@emit", length, "1000000", ends_of[_i], NULL};
        char path[SBX_FIXTURE_PATH_SIZE];
        struct sbx_trial trial = {.command = command, .options = "--idle 60"};
        sbx_trial_run(&trial);
        sbx_trial_expect(&trial, _i == 0 ? 0 : 128 + SIGKILL,
                         _i == 0 ? "exited" : "signaled", NULL);
        uint64_t wanted = strtoull(length, NULL, 10);
        ck_assert_uint_eq(sbx_stream_file(sbx_trial_path(&trial, path, "out")), wanted);
        expect_figures(&trial, wanted, false);
        sbx_trial_done(&trial);
    }
}
END_TEST

/* Both streams lead to one file: it has what was written, as it was written. */
START_TEST(order_is_kept_where_both_go_to_one_place)
{
    const char *const command[] = {
        "sh", "-c",
        "i=0; while [ $i -lt 1000 ]; do echo $i; i=$((i+1)); echo $i >&2; i=$((i+1)); "
        "done",
        NULL};
    const char *const launcher[] = {"sh", "-c", "exec \"$@\" 2>&1", "sh", NULL};
    struct sbx_trial trial = {.command = command, .options = "--output 1M"};
    if (_i == 0) {
        trial.launcher = launcher;
    } else {
        trial.options = "--output 1M --stdout @/out --stderr @/../run.1/out";
    }
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    char *rest = trial.out;
    for (long i = 0; i < 1000; i++) {
        ck_assert_int_eq(strtol(rest, &rest, 10), i);
    }
    ck_assert_str_eq(rest, "\n");
    ck_assert_str_eq(trial.err, "");
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(streams_stay_apart_where_they_do_not)
{
    const char *const command[] = {"@emit", "2000000", "1000", "both", NULL};
    char path[SBX_FIXTURE_PATH_SIZE];
    struct sbx_trial trial = {.command = command, .options = "--output 1G"};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    ck_assert_uint_eq(sbx_stream_file(sbx_trial_path(&trial, path, "out")), 1000000);
    ck_assert_uint_eq(sbx_stream_file(sbx_trial_path(&trial, path, "err")), 1000000);
    expect_figures(&trial, 2000000, false);
    sbx_trial_done(&trial);
}
END_TEST

/* --- bounds --------------------------------------------------------------------------
 */

static const struct bound_row {
    const char *options;
    const char *size;
    const char *how;
    int status;
    const char *outcome;
    const char *reason;
    uint64_t passed;
    bool truncated;
} bounds[] = {
    {"--output 1000", "1000", "exit", 0, "exited", NULL, 1000, false},
    {"--output 999", "1000", "exit", 124, "breach", "output", 999, true},
    {"--output 999 --quiet", "1000", "both", 124, "breach", "output", 999, true},
    {"--output 1000", "1001", "stay", 124, "breach", "output", 1000, true},
    {"--output 100000", "1000000000", "stay", 124, "breach", "output", 100000, true},
    {"--output 1", "2", "kill", 124, "breach", "output", 1, true},
    {"--output 100 --output-keep 5", "10", "exit", 0, "exited", NULL, 5, true},
    {"--output 5 --output-keep 100", "10", "exit", 124, "breach", "output", 5, true},
    {"--output-keep 1000", "1000", "exit", 0, "exited", NULL, 1000, false},
    {"--output-keep 999", "1000", "both", 0, "exited", NULL, 999, true},
    {"--output-keep 65537", "30000000", "exit", 0, "exited", NULL, 65537, true},
};

START_TEST(bounds_hold_to_the_byte)
{
    const struct bound_row *row = &bounds[_i];
    const char *const command[] = {"@emit", row->size, "500", row->how, NULL};
    char path[SBX_FIXTURE_PATH_SIZE];
    for (int identity = 0; identity < sbx_trial_identities(); identity++) {
        struct sbx_trial trial = {
            .command = command, .options = row->options, .as_nobody = identity == 1};
        sbx_trial_start(&trial);
        finish(&trial, row->status, row->outcome, row->reason);
        uint64_t passed = sbx_stream_file(sbx_trial_path(&trial, path, "out"));
        if (strcmp(row->how, "both") == 0) {
            passed += sbx_stream_file(sbx_trial_path(&trial, path, "err"));
        }
        ck_assert_uint_eq(passed, row->passed);
        ck_assert_int_eq(sbx_trial_boolean(&trial, "output_truncated"), row->truncated);
        int64_t seen = sbx_trial_integer(&trial, "usage.output_bytes");
        if (row->reason != NULL) {
            ck_assert_int_gt(sbx_trial_integer(&trial, "breach.observed"),
                             sbx_trial_integer(&trial, "breach.limit"));
            ck_assert_int_ge(seen, sbx_trial_integer(&trial, "breach.observed"));
        } else {
            ck_assert_int_eq(seen, strtol(row->size, NULL, 10));
        }
        sbx_trial_done(&trial);
    }
}
END_TEST

/* The polite signal comes first, and what the command then says is still counted. */
START_TEST(a_breach_of_output_is_polite)
{
    const char *const command[] = {
        "sh", "-c", "trap 'exit 42' TERM; echo too much; while :; do sleep 0.01; done",
        NULL};
    struct sbx_trial trial = {.command = command, .options = "--output 3 --grace 20"};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 124, "breach", "output");
    ck_assert_int_eq(sbx_trial_integer(&trial, "exit_code"), 42);
    ck_assert_str_eq(trial.out, "too");
    ck_assert(!sbx_trial_boolean(&trial, "termination.escalated"));
    sbx_trial_done(&trial);
}
END_TEST

/* It stops those who count its output, and goes: they are the same user's. */
START_TEST(who_counts_cannot_be_stopped_for_long)
{
    const char *const command[] = {
        "sh", "-c",
        "read -r _ _ _ guard _ </proc/$PPID/stat; "
        "for p in $(cat /proc/$guard/task/$guard/children); do "
        "read -r name </proc/$p/comm; "
        "case $name in sbx-std*) kill -STOP $p;; esac; done; echo too much",
        NULL};
    for (int identity = 0; identity < sbx_trial_identities(); identity++) {
        struct sbx_trial trial = {
            .command = command, .options = "--output 3", .as_nobody = identity == 1};
        sbx_trial_start(&trial);
        finish(&trial, 124, "breach", "output");
        ck_assert_str_eq(trial.out, "too");
        expect_figures(&trial, 9, true);
        sbx_trial_done(&trial);
    }
}
END_TEST

/* --- readers -------------------------------------------------------------------------
 */

START_TEST(a_reader_that_leaves_ends_the_run)
{
    const char *const command[] = {"@emit", "100000000000", "4096", NULL};
    struct sbx_trial trial = {.command = command, .options = "--output 1T --grace 1"};
    int fd = -1;
    start_into(&trial, open_pipe(&fd));
    ck_assert_uint_eq(sbx_stream_read(fd, 0, 10), 10);
    (void)close(fd);
    finish(&trial, 124, "breach", "output-closed");
    ck_assert(sbx_trial_boolean(&trial, "output_truncated"));
    ck_assert_int_ge(sbx_trial_integer(&trial, "warnings_count"), 1);
    sbx_trial_done(&trial);
}
END_TEST

/* A command that waits for its reader is not idle; and nothing of it is lost. */
START_TEST(a_slow_reader_holds_only_the_command)
{
    const char *const command[] = {"@emit", "4000000", "4096", NULL};
    struct sbx_trial trial = {.command = command, .options = "--idle 0.4"};
    int fd = -1;
    start_into(&trial, open_pipe(&fd));
    uint64_t got = sbx_stream_read(fd, 0, 1000);
    struct timespec rest = {1, 500000000}; /* it is the reader that sleeps here */
    (void)nanosleep(&rest, NULL);
    got += sbx_stream_read(fd, got, UINT64_MAX);
    ck_assert_uint_eq(got, 4000000);
    finish(&trial, 0, "exited", NULL);
    expect_figures(&trial, 4000000, false);
    (void)close(fd);
    sbx_trial_done(&trial);
}
END_TEST

/* It has ended, nobody reads, and somebody asks: then there is no waiting. */
START_TEST(a_reader_that_does_not_read_is_given_up)
{
    const char *const command[] = {"@emit", "500000", "4096", NULL};
    struct sbx_trial trial = {.command = command, .options = "--output 1G"};
    int fd = -1;
    start_into(&trial, open_pipe(&fd));
    if (_i == 0) {
        uint64_t until_us = sbx_clock_us() + QUICK_US;
        siginfo_t info = {0};
        /* TERM again and again: one of them comes after the command's end. */
        while (sbx_clock_us() < until_us &&
               waitid(P_PID, (id_t)trial.pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
               info.si_pid == 0) {
            struct timespec rest = {0, 200000000};
            (void)nanosleep(&rest, NULL);
            (void)kill(trial.pid, SIGTERM);
        }
    }
    sbx_trial_wait(&trial);
    sbx_trial_expect_empty(&trial);
    ck_assert_uint_lt(trial.elapsed_us, QUICK_US);
    ck_assert(sbx_trial_boolean(&trial, "output_truncated"));
    ck_assert_int_ge(sbx_trial_integer(&trial, "warnings_count"), 1);
    ck_assert_uint_ge(sbx_stream_read(fd, 0, UINT64_MAX), 65536);
    (void)close(fd);
    sbx_trial_done(&trial);
}
END_TEST

/* --- writers that stay ---------------------------------------------------------------
 */

/* Somebody else has the pipe too, outside of the tree, and writes without end. */
START_TEST(a_bystander_with_the_pipe_does_not_hold_the_run)
{
    const char *const command[] = {
        "sh", "-c",   "echo up $$; while [ ! -e \"$1\" ]; do sleep 0.01; done; echo end",
        "sh", "@/go", NULL};
    struct sbx_trial trial = {.command = command, .options = "--output 1G"};
    char path[SBX_FIXTURE_PATH_SIZE];
    char block[4096] = {0};
    sbx_trial_start(&trial);
    sbx_trial_wait_output(&trial, "up ", 20);
    char text[64] = "";
    ck_assert_int_gt(sbx_fd_read_text_at(AT_FDCWD, sbx_trial_path(&trial, path, "out"),
                                         text, sizeof(text)),
                     0);
    (void)snprintf(path, sizeof(path), "/proc/%ld/fd/1", strtol(text + 3, NULL, 10));
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    pid_t writer = fork();
    ck_assert_int_ge(writer, 0);
    if (writer == 0) {
        (void)alarm(60);
        while (_i == 0 || poll(NULL, 0, -1) >= 0) {
            (void)!write(fd, block, sizeof(block));
        }
        _exit(0);
    }
    (void)close(fd);
    int go =
        open(sbx_trial_path(&trial, path, "go"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    (void)close(go);
    sbx_trial_wait(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    ck_assert_uint_lt(trial.elapsed_us, QUICK_US);
    if (_i == 1) {
        (void)kill(writer, SIGKILL);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(writer, &status, 0), writer);
    /* The pipe has no reader any more: what goes on writing is told. */
    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(WTERMSIG(status), _i == 1 ? SIGKILL : SIGPIPE);
    sbx_trial_expect_empty(&trial);
    ck_assert(!sbx_trial_boolean(&trial, "output_truncated"));
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(a_background_writer_is_swept_or_kept)
{
    const char *const command[] = {"sh", "-c", "setsid @emit & echo first; exit 3", NULL};
    char script[SBX_FIXTURE_PATH_SIZE + 128];
    char emit[SBX_FIXTURE_PATH_SIZE];
    (void)snprintf(script, sizeof(script),
                   "echo first; '%s' 100000000000 512 exit & exit 3",
                   sbx_fixture_helper(emit, "emit"));
    const char *const words[] = {command[0], command[1], script, NULL};
    struct sbx_trial trial = {.command = words,
                              .options = _i == 0
                                             ? "--output-keep 1M"
                                             : "--output-keep 1M --strays keep --quiet"};
    sbx_trial_run(&trial);
    if (_i == 1) {
        (void)sbx_trial_end_children(20);
    }
    sbx_trial_expect(&trial, 3, "exited", NULL);
    ck_assert_uint_lt(trial.elapsed_us, QUICK_US);
    ck_assert_int_eq(strncmp(trial.out, "first\n", 6), 0);
    sbx_trial_done(&trial);
}
END_TEST

/* A member that opens the pipe anew reads what it has written itself: that is told, and
 * holds nobody. */
START_TEST(a_thief_of_its_own_output_holds_nobody)
{
    const char *const command[] = {
        "sh",
        "-c",
        "exec 3</proc/self/fd/1; cat <&3 >/dev/null & \"$1\" 40000000 4096",
        "sh",
        "@emit",
        NULL};
    struct sbx_trial trial = {.command = command, .options = "--output 1G"};
    sbx_trial_start(&trial);
    finish(&trial, 0, "exited", NULL);
    ck_assert_int_le(sbx_trial_integer(&trial, "usage.output_bytes"), 40000000);
    sbx_trial_done(&trial);
}
END_TEST

/* --- idle ----------------------------------------------------------------------------
 */

static const struct idle_row {
    const char *command[4];
    const char *reason; /* NULL: it ends by itself with 0 */
} idle_rows[] = {
    {{"sh", "-c", "echo once; sleep 50"}, "idle"},
    {{"sh", "-c", "sleep 50 & kill -STOP $$"}, "idle"},
    {{"sh", "-c", "(while :; do :; done) & wait"}, "wall"},
    {{"sh", "-c", "for i in 1 2 3 4 5 6; do echo >&2; sleep 0.15; done"}, NULL},
};

START_TEST(idle_is_neither_writing_nor_working)
{
    const struct idle_row *row = &idle_rows[_i];
    const char *const command[] = {row->command[0], row->command[1], row->command[2],
                                   row->command[3], NULL};
    struct sbx_trial trial = {.command = command,
                              .options = "--idle 0.5 --wall 1.2 --grace 0.2"};
    sbx_trial_start(&trial);
    sbx_trial_wait(&trial);
    sbx_trial_expect_empty(&trial);
    if (row->reason == NULL) {
        /* On a machine that is busy enough its pauses become longer than that. */
        const char *outcome = sbx_trial_string(&trial, "outcome");
        ck_assert_msg(strcmp(outcome, "exited") == 0 ||
                          strcmp(sbx_trial_string(&trial, "breach.reason"), "wall") == 0,
                      "outcome %s", outcome);
    } else {
        sbx_trial_expect(&trial, 124, "breach", row->reason);
        ck_assert_int_ge(sbx_trial_integer(&trial, "breach.observed"),
                         sbx_trial_integer(&trial, "breach.limit"));
    }
    sbx_trial_done(&trial);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("capture");
    TCase *bytes = sbx_fixture_case(suite, "bytes", 250);
    tcase_add_test(bytes, every_byte_arrives_and_memory_stays_flat);
    tcase_add_loop_test(bytes, any_target_gets_every_byte, 0,
                        TARGET_COUNT * LENGTH(chunks));
    tcase_add_loop_test(bytes, the_last_bytes_are_not_lost, 0, LENGTH(ends_of));
    tcase_add_loop_test(bytes, order_is_kept_where_both_go_to_one_place, 0, 2);
    tcase_add_test(bytes, streams_stay_apart_where_they_do_not);
    TCase *limits = sbx_fixture_case(suite, "bounds", 120);
    tcase_add_loop_test(limits, bounds_hold_to_the_byte, 0, LENGTH(bounds));
    tcase_add_test(limits, a_breach_of_output_is_polite);
    tcase_add_test(limits, who_counts_cannot_be_stopped_for_long);
    tcase_add_loop_test(limits, idle_is_neither_writing_nor_working, 0,
                        LENGTH(idle_rows));
    TCase *peers = sbx_fixture_case(suite, "peers", 120);
    tcase_add_test(peers, a_reader_that_leaves_ends_the_run);
    tcase_add_test(peers, a_slow_reader_holds_only_the_command);
    tcase_add_loop_test(peers, a_reader_that_does_not_read_is_given_up, 0,
                        getenv("SBX_LONG") != NULL ? 2 : 1);
    tcase_add_loop_test(peers, a_bystander_with_the_pipe_does_not_hold_the_run, 0, 2);
    tcase_add_test(peers, a_thief_of_its_own_output_holds_nobody);
    tcase_add_loop_test(peers, a_background_writer_is_swept_or_kept, 0, 2);
    return sbx_fixture_run(suite);
}
