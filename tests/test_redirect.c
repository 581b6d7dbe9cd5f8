/*
 * test_redirect.c - --stdin, --stdout, --stderr: files that are the command's own, errors
 * that are found before anything runs, and full disks.
 *
 * Runs the built program.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "tests/fixture.h"
#include "tests/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH(array) (int)(sizeof(array) / sizeof((array)[0]))
#define QUICK_US 25000000

static void write_file(const struct sbx_trial *trial, const char *name, const char *text)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    SBX_AUTO_CLOSE int fd = open(sbx_trial_path(trial, path, name),
                                 O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || sbx_fd_write_all(fd, text, strlen(text)) < 0 || fchmod(fd, 0666) < 0) {
        _exit(1);
    }
}

static void make_files(const struct sbx_trial *trial)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    write_file(trial, "in", "what was given\n");
    write_file(trial, "old", "what was there before, and is long\n");
    if (mkdir(sbx_trial_path(trial, path, "directory"), 0755) < 0 ||
        mkfifo(sbx_trial_path(trial, path, "fifo"), 0666) < 0 ||
        chmod(sbx_trial_path(trial, path, "fifo"), 0666) < 0 ||
        chdir(trial->directory) < 0) {
        _exit(1);
    }
}

/* The file's text; the caller's until the next call. "(none)": there is no such file. */
static const char *text_of(const struct sbx_trial *trial, const char *name)
{
    static char text[4096];
    char path[SBX_FIXTURE_PATH_SIZE];
    ssize_t length = sbx_fd_read_text_at(AT_FDCWD, sbx_trial_path(trial, path, name),
                                         text, sizeof(text));
    return length < 0 ? "(none)" : text;
}

static const struct good_row {
    const char *options;
    const char *script;
    const char *file;
    const char *text;
    const char *out;
    const char *err;
} good[] = {
    {"--stdin @/in", "cat", "in", "what was given\n", "what was given\n", ""},
    {"--stdin in", "cat", "in", "what was given\n", "what was given\n", ""},
    {"--stdin null", "cat; echo end", "in", "what was given\n", "end\n", ""},
    {"--stdin /dev/zero --stdin inherit", "cat", "old",
     "what was there before, and is long\n", "", ""},
    {"--stdout old", "echo new", "old", "new\n", "", ""},
    {"--stdout @/new", "echo new; echo err >&2", "new", "new\n", "", "err\n"},
    {"--stderr new", "echo new; echo err >&2", "new", "err\n", "new\n", ""},
    {"--stdout new --stderr new", "echo 1; echo 2 >&2; echo 3", "new", "1\n2\n3\n", "",
     ""},
    {"--stdout new --stderr @/new", "echo 1; echo 2 >&2; echo 3", "new", "1\n2\n3\n", "",
     ""},
    {"--stdout new --stderr new --output 1M", "echo 1; echo 2 >&2; echo 3", "new",
     "1\n2\n3\n", "", ""},
    {"--stdin in --stdout old --stderr new --idle 20", "cat; echo err >&2", "old",
     "what was given\n", "", ""},
    {"--stdout - --stderr null", "echo out; echo err >&2", "-", "out\n", "", ""},
    {"--stdout /dev/null --stderr /dev/null", "echo out; echo err >&2", "new", "(none)",
     "", ""},
    {"--stdin fifo", "cat", "new", "(none)", "from the other side\n", ""},
};

/* The other side of the FIFO comes later. */
static pid_t feed_fifo(const struct sbx_trial *trial)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void)alarm(50);
        (void)poll(NULL, 0, 100);
        int fd = -1;
        while (fd < 0) {
            fd = open(sbx_trial_path(trial, path, "fifo"), O_WRONLY | O_CLOEXEC);
            (void)poll(NULL, 0, 5);
        }
        _exit(sbx_fd_write_all(fd, "from the other side\n", 20) < 0);
    }
    return pid;
}

START_TEST(streams_lead_where_they_are_told)
{
    const struct good_row *row = &good[_i];
    const char *const command[] = {"sh", "-c", row->script, NULL};
    for (int identity = 0; identity < sbx_trial_identities(); identity++) {
        struct sbx_trial trial = {.command = command,
                                  .options = row->options,
                                  .prepare = make_files,
                                  .as_nobody = identity == 1};
        sbx_trial_start(&trial);
        bool fed = strstr(row->options, "fifo") != NULL;
        pid_t feeder = fed ? feed_fifo(&trial) : 0;
        sbx_trial_wait(&trial);
        if (fed) {
            ck_assert_int_eq(waitpid(feeder, NULL, 0), feeder);
        }
        sbx_trial_expect(&trial, 0, "exited", NULL);
        sbx_trial_expect_empty(&trial);
        ck_assert_str_eq(text_of(&trial, row->file), row->text);
        ck_assert_str_eq(trial.out, row->out);
        ck_assert_str_eq(trial.err, row->err);
        ck_assert_int_eq(sbx_trial_has(&trial, "output_truncated"),
                         strstr(row->options, "--output") != NULL ||
                             strstr(row->options, "--idle") != NULL);
        sbx_trial_done(&trial);
    }
}
END_TEST

static const struct bad_row {
    const char *options;
    const char *message;
    int code;
} bad[] = {
    {"--stdin missing", "option --stdin: 'missing': no such file or directory (ENOENT)",
     ENOENT},
    {"--stdin directory", "option --stdin: 'directory': is a directory (EISDIR)", EISDIR},
    {"--stdin fifo", "option --stdin: 'fifo': a FIFO that nobody has opened to write",
     ENXIO},
    {"--stdout directory", "option --stdout: 'directory': is a directory (EISDIR)",
     EISDIR},
    {"--stdout missing/new", "option --stdout: 'missing/new': no such file", ENOENT},
    {"--stderr fifo", "option --stderr: 'fifo': a FIFO that nobody has opened to read",
     ENXIO},
    {"--stdin old --stdout old", "the same file as --stdin", EINVAL},
    {"--stdin old --stderr @/old", "the same file as --stdin", EINVAL},
    {"--stdout old --stdin missing", "option --stdin: 'missing'", ENOENT},
    {"--stdout old --stderr missing/new", "option --stderr: 'missing/new'", ENOENT},
    {"--stdout report", "the same file as --report", EINVAL},
    {"--stdout new --log file:new", "option --stdout: 'new': the same file as --log",
     EINVAL},
    {"--stderr new --timeline new", "the same file as --timeline", EINVAL},
    {"--log file:report", "option --log: 'report': the same file as --report", EINVAL},
    {"--timeline @/report", "the same file as --report", EINVAL},
    {"--timeline new --log stderr --log file:new", "the same file as --log", EINVAL},
};

/* Nothing runs, and nothing is emptied. */
START_TEST(what_cannot_be_opened_is_told_before_anything_runs)
{
    static const char *const command[] = {"sh", "-c", ": >ran", NULL};
    const struct bad_row *row = &bad[_i];
    struct sbx_trial trial = {
        .command = command, .options = row->options, .prepare = make_files};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 125, "launch-failed", NULL);
    ck_assert_msg(strstr(sbx_trial_string(&trial, "error.message"), row->message) != NULL,
                  "%s", sbx_trial_string(&trial, "error.message"));
    ck_assert_msg(strstr(trial.err, row->message) != NULL, "%s", trial.err);
    ck_assert_int_eq(sbx_trial_integer(&trial, "error.errno"), row->code);
    ck_assert_str_eq(sbx_trial_string(&trial, "error.stage"),
                     strncmp(row->options, "--std", 5) == 0 ? "launch" : "check");
    ck_assert_str_eq(text_of(&trial, "ran"), "(none)");
    ck_assert_str_eq(text_of(&trial, "old"), "what was there before, and is long\n");
    ck_assert_uint_lt(trial.elapsed_us, QUICK_US);
    sbx_trial_done(&trial);
}
END_TEST

/* The command's own file: it sees the full disk itself. */
START_TEST(a_full_disk_is_the_commands)
{
    static const char *const command[] = {"sh", "-c", "echo lost", NULL};
    struct sbx_trial trial = {.command = command, .options = "--stdout /dev/full"};
    sbx_trial_run(&trial);
    ck_assert_int_ne(trial.status, 0);
    sbx_trial_expect(&trial, trial.status, "exited", NULL);
    ck_assert(!sbx_trial_has(&trial, "output_truncated"));
    sbx_trial_done(&trial);
}
END_TEST

/* A captured one: the run goes on, and what was lost is told. */
START_TEST(a_full_disk_truncates_captured_output)
{
    static const char *const command[] = {"sh", "-c", "echo lost; sleep 0.2; exit 5",
                                          NULL};
    struct sbx_trial trial = {.command = command,
                              .options = "--output 1M --stdout /dev/full"};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 5, "exited", NULL);
    sbx_trial_validate(&trial);
    ck_assert(sbx_trial_boolean(&trial, "output_truncated"));
    ck_assert_int_eq(sbx_trial_integer(&trial, "usage.output_bytes"), 5);
    const char *warning = sbx_trial_string(&trial, "warnings.0");
    ck_assert_msg(strstr(warning, "standard output, /dev/full: ") != NULL &&
                      strstr(warning, "ENOSPC") != NULL,
                  "%s", warning);
    sbx_trial_done(&trial);
}
END_TEST

static const char *const ways[] = {NULL, "--output 1M", "--output 1M --stdout @/new",
                                   "--idle 20 --stdin null"};

START_TEST(closed_streams_are_no_trouble)
{
    static const char *const command[] = {"sh", "-c", "cat; echo out; echo err >&2",
                                          NULL};
    for (int closed = 1; closed < 8; closed++) {
        struct sbx_trial trial = {.command = command, .options = ways[_i]};
        for (int i = 0; i < 3; i++) {
            trial.stdio[i] = (closed >> i & 1) != 0 ? SBX_TRIAL_CLOSED : 0;
        }
        sbx_trial_run(&trial);
        sbx_trial_expect(&trial, 0, "exited", NULL);
        sbx_trial_expect_empty(&trial);
        bool moved = _i == 2;
        ck_assert_str_eq(trial.out, (closed & 2) != 0 || moved ? "" : "out\n");
        ck_assert_str_eq(trial.err, (closed & 4) != 0 ? "" : "err\n");
        if (moved) {
            ck_assert_str_eq(text_of(&trial, "new"), "out\n");
        }
        sbx_trial_done(&trial);
    }
}
END_TEST

/* Nothing of ours is left open in the command. */
START_TEST(no_descriptor_leaks_into_the_command)
{
    static const char *const command[] = {"sh", "-c", "ls /proc/self/fd | tr '\\n' ' '",
                                          NULL};
    static const char *const options[] = {NULL, "--output 1M", "--idle 20 --stdin null",
                                          "--stdin null --stdout @/out --stderr @/err"};
    char first[64] = "";
    for (int i = 0; i < LENGTH(options); i++) {
        struct sbx_trial trial = {.command = command, .options = options[i]};
        sbx_trial_run(&trial);
        sbx_trial_expect(&trial, 0, "exited", NULL);
        if (i == 0) {
            (void)snprintf(first, sizeof(first), "%s", trial.out);
        }
        ck_assert_str_eq(trial.out, first); /* 0, 1, 2, and that of ls itself */
        sbx_trial_done(&trial);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redirect");
    TCase *files = sbx_fixture_case(suite, "files", 120);
    tcase_add_loop_test(files, streams_lead_where_they_are_told, 0, LENGTH(good));
    tcase_add_loop_test(files, what_cannot_be_opened_is_told_before_anything_runs, 0,
                        LENGTH(bad));
    tcase_add_test(files, a_full_disk_is_the_commands);
    tcase_add_test(files, a_full_disk_truncates_captured_output);
    tcase_add_loop_test(files, closed_streams_are_no_trouble, 0, LENGTH(ways));
    tcase_add_test(files, no_descriptor_leaks_into_the_command);
    return sbx_fixture_run(suite);
}
