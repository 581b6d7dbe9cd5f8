/*
 * terminate.c - see terminate.h.
 */
#include "reaper/terminate.h"

#include "base/clock.h"

void sbx_terminate_init(struct sbx_terminate *terminate,
                        const struct sbx_termination_plan *plan)
{
    terminate->plan = *plan;
    terminate->phase = SBX_PHASE_RUNNING;
    terminate->deadline_us = SBX_FOREVER_US;
}

bool sbx_terminate_judges(const struct sbx_terminate *terminate)
{
    return terminate->phase == SBX_PHASE_RUNNING ||
           terminate->phase == SBX_PHASE_LINGERING ||
           terminate->phase == SBX_PHASE_WAITING;
}

static enum sbx_step enter(struct sbx_terminate *terminate, enum sbx_phase phase,
                           uint64_t deadline_us, enum sbx_step step)
{
    terminate->phase = phase;
    terminate->deadline_us = deadline_us;
    return step;
}

static enum sbx_step sweep(struct sbx_terminate *terminate)
{
    return enter(terminate, SBX_PHASE_SWEEPING, SBX_FOREVER_US, SBX_STEP_SWEEP);
}

static enum sbx_step finish(struct sbx_terminate *terminate)
{
    return enter(terminate, SBX_PHASE_DONE, SBX_FOREVER_US, SBX_STEP_FINISH);
}

static enum sbx_step polite(struct sbx_terminate *terminate, uint64_t now_us)
{
    if (terminate->plan.grace_us == 0) {
        return sweep(
            terminate); /* a signal that nobody gets the time to act on is none */
    }
    return enter(terminate, SBX_PHASE_POLITE,
                 sbx_clock_add(now_us, terminate->plan.grace_us), SBX_STEP_SIGNAL);
}

static enum sbx_step leader_ended(struct sbx_terminate *terminate, uint64_t now_us)
{
    const struct sbx_termination_plan *plan = &terminate->plan;
    switch (plan->after_leader) {
    case SBX_AFTER_KEEP:
        return finish(terminate);
    case SBX_AFTER_WAIT:
        return enter(terminate, SBX_PHASE_WAITING, SBX_FOREVER_US, SBX_STEP_NONE);
    case SBX_AFTER_KILL:
        break;
    }
    if (plan->linger_us == 0) {
        return sweep(terminate);
    }
    return enter(terminate, SBX_PHASE_LINGERING, sbx_clock_add(now_us, plan->linger_us),
                 SBX_STEP_NONE);
}

/* Before the first signal: the leader runs, or what it left may still go on. */
static enum sbx_step while_judging(struct sbx_terminate *terminate, enum sbx_event event,
                                   uint64_t now_us)
{
    switch (event) {
    case SBX_EVENT_LEADER_ENDED:
        return terminate->phase == SBX_PHASE_RUNNING ? leader_ended(terminate, now_us)
                                                     : SBX_STEP_NONE;
    case SBX_EVENT_STOP_POLITE:
        return polite(terminate, now_us);
    case SBX_EVENT_STOP_NOW:
        return sweep(terminate);
    case SBX_EVENT_EMPTY:
        return finish(terminate);
    case SBX_EVENT_TIME:
        return now_us >= terminate->deadline_us ? sweep(terminate) : SBX_STEP_NONE;
    }
    return SBX_STEP_NONE;
}

static enum sbx_step while_polite(struct sbx_terminate *terminate, enum sbx_event event,
                                  uint64_t now_us)
{
    switch (event) {
    case SBX_EVENT_EMPTY:
        return finish(terminate);
    case SBX_EVENT_STOP_NOW:
        return sweep(terminate);
    case SBX_EVENT_TIME:
    case SBX_EVENT_LEADER_ENDED:
        return now_us >= terminate->deadline_us ? sweep(terminate) : SBX_STEP_NONE;
    case SBX_EVENT_STOP_POLITE:
        return SBX_STEP_NONE; /* the first reason has won already */
    }
    return SBX_STEP_NONE;
}

enum sbx_step sbx_terminate_next(struct sbx_terminate *terminate, enum sbx_event event,
                                 uint64_t now_us)
{
    switch (terminate->phase) {
    case SBX_PHASE_RUNNING:
    case SBX_PHASE_LINGERING:
    case SBX_PHASE_WAITING:
        return while_judging(terminate, event, now_us);
    case SBX_PHASE_POLITE:
        return while_polite(terminate, event, now_us);
    case SBX_PHASE_SWEEPING:
        return event == SBX_EVENT_EMPTY ? finish(terminate) : SBX_STEP_NONE;
    case SBX_PHASE_DONE:
        return SBX_STEP_NONE;
    }
    return SBX_STEP_NONE;
}
