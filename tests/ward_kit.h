/*
 * ward_kit.h - a group of the test's own with, where they can be had, controllers, and
 * children that live in it from their first step on.
 */
#ifndef SBX_TESTS_WARD_KIT_H
#define SBX_TESTS_WARD_KIT_H

#include "tests/group_kit.h"

#include <stdbool.h>
#include <sys/types.h>

/* A group for sbx_group_kit_remove; false, and a line on stderr: none can be made here.
 * `controllers`: only one that has memory and pids will do, which is made beside our own
 * group, since the children of one with processes have none. */
bool sbx_ward_make(bool controllers, char path[static SBX_GROUP_KIT_SIZE]);

/* A child that moves into the group, says so, waits until sbx_ward_go, runs the function,
 * and exits with what that returns. */
struct sbx_ward {
    pid_t pid;
    int go; /* a byte to it: the child runs; -1: it does */
};
void sbx_ward_start(const char *path, int (*run)(void *context), void *context,
                    struct sbx_ward *ret_ward);
void sbx_ward_go(struct sbx_ward *ward);

/* Waits for its end: as a shell has it. */
int sbx_ward_wait(struct sbx_ward *ward);

#endif
