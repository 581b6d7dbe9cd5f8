/*
 * grouped.h - a run whose members live in a cgroup of its own (cgroup/group.h).
 *
 * The guard makes the leaf before it forks the monitor, so that each can end the members
 * and put everything back after the other's death. Whichever completes the record closes
 * it: the monitor, or the guard when that is gone.
 *
 * grouped.c: what guard and monitor have in common. grouped_watch.c: the monitor's part.
 * grouped_outside.c: members that have left the leaf, and limits that were lifted.
 */
#ifndef SBX_MONITOR_GROUPED_H
#define SBX_MONITOR_GROUPED_H

#include "cgroup/ancestors.h"
#include "cgroup/group.h"
#include "cgroup/statistics.h"
#include "monitor/record.h"
#include "monitor/spec.h"

#include <sbx/sbx.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

/* In memory that guard and monitor share. */
struct sbx_grouped_area {
    _Atomic int closed; /* nothing of the leaf is left to be put back */
};

#define SBX_GROUPED_OTHERS 2

struct sbx_grouped {
    bool open;
    struct sbx_group group;
    struct sbx_statistics statistics;
    struct sbx_ancestors ancestors;
    struct sbx_figures before; /* at the start: a leaf starts with zeros */
    uint64_t tasks_of_ours;
    uint64_t outliving; /* in the monitor: whom cgroup.kill has not ended */
    struct sbx_grouped_area *area;
    pid_t
        others[SBX_GROUPED_OTHERS]; /* of ours: the guard, and its front if it has one */
    uint64_t others_start_ticks[SBX_GROUPED_OTHERS];
};

void sbx_grouped_init(struct sbx_grouped *grouped, struct sbx_grouped_area *area);

/* In the guard: makes and arms the leaf, where the run is to have one and one can be
 * made; `first_pid` is the process that the caller knows. 0, or a negative errno when
 * something that was demanded cannot be had; then nothing is left. */
int sbx_grouped_open(struct sbx_grouped *grouped, const struct sbx_spec *spec,
                     struct sbx_record *record, pid_t first_pid, struct sbx_error *err);

/* How many of those that the kernel counts in it are not the command's: front and init of
 * a PID namespace are born in it too. */
uint64_t sbx_grouped_tasks_of_ours(const struct sbx_spec *spec);

/* For struct sbx_owner: whether that process lives. Context: an int, the root of /proc.
 */
bool sbx_grouped_owner_lives(pid_t pid, uint64_t start_ticks, void *context);

/* Whether there is a leaf. */
bool sbx_grouped_is_on(const struct sbx_grouped *grouped);

/* Guard, front, servants and the calling process leave the leaf, if the command has moved
 * them there: before it is frozen or killed. */
void sbx_grouped_step_out(const struct sbx_grouped *grouped, struct sbx_record *record);

/* In the guard: a monitor that is late may be frozen with a leaf that it was moved to. */
void sbx_grouped_free_monitor(const struct sbx_grouped *grouped, pid_t monitor);

/* The last figures into the record. */
void sbx_grouped_take_figures(const struct sbx_grouped *grouped,
                              struct sbx_record *record);

/* Ends whoever is left in it, and waits a moment for them to be gone. False: the kernel
 * cannot do that (it has no cgroup.kill). */
bool sbx_grouped_end_rest(const struct sbx_grouped *grouped, struct sbx_record *record);

/* Takes the leaf away, or notes in the record that it is left. `kept`: whoever lives in
 * it is to stay. Once for a run. */
void sbx_grouped_close(struct sbx_grouped *grouped, struct sbx_record *record, bool kept);

/* In a process that has no part in it: closes what it has inherited. A reader that hangs
 * must not look like a guard that lives. */
void sbx_grouped_leave(struct sbx_grouped *grouped);

/* Closes what this process has of it, and takes the leaf away if nobody has. */
void sbx_grouped_done(struct sbx_grouped *grouped, struct sbx_record *record);

struct sbx_watch;

/* --- grouped_watch.c: in the monitor --- */

/* What wakes the loop when the kernel has counted something. 0 or a negative errno. */
int sbx_watch_open_group(struct sbx_watch *watch, struct sbx_error *err);
void sbx_watch_close_group(struct sbx_watch *watch);

/* The figures for the next sample, into the meter. */
void sbx_watch_read_group(struct sbx_watch *watch);

/* Whether a member is outside of the group whose memory the kernel bounds, while they
 * could have more than the limit together. Then the group's figure is not the tree's. */
bool sbx_watch_has_left(struct sbx_watch *watch);

/* Sets `in_group` of each member of the last walk by what the group lists: 0, or a
 * negative errno and some may lack it. Or of nobody. */
int sbx_watch_mark_group(struct sbx_watch *watch);
void sbx_watch_unmark_group(struct sbx_watch *watch);

/* What a sample may show of memory and swap although the kernel holds the limit: more
 * than that, and it does not. SBX_UNKNOWN: no bound. */
uint64_t sbx_watch_backstop_bytes(const struct sbx_watch *watch);

/* Whether a limit was crossed, by the kernel's own counters; if so the run's end begins.
 */
void sbx_watch_judge_group(struct sbx_watch *watch);

/* SIGKILL to all of the group, and the wait for their end. True: nobody is left, in the
 * group or among our descendants. */
bool sbx_watch_kill_group(struct sbx_watch *watch);

/* So many members were sent SIGKILL: into the record, but for those that cgroup.kill has
 * not ended and that were counted with it. */
void sbx_watch_count_killed(struct sbx_watch *watch, uint64_t count);

/* Whether somebody is in the group who is to stay there. */
bool sbx_watch_keeps_group(const struct sbx_watch *watch);

/* The tree is over, for all that wait says: who is still in the group goes too. */
void sbx_watch_complete_group(struct sbx_watch *watch);

#endif
