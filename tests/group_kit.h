/*
 * group_kit.h - cgroup v2 groups of a test's own: made where one can be made, and taken
 * away again with everything in them.
 *
 * A group is named sbxtest-PID-N and lies below our own group or, where we may not make
 * one there, below the nearest ancestor that lets us. What a failed test has left is
 * taken away by the next one, or at the end. Nothing else is ever touched, and no
 * cgroup.subtree_control but a test group's own is written.
 */
#ifndef SBX_TESTS_GROUP_KIT_H
#define SBX_TESTS_GROUP_KIT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define SBX_GROUP_KIT_SIZE 512

/* The file system's path of the group that we are in; false: no cgroup2 shows it. */
bool sbx_group_kit_own(char path[static SBX_GROUP_KIT_SIZE]);

/* A fresh group, for sbx_group_kit_remove; false: none can be made here. */
bool sbx_group_kit_make(char path[static SBX_GROUP_KIT_SIZE]);

/* A fresh group in just that one; false and errno: it cannot be made. */
bool sbx_group_kit_make_in(const char *parent, char path[static SBX_GROUP_KIT_SIZE]);

/* For the end of a test program: takes away what failed tests have left, if anything.
 * Returns the status that it is given. */
int sbx_group_kit_finish(int status);

/* A fresh group in the nearest one above us that has memory and pids on for its children
 * (ours cannot, since we are in it); its own children have them too. false: there is
 * none. */
bool sbx_group_kit_make_controlled(char path[static SBX_GROUP_KIT_SIZE]);

/* A group in a group; fails the test when that cannot be made. */
void sbx_group_kit_below(const char *parent, const char *name,
                         char path[static SBX_GROUP_KIT_SIZE]);

/* Ends everybody in it, and removes it and all groups below; fails the test when that
 * does not work within 20 s. */
void sbx_group_kit_remove(const char *path);

/* "PATH/NAME", which must fit. */
void sbx_group_kit_join(char buffer[static SBX_GROUP_KIT_SIZE], const char *path,
                        const char *name);

/* A file of a group: what is in it, "" when it cannot be read; and whether it could be
 * written, else a negative errno. */
const char *sbx_group_kit_read(const char *path, const char *file, char *buffer,
                               size_t size);
int sbx_group_kit_write(const char *path, const char *file, const char *text);

/* Whether it has that word: a controller in cgroup.controllers. */
bool sbx_group_kit_has(const char *path, const char *file, const char *word);

/* A number, of the file alone (key NULL) or behind that key; -1: it is not there. */
long long sbx_group_kit_number(const char *path, const char *file, const char *key);

/* How many groups directly below it begin with the prefix; the first one's name. */
size_t sbx_group_kit_count(const char *path, const char *prefix,
                           char first[static SBX_GROUP_KIT_SIZE]);

bool sbx_group_kit_is_there(const char *path);

/* Says on stderr that something was not tested, and why. */
void sbx_group_kit_skip(const char *what, const char *why);

#endif
