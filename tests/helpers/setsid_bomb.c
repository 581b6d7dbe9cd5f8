/*
 * setsid_bomb [N [SECONDS]] - every process forks every 2 ms, each child in a session of
 * its own, TERM and SIGCHLD ignored; what is killed is replaced, so that N (1500, at most
 * 1500) are alive as long as it is let. After SECONDS (15, at most 15) all of them end
 * by themselves.
 *
 * Each process holds a slot in memory that all share, and forks only into a slot whose
 * holder is gone: a mistake in here cannot make more than N of them. Run it inside a net
 * that the kernel holds all the same. Says "up" when half of N have come to be.
 */
#include "helper.h"

#define PROCESSES_MAX HELPER_SLOTS_MAX
#define SECONDS_MAX 15
#define PERIOD_US 2000

struct bomb {
    uint64_t end_us;
    atomic_int forks;
    struct helper_slots slots;
};

static struct bomb *bomb;

static _Noreturn void burn(void)
{
    unsigned seed = (unsigned)getpid();
    while (helper_now_us(CLOCK_MONOTONIC) < bomb->end_us) {
        int slot = helper_claim(&bomb->slots, &seed);
        pid_t pid = slot < 0 ? -1 : fork();
        if (pid == 0) {
            helper_bound(SECONDS_MAX + 1);
            (void)setsid();
            seed = (unsigned)getpid();
            if (atomic_fetch_add(&bomb->forks, 1) == bomb->slots.count / 2) {
                helper_up();
            }
        } else if (slot >= 0) {
            atomic_store(&bomb->slots.holders[slot], pid > 0 ? pid : 0);
        }
        helper_nap_us(PERIOD_US);
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    helper_bound(SECONDS_MAX + 1);
    bomb = helper_shared(sizeof(*bomb));
    bomb->slots.count = (int)helper_number(argc, argv, 1, PROCESSES_MAX, PROCESSES_MAX);
    unsigned long seconds = helper_number(argc, argv, 2, SECONDS_MAX, SECONDS_MAX);
    if (bomb->slots.count < 2) {
        helper_fail("at least 2");
    }
    bomb->end_us = helper_now_us(CLOCK_MONOTONIC) + seconds * 1000000U;
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGCHLD, SIG_IGN);
    atomic_store(&bomb->slots.holders[0], getpid());
    burn();
}
