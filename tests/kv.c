/*
 * kv.c - see kv.h. Relies on jansson alone.
 */
#include "tests/kv.h"

#include "tests/fixture.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_SIZE 512

/* The value of one line, or NULL. */
static json_t *read_value(const char *text, size_t length)
{
    json_error_t error;
    return json_loadb(text, length, JSON_DECODE_ANY, &error);
}

json_t *kv_read(const char *kv)
{
    json_t *lines = json_object();
    const char *next;
    for (const char *line = kv; *line != '\0'; line = next) {
        char path[PATH_SIZE];
        const char *end = strchr(line, '\n');
        const char *equals = strchr(line, '=');
        if (end == NULL || equals == NULL || equals > end ||
            (size_t)(equals - line) >= sizeof path) {
            json_decref(lines);
            return NULL;
        }
        memcpy(path, line, (size_t)(equals - line));
        path[equals - line] = '\0';
        json_t *value = read_value(equals + 1, (size_t)(end - equals) - 1);
        if (value == NULL || json_object_get(lines, path) != NULL) {
            json_decref(value);
            json_decref(lines);
            return NULL;
        }
        (void)json_object_set_new(lines, path, value);
        next = end + 1;
    }
    return lines;
}

static void flatten(json_t *flat, const char *path, json_t *value)
{
    char item[PATH_SIZE];
    const char *key;
    json_t *child;
    size_t index;
    const char *dot = path[0] != '\0' ? "." : "";
    if (json_object_size(value) == 0 && json_array_size(value) == 0) {
        (void)json_object_set(flat, path, value); /* scalars have no size either */
        return;
    }
    json_object_foreach(value, key, child)
    {
        (void)snprintf(item, sizeof item, "%s%s%s", path, dot, key);
        flatten(flat, item, child);
    }
    json_array_foreach(value, index, child)
    {
        (void)snprintf(item, sizeof item, "%s%s%zu", path, dot, index);
        flatten(flat, item, child);
    }
}

const char *kv_difference(const char *kv, const char *json)
{
    static char difference[PATH_SIZE + 64];
    json_error_t error;
    json_t *report = json_loads(json, JSON_REJECT_DUPLICATES, &error);
    json_t *lines = kv_read(kv);
    json_t *flat = json_object();
    const char *path;
    json_t *value;
    const char *found = NULL;
    if (report == NULL || lines == NULL) {
        found = report == NULL ? "no JSON" : "not lines of PATH=VALUE";
    } else {
        flatten(flat, "", report);
        json_object_foreach(flat, path, value)
        {
            if (!json_equal(value, json_object_get(lines, path))) {
                (void)snprintf(difference, sizeof difference, "%s differs", path);
                found = difference;
            }
        }
        if (json_object_size(flat) != json_object_size(lines)) {
            found = found != NULL ? found : "another number of keys";
        }
    }
    json_decref(report);
    json_decref(lines);
    json_decref(flat);
    return found;
}

void kv_expect_same(const char *kv, const char *json)
{
    const char *difference = kv_difference(kv, json);
    ck_assert_msg(difference == NULL, "%s:\n%.4000s\n%.4000s", difference, kv, json);
}

static bool is_index(const char *part)
{
    return *part >= '0' && *part <= '9';
}

/* What is at `part` of a list or object; made when it is not there yet. */
static json_t *step(json_t *holder, const char *part, const char *next)
{
    bool list = json_is_array(holder);
    size_t index = list ? (size_t)strtoul(part, NULL, 10) : 0;
    json_t *child = list ? json_array_get(holder, index) : json_object_get(holder, part);
    if (child == NULL) {
        child = is_index(next) ? json_array() : json_object();
        int r = list ? json_array_append_new(holder, child)
                     : json_object_set_new(holder, part, child);
        ck_assert_int_eq(r, 0);
    }
    return child;
}

json_t *kv_rebuild(const char *kv)
{
    json_t *lines = kv_read(kv);
    json_t *report = json_object();
    const char *path;
    json_t *value;
    ck_assert_msg(lines != NULL, "not lines of PATH=VALUE: %.4000s", kv);
    json_object_foreach(lines, path, value)
    {
        char copy[PATH_SIZE];
        char *part = copy;
        json_t *holder = report;
        (void)snprintf(copy, sizeof copy, "%s", path);
        for (char *dot; (dot = strchr(part, '.')) != NULL; part = dot + 1) {
            *dot = '\0';
            holder = step(holder, part, dot + 1);
        }
        int r = json_is_array(holder) ? json_array_append(holder, value)
                                      : json_object_set(holder, part, value);
        ck_assert_int_eq(r, 0);
    }
    json_decref(lines);
    return report;
}
