/*
 * supervisor.h - all executions of one state directory, for the service on top of it
 * (service.h): what <sbx/sbx.h> shows of it, and what only the service needs.
 *
 * One thread. Everything here returns at once but sbx_supervisor_step and
 * sbx_supervisor_serve; who waits for something leaves a waiter.
 */
#ifndef SBX_SUPERVISOR_SUPERVISOR_H
#define SBX_SUPERVISOR_SUPERVISOR_H

#include "supervisor/control.h"
#include "supervisor/place.h"
#include "supervisor/status.h"

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct sbx_loop;

/* What was set by option name (supervisor/supervisor_options.c). */
struct sbx_supervisor_plan {
    char *socket_path; /* NULL: the default of this user */
    char *state_path;
    uid_t *allowed; /* beside root and our own user; owned */
    size_t allowed_count;
    uint64_t max_executions_count; /* default 256 */
    uint64_t max_memory_bytes;     /* 0: none */
    uint64_t max_output_bytes;     /* bound of output_limit, default 64 MiB */
    uint64_t max_events_count;     /* bound of event_limit, default 65536 */
    uint64_t max_retention_us;     /* default 7 days */
    uint64_t retention_us;         /* default 15 min */
    bool force_sandbox;
};

const struct sbx_supervisor_plan *
sbx_supervisor_plan(const struct sbx_supervisor *supervisor);
struct sbx_loop *sbx_supervisor_loop(struct sbx_supervisor *supervisor);

/* Who asks: by credentials of the socket, or the process itself. */
struct sbx_peer {
    uid_t uid;
    gid_t gid;
};

/* Root, the user of this process: may do anything with any execution. */
bool sbx_peer_is_trusted(const struct sbx_peer *peer);

/* --- one execution, as sbxd knows it --- */

struct sbx_execution; /* borrowed; gone when it was removed: look it up again */

/* That one, if the peer may know of it: another allowed user sees its own alone. NULL. */
struct sbx_execution *sbx_supervisor_find(struct sbx_supervisor *supervisor,
                                          const char *id, const struct sbx_peer *peer);

/* Called for each, oldest first. False ends it. */
typedef bool sbx_execution_callback(struct sbx_execution *execution, void *context);
void sbx_supervisor_each(struct sbx_supervisor *supervisor, const struct sbx_peer *peer,
                         sbx_execution_callback *callback, void *context);

const struct sbx_facts *sbx_execution_facts(const struct sbx_execution *execution);
/* Its place: read there with stream.h, journal.h, and the file report.json. */
int sbx_execution_directory(const struct sbx_execution *execution);
enum sbx_execution_status sbx_execution_status(const struct sbx_execution *execution);
/* When it became settled, microseconds since the epoch; 0: it runs. */
uint64_t sbx_execution_finished_us(const struct sbx_execution *execution);

/* The report of a settled one, for the caller to free; NULL: there is none. */
char *sbx_execution_report(const struct sbx_execution *execution, size_t *ret_length);

/* --- what can be done --- */

/* 1: a new one was started; 0: there is one of that id and request already. Else:
 * -EINVAL, -EPERM (as sbx_request_parse), -EEXIST: the id is taken by another request,
 * -EDQUOT: at capacity, nothing is settled; -ENOSPC, -ENOMEM ... */
int sbx_supervisor_submit(struct sbx_supervisor *supervisor, const struct sbx_peer *peer,
                          const char *json, size_t length,
                          struct sbx_execution **ret_execution, struct sbx_error *err);

/* An order to the keeper. `done` is called once, later or at once, with 0 or an errno:
 * ESRCH: it is over; EPIPE: stdin is not open; EAGAIN: stdin has no room for that, or the
 * keeper for an order: it was not carried out; ETIMEDOUT: nobody knows whether it was. It
 * is not called after sbx_waiter_free. CANCEL is done when it is accepted. */
struct sbx_waiter;
typedef void sbx_done_callback(int code, void *context);
struct sbx_waiter *sbx_execution_order(struct sbx_execution *execution,
                                       const struct sbx_control *order,
                                       sbx_done_callback *done, void *context);

/* As an order of STDIN of any length up to SBX_STDIN_MAX (control.h): all of it or
 * nothing. */
struct sbx_waiter *sbx_execution_write_stdin(struct sbx_execution *execution,
                                             const char *data, size_t length, bool closes,
                                             sbx_done_callback *done, void *context);

/* `done` is called with 0 once something is behind the marks or it is settled (then also
 * when it is so already: later, never from within this call), with ECANCELED when it is
 * removed first. NULL: no memory. */
struct sbx_waiter *sbx_execution_wait_news(struct sbx_execution *execution,
                                           const struct sbx_control_marks *marks,
                                           sbx_done_callback *done, void *context);

/* The same for: settled. */
struct sbx_waiter *sbx_execution_wait_settled(struct sbx_execution *execution,
                                              sbx_done_callback *done, void *context);

/* Withdraws; `done` will not be called. NULL is allowed. A waiter is gone by itself when
 * `done` is called. */
void sbx_waiter_free(struct sbx_waiter *waiter);

/* A reader has taken this stream up to there: room for the command where it pauses. */
void sbx_execution_taken(struct sbx_execution *execution, int stream, uint64_t offset);

/* Forgets a settled one at once (0), or has it cancelled and forgotten once it is settled
 * (-EINPROGRESS). */
int sbx_execution_remove(struct sbx_execution *execution);

/* Ends sbx_supervisor_serve: with `cancel`, when all executions were cancelled and are
 * settled, or a minute has passed. No new ones are started from now on (-ESHUTDOWN). */
void sbx_supervisor_shut_down(struct sbx_supervisor *supervisor, bool cancel);

struct sbx_supervisor_stats {
    uint64_t active_count; /* not settled */
    uint64_t retained_count;
    uint64_t started_total;
    uint64_t adopted_total;
    uint64_t evicted_total; /* settled ones that made room */
    uint64_t expired_total; /* by their retention */
    uint64_t refused_total; /* at capacity */
    uint64_t conflicts_total;
    uint64_t finished_total[7]; /* by status */
    uint64_t waiters_count;
};
void sbx_supervisor_stats_get(const struct sbx_supervisor *supervisor,
                              struct sbx_supervisor_stats *ret_stats);

#endif
