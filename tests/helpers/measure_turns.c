/*
 * measure_turns.c - ROUNDS times: forks a child that uses 200 ms of CPU, waits for it,
 * then ignores SIGCHLD for 300 ms. Prints the CPU of all, in microseconds, as the kernel
 * has it. Ends by itself after 60 s.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LIFETIME_S 60

static void burn(void)
{
    struct timespec used = {0};
    while (used.tv_sec == 0 && used.tv_nsec < 200000000) {
        (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    }
}

static long long used_us(int who)
{
    struct rusage usage;
    (void)getrusage(who, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000LL +
           usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

int main(int argc, char **argv)
{
    const struct timespec rest = {.tv_nsec = 300000000};
    (void)alarm(LIFETIME_S);
    unsigned long rounds = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;
    for (unsigned long i = 0; i < rounds && i < 20; i++) {
        if (fork() == 0) {
            burn();
            _exit(0);
        }
        (void)wait(NULL);
        (void)signal(SIGCHLD, SIG_IGN);
        (void)nanosleep(&rest, NULL);
        (void)signal(SIGCHLD, SIG_DFL);
    }
    (void)printf("%lld\n", used_us(RUSAGE_SELF) + used_us(RUSAGE_CHILDREN));
    return 0;
}
