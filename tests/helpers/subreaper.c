/*
 * subreaper - a child that is a subreaper too, so that its orphans come to it and not to
 * whoever watches from above. It has five, each in a session of its own.
 */
#include "helper.h"

#include <sys/prctl.h>

#define ORPHANS 5

static void make_orphan(void)
{
    pid_t between = helper_fork();
    if (between == 0) {
        if (helper_fork() == 0) {
            helper_new_session();
            helper_up();
            helper_idle();
        }
        _exit(0);
    }
    (void)waitpid(between, NULL, 0);
}

int main(void)
{
    helper_bound(HELPER_LIFETIME_SECONDS);
    if (helper_fork() == 0) {
        helper_new_session();
        if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0) {
            helper_fail("prctl");
        }
        for (int i = 0; i < ORPHANS; i++) {
            make_orphan();
        }
        helper_idle();
    }
    helper_idle();
}
