/*
 * status.h - what an execution is called, from its report.
 */
#ifndef SBX_SUPERVISOR_STATUS_H
#define SBX_SUPERVISOR_STATUS_H

#include <stddef.h>

enum sbx_execution_status {
    SBX_EXECUTION_RUNNING = 0,
    SBX_EXECUTION_COMPLETED, /* exited with 0, nobody is left */
    SBX_EXECUTION_FAILED,    /* any other end; launch-failed; survivors */
    SBX_EXECUTION_TIMED_OUT, /* breach of wall, idle */
    SBX_EXECUTION_BREACHED,  /* any other breach */
    SBX_EXECUTION_CANCELLED,
    SBX_EXECUTION_LOST, /* what became of it is not known as a whole */
};

/* "running", "completed", "failed", "timed_out", "breached", "cancelled", "lost". */
const char *sbx_execution_status_name(enum sbx_execution_status status);

/* Of a report as the run has written it (JSON, one line). What is no report is lost. */
enum sbx_execution_status sbx_execution_status_of(const char *report, size_t length);

#endif
