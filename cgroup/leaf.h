/*
 * leaf.h - the cgroup of one run: its name, its making, its limits, its end. Every file
 * is reached below a held descriptor of its directory.
 *
 * A leaf is named sbx-SCOPE-PID-START-N: SCOPE stands for the boot, the PID namespace and
 * the time namespace in which pid and start time mean something; PID and START are the
 * owner's. The owner's processes also hold a shared flock on the directory, which the
 * kernel lets go when the last of them is gone. So nobody takes a leaf for left behind
 * whose run still has a guard or a monitor, and nobody's but ours is ever touched.
 */
#ifndef SBX_CGROUP_LEAF_H
#define SBX_CGROUP_LEAF_H

#include "cgroup/place.h"

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SBX_LEAF_NAME_SIZE 96

/* Who owns leaves made by this process, and how the life of other owners is told. */
struct sbx_owner {
    pid_t pid;
    uint64_t start_ticks;
    /* Whether that process is there (a zombie is not). */
    bool (*lives)(pid_t pid, uint64_t start_ticks, void *context);
    void *context;
};

struct sbx_leaf {
    int fd; /* O_RDONLY | O_DIRECTORY, holds the flock; -1: none */
    char name[SBX_LEAF_NAME_SIZE];
    unsigned controllers; /* that it has */
};

/* Asked for from the kernel; SBX_UNKNOWN (UINT64_MAX): not. */
struct sbx_leaf_limits {
    uint64_t memory_bytes; /* memory.max, and swap_bytes as memory.swap.max */
    uint64_t swap_bytes;
    bool group_kill; /* memory.oom.group: who is over it ends all */
    uint64_t threads_count;
    uint64_t cpu_percent; /* of one processor: cpu.max */
};

/* A fresh leaf below the place. 0 or a negative errno. */
int sbx_leaf_make(const struct sbx_place *place, const struct sbx_owner *owner,
                  struct sbx_leaf *ret_leaf, struct sbx_error *err);

/* Sets the limits and reads them back into *armed. memory.max may come back rounded down
 * to pages; anything else that is not as asked is a failure, stage arm, which names file,
 * value and what was read. Only what the leaf has the controller for may be asked. */
int sbx_leaf_arm(const struct sbx_leaf *leaf, const struct sbx_leaf_limits *asked,
                 struct sbx_leaf_limits *ret_armed, struct sbx_error *err);

/* 1: somebody lives in it or below; 0: nobody, or it is gone; or a negative errno. Read
 * at once: the event comes late. */
int sbx_leaf_populated(int leaf_fd);

/* Ends everybody in it and below, at once: cgroup.kill. -EOPNOTSUPP where the kernel has
 * none (before 5.14). */
int sbx_leaf_kill(int leaf_fd);

/* Freezes it (or thaws it), and waits at most so long for it to be so. 0, -ETIMEDOUT or
 * another negative errno. */
int sbx_leaf_freeze(int leaf_fd, bool frozen, uint64_t bound_us);

/* Each process in it and below, zombies left out; stops when visit returns nonzero, and
 * returns that. Else 0 or a negative errno: -ETIMEDOUT when groups below are still left
 * at that moment, since there may be more of them all the time. A pid may come twice
 * while groups change. */
int sbx_leaf_each_process(int leaf_fd, uint64_t until_us,
                          int (*visit)(pid_t pid, void *context), void *context);

/* Takes the leaf away with all groups below it, which must have no processes, within the
 * bound. 0 when it is gone (by whomever), else a negative errno: -EBUSY, -ETIMEDOUT. */
int sbx_leaf_remove(int place_fd, const char *name, uint64_t bound_us);

/* Somebody who stays is left in it on purpose: no later run takes it for left behind
 * until it is empty. */
int sbx_leaf_mark_kept(int leaf_fd);

/* Of a name: whether it is that of a leaf (whoever's, whenever's). */
bool sbx_leaf_is_name(const char *name);

/* Ends and takes away the leaves below the place that were left behind: of our scope,
 * their owner gone, their lock free, not kept. Bounded; a few are ended even when the
 * bound is over. Returns how many leaves of runs, ours or not, are still there, or a
 * negative errno. */
int sbx_leaf_sweep_stale(int place_fd, const struct sbx_owner *owner, uint64_t bound_us);

#endif
