/*
 * polite.h - who of a tree is to hear the polite signal, and whose end is the command's.
 *
 * Every member hears it, but for those whose answer would come in place of the command's:
 *
 *  - launchers (wrapper.h), and a namespace init that does not catch it;
 *  - who stands outside of a PID namespace with a member in it that hears, and would die
 *    of the signal: its death would take the command with it, or at least the status;
 *  - launchers known by name that pass the signal on (it would arrive twice) or answer
 *    it by killing: su waits for two seconds, whatever the grace.
 *
 * The last two only when they have one living child, which hears; so there is always
 * somebody who is told. Nothing here sends a signal or changes what is counted.
 */
#ifndef SBX_REAPER_POLITE_H
#define SBX_REAPER_POLITE_H

#include "reaper/tree.h"

#include <stdbool.h>
#include <sys/types.h>

/* Sets `hears` and `spared` of each member of the last walk. Reads the status of each. */
void sbx_polite_choose(struct sbx_tree *tree, int proc_fd, int signal_number);

/* After that: whether it hears, would die of it at once, and does nothing but wait for a
 * child that hears too. Inside of a PID namespace only if that is ours (namespace.h): in
 * others its death may end the child.
 */
bool sbx_polite_waits(struct sbx_tree *tree, const struct sbx_member *member);

/*
 * After that: the member whose end tells how the command ended, if the signal ends the
 * leader, or others between the two, while they only wait for one child (`sh -c CMD`,
 * flock). NULL: the leader's own end tells it. One that sleeps for another reason, such
 * as a server with one worker, is the command itself.
 */
const struct sbx_member *sbx_polite_heir(struct sbx_tree *tree, pid_t leader);

#endif
