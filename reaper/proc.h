/*
 * proc.h - our own readers of /proc.
 *
 * Parsers are pure functions over text and strict: what is not of the kernel's form is
 * -EBADMSG, and nothing is guessed. The fields of `stat` are counted from the last ')',
 * since a process chooses its own name. Readers take a directory descriptor of the root
 * of /proc, so that tests read captured trees. One read for each file; no allocation.
 */
#ifndef SBX_REAPER_PROC_H
#define SBX_REAPER_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* comm is at most 15 bytes for what runs in user space; a longer one (kernel workers) is
 * cut. */
#define SBX_PROC_NAME_SIZE 16

/* Enough for every line of stat (52 numbers and a name). */
#define SBX_PROC_STAT_SIZE 1024

/* A value that the kernel did not give. */
#define SBX_UNKNOWN UINT64_MAX

struct sbx_proc_stat {
    pid_t pid;
    char name[SBX_PROC_NAME_SIZE]; /* raw bytes, NUL-terminated */
    char state;                    /* R S D Z T t X I ... */
    pid_t ppid;
    pid_t pgrp;
    pid_t session;
    uint64_t utime_ticks; /* of all its threads, the ended ones included */
    uint64_t stime_ticks;
    uint64_t cutime_ticks; /* of children that it has waited for, and theirs */
    uint64_t cstime_ticks;
    uint64_t threads;
    uint64_t start_ticks; /* since boot; with the pid, the identity of a process */
    uint64_t rss_pages;
};

struct sbx_proc_statm {
    uint64_t size_pages;
    uint64_t resident_pages;
    uint64_t shared_pages;
};

/* What is absent (a zombie and a kernel thread have no Vm lines) is SBX_UNKNOWN. */
struct sbx_proc_status {
    uint64_t hwm_bytes;   /* VmHWM: peak resident memory since exec */
    uint64_t rss_bytes;   /* VmRSS */
    uint64_t anon_bytes;  /* RssAnon */
    uint64_t shmem_bytes; /* RssShmem */
    uint64_t swap_bytes;  /* VmSwap */
    uint64_t sig_blocked; /* SigBlk, bit N-1 is signal N */
    uint64_t sig_ignored; /* SigIgn */
    uint64_t sig_caught;  /* SigCgt */
    uid_t real_uid;       /* (uid_t)-1 when the line is absent */
    pid_t namespace_pid;  /* last number of NSpid: its pid in its own namespace; 0 when
                             absent */
    unsigned namespace_depth; /* how many numbers NSpid has; 0 when absent */
};

struct sbx_proc_smaps {
    uint64_t rss_bytes;
    uint64_t pss_bytes;
    uint64_t anon_bytes;     /* Pss_Anon, SBX_UNKNOWN when absent */
    uint64_t shmem_bytes;    /* Pss_Shmem, SBX_UNKNOWN when absent */
    uint64_t swap_pss_bytes; /* SwapPss, SBX_UNKNOWN when absent */
    /* Private_Clean and Private_Dirty: pages that nobody else had when it was read */
    uint64_t private_clean_bytes;
    uint64_t private_dirty_bytes;
};

/*
 * All parsers: 0 or -EBADMSG. `text` need not be terminated, but has to be whole: a last
 * line without line feed was cut off.
 *
 * sbx_proc_parse_stat also returns -ESRCH: the process was reaped while the kernel wrote
 * the line, which then shows parent 0, group and session -1 and no times. Not rare (a
 * reader that is busy at a process's end sees it once in some fifty), and to be taken as
 * "gone".
 */
int sbx_proc_parse_stat(const char *text, size_t length, struct sbx_proc_stat *ret_stat);
int sbx_proc_parse_statm(const char *text, size_t length,
                         struct sbx_proc_statm *ret_statm);
int sbx_proc_parse_status(const char *text, size_t length,
                          struct sbx_proc_status *ret_status);
int sbx_proc_parse_smaps_rollup(const char *text, size_t length,
                                struct sbx_proc_smaps *ret_smaps);
/* First number of schedstat: nanoseconds on a processor, of one thread. */
int sbx_proc_parse_schedstat(const char *text, size_t length, uint64_t *ret_cpu_ns);

/*
 * The children of one thread, from an open `children` file. The kernel hands the list out
 * a page at a time, so `visit` is called for each pid as it is read. Stops when visit
 * returns nonzero and returns that; else 0, or a negative errno (-EBADMSG: not a list of
 * pids). Of a thread that is gone, a kept descriptor reads as an empty list: no children,
 * but no proof that the thread lives. A list that changes meanwhile may miss some: look
 * again until nothing new is found.
 */
typedef int sbx_proc_visit(pid_t pid, void *context);
int sbx_proc_read_children(int fd, sbx_proc_visit *visit, void *context);

/* Open, read, close. 0, -ENOENT or -ESRCH when there is no such process, -EINVAL for a
 * pid below 1, or another negative errno. smaps of what has no memory (a zombie, a kernel
 * thread) is -ESRCH too, never zeros. status is read on when a long list of groups makes
 * it longer than one read. */
int sbx_proc_stat_at(int proc_fd, pid_t pid, struct sbx_proc_stat *ret_stat);
int sbx_proc_status_at(int proc_fd, pid_t pid, struct sbx_proc_status *ret_status);
int sbx_proc_smaps_at(int proc_fd, pid_t pid, struct sbx_proc_smaps *ret_smaps);

/* Opens /proc/PID/FILE for reading, close-on-exec. The descriptor or a negative errno. */
int sbx_proc_open(int proc_fd, pid_t pid, const char *file);

/* Opens /proc/PID/task/TID/children. The descriptor or a negative errno. */
int sbx_proc_open_children(int proc_fd, pid_t pid, pid_t tid);

/* Calls visit for each thread id of a process, from /proc/PID/task. Returns as
 * sbx_proc_read_children; -ENOENT when there is no such process. */
int sbx_proc_each_thread(int proc_fd, pid_t pid, sbx_proc_visit *visit, void *context);

/* CPU of a stat in microseconds: its own, and with its waited-for children. Ticks are
 * 1/sysconf(_SC_CLK_TCK) s. SBX_UNKNOWN where it does not fit. */
uint64_t sbx_proc_own_cpu_us(const struct sbx_proc_stat *stat);
uint64_t sbx_proc_tree_cpu_us(const struct sbx_proc_stat *stat);

/* rss_pages in bytes; SBX_UNKNOWN where it does not fit. */
uint64_t sbx_proc_rss_bytes(const struct sbx_proc_stat *stat);

#endif
