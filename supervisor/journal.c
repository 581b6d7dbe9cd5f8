/*
 * journal.c - see journal.h.
 *
 * The file: one page with the bounds and the numbers of the first and the last event that
 * are kept, a slot for each event (all of it but its data), and a ring for the data. An
 * event is appended in this order: those that must make room are given up by moving
 * `first`, then slot and data are written, then `latest` moves. So a reader that has its
 * copy looks whether `first` is still not beyond it, and a writer that is killed leaves
 * whole events alone.
 *
 * What a reader, or a second writer (which maps nothing either), finds in the file may be
 * anything: every number is held against the file's own size before it is used.
 */
#include "supervisor/journal.h"

#include "base/error.h"
#include "base/fd.h"
#include "supervisor/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MAGIC UINT64_C(0x316c6e6a78627300)
#define COUNT_MIN UINT64_C(8)
#define COUNT_MAX (UINT64_C(1) << 24)
#define BYTES_PER_EVENT UINT64_C(1024)
#define LARGEST_KEPT UINT64_C(8)
#define SEQUENCE_MAX (UINT64_MAX / 2)

struct header {
    uint64_t magic;
    uint64_t slots_count;
    uint64_t ring_bytes;
    _Atomic uint64_t first; /* latest + 1: none is kept */
    _Atomic uint64_t latest;
};

struct slot {
    uint64_t sequence;
    uint64_t at_real_us;
    uint64_t offset;
    uint64_t value;
    uint64_t position; /* of its data: bytes before it since the beginning */
    uint32_t length;
    uint16_t type;
    uint16_t stream;
};

struct layout {
    uint64_t slots_count;
    uint64_t ring_bytes;
};

struct sbx_journal {
    char *memory; /* NULL: through fd */
    size_t size;
    int fd; /* -1: through memory */
    struct layout layout;
    uint64_t first;
    uint64_t latest;
    uint64_t first_position; /* of the data of the first; position: none is kept */
    uint64_t position;       /* of the next data */
};

const char *sbx_event_type_name(enum sbx_event_type type)
{
    static const char *const names[] = {NULL,  "started", "stdout", "stderr",
                                        "gap", "warning", "breach", "finished"};
    size_t index = (size_t)type;
    return index < sizeof names / sizeof names[0] ? names[index] : NULL;
}

/* --- where things lie -------------------------------------------------------------- */

static struct layout layout_for(uint64_t events_count)
{
    uint64_t count = events_count < COUNT_MIN ? COUNT_MIN : events_count;
    uint64_t largest = LARGEST_KEPT * SBX_EVENT_DATA_MAX;
    uint64_t bytes = count * BYTES_PER_EVENT;
    return (struct layout){.slots_count = count,
                           .ring_bytes = bytes < largest ? largest : bytes};
}

static size_t ring_start(const struct layout *layout)
{
    return SBX_FILE_PAGE + (size_t)layout->slots_count * sizeof(struct slot);
}

static size_t file_size(const struct layout *layout)
{
    return ring_start(layout) + (size_t)layout->ring_bytes;
}

static size_t slot_offset(const struct layout *layout, uint64_t sequence)
{
    return SBX_FILE_PAGE + (size_t)(sequence % layout->slots_count) * sizeof(struct slot);
}

/* The bytes of the ring at a position, up to its end at most. */
static size_t ring_offset(const struct layout *layout, uint64_t position, size_t *length)
{
    uint64_t at = position % layout->ring_bytes;
    uint64_t room = layout->ring_bytes - at;
    *length = room < *length ? (size_t)room : *length;
    return ring_start(layout) + (size_t)at;
}

/* --- the writer -------------------------------------------------------------------- */

int sbx_journal_create(int directory, const char *name, uint64_t events_count,
                       struct sbx_journal **ret_journal, struct sbx_error *err)
{
    if (events_count > COUNT_MAX) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_LAUNCH,
                             "too many events for %s: at most %ju", name,
                             (uintmax_t)COUNT_MAX);
    }
    SBX_AUTO_FREE struct sbx_journal *journal = calloc(1, sizeof *journal);
    if (journal == NULL) {
        return sbx_error_set(err, ENOMEM, SBX_STAGE_LAUNCH, "no memory for %s", name);
    }
    *journal =
        (struct sbx_journal){.fd = -1, .layout = layout_for(events_count), .first = 1};
    journal->size = file_size(&journal->layout);
    void *memory = NULL;
    int r = sbx_file_create_mapped(directory, name, journal->size, &memory, err);
    if (r < 0) {
        return r;
    }
    journal->memory = memory;
    struct header *header = memory;
    *header = (struct header){.slots_count = journal->layout.slots_count,
                              .ring_bytes = journal->layout.ring_bytes,
                              .first = 1};
    header->magic = MAGIC;
    r = sbx_file_show(directory, name, memory, journal->size, err);
    if (r < 0) {
        return r;
    }
    *ret_journal = journal;
    journal = NULL;
    return 0;
}

/* Nobody can be told of what cannot be written: the file is whole, or not ours. */
static void put(const struct sbx_journal *journal, size_t offset, const void *data,
                size_t size)
{
    if (journal->memory != NULL) {
        memcpy(journal->memory + offset, data, size);
    } else {
        (void)sbx_file_write(journal->fd, data, size, offset);
    }
}

/* A word of the header; what was put before is there before it, what comes later after.
 */
static void tell(const struct sbx_journal *journal, size_t offset, uint64_t value)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (journal->memory != NULL) {
        struct header *header = (struct header *)(void *)journal->memory;
        _Atomic uint64_t *word =
            offset == offsetof(struct header, first) ? &header->first : &header->latest;
        atomic_store_explicit(word, value, memory_order_release);
    } else {
        (void)sbx_file_write(journal->fd, &value, sizeof value, offset);
    }
    atomic_thread_fence(memory_order_seq_cst);
}

/* Within a ring of the end, whatever is in the file: else room would be made without end.
 */
static uint64_t position_of(const struct sbx_journal *journal, uint64_t sequence)
{
    struct slot slot;
    size_t offset = slot_offset(&journal->layout, sequence);
    if (journal->memory != NULL) {
        memcpy(&slot, journal->memory + offset, sizeof slot);
    } else if (sbx_file_read(journal->fd, &slot, sizeof slot, offset) < 0) {
        return journal->position;
    }
    bool near = journal->position - slot.position <= journal->layout.ring_bytes;
    return near ? slot.position : journal->position;
}

/* Gives up the oldest until there is a slot, and `length` bytes of the ring. */
static void make_room(struct sbx_journal *journal, size_t length)
{
    uint64_t first = journal->first;
    while (first <= journal->latest &&
           (journal->latest - first + 1 >= journal->layout.slots_count ||
            journal->position - journal->first_position + length >
                journal->layout.ring_bytes)) {
        first++;
        journal->first_position =
            first <= journal->latest ? position_of(journal, first) : journal->position;
    }
    if (first != journal->first) {
        journal->first = first;
        tell(journal, offsetof(struct header, first), first);
    }
}

uint64_t sbx_journal_append(struct sbx_journal *journal, const struct sbx_event *event)
{
    size_t length =
        event->length < SBX_EVENT_DATA_MAX ? event->length : SBX_EVENT_DATA_MAX;
    make_room(journal, length);
    uint64_t sequence = journal->latest + 1;
    const struct slot slot = {.sequence = sequence,
                              .at_real_us = event->at_real_us,
                              .offset = event->offset,
                              .value = event->value,
                              .position = journal->position,
                              .length = (uint32_t)length,
                              .type = (uint16_t)event->type,
                              .stream = (uint16_t)event->stream};
    put(journal, slot_offset(&journal->layout, sequence), &slot, sizeof slot);
    const char *data = event->data;
    while (length > 0) {
        size_t part = length;
        size_t offset = ring_offset(&journal->layout, journal->position, &part);
        put(journal, offset, data, part);
        data += part;
        journal->position += part;
        length -= part;
    }
    journal->latest = sequence;
    tell(journal, offsetof(struct header, latest), sequence);
    return sequence;
}

uint64_t sbx_journal_latest(const struct sbx_journal *journal)
{
    return journal->latest;
}

void sbx_journal_end(struct sbx_journal *journal)
{
    const struct layout *layout = &journal->layout;
    size_t slots_end =
        SBX_FILE_PAGE + ((size_t)journal->latest + 1) * sizeof(struct slot);
    if (journal->memory == NULL) {
        return;
    }
    if (journal->latest < layout->slots_count) {
        sbx_file_give_back(journal->memory, slots_end, ring_start(layout));
    }
    if (journal->position < layout->ring_bytes) {
        sbx_file_give_back(journal->memory,
                           ring_start(layout) + (size_t)journal->position, journal->size);
    }
}

void sbx_journal_close(struct sbx_journal *journal)
{
    if (journal == NULL) {
        return;
    }
    if (journal->memory != NULL) {
        (void)munmap(journal->memory, journal->size);
    }
    sbx_closep(&journal->fd);
    free(journal);
}

/* --- a reader ---------------------------------------------------------------------- */

struct reader {
    int fd;
    struct layout layout;
};

static int look_at(const struct reader *reader, size_t offset, uint64_t *ret_word)
{
    atomic_thread_fence(memory_order_seq_cst);
    int r = sbx_file_read(reader->fd, ret_word, sizeof *ret_word, offset);
    atomic_thread_fence(memory_order_seq_cst);
    return r;
}

static int look_first(const struct reader *reader, uint64_t *ret_first)
{
    return look_at(reader, offsetof(struct header, first), ret_first);
}

/* `first` before `latest`, which is moved later: they go together then. */
static int look(const struct reader *reader, struct sbx_journal_state *ret_state)
{
    struct sbx_journal_state state;
    int r = look_first(reader, &state.first_sequence);
    if (r == 0) {
        r = look_at(reader, offsetof(struct header, latest), &state.latest_sequence);
    }
    if (r < 0) {
        return r;
    }
    if (state.first_sequence == 0 || state.latest_sequence > SEQUENCE_MAX ||
        state.first_sequence > state.latest_sequence + 1) {
        return -EBADMSG;
    }
    /* `first` may be older than `latest`; no more than that are kept at any time. */
    if (state.latest_sequence - state.first_sequence >= reader->layout.slots_count &&
        state.latest_sequence >= state.first_sequence) {
        state.first_sequence = state.latest_sequence - reader->layout.slots_count + 1;
    }
    *ret_state = state;
    return 0;
}

/* The caller closes reader->fd, also on failure. */
static int open_reader(int directory, const char *name, int access, struct reader *reader)
{
    uint64_t size = 0;
    struct header header;
    reader->fd = sbx_file_open(directory, name, access, &size);
    if (reader->fd < 0) {
        return reader->fd;
    }
    int r = sbx_file_read(reader->fd, &header, sizeof header, 0);
    if (r < 0) {
        return r;
    }
    if (header.magic != MAGIC || header.slots_count < COUNT_MIN ||
        header.slots_count > COUNT_MAX) {
        return -EBADMSG;
    }
    reader->layout = layout_for(header.slots_count);
    return header.ring_bytes == reader->layout.ring_bytes &&
                   size == file_size(&reader->layout)
               ? 0
               : -EBADMSG;
}

int sbx_journal_look(int directory, const char *name, struct sbx_journal_state *ret_state)
{
    struct reader reader = {.fd = -1};
    int r = open_reader(directory, name, O_RDONLY, &reader);
    if (r == 0) {
        r = look(&reader, ret_state);
    }
    sbx_fd_drop(&reader.fd);
    return r;
}

static bool is_whole(const struct slot *slot, uint64_t sequence)
{
    return slot->sequence == sequence && slot->length <= SBX_EVENT_DATA_MAX &&
           sbx_event_type_name((enum sbx_event_type)slot->type) != NULL &&
           slot->stream <= 2;
}

/* A copy of an event and its data, unlooked at. */
static int copy(const struct reader *reader, uint64_t sequence, struct slot *slot,
                char data[static SBX_EVENT_DATA_MAX])
{
    int r = sbx_file_read(reader->fd, slot, sizeof *slot,
                          slot_offset(&reader->layout, sequence));
    size_t length = r == 0 && slot->length <= SBX_EVENT_DATA_MAX ? slot->length : 0;
    size_t done = 0;
    while (r == 0 && done < length) {
        size_t part = length - done;
        size_t offset = ring_offset(&reader->layout, slot->position + done, &part);
        r = sbx_file_read(reader->fd, data + done, part, offset);
        done += part;
    }
    return r;
}

struct walk {
    uint64_t next;
    uint64_t latest; /* as it was at the beginning: a walk ends */
    bool begun;      /* something was called back */
    bool over;
    sbx_journal_callback *callback;
    void *context;
};

/* One event, or on to the first that is still there. */
static int step(const struct reader *reader, struct walk *walk)
{
    char data[SBX_EVENT_DATA_MAX];
    struct slot slot;
    uint64_t first = 0;
    int r = copy(reader, walk->next, &slot, data);
    if (r == 0) {
        r = look_first(reader, &first);
    }
    if (r < 0) {
        return r;
    }
    if (first > walk->next) {
        walk->over = walk->begun;
        walk->next = first;
        return 0;
    }
    if (!is_whole(&slot, walk->next)) {
        return -EBADMSG;
    }
    const struct sbx_event event = {.sequence = slot.sequence,
                                    .type = (enum sbx_event_type)slot.type,
                                    .stream = slot.stream,
                                    .at_real_us = slot.at_real_us,
                                    .offset = slot.offset,
                                    .value = slot.value,
                                    .length = slot.length,
                                    .data = data};
    walk->begun = true;
    walk->next++;
    walk->over = !walk->callback(&event, walk->context);
    return 0;
}

/* NOLINTNEXTLINE(readability-function-size): a file is two of them */
int sbx_journal_read(int directory, const char *name, uint64_t after,
                     sbx_journal_callback *callback, void *context,
                     struct sbx_journal_state *ret_state)
{
    struct reader reader = {.fd = -1};
    struct sbx_journal_state state;
    int r = open_reader(directory, name, O_RDONLY, &reader);
    if (r == 0) {
        r = look(&reader, &state);
    }
    if (r == 0 && after < state.latest_sequence) {
        struct walk walk = {.next = after + 1,
                            .latest = state.latest_sequence,
                            .callback = callback,
                            .context = context};
        if (walk.next < state.first_sequence) {
            walk.next = state.first_sequence;
        }
        while (r == 0 && !walk.over && walk.next <= walk.latest) {
            r = step(&reader, &walk);
        }
    }
    if (r == 0) {
        r = look(&reader, &state);
    }
    sbx_fd_drop(&reader.fd);
    if (r == 0) {
        *ret_state = state;
    }
    return r;
}

/* --- the second writer ------------------------------------------------------------- */

/* Behind the data of the last event. */
static int find_end(const struct reader *reader, const struct sbx_journal_state *state,
                    struct sbx_journal *journal)
{
    if (state->first_sequence > state->latest_sequence) {
        return 0; /* with nothing in it the ring may begin anywhere */
    }
    struct slot slot;
    int r = sbx_file_read(reader->fd, &slot, sizeof slot,
                          slot_offset(&reader->layout, state->latest_sequence));
    if (r < 0) {
        return r;
    }
    if (!is_whole(&slot, state->latest_sequence)) {
        return -EBADMSG;
    }
    journal->position = slot.position + slot.length;
    journal->first_position = position_of(journal, state->first_sequence);
    return 0;
}

int sbx_journal_open(int directory, const char *name, struct sbx_journal **ret_journal,
                     struct sbx_error *err)
{
    struct reader reader = {.fd = -1};
    struct sbx_journal_state state = {0};
    SBX_AUTO_FREE struct sbx_journal *journal = calloc(1, sizeof *journal);
    if (journal == NULL) {
        return sbx_error_set(err, ENOMEM, SBX_STAGE_REPORT, "no memory for %s", name);
    }
    int r = open_reader(directory, name, O_RDWR, &reader);
    if (r == 0) {
        r = look(&reader, &state);
    }
    if (r == 0) {
        *journal = (struct sbx_journal){.fd = reader.fd,
                                        .layout = reader.layout,
                                        .first = state.first_sequence,
                                        .latest = state.latest_sequence};
        r = find_end(&reader, &state, journal);
    }
    if (r < 0) {
        sbx_fd_drop(&reader.fd);
        return sbx_error_set(err, -r, SBX_STAGE_REPORT, "cannot write on in %s: %s", name,
                             sbx_errno_text(-r).text);
    }
    *ret_journal = journal;
    journal = NULL;
    return 0;
}
