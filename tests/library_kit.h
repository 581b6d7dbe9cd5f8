/*
 * library_kit.h - what tests of the library's runs have in common.
 *
 * A test process is a child subreaper, which most callers are not. So what is about the
 * caller is tested in a process that the test forks, and that has to say itself what is
 * wrong (LIBRARY_WANT): assertions of Check are for the test process alone.
 */
#ifndef SBX_TESTS_LIBRARY_KIT_H
#define SBX_TESTS_LIBRARY_KIT_H

#include "tests/fixture.h"

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

/* Longer than any run in here takes, on a machine with much else to do. */
#define LIBRARY_LONG_US UINT64_C(60000000)

/* In a caller: says where and why, and ends it with a status that makes the test fail. */
#define LIBRARY_WANT(condition, ...)                                                     \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            (void)fprintf(stderr, "%s:%d: not so: %s: ", __FILE__, __LINE__,             \
                          #condition);                                                   \
            (void)fprintf(stderr, __VA_ARGS__);                                          \
            (void)fputc('\n', stderr);                                                   \
            _exit(1);                                                                    \
        }                                                                                \
    } while (0)

/* The library finds the built sbx-monitor. First thing in main. */
void library_use_built_monitor(const char *path);

/* A specification: options as words "name=value" or "name" with blanks between, and a
 * NULL-terminated command (may be NULL). Ends the process when that is refused. */
struct sbx_spec *library_spec(const char *options, const char *const *command);

/* The same for "sh -c SCRIPT". */
struct sbx_spec *library_script(const char *options, const char *script);

/* Starts it, and frees the specification. Ends the process when that fails. */
struct sbx_run *library_start(struct sbx_spec *spec);

/* Runs `body` in a forked process, no subreaper, and returns its pid; its exit status is
 * what body returns. */
pid_t library_fork(int (*body)(void *context), void *context);

/* Waits for that process, and fails the test unless it exits with 0. */
void library_expect_success(pid_t pid);

/* Waits until the test process has no child left, at most that long; reaps them all.
 * Fails the test else. The processes of a run end without anybody's help. */
void library_expect_no_child(double seconds);

/* Whether a report, as text, says that the tree is proved empty. */
bool library_is_proved(const char *report);

/* How many descriptors the process has open. */
size_t library_count_fds(void);

/* Whether the only processes that the kernel lets this one wait for are none. */
bool library_has_no_child(void);

/* Whether the file exists and is not empty, within that time. */
bool library_file_comes(const char *path, double seconds);

/* The number in such a file; -1: there is none. */
pid_t library_read_pid(const char *path);

#endif
