/*
 * measure_threads N MS - a process of N idle threads (at most 500) besides the main one.
 * Says "up" when all of them run, and ends after MS milliseconds.
 */
#include "helper.h"

#include <pthread.h>

static void *idle(void *unused)
{
    (void)unused;
    helper_idle();
}

int main(int argc, char **argv)
{
    helper_bound(HELPER_LIFETIME_SECONDS);
    unsigned long count = helper_number(argc, argv, 1, 10, 500);
    unsigned long life_ms = helper_number(argc, argv, 2, 1000, 60000);
    pthread_attr_t attributes;
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setstacksize(&attributes, 64 * 1024);
    for (unsigned long i = 0; i < count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, idle, NULL) != 0) {
            helper_fail("pthread_create");
        }
    }
    helper_up();
    helper_nap_us(life_ms * 1000U);
    return 0;
}
