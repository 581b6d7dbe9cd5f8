/*
 * start.h - how the command starts, where that is to be other than its caller: session,
 * processors, umask, user, working directory, privileges.
 *
 * The steps are carried out in the child between fork and exec (launch_start.c). What was
 * asked for is there exactly, read back where the kernel can be asked, or nothing runs.
 */
#ifndef SBX_REAPER_START_H
#define SBX_REAPER_START_H

#include "base/cpus.h"

#include <sbx/sbx.h>
#include <stdbool.h>
#include <sys/types.h>

/* All zeros, and directory_fd -1: as the caller. */
struct sbx_start {
    bool new_session; /* in place of a group of its own; no terminal is handed over */
    bool cpus_asked;
    struct sbx_cpus cpus;
    bool umask_asked;
    mode_t umask;
    bool user_asked;
    uid_t uid;
    gid_t gid;
    char *directory;  /* the working directory; NULL: the caller's */
    int directory_fd; /* where a relative `directory` starts; -1: at the caller's */
    bool no_new_privs;
};

/* The real uid that the command will have. */
uid_t sbx_start_uid(const struct sbx_start *start);

/* Refuses, before anything is started, a user whom we could not become, or whose
 * processes we could not end. 0 or -EPERM, stage check. */
int sbx_start_check(const struct sbx_start *start, struct sbx_error *err);

#endif
