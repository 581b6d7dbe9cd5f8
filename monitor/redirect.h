/*
 * redirect.h - the files of --stdin, --stdout and --stderr.
 */
#ifndef SBX_MONITOR_REDIRECT_H
#define SBX_MONITOR_REDIRECT_H

#include "monitor/spec.h"

#include <sbx/sbx.h>

/*
 * Opens what the specification names, and empties the regular files to write to when all
 * of it has been found good. A file that is named for output twice is one description, so
 * that neither overwrites the other. ret_files: one descriptor above 2 for each stream,
 * -1 where it is not redirected; the caller's. A FIFO is waited for as long as a report's
 * would be. 0, or a negative errno, stage launch, and nothing is open.
 */
int sbx_redirect_open(const struct sbx_spec *spec, int ret_files[static 3],
                      struct sbx_error *err);

#endif
