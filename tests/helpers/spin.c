/*
 * spin [MS [PROCESSES]] - uses MS milliseconds of CPU (100), in each of PROCESSES
 * processes (1, at most 64), and exits 0. It says "up" before.
 */
#include "helper.h"

int main(int argc, char **argv)
{
    helper_bound(HELPER_LIFETIME_SECONDS);
    uint64_t spin_us = helper_number(argc, argv, 1, 100, 60000) * 1000U;
    unsigned long count = helper_number(argc, argv, 2, 1, 64);
    helper_up();
    for (unsigned long i = 1; i < count; i++) {
        if (helper_fork() == 0) {
            helper_spin_us(spin_us);
            _exit(0);
        }
    }
    helper_spin_us(spin_us);
    while (wait(NULL) > 0) {
    }
    return 0;
}
