/*
 * request_kit.h - requests in tests: parsed under a policy that the test may change, and
 * the specification that came of them as one line of text.
 */
#ifndef SBX_TESTS_REQUEST_KIT_H
#define SBX_TESTS_REQUEST_KIT_H

#include "supervisor/request.h"

#include <stdbool.h>
#include <sys/types.h>

#define SBX_TEST_SANDBOX_PROGRAM "/opt/sbx/bin/sbx-run"
#define SBX_TEST_UID 4242
#define SBX_TEST_GID 4243

/* What sbxd allows when nobody says anything, for its own user. */
struct sbx_request_policy sbx_request_kit_policy(void);

/* The same for somebody else: SBX_TEST_UID. */
struct sbx_request_policy sbx_request_kit_stranger(void);

/* Parses; fails the test where that fails. The request is the caller's. */
struct sbx_request *sbx_request_kit_parse(const char *json,
                                          const struct sbx_request_policy *policy);

/* The specification as it travels, '|' for each terminator: "Owall|V6000000us|Aa|E"; the
 * caller's to free. Fails the test where it does not survive the journey, or needs a
 * descriptor. */
char *sbx_request_kit_line(const struct sbx_request *request);

/* Whether both are one request. */
bool sbx_request_kit_same(const char *one, const char *other,
                          const struct sbx_request_policy *policy);

/* Fails the test unless the request is refused with that code and a message that has the
 * fragment in it, and not the word "secret". */
void sbx_request_kit_refused(const char *json, const struct sbx_request_policy *policy,
                             int code, const char *fragment);

#endif
