/*
 * launch_start.c - the steps between fork and exec that make the command start otherwise
 * than its caller, see start.h; their place among the other steps is in launch_child.c.
 *
 * Without a wish a step makes no system call. Runs with the ceilings in force, so takes
 * no memory and no descriptor. Never loads anything: user and group are numbers.
 */
#include "reaper/start.h"

#include "base/error.h"
#include "base/text.h"
#include "reaper/launch_child.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define SHOWN_SIZE 160

/* --- before the fork --- */

uid_t sbx_start_uid(const struct sbx_start *start)
{
    return start->user_asked ? start->uid : getuid();
}

/* Real, effective and saved. */
static bool ids_are(uid_t uid, gid_t gid)
{
    uid_t u[3];
    gid_t g[3];
    return getresuid(&u[0], &u[1], &u[2]) == 0 && getresgid(&g[0], &g[1], &g[2]) == 0 &&
           u[0] == uid && u[1] == uid && u[2] == uid && g[0] == gid && g[1] == gid &&
           g[2] == gid;
}

/* An ordinary user may name itself: nothing is to be done then, and nothing could be. */
static bool is_already(const struct sbx_start *start)
{
    return geteuid() != 0 && ids_are(start->uid, start->gid);
}

/* Without CAP_KILL the command would be out of our reach. */
int sbx_start_check(const struct sbx_start *start, struct sbx_error *err)
{
    static const struct {
        const char *name;
        unsigned number;
    } needed[] = {
        {"CAP_SETUID", CAP_SETUID}, {"CAP_SETGID", CAP_SETGID}, {"CAP_KILL", CAP_KILL}};
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
    if (!start->user_asked || is_already(start)) {
        return 0;
    }
    if (syscall(SYS_capget, &header, data) < 0) {
        return sbx_error_set(err, errno, SBX_STAGE_CHECK, "option --user: capget: %s",
                             sbx_errno_name(errno));
    }
    for (size_t i = 0; i < LENGTH(needed) && start->uid != geteuid(); i++) {
        if ((data[0].effective & 1U << needed[i].number) == 0) {
            return sbx_error_set(err, EPERM, SBX_STAGE_CHECK,
                                 "option --user: to run as %u:%u takes root's %s, which "
                                 "uid %u lacks here",
                                 start->uid, start->gid, needed[i].name, geteuid());
        }
    }
    return 0;
}

/* --- the steps --- */

/* A set without any processor that is there is refused; of any other the kernel takes
 * what it has, and says nothing. */
int sbx_launch_set_cpus(const struct sbx_launch_child *child, struct sbx_error *err)
{
    const struct sbx_start *start = child->launch->start;
    struct sbx_cpus now;
    if (start == NULL || !start->cpus_asked) {
        return 0;
    }
    memset(&now, 0, sizeof now);
    if (sched_setaffinity(0, sizeof start->cpus, (const cpu_set_t *)start->cpus.words) <
            0 &&
        errno != EINVAL) {
        return sbx_launch_failed(err, errno, "sched_setaffinity");
    }
    if (sched_getaffinity(0, sizeof now, (cpu_set_t *)now.words) < 0) {
        return sbx_launch_failed(err, errno, "sched_getaffinity");
    }
    for (unsigned cpu = 0; cpu < SBX_CPU_MAX; cpu++) {
        bool wanted = sbx_cpus_has(&start->cpus, cpu);
        if (wanted && !sbx_cpus_has(&now, cpu)) {
            return sbx_launch_failed(err, EINVAL, "CPU %u is not there or not allowed",
                                     cpu);
        }
    }
    if (memcmp(&now, &start->cpus, sizeof now) != 0) {
        return sbx_launch_failed(err, EIO, "others than those asked for were read back");
    }
    return 0;
}

int sbx_launch_set_umask(const struct sbx_launch_child *child, struct sbx_error *err)
{
    (void)err; /* cannot fail */
    const struct sbx_start *start = child->launch->start;
    if (start != NULL && start->umask_asked) {
        (void)umask(start->umask);
    }
    return 0;
}

static int change_user(const struct sbx_start *start, struct sbx_error *err)
{
    uid_t uid = start->uid;
    gid_t gid = start->gid;
    /* Without any, there is nothing to ask for: in a user namespace that may be
     * forbidden. */
    if (getgroups(0, NULL) != 0) {
        if (setgroups(0, NULL) < 0) {
            return sbx_launch_failed(err, errno, "becoming %u:%u: setgroups", uid, gid);
        }
        if (getgroups(0, NULL) != 0) {
            return sbx_launch_failed(err, EIO, "becoming %u:%u: groups are left", uid,
                                     gid);
        }
    }
    if (setresgid(gid, gid, gid) < 0) {
        return sbx_launch_failed(err, errno, "becoming %u:%u: setresgid", uid, gid);
    }
    if (setresuid(uid, uid, uid) < 0) {
        return sbx_launch_failed(err, errno, "becoming %u:%u: setresuid", uid, gid);
    }
    return 0;
}

int sbx_launch_set_user(const struct sbx_launch_child *child, struct sbx_error *err)
{
    const struct sbx_start *start = child->launch->start;
    if (start == NULL || !start->user_asked) {
        return 0;
    }
    int error = is_already(start) ? 0 : change_user(start, err);
    if (error < 0) {
        return error;
    }
    if (!ids_are(start->uid, start->gid)) {
        return sbx_launch_failed(err, EIO, "becoming %u:%u: other ids were read back",
                                 start->uid, start->gid);
    }
    /* Capabilities may have been kept (secure bits): then it is not what was asked for.
     */
    if (start->uid != 0 && setuid(0) == 0) {
        return sbx_launch_failed(err, EIO, "becoming %u:%u: the way back to root is open",
                                 start->uid, start->gid);
    }
    return 0;
}

int sbx_launch_set_directory(const struct sbx_launch_child *child, struct sbx_error *err)
{
    const struct sbx_start *start = child->launch->start;
    char shown[SHOWN_SIZE];
    if (start == NULL || start->directory == NULL) {
        return 0;
    }
    if ((start->directory_fd < 0 || fchdir(start->directory_fd) == 0) &&
        chdir(start->directory) == 0) {
        return 0;
    }
    int code = errno;
    (void)sbx_text_escape(shown, sizeof shown, start->directory,
                          strlen(start->directory));
    if (!start->user_asked) {
        return sbx_launch_failed(err, code, "chdir to %s", shown);
    }
    return sbx_launch_failed(err, code, "chdir to %s as uid %u", shown, start->uid);
}

int sbx_launch_bar_privileges(const struct sbx_launch_child *child, struct sbx_error *err)
{
    const struct sbx_start *start = child->launch->start;
    if (start == NULL || !start->no_new_privs) {
        return 0;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) < 0) {
        return sbx_launch_failed(err, errno, "prctl");
    }
    int now = prctl(PR_GET_NO_NEW_PRIVS, 0UL, 0UL, 0UL, 0UL);
    if (now != 1) {
        return sbx_launch_failed(err, now < 0 ? errno : EIO, "%d was read back", now);
    }
    return 0;
}
