/*
 * launch.h - a plan on its way to a running sandbox. Private to launch*.c and
 * supervise.c.
 */
#ifndef SBX_SANDBOX_LAUNCH_H
#define SBX_SANDBOX_LAUNCH_H

#include "sandbox/orders.h"
#include "sandbox/plan.h"

#include <sys/types.h>

/* What bubblewrap says is kept up to here. */
#define SBX_SAID_SIZE 1024

/* Descriptors that bubblewrap gets beside 0 to 2: sources, and those named below. */
#define SBX_LAUNCH_FDS_MAX (SBX_PLAN_MOUNTS_MAX + 8)

struct sbx_flight {
    const struct sbx_plan *plan;
    char **argv; /* of bubblewrap; numbers in place of what only the launch has */
    struct sbx_strings texts;

    int sources[SBX_PLAN_MOUNTS_MAX]; /* of each mount; -1: none was opened for it */
    struct sbx_strings places;        /* for sbx-inner to look at, see orders.h */

    int fds[SBX_LAUNCH_FDS_MAX]; /* handed over, and ours to close; all above 2 */
    size_t fd_count;
    int said_write; /* becomes its descriptor 2; ours to close */

    int socket; /* our ends */
    int said;
    int status;
    int exec_failed; /* the errno of a failed exec comes from here, or end of file */

    pid_t bwrap; /* 0: not started, or reaped */
    uint64_t bwrap_start_ticks;
};

/* Makes and opens everything. 0 or a negative errno; sbx_flight_done in either case. */
int sbx_flight_init(struct sbx_flight *flight, const struct sbx_plan *plan,
                    struct sbx_error *err);
void sbx_flight_done(struct sbx_flight *flight);

/* Starts bubblewrap. All signals are blocked. */
int sbx_flight_start(struct sbx_flight *flight, struct sbx_error *err);

/* Notes when bubblewrap began, while it is there; and finds a child of ours that it has
 * left behind (0: none), once it is not. */
void sbx_flight_note_bwrap(struct sbx_flight *flight);
pid_t sbx_flight_find_orphan(const struct sbx_flight *flight);

/* Waits until it is over, passing signals on. As sbx_plan_run. */
int sbx_flight_watch(struct sbx_flight *flight, struct sbx_ending *ret_ending,
                     int *ret_status, struct sbx_error *err);

#endif
