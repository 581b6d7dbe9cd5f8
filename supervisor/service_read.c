/*
 * service_read.c - calls that read: the list, a snapshot, events and output; the last two
 * wait until there is something, if they are asked to.
 */
#include "supervisor/service_private.h"

#include "base/clock.h"
#include "supervisor/journal.h"
#include "supervisor/stream.h"
#include "supervisor/view.h"

#include <errno.h>
#include <event2/http.h>
#include <stdlib.h>

void sbx_call_list(struct sbx_connection *connection)
{
    char *list = sbx_view_list(connection->service->supervisor, &connection->peer);
    sbx_answer_text_take(connection, HTTP_OK, list, NULL);
}

void sbx_call_show(struct sbx_connection *connection)
{
    const struct sbx_execution *execution = sbx_call_find(connection);
    if (execution != NULL) {
        sbx_answer_text_take(connection, HTTP_OK, sbx_view_snapshot(execution), NULL);
    }
}

static bool is_settled(const struct sbx_execution *execution)
{
    return sbx_execution_status(execution) != SBX_EXECUTION_RUNNING;
}

/* Whether the call has to answer now, with nothing if need be. */
static bool must_answer(const struct sbx_connection *connection,
                        const struct sbx_execution *execution)
{
    return is_settled(execution) || sbx_clock_us() >= connection->call.until_us;
}

/* The one that a call has waited for; the id may be another's when it was removed. */
static struct sbx_execution *find_again(struct sbx_connection *connection, int code)
{
    if (code == ECANCELED) {
        sbx_answer_errno(connection, ENOENT, "the execution was removed");
        return NULL;
    }
    return sbx_call_find(connection);
}

/* --- events --- */

static void go_on_events(struct sbx_connection *connection, int code);

static void wait_for_events(struct sbx_connection *connection,
                            struct sbx_execution *execution, bool held)
{
    const struct sbx_control_marks marks = {.sequence = connection->call.query.after,
                                            .output = {UINT64_MAX, UINT64_MAX}};
    struct sbx_waiter *waiter =
        held ? sbx_execution_wait_settled(execution, sbx_call_on_done, connection)
             : sbx_execution_wait_news(execution, &marks, sbx_call_on_done, connection);
    sbx_call_await(connection, waiter, go_on_events, connection->call.until_us);
}

/* The last event is not shown before the execution is settled: with nothing else behind
 * `after`, that is what is to be waited for. */
static void go_on_events(struct sbx_connection *connection, int code)
{
    struct sbx_journal_state state = {0};
    size_t count = 0;
    uint64_t after = connection->call.query.after;
    struct sbx_execution *execution = find_again(connection, code);
    if (execution == NULL) {
        return;
    }
    bool must = code == ETIMEDOUT || must_answer(connection, execution);
    (void)sbx_journal_look(sbx_execution_directory(execution), "events", &state);
    bool something = state.latest_sequence > after;
    if (!must && !something) {
        wait_for_events(connection, execution, false);
        return;
    }
    char *events = sbx_view_events(execution, after, &count);
    if (must || count > 0 || events == NULL) {
        sbx_answer_text_take(connection, HTTP_OK, events, NULL);
        return;
    }
    free(events);
    wait_for_events(connection, execution, true);
}

void sbx_call_events(struct sbx_connection *connection)
{
    go_on_events(connection, 0);
}

/* --- output --- */

static void go_on_output(struct sbx_connection *connection, int code);

static void wait_for_output(struct sbx_connection *connection,
                            struct sbx_execution *execution, int index)
{
    struct sbx_control_marks marks = {.sequence = UINT64_MAX,
                                      .output = {UINT64_MAX, UINT64_MAX}};
    marks.output[index] = connection->call.query.offset;
    struct sbx_waiter *waiter =
        sbx_execution_wait_news(execution, &marks, sbx_call_on_done, connection);
    sbx_call_await(connection, waiter, go_on_output, connection->call.until_us);
}

static void answer_piece(struct sbx_connection *connection, char *data,
                         const struct sbx_stream_piece *piece, bool over)
{
    uint64_t next = piece->offset + piece->length;
    bool end = (piece->state.ended || over) && next >= piece->state.total_bytes;
    sbx_answer_number(connection, "X-Sbx-Offset", piece->offset);
    sbx_answer_number(connection, "X-Sbx-Next", next);
    sbx_answer_number(connection, "X-Sbx-Eof", end ? 1 : 0);
    sbx_answer_number(connection, "X-Sbx-Gap", piece->gap_bytes);
    sbx_answer_bytes_take(connection, data, piece->length);
}

/* As much as there is, so that a poll does not cost the largest piece. */
static size_t size_for(const struct sbx_stream_state *state, uint64_t offset)
{
    uint64_t rest = state->total_bytes > offset ? state->total_bytes - offset : 0;
    uint64_t most = rest < SBX_PIECE_MAX ? rest : SBX_PIECE_MAX;
    return most > 0 ? (size_t)most : 1;
}

static void answer_output(struct sbx_connection *connection,
                          struct sbx_execution *execution, const char *name,
                          const struct sbx_stream_state *state)
{
    uint64_t offset = connection->call.query.offset;
    size_t size = size_for(state, offset);
    struct sbx_stream_piece piece = {.offset = 0};
    bool over = is_settled(execution);
    char *data = malloc(size);
    int r = data == NULL ? -ENOMEM
                         : sbx_stream_read(sbx_execution_directory(execution), name,
                                           offset, data, size, &piece);
    if (r < 0 && r != -ENOENT) { /* which means: not yet, or never */
        free(data);
        sbx_answer_errno(connection, -r, NULL);
        return;
    }
    answer_piece(connection, data, &piece, over);
}

static void go_on_output(struct sbx_connection *connection, int code)
{
    int index = connection->call.resource == SBX_RESOURCE_STDERR ? 1 : 0;
    const char *name = index == 1 ? "stderr" : "stdout";
    uint64_t offset = connection->call.query.offset;
    struct sbx_stream_state state = {.total_bytes = 0};
    struct sbx_execution *execution = find_again(connection, code);
    if (execution == NULL) {
        return;
    }
    (void)sbx_stream_look(sbx_execution_directory(execution), name, &state);
    bool something = state.total_bytes > offset || state.ended;
    sbx_execution_taken(execution, index + 1,
                        offset < state.total_bytes ? offset : state.total_bytes);
    if (something || code == ETIMEDOUT || must_answer(connection, execution)) {
        answer_output(connection, execution, name, &state);
    } else {
        wait_for_output(connection, execution, index);
    }
}

void sbx_call_output(struct sbx_connection *connection)
{
    go_on_output(connection, 0);
}
