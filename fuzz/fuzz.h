/*
 * fuzz.h - what the fuzzers share: the entry that libFuzzer (or corpus_main.c) calls, and
 * a check that ends the program where an invariant does not hold, also with NDEBUG.
 */
#ifndef SBX_FUZZ_FUZZ_H
#define SBX_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void sbx_must(bool holds, const char *condition, const char *file, int line)
{
    if (!holds) {
        (void)fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
        abort();
    }
}

#define SBX_MUST(condition) sbx_must((condition), #condition, __FILE__, __LINE__)

#endif
