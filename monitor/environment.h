/*
 * environment.h - the command's environment, where it is to be another than the caller's.
 *
 * First the caller's, or nothing; then what files say; then what single options say, in
 * their order. Values are secrets: they are in memory and in the command's environment,
 * and never in a message.
 */
#ifndef SBX_MONITOR_ENVIRONMENT_H
#define SBX_MONITOR_ENVIRONMENT_H

#include "monitor/record.h"

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stddef.h>

/* More than that in a file is refused. */
#define SBX_ENVIRONMENT_FILE_MAX ((size_t)1024 * 1024)

/* Strings that it owns. */
struct sbx_strings {
    char **items;
    size_t count;
};

/* All zeros: the caller's environment as it is. */
struct sbx_environment {
    bool clear;                    /* begin with nothing */
    struct sbx_strings from_files; /* "NAME=VALUE" */
    struct sbx_strings given;      /* "NAME=VALUE"; "NAME": as the caller has it */
};

void sbx_environment_done(struct sbx_environment *environment);

/* Adds a copy. 0 or -ENOMEM. */
int sbx_strings_add(struct sbx_strings *strings, const char *text, size_t length);

/* Frees them; empty again. */
void sbx_strings_done(struct sbx_strings *strings);

/*
 * Adds what a file holds, all of it or nothing: entries that end with NUL if there is one
 * (as in /proc/PID/environ), else lines, of which empty ones and those that begin with #
 * are passed over. -EINVAL names the line or entry that is not NAME=VALUE, and shows
 * nothing of it; -ENOMEM.
 */
int sbx_environment_add_file(struct sbx_environment *environment, const char *text,
                             size_t length, struct sbx_error *err);

/*
 * What the command gets, in one NULL-terminated array for the caller to free; the strings
 * are those of `environment` and `base`. Each name stands once, and has what was said
 * last. A name without value that `base` lacks is left out, and is a warning in `record`
 * (may be NULL). 0 or -ENOMEM.
 */
int sbx_environment_make(const struct sbx_environment *environment,
                         const char *const *base, struct sbx_record *record,
                         const char ***ret_array);

#endif
