/*
 * test_supervisor.c - executions held by a program itself, without a service: the calls
 * of <sbx/sbx.h>, on real keepers.
 */
#include "tests/fixture.h"

#include "base/fd.h"
#include "supervisor/place.h"

#include <sbx/sbx.h>

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEP_US UINT64_C(20000)
#define STEPS 1500 /* half a minute */

static struct sbx_supervisor *new_here(void)
{
    struct sbx_error error = {0};
    char path[SBX_FIXTURE_PATH_SIZE];
    ck_assert_int_eq(setenv("SBX_KEEPER", SBX_TEST_KEEPER, 1), 0);
    struct sbx_supervisor *supervisor = sbx_supervisor_new();
    ck_assert_ptr_nonnull(supervisor);
    ck_assert_int_eq(
        sbx_supervisor_set(supervisor, "state", sbx_fixture_path(path, "state"), &error),
        0);
    return supervisor;
}

/* What will be a keeper has our lock, too, until it is executed. */
static int open_soon(struct sbx_supervisor *supervisor, struct sbx_error *err)
{
    int r = sbx_supervisor_open(supervisor, err);
    for (int i = 0; r == -EBUSY && i < 20000; i++) {
        (void)poll(NULL, 0, 1);
        r = sbx_supervisor_open(supervisor, err);
    }
    return r;
}

static struct sbx_supervisor *open_here(void)
{
    struct sbx_error error = {0};
    struct sbx_supervisor *supervisor = new_here();
    int r = open_soon(supervisor, &error);
    ck_assert_msg(r == 0, "%s", error.message);
    return supervisor;
}

/* The parsed text, which is freed. */
static json_t *parse(char *text)
{
    json_error_t why;
    json_t *value = json_loads(text, 0, &why);
    ck_assert_msg(value != NULL, "%s: %s", why.text, text);
    free(text);
    return value;
}

static int start(struct sbx_supervisor *supervisor, const char *request, int expected)
{
    struct sbx_error error = {0};
    char *snapshot = NULL;
    int r = sbx_supervisor_start(supervisor, request, strlen(request), &snapshot, &error);
    ck_assert_msg(r == expected, "%d: %s", r, error.message);
    free(snapshot);
    return r;
}

static void copy_status(struct sbx_supervisor *supervisor, const char *id,
                        char status[static 16])
{
    char *text = NULL;
    ck_assert_int_eq(sbx_supervisor_show(supervisor, id, &text, NULL), 0);
    json_t *snapshot = parse(text);
    (void)snprintf(status, 16, "%s",
                   json_string_value(json_object_get(snapshot, "status")));
    json_decref(snapshot);
}

/* Orphans of a subreaper that die without anybody who waits for them. */
static void reap(void)
{
    while (waitpid(-1, NULL, WNOHANG) > 0) {
        continue;
    }
}

static void await_status(struct sbx_supervisor *supervisor, const char *id,
                         const char *expected)
{
    char status[16];
    for (int i = 0; i < STEPS; i++) {
        copy_status(supervisor, id, status);
        if (strcmp(status, "running") != 0) {
            break;
        }
        ck_assert_int_eq(sbx_supervisor_step(supervisor, STEP_US, NULL), 0);
        reap();
    }
    ck_assert_str_eq(status, expected);
}

/* Keepers end a moment after they have said that all is on file. */
static void await_processes(void)
{
    while (waitpid(-1, NULL, 0) > 0) {
        continue;
    }
}

START_TEST(a_command_runs_and_is_read)
{
    struct sbx_supervisor *supervisor = open_here();
    start(supervisor,
          "{\"id\":\"a\",\"command\":\"sh\",\"args\":[\"-c\",\"echo one; "
          "echo two >&2\"]}",
          1);
    await_status(supervisor, "a", "completed");
    char buffer[64];
    struct sbx_output output;
    struct sbx_output_wish wish = {
        .stream = 1, .offset = 0, .buffer = buffer, .size = sizeof buffer};
    ck_assert_int_eq(sbx_supervisor_output(supervisor, "a", &wish, &output, NULL), 0);
    ck_assert_uint_eq(output.length, 4);
    ck_assert_mem_eq(buffer, "one\n", 4);
    ck_assert_int_ne(output.ended, 0);
    wish.stream = 2;
    wish.offset = 2;
    ck_assert_int_eq(sbx_supervisor_output(supervisor, "a", &wish, &output, NULL), 0);
    ck_assert_uint_eq(output.offset, 2);
    ck_assert_mem_eq(buffer, "o\n", 2);
    wish.stream = 3;
    ck_assert_int_eq(sbx_supervisor_output(supervisor, "a", &wish, &output, NULL),
                     -EINVAL);
    char *text = NULL;
    ck_assert_int_eq(sbx_supervisor_events(supervisor, "a", 0, &text, NULL), 0);
    json_t *answer = parse(text);
    json_t *events = json_object_get(answer, "events");
    size_t last = json_array_size(events) - 1;
    ck_assert_uint_eq(last, 3);
    ck_assert_str_eq(
        json_string_value(json_object_get(json_array_get(events, 0), "type")), "started");
    ck_assert_str_eq(
        json_string_value(json_object_get(json_array_get(events, last), "type")),
        "finished");
    json_decref(answer);
    sbx_supervisor_free(supervisor);
    await_processes();
}
END_TEST

START_TEST(an_id_has_one_request)
{
    struct sbx_supervisor *supervisor = new_here(); /* which opens it */
    start(supervisor, "{\"id\":\"x\",\"command\":\"true\"}", 1);
    start(supervisor, "{\"command\":\"true\",\"args\":[],\"id\":\"x\"}", 0);
    start(supervisor, "{\"id\":\"x\",\"command\":\"false\"}", -EEXIST);
    start(supervisor, "{\"id\":\"x\",\"command\":1}", -EINVAL);
    await_status(supervisor, "x", "completed");
    start(supervisor, "{\"id\":\"x\",\"command\":\"true\"}", 0);
    ck_assert_int_eq(sbx_supervisor_remove(supervisor, "x", NULL), 0);
    ck_assert_int_eq(sbx_supervisor_remove(supervisor, "x", NULL), -ENOENT);
    start(supervisor, "{\"id\":\"x\",\"command\":\"false\"}", 1);
    await_status(supervisor, "x", "failed");
    sbx_supervisor_free(supervisor);
    await_processes();
}
END_TEST

START_TEST(the_next_one_finds_what_goes_on)
{
    struct sbx_supervisor *supervisor = open_here();
    start(supervisor, "{\"id\":\"on\",\"command\":\"sleep\",\"args\":[\"60\"]}", 1);
    start(supervisor, "{\"id\":\"over\",\"command\":\"true\"}", 1);
    await_status(supervisor, "over", "completed");
    sbx_supervisor_free(supervisor);
    supervisor = open_here();
    char status[16];
    copy_status(supervisor, "over", status);
    ck_assert_str_eq(status, "completed");
    copy_status(supervisor, "on", status);
    ck_assert_str_eq(status, "running");
    ck_assert_int_eq(sbx_supervisor_signal(supervisor, "on", 0, NULL), -EINVAL);
    ck_assert_int_eq(sbx_supervisor_signal(supervisor, "on", SIGCONT, NULL), 0);
    ck_assert_int_eq(sbx_supervisor_cancel(supervisor, "on", NULL), 0);
    ck_assert_int_eq(sbx_supervisor_cancel(supervisor, "on", NULL), 0);
    await_status(supervisor, "on", "cancelled");
    ck_assert_int_eq(sbx_supervisor_cancel(supervisor, "on", NULL), -ESRCH);
    ck_assert_int_eq(sbx_supervisor_cancel(supervisor, "no", NULL), -ENOENT);
    sbx_supervisor_free(supervisor);
    await_processes();
}
END_TEST

START_TEST(a_running_one_is_cancelled_and_forgotten)
{
    struct sbx_supervisor *supervisor = open_here();
    start(supervisor, "{\"id\":\"x\",\"command\":\"sleep\",\"args\":[\"60\"]}", 1);
    ck_assert_int_eq(sbx_supervisor_remove(supervisor, "x", NULL), -EINPROGRESS);
    /* Until it is, its id is taken, also for the same request. */
    start(supervisor, "{\"id\":\"x\",\"command\":\"sleep\",\"args\":[\"60\"]}", -EEXIST);
    char *text = NULL;
    int r = 0;
    for (int i = 0; i < STEPS && r == 0; i++) {
        ck_assert_int_eq(sbx_supervisor_step(supervisor, STEP_US, NULL), 0);
        reap();
        r = sbx_supervisor_show(supervisor, "x", &text, NULL);
        if (r == 0) {
            free(text);
        }
    }
    ck_assert_int_eq(r, -ENOENT);
    char path[SBX_FIXTURE_PATH_SIZE];
    ck_assert_int_ne(access(sbx_fixture_path(path, "state/executions/x"), F_OK), 0);
    sbx_supervisor_free(supervisor);
    await_processes();
}
END_TEST

START_TEST(one_is_fed_and_held)
{
    static char most[1024 * 1024 + 1];
    struct sbx_supervisor *supervisor = open_here();
    start(supervisor, "{\"id\":\"x\",\"command\":\"cat\",\"stdin\":\"open\"}", 1);
    ck_assert_int_eq(sbx_supervisor_pause(supervisor, "x", NULL), 0);
    ck_assert_int_eq(sbx_supervisor_resume(supervisor, "x", NULL), 0);
    ck_assert_int_eq(sbx_supervisor_write(supervisor, "x", "some ", 5, NULL), 0);
    ck_assert_int_eq(sbx_supervisor_write(supervisor, "x", "words", 5, NULL), 0);
    ck_assert_int_eq(sbx_supervisor_write(supervisor, "x", most, sizeof most, NULL),
                     -EMSGSIZE);
    ck_assert_int_eq(sbx_supervisor_write(supervisor, "x", NULL, 0, NULL), 0);
    await_status(supervisor, "x", "completed");
    char buffer[64];
    struct sbx_output output;
    const struct sbx_output_wish wish = {
        .stream = 1, .buffer = buffer, .size = sizeof buffer};
    ck_assert_int_eq(sbx_supervisor_output(supervisor, "x", &wish, &output, NULL), 0);
    ck_assert_uint_eq(output.length, 10);
    ck_assert_mem_eq(buffer, "some words", 10);
    ck_assert_int_eq(sbx_supervisor_write(supervisor, "x", "more", 4, NULL), -EPIPE);
    ck_assert_int_eq(sbx_supervisor_pause(supervisor, "x", NULL), -ESRCH);
    sbx_supervisor_free(supervisor);
    await_processes();
}
END_TEST

START_TEST(a_state_is_open_once)
{
    struct sbx_error error = {0};
    char path[SBX_FIXTURE_PATH_SIZE];
    struct sbx_supervisor *first = open_here();
    struct sbx_supervisor *second = sbx_supervisor_new();
    ck_assert_int_eq(
        sbx_supervisor_set(second, "state", sbx_fixture_path(path, "state"), &error), 0);
    ck_assert_int_eq(sbx_supervisor_open(second, &error), -EBUSY);
    ck_assert_int_eq(sbx_supervisor_set(second, "state", "relative", &error), -EINVAL);
    ck_assert_int_eq(sbx_supervisor_set(second, "no-such", "1", &error), -EINVAL);
    ck_assert_int_eq(sbx_supervisor_set(second, "max-executions", "0", &error), -ERANGE);
    sbx_supervisor_free(second);
    sbx_supervisor_free(first);
    sbx_supervisor_free(NULL);
}
END_TEST

static size_t count_ends(struct sbx_supervisor *supervisor, const char *id)
{
    char *text = NULL;
    size_t ends = 0;
    size_t index;
    json_t *event;
    ck_assert_int_eq(sbx_supervisor_events(supervisor, id, 0, &text, NULL), 0);
    json_t *answer = parse(text);
    json_array_foreach(json_object_get(answer, "events"), index, event)
    {
        const char *type = json_string_value(json_object_get(event, "type"));
        ends += strcmp(type, "finished") == 0 ? 1 : 0;
    }
    json_decref(answer);
    return ends;
}

/* As if its keeper, or an sbxd, had been killed between the last event and the page. */
START_TEST(an_end_is_told_once)
{
    static const enum sbx_phase phases[] = {SBX_PHASE_LAUNCHING, SBX_PHASE_RUNNING};
    char path[SBX_FIXTURE_PATH_SIZE];
    char status[16];
    struct sbx_page page;
    struct sbx_supervisor *supervisor = open_here();
    start(supervisor, "{\"id\":\"a\",\"command\":\"false\"}", 1);
    await_status(supervisor, "a", "failed");
    sbx_supervisor_free(supervisor);
    await_processes();
    int place = open(sbx_fixture_path(path, "state/executions/a"),
                     O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(place, 0);
    for (size_t i = 0; i < sizeof phases / sizeof phases[0]; i++) {
        ck_assert_int_eq(sbx_page_read(place, &page), 0);
        page.phase = phases[i];
        page.status = 0;
        ck_assert_int_eq(sbx_page_write(place, &page), 0);
        supervisor = open_here();
        copy_status(supervisor, "a", status);
        ck_assert_str_eq(status, "failed");
        ck_assert_uint_eq(count_ends(supervisor, "a"), 1);
        sbx_supervisor_free(supervisor);
    }
    (void)close(place);
}
END_TEST

/* A page that says that nothing has run, and nothing else is there. */
static void reserve_again(int place, bool other_boot)
{
    char text[1024];
    struct sbx_page page;
    ck_assert_int_eq(sbx_page_read(place, &page), 0);
    page.phase = SBX_PHASE_RESERVED;
    ck_assert_int_eq(sbx_page_write(place, &page), 0);
    ck_assert_int_eq(unlinkat(place, "events", 0), 0);
    ck_assert_int_eq(unlinkat(place, "report.json", 0), 0);
    int fd = openat(place, "request", O_RDWR | O_CLOEXEC);
    ck_assert_int_gt(sbx_fd_pread_text(fd, text, sizeof text), 0);
    char *boot = strstr(text, "\"boot\":\"");
    ck_assert_ptr_nonnull(boot);
    boot += strlen("\"boot\":\"");
    *boot = other_boot ? (*boot == '0' ? '1' : '0') : *boot;
    ck_assert_int_eq(pwrite(fd, boot, 1, boot - text), 1);
    (void)close(fd);
}

/* After a crash of the machine nobody knows what was written before it. */
START_TEST(what_is_reserved_has_not_run_unless_the_machine_has_crashed)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char status[16];
    char *text = NULL;
    struct sbx_supervisor *supervisor = open_here();
    start(supervisor, "{\"id\":\"a\",\"command\":\"true\"}", 1);
    await_status(supervisor, "a", "completed");
    sbx_supervisor_free(supervisor);
    await_processes();
    int place = open(sbx_fixture_path(path, "state/executions/a"),
                     O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(place, 0);
    reserve_again(place, _i == 1);
    supervisor = open_here();
    if (_i == 1) {
        copy_status(supervisor, "a", status);
        ck_assert_str_eq(status, "lost");
    } else {
        ck_assert_int_eq(sbx_supervisor_show(supervisor, "a", &text, NULL), -ENOENT);
    }
    sbx_supervisor_free(supervisor);
    (void)close(place);
}
END_TEST

/* The keeper of the one execution there is: an orphan, so our child. */
static pid_t find_keeper(void)
{
    char path[64];
    char text[256];
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    ck_assert_int_gt(sbx_fd_read_text_at(AT_FDCWD, path, text, sizeof text), 1);
    return (pid_t)strtol(text, NULL, 10);
}

/* Whoever waits for the end of what this process writes does not wait for its keepers. */
START_TEST(a_keeper_holds_nothing_of_its_caller)
{
    int ends[2];
    char byte;
    ck_assert_int_eq(pipe(ends), 0); /* NOLINT(android-cloexec-pipe): so it has to be */
    int before = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    struct sbx_supervisor *supervisor = open_here();
    ck_assert_int_eq(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    start(supervisor, "{\"id\":\"a\",\"command\":\"sleep\",\"args\":[\"60\"]}", 1);
    ck_assert_int_eq(dup2(before, STDERR_FILENO), STDERR_FILENO);
    (void)close(before);
    (void)close(ends[1]);
    struct pollfd end = {.fd = ends[0], .events = POLLIN};
    ck_assert_int_eq(poll(&end, 1, 20000), 1);
    ck_assert_int_eq(read(ends[0], &byte, 1), 0);
    (void)close(ends[0]);
    ck_assert_int_eq(sbx_supervisor_cancel(supervisor, "a", NULL), 0);
    await_status(supervisor, "a", "cancelled");
    sbx_supervisor_free(supervisor);
    await_processes();
}
END_TEST

/* It takes nothing for a moment, until nothing more fits in. */
START_TEST(a_cancel_is_not_lost_to_a_keeper_that_is_full)
{
    struct sbx_supervisor *supervisor = open_here();
    start(supervisor, "{\"id\":\"a\",\"command\":\"sleep\",\"args\":[\"60\"]}", 1);
    pid_t keeper = find_keeper();
    ck_assert_int_eq(kill(keeper, SIGSTOP), 0);
    for (int i = 0; i < 4000; i++) {
        ck_assert_int_eq(sbx_supervisor_signal(supervisor, "a", SIGURG, NULL), 0);
    }
    ck_assert_int_eq(sbx_supervisor_cancel(supervisor, "a", NULL), 0);
    ck_assert_int_eq(kill(keeper, SIGCONT), 0);
    await_status(supervisor, "a", "cancelled");
    sbx_supervisor_free(supervisor);
    await_processes();
}
END_TEST

/* Few of them, and all but the first taken, one less each time: what cannot be found out
 * is no reason to take an execution for dead, or to go on without it. */
START_TEST(a_lack_of_descriptors_forgets_nothing)
{
    const struct rlimit few = {64, 64};
    char status[16];
    int taken[64];
    size_t count = 0;
    size_t refused = 0;
    struct sbx_supervisor *supervisor = open_here();
    start(supervisor, "{\"id\":\"a\",\"command\":\"sleep\",\"args\":[\"60\"]}", 1);
    start(supervisor, "{\"id\":\"b\",\"command\":\"sleep\",\"args\":[\"60\"]}", 1);
    sbx_supervisor_free(supervisor);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    supervisor = new_here();
    while ((taken[count] = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)) >= 0) {
        count++;
    }
    while (open_soon(supervisor, NULL) < 0) {
        ck_assert_uint_gt(count, 0);
        (void)close(taken[--count]);
        refused++;
    }
    ck_assert_uint_ge(refused, 8);
    for (size_t i = 0; i < 2; i++) {
        copy_status(supervisor, i == 0 ? "a" : "b", status);
        ck_assert_str_eq(status, "running");
    }
    while (count > 0) {
        (void)close(taken[--count]);
    }
    ck_assert_int_eq(sbx_supervisor_cancel(supervisor, "a", NULL), 0);
    ck_assert_int_eq(sbx_supervisor_cancel(supervisor, "b", NULL), 0);
    await_status(supervisor, "a", "cancelled");
    await_status(supervisor, "b", "cancelled");
    sbx_supervisor_free(supervisor);
    await_processes();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("supervisor");
    TCase *calls = sbx_fixture_case(suite, "calls", 60);
    tcase_add_test(calls, a_command_runs_and_is_read);
    tcase_add_test(calls, an_id_has_one_request);
    tcase_add_test(calls, the_next_one_finds_what_goes_on);
    tcase_add_test(calls, a_running_one_is_cancelled_and_forgotten);
    tcase_add_test(calls, one_is_fed_and_held);
    tcase_add_test(calls, a_state_is_open_once);
    tcase_add_test(calls, an_end_is_told_once);
    tcase_add_loop_test(
        calls, what_is_reserved_has_not_run_unless_the_machine_has_crashed, 0, 2);
    tcase_add_test(calls, a_keeper_holds_nothing_of_its_caller);
    tcase_add_test(calls, a_cancel_is_not_lost_to_a_keeper_that_is_full);
    tcase_add_test(calls, a_lack_of_descriptors_forgets_nothing);
    return sbx_fixture_run(suite);
}
