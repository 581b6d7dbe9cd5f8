/*
 * stamps COUNT US - says "up PID"; then writes COUNT lines, each US microseconds after
 * the one before, and in each the time of CLOCK_MONOTONIC in microseconds at which it was
 * written: so whoever reads it knows how long that took.
 */
#include "helper.h"

#define COUNT_MAX 100000
#define US_MAX 1000000

int main(int argc, char **argv)
{
    helper_bound(HELPER_LIFETIME_SECONDS);
    unsigned long count = helper_number(argc, argv, 1, 100, COUNT_MAX);
    unsigned long us = helper_number(argc, argv, 2, 5000, US_MAX);
    helper_up();
    for (unsigned long i = 0; i < count; i++) {
        struct timespec now;
        helper_nap_us(us);
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        helper_say("%llu\n", (unsigned long long)now.tv_sec * 1000000 +
                                 (unsigned long long)now.tv_nsec / 1000);
    }
    return 0;
}
