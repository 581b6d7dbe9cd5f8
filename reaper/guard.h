/*
 * guard.h - two processes that watch each other, so that no single SIGKILL leaves a stray
 * or a run without a report.
 *
 *     caller -> guard (the calling process) -> monitor (forked) -> leader -> tree
 *
 * Both are child subreapers. The guard is idle: it passes signals on, serves the
 * terminal, publishes the result and carries the exit status. The monitor does the work.
 * If the monitor dies, the tree falls to the guard, which ends it; if the guard dies, the
 * monitor ends the tree and publishes. The monitor stays until the report is published,
 * so that there is always one of the two to do it. If the calling process already has
 * children, those are bystanders: a fresh guard is forked and the calling process stays a
 * thin front over it, which waits for nobody else.
 *
 * What is published, and how, is the business of the hooks; this room only knows that it
 * happens once.
 */
#ifndef SBX_REAPER_GUARD_H
#define SBX_REAPER_GUARD_H

#include "reaper/front.h"
#include "reaper/namespace.h"
#include "reaper/terminal.h"

#include <sbx/sbx.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum sbx_pair_phase {
    SBX_PAIR_STARTING = 0,
    SBX_PAIR_RUNNING,  /* the leader is there */
    SBX_PAIR_FINISHED, /* the monitor's result is complete */
};

enum sbx_pair_publish {
    SBX_PUBLISH_NONE = 0,
    SBX_PUBLISH_CLAIMED, /* one of the two is at it */
    SBX_PUBLISH_DONE,
};

/* In memory that both share. Plain words, each written by one side, but for `publish`,
 * which is claimed by exchange. */
struct sbx_pair {
    _Atomic int phase;
    _Atomic int publish;
    _Atomic int leader_pid;
    /* CLOCK_MONOTONIC by which the monitor should be through; a monitor that is stopped
     * past it is replaced. */
    _Atomic uint64_t overdue_us;
    /* When the monitor wants to look next; 0: not yet known. Long past it, it may be
     * starved of the processor. */
    _Atomic uint64_t due_us;
    struct sbx_namespace_note note; /* of the namespace that the run makes, if it does */
};

/* What goes through the socket between the two, one record each. */
enum sbx_pair_message_kind {
    SBX_MESSAGE_CANCEL = 1,  /* guard: value is the signal that asks for the end */
    SBX_MESSAGE_PASS,        /* guard: a signal for the command; front: one that it got */
    SBX_MESSAGE_CALLER_LOST, /* guard: the run was bound to its caller, which is gone */
    SBX_MESSAGE_FRONT_LOST,  /* guard: the front was killed */
    SBX_MESSAGE_PUBLISHED,   /* guard: the monitor may go */
    SBX_MESSAGE_STOPPED,     /* monitor: the leader was stopped by signal `value` */
    SBX_MESSAGE_CONTINUE, /* guard: SIGCONT for the command, after `value` such stops: one
                           * that was stopped again meanwhile stays so */
    SBX_MESSAGE_FINISHED, /* monitor: the result is complete */
    SBX_MESSAGE_READER_HUNG, /* monitor: wants another reader in place of the present one
                              */
    SBX_MESSAGE_STARTED,     /* monitor: the command has been executed */
    SBX_MESSAGE_USAGE,       /* guard: take a sample; monitor: it is taken */
    SBX_MESSAGE_PAUSE,       /* guard: hold all members where they are */
    SBX_MESSAGE_RESUME,      /* guard: let them go on */
    SBX_MESSAGE_NEWS,        /* monitor: `value` says what the record has that is new */
};

struct sbx_pair_message {
    int32_t kind;
    int32_t value;
};

/* The monitor's end of the pair. */
struct sbx_pair_link {
    struct sbx_pair *pair;
    int socket;
    int reader_socket; /* to the reader */
    int guard_pidfd;   /* readable when the guard is gone */
    pid_t guard_pid;
    bool below_front; /* the guard's parent is the front */
    const struct sbx_terminal *terminal;
    sigset_t
        inherited_ignored; /* of INT, HUP, QUIT, TERM: ignored when the program started */
};

struct sbx_guard_hooks {
    /* In the guard, before anybody is forked: what guard and monitor both need, and
     * servants (servant.h). 0, or a negative errno and the run fails. */
    int (*open)(void *context, struct sbx_error *err);
    /* In the guard, at its end: what `open` has brought goes, whatever happened. */
    void (*close)(void *context);
    /* Runs in the monitor process; its result is the process's exit status. Must set
     * FINISHED and see it published before it returns (sbx_pair_finish). */
    int (*monitor)(const struct sbx_pair_link *link, void *context);
    /* Runs in a process that reads for the monitor what may block (see monitor/pss.h),
     * until its socket is closed. */
    void (*reader)(int socket, void *context);
    /* In the guard, after the monitor died without a complete result: end what is left of
     * the tree, complete the result. */
    void (*lost)(struct sbx_pair *pair, void *context);
    /* In the guard, or in the monitor when the guard is gone: publishes the result. */
    void (*publish)(void *context);
    /* The exit status that goes with the published result. */
    int (*status)(void *context);
    /* In the guard, now and then while the run goes on: tells a caller how it goes. Never
     * blocks. Returns when it wants to be called next (CLOCK_MONOTONIC). May be NULL. */
    uint64_t (*progress)(void *context);
    /* The monitor could not even be started. */
    void (*failed)(const struct sbx_error *err, void *context);
    /* The command gets a session of its own: no terminal is handed over, and ^C there is
     * a request to us. */
    bool no_terminal;
    /* In the guard, once the command has been executed; NULL: nobody wants to know.
     * False: the run is to end again (as if by SIGHUP). */
    bool (*started)(void *context);
    /* In the guard: the monitor says so of its record, with that value. Must not wait.
     * May be NULL. */
    void (*news)(int what, void *context);
    /* In the guard: somebody asks by SIGUSR1 for the usage so far, and the monitor has
     * taken a sample for it or does not answer. Must not wait for anything. NULL: SIGUSR1
     * does nothing. */
    void (*usage)(void *context);
    /* In the guard, now and then while the monitor does not do what is long due:
     * something may be undone that holds it up. NULL: nothing can. */
    void (*late)(pid_t monitor, void *context);
    void *context;
};

/* Runs the pair to its end with the calling process as the guard, and returns the exit
 * status. All signals stay blocked: one that comes late must not change how a run is said
 * to have ended, and the caller is about to exit with that status. */
int sbx_guard_run(struct sbx_pair *pair, const struct sbx_guard_hooks *hooks,
                  bool die_with_parent);

/* The same for a process that was started to be the guard of one run, and is bound by
 * that: no front, and no terminal, which stays the caller's. It leaves the caller's
 * process group, so that what the terminal sends there is the caller's to decide about.
 * Takes bonds->caller_pidfd. */
int sbx_guard_run_bound(struct sbx_pair *pair, const struct sbx_guard_hooks *hooks,
                        const struct sbx_guard_bonds *bonds);

/* Who publishes: true for one of the two, once. Publishing says that it is done. */
bool sbx_pair_claim(struct sbx_pair *pair);
void sbx_pair_publish(struct sbx_pair *pair, void (*publish)(void *context),
                      void *context);

/* Messages. Send never blocks and never raises SIGPIPE. Receive: 1 a message, 0 none now,
 * -EPIPE: the other side is gone. */
void sbx_pair_send(int socket, enum sbx_pair_message_kind kind, int value);
int sbx_pair_receive(int socket, struct sbx_pair_message *ret_message);

/* In the monitor, at its end: tells the guard, and returns when the result is published,
 * by the guard or, if that is gone or stays stopped, by `publish`. */
void sbx_pair_finish(const struct sbx_pair_link *link, void (*publish)(void *context),
                     void *context);

#endif
