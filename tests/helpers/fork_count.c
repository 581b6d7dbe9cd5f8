/*
 * fork_count N - tries to have N idle children (at most 32), says "forked K" for those
 * that it got, ends them and exits.
 */
#include "helper.h"

int main(int argc, char **argv)
{
    pid_t children[32];
    unsigned long wanted = helper_number(argc, argv, 1, 8, 32);
    unsigned long count = 0;
    helper_bound(HELPER_LIFETIME_SECONDS);
    while (count < wanted) {
        pid_t pid = fork();
        if (pid == 0) {
            helper_bound(HELPER_LIFETIME_SECONDS);
            helper_idle();
        }
        if (pid < 0) {
            break;
        }
        children[count++] = pid;
    }
    helper_say("forked %lu\n", count);
    for (unsigned long i = 0; i < count; i++) {
        (void)kill(children[i], SIGKILL);
        (void)waitpid(children[i], NULL, 0);
    }
    return 0;
}
