/*
 * test_loop.c - the event loop: readable descriptors, timers, and sources that go away
 * inside their own callback.
 */
#include "tests/fixture.h"

#include "base/clock.h"
#include "monitor/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

/* One loop with a pipe and what its sources have seen. */
struct stage {
    struct sbx_loop *loop;
    struct sbx_source *source;
    struct sbx_source *other;
    struct sbx_source *bound; /* stops a loop that would never */
    int pipe_fds[2];
    int calls;
    int stop_after;
    uint64_t fired_at_us;
    bool bounded;
};

static void too_long(void *context)
{
    struct stage *stage = context;
    stage->bounded = true;
    sbx_loop_stop(stage->loop);
}

static void open_stage(struct stage *stage)
{
    struct sbx_error error = {0};
    *stage = (struct stage){.stop_after = 1};
    ck_assert_msg(sbx_loop_new(&stage->loop, &error) == 0, "%s", error.message);
    ck_assert_int_eq(pipe2(stage->pipe_fds, O_CLOEXEC | O_NONBLOCK), 0);
    ck_assert_int_eq(sbx_loop_add_timer(stage->loop, too_long, stage, &stage->bound), 0);
}

static void close_stage(struct stage *stage)
{
    sbx_source_free(stage->source);
    sbx_source_free(stage->other);
    sbx_source_free(stage->bound);
    sbx_loop_free(stage->loop);
    (void)close(stage->pipe_fds[0]);
    if (stage->pipe_fds[1] >= 0) {
        (void)close(stage->pipe_fds[1]);
    }
}

/* True when it stopped by itself. */
static bool run(struct stage *stage, uint64_t bound_us)
{
    stage->bounded = false;
    ck_assert_int_eq(sbx_source_arm(stage->bound, sbx_clock_us() + bound_us), 0);
    ck_assert_int_eq(sbx_loop_run(stage->loop), 0);
    return !stage->bounded;
}

#define LONG_US (20U * SBX_US_PER_S)
#define SHORT_US 50000U

static void count(void *context)
{
    struct stage *stage = context;
    stage->fired_at_us = sbx_clock_us();
    if (++stage->calls == stage->stop_after) {
        sbx_loop_stop(stage->loop);
    }
}

static void take_byte(void *context)
{
    struct stage *stage = context;
    char byte;
    ck_assert_int_eq((int)read(stage->pipe_fds[0], &byte, 1), 1);
    count(stage);
}

static void count_and_free_self(void *context)
{
    struct stage *stage = context;
    sbx_source_free(stage->source);
    stage->source = NULL;
    stage->calls++;
}

static void count_and_free_other(void *context)
{
    struct stage *stage = context;
    sbx_source_free(stage->other);
    stage->other = NULL;
    count(stage);
}

START_TEST(calls_back_for_each_byte)
{
    struct stage stage;
    open_stage(&stage);
    ck_assert_int_eq(
        sbx_loop_add_fd(stage.loop, stage.pipe_fds[0], take_byte, &stage, &stage.source),
        0);
    ck_assert_int_eq((int)write(stage.pipe_fds[1], "abc", 3), 3);
    stage.stop_after = 3;
    ck_assert(run(&stage, LONG_US));
    ck_assert_int_eq(stage.calls, 3);
    /* and not when there is nothing to read */
    ck_assert(!run(&stage, SHORT_US));
    ck_assert_int_eq(stage.calls, 3);
    /* a source stays: it is called again for what comes later */
    ck_assert_int_eq((int)write(stage.pipe_fds[1], "d", 1), 1);
    stage.stop_after = 4;
    ck_assert(run(&stage, LONG_US));
    close_stage(&stage);
}
END_TEST

START_TEST(calls_back_for_a_hang_up)
{
    struct stage stage;
    open_stage(&stage);
    ck_assert_int_eq(
        sbx_loop_add_fd(stage.loop, stage.pipe_fds[0], count, &stage, &stage.source), 0);
    (void)close(stage.pipe_fds[1]);
    stage.pipe_fds[1] = -1;
    ck_assert(run(&stage, LONG_US));
    ck_assert_int_ge(stage.calls, 1);
    close_stage(&stage);
}
END_TEST

START_TEST(a_source_may_free_itself)
{
    struct stage stage;
    open_stage(&stage);
    ck_assert_int_eq(sbx_loop_add_fd(stage.loop, stage.pipe_fds[0], count_and_free_self,
                                     &stage, &stage.source),
                     0);
    ck_assert_int_eq((int)write(stage.pipe_fds[1], "abc", 3), 3);
    ck_assert(!run(&stage, SHORT_US));
    ck_assert_int_eq(stage.calls, 1);
    ck_assert_int_eq(
        sbx_loop_add_timer(stage.loop, count_and_free_self, &stage, &stage.source), 0);
    ck_assert_int_eq(sbx_source_arm(stage.source, sbx_clock_us()), 0);
    ck_assert(!run(&stage, SHORT_US));
    ck_assert_int_eq(stage.calls, 2);
    close_stage(&stage);
}
END_TEST

/* Both are due in the same turn; whichever comes first frees the other. */
START_TEST(a_source_may_free_another_that_is_due)
{
    struct stage stage;
    open_stage(&stage);
    ck_assert_int_eq(sbx_loop_add_fd(stage.loop, stage.pipe_fds[0], count_and_free_other,
                                     &stage, &stage.source),
                     0);
    ck_assert_int_eq(sbx_loop_add_fd(stage.loop, stage.pipe_fds[0], count_and_free_other,
                                     &stage, &stage.other),
                     0);
    ck_assert_int_eq((int)write(stage.pipe_fds[1], "a", 1), 1);
    ck_assert(run(&stage, LONG_US));
    ck_assert_ptr_null(stage.other);
    close_stage(&stage);
}
END_TEST

START_TEST(a_timer_fires_at_its_time)
{
    struct stage stage;
    open_stage(&stage);
    ck_assert_int_eq(sbx_loop_add_timer(stage.loop, count, &stage, &stage.source), 0);
    ck_assert_msg(!run(&stage, SHORT_US) && stage.calls == 0,
                  "fired without being armed");
    uint64_t at = sbx_clock_us() + 30000;
    ck_assert_int_eq(sbx_source_arm(stage.source, at), 0);
    ck_assert(run(&stage, LONG_US));
    ck_assert_uint_ge(stage.fired_at_us + 1000, at);
    ck_assert_msg(!run(&stage, SHORT_US) && stage.calls == 1, "fired twice");
    /* a time that has passed is now; so is the beginning of time */
    stage.stop_after = 2;
    ck_assert_int_eq(sbx_source_arm(stage.source, sbx_clock_us() - 1000), 0);
    ck_assert(run(&stage, LONG_US));
    stage.stop_after = 3;
    ck_assert_int_eq(sbx_source_arm(stage.source, 0), 0);
    ck_assert(run(&stage, LONG_US));
    close_stage(&stage);
}
END_TEST

START_TEST(the_last_arming_counts)
{
    struct stage stage;
    open_stage(&stage);
    ck_assert_int_eq(sbx_loop_add_timer(stage.loop, count, &stage, &stage.source), 0);
    /* put off, then brought forward, then taken back */
    uint64_t at = sbx_clock_us() + 60000;
    ck_assert_int_eq(sbx_source_arm(stage.source, sbx_clock_us() + 1000), 0);
    ck_assert_int_eq(sbx_source_arm(stage.source, at), 0);
    ck_assert(run(&stage, LONG_US));
    ck_assert_uint_ge(stage.fired_at_us + 1000, at);
    stage.stop_after = 2;
    ck_assert_int_eq(sbx_source_arm(stage.source, sbx_clock_us() + 2 * LONG_US), 0);
    ck_assert_int_eq(sbx_source_arm(stage.source, sbx_clock_us() + 1000), 0);
    ck_assert(run(&stage, LONG_US));
    ck_assert_int_eq(sbx_source_arm(stage.source, sbx_clock_us() + 1000), 0);
    ck_assert_int_eq(sbx_source_arm(stage.source, SBX_FOREVER_US), 0);
    ck_assert_int_eq(sbx_source_arm(stage.source, SBX_FOREVER_US), 0);
    ck_assert(!run(&stage, SHORT_US));
    ck_assert_int_eq(stage.calls, 2);
    close_stage(&stage);
}
END_TEST

/* Ages from now, up to what does not fit into a struct timeval. */
START_TEST(far_times_do_not_fire_now)
{
    static const uint64_t times[] = {3600 * SBX_US_PER_S, UINT64_C(1) << 40,
                                     UINT64_C(1) << 62, SBX_FOREVER_US - 1};
    struct stage stage;
    open_stage(&stage);
    ck_assert_int_eq(sbx_loop_add_timer(stage.loop, count, &stage, &stage.source), 0);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        ck_assert_int_eq(
            sbx_source_arm(stage.source, sbx_clock_add(sbx_clock_us(), times[i])), 0);
        ck_assert(!run(&stage, SHORT_US));
        ck_assert_int_eq(stage.calls, 0);
    }
    close_stage(&stage);
}
END_TEST

START_TEST(what_cannot_be_watched_is_refused)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    struct stage stage;
    open_stage(&stage);
    struct sbx_source *untouched = (struct sbx_source *)&stage;
    ck_assert_int_eq(sbx_loop_add_fd(stage.loop, -1, count, &stage, &untouched), -EBADF);
    int file = open(sbx_fixture_path(path, "file"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(file, 0);
    /* libevent says so itself; epoll takes no regular file */
    ck_assert_int_lt(sbx_loop_add_fd(stage.loop, file, count, &stage, &untouched), 0);
    ck_assert_ptr_eq(untouched, &stage);
    (void)close(file);
    close_stage(&stage);
}
END_TEST

START_TEST(nothing_is_freed_without_complaint)
{
    sbx_source_free(NULL);
    sbx_loop_free(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("loop");
    TCase *tcase = sbx_fixture_case(suite, "loop", 60);
    tcase_add_test(tcase, calls_back_for_each_byte);
    tcase_add_test(tcase, calls_back_for_a_hang_up);
    tcase_add_test(tcase, a_source_may_free_itself);
    tcase_add_test(tcase, a_source_may_free_another_that_is_due);
    tcase_add_test(tcase, a_timer_fires_at_its_time);
    tcase_add_test(tcase, the_last_arming_counts);
    tcase_add_test(tcase, far_times_do_not_fire_now);
    tcase_add_test(tcase, what_cannot_be_watched_is_refused);
    tcase_add_test(tcase, nothing_is_freed_without_complaint);
    return sbx_fixture_run(suite);
}
