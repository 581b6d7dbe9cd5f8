/*
 * test_formats.c - --format and --report-fd on the built program: each form on real runs,
 * and the descriptor as a file, a pipe, a socket; what is no place for a report is
 * refused before anything runs, and a reader that is gone or slow costs no more than its
 * patience.
 */
#include "base/fd.h"
#include "monitor/render.h"
#include "monitor/report.h"
#include "tests/kv.h"
#include "tests/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define REPORT_FD 9

static char rendered[SBX_RENDER_SIZE];

/* Runs that end in different ways. */
static const struct {
    const char *command[6];
    const char *options;
    int status;
} runs[] = {
    {{"sh", "-c", "echo out; exit 3", NULL}, "--rlimit nofile=64 --wall 60", 3},
    {{"sh", "-c", "kill -9 $$", NULL}, "--rlimit core=unlimited", 137},
    {{"sleep", "60", NULL}, "--wall 0.1 --grace 0.1 --warn 1", 124},
    {{"sh", "-c", "setsid sleep 60 & sleep 0.1", NULL}, "", 0},
    {{"./no such\tcommand \"\\\xff", NULL}, "", 127},
    {{"true", "", "a b", "\"q\"", "\\", NULL}, "--processes 5", 0},
};

static char *read_file(const struct sbx_trial *trial, const char *name)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char *text = calloc(1, SBX_TRIAL_TEXT_SIZE);
    ck_assert_ptr_nonnull(text);
    SBX_AUTO_CLOSE int fd = open(sbx_trial_path(trial, path, name), O_RDONLY | O_CLOEXEC);
    ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
    ck_assert_int_ge(read(fd, text, SBX_TRIAL_TEXT_SIZE - 1), 0);
    return text;
}

static bool exists(const struct sbx_trial *trial, const char *name)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    return access(sbx_trial_path(trial, path, name), F_OK) == 0;
}

/* The JSON of a real run, as kv. */
START_TEST(test_real_json_as_kv)
{
    struct sbx_trial trial = {.command = runs[_i].command, .options = runs[_i].options};
    sbx_trial_run(&trial);
    ck_assert_int_eq(trial.status, runs[_i].status);
    char *json = read_file(&trial, "report");
    ck_assert_int_gt(sbx_render_kv(json, strlen(json), rendered, sizeof rendered), 0);
    kv_expect_same(rendered, json);
    ck_assert_int_gt(sbx_render_text(json, strlen(json), rendered, sizeof rendered), 0);
    free(json);
    sbx_trial_expect_empty(&trial);
    sbx_trial_done(&trial);
}
END_TEST

/* The program's own kv: lines that lead back to a valid report of such a run. */
START_TEST(test_real_kv)
{
    char options[256];
    (void)snprintf(options, sizeof options, "%s --format kv -r @/r.kv", runs[_i].options);
    struct sbx_trial trial = {
        .command = runs[_i].command, .options = options, .without_report = true};
    sbx_trial_run(&trial);
    ck_assert_int_eq(trial.status, runs[_i].status);
    char *kv = read_file(&trial, "r.kv");
    trial.report = kv_rebuild(kv);
    char *line = json_dumps(trial.report, JSON_COMPACT);
    char *whole = NULL;
    ck_assert_int_gt(asprintf(&whole, "%s\n", line), 0);
    sbx_fixture_collect(whole);
    ck_assert_str_eq(sbx_trial_string(&trial, "schema"), "sbx.report/1");
    kv_expect_same(kv, line);
    free(line);
    free(whole);
    free(kv);
    sbx_trial_expect_empty(&trial);
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(test_real_text)
{
    static const char *const verdicts[LENGTH(runs)] = {
        "exited: the command exited with 3; ",
        "signaled: the command was ended by SIGKILL; ",
        "breach: wall limit 100.0ms, observed ",
        "exited: the command exited with 0; ",
        "launch-failed: nothing ran: exec ",
        "exited: the command exited with 0; ",
    };
    char options[256];
    (void)snprintf(options, sizeof options, "%s --format=text -r @/r.txt",
                   runs[_i].options);
    struct sbx_trial trial = {
        .command = runs[_i].command, .options = options, .without_report = true};
    sbx_trial_run(&trial);
    ck_assert_int_eq(trial.status, runs[_i].status);
    char *text = read_file(&trial, "r.txt");
    ck_assert_msg(strncmp(text, verdicts[_i], strlen(verdicts[_i])) == 0, "%s", text);
    ck_assert_ptr_nonnull(strstr(text, "\nrun\n"));
    free(text);
    sbx_trial_done(&trial);
}
END_TEST

/* --- the descriptor --- */

/* Makes what trial->context says REPORT_FD of the program. */
static void place_descriptor(const struct sbx_trial *trial)
{
    const int *fd = trial->context;
    if (dup2(*fd, REPORT_FD) < 0) {
        _exit(121);
    }
}

static const char *const quick[] = {"true", NULL};
static const char *const fds[] = {"@print_fds", NULL};
static const char *const touch[] = {"touch", "ran", NULL};

static json_t *parse(const char *text)
{
    json_error_t error;
    json_t *report = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(report != NULL, "%s: %s", error.text, text);
    sbx_fixture_collect(text);
    return report;
}

static void expect_outcome(const char *text, const char *outcome)
{
    json_t *report = parse(text);
    ck_assert_str_eq(json_string_value(json_object_get(report, "outcome")), outcome);
    json_decref(report);
}

/* A file, in place, beside --report: both have the same; the command has neither. */
START_TEST(test_file)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char text[4096];
    SBX_AUTO_CLOSE int fd =
        open(sbx_fixture_path(path, "by-fd"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "before\n", 7), 7);
    struct sbx_trial trial = {.command = fds,
                              .options = "--report-fd 9",
                              .prepare = place_descriptor,
                              .context = &fd,
                              .as_nobody = _i == 1};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    ck_assert_msg(strstr(trial.out, "9 ") == NULL, "%s", trial.out);
    ck_assert_int_gt(sbx_fd_pread_text(fd, text, sizeof text), 0);
    char *same = read_file(&trial, "report");
    ck_assert_int_eq(strncmp(text, "before\n", 7), 0);
    ck_assert_str_eq(text + 7, same);
    free(same);
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(test_kept_for_the_command_too)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    SBX_AUTO_CLOSE int fd =
        open(sbx_fixture_path(path, "by-fd"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    struct sbx_trial trial = {.command = fds,
                              .options = "--report-fd 9 --keep-fd 9",
                              .prepare = place_descriptor,
                              .context = &fd};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    ck_assert_msg(strstr(trial.out, "\n9 ") != NULL, "%s", trial.out);
    sbx_trial_done(&trial);
}
END_TEST

/* Everything that a pipe or socket says until its end. */
static void read_all(int fd, char *text, size_t size)
{
    size_t used = 0;
    ssize_t length;
    while ((length = read(fd, text + used, size - 1 - used)) > 0) {
        used += (size_t)length;
    }
    text[used] = '\0';
}

/* In pipe and socket; no process of the run holds the other end open any more. */
START_TEST(test_pipe_and_socket)
{
    int ends[2];
    char text[8192];
    int r = _i % 2 == 0 ? pipe2(ends, O_CLOEXEC)
                        : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends);
    ck_assert_int_eq(r, 0);
    struct sbx_trial trial = {.command = quick,
                              .options = "--report-fd=9",
                              .without_report = true,
                              .prepare = place_descriptor,
                              .context = &ends[1],
                              .as_nobody = _i >= 2};
    sbx_trial_run(&trial);
    ck_assert_int_eq(trial.status, 0);
    ck_assert_int_eq(close(ends[1]), 0);
    read_all(ends[0], text, sizeof text);
    ck_assert_int_eq(close(ends[0]), 0);
    expect_outcome(text, "exited");
    sbx_trial_done(&trial);
}
END_TEST

/* Nobody reads, and nobody ever will: the status says so, the other report is there. */
START_TEST(test_reader_is_gone)
{
    int ends[2];
    ck_assert_int_eq(_i == 0 ? pipe2(ends, O_CLOEXEC)
                             : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends),
                     0);
    ck_assert_int_eq(close(ends[0]), 0);
    struct sbx_trial trial = {.command = quick,
                              .options = "--report-fd 9",
                              .prepare = place_descriptor,
                              .context = &ends[1]};
    sbx_trial_run(&trial);
    ck_assert_int_eq(close(ends[1]), 0);
    sbx_trial_expect(&trial, 125, "exited", NULL);
    ck_assert_str_eq(
        trial.err,
        "sbx-watch: report descriptor 9: cannot be written: broken pipe (EPIPE)\n");
    sbx_trial_done(&trial);
}
END_TEST

/* Full, and nobody makes room: given up after some patience. */
START_TEST(test_reader_is_slow)
{
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    while (write(ends[1], "x", 1) == 1) {
        continue;
    }
    ck_assert_int_eq(fcntl(ends[1], F_SETFL, 0), 0);
    struct sbx_trial trial = {.command = quick,
                              .options = "--report-fd 9",
                              .prepare = place_descriptor,
                              .context = &ends[1],
                              .as_nobody = _i == 1};
    sbx_trial_run(&trial);
    ck_assert_int_eq(close(ends[0]), 0);
    ck_assert_int_eq(close(ends[1]), 0);
    sbx_trial_expect(&trial, 125, "exited", NULL);
    ck_assert_ptr_nonnull(strstr(trial.err, "report descriptor 9: cannot be written: "));
    ck_assert_uint_lt(trial.elapsed_us, 20000000);
    sbx_trial_done(&trial);
}
END_TEST

/* Not fit for a report: nothing runs. */
static const struct {
    const char *path; /* opened as REPORT_FD; NULL: nothing is */
    int flags;
    const char *says;
} unfit[] = {
    {NULL, 0, "option --report-fd: descriptor 9 is not open\n"},
    {"/dev/null", O_RDONLY, "option --report-fd: descriptor 9 is not open for writing\n"},
    {"/dev/null", O_PATH, "option --report-fd: descriptor 9 is not open for writing\n"},
    {"/tmp", O_RDONLY, "option --report-fd: descriptor 9 is not open for writing\n"},
};

static void go_to_directory(const struct sbx_trial *trial)
{
    if (chdir(trial->directory) < 0) {
        _exit(121);
    }
}

static void open_unfit(const struct sbx_trial *trial)
{
    const char *path = unfit[*(const int *)trial->context].path;
    (void)close(REPORT_FD);
    if (path != NULL) {
        /* NOLINTNEXTLINE(android-cloexec-open): to be inherited */
        int fd = open(path, unfit[*(const int *)trial->context].flags);
        if (fd < 0 || (fd != REPORT_FD && dup2(fd, REPORT_FD) < 0)) {
            _exit(121);
        }
    }
    go_to_directory(trial);
}

START_TEST(test_unfit)
{
    struct sbx_trial trial = {.command = touch,
                              .options = "--report-fd 9",
                              .prepare = open_unfit,
                              .context = &_i};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 125, "launch-failed", NULL);
    ck_assert_msg(strstr(trial.err, unfit[_i].says) != NULL, "%s", trial.err);
    ck_assert(!exists(&trial, "ran"));
    sbx_trial_done(&trial);
}
END_TEST

/* Only the standard streams are inherited, so that whatever else is open is the
 * program's. */
static void close_all(const struct sbx_trial *trial)
{
    (void)close_range(3, ~0U, 0);
    go_to_directory(trial);
}

/* A descriptor of ours is none of the caller's, whatever number it was given. */
START_TEST(test_own_descriptor_is_refused)
{
    const char *const command[] = {"true", NULL};
    for (int fd = 3; fd <= 12; fd++) {
        char options[128];
        (void)snprintf(options, sizeof options, "--report relative --report-fd %d", fd);
        struct sbx_trial trial = {.command = command,
                                  .options = options,
                                  .without_report = true,
                                  .prepare = close_all};
        sbx_trial_run(&trial);
        ck_assert_int_eq(trial.status, 125);
        ck_assert_ptr_nonnull(strstr(trial.err, " is not open"));
        sbx_trial_done(&trial);
    }
}
END_TEST

/* Where nothing ran, the descriptor is told so, also when the path is the reason. */
static const struct {
    const char *options;
    const char *says;
} failures[] = {
    {"--report-fd 9 --wall 5x", "option --wall: '5x'"},
    {"--wall 5x --report-fd 9", "option --wall: '5x'"},
    {"--report-fd 9 --report @/no/such/directory/r", "no/such/directory/r"},
    {"--report-fd 9 --format kv --rlimit nproc=unlimitedx", "rlimit"},
};

START_TEST(test_failures_are_told)
{
    int ends[2];
    char text[8192];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    struct sbx_trial trial = {.command = quick,
                              .options = failures[_i].options,
                              .without_report = true,
                              .prepare = place_descriptor,
                              .context = &ends[1]};
    sbx_trial_run(&trial);
    ck_assert_int_eq(close(ends[1]), 0);
    read_all(ends[0], text, sizeof text);
    ck_assert_int_eq(close(ends[0]), 0);
    ck_assert_int_eq(trial.status, 125);
    ck_assert_msg(strstr(text, failures[_i].says) != NULL, "%s", text);
    ck_assert_msg(strstr(text, "launch-failed") != NULL, "%s", text);
    if (text[0] == '{') {
        expect_outcome(text, "launch-failed");
    }
    sbx_trial_done(&trial);
}
END_TEST

/* Standard output and error are descriptors like others, unless they were closed. */
START_TEST(test_standard_streams)
{
    struct sbx_trial out = {
        .command = quick, .options = "--report-fd 1", .without_report = true};
    sbx_trial_run(&out);
    ck_assert_int_eq(out.status, 0);
    expect_outcome(out.out, "exited");
    sbx_trial_done(&out);
    struct sbx_trial err = {
        .command = quick, .options = "--report-fd 2", .without_report = true};
    sbx_trial_run(&err);
    ck_assert_int_eq(err.status, 0);
    expect_outcome(err.err, "exited");
    sbx_trial_done(&err);
    struct sbx_trial closed = {
        .command = quick, .options = "--report-fd 1", .stdio = {0, SBX_TRIAL_CLOSED, 0}};
    sbx_trial_run(&closed);
    sbx_trial_expect(&closed, 125, "launch-failed", NULL);
    ck_assert_str_eq(closed.err,
                     "sbx-watch: option --report-fd: 1: standard output is closed\n");
    sbx_trial_done(&closed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("formats");
    int identities = sbx_trial_identities();
    TCase *forms = sbx_fixture_case(suite, "forms", 60);
    tcase_add_loop_test(forms, test_real_json_as_kv, 0, (int)LENGTH(runs));
    tcase_add_loop_test(forms, test_real_kv, 0, (int)LENGTH(runs));
    tcase_add_loop_test(forms, test_real_text, 0, (int)LENGTH(runs));
    TCase *descriptor = sbx_fixture_case(suite, "descriptor", 60);
    tcase_add_loop_test(descriptor, test_file, 0, identities);
    tcase_add_test(descriptor, test_kept_for_the_command_too);
    tcase_add_loop_test(descriptor, test_pipe_and_socket, 0, 2 * identities);
    tcase_add_loop_test(descriptor, test_reader_is_gone, 0, 2);
    tcase_add_loop_test(descriptor, test_reader_is_slow, 0, identities);
    tcase_add_loop_test(descriptor, test_unfit, 0, (int)LENGTH(unfit));
    tcase_add_test(descriptor, test_own_descriptor_is_refused);
    tcase_add_loop_test(descriptor, test_failures_are_told, 0, (int)LENGTH(failures));
    tcase_add_test(descriptor, test_standard_streams);
    return sbx_fixture_run(suite);
}
