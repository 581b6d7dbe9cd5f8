/*
 * retain.c - results: kept until their time is over or the oldest must make room, and
 * never longer than that. What goes on is never touched.
 */
#include "supervisor/supervisor_private.h"

#include "base/clock.h"

#include <errno.h>

/* What is over goes together, at most that much later. */
#define TOGETHER_US UINT64_C(10000)

void sbx_retain_forget(struct sbx_execution *execution)
{
    struct sbx_supervisor *supervisor = execution->supervisor;
    (void)sbx_state_remove(supervisor->state, execution->facts.id, NULL);
    sbx_execution_free(execution, ECANCELED);
}

static void arm(struct sbx_supervisor *supervisor)
{
    uint64_t first = SBX_FOREVER_US;
    const struct sbx_execution *execution = NULL;
    TAILQ_FOREACH(execution, &supervisor->settled, settled_link)
    {
        first = execution->expires_us < first ? execution->expires_us : first;
    }
    supervisor->retention_us = first;
    (void)sbx_source_arm(supervisor->on_retention, first);
}

void sbx_retain_on_time(void *context)
{
    struct sbx_supervisor *supervisor = context;
    uint64_t now = sbx_clock_us() + TOGETHER_US;
    struct sbx_execution *execution = TAILQ_FIRST(&supervisor->settled);
    while (execution != NULL) {
        struct sbx_execution *next = TAILQ_NEXT(execution, settled_link);
        if (execution->expires_us <= now) {
            supervisor->stats.expired_total++;
            sbx_retain_forget(execution);
        }
        execution = next;
    }
    arm(supervisor);
}

/* Its end was told by the wall clock, since it may have been before our time. */
static uint64_t expiry_of(const struct sbx_execution *execution)
{
    uint64_t real_us = sbx_clock_real_us();
    uint64_t end_us =
        sbx_clock_add(execution->finished_real_us, execution->facts.retention_us);
    uint64_t rest_us = end_us > real_us ? end_us - real_us : 0;
    uint64_t most_us = execution->facts.retention_us;
    return sbx_clock_add(sbx_clock_us(), rest_us < most_us ? rest_us : most_us);
}

void sbx_retain(struct sbx_execution *execution)
{
    struct sbx_supervisor *supervisor = execution->supervisor;
    if (execution->removed) {
        sbx_retain_forget(execution);
        return;
    }
    execution->expires_us = expiry_of(execution);
    if (execution->expires_us < supervisor->retention_us) {
        supervisor->retention_us = execution->expires_us;
        (void)sbx_source_arm(supervisor->on_retention, execution->expires_us);
    }
}

/* Somebody whom we serve only by permission has no part in the results of others, and
 * leaves a quarter of the room to those who are trusted. */
static struct sbx_execution *oldest_for(const struct sbx_supervisor *supervisor,
                                        const struct sbx_peer *peer)
{
    struct sbx_execution *execution = TAILQ_FIRST(&supervisor->settled);
    while (execution != NULL && !sbx_peer_is_trusted(peer) &&
           execution->facts.uid != peer->uid) {
        execution = TAILQ_NEXT(execution, settled_link);
    }
    return execution;
}

static bool is_full(const struct sbx_supervisor *supervisor, const struct sbx_peer *peer)
{
    uint64_t most = supervisor->plan.max_executions_count;
    if (supervisor->count >= most) {
        return true;
    }
    if (sbx_peer_is_trusted(peer)) {
        return false;
    }
    uint64_t others = 0;
    const struct sbx_execution *execution = NULL;
    TAILQ_FOREACH(execution, &supervisor->all, link)
    {
        const struct sbx_peer owner = {.uid = execution->facts.uid};
        others += sbx_peer_is_trusted(&owner) ? 0 : 1;
    }
    return others >= most - most / 4;
}

bool sbx_retain_make_room(struct sbx_supervisor *supervisor, const struct sbx_peer *peer)
{
    while (is_full(supervisor, peer)) {
        struct sbx_execution *oldest = oldest_for(supervisor, peer);
        if (oldest == NULL) {
            return false;
        }
        supervisor->stats.evicted_total++;
        sbx_retain_forget(oldest);
    }
    return true;
}

int sbx_execution_remove(struct sbx_execution *execution)
{
    if (execution->bond == SBX_BOND_SETTLED) {
        sbx_retain_forget(execution);
        return 0;
    }
    execution->removed = true;
    sbx_execution_cancel(execution);
    return -EINPROGRESS;
}
