/*
 * hold.h - a tree that is made to stand still, and that goes on later as if nothing had
 * been: SIGSTOP to members, parents before children, until a walk finds nobody new and
 * all at rest; SIGCONT to just those, children first.
 *
 * Who was stopped already is left alone, and stays stopped. That somebody else stops or
 * continues a member meanwhile cannot be told from our own doing. The init of a namespace
 * is continued last: it looks after a front that it finds stopped (launch_init.c).
 */
#ifndef SBX_REAPER_HOLD_H
#define SBX_REAPER_HOLD_H

#include "reaper/tree.h"

#include <stdbool.h>
#include <stdint.h>

struct sbx_hold {
    struct sbx_tree *tree;
    int proc_fd;
    /* After each walk: sets `in_group` of whoever is held by other means, and of nobody
     * else. */
    void (*mark)(void *context);
    void *context;
};

/* For a child subreaper. Walks until then (CLOCK_MONOTONIC); also to be called again, for
 * those who have got away. True: all are at rest. */
bool sbx_hold(const struct sbx_hold *hold, uint64_t until_us);

/* Whether somebody runs, by the last walk, who should not. */
bool sbx_hold_is_leaky(struct sbx_tree *tree);

void sbx_hold_end(const struct sbx_hold *hold, uint64_t until_us);

#endif
