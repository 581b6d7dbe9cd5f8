/*
 * view_metrics.c - numbers about all executions: as JSON, and in the text format of
 * Prometheus (0.0.4). One table, so that none is in one of them alone.
 */
#include "supervisor/view_private.h"

#include <stddef.h>

struct row {
    const char *key;  /* in JSON */
    const char *name; /* in the other, with "sbx_" before it */
    const char *help;
    size_t field; /* offset in struct sbx_supervisor_stats */
    bool counter; /* else a gauge */
};

#define FIELD(member) #member, .field = offsetof(struct sbx_supervisor_stats, member)

static const struct row rows[] = {
    {FIELD(active_count), .name = "executions_active",
     .help = "Executions that are not settled."},
    {FIELD(retained_count), .name = "executions_retained",
     .help = "Settled executions whose result is kept."},
    {FIELD(waiters_count), .name = "waiters",
     .help = "Requests that wait for something."},
    {FIELD(started_total), .name = "executions_started_total",
     .help = "Executions that were started.", .counter = true},
    {FIELD(adopted_total), .name = "executions_adopted_total",
     .help = "Executions that were found running at the start.", .counter = true},
    {FIELD(evicted_total), .name = "executions_evicted_total",
     .help = "Settled executions that made room for new ones.", .counter = true},
    {FIELD(expired_total), .name = "executions_expired_total",
     .help = "Settled executions whose retention has ended.", .counter = true},
    {FIELD(refused_total), .name = "executions_refused_total",
     .help = "Requests that were refused at capacity.", .counter = true},
    {FIELD(conflicts_total), .name = "executions_conflicts_total",
     .help = "Requests for an id that another request has.", .counter = true},
};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define STATUS_COUNT LENGTH(((const struct sbx_supervisor_stats *)NULL)->finished_total)

static uint64_t value_of(const struct sbx_supervisor_stats *stats, const struct row *row)
{
    return *(const uint64_t *)((const char *)stats + row->field);
}

static json_t *finished_of(const struct sbx_supervisor_stats *stats)
{
    json_t *finished = json_object();
    for (size_t i = SBX_EXECUTION_RUNNING + 1; finished != NULL && i < STATUS_COUNT;
         i++) {
        if (!sbx_view_set_take(finished,
                               sbx_execution_status_name((enum sbx_execution_status)i),
                               json_integer((json_int_t)stats->finished_total[i]))) {
            json_decref(finished);
            return NULL;
        }
    }
    return finished;
}

char *sbx_view_stats(struct sbx_supervisor *supervisor)
{
    struct sbx_supervisor_stats stats = {0};
    sbx_supervisor_stats_get(supervisor, &stats);
    json_t *object = json_object();
    bool complete = object != NULL &&
                    sbx_view_set_take(object, "finished_total", finished_of(&stats));
    for (size_t i = 0; complete && i < LENGTH(rows); i++) {
        complete = sbx_view_set_take(
            object, rows[i].key, json_integer((json_int_t)value_of(&stats, &rows[i])));
    }
    if (!complete) {
        json_decref(object);
        return NULL;
    }
    return sbx_view_line_take(object);
}

char *sbx_view_metrics(struct sbx_supervisor *supervisor)
{
    struct sbx_supervisor_stats stats = {0};
    struct sbx_view_text text = {0};
    sbx_supervisor_stats_get(supervisor, &stats);
    for (size_t i = 0; i < LENGTH(rows); i++) {
        sbx_view_text_format(&text, "# HELP sbx_%s %s\n# TYPE sbx_%s %s\nsbx_%s %llu\n",
                             rows[i].name, rows[i].help, rows[i].name,
                             rows[i].counter ? "counter" : "gauge", rows[i].name,
                             (unsigned long long)value_of(&stats, &rows[i]));
    }
    sbx_view_text_format(&text,
                         "# HELP sbx_executions_finished_total Executions that ended, "
                         "by status.\n"
                         "# TYPE sbx_executions_finished_total counter\n");
    for (size_t i = SBX_EXECUTION_RUNNING + 1; i < STATUS_COUNT; i++) {
        sbx_view_text_format(&text, "sbx_executions_finished_total{status=\"%s\"} %llu\n",
                             sbx_execution_status_name((enum sbx_execution_status)i),
                             (unsigned long long)stats.finished_total[i]);
    }
    return sbx_view_text_take(&text);
}
