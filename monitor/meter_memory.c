/*
 * meter_memory.c - the memory of a tree: when PSS is worth a reading (meter.h says why it
 * is not always), what the reader's answers add up to, and which sums are to be believed.
 */
#include "monitor/meter_private.h"

#include "base/clock.h"

#include <errno.h>
#include <string.h>

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
/* A peak is certain when not more than one part of these is shared. */
#define SHARED_PART 16U
#define PSS_DOUBT_US 500000U
#define PSS_DOUBTS 4U

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
    return member->rss_bytes + sbx_known_or(member->swap_bytes, 0);
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
    uint64_t swap = sbx_known_or(entry->swap_bytes, sbx_known_or(member->swap_bytes, 0));
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
        sbx_offer_culprit(&sample->memory_culprit, member, bytes);
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
    if (pss->total_bytes == 0) {
        return; /* all had ended when they were asked: that measures nothing */
    }
    if (usage->memory_peak_bytes == SBX_UNKNOWN ||
        pss->total_bytes > usage->memory_peak_bytes) {
        usage->memory_peak_bytes = pss->total_bytes;
        usage->memory_peak_at_us = sample->elapsed_us;
    }
    sbx_raise_to(&usage->memory_anon_peak_bytes, pss->anon_bytes);
    sbx_raise_to(&usage->swap_peak_bytes, meter->swap_on ? pss->swap_bytes : 0);
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

/* A sum that no members who leave can have made too large: there is one member, or it
 * does not matter, or what members had to themselves is enough: to cross the limit, or to
 * be as good as all of it, where it is the figure itself that counts. */
static bool is_certain(const struct pss *pss, bool for_limit, uint64_t matters)
{
    uint64_t alone = pss->private_bytes;
    return pss->members < 2 || pss->total_bytes <= matters ||
           (for_limit ? alone > matters
                      : alone + alone / SHARED_PART >= pss->total_bytes);
}

/* Members are read one after the other. What one has shared when it is read, and another
 * has alone when that is read, since the first has left meanwhile, counts twice. So a sum
 * that would matter is read again, and the least counts: what is really there stays. If
 * all are still there in the second reading, nobody has left during the first. */
static struct reading read_least(struct sbx_meter *meter, struct sbx_tree *tree,
                                 bool for_limit, const struct sbx_sample *sample)
{
    uint64_t matters = for_limit ? meter->limits.memory_bytes
                                 : sbx_known_or(meter->usage->memory_peak_bytes, 0);
    uint64_t wait = for_limit ? PSS_WAIT_LIMIT_US : PSS_WAIT_PEAK_US;
    int attempts = for_limit ? PSS_READINGS_LIMIT : PSS_READINGS_PEAK;
    uint64_t started = sbx_clock_us();
    struct reading least = {.sample = *sample};
    read_once(meter, tree, wait, &least);
    bool torn = !is_certain(&least.pss, for_limit, matters);
    size_t gone = least.pss.gone;
    for (int i = 1; i < attempts && torn && least.error == 0; i++) {
        if (sbx_clock_us() - started > PSS_READINGS_US) {
            torn = for_limit || gone > 0; /* a peak has nothing against it but that */
            break;
        }
        struct reading again = {.sample = *sample};
        read_once(meter, tree, wait, &again);
        torn = again.pss.gone != gone && !is_certain(&again.pss, for_limit, matters);
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

/* Of a sum in doubt only that is certain which no member shared with another. */
static void settle(struct pss *pss, bool torn)
{
    if (torn && pss->private_bytes < pss->total_bytes) {
        pss->total_bytes = pss->private_bytes;
        pss->anon_bytes =
            pss->anon_bytes < pss->total_bytes ? pss->anon_bytes : pss->total_bytes;
    }
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
            settle(&reading.pss, reading.torn);
            if (reading.torn) {
                meter->read_bound_bytes = 0; /* worth another reading */
            }
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

static bool promises_peak(const struct sbx_meter *meter, uint64_t cpu_us,
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
    bool works = cpu_us != meter->read_cpu_us;
    bool paid =
        sample->elapsed_us - meter->read_at_us >= meter->read_cost_us * PSS_CALM_SHARE;
    uint64_t budget = PSS_CREDIT_US + sample->elapsed_us / PSS_SHARE;
    return exceeds(bound, peak) &&
           ((works && paid) || (grows && sbx_pss_cost_us(meter->pss) <= budget));
}

/* The kernel's own account. What a sample shows is what cannot be taken away from the
 * group: all that it is charged for grows with page cache up to any limit. */
static void take_group_memory(struct sbx_meter *meter, struct sbx_sample *sample)
{
    const struct sbx_figures *figures = &meter->figures;
    struct sbx_usage *usage = meter->usage;
    uint64_t charged = sbx_known_or(figures->memory_peak_bytes, figures->memory_bytes);
    uint64_t anon =
        sbx_known_or(figures->anon_bytes, 0) + sbx_known_or(figures->shmem_bytes, 0);
    uint64_t swap = sbx_known_or(figures->swap_bytes, 0);
    sample->memory_bytes =
        figures->anon_bytes != SBX_UNKNOWN ? anon + swap : figures->memory_bytes + swap;
    sample->memory_bound_bytes = sample->memory_bytes;
    if (usage->memory_peak_bytes == SBX_UNKNOWN || charged > usage->memory_peak_bytes) {
        usage->memory_peak_bytes = charged;
        usage->memory_peak_at_us = sample->elapsed_us;
    }
    if (figures->anon_bytes != SBX_UNKNOWN) {
        sbx_raise_to(&usage->memory_anon_peak_bytes, anon);
    }
    sbx_raise_to(&usage->swap_peak_bytes, figures->swap_bytes);
    usage->memory_method = SBX_MEMORY_CGROUP;
}

void sbx_meter_take_memory(struct sbx_meter *meter, struct sbx_tree *tree,
                           uint64_t cpu_us, struct sbx_sample *sample)
{
    sample->memory_bytes = SBX_UNKNOWN;
    if (sample->processes == 0 && sample->memory_bound_bytes == 0) {
        sample->memory_bytes = 0;
        return;
    }
    if (meter->grouped && !meter->left && meter->figures.memory_bytes != SBX_UNKNOWN) {
        take_group_memory(meter, sample);
        return;
    }
    uint64_t limit = meter->limits.memory_bytes;
    bool for_limit = limit != 0 && sample->memory_bound_bytes > limit;
    if (for_limit || promises_peak(meter, cpu_us, sample)) {
        uint64_t cost_before = sbx_pss_cost_us(meter->pss);
        meter->read_bound_bytes = sample->memory_bound_bytes;
        meter->read_cpu_us = cpu_us;
        meter->read_at_us = sample->elapsed_us;
        read_pss(meter, tree, for_limit, sample);
        meter->read_cost_us = sbx_pss_cost_us(meter->pss) - cost_before;
    }
}
