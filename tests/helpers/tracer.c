/*
 * tracer.c - as a command of sbx-watch: seizes its parent, the monitor, and holds it in a
 * tracing stop. Status 3 when it may not. Ends by itself after 30 s.
 */
#include <stddef.h>
#include <sys/ptrace.h>
#include <unistd.h>

#define LIFETIME_S 30

int main(void)
{
    (void)alarm(LIFETIME_S);
    pid_t monitor = getppid();
    if (ptrace(PTRACE_SEIZE, monitor, NULL, NULL) < 0 ||
        ptrace(PTRACE_INTERRUPT, monitor, NULL, NULL) < 0) {
        return 3;
    }
    (void)pause();
    return 0;
}
