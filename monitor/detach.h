/*
 * detach.h - a run that goes on when its caller does not: the guard in a fresh process
 * and session, while the calling process waits only until the command runs, says which
 * run that is, and exits.
 *
 * Until the caller has been told, the run is the caller's: who is gone by then, or cannot
 * be told, has a run that nobody knows of, and that is ended in order.
 */
#ifndef SBX_MONITOR_DETACH_H
#define SBX_MONITOR_DETACH_H

#include "monitor/spec.h"

#include <sbx/sbx.h>
#include <stdbool.h>

struct sbx_detach {
    int pipe; /* the guard's way to the calling process; -1: not detached, or everything
                 is told */
    bool forked; /* in the calling process: there is, or was, a guard, who publishes */
};

/* Whether --detach goes together with the rest of the specification. 0 or a negative
 * errno. */
int sbx_detach_check(const struct sbx_spec *spec, struct sbx_error *err);

/*
 * Forks. 1 in the new process, which is in a session of its own, without the descriptors
 * of the caller that the run does not need, and goes on as the guard. 0 in the calling
 * process once the command runs and standard output says so, with *ret_status 0; or when
 * nothing was started, with the status that the guard gives to that. Else a negative
 * errno and *ret_status 125: nobody was told, and no run goes on. Every signal is blocked
 * when it returns in the calling process.
 */
int sbx_detach(struct sbx_detach *detach, const struct sbx_spec *spec, const char *run_id,
               int *ret_status, struct sbx_error *err);

/* In the guard: the command runs. False: the calling process is gone. */
bool sbx_detach_tell_start(struct sbx_detach *detach);

/* In the guard: it is over, with that status. Nothing happens if the start was told. */
void sbx_detach_tell_end(struct sbx_detach *detach, int status);

#endif
