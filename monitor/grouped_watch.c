/*
 * grouped_watch.c - see grouped.h: the monitor's part of a run that has a leaf. Figures
 * for the meter, verdicts from the kernel's own counters, and the end: cgroup.kill, and
 * the proof that nobody is left.
 *
 * A group holds whoever is born in it, a walk of descendants finds whoever descends: a
 * member that has moved out is still found by the one, somebody who has come in by the
 * other. The run is over when neither has anybody.
 */
#include "monitor/grouped.h"

#include "base/clock.h"
#include "base/error.h"
#include "monitor/verdict.h"
#include "monitor/watch_private.h"
#include "reaper/sweep.h"
#include "reaper/wrapper.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* A frozen group is a snapshot: nobody is born or ends while its members are written
 * down. Who does not freeze by then (state D) is killed all the same. */
#define FREEZE_BOUND_US 50000U
#define SNAPSHOT_BOUND_US 500000U
/* Who was sent SIGKILL only needs a processor to die on. When all who are left are in
 * state D, as whoever is in a frozen group of cgroup v1, that may never come: the sweep
 * knows better how long they are worth, and names them. */
#define DEATH_BOUND_US UINT64_C(5000000)
#define DEATH_LOOK_US 2000U
/* A dying process leaves its group a moment before it can be waited for. */
#define ZOMBIE_BOUND_US 50000U
#define STUCK_BOUND_US 500000U
#define STUCK_LOOK_US 50000U
#define REMNANT_BOUND_US 20000U

#define SAMPLE_FILES                                                                     \
    (SBX_FILE_BIT(SBX_FILE_CPU) | SBX_FILE_BIT(SBX_FILE_MEMORY_CURRENT) |                \
     SBX_FILE_BIT(SBX_FILE_MEMORY_PEAK) | SBX_FILE_BIT(SBX_FILE_MEMORY_STAT) |           \
     SBX_FILE_BIT(SBX_FILE_SWAP_CURRENT))
#define OOM_FILES                                                                        \
    (SBX_FILE_BIT(SBX_FILE_MEMORY_EVENTS) | SBX_FILE_BIT(SBX_FILE_MEMORY_EVENTS_LOCAL))
#define THREADS_FILES                                                                    \
    (SBX_FILE_BIT(SBX_FILE_PIDS_EVENTS) | SBX_FILE_BIT(SBX_FILE_PIDS_EVENTS_LOCAL) |     \
     SBX_FILE_BIT(SBX_FILE_PIDS_PEAK))

static bool is_on(const struct sbx_watch *watch)
{
    return sbx_grouped_is_on(watch->grouped);
}

static void on_alarm(void *context)
{
    struct sbx_watch *watch = context;
    sbx_statistics_quiet(&watch->grouped->statistics);
    sbx_watch_judge_group(watch);
}

/* The file system path without the group's own part. */
static void open_ancestors(struct sbx_grouped *grouped)
{
    const struct sbx_group *group = &grouped->group;
    char mount[SBX_GROUP_PATH_SIZE];
    char below[SBX_GROUP_PATH_SIZE + SBX_LEAF_NAME_SIZE];
    const char *parent = strcmp(group->place.path, "/") == 0 ? "" : group->place.path;
    (void)snprintf(below, sizeof below, "%s/%s", parent, group->leaf.name);
    size_t whole = strlen(group->path);
    size_t part = strlen(below);
    if (whole > part && strcmp(group->path + (whole - part), below) == 0) {
        (void)snprintf(mount, sizeof mount, "%.*s", (int)(whole - part), group->path);
        sbx_ancestors_open(mount, below, &grouped->ancestors);
    }
}

int sbx_watch_open_group(struct sbx_watch *watch, struct sbx_error *err)
{
    struct sbx_grouped *grouped = watch->grouped;
    if (!is_on(watch)) {
        return 0;
    }
    watch->record->tracking = SBX_TRACKING_CGROUP;
    open_ancestors(grouped);
    if (grouped->statistics.alarm >= 0 &&
        sbx_loop_add_fd(watch->loop, grouped->statistics.alarm, on_alarm, watch,
                        &watch->on_group) < 0) {
        return sbx_error_set(err, ENOMEM, SBX_STAGE_LAUNCH,
                             "the event loop cannot watch the group: no memory");
    }
    return 0;
}

void sbx_watch_close_group(struct sbx_watch *watch)
{
    sbx_source_free(watch->on_group);
    watch->on_group = NULL;
}

void sbx_watch_read_group(struct sbx_watch *watch)
{
    watch->meter.grouped = is_on(watch);
    if (watch->meter.grouped) {
        sbx_statistics_read(&watch->grouped->statistics, SAMPLE_FILES,
                            &watch->meter.figures);
        watch->meter.left = sbx_watch_has_left(watch);
    }
}

/* --- verdicts --- */

static void name_killer(struct sbx_watch *watch)
{
    const struct sbx_group *group = &watch->grouped->group;
    int depth = sbx_ancestors_blame(&watch->grouped->ancestors);
    if (depth < 0) {
        sbx_record_warn(watch->record, "killed by the OOM killer of the host, or of a "
                                       "group outside of what is visible here");
        return;
    }
    const char *end = group->place.path;
    for (int i = 0; i < depth && end != NULL; i++) {
        end = strchr(end + 1, '/');
    }
    size_t length =
        end != NULL ? (size_t)(end - group->place.path) : strlen(group->place.path);
    sbx_record_warn(watch->record, "killed by the OOM killer of the group %.*s",
                    length > 0 ? (int)length : 1, length > 0 ? group->place.path : "/");
}

static struct sbx_breach breach_of(const struct sbx_watch *watch,
                                   const struct sbx_verdict *verdict)
{
    struct sbx_breach breach = {.reason = verdict->reason,
                                .ceiling = -1,
                                .limit = verdict->limit,
                                .observed = verdict->observed,
                                .at_us = sbx_watch_elapsed_us(watch)};
    if (verdict->reason == SBX_REASON_MEMORY) {
        breach.culprit = watch->last.memory_culprit;
    } else if (verdict->reason == SBX_REASON_THREADS) {
        breach.culprit = watch->last.threads_culprit;
        breach.limit -= watch->grouped->tasks_of_ours;
        breach.observed -= watch->grouped->tasks_of_ours;
    }
    return breach;
}

/* Only what a verdict can come of: it is read with each sample. */
static uint32_t files_of(const struct sbx_leaf_limits *armed)
{
    return OOM_FILES |
           (armed->memory_bytes != SBX_UNKNOWN ? SBX_FILE_BIT(SBX_FILE_MEMORY_PEAK) : 0) |
           (armed->threads_count != SBX_UNKNOWN ? THREADS_FILES : 0);
}

void sbx_watch_judge_group(struct sbx_watch *watch)
{
    struct sbx_grouped *grouped = watch->grouped;
    if (!is_on(watch) || !sbx_terminate_judges(&watch->terminate)) {
        return;
    }
    struct sbx_evidence evidence = {
        .before = grouped->before,
        .armed = grouped->group.armed,
        .anon_peak_bytes = watch->record->usage.memory_anon_peak_bytes,
    };
    sbx_statistics_read(&grouped->statistics, files_of(&evidence.armed), &evidence.now);
    if (sbx_verdict_needs_below(&evidence)) {
        evidence.refused_below = sbx_statistics_refused_below(grouped->group.leaf.fd);
    }
    struct sbx_verdict verdict;
    if (!sbx_verdict(&evidence, &verdict)) {
        return;
    }
    if (verdict.reason == SBX_REASON_OOM) {
        name_killer(watch);
    }
    watch->kernel_killed = verdict.reason != SBX_REASON_THREADS;
    struct sbx_breach breach = breach_of(watch, &verdict);
    sbx_watch_breach(watch, &breach);
}

/* --- the end --- */

struct snapshot {
    struct sbx_watch *watch;
    uint64_t alive;
};

static int note_member(pid_t pid, void *context)
{
    struct snapshot *snapshot = context;
    struct sbx_watch *watch = snapshot->watch;
    const struct sbx_member *member = sbx_tree_find(watch->tree, pid);
    struct sbx_proc_stat stat;
    snapshot->alive += member == NULL || !member->wrapper ? 1U : 0U;
    if (member == NULL && watch->leader_ended && !watch->kernel_killed &&
        sbx_proc_stat_at(watch->proc_fd, pid, &stat) == 0) {
        sbx_record_stray(watch->record, pid, stat.name); /* has come in from outside */
    }
    return 0;
}

/* Launchers first, who are nobody's strays. */
static void note_strays(struct sbx_watch *watch)
{
    (void)sbx_tree_walk(watch->tree, NULL, NULL);
    sbx_wrapper_mark(watch->tree, watch->proc_fd);
    for (size_t i = 0; i < sbx_tree_count(watch->tree) && !watch->kernel_killed; i++) {
        const struct sbx_member *member = sbx_tree_member(watch->tree, i);
        if (!sbx_member_ended(member)) {
            sbx_watch_note_stray(watch, member);
        }
    }
}

/* Who is there, by name and number, before they are gone. */
static uint64_t write_down(struct sbx_watch *watch)
{
    struct snapshot snapshot = {.watch = watch};
    int leaf = watch->grouped->group.leaf.fd;
    (void)sbx_leaf_freeze(leaf, true, FREEZE_BOUND_US);
    uint64_t until = sbx_clock_us() + SNAPSHOT_BOUND_US;
    sbx_tree_set_deadline(watch->tree, until);
    note_strays(watch);
    (void)sbx_leaf_each_process(leaf, until, note_member, &snapshot);
    return snapshot.alive;
}

static void await_child(uint64_t us)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    const struct timespec bound = {.tv_nsec = (long)us * 1000L};
    (void)sigtimedwait(&set, NULL, &bound);
}

/* Those who are in the group after cgroup.kill. */
struct remnant {
    const struct sbx_watch *watch;
    uint64_t count;
    bool stuck; /* all in state D */
};

static int look_at_one(pid_t pid, void *context)
{
    struct remnant *remnant = context;
    struct sbx_proc_stat stat;
    if (sbx_proc_stat_at(remnant->watch->proc_fd, pid, &stat) == 0) {
        remnant->count++;
        remnant->stuck = remnant->stuck && stat.state == 'D';
    }
    return 0;
}

static struct remnant look_at_remnant(const struct sbx_watch *watch)
{
    struct remnant remnant = {.watch = watch, .stuck = true};
    (void)sbx_leaf_each_process(watch->grouped->group.leaf.fd,
                                sbx_clock_us() + REMNANT_BOUND_US, look_at_one, &remnant);
    return remnant;
}

/* True when nobody is left, of the group and of our children. */
static bool await_deaths(struct sbx_watch *watch)
{
    int leaf = watch->grouped->group.leaf.fd;
    uint64_t now = sbx_clock_us();
    uint64_t until = now + DEATH_BOUND_US;
    uint64_t moved = now; /* when somebody was last seen who may still die by itself */
    uint64_t look = now + STUCK_LOOK_US;
    bool empty = false;
    do {
        bool before = empty;
        empty = sbx_leaf_populated(leaf) == 0;
        if (sbx_watch_reap_all(watch) && empty) {
            watch->grouped->outliving = 0;
            return true;
        }
        if (empty && !before) {
            until = sbx_clock_us() + ZOMBIE_BOUND_US; /* who is left then has moved out */
        }
        await_child(DEATH_LOOK_US);
        now = sbx_clock_us();
        if (!empty && now >= look) {
            struct remnant remnant = look_at_remnant(watch);
            moved = remnant.count > 0 && remnant.stuck ? moved : now;
            look = now + STUCK_LOOK_US;
        }
    } while (now < until && (empty || now - moved < STUCK_BOUND_US));
    watch->grouped->outliving = look_at_remnant(watch).count;
    return false;
}

bool sbx_watch_kill_group(struct sbx_watch *watch)
{
    int leaf = watch->grouped->group.leaf.fd;
    if (!is_on(watch)) {
        return false;
    }
    bool childless = sbx_watch_reap_all(watch);
    if (sbx_leaf_populated(leaf) != 0) {
        sbx_grouped_step_out(watch->grouped, watch->record); /* or we freeze as well */
    }
    if (childless && sbx_leaf_populated(leaf) == 0) {
        return true;
    }
    uint64_t alive = write_down(watch);
    if (sbx_leaf_kill(leaf) < 0) {
        return false; /* the sweep finds them frozen, which is half its work */
    }
    watch->record->kill = SBX_KILL_CGROUP;
    sbx_watch_count_killed(watch, alive);
    watch->record->termination.escalated = true;
    return await_deaths(watch);
}

void sbx_watch_count_killed(struct sbx_watch *watch, uint64_t count)
{
    uint64_t again = watch->grouped->outliving;
    watch->record->termination.killed_count += count > again ? count - again : 0;
}

static int name_survivor(pid_t pid, void *context)
{
    struct sbx_watch *watch = context;
    struct sbx_proc_stat stat;
    if (sbx_proc_stat_at(watch->proc_fd, pid, &stat) == 0 && stat.state != 'Z') {
        const char *why = stat.state == 'D' ? SBX_SWEEP_WHY_STUCK : "still in the group";
        sbx_record_survivor(watch->record, pid, stat.name, why);
    }
    return 0;
}

/* Strays that are to be kept: nobody was to be ended, whether they descend from us or
 * have come in. */
static bool are_kept(const struct sbx_watch *watch)
{
    const struct sbx_record *record = watch->record;
    const struct sbx_termination *termination = &record->termination;
    return watch->spec->strays == SBX_STRAYS_KEEP && termination->survivors_count == 0 &&
           (termination->proof == SBX_PROOF_NONE ||
            (record->kill == SBX_KILL_NONE && record->cancel_signal == 0 &&
             record->breach.reason == SBX_REASON_NONE));
}

bool sbx_watch_keeps_group(const struct sbx_watch *watch)
{
    return are_kept(watch) && sbx_leaf_populated(watch->grouped->group.leaf.fd) != 0;
}

void sbx_watch_complete_group(struct sbx_watch *watch)
{
    struct sbx_termination *termination = &watch->record->termination;
    int leaf = watch->grouped->group.leaf.fd;
    if (!is_on(watch)) {
        return;
    }
    bool keep = are_kept(watch);
    bool empty = sbx_leaf_populated(leaf) == 0;
    if (!empty && !keep) {
        (void)sbx_watch_kill_group(watch);
        empty = sbx_leaf_populated(leaf) == 0;
    }
    if (!empty && keep && termination->proof != SBX_PROOF_NONE) {
        struct snapshot snapshot = {.watch = watch};
        sbx_grouped_step_out(watch->grouped, watch->record);
        (void)sbx_leaf_each_process(leaf, sbx_clock_us() + SNAPSHOT_BOUND_US, note_member,
                                    &snapshot);
        empty = sbx_leaf_populated(leaf) == 0;
    }
    if (!empty && !keep) {
        (void)sbx_leaf_each_process(leaf, sbx_clock_us() + SNAPSHOT_BOUND_US,
                                    name_survivor, watch);
    }
    if (empty && termination->proof == SBX_PROOF_NO_CHILDREN) {
        termination->proof = SBX_PROOF_GROUP_EMPTY;
    } else if (!empty) {
        termination->proof = SBX_PROOF_NONE;
    }
}
