/*
 * arming.c - see arming.h.
 *
 * prlimit takes a pid, and a pid can be given away: identity is looked at before and
 * after. If it has changed between, a stranger was hit, and gets back what he had.
 */
#include "reaper/arming.h"

#include "base/error.h"
#include "base/text.h"
#include "reaper/pidref.h"
#include "reaper/proc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define NUMBER_SIZE 24

struct change {
    struct sbx_pidref ref;
    int resource;
    struct rlimit before;
};

struct sbx_arming {
    int proc_fd;
    const struct sbx_ceiling *ceilings;
    struct change *changes;
    size_t count;
    size_t capacity;
};

int sbx_arming_new(int proc_fd, const struct sbx_ceiling *ceilings,
                   struct sbx_arming **ret_arming)
{
    struct sbx_arming *arming = calloc(1, sizeof *arming);
    if (arming == NULL) {
        return -ENOMEM;
    }
    arming->proc_fd = proc_fd;
    arming->ceilings = ceilings;
    *ret_arming = arming;
    return 0;
}

void sbx_arming_free(struct sbx_arming *arming)
{
    if (arming != NULL) {
        free(arming->changes);
        free(arming);
    }
}

/* --- messages --- */

static const char *number(rlim_t limit, char text[static NUMBER_SIZE])
{
    if (limit == RLIM_INFINITY) {
        return "unlimited";
    }
    (void)snprintf(text, NUMBER_SIZE, "%" PRIu64, (uint64_t)limit);
    return text;
}

static int refuse(const struct sbx_member *member, int kind,
                  const struct sbx_ceiling *ceiling, int code, struct sbx_error *err)
{
    char name[4 * SBX_PROC_NAME_SIZE + 1];
    char soft[NUMBER_SIZE];
    char hard[NUMBER_SIZE];
    (void)sbx_text_escape(name, sizeof name, member->stat.name,
                          strnlen(member->stat.name, SBX_PROC_NAME_SIZE));
    return sbx_error_set(
        err, code, SBX_STAGE_ARM, "ceiling %s of process %d (%s): wanted %s:%s: %s%s",
        sbx_ceiling_kinds[kind].name, member->stat.pid, name, number(ceiling->soft, soft),
        number(ceiling->hard, hard), sbx_errno_name(code),
        code == EPERM ? " (not permitted)"
        : code == EIO ? " (another value was read back)"
                      : "");
}

/* --- one ceiling of one member --- */

static bool is_still(const struct sbx_arming *arming, const struct sbx_pidref *ref)
{
    struct sbx_proc_stat stat;
    return sbx_proc_stat_at(arming->proc_fd, ref->pid, &stat) == 0 &&
           stat.start_ticks == ref->start_ticks;
}

static int call(pid_t pid, int resource, const struct rlimit *set, struct rlimit *get)
{
    return prlimit(pid, (__rlimit_resource_t)resource, set, get) < 0 ? -errno : 0;
}

/* Sets it for that process and nobody else. -ESRCH when it is gone. */
static int set_for(const struct sbx_arming *arming, const struct sbx_pidref *ref,
                   int resource, const struct rlimit *wanted, struct rlimit *ret_before)
{
    struct rlimit before;
    if (!is_still(arming, ref)) {
        return -ESRCH;
    }
    int r = call(ref->pid, resource, wanted, &before);
    if (r < 0) {
        return r;
    }
    if (!is_still(arming, ref)) {
        (void)call(ref->pid, resource, &before, NULL);
        return -ESRCH;
    }
    *ret_before = before;
    return 0;
}

static int reserve(struct sbx_arming *arming)
{
    if (arming->count < arming->capacity) {
        return 0;
    }
    size_t capacity = arming->capacity == 0 ? 64 : arming->capacity * 2;
    struct change *changes = realloc(arming->changes, capacity * sizeof *changes);
    if (changes == NULL) {
        return -ENOMEM;
    }
    arming->changes = changes;
    arming->capacity = capacity;
    return 0;
}

/* The kernel does not hold nproc for real uid 0. */
static bool is_toothless(const struct sbx_arming *arming, int resource, pid_t pid)
{
    struct sbx_proc_status status;
    return resource == RLIMIT_NPROC &&
           sbx_proc_status_at(arming->proc_fd, pid, &status) == 0 && status.real_uid == 0;
}

/* 1 when it was changed, 0 when that was not needed or is not for this pass. */
static int arm(struct sbx_arming *arming, const struct sbx_member *member, int kind,
               bool raises)
{
    const struct sbx_ceiling *ceiling = &arming->ceilings[kind];
    int resource = sbx_ceiling_kinds[kind].resource;
    const struct sbx_pidref ref = {member->stat.pid, member->stat.start_ticks};
    const struct rlimit wanted = {ceiling->soft, ceiling->hard};
    struct rlimit now;
    if (is_toothless(arming, resource, ref.pid)) {
        return -EINVAL;
    }
    int r = call(ref.pid, resource, NULL, &now);
    if (r < 0) {
        return r;
    }
    bool same = now.rlim_cur == wanted.rlim_cur && now.rlim_max == wanted.rlim_max;
    if (same || (wanted.rlim_max > now.rlim_max) != raises) {
        return 0;
    }
    r = reserve(arming);
    if (r == 0) {
        r = set_for(arming, &ref, resource, &wanted, &now);
    }
    if (r < 0) {
        return r;
    }
    arming->changes[arming->count++] = (struct change){ref, resource, now};
    r = call(ref.pid, resource, NULL, &now);
    if (r < 0) {
        return r;
    }
    bool held = now.rlim_cur == wanted.rlim_cur && now.rlim_max == wanted.rlim_max;
    return held || !is_still(arming, &ref) ? 1 : -EIO;
}

static int arm_member(struct sbx_arming *arming, const struct sbx_member *member,
                      bool raises, bool *changed, struct sbx_error *err)
{
    for (int kind = 0; kind < SBX_CEILING_COUNT; kind++) {
        if (!arming->ceilings[kind].asked) {
            continue;
        }
        int r = arm(arming, member, kind, raises);
        if (r == -ESRCH) {
            return 0;
        }
        if (r == -EINVAL && sbx_ceiling_kinds[kind].resource == RLIMIT_NPROC) {
            return sbx_error_set(err, EINVAL, SBX_STAGE_ARM,
                                 "ceiling nproc of process %d: the kernel does not hold "
                                 "it for uid 0: use --processes, which bounds the tree",
                                 member->stat.pid);
        }
        if (r < 0) {
            return refuse(member, kind, &arming->ceilings[kind], -r, err);
        }
        *changed = *changed || r == 1;
    }
    return 0;
}

int sbx_arming_round(struct sbx_arming *arming, struct sbx_tree *tree, bool *ret_changed,
                     struct sbx_error *err)
{
    bool changed = false;
    for (int raises = 1; raises >= 0; raises--) {
        for (size_t i = 0; i < sbx_tree_count(tree); i++) {
            const struct sbx_member *member = sbx_tree_member(tree, i);
            int r = sbx_member_ended(member)
                        ? 0
                        : arm_member(arming, member, raises == 1, &changed, err);
            if (r < 0) {
                return r;
            }
        }
    }
    *ret_changed = changed;
    return 0;
}

void sbx_arming_undo(struct sbx_arming *arming, struct sbx_error *err)
{
    size_t kept = 0;
    for (size_t i = arming->count; i > 0; i--) {
        const struct change *change = &arming->changes[i - 1];
        struct rlimit ignored;
        int r =
            set_for(arming, &change->ref, change->resource, &change->before, &ignored);
        kept += r < 0 && r != -ESRCH ? 1U : 0U;
    }
    arming->count = 0;
    if (kept > 0 && err != NULL) {
        size_t used = strlen(err->message);
        (void)snprintf(err->message + used, sizeof err->message - used,
                       "; %zu lowered limits could not be raised again", kept);
    }
}
