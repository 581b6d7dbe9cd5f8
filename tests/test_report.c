/*
 * test_report.c - the report as JSON: compared whole with golden ones, parsed by jansson.
 * Status and line are in test_outcome.c, the schema in test_report_schema.c.
 */
#include "monitor/report.h"
#include "tests/fixture.h"
#include "tests/report_samples.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static char text[SBX_REPORT_SIZE];

static json_t *parse(const char *source)
{
    json_error_t error;
    json_t *value = json_loads(source, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(value != NULL, "%s at %d of %.2000s", error.text, error.position,
                  source);
    return value;
}

static json_t *format_sample(const char *name, struct sbx_spec *spec,
                             struct sbx_record *record)
{
    sample_fill(sample_find(name), spec, record);
    ssize_t length = sbx_report_format(spec, record, text, sizeof text);
    ck_assert_int_gt(length, 0);
    ck_assert_int_eq((int)strlen(text), length);
    ck_assert_ptr_eq(strchr(text, '\n'), text + length - 1);
    return parse(text);
}

/* The keys that every started run of the samples has. */
#define STARTED                                                                          \
    "'schema':'sbx.report/1','run_id':'run-0001','command':['sleep','60'],"              \
    "'leader_pid':4711,'started_at':'2026-09-21T14:13:20.123456Z',"                      \
    "'finished_at':'2026-09-21T14:13:22.000007Z',"                                       \
    "'containment':{'tracking':'subreaper','kill':'sweep','guarantee':'complete'},"
#define GROUPED(kill, left)                                                              \
    "'schema':'sbx.report/1','run_id':'run-0001','command':['sleep','60'],"              \
    "'leader_pid':4711,'started_at':'2026-09-21T14:13:20.123456Z',"                      \
    "'finished_at':'2026-09-21T14:13:22.000007Z',"                                       \
    "'containment':{'tracking':'cgroup2'," kill "'guarantee':'complete'" left            \
    "}," SAMPLED
#define GROUP_USAGE(kills)                                                               \
    "'usage':{'wall_us':1876000,'cpu_us':900,'cpu_complete':true,'cpu_method':'cgroup2'" \
    ","                                                                                  \
    "'memory_peak_bytes':67108864,'memory_method':'cgroup2','processes_peak':2,"         \
    "'processes_method':'cgroup2','memory_pressure_us':1500," kills "},"
#define SAMPLED "'sampling':{'samples':1,'interval_us':250000},"
#define WALL "'usage':{'wall_us':1876000},"
#define QUIET "'warnings':[],'warnings_count':0"
#define ENDED(more)                                                                      \
    "'termination':{" more "'strays':[],'strays_count':0,'survivors':[],"                \
    "'survivors_count':0,'duration_us':150,'proof':'no-children'},"
#define BY_ITSELF ENDED("'escalated':false,'killed_count':0,")

/* With ' for ". Without the host, which is looked at on its own. */
static const struct {
    const char *sample;
    const char *report;
} goldens[] = {
    {"exited", "{" STARTED SAMPLED WALL BY_ITSELF
               "'outcome':'exited','exit_code':0,'limits':{},'ceilings':{}," QUIET "}"},
    {"full",
     "{" STARTED "'sampling':{'samples':9,'interval_us':250000,'max_gap_us':250100,"
     "'monitor_cpu_us':420},'usage':{'wall_us':1876000,'cpu_us':900,'cpu_user_us':900,"
     "'cpu_system_us':0,'cpu_complete':true,'cpu_method':'rusage',"
     "'memory_peak_bytes':6442450944,'memory_peak_at_us':100,'memory_method':'pss',"
     "'memory_anon_peak_bytes':4096,'swap_peak_bytes':0,"
     "'process_memory_peak_bytes':8192,'processes_peak':2,'processes_total':5,"
     "'processes_method':'sampled','threads_peak':7,'output_bytes':1000},"
     "'output_truncated':false,"
     "'termination':{'escalated':true,'killed_count':1,"
     "'strays':[{'pid':4800,'name':'sleep'}],'strays_count':1,'survivors':[],"
     "'survivors_count':0,'duration_us':150,'proof':'no-children'},"
     "'outcome':'exited','exit_code':3,"
     "'limits':{'wall_us':2000000,'cpu_us':3000000,'memory_bytes':209715200,"
     "'processes':20,'threads':40,'output_bytes':1048576,'idle_us':5000000},"
     "'ceilings':{'nofile':{'soft':64,'hard':128},'core':{'soft':0},'as':{}},"
     "'warnings':['memory is at 93 % of its limit'],'warnings_count':1}"},
    {"signaled", "{" STARTED SAMPLED WALL BY_ITSELF
                 "'outcome':'signaled','signal':'SIGSEGV','core_dumped':true,"
                 "'limits':{},'ceilings':{}," QUIET "}"},
    {"wall",
     "{" STARTED SAMPLED WALL ENDED("'signal':'SIGTERM','escalated':false,'killed_count':"
                                    "0,") "'outcome':'breach','signal':'SIGTERM','core_"
                                          "dumped':false,"
                                          "'breach':{'reason':'wall','limit':2000000,'"
                                          "observed':2001234,'unit':'us',"
                                          "'at_us':2001000},'limits':{'wall_us':2000000},"
                                          "'ceilings':{}," QUIET "}"},
    {"memory",
     "{" STARTED SAMPLED ENDED(
         "'escalated':true,'killed_count':10,") "'usage':{'wall_us':1876000,'memory_peak_"
                                                "bytes':224709837,"
                                                "'memory_method':'rss'},"
                                                "'outcome':'breach','signal':'SIGKILL','"
                                                "core_dumped':false,"
                                                "'breach':{'reason':'memory','limit':"
                                                "209715200,'observed':224709837,"
                                                "'unit':'bytes','at_us':2001000,"
                                                "'culprit':{'pid':123,'name':'python3','"
                                                "value':104857600}},"
                                                "'limits':{'memory_bytes':209715200},'"
                                                "ceilings':{}," QUIET "}"},
    {"output",
     "{" STARTED SAMPLED BY_ITSELF "'usage':{'wall_us':1876000,'output_bytes':1048600},"
     "'outcome':'breach','signal':'SIGTERM','core_dumped':false,"
     "'output_truncated':true,"
     "'breach':{'reason':'output','limit':1048576,'observed':1048600,"
     "'unit':'bytes','at_us':2001000},"
     "'limits':{'output_bytes':1048576},'ceilings':{}," QUIET "}"},
    {"idle", "{" STARTED SAMPLED BY_ITSELF
             "'usage':{'wall_us':1876000,'output_bytes':0},'outcome':'breach',"
             "'output_truncated':false,"
             "'breach':{'reason':'idle','limit':5000000,'observed':5001200,"
             "'unit':'us','at_us':2001000},"
             "'limits':{'idle_us':5000000},'ceilings':{}," QUIET "}"},
    {"output-closed",
     "{" STARTED SAMPLED WALL BY_ITSELF "'outcome':'breach','output_truncated':true,"
     "'breach':{'reason':'output-closed','at_us':2001000},"
     "'limits':{},'ceilings':{}," QUIET "}"},
    {"ceiling", "{" STARTED SAMPLED WALL BY_ITSELF
                "'outcome':'breach','signal':'SIGXCPU','core_dumped':false,"
                "'breach':{'reason':'ceiling','name':'cpu','limit':1000000,"
                "'observed':1004000,'unit':'us','at_us':2001000},"
                "'limits':{},'ceilings':{'cpu':{'soft':1,'hard':2}}," QUIET "}"},
    {"ceiling-bare",
     "{" STARTED SAMPLED WALL BY_ITSELF
     "'outcome':'breach','signal':'SIGXFSZ','core_dumped':false,"
     "'breach':{'reason':'ceiling','name':'fsize','at_us':2001000},"
     "'limits':{},'ceilings':{'fsize':{'soft':4096,'hard':4096}}," QUIET "}"},
    {"unmeasurable",
     "{" STARTED SAMPLED WALL BY_ITSELF
     "'outcome':'breach','breach':{'reason':'unmeasurable','at_us':2001000},"
     "'limits':{},'ceilings':{},'error':{'stage':'monitor',"
     "'message':'cannot open /proc/4711/stat','errno':24,'errno_name':'EMFILE'}," QUIET
     "}"},
    {"cancelled",
     "{" STARTED SAMPLED WALL ENDED("'signal':'SIGTERM','escalated':false,'killed_count':"
                                    "0,") "'outcome':'cancelled','cancel_signal':'SIGINT'"
                                          ",'signal':'SIGTERM',"
                                          "'core_dumped':false,'limits':{},'ceilings':{}"
                                          "," QUIET "}"},
    {"options",
     "{'schema':'sbx.report/1','outcome':'launch-failed','limits':{},'ceilings':{}," QUIET
     ",'error':{'stage':'options',"
     "'message':'option --wall: ^5\\\\x0A\\\"x^ is not a duration','errno':22,"
     "'errno_name':'EINVAL'}}"},
    {"lost-early",
     "{'schema':'sbx.report/1','command':['sleep','60'],'outcome':'lost',"
     "'termination':{'escalated':false,'killed_count':0,'strays':[],'strays_count':0,"
     "'survivors':[],'survivors_count':0,'proof':'none'},"
     "'limits':{},'ceilings':{}," QUIET "}"},
    {"held",
     "{" GROUPED("'kill':'cgroup.kill',", "") GROUP_USAGE(
         "'oom_kills':3") "'termination':{'escalated':false,'killed_count':0,'strays':[],"
                          "'strays_count':0,'survivors':[],'survivors_count':0,'duration_"
                          "us':150,"
                          "'proof':'group-empty'},"
                          "'outcome':'breach','signal':'SIGKILL','core_dumped':false,"
                          "'breach':{'reason':'memory','limit':67108864,'observed':"
                          "67108864,"
                          "'unit':'bytes','at_us':2001000},"
                          "'limits':{'memory_bytes':67108865,'threads':20,'cpu_quota_"
                          "percent':150},"
                          "'armed':{'memory_bytes':67108864,'swap_bytes':0,'threads':20,"
                          "'cpu_quota_percent':150},'ceilings':{}," QUIET "}"},
    {"oom",
     "{" GROUPED("'kill':'cgroup.kill',", "") GROUP_USAGE(
         "'oom_kills':1") "'termination':{'escalated':false,'killed_count':0,'strays':[],"
                          "'strays_count':0,'survivors':[],'survivors_count':0,'duration_"
                          "us':150,"
                          "'proof':'group-empty'},"
                          "'outcome':'breach','signal':'SIGKILL','core_dumped':false,"
                          "'breach':{'reason':'oom','at_us':2001000},"
                          "'limits':{'memory_bytes':209715200,'swap_bytes':1048576},"
                          "'armed':{'memory_bytes':209715200,'swap_bytes':1048576},"
                          "'ceilings':{}," QUIET "}"},
    {"group-kept", "{" GROUPED("", ",'group_left':'/sys/fs/cgroup/a\\\\x0Ab/sbx-1'") WALL
     "'termination':{'escalated':false,'killed_count':0,"
     "'strays':[{'pid':5000,'name':'daemon'}],'strays_count':1,'survivors':[],"
     "'survivors_count':0,'proof':'none'},"
     "'outcome':'exited','exit_code':0,'limits':{},'ceilings':{}," QUIET "}"},
    {"survivor", "{" STARTED SAMPLED WALL
                 "'termination':{'escalated':false,'killed_count':0,'strays':[],"
                 "'strays_count':0,'survivors':[{'pid':123,'name':'su',"
                 "'why':'not permitted'}],'survivors_count':1,'proof':'none'},"
                 "'outcome':'exited','exit_code':0,'limits':{},'ceilings':{}," QUIET "}"},
};

static json_t *parse_golden(const char *source)
{
    char *copy = strdup(source);
    for (char *at = copy; *at != '\0'; at++) {
        *at = *at == '\'' ? '"' : *at == '^' ? '\'' : *at;
    }
    json_t *value = parse(copy);
    free(copy);
    return value;
}

START_TEST(test_golden)
{
    struct sbx_spec spec;
    struct sbx_record record;
    json_t *report = format_sample(goldens[_i].sample, &spec, &record);
    json_t *golden = parse_golden(goldens[_i].report);
    char host[256] = "";
    ck_assert_int_eq(gethostname(host, sizeof host), 0);
    ck_assert_pstr_eq(json_string_value(json_object_get(report, "host")), host);
    json_object_del(report, "host");
    char *wanted = json_dumps(golden, JSON_SORT_KEYS);
    char *found = json_dumps(report, JSON_SORT_KEYS);
    ck_assert_str_eq(found, wanted);
    free(wanted);
    free(found);
    json_decref(golden);
    json_decref(report);
}
END_TEST

/* Every number that is not known is absent, with all that only goes with it. */
START_TEST(test_unknown_is_absent)
{
    struct sbx_spec spec;
    struct sbx_record record;
    json_t *report = format_sample("exited", &spec, &record);
    ck_assert_ptr_null(strstr(text, "18446744073709551615"));
    json_decref(report);

    record.usage.cpu_complete = true;
    record.usage.cpu_method = SBX_METHOD_RUSAGE;
    record.usage.memory_method = SBX_MEMORY_PSS;
    record.usage.processes_method = SBX_METHOD_SAMPLED;
    record.usage.wall_us = SBX_UNKNOWN;
    record.cancel_signal = SIGINT; /* came when the run had ended */
    ck_assert_int_gt(sbx_report_format(&spec, &record, text, sizeof text), 0);
    report = parse(text);
    ck_assert_ptr_null(json_object_get(report, "usage"));
    ck_assert_ptr_null(json_object_get(report, "breach"));
    ck_assert_ptr_null(json_object_get(report, "error"));
    ck_assert_ptr_null(json_object_get(report, "cancel_signal"));
    json_decref(report);
}
END_TEST

/* The leader's own end is told whatever the outcome, and never both kinds of it. */
START_TEST(test_own_end)
{
    static const char *const names[] = {"wall", "cancelled", "lost"};
    for (size_t i = 0; i < LENGTH(names); i++) {
        struct sbx_spec spec;
        struct sbx_record record;
        json_decref(format_sample(names[i], &spec, &record));
        record.has_exit_code = true;
        record.exit_code = 5;
        ck_assert_int_gt(sbx_report_format(&spec, &record, text, sizeof text), 0);
        json_t *report = parse(text);
        ck_assert_int_eq(json_integer_value(json_object_get(report, "exit_code")), 5);
        ck_assert_ptr_null(json_object_get(report, "signal"));
        ck_assert_ptr_null(json_object_get(report, "core_dumped"));
        json_decref(report);
    }
}
END_TEST

static const char *item(const json_t *list, size_t index, const char *key)
{
    const json_t *entry = json_array_get(list, index);
    return json_string_value(key != NULL ? json_object_get(entry, key) : entry);
}

START_TEST(test_ugly_text)
{
    struct sbx_spec spec;
    struct sbx_record record;
    json_t *report = format_sample("ugly", &spec, &record);
    const json_t *command = json_object_get(report, "command");
    ck_assert_uint_eq(json_array_size(command), 3);
    ck_assert_pstr_eq(item(command, 0, NULL), "say \"hi\" \\x5C \\x09\\x7F");
    ck_assert_pstr_eq(item(command, 1, NULL),
                      "\\xFF\\xC3(\\xED\\xA0\\x80 \\xC2\\x85 ok \xe2\x82\xac");
    ck_assert_pstr_eq(item(command, 2, NULL), "");
    const json_t *strays =
        json_object_get(json_object_get(report, "termination"), "strays");
    ck_assert_pstr_eq(item(strays, 0, "name"), "a\\x0Ab\"c\\x5Cd");
    ck_assert_pstr_eq(item(strays, 1, "name"), "x) Z 1 1 1 (y");
    ck_assert_pstr_eq(item(strays, 2, "name"), "0123456789abc\\xE2\\x82");
    ck_assert_pstr_eq(item(json_object_get(report, "warnings"), 0, NULL),
                      "name \"q\\x22\"\\x0Aand a second line");
    json_decref(report);
}
END_TEST

/* All at its cap fits; the command is cut to whole arguments, and counted whole. */
START_TEST(test_largest)
{
    struct sbx_spec spec;
    struct sbx_record record;
    json_t *report = format_sample("largest", &spec, &record);
    const json_t *command = json_object_get(report, "command");
    size_t kept = json_array_size(command);
    /* 256 bytes of 5 characters each, two quotes and a comma. */
    ck_assert_uint_eq(kept, SBX_REPORT_COMMAND_SIZE / (5 * 256 + 3));
    ck_assert_uint_eq(strlen(item(command, kept - 1, NULL)), 4 * 256);
    ck_assert_int_eq(json_integer_value(json_object_get(report, "command_count")), 19999);
    const json_t *termination = json_object_get(report, "termination");
    ck_assert_uint_eq(json_array_size(json_object_get(termination, "strays")), 64);
    ck_assert_uint_eq(json_array_size(json_object_get(termination, "survivors")), 64);
    ck_assert_int_eq(json_integer_value(json_object_get(termination, "strays_count")),
                     129);
    ck_assert_uint_eq(json_array_size(json_object_get(report, "warnings")), 16);
    json_decref(report);

    /* No buffer is too small to be safe with. */
    size_t length = strlen(text);
    for (size_t size = 0; size <= length; size += 997) {
        char *small = malloc(size + 1);
        small[size] = '#';
        ck_assert_int_eq(sbx_report_format(&spec, &record, small, size), -ENOBUFS);
        ck_assert_int_eq(small[size], '#');
        free(small);
    }
}
END_TEST

START_TEST(test_command_cut)
{
    static char large[SBX_REPORT_COMMAND_SIZE + 64];
    static char word[] = "echo";
    char *argv[] = {word, large, word, NULL};
    struct sbx_spec spec;
    struct sbx_record record;
    /* "echo" and the brackets take 8 bytes, the argument its text, quotes and comma. */
    static const struct {
        size_t length;
        size_t kept;
    } rows[] = {
        {SBX_REPORT_COMMAND_SIZE - 16, 3}, {SBX_REPORT_COMMAND_SIZE - 15, 2},
        {SBX_REPORT_COMMAND_SIZE - 9, 2},  {SBX_REPORT_COMMAND_SIZE - 8, 1},
        {SBX_REPORT_COMMAND_SIZE + 60, 1},
    };
    for (size_t i = 0; i < LENGTH(rows); i++) {
        sample_fill(sample_find("exited"), &spec, &record);
        memset(large, 'a', rows[i].length);
        large[rows[i].length] = '\0';
        spec.argv = argv;
        ck_assert_int_gt(sbx_report_format(&spec, &record, text, sizeof text), 0);
        json_t *report = parse(text);
        ck_assert_msg(json_array_size(json_object_get(report, "command")) == rows[i].kept,
                      "row %zu: %zu arguments", i,
                      json_array_size(json_object_get(report, "command")));
        json_t *count = json_object_get(report, "command_count");
        ck_assert_int_eq(count != NULL, rows[i].kept < 3);
        ck_assert_int_eq(json_integer_value(count), rows[i].kept < 3 ? 3 : 0);
        json_decref(report);
    }
}
END_TEST

START_TEST(test_torn)
{
    struct sbx_spec spec;
    struct sbx_record record;
    json_t *report = format_sample("torn", &spec, &record);
    const json_t *termination = json_object_get(report, "termination");
    const json_t *strays = json_object_get(termination, "strays");
    ck_assert_uint_eq(json_array_size(strays), 64);
    ck_assert_pstr_eq(item(strays, 63, "name"), "nnnnnnnnnnnnnnnn");
    char line[SBX_REPORT_LINE_SIZE];
    ck_assert_uint_lt(strlen(sbx_report_line(&spec, &record, line)), sizeof line);
    json_decref(report);
}
END_TEST

START_TEST(test_prose)
{
    static const struct {
        const char *message;
        const char *spelled;
    } rows[] = {
        {"", ""},
        {"plain", "plain"},
        {"\\", "\\"},
        {"\\x0A\\\\", "\\x0A\\\\"},
        {"a\nb\\\x01", "a\\x0Ab\\\\x01"},
        {"\xff\\\xe2\x82\xac", "\\xFF\\\xe2\x82\xac"},
    };
    for (size_t i = 0; i < LENGTH(rows); i++) {
        char buffer[SBX_REPORT_PROSE_SIZE(16)];
        size_t length = sbx_report_prose(buffer, sizeof buffer, rows[i].message, 16);
        ck_assert_str_eq(buffer, rows[i].spelled);
        ck_assert_uint_eq(length, strlen(buffer));
    }
    /* Stops at the length, whatever lies behind it. */
    char buffer[SBX_REPORT_PROSE_SIZE(3)];
    ck_assert_uint_eq(sbx_report_prose(buffer, sizeof buffer, "ab\\cdef", 3), 3);
    ck_assert_str_eq(buffer, "ab\\");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("report");
    TCase *format = sbx_fixture_case(suite, "format", 60);
    tcase_add_loop_test(format, test_golden, 0, (int)LENGTH(goldens));
    tcase_add_test(format, test_unknown_is_absent);
    tcase_add_test(format, test_own_end);
    tcase_add_test(format, test_ugly_text);
    tcase_add_test(format, test_largest);
    tcase_add_test(format, test_command_cut);
    tcase_add_test(format, test_torn);
    tcase_add_test(format, test_prose);
    return sbx_fixture_run(suite);
}
