/*
 * option_rules.h - how the options' values are parsed and stored: what the rows of the
 * table in options.c are made of. Private to option*.c.
 */
#ifndef SBX_MONITOR_OPTION_RULES_H
#define SBX_MONITOR_OPTION_RULES_H

#include "monitor/spec.h"

#include <sbx/sbx.h>
#include <stddef.h>
#include <stdint.h>

#define SBX_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Numbers end at 2^63-1, the largest integer that every reader of a JSON report can hold.
 */
#define SBX_NUMBER_MAX ((uint64_t)INT64_MAX)

/* What the user wrote, as it stands in a message: escaped, cut. */
#define SBX_QUOTE_SIZE 96
const char *sbx_option_quote(char buffer[static SBX_QUOTE_SIZE], const char *text);

/* A kind of number. */
struct sbx_number_kind {
    const char *noun; /* "'5x' is not a duration" */
    const char *form; /* the accepted one */
    int (*parse)(const char *text, uint64_t *ret_value);
};

extern const struct sbx_number_kind sbx_kind_duration;
extern const struct sbx_number_kind sbx_kind_size;
extern const struct sbx_number_kind sbx_kind_count;

struct sbx_rule;

/* Sets one option whose argument is present exactly where the table asks for one. Leaves
 * the specification as it was on failure. */
typedef int sbx_set_function(struct sbx_spec *spec, const struct sbx_rule *rule,
                             const char *value, struct sbx_error *err);

/* How a row of the table is carried out. */
struct sbx_rule {
    sbx_set_function *set;
    const char *name; /* of the option, for messages */
    size_t field;     /* offset in struct sbx_spec */
    const struct sbx_number_kind
        *kind; /* of numbers, with their bounds in figures and words */
    uint64_t minimum;
    uint64_t maximum;
    const char *bounds;
    const char *const *words; /* for sbx_set_word: NULL-terminated */
};

/* The value as a number of the rule's kind, within its bounds. */
int sbx_option_number(const struct sbx_rule *rule, const char *value,
                      uint64_t *ret_number, struct sbx_error *err);

/* The place of the value in the rule's words, or -EINVAL. */
int sbx_option_word(const struct sbx_rule *rule, const char *value,
                    struct sbx_error *err);

/* The path as an own copy in *path, in place of what was there. Empty is refused;
 * `accepted` says in the message what is not. */
int sbx_option_path(const struct sbx_rule *rule, const char *value, const char *accepted,
                    char **path, struct sbx_error *err);

/* The same for a path that may be relative: then *directory_fd holds the directory where
 * it was given, else -1. What it held before is closed. Accepted are the rule's bounds.
 */
int sbx_option_held_path(const struct sbx_rule *rule, const char *value, char **path,
                         int *directory_fd, struct sbx_error *err);

/* The working directory as a descriptor above 2, or a negative errno: a relative path
 * keeps its meaning when the directory is changed or renamed later. */
int sbx_option_hold_directory(void);

/* For fields of type uint64_t, bool, int (of numbers, and of the place in `words`). */
int sbx_set_number(struct sbx_spec *spec, const struct sbx_rule *rule, const char *value,
                   struct sbx_error *err);
int sbx_set_int(struct sbx_spec *spec, const struct sbx_rule *rule, const char *value,
                struct sbx_error *err);
int sbx_set_flag(struct sbx_spec *spec, const struct sbx_rule *rule, const char *value,
                 struct sbx_error *err);
int sbx_set_word(struct sbx_spec *spec, const struct sbx_rule *rule, const char *value,
                 struct sbx_error *err);

/* --- options with a way of their own: option_values.c --- */
sbx_set_function sbx_set_grace, sbx_set_rlimit, sbx_set_signal;
sbx_set_function sbx_set_report, sbx_set_keep_fd;

/* --- option_start.c --- */
sbx_set_function sbx_set_chdir, sbx_set_env, sbx_set_env_from, sbx_set_user;
sbx_set_function sbx_set_cpus, sbx_set_umask;

/* --- option_report.c --- */
sbx_set_function sbx_set_report_fd;

/* --- option_log.c --- */
sbx_set_function sbx_set_log, sbx_set_timeline;
/* --- option_streams.c --- */
sbx_set_function sbx_set_stdin, sbx_set_stdout, sbx_set_stderr;

/* --- option_group.c --- */
sbx_set_function sbx_set_cgroup, sbx_set_cgroup_root, sbx_set_require;

/* Whether a descriptor is one that the specification itself has opened. */
bool sbx_spec_holds(const struct sbx_spec *spec, int fd);

#endif
