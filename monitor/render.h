/*
 * render.h - the report in another form than JSON, made from its JSON text (see
 * flatten.h), so that no form can say what another one does not.
 */
#ifndef SBX_MONITOR_RENDER_H
#define SBX_MONITOR_RENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum sbx_format { SBX_FORMAT_JSON = 0, SBX_FORMAT_KV, SBX_FORMAT_TEXT };

/* Room for the largest report in any form: an argument that takes three bytes of JSON
 * takes a line of its own. */
#define SBX_RENDER_SIZE ((size_t)2 * 1024 * 1024)

/* One "path=value" a line, the value as it stands in the JSON text. Returns the length,
 * or a negative errno: -ENOBUFS, -EINVAL for what is no report of ours. */
ssize_t sbx_render_kv(const char *json, size_t length, char *buffer, size_t size);

/* For people: the verdict in a sentence, then section by section what the report holds.
 * No contract: a program reads JSON or kv. */
ssize_t sbx_render_text(const char *json, size_t length, char *buffer, size_t size);

/* --- for both --- a buffer that is written to from the front --- */

struct sbx_out {
    char *buffer;
    size_t size;
    size_t used;
    bool overflow; /* something did not fit */
};

void sbx_out_bytes(struct sbx_out *out, const char *bytes, size_t length);
void sbx_out_text(struct sbx_out *out, const char *text);

/* Ends it with a NUL. The length, or -ENOBUFS. */
ssize_t sbx_out_finish(struct sbx_out *out);

#endif
