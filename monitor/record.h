/*
 * record.h - everything that one run can say about itself, as plain data of fixed size.
 *
 * It lies in memory that guard and monitor share: the monitor keeps it current, and
 * whichever of the two publishes the report finds it there. So it holds no pointer. A
 * number that is not known is SBX_UNKNOWN and does not appear in the report; 0 means
 * zero. Times are microseconds, memory is bytes.
 */
#ifndef SBX_MONITOR_RECORD_H
#define SBX_MONITOR_RECORD_H

#include "reaper/ceiling.h"
#include "reaper/proc.h"

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SBX_LIST_MAX 64
#define SBX_WARNING_MAX 16
#define SBX_WARNING_SIZE 160
#define SBX_RUN_ID_SIZE 40
#define SBX_GROUP_LEFT_SIZE 512

enum sbx_outcome {
    SBX_OUTCOME_LOST = 0, /* what holds until something else is known */
    SBX_OUTCOME_EXITED,
    SBX_OUTCOME_SIGNALED,
    SBX_OUTCOME_BREACH,
    SBX_OUTCOME_CANCELLED,
    SBX_OUTCOME_LAUNCH_FAILED,
    SBX_OUTCOME_OBSERVED, /* an attached tree ended, or we left it */
};

enum sbx_reason {
    SBX_REASON_NONE = 0,
    SBX_REASON_WALL,
    SBX_REASON_CPU,
    SBX_REASON_MEMORY,
    SBX_REASON_PROCESSES,
    SBX_REASON_THREADS,
    SBX_REASON_CEILING,
    SBX_REASON_UNMEASURABLE,
    SBX_REASON_GUARD_LOST,
    SBX_REASON_CALLER_LOST,
    SBX_REASON_OUTPUT,
    SBX_REASON_IDLE,
    SBX_REASON_OUTPUT_CLOSED,
    SBX_REASON_OOM, /* an OOM kill that was not for a limit of ours */
};

/* The tree limits that the monitor judges. 0: not asked for. */
struct sbx_limits {
    uint64_t wall_us;
    uint64_t cpu_us;
    uint64_t memory_bytes;
    uint64_t processes_count;
    uint64_t threads_count;
    uint64_t output_bytes; /* to standard output and standard error together */
    uint64_t idle_us;
    /* These two are the kernel's to hold alone. */
    uint64_t swap_bytes;
    uint64_t cpu_quota_percent; /* of one processor */
};

/* What the kernel holds, as it was read back; each SBX_UNKNOWN unless armed. */
struct sbx_armed {
    uint64_t memory_bytes;
    uint64_t swap_bytes;
    uint64_t threads_count;
    uint64_t cpu_quota_percent;
};

struct sbx_culprit {
    pid_t pid; /* 0: none named */
    char name[SBX_PROC_NAME_SIZE];
    uint64_t value; /* in the unit of the breach */
};

struct sbx_breach {
    enum sbx_reason reason;
    int ceiling;       /* index into sbx_ceiling_kinds for SBX_REASON_CEILING, else -1 */
    uint64_t limit;    /* SBX_UNKNOWN where the reason has none; in the unit of
                          sbx_breach_unit, so that the cpu ceiling is microseconds here */
    uint64_t observed; /* likewise */
    uint64_t at_us;    /* since launch */
    struct sbx_culprit culprit;
};

/* How the peak of memory was measured: the weakest of what went into it. */
enum sbx_memory_method {
    SBX_MEMORY_NONE = 0,
    SBX_MEMORY_CGROUP, /* the kernel's own account of the group */
    SBX_MEMORY_PSS,
    SBX_MEMORY_RSS,
};

enum sbx_count_method {
    SBX_METHOD_NONE = 0,
    SBX_METHOD_CGROUP,
    SBX_METHOD_RUSAGE,
    SBX_METHOD_SAMPLED,
};

/* Each number is SBX_UNKNOWN until it is known. */
struct sbx_usage {
    uint64_t wall_us;
    uint64_t cpu_us;
    uint64_t cpu_user_us;
    uint64_t cpu_system_us;
    bool cpu_complete;
    enum sbx_count_method cpu_method;
    uint64_t memory_peak_bytes;
    uint64_t memory_peak_at_us;
    enum sbx_memory_method memory_method;
    uint64_t memory_anon_peak_bytes;
    uint64_t swap_peak_bytes;
    uint64_t process_memory_peak_bytes;
    uint64_t processes_peak;
    uint64_t processes_total;
    enum sbx_count_method processes_method;
    uint64_t threads_peak;
    uint64_t output_bytes; /* known only where output is captured */
    uint64_t oom_kills;    /* known only with a memory controller */
    uint64_t memory_pressure_us;
};

/* The tree at the last sample; not part of the report. Times are CLOCK_MONOTONIC. */
struct sbx_current {
    uint64_t launched_us; /* 0: nothing is launched yet */
    uint64_t sampled_us;  /* 0: no sample yet, and the numbers mean nothing */
    uint64_t memory_bytes;
    bool memory_is_bound; /* not more than that: it was not measured more exactly */
    uint64_t processes;
    uint64_t threads;
};

struct sbx_sampling {
    uint64_t samples;
    uint64_t interval_us; /* the longest period in use */
    uint64_t max_gap_us;  /* longest time between two samples; SBX_UNKNOWN with fewer than
                             two */
    uint64_t monitor_cpu_us;
};

enum sbx_tracking {
    SBX_TRACKING_NONE = 0,
    SBX_TRACKING_SUBREAPER,
    SBX_TRACKING_REMEMBERED,
    SBX_TRACKING_CGROUP,    /* a leaf of our own, or (--cgroup) somebody's group */
    SBX_TRACKING_NAMESPACE, /* a PID namespace that holds the command and all of its own
                             */
};
enum sbx_kill {
    SBX_KILL_NONE = 0,
    SBX_KILL_SWEEP,
    SBX_KILL_CGROUP,
    SBX_KILL_NAMESPACE /* of the namespace's init */
};
enum sbx_proof {
    SBX_PROOF_NONE = 0,
    SBX_PROOF_NO_CHILDREN,
    SBX_PROOF_GROUP_EMPTY,
    SBX_PROOF_NAMESPACE_GONE
};

struct sbx_stray {
    pid_t pid;
    char name[SBX_PROC_NAME_SIZE];
};

struct sbx_survivor {
    pid_t pid; /* 0: not known, nor is the name */
    char name[SBX_PROC_NAME_SIZE];
    char why[48];
};

struct sbx_termination {
    int signal;            /* the polite signal, if one was sent; 0: none */
    bool escalated;        /* SIGKILL was needed */
    uint64_t killed_count; /* how many members were sent SIGKILL */
    uint64_t strays_count; /* all of them; the list holds the first SBX_LIST_MAX */
    struct sbx_stray strays[SBX_LIST_MAX];
    uint64_t survivors_count;
    struct sbx_survivor survivors[SBX_LIST_MAX];
    uint64_t duration_us; /* from the first signal, or the leader's end, to the proof */
    enum sbx_proof proof;
};

/* Whether all of the captured output was passed on. */
enum sbx_truncated { SBX_TRUNCATED_UNKNOWN = 0, SBX_TRUNCATED_NO, SBX_TRUNCATED_YES };

struct sbx_record {
    char run_id[SBX_RUN_ID_SIZE]; /* ASCII */
    pid_t leader_pid;             /* of the command, or attached to; 0: never started */
    pid_t wrapper_pid;            /* of the launcher around it; 0: none */
    uint64_t started_real_us;     /* 0: unknown */
    uint64_t finished_real_us;
    enum sbx_outcome outcome;
    bool has_exit_code; /* the leader's own end, whatever the outcome */
    int exit_code;
    int signal; /* that ended the leader; 0: none */
    bool core_dumped;
    int cancel_signal; /* that cancelled the run; 0: none */
    int failed_status; /* 125 to 127 for a launch that failed */
    struct sbx_breach breach;
    struct sbx_usage usage;
    struct sbx_current current;
    enum sbx_truncated output_truncated;
    struct sbx_sampling sampling;
    enum sbx_tracking tracking;
    enum sbx_kill kill;
    struct sbx_armed armed;
    char group_left[SBX_GROUP_LEFT_SIZE]; /* the group that could not be taken away */
    struct sbx_termination termination;
    uint64_t warnings_count;
    char warnings[SBX_WARNING_MAX][SBX_WARNING_SIZE];
    struct sbx_error error; /* code 0: none */
};

/* Makes everything unknown, and the outcome lost. What is counted starts at 0: samples,
 * killed_count, strays_count, survivors_count, warnings_count. */
void sbx_record_init(struct sbx_record *record);

/* Adds a warning; counts it also when the list is full. */
void sbx_record_warn(struct sbx_record *record, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Notes a stray or a survivor, once for each pid and name (a survivor noted again gets
 * the newer why); counts it also when the list is full, where repeats cannot be told. */
void sbx_record_stray(struct sbx_record *record, pid_t pid, const char *name);
void sbx_record_survivor(struct sbx_record *record, pid_t pid, const char *name,
                         const char *why);

/* "exited", "wall", "us" ...: the report's spelling. */
const char *sbx_outcome_name(enum sbx_outcome outcome);
const char *sbx_reason_name(enum sbx_reason reason);
/* Unit of limit and observed: "us", "bytes", "count", or NULL where the reason has no
 * numbers. Ceilings in seconds count in "us" here like all times. */
const char *sbx_breach_unit(const struct sbx_breach *breach);

#endif
