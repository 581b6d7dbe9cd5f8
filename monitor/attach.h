/*
 * attach.h - a run over what somebody else started, a tree (--pid) or a control group
 * (--cgroup): what takes the place of the launch, of reaping and of the sweep. Every
 * function for struct sbx_watch is for such runs alone.
 *
 * Without --enforce nobody is ever signalled, and nothing is changed. With it, members
 * are ended as in other runs, but by the memory of who they are (reaper/attached.h). The
 * names of all members that are known lie in memory which the guard shares, so that it
 * can end them when the monitor was killed.
 *
 * attach.c: from a pid to a tree that is watched. attach_watch.c: from there to the end.
 * attach_group.c: a group in place of a tree. attach_options.c: what may be asked for
 * together with --pid or --cgroup.
 */
#ifndef SBX_MONITOR_ATTACH_H
#define SBX_MONITOR_ATTACH_H

#include "monitor/record.h"
#include "monitor/spec.h"
#include "reaper/pidref.h"

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SBX_ROLL_MAX 4096

/* The members as of the last sample. Written by the monitor; read by the guard when that
 * is gone. An entry that was cut off by a SIGKILL is nobody's identity. */
struct sbx_attach_roll {
    uint32_t count;
    struct sbx_pidref members[SBX_ROLL_MAX];
};

/* --- attach_options.c --- */

/* An option was set: notes what may not stand beside --pid, or not without --enforce. */
void sbx_attach_note(struct sbx_spec *spec, const struct sbx_option *option);

/* Whether what was asked for goes together. 0 or -EINVAL, stage options or check. */
int sbx_attach_check(const struct sbx_spec *spec, struct sbx_error *err);

struct sbx_watch;

/* --- attach.c --- */

/* In place of sbx_tree_new. */
int sbx_attach_open_tree(struct sbx_watch *watch, size_t fd_budget,
                         struct sbx_error *err);

/* In place of the launch: the process is there, all members are known, and with --enforce
 * may be signalled and have their ceilings; or nothing was changed. 0 or a negative
 * errno. */
int sbx_attach_begin(struct sbx_watch *watch, struct sbx_error *err);

/* Sets ceilings for members that were being born while the others got theirs. */
void sbx_attach_arm_late(struct sbx_watch *watch);

/* Guard, monitor and reader are no members. */
int sbx_attach_exclude_us(struct sbx_watch *watch, struct sbx_error *err);

/* --- attach_group.c: the same for a group (--cgroup), which is only observed --- */

/* In place of sbx_attach_begin. */
int sbx_attach_group_begin(struct sbx_watch *watch, struct sbx_error *err);

/* In each sample: what the kernel's own account of the group says. */
struct sbx_sample;
void sbx_attach_group_figures(struct sbx_watch *watch, struct sbx_sample *sample);

/* After it: is it over? */
void sbx_attach_group_sampled(struct sbx_watch *watch);

void sbx_attach_group_release(struct sbx_watch *watch);

/* --- attach_watch.c --- */

/* After each sample. */
void sbx_attach_sampled(struct sbx_watch *watch);

/* In place of reaping: looks who is left. */
void sbx_attach_look(struct sbx_watch *watch);

/* Ends a run that only observes, and leaves everybody alone. `why`: a warning, or NULL.
 */
void sbx_attach_leave(struct sbx_watch *watch, const char *why);

/* One walk that misses nobody who can be found. */
void sbx_attach_meet_all(struct sbx_watch *watch);

void sbx_attach_sweep(struct sbx_watch *watch);
void sbx_attach_complete(struct sbx_watch *watch);
void sbx_attach_release(struct sbx_watch *watch);

/* For a guard whose monitor is gone. */
void sbx_attach_lost(const struct sbx_spec *spec, struct sbx_record *record,
                     const struct sbx_attach_roll *roll);

#endif
