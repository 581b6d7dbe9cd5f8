/*
 * test_log_format.c - a line as key=value, as JSON and as fields: the same keys and
 * values in each, one line whatever a process is called or an argument says, and no key
 * that is not ours. Read back with parsers, not compared with a text.
 */
#include "monitor/log.h"

#include "base/error.h"
#include "base/text.h"
#include "tests/log_kit.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define RUN_ID "00112233445566778899aabbccddeeff"

static const char *const hostile[] = {
    "plain",
    "two words",
    "line\nfeed",
    "\nevent=breach",
    "x event=breach y",
    "\" event=breach x=\"",
    "\"",
    "\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"",
    "back\\slash\\",
    "\\x22 a=b",
    "\\\" a=b",
    "a=b",
    "tab\tret\r",
    "\x01\x02\x1b[31m",
    "\x7f\xc2\x85\xe2\x80\xa8",
    "\xff\xfe\xf0",
    "gr\xc3\xbc\xc3\x9f",
    "}{\",\"event\":1",
    "",
};

static void make_record(struct sbx_record *record)
{
    sbx_record_init(record);
    (void)snprintf(record->run_id, sizeof record->run_id, RUN_ID);
    record->leader_pid = 4711;
    record->started_real_us = UINT64_C(1795917337232893);
    record->finished_real_us = UINT64_C(1795917339232893);
}

static void make_breach(struct sbx_record *record, const char *name)
{
    make_record(record);
    record->outcome = SBX_OUTCOME_BREACH;
    record->breach = (struct sbx_breach){.reason = SBX_REASON_MEMORY,
                                         .ceiling = -1,
                                         .limit = 1000,
                                         .observed = 2000,
                                         .at_us = 3000,
                                         .culprit = {.pid = 4712, .value = 1500}};
    (void)snprintf(record->breach.culprit.name, sizeof record->breach.culprit.name, "%s",
                   name);
}

/* The line in both forms, parsed; they must say the same. */
static json_t *read_back(const struct sbx_log_line *line, char *const argv[])
{
    const struct sbx_log_identity identity = {.run_id = RUN_ID, .argv = argv};
    char text[SBX_LOG_TEXT_SIZE];
    struct sbx_log_fields fields;
    sbx_log_fields(&identity, line, &fields);
    ck_assert_uint_lt(fields.count, SBX_LOG_FIELD_MAX);
    size_t length = sbx_log_text(&fields, SBX_LOG_KV, false, text);
    ck_assert_uint_eq(length, strlen(text));
    ck_assert_uint_lt(length, PIPE_BUF);
    json_t *kv = sbx_kit_parse_kv(text, length);
    ck_assert_uint_eq(json_object_size(kv), fields.count);
    length = sbx_log_text(&fields, SBX_LOG_JSON, false, text);
    ck_assert_uint_gt(length, 0);
    ck_assert_uint_lt(length, PIPE_BUF);
    ck_assert_ptr_null(strchr(text, '\n'));
    json_error_t error;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(json != NULL, "%s: %s", error.text, text);
    const char *key;
    json_t *value;
    json_object_foreach(json, key, value)
    {
        const json_t *other = json_object_get(kv, key);
        const char *shown = json_string_value(value);
        /* A quote is the only thing that the two spell differently. */
        bool quote = shown != NULL && strchr(shown, '"') != NULL;
        ck_assert_msg(other != NULL && (quote || json_equal(value, other)), "%s: %s", key,
                      text);
        (void)snprintf(text, sizeof text, "%s", shown != NULL && quote ? shown : "");
        ck_assert(!quote || strstr(sbx_kit_string(kv, key), "\\x22") != NULL);
    }
    ck_assert_uint_eq(json_object_size(json), json_object_size(kv));
    json_decref(kv);
    return json;
}

START_TEST(a_name_cannot_make_a_line_or_a_key)
{
    struct sbx_record record;
    struct sbx_log_line line;
    char escaped[256];
    make_breach(&record, hostile[_i]);
    sbx_log_breached(&line, &record);
    json_t *json = read_back(&line, NULL);
    ck_assert_str_eq(sbx_kit_string(json, "event"), "breach");
    ck_assert_str_eq(sbx_kit_string(json, "level"), "warning");
    ck_assert_str_eq(sbx_kit_string(json, "reason"), "memory");
    ck_assert_str_eq(sbx_kit_string(json, "unit"), "bytes");
    ck_assert_str_eq(sbx_kit_string(json, "run_id"), RUN_ID);
    ck_assert_int_eq(sbx_kit_integer(json, "limit"), 1000);
    ck_assert_int_eq(sbx_kit_integer(json, "observed"), 2000);
    ck_assert_int_eq(sbx_kit_integer(json, "at_us"), 3000);
    ck_assert_int_eq(sbx_kit_integer(json, "culprit_pid"), 4712);
    ck_assert_int_eq(sbx_kit_integer(json, "culprit_value"), 1500);
    ck_assert_int_eq(sbx_kit_integer(json, "leader_pid"), 4711);
    ck_assert_uint_eq(json_object_size(json), 13);
    (void)sbx_text_escape(escaped, sizeof escaped, record.breach.culprit.name,
                          strlen(record.breach.culprit.name));
    ck_assert_str_eq(sbx_kit_string(json, "culprit_name"), escaped);
    json_decref(json);
}
END_TEST

START_TEST(an_argument_cannot_either)
{
    struct sbx_record record;
    struct sbx_log_line line;
    char first[] = "sh";
    char second[64];
    char *argv[] = {first, second, NULL};
    (void)snprintf(second, sizeof second, "%s", hostile[_i]);
    make_record(&record);
    sbx_log_started(&line, &record);
    json_t *json = read_back(&line, argv);
    ck_assert_str_eq(sbx_kit_string(json, "event"), "started");
    ck_assert_str_eq(sbx_kit_string(json, "time"), "2026-11-29T01:55:37.232893Z");
    ck_assert_uint_eq(json_object_size(json), 6);
    ck_assert_int_eq(strncmp(sbx_kit_string(json, "command"), "sh ", 3), 0);
    json_decref(json);
}
END_TEST

START_TEST(a_message_cannot_either)
{
    struct sbx_record record;
    struct sbx_log_line line;
    make_record(&record);
    sbx_record_warn(&record, "first");
    sbx_record_warn(&record, "%s", hostile[_i]);
    sbx_log_warned(&line, &record, 1);
    json_t *json = read_back(&line, NULL);
    ck_assert_str_eq(sbx_kit_string(json, "event"), "warning");
    ck_assert_uint_eq(json_object_size(json), hostile[_i][0] != '\0' ? 6 : 5);
    json_decref(json);
    (void)sbx_error_set(&record.error, EIO, SBX_STAGE_EXEC, "%s", hostile[_i]);
    record.outcome = SBX_OUTCOME_LAUNCH_FAILED;
    sbx_log_finished(&line, &record);
    json = read_back(&line, NULL);
    ck_assert_str_eq(sbx_kit_string(json, "level"), "error");
    ck_assert_str_eq(sbx_kit_string(json, "outcome"), "launch-failed");
    ck_assert_str_eq(sbx_kit_string(json, "stage"), "exec");
    json_decref(json);
}
END_TEST

/* Nothing is so long that a line would be cut, or would not fit into a pipe at once. */
START_TEST(the_longest_lines_are_whole)
{
    static const char fill[] = {'"', '\xff', '\\', 'a', '\n'};
    struct sbx_record record;
    struct sbx_log_line line;
    char text[4096];
    char *argv[] = {text, text, NULL};
    memset(text, fill[_i], sizeof text - 1);
    text[sizeof text - 1] = '\0';
    make_breach(&record, text);
    record.breach.limit = record.breach.observed = record.breach.at_us = UINT64_MAX - 1;
    record.breach.culprit.value = UINT64_MAX - 1;
    sbx_log_breached(&line, &record);
    const struct sbx_log_identity identity = {.run_id = RUN_ID, .argv = argv};
    struct sbx_log_fields fields;
    char line_text[SBX_LOG_TEXT_SIZE];
    sbx_log_fields(&identity, &line, &fields);
    ck_assert_uint_eq(fields.count, 13);
    memset(record.error.message, fill[_i], sizeof record.error.message);
    record.error.code = EIO;
    record.error.stage = SBX_STAGE_MONITOR;
    record.outcome = SBX_OUTCOME_LOST;
    sbx_log_finished(&line, &record);
    json_t *json = read_back(&line, argv);
    ck_assert_uint_gt(strlen(sbx_kit_string(json, "message")), 400);
    json_decref(json);
    sbx_log_started(&line, &record);
    json = read_back(&line, argv);
    ck_assert_uint_gt(strlen(sbx_kit_string(json, "command")), 300);
    json_decref(json);
    /* A record that was cut off in the middle of a change. */
    memset(record.warnings, fill[_i], sizeof record.warnings);
    memset(record.breach.culprit.name, fill[_i], sizeof record.breach.culprit.name);
    sbx_log_warned(&line, &record, SBX_WARNING_MAX - 1);
    sbx_log_fields(&identity, &line, &fields);
    size_t length = sbx_log_text(&fields, SBX_LOG_KV, true, line_text);
    json = sbx_kit_parse_kv(line_text, length);
    ck_assert_ptr_null(json_object_get(json, "time"));
    ck_assert_ptr_null(json_object_get(json, "level"));
    ck_assert_str_eq(sbx_kit_string(json, "event"), "warning");
    json_decref(json);
}
END_TEST

START_TEST(unknown_is_absent)
{
    struct sbx_record record;
    struct sbx_log_line line;
    make_record(&record);
    record.outcome = SBX_OUTCOME_EXITED;
    record.has_exit_code = true;
    record.exit_code = 3;
    sbx_log_finished(&line, &record);
    json_t *json = read_back(&line, NULL);
    static const char *const absent[] = {"wall_us", "cpu_us",  "memory_peak_bytes",
                                         "signal",  "message", "stage",
                                         "reason",  "limit",   "cancel_signal"};
    for (size_t i = 0; i < LENGTH(absent); i++) {
        ck_assert_msg(json_object_get(json, absent[i]) == NULL, "%s", absent[i]);
    }
    ck_assert_int_eq(sbx_kit_integer(json, "exit_code"), 3);
    ck_assert_int_eq(sbx_kit_integer(json, "strays_count"), 0);
    json_decref(json);
}
END_TEST

/* outcome, strays, survivors: the level of the end. */
static const struct {
    enum sbx_outcome outcome;
    uint64_t strays;
    uint64_t survivors;
    const char *level;
    int severity;
} ends[] = {
    {SBX_OUTCOME_EXITED, 0, 0, "info", 6},
    {SBX_OUTCOME_SIGNALED, 0, 0, "info", 6},
    {SBX_OUTCOME_BREACH, 0, 0, "info", 6},
    {SBX_OUTCOME_CANCELLED, 0, 0, "info", 6},
    {SBX_OUTCOME_EXITED, 1, 0, "warning", 4},
    {SBX_OUTCOME_EXITED, 0, 1, "error", 3},
    {SBX_OUTCOME_BREACH, 2, 1, "error", 3},
    {SBX_OUTCOME_LOST, 0, 0, "error", 3},
    {SBX_OUTCOME_LAUNCH_FAILED, 0, 0, "error", 3},
};

START_TEST(the_end_has_the_level_that_it_deserves)
{
    struct sbx_record record;
    struct sbx_log_line line;
    make_record(&record);
    record.outcome = ends[_i].outcome;
    record.signal = SIGSEGV;
    record.cancel_signal = SIGTERM;
    record.termination.strays_count = ends[_i].strays;
    record.termination.survivors_count = ends[_i].survivors;
    sbx_log_finished(&line, &record);
    ck_assert_int_eq(sbx_log_severity(line.level), ends[_i].severity);
    json_t *json = read_back(&line, NULL);
    ck_assert_str_eq(sbx_kit_string(json, "level"), ends[_i].level);
    ck_assert_str_eq(sbx_kit_string(json, "signal"), "SIGSEGV");
    ck_assert_int_eq(json_object_get(json, "cancel_signal") != NULL,
                     ends[_i].outcome == SBX_OUTCOME_CANCELLED);
    ck_assert_int_eq(sbx_kit_integer(json, "survivors_count"),
                     (json_int_t)ends[_i].survivors);
    json_decref(json);
}
END_TEST

START_TEST(phases_and_ceilings)
{
    struct sbx_record record;
    struct sbx_log_line line;
    make_record(&record);
    sbx_log_phase(&line, &record, "polite", SIGTERM);
    json_t *json = read_back(&line, NULL);
    ck_assert_str_eq(sbx_kit_string(json, "phase"), "polite");
    ck_assert_str_eq(sbx_kit_string(json, "signal"), "SIGTERM");
    ck_assert_str_eq(sbx_kit_string(json, "level"), "debug");
    json_decref(json);
    make_breach(&record, "x");
    record.breach.reason = SBX_REASON_CEILING;
    record.breach.ceiling = 0;
    record.breach.culprit.pid = 0;
    sbx_log_breached(&line, &record);
    json = read_back(&line, NULL);
    ck_assert_str_eq(sbx_kit_string(json, "name"), sbx_ceiling_kinds[0].name);
    ck_assert_ptr_null(json_object_get(json, "culprit_pid"));
    json_decref(json);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log_format");
    TCase *all = sbx_fixture_case(suite, "format", 30);
    int count = (int)LENGTH(hostile);
    tcase_add_loop_test(all, a_name_cannot_make_a_line_or_a_key, 0, count);
    tcase_add_loop_test(all, an_argument_cannot_either, 0, count);
    tcase_add_loop_test(all, a_message_cannot_either, 0, count);
    tcase_add_loop_test(all, the_longest_lines_are_whole, 0, 5);
    tcase_add_test(all, unknown_is_absent);
    tcase_add_loop_test(all, the_end_has_the_level_that_it_deserves, 0, LENGTH(ends));
    tcase_add_test(all, phases_and_ceilings);
    return sbx_fixture_run(suite);
}
