/*
 * error.h - how a failure of ours is described on its way up.
 *
 * struct sbx_error is a value (see sbx/sbx.h). Functions that can fail return a negative
 * errno and fill it in; a caller that knows more puts its context in front of the
 * message. Nothing here allocates.
 */
#ifndef SBX_BASE_ERROR_H
#define SBX_BASE_ERROR_H

#include <sbx/sbx.h>

/* Fills *err (may be NULL) and returns -code. `code` is a positive errno value. */
int sbx_error_set(struct sbx_error *err, int code, enum sbx_stage stage,
                  const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Puts context in front of the message of *err (may be NULL): "context: message". Cuts at
 * the end when it gets too long. */
void sbx_error_prefix(struct sbx_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* "options", "check", … as the report spells them; "none" for SBX_STAGE_NONE and for
 * values out of range. */
const char *sbx_stage_name(enum sbx_stage stage);

/* "ENOENT"; "errno" for a number that has no name. Static storage. */
const char *sbx_errno_name(int code);

/* Why something failed, as the end of a message: "no such file or directory (ENOENT)". */
struct sbx_errno_text {
    char text[96];
};
struct sbx_errno_text sbx_errno_text(int code);

#endif
