/*
 * watch.h - the monitor process of one run: launch or attach, sample, judge, end, sweep.
 * Everything the run has is in one struct.
 */
#ifndef SBX_MONITOR_WATCH_H
#define SBX_MONITOR_WATCH_H

#include "monitor/attach.h"
#include "monitor/capture.h"
#include "monitor/grouped.h"
#include "monitor/logger.h"
#include "monitor/pss.h"
#include "monitor/record.h"
#include "monitor/spec.h"
#include "reaper/guard.h"

#include <stdbool.h>

/* What the monitor works with and others have made; all borrowed. */
struct sbx_watch_means {
    const struct sbx_pair_link *link;
    struct sbx_pss_area *pss;     /* shared with the reader */
    struct sbx_capture *capture;  /* what becomes of the command's streams */
    struct sbx_logger *logger;    /* is told what happens */
    struct sbx_attach_roll *roll; /* shared with the guard */
    struct sbx_grouped *grouped;  /* the cgroup of the run, if it has one */
    unsigned release;             /* of the standard streams (release.h), at the start */
    bool tells;                   /* the guard is to hear what is new (notice.h) */
};

/* Does the whole work of a run in the calling process, which becomes a child subreaper,
 * and keeps *record current. When it returns the record is complete; it never fails
 * otherwise than by what the record says. */
void sbx_watch_run(const struct sbx_spec *spec, struct sbx_record *record,
                   const struct sbx_watch_means *means);

/* For a guard whose monitor is gone: ends every descendant of the calling process and
 * completes the record, whose outcome is lost unless it was complete. */
void sbx_watch_lost(const struct sbx_spec *spec, struct sbx_record *record,
                    const struct sbx_pair *pair, struct sbx_grouped *grouped);

#endif
