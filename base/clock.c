/*
 * clock.c - see clock.h. clock_gettime cannot fail for the clocks named here.
 */
#include "base/clock.h"

#include <stdio.h>
#include <time.h>

static uint64_t read_us(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * SBX_US_PER_S + (uint64_t)now.tv_nsec / 1000;
}

uint64_t sbx_clock_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}

uint64_t sbx_clock_real_us(void)
{
    return read_us(CLOCK_REALTIME);
}

uint64_t sbx_clock_cpu_us(void)
{
    return read_us(CLOCK_PROCESS_CPUTIME_ID);
}

uint64_t sbx_clock_add(uint64_t a_us, uint64_t b_us)
{
    uint64_t sum = 0;
    return __builtin_add_overflow(a_us, b_us, &sum) ? SBX_FOREVER_US : sum;
}

const char *sbx_clock_text(uint64_t real_us, char buffer[static SBX_CLOCK_TEXT_SIZE])
{
    time_t seconds = (time_t)(real_us / SBX_US_PER_S);
    struct tm parts = {0};
    (void)gmtime_r(&seconds, &parts);
    (void)snprintf(buffer, SBX_CLOCK_TEXT_SIZE, "%04u-%02u-%02uT%02u:%02u:%02u.%06uZ",
                   (unsigned)(parts.tm_year + 1900) % 10000U,
                   (unsigned)(parts.tm_mon + 1) % 100U, (unsigned)parts.tm_mday % 100U,
                   (unsigned)parts.tm_hour % 100U, (unsigned)parts.tm_min % 100U,
                   (unsigned)parts.tm_sec % 100U, (unsigned)(real_us % SBX_US_PER_S));
    return buffer;
}
