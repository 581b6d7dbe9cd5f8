/*
 * thread_forker - its second thread forks a child: only that thread's `children` file
 * names it. Thread and child wait to be ended.
 */
#include "helper.h"

#include <pthread.h>

static void *run(void *unused)
{
    (void)unused;
    if (helper_fork() == 0) {
        helper_new_session();
        helper_up();
    }
    helper_idle();
}

int main(void)
{
    pthread_t thread;
    helper_bound(HELPER_LIFETIME_SECONDS);
    if (pthread_create(&thread, NULL, run, NULL) != 0) {
        helper_fail("pthread_create");
    }
    helper_idle();
}
