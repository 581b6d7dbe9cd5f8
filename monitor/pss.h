/*
 * pss.h - proportional set sizes, read by a process of its own.
 *
 * smaps_rollup takes the memory lock of the process that is read, and the wait for it
 * cannot be interrupted. A process that is starved of the processor while it forks holds
 * that lock for seconds, and a hostile one for as long as it likes: a monitor that read
 * it would hold no limit meanwhile. So a small reader does, the monitor waits for it with
 * a bound, and a reader that hangs is replaced. The same goes for kcmp, which waits for
 * an exec under way.
 *
 * The guard forks the reader, since a fork in the middle of a bomb can itself wait for
 * long, and so that it is no child of the monitor: the proof that no child is left and
 * the tree know nothing of it.
 */
#ifndef SBX_MONITOR_PSS_H
#define SBX_MONITOR_PSS_H

#include "reaper/guard.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* More members than this in one request are not read. */
#define SBX_PSS_MAX 32768

enum sbx_pss_state {
    SBX_PSS_PENDING = 0, /* not read in time */
    SBX_PSS_DONE,
    SBX_PSS_SHARED,  /* has the same memory as the process it was compared with */
    SBX_PSS_GONE,    /* ended meanwhile */
    SBX_PSS_REFUSED, /* may not be read */
};

struct sbx_pss_entry {
    pid_t pid;
    pid_t compare_pid; /* 0: no comparison is asked for */
    int32_t state;     /* enum sbx_pss_state */
    bool differs;      /* it was compared, and has memory of its own */
    uint64_t pss_bytes;
    uint64_t anon_bytes;    /* proportional; anonymous and shared memory */
    uint64_t private_bytes; /* of pages that nobody else had when it was read */
    uint64_t swap_bytes;    /* SBX_UNKNOWN when the kernel does not tell */
};

/* Requests and answers, in memory that monitor and reader share; zeros to begin with. Its
 * pages are there once they are touched. */
struct sbx_pss_area {
    uint32_t request;   /* number of the request that is to be read */
    int32_t reader_pid; /* 0: none has begun yet */
    uint64_t cost_us;   /* CPU time of all readings */
    size_t count;
    struct sbx_pss_entry entries[SBX_PSS_MAX];
};

/* The reader's whole life: says that it is there, answers requests until the socket is
 * closed. Closes every other descriptor. */
void sbx_pss_serve(struct sbx_pss_area *area, int socket);

struct sbx_pss;

/* The monitor's side. `link` (borrowed) has the reader's socket and the guard; with NULL
 * there is no reader, and the caller reads by itself, without any bound: for tests.
 * `area` and `proc_fd` are borrowed. 0 or -ENOMEM. */
int sbx_pss_new(int proc_fd, struct sbx_pss_area *area, const struct sbx_pair_link *link,
                struct sbx_pss **ret_pss);
void sbx_pss_free(struct sbx_pss *pss);

/* Empties the request; room for one more entry, or NULL when it is full. */
void sbx_pss_restart(struct sbx_pss *pss);
struct sbx_pss_entry *sbx_pss_add(struct sbx_pss *pss, pid_t pid, pid_t compare_pid);

/*
 * Has the request read, at most `wait_us`; a reader that is not blocked but gets no
 * processor is given a second. 0 when all entries were. -ETIME when some are
 * PENDING still: the first of them is who the reader hung at, and the guard was asked for
 * another reader. -EAGAIN when there is no reader now: all are PENDING.
 */
int sbx_pss_read(struct sbx_pss *pss, uint64_t wait_us);

size_t sbx_pss_count(const struct sbx_pss *pss);
const struct sbx_pss_entry *sbx_pss_entry_at(const struct sbx_pss *pss, size_t index);

/* CPU time that the readings have cost, microseconds. */
uint64_t sbx_pss_cost_us(const struct sbx_pss *pss);

#endif
