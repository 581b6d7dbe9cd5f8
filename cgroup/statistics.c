/*
 * statistics.c - see statistics.h. Every reading is one pread of a kept descriptor into a
 * buffer on the stack. Guard and monitor may both hold the same descriptors: what one of
 * them has read is no news for the other, so only one of them listens to the alarm.
 */
#include "cgroup/statistics.h"

#include "base/error.h"
#include "base/fd.h"
#include "cgroup/statistics_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

static const char *const file_names[SBX_STATISTICS_FILES] = {
    [SBX_FILE_EVENTS] = "cgroup.events",
    [SBX_FILE_CPU] = "cpu.stat",
    [SBX_FILE_MEMORY_CURRENT] = "memory.current",
    [SBX_FILE_MEMORY_PEAK] = "memory.peak",
    [SBX_FILE_MEMORY_STAT] = "memory.stat",
    [SBX_FILE_MEMORY_EVENTS] = "memory.events",
    [SBX_FILE_MEMORY_EVENTS_LOCAL] = "memory.events.local",
    [SBX_FILE_MEMORY_PRESSURE] = "memory.pressure",
    [SBX_FILE_SWAP_CURRENT] = "memory.swap.current",
    [SBX_FILE_SWAP_PEAK] = "memory.swap.peak",
    [SBX_FILE_PIDS_CURRENT] = "pids.current",
    [SBX_FILE_PIDS_PEAK] = "pids.peak",
    [SBX_FILE_PIDS_EVENTS] = "pids.events",
    [SBX_FILE_PIDS_EVENTS_LOCAL] = "pids.events.local",
};

/* Those whose changes the kernel tells. */
static const enum sbx_statistics_file told[] = {
    SBX_FILE_EVENTS,      SBX_FILE_MEMORY_EVENTS,     SBX_FILE_MEMORY_EVENTS_LOCAL,
    SBX_FILE_PIDS_EVENTS, SBX_FILE_PIDS_EVENTS_LOCAL,
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define TEXT_SIZE 1024       /* of all but memory.stat */
#define LONG_TEXT_SIZE 16384 /* memory.stat has some 2 KiB by now */

/* What there is of it, at most `size` bytes: then it is the beginning. */
static size_t read_text(int fd, char *buffer, size_t size)
{
    ssize_t length;
    do {
        length = pread(fd, buffer, size, 0);
    } while (length < 0 && errno == EINTR);
    return length < 0 ? 0 : (size_t)length;
}

/* In functions of their own: the large buffer is used only while memory.stat is read. */
static __attribute__((noinline)) void read_long(int fd, struct sbx_figures *figures)
{
    char text[LONG_TEXT_SIZE];
    size_t length = read_text(fd, text, sizeof(text));
    sbx_statistics_parse(SBX_FILE_MEMORY_STAT, text, length, figures);
}

static __attribute__((noinline)) void read_short(enum sbx_statistics_file file, int fd,
                                                 struct sbx_figures *figures)
{
    char text[TEXT_SIZE];
    size_t length = read_text(fd, text, sizeof(text));
    sbx_statistics_parse(file, text, length, figures);
}

void sbx_statistics_read(const struct sbx_statistics *statistics, uint32_t files,
                         struct sbx_figures *ret_figures)
{
    struct sbx_figures figures;
    sbx_statistics_forget(&figures);
    for (unsigned file = 0; file < SBX_STATISTICS_FILES; file++) {
        int fd = statistics->fds[file];
        if (fd < 0 || (files & SBX_FILE_BIT(file)) == 0) {
            continue;
        }
        if (file == SBX_FILE_MEMORY_STAT) {
            read_long(fd, &figures);
        } else {
            read_short((enum sbx_statistics_file)file, fd, &figures);
        }
    }
    *ret_figures = figures;
}

/* ---- the alarm ---- */

/* The kernel wakes an open file whose counter has changed since it was last read. A file
 * that was never read is news, so each is read once before. Edges, not levels: a file of
 * a group that is gone stays readable for ever. */
static int open_alarm(const struct sbx_statistics *statistics)
{
    struct sbx_figures figures;
    SBX_AUTO_CLOSE int alarm = epoll_create1(EPOLL_CLOEXEC);
    bool any = false;
    if (alarm < 0) {
        return -1;
    }
    for (size_t i = 0; i < COUNT(told); i++) {
        int fd = statistics->fds[told[i]];
        struct epoll_event event = {.events = EPOLLPRI | EPOLLET, .data = {.fd = fd}};
        if (fd < 0) {
            continue;
        }
        sbx_statistics_read(statistics, SBX_FILE_BIT(told[i]), &figures);
        any = epoll_ctl(alarm, EPOLL_CTL_ADD, fd, &event) == 0 || any;
    }
    return any ? sbx_fd_steal(&alarm) : -1;
}

void sbx_statistics_quiet(const struct sbx_statistics *statistics)
{
    struct epoll_event events[COUNT(told)];
    if (statistics->alarm >= 0) {
        (void)epoll_wait(statistics->alarm, events, (int)COUNT(events), 0);
    }
}

/* ---- opening and closing ---- */

static const struct sbx_statistics closed = {
    .fds = {[0 ... SBX_STATISTICS_FILES - 1] = -1},
    .alarm = -1,
};

static bool is_needed(unsigned file)
{
    return file == SBX_FILE_EVENTS || file == SBX_FILE_CPU;
}

int sbx_statistics_open(int group_fd, struct sbx_statistics *ret_statistics,
                        struct sbx_error *err)
{
    struct sbx_statistics statistics = closed;
    for (unsigned file = 0; file < SBX_STATISTICS_FILES; file++) {
        int fd = openat(group_fd, file_names[file],
                        O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        int code = errno;
        if (fd < 0 && is_needed(file)) {
            sbx_statistics_close(&statistics);
            return sbx_error_set(err, code, SBX_STAGE_CHECK,
                                 "cannot open %s of the group: %s", file_names[file],
                                 sbx_errno_text(code).text);
        }
        statistics.fds[file] = fd;
    }
    statistics.alarm = open_alarm(&statistics);
    *ret_statistics = statistics;
    return 0;
}

void sbx_statistics_close(struct sbx_statistics *statistics)
{
    for (unsigned file = 0; file < SBX_STATISTICS_FILES; file++) {
        sbx_fd_drop(&statistics->fds[file]);
    }
    sbx_fd_drop(&statistics->alarm);
}

/* ---- refused below ---- */

#define DEPTH_MAX 32
#define GROUPS_MAX 4096

/* One group on the way: its directory, which is read on after those below it. */
struct level {
    DIR *directory;
    bool is_full; /* its own limit, or one above, may have refused what is counted here */
};

static bool read_count(int fd, const char *file, uint64_t *ret_count)
{
    char text[TEXT_SIZE];
    char *end = NULL;
    ssize_t length = sbx_fd_read_text_at(fd, file, text, sizeof(text));
    if (length <= 0 || text[0] < '0' || text[0] > '9') {
        return false;
    }
    errno = 0;
    *ret_count = strtoull(text, &end, 10);
    return errno == 0 && *end == '\n';
}

/* Whether its own pids.max may have refused somebody. One that was never reached has
 * not; or anybody could hide from a limit above behind a larger one of his own. */
static bool has_been_full(int fd)
{
    char text[TEXT_SIZE];
    uint64_t limit = 0;
    uint64_t peak = 0;
    ssize_t length = sbx_fd_read_text_at(fd, "pids.max", text, sizeof(text));
    if (length < 0 || strcmp(text, "max\n") == 0) {
        return length < 0;
    }
    return !read_count(fd, "pids.max", &limit) || !read_count(fd, "pids.peak", &peak) ||
           peak >= limit;
}

static uint64_t refused_in(int fd)
{
    char text[TEXT_SIZE];
    uint64_t count = 0;
    ssize_t length = sbx_fd_read_text_at(fd, "pids.events", text, sizeof(text));
    if (length < 0 || !sbx_statistics_find(text, (size_t)length, "max", &count)) {
        return 0;
    }
    return count;
}

/* The next directory in it, opened, or -1 at the end. */
static int next_below(DIR *directory)
{
    struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.' ||
            (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN)) {
            continue;
        }
        int fd = openat(dirfd(directory), entry->d_name,
                        O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0) {
            return fd;
        }
    }
    return -1;
}

static bool enter(struct level *level, int fd_take, bool is_full)
{
    level->is_full = is_full;
    level->directory = fdopendir(fd_take);
    if (level->directory == NULL) {
        sbx_fd_drop(&fd_take);
        return false;
    }
    return true;
}

uint64_t sbx_statistics_refused_below(int group_fd)
{
    struct level levels[DEPTH_MAX];
    uint64_t sum = 0;
    size_t depth = 0;
    int groups = 0;
    /* A fresh description: the offset of the held one is not ours to move. */
    int fd = openat(group_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || !enter(&levels[depth++], fd, false)) {
        return 0;
    }
    while (depth > 0) {
        fd = groups < GROUPS_MAX ? next_below(levels[depth - 1].directory) : -1;
        if (fd < 0) {
            (void)closedir(levels[--depth].directory);
            continue;
        }
        groups++;
        bool is_full = levels[depth - 1].is_full || has_been_full(fd);
        uint64_t refused = is_full ? 0 : refused_in(fd);
        sum = sum > UINT64_MAX - 1 - refused ? UINT64_MAX - 1 : sum + refused;
        if (depth == DEPTH_MAX) {
            sbx_fd_drop(&fd);
        } else if (enter(&levels[depth], fd, is_full)) {
            depth++;
        }
    }
    return sum;
}
