/*
 * attach_kit.c - see attach_kit.h. A monitor keeps the stat files of its members open, so
 * the links in its /proc/PID/fd say who they are.
 */
#include "tests/attach_kit.h"

#include "base/clock.h"
#include "base/fd.h"
#include "reaper/proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_US (20U * SBX_US_PER_S)
#define CHILDREN_MAX 32

static void nap(void)
{
    static const struct timespec time = {.tv_nsec = 2000000};
    (void)nanosleep(&time, NULL);
}

const char *sbx_attach_options(const char *format, pid_t pid)
{
    static char text[512];
    char tail[400];
    char number[16];
    (void)snprintf(number, sizeof number, "%d", (int)pid);
    const char *at = strstr(format, "%d");
    ck_assert_ptr_nonnull(at);
    (void)snprintf(tail, sizeof tail, "%.*s%s%s", (int)(at - format), format, number,
                   at + 2);
    (void)snprintf(text, sizeof text, "--interval 20ms %s", tail);
    return text;
}

struct children {
    pid_t *list;
    size_t max;
    size_t count;
};

static int take_child(pid_t pid, void *context)
{
    struct children *children = context;
    if (children->count < children->max) {
        children->list[children->count++] = pid;
    }
    return 0;
}

size_t sbx_attach_children(pid_t pid, pid_t *list, size_t max)
{
    struct children children = {.list = list, .max = max};
    SBX_AUTO_CLOSE int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    SBX_AUTO_CLOSE int fd = sbx_proc_open_children(proc_fd, pid, pid);
    if (fd >= 0) {
        (void)sbx_proc_read_children(fd, take_child, &children);
    }
    return children.count;
}

pid_t sbx_attach_child(pid_t pid)
{
    uint64_t end = sbx_clock_us() + PATIENCE_US;
    pid_t child = 0;
    while (sbx_attach_children(pid, &child, 1) == 0) {
        ck_assert_msg(sbx_clock_us() < end, "process %d has no child", (int)pid);
        nap();
    }
    return child;
}

static int read_stat(pid_t pid, struct sbx_proc_stat *ret_stat)
{
    SBX_AUTO_CLOSE int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return sbx_proc_stat_at(proc_fd, pid, ret_stat);
}

pid_t sbx_attach_monitor(const struct sbx_trial *trial)
{
    pid_t list[CHILDREN_MAX];
    size_t count = sbx_attach_children(trial->pid, list, CHILDREN_MAX);
    for (size_t i = 0; i < count; i++) {
        struct sbx_proc_stat stat;
        if (read_stat(list[i], &stat) == 0 && strcmp(stat.name, "sbx-monitor") == 0) {
            return list[i];
        }
    }
    return 0;
}

/* How many descriptors of that process lead to what begins so. */
static size_t count_links(pid_t holder, const char *wanted)
{
    size_t count = 0;
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)holder);
    SBX_AUTO_CLOSEDIR DIR *directory = opendir(path);
    const struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        char link[256];
        ssize_t length =
            readlinkat(dirfd(directory), entry->d_name, link, sizeof link - 1);
        link[length > 0 ? length : 0] = '\0';
        count += strncmp(link, wanted, strlen(wanted)) == 0 ? 1U : 0U;
    }
    return count;
}

/* The kernels have two ways to call a pidfd. */
static size_t count_pidfds(pid_t holder)
{
    return count_links(holder, "anon_inode:[pidfd]") + count_links(holder, "pidfd:");
}

void sbx_attach_wait_known(const struct sbx_trial *trial, pid_t pid)
{
    char wanted[64];
    uint64_t end = sbx_clock_us() + PATIENCE_US;
    (void)snprintf(wanted, sizeof wanted, "/proc/%d/stat", (int)pid);
    for (;;) {
        pid_t monitor = sbx_attach_monitor(trial);
        if (monitor != 0 && count_links(monitor, wanted) > 0) {
            return;
        }
        ck_assert_msg(sbx_clock_us() < end, "sbx-watch does not know process %d",
                      (int)pid);
        nap();
    }
}

/* A monitor has a group of its own when it is attached; and with the first sample, beside
 * the guard's pidfd, that of a member whose end it awaits. */
static void wait_sampled(const struct sbx_trial *trial)
{
    uint64_t end = sbx_clock_us() + PATIENCE_US;
    struct sbx_proc_stat stat = {0};
    pid_t monitor = sbx_attach_monitor(trial);
    while (read_stat(monitor, &stat) < 0 || stat.pgrp != monitor ||
           count_pidfds(monitor) < 2) {
        ck_assert_msg(sbx_clock_us() < end, "sbx-watch takes no sample");
        nap();
    }
}

void sbx_attach_start(struct sbx_trial *trial, pid_t pid)
{
    sbx_trial_start(trial);
    sbx_attach_wait_known(trial, pid);
    wait_sampled(trial);
}

bool sbx_attach_is_alive(pid_t pid)
{
    struct sbx_proc_stat stat;
    return read_stat(pid, &stat) == 0 && stat.state != 'Z' && stat.state != 'X';
}

void sbx_attach_wait_gone(pid_t pid)
{
    uint64_t end = sbx_clock_us() + PATIENCE_US;
    while (sbx_attach_is_alive(pid)) {
        ck_assert_msg(sbx_clock_us() < end, "process %d is alive", (int)pid);
        nap();
    }
}
