/*
 * usage.h - what a run uses at this moment, as one line for who asks by SIGUSR1.
 *
 * Reads the record while the monitor writes it: numbers of different samples may stand
 * side by side, and each of them was true once.
 */
#ifndef SBX_MONITOR_USAGE_H
#define SBX_MONITOR_USAGE_H

#include "monitor/record.h"
#include "monitor/spec.h"

#include <stddef.h>
#include <stdint.h>

#define SBX_USAGE_LINE_SIZE 512

/* "sbx-watch: usage: wall 12.30s of 1m00s, cpu 4.50s, memory 123.4 MiB (peak 200.1 MiB),
 * processes 5 of 20, threads 9" with a line feed. "up to" before an amount of memory that
 * is a bound; "; sampled 2.00s ago" behind numbers that are not fresh. `now_us`:
 * CLOCK_MONOTONIC. Returns the length. */
size_t sbx_usage_line(const struct sbx_spec *spec, const struct sbx_record *record,
                      uint64_t now_us, char buffer[static SBX_USAGE_LINE_SIZE]);

/* Writes that line to stderr if that can be done at once. */
void sbx_usage_tell(const struct sbx_spec *spec, const struct sbx_record *record);

#endif
