/*
 * share MIB K [MS] - MIB of shared memory, touched by each of K children (at most 64).
 * Says "up" when all have; ends after MS milliseconds, or waits to be ended.
 */
#include "helper.h"

int main(int argc, char **argv)
{
    helper_bound(HELPER_LIFETIME_SECONDS);
    size_t size = helper_number(argc, argv, 1, 100, 2048) * HELPER_MIB;
    unsigned long count = helper_number(argc, argv, 2, 5, 64);
    unsigned long life_ms = helper_number(argc, argv, 3, 0, 60000);
    atomic_ulong *touched = helper_shared(sizeof(*touched));
    char *memory = helper_shared(size);
    pid_t children[64];
    for (unsigned long i = 0; i < count; i++) {
        children[i] = helper_fork();
        if (children[i] == 0) {
            helper_touch(memory, size);
            (void)atomic_fetch_add(touched, 1);
            helper_idle();
        }
    }
    while (atomic_load(touched) < count) {
        helper_nap_us(1000);
    }
    helper_up();
    if (life_ms == 0) {
        helper_idle();
    }
    helper_nap_us(life_ms * 1000U);
    for (unsigned long i = 0; i < count; i++) {
        (void)kill(children[i], SIGKILL);
        (void)waitpid(children[i], NULL, 0);
    }
    return 0;
}
