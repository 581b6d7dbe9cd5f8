/*
 * emit.c - writes bytes of the pattern, and ends.
 *
 * emit SIZE CHUNK HOW: SIZE bytes in writes of CHUNK each to standard output, then:
 * "exit"; "kill" itself; "stay"; or, with "both", the chunks go to standard output and
 * standard error in turn (one pattern each), and it exits.
 */
#include "helper.h"
#include "pattern.h"

#define SIZE_MAX_BYTES (1UL << 40)
#define CHUNK_MAX (1024UL * 1024)

static void write_whole(int fd, const unsigned char *data, size_t size)
{
    while (size > 0) {
        ssize_t written = write(fd, data, size);
        if (written < 0) {
            helper_fail("write");
        }
        data += written;
        size -= (size_t)written;
    }
}

int main(int argc, char **argv)
{
    static unsigned char chunk[CHUNK_MAX];
    helper_bound(HELPER_LIFETIME_SECONDS * 5);
    unsigned long size = helper_number(argc, argv, 1, 0, SIZE_MAX_BYTES);
    unsigned long most = helper_number(argc, argv, 2, CHUNK_MAX, CHUNK_MAX);
    const char *how = argc > 3 ? argv[3] : "exit";
    unsigned long written[2] = {0, 0};
    int turn = 0;
    while (size > 0) {
        size_t part = size < most ? size : most;
        pattern_fill(chunk, written[turn], part);
        write_whole(STDOUT_FILENO + turn, chunk, part);
        written[turn] += part;
        size -= part;
        turn = strcmp(how, "both") == 0 ? 1 - turn : 0;
    }
    if (strcmp(how, "kill") == 0) {
        (void)raise(SIGKILL);
    }
    if (strcmp(how, "stay") == 0) {
        helper_idle();
    }
    _exit(0);
}
