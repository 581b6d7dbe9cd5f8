/*
 * test_report_schema.c - the schema takes every report that we write, and refuses every
 * wrong one.
 *
 * Writes the samples, and mutants of them, as files and gives them to validate_report.py
 * in one call each. Ends with 77 (skipped) where the interpreter or its jsonschema is
 * missing.
 */
#include "monitor/report.h"
#include "tests/fixture.h"
#include "tests/report_samples.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define PYTHON "/usr/bin/python3"
#define SKIPPED 77

static char text[SBX_REPORT_SIZE];

/* One change of a valid report. `key`: a path, 0 being the first entry of a list;
 * `value`: JSON with ' for ", NULL takes the key away. `fault`: what the validator must
 * say. */
static const struct {
    const char *sample;
    const char *key;
    const char *value;
    const char *fault;
} mutants[] = {
    {"exited", "unheard_of", "1", "(top): \"Additional properties are not allowed"},
    {"exited", "schema", "'sbx.report/2'", "schema: "},
    {"exited", "schema", NULL, "(top): \"'schema' is a required property"},
    {"exited", "outcome", NULL, "(top): \"'outcome' is a required property"},
    {"exited", "outcome", "'finished'", "outcome: "},
    {"exited", "limits", NULL, "(top): \"'limits' is a required property"},
    {"exited", "exit_code", NULL, "(top): \"'exit_code' is a required property"},
    {"exited", "exit_code", "256", "exit_code: "},
    {"exited", "exit_code", "-1", "exit_code: "},
    {"exited", "exit_code", "0.5", "exit_code: "},
    {"exited", "exit_code", "'0'", "exit_code: "},
    {"exited", "exit_code", "null", "exit_code: "},
    {"exited", "signal", "'SIGTERM'", "signal: "},
    {"exited", "core_dumped", "false", "(top): \"'signal' is a dependency"},
    {"exited", "cancel_signal", "'SIGTERM'", "cancel_signal: "},
    {"exited", "breach", "{'reason':'wall'}", "breach: "},
    {"exited", "termination", NULL, "(top): \"'termination' is a required property"},
    {"exited", "containment", NULL, "(top): \"'containment' is a required property"},
    {"exited", "leader_pid", NULL, "(top): \"'leader_pid' is a required property"},
    {"exited", "leader_pid", "0", "leader_pid: "},
    {"exited", "started_at", "'2026-09-21 14:13:20Z'", "started_at: "},
    {"exited", "started_at", "'2026-13-21T14:13:20.123456Z'", "started_at: "},
    {"exited", "started_at", "1790000000", "started_at: "},
    {"exited", "command/0", "'a\\nb'", "command/0: "},
    {"exited", "command/0", "'a\\\\b'", "command/0: "},
    {"exited", "command/0", "'ends\\n'", "command/0: "},
    {"exited", "command/0", "7", "command/0: "},
    {"exited", "command_count", "2", "command: "},
    {"exited", "command", NULL, "(top): \"'command' is a required property"},
    {"observed", "command", "['sleep']", "command: "},
    {"observed", "exit_code", "0", "exit_code: "},
    {"observed", "leader_pid", NULL, "(top): \"'leader_pid' is a required property"},
    {"observed", "containment/guarantee", "'complete'", "containment/guarantee: "},
    {"observed", "containment/kill", "'sweep'", "containment/kill: "},
    {"observed", "containment/tracking", "'subreaper'", "containment/tracking: "},
    {"observed", "termination/proof", "'no-children'", "termination/proof: "},
    {"observed", "breach", "{'reason':'guard-lost'}", "breach: "},
    {"enforced", "command", "['sleep']", "command: "},
    {"exited", "usage/wall_us", "18446744073709551615", "usage/wall_us: "},
    {"exited", "usage/wall_us", "-1", "usage/wall_us: "},
    {"exited", "usage/wall_us", "1.5", "usage/wall_us: "},
    {"exited", "usage/wall_us", "'1876000'", "usage/wall_us: "},
    {"exited", "usage/wall_us", NULL, "usage: "},
    {"exited", "usage/unheard_of", "1", "usage: "},
    {"exited", "usage/cpu_us", "1", "usage: \"'cpu_complete' is a dependency"},
    {"exited", "usage/memory_method", "'pss'",
     "usage: \"'memory_peak_bytes' is a dependency"},
    {"exited", "usage/processes_method", "'sampled'", "usage: "},
    {"exited", "sampling/max_gap_us", "5", "sampling/max_gap_us: "},
    {"exited", "sampling/samples", NULL, "sampling: "},
    {"exited", "containment/guarantee", "'best-effort'", "containment/guarantee: "},
    {"exited", "containment/tracking", "'guess'", "containment/tracking: "},
    {"exited", "termination/proof", "'looked'", "termination/proof: "},
    {"exited", "termination/strays_count", NULL, "termination: "},
    {"exited", "termination/strays_count", "1", "termination/strays: "},
    {"exited", "termination/survivors_count", "1", "termination/survivors"},
    {"exited", "limits/wall_us", "0", "limits/wall_us: "},
    {"exited", "limits/wall", "5", "limits: "},
    {"exited", "ceilings/nofiles", "{}", "ceilings: "},
    {"exited", "ceilings/nofile", "{'hard':5}", "ceilings/nofile: "},
    {"exited", "ceilings/nofile", "{'soft':'unlimited'}", "ceilings/nofile/soft: "},
    {"exited", "armed", "{}", "armed: "},
    {"held", "armed/wall_us", "5", "armed: "},
    {"held", "armed/threads", "0", "armed/threads: "},
    {"held", "armed/swap_bytes", "-1", "armed/swap_bytes: "},
    {"held", "limits/swap_bytes", "0", "limits/swap_bytes: "},
    {"held", "limits/cpu_quota_percent", "0", "limits/cpu_quota_percent: "},
    {"held", "usage/memory_method", "'cgroup'", "usage/memory_method: "},
    {"held", "containment/kill", "'cgroup'", "containment/kill: "},
    {"held", "containment/guarantee", "'best-effort'", "containment/guarantee: "},
    {"oom", "breach/limit", "5", "breach/limit: "},
    {"group-kept", "containment/group_left", "7", "containment/group_left: "},
    {"exited", "warnings_count", "1", "warnings: "},
    {"exited", "error", "{'stage':'none','message':'x','errno':5}", "error/stage: "},
    {"exited", "error", "{'stage':'exec','message':'','errno':5}", "error/message: "},
    {"exited", "error", "{'stage':'exec','message':'x','errno':0}", "error/errno: "},
    {"full", "termination/strays/0/name", NULL, "termination/strays/0: "},
    {"full", "termination/strays/0/name",
     "'0123456789abcdef0123456789abcdef"
     "0123456789abcdef0123456789abcdef'",
     "termination/strays/0/name: "},
    {"full", "termination/strays/0/pid", "-5", "termination/strays/0/pid: "},
    {"full", "termination/strays/0/state", "'S'", "termination/strays/0: "},
    {"full", "ceilings/nofile/unit", "'count'", "ceilings/nofile: "},
    {"signaled", "signal", NULL, "(top): \"'signal' is a required property"},
    {"signaled", "signal", "11", "signal: "},
    {"signaled", "signal", "'SEGV'", "signal: "},
    {"signaled", "core_dumped", NULL, "(top): \"'core_dumped' is a dependency"},
    {"signaled", "core_dumped", "'no'", "core_dumped: "},
    {"wall", "breach", NULL, "(top): \"'breach' is a required property"},
    {"wall", "breach/reason", NULL, "breach: \"'reason' is a required property"},
    {"wall", "breach/reason", "'time'", "breach/reason: "},
    {"wall", "breach/reason", "'ceiling'", "breach: \"'name' is a required property"},
    {"wall", "breach/reason", "'guard-lost'", "breach/limit: "},
    {"wall", "breach/name", "'cpu'", "breach/name: "},
    {"wall", "breach/limit", NULL, "breach: \"'limit' is a required property"},
    {"wall", "breach/limit", "2002000", "breach: observed 2001234 is below"},
    {"wall", "breach/observed", "-1", "breach/observed: "},
    {"wall", "breach/observed", "true", "breach/observed: "},
    {"wall", "breach/unit", NULL, "breach: \"'unit' is a dependency"},
    {"wall", "breach/unit", "'bytes'", "breach/unit: "},
    {"wall", "breach/unit", "'s'", "breach/unit: "},
    {"wall", "breach/at_us", NULL, "breach: \"'at_us' is a required property"},
    {"wall", "outcome", "'exited'", "breach: "},
    {"memory", "breach/unit", "'us'", "breach/unit: "},
    {"memory", "breach/culprit/pid", NULL, "breach/culprit: "},
    {"memory", "breach/culprit/value", "'many'", "breach/culprit/value: "},
    {"memory", "usage/memory_method", NULL, "usage: \"'memory_method' is a dependency"},
    {"ceiling", "breach/name", "'wall'", "breach/name: "},
    {"ceiling-bare", "breach/unit", "'bytes'", "breach: "},
    {"cancelled", "cancel_signal", NULL,
     "(top): \"'cancel_signal' is a required property"},
    {"not-found", "error", NULL, "(top): \"'error' is a required property"},
    {"not-found", "exit_code", "127", "exit_code: "},
    {"not-found", "error/errno", "'ENOENT'", "error/errno: "},
    {"not-found", "error/stage", NULL, "error: "},
    {"survivor", "termination/proof", "'no-children'", "termination/survivors"},
    {"survivor", "termination/survivors/0/why", NULL, "termination/survivors/0: "},
    {"survivor", "termination/survivors/0/pid", NULL, "termination/survivors/0: "},
    {"survivor", "termination/survivors/0/name", NULL, "termination/survivors/0: "},
    {"survivor", "termination/survivors_count", "0", "termination/survivors: "},
    {"largest", "command_count", "5", "command: "},
};

/* Faults of the text itself; %s stands for a valid report without its line feed. */
static const struct {
    const char *format;
    const char *fault;
} broken[] = {
    {"%s", "(text): does not end with a line feed"},
    {"%s\n\n", "(text): is more than one line"},
    {"%s\n{}\n", "(text): Extra data"},
    {"\xef\xbb\xbf%s\n", "(text): "},
    {"\xff%s\n", "(text): "},
    {"noise %s\n", "(text): "},
    {"[%s]\n", "(top): "},
    {"{\"outcome\":1,\"outcome\":1}\n", "(text): key 'outcome' is repeated"},
    {"{\"exit_code\":NaN}\n", "(text): NaN is not JSON"},
    {"", "(text): "},
};

static void write_file(const char *path, const char *data)
{
    FILE *file = fopen(path, "we");
    ck_assert_msg(file != NULL, "%s: %s", path, strerror(errno));
    ck_assert_int_ge(fputs(data, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

static void format_sample(const struct sample *sample)
{
    struct sbx_spec spec;
    struct sbx_record record;
    sample_fill(sample, &spec, &record);
    ck_assert_int_gt(sbx_report_format(&spec, &record, text, sizeof text), 0);
}

/* Validates every file of the test's directory named PREFIX*; what it says goes to a file
 * whose text is returned (the caller's). */
static char *validate(const char *prefix, int *ret_status)
{
    char command[2048];
    char path[SBX_FIXTURE_PATH_SIZE];
    (void)snprintf(command, sizeof command,
                   "cd '%s' && exec " PYTHON " -W ignore '%s' %s* >said 2>&1",
                   sbx_fixture_dir(), SBX_TEST_VALIDATOR, prefix);
    int status = system(command); /* NOLINT(cert-env33-c): our own words */
    ck_assert(WIFEXITED(status));
    *ret_status = WEXITSTATUS(status);
    FILE *file = fopen(sbx_fixture_path(path, "said"), "re");
    ck_assert_ptr_nonnull(file);
    char *said = NULL;
    size_t size = 0;
    if (getdelim(&said, &size, '\0', file) < 0) {
        free(said);
        said = strdup("");
    }
    ck_assert_int_eq(fclose(file), 0);
    return said;
}

START_TEST(test_samples_are_valid)
{
    for (size_t i = 0; i < sample_count; i++) {
        char path[SBX_FIXTURE_PATH_SIZE];
        char name[64];
        (void)snprintf(name, sizeof name, "good.%s", samples[i].name);
        format_sample(&samples[i]);
        write_file(sbx_fixture_path(path, name), text);
    }
    int status = -1;
    char *said = validate("good.", &status);
    ck_assert_msg(status == 0, "status %d: %s", status, said);
    ck_assert_str_eq(said, "");
    free(said);
}
END_TEST

static json_t *step_into(json_t *value, const char *key)
{
    return json_is_array(value) ? json_array_get(value, (size_t)strtoul(key, NULL, 10))
                                : json_object_get(value, key);
}

/* Sets or deletes the value at a path of keys. */
static void mutate(json_t *report, const char *key, const char *source)
{
    char path[128];
    char *rest = path;
    (void)snprintf(path, sizeof path, "%s", key);
    json_t *holder = report;
    for (char *slash; (slash = strchr(rest, '/')) != NULL; rest = slash + 1) {
        *slash = '\0';
        holder = step_into(holder, rest);
        ck_assert_msg(holder != NULL, "no %s in %s", rest, key);
    }
    if (source == NULL) {
        ck_assert_msg(json_object_del(holder, rest) == 0, "no %s to take away", key);
        return;
    }
    char copy[256];
    (void)snprintf(copy, sizeof copy, "%s", source);
    for (char *at = copy; *at != '\0'; at++) {
        *at = *at == '\'' ? '"' : *at;
    }
    json_error_t error;
    json_t *value = json_loads(copy, JSON_DECODE_ANY, &error);
    /* More than jansson can hold: a word to be replaced in the text. */
    value = value != NULL ? value : json_string("@");
    ck_assert_int_eq(json_is_array(holder)
                         ? json_array_set_new(holder, strtoul(rest, NULL, 10), value)
                         : json_object_set_new(holder, rest, value),
                     0);
}

static void write_mutant(size_t index, const char *path)
{
    json_error_t error;
    format_sample(sample_find(mutants[index].sample));
    json_t *report = json_loads(text, 0, &error);
    ck_assert_msg(report != NULL, "%s", error.text);
    mutate(report, mutants[index].key, mutants[index].value);
    char *changed = json_dumps(report, JSON_COMPACT);
    char *placeholder = strstr(changed, "\"@\"");
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    if (placeholder != NULL) {
        *placeholder = '\0';
        (void)fprintf(file, "%s%s%s\n", changed, mutants[index].value, placeholder + 3);
    } else {
        (void)fprintf(file, "%s\n", changed);
    }
    ck_assert_int_eq(fclose(file), 0);
    free(changed);
    json_decref(report);
}

/* Whether a line "NAME: ...FAULT" is in what was said. */
static bool is_said(const char *said, const char *name, const char *fault)
{
    char wanted[256];
    (void)snprintf(wanted, sizeof wanted, "%s: %s", name, fault);
    for (const char *line = said; line != NULL && *line != '\0';) {
        if (strncmp(line, wanted, strlen(wanted)) == 0) {
            return true;
        }
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return false;
}

START_TEST(test_mutants_are_refused)
{
    for (size_t i = 0; i < LENGTH(mutants); i++) {
        char path[SBX_FIXTURE_PATH_SIZE];
        char name[64];
        (void)snprintf(name, sizeof name, "bad.%03zu", i);
        write_mutant(i, sbx_fixture_path(path, name));
    }
    int status = -1;
    char *said = validate("bad.", &status);
    ck_assert_msg(status == 1, "status %d: %s", status, said);
    for (size_t i = 0; i < LENGTH(mutants); i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "bad.%03zu", i);
        ck_assert_msg(is_said(said, name, mutants[i].fault),
                      "%s: %s of %s as %s was not refused with: %s\n%s", name,
                      mutants[i].key, mutants[i].sample,
                      mutants[i].value != NULL ? mutants[i].value : "(absent)",
                      mutants[i].fault, said);
    }
    free(said);
}
END_TEST

START_TEST(test_broken_text_is_refused)
{
    format_sample(sample_find("exited"));
    *strchr(text, '\n') = '\0';
    for (size_t i = 0; i < LENGTH(broken); i++) {
        char path[SBX_FIXTURE_PATH_SIZE];
        char name[64];
        char *data = malloc(strlen(text) + strlen(broken[i].format) + 1);
        const char *mark = strstr(broken[i].format, "%s");
        size_t before = mark != NULL ? (size_t)(mark - broken[i].format) : 0;
        memcpy(data, broken[i].format, before);
        data[before] = '\0';
        strcat(data, mark != NULL ? text : broken[i].format);
        strcat(data, mark != NULL ? mark + 2 : "");
        (void)snprintf(name, sizeof name, "broken.%02zu", i);
        write_file(sbx_fixture_path(path, name), data);
        free(data);
    }
    int status = -1;
    char *said = validate("broken.", &status);
    ck_assert_msg(status == 1, "status %d: %s", status, said);
    for (size_t i = 0; i < LENGTH(broken); i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "broken.%02zu", i);
        ck_assert_msg(is_said(said, name, broken[i].fault), "%s: no: %s\n%s", name,
                      broken[i].fault, said);
    }
    free(said);
}
END_TEST

int main(void)
{
    /* NOLINTNEXTLINE(cert-env33-c): our own words */
    if (system(PYTHON " -W ignore -c 'import jsonschema' >/dev/null 2>&1") != 0) {
        puts("SKIP: no schema validation: python3-jsonschema is not installed");
        return SKIPPED;
    }
    Suite *suite = suite_create("report_schema");
    TCase *schema = sbx_fixture_case(suite, "schema", 120);
    tcase_add_test(schema, test_samples_are_valid);
    tcase_add_test(schema, test_mutants_are_refused);
    tcase_add_test(schema, test_broken_text_is_refused);
    return sbx_fixture_run(suite);
}
