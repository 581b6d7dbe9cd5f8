/*
 * leaver [MS] - leaves a daemon (double fork, own session) and exits 0 once that one is
 * up. The daemon keeps the standard output; with MS it ends after that many milliseconds.
 */
#include "helper.h"

#include <fcntl.h>

int main(int argc, char **argv)
{
    helper_bound(HELPER_LIFETIME_SECONDS);
    unsigned long life_ms = helper_number(argc, argv, 1, 0, 60000);
    int ready[2];
    if (pipe2(ready, O_CLOEXEC) < 0) {
        helper_fail("pipe");
    }
    pid_t between = helper_fork();
    if (between == 0) {
        helper_new_session();
        if (helper_fork() != 0) {
            _exit(0);
        }
        (void)close(ready[0]);
        helper_up();
        (void)close(ready[1]);
        if (life_ms > 0) {
            helper_nap_us(life_ms * 1000U);
            _exit(0);
        }
        helper_idle();
    }
    (void)close(ready[1]);
    (void)waitpid(between, NULL, 0);
    char end;
    return read(ready[0], &end, 1) == 0 ? 0 : 1;
}
