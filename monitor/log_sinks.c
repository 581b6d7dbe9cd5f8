/*
 * log_sinks.c - see log_sinks.h: files, standard error, syslog. Relies on SIGPIPE and its
 * like being blocked. The shared file description of standard error is never made
 * non-blocking: others write there too. Never allocates.
 */
#include "monitor/log_sinks.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <syslog.h>
#include <time.h>

#define SYSLOG_PATH "/dev/log"
/* "<12>Nov 30 02:03:04 sbx-watch[4194304]: ", a line feed in front, and what ends it. */
#define MARGIN_SIZE 64

#define APPEND (O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY)

/* --- files --- */

/* Above 2, so that it never stands in for a closed standard stream. */
static int above_standard(int fd)
{
    if (fd < 0 || fd > 2) {
        return fd < 0 ? -errno : fd;
    }
    int above = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    int code = errno;
    (void)close(fd);
    return above < 0 ? -code : above;
}

int sbx_log_file_open(int directory, const char *path, mode_t mode,
                      struct sbx_log_file *ret_file)
{
    struct sbx_log_file file = SBX_NO_LOG_FILE;
    struct stat status;
    file.fd = above_standard(openat(directory, path, APPEND | O_CREAT | O_CLOEXEC, mode));
    if (file.fd != -ENXIO) {
        if (file.fd < 0) {
            return file.fd;
        }
        *ret_file = file;
        return 0;
    }
    file.fd = -1;
    file.node = above_standard(openat(directory, path, O_PATH | O_CLOEXEC));
    if (file.node < 0) {
        return file.node;
    }
    if (fstat(file.node, &status) < 0 || !S_ISFIFO(status.st_mode)) {
        sbx_log_file_close(&file);
        return -ENXIO; /* a socket, or a device that is not there */
    }
    *ret_file = file;
    return 0;
}

int sbx_log_file_ready(struct sbx_log_file *file)
{
    char path[40];
    if (file->fd < 0) {
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file->node);
        file->fd = open(path, APPEND | O_CLOEXEC);
    }
    return file->fd < 0 ? -ENXIO : 0;
}

void sbx_log_file_close(struct sbx_log_file *file)
{
    sbx_fd_drop(&file->fd);
    sbx_fd_drop(&file->node);
}

/* --- standard error --- */

/* A description of our own may be non-blocking. The master of a pseudo-terminal cannot be
 * opened again: that would be another terminal. */
static void open_stderr(struct sbx_log_sink *sink)
{
    struct stat status;
    if (fstat(STDERR_FILENO, &status) < 0) {
        return; /* a write will say why */
    }
    bool master = S_ISCHR(status.st_mode) && status.st_rdev == makedev(5, 2);
    sink->socket = S_ISSOCK(status.st_mode);
    sink->stream = sink->socket;
    if (!master && (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode))) {
        sink->file.fd = open("/proc/self/fd/2", APPEND | O_CLOEXEC);
    }
    sink->look_first = sink->file.fd < 0 && !sink->socket && !S_ISREG(status.st_mode);
}

/* --- syslog --- */

/* RFC 3164, as the C library has it: local time, without the year. */
static size_t begin_syslog(const struct sbx_log_sink *sink,
                           const struct sbx_log_line *line, char text[static MARGIN_SIZE])
{
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t seconds = (time_t)(line->at_real_us / SBX_US_PER_S);
    struct tm parts = {0};
    (void)localtime_r(&seconds, &parts);
    int length = snprintf(text, MARGIN_SIZE, "<%d>%s %2d %02d:%02d:%02d sbx-watch[%d]: ",
                          LOG_USER | sbx_log_severity(line->level),
                          months[(unsigned)parts.tm_mon % 12U], parts.tm_mday,
                          parts.tm_hour, parts.tm_min, parts.tm_sec, (int)sink->pid);
    return length > 0 && length < MARGIN_SIZE ? (size_t)length : 0;
}

static int connect_syslog(struct sbx_log_sink *sink)
{
    static const int types[] = {SOCK_DGRAM, SOCK_STREAM};
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = SYSLOG_PATH};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        SBX_AUTO_CLOSE int fd =
            socket(AF_UNIX, types[i] | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0) {
            return -errno;
        }
        if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0) {
            sink->stream = types[i] == SOCK_STREAM;
            sink->file.fd = sbx_fd_steal(&fd);
            return 0;
        }
        if (errno != EPROTOTYPE) {
            return -errno;
        }
    }
    return -EPROTOTYPE;
}

/* --- putting --- */

static int may_write(int fd)
{
    struct pollfd entry = {.fd = fd, .events = POLLOUT};
    return poll(&entry, 1, 0) > 0;
}

static ssize_t transfer(const struct sbx_log_sink *sink, const char *text, size_t length)
{
    int fd =
        sink->kind == SBX_LOG_STDERR && sink->file.fd < 0 ? STDERR_FILENO : sink->file.fd;
    if (sink->socket) {
        return send(fd, text, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    if (sink->look_first && !may_write(fd)) {
        errno = EAGAIN;
        return -1;
    }
    return write(fd, text, length);
}

/* The rest of the line. Cut off in its middle for good, it leaves the sink torn. */
static int put_rest(struct sbx_log_sink *sink, const char *text, size_t length)
{
    while (sink->done < length) {
        ssize_t moved = transfer(sink, text + sink->done, length - sink->done);
        if (moved < 0 && errno == EINTR) {
            continue;
        }
        if (moved < 0 && errno == EAGAIN) {
            return -EAGAIN;
        }
        if (moved < 0) {
            int code = errno;
            sink->torn =
                sink->torn || (sink->done > 0 && (!sink->socket || sink->stream));
            sink->done = 0;
            return -code;
        }
        sink->done += (size_t)moved;
    }
    sink->done = 0;
    sink->torn = false;
    return 0;
}

/* A daemon that was started anew has another socket under the old name. */
static int put_syslog(struct sbx_log_sink *sink, const char *text, size_t length)
{
    for (int attempt = 0;; attempt++) {
        bool fresh = sink->file.fd < 0;
        int r = fresh ? connect_syslog(sink) : 0;
        if (r < 0) {
            return r;
        }
        r = put_rest(sink, text, length + (sink->stream ? 1 : 0));
        if (r == 0 || r == -EAGAIN) {
            return r;
        }
        sbx_fd_drop(&sink->file.fd);
        sink->torn = false;
        if (fresh || attempt > 0) {
            return r;
        }
    }
}

static int put_file(struct sbx_log_sink *sink, char *text, size_t length)
{
    if (sink->kind == SBX_LOG_FILE) {
        int r = sbx_log_file_ready(&sink->file);
        if (r < 0) {
            return r;
        }
    }
    text[length] = '\n';
    return put_rest(sink, text, length + 1);
}

int sbx_log_sink_put(struct sbx_log_sink *sink, const struct sbx_log_identity *identity,
                     const struct sbx_log_line *line)
{
    char text[MARGIN_SIZE + SBX_LOG_TEXT_SIZE + 1] = "";
    struct sbx_log_fields fields;
    sbx_log_fields(identity, line, &fields);
    if (sink->kind == SBX_LOG_JOURNAL) {
        return sbx_log_journal_put(&sink->journal, &fields, line, sink->form);
    }
    bool syslog = sink->kind == SBX_LOG_SYSLOG;
    size_t used = 0;
    if (syslog) {
        used = begin_syslog(sink, line, text);
    } else if (sink->torn) {
        text[used++] = '\n';
    }
    used += sbx_log_text(&fields, sink->form, syslog, text + used);
    return syslog ? put_syslog(sink, text, used) : put_file(sink, text, used);
}

void sbx_log_sink_init(struct sbx_log_sink *sink, enum sbx_log_kind kind,
                       struct sbx_log_file file)
{
    *sink = (struct sbx_log_sink){.kind = kind, .pid = getpid(), .file = file};
    if (kind == SBX_LOG_STDERR) {
        open_stderr(sink);
    }
    sink->socket = sink->socket || kind == SBX_LOG_SYSLOG;
}

void sbx_log_sink_done(struct sbx_log_sink *sink)
{
    sbx_log_file_close(&sink->file);
    sbx_log_journal_free(sink->journal);
    sink->journal = NULL;
}
