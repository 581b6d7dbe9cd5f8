/*
 * fuzz_reply.c - the reader of HTTP answers, on any bytes.
 *
 * Beside memory safety: what comes of an answer does not depend on where its bytes were
 * cut into pieces; headers are terminated text, and the body has a terminator behind it.
 * The first byte says how large the pieces are.
 */
#include "fuzz/fuzz.h"

#include "supervisor/reply.h"

#include <errno.h>
#include <string.h>

static int read_in_pieces(struct sbx_reply_reader *reader, const char *text, size_t size,
                          size_t piece, size_t *ret_used)
{
    size_t at = 0;
    int r = 0;
    while (r == 0 && at < size) {
        size_t used = 0;
        size_t length = size - at < piece ? size - at : piece;
        r = sbx_reply_reader_take(reader, text + at, length, &used, NULL);
        SBX_MUST(r == 1 || r == 0 || r == -EPROTO || r == -EMSGSIZE || r == -ENOMEM);
        SBX_MUST(r < 0 || used <= length);
        SBX_MUST(r != 0 || used == length);
        at += r < 0 ? 0 : used;
    }
    if (r == 0) {
        r = sbx_reply_reader_end(reader, NULL);
        SBX_MUST(r == 1 || r == -EPIPE);
    }
    *ret_used = at;
    return r;
}

static void look(const struct sbx_reply *reply)
{
    static const char *const names[] = {"content-length", "X-Sbx-Offset", "connection"};
    size_t length = 0;
    const char *body = sbx_reply_body(reply, &length);
    SBX_MUST(length <= SBX_REPLY_BODY_MAX && body[length] == '\0');
    SBX_MUST(sbx_reply_status(reply) >= 200 && sbx_reply_status(reply) < 600);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = sbx_reply_header(reply, names[i]);
        SBX_MUST(value == NULL || strlen(value) < SBX_REPLY_HEAD_MAX);
    }
}

static void expect_same(const struct sbx_reply *one, const struct sbx_reply *other)
{
    size_t length = 0;
    size_t other_length = 0;
    const char *body = sbx_reply_body(one, &length);
    const char *other_body = sbx_reply_body(other, &other_length);
    SBX_MUST(sbx_reply_status(one) == sbx_reply_status(other));
    SBX_MUST(length == other_length && memcmp(body, other_body, length) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    size_t piece = (size_t)data[0] + 1;
    bool no_body = data[0] == 255;
    const char *text = (const char *)data + 1;
    size_t used = 0;
    size_t cut_used = 0;
    struct sbx_reply_reader *whole = sbx_reply_reader_new(no_body);
    struct sbx_reply_reader *cut = sbx_reply_reader_new(no_body);
    if (whole != NULL && cut != NULL) {
        int r = read_in_pieces(whole, text, size - 1, size, &used);
        int other = read_in_pieces(cut, text, size - 1, piece, &cut_used);
        /* Whichever of two faults is met first. */
        SBX_MUST(r == other || (r < 0 && other < 0));
        if (r == 1 && other == 1) {
            struct sbx_reply *one = sbx_reply_reader_steal(whole);
            struct sbx_reply *two = sbx_reply_reader_steal(cut);
            SBX_MUST(used == cut_used);
            SBX_MUST(sbx_reply_reader_keeps(whole) == sbx_reply_reader_keeps(cut));
            look(one);
            expect_same(one, two);
            sbx_reply_free(one);
            sbx_reply_free(two);
        }
    }
    sbx_reply_reader_free(whole);
    sbx_reply_reader_free(cut);
    return 0;
}
