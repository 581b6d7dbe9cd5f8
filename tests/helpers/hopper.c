/*
 * hopper [N [US]] - N processes (8, at most 64) that are never where one looks: each
 * forks and ends, and its child goes on in a session of its own, every US microseconds
 * (1500).
 *
 * Ten seconds after the start the last ones end. One fork comes with one end, so that the
 * number of living ones never grows; but each leaves a zombie until somebody reaps it, so
 * hops wait while there are too many of those. The leader waits to be ended.
 */
#include "helper.h"

#define HOP_SECONDS 10
#define HOP_SLOTS 500

static struct helper_slots *slots;

/* Waits for a slot; -1 when there was none until the end. */
static int wait_for_slot(uint64_t end_us, unsigned *seed)
{
    while (helper_now_us(CLOCK_MONOTONIC) < end_us) {
        int slot = helper_claim(slots, seed);
        if (slot >= 0) {
            return slot;
        }
        helper_nap_us(1000);
    }
    return -1;
}

static _Noreturn void hop(uint64_t end_us, uint64_t pause_us)
{
    for (;;) {
        unsigned seed = (unsigned)getpid();
        int slot = wait_for_slot(end_us, &seed);
        pid_t pid = slot < 0 ? -1 : fork();
        if (pid != 0) {
            if (slot >= 0) {
                atomic_store(&slots->holders[slot], pid > 0 ? pid : 0);
            }
            _exit(0);
        }
        helper_bound(HOP_SECONDS);
        (void)setsid();
        helper_nap_us(pause_us);
    }
}

int main(int argc, char **argv)
{
    helper_bound(HELPER_LIFETIME_SECONDS);
    unsigned long count = helper_number(argc, argv, 1, 8, 64);
    uint64_t pause_us = helper_number(argc, argv, 2, 1500, 1000000);
    uint64_t end_us = helper_now_us(CLOCK_MONOTONIC) + HOP_SECONDS * 1000000UL;
    slots = helper_shared(sizeof(*slots));
    slots->count = HOP_SLOTS;
    (void)signal(SIGCHLD, SIG_IGN);
    for (unsigned long i = 0; i < count; i++) {
        if (helper_fork() == 0) {
            hop(end_us, pause_us);
        }
    }
    helper_up();
    helper_idle();
}
