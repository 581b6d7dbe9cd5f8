/*
 * test_usr1.c - SIGUSR1 asks for the usage so far: what the line says by tables, and on
 * the built program that it comes at any time, through a front too, never reaches the
 * command, and never holds up a run whose stderr takes nothing.
 */
#include "monitor/sink.h"
#include "monitor/usage.h"
#include "tests/trial.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define MIB UINT64_C(1048576)

/* --- the line --- */

static const struct {
    struct sbx_limits limits;
    struct sbx_current current;
    uint64_t wall_us; /* 0: the leader has not ended */
    uint64_t cpu_us;
    uint64_t peak_bytes;
    const char *line;
} lines[] = {
    {{0}, {0}, 0, SBX_UNKNOWN, SBX_UNKNOWN, "nothing has been started yet\n"},
    {{0}, {.launched_us = 99000000}, 0, SBX_UNKNOWN, SBX_UNKNOWN, "wall 1.00s\n"},
    {{0},
     {90000000, 99999999, 200 * MIB, false, 5, 9},
     0,
     4500000,
     300 * MIB,
     "wall 10.00s, cpu 4.50s, memory 200.0 MiB (peak 300.0 MiB), processes 5, threads "
     "9\n"},
    {{.wall_us = 60000000,
      .cpu_us = 30000000,
      .memory_bytes = 1024 * MIB,
      .processes_count = 20,
      .threads_count = 40},
     {90000000, 99999999, 2 * MIB, true, 5, 9},
     0,
     0,
     SBX_UNKNOWN,
     "wall 10.00s of 1m00s, cpu 0s of 30.00s, memory up to 2.0 MiB of 1.0 GiB, "
     "processes 5 of 20, threads 9 of 40\n"},
    {{0},
     {90000000, 97000000, 0, false, 0, 0},
     2000000,
     7,
     SBX_UNKNOWN,
     "wall 2.00s, cpu 7us, memory 0 B, processes 0, threads 0; sampled 3.00s ago\n"},
    /* A sample that is taken while the line is made. */
    {{0},
     {90000000, 100000005, 0, false, 1, 1},
     0,
     7,
     SBX_UNKNOWN,
     "wall 10.00s, cpu 7us, memory 0 B, processes 1, threads 1\n"},
};

START_TEST(test_line)
{
    struct sbx_spec spec = {.limits = lines[_i].limits};
    struct sbx_record record;
    char text[SBX_USAGE_LINE_SIZE];
    char wanted[SBX_USAGE_LINE_SIZE];
    sbx_record_init(&record);
    record.current = lines[_i].current;
    record.usage.wall_us = lines[_i].wall_us != 0 ? lines[_i].wall_us : SBX_UNKNOWN;
    record.usage.cpu_us = lines[_i].cpu_us;
    record.usage.memory_peak_bytes = lines[_i].peak_bytes;
    size_t length = sbx_usage_line(&spec, &record, 100000000, text);
    (void)snprintf(wanted, sizeof wanted, "sbx-watch: usage: %s", lines[_i].line);
    ck_assert_str_eq(text, wanted);
    ck_assert_uint_eq(length, strlen(wanted));
}
END_TEST

/* The largest numbers fit. */
START_TEST(test_longest_line)
{
    struct sbx_spec spec = {.limits = {.wall_us = INT64_MAX,
                                       .cpu_us = INT64_MAX,
                                       .memory_bytes = INT64_MAX,
                                       .processes_count = INT64_MAX,
                                       .threads_count = INT64_MAX,
                                       .output_bytes = INT64_MAX,
                                       .idle_us = INT64_MAX}};
    struct sbx_record record;
    char text[SBX_USAGE_LINE_SIZE];
    sbx_record_init(&record);
    record.current = (struct sbx_current){1, 1, INT64_MAX, true, UINT64_MAX, UINT64_MAX};
    record.usage.cpu_us = UINT64_MAX - 1;
    record.usage.memory_peak_bytes = UINT64_MAX - 1;
    record.usage.output_bytes = UINT64_MAX - 1;
    size_t length = sbx_usage_line(&spec, &record, UINT64_MAX - 1, text);
    ck_assert_uint_lt(length, sizeof text - 1);
    ck_assert_int_eq(text[length - 1], '\n');
}
END_TEST

/* --- never waits --- */

static void fill(int fd)
{
    char block[4096] = "";
    int flags = fcntl(fd, F_GETFL);
    ck_assert_int_eq(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
    for (size_t size = sizeof block; size > 0; size /= 2) {
        while (write(fd, block, size) == (ssize_t)size) {
            continue;
        }
    }
    ck_assert_int_eq(fcntl(fd, F_SETFL, flags & ~O_NONBLOCK), 0);
}

/* Full: nothing is written, at once. With room: the whole line is there. */
START_TEST(test_full_and_empty)
{
    int ends[2];
    char text[8192];
    bool socket = _i == 1;
    ck_assert_int_eq(socket ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)
                            : pipe2(ends, O_CLOEXEC),
                     0);
    ck_assert(sbx_sink_try(ends[1], "a line\n", 7));
    ck_assert_int_eq(read(ends[0], text, sizeof text), 7);
    ck_assert_int_eq(memcmp(text, "a line\n", 7), 0);
    fill(ends[1]);
    uint64_t before_us = sbx_clock_us();
    for (int i = 0; i < 50; i++) {
        ck_assert(!sbx_sink_try(ends[1], "a line\n", 7));
    }
    ck_assert_uint_lt(sbx_clock_us() - before_us, 5000000);
    ck_assert_int_eq(close(ends[0]), 0);
    ck_assert_int_eq(close(ends[1]), 0);
}
END_TEST

/* A pipe that may not be opened again: its file is of another user. */
START_TEST(test_pipe_of_another_user)
{
    int ends[2];
    char text[8192];
    if (geteuid() != 0) {
        return;
    }
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_int_eq(fchmod(ends[1], 0600), 0);
    ck_assert_int_eq(seteuid(65534), 0);
    bool first = sbx_sink_try(ends[1], "one\n", 4);
    bool second = sbx_sink_try(ends[1], "two\n", 4);
    ck_assert_int_eq(seteuid(0), 0);
    ck_assert(first && second);
    ck_assert_int_eq(read(ends[0], text, 4), 4);
    ck_assert_int_eq(read(ends[0], text + 4, 4), 4);
    ck_assert_int_eq(memcmp(text, "one\ntwo\n", 8), 0);
    fill(ends[1]);
    ck_assert_int_eq(seteuid(65534), 0);
    bool full = sbx_sink_try(ends[1], "three\n", 6);
    ck_assert_int_eq(seteuid(0), 0);
    ck_assert(!full);
    ck_assert_int_eq(close(ends[0]), 0);
    ck_assert_int_eq(close(ends[1]), 0);
}
END_TEST

/* --- the program --- */

static const char *const deaf[] = {
    "sh", "-c",
    "trap 'echo the command has it' USR1; echo ready; while :; do sleep 0.1; done", NULL};

static char *read_err(const struct sbx_trial *trial)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char *text = calloc(1, SBX_TRIAL_TEXT_SIZE);
    ck_assert_ptr_nonnull(text);
    SBX_AUTO_CLOSE int fd =
        open(sbx_trial_path(trial, path, "err"), O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_ge(read(fd, text, SBX_TRIAL_TEXT_SIZE - 1), 0);
    return text;
}

static int count_of(const char *text, const char *what)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++) {
        count++;
    }
    return count;
}

/* Until stderr has that many lines of usage. */
static void wait_lines(const struct sbx_trial *trial, int wanted)
{
    static const struct timespec pause = {0, 2000000};
    uint64_t end_us = sbx_clock_us() + 30000000;
    for (;;) {
        char *err = read_err(trial);
        int count = count_of(err, "sbx-watch: usage: ");
        free(err);
        if (count >= wanted) {
            return;
        }
        ck_assert_msg(sbx_clock_us() < end_us, "%d lines of usage after 30 s", count);
        (void)nanosleep(&pause, NULL);
    }
}

static void expect_match(const char *text, const char *pattern)
{
    regex_t regex;
    ck_assert_int_eq(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
    int r = regexec(&regex, text, 0, NULL, 0);
    regfree(&regex);
    ck_assert_msg(r == 0, "\"%s\" is not of the form %s", text, pattern);
}

static void end_run(struct sbx_trial *trial)
{
    ck_assert_int_eq(kill(trial->pid, SIGTERM), 0);
    sbx_trial_wait(trial);
    sbx_trial_expect(trial, 128 + SIGTERM, "cancelled", NULL);
    ck_assert_msg(strstr(trial->out, "the command has it") == NULL, "%s", trial->out);
}

static void ignore_usr1(const struct sbx_trial *trial)
{
    (void)trial;
    (void)signal(SIGUSR1, SIG_IGN);
}

static const char *const shell_with_child[] = {
    "sh", "-c", "sleep 50 >/dev/null 2>&1 & exec \"$@\"", "sh", NULL};

/* Plain, by nobody, with USR1 ignored by the caller, and below a front. */
static const struct {
    bool as_nobody;
    bool ignored;
    bool front;
} ways[] = {{false, false, false},
            {false, true, false},
            {false, false, true},
            {true, false, false},
            {true, false, true}};

START_TEST(test_numbers)
{
    struct sbx_trial trial = {
        .command = deaf,
        .options = "--wall 1m --memory 1G --processes 50 --interval 10 --grace 0.1 -q",
        .as_nobody = ways[_i].as_nobody,
        .prepare = ways[_i].ignored ? ignore_usr1 : NULL,
        .launcher = ways[_i].front ? shell_with_child : NULL};
    if (trial.as_nobody && geteuid() != 0) {
        return;
    }
    sbx_trial_start(&trial);
    sbx_trial_wait_output(&trial, "ready", 30);
    ck_assert_int_eq(kill(trial.pid, SIGUSR1), 0);
    wait_lines(&trial, 1);
    ck_assert_int_eq(kill(trial.pid, SIGUSR1), 0);
    wait_lines(&trial, 2);
    end_run(&trial);
    const char *number = "[0-9.]+(us|ms|s)";
    char pattern[512];
    (void)snprintf(pattern, sizeof pattern,
                   "^(sbx-watch: usage: wall %s of 1m00s, cpu (0s|%s), memory (up to )?"
                   "[0-9.]+ ([KM]i)?B of 1\\.0 GiB( \\(peak [0-9.]+ ([KM]i)?B\\))?, "
                   "processes [12] of 50, threads [12]\n){2}$",
                   number, number);
    expect_match(trial.err, pattern);
    if (ways[_i].front) {
        (void)sbx_trial_end_children(30);
    }
    sbx_trial_expect_empty(&trial);
    sbx_trial_done(&trial);
}
END_TEST

/* A hundred at once: answered at least once, and nothing else comes of it. */
START_TEST(test_burst)
{
    struct sbx_trial trial = {.command = deaf, .options = "--grace 0.1 -q"};
    sbx_trial_start(&trial);
    sbx_trial_wait_output(&trial, "ready", 30);
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(kill(trial.pid, SIGUSR1), 0);
    }
    wait_lines(&trial, 1);
    end_run(&trial);
    ck_assert_int_le(count_of(trial.err, "\n"), 100);
    ck_assert_int_eq(count_of(trial.err, "\n"),
                     count_of(trial.err, "sbx-watch: usage: wall "));
    sbx_trial_expect_empty(&trial);
    sbx_trial_done(&trial);
}
END_TEST

/* From before the program's first instruction to behind its last. */
START_TEST(test_at_any_time)
{
    /* Long enough for an answer where the processor is wanted by others, too. */
    const char *const command[] = {"sh", "-c", "setsid sleep 50 & sleep 0.3; exit 7",
                                   NULL};
    struct sbx_trial trial = {.command = command};
    siginfo_t end = {0};
    sigset_t set;
    sigset_t before;
    /* For the child between fork and exec; the program begins with it pending, then. */
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGUSR1);
    ck_assert_int_eq(sigprocmask(SIG_BLOCK, &set, &before), 0);
    sbx_trial_start(&trial);
    ck_assert_int_eq(sigprocmask(SIG_SETMASK, &before, NULL), 0);
    while (waitid(P_PID, (id_t)trial.pid, &end, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           end.si_pid == 0) {
        static const struct timespec pause = {0, 200000};
        ck_assert_int_eq(kill(trial.pid, SIGUSR1), 0); /* not reaped: still its pid */
        (void)nanosleep(&pause, NULL);
        ck_assert_uint_lt(sbx_clock_us() - trial.started_us, 60000000);
    }
    sbx_trial_wait(&trial);
    sbx_trial_expect(&trial, 7, "exited", NULL);
    ck_assert_int_ge(count_of(trial.err, "sbx-watch: usage: "), 1);
    sbx_trial_expect_empty(&trial);
    sbx_trial_done(&trial);
}
END_TEST

/* stderr takes nothing: limits hold all the same, and nobody waits for it. */
START_TEST(test_blocked_stderr)
{
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    fill(ends[1]);
    struct sbx_trial trial = {.command = deaf,
                              .options = "--wall 1.5 --grace 0.1 -q",
                              .stdio = {0, 0, ends[1]},
                              .as_nobody = _i == 1};
    sbx_trial_start(&trial);
    sbx_trial_wait_output(&trial, "ready", 30);
    static const struct timespec pause = {0, 5000000};
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(kill(trial.pid, SIGUSR1), 0);
        (void)nanosleep(&pause, NULL);
    }
    sbx_trial_wait(&trial);
    sbx_trial_expect(&trial, 124, "breach", "wall");
    ck_assert_int_lt(sbx_trial_integer(&trial, "breach.observed"), 6000000);
    ck_assert_uint_lt(trial.elapsed_us, 20000000);
    sbx_trial_expect_empty(&trial);
    ck_assert_int_eq(close(ends[0]), 0);
    ck_assert_int_eq(close(ends[1]), 0);
    sbx_trial_done(&trial);
}
END_TEST

/* Gone, not full: no SIGPIPE. */
START_TEST(test_nobody_reads_stderr)
{
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_int_eq(close(ends[0]), 0);
    struct sbx_trial trial = {
        .command = deaf, .options = "--grace 0.1 -q", .stdio = {0, 0, ends[1]}};
    sbx_trial_start(&trial);
    sbx_trial_wait_output(&trial, "ready", 30);
    static const struct timespec pause = {0, 5000000};
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(kill(trial.pid, SIGUSR1), 0);
        (void)nanosleep(&pause, NULL);
    }
    end_run(&trial);
    ck_assert_int_eq(close(ends[1]), 0);
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(test_line_tells_captured_output)
{
    struct sbx_spec spec = {.limits = {.output_bytes = 10 * MIB}};
    struct sbx_record record;
    char text[SBX_USAGE_LINE_SIZE];
    sbx_record_init(&record);
    record.current.launched_us = 99000000;
    record.usage.output_bytes = 2 * MIB;
    (void)sbx_usage_line(&spec, &record, 100000000, text);
    ck_assert_str_eq(text, "sbx-watch: usage: wall 1.00s, output 2.0 MiB of 10.0 MiB\n");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("usr1");
    TCase *line = sbx_fixture_case(suite, "line", 30);
    tcase_add_loop_test(line, test_line, 0, (int)LENGTH(lines));
    tcase_add_test(line, test_line_tells_captured_output);
    tcase_add_test(line, test_longest_line);
    TCase *sink = sbx_fixture_case(suite, "sink", 30);
    tcase_add_loop_test(sink, test_full_and_empty, 0, 2);
    tcase_add_test(sink, test_pipe_of_another_user);
    TCase *program = sbx_fixture_case(suite, "program", 120);
    tcase_add_loop_test(program, test_numbers, 0, (int)LENGTH(ways));
    tcase_add_test(program, test_burst);
    tcase_add_test(program, test_at_any_time);
    tcase_add_loop_test(program, test_blocked_stderr, 0, sbx_trial_identities());
    tcase_add_test(program, test_nobody_reads_stderr);
    return sbx_fixture_run(suite);
}
