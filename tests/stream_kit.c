/*
 * stream_kit.c - see stream_kit.h.
 */
#include "tests/stream_kit.h"

#include "base/fd.h"
#include "tests/helpers/pattern.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK ((size_t)256 * 1024)

struct outcome {
    uint64_t bytes;
    uint64_t wrong_at; /* UINT64_MAX: nothing was wrong */
};

static struct outcome read_pattern(int fd, uint64_t offset, uint64_t most)
{
    static unsigned char got[BLOCK];
    static unsigned char wanted[BLOCK];
    struct outcome outcome = {.wrong_at = UINT64_MAX};
    while (outcome.bytes < most) {
        uint64_t left = most - outcome.bytes;
        ssize_t length = read(fd, got, left < BLOCK ? (size_t)left : BLOCK);
        if (length <= 0) {
            break;
        }
        pattern_fill(wanted, offset + outcome.bytes, (size_t)length);
        if (memcmp(got, wanted, (size_t)length) != 0) {
            outcome.wrong_at = offset + outcome.bytes;
            break;
        }
        outcome.bytes += (uint64_t)length;
    }
    return outcome;
}

uint64_t sbx_stream_read(int fd, uint64_t offset, uint64_t most)
{
    struct outcome outcome = read_pattern(fd, offset, most);
    ck_assert_msg(outcome.wrong_at == UINT64_MAX, "a wrong byte at or after %llu",
                  (unsigned long long)outcome.wrong_at);
    return outcome.bytes;
}

uint64_t sbx_stream_file(const char *path)
{
    SBX_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
    return sbx_stream_read(fd, 0, UINT64_MAX);
}

/* --- a reader of its own ------------------------------------------------------------ */

static struct outcome *shared;

struct sbx_stream_reader sbx_stream_reader(void)
{
    int ends[2];
    if (shared == NULL) {
        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        ck_assert_ptr_ne(shared, MAP_FAILED);
    }
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void)alarm(250);
        (void)close(ends[1]);
        *shared = read_pattern(ends[0], 0, UINT64_MAX);
        _exit(0);
    }
    (void)close(ends[0]);
    return (struct sbx_stream_reader){.pid = pid, .write_end = ends[1]};
}

void sbx_stream_started(struct sbx_stream_reader *reader)
{
    sbx_fd_drop(&reader->write_end);
}

uint64_t sbx_stream_join(struct sbx_stream_reader *reader)
{
    int status = -1;
    ck_assert_int_eq(waitpid(reader->pid, &status, 0), reader->pid);
    ck_assert_int_eq(status, 0);
    ck_assert_msg(shared->wrong_at == UINT64_MAX, "a wrong byte at or after %llu",
                  (unsigned long long)shared->wrong_at);
    return shared->bytes;
}

/* --- memory ------------------------------------------------------------------------- */

static uint64_t peak_of(pid_t pid)
{
    char path[64];
    char text[4096];
    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    ck_assert_int_gt(sbx_fd_read_text_at(AT_FDCWD, path, text, sizeof(text)), 0);
    const char *line = strstr(text, "\nVmHWM:");
    ck_assert_ptr_nonnull(line);
    return strtoull(line + strlen("\nVmHWM:"), NULL, 10) * 1024;
}

uint64_t sbx_stream_memory(pid_t parent, int children)
{
    char path[64];
    char list[1024];
    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent,
                   (int)parent);
    ck_assert_int_gt(sbx_fd_read_text_at(AT_FDCWD, path, list, sizeof(list)), 0);
    uint64_t sum = peak_of(parent);
    int count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(list, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest), count++) {
        sum += peak_of((pid_t)strtol(word, NULL, 10));
    }
    ck_assert_int_eq(count, children);
    return sum;
}
