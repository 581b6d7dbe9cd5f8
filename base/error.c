/*
 * error.c - see error.h. Relies on nothing but stdio's formatting into a given buffer;
 * never allocates, never logs.
 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int sbx_error_set(struct sbx_error *err, int code, enum sbx_stage stage,
                  const char *format, ...)
{
    if (err == NULL) {
        return -code;
    }
    err->code = code;
    err->stage = stage;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    return -code;
}

void sbx_error_prefix(struct sbx_error *err, const char *format, ...)
{
    if (err == NULL) {
        return;
    }
    char context[sizeof err->message];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(context, sizeof context - 2, format, args);
    va_end(args);
    if (length < 0) {
        return;
    }
    size_t used = strlen(context);
    context[used++] = ':';
    context[used++] = ' ';
    size_t room = sizeof err->message - 1 - used;
    size_t rest = strnlen(err->message, sizeof err->message - 1);
    if (rest > room) {
        rest = room;
    }
    memmove(err->message + used, err->message, rest);
    memcpy(err->message, context, used);
    err->message[used + rest] = '\0';
}

const char *sbx_stage_name(enum sbx_stage stage)
{
    static const char *const names[] = {
        [SBX_STAGE_NONE] = "none",       [SBX_STAGE_OPTIONS] = "options",
        [SBX_STAGE_CHECK] = "check",     [SBX_STAGE_ARM] = "arm",
        [SBX_STAGE_LAUNCH] = "launch",   [SBX_STAGE_EXEC] = "exec",
        [SBX_STAGE_MONITOR] = "monitor", [SBX_STAGE_REPORT] = "report",
    };
    size_t index = (size_t)stage;
    return index < sizeof names / sizeof names[0] ? names[index] : names[0];
}

const char *sbx_errno_name(int code)
{
    const char *name = strerrorname_np(code);
    return name != NULL ? name : "errno";
}

struct sbx_errno_text sbx_errno_text(int code)
{
    struct sbx_errno_text reason;
    /* Not strerror: that may translate, which may allocate. */
    const char *text = strerrordesc_np(code);
    if (text == NULL) {
        text = "unknown error";
    }
    char first = text[0];
    if (first >= 'A' && first <= 'Z' && text[1] >= 'a') {
        first = (char)(first - 'A' + 'a');
    }
    (void)snprintf(reason.text, sizeof reason.text, "%c%s (%s)", first, text + 1,
                   sbx_errno_name(code));
    return reason;
}
