/*
 * attach_kit.h - for tests of sbx-watch --pid: a target that the test starts itself, and
 * knowing what a running sbx-watch knows.
 */
#ifndef SBX_TESTS_ATTACH_KIT_H
#define SBX_TESTS_ATTACH_KIT_H

#include "tests/trial.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Options in static storage: `format` with the pid for its %d, after "--interval 20ms".
 */
const char *sbx_attach_options(const char *format, pid_t pid);

/* Starts it, and waits until `pid` is a member and the first sample was taken. */
void sbx_attach_start(struct sbx_trial *trial, pid_t pid);

/* Waits until `pid` is a member, at most 20 s. */
void sbx_attach_wait_known(const struct sbx_trial *trial, pid_t pid);

/* The monitor of a running trial; 0: not there. */
pid_t sbx_attach_monitor(const struct sbx_trial *trial);

/* Whether a process is there and has not ended. */
bool sbx_attach_is_alive(pid_t pid);

/* Waits for that, at most 20 s. */
void sbx_attach_wait_gone(pid_t pid);

/* The children of a process. Returns how many were put into the list. */
size_t sbx_attach_children(pid_t pid, pid_t *list, size_t max);

/* Its first child, waited for at most 20 s. */
pid_t sbx_attach_child(pid_t pid);

#endif
