/*
 * place_report.c - the report that guard or monitor have left in a place, for who has not
 * been given it: the keeper of a run that lost both, sbxd where there is no keeper.
 *
 * It comes by a rename, so it is there as a whole or not at all. What lies there may be
 * anything that a command of the same user has put there.
 */
#include "supervisor/place.h"

#include "base/clock.h"
#include "base/fd.h"
#include "supervisor/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* More than any report is. */
#define REPORT_MAX ((off_t)1024 * 1024)

#define SPARE "spare"
/* As much as nearly all of them are. */
#define SPARE_BYTES ((size_t)32 * 1024)

char *sbx_place_report(int directory, size_t *ret_length, uint64_t *ret_written_us)
{
    SBX_AUTO_CLOSE int fd =
        openat(directory, "report.json", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) ||
        status.st_size <= 0 || status.st_size > REPORT_MAX) {
        return NULL;
    }
    size_t size = (size_t)status.st_size;
    SBX_AUTO_FREE char *text = malloc(size + 1);
    ssize_t length = text == NULL ? -1 : pread(fd, text, size, 0);
    if (length <= 0) {
        return NULL;
    }
    text[length] = '\0';
    char *report = text;
    text = NULL;
    *ret_length = (size_t)length;
    *ret_written_us = (uint64_t)status.st_mtim.tv_sec * SBX_US_PER_S +
                      (uint64_t)status.st_mtim.tv_nsec / 1000;
    return report;
}

int sbx_place_spare_report(int directory, struct sbx_error *err)
{
    int fd = sbx_file_create(directory, SPARE, SPARE_BYTES, err);
    sbx_closep(&fd);
    return fd < 0 ? fd : 0;
}

/* Into blocks that are there already. */
static void put_report(int directory, const char *report, size_t length)
{
    uint64_t size = 0;
    SBX_AUTO_CLOSE int fd = sbx_file_open(directory, SPARE, O_RDWR, &size);
    if (fd >= 0 && length <= size && sbx_file_write(fd, report, length, 0) == 0 &&
        ftruncate(fd, (off_t)length) == 0) {
        (void)renameat(directory, SPARE, directory, "report.json");
    }
}

void sbx_place_use_spare(int directory, const char *report, size_t length)
{
    if (report != NULL &&
        faccessat(directory, "report.json", F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
        errno == ENOENT) {
        put_report(directory, report, length);
    }
    (void)unlinkat(directory, SPARE, 0);
}
