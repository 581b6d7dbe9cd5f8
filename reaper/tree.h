/*
 * tree.h - the members of a run: every process that descends from the root, found through
 * the `children` file of every thread, remembered by pid and start time.
 *
 * The root is the calling process, a child subreaper, so that orphans come back to it and
 * descent is complete. It is no member itself. A walk costs two preads for a member that
 * is already known (descriptors are kept, within a budget) and allocates only when the
 * tree grows past its table. A single walk is not a snapshot: processes are born and move
 * to another parent meanwhile. So a member that a walk does not meet stays one until its
 * stat says that it is gone.
 */
#ifndef SBX_REAPER_TREE_H
#define SBX_REAPER_TREE_H

#include "reaper/proc.h"

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct sbx_member {
    struct sbx_proc_stat
        stat;         /* as last read; stat.pid and stat.start_ticks are its identity */
    pid_t memory_pid; /* whose memory files tell its memory: its pid, or a live thread of
                         a zombie leader */
    uint64_t rss_bytes;        /* 0 for a zombie */
    uint64_t waited_before_us; /* CPU of waited-for children at the walk before */
    /* From status, when it was last read (see status_due): SBX_UNKNOWN before that. */
    uint64_t hwm_bytes;
    uint64_t swap_bytes;
    uint64_t pss_bytes;     /* when smaps_rollup was last read */
    uint64_t pss_rss_bytes; /* rss_bytes at that time */
    uint64_t pss_retry_us;  /* not to be read before: reading it hung */
    bool ignores_sigchld;   /* children that it does not wait for leave no trace of their
                               CPU */
    bool namespace_init;    /* first process of a PID namespace below ours */
    unsigned namespace_depth; /* of its PID namespace, 1 is ours; 0: not yet known */
    bool launcher;            /* a launcher around something: not signalled politely */
    bool wrapper;      /* one around the command and all of its own: not counted either */
    bool holds_all;    /* a namespace init with which all the others end */
    bool parents_file; /* one that was seen to run the same file as its parent */
    bool own_memory;   /* known not to share its parent's: that never changes back */
    bool pss_asked;    /* in the request for PSS under way */
    bool status_due;   /* new, or another name: its status should be read */
    bool in_group;     /* when the members of the run's cgroup were last listed */
    /* For the polite signal (see polite.h). */
    bool catches; /* has a handler for it */
    bool mortal;  /* would die of it, unless it blocks it */
    bool blocks;
    bool hears;               /* is to be sent it */
    bool spared;              /* is not, being a launcher, since who is below it is */
    bool busy;                /* was asleep, and not to wait for a child */
    unsigned living_children; /* counted where somebody wants to know */
    pid_t only_child;         /* when that is 1 */
    /* In an attached tree (attached.h): */
    bool mourned;      /* its end was noted */
    bool outside;      /* its parent is no member */
    bool session_ours; /* its session, or its process group, was made by a member */
    bool group_ours;
    pid_t session_noted; /* what the two were worked out for */
    pid_t group_noted;
    /* For the sweep. */
    bool met;     /* told to the caller */
    bool frozen;  /* was sent SIGSTOP */
    bool killed;  /* was sent SIGKILL */
    bool refused; /* a signal to it was not permitted */
    bool held;    /* stopped for a while (hold.h) */
    /* Bookkeeping of the walk. */
    uint32_t seen_generation;
    uint32_t order_index;
    int stat_fd;     /* kept, or -1 past the budget */
    int children_fd; /* of its main thread; kept, or -1 */
};

struct sbx_tree;

/* What a walk tells while it goes. Each hook may be NULL. */
struct sbx_tree_hooks {
    /* Each live member, parents before children, before its own children are read. */
    void (*visit)(struct sbx_member *member, void *context);
    /* A member that is met for the first time; before `visit`. */
    void (*found)(const struct sbx_member *member, void *context);
    /* A member that is gone and that was not reaped by us; called before it is forgotten.
     * `parent` may be NULL. */
    void (*vanished)(const struct sbx_member *member, const struct sbx_member *parent,
                     void *context);
    void *context;
};

/*
 * A tree below the calling process. `proc_fd` (borrowed) is the root of /proc;
 * `fd_budget` how many descriptors may be kept. Where the kernel has no `children` files,
 * whole-host scans take their place. 0, or a negative errno.
 */
int sbx_tree_new(int proc_fd, size_t fd_budget, struct sbx_tree **ret_tree,
                 struct sbx_error *err);
void sbx_tree_free(struct sbx_tree *tree);

/* For tests: use whole-host scans although `children` files are there. */
void sbx_tree_force_scan(struct sbx_tree *tree);

/* Walks give up with -ETIME when they are not through by then (CLOCK_MONOTONIC;
 * SBX_FOREVER_US: never): a starved monitor must not miss a deadline over a long walk. */
void sbx_tree_set_deadline(struct sbx_tree *tree, uint64_t at_us);

/* One walk. 0, or a negative errno when the tree could not be read (not when members came
 * or went). */
int sbx_tree_walk(struct sbx_tree *tree, const struct sbx_tree_hooks *hooks,
                  struct sbx_error *err);

/* Members in the order of the last walk, parents before children; zombies included. Valid
 * until the next walk. */
size_t sbx_tree_count(const struct sbx_tree *tree);
struct sbx_member *sbx_tree_member(struct sbx_tree *tree, size_t index);
struct sbx_member *sbx_tree_find(struct sbx_tree *tree, pid_t pid);

/* How many members the last walk met for the first time; how many were ever met. */
size_t sbx_tree_new_count(const struct sbx_tree *tree);
uint64_t sbx_tree_total_count(const struct sbx_tree *tree);

/* A child of ours was reaped: forgets it, without calling `vanished`. True when it was a
 * member. */
bool sbx_tree_reaped(struct sbx_tree *tree, pid_t pid);

/* Zombie with no live thread: ended, not yet reaped. */
bool sbx_member_ended(const struct sbx_member *member);

/* Calls visit for each direct child of the calling process, zombies included. 0, what
 * visit returned, or a negative errno. */
int sbx_tree_each_child(struct sbx_tree *tree, sbx_proc_visit *visit, void *context);

#endif
