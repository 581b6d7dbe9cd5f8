/*
 * meter.c - see meter.h. No allocation; two reads for each member in an ordinary sample.
 */
#include "monitor/meter.h"

#include "base/clock.h"
#include "reaper/attached.h"
#include "reaper/wrapper.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

/* A new peak is worth a reading of PSS when the bound is above the last peak by this part
 * and by this much... */
#define PEAK_STEP 32U
#define PEAK_STEP_BYTES (1U << 20)
/* ...and while the bound grows as long as such readings take at most one part of these of
 * the run. */
#define PSS_SHARE 50U
#define PSS_CREDIT_US 5000U
/* While it does not grow, what was shared may become private, but only if somebody works:
 * then each reading is paid for by so many times its cost without one. */
#define PSS_CALM_SHARE 100U
/* A run that is over before this is not worth a reader. */
#define PSS_FIRST_US 5000U
/* How long an answer is waited for, and how long a member at which a reader hung is left
 * alone. */
#define PSS_WAIT_LIMIT_US 50000U
#define PSS_WAIT_PEAK_US 20000U
#define PSS_RETRY_US 1000000U
/* How often a sum that matters is read, and for how long, and in how many samples
 * in a row, one that is in doubt breaks no limit. */
#define PSS_READINGS_LIMIT 3
#define PSS_READINGS_PEAK 2
#define PSS_READINGS_US 100000U
#define PSS_DOUBT_US 500000U
#define PSS_DOUBTS 4U
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

static uint64_t known_or(uint64_t value, uint64_t other)
{
    return value == SBX_UNKNOWN ? other : value;
}

static uint64_t timeval_us(const struct timeval *value)
{
    return (uint64_t)value->tv_sec * SBX_US_PER_S + (uint64_t)value->tv_usec;
}

static void raise_to(uint64_t *peak, uint64_t value)
{
    if (value != SBX_UNKNOWN && (*peak == SBX_UNKNOWN || value > *peak)) {
        *peak = value;
    }
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
        raise_to(&meter->usage->process_memory_peak_bytes, maxrss_bytes);
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

static void take_cpu(struct sbx_meter *meter, const struct sums *sums)
{
    struct sbx_usage *usage = meter->usage;
    uint64_t user = without(sums->user_us + meter->reaped_user_us, meter->before_user_us);
    uint64_t system =
        without(sums->system_us + meter->reaped_system_us, meter->before_system_us);
    /* Between the reading of a parent and of its child the child's share can be seen
     * twice or not at all: never go back. */
    raise_to(&usage->cpu_user_us, user);
    raise_to(&usage->cpu_system_us, system);
    raise_to(&usage->cpu_us, user + system + meter->lost_cpu_us);
    usage->cpu_method = SBX_METHOD_SAMPLED;
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
    raise_to(&member->hwm_bytes, status.hwm_bytes);
    raise_to(&meter->usage->process_memory_peak_bytes, status.hwm_bytes);
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

static void offer(struct sbx_culprit *culprit, const struct sbx_member *member,
                  uint64_t value)
{
    if (culprit->pid == 0 || value > culprit->value) {
        culprit->pid = member->stat.pid;
        culprit->value = value;
        memcpy(culprit->name, member->stat.name, sizeof culprit->name);
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
        offer(&sample->processes_culprit, member, count_children(tree, member->stat.pid));
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
    offer(&sample->cpu_culprit, member, own_us + waited_us(member));
    if (sbx_member_ended(member)) {
        return;
    }
    sums->rss_bytes += member->rss_bytes;
    sums->swap_bytes += known_or(member->swap_bytes, 0);
    offer(&sample->memory_culprit, member, member->rss_bytes);
    if (!is_left_out(member, sums)) {
        sums->processes++;
        sums->threads += stat->threads;
        offer(&sample->threads_culprit, member, stat->threads);
    }
}

/* --- memory --- */

struct pss {
    uint64_t total_bytes;
    uint64_t anon_bytes; /* and shared memory */
    uint64_t swap_bytes;
    uint64_t private_bytes; /* of pages that one member alone had */
    size_t members;
    size_t gone; /* of those that were asked for */
    bool by_rss; /* some may not be read, and count with their RSS */
};

/* Members that ended have none, those at which a reader hung are left alone for a while.
 */
static void request_pss(struct sbx_meter *meter, struct sbx_tree *tree, uint64_t now_us)
{
    sbx_pss_restart(meter->pss);
    for (size_t i = 0; i < sbx_tree_count(tree); i++) {
        struct sbx_member *member = sbx_tree_member(tree, i);
        member->pss_asked = false;
        if (sbx_member_ended(member) || member->rss_bytes == 0 ||
            now_us < member->pss_retry_us) {
            continue;
        }
        /* After vfork, and after clone with CLONE_VM, two processes have one memory,
         * which counts once. Memory of one's own never becomes another's again. */
        const struct sbx_member *parent =
            member->own_memory ? NULL : sbx_tree_find(tree, member->stat.ppid);
        member->pss_asked = sbx_pss_add(meter->pss, member->memory_pid,
                                        parent != NULL ? parent->memory_pid : 0) != NULL;
    }
}

static uint64_t rss_and_swap(const struct sbx_member *member)
{
    return member->rss_bytes + known_or(member->swap_bytes, 0);
}

/* Whom the reader could not read in time: what it had when it was last read, and what its
 * RSS has grown by since; its RSS when it never was. */
static uint64_t estimate(const struct sbx_member *member)
{
    uint64_t most = rss_and_swap(member);
    if (member->pss_bytes == SBX_UNKNOWN) {
        return most;
    }
    uint64_t grown = member->rss_bytes > member->pss_rss_bytes
                         ? member->rss_bytes - member->pss_rss_bytes
                         : 0;
    return member->pss_bytes + grown < most ? member->pss_bytes + grown : most;
}

/* Takes an answer; returns what the member counts. */
static uint64_t add_entry(struct sbx_member *member, const struct sbx_pss_entry *entry,
                          struct pss *pss)
{
    uint64_t swap = known_or(entry->swap_bytes, known_or(member->swap_bytes, 0));
    member->own_memory = member->own_memory || entry->differs;
    member->pss_rss_bytes = member->rss_bytes;
    if (entry->state == SBX_PSS_DONE) {
        member->pss_bytes = entry->pss_bytes + swap;
        pss->anon_bytes += entry->anon_bytes;
        pss->private_bytes += entry->private_bytes;
        pss->swap_bytes += swap;
    } else if (entry->state == SBX_PSS_REFUSED) {
        member->pss_bytes = rss_and_swap(member);
        pss->anon_bytes += member->rss_bytes;
        pss->by_rss = true;
    } else {
        member->pss_bytes = 0; /* gone, or its parent's memory */
        pss->gone += entry->state == SBX_PSS_GONE ? 1U : 0U;
    }
    return member->pss_bytes;
}

static void add_answers(struct sbx_meter *meter, struct sbx_tree *tree, uint64_t now_us,
                        struct sbx_sample *sample, struct pss *pss)
{
    size_t next = 0;
    bool hung = false;
    memset(&sample->memory_culprit, 0, sizeof sample->memory_culprit);
    for (size_t i = 0; i < sbx_tree_count(tree); i++) {
        struct sbx_member *member = sbx_tree_member(tree, i);
        if (sbx_member_ended(member) || member->rss_bytes == 0) {
            continue;
        }
        const struct sbx_pss_entry *entry =
            member->pss_asked ? sbx_pss_entry_at(meter->pss, next++) : NULL;
        if (entry != NULL && entry->state == SBX_PSS_PENDING && !hung) {
            hung = true; /* at this one; the rest had no turn */
            member->pss_retry_us = now_us + PSS_RETRY_US;
        }
        bool answered = entry != NULL && entry->state != SBX_PSS_PENDING;
        uint64_t bytes = answered ? add_entry(member, entry, pss) : estimate(member);
        pss->total_bytes += bytes;
        pss->members++;
        offer(&sample->memory_culprit, member, bytes);
    }
}

static void note_pss(struct sbx_meter *meter, const struct pss *pss,
                     struct sbx_sample *sample)
{
    struct sbx_usage *usage = meter->usage;
    sample->memory_bytes = pss->total_bytes;
    if (pss->total_bytes > sample->memory_bound_bytes) {
        sample->memory_bound_bytes = pss->total_bytes; /* they have grown meanwhile */
    }
    if (usage->memory_peak_bytes == SBX_UNKNOWN ||
        pss->total_bytes > usage->memory_peak_bytes) {
        usage->memory_peak_bytes = pss->total_bytes;
        usage->memory_peak_at_us = sample->elapsed_us;
    }
    raise_to(&usage->memory_anon_peak_bytes, pss->anon_bytes);
    raise_to(&usage->swap_peak_bytes, meter->swap_on ? pss->swap_bytes : 0);
    enum sbx_memory_method method = pss->by_rss ? SBX_MEMORY_RSS : SBX_MEMORY_PSS;
    if (method > usage->memory_method) {
        usage->memory_method = method;
    }
}

struct reading {
    struct sbx_sample sample;
    struct pss pss;
    int error; /* 0: every member was read that may be */
    bool torn; /* members left meanwhile: pages may count twice */
};

static void read_once(struct sbx_meter *meter, struct sbx_tree *tree, uint64_t wait_us,
                      struct reading *ret_reading)
{
    uint64_t now = sbx_clock_us();
    request_pss(meter, tree, now);
    ret_reading->error = sbx_pss_read(meter->pss, wait_us);
    add_answers(meter, tree, now, &ret_reading->sample, &ret_reading->pss);
}

/* A sum that no members who leave can have made too large: there is one member, or what
 * members had to themselves is enough, or it does not matter. */
static bool is_certain(const struct pss *pss, uint64_t matters)
{
    return pss->members < 2 || pss->total_bytes <= matters ||
           pss->private_bytes > matters;
}

/* Members are read one after the other. What one has shared when it is read, and another
 * has alone when that is read, since the first has left meanwhile, counts twice. So a sum
 * that would matter is read again, and the least counts: what is really there stays. If
 * all are still there in the second reading, nobody has left during the first. */
static struct reading read_least(struct sbx_meter *meter, struct sbx_tree *tree,
                                 bool for_limit, const struct sbx_sample *sample)
{
    uint64_t matters = for_limit ? meter->limits.memory_bytes
                                 : known_or(meter->usage->memory_peak_bytes, 0);
    uint64_t wait = for_limit ? PSS_WAIT_LIMIT_US : PSS_WAIT_PEAK_US;
    int attempts = for_limit ? PSS_READINGS_LIMIT : PSS_READINGS_PEAK;
    uint64_t started = sbx_clock_us();
    struct reading least = {.sample = *sample};
    read_once(meter, tree, wait, &least);
    bool torn = !is_certain(&least.pss, matters);
    size_t gone = least.pss.gone;
    for (int i = 1; i < attempts && torn && least.error == 0; i++) {
        if (sbx_clock_us() - started > PSS_READINGS_US) {
            break;
        }
        struct reading again = {.sample = *sample};
        read_once(meter, tree, wait, &again);
        torn = again.pss.gone != gone && !is_certain(&again.pss, matters);
        gone = again.pss.gone;
        if (again.error < 0 || again.pss.total_bytes < least.pss.total_bytes) {
            least = again;
        }
    }
    least.torn = torn;
    return least;
}

/* A sum that is torn, or partly an estimate, breaks no limit at once: members that fork
 * hold their own lock for a moment, and a crowd that ends is soon gone. But nobody gets
 * away by going on so. */
static bool is_doubtful(struct sbx_meter *meter, const struct reading *reading)
{
    bool certain = reading->error == 0 && !reading->torn;
    if (certain || reading->pss.total_bytes <= meter->limits.memory_bytes) {
        meter->doubt_since_us = SBX_UNKNOWN;
        meter->doubts = 0;
        return false;
    }
    if (meter->doubt_since_us == SBX_UNKNOWN) {
        meter->doubt_since_us = reading->sample.elapsed_us;
    }
    meter->doubts++;
    return meter->doubts < PSS_DOUBTS ||
           reading->sample.elapsed_us - meter->doubt_since_us < PSS_DOUBT_US;
}

static void read_pss(struct sbx_meter *meter, struct sbx_tree *tree, bool for_limit,
                     struct sbx_sample *sample)
{
    struct reading reading = read_least(meter, tree, for_limit, sample);
    if (reading.error < 0) {
        meter->peak_retry_us = sample->elapsed_us + PSS_RETRY_US;
    }
    if (!for_limit) {
        if (reading.error == 0) { /* else there is another time */
            note_pss(meter, &reading.pss, &reading.sample);
            *sample = reading.sample;
        }
        return;
    }
    if (is_doubtful(meter, &reading)) {
        return; /* its memory stays unknown, and the next sample is soon */
    }
    bool below = reading.pss.total_bytes <= meter->limits.memory_bytes;
    if (reading.error < 0 && below) {
        reading.sample.memory_bytes =
            reading.pss.total_bytes; /* no figure for the report */
    } else {
        reading.pss.by_rss = reading.pss.by_rss || reading.error < 0;
        note_pss(meter, &reading.pss, &reading.sample);
    }
    *sample = reading.sample;
}

static bool exceeds(uint64_t bound, uint64_t past)
{
    return bound > past + past / PEAK_STEP + PEAK_STEP_BYTES;
}

static uint64_t cpu_of(const struct sbx_meter *meter, const struct sums *sums)
{
    return sums->user_us + sums->system_us + meter->reaped_user_us +
           meter->reaped_system_us;
}

static bool promises_peak(const struct sbx_meter *meter, const struct sums *sums,
                          const struct sbx_sample *sample)
{
    uint64_t peak = meter->usage->memory_peak_bytes;
    uint64_t bound = sample->memory_bound_bytes;
    if (sample->elapsed_us < PSS_FIRST_US || sample->elapsed_us < meter->peak_retry_us) {
        return false;
    }
    if (peak == SBX_UNKNOWN) {
        return true;
    }
    bool grows = exceeds(bound, meter->read_bound_bytes);
    bool works = cpu_of(meter, sums) != meter->read_cpu_us;
    bool paid =
        sample->elapsed_us - meter->read_at_us >= meter->read_cost_us * PSS_CALM_SHARE;
    uint64_t budget = PSS_CREDIT_US + sample->elapsed_us / PSS_SHARE;
    return exceeds(bound, peak) &&
           ((works && paid) || (grows && sbx_pss_cost_us(meter->pss) <= budget));
}

static void take_memory(struct sbx_meter *meter, struct sbx_tree *tree,
                        const struct sums *sums, struct sbx_sample *sample)
{
    sample->memory_bound_bytes = sums->rss_bytes + sums->swap_bytes;
    sample->memory_bytes = SBX_UNKNOWN;
    if (sample->processes == 0 && sums->rss_bytes == 0) {
        sample->memory_bytes = 0;
        return;
    }
    uint64_t limit = meter->limits.memory_bytes;
    bool for_limit = limit != 0 && sample->memory_bound_bytes > limit;
    if (for_limit || promises_peak(meter, sums, sample)) {
        uint64_t cost_before = sbx_pss_cost_us(meter->pss);
        meter->read_bound_bytes = sample->memory_bound_bytes;
        meter->read_cpu_us = cpu_of(meter, sums);
        meter->read_at_us = sample->elapsed_us;
        read_pss(meter, tree, for_limit, sample);
        meter->read_cost_us = sbx_pss_cost_us(meter->pss) - cost_before;
    }
}

/* --- the sample --- */

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
    take_memory(meter, tree, &sums, &sample);
    take_cpu(meter, &sums);
    sample.cpu_us = meter->usage->cpu_us;
    if (meter->limits.processes_count != 0 &&
        sums.processes > meter->limits.processes_count) {
        find_most_children(tree, &sample);
    }
    struct sbx_usage *usage = meter->usage;
    raise_to(&usage->processes_peak, sums.processes);
    raise_to(&usage->threads_peak, sums.threads);
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
