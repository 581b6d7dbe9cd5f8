/*
 * test_inner_text.c - the functions of the C library that sbx-inner brings itself, beside
 * those of the C library. They are compiled under other names here (see CMakeLists.txt).
 */
#include "tests/fixture.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define LENGTH(array) (int)(sizeof(array) / sizeof((array)[0]))

void *own_memcpy(void *to, const void *from, size_t size);
void *own_memset(void *memory, int value, size_t size);
void *own_memmove(void *to, const void *from, size_t size);
int own_memcmp(const void *one, const void *other, size_t size);
void *own_memchr(const void *memory, int wanted, size_t size);
size_t own_strlen(const char *text);
char *own_strchr(const char *text, int wanted);
size_t own_strcspn(const char *text, const char *any);
int own_strncmp(const char *one, const char *other, size_t size);
char *own_strncat(char *to, const char *from, size_t size);
int own_vsnprintf(char *buffer, size_t size, const char *format, va_list args);
int own_snprintf(char *buffer, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
const char *own_strerrorname_np(int code);
const char *own_strerrordesc_np(int code);

static int sign(int number)
{
    return (number > 0) - (number < 0);
}

START_TEST(memory_is_moved)
{
    char mine[32];
    char other[32];
    for (size_t to = 0; to < 16; to++) {
        for (size_t from = 0; from < 16; from++) {
            for (size_t size = 0; size <= 16; size++) {
                memcpy(mine, "0123456789abcdefghijklmnopqrstu", 32);
                memcpy(other, mine, 32);
                ck_assert_ptr_eq(own_memmove(mine + to, mine + from, size), mine + to);
                memmove(other + to, other + from, size);
                ck_assert_int_eq(memcmp(mine, other, 32), 0);
            }
        }
    }
    ck_assert_ptr_eq(own_memset(mine + 3, 0x1ff, 5), mine + 3);
    memset(other + 3, 0xff, 5);
    ck_assert_ptr_eq(own_memcpy(mine + 20, "xyz", 3), mine + 20);
    memcpy(other + 20, "xyz", 3);
    ck_assert_int_eq(memcmp(mine, other, 32), 0);
}
END_TEST

static const char *const texts[] = {"",   "a",     "b",      "ab",       "abc",    "abd",
                                    "=",  "A=b",   "\xff",   "\x7f\xff", "abcdef", "a:b",
                                    "::", "/x y/", "abcabc", "ab\xff"};

START_TEST(strings_are_searched_and_compared)
{
    for (int i = 0; i < LENGTH(texts); i++) {
        const char *one = texts[i];
        ck_assert_uint_eq(own_strlen(one), strlen(one));
        for (int letter = 0; letter < 256; letter++) {
            ck_assert_ptr_eq(own_strchr(one, letter), strchr(one, letter));
            ck_assert_ptr_eq(own_memchr(one, letter, strlen(one)),
                             memchr(one, letter, strlen(one)));
        }
        for (int k = 0; k < LENGTH(texts); k++) {
            const char *other = texts[k];
            size_t both = strlen(one) < strlen(other) ? strlen(one) : strlen(other);
            ck_assert_uint_eq(own_strcspn(one, other), strcspn(one, other));
            ck_assert_int_eq(sign(own_memcmp(one, other, both)),
                             sign(memcmp(one, other, both)));
            for (size_t size = 0; size < 8; size++) {
                char mine[32] = "start";
                char wanted[32] = "start";
                ck_assert_int_eq(sign(own_strncmp(one, other, size)),
                                 sign(strncmp(one, other, size)));
                ck_assert_ptr_eq(own_strncat(mine, other, size), mine);
                strncat(wanted, other, size);
                ck_assert_str_eq(mine, wanted);
            }
        }
    }
}
END_TEST

/* Into buffers of every size: the text, its end, and what was left out. */
#define SAME(...)                                                                        \
    do {                                                                                 \
        for (size_t size = 0; size < 80; size++) {                                       \
            char mine[80];                                                               \
            char wanted[80];                                                             \
            memset(mine, '#', sizeof mine);                                              \
            memset(wanted, '#', sizeof wanted);                                          \
            ck_assert_int_eq(own_snprintf(mine, size, __VA_ARGS__),                      \
                             snprintf(wanted, size, __VA_ARGS__));                       \
            ck_assert_msg(memcmp(mine, wanted, size) == 0, "%.*s, not %.*s", (int)size,  \
                          mine, (int)size, wanted);                                      \
            ck_assert_int_eq(mine[size], '#');                                           \
        }                                                                                \
    } while (0)

START_TEST(numbers_and_texts_are_formatted)
{
    SAME("%s", "");
    SAME("plain, 100%% of it");
    SAME("%s: %s (%s)", "one", "two", "three");
    SAME("%c%s", 'n', "o such file");
    SAME("%d %d %d %d", 0, -1, INT_MAX, INT_MIN);
    SAME("%u %u", 0U, UINT_MAX);
    SAME("%lu %zu %ju", ULONG_MAX, (size_t)1234567890, UINTMAX_MAX);
    SAME("descriptor %d: not 1 to %d of %zu bytes", 7, 4096, sizeof(long));
}
END_TEST

/* Those that it knows, it knows by the same words. */
START_TEST(reasons_are_named_as_elsewhere)
{
    int known = 0;
    for (int code = 0; code < 200; code++) {
        const char *name = own_strerrorname_np(code);
        const char *text = own_strerrordesc_np(code);
        ck_assert_int_eq(name == NULL, text == NULL);
        if (name != NULL) {
            ck_assert_str_eq(name, strerrorname_np(code));
            ck_assert_str_eq(text, strerrordesc_np(code));
            known++;
        }
    }
    ck_assert_int_ge(known, 40);
    ck_assert_str_eq(own_strerrorname_np(ENOENT), "ENOENT");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("inner_text");
    TCase *text = sbx_fixture_case(suite, "text", 30);
    tcase_add_test(text, memory_is_moved);
    tcase_add_test(text, strings_are_searched_and_compared);
    tcase_add_test(text, numbers_and_texts_are_formatted);
    tcase_add_test(text, reasons_are_named_as_elsewhere);
    return sbx_fixture_run(suite);
}
