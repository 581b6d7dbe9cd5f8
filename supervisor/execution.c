/*
 * execution.c - one execution as sbxd knows it, and the conversation with its keeper.
 *
 * A connection that ends says nothing about the run: the keeper may have let go of a slow
 * sbxd, or be dead. So it is looked for again, and only when nobody holds the lock of the
 * place any more, is the execution concluded from what is on file (settle.c).
 */
#include "supervisor/supervisor_private.h"

#include "base/clock.h"
#include "base/fd.h"
#include "reaper/pidref.h"

#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SEEK_FIRST_US UINT64_C(2000)
#define SEEK_LAST_US UINT64_C(500000)
/* A keeper that we cannot talk to is of another version: its end is all there is to see.
 */
#define SEEK_FOREIGN_US UINT64_C(1000000)

static int by_id(const void *left, const void *right)
{
    const struct sbx_execution *a = left;
    const struct sbx_execution *b = right;
    return strcmp(a->facts.id, b->facts.id);
}

struct sbx_execution *sbx_execution_new(struct sbx_supervisor *supervisor,
                                        const struct sbx_facts *facts)
{
    struct sbx_execution *execution = calloc(1, sizeof *execution);
    if (execution == NULL) {
        return NULL;
    }
    execution->supervisor = supervisor;
    execution->facts = *facts;
    execution->directory = -1;
    execution->control = -1;
    execution->seek_us = SBX_FOREVER_US;
    TAILQ_INIT(&execution->waiters);
    if (tsearch(execution, &supervisor->by_id, by_id) == NULL) {
        free(execution);
        return NULL;
    }
    TAILQ_INSERT_TAIL(&supervisor->all, execution, link);
    supervisor->count++;
    return execution;
}

void sbx_execution_free(struct sbx_execution *execution, int code)
{
    struct sbx_supervisor *supervisor = execution->supervisor;
    sbx_execution_disconnect(execution);
    sbx_waiters_finish(execution, code);
    sbx_fd_drop(&execution->directory);
    if (supervisor->shown == execution) {
        supervisor->shown = NULL;
        sbx_fd_drop(&supervisor->shown_directory);
    }
    if (execution->bond == SBX_BOND_SETTLED) {
        TAILQ_REMOVE(&supervisor->settled, execution, settled_link);
        supervisor->settled_count--;
    }
    (void)tdelete(execution, &supervisor->by_id, by_id);
    TAILQ_REMOVE(&supervisor->all, execution, link);
    supervisor->count--;
    free(execution);
}

/* --- looking at one --- */

struct sbx_execution *sbx_supervisor_find(struct sbx_supervisor *supervisor,
                                          const char *id, const struct sbx_peer *peer)
{
    struct sbx_execution wanted;
    size_t length = strlen(id);
    if (length >= sizeof wanted.facts.id) {
        return NULL;
    }
    memcpy(wanted.facts.id, id, length + 1);
    struct sbx_execution **found = tfind(&wanted, &supervisor->by_id, by_id);
    if (found == NULL) {
        return NULL;
    }
    bool may = sbx_peer_is_trusted(peer) || (*found)->facts.uid == peer->uid;
    return may ? *found : NULL;
}

void sbx_supervisor_each(struct sbx_supervisor *supervisor, const struct sbx_peer *peer,
                         sbx_execution_callback *callback, void *context)
{
    struct sbx_execution *execution = TAILQ_FIRST(&supervisor->all);
    while (execution != NULL) {
        struct sbx_execution *next = TAILQ_NEXT(execution, link);
        bool may = sbx_peer_is_trusted(peer) || execution->facts.uid == peer->uid;
        if (may && !callback(execution, context)) {
            return;
        }
        execution = next;
    }
}

const struct sbx_facts *sbx_execution_facts(const struct sbx_execution *execution)
{
    return &execution->facts;
}

enum sbx_execution_status sbx_execution_status(const struct sbx_execution *execution)
{
    return execution->status;
}

uint64_t sbx_execution_finished_us(const struct sbx_execution *execution)
{
    return execution->finished_real_us;
}

/* Results are many, and looked at now and then: of the settled ones only the one that was
 * looked at last has its directory open. */
int sbx_execution_directory(const struct sbx_execution *execution)
{
    struct sbx_supervisor *supervisor = execution->supervisor;
    if (execution->directory >= 0) {
        return execution->directory;
    }
    if (supervisor->shown != execution) {
        struct sbx_place place = {-1, -1};
        struct sbx_facts facts;
        supervisor->shown = NULL;
        sbx_fd_drop(&supervisor->shown_directory);
        int r =
            sbx_state_find(supervisor->state, execution->facts.id, &place, &facts, NULL);
        if (r == 0 || r == -EBADMSG) {
            supervisor->shown_directory = place.directory;
            supervisor->shown = execution;
        }
    }
    return supervisor->shown_directory;
}

/* --- the keeper --- */

void sbx_execution_disconnect(struct sbx_execution *execution)
{
    sbx_source_free(execution->on_control);
    execution->on_control = NULL;
    sbx_fd_drop(&execution->control);
    if (execution->bond == SBX_BOND_CONNECTED) {
        execution->bond = SBX_BOND_SEEKING;
    }
}

void sbx_execution_plan_seek(struct sbx_supervisor *supervisor)
{
    const struct sbx_execution *execution = NULL;
    uint64_t first = SBX_FOREVER_US;
    TAILQ_FOREACH(execution, &supervisor->all, link)
    {
        first = execution->seek_us < first ? execution->seek_us : first;
    }
    (void)sbx_source_arm(supervisor->on_seek, first);
}

static void seek_after(struct sbx_execution *execution, uint64_t delay_us)
{
    execution->seek_delay_us = delay_us;
    execution->seek_us = sbx_clock_us() + delay_us;
    sbx_execution_plan_seek(execution->supervisor);
}

static void seek_later(struct sbx_execution *execution)
{
    uint64_t delay = execution->seek_delay_us;
    delay = delay == 0 ? SEEK_FIRST_US : 2 * delay;
    seek_after(execution, delay < SEEK_LAST_US ? delay : SEEK_LAST_US);
}

/* What must not be lost, to a keeper that has not taken what we sent before: again later.
 * A broken connection is seen by on_control. */
static void tell(struct sbx_execution *execution, const struct sbx_control *order)
{
    if (sbx_control_send(execution->control, order, -1) == -EAGAIN) {
        execution->seek_us = sbx_clock_us() + SEEK_LAST_US;
        sbx_execution_plan_seek(execution->supervisor);
    }
}

/* What is behind now, or comes later, is told once. */
void sbx_execution_watch(struct sbx_execution *execution)
{
    struct sbx_control order = {.kind = SBX_CONTROL_WATCH};
    if (execution->bond == SBX_BOND_CONNECTED &&
        sbx_waiters_marks(execution, &order.marks)) {
        execution->watched = order.marks;
        tell(execution, &order);
    }
}

/* Whether that process executes our keeper. */
static bool is_keeper(const struct sbx_supervisor *supervisor, pid_t pid)
{
    char link[32];
    char path[PATH_MAX];
    (void)snprintf(link, sizeof link, "/proc/%d/exe", (int)pid);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    return strcmp(path, supervisor->keeper_program) == 0;
}

/* A command may have stopped its keeper, and guard and monitor as well: then none of them
 * continues another. The pid is from a file that the command may have written to: who has
 * it is held by a pidfd first, and only a keeper is continued. */
static void continue_keeper(const struct sbx_execution *execution)
{
    struct sbx_page page;
    if (!sbx_place_is_held(execution->directory) ||
        sbx_page_read(execution->directory, &page) < 0 || page.keeper_pid <= 1) {
        return;
    }
    SBX_AUTO_CLOSE int pidfd = sbx_pidfd_open(page.keeper_pid);
    if (pidfd >= 0 && is_keeper(execution->supervisor, page.keeper_pid)) {
        (void)sbx_pidfd_signal(pidfd, SIGCONT);
    }
}

static void send_cancel(struct sbx_execution *execution)
{
    const struct sbx_control order = {.kind = SBX_CONTROL_CANCEL};
    if (execution->bond == SBX_BOND_CONNECTED && execution->cancelled) {
        tell(execution, &order);
    }
}

void sbx_execution_cancel(struct sbx_execution *execution)
{
    execution->cancelled = true;
    send_cancel(execution);
    continue_keeper(execution);
}

static void take_answer(struct sbx_execution *execution,
                        const struct sbx_control *message)
{
    struct sbx_waiter *waiter = TAILQ_FIRST(&execution->waiters);
    while (waiter != NULL &&
           (waiter->kind != SBX_WAITER_ORDER || waiter->ticket != message->ticket)) {
        waiter = TAILQ_NEXT(waiter, link);
    }
    if (waiter != NULL) {
        sbx_waiter_finish(waiter, (int)message->value);
    }
}

/* Whether the page says how it has ended. What is there in part alone was not written by
 * a keeper, but by a command of our own user: that is believed when nobody holds the lock
 * any more. */
static bool tells_end(const struct sbx_page *page, bool held)
{
    return atomic_load(&page->phase) == SBX_PHASE_FINISHED &&
           (!held || (atomic_load(&page->status) != SBX_EXECUTION_RUNNING &&
                      atomic_load(&page->finished_real_us) != 0));
}

/* Whether all of it is on file; then it was settled. */
static bool settle_if_finished(struct sbx_execution *execution)
{
    struct sbx_page page;
    bool held = sbx_place_is_held(execution->directory);
    bool finished =
        sbx_page_read(execution->directory, &page) == 0 && tells_end(&page, held);
    if (finished) {
        sbx_execution_settle(execution, &page);
    }
    return finished;
}

/* The connection is over: whether the run is, is to be seen. */
static void lose_keeper(struct sbx_execution *execution, bool told)
{
    bool lasted =
        execution->greeted && sbx_clock_us() - execution->connected_us >= SEEK_LAST_US;
    sbx_execution_disconnect(execution);
    /* A keeper answers what it takes before it says that all is over: what it has not
     * answered by then came too late (ESRCH). Else nobody knows whether it was done. */
    if (told) {
        sbx_waiters_finish_orders(execution, ESRCH);
    }
    if (settle_if_finished(execution)) {
        return;
    }
    sbx_waiters_finish_orders(execution, ETIMEDOUT);
    /* Whoever takes connections and closes them, whatever is said, is to be asked ever
     * more seldom: it may be the command itself. */
    execution->seek_delay_us = lasted ? 0 : execution->seek_delay_us;
    seek_later(execution);
}

/* News that the files do not show, and that were asked for with the same marks, would
 * come again at once, and so on: the command has damaged the files. Who waits is done by
 * its deadline then, or by the end. */
static void take_news(struct sbx_execution *execution)
{
    struct sbx_control_marks marks;
    if (sbx_waiters_look(execution) ||
        (sbx_waiters_marks(execution, &marks) &&
         memcmp(&marks, &execution->watched, sizeof marks) != 0)) {
        sbx_execution_watch(execution);
    }
}

/* False: there is nothing more to be taken from it now. */
static bool take_message(struct sbx_execution *execution,
                         const struct sbx_control *message)
{
    switch ((enum sbx_control_kind)message->kind) {
    case SBX_CONTROL_HELLO:
        if (message->value != SBX_CONTROL_PROTOCOL) {
            sbx_execution_disconnect(execution);
            seek_after(execution, SEEK_FOREIGN_US);
            return false;
        }
        execution->greeted = true;
        return true;
    case SBX_CONTROL_ANSWER:
        take_answer(execution, message);
        return true;
    case SBX_CONTROL_NEWS:
        take_news(execution);
        return true;
    case SBX_CONTROL_FINISHED:
        lose_keeper(execution, true);
        return false;
    case SBX_CONTROL_CANCEL:
    case SBX_CONTROL_SIGNAL:
    case SBX_CONTROL_PAUSE:
    case SBX_CONTROL_RESUME:
    case SBX_CONTROL_STDIN:
    case SBX_CONTROL_WATCH:
    case SBX_CONTROL_TAKEN:
        break;
    }
    return true;
}

#define MESSAGES_AT_ONCE 64

static void on_control(void *context)
{
    struct sbx_execution *execution = context;
    struct sbx_control message;
    for (int i = 0; i < MESSAGES_AT_ONCE; i++) {
        int r = sbx_control_receive(execution->control, &message, NULL);
        if (r < 0) {
            lose_keeper(execution, false);
            return;
        }
        if (r == 0 || !take_message(execution, &message)) {
            return;
        }
    }
}

int sbx_execution_connect(struct sbx_execution *execution, int control_take)
{
    SBX_AUTO_CLOSE int control = control_take;
    int r = sbx_loop_add_fd(execution->supervisor->loop, control, on_control, execution,
                            &execution->on_control);
    if (r < 0) {
        return r;
    }
    execution->control = sbx_fd_steal(&control);
    execution->bond = SBX_BOND_CONNECTED;
    execution->greeted = false;
    execution->connected_us = sbx_clock_us();
    execution->seek_us = SBX_FOREVER_US;
    send_cancel(execution);
    sbx_execution_watch(execution);
    return 0;
}

/* Whether its keeper is there and talks to us now. */
static bool reach_keeper(struct sbx_execution *execution)
{
    int control = sbx_control_connect(execution->directory);
    if (control < 0 || sbx_execution_connect(execution, control) < 0) {
        return false;
    }
    if (execution->adopted) {
        execution->adopted = false;
        execution->supervisor->stats.adopted_total++;
    }
    return true;
}

/* The order matters: a page is read after the lock was found free, or it could be from
 * before the end. A command of our own user can take the lock's file away: then nobody is
 * there only if no keeper answers either. */
void sbx_execution_seek(struct sbx_execution *execution)
{
    struct sbx_page page = {.magic = 0};
    execution->seek_us = SBX_FOREVER_US;
    if (execution->bond == SBX_BOND_CONNECTED) {
        send_cancel(execution);
        sbx_execution_watch(execution);
        return;
    }
    bool free_lock = sbx_place_is_free(execution->directory);
    bool held = !free_lock && sbx_place_is_held(execution->directory);
    int r = sbx_page_read(execution->directory, &page);
    bool known = r == 0 || r == -ENOENT || r == -EBADMSG;
    if (r == 0 && tells_end(&page, held)) {
        sbx_execution_settle(execution, &page);
    } else if (free_lock && known) {
        sbx_execution_conclude(execution, &page);
    } else if (!reach_keeper(execution)) {
        if (!held && known) {
            sbx_execution_conclude(execution, &page);
        } else {
            seek_later(execution);
        }
    }
}

/* --- orders --- */

/* Why no order can be given: it is over, and we have not heard of it yet, or nobody is
 * reached just now. */
static int why_unreached(const struct sbx_execution *execution)
{
    struct sbx_page page;
    bool over = sbx_page_read(execution->directory, &page) == 0 && tells_end(&page, true);
    return over ? ESRCH : EAGAIN;
}

/* 0 or an errno. */
static int send_order(const struct sbx_execution *execution,
                      const struct sbx_control *order, int fd)
{
    int r = sbx_control_send(execution->control, order, fd);
    return r == -EPIPE ? why_unreached(execution) : -r;
}

struct sbx_waiter *sbx_execution_order(struct sbx_execution *execution,
                                       const struct sbx_control *order,
                                       sbx_done_callback *done, void *context)
{
    struct sbx_waiter *waiter =
        sbx_waiter_new(execution, SBX_WAITER_ORDER, done, context);
    if (waiter == NULL) {
        return NULL;
    }
    if (execution->bond == SBX_BOND_SETTLED) {
        sbx_waiter_finish(waiter, ESRCH);
    } else if (order->kind == SBX_CONTROL_CANCEL) {
        sbx_execution_cancel(execution);
        sbx_waiter_finish(waiter, 0);
    } else if (execution->bond != SBX_BOND_CONNECTED) {
        sbx_waiter_finish(waiter, why_unreached(execution));
    } else {
        struct sbx_control numbered = *order;
        numbered.ticket = ++execution->last_ticket;
        waiter->ticket = numbered.ticket;
        int code = send_order(execution, &numbered, -1);
        if (code != 0) {
            sbx_waiter_finish(waiter, code);
        }
    }
    return waiter;
}

/* The bytes as a file in memory, or a negative errno. */
static int wrap(const char *data, size_t length)
{
    SBX_AUTO_CLOSE int fd = memfd_create("sbx-stdin", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : sbx_fd_write_all(fd, data, length);
    return r < 0 ? r : sbx_fd_steal(&fd);
}

/* NOLINTNEXTLINE(readability-function-size): data and a callback are two each */
struct sbx_waiter *sbx_execution_write_stdin(struct sbx_execution *execution,
                                             const char *data, size_t length, bool closes,
                                             sbx_done_callback *done, void *context)
{
    struct sbx_control order = {.kind = SBX_CONTROL_STDIN, .value = closes ? 1U : 0U};
    struct sbx_waiter *waiter =
        sbx_waiter_new(execution, SBX_WAITER_ORDER, done, context);
    SBX_AUTO_CLOSE int fd = -1;
    if (waiter == NULL) {
        return NULL;
    }
    int code = execution->bond == SBX_BOND_SETTLED     ? ESRCH
               : execution->bond != SBX_BOND_CONNECTED ? why_unreached(execution)
               : length > SBX_STDIN_MAX                ? EAGAIN
                                                       : 0;
    if (code == 0 && length <= SBX_CONTROL_DATA_MAX) {
        if (length > 0) {
            memcpy(order.data, data, length);
        }
        order.length = (uint32_t)length;
    } else if (code == 0) {
        fd = wrap(data, length);
        code = fd < 0 ? -fd : 0;
    }
    if (code == 0) {
        order.ticket = ++execution->last_ticket;
        waiter->ticket = order.ticket;
        code = send_order(execution, &order, fd);
    }
    if (code != 0) {
        sbx_waiter_finish(waiter, code);
    }
    return waiter;
}

void sbx_execution_taken(struct sbx_execution *execution, int stream, uint64_t offset)
{
    const struct sbx_control order = {
        .kind = SBX_CONTROL_TAKEN, .stream = (uint32_t)stream, .value = offset};
    if (execution->bond == SBX_BOND_CONNECTED && execution->facts.pause_when_full) {
        (void)sbx_control_send(execution->control, &order, -1);
    }
}
