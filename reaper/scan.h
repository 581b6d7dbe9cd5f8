/*
 * scan.h - one look at every process of the host, by libproc2.
 *
 * For what descent through `children` files cannot tell: kernels without
 * CONFIG_PROC_CHILDREN, and orphans of an attached tree (attached.h). Costs microseconds
 * for every process of the host, so nothing else uses it. The library is loaded when it
 * is asked for, not before: a plain run does not pay for it.
 */
#ifndef SBX_REAPER_SCAN_H
#define SBX_REAPER_SCAN_H

#include <sbx/sbx.h>
#include <stdint.h>
#include <sys/types.h>

struct sbx_scan;

/* Loads libproc2 and prepares a scan. 0, -ELIBACC when the library cannot be had, or
 * another negative errno. */
int sbx_scan_new(struct sbx_scan **ret_scan, struct sbx_error *err);
void sbx_scan_free(struct sbx_scan *scan);

struct sbx_scanned {
    pid_t pid;
    pid_t ppid;
    pid_t pgrp;
    pid_t session;
    uint64_t start_ticks; /* since boot */
};

/* Called with each process. Nonzero stops the scan and is returned. */
typedef int sbx_scan_visit(const struct sbx_scanned *process, void *context);

/* Visits every process of the host in one pass. 0, what visit returned, or a negative
 * errno. */
int sbx_scan_run(struct sbx_scan *scan, sbx_scan_visit *visit, void *context,
                 struct sbx_error *err);

#endif
