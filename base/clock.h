/*
 * clock.h - time. Limits and durations use CLOCK_MONOTONIC (a suspended machine does not
 * use up a limit); the wall clock is for time stamps only.
 */
#ifndef SBX_BASE_CLOCK_H
#define SBX_BASE_CLOCK_H

#include <stdint.h>

#define SBX_US_PER_S UINT64_C(1000000)
#define SBX_FOREVER_US UINT64_MAX

/* Microseconds of CLOCK_MONOTONIC. */
uint64_t sbx_clock_us(void);

/* Microseconds since the epoch, of CLOCK_REALTIME. */
uint64_t sbx_clock_real_us(void);

/* CPU time that the calling process has used, microseconds. */
uint64_t sbx_clock_cpu_us(void);

/* a + b, or SBX_FOREVER_US where that does not fit. */
uint64_t sbx_clock_add(uint64_t a_us, uint64_t b_us);

#define SBX_CLOCK_TEXT_SIZE 32

/* "2026-11-29T22:53:30.123456Z" (RFC 3339, UTC). Returns buffer. */
const char *sbx_clock_text(uint64_t real_us, char buffer[static SBX_CLOCK_TEXT_SIZE]);

#endif
