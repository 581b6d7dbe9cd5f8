/*
 * fuzz_request.c - sbx_request_parse on any bytes, for the user of sbxd and for another.
 *
 * Beside memory safety and leaks: a failure leaves the result as it was, and says why in
 * one printable line; what was accepted is accepted again with the same digest, survives
 * the journey to the keeper, needs no descriptor, and is within what the operator allows.
 * Files of variables are not read here (any file of the machine could be named).
 */
#include "fuzz/fuzz.h"

#include "monitor/wire.h"
#include "supervisor/request.h"

#include <errno.h>
#include <string.h>

#define INPUT_MAX 65536
#define MEMORY_MAX (UINT64_C(1) << 40)

static const unsigned char key[SBX_KEY_SIZE] = "any thirty-two bytes are a key.";

static struct sbx_request_policy policy_of(bool trusted)
{
    return (struct sbx_request_policy){.key = key,
                                       .max_memory_bytes = trusted ? 0 : MEMORY_MAX,
                                       .max_output_bytes = UINT64_C(64) << 20,
                                       .max_events_count = 65536,
                                       .max_retention_us = UINT64_C(604800000000),
                                       .default_retention_us = UINT64_C(900000000),
                                       .force_sandbox = !trusted,
                                       .sandbox_program = "/usr/bin/sbx-run",
                                       .trusted = trusted,
                                       .uid = 4242,
                                       .gid = 4242};
}

static void check_error(const struct sbx_error *error, int result)
{
    SBX_MUST(result == -EINVAL || result == -EPERM);
    SBX_MUST(error->code == -result);
    SBX_MUST(error->stage == SBX_STAGE_OPTIONS);
    size_t length = strnlen(error->message, sizeof error->message);
    SBX_MUST(length > 0 && length < sizeof error->message);
    SBX_MUST(strchr(error->message, ':') != NULL);
    for (size_t i = 0; i < length; i++) {
        SBX_MUST((unsigned char)error->message[i] >= 0x20);
    }
}

static void check_journey(const struct sbx_request *request)
{
    char *text = NULL;
    size_t length = 0;
    int fd = -1;
    struct sbx_spec *copy = sbx_spec_new();
    SBX_MUST(copy != NULL);
    SBX_MUST(sbx_wire_pack(request->spec, &text, &length, NULL) == 0);
    SBX_MUST(sbx_wire_fds(text, length, &fd, 1) == 0);
    SBX_MUST(sbx_wire_replay(text, length, copy, NULL) == 0);
    SBX_MUST(copy->argv != NULL && copy->argv[0][0] != '\0');
    SBX_MUST(copy->report_path == NULL && copy->keep_fd_count == 0 && !copy->detach);
    sbx_spec_free(copy);
    free(text);
}

static void check_bounds(const struct sbx_request *request,
                         const struct sbx_request_policy *policy)
{
    const struct sbx_facts *facts = &request->facts;
    const struct sbx_spec *spec = request->spec;
    SBX_MUST(facts->id[0] == '\0' || sbx_id_is_valid(facts->id));
    SBX_MUST(facts->output_limit_bytes >= 1024 &&
             facts->output_limit_bytes <= policy->max_output_bytes);
    SBX_MUST(facts->event_limit_count >= 8 &&
             facts->event_limit_count <= policy->max_events_count);
    SBX_MUST(facts->retention_us > 0 && facts->retention_us <= policy->max_retention_us);
    SBX_MUST((request->stdin_kind == SBX_REQUEST_STDIN_DATA) ==
             (request->stdin_data != NULL));
    if (policy->trusted) {
        return;
    }
    SBX_MUST(spec->limits.memory_bytes > 0 && spec->limits.memory_bytes <= MEMORY_MAX);
    SBX_MUST(spec->environment.clear && spec->environment.from_files.count == 0);
    SBX_MUST(strcmp(spec->argv[0], policy->sandbox_program) == 0);
    SBX_MUST(spec->streams[1].path == NULL && spec->streams[2].path == NULL);
    SBX_MUST(spec->cgroup_root == NULL && spec->strays != SBX_STRAYS_KEEP);
}

static void try_as(const char *text, size_t size, bool trusted)
{
    const struct sbx_request_policy policy = policy_of(trusted);
    struct sbx_request *request = NULL;
    struct sbx_request *again = NULL;
    struct sbx_error error = {0};
    int r = sbx_request_parse(text, size, &policy, &request, &error);
    SBX_MUST(sbx_request_parse(text, size, &policy, &again, NULL) == r);
    if (r < 0) {
        check_error(&error, r);
        SBX_MUST(request == NULL && again == NULL);
        return;
    }
    SBX_MUST(r == 0);
    SBX_MUST(memcmp(request->facts.digest, again->facts.digest, SBX_DIGEST_SIZE) == 0);
    check_journey(request);
    check_bounds(request, &policy);
    sbx_request_free(request);
    sbx_request_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    if (size > INPUT_MAX) {
        return 0;
    }
    try_as(text, size, false);
    /* The key may be written with escapes. */
    if (size == 0 || (memmem(text, size, "env_from", 8) == NULL &&
                      memmem(text, size, "\\u", 2) == NULL)) {
        try_as(text, size, true);
    }
    return 0;
}
