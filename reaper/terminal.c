/*
 * terminal.c - see terminal.h.
 */
#include "reaper/terminal.h"

#include "base/fd.h"
#include "reaper/pidref.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static bool is_pipe(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 &&
           (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

void sbx_terminal_open(struct sbx_terminal *terminal)
{
    *terminal =
        (struct sbx_terminal){.fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)};
    if (terminal->fd < 0) {
        return;
    }
    terminal->foreground = sbx_terminal_is_ours(terminal);
    terminal->shared = is_pipe(0) || is_pipe(1) || is_pipe(2);
}

void sbx_terminal_close(struct sbx_terminal *terminal)
{
    sbx_fd_drop(&terminal->fd);
}

bool sbx_terminal_hands_over(const struct sbx_terminal *terminal)
{
    return terminal->fd >= 0 && !terminal->shared;
}

void sbx_terminal_give(const struct sbx_terminal *terminal, pid_t pgid)
{
    if (terminal->fd >= 0 && pgid > 1) {
        (void)tcsetpgrp(terminal->fd, pgid);
    }
}

void sbx_terminal_take(const struct sbx_terminal *terminal, pid_t command_pgid)
{
    pid_t holder = terminal->fd >= 0 ? tcgetpgrp(terminal->fd) : -1;
    if (holder <= 1 || holder == getpgrp()) {
        return;
    }
    if (holder == command_pgid || sbx_child_group_signal(holder, 0) == -ESRCH) {
        sbx_terminal_give(terminal, getpgrp());
    }
}

bool sbx_terminal_is_ours(const struct sbx_terminal *terminal)
{
    return sbx_terminal_is_held_by(terminal, getpgrp());
}

bool sbx_terminal_is_held_by(const struct sbx_terminal *terminal, pid_t pgid)
{
    return terminal->fd >= 0 && pgid > 1 && tcgetpgrp(terminal->fd) == pgid;
}

bool sbx_terminal_stop_self(int signal_number)
{
    static const struct timespec at_once;
    sigset_t continued;
    (void)sigemptyset(&continued);
    (void)sigaddset(&continued, SIGCONT);
    struct sigaction standard = {.sa_handler = SIG_DFL};
    struct sigaction before;
    sigset_t only;
    sigset_t mask;
    (void)sigemptyset(&only);
    (void)sigaddset(&only, signal_number);
    if (sigaction(signal_number, &standard, &before) < 0) {
        return false;
    }
    /* Blocked: becomes pending, and takes an older SIGCONT away. */
    (void)raise(signal_number);
    (void)sigprocmask(SIG_UNBLOCK, &only, &mask); /* stops here */
    (void)sigprocmask(SIG_SETMASK, &mask, NULL);
    (void)sigaction(signal_number, &before, NULL);
    return sigtimedwait(&continued, NULL, &at_once) == SIGCONT;
}
