/*
 * test_timeline.c - rows of samples: what a row says, that a file with a bound keeps it
 * by being set aside, what is lost is counted; and on the built program that every sample
 * is a row that a reader sees while the run goes on.
 */
#include "monitor/timeline.h"

#include "base/clock.h"
#include "base/fd.h"
#include "tests/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER "elapsed_us,cpu_us,memory_bytes,memory_bound_bytes,processes,threads\n"
#define COLUMNS 6

static struct sbx_timeline_row row_of(uint64_t number)
{
    return (struct sbx_timeline_row){.elapsed_us = number,
                                     .cpu_us = 20,
                                     .memory_bytes = 30,
                                     .memory_bound_bytes = 40,
                                     .processes = 5,
                                     .threads = 6};
}

START_TEST(a_row_says_what_was_measured)
{
    char text[SBX_TIMELINE_ROW_SIZE];
    struct sbx_timeline_row row = row_of(10);
    ck_assert_uint_eq(sbx_timeline_format(NULL, false, text), strlen(HEADER));
    ck_assert_str_eq(text, HEADER);
    ck_assert_uint_eq(sbx_timeline_format(NULL, true, text), 0);
    (void)sbx_timeline_format(&row, false, text);
    ck_assert_str_eq(text, "10,20,30,40,5,6\n");
    (void)sbx_timeline_format(&row, true, text);
    ck_assert_str_eq(text, "{\"elapsed_us\":10,\"cpu_us\":20,\"memory_bytes\":30,"
                           "\"memory_bound_bytes\":40,\"processes\":5,\"threads\":6}\n");
    row.memory_bytes = SBX_UNKNOWN;
    (void)sbx_timeline_format(&row, false, text);
    ck_assert_str_eq(text, "10,20,,40,5,6\n");
    (void)sbx_timeline_format(&row, true, text);
    ck_assert_ptr_null(strstr(text, "memory_bytes"));
    memset(&row, 0xfe, sizeof row);
    ck_assert_uint_lt(sbx_timeline_format(&row, true, text), SBX_TIMELINE_ROW_SIZE);
    ck_assert_ptr_nonnull(strstr(text, "}\n"));
}
END_TEST

/* --- the file, with a small bound --- */

struct place {
    char path[SBX_FIXTURE_PATH_SIZE];
    char aside[SBX_FIXTURE_PATH_SIZE];
    struct sbx_timeline_file file;
    struct sbx_log_told told;
    struct sbx_timeline *timeline;
};

static void begin(struct place *place, const char *name, uint64_t bound, bool afresh)
{
    char aside[64];
    memset(&place->told, 0, sizeof place->told);
    (void)snprintf(aside, sizeof aside, "%s.1", name);
    (void)sbx_fixture_path(place->path, name);
    (void)sbx_fixture_path(place->aside, aside);
    ck_assert_int_eq(sbx_timeline_open(AT_FDCWD, place->path, &place->file), 0);
    place->timeline = calloc(1, sizeof *place->timeline);
    ck_assert_ptr_nonnull(place->timeline);
    sbx_timeline_begin(place->timeline, &place->file, &place->told, bound, afresh);
}

static void end(struct place *place)
{
    sbx_timeline_close(&place->file);
    free(place->timeline);
}

static void add(struct place *place, uint64_t number)
{
    struct sbx_timeline_row row = row_of(number);
    sbx_timeline_add(place->timeline, &row, sbx_clock_us());
}

static char *read_text(const char *path)
{
    char *text = calloc(1, 1024UL * 1024);
    SBX_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
    ck_assert_ptr_nonnull(text);
    ck_assert_int_ge(read(fd, text, 1024UL * 1024 - 1), 0);
    return text;
}

/* Rows of a CSV file, in order; checks their form, and the header. */
static size_t read_rows(const char *path, uint64_t *ret_first, uint64_t *ret_last)
{
    char *text = read_text(path);
    size_t count = 0;
    ck_assert_msg(strncmp(text, HEADER, strlen(HEADER)) == 0, "%s", text);
    for (const char *next = text + strlen(HEADER); *next != '\0';) {
        size_t length = strcspn(next, "\n");
        ck_assert_int_eq(next[length], '\n');
        size_t commas = 0;
        for (size_t i = 0; i < length; i++) {
            commas += next[i] == ',' ? 1U : 0U;
        }
        ck_assert_uint_eq(commas, COLUMNS - 1);
        *ret_last = strtoull(next, NULL, 10);
        *ret_first = count++ == 0 ? *ret_last : *ret_first;
        next += length + 1;
    }
    free(text);
    return count;
}

START_TEST(a_file_that_is_full_is_set_aside)
{
    static const char *const names[] = {"rows.csv", "rows"};
    struct place place;
    struct stat status;
    uint64_t first = 0;
    uint64_t last = 0;
    begin(&place, names[_i], 1000, true);
    ck_assert_int_eq(fchmod(place.file.file.fd, 0600), 0);
    for (uint64_t i = 1; i <= 1000; i++) {
        add(&place, i);
        if (i % 7 == 0) {
            ck_assert(sbx_timeline_flush(place.timeline));
        }
        ck_assert_int_eq(stat(place.path, &status), 0);
        ck_assert_int_le(status.st_size, 1000);
        ck_assert_int_eq(status.st_mode & 0777, 0600);
    }
    ck_assert(sbx_timeline_flush(place.timeline));
    ck_assert_uint_eq(atomic_load(&place.told.written), 1000);
    ck_assert_int_eq(atomic_load(&place.told.code), 0);
    size_t newer = read_rows(place.path, &first, &last);
    ck_assert_uint_eq(last, 1000);
    ck_assert_uint_eq(first, 1001 - newer);
    uint64_t before = first;
    size_t older = read_rows(place.aside, &first, &last);
    ck_assert_uint_eq(last, before - 1);
    ck_assert_uint_gt(older, 30);
    ck_assert_int_eq(stat(place.aside, &status), 0);
    ck_assert_int_le(status.st_size, 1000);
    end(&place);
}
END_TEST

/* Its name leads elsewhere: what is there is not ours to set aside. 0: a symlink; 1: the
 * file was removed; 2: another one has its name. */
START_TEST(a_name_that_leads_elsewhere_is_left_alone)
{
    struct place place;
    struct stat status;
    char target[SBX_FIXTURE_PATH_SIZE];
    char path[SBX_FIXTURE_PATH_SIZE];
    (void)sbx_fixture_path(path, "rows.csv");
    (void)sbx_fixture_path(target, "target");
    ck_assert(_i != 0 || symlink(target, path) == 0);
    begin(&place, "rows.csv", 500, true);
    if (_i > 0) {
        ck_assert_int_eq(unlink(path), 0);
    }
    if (_i == 2) {
        SBX_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        ck_assert_int_eq(write(fd, "mine\n", 5), 5);
    }
    for (uint64_t i = 0; i < 200; i++) {
        add(&place, i);
        ck_assert(sbx_timeline_flush(place.timeline));
        ck_assert_int_eq(fstat(place.file.file.fd, &status), 0);
        ck_assert_int_le(status.st_size, 500);
    }
    ck_assert_int_eq(access(place.aside, F_OK), -1);
    ck_assert_uint_eq(atomic_load(&place.told.written), 200);
    if (_i == 2) {
        char *text = read_text(path);
        ck_assert_str_eq(text, "mine\n");
        free(text);
    }
    ck_assert(_i != 0 || (lstat(path, &status) == 0 && S_ISLNK(status.st_mode)));
    end(&place);
}
END_TEST

START_TEST(a_second_writer_goes_on)
{
    struct place place;
    uint64_t first = 0;
    uint64_t last = 0;
    begin(&place, "rows.csv", 100000, true);
    add(&place, 1);
    ck_assert(sbx_timeline_flush(place.timeline));
    end(&place);
    begin(&place, "rows.csv", 100000, false);
    add(&place, 2);
    ck_assert(sbx_timeline_flush(place.timeline));
    ck_assert_uint_eq(read_rows(place.path, &first, &last), 2);
    end(&place);
    begin(&place, "rows.csv", 100000, true);
    add(&place, 3);
    ck_assert(sbx_timeline_flush(place.timeline));
    ck_assert_uint_eq(read_rows(place.path, &first, &last), 1);
    end(&place);
}
END_TEST

START_TEST(a_full_disk_is_counted)
{
    struct place place = {0};
    ck_assert_int_eq(sbx_timeline_open(AT_FDCWD, "/dev/full", &place.file), 0);
    place.timeline = calloc(1, sizeof *place.timeline);
    sbx_timeline_begin(place.timeline, &place.file, &place.told, 1000, true);
    for (uint64_t i = 0; i < 100; i++) {
        add(&place, i);
        ck_assert(sbx_timeline_flush(place.timeline));
    }
    ck_assert_uint_eq(atomic_load(&place.told.written), 0);
    ck_assert_int_eq(atomic_load(&place.told.code), ENOSPC);
    end(&place);
}
END_TEST

/* A row that broke off does not take the next one with it. The file's size is bounded by
 * rlimit, which ends a write in the middle. */
START_TEST(a_row_that_broke_off_ends_there)
{
    struct place place;
    char *text = NULL;
    begin(&place, "rows.csv", 100000, true);
    ck_assert(sbx_timeline_flush(place.timeline));
    sigset_t blocked;
    (void)sigemptyset(&blocked);
    (void)sigaddset(&blocked, SIGXFSZ);
    (void)sigprocmask(SIG_BLOCK, &blocked, NULL);
    struct rlimit before;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit small = {strlen(HEADER) + 5, before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    add(&place, 111);
    ck_assert(sbx_timeline_flush(place.timeline));
    ck_assert_int_eq(atomic_load(&place.told.code), EFBIG);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    add(&place, 222);
    ck_assert(sbx_timeline_flush(place.timeline));
    text = read_text(place.path);
    ck_assert_str_eq(text, HEADER "111,2\n222,20,30,40,5,6\n");
    ck_assert_uint_eq(atomic_load(&place.told.written), 1);
    free(text);
    end(&place);
}
END_TEST

START_TEST(a_pipe_that_takes_nothing_keeps_a_bounded_number)
{
    struct place place = {0};
    char path[SBX_FIXTURE_PATH_SIZE];
    ck_assert_int_eq(mkfifo(sbx_fixture_path(path, "fifo"), 0600), 0);
    begin(&place, "fifo", 1000, true);
    for (uint64_t i = 0; i < 20000; i++) {
        add(&place, i);
    }
    ck_assert(!sbx_timeline_flush(place.timeline)); /* nobody has it open */
    ck_assert_int_ne(atomic_load(&place.told.code), 0);
    SBX_AUTO_CLOSE int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    static char text[256UL * 1024];
    size_t used = 0;
    for (bool all = false; !all;) {
        all = sbx_timeline_flush(place.timeline);
        ssize_t length = read(reader, text + used, sizeof text - 1 - used);
        ck_assert_int_gt(length, 0);
        used += (size_t)length;
    }
    size_t lines = 0;
    for (size_t i = 0; i < used; i++) {
        lines += text[i] == '\n' ? 1U : 0U;
    }
    ck_assert_uint_eq(lines, atomic_load(&place.told.written) + 1);
    ck_assert_uint_gt(lines, 1000);
    ck_assert_uint_lt(lines, 20000);
    end(&place);
}
END_TEST

/* --- on the built program --- */

static size_t count_lines(const char *text)
{
    size_t count = 0;
    for (; (text = strchr(text, '\n')) != NULL; text++) {
        count++;
    }
    return count;
}

START_TEST(every_sample_is_a_row)
{
    const char *const command[] = {"@touch", "20", NULL};
    const char *const names[] = {"t.csv", "t.jsonl"};
    char options[2 * SBX_FIXTURE_PATH_SIZE];
    char path[SBX_FIXTURE_PATH_SIZE];
    bool json = (_i & 1) != 0;
    (void)sbx_fixture_path(path, names[_i & 1]);
    ck_assert_int_eq(chmod(sbx_fixture_dir(), 0777), 0);
    (void)snprintf(options, sizeof options, "--wall 700ms --interval 20ms --timeline %s",
                   path);
    struct sbx_trial trial = {
        .command = command, .options = options, .as_nobody = _i >= 2};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 124, "breach", "wall");
    sbx_trial_expect_empty(&trial);
    int64_t samples = sbx_trial_integer(&trial, "sampling.samples");
    char *text = read_text(path);
    ck_assert_int_eq((int64_t)count_lines(text), samples + (json ? 0 : 1));
    ck_assert_int_gt(samples, 5);
    uint64_t before = 0;
    uint64_t most = 0;
    const char *next = json ? text : text + strlen(HEADER);
    for (; *next != '\0'; next = strchr(next, '\n') + 1) {
        uint64_t row[COLUMNS] = {0};
        if (json) {
            json_t *object = json_loadb(next, strcspn(next, "\n"), 0, NULL);
            ck_assert_ptr_nonnull(object);
            row[0] = (uint64_t)json_integer_value(json_object_get(object, "elapsed_us"));
            row[3] = (uint64_t)json_integer_value(
                json_object_get(object, "memory_bound_bytes"));
            json_decref(object);
        } else {
            row[0] = strtoull(next, NULL, 10);
            const char *bound = strchr(strchr(strchr(next, ',') + 1, ',') + 1, ',') + 1;
            row[3] = strtoull(bound, NULL, 10);
        }
        ck_assert_uint_gt(row[0], before);
        before = row[0];
        most = row[3] > most ? row[3] : most;
    }
    ck_assert_uint_ge(most, 20UL * 1024 * 1024);
    free(text);
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(rows_are_seen_while_the_run_goes_on)
{
    static const char *const command[] = {"sleep", "60", NULL};
    char options[2 * SBX_FIXTURE_PATH_SIZE];
    char path[SBX_FIXTURE_PATH_SIZE];
    (void)snprintf(options, sizeof options, "--interval 20ms --timeline %s",
                   sbx_fixture_path(path, "t.csv"));
    struct sbx_trial trial = {.command = command, .options = options};
    sbx_trial_start(&trial);
    sbx_fixture_wait_file(path, 20);
    size_t lines = 0;
    for (uint64_t until = sbx_clock_us() + 20 * SBX_US_PER_S;
         lines < 10 && sbx_clock_us() < until;) {
        char *text = read_text(path);
        lines = count_lines(text);
        free(text);
        (void)poll(NULL, 0, 5);
    }
    ck_assert_uint_ge(lines, 10);
    ck_assert_int_eq(kill(trial.pid, SIGTERM), 0);
    sbx_trial_wait(&trial);
    sbx_trial_expect(&trial, 143, "cancelled", NULL);
    ck_assert_int_eq(sbx_trial_integer(&trial, "warnings_count"), 0);
    sbx_trial_done(&trial);
}
END_TEST

/* How often the monitor (the one that waits in epoll_wait) has sent something. */
static size_t count_sends(const char *path)
{
    char line[4096];
    long monitor = 0;
    size_t count = 0;
    FILE *trace = fopen(path, "re");
    ck_assert_ptr_nonnull(trace);
    for (int pass = 0; pass < 2; pass++) {
        rewind(trace);
        while (fgets(line, sizeof line, trace) != NULL) {
            char *name = NULL;
            long pid = strtol(line, &name, 10);
            name += strspn(name, " ");
            monitor = strncmp(name, "epoll_wait(", 11) == 0 ? pid : monitor;
            count += pass == 1 && pid == monitor && strncmp(name, "send", 4) == 0 ? 1 : 0;
        }
    }
    ck_assert_int_gt(monitor, 0);
    (void)fclose(trace);
    return count;
}

/* A row costs the monitor one system call, and without the option nothing is sent. */
START_TEST(a_row_is_one_call)
{
    static const char *const command[] = {"sleep", "60", NULL};
    static const char *const probe[] = {"strace", "-o", "/dev/null", "true", NULL};
    const char *const launcher[] = {"strace", "-f",      "-e", "trace=epoll_wait,sendto",
                                    "-o",     "@/trace", NULL};
    char path[SBX_FIXTURE_PATH_SIZE];
    struct sbx_trial trial = {.command = probe};
    sbx_trial_run(&trial);
#ifdef __SANITIZE_ADDRESS__
    bool traces = false; /* leaks cannot be looked for then */
#else
    bool traces = trial.status == 0;
#endif
    sbx_trial_done(&trial);
    if (!traces) {
        (void)fprintf(stderr, "# SKIP: no strace here, or sanitized\n");
        return;
    }
    trial = (struct sbx_trial){.command = command, .launcher = launcher};
    char options[3 * SBX_FIXTURE_PATH_SIZE];
    (void)snprintf(options, sizeof options, "--wall 500ms --interval 20ms%s%s",
                   _i == 0 ? " --timeline " : "",
                   _i == 0 ? sbx_fixture_path(path, "rows") : "");
    trial.options = options;
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 124, "breach", "wall");
    size_t samples = (size_t)sbx_trial_integer(&trial, "sampling.samples");
    size_t sends = count_sends(sbx_trial_path(&trial, path, "trace"));
    ck_assert_uint_ge(sends, _i == 0 ? samples : 1);
    /* And the reader is asked for PSS now and then; the end is told to two. */
    ck_assert_uint_le(sends, (_i == 0 ? samples : 0) + 12);
    sbx_trial_done(&trial);
}
END_TEST

/* An earlier one is replaced, but not by a run that never was. */
START_TEST(a_refused_run_leaves_it_alone)
{
    static const char *const command[] = {"true", NULL};
    static const char *const refused[] = {"--rlimit nproc=99999999999",
                                          "--report /nonexistent/r", "--wall 0"};
    char options[2 * SBX_FIXTURE_PATH_SIZE];
    char path[SBX_FIXTURE_PATH_SIZE];
    SBX_AUTO_CLOSE int fd =
        open(sbx_fixture_path(path, "t.csv"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_eq(write(fd, "before\n", 7), 7);
    (void)snprintf(options, sizeof options, "--timeline %s %s", path,
                   _i < 3 ? refused[_i] : "");
    if (_i == 0) {
        (void)snprintf(options, sizeof options, "--timeline %s --log file:/", path);
    }
    struct sbx_trial trial = {
        .command = command, .options = options, .without_report = true};
    sbx_trial_run(&trial);
    ck_assert_int_eq(trial.status, _i < 3 ? 125 : 0);
    char *text = read_text(path);
    ck_assert_int_eq(strcmp(text, "before\n") == 0, _i < 3);
    ck_assert_int_eq(strncmp(text, HEADER, strlen(HEADER)) == 0, _i == 3);
    free(text);
    sbx_trial_done(&trial);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("timeline");
    TCase *rows = sbx_fixture_case(suite, "rows", 30);
    tcase_add_test(rows, a_row_says_what_was_measured);
    tcase_add_loop_test(rows, a_file_that_is_full_is_set_aside, 0, 2);
    tcase_add_loop_test(rows, a_name_that_leads_elsewhere_is_left_alone, 0, 3);
    tcase_add_test(rows, a_second_writer_goes_on);
    tcase_add_test(rows, a_full_disk_is_counted);
    tcase_add_test(rows, a_row_that_broke_off_ends_there);
    tcase_add_test(rows, a_pipe_that_takes_nothing_keeps_a_bounded_number);
    TCase *program = sbx_fixture_case(suite, "program", 60);
    tcase_add_loop_test(program, every_sample_is_a_row, 0, 2 * sbx_trial_identities());
    tcase_add_loop_test(program, a_row_is_one_call, 0, 2);
    tcase_add_test(program, rows_are_seen_while_the_run_goes_on);
    tcase_add_loop_test(program, a_refused_run_leaves_it_alone, 0, 4);
    return sbx_fixture_run(suite);
}
