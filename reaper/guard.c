/*
 * guard.c - see guard.h. One poll loop over a signalfd, the socket to the monitor and the
 * pidfds of those it is bound to. Uses no event library: the guard has to stay small.
 * Job control is in guard_job.c, a monitor that does not get on in guard_care.c. Every
 * wait that follows the monitor's end is bounded.
 */
#include "reaper/guard_private.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "reaper/pidref.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* How long a monitor that was told to go may take. */
#define MONITOR_LEAVES_US (2U * SBX_US_PER_S)
/* How long a sample that is asked for may take; then the last one has to do. */
#define USAGE_ANSWER_US 500000U

enum { POLL_SIGNALS, POLL_SOCKET, POLL_CALLER, POLL_FRONT, POLL_CONTROL, POLL_COUNT };

/* --- usage on demand --- */

/* However many ask at once: one answer. */
static void ask_for_usage(struct sbx_guard *guard)
{
    if (guard->hooks->usage != NULL && guard->usage_due_us == 0) {
        guard->usage_due_us = sbx_clock_us() + USAGE_ANSWER_US;
        sbx_pair_send(guard->socket, SBX_MESSAGE_USAGE, 0);
    }
}

static void tell_usage(struct sbx_guard *guard)
{
    if (guard->usage_due_us != 0) {
        guard->usage_due_us = 0;
        guard->hooks->usage(guard->hooks->context);
    }
}

static void tell_overdue_usage(struct sbx_guard *guard)
{
    if (guard->usage_due_us != 0 && sbx_clock_us() >= guard->usage_due_us) {
        tell_usage(guard);
    }
}

/* --- what the monitor says --- */

static void tell_start(struct sbx_guard *guard)
{
    if (guard->hooks->started != NULL && !guard->hooks->started(guard->hooks->context)) {
        sbx_pair_send(guard->socket, SBX_MESSAGE_CANCEL, SIGHUP);
    }
}

static void take_messages(struct sbx_guard *guard)
{
    struct sbx_pair_message message;
    while (sbx_pair_receive(guard->socket, &message) == 1) {
        if (message.kind == SBX_MESSAGE_FINISHED) {
            guard->finished = true;
        } else if (message.kind == SBX_MESSAGE_STOPPED) {
            guard->stops++;
            sbx_guard_stop_with_leader(guard, message.value);
        } else if (message.kind == SBX_MESSAGE_READER_HUNG) {
            sbx_reader_replace(&guard->reader);
        } else if (message.kind == SBX_MESSAGE_STARTED) {
            tell_start(guard);
        } else if (message.kind == SBX_MESSAGE_USAGE) {
            tell_usage(guard);
        } else if (message.kind == SBX_MESSAGE_NEWS && guard->hooks->news != NULL) {
            guard->hooks->news(message.value, guard->hooks->context);
        }
    }
}

static void obey(struct sbx_guard *guard, int signal_number)
{
    switch (signal_number) {
    case SIGINT:
    case SIGTERM:
    case SIGHUP:
    case SIGQUIT:
        if (sigismember(&guard->inherited_ignored, signal_number) != 1) {
            sbx_pair_send(guard->socket, SBX_MESSAGE_CANCEL, signal_number);
        }
        break;
    case SIGTSTP:
        /* We stop when the command has stopped; it may have other ideas. */
        if (guard->terminal.fd >= 0) {
            sbx_pair_send(guard->socket, SBX_MESSAGE_PASS, SIGTSTP);
        }
        break;
    case SIGCONT:
        sbx_guard_go_on(guard);
        break;
    case SIGUSR1:
        ask_for_usage(guard);
        break;
    case SIGUSR2:
    case SIGWINCH:
        sbx_pair_send(guard->socket, SBX_MESSAGE_PASS, signal_number);
        break;
    default:
        break;
    }
}

/* Whether the terminal has sent it to a foreground group that the command shares with us:
 * it has it already. A hangup goes to the session's leader alone. */
static bool command_has(const struct sbx_guard *guard,
                        const struct signalfd_siginfo *info)
{
    int signal_number = (int)info->ssi_signo;
    return guard->terminal.shared && info->ssi_code == SI_KERNEL &&
           (signal_number == SIGINT || signal_number == SIGQUIT ||
            signal_number == SIGTSTP || signal_number == SIGWINCH);
}

static void take_signals(struct sbx_guard *guard)
{
    struct signalfd_siginfo info;
    while (read(guard->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if ((int)info.ssi_signo == SIGCHLD) {
            sbx_guard_look_at_monitor(guard);
        } else if (guard->below_front && info.ssi_code != SI_KERNEL) {
            continue; /* sent to the whole group: the front passes it on */
        } else if (!command_has(guard, &info)) {
            obey(guard, (int)info.ssi_signo);
        }
    }
}

static void lose(struct sbx_guard *guard, int *fd, enum sbx_pair_message_kind kind)
{
    sbx_fd_drop(fd);
    sbx_pair_send(guard->socket, kind, 0);
}

static void take_from_front(struct sbx_guard *guard)
{
    struct sbx_pair_message message;
    int r;
    while ((r = sbx_pair_receive(guard->bonds.front_socket, &message)) == 1) {
        obey(guard, message.value);
    }
    if (r < 0) {
        lose(guard, &guard->bonds.front_socket, SBX_MESSAGE_FRONT_LOST);
    }
}

/* Orders are passed on, and what does not fit would be lost: they wait where they are,
 * and whoever sends more is told that there is no room. */
static bool may_take_orders(const struct sbx_guard *guard)
{
    struct pollfd monitor = {.fd = guard->socket, .events = POLLOUT};
    return guard->socket < 0 || poll(&monitor, 1, 0) != 0;
}

static void take_orders(struct sbx_guard *guard)
{
    struct sbx_pair_message message;
    int r = 0;
    while (may_take_orders(guard) &&
           (r = sbx_pair_receive(guard->bonds.control_socket, &message)) == 1) {
        if (message.kind == SBX_MESSAGE_CANCEL) {
            sbx_pair_send(guard->socket, SBX_MESSAGE_CANCEL, message.value);
        } else if (message.kind == SBX_MESSAGE_PASS) {
            sbx_pair_send(guard->socket, SBX_MESSAGE_PASS, message.value);
        } else if (message.kind == SBX_MESSAGE_PAUSE) {
            sbx_pair_send(guard->socket, SBX_MESSAGE_PAUSE, 0);
        } else if (message.kind == SBX_MESSAGE_RESUME) {
            sbx_pair_send(guard->socket, SBX_MESSAGE_RESUME, 0);
        }
    }
    if (r < 0) {
        guard->bonds.control_socket = -1; /* not ours to close */
        sbx_pair_send(guard->socket, SBX_MESSAGE_CALLER_LOST, 0);
    }
}

/* Milliseconds until the guard has something to do, at most. */
static int next_look_ms(struct sbx_guard *guard)
{
    uint64_t bound_us =
        guard->monitor_stopped ? SBX_GUARD_STOPPED_US : SBX_GUARD_STARVED_US;
    if (guard->hooks->progress != NULL) {
        uint64_t due = guard->hooks->progress(guard->hooks->context);
        uint64_t now = sbx_clock_us();
        uint64_t wait_us = due > now ? due - now : 0;
        bound_us = wait_us < bound_us ? wait_us + 999 : bound_us;
    }
    return (int)(bound_us / 1000U);
}

static void watch(struct sbx_guard *guard)
{
    while (!guard->monitor_ended && !guard->finished) {
        bool takes = may_take_orders(guard);
        struct pollfd fds[POLL_COUNT] = {
            [POLL_SIGNALS] = {.fd = guard->signals, .events = POLLIN},
            [POLL_SOCKET] = {.fd = guard->socket,
                             .events = (short)(takes ? POLLIN : POLLIN | POLLOUT)},
            [POLL_CALLER] = {.fd = guard->bonds.caller_pidfd, .events = POLLIN},
            [POLL_FRONT] = {.fd = guard->bonds.front_socket, .events = POLLIN},
            [POLL_CONTROL] = {.fd = takes ? guard->bonds.control_socket : -1,
                              .events = POLLIN},
        };
        if (poll(fds, POLL_COUNT, next_look_ms(guard)) < 0 && errno != EINTR) {
            (void)sbx_child_signal(guard->monitor,
                                   SIGKILL); /* blind: let the tree fall to us */
        }
        if ((fds[POLL_SOCKET].revents & POLLIN) != 0) {
            take_messages(guard);
        }
        if (fds[POLL_CALLER].revents != 0) {
            lose(guard, &guard->bonds.caller_pidfd, SBX_MESSAGE_CALLER_LOST);
        }
        if (fds[POLL_FRONT].revents != 0) {
            take_from_front(guard);
        }
        if (fds[POLL_CONTROL].revents != 0) {
            take_orders(guard);
        }
        if ((fds[POLL_SOCKET].revents & (POLLHUP | POLLERR)) != 0 && !guard->finished) {
            /* Its end of the socket is closed, so it is dying: wait for that alone. */
            sbx_fd_drop(&guard->socket);
        }
        take_signals(guard);
        sbx_guard_replace_if_overdue(guard);
        sbx_guard_look_after_late_ones(guard);
        sbx_guard_continue_caller(guard);
        tell_overdue_usage(guard);
    }
}

/* --- the guard's end --- */

static bool wait_for_monitor(struct sbx_guard *guard, uint64_t bound_us)
{
    uint64_t until = sbx_clock_add(sbx_clock_us(), bound_us);
    while (!guard->monitor_ended) {
        sbx_guard_look_at_monitor(guard);
        uint64_t now = sbx_clock_us();
        if (guard->monitor_ended || now >= until) {
            break;
        }
        struct pollfd fd = {.fd = guard->signals, .events = POLLIN};
        (void)poll(&fd, 1, (int)((until - now) / 1000U) + 1);
        struct signalfd_siginfo info;
        while (read(guard->signals, &info, sizeof info) == (ssize_t)sizeof info) {
            continue; /* the run is over: nothing to cancel or to pass on */
        }
    }
    return guard->monitor_ended;
}

static void let_monitor_go(struct sbx_guard *guard)
{
    sbx_pair_send(guard->socket, SBX_MESSAGE_PUBLISHED, 0);
    sbx_fd_drop(&guard->socket);
    if (!wait_for_monitor(guard, MONITOR_LEAVES_US)) {
        (void)sbx_child_signal(guard->monitor, SIGKILL);
        (void)wait_for_monitor(guard, MONITOR_LEAVES_US);
    }
}

/* Once: a monitor that found us stopped may have claimed it, and may have died over it.
 */
static void publish_once(struct sbx_guard *guard)
{
    struct sbx_pair *pair = guard->pair;
    bool mine = sbx_pair_claim(pair);
    if (!mine && !wait_for_monitor(guard, MONITOR_LEAVES_US)) {
        /* Two at a time would get into each other's way. */
        (void)sbx_child_signal(guard->monitor, SIGKILL);
        (void)wait_for_monitor(guard, MONITOR_LEAVES_US);
    }
    mine = mine || atomic_load(&pair->publish) != SBX_PUBLISH_DONE;
    if (mine) {
        sbx_pair_publish(pair, guard->hooks->publish, guard->hooks->context);
    }
}

static int publish_result(struct sbx_guard *guard)
{
    struct sbx_pair *pair = guard->pair;
    sbx_reader_stop(&guard->reader);
    if (atomic_load(&pair->phase) != SBX_PAIR_FINISHED) {
        sbx_reader_done(&guard->reader); /* before its end can be taken for a member's */
        guard->hooks->lost(pair, guard->hooks->context);
        atomic_store(&pair->phase, SBX_PAIR_FINISHED);
    }
    if (sbx_terminal_hands_over(&guard->terminal)) {
        sbx_terminal_take(&guard->terminal, atomic_load(&pair->leader_pid));
    }
    publish_once(guard);
    if (!guard->monitor_ended) {
        let_monitor_go(guard);
    }
    sbx_reader_done(&guard->reader);
    guard->hooks->close(guard->hooks->context);
    return guard->hooks->status(guard->hooks->context);
}

/* --- starting --- */

static int run_monitor(struct sbx_guard *guard, int socket, pid_t guard_pid)
{
    struct sbx_pair_link link = {
        .pair = guard->pair,
        .socket = socket,
        .reader_socket = guard->reader.monitor_end,
        .guard_pid = guard_pid,
        .below_front = guard->below_front,
        .guard_pidfd = sbx_pidfd_open(guard_pid),
        .terminal = &guard->terminal,
        .inherited_ignored = guard->inherited_ignored,
    };
    if (link.guard_pidfd < 0 || getppid() != guard_pid) {
        return SBX_STATUS_FAILED; /* the guard is gone already; nothing has been started
                                   */
    }
    return guard->hooks->monitor(&link, guard->hooks->context);
}

static int start_monitor(struct sbx_guard *guard, struct sbx_error *err)
{
    int sockets[2];
    pid_t self = getpid();
    int r = guard->hooks->open(guard->hooks->context, err);
    if (r < 0) {
        return r;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0) {
        return sbx_error_set(err, errno, SBX_STAGE_LAUNCH, "socketpair: %s",
                             sbx_errno_text(errno).text);
    }
    r = sbx_reader_open(&guard->reader);
    guard->monitor = r < 0 ? -1 : fork();
    if (guard->monitor < 0) {
        int code = r < 0 ? -r : errno;
        (void)close(sockets[0]);
        (void)close(sockets[1]);
        return sbx_error_set(err, code, SBX_STAGE_LAUNCH, "fork of the monitor: %s",
                             sbx_errno_text(code).text);
    }
    if (guard->monitor == 0) {
        (void)close(sockets[0]);
        sbx_fd_drop(&guard->signals);
        sbx_fd_drop(&guard->reader.reader_end);
        _exit(run_monitor(guard, sockets[1], self));
    }
    (void)close(sockets[1]);
    guard->socket = sockets[0];
    sbx_fd_drop(&guard->reader.monitor_end);
    sbx_reader_start(&guard->reader);
    return 0;
}

static int prepare(struct sbx_guard *guard, struct sbx_error *err)
{
    sigset_t heard;
    (void)sigemptyset(&heard);
    static const int numbers[] = {SIGCHLD, SIGINT,   SIGTERM, SIGHUP,  SIGQUIT,
                                  SIGUSR2, SIGWINCH, SIGCONT, SIGTSTP, SIGUSR1};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        (void)sigaddset(&heard, numbers[i]);
    }
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0) {
        return sbx_error_set(err, errno, SBX_STAGE_LAUNCH,
                             "this process cannot become a child subreaper: %s",
                             sbx_errno_text(errno).text);
    }
    guard->signals = signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK);
    if (guard->signals < 0) {
        return sbx_error_set(err, errno, SBX_STAGE_LAUNCH, "signalfd: %s",
                             sbx_errno_text(errno).text);
    }
    return start_monitor(guard, err);
}

/* The guard proper, in the calling process or below a front. */
static int guard_main(const struct sbx_guard_bonds *bonds, void *context)
{
    struct sbx_guard *guard = context;
    guard->bonds = *bonds;
    guard->below_front = bonds->front_socket >= 0;
    struct sbx_error error = {0};
    if (!guard->hooks->no_terminal) {
        sbx_terminal_open(&guard->terminal);
    }
    if (sigismember(&guard->inherited_ignored, SIGINT) == 1) {
        /* Started by a script beside its own use of the terminal (`sbx-watch … &`): that
         * stays with the script until the command reads it. */
        guard->terminal.foreground = false;
    }
    if (prepare(guard, &error) < 0) {
        guard->hooks->failed(&error, guard->hooks->context);
        guard->monitor_ended = true;
        atomic_store(&guard->pair->phase, SBX_PAIR_FINISHED);
    } else {
        watch(guard);
    }
    int status = publish_result(guard);
    sbx_guard_continue_caller(guard);
    sbx_fd_drop(&guard->socket);
    sbx_fd_drop(&guard->signals);
    sbx_fd_drop(&guard->bonds.caller_pidfd);
    sbx_fd_drop(&guard->bonds.front_socket);
    sbx_terminal_close(&guard->terminal);
    return status;
}

static void note_ignored(sigset_t *ignored)
{
    static const int numbers[] = {SIGINT, SIGHUP, SIGQUIT, SIGTERM};
    (void)sigemptyset(ignored);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction action;
        if (sigaction(numbers[i], NULL, &action) == 0 && action.sa_handler == SIG_IGN) {
            (void)sigaddset(ignored, numbers[i]);
        }
    }
}

static struct sbx_guard begin(struct sbx_pair *pair, const struct sbx_guard_hooks *hooks)
{
    struct sbx_guard guard = {.pair = pair,
                              .hooks = hooks,
                              .socket = -1,
                              .signals = -1,
                              .reader = {.monitor_end = -1,
                                         .reader_end = -1,
                                         .serve = hooks->reader,
                                         .context = hooks->context},
                              .terminal = {.fd = -1}};
    atomic_store(&pair->overdue_us, SBX_FOREVER_US);
    sigset_t all;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    note_ignored(&guard.inherited_ignored);
    /* Ignored SIGCHLD (an odd launcher) would make every wait fail with ECHILD. */
    struct sigaction standard = {.sa_handler = SIG_DFL};
    (void)sigaction(SIGCHLD, &standard, NULL);
    return guard;
}

int sbx_guard_run(struct sbx_pair *pair, const struct sbx_guard_hooks *hooks,
                  bool die_with_parent)
{
    struct sbx_guard guard = begin(pair, hooks);
    struct sbx_error error = {0};
    int status = 0;
    int r = sbx_front_run(die_with_parent, guard_main, &guard, &status, &error);
    if (r < 0) {
        hooks->failed(&error, hooks->context);
        hooks->publish(hooks->context);
        status = hooks->status(hooks->context);
    }
    return status;
}

int sbx_guard_run_bound(struct sbx_pair *pair, const struct sbx_guard_hooks *hooks,
                        const struct sbx_guard_bonds *bonds)
{
    struct sbx_guard guard = begin(pair, hooks);
    (void)setpgid(0, 0);
    return guard_main(bonds, &guard);
}
