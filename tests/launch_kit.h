/*
 * launch_kit.h - what the tests of the launch have in common: launches that must succeed,
 * and launches that must fail without a trace.
 */
#ifndef SBX_TESTS_LAUNCH_KIT_H
#define SBX_TESTS_LAUNCH_KIT_H

#include "reaper/launch.h"

/* A plain launch: own group, no terminal, a usual PATH, the limits of the test. */
struct sbx_launch sbx_kit_launch(const char *const *argv);

/* sbx_launch with every signal blocked around it, as its contract wants. */
int sbx_kit_start(const struct sbx_launch *launch, pid_t *ret_pid, int *ret_status,
                  struct sbx_error *err);

/* Launches, which must succeed, and waits for the leader: returns its wait status. */
int sbx_kit_run(const struct sbx_launch *launch);

/* Launches, which must fail with a whole error, an untouched pid and no child left:
 * returns the exit status that goes with the failure. */
int sbx_kit_fail(const struct sbx_launch *launch, struct sbx_error *ret_error);

void sbx_kit_assert_exited(int wait_status, int code);
void sbx_kit_assert_no_child(void);

/* Opens descriptors until every number below SBX_KIT_FILL_COUNT is taken, and so are
 * numbers above it; none is close-on-exec. */
#define SBX_KIT_FILL_COUNT 32
struct sbx_kit_fill {
    int fds[SBX_KIT_FILL_COUNT];
    int count;
};
struct sbx_kit_fill sbx_kit_fill(void);
void sbx_kit_unfill(const struct sbx_kit_fill *fill);

#endif
