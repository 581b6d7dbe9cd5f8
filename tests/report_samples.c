/*
 * report_samples.c - see report_samples.h. The numbers are made up, but such as a run
 * could have.
 */
#include "tests/report_samples.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Not in the source as literals: they would have to be writable. */
static char sleep_word[] = "sleep";
static char number_word[] = "60";
static char *sleep_command[] = {sleep_word, number_word, NULL};

static void set_error(struct sbx_record *record, int code, enum sbx_stage stage,
                      const char *message)
{
    record->error.code = code;
    record->error.stage = stage;
    (void)snprintf(record->error.message, sizeof record->error.message, "%s", message);
}

/* A run that was started, contained, and proved empty. */
static void fill_started(struct sbx_record *record)
{
    (void)snprintf(record->run_id, sizeof record->run_id, "run-0001");
    record->leader_pid = 4711;
    record->started_real_us = UINT64_C(1790000000123456);
    record->finished_real_us = UINT64_C(1790000002000007);
    record->tracking = SBX_TRACKING_SUBREAPER;
    record->kill = SBX_KILL_SWEEP;
    record->termination.proof = SBX_PROOF_NO_CHILDREN;
    record->termination.duration_us = 150;
    record->sampling.samples = 1;
    record->sampling.interval_us = 250000;
    record->usage.wall_us = 1876000;
}

static void fill_exited(struct sbx_spec *spec, struct sbx_record *record)
{
    (void)spec;
    fill_started(record);
    record->outcome = SBX_OUTCOME_EXITED;
    record->has_exit_code = true;
    record->exit_code = 0;
}

static void fill_full(struct sbx_spec *spec, struct sbx_record *record)
{
    fill_exited(spec, record);
    record->exit_code = 3;
    record->usage = (struct sbx_usage){
        .wall_us = 1876000,
        .cpu_us = 900,
        .cpu_user_us = 900,
        .cpu_system_us = 0,
        .cpu_complete = true,
        .cpu_method = SBX_METHOD_RUSAGE,
        .memory_peak_bytes = UINT64_C(6442450944),
        .memory_peak_at_us = 100,
        .memory_method = SBX_MEMORY_PSS,
        .memory_anon_peak_bytes = 4096,
        .swap_peak_bytes = 0,
        .process_memory_peak_bytes = 8192,
        .processes_peak = 2,
        .processes_total = 5,
        .processes_method = SBX_METHOD_SAMPLED,
        .threads_peak = 7,
        .output_bytes = 1000,
        .oom_kills = SBX_UNKNOWN,
        .memory_pressure_us = SBX_UNKNOWN,
    };
    record->output_truncated = SBX_TRUNCATED_NO;
    record->sampling = (struct sbx_sampling){9, 250000, 250100, 420};
    sbx_record_stray(record, 4800, "sleep");
    record->termination.killed_count = 1;
    record->termination.escalated = true;
    sbx_record_warn(record, "memory is at %d %% of its limit", 93);
    spec->limits =
        (struct sbx_limits){2000000, 3000000, 209715200, 20, 40, 1048576, 5000000, 0, 0};
    spec->ceilings[sample_ceiling("nofile")] = (struct sbx_ceiling){true, 64, 128};
    spec->ceilings[sample_ceiling("core")] = (struct sbx_ceiling){true, 0, RLIM_INFINITY};
    spec->ceilings[sample_ceiling("as")] =
        (struct sbx_ceiling){true, RLIM_INFINITY, RLIM_INFINITY};
}

static void fill_signaled(struct sbx_spec *spec, struct sbx_record *record)
{
    (void)spec;
    fill_started(record);
    record->outcome = SBX_OUTCOME_SIGNALED;
    record->signal = SIGSEGV;
    record->core_dumped = true;
}

static void fill_breach(struct sbx_record *record, enum sbx_reason reason, uint64_t limit,
                        uint64_t observed)
{
    fill_started(record);
    record->outcome = SBX_OUTCOME_BREACH;
    record->breach.reason = reason;
    record->breach.limit = limit;
    record->breach.observed = observed;
    record->breach.at_us = 2001000;
}

static void fill_wall(struct sbx_spec *spec, struct sbx_record *record)
{
    fill_breach(record, SBX_REASON_WALL, 2000000, 2001234);
    spec->limits.wall_us = 2000000;
    record->signal = SIGTERM;
    record->termination.signal = SIGTERM;
}

static void fill_cpu(struct sbx_spec *spec, struct sbx_record *record)
{
    fill_breach(record, SBX_REASON_CPU, 500000, 500001);
    spec->limits.cpu_us = 500000;
    record->has_exit_code = true;
    record->exit_code = 7;
}

static void fill_memory(struct sbx_spec *spec, struct sbx_record *record)
{
    fill_breach(record, SBX_REASON_MEMORY, 209715200, 224709837);
    spec->limits.memory_bytes = 209715200;
    record->signal = SIGKILL;
    record->breach.culprit.pid = 123;
    record->breach.culprit.value = 104857600;
    (void)snprintf(record->breach.culprit.name, SBX_PROC_NAME_SIZE, "python3");
    record->termination.escalated = true;
    record->termination.killed_count = 10;
    record->usage.memory_peak_bytes = 224709837;
    record->usage.memory_method = SBX_MEMORY_RSS;
}

static void fill_processes(struct sbx_spec *spec, struct sbx_record *record)
{
    fill_breach(record, SBX_REASON_PROCESSES, 20, 21);
    spec->limits.processes_count = 20;
    record->signal = SIGKILL;
}

static void fill_threads(struct sbx_spec *spec, struct sbx_record *record)
{
    fill_breach(record, SBX_REASON_THREADS, 40, 64);
    spec->limits.threads_count = 40;
}

static void fill_output(struct sbx_spec *spec, struct sbx_record *record)
{
    fill_breach(record, SBX_REASON_OUTPUT, 1048576, 1048600);
    spec->limits.output_bytes = 1048576;
    record->signal = SIGTERM;
    record->usage.output_bytes = 1048600;
    record->output_truncated = SBX_TRUNCATED_YES;
}

static void fill_idle(struct sbx_spec *spec, struct sbx_record *record)
{
    fill_breach(record, SBX_REASON_IDLE, 5000000, 5001200);
    spec->limits.idle_us = 5000000;
    record->usage.output_bytes = 0;
    record->output_truncated = SBX_TRUNCATED_NO;
}

static void fill_output_closed(struct sbx_spec *spec, struct sbx_record *record)
{
    (void)spec;
    fill_breach(record, SBX_REASON_OUTPUT_CLOSED, SBX_UNKNOWN, SBX_UNKNOWN);
    record->output_truncated = SBX_TRUNCATED_YES;
}

static void fill_ceiling(struct sbx_spec *spec, struct sbx_record *record)
{
    fill_breach(record, SBX_REASON_CEILING, 1000000, 1004000);
    record->breach.ceiling = sample_ceiling("cpu");
    spec->ceilings[record->breach.ceiling] = (struct sbx_ceiling){true, 1, 2};
    record->signal = SIGXCPU;
}

static void fill_ceiling_bare(struct sbx_spec *spec, struct sbx_record *record)
{
    fill_breach(record, SBX_REASON_CEILING, SBX_UNKNOWN, SBX_UNKNOWN);
    record->breach.ceiling = sample_ceiling("fsize");
    spec->ceilings[record->breach.ceiling] = (struct sbx_ceiling){true, 4096, 4096};
    record->signal = SIGXFSZ;
}

static void fill_unmeasurable(struct sbx_spec *spec, struct sbx_record *record)
{
    (void)spec;
    fill_breach(record, SBX_REASON_UNMEASURABLE, SBX_UNKNOWN, SBX_UNKNOWN);
    set_error(record, EMFILE, SBX_STAGE_MONITOR, "cannot open /proc/4711/stat");
}

static void fill_guard_lost(struct sbx_spec *spec, struct sbx_record *record)
{
    (void)spec;
    fill_breach(record, SBX_REASON_GUARD_LOST, SBX_UNKNOWN, SBX_UNKNOWN);
}

static void fill_caller_lost(struct sbx_spec *spec, struct sbx_record *record)
{
    (void)spec;
    fill_breach(record, SBX_REASON_CALLER_LOST, SBX_UNKNOWN, SBX_UNKNOWN);
}

static void fill_cancelled(struct sbx_spec *spec, struct sbx_record *record)
{
    (void)spec;
    fill_started(record);
    record->outcome = SBX_OUTCOME_CANCELLED;
    record->cancel_signal = SIGINT;
    record->signal = SIGTERM;
    record->termination.signal = SIGTERM;
}

static void fill_not_found(struct sbx_spec *spec, struct sbx_record *record)
{
    (void)spec;
    record->outcome = SBX_OUTCOME_LAUNCH_FAILED;
    record->failed_status = SBX_STATUS_NOT_FOUND;
    (void)snprintf(record->run_id, sizeof record->run_id, "run-0002");
    set_error(record, ENOENT, SBX_STAGE_EXEC, "command 'slep': not found");
}

/* sbx_report_failure: an option was wrong, so that there is no command. */
static void fill_options(struct sbx_spec *spec, struct sbx_record *record)
{
    spec->argv = NULL;
    record->outcome = SBX_OUTCOME_LAUNCH_FAILED;
    record->failed_status = SBX_STATUS_FAILED;
    set_error(record, EINVAL, SBX_STAGE_OPTIONS,
              "option --wall: '5\\x0A\"x' is not a duration");
}

static void fill_lost(struct sbx_spec *spec, struct sbx_record *record)
{
    (void)spec;
    fill_started(record);
    record->outcome = SBX_OUTCOME_LOST;
}

/* The monitor died before it knew anything. */
static void fill_lost_early(struct sbx_spec *spec, struct sbx_record *record)
{
    (void)spec;
    (void)record;
}

/* A tree that somebody else started. */
static void fill_observed(struct sbx_spec *spec, struct sbx_record *record)
{
    fill_started(record);
    spec->argv = NULL;
    spec->attach.pid = 4711;
    record->outcome = SBX_OUTCOME_OBSERVED;
    record->tracking = SBX_TRACKING_REMEMBERED;
    record->kill = SBX_KILL_NONE;
    record->termination.proof = SBX_PROOF_NONE;
    record->termination.duration_us = SBX_UNKNOWN;
    sbx_record_stray(record, 5000, "daemon");
}

static void fill_enforced(struct sbx_spec *spec, struct sbx_record *record)
{
    fill_wall(spec, record);
    spec->argv = NULL;
    spec->attach.pid = 4711;
    spec->attach.enforce = true;
    record->signal = 0;
    record->tracking = SBX_TRACKING_REMEMBERED;
    record->termination.proof = SBX_PROOF_NONE;
}

static void fill_survivor(struct sbx_spec *spec, struct sbx_record *record)
{
    fill_exited(spec, record);
    sbx_record_survivor(record, 123, "su", "not permitted");
    record->termination.proof = SBX_PROOF_NONE;
    record->termination.duration_us = SBX_UNKNOWN;
}

static void fill_hidden(struct sbx_spec *spec, struct sbx_record *record)
{
    fill_exited(spec, record);
    sbx_record_survivor(record, 0, "", "hidden from /proc");
    record->kill = SBX_KILL_NONE;
    record->termination.proof = SBX_PROOF_NONE;
}

static void fill_kept(struct sbx_spec *spec, struct sbx_record *record)
{
    fill_exited(spec, record);
    spec->strays = SBX_STRAYS_KEEP;
    sbx_record_stray(record, 5000, "daemon");
    record->termination.proof = SBX_PROOF_NONE;
    record->termination.duration_us = SBX_UNKNOWN;
}

/* Everything from a group with all controllers. */
static void fill_group(struct sbx_record *record)
{
    record->tracking = SBX_TRACKING_CGROUP;
    record->kill = SBX_KILL_CGROUP;
    record->termination.proof = SBX_PROOF_GROUP_EMPTY;
    record->usage.cpu_us = 900;
    record->usage.cpu_complete = true;
    record->usage.cpu_method = SBX_METHOD_CGROUP;
    record->usage.memory_peak_bytes = 67108864;
    record->usage.memory_method = SBX_MEMORY_CGROUP;
    record->usage.processes_peak = 2;
    record->usage.processes_method = SBX_METHOD_CGROUP;
    record->usage.oom_kills = 0;
    record->usage.memory_pressure_us = 1500;
}

static void fill_held(struct sbx_spec *spec, struct sbx_record *record)
{
    fill_breach(record, SBX_REASON_MEMORY, 67108864, 67108864);
    fill_group(record);
    record->usage.oom_kills = 3;
    spec->limits.memory_bytes = 67108865;
    spec->limits.threads_count = 20;
    spec->limits.cpu_quota_percent = 150;
    record->armed = (struct sbx_armed){67108864, 0, 20, 150};
    record->signal = SIGKILL;
}

static void fill_oom(struct sbx_spec *spec, struct sbx_record *record)
{
    fill_breach(record, SBX_REASON_OOM, SBX_UNKNOWN, SBX_UNKNOWN);
    fill_group(record);
    record->usage.oom_kills = 1;
    spec->limits.memory_bytes = 209715200;
    spec->limits.swap_bytes = 1048576;
    record->armed.memory_bytes = 209715200;
    record->armed.swap_bytes = 1048576;
    record->signal = SIGKILL;
}

/* A bare group, where strays were kept. */
static void fill_group_kept(struct sbx_spec *spec, struct sbx_record *record)
{
    fill_kept(spec, record);
    record->tracking = SBX_TRACKING_CGROUP;
    record->kill = SBX_KILL_NONE;
    (void)snprintf(record->group_left, sizeof record->group_left,
                   "/sys/fs/cgroup/a\nb/sbx-1");
}

static char ugly_quotes[] = "say \"hi\" \\ \t\x7f";
static char ugly_bytes[] = "\xff\xc3(\xed\xa0\x80 \xc2\x85 ok \xe2\x82\xac";
static char ugly_empty[] = "";
static char *ugly_command[] = {ugly_quotes, ugly_bytes, ugly_empty, NULL};

static void fill_ugly(struct sbx_spec *spec, struct sbx_record *record)
{
    fill_exited(spec, record);
    spec->argv = ugly_command;
    sbx_record_stray(record, 11, "a\nb\"c\\d");
    sbx_record_stray(record, 12, "x) Z 1 1 1 (y");
    /* A name that the kernel cut inside a character. */
    sbx_record_stray(record, 13, "0123456789abc\xe2\x82");
    sbx_record_warn(record, "name \"%s\"\nand a second line", "q\\x22");
}

static char *large_command[20000];
static char large_argument[257];

/* Everything at its cap, in the spelling that takes most room. */
static void fill_largest(struct sbx_spec *spec, struct sbx_record *record)
{
    fill_full(spec, record);
    record->outcome = SBX_OUTCOME_BREACH;
    record->breach.reason = SBX_REASON_MEMORY;
    record->breach.limit = UINT64_C(4000000000000000000);
    record->breach.observed = UINT64_C(4000000000000000001);
    record->breach.at_us = UINT64_C(4000000000000000000);
    memset(large_argument, 1, sizeof large_argument - 1);
    for (size_t i = 0; i + 1 < sizeof large_command / sizeof large_command[0]; i++) {
        large_command[i] = large_argument;
    }
    spec->argv = large_command;
    for (int i = 0; i < 2 * SBX_LIST_MAX; i++) {
        sbx_record_stray(record, 4194304 - i, "\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1");
        sbx_record_survivor(record, 4194304 - i, "\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1", "");
        sbx_record_warn(record, "%d", i);
    }
    record->termination.proof = SBX_PROOF_NONE;
    for (size_t i = 0; i < SBX_LIST_MAX; i++) {
        memset(record->termination.survivors[i].why, 1, 47);
    }
    for (size_t i = 0; i < SBX_WARNING_MAX; i++) {
        memset(record->warnings[i], 1, SBX_WARNING_SIZE - 1);
    }
    for (size_t i = 0; i < SBX_CEILING_COUNT; i++) {
        spec->ceilings[i] = (struct sbx_ceiling){true, INT64_MAX, INT64_MAX};
    }
    fill_group(record);
    memset(record->group_left, 1, sizeof record->group_left - 1);
    record->armed = (struct sbx_armed){INT64_MAX, INT64_MAX, INT64_MAX, 100000};
    spec->limits.swap_bytes = INT64_MAX;
    spec->limits.cpu_quota_percent = 100000;
    record->termination.proof = SBX_PROOF_NONE;
    set_error(record, EIO, SBX_STAGE_MONITOR, "");
    memset(record->error.message, 1, sizeof record->error.message - 1);
}

/* What a reader finds when the writer was killed in the middle: nothing is terminated,
 * counts are beyond their lists. */
static void fill_torn(struct sbx_spec *spec, struct sbx_record *record)
{
    fill_lost(spec, record);
    memset(record->run_id, 'r', sizeof record->run_id);
    record->termination.proof = SBX_PROOF_NONE;
    record->termination.strays_count = 1000;
    record->termination.survivors_count = 1000;
    for (size_t i = 0; i < SBX_LIST_MAX; i++) {
        struct sbx_stray *stray = &record->termination.strays[i];
        struct sbx_survivor *survivor = &record->termination.survivors[i];
        stray->pid = 7;
        survivor->pid = 7;
        memset(stray->name, 'n', sizeof stray->name);
        memset(survivor->name, 'n', sizeof survivor->name);
        memset(survivor->why, 'w', sizeof survivor->why);
    }
    memset(record->group_left, 'g', sizeof record->group_left);
    record->warnings_count = 1000;
    memset(record->warnings, 'w', sizeof record->warnings);
    record->error.code = EIO;
    record->error.stage = SBX_STAGE_MONITOR;
    memset(record->error.message, 'm', sizeof record->error.message);
}

const struct sample samples[] = {
    {"exited", fill_exited},
    {"full", fill_full},
    {"signaled", fill_signaled},
    {"wall", fill_wall},
    {"cpu", fill_cpu},
    {"memory", fill_memory},
    {"processes", fill_processes},
    {"threads", fill_threads},
    {"output", fill_output},
    {"idle", fill_idle},
    {"output-closed", fill_output_closed},
    {"ceiling", fill_ceiling},
    {"ceiling-bare", fill_ceiling_bare},
    {"unmeasurable", fill_unmeasurable},
    {"guard-lost", fill_guard_lost},
    {"caller-lost", fill_caller_lost},
    {"cancelled", fill_cancelled},
    {"not-found", fill_not_found},
    {"options", fill_options},
    {"lost", fill_lost},
    {"lost-early", fill_lost_early},
    {"observed", fill_observed},
    {"enforced", fill_enforced},
    {"held", fill_held},
    {"oom", fill_oom},
    {"group-kept", fill_group_kept},
    {"survivor", fill_survivor},
    {"hidden", fill_hidden},
    {"kept", fill_kept},
    {"ugly", fill_ugly},
    {"largest", fill_largest},
    {"torn", fill_torn},
};
const size_t sample_count = sizeof samples / sizeof samples[0];

void sample_spec(struct sbx_spec *spec)
{
    *spec = (struct sbx_spec){
        .argv = sleep_command,
        .report_directory_fd = -1,
        .signal = SIGTERM,
        .breach_status = SBX_STATUS_BREACH,
    };
}

void sample_fill(const struct sample *sample, struct sbx_spec *spec,
                 struct sbx_record *record)
{
    sample_spec(spec);
    sbx_record_init(record);
    sample->fill(spec, record);
}

const struct sample *sample_find(const char *name)
{
    for (size_t i = 0; i < sample_count; i++) {
        if (strcmp(samples[i].name, name) == 0) {
            return &samples[i];
        }
    }
    ck_abort_msg("no sample %s", name);
    return NULL;
}

int sample_ceiling(const char *name)
{
    for (int i = 0; i < SBX_CEILING_COUNT; i++) {
        if (strcmp(sbx_ceiling_kinds[i].name, name) == 0) {
            return i;
        }
    }
    ck_abort_msg("no ceiling %s", name);
    return -1;
}
