/*
 * view.h - executions as JSON: snapshots, lists, events, errors. Every text is one line
 * with its line feed and the caller's to free; NULL: no memory.
 *
 * Bytes of the command that are UTF-8 stand as text ("data"), cut at no character, all
 * others as base64 ("data_base64").
 */
#ifndef SBX_SUPERVISOR_VIEW_H
#define SBX_SUPERVISOR_VIEW_H

#include "supervisor/supervisor.h"

/* {"id", "status", "created_at", "finished_at", "latest_sequence", "report"}, and where
 * they are known "started_at", and of one that runs "paused" and "stdin_open". */
char *sbx_view_snapshot(const struct sbx_execution *execution);

/* {"executions": [snapshot ...]}, oldest first; without their reports, which would have
 * no bound: "outcome" stands for it. */
char *sbx_view_list(struct sbx_supervisor *supervisor, const struct sbx_peer *peer);

/* {"events", "latest_sequence", "expired", "first_sequence"}: those after `after`, as
 * many as fit into a bound (the next call goes on behind the last one); "expired": some
 * after `after` are not kept any more. *ret_count: how many. The report is inside of
 * `finished`, which is not shown before the execution is settled; "latest_sequence" is
 * that of the last event that may be shown. */
char *sbx_view_events(const struct sbx_execution *execution, uint64_t after,
                      size_t *ret_count);

/* {"error": {"code", "message"}} */
char *sbx_view_error(const char *code, const char *message);

/* Numbers of stats, and the same in the text format of Prometheus. */
char *sbx_view_stats(struct sbx_supervisor *supervisor);
char *sbx_view_metrics(struct sbx_supervisor *supervisor);

/* --- what comes with a call --- */

/* {"signal": "USR1"}: a name as on the command line, or a number. 0; -EINVAL. */
int sbx_view_parse_signal(const char *body, size_t length, int *ret_signal,
                          struct sbx_error *err);

/* {"cancel": bool}, or no body at all, which is false. 0; -EINVAL. */
int sbx_view_parse_shutdown(const char *body, size_t length, bool *ret_cancel,
                            struct sbx_error *err);

#endif
