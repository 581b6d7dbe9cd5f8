/*
 * daemon - a leader with a daemon made by the book: fork, setsid, fork, parent gone.
 *
 * The daemon keeps the standard output. The leader waits to be ended.
 */
#include "helper.h"

int main(void)
{
    helper_bound(HELPER_LIFETIME_SECONDS);
    pid_t between = helper_fork();
    if (between == 0) {
        helper_new_session();
        if (helper_fork() != 0) {
            _exit(0);
        }
        helper_up();
        helper_idle();
    }
    (void)waitpid(between, NULL, 0);
    helper_idle();
}
