/*
 * proc.c - see proc.h: files that are one line of numbers, lists of pids, and opening.
 * Files of "Key: value" lines are in proc_lines.c.
 *
 * The parsers look at nothing but the text, and accept only what the kernel's own formats
 * (fs/proc/array.c, base.c) can print. Nothing here allocates, uses stdio or depends on a
 * locale. Whoever is watched chooses the bytes of its own name: they may not hide or
 * forge another field.
 */
#include "reaper/proc.h"

#include "base/fd.h"
#include "reaper/proc_private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* ---- numbers ---- */

/* Reads `count` numbers with one blank between them and a line feed after the last. */
static int number_line(const char *text, size_t length, uint64_t *values, size_t count)
{
    const char *at = text;
    const char *end = text + length;
    for (size_t i = 0; i < count; i++) {
        at = sbx_proc_number(at, end, &values[i]);
        if (at == NULL || at == end || *at != (i + 1 < count ? ' ' : '\n')) {
            return -EBADMSG;
        }
        at++;
    }
    return at == end ? 0 : -EBADMSG;
}

/* ---- stat ---- */

/* Numbers of the fields as proc(5) counts them. */
enum {
    STAT_PPID = 4,
    STAT_PGRP = 5,
    STAT_SESSION = 6,
    STAT_TTY = 7,
    STAT_TPGID = 8,
    STAT_UTIME = 14,
    STAT_STIME = 15,
    STAT_CUTIME = 16,
    STAT_CSTIME = 17,
    STAT_PRIORITY = 18,
    STAT_NICE = 19,
    STAT_THREADS = 20,
    STAT_START = 22,
    STAT_RSS = 24,
    STAT_END
};

/* rss: kernels before 6.2 may print a sum of per-thread counters that dips below zero. */
#define STAT_SIGNED                                                                      \
    (1U << STAT_PGRP | 1U << STAT_SESSION | 1U << STAT_TTY | 1U << STAT_TPGID |          \
     1U << STAT_PRIORITY | 1U << STAT_NICE | 1U << STAT_RSS)

/* "PID (NAME" up to the last ')'. */
static int stat_head(const char *text, const char *close, struct sbx_proc_stat *stat)
{
    uint64_t pid;
    const char *at = sbx_proc_number(text, close, &pid);
    if (at == NULL || pid == 0 || pid > INT_MAX || close - at < 2 || at[0] != ' ' ||
        at[1] != '(') {
        return -EBADMSG;
    }
    at += 2;
    size_t length = (size_t)(close - at);
    if (memchr(at, '\0', length) != NULL) {
        return -EBADMSG;
    }
    if (length > SBX_PROC_NAME_SIZE - 1) {
        length = SBX_PROC_NAME_SIZE - 1;
    }
    stat->pid = (pid_t)pid;
    memset(stat->name, 0, sizeof(stat->name));
    memcpy(stat->name, at, length);
    return 0;
}

/* The parsed fields into the struct; `negative` has the bits of those with a minus. */
static int stat_assign(const uint64_t value[static STAT_END], unsigned negative,
                       struct sbx_proc_stat *stat)
{
    if (value[STAT_PPID] > INT_MAX || value[STAT_PGRP] > INT_MAX ||
        value[STAT_SESSION] > INT_MAX) {
        return -EBADMSG;
    }
    if ((negative & (1U << STAT_PGRP | 1U << STAT_SESSION)) != 0) {
        /* What the kernel prints when the process was reaped between the lookup and the
         * reading of its signal state: no parent, group, session, threads or times. */
        bool reaped =
            value[STAT_PGRP] == 1 && value[STAT_SESSION] == 1 && value[STAT_THREADS] == 0;
        return reaped ? -ESRCH : -EBADMSG;
    }
    stat->ppid = (pid_t)value[STAT_PPID];
    stat->pgrp = (pid_t)value[STAT_PGRP];
    stat->session = (pid_t)value[STAT_SESSION];
    stat->utime_ticks = value[STAT_UTIME];
    stat->stime_ticks = value[STAT_STIME];
    stat->cutime_ticks = value[STAT_CUTIME];
    stat->cstime_ticks = value[STAT_CSTIME];
    stat->threads = value[STAT_THREADS];
    stat->start_ticks = value[STAT_START];
    stat->rss_pages = (negative & 1U << STAT_RSS) != 0 ? 0 : value[STAT_RSS];
    return 0;
}

/* " STATE PPID ..." up to rss and the blank behind it. The text ends with a line feed. */
static int stat_tail(const char *at, const char *end, struct sbx_proc_stat *stat)
{
    uint64_t value[STAT_END];
    unsigned negative = 0;
    if (end - at < 4 || at[0] != ' ' || at[2] != ' ') {
        return -EBADMSG;
    }
    stat->state = at[1];
    if ((stat->state < 'A' || stat->state > 'Z') &&
        (stat->state < 'a' || stat->state > 'z')) {
        return -EBADMSG;
    }
    at += 3;
    for (unsigned field = STAT_PPID; field < STAT_END; field++) {
        if (*at == '-') {
            negative |= 1U << field;
            at++;
        }
        at = sbx_proc_number(at, end, &value[field]);
        if (at == NULL || at == end || *at != ' ') {
            return -EBADMSG;
        }
        at++; /* not past the end: the last byte is no blank */
    }
    if ((negative & ~STAT_SIGNED) != 0) {
        return -EBADMSG;
    }
    return stat_assign(value, negative, stat);
}

int sbx_proc_parse_stat(const char *text, size_t length, struct sbx_proc_stat *ret_stat)
{
    struct sbx_proc_stat stat;
    if (length == 0 || text[length - 1] != '\n') {
        return -EBADMSG; /* cut off: what stands last may be half a number */
    }
    const char *close = memrchr(text, ')', length);
    if (close == NULL) {
        return -EBADMSG;
    }
    int rc = stat_head(text, close, &stat);
    if (rc == 0) {
        rc = stat_tail(close + 1, text + length, &stat);
    }
    if (rc == 0) {
        *ret_stat = stat;
    }
    return rc;
}

/* ---- statm, schedstat ---- */

int sbx_proc_parse_statm(const char *text, size_t length,
                         struct sbx_proc_statm *ret_statm)
{
    uint64_t values[7];
    if (number_line(text, length, values, 7) < 0) {
        return -EBADMSG;
    }
    *ret_statm = (struct sbx_proc_statm){
        .size_pages = values[0],
        .resident_pages = values[1],
        .shared_pages = values[2],
    };
    return 0;
}

int sbx_proc_parse_schedstat(const char *text, size_t length, uint64_t *ret_cpu_ns)
{
    uint64_t values[3];
    if (number_line(text, length, values, 3) < 0) {
        return -EBADMSG;
    }
    *ret_cpu_ns = values[0];
    return 0;
}

/* ---- opening and reading ---- */

#define PATH_SIZE 64

/* Appends a pid in decimal. `at` has room for 10 digits. */
static char *put_pid(char *at, pid_t pid)
{
    char digits[10];
    int count = 0;
    for (unsigned rest = (unsigned)pid; rest > 0; rest /= 10) {
        digits[count++] = (char)('0' + rest % 10);
    }
    while (count > 0) {
        *at++ = digits[--count];
    }
    return at;
}

static int open_at(int directory, const char *path, int flags)
{
    int fd = openat(directory, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | flags);
    return fd < 0 ? -errno : fd;
}

static int open_below(int proc_fd, pid_t pid, const char *file, int flags)
{
    char path[PATH_SIZE];
    size_t length = strlen(file);
    if (pid <= 0) {
        return -EINVAL;
    }
    char *at = put_pid(path, pid);
    if (length + 2 > PATH_SIZE - (size_t)(at - path)) {
        return -ENAMETOOLONG;
    }
    *at++ = '/';
    memcpy(at, file, length + 1);
    return open_at(proc_fd, path, flags);
}

int sbx_proc_open(int proc_fd, pid_t pid, const char *file)
{
    return open_below(proc_fd, pid, file, 0);
}

int sbx_proc_open_children(int proc_fd, pid_t pid, pid_t tid)
{
    char file[PATH_SIZE] = "task/";
    if (tid <= 0) {
        return -EINVAL;
    }
    char *at = put_pid(file + 5, tid);
    memcpy(at, "/children", sizeof("/children"));
    return open_below(proc_fd, pid, file, 0);
}

int sbx_proc_stat_at(int proc_fd, pid_t pid, struct sbx_proc_stat *ret_stat)
{
    char text[SBX_PROC_STAT_SIZE];
    SBX_AUTO_CLOSE int fd = sbx_proc_open(proc_fd, pid, "stat");
    if (fd < 0) {
        return fd;
    }
    ssize_t length = sbx_fd_pread_text(fd, text, sizeof(text));
    if (length < 0) {
        return (int)length;
    }
    return sbx_proc_parse_stat(text, (size_t)length, ret_stat);
}

/* ---- children and threads ---- */

/* A number that the end of a buffer may have cut in two. */
struct list {
    uint64_t value;
    bool started;
};

static int list_byte(struct list *list, char byte, sbx_proc_visit *visit, void *context)
{
    if (sbx_is_digit(byte)) {
        if (list->started && list->value == 0) {
            return -EBADMSG;
        }
        list->value = list->value * 10 + (uint64_t)(byte - '0');
        list->started = true;
        return list->value > INT_MAX ? -EBADMSG : 0;
    }
    if (byte != ' ' || list->value == 0) {
        return -EBADMSG;
    }
    pid_t pid = (pid_t)list->value;
    *list = (struct list){0, false};
    return visit(pid, context);
}

int sbx_proc_read_children(int fd, sbx_proc_visit *visit, void *context)
{
    char buffer[4096];
    struct list list = {0, false};
    off_t offset = 0;
    for (;;) {
        ssize_t got = sbx_proc_pread(fd, buffer, sizeof(buffer), offset);
        if (got < 0) {
            return (int)got;
        }
        if (got == 0) { /* a short read is not the end: it may be the end of a page */
            return list.started ? -EBADMSG : 0;
        }
        offset += got;
        for (ssize_t i = 0; i < got; i++) {
            int rc = list_byte(&list, buffer[i], visit, context);
            if (rc != 0) {
                return rc;
            }
        }
    }
}

static int visit_entry(const char *name, sbx_proc_visit *visit, void *context)
{
    uint64_t tid;
    if (name[0] == '.') {
        return 0;
    }
    const char *end = name + strlen(name);
    if (sbx_proc_number(name, end, &tid) != end || tid == 0 || tid > INT_MAX) {
        return -EBADMSG;
    }
    return visit((pid_t)tid, context);
}

int sbx_proc_each_thread(int proc_fd, pid_t pid, sbx_proc_visit *visit, void *context)
{
    _Alignas(struct dirent64) char buffer[4096];
    SBX_AUTO_CLOSE int fd = open_below(proc_fd, pid, "task", O_DIRECTORY);
    if (fd < 0) {
        return fd;
    }
    for (;;) {
        ssize_t got = getdents64(fd, buffer, sizeof(buffer));
        if (got <= 0) {
            return got < 0 ? -errno : 0;
        }
        for (ssize_t at = 0; at < got;) {
            const struct dirent64 *entry = (const void *)(buffer + at);
            at += entry->d_reclen;
            int rc = visit_entry(entry->d_name, visit, context);
            if (rc != 0) {
                return rc;
            }
        }
    }
}

/* ---- units ---- */

static uint64_t add_ticks(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? SBX_UNKNOWN : sum;
}

static uint64_t ticks_to_us(uint64_t ticks)
{
    uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);
    uint64_t us;
    if (__builtin_mul_overflow(ticks / hz, 1000000U, &us)) {
        return SBX_UNKNOWN;
    }
    return add_ticks(us, ticks % hz * 1000000U / hz);
}

uint64_t sbx_proc_own_cpu_us(const struct sbx_proc_stat *stat)
{
    return ticks_to_us(add_ticks(stat->utime_ticks, stat->stime_ticks));
}

uint64_t sbx_proc_tree_cpu_us(const struct sbx_proc_stat *stat)
{
    uint64_t own = add_ticks(stat->utime_ticks, stat->stime_ticks);
    uint64_t children = add_ticks(stat->cutime_ticks, stat->cstime_ticks);
    return ticks_to_us(add_ticks(own, children));
}

uint64_t sbx_proc_rss_bytes(const struct sbx_proc_stat *stat)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t bytes;
    return __builtin_mul_overflow(stat->rss_pages, page, &bytes) ? SBX_UNKNOWN : bytes;
}
