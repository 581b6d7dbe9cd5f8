/*
 * sweep.h - ending a tree: the polite signal, and SIGKILL until the tree is proved empty.
 *
 * For a child subreaper. Own un-reaped children are signalled first: their pids cannot
 * have been reused. The rest is frozen with SIGSTOP, parents before children, until a
 * walk meets nobody new, and then killed. Each round makes orphans our children. The
 * proof is ECHILD from wait, never a quiet look at /proc. Everything is bounded in time;
 * who is left then is named.
 */
#ifndef SBX_REAPER_SWEEP_H
#define SBX_REAPER_SWEEP_H

#include "reaper/tree.h"

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stdint.h>

struct sbx_sweep_hooks {
    /* Reaps every child that has ended. Returns 0 while children are left, -ECHILD when
     * there are none. */
    int (*reap)(void *context);
    /* A live member met by the sweep for the first time. May be NULL. */
    void (*met)(const struct sbx_member *member, void *context);
    /* Who is left at the end, and why. */
    void (*survivor)(const struct sbx_member *member, const char *why, void *context);
    void *context;
};

struct sbx_sweep_result {
    bool empty;            /* proved: no children left */
    uint64_t killed_count; /* members that were sent SIGKILL, or ended with the init */
    bool by_namespace;     /* the init of the namespace that held all was killed first */
};

/* How long a sweep tries while new members are still being born; how long it waits for
 * those that have been sent SIGKILL and only need a processor to die on; for those that
 * do not die of it (state D, held by a tracer); and for those that may not be signalled.
 */
#define SBX_SWEEP_BOUND_US UINT64_C(10000000)
#define SBX_SWEEP_PATIENCE_US UINT64_C(30000000)
#define SBX_SWEEP_STUCK_US UINT64_C(3000000)
#define SBX_SWEEP_REFUSED_US UINT64_C(500000)

#define SBX_SWEEP_WHY_STUCK "uninterruptible or frozen (state D)"

/* The caller has raised its priority (boost.h): a bomb has a thousand scheduling groups.
 * Ends everything below the calling process. SIGCHLD must be blocked. Returns 0 whether
 * or not it became empty (see result), or a negative errno when the tree could not even
 * be read (own children are killed all the same). */
int sbx_sweep(struct sbx_tree *tree, int proc_fd, const struct sbx_sweep_hooks *hooks,
              struct sbx_sweep_result *ret_result);

/*
 * The same for an attached tree (attached.h), whose members are not ours to reap: frozen
 * with SIGSTOP until no walk, nor a look at the whole host, meets anybody new; sent
 * SIGKILL; then waited for until each is gone or a zombie. Best effort: `empty` says that
 * none of those who were ever met is alive, and nothing of those whom nobody has met.
 * `reap` is not called.
 */
int sbx_sweep_remembered(struct sbx_tree *tree, int proc_fd,
                         const struct sbx_sweep_hooks *hooks,
                         struct sbx_sweep_result *ret_result);

/* How long sbx_polite may take over members that it waits for before it tells their
 * children. */
#define SBX_POLITE_BOUND_US 300000U

/* Sends signal_number once to every live member that is to hear it (polite.h), then
 * SIGCONT to all, so that stopped ones act on it. Returns how many were signalled. */
uint64_t sbx_polite(struct sbx_tree *tree, int proc_fd, int signal_number);

#endif
