/*
 * test_text.c - strict parsing and safe spelling, by tables of good and bad input.
 *
 * Every row is tried in the C locale and in one with a decimal comma, which is built for
 * the test where the system has its source.
 */
#include "base/text.h"

#include "tests/fixture.h"

#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define UNTOUCHED UINT64_C(0xDEADBEEF)

typedef int parse_function(const char *text, uint64_t *ret_value);

struct row {
    const char *text;
    int result;
    uint64_t value; /* where result is 0 */
};

/* What no parser of numbers accepts. */
static const char *const never[] = {
    "",
    " ",
    "+1",
    "-1",
    "-0",
    "+0",
    " 1",
    "1 ",
    "1\n",
    "\t1",
    "1e3",
    "1E3",
    "0x10",
    "0X1p3",
    "010",
    "00",
    "01",
    "007",
    "1,5",
    "1.5.5",
    "1..5",
    ".",
    "5.",
    ".5",
    "nan",
    "NaN",
    "inf",
    "INF",
    "1_000",
    "1'000",
    "1.000,5",
    "infinity",
    "1e400",
    "--1",
    "1-",
    "(1)",
    "0b1",
    "1;",
    "1%",
    "five",
    "\xC2\xA0"
    "1",
    "\xD9\xA1",
    "1\xE2\x80\xAF"
    "000",
    "00.5",
    "1.",
    "1.s",
    "1.K",
    ".5s",
    ".5K",
    "1. 5",
    "1 .5",
    "1.-5",
    "1.+5",
    "1.0x1",
    "s",
    "K",
    "ms",
    "B",
    "unlimited",
    "-",
};

static const struct row durations[] = {
    {"0", 0, 0},
    {"0s", 0, 0},
    {"0.0", 0, 0},
    {"0.000000000000000000000000000000000000", 0, 0},
    {"1", 0, 1000000},
    {"5s", 0, 5000000},
    {"0.5", 0, 500000},
    {"0.5s", 0, 500000},
    {"2.50s", 0, 2500000},
    {"1us", 0, 1},
    {"1ms", 0, 1000},
    {"1.5ms", 0, 1500},
    {"1m", 0, 60000000},
    {"1h", 0, UINT64_C(3600000000)},
    {"1d", 0, UINT64_C(86400000000)},
    {"0.1d", 0, UINT64_C(8640000000)},
    {"3e9", -EINVAL, 0},
    {"3000000000ms", 0, UINT64_C(3000000000000)},
    {"4294967296", 0, UINT64_C(4294967296000000)},
    {"4294968", 0, UINT64_C(4294968000000)},
    {"1.000001s", 0, 1000001},
    {"1.0000010000s", 0, 1000001},
    {"1.0000001s", -EINVAL, 0},
    {"0.0000001", -EINVAL, 0},
    {"0.0000001m", 0, 6},
    {"0.00000001m", -EINVAL, 0},
    {"1.5us", -EINVAL, 0},
    {"1.000us", 0, 1},
    {"0.33333333333333333333333333333333", -EINVAL, 0},
    {"18446744073709551615us", 0, UINT64_MAX},
    {"18446744073709551616us", -ERANGE, 0},
    {"18446744073709.551615", 0, UINT64_MAX},
    {"18446744073709.551615s", 0, UINT64_MAX},
    {"18446744073709.551616s", -ERANGE, 0},
    {"18446744073710", -ERANGE, 0},
    {"18446744073709551615", -ERANGE, 0},
    {"18446744073709551616", -ERANGE, 0},
    {"213503982d", 0, UINT64_C(18446744044800000000)},
    {"213503983d", -ERANGE, 0},
    {"99999999999999999999999999999999999999s", -ERANGE, 0},
    {"99999999999999999999999999999999999999x", -EINVAL, 0},
    {"5s garbage", -EINVAL, 0},
    {"5sgarbage", -EINVAL, 0},
    {"5 s", -EINVAL, 0},
    {"5ss", -EINVAL, 0},
    {"5S", -EINVAL, 0},
    {"5M", -EINVAL, 0},
    {"5MS", -EINVAL, 0},
    {"5sec", -EINVAL, 0},
    {"5min", -EINVAL, 0},
    {"1m30s", -EINVAL, 0},
    {"1:30", -EINVAL, 0},
    {"5w", -EINVAL, 0},
    {"5ns", -EINVAL, 0},
    {"5\xC2\xB5s", -EINVAL, 0},
};

static const struct row sizes[] = {
    {"0", 0, 0},
    {"1", 0, 1},
    {"1B", 0, 1},
    {"4096", 0, 4096},
    {"1K", 0, 1024},
    {"1KiB", 0, 1024},
    {"1KB", 0, 1000},
    {"1M", 0, 1048576},
    {"1MiB", 0, 1048576},
    {"1MB", 0, 1000000},
    {"1G", 0, 1073741824},
    {"1GiB", 0, 1073741824},
    {"1GB", 0, 1000000000},
    {"1T", 0, UINT64_C(1099511627776)},
    {"1TiB", 0, UINT64_C(1099511627776)},
    {"1TB", 0, UINT64_C(1000000000000)},
    {"1.5K", 0, 1536},
    {"1.5KB", 0, 1500},
    {"0.5G", 0, 536870912},
    {"1.0", 0, 1},
    {"1.000B", 0, 1},
    {"1.5", -EINVAL, 0},
    {"1.5B", -EINVAL, 0},
    {"0.5", -EINVAL, 0},
    /* Not a whole number of bytes: rounded down. */
    {"1.1G", 0, 1181116006},
    {"0.1K", 0, 102},
    {"0.0001KB", 0, 0},
    {"0.999999999999999999999999999999999999K", 0, 1023},
    {"0.0000000000009094947017729282379150390625T", 0, 1},
    {"0.0000000000009094947017729282379150390624T", 0, 0},
    {"16777215T", 0, UINT64_C(18446742974197923840)},
    {"16777215.9999999999990905052982270717620849609375T", 0, UINT64_MAX},
    {"16777215.99999999999999999999999999999999999999T", 0, UINT64_MAX},
    {"16777216T", -ERANGE, 0},
    {"18446744073709551615", 0, UINT64_MAX},
    {"18446744073709551616", -ERANGE, 0},
    {"18446744073709551615K", -ERANGE, 0},
    {"18014398509481984K", -ERANGE, 0},
    {"18014398509481983K", 0, UINT64_C(18446744073709550592)},
    {"1k", -EINVAL, 0},
    {"1kb", -EINVAL, 0},
    {"1Kb", -EINVAL, 0},
    {"1kB", -EINVAL, 0},
    {"1b", -EINVAL, 0},
    {"1m", -EINVAL, 0},
    {"1g", -EINVAL, 0},
    {"1KI", -EINVAL, 0},
    {"1Ki", -EINVAL, 0},
    {"1KIB", -EINVAL, 0},
    {"1P", -EINVAL, 0},
    {"1 K", -EINVAL, 0},
    {"1K ", -EINVAL, 0},
    {"1KK", -EINVAL, 0},
    {"1s", -EINVAL, 0},
    {"50%", -EINVAL, 0},
};

static const struct row counts[] = {
    {"0", 0, 0},
    {"1", 0, 1},
    {"9", 0, 9},
    {"10", 0, 10},
    {"4294967296", 0, UINT64_C(4294967296)},
    {"18446744073709551615", 0, UINT64_MAX},
    {"18446744073709551616", -ERANGE, 0},
    {"18446744073709551620", -ERANGE, 0},
    {"36893488147419103232", -ERANGE, 0},
    {"100000000000000000000", -ERANGE, 0},
    {"1.0", -EINVAL, 0},
    {"1K", -EINVAL, 0},
    {"1s", -EINVAL, 0},
    {"1B", -EINVAL, 0},
};

static void expect(parse_function *parse, const char *text, int result, uint64_t value)
{
    uint64_t got = UNTOUCHED;
    int returned = parse(text, &got);
    ck_assert_msg(returned == result, "'%s': %d, expected %d", text, returned, result);
    uint64_t wanted = result == 0 ? value : UNTOUCHED;
    ck_assert_msg(got == wanted, "'%s': value %llu, expected %llu", text,
                  (unsigned long long)got, (unsigned long long)wanted);
}

static void try_tables(void)
{
    for (size_t i = 0; i < LENGTH(durations); i++) {
        expect(sbx_text_duration, durations[i].text, durations[i].result,
               durations[i].value);
    }
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        expect(sbx_text_size, sizes[i].text, sizes[i].result, sizes[i].value);
    }
    for (size_t i = 0; i < LENGTH(counts); i++) {
        expect(sbx_text_count, counts[i].text, counts[i].result, counts[i].value);
    }
    for (size_t i = 0; i < LENGTH(never); i++) {
        expect(sbx_text_duration, never[i], -EINVAL, 0);
        expect(sbx_text_size, never[i], -EINVAL, 0);
        expect(sbx_text_count, never[i], -EINVAL, 0);
    }
}

START_TEST(test_numbers)
{
    try_tables();
}
END_TEST

/* Compiles the locale into the test's directory. False where that is not to be had. */
static bool build_locale(const char *path)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void)execlp("localedef", "localedef", "-f", "UTF-8", "-i", "de_DE", path,
                     (char *)NULL);
        _exit(127);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    /* It does not wait for the unpacker that it starts: that one is ours now. */
    while (waitpid(-1, NULL, 0) > 0) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

START_TEST(test_numbers_with_decimal_comma)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    if (!build_locale(sbx_fixture_path(path, "de_DE.UTF-8"))) {
        (void)fprintf(stderr, "skipped: localedef cannot make de_DE.UTF-8 here\n");
        return;
    }
    ck_assert_int_eq(setenv("LOCPATH", sbx_fixture_dir(), 1), 0);
    ck_assert_ptr_nonnull(setlocale(LC_ALL, "de_DE.UTF-8"));
    /* That it is in force: */
    ck_assert_str_eq(localeconv()->decimal_point, ",");
    try_tables();
}
END_TEST

/* A million digits: no overflow, no recursion, no quadratic time. */
START_TEST(test_huge)
{
    enum { SIZE = 1000000 };
    char *text = malloc(SIZE + 8);
    ck_assert_ptr_nonnull(text);
    memset(text, '9', SIZE);
    memcpy(text + SIZE, "s", 2);
    expect(sbx_text_duration, text, -ERANGE, 0);
    text[1] = '.';
    expect(sbx_text_duration, text, -EINVAL, 0);
    memset(text + 2, '0', SIZE - 2);
    expect(sbx_text_duration, text, 0, 9000000);
    text[SIZE - 1] = '1';
    expect(sbx_text_duration, text, -EINVAL, 0);
    memcpy(text + SIZE, "T", 2);
    expect(sbx_text_size, text, 0, UINT64_C(9) << 40);
    text[0] = '0';
    text[1] = '0';
    expect(sbx_text_count, text, -EINVAL, 0);
    free(text);
}
END_TEST

struct signal_row {
    const char *text;
    int result;
    int number;
};

static void expect_signal(const char *text, int result, int number)
{
    int got = -77;
    int returned = sbx_text_signal(text, &got);
    ck_assert_msg(returned == result, "'%s': %d, expected %d", text, returned, result);
    int wanted = result == 0 ? number : -77;
    ck_assert_msg(got == wanted, "'%s': signal %d, expected %d", text, got, wanted);
}

START_TEST(test_signals)
{
    const struct signal_row rows[] = {
        {"TERM", 0, SIGTERM},
        {"SIGTERM", 0, SIGTERM},
        {"term", 0, SIGTERM},
        {"sigterm", 0, SIGTERM},
        {"SigTerm", 0, SIGTERM},
        {"15", 0, 15},
        {"1", 0, 1},
        {"9", 0, 9},
        {"int", 0, SIGINT},
        {"KILL", 0, SIGKILL},
        {"IO", 0, SIGIO},
        {"POLL", 0, SIGIO},
        {"IOT", 0, SIGABRT},
        {"CLD", 0, SIGCHLD},
        {"SYS", 0, SIGSYS},
        {"RTMIN", 0, SIGRTMIN},
        {"SIGRTMIN+0", 0, SIGRTMIN},
        {"RTMIN+2", 0, SIGRTMIN + 2},
        {"rtmin+2", 0, SIGRTMIN + 2},
        {"RTMAX", 0, SIGRTMAX},
        {"RTMAX-1", 0, SIGRTMAX - 1},
        {"64", 0, 64},
        {"0", -ERANGE, 0},
        {"65", -ERANGE, 0},
        {"4294967311", -ERANGE, 0},
        {"18446744073709551631", -ERANGE, 0},
        {"RTMIN+31", -ERANGE, 0},
        {"RTMIN+4294967296", -ERANGE, 0},
        {"RTMAX-31", -ERANGE, 0},
        {"RTMIN+", -EINVAL, 0},
        {"RTMIN-1", -EINVAL, 0},
        {"RTMAX+1", -EINVAL, 0},
        {"RTMIN+-1", -EINVAL, 0},
        {"RTMIN+ 1", -EINVAL, 0},
        {"RTMIN+1x", -EINVAL, 0},
        {"RTMIN+01", -EINVAL, 0},
        {"RTMIN2", -EINVAL, 0},
        {"", -EINVAL, 0},
        {"SIG", -EINVAL, 0},
        {"SIGSIGTERM", -EINVAL, 0},
        {"SIG15", -EINVAL, 0},
        {"015", -EINVAL, 0},
        {"+15", -EINVAL, 0},
        {"-15", -EINVAL, 0},
        {"15 ", -EINVAL, 0},
        {" TERM", -EINVAL, 0},
        {"TERM ", -EINVAL, 0},
        {"TERMINATE", -EINVAL, 0},
        {"TER", -EINVAL, 0},
        {"0xf", -EINVAL, 0},
        {"1.0", -EINVAL, 0},
        {"EXIT", -EINVAL, 0},
        {"t\xC4\xB1rm", -EINVAL, 0},
    };
    for (size_t i = 0; i < LENGTH(rows); i++) {
        expect_signal(rows[i].text, rows[i].result, rows[i].number);
    }
}
END_TEST

START_TEST(test_signal_names)
{
    char name[SBX_SIGNAL_NAME_SIZE];
    ck_assert_str_eq(sbx_text_signal_name(SIGTERM, name), "SIGTERM");
    ck_assert_str_eq(sbx_text_signal_name(SIGABRT, name), "SIGABRT");
    ck_assert_str_eq(sbx_text_signal_name(SIGCHLD, name), "SIGCHLD");
    ck_assert_str_eq(sbx_text_signal_name(SIGIO, name), "SIGIO");
    ck_assert_str_eq(sbx_text_signal_name(SIGRTMIN, name), "SIGRTMIN");
    ck_assert_str_eq(sbx_text_signal_name(SIGRTMIN + 2, name), "SIGRTMIN+2");
    ck_assert_str_eq(sbx_text_signal_name(99, name), "SIG99");
    ck_assert_str_eq(sbx_text_signal_name(0, name), "SIG0");
    ck_assert_str_eq(sbx_text_signal_name(INT32_MIN, name), "SIG-2147483648");
    for (int number = 1; number <= SIGRTMAX; number++) {
        if (number > 31 && number < SIGRTMIN) {
            continue; /* taken by the C library, without names */
        }
        expect_signal(sbx_text_signal_name(number, name), 0, number);
    }
}
END_TEST

struct escape_row {
    const char *source;
    size_t length;
    const char *escaped;
};

#define BYTES(literal) (literal), sizeof(literal) - 1

static const struct escape_row escapes[] = {
    {BYTES(""), ""},
    {BYTES("plain text"), "plain text"},
    {BYTES("quote \" stays"), "quote \" stays"},
    {BYTES("back\\slash"), "back\\x5Cslash"},
    {BYTES("\\x41"), "\\x5Cx41"},
    {BYTES("a\nb\tc\r"), "a\\x0Ab\\x09c\\x0D"},
    {BYTES("a\0b"), "a\\x00b"},
    {BYTES("\x1B[31m"), "\\x1B[31m"},
    {BYTES("\x7F"), "\\x7F"},
    {BYTES("\x20~"), " ~"},
    {BYTES("\xC2\x80"), "\\xC2\\x80"},
    {BYTES("\xC2\x9F"), "\\xC2\\x9F"},
    {BYTES("\xC2\xA0"), "\xC2\xA0"},
    {BYTES("gr\xC3\xBC\xC3\x9F"), "gr\xC3\xBC\xC3\x9F"},
    {BYTES("\xE2\x82\xAC"), "\xE2\x82\xAC"},
    {BYTES("\xEE\x80\x80"), "\xEE\x80\x80"},
    {BYTES("\xF0\x9F\x98\x80"), "\xF0\x9F\x98\x80"},
    {BYTES("\xF4\x8F\xBF\xBF"), "\xF4\x8F\xBF\xBF"},
    /* above U+10FFFF */
    {BYTES("\xF4\x90\x80\x80"), "\\xF4\\x90\\x80\\x80"},
    {BYTES("\xF5\x80\x80\x80"), "\\xF5\\x80\\x80\\x80"},
    /* overlong */
    {BYTES("\xC0\x80"), "\\xC0\\x80"},
    {BYTES("\xC1\xBF"), "\\xC1\\xBF"},
    {BYTES("\xE0\x9F\xBF"), "\\xE0\\x9F\\xBF"},
    {BYTES("\xE0\xA0\x80"), "\xE0\xA0\x80"},
    {BYTES("\xF0\x8F\xBF\xBF"), "\\xF0\\x8F\\xBF\\xBF"},
    {BYTES("\xF0\x90\x80\x80"), "\xF0\x90\x80\x80"},
    /* surrogates and their neighbours */
    {BYTES("\xED\x9F\xBF"), "\xED\x9F\xBF"},
    {BYTES("\xED\xA0\x80"), "\\xED\\xA0\\x80"},
    {BYTES("\xED\xBF\xBF"), "\\xED\\xBF\\xBF"},
    /* stray and missing continuation bytes */
    {BYTES("\x80"), "\\x80"},
    {BYTES("\xFF\xFE"), "\\xFF\\xFE"},
    {BYTES("\xC3"), "\\xC3"},
    {BYTES("\xC3("), "\\xC3("},
    {BYTES("\xE2\x82"), "\\xE2\\x82"},
    {BYTES("\xE2\x82"
           "a"),
     "\\xE2\\x82a"},
    {BYTES("\xF0\x9F\x98"), "\\xF0\\x9F\\x98"},
    {BYTES("\xF0\x9F\xC3\xBC"), "\\xF0\\x9F\xC3\xBC"},
};

START_TEST(test_escape)
{
    const struct escape_row *row = &escapes[_i];
    char buffer[64];
    memset(buffer, '#', sizeof buffer);
    size_t used = sbx_text_escape(buffer, sizeof buffer, row->source, row->length);
    ck_assert_str_eq(buffer, row->escaped);
    ck_assert_uint_eq(used, strlen(row->escaped));
}
END_TEST

/* The result is what fits of whole characters and whole escapes, and no more is
 * written. */
START_TEST(test_escape_cut)
{
    /* a (1), euro (3), line feed (4), U+0085 (8 in one piece), z (1) */
    static const char source[] = "a\xE2\x82\xAC\n\xC2\x85z";
    static const size_t ends[] = {0, 1, 4, 8, 16, 17};
    static const char whole[] = "a\xE2\x82\xAC\\x0A\\xC2\\x85z";
    for (size_t size = 0; size <= sizeof whole; size++) {
        char buffer[32];
        memset(buffer, '#', sizeof buffer);
        size_t used = sbx_text_escape(buffer, size, source, sizeof source - 1);
        size_t wanted = 0;
        for (size_t i = 0; i < LENGTH(ends); i++) {
            wanted = ends[i] < size ? ends[i] : wanted;
        }
        ck_assert_msg(used == wanted, "size %zu: %zu, expected %zu", size, used, wanted);
        ck_assert_mem_eq(buffer, whole, wanted);
        if (size > 0) {
            ck_assert_int_eq(buffer[used], '\0');
        }
        for (size_t i = size > 0 ? used + 1 : 0; i < sizeof buffer; i++) {
            ck_assert_int_eq(buffer[i], '#');
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("text");
    TCase *numbers = sbx_fixture_case(suite, "numbers", 60);
    tcase_add_test(numbers, test_numbers);
    tcase_add_test(numbers, test_numbers_with_decimal_comma);
    tcase_add_test(numbers, test_huge);
    TCase *signals = sbx_fixture_case(suite, "signals", 20);
    tcase_add_test(signals, test_signals);
    tcase_add_test(signals, test_signal_names);
    TCase *escape = sbx_fixture_case(suite, "escape", 20);
    tcase_add_loop_test(escape, test_escape, 0, LENGTH(escapes));
    tcase_add_test(escape, test_escape_cut);
    return sbx_fixture_run(suite);
}
