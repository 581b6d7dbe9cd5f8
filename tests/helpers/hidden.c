/*
 * hidden.c - makes itself not dumpable, forks N children that idle, and idles: what /proc
 * hides from an ordinary user when it is mounted with hidepid. Ends by itself after 60 s.
 */
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#define LIFETIME_S 60

int main(int argc, char **argv)
{
    (void)alarm(LIFETIME_S);
    if (argc != 2 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) {
        return 2;
    }
    unsigned long count = strtoul(argv[1], NULL, 10);
    for (unsigned long i = 0; i < count && i < 64; i++) {
        if (fork() == 0) {
            (void)alarm(LIFETIME_S);
            (void)pause();
            _exit(0);
        }
    }
    (void)pause();
    return 0;
}
