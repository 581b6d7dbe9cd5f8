/*
 * verify_group.c - control groups: whether a leaf can be made where a run would make one,
 * which controllers hold limits there, whether a process is born in it, and whether
 * cgroup.kill ends it.
 *
 * Done by the verifier itself, before the other checks, as a run does it: so nobody but
 * processes of ours is in the group that may have to be left. The leaf stays until they
 * are over, and with it what was switched on for it.
 */
#include "sandbox/verify.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "cgroup/group.h"
#include "monitor/grouped.h"
#include "reaper/pidref.h"
#include "reaper/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_clone3
#define SYS_clone3 435
#endif

#define END_BOUND_US UINT64_C(2000000)
#define LOOK_NS 1000000L
#define ALIVE_STATUS 77
#define DELEGATE                                                                         \
    "systemd-run --user --scope -p Delegate=yes sbx-watch ..., or --cgroup-root PATH"

#define UNIFY "boot with systemd.unified_cgroup_hierarchy=1"

/* Large enough for everybody in it. */
static const struct sbx_leaf_limits wanted = {.memory_bytes = UINT64_C(1) << 30,
                                              .swap_bytes = 0,
                                              .threads_count = 1024,
                                              .cpu_percent = 100};
static const struct sbx_leaf_limits nothing = {SBX_UNKNOWN, SBX_UNKNOWN, false,
                                               SBX_UNKNOWN, SBX_UNKNOWN};

/* struct clone_args of linux/sched.h, which older headers lack. */
#define INTO_CGROUP UINT64_C(0x200000000)
struct birth {
    uint64_t flags;
    uint64_t unused[3];
    uint64_t exit_signal;
    uint64_t more_unused[5];
    uint64_t cgroup;
};

static struct sbx_finding *finding(const struct sbx_verifier *verifier, const char *name)
{
    return &verifier->board->findings[sbx_check_find(name)];
}

static _Noreturn void idle(void)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    for (;;) {
        (void)pause();
    }
}

/* --- somebody in the leaf --- */

static int is_that_pid(pid_t pid, void *context)
{
    return pid == *(const pid_t *)context;
}

static bool is_in_leaf(int leaf_fd, pid_t pid)
{
    return sbx_leaf_each_process(leaf_fd, sbx_clock_us() + END_BOUND_US, is_that_pid,
                                 &pid) == 1;
}

/* Reaps a child within the bound; false: it is still there. */
static bool is_gone(pid_t pid)
{
    const struct timespec moment = {.tv_nsec = LOOK_NS};
    uint64_t until_us = sbx_clock_us() + END_BOUND_US;
    while (waitpid(pid, NULL, WNOHANG) == 0) {
        if (sbx_clock_us() >= until_us) {
            return false;
        }
        (void)nanosleep(&moment, NULL);
    }
    return true;
}

static bool is_empty(int leaf_fd)
{
    const struct timespec moment = {.tv_nsec = LOOK_NS};
    uint64_t until_us = sbx_clock_us() + END_BOUND_US;
    while (sbx_leaf_populated(leaf_fd) != 0) {
        if (sbx_clock_us() >= until_us) {
            return false;
        }
        (void)nanosleep(&moment, NULL);
    }
    return true;
}

static void end_child(pid_t pid)
{
    (void)sbx_child_signal(pid, SIGKILL);
    (void)is_gone(pid);
}

static int move_in(int leaf_fd, pid_t pid)
{
    char text[16];
    int length = snprintf(text, sizeof text, "%d", (int)pid);
    SBX_AUTO_CLOSE int fd = openat(leaf_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    return fd < 0 ? -errno : sbx_fd_write_all(fd, text, (size_t)length);
}

static void try_kill(int leaf_fd, struct sbx_finding *ret)
{
    pid_t child = fork();
    if (child == 0) {
        idle();
    }
    int r = child < 0 ? -errno : move_in(leaf_fd, child);
    if (r < 0) {
        sbx_finding_no(ret, "cgroup", DELEGATE, "nobody can be moved into the leaf: %s",
                       sbx_errno_text(-r).text);
    } else if ((r = sbx_leaf_kill(leaf_fd)) < 0) {
        sbx_finding_no(ret, "kernel",
                       "a kernel from 5.14 on; until then the tree is swept",
                       "cgroup.kill: %s", sbx_errno_text(-r).text);
    } else if (!is_gone(child) || !is_empty(leaf_fd)) {
        sbx_finding_no(ret, "kernel", "", "cgroup.kill has not ended a process in 2 s");
    } else {
        sbx_finding_yes(ret, "ended a process, and the group said populated 0");
        return;
    }
    if (child > 0) {
        end_child(child);
    }
}

/* Who was born there tells that it has lived, as an exit status. */
static void judge_birth(pid_t child, bool inside, struct sbx_finding *ret)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        continue;
    }
    if (WIFSIGNALED(status)) {
        sbx_finding_no(
            ret, "kernel",
            "start it in another group, or in a fresh scope; until then the "
            "leader moves itself into its group",
            "clone3 with CLONE_INTO_CGROUP: killed at its birth, as some kernels "
            "do where the caller's group was once ended by cgroup.kill");
    } else if (!inside || WEXITSTATUS(status) != ALIVE_STATUS) {
        sbx_finding_no(ret, "kernel", "",
                       "clone3 with CLONE_INTO_CGROUP: not born in the leaf");
    } else {
        sbx_finding_yes(ret, "clone3 with CLONE_INTO_CGROUP: born in the leaf");
    }
}

/* The child looks whether somebody goes on holding the other end, and so never outlives
 * us by much. */
static void try_birth(int leaf_fd, struct sbx_finding *ret)
{
    struct birth birth = {
        .flags = INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)leaf_fd};
    int ends[2];
    char byte = 0;
    if (pipe2(ends, O_CLOEXEC) < 0) {
        sbx_finding_no(ret, "kernel", "", "could not be tried: %s",
                       sbx_errno_text(errno).text);
        return;
    }
    long child = syscall(SYS_clone3, &birth, sizeof birth);
    if (child == 0) {
        (void)close(ends[1]);
        (void)!read(ends[0], &byte, 1);
        _exit(ALIVE_STATUS);
    }
    int code = errno;
    bool inside = child > 0 && is_in_leaf(leaf_fd, (pid_t)child);
    (void)close(ends[0]);
    (void)close(ends[1]);
    if (child > 0) {
        judge_birth((pid_t)child, inside, ret);
        return;
    }
    bool filtered = code == EPERM || code == ENOSYS;
    sbx_finding_no(ret, filtered ? "seccomp" : "kernel",
                   "run where clone3 is allowed; until then the leader moves itself into "
                   "the group",
                   "clone3 with CLONE_INTO_CGROUP: %s", sbx_errno_text(code).text);
}

/* --- the leaf --- */

static int open_with(const struct sbx_leaf_limits *limits, pid_t caller,
                     struct sbx_group *group, struct sbx_error *err)
{
    SBX_AUTO_CLOSE int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct sbx_proc_stat self;
    int r = proc_fd < 0 ? -errno : sbx_proc_stat_at(proc_fd, getpid(), &self);
    if (r < 0) {
        return sbx_error_set(err, -r, SBX_STAGE_CHECK, "/proc cannot be read: %s",
                             sbx_errno_text(-r).text);
    }
    const struct sbx_group_wish wish = {
        .root_directory_fd = AT_FDCWD,
        .limits = *limits,
        .measured = SBX_CONTROLLER_BIT(SBX_CONTROLLER_MEMORY) |
                    SBX_CONTROLLER_BIT(SBX_CONTROLLER_PIDS) |
                    SBX_CONTROLLER_BIT(SBX_CONTROLLER_CPU),
        .owner = {.pid = getpid(),
                  .start_ticks = self.start_ticks,
                  .lives = sbx_grouped_owner_lives,
                  .context = &proc_fd},
        .ours = {getpid(), caller},
        .ours_count = 2,
    };
    return sbx_group_open(proc_fd, &wish, group, err);
}

static void judge_controller(const struct sbx_group *group,
                             enum sbx_controller controller, uint64_t armed,
                             struct sbx_finding *ret)
{
    const char *why = group->place.why[controller];
    if (group->leaf.fd >= 0 && armed != SBX_UNKNOWN) {
        sbx_finding_yes(ret, "a limit was set and read back");
    } else {
        sbx_finding_no(
            ret, "cgroup", strstr(why, "v1") != NULL ? UNIFY : DELEGATE, "%s%s",
            group->leaf.fd < 0 ? "there is no leaf"
            : why[0] != '\0'   ? why
                               : "not in the leaf's cgroup.controllers",
            controller == SBX_CONTROLLER_CPU ? " (only --cpu-quota needs it)"
                                             : "; the monitor holds the limit");
    }
}

static void judge_group(const struct sbx_verifier *verifier,
                        const struct sbx_group *group, const struct sbx_error *failure)
{
    const char *why = failure->code != 0 ? failure->message : group->why_none;
    struct sbx_finding *leaf = finding(verifier, "cgroup-leaf");
    struct sbx_finding *kill = finding(verifier, "cgroup-kill");
    struct sbx_finding *birth = finding(verifier, "cgroup-birth");
    judge_controller(group, SBX_CONTROLLER_MEMORY, group->armed.memory_bytes,
                     finding(verifier, "cgroup-memory"));
    judge_controller(group, SBX_CONTROLLER_PIDS, group->armed.threads_count,
                     finding(verifier, "cgroup-pids"));
    judge_controller(group, SBX_CONTROLLER_CPU, group->armed.cpu_percent,
                     finding(verifier, "cgroup-cpu"));
    if (group->leaf.fd < 0) {
        sbx_finding_no(leaf, "cgroup", DELEGATE, "none can be made: %s", why);
        sbx_finding_no(kill, "cgroup", DELEGATE, "there is no leaf");
        sbx_finding_no(birth, "cgroup", DELEGATE, "there is no leaf");
        return;
    }
    sbx_finding_yes(leaf, "made %.160s", group->path);
    /* In this order: a group that was killed once is no fresh one any more. */
    try_birth(group->leaf.fd, birth);
    try_kill(group->leaf.fd, kill);
}

void sbx_verify_groups(const struct sbx_verifier *verifier, pid_t caller,
                       struct sbx_group *ret_group)
{
    struct sbx_error failure = {0};
    sbx_group_init(ret_group);
    if (open_with(&wanted, caller, ret_group, &failure) < 0) {
        sbx_group_init(ret_group);
        /* Limits are set exactly or not at all; a leaf may do without. */
        struct sbx_error second = {0};
        if (open_with(&nothing, caller, ret_group, &second) < 0) {
            sbx_group_init(ret_group);
        }
    }
    judge_group(verifier, ret_group, &failure);
}
