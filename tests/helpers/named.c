/*
 * named NAME - calls itself NAME (its comm, at most 15 bytes) and waits to be ended.
 * named --stray NAME - leaves such a process, in a session of its own, and exits 0.
 */
#include "helper.h"

#include <fcntl.h>
#include <sys/prctl.h>

static _Noreturn void live_as(const char *name, int ready)
{
    if (prctl(PR_SET_NAME, name) < 0) {
        helper_fail("prctl");
    }
    helper_up();
    if (ready >= 0) {
        (void)close(ready);
    }
    helper_idle();
}

int main(int argc, char **argv)
{
    int ready[2];
    helper_bound(HELPER_LIFETIME_SECONDS);
    if (argc == 2) {
        live_as(argv[1], -1);
    }
    if (argc != 3 || strcmp(argv[1], "--stray") != 0 || pipe2(ready, O_CLOEXEC) < 0) {
        helper_fail("usage: named [--stray] NAME");
    }
    if (helper_fork() == 0) {
        (void)close(ready[0]);
        helper_new_session();
        live_as(argv[2], ready[1]);
    }
    (void)close(ready[1]);
    char end;
    return read(ready[0], &end, 1) == 0 ? 0 : 1;
}
