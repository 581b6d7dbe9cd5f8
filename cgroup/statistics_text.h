/*
 * statistics_text.h - the files of a group as text: looks at nothing but the bytes, and
 * takes only what the kernel's own formats can print. A number that does not fit, that is
 * "max", or whose line is cut is unknown.
 */
#ifndef SBX_CGROUP_STATISTICS_TEXT_H
#define SBX_CGROUP_STATISTICS_TEXT_H

#include "cgroup/statistics.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes every number unknown; populated is true then, frozen is not. */
void sbx_statistics_forget(struct sbx_figures *ret_figures);

/* Sets the numbers of one file. Those that the text does not tell stay as they are. The
 * text may be the beginning of a file: then its whole lines count. */
void sbx_statistics_parse(enum sbx_statistics_file file, const char *text, size_t length,
                          struct sbx_figures *figures);

/* The number behind a key, which is the first word of a line: "oom 3". Of two such lines
 * the first counts. */
bool sbx_statistics_find(const char *text, size_t length, const char *key,
                         uint64_t *ret_value);

#endif
