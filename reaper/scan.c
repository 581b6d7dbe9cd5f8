/*
 * scan.c - see scan.h. The only file that calls libproc2, and it does so through pointers
 * that dlsym gave: nothing links against the library.
 *
 * The numbers of its items are compiled in from its header, and they differ between the
 * library's sonames. So exactly the soname of that header is loaded, never a newer one.
 */
#include "reaper/scan.h"

#include "base/error.h"

#include <dlfcn.h>
#include <errno.h>
#include <libproc2/pids.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libproc2.so.0"

enum { ITEM_PID, ITEM_PPID, ITEM_PGRP, ITEM_SESSION, ITEM_START, ITEM_COUNT };

struct sbx_scan {
    void *library;
    struct pids_info *info;
    __typeof__(procps_pids_new) *pids_new;
    __typeof__(procps_pids_reap) *pids_reap;
    __typeof__(procps_pids_unref) *pids_unref;
};

static const char *load_error(void)
{
    const char *text = dlerror();
    return text != NULL ? text : "no reason given";
}

static void *find(const struct sbx_scan *scan, const char *name, struct sbx_error *err)
{
    void *symbol = dlsym(scan->library, name);
    if (symbol == NULL) {
        (void)sbx_error_set(err, ELIBACC, SBX_STAGE_MONITOR,
                            "%s is not the library that it should be (%s): install that "
                            "of procps-ng 4.0 under this name",
                            LIBRARY, load_error());
    }
    return symbol;
}

/* The library keeps buffers of its own in static pointers and frees them never: taken out
 * of memory (dlclose alone) and loaded again, it would leak 260 KiB each time. */
static int load(struct sbx_scan *scan, struct sbx_error *err)
{
    scan->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (scan->library == NULL) {
        (void)sbx_error_set(err, ELIBACC, SBX_STAGE_MONITOR,
                            "cannot load %s (%s): the processes of the host must be "
                            "scanned with it; install the library %s of procps-ng",
                            LIBRARY, load_error(), LIBRARY);
        return -ELIBACC;
    }
    scan->pids_new = (__typeof__(scan->pids_new))find(scan, "procps_pids_new", err);
    scan->pids_reap = (__typeof__(scan->pids_reap))find(scan, "procps_pids_reap", err);
    scan->pids_unref = (__typeof__(scan->pids_unref))find(scan, "procps_pids_unref", err);
    bool found =
        scan->pids_new != NULL && scan->pids_reap != NULL && scan->pids_unref != NULL;
    return found ? 0 : -ELIBACC;
}

int sbx_scan_new(struct sbx_scan **ret_scan, struct sbx_error *err)
{
    enum pids_item items[ITEM_COUNT] = {
        [ITEM_PID] = PIDS_ID_PID,       [ITEM_PPID] = PIDS_ID_PPID,
        [ITEM_PGRP] = PIDS_ID_PGRP,     [ITEM_SESSION] = PIDS_ID_SESSION,
        [ITEM_START] = PIDS_TICS_BEGAN,
    };
    struct sbx_scan *scan = calloc(1, sizeof(*scan));
    if (scan == NULL) {
        return sbx_error_set(err, ENOMEM, SBX_STAGE_MONITOR,
                             "no memory for a scan of the host's processes");
    }
    int rc = load(scan, err);
    if (rc == 0) {
        rc = scan->pids_new(&scan->info, items, ITEM_COUNT);
        if (rc < 0) {
            rc = sbx_error_set(err, -rc, SBX_STAGE_MONITOR,
                               "%s cannot prepare a scan of the host's processes: %s",
                               LIBRARY, sbx_errno_text(-rc).text);
        }
    }
    if (rc < 0) {
        sbx_scan_free(scan);
        return rc;
    }
    *ret_scan = scan;
    return 0;
}

void sbx_scan_free(struct sbx_scan *scan)
{
    if (scan == NULL) {
        return;
    }
    if (scan->info != NULL) {
        (void)scan->pids_unref(&scan->info);
    }
    if (scan->library != NULL) {
        (void)dlclose(scan->library);
    }
    free(scan);
}

int sbx_scan_run(struct sbx_scan *scan, sbx_scan_visit *visit, void *context,
                 struct sbx_error *err)
{
    errno = 0;
    struct pids_fetch *fetch = scan->pids_reap(scan->info, PIDS_FETCH_TASKS_ONLY);
    if (fetch == NULL) {
        int code = errno != 0 ? errno : EIO;
        return sbx_error_set(err, code, SBX_STAGE_MONITOR,
                             "%s cannot scan the host's processes: %s", LIBRARY,
                             sbx_errno_text(code).text);
    }
    for (int i = 0; i < fetch->counts->total; i++) {
        const struct pids_result *result = fetch->stacks[i]->head;
        const struct sbx_scanned process = {
            .pid = result[ITEM_PID].result.s_int,
            .ppid = result[ITEM_PPID].result.s_int,
            .pgrp = result[ITEM_PGRP].result.s_int,
            .session = result[ITEM_SESSION].result.s_int,
            .start_ticks = result[ITEM_START].result.ull_int,
        };
        int rc = visit(&process, context);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}
