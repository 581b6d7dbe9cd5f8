/*
 * trap - exits 42 on TERM.
 * trap --ignore - says "term" on each TERM and goes on.
 */
#include "helper.h"

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

int main(int argc, char **argv)
{
    helper_bound(HELPER_LIFETIME_SECONDS);
    int ignore = argc > 1 && strcmp(argv[1], "--ignore") == 0;
    (void)signal(SIGTERM, ignore ? on_term_say : on_term_exit);
    helper_up();
    helper_idle();
}
