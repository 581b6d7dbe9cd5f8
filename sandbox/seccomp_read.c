/*
 * seccomp_read.c - a filter of the caller's, from a descriptor: see seccomp.h. Alone in a
 * file, since sbx-inner reads its filter in the same way and needs no table.
 */
#include "sandbox/seccomp.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"

#include <errno.h>
#include <linux/filter.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define FILTER_SIZE_MAX (BPF_MAXINSNS * sizeof(struct sock_filter))
/* For whoever writes it into a pipe. No signal would end the wait. */
#define READ_BOUND_US (10 * (uint64_t)SBX_US_PER_S)

static int failed(struct sbx_error *err, int code, int fd)
{
    return sbx_error_set(err, code, SBX_STAGE_CHECK,
                         "seccomp filter from descriptor %d: %s", fd,
                         sbx_errno_text(code).text);
}

/* False: the time is over. What else is wrong, reading will tell. */
static bool await_more(int fd, uint64_t until_us)
{
    struct pollfd more = {.fd = fd, .events = POLLIN};
    int ready = -1;
    do {
        uint64_t now_us = sbx_clock_us();
        int left_ms = now_us < until_us ? (int)((until_us - now_us) / 1000) + 1 : 0;
        ready = poll(&more, 1, left_ms);
    } while (ready < 0 && errno == EINTR);
    return ready != 0;
}

/* To the end, or until the buffer is full. Bytes read, or a negative errno. */
static ssize_t read_all(int fd, char *buffer, size_t size)
{
    uint64_t until_us = sbx_clock_add(sbx_clock_us(), READ_BOUND_US);
    size_t used = 0;
    while (used < size) {
        if (!await_more(fd, until_us)) {
            return -ETIMEDOUT;
        }
        ssize_t length = read(fd, buffer + used, size - used);
        if (length == 0) {
            break;
        }
        if (length < 0 && errno != EINTR) {
            return -errno;
        }
        used += length > 0 ? (size_t)length : 0;
    }
    return (ssize_t)used;
}

int sbx_seccomp_read(int fd, struct sock_filter **ret_program, size_t *ret_count,
                     struct sbx_error *err)
{
    SBX_AUTO_FREE char *buffer = malloc(FILTER_SIZE_MAX + 1);
    if (buffer == NULL) {
        return failed(err, ENOMEM, fd);
    }
    ssize_t length = read_all(fd, buffer, FILTER_SIZE_MAX + 1);
    if (length < 0) {
        return failed(err, (int)-length, fd);
    }
    size_t size = (size_t)length;
    if (size == 0 || size > FILTER_SIZE_MAX || size % sizeof(struct sock_filter) != 0) {
        return sbx_error_set(
            err, EINVAL, SBX_STAGE_CHECK,
            "seccomp filter from descriptor %d: not 1 to %d instructions "
            "of %zu bytes each, but %s%zu bytes (EINVAL)",
            fd, BPF_MAXINSNS, sizeof(struct sock_filter),
            size > FILTER_SIZE_MAX ? "at least " : "", size);
    }
    *ret_program = (struct sock_filter *)(void *)buffer;
    *ret_count = size / sizeof(struct sock_filter);
    buffer = NULL;
    return 0;
}
