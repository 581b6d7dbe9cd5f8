/*
 * proc.c - see proc.h.
 *
 * The first half are parsers: they look at nothing but the text, and accept only what the
 * kernel's own formats (fs/proc/array.c, task_mmu.c, base.c) can print. The second half
 * opens and reads. Nothing here allocates, uses stdio or depends on a locale.
 *
 * Whoever is watched chooses the bytes of its own name, and sometimes the length of a
 * line (its supplementary groups): neither may hide or forge another field.
 */
#include "reaper/proc.h"

#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* ---- numbers ---- */

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* Reads a decimal number as the kernel prints it: digits, no needless zero in front.
 * Returns what follows it, or NULL when there is none or it does not fit. */
static inline const char *number(const char *at, const char *end, uint64_t *ret_value)
{
    uint64_t value = 0;
    const char *start = at;
    for (; at < end && is_digit(*at); at++) {
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

/* Reads `count` numbers with one blank between them and a line feed after the last. */
static int number_line(const char *text, size_t length, uint64_t *values, size_t count)
{
    const char *at = text;
    const char *end = text + length;
    for (size_t i = 0; i < count; i++) {
        at = number(at, end, &values[i]);
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
    const char *at = number(text, close, &pid);
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
        at = number(at, end, &value[field]);
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

/* ---- files of "Key: value" lines ---- */

enum value_kind { VALUE_KIB, VALUE_MASK, VALUE_UID, VALUE_NSPID };

struct key {
    const char *name;
    size_t length;
    enum value_kind kind;
    size_t offset; /* of the uint64_t, for VALUE_KIB and VALUE_MASK */
};

#define KEY(name, kind, offset)                                                          \
    {                                                                                    \
        name ":", sizeof(name ":") - 1, kind, offset                                     \
    }

static const struct key status_keys[] = {
    KEY("Uid", VALUE_UID, 0),
    KEY("NSpid", VALUE_NSPID, 0),
    KEY("VmHWM", VALUE_KIB, offsetof(struct sbx_proc_status, hwm_bytes)),
    KEY("VmRSS", VALUE_KIB, offsetof(struct sbx_proc_status, rss_bytes)),
    KEY("RssAnon", VALUE_KIB, offsetof(struct sbx_proc_status, anon_bytes)),
    KEY("RssShmem", VALUE_KIB, offsetof(struct sbx_proc_status, shmem_bytes)),
    KEY("VmSwap", VALUE_KIB, offsetof(struct sbx_proc_status, swap_bytes)),
    KEY("SigBlk", VALUE_MASK, offsetof(struct sbx_proc_status, sig_blocked)),
    KEY("SigIgn", VALUE_MASK, offsetof(struct sbx_proc_status, sig_ignored)),
    KEY("SigCgt", VALUE_MASK, offsetof(struct sbx_proc_status, sig_caught)),
};

static const struct key smaps_keys[] = {
    KEY("Rss", VALUE_KIB, offsetof(struct sbx_proc_smaps, rss_bytes)),
    KEY("Pss", VALUE_KIB, offsetof(struct sbx_proc_smaps, pss_bytes)),
    KEY("Pss_Anon", VALUE_KIB, offsetof(struct sbx_proc_smaps, anon_bytes)),
    KEY("Pss_Shmem", VALUE_KIB, offsetof(struct sbx_proc_smaps, shmem_bytes)),
    KEY("SwapPss", VALUE_KIB, offsetof(struct sbx_proc_smaps, swap_pss_bytes)),
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct key *find_key(const struct key *keys, size_t count, const char *line,
                                  size_t length)
{
    for (size_t i = 0; i < count; i++) {
        if (length >= keys[i].length && line[0] == keys[i].name[0] &&
            memcmp(line, keys[i].name, keys[i].length) == 0) {
            return &keys[i];
        }
    }
    return NULL;
}

/* "  1696 kB" into bytes. A line that comes twice was forged. */
static int kib_value(const char *at, const char *end, uint64_t *value)
{
    uint64_t kib;
    while (at < end && (*at == ' ' || *at == '\t')) {
        at++;
    }
    at = number(at, end, &kib);
    if (at == NULL || end - at != 3 || memcmp(at, " kB", 3) != 0 ||
        kib > UINT64_MAX / 1024 || *value != SBX_UNKNOWN) {
        return -EBADMSG;
    }
    *value = kib * 1024;
    return 0;
}

/* A signal mask: exactly 16 digits. */
static int mask_value(const char *at, const char *end, uint64_t *value)
{
    uint64_t bits = 0;
    if (end - at != 17 || *at != '\t' || *value != SBX_UNKNOWN) {
        return -EBADMSG;
    }
    for (at++; at < end; at++) {
        if (is_digit(*at)) {
            bits = bits << 4 | (uint64_t)(*at - '0');
        } else if (*at >= 'a' && *at <= 'f') {
            bits = bits << 4 | (uint64_t)(*at - 'a' + 10);
        } else {
            return -EBADMSG;
        }
    }
    *value = bits;
    return 0;
}

#define TAB_VALUES_MAX 64 /* namespaces nest 32 deep */

/* Numbers with a tab before each. How many, at least 1, or -EBADMSG. */
static int tab_values(const char *at, const char *end, uint64_t max,
                      uint64_t values[static TAB_VALUES_MAX])
{
    int count = 0;
    while (at < end) {
        if (*at != '\t' || count == TAB_VALUES_MAX) {
            return -EBADMSG;
        }
        at = number(at + 1, end, &values[count]);
        if (at == NULL || values[count] > max) {
            return -EBADMSG;
        }
        count++;
    }
    return count == 0 ? -EBADMSG : count;
}

static int uid_value(const char *at, const char *end, struct sbx_proc_status *status)
{
    uint64_t values[TAB_VALUES_MAX];
    if (status->real_uid != (uid_t)-1 || tab_values(at, end, UINT32_MAX, values) != 4) {
        return -EBADMSG;
    }
    status->real_uid = (uid_t)values[0];
    return 0;
}

static int nspid_value(const char *at, const char *end, struct sbx_proc_status *status)
{
    uint64_t values[TAB_VALUES_MAX];
    int count = tab_values(at, end, INT_MAX, values);
    if (count < 1 || status->namespace_depth != 0) {
        return -EBADMSG;
    }
    status->namespace_pid = (pid_t)values[count - 1];
    status->namespace_depth = (unsigned)count;
    return 0;
}

/* ---- status ---- */

struct status_reader {
    struct sbx_proc_status status;
    bool named; /* the first line was there */
};

static const struct sbx_proc_status unknown_status = {
    .hwm_bytes = SBX_UNKNOWN,
    .rss_bytes = SBX_UNKNOWN,
    .anon_bytes = SBX_UNKNOWN,
    .shmem_bytes = SBX_UNKNOWN,
    .swap_bytes = SBX_UNKNOWN,
    .sig_blocked = SBX_UNKNOWN,
    .sig_ignored = SBX_UNKNOWN,
    .sig_caught = SBX_UNKNOWN,
    .real_uid = (uid_t)-1,
};

static int status_line(struct status_reader *reader, const char *line, const char *end)
{
    struct sbx_proc_status *status = &reader->status;
    size_t length = (size_t)(end - line);
    if (!reader->named) {
        /* The kernel writes a line feed of the name as \n, so its line is one line. */
        reader->named = length >= 6 && memcmp(line, "Name:\t", 6) == 0;
        return reader->named ? 0 : -EBADMSG;
    }
    const struct key *key = find_key(status_keys, COUNT(status_keys), line, length);
    if (key == NULL) {
        return 0;
    }
    uint64_t *value = (uint64_t *)(void *)((char *)status + key->offset);
    const char *at = line + key->length;
    switch (key->kind) {
    case VALUE_KIB:
        return kib_value(at, end, value);
    case VALUE_MASK:
        return mask_value(at, end, value);
    case VALUE_UID:
        return uid_value(at, end, status);
    case VALUE_NSPID:
        return nspid_value(at, end, status);
    }
    return -EBADMSG;
}

/* Takes in the whole lines of a piece of text; *ret_used is where the last one ended. */
static int status_feed(struct status_reader *reader, const char *text, size_t length,
                       size_t *ret_used)
{
    const char *line = text;
    const char *end = text + length;
    while (line < end) {
        const char *feed = memchr(line, '\n', (size_t)(end - line));
        if (feed == NULL) {
            break;
        }
        int rc = status_line(reader, line, feed);
        if (rc < 0) {
            return rc;
        }
        line = feed + 1;
    }
    *ret_used = (size_t)(line - text);
    return 0;
}

int sbx_proc_parse_status(const char *text, size_t length,
                          struct sbx_proc_status *ret_status)
{
    struct status_reader reader = {unknown_status, false};
    size_t used = 0;
    int rc = status_feed(&reader, text, length, &used);
    if (rc < 0 || used != length || !reader.named) {
        return -EBADMSG;
    }
    *ret_status = reader.status;
    return 0;
}

/* ---- smaps_rollup ---- */

/* "5619a965e000-7ffe95d7c000 ---p 00000000 00:00 0          [rollup]" */
static bool is_rollup_header(const char *line, size_t length)
{
    static const char mark[] = " [rollup]";
    size_t mark_length = sizeof(mark) - 1;
    size_t dash = 0;
    while (dash < length &&
           (is_digit(line[dash]) || (line[dash] >= 'a' && line[dash] <= 'f'))) {
        dash++;
    }
    return dash > 0 && dash < length && line[dash] == '-' && length > mark_length &&
           memcmp(line + length - mark_length, mark, mark_length) == 0;
}

static int smaps_line(struct sbx_proc_smaps *smaps, const char *line, const char *end)
{
    size_t length = (size_t)(end - line);
    const struct key *key = find_key(smaps_keys, COUNT(smaps_keys), line, length);
    if (key == NULL) {
        return 0;
    }
    uint64_t *value = (uint64_t *)(void *)((char *)smaps + key->offset);
    return kib_value(line + key->length, end, value);
}

int sbx_proc_parse_smaps_rollup(const char *text, size_t length,
                                struct sbx_proc_smaps *ret_smaps)
{
    struct sbx_proc_smaps smaps = {SBX_UNKNOWN, SBX_UNKNOWN, SBX_UNKNOWN, SBX_UNKNOWN,
                                   SBX_UNKNOWN};
    const char *line = text;
    const char *end = text + length;
    bool header = true;
    while (line < end) {
        const char *feed = memchr(line, '\n', (size_t)(end - line));
        if (feed == NULL) {
            return -EBADMSG;
        }
        if (header) {
            if (!is_rollup_header(line, (size_t)(feed - line))) {
                return -EBADMSG;
            }
            header = false;
        } else if (smaps_line(&smaps, line, feed) < 0) {
            return -EBADMSG;
        }
        line = feed + 1;
    }
    if (smaps.rss_bytes == SBX_UNKNOWN || smaps.pss_bytes == SBX_UNKNOWN) {
        return -EBADMSG;
    }
    *ret_smaps = smaps;
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

int sbx_proc_smaps_at(int proc_fd, pid_t pid, struct sbx_proc_smaps *ret_smaps)
{
    char text[4096];
    SBX_AUTO_CLOSE int fd = sbx_proc_open(proc_fd, pid, "smaps_rollup");
    if (fd < 0) {
        return fd;
    }
    ssize_t length = sbx_fd_pread_text(fd, text, sizeof(text));
    if (length < 0) {
        return (int)length;
    }
    if (length == 0) {
        return -ESRCH; /* no memory to speak of: a zombie; not the same as zero bytes */
    }
    return sbx_proc_parse_smaps_rollup(text, (size_t)length, ret_smaps);
}

static ssize_t pread_again(int fd, char *buffer, size_t size, off_t offset)
{
    ssize_t got;
    do {
        got = pread(fd, buffer, size, offset);
    } while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}

#define STATUS_CHUNK 8192
#define STATUS_CHUNKS_MAX 512
#define STATUS_HEAD 64

/* A line that fills the buffer: its head is kept, so that it is still known by its key
 * when its end arrives. Only lines that nobody here reads may be that long. */
static int status_cut(char buffer[static STATUS_CHUNK], size_t *kept)
{
    if (find_key(status_keys, COUNT(status_keys), buffer, STATUS_HEAD) != NULL) {
        return -EBADMSG;
    }
    *kept = STATUS_HEAD;
    return 0;
}

/* One read nearly always. But `Groups:` stands before the memory lines, and a process
 * with 65,536 groups must not get out of sight by them, so a long text is read on in
 * pieces (the kernel keeps it as it was at the first read). */
static int status_read(int fd, struct status_reader *reader)
{
    char buffer[STATUS_CHUNK];
    size_t kept = 0;
    off_t offset = 0;
    for (int chunk = 0; chunk < STATUS_CHUNKS_MAX; chunk++) {
        size_t room = sizeof(buffer) - kept;
        ssize_t got = pread_again(fd, buffer + kept, room, offset);
        if (got < 0) {
            return (int)got;
        }
        offset += got;
        size_t length = kept + (size_t)got;
        size_t used = 0;
        int rc = status_feed(reader, buffer, length, &used);
        if (rc < 0) {
            return rc;
        }
        kept = length - used;
        if ((size_t)got < room) {
            return kept == 0 && reader->named ? 0 : -EBADMSG;
        }
        memmove(buffer, buffer + used, kept);
        if (kept == sizeof(buffer) && (rc = status_cut(buffer, &kept)) < 0) {
            return rc;
        }
    }
    return -EFBIG;
}

int sbx_proc_status_at(int proc_fd, pid_t pid, struct sbx_proc_status *ret_status)
{
    struct status_reader reader = {unknown_status, false};
    SBX_AUTO_CLOSE int fd = sbx_proc_open(proc_fd, pid, "status");
    if (fd < 0) {
        return fd;
    }
    int rc = status_read(fd, &reader);
    if (rc == 0) {
        *ret_status = reader.status;
    }
    return rc;
}

/* ---- children and threads ---- */

/* A number that the end of a buffer may have cut in two. */
struct list {
    uint64_t value;
    bool started;
};

static int list_byte(struct list *list, char byte, sbx_proc_visit *visit, void *context)
{
    if (is_digit(byte)) {
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
        ssize_t got = pread_again(fd, buffer, sizeof(buffer), offset);
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
    if (number(name, end, &tid) != end || tid == 0 || tid > INT_MAX) {
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
