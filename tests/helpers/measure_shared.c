/*
 * measure_shared MIB HOW MS - MIB of private memory that more than one process has:
 * "cow": four children after a fork, none of which writes to it; "dirty": four that do,
 * half a second later, which changes no RSS; "vfork": a child that sleeps before it would
 * execute. Says "up" then, and ends after MS milliseconds.
 */
#include "helper.h"

#define COPIES 4

static volatile uint64_t hold_us;

static void hold_by_fork(volatile char *memory, size_t dirty_size)
{
    pid_t children[COPIES];
    for (int i = 0; i < COPIES; i++) {
        children[i] = helper_fork();
        if (children[i] == 0) {
            helper_nap_us(500000);
            helper_touch(memory, dirty_size);
            helper_idle();
        }
    }
    helper_up();
    helper_nap_us(hold_us);
    for (int i = 0; i < COPIES; i++) {
        (void)kill(children[i], SIGKILL);
        (void)waitpid(children[i], NULL, 0);
    }
}

/* The child sleeps in our memory, and we sleep until it has ended. */
static void hold_by_vfork(void)
{
    helper_up();
    pid_t pid = vfork();
    if (pid < 0) {
        helper_fail("vfork");
    }
    if (pid == 0) {
        struct timespec rest = {(time_t)(hold_us / 1000000U),
                                (long)(hold_us % 1000000U) * 1000L};
        (void)nanosleep(&rest, NULL);
        _exit(0);
    }
    (void)waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
    helper_bound(HELPER_LIFETIME_SECONDS);
    size_t size = helper_number(argc, argv, 1, 100, 1024) * HELPER_MIB;
    const char *how = argc > 2 ? argv[2] : "cow";
    hold_us = helper_number(argc, argv, 3, 1000, 60000) * 1000U;
    char *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        helper_fail("mmap");
    }
    helper_touch(memory, size);
    if (strcmp(how, "vfork") == 0) {
        hold_by_vfork();
    } else {
        hold_by_fork(memory, strcmp(how, "dirty") == 0 ? size : 0);
    }
    return 0;
}
