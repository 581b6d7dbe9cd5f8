/*
 * leaf_tree.c - see leaf.h: the groups that a command has made below its leaf. They may
 * be many, deep, and still changing; so nothing here holds more than a bounded number of
 * descriptors, and all of it has a bound of time.
 */
#include "cgroup/leaf.h"

#include "base/clock.h"
#include "base/fd.h"
#include "cgroup/leaf_private.h"
#include "cgroup/lines.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Deeper groups are not visited (they are killed and taken away all the same). */
#define DEPTH_MAX 64
#define PAUSE_NS 1000000L

static int open_group(int directory, const char *name)
{
    int fd = openat(directory, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? -errno : fd;
}

/* A stream over a directory of its own; NULL, with errno. */
static DIR *list(int fd)
{
    int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = own < 0 ? NULL : fdopendir(own);
    if (directory == NULL && own >= 0) {
        int code = errno;
        (void)close(own);
        errno = code;
    }
    return directory;
}

static const char *next_group(DIR *directory)
{
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        if (entry->d_type == DT_DIR && strcmp(entry->d_name, ".") != 0 &&
            strcmp(entry->d_name, "..") != 0) {
            return entry->d_name;
        }
    }
    return NULL;
}

/* --- who lives there --- */

static int visit_one(int fd, int (*visit)(pid_t pid, void *context), void *context)
{
    struct sbx_lines lines;
    char *line;
    int r = sbx_lines_open(fd, "cgroup.procs", &lines);
    if (r < 0) {
        return r == -ENOENT || r == -ENODEV || r == -EOPNOTSUPP ? 0 : r;
    }
    while ((r = sbx_lines_next(&lines, &line)) > 0) {
        long pid = strtol(line, NULL, 10);
        if (pid > 0) { /* 0: of a PID namespace that we do not see into */
            r = visit((pid_t)pid, context);
        }
        if (r != 0 && pid > 0) {
            break;
        }
    }
    sbx_lines_close(&lines);
    return r == -ENODEV ? 0 : r;
}

int sbx_leaf_each_process(int leaf_fd, int (*visit)(pid_t pid, void *context),
                          void *context)
{
    DIR *levels[DEPTH_MAX];
    int depth = 0;
    int r = visit_one(leaf_fd, visit, context);
    levels[0] = r == 0 ? list(leaf_fd) : NULL;
    if (r == 0 && levels[0] == NULL) {
        return -errno;
    }
    while (r == 0 && depth >= 0) {
        const char *name = next_group(levels[depth]);
        if (name == NULL) {
            (void)closedir(levels[depth--]);
            continue;
        }
        SBX_AUTO_CLOSE int fd = open_group(dirfd(levels[depth]), name);
        if (fd < 0) {
            continue; /* gone meanwhile */
        }
        r = visit_one(fd, visit, context);
        DIR *below = r == 0 && depth + 1 < DEPTH_MAX ? list(fd) : NULL;
        if (below != NULL) {
            levels[++depth] = below;
        }
    }
    while (depth >= 0 && levels[0] != NULL) {
        (void)closedir(levels[depth--]);
    }
    return r;
}

/* --- taking away --- */

/* Takes every group away that has none below it. 0: none is left; 1: some are, one of
 * which is named. */
static int remove_children(int fd, char left[static NAME_MAX + 1])
{
    SBX_AUTO_CLOSEDIR DIR *directory = list(fd);
    const char *name;
    int found = 0;
    while (directory != NULL && (name = next_group(directory)) != NULL) {
        if (unlinkat(dirfd(directory), name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
            (void)strncpy(left, name, NAME_MAX);
            left[NAME_MAX] = '\0';
            found = 1;
        }
    }
    return found;
}

/* Goes down to a group that can be emptied of groups, and does it. 1: something went on;
 * 0: nothing is below; -EBUSY: somebody lives in what is. */
static int remove_deepest(int leaf_fd)
{
    char name[NAME_MAX + 1];
    SBX_AUTO_CLOSE int fd = open_group(leaf_fd, ".");
    bool descended = false;
    while (fd >= 0 && remove_children(fd, name) == 1) {
        char below[NAME_MAX + 1];
        SBX_AUTO_CLOSE int child = open_group(fd, name);
        if (child < 0) {
            return 1; /* gone meanwhile */
        }
        if (remove_children(child, below) == 0) {
            /* It has none any more: only processes can keep it. */
            int code = unlinkat(fd, name, AT_REMOVEDIR) < 0 ? errno : 0;
            return code == 0 || code == ENOENT ? 1 : -code;
        }
        (void)close(fd);
        fd = sbx_fd_steal(&child);
        descended = true;
    }
    return descended ? 1 : 0;
}

int sbx_leaf_remove(int place_fd, const char *name, uint64_t bound_us)
{
    const struct timespec moment = {.tv_nsec = PAUSE_NS};
    uint64_t until = sbx_clock_add(sbx_clock_us(), bound_us);
    for (;;) {
        if (unlinkat(place_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
            return 0;
        }
        int code = errno;
        if (code != EBUSY && code != EINTR && code != ENOTEMPTY) {
            return -code;
        }
        SBX_AUTO_CLOSE int leaf_fd = open_group(place_fd, name);
        int went = leaf_fd < 0 ? 0 : remove_deepest(leaf_fd);
        if (sbx_clock_us() >= until) {
            return -code;
        }
        if (went <= 0) {
            (void)nanosleep(&moment, NULL);
        }
    }
}

int sbx_leaf_mark_kept(int leaf_fd)
{
    return mkdirat(leaf_fd, SBX_LEAF_KEPT, 0755) < 0 && errno != EEXIST ? -errno : 0;
}
