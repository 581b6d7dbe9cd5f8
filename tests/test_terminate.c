/*
 * test_terminate.c - the steps by which a run ends: every phase times every event.
 *
 * The machine is pure, so a row says all: the plan, where the machine is and by when it
 * waits, what happens and at what time, and then where it is, what it asks for and until
 * when. A second table looks at whole courses of events.
 */
#include "tests/fixture.h"

#include "base/clock.h"
#include "reaper/terminate.h"

#include <stdint.h>

#define FOREVER SBX_FOREVER_US
#define GRACE 500U
#define LINGER 70U
#define NOW 10000U
#define LATER (NOW + 1U) /* a deadline that has not come */

#define PLAN_KILL                                                                        \
    {                                                                                    \
        GRACE, 0, SBX_AFTER_KILL                                                         \
    }
#define PLAN_LINGER                                                                      \
    {                                                                                    \
        GRACE, LINGER, SBX_AFTER_KILL                                                    \
    }
#define PLAN_WAIT                                                                        \
    {                                                                                    \
        GRACE, LINGER, SBX_AFTER_WAIT                                                    \
    }
#define PLAN_KEEP                                                                        \
    {                                                                                    \
        GRACE, LINGER, SBX_AFTER_KEEP                                                    \
    }
#define PLAN_NO_GRACE                                                                    \
    {                                                                                    \
        0, LINGER, SBX_AFTER_KILL                                                        \
    }

struct row {
    struct sbx_termination_plan plan;
    enum sbx_phase phase;
    uint64_t deadline_us;
    enum sbx_event event;
    enum sbx_phase to;
    enum sbx_step step;
    uint64_t new_deadline_us;
};

#define RUN SBX_PHASE_RUNNING
#define LING SBX_PHASE_LINGERING
#define WAITING SBX_PHASE_WAITING
#define POLITE SBX_PHASE_POLITE
#define SWEEPING SBX_PHASE_SWEEPING
#define DONE SBX_PHASE_DONE
#define LEADER SBX_EVENT_LEADER_ENDED
#define STOP SBX_EVENT_STOP_POLITE
#define STOP_NOW SBX_EVENT_STOP_NOW
#define EMPTY SBX_EVENT_EMPTY
#define TIME SBX_EVENT_TIME
#define NONE SBX_STEP_NONE
#define SIGNAL SBX_STEP_SIGNAL
#define SWEEP SBX_STEP_SWEEP
#define FINISH SBX_STEP_FINISH

static const struct row rows[] = {
    /* running: the leader's end does what the plan says */
    {PLAN_KILL, RUN, FOREVER, LEADER, SWEEPING, SWEEP, FOREVER},
    {PLAN_LINGER, RUN, FOREVER, LEADER, LING, NONE, NOW + LINGER},
    {PLAN_WAIT, RUN, FOREVER, LEADER, WAITING, NONE, FOREVER},
    {PLAN_KEEP, RUN, FOREVER, LEADER, DONE, FINISH, FOREVER},
    {PLAN_NO_GRACE, RUN, FOREVER, LEADER, LING, NONE, NOW + LINGER},
    {PLAN_KILL, RUN, FOREVER, STOP, POLITE, SIGNAL, NOW + GRACE},
    {PLAN_WAIT, RUN, FOREVER, STOP, POLITE, SIGNAL, NOW + GRACE},
    {PLAN_KEEP, RUN, FOREVER, STOP, POLITE, SIGNAL, NOW + GRACE},
    {PLAN_NO_GRACE, RUN, FOREVER, STOP, SWEEPING, SWEEP, FOREVER},
    {PLAN_KILL, RUN, FOREVER, STOP_NOW, SWEEPING, SWEEP, FOREVER},
    {PLAN_KEEP, RUN, FOREVER, STOP_NOW, SWEEPING, SWEEP, FOREVER},
    {PLAN_KILL, RUN, FOREVER, EMPTY, DONE, FINISH, FOREVER},
    {PLAN_WAIT, RUN, FOREVER, EMPTY, DONE, FINISH, FOREVER},
    {PLAN_KILL, RUN, FOREVER, TIME, RUN, NONE, FOREVER},
    /* lingering: until the deadline */
    {PLAN_LINGER, LING, LATER, LEADER, LING, NONE, LATER},
    {PLAN_LINGER, LING, LATER, STOP, POLITE, SIGNAL, NOW + GRACE},
    {PLAN_NO_GRACE, LING, LATER, STOP, SWEEPING, SWEEP, FOREVER},
    {PLAN_LINGER, LING, LATER, STOP_NOW, SWEEPING, SWEEP, FOREVER},
    {PLAN_LINGER, LING, LATER, EMPTY, DONE, FINISH, FOREVER},
    {PLAN_LINGER, LING, LATER, TIME, LING, NONE, LATER},
    {PLAN_LINGER, LING, NOW, TIME, SWEEPING, SWEEP, FOREVER},
    {PLAN_LINGER, LING, NOW - 1U, TIME, SWEEPING, SWEEP, FOREVER},
    /* waiting: time alone ends nothing */
    {PLAN_WAIT, WAITING, FOREVER, LEADER, WAITING, NONE, FOREVER},
    {PLAN_WAIT, WAITING, FOREVER, STOP, POLITE, SIGNAL, NOW + GRACE},
    {PLAN_WAIT, WAITING, FOREVER, STOP_NOW, SWEEPING, SWEEP, FOREVER},
    {PLAN_WAIT, WAITING, FOREVER, EMPTY, DONE, FINISH, FOREVER},
    {PLAN_WAIT, WAITING, FOREVER, TIME, WAITING, NONE, FOREVER},
    /* polite: the grace runs; no second signal, and no new grace */
    {PLAN_KILL, POLITE, LATER, LEADER, POLITE, NONE, LATER},
    {PLAN_KILL, POLITE, NOW, LEADER, SWEEPING, SWEEP, FOREVER},
    {PLAN_WAIT, POLITE, LATER, LEADER, POLITE, NONE, LATER},
    {PLAN_KEEP, POLITE, LATER, LEADER, POLITE, NONE, LATER},
    {PLAN_KILL, POLITE, LATER, STOP, POLITE, NONE, LATER},
    {PLAN_KILL, POLITE, LATER, STOP_NOW, SWEEPING, SWEEP, FOREVER},
    {PLAN_KILL, POLITE, LATER, EMPTY, DONE, FINISH, FOREVER},
    {PLAN_KILL, POLITE, NOW, EMPTY, DONE, FINISH, FOREVER},
    {PLAN_KILL, POLITE, LATER, TIME, POLITE, NONE, LATER},
    {PLAN_KILL, POLITE, NOW, TIME, SWEEPING, SWEEP, FOREVER},
    {PLAN_KEEP, POLITE, NOW, TIME, SWEEPING, SWEEP, FOREVER},
    /* sweeping: only the proof ends it */
    {PLAN_KILL, SWEEPING, FOREVER, LEADER, SWEEPING, NONE, FOREVER},
    {PLAN_KEEP, SWEEPING, FOREVER, LEADER, SWEEPING, NONE, FOREVER},
    {PLAN_KILL, SWEEPING, FOREVER, STOP, SWEEPING, NONE, FOREVER},
    {PLAN_KILL, SWEEPING, FOREVER, STOP_NOW, SWEEPING, NONE, FOREVER},
    {PLAN_KILL, SWEEPING, FOREVER, EMPTY, DONE, FINISH, FOREVER},
    {PLAN_KILL, SWEEPING, FOREVER, TIME, SWEEPING, NONE, FOREVER},
    /* done is done */
    {PLAN_KILL, DONE, FOREVER, LEADER, DONE, NONE, FOREVER},
    {PLAN_KILL, DONE, FOREVER, STOP, DONE, NONE, FOREVER},
    {PLAN_KILL, DONE, FOREVER, STOP_NOW, DONE, NONE, FOREVER},
    {PLAN_KILL, DONE, FOREVER, EMPTY, DONE, NONE, FOREVER},
    {PLAN_KILL, DONE, FOREVER, TIME, DONE, NONE, FOREVER},
};
#define ROW_COUNT (sizeof rows / sizeof rows[0])

START_TEST(goes_where_the_table_says)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const struct row *row = &rows[i];
        struct sbx_terminate terminate;
        sbx_terminate_init(&terminate, &row->plan);
        terminate.phase = row->phase;
        terminate.deadline_us = row->deadline_us;
        enum sbx_step step = sbx_terminate_next(&terminate, row->event, NOW);
        ck_assert_msg(step == row->step && terminate.phase == row->to &&
                          terminate.deadline_us == row->new_deadline_us,
                      "row %zu: step %d, phase %d, deadline %llu; wanted %d, %d, %llu", i,
                      (int)step, (int)terminate.phase,
                      (unsigned long long)terminate.deadline_us, (int)row->step,
                      (int)row->to, (unsigned long long)row->new_deadline_us);
    }
}
END_TEST

START_TEST(the_table_has_every_pair)
{
    for (int phase = RUN; phase <= (int)DONE; phase++) {
        for (int event = LEADER; event <= (int)TIME; event++) {
            size_t found = 0;
            for (size_t i = 0; i < ROW_COUNT; i++) {
                found += (int)rows[i].phase == phase && (int)rows[i].event == event;
            }
            ck_assert_msg(found > 0, "no row for phase %d, event %d", phase, event);
        }
    }
}
END_TEST

START_TEST(starts_running)
{
    const struct sbx_termination_plan plan = PLAN_LINGER;
    struct sbx_terminate terminate;
    sbx_terminate_init(&terminate, &plan);
    ck_assert_int_eq((int)terminate.phase, (int)RUN);
    ck_assert_uint_eq(terminate.deadline_us, FOREVER);
    ck_assert_uint_eq(terminate.plan.linger_us, LINGER);
}
END_TEST

START_TEST(judges_until_the_first_signal)
{
    const struct sbx_termination_plan plan = PLAN_KILL;
    const bool wanted[] = {
        [RUN] = true,     [LING] = true,      [WAITING] = true,
        [POLITE] = false, [SWEEPING] = false, [DONE] = false,
    };
    struct sbx_terminate terminate;
    sbx_terminate_init(&terminate, &plan);
    for (int phase = RUN; phase <= (int)DONE; phase++) {
        terminate.phase = (enum sbx_phase)phase;
        ck_assert_msg(sbx_terminate_judges(&terminate) == wanted[phase], "phase %d",
                      phase);
    }
}
END_TEST

/* Times that do not fit stand for ever: a grace or linger of "no end" does not wrap into
 * one of nothing. */
START_TEST(times_saturate)
{
    const struct sbx_termination_plan endless = {FOREVER - 3U, FOREVER, SBX_AFTER_KILL};
    struct sbx_terminate terminate;
    sbx_terminate_init(&terminate, &endless);
    ck_assert_int_eq((int)sbx_terminate_next(&terminate, LEADER, NOW), (int)NONE);
    ck_assert_int_eq((int)terminate.phase, (int)LING);
    ck_assert_uint_eq(terminate.deadline_us, FOREVER);
    ck_assert_int_eq((int)sbx_terminate_next(&terminate, TIME, FOREVER - 1U), (int)NONE);
    ck_assert_int_eq((int)sbx_terminate_next(&terminate, STOP, NOW), (int)SIGNAL);
    ck_assert_uint_eq(terminate.deadline_us, FOREVER);
    ck_assert_int_eq((int)sbx_terminate_next(&terminate, TIME, FOREVER - 1U), (int)NONE);
    ck_assert_int_eq((int)terminate.phase, (int)POLITE);
}
END_TEST

/* Whatever comes in whatever order, each step is given once, and none after the end. */
START_TEST(no_step_comes_twice)
{
    const struct sbx_termination_plan plans[] = {PLAN_KILL, PLAN_LINGER, PLAN_WAIT,
                                                 PLAN_KEEP, PLAN_NO_GRACE};
    const uint32_t courses = 5U * 5U * 5U * 5U * 5U * 5U;
    for (uint32_t i = 0; i < courses * (sizeof plans / sizeof plans[0]); i++) {
        struct sbx_terminate terminate;
        sbx_terminate_init(&terminate, &plans[i / courses]);
        int times[FINISH + 1] = {0};
        uint32_t rest = i % courses;
        uint64_t now = NOW;
        bool swept = false;
        for (int event = 0; event < 6; event++, rest /= 5U, now += GRACE / 2U) {
            enum sbx_step step =
                sbx_terminate_next(&terminate, (enum sbx_event)(rest % 5U), now);
            times[step]++;
            ck_assert_msg(step != SIGNAL || !swept, "course %u: signal after sweep", i);
            swept = swept || step == SWEEP;
        }
        ck_assert_msg(times[SIGNAL] <= 1 && times[SWEEP] <= 1 && times[FINISH] <= 1,
                      "course %u: %d signals, %d sweeps, %d ends", i, times[SIGNAL],
                      times[SWEEP], times[FINISH]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("terminate");
    TCase *tcase = sbx_fixture_case(suite, "terminate", 30);
    tcase_add_test(tcase, goes_where_the_table_says);
    tcase_add_test(tcase, the_table_has_every_pair);
    tcase_add_test(tcase, starts_running);
    tcase_add_test(tcase, judges_until_the_first_signal);
    tcase_add_test(tcase, times_saturate);
    tcase_add_test(tcase, no_step_comes_twice);
    return sbx_fixture_run(suite);
}
