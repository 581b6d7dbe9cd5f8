/*
 * proc_lines.c - see proc.h: files of "Key: value" lines, status and smaps_rollup.
 *
 * The parsers look at nothing but the text, and accept only what the kernel's own formats
 * (fs/proc/array.c, task_mmu.c) can print. Nothing here allocates, uses stdio or depends
 * on a locale. Whoever is watched chooses the bytes of its own name, and the length of a
 * line (its supplementary groups): neither may hide or forge another line.
 */
#include "reaper/proc.h"

#include "base/fd.h"
#include "reaper/proc_private.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

/* ---- "Key: value" ---- */

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
    KEY("Private_Clean", VALUE_KIB, offsetof(struct sbx_proc_smaps, private_clean_bytes)),
    KEY("Private_Dirty", VALUE_KIB, offsetof(struct sbx_proc_smaps, private_dirty_bytes)),
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
    at = sbx_proc_number(at, end, &kib);
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
        if (sbx_is_digit(*at)) {
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
        at = sbx_proc_number(at + 1, end, &values[count]);
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
        ssize_t got = sbx_proc_pread(fd, buffer + kept, room, offset);
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

/* ---- smaps_rollup ---- */

/* "5619a965e000-7ffe95d7c000 ---p 00000000 00:00 0          [rollup]" */
static bool is_rollup_header(const char *line, size_t length)
{
    static const char mark[] = " [rollup]";
    size_t mark_length = sizeof(mark) - 1;
    size_t dash = 0;
    while (dash < length &&
           (sbx_is_digit(line[dash]) || (line[dash] >= 'a' && line[dash] <= 'f'))) {
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
    struct sbx_proc_smaps smaps = {
        .rss_bytes = SBX_UNKNOWN,
        .pss_bytes = SBX_UNKNOWN,
        .anon_bytes = SBX_UNKNOWN,
        .shmem_bytes = SBX_UNKNOWN,
        .swap_pss_bytes = SBX_UNKNOWN,
        .private_clean_bytes = SBX_UNKNOWN,
        .private_dirty_bytes = SBX_UNKNOWN,
    };
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
