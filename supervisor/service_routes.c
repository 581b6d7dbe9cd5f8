/*
 * service_routes.c - which call a request is: one table for paths and methods.
 */
#include "supervisor/service_private.h"

#include "base/clock.h"

#include <errno.h>
#include <event2/http.h>
#include <stdio.h>
#include <string.h>

struct route {
    enum sbx_resource resource;
    enum evhttp_cmd_type method;
    void (*call)(struct sbx_connection *connection);
    unsigned parameters; /* that its query may have */
};

#define GET EVHTTP_REQ_GET
#define POST EVHTTP_REQ_POST
#define DELETE EVHTTP_REQ_DELETE
#define AFTER SBX_PARAMETER_AFTER
#define OFFSET SBX_PARAMETER_OFFSET
#define WAIT SBX_PARAMETER_WAIT

/* clang-format off */
static const struct route routes[] = {
    {SBX_RESOURCE_EXECUTIONS, POST,   sbx_call_start,    0},
    {SBX_RESOURCE_EXECUTIONS, GET,    sbx_call_list,     0},
    {SBX_RESOURCE_EXECUTION,  GET,    sbx_call_show,     0},
    {SBX_RESOURCE_EXECUTION,  DELETE, sbx_call_remove,   WAIT},
    {SBX_RESOURCE_EVENTS,     GET,    sbx_call_events,   AFTER | WAIT},
    {SBX_RESOURCE_STDOUT,     GET,    sbx_call_output,   OFFSET | WAIT},
    {SBX_RESOURCE_STDERR,     GET,    sbx_call_output,   OFFSET | WAIT},
    {SBX_RESOURCE_STDIN,      POST,   sbx_call_stdin,    SBX_PARAMETER_CLOSE},
    {SBX_RESOURCE_SIGNAL,     POST,   sbx_call_signal,   0},
    {SBX_RESOURCE_CANCEL,     POST,   sbx_call_cancel,   WAIT},
    {SBX_RESOURCE_PAUSE,      POST,   sbx_call_pause,    0},
    {SBX_RESOURCE_RESUME,     POST,   sbx_call_pause,    0},
    {SBX_RESOURCE_SHUTDOWN,   POST,   sbx_call_shutdown, 0},
    {SBX_RESOURCE_STATS,      GET,    sbx_call_stats,    0},
    {SBX_RESOURCE_VERIFY,     GET,    sbx_call_verify,   0},
    {SBX_RESOURCE_METRICS,    GET,    sbx_call_metrics,  0},
};
/* clang-format on */

#define ROUTE_COUNT (sizeof routes / sizeof routes[0])
#define ALLOW_SIZE 32

static const char *method_name(enum evhttp_cmd_type method)
{
    return method == GET ? "GET" : method == POST ? "POST" : "DELETE";
}

static void refuse_method(struct sbx_connection *connection)
{
    char allow[ALLOW_SIZE] = "";
    size_t used = 0;
    for (size_t i = 0; i < ROUTE_COUNT; i++) {
        if (routes[i].resource == connection->call.resource) {
            int length = snprintf(allow + used, sizeof allow - used, "%s%s",
                                  used > 0 ? ", " : "", method_name(routes[i].method));
            used += length > 0 ? (size_t)length : 0;
        }
    }
    sbx_answer_header(connection, "Allow", allow);
    sbx_answer_error(connection, HTTP_BADMETHOD, "bad_method",
                     "this path has no such method");
}

static const struct route *find_route(const struct sbx_http_call *call)
{
    enum evhttp_cmd_type method = evhttp_request_get_command(call->request);
    for (size_t i = 0; i < ROUTE_COUNT; i++) {
        if (routes[i].resource == call->resource && routes[i].method == method) {
            return &routes[i];
        }
    }
    return NULL;
}

/* Of a method that evhttp does not know, it has not read the body: nothing that follows
 * on this connection can be understood. The same for all that are none of ours. */
static bool is_ours(struct evhttp_request *request)
{
    enum evhttp_cmd_type method = evhttp_request_get_command(request);
    return method == GET || method == POST || method == DELETE;
}

/* evhttp takes any other coding for a body of no length. */
static bool is_coded(struct evhttp_request *request)
{
    const char *coding = evhttp_find_header(evhttp_request_get_input_headers(request),
                                            "Transfer-Encoding");
    return coding != NULL && evutil_ascii_strcasecmp(coding, "chunked") != 0;
}

/* Path and query, or false, and it was answered. */
static bool understand(struct sbx_connection *connection, const struct route **ret_route)
{
    struct sbx_http_call *call = &connection->call;
    struct sbx_error error = {.message = ""};
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(call->request);
    const char *path = evhttp_uri_get_path(uri);
    int r = sbx_path_parse(path != NULL ? path : "", &call->resource, call->id, &error);
    if (r == -ENOENT) {
        sbx_answer_errno(connection, ENOENT, "there is no such path");
        return false;
    }
    if (r == 0 && (*ret_route = find_route(call)) == NULL) {
        refuse_method(connection);
        return false;
    }
    if (r == 0) {
        r = sbx_query_parse(evhttp_uri_get_query(uri), (*ret_route)->parameters,
                            &call->query, &error);
    }
    if (r < 0) {
        sbx_answer_errno(connection, -r, error.message);
    }
    return r == 0;
}

void sbx_service_route(struct sbx_connection *connection)
{
    const struct route *route = NULL;
    struct sbx_http_call *call = &connection->call;
    connection->service->requests_total++;
    sbx_connection_enter(connection, SBX_CONNECTION_HANDLING, SBX_FOREVER_US);
    if (!connection->served || !is_ours(call->request) || is_coded(call->request)) {
        sbx_answer_header(connection, "Connection", "close");
    }
    if (!connection->served) {
        sbx_answer_errno(connection, EPERM, "this service is not for your user");
        return;
    }
    if (is_coded(call->request)) {
        sbx_answer_errno(connection, EINVAL, "Transfer-Encoding: only chunked is known");
        return;
    }
    if (understand(connection, &route)) {
        call->until_us = sbx_clock_add(sbx_clock_us(), call->query.wait_us);
        route->call(connection);
    }
}
