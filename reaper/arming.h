/*
 * arming.h - ceilings for processes that run already: prlimit(2) on every member of an
 * attached tree, all or nothing, read back.
 *
 * A round sets them for all members of the last walk. Whoever is born of a member that
 * has them has them too; so rounds are repeated, each after a walk, until one changes
 * nothing. The first failure is the caller's to undo: everything that was changed is put
 * back. What raises a hard limit comes first in a round: it is what is refused, and can
 * always be taken back. A lowered hard limit can only be raised again with
 * CAP_SYS_RESOURCE.
 */
#ifndef SBX_REAPER_ARMING_H
#define SBX_REAPER_ARMING_H

#include "reaper/ceiling.h"
#include "reaper/tree.h"

#include <sbx/sbx.h>
#include <stdbool.h>

struct sbx_arming;

/* `proc_fd` and `ceilings` are borrowed. 0 or -ENOMEM. */
int sbx_arming_new(int proc_fd, const struct sbx_ceiling *ceilings,
                   struct sbx_arming **ret_arming);
void sbx_arming_free(struct sbx_arming *arming);

/* One round. *ret_changed: some member did not have them. 0, or a negative errno, stage
 * arm, naming member, ceiling, and wanted value; what was changed by then stays changed
 * until sbx_arming_undo. Members that end meanwhile are no failure. */
int sbx_arming_round(struct sbx_arming *arming, struct sbx_tree *tree, bool *ret_changed,
                     struct sbx_error *err);

/* Puts everything back, last change first, and says at the end of the message in *err
 * (may be NULL) for how many that was not permitted. */
void sbx_arming_undo(struct sbx_arming *arming, struct sbx_error *err);

#endif
