/*
 * report.c - a finished record as one line of JSON (see report.h; docs/report.md has the
 * meaning of each key).
 *
 * What is unknown is left out; nothing is worked out here. The record may have been cut
 * off in the middle of a change by a SIGKILL, so no string in it is trusted to end and no
 * count to fit its list. Never allocates.
 */
#include "monitor/report.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "monitor/json.h"

#include <stddef.h>
#include <string.h>

#define HOST_SIZE 256
#define ESCAPED_MAX 8 /* the longest spelling of one character */
#define PROSE_SIZE SBX_REPORT_PROSE_SIZE(SBX_ERROR_MESSAGE_SIZE)

size_t sbx_report_prose(char *buffer, size_t size, const char *message, size_t length)
{
    size_t used = 0;
    length = strnlen(message, length);
    for (;;) {
        const char *slash = memchr(message, '\\', length);
        size_t part = slash != NULL ? (size_t)(slash - message) : length;
        used += sbx_text_escape(buffer + used, size - used, message, part);
        /* With no more room than that, the part may have been cut: nothing goes behind.
         */
        if (slash == NULL || size - used <= ESCAPED_MAX) {
            break;
        }
        buffer[used++] = '\\';
        buffer[used] = '\0';
        message += part + 1;
        length -= part + 1;
    }
    return used;
}

static void put_known(struct sbx_json *json, const char *key, uint64_t value)
{
    if (value != SBX_UNKNOWN) {
        sbx_json_number(json, key, value);
    }
}

static void put_signal(struct sbx_json *json, const char *key, int signal_number)
{
    char name[SBX_SIGNAL_NAME_SIZE];
    if (signal_number > 0) {
        sbx_json_string(json, key, sbx_text_signal_name(signal_number, name));
    }
}

static void put_name(struct sbx_json *json, const char name[static SBX_PROC_NAME_SIZE])
{
    sbx_json_bytes(json, "name", name, strnlen(name, SBX_PROC_NAME_SIZE));
}

/* The word for a value; none for one that has none. */
static void put_word(struct sbx_json *json, const char *key, const char *const names[],
                     size_t count, size_t value)
{
    if (value < count && names[value] != NULL) {
        sbx_json_string(json, key, names[value]);
    }
}

static void put_prose(struct sbx_json *json, const char *key, const char *text,
                      size_t size)
{
    char spelled[PROSE_SIZE];
    (void)sbx_report_prose(spelled, sizeof spelled, text, size);
    sbx_json_string(json, key, spelled);
}

static void put_time(struct sbx_json *json, const char *key, uint64_t real_us)
{
    char text[SBX_CLOCK_TEXT_SIZE];
    if (real_us != 0 && real_us != SBX_UNKNOWN) {
        sbx_json_string(json, key, sbx_clock_text(real_us, text));
    }
}

/* Whole arguments, as many as fit into the share that the command has of the report. */
static void put_command(struct sbx_json *json, char *const argv[])
{
    if (argv == NULL) {
        return;
    }
    sbx_json_array(json, "command");
    size_t start = json->used;
    size_t count = 0;
    for (; argv[count] != NULL; count++) {
        struct sbx_json before = *json;
        sbx_json_bytes(json, NULL, argv[count], strlen(argv[count]));
        if (json->overflow || json->used - start > SBX_REPORT_COMMAND_SIZE) {
            *json = before;
            break;
        }
    }
    sbx_json_close(json);
    if (argv[count] == NULL) {
        return;
    }
    while (argv[count] != NULL) {
        count++;
    }
    sbx_json_number(json, "command_count", count);
}

static void put_identity(struct sbx_json *json, const struct sbx_spec *spec,
                         const struct sbx_record *record)
{
    sbx_json_string(json, "schema", SBX_REPORT_SCHEMA);
    size_t run_id = strnlen(record->run_id, sizeof record->run_id);
    if (run_id > 0) {
        sbx_json_bytes(json, "run_id", record->run_id, run_id);
    }
    put_command(json, spec->argv);
    if (record->leader_pid > 0) {
        sbx_json_number(json, "leader_pid", (uint64_t)record->leader_pid);
    }
    if (record->wrapper_pid > 0) {
        sbx_json_number(json, "wrapper_pid", (uint64_t)record->wrapper_pid);
    }
    char host[HOST_SIZE] = "";
    if (gethostname(host, sizeof host - 1) == 0 && host[0] != '\0') {
        sbx_json_bytes(json, "host", host, strlen(host));
    }
    put_time(json, "started_at", record->started_real_us);
    put_time(json, "finished_at", record->finished_real_us);
}

static void put_outcome(struct sbx_json *json, const struct sbx_record *record)
{
    sbx_json_string(json, "outcome", sbx_outcome_name(record->outcome));
    if (record->has_exit_code) {
        sbx_json_number(json, "exit_code", (uint64_t)(record->exit_code & 0xff));
    } else if (record->signal > 0) {
        put_signal(json, "signal", record->signal);
        sbx_json_bool(json, "core_dumped", record->core_dumped);
    }
    if (record->outcome == SBX_OUTCOME_CANCELLED) {
        put_signal(json, "cancel_signal", record->cancel_signal);
    }
    if (record->output_truncated != SBX_TRUNCATED_UNKNOWN) {
        sbx_json_bool(json, "output_truncated",
                      record->output_truncated == SBX_TRUNCATED_YES);
    }
}

static void put_culprit(struct sbx_json *json, const struct sbx_culprit *culprit)
{
    if (culprit->pid <= 0) {
        return;
    }
    sbx_json_object(json, "culprit");
    sbx_json_number(json, "pid", (uint64_t)culprit->pid);
    put_name(json, culprit->name);
    put_known(json, "value", culprit->value);
    sbx_json_close(json);
}

static void put_breach(struct sbx_json *json, const char *key,
                       const struct sbx_breach *breach)
{
    sbx_json_object(json, key);
    sbx_json_string(json, "reason", sbx_reason_name(breach->reason));
    if (breach->reason == SBX_REASON_CEILING && breach->ceiling >= 0 &&
        breach->ceiling < SBX_CEILING_COUNT) {
        sbx_json_string(json, "name", sbx_ceiling_kinds[breach->ceiling].name);
    }
    const char *unit = sbx_breach_unit(breach);
    if (unit != NULL &&
        (breach->limit != SBX_UNKNOWN || breach->observed != SBX_UNKNOWN)) {
        put_known(json, "limit", breach->limit);
        put_known(json, "observed", breach->observed);
        sbx_json_string(json, "unit", unit);
    }
    put_known(json, "at_us", breach->at_us);
    put_culprit(json, &breach->culprit);
    sbx_json_close(json);
}

ssize_t sbx_report_breach(const struct sbx_breach *breach, char *buffer, size_t size)
{
    struct sbx_json json;
    sbx_json_init(&json, buffer, size);
    put_breach(&json, NULL, breach);
    ssize_t length = sbx_json_finish(&json);
    if (length > 0) {
        buffer[--length] = '\0'; /* the line feed */
    }
    return length;
}

static const struct {
    const char *key;
    size_t offset;
} usage_numbers[] = {
    {"wall_us", offsetof(struct sbx_usage, wall_us)},
    {"cpu_us", offsetof(struct sbx_usage, cpu_us)},
    {"cpu_user_us", offsetof(struct sbx_usage, cpu_user_us)},
    {"cpu_system_us", offsetof(struct sbx_usage, cpu_system_us)},
    {"memory_peak_bytes", offsetof(struct sbx_usage, memory_peak_bytes)},
    {"memory_peak_at_us", offsetof(struct sbx_usage, memory_peak_at_us)},
    {"memory_anon_peak_bytes", offsetof(struct sbx_usage, memory_anon_peak_bytes)},
    {"swap_peak_bytes", offsetof(struct sbx_usage, swap_peak_bytes)},
    {"process_memory_peak_bytes", offsetof(struct sbx_usage, process_memory_peak_bytes)},
    {"processes_peak", offsetof(struct sbx_usage, processes_peak)},
    {"processes_total", offsetof(struct sbx_usage, processes_total)},
    {"threads_peak", offsetof(struct sbx_usage, threads_peak)},
    {"output_bytes", offsetof(struct sbx_usage, output_bytes)},
    {"oom_kills", offsetof(struct sbx_usage, oom_kills)},
    {"memory_pressure_us", offsetof(struct sbx_usage, memory_pressure_us)},
};

static void put_count_method(struct sbx_json *json, const char *key,
                             enum sbx_count_method method)
{
    static const char *const names[] = {
        [SBX_METHOD_CGROUP] = "cgroup2",
        [SBX_METHOD_RUSAGE] = "rusage",
        [SBX_METHOD_SAMPLED] = "sampled",
    };
    put_word(json, key, names, sizeof names / sizeof names[0], (size_t)method);
}

/* How a number was measured stands beside that number, never alone. */
static void put_usage_methods(struct sbx_json *json, const struct sbx_usage *usage)
{
    if (usage->cpu_us != SBX_UNKNOWN) {
        sbx_json_bool(json, "cpu_complete", usage->cpu_complete);
        put_count_method(json, "cpu_method", usage->cpu_method);
    }
    if (usage->memory_peak_bytes != SBX_UNKNOWN) {
        static const char *const names[] = {
            [SBX_MEMORY_CGROUP] = "cgroup2",
            [SBX_MEMORY_PSS] = "pss",
            [SBX_MEMORY_RSS] = "rss",
        };
        put_word(json, "memory_method", names, sizeof names / sizeof names[0],
                 (size_t)usage->memory_method);
    }
    if (usage->processes_peak != SBX_UNKNOWN || usage->processes_total != SBX_UNKNOWN) {
        put_count_method(json, "processes_method", usage->processes_method);
    }
}

static void put_usage(struct sbx_json *json, const struct sbx_usage *usage)
{
    struct sbx_json before = *json;
    sbx_json_object(json, "usage");
    size_t empty = json->used;
    for (size_t i = 0; i < sizeof usage_numbers / sizeof usage_numbers[0]; i++) {
        uint64_t value = 0;
        memcpy(&value, (const char *)usage + usage_numbers[i].offset, sizeof value);
        put_known(json, usage_numbers[i].key, value);
    }
    put_usage_methods(json, usage);
    if (json->used == empty && !json->overflow) {
        *json = before;
    } else {
        sbx_json_close(json);
    }
}

static void put_sampling(struct sbx_json *json, const struct sbx_record *record)
{
    const struct sbx_sampling *sampling = &record->sampling;
    if (record->leader_pid <= 0 && record->outcome != SBX_OUTCOME_OBSERVED) {
        return;
    }
    sbx_json_object(json, "sampling");
    put_known(json, "samples", sampling->samples);
    put_known(json, "interval_us", sampling->interval_us);
    put_known(json, "max_gap_us", sampling->max_gap_us);
    put_known(json, "monitor_cpu_us", sampling->monitor_cpu_us);
    sbx_json_close(json);
}

static void put_containment(struct sbx_json *json, const struct sbx_record *record)
{
    static const char *const trackings[] = {
        [SBX_TRACKING_SUBREAPER] = "subreaper",
        [SBX_TRACKING_REMEMBERED] = "remembered",
        [SBX_TRACKING_CGROUP] = "cgroup2",
        [SBX_TRACKING_NAMESPACE] = "pid-namespace",
    };
    static const char *const kills[] = {
        [SBX_KILL_SWEEP] = "sweep",
        [SBX_KILL_CGROUP] = "cgroup.kill",
        [SBX_KILL_NAMESPACE] = "namespace-init",
    };
    size_t tracking = (size_t)record->tracking;
    size_t left = strnlen(record->group_left, sizeof record->group_left);
    if (tracking >= sizeof trackings / sizeof trackings[0] ||
        trackings[tracking] == NULL) {
        return;
    }
    sbx_json_object(json, "containment");
    sbx_json_string(json, "tracking", trackings[tracking]);
    put_word(json, "kill", kills, sizeof kills / sizeof kills[0], (size_t)record->kill);
    /* Every descendant comes back to a subreaper, whatever it does. */
    sbx_json_string(json, "guarantee",
                    record->tracking == SBX_TRACKING_REMEMBERED ? "best-effort"
                                                                : "complete");
    if (left > 0) {
        sbx_json_bytes(json, "group_left", record->group_left, left);
    }
    sbx_json_close(json);
}

static uint64_t listed(uint64_t count, uint64_t cap)
{
    return count < cap ? count : cap;
}

static void put_strays(struct sbx_json *json, const struct sbx_termination *termination)
{
    sbx_json_array(json, "strays");
    for (uint64_t i = 0; i < listed(termination->strays_count, SBX_LIST_MAX); i++) {
        sbx_json_object(json, NULL);
        sbx_json_number(json, "pid", (uint64_t)termination->strays[i].pid);
        put_name(json, termination->strays[i].name);
        sbx_json_close(json);
    }
    sbx_json_close(json);
    sbx_json_number(json, "strays_count", termination->strays_count);
}

static void put_survivors(struct sbx_json *json,
                          const struct sbx_termination *termination)
{
    sbx_json_array(json, "survivors");
    for (uint64_t i = 0; i < listed(termination->survivors_count, SBX_LIST_MAX); i++) {
        const struct sbx_survivor *survivor = &termination->survivors[i];
        sbx_json_object(json, NULL);
        /* One that is only known to be there has neither pid nor name. */
        if (survivor->pid > 0) {
            sbx_json_number(json, "pid", (uint64_t)survivor->pid);
            put_name(json, survivor->name);
        }
        put_prose(json, "why", survivor->why, sizeof survivor->why);
        sbx_json_close(json);
    }
    sbx_json_close(json);
    sbx_json_number(json, "survivors_count", termination->survivors_count);
}

static const char *proof_name(enum sbx_proof proof)
{
    switch (proof) {
    case SBX_PROOF_NO_CHILDREN:
        return "no-children";
    case SBX_PROOF_GROUP_EMPTY:
        return "group-empty";
    case SBX_PROOF_NAMESPACE_GONE:
        return "namespace-gone";
    case SBX_PROOF_NONE:
        break;
    }
    return "none";
}

static void put_termination(struct sbx_json *json, const struct sbx_record *record)
{
    const struct sbx_termination *termination = &record->termination;
    /* A lost run may have had a leader that nobody had time to note; a group has none. */
    if (record->leader_pid <= 0 && record->outcome != SBX_OUTCOME_LOST &&
        record->outcome != SBX_OUTCOME_OBSERVED) {
        return;
    }
    sbx_json_object(json, "termination");
    put_signal(json, "signal", termination->signal);
    sbx_json_bool(json, "escalated", termination->escalated);
    put_known(json, "killed_count", termination->killed_count);
    put_strays(json, termination);
    put_survivors(json, termination);
    put_known(json, "duration_us", termination->duration_us);
    sbx_json_string(json, "proof", proof_name(termination->proof));
    sbx_json_close(json);
}

static void put_asked(struct sbx_json *json, const char *key, uint64_t value)
{
    if (value != 0) {
        sbx_json_number(json, key, value);
    }
}

static void put_limits(struct sbx_json *json, const struct sbx_limits *limits)
{
    sbx_json_object(json, "limits");
    put_asked(json, "wall_us", limits->wall_us);
    put_asked(json, "cpu_us", limits->cpu_us);
    put_asked(json, "memory_bytes", limits->memory_bytes);
    put_asked(json, "processes", limits->processes_count);
    put_asked(json, "threads", limits->threads_count);
    put_asked(json, "output_bytes", limits->output_bytes);
    put_asked(json, "idle_us", limits->idle_us);
    put_asked(json, "swap_bytes", limits->swap_bytes);
    put_asked(json, "cpu_quota_percent", limits->cpu_quota_percent);
    sbx_json_close(json);
}

/* Under the names of `limits`, so that the two can be compared. */
static void put_armed(struct sbx_json *json, const struct sbx_armed *armed)
{
    struct sbx_json before = *json;
    sbx_json_object(json, "armed");
    size_t empty = json->used;
    put_known(json, "memory_bytes", armed->memory_bytes);
    put_known(json, "swap_bytes", armed->swap_bytes);
    put_known(json, "threads", armed->threads_count);
    put_known(json, "cpu_quota_percent", armed->cpu_quota_percent);
    if (json->used == empty && !json->overflow) {
        *json = before;
    } else {
        sbx_json_close(json);
    }
}

/* Unlimited has no number, so that side of the ceiling is absent. */
static void put_ceilings(struct sbx_json *json, const struct sbx_ceiling *ceilings)
{
    sbx_json_object(json, "ceilings");
    for (size_t i = 0; i < SBX_CEILING_COUNT; i++) {
        if (!ceilings[i].asked) {
            continue;
        }
        sbx_json_object(json, sbx_ceiling_kinds[i].name);
        if (ceilings[i].soft != RLIM_INFINITY) {
            sbx_json_number(json, "soft", ceilings[i].soft);
        }
        if (ceilings[i].hard != RLIM_INFINITY) {
            sbx_json_number(json, "hard", ceilings[i].hard);
        }
        sbx_json_close(json);
    }
    sbx_json_close(json);
}

static void put_warnings(struct sbx_json *json, const struct sbx_record *record)
{
    sbx_json_array(json, "warnings");
    for (uint64_t i = 0; i < listed(record->warnings_count, SBX_WARNING_MAX); i++) {
        put_prose(json, NULL, record->warnings[i], SBX_WARNING_SIZE);
    }
    sbx_json_close(json);
    sbx_json_number(json, "warnings_count", record->warnings_count);
}

static void put_error(struct sbx_json *json, const struct sbx_error *error)
{
    if (error->code <= 0) {
        return;
    }
    sbx_json_object(json, "error");
    sbx_json_string(json, "stage", sbx_stage_name(error->stage));
    put_prose(json, "message", error->message, sizeof error->message);
    sbx_json_number(json, "errno", (uint64_t)error->code);
    const char *name = sbx_errno_name(error->code);
    if (name[0] == 'E') {
        sbx_json_string(json, "errno_name", name);
    }
    sbx_json_close(json);
}

ssize_t sbx_report_format(const struct sbx_spec *spec, const struct sbx_record *record,
                          char *buffer, size_t size)
{
    struct sbx_json json;
    sbx_json_init(&json, buffer, size);
    sbx_json_object(&json, NULL);
    put_identity(&json, spec, record);
    put_outcome(&json, record);
    if (record->outcome == SBX_OUTCOME_BREACH) {
        put_breach(&json, "breach", &record->breach);
    }
    put_usage(&json, &record->usage);
    put_sampling(&json, record);
    put_containment(&json, record);
    put_termination(&json, record);
    put_limits(&json, &spec->limits);
    put_armed(&json, &record->armed);
    put_ceilings(&json, spec->ceilings);
    put_warnings(&json, record);
    put_error(&json, &record->error);
    sbx_json_close(&json);
    return sbx_json_finish(&json);
}

ssize_t sbx_report_render(const struct sbx_spec *spec, const struct sbx_record *record,
                          char *json, char *other, const char **ret_text)
{
    ssize_t length = sbx_report_format(spec, record, json, SBX_REPORT_SIZE);
    *ret_text = json;
    if (length < 0 || spec->format == SBX_FORMAT_JSON) {
        return length;
    }
    *ret_text = other;
    return spec->format == SBX_FORMAT_KV
               ? sbx_render_kv(json, (size_t)length, other, SBX_RENDER_SIZE)
               : sbx_render_text(json, (size_t)length, other, SBX_RENDER_SIZE);
}
