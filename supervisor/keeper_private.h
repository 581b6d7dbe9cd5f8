/*
 * keeper_private.h - one execution as its keeper sees it, shared by the files that make
 * up the program sbx-keeper: keeper.c (from an order to a run, and its end),
 * keeper_output.c (what the command writes), keeper_input.c (what it is to read),
 * keeper_control.c (the conversation with sbxd).
 */
#ifndef SBX_SUPERVISOR_KEEPER_PRIVATE_H
#define SBX_SUPERVISOR_KEEPER_PRIVATE_H

#include "monitor/handle.h"
#include "monitor/loop.h"
#include "supervisor/control.h"
#include "supervisor/journal.h"
#include "supervisor/keeper_order.h"
#include "supervisor/place.h"
#include "supervisor/stream.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* sbxd's, and those that it may have left. */
#define SBX_KEEPER_PEERS 4

struct sbx_keeper_peer {
    struct sbx_keeper *keeper;
    int socket; /* -1: none */
    struct sbx_source *source;
    bool watches;
    struct sbx_control_marks marks;
};

struct sbx_keeper_output {
    struct sbx_keeper *keeper;
    int stream; /* 1, 2 */
    int pipe;   /* read end; -1: its end was seen */
    size_t pipe_bytes;
    struct sbx_source *source; /* NULL: it is not read now */
    struct sbx_stream_writer *writer;
    uint64_t taken_bytes; /* by a reader */
    char held[3];         /* of a character that has not come as a whole: no event yet */
    size_t held_length;
};

struct sbx_keeper_input {
    int pipe; /* write end; -1: nothing can be written */
    struct sbx_source *source;
    char *data; /* waits to be written: [used, length) */
    size_t used;
    size_t length;
    bool closes; /* behind that */
};

struct sbx_keeper {
    int directory;
    int lock;
    struct sbx_keeper_order order;
    struct sbx_spec *spec;
    struct sbx_page *page;
    struct sbx_journal *journal;
    struct sbx_keeper_output outputs[2];
    struct sbx_keeper_input input;
    struct sbx_run *run;
    struct sbx_source *on_run;
    int children; /* tells of SIGCHLD; -1: not open */
    struct sbx_source *on_children;
    bool started;   /* the command runs: its output is read */
    bool cancelled; /* it was asked for once */
    struct sbx_loop *loop;
    int listener;
    struct sbx_source *on_listener;
    struct sbx_source *on_cancel; /* the run had no room for it */
    struct sbx_keeper_peer peers[SBX_KEEPER_PEERS];
};

/* Appends to the journal, stamped, and tells who waits for it. */
void sbx_keeper_note(struct sbx_keeper *keeper, struct sbx_event event);

/* --- keeper_output.c --- */

/* Makes the files of both streams. 0 or a negative errno. */
int sbx_keeper_open_outputs(struct sbx_keeper *keeper, struct sbx_error *err);

/* The command runs. */
void sbx_keeper_read_outputs(struct sbx_keeper *keeper);

/* A reader has taken so much of it. */
void sbx_keeper_output_taken(struct sbx_keeper *keeper, uint32_t stream, uint64_t offset);

/* The run is over: what is in the pipes now is all that will be kept. */
void sbx_keeper_end_outputs(struct sbx_keeper *keeper);

/* --- keeper_input.c --- */

/* Begins to write what the order brought. 0 or a negative errno. */
int sbx_keeper_open_input(struct sbx_keeper *keeper, char *data, size_t length);

/* All of it or nothing. 0; EPIPE: it is not open; EAGAIN: no room; ENOMEM. */
int sbx_keeper_feed(struct sbx_keeper *keeper, const char *data, size_t length,
                    bool closes);
void sbx_keeper_close_input(struct sbx_keeper *keeper);

/* --- keeper_control.c --- */

/* Takes the first socket, and listens for further ones. 0 or a negative errno. */
int sbx_keeper_open_control(struct sbx_keeper *keeper, int first, struct sbx_error *err);

/* Something is new: whoever waits for that is told. */
void sbx_keeper_tell_news(struct sbx_keeper *keeper);

/* All is on file. */
void sbx_keeper_tell_finished(struct sbx_keeper *keeper);
void sbx_keeper_close_control(struct sbx_keeper *keeper);

#endif
