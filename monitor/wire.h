/*
 * wire.h - what goes between the library in a caller and the guard of its run, through
 * one socket of records (SOCK_SEQPACKET) whose ends are of the same version.
 *
 * To the guard: the specification, as the list of what was set by name, which is set
 * again there, so that there is no second form of any option; after that only orders
 * (struct sbx_pair_message: cancel, pass a signal on, pause, resume). To the caller:
 * hello, progress, notices if it has forked the guard, the result and its report. Every
 * frame is bounded. Nothing is trusted to be complete: either side may be killed at any
 * time.
 */
#ifndef SBX_MONITOR_WIRE_H
#define SBX_MONITOR_WIRE_H

#include "monitor/handle.h"
#include "monitor/record.h"
#include "monitor/spec.h"

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SBX_WIRE_PROTOCOL 1U

/* A chunk and its head fill just less than four pages: what a socket charges for it. */
#define SBX_WIRE_CHUNK ((size_t)15 * 1024)

/* More than any command line that the kernel executes. */
#define SBX_WIRE_SPEC_MAX ((size_t)16 * 1024 * 1024)

/* Descriptors that options may name. */
#define SBX_WIRE_FDS_MAX (SBX_KEEP_FD_MAX + 16)

enum sbx_wire_kind {
    SBX_WIRE_SPEC = 0x58425301, /* caller: begins a specification */
    SBX_WIRE_TEXT,              /* a chunk of what was begun */
    SBX_WIRE_HELLO,             /* guard: it has the specification */
    SBX_WIRE_PROGRESS,
    SBX_WIRE_RESULT, /* begins a result and, if there is one, its report */
    SBX_WIRE_NOTICE, /* of a run that was forked: what happens meanwhile */
};

/* Guard or monitor may send the result, and the second begins anew when the first was
 * killed over it: chunks belong to the begin of the same sender. */
struct sbx_wire_head {
    uint32_t kind;
    int32_t sender;
};

struct sbx_wire_spec {
    struct sbx_wire_head head;
    uint32_t protocol;
    uint64_t length; /* of the text */
};

struct sbx_wire_progress {
    struct sbx_wire_head head;
    struct sbx_progress progress;
};

struct sbx_wire_result {
    struct sbx_wire_head head;
    int32_t outcome; /* enum sbx_outcome */
    int32_t reason;  /* enum sbx_reason of a breach */
    int32_t status;
    int32_t exit_code; /* -1: none */
    int32_t signal;
    uint64_t length; /* of the report */
    struct sbx_error error;
};

struct sbx_wire_notice {
    struct sbx_wire_head head;
    int32_t kind;  /* enum sbx_notice_kind */
    int32_t index; /* of its kind: a second sender may say again what a first has said */
    int32_t leader_pid;
    uint64_t at_real_us;
    char text[SBX_NOTICE_TEXT_SIZE]; /* terminated; the frame ends there */
};

struct sbx_wire_text {
    struct sbx_wire_head head;
    char text[SBX_WIRE_CHUNK];
};

union sbx_wire_frame {
    struct sbx_wire_head head;
    struct sbx_wire_spec spec;
    struct sbx_wire_progress progress;
    struct sbx_wire_result result;
    struct sbx_wire_notice notice;
    struct sbx_wire_text text;
};

/* Sends one frame. With a deadline (CLOCK_MONOTONIC; 0: none) it waits while the socket
 * is full. 0, -EAGAIN or -ETIMEDOUT when it is full, -EPIPE when the other side is gone,
 * or another negative errno. Never raises SIGPIPE. */
int sbx_wire_send(int socket, const void *frame, size_t size, uint64_t deadline_us);

/* A text as chunks. */
int sbx_wire_send_text(int socket, const char *text, size_t length, uint64_t deadline_us);

/* Receives one frame without waiting. Its size, -EAGAIN when there is none, 0 at the end,
 * -EBADMSG for what is none, or another negative errno. */
ssize_t sbx_wire_receive(int socket, union sbx_wire_frame *ret_frame);

/* The specification as text, which is the caller's to free. 0, -ENOMEM, or -E2BIG. */
int sbx_wire_pack(const struct sbx_spec *spec, char **ret_text, size_t *ret_length,
                  struct sbx_error *err);

/* Sets it again, in a new specification. Changes the working directory meanwhile, to what
 * was the caller's when an option was given a relative path. 0, what setting it found
 * wrong, or -EPROTO for what is no such text. */
int sbx_wire_replay(const char *text, size_t length, struct sbx_spec *spec,
                    struct sbx_error *err);

/* Whether the value of that option is the number of a descriptor of the caller's: those
 * whose name ends in "-fd". */
bool sbx_wire_names_fd(const char *option);

/* The descriptors of the caller's that the text needs: such numbers, and directories.
 * More than `max` are left out. */
size_t sbx_wire_fds(const char *text, size_t length, int *fds, size_t max);

#endif
