/*
 * test_proc_cross.c - the readers of /proc on files: the captured tree of
 * tests/data/proc, and live processes, where libproc2 (linked here, directly) has to read
 * the same numbers.
 *
 * Numbers of a live process move, its PSS even when it waits (others come to share its
 * pages). So both are read again until all of them agree, within a bound: a reader that
 * is wrong never agrees.
 */
#include "reaper/proc.h"

#include "base/clock.h"
#include "base/fd.h"
#include "tests/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libproc2/pids.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define LIFETIME_SECONDS 60
#define FAMILY 1500

static int open_proc(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
    return fd;
}

/* ---- helper processes ---- */

/* A child that waits, at most LIFETIME_SECONDS and not longer than the test. */
static pid_t start_waiting(const char *name)
{
    pid_t pid = fork();
    ck_assert_msg(pid >= 0, "fork: %s", strerror(errno));
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)signal(SIGALRM, SIG_DFL);
        (void)alarm(LIFETIME_SECONDS);
        if (name != NULL) {
            (void)prctl(PR_SET_NAME, name);
        }
        for (;;) {
            (void)pause();
        }
    }
    return pid;
}

/* Our own un-reaped child. */
static void end_child(pid_t pid)
{
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

/* Until the child has the name it gave itself and sleeps; the fixture bounds it. */
static void wait_until_still(int proc_fd, pid_t pid, const char *name)
{
    struct sbx_proc_stat stat;
    do {
        (void)usleep(1000);
        ck_assert_int_eq(sbx_proc_stat_at(proc_fd, pid, &stat), 0);
    } while (stat.state != 'S' || strcmp(stat.name, name) != 0);
}

/* ---- the captured tree ---- */

static const struct {
    pid_t pid;
    const char *name;
    char state;
    pid_t ppid;
    uint64_t threads;
    uint64_t start_ticks;
    uint64_t rss_pages;
    int smaps_rc;
} captured[] = {
    {2, "kthreadd", 'S', 0, 1, 35, 0, -ESRCH},
    {4101, ") Z 1 1 (x", 'S', 5616, 1, 132177, 2739, 0},
    {4102, "x\nVmHWM:\t9 kB", 'S', 5616, 1, 132218, 2742, 0},
    {4103, "x\nVmHWM:\t9 kB", 'Z', 5616, 1, 132218, 0, -ESRCH},
    {4104, "zombie leader", 'Z', 5616, 2, 132299, 0, -ESRCH},
    {4105, "two threads", 'S', 5616, 2, 132268, 2815, -ENOENT},
    {4108, "sleep", 'S', 4109, 1, 133967, 396, -ENOENT},
    {4194303, "x) Z 1 1 1 (y", 'S', 4194302, 1, 132177, 2739, -ENOENT},
};

START_TEST(captured_stat_and_smaps)
{
    SBX_AUTO_CLOSE int proc_fd = open_proc(SBX_TEST_DATA "/proc");
    struct sbx_proc_stat stat;
    struct sbx_proc_smaps smaps = {0};
    pid_t pid = captured[_i].pid;
    ck_assert_int_eq(sbx_proc_stat_at(proc_fd, pid, &stat), 0);
    ck_assert_int_eq(stat.pid, pid);
    ck_assert_str_eq(stat.name, captured[_i].name);
    ck_assert_int_eq(stat.state, captured[_i].state);
    ck_assert_int_eq(stat.ppid, captured[_i].ppid);
    ck_assert_uint_eq(stat.threads, captured[_i].threads);
    ck_assert_uint_eq(stat.start_ticks, captured[_i].start_ticks);
    ck_assert_uint_eq(stat.rss_pages, captured[_i].rss_pages);
    ck_assert_int_eq(sbx_proc_smaps_at(proc_fd, pid, &smaps), captured[_i].smaps_rc);
    if (captured[_i].smaps_rc == 0) {
        ck_assert_uint_gt(smaps.pss_bytes, 0);
        ck_assert_uint_le(smaps.pss_bytes, smaps.rss_bytes);
        ck_assert_uint_le(smaps.anon_bytes, smaps.pss_bytes);
        ck_assert_uint_eq(smaps.shmem_bytes, 0);
        ck_assert_uint_eq(smaps.swap_pss_bytes, 0);
    } else {
        ck_assert_uint_eq(smaps.rss_bytes, 0); /* as we had set it */
    }
}
END_TEST

START_TEST(captured_status)
{
    SBX_AUTO_CLOSE int proc_fd = open_proc(SBX_TEST_DATA "/proc");
    struct sbx_proc_status status;
    /* Its name spells another VmHWM, of 9 kB. */
    ck_assert_int_eq(sbx_proc_status_at(proc_fd, 4102, &status), 0);
    ck_assert_uint_gt(status.hwm_bytes, 1024 * 1024);
    ck_assert_uint_ne(status.hwm_bytes, SBX_UNKNOWN);
    ck_assert_uint_eq(status.namespace_depth, 1);
    ck_assert_int_eq(status.namespace_pid, 4102);
    ck_assert_uint_eq(status.sig_caught, 2);
    ck_assert_uint_eq(status.sig_ignored, 0x1001000);
    /* What has no memory has no lines of it: not zero, and not the 9 kB. */
    static const pid_t without[] = {2, 4103, 4104};
    for (size_t i = 0; i < COUNT(without); i++) {
        ck_assert_int_eq(sbx_proc_status_at(proc_fd, without[i], &status), 0);
        ck_assert_uint_eq(status.hwm_bytes, SBX_UNKNOWN);
        ck_assert_uint_eq(status.rss_bytes, SBX_UNKNOWN);
        ck_assert_uint_eq(status.swap_bytes, SBX_UNKNOWN);
        ck_assert_uint_eq(status.real_uid, 0);
    }
    ck_assert_int_eq(sbx_proc_status_at(proc_fd, 4108, &status), 0);
    ck_assert_uint_eq(status.namespace_depth, 2);
    ck_assert_int_eq(status.namespace_pid, 2);
}
END_TEST

struct pids {
    size_t count;
    pid_t list[FAMILY + 1];
};

static int collect(pid_t pid, void *context)
{
    struct pids *pids = context;
    ck_assert_uint_lt(pids->count, COUNT(pids->list));
    pids->list[pids->count++] = pid;
    return 0;
}

static int refuse(pid_t pid, void *context)
{
    (void)pid;
    (void)context;
    return 42;
}

static int compare_pids(const void *a, const void *b)
{
    const pid_t *first = a;
    const pid_t *second = b;
    return *first < *second ? -1 : *first > *second;
}

static void read_threads(int proc_fd, pid_t pid, struct pids *threads)
{
    threads->count = 0;
    ck_assert_int_eq(sbx_proc_each_thread(proc_fd, pid, collect, threads), 0);
    qsort(threads->list, threads->count, sizeof(threads->list[0]), compare_pids);
}

static void read_children(int proc_fd, pid_t pid, pid_t tid, struct pids *children)
{
    SBX_AUTO_CLOSE int fd = sbx_proc_open_children(proc_fd, pid, tid);
    ck_assert_msg(fd >= 0, "children of %d: %s", (int)tid, strerror(-fd));
    children->count = 0;
    ck_assert_int_eq(sbx_proc_read_children(fd, collect, children), 0);
    qsort(children->list, children->count, sizeof(children->list[0]), compare_pids);
}

START_TEST(captured_threads_and_children)
{
    SBX_AUTO_CLOSE int proc_fd = open_proc(SBX_TEST_DATA "/proc");
    static struct pids pids;
    read_threads(proc_fd, 4105, &pids);
    ck_assert_uint_eq(pids.count, 2);
    ck_assert_int_eq(pids.list[0], 4105);
    ck_assert_int_eq(pids.list[1], 4106);
    read_children(proc_fd, 4105, 4105, &pids);
    ck_assert_uint_eq(pids.count, 0);
    read_children(proc_fd, 4105, 4106, &pids);
    ck_assert_uint_eq(pids.count, 1);
    ck_assert_int_eq(pids.list[0], 4107);
    ck_assert_int_eq(sbx_proc_each_thread(proc_fd, 4105, refuse, NULL), 42);
    ck_assert_int_eq(sbx_proc_each_thread(proc_fd, 4106, refuse, NULL), -ENOENT);
    ck_assert_int_eq(sbx_proc_open_children(proc_fd, 4105, 4107), -ENOENT);
}
END_TEST

START_TEST(what_cannot_be_named_or_found)
{
    SBX_AUTO_CLOSE int proc_fd = open_proc(SBX_TEST_DATA "/proc");
    struct sbx_proc_stat stat;
    struct sbx_proc_status status;
    char path[100];
    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    ck_assert_int_eq(sbx_proc_stat_at(proc_fd, 9999, &stat), -ENOENT);
    ck_assert_int_eq(sbx_proc_status_at(proc_fd, 9999, &status), -ENOENT);
    ck_assert_int_eq(sbx_proc_stat_at(proc_fd, 0, &stat), -EINVAL);
    ck_assert_int_eq(sbx_proc_stat_at(proc_fd, -1, &stat), -EINVAL);
    ck_assert_int_eq(sbx_proc_open_children(proc_fd, 4105, 0), -EINVAL);
    ck_assert_int_eq(sbx_proc_open(proc_fd, 4105, path), -ENAMETOOLONG);
}
END_TEST

/* ---- a status longer than one read ---- */

/* A status in the test's directory: `groups` groups between name and memory. */
static int make_status(int groups, const char *key)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    (void)mkdir(sbx_fixture_path(path, "77"), 0755);
    FILE *file = fopen(sbx_fixture_path(path, "77/status"), "we");
    ck_assert_ptr_nonnull(file);
    (void)fprintf(file, "Name:\tx\nUid:\t5\t5\t5\t5\n%s:\t", key);
    for (int i = 0; i < groups; i++) {
        (void)fprintf(file, "%d ", 1000000000 + i);
    }
    (void)fprintf(file, "\nVmHWM:\t    1696 kB\nSigCgt:\t0000000000000002\n");
    ck_assert_int_eq(fclose(file), 0);
    return open_proc(sbx_fixture_dir());
}

START_TEST(status_with_many_groups)
{
    static const int counts[] = {0,   1,   700, 735, 736, 737, 738, 739,  740,
                                 741, 742, 743, 744, 745, 746, 747, 1500, 65536};
    struct sbx_proc_status status;
    for (size_t i = 0; i < COUNT(counts); i++) {
        SBX_AUTO_CLOSE int fd = make_status(counts[i], "Groups");
        ck_assert_msg(sbx_proc_status_at(fd, 77, &status) == 0, "%d groups", counts[i]);
        ck_assert_uint_eq(status.real_uid, 5);
        ck_assert_uint_eq(status.hwm_bytes, 1696 * 1024);
        ck_assert_uint_eq(status.sig_caught, 2);
    }
    SBX_AUTO_CLOSE int fd = make_status(65536, "VmRSS");
    ck_assert_int_eq(sbx_proc_status_at(fd, 77, &status), -EBADMSG);
}
END_TEST

START_TEST(status_of_a_live_process_with_many_groups)
{
    if (geteuid() != 0) {
        return; /* setgroups is for root: the one before has the text of it */
    }
    static gid_t groups[65536];
    int ready[2];
    ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
    for (size_t i = 0; i < COUNT(groups); i++) {
        groups[i] = 1000000000U + (gid_t)i;
    }
    pid_t pid = fork();
    if (pid == 0) {
        (void)alarm(LIFETIME_SECONDS);
        char done = setgroups(COUNT(groups), groups) == 0 ? 'y' : 'n';
        if (write(ready[1], &done, 1) == 1) {
            (void)pause();
        }
        _exit(1);
    }
    char done = '?';
    ck_assert_int_eq(read(ready[0], &done, 1), 1);
    SBX_AUTO_CLOSE int proc_fd = open_proc("/proc");
    struct sbx_proc_status status;
    int rc = sbx_proc_status_at(proc_fd, pid, &status);
    end_child(pid);
    (void)close(ready[0]);
    (void)close(ready[1]);
    ck_assert_int_eq(done, 'y');
    ck_assert_int_eq(rc, 0);
    ck_assert_uint_ne(status.hwm_bytes, SBX_UNKNOWN);
}
END_TEST

/* ---- live processes ---- */

START_TEST(fifteen_hundred_children)
{
    static struct pids started;
    static struct pids read;
    SBX_AUTO_CLOSE int proc_fd = open_proc("/proc");
    while (started.count < FAMILY) {
        (void)collect(start_waiting(NULL), &started);
    }
    read_children(proc_fd, getpid(), getpid(), &read);
    for (size_t i = 0; i < started.count; i++) {
        end_child(started.list[i]);
    }
    qsort(started.list, started.count, sizeof(started.list[0]), compare_pids);
    ck_assert_uint_eq(read.count, started.count);
    ck_assert_int_eq(memcmp(read.list, started.list, started.count * sizeof(pid_t)), 0);
    read_children(proc_fd, getpid(), getpid(), &read);
    ck_assert_uint_eq(read.count, 0);
}
END_TEST

struct second_thread {
    pthread_barrier_t started;
    pthread_barrier_t looked_at;
    pid_t tid;
    pid_t child;
};

static void *fork_in_second_thread(void *argument)
{
    struct second_thread *second = argument;
    second->tid = gettid();
    second->child = start_waiting(NULL);
    (void)pthread_barrier_wait(&second->started);
    (void)pthread_barrier_wait(&second->looked_at);
    return NULL;
}

START_TEST(children_of_another_thread)
{
    static struct pids threads;
    static struct pids of_leader;
    static struct pids of_second;
    struct second_thread second;
    pthread_t thread;
    SBX_AUTO_CLOSE int proc_fd = open_proc("/proc");
    ck_assert_int_eq(pthread_barrier_init(&second.started, NULL, 2), 0);
    ck_assert_int_eq(pthread_barrier_init(&second.looked_at, NULL, 2), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, fork_in_second_thread, &second), 0);
    (void)pthread_barrier_wait(&second.started);
    read_threads(proc_fd, getpid(), &threads);
    read_children(proc_fd, getpid(), getpid(), &of_leader);
    read_children(proc_fd, getpid(), second.tid, &of_second);
    end_child(second.child);
    (void)pthread_barrier_wait(&second.looked_at);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    (void)pthread_barrier_destroy(&second.started);
    (void)pthread_barrier_destroy(&second.looked_at);

    const pid_t leader = getpid();
    ck_assert_ptr_nonnull(
        bsearch(&leader, threads.list, threads.count, sizeof(pid_t), compare_pids));
    ck_assert_ptr_nonnull(
        bsearch(&second.tid, threads.list, threads.count, sizeof(pid_t), compare_pids));
    ck_assert_uint_eq(of_leader.count, 0);
    ck_assert_uint_eq(of_second.count, 1);
    ck_assert_int_eq(of_second.list[0], second.child);
}
END_TEST

/* A process that goes away under a kept descriptor: alive, zombie, gone. */
START_TEST(a_process_that_vanishes)
{
    SBX_AUTO_CLOSE int proc_fd = open_proc("/proc");
    struct sbx_proc_stat stat;
    struct sbx_proc_status status;
    struct sbx_proc_smaps smaps;
    static struct pids children;
    char text[SBX_PROC_STAT_SIZE];
    siginfo_t info;
    pid_t pid = start_waiting(NULL);
    SBX_AUTO_CLOSE int kept = sbx_proc_open(proc_fd, pid, "stat");
    SBX_AUTO_CLOSE int kept_children = sbx_proc_open_children(proc_fd, pid, pid);
    ck_assert_int_ge(kept, 0);
    ck_assert_int_ge(kept_children, 0);
    ck_assert_int_eq(sbx_proc_smaps_at(proc_fd, pid, &smaps), 0);

    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    ck_assert_int_eq(sbx_proc_stat_at(proc_fd, pid, &stat), 0);
    ck_assert_int_eq(stat.state, 'Z');
    ck_assert_uint_eq(stat.rss_pages, 0);
    ck_assert_int_eq(sbx_proc_status_at(proc_fd, pid, &status), 0);
    ck_assert_uint_eq(status.rss_bytes, SBX_UNKNOWN);
    ck_assert_int_eq(sbx_proc_smaps_at(proc_fd, pid, &smaps), -ESRCH);

    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert_int_eq(sbx_fd_pread_text(kept, text, sizeof(text)), -ESRCH);
    ck_assert_int_eq(sbx_proc_stat_at(proc_fd, pid, &stat), -ENOENT);
    ck_assert_int_eq(sbx_proc_status_at(proc_fd, pid, &status), -ENOENT);
    ck_assert_int_eq(sbx_proc_smaps_at(proc_fd, pid, &smaps), -ENOENT);
    ck_assert_int_eq(sbx_proc_each_thread(proc_fd, pid, collect, &children), -ENOENT);
    ck_assert_int_eq(sbx_proc_open_children(proc_fd, pid, pid), -ENOENT);
    ck_assert_int_eq(sbx_proc_read_children(kept_children, collect, &children), 0);
    ck_assert_uint_eq(children.count, 0);
}
END_TEST

/* Read without pause while a process ends: each line is whole, or says that it is gone.
 */
START_TEST(stat_during_the_end_of_a_process)
{
    SBX_AUTO_CLOSE int proc_fd = open_proc("/proc");
    for (int round = 0; round < 200; round++) {
        char text[SBX_PROC_STAT_SIZE];
        struct sbx_proc_stat stat;
        pid_t pid = start_waiting(NULL);
        SBX_AUTO_CLOSE int kept = sbx_proc_open(proc_fd, pid, "stat");
        pid_t reader = fork();
        ck_assert_int_ge(reader, 0);
        if (reader == 0) {
            ssize_t length = 0;
            int rc = 0;
            while (length >= 0 && rc == 0) {
                length = sbx_fd_pread_text(kept, text, sizeof(text));
                rc = length >= 0 ? sbx_proc_parse_stat(text, (size_t)length, &stat)
                                 : (int)length;
            }
            _exit(rc == -ESRCH ? 0 : 1);
        }
        int status = -1;
        end_child(pid);
        ck_assert_int_eq(waitpid(reader, &status, 0), reader);
        ck_assert_msg(status == 0, "round %d: the reader ended with %d", round, status);
    }
}
END_TEST

/* ---- the same numbers as libproc2 ---- */

enum {
    I_PID,
    I_NAME,
    I_STATE,
    I_PPID,
    I_PGRP,
    I_SESSION,
    I_UTIME,
    I_STIME,
    I_UTIME_C,
    I_STIME_C,
    I_THREADS,
    I_START,
    I_RSS,
    I_SIZE,
    I_RESIDENT,
    I_SHARED,
    I_VM_RSS,
    I_VM_ANON,
    I_VM_SHMEM,
    I_VM_SWAP,
    I_BLOCKED,
    I_IGNORED,
    I_CAUGHT,
    I_UID,
    I_SMAP_RSS,
    I_SMAP_PSS,
    I_SMAP_ANON,
    I_SMAP_SHMEM,
    I_SMAP_SWAP,
    I_COUNT
};

static enum pids_item items[I_COUNT] = {
    PIDS_ID_PID,        PIDS_CMD,           PIDS_STATE,         PIDS_ID_PPID,
    PIDS_ID_PGRP,       PIDS_ID_SESSION,    PIDS_TICS_USER,     PIDS_TICS_SYSTEM,
    PIDS_TICS_USER_C,   PIDS_TICS_SYSTEM_C, PIDS_NLWP,          PIDS_TICS_BEGAN,
    PIDS_RSS,           PIDS_MEM_VIRT_PGS,  PIDS_MEM_RES_PGS,   PIDS_MEM_SHR_PGS,
    PIDS_VM_RSS,        PIDS_VM_RSS_ANON,   PIDS_VM_RSS_SHARED, PIDS_VM_SWAP,
    PIDS_SIGBLOCKED,    PIDS_SIGIGNORE,     PIDS_SIGCATCH,      PIDS_ID_RUID,
    PIDS_SMAP_RSS,      PIDS_SMAP_PSS,      PIDS_SMAP_PSS_ANON, PIDS_SMAP_PSS_SHMEM,
    PIDS_SMAP_SWAP_PSS,
};

/* All that our readers say of one process. */
struct ours {
    struct sbx_proc_stat stat;
    struct sbx_proc_statm statm;
    struct sbx_proc_status status;
    struct sbx_proc_smaps smaps;
};

static void read_ours(int proc_fd, pid_t pid, struct ours *ours)
{
    char text[256];
    SBX_AUTO_CLOSE int fd = sbx_proc_open(proc_fd, pid, "statm");
    ssize_t length = sbx_fd_pread_text(fd, text, sizeof(text));
    ck_assert_int_gt(length, 0);
    ck_assert_int_eq(sbx_proc_parse_statm(text, (size_t)length, &ours->statm), 0);
    ck_assert_int_eq(sbx_proc_stat_at(proc_fd, pid, &ours->stat), 0);
    ck_assert_int_eq(sbx_proc_status_at(proc_fd, pid, &ours->status), 0);
    ck_assert_int_eq(sbx_proc_smaps_at(proc_fd, pid, &ours->smaps), 0);
}

/* The first number that differs, of the last comparison; empty when all agreed. */
static char difference[128];

static void same(const char *what, unsigned long long our_value,
                 unsigned long long their_value)
{
    if (our_value != their_value && difference[0] == '\0') {
        (void)snprintf(difference, sizeof(difference), "%s is %llu, theirs is %llu", what,
                       our_value, their_value);
    }
}

#define SAME(a, b) same(#a, (unsigned long long)(a), (unsigned long long)(b))

static void compare_stat(const struct ours *ours, const struct pids_result *theirs)
{
    const struct sbx_proc_stat *stat = &ours->stat;
    SAME(stat->pid, theirs[I_PID].result.s_int);
    SAME(stat->state, theirs[I_STATE].result.s_ch);
    SAME(stat->ppid, theirs[I_PPID].result.s_int);
    SAME(stat->pgrp, theirs[I_PGRP].result.s_int);
    SAME(stat->session, theirs[I_SESSION].result.s_int);
    SAME(stat->utime_ticks, theirs[I_UTIME].result.ull_int);
    SAME(stat->stime_ticks, theirs[I_STIME].result.ull_int);
    SAME(stat->utime_ticks + stat->cutime_ticks, theirs[I_UTIME_C].result.ull_int);
    SAME(stat->stime_ticks + stat->cstime_ticks, theirs[I_STIME_C].result.ull_int);
    SAME(stat->threads, theirs[I_THREADS].result.s_int);
    SAME(stat->start_ticks, theirs[I_START].result.ull_int);
    SAME(stat->rss_pages, theirs[I_RSS].result.ul_int);
    SAME(ours->statm.size_pages, theirs[I_SIZE].result.ul_int);
    SAME(ours->statm.resident_pages, theirs[I_RESIDENT].result.ul_int);
    SAME(ours->statm.shared_pages, theirs[I_SHARED].result.ul_int);
}

static void compare_mask(uint64_t mask, const char *theirs)
{
    SAME(mask, strtoull(theirs, NULL, 16));
}

static void compare_status(const struct ours *ours, const struct pids_result *theirs)
{
    const struct sbx_proc_status *status = &ours->status;
    SAME(status->rss_bytes, theirs[I_VM_RSS].result.ul_int * 1024);
    SAME(status->anon_bytes, theirs[I_VM_ANON].result.ul_int * 1024);
    SAME(status->shmem_bytes, theirs[I_VM_SHMEM].result.ul_int * 1024);
    SAME(status->swap_bytes, theirs[I_VM_SWAP].result.ul_int * 1024);
    SAME(status->real_uid, theirs[I_UID].result.u_int);
    compare_mask(status->sig_blocked, theirs[I_BLOCKED].result.str);
    compare_mask(status->sig_ignored, theirs[I_IGNORED].result.str);
    compare_mask(status->sig_caught, theirs[I_CAUGHT].result.str);
    SAME(ours->smaps.rss_bytes, theirs[I_SMAP_RSS].result.ul_int * 1024);
    SAME(ours->smaps.pss_bytes, theirs[I_SMAP_PSS].result.ul_int * 1024);
    SAME(ours->smaps.anon_bytes, theirs[I_SMAP_ANON].result.ul_int * 1024);
    SAME(ours->smaps.shmem_bytes, theirs[I_SMAP_SHMEM].result.ul_int * 1024);
    SAME(ours->smaps.swap_pss_bytes, theirs[I_SMAP_SWAP].result.ul_int * 1024);
}

/* Whether all agreed this time. */
static bool compare_once(int proc_fd, struct pids_info *info, pid_t pid,
                         const char *their_name)
{
    struct ours ours;
    unsigned which = (unsigned)pid;
    read_ours(proc_fd, pid, &ours);
    struct pids_fetch *fetch = procps_pids_select(info, &which, 1, PIDS_SELECT_PID);
    ck_assert_ptr_nonnull(fetch);
    ck_assert_int_eq(fetch->counts->total, 1);
    const struct pids_result *theirs = fetch->stacks[0]->head;
    difference[0] = '\0';
    compare_stat(&ours, theirs);
    compare_status(&ours, theirs);
    if (their_name != NULL) {
        ck_assert_str_eq(theirs[I_NAME].result.str, their_name);
    }
    return difference[0] == '\0';
}

/* Names of ours; libproc2 shows the same, but for what it replaces. */
static const struct {
    const char *ours;
    const char *theirs; /* NULL: it replaces bytes, nothing to compare */
} names[] = {
    {"a b c", "a b c"},
    {"x) Z 1 1 1 (y", "x) Z 1 1 1 (y"},
    {") Z 1 1 (x", ") Z 1 1 (x"},
    {"a\nVmRSS:\t9 kB", NULL},
};

static void compare(pid_t pid, const char *their_name)
{
    SBX_AUTO_CLOSE int proc_fd = open_proc("/proc");
    struct pids_info *info = NULL;
    ck_assert_int_eq(procps_pids_new(&info, items, I_COUNT), 0);
    bool compared = false;
    uint64_t end_us = sbx_clock_us() + 20 * (uint64_t)SBX_US_PER_S;
    while (!compared && sbx_clock_us() < end_us) {
        compared = compare_once(proc_fd, info, pid, their_name);
    }
    ck_assert_msg(compared, "process %d: %s", (int)pid, difference);
    ck_assert_int_eq(procps_pids_unref(&info), 0);
}

START_TEST(children_as_libproc2_reads_them)
{
    SBX_AUTO_CLOSE int proc_fd = open_proc("/proc");
    /* Shared memory, so that not every number of it is zero. */
    size_t size = (size_t)1 << 20;
    char *shared =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    memset(shared, 1, size);
    pid_t pid = start_waiting(names[_i].ours);
    wait_until_still(proc_fd, pid, names[_i].ours);
    compare(pid, names[_i].theirs);
    end_child(pid);
    (void)munmap(shared, size);
}
END_TEST

START_TEST(ourselves_as_libproc2_reads_us)
{
    end_child(start_waiting(NULL)); /* so that there is a waited-for child */
    compare(getpid(), NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proc_cross");
    TCase *tree = sbx_fixture_case(suite, "captured", 60);
    tcase_add_loop_test(tree, captured_stat_and_smaps, 0, (int)COUNT(captured));
    tcase_add_test(tree, captured_status);
    tcase_add_test(tree, captured_threads_and_children);
    tcase_add_test(tree, what_cannot_be_named_or_found);
    tcase_add_test(tree, status_with_many_groups);
    TCase *live = sbx_fixture_case(suite, "live", 120);
    tcase_add_test(live, status_of_a_live_process_with_many_groups);
    tcase_add_test(live, fifteen_hundred_children);
    tcase_add_test(live, children_of_another_thread);
    tcase_add_test(live, a_process_that_vanishes);
    tcase_add_test(live, stat_during_the_end_of_a_process);
    tcase_add_loop_test(live, children_as_libproc2_reads_them, 0, (int)COUNT(names));
    tcase_add_test(live, ourselves_as_libproc2_reads_us);
    return sbx_fixture_run(suite);
}
