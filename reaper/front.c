/*
 * front.c - see front.h. All waits name the guard's pid: bystanders stay untouched, their
 * zombies too.
 */
#include "reaper/front.h"

#include "base/error.h"
#include "base/fd.h"
#include "reaper/guard.h"
#include "reaper/pidref.h"
#include "reaper/terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static bool has_children(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 ||
           errno != ECHILD;
}

static int bind_to_caller(struct sbx_guard_bonds *bonds, struct sbx_error *err)
{
    pid_t caller = getppid();
    if (caller <= 0) {
        return sbx_error_set(err, ESRCH, SBX_STAGE_LAUNCH,
                             "--die-with-parent: the parent is in another PID namespace");
    }
    bonds->caller_pidfd = sbx_pidfd_open(caller);
    /* Still its child after the pidfd was opened: it is the pidfd of our parent. */
    if (bonds->caller_pidfd < 0 || getppid() != caller) {
        return sbx_error_set(err, ESRCH, SBX_STAGE_LAUNCH,
                             "--die-with-parent: the parent is gone already");
    }
    return 0;
}

/* --- the front --- */

struct front {
    pid_t guard;
    int signals;
    int socket;
    bool ended;
    int status;
};

static void look_at_guard(struct front *front)
{
    siginfo_t info = {0};
    while (waitid(P_PID, (id_t)front->guard, &info, WEXITED | WSTOPPED | WNOHANG) == 0 &&
           info.si_pid == front->guard) {
        if (info.si_code == CLD_STOPPED) {
            (void)sbx_terminal_stop_self(info.si_status);
            (void)sbx_child_signal(front->guard, SIGCONT);
        } else if (info.si_code == CLD_EXITED) {
            front->ended = true;
            front->status = info.si_status;
            return;
        } else if (info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED) {
            /* Somebody killed the guard; its monitor ends the tree and publishes. */
            front->ended = true;
            front->status = SBX_STATUS_FAILED;
            return;
        }
        info = (siginfo_t){0};
    }
}

static void pass_on(struct front *front, const struct signalfd_siginfo *info)
{
    int signal_number = (int)info->ssi_signo;
    if (signal_number == SIGCHLD) {
        look_at_guard(front);
    } else if (info->ssi_code !=
               SI_KERNEL) { /* the terminal's own reach the guard as well */
        sbx_pair_send(front->socket, SBX_MESSAGE_PASS, signal_number);
    }
}

static int serve(struct front *front)
{
    look_at_guard(front);
    while (!front->ended) {
        struct pollfd fd = {.fd = front->signals, .events = POLLIN};
        (void)poll(&fd, 1, -1);
        struct signalfd_siginfo info;
        while (!front->ended &&
               read(front->signals, &info, sizeof info) == (ssize_t)sizeof info) {
            pass_on(front, &info);
        }
    }
    return front->status;
}

static int open_signals(struct sbx_error *err)
{
    sigset_t heard;
    (void)sigemptyset(&heard);
    static const int numbers[] = {SIGCHLD, SIGINT,   SIGTERM, SIGHUP,  SIGQUIT,
                                  SIGUSR2, SIGWINCH, SIGCONT, SIGTSTP, SIGUSR1};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        (void)sigaddset(&heard, numbers[i]);
    }
    int fd = signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd >= 0 ? fd
                   : sbx_error_set(err, errno, SBX_STAGE_LAUNCH, "signalfd: %s",
                                   sbx_errno_text(errno).text);
}

/* Forks the guard, and serves it. A front that is gone before the guard has looked shows
 * in the socket. */
static int run_below_front(const struct sbx_guard_bonds *outer, struct front *front,
                           int (*guard)(const struct sbx_guard_bonds *, void *),
                           void *context, struct sbx_error *err)
{
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0) {
        return sbx_error_set(err, errno, SBX_STAGE_LAUNCH, "socketpair: %s",
                             sbx_errno_text(errno).text);
    }
    front->guard = fork();
    int code = errno;
    if (front->guard == 0) {
        struct sbx_guard_bonds bonds = *outer;
        bonds.front_socket = sockets[1];
        (void)close(sockets[0]);
        sbx_fd_drop(&front->signals);
        _exit(guard(&bonds, context));
    }
    (void)close(sockets[1]);
    SBX_AUTO_CLOSE int socket = sockets[0];
    if (front->guard < 0) {
        return sbx_error_set(err, code, SBX_STAGE_LAUNCH, "fork of the guard: %s",
                             sbx_errno_text(code).text);
    }
    front->socket = socket;
    return serve(front);
}

int sbx_front_run(bool die_with_parent,
                  int (*guard)(const struct sbx_guard_bonds *bonds, void *context),
                  void *context, int *ret_status, struct sbx_error *err)
{
    struct sbx_guard_bonds bonds = {
        .caller_pidfd = -1, .front_socket = -1, .control_socket = -1};
    int r = die_with_parent ? bind_to_caller(&bonds, err) : 0;
    SBX_AUTO_CLOSE int caller = bonds.caller_pidfd;
    if (r < 0) {
        return r;
    }
    if (!has_children()) {
        (void)sbx_fd_steal(&caller); /* the guard's now */
        *ret_status = guard(&bonds, context);
        return 0;
    }
    SBX_AUTO_CLOSE int signals = open_signals(err);
    if (signals < 0) {
        return signals;
    }
    struct front front = {.signals = signals, .socket = -1};
    r = run_below_front(&bonds, &front, guard, context, err);
    if (r < 0) {
        return r;
    }
    *ret_status = r;
    return 0;
}
