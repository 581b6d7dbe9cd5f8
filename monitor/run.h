/*
 * run.h - one run, from a specification to its published report, for the two ways to ask
 * for it: in the calling process (sbx_run_in_place), and served to a caller that has
 * started it through the library.
 */
#ifndef SBX_MONITOR_RUN_H
#define SBX_MONITOR_RUN_H

#include "monitor/serve.h"
#include "monitor/spec.h"

#include <sbx/sbx.h>
#include <stdbool.h>

/* What makes no sense in any run, or could not be reported: 0 or a negative errno. Starts
 * and changes nothing. */
int sbx_run_check(const struct sbx_spec *spec, struct sbx_error *err);

/* Like sbx_run_in_place, with the result for the caller of `service`, and nothing said on
 * stderr. With `failure` (may be NULL) nothing runs: that is the result. */
void sbx_run_served(const struct sbx_spec *spec, const struct sbx_error *failure,
                    struct sbx_service *service);

/* For a child subreaper whose run has lost both of its processes: ends every descendant
 * of the calling process, and publishes a report with outcome lost, if `publishes`: they
 * may have left one. */
void sbx_run_bury(const struct sbx_spec *spec, bool publishes);

#endif
