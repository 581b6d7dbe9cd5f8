/*
 * crowd N [FANOUT] - a tree of N idle processes (at most 6000), each with up to FANOUT
 * (10) children. Says "up" when all of them exist.
 *
 * The place of each in the tree is computed from its number, so that there can be no more
 * than N.
 */
#include "helper.h"

static atomic_ulong *living;

static _Noreturn void live(unsigned long number, unsigned long count,
                           unsigned long fanout)
{
    unsigned long child = 1;
    while (child <= fanout) {
        unsigned long next = number * fanout + child;
        if (next >= count) {
            break;
        }
        child++;
        if (helper_fork() == 0) {
            number = next;
            child = 1;
        }
    }
    (void)atomic_fetch_add(living, 1);
    if (number == 0) {
        while (atomic_load(living) < count) {
            helper_nap_us(1000);
        }
        helper_up();
    }
    helper_idle();
}

int main(int argc, char **argv)
{
    helper_bound(HELPER_LIFETIME_SECONDS);
    living = helper_shared(sizeof(*living));
    unsigned long count = helper_number(argc, argv, 1, 100, 6000);
    unsigned long fanout = helper_number(argc, argv, 2, 10, 6000);
    live(0, count, fanout > 0 ? fanout : 1);
}
