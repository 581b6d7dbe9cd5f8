/*
 * service_calls.c - calls that start, change and end executions, and those about all of
 * them. What was asked for by an order is answered when the keeper has taken it.
 */
#include "supervisor/service_private.h"

#include "base/clock.h"
#include "supervisor/view.h"

#include <errno.h>
#include <event2/http.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOCATION_SIZE (SBX_ID_SIZE + 32)

static void answer_snapshot(struct sbx_connection *connection, int status,
                            const struct sbx_execution *execution)
{
    sbx_answer_text_take(connection, status, sbx_view_snapshot(execution), NULL);
}

/* --- starting --- */

void sbx_call_start(struct sbx_connection *connection)
{
    struct sbx_error error = {.message = ""};
    struct sbx_execution *execution = NULL;
    char location[LOCATION_SIZE];
    size_t length = 0;
    const char *body = sbx_call_body(connection, &length);
    int r = sbx_supervisor_submit(connection->service->supervisor, &connection->peer,
                                  body, length, &execution, &error);
    if (r < 0) {
        sbx_answer_errno(connection, -r, error.message);
        return;
    }
    (void)snprintf(location, sizeof location, "/v1/executions/%s",
                   sbx_execution_facts(execution)->id);
    sbx_answer_header(connection, "Location", location);
    answer_snapshot(connection, r == 1 ? 201 : HTTP_OK, execution);
}

/* --- orders --- */

static void answer_order(struct sbx_connection *connection, int code)
{
    if (code == 0) {
        sbx_answer_nothing(connection);
    } else if (code == ECANCELED) {
        sbx_answer_of_id(connection, ENOENT, "the execution was removed");
    } else if (code == ESRCH) {
        sbx_answer_of_id(connection, ESRCH, "the execution is over");
    } else if (code == EAGAIN) {
        sbx_answer_of_id(connection, code, "the execution takes no order right now");
    } else if (code == ETIMEDOUT) {
        sbx_answer_of_id(connection, code,
                         "no answer: the execution may have taken the order, or not");
    } else {
        sbx_answer_errno(connection, code, NULL);
    }
}

static void send_order(struct sbx_connection *connection, struct sbx_execution *execution,
                       const struct sbx_control *order, sbx_resume *resume)
{
    struct sbx_waiter *waiter =
        sbx_execution_order(execution, order, sbx_call_on_done, connection);
    sbx_call_await(connection, waiter, resume,
                   sbx_clock_add(sbx_clock_us(), SBX_ORDER_US));
}

void sbx_call_signal(struct sbx_connection *connection)
{
    struct sbx_error error = {.message = ""};
    int number = 0;
    size_t length = 0;
    const char *body = sbx_call_body(connection, &length);
    struct sbx_execution *execution = sbx_call_find(connection);
    if (execution == NULL) {
        return;
    }
    int r = sbx_view_parse_signal(body, length, &number, &error);
    if (r < 0) {
        sbx_answer_errno(connection, -r, error.message);
        return;
    }
    const struct sbx_control order = {.kind = SBX_CONTROL_SIGNAL,
                                      .value = (uint64_t)number};
    send_order(connection, execution, &order, answer_order);
}

void sbx_call_pause(struct sbx_connection *connection)
{
    bool pauses = connection->call.resource == SBX_RESOURCE_PAUSE;
    const struct sbx_control order = {.kind = pauses ? SBX_CONTROL_PAUSE
                                                     : SBX_CONTROL_RESUME};
    struct sbx_execution *execution = sbx_call_find(connection);
    if (execution != NULL) {
        send_order(connection, execution, &order, answer_order);
    }
}

static void answer_stdin(struct sbx_connection *connection, int code)
{
    if (code == EAGAIN) {
        sbx_answer_error(connection, 429, "stdin_full",
                         "standard input has no room for that now; nothing was taken");
    } else if (code == EPIPE) {
        sbx_answer_of_id(connection, EPIPE, "standard input is not open");
    } else {
        answer_order(connection, code);
    }
}

void sbx_call_stdin(struct sbx_connection *connection)
{
    size_t length = 0;
    const char *body = sbx_call_body(connection, &length);
    struct sbx_execution *execution = sbx_call_find(connection);
    if (execution == NULL) {
        return;
    }
    if (length > SBX_STDIN_MAX) {
        sbx_answer_error(connection, HTTP_ENTITYTOOLARGE, "too_large",
                         "more than 1 MiB for standard input at once");
        return;
    }
    struct sbx_waiter *waiter =
        sbx_execution_write_stdin(execution, body, length, connection->call.query.close,
                                  sbx_call_on_done, connection);
    sbx_call_await(connection, waiter, answer_stdin,
                   sbx_clock_add(sbx_clock_us(), SBX_ORDER_US));
}

/* --- ending --- */

static bool is_settled(const struct sbx_execution *execution)
{
    return sbx_execution_status(execution) != SBX_EXECUTION_RUNNING;
}

static void answer_cancelled(struct sbx_connection *connection, int code)
{
    (void)code;
    const struct sbx_execution *execution = sbx_call_find(connection);
    if (execution != NULL) {
        bool over = connection->call.query.has_wait && is_settled(execution);
        answer_snapshot(connection, over ? HTTP_OK : 202, execution);
    }
}

static void wait_cancelled(struct sbx_connection *connection, int code)
{
    struct sbx_execution *execution = sbx_call_find(connection);
    if (execution == NULL) {
        return;
    }
    if (code != 0 && code != ESRCH) {
        answer_order(connection, code);
    } else if (connection->call.query.wait_us == 0 || is_settled(execution)) {
        answer_cancelled(connection, 0);
    } else {
        struct sbx_waiter *waiter =
            sbx_execution_wait_settled(execution, sbx_call_on_done, connection);
        sbx_call_await(connection, waiter, answer_cancelled, connection->call.until_us);
    }
}

void sbx_call_cancel(struct sbx_connection *connection)
{
    const struct sbx_control order = {.kind = SBX_CONTROL_CANCEL};
    struct sbx_execution *execution = sbx_call_find(connection);
    if (execution != NULL) {
        send_order(connection, execution, &order, wait_cancelled);
    }
}

/* Whatever has that id by then, the one that was to be removed is gone when its waiter
 * says so. */
static void answer_removed(struct sbx_connection *connection, int code)
{
    if (code != ETIMEDOUT) {
        sbx_answer_nothing(connection);
        return;
    }
    const struct sbx_execution *execution = sbx_call_find(connection);
    if (execution != NULL) {
        answer_snapshot(connection, 202, execution);
    }
}

void sbx_call_remove(struct sbx_connection *connection)
{
    struct sbx_execution *execution = sbx_call_find(connection);
    if (execution == NULL) {
        return;
    }
    int r = sbx_execution_remove(execution);
    if (r == 0) {
        sbx_answer_nothing(connection);
    } else if (r != -EINPROGRESS) {
        sbx_answer_errno(connection, -r, NULL);
    } else if (connection->call.query.wait_us == 0) {
        answer_removed(connection, ETIMEDOUT);
    } else {
        struct sbx_waiter *waiter =
            sbx_execution_wait_settled(execution, sbx_call_on_done, connection);
        sbx_call_await(connection, waiter, answer_removed, connection->call.until_us);
    }
}

/* --- the service --- */

void sbx_call_shutdown(struct sbx_connection *connection)
{
    static const char *const texts[] = {"{\"cancel\":false}\n", "{\"cancel\":true}\n"};
    struct sbx_error error = {.message = ""};
    bool cancel = false;
    size_t length = 0;
    const char *body = sbx_call_body(connection, &length);
    int r = sbx_view_parse_shutdown(body, length, &cancel, &error);
    if (r == 0 && !sbx_peer_is_trusted(&connection->peer)) {
        r = -EPERM;
        (void)snprintf(error.message, sizeof error.message,
                       "only root and the user of sbxd may end it");
    }
    if (r < 0) {
        sbx_answer_errno(connection, -r, error.message);
        return;
    }
    sbx_supervisor_shut_down(connection->service->supervisor, cancel);
    const char *text = texts[cancel ? 1 : 0];
    sbx_answer_copy(connection, 202, text, strlen(text));
}

void sbx_call_stats(struct sbx_connection *connection)
{
    sbx_answer_text_take(connection, HTTP_OK,
                         sbx_view_stats(connection->service->supervisor), NULL);
}

/* What the core knows, and then what is the service's own. */
void sbx_call_metrics(struct sbx_connection *connection)
{
    const struct sbx_service_http *service = connection->service;
    char *core = sbx_view_metrics(service->supervisor);
    char *text = NULL;
    int length =
        core == NULL
            ? -1
            : asprintf(&text,
                       "%s# HELP sbx_connections Clients that are connected.\n"
                       "# TYPE sbx_connections gauge\n"
                       "sbx_connections %zu\n"
                       "# HELP sbx_requests_total Requests of clients.\n"
                       "# TYPE sbx_requests_total counter\n"
                       "sbx_requests_total %llu\n"
                       "# HELP sbx_requests_failed_total Those answered with 400 or "
                       "above.\n"
                       "# TYPE sbx_requests_failed_total counter\n"
                       "sbx_requests_failed_total %llu\n",
                       core, service->connections_count,
                       (unsigned long long)service->requests_total,
                       (unsigned long long)service->refused_total);
    free(core);
    sbx_answer_text_take(connection, HTTP_OK, length < 0 ? NULL : text,
                         "text/plain; version=0.0.4");
}
