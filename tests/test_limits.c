/*
 * test_limits.c - limits and ceilings of the built sbx-watch in action: what crosses them
 * is ended for that reason and no other, what stays below is left alone.
 *
 * The first limit that is crossed wins, whatever else is crossed while the tree ends; and
 * from the first signal of a clean-up on nothing is judged.
 */
#include "tests/fixture.h"
#include "tests/trial.h"

#include <stdio.h>
#include <string.h>

#define WORDS 5
#define US_PER_S 1000000
#define FAN                                                                              \
    "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1 & sleep 1 & sleep 1 & sleep 1 & sleep 1 " \
    "& done; wait"

/* --- what crosses a limit ------------------------------------------------------------
 */

static const struct row {
    const char *options;
    const char *command[WORDS];
    const char *reason;
    const char *culprit; /* NULL: whoever */
    int64_t limit;
    int64_t most; /* that it may get to; the machine is noisy */
    const char *unit;
} rows[] = {
    /* Two at once, as descendants too, and in children that live a few milliseconds. */
    {"--cpu 1s", {"@spin", "20000", "2"}, "cpu", "spin", US_PER_S, 2 * US_PER_S, "us"},
    {"--cpu 1s",
     {"sh", "-c", "\"$0\" 20000 2; exit 0", "@spin"},
     "cpu",
     "spin",
     US_PER_S,
     2 * US_PER_S,
     "us"},
    {"--cpu 500ms",
     {"@measure_children", "5000", "2000"},
     "cpu",
     NULL,
     US_PER_S / 2,
     2 * US_PER_S,
     "us"},
    {"--cpu 500ms",
     {"@measure_children", "5000", "2000", "orphans"},
     "cpu",
     NULL,
     US_PER_S / 2,
     2 * US_PER_S,
     "us"},
    {"--cpu 1s",
     {"@measure_children", "8", "9000000", "ignored"},
     "cpu",
     "measure_childre",
     US_PER_S,
     3 * US_PER_S,
     "us"},
    {"--processes 20", {"@crowd", "51", "50"}, "processes", "crowd", 20, 51, "count"},
    {"--processes 20", {"sh", "-c", FAN}, "processes", "sh", 20, 51, "count"},
    {"--threads 20",
     {"@measure_threads", "50", "20000"},
     "threads",
     "measure_threads",
     20,
     51,
     "count"},
    {"--threads 20", {"@crowd", "51", "50"}, "threads", "crowd", 20, 51, "count"},
};
#define ROW_COUNT (int)(sizeof(rows) / sizeof(rows[0]))

START_TEST(what_crosses_a_limit_is_ended)
{
    const struct row *row = &rows[_i % ROW_COUNT];
    struct sbx_trial trial = {
        .command = row->command, .options = row->options, .as_nobody = _i >= ROW_COUNT};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 124, "breach", row->reason);
    sbx_trial_expect_empty(&trial);
    int64_t observed = sbx_trial_integer(&trial, "breach.observed");
    ck_assert_int_eq(sbx_trial_integer(&trial, "breach.limit"), row->limit);
    ck_assert_str_eq(sbx_trial_string(&trial, "breach.unit"), row->unit);
    ck_assert_int_le(observed, row->most);
    ck_assert_int_gt(sbx_trial_integer(&trial, "breach.culprit.pid"), 1);
    if (row->culprit != NULL) {
        ck_assert_str_eq(sbx_trial_string(&trial, "breach.culprit.name"), row->culprit);
    }
    /* Used up, or exceeded; and what was observed does not get less afterwards. */
    if (strcmp(row->reason, "cpu") == 0) {
        ck_assert_int_ge(observed, row->limit);
        ck_assert_int_ge(sbx_trial_integer(&trial, "usage.cpu_us"), observed);
    } else {
        char peak[64];
        (void)snprintf(peak, sizeof(peak), "usage.%s_peak", row->reason);
        ck_assert_int_gt(observed, row->limit);
        ck_assert_int_ge(sbx_trial_integer(&trial, peak), observed);
    }
    sbx_trial_done(&trial);
}
END_TEST

/* --- what stays below -----------------------------------------------------------------
 */

static const struct below_row {
    const char *options;
    const char *command[WORDS];
} below_rows[] = {
    {"--processes 51 --threads 51 --wall 60 --cpu 50", {"sh", "-c", FAN}},
    {"--threads 21 --processes 1", {"@measure_threads", "20", "500"}},
    {"--cpu 5s --memory 100M", {"@spin", "500", "2"}},
};
#define BELOW_COUNT (int)(sizeof(below_rows) / sizeof(below_rows[0]))

START_TEST(exactly_the_limit_is_allowed)
{
    const struct below_row *row = &below_rows[_i];
    struct sbx_trial trial = {.command = row->command, .options = row->options};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    sbx_trial_expect_empty(&trial);
    ck_assert_str_eq(trial.err, "");
    sbx_trial_done(&trial);
}
END_TEST

/* --- warnings --------------------------------------------------------------------------
 */

static const struct warn_row {
    const char *options;
    const char *command[WORDS];
    int64_t count;
    const char *first; /* how it begins */
} warn_rows[] = {
    {"--wall 10 --warn 1", {"sleep", "1.5"}, 1, "wall "},
    {"--wall 10 --warn 90", {"sleep", "0.3"}, 0, NULL},
    {"--memory 200M --warn 50", {"@spike", "150", "1000", "10"}, 1, "memory "},
    {"--cpu 2s --warn 20", {"@spin", "1000"}, 1, "cpu "},
    {"--processes 10 --warn 50",
     {"sh", "-c", "for i in 1 2 3 4 5 6; do sleep 1 & done; wait"},
     1,
     "processes "},
    {"--threads 25 --warn 80", {"@measure_threads", "20", "1000"}, 1, "threads "},
};
#define WARN_COUNT (int)(sizeof(warn_rows) / sizeof(warn_rows[0]))

START_TEST(a_limit_that_is_near_is_told_once)
{
    const struct warn_row *row = &warn_rows[_i];
    struct sbx_trial trial = {.command = row->command, .options = row->options};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    ck_assert_int_eq(sbx_trial_integer(&trial, "warnings_count"), row->count);
    if (row->first != NULL) {
        const char *warning = sbx_trial_string(&trial, "warnings.0");
        ck_assert_msg(strncmp(warning, row->first, strlen(row->first)) == 0,
                      "it warns of something else: %s", warning);
    }
    sbx_trial_done(&trial);
}
END_TEST

/* --- ceilings
 * --------------------------------------------------------------------------- */

START_TEST(a_cpu_ceiling_is_named)
{
    const char *const command[] = {"@spin", "20000", NULL};
    struct sbx_trial trial = {
        .command = command, .options = "--rlimit cpu=1", .as_nobody = _i == 1};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 124, "breach", "ceiling");
    sbx_trial_expect_empty(&trial);
    ck_assert_str_eq(sbx_trial_string(&trial, "breach.name"), "cpu");
    ck_assert_str_eq(sbx_trial_string(&trial, "breach.unit"), "us");
    ck_assert_str_eq(sbx_trial_string(&trial, "signal"), "SIGXCPU");
    ck_assert_int_eq(sbx_trial_integer(&trial, "breach.limit"), US_PER_S);
    int64_t used = sbx_trial_integer(&trial, "usage.cpu_us");
    /* The kernel counts the ceiling in ticks, which on a busy machine are not exact. */
    ck_assert_int_ge(used, US_PER_S * 6 / 10);
    ck_assert_int_lt(used, 2 * US_PER_S);
    sbx_trial_done(&trial);
}
END_TEST

/* Soft = hard gives a bare SIGKILL, which only its time tells from somebody's. */
START_TEST(a_hard_cpu_ceiling_is_named)
{
    const char *const command[] = {"@spin", "20000", NULL};
    struct sbx_trial trial = {.command = command, .options = "--rlimit cpu=1:1"};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 124, "breach", "ceiling");
    ck_assert_str_eq(sbx_trial_string(&trial, "breach.name"), "cpu");
    ck_assert_str_eq(sbx_trial_string(&trial, "signal"), "SIGKILL");
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(somebody_elses_kill_is_no_ceiling)
{
    const char *const command[] = {"sh", "-c", "kill -KILL $$", NULL};
    struct sbx_trial trial = {.command = command, .options = "--rlimit cpu=5:5"};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 137, "signaled", NULL);
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(a_file_size_ceiling_is_named)
{
    const char *const command[] = {"sh", "-c", "exec head -c 4194304 /dev/zero >\"$0\"",
                                   "@/big", NULL};
    struct sbx_trial trial = {
        .command = command, .options = "--rlimit fsize=1M", .as_nobody = _i == 1};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 124, "breach", "ceiling");
    ck_assert_str_eq(sbx_trial_string(&trial, "breach.name"), "fsize");
    ck_assert_str_eq(sbx_trial_string(&trial, "breach.unit"), "bytes");
    ck_assert_int_eq(sbx_trial_integer(&trial, "breach.limit"), 1024 * 1024);
    ck_assert_str_eq(sbx_trial_string(&trial, "signal"), "SIGXFSZ");
    sbx_trial_done(&trial);
}
END_TEST

/* --- the first reason, and none after it
 * -------------------------------------------------- */

/* What it does on the polite signal crosses a second limit. */
START_TEST(the_first_breach_wins)
{
    const char *const command[] = {
        "sh",    "-c",     "trap 'exec \"$1\" 200 200 1' TERM; \"$0\" 20000 2 & wait",
        "@spin", "@spike", NULL};
    struct sbx_trial trial = {.command = command,
                              .options = "--cpu 300ms --memory 50M --grace 20"};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 124, "breach", "cpu");
    sbx_trial_expect_empty(&trial);
    ck_assert_msg(sbx_trial_integer(&trial, "usage.process_memory_peak_bytes") >
                      100 * 1024 * 1024,
                  "the second limit was not crossed: %s", trial.out);
    sbx_trial_done(&trial);
}
END_TEST

/* The leader exits before the deadline; its strays take no notice of the polite signal.
 */
START_TEST(clean_up_makes_no_breach)
{
    const char *const command[] = {
        "sh", "-c", "trap '' TERM; for i in 1 2 3; do sleep 30 & done; sleep 0.8; exit 7",
        NULL};
    struct sbx_trial trial = {.command = command,
                              .options = "--wall 1 --grace 2 --processes 5"};
    sbx_trial_run(&trial);
    int64_t wall_us = sbx_trial_integer(&trial, "usage.wall_us");
    if (wall_us >= US_PER_S) {
        sbx_trial_done(&trial); /* the machine was too slow: that was a breach */
        return;
    }
    sbx_trial_expect(&trial, 7, "exited", NULL);
    sbx_trial_expect_empty(&trial);
    ck_assert_int_eq(sbx_trial_integer(&trial, "termination.strays_count"), 3);
    ck_assert_str_eq(sbx_trial_string(&trial, "termination.strays.0.name"), "sleep");
    ck_assert(sbx_trial_boolean(&trial, "termination.escalated"));
    sbx_trial_done(&trial);
}
END_TEST

/* With --strays wait limits stay on after the leader's end, and that is a breach. */
START_TEST(a_stray_that_is_waited_for_is_held)
{
    const char *const command[] = {"sh", "-c", "sleep 30 & exit 7", NULL};
    struct sbx_trial trial = {.command = command, .options = "--wall 1 --strays wait"};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 124, "breach", "wall");
    sbx_trial_expect_empty(&trial);
    ck_assert_int_eq(sbx_trial_integer(&trial, "exit_code"), 7);
    ck_assert_int_lt(sbx_trial_integer(&trial, "usage.wall_us"), US_PER_S);
    sbx_trial_done(&trial);
}
END_TEST

int main(void)
{
    int identities = sbx_trial_identities();
    Suite *suite = suite_create("limits");
    TCase *limits = sbx_fixture_case(suite, "limits", 90);
    tcase_add_loop_test(limits, what_crosses_a_limit_is_ended, 0, identities * ROW_COUNT);
    tcase_add_loop_test(limits, exactly_the_limit_is_allowed, 0, BELOW_COUNT);
    tcase_add_loop_test(limits, a_limit_that_is_near_is_told_once, 0, WARN_COUNT);
    TCase *ceilings = sbx_fixture_case(suite, "ceilings", 90);
    tcase_add_loop_test(ceilings, a_cpu_ceiling_is_named, 0, identities);
    tcase_add_test(ceilings, a_hard_cpu_ceiling_is_named);
    tcase_add_test(ceilings, somebody_elses_kill_is_no_ceiling);
    tcase_add_loop_test(ceilings, a_file_size_ceiling_is_named, 0, identities);
    TCase *order = sbx_fixture_case(suite, "order", 90);
    tcase_add_test(order, the_first_breach_wins);
    tcase_add_test(order, clean_up_makes_no_breach);
    tcase_add_test(order, a_stray_that_is_waited_for_is_held);
    return sbx_fixture_run(suite);
}
