/*
 * options.c - the option table, and what each option does to a specification.
 *
 * The table is the only place that knows the options' names: the command line, the help,
 * the manual, the shell completion and the README follow it, and a test compares them.
 */
#include "monitor/option_rules.h"

#include "base/error.h"
#include "monitor/attach.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

static const char *const strays_words[] = {
    [SBX_STRAYS_KILL] = "kill",
    [SBX_STRAYS_WAIT] = "wait",
    [SBX_STRAYS_KEEP] = "keep",
    NULL,
};
static const char *const backend_words[] = {
    [SBX_BACKEND_AUTO] = "auto",
    [SBX_BACKEND_PROC] = "proc",
    [SBX_BACKEND_CGROUP2] = "cgroup2",
    NULL,
};
static const char *const require_words[] = {
    [SBX_REQUIRE_COMPLETE] = "complete",
    [SBX_REQUIRE_CGROUP2] = "cgroup2",
    [SBX_REQUIRE_PID_NAMESPACE] = "pid-namespace",
    [SBX_REQUIRE_KERNEL_LIMITS] = "kernel-limits",
    NULL,
};
static const char *const format_words[] = {
    [SBX_FORMAT_JSON] = "json",
    [SBX_FORMAT_KV] = "kv",
    [SBX_FORMAT_TEXT] = "text",
    NULL,
};
static const char *const level_words[] = {
    [SBX_LOG_ERROR] = "error",
    [SBX_LOG_WARNING] = "warning",
    [SBX_LOG_INFO] = "info",
    [SBX_LOG_DEBUG] = "debug",
    NULL,
};
static const char *const form_words[] = {
    [SBX_LOG_KV] = "kv",
    [SBX_LOG_JSON] = "json",
    NULL,
};

#define FIELD(member) .field = offsetof(struct sbx_spec, member)
#define RANGE(low, high, words) .minimum = (low), .maximum = (high), .bounds = (words)
#define NUMBER(of_kind, member, ...)                                                     \
    .set = sbx_set_number, .kind = &(of_kind), FIELD(member), __VA_ARGS__
#define LIMIT(of_kind, member)                                                           \
    NUMBER(of_kind, member, RANGE(1, SBX_NUMBER_MAX, "above 0"))
#define WORD(member, list, text)                                                         \
    .set = sbx_set_word, .words = (list), .bounds = (text), FIELD(member)
#define FLAG(member) .set = sbx_set_flag, FIELD(member)
#define ANY RANGE(0, SBX_NUMBER_MAX, "0 or more")
#define SIGNALS "a name such as TERM, SIGTERM or RTMIN+2, or a number from 1 up"

/*
 * The table. A row: name, letter, argument, heading, help, rule. Rows of one heading are
 * neighbours; an option whose help says "repeatable" adds up, of any other the last one
 * wins.
 */
/* clang-format off */
#define OPTIONS(ROW) \
    ROW("wall", 'w', "DUR", "Limits of the tree", \
        "wall clock, from launch", \
        LIMIT(sbx_kind_duration, limits.wall_us)) \
    ROW("cpu", 'c', "DUR", "Limits of the tree", \
        "CPU time of all members together", \
        LIMIT(sbx_kind_duration, limits.cpu_us)) \
    ROW("memory", 'm', "SIZE", "Limits of the tree", \
        "memory and swap of all members together, shared pages counted once", \
        LIMIT(sbx_kind_size, limits.memory_bytes)) \
    ROW("processes", 'p', "N", "Limits of the tree", \
        "processes at one time", \
        LIMIT(sbx_kind_count, limits.processes_count)) \
    ROW("threads", 0, "N", "Limits of the tree", \
        "threads at one time, of all members together", \
        LIMIT(sbx_kind_count, limits.threads_count)) \
    ROW("warn", 0, "PERCENT", "Limits of the tree", \
        "warn once in the report when a limit is that near (default 90)", \
        NUMBER(sbx_kind_count, warn_percent, RANGE(1, 100, "1 to 100"))) \
    ROW("output", 'o', "SIZE", "Limits of the tree", \
        "bytes written to stdout and stderr, which then are pipes", \
        LIMIT(sbx_kind_size, limits.output_bytes)) \
    ROW("output-keep", 0, "SIZE", "Limits of the tree", \
        "no limit: pass on that many bytes of stdout and stderr, drop the rest", \
        LIMIT(sbx_kind_size, output_keep_bytes)) \
    ROW("idle", 0, "DUR", "Limits of the tree", \
        "time without any output and without any CPU time used", \
        LIMIT(sbx_kind_duration, limits.idle_us)) \
    ROW("swap", 0, "SIZE", "Limits of the tree", \
        "swap that --memory allows beside it (default none where the kernel holds it); " \
        "needs a cgroup", \
        LIMIT(sbx_kind_size, limits.swap_bytes)) \
    ROW("cpu-quota", 0, "PERCENT", "Limits of the tree", \
        "share of one processor, 200 is two of them; slows down, ends nothing; needs a " \
        "cgroup", \
        NUMBER(sbx_kind_count, limits.cpu_quota_percent, RANGE(1, 100000, "1 to 100000"))) \
    ROW("rlimit", 0, "NAME=VALUE", "Ceilings of each process", \
        "rlimit that the kernel holds, also NAME=SOFT:HARD; names as in prlimit(1); " \
        "repeatable", \
        .set = sbx_set_rlimit) \
    ROW("signal", 's', "SIG", "Ending", \
        "polite signal (default TERM)", \
        .set = sbx_set_signal, .bounds = SIGNALS) \
    ROW("grace", 'k', "DUR", "Ending", \
        "time from the polite signal to SIGKILL (default 2s); if given, breaches of " \
        "memory, processes and threads get it too", \
        .set = sbx_set_grace, .kind = &sbx_kind_duration, FIELD(grace_us), ANY) \
    ROW("linger", 0, "DUR", "Ending", \
        "time that strays may go on after the command's end (default 0)", \
        NUMBER(sbx_kind_duration, linger_us, ANY)) \
    ROW("strays", 0, "kill|wait|keep", "Ending", \
        "what is done about processes that outlive the command (default kill)", \
        WORD(strays, strays_words, "kill, wait, keep")) \
    ROW("backend", 0, "auto|cgroup2|proc", "Containment and sampling", \
        "how members are known: by a cgroup of their own, which auto does without where " \
        "there is none, or by /proc alone (default auto)", \
        WORD(backend, backend_words, "auto, cgroup2, proc")) \
    ROW("require", 0, "complete|cgroup2|pid-namespace|kernel-limits", \
        "Containment and sampling", \
        "refuse to run without: complete containment, a cgroup, --pid-namespace, memory " \
        "and threads held by the kernel; repeatable", \
        .set = sbx_set_require, .words = require_words, \
        .bounds = "complete, cgroup2, pid-namespace, kernel-limits") \
    ROW("interval", 0, "DUR", "Containment and sampling", \
        "longest time between two samples (default 250ms)", \
        NUMBER(sbx_kind_duration, interval_us, RANGE(1000, SBX_NUMBER_MAX, "at least 1ms"))) \
    ROW("cgroup-root", 0, "PATH", "Containment and sampling", \
        "make the cgroup of the run below this one", \
        .set = sbx_set_cgroup_root, .bounds = "the path of a cgroup v2 group") \
    ROW("pid-namespace", 0, NULL, "Containment and sampling", \
        "run it in a PID namespace and with a /proc of its own: all in it ends with our " \
        "init", \
        FLAG(pid_namespace)) \
    ROW("report", 'r', "FILE", "Report and messages", \
        "write the report to FILE, - is stderr", \
        .set = sbx_set_report, .bounds = "a path, or - for stderr") \
    ROW("quiet", 'q', NULL, "Report and messages", \
        "no line on stderr about breach, strays or survivors", \
        FLAG(quiet)) \
    ROW("report-fd", 0, "N", "Report and messages", \
        "write the report to this open descriptor, also beside --report", \
        .set = sbx_set_report_fd, .kind = &sbx_kind_count, RANGE(1, INT_MAX, "above 0")) \
    ROW("format", 0, "json|kv|text", "Report and messages", \
        "form of the report: one line of JSON, key=value lines, or text for people " \
        "(default json)", \
        WORD(format, format_words, "json, kv, text")) \
    ROW("log", 0, "SINK", "Report and messages", \
        "a line for a breach, each warning and the end of the run, to stderr, file:PATH, " \
        "syslog or journal; repeatable", \
        .set = sbx_set_log, .bounds = "stderr, file:PATH, syslog, journal") \
    ROW("log-level", 0, "LEVEL", "Report and messages", \
        "how much --log tells: error, warning, info, debug (default info)", \
        WORD(log.level, level_words, "error, warning, info, debug")) \
    ROW("log-format", 0, "kv|json", "Report and messages", \
        "lines as key=value or as JSON objects (default kv)", \
        WORD(log.form, form_words, "kv, json")) \
    ROW("verbose", 'v', NULL, "Report and messages", \
        "log level debug, to stderr unless --log is given", \
        FLAG(log.verbose)) \
    ROW("timeline", 0, "FILE", "Report and messages", \
        "write every sample to FILE as a row, CSV, or JSON lines for .jsonl", \
        .set = sbx_set_timeline) \
    ROW("keep-fd", 0, "N", "How the command starts", \
        "descriptor above 2 that the command keeps; repeatable", \
        .set = sbx_set_keep_fd, .kind = &sbx_kind_count, RANGE(3, INT_MAX, "above 2")) \
    ROW("die-with-parent", 0, NULL, "How the command starts", \
        "end the run when the caller of sbx-watch ends", \
        FLAG(die_with_parent)) \
    ROW("chdir", 0, "DIR", "How the command starts", \
        "working directory", \
        .set = sbx_set_chdir, .bounds = "a directory") \
    ROW("env", 0, "NAME[=VALUE]", "How the command starts", \
        "variable of its environment; NAME alone takes the caller's, whose value stays " \
        "private; repeatable", \
        .set = sbx_set_env) \
    ROW("env-from", 0, "FILE", "How the command starts", \
        "variables from lines NAME=VALUE, or as in /proc/PID/environ; repeatable", \
        .set = sbx_set_env_from) \
    ROW("clear-env", 0, NULL, "How the command starts", \
        "start with an empty environment, to which --env and --env-from add", \
        FLAG(environment.clear)) \
    ROW("user", 0, "UID[:GID]", "How the command starts", \
        "run as that user and group, without supplementary groups (needs root)", \
        .set = sbx_set_user) \
    ROW("cpus", 0, "LIST", "How the command starts", \
        "run on these processors only, such as 0-3,5", \
        .set = sbx_set_cpus) \
    ROW("umask", 0, "MODE", "How the command starts", \
        "file mode creation mask, octal", \
        .set = sbx_set_umask) \
    ROW("new-session", 0, NULL, "How the command starts", \
        "run in a session of its own, without the terminal", \
        FLAG(start.new_session)) \
    ROW("no-new-privs", 0, NULL, "How the command starts", \
        "no gain of privileges by setuid or setgid programs", \
        FLAG(start.no_new_privs)) \
    ROW("detach", 0, NULL, "How the command starts", \
        "exit 0 when the command runs, and name the run on stdout; it goes on in a " \
        "session of its own; needs --report FILE", \
        FLAG(detach)) \
    ROW("stdin", 0, "FILE|null|inherit", "How the command starts", \
        "standard input from FILE, or from nothing (default inherit)", \
        .set = sbx_set_stdin, .bounds = "a path, null, inherit") \
    ROW("stdout", 0, "FILE", "How the command starts", \
        "standard output to FILE, which is emptied first", \
        .set = sbx_set_stdout, .bounds = "a path") \
    ROW("stderr", 0, "FILE", "How the command starts", \
        "standard error to FILE, which is emptied first", \
        .set = sbx_set_stderr, .bounds = "a path") \
    ROW("preserve-status", 0, NULL, "Exit status", \
        "after a breach, exit as the command did", \
        FLAG(preserve_status)) \
    ROW("breach-status", 0, "N", "Exit status", \
        "exit status of a breach (default 124)", \
        .set = sbx_set_int, FIELD(breach_status), .kind = &sbx_kind_count, RANGE(1, 255, "1 to 255")) \
    ROW("pid", 0, "PID", "Attaching", \
        "attach to a running process and all that descends from it, instead of running " \
        "a command", \
        .set = sbx_set_int, FIELD(attach.pid), .kind = &sbx_kind_count, RANGE(1, INT_MAX, "a pid")) \
    ROW("enforce", 0, NULL, "Attaching", \
        "with --pid: hold limits and ceilings, end the tree; without, it is only " \
        "observed", \
        FLAG(attach.enforce)) \
    ROW("cgroup", 0, "PATH", "Attaching", \
        "observe a cgroup v2 group (of a service, a scope, a container) until nobody is " \
        "in it, instead of running a command", \
        .set = sbx_set_cgroup, .bounds = "a directory of cgroup2, or a group below its mount")

#define AS_OPTION(name, letter, value, heading, help, ...) \
    {name, letter, value, heading, help},
#define AS_RULE(option, letter, value, heading, help, ...) \
    {.name = (option), __VA_ARGS__},
/* clang-format on */

static const struct sbx_option options[] = {OPTIONS(AS_OPTION)};
static const struct sbx_rule rules[] = {OPTIONS(AS_RULE)};

const struct sbx_option *sbx_options(size_t *ret_count)
{
    *ret_count = SBX_LENGTH(options);
    return options;
}

int sbx_spec_set(struct sbx_spec *spec, const char *name, const char *value,
                 struct sbx_error *err)
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
    const struct sbx_option *option = &options[index];
    if (option->value == NULL && value != NULL) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "option --%s: takes no value, '%s' given", option->name,
                             sbx_option_quote(quoted, value));
    }
    if (option->value != NULL && value == NULL) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "option --%s: needs a value (%s)", option->name,
                             option->value);
    }
    struct sbx_setting *setting = sbx_setting_new(option->name, value);
    if (setting == NULL) {
        return sbx_error_set(err, ENOMEM, SBX_STAGE_OPTIONS, "option --%s: no memory",
                             option->name);
    }
    int result = rules[index].set(spec, &rules[index], value, err);
    if (result < 0) {
        sbx_setting_free(setting);
    } else {
        sbx_settings_add(&spec->settings, setting);
        sbx_attach_note(spec, option);
    }
    return result;
}
