/*
 * watch_private.h - one run as its monitor sees it, shared by the files that make up the
 * monitor process: watch.c (from nothing to a running leader, and the record at the end),
 * events.c (what the loop calls), ending.c (verdicts, steps, reaping), heir.c (whose end
 * is the command's), namespaced.c (a PID namespace around the command), output.c (what
 * concerns the command's output, and idleness), pause.c (members that are held), and for
 * attached trees attach.c and attach_watch.c, and for a run with a cgroup of its own
 * grouped_watch.c.
 */
#ifndef SBX_MONITOR_WATCH_PRIVATE_H
#define SBX_MONITOR_WATCH_PRIVATE_H

#include "cgroup/statistics.h"
#include "monitor/attach.h"
#include "monitor/capture.h"
#include "monitor/grouped.h"
#include "monitor/judge.h"
#include "monitor/logger.h"
#include "monitor/loop.h"
#include "monitor/meter.h"
#include "monitor/record.h"
#include "monitor/spec.h"
#include "reaper/guard.h"
#include "reaper/terminate.h"
#include "reaper/tree.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Whose end is the command's, when the polite signal ends the leader first. */
struct sbx_heir {
    pid_t pid; /* 0: nobody */
    uint64_t start_ticks;
    bool ended; /* and was reaped by us, so that its status is known */
    int status;
    uint64_t wall_us; /* from the launch to its end */
};

/* What a run with --cgroup has beside that. */
struct sbx_watch_group {
    bool on;
    int fd; /* its directory */
    struct sbx_statistics statistics;
    struct sbx_source *on_alarm;
    struct sbx_figures before; /* when we came */
    bool empty;                /* nobody is in it any more */
    bool unread;               /* it was gone before its last figures were read */
    bool holds_us;             /* sbx-watch itself is in it */
    bool holds_hidden;         /* and somebody of another PID namespace */
    bool told;                 /* these two are warned of */
};

/* What a run with --pid has beside the rest (attach.h). */
struct sbx_watch_attach {
    bool on;
    bool observes;                /* no --enforce: nobody is signalled */
    struct sbx_attach_roll *roll; /* shared with the guard */
    struct sbx_pidref root;
    /* Whose end wakes us: a member that has not ended. */
    pid_t awaited;
    int awaited_fd; /* its pidfd; -1: nobody's */
    struct sbx_source *on_end;
    bool told_hidden;
    bool told_rss;
    struct sbx_watch_group group;
};

/* A run that is paused. */
struct sbx_watch_pause {
    bool on;
    bool frozen;     /* the leaf is; else members are stopped */
    int held_signal; /* of job control, for the command, once it goes on; 0: none */
};

struct sbx_watch {
    const struct sbx_spec *spec;
    struct sbx_record *record;
    struct sbx_logger *logger;
    const struct sbx_pair_link *link;
    int proc_fd;
    int signals;
    struct sbx_tree *tree;
    struct sbx_pss_area *pss_area; /* shared with the reader */
    struct sbx_pss *pss;
    struct sbx_meter meter;
    struct sbx_terminate terminate;
    struct sbx_loop *loop;
    struct sbx_source *on_signals;
    struct sbx_source *on_socket;
    struct sbx_source *on_guard;
    struct sbx_source *on_sample;
    struct sbx_source *on_wall;
    struct sbx_source *on_phase;
    struct sbx_capture *capture;
    struct sbx_source *on_output; /* these three: NULL unless output is captured */
    struct sbx_source *on_servants[SBX_CAPTURE_MAX];
    struct sbx_source *on_idle;
    struct sbx_grouped *grouped; /* the run's cgroup, if it has one */
    struct sbx_source *on_group;
    unsigned release; /* of the standard streams, once the command has them */
    bool tells;       /* the guard, what is new; of that was told: */
    bool told_breach;
    uint64_t told_warnings;
    bool kernel_killed; /* the breach is an OOM kill: who dies of it is no stray */

    struct sbx_watch_pause pause;

    pid_t leader;
    bool own_group;
    bool leader_ended;
    int stops;        /* of the leader that the guard was told of */
    bool echo_due;    /* the request that cancelled the run may come by the other way */
    bool echo_direct; /* by which: sent to this process, or passed on by the guard */
    struct sbx_heir heir;
    uint64_t leader_cpu_us; /* its own, read before it was reaped */
    uint64_t launched_us;
    uint64_t ending_us; /* first signal, or the leader's end; 0: neither yet */
    struct sbx_sample last;
    uint64_t last_at_us; /* 0: no sample yet */
    struct sbx_watch_attach attach;
    unsigned cpus;
    unsigned warned;        /* bits of reasons whose limit was called near */
    int unmeasured;         /* samples that failed in a row */
    uint64_t active_us;     /* CLOCK_MONOTONIC when the tree was last seen to work */
    uint64_t active_cpu_us; /* its CPU time then */
};

/* Microseconds since the launch. */
uint64_t sbx_watch_elapsed_us(const struct sbx_watch *watch);

/* --- ending.c --- */

/* Reaps everybody who has ended, and carries out what follows from that. */
void sbx_watch_reap(struct sbx_watch *watch);

/* Reaps everybody who has ended, and nothing more. True: no child is left. */
bool sbx_watch_reap_all(struct sbx_watch *watch);

/* A member that outlives the leader. */
void sbx_watch_note_stray(struct sbx_watch *watch, const struct sbx_member *member);

/* The first breach of a run that is still judged begins its end; later ones are ignored.
 */
void sbx_watch_breach(struct sbx_watch *watch, const struct sbx_breach *breach);
void sbx_watch_breach_plain(struct sbx_watch *watch, enum sbx_reason reason);

/* Somebody asks for the end by a signal; the second time without grace. */
/* `direct`: somebody has sent the signal to this process, not to the guard. */
void sbx_watch_cancel(struct sbx_watch *watch, int signal_number, bool direct);

/* The deadline of a phase may have passed. */
void sbx_watch_phase_over(struct sbx_watch *watch);

/* Nobody is left. */
void sbx_watch_empty(struct sbx_watch *watch);

/* Tells the guard by when the run should be over. */
void sbx_watch_set_overdue(struct sbx_watch *watch);

/* SIGKILL until the tree is proved empty, or survivors are named. */
void sbx_watch_sweep(struct sbx_watch *watch);

/* --- heir.c: a leader that only waits for the command, and the polite signal --- */

/* When the polite signal is sent: whose end will count. */
void sbx_watch_name_heir(struct sbx_watch *watch);
bool sbx_watch_is_heir(const struct sbx_watch *watch, pid_t pid);

/* A child was reaped, and the tree does not know it yet. */
void sbx_watch_hear_of_heir(struct sbx_watch *watch, pid_t pid, int status);

/* Puts its end into the record in place of the leader's, where that is right. */
void sbx_watch_take_heir(struct sbx_watch *watch);

/* In the record: the command's pid, and the launcher's. (events.c) */
void sbx_watch_note_command(struct sbx_watch *watch);

/* --- namespaced.c: a PID namespace around the command --- */

/* After a mark: whether a launcher's namespace holds everybody now. */
void sbx_watch_note_namespace(struct sbx_watch *watch);

/* In the record: command and front, where the run has made the namespace. */
void sbx_watch_note_front(struct sbx_watch *watch);

/* The leader has ended with that: as the command in a namespace of ours did, if it did.
 */
int sbx_watch_status_of_command(const struct sbx_watch *watch, int status);
void sbx_watch_take_noted_cpu(struct sbx_watch *watch);

/* Now and then. */
void sbx_watch_nudge_front(const struct sbx_watch *watch);

/* An heir in a namespace of ours: after it was named, and before its end is taken. */
void sbx_watch_ask_for_heir(struct sbx_watch *watch);
void sbx_watch_take_noted_heir(struct sbx_watch *watch);

/* What it means that no child is left. */
void sbx_watch_complete_namespace(struct sbx_watch *watch);

/* --- events.c --- callbacks of the loop; each takes the struct sbx_watch --- */
void sbx_watch_on_sample(void *context);
void sbx_watch_on_deadline(void *context);
void sbx_watch_on_phase(void *context);
void sbx_watch_on_signals(void *context);
void sbx_watch_on_messages(void *context);
void sbx_watch_on_guard_lost(void *context);

/* Sends a signal to the command's group. */
void sbx_watch_pass(struct sbx_watch *watch, int signal_number);

/* Tells the guard what the record has that is new, where that is passed on. */
void sbx_watch_tell_news(struct sbx_watch *watch);

/* --- pause.c --- */

/* Both do nothing where that is so already, and in a run that is being ended. */
void sbx_watch_pause(struct sbx_watch *watch);
void sbx_watch_resume(struct sbx_watch *watch);

/* The run is being ended: members are to hear of it. */
void sbx_watch_let_go(struct sbx_watch *watch);

/* After a walk: whoever has got away is held too. */
void sbx_watch_keep_paused(struct sbx_watch *watch);

/* Whether it is one that has to wait until the run goes on. */
bool sbx_watch_holds_back(struct sbx_watch *watch, int signal_number);

/* --- output.c --- */

/* The loop's sources, where output is captured. 0 or a negative errno. */
int sbx_watch_open_output(struct sbx_watch *watch, struct sbx_error *err);
void sbx_watch_close_output(struct sbx_watch *watch);

/* The command runs: it can be idle from now on. */
void sbx_watch_start_idle(struct sbx_watch *watch);

/* It goes on: what was before does not count. */
void sbx_watch_restart_idle(struct sbx_watch *watch);

/* Adds to a sample what has been written, and takes from it whether the tree works. */
void sbx_watch_note_output(struct sbx_watch *watch, struct sbx_sample *sample,
                           uint64_t at_us);

/* The tree is over: what it has written is passed on, with a bound. */
void sbx_watch_drain_output(struct sbx_watch *watch);

#endif
