/*
 * reply.h - an answer of HTTP/1.x, taken apart as its bytes come, for client.c.
 *
 * Strict and bounded: what is not of the form ends it, whoever answers there, and no
 * length that is told is believed before the bytes are there. Knows nothing of sockets.
 */
#ifndef SBX_SUPERVISOR_REPLY_H
#define SBX_SUPERVISOR_REPLY_H

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stddef.h>

/* Of status line, headers, trailers and interim answers together. */
#define SBX_REPLY_HEAD_MAX ((size_t)16 * 1024)
#define SBX_REPLY_BODY_MAX ((size_t)16 * 1024 * 1024)

struct sbx_reply_reader;

/* `no_body`: of an answer to HEAD, which tells a length and has none. NULL: no memory. */
struct sbx_reply_reader *sbx_reply_reader_new(bool no_body);
void sbx_reply_reader_free(struct sbx_reply_reader *reader);

/* Takes the next bytes. 1: the answer is complete, and *ret_used of them belonged to it;
 * 0: it goes on. -EPROTO; -EMSGSIZE: more than the bounds above; -ENOMEM: it is of no use
 * any more. */
int sbx_reply_reader_take(struct sbx_reply_reader *reader, const char *data,
                          size_t length, size_t *ret_used, struct sbx_error *err);

/* No more bytes will come. 1: that is how this answer ends; -EPIPE: it was cut off. */
int sbx_reply_reader_end(struct sbx_reply_reader *reader, struct sbx_error *err);

/* Whether another request may be sent through the same connection. */
bool sbx_reply_reader_keeps(const struct sbx_reply_reader *reader);

/* The complete answer, from now on the caller's. */
struct sbx_reply *sbx_reply_reader_steal(struct sbx_reply_reader *reader);

#endif
