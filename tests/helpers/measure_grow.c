/*
 * measure_grow.c - waits until FILE exists, then touches MIB mebibytes and stays. Ends by
 * itself after 60 s.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LIFETIME_S 60

int main(int argc, char **argv)
{
    (void)alarm(LIFETIME_S);
    if (argc != 3) {
        return 2;
    }
    const struct timespec pause_time = {.tv_nsec = 1000000};
    (void)puts("up");
    (void)fflush(stdout);
    while (access(argv[1], F_OK) < 0) {
        (void)nanosleep(&pause_time, NULL);
    }
    size_t size = strtoul(argv[2], NULL, 10) << 20;
    char *memory = malloc(size);
    if (memory == NULL) {
        return 3;
    }
    memset(memory, 1, size);
    (void)pause();
    return memory[size / 2];
}
