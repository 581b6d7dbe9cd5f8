/*
 * request_kit.c - see request_kit.h.
 */
#include "tests/request_kit.h"

#include "monitor/wire.h"
#include "tests/fixture.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const unsigned char key[SBX_KEY_SIZE] = "any thirty-two bytes are a key.";

struct sbx_request_policy sbx_request_kit_policy(void)
{
    return (struct sbx_request_policy){.key = key,
                                       .max_output_bytes = UINT64_C(64) << 20,
                                       .max_events_count = 65536,
                                       .max_retention_us = UINT64_C(604800000000),
                                       .default_retention_us = UINT64_C(900000000),
                                       .sandbox_program = SBX_TEST_SANDBOX_PROGRAM,
                                       .trusted = true,
                                       .uid = geteuid(),
                                       .gid = getegid()};
}

struct sbx_request_policy sbx_request_kit_stranger(void)
{
    struct sbx_request_policy policy = sbx_request_kit_policy();
    policy.trusted = false;
    policy.uid = SBX_TEST_UID;
    policy.gid = SBX_TEST_GID;
    return policy;
}

struct sbx_request *sbx_request_kit_parse(const char *json,
                                          const struct sbx_request_policy *policy)
{
    struct sbx_error error = {0};
    struct sbx_request *request = NULL;
    int r = sbx_request_parse(json, strlen(json), policy, &request, &error);
    ck_assert_msg(r == 0, "%.400s: %s", json, error.message);
    ck_assert_ptr_nonnull(request);
    return request;
}

char *sbx_request_kit_line(const struct sbx_request *request)
{
    char *text = NULL;
    char *again = NULL;
    size_t length = 0;
    size_t length_again = 0;
    int fd = -1;
    struct sbx_error error = {0};
    struct sbx_spec *copy = sbx_spec_new();
    ck_assert_ptr_nonnull(copy);
    ck_assert_int_eq(sbx_wire_pack(request->spec, &text, &length, &error), 0);
    ck_assert_msg(sbx_wire_replay(text, length, copy, &error) == 0, "%s", error.message);
    ck_assert_int_eq(sbx_wire_pack(copy, &again, &length_again, &error), 0);
    ck_assert_uint_eq(length, length_again);
    ck_assert_mem_eq(text, again, length);
    ck_assert_uint_eq(sbx_wire_fds(text, length, &fd, 1), 0);
    sbx_spec_free(copy);
    free(again);
    for (size_t i = 0; i + 1 < length; i++) {
        text[i] = text[i] == '\0' ? '|' : text[i];
    }
    return text;
}

bool sbx_request_kit_same(const char *one, const char *other,
                          const struct sbx_request_policy *policy)
{
    struct sbx_request *left = sbx_request_kit_parse(one, policy);
    struct sbx_request *right = sbx_request_kit_parse(other, policy);
    bool same = memcmp(left->facts.digest, right->facts.digest, SBX_DIGEST_SIZE) == 0;
    sbx_request_free(left);
    sbx_request_free(right);
    return same;
}

void sbx_request_kit_refused(const char *json, const struct sbx_request_policy *policy,
                             int code, const char *fragment)
{
    struct sbx_error error = {0};
    struct sbx_request *request = NULL;
    int r = sbx_request_parse(json, strlen(json), policy, &request, &error);
    ck_assert_msg(r == -code, "%.400s: %d instead of %d: %s", json, r, -code,
                  error.message);
    ck_assert_ptr_null(request);
    ck_assert_int_eq(error.code, code);
    ck_assert_int_eq(error.stage, SBX_STAGE_OPTIONS);
    ck_assert_msg(strstr(error.message, fragment) != NULL, "%.400s: '%s' is not in '%s'",
                  json, fragment, error.message);
    ck_assert_ptr_null(strstr(error.message, "secret"));
    for (const char *at = error.message; *at != '\0'; at++) {
        ck_assert_msg((unsigned char)*at >= 0x20, "%.400s: %s", json, error.message);
    }
    ck_assert_int_eq(sbx_request_parse(json, strlen(json), policy, &request, NULL), r);
}
