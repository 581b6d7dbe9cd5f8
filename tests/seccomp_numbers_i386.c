/* seccomp_numbers_i386.c - see seccomp_numbers.h. */
#if defined(__x86_64__)
#include <asm/unistd_32.h>
#endif

#include "tests/seccomp_numbers.h"

#include <stddef.h>

const struct sbx_kit_number sbx_kit_numbers_i386[] = {
#if defined(__x86_64__)
    SBX_KIT_NUMBERS,
#endif
    {NULL, NULL},
};
