/*
 * reply.c - see reply.h. A state for each part of the answer; what is made of lines is
 * collected until the line is whole, what is body goes where it belongs at once.
 */
#include "supervisor/reply.h"

#include "base/error.h"
#include "base/fd.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BODY_FIRST ((size_t)4096)
/* Of a chunk's head: its size and what may be written behind that. */
#define CHUNK_LINE_MAX ((size_t)256)

struct sbx_reply {
    int status;
    size_t fields_length;
    char fields[SBX_REPLY_HEAD_MAX]; /* NAME NUL VALUE NUL ...: shorter than their lines
                                      */
    size_t length;
    size_t room;
    char *body; /* with room for a terminator */
};

enum state {
    STATE_STATUS,
    STATE_FIELDS,
    STATE_COUNTED, /* so many bytes of body: `left` */
    STATE_REST,    /* body until the end of the connection */
    STATE_CHUNK_SIZE,
    STATE_CHUNK, /* `left` bytes of it */
    STATE_CHUNK_END,
    STATE_TRAILERS,
    STATE_DONE,
};

struct sbx_reply_reader {
    enum state state;
    bool no_body;
    bool modern; /* HTTP/1.1 */
    bool keeps;
    size_t head_length; /* of all lines so far, but those of chunks */
    size_t left;
    size_t line_length;
    char line[SBX_REPLY_HEAD_MAX];
    struct sbx_reply *reply;
};

struct sbx_reply_reader *sbx_reply_reader_new(bool no_body)
{
    struct sbx_reply_reader *reader = calloc(1, sizeof *reader);
    struct sbx_reply *reply = calloc(1, sizeof *reply);
    if (reader == NULL || reply == NULL) {
        free(reader);
        free(reply);
        return NULL;
    }
    reader->no_body = no_body;
    reader->reply = reply;
    return reader;
}

void sbx_reply_reader_free(struct sbx_reply_reader *reader)
{
    if (reader != NULL) {
        sbx_reply_free(reader->reply);
        free(reader);
    }
}

static int refuse(struct sbx_error *err, const char *what)
{
    return sbx_error_set(err, EPROTO, SBX_STAGE_NONE, "what answers is no HTTP: %s",
                         what);
}

/* --- the body --- */

static int too_large(struct sbx_error *err)
{
    return sbx_error_set(err, EMSGSIZE, SBX_STAGE_NONE,
                         "the answer is larger than %zu bytes", SBX_REPLY_BODY_MAX);
}

/* Room for so many bytes more, and a terminator. */
static int grow(struct sbx_reply *reply, size_t more, struct sbx_error *err)
{
    if (more > SBX_REPLY_BODY_MAX - reply->length) {
        return too_large(err);
    }
    size_t wanted = reply->length + more + 1;
    size_t room = reply->room > 0 ? reply->room : BODY_FIRST;
    while (room < wanted) {
        room *= 2;
    }
    if (room > reply->room) {
        char *body = realloc(reply->body, room);
        if (body == NULL) {
            return sbx_error_set(err, ENOMEM, SBX_STAGE_NONE, "no memory for the answer");
        }
        reply->body = body;
        reply->room = room;
    }
    return 0;
}

static int append(struct sbx_reply *reply, const char *data, size_t length,
                  struct sbx_error *err)
{
    int r = grow(reply, length, err);
    if (r == 0) {
        memcpy(reply->body + reply->length, data, length);
        reply->length += length;
        reply->body[reply->length] = '\0';
    }
    return r;
}

/* --- lines --- */

static bool is_token(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_text(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* HTTP/1.1 200 OK */
static int take_status(struct sbx_reply_reader *reader, struct sbx_error *err)
{
    const char *line = reader->line;
    size_t length = reader->line_length;
    bool whole = length >= 12 && memcmp(line, "HTTP/1.", 7) == 0 &&
                 (line[7] == '0' || line[7] == '1') && line[8] == ' ' && line[9] >= '1' &&
                 line[9] <= '5' && is_digit(line[10]) && is_digit(line[11]) &&
                 (length == 12 || line[12] == ' ') && is_text(line, length);
    if (!whole) {
        return refuse(err, "its first line is no status line");
    }
    reader->modern = line[7] == '1';
    reader->reply->status =
        (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
    reader->state = STATE_FIELDS;
    return 0;
}

/* NAME: VALUE. Kept when `keep`; those behind the body are checked alone. */
static int take_field(struct sbx_reply_reader *reader, bool keep, struct sbx_error *err)
{
    struct sbx_reply *reply = reader->reply;
    const char *line = reader->line;
    size_t name = 0;
    while (name < reader->line_length && is_token(line[name])) {
        name++;
    }
    if (name == 0 || name == reader->line_length || line[name] != ':' ||
        !is_text(line, reader->line_length)) {
        return refuse(err, "a header is malformed");
    }
    const char *value = line + name + 1;
    const char *end = line + reader->line_length;
    while (value < end && (*value == ' ' || *value == '\t')) {
        value++;
    }
    while (end > value && (end[-1] == ' ' || end[-1] == '\t')) {
        end--;
    }
    size_t length = (size_t)(end - value);
    if (!keep) {
        return 0;
    }
    if (name + length + 2 > sizeof reply->fields - reply->fields_length) {
        return refuse(err, "its headers are too long");
    }
    char *at = reply->fields + reply->fields_length;
    memcpy(at, line, name);
    at[name] = '\0';
    memcpy(at + name + 1, value, length);
    at[name + 1 + length] = '\0';
    reply->fields_length += name + length + 2;
    return 0;
}

/* The value of a header that may be there once. 1, 0: it is not there, -EPROTO. */
static int only_field(const struct sbx_reply *reply, const char *name,
                      const char **ret_value, struct sbx_error *err)
{
    const char *at = reply->fields;
    const char *end = at + reply->fields_length;
    int count = 0;
    while (at < end) {
        const char *value = at + strlen(at) + 1;
        if (strcasecmp(at, name) == 0) {
            *ret_value = value;
            count++;
        }
        at = value + strlen(value) + 1;
    }
    return count <= 1 ? count : refuse(err, "a header about its length is there twice");
}

/* Digits alone. */
static int take_length(struct sbx_reply_reader *reader, const char *value,
                       struct sbx_error *err)
{
    size_t length = 0;
    if (*value == '\0') {
        return refuse(err, "its length is none");
    }
    for (; *value != '\0'; value++) {
        if (!is_digit(*value)) {
            return refuse(err, "its length is none");
        }
        length = 10 * length + (size_t)(*value - '0');
        if (length > SBX_REPLY_BODY_MAX) {
            return too_large(err);
        }
    }
    reader->left = length;
    reader->state = length > 0 ? STATE_COUNTED : STATE_DONE;
    return 0;
}

static bool asks_to_close(const struct sbx_reply *reply)
{
    const char *value = sbx_reply_header(reply, "connection");
    return value != NULL && strcasestr(value, "close") != NULL;
}

/* The empty line behind the headers: what comes now? */
static int end_head(struct sbx_reply_reader *reader, struct sbx_error *err)
{
    struct sbx_reply *reply = reader->reply;
    const char *length = NULL;
    const char *coding = NULL;
    if (reply->status == 101) {
        return refuse(err, "it changes to another protocol");
    }
    if (reply->status < 200) { /* "100 Continue": the answer proper follows */
        reply->fields_length = 0;
        reader->state = STATE_STATUS;
        return 0;
    }
    int lengths = only_field(reply, "content-length", &length, err);
    int codings =
        lengths < 0 ? lengths : only_field(reply, "transfer-encoding", &coding, err);
    if (codings < 0) {
        return codings;
    }
    if (codings > 0 &&
        (lengths > 0 || !reader->modern || strcasecmp(coding, "chunked") != 0)) {
        return refuse(err, "its length is told in a way that is not known");
    }
    reader->keeps = reader->modern && !asks_to_close(reply);
    if (reader->no_body || reply->status == 204 || reply->status == 304) {
        reader->state = STATE_DONE;
    } else if (codings > 0) {
        reader->state = STATE_CHUNK_SIZE;
    } else if (lengths > 0) {
        return take_length(reader, length, err);
    } else {
        reader->keeps = false;
        reader->state = STATE_REST;
    }
    return 0;
}

static int digit_value(char c)
{
    if (is_digit(c)) {
        return c - '0';
    }
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Hexadecimal digits, and perhaps extensions, which mean nothing to us. */
static int take_chunk_size(struct sbx_reply_reader *reader, struct sbx_error *err)
{
    size_t size = 0;
    size_t i = 0;
    for (; i < reader->line_length && digit_value(reader->line[i]) >= 0; i++) {
        size = 16 * size + (size_t)digit_value(reader->line[i]);
        if (size > SBX_REPLY_BODY_MAX) {
            return too_large(err);
        }
    }
    const char *rest = reader->line + i;
    size_t length = reader->line_length - i;
    if (i == 0 || !is_text(rest, length) ||
        (length > 0 && *rest != ';' && *rest != ' ' && *rest != '\t')) {
        return refuse(err, "the size of a chunk is none");
    }
    reader->left = size;
    reader->state = size > 0 ? STATE_CHUNK : STATE_TRAILERS;
    return 0;
}

/* A whole line, without its end. */
static int take_line(struct sbx_reply_reader *reader, struct sbx_error *err)
{
    bool empty = reader->line_length == 0;
    switch (reader->state) {
    case STATE_STATUS:
        return take_status(reader, err);
    case STATE_FIELDS:
        return empty ? end_head(reader, err) : take_field(reader, true, err);
    case STATE_CHUNK_SIZE:
        return take_chunk_size(reader, err);
    case STATE_CHUNK_END:
        reader->state = STATE_CHUNK_SIZE;
        return empty ? 0 : refuse(err, "a chunk is longer than was told");
    case STATE_TRAILERS:
        if (!empty) {
            return take_field(reader, false, err);
        }
        reader->state = STATE_DONE;
        return 0;
    case STATE_COUNTED:
    case STATE_REST:
    case STATE_CHUNK:
    case STATE_DONE:
    default:
        return refuse(err, "a line in the wrong place");
    }
}

static bool is_about_chunk(enum state state)
{
    return state == STATE_CHUNK_SIZE || state == STATE_CHUNK_END;
}

/* Collects a line, and takes it once it is whole. Sets what it used. */
static int collect(struct sbx_reply_reader *reader, const char *data, size_t length,
                   size_t *used, struct sbx_error *err)
{
    bool of_chunk = is_about_chunk(reader->state);
    const char *mark = memchr(data, '\n', length);
    size_t taken = mark != NULL ? (size_t)(mark - data) + 1 : length;
    size_t before = of_chunk ? reader->line_length : reader->head_length;
    if (taken > (of_chunk ? CHUNK_LINE_MAX : SBX_REPLY_HEAD_MAX) - before) {
        return refuse(err, "its headers are too long");
    }
    memcpy(reader->line + reader->line_length, data, taken);
    reader->line_length += taken;
    reader->head_length += of_chunk ? 0 : taken;
    *used = taken;
    if (mark == NULL) {
        return 0;
    }
    if (reader->line_length < 2 || reader->line[reader->line_length - 2] != '\r') {
        return refuse(err, "a line does not end as it should");
    }
    reader->line_length -= 2;
    int r = take_line(reader, err);
    reader->line_length = 0;
    return r;
}

/* Bytes of the body. */
static int fill(struct sbx_reply_reader *reader, const char *data, size_t length,
                size_t *used, struct sbx_error *err)
{
    bool bounded = reader->state != STATE_REST;
    *used = bounded && reader->left < length ? reader->left : length;
    int r = append(reader->reply, data, *used, err);
    if (r == 0 && bounded) {
        reader->left -= *used;
        if (reader->left == 0) {
            reader->state = reader->state == STATE_CHUNK ? STATE_CHUNK_END : STATE_DONE;
        }
    }
    return r;
}

static bool is_body(enum state state)
{
    return state == STATE_COUNTED || state == STATE_REST || state == STATE_CHUNK;
}

int sbx_reply_reader_take(struct sbx_reply_reader *reader, const char *data,
                          size_t length, size_t *ret_used, struct sbx_error *err)
{
    size_t done = 0;
    while (reader->state != STATE_DONE && done < length) {
        size_t used = 0;
        int r = is_body(reader->state)
                    ? fill(reader, data + done, length - done, &used, err)
                    : collect(reader, data + done, length - done, &used, err);
        if (r < 0) {
            return r;
        }
        done += used;
    }
    *ret_used = done;
    return reader->state == STATE_DONE;
}

int sbx_reply_reader_end(struct sbx_reply_reader *reader, struct sbx_error *err)
{
    if (reader->state == STATE_REST) {
        reader->state = STATE_DONE;
    }
    return reader->state == STATE_DONE
               ? 1
               : sbx_error_set(err, EPIPE, SBX_STAGE_NONE, "the answer was cut off");
}

bool sbx_reply_reader_keeps(const struct sbx_reply_reader *reader)
{
    return reader->keeps && reader->state == STATE_DONE;
}

struct sbx_reply *sbx_reply_reader_steal(struct sbx_reply_reader *reader)
{
    struct sbx_reply *reply = reader->reply;
    reader->reply = NULL;
    return reply;
}

/* --- what a caller sees --- */

void sbx_reply_free(struct sbx_reply *reply)
{
    if (reply != NULL) {
        free(reply->body);
        free(reply);
    }
}

int sbx_reply_status(const struct sbx_reply *reply)
{
    return reply->status;
}

const char *sbx_reply_header(const struct sbx_reply *reply, const char *name)
{
    const char *at = reply->fields;
    const char *end = at + reply->fields_length;
    while (at < end) {
        const char *value = at + strlen(at) + 1;
        if (strcasecmp(at, name) == 0) {
            return value;
        }
        at = value + strlen(value) + 1;
    }
    return NULL;
}

const char *sbx_reply_body(const struct sbx_reply *reply, size_t *ret_length)
{
    if (ret_length != NULL) {
        *ret_length = reply->length;
    }
    return reply->body != NULL ? reply->body : "";
}
