/*
 * scope.c - see scope.h.
 *
 * The order of steps is that of a crash between any two of them: a marker is there before
 * its controller is on, and goes last, when all else is undone. So whoever finds a marker
 * knows what may have to be undone, and nobody switches off what was on without us.
 */
#include "cgroup/scope.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "cgroup/leaf.h"
#include "cgroup/lines.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SELF_NAME "sbx-self"
#define MARKER_SIZE 32
#define CONTROL_FILE "cgroup.subtree_control"
#define LOCK_LOOK_NS 1000000L
/* How often those in sbx-self are moved back: one of them may fork meanwhile. */
#define MOVE_ROUNDS 100

/* --- the lock --- */

int sbx_scope_lock(int place_fd, uint64_t bound_us)
{
    const struct timespec moment = {.tv_nsec = LOCK_LOOK_NS};
    uint64_t until = sbx_clock_add(sbx_clock_us(), bound_us);
    /* A description of its own: place_fd is shared with the processes that we fork. Not
     * of the directory: where that is the leaf of a run around this one, it is locked as
     * long as that run lives. */
    SBX_AUTO_CLOSE int fd =
        openat(place_fd, CONTROL_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return -errno;
    }
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            return -errno;
        }
        if (sbx_clock_us() >= until) {
            return -ETIMEDOUT;
        }
        (void)nanosleep(&moment, NULL);
    }
    return sbx_fd_steal(&fd);
}

/* --- what is there --- */

static void marker_name(unsigned controller, char name[static MARKER_SIZE])
{
    (void)snprintf(name, MARKER_SIZE, "sbx-on.%s",
                   sbx_controller_name((enum sbx_controller)controller));
}

static bool exists(int directory, const char *name)
{
    return faccessat(directory, name, F_OK, 0) == 0;
}

unsigned sbx_scope_marked(int place_fd, unsigned controllers)
{
    unsigned marked = 0;
    for (unsigned i = 0; i < SBX_CONTROLLER_COUNT; i++) {
        char name[MARKER_SIZE];
        marker_name(i, name);
        if ((controllers & SBX_CONTROLLER_BIT(i)) != 0 && exists(place_fd, name)) {
            marked |= SBX_CONTROLLER_BIT(i);
        }
    }
    return marked;
}

bool sbx_scope_is_changed(int place_fd)
{
    return sbx_scope_marked(place_fd, ~0U) != 0 || exists(place_fd, SELF_NAME);
}

/* What is on for the place's children. 0 or a negative errno: that is not "nothing". */
static int read_on(int place_fd, unsigned *ret_on)
{
    char text[1024];
    ssize_t length = sbx_fd_read_text_at(place_fd, CONTROL_FILE, text, sizeof text);
    if (length < 0) {
        return (int)length;
    }
    *ret_on = sbx_controllers_parse(text);
    return 0;
}

unsigned sbx_scope_on(int place_fd)
{
    unsigned on = 0;
    (void)read_on(place_fd, &on);
    return on;
}

int sbx_scope_has_leaves(int place_fd)
{
    SBX_AUTO_CLOSEDIR DIR *directory = sbx_fd_list(place_fd);
    if (directory == NULL) {
        return -errno;
    }
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        if (sbx_leaf_is_name(entry->d_name)) {
            return 1;
        }
    }
    return 0;
}

/* --- moving --- */

static int write_text(int directory, const char *file, const char *text)
{
    SBX_AUTO_CLOSE int fd = openat(directory, file, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? -errno : sbx_fd_write_all(fd, text, strlen(text));
}

static bool is_one_of(const int *pids, size_t count, long pid)
{
    for (size_t i = 0; i < count; i++) {
        if (pids[i] == pid) {
            return true;
        }
    }
    return false;
}

/* From one group to another: those of `ours`, or all when that is NULL. How many, or a
 * negative errno. One that has ended meanwhile is no failure. */
static int move(int from_fd, int to_fd, const int *ours, size_t ours_count)
{
    struct sbx_lines lines;
    char *line;
    int moved = 0;
    int r = sbx_lines_open(from_fd, "cgroup.procs", &lines);
    if (r < 0) {
        return r;
    }
    while ((r = sbx_lines_next(&lines, &line)) > 0) {
        long pid = strtol(line, NULL, 10);
        if (pid <= 0 || (ours != NULL && !is_one_of(ours, ours_count, pid))) {
            continue;
        }
        char text[32];
        (void)snprintf(text, sizeof text, "%ld", pid);
        r = write_text(to_fd, "cgroup.procs", text);
        if (r < 0 && r != -ESRCH) {
            break;
        }
        moved++;
    }
    sbx_lines_close(&lines);
    return r < 0 && r != -ESRCH ? r : moved;
}

static int open_self(int place_fd)
{
    int fd = openat(place_fd, SELF_NAME, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? -errno : fd;
}

/* Whoever is in sbx-self comes back, and it goes. 0 or a negative errno. */
static int return_all(int place_fd)
{
    const struct timespec moment = {.tv_nsec = LOCK_LOOK_NS};
    int r = 0;
    for (int i = 0; i < MOVE_ROUNDS; i++) {
        if (unlinkat(place_fd, SELF_NAME, AT_REMOVEDIR) == 0 || errno == ENOENT) {
            return 0;
        }
        r = -errno;
        SBX_AUTO_CLOSE int self_fd = open_self(place_fd);
        int moved = self_fd < 0 ? self_fd : move(self_fd, place_fd, NULL, 0);
        if (moved < 0 && moved != -ENOENT) {
            return moved;
        }
        if (moved == 0) {
            (void)nanosleep(&moment, NULL); /* one of the dead is still listed */
        }
    }
    return r;
}

/* Those of ours who are in the place go to sbx-self. 0 or a negative errno. */
static int leave(int place_fd, const int *ours, size_t ours_count)
{
    if (!exists(place_fd, "cgroup.type")) {
        return 0; /* the hierarchy's root: nobody is in the way there */
    }
    bool made = mkdirat(place_fd, SELF_NAME, 0755) == 0;
    if (!made && errno != EEXIST) {
        return -errno;
    }
    SBX_AUTO_CLOSE int self_fd = open_self(place_fd);
    int r = self_fd < 0 ? self_fd : move(place_fd, self_fd, ours, ours_count);
    if (r <= 0 && made) {
        (void)return_all(place_fd); /* nobody was in the way, or nobody could move */
    }
    return r < 0 ? r : 0;
}

/* --- switching --- */

static int control(int place_fd, char sign, unsigned controller)
{
    char text[MARKER_SIZE];
    (void)snprintf(text, sizeof text, "%c%s", sign,
                   sbx_controller_name((enum sbx_controller)controller));
    return write_text(place_fd, CONTROL_FILE, text);
}

/* One that is off. When that fails it is off again, or the marker stays and says that
 * it may not be. */
static int switch_one(int place_fd, unsigned controller)
{
    char marker[MARKER_SIZE];
    unsigned on = 0;
    marker_name(controller, marker);
    if (mkdirat(place_fd, marker, 0755) < 0 && errno != EEXIST) {
        return -errno;
    }
    int r = control(place_fd, '+', controller);
    r = r < 0 ? r : read_on(place_fd, &on);
    if (r == 0 && (on & SBX_CONTROLLER_BIT(controller)) == 0) {
        r = -EIO;
    }
    if (r < 0 && control(place_fd, '-', controller) == 0) {
        (void)unlinkat(place_fd, marker, AT_REMOVEDIR);
    }
    return r;
}

static void tell(struct sbx_place *place, unsigned controller, const char *what, int code)
{
    (void)snprintf(place->why[controller], SBX_WHY_SIZE, "%s: %s", what,
                   sbx_errno_text(code).text);
}

void sbx_scope_switch_on(struct sbx_place *place, unsigned needed, const int *ours,
                         size_t ours_count)
{
    unsigned on = 0;
    int r = read_on(place->fd, &on);
    unsigned missing = needed & ~on & (place->on | place->offered);
    if (missing == 0) {
        return;
    }
    r = r < 0 ? r : leave(place->fd, ours, ours_count);
    for (unsigned i = 0; i < SBX_CONTROLLER_COUNT; i++) {
        if ((missing & SBX_CONTROLLER_BIT(i)) == 0) {
            continue;
        }
        int switched = r < 0 ? r : switch_one(place->fd, i);
        if (switched < 0) {
            tell(place, i,
                 r < 0 ? "no room can be made for it in cgroup.subtree_control"
                       : "it cannot be switched on in cgroup.subtree_control",
                 -switched);
        }
    }
    if (sbx_scope_marked(place->fd, ~0U) == 0) {
        (void)return_all(place->fd); /* all for nothing */
    }
}

/* --- putting it back --- */

int sbx_scope_restore(int place_fd)
{
    int r = sbx_scope_has_leaves(place_fd);
    unsigned marked = sbx_scope_marked(place_fd, ~0U);
    if (r != 0) {
        return r < 0 ? r : 0;
    }
    for (unsigned i = 0; i < SBX_CONTROLLER_COUNT; i++) {
        if ((marked & SBX_CONTROLLER_BIT(i)) != 0) { /* one that is off is no failure */
            int failed = control(place_fd, '-', i);
            r = failed < 0 ? failed : r; /* EBUSY: a group below hands it on */
        }
    }
    r = r < 0 ? r : return_all(place_fd);
    for (unsigned i = 0; i < SBX_CONTROLLER_COUNT && r == 0; i++) {
        char marker[MARKER_SIZE];
        marker_name(i, marker);
        if (unlinkat(place_fd, marker, AT_REMOVEDIR) < 0 && errno != ENOENT) {
            r = -errno;
        }
    }
    return r;
}
