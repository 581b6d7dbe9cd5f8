/*
 * fuzz_proc.c - the readers of /proc on arbitrary bytes.
 *
 * The first byte chooses the reader, the rest is its text. Beyond what the sanitizers
 * see: a result is 0 or an error that the header names, a failure leaves the output
 * alone, a success can be printed again and gives the text back, and a status or a list
 * of children reads the same from a file as from memory.
 */
#include "reaper/proc.h"

#include "fuzz/fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILL 0xa5

static void must_be_untouched(const void *memory, size_t size)
{
    const unsigned char *bytes = memory;
    for (size_t i = 0; i < size; i++) {
        SBX_MUST(bytes[i] == FILL);
    }
}

static bool starts_with(const char *text, size_t length, const char *start)
{
    size_t start_length = strlen(start);
    return length >= start_length && memcmp(text, start, start_length) == 0;
}

/* ---- one for each reader ---- */

static void check_stat(const char *text, size_t length, const struct sbx_proc_stat *stat)
{
    char start[128];
    (void)snprintf(start, sizeof(start), "%d (%s", (int)stat->pid, stat->name);
    SBX_MUST(strlen(stat->name) < SBX_PROC_NAME_SIZE);
    SBX_MUST(starts_with(text, length, start));
    const char *tail = memrchr(text, ')', length);
    (void)snprintf(start, sizeof(start), ") %c %d %d %d ", stat->state, (int)stat->ppid,
                   (int)stat->pgrp, (int)stat->session);
    SBX_MUST(starts_with(tail, length - (size_t)(tail - text), start));
    SBX_MUST(stat->pid > 0 && stat->ppid >= 0 && stat->pgrp >= 0 && stat->session >= 0);
    (void)sbx_proc_own_cpu_us(stat);
    SBX_MUST(sbx_proc_tree_cpu_us(stat) >= sbx_proc_own_cpu_us(stat));
    (void)sbx_proc_rss_bytes(stat);
}

static void fuzz_stat(const char *text, size_t length)
{
    struct sbx_proc_stat stat;
    memset(&stat, FILL, sizeof(stat));
    int rc = sbx_proc_parse_stat(text, length, &stat);
    SBX_MUST(rc == 0 || rc == -EBADMSG || rc == -ESRCH);
    if (rc == 0) {
        check_stat(text, length, &stat);
    } else {
        must_be_untouched(&stat, sizeof(stat));
    }
}

static void fuzz_statm(const char *text, size_t length)
{
    struct sbx_proc_statm statm;
    char start[80];
    memset(&statm, FILL, sizeof(statm));
    int rc = sbx_proc_parse_statm(text, length, &statm);
    SBX_MUST(rc == 0 || rc == -EBADMSG);
    if (rc < 0) {
        must_be_untouched(&statm, sizeof(statm));
        return;
    }
    (void)snprintf(
        start, sizeof(start), "%llu %llu %llu ", (unsigned long long)statm.size_pages,
        (unsigned long long)statm.resident_pages, (unsigned long long)statm.shared_pages);
    SBX_MUST(starts_with(text, length, start));
}

static void fuzz_schedstat(const char *text, size_t length)
{
    uint64_t cpu_ns;
    char start[32];
    memset(&cpu_ns, FILL, sizeof(cpu_ns));
    int rc = sbx_proc_parse_schedstat(text, length, &cpu_ns);
    SBX_MUST(rc == 0 || rc == -EBADMSG);
    if (rc < 0) {
        must_be_untouched(&cpu_ns, sizeof(cpu_ns));
        return;
    }
    (void)snprintf(start, sizeof(start), "%llu ", (unsigned long long)cpu_ns);
    SBX_MUST(starts_with(text, length, start));
}

static void fuzz_smaps(const char *text, size_t length)
{
    struct sbx_proc_smaps smaps;
    memset(&smaps, FILL, sizeof(smaps));
    int rc = sbx_proc_parse_smaps_rollup(text, length, &smaps);
    SBX_MUST(rc == 0 || rc == -EBADMSG);
    if (rc < 0) {
        must_be_untouched(&smaps, sizeof(smaps));
        return;
    }
    SBX_MUST(smaps.rss_bytes != SBX_UNKNOWN && smaps.rss_bytes % 1024 == 0);
    SBX_MUST(smaps.pss_bytes != SBX_UNKNOWN && smaps.pss_bytes % 1024 == 0);
}

static char fake_path[] = "/tmp/fuzz-proc-XXXXXX";
static int fake_fd = -1;

static void remove_fake_proc(void)
{
    (void)unlinkat(fake_fd, "7/status", 0);
    (void)unlinkat(fake_fd, "7", AT_REMOVEDIR);
    (void)rmdir(fake_path);
}

/* A directory that stands for /proc, made at the first use, with this status of
 * process 7. */
static int fake_proc(const char *text, size_t length)
{
    if (fake_fd < 0) {
        SBX_MUST(mkdtemp(fake_path) != NULL);
        fake_fd = open(fake_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        SBX_MUST(fake_fd >= 0 && mkdirat(fake_fd, "7", 0700) == 0);
        SBX_MUST(atexit(remove_fake_proc) == 0);
    }
    int fd = openat(fake_fd, "7/status", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    SBX_MUST(fd >= 0 && write(fd, text, length) == (ssize_t)length);
    (void)close(fd);
    return fake_fd;
}

static void fuzz_status(const char *text, size_t length)
{
    struct sbx_proc_status status;
    struct sbx_proc_status from_file;
    memset(&status, FILL, sizeof(status));
    memset(&from_file, FILL, sizeof(from_file));
    int rc = sbx_proc_parse_status(text, length, &status);
    SBX_MUST(rc == 0 || rc == -EBADMSG);
    SBX_MUST(sbx_proc_status_at(fake_proc(text, length), 7, &from_file) == rc);
    /* up to the padding at its end */
    SBX_MUST(memcmp(&status, &from_file,
                    offsetof(struct sbx_proc_status, namespace_depth) +
                        sizeof(status.namespace_depth)) == 0);
    if (rc < 0) {
        must_be_untouched(&status, sizeof(status));
        return;
    }
    SBX_MUST(starts_with(text, length, "Name:\t") && text[length - 1] == '\n');
    SBX_MUST(status.hwm_bytes == SBX_UNKNOWN || status.hwm_bytes % 1024 == 0);
    SBX_MUST((status.namespace_depth == 0) <= (status.namespace_pid == 0));
}

struct printed {
    char *text;
    size_t length;
    size_t size;
};

static int print(pid_t pid, void *context)
{
    struct printed *printed = context;
    SBX_MUST(pid > 0 && printed->size - printed->length > 12);
    printed->length += (size_t)snprintf(printed->text + printed->length,
                                        printed->size - printed->length, "%d ", pid);
    return 0;
}

/* What was visited, printed again, is the text, or its start up to what is wrong. */
static void fuzz_children(const char *text, size_t length)
{
    static int fd = -1;
    struct printed printed = {malloc(length + 16), 0, length + 16};
    if (fd < 0) {
        fd = memfd_create("children", MFD_CLOEXEC);
    }
    SBX_MUST(printed.text != NULL && fd >= 0 && ftruncate(fd, 0) == 0);
    SBX_MUST(pwrite(fd, text, length, 0) == (ssize_t)length);
    int rc = sbx_proc_read_children(fd, print, &printed);
    SBX_MUST(rc == 0 || rc == -EBADMSG);
    SBX_MUST(printed.length <= length && memcmp(printed.text, text, printed.length) == 0);
    SBX_MUST((rc == 0) == (printed.length == length));
    free(printed.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(const char *text, size_t length) = {
        fuzz_stat, fuzz_statm, fuzz_schedstat, fuzz_smaps, fuzz_status, fuzz_children};
    if (size == 0) {
        return 0;
    }
    size_t count = sizeof(readers) / sizeof(readers[0]);
    readers[(size_t)(data[0] - '0') % count]((const char *)data + 1, size - 1);
    return 0;
}
