/*
 * measure_children N US [orphans|ignored|threads] - N children (at most 5000), each of US
 * microseconds of CPU, at most eight at a time. They are waited for; or each is the
 * orphan of a child that ends first; or nobody waits for them, as SIGCHLD is ignored; or
 * each burns its time in a second thread.
 *
 * Says "measured US" at the end: the CPU time of all of them, the leader included, as
 * each has read it from its own clock last thing before it ended.
 */
#include "helper.h"

#include <pthread.h>
#include <stdatomic.h>

#define ALIVE_MAX 8U

static struct shared {
    atomic_ullong spent_ns;
    atomic_ulong ended;
} * shared;

static uint64_t spin_us;

/* What the clock of this whole process says, to the last. */
static void account(void)
{
    struct timespec time;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) < 0) {
        helper_fail("clock_gettime");
    }
    (void)atomic_fetch_add(&shared->spent_ns,
                           (unsigned long long)time.tv_sec * 1000000000U +
                               (unsigned long long)time.tv_nsec);
}

static void *spin(void *unused)
{
    (void)unused;
    helper_spin_us(spin_us);
    return NULL;
}

static void spin_in_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, spin, NULL) != 0) {
        helper_fail("pthread_create");
    }
    (void)pthread_join(thread, NULL);
}

static _Noreturn void work(int threaded)
{
    if (threaded) {
        spin_in_thread();
    } else {
        helper_spin_us(spin_us);
    }
    account();
    (void)atomic_fetch_add(&shared->ended, 1);
    _exit(0);
}

static void make_child(int orphan, int threaded)
{
    pid_t pid = helper_fork();
    if (pid != 0) {
        return;
    }
    if (!orphan || helper_fork() == 0) {
        work(threaded);
    }
    account();
    _exit(0);
}

int main(int argc, char **argv)
{
    helper_bound(HELPER_LIFETIME_SECONDS);
    unsigned long count = helper_number(argc, argv, 1, 100, 5000);
    spin_us = helper_number(argc, argv, 2, 1000, 10000000);
    const char *how = argc > 3 ? argv[3] : "";
    shared = helper_shared(sizeof(*shared));
    if (strcmp(how, "ignored") == 0) {
        (void)signal(SIGCHLD, SIG_IGN);
    }
    for (unsigned long i = 0; i < count; i++) {
        while (i - atomic_load(&shared->ended) >= ALIVE_MAX) {
            helper_nap_us(200);
        }
        make_child(strcmp(how, "orphans") == 0, strcmp(how, "threads") == 0);
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
    }
    while (waitpid(-1, NULL, 0) > 0 || atomic_load(&shared->ended) < count) {
        helper_nap_us(200);
    }
    account();
    helper_say("measured %llu\n",
               (unsigned long long)(atomic_load(&shared->spent_ns) / 1000U));
    return 0;
}
