/*
 * cpus.h - a set of processors, as people write it: "0-3,5".
 *
 * Strict like text.h: the whole text or nothing, no blanks, no signs, no leading zeros.
 * Nothing here allocates or asks the kernel what there is.
 */
#ifndef SBX_BASE_CPUS_H
#define SBX_BASE_CPUS_H

#include <limits.h>
#include <stdbool.h>

/* The most that a kernel can be built for. */
#define SBX_CPU_MAX 8192U
#define SBX_CPU_WORD_BITS ((unsigned)(sizeof(unsigned long) * CHAR_BIT))

/* Laid out as sched_setaffinity takes it. */
struct sbx_cpus {
    unsigned long words[SBX_CPU_MAX / (sizeof(unsigned long) * CHAR_BIT)];
};

/* Numbers and ranges FIRST-LAST, separated by commas; one that is named twice counts
 * once. 0, -EINVAL (not of the form, or LAST < FIRST) or -ERANGE (SBX_CPU_MAX or more);
 * *ret_cpus is untouched on failure. */
int sbx_cpus_parse(const char *text, struct sbx_cpus *ret_cpus);

/* Whether `cpu`, below SBX_CPU_MAX, is in the set. */
bool sbx_cpus_has(const struct sbx_cpus *cpus, unsigned cpu);

#endif
