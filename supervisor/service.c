/*
 * service.c - opening and closing the service; see service_private.h for where the rest
 * of it is.
 *
 * Relies on SIGPIPE being blocked or ignored: a client may leave while it is answered.
 * Never blocks, but for ending a verification when the service is closed.
 */
#include "supervisor/service_private.h"

#include "base/error.h"
#include "base/fd.h"
#include "monitor/loop.h"

#include <errno.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* How long no connection is accepted once descriptors have run out: accept would be tried
 * again at once, without end. */
#define PAUSE_US 100000

/* The hook for errors of accept gets evhttp's context and not ours: found by the
 * listener.
 */
static struct sbx_services services = LIST_HEAD_INITIALIZER(services);

/* Every method, those too that evhttp does not know: it would answer them by itself. */
#define ALL_METHODS 0xffff

static void on_request(struct evhttp_request *request, void *context)
{
    struct sbx_service_http *service = context;
    struct sbx_connection *connection = sbx_connection_find(service, request);
    if (connection == NULL) {
        evhttp_send_error(request, HTTP_SERVUNAVAIL, NULL);
        return;
    }
    connection->call = (struct sbx_http_call){.request = request};
    sbx_service_route(connection);
}

/* --- accepting --- */

static void on_again(evutil_socket_t fd, short what, void *context)
{
    struct sbx_service_http *service = context;
    (void)fd;
    (void)what;
    service->paused = false;
    sbx_service_listen(service);
}

static void on_accept_error(struct evconnlistener *listener, void *context)
{
    static const struct timeval pause = {.tv_usec = PAUSE_US};
    struct sbx_service_http *service = NULL;
    (void)context;
    LIST_FOREACH(service, &services, link)
    {
        if (service->listener == listener && event_add(service->again, &pause) == 0) {
            service->paused = true;
            sbx_service_listen(service);
        }
    }
}

/* libevent tells of everything on standard error: only of what it ends the program for.
 */
static void on_log(int severity, const char *message)
{
    if (severity == EVENT_LOG_ERR) {
        (void)fprintf(stderr, "libevent: %s\n", message);
    }
}

/* Half of what there is: an execution needs descriptors too. */
static size_t connections_for_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur / 2 > SBX_CONNECTIONS_MAX) {
        return SBX_CONNECTIONS_MAX;
    }
    return limit.rlim_cur / 2 > 0 ? (size_t)limit.rlim_cur / 2 : 1;
}

static int open_http(struct sbx_service_http *service)
{
    service->again = event_new(service->base, -1, 0, on_again, service);
    service->http = evhttp_new(service->base);
    if (service->again == NULL || service->http == NULL) {
        return -ENOMEM;
    }
    evhttp_set_max_headers_size(service->http, (ev_ssize_t)SBX_HEAD_MAX);
    evhttp_set_max_body_size(service->http, (ev_ssize_t)SBX_BODY_MAX);
    evhttp_set_default_content_type(service->http, NULL);
    evhttp_set_allowed_methods(service->http, ALL_METHODS);
    evhttp_set_bevcb(service->http, sbx_connection_make, service);
    evhttp_set_gencb(service->http, on_request, service);
    struct evconnlistener *listener = evconnlistener_new(
        service->base, NULL, NULL, LEV_OPT_CLOSE_ON_EXEC, 0, service->socket.fd);
    if (listener == NULL) {
        return -ENOMEM;
    }
    if (evhttp_bind_listener(service->http, listener) == NULL) {
        evconnlistener_free(listener);
        return -ENOMEM;
    }
    evconnlistener_set_error_cb(listener, on_accept_error);
    service->listener = listener;
    service->listening = true;
    return 0;
}

int sbx_service_open(struct sbx_supervisor *supervisor,
                     struct sbx_service_http **ret_service, struct sbx_error *err)
{
    struct sbx_service_http *service = calloc(1, sizeof *service);
    if (service == NULL) {
        return sbx_error_set(err, ENOMEM, SBX_STAGE_CHECK, "no memory");
    }
    *service = (struct sbx_service_http){
        .supervisor = supervisor,
        .base = sbx_loop_base(sbx_supervisor_loop(supervisor)),
        .socket = {.fd = -1, .lock = -1},
        .verify = {.fd = -1},
        .connections_max = connections_for_limit(),
    };
    LIST_INIT(&service->connections);
    LIST_INSERT_HEAD(&services, service, link);
    int r =
        sbx_service_socket_open(sbx_supervisor_plan(supervisor), &service->socket, err);
    if (r == 0 && (r = open_http(service)) < 0) {
        (void)sbx_error_set(err, -r, SBX_STAGE_CHECK, "the HTTP service: %s",
                            sbx_errno_text(-r).text);
    }
    if (r < 0) {
        sbx_service_close(service);
        return r;
    }
    event_set_log_callback(on_log);
    *ret_service = service;
    return 0;
}

void sbx_service_close(struct sbx_service_http *service)
{
    if (service == NULL) {
        return;
    }
    service->listener = NULL; /* evhttp frees it */
    if (service->http != NULL) {
        evhttp_free(service->http);
    }
    if (service->again != NULL) {
        event_free(service->again);
    }
    sbx_service_verify_close(service);
    sbx_service_socket_close(&service->socket);
    LIST_REMOVE(service, link);
    free(service->by_fd);
    free(service);
}
