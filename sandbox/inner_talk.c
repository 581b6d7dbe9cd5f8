/*
 * inner_talk.c - the socket to sbx-run, see inner.h and orders.h.
 *
 * Nothing here blocks: a record that finds the socket full stays in the queue. There are
 * never more than a handful, so the queue is as long as all that can ever be told.
 *
 * Two rules of the kernel about such sockets: an end that is closed with words in it that
 * nobody has read makes the other end read ECONNRESET, before and not after what was sent
 * to it. And a word that was sent before the end is still there to be read after it.
 */
#include "sandbox/inner.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void lose(struct sbx_inner_talk *talk)
{
    (void)close(talk->fd);
    talk->fd = -1;
    talk->queued = 0;
}

void sbx_inner_flush(struct sbx_inner_talk *talk)
{
    while (talk->queued > 0) {
        ssize_t sent = send(talk->fd, &talk->queue[0], sizeof talk->queue[0],
                            MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent < 0 && errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM) {
            /* Gone; that there may be words from before, sbx_inner_hear finds out. */
            talk->queued = 0;
            return;
        }
        if (sent < 0) {
            return;
        }
        talk->queued--;
        memmove(&talk->queue[0], &talk->queue[1], talk->queued * sizeof talk->queue[0]);
    }
}

void sbx_inner_tell(struct sbx_inner_talk *talk, enum sbx_inner_kind kind, int status,
                    const struct sbx_error *error)
{
    if (talk->fd < 0 || talk->queued == SBX_INNER_QUEUE) {
        return;
    }
    struct sbx_inner_record *record = &talk->queue[talk->queued++];
    memset(record, 0, sizeof *record);
    record->kind = (int32_t)kind;
    record->status = status;
    if (error != NULL) {
        record->error = *error;
    }
    sbx_inner_flush(talk);
}

bool sbx_inner_hear(struct sbx_inner_talk *talk, struct sbx_inner_word *ret_word)
{
    while (talk->fd >= 0) {
        struct sbx_inner_word word;
        ssize_t length = recv(talk->fd, &word, sizeof word, MSG_DONTWAIT);
        if (length == (ssize_t)sizeof word) {
            *ret_word = word;
            return true;
        }
        if (length < 0 && errno == EAGAIN) {
            return false;
        }
        if (length == 0 || (length < 0 && errno != EINTR && errno != ECONNRESET)) {
            lose(talk);
        }
    }
    return false;
}

void sbx_inner_hang_up(struct sbx_inner_talk *talk)
{
    struct sbx_inner_word word;
    if (talk->fd < 0) {
        return;
    }
    (void)shutdown(talk->fd, SHUT_RD); /* from here on no word can come in between */
    while (sbx_inner_hear(talk, &word)) {
    }
    if (talk->fd >= 0) {
        lose(talk);
    }
}
