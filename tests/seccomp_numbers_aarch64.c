/* seccomp_numbers_aarch64.c - see seccomp_numbers.h. */
#include <asm-generic/unistd.h>

#include "tests/seccomp_numbers.h"

#include <stddef.h>

const struct sbx_kit_number sbx_kit_numbers_aarch64[] = {
    SBX_KIT_NUMBERS,
    {NULL, NULL},
};
