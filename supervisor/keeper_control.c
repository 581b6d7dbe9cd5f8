/*
 * keeper_control.c - the keeper's end of the conversation with sbxd. Whoever is there is
 * answered without waiting; one that takes nothing is let go, and may connect again.
 */
#include "supervisor/keeper_private.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* An order of a peer is carried out only so often before the others have their turn. */
#define ORDERS_AT_ONCE 64
#define AGAIN_US 20000

static void let_go(struct sbx_keeper_peer *peer)
{
    sbx_source_free(peer->source);
    peer->source = NULL;
    sbx_fd_drop(&peer->socket);
    peer->watches = false;
}

static void say(struct sbx_keeper_peer *peer, enum sbx_control_kind kind, uint32_t ticket,
                uint64_t value)
{
    struct sbx_control message;
    message.kind = kind;
    message.ticket = ticket;
    message.value = value;
    message.stream = 0;
    message.length = 0;
    message.marks = (struct sbx_control_marks){0, {0, 0}};
    if (peer->socket >= 0 && sbx_control_send(peer->socket, &message, -1) < 0) {
        let_go(peer);
    }
}

/* --- news --- */

static bool is_behind(const struct sbx_keeper *keeper,
                      const struct sbx_control_marks *marks)
{
    if (sbx_journal_latest(keeper->journal) > marks->sequence) {
        return true;
    }
    for (int i = 0; i < 2; i++) {
        const struct sbx_keeper_output *output = &keeper->outputs[i];
        bool wanted = marks->output[i] != UINT64_MAX;
        if (wanted &&
            (sbx_stream_total(output->writer) > marks->output[i] || output->pipe < 0)) {
            return true;
        }
    }
    return false;
}

static void look_at_watch(struct sbx_keeper_peer *peer)
{
    if (peer->watches && is_behind(peer->keeper, &peer->marks)) {
        peer->watches = false;
        say(peer, SBX_CONTROL_NEWS, 0, 0);
    }
}

void sbx_keeper_tell_news(struct sbx_keeper *keeper)
{
    for (size_t i = 0; i < SBX_KEEPER_PEERS; i++) {
        look_at_watch(&keeper->peers[i]);
    }
}

void sbx_keeper_tell_finished(struct sbx_keeper *keeper)
{
    for (size_t i = 0; i < SBX_KEEPER_PEERS; i++) {
        say(&keeper->peers[i], SBX_CONTROL_FINISHED, 0, 0);
    }
}

/* --- orders --- */

/* Idempotent: a second request to the run would skip the grace. What a run that is full
 * of orders does not take now it is asked for again, until it takes it. */
static void cancel(void *context)
{
    struct sbx_keeper *keeper = context;
    if (!keeper->cancelled && sbx_run_cancel(keeper->run) == -EAGAIN) {
        (void)sbx_source_arm(keeper->on_cancel, sbx_clock_us() + AGAIN_US);
        return;
    }
    keeper->cancelled = true;
}

static int pause_run(struct sbx_keeper *keeper, bool pauses)
{
    int r = pauses ? sbx_run_pause(keeper->run) : sbx_run_resume(keeper->run);
    if (r == 0) {
        atomic_store(&keeper->page->paused, pauses ? 1U : 0U);
    }
    return -r;
}

/* What did not fit into the record lies in a file in memory. */
static int feed(struct sbx_keeper *keeper, const struct sbx_control *order, int fd)
{
    bool closes = (order->value & 1U) != 0;
    if (fd < 0) {
        return sbx_keeper_feed(keeper, order->data, order->length, closes);
    }
    off_t size = lseek(fd, 0, SEEK_END);
    if (size < 0 || (uint64_t)size > SBX_STDIN_MAX) {
        return EINVAL;
    }
    SBX_AUTO_FREE char *data = malloc((size_t)size + 1);
    if (data == NULL) {
        return ENOMEM;
    }
    ssize_t length = pread(fd, data, (size_t)size, 0);
    return length == size ? sbx_keeper_feed(keeper, data, (size_t)size, closes) : EIO;
}

/* 0 or an errno. */
static int obey(struct sbx_keeper *keeper, const struct sbx_control *order, int fd)
{
    if (keeper->run == NULL) {
        return ESRCH;
    }
    switch ((enum sbx_control_kind)order->kind) {
    case SBX_CONTROL_CANCEL:
        cancel(keeper);
        return 0;
    case SBX_CONTROL_SIGNAL:
        return order->value <= 64 ? -sbx_run_signal(keeper->run, (int)order->value)
                                  : EINVAL;
    case SBX_CONTROL_PAUSE:
        return pause_run(keeper, true);
    case SBX_CONTROL_RESUME:
        return pause_run(keeper, false);
    case SBX_CONTROL_STDIN:
        return feed(keeper, order, fd);
    case SBX_CONTROL_WATCH:
    case SBX_CONTROL_TAKEN:
    case SBX_CONTROL_HELLO:
    case SBX_CONTROL_ANSWER:
    case SBX_CONTROL_NEWS:
    case SBX_CONTROL_FINISHED:
        break;
    }
    return EINVAL;
}

static void take_order(struct sbx_keeper_peer *peer, const struct sbx_control *order,
                       int fd)
{
    if (order->kind == SBX_CONTROL_WATCH) {
        peer->marks = order->marks;
        peer->watches = true;
        look_at_watch(peer);
    } else if (order->kind == SBX_CONTROL_TAKEN) {
        sbx_keeper_output_taken(peer->keeper, order->stream, order->value);
    } else {
        say(peer, SBX_CONTROL_ANSWER, order->ticket,
            (uint64_t)obey(peer->keeper, order, fd));
    }
}

static void on_peer(void *context)
{
    struct sbx_keeper_peer *peer = context;
    struct sbx_control order;
    for (int i = 0; i < ORDERS_AT_ONCE && peer->socket >= 0; i++) {
        int fd = -1;
        int r = sbx_control_receive(peer->socket, &order, &fd);
        if (r == 1) {
            take_order(peer, &order, fd);
            sbx_fd_drop(&fd);
        } else {
            if (r < 0) {
                let_go(peer);
            }
            return;
        }
    }
}

/* --- peers --- */

/* Takes the socket. */
static int welcome(struct sbx_keeper *keeper, int socket_take)
{
    SBX_AUTO_CLOSE int socket = socket_take;
    for (size_t i = 0; i < SBX_KEEPER_PEERS; i++) {
        struct sbx_keeper_peer *peer = &keeper->peers[i];
        if (peer->socket >= 0) {
            continue;
        }
        int r = sbx_loop_add_fd(keeper->loop, socket, on_peer, peer, &peer->source);
        if (r < 0) {
            return r;
        }
        peer->socket = sbx_fd_steal(&socket);
        say(peer, SBX_CONTROL_HELLO, 0, SBX_CONTROL_PROTOCOL);
        return 0;
    }
    return -EMFILE;
}

static void on_listener(void *context)
{
    struct sbx_keeper *keeper = context;
    int socket = sbx_control_accept(keeper->listener);
    if (socket >= 0) {
        (void)welcome(keeper, socket);
    }
}

int sbx_keeper_open_control(struct sbx_keeper *keeper, int first, struct sbx_error *err)
{
    int r = welcome(keeper, first);
    if (r == 0) {
        keeper->listener = sbx_control_listen(keeper->directory);
        r = keeper->listener < 0 ? keeper->listener : 0;
    }
    if (r == 0) {
        r = sbx_loop_add_fd(keeper->loop, keeper->listener, on_listener, keeper,
                            &keeper->on_listener);
    }
    if (r == 0) {
        r = sbx_loop_add_timer(keeper->loop, cancel, keeper, &keeper->on_cancel);
    }
    return r == 0 ? 0
                  : sbx_error_set(err, -r, SBX_STAGE_LAUNCH, "control socket: %s",
                                  sbx_errno_text(-r).text);
}

void sbx_keeper_close_control(struct sbx_keeper *keeper)
{
    sbx_source_free(keeper->on_listener);
    keeper->on_listener = NULL;
    sbx_source_free(keeper->on_cancel);
    keeper->on_cancel = NULL;
    sbx_fd_drop(&keeper->listener);
    for (size_t i = 0; i < SBX_KEEPER_PEERS; i++) {
        let_go(&keeper->peers[i]);
    }
}
