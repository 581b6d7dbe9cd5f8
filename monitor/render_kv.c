/*
 * render_kv.c - the report as lines of key=value, see render.h. The walk gives paths and
 * values as they stand in the JSON text; nothing is spelled anew here.
 */
#include "monitor/render.h"

#include "monitor/flatten.h"

#include <errno.h>
#include <string.h>

void sbx_out_bytes(struct sbx_out *out, const char *bytes, size_t length)
{
    /* One byte stays free for the NUL. */
    if (out->overflow || out->size - out->used <= length) {
        out->overflow = true;
        return;
    }
    memcpy(out->buffer + out->used, bytes, length);
    out->used += length;
}

void sbx_out_text(struct sbx_out *out, const char *text)
{
    sbx_out_bytes(out, text, strlen(text));
}

ssize_t sbx_out_finish(struct sbx_out *out)
{
    if (out->overflow || out->size == 0) {
        return -ENOBUFS;
    }
    out->buffer[out->used] = '\0';
    return (ssize_t)out->used;
}

static bool put_line(const struct sbx_flat *flat, void *context)
{
    struct sbx_out *out = context;
    sbx_out_text(out, flat->path);
    sbx_out_bytes(out, "=", 1);
    sbx_out_bytes(out, flat->value, flat->length);
    sbx_out_bytes(out, "\n", 1);
    return !out->overflow;
}

ssize_t sbx_render_kv(const char *json, size_t length, char *buffer, size_t size)
{
    struct sbx_out out = {.buffer = buffer, .size = size};
    int r = sbx_flatten(json, length, put_line, &out);
    return r < 0 ? r : sbx_out_finish(&out);
}
