/*
 * fd.h - descriptors: scoped closing, whole reads and writes, and keeping ours out of the
 * command.
 *
 * Every descriptor that this project opens is close-on-exec from birth.
 */
#ifndef SBX_BASE_FD_H
#define SBX_BASE_FD_H

#include <dirent.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

static inline void sbx_closep(const int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
    }
}

static inline void sbx_freep(void *pointer)
{
    void *memory = *(void **)pointer;
    free(memory);
}

static inline void sbx_closedirp(DIR **directory)
{
    if (*directory != NULL) {
        (void)closedir(*directory);
    }
}

/* On a local: closed, freed at the end of its scope. */
#define SBX_AUTO_CLOSE __attribute__((cleanup(sbx_closep)))
#define SBX_AUTO_FREE __attribute__((cleanup(sbx_freep)))
#define SBX_AUTO_CLOSEDIR __attribute__((cleanup(sbx_closedirp)))

/* Takes the descriptor out of a scoped variable. */
static inline int sbx_fd_steal(int *fd)
{
    int stolen = *fd;
    *fd = -1;
    return stolen;
}

/* Closes *fd if it is open and makes it -1. */
static inline void sbx_fd_drop(int *fd)
{
    sbx_closep(fd);
    *fd = -1;
}

/* Reads from offset 0 in one pread into buffer and terminates it. Returns the number of
 * bytes, -ENOBUFS when the text does not fit in size - 1 bytes, or another negative
 * errno. For the small files of /proc and cgroup. EINTR is retried. */
ssize_t sbx_fd_pread_text(int fd, char *buffer, size_t size);

/* Opens path below directory (AT_FDCWD or a descriptor), reads it like sbx_fd_pread_text,
 * closes it. */
ssize_t sbx_fd_read_text_at(int directory, const char *path, char *buffer, size_t size);

/* Writes all of it, however many writes it takes. 0 or a negative errno. */
int sbx_fd_write_all(int fd, const void *data, size_t size);

/* Opens /dev/null on those of 0, 1 and 2 that are closed. First thing in a program: else
 * a later open lands there. 0 or a negative errno. */
int sbx_fd_open_standard(void);

/* A stream of its own over a directory that is open as `directory`, from its beginning.
 * NULL, with errno, when it cannot be had. */
DIR *sbx_fd_list(int directory);

/* Marks every descriptor from `lowest` up close-on-exec: close_range, or one by one where
 * the kernel lacks it. 0 or a negative errno. */
int sbx_fd_cloexec_from(int lowest);

/* Closes every descriptor above 2 but those `count` ones, which it sorts. 0 or a negative
 * errno. */
int sbx_fd_close_others(int *keep, size_t count);

#endif
