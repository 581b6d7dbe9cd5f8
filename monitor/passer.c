/*
 * passer.c - see passer.h. What is in the pipe is counted before it is passed on, so that
 * a slow reader delays no verdict; and passed on before anything else is counted, so that
 * one number (pending) says what a servant that was killed has left in the pipe.
 *
 * Moves pages by splice where the target lets it; else by read and write. The flags of
 * the target are never changed: its description is the caller's as well. Allocates
 * nothing.
 */
#include "monitor/passer.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER_SIZE ((size_t)128 * 1024)
/* What may block is written in pieces, so that a slow reader is seen to make progress. */
#define SPLICE_SIZE ((size_t)1024 * 1024)
#define SPLICE_PIECE ((size_t)64 * 1024)
#define COPY_PIECE ((size_t)4 * 1024)
/* While finishing, how often to look whether the order has changed. */
#define LOOK_MS 100

struct work {
    const struct sbx_passer *job;
    bool copies; /* the target takes no splice */
    size_t splice_size;
    size_t copy_size;
    bool told; /* of the limit */
    unsigned char buffer[BUFFER_SIZE];
};

static enum sbx_capture_order order(const struct work *work)
{
    return (enum sbx_capture_order)atomic_load(&work->job->area->order);
}

static void notify(const struct work *work)
{
    const uint64_t one = 1;
    (void)!write(work->job->notice_event, &one, sizeof one);
}

static void note_active(const struct work *work)
{
    atomic_store(&work->job->area->active_us, sbx_clock_us());
}

static void note_passed(const struct work *work, uint64_t bytes)
{
    (void)atomic_fetch_add(&work->job->area->passed_bytes, bytes);
    (void)atomic_fetch_sub(&work->job->state->pending_bytes, bytes);
}

static void note_dropped(const struct work *work, uint64_t bytes)
{
    (void)atomic_fetch_add(&work->job->area->dropped_bytes, bytes);
    (void)atomic_fetch_sub(&work->job->state->pending_bytes, bytes);
}

/* --- waiting --- */

static uint64_t waiting_bytes(const struct work *work)
{
    int bytes = 0;
    return ioctl(work->job->source, FIONREAD, &bytes) == 0 && bytes > 0 ? (uint64_t)bytes
                                                                        : 0;
}

/* False: every writer is gone, and nothing is left. */
static bool await_source(const struct work *work)
{
    struct pollfd fds[] = {{.fd = work->job->source, .events = POLLIN},
                           {.fd = work->job->order_event, .events = POLLIN}};
    int ready = poll(fds, 2, -1);
    bool ended = ready > 0 && (fds[0].revents & (POLLHUP | POLLIN)) == POLLHUP;
    return !ended || waiting_bytes(work) > 0;
}

/* 0, or -ECANCELED when the servant is to hand over. What is wrong with the target shows
 * when it is written to. */
static int await_target(const struct work *work)
{
    for (;;) {
        enum sbx_capture_order now = order(work);
        if (now == SBX_CAPTURE_HAND_OVER) {
            return -ECANCELED;
        }
        bool runs = now == SBX_CAPTURE_RUN;
        struct pollfd fds[] = {
            {.fd = work->job->target, .events = POLLOUT},
            {.fd = runs ? work->job->order_event : -1, .events = POLLIN},
        };
        int ready = poll(fds, 2, runs ? -1 : LOOK_MS);
        if (fds[0].revents != 0 || (ready < 0 && errno != EINTR)) {
            return 0;
        }
    }
}

/* --- moving --- */

/* Each moves up to `size` bytes, which are in the pipe, and returns how many it has taken
 * out of it. *ret_error is negative when the target takes no more; -ECANCELED; or
 * -ENODATA when somebody else has taken them: who has a pipe open can open it once more
 * in /proc, and read. */
static uint64_t splice_some(struct work *work, uint64_t size, int *ret_error)
{
    for (;;) {
        ssize_t moved = splice(work->job->source, NULL, work->job->target, NULL,
                               size < work->splice_size ? size : work->splice_size,
                               SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
        if (moved > 0) {
            note_passed(work, (uint64_t)moved);
            return (uint64_t)moved;
        }
        if (moved < 0 && errno == EINVAL) {
            work->copies = true; /* a terminal, a file opened to append, ... */
            return 0;
        }
        if (moved == 0 || (errno == EAGAIN && waiting_bytes(work) == 0)) {
            *ret_error = -ENODATA;
        } else if (errno == EAGAIN) {
            *ret_error = await_target(work);
        } else if (errno != EINTR) {
            *ret_error = -errno;
        }
        if (*ret_error < 0) {
            return 0;
        }
    }
}

static uint64_t take_some(struct work *work, uint64_t size, size_t most)
{
    ssize_t taken;
    do {
        taken = read(work->job->source, work->buffer, size < most ? (size_t)size : most);
    } while (taken < 0 && errno == EINTR);
    return taken > 0 ? (uint64_t)taken : 0;
}

static int write_some(struct work *work, uint64_t size)
{
    const unsigned char *next = work->buffer;
    int error = 0;
    while (size > 0 && error == 0) {
        ssize_t written = write(work->job->target, next, size);
        if (written >= 0) {
            next += written;
            size -= (uint64_t)written;
            atomic_store(&work->job->state->held_bytes, size);
            note_passed(work, (uint64_t)written);
        } else if (errno == EAGAIN) {
            error = await_target(work); /* somebody has made it non-blocking */
        } else if (errno != EINTR) {
            error = -errno;
        }
    }
    if (size > 0) {
        note_dropped(work, size);
    }
    return error;
}

static uint64_t copy_some(struct work *work, uint64_t size, int *ret_error)
{
    *ret_error = await_target(work); /* with nothing in our hands meanwhile */
    if (*ret_error < 0) {
        return 0;
    }
    uint64_t taken = take_some(work, size, work->copy_size);
    if (taken == 0) {
        *ret_error = -ENODATA;
        return 0;
    }
    atomic_store(&work->job->state->held_bytes, taken);
    *ret_error = write_some(work, taken);
    atomic_store(&work->job->state->held_bytes, 0);
    return taken;
}

static void drop(struct work *work, uint64_t size)
{
    while (size > 0) {
        uint64_t taken = take_some(work, size, BUFFER_SIZE);
        if (taken == 0) {
            return;
        }
        note_dropped(work, taken);
        size -= taken;
    }
}

/* --- the bound, and the end of the target --- */

/* How many of these bytes may be passed on. */
static uint64_t grant(const struct work *work, uint64_t size)
{
    uint64_t bound = work->job->bound_bytes;
    if (bound == 0) {
        return size;
    }
    _Atomic uint64_t *total = &work->job->area->granted_bytes;
    uint64_t before = atomic_load(total);
    uint64_t granted;
    do {
        uint64_t room = before < bound ? bound - before : 0;
        granted = size < room ? size : room;
    } while (!atomic_compare_exchange_weak(total, &before, before + granted));
    return granted;
}

/* They stay in the pipe, for whoever comes next. */
static void give_back(const struct work *work, uint64_t granted)
{
    struct sbx_capture_area *area = work->job->area;
    uint64_t left = atomic_exchange(&work->job->state->pending_bytes, 0);
    (void)atomic_fetch_sub(&area->seen_bytes, left);
    if (work->job->bound_bytes != 0) {
        (void)atomic_fetch_sub(&area->granted_bytes, granted);
    }
}

static mode_t type_of(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 ? status.st_mode & (mode_t)S_IFMT : 0;
}

/* Without a reader nothing that the command writes will ever be of use; a full disk may
 * be, and is only told. */
static void lose_target(const struct work *work, int code)
{
    struct sbx_capture_state *state = work->job->state;
    bool hung_up = code == EIO && type_of(work->job->target) != S_IFREG; /* a terminal */
    atomic_store(&state->closed,
                 hung_up || code == EPIPE || code == ECONNRESET || code == ENOTCONN);
    atomic_store(&state->error, code);
    notify(work);
}

static void count(struct work *work, uint64_t size)
{
    const struct sbx_passer *job = work->job;
    atomic_store(&job->state->pending_bytes, size);
    uint64_t seen = atomic_fetch_add(&job->area->seen_bytes, size) + size;
    note_active(work);
    if (job->limit_bytes != 0 && seen > job->limit_bytes && !work->told) {
        uint64_t never = 0;
        (void)atomic_compare_exchange_strong(&job->area->crossed_us, &never,
                                             sbx_clock_us());
        work->told = true;
        notify(work);
    }
}

/* `size` bytes that are in the pipe: passed on or dropped. False: to be handed over. */
static bool pass(struct work *work, uint64_t size)
{
    struct sbx_capture_state *state = work->job->state;
    count(work, size);
    uint64_t left = atomic_load(&state->error) == 0 ? grant(work, size) : 0;
    uint64_t beyond = size - left;
    int error = 0;
    while (left > 0 && error == 0) {
        left -= work->copies ? copy_some(work, left, &error)
                             : splice_some(work, left, &error);
    }
    if (error == -ECANCELED) {
        give_back(work, left);
        return false;
    }
    if (error < 0 && error != -ENODATA) {
        lose_target(work, -error);
    }
    drop(work, left + beyond);
    note_dropped(work, atomic_load(&state->pending_bytes)); /* what others have taken */
    note_active(work);
    return true;
}

static bool step(struct work *work)
{
    enum sbx_capture_order now = order(work);
    if (now == SBX_CAPTURE_HAND_OVER) {
        return false;
    }
    /* After the order: what was written before it is in the pipe. */
    uint64_t waiting = waiting_bytes(work);
    bool passed = waiting == 0 || pass(work, waiting);
    bool ended = now == SBX_CAPTURE_FINISH || (waiting == 0 && !await_source(work));
    if (passed && ended) {
        atomic_store(&work->job->state->drained, true);
    }
    return passed && !ended;
}

void sbx_pass_on(const struct sbx_passer *passer)
{
    static struct work work; /* too large for a stack of unknown size */
    const int kept[] = {passer->source, passer->target, passer->order_event,
                        passer->notice_event};
    sbx_servant_keep_only(kept, sizeof kept / sizeof kept[0]);
    work.job = passer;
    mode_t type = type_of(passer->target);
    /* To a terminal a splice would block without a word. */
    work.copies = isatty(passer->target) == 1;
    work.splice_size = type == S_IFREG || type == S_IFIFO ? SPLICE_SIZE : SPLICE_PIECE;
    work.copy_size = type == S_IFREG ? BUFFER_SIZE : COPY_PIECE;
    while (step(&work)) {
        continue;
    }
}
