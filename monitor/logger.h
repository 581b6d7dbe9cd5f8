/*
 * logger.h - the way of lines and rows from monitor or guard to the sinks.
 *
 * Nobody of ours may wait for a sink, so a servant (sbx-logger) of the guard does all
 * formatting and writing. What it is told goes through a socket, without ever waiting: a
 * message that does not fit is dropped. How many were sent, and how many of them each
 * sink has, is counted in memory that all share; the difference is in the report's
 * warnings. At the end the servant has SBX_LOGGER_BOUND_US to write what is left.
 *
 * Without any sink and timeline nothing of this is started, and a call here does nothing.
 */
#ifndef SBX_MONITOR_LOGGER_H
#define SBX_MONITOR_LOGGER_H

#include "monitor/judge.h"
#include "monitor/log.h"
#include "monitor/log_sinks.h"
#include "monitor/record.h"
#include "monitor/timeline.h"
#include "reaper/servant.h"
#include "reaper/terminate.h"

#include <sbx/sbx.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SBX_LOGGER_BOUND_US UINT64_C(2000000)

/* In memory that guard, monitor and servant share. */
struct sbx_log_area {
    _Atomic uint64_t lines_sent;
    _Atomic uint64_t rows_sent;
    struct sbx_log_told sinks[SBX_LOG_SINK_MAX];
    struct sbx_log_told timeline;
    _Atomic bool timeline_begun; /* emptied, and has its header */
    _Atomic bool mute;           /* no servant could be started for the end */
    /* What was told already, whoever of the two did it. */
    bool started;
    bool breached;
    uint64_t warned;
    enum sbx_phase phase;
};

struct sbx_logger_sink {
    struct sbx_log_target target; /* borrowed */
    struct sbx_log_file file;
};

struct sbx_logger {
    const struct sbx_log_plan *plan; /* borrowed */
    struct sbx_log_identity identity;
    int polite_signal;
    struct sbx_log_area *area;
    size_t sink_count;
    struct sbx_logger_sink sinks[SBX_LOG_SINK_MAX];
    bool has_timeline;
    struct sbx_timeline_file timeline;
    bool refused; /* nothing will run: an earlier timeline stays as it is */
    struct sbx_servant servant;
    int socket; /* to the servant; -1: none */
};

#define SBX_NO_LOGGER                                                                    \
    ((struct sbx_logger){.servant = {.pid = 0, .pidfd = -1},                             \
                         .socket = -1,                                                   \
                         .timeline = {.file = {.fd = -1, .node = -1}, .directory = -1}})

/* Opens the files that the plan names, as many as can be opened; the others are left out.
 * Plan, identity and area are borrowed, and set in *logger by the caller. 0, or the first
 * failure as a negative errno, stage check. */
int sbx_logger_open(struct sbx_logger *logger, struct sbx_error *err);

/* Leaves standard error out: the caller has its own way to say there what is said. */
void sbx_logger_without_stderr(struct sbx_logger *logger);

/* Starts the servant, if there is anything for it to do. 0 or a negative errno. */
int sbx_logger_start(struct sbx_logger *logger, struct sbx_error *err);

/* Tells what has become known since it was called last: the start, warnings, the breach,
 * another phase. */
void sbx_logger_look(struct sbx_logger *logger, const struct sbx_record *record,
                     enum sbx_phase phase);

/* One sample. */
void sbx_logger_row(const struct sbx_logger *logger, const struct sbx_sample *sample);

/* The record is complete: tells the end, sees the servant to its own, and adds to the
 * record's warnings what sinks have lost. Starts a servant where none is left for that.
 */
void sbx_logger_finish(struct sbx_logger *logger, struct sbx_record *record);

/* Ends the servant, with a little time for what it was told: for a guard that is about to
 * end every child that it has. */
void sbx_logger_pause(struct sbx_logger *logger);

/* Ends the servant and closes all. */
void sbx_logger_close(struct sbx_logger *logger);

/* Whether standard error has got, as lines, what the plain line would say. */
bool sbx_logger_has_stderr(const struct sbx_logger *logger);

#define SBX_LOGGER_COMPLAINTS_SIZE ((SBX_LOG_SINK_MAX + 1) * (SBX_WARNING_SIZE + 16))

/* What is to be said on standard error about lines that other sinks have lost: a line
 * each, or nothing. Returns the length. */
size_t sbx_logger_complaints(const struct sbx_logger *logger, char *buffer, size_t size);

/* --- log_servant.c --- */

enum sbx_log_message_kind { SBX_LOG_TELL = 1, SBX_LOG_ROW, SBX_LOG_END };

/* What goes through the socket; as much of it as the kind needs. */
struct sbx_log_message {
    enum sbx_log_message_kind kind;
    union {
        struct sbx_log_line line;
        struct sbx_timeline_row row;
        uint64_t until_us; /* CLOCK_MONOTONIC: be gone by then */
    } is;
};

/* What the servant does, from its start to its end. */
struct sbx_log_service {
    struct sbx_logger *logger;
    int socket;     /* its own end */
    pid_t guard;    /* what syslog calls the run */
    uint64_t bound; /* of the timeline's file */
};
void sbx_log_serve(void *context);

#endif
