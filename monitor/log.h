/*
 * log.h - what a run tells while it goes on and when it ends, as lines of fixed size, and
 * how such a line is spelled.
 *
 * Which sinks there are, and at which level, is the plan: part of the specification. A
 * line is built from the record by whoever has something to tell (log.c), goes to the
 * servant that writes (logger.h), and is spelled there as key=value, as JSON or as fields
 * of the journal (log_format.c): the same keys and values in each. Nothing here writes
 * anywhere.
 */
#ifndef SBX_MONITOR_LOG_H
#define SBX_MONITOR_LOG_H

#include "monitor/record.h"

#include <sbx/sbx.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SBX_LOG_SINK_MAX 8

enum sbx_log_kind {
    SBX_LOG_STDERR = 0,
    SBX_LOG_FILE,
    SBX_LOG_SYSLOG,
    SBX_LOG_JOURNAL,
};

enum sbx_log_level {
    SBX_LOG_ERROR = 0, /* lost, a failed launch, survivors */
    SBX_LOG_WARNING,   /* a breach, warnings */
    SBX_LOG_INFO,      /* the end of the run */
    SBX_LOG_DEBUG,     /* the start, every phase of the ending */
};

enum sbx_log_form { SBX_LOG_KV = 0, SBX_LOG_JSON };

struct sbx_log_target {
    enum sbx_log_kind kind;
    char *path; /* of a file, owned; else NULL */
};

/* What the options ask for. */
struct sbx_log_plan {
    struct sbx_log_target targets[SBX_LOG_SINK_MAX];
    size_t target_count;
    int level;           /* enum sbx_log_level, default info */
    int form;            /* enum sbx_log_form */
    bool verbose;        /* level debug, and stderr where no sink is named */
    char *timeline_path; /* owned; NULL: none */
    int directory_fd;    /* where relative paths start; -1: none held */
};

enum sbx_log_event {
    SBX_LOG_STARTED = 0,
    SBX_LOG_PHASE,
    SBX_LOG_WARNED,
    SBX_LOG_BREACHED,
    SBX_LOG_FINISHED,
};

/* One thing told. What does not go with the event is left out of its line. */
struct sbx_log_line {
    enum sbx_log_event event;
    enum sbx_log_level level;
    uint64_t at_real_us;
    pid_t leader_pid;  /* 0: none */
    const char *phase; /* of the ending; static storage */
    int polite_signal; /* sent in this phase; 0: none */
    struct sbx_breach breach;
    enum sbx_outcome outcome;
    bool has_exit_code;
    int exit_code;
    int signal;
    int cancel_signal;
    uint64_t wall_us;
    uint64_t cpu_us;
    uint64_t memory_peak_bytes;
    uint64_t killed_count;
    uint64_t strays_count;
    uint64_t survivors_count;
    uint64_t warnings_count;
    enum sbx_stage stage; /* of a failure */
    char message[SBX_ERROR_MESSAGE_SIZE];
};

/* What is the same in every line of a run. Borrowed. */
struct sbx_log_identity {
    const char *run_id; /* at most SBX_RUN_ID_SIZE bytes */
    char *const *argv;  /* NULL: no command was understood */
};

/* How many lines or rows are where they should be, and the errno of what went wrong
 * first; 0: nothing. In memory that others read. */
struct sbx_log_told {
    _Atomic uint64_t written;
    _Atomic int code;
};

/* Keeps the first errno; `code` is positive. */
void sbx_log_fault(struct sbx_log_told *told, int code);

/* --- log.c: lines out of the record --- */

void sbx_log_started(struct sbx_log_line *line, const struct sbx_record *record);
/* `polite_signal`: what members are sent now; 0: nothing. */
void sbx_log_phase(struct sbx_log_line *line, const struct sbx_record *record,
                   const char *phase, int polite_signal);
/* Warning `index` of those that the record lists. */
void sbx_log_warned(struct sbx_log_line *line, const struct sbx_record *record,
                    uint64_t index);
void sbx_log_breached(struct sbx_log_line *line, const struct sbx_record *record);
void sbx_log_finished(struct sbx_log_line *line, const struct sbx_record *record);

/* Frees what the plan owns. */
void sbx_log_plan_done(struct sbx_log_plan *plan);

/* Up to which level lines are told, all options counted. */
enum sbx_log_level sbx_log_level_of(const struct sbx_log_plan *plan);

/* "file:/var/log/x", "syslog": as on the command line. Not escaped. */
void sbx_log_target_name(const struct sbx_log_target *target, char *buffer, size_t size);

/* --- log_format.c: lines as text --- */

#define SBX_LOG_FIELD_MAX 32
#define SBX_LOG_STORAGE_SIZE 3584

enum sbx_log_value {
    SBX_LOG_WORD = 0, /* of ours */
    SBX_LOG_NUMBER,
    SBX_LOG_QUOTED, /* from outside, or prose */
};

/* Valid text of one line: UTF-8, no control characters. */
struct sbx_log_field {
    const char *key;
    const char *value;
    enum sbx_log_value kind;
};

/* Points into itself and at static storage. */
struct sbx_log_fields {
    size_t count;
    struct sbx_log_field list[SBX_LOG_FIELD_MAX];
    size_t used;
    char storage[SBX_LOG_STORAGE_SIZE];
};

/* The line as keys and values, the time and level first. */
void sbx_log_fields(const struct sbx_log_identity *identity,
                    const struct sbx_log_line *line, struct sbx_log_fields *ret_fields);

/* A whole line fits: what goes into it is cut to size. No more than PIPE_BUF, so that one
 * write to a pipe takes it whole or not at all. */
#define SBX_LOG_TEXT_SIZE 4096

/*
 * The fields as one line without line feed; returns its length. `bare` leaves out time
 * and level, for sinks that have a place of their own for them.
 *
 * key=value: fields with a blank between them. A number or a word of ours stands bare. A
 * text stands in double quotes; in it \xHH is a byte that is not plain (also each quote
 * and each backslash), so that it ends at the next double quote.
 */
size_t sbx_log_text(const struct sbx_log_fields *fields, enum sbx_log_form form,
                    bool bare, char buffer[static SBX_LOG_TEXT_SIZE]);

/* 3 for error, 4, 6, 7: the severity of syslog(3) and of the journal's PRIORITY. */
int sbx_log_severity(enum sbx_log_level level);

/* "error", "warning" ... */
const char *sbx_log_level_name(enum sbx_log_level level);

#endif
