/*
 * pair.c - see guard.h: how guard and monitor talk, and the monitor's last step: it stays
 * until the result is published, by whoever of the two is left.
 */
#include "reaper/guard.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

/* How long a guard may take to publish before we look whether it was stopped. */
#define GUARD_ANSWERS_US (2U * SBX_US_PER_S)

/* --- messages --- */

void sbx_pair_send(int socket, enum sbx_pair_message_kind kind, int value)
{
    struct sbx_pair_message message = {.kind = (int32_t)kind, .value = value};
    while (send(socket, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
           errno == EINTR) {
        continue;
    }
}

int sbx_pair_receive(int socket, struct sbx_pair_message *ret_message)
{
    struct sbx_pair_message message;
    ssize_t length;
    do {
        length = recv(socket, &message, sizeof message, MSG_DONTWAIT);
    } while (length < 0 && errno == EINTR);
    if (length < 0) {
        return errno == EAGAIN ? 0 : -EPIPE;
    }
    if ((size_t)length != sizeof message) {
        return -EPIPE;
    }
    *ret_message = message;
    return 1;
}

/* --- the monitor's last step --- */

bool sbx_pair_claim(struct sbx_pair *pair)
{
    int none = SBX_PUBLISH_NONE;
    return atomic_compare_exchange_strong(&pair->publish, &none, SBX_PUBLISH_CLAIMED);
}

void sbx_pair_publish(struct sbx_pair *pair, void (*publish)(void *), void *context)
{
    publish(context);
    atomic_store(&pair->publish, SBX_PUBLISH_DONE);
}

void sbx_pair_finish(const struct sbx_pair_link *link, void (*publish)(void *context),
                     void *context)
{
    struct sbx_pair *pair = link->pair;
    atomic_store(&pair->phase, SBX_PAIR_FINISHED);
    sbx_pair_send(link->socket, SBX_MESSAGE_FINISHED, 0);
    bool continued = false;
    int socket = link->socket;
    while (atomic_load(&pair->publish) != SBX_PUBLISH_DONE) {
        struct pollfd both[] = {{.fd = link->guard_pidfd, .events = POLLIN},
                                {.fd = socket, .events = POLLIN}};
        int ready = poll(both, 2, (int)(GUARD_ANSWERS_US / 1000U));
        if (ready > 0 && (both[0].revents != 0)) {
            /* Whatever it had begun, it has not finished: a report is replaced as a
             * whole. */
            if (atomic_load(&pair->publish) != SBX_PUBLISH_DONE) {
                sbx_pair_publish(pair, publish, context);
            }
            return;
        }
        struct sbx_pair_message message;
        if (ready != 0) { /* nothing that it may say matters any more */
            socket = sbx_pair_receive(socket, &message) < 0 ? -1 : socket;
            continue;
        }
        /* A guard that somebody has stopped: wake it. It is our parent and there, so its
         * pid is its own. */
        if (continued && sbx_pair_claim(pair)) {
            sbx_pair_publish(pair, publish, context);
        } else if (getppid() == link->guard_pid) {
            (void)kill(link->guard_pid, SIGCONT);
        }
        continued = true;
    }
}
