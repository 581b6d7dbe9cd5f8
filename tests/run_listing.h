/*
 * run_listing.h - all that is in a directory, and what has come, gone or changed there.
 */
#ifndef SBX_TESTS_RUN_LISTING_H
#define SBX_TESTS_RUN_LISTING_H

#include <stddef.h>

struct sbx_listing;

/* Everything below `directory`, symlinks not followed, but for what begins with `but`
 * (paths below it, separated by blanks). Fails the test when it cannot be read. */
struct sbx_listing *sbx_listing_take(const char *directory, const char *but);
void sbx_listing_free(struct sbx_listing *listing);

#define SBX_LISTING_TEXT_SIZE 2048

/* Compares two of one directory with the names (separated by blanks, paths below
 * `prefix`, or from above it when they begin with "../") that are to be different: new or
 * changed, or gone with a "-" in front. A directory is changed when its mode is. Writes
 * what is not as expected to `text`, "" when nothing is. */
void sbx_listing_compare(const struct sbx_listing *before,
                         const struct sbx_listing *after, const char *prefix,
                         const char *expected, char text[static SBX_LISTING_TEXT_SIZE]);

#endif
