/*
 * log_servant.c - the servant that writes lines and rows (see logger.h). It takes every
 * message at once, and each sink goes at its own pace: the last RING lines are there for
 * all of them, and one that is further behind loses the oldest. So a sink that takes
 * nothing holds up no other one. Ends when it is told to and all is written, when its
 * time is over, or a bounded time after guard and monitor are gone.
 */
#include "monitor/logger.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define RING 64U
/* A sink that takes nothing now is asked again after that. */
#define AGAIN_US 20000U
#define KEPT_MAX (SBX_LOG_SINK_MAX + 6U)

struct server {
    struct sbx_logger *logger;
    struct sbx_log_area *area;
    int socket; /* -1: nobody is left who could tell us anything */
    uint64_t until_us;
    size_t sink_count;
    struct sbx_log_sink sinks[SBX_LOG_SINK_MAX];
    uint64_t next[SBX_LOG_SINK_MAX]; /* which line each of them gets next */
    uint64_t lines;                  /* how many there were */
    struct sbx_log_line ring[RING];
    bool has_timeline;
    struct sbx_timeline timeline;
};

/* --- what it does not need --- */

static int compare(const void *a, const void *b)
{
    int left = *(const int *)a;
    int right = *(const int *)b;
    return (left > right) - (left < right);
}

/* Else what the run reads or hands on would not end where it should. */
static void close_others(const struct sbx_log_service *service)
{
    int kept[KEPT_MAX];
    size_t count = 0;
    const struct sbx_logger *logger = service->logger;
    kept[count++] = service->socket;
    for (size_t i = 0; i < logger->sink_count; i++) {
        const struct sbx_log_file *file = &logger->sinks[i].file;
        kept[count++] = file->fd >= 0 ? file->fd : file->node;
    }
    kept[count++] = logger->timeline.file.fd;
    kept[count++] = logger->timeline.file.node;
    kept[count++] = logger->timeline.directory;
    qsort(kept, count, sizeof kept[0], compare);
    int from = 3;
    for (size_t i = 0; i < count; i++) {
        if (kept[i] > from) {
            (void)close_range((unsigned)from, (unsigned)kept[i] - 1, 0);
        }
        from = kept[i] >= from ? kept[i] + 1 : from;
    }
    (void)close_range((unsigned)from, ~0U, 0);
}

static void leave_streams(const struct sbx_logger *logger)
{
    SBX_AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) {
        return;
    }
    (void)dup2(null, STDIN_FILENO);
    (void)dup2(null, STDOUT_FILENO);
    if (!sbx_logger_has_stderr(logger)) {
        (void)dup2(null, STDERR_FILENO);
    }
}

/* --- writing --- */

static bool feed_sink(struct server *server, size_t index)
{
    struct sbx_log_told *told = &server->area->sinks[index];
    uint64_t *next = &server->next[index];
    if (server->lines - *next > RING) {
        sbx_log_fault(told, ENOBUFS);
        *next = server->lines - RING;
        server->sinks[index].done = 0;
    }
    while (*next < server->lines) {
        int r = sbx_log_sink_put(&server->sinks[index], &server->logger->identity,
                                 &server->ring[*next % RING]);
        if (r == -EAGAIN || r == -ENXIO) {
            if (r == -ENXIO) {
                sbx_log_fault(told, ENXIO);
            }
            return false;
        }
        if (r < 0) {
            sbx_log_fault(told, -r);
        } else {
            atomic_fetch_add(&told->written, 1);
        }
        (*next)++;
    }
    return true;
}

/* True: every sink has every line. */
static bool feed_sinks(struct server *server)
{
    bool all = true;
    for (size_t i = 0; i < server->sink_count; i++) {
        all = feed_sink(server, i) && all;
    }
    return all;
}

static void take(struct server *server, const struct sbx_log_message *message)
{
    switch (message->kind) {
    case SBX_LOG_TELL:
        server->ring[server->lines++ % RING] = message->is.line;
        (void)feed_sinks(server);
        break;
    case SBX_LOG_ROW:
        if (server->has_timeline) {
            sbx_timeline_add(&server->timeline, &message->is.row, sbx_clock_us());
        }
        break;
    case SBX_LOG_END:
        server->until_us = message->is.until_us;
        break;
    }
}

/* Whatever is there. */
static void receive(struct server *server)
{
    struct sbx_log_message message;
    for (;;) {
        ssize_t length = recv(server->socket, &message, sizeof message, MSG_DONTWAIT);
        if (length < 0 && errno == EINTR) {
            continue;
        }
        if (length < 0 && errno == EAGAIN) {
            return;
        }
        if (length <= 0) {
            server->socket = -1;
            if (server->until_us == SBX_FOREVER_US) {
                server->until_us = sbx_clock_us() + SBX_LOGGER_BOUND_US;
            }
            return;
        }
        take(server, &message);
        if (server->has_timeline && server->timeline.due_us == 0) {
            (void)sbx_timeline_flush(&server->timeline);
        }
    }
}

/* Writes what is due; at the end all. Returns whether nothing is left to write, and in
 * *due_us when to look again. */
static bool write_out(struct server *server, bool ending, uint64_t *due_us)
{
    uint64_t now_us = sbx_clock_us();
    bool all = feed_sinks(server);
    *due_us = all ? SBX_FOREVER_US : now_us + AGAIN_US;
    if (!server->has_timeline) {
        return all;
    }
    struct sbx_timeline *timeline = &server->timeline;
    bool due = ending || now_us >= timeline->due_us;
    /* What has been given up is not waited for: not even the end of a torn row, which
     * stays for the case that there is room again. */
    bool settled = due && sbx_timeline_flush(timeline);
    if (due && !settled) {
        *due_us = now_us + AGAIN_US;
    } else if (timeline->due_us < *due_us) {
        *due_us = timeline->due_us;
    }
    return all && settled;
}

static void wait_until(const struct server *server, uint64_t due_us)
{
    uint64_t now_us = sbx_clock_us();
    uint64_t until_us = due_us < server->until_us ? due_us : server->until_us;
    int patience = -1;
    if (until_us != SBX_FOREVER_US) {
        patience = until_us > now_us ? (int)((until_us - now_us) / 1000U) + 1 : 0;
    }
    struct pollfd entry = {.fd = server->socket, .events = POLLIN};
    (void)poll(&entry, 1, patience);
}

static void serve(struct server *server)
{
    for (;;) {
        uint64_t due_us = SBX_FOREVER_US;
        if (server->socket >= 0) {
            receive(server);
        }
        bool ending = server->until_us != SBX_FOREVER_US;
        bool all = write_out(server, ending, &due_us);
        if (ending && (all || sbx_clock_us() >= server->until_us)) {
            return;
        }
        wait_until(server, due_us);
    }
}

static void prepare(struct server *server, const struct sbx_log_service *service)
{
    struct sbx_logger *logger = service->logger;
    server->logger = logger;
    server->area = logger->area;
    server->socket = service->socket;
    server->until_us = SBX_FOREVER_US;
    for (size_t i = 0; i < logger->sink_count; i++) {
        struct sbx_logger_sink *sink = &logger->sinks[i];
        sbx_log_sink_init(&server->sinks[i], sink->target.kind, sink->file);
        server->sinks[i].form = (enum sbx_log_form)logger->plan->form;
        server->sinks[i].pid = service->guard;
    }
    server->sink_count = logger->sink_count;
    server->has_timeline = logger->has_timeline && !logger->refused;
    if (server->has_timeline) {
        bool begun = atomic_exchange(&server->area->timeline_begun, true);
        sbx_timeline_begin(&server->timeline, &logger->timeline, &server->area->timeline,
                           service->bound, !begun);
    }
}

void sbx_log_serve(void *context)
{
    const struct sbx_log_service *service = context;
    sigset_t all;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    close_others(service);
    leave_streams(service->logger);
    struct server *server = calloc(1, sizeof *server);
    if (server == NULL) {
        return; /* every message will count as lost */
    }
    prepare(server, service);
    serve(server);
    for (size_t i = 0; i < server->sink_count; i++) {
        sbx_log_sink_done(&server->sinks[i]);
    }
    free(server);
}
