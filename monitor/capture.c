/*
 * capture.c - see capture.h: files, pipes, servants, and who closes what when. The
 * copying itself is in passer.c.
 */
#include "monitor/capture.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "monitor/passer.h"
#include "monitor/redirect.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

/* A larger pipe lets the command go on while a servant waits for the processor. Where the
 * user has no more pages for pipes, the usual size has to do. */
#define PIPE_SIZE (1024 * 1024)
/* A reader that takes nothing for so long is not waited for after the end. */
#define PATIENCE_US (10 * (uint64_t)SBX_US_PER_S)
/* And where nobody can tell us to stop waiting, so long in all. */
#define GUARD_PATIENCE_US (60 * (uint64_t)SBX_US_PER_S)
/* From an order to the end of a servant that waits. */
#define HAND_OVER_US (SBX_US_PER_S / 2)
#define DEATH_US SBX_US_PER_S
#define LOOK_MS 100

void sbx_capture_init(struct sbx_capture *capture, const struct sbx_spec *spec,
                      struct sbx_capture_area *area)
{
    *capture = (struct sbx_capture){.spec = spec,
                                    .area = area,
                                    .files = {-1, -1, -1},
                                    .write_ends = {-1, -1},
                                    .stdio = {-1, -1, -1},
                                    .order_event = -1,
                                    .notice_event = -1};
    for (size_t i = 0; i < SBX_CAPTURE_MAX; i++) {
        capture->streams[i] = (struct sbx_capture_stream){
            .source = -1, .target = -1, .servant = SBX_NO_SERVANT};
    }
}

/* --- what has to be open --- */

bool sbx_capture_is_wanted(const struct sbx_spec *spec)
{
    return spec->limits.output_bytes != 0 || spec->limits.idle_us != 0 ||
           spec->output_keep_bytes != 0;
}

static bool may_write(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
}

/* Then one pipe for both keeps the order in which they were written. */
static bool lead_to_one_place(int a, int b)
{
    struct stat first;
    struct stat second;
    return fstat(a, &first) == 0 && fstat(b, &second) == 0 &&
           first.st_dev == second.st_dev && first.st_ino == second.st_ino &&
           may_write(a) == may_write(b);
}

static int above_standard(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO) {
        return fd;
    }
    int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int code = errno;
    (void)close(fd);
    errno = code;
    return above;
}

static int failed(struct sbx_error *err, const char *what)
{
    int code = errno;
    return sbx_error_set(err, code, SBX_STAGE_LAUNCH, "capture of output: %s: %s", what,
                         sbx_errno_text(code).text);
}

static int open_pipe(struct sbx_capture *capture, size_t index, struct sbx_error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return failed(err, "pipe");
    }
    capture->streams[index].source = above_standard(ends[0]);
    capture->write_ends[index] = above_standard(ends[1]);
    if (capture->streams[index].source < 0 || capture->write_ends[index] < 0) {
        return failed(err, "descriptors");
    }
    /* The description is ours alone. Somebody who opens the pipe in /proc and reads from
     * it must not make a servant wait for what it has just counted. */
    if (fcntl(capture->streams[index].source, F_SETFL, O_NONBLOCK) < 0) {
        return failed(err, "pipe");
    }
    (void)fcntl(capture->write_ends[index], F_SETPIPE_SZ, PIPE_SIZE);
    const struct sbx_start *start = &capture->spec->start;
    if (start->user_asked) {
        /* So that the command can open /dev/stdout, as with a pipe of its own user. */
        (void)!fchown(capture->write_ends[index], start->uid, start->gid);
    }
    return 0;
}

static int open_events(struct sbx_capture *capture, struct sbx_error *err)
{
    capture->order_event = above_standard(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    capture->notice_event = above_standard(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    return capture->order_event < 0 || capture->notice_event < 0 ? failed(err, "eventfd")
                                                                 : 0;
}

static void name_stream(struct sbx_capture *capture, size_t index, int which)
{
    static const char *const names[] = {"", "standard output", "standard error"};
    struct sbx_capture_stream *stream = &capture->streams[index];
    stream->name = names[which];
    stream->path = capture->spec->streams[which].path;
    stream->target = capture->files[which] >= 0 ? capture->files[which] : which;
}

static int open_pipes(struct sbx_capture *capture, struct sbx_error *err)
{
    name_stream(capture, 0, STDOUT_FILENO);
    name_stream(capture, 1, STDERR_FILENO);
    bool one = lead_to_one_place(capture->streams[0].target, capture->streams[1].target);
    capture->count = one ? 1 : 2;
    int r = open_events(capture, err);
    for (size_t i = 0; i < capture->count && r == 0; i++) {
        r = open_pipe(capture, i, err);
    }
    capture->stdio[1] = capture->write_ends[0];
    capture->stdio[2] = capture->write_ends[one ? 0 : 1];
    return r;
}

/* --- servants --- */

struct duty {
    const struct sbx_capture *capture;
    size_t index;
};

static uint64_t bound_of(const struct sbx_spec *spec)
{
    uint64_t limit = spec->limits.output_bytes;
    uint64_t keep = spec->output_keep_bytes;
    return limit == 0 || (keep != 0 && keep < limit) ? keep : limit;
}

static void serve(void *context)
{
    const struct duty *duty = context;
    const struct sbx_capture *capture = duty->capture;
    const struct sbx_capture_stream *stream = &capture->streams[duty->index];
    struct sbx_passer passer = {
        .area = capture->area,
        .state = &capture->area->streams[duty->index],
        .source = stream->source,
        .target = stream->target,
        .order_event = capture->order_event,
        .notice_event = capture->notice_event,
        .limit_bytes = capture->spec->limits.output_bytes,
        .bound_bytes = bound_of(capture->spec),
    };
    sbx_pass_on(&passer);
}

static int start_servant(struct sbx_capture *capture, size_t index, struct sbx_error *err)
{
    struct duty duty = {.capture = capture, .index = index};
    const char *name = capture->count == 1 ? "sbx-output"
                       : index == 0        ? "sbx-stdout"
                                           : "sbx-stderr";
    return sbx_servant_start(&capture->streams[index].servant, name, serve, &duty, err);
}

static void give_order(const struct sbx_capture *capture, enum sbx_capture_order order)
{
    const uint64_t one = 1;
    atomic_store(&capture->area->order, (int)order);
    (void)!write(capture->order_event, &one, sizeof one);
}

/* --- opening and closing --- */

int sbx_capture_open(struct sbx_capture *capture, struct sbx_error *err)
{
    int r = sbx_redirect_open(capture->spec, capture->files, err);
    if (r < 0) {
        return r;
    }
    memcpy(capture->stdio, capture->files, sizeof capture->stdio);
    if (!sbx_capture_is_wanted(capture->spec)) {
        return 0;
    }
    r = open_pipes(capture, err);
    for (size_t i = 0; i < capture->count && r == 0; i++) {
        r = start_servant(capture, i, err);
    }
    return r;
}

void sbx_capture_leave(struct sbx_capture *capture)
{
    for (size_t i = 0; i < SBX_CAPTURE_MAX; i++) {
        sbx_fd_drop(&capture->write_ends[i]);
        sbx_fd_drop(&capture->streams[i].source);
        sbx_fd_drop(&capture->streams[i].servant.pidfd);
    }
    for (size_t i = 0; i < 3; i++) {
        sbx_fd_drop(&capture->files[i]);
    }
    sbx_fd_drop(&capture->order_event);
    sbx_fd_drop(&capture->notice_event);
}

void sbx_capture_close(struct sbx_capture *capture)
{
    for (size_t i = 0; i < SBX_CAPTURE_MAX; i++) {
        sbx_servant_done(&capture->streams[i].servant);
    }
    sbx_capture_leave(capture);
}

/* --- what has become of it --- */

void sbx_capture_continue(const struct sbx_capture *capture)
{
    for (size_t i = 0; i < capture->count; i++) {
        sbx_servant_continue(&capture->streams[i].servant);
    }
}

bool sbx_capture_is_pending(const struct sbx_capture *capture)
{
    for (size_t i = 0; i < capture->count; i++) {
        struct pollfd waiting = {.fd = capture->streams[i].source, .events = POLLIN};
        if (atomic_load(&capture->area->streams[i].pending_bytes) > 0 ||
            (poll(&waiting, 1, 0) == 1 && (waiting.revents & POLLIN) != 0)) {
            return true;
        }
    }
    return false;
}

static void warn(struct sbx_record *record, const struct sbx_capture_stream *stream,
                 const char *what)
{
    sbx_record_warn(record, "%s%s%.60s: %s", stream->name,
                    stream->path != NULL ? ", " : "",
                    stream->path != NULL ? stream->path : "", what);
}

static void conclude(const struct sbx_capture *capture, struct sbx_record *record)
{
    struct sbx_capture_area *area = capture->area;
    bool truncated = atomic_load(&area->dropped_bytes) > 0;
    for (size_t i = 0; i < capture->count; i++) {
        const struct sbx_capture_stream *stream = &capture->streams[i];
        int error = atomic_load(&area->streams[i].error);
        bool drained = atomic_load(&area->streams[i].drained);
        bool torn = atomic_load(&area->streams[i].torn);
        if (error != 0) {
            char what[128];
            (void)snprintf(what, sizeof what, "%s: what followed was dropped",
                           sbx_errno_text(error).text);
            warn(record, stream, what);
        }
        if (!drained || torn) {
            warn(record, stream, "the last of it may not have been passed on");
        }
        truncated = truncated || !drained || torn;
    }
    if (capture->count > 0) {
        record->usage.output_bytes = atomic_load(&area->seen_bytes);
        record->output_truncated = truncated ? SBX_TRUNCATED_YES : SBX_TRUNCATED_NO;
    }
}

/* --- the end --- */

static uint64_t progress_of(const struct sbx_capture *capture)
{
    return atomic_load(&capture->area->passed_bytes) +
           atomic_load(&capture->area->dropped_bytes);
}

static bool all_ended(const struct sbx_capture *capture)
{
    for (size_t i = 0; i < capture->count; i++) {
        if (!sbx_servant_wait(&capture->streams[i].servant, 0)) {
            return false;
        }
    }
    return true;
}

static void await_servants(const struct sbx_capture *capture, int socket,
                           bool (*cancel)(void *context), void *context)
{
    uint64_t progress = progress_of(capture);
    uint64_t until_us = sbx_clock_us() + PATIENCE_US;
    while (!all_ended(capture) && sbx_clock_us() < until_us && !cancel(context)) {
        struct pollfd fds[SBX_CAPTURE_MAX + 1] = {
            {.fd = socket, .events = POLLIN},
            {.fd = capture->streams[0].servant.pidfd, .events = POLLIN},
            {.fd = capture->streams[1].servant.pidfd, .events = POLLIN},
        };
        for (size_t i = 0; i < capture->count; i++) {
            if (sbx_servant_wait(&capture->streams[i].servant, 0)) {
                fds[1 + i].fd = -1;
            }
        }
        sbx_capture_continue(capture);
        (void)poll(fds, SBX_CAPTURE_MAX + 1, LOOK_MS);
        if ((fds[0].revents & (POLLHUP | POLLERR)) != 0) {
            socket = -1;
        }
        uint64_t now = progress_of(capture);
        if (now != progress) {
            progress = now;
            until_us = sbx_clock_us() + PATIENCE_US;
        }
    }
    for (size_t i = 0; i < capture->count; i++) {
        sbx_servant_kill(&capture->streams[i].servant);
        (void)sbx_servant_wait(&capture->streams[i].servant, sbx_clock_us() + DEATH_US);
    }
}

void sbx_capture_finish(struct sbx_capture *capture, struct sbx_record *record,
                        int socket, bool (*cancel)(void *context), void *context)
{
    if (capture->count == 0) {
        return;
    }
    give_order(capture, SBX_CAPTURE_FINISH);
    await_servants(capture, socket, cancel, context);
    conclude(capture, record);
}

/* --- the guard's turn --- */

/* Whether it had something in its hands, or was killed in the middle of a move, nobody
 * can tell. What it has counted and left in the pipe will be counted again. */
static void note_torn(struct sbx_capture_area *area, struct sbx_capture_state *state)
{
    uint64_t pending = atomic_exchange(&state->pending_bytes, 0);
    uint64_t held = atomic_exchange(&state->held_bytes, 0);
    if (pending == 0) {
        return;
    }
    uint64_t left = pending > held ? pending - held : 0;
    atomic_store(&state->torn, true);
    (void)atomic_fetch_sub(&area->seen_bytes, left);
    uint64_t granted = atomic_load(&area->granted_bytes);
    atomic_store(&area->granted_bytes, granted > left ? granted - left : 0);
}

void sbx_capture_hand_over(struct sbx_capture *capture)
{
    if (capture->count == 0) {
        return;
    }
    uint64_t until_us = sbx_clock_us() + HAND_OVER_US;
    give_order(capture, SBX_CAPTURE_HAND_OVER);
    sbx_capture_continue(capture);
    for (size_t i = 0; i < capture->count; i++) {
        struct sbx_capture_stream *stream = &capture->streams[i];
        (void)sbx_servant_wait(&stream->servant, until_us);
        sbx_servant_done(&stream->servant);
        note_torn(capture->area, &capture->area->streams[i]);
    }
}

static bool is_late(void *context)
{
    return sbx_clock_us() >= *(const uint64_t *)context;
}

void sbx_capture_recover(struct sbx_capture *capture, struct sbx_record *record)
{
    struct sbx_error ignored; /* without a servant the rest is not passed on: it shows */
    if (capture->count == 0) {
        return;
    }
    give_order(capture, SBX_CAPTURE_FINISH);
    for (size_t i = 0; i < capture->count; i++) {
        if (!atomic_load(&capture->area->streams[i].drained)) {
            (void)start_servant(capture, i, &ignored);
        }
    }
    uint64_t until_us = sbx_clock_us() + GUARD_PATIENCE_US;
    await_servants(capture, -1, is_late, &until_us);
    conclude(capture, record);
}
