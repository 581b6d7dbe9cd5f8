/*
 * verdict.c - see verdict.h. No clock, no system call, no state.
 *
 * What is ambiguous: an OOM kill by an ancestor's limit cannot be told from one by a
 * limit of a group below, once that was hit as well. Then the command's own affair is
 * assumed. And before 6.12 the kernel counts a refused fork where somebody wanted to
 * fork, not where the limit is: it may have been an ancestor's limit. As long as the peak
 * of tasks (from 6.1 on) has stayed below our limit, it was not ours; without a peak it
 * is taken for ours.
 */
#include "monitor/verdict.h"

static uint64_t known(uint64_t number)
{
    return number == SBX_UNKNOWN ? 0 : number;
}

static uint64_t grown(uint64_t before, uint64_t now)
{
    return known(now) > known(before) ? known(now) - known(before) : 0;
}

/* The kernel says that the limit was reached: whatever was seen of it is not less. */
static uint64_t at_least(uint64_t limit, uint64_t seen)
{
    return seen == SBX_UNKNOWN || seen < limit ? limit : seen;
}

static bool is_over_memory(const struct sbx_evidence *evidence,
                           struct sbx_verdict *verdict)
{
    uint64_t limit = evidence->armed.memory_bytes;
    if (limit == SBX_UNKNOWN ||
        grown(evidence->before.local_oom, evidence->now.local_oom) == 0) {
        return false;
    }
    uint64_t seen = evidence->now.memory_peak_bytes != SBX_UNKNOWN
                        ? evidence->now.memory_peak_bytes
                        : evidence->anon_peak_bytes;
    *verdict = (struct sbx_verdict){
        .reason = SBX_REASON_MEMORY, .limit = limit, .observed = at_least(limit, seen)};
    return true;
}

/* Forks that the leaf's own limit refused. Where the kernel counts refusals by the limit
 * that refused (from 6.12 on), that count is enough; before, it counts where somebody
 * wanted to fork, and a limit that was never reached has refused nothing. */
static bool is_never_reached(const struct sbx_evidence *evidence)
{
    return evidence->now.tasks_peak != SBX_UNKNOWN &&
           evidence->now.tasks_peak < evidence->armed.threads_count;
}

static uint64_t refused_forks(const struct sbx_evidence *evidence)
{
    const struct sbx_figures *before = &evidence->before;
    const struct sbx_figures *now = &evidence->now;
    if (now->forks_refused_local != SBX_UNKNOWN) {
        return grown(before->forks_refused_local, now->forks_refused_local);
    }
    return is_never_reached(evidence) ? 0
                                      : grown(before->forks_refused, now->forks_refused) +
                                            known(evidence->refused_below);
}

bool sbx_verdict_needs_below(const struct sbx_evidence *evidence)
{
    const struct sbx_figures *now = &evidence->now;
    return evidence->armed.threads_count != SBX_UNKNOWN &&
           now->forks_refused != SBX_UNKNOWN && now->forks_refused_local == SBX_UNKNOWN &&
           !is_never_reached(evidence) &&
           grown(evidence->before.forks_refused, now->forks_refused) == 0;
}

static bool is_over_threads(const struct sbx_evidence *evidence,
                            struct sbx_verdict *verdict)
{
    uint64_t limit = evidence->armed.threads_count;
    if (limit == SBX_UNKNOWN || refused_forks(evidence) == 0) {
        return false;
    }
    /* It had as many as it may, and wanted one more. */
    *verdict = (struct sbx_verdict){
        .reason = SBX_REASON_THREADS, .limit = limit, .observed = limit + 1};
    return true;
}

static bool is_killed_from_outside(const struct sbx_evidence *evidence,
                                   struct sbx_verdict *verdict)
{
    const struct sbx_figures *before = &evidence->before;
    const struct sbx_figures *now = &evidence->now;
    if (grown(before->oom_kill, now->oom_kill) == 0 || grown(before->oom, now->oom) > 0 ||
        grown(before->local_oom, now->local_oom) > 0) {
        return false;
    }
    *verdict = (struct sbx_verdict){
        .reason = SBX_REASON_OOM, .limit = SBX_UNKNOWN, .observed = SBX_UNKNOWN};
    return true;
}

bool sbx_verdict(const struct sbx_evidence *evidence, struct sbx_verdict *ret_verdict)
{
    return is_over_memory(evidence, ret_verdict) ||
           is_over_threads(evidence, ret_verdict) ||
           is_killed_from_outside(evidence, ret_verdict);
}
