/*
 * stream.c - see stream.h.
 *
 * The file: one page that says how it is laid out and how far it is, the head, and a ring
 * for all bytes behind the head. How far it is is a single word, so that no reader sees
 * the end before the last bytes. The ring has at least one chunk more than the tail. So
 * what is overwritten before a commit is older than the tail; a reader looks at that word
 * once more when it has its bytes, and takes none that could have been overwritten by
 * then: those more than a ring before the end of the chunk that may be under way.
 *
 * Writer and readers meet in the page cache: between processes the fences here are what
 * orders the word and the bytes, and an aligned word is copied whole by the kernel.
 */
#include "supervisor/stream.h"

#include "base/error.h"
#include "base/fd.h"
#include "supervisor/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MAGIC UINT64_C(0x316d727473786273)
#define BYTES_MAX (UINT64_C(1) << 40)
#define TRIES 8

struct header {
    uint64_t magic;
    uint64_t head_bytes;
    uint64_t tail_bytes;
    uint64_t ring_bytes;       /* a multiple of the chunk */
    _Atomic uint64_t progress; /* twice the total, plus 1 at the end */
};

struct sbx_stream_writer {
    struct header *header; /* the mapping */
    char *head;
    char *ring;
    size_t mapped_size;
    struct sbx_stream_bounds bounds;
    uint64_t ring_bytes;
    uint64_t total;
};

/* --- what is kept ------------------------------------------------------------------ */

static struct sbx_stream_state state_of(const struct sbx_stream_bounds *bounds,
                                        uint64_t total, bool ended)
{
    uint64_t head = total < bounds->head_bytes ? total : bounds->head_bytes;
    uint64_t rest = total - head;
    uint64_t tail = rest < bounds->tail_bytes ? rest : bounds->tail_bytes;
    return (struct sbx_stream_state){.total_bytes = total,
                                     .head_bytes = head,
                                     .tail_offset = total - tail,
                                     .ended = ended};
}

static uint64_t ring_for(uint64_t tail_bytes)
{
    uint64_t chunks = (tail_bytes + SBX_STREAM_CHUNK - 1) / SBX_STREAM_CHUNK;
    return (chunks + 1) * SBX_STREAM_CHUNK;
}

/* --- the writer -------------------------------------------------------------------- */

int sbx_stream_create(int directory, const char *name,
                      const struct sbx_stream_bounds *bounds,
                      struct sbx_stream_writer **ret_writer, struct sbx_error *err)
{
    if (bounds->tail_bytes == 0 || bounds->head_bytes > BYTES_MAX ||
        bounds->tail_bytes > BYTES_MAX) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_LAUNCH,
                             "the bounds of %s are out of range", name);
    }
    SBX_AUTO_FREE struct sbx_stream_writer *writer = calloc(1, sizeof *writer);
    if (writer == NULL) {
        return sbx_error_set(err, ENOMEM, SBX_STAGE_LAUNCH, "no memory for %s", name);
    }
    writer->bounds = *bounds;
    writer->ring_bytes = ring_for(bounds->tail_bytes);
    writer->mapped_size = SBX_FILE_PAGE + bounds->head_bytes + writer->ring_bytes;
    void *memory = NULL;
    int r = sbx_file_create_mapped(directory, name, writer->mapped_size, &memory, err);
    if (r < 0) {
        return r;
    }
    writer->header = memory;
    writer->head = (char *)memory + SBX_FILE_PAGE;
    writer->ring = writer->head + bounds->head_bytes;
    *writer->header = (struct header){.head_bytes = bounds->head_bytes,
                                      .tail_bytes = bounds->tail_bytes,
                                      .ring_bytes = writer->ring_bytes};
    writer->header->magic = MAGIC;
    r = sbx_file_show(directory, name, memory, writer->mapped_size, err);
    if (r < 0) {
        return r;
    }
    *ret_writer = writer;
    writer = NULL;
    return 0;
}

char *sbx_stream_reserve(struct sbx_stream_writer *writer, size_t *ret_size)
{
    bool in_head = writer->total < writer->bounds.head_bytes;
    uint64_t at = in_head
                      ? writer->total
                      : (writer->total - writer->bounds.head_bytes) % writer->ring_bytes;
    uint64_t room = (in_head ? writer->bounds.head_bytes : writer->ring_bytes) - at;
    *ret_size = room < SBX_STREAM_CHUNK ? (size_t)room : SBX_STREAM_CHUNK;
    return (in_head ? writer->head : writer->ring) + at;
}

static void tell(struct sbx_stream_writer *writer, bool ended)
{
    atomic_store_explicit(&writer->header->progress, writer->total * 2 + (ended ? 1 : 0),
                          memory_order_release);
    /* No byte of the next chunk comes to the file before this word. */
    atomic_thread_fence(memory_order_seq_cst);
}

void sbx_stream_commit(struct sbx_stream_writer *writer, size_t size)
{
    writer->total += size;
    tell(writer, false);
}

void sbx_stream_end(struct sbx_stream_writer *writer)
{
    tell(writer, true);
    /* Head and ring lie one behind the other, and most commands fill neither. */
    size_t used = SBX_FILE_PAGE + (size_t)writer->total;
    if (used < writer->mapped_size) {
        sbx_file_give_back(writer->header, used, writer->mapped_size);
    }
}

uint64_t sbx_stream_total(const struct sbx_stream_writer *writer)
{
    return writer->total;
}

uint64_t sbx_stream_dropped(const struct sbx_stream_writer *writer)
{
    struct sbx_stream_state state = state_of(&writer->bounds, writer->total, false);
    return state.tail_offset - state.head_bytes;
}

void sbx_stream_close(struct sbx_stream_writer *writer)
{
    if (writer == NULL) {
        return;
    }
    (void)munmap(writer->header, writer->mapped_size);
    free(writer);
}

/* --- a reader ---------------------------------------------------------------------- */

struct reader {
    int fd;
    struct sbx_stream_bounds bounds;
    uint64_t ring_bytes;
};

static int look(const struct reader *reader, struct sbx_stream_state *ret_state)
{
    uint64_t progress = 0;
    atomic_thread_fence(memory_order_seq_cst);
    int r = sbx_file_read(reader->fd, &progress, sizeof progress,
                          offsetof(struct header, progress));
    atomic_thread_fence(memory_order_seq_cst);
    if (r == 0) {
        *ret_state = state_of(&reader->bounds, progress / 2, progress % 2 != 0);
    }
    return r;
}

/* The caller closes reader->fd, also on failure. */
static int open_reader(int directory, const char *name, struct reader *reader)
{
    uint64_t size = 0;
    struct header header;
    reader->fd = sbx_file_open(directory, name, O_RDONLY, &size);
    if (reader->fd < 0) {
        return reader->fd;
    }
    int r = sbx_file_read(reader->fd, &header, sizeof header, 0);
    if (r < 0) {
        return r;
    }
    if (header.magic != MAGIC || header.head_bytes > BYTES_MAX ||
        header.tail_bytes == 0 || header.tail_bytes > BYTES_MAX ||
        header.ring_bytes != ring_for(header.tail_bytes) ||
        size != SBX_FILE_PAGE + header.head_bytes + header.ring_bytes) {
        return -EBADMSG;
    }
    reader->bounds = (struct sbx_stream_bounds){.head_bytes = header.head_bytes,
                                                .tail_bytes = header.tail_bytes};
    reader->ring_bytes = header.ring_bytes;
    return 0;
}

int sbx_stream_look(int directory, const char *name, struct sbx_stream_state *ret_state)
{
    struct reader reader = {.fd = -1};
    int r = open_reader(directory, name, &reader);
    if (r == 0) {
        r = look(&reader, ret_state);
    }
    sbx_fd_drop(&reader.fd);
    return r;
}

/* [offset, offset + size) as it lies in the file, in one or more parts. */
static int copy(const struct reader *reader, uint64_t offset, char *buffer, size_t size)
{
    uint64_t head = reader->bounds.head_bytes;
    while (size > 0) {
        bool in_head = offset < head;
        uint64_t at = in_head ? offset : (offset - head) % reader->ring_bytes;
        uint64_t room = (in_head ? head : reader->ring_bytes) - at;
        size_t part = room < size ? (size_t)room : size;
        int r = sbx_file_read(reader->fd, buffer, part,
                              SBX_FILE_PAGE + (in_head ? 0 : head) + at);
        if (r < 0) {
            return r;
        }
        buffer += part;
        offset += part;
        size -= part;
    }
    return 0;
}

/* The first byte behind the head that cannot have been overwritten at that total. */
static uint64_t safe_from(const struct reader *reader, uint64_t total)
{
    uint64_t head = reader->bounds.head_bytes;
    uint64_t reached = total > head ? total - head + SBX_STREAM_CHUNK : 0;
    return head + (reached > reader->ring_bytes ? reached - reader->ring_bytes : 0);
}

/* What was copied to `piece` before `now` was seen: takes away what may have been
 * overwritten meanwhile. */
static void settle(const struct reader *reader, const struct sbx_stream_state *now,
                   char *buffer, struct sbx_stream_piece *piece)
{
    uint64_t head = reader->bounds.head_bytes;
    uint64_t safe = safe_from(reader, now->total_bytes);
    uint64_t end = piece->offset + piece->length;
    piece->state = *now;
    if (safe == head || end <= head || piece->offset >= safe) {
        return;
    }
    if (piece->offset < head) {
        piece->length = (size_t)(head - piece->offset);
        return;
    }
    uint64_t lost = (safe < end ? safe : end) - piece->offset;
    piece->length -= (size_t)lost;
    piece->offset += lost;
    memmove(buffer, buffer + lost, piece->length);
}

static int read_once(const struct reader *reader, uint64_t offset, char *buffer,
                     size_t size, struct sbx_stream_piece *piece)
{
    struct sbx_stream_state before = {0};
    int r = look(reader, &before);
    if (r < 0) {
        return r;
    }
    if (offset > before.total_bytes) {
        offset = before.total_bytes;
    }
    uint64_t end = before.total_bytes;
    if (before.tail_offset > before.head_bytes && offset < before.tail_offset) {
        if (offset < before.head_bytes) {
            end = before.head_bytes;
        } else {
            offset = before.tail_offset;
        }
    }
    *piece = (struct sbx_stream_piece){.offset = offset};
    piece->length = end - offset < size ? (size_t)(end - offset) : size;
    r = copy(reader, offset, buffer, piece->length);
    struct sbx_stream_state now = {0};
    if (r == 0) {
        r = look(reader, &now);
    }
    if (r == 0) {
        /* Nothing is ever taken back. */
        r = now.total_bytes < before.total_bytes ? -EBADMSG : 0;
    }
    if (r == 0) {
        settle(reader, &now, buffer, piece);
    }
    return r;
}

/* NOLINTNEXTLINE(readability-function-size): a file is two of them, and a buffer */
int sbx_stream_read(int directory, const char *name, uint64_t offset, void *buffer,
                    size_t size, struct sbx_stream_piece *ret_piece)
{
    struct reader reader = {.fd = -1};
    struct sbx_stream_piece piece = {.offset = offset};
    int r = open_reader(directory, name, &reader);
    /* Where all was overwritten that was read, less is read next time: that is faster. */
    for (int i = 0; r == 0 && i < TRIES; i++) {
        size_t now = size >> i;
        r = read_once(&reader, offset, buffer, now > 0 ? now : size, &piece);
        if (piece.length > 0 || piece.offset >= piece.state.total_bytes) {
            break;
        }
    }
    sbx_fd_drop(&reader.fd);
    if (r == 0) {
        piece.gap_bytes = piece.offset > offset ? piece.offset - offset : 0;
        *ret_piece = piece;
    }
    return r;
}
