/*
 * grouped_outside.c - see grouped.h: what a sample must still judge although the kernel
 * holds the limit of memory. A command that runs as our user may leave its group where it
 * can write to another, and may write to the group's own files: then the kernel holds
 * nothing, and what it counts is not what the tree has.
 *
 * Looks only when members could have more than the limit. Allocates nothing that lasts.
 */
#include "monitor/grouped.h"

#include "base/clock.h"
#include "monitor/watch_private.h"

/* The parts of an account that are read one after the other, or flushed by one processor
 * after the other, may be that much apart. */
#define SLACK_PART 8U
#define SLACK_BYTES_PER_CPU (1U << 20)
/* A list that takes longer is one that somebody makes longer. */
#define LIST_BOUND_US 20000U

static uint64_t sum(uint64_t a, uint64_t b)
{
    return a > SBX_UNKNOWN - b ? SBX_UNKNOWN : a + b;
}

/* Memory and swap together; SBX_UNKNOWN: the kernel holds no limit. */
static uint64_t held_bytes(const struct sbx_watch *watch)
{
    const struct sbx_armed *armed = &watch->record->armed;
    uint64_t swap = armed->swap_bytes != SBX_UNKNOWN ? armed->swap_bytes : 0;
    return sum(armed->memory_bytes, swap);
}

static bool is_there(const struct sbx_member *member)
{
    return !sbx_member_ended(member) && member->rss_bytes > 0;
}

/* An upper bound of what all members have, by the walk before. */
static uint64_t bound_bytes(struct sbx_tree *tree)
{
    uint64_t bound = 0;
    for (size_t i = 0; i < sbx_tree_count(tree); i++) {
        const struct sbx_member *member = sbx_tree_member(tree, i);
        if (is_there(member)) {
            uint64_t swap = member->swap_bytes != SBX_UNKNOWN ? member->swap_bytes : 0;
            bound = sum(bound, sum(member->rss_bytes, swap));
        }
    }
    return bound;
}

static int mark(pid_t pid, void *context)
{
    struct sbx_member *member = sbx_tree_find(context, pid);
    if (member != NULL) {
        member->in_group = true;
    }
    return 0;
}

/* Not listed, although it lives now, after the list was read. */
static bool is_outside(const struct sbx_watch *watch, const struct sbx_member *member)
{
    struct sbx_proc_stat stat;
    return is_there(member) && !member->in_group &&
           sbx_proc_stat_at(watch->proc_fd, member->stat.pid, &stat) == 0 &&
           stat.start_ticks == member->stat.start_ticks && stat.state != 'Z' &&
           stat.state != 'X';
}

void sbx_watch_unmark_group(struct sbx_watch *watch)
{
    for (size_t i = 0; i < sbx_tree_count(watch->tree); i++) {
        sbx_tree_member(watch->tree, i)->in_group = false;
    }
}

int sbx_watch_mark_group(struct sbx_watch *watch)
{
    sbx_watch_unmark_group(watch);
    return sbx_leaf_each_process(watch->grouped->group.leaf.fd,
                                 sbx_clock_us() + LIST_BOUND_US, mark, watch->tree);
}

bool sbx_watch_has_left(struct sbx_watch *watch)
{
    struct sbx_tree *tree = watch->tree;
    uint64_t held = held_bytes(watch);
    if (held == SBX_UNKNOWN || bound_bytes(tree) <= held) {
        return false;
    }
    if (sbx_watch_mark_group(watch) < 0) {
        return true; /* who cannot be listed is measured otherwise */
    }
    for (size_t i = 0; i < sbx_tree_count(tree); i++) {
        if (is_outside(watch, sbx_tree_member(tree, i))) {
            return true;
        }
    }
    return false;
}

uint64_t sbx_watch_backstop_bytes(const struct sbx_watch *watch)
{
    uint64_t held = held_bytes(watch);
    if (watch->meter.left) {
        return held;
    }
    return sum(held, held / SLACK_PART + (uint64_t)SLACK_BYTES_PER_CPU * watch->cpus);
}
