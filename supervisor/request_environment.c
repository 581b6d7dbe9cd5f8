/*
 * request_environment.c - variables of the command. Their values go into the
 * specification's environment, and from there into the command's; they come into no
 * argument, no message, and on no disk.
 *
 * With a sandbox it is sbx-run that gets them, outside: so none may be among them by
 * which somebody makes another program of it.
 */
#include "supervisor/request_private.h"

#include "base/fd.h"
#include "monitor/option_rules.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* As that of a sandbox. */
#define DEFAULT_PATH "PATH=/usr/local/bin:/usr/bin:/bin"

int sbx_draft_check_file(const char *key, const char *path, struct sbx_error *err)
{
    char quoted[SBX_QUOTE_SIZE];
    struct stat status;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
        return sbx_request_refuse(err, EINVAL, key, "'%s' is no regular file",
                                  sbx_option_quote(quoted, path));
    }
    return 0; /* what is not there is told by whoever opens it */
}

static const char *key_of(const char *name, size_t length,
                          char key[static SBX_QUOTE_SIZE + 8])
{
    char quoted[SBX_QUOTE_SIZE];
    SBX_AUTO_FREE char *copy = strndup(name, length);
    (void)snprintf(key, SBX_QUOTE_SIZE + 8, "env.%s",
                   sbx_option_quote(quoted, copy != NULL ? copy : "?"));
    return key;
}

/* The dynamic linker, the C library and sbx-run itself look at these. bubblewrap is named
 * by its path, and gets no environment. */
static bool acts_outside(const char *name)
{
    static const char *const beginnings[] = {"LD_", "SBX_", "MALLOC_"};
    static const char *const whole[] = {"GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH"};
    for (size_t i = 0; i < SBX_LENGTH(beginnings); i++) {
        if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < SBX_LENGTH(whole); i++) {
        if (strcmp(name, whole[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* sbx-run is told the name, and takes the value from its own environment. */
static int pass_inside(struct sbx_draft *draft, const char *text, struct sbx_error *err)
{
    char key[SBX_QUOTE_SIZE + 8];
    size_t length = strcspn(text, "=");
    SBX_AUTO_FREE char *name = strndup(text, length);
    if (name == NULL) {
        return sbx_request_no_memory(err);
    }
    if (acts_outside(name)) {
        return sbx_request_refuse(
            err, EINVAL, key_of(name, length, key),
            "would act on sbx-run, outside of the sandbox (give it inside: \"launcher\": "
            "[\"/usr/bin/env\", \"NAME=VALUE\"])");
    }
    int r = sbx_sandbox_set(draft->sandbox, "env", name, err);
    if (r < 0) {
        return sbx_request_blame(key_of(name, length, key), r, err);
    }
    return sbx_draft_sandbox_option(draft, "env", name, err);
}

static int set_text(struct sbx_draft *draft, const char *text, struct sbx_error *err)
{
    char key[SBX_QUOTE_SIZE + 8];
    int r = sbx_spec_set(draft->request->spec, "env", text, err);
    if (r < 0) {
        return sbx_request_blame(key_of(text, strcspn(text, "="), key), r, err);
    }
    sbx_draft_note(draft, "env", text);
    return draft->sandbox != NULL ? pass_inside(draft, text, err) : 0;
}

static int set_variable(struct sbx_draft *draft, const char *name, const json_t *value,
                        struct sbx_error *err)
{
    char key[SBX_QUOTE_SIZE + 8];
    if (name[0] == '\0' || strchr(name, '=') != NULL) {
        return sbx_request_refuse(err, EINVAL, key_of(name, strlen(name), key),
                                  "is no name of a variable");
    }
    if (json_is_null(value) && draft->policy->trusted) {
        return set_text(draft, name, err);
    }
    if (json_is_null(value)) {
        return sbx_request_refuse(err, EPERM, key_of(name, strlen(name), key),
                                  "null takes the variable of sbxd, which is not for "
                                  "other users");
    }
    if (!json_is_string(value)) {
        return sbx_request_refuse(err, EINVAL, key_of(name, strlen(name), key),
                                  "is %s (accepted: a string, or null for that of sbxd)",
                                  sbx_value_type(value));
    }
    size_t size = strlen(name) + json_string_length(value) + sizeof "=";
    char *text = malloc(size);
    if (text == NULL) {
        return sbx_request_no_memory(err);
    }
    (void)snprintf(text, size, "%s=%s", name, json_string_value(value));
    int r = set_text(draft, text, err);
    explicit_bzero(text, size);
    free(text);
    return r;
}

static int compare(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* In the order of their names: that of the object means nothing. */
static int set_variables(struct sbx_draft *draft, const json_t *object,
                         struct sbx_error *err)
{
    const char *name;
    json_t *value;
    size_t count = 0;
    SBX_AUTO_FREE const char **names =
        calloc(json_object_size(object) + 1, sizeof *names);
    if (names == NULL) {
        return sbx_request_no_memory(err);
    }
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        names[count++] = name;
    }
    qsort(names, count, sizeof *names, compare);
    int r = 0;
    for (size_t i = 0; r == 0 && i < count; i++) {
        r = set_variable(draft, names[i], json_object_get(object, names[i]), err);
    }
    return r;
}

int sbx_draft_environment(struct sbx_draft *draft, const json_t *object,
                          struct sbx_error *err)
{
    const struct sbx_strings *files = &draft->request->spec->environment.from_files;
    int r = 0;
    if (!draft->policy->trusted) {
        r = sbx_spec_set(draft->request->spec, "env", DEFAULT_PATH, err);
    }
    for (size_t i = 0; r == 0 && draft->sandbox != NULL && i < files->count; i++) {
        r = pass_inside(draft, files->items[i], err);
    }
    return r == 0 && object != NULL ? set_variables(draft, object, err) : r;
}
