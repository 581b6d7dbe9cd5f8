/*
 * journal.h - the events of one execution in a file: numbered from 1 without holes,
 * append-only, the oldest dropped when their number or their bytes reach a bound.
 *
 * As with streams (stream.h) one process writes through a mapping that is whole from the
 * start, others read by pread meanwhile and afterwards, and a writer that is killed
 * leaves whole events alone: one that was not committed is not there.
 */
#ifndef SBX_SUPERVISOR_JOURNAL_H
#define SBX_SUPERVISOR_JOURNAL_H

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sbx_event_type {
    SBX_EVENT_STARTED = 1, /* the command was executed; value: its pid */
    SBX_EVENT_STDOUT,      /* data: the bytes; offset: of the first in its stream */
    SBX_EVENT_STDERR,
    SBX_EVENT_GAP,      /* offset, value: so many bytes were dropped; stream: which */
    SBX_EVENT_WARNING,  /* data: one line of text */
    SBX_EVENT_BREACH,   /* data: a JSON object, as "breach" in the report */
    SBX_EVENT_FINISHED, /* value: enum sbx_execution_status (status.h) */
};

/* "started", "stdout" ...; NULL for what is none. */
const char *sbx_event_type_name(enum sbx_event_type type);

#define SBX_EVENT_DATA_MAX ((size_t)8 * 1024)

struct sbx_event {
    uint64_t sequence; /* set by the journal */
    enum sbx_event_type type;
    int stream;          /* 1 or 2 where it concerns one; else 0 */
    uint64_t at_real_us; /* since the epoch */
    uint64_t offset;
    uint64_t value;
    size_t length; /* of data, at most SBX_EVENT_DATA_MAX */
    const char *data;
};

/* --- the writer --- */

struct sbx_journal;

/* Makes the file, with all of its blocks: room for `events_count` events (at least 8)
 * with 1 KiB each on average, and for at least eight of the largest. As
 * sbx_stream_create. */
int sbx_journal_create(int directory, const char *name, uint64_t events_count,
                       struct sbx_journal **ret_journal, struct sbx_error *err);

/* A journal whose writer is gone, to be written on (`finished` of a lost execution), with
 * pwrite: what is left of the command may cut the file short. 0; -ENOENT; -EBADMSG. */
int sbx_journal_open(int directory, const char *name, struct sbx_journal **ret_journal,
                     struct sbx_error *err);

/* Appends one. Never fails and never waits. Returns its sequence number. */
uint64_t sbx_journal_append(struct sbx_journal *journal, const struct sbx_event *event);

/* Of the last one; 0: none yet. */
uint64_t sbx_journal_latest(const struct sbx_journal *journal);

/* Nothing more will come: blocks that nothing was written to are given back. */
void sbx_journal_end(struct sbx_journal *journal);

void sbx_journal_close(struct sbx_journal *journal);

/* --- a reader --- */

struct sbx_journal_state {
    uint64_t first_sequence;  /* of those that are kept; latest + 1: none is */
    uint64_t latest_sequence; /* 0: none yet */
};

/* 0; -ENOENT; -EBADMSG. */
int sbx_journal_look(int directory, const char *name,
                     struct sbx_journal_state *ret_state);

/* Called for one event after the other; `data` is valid during the call. False ends the
 * walk before the next. */
typedef bool sbx_journal_callback(const struct sbx_event *event, void *context);

/* Those with a sequence number above `after`, in order, each once and without a hole: an
 * event that is dropped while it is read ends the walk if one came before, else the walk
 * begins with the first that is still there. *ret_state is what was found at the end. */
int sbx_journal_read(int directory, const char *name, uint64_t after,
                     sbx_journal_callback *callback, void *context,
                     struct sbx_journal_state *ret_state);

#endif
