/*
 * keeper_output.c - what the command writes: from the pipes into the files of its
 * streams, and as events into the journal. The bytes are read right into the file's
 * mapping.
 *
 * Nobody is waited for, unless the caller asked for that ("when_full": "pause"): then a
 * stream is not read while its file is full of bytes that no reader has taken.
 */
#include "supervisor/keeper_private.h"

#include "base/clock.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define PIPE_BYTES ((size_t)64 * 1024)

/* So often in a row, then the others have their turn. */
#define READS_AT_ONCE 8

static const char *const file_names[] = {"stdout", "stderr"};

int sbx_keeper_open_outputs(struct sbx_keeper *keeper, struct sbx_error *err)
{
    uint64_t limit = keeper->order.output_limit_bytes;
    for (int i = 0; i < 2; i++) {
        struct sbx_keeper_output *output = &keeper->outputs[i];
        struct sbx_stream_bounds bounds = {.head_bytes = limit / 2,
                                           .tail_bytes = limit - limit / 2};
        int capacity = fcntl(output->pipe, F_GETPIPE_SZ);
        output->pipe_bytes = capacity > 0 ? (size_t)capacity : PIPE_BYTES;
        if (keeper->order.pause_when_full != 0) {
            /* What is in the pipe at the end has its room, too. */
            bounds.head_bytes = 0;
            bounds.tail_bytes = limit + output->pipe_bytes;
        }
        int r = sbx_stream_create(keeper->directory, file_names[i], &bounds,
                                  &output->writer, err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* How much may be read now. */
static size_t room_of(const struct sbx_keeper_output *output)
{
    if (output->keeper->order.pause_when_full == 0) {
        return SIZE_MAX;
    }
    uint64_t kept = sbx_stream_total(output->writer) - output->taken_bytes;
    uint64_t limit = output->keeper->order.output_limit_bytes;
    return kept < limit ? (size_t)(limit - kept) : 0;
}

static void append_event(const struct sbx_keeper_output *output, uint64_t offset,
                         const char *data, size_t length)
{
    const struct sbx_event event = {.type = output->stream == 1 ? SBX_EVENT_STDOUT
                                                                : SBX_EVENT_STDERR,
                                    .stream = output->stream,
                                    .at_real_us = sbx_clock_real_us(),
                                    .offset = offset,
                                    .length = length,
                                    .data = data};
    if (length > 0) {
        (void)sbx_journal_append(output->keeper->journal, &event);
    }
}

/* How many bytes at the end begin a character of UTF-8 whose rest is not there: 0 to 3.
 */
static size_t open_end(const char *data, size_t length)
{
    for (size_t back = 1; back <= 3 && back <= length; back++) {
        unsigned char byte = (unsigned char)data[length - back];
        if (byte >= 0xc0) {
            size_t whole = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
            return byte < 0xf8 && whole > back ? back : 0;
        }
        if (byte < 0x80) {
            return 0;
        }
    }
    return 0;
}

/* An event that ends inside of a character could not be shown as text. So the beginning
 * of one is held until its rest is there, or the stream's end. */
static void append_events(struct sbx_keeper_output *output, uint64_t offset,
                          const char *data, size_t length)
{
    char joined[SBX_EVENT_DATA_MAX];
    while (length > 0) {
        size_t held = output->held_length;
        size_t room = sizeof joined - held;
        size_t part = length < room ? length : room;
        const char *bytes = data;
        if (held > 0) {
            memcpy(joined, output->held, held);
            memcpy(joined + held, data, part);
            bytes = joined;
        }
        size_t whole = held + part - open_end(bytes, held + part);
        append_event(output, offset - held, bytes, whole);
        output->held_length = held + part - whole;
        memcpy(output->held, bytes + whole, output->held_length);
        data += part;
        offset += part;
        length -= part;
    }
}

static void append_held(struct sbx_keeper_output *output)
{
    uint64_t end = sbx_stream_total(output->writer);
    append_event(output, end - output->held_length, output->held, output->held_length);
    output->held_length = 0;
}

static void stop_reading(struct sbx_keeper_output *output)
{
    sbx_source_free(output->source);
    output->source = NULL;
}

static void see_end(struct sbx_keeper_output *output)
{
    stop_reading(output);
    if (output->pipe >= 0) {
        (void)close(output->pipe);
        output->pipe = -1;
    }
    if (output->writer != NULL) {
        append_held(output);
        sbx_stream_end(output->writer);
    }
}

/* Reads once, at most `most` bytes. How many; 0: its end; or a negative errno. */
static ssize_t read_once(struct sbx_keeper_output *output, size_t most)
{
    size_t size = 0;
    uint64_t offset = sbx_stream_total(output->writer);
    char *place = sbx_stream_reserve(output->writer, &size);
    ssize_t length;
    do {
        length = read(output->pipe, place, size < most ? size : most);
    } while (length < 0 && errno == EINTR);
    if (length < 0) {
        return -errno;
    }
    sbx_stream_commit(output->writer, (size_t)length);
    append_events(output, offset, place, (size_t)length);
    return length;
}

static void on_output(void *context)
{
    struct sbx_keeper_output *output = context;
    struct sbx_keeper *keeper = output->keeper;
    for (int i = 0; i < READS_AT_ONCE; i++) {
        size_t room = room_of(output);
        if (room == 0) {
            stop_reading(output);
            break;
        }
        ssize_t length = read_once(output, room);
        if (length == -EAGAIN) {
            break;
        }
        if (length <= 0) {
            see_end(output);
            break;
        }
    }
    sbx_keeper_tell_news(keeper);
}

/* No memory for an event is as if it were not read for now: the next order tries again.
 */
static void start_reading(struct sbx_keeper_output *output)
{
    if (output->source == NULL && output->pipe >= 0 && room_of(output) > 0) {
        (void)sbx_loop_add_fd(output->keeper->loop, output->pipe, on_output, output,
                              &output->source);
    }
}

void sbx_keeper_read_outputs(struct sbx_keeper *keeper)
{
    start_reading(&keeper->outputs[0]);
    start_reading(&keeper->outputs[1]);
}

void sbx_keeper_output_taken(struct sbx_keeper *keeper, uint32_t stream, uint64_t offset)
{
    if (stream < 1 || stream > 2) {
        return;
    }
    struct sbx_keeper_output *output = &keeper->outputs[stream - 1];
    uint64_t total = sbx_stream_total(output->writer);
    offset = offset < total ? offset : total;
    if (offset > output->taken_bytes) {
        output->taken_bytes = offset;
    }
    if (keeper->started) {
        start_reading(output);
    }
}

static void note_gap(struct sbx_keeper_output *output)
{
    struct sbx_keeper *keeper = output->keeper;
    uint64_t dropped = output->writer != NULL ? sbx_stream_dropped(output->writer) : 0;
    if (dropped > 0) {
        uint64_t limit = keeper->order.output_limit_bytes;
        bool pauses = keeper->order.pause_when_full != 0;
        sbx_keeper_note(keeper, (struct sbx_event){.type = SBX_EVENT_GAP,
                                                   .stream = output->stream,
                                                   .offset = pauses ? 0 : limit / 2,
                                                   .value = dropped});
    }
}

/* Who still has the other end (strays that were to be kept) may go on writing: what is
 * there now, and no more. */
static void drain(struct sbx_keeper_output *output)
{
    int waiting = 0;
    if (output->pipe < 0 || ioctl(output->pipe, FIONREAD, &waiting) < 0) {
        return;
    }
    size_t rest = waiting > 0 ? (size_t)waiting : 0;
    while (rest > 0) {
        ssize_t length = read_once(output, rest);
        if (length <= 0) {
            return;
        }
        rest -= (size_t)length;
    }
}

void sbx_keeper_end_outputs(struct sbx_keeper *keeper)
{
    for (int i = 0; i < 2; i++) {
        if (keeper->outputs[i].writer != NULL) {
            drain(&keeper->outputs[i]);
        }
        see_end(&keeper->outputs[i]);
    }
    note_gap(&keeper->outputs[0]);
    note_gap(&keeper->outputs[1]);
}
