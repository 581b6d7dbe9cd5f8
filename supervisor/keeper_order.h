/*
 * keeper_order.h - what a keeper is told by whom starts it (keeper_spawn.c), in a sealed
 * file in memory: this head, then the specification as text (monitor/wire.h), then the
 * first bytes of standard input.
 */
#ifndef SBX_SUPERVISOR_KEEPER_ORDER_H
#define SBX_SUPERVISOR_KEEPER_ORDER_H

#include <stdint.h>

#define SBX_KEEPER_MAGIC UINT64_C(0x3172657065656b73)
#define SBX_KEEPER_PROTOCOL 1U

/* More than a request can hold. */
#define SBX_KEEPER_SPEC_MAX ((uint64_t)16 * 1024 * 1024)
#define SBX_KEEPER_STDIN_MAX ((uint64_t)16 * 1024 * 1024)

struct sbx_keeper_order {
    uint64_t magic;
    uint32_t protocol;
    uint32_t stdin_kind; /* enum sbx_request_stdin */
    uint64_t spec_length;
    uint64_t stdin_length;
    uint64_t output_limit_bytes;
    uint64_t event_limit_count;
    uint32_t pause_when_full;
    uint32_t unused;
    uint64_t descriptors_soft; /* RLIMIT_NOFILE of the command, which the service may have
                                  raised for itself */
};

#endif
