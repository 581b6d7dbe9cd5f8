/*
 * run_stage.c - a root of its own for one scene: a mount namespace in which a fresh tmpfs
 * takes the place of the host's root, with what the scene puts there.
 *
 * So that a test can have a file in /root, a resolv.conf that points into /run or a
 * program right below / without touching those of the host. Runs as root, in the child of
 * a test that is about to become sbx-run; all of it is gone with that.
 */
#include "tests/run_stage.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static bool make_private(void)
{
    return unshare(CLONE_NEWNS) == 0 &&
           mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

/* "/NAME" of the host at "NAME" in the working directory, which becomes one. */
static bool show(const char *name, bool writable)
{
    char host[PATH_MAX];
    (void)snprintf(host, sizeof(host), "/%s", name);
    const unsigned long flags = MS_BIND | MS_REMOUNT | MS_RDONLY;
    return (mkdir(name, 0755) == 0 || errno == EEXIST) &&
           mount(host, name, NULL, MS_BIND | MS_REC, NULL) == 0 &&
           (writable || mount(NULL, name, NULL, flags, NULL) == 0);
}

/* A link of the host, a directory of it, or nothing. */
static bool show_beside_usr(const char *name)
{
    char host[PATH_MAX];
    char target[PATH_MAX];
    struct stat status;
    (void)snprintf(host, sizeof(host), "/%s", name);
    if (lstat(host, &status) < 0) {
        return errno == ENOENT;
    }
    if (!S_ISLNK(status.st_mode)) {
        return show(name, true);
    }
    ssize_t length = readlink(host, target, sizeof(target) - 1);
    target[length > 0 ? length : 0] = '\0';
    return length > 0 && symlink(target, name) == 0;
}

static bool make_parents(const char *path)
{
    char part[PATH_MAX];
    (void)snprintf(part, sizeof(part), ".%s/", path);
    for (char *slash = strchr(part + 2, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, 0755) < 0 && errno != EEXIST) {
            return false;
        }
        *slash = '/';
    }
    return true;
}

/* In the working directory. /etc is read-only: a scene may take its mount away. */
static bool make_base(const char *keep)
{
    static const struct {
        const char *name;
        mode_t mode;
    } empty[] = {{"tmp", 01777}, {"home", 0755}, {"root", 0700}, {"var", 0755},
                 {"run", 0755},  {"opt", 0755},  {"old", 0700}};
    static const char *const beside_usr[] = {"bin",   "sbin",  "lib",
                                             "lib32", "lib64", "libx32"};
    char place[PATH_MAX];
    for (size_t i = 0; i < LENGTH(empty); i++) {
        if (mkdir(empty[i].name, 0755) < 0 || chmod(empty[i].name, empty[i].mode) < 0) {
            return false;
        }
    }
    for (size_t i = 0; i < LENGTH(beside_usr); i++) {
        if (!show_beside_usr(beside_usr[i])) {
            return false;
        }
    }
    (void)snprintf(place, sizeof(place), ".%s", keep);
    return show("usr", true) && show("dev", true) && show("proc", true) &&
           show("etc", false) && make_parents(keep) &&
           mount(keep, place, NULL, MS_BIND, NULL) == 0;
}

static bool run_script(const char *script)
{
    pid_t pid = fork();
    if (pid == 0) {
        (void)execl("/bin/sh", "sh", "-ec", script, NULL);
        _exit(127);
    }
    int status = -1;
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

int sbx_stage_enter(const char *directory, const char *keep, const char *script)
{
    bool done = make_private() && mount("none", directory, "tmpfs", 0, "mode=755") == 0 &&
                chdir(directory) == 0 && make_base(keep) && run_script(script) &&
                syscall(SYS_pivot_root, ".", "old") == 0 && chdir("/") == 0 &&
                umount2("/old", MNT_DETACH) == 0 && rmdir("/old") == 0;
    return done ? 0 : -1;
}

bool sbx_stage_possible(void)
{
    if (geteuid() != 0) {
        return false;
    }
    pid_t pid = fork();
    if (pid == 0) {
        _exit(make_private() ? 0 : 1);
    }
    int status = -1;
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}
