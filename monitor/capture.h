/*
 * capture.h - the command's standard streams: redirected, or captured to be counted.
 *
 * A stream that is inherited or redirected is the command's own: nothing of ours stands
 * in between. Only where output is bounded or watched, a pipe does, and one servant for
 * each stream copies from it to where it belongs (passer.h); both streams go through one
 * where they lead to the same place, so that order is kept. The servant may block there
 * for ever: monitor and guard do not touch the target.
 *
 * Guard and monitor keep the ends of the pipes open, so that a servant that is gone takes
 * nothing with it that is still in a pipe, and the command meets no SIGPIPE because of
 * it. But while the tree lives they only poll them: whoever writes from memory that does
 * not come (a file on a dead disk, or on one of his own making) holds the pipe's lock,
 * which reading, counting and closing wait for. So no end of file is seen in a run; an
 * order ends the servants. What the processes know of each other lies in the area, in
 * memory that they share.
 */
#ifndef SBX_MONITOR_CAPTURE_H
#define SBX_MONITOR_CAPTURE_H

#include "monitor/record.h"
#include "monitor/spec.h"
#include "reaper/servant.h"

#include <sbx/sbx.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SBX_CAPTURE_MAX 2

/* What a servant has been told. */
enum sbx_capture_order {
    SBX_CAPTURE_RUN = 0,
    SBX_CAPTURE_FINISH,    /* the tree is over: pass on what is in the pipe now, and go */
    SBX_CAPTURE_HAND_OVER, /* leave the rest in the pipe, and go */
};

/* One captured stream. */
struct sbx_capture_state {
    _Atomic uint64_t pending_bytes; /* counted, but not passed on yet */
    _Atomic uint64_t held_bytes;    /* of these: in the servant's hands */
    _Atomic int error;              /* errno of the target, which takes nothing more */
    _Atomic bool closed;            /* it has no reader any more */
    _Atomic bool drained;           /* all that was to come has come */
    _Atomic bool torn; /* its servant was killed over something that may be lost */
};

/* In memory that guard, monitor and servants share. Zeroed is a run that begins. */
struct sbx_capture_area {
    _Atomic int order;              /* enum sbx_capture_order */
    _Atomic uint64_t seen_bytes;    /* read from the tree, or about to be */
    _Atomic uint64_t granted_bytes; /* of the bound, both streams together */
    _Atomic uint64_t passed_bytes;
    _Atomic uint64_t dropped_bytes;
    _Atomic uint64_t active_us;  /* when something last moved; 0: never */
    _Atomic uint64_t crossed_us; /* when more than the limit was seen; 0: not yet */
    struct sbx_capture_state streams[SBX_CAPTURE_MAX];
};

struct sbx_capture_stream {
    const char *name; /* "standard output", … for messages */
    const char *path; /* of a redirected one; borrowed; NULL: inherited */
    int source;       /* read end of the pipe */
    int target;       /* borrowed: one of ours, or of `files` */
    struct sbx_servant servant;
};

/* What one process knows of it. */
struct sbx_capture {
    const struct sbx_spec *spec;
    struct sbx_capture_area *area;
    int files[3]; /* opened for --stdin, --stdout, --stderr; -1: none */
    int write_ends[SBX_CAPTURE_MAX];
    int stdio[3]; /* borrowed: what the command gets; -1: what we have */
    size_t count; /* captured streams */
    struct sbx_capture_stream streams[SBX_CAPTURE_MAX];
    int order_event;  /* readable for the servants when the order has changed */
    int notice_event; /* readable for the monitor when a servant has news */
};

/* Whether output goes through pipes of ours. */
bool sbx_capture_is_wanted(const struct sbx_spec *spec);

/* Nothing is open. */
void sbx_capture_init(struct sbx_capture *capture, const struct sbx_spec *spec,
                      struct sbx_capture_area *area);

/* In the guard: opens files and pipes as the specification asks, and forks the servants.
 * Where nothing is asked for, nothing is done. 0, or a negative errno, stage launch; what
 * was opened then goes with sbx_capture_close. */
int sbx_capture_open(struct sbx_capture *capture, struct sbx_error *err);

/* In another child of the guard: closes all of it. */
void sbx_capture_leave(struct sbx_capture *capture);

/* A servant that was stopped goes on: what it leaves in the pipe is neither counted nor
 * idleness. */
void sbx_capture_continue(const struct sbx_capture *capture);

/* Whether output is on its way that its reader has not taken. */
bool sbx_capture_is_pending(const struct sbx_capture *capture);

/*
 * In the monitor, when the tree is over: lets the servants pass on what was written, and
 * waits as long as they make progress. `cancel` is asked now and then, and when
 * `socket` (-1: none) is readable; true gives up. Completes the record's figures.
 */
void sbx_capture_finish(struct sbx_capture *capture, struct sbx_record *record,
                        int socket, bool (*cancel)(void *context), void *context);

/* In the guard, when the monitor is gone: ends the servants without loss where they are
 * not in the middle of something; and, when the tree is over, passes on what is left. */
void sbx_capture_hand_over(struct sbx_capture *capture);
void sbx_capture_recover(struct sbx_capture *capture, struct sbx_record *record);

/* In the guard, at its end: ends servants that are left, closes everything. */
void sbx_capture_close(struct sbx_capture *capture);

#endif
