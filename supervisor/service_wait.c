/*
 * service_wait.c - calls that wait: for a waiter of the core, for at most some time, and
 * no longer than the client stays.
 */
#include "supervisor/service_private.h"

#include "base/clock.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/http.h>

struct sbx_execution *sbx_call_find(struct sbx_connection *connection)
{
    struct sbx_execution *execution = sbx_supervisor_find(
        connection->service->supervisor, connection->call.id, &connection->peer);
    if (execution == NULL) {
        sbx_answer_of_id(connection, ENOENT, "there is no such execution");
    }
    return execution;
}

void sbx_call_await_other(struct sbx_connection *connection, sbx_resume *resume,
                          uint64_t until_us)
{
    struct sbx_http_call *call = &connection->call;
    struct evbuffer *body = evhttp_request_get_input_buffer(call->request);
    uint64_t now = sbx_clock_us();
    (void)evbuffer_drain(body, evbuffer_get_length(body));
    call->resume = resume;
    sbx_connection_enter(connection, SBX_CONNECTION_HANDLING,
                         until_us > now ? until_us - now : 0);
    sbx_connection_attend(connection);
}

void sbx_call_await(struct sbx_connection *connection, struct sbx_waiter *waiter,
                    sbx_resume *resume, uint64_t until_us)
{
    if (waiter == NULL) {
        sbx_answer_errno(connection, ENOMEM, NULL);
        return;
    }
    connection->call.waiter = waiter;
    sbx_call_await_other(connection, resume, until_us);
}

void sbx_call_go_on(struct sbx_connection *connection, int code)
{
    struct sbx_http_call *call = &connection->call;
    sbx_resume *resume = call->resume;
    sbx_waiter_free(call->waiter);
    call->waiter = NULL;
    call->resume = NULL;
    sbx_connection_enter(connection, SBX_CONNECTION_HANDLING, SBX_FOREVER_US);
    if (resume != NULL) {
        resume(connection, code);
    }
}

void sbx_call_on_done(int code, void *context)
{
    struct sbx_connection *connection = context;
    connection->call.waiter = NULL;
    sbx_call_go_on(connection, code);
}

/* The request is freed with its connection, unless evhttp has parted the two: then it is
 * ours. */
void sbx_call_abandon(struct sbx_connection *connection)
{
    struct sbx_http_call *call = &connection->call;
    sbx_waiter_free(call->waiter);
    if (call->request != NULL && evhttp_request_get_connection(call->request) == NULL) {
        evhttp_request_free(call->request);
    }
    *call = (struct sbx_http_call){.request = NULL};
}

const char *sbx_call_body(struct sbx_connection *connection, size_t *ret_length)
{
    struct evbuffer *body = evhttp_request_get_input_buffer(connection->call.request);
    *ret_length = evbuffer_get_length(body);
    const unsigned char *data = evbuffer_pullup(body, -1);
    return data != NULL ? (const char *)data : "";
}
