/*
 * place_kit.h - pretended and real groups for tests.
 *
 * A pretended hierarchy is a directory of plain files below the test's own, a pretended
 * /proc another one. Tests that use them are linked with wrappers of fstatfs, which says
 * cgroup2 (or what sbx_kit_file_system says) of what lies below the test's directory, and
 * of faccessat, which may refuse one file, since root may write everywhere.
 */
#ifndef SBX_TESTS_PLACE_KIT_H
#define SBX_TESTS_PLACE_KIT_H

#include "tests/fixture.h"

/* Writes a file of the test's directory; makes the directories on its way. */
void sbx_kit_file(const char *name, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A group of the pretended hierarchy ("/a/b"): its directory with cgroup.type (NULL:
 * none), cgroup.procs, cgroup.controllers and cgroup.subtree_control. */
void sbx_kit_group(const char *group, const char *type, const char *controllers,
                   const char *on, const char *procs);

/* /proc for it: one cgroup2 mount, with the pretended hierarchy, and our own group.
 * Returns a descriptor of it. */
int sbx_kit_proc(const char *own);

/* Where the pretended hierarchy is: returns buffer. */
const char *sbx_kit_mount(char buffer[static SBX_FIXTURE_PATH_SIZE]);

/* From now on fstatfs says this of everything below the test's directory. */
void sbx_kit_file_system(unsigned long magic);

/* From now on faccessat refuses to have this file (a path below the mount, "/a/b" or
 * "/a/b/cgroup.procs") written. NULL: none. */
void sbx_kit_refuse(const char *path, int code);

/* The group that was delegated to this user with controllers on, as the environment of a
 * guest says; NULL where there is none, which is said on stderr as a skip of `what`. */
const char *sbx_kit_delegated(const char *what);

#endif
