/*
 * run_check.h - what has come of a scene, compared with its table; between the two files
 * of the kit.
 */
#ifndef SBX_TESTS_RUN_CHECK_H
#define SBX_TESTS_RUN_CHECK_H

#include "tests/run_kit.h"

/* What of $D is the harness's own. */
#define SBX_PLAY_OWN_NAMES "out err report stage"

/* Adds to what is wrong with it. */
void sbx_play_complain(struct sbx_play *play, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The beginning of a file in $D, "" when there is none. The caller's. */
char *sbx_play_read(const struct sbx_play *play, const char *name);

/* With %W, %D and %H replaced. The caller's. */
char *sbx_play_expanded(const struct sbx_play *play, const char *text);

/* When it has ended and its wait status is known: reads its streams, compares everything,
 * and frees the listing. */
void sbx_play_check(struct sbx_play *play);

#endif
