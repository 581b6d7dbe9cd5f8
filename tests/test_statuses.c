/*
 * test_statuses.c - the exit status of sbx-watch, and the report beside it that tells
 * apart what the status cannot.
 *
 * Runs the built program. Reports of each kind are held against the schema; not all, as
 * that takes longer than the runs. What a command inherits, and what becomes of processes
 * beside it, is in test_surroundings.c.
 */
#include "tests/fixture.h"
#include "tests/trial.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define QUICK_US 15000000 /* well below every grace and lifetime in here */

static void without_core(const struct sbx_trial *trial)
{
    const struct rlimit none = {0, 0};
    (void)trial;
    (void)setrlimit(RLIMIT_CORE, &none);
}

/* --- the command's own end ---------------------------------------------------------- */

static const int exit_codes[] = {0, 1, 7, 124, 125, 126, 127, 137, 143, 255};
#define EXIT_COUNT (int)(sizeof(exit_codes) / sizeof(exit_codes[0]))

START_TEST(an_exit_code_is_passed_on)
{
    int code = exit_codes[_i];
    char script[32];
    (void)snprintf(script, sizeof(script), "exit %d", code);
    const char *const command[] = {"sh", "-c", script, NULL};
    struct sbx_trial trial = {.command = command, .options = "--wall 30"};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, code, "exited", NULL);
    sbx_trial_expect_empty(&trial);
    if (_i == 0) {
        sbx_trial_validate(&trial);
    }
    ck_assert_int_eq(sbx_trial_integer(&trial, "exit_code"), code);
    ck_assert(!sbx_trial_has(&trial, "signal"));
    ck_assert(!sbx_trial_has(&trial, "error"));
    ck_assert_str_eq(trial.err, "");
    ck_assert_str_eq(trial.out, "");
    sbx_trial_done(&trial);
}
END_TEST

static const struct signal_row {
    int number;
    const char *name;
} signals[] = {
    {SIGTERM, "TERM"}, {SIGKILL, "KILL"}, {SIGSEGV, "SEGV"},
    {SIGABRT, "ABRT"}, {SIGINT, "INT"},   {SIGPIPE, "PIPE"},
};
#define SIGNAL_COUNT (int)(sizeof(signals) / sizeof(signals[0]))

START_TEST(a_signal_is_passed_on)
{
    const struct signal_row *row = &signals[_i];
    char script[32];
    char name[16];
    (void)snprintf(script, sizeof(script), "kill -%s $$", row->name);
    (void)snprintf(name, sizeof(name), "SIG%s", row->name);
    const char *const command[] = {"sh", "-c", script, NULL};
    struct sbx_trial trial = {
        .command = command, .options = "--wall 30", .prepare = without_core};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 128 + row->number, "signaled", NULL);
    sbx_trial_expect_empty(&trial);
    if (_i == 0) {
        sbx_trial_validate(&trial);
    }
    ck_assert_str_eq(sbx_trial_string(&trial, "signal"), name);
    ck_assert(!sbx_trial_has(&trial, "exit_code"));
    sbx_trial_done(&trial);
}
END_TEST

/* A command of the same number exits: the report tells the two apart. */
START_TEST(a_shell_that_exits_137_was_not_killed)
{
    const char *const command[] = {"sh", "-c", "sh -c 'kill -KILL $$'; exit $?", NULL};
    struct sbx_trial trial = {.command = command};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 137, "exited", NULL);
    ck_assert_int_eq(sbx_trial_integer(&trial, "exit_code"), 137);
    sbx_trial_done(&trial);
}
END_TEST

/* --- nothing ran -------------------------------------------------------------------- */

static void make_plain_file(const struct sbx_trial *trial)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    FILE *file = fopen(sbx_trial_path(trial, path, "plain"), "we");
    if (file == NULL || fputs("exit 0\n", file) < 0 || fclose(file) != 0 ||
        chmod(path, 0644) != 0) {
        _exit(1);
    }
}

static const struct failed_row {
    const char *command[4];
    const char *options;
    int status;
    const char *stage;
    const char *named; /* in the message */
} failed_rows[] = {
    {{"/nonexistent/command"}, NULL, 127, "exec", "/nonexistent/command"},
    {{"no-such-command-anywhere"}, NULL, 127, "exec", "no-such-command-anywhere"},
    {{"@/plain"}, NULL, 126, "exec", "plain"},
    {{"@/plain/below"}, NULL, 126, "exec", "plain/below"},
    {{"/"}, NULL, 126, "exec", "/"},
    {{""}, NULL, 127, "exec", ""},
    {{"touch", "@/ran"}, "--wall abc", 125, "options", "abc"},
    {{"touch", "@/ran"}, "--wall 0", 125, "options", "wall"},
    {{"touch", "@/ran"}, "--memory 1X", 125, "options", "1X"},
    {{"touch", "@/ran"}, "--processes -1", 125, "options", "-1"},
    {{"touch", "@/ran"}, "--no-such-option", 125, "options", "no-such-option"},
    {{"touch", "@/ran"}, "--signal NOSUCH", 125, "options", "NOSUCH"},
    {{"touch", "@/ran"}, "--rlimit nofile=many", 125, "options", "many"},
    {{"touch", "@/ran"}, "--rlimit nofile=9:8", 125, "options", "nofile"},
    {{"touch", "@/ran"}, "--breach-status 256", 125, "options", "256"},
    {{"touch", "@/ran"}, "--keep-fd 99", 125, NULL, "99"},
    {{NULL}, NULL, 125, "options", "command"},
};
#define FAILED_COUNT (int)(sizeof(failed_rows) / sizeof(failed_rows[0]))

START_TEST(what_cannot_start_says_so)
{
    const struct failed_row *row = &failed_rows[_i];
    struct sbx_trial trial = {
        .command = row->command, .options = row->options, .prepare = make_plain_file};
    char path[SBX_FIXTURE_PATH_SIZE];
    sbx_trial_run(&trial);
    ck_assert_msg(access(sbx_trial_path(&trial, path, "ran"), F_OK) < 0, "it ran");
    ck_assert_msg(strncmp(trial.err, "sbx-watch: ", 11) == 0, "stderr: %s", trial.err);
    ck_assert_msg(strstr(trial.err, row->named) != NULL, "stderr: %s", trial.err);
    sbx_trial_expect(&trial, row->status, "launch-failed", NULL);
    sbx_trial_expect_empty(&trial);
    if (_i % 6 == 0) {
        sbx_trial_validate(&trial);
    }
    if (row->stage != NULL) {
        ck_assert_str_eq(sbx_trial_string(&trial, "error.stage"), row->stage);
    }
    ck_assert_msg(strstr(sbx_trial_string(&trial, "error.message"), row->named) != NULL,
                  "error.message: %s", sbx_trial_string(&trial, "error.message"));
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(a_report_that_cannot_be_written_stops_the_run)
{
    const char *const command[] = {"touch", "@/ran", NULL};
    struct sbx_trial trial = {.command = command,
                              .options = "--report /nonexistent/directory/report",
                              .without_report = true};
    char path[SBX_FIXTURE_PATH_SIZE];
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 125, NULL, NULL);
    ck_assert_msg(strstr(trial.err, "/nonexistent/directory") != NULL, "stderr: %s",
                  trial.err);
    ck_assert_int_lt(access(sbx_trial_path(&trial, path, "ran"), F_OK), 0);
    sbx_trial_done(&trial);
}
END_TEST

/* --- breaches ------------------------------------------------------------------------
 */

static const struct breach_row {
    const char *command[5];
    const char *options;
    int status;
    const char *reason;
    int exit_code;      /* -1: by a signal */
    const char *signal; /* then */
} breach_rows[] = {
    {{"@trap"}, "--wall 1.5 --grace 10", 124, "wall", 42, NULL},
    {{"@trap"}, "--wall 1.5 --grace 10 --preserve-status", 42, "wall", 42, NULL},
    {{"@trap"}, "--wall 1.5 --grace 10 --breach-status 99", 99, "wall", 42, NULL},
    {{"@setsid_child"}, "--wall 1.5 --preserve-status", 143, "wall", -1, "SIGTERM"},
    {{"@setsid_child"}, "--wall 1.5 --signal INT", 124, "wall", -1, "SIGINT"},
    {{"@trap", "--ignore"}, "--wall 1.5 --grace 0.2", 124, "wall", -1, "SIGKILL"},
    {{"@trap", "--ignore"},
     "--wall 1.5 --grace 0.2 --preserve-status",
     137,
     "wall",
     -1,
     "SIGKILL"},
    {{"@spin", "30000"}, "--cpu 0.3 --wall 30", 124, "cpu", -1, "SIGTERM"},
    {{"@touch", "300"}, "--memory 50M --wall 30", 124, "memory", -1, "SIGKILL"},
    {{"@crowd", "30"}, "--processes 10 --wall 30", 124, "processes", -1, "SIGKILL"},
    {{"@crowd", "30"}, "--threads 10 --wall 30", 124, "threads", -1, "SIGKILL"},
};
#define BREACH_COUNT (int)(sizeof(breach_rows) / sizeof(breach_rows[0]))

START_TEST(a_breach_has_its_status)
{
    const struct breach_row *row = &breach_rows[_i];
    struct sbx_trial trial = {.command = row->command, .options = row->options};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, row->status, "breach", row->reason);
    sbx_trial_expect_empty(&trial);
    if (_i == 0 || strcmp(row->reason, "wall") != 0) {
        sbx_trial_validate(&trial);
    }
    /* Where the kernel refuses the fork, the command may have ended before it is killed.
     */
    bool refused = strcmp(row->reason, "threads") == 0 &&
                   sbx_trial_has(&trial, "armed.threads") &&
                   sbx_trial_has(&trial, "exit_code");
    if (row->signal != NULL && !refused) {
        ck_assert_str_eq(sbx_trial_string(&trial, "signal"), row->signal);
    } else if (!refused) {
        ck_assert_int_eq(sbx_trial_integer(&trial, "exit_code"), row->exit_code);
    }
    ck_assert_int_ge(sbx_trial_integer(&trial, "breach.observed"),
                     sbx_trial_integer(&trial, "breach.limit"));
    ck_assert_msg(strncmp(trial.err, "sbx-watch: ", 11) == 0 &&
                      strstr(trial.err, row->reason) != NULL &&
                      strchr(trial.err, '\n') == trial.err + strlen(trial.err) - 1,
                  "not one line on the breach: %s", trial.err);
    ck_assert_int_lt((int64_t)trial.elapsed_us, QUICK_US);
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(quiet_is_quiet)
{
    const char *const command[] = {"@trap", NULL};
    struct sbx_trial trial = {.command = command, .options = "--wall 0.3 --quiet"};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 124, "breach", "wall");
    ck_assert_str_eq(trial.err, "");
    sbx_trial_done(&trial);
}
END_TEST

/* A ceiling that fires is a breach, with its name. */
static const struct ceiling_row {
    const char *command[4];
    const char *options;
    const char *name;
} ceiling_rows[] = {
    {{"@spin", "30000"}, "--rlimit cpu=1 --wall 30", "cpu"},
    {{"@spin", "30000"}, "--rlimit cpu=1:1 --wall 30", "cpu"},
    {{"sh", "-c", "exec head -c 100000 /dev/zero"}, "--rlimit fsize=4K", "fsize"},
};
#define CEILING_COUNT (int)(sizeof(ceiling_rows) / sizeof(ceiling_rows[0]))

START_TEST(a_ceiling_that_fires_is_a_breach)
{
    const struct ceiling_row *row = &ceiling_rows[_i];
    struct sbx_trial trial = {
        .command = row->command, .options = row->options, .prepare = without_core};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 124, "breach", "ceiling");
    sbx_trial_expect_empty(&trial);
    sbx_trial_validate(&trial);
    ck_assert_str_eq(sbx_trial_string(&trial, "breach.name"), row->name);
    sbx_trial_done(&trial);
}
END_TEST

/* --- cancelled ------------------------------------------------------------------------
 */

static const struct signal_row cancels[] = {
    {SIGINT, "SIGINT"},
    {SIGTERM, "SIGTERM"},
    {SIGHUP, "SIGHUP"},
    {SIGQUIT, "SIGQUIT"},
};
#define CANCEL_COUNT (int)(sizeof(cancels) / sizeof(cancels[0]))

static void own_group(const struct sbx_trial *trial)
{
    (void)trial;
    (void)setpgid(0, 0);
}

/* Also one to all of our processes, as from kill -- -PGID or the end of a service: it is
 * one request, and not a second one that skips the grace. */
START_TEST(a_signal_cancels)
{
    const struct signal_row *row = &cancels[_i % CANCEL_COUNT];
    const char *const command[] = {"@trap", NULL};
    struct sbx_trial trial = {
        .command = command, .options = "--wall 50 --grace 40", .prepare = own_group};
    sbx_trial_start(&trial);
    sbx_trial_wait_output(&trial, "up ", 20);
    ck_assert_int_eq(kill(_i < CANCEL_COUNT ? trial.pid : -trial.pid, row->number), 0);
    sbx_trial_wait(&trial);
    sbx_trial_expect(&trial, 128 + row->number, "cancelled", NULL);
    sbx_trial_expect_empty(&trial);
    if (_i == 0) {
        sbx_trial_validate(&trial);
    }
    ck_assert_str_eq(sbx_trial_string(&trial, "cancel_signal"), row->name);
    ck_assert_int_eq(sbx_trial_integer(&trial, "exit_code"), 42);
    ck_assert_int_lt((int64_t)trial.elapsed_us, QUICK_US);
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(a_second_signal_skips_the_grace)
{
    const char *const command[] = {"@trap", "--ignore", NULL};
    struct sbx_trial trial = {.command = command, .options = "--grace 50"};
    sbx_trial_start(&trial);
    sbx_trial_wait_output(&trial, "up ", 20);
    ck_assert_int_eq(kill(trial.pid, SIGINT), 0);
    sbx_trial_wait_output(&trial, "term\n", 20);
    ck_assert_int_eq(kill(trial.pid, SIGTERM), 0);
    sbx_trial_wait(&trial);
    sbx_trial_expect(&trial, 130, "cancelled", NULL);
    sbx_trial_expect_empty(&trial);
    ck_assert_str_eq(sbx_trial_string(&trial, "signal"), "SIGKILL");
    ck_assert(sbx_trial_boolean(&trial, "termination.escalated"));
    ck_assert_int_lt((int64_t)trial.elapsed_us, QUICK_US);
    sbx_trial_done(&trial);
}
END_TEST

/* A signal at any moment of the start: the status is right and nothing stays. */
START_TEST(an_early_signal_cancels_too)
{
    const char *const command[] = {"@setsid_child", NULL};
    for (long delay_us = 0; delay_us < 10000; delay_us += 200) {
        struct sbx_trial trial = {.command = command, .options = "--wall 50"};
        struct timespec delay = {0, delay_us * 1000};
        sbx_trial_start(&trial);
        (void)nanosleep(&delay, NULL);
        ck_assert_int_eq(kill(trial.pid, SIGTERM), 0);
        sbx_trial_wait(&trial);
        sbx_trial_expect(&trial, 143, NULL, NULL);
        sbx_trial_expect_empty(&trial);
        ck_assert_int_lt((int64_t)trial.elapsed_us, QUICK_US);
        if (trial.report != NULL) {
            ck_assert_str_eq(sbx_trial_string(&trial, "outcome"), "cancelled");
        }
        sbx_trial_done(&trial);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("statuses");
    TCase *own = sbx_fixture_case(suite, "own-end", 60);
    tcase_add_loop_test(own, an_exit_code_is_passed_on, 0, EXIT_COUNT);
    tcase_add_loop_test(own, a_signal_is_passed_on, 0, SIGNAL_COUNT);
    tcase_add_test(own, a_shell_that_exits_137_was_not_killed);
    TCase *failed = sbx_fixture_case(suite, "nothing-ran", 60);
    tcase_add_loop_test(failed, what_cannot_start_says_so, 0, FAILED_COUNT);
    tcase_add_test(failed, a_report_that_cannot_be_written_stops_the_run);
    TCase *breach = sbx_fixture_case(suite, "breach", 60);
    tcase_add_loop_test(breach, a_breach_has_its_status, 0, BREACH_COUNT);
    tcase_add_loop_test(breach, a_ceiling_that_fires_is_a_breach, 0, CEILING_COUNT);
    tcase_add_test(breach, quiet_is_quiet);
    TCase *cancel = sbx_fixture_case(suite, "cancelled", 120);
    tcase_add_loop_test(cancel, a_signal_cancels, 0, 2 * CANCEL_COUNT);
    tcase_add_test(cancel, a_second_signal_skips_the_grace);
    tcase_add_test(cancel, an_early_signal_cancels_too);
    return sbx_fixture_run(suite);
}
