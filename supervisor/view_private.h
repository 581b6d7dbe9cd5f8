/*
 * view_private.h - what the files of view.h share: a text that grows, and the time as a
 * JSON string.
 */
#ifndef SBX_SUPERVISOR_VIEW_PRIVATE_H
#define SBX_SUPERVISOR_VIEW_PRIVATE_H

#include "supervisor/view.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* {0} is an empty one. What is added after memory ran out is dropped. */
struct sbx_view_text {
    char *data;
    size_t length;
    size_t size;
    bool failed;
};

void sbx_view_text_add(struct sbx_view_text *text, const char *data, size_t length);
void sbx_view_text_format(struct sbx_view_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Takes the value; NULL is what jansson returns when memory is short. */
void sbx_view_text_json_take(struct sbx_view_text *text, json_t *value);

/* The text, for the caller to free, NULL if anything has failed; *text is empty then. */
char *sbx_view_text_take(struct sbx_view_text *text);

/* The value as one line. Takes it. */
char *sbx_view_line_take(json_t *value);

/* "2026-11-29T22:53:30.123456Z"; NULL: no memory. */
json_t *sbx_view_time(uint64_t real_us);

/* Sets a key; false when memory is short, also where value is NULL, which is taken. */
bool sbx_view_set_take(json_t *object, const char *key, json_t *value);

/* The report of an execution, from the core or else from its place, where it lies before
 * the core has heard of the end. NULL: there is none, or it is none. */
json_t *sbx_view_report(const struct sbx_execution *execution);

#endif
