/*
 * leaf_tree.c - see leaf.h: the groups that a command has made below its leaf. They may
 * be thousands, deep, and still changing. So a walk holds one directory open, however
 * deep it is, remembers for each level above where it was, and has a bound of time.
 *
 * Relies on cgroup2: a group is never renamed, so ".." of one below the leaf never leads
 * past it, and a position in a directory stays good while entries come and go. There are
 * no links to follow.
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

/* 1 MiB for a walk; who makes deeper groups has them left over. */
#define DEPTH_MAX 65536U
#define PAUSE_NS 1000000L

struct level {
    long at; /* of the entry that was entered, for seekdir */
    ino_t inode;
};

struct walk {
    DIR *here;
    struct level *levels; /* those above */
    size_t depth;
    size_t room;
    ino_t left; /* the entry that the walk has just come up from, else 0 */
};

static int open_group(int directory, const char *name)
{
    int fd = openat(directory, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? -errno : fd;
}

/* Goes on in that directory. 0 or a negative errno, and stays. */
static int enter(struct walk *walk, int directory, const char *name)
{
    SBX_AUTO_CLOSE int fd = open_group(directory, name);
    DIR *there = fd < 0 ? NULL : fdopendir(fd);
    if (there == NULL) {
        return -errno;
    }
    (void)sbx_fd_steal(&fd);
    sbx_closedirp(&walk->here);
    walk->here = there;
    return 0;
}

static int walk_begin(struct walk *walk, int leaf_fd)
{
    memset(walk, 0, sizeof *walk);
    return enter(walk, leaf_fd, ".");
}

static void walk_end(struct walk *walk)
{
    sbx_closedirp(&walk->here);
    free(walk->levels);
}

/* The next group here, and its position; NULL when there is none. */
static const struct dirent *walk_next(struct walk *walk, struct level *ret_level)
{
    for (;;) {
        long at = telldir(walk->here);
        const struct dirent *entry = readdir(walk->here);
        if (entry == NULL) {
            return NULL;
        }
        if (entry->d_type == DT_DIR && strcmp(entry->d_name, ".") != 0 &&
            strcmp(entry->d_name, "..") != 0) {
            ret_level->at = at;
            ret_level->inode = entry->d_ino;
            return entry;
        }
    }
}

static int walk_down(struct walk *walk, const char *name, const struct level *level)
{
    if (walk->depth == DEPTH_MAX) {
        return -ELOOP;
    }
    if (walk->depth == walk->room) {
        size_t room = walk->room == 0 ? 64 : walk->room * 2;
        struct level *levels = reallocarray(walk->levels, room, sizeof *levels);
        if (levels == NULL) {
            return -ENOMEM;
        }
        walk->levels = levels;
        walk->room = room;
    }
    int r = enter(walk, dirfd(walk->here), name);
    if (r == 0) {
        walk->levels[walk->depth++] = *level;
    }
    return r;
}

/* Back to the entry that was entered: it is the next one again, if it is still there. */
static int walk_up(struct walk *walk)
{
    int r = enter(walk, dirfd(walk->here), "..");
    if (r == 0) {
        walk->depth--;
        seekdir(walk->here, walk->levels[walk->depth].at);
        walk->left = walk->levels[walk->depth].inode;
    }
    return r;
}

/* Whether it is the entry that the walk has come up from: it has been seen to. */
static bool is_left(struct walk *walk, const struct level *level)
{
    bool is = walk->left != 0 && walk->left == level->inode;
    walk->left = 0;
    return is;
}

/* --- who lives there --- */

static bool is_gone(int r)
{
    return r == -ENOENT || r == -ENODEV;
}

static int visit_one(int fd, int (*visit)(pid_t pid, void *context), void *context)
{
    struct sbx_lines lines;
    char *line;
    int r = sbx_lines_open(fd, "cgroup.procs", &lines);
    if (r < 0) {
        return is_gone(r) ? 0 : r;
    }
    while ((r = sbx_lines_next(&lines, &line)) > 0) {
        long pid = strtol(line, NULL, 10);
        r = pid > 0 ? visit((pid_t)pid, context) : 0; /* 0: of a foreign PID namespace */
        if (r != 0) {
            sbx_lines_close(&lines);
            return r;
        }
    }
    sbx_lines_close(&lines);
    /* A threaded group has no list of its own: they are in that of its domain. */
    return is_gone(r) || r == -EOPNOTSUPP ? 0 : r;
}

/* One step of the walk. 1: it goes on; 0: it is through; else what visit said, or a
 * negative errno. */
static int visit_next(struct walk *walk, int (*visit)(pid_t pid, void *context),
                      void *context, int *ret_visited)
{
    struct level level;
    const struct dirent *entry = walk_next(walk, &level);
    if (entry == NULL) {
        int up = walk->depth > 0 ? walk_up(walk) : 1;
        return up < 0 ? up : 1 - up;
    }
    if (is_left(walk, &level)) {
        return 1;
    }
    int r = walk_down(walk, entry->d_name, &level);
    if (r == 0) {
        *ret_visited = visit_one(dirfd(walk->here), visit, context);
    }
    return r == 0 || is_gone(r) ? 1 : r;
}

int sbx_leaf_each_process(int leaf_fd, uint64_t until_us,
                          int (*visit)(pid_t pid, void *context), void *context)
{
    struct walk walk;
    int visited = visit_one(leaf_fd, visit, context);
    if (visited != 0) {
        return visited;
    }
    int r = walk_begin(&walk, leaf_fd);
    if (walk.here == NULL) {
        return r;
    }
    r = 1;
    while (r == 1 && visited == 0) {
        r = sbx_clock_us() < until_us ? visit_next(&walk, visit, context, &visited)
                                      : -ETIMEDOUT;
    }
    walk_end(&walk);
    return visited != 0 ? visited : r;
}

/* --- taking away --- */

/* One step of the walk: groups go on the way up. 1: it goes on; 0: it is through; or a
 * negative errno. */
static int remove_next(struct walk *walk)
{
    struct level level;
    const struct dirent *entry = walk_next(walk, &level);
    if (entry == NULL && walk->depth == 0) {
        return 0;
    }
    if (entry == NULL) {
        int up = walk_up(walk);
        return up < 0 ? up : 1;
    }
    bool left = is_left(walk, &level);
    if (unlinkat(dirfd(walk->here), entry->d_name, AT_REMOVEDIR) == 0 ||
        errno == ENOENT || left) {
        return 1; /* one that stays has somebody in it */
    }
    int r = walk_down(walk, entry->d_name, &level);
    return r == 0 || is_gone(r) ? 1 : r;
}

/* Every group below that can go. */
static void remove_below(int leaf_fd, uint64_t until_us)
{
    struct walk walk;
    int r = walk_begin(&walk, leaf_fd) == 0 ? 1 : 0;
    while (r == 1 && sbx_clock_us() < until_us) {
        r = remove_next(&walk);
    }
    walk_end(&walk);
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
        if (leaf_fd >= 0) {
            remove_below(leaf_fd, until);
        }
        if (unlinkat(place_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
            return 0;
        }
        if (sbx_clock_us() >= until) {
            return -code;
        }
        (void)nanosleep(&moment, NULL);
    }
}

int sbx_leaf_mark_kept(int leaf_fd)
{
    return mkdirat(leaf_fd, SBX_LEAF_KEPT, 0755) < 0 && errno != EEXIST ? -errno : 0;
}
