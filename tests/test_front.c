/*
 * test_front.c - the command line of sbx-watch: what it takes for options and what for
 * the command, and that whatever is wrong means status 125, one line that says why, and
 * no run.
 */
#include "tests/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define WORD_MAX 12
#define OUTPUT_SIZE 16384

/* A run of sbx-watch in the test's directory. */
struct front {
    const char *words[WORD_MAX]; /* after the program's name */
    int closed;                  /* a standard stream to close before exec; 0: none */
    int out;                     /* descriptor for stdout; 0: the file "out" */
    int err;                     /* likewise for stderr, the file "err" */

    int status; /* as a shell has it */
    char out_text[OUTPUT_SIZE];
    char err_text[OUTPUT_SIZE];
};

static int output(int given, const char *name)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    if (given > 0) {
        return given;
    }
    return open(sbx_fixture_path(path, name), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC,
                0644);
}

static void become_front(const struct front *front)
{
    const char *argv[WORD_MAX + 2] = {"sbx-watch"};
    for (size_t i = 0; i < WORD_MAX && front->words[i] != NULL; i++) {
        argv[i + 1] = front->words[i];
    }
    int out = output(front->out, "out");
    int err = output(front->err, "err");
    if (chdir(sbx_fixture_dir()) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
        dup2(err, STDERR_FILENO) < 0) {
        _exit(99);
    }
    /* A directory of PATH that may not be searched would turn "not found" into "not
     * executable". */
    (void)setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 1);
    (void)signal(SIGPIPE, SIG_DFL);
    if (front->closed > 0) {
        (void)close(front->closed);
    }
    (void)execv(sbx_fixture_watch(), (char *const *)(const void *)argv);
    _exit(99);
}

static void read_text(const char *name, char text[static OUTPUT_SIZE])
{
    char path[SBX_FIXTURE_PATH_SIZE];
    int fd = open(sbx_fixture_path(path, name), O_RDONLY | O_CLOEXEC);
    ssize_t length = 0;
    if (fd >= 0) {
        length = read(fd, text, OUTPUT_SIZE - 1);
        (void)close(fd);
    }
    ck_assert_int_ge(length, 0);
    text[length] = '\0';
}

static void run(struct front *front)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        become_front(front);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    front->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    read_text("out", front->out_text);
    read_text("err", front->err_text);
}

static bool exists(const char *name)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    return access(sbx_fixture_path(path, name), F_OK) == 0;
}

struct row {
    const char *words[WORD_MAX];
    const char *says;
};

/* Each would make the file "ran". */
static const struct row bad[] = {
    {{"--wall", "5x", "touch", "ran"},
     "option --wall: '5x' is not a duration (accepted: "},
    {{"--wall=5x", "touch", "ran"}, "option --wall: '5x' is not a duration"},
    {{"-w5x", "touch", "ran"}, "option --wall: '5x' is not a duration"},
    {{"-w", "5x", "touch", "ran"}, "option --wall: '5x' is not a duration"},
    {{"-w=5", "touch", "ran"}, "option --wall: '=5' is not a duration"},
    {{"-qw", "5x", "touch", "ran"}, "option --wall: '5x' is not a duration"},
    {{"--wall", "", "touch", "ran"}, "option --wall: '' is not a duration"},
    {{"--wall=", "touch", "ran"}, "option --wall: '' is not a duration"},
    {{"--wall", "--", "touch", "ran"}, "option --wall: '--' is not a duration"},
    {{"--wall", "0", "touch", "ran"}, "option --wall: '0' is out of range"},
    {{"--wall", "1e30", "touch", "ran"}, "option --wall: '1e30' is not a duration"},
    {{"--wall", "0,5", "touch", "ran"}, "option --wall: '0,5' is not a duration"},
    {{"--memory", "512m", "touch", "ran"}, "option --memory: '512m' is not a size"},
    {{"--rlimit", "nofile", "touch", "ran"}, "option --rlimit: "},
    {{"--signal", "STOP", "touch", "ran"}, "option --signal: 'STOP' would stop"},
    {{"--keep-fd", "9999", "touch", "ran"}, "option --keep-fd: descriptor 9999 is not"},
    {{"--wal", "5", "touch", "ran"}, "unknown option --wal (try sbx-watch --help)"},
    {{"--walls=5", "touch", "ran"}, "unknown option --walls (try"},
    {{"--WALL", "5", "touch", "ran"}, "unknown option --WALL"},
    {{"--=5", "touch", "ran"}, "unknown option -- (try"},
    {{"---wall", "5", "touch", "ran"}, "unknown option ---wall"},
    {{"-z", "touch", "ran"}, "unknown option -z (try sbx-watch --help)"},
    {{"-qz5", "touch", "ran"}, "unknown option -z"},
    {{"-\n", "touch", "ran"}, "unknown option -\\x0A"},
    {{"-\xC3\xBC", "touch", "ran"}, "unknown option -\\xC3"},
    {{"--quiet=yes", "touch", "ran"}, "option --quiet: takes no value, 'yes' given"},
    {{"--quiet=", "touch", "ran"}, "option --quiet: takes no value"},
    {{"--help=all", "touch", "ran"}, "option --help: takes no value"},
    {{"--wall", "5x", "--help"}, "option --wall: '5x' is not a duration"},
    {{"-z", "--version"}, "unknown option -z"},
    {{"-w", "5x", "-m", "7x", "touch", "ran"}, "option --wall: '5x'"}, /* the first */
    {{"--wall"}, "option --wall: needs a value (DUR)"},
    {{"-w"}, "option --wall: needs a value (DUR)"},
    {{NULL}, "no command given (usage: sbx-watch [OPTION]... [--] COMMAND [ARG]...)"},
    {{"--"}, "no command given"},
    {{"-w", "5"}, "no command given"},
    {{"-q", "--"}, "no command given"},
};

START_TEST(test_bad)
{
    struct front front = {.status = 0};
    memcpy(front.words, bad[_i].words, sizeof front.words);
    run(&front);
    ck_assert_int_eq(front.status, 125);
    char wanted[256];
    (void)snprintf(wanted, sizeof wanted, "sbx-watch: %s", bad[_i].says);
    ck_assert_msg(strncmp(front.err_text, wanted, strlen(wanted)) == 0,
                  "'%s' does not begin with '%s'", front.err_text, wanted);
    const char *end = strchr(front.err_text, '\n');
    ck_assert_msg(end != NULL && end[1] == '\0', "not one line: '%s'", front.err_text);
    ck_assert_str_eq(front.out_text, "");
    ck_assert(!exists("ran"));
}
END_TEST

/* What reaches the command. */
static const struct row good[] = {
    {{"echo", "a", "-w", "--wall"}, "a -w --wall\n"},
    {{"--", "echo", "--", "b"}, "-- b\n"},
    {{"-w", "60", "echo", "c"}, "c\n"},
    {{"-w60", "echo", "c"}, "c\n"},
    {{"--wall=60", "--", "echo", "c"}, "c\n"},
    {{"--wall", "60s", "echo", "c"}, "c\n"},
    {{"-qw", "60", "-p100", "echo", "c"}, "c\n"},
    {{"-k0", "--linger=0", "echo", "c"}, "c\n"},
    {{"--memory", "1.5G", "-c", "1m", "--threads=100", "echo", ""}, "\n"},
    {{"--rlimit", "core=0", "--rlimit=nofile=100", "-s", "int", "echo", "d"}, "d\n"},
};

START_TEST(test_good)
{
    struct front front = {.status = 0};
    memcpy(front.words, good[_i].words, sizeof front.words);
    run(&front);
    ck_assert_msg(front.status == 0, "status %d: %s", front.status, front.err_text);
    ck_assert_str_eq(front.out_text, good[_i].says);
    ck_assert_str_eq(front.err_text, "");
}
END_TEST

START_TEST(test_status_is_the_commands)
{
    struct front front = {.words = {"-w60", "sh", "-c", "exit 7"}};
    run(&front);
    ck_assert_int_eq(front.status, 7);
}
END_TEST

/* A dash alone is an operand: there is no such command. */
START_TEST(test_dash_is_an_operand)
{
    struct front front = {.words = {"-", "--help"}};
    run(&front);
    ck_assert_int_eq(front.status, 127);
    ck_assert_str_eq(front.out_text, "");
}
END_TEST

static const struct row reports[] = {
    {{"-r", "r.json", "--wall", "5x", "touch", "ran"}, "5x"},
    {{"--wall", "5x", "-r", "r.json", "touch", "ran"}, "5x"},
    {{"--wall", "5x", "-qr", "r.json", "touch", "ran"}, "5x"},
    {{"-z", "--report=r.json", "touch", "ran"}, "unknown option -z"},
    {{"--walls=5", "--report", "r.json", "touch", "ran"}, "unknown option --walls"},
    {{"--report", "r.json"}, "no command given"},
};

START_TEST(test_report_of_an_option_error)
{
    struct front front = {.status = 0};
    memcpy(front.words, reports[_i].words, sizeof front.words);
    run(&front);
    ck_assert_int_eq(front.status, 125);
    char text[OUTPUT_SIZE];
    read_text("r.json", text);
    ck_assert_ptr_nonnull(strstr(text, "\"outcome\":\"launch-failed\""));
    ck_assert_ptr_nonnull(strstr(text, "\"stage\":\"options\""));
    sbx_fixture_collect(text);
    ck_assert_msg(strstr(text, reports[_i].says) != NULL, "%s", text);
    ck_assert(!exists("ran"));
}
END_TEST

/* What follows the first operand is the command's, also after an error: its own -r FILE
 * must not be overwritten. */
START_TEST(test_error_keeps_out_of_the_command)
{
    struct front front = {.words = {"--wall", "5x", "touch", "-r", "mine", "ran"}};
    run(&front);
    ck_assert_int_eq(front.status, 125);
    ck_assert(!exists("mine"));
    ck_assert(!exists("ran"));
    struct front unknown = {.words = {"--walls", "5", "-r", "mine", "touch", "ran"}};
    run(&unknown);
    ck_assert_int_eq(unknown.status, 125);
    ck_assert(!exists("mine"));
    ck_assert(!exists("ran"));
}
END_TEST

START_TEST(test_help_and_version)
{
    struct front front = {.words = {"-w", "5", "--help", "--wall", "5x"}};
    run(&front);
    ck_assert_int_eq(front.status, 0);
    ck_assert_ptr_eq(strstr(front.out_text, "Usage: sbx-watch "), front.out_text);
    ck_assert_str_eq(front.err_text, "");
    struct front version = {.words = {"-qV"}};
    run(&version);
    ck_assert_int_eq(version.status, 0);
    ck_assert_ptr_eq(strstr(version.out_text, "sbx-watch "), version.out_text);
    struct front short_help = {.words = {"-h"}};
    run(&short_help);
    ck_assert_str_eq(short_help.out_text, front.out_text);
}
END_TEST

START_TEST(test_help_on_a_full_device)
{
    struct front front = {.words = {_i == 0 ? "--help" : "--version"}};
    front.out = open("/dev/full", O_WRONLY | O_CLOEXEC);
    ck_assert_int_ge(front.out, 0);
    run(&front);
    ck_assert_int_eq(close(front.out), 0);
    ck_assert_int_eq(front.status, 125);
    ck_assert_str_eq(front.err_text, "sbx-watch: cannot write to stdout\n");
}
END_TEST

/* The reader of the messages has gone: the status still says what happened. */
START_TEST(test_nobody_reads_stderr)
{
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_int_eq(close(ends[0]), 0);
    struct front front = {.words = {"--wall", "5x", "touch", "ran"}, .err = ends[1]};
    run(&front);
    ck_assert_int_eq(close(ends[1]), 0);
    ck_assert_int_eq(front.status, 125);
    ck_assert(!exists("ran"));
}
END_TEST

START_TEST(test_closed_stderr)
{
    struct front front = {.words = {"-r", "r.json", "--wall", "5x", "touch", "ran"},
                          .closed = STDERR_FILENO};
    run(&front);
    ck_assert_int_eq(front.status, 125);
    char text[OUTPUT_SIZE];
    read_text("r.json", text);
    /* The message did not land in the file that was opened after it. */
    ck_assert_ptr_eq(strchr(text, '{'), text);
    sbx_fixture_collect(text);
    ck_assert(!exists("ran"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("front");
    TCase *wrong = sbx_fixture_case(suite, "bad", 30);
    tcase_add_loop_test(wrong, test_bad, 0, LENGTH(bad));
    tcase_add_loop_test(wrong, test_report_of_an_option_error, 0, LENGTH(reports));
    tcase_add_test(wrong, test_error_keeps_out_of_the_command);
    TCase *right = sbx_fixture_case(suite, "good", 30);
    tcase_add_loop_test(right, test_good, 0, LENGTH(good));
    tcase_add_test(right, test_status_is_the_commands);
    tcase_add_test(right, test_dash_is_an_operand);
    TCase *own = sbx_fixture_case(suite, "own", 30);
    tcase_add_test(own, test_help_and_version);
    tcase_add_loop_test(own, test_help_on_a_full_device, 0, 2);
    tcase_add_test(own, test_nobody_reads_stderr);
    tcase_add_test(own, test_closed_stderr);
    return sbx_fixture_run(suite);
}
