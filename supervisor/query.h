/*
 * query.h - what a request to the service is about: its path and its query, taken apart.
 *
 * Strict: a path is one of a list, spelled in one way but for percent-encoding in the id;
 * a parameter is known to the path, is there once at most, and its value parses as a
 * whole. Pure and without allocation; what comes in is from anybody.
 */
#ifndef SBX_SUPERVISOR_QUERY_H
#define SBX_SUPERVISOR_QUERY_H

#include "supervisor/place.h"

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stdint.h>

enum sbx_resource {
    SBX_RESOURCE_EXECUTIONS = 0, /* /v1/executions */
    SBX_RESOURCE_EXECUTION,      /* /v1/executions/ID */
    SBX_RESOURCE_EVENTS,         /* and below that, by name */
    SBX_RESOURCE_STDOUT,
    SBX_RESOURCE_STDERR,
    SBX_RESOURCE_STDIN,
    SBX_RESOURCE_SIGNAL,
    SBX_RESOURCE_CANCEL,
    SBX_RESOURCE_PAUSE,
    SBX_RESOURCE_RESUME,
    SBX_RESOURCE_SHUTDOWN, /* /v1/shutdown */
    SBX_RESOURCE_STATS,    /* /v1/stats */
    SBX_RESOURCE_VERIFY,   /* /v1/verify */
    SBX_RESOURCE_METRICS,  /* /metrics */
};

/* `id` is "" where the path has none. 0; -ENOENT: there is no such path; -EINVAL: its id
 * is none, or its percent-encoding is wrong. Outputs are untouched on failure. */
int sbx_path_parse(const char *path, enum sbx_resource *ret_resource,
                   char ret_id[static SBX_ID_SIZE], struct sbx_error *err);

/* Parameters, as a set. */
enum sbx_parameter {
    SBX_PARAMETER_AFTER = 1,  /* after=SEQUENCE */
    SBX_PARAMETER_OFFSET = 2, /* offset=BYTES */
    SBX_PARAMETER_WAIT = 4,   /* wait=DURATION; empty: 25 s; at most 60 s are waited */
    SBX_PARAMETER_CLOSE = 8,  /* close=1 or close=0 */
};

#define SBX_WAIT_DEFAULT_US UINT64_C(25000000)
#define SBX_WAIT_MAX_US UINT64_C(60000000)

struct sbx_query {
    uint64_t after;
    uint64_t offset;
    uint64_t wait_us; /* 0: not at all */
    bool has_wait;    /* it was there, be it 0 */
    bool close;
};

/* `query` is what stands behind the question mark; NULL: nothing. `allowed`: which
 * parameters may be there. 0 or -EINVAL, *ret_query untouched. */
int sbx_query_parse(const char *query, unsigned allowed, struct sbx_query *ret_query,
                    struct sbx_error *err);

#endif
