/*
 * rivals.h - two options that name one regular file, where one of them would destroy what
 * the other writes: the report replaces its file, a timeline and a stream of the command
 * empty theirs. Relies on files that exist by the time of the question. Opens nothing,
 * changes nothing. Devices, pipes and the like may be shared.
 */
#ifndef SBX_MONITOR_RIVALS_H
#define SBX_MONITOR_RIVALS_H

#include "base/error.h"
#include "monitor/spec.h"

#include <sys/stat.h>

/* What is wrong with this file as one that the command's output goes to: words for a
 * message, or NULL. */
const char *sbx_rival_of_stream(const struct sbx_spec *spec, const struct stat *file);

/* Of report, timeline and logs, each against the others, once logs and timeline have been
 * opened. 0 or -EINVAL, stage check. */
int sbx_rivals_check(const struct sbx_spec *spec, struct sbx_error *err);

#endif
