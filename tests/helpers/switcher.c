/*
 * switcher OWN_UID CHILD_UID - as su does it: leaves a process of one user in front of
 * one of another, and says "term" for each TERM that it gets itself. Needs root.
 */
#include "helper.h"

#define UID_MAX_HERE 65534

static void on_term_say(int signal_number)
{
    (void)signal_number;
    (void)!write(STDOUT_FILENO, "term\n", 5);
}

static void become(unsigned long uid)
{
    if (setresuid((uid_t)uid, (uid_t)uid, (uid_t)uid) < 0) {
        helper_fail("setresuid");
    }
}

int main(int argc, char **argv)
{
    helper_bound(HELPER_LIFETIME_SECONDS);
    unsigned long own = helper_number(argc, argv, 1, 0, UID_MAX_HERE);
    unsigned long other = helper_number(argc, argv, 2, 0, UID_MAX_HERE);
    int ends[2];
    char byte = 0;
    if (pipe(ends) < 0) {
        helper_fail("pipe");
    }
    (void)signal(SIGTERM, on_term_say);
    if (helper_fork() == 0) {
        become(other);
        (void)!write(ends[1], "", 1);
        helper_idle();
    }
    (void)!read(ends[0], &byte, 1);
    become(own);
    helper_up();
    helper_idle();
}
