/*
 * pattern.h - bytes that tell where they belong: every value occurs, NUL and line feed
 * too, and no two places look alike, so that what is lost, doubled or out of order shows.
 */
#ifndef SBX_TESTS_PATTERN_H
#define SBX_TESTS_PATTERN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t pattern_word(uint64_t index)
{
    uint64_t word = (index + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return word ^ (word >> 29);
}

/* The bytes from that offset on. */
static inline void pattern_fill(unsigned char *buffer, uint64_t offset, size_t size)
{
    size_t used = 0;
    while (used < size) {
        uint64_t word = pattern_word((offset + used) / sizeof(word));
        size_t skip = (size_t)((offset + used) % sizeof(word));
        size_t part = sizeof(word) - skip;
        part = part < size - used ? part : size - used;
        memcpy(buffer + used, (const unsigned char *)&word + skip, part);
        used += part;
    }
}

#endif
