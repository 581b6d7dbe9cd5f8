/*
 * timeline.c - see timeline.h. Relies on SIGPIPE and its like being blocked. A file that
 * cannot be set aside (its name leads elsewhere by now, or the directory is not ours to
 * write) is emptied instead: the bound holds in any case. Never allocates.
 */
#include "monitor/timeline.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODE 0644

struct sbx_timeline_row sbx_timeline_row_of(const struct sbx_sample *sample)
{
    return (struct sbx_timeline_row){
        .elapsed_us = sample->elapsed_us,
        .cpu_us = sample->cpu_us,
        .memory_bytes = sample->memory_bytes,
        .memory_bound_bytes = sample->memory_bound_bytes,
        .processes = sample->processes,
        .threads = sample->threads,
    };
}

size_t sbx_timeline_format(const struct sbx_timeline_row *row, bool json,
                           char buffer[static SBX_TIMELINE_ROW_SIZE])
{
    static const char header[] =
        "elapsed_us,cpu_us,memory_bytes,memory_bound_bytes,processes,threads\n";
    char memory[48] = "";
    int length = 0;
    if (row == NULL) {
        (void)snprintf(buffer, SBX_TIMELINE_ROW_SIZE, "%s", json ? "" : header);
        return json ? 0 : sizeof header - 1;
    }
    if (row->memory_bytes != SBX_UNKNOWN) {
        (void)snprintf(memory, sizeof memory,
                       json ? "\"memory_bytes\":%" PRIu64 "," : "%" PRIu64,
                       row->memory_bytes);
    }
    if (json) {
        length = snprintf(buffer, SBX_TIMELINE_ROW_SIZE,
                          "{\"elapsed_us\":%" PRIu64 ",\"cpu_us\":%" PRIu64
                          ",%s\"memory_bound_bytes\":%" PRIu64 ",\"processes\":%" PRIu64
                          ",\"threads\":%" PRIu64 "}\n",
                          row->elapsed_us, row->cpu_us, memory, row->memory_bound_bytes,
                          row->processes, row->threads);
    } else {
        length =
            snprintf(buffer, SBX_TIMELINE_ROW_SIZE,
                     "%" PRIu64 ",%" PRIu64 ",%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n",
                     row->elapsed_us, row->cpu_us, memory, row->memory_bound_bytes,
                     row->processes, row->threads);
    }
    return (size_t)length;
}

/* --- the file --- */

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);
    size_t end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

int sbx_timeline_open(int directory, const char *path, struct sbx_timeline_file *ret_file)
{
    struct sbx_timeline_file file = SBX_NO_TIMELINE_FILE;
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    if (strlen(path) >= sizeof parent || strlen(name) >= sizeof file.name) {
        return -ENAMETOOLONG;
    }
    (void)snprintf(parent, sizeof parent, "%.*s", slash != NULL ? (int)(slash - path) : 1,
                   slash == NULL ? "." : path);
    (void)snprintf(file.name, sizeof file.name, "%s", name);
    file.json = ends_with(name, ".jsonl");
    file.directory =
        openat(directory, slash == path ? "/" : parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (file.directory < 0) {
        return -errno;
    }
    int r =
        sbx_log_file_open(file.directory, *name != '\0' ? name : ".", MODE, &file.file);
    if (r < 0) {
        sbx_timeline_close(&file);
        return r;
    }
    *ret_file = file;
    return 0;
}

void sbx_timeline_close(struct sbx_timeline_file *file)
{
    sbx_log_file_close(&file->file);
    sbx_fd_drop(&file->directory);
}

/* Whether the name still leads to the file that we write. */
static bool is_under_its_name(const struct sbx_timeline_file *file,
                              const struct stat *status)
{
    struct stat named;
    return fstatat(file->directory, file->name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           named.st_dev == status->st_dev && named.st_ino == status->st_ino;
}

/* Makes FILE the file FILE.1, and opens another. */
static int set_aside(struct sbx_timeline_file *file)
{
    struct stat status;
    char aside[NAME_MAX + 3];
    (void)snprintf(aside, sizeof aside, "%s.1", file->name);
    if (fstat(file->file.fd, &status) < 0 || !is_under_its_name(file, &status)) {
        return -ENOENT;
    }
    if (renameat(file->directory, file->name, file->directory, aside) < 0) {
        return -errno;
    }
    int fd = openat(file->directory, file->name,
                    O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    status.st_mode & 0777);
    if (fd < 0) {
        return -errno;
    }
    (void)fchmod(fd, status.st_mode & 0777);
    (void)close(file->file.fd);
    file->file.fd = fd;
    return 0;
}

/* --- rows --- */

static void put_header(struct sbx_timeline *timeline)
{
    char header[SBX_TIMELINE_ROW_SIZE];
    size_t length = sbx_timeline_format(NULL, timeline->file->json, header);
    if (length == 0 || timeline->used + length > sizeof timeline->buffer) {
        return;
    }
    memmove(timeline->buffer + length, timeline->buffer, timeline->used);
    memcpy(timeline->buffer, header, length);
    timeline->used += length;
    timeline->headers++;
}

void sbx_timeline_begin(struct sbx_timeline *timeline, struct sbx_timeline_file *file,
                        struct sbx_log_told *told, uint64_t bound_bytes, bool afresh)
{
    struct stat status = {0};
    timeline->file = file;
    timeline->told = told;
    timeline->bound_bytes = bound_bytes;
    timeline->due_us = SBX_FOREVER_US;
    timeline->torn = false;
    timeline->headers = 0;
    timeline->used = 0;
    (void)fstat(file->file.fd, &status);
    timeline->regular = S_ISREG(status.st_mode);
    timeline->size = timeline->regular ? (uint64_t)status.st_size : 0;
    if (!afresh) {
        return;
    }
    if (timeline->regular && ftruncate(file->file.fd, 0) == 0) {
        timeline->size = 0;
    }
    put_header(timeline);
    timeline->due_us = 0;
}

void sbx_timeline_add(struct sbx_timeline *timeline, const struct sbx_timeline_row *row,
                      uint64_t now_us)
{
    /* What the header of the next file needs stays free. */
    size_t room = sizeof timeline->buffer - SBX_TIMELINE_ROW_SIZE;
    if (timeline->used + SBX_TIMELINE_ROW_SIZE > room) {
        sbx_log_fault(timeline->told, ENOBUFS);
        return;
    }
    timeline->used +=
        sbx_timeline_format(row, timeline->file->json, timeline->buffer + timeline->used);
    if (timeline->used > sizeof timeline->buffer / 2) {
        timeline->due_us = 0;
    } else if (timeline->due_us == SBX_FOREVER_US) {
        timeline->due_us = now_us + SBX_TIMELINE_WAIT_US;
    }
}

static size_t count_lines(const char *text, size_t length)
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++) {
        count += text[i] == '\n' ? 1U : 0U;
    }
    return count;
}

/* The front of the buffer is in the file, or is given up. */
static void drop_front(struct sbx_timeline *timeline, size_t length, bool written)
{
    size_t lines = count_lines(timeline->buffer, length);
    size_t headers = lines < timeline->headers ? lines : timeline->headers;
    timeline->headers -= headers;
    if (written) {
        atomic_fetch_add(&timeline->told->written, lines - headers);
        timeline->size += length;
        timeline->torn = length > 0 && timeline->buffer[length - 1] != '\n';
    }
    timeline->used -= length;
    memmove(timeline->buffer, timeline->buffer + length, timeline->used);
}

/* Before a write that would go past the bound. */
static void rotate(struct sbx_timeline *timeline)
{
    bool over = timeline->size + timeline->used > timeline->bound_bytes;
    /* Not in the middle of a row. */
    if (!timeline->regular || !over || timeline->size == 0 || timeline->torn) {
        return;
    }
    if (set_aside(timeline->file) < 0 && ftruncate(timeline->file->file.fd, 0) < 0) {
        return;
    }
    timeline->size = 0;
    if (timeline->headers == 0) {
        put_header(timeline);
    }
}

/* All that waits is lost. What of a row is in the file already gets its end, so that the
 * next one is whole. */
static void give_up(struct sbx_timeline *timeline, int code)
{
    bool torn = timeline->torn;
    sbx_log_fault(timeline->told, code);
    drop_front(timeline, timeline->used, false);
    if (torn) {
        timeline->buffer[0] = '\n';
        timeline->used = 1;
        timeline->headers = 1;
    }
    timeline->due_us = SBX_FOREVER_US;
}

bool sbx_timeline_flush(struct sbx_timeline *timeline)
{
    if (sbx_log_file_ready(&timeline->file->file) < 0) {
        sbx_log_fault(timeline->told, ENXIO);
        return timeline->used == 0;
    }
    rotate(timeline);
    while (timeline->used > 0) {
        ssize_t length = write(timeline->file->file.fd, timeline->buffer, timeline->used);
        if (length >= 0) {
            drop_front(timeline, (size_t)length, true);
        } else if (errno == EAGAIN) {
            return false;
        } else if (errno != EINTR) {
            give_up(timeline, errno);
            return true;
        }
    }
    timeline->due_us = SBX_FOREVER_US;
    return true;
}
