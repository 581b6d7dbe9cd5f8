/*
 * lines.c - see lines.h. One buffer of fixed size, which is moved to its front when a
 * line reaches its end.
 */
#include "cgroup/lines.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_SIZE ((size_t)64 * 1024)
#define TOTAL_MAX (UINT64_C(64) * 1024 * 1024)

int sbx_lines_open(int directory, const char *path, struct sbx_lines *ret_lines)
{
    SBX_AUTO_CLOSE int fd = openat(directory, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return -errno;
    }
    /* One more, so that a last line without a line feed can be terminated. */
    char *buffer = malloc(BUFFER_SIZE + 1);
    if (buffer == NULL) {
        return -ENOMEM;
    }
    *ret_lines = (struct sbx_lines){.fd = sbx_fd_steal(&fd), .buffer = buffer};
    return 0;
}

void sbx_lines_close(struct sbx_lines *lines)
{
    if (lines->buffer != NULL) {
        sbx_fd_drop(&lines->fd);
        free(lines->buffer);
        lines->buffer = NULL;
    }
}

/* Reads once more behind what is there. 0 or a negative errno. */
static int more(struct sbx_lines *lines)
{
    ssize_t length;
    memmove(lines->buffer, lines->buffer + lines->start, lines->end - lines->start);
    lines->end -= lines->start;
    lines->start = 0;
    do {
        length = read(lines->fd, lines->buffer + lines->end, BUFFER_SIZE - lines->end);
    } while (length < 0 && errno == EINTR);
    if (length < 0) {
        return -errno;
    }
    lines->ended = length == 0;
    lines->end += (size_t)length;
    lines->total += (uint64_t)length;
    return lines->total > TOTAL_MAX ? -EFBIG : 0;
}

int sbx_lines_next(struct sbx_lines *lines, char **ret_line)
{
    bool dropping = false; /* inside a line that is too long */
    for (;;) {
        char *line = lines->buffer + lines->start;
        size_t length = lines->end - lines->start;
        char *feed = memchr(line, '\n', length);
        if (feed == NULL && lines->ended) {
            lines->start = lines->end;
            line[length] = '\0';
            *ret_line = line;
            return length > 0 && !dropping ? 1 : 0;
        }
        if (feed != NULL) {
            lines->start += (size_t)(feed - line) + 1;
            *feed = '\0';
            *ret_line = line;
            if (!dropping) {
                return 1;
            }
            dropping = false;
            continue;
        }
        if (length == BUFFER_SIZE) {
            dropping = true;
            lines->start = lines->end;
        }
        int result = more(lines);
        if (result < 0) {
            return result;
        }
    }
}
