/*
 * fixture.h - what every test stands on.
 *
 * Each test case made by sbx_fixture_case runs with: a time limit that ends the whole
 * tree of the test; descriptors after = before; the test process a subreaper, and no
 * descendant left at its end (what is left is named, ended by identity and makes the test
 * fail); a fresh empty directory of its own, removed at the end. Tests run in parallel.
 */
#ifndef SBX_TESTS_FIXTURE_H
#define SBX_TESTS_FIXTURE_H

#include <check.h>
#include <stdint.h>
#include <sys/types.h>

/* A test case with the fixture around each of its tests; `seconds` bounds one test. */
TCase *sbx_fixture_case(Suite *suite, const char *name, double seconds);

/* Runs the suite (forking, TAP/normal output by CK_ environment) and returns the exit
 * status for main. */
int sbx_fixture_run(Suite *suite);

/* The test's own directory: absolute, mode 0755, owned by the test's user. */
const char *sbx_fixture_dir(void);

/* A path below it, static buffer of the caller's: returns buffer. */
#define SBX_FIXTURE_PATH_SIZE 512
const char *sbx_fixture_path(char buffer[static SBX_FIXTURE_PATH_SIZE], const char *name);

/* Waits until the file exists and is not empty, at most `seconds`; fails the test else.
 */
void sbx_fixture_wait_file(const char *path, double seconds);

/* Every JSON report that a test gets from sbx-watch goes through here: where the
 * environment names a file in SBX_TEST_REPORTS, as ctest's does, it is put there, and the
 * test reports_valid holds all of them against the schema in one go. */
void sbx_fixture_collect(const char *report);

/* Absolute paths, from the build: the built sbx-watch, and the directory of the built
 * helper programs. */
const char *sbx_fixture_watch(void);
const char *sbx_fixture_helper(char buffer[static SBX_FIXTURE_PATH_SIZE],
                               const char *name);

#endif
