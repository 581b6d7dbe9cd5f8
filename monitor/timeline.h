/*
 * timeline.h - every sample as a row of a file: CSV with a header line, or JSON lines
 * where its name ends in .jsonl.
 *
 * The columns are elapsed_us, cpu_us, memory_bytes (empty, or an absent key, where a
 * cheaper bound already showed it below the limit), memory_bound_bytes (never less than
 * it), processes, threads. Rows are gathered for a moment, and written together. A
 * regular file that has grown to its bound becomes FILE.1, in place of an earlier one,
 * and a new one begins: so no run fills a disk, and the end of the run is always there.
 */
#ifndef SBX_MONITOR_TIMELINE_H
#define SBX_MONITOR_TIMELINE_H

#include "monitor/judge.h"
#include "monitor/log_sinks.h"

#include <limits.h>
#include <sbx/sbx.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SBX_TIMELINE_BOUND_BYTES (UINT64_C(64) << 20)
#define SBX_TIMELINE_BUFFER_SIZE ((size_t)64 * 1024)
/* How long a row waits for others. */
#define SBX_TIMELINE_WAIT_US 100000U

struct sbx_timeline_row {
    uint64_t elapsed_us;
    uint64_t cpu_us;
    uint64_t memory_bytes; /* or SBX_UNKNOWN */
    uint64_t memory_bound_bytes;
    uint64_t processes;
    uint64_t threads;
};

struct sbx_timeline_row sbx_timeline_row_of(const struct sbx_sample *sample);

#define SBX_TIMELINE_ROW_SIZE 256

/* The row, or for NULL the header (which JSON lines have not), with its line feed.
 * Returns the length. */
size_t sbx_timeline_format(const struct sbx_timeline_row *row, bool json,
                           char buffer[static SBX_TIMELINE_ROW_SIZE]);

/* Where it goes. */
struct sbx_timeline_file {
    struct sbx_log_file file;
    int directory; /* of its name; -1: none */
    char name[NAME_MAX + 1];
    bool json;
};

#define SBX_NO_TIMELINE_FILE                                                             \
    ((struct sbx_timeline_file){.file = {.fd = -1, .node = -1}, .directory = -1})

/* Opens it, and makes it where it is absent; what is in it stays for now. 0 or a negative
 * errno. */
int sbx_timeline_open(int directory, const char *path,
                      struct sbx_timeline_file *ret_file);
void sbx_timeline_close(struct sbx_timeline_file *file);

struct sbx_timeline {
    struct sbx_timeline_file *file; /* borrowed */
    struct sbx_log_told *told;      /* borrowed */
    uint64_t bound_bytes;
    bool regular;
    uint64_t size;
    uint64_t due_us; /* when the rows are to be written; SBX_FOREVER_US: there are none */
    bool torn;       /* a row broke off in the file */
    size_t headers;  /* lines in the buffer's front that are no rows */
    size_t used;
    char buffer[SBX_TIMELINE_BUFFER_SIZE];
};

/* `afresh`: empties a regular file, and begins with the header. */
void sbx_timeline_begin(struct sbx_timeline *timeline, struct sbx_timeline_file *file,
                        struct sbx_log_told *told, uint64_t bound_bytes, bool afresh);

/* Never waits; a row for which there is no room is lost. */
void sbx_timeline_add(struct sbx_timeline *timeline, const struct sbx_timeline_row *row,
                      uint64_t now_us);

/* Writes what is there. True: all of it is through, or lost; false: offer it again. */
bool sbx_timeline_flush(struct sbx_timeline *timeline);

#endif
