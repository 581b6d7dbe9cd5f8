/*
 * ceiling.c - see ceiling.h. The table of ceilings, the strict parser of --rlimit, and
 * arming.
 *
 * Relies on base/text for the numbers: a value parses whole or not at all. Arming uses
 * nothing but setrlimit and getrlimit, neither of which needs a descriptor or memory, so
 * that a ceiling already in force cannot stop the next one. Never clamps: what the kernel
 * does not take as it stands, or would count differently, is an error.
 */
#include "reaper/ceiling.h"

#include "base/error.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const struct sbx_ceiling_kind sbx_ceiling_kinds[SBX_CEILING_COUNT] = {
    {"as", RLIMIT_AS, SBX_UNIT_BYTES},
    {"core", RLIMIT_CORE, SBX_UNIT_BYTES},
    {"cpu", RLIMIT_CPU, SBX_UNIT_SECONDS},
    {"data", RLIMIT_DATA, SBX_UNIT_BYTES},
    {"fsize", RLIMIT_FSIZE, SBX_UNIT_BYTES},
    {"locks", RLIMIT_LOCKS, SBX_UNIT_COUNT},
    {"memlock", RLIMIT_MEMLOCK, SBX_UNIT_BYTES},
    {"msgqueue", RLIMIT_MSGQUEUE, SBX_UNIT_BYTES},
    {"nice", RLIMIT_NICE, SBX_UNIT_COUNT},
    {"nofile", RLIMIT_NOFILE, SBX_UNIT_COUNT},
    {"nproc", RLIMIT_NPROC, SBX_UNIT_COUNT},
    {"rss", RLIMIT_RSS, SBX_UNIT_BYTES},
    {"rtprio", RLIMIT_RTPRIO, SBX_UNIT_COUNT},
    {"rttime", RLIMIT_RTTIME, SBX_UNIT_US},
    {"sigpending", RLIMIT_SIGPENDING, SBX_UNIT_COUNT},
    {"stack", RLIMIT_STACK, SBX_UNIT_BYTES},
};

#define US_PER_S UINT64_C(1000000)

/* The kernel counts RLIMIT_CPU in 64-bit nanoseconds and multiplies without a check: a
 * larger number of seconds wraps and fires almost at once. */
#define CPU_MAX_S (UINT64_MAX / UINT64_C(1000000000))

/* One of SOFT and HARD as text: longer ones cannot be numbers that anybody means. */
#define VALUE_SIZE 64
#define SHOWN_SIZE 128
#define LIMIT_SIZE 24

static const char *accepted_form(enum sbx_ceiling_unit unit)
{
    switch (unit) {
    case SBX_UNIT_BYTES:
        return "a size such as 4096, 64K, 1.5G, or unlimited";
    case SBX_UNIT_SECONDS:
        return "whole seconds such as 5, 90s, 2m, or unlimited";
    case SBX_UNIT_US:
        return "a duration such as 200ms, 1.5s, or unlimited";
    case SBX_UNIT_COUNT:
        break;
    }
    return "a count in digits, or unlimited";
}

static int parse_number(enum sbx_ceiling_unit unit, const char *text,
                        uint64_t *ret_number)
{
    uint64_t us = 0;
    int error;
    switch (unit) {
    case SBX_UNIT_BYTES:
        return sbx_text_size(text, ret_number);
    case SBX_UNIT_US:
        return sbx_text_duration(text, ret_number);
    case SBX_UNIT_SECONDS:
        error = sbx_text_duration(text, &us);
        if (error < 0) {
            return error;
        }
        if (us % US_PER_S != 0) {
            return -EINVAL;
        }
        if (us / US_PER_S > CPU_MAX_S) {
            return -ERANGE;
        }
        *ret_number = us / US_PER_S;
        return 0;
    case SBX_UNIT_COUNT:
        break;
    }
    return sbx_text_count(text, ret_number);
}

static int parse_limit(enum sbx_ceiling_unit unit, const char *text, rlim_t *ret_limit)
{
    if (strcmp(text, "unlimited") == 0) {
        *ret_limit = RLIM_INFINITY;
        return 0;
    }
    uint64_t number = 0;
    int error = parse_number(unit, text, &number);
    if (error < 0) {
        return error;
    }
    rlim_t limit = (rlim_t)number;
    /* The largest number means "unlimited" to the kernel: a number must not turn into it.
     */
    if (limit != number || limit == RLIM_INFINITY) {
        return -ERANGE;
    }
    *ret_limit = limit;
    return 0;
}

/* With one VALUE: soft = hard; but a CPU limit that is both would be a bare SIGKILL, so
 * there the hard limit is a second later. */
static int parse_single(enum sbx_ceiling_unit unit, const char *text,
                        struct sbx_ceiling *ceiling)
{
    int error = parse_limit(unit, text, &ceiling->soft);
    if (error < 0) {
        return error;
    }
    ceiling->hard = ceiling->soft;
    if (unit == SBX_UNIT_SECONDS && ceiling->soft != RLIM_INFINITY) {
        if (ceiling->soft >= CPU_MAX_S) {
            return -ERANGE;
        }
        ceiling->hard = ceiling->soft + 1;
    }
    return 0;
}

static int parse_values(enum sbx_ceiling_unit unit, const char *text,
                        struct sbx_ceiling *ret_ceiling)
{
    struct sbx_ceiling ceiling = {.asked = true};
    const char *colon = strchr(text, ':');
    int error;
    if (colon == NULL) {
        error = parse_single(unit, text, &ceiling);
    } else {
        char soft[VALUE_SIZE];
        size_t length = (size_t)(colon - text);
        if (length >= sizeof soft) {
            return -EINVAL;
        }
        memcpy(soft, text, length);
        soft[length] = '\0';
        error = parse_limit(unit, soft, &ceiling.soft);
        if (error == 0) {
            error = parse_limit(unit, colon + 1, &ceiling.hard);
        }
    }
    if (error < 0) {
        return error;
    }
    *ret_ceiling = ceiling;
    return 0;
}

static int find_kind(const char *name, size_t length)
{
    for (int i = 0; i < SBX_CEILING_COUNT; i++) {
        const char *known = sbx_ceiling_kinds[i].name;
        if (strlen(known) == length && memcmp(known, name, length) == 0) {
            return i;
        }
    }
    return -1;
}

/* For messages: what was written, made one line and cut. */
static const char *shown(const char *text, char buffer[static SHOWN_SIZE])
{
    (void)sbx_text_escape(buffer, SHOWN_SIZE, text, strlen(text));
    return buffer;
}

int sbx_ceiling_parse(const char *text,
                      struct sbx_ceiling ceilings[static SBX_CEILING_COUNT],
                      struct sbx_error *err)
{
    char buffer[SHOWN_SIZE];
    const char *equals = strchr(text, '=');
    if (equals == NULL) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "\"%s\" is not NAME=VALUE or NAME=SOFT:HARD",
                             shown(text, buffer));
    }
    int index = find_kind(text, (size_t)(equals - text));
    if (index < 0) {
        return sbx_error_set(
            err, EINVAL, SBX_STAGE_OPTIONS,
            "\"%s\" does not begin with the name of a ceiling: as core cpu data fsize "
            "locks "
            "memlock msgqueue nice nofile nproc rss rtprio rttime sigpending stack",
            shown(text, buffer));
    }
    const struct sbx_ceiling_kind *kind = &sbx_ceiling_kinds[index];
    struct sbx_ceiling ceiling;
    int error = parse_values(kind->unit, equals + 1, &ceiling);
    if (error < 0) {
        return sbx_error_set(err, -error, SBX_STAGE_OPTIONS, "\"%s\" %s: %s takes %s",
                             shown(text, buffer),
                             error == -ERANGE ? "is out of range" : "does not parse",
                             kind->name, accepted_form(kind->unit));
    }
    if (ceiling.soft > ceiling.hard) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "\"%s\" has a soft limit above its hard limit",
                             shown(text, buffer));
    }
    ceilings[index] = ceiling;
    return 0;
}

int sbx_ceiling_check(const struct sbx_ceiling ceilings[static SBX_CEILING_COUNT],
                      uid_t final_uid, struct sbx_error *err)
{
    for (int i = 0; i < SBX_CEILING_COUNT; i++) {
        if (ceilings[i].asked && sbx_ceiling_kinds[i].resource == RLIMIT_NPROC &&
            final_uid == 0) {
            return sbx_error_set(err, EINVAL, SBX_STAGE_ARM,
                                 "ceiling nproc: the kernel does not hold it for uid 0: "
                                 "use --processes, which bounds the tree");
        }
    }
    return 0;
}

static const char *limit_text(rlim_t limit, char buffer[static LIMIT_SIZE])
{
    if (limit == RLIM_INFINITY) {
        return "unlimited";
    }
    (void)snprintf(buffer, LIMIT_SIZE, "%" PRIu64, (uint64_t)limit);
    return buffer;
}

#define PAIR_SIZE (2 * LIMIT_SIZE + 1)

static const char *pair_text(rlim_t soft, rlim_t hard, char buffer[static PAIR_SIZE])
{
    char first[LIMIT_SIZE];
    char second[LIMIT_SIZE];
    if (soft == hard) {
        (void)snprintf(buffer, PAIR_SIZE, "%s", limit_text(soft, first));
    } else {
        (void)snprintf(buffer, PAIR_SIZE, "%s:%s", limit_text(soft, first),
                       limit_text(hard, second));
    }
    return buffer;
}

static int refused(const struct sbx_ceiling_kind *kind, const struct sbx_ceiling *ceiling,
                   int code, struct sbx_error *err)
{
    char wanted[PAIR_SIZE];
    char hard[LIMIT_SIZE];
    const char *in_force = "unknown";
    struct rlimit now;
    if (getrlimit((unsigned)kind->resource, &now) == 0) {
        in_force = limit_text(now.rlim_max, hard);
    }
    return sbx_error_set(err, code, SBX_STAGE_ARM,
                         "ceiling %s: wanted %s, hard limit in force is %s: %s%s",
                         kind->name, pair_text(ceiling->soft, ceiling->hard, wanted),
                         in_force, sbx_errno_name(code),
                         code == EPERM ? " (not permitted)" : "");
}

static int arm_one(const struct sbx_ceiling_kind *kind, const struct sbx_ceiling *ceiling,
                   struct sbx_error *err)
{
    char wanted[PAIR_SIZE];
    char read_back[PAIR_SIZE];
    const struct rlimit limit = {.rlim_cur = ceiling->soft, .rlim_max = ceiling->hard};
    if (setrlimit((unsigned)kind->resource, &limit) < 0) {
        return refused(kind, ceiling, errno, err);
    }
    struct rlimit now;
    if (getrlimit((unsigned)kind->resource, &now) < 0) {
        int code = errno;
        return sbx_error_set(err, code, SBX_STAGE_ARM,
                             "ceiling %s: wanted %s, cannot be read back: %s", kind->name,
                             pair_text(ceiling->soft, ceiling->hard, wanted),
                             sbx_errno_name(code));
    }
    if (now.rlim_cur != ceiling->soft || now.rlim_max != ceiling->hard) {
        return sbx_error_set(err, EIO, SBX_STAGE_ARM,
                             "ceiling %s: wanted %s, but %s was read back", kind->name,
                             pair_text(ceiling->soft, ceiling->hard, wanted),
                             pair_text(now.rlim_cur, now.rlim_max, read_back));
    }
    return 0;
}

int sbx_ceiling_arm(const struct sbx_ceiling ceilings[static SBX_CEILING_COUNT],
                    struct sbx_error *err)
{
    for (int i = 0; i < SBX_CEILING_COUNT; i++) {
        if (!ceilings[i].asked) {
            continue;
        }
        int error = arm_one(&sbx_ceiling_kinds[i], &ceilings[i], err);
        if (error < 0) {
            return error;
        }
    }
    return 0;
}
