/*
 * short_children N MS [orphans|ignored] - N children (at most 5000) one after the other,
 * each of MS milliseconds of CPU. They are waited for; or each is the orphan of a child
 * that ends first; or nobody waits for them, as SIGCHLD is ignored.
 *
 * Never more than two at a time. Says "spent US" at the end: the CPU time that the
 * children were told to use.
 */
#include "helper.h"

#include <fcntl.h>

static _Noreturn void work(uint64_t spin_us, int done)
{
    helper_spin_us(spin_us);
    (void)close(done);
    _exit(0);
}

/* A child, or the child of one; we go on when it has closed its end of the pipe. */
static void make_child(uint64_t spin_us, int orphan)
{
    int done[2];
    if (pipe2(done, O_CLOEXEC) < 0) {
        helper_fail("pipe");
    }
    pid_t pid = helper_fork();
    if (pid == 0) {
        if (!orphan || helper_fork() == 0) {
            work(spin_us, done[1]);
        }
        _exit(0);
    }
    char end;
    (void)close(done[1]);
    (void)!read(done[0], &end, 1);
    (void)close(done[0]);
    (void)waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
    helper_bound(HELPER_LIFETIME_SECONDS);
    unsigned long count = helper_number(argc, argv, 1, 100, 5000);
    uint64_t spin_us = helper_number(argc, argv, 2, 1, 10000) * 1000U;
    const char *how = argc > 3 ? argv[3] : "";
    if (strcmp(how, "ignored") == 0) {
        (void)signal(SIGCHLD, SIG_IGN);
    }
    for (unsigned long i = 0; i < count; i++) {
        make_child(spin_us, strcmp(how, "orphans") == 0);
    }
    helper_say("spent %lu\n", count * (unsigned long)spin_us);
    return 0;
}
