/*
 * front.h - a calling process that has children of its own already (`sh -c 'x & exec
 * sbx-watch …'`) is no guard: a guard waits for whoever falls to it. So a fresh guard is
 * forked and the caller stays a thin front: it passes signals on, follows stops, and
 * carries the status. It never waits for or signals anybody but that guard.
 */
#ifndef SBX_REAPER_FRONT_H
#define SBX_REAPER_FRONT_H

#include <sbx/sbx.h>
#include <stdbool.h>

/* Whose end ends the run. */
struct sbx_guard_bonds {
    int caller_pidfd; /* --die-with-parent; -1: not bound */
    /* It is one of ours, which nobody has a right to stop: it is continued. */
    bool caller_is_ours;
    /* To the front, which sends the signals that it gets as SBX_MESSAGE_PASS, and whose
     * end closes it. A signal sent on would be lost in one of the same number that is
     * pending already: one to the whole group reaches both. -1: there is no front. */
    int front_socket;
    /* To a caller that has started the run through the library, which sends
     * SBX_MESSAGE_CANCEL, _PASS, _PAUSE and _RESUME, and is lost when it closes it.
     * Borrowed: the result goes there too. -1: none. */
    int control_socket;
};

/* Runs `guard` in this process when it has no children, else in a child below this
 * process as the front. Every signal is blocked. The descriptors of the bonds become the
 * guard's own. *ret_status receives the guard's status.
 * 0, or a negative errno when it could not be started. */
int sbx_front_run(bool die_with_parent,
                  int (*guard)(const struct sbx_guard_bonds *bonds, void *context),
                  void *context, int *ret_status, struct sbx_error *err);

#endif
