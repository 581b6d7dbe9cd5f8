/*
 * wrapper.h - which members are launchers around the command, and not the command.
 *
 * A confining launcher (bwrap) leaves a process outside and an init inside a PID
 * namespace. Neither is what the user asked for: they are not counted and not signalled
 * politely, since the death of either takes the command with it before it could act. A
 * namespace init is a wrapper when it never exec'd anything: it still runs the same
 * executable file as its parent outside. Else it is the command itself (`unshare -pf
 * CMD`). Their ancestors are wrappers too, up to the first with other children: that one
 * has more to do than to wait for a launcher.
 */
#ifndef SBX_REAPER_WRAPPER_H
#define SBX_REAPER_WRAPPER_H

#include "reaper/proc.h"
#include "reaper/tree.h"

#include <stdbool.h>
#include <sys/types.h>

/* From its status: the first process of a PID namespace below ours. */
bool sbx_wrapper_is_namespace_init(const struct sbx_proc_status *status);

/* Sets `wrapper` of every member of the last walk. Costs nothing where there is no
 * namespace init, and nobody whose status nobody has read yet. */
void sbx_wrapper_mark(struct sbx_tree *tree, int proc_fd);

/*
 * Who stands above a member: its parent, or, for an orphan, the front of its launcher. A
 * launcher of containers lets its supervisor go (it forks twice), and waits for word from
 * it: our first child, when it has no living child of its own, is taken for the front of
 * all orphans. NULL when there is nobody, `front` being what sbx_wrapper_front returns.
 */
struct sbx_member *sbx_wrapper_front(struct sbx_tree *tree);
struct sbx_member *sbx_wrapper_above(struct sbx_tree *tree,
                                     const struct sbx_member *member,
                                     struct sbx_member *front);

/* The first member that is not a wrapper and not ended: the command, when `leader` is a
 * wrapper. 0 when there is none. */
pid_t sbx_wrapper_command(struct sbx_tree *tree, pid_t leader);

#endif
