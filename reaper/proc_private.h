/*
 * proc_private.h - what the two halves of our /proc readers share: a number as the kernel
 * prints it, and a read that a signal does not cut short. For proc.c and proc_lines.c.
 */
#ifndef SBX_REAPER_PROC_PRIVATE_H
#define SBX_REAPER_PROC_PRIVATE_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

static inline bool sbx_is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* Reads a decimal number as the kernel prints it: digits, no needless zero in front.
 * Returns what follows it, or NULL when there is none or it does not fit. */
static inline const char *sbx_proc_number(const char *at, const char *end,
                                          uint64_t *ret_value)
{
    uint64_t value = 0;
    const char *start = at;
    for (; at < end && sbx_is_digit(*at); at++) {
        if (__builtin_mul_overflow(value, 10U, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value)) {
            return NULL;
        }
    }
    if (at == start || (*start == '0' && at - start > 1)) {
        return NULL;
    }
    *ret_value = value;
    return at;
}

static inline ssize_t sbx_proc_pread(int fd, char *buffer, size_t size, off_t offset)
{
    ssize_t got;
    do {
        got = pread(fd, buffer, size, offset);
    } while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}

#endif
