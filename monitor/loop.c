/*
 * loop.c - see loop.h. libevent's clock is not cached and timers have the precision of a
 * timerfd, since a limit may be a millisecond away.
 */
#include "monitor/loop.h"

#include "base/clock.h"
#include "base/error.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

struct sbx_loop {
    struct event_base *base;
};

struct sbx_source {
    struct event *event;
    sbx_callback *callback;
    void *context;
};

/* epoll, timer, and the ends of its pipes, with some to spare. */
#define BASE_DESCRIPTORS 8U

/* Longer timers are cut: they fire early, find that it is not yet time, and are armed
 * anew. */
#define TIMER_MAX_US (30ULL * 24 * 3600 * SBX_US_PER_S)

/* libevent exits the program when it runs out of descriptors while it makes a base: see
 * first whether there are enough. */
static bool has_descriptors(void)
{
    int taken[BASE_DESCRIPTORS];
    size_t count = 0;
    while (count < BASE_DESCRIPTORS) {
        int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
        if (fd < 0) {
            break;
        }
        taken[count++] = fd;
    }
    bool enough = count == BASE_DESCRIPTORS;
    while (count > 0) {
        (void)close(taken[--count]);
    }
    return enough;
}

int sbx_loop_new(struct sbx_loop **ret_loop, struct sbx_error *err)
{
    if (!has_descriptors()) {
        return sbx_error_set(err, EMFILE, SBX_STAGE_LAUNCH,
                             "the event loop cannot be made: too few descriptors "
                             "(RLIMIT_NOFILE)");
    }
    struct sbx_loop *loop = calloc(1, sizeof *loop);
    struct event_config *config = event_config_new();
    if (loop != NULL && config != NULL) {
        (void)event_config_set_flag(
            config, EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_IGNORE_ENV |
                        EVENT_BASE_FLAG_NO_CACHE_TIME | EVENT_BASE_FLAG_PRECISE_TIMER);
        loop->base = event_base_new_with_config(config);
    }
    if (config != NULL) {
        event_config_free(config);
    }
    if (loop == NULL || loop->base == NULL) {
        free(loop);
        return sbx_error_set(err, ENOMEM, SBX_STAGE_LAUNCH,
                             "the event loop cannot be made (memory or descriptors)");
    }
    *ret_loop = loop;
    return 0;
}

void sbx_loop_free(struct sbx_loop *loop)
{
    if (loop != NULL) {
        event_base_free(loop->base);
        free(loop);
    }
}

static void dispatch(evutil_socket_t fd, short what, void *context)
{
    (void)fd;
    (void)what;
    const struct sbx_source *source = context;
    source->callback(source->context);
}

static int add(struct sbx_loop *loop, int fd, short what, const struct sbx_source *form,
               struct sbx_source **ret_source)
{
    struct sbx_source *source = malloc(sizeof *source);
    if (source == NULL) {
        return -ENOMEM;
    }
    *source = *form;
    source->event = event_new(loop->base, fd, what, dispatch, source);
    if (source->event == NULL || (fd >= 0 && event_add(source->event, NULL) < 0)) {
        sbx_source_free(source);
        return -ENOMEM;
    }
    *ret_source = source;
    return 0;
}

int sbx_loop_add_fd(struct sbx_loop *loop, int fd, sbx_callback *callback, void *context,
                    struct sbx_source **ret_source)
{
    struct sbx_source form = {.callback = callback, .context = context};
    return fd < 0 ? -EBADF : add(loop, fd, EV_READ | EV_PERSIST, &form, ret_source);
}

int sbx_loop_add_writer(struct sbx_loop *loop, int fd, sbx_callback *callback,
                        void *context, struct sbx_source **ret_source)
{
    struct sbx_source form = {.callback = callback, .context = context};
    return fd < 0 ? -EBADF : add(loop, fd, EV_WRITE | EV_PERSIST, &form, ret_source);
}

int sbx_loop_add_timer(struct sbx_loop *loop, sbx_callback *callback, void *context,
                       struct sbx_source **ret_source)
{
    struct sbx_source form = {.callback = callback, .context = context};
    return add(loop, -1, 0, &form, ret_source);
}

int sbx_source_arm(struct sbx_source *source, uint64_t at_us)
{
    if (at_us == SBX_FOREVER_US) {
        return event_del(source->event) < 0 ? -EIO : 0;
    }
    uint64_t now = sbx_clock_us();
    uint64_t wait = at_us > now ? at_us - now : 0;
    if (wait > TIMER_MAX_US) {
        wait = TIMER_MAX_US;
    }
    struct timeval timeout = {(time_t)(wait / SBX_US_PER_S),
                              (suseconds_t)(wait % SBX_US_PER_S)};
    return event_add(source->event, &timeout) < 0 ? -ENOMEM : 0;
}

void sbx_source_free(struct sbx_source *source)
{
    if (source == NULL) {
        return;
    }
    if (source->event != NULL) {
        event_free(source->event);
    }
    free(source);
}

int sbx_loop_run(struct sbx_loop *loop)
{
    return event_base_loop(loop->base, EVLOOP_NO_EXIT_ON_EMPTY) < 0 ? -EIO : 0;
}

void sbx_loop_stop(struct sbx_loop *loop)
{
    (void)event_base_loopbreak(loop->base);
}

int sbx_loop_step(struct sbx_loop *loop, bool wait)
{
    int flags = EVLOOP_ONCE | EVLOOP_NO_EXIT_ON_EMPTY | (wait ? 0 : EVLOOP_NONBLOCK);
    return event_base_loop(loop->base, flags) < 0 ? -EIO : 0;
}

struct event_base *sbx_loop_base(struct sbx_loop *loop)
{
    return loop->base;
}
