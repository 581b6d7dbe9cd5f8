/*
 * json.h - a small JSON writer over a buffer of the caller's.
 *
 * Writes compact JSON: nesting, commas, numbers, escaped strings. An overflow is sticky
 * and told by sbx_json_finish, so that callers write on without looking. The writer is a
 * plain value: a copy taken before a part and put back after it takes that part away
 * again. Never allocates, never reads back what it wrote.
 */
#ifndef SBX_MONITOR_JSON_H
#define SBX_MONITOR_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SBX_JSON_DEPTH 8

struct sbx_json {
    char *buffer;
    size_t size;
    size_t used;
    bool overflow;              /* something did not fit: all else is left out */
    bool comma;                 /* the next value needs one in front */
    unsigned depth;             /* how many containers are open */
    char close[SBX_JSON_DEPTH]; /* the bracket that ends each of them */
};

void sbx_json_init(struct sbx_json *json, char *buffer, size_t size);

/*
 * All values: `key` is one of our own names (ASCII, written as it is), NULL inside an
 * array and for the outermost value. Opening more than SBX_JSON_DEPTH containers is an
 * overflow.
 */
void sbx_json_object(struct sbx_json *json, const char *key);
void sbx_json_array(struct sbx_json *json, const char *key);
void sbx_json_close(struct sbx_json *json);
void sbx_json_number(struct sbx_json *json, const char *key, uint64_t value);
void sbx_json_bool(struct sbx_json *json, const char *key, bool value);

/* Text that is valid UTF-8 without control characters; only JSON's own escapes are added.
 */
void sbx_json_string(struct sbx_json *json, const char *key, const char *text);

/* Bytes from outside (a name, an argument): spelled by sbx_text_escape, then as JSON. */
void sbx_json_bytes(struct sbx_json *json, const char *key, const char *bytes,
                    size_t length);

/* Ends the text with a line feed and a NUL. Returns its length without the NUL, -ENOBUFS
 * after an overflow, -EINVAL when a container is still open. */
ssize_t sbx_json_finish(struct sbx_json *json);

#endif
