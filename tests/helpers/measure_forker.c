/*
 * measure_forker.c - touches MIB mebibytes, then ROUNDS times forks CHILDREN that share
 * them, live for 200 ms and are waited for. While it forks it holds the lock of its
 * memory. Ends by itself after 60 s.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LIFETIME_S 60

int main(int argc, char **argv)
{
    (void)alarm(LIFETIME_S);
    if (argc != 4) {
        return 2;
    }
    size_t size = strtoul(argv[1], NULL, 10) << 20;
    unsigned long rounds = strtoul(argv[2], NULL, 10);
    unsigned long children = strtoul(argv[3], NULL, 10);
    char *memory = malloc(size);
    if (memory == NULL) {
        return 3;
    }
    memset(memory, 1, size);
    for (unsigned long round = 0; round < rounds && round < 100; round++) {
        for (unsigned long child = 0; child < children && child < 32; child++) {
            if (fork() == 0) {
                const struct timespec life = {.tv_nsec = 200000000};
                (void)nanosleep(&life, NULL);
                _exit(0);
            }
        }
        while (wait(NULL) > 0) {
            continue;
        }
    }
    return memory[size / 2] - 1;
}
