/*
 * request_private.h - a request while it is made, as the files see it that make it up:
 * request.c (the whole, its order, what is no option), request_keys.c (options as keys),
 * request_values.c (JSON as what stands on a command line), request_environment.c
 * (variables), request_policy.c (what the operator allows).
 *
 * Every function here returns 0 or a negative errno as sbx_request_parse does, with a
 * message that begins with the name of the key.
 */
#ifndef SBX_SUPERVISOR_REQUEST_PRIVATE_H
#define SBX_SUPERVISOR_REQUEST_PRIVATE_H

#include "monitor/environment.h"
#include "supervisor/fingerprint.h"
#include "supervisor/request.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct sbx_draft {
    const struct sbx_request_policy *policy;
    struct sbx_request *request;
    struct sbx_sandbox *sandbox;        /* NULL: none */
    struct sbx_strings sandbox_options; /* of sbx-run: "--bind=/x", "--proc" */
    struct sbx_fingerprint *fingerprint;
};

/* --- request_values.c --- */

/* What the argument of an option is, by the word that the table has for it. */
enum sbx_value_kind {
    SBX_VALUE_FLAG,
    SBX_VALUE_DURATION,
    SBX_VALUE_SIZE,
    SBX_VALUE_COUNT,
    SBX_VALUE_SIGNAL,
    SBX_VALUE_CEILING, /* text or a number */
    SBX_VALUE_PATH,    /* absolute */
    SBX_VALUE_TEXT,
};
enum sbx_value_kind sbx_value_kind_of(const struct sbx_option *option);

/* A string, or a number where the kind is one, as it would stand on a command line; the
 * caller's to free. `key` is for messages. Numbers are taken exactly or not at all. */
int sbx_value_text(const json_t *value, enum sbx_value_kind kind, const char *key,
                   char **ret_text, struct sbx_error *err);

/* The one spelling of all that mean the same ("1K": "1024"); a text that does not parse
 * stays as it is. The caller's to free; NULL: no memory. */
char *sbx_value_canonical(enum sbx_value_kind kind, const char *text);

/* RFC 4648 with its padding, and nothing else. -EINVAL, -ENOMEM. */
int sbx_value_base64(const char *text, size_t length, char **ret_data,
                     size_t *ret_length);

/* "an array", "a string" ..., for messages. */
const char *sbx_value_type(const json_t *value);

/* "key: text". Returns -code. */
int sbx_request_refuse(struct sbx_error *err, int code, const char *key,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));
int sbx_request_no_memory(struct sbx_error *err);

/* What sbx_spec_set and its like have said of an option, said of a key: -EINVAL, or
 * -ENOMEM. */
int sbx_request_blame(const char *key, int result, struct sbx_error *err);

/* The same for any option of a run, whose name is in the message. */
int sbx_request_blame_option(int result, struct sbx_error *err);

/* --- request_keys.c --- */

/* Where a key stands. */
enum sbx_section { SBX_SECTION_TOP, SBX_SECTION_LIMITS, SBX_SECTION_SANDBOX };

/* "" for the top, else the name of the object. */
const char *sbx_section_name(enum sbx_section section);

#define SBX_KEY_NAME_SIZE 64

/* The key of an option in that section; false: it has none there. */
bool sbx_request_key(const struct sbx_option *option, enum sbx_section section,
                     char key[static SBX_KEY_NAME_SIZE]);

/* The table that a section follows. */
const struct sbx_option *sbx_section_options(enum sbx_section section, size_t *ret_count);

/* Keys that are no options, of a section; NULL-terminated. */
const char *const *sbx_section_others(enum sbx_section section);

/* The value of `name` in the request, an object (NULL: it is not there). */
int sbx_draft_object(const json_t *root, const char *name, const json_t **ret_object,
                     struct sbx_error *err);

/* Sets all options of a section (`object` may be NULL) and what they default to. An
 * unknown key is refused. */
int sbx_draft_options(struct sbx_draft *draft, enum sbx_section section,
                      const json_t *object, struct sbx_error *err);

/* `ceilings` of the run, or of the sandbox. */
int sbx_draft_ceilings(struct sbx_draft *draft, enum sbx_section section,
                       const json_t *object, struct sbx_error *err);

/* An option of sbx-run; `value` NULL: a flag. */
int sbx_draft_sandbox_option(struct sbx_draft *draft, const char *name, const char *value,
                             struct sbx_error *err);

/* As a part of the fingerprint. */
void sbx_draft_note(struct sbx_draft *draft, const char *name, const char *value);

/* --- request_environment.c --- */

/* `env`, after env_from and clear_env were set. */
int sbx_draft_environment(struct sbx_draft *draft, const json_t *object,
                          struct sbx_error *err);

/* Whether a file with variables can be read without waiting. */
int sbx_draft_check_file(const char *key, const char *path, struct sbx_error *err);

/* --- request_policy.c --- */

/* Whether who asks may set that option at all. Before it is set: setting may open a file.
 */
int sbx_policy_option(const struct sbx_draft *draft, enum sbx_section section,
                      const struct sbx_option *option, struct sbx_error *err);

#define SBX_POLICY_VALUE_SIZE 32

/* What an option is where a request does not say; false: as the option itself. */
bool sbx_policy_default(const struct sbx_draft *draft, enum sbx_section section,
                        const char *option, char value[static SBX_POLICY_VALUE_SIZE]);

/* What was set, all in all. */
int sbx_policy_check(const struct sbx_draft *draft, struct sbx_error *err);

#endif
