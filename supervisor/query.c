/*
 * query.c - see query.h.
 */
#include "supervisor/query.h"

#include "base/error.h"
#include "base/text.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define BELOW "/v1/executions/"
#define VALUE_SIZE 64
#define SHOWN_SIZE 48

static int refuse(struct sbx_error *err, const char *what, const char *text)
{
    char shown[SHOWN_SIZE];
    (void)sbx_text_escape(shown, sizeof shown, text, strlen(text));
    return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS, "%s: '%s'", what, shown);
}

/* --- percent-encoding --- */

static int hex_digit(char letter)
{
    if (letter >= '0' && letter <= '9') {
        return letter - '0';
    }
    if (letter >= 'a' && letter <= 'f') {
        return letter - 'a' + 10;
    }
    return letter >= 'A' && letter <= 'F' ? letter - 'A' + 10 : -1;
}

/* 0, or -EINVAL when an escape is not whole, stands for NUL, or the result does not fit:
 * nothing that is accepted here is that long. */
static int decode(const char *text, size_t length, char *buffer, size_t size)
{
    size_t used = 0;
    for (size_t at = 0; at < length; at++) {
        char letter = text[at];
        if (letter == '%') {
            int high = at + 1 < length ? hex_digit(text[at + 1]) : -1;
            int low = at + 2 < length ? hex_digit(text[at + 2]) : -1;
            if (high < 0 || low < 0 || (high == 0 && low == 0)) {
                return -EINVAL;
            }
            letter = (char)(high << 4 | low);
            at += 2;
        }
        if (used + 1 >= size) {
            return -EINVAL;
        }
        buffer[used++] = letter;
    }
    buffer[used] = '\0';
    return 0;
}

/* --- paths --- */

static const struct {
    const char *path;
    enum sbx_resource resource;
} whole_paths[] = {
    {"/v1/executions", SBX_RESOURCE_EXECUTIONS}, {"/v1/shutdown", SBX_RESOURCE_SHUTDOWN},
    {"/v1/stats", SBX_RESOURCE_STATS},           {"/v1/verify", SBX_RESOURCE_VERIFY},
    {"/metrics", SBX_RESOURCE_METRICS},
};

static const struct {
    const char *name; /* behind the id and its slash */
    enum sbx_resource resource;
} parts[] = {
    {"events", SBX_RESOURCE_EVENTS}, {"stdout", SBX_RESOURCE_STDOUT},
    {"stderr", SBX_RESOURCE_STDERR}, {"stdin", SBX_RESOURCE_STDIN},
    {"signal", SBX_RESOURCE_SIGNAL}, {"cancel", SBX_RESOURCE_CANCEL},
    {"pause", SBX_RESOURCE_PAUSE},   {"resume", SBX_RESOURCE_RESUME},
};

/* What stands behind the id: NULL for nothing. */
static int find_part(const char *name, enum sbx_resource *ret_resource)
{
    if (name == NULL) {
        *ret_resource = SBX_RESOURCE_EXECUTION;
        return 0;
    }
    for (size_t i = 0; i < LENGTH(parts); i++) {
        if (strcmp(name, parts[i].name) == 0) {
            *ret_resource = parts[i].resource;
            return 0;
        }
    }
    return -ENOENT;
}

int sbx_path_parse(const char *path, enum sbx_resource *ret_resource,
                   char ret_id[static SBX_ID_SIZE], struct sbx_error *err)
{
    enum sbx_resource resource;
    char id[SBX_ID_SIZE];
    for (size_t i = 0; i < LENGTH(whole_paths); i++) {
        if (strcmp(path, whole_paths[i].path) == 0) {
            *ret_resource = whole_paths[i].resource;
            ret_id[0] = '\0';
            return 0;
        }
    }
    if (strncmp(path, BELOW, strlen(BELOW)) != 0) {
        return -ENOENT;
    }
    const char *begin = path + strlen(BELOW);
    size_t length = strcspn(begin, "/");
    const char *rest = begin[length] == '/' ? begin + length + 1 : NULL;
    if (length == 0 || find_part(rest, &resource) < 0) {
        return -ENOENT;
    }
    if (decode(begin, length, id, sizeof id) < 0 || !sbx_id_is_valid(id)) {
        return refuse(err, "this is no id", begin);
    }
    memcpy(ret_id, id, sizeof id);
    *ret_resource = resource;
    return 0;
}

/* --- queries --- */

static int set_count(const char *value, uint64_t *field)
{
    return sbx_text_count(value, field);
}

static int set_wait(struct sbx_query *query, const char *value)
{
    uint64_t wait_us = SBX_WAIT_DEFAULT_US;
    if (value[0] != '\0' && sbx_text_duration(value, &wait_us) < 0) {
        return -EINVAL;
    }
    query->has_wait = true;
    query->wait_us = wait_us < SBX_WAIT_MAX_US ? wait_us : SBX_WAIT_MAX_US;
    return 0;
}

static int set_close(struct sbx_query *query, const char *value)
{
    if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0) {
        return -EINVAL;
    }
    query->close = value[0] == '1';
    return 0;
}

static int set(struct sbx_query *query, enum sbx_parameter parameter, const char *value)
{
    switch (parameter) {
    case SBX_PARAMETER_AFTER:
        return set_count(value, &query->after);
    case SBX_PARAMETER_OFFSET:
        return set_count(value, &query->offset);
    case SBX_PARAMETER_WAIT:
        return set_wait(query, value);
    case SBX_PARAMETER_CLOSE:
        return set_close(query, value);
    default:
        return -EINVAL;
    }
}

/* The one of that name; 0: there is none. */
static unsigned find_parameter(const char *name, size_t length)
{
    static const struct {
        const char *name;
        enum sbx_parameter parameter;
    } known[] = {{"after", SBX_PARAMETER_AFTER},
                 {"offset", SBX_PARAMETER_OFFSET},
                 {"wait", SBX_PARAMETER_WAIT},
                 {"close", SBX_PARAMETER_CLOSE}};
    for (size_t i = 0; i < LENGTH(known); i++) {
        if (length == strlen(known[i].name) && memcmp(name, known[i].name, length) == 0) {
            return known[i].parameter;
        }
    }
    return 0;
}

/* NAME=VALUE, or NAME for an empty value. *seen: those that were there already. */
static int parse_one(const char *text, size_t length, struct sbx_query *query,
                     unsigned allowed, unsigned *seen)
{
    char value[VALUE_SIZE] = "";
    const char *equals = memchr(text, '=', length);
    size_t name_length = equals != NULL ? (size_t)(equals - text) : length;
    unsigned parameter = find_parameter(text, name_length);
    if ((parameter & allowed) == 0 || (parameter & *seen) != 0) {
        return -EINVAL;
    }
    *seen |= parameter;
    if (equals != NULL &&
        decode(equals + 1, length - name_length - 1, value, sizeof value) < 0) {
        return -EINVAL;
    }
    return set(query, (enum sbx_parameter)parameter, value);
}

int sbx_query_parse(const char *query, unsigned allowed, struct sbx_query *ret_query,
                    struct sbx_error *err)
{
    struct sbx_query parsed = {0};
    unsigned seen = 0;
    const char *at = query != NULL ? query : "";
    while (*at != '\0') {
        size_t length = strcspn(at, "&");
        if (parse_one(at, length, &parsed, allowed, &seen) < 0) {
            return refuse(err, "unknown, repeated or wrong parameter", at);
        }
        at += length;
        if (*at == '&' && *++at == '\0') {
            return refuse(err, "a parameter is missing", query);
        }
    }
    *ret_query = parsed;
    return 0;
}
