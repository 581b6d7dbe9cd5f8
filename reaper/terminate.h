/*
 * terminate.h - the steps by which a run ends, as a pure state machine.
 *
 * Time and facts come in as arguments; what to do next comes out. Nothing here reads a
 * clock, sends a signal or waits, so that every course of events is a row in a test.
 *
 *     running -> lingering | waiting -> sweeping -> done    the leader ended by itself
 *     running -> polite -> sweeping -> done                 breach or cancel, with grace
 *     running -> sweeping -> done                           a breach without grace
 */
#ifndef SBX_REAPER_TERMINATE_H
#define SBX_REAPER_TERMINATE_H

#include <stdbool.h>
#include <stdint.h>

enum sbx_phase {
    SBX_PHASE_RUNNING = 0,
    SBX_PHASE_LINGERING, /* the leader ended; strays may go on until the deadline */
    SBX_PHASE_WAITING,   /* the leader ended; strays may go on until they end or cross a
                            limit */
    SBX_PHASE_POLITE,    /* the polite signal was sent; SIGKILL at the deadline */
    SBX_PHASE_SWEEPING,
    SBX_PHASE_DONE,
};

enum sbx_event {
    SBX_EVENT_LEADER_ENDED = 0, /* by itself, before anything else happened */
    SBX_EVENT_STOP_POLITE,      /* breach or cancel that gets the grace */
    SBX_EVENT_STOP_NOW,         /* breach that does not; a second cancel */
    SBX_EVENT_EMPTY,            /* the tree is proved empty */
    SBX_EVENT_TIME,             /* nothing but time has passed */
};

enum sbx_step {
    SBX_STEP_NONE = 0, /* go on; look again at the deadline */
    SBX_STEP_SIGNAL,   /* send the polite signal to every member, once */
    SBX_STEP_SWEEP,    /* SIGKILL until proved empty */
    SBX_STEP_FINISH,   /* the tree is empty, or is to be kept: report */
};

enum sbx_after_leader { SBX_AFTER_KILL = 0, SBX_AFTER_WAIT, SBX_AFTER_KEEP };

struct sbx_termination_plan {
    uint64_t grace_us;
    uint64_t linger_us; /* for SBX_AFTER_KILL */
    enum sbx_after_leader after_leader;
};

struct sbx_terminate {
    struct sbx_termination_plan plan;
    enum sbx_phase phase;
    uint64_t deadline_us; /* of the phase; SBX_FOREVER_US: none */
};

void sbx_terminate_init(struct sbx_terminate *terminate,
                        const struct sbx_termination_plan *plan);

/* What has to be done now that `event` happened at `now_us`. Each step is returned once.
 */
enum sbx_step sbx_terminate_next(struct sbx_terminate *terminate, enum sbx_event event,
                                 uint64_t now_us);

/* True while limits are judged: until the first signal of the ending. */
bool sbx_terminate_judges(const struct sbx_terminate *terminate);

#endif
