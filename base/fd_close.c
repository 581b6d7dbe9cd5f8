/*
 * fd_close.c - closes what a process has inherited and nobody has given it: see fd.h.
 */
#include "base/fd.h"

#include "base/text.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

static int by_number(const void *left, const void *right)
{
    int a = *(const int *)left;
    int b = *(const int *)right;
    return a < b ? -1 : a > b;
}

/* Where the kernel cannot close a range: one by one, as /proc lists them. */
static int close_listed(const int *keep, size_t count)
{
    SBX_AUTO_CLOSEDIR DIR *directory = opendir("/proc/self/fd");
    if (directory == NULL) {
        return -errno;
    }
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        uint64_t number = 0;
        if (sbx_text_count(entry->d_name, &number) < 0 || number > INT_MAX) {
            continue;
        }
        int fd = (int)number;
        if (fd > STDERR_FILENO && fd != dirfd(directory) &&
            bsearch(&fd, keep, count, sizeof *keep, by_number) == NULL) {
            (void)close(fd);
        }
    }
    return 0;
}

int sbx_fd_close_others(int *keep, size_t count)
{
    unsigned from = STDERR_FILENO + 1;
    qsort(keep, count, sizeof *keep, by_number);
    for (size_t i = 0; i <= count; i++) {
        unsigned next = i < count ? (unsigned)keep[i] : ~0U;
        bool gap = i < count ? next > from : true;
        if (gap && close_range(from, i < count ? next - 1 : ~0U, 0) < 0) {
            return close_listed(keep, count);
        }
        from = i < count && next >= from ? next + 1 : from;
    }
    return 0;
}
