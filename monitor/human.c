/*
 * human.c - see human.h. Times and sizes are cut, not rounded up: a run of 59.999 s has
 * not taken a minute.
 */
#include "monitor/human.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>

#define MINUTE_US (60 * SBX_US_PER_S)
#define HOUR_US (60 * MINUTE_US)

const char *sbx_human_us(uint64_t us, char buffer[static SBX_HUMAN_SIZE])
{
    const uint64_t seconds = us / SBX_US_PER_S;
    if (us == 0) {
        (void)snprintf(buffer, SBX_HUMAN_SIZE, "0s");
    } else if (us < 1000) {
        (void)snprintf(buffer, SBX_HUMAN_SIZE, "%" PRIu64 "us", us);
    } else if (us < SBX_US_PER_S) {
        (void)snprintf(buffer, SBX_HUMAN_SIZE, "%" PRIu64 ".%" PRIu64 "ms", us / 1000,
                       us % 1000 / 100);
    } else if (us < MINUTE_US) {
        (void)snprintf(buffer, SBX_HUMAN_SIZE, "%" PRIu64 ".%02" PRIu64 "s", seconds,
                       us % SBX_US_PER_S / 10000);
    } else if (us < HOUR_US) {
        (void)snprintf(buffer, SBX_HUMAN_SIZE, "%" PRIu64 "m%02" PRIu64 "s", seconds / 60,
                       seconds % 60);
    } else {
        (void)snprintf(buffer, SBX_HUMAN_SIZE, "%" PRIu64 "h%02" PRIu64 "m",
                       seconds / 3600, seconds / 60 % 60);
    }
    return buffer;
}

const char *sbx_human_bytes(uint64_t bytes, char buffer[static SBX_HUMAN_SIZE])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        (void)snprintf(buffer, SBX_HUMAN_SIZE, "%" PRIu64 " B", bytes);
        return buffer;
    }
    size_t unit = 0;
    uint64_t unit_bytes = 1024;
    while (bytes / unit_bytes >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        unit_bytes *= 1024;
        unit++;
    }
    uint64_t tenths = bytes % unit_bytes / (unit_bytes / 1024) * 10 / 1024;
    (void)snprintf(buffer, SBX_HUMAN_SIZE, "%" PRIu64 ".%" PRIu64 " %s",
                   bytes / unit_bytes, tenths, units[unit]);
    return buffer;
}
