/*
 * test_start_values.c - how lists of processors and files of variables are read, and how
 * an environment is put together, by tables.
 */
#include "base/cpus.h"
#include "base/fd.h"
#include "monitor/environment.h"
#include "tests/fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* --- processors ----------------------------------------------------------------------
 */

/* The set as the shortest list; or what its parser said. */
static const struct cpus_row {
    const char *text;
    int result;
    const char *list;
} lists[] = {
    {"0", 0, "0"},
    {"0-3,5", 0, "0-3,5"},
    {"5,0-3", 0, "0-3,5"},
    {"1,1,1", 0, "1"},
    {"2-2", 0, "2"},
    {"0-5,3-8", 0, "0-8"},
    {"62-65,127,128", 0, "62-65,127-128"},
    {"8191", 0, "8191"},
    {"0-8191", 0, "0-8191"},
    {"8192", -ERANGE, NULL},
    {"0,99999999999999999999", -ERANGE, NULL},
    {"18446744073709551616", -ERANGE, NULL},
    {"4294967296", -ERANGE, NULL},
    {"0-8192", -ERANGE, NULL},
    {"", -EINVAL, NULL},
    {",", -EINVAL, NULL},
    {"0,", -EINVAL, NULL},
    {",0", -EINVAL, NULL},
    {"0,,1", -EINVAL, NULL},
    {"-", -EINVAL, NULL},
    {"-1", -EINVAL, NULL},
    {"1-", -EINVAL, NULL},
    {"3-1", -EINVAL, NULL},
    {"1-2-3", -EINVAL, NULL},
    {"0-6:2", -EINVAL, NULL},
    {" 0", -EINVAL, NULL},
    {"0 ", -EINVAL, NULL},
    {"0, 1", -EINVAL, NULL},
    {"0\n", -EINVAL, NULL},
    {"00", -EINVAL, NULL},
    {"01", -EINVAL, NULL},
    {"0x1", -EINVAL, NULL},
    {"+1", -EINVAL, NULL},
    {"all", -EINVAL, NULL},
    {"9999,x", -EINVAL, NULL},
};

static void spell(const struct sbx_cpus *cpus, char *text, size_t size)
{
    text[0] = '\0';
    for (unsigned cpu = 0; cpu < SBX_CPU_MAX; cpu++) {
        unsigned last = cpu;
        if (!sbx_cpus_has(cpus, cpu)) {
            continue;
        }
        while (last + 1 < SBX_CPU_MAX && sbx_cpus_has(cpus, last + 1)) {
            last++;
        }
        size_t used = strlen(text);
        (void)snprintf(text + used, size - used, last > cpu ? "%s%u-%u" : "%s%u",
                       used > 0 ? "," : "", cpu, last);
        cpu = last;
    }
}

START_TEST(a_list_of_processors)
{
    const struct cpus_row *row = &lists[_i];
    struct sbx_cpus cpus;
    struct sbx_cpus before;
    char text[256];
    memset(&cpus, 0x5a, sizeof cpus);
    before = cpus;
    ck_assert_int_eq(sbx_cpus_parse(row->text, &cpus), row->result);
    if (row->result < 0) {
        ck_assert_mem_eq(&cpus, &before, sizeof cpus);
    } else {
        spell(&cpus, text, sizeof text);
        ck_assert_str_eq(text, row->list);
    }
}
END_TEST

/* --- files of variables ---------------------------------------------------------------
 */

#define TEXT(literal) (literal), sizeof(literal) - 1

/* What is taken, each followed by a bar; or where the file is wrong. */
static const struct file_row {
    const char *text;
    size_t length;
    const char *taken;
    const char *wrong;
} files[] = {
    {TEXT(""), "", NULL},
    {TEXT("\n\n"), "", NULL},
    {TEXT("A=1\n"), "A=1|", NULL},
    {TEXT("A=1"), "A=1|", NULL},
    {TEXT("A=1\n\n#B=2\n#\nC=3\n"), "A=1|C=3|", NULL},
    {TEXT("A=#1\n"), "A=#1|", NULL},
    {TEXT("A=\n"), "A=|", NULL},
    {TEXT("A==\n"), "A==|", NULL},
    {TEXT("A= b \"c\" $d\\\r\n"), "A= b \"c\" $d\\\r|", NULL},
    {TEXT("A=1\nA=2\n"), "A=1|A=2|", NULL},
    {TEXT("\xc3\xa4=\xff\n"), "\xc3\xa4=\xff|", NULL},
    {TEXT("A\n"), NULL, "line 1 is not NAME=VALUE"},
    {TEXT("\n\nA=1\nsecret\n"), NULL, "line 4 is not NAME=VALUE"},
    {TEXT("=secret\n"), NULL, "line 1 is not NAME=VALUE"},
    {TEXT("A=1\nexport B=secret\n"), NULL, "line 2 is not NAME=VALUE"},
    {TEXT("A=1\n B=secret\n"), NULL, "line 2 is not NAME=VALUE"},
    {TEXT("A=1\n \n"), NULL, "line 2 is not NAME=VALUE"},
    {TEXT("A=1\n #B\n"), NULL, "line 2 is not NAME=VALUE"},
    {TEXT("A\t=secret"), NULL, "line 1 is not NAME=VALUE"},
    {TEXT("A=1\0B=2\0"), "A=1|B=2|", NULL},
    {TEXT("A=1\0B=2"), "A=1|B=2|", NULL},
    {TEXT("A=1\n2\0#B=2\0C d=3\0"), "A=1\n2|#B=2|C d=3|", NULL},
    {TEXT("\0"), NULL, "entry 1 is not NAME=VALUE"},
    {TEXT("A=1\0\0B=2\0"), NULL, "entry 2 is not NAME=VALUE"},
    {TEXT("A=1\0B=2\0secret"), NULL, "entry 3 is not NAME=VALUE"},
    {TEXT("A=1\0=secret\0"), NULL, "entry 2 is not NAME=VALUE"},
};

static void spell_strings(const struct sbx_strings *strings, char *text, size_t size)
{
    text[0] = '\0';
    for (size_t i = 0; i < strings->count; i++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, size - used, "%s|", strings->items[i]);
    }
}

START_TEST(a_file_of_variables)
{
    const struct file_row *row = &files[_i];
    struct sbx_environment environment = {.clear = false};
    struct sbx_error error = {.code = 0};
    char text[256];
    ck_assert_int_eq(sbx_strings_add(&environment.from_files, "Z=before", 8), 0);
    /* Exactly as long as it is: a look beyond its end is noticed under sanitizers. */
    SBX_AUTO_FREE char *copy = malloc(row->length + (row->length == 0));
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, row->text, row->length);
    int result = sbx_environment_add_file(&environment, copy, row->length, &error);
    spell_strings(&environment.from_files, text, sizeof text);
    if (row->wrong != NULL) {
        ck_assert_int_eq(result, -EINVAL);
        ck_assert_str_eq(error.message, row->wrong);
        ck_assert_str_eq(text, "Z=before|");
    } else {
        ck_assert_int_eq(result, 0);
        ck_assert_int_eq(strncmp(text, "Z=before|", 9), 0);
        ck_assert_str_eq(text + 9, row->taken);
    }
    sbx_environment_done(&environment);
}
END_TEST

/* --- putting it together --------------------------------------------------------------
 */

#define WORDS 6

static const struct make_row {
    bool clear;
    const char *base[WORDS];
    const char *from_files[WORDS];
    const char *given[WORDS];
    const char *made;
    uint64_t warnings;
} makes[] = {
    {false, {"A=1", "B=2"}, {NULL}, {NULL}, "A=1|B=2|", 0},
    {true, {"A=1", "B=2"}, {NULL}, {NULL}, "", 0},
    {false, {NULL}, {NULL}, {NULL}, "", 0},
    {false, {"A=1", "B=2"}, {"B=3"}, {"C=4"}, "A=1|B=3|C=4|", 0},
    {false, {"A=1", "B=2"}, {"B=3"}, {"B=4"}, "A=1|B=4|", 0},
    {false, {"A=1", "B=2"}, {"B=3"}, {"B"}, "A=1|B=2|", 0},
    {true, {"A=1", "B=2"}, {"B=3"}, {"B", "A"}, "B=2|A=1|", 0},
    {false, {"A=1", "A=2"}, {NULL}, {"C=3"}, "A=2|C=3|", 0},
    {false, {"A=1"}, {NULL}, {"A=2", "A=3", "A"}, "A=1|", 0},
    {false, {"A=1"}, {"B=1"}, {"B"}, "A=1|", 1},
    {true, {"A=1"}, {NULL}, {"B", "C"}, "", 2},
    {false, {"AB=1", "A=2"}, {NULL}, {"ABC=3", "AB"}, "A=2|ABC=3|AB=1|", 0},
    {false, {"odd", "=odd", "A=1"}, {NULL}, {"B=2"}, "=odd|A=1|B=2|", 0},
    {false, {"A=a=b"}, {NULL}, {"A=c=d"}, "A=c=d|", 0},
};

static void fill(struct sbx_strings *strings, const char *const *words)
{
    for (size_t i = 0; i < WORDS && words[i] != NULL; i++) {
        ck_assert_int_eq(sbx_strings_add(strings, words[i], strlen(words[i])), 0);
    }
}

START_TEST(an_environment_is_made)
{
    const struct make_row *row = &makes[_i];
    struct sbx_environment environment = {.clear = row->clear};
    struct sbx_record *record = calloc(1, sizeof *record);
    ck_assert_ptr_nonnull(record);
    SBX_AUTO_FREE const char **array = NULL;
    char text[256] = "";
    fill(&environment.from_files, row->from_files);
    fill(&environment.given, row->given);
    ck_assert_int_eq(sbx_environment_make(&environment, row->base, record, &array), 0);
    for (size_t i = 0; array[i] != NULL; i++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, sizeof text - used, "%s|", array[i]);
    }
    ck_assert_str_eq(text, row->made);
    ck_assert_uint_eq(record->warnings_count, row->warnings);
    free(record);
    sbx_environment_done(&environment);
}
END_TEST

/* As many as fit into a file, all of one name or each of its own: neither is slow. */
START_TEST(many_variables_take_no_long_time)
{
    enum { COUNT = 100000, SIZE = 8 };
    struct sbx_environment environment = {.clear = true};
    static const char *const base[] = {"A=1", NULL};
    SBX_AUTO_FREE char *text = calloc(COUNT, SIZE);
    SBX_AUTO_FREE const char **array = NULL;
    ck_assert_ptr_nonnull(text);
    for (unsigned i = 0; i < COUNT; i++) {
        (void)snprintf(text + (size_t)i * SIZE, SIZE, "%05x=", _i == 0 ? i : 1U);
        text[(size_t)i * SIZE + 6] = (char)('0' + i % 10);
        text[(size_t)i * SIZE + 7] = '\n';
    }
    ck_assert_int_eq(
        sbx_environment_add_file(&environment, text, (size_t)COUNT * SIZE, NULL), 0);
    ck_assert_uint_eq(environment.from_files.count, COUNT);
    ck_assert_int_eq(sbx_environment_make(&environment, base, NULL, &array), 0);
    size_t count = 0;
    while (array[count] != NULL) {
        count++;
    }
    ck_assert_uint_eq(count, _i == 0 ? COUNT : 1);
    ck_assert_str_eq(array[0], _i == 0 ? "00000=0" : "00001=9");
    sbx_environment_done(&environment);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("start_values");
    TCase *values = sbx_fixture_case(suite, "values", 60);
    tcase_add_loop_test(values, a_list_of_processors, 0, (int)LENGTH(lists));
    tcase_add_loop_test(values, a_file_of_variables, 0, (int)LENGTH(files));
    tcase_add_loop_test(values, an_environment_is_made, 0, (int)LENGTH(makes));
    tcase_add_loop_test(values, many_variables_take_no_long_time, 0, 2);
    return sbx_fixture_run(suite);
}
