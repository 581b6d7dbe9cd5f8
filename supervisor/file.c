/*
 * file.c - see file.h.
 */
#include "supervisor/file.h"

#include "base/error.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* What keeps an open from following or waiting. */
#define CAREFULLY (O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)

static int allocate(int fd, size_t size)
{
    /* More than this process may write would be answered by a signal. */
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < size) {
        return -EFBIG;
    }
    int code;
    do {
        code = posix_fallocate(fd, 0, (off_t)size);
    } while (code == EINTR);
    return -code;
}

int sbx_file_create(int directory, const char *name, size_t size, struct sbx_error *err)
{
    SBX_AUTO_CLOSE int fd =
        openat(directory, name, O_RDWR | O_CREAT | O_EXCL | CAREFULLY | O_CLOEXEC,
               S_IRUSR | S_IWUSR);
    if (fd < 0) {
        return sbx_error_set(err, errno, SBX_STAGE_LAUNCH, "cannot make the file %s: %s",
                             name, sbx_errno_text(errno).text);
    }
    /* The umask may have taken what its owner needs. */
    int r = fchmod(fd, S_IRUSR | S_IWUSR) < 0 ? -errno : 0;
    if (r == 0 && size > 0) {
        r = allocate(fd, size);
    }
    if (r < 0) {
        (void)unlinkat(directory, name, 0);
        return sbx_error_set(err, -r, SBX_STAGE_LAUNCH,
                             "cannot get %zu bytes for the file %s: %s", size, name,
                             sbx_errno_text(-r).text);
    }
    return sbx_fd_steal(&fd);
}

#define HIDDEN_SIZE 64

static const char *hidden_name(const char *name, char buffer[static HIDDEN_SIZE])
{
    (void)snprintf(buffer, HIDDEN_SIZE, "%s.new", name);
    return buffer;
}

int sbx_file_create_mapped(int directory, const char *name, size_t size,
                           void **ret_memory, struct sbx_error *err)
{
    char hidden[HIDDEN_SIZE];
    SBX_AUTO_CLOSE int fd =
        sbx_file_create(directory, hidden_name(name, hidden), size, err);
    if (fd < 0) {
        return fd;
    }
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        int code = errno;
        (void)unlinkat(directory, hidden, 0);
        return sbx_error_set(err, code, SBX_STAGE_LAUNCH, "cannot map the file %s: %s",
                             name, sbx_errno_text(code).text);
    }
    *ret_memory = memory;
    return 0;
}

/* 0 or a negative errno. */
static int take_name(int directory, const char *hidden, const char *name)
{
    if (renameat2(directory, hidden, directory, name, RENAME_NOREPLACE) == 0) {
        return 0;
    }
    if (errno != ENOSYS && errno != EINVAL) {
        return -errno;
    }
    /* A file system that cannot do that. Nobody else makes files of that name. */
    if (faccessat(directory, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
        return -EEXIST;
    }
    return renameat(directory, hidden, directory, name) < 0 ? -errno : 0;
}

int sbx_file_show(int directory, const char *name, void *memory, size_t size,
                  struct sbx_error *err)
{
    char hidden[HIDDEN_SIZE];
    int r = take_name(directory, hidden_name(name, hidden), name);
    if (r == 0) {
        return 0;
    }
    (void)munmap(memory, size);
    (void)unlinkat(directory, hidden, 0);
    return sbx_error_set(err, -r, SBX_STAGE_LAUNCH, "cannot make the file %s: %s", name,
                         sbx_errno_text(-r).text);
}

void sbx_file_give_back(void *memory, size_t from, size_t to)
{
    size_t first = (from + SBX_FILE_PAGE - 1) / SBX_FILE_PAGE * SBX_FILE_PAGE;
    size_t last = to / SBX_FILE_PAGE * SBX_FILE_PAGE;
    if (first < last) {
        (void)madvise((char *)memory + first, last - first, MADV_REMOVE);
    }
}

int sbx_file_open(int directory, const char *name, int access, uint64_t *ret_size)
{
    SBX_AUTO_CLOSE int fd = openat(directory, name, access | CAREFULLY | O_CLOEXEC);
    if (fd < 0) {
        bool passes =
            errno == ENOENT || errno == EMFILE || errno == ENFILE || errno == ENOMEM;
        return passes ? -errno : -EBADMSG;
    }
    struct stat status;
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || status.st_size < 0) {
        return -EBADMSG;
    }
    *ret_size = (uint64_t)status.st_size;
    return sbx_fd_steal(&fd);
}

int sbx_file_read(int fd, void *buffer, size_t size, uint64_t offset)
{
    char *next = buffer;
    while (size > 0) {
        ssize_t length = pread(fd, next, size, (off_t)offset);
        if (length < 0 && errno == EINTR) {
            continue;
        }
        if (length <= 0) {
            return -EBADMSG;
        }
        next += length;
        offset += (uint64_t)length;
        size -= (size_t)length;
    }
    return 0;
}

int sbx_file_write(int fd, const void *data, size_t size, uint64_t offset)
{
    const char *next = data;
    while (size > 0) {
        ssize_t length = pwrite(fd, next, size, (off_t)offset);
        if (length < 0 && errno == EINTR) {
            continue;
        }
        if (length < 0) {
            return -errno;
        }
        next += length;
        offset += (uint64_t)length;
        size -= (size_t)length;
    }
    return 0;
}
