/*
 * fuzz_ceiling.c - the parser of --rlimit on any bytes.
 *
 * Beside memory safety: on failure nothing is changed and the error is one line; what is
 * accepted sets exactly one ceiling, with soft <= hard, in the form NAME=SOFT:HARD comes
 * out the same again, and says "unlimited" where it means it.
 */
#include "fuzz/fuzz.h"

#include "reaper/ceiling.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define TEXT_MAX 4096
#define SPELLED_SIZE 32

static const char *unit_suffix(enum sbx_ceiling_unit unit)
{
    switch (unit) {
    case SBX_UNIT_BYTES:
        return "B";
    case SBX_UNIT_SECONDS:
        return "s";
    case SBX_UNIT_US:
        return "us";
    case SBX_UNIT_COUNT:
        break;
    }
    return "";
}

static const char *spell(enum sbx_ceiling_unit unit, rlim_t limit,
                         char buffer[static SPELLED_SIZE])
{
    if (limit == RLIM_INFINITY) {
        return "unlimited";
    }
    (void)snprintf(buffer, SPELLED_SIZE, "%" PRIu64 "%s", (uint64_t)limit,
                   unit_suffix(unit));
    return buffer;
}

static void check_again(const struct sbx_ceiling_kind *kind,
                        const struct sbx_ceiling *ceiling, int index)
{
    struct sbx_ceiling again[SBX_CEILING_COUNT] = {{.asked = false}};
    char soft[SPELLED_SIZE];
    char hard[SPELLED_SIZE];
    char text[128];
    (void)snprintf(text, sizeof text, "%s=%s:%s", kind->name,
                   spell(kind->unit, ceiling->soft, soft),
                   spell(kind->unit, ceiling->hard, hard));
    SBX_MUST(sbx_ceiling_parse(text, again, NULL) == 0);
    SBX_MUST(again[index].asked && again[index].soft == ceiling->soft &&
             again[index].hard == ceiling->hard);
}

static void check_failure(const struct sbx_ceiling *ceilings, int result,
                          const struct sbx_error *error)
{
    SBX_MUST(result == -EINVAL || result == -ERANGE);
    SBX_MUST(error->code == -result && error->stage == SBX_STAGE_OPTIONS);
    SBX_MUST(memchr(error->message, '\0', sizeof error->message) != NULL);
    SBX_MUST(error->message[0] != '\0' && strpbrk(error->message, "\r\n\t\033") == NULL);
    for (int i = 0; i < SBX_CEILING_COUNT; i++) {
        SBX_MUST(!ceilings[i].asked && ceilings[i].soft == 0 && ceilings[i].hard == 0);
    }
}

static void check_success(const char *text, const struct sbx_ceiling *ceilings)
{
    int asked = 0;
    for (int i = 0; i < SBX_CEILING_COUNT; i++) {
        const struct sbx_ceiling_kind *kind = &sbx_ceiling_kinds[i];
        if (!ceilings[i].asked) {
            continue;
        }
        size_t length = strlen(kind->name);
        asked++;
        SBX_MUST(strncmp(text, kind->name, length) == 0 && text[length] == '=');
        SBX_MUST(ceilings[i].soft <= ceilings[i].hard);
        SBX_MUST(ceilings[i].hard != RLIM_INFINITY || strstr(text, "unlimited") != NULL);
        check_again(kind, &ceilings[i], i);
    }
    SBX_MUST(asked == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > TEXT_MAX) {
        return 0;
    }
    struct sbx_ceiling ceilings[SBX_CEILING_COUNT] = {{.asked = false}};
    struct sbx_error error = {.code = 0};
    char *text = malloc(size + 1);
    SBX_MUST(text != NULL);
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    int result = sbx_ceiling_parse(text, ceilings, &error);
    if (result < 0) {
        check_failure(ceilings, result, &error);
    } else {
        SBX_MUST(result == 0);
        check_success(text, ceilings);
    }
    free(text);
    return 0;
}
