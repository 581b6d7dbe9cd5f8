/*
 * options.c - the option table of a sandbox, and what each option does to a description.
 *
 * Like the table of a run (monitor/options.c) it is the only place that knows the names:
 * help, manual, completion and README follow it, and a test compares them. Values are
 * strict; one that is refused leaves the description as it was.
 */
#include "sandbox/sandbox.h"

#include "base/error.h"
#include "base/fd.h"
#include "monitor/option_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct rule {
    int (*set)(struct sbx_sandbox *sandbox, const struct rule *rule, const char *value,
               struct sbx_error *err);
    struct sbx_rule plain; /* name, kind, words and bounds, for what parses as in a run */
    size_t field;          /* offset in struct sbx_sandbox */
};

static int no_memory(const struct rule *rule, struct sbx_error *err)
{
    return sbx_error_set(err, ENOMEM, SBX_STAGE_OPTIONS, "option --%s: no memory",
                         rule->plain.name);
}

static int refuse(const struct rule *rule, const char *value, const char *what,
                  struct sbx_error *err)
{
    char quoted[SBX_QUOTE_SIZE];
    return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS, "option --%s: '%s' %s",
                         rule->plain.name, sbx_option_quote(quoted, value), what);
}

/* --- values --- */

static int set_flag(struct sbx_sandbox *sandbox, const struct rule *rule,
                    const char *value, struct sbx_error *err)
{
    (void)value;
    (void)err;
    const bool yes = true;
    memcpy((char *)sandbox + rule->field, &yes, sizeof yes);
    return 0;
}

static int set_word(struct sbx_sandbox *sandbox, const struct rule *rule,
                    const char *value, struct sbx_error *err)
{
    int word = sbx_option_word(&rule->plain, value, err);
    if (word >= 0) {
        memcpy((char *)sandbox + rule->field, &word, sizeof word);
    }
    return word < 0 ? word : 0;
}

static int set_number(struct sbx_sandbox *sandbox, const struct rule *rule,
                      const char *value, struct sbx_error *err)
{
    uint64_t number = 0;
    int r = sbx_option_number(&rule->plain, value, &number, err);
    if (r == 0) {
        memcpy((char *)sandbox + rule->field, &number, sizeof number);
    }
    return r;
}

static int set_path(struct sbx_sandbox *sandbox, const struct rule *rule,
                    const char *value, struct sbx_error *err)
{
    char *path = NULL;
    int r = sbx_option_path(&rule->plain, value, "a path", &path, err);
    if (r == 0) {
        char *old = NULL;
        memcpy(&old, (char *)sandbox + rule->field, sizeof old);
        free(old);
        memcpy((char *)sandbox + rule->field, &path, sizeof path);
    }
    return r;
}

static int set_mask(struct sbx_sandbox *sandbox, const struct rule *rule,
                    const char *value, struct sbx_error *err)
{
    if (*value == '\0') {
        return refuse(rule, value, "is not a path (accepted: a path)", err);
    }
    return sbx_strings_add(&sandbox->masks, value, strlen(value)) < 0
               ? no_memory(rule, err)
               : 0;
}

/* What other launchers write behind a destination would be part of its name here, and
 * what was to be read-only could be written. */
static bool has_mode(const char *destination)
{
    size_t length = strlen(destination);
    const char *end = destination + (length < 3 ? 0 : length - 3);
    return strcmp(end, ":ro") == 0 || strcmp(end, ":rw") == 0;
}

/* PATH, or SRC:DEST: a colon divides where an absolute path follows it. */
static int split_bind(const struct rule *rule, const char *value,
                      struct sbx_asked_bind *bind, struct sbx_error *err)
{
    const char *colon = strstr(value, ":/");
    if (colon != NULL && strstr(colon + 1, ":/") != NULL) {
        return refuse(rule, value,
                      "has more than one ':/' (accepted: PATH or SRC:DEST with an "
                      "absolute DEST)",
                      err);
    }
    if (colon != NULL && has_mode(colon + 1)) {
        return refuse(rule, value,
                      "has a mode behind DEST (accepted: SRC:DEST; --bind is writable, "
                      "--ro-bind read-only)",
                      err);
    }
    size_t length = colon != NULL ? (size_t)(colon - value) : strlen(value);
    if (length == 0) {
        return refuse(rule, value, "has no source (accepted: PATH or SRC:DEST)", err);
    }
    bind->source = strndup(value, length);
    bind->destination = colon != NULL ? strdup(colon + 1) : NULL;
    if (bind->source == NULL || (colon != NULL && bind->destination == NULL)) {
        free(bind->source);
        free(bind->destination);
        return no_memory(rule, err);
    }
    return 0;
}

static int set_bind(struct sbx_sandbox *sandbox, const struct rule *rule,
                    const char *value, struct sbx_error *err)
{
    struct sbx_asked_bind bind = {.writable = rule->plain.minimum != 0};
    struct sbx_asked_bind *more =
        reallocarray(sandbox->binds, sandbox->bind_count + 1, sizeof *more);
    if (more == NULL) {
        return no_memory(rule, err);
    }
    sandbox->binds = more;
    int r = split_bind(rule, value, &bind, err);
    if (r == 0) {
        sandbox->binds[sandbox->bind_count++] = bind;
    }
    return r;
}

/* The command reads names up to the first '=', and shells pass on only some of them. */
static bool is_name(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        bool letter = c == '_' || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        bool digit = c >= '0' && c <= '9';
        if (!letter && !(digit && i > 0)) {
            return false;
        }
    }
    return length > 0;
}

static int set_env(struct sbx_sandbox *sandbox, const struct rule *rule,
                   const char *value, struct sbx_error *err)
{
    size_t length = strcspn(value, "=");
    if (!is_name(value, length)) {
        SBX_AUTO_FREE char *name = strndup(value, length);
        return refuse(rule, name != NULL ? name : "",
                      "is not a name (accepted: letters, digits and _, no digit first; "
                      "NAME to take the caller's, or NAME=VALUE)",
                      err);
    }
    return sbx_set_env(sandbox->spec, &rule->plain, value, err);
}

static int set_env_from(struct sbx_sandbox *sandbox, const struct rule *rule,
                        const char *value, struct sbx_error *err)
{
    struct sbx_strings *strings = &sandbox->spec->environment.from_files;
    size_t before = strings->count;
    int r = sbx_set_env_from(sandbox->spec, &rule->plain, value, err);
    for (size_t i = before; r == 0 && i < strings->count; i++) {
        const char *text = strings->items[i];
        if (!is_name(text, strcspn(text, "="))) {
            r = refuse(rule, value,
                       "has a name that is none (accepted: letters, digits and _, no "
                       "digit first)",
                       err);
        }
    }
    while (r < 0 && strings->count > before) {
        free(strings->items[--strings->count]);
    }
    return r;
}

/* A command must not be able to raise its own ceiling. For cpu a run's form is kept: N
 * tells (SIGXCPU), N+1 kills. */
static int set_rlimit(struct sbx_sandbox *sandbox, const struct rule *rule,
                      const char *value, struct sbx_error *err)
{
    if (strchr(value, ':') != NULL) {
        return refuse(rule, value,
                      "has a soft and a hard value (accepted: NAME=VALUE; inside of a "
                      "sandbox both are the same)",
                      err);
    }
    if (strchr(value, '=') == NULL) {
        return refuse(rule, value, "is not NAME=VALUE", err);
    }
    return sbx_set_rlimit(sandbox->spec, &rule->plain, value, err);
}

static int set_user(struct sbx_sandbox *sandbox, const struct rule *rule,
                    const char *value, struct sbx_error *err)
{
    return sbx_set_user(sandbox->spec, &rule->plain, value, err);
}

static int set_seccomp(struct sbx_sandbox *sandbox, const struct rule *rule,
                       const char *value, struct sbx_error *err)
{
    uint64_t fd = 0;
    if (strcmp(value, "default") == 0 || strcmp(value, "none") == 0) {
        sandbox->filter = *value == 'd' ? SBX_FILTER_DEFAULT : SBX_FILTER_NONE;
        return 0;
    }
    int r = sbx_option_number(&rule->plain, value, &fd, err);
    if (r == 0 && fcntl((int)fd, F_GETFD) < 0) {
        r = sbx_error_set(err, errno, SBX_STAGE_OPTIONS, "option --%s: descriptor %d: %s",
                          rule->plain.name, (int)fd, sbx_errno_text(errno).text);
    }
    if (r == 0) {
        sandbox->filter = SBX_FILTER_OWN;
        sandbox->filter_fd = (int)fd;
    }
    return r;
}

/* --- the table --- */

static const char *const network_words[] = {
    [SBX_NETWORK_HOST] = "host",
    [SBX_NETWORK_NONE] = "none",
    NULL,
};

#define FIELD(member) .field = offsetof(struct sbx_sandbox, member)
#define SEEN "What is seen"
#define STARTS "How the command starts"
#define HARDENING "Bounds and hardening"

/* clang-format off */
#define OPTIONS(ROW) \
    ROW("bind", "PATH|SRC:DEST", SEEN, \
        "show PATH, or SRC as DEST, writable; repeatable", \
        .set = set_bind, .plain.minimum = 1) \
    ROW("ro-bind", "PATH|SRC:DEST", SEEN, \
        "the same, read-only; repeatable", \
        .set = set_bind) \
    ROW("mask", "PATH", SEEN, \
        "hide PATH, also below a bind; repeatable (hidden anyway: /home /root /var /data, and for root the likes of /etc/shadow)", \
        .set = set_mask) \
    ROW("no-default-masks", NULL, SEEN, \
        "hide only what --mask names", \
        .set = set_flag, FIELD(no_default_masks)) \
    ROW("network", "host|none", SEEN, \
        "the network of the host, or a loopback device of its own and nothing else " \
        "(default host)", \
        .set = set_word, FIELD(network), .plain.words = network_words, \
        .plain.bounds = "host, none") \
    ROW("proc", NULL, SEEN, \
        "a private /proc, of the processes inside (default none)", \
        .set = set_flag, FIELD(proc)) \
    ROW("self-exe", "PATH", SEEN, \
        "of /proc only /proc/self/exe, a link to PATH; not with --proc", \
        .set = set_path, FIELD(self_exe)) \
    ROW("chdir", "DIR", STARTS, \
        "working directory, inside of a bind (default the caller's, where it is inside, " \
        "else /)", \
        .set = set_path, FIELD(directory)) \
    ROW("env", "NAME[=VALUE]", STARTS, \
        "variable of the environment, which else has a default PATH alone; NAME takes the " \
        "caller's, whose value stays private; repeatable", \
        .set = set_env) \
    ROW("env-from", "FILE", STARTS, \
        "variables from lines NAME=VALUE, or as in /proc/PID/environ; repeatable", \
        .set = set_env_from) \
    ROW("as-user", "UID[:GID]", STARTS, \
        "confine as that user and group, without supplementary groups (needs root)", \
        .set = set_user) \
    ROW("strict-stdin", NULL, STARTS, \
        "refuse a file as standard input that could be written through it", \
        .set = set_flag, FIELD(strict_stdin)) \
    ROW("rlimit", "NAME=VALUE", HARDENING, \
        "ceiling of each process, set inside, soft and hard; names as in prlimit(1); " \
        "repeatable", \
        .set = set_rlimit) \
    ROW("tmp-size", "SIZE", HARDENING, \
        "bound of each of /tmp, /run and /dev/shm (default 512M, at least 1M)", \
        .set = set_number, FIELD(tmp_size_bytes), .plain.kind = &sbx_kind_size, \
        .plain.minimum = SBX_TMP_SIZE_MIN, .plain.maximum = SBX_NUMBER_MAX, \
        .plain.bounds = "at least 1M") \
    ROW("seccomp", "default|none|FD", HARDENING, \
        "system call filter: ours, none, or the BPF program that descriptor FD has " \
        "(default default)", \
        .set = set_seccomp, .plain.kind = &sbx_kind_count, .plain.minimum = 3, \
        .plain.maximum = INT_MAX, .plain.bounds = "default, none, or a descriptor above 2") \
    ROW("bwrap", "PATH", HARDENING, \
        "the bubblewrap to use (default the one in PATH)", \
        .set = set_path, FIELD(bwrap))

#define AS_OPTION(name, value, heading, help, ...) \
    {name, 0, value, heading, help},
#define AS_RULE(option, value, heading, help, ...) \
    {.plain.name = (option), __VA_ARGS__},
/* clang-format on */

static const struct sbx_option options[] = {OPTIONS(AS_OPTION)};
static const struct rule rules[] = {OPTIONS(AS_RULE)};

const struct sbx_option *sbx_sandbox_options(size_t *ret_count)
{
    *ret_count = SBX_LENGTH(options);
    return options;
}

int sbx_sandbox_set(struct sbx_sandbox *sandbox, const char *name, const char *value,
                    struct sbx_error *err)
{
    char quoted[SBX_QUOTE_SIZE];
    for (size_t i = 0; i < SBX_LENGTH(options); i++) {
        if (strcmp(options[i].name, name) != 0) {
            continue;
        }
        if (options[i].value == NULL && value != NULL) {
            return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                                 "option --%s: takes no value, '%s' given", name,
                                 sbx_option_quote(quoted, value));
        }
        if (options[i].value != NULL && value == NULL) {
            return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                                 "option --%s: needs a value (%s)", name,
                                 options[i].value);
        }
        return rules[i].set(sandbox, &rules[i], value, err);
    }
    return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS, "unknown option --%s",
                         sbx_option_quote(quoted, name));
}

int sbx_sandbox_set_command(struct sbx_sandbox *sandbox, const char *const argv[],
                            struct sbx_error *err)
{
    return sbx_spec_set_command(sandbox->spec, argv, err);
}

struct sbx_sandbox *sbx_sandbox_new(void)
{
    struct sbx_sandbox *sandbox = calloc(1, sizeof *sandbox);
    if (sandbox == NULL) {
        return NULL;
    }
    sandbox->spec = sbx_spec_new();
    if (sandbox->spec == NULL) {
        free(sandbox);
        return NULL;
    }
    sandbox->spec->environment.clear = true;
    return sandbox;
}

void sbx_sandbox_free(struct sbx_sandbox *sandbox)
{
    if (sandbox == NULL) {
        return;
    }
    for (size_t i = 0; i < sandbox->bind_count; i++) {
        free(sandbox->binds[i].source);
        free(sandbox->binds[i].destination);
    }
    free(sandbox->binds);
    sbx_strings_done(&sandbox->masks);
    free(sandbox->directory);
    free(sandbox->self_exe);
    free(sandbox->bwrap);
    sbx_spec_free(sandbox->spec);
    free(sandbox);
}
