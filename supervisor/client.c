/*
 * client.c - asks sbxd over its Unix socket: HTTP/1.1, one request at a time, through a
 * connection that is kept while both sides like it. Answers are read by reply.c.
 *
 * Every wait ends with the call's deadline. A request is written at most once: another
 * connection is made only while nothing of it has left us. No signal, no thread, no state
 * that two clients share.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "supervisor/reply.h"
#include "supervisor/socket_path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#define READ_SIZE ((size_t)64 * 1024)
#define HEAD_SIZE 2048

struct sbx_client {
    char *path;
    int fd; /* -1: not connected */
};

/* One call under way. */
struct exchange {
    const struct sbx_call *call;
    uint64_t deadline_us;
    char head[HEAD_SIZE];
    size_t head_length;
    size_t sent; /* of head and body together */
    bool broken; /* no more can be sent */
    struct sbx_reply_reader *reader;
    struct sbx_error *err;
};

struct sbx_client *sbx_client_new(const char *socket_path)
{
    struct sbx_client *client = calloc(1, sizeof *client);
    if (client == NULL) {
        return NULL;
    }
    client->fd = -1;
    /* One that is too long stays empty, which the first call tells. */
    char own[SBX_SOCKET_PATH_SIZE] = "";
    if (socket_path == NULL) {
        (void)sbx_socket_default(own, sizeof own);
        socket_path = own;
    }
    client->path = strdup(socket_path);
    if (client->path == NULL) {
        free(client);
        return NULL;
    }
    return client;
}

void sbx_client_free(struct sbx_client *client)
{
    if (client != NULL) {
        sbx_fd_drop(&client->fd);
        free(client->path);
        free(client);
    }
}

const char *sbx_client_socket(const struct sbx_client *client)
{
    return client->path;
}

/* --- time --- */

static int late(const struct exchange *exchange)
{
    return sbx_error_set(exchange->err, ETIMEDOUT, SBX_STAGE_NONE,
                         "no answer within %llu ms",
                         (unsigned long long)exchange->call->timeout_us / 1000);
}

/* Until the deadline; SBX_FOREVER_US: there is none. */
static uint64_t remaining_us(const struct exchange *exchange)
{
    uint64_t now_us = sbx_clock_us();
    if (exchange->deadline_us == SBX_FOREVER_US) {
        return SBX_FOREVER_US;
    }
    return exchange->deadline_us > now_us ? exchange->deadline_us - now_us : 0;
}

/* Waits for one of these events. 0, -ETIMEDOUT ... */
static int wait_for(const struct exchange *exchange, int fd, short events)
{
    for (;;) {
        struct pollfd poll_fd = {.fd = fd, .events = events};
        uint64_t left_us = remaining_us(exchange);
        int timeout_ms = -1;
        if (left_us != SBX_FOREVER_US) {
            uint64_t left_ms = left_us / 1000 + (left_us % 1000 != 0);
            timeout_ms = left_ms < INT_MAX ? (int)left_ms : INT_MAX;
        }
        int r = poll(&poll_fd, 1, timeout_ms);
        if (r > 0) {
            return 0;
        }
        if (r < 0 && errno != EINTR) {
            return sbx_error_set(exchange->err, errno, SBX_STAGE_NONE, "poll: %s",
                                 sbx_errno_text(errno).text);
        }
        if (r == 0 && remaining_us(exchange) == 0) {
            return late(exchange);
        }
    }
}

/* --- the connection --- */

static int not_connected(const struct sbx_client *client, const struct exchange *exchange,
                         int code)
{
    return sbx_error_set(
        exchange->err, code, SBX_STAGE_NONE, "cannot connect to %s: %s%s", client->path,
        sbx_errno_text(code).text,
        code == ENOENT || code == ECONNREFUSED ? "; is sbxd running?" : "");
}

/* Blocks at most until the deadline where the service has too many waiting already: that
 * cannot be polled for. */
static int connect_by(int fd, const struct sockaddr_un *address,
                      const struct exchange *exchange)
{
    for (;;) {
        uint64_t left_us = remaining_us(exchange);
        if (left_us == 0) {
            return ETIMEDOUT;
        }
        if (left_us != SBX_FOREVER_US) {
            const struct timeval left = {.tv_sec = (time_t)(left_us / SBX_US_PER_S),
                                         .tv_usec =
                                             (suseconds_t)(left_us % SBX_US_PER_S)};
            if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &left, sizeof left) < 0) {
                return errno;
            }
        }
        if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0) {
            return 0;
        }
        if (errno != EINTR && errno != EAGAIN) {
            return errno;
        }
    }
}

static int open_connection(struct sbx_client *client, const struct exchange *exchange)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(client->path);
    if (length == 0 || length >= sizeof address.sun_path) {
        return sbx_error_set(exchange->err, ENAMETOOLONG, SBX_STAGE_OPTIONS,
                             "the path of a socket has 1 to %zu bytes: %.128s",
                             sizeof address.sun_path - 1, client->path);
    }
    memcpy(address.sun_path, client->path, length);
    SBX_AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return not_connected(client, exchange, errno);
    }
    int code = connect_by(fd, &address, exchange);
    if (code == ETIMEDOUT) {
        return late(exchange);
    }
    if (code == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) < 0) {
        code = errno;
    }
    if (code != 0) {
        return not_connected(client, exchange, code);
    }
    client->fd = sbx_fd_steal(&fd);
    return 0;
}

/* A kept connection on which the service has said anything, or has left, is of no use. */
static bool is_fresh(int fd)
{
    char byte;
    ssize_t r = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return r < 0 && (errno == EAGAIN || errno == EINTR);
}

static int ensure_connection(struct sbx_client *client, const struct exchange *exchange)
{
    if (client->fd >= 0 && !is_fresh(client->fd)) {
        sbx_fd_drop(&client->fd);
    }
    return client->fd >= 0 ? 0 : open_connection(client, exchange);
}

/* --- sending --- */

static bool is_method(const char *method)
{
    size_t length = strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    return length > 0 && length < 16 && method[length] == '\0';
}

/* What could end the line, or be read as more than a path, is refused. */
static bool is_target(const char *path)
{
    if (*path != '/') {
        return false;
    }
    while (*path > ' ' && *path < 0x7f) {
        path++;
    }
    return *path == '\0';
}

static int write_head(struct exchange *exchange)
{
    const struct sbx_call *call = exchange->call;
    char length_line[48] = "";
    if (call->method == NULL || !is_method(call->method) || call->path == NULL ||
        !is_target(call->path) || (call->body == NULL && call->length > 0)) {
        return sbx_error_set(exchange->err, EINVAL, SBX_STAGE_OPTIONS,
                             "a request needs a method in capitals and a path that "
                             "begins with / and has no blanks");
    }
    if (call->body != NULL || strcmp(call->method, "POST") == 0) {
        (void)snprintf(length_line, sizeof length_line, "Content-Length: %zu\r\n",
                       call->length);
    }
    int length = snprintf(exchange->head, sizeof exchange->head,
                          "%s %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", call->method,
                          call->path, length_line);
    if (length < 0 || (size_t)length >= sizeof exchange->head) {
        return sbx_error_set(exchange->err, ENAMETOOLONG, SBX_STAGE_OPTIONS,
                             "the path of the request is too long");
    }
    exchange->head_length = (size_t)length;
    return 0;
}

static bool has_to_send(const struct exchange *exchange)
{
    return !exchange->broken &&
           exchange->sent < exchange->head_length + exchange->call->length;
}

/* As much as goes now. A peer that takes no more may have said why: it is read on. 0, or
 * -EPIPE: the connection was of no use from the start, nothing has left us. */
static int send_some(struct exchange *exchange, int fd)
{
    const struct sbx_call *call = exchange->call;
    size_t head_sent =
        exchange->sent < exchange->head_length ? exchange->sent : exchange->head_length;
    size_t body_sent = exchange->sent - head_sent;
    const char *body = call->body != NULL ? call->body + body_sent : NULL;
    struct iovec parts[2] = {
        {.iov_base = exchange->head + head_sent,
         .iov_len = exchange->head_length - head_sent},
        {.iov_len = call->length - body_sent},
    };
    memcpy(&parts[1].iov_base, &body, sizeof body); /* which is read alone */
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t r = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (r >= 0) {
        exchange->sent += (size_t)r;
        return 0;
    }
    if (errno == EAGAIN || errno == EINTR) {
        return 0;
    }
    exchange->broken = true;
    return exchange->sent == 0 ? -EPIPE : 0;
}

/* --- receiving --- */

/* Reads what is there. 1: the answer is complete; 0: not yet. */
static int receive_some(struct exchange *exchange, struct sbx_client *client,
                        char *buffer)
{
    ssize_t r = recv(client->fd, buffer, READ_SIZE, MSG_DONTWAIT);
    if (r < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    if (r <= 0) {
        return sbx_reply_reader_end(exchange->reader, exchange->err);
    }
    size_t used = 0;
    int done =
        sbx_reply_reader_take(exchange->reader, buffer, (size_t)r, &used, exchange->err);
    if (done == 1 && used < (size_t)r) {
        sbx_fd_drop(&client->fd); /* whatever that is, it is not for us */
    }
    return done;
}

/* Sends while it reads: the service may have answered, and closed, before it has taken
 * all of a body that it does not want. */
static int converse(struct exchange *exchange, struct sbx_client *client)
{
    SBX_AUTO_FREE char *buffer = malloc(READ_SIZE);
    if (buffer == NULL) {
        return sbx_error_set(exchange->err, ENOMEM, SBX_STAGE_NONE, "no memory");
    }
    int done = 0;
    while (done == 0) {
        short events = POLLIN;
        if (has_to_send(exchange)) {
            (void)send_some(exchange, client->fd);
            events = (short)(has_to_send(exchange) ? POLLIN | POLLOUT : POLLIN);
        }
        int r = wait_for(exchange, client->fd, events);
        done = r < 0 ? r : receive_some(exchange, client, buffer);
    }
    return done < 0 ? done : 0;
}

/* The first piece goes before anything is awaited: a kept connection that turns out to be
 * closed is replaced, once. */
static int begin(struct exchange *exchange, struct sbx_client *client)
{
    bool kept = client->fd >= 0;
    int r = ensure_connection(client, exchange);
    if (r < 0) {
        return r;
    }
    r = send_some(exchange, client->fd);
    if (r < 0 && kept) {
        sbx_fd_drop(&client->fd);
        exchange->broken = false;
        r = open_connection(client, exchange);
    } else if (r < 0) {
        r = sbx_error_set(exchange->err, EPIPE, SBX_STAGE_NONE,
                          "%s: the connection was closed", client->path);
    }
    return r;
}

int sbx_client_call(struct sbx_client *client, const struct sbx_call *call,
                    struct sbx_reply **ret_reply, struct sbx_error *err)
{
    struct exchange exchange = {.call = call, .deadline_us = SBX_FOREVER_US, .err = err};
    if (call->timeout_us > 0) {
        exchange.deadline_us = sbx_clock_add(sbx_clock_us(), call->timeout_us);
    }
    int r = write_head(&exchange);
    if (r < 0) {
        return r;
    }
    exchange.reader = sbx_reply_reader_new(strcmp(call->method, "HEAD") == 0);
    if (exchange.reader == NULL) {
        return sbx_error_set(err, ENOMEM, SBX_STAGE_NONE, "no memory");
    }
    r = begin(&exchange, client);
    if (r == 0) {
        r = converse(&exchange, client);
    }
    /* Half a request, or an answer of which more may come. */
    if (r < 0 || has_to_send(&exchange) || exchange.broken ||
        !sbx_reply_reader_keeps(exchange.reader)) {
        sbx_fd_drop(&client->fd);
    }
    if (r == 0) {
        *ret_reply = sbx_reply_reader_steal(exchange.reader);
    }
    sbx_reply_reader_free(exchange.reader);
    return r;
}
