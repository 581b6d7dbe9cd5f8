/*
 * test_executions_storm.c - sbxd is killed at random moments, in its start too, while it
 * is asked to start executions, and many are active: none is lost, none runs twice, each
 * has its limits, every id answers, and nothing is left.
 *
 * Each execution writes one line to a file of its own, so that a second run of it would
 * show. SBX_SEED=N repeats a storm; SBX_LONG makes it 200 kills with 50 active.
 */
#include "tests/ask_kit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ONES_MAX 20000

enum kind { RUNS, IS_LIMITED };

static struct one {
    enum kind kind;
    unsigned run_ms;
    bool answered; /* its start was */
    double started;
    bool settled;
} ones[ONES_MAX];
static size_t one_count;
static unsigned storm_state;

static unsigned next_random(unsigned below)
{
    storm_state = storm_state * 1664525U + 1013904223U;
    return (storm_state >> 8) % below;
}

static bool is_long;
static unsigned limit_ms;

static int request_of(size_t number, char *text, size_t size)
{
    const struct one *one = &ones[number];
    return snprintf(text, size,
                    "{\"id\": \"s%zu\", \"command\": \"sh\", \"args\": [\"-c\", \"echo x "
                    ">>%s/lines.%zu; exec sleep %u.%03u\"], \"limits\": {\"wall\": "
                    "\"%ums\"}, \"output_limit\": 4096, \"event_limit\": 8}",
                    number, sbx_fixture_dir(), number,
                    one->kind == RUNS ? one->run_ms / 1000 : 1000, one->run_ms % 1000,
                    one->kind == RUNS ? 60000U : limit_ms);
}

/* Asks for it once. False: no answer came. */
static bool start_one(const struct service *service, size_t number)
{
    char text[2 * SBX_FIXTURE_PATH_SIZE];
    int length = request_of(number, text, sizeof(text));
    int fd = ask_connect(service);
    if (fd < 0) {
        return false;
    }
    const struct answer *answer = NULL;
    if (ask_send(fd, "POST", "/v1/executions", text, (size_t)length)) {
        answer = ask_receive(fd, 30);
    } else {
        (void)close(fd);
    }
    if (answer == NULL) {
        return false;
    }
    ck_assert_msg(answer->status == 201 || answer->status == 200, "s%zu: %d: %s", number,
                  answer->status, answer->body);
    ones[number].answered = true;
    ones[number].started = service_now();
    ask_forget();
    return true;
}

static size_t count_active(void)
{
    size_t active = 0;
    for (size_t i = 0; i < one_count; i++) {
        unsigned ms = ones[i].kind == RUNS ? ones[i].run_ms : limit_ms;
        active +=
            !ones[i].answered || service_now() < ones[i].started + ms / 1000.0 ? 1 : 0;
    }
    return active;
}

/* The one that comes next: one whose start was not answered, or a new one. ONES_MAX:
 * enough are active. */
static size_t choose_one(size_t most_active)
{
    for (size_t i = one_count > 300 ? one_count - 300 : 0; i < one_count; i++) {
        if (!ones[i].answered) {
            return i;
        }
    }
    if (count_active() >= most_active || one_count == ONES_MAX) {
        return ONES_MAX;
    }
    ones[one_count] = (struct one){.kind = next_random(4) == 0 ? IS_LIMITED : RUNS,
                                   .run_ms = is_long ? 3000 + next_random(10000)
                                                     : 200 + next_random(2000)};
    return one_count++;
}

static bool has_ended(pid_t pid)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == pid;
}

/* Every id that was answered is known, whoever serves. */
static void expect_all_known(const struct service *service)
{
    const struct answer *list = ask_expect(ask(service, "GET", "/v1/executions"), 200);
    const json_t *executions = ask_item(list->json, "executions");
    static bool known[ONES_MAX];
    size_t index;
    const json_t *execution;
    memset(known, 0, sizeof(known));
    json_array_foreach(executions, index, execution)
    {
        const char *id = json_string_value(json_object_get(execution, "id"));
        size_t number = strtoul(id + 1, NULL, 10);
        ck_assert_msg(number < one_count && !known[number], "%s is there twice", id);
        known[number] = true;
        bool runs = strcmp(json_string_value(json_object_get(execution, "status")),
                           "running") == 0;
        ck_assert_msg(!ones[number].settled || !runs, "%s runs again", id);
        ones[number].settled = !runs;
    }
    for (size_t i = 0; i < one_count; i++) {
        ck_assert_msg(known[i] || !ones[i].answered, "s%zu is not known any more", i);
    }
    ask_forget();
}

/* One life of an sbxd, from its start to a kill after `us`. */
static void live(struct service *service, size_t most_active, unsigned us)
{
    service_spawn(service);
    pid_t pid = service->pid;
    pid_t killer = fork();
    ck_assert_int_ge(killer, 0);
    if (killer == 0) {
        (void)usleep(us);
        _exit(kill(pid, SIGKILL) == 0 ? 0 : 1);
    }
    while (!has_ended(pid)) {
        size_t number = choose_one(most_active);
        if (number == ONES_MAX || !start_one(service, number)) {
            (void)usleep(300);
        }
    }
    int status = service_wait(service, 10);
    ck_assert_msg(status == 128 + SIGKILL, "sbxd has ended by itself: %d: %s", status,
                  service_said(service));
    ck_assert_int_eq(waitpid(killer, &status, 0), killer);
    ck_assert_int_eq(status, 0);
}

static void expect_one_line(size_t number)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char name[32];
    struct stat status;
    (void)snprintf(name, sizeof(name), "lines.%zu", number);
    ck_assert_msg(stat(sbx_fixture_path(path, name), &status) == 0, "s%zu has not run",
                  number);
    ck_assert_msg(status.st_size == 2, "s%zu has run %lld times", number,
                  (long long)status.st_size / 2);
}

static void expect_good_end(const struct service *service, size_t number)
{
    char id[32];
    (void)snprintf(id, sizeof(id), "s%zu", number);
    const struct answer *end =
        ask_ends(service, id, ones[number].kind == RUNS ? "completed" : "timed_out");
    if (ones[number].kind == IS_LIMITED) {
        int64_t wall = ask_integer(end, "report.usage.wall_us");
        ck_assert_msg(wall < (limit_ms + 5000) * 1000LL, "%s: %lld us", id,
                      (long long)wall);
    }
    expect_one_line(number);
    ask_forget();
}

START_TEST(kills_at_random_moments)
{
    size_t active = 0;
    int lives = 0;
    is_long = getenv("SBX_LONG") != NULL;
    limit_ms = is_long ? 6000 : 700;
    int moments = is_long ? 200 : 10;
    size_t most_active = is_long ? 50 : 10;
    const char *seed = getenv("SBX_SEED");
    struct service service = {.options = "--max-executions 20000 --retention 2h"};
    storm_state = seed != NULL ? (unsigned)strtoul(seed, NULL, 10) : (unsigned)getpid();
    unsigned first_state = storm_state;
    /* On a machine with much else to do, until there were enough of them. */
    for (; lives < moments || (one_count < most_active && lives < 10 * moments);
         lives++) {
        /* Also while it starts, which takes some milliseconds. */
        unsigned most = next_random(4) == 0 ? 10000 : is_long ? 300000 : 80000;
        live(&service, most_active, next_random(most));
        active += count_active();
        if (lives % 10 == 9 || !is_long) {
            service_start(&service);
            expect_all_known(&service);
            service_kill(&service);
        }
    }
    service_start(&service);
    for (size_t i = 0; i < one_count; i++) {
        ck_assert(ones[i].answered || start_one(&service, i));
    }
    expect_all_known(&service);
    for (size_t i = 0; i < one_count; i++) {
        expect_good_end(&service, i);
    }
    expect_all_known(&service);
    (void)printf("# %zu executions, %d kills, %.1f active on average, seed %u\n",
                 one_count, lives, (double)active / lives, first_state);
    ck_assert_uint_ge(one_count, most_active);
    service_wait_alone(&service, 30);
    service_done(&service);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("executions_storm");
    TCase *storm = sbx_fixture_case(suite, "storm", 600);
    tcase_add_test(storm, kills_at_random_moments);
    return sbx_fixture_run(suite);
}
