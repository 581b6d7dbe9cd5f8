/*
 * reader.c - see reader.h. The reader is the guard's own child, which it alone reaps: its
 * pid cannot be somebody else's.
 */
#include "reaper/reader.h"

#include "base/fd.h"
#include "reaper/pidref.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* From SIGKILL to its end it only has to be scheduled. */
#define DEATH_BOUND_MS 1000

int sbx_reader_open(struct sbx_reader *reader)
{
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0) {
        return -errno;
    }
    reader->monitor_end = sockets[0];
    reader->reader_end = sockets[1];
    return 0;
}

void sbx_reader_start(struct sbx_reader *reader)
{
    pid_t guard = getpid();
    if (reader->serve == NULL || reader->reader_end < 0) {
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        if (getppid() == guard) {
            reader->serve(reader->reader_end, reader->context);
        }
        _exit(0);
    }
    reader->pid = pid > 0 ? pid : 0;
}

void sbx_reader_stop(struct sbx_reader *reader)
{
    if (reader->pid != 0) {
        (void)sbx_child_signal(reader->pid, SIGKILL);
    }
}

static void bury(struct sbx_reader *reader)
{
    if (reader->pid == 0) {
        return;
    }
    sbx_reader_stop(reader);
    if (waitpid(reader->pid, NULL, WNOHANG) == 0) {
        SBX_AUTO_CLOSE int pidfd = sbx_pidfd_open(reader->pid);
        struct pollfd death = {.fd = pidfd, .events = POLLIN};
        (void)poll(&death, 1, DEATH_BOUND_MS);
        (void)waitpid(reader->pid, NULL, WNOHANG);
    }
    reader->pid = 0;
}

void sbx_reader_replace(struct sbx_reader *reader)
{
    bury(reader);
    sbx_reader_start(reader);
}

void sbx_reader_done(struct sbx_reader *reader)
{
    bury(reader);
    sbx_fd_drop(&reader->monitor_end);
    sbx_fd_drop(&reader->reader_end);
}
