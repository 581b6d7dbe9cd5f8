/*
 * net.h - a net for what makes many processes: a group of the v1 pids hierarchy with a
 * bound, so that a mistake in a test cannot take the host's pids away.
 *
 * Where there is none (an ordinary user, another kernel) the net is nothing, and says so:
 * then make fewer.
 */
#ifndef SBX_TESTS_NET_H
#define SBX_TESTS_NET_H

#include <stdbool.h>

struct sbx_net {
    char path[320]; /* empty: there is none */
};

/* Makes a net for that many tasks. False: there is none. */
bool sbx_net_make(struct sbx_net *net, unsigned tasks);

/* The calling process, and what it forks from now on, is held by it. Async-signal-safe:
 * for a child before it executes. */
void sbx_net_enter(const struct sbx_net *net);

/* When nobody is in it any more. False: it could not be removed. */
bool sbx_net_remove(struct sbx_net *net);

/* Whether that many more processes fit into the pids of this host, with a margin. */
bool sbx_net_fits(unsigned more);

#endif
