/*
 * test_record.c - the record's lists, counts, and names; and the JSON writer below the
 * report.
 */
#include "monitor/json.h"
#include "monitor/record.h"
#include "tests/fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

START_TEST(test_init)
{
    struct sbx_record record;
    memset(&record, 0x55, sizeof record);
    sbx_record_init(&record);
    ck_assert_int_eq(record.outcome, SBX_OUTCOME_LOST);
    ck_assert_int_eq(record.breach.ceiling, -1);
    const uint64_t unknown[] = {
        record.breach.limit,
        record.breach.observed,
        record.breach.at_us,
        record.breach.culprit.value,
        record.usage.wall_us,
        record.usage.cpu_us,
        record.usage.cpu_user_us,
        record.usage.cpu_system_us,
        record.usage.memory_peak_bytes,
        record.usage.memory_peak_at_us,
        record.usage.memory_anon_peak_bytes,
        record.usage.swap_peak_bytes,
        record.usage.process_memory_peak_bytes,
        record.usage.processes_peak,
        record.usage.processes_total,
        record.usage.threads_peak,
        record.sampling.interval_us,
        record.sampling.max_gap_us,
        record.sampling.monitor_cpu_us,
        record.termination.duration_us,
    };
    for (size_t i = 0; i < LENGTH(unknown); i++) {
        ck_assert_msg(unknown[i] == SBX_UNKNOWN, "number %zu is known", i);
    }
    ck_assert_uint_eq(record.sampling.samples, 0);
    ck_assert_uint_eq(record.termination.killed_count, 0);
    ck_assert_uint_eq(record.termination.strays_count, 0);
    ck_assert_uint_eq(record.termination.survivors_count, 0);
    ck_assert_uint_eq(record.warnings_count, 0);
    ck_assert_int_eq(record.error.code, 0);
    ck_assert_int_eq(record.has_exit_code, 0);
}
END_TEST

START_TEST(test_warnings)
{
    struct sbx_record record;
    sbx_record_init(&record);
    for (int i = 0; i < SBX_WARNING_MAX + 5; i++) {
        sbx_record_warn(&record, "warning %d", i);
    }
    ck_assert_uint_eq(record.warnings_count, SBX_WARNING_MAX + 5);
    ck_assert_str_eq(record.warnings[0], "warning 0");
    ck_assert_str_eq(record.warnings[SBX_WARNING_MAX - 1], "warning 15");
    /* The neighbour behind the list is untouched. */
    ck_assert_int_eq(record.error.code, 0);

    char large[2 * SBX_WARNING_SIZE];
    memset(large, 'w', sizeof large);
    large[sizeof large - 1] = '\0';
    sbx_record_init(&record);
    sbx_record_warn(&record, "%s", large);
    ck_assert_uint_eq(strlen(record.warnings[0]), SBX_WARNING_SIZE - 1);
}
END_TEST

START_TEST(test_strays)
{
    struct sbx_record record;
    struct sbx_termination *termination = &record.termination;
    sbx_record_init(&record);
    sbx_record_stray(&record, 10, "sleep");
    sbx_record_stray(&record, 10, "sleep");
    ck_assert_uint_eq(termination->strays_count, 1);
    /* The same pid under another name, and another pid of the same name, are others. */
    sbx_record_stray(&record, 10, "sleep2");
    sbx_record_stray(&record, 11, "sleep");
    ck_assert_uint_eq(termination->strays_count, 3);
    /* A name is known again although it was cut. */
    sbx_record_stray(&record, 12, "0123456789abcdefgh");
    sbx_record_stray(&record, 12, "0123456789abcdefgh");
    ck_assert_uint_eq(termination->strays_count, 4);
    ck_assert_str_eq(termination->strays[3].name, "0123456789abcde");
    for (pid_t pid = 100; pid < 100 + 2 * SBX_LIST_MAX; pid++) {
        sbx_record_stray(&record, pid, "x");
    }
    ck_assert_uint_eq(termination->strays_count, 4 + 2 * SBX_LIST_MAX);
    ck_assert_int_eq(termination->strays[SBX_LIST_MAX - 1].pid, 100 + SBX_LIST_MAX - 5);
    ck_assert_uint_eq(termination->survivors_count, 0);
}
END_TEST

START_TEST(test_survivors)
{
    struct sbx_record record;
    struct sbx_termination *termination = &record.termination;
    char why[128];
    memset(why, 'y', sizeof why);
    why[sizeof why - 1] = '\0';
    sbx_record_init(&record);
    sbx_record_survivor(&record, 10, "su", "not permitted");
    sbx_record_survivor(&record, 10, "su", why);
    ck_assert_uint_eq(termination->survivors_count, 1);
    ck_assert_uint_eq(strlen(termination->survivors[0].why),
                      sizeof termination->survivors[0].why - 1);
    for (pid_t pid = 100; pid < 100 + 2 * SBX_LIST_MAX; pid++) {
        sbx_record_survivor(&record, pid, "x", "y");
    }
    ck_assert_uint_eq(termination->survivors_count, 1 + 2 * SBX_LIST_MAX);
    ck_assert_int_eq(termination->survivors[SBX_LIST_MAX - 1].pid,
                     100 + SBX_LIST_MAX - 2);
    ck_assert_uint_eq(termination->duration_us, SBX_UNKNOWN);
}
END_TEST

START_TEST(test_names)
{
    static const char *const outcomes[] = {"lost",   "exited",    "signaled",
                                           "breach", "cancelled", "launch-failed"};
    for (int i = 0; i < (int)LENGTH(outcomes); i++) {
        ck_assert_str_eq(sbx_outcome_name((enum sbx_outcome)i), outcomes[i]);
    }
    ck_assert_str_eq(sbx_outcome_name((enum sbx_outcome)99), "lost");
    static const char *const reasons[] = {
        "none",    "wall",    "cpu",          "memory",     "processes",
        "threads", "ceiling", "unmeasurable", "guard-lost", "caller-lost",
        "output",  "idle",    "output-closed"};
    for (int i = 0; i < (int)LENGTH(reasons); i++) {
        ck_assert_str_eq(sbx_reason_name((enum sbx_reason)i), reasons[i]);
    }
    ck_assert_str_eq(sbx_reason_name((enum sbx_reason)99), "none");
}
END_TEST

static const struct {
    enum sbx_reason reason;
    const char *ceiling;
    const char *unit;
} units[] = {
    {SBX_REASON_WALL, NULL, "us"},           {SBX_REASON_CPU, NULL, "us"},
    {SBX_REASON_MEMORY, NULL, "bytes"},      {SBX_REASON_PROCESSES, NULL, "count"},
    {SBX_REASON_THREADS, NULL, "count"},     {SBX_REASON_CEILING, "cpu", "us"},
    {SBX_REASON_CEILING, "rttime", "us"},    {SBX_REASON_CEILING, "fsize", "bytes"},
    {SBX_REASON_CEILING, "nofile", "count"}, {SBX_REASON_CEILING, NULL, NULL},
    {SBX_REASON_NONE, NULL, NULL},           {SBX_REASON_UNMEASURABLE, NULL, NULL},
    {SBX_REASON_GUARD_LOST, NULL, NULL},     {SBX_REASON_CALLER_LOST, NULL, NULL},
    {SBX_REASON_OUTPUT, NULL, "bytes"},      {SBX_REASON_IDLE, NULL, "us"},
    {SBX_REASON_OUTPUT_CLOSED, NULL, NULL},
};

START_TEST(test_units)
{
    const char *name = units[_i].ceiling;
    struct sbx_breach breach = {.reason = units[_i].reason, .ceiling = -1};
    for (int i = 0; name != NULL && i < SBX_CEILING_COUNT; i++) {
        if (strcmp(sbx_ceiling_kinds[i].name, name) == 0) {
            breach.ceiling = i;
        }
    }
    const char *unit = sbx_breach_unit(&breach);
    ck_assert_pstr_eq(unit, units[_i].unit);
    breach.ceiling = SBX_CEILING_COUNT;
    if (breach.reason == SBX_REASON_CEILING) {
        ck_assert_ptr_null(sbx_breach_unit(&breach));
    }
}
END_TEST

static void write_document(struct sbx_json *json)
{
    sbx_json_object(json, NULL);
    sbx_json_number(json, "n", UINT64_MAX);
    sbx_json_bool(json, "t", true);
    sbx_json_array(json, "list");
    sbx_json_object(json, NULL);
    sbx_json_close(json);
    sbx_json_array(json, NULL);
    sbx_json_close(json);
    sbx_json_bytes(json, NULL, "a\"\n\xff", 4);
    sbx_json_string(json, NULL, "b\"\\");
    sbx_json_close(json);
    sbx_json_bool(json, "f", false);
    sbx_json_close(json);
}

static const char document[] = "{\"n\":18446744073709551615,\"t\":true,\"list\":[{},[],"
                               "\"a\\\"\\\\x0A\\\\xFF\",\"b\\\"\\\\\"],\"f\":false}\n";

START_TEST(test_json)
{
    char buffer[512];
    struct sbx_json json;
    sbx_json_init(&json, buffer, sizeof buffer);
    write_document(&json);
    ck_assert_int_eq(sbx_json_finish(&json), (int)sizeof document - 1);
    ck_assert_str_eq(buffer, document);
}
END_TEST

/* Every size below the right one is an overflow, none writes beyond it. */
START_TEST(test_json_overflow)
{
    for (size_t size = 0; size <= sizeof document; size++) {
        char buffer[sizeof document + 8];
        memset(buffer, '#', sizeof buffer);
        struct sbx_json json;
        sbx_json_init(&json, buffer, size);
        write_document(&json);
        ssize_t length = sbx_json_finish(&json);
        ck_assert_msg(size == sizeof document ? length == (ssize_t)size - 1
                                              : length == -ENOBUFS,
                      "size %zu: %zd", size, length);
        for (size_t i = size; i < sizeof buffer; i++) {
            ck_assert_int_eq(buffer[i], '#');
        }
    }
}
END_TEST

START_TEST(test_json_nesting)
{
    char buffer[128];
    struct sbx_json json;
    sbx_json_init(&json, buffer, sizeof buffer);
    sbx_json_object(&json, NULL);
    ck_assert_int_eq(sbx_json_finish(&json), -EINVAL);

    sbx_json_init(&json, buffer, sizeof buffer);
    sbx_json_close(&json);
    ck_assert_int_eq(sbx_json_finish(&json), -ENOBUFS);

    for (int depth = SBX_JSON_DEPTH; depth <= SBX_JSON_DEPTH + 1; depth++) {
        sbx_json_init(&json, buffer, sizeof buffer);
        for (int i = 0; i < depth; i++) {
            sbx_json_array(&json, NULL);
        }
        for (int i = 0; i < depth; i++) {
            sbx_json_close(&json);
        }
        ssize_t length = sbx_json_finish(&json);
        ck_assert_int_eq(length, depth == SBX_JSON_DEPTH ? 2 * depth + 1 : -ENOBUFS);
    }
}
END_TEST

/* A copy put back takes away what was written since, an overflow too. */
START_TEST(test_json_take_back)
{
    char buffer[32];
    struct sbx_json json;
    sbx_json_init(&json, buffer, sizeof buffer);
    sbx_json_array(&json, NULL);
    sbx_json_number(&json, NULL, 1);
    struct sbx_json before = json;
    sbx_json_string(&json, NULL, "far more than there is room for in the buffer");
    ck_assert(json.overflow);
    json = before;
    sbx_json_number(&json, NULL, 2);
    sbx_json_close(&json);
    ck_assert_int_gt(sbx_json_finish(&json), 0);
    ck_assert_str_eq(buffer, "[1,2]\n");
}
END_TEST

/* Long text goes through in chunks: a character is never torn, wherever it lies, and what
 * is no character is escaped byte by byte. */
START_TEST(test_json_long_text)
{
    static const struct {
        const char *unit;
        const char *spelled;
    } rows[] = {
        {"\xe2\x82\xac", "\xe2\x82\xac"}, {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
        {"\xc3\xa9", "\xc3\xa9"},         {"\x80", "\\\\x80"},
        {"\xe2\x82", "\\\\xE2\\\\x82"},   {"\\", "\\\\x5C"},
    };
    for (size_t row = 0; row < LENGTH(rows); row++) {
        for (size_t shift = 0; shift < 4; shift++) {
            char source[4096] = "";
            char wanted[16384] = "[\"";
            char buffer[16384];
            for (size_t i = 0; i < shift; i++) {
                strcat(source, "s");
                strcat(wanted, "s");
            }
            for (size_t i = 0; i < 900; i++) {
                strcat(source, rows[row].unit);
                strcat(wanted, rows[row].spelled);
            }
            strcat(wanted, "\"]\n");
            struct sbx_json json;
            sbx_json_init(&json, buffer, sizeof buffer);
            sbx_json_array(&json, NULL);
            sbx_json_bytes(&json, NULL, source, strlen(source));
            sbx_json_close(&json);
            ck_assert_int_eq(sbx_json_finish(&json), (int)strlen(wanted));
            ck_assert_msg(strcmp(buffer, wanted) == 0, "row %zu, shift %zu", row, shift);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("record");
    TCase *record = sbx_fixture_case(suite, "record", 20);
    tcase_add_test(record, test_init);
    tcase_add_test(record, test_warnings);
    tcase_add_test(record, test_strays);
    tcase_add_test(record, test_survivors);
    tcase_add_test(record, test_names);
    tcase_add_loop_test(record, test_units, 0, (int)LENGTH(units));
    TCase *json = sbx_fixture_case(suite, "json", 20);
    tcase_add_test(json, test_json);
    tcase_add_test(json, test_json_overflow);
    tcase_add_test(json, test_json_nesting);
    tcase_add_test(json, test_json_take_back);
    tcase_add_test(json, test_json_long_text);
    return sbx_fixture_run(suite);
}
