/*
 * leaf_stale.c - see leaf.h: leaves whose runs are gone. A guard and a monitor that were
 * killed together leave a leaf with whoever lived in it; the next run at the place ends
 * them. What is not certainly ours and certainly left behind is not touched.
 */
#include "cgroup/leaf.h"

#include "base/clock.h"
#include "base/fd.h"
#include "cgroup/leaf_private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_NS 500000L
/* A process that does not get a processor for a while finds its time over before it has
 * begun: so many leaves are ended all the same, with so much time for each. */
#define LEAST_COUNT 8
#define LEAST_US 20000U

static void await_empty(int leaf_fd, uint64_t until_us)
{
    const struct timespec moment = {.tv_nsec = PAUSE_NS};
    while (sbx_leaf_populated(leaf_fd) == 1 && sbx_clock_us() < until_us) {
        (void)nanosleep(&moment, NULL);
    }
}

static bool is_kept(int leaf_fd)
{
    return faccessat(leaf_fd, SBX_LEAF_KEPT, F_OK, 0) == 0 &&
           sbx_leaf_populated(leaf_fd) != 0;
}

/* True when it is gone. */
static bool end_leaf(int place_fd, const char *name, uint64_t until_us)
{
    SBX_AUTO_CLOSE int fd =
        openat(place_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return errno == ENOENT;
    }
    /* Held by whatever is left of its run, if anything is. Kept until the end, so that
     * two who clean up do not get into each other's way. */
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 || is_kept(fd)) {
        return false;
    }
    if (sbx_leaf_populated(fd) == 1) {
        if (sbx_leaf_kill(fd) < 0) {
            return false; /* before 5.14: nothing ends them without a race */
        }
        await_empty(fd, until_us);
    }
    uint64_t now = sbx_clock_us();
    return sbx_leaf_remove(place_fd, name, until_us > now ? until_us - now : 0) == 0;
}

static bool is_stale(const char *name, uint64_t scope, const struct sbx_owner *owner)
{
    struct sbx_leaf_name parsed;
    return sbx_leaf_parse_name(name, &parsed) && parsed.scope == scope &&
           !(parsed.pid == owner->pid && parsed.start_ticks == owner->start_ticks) &&
           !owner->lives(parsed.pid, parsed.start_ticks, owner->context);
}

int sbx_leaf_sweep_stale(int place_fd, const struct sbx_owner *owner, uint64_t bound_us)
{
    uint64_t until = sbx_clock_add(sbx_clock_us(), bound_us);
    uint64_t scope = 0;
    int left = 0;
    int ended = 0;
    SBX_AUTO_CLOSEDIR DIR *directory = sbx_fd_list(place_fd);
    if (directory == NULL) {
        return -errno;
    }
    int r = sbx_leaf_scope(&scope);
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        if (entry->d_type != DT_DIR || !sbx_leaf_is_name(entry->d_name)) {
            continue;
        }
        uint64_t now = sbx_clock_us();
        bool stale = r == 0 && (now < until || ended < LEAST_COUNT) &&
                     is_stale(entry->d_name, scope, owner);
        uint64_t least = sbx_clock_add(now, LEAST_US);
        bool gone =
            stale && end_leaf(place_fd, entry->d_name, until > least ? until : least);
        ended += stale ? 1 : 0;
        left += gone ? 0 : 1;
    }
    return left;
}
