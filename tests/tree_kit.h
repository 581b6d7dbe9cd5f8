/*
 * tree_kit.h - for tests of what works on process trees: the test as the root of one, its
 * processes started, met and ended.
 *
 * Everything that is started here has a lifetime of a minute, and is ended by the test
 * itself at its end: the fixture takes what is left for a failure.
 */
#ifndef SBX_TESTS_TREE_KIT_H
#define SBX_TESTS_TREE_KIT_H

#include "reaper/sweep.h"
#include "reaper/tree.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SBX_KIT_LIFETIME_S 60U
#define SBX_KIT_NOBODY 65534U

/* A tree below the calling process. SIGCHLD is blocked, as sweeps want it. */
struct sbx_kit {
    int proc_fd;
    struct sbx_tree *tree;
};

void sbx_kit_open(struct sbx_kit *kit, size_t fd_budget);

/* Kills and reaps whatever is below us (checking that all of it goes), frees the rest. */
void sbx_kit_close(struct sbx_kit *kit);

/* One walk that must succeed; how many members it has found. */
size_t sbx_kit_walk(struct sbx_kit *kit);

/* Walks until there are that many members which have not ended, at most 20 s. */
void sbx_kit_walk_until(struct sbx_kit *kit, size_t alive);

/* Walks until there are that many members, ended ones included, and no new ones. */
void sbx_kit_settle(struct sbx_kit *kit, size_t members);

/* How many members of the last walk have not ended. */
size_t sbx_kit_alive(struct sbx_kit *kit);

/* fork with a lifetime; the child has its own SIGCHLD unblocked. */
pid_t sbx_kit_fork(void);

/* Never returns. */
_Noreturn void sbx_kit_idle(void);

/* Starts a helper program (its name and arguments, NULL-terminated) and waits until it
 * has said "up", or so many of its processes have. */
pid_t sbx_kit_helper(const char *const argv[]);
pid_t sbx_kit_helper_ups(const char *const argv[], unsigned ups);

/* Starts any program, found in PATH, with its standard output as the end of a pipe that
 * is returned for reading; with stdin from `in` when that is not negative. */
pid_t sbx_kit_start(const char *const argv[], int in, int *ret_out);

/* Kills one child of ours and reaps it. */
void sbx_kit_kill(pid_t pid);

/* Waits until its stat says so, at most 20 s; fails the test else. */
void sbx_kit_wait_state(const struct sbx_kit *kit, pid_t pid, char state);

/* A byte through a pipe, to let somebody go on; and its arrival, waited for at most 20 s.
 */
void sbx_kit_tell(int fd);
void sbx_kit_hear(int fd);

/* A child that has exactly this pid, by clone3. 0 in the child; -EPERM where that is not
 * permitted, -EEXIST when the pid is in use. */
pid_t sbx_kit_fork_as(pid_t pid);

/* Start time of a process, and now in the same unit: two processes differ when that has
 * changed. */
uint64_t sbx_kit_start_ticks(const struct sbx_kit *kit, pid_t pid);
void sbx_kit_next_tick(void);

/* Reaps all who have ended, and tells the tree of it; 0 or -ECHILD, as a sweep wants it.
 * Context: the kit. */
int sbx_kit_reap(void *context);

/* Says on stderr that something was not tested, and why. */
void sbx_kit_skip(const char *what, const char *why);

#endif
