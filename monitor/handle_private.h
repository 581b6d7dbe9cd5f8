/*
 * handle_private.h - a run as its caller holds it, shared by the files that make up that
 * side: handle.c (runs of sbx-monitor, and all that is done with a run), handle_fork.c
 * (runs whose guard is forked, and notices).
 */
#ifndef SBX_MONITOR_HANDLE_PRIVATE_H
#define SBX_MONITOR_HANDLE_PRIVATE_H

#include "monitor/handle.h"
#include "monitor/spec.h"
#include "monitor/wire.h"

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct sbx_run_notices;

struct sbx_run {
    int socket;
    pid_t owner;     /* whose run it is: a process that it forks has a copy */
    int guard_pidfd; /* -1 unless it became our child */
    bool greeted;    /* it has taken the specification */
    bool ended;      /* it is gone */
    bool answered;   /* `answer` holds the result, without its report as yet */
    struct sbx_wire_result answer;
    char *report;
    size_t report_length; /* of what has come */
    struct sbx_result result;
    char **strings; /* handed out by sbx_run_report_string */
    size_t string_count;
    struct sbx_run_notices *notices; /* that have come; NULL: none are told */
};

/* One that has nothing yet; NULL: no memory, and *err says so. */
struct sbx_run *sbx_run_new(struct sbx_error *err);

/* Above 2, so that it never stands in for a standard stream that the caller has closed;
 * takes `fd`. -1 and errno. */
int sbx_run_above_standard(int fd);

/* Caller's end and guard's, both above 2. */
int sbx_run_open_sockets(int ret_ends[static 2], struct sbx_error *err);

/* What only a run of the library has to refuse. */
int sbx_run_check_settings(const struct sbx_spec *spec, struct sbx_error *err);

/* --- handle_fork.c --- */

/* One has come. */
void sbx_run_take_notice(struct sbx_run *run, const struct sbx_wire_notice *notice);

#endif
