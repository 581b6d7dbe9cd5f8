/*
 * net.c - see net.h. Writes to nothing but a group of its own below its caller's group.
 */
#include "tests/net.h"

#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARGIN 4000U

static bool write_file(const char *directory, const char *name, const char *text)
{
    char path[400];
    (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
    SBX_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && sbx_fd_write_all(fd, text, strlen(text)) == 0;
}

bool sbx_net_make(struct sbx_net *net, unsigned tasks)
{
    static char text[16 * 1024];
    char number[16];
    char *rest = NULL;
    net->path[0] = '\0';
    if (geteuid() != 0 ||
        sbx_fd_read_text_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text)) <= 0) {
        return false;
    }
    const char *group = NULL;
    for (const char *line = strtok_r(text, "\n", &rest); line != NULL && group == NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        group = strstr(line, ":pids:/");
    }
    if (group == NULL) {
        return false;
    }
    (void)snprintf(net->path, sizeof(net->path), "/sys/fs/cgroup/pids%.200s/sbx-net-%d",
                   group + strlen(":pids:"), (int)getpid());
    if (mkdir(net->path, 0755) < 0 && errno != EEXIST) {
        net->path[0] = '\0';
        return false;
    }
    (void)snprintf(number, sizeof(number), "%u", tasks);
    if (!write_file(net->path, "pids.max", number)) {
        (void)sbx_net_remove(net);
        return false;
    }
    return true;
}

void sbx_net_enter(const struct sbx_net *net)
{
    if (net->path[0] != '\0' && !write_file(net->path, "cgroup.procs", "0")) {
        _exit(93);
    }
}

bool sbx_net_remove(struct sbx_net *net)
{
    bool removed = net->path[0] == '\0' || rmdir(net->path) == 0;
    net->path[0] = '\0';
    return removed;
}

static unsigned read_number(const char *path, unsigned absent)
{
    char text[64];
    if (sbx_fd_read_text_at(AT_FDCWD, path, text, sizeof(text)) <= 0) {
        return absent;
    }
    return (unsigned)strtoul(text, NULL, 10);
}

/* Threads have pids too, and are not listed: the margin is theirs. */
bool sbx_net_fits(unsigned more)
{
    unsigned most = read_number("/proc/sys/kernel/pid_max", 32768);
    unsigned threads = read_number("/proc/sys/kernel/threads-max", 32768);
    unsigned used = 0;
    SBX_AUTO_CLOSEDIR DIR *directory = opendir("/proc");
    const struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        used += entry->d_name[0] >= '1' && entry->d_name[0] <= '9' ? 1U : 0U;
    }
    return used + more + MARGIN < (most < threads ? most : threads);
}
