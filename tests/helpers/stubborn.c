/*
 * stubborn - ignores polite signals, leader and a child in a session of its own alike.
 */
#include "helper.h"

int main(void)
{
    helper_bound(HELPER_LIFETIME_SECONDS);
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    (void)signal(SIGQUIT, SIG_IGN);
    if (helper_fork() == 0) {
        helper_new_session();
        helper_up();
    }
    helper_idle();
}
