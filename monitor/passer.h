/*
 * passer.h - the work of a servant: passes on what comes out of one pipe, counts it, and
 * holds the bound to the byte.
 */
#ifndef SBX_MONITOR_PASSER_H
#define SBX_MONITOR_PASSER_H

#include "monitor/capture.h"

struct sbx_passer {
    struct sbx_capture_area *area;
    struct sbx_capture_state *state; /* of this stream */
    int source;
    int target;
    int order_event;
    int notice_event;
    uint64_t limit_bytes; /* more than that, of both streams, is news; 0: none */
    uint64_t bound_bytes; /* so many are passed on, of both streams; 0: all */
};

/* Closes every other descriptor of the calling process, and works until all writers are
 * gone or an order ends it. SIGPIPE, SIGXFSZ and SIGTTOU have to be blocked. */
void sbx_pass_on(const struct sbx_passer *passer);

#endif
