/*
 * calls.c - the calls of <sbx/sbx.h> on executions, for a program that holds them itself:
 * the same as over HTTP, asked by the process itself.
 */
#include "supervisor/supervisor_private.h"

#include "base/error.h"
#include "supervisor/service.h"
#include "supervisor/stream.h"
#include "supervisor/view.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static struct sbx_peer own(void)
{
    return (struct sbx_peer){.uid = geteuid(), .gid = getegid()};
}

static int no_memory(struct sbx_error *err)
{
    return sbx_error_set(err, ENOMEM, SBX_STAGE_MONITOR, "no memory");
}

static int give(char *text, char **ret_text, struct sbx_error *err)
{
    if (text == NULL) {
        return no_memory(err);
    }
    *ret_text = text;
    return 0;
}

/* NULL: none, and *err says so. */
static struct sbx_execution *find(struct sbx_supervisor *supervisor, const char *id,
                                  struct sbx_error *err)
{
    const struct sbx_peer peer = own();
    struct sbx_execution *execution = sbx_supervisor_find(supervisor, id, &peer);
    if (execution == NULL) {
        (void)sbx_error_set(err, ENOENT, SBX_STAGE_CHECK,
                            "id '%.128s': there is no such execution", id);
    }
    return execution;
}

int sbx_supervisor_serve(struct sbx_supervisor *supervisor, struct sbx_error *err)
{
    struct sbx_service_http *service = NULL;
    int r = sbx_supervisor_open(supervisor, err);
    r = r < 0 ? r : sbx_supervisor_open_signals(supervisor, err);
    if (r == 0 && chdir("/") < 0) { /* ours is of no use to anybody */
        r = sbx_error_set(err, errno, SBX_STAGE_CHECK, "the directory /: %s",
                          sbx_errno_text(errno).text);
    }
    r = r < 0 ? r : sbx_service_open(supervisor, &service, err);
    if (r == 0) {
        r = sbx_loop_run(supervisor->loop);
        sbx_service_close(service);
    }
    return r;
}

int sbx_supervisor_start(struct sbx_supervisor *supervisor, const char *request,
                         size_t length, char **ret_snapshot, struct sbx_error *err)
{
    struct sbx_execution *execution = NULL;
    const struct sbx_peer peer = own();
    int started = sbx_supervisor_open(supervisor, err);
    if (started == 0) {
        started =
            sbx_supervisor_submit(supervisor, &peer, request, length, &execution, err);
    }
    if (started < 0) {
        return started;
    }
    int r = give(sbx_view_snapshot(execution), ret_snapshot, err);
    return r < 0 ? r : started;
}

int sbx_supervisor_show(struct sbx_supervisor *supervisor, const char *id,
                        char **ret_snapshot, struct sbx_error *err)
{
    const struct sbx_execution *execution = find(supervisor, id, err);
    return execution == NULL ? -ENOENT
                             : give(sbx_view_snapshot(execution), ret_snapshot, err);
}

int sbx_supervisor_list(struct sbx_supervisor *supervisor, char **ret_list,
                        struct sbx_error *err)
{
    const struct sbx_peer peer = own();
    return give(sbx_view_list(supervisor, &peer), ret_list, err);
}

int sbx_supervisor_events(struct sbx_supervisor *supervisor, const char *id,
                          uint64_t after, char **ret_events, struct sbx_error *err)
{
    size_t count = 0;
    const struct sbx_execution *execution = find(supervisor, id, err);
    return execution == NULL
               ? -ENOENT
               : give(sbx_view_events(execution, after, &count), ret_events, err);
}

int sbx_supervisor_output(struct sbx_supervisor *supervisor, const char *id,
                          const struct sbx_output_wish *wish,
                          struct sbx_output *ret_output, struct sbx_error *err)
{
    struct sbx_execution *execution = find(supervisor, id, err);
    struct sbx_stream_piece piece = {.length = 0};
    if (execution == NULL) {
        return -ENOENT;
    }
    if (wish->stream != 1 && wish->stream != 2) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_CHECK, "stream %d: is 1 or 2",
                             wish->stream);
    }
    int r = sbx_stream_read(sbx_execution_directory(execution),
                            wish->stream == 1 ? "stdout" : "stderr", wish->offset,
                            wish->buffer, wish->size, &piece);
    if (r < 0 && r != -ENOENT) { /* which means: not yet */
        return sbx_error_set(err, -r, SBX_STAGE_MONITOR, "output of '%s': %s",
                             execution->facts.id, sbx_errno_text(-r).text);
    }
    sbx_execution_taken(execution, wish->stream, wish->offset);
    /* A keeper that was killed has not said that it is the end. */
    bool is_over = piece.state.ended || execution->bond == SBX_BOND_SETTLED;
    *ret_output = (struct sbx_output){.offset = r == 0 ? piece.offset : wish->offset,
                                      .gap_bytes = piece.gap_bytes,
                                      .length = piece.length,
                                      .ended = is_over && piece.offset + piece.length >=
                                                              piece.state.total_bytes};
    return 0;
}

static void ignore(int code, void *context)
{
    (void)code;
    (void)context;
}

static int send_order(struct sbx_supervisor *supervisor, const char *id,
                      const struct sbx_control *order, struct sbx_error *err)
{
    struct sbx_execution *execution = find(supervisor, id, err);
    if (execution == NULL) {
        return -ENOENT;
    }
    if (execution->bond == SBX_BOND_SETTLED) {
        return sbx_error_set(err, ESRCH, SBX_STAGE_CHECK, "execution '%s' is over", id);
    }
    return sbx_execution_order(execution, order, ignore, NULL) == NULL ? no_memory(err)
                                                                       : 0;
}

int sbx_supervisor_cancel(struct sbx_supervisor *supervisor, const char *id,
                          struct sbx_error *err)
{
    const struct sbx_control order = {.kind = SBX_CONTROL_CANCEL};
    return send_order(supervisor, id, &order, err);
}

int sbx_supervisor_signal(struct sbx_supervisor *supervisor, const char *id,
                          int signal_number, struct sbx_error *err)
{
    const struct sbx_control order = {.kind = SBX_CONTROL_SIGNAL,
                                      .value = (uint64_t)signal_number};
    if (signal_number < 1 || signal_number > SIGRTMAX) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_CHECK, "signal %d", signal_number);
    }
    return send_order(supervisor, id, &order, err);
}

int sbx_supervisor_pause(struct sbx_supervisor *supervisor, const char *id,
                         struct sbx_error *err)
{
    const struct sbx_control order = {.kind = SBX_CONTROL_PAUSE};
    return send_order(supervisor, id, &order, err);
}

int sbx_supervisor_resume(struct sbx_supervisor *supervisor, const char *id,
                          struct sbx_error *err)
{
    const struct sbx_control order = {.kind = SBX_CONTROL_RESUME};
    return send_order(supervisor, id, &order, err);
}

int sbx_supervisor_write(struct sbx_supervisor *supervisor, const char *id,
                         const char *data, size_t length, struct sbx_error *err)
{
    struct sbx_page page = {.stdin_open = 0};
    struct sbx_execution *execution = find(supervisor, id, err);
    if (execution == NULL) {
        return -ENOENT;
    }
    if (length > SBX_STDIN_MAX) {
        return sbx_error_set(err, EMSGSIZE, SBX_STAGE_CHECK,
                             "more than is taken at once (1 MiB)");
    }
    (void)sbx_page_read(sbx_execution_directory(execution), &page);
    if (execution->bond == SBX_BOND_SETTLED || page.stdin_open == 0) {
        return sbx_error_set(err, EPIPE, SBX_STAGE_CHECK,
                             "standard input of '%s' is not open", id);
    }
    return sbx_execution_write_stdin(execution, data, data != NULL ? length : 0,
                                     data == NULL, ignore, NULL) == NULL
               ? no_memory(err)
               : 0;
}

int sbx_supervisor_remove(struct sbx_supervisor *supervisor, const char *id,
                          struct sbx_error *err)
{
    struct sbx_execution *execution = find(supervisor, id, err);
    return execution == NULL ? -ENOENT : sbx_execution_remove(execution);
}
