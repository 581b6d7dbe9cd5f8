/*
 * group_kit.c - see group_kit.h.
 */
#include "tests/group_kit.h"

#include "base/clock.h"
#include "base/fd.h"
#include "tests/fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PREFIX "sbxtest-"
#define REMOVE_BOUND_US UINT64_C(20000000)
#define DEPTH_MAX 16

static void pause_a_little(void)
{
    const struct timespec time = {.tv_nsec = 2000000};
    (void)nanosleep(&time, NULL);
}

/* --- files -------------------------------------------------------------------------- */

/* Without any of Check's assertions, which are only for inside a test. What does not fit
 * is cut, and names nothing. */
static void join(char *buffer, const char *path, const char *name)
{
    if (snprintf(buffer, SBX_GROUP_KIT_SIZE, "%s/%s", path, name) >= SBX_GROUP_KIT_SIZE) {
        buffer[0] = '\0';
    }
}

void sbx_group_kit_join(char buffer[static SBX_GROUP_KIT_SIZE], const char *path,
                        const char *name)
{
    join(buffer, path, name);
    ck_assert_msg(buffer[0] != '\0', "%s/%s: too long", path, name);
}

const char *sbx_group_kit_read(const char *path, const char *file, char *buffer,
                               size_t size)
{
    char whole[SBX_GROUP_KIT_SIZE];
    join(whole, path, file);
    buffer[0] = '\0';
    (void)sbx_fd_read_text_at(AT_FDCWD, whole, buffer, size);
    return buffer;
}

int sbx_group_kit_write(const char *path, const char *file, const char *text)
{
    char whole[SBX_GROUP_KIT_SIZE];
    join(whole, path, file);
    SBX_AUTO_CLOSE int fd = open(whole, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? -errno : sbx_fd_write_all(fd, text, strlen(text));
}

bool sbx_group_kit_has(const char *path, const char *file, const char *word)
{
    char text[1024];
    char *rest = NULL;
    (void)sbx_group_kit_read(path, file, text, sizeof text);
    for (char *next = strtok_r(text, " \n", &rest); next != NULL;
         next = strtok_r(NULL, " \n", &rest)) {
        if (strcmp(next, word) == 0) {
            return true;
        }
    }
    return false;
}

long long sbx_group_kit_number(const char *path, const char *file, const char *key)
{
    char text[4096];
    char *rest = NULL;
    (void)sbx_group_kit_read(path, file, text, sizeof text);
    if (key == NULL) {
        return text[0] >= '0' && text[0] <= '9' ? strtoll(text, NULL, 10) : -1;
    }
    size_t length = strlen(key);
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, key, length) == 0 && line[length] == ' ') {
            return strtoll(line + length, NULL, 10);
        }
    }
    return -1;
}

bool sbx_group_kit_is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

size_t sbx_group_kit_count(const char *path, const char *prefix,
                           char first[static SBX_GROUP_KIT_SIZE])
{
    size_t count = 0;
    SBX_AUTO_CLOSEDIR DIR *directory = opendir(path);
    const struct dirent *entry;
    first[0] = '\0';
    ck_assert_msg(directory != NULL, "%s: %s", path, strerror(errno));
    while ((entry = readdir(directory)) != NULL) {
        if (entry->d_type == DT_DIR &&
            strncmp(entry->d_name, prefix, strlen(prefix)) == 0) {
            count++;
            (void)snprintf(first, SBX_GROUP_KIT_SIZE, "%s", entry->d_name);
        }
    }
    return count;
}

/* --- where we are ------------------------------------------------------------------- */

/* The group of the cgroup2 hierarchy, "/a/b"; "" when there is none. */
static void read_own(char group[static SBX_GROUP_KIT_SIZE])
{
    char text[8192] = "";
    (void)sbx_fd_read_text_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof text);
    const char *line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
    group[0] = '\0';
    if (line != NULL) {
        line += line == text ? 3 : 4;
        (void)snprintf(group, SBX_GROUP_KIT_SIZE, "%.*s", (int)strcspn(line, "\n"), line);
    }
}

/* "41 31 0:38 ROOT MOUNT options - cgroup2 source options": where our group is seen. */
static bool find_in(char *line, const char *group, char path[static SBX_GROUP_KIT_SIZE])
{
    char root[SBX_GROUP_KIT_SIZE];
    char mount[SBX_GROUP_KIT_SIZE];
    if (strstr(line, " - cgroup2 ") == NULL ||
        sscanf(line, "%*s %*s %*s %511s %511s", root, mount) != 2) {
        return false;
    }
    size_t length = strcmp(root, "/") == 0 ? 0 : strlen(root);
    if (strncmp(group, root, length) != 0) {
        return false;
    }
    const char *below = strcmp(group, "/") == 0 ? "" : group + length;
    int written = snprintf(path, SBX_GROUP_KIT_SIZE, "%s%s", mount, below);
    return written < SBX_GROUP_KIT_SIZE && sbx_group_kit_is_there(path);
}

bool sbx_group_kit_own(char path[static SBX_GROUP_KIT_SIZE])
{
    static char text[256 * 1024];
    char group[SBX_GROUP_KIT_SIZE];
    char *rest = NULL;
    read_own(group);
    if (group[0] == '\0' ||
        sbx_fd_read_text_at(AT_FDCWD, "/proc/self/mountinfo", text, sizeof text) < 0) {
        return false;
    }
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        if (find_in(line, group, path)) {
            return true;
        }
    }
    return false;
}

/* --- groups ------------------------------------------------------------------------- */

/* The group with all below it, deepest first. 0 or a negative errno. */
static int remove_tree(const char *path, int depth)
{
    char names[64][256];
    size_t count = 0;
    {
        SBX_AUTO_CLOSEDIR DIR *directory = opendir(path);
        const struct dirent *entry;
        while (directory != NULL && count < 64 && (entry = readdir(directory)) != NULL) {
            if (entry->d_type == DT_DIR && entry->d_name[0] != '.') {
                (void)snprintf(names[count++], sizeof names[0], "%s", entry->d_name);
            }
        }
    }
    for (size_t i = 0; i < count && depth < DEPTH_MAX; i++) {
        char below[SBX_GROUP_KIT_SIZE];
        join(below, path, names[i]);
        (void)remove_tree(below, depth + 1);
    }
    return rmdir(path) == 0 || errno == ENOENT ? 0 : -errno;
}

static int remove_bounded(const char *path, uint64_t bound_us)
{
    uint64_t end_us = sbx_clock_us() + bound_us;
    for (;;) {
        (void)sbx_group_kit_write(path, "cgroup.kill", "1");
        int error = remove_tree(path, 0);
        if (error == 0 || sbx_clock_us() >= end_us) {
            return error;
        }
        pause_a_little();
    }
}

void sbx_group_kit_remove(const char *path)
{
    int error = remove_bounded(path, REMOVE_BOUND_US);
    ck_assert_msg(error == 0, "%s cannot be removed: %s", path, strerror(-error));
}

/* What tests that failed have left there. */
static void clean_up(const char *parent)
{
    char path[SBX_GROUP_KIT_SIZE];
    SBX_AUTO_CLOSEDIR DIR *directory = opendir(parent);
    const struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0) {
            continue;
        }
        long pid = strtol(entry->d_name + strlen(PREFIX), NULL, 10);
        if (pid > 1 && kill((pid_t)pid, 0) < 0 && errno == ESRCH) {
            join(path, parent, entry->d_name);
            (void)remove_bounded(path, 1000000);
        }
    }
}

bool sbx_group_kit_make_in(const char *parent, char path[static SBX_GROUP_KIT_SIZE])
{
    static int number;
    char name[64];
    clean_up(parent);
    (void)snprintf(name, sizeof name, PREFIX "%d-%d", (int)getpid(), ++number);
    join(path, parent, name);
    return mkdir(path, 0755) == 0;
}

bool sbx_group_kit_make(char path[static SBX_GROUP_KIT_SIZE])
{
    char parent[SBX_GROUP_KIT_SIZE];
    char file[SBX_GROUP_KIT_SIZE];
    if (!sbx_group_kit_own(parent)) {
        return false;
    }
    /* Up to the mount: what is above it has no such file. */
    for (;;) {
        join(file, parent, "cgroup.procs");
        if (!sbx_group_kit_is_there(file)) {
            return false;
        }
        if (sbx_group_kit_make_in(parent, path)) {
            return true;
        }
        *strrchr(parent, '/') = '\0';
    }
}

int sbx_group_kit_finish(int status)
{
    char parent[SBX_GROUP_KIT_SIZE];
    const char *delegated = getenv("SBX_GUEST_CGROUP");
    if (delegated != NULL) {
        clean_up(delegated);
    }
    if (sbx_group_kit_own(parent)) {
        for (char *slash; (slash = strrchr(parent, '/')) > parent; *slash = '\0') {
            clean_up(parent);
        }
    }
    return status;
}

bool sbx_group_kit_make_controlled(char path[static SBX_GROUP_KIT_SIZE])
{
    char parent[SBX_GROUP_KIT_SIZE];
    if (!sbx_group_kit_own(parent)) {
        return false;
    }
    for (char file[SBX_GROUP_KIT_SIZE];;) {
        sbx_group_kit_join(file, parent, "cgroup.procs");
        if (!sbx_group_kit_is_there(file)) {
            return false;
        }
        if (sbx_group_kit_has(parent, "cgroup.subtree_control", "memory") &&
            sbx_group_kit_has(parent, "cgroup.subtree_control", "pids") &&
            sbx_group_kit_make_in(parent, path)) {
            break;
        }
        *strrchr(parent, '/') = '\0';
    }
    ck_assert_int_eq(sbx_group_kit_write(path, "cgroup.subtree_control", "+memory +pids"),
                     0);
    return true;
}

void sbx_group_kit_below(const char *parent, const char *name,
                         char path[static SBX_GROUP_KIT_SIZE])
{
    join(path, parent, name);
    ck_assert_msg(mkdir(path, 0755) == 0, "%s: %s", path, strerror(errno));
}

void sbx_group_kit_skip(const char *what, const char *why)
{
    (void)fprintf(stderr, "skipped: %s: %s\n", what, why);
}
