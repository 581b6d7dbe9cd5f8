/*
 * stream.h - what a command wrote to one of its streams, kept in a file with a bound: the
 * first bytes, the last ones, and how many were dropped in between.
 *
 * The keeper of an execution writes (keeper.h), through a mapping that is whole before
 * anything runs, so that neither a full disk nor a slow reader can hold it up. Whoever
 * reads is another process, knows nothing of the writer's state, and may read while it
 * writes: the head of the file says what is whole. What was written survives the writer's
 * death by SIGKILL.
 *
 * Offsets count the bytes of the stream from 0. With `head_bytes` h and `tail_bytes` t,
 * after n bytes [0, min(h, n)) and the last t of the rest are kept.
 */
#ifndef SBX_SUPERVISOR_STREAM_H
#define SBX_SUPERVISOR_STREAM_H

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sbx_stream_bounds {
    uint64_t head_bytes;
    uint64_t tail_bytes; /* at least 1 */
};

#define SBX_STREAM_CHUNK ((size_t)64 * 1024)

/* --- the writer --- */

struct sbx_stream_writer;

/* Makes the file `name` (which is not there yet, mode 0600) in that directory, with all
 * of its blocks. 0, or a negative errno: -ENOSPC, -EEXIST ... and no file is left. */
int sbx_stream_create(int directory, const char *name,
                      const struct sbx_stream_bounds *bounds,
                      struct sbx_stream_writer **ret_writer, struct sbx_error *err);

/* Where the next bytes go: at least 1 byte, at most SBX_STREAM_CHUNK, in one piece. What
 * a reader may rely on does not include them until they are committed, and what they
 * overwrite is none of the bytes that are kept until then (the file has that much more
 * room). */
char *sbx_stream_reserve(struct sbx_stream_writer *writer, size_t *ret_size);

/* The first `size` of the reserved bytes have been written. */
void sbx_stream_commit(struct sbx_stream_writer *writer, size_t size);

/* Nothing more will come: blocks that nothing was written to are given back. */
void sbx_stream_end(struct sbx_stream_writer *writer);

uint64_t sbx_stream_total(const struct sbx_stream_writer *writer);

/* How many of all bytes so far are not kept any more. */
uint64_t sbx_stream_dropped(const struct sbx_stream_writer *writer);

/* Unmaps and closes; the file stays. NULL is allowed. */
void sbx_stream_close(struct sbx_stream_writer *writer);

/* --- a reader --- by pread alone: a file that somebody cuts short must not kill it ---
 */

struct sbx_stream_state {
    uint64_t total_bytes; /* written so far */
    uint64_t head_bytes;  /* of these [0, head_bytes) are kept */
    uint64_t tail_offset; /* and [tail_offset, total_bytes); == head_bytes: no gap */
    bool ended;
};

/* 0; -ENOENT; -EBADMSG: it is no such file, or damaged. */
int sbx_stream_look(int directory, const char *name, struct sbx_stream_state *ret_state);

struct sbx_stream_piece {
    uint64_t
        offset; /* of the first byte that was read: at or behind what was asked for */
    uint64_t gap_bytes; /* between what was asked for and that: dropped */
    size_t length;      /* read into the buffer; 0: nothing is there (yet) */
    struct sbx_stream_state state;
};

/* Reads kept bytes from `offset` on, at most `size`, never across a gap: a read that
 * begins in the gap begins behind it. An offset behind the end is the end's. Bytes that
 * were overwritten while they were read count as dropped. 0; -ENOENT; -EBADMSG. */
int sbx_stream_read(int directory, const char *name, uint64_t offset, void *buffer,
                    size_t size, struct sbx_stream_piece *ret_piece);

#endif
