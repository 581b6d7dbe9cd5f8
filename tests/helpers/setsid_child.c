/*
 * setsid_child - a leader with one child in a session of its own.
 *
 * Out of reach for whoever ends process groups or sessions. Both wait to be ended.
 */
#include "helper.h"

int main(void)
{
    helper_bound(HELPER_LIFETIME_SECONDS);
    if (helper_fork() == 0) {
        helper_new_session();
        helper_up();
    }
    helper_idle();
}
