/*
 * test_request_memory.c - each allocation in turn fails, ours and jansson's: a request is
 * refused with -ENOMEM then, nothing is leaked (descriptors here, memory under
 * AddressSanitizer), and the result is as it was. jansson takes some of its own failures
 * for bad JSON.
 */
#include "tests/fixture.h"
#include "tests/request_kit.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define CASE_SECONDS 120
#define MOST 20000

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_reallocarray(void *memory, size_t count, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t length);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_reallocarray(void *memory, size_t count, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t length);

static long left = -1; /* allocations until one fails; -1: none does */

static bool of_jansson;

static bool fails(void)
{
    return left >= 0 && left-- == 0;
}

static void *allocate(size_t size)
{
    of_jansson = of_jansson || left == 0;
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_reallocarray(void *memory, size_t count, size_t size)
{
    return fails() ? NULL : __real_reallocarray(memory, count, size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t length)
{
    return fails() ? NULL : __real_strndup(text, length);
}

static const char *const requests[] = {
    "{\"id\":\"x\",\"command\":\"a\",\"args\":[\"b\",\"c\"],\"launcher\":[\"l\"],"
    "\"cwd\":\"/w\",\"env\":{\"A\":\"1\",\"B\":null},\"clear_env\":true,"
    "\"limits\":{\"wall\":6.5,\"memory\":\"1M\",\"processes\":3},"
    "\"ceilings\":{\"nofile\":64,\"cpu\":\"1:2\"},\"umask\":\"022\","
    "\"signal\":\"INT\",\"require\":[\"complete\"],\"stdout\":\"/o\",\"retention\":5,"
    "\"stdin\":{\"data\":\"x\"}}",
    "{\"command\":\"a\",\"args\":[\"b\"],\"cwd\":\"/w\",\"env\":{\"A\":\"1\"},"
    "\"sandbox\":{\"bind\":[\"/w\",\"/a:/b\"],\"mask\":\"/m\",\"proc\":true,"
    "\"network\":\"none\",\"tmp_size\":\"2M\",\"as_user\":\"7:8\",\"ceilings\":{"
    "\"nofile\":64}},"
    "\"stdin\":{\"data_base64\":\"QUI=\"}}",
};

/* Whether it was made although that allocation failed: there were none so many. */
static bool try_at(const char *json, long at)
{
    const struct sbx_request_policy policy = sbx_request_kit_policy();
    struct sbx_request *request = NULL;
    struct sbx_error error = {0};
    left = at;
    of_jansson = false;
    int r = sbx_request_parse(json, strlen(json), &policy, &request, &error);
    bool failed = left < 0;
    left = -1;
    if (!failed) {
        ck_assert_msg(r == 0, "%s", error.message);
        sbx_request_free(request);
        return true;
    }
    bool mistaken = of_jansson && r == -EINVAL &&
                    strncmp(error.message, "request: not JSON", 17) == 0;
    ck_assert_msg(r == -ENOMEM || mistaken, "allocation %ld: %d, %s", at, r,
                  error.message);
    ck_assert_int_eq(error.code, -r);
    ck_assert(error.message[0] != '\0');
    ck_assert_ptr_null(request);
    return false;
}

START_TEST(test_no_memory)
{
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        long at = 0;
        json_set_alloc_funcs(allocate, free);
        while (!try_at(requests[i], at)) {
            at++;
            ck_assert_int_lt(at, MOST);
        }
        ck_assert_int_gt(at, 100); /* else the wrapping does not work */
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("request_memory");
    TCase *memory = sbx_fixture_case(suite, "memory", CASE_SECONDS);
    tcase_add_test(memory, test_no_memory);
    return sbx_fixture_run(suite);
}
