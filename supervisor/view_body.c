/*
 * view_body.c - the small JSON objects that calls on an execution come with. As strict as
 * a request: an unknown key or a value of another type is an error that names it.
 */
#include "supervisor/view.h"

#include "base/error.h"
#include "base/text.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* Of a body that says one word. Each value of JSON costs many times its length once it is
 * parsed. */
#define BODY_MAX ((size_t)4096)

/* The object with at most that one key; NULL and the error. */
static json_t *load(const char *body, size_t length, const char *key,
                    struct sbx_error *err)
{
    json_error_t why;
    const char *name;
    json_t *value;
    json_t *object = length <= BODY_MAX
                         ? json_loadb(body, length, JSON_REJECT_DUPLICATES, &why)
                         : NULL;
    if (!json_is_object(object)) {
        (void)sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                            "the body is no JSON object, or too long");
        json_decref(object);
        return NULL;
    }
    json_object_foreach(object, name, value)
    {
        if (strcmp(name, key) != 0) {
            char escaped[64];
            (void)sbx_text_escape(escaped, sizeof escaped, name, strlen(name));
            (void)sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS, "%s: unknown key",
                                escaped);
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static int signal_of(const json_t *value)
{
    int number = 0;
    if (json_is_integer(value)) {
        json_int_t integer = json_integer_value(value);
        return integer >= 1 && integer <= SIGRTMAX ? (int)integer : 0;
    }
    const char *text = json_string_value(value);
    if (text == NULL || strlen(text) != json_string_length(value) ||
        sbx_text_signal(text, &number) < 0) {
        return 0;
    }
    return number;
}

int sbx_view_parse_signal(const char *body, size_t length, int *ret_signal,
                          struct sbx_error *err)
{
    json_t *object = load(body, length, "signal", err);
    if (object == NULL) {
        return -EINVAL;
    }
    int number = signal_of(json_object_get(object, "signal"));
    json_decref(object);
    if (number == 0) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "signal: has to be the name or the number of one");
    }
    *ret_signal = number;
    return 0;
}

int sbx_view_parse_shutdown(const char *body, size_t length, bool *ret_cancel,
                            struct sbx_error *err)
{
    if (length == 0) {
        *ret_cancel = false;
        return 0;
    }
    json_t *object = load(body, length, "cancel", err);
    if (object == NULL) {
        return -EINVAL;
    }
    const json_t *value = json_object_get(object, "cancel");
    bool cancel = json_is_true(value);
    bool valid = value == NULL || json_is_boolean(value);
    json_decref(object);
    if (!valid) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "cancel: has to be true or false");
    }
    *ret_cancel = cancel;
    return 0;
}
