/*
 * print_signals - how signals stand right after the start: "blocked N…" and "ignored N…",
 * the numbers in one line each. Realtime signals 32 and 33 belong to the C library and
 * are left out.
 */
#include "helper.h"

int main(void)
{
    sigset_t blocked;
    (void)sigprocmask(SIG_BLOCK, NULL, &blocked);
    (void)printf("blocked");
    for (int i = 1; i < NSIG; i++) {
        if (sigismember(&blocked, i) == 1) {
            (void)printf(" %d", i);
        }
    }
    (void)printf("\nignored");
    for (int i = 1; i < NSIG; i++) {
        struct sigaction action;
        if (i != SIGKILL && i != SIGSTOP && sigaction(i, NULL, &action) == 0 &&
            action.sa_handler == SIG_IGN) {
            (void)printf(" %d", i);
        }
    }
    (void)printf("\n");
    return 0;
}
