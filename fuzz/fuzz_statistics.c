/*
 * fuzz_statistics.c - the readers of a group's files on arbitrary bytes.
 *
 * The first byte chooses the file, the rest is its text. Beyond what the sanitizers see:
 * a number that is told stands in the text, a file sets no number of another one, and a
 * text reads the same from a file as from memory.
 */
#include "cgroup/statistics.h"
#include "cgroup/statistics_text.h"

#include "fuzz/fuzz.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define UNKNOWN UINT64_MAX
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The files in the order of the numbers that follow. */
static size_t numbers_of(const struct sbx_figures *figures, enum sbx_statistics_file file,
                         uint64_t numbers[static 3])
{
    switch (file) {
    case SBX_FILE_CPU:
        numbers[0] = figures->cpu_us;
        numbers[1] = figures->cpu_user_us;
        numbers[2] = figures->cpu_system_us;
        return 3;
    case SBX_FILE_MEMORY_CURRENT:
        numbers[0] = figures->memory_bytes;
        return 1;
    case SBX_FILE_MEMORY_PEAK:
        numbers[0] = figures->memory_peak_bytes;
        return 1;
    case SBX_FILE_MEMORY_STAT:
        numbers[0] = figures->anon_bytes;
        numbers[1] = figures->shmem_bytes;
        return 2;
    case SBX_FILE_MEMORY_EVENTS:
        numbers[0] = figures->oom;
        numbers[1] = figures->oom_kill;
        numbers[2] = figures->oom_group_kill;
        return 3;
    case SBX_FILE_MEMORY_EVENTS_LOCAL:
        numbers[0] = figures->local_oom;
        return 1;
    case SBX_FILE_MEMORY_PRESSURE:
        numbers[0] = figures->memory_pressure_us;
        return 1;
    case SBX_FILE_SWAP_CURRENT:
        numbers[0] = figures->swap_bytes;
        return 1;
    case SBX_FILE_SWAP_PEAK:
        numbers[0] = figures->swap_peak_bytes;
        return 1;
    case SBX_FILE_PIDS_CURRENT:
        numbers[0] = figures->tasks;
        return 1;
    case SBX_FILE_PIDS_PEAK:
        numbers[0] = figures->tasks_peak;
        return 1;
    case SBX_FILE_PIDS_EVENTS:
        numbers[0] = figures->forks_refused;
        return 1;
    case SBX_FILE_PIDS_EVENTS_LOCAL:
        numbers[0] = figures->forks_refused_local;
        return 1;
    case SBX_FILE_EVENTS:
    case SBX_STATISTICS_FILES:
        break;
    }
    return 0;
}

static void must_stand_there(const char *text, size_t length, uint64_t number)
{
    char printed[32];
    int count = snprintf(printed, sizeof(printed), "%" PRIu64 "\n", number);
    SBX_MUST(memmem(text, length, printed, (size_t)count) != NULL);
}

static bool equal(const struct sbx_figures *one, const struct sbx_figures *other)
{
    for (unsigned file = 0; file < SBX_STATISTICS_FILES; file++) {
        uint64_t a[3];
        uint64_t b[3];
        size_t count = numbers_of(one, (enum sbx_statistics_file)file, a);
        (void)numbers_of(other, (enum sbx_statistics_file)file, b);
        if (memcmp(a, b, count * sizeof(a[0])) != 0) {
            return false;
        }
    }
    return one->populated == other->populated && one->frozen == other->frozen;
}

static void check_file(enum sbx_statistics_file file, const char *text, size_t length,
                       const struct sbx_figures *expected)
{
    static int fd = -1;
    struct sbx_figures figures;
    struct sbx_statistics statistics = {.alarm = -1};
    if (fd < 0) {
        fd = memfd_create("group", MFD_CLOEXEC);
    }
    SBX_MUST(fd >= 0 && ftruncate(fd, 0) == 0);
    SBX_MUST(pwrite(fd, text, length, 0) == (ssize_t)length);
    for (size_t i = 0; i < COUNT(statistics.fds); i++) {
        statistics.fds[i] = i == (size_t)file ? fd : -1;
    }
    sbx_statistics_read(&statistics, SBX_FILES_ALL, &figures);
    SBX_MUST(equal(&figures, expected));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sbx_figures figures;
    struct sbx_figures nothing;
    if (size == 0) {
        return 0;
    }
    const char *text = (const char *)data + 1;
    size_t length = size - 1;
    unsigned chosen = (unsigned)(data[0] - 'a') % SBX_STATISTICS_FILES;
    sbx_statistics_forget(&figures);
    sbx_statistics_forget(&nothing);
    sbx_statistics_parse((enum sbx_statistics_file)chosen, text, length, &figures);
    for (unsigned file = 0; file < SBX_STATISTICS_FILES; file++) {
        uint64_t numbers[3];
        size_t count = numbers_of(&figures, (enum sbx_statistics_file)file, numbers);
        for (size_t i = 0; i < count; i++) {
            SBX_MUST(file == chosen || numbers[i] == UNKNOWN);
            if (numbers[i] != UNKNOWN) {
                must_stand_there(text, length, numbers[i]);
            }
        }
    }
    SBX_MUST(chosen == SBX_FILE_EVENTS || (figures.populated && !figures.frozen));
    if (length <= 1024) { /* the shorter buffer that a file is read into */
        check_file((enum sbx_statistics_file)chosen, text, length, &figures);
    }
    return 0;
}
