/*
 * stream_kit.h - readers of the pattern that tests/helpers/emit writes.
 */
#ifndef SBX_TESTS_STREAM_KIT_H
#define SBX_TESTS_STREAM_KIT_H

#include "tests/trial.h"

#include <stdbool.h>
#include <stdint.h>

/* Reads at most `most` bytes of the pattern, which goes on at `offset`, until end of
 * file. Fails the test at the first wrong byte. Returns how many there were. */
uint64_t sbx_stream_read(int fd, uint64_t offset, uint64_t most);

/* That a file holds the pattern, from its beginning: how long it is. */
uint64_t sbx_stream_file(const char *path);

/* A process that reads the pattern to its end, while the test does something else. */
struct sbx_stream_reader {
    pid_t pid;
    int write_end; /* of its pipe: for the run; closed by sbx_stream_start */
};
struct sbx_stream_reader sbx_stream_reader(void);
/* Closes the test's end: the run has it by now. */
void sbx_stream_started(struct sbx_stream_reader *reader);
/* How many bytes it has read; fails the test when one was wrong. */
uint64_t sbx_stream_join(struct sbx_stream_reader *reader);

/* The sum of the resident high-water marks of a process and its children, of which each
 * must have that many; in bytes. */
uint64_t sbx_stream_memory(pid_t parent, int children);

#endif
