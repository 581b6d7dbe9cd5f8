/*
 * ancestors.c - see ancestors.h. The counters are held open from before the launch: the
 * groups above may be taken away, renamed, or hidden from us later.
 */
#include "cgroup/ancestors.h"

#include "base/fd.h"
#include "cgroup/statistics_text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define TEXT_SIZE 512

static bool read_oom(int fd, uint64_t *ret_count)
{
    char text[TEXT_SIZE];
    ssize_t length = sbx_fd_pread_text(fd, text, sizeof(text));
    return length >= 0 && sbx_statistics_find(text, (size_t)length, "oom", ret_count);
}

static int components(const char *path)
{
    int count = 0;
    for (const char *at = path; *at != '\0'; at++) {
        count += *at == '/' && at[1] != '/' && at[1] != '\0';
    }
    return count;
}

/* Cuts the last component off. False when nothing is left to cut. */
static bool to_parent(char *path)
{
    char *end = path + strlen(path);
    while (end > path && end[-1] == '/') {
        end--;
    }
    if (end == path) {
        return false;
    }
    while (end > path && end[-1] != '/') {
        end--;
    }
    while (end > path && end[-1] == '/') {
        end--;
    }
    *end = '\0';
    return true;
}

static void hold(struct sbx_ancestors *ancestors, const char *mount, const char *group)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof(path), "%s%s/memory.events.local", mount, group);
    if (length < 0 || (size_t)length >= sizeof(path)) {
        return;
    }
    SBX_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    size_t at = ancestors->count;
    if (fd < 0 || !read_oom(fd, &ancestors->oom[at])) {
        return;
    }
    ancestors->fds[at] = sbx_fd_steal(&fd);
    ancestors->depth[at] = components(group);
    ancestors->count++;
}

/* A group outside of what we see ("/../x" in a cgroup namespace) has no ancestors that we
 * could name. */
static bool is_visible(const char *path)
{
    return path[0] == '/' && strncmp(path, "/..", 3) != 0;
}

void sbx_ancestors_open(const char *mount, const char *path,
                        struct sbx_ancestors *ret_ancestors)
{
    char group[SBX_GROUP_PATH_SIZE];
    ret_ancestors->count = 0;
    if (!is_visible(path) || strlen(path) >= sizeof(group)) {
        return;
    }
    (void)snprintf(group, sizeof(group), "%s", path);
    while (ret_ancestors->count < SBX_ANCESTORS_MAX && to_parent(group)) {
        hold(ret_ancestors, mount, group);
    }
}

int sbx_ancestors_blame(const struct sbx_ancestors *ancestors)
{
    for (size_t i = 0; i < ancestors->count; i++) {
        uint64_t now = 0;
        if (read_oom(ancestors->fds[i], &now) && now > ancestors->oom[i]) {
            return ancestors->depth[i];
        }
    }
    return -1;
}

void sbx_ancestors_close(struct sbx_ancestors *ancestors)
{
    for (size_t i = 0; i < ancestors->count; i++) {
        sbx_fd_drop(&ancestors->fds[i]);
    }
    ancestors->count = 0;
}
