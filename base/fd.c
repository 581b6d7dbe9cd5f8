/*
 * fd.c - see fd.h. Async-signal-safe where a child between fork and exec needs it
 * (sbx_fd_cloexec_from uses no heap unless both close_range flavours are missing).
 */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <string.h>
#include <sys/syscall.h>

ssize_t sbx_fd_pread_text(int fd, char *buffer, size_t size)
{
    ssize_t length;
    do {
        length = pread(fd, buffer, size, 0);
    } while (length < 0 && errno == EINTR);
    if (length < 0) {
        return -errno;
    }
    if ((size_t)length == size) {
        return -ENOBUFS;
    }
    buffer[length] = '\0';
    return length;
}

ssize_t sbx_fd_read_text_at(int directory, const char *path, char *buffer, size_t size)
{
    SBX_AUTO_CLOSE int fd = openat(directory, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return -errno;
    }
    return sbx_fd_pread_text(fd, buffer, size);
}

int sbx_fd_write_all(int fd, const void *data, size_t size)
{
    const char *next = data;
    while (size > 0) {
        ssize_t written = write(fd, next, size);
        if (written < 0) {
            if (errno == EINTR) {
                continue;
            }
            return -errno;
        }
        next += written;
        size -= (size_t)written;
    }
    return 0;
}

int sbx_fd_open_standard(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) {
            continue;
        }
        /* The lowest free number is `fd`, since all below it are open. */
        int opened =
            open("/dev/null",
                 O_RDWR); /* NOLINT(android-cloexec-open): meant to be inherited */
        if (opened < 0) {
            return -errno;
        }
    }
    return 0;
}

/* For kernels before 5.11: walk /proc/self/fd, which names exactly the open ones. */
static int cloexec_by_listing(int lowest)
{
    SBX_AUTO_CLOSEDIR DIR *directory = opendir("/proc/self/fd");
    if (directory == NULL) {
        return -errno;
    }
    struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        char *end = NULL;
        long fd = strtol(entry->d_name, &end, 10);
        if (end == entry->d_name || *end != '\0' || fd < lowest) {
            continue;
        }
        if (fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0) {
            return -errno;
        }
    }
    return 0;
}

int sbx_fd_cloexec_from(int lowest)
{
    if (close_range((unsigned)lowest, ~0U, CLOSE_RANGE_CLOEXEC) == 0) {
        return 0;
    }
    if (errno != EINVAL && errno != ENOSYS) {
        return -errno;
    }
    return cloexec_by_listing(lowest);
}

DIR *sbx_fd_list(int directory)
{
    SBX_AUTO_CLOSE int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    if (stream != NULL) {
        (void)sbx_fd_steal(&fd);
    }
    return stream;
}
