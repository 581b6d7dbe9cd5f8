/*
 * sandbox.h - what was asked for of a confinement. Filled in by option name (options.c),
 * constant from then on. Paths are as they were written: the plan is what looks at them.
 */
#ifndef SBX_SANDBOX_SANDBOX_H
#define SBX_SANDBOX_SANDBOX_H

#include "monitor/spec.h"

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sbx_network { SBX_NETWORK_HOST = 0, SBX_NETWORK_NONE };
enum sbx_filter { SBX_FILTER_DEFAULT = 0, SBX_FILTER_NONE, SBX_FILTER_OWN };

/* --bind, --ro-bind. */
struct sbx_asked_bind {
    char *source;      /* owned */
    char *destination; /* owned; NULL: where the source is */
    bool writable;
};

struct sbx_sandbox {
    /* Command, environment, ceilings and user are kept, parsed and spelled in messages as
     * those of a run. */
    struct sbx_spec *spec;

    struct sbx_asked_bind *binds;
    size_t bind_count;
    struct sbx_strings masks;
    bool no_default_masks;
    char *directory; /* owned; NULL: the caller's, where it is inside */
    enum sbx_network network;
    bool proc;
    char *self_exe;          /* owned; NULL: none */
    uint64_t tmp_size_bytes; /* 0: not asked for */
    enum sbx_filter filter;
    int filter_fd; /* the caller's, with SBX_FILTER_OWN */
    bool strict_stdin;
    char *bwrap; /* owned; NULL: looked up in PATH */
};

#define SBX_TMP_SIZE_DEFAULT (UINT64_C(512) << 20)
#define SBX_TMP_SIZE_MIN (UINT64_C(1) << 20)

#endif
