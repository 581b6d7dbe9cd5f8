/*
 * run_stage.h - a root of its own for one scene (see `stage` in run_kit.h).
 */
#ifndef SBX_TESTS_RUN_STAGE_H
#define SBX_TESTS_RUN_STAGE_H

#include <stdbool.h>

/* Whether we may: root, and mount namespaces. */
bool sbx_stage_possible(void);

/* For a child of a test, as root: makes the root in `directory`, which is empty, runs
 * `script` there, and makes it the root of this process. `keep`, a directory, is at its
 * place in it, too. 0 or -1; what the script had to say went to standard error. */
int sbx_stage_enter(const char *directory, const char *keep, const char *script);

#endif
