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
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* $N is an empty directory, $KEEP one that is to be seen at its place. /etc is a copy of
 * links and binds, so that a scene can put something else into it. */
static const char base[] =
    "set -e\n"
    "mount -t tmpfs -o mode=755 none \"$N\"\n"
    "cd \"$N\"\n"
    "mkdir -p usr dev proc tmp home root var run opt old \".$KEEP\"\n"
    "chmod 1777 tmp; chmod 700 root\n"
    "for d in usr dev proc; do mount --rbind /$d $d; done\n"
    "mount --bind \"$KEEP\" \".$KEEP\"\n"
    "for l in bin sbin lib lib32 lib64 libx32; do\n"
    "    if [ -L /$l ]; then ln -s \"$(readlink /$l)\" $l\n"
    "    elif [ -d /$l ]; then mkdir $l; mount --rbind /$l $l; fi\n"
    "done\n"
    "if [ -d /etc ]; then mkdir etc; mount --bind /etc etc; mount -o remount,bind,ro "
    "etc; fi\n";

static int run_script(const char *script)
{
    pid_t pid = fork();
    if (pid == 0) {
        (void)execl("/bin/sh", "sh", "-c", script, NULL);
        _exit(127);
    }
    int status = -1;
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -1;
}

int sbx_stage_enter(const char *directory, const char *keep, const char *script)
{
    char all[8192];
    if (snprintf(all, sizeof(all), "%s%s\n", base, script) >= (int)sizeof(all) ||
        unshare(CLONE_NEWNS) < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        setenv("N", directory, 1) < 0 || setenv("KEEP", keep, 1) < 0 ||
        run_script(all) < 0 || chdir(directory) < 0 ||
        syscall(SYS_pivot_root, ".", "old") < 0 || chdir("/") < 0 ||
        umount2("/old", MNT_DETACH) < 0 || rmdir("/old") < 0 || unsetenv("N") < 0 ||
        unsetenv("KEEP") < 0) {
        return -1;
    }
    return 0;
}

bool sbx_stage_possible(void)
{
    if (geteuid() != 0) {
        return false;
    }
    pid_t pid = fork();
    if (pid == 0) {
        _exit(unshare(CLONE_NEWNS) == 0 &&
                      mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0
                  ? 0
                  : 1);
    }
    int status = -1;
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}
