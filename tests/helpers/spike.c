/*
 * spike MIB HOLD_MS LIVE_MS - touches MIB of memory, holds it, gives it back, and lives
 * on for a while.
 */
#include "helper.h"

int main(int argc, char **argv)
{
    helper_bound(HELPER_LIFETIME_SECONDS);
    size_t size = helper_number(argc, argv, 1, 300, 2048) * HELPER_MIB;
    uint64_t hold_ms = helper_number(argc, argv, 2, 5, 60000);
    uint64_t live_ms = helper_number(argc, argv, 3, 100, 60000);
    char *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        helper_fail("mmap");
    }
    helper_touch(memory, size);
    helper_nap_us(hold_ms * 1000U);
    if (munmap(memory, size) < 0) {
        helper_fail("munmap");
    }
    helper_up();
    helper_nap_us(live_ms * 1000U);
    return 0;
}
