/*
 * keeper.h - the process that an execution lives in, and how it is started.
 *
 *     sbxd -> sbx-keeper -> guard -> monitor -> leader -> tree
 *
 * The keeper makes the files of its place, forks the run (the guard is its child, bound
 * to it), and writes down what happens: output, events, at the end the status. It waits
 * for nobody but the command, talks to sbxd while there is one (control.h), and ends when
 * all is on file. If it is killed the run is ended by its guard (caller-lost), which
 * leaves the report in the place. It is a child subreaper: should guard and monitor both
 * be killed, the tree falls to it, and is ended.
 *
 * What it is to do lies in a sealed file in memory, so that sbxd waits for nothing and no
 * value of the environment comes to the disk.
 */
#ifndef SBX_SUPERVISOR_KEEPER_H
#define SBX_SUPERVISOR_KEEPER_H

#include "supervisor/place.h"
#include "supervisor/request.h"

#include <sbx/sbx.h>

struct sbx_keeper_means {
    const char *program;       /* absolute path of sbx-keeper */
    uint64_t descriptors_soft; /* RLIMIT_NOFILE, soft, that the command is to have */
};

/* Starts the keeper of a place that was reserved. Drops place->lock: from now on the
 * processes of the run hold it, and this one does not. *ret_control is the first control
 * socket. On failure nothing runs, and the lock is still held. */
int sbx_keeper_spawn(const struct sbx_request *request, struct sbx_place *place,
                     const struct sbx_keeper_means *means, int *ret_control,
                     struct sbx_error *err);

#endif
