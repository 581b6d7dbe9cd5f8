/*
 * human.h - numbers as people read them. For text that is read, not parsed: the exact
 * number stands beside it where that matters. Never allocates.
 */
#ifndef SBX_MONITOR_HUMAN_H
#define SBX_MONITOR_HUMAN_H

#include <stddef.h>
#include <stdint.h>

#define SBX_HUMAN_SIZE 48

/* "0s", "7us", "12.3ms", "4.56s", "2m05s", "3h07m". Returns buffer. */
const char *sbx_human_us(uint64_t us, char buffer[static SBX_HUMAN_SIZE]);

/* "512 B", "200.0 MiB". Returns buffer. */
const char *sbx_human_bytes(uint64_t bytes, char buffer[static SBX_HUMAN_SIZE]);

#endif
