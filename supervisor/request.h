/*
 * request.h - what a caller asks for, from JSON to a specification that can be run.
 *
 * The keys of a request are the long options of sbx-watch and sbx-run, with `_` for `-`:
 * the option tables are the only place that knows their names, and values are set by
 * sbx_spec_set and sbx_sandbox_set, so that a request and a command line mean the same.
 * jansson is known to this file and to view.c alone.
 *
 * A request is checked as a whole before anything happens: an unknown key, a value that
 * does not parse, or one that the operator does not allow, is an error that names the
 * key.
 */
#ifndef SBX_SUPERVISOR_REQUEST_H
#define SBX_SUPERVISOR_REQUEST_H

#include "supervisor/place.h"

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A request that is larger, or has more values in it, is refused: what it costs while it
 * is parsed is bounded by both. */
#define SBX_REQUEST_SIZE_MAX ((size_t)8 * 1024 * 1024)
#define SBX_REQUEST_VALUES_MAX ((size_t)64 * 1024)

/* What the operator allows, and who asks. All borrowed. */
struct sbx_request_policy {
    const unsigned char *key;  /* SBX_KEY_SIZE bytes, of the fingerprint */
    uint64_t max_memory_bytes; /* per execution; 0: no bound. One without a memory limit
                                  gets this one, one with a higher is refused (-EPERM) */
    uint64_t max_output_bytes; /* bounds of the keys output_limit and event_limit */
    uint64_t max_events_count;
    uint64_t max_retention_us;
    uint64_t default_retention_us;
    bool force_sandbox;          /* one without `sandbox` gets an empty one */
    const char *sandbox_program; /* absolute path of sbx-run */
    bool trusted;                /* asked for by root or by the user of sbxd itself */
    uid_t uid;                   /* of who asks */
    gid_t gid;
};

enum sbx_request_stdin {
    SBX_REQUEST_STDIN_NULL = 0,
    SBX_REQUEST_STDIN_OPEN, /* a pipe that stays open for more */
    SBX_REQUEST_STDIN_DATA, /* a pipe with these bytes, and its end */
};

struct sbx_request {
    struct sbx_facts facts; /* all but created_real_us and boot; id "": none was given */
    struct sbx_spec *spec;  /* the whole command line in it: sandbox, launcher, command */
    enum sbx_request_stdin stdin_kind;
    char *stdin_data; /* owned */
    size_t stdin_length;
};

/* Parses, checks and completes. 0 and a request that is the caller's, or: -EINVAL: not
 * JSON, not an object, unknown key, wrong type or value; -EPERM: the operator does not
 * allow that; -ENOMEM. The message names the key ("limits.wall: ..."). */
int sbx_request_parse(const char *json, size_t length,
                      const struct sbx_request_policy *policy,
                      struct sbx_request **ret_request, struct sbx_error *err);

void sbx_request_free(struct sbx_request *request);

#endif
