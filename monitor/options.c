/*
 * options.c - the option table, and what each option does to a specification.
 *
 * The table at the end of this file is the only place that knows the options' names: the
 * command line, the help, the manual and the README follow it, and a test compares them.
 * Values are strict (base/text.h): one that does not parse, or lies outside the bounds
 * named in its row, leaves the specification as it was. Numbers end at 2^63-1, the
 * largest integer that every reader of a JSON report can hold.
 *
 * Opens nothing but the directory that a relative report path starts at.
 */
#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "monitor/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define NUMBER_MAX ((uint64_t)INT64_MAX)

/* What the user wrote, as it stands in a message: escaped, cut. */
#define QUOTE_SIZE 96

/* A kind of number. */
struct kind {
    const char *noun; /* "'5x' is not a duration" */
    const char *form; /* the accepted one */
    int (*parse)(const char *text, uint64_t *ret_value);
};

static const struct kind duration = {
    .noun = "a duration",
    .form = "digits with an optional fraction and one of us ms s m h d, at most to the "
            "microsecond; a bare number is seconds",
    .parse = sbx_text_duration,
};

static const struct kind size = {
    .noun = "a size",
    .form = "digits with an optional fraction and one of K M G T (1024, also KiB) or KB "
            "MB GB TB (1000); a bare number is bytes",
    .parse = sbx_text_size,
};

static const struct kind count = {
    .noun = "a number",
    .form = "digits only",
    .parse = sbx_text_count,
};

struct rule;

/* Sets one option whose argument is present exactly where the table asks for one. */
typedef int set_function(struct sbx_spec *spec, const struct rule *rule,
                         const char *value, struct sbx_error *err);

/* How a row of the table is carried out. */
struct rule {
    set_function *set;
    const char *name;        /* of the option, for messages */
    size_t field;            /* offset in struct sbx_spec, for set_number and set_flag */
    const struct kind *kind; /* of numbers, with their bounds in figures and words */
    uint64_t minimum;
    uint64_t maximum;
    const char *bounds;
};

static const char *quote(char buffer[static QUOTE_SIZE], const char *text)
{
    static const char more[] = "...";
    size_t length = strnlen(text, QUOTE_SIZE);
    size_t room = QUOTE_SIZE - (sizeof more - 1);
    size_t used = sbx_text_escape(buffer, room, text, length);
    /* Cut, if the text in full would have given more than what was written. */
    char full[4 * QUOTE_SIZE + 1];
    if (sbx_text_escape(full, sizeof full, text, length) > used) {
        memcpy(buffer + used, more, sizeof more);
    }
    return buffer;
}

static int parse_number(const struct rule *rule, const char *value, uint64_t *ret_number,
                        struct sbx_error *err)
{
    char quoted[QUOTE_SIZE];
    uint64_t number = 0;
    int result = rule->kind->parse(value, &number);
    if (result == -EINVAL) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "option --%s: '%s' is not %s (accepted: %s; %s)", rule->name,
                             quote(quoted, value), rule->kind->noun, rule->kind->form,
                             rule->bounds);
    }
    if (result < 0 || number < rule->minimum || number > rule->maximum) {
        return sbx_error_set(err, ERANGE, SBX_STAGE_OPTIONS,
                             "option --%s: '%s' is out of range (accepted: %s; %s)",
                             rule->name, quote(quoted, value), rule->kind->form,
                             rule->bounds);
    }
    *ret_number = number;
    return 0;
}

/* Index of value in words, or -EINVAL. */
static int find_word(const struct rule *rule, const char *value,
                     const char *const words[], struct sbx_error *err)
{
    char quoted[QUOTE_SIZE];
    for (int i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], value) == 0) {
            return i;
        }
    }
    return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                         "option --%s: '%s' is unknown (accepted: %s)", rule->name,
                         quote(quoted, value), rule->bounds);
}

static int set_number(struct sbx_spec *spec, const struct rule *rule, const char *value,
                      struct sbx_error *err)
{
    uint64_t number = 0;
    int result = parse_number(rule, value, &number, err);
    if (result == 0) {
        memcpy((char *)spec + rule->field, &number, sizeof number);
    }
    return result;
}

static int set_flag(struct sbx_spec *spec, const struct rule *rule, const char *value,
                    struct sbx_error *err)
{
    (void)value;
    (void)err;
    const bool yes = true;
    memcpy((char *)spec + rule->field, &yes, sizeof yes);
    return 0;
}

static int set_grace(struct sbx_spec *spec, const struct rule *rule, const char *value,
                     struct sbx_error *err)
{
    int result = set_number(spec, rule, value, err);
    if (result == 0) {
        spec->grace_asked = true;
    }
    return result;
}

static int set_breach_status(struct sbx_spec *spec, const struct rule *rule,
                             const char *value, struct sbx_error *err)
{
    uint64_t number = 0;
    int result = parse_number(rule, value, &number, err);
    if (result == 0) {
        spec->breach_status = (int)number;
    }
    return result;
}

static int set_rlimit(struct sbx_spec *spec, const struct rule *rule, const char *value,
                      struct sbx_error *err)
{
    int result = sbx_ceiling_parse(value, spec->ceilings, err);
    if (result < 0) {
        sbx_error_prefix(err, "option --%s", rule->name);
    }
    return result;
}

static int set_signal(struct sbx_spec *spec, const struct rule *rule, const char *value,
                      struct sbx_error *err)
{
    char quoted[QUOTE_SIZE];
    int number = 0;
    int result = sbx_text_signal(value, &number);
    if (result < 0) {
        return sbx_error_set(err, -result, SBX_STAGE_OPTIONS,
                             "option --%s: '%s' is not a signal (accepted: %s)",
                             rule->name, quote(quoted, value), rule->bounds);
    }
    if (number == SIGSTOP || number == SIGTSTP || number == SIGTTIN ||
        number == SIGTTOU) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "option --%s: '%s' would stop the processes instead of "
                             "asking them to end (accepted: any other signal)",
                             rule->name, quote(quoted, value));
    }
    spec->signal = number;
    return 0;
}

static int set_strays(struct sbx_spec *spec, const struct rule *rule, const char *value,
                      struct sbx_error *err)
{
    static const char *const words[] = {
        [SBX_STRAYS_KILL] = "kill",
        [SBX_STRAYS_WAIT] = "wait",
        [SBX_STRAYS_KEEP] = "keep",
        NULL,
    };
    int word = find_word(rule, value, words, err);
    if (word < 0) {
        return word;
    }
    spec->strays = (enum sbx_strays)word;
    return 0;
}

static int set_backend(struct sbx_spec *spec, const struct rule *rule, const char *value,
                       struct sbx_error *err)
{
    static const char *const words[] = {
        [SBX_BACKEND_AUTO] = "auto",
        [SBX_BACKEND_PROC] = "proc",
        NULL,
    };
    int word = find_word(rule, value, words, err);
    if (word < 0) {
        return word;
    }
    spec->backend = (enum sbx_backend)word;
    return 0;
}

static int set_require(struct sbx_spec *spec, const struct rule *rule, const char *value,
                       struct sbx_error *err)
{
    static const char *const words[] = {"complete", NULL};
    int word = find_word(rule, value, words, err);
    if (word < 0) {
        return word;
    }
    spec->require_complete = true;
    return 0;
}

/* The working directory as a descriptor: a relative path keeps its meaning when the
 * directory is changed or renamed later. Above 2, so that it never stands in for a closed
 * standard stream. */
static int hold_directory(void)
{
    SBX_AUTO_CLOSE int fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    if (fd > 2) {
        return sbx_fd_steal(&fd);
    }
    int above = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return above < 0 ? -errno : above;
}

static int set_report(struct sbx_spec *spec, const struct rule *rule, const char *value,
                      struct sbx_error *err)
{
    if (*value == '\0') {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "option --%s: '' is not a file (accepted: a path, or - for "
                             "stderr)",
                             rule->name);
    }
    SBX_AUTO_CLOSE int directory = -1;
    if (*value != '/' && strcmp(value, "-") != 0) {
        directory = hold_directory();
        if (directory < 0) {
            return sbx_error_set(err, -directory, SBX_STAGE_OPTIONS,
                                 "option --%s: working directory: %s; give an absolute "
                                 "path",
                                 rule->name, strerror(-directory));
        }
    }
    char *path = strdup(value);
    if (path == NULL) {
        return sbx_error_set(err, ENOMEM, SBX_STAGE_OPTIONS, "option --%s: no memory",
                             rule->name);
    }
    free(spec->report_path);
    sbx_fd_drop(&spec->report_directory_fd);
    spec->report_path = path;
    spec->report_directory_fd = sbx_fd_steal(&directory);
    return 0;
}

static int set_keep_fd(struct sbx_spec *spec, const struct rule *rule, const char *value,
                       struct sbx_error *err)
{
    uint64_t number = 0;
    int result = parse_number(rule, value, &number, err);
    if (result < 0) {
        return result;
    }
    int fd = (int)number;
    /* Our own descriptor may have landed on a number that the caller believes to be its
     * own. */
    if (fcntl(fd, F_GETFD) < 0 || fd == spec->report_directory_fd) {
        return sbx_error_set(err, EBADF, SBX_STAGE_OPTIONS,
                             "option --%s: descriptor %d is not open", rule->name, fd);
    }
    for (size_t i = 0; i < spec->keep_fd_count; i++) {
        if (spec->keep_fds[i] == fd) {
            return 0;
        }
    }
    if (spec->keep_fd_count == LENGTH(spec->keep_fds)) {
        return sbx_error_set(err, ERANGE, SBX_STAGE_OPTIONS,
                             "option --%s: descriptor %d is one too many (accepted: %zu)",
                             rule->name, fd, LENGTH(spec->keep_fds));
    }
    spec->keep_fds[spec->keep_fd_count++] = fd;
    return 0;
}

#define FIELD(member) .field = offsetof(struct sbx_spec, member)
#define RANGE(low, high, words) .minimum = (low), .maximum = (high), .bounds = (words)
#define NUMBER(of_kind, member, ...)                                                     \
    .set = set_number, .kind = &(of_kind), FIELD(member), __VA_ARGS__
#define LIMIT(of_kind, member) NUMBER(of_kind, member, RANGE(1, NUMBER_MAX, "above 0"))
#define FLAG(member) .set = set_flag, FIELD(member)
#define ANY RANGE(0, NUMBER_MAX, "0 or more")
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
        LIMIT(duration, limits.wall_us)) \
    ROW("cpu", 'c', "DUR", "Limits of the tree", \
        "CPU time of all members together", \
        LIMIT(duration, limits.cpu_us)) \
    ROW("memory", 'm', "SIZE", "Limits of the tree", \
        "memory and swap of all members together, shared pages counted once", \
        LIMIT(size, limits.memory_bytes)) \
    ROW("processes", 'p', "N", "Limits of the tree", \
        "processes at one time", \
        LIMIT(count, limits.processes_count)) \
    ROW("threads", 0, "N", "Limits of the tree", \
        "threads at one time, of all members together", \
        LIMIT(count, limits.threads_count)) \
    ROW("warn", 0, "PERCENT", "Limits of the tree", \
        "warn once in the report when a limit is that near (default 90)", \
        NUMBER(count, warn_percent, RANGE(1, 100, "1 to 100"))) \
    ROW("rlimit", 0, "NAME=VALUE", "Ceilings of each process", \
        "rlimit that the kernel holds, also NAME=SOFT:HARD; names as in prlimit(1); " \
        "repeatable", \
        .set = set_rlimit) \
    ROW("signal", 's', "SIG", "Ending", \
        "polite signal (default TERM)", \
        .set = set_signal, .bounds = SIGNALS) \
    ROW("grace", 'k', "DUR", "Ending", \
        "time from the polite signal to SIGKILL (default 2s); if given, breaches of " \
        "memory, processes and threads get it too", \
        .set = set_grace, .kind = &duration, FIELD(grace_us), ANY) \
    ROW("linger", 0, "DUR", "Ending", \
        "time that strays may go on after the command's end (default 0)", \
        NUMBER(duration, linger_us, ANY)) \
    ROW("strays", 0, "kill|wait|keep", "Ending", \
        "what is done about processes that outlive the command (default kill)", \
        .set = set_strays, .bounds = "kill, wait, keep") \
    ROW("backend", 0, "auto|proc", "Containment and sampling", \
        "how members are known (default auto)", \
        .set = set_backend, .bounds = "auto, proc") \
    ROW("require", 0, "complete", "Containment and sampling", \
        "refuse to run where containment would be best effort only", \
        .set = set_require, .bounds = "complete") \
    ROW("interval", 0, "DUR", "Containment and sampling", \
        "longest time between two samples (default 250ms)", \
        NUMBER(duration, interval_us, RANGE(1000, NUMBER_MAX, "at least 1ms"))) \
    ROW("report", 'r', "FILE", "Report and messages", \
        "write the JSON report to FILE, - is stderr", \
        .set = set_report) \
    ROW("quiet", 'q', NULL, "Report and messages", \
        "no line on stderr about breach, strays or survivors", \
        FLAG(quiet)) \
    ROW("keep-fd", 0, "N", "How the command starts", \
        "descriptor above 2 that the command keeps; repeatable", \
        .set = set_keep_fd, .kind = &count, RANGE(3, INT_MAX, "above 2")) \
    ROW("die-with-parent", 0, NULL, "How the command starts", \
        "end the run when the caller of sbx-watch ends", \
        FLAG(die_with_parent)) \
    ROW("preserve-status", 0, NULL, "Exit status", \
        "after a breach, exit as the command did", \
        FLAG(preserve_status)) \
    ROW("breach-status", 0, "N", "Exit status", \
        "exit status of a breach (default 124)", \
        .set = set_breach_status, .kind = &count, RANGE(1, 255, "1 to 255"))

#define AS_OPTION(name, letter, value, heading, help, ...) \
    {name, letter, value, heading, help},
#define AS_RULE(option, letter, value, heading, help, ...) \
    {.name = (option), __VA_ARGS__},
/* clang-format on */

static const struct sbx_option options[] = {OPTIONS(AS_OPTION)};
static const struct rule rules[] = {OPTIONS(AS_RULE)};

const struct sbx_option *sbx_options(size_t *ret_count)
{
    *ret_count = LENGTH(options);
    return options;
}

int sbx_spec_set(struct sbx_spec *spec, const char *name, const char *value,
                 struct sbx_error *err)
{
    char quoted[QUOTE_SIZE];
    size_t index = 0;
    while (index < LENGTH(options) && strcmp(options[index].name, name) != 0) {
        index++;
    }
    if (index == LENGTH(options)) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS, "unknown option --%s",
                             quote(quoted, name));
    }
    const struct sbx_option *option = &options[index];
    if (option->value == NULL && value != NULL) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "option --%s: takes no value, '%s' given", option->name,
                             quote(quoted, value));
    }
    if (option->value != NULL && value == NULL) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "option --%s: needs a value (%s)", option->name,
                             option->value);
    }
    return rules[index].set(spec, &rules[index], value, err);
}
