/*
 * cgroup_scene.h - runs of sbx-watch in cgroups of the test's own: a place for leaves,
 * and proof that nothing is left at it and nothing changed above it.
 *
 * A scene begins with one of the first two functions, which say on stderr that it is
 * skipped where its precondition is missing, and ends with sbx_scene_end. The commands
 * find the place in the variable P.
 */
#ifndef SBX_TESTS_CGROUP_SCENE_H
#define SBX_TESTS_CGROUP_SCENE_H

#include "tests/group_kit.h"
#include "tests/trial.h"

#include <stdbool.h>
#include <stddef.h>

/* Where leaves are to be made: a group of the test's own. */
extern char sbx_scene_place[SBX_GROUP_KIT_SIZE];

/* A fresh group that hands on no controllers. */
bool sbx_scene_bare(const char *what);

/* A fresh group below the delegated one that the environment names in SBX_GUEST_CGROUP:
 * one that hands on memory, pids and cpu, or could. */
bool sbx_scene_with_controllers(const char *what);
bool sbx_scene_without_enabled(const char *what);

/* That group itself, for one that is there already; it is left there at the end. */
bool sbx_scene_in(const char *path);

/* Fails if there is a group of sbx-watch's at the place, or a cgroup.subtree_control at
 * or above it has changed since the beginning. */
void sbx_scene_assert_clean(void);

/* The same, and removes the place. */
void sbx_scene_end(void);

/* "--cgroup-root PLACE " and what follows, in static storage. */
const char *sbx_scene_options(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* For sbx_trial.prepare: P is told; sbx-watch itself starts in the place, too. */
void sbx_scene_tell(const struct sbx_trial *trial);
void sbx_scene_enter(const struct sbx_trial *trial);

/* In a shell script: $g becomes the directory of the leaf that it runs in. */
#define SBX_SCENE_LEAF                                                                   \
    "while IFS=: read -r a b c; do [ \"$a\" = 0 ] && g=$P/${c##*/}; done "               \
    "</proc/self/cgroup; "

/* In a shell script: starts a sleep that stays, and waits until it is one: before exec
 * its name is the shell's. $! is its pid. */
#define SBX_SCENE_STRAY                                                                  \
    "sleep 60 & while read -r n </proc/$!/comm && [ \"$n\" != sleep ]; do :; done; "

/* The path of the cgroup2 line in a copy of /proc/PID/cgroup, "/a/b". */
const char *sbx_scene_group_of(const char *text, char group[static SBX_GROUP_KIT_SIZE]);

/* What the report must say: a text, a number from `low` to `high`, nothing. */
void sbx_scene_text(const struct sbx_trial *trial, const char *path, const char *text);
void sbx_scene_number(const struct sbx_trial *trial, const char *path, int64_t low,
                      int64_t high);
void sbx_scene_absent(const struct sbx_trial *trial, const char *path);

/* Fails unless the run was contained by a leaf and it is proved to be empty; `kill`: what
 * the report must say of how it was ended, NULL for nothing. */
void sbx_scene_expect_contained(const struct sbx_trial *trial, const char *kill);

/* Fails unless nothing ran (no file "ran" in the run's directory) with status 125, stage
 * and a message that has all of these words, NULL-terminated. */
void sbx_scene_expect_refused(const struct sbx_trial *trial, const char *stage,
                              const char *const words[]);

/* Waits until our children whose names begin with the prefix ("": all) are gone, without
 * killing any; reaps. */
void sbx_scene_wait_gone(const char *prefix, double seconds);

#endif
