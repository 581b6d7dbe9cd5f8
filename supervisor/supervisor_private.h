/*
 * supervisor_private.h - all executions of a state directory, as the files see them that
 * make up the supervisor: supervisor_options.c (what was set), supervisor.c (opening, the
 * loop, what a request leads to), execution.c (one of them, and its keeper), settle.c
 * (how one ends, whatever has become of its keeper), retain.c (results: how long, how
 * many), waiter.c (who waits for what), calls.c (the calls of <sbx/sbx.h>).
 */
#ifndef SBX_SUPERVISOR_SUPERVISOR_PRIVATE_H
#define SBX_SUPERVISOR_SUPERVISOR_PRIVATE_H

#include "monitor/loop.h"
#include "supervisor/supervisor.h"

#include <limits.h>
#include <sys/queue.h>

/* How sbxd stands to the processes of an execution. */
enum sbx_bond {
    SBX_BOND_SEEKING = 0, /* no connection; the lock tells whether anybody is there */
    SBX_BOND_CONNECTED,
    SBX_BOND_SETTLED, /* it is over, and all about it is on file */
};

enum sbx_waiter_kind { SBX_WAITER_NEWS = 0, SBX_WAITER_SETTLED, SBX_WAITER_ORDER };

struct sbx_waiter {
    struct sbx_supervisor *supervisor;
    struct sbx_execution *execution; /* NULL: it is on the list of those who are due */
    enum sbx_waiter_kind kind;
    uint32_t ticket;                /* of an ORDER */
    struct sbx_control_marks marks; /* of NEWS */
    int code;
    sbx_done_callback *done;
    void *context;
    TAILQ_ENTRY(sbx_waiter) link;
};
TAILQ_HEAD(sbx_waiters, sbx_waiter);

struct sbx_execution {
    struct sbx_supervisor *supervisor;
    struct sbx_facts facts;
    enum sbx_bond bond;
    enum sbx_execution_status status;
    uint64_t finished_real_us;
    uint64_t expires_us; /* CLOCK_MONOTONIC; of a settled one */
    int directory;       /* -1 for a settled one */
    int control;         /* -1 unless connected */
    struct sbx_source *on_control;
    uint64_t connected_us; /* CLOCK_MONOTONIC: the last time */
    bool greeted;          /* the other end has said that it is a keeper */
    uint32_t last_ticket;
    struct sbx_control_marks watched; /* of the last WATCH */
    uint64_t seek_us;       /* CLOCK_MONOTONIC: when to look again, or to send again what
                               did not fit */
    uint64_t seek_delay_us; /* and how long after that */
    bool adopted;           /* it was there when we came, and is not connected yet */
    bool cancelled;         /* was asked for; sent with every new connection */
    bool removed;           /* is to be forgotten once it is settled */
    struct sbx_waiters waiters;
    TAILQ_ENTRY(sbx_execution) link;         /* of all, in order of creation */
    TAILQ_ENTRY(sbx_execution) settled_link; /* in order of their end */
};
TAILQ_HEAD(sbx_executions, sbx_execution);

struct sbx_supervisor {
    struct sbx_supervisor_plan plan;
    struct sbx_state *state; /* NULL: not open */
    struct sbx_loop *loop;
    struct sbx_source *on_due;  /* waiters that are due */
    struct sbx_source *on_seek; /* the next look after a keeper */
    struct sbx_source *on_retention;
    struct sbx_source *on_signals;
    struct sbx_source *on_bound; /* the loop ends then */
    int signals;
    bool shuts_down;           /* nothing new is started */
    bool ends_empty;           /* the loop ends when nothing is active */
    uint64_t retention_us;     /* CLOCK_MONOTONIC: when the first result is to go */
    uint64_t descriptors_soft; /* as it was before we raised it */
    char keeper_program[PATH_MAX];
    char run_program[PATH_MAX];
    void *by_id; /* of tsearch(3) */
    struct sbx_executions all;
    struct sbx_executions settled;
    size_t count;
    size_t settled_count;
    struct sbx_waiters due;
    int shown_directory; /* of the settled one that was looked at last; -1: none */
    const struct sbx_execution *shown;
    struct sbx_supervisor_stats stats;
};

/* --- execution.c --- */

/* A new one, known by its id. NULL: no memory. */
struct sbx_execution *sbx_execution_new(struct sbx_supervisor *supervisor,
                                        const struct sbx_facts *facts);

/* Takes it from all lists, closes what it has, and frees it; its waiters are done with
 * that. The processes of the execution, and its place, stay as they are. */
void sbx_execution_free(struct sbx_execution *execution, int code);

/* Takes both descriptors. 0 or a negative errno. */
int sbx_execution_connect(struct sbx_execution *execution, int control_take);

/* Looks for its keeper: connects, or finds out that nobody is there any more. May settle
 * it, or remove it. Where it is connected: tells the keeper again what did not fit. */
void sbx_execution_seek(struct sbx_execution *execution);

/* Arms the timer of the next look. */
void sbx_execution_plan_seek(struct sbx_supervisor *supervisor);

void sbx_execution_disconnect(struct sbx_execution *execution);

/* Asks for its end, now or with the next connection. */
void sbx_execution_cancel(struct sbx_execution *execution);

/* Sends what its waiters want to hear of. */
void sbx_execution_watch(struct sbx_execution *execution);

/* --- supervisor.c --- */

/* SIGTERM and SIGINT end the loop from now on. 0 or a negative errno. */
int sbx_supervisor_open_signals(struct sbx_supervisor *supervisor, struct sbx_error *err);

/* --- settle.c --- */

/* All is on file: from the page. */
void sbx_execution_settle(struct sbx_execution *execution, const struct sbx_page *page);

/* No process of it is left, and the file does not say how it ended: finds out, and writes
 * it there. */
void sbx_execution_conclude(struct sbx_execution *execution, const struct sbx_page *page);

/* --- retain.c --- */

/* It has just been settled, and may be forgotten by this. */
void sbx_retain(struct sbx_execution *execution);

/* Makes room for one more of that peer. False: there is none. */
bool sbx_retain_make_room(struct sbx_supervisor *supervisor, const struct sbx_peer *peer);

/* Forgets a settled one, and its place. */
void sbx_retain_forget(struct sbx_execution *execution);
void sbx_retain_on_time(void *context);

/* --- waiter.c --- */

/* NULL: no memory. */
struct sbx_waiter *sbx_waiter_new(struct sbx_execution *execution,
                                  enum sbx_waiter_kind kind, sbx_done_callback *done,
                                  void *context);

/* It is done with that code: `done` is called from the loop. */
void sbx_waiter_finish(struct sbx_waiter *waiter, int code);

/* All of that execution, or those of one kind, are. */
void sbx_waiters_finish(struct sbx_execution *execution, int code);
void sbx_waiters_finish_orders(struct sbx_execution *execution, int code);
void sbx_waiters_on_due(void *context);

/* Something is new: those who waited for that are done. Whether there were any. */
bool sbx_waiters_look(struct sbx_execution *execution);

/* The lowest marks of all. False: nobody waits for news. */
bool sbx_waiters_marks(const struct sbx_execution *execution,
                       struct sbx_control_marks *ret_marks);

#endif
