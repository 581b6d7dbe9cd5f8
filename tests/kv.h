/*
 * kv.h - reads a report of --format kv with a JSON library, and compares it with a JSON
 * report flattened by the same library: by other means than the program's own.
 */
#ifndef SBX_TESTS_KV_H
#define SBX_TESTS_KV_H

#include <jansson.h>

/* NULL when the lines hold exactly the keys and values of the JSON text, else what
 * differs (static). */
const char *kv_difference(const char *kv, const char *json);

/* Fails the test on a difference. */
void kv_expect_same(const char *kv, const char *json);

/* The lines as one flat object, path to value; NULL when a line is not of the form
 * PATH=VALUE or a path is there twice. The caller's. */
json_t *kv_read(const char *kv);

/* The JSON that the lines are made of, put together again. The caller's. */
json_t *kv_rebuild(const char *kv);

#endif
