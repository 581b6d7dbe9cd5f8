/*
 * touch MIB [PROCESSES] - touches MIB of memory in all, as fast as it goes, in one
 * process or divided among PROCESSES children (at most 64), and waits to be ended. Says
 * "up" before the first page and "touched" (once for each process) after the last.
 */
#include "helper.h"

static _Noreturn void touch(size_t size)
{
    char *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        helper_fail("mmap");
    }
    helper_touch(memory, size);
    helper_say("touched %zu\n", size);
    helper_idle();
}

int main(int argc, char **argv)
{
    helper_bound(HELPER_LIFETIME_SECONDS);
    size_t size = helper_number(argc, argv, 1, 100, 4096) * HELPER_MIB;
    unsigned long count = helper_number(argc, argv, 2, 0, 64);
    helper_up();
    if (count == 0) {
        touch(size);
    }
    for (unsigned long i = 0; i < count; i++) {
        if (helper_fork() == 0) {
            touch(size / count);
        }
    }
    helper_idle();
}
