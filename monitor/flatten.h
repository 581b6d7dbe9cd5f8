/*
 * flatten.h - a JSON text of our own writer (monitor/json.h) as a row of paths and
 * values: {"a":{"b":[7]}} is "a.b.0" and "7".
 *
 * Every form of the report but JSON is made from the one JSON text by this walk, so that
 * keys and values are the same by construction. It is a reader of what we wrote ourselves
 * and no parser of JSON from anywhere: keys are taken to be plain names without dots and
 * quotes, and blanks between the tokens are not expected. A text that is not of that form
 * is refused, never read beyond its end. Allocates nothing, changes nothing.
 */
#ifndef SBX_MONITOR_FLATTEN_H
#define SBX_MONITOR_FLATTEN_H

#include <stdbool.h>
#include <stddef.h>

#define SBX_FLATTEN_PATH_SIZE 256

/* A value and where it stands. */
struct sbx_flat {
    const char *path;  /* "termination.strays.0.pid", NUL-terminated */
    const char *value; /* as it stands in the text: 4711, true, "sleep" with its quotes
                          and escapes; [] and {} for what is empty */
    size_t length;     /* of value, which is not terminated */
};

/* Called for one value after the other in the order of the text; false ends the walk. */
typedef bool sbx_flatten_callback(const struct sbx_flat *flat, void *context);

/*
 * Walks through `length` bytes of JSON, an object or a list. A list or object that is
 * empty is a value of its own, so that nothing is lost. Returns 0, also when the callback
 * has ended it; -EINVAL when the text is not of our writer's form, -ENOBUFS when a path
 * does not fit; what came before has been called back then.
 */
int sbx_flatten(const char *json, size_t length, sbx_flatten_callback *callback,
                void *context);

/* The value at that path. False: there is none, *ret_flat is untouched. */
bool sbx_flatten_find(const char *json, size_t length, const char *path,
                      struct sbx_flat *ret_flat);

#endif
