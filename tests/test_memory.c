/*
 * test_memory.c - memory as the built sbx-watch measures and holds it: how far a tree
 * gets past its limit, that what is shared counts once, and that high-water marks see
 * what falls between two samples.
 *
 * The helpers touch known amounts of memory, so what the report has to say is known too.
 * Bounds are wide where speed comes in. As root, each row runs as root and as an ordinary
 * user.
 */
#include "tests/fixture.h"
#include "tests/trial.h"

#include <stdio.h>
#include <string.h>

#define MIB (1024 * 1024)
#define LIMIT_BYTES (200 * MIB)
#define WORDS 5

/* --- held to a limit -------------------------------------------------------------- */

/* A row of what grows without end against 200 MiB, and how far it may get: at full speed
 * a processor touches some 2 MiB in each of the milliseconds that pass between samples.
 */
static const struct row {
    const char *command[WORDS];
    double most; /* observed, in limits */
} rows[] = {
    {{"@touch", "1024"}, 2.0},
    {{"@touch", "1024", "10"}, 3.0},
};
#define ROW_COUNT (int)(sizeof(rows) / sizeof(rows[0]))

/* One flood; how far it got, in limits. */
static double reach(const struct row *row, bool as_nobody)
{
    struct sbx_trial trial = {
        .command = row->command, .as_nobody = as_nobody, .options = "--memory 200M"};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 124, "breach", "memory");
    sbx_trial_expect_empty(&trial);
    int64_t observed = sbx_trial_integer(&trial, "breach.observed");
    double reached = (double)observed / LIMIT_BYTES;
    (void)fprintf(stderr,
                  "# 1 GiB against 200 MiB by %s as %s: observed %.1f MiB (%.2f of the "
                  "limit), largest process %.1f MiB\n",
                  row->command[2] != NULL ? row->command[2] : "1",
                  as_nobody ? "nobody" : "caller", (double)observed / MIB, reached,
                  (double)sbx_trial_integer(&trial, "usage.process_memory_peak_bytes") /
                      MIB);
    ck_assert_int_eq(sbx_trial_integer(&trial, "breach.limit"), LIMIT_BYTES);
    ck_assert_str_eq(sbx_trial_string(&trial, "breach.unit"), "bytes");
    /* Exactly at it where the kernel holds it, and the last sample was before that. */
    bool held = sbx_trial_has(&trial, "armed.memory_bytes");
    ck_assert_int_ge(observed, LIMIT_BYTES + (held ? 0 : 1));
    ck_assert_int_ge(sbx_trial_integer(&trial, "usage.memory_peak_bytes"), observed);
    ck_assert_int_gt(sbx_trial_integer(&trial, "breach.culprit.pid"), 1);
    ck_assert_str_eq(sbx_trial_string(&trial, "breach.culprit.name"), "touch");
    int64_t least = row->command[2] != NULL ? MIB : LIMIT_BYTES;
    ck_assert_int_gt(sbx_trial_integer(&trial, "breach.culprit.value"), held ? 0 : least);
    ck_assert_str_eq(sbx_trial_string(&trial, "signal"), "SIGKILL");
    sbx_trial_done(&trial);
    return reached;
}

/* A machine that does not let the monitor run for a while lets the flood run on: so one
 * of three has to be well below. */
START_TEST(a_flood_is_stopped_near_its_limit)
{
    const struct row *row = &rows[_i % ROW_COUNT];
    double reached = reach(row, _i >= ROW_COUNT);
    for (int again = 0; reached >= row->most && again < 2; again++) {
        reached = reach(row, _i >= ROW_COUNT);
    }
    ck_assert_msg(reached < row->most, "it got to %.2f of its limit", reached);
}
END_TEST

START_TEST(below_its_limit_it_may_run)
{
    const char *const command[] = {"@share", "100", "5", "300", NULL};
    struct sbx_trial trial = {.command = command, .options = "--memory 200M --wall 30"};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    sbx_trial_expect_empty(&trial);
    sbx_trial_done(&trial);
}
END_TEST

/* The process reads as a zombie without memory, and is none. */
START_TEST(a_zombie_leader_is_held_and_named)
{
    const char *const command[] = {"@zombie_leader", "400", NULL};
    struct sbx_trial trial = {.command = command, .options = "--memory 100M --wall 30"};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 124, "breach", "memory");
    sbx_trial_expect_empty(&trial);
    ck_assert_str_eq(sbx_trial_string(&trial, "breach.culprit.name"), "zombie_leader");
    sbx_trial_done(&trial);
}
END_TEST

/* --- what the peaks say ------------------------------------------------------------ */

/* What a program holds long enough for many samples, and how much of it there is. */
static const struct held_row {
    const char *command[WORDS];
    int64_t least_mib;
    int64_t most_mib;
} held_rows[] = {
    {{"@share", "100", "5", "3000"}, 95, 125},
    {{"@measure_shared", "100", "cow", "3000"}, 95, 125},
    {{"@measure_shared", "100", "vfork", "3000"}, 95, 125},
    {{"@measure_shared", "60", "dirty", "4000"}, 285, 330},
    {{"@spike", "100", "3000", "1"}, 95, 110},
};
#define HELD_COUNT (int)(sizeof(held_rows) / sizeof(held_rows[0]))

START_TEST(what_is_held_is_measured_once)
{
    const struct held_row *row = &held_rows[_i % HELD_COUNT];
    struct sbx_trial trial = {.command = row->command, .as_nobody = _i >= HELD_COUNT};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    sbx_trial_expect_empty(&trial);
    int64_t peak = sbx_trial_integer(&trial, "usage.memory_peak_bytes");
    int64_t anonymous = sbx_trial_integer(&trial, "usage.memory_anon_peak_bytes");
    (void)fprintf(stderr, "# %s %s %s: peak %.1f MiB\n", row->command[0], row->command[1],
                  row->command[2], (double)peak / MIB);
    ck_assert_int_ge(peak, row->least_mib * 1000 * 1000);
    ck_assert_int_le(peak, row->most_mib * 1000 * 1000);
    ck_assert_int_ge(anonymous, row->least_mib * 1000 * 1000);
    ck_assert_int_le(anonymous, peak);
    const char *method = sbx_trial_string(&trial, "usage.memory_method");
    bool kernel = sbx_trial_has(&trial, "usage.oom_kills"); /* it has the controller */
    ck_assert_str_eq(method, kernel ? "cgroup2" : "pss");
    int64_t at_us = sbx_trial_integer(&trial, "usage.memory_peak_at_us");
    ck_assert_int_le(at_us, sbx_trial_integer(&trial, "usage.wall_us"));
    sbx_trial_done(&trial);
}
END_TEST

/* 300 MiB for 5 ms, by the leader and by a child of it, that go on living or end with it:
 * then wait alone tells. */
static const char *const spikes[][WORDS] = {
    {"@spike", "300", "5", "600"},
    {"sh", "-c", "\"$0\" 300 5 600; exit 0", "@spike"},
    {"@spike", "300", "5", "0"},
    {"sh", "-c", "\"$0\" 300 5 0; exit 0", "@spike"},
};
#define SPIKE_COUNT (int)(sizeof(spikes) / sizeof(spikes[0]))

START_TEST(a_spike_is_seen)
{
    struct sbx_trial trial = {.command = spikes[_i % SPIKE_COUNT],
                              .as_nobody = _i >= SPIKE_COUNT};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    sbx_trial_expect_empty(&trial);
    double seen =
        (double)sbx_trial_integer(&trial, "usage.process_memory_peak_bytes") / MIB;
    ck_assert_msg(seen > 300 * 0.95 && seen < 300 * 1.05, "300 MiB read as %.1f MiB",
                  seen);
    sbx_trial_done(&trial);
}
END_TEST

/* Nothing of sbx-watch itself may show in what a tiny program is said to have used. */
START_TEST(a_small_program_is_small)
{
    const char *const command[] = {"@measure_threads", "1", "300", NULL};
    struct sbx_trial trial = {.command = command};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    ck_assert_int_lt(sbx_trial_integer(&trial, "usage.process_memory_peak_bytes"),
                     2 * MIB);
    ck_assert_int_gt(sbx_trial_integer(&trial, "usage.process_memory_peak_bytes"), 0);
    ck_assert_int_lt(sbx_trial_integer(&trial, "usage.memory_peak_bytes"), 2 * MIB);
    sbx_trial_done(&trial);
}
END_TEST

/* Members that come and go while they are read one after the other, and a parent that
 * holds the lock of its memory: neither makes a sum that is not there. */
START_TEST(sharing_among_many_forks_is_no_breach)
{
    static const char *const command[] = {"@measure_forker", "150", "8", "6", NULL};
    struct sbx_trial trial = {
        .command = command, .as_nobody = _i == 1, .options = "--memory 225M --wall 50"};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    sbx_trial_expect_empty(&trial);
    ck_assert_int_ge(sbx_trial_integer(&trial, "usage.memory_peak_bytes"), 145LL << 20);
    ck_assert_int_lt(sbx_trial_integer(&trial, "usage.memory_peak_bytes"), 225LL << 20);
    sbx_trial_done(&trial);
}
END_TEST

int main(void)
{
    int identities = sbx_trial_identities();
    Suite *suite = suite_create("memory");
    TCase *limits = sbx_fixture_case(suite, "limits", 90);
    tcase_add_loop_test(limits, a_flood_is_stopped_near_its_limit, 0,
                        identities * ROW_COUNT);
    tcase_add_test(limits, below_its_limit_it_may_run);
    tcase_add_test(limits, a_zombie_leader_is_held_and_named);
    TCase *peaks = sbx_fixture_case(suite, "peaks", 90);
    tcase_add_loop_test(peaks, what_is_held_is_measured_once, 0, identities * HELD_COUNT);
    tcase_add_loop_test(peaks, a_spike_is_seen, 0, identities * SPIKE_COUNT);
    tcase_add_loop_test(peaks, sharing_among_many_forks_is_no_breach, 0,
                        sbx_trial_identities());
    tcase_add_test(peaks, a_small_program_is_small);
    return sbx_fixture_run(suite);
}
