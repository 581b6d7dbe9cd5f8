/*
 * meter.c - see meter.h. No allocation; two reads for each member in an ordinary sample.
 */
#include "monitor/meter_private.h"

#include "base/clock.h"
#include "reaper/attached.h"
#include "reaper/wrapper.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

/* Status is read of those that need it and of these many others for each sample, in turn.
 */
#define STATUS_TURN 4U
/* Launchers around the command that are not counted as processes of its. */
#define LEFT_OUT_MAX 16U

struct sums {
    uint64_t user_us;
    uint64_t system_us;
    uint64_t rss_bytes;
    uint64_t swap_bytes;
    uint64_t processes;
    uint64_t threads;
    uint64_t left_out; /* launchers */
};

void sbx_meter_init(struct sbx_meter *meter, int proc_fd, const struct sbx_limits *limits,
                    struct sbx_pss *pss, struct sbx_usage *usage)
{
    struct sysinfo host;
    struct sbx_proc_status own;
    memset(meter, 0, sizeof *meter);
    meter->proc_fd = proc_fd;
    meter->limits = *limits;
    meter->pss = pss;
    meter->doubt_since_us = SBX_UNKNOWN;
    meter->usage = usage;
    meter->swap_on = sysinfo(&host) < 0 || host.totalswap > 0;
    if (sbx_proc_status_at(proc_fd, getpid(), &own) == 0 &&
        own.hwm_bytes != SBX_UNKNOWN) {
        meter->own_rss_bytes = own.hwm_bytes;
    }
    usage->cpu_complete = true;
}

static uint64_t timeval_us(const struct timeval *value)
{
    return (uint64_t)value->tv_sec * SBX_US_PER_S + (uint64_t)value->tv_usec;
}

void sbx_meter_reaped(struct sbx_meter *meter, const struct rusage *rusage, bool known)
{
    meter->reaped_user_us += timeval_us(&rusage->ru_utime);
    meter->reaped_system_us += timeval_us(&rusage->ru_stime);
    meter->unseen_count += known ? 0U : 1U;
    /* ru_maxrss is inherited over fork and exec: up to our own size it says nothing about
     * the child. */
    uint64_t maxrss_bytes = (uint64_t)rusage->ru_maxrss * 1024U;
    if (maxrss_bytes > meter->own_rss_bytes) {
        sbx_raise_to(&meter->usage->process_memory_peak_bytes, maxrss_bytes);
    }
}

/* --- CPU --- */

static uint64_t ticks_us(uint64_t ticks)
{
    struct sbx_proc_stat only = {.utime_ticks = ticks};
    return sbx_proc_own_cpu_us(&only);
}

static uint64_t user_us(const struct sbx_proc_stat *stat)
{
    return ticks_us(stat->utime_ticks + stat->cutime_ticks);
}

static uint64_t system_us(const struct sbx_proc_stat *stat)
{
    return ticks_us(stat->stime_ticks + stat->cstime_ticks);
}

static uint64_t waited_us(const struct sbx_member *member)
{
    return sbx_proc_tree_cpu_us(&member->stat) - sbx_proc_own_cpu_us(&member->stat);
}

/* A member went without us. Its CPU is in its parent's account if that waited for it; a
 * parent that ignores SIGCHLD, or whose account did not move at all, has lost it. (One
 * that has died meanwhile may have passed it on: then it counts as kept.) */
static void note_vanished(const struct sbx_member *member,
                          const struct sbx_member *parent, void *context)
{
    struct sbx_meter *meter = context;
    uint64_t used = sbx_proc_tree_cpu_us(&member->stat);
    if (meter->attached && member->outside) {
        meter->reaped_user_us += user_us(&member->stat);
        meter->reaped_system_us += system_us(&member->stat);
        return;
    }
    if (parent == NULL || used == 0) {
        return;
    }
    struct sbx_proc_stat now;
    struct sbx_proc_status status;
    bool alive = sbx_proc_stat_at(meter->proc_fd, parent->stat.pid, &now) == 0 &&
                 now.start_ticks == parent->stat.start_ticks;
    if (!alive) {
        return;
    }
    bool ignores = sbx_proc_status_at(meter->proc_fd, parent->stat.pid, &status) == 0 &&
                   (status.sig_ignored >> (SIGCHLD - 1) & 1U) != 0;
    uint64_t waited_now = sbx_proc_tree_cpu_us(&now) - sbx_proc_own_cpu_us(&now);
    bool unmoved = used >= 2 * ticks_us(1) && waited_now == parent->waited_before_us;
    /* It may ignore SIGCHLD only since it waited for this one. */
    bool taken = waited_now + 4 * ticks_us(1) >= parent->waited_before_us + used;
    if (ignores || unmoved) {
        meter->lost_cpu_us += taken && !unmoved ? 0 : used;
        meter->usage->cpu_complete = false;
    }
}

static uint64_t without(uint64_t value, uint64_t part)
{
    return value > part ? value - part : 0;
}

/* The group counts everybody who was ever in it, also whom nobody waited for. Only who
 * has left it is in our own count alone. */
static void take_group_cpu(struct sbx_meter *meter)
{
    const struct sbx_figures *figures = &meter->figures;
    struct sbx_usage *usage = meter->usage;
    if (meter->grouped && figures->cpu_us != SBX_UNKNOWN) {
        sbx_raise_to(&usage->cpu_user_us, figures->cpu_user_us);
        sbx_raise_to(&usage->cpu_system_us, figures->cpu_system_us);
        sbx_raise_to(&usage->cpu_us, figures->cpu_us);
        usage->cpu_method = SBX_METHOD_CGROUP;
    }
}

static void take_cpu(struct sbx_meter *meter, const struct sums *sums)
{
    struct sbx_usage *usage = meter->usage;
    uint64_t user = without(sums->user_us + meter->reaped_user_us, meter->before_user_us);
    uint64_t system =
        without(sums->system_us + meter->reaped_system_us, meter->before_system_us);
    /* Between the reading of a parent and of its child the child's share can be seen
     * twice or not at all: never go back. */
    sbx_raise_to(&usage->cpu_user_us, user);
    sbx_raise_to(&usage->cpu_system_us, system);
    sbx_raise_to(&usage->cpu_us, user + system + meter->lost_cpu_us);
    usage->cpu_method = SBX_METHOD_SAMPLED;
    take_group_cpu(meter);
}

/* --- members --- */

static void read_status(struct sbx_meter *meter, struct sbx_member *member)
{
    struct sbx_proc_status status;
    if (sbx_proc_status_at(meter->proc_fd, member->memory_pid, &status) < 0) {
        return; /* gone, or hidden: what was known stays */
    }
    member->status_due = false;
    member->swap_bytes = status.swap_bytes;
    sbx_raise_to(&member->hwm_bytes, status.hwm_bytes);
    sbx_raise_to(&meter->usage->process_memory_peak_bytes, status.hwm_bytes);
    member->namespace_init = sbx_wrapper_is_namespace_init(&status);
    member->namespace_depth = status.namespace_depth;
    member->ignores_sigchld = status.sig_ignored != SBX_UNKNOWN &&
                              (status.sig_ignored >> (SIGCHLD - 1) & 1U) != 0;
    if (member->ignores_sigchld) {
        meter->usage->cpu_complete = false;
    }
}

static bool wants_status(const struct sbx_meter *meter, const struct sbx_member *member)
{
    bool grew = member->hwm_bytes == SBX_UNKNOWN || member->rss_bytes > member->hwm_bytes;
    return member->status_due || meter->swap_on || grew;
}

static void read_statuses(struct sbx_meter *meter, struct sbx_tree *tree)
{
    size_t count = sbx_tree_count(tree);
    for (size_t i = 0; i < count; i++) {
        struct sbx_member *member = sbx_tree_member(tree, i);
        if (!sbx_member_ended(member) && wants_status(meter, member)) {
            read_status(meter, member);
        }
    }
    /* In turn, also those that look as before: a peak may have come and gone, SIGCHLD be
     * ignored by now. */
    for (size_t i = 0; i < STATUS_TURN && i < count; i++) {
        struct sbx_member *member = sbx_tree_member(tree, meter->status_cursor++ % count);
        if (!sbx_member_ended(member)) {
            read_status(meter, member);
        }
    }
}

static uint64_t count_children(struct sbx_tree *tree, pid_t pid)
{
    uint64_t children = 0;
    for (size_t i = 0; i < sbx_tree_count(tree); i++) {
        children += sbx_tree_member(tree, i)->stat.ppid == pid ? 1U : 0U;
    }
    return children;
}

/* Only when it is needed: it looks at every pair of members. */
static void find_most_children(struct sbx_tree *tree, struct sbx_sample *sample)
{
    for (size_t i = 0; i < sbx_tree_count(tree); i++) {
        const struct sbx_member *member = sbx_tree_member(tree, i);
        sbx_offer_culprit(&sample->processes_culprit, member,
                          count_children(tree, member->stat.pid));
    }
}

/* A launcher is not the command's and does not count. But anybody can make himself look
 * like one (a child in a PID namespace of its own that never execs), and so hide himself
 * and his ancestors: only few are left out, and only what has no threads. */
static bool is_left_out(const struct sbx_member *member, struct sums *sums)
{
    if (!member->wrapper || member->stat.threads > 1 || sums->left_out == LEFT_OUT_MAX) {
        return false;
    }
    sums->left_out++;
    return true;
}

static void add_member(struct sums *sums, struct sbx_sample *sample,
                       const struct sbx_member *member)
{
    const struct sbx_proc_stat *stat = &member->stat;
    uint64_t own_us = sbx_proc_own_cpu_us(stat);
    sums->user_us += user_us(stat);
    sums->system_us += system_us(stat);
    sbx_offer_culprit(&sample->cpu_culprit, member, own_us + waited_us(member));
    if (sbx_member_ended(member)) {
        return;
    }
    sums->rss_bytes += member->rss_bytes;
    sums->swap_bytes += sbx_known_or(member->swap_bytes, 0);
    sbx_offer_culprit(&sample->memory_culprit, member, member->rss_bytes);
    if (!is_left_out(member, sums)) {
        sums->processes++;
        sums->threads += stat->threads;
        sbx_offer_culprit(&sample->threads_culprit, member, stat->threads);
    }
}

/* --- the sample --- */

static uint64_t cpu_of(const struct sbx_meter *meter, const struct sums *sums)
{
    return sums->user_us + sums->system_us + meter->reaped_user_us +
           meter->reaped_system_us;
}

/* Who is older than our attaching, whenever he is met, has used what he has before. */
static void note_found(const struct sbx_member *member, void *context)
{
    struct sbx_meter *meter = context;
    if (meter->attached && member->stat.start_ticks < meter->attached_ticks) {
        meter->before_user_us += user_us(&member->stat);
        meter->before_system_us += system_us(&member->stat);
    }
}

int sbx_meter_walk(struct sbx_meter *meter, struct sbx_tree *tree, struct sbx_error *err)
{
    struct sbx_tree_hooks hooks = {
        .found = note_found, .vanished = note_vanished, .context = meter};
    return sbx_tree_walk(tree, &hooks, err);
}

int sbx_meter_attach(struct sbx_meter *meter, struct sbx_tree *tree,
                     struct sbx_error *err)
{
    int r = sbx_meter_walk(meter, tree, err);
    if (r < 0) {
        return r;
    }
    for (size_t i = 0; i < sbx_tree_count(tree); i++) {
        meter->before_user_us += user_us(&sbx_tree_member(tree, i)->stat);
        meter->before_system_us += system_us(&sbx_tree_member(tree, i)->stat);
    }
    meter->attached = true;
    meter->attached_ticks = sbx_tree_since_ticks(tree);
    meter->usage->cpu_complete = false; /* what is used after the last look is unseen */
    return 0;
}

int sbx_meter_sample(struct sbx_meter *meter, struct sbx_tree *tree, uint64_t elapsed_us,
                     struct sbx_sample *ret_sample, struct sbx_error *err)
{
    int r = sbx_meter_walk(meter, tree, err);
    if (r < 0) {
        return r;
    }
    read_statuses(meter, tree);
    sbx_wrapper_mark(tree, meter->proc_fd);
    struct sbx_sample sample = {.elapsed_us = elapsed_us};
    struct sums sums = {0};
    for (size_t i = 0; i < sbx_tree_count(tree); i++) {
        add_member(&sums, &sample, sbx_tree_member(tree, i));
    }
    sample.processes = sums.processes;
    sample.threads = sums.threads;
    sample.memory_bound_bytes = sums.rss_bytes + sums.swap_bytes;
    sbx_meter_take_memory(meter, tree, cpu_of(meter, &sums), &sample);
    take_cpu(meter, &sums);
    sample.cpu_us = meter->usage->cpu_us;
    if (meter->limits.processes_count != 0 &&
        sums.processes > meter->limits.processes_count) {
        find_most_children(tree, &sample);
    }
    struct sbx_usage *usage = meter->usage;
    if (sums.processes >
        0) { /* with none but launchers nothing is known of the command */
        sbx_raise_to(&usage->processes_peak, sums.processes);
        sbx_raise_to(&usage->threads_peak, sums.threads);
    }
    usage->processes_total = sbx_tree_total_count(tree) + meter->unseen_count;
    usage->processes_method = SBX_METHOD_SAMPLED;
    *ret_sample = sample;
    return 0;
}

void sbx_meter_finish(struct sbx_meter *meter, struct sbx_tree *tree, bool all_reaped)
{
    struct sbx_usage *usage = meter->usage;
    usage->processes_total = sbx_tree_total_count(tree) + meter->unseen_count;
    usage->processes_method = SBX_METHOD_SAMPLED;
    if (!all_reaped) {
        usage->cpu_complete = false; /* what is left goes on using it */
        return;
    }
    /* Everybody was waited for, by us or by somebody that we waited for: the kernel's own
     * count. */
    uint64_t total = meter->reaped_user_us + meter->reaped_system_us + meter->lost_cpu_us;
    if (!usage->cpu_complete && usage->cpu_us != SBX_UNKNOWN && usage->cpu_us > total) {
        return; /* some ended unseen since the last sample, and that one saw more */
    }
    usage->cpu_user_us = meter->reaped_user_us;
    usage->cpu_system_us = meter->reaped_system_us;
    usage->cpu_us = total;
    usage->cpu_method = SBX_METHOD_RUSAGE;
}
