/*
 * json.c - see json.h. Relies on sbx_text_escape for what bytes from outside look like;
 * what comes out is valid UTF-8 whatever went in.
 */
#include "monitor/json.h"

#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* How much of the source is escaped at once; each byte becomes at most four. */
#define CHUNK_SIZE 256
#define CHUNK_TEXT_SIZE (4 * CHUNK_SIZE + 1)

void sbx_json_init(struct sbx_json *json, char *buffer, size_t size)
{
    *json = (struct sbx_json){.buffer = buffer, .size = size};
}

static void put(struct sbx_json *json, const char *text, size_t length)
{
    /* One byte stays free for the NUL. */
    if (json->overflow || json->size - json->used <= length) {
        json->overflow = true;
        return;
    }
    memcpy(json->buffer + json->used, text, length);
    json->used += length;
}

static void put_text(struct sbx_json *json, const char *text)
{
    put(json, text, strlen(text));
}

static void begin_value(struct sbx_json *json, const char *key)
{
    if (json->comma) {
        put(json, ",", 1);
    }
    json->comma = true;
    if (key != NULL) {
        put(json, "\"", 1);
        put_text(json, key);
        put(json, "\":", 2);
    }
}

static void open_container(struct sbx_json *json, const char *key, char open, char close)
{
    begin_value(json, key);
    if (json->depth == SBX_JSON_DEPTH) {
        json->overflow = true;
        return;
    }
    put(json, &open, 1);
    json->close[json->depth++] = close;
    json->comma = false;
}

void sbx_json_object(struct sbx_json *json, const char *key)
{
    open_container(json, key, '{', '}');
}

void sbx_json_array(struct sbx_json *json, const char *key)
{
    open_container(json, key, '[', ']');
}

void sbx_json_close(struct sbx_json *json)
{
    if (json->depth == 0) {
        json->overflow = true;
        return;
    }
    put(json, &json->close[--json->depth], 1);
    json->comma = true;
}

void sbx_json_number(struct sbx_json *json, const char *key, uint64_t value)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, value);
    begin_value(json, key);
    put(json, digits, (size_t)length);
}

void sbx_json_bool(struct sbx_json *json, const char *key, bool value)
{
    begin_value(json, key);
    put_text(json, value ? "true" : "false");
}

/* The two characters that are left to escape once control characters are gone. */
static void put_quoted(struct sbx_json *json, const char *text, size_t length)
{
    while (length > 0) {
        size_t plain = 0;
        while (plain < length && text[plain] != '"' && text[plain] != '\\') {
            plain++;
        }
        put(json, text, plain);
        if (plain < length) {
            put(json, "\\", 1);
            put(json, text + plain, 1);
            plain++;
        }
        text += plain;
        length -= plain;
    }
}

void sbx_json_string(struct sbx_json *json, const char *key, const char *text)
{
    begin_value(json, key);
    put(json, "\"", 1);
    put_quoted(json, text, strlen(text));
    put(json, "\"", 1);
}

static bool is_continuation(char byte)
{
    return ((unsigned char)byte & 0xC0U) == 0x80U;
}

/* Length of the first chunk: it never ends inside a character. A valid character has at
 * most three continuation bytes, so a longer row of them may be cut anywhere. */
static size_t chunk_length(const char *bytes, size_t length)
{
    if (length <= CHUNK_SIZE) {
        return length;
    }
    for (size_t back = 0; back <= 3; back++) {
        if (!is_continuation(bytes[CHUNK_SIZE - back])) {
            return CHUNK_SIZE - back;
        }
    }
    return CHUNK_SIZE;
}

void sbx_json_bytes(struct sbx_json *json, const char *key, const char *bytes,
                    size_t length)
{
    begin_value(json, key);
    put(json, "\"", 1);
    while (length > 0 && !json->overflow) {
        char text[CHUNK_TEXT_SIZE];
        size_t chunk = chunk_length(bytes, length);
        put_quoted(json, text, sbx_text_escape(text, sizeof text, bytes, chunk));
        bytes += chunk;
        length -= chunk;
    }
    put(json, "\"", 1);
}

ssize_t sbx_json_finish(struct sbx_json *json)
{
    put(json, "\n", 1);
    if (json->overflow) {
        return -ENOBUFS;
    }
    if (json->depth != 0) {
        return -EINVAL;
    }
    json->buffer[json->used] = '\0';
    return (ssize_t)json->used;
}
