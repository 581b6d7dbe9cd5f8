/*
 * test_outcome.c - the exit status, and the line on stderr, each by a table.
 */
#include "monitor/report.h"
#include "tests/fixture.h"
#include "tests/report_samples.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Fields that a row does not name are 0. */
static const struct {
    const char *name;
    struct {
        bool known;
        int exit_code;
        int signal;
    } end;
    enum sbx_outcome outcome;
    int cancel_signal;
    int failed_status;
    bool preserve;
    int breach_status;
    uint64_t survivors;
    int status;
} statuses[] = {
    {.name = "exit 0", {true, 0, 0}, SBX_OUTCOME_EXITED, .status = 0},
    {.name = "exit 1", {true, 1, 0}, SBX_OUTCOME_EXITED, .status = 1},
    {.name = "exit 124", {true, 124, 0}, SBX_OUTCOME_EXITED, .status = 124},
    {.name = "exit 255", {true, 255, 0}, SBX_OUTCOME_EXITED, .status = 255},
    {.name = "TERM", {false, 0, SIGTERM}, SBX_OUTCOME_SIGNALED, .status = 143},
    {.name = "SEGV", {false, 0, SIGSEGV}, SBX_OUTCOME_SIGNALED, .status = 139},
    {.name = "RTMAX", {false, 0, 64}, SBX_OUTCOME_SIGNALED, .status = 192},
    {.name = "breach", {false, 0, SIGTERM}, SBX_OUTCOME_BREACH, .status = 124},
    {.name = "breach of an exit 0", {true, 0, 0}, SBX_OUTCOME_BREACH, .status = 124},
    {.name = "breach, own number",
     {true, 0, 0},
     SBX_OUTCOME_BREACH,
     .breach_status = 9,
     .status = 9},
    {.name = "breach, preserved exit",
     {true, 0, 0},
     SBX_OUTCOME_BREACH,
     .preserve = true,
     .status = 0},
    {.name = "breach, preserved signal",
     {false, 0, SIGKILL},
     SBX_OUTCOME_BREACH,
     .preserve = true,
     .breach_status = 9,
     .status = 137},
    {.name = "breach, nothing to preserve",
     {false, 0, 0},
     SBX_OUTCOME_BREACH,
     .preserve = true,
     .breach_status = 9,
     .status = 9},
    {.name = "cancelled by INT",
     {true, 0, 0},
     SBX_OUTCOME_CANCELLED,
     .cancel_signal = SIGINT,
     .status = 130},
    {.name = "cancelled by HUP, preserve is for breaches",
     {true, 3, 0},
     SBX_OUTCOME_CANCELLED,
     .cancel_signal = SIGHUP,
     .preserve = true,
     .status = 129},
    {.name = "failed", .outcome = SBX_OUTCOME_LAUNCH_FAILED, .status = 125},
    {.name = "not executable",
     .outcome = SBX_OUTCOME_LAUNCH_FAILED,
     .failed_status = 126,
     .status = 126},
    {.name = "not found",
     .outcome = SBX_OUTCOME_LAUNCH_FAILED,
     .failed_status = 127,
     .status = 127},
    {.name = "failed with a number that is none",
     .outcome = SBX_OUTCOME_LAUNCH_FAILED,
     .failed_status = 1,
     .status = 125},
    {.name = "lost", {true, 0, 0}, SBX_OUTCOME_LOST, .status = 125},
    {.name = "survivors of an exit",
     {true, 0, 0},
     SBX_OUTCOME_EXITED,
     .survivors = 1,
     .status = 125},
    {.name = "survivors of a breach",
     {true, 0, 0},
     SBX_OUTCOME_BREACH,
     .preserve = true,
     .survivors = 1,
     .status = 125},
    {.name = "observed", .outcome = SBX_OUTCOME_OBSERVED, .status = 0},
    {.name = "survivors of a cancel",
     .outcome = SBX_OUTCOME_CANCELLED,
     .cancel_signal = SIGINT,
     .survivors = 2,
     .status = 125},
};

START_TEST(test_status)
{
    struct sbx_spec spec;
    struct sbx_record record;
    sample_spec(&spec);
    sbx_record_init(&record);
    spec.preserve_status = statuses[_i].preserve;
    if (statuses[_i].breach_status != 0) {
        spec.breach_status = statuses[_i].breach_status;
    }
    record.outcome = statuses[_i].outcome;
    record.has_exit_code = statuses[_i].end.known;
    record.exit_code = statuses[_i].end.exit_code;
    record.signal = statuses[_i].end.signal;
    record.cancel_signal = statuses[_i].cancel_signal;
    record.failed_status = statuses[_i].failed_status;
    record.termination.survivors_count = statuses[_i].survivors;
    int status = sbx_report_status(&spec, &record);
    ck_assert_msg(status == statuses[_i].status, "%s: %d, expected %d", statuses[_i].name,
                  status, statuses[_i].status);
}
END_TEST

/* `quiet`: what is left of it with --quiet. */
static const struct {
    const char *sample;
    const char *line;
    const char *quiet;
} lines[] = {
    {"exited", "", ""},
    {"signaled", "", ""},
    {"cancelled", "", ""},
    {"wall", "sbx-watch: breach: wall limit 2s, observed 2.001s", ""},
    {"cpu", "sbx-watch: breach: cpu limit 500ms, observed 500.001ms", ""},
    {"memory",
     "sbx-watch: breach: memory limit 200.0 MiB, observed 214.3 MiB by python3 (pid 123)",
     ""},
    {"processes", "sbx-watch: breach: processes limit 20, observed 21", ""},
    {"threads", "sbx-watch: breach: threads limit 40, observed 64", ""},
    {"observed", "sbx-watch: 1 stray was left running: daemon (5000)", ""},
    {"enforced", "sbx-watch: breach: wall limit 2s, observed 2.001s", ""},
    {"held", "sbx-watch: breach: memory limit 64.0 MiB, observed 64.0 MiB", ""},
    {"oom",
     "sbx-watch: breach: oom: a process of it was killed, but for no limit of this run",
     ""},
    {"ceiling", "sbx-watch: breach: ceiling cpu limit 1s, observed 1.004s", ""},
    {"ceiling-bare", "sbx-watch: breach: ceiling fsize", ""},
    {"unmeasurable", "sbx-watch: breach: unmeasurable: cannot open /proc/4711/stat", ""},
    {"guard-lost", "sbx-watch: breach: guard-lost", ""},
    {"full", "sbx-watch: 1 stray was ended: sleep (4800)", ""},
    {"kept", "sbx-watch: 1 stray was left running: daemon (5000)", ""},
    {"not-found", "sbx-watch: command 'slep': not found",
     "sbx-watch: command 'slep': not found"},
    {"options", "sbx-watch: option --wall: '5\\x0A\"x' is not a duration",
     "sbx-watch: option --wall: '5\\x0A\"x' is not a duration"},
    {"lost", "sbx-watch: lost: the monitor died before the run ended",
     "sbx-watch: lost: the monitor died before the run ended"},
    {"survivor", "sbx-watch: 1 process survived: su (123): not permitted",
     "sbx-watch: 1 process survived: su (123): not permitted"},
    {"hidden", "sbx-watch: 1 process survived: hidden from /proc",
     "sbx-watch: 1 process survived: hidden from /proc"},
    {"ugly",
     "sbx-watch: 3 strays were ended: a\\x0Ab\"c\\x5Cd (11), x) Z 1 1 1 (y (12), "
     "0123456789abc\\xE2\\x82 (13)",
     ""},
};

START_TEST(test_line)
{
    struct sbx_spec spec;
    struct sbx_record record;
    char line[SBX_REPORT_LINE_SIZE];
    sample_fill(sample_find(lines[_i].sample), &spec, &record);
    ck_assert_ptr_eq(sbx_report_line(&spec, &record, line), line);
    ck_assert_str_eq(line, lines[_i].line);
    spec.quiet = true;
    ck_assert_str_eq(sbx_report_line(&spec, &record, line), lines[_i].quiet);
}
END_TEST

START_TEST(test_line_joined)
{
    struct sbx_spec spec;
    struct sbx_record record;
    char line[SBX_REPORT_LINE_SIZE];
    sample_fill(sample_find("wall"), &spec, &record);
    for (pid_t pid = 1; pid <= 5; pid++) {
        sbx_record_stray(&record, pid, "s");
    }
    sbx_record_survivor(&record, 8, "su", "not permitted");
    sbx_record_survivor(&record, 9, "d", "");
    ck_assert_str_eq(sbx_report_line(&spec, &record, line),
                     "sbx-watch: breach: wall limit 2s, observed 2.001s; 2 processes "
                     "survived: su (8): not permitted, d (9); 5 strays were found: s "
                     "(1), s (2), s (3), ...");
    spec.strays = SBX_STRAYS_WAIT;
    record.termination.survivors_count = 0;
    record.outcome = SBX_OUTCOME_EXITED;
    ck_assert_str_eq(sbx_report_line(&spec, &record, line),
                     "sbx-watch: 5 strays were waited for: s (1), s (2), s (3), ...");
}
END_TEST

/* Limits and observed values as people read them; an observed time never looks smaller
 * than it may. */
static const struct {
    enum sbx_reason reason;
    uint64_t limit;
    uint64_t observed;
    const char *line;
} numbers[] = {
    {SBX_REASON_WALL, 1, 2, "wall limit 0.001ms, observed 0.002ms"},
    {SBX_REASON_WALL, 1500, 2500, "wall limit 1.5ms, observed 2ms"},
    {SBX_REASON_WALL, 2000000, 2000000, "wall limit 2s, observed 2s"},
    {SBX_REASON_WALL, 2000000, 2000400, "wall limit 2s, observed 2.0004s"},
    {SBX_REASON_WALL, 2000400, 2000500, "wall limit 2.0004s, observed 2.0005s"},
    {SBX_REASON_WALL, 3600000000, 3600012345, "wall limit 3600s, observed 3600.012s"},
    {SBX_REASON_MEMORY, 1, 1023, "memory limit 1 B, observed 1023 B"},
    {SBX_REASON_MEMORY, 1024, 1048575, "memory limit 1.0 KiB, observed 1.0 MiB"},
    {SBX_REASON_MEMORY, UINT64_C(1) << 40, UINT64_C(3) << 39,
     "memory limit 1.0 TiB, observed 1.5 TiB"},
    {SBX_REASON_MEMORY, INT64_MAX, UINT64_MAX - 1,
     "memory limit 8.0 EiB, observed 16.0 EiB"},
    {SBX_REASON_OUTPUT, 1048576, 2097152, "output limit 1.0 MiB, observed 2.0 MiB"},
    {SBX_REASON_IDLE, 300000, 301000, "idle limit 300ms, observed 301ms"},
    {SBX_REASON_THREADS, 1, INT64_MAX, "threads limit 1, observed 9223372036854775807"},
};

START_TEST(test_line_numbers)
{
    struct sbx_spec spec;
    struct sbx_record record;
    char line[SBX_REPORT_LINE_SIZE];
    sample_fill(sample_find("wall"), &spec, &record);
    record.breach.reason = numbers[_i].reason;
    record.breach.limit = numbers[_i].limit;
    record.breach.observed = numbers[_i].observed;
    (void)sbx_report_line(&spec, &record, line);
    ck_assert_ptr_eq(strstr(line, "sbx-watch: breach: "), line);
    ck_assert_str_eq(line + strlen("sbx-watch: breach: "), numbers[_i].line);
}
END_TEST

/* A line that is too long ends before the room does, never inside an escape or a
 * character. */
START_TEST(test_line_cut)
{
    static const char *const units[] = {"\x01", "\xe2\x82\xac", "x"};
    for (size_t unit = 0; unit < LENGTH(units); unit++) {
        for (size_t shift = 0; shift < 5; shift++) {
            struct sbx_spec spec;
            struct sbx_record record;
            char line[SBX_REPORT_LINE_SIZE];
            sample_fill(sample_find("lost"), &spec, &record);
            char *message = record.error.message;
            record.error.code = EIO;
            memset(message, 's', shift);
            size_t size = strlen(units[unit]);
            for (size_t at = shift; at + size < sizeof record.error.message; at += size) {
                memcpy(message + at, units[unit], size + 1);
            }
            for (pid_t pid = 1; pid < 4; pid++) {
                char why[48];
                memset(why, units[unit][0], sizeof why - 1);
                why[sizeof why - 1] = '\0';
                sbx_record_survivor(&record, pid, why, why);
            }
            size_t length = strlen(sbx_report_line(&spec, &record, line));
            ck_assert_uint_lt(length, sizeof line);
            const char *escape = strrchr(line, '\\');
            ck_assert(escape == NULL || strlen(escape) >= 4);
            json_t *valid = json_stringn(line, length);
            ck_assert_msg(valid != NULL, "unit %zu, shift %zu: torn", unit, shift);
            json_decref(valid);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("outcome");
    TCase *status = sbx_fixture_case(suite, "status", 20);
    tcase_add_loop_test(status, test_status, 0, (int)LENGTH(statuses));
    TCase *line = sbx_fixture_case(suite, "line", 20);
    tcase_add_loop_test(line, test_line, 0, (int)LENGTH(lines));
    tcase_add_test(line, test_line_joined);
    tcase_add_loop_test(line, test_line_numbers, 0, (int)LENGTH(numbers));
    tcase_add_test(line, test_line_cut);
    return sbx_fixture_run(suite);
}
