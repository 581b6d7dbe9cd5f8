/*
 * supervisor_private.h - all executions of a state directory, as the files see them that
 * make up the supervisor: supervisor_options.c (what was set), supervisor.c (opening,
 * the loop, capacity and retention, the calls of <sbx/sbx.h>), execution.c (one of them,
 * and its keeper), waiter.c (who waits for what).
 */
#ifndef SBX_SUPERVISOR_SUPERVISOR_PRIVATE_H
#define SBX_SUPERVISOR_SUPERVISOR_PRIVATE_H

#include "monitor/loop.h"
#include "supervisor/supervisor.h"

struct sbx_supervisor {
    struct sbx_supervisor_plan plan;
    struct sbx_state *state; /* NULL: not open */
    struct sbx_loop *loop;
};

#endif
