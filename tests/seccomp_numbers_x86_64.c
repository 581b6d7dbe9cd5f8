/* seccomp_numbers_x86_64.c - see seccomp_numbers.h. */
#if defined(__x86_64__)
#include <asm/unistd_64.h>
#endif

#include "tests/seccomp_numbers.h"

#include <stddef.h>

const struct sbx_kit_number sbx_kit_numbers_x86_64[] = {
#if defined(__x86_64__)
    SBX_KIT_NUMBERS,
#endif
    {NULL, NULL},
};
