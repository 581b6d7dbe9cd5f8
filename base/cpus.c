/*
 * cpus.c - see cpus.h. Numbers too large to be a processor stay too large while they are
 * read: nothing wraps.
 */
#include "base/cpus.h"

#include <errno.h>
#include <string.h>

static bool is_digit(char letter)
{
    return letter >= '0' && letter <= '9';
}

/* Reads one number and moves on; SBX_CPU_MAX stands for all that are too large. */
static bool read_cpu(const char **at, unsigned *ret_cpu)
{
    const char *next = *at;
    unsigned cpu = 0;
    if (!is_digit(next[0]) || (next[0] == '0' && is_digit(next[1]))) {
        return false;
    }
    for (; is_digit(*next); next++) {
        cpu = cpu * 10 + (unsigned)(*next - '0');
        cpu = cpu < SBX_CPU_MAX ? cpu : SBX_CPU_MAX;
    }
    *at = next;
    *ret_cpu = cpu;
    return true;
}

/* "5" or "0-3". */
static bool read_range(const char **at, unsigned *ret_first, unsigned *ret_last)
{
    if (!read_cpu(at, ret_first)) {
        return false;
    }
    *ret_last = *ret_first;
    if (**at != '-') {
        return true;
    }
    ++*at;
    return read_cpu(at, ret_last) && *ret_last >= *ret_first;
}

int sbx_cpus_parse(const char *text, struct sbx_cpus *ret_cpus)
{
    struct sbx_cpus cpus;
    bool in_range = true;
    memset(&cpus, 0, sizeof cpus);
    for (const char *at = text;; at++) {
        unsigned first = 0;
        unsigned last = 0;
        if (!read_range(&at, &first, &last)) {
            return -EINVAL;
        }
        in_range = in_range && last < SBX_CPU_MAX;
        for (unsigned cpu = first; cpu <= last && cpu < SBX_CPU_MAX; cpu++) {
            cpus.words[cpu / SBX_CPU_WORD_BITS] |= 1UL << cpu % SBX_CPU_WORD_BITS;
        }
        if (*at == '\0') {
            break;
        }
        if (*at != ',') {
            return -EINVAL;
        }
    }
    if (!in_range) {
        return -ERANGE;
    }
    *ret_cpus = cpus;
    return 0;
}

bool sbx_cpus_has(const struct sbx_cpus *cpus, unsigned cpu)
{
    return (cpus->words[cpu / SBX_CPU_WORD_BITS] >> cpu % SBX_CPU_WORD_BITS & 1UL) != 0;
}
