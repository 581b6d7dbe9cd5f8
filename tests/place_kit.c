/*
 * place_kit.c - see place_kit.h.
 */
#include "tests/place_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define MOUNT "groups"

static unsigned long pretended_magic = CGROUP2_SUPER_MAGIC;
static char refused_path[SBX_FIXTURE_PATH_SIZE];
static int refused_code;

/* ---- wrappers ---- */

int __real_fstatfs(int fd, struct statfs *status);
int __wrap_fstatfs(int fd, struct statfs *status);
int __real_faccessat(int fd, const char *path, int mode, int flags);
int __wrap_faccessat(int fd, const char *path, int mode, int flags);

/* The path of a descriptor; false when that is not below the test's directory. */
static bool path_of(int fd, char path[static SBX_FIXTURE_PATH_SIZE])
{
    char link[64];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, SBX_FIXTURE_PATH_SIZE - 1);
    path[length > 0 ? length : 0] = '\0';
    size_t own = strlen(sbx_fixture_dir());
    return strncmp(path, sbx_fixture_dir(), own) == 0 &&
           (path[own] == '/' || path[own] == '\0');
}

int __wrap_fstatfs(int fd, struct statfs *status)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    int result = __real_fstatfs(fd, status);
    if (result == 0 && path_of(fd, path)) {
        status->f_type = (__typeof__(status->f_type))pretended_magic;
    }
    return result;
}

int __wrap_faccessat(int fd, const char *path, int mode, int flags)
{
    char whole[SBX_FIXTURE_PATH_SIZE];
    if ((mode & W_OK) != 0 && refused_path[0] != '\0' && path_of(fd, whole)) {
        size_t length = strlen(whole);
        if (strcmp(path, ".") != 0) {
            (void)snprintf(whole + length, sizeof(whole) - length, "/%s", path);
        }
        if (strcmp(whole, refused_path) == 0) {
            errno = refused_code;
            return -1;
        }
    }
    return __real_faccessat(fd, path, mode, flags);
}

void sbx_kit_file_system(unsigned long magic)
{
    pretended_magic = magic;
}

void sbx_kit_refuse(const char *path, int code)
{
    char mount[SBX_FIXTURE_PATH_SIZE];
    refused_path[0] = '\0';
    refused_code = code;
    if (path != NULL) {
        int length = snprintf(refused_path, sizeof(refused_path), "%s%s",
                              sbx_kit_mount(mount), strcmp(path, "/") == 0 ? "" : path);
        ck_assert_int_lt(length, (int)sizeof(refused_path));
    }
}

/* ---- pretended files ---- */

const char *sbx_kit_mount(char buffer[static SBX_FIXTURE_PATH_SIZE])
{
    return sbx_fixture_path(buffer, MOUNT);
}

void sbx_kit_file(const char *name, const char *format, ...)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    va_list arguments;
    (void)sbx_fixture_path(path, name);
    for (char *at = strchr(path + strlen(sbx_fixture_dir()) + 1, '/'); at != NULL;
         at = strchr(at + 1, '/')) {
        *at = '\0';
        ck_assert_msg(mkdir(path, 0755) == 0 || errno == EEXIST, "%s: %s", path,
                      strerror(errno));
        *at = '/';
    }
    FILE *file = fopen(path, "we");
    ck_assert_msg(file != NULL, "%s: %s", path, strerror(errno));
    va_start(arguments, format);
    ck_assert_int_ge(vfprintf(file, format, arguments), 0);
    va_end(arguments);
    ck_assert_int_eq(fclose(file), 0);
}

void sbx_kit_group(const char *group, const char *type, const char *controllers,
                   const char *on, const char *procs)
{
    const struct {
        const char *file;
        const char *text;
    } files[] = {{"cgroup.type", type},
                 {"cgroup.controllers", controllers},
                 {"cgroup.subtree_control", on},
                 {"cgroup.procs", procs}};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char name[SBX_FIXTURE_PATH_SIZE];
        (void)snprintf(name, sizeof(name), MOUNT "%s/%s",
                       strcmp(group, "/") == 0 ? "" : group, files[i].file);
        if (files[i].text != NULL) {
            sbx_kit_file(name, "%s", files[i].text);
        }
    }
}

int sbx_kit_proc(const char *own)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char mount[SBX_FIXTURE_PATH_SIZE];
    sbx_kit_file("proc/self/mountinfo",
                 "22 1 0:20 / / rw - tmpfs root rw\n"
                 "23 22 0:21 / %s rw,relatime - cgroup2 cgroup2 rw\n",
                 sbx_kit_mount(mount));
    sbx_kit_file("proc/self/cgroup", "0::%s\n", own);
    int fd = open(sbx_fixture_path(path, "proc"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    return fd;
}

/* ---- real groups ---- */

const char *sbx_kit_delegated(const char *what)
{
    const char *path = getenv("SBX_GUEST_CGROUP");
    if (path == NULL) {
        path = getenv("VMLANE_CGROUP");
    }
    if (path == NULL) {
        (void)fprintf(stderr,
                      "# SKIP %s: no group is delegated here (SBX_GUEST_CGROUP)\n", what);
    }
    return path;
}
