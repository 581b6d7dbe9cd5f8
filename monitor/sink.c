/*
 * sink.c - see sink.h. A pipe or terminal is opened once more, so that a file description
 * of our own can be non-blocking; where that is not allowed, it is looked at before
 * little is written at a time.
 */
#include "monitor/sink.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>

#define FD_PATH_SIZE 32

/* Until the descriptor can be written, not beyond the deadline. */
static int wait_writable(int fd, uint64_t deadline_us)
{
    for (;;) {
        uint64_t now = sbx_clock_us();
        if (now >= deadline_us) {
            return -ETIMEDOUT;
        }
        struct pollfd entry = {.fd = fd, .events = POLLOUT};
        int n = poll(&entry, 1, (int)((deadline_us - now + 999) / 1000));
        if (n > 0) {
            return 0; /* also for an error: the next write names it */
        }
        if (n < 0 && errno != EINTR) {
            return -errno;
        }
    }
}

static ssize_t write_some(const struct sbx_sink *sink, const char *text, size_t length)
{
    if (sink->socket) {
        return send(sink->fd, text, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    /* Where poll says that a pipe can be written, PIPE_BUF bytes fit. */
    bool cut = sink->blocking && length > PIPE_BUF;
    return write(sink->fd, text, cut ? PIPE_BUF : length);
}

int sbx_sink_write(const struct sbx_sink *sink, const char *text, size_t length)
{
    uint64_t deadline_us = sbx_clock_us() + SBX_SINK_PATIENCE_US;
    bool look_first = sink->blocking;
    while (length > 0) {
        int r = look_first ? wait_writable(sink->fd, deadline_us) : 0;
        if (r < 0) {
            return r;
        }
        ssize_t written = write_some(sink, text, length);
        look_first = sink->blocking || written <= 0;
        if (written < 0 && errno != EAGAIN && errno != EINTR) {
            return -errno;
        }
        text += written > 0 ? written : 0;
        length -= written > 0 ? (size_t)written : 0;
    }
    return 0;
}

static const char *fd_path(int fd, char path[static FD_PATH_SIZE])
{
    (void)snprintf(path, FD_PATH_SIZE, "/proc/self/fd/%d", fd);
    return path;
}

/* Whether the last line of a file is unfinished, so that ours would be glued to it. Only
 * a file that may be read can tell. */
static bool line_unfinished(int inherited, const struct stat *status)
{
    char path[FD_PATH_SIZE];
    int flags = fcntl(inherited, F_GETFL);
    off_t end = status->st_size;
    if (flags < 0 || (flags & O_APPEND) == 0) {
        end = lseek(inherited, 0, SEEK_CUR);
    }
    if (end <= 0) {
        return false;
    }
    SBX_AUTO_CLOSE int fd =
        open(fd_path(inherited, path), O_RDONLY | O_NOCTTY | O_CLOEXEC);
    char last = '\n';
    return fd >= 0 && pread(fd, &last, 1, end - 1) == 1 && last != '\n';
}

/* A description that is ours alone may be non-blocking. The master of a pseudo-terminal
 * cannot be opened again: that would be another terminal. */
static int reopen(int inherited, const struct stat *status)
{
    char path[FD_PATH_SIZE];
    bool master = S_ISCHR(status->st_mode) && status->st_rdev == makedev(5, 2);
    if (master || (!S_ISFIFO(status->st_mode) && !S_ISCHR(status->st_mode))) {
        return -1;
    }
    return open(fd_path(inherited, path),
                O_WRONLY | O_NONBLOCK | O_APPEND | O_NOCTTY | O_CLOEXEC);
}

int sbx_sink_put(int fd, const char *text, size_t length, enum sbx_sink_start start)
{
    struct stat status;
    if (fstat(fd, &status) < 0) {
        return -errno;
    }
    SBX_AUTO_CLOSE int own = reopen(fd, &status);
    bool regular = S_ISREG(status.st_mode);
    struct sbx_sink sink = {.fd = own >= 0 ? own : fd,
                            .socket = S_ISSOCK(status.st_mode),
                            .blocking = own < 0 && !regular && !S_ISSOCK(status.st_mode)};
    bool feed = start == SBX_SINK_OWN_LINE && regular && line_unfinished(fd, &status);
    int r = feed ? sbx_sink_write(&sink, "\n", 1) : 0;
    return r < 0 ? r : sbx_sink_write(&sink, text, length);
}

/* A pipe that may not be opened again (somebody else's): its pages can be had without
 * waiting, but they must be the pipe's own from then on. */
static ssize_t splice_line(int fd, const char *text, size_t length)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (length > page) {
        return -1;
    }
    char *memory =
        mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return -1;
    }
    memcpy(memory, text, length);
    struct iovec line = {.iov_base = memory, .iov_len = length};
    ssize_t written = vmsplice(fd, &line, 1, SPLICE_F_NONBLOCK);
    (void)munmap(memory, page);
    return written;
}

/* A terminal that may not be opened again (somebody else's) is often the controlling one,
 * which anybody may open by that name. */
static int reopen_terminal(int inherited)
{
    unsigned wanted = 0;
    unsigned controlling = 0;
    if (ioctl(inherited, TIOCGDEV, &wanted) < 0) {
        return -1;
    }
    SBX_AUTO_CLOSE int fd =
        open("/dev/tty", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, TIOCGDEV, &controlling) < 0 || controlling != wanted) {
        return -1;
    }
    return sbx_fd_steal(&fd);
}

bool sbx_sink_try(int fd, const char *text, size_t length)
{
    struct stat status;
    ssize_t written = -1;
    if (fstat(fd, &status) < 0) {
        return false;
    }
    if (S_ISSOCK(status.st_mode)) {
        written = send(fd, text, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    } else if (S_ISREG(status.st_mode)) {
        written = write(fd, text, length);
    } else {
        SBX_AUTO_CLOSE int own = reopen(fd, &status);
        own = own < 0 ? reopen_terminal(fd) : own;
        if (own >= 0) {
            written = write(own, text, length);
        } else if (S_ISFIFO(status.st_mode)) {
            written = splice_line(fd, text, length);
        }
    }
    return written == (ssize_t)length;
}
