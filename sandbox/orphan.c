/*
 * orphan.c - the process that bubblewrap has made to be inside, when bubblewrap itself is
 * gone and did not come to tell its number: it waits for a word that nobody will say.
 *
 * It is our child then, since we are a subreaper. But not every child of ours is that
 * one: a shell that was replaced by us may have left us its own. Ours has the name of
 * bubblewrap, and began no earlier.
 */
#include "sandbox/launch.h"

#include "base/fd.h"
#include "reaper/proc.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void sbx_flight_note_bwrap(struct sbx_flight *flight)
{
    struct sbx_proc_stat stat;
    SBX_AUTO_CLOSE int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    flight->bwrap_start_ticks = UINT64_MAX; /* nobody began later */
    if (proc_fd >= 0 && sbx_proc_stat_at(proc_fd, flight->bwrap, &stat) == 0) {
        flight->bwrap_start_ticks = stat.start_ticks;
    }
}

static bool is_orphan(const struct sbx_flight *flight, const struct sbx_proc_stat *stat)
{
    const char *slash = strrchr(flight->plan->bwrap, '/');
    const char *name = slash != NULL ? slash + 1 : flight->plan->bwrap;
    /* The kernel keeps 15 bytes of it. */
    return stat->ppid == getpid() && stat->start_ticks >= flight->bwrap_start_ticks &&
           stat->state != 'Z' && strncmp(stat->name, name, 15) == 0;
}

pid_t sbx_flight_find_orphan(const struct sbx_flight *flight)
{
    SBX_AUTO_CLOSE int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    SBX_AUTO_CLOSEDIR DIR *directory = proc_fd >= 0 ? sbx_fd_list(proc_fd) : NULL;
    const struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        struct sbx_proc_stat stat;
        char *end = NULL;
        long pid = strtol(entry->d_name, &end, 10);
        if (pid > 1 && pid <= INT_MAX && *end == '\0' &&
            sbx_proc_stat_at(proc_fd, (pid_t)pid, &stat) == 0 &&
            is_orphan(flight, &stat)) {
            return (pid_t)pid;
        }
    }
    return 0;
}
