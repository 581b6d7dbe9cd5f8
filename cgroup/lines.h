/*
 * lines.h - a file of /proc or of a group, line by line, however long it is.
 *
 * A mountinfo may have thousands of lines, and cgroup.procs that of a whole host: neither
 * is ever held as a whole. Not for sampling: it allocates.
 */
#ifndef SBX_CGROUP_LINES_H
#define SBX_CGROUP_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sbx_lines {
    int fd;
    char *buffer;
    size_t start; /* what is read and not yet handed out: start to end */
    size_t end;
    uint64_t total; /* bytes read */
    bool ended;
};

/* Opens a file below a directory. 0 or a negative errno. Close it with sbx_lines_close,
 * which is for what was opened, zeroed or closed already. */
int sbx_lines_open(int directory, const char *path, struct sbx_lines *ret_lines);

/* 1 and the next line without its line feed, which may be written to and is there until
 * the next call; 0 at the end; or a negative errno, -EFBIG behind 64 MiB. A line of more
 * than 64 KiB, which is longer than all that the kernel prints, is left out. */
int sbx_lines_next(struct sbx_lines *lines, char **ret_line);

void sbx_lines_close(struct sbx_lines *lines);

#endif
