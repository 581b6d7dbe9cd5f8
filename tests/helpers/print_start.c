/*
 * print_start - what it was started with, a line for each: "cwd", "umask", "cpus" (each
 * number), "uid" and "gid" (real, effective, saved), "groups", "session", "group" and
 * "tty" ("own" or "other", "yes" or "no"), "no_new_privs"; then its environment, each
 * variable in a line that begins with "env ".
 */
#include "helper.h"

#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>

static void print_cpus(void)
{
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof(cpus), &cpus) < 0) {
        helper_fail("sched_getaffinity");
    }
    (void)printf("cpus");
    for (unsigned i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &cpus)) {
            (void)printf(" %u", i);
        }
    }
    (void)printf("\n");
}

static void print_ids(void)
{
    uid_t u[3];
    gid_t g[3];
    gid_t groups[64];
    int count = getgroups(64, groups);
    if (getresuid(&u[0], &u[1], &u[2]) < 0 || getresgid(&g[0], &g[1], &g[2]) < 0 ||
        count < 0) {
        helper_fail("ids");
    }
    (void)printf("uid %u %u %u\ngid %u %u %u\ngroups", u[0], u[1], u[2], g[0], g[1],
                 g[2]);
    for (int i = 0; i < count; i++) {
        (void)printf(" %u", groups[i]);
    }
    (void)printf("\n");
}

int main(void)
{
    char cwd[PATH_MAX];
    mode_t mask = umask(0);
    helper_bound(HELPER_LIFETIME_SECONDS);
    if (getcwd(cwd, sizeof(cwd)) == NULL) {
        helper_fail("getcwd");
    }
    (void)printf("cwd %s\numask %04o\n", cwd, mask);
    print_cpus();
    print_ids();
    int tty = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
    (void)printf("session %s\ngroup %s\ntty %s\nno_new_privs %d\n",
                 getsid(0) == getpid() ? "own" : "other",
                 getpgrp() == getpid() ? "own" : "other", tty >= 0 ? "yes" : "no",
                 prctl(PR_GET_NO_NEW_PRIVS, 0UL, 0UL, 0UL, 0UL));
    for (char **entry = environ; *entry != NULL; entry++) {
        (void)printf("env %s\n", *entry);
    }
    return 0;
}
