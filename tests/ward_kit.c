/*
 * ward_kit.c - see ward_kit.h.
 */
#include "tests/ward_kit.h"

#include "base/fd.h"
#include "tests/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static bool make_beside(char path[static SBX_GROUP_KIT_SIZE])
{
    static int count;
    char own[SBX_GROUP_KIT_SIZE];
    char name[64];
    if (!sbx_group_kit_own(own) || strrchr(own, '/') == NULL) {
        return false;
    }
    *strrchr(own, '/') = '\0';
    if (!sbx_group_kit_has(own, "cgroup.subtree_control", "memory") ||
        !sbx_group_kit_has(own, "cgroup.subtree_control", "pids") ||
        access(own, W_OK) < 0) {
        return false;
    }
    (void)snprintf(name, sizeof name, "sbxtest-%d-beside-%d", (int)getpid(), count++);
    sbx_group_kit_below(own, name, path);
    return true;
}

bool sbx_ward_make(bool controllers, char path[static SBX_GROUP_KIT_SIZE])
{
    bool made = controllers ? make_beside(path) : sbx_group_kit_make(path);
    if (!made) {
        sbx_group_kit_skip(controllers ? "a group with controllers" : "a group",
                           "none can be made here");
    }
    return made;
}

void sbx_ward_start(const char *path, int (*run)(void *context), void *context,
                    struct sbx_ward *ret_ward)
{
    int ready[2];
    int go[2];
    char byte = 'r';
    ck_assert(pipe2(ready, O_CLOEXEC) == 0 && pipe2(go, O_CLOEXEC) == 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        (void)close(go[1]);
        if (sbx_group_kit_write(path, "cgroup.procs", "0") < 0 ||
            write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1) {
            _exit(99);
        }
        _exit(run(context));
    }
    (void)close(go[0]);
    (void)close(ready[1]);
    ck_assert_msg(read(ready[0], &byte, 1) == 1, "no child in %s", path);
    (void)close(ready[0]);
    *ret_ward = (struct sbx_ward){pid, go[1]};
}

void sbx_ward_go(struct sbx_ward *ward)
{
    if (ward->go >= 0) { /* not its end: other children hold that too */
        ck_assert_int_eq(write(ward->go, "g", 1), 1);
    }
    sbx_fd_drop(&ward->go);
}

int sbx_ward_wait(struct sbx_ward *ward)
{
    int status = 0;
    sbx_ward_go(ward);
    ck_assert_int_eq(waitpid(ward->pid, &status, 0), ward->pid);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
