/*
 * supervisor_options.c - the option table of sbxd, and what each option sets. As the
 * other tables (monitor/options.c) it is the only place that knows the names: help,
 * manual and completion follow it.
 */
#include "supervisor/supervisor_private.h"

#include "base/error.h"
#include "monitor/option_rules.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct row {
    int (*set)(struct sbx_supervisor_plan *plan, const struct row *row, const char *value,
               struct sbx_error *err);
    struct sbx_rule plain; /* kind and bounds of numbers */
    size_t field;          /* offset in struct sbx_supervisor_plan */
};

static int no_memory(const struct row *row, struct sbx_error *err)
{
    return sbx_error_set(err, ENOMEM, SBX_STAGE_OPTIONS, "option --%s: no memory",
                         row->plain.name);
}

static int set_number(struct sbx_supervisor_plan *plan, const struct row *row,
                      const char *value, struct sbx_error *err)
{
    uint64_t number = 0;
    int r = sbx_option_number(&row->plain, value, &number, err);
    if (r == 0) {
        memcpy((char *)plan + row->field, &number, sizeof number);
    }
    return r;
}

/* Absolute, since the service may change its directory, and its keepers have another. */
static int set_path(struct sbx_supervisor_plan *plan, const struct row *row,
                    const char *value, struct sbx_error *err)
{
    char quoted[SBX_QUOTE_SIZE];
    char *old = NULL;
    if (value[0] != '/') {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "option --%s: '%s' is no absolute path", row->plain.name,
                             sbx_option_quote(quoted, value));
    }
    char *copy = strdup(value);
    if (copy == NULL) {
        return no_memory(row, err);
    }
    memcpy(&old, (char *)plan + row->field, sizeof old);
    memcpy((char *)plan + row->field, &copy, sizeof copy);
    free(old);
    return 0;
}

static int set_flag(struct sbx_supervisor_plan *plan, const struct row *row,
                    const char *value, struct sbx_error *err)
{
    const bool yes = true;
    (void)value;
    (void)err;
    memcpy((char *)plan + row->field, &yes, sizeof yes);
    return 0;
}

static int add_uid(struct sbx_supervisor_plan *plan, const struct row *row,
                   const char *value, struct sbx_error *err)
{
    uint64_t uid = 0;
    int r = sbx_option_number(&row->plain, value, &uid, err);
    if (r < 0) {
        return r;
    }
    uid_t *allowed =
        reallocarray(plan->allowed, plan->allowed_count + 1, sizeof *allowed);
    if (allowed == NULL) {
        return no_memory(row, err);
    }
    plan->allowed = allowed;
    plan->allowed[plan->allowed_count++] = (uid_t)uid;
    return 0;
}

#define FIELD(member) .field = offsetof(struct sbx_supervisor_plan, member)
#define NUMBER(of, member, least, most, text)                                            \
    .set = set_number, FIELD(member), .plain.kind = &(of), .plain.minimum = (least),     \
    .plain.maximum = (most), .plain.bounds = (text)

/* clang-format off */
#define OPTIONS(ROW) \
    ROW("socket", 's', "PATH", "Service", \
        "socket to serve on (default $XDG_RUNTIME_DIR/sbx/sbxd.sock, for root " \
        "/run/sbx/sbxd.sock)", \
        .set = set_path, FIELD(socket_path)) \
    ROW("state", 'd', "DIR", "Service", \
        "state directory (default $XDG_STATE_HOME/sbx, for root /var/lib/sbx)", \
        .set = set_path, FIELD(state_path)) \
    ROW("allow-uid", 'u', "UID", "Service", \
        "serve that user too, beside root and our own; repeatable", \
        .set = add_uid, .plain.kind = &sbx_kind_count, .plain.maximum = UINT32_MAX - 1U, \
        .plain.bounds = "a user id") \
    ROW("max-executions", 'n', "N", "What requests can have", \
        "executions at one time, those included whose result is kept (default 256)", \
        NUMBER(sbx_kind_count, max_executions_count, 1, 100000, "1 to 100000")) \
    ROW("max-memory", 'm', "SIZE", "What requests can have", \
        "memory limit of each execution at most, and where none is asked for", \
        NUMBER(sbx_kind_size, max_memory_bytes, 1, SBX_NUMBER_MAX, "above 0")) \
    ROW("max-output", 0, "SIZE", "What requests can have", \
        "output_limit at most, kept of each stream (default 64M)", \
        NUMBER(sbx_kind_size, max_output_bytes, 1024, UINT64_C(1) << 40, "1K to 1T")) \
    ROW("max-events", 0, "N", "What requests can have", \
        "event_limit at most (default 65536)", \
        NUMBER(sbx_kind_count, max_events_count, 8, 1 << 24, "8 to 16777216")) \
    ROW("max-retention", 0, "DUR", "What requests can have", \
        "retention at most (default 7d)", \
        NUMBER(sbx_kind_duration, max_retention_us, 1, SBX_NUMBER_MAX, "above 0")) \
    ROW("retention", 0, "DUR", "What requests can have", \
        "how long results are kept where a request does not say (default 15m)", \
        NUMBER(sbx_kind_duration, retention_us, 1, SBX_NUMBER_MAX, "above 0")) \
    ROW("force-sandbox", 0, NULL, "What requests can have", \
        "confine every command as sbx-run does, asked for or not", \
        .set = set_flag, FIELD(force_sandbox))

#define AS_OPTION(name, letter, value, heading, help, ...) \
    {name, letter, value, heading, help},
#define AS_ROW(option, letter, value, heading, help, ...) \
    {.plain.name = (option), __VA_ARGS__},
/* clang-format on */

static const struct sbx_option options[] = {OPTIONS(AS_OPTION)};
static const struct row rows[] = {OPTIONS(AS_ROW)};

const struct sbx_option *sbx_supervisor_options(size_t *ret_count)
{
    *ret_count = SBX_LENGTH(options);
    return options;
}

int sbx_supervisor_set(struct sbx_supervisor *supervisor, const char *name,
                       const char *value, struct sbx_error *err)
{
    char quoted[SBX_QUOTE_SIZE];
    size_t index = 0;
    while (index < SBX_LENGTH(options) && strcmp(options[index].name, name) != 0) {
        index++;
    }
    if (index == SBX_LENGTH(options)) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS, "unknown option --%s",
                             sbx_option_quote(quoted, name));
    }
    if ((options[index].value == NULL) != (value == NULL)) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS, "option --%s: %s", name,
                             value != NULL ? "takes no value" : "needs a value");
    }
    return rows[index].set(&supervisor->plan, &rows[index], value, err);
}
