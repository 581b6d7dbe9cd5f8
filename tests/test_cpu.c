/*
 * test_cpu.c - the CPU time of the whole tree, and how many processes and threads there
 * were, against what the command itself has counted.
 *
 * measure_children adds up the clocks of all its processes, read last thing before each
 * ends; what a process uses while it dies is missing there, so the truth is a little
 * more. Where the kernel keeps nothing (SIGCHLD ignored), the report has to say that the
 * number is not complete.
 */
#include "tests/fixture.h"
#include "tests/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define WORDS 5
#define TOLERANCE 0.15
#define US_PER_S 1000000

static int64_t measured_us(const struct sbx_trial *trial)
{
    const char *found = strstr(trial->out, "measured ");
    ck_assert_msg(found != NULL, "the helper has not measured: %s%s", trial->out,
                  trial->err);
    return strtoll(found + strlen("measured "), NULL, 10);
}

static void expect_near(const char *what, int64_t value, int64_t truth, double tolerance)
{
    double ratio = (double)value / (double)truth;
    (void)fprintf(stderr, "# %s: %.3f of the truth (%.3f s)\n", what, ratio,
                  (double)truth / US_PER_S);
    ck_assert_msg(ratio > 1 - tolerance && ratio < 1 + tolerance,
                  "%s: %lld us instead of %lld", what, (long long)value,
                  (long long)truth);
}

static void expect_parts(const struct sbx_trial *trial)
{
    int64_t parts = sbx_trial_integer(trial, "usage.cpu_user_us") +
                    sbx_trial_integer(trial, "usage.cpu_system_us");
    ck_assert_int_le(parts, sbx_trial_integer(trial, "usage.cpu_us"));
}

static const char *const families[][WORDS] = {
    {"@measure_children", "2000", "1000"},
    {"@measure_children", "300", "3000", "orphans"},
    {"@measure_children", "20", "50000", "threads"},
    {"@measure_children", "3", "400000"},
    {"sh", "-c", "\"$0\" 50 20000; exit 0", "@measure_children"},
};
#define FAMILY_COUNT (int)(sizeof(families) / sizeof(families[0]))

START_TEST(every_process_is_counted)
{
    const char *const *command = families[_i % FAMILY_COUNT];
    struct sbx_trial trial = {.command = command, .as_nobody = _i >= FAMILY_COUNT};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    sbx_trial_expect_empty(&trial);
    char what[128];
    (void)snprintf(what, sizeof(what), "%s %s %s", command[1], command[2],
                   command[3] != NULL ? command[3] : "");
    expect_near(what, sbx_trial_integer(&trial, "usage.cpu_us"), measured_us(&trial),
                TOLERANCE);
    expect_parts(&trial);
    ck_assert(sbx_trial_boolean(&trial, "usage.cpu_complete"));
    bool group = strcmp(sbx_trial_string(&trial, "containment.tracking"), "cgroup2") == 0;
    ck_assert_str_eq(sbx_trial_string(&trial, "usage.cpu_method"),
                     group ? "cgroup2" : "rusage");
    sbx_trial_done(&trial);
}
END_TEST

/* What wait says of the whole of sbx-watch is guard, monitor and command together: the
 * kernel's own count of the command is what is left without the first two. */
START_TEST(it_agrees_with_the_kernel)
{
    const char *const command[] = {"@measure_children", "200", "5000", NULL};
    struct rusage before;
    struct rusage after;
    struct sbx_trial trial = {.command = command};
    ck_assert_int_eq(getrusage(RUSAGE_CHILDREN, &before), 0);
    sbx_trial_run(&trial);
    ck_assert_int_eq(getrusage(RUSAGE_CHILDREN, &after), 0);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    int64_t all = (after.ru_utime.tv_sec - before.ru_utime.tv_sec +
                   after.ru_stime.tv_sec - before.ru_stime.tv_sec) *
                      US_PER_S +
                  after.ru_utime.tv_usec - before.ru_utime.tv_usec +
                  after.ru_stime.tv_usec - before.ru_stime.tv_usec;
    int64_t watching = sbx_trial_integer(&trial, "sampling.monitor_cpu_us");
    expect_near("the kernel's count", sbx_trial_integer(&trial, "usage.cpu_us"),
                all - watching, 0.1);
    sbx_trial_done(&trial);
}
END_TEST

/* Nobody waits for the children: right, or said to be incomplete. What samples have seen
 * counts. */
static const struct unseen_row {
    const char *command[WORDS];
    double least; /* of the truth: long-lived ones are sampled */
} unseen_rows[] = {
    {{"@measure_children", "300", "3000", "ignored"}, 0},
    {{"@measure_children", "3", "600000", "ignored"}, 0.25},
};
#define UNSEEN_COUNT (int)(sizeof(unseen_rows) / sizeof(unseen_rows[0]))

START_TEST(what_is_not_seen_is_said)
{
    const struct unseen_row *row = &unseen_rows[_i];
    struct sbx_trial trial = {.command = row->command};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    double ratio =
        (double)sbx_trial_integer(&trial, "usage.cpu_us") / (double)measured_us(&trial);
    bool complete = sbx_trial_boolean(&trial, "usage.cpu_complete");
    (void)fprintf(stderr, "# ignored %s: %.3f of the truth, %s\n", row->command[1], ratio,
                  complete ? "complete" : "not complete");
    ck_assert_msg(!complete || ratio > 1 - TOLERANCE,
                  "%.3f of the truth passes for complete", ratio);
    ck_assert_msg(ratio > row->least && ratio < 1 + TOLERANCE, "%.3f of the truth",
                  ratio);
    expect_parts(&trial);
    sbx_trial_done(&trial);
}
END_TEST

/* --- counts ------------------------------------------------------------------------ */

static const struct count_row {
    const char *command[WORDS];
    int64_t processes;
    int64_t threads;
} count_rows[] = {
    {{"@measure_threads", "20", "1200"}, 1, 21},
    {{"sh", "-c", "\"$0\" 20 1200 & \"$0\" 10 1200 & wait", "@measure_threads"}, 3, 33},
    {{"sh", "-c", "for i in 1 2 3 4 5 6 7; do sleep 1.2 & done; wait"}, 8, 8},
    {{"@share", "1", "12", "1000"}, 13, 13},
};
#define COUNT_COUNT (int)(sizeof(count_rows) / sizeof(count_rows[0]))

START_TEST(peaks_of_known_trees)
{
    const struct count_row *row = &count_rows[_i];
    struct sbx_trial trial = {.command = row->command};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    ck_assert_int_eq(sbx_trial_integer(&trial, "usage.processes_peak"), row->processes);
    ck_assert_int_eq(sbx_trial_integer(&trial, "usage.threads_peak"), row->threads);
    ck_assert_int_eq(sbx_trial_integer(&trial, "usage.processes_total"), row->processes);
    sbx_trial_done(&trial);
}
END_TEST

/* 300 orphans and as many who made them, and the leader: those who came to us were
 * counted, whether a sample met them or not. */
START_TEST(the_total_is_a_lower_bound)
{
    const char *const command[] = {"@measure_children", "300", "3000", "orphans", NULL};
    struct sbx_trial trial = {.command = command};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    int64_t total = sbx_trial_integer(&trial, "usage.processes_total");
    ck_assert_int_ge(total, 301);
    ck_assert_int_le(total, 601);
    ck_assert_int_ge(total, sbx_trial_integer(&trial, "usage.processes_peak"));
    sbx_trial_done(&trial);
}
END_TEST

/* Whoever waited for its children has their CPU, also if it ignores SIGCHLD afterwards.
 */
START_TEST(what_was_waited_for_counts_once)
{
    static const char *const command[] = {"@measure_turns", "5", NULL};
    struct sbx_trial trial = {.command = command, .options = "--wall 50"};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    sbx_trial_expect_empty(&trial);
    long long truth = atoll(trial.out);
    long long found = sbx_trial_integer(&trial, "usage.cpu_us");
    ck_assert_msg(truth >= 900000 && found >= truth * 9 / 10 &&
                      found <= truth * 115 / 100,
                  "%lld us, the kernel says %lld", found, truth);
    sbx_trial_done(&trial);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cpu");
    TCase *cpu = sbx_fixture_case(suite, "cpu", 90);
    tcase_add_loop_test(cpu, every_process_is_counted, 0,
                        sbx_trial_identities() * FAMILY_COUNT);
    tcase_add_test(cpu, it_agrees_with_the_kernel);
    tcase_add_loop_test(cpu, what_is_not_seen_is_said, 0, UNSEEN_COUNT);
    TCase *counts = sbx_fixture_case(suite, "counts", 60);
    tcase_add_loop_test(counts, peaks_of_known_trees, 0, COUNT_COUNT);
    tcase_add_test(counts, the_total_is_a_lower_bound);
    tcase_add_test(counts, what_was_waited_for_counts_once);
    return sbx_fixture_run(suite);
}
