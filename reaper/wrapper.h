/*
 * wrapper.h - which members are launchers around the command, and not the command; and
 * the namespace that all others are in.
 *
 * A confining launcher (bwrap) leaves a process outside and an init inside a PID
 * namespace. Neither is what the user asked for: they are not signalled politely, since
 * the death of either takes what they look after with it before it could act. A namespace
 * init is a launcher's when it never exec'd anything (it runs the same executable file as
 * its parent outside, or did before that ended), or when it is our own program inside of
 * a sandbox. Else it is the command itself (`unshare -pf CMD`). Its ancestors are
 * launchers too, up to the first with other children: a build, say, that runs one of its
 * steps in a sandbox has more to do than to wait for it.
 *
 * What is a launcher around the command itself, and not a part of it, is not counted
 * either: a wrapper. But anybody can fork such an init. So there is one for a run, if
 * any: where each process from the leader down to it has one living child, and nobody is
 * beside them. What a command can still hide is a chain of processes without others.
 */
#ifndef SBX_REAPER_WRAPPER_H
#define SBX_REAPER_WRAPPER_H

#include "reaper/proc.h"
#include "reaper/tree.h"

#include <stdbool.h>
#include <sys/types.h>

/* What the program is called that a sandbox of ours has as its init (sandbox/orders.h).
 */
#define SBX_INNER_NAME "sbx-inner"

/* And the one that makes such a sandbox, before its init is there. */
#define SBX_OPENER_NAME "sbx-run"

/* From its status: the first process of a PID namespace below ours. */
bool sbx_wrapper_is_namespace_init(const struct sbx_proc_status *status);

/* Whether it is that one, by its name. */
bool sbx_wrapper_opens(const struct sbx_member *member);

/* Sets `launcher`, `wrapper` and `holds_all` of every member of the last walk. Costs
 * nothing where there is no namespace init, and nobody whose status nobody has read yet.
 */
void sbx_wrapper_mark(struct sbx_tree *tree, int proc_fd);

/* The outermost namespace init with which all members end but those above it, who do
 * nothing but wait for it; NULL: there is none. From the last mark. */
struct sbx_member *sbx_wrapper_init(struct sbx_tree *tree);

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
