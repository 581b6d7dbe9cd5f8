/*
 * statistics.h - what a group tells about itself: one kept descriptor for each file, one
 * pread for each reading, no allocation. Works for a leaf of ours as for any other group.
 *
 * A file that is not there (no controller, an older kernel, PSI off) leaves its numbers
 * SBX_UNKNOWN (UINT64_MAX). Everything includes the groups below, but for what is named
 * local.
 */
#ifndef SBX_CGROUP_STATISTICS_H
#define SBX_CGROUP_STATISTICS_H

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stdint.h>

enum sbx_statistics_file {
    SBX_FILE_EVENTS = 0, /* cgroup.events */
    SBX_FILE_CPU,        /* cpu.stat */
    SBX_FILE_MEMORY_CURRENT,
    SBX_FILE_MEMORY_PEAK,
    SBX_FILE_MEMORY_STAT,
    SBX_FILE_MEMORY_EVENTS,
    SBX_FILE_MEMORY_EVENTS_LOCAL,
    SBX_FILE_MEMORY_PRESSURE,
    SBX_FILE_SWAP_CURRENT,
    SBX_FILE_SWAP_PEAK,
    SBX_FILE_PIDS_CURRENT,
    SBX_FILE_PIDS_PEAK,
    SBX_FILE_PIDS_EVENTS,
    SBX_FILE_PIDS_EVENTS_LOCAL,
    SBX_STATISTICS_FILES
};

struct sbx_statistics {
    int fds[SBX_STATISTICS_FILES]; /* -1: not there */
    int alarm; /* an epoll of the files of events; -1: nobody tells; see below */
};

/* What one reading told. */
struct sbx_figures {
    bool populated; /* from cgroup.events; true when that cannot be read */
    bool frozen;
    uint64_t cpu_us;
    uint64_t cpu_user_us;
    uint64_t cpu_system_us;
    uint64_t memory_bytes; /* memory.current: with page cache */
    uint64_t memory_peak_bytes;
    uint64_t anon_bytes;  /* of memory.stat: anonymous memory ... */
    uint64_t shmem_bytes; /* ... and shared */
    uint64_t swap_bytes;
    uint64_t swap_peak_bytes;
    uint64_t memory_pressure_us; /* total of `some`: stalled for want of memory */
    /* How often, of memory.events: */
    uint64_t oom;            /* a limit in the group or below had nothing left to give */
    uint64_t oom_kill;       /* a process in it was killed by any OOM killer */
    uint64_t oom_group_kill; /* all of a group were */
    uint64_t local_oom;      /* it was the limit of this very group */
    uint64_t tasks;          /* pids.current: threads count each */
    uint64_t tasks_peak;
    uint64_t forks_refused;       /* max of pids.events */
    uint64_t forks_refused_local; /* max of pids.events.local */
};

/* Opens what is there below the group's directory. 0, or a negative errno when not even
 * cgroup.events and cpu.stat can be opened. Close it with sbx_statistics_close. */
int sbx_statistics_open(int group_fd, struct sbx_statistics *ret_statistics,
                        struct sbx_error *err);
void sbx_statistics_close(struct sbx_statistics *statistics);

/* Reads the files whose bits (1 << file) are in `files` and makes all other numbers
 * unknown. A file that cannot be read now leaves its numbers unknown. */
void sbx_statistics_read(const struct sbx_statistics *statistics, uint32_t files,
                         struct sbx_figures *ret_figures);

#define SBX_FILES_ALL ((UINT32_C(1) << SBX_STATISTICS_FILES) - 1)
#define SBX_FILE_BIT(file) (UINT32_C(1) << (unsigned)(file))

/* statistics->alarm is readable when an event counter has changed since the last reading.
 * Quiet it first, and then read cgroup.events and both memory and pids events: what
 * changes in between is told again. */
void sbx_statistics_quiet(const struct sbx_statistics *statistics);

/* pids.events of kernels before 6.11 counts where the fork was refused, which may be in a
 * group below: the sum of `max` over the groups below where no pids.max of their own, or
 * of one between, was ever reached, for those kernels. 0 where there is nothing. Walks
 * directories: not for every sample. */
uint64_t sbx_statistics_refused_below(int group_fd);

#endif
