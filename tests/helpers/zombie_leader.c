/*
 * zombie_leader [MIB] - its main thread ends while another lives on: the process reads as
 * a zombie, without memory, and is none. The other thread holds MIB of memory (0) and
 * waits to be ended.
 */
#include "helper.h"

#include <pthread.h>

static pthread_t main_thread;
static size_t size;

static void *run(void *unused)
{
    (void)unused;
    (void)pthread_join(main_thread, NULL);
    if (size > 0) {
        char *memory = malloc(size);
        if (memory == NULL) {
            helper_fail("malloc");
        }
        helper_touch(memory, size);
    }
    helper_up();
    helper_idle();
}

int main(int argc, char **argv)
{
    pthread_t thread;
    helper_bound(HELPER_LIFETIME_SECONDS);
    size = helper_number(argc, argv, 1, 0, 512) * HELPER_MIB;
    main_thread = pthread_self();
    if (pthread_create(&thread, NULL, run, NULL) != 0) {
        helper_fail("pthread_create");
    }
    pthread_exit(NULL);
}
