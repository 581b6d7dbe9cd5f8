/*
 * trap - exits 42 on TERM.
 * trap --ignore - says "term" on each TERM and goes on.
 * trap --count [MS [CHILDREN]] - takes TERM and INT: at the first it stays for that long
 *     (300 ms), in which another would arrive, says "got N PID" (how many there were, and
 *     who it is), and exits 42. Its children do the same.
 */
#include "helper.h"

#define STAY_MS 300
#define STAY_MAX_MS 20000
#define CHILDREN_MAX 8

static volatile sig_atomic_t arrived;

static void on_signal_count(int signal_number)
{
    (void)signal_number;
    arrived++;
}

static void on_term_exit(int signal_number)
{
    (void)signal_number;
    _exit(42);
}

static void on_term_say(int signal_number)
{
    (void)signal_number;
    (void)!write(STDOUT_FILENO, "term\n", 5);
}

static _Noreturn void count(unsigned long stay_ms, unsigned long children)
{
    sigset_t both;
    sigset_t before;
    (void)sigemptyset(&both);
    (void)sigaddset(&both, SIGTERM);
    (void)sigaddset(&both, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &both, &before);
    (void)signal(SIGTERM, on_signal_count);
    (void)signal(SIGINT, on_signal_count);
    while (children-- > 0 && helper_fork() != 0) {
    }
    helper_up();
    while (arrived == 0) {
        (void)sigsuspend(&before);
    }
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    helper_nap_us(stay_ms * 1000U);
    helper_say("got %d %d\n", (int)arrived, (int)getpid());
    while (wait(NULL) > 0) {
    }
    _exit(42);
}

int main(int argc, char **argv)
{
    helper_bound(HELPER_LIFETIME_SECONDS);
    if (argc > 1 && strcmp(argv[1], "--count") == 0) {
        count(helper_number(argc, argv, 2, STAY_MS, STAY_MAX_MS),
              helper_number(argc, argv, 3, 0, CHILDREN_MAX));
    }
    int ignore = argc > 1 && strcmp(argv[1], "--ignore") == 0;
    (void)signal(SIGTERM, ignore ? on_term_say : on_term_exit);
    helper_up();
    helper_idle();
}
