/*
 * service_private.h - what the files of the service share: service.c (opening, closing),
 * service_socket.c (the socket it listens on), service_connection.c (connections: their
 * bounds, who the peer is, what evhttp answers by itself), service_answer.c (answers),
 * service_routes.c (which call a request is), service_calls.c and service_read.c (the
 * calls), service_wait.c (calls that wait), service_verify.c.
 *
 * A connection has one request at a time. What belongs to it lies in the connection, so
 * that a call which waits has nothing of its own but a waiter.
 */
#ifndef SBX_SUPERVISOR_SERVICE_PRIVATE_H
#define SBX_SUPERVISOR_SERVICE_PRIVATE_H

#include "supervisor/query.h"
#include "supervisor/service.h"
#include "supervisor/socket_path.h"

#include <event2/event.h>
#include <event2/http.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

/* Bounds. SBX_BODY_MAX holds a request with SBX_STDIN_MAX bytes of data in base64. */
#define SBX_BODY_MAX ((size_t)2 * 1024 * 1024)
#define SBX_HEAD_MAX ((size_t)16 * 1024)
#define SBX_CONNECTIONS_MAX ((size_t)4096)
#define SBX_STRANGERS_MAX ((size_t)64)            /* peers that are answered 403 alone */
#define SBX_INPUT_MAX ((size_t)64 * 1024 * 1024)  /* of all connections, received */
#define SBX_OUTPUT_MAX ((size_t)64 * 1024 * 1024) /* of all, answered and not taken */
#define SBX_SMALL_MAX ((size_t)8 * 1024)          /* passes whatever others hold up */
#define SBX_PIECE_MAX ((size_t)256 * 1024)        /* of stdout or stderr in an answer */

#define SBX_IDLE_US UINT64_C(60000000)     /* between two requests */
#define SBX_RECEIVE_US UINT64_C(30000000)  /* for a whole request */
#define SBX_DELIVER_US UINT64_C(60000000)  /* for a whole answer */
#define SBX_STRANGER_US UINT64_C(5000000)  /* in place of each of these */
#define SBX_ORDER_US UINT64_C(10000000)    /* for a keeper to take an order */
#define SBX_VERIFY_US UINT64_C(75000000)   /* for a verification */
#define SBX_VERIFIED_US UINT64_C(60000000) /* so long its result is given again */

/* --- the socket --- */

struct sbx_service_socket {
    int fd;                          /* listens; -1: none */
    int lock;                        /* -1: none: it was passed to us */
    char path[SBX_SOCKET_PATH_SIZE]; /* "": it was passed to us */
    dev_t device;                    /* of what lies at that path */
    ino_t inode;
};

int sbx_service_socket_open(const struct sbx_supervisor_plan *plan,
                            struct sbx_service_socket *ret_socket, struct sbx_error *err);
void sbx_service_socket_close(struct sbx_service_socket *place);

/* --- calls --- */

struct sbx_connection;

/* Goes on with a call: code 0, what its waiter was done with, or ETIMEDOUT. */
typedef void sbx_resume(struct sbx_connection *connection, int code);

struct sbx_http_call {
    struct evhttp_request *request; /* NULL: none, or it was answered */
    enum sbx_resource resource;
    char id[SBX_ID_SIZE];
    struct sbx_query query;
    uint64_t until_us; /* CLOCK_MONOTONIC: it waits no longer */
    struct sbx_waiter *waiter;
    sbx_resume *resume; /* NULL: it does not wait */
};

enum sbx_connection_state {
    SBX_CONNECTION_IDLE = 0,
    SBX_CONNECTION_RECEIVING, /* a request has begun */
    SBX_CONNECTION_HANDLING,  /* it is complete; its call may wait */
    SBX_CONNECTION_ANSWERING, /* ours is on its way */
    SBX_CONNECTION_REFUSING,  /* evhttp has found something wrong, and will close */
};

struct sbx_connection {
    struct sbx_service_http *service;
    struct bufferevent *stream;     /* a reference of our own */
    struct evhttp_connection *http; /* NULL: not seen yet */
    int fd;
    struct sbx_peer peer;
    bool served; /* else a stranger */
    enum sbx_connection_state state;
    struct event *deadline; /* of the state */
    struct event *soon;     /* what must not be done inside of libevent's callbacks */
    size_t input_bytes;     /* received for the request that is under way */
    size_t output_bytes;    /* of the answer that is under way */
    int refusal;            /* status of an answer that evhttp has made */
    bool doomed;            /* to be closed */
    struct sbx_http_call call;
    LIST_ENTRY(sbx_connection) link;
};
LIST_HEAD(sbx_connections, sbx_connection);

/* --- the verification --- */

struct sbx_service_verify {
    pid_t pid; /* 0: none */
    int fd;    /* reads from it; -1: none */
    struct event *readable;
    struct event *bound;
    char *text; /* of the one that runs, or of the last one */
    size_t length;
    uint64_t until_us; /* CLOCK_MONOTONIC; text may be given until then; 0: not */
};

struct sbx_service_http {
    struct sbx_supervisor *supervisor;
    struct event_base *base;
    struct evhttp *http;
    struct evconnlistener *listener;
    struct event *again; /* accepts again, after a lack of descriptors */
    bool paused;         /* until then */
    bool listening;
    struct sbx_service_socket socket;
    struct sbx_connections connections;
    struct sbx_connection **by_fd;
    size_t by_fd_size;
    size_t connections_count;
    size_t connections_max;
    size_t strangers_count;
    size_t guests_count; /* who are served by --allow-uid */
    size_t input_bytes;
    size_t output_bytes;
    uint64_t requests_total;
    uint64_t refused_total; /* answered with a status of 400 or more */
    struct sbx_service_verify verify;
    LIST_ENTRY(sbx_service_http) link;
};
LIST_HEAD(sbx_services, sbx_service_http);

/* --- service_connection.c --- */

/* evhttp's hook for the transport of a new connection; its context is the service. */
struct bufferevent *sbx_connection_make(struct event_base *base, void *context);

/* NULL: it could not be made ours when it came. */
struct sbx_connection *sbx_connection_find(const struct sbx_service_http *service,
                                           struct evhttp_request *request);

/* Enters a state that lasts so long at most; SBX_FOREVER_US: without end. */
void sbx_connection_enter(struct sbx_connection *connection,
                          enum sbx_connection_state state, uint64_t duration_us);

/* Hears of the peer's leaving while its call waits. */
void sbx_connection_attend(struct sbx_connection *connection);

/* Accepts, or does not, as the numbers say. */
void sbx_service_listen(struct sbx_service_http *service);

/* --- service_answer.c: each ends the call that is under way --- */

/* Takes the text; NULL is answered as a lack of memory. type NULL: JSON. */
void sbx_answer_text_take(struct sbx_connection *connection, int status, char *text,
                          const char *type);
void sbx_answer_copy(struct sbx_connection *connection, int status, const char *text,
                     size_t length);
/* Takes the data. */
void sbx_answer_bytes_take(struct sbx_connection *connection, char *data, size_t length);
void sbx_answer_nothing(struct sbx_connection *connection); /* 204 */
void sbx_answer_error(struct sbx_connection *connection, int status, const char *code,
                      const char *message);
/* What an errno of the core stands for. message NULL: in its own words. */
void sbx_answer_errno(struct sbx_connection *connection, int code, const char *message);
/* The same about the execution that the call names: "id 'x': WHAT". */
void sbx_answer_of_id(struct sbx_connection *connection, int code, const char *what);
void sbx_answer_header(struct sbx_connection *connection, const char *name,
                       const char *value);
void sbx_answer_number(struct sbx_connection *connection, const char *name,
                       uint64_t value);
/* In place of what evhttp answers by itself. The connection will be closed. */
void sbx_answer_refusal(struct sbx_connection *connection, int status);

/* --- service_routes.c --- */

/* A request is complete. */
void sbx_service_route(struct sbx_connection *connection);

/* --- service_wait.c --- */

/* The execution that a call is about; NULL: there is none, and that was answered. */
struct sbx_execution *sbx_call_find(struct sbx_connection *connection);

/* Waits for that waiter, NULL being a lack of memory, until then at most. */
void sbx_call_await(struct sbx_connection *connection, struct sbx_waiter *waiter,
                    sbx_resume *resume, uint64_t until_us);

/* The same for what is no waiter: somebody calls sbx_call_go_on. */
void sbx_call_await_other(struct sbx_connection *connection, sbx_resume *resume,
                          uint64_t until_us);

/* What a call waits for has come, or is waited for no longer. */
void sbx_call_go_on(struct sbx_connection *connection, int code);

/* As context of a waiter that sbx_call_await gets. */
sbx_done_callback sbx_call_on_done;

/* The connection is closed before it was answered. */
void sbx_call_abandon(struct sbx_connection *connection);

/* The body of a request, in one piece. */
const char *sbx_call_body(struct sbx_connection *connection, size_t *ret_length);

/* --- the calls --- */

void sbx_call_start(struct sbx_connection *connection);
void sbx_call_list(struct sbx_connection *connection);
void sbx_call_show(struct sbx_connection *connection);
void sbx_call_remove(struct sbx_connection *connection);
void sbx_call_events(struct sbx_connection *connection);
void sbx_call_output(struct sbx_connection *connection);
void sbx_call_stdin(struct sbx_connection *connection);
void sbx_call_signal(struct sbx_connection *connection);
void sbx_call_cancel(struct sbx_connection *connection);
void sbx_call_pause(struct sbx_connection *connection); /* and resume */
void sbx_call_shutdown(struct sbx_connection *connection);
void sbx_call_stats(struct sbx_connection *connection);
void sbx_call_metrics(struct sbx_connection *connection);
void sbx_call_verify(struct sbx_connection *connection);

/* Ends a verification that is under way. */
void sbx_service_verify_close(struct sbx_service_http *service);

#endif
