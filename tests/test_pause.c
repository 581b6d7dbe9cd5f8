/*
 * test_pause.c - a run that is paused: on every rung its members stand still, and go on
 * as they were; and whatever ends it meanwhile, it ends in order.
 *
 * That nothing happens cannot be waited for: it is looked at for a moment, after /proc or
 * the group has said that all are held.
 */
#include "tests/fork_kit.h"
#include "tests/group_kit.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define CASE_SECONDS 120
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define MOMENT_NS 30000000L

static const struct rung {
    const char *options;
    bool leaf;
} rungs[] = {
    {"backend=proc", false},
    {"backend=proc pid-namespace", false},
    {"backend=cgroup2", true},
    {"backend=cgroup2 pid-namespace", true},
};

struct scene {
    struct fork_run fork;
    const struct rung *rung;
    char place[SBX_GROUP_KIT_SIZE]; /* "": none */
};

static void nap(long ns)
{
    const struct timespec time = {.tv_nsec = ns};
    (void)nanosleep(&time, NULL);
}

static void end(struct scene *scene)
{
    fork_done(&scene->fork);
    library_expect_no_child(60);
    if (scene->place[0] != '\0') {
        ck_assert_uint_eq(sbx_group_kit_count(scene->place, "sbx-", scene->place), 0);
    }
}

static void remove_place(struct scene *scene, const char *path)
{
    end(scene);
    if (path[0] != '\0') {
        sbx_group_kit_remove(path);
    }
}

static void finish(struct scene *scene)
{
    char place[SBX_GROUP_KIT_SIZE];
    memcpy(place, scene->place, sizeof place);
    remove_place(scene, place);
}

/* Reads the line "up". */
static void await_up(struct scene *scene)
{
    char line[4] = "";
    struct pollfd entry = {.fd = scene->fork.out, .events = POLLIN};
    ck_assert_int_eq(poll(&entry, 1, 60000), 1);
    ck_assert_int_eq((int)read(scene->fork.out, line, 3), 3);
    ck_assert_str_eq(line, "up\n");
}

/* False: this rung cannot be had here, which was said. The script has to say "up". */
static bool begin(struct scene *scene, const struct rung *rung, const char *options,
                  const char *script)
{
    char all[SBX_GROUP_KIT_SIZE * 2];
    memset(scene, 0, sizeof *scene);
    scene->rung = rung;
    if (rung->leaf && !sbx_group_kit_make(scene->place)) {
        sbx_group_kit_skip(rung->options, "no group can be made here");
        return false;
    }
    (void)snprintf(all, sizeof all, "%s %s%s %s", rung->options,
                   rung->leaf ? "cgroup-root=" : "", scene->place, options);
    fork_start(&scene->fork, all, script);
    if (fork_step(&scene->fork, 1) &&
        fork_is_refused(sbx_run_result(scene->fork.run), rung->options)) {
        finish(scene);
        return false;
    }
    await_up(scene);
    return true;
}

static bool is_held(const struct scene *scene)
{
    char name[SBX_GROUP_KIT_SIZE];
    char leaf[SBX_GROUP_KIT_SIZE];
    if (!scene->rung->leaf) {
        return fork_is_stopped();
    }
    if (sbx_group_kit_count(scene->place, "sbx-", name) == 0) {
        return false;
    }
    sbx_group_kit_join(leaf, scene->place, name);
    return sbx_group_kit_number(leaf, "cgroup.events", "frozen") == 1;
}

static void await_held(const struct scene *scene, bool held)
{
    uint64_t until = sbx_clock_us() + LIBRARY_LONG_US;
    while (is_held(scene) != held) {
        ck_assert_msg(sbx_clock_us() < until, "held: %d", !held);
        nap(2000000);
    }
}

static void pause_run(struct scene *scene)
{
    ck_assert_int_eq(sbx_run_pause(scene->fork.run), 0);
    await_held(scene, true);
}

static void resume_run(struct scene *scene)
{
    ck_assert_int_eq(sbx_run_resume(scene->fork.run), 0);
}

/* How much the counters have written so far. */
static void read_counts(off_t counts[static 2])
{
    static const char *const names[] = {"a", "b"};
    for (size_t i = 0; i < 2; i++) {
        char path[SBX_FIXTURE_PATH_SIZE];
        struct stat file = {.st_size = 0};
        (void)stat(sbx_fixture_path(path, names[i]), &file);
        counts[i] = file.st_size;
    }
}

static void expect_still(void)
{
    off_t before[2];
    off_t after[2];
    read_counts(before);
    nap(MOMENT_NS);
    read_counts(after);
    ck_assert(before[0] == after[0] && before[1] == after[1]);
}

static void await_counting(void)
{
    off_t before[2];
    off_t now[2];
    uint64_t until = sbx_clock_us() + LIBRARY_LONG_US;
    read_counts(before);
    do {
        ck_assert_msg(sbx_clock_us() < until, "it does not count");
        nap(2000000);
        read_counts(now);
    } while (now[0] == before[0] || now[1] == before[1]);
}

static const struct sbx_result *expect_end(struct scene *scene, const char *outcome)
{
    const struct sbx_result *result = fork_finish(&scene->fork, outcome);
    ck_assert_msg(library_is_proved(result->report), "%s", result->report);
    sbx_fixture_collect(result->report);
    return result;
}

static void expect_cancelled(struct scene *scene)
{
    ck_assert_int_eq(sbx_run_cancel(scene->fork.run), 0);
    (void)expect_end(scene, "cancelled");
}

/* One that is born all the time, one that has left group and session. */
static const char counters[] =
    "setsid sh -c 'while :; do printf . >>\"$1/b\"; done' sh \"$1\" & "
    "echo up; while :; do /bin/true; printf . >>\"$1/a\"; done";

START_TEST(members_stand_still_and_go_on)
{
    struct scene scene;
    if (!begin(&scene, &rungs[_i], "wall=60", counters)) {
        return;
    }
    await_counting();
    resume_run(&scene); /* of what is not paused */
    for (int times = 0; times < 2; times++) {
        pause_run(&scene);
        expect_still();
        ck_assert_int_eq(sbx_run_pause(scene.fork.run), 0); /* once is enough */
        ck_assert_int_eq(sbx_run_signal(scene.fork.run, SIGCONT), 0);
        expect_still();
        resume_run(&scene);
        await_counting();
    }
    expect_cancelled(&scene);
    finish(&scene);
}
END_TEST

START_TEST(who_was_stopped_before_stays_stopped)
{
    struct scene scene;
    if (!begin(&scene, &rungs[_i], "wall=60",
               "setsid sleep 60 & sleep() { :; }; echo up; read -r line; while :; do "
               "printf . >>\"$1/a\"; printf . >>\"$1/b\"; done")) {
        return;
    }
    pid_t stopped = fork_await_process("sleep");
    ck_assert_int_eq(kill(stopped, SIGSTOP), 0); /* a member; its leader waits for us */
    while (fork_state(stopped) != 'T') {
        nap(1000000);
    }
    ck_assert_int_eq((int)write(scene.fork.in, "\n", 1), 1);
    await_counting();
    pause_run(&scene);
    expect_still();
    resume_run(&scene);
    await_counting();
    ck_assert_int_eq(fork_state(stopped), 'T');
    expect_cancelled(&scene);
    finish(&scene);
}
END_TEST

#define WITH_A_TRAP(text)                                                                \
    "trap 'echo " text "; exit 9' TERM; echo up; while :; do /bin/true; done"

START_TEST(a_cancel_is_heard_in_a_pause)
{
    struct scene scene;
    if (!begin(&scene, &rungs[_i], "wall=60 grace=60s", WITH_A_TRAP("heard"))) {
        return;
    }
    pause_run(&scene);
    expect_cancelled(&scene);
    ck_assert_int_eq(sbx_run_result(scene.fork.run)->exit_code, 9);
    ck_assert_str_eq(fork_read_all(scene.fork.out), "heard\n");
    finish(&scene);
}
END_TEST

START_TEST(a_deadline_passes_in_a_pause)
{
    struct scene scene;
    if (!begin(&scene, &rungs[_i], "wall=250ms grace=60s", WITH_A_TRAP("late"))) {
        return;
    }
    ck_assert_int_eq(sbx_run_pause(scene.fork.run), 0);
    ck_assert_str_eq(expect_end(&scene, "breach")->reason, "wall");
    ck_assert_str_eq(fork_read_all(scene.fork.out), "late\n");
    finish(&scene);
}
END_TEST

static const struct killed_row {
    const char *process;
    const char *outcome;
    const char *text; /* what the command has said */
} killed_rows[] = {
    {"sbx-monitor", "lost", ""},
    {"sbx-guard", "breach", "alone\n"},
};

START_TEST(a_pause_outlives_neither_of_the_two)
{
    struct scene scene;
    const struct killed_row *row = &killed_rows[_i % 2];
    if (!begin(&scene, &rungs[_i / 2], "wall=60 grace=60s", WITH_A_TRAP("alone"))) {
        return;
    }
    pause_run(&scene);
    ck_assert_int_eq(kill(fork_await_process(row->process), SIGKILL), 0);
    (void)expect_end(&scene, row->outcome);
    ck_assert_str_eq(fork_read_all(scene.fork.out), row->text);
    finish(&scene);
}
END_TEST

START_TEST(what_is_left_of_the_leader_is_held_too)
{
    struct scene scene;
    if (!begin(&scene, &rungs[_i], "wall=60 linger=60s",
               "setsid sh -c 'while :; do printf . >>\"$1/a\"; printf . >>\"$1/b\"; "
               "done' sh \"$1\" & echo up")) {
        return;
    }
    await_counting();
    pause_run(&scene);
    expect_still();
    resume_run(&scene);
    await_counting();
    pause_run(&scene);
    expect_cancelled(&scene);
    ck_assert_int_eq(sbx_run_result(scene.fork.run)->exit_code, 0);
    finish(&scene);
}
END_TEST

START_TEST(a_pause_is_not_idleness)
{
    struct scene scene;
    ck_assert(begin(&scene, &rungs[0], "wall=60 idle=250ms",
                    "echo up; while :; do /bin/true; echo; done >&2"));
    pause_run(&scene);
    struct pollfd entry = {.fd = sbx_run_fd(scene.fork.run), .events = POLLIN};
    uint64_t until = sbx_clock_us() + 600000;
    for (uint64_t now = 0; now < until; now = sbx_clock_us()) {
        (void)poll(&entry, 1, 50);
        ck_assert_int_eq(sbx_run_next(scene.fork.run, NULL), SBX_RUN_NOTHING);
    }
    resume_run(&scene);
    expect_cancelled(&scene);
    finish(&scene);
}
END_TEST

/* And comes to its end again. */
START_TEST(idleness_begins_anew)
{
    struct scene scene;
    ck_assert(begin(&scene, &rungs[0], "wall=60 idle=250ms", "echo up; exec sleep 60"));
    pause_run(&scene);
    uint64_t resumed_us = sbx_clock_us();
    resume_run(&scene);
    ck_assert_str_eq(expect_end(&scene, "breach")->reason, "idle");
    ck_assert_uint_ge(sbx_clock_us() - resumed_us, 250000);
    finish(&scene);
}
END_TEST

START_TEST(signals_wait_for_the_end_of_a_pause)
{
    struct scene scene;
    ck_assert(begin(&scene, &rungs[0], "wall=60",
                    "trap 'echo usr1' USR1; echo up; while :; do /bin/true; done"));
    pause_run(&scene);
    ck_assert_int_eq(sbx_run_signal(scene.fork.run, SIGUSR1), 0);
    ck_assert_int_eq(sbx_run_signal(scene.fork.run, SIGSTOP), 0);
    resume_run(&scene);
    char line[8] = "";
    ck_assert_int_eq(sbx_run_signal(scene.fork.run, SIGCONT), 0);
    ck_assert_int_eq((int)read(scene.fork.out, line, 5), 5);
    ck_assert_str_eq(line, "usr1\n");
    expect_cancelled(&scene);
    finish(&scene);
}
END_TEST

/* Through sbx-monitor, as any caller of the library. */
START_TEST(every_run_of_the_library_can_be_paused)
{
    struct sbx_run *run = library_start(library_script("wall=60", "exec sleep 60"));
    ck_assert_int_eq(sbx_run_pause(run), 0);
    ck_assert_int_eq(sbx_run_resume(run), 0);
    ck_assert_int_eq(sbx_run_pause(run), 0);
    ck_assert_int_eq(sbx_run_cancel(run), 0);
    ck_assert_int_eq(sbx_run_wait(run, LIBRARY_LONG_US), 0);
    ck_assert_str_eq(sbx_run_result(run)->outcome, "cancelled");
    ck_assert_int_eq(sbx_run_pause(run), -ESRCH);
    ck_assert_int_eq(sbx_run_resume(run), -ESRCH);
    sbx_run_free(run);
    library_expect_no_child(60);
}
END_TEST

int main(void)
{
    library_use_built_monitor(SBX_TEST_MONITOR);
    Suite *suite = suite_create("pause");
    TCase *rung = sbx_fixture_case(suite, "rungs", CASE_SECONDS);
    int count = (int)LENGTH(rungs);
    tcase_add_loop_test(rung, members_stand_still_and_go_on, 0, count);
    tcase_add_loop_test(rung, who_was_stopped_before_stays_stopped, 0, count);
    tcase_add_loop_test(rung, a_cancel_is_heard_in_a_pause, 0, count);
    tcase_add_loop_test(rung, a_deadline_passes_in_a_pause, 0, count);
    tcase_add_loop_test(rung, a_pause_outlives_neither_of_the_two, 0, 2 * count);
    tcase_add_loop_test(rung, what_is_left_of_the_leader_is_held_too, 0, count);
    TCase *rest = sbx_fixture_case(suite, "rest", CASE_SECONDS);
    tcase_add_test(rest, a_pause_is_not_idleness);
    tcase_add_test(rest, idleness_begins_anew);
    tcase_add_test(rest, signals_wait_for_the_end_of_a_pause);
    tcase_add_test(rest, every_run_of_the_library_can_be_paused);
    return sbx_group_kit_finish(sbx_fixture_run(suite));
}
