/*
 * redirect.c - see redirect.h. As a shell does it, but for three things: a FIFO without
 * another end is waited for with a bound; nothing is emptied before everything is open;
 * and a file that is about to be read or replaced by the report is not written to.
 *
 * O_NONBLOCK is for the opening only: the command gets descriptors that block.
 */
#include "monitor/redirect.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "monitor/rivals.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_SIZE 256
/* How long a FIFO's other end may take to come, and how often we look. */
#define FIFO_BOUND_US (2 * (uint64_t)SBX_US_PER_S)
#define FIFO_LOOK_MS 10

static const char *const options[] = {"stdin", "stdout", "stderr"};

static int failed(const struct sbx_spec *spec, int which, int code, const char *what,
                  struct sbx_error *err)
{
    char name[NAME_SIZE];
    const char *path = spec->streams[which].path;
    (void)sbx_text_escape(name, sizeof name, path, strlen(path));
    return sbx_error_set(err, code, SBX_STAGE_LAUNCH, "option --%s: '%s': %s",
                         options[which], name, what);
}

static int failed_plainly(const struct sbx_spec *spec, int which, int code,
                          struct sbx_error *err)
{
    return failed(spec, which, code, sbx_errno_text(code).text, err);
}

static int open_once(const struct sbx_stream *stream, int flags)
{
    int at = stream->directory_fd >= 0 ? stream->directory_fd : AT_FDCWD;
    int fd = openat(at, stream->path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    if (fd < 0) {
        return -errno;
    }
    if (fd > STDERR_FILENO) {
        return fd;
    }
    int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int code = errno;
    (void)close(fd);
    return above < 0 ? -code : above;
}

/* To be called again and again; false when the time is up. */
static bool rest(uint64_t until_us)
{
    (void)poll(NULL, 0, FIFO_LOOK_MS);
    return sbx_clock_us() < until_us;
}

static bool is_type(int fd, mode_t type, struct stat *ret_status)
{
    return fstat(fd, ret_status) == 0 && (ret_status->st_mode & (mode_t)S_IFMT) == type;
}

/* Whether a FIFO has a writer, without taking anything out of it: from one that has none
 * the command would read an end of file that is none. */
static int await_writer(int fd)
{
    int scratch[2];
    if (pipe2(scratch, O_CLOEXEC | O_NONBLOCK) < 0) {
        return -errno;
    }
    uint64_t until_us = sbx_clock_us() + FIFO_BOUND_US;
    bool found;
    do {
        ssize_t seen = tee(fd, scratch[1], 1, SPLICE_F_NONBLOCK);
        found = seen > 0 || (seen < 0 && errno == EAGAIN);
    } while (!found && rest(until_us));
    (void)close(scratch[0]);
    (void)close(scratch[1]);
    return found ? 0 : -ENXIO;
}

static int blocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0 ? -errno : 0;
}

static int open_input(const struct sbx_spec *spec, int *ret_fd, struct sbx_error *err)
{
    struct stat status;
    SBX_AUTO_CLOSE int fd = open_once(&spec->streams[0], O_RDONLY);
    if (fd < 0) {
        return failed_plainly(spec, 0, -fd, err);
    }
    if (is_type(fd, S_IFDIR, &status)) {
        return failed_plainly(spec, 0, EISDIR, err);
    }
    if (is_type(fd, S_IFIFO, &status) && await_writer(fd) < 0) {
        return failed(spec, 0, ENXIO, "a FIFO that nobody has opened to write", err);
    }
    int r = blocking(fd);
    if (r < 0) {
        return failed_plainly(spec, 0, -r, err);
    }
    *ret_fd = sbx_fd_steal(&fd);
    return 0;
}

static bool is_fifo(const struct sbx_stream *stream)
{
    struct stat status;
    int at = stream->directory_fd >= 0 ? stream->directory_fd : AT_FDCWD;
    return fstatat(at, stream->path, &status, 0) == 0 && S_ISFIFO(status.st_mode);
}

static int open_output(const struct sbx_spec *spec, int which, int *ret_fd,
                       struct sbx_error *err)
{
    const struct sbx_stream *stream = &spec->streams[which];
    uint64_t until_us = sbx_clock_us() + FIFO_BOUND_US;
    SBX_AUTO_CLOSE int fd = open_once(stream, O_WRONLY | O_CREAT);
    while (fd == -ENXIO && is_fifo(stream) && rest(until_us)) {
        fd = open_once(stream, O_WRONLY);
    }
    if (fd == -ENXIO && is_fifo(stream)) {
        return failed(spec, which, ENXIO, "a FIFO that nobody has opened to read", err);
    }
    int r = fd < 0 ? fd : blocking(fd);
    if (r < 0) {
        return failed_plainly(spec, which, -r, err);
    }
    *ret_fd = sbx_fd_steal(&fd);
    return 0;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static int check_output(const struct sbx_spec *spec, int which, int input, int output,
                        struct sbx_error *err)
{
    struct stat file;
    struct stat other;
    if (output < 0 || !is_type(output, S_IFREG, &file)) {
        return 0;
    }
    if (input >= 0 && fstat(input, &other) == 0 && same_file(&file, &other)) {
        return failed(spec, which, EINVAL,
                      "the same file as --stdin, which would be emptied unread", err);
    }
    const char *rival = sbx_rival_of_stream(spec, &file);
    return rival != NULL ? failed(spec, which, EINVAL, rival, err) : 0;
}

/* One description for both, if both are one file. */
static int share(int files[static 3])
{
    struct stat out;
    struct stat err;
    if (files[1] < 0 || files[2] < 0 || fstat(files[1], &out) < 0 ||
        fstat(files[2], &err) < 0 || !same_file(&out, &err)) {
        return 0;
    }
    int same = fcntl(files[1], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (same < 0) {
        return -errno;
    }
    (void)close(files[2]);
    files[2] = same;
    return 0;
}

static int empty(int fd)
{
    struct stat status;
    return fd >= 0 && is_type(fd, S_IFREG, &status) && ftruncate(fd, 0) < 0 ? -errno : 0;
}

static int open_all(const struct sbx_spec *spec, int files[static 3],
                    struct sbx_error *err)
{
    int r = spec->streams[0].path != NULL ? open_input(spec, &files[0], err) : 0;
    for (int i = 1; i <= 2 && r == 0; i++) {
        r = spec->streams[i].path != NULL ? open_output(spec, i, &files[i], err) : 0;
        r = r < 0 ? r : check_output(spec, i, files[0], files[i], err);
    }
    for (int i = 1; i <= 2 && r == 0; i++) {
        int code = -empty(files[i]);
        r = code > 0 ? failed_plainly(spec, i, code, err) : 0;
    }
    int code = r == 0 ? -share(files) : 0;
    return code > 0 ? failed_plainly(spec, 2, code, err) : r;
}

int sbx_redirect_open(const struct sbx_spec *spec, int ret_files[static 3],
                      struct sbx_error *err)
{
    int files[3] = {-1, -1, -1};
    int r = open_all(spec, files, err);
    for (int i = 0; i < 3; i++) {
        if (r < 0) {
            sbx_fd_drop(&files[i]);
        } else {
            ret_files[i] = files[i];
        }
    }
    return r;
}
