/*
 * status.c - see status.h.
 */
#include "supervisor/status.h"

#include "monitor/flatten.h"

#include <stdbool.h>
#include <string.h>

const char *sbx_execution_status_name(enum sbx_execution_status status)
{
    static const char *const names[] = {"running",  "completed", "failed", "timed_out",
                                        "breached", "cancelled", "lost"};
    return names[status];
}

/* Whether the value at that path is that text, or that number. */
static bool is(const char *report, size_t length, const char *path, const char *expected)
{
    struct sbx_flat flat;
    if (!sbx_flatten_find(report, length, path, &flat)) {
        return false;
    }
    bool quoted = flat.length >= 2 && flat.value[0] == '"';
    const char *value = flat.value + (quoted ? 1 : 0);
    size_t value_length = flat.length - (quoted ? 2 : 0);
    return value_length == strlen(expected) && memcmp(value, expected, value_length) == 0;
}

static enum sbx_execution_status of_breach(const char *report, size_t length)
{
    if (is(report, length, "breach.reason", "wall") ||
        is(report, length, "breach.reason", "idle")) {
        return SBX_EXECUTION_TIMED_OUT;
    }
    /* Ended because a process of ours was killed: nothing that the command did. */
    if (is(report, length, "breach.reason", "guard-lost") ||
        is(report, length, "breach.reason", "caller-lost")) {
        return SBX_EXECUTION_LOST;
    }
    return SBX_EXECUTION_BREACHED;
}

enum sbx_execution_status sbx_execution_status_of(const char *report, size_t length)
{
    struct sbx_flat survivor;
    if (sbx_flatten_find(report, length, "termination.survivors.0.pid", &survivor)) {
        return SBX_EXECUTION_FAILED;
    }
    if (is(report, length, "outcome", "breach")) {
        return of_breach(report, length);
    }
    if (is(report, length, "outcome", "cancelled")) {
        return SBX_EXECUTION_CANCELLED;
    }
    if (is(report, length, "outcome", "exited")) {
        bool left =
            sbx_flatten_find(report, length, "termination.survivors.0.pid", &survivor);
        return is(report, length, "exit_code", "0") && !left ? SBX_EXECUTION_COMPLETED
                                                             : SBX_EXECUTION_FAILED;
    }
    if (is(report, length, "outcome", "signaled") ||
        is(report, length, "outcome", "launch-failed")) {
        return SBX_EXECUTION_FAILED;
    }
    return SBX_EXECUTION_LOST;
}
