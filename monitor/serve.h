/*
 * serve.h - the guard's side of a run that a caller has started through the library: the
 * specification comes from its socket, and progress and the result go there.
 *
 * A caller that is slow, or never reads, holds up nobody: progress is dropped, and the
 * result has its room in the socket kept free. Only where the kernel allows less buffer
 * than a report can need is it waited for, with a bound.
 */
#ifndef SBX_MONITOR_SERVE_H
#define SBX_MONITOR_SERVE_H

#include "monitor/record.h"
#include "monitor/spec.h"
#include "reaper/guard.h"

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeros beside the first three to begin with. */
struct sbx_service {
    int socket;          /* to the caller */
    int caller_pidfd;    /* the same, as a process */
    int shared_fd;       /* guard and monitor hold it until they end; -1: none */
    bool notices;        /* the caller has forked this guard, and is told what happens */
    uint64_t period_us;  /* of progress; 0: none is wanted */
    uint64_t next_us;    /* progress is due */
    uint64_t sampled_us; /* of the last one that was sent */
};

/* In a process that was forked to be the guard of this run, which has its standard
 * streams, and all else that the caller had open: closes that, and runs. All signals are
 * blocked. */
void sbx_serve_forked(const struct sbx_spec *spec, struct sbx_service *service);

/* In another child of the guard: closes what says that the run is there. One that hangs
 * must not look like a run. */
void sbx_service_leave(struct sbx_service *service);

/* Sends progress if it is due and there is something new. Returns when it wants to be
 * called again (CLOCK_MONOTONIC). */
uint64_t sbx_service_progress(struct sbx_service *service,
                              const struct sbx_record *record);

struct sbx_service_result {
    const struct sbx_record *record;
    int status;                    /* the exit status that goes with it */
    const struct sbx_error *error; /* what failed beside the record's own error */
    const char *report;
    size_t length; /* 0: there is no report */
};

/* Sends the result of a run, and its report. */
void sbx_service_finish(const struct sbx_service *service,
                        const struct sbx_service_result *result);

#endif
