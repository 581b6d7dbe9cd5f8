/*
 * service_connection.c - connections: how many, how long and with how much, and who is at
 * the other end.
 *
 * evhttp bounds nothing but the size of one head and one body, and does not say when a
 * connection comes. So each gets its transport from us (sbx_connection_make), which is
 * looked at again as soon as evhttp is done with accepting it, before any byte is read.
 * From then on the bytes that come and go are counted, every state has a deadline, and
 * its end is known. libevent's own timeouts are not used: they begin anew with every
 * byte.
 *
 * Two things that evhttp 2.1 does have to be prevented. It ends the program when bytes
 * come while it waits for an answer and reading is on, which has to be on to hear of the
 * peer's leaving: its callback for them is taken away meanwhile. And it answers some
 * errors by itself, as HTML: that is exchanged before it is sent.
 */
#include "supervisor/service_private.h"

#include "base/clock.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Read ahead at most: a request with all its parts, and a bit of the next one. */
#define AHEAD_MAX (SBX_BODY_MAX + 4 * SBX_HEAD_MAX)
/* Sent for one request at most: more than that is chunks that are nearly empty. */
#define SENT_MAX (4 * SBX_BODY_MAX)
#define STRANGER_BYTES 4096
/* "HTTP/1.1 400" */
#define STATUS_OFFSET 9
#define STATUS_END 12

/* --- a connection's end --- */

/* Served, but only by permission. */
static bool is_guest(const struct sbx_connection *connection)
{
    return connection->served && !sbx_peer_is_trusted(&connection->peer);
}

static void leave_numbers(struct sbx_connection *connection)
{
    struct sbx_service_http *service = connection->service;
    service->input_bytes -= connection->input_bytes;
    service->output_bytes -= connection->output_bytes;
    service->connections_count--;
    if (connection->http != NULL) {
        LIST_REMOVE(connection, link);
        service->by_fd[connection->fd] = NULL;
        service->strangers_count -= connection->served ? 0 : 1;
        service->guests_count -= is_guest(connection) ? 1 : 0;
    }
}

static void on_change_in(struct evbuffer *buffer, const struct evbuffer_cb_info *info,
                         void *context);
static void on_change_out(struct evbuffer *buffer, const struct evbuffer_cb_info *info,
                          void *context);

static void free_connection(struct sbx_connection *connection)
{
    struct bufferevent *stream = connection->stream;
    (void)evbuffer_remove_cb(bufferevent_get_input(stream), on_change_in, connection);
    (void)evbuffer_remove_cb(bufferevent_get_output(stream), on_change_out, connection);
    leave_numbers(connection);
    event_free(connection->deadline);
    event_free(connection->soon);
    (void)bufferevent_decref(stream);
    free(connection);
}

static void on_closed(struct evhttp_connection *http, void *context)
{
    struct sbx_connection *connection = context;
    struct sbx_service_http *service = connection->service;
    (void)http;
    sbx_call_abandon(connection);
    free_connection(connection);
    sbx_service_listen(service);
}

/* The peer is told nothing; on_closed follows from within. */
static void close_connection(struct sbx_connection *connection)
{
    evhttp_connection_free(connection->http);
}

/* --- states --- */

void sbx_connection_enter(struct sbx_connection *connection,
                          enum sbx_connection_state state, uint64_t duration_us)
{
    uint64_t most_us = connection->served ? duration_us : SBX_STRANGER_US;
    struct timeval time = {.tv_sec = (time_t)(most_us / SBX_US_PER_S),
                           .tv_usec = (suseconds_t)(most_us % SBX_US_PER_S)};
    connection->state = state;
    if (duration_us == SBX_FOREVER_US) {
        (void)event_del(connection->deadline);
    } else if (event_add(connection->deadline, &time) < 0) {
        connection->doomed = true;
        event_active(connection->soon, EV_TIMEOUT, 0);
    }
}

static void on_deadline(evutil_socket_t fd, short what, void *context)
{
    struct sbx_connection *connection = context;
    (void)fd;
    (void)what;
    if (connection->state == SBX_CONNECTION_HANDLING) {
        sbx_call_go_on(connection, ETIMEDOUT);
    } else {
        close_connection(connection);
    }
}

void sbx_connection_attend(struct sbx_connection *connection)
{
    bufferevent_data_cb on_write = NULL;
    bufferevent_event_cb on_event = NULL;
    void *context = NULL;
    bufferevent_getcb(connection->stream, NULL, &on_write, &on_event, &context);
    bufferevent_setcb(connection->stream, NULL, on_write, on_event, context);
    (void)bufferevent_enable(connection->stream, EV_READ);
}

/* --- bytes --- */

static void doom(struct sbx_connection *connection)
{
    connection->doomed = true;
    event_active(connection->soon, EV_TIMEOUT, 0);
}

/* What was taken out counts until the request is answered: evhttp still has it. */
static void on_change_in(struct evbuffer *buffer, const struct evbuffer_cb_info *info,
                         void *context)
{
    struct sbx_connection *connection = context;
    struct sbx_service_http *service = connection->service;
    (void)buffer;
    if (info->n_added == 0) {
        return;
    }
    connection->input_bytes += info->n_added;
    service->input_bytes += info->n_added;
    if (connection->state == SBX_CONNECTION_IDLE) {
        sbx_connection_enter(connection, SBX_CONNECTION_RECEIVING, SBX_RECEIVE_US);
    }
    /* Not the one that has sent next to nothing: others have filled it up. */
    if (connection->input_bytes > SENT_MAX || (connection->input_bytes > SBX_SMALL_MAX &&
                                               service->input_bytes > SBX_INPUT_MAX)) {
        doom(connection);
    }
}

/* Before a request is complete, only evhttp writes: that it may go on (100), or an error.
 */
static void on_change_out(struct evbuffer *buffer, const struct evbuffer_cb_info *info,
                          void *context)
{
    struct sbx_connection *connection = context;
    struct evbuffer_ptr begin;
    char head[STATUS_END + 1] = "";
    if (info->n_added == 0 || connection->state > SBX_CONNECTION_RECEIVING ||
        evbuffer_ptr_set(buffer, &begin, info->orig_size, EVBUFFER_PTR_SET) < 0 ||
        evbuffer_copyout_from(buffer, &begin, head, STATUS_END) < STATUS_END) {
        return;
    }
    int status = (int)strtol(head + STATUS_OFFSET, NULL, 10);
    if (status >= 400) {
        connection->refusal = status;
        sbx_connection_enter(connection, SBX_CONNECTION_REFUSING, SBX_RECEIVE_US);
        event_active(connection->soon, EV_TIMEOUT, 0);
    }
}

/* --- a connection's beginning --- */

static bool is_allowed(const struct sbx_supervisor_plan *plan,
                       const struct sbx_peer *peer)
{
    bool allowed = sbx_peer_is_trusted(peer);
    for (size_t i = 0; i < plan->allowed_count && !allowed; i++) {
        allowed = plan->allowed[i] == peer->uid;
    }
    return allowed;
}

static bool find_peer(struct sbx_connection *connection)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(connection->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) {
        return false;
    }
    connection->peer = (struct sbx_peer){.uid = peer.uid, .gid = peer.gid};
    connection->served = is_allowed(sbx_supervisor_plan(connection->service->supervisor),
                                    &connection->peer);
    return true;
}

/* A place in the table by descriptor. */
static bool reserve_place(struct sbx_service_http *service, int fd)
{
    size_t size = service->by_fd_size;
    if (fd < 0 || (size_t)fd < size) {
        return fd >= 0;
    }
    size_t wanted = (size_t)fd + 1 + size / 2;
    struct sbx_connection **table =
        reallocarray(service->by_fd, wanted, sizeof(struct sbx_connection *));
    if (table == NULL) {
        return false;
    }
    memset(table + size, 0, (wanted - size) * sizeof(struct sbx_connection *));
    service->by_fd = table;
    service->by_fd_size = wanted;
    return true;
}

static bool count_bytes(struct sbx_connection *connection)
{
    struct bufferevent *stream = connection->stream;
    bufferevent_setwatermark(stream, EV_READ, 0, AHEAD_MAX);
    return evbuffer_add_cb(bufferevent_get_input(stream), on_change_in, connection) !=
               NULL &&
           evbuffer_add_cb(bufferevent_get_output(stream), on_change_out, connection) !=
               NULL;
}

static void bound_stranger(struct sbx_connection *connection)
{
    struct sbx_service_http *service = connection->service;
    evhttp_connection_set_max_headers_size(connection->http, STRANGER_BYTES);
    evhttp_connection_set_max_body_size(connection->http, STRANGER_BYTES);
    connection->doomed = ++service->strangers_count > SBX_STRANGERS_MAX;
}

/* evhttp has made its connection by now, or given up. */
static void see_accepted(struct sbx_connection *connection)
{
    struct sbx_service_http *service = connection->service;
    bufferevent_event_cb on_event = NULL;
    void *http = NULL;
    bufferevent_getcb(connection->stream, NULL, NULL, &on_event, &http);
    connection->fd = bufferevent_getfd(connection->stream);
    if (on_event == NULL || http == NULL) {
        free_connection(connection);
        sbx_service_listen(service);
        return;
    }
    if (!reserve_place(service, connection->fd) || !find_peer(connection) ||
        !count_bytes(connection)) {
        /* Not ours, so on_closed does not follow. */
        free_connection(connection);
        evhttp_connection_free(http);
        sbx_service_listen(service);
        return;
    }
    connection->http = http;
    service->by_fd[connection->fd] = connection;
    LIST_INSERT_HEAD(&service->connections, connection, link);
    evhttp_connection_set_closecb(http, on_closed, connection);
    if (!connection->served) {
        bound_stranger(connection);
    } else if (is_guest(connection)) {
        /* All of them together leave room for those who are trusted. */
        connection->doomed = ++service->guests_count > service->connections_max / 2;
    }
    sbx_connection_enter(connection, SBX_CONNECTION_IDLE, SBX_IDLE_US);
    if (connection->doomed) {
        close_connection(connection);
    }
}

static void on_soon(evutil_socket_t fd, short what, void *context)
{
    struct sbx_connection *connection = context;
    (void)fd;
    (void)what;
    if (connection->http == NULL) {
        see_accepted(connection);
    } else if (connection->doomed) {
        close_connection(connection);
    } else if (connection->refusal != 0) {
        sbx_answer_refusal(connection, connection->refusal);
    }
}

struct bufferevent *sbx_connection_make(struct event_base *base, void *context)
{
    struct sbx_service_http *service = context;
    struct bufferevent *stream = bufferevent_socket_new(base, -1, 0);
    struct sbx_connection *connection = calloc(1, sizeof *connection);
    if (stream == NULL || connection == NULL) {
        free(connection);
        return stream;
    }
    connection->deadline = event_new(base, -1, 0, on_deadline, connection);
    connection->soon = event_new(base, -1, 0, on_soon, connection);
    if (connection->deadline == NULL || connection->soon == NULL) {
        if (connection->deadline != NULL) {
            event_free(connection->deadline);
        }
        free(connection);
        return stream;
    }
    connection->service = service;
    connection->stream = stream;
    bufferevent_incref(stream);
    service->connections_count++;
    sbx_service_listen(service);
    event_active(connection->soon, EV_TIMEOUT, 0);
    return stream;
}

struct sbx_connection *sbx_connection_find(const struct sbx_service_http *service,
                                           struct evhttp_request *request)
{
    struct evhttp_connection *http = evhttp_request_get_connection(request);
    int fd = bufferevent_getfd(evhttp_connection_get_bufferevent(http));
    if (fd < 0 || (size_t)fd >= service->by_fd_size) {
        return NULL;
    }
    struct sbx_connection *connection = service->by_fd[fd];
    return connection != NULL && connection->http == http ? connection : NULL;
}

void sbx_service_listen(struct sbx_service_http *service)
{
    bool wanted =
        !service->paused && service->connections_count < service->connections_max;
    if (service->listener == NULL || wanted == service->listening) {
        return;
    }
    service->listening = wanted;
    if (wanted) {
        (void)evconnlistener_enable(service->listener);
    } else {
        (void)evconnlistener_disable(service->listener);
    }
}
