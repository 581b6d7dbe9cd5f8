/*
 * service_answer.c - answers. Each is complete when it is begun, has its length in its
 * head, and counts against what all answers that are not taken yet may have together.
 */
#include "supervisor/service_private.h"

#include "base/clock.h"
#include "base/error.h"
#include "supervisor/view.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/http.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JSON "application/json"
#define NUMBER_SIZE 24

static const char busy_text[] =
    "{\"error\":{\"code\":\"busy\",\"message\":\"too much is waiting to be taken by "
    "other clients\"}}\n";
static const char memory_text[] =
    "{\"error\":{\"code\":\"no_memory\",\"message\":\"no memory for the answer\"}}\n";

static const char *phrase_of(int status)
{
    switch (status) {
    case 429:
        return "Too Many Requests";
    case 507:
        return "Insufficient Storage";
    default:
        return NULL; /* evhttp knows it */
    }
}

void sbx_answer_header(struct sbx_connection *connection, const char *name,
                       const char *value)
{
    struct evhttp_request *request = connection->call.request;
    struct evkeyvalq *headers = evhttp_request_get_output_headers(request);
    (void)evhttp_remove_header(headers, name);
    (void)evhttp_add_header(headers, name, value);
}

void sbx_answer_number(struct sbx_connection *connection, const char *name,
                       uint64_t value)
{
    char text[NUMBER_SIZE];
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    sbx_answer_header(connection, name, text);
}

/* The whole answer was written. What evhttp does next is to close the connection, or to
 * wait for the next request, of which the beginning may be there. */
static void on_delivered(struct evhttp_request *request, void *context)
{
    struct sbx_connection *connection = context;
    struct sbx_service_http *service = connection->service;
    size_t ahead = evbuffer_get_length(bufferevent_get_input(connection->stream));
    (void)request;
    service->output_bytes -= connection->output_bytes;
    connection->output_bytes = 0;
    service->input_bytes -= connection->input_bytes;
    connection->input_bytes = ahead;
    service->input_bytes += ahead;
    if (ahead > 0) {
        sbx_connection_enter(connection, SBX_CONNECTION_RECEIVING, SBX_RECEIVE_US);
    } else {
        sbx_connection_enter(connection, SBX_CONNECTION_IDLE, SBX_IDLE_US);
    }
}

/* Sends what is in the buffer. Reading is off meanwhile: a peer that has closed its own
 * direction gets its answer. */
static void send_buffer(struct sbx_connection *connection, int status,
                        struct evbuffer *buffer)
{
    struct sbx_http_call *call = &connection->call;
    struct evhttp_request *request = call->request;
    struct evbuffer *body = evhttp_request_get_input_buffer(request);
    struct sbx_service_http *service = connection->service;
    size_t length = buffer != NULL ? evbuffer_get_length(buffer) : 0;
    (void)evbuffer_drain(body, evbuffer_get_length(body));
    if (buffer != NULL) {
        sbx_answer_number(connection, "Content-Length", length);
    }
    connection->output_bytes = length;
    service->output_bytes += length;
    service->refused_total += status >= 400 ? 1 : 0;
    sbx_waiter_free(call->waiter);
    *call = (struct sbx_http_call){.request = NULL};
    evhttp_request_set_on_complete_cb(request, on_delivered, connection);
    sbx_connection_enter(connection, SBX_CONNECTION_ANSWERING, SBX_DELIVER_US);
    /* There is no body in an answer to HEAD. */
    bool wanted = evhttp_request_get_command(request) != EVHTTP_REQ_HEAD;
    evhttp_send_reply(request, status, phrase_of(status), wanted ? buffer : NULL);
    (void)bufferevent_disable(connection->stream, EV_READ);
}

static void free_data(const void *data, size_t length, void *context)
{
    (void)data;
    (void)length;
    free(context);
}

/* Takes the data, on failure too. */
static int add_data_take(struct evbuffer *buffer, char *data, size_t length)
{
    if (buffer == NULL ||
        evbuffer_add_reference(buffer, data, length, free_data, data) < 0) {
        free(data);
        return -ENOMEM;
    }
    return 0;
}

/* The same for an error that has to be told with next to no memory. */
static void send_constant(struct sbx_connection *connection, const char *text,
                          size_t length)
{
    struct evbuffer *buffer = evbuffer_new();
    if (buffer != NULL) {
        (void)evbuffer_add_reference(buffer, text, length, NULL, NULL);
    }
    sbx_answer_header(connection, "Content-Type", JSON);
    send_buffer(connection, HTTP_SERVUNAVAIL, buffer);
    if (buffer != NULL) {
        evbuffer_free(buffer);
    }
}

static void send_data_take(struct sbx_connection *connection, int status, char *data,
                           size_t length)
{
    /* A small one is sent in any case: it may say that something was started. */
    if (length > SBX_SMALL_MAX &&
        connection->service->output_bytes + length > SBX_OUTPUT_MAX) {
        free(data);
        send_constant(connection, busy_text, sizeof busy_text - 1);
        return;
    }
    struct evbuffer *buffer = evbuffer_new();
    if (add_data_take(buffer, data, length) < 0) {
        send_constant(connection, memory_text, sizeof memory_text - 1);
    } else {
        send_buffer(connection, status, buffer);
    }
    if (buffer != NULL) {
        evbuffer_free(buffer);
    }
}

void sbx_answer_text_take(struct sbx_connection *connection, int status, char *text,
                          const char *type)
{
    if (text == NULL) {
        send_constant(connection, memory_text, sizeof memory_text - 1);
        return;
    }
    sbx_answer_header(connection, "Content-Type", type != NULL ? type : JSON);
    send_data_take(connection, status, text, strlen(text));
}

void sbx_answer_copy(struct sbx_connection *connection, int status, const char *text,
                     size_t length)
{
    char *copy = strndup(text, length);
    sbx_answer_text_take(connection, status, copy, NULL);
}

void sbx_answer_bytes_take(struct sbx_connection *connection, char *data, size_t length)
{
    sbx_answer_header(connection, "Content-Type", "application/octet-stream");
    send_data_take(connection, HTTP_OK, data, length);
}

void sbx_answer_nothing(struct sbx_connection *connection)
{
    send_buffer(connection, HTTP_NOCONTENT, NULL);
}

void sbx_answer_error(struct sbx_connection *connection, int status, const char *code,
                      const char *message)
{
    sbx_answer_text_take(connection, status, sbx_view_error(code, message), NULL);
}

static const struct {
    int code;
    int status;
    const char *name;
} errors[] = {
    {EINVAL, 400, "bad_request"},  {EPERM, 403, "not_allowed"},
    {ENOENT, 404, "not_found"},    {EEXIST, 409, "conflict"},
    {ESRCH, 409, "settled"},       {EPIPE, 409, "stdin_closed"},
    {EDQUOT, 429, "capacity"},     {ENOSPC, 507, "no_space"},
    {ENOMEM, 503, "no_memory"},    {EAGAIN, 503, "busy"},
    {ETIMEDOUT, 503, "no_answer"}, {EMFILE, 503, "busy"},
    {ENFILE, 503, "busy"},         {ESHUTDOWN, 503, "shutting_down"},
};

void sbx_answer_errno(struct sbx_connection *connection, int code, const char *message)
{
    size_t i = 0;
    while (i < sizeof errors / sizeof errors[0] && errors[i].code != code) {
        i++;
    }
    bool known = i < sizeof errors / sizeof errors[0];
    bool told = message != NULL && message[0] != '\0';
    const struct sbx_errno_text text = sbx_errno_text(code);
    sbx_answer_error(connection, known ? errors[i].status : HTTP_INTERNAL,
                     known ? errors[i].name : "internal", told ? message : text.text);
}

void sbx_answer_of_id(struct sbx_connection *connection, int code, const char *what)
{
    char message[SBX_ERROR_MESSAGE_SIZE];
    (void)snprintf(message, sizeof message, "id '%s': %s", connection->call.id, what);
    sbx_answer_errno(connection, code, message);
}

void sbx_answer_refusal(struct sbx_connection *connection, int status)
{
    struct evbuffer *output = bufferevent_get_output(connection->stream);
    bool large = status == HTTP_ENTITYTOOLARGE;
    char *text = sbx_view_error(
        large ? "too_large" : "bad_request",
        large ? "the body is not of the form of HTTP, or larger than 2 MiB"
              : "this is no request of HTTP/1.1, or its head is larger than 16 KiB");
    if (text == NULL) {
        return; /* what evhttp has written then stays */
    }
    (void)evbuffer_drain(output, evbuffer_get_length(output));
    (void)evbuffer_add_printf(output,
                              "HTTP/1.1 %d %s\r\nContent-Type: " JSON
                              "\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s",
                              status, large ? "Request Entity Too Large" : "Bad Request",
                              strlen(text), text);
    free(text);
}
