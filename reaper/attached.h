/*
 * attached.h - a tree that somebody else started, and of which we are no ancestor: its
 * members are those who were seen, remembered by pid and start time.
 *
 * Orphans of such a tree go to init or to some subreaper, not to us. So a walk begins at
 * each member whose parent is none: once a member is known it stays one, wherever it is
 * moved. Who lost his parent before he was seen is looked for among all processes of the
 * host (scan.h), but only when a member has vanished since the last look, or when it is
 * asked for; and he counts only when he is in a session or process group that a member
 * has made, and that has been somebody's without a break since. Sharing the session of
 * the shell that started the root makes nobody a member, nor does being a child of the
 * process that adopts orphans.
 *
 * Best effort: who left for a session of his own and lost his parent between two looks is
 * not found.
 */
#ifndef SBX_REAPER_ATTACHED_H
#define SBX_REAPER_ATTACHED_H

#include "reaper/pidref.h"
#include "reaper/tree.h"

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* As sbx_tree_new, with no member yet. All that is declared below is for such trees. */
int sbx_tree_new_attached(int proc_fd, size_t fd_budget, struct sbx_tree **ret_tree,
                          struct sbx_error *err);

/* When it was made, in the unit of start times. */
uint64_t sbx_tree_since_ticks(const struct sbx_tree *tree);

/* Makes whole-host scans possible. 0, or a negative errno: then orphans that no walk has
 * met before stay unknown. */
int sbx_tree_load_scan(struct sbx_tree *tree, struct sbx_error *err);

/* The next walk looks at the whole host; so does every walk from now on. */
void sbx_tree_scan_next(struct sbx_tree *tree);
void sbx_tree_scan_always(struct sbx_tree *tree);

/* Makes a process a member, by identity. The first one is the root. 0, -ESRCH when it is
 * gone, or another negative errno. */
int sbx_tree_remember(struct sbx_tree *tree, const struct sbx_pidref *ref);

/* Members are those whom `source` names, in each walk anew, and nobody else: no
 * descendants, no orphans. Who is not named any more has left. The source calls visit for
 * each pid; it returns what visit returned, if that was not 0, or 0, or a negative errno,
 * with which the walk fails. */
typedef int sbx_tree_source(sbx_proc_visit *visit, void *visit_context, void *context);
void sbx_tree_follow(struct sbx_tree *tree, sbx_tree_source *source, void *context);

/* Processes that are never members, whoever they descend from: this one; and the children
 * of that process. 0 or -ENOSPC. */
int sbx_tree_exclude(struct sbx_tree *tree, const struct sbx_pidref *ref);
void sbx_tree_exclude_children(struct sbx_tree *tree, pid_t parent);

/* Walks that meet somebody whom /proc hides do not fail; the last one whom any walk has
 * met, or 0. */
void sbx_tree_pass_over_hidden(struct sbx_tree *tree);
pid_t sbx_tree_hidden(const struct sbx_tree *tree);

/* Whether somebody of the last walk has not ended. */
bool sbx_tree_is_alive(struct sbx_tree *tree);

/* The parent of `pid`, its parent, and so on, at most `max`. Returns how many. */
size_t sbx_ancestors(int proc_fd, pid_t pid, struct sbx_pidref *list, size_t max);

#endif
