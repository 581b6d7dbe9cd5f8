/*
 * test_flatten.c - the walk over a report's JSON text, and the forms made of it: kv holds
 * the same keys and values as the JSON, for every sample and for texts at the edge; text
 * shows all of them to people. What is not of our writer's form is refused.
 */
#include "monitor/flatten.h"
#include "monitor/human.h"
#include "monitor/render.h"
#include "tests/fixture.h"
#include "tests/kv.h"
#include "tests/report_samples.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static char json[SBX_REPORT_SIZE];
static char rendered[SBX_RENDER_SIZE];

/* JSON and its lines; ' stands for ". */
static const struct {
    const char *json;
    const char *kv;
} texts[] = {
    {"{}", "={}\n"},
    {"{'a':1}", "a=1\n"},
    {"{'a':1}\n", "a=1\n"},
    {"{'a':true,'b':false}", "a=true\nb=false\n"},
    {"{'a':'x'}", "a='x'\n"},
    {"{'a':''}", "a=''\n"},
    {"{'a':'}],{:'}", "a='}],{:'\n"},
    {"{'a':'q\\\\'}", "a='q\\\\'\n"},
    {"{'a':[]}", "a=[]\n"},
    {"{'a':{}}", "a={}\n"},
    {"{'a':{},'b':[]}", "a={}\nb=[]\n"},
    {"{'a':{'b':{}},'c':2}", "a.b={}\nc=2\n"},
    {"{'a':[1,2],'b':3}", "a.0=1\na.1=2\nb=3\n"},
    {"{'a':[{'x':1,'y':'s'},{'x':2}],'n':2}", "a.0.x=1\na.0.y='s'\na.1.x=2\nn=2\n"},
    {"{'a':[[],[[7]]]}", "a.0=[]\na.1.0.0=7\n"},
    {"[5]", "0=5\n"},
};

static const char *const refused[] = {
    "",
    "\n",
    "7",
    "'a'",
    "{",
    "[",
    "{'a'",
    "{'a':",
    "{'a':1",
    "{'a':1,",
    "{'a':1,}",
    "{'a':1]",
    "{a:1}",
    "{'a' :1}",
    "{'a':}",
    "{'a':'x}",
    "{'a':'x\\",
    "{'a':1}}",
    "{'a':1} ",
    "{'a':1}\n\n",
    "{'a':[1,]}",
    "{'a':[}",
    "{1:2}",
    "{,}",
    "{'a'1}",
    "{'a':1'b':2}",
    "[[[[[[[[[1]]]]]]]]]", /* deeper than the writer goes */
};

static size_t quoted(char *buffer, size_t size, const char *text)
{
    size_t length = strlen(text);
    ck_assert_uint_lt(length, size);
    for (size_t i = 0; i <= length; i++) {
        buffer[i] = text[i] == '\'' ? '"' : text[i];
    }
    return length;
}

START_TEST(test_lines)
{
    char text[256];
    char wanted[256];
    size_t length = quoted(text, sizeof text, texts[_i].json);
    (void)quoted(wanted, sizeof wanted, texts[_i].kv);
    ssize_t used = sbx_render_kv(text, length, rendered, sizeof rendered);
    ck_assert_msg(used >= 0, "%s: %zd", texts[_i].json, used);
    ck_assert_str_eq(rendered, wanted);
    ck_assert_uint_eq((size_t)used, strlen(wanted));
}
END_TEST

/* Every beginning of a text, too: nothing is read behind its end. */
START_TEST(test_refused)
{
    for (size_t i = 0; i < LENGTH(refused); i++) {
        char text[64];
        size_t length = quoted(text, sizeof text, refused[i]);
        ck_assert_msg(sbx_render_kv(text, length, rendered, sizeof rendered) == -EINVAL,
                      "%s is accepted: %s", refused[i], rendered);
    }
    for (size_t i = 0; i < LENGTH(texts); i++) {
        char text[256];
        size_t length = quoted(text, sizeof text, texts[i].json);
        length -= text[length - 1] == '\n';
        for (size_t part = 0; part < length; part++) {
            char *exact = malloc(part + 1); /* ASan watches its end */
            ck_assert_ptr_nonnull(exact);
            memcpy(exact, text, part);
            ck_assert_int_eq(sbx_render_kv(exact, part, rendered, sizeof rendered),
                             -EINVAL);
            free(exact);
        }
    }
}
END_TEST

START_TEST(test_bounds)
{
    char text[SBX_FLATTEN_PATH_SIZE + 32];
    char buffer[8];
    /* A path that just fits, and one more. */
    for (int more = 0; more <= 1; more++) {
        size_t name = SBX_FLATTEN_PATH_SIZE - 1 + (size_t)more;
        (void)memset(text, 'k', sizeof text);
        memcpy(text, "{\"", 2);
        memcpy(text + 2 + name, "\":1}", 5);
        ssize_t used = sbx_render_kv(text, strlen(text), rendered, sizeof rendered);
        ck_assert_int_eq(used, more == 0 ? (ssize_t)name + 3 : -ENOBUFS);
    }
    for (size_t size = 0; size <= sizeof buffer; size++) {
        ssize_t used = sbx_render_kv("{\"ab\":12}", 9, buffer, size);
        ck_assert_int_eq(used, size > 6 ? 6 : -ENOBUFS);
    }
}
END_TEST

static size_t format_sample(const struct sample *sample)
{
    struct sbx_spec spec;
    struct sbx_record record;
    sample_fill(sample, &spec, &record);
    ssize_t length = sbx_report_format(&spec, &record, json, sizeof json);
    ck_assert_int_gt(length, 0);
    return (size_t)length;
}

START_TEST(test_samples_as_kv)
{
    size_t length = format_sample(&samples[_i]);
    ssize_t used = sbx_render_kv(json, length, rendered, sizeof rendered);
    ck_assert_int_gt(used, 0);
    kv_expect_same(rendered, json);
    json_error_t error;
    json_t *report = json_loads(json, 0, &error);
    json_t *rebuilt = kv_rebuild(rendered);
    ck_assert(json_equal(report, rebuilt)); /* nothing is lost: it leads back */
    json_decref(report);
    json_decref(rebuilt);
}
END_TEST

/* The comparison notices. */
START_TEST(test_difference_is_noticed)
{
    static const char *const others[] = {
        "a=1\nb.0=\"x\"\n",          "a=1\nb.0=\"x\"\nc={}\nd=1\n",
        "a=2\nb.0=\"x\"\nc={}\n",    "a=1\nb.0=\"y\"\nc={}\n",
        "a=1\nb.0=\"x\"\nc=[]\n",    "a=1\na=1\nb.0=\"x\"\nc={}\n",
        "a=true\nb.0=\"x\"\nc={}\n", "a=1\nb.0=\"x\"\nc={}",
        "a=1\nb.0=x\nc={}\n",        "a=1\n\nb.0=\"x\"\nc={}\n",
    };
    static const char text[] = "{\"a\":1,\"b\":[\"x\"],\"c\":{}}\n";
    ck_assert_ptr_null(kv_difference("a=1\nb.0=\"x\"\nc={}\n", text));
    for (size_t i = 0; i < LENGTH(others); i++) {
        ck_assert_msg(kv_difference(others[i], text) != NULL, "not noticed: %s",
                      others[i]);
    }
}
END_TEST

/* Every argument as small as can be: the largest that kv becomes. */
START_TEST(test_smallest_arguments)
{
    static char empty[] = "";
    static char *argv[SBX_REPORT_COMMAND_SIZE / 2];
    struct sbx_spec spec;
    struct sbx_record record;
    sample_fill(sample_find("largest"), &spec, &record);
    for (size_t i = 0; i + 1 < LENGTH(argv); i++) {
        argv[i] = empty;
    }
    spec.argv = argv;
    ssize_t length = sbx_report_format(&spec, &record, json, sizeof json);
    ck_assert_int_gt(length, 0);
    ssize_t used = sbx_render_kv(json, (size_t)length, rendered, sizeof rendered);
    ck_assert_int_gt(used, 0);
    ck_assert_uint_lt((size_t)used, sizeof rendered / 4 * 3);
    kv_expect_same(rendered, json);
    ck_assert_int_gt(sbx_render_text(json, (size_t)length, rendered, sizeof rendered), 0);
}
END_TEST

/* --- text --- */

static const struct {
    const char *sample;
    const char *begins; /* the whole first line without its line feed */
    const char *holds[8];
} verdicts[] = {
    {"exited",
     "exited: the command exited with 0; nothing of its tree is left",
     {"\nusage\n  wall                      1.87s (1876000 us)\n",
      "  command                   sleep 60\n"}},
    {"full",
     "exited: the command exited with 3; nothing of its tree is left",
     {"  memory peak               6.0 GiB (6442450944 bytes)\n",
      "\nwarnings\n  memory is at 93 % of its limit\n",
      "  strays                    4800 sleep\n", "\nlimits\n",
      "  as                        unlimited\n", "  nofile soft               64\n"}},
    {"signaled",
     "signaled: the command was ended by SIGSEGV (core dumped); nothing of its tree is "
     "left",
     {NULL}},
    {"wall",
     "breach: wall limit 2.00s, observed 2.00s (2001234 us); the command was ended by "
     "SIGTERM; nothing of its tree is left",
     {"\nbreach\n  reason                    wall\n"}},
    {"not-found", NULL, {"\nerror\n  stage                     exec\n"}},
    {"survivor", NULL, {"\ntermination\n", "  survivors                 "}},
    {"kept", NULL, {"; nothing proves that its tree is empty\n"}},
    {"lost", NULL, {"lost: the monitor died before the run ended"}},
};

START_TEST(test_verdicts)
{
    size_t length = format_sample(sample_find(verdicts[_i].sample));
    ck_assert_int_gt(sbx_render_text(json, length, rendered, sizeof rendered), 0);
    if (verdicts[_i].begins != NULL) {
        size_t line = strlen(verdicts[_i].begins);
        ck_assert_msg(strncmp(rendered, verdicts[_i].begins, line) == 0 &&
                          rendered[line] == '\n',
                      "%s", rendered);
    }
    for (size_t i = 0; i < LENGTH(verdicts[_i].holds); i++) {
        const char *wanted = verdicts[_i].holds[i];
        ck_assert_msg(wanted == NULL || strstr(rendered, wanted) != NULL,
                      "no \"%s\" in:\n%s", wanted, rendered);
    }
}
END_TEST

/* A value of the report that the text has to show. */
static bool is_shown(const struct sbx_flat *flat, void *context)
{
    char value[4096];
    size_t length = 0;
    (void)context;
    bool special = strcmp(flat->path, "schema") == 0 ||
                   strcmp(flat->path, "warnings_count") == 0 ||
                   strncmp(flat->path, "command", 7) == 0 || flat->value[0] == '[' ||
                   flat->value[0] == '{' || flat->length >= sizeof value;
    if (special) {
        return true;
    }
    for (size_t i = flat->value[0] == '"'; i < flat->length - (flat->value[0] == '"');
         i++) {
        i += flat->value[0] == '"' && flat->value[i] == '\\';
        value[length++] = flat->value[i];
    }
    value[length] = '\0';
    ck_assert_msg(strstr(rendered, value) != NULL, "%s=%s is not in:\n%s", flat->path,
                  value, rendered);
    return true;
}

START_TEST(test_text_shows_everything)
{
    size_t length = format_sample(&samples[_i]);
    ssize_t used = sbx_render_text(json, length, rendered, sizeof rendered);
    ck_assert_int_gt(used, 0);
    ck_assert_int_eq(rendered[used - 1], '\n');
    ck_assert_int_eq(sbx_flatten(json, length, is_shown, NULL), 0);
    for (const char *at = rendered; *at != '\0'; at++) {
        ck_assert_msg((unsigned char)*at >= ' ' || *at == '\n', "a control character");
    }
}
END_TEST

/* A section and a value that this version does not know. */
START_TEST(test_text_of_tomorrow)
{
    static const char text[] =
        "{\"schema\":\"sbx.report/1\",\"outcome\":\"exited\",\"exit_code\":0,\"novel\":7,"
        "\"usage\":{\"heat_peak_us\":1500000},\"weather\":{\"rain\":[{\"mm\":3}]}}\n";
    ck_assert_int_gt(sbx_render_text(text, sizeof text - 1, rendered, sizeof rendered),
                     0);
    ck_assert_str_eq(rendered, "exited: the command exited with 0\n"
                               "\nusage\n"
                               "  heat peak                 1.50s (1500000 us)\n"
                               "\nrun\n"
                               "  outcome                   exited\n"
                               "  exit code                 0\n"
                               "  novel                     7\n"
                               "\nweather\n"
                               "  rain                      3\n");
}
END_TEST

static const struct {
    uint64_t number;
    const char *us;
    const char *bytes;
} numbers[] = {
    {0, "0s", "0 B"},
    {7, "7us", "7 B"},
    {999, "999us", "999 B"},
    {1023, "1.0ms", "1023 B"},
    {1024, "1.0ms", "1.0 KiB"},
    {999999, "999.9ms", "976.5 KiB"},
    {1000000, "1.00s", "976.5 KiB"},
    {1048575, "1.04s", "1023.9 KiB"},
    {1048576, "1.04s", "1.0 MiB"},
    {59999999, "59.99s", "57.2 MiB"},
    {60000000, "1m00s", "57.2 MiB"},
    {3599999999, "59m59s", "3.3 GiB"},
    {3600000000, "1h00m", "3.3 GiB"},
    {UINT64_MAX - 1, "5124095576h01m", "15.9 EiB"},
};

START_TEST(test_human_numbers)
{
    char text[SBX_HUMAN_SIZE];
    ck_assert_str_eq(sbx_human_us(numbers[_i].number, text), numbers[_i].us);
    ck_assert_str_eq(sbx_human_bytes(numbers[_i].number, text), numbers[_i].bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("flatten");
    TCase *walk = sbx_fixture_case(suite, "walk", 60);
    tcase_add_loop_test(walk, test_lines, 0, (int)LENGTH(texts));
    tcase_add_test(walk, test_refused);
    tcase_add_test(walk, test_bounds);
    TCase *kv = sbx_fixture_case(suite, "kv", 60);
    tcase_add_loop_test(kv, test_samples_as_kv, 0, (int)sample_count);
    tcase_add_test(kv, test_difference_is_noticed);
    tcase_add_test(kv, test_smallest_arguments);
    TCase *text = sbx_fixture_case(suite, "text", 60);
    tcase_add_loop_test(text, test_verdicts, 0, (int)LENGTH(verdicts));
    tcase_add_loop_test(text, test_text_shows_everything, 0, (int)sample_count);
    tcase_add_test(text, test_text_of_tomorrow);
    tcase_add_loop_test(text, test_human_numbers, 0, (int)LENGTH(numbers));
    return sbx_fixture_run(suite);
}
