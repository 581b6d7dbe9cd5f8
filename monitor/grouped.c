/*
 * grouped.c - see grouped.h: from what was asked for to a leaf, and from a leaf to the
 * record. Used by the guard and by the monitor; allocates nothing.
 */
#include "monitor/grouped.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "monitor/armament.h"
#include "reaper/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* How long those who were sent SIGKILL are waited for by who has nothing else to do. */
#define END_BOUND_US UINT64_C(2000000)
#define LOOK_NS 1000000L
#define DESCRIPTORS_MIN 64
/* So much apart may be what wait says of everybody and what the group says. */
#define CPU_SLACK_PART 50U
#define CPU_SLACK_US 20000U

void sbx_grouped_init(struct sbx_grouped *grouped, struct sbx_grouped_area *area)
{
    memset(grouped, 0, sizeof *grouped);
    grouped->area = area;
    sbx_group_init(&grouped->group);
    grouped->statistics.alarm = -1;
    for (size_t i = 0; i < SBX_STATISTICS_FILES; i++) {
        grouped->statistics.fds[i] = -1;
    }
}

bool sbx_grouped_is_on(const struct sbx_grouped *grouped)
{
    return grouped->open && grouped->group.leaf.fd >= 0;
}

/* --- the wish --- */

bool sbx_grouped_owner_lives(pid_t pid, uint64_t start_ticks, void *context)
{
    const int *proc_fd = context;
    struct sbx_proc_stat stat;
    int r = sbx_proc_stat_at(*proc_fd, pid, &stat);
    if (r < 0) {
        return r != -ESRCH && r != -ENOENT; /* what cannot be told is no death */
    }
    return stat.start_ticks == start_ticks && stat.state != 'Z' && stat.state != 'X';
}

static uint64_t asked(uint64_t number)
{
    return number != 0 ? number : SBX_UNKNOWN;
}

static struct sbx_leaf_limits limits_of(const struct sbx_spec *spec)
{
    const struct sbx_limits *limits = &spec->limits;
    uint64_t of_ours = limits->threads_count != 0 ? sbx_grouped_tasks_of_ours(spec) : 0;
    struct sbx_leaf_limits wanted = {
        .memory_bytes = asked(limits->memory_bytes),
        .swap_bytes = SBX_UNKNOWN,
        /* With a grace of their own the others are to be told, not killed. */
        .group_kill = limits->memory_bytes != 0 && !spec->grace_asked,
        .threads_count = asked(limits->threads_count + of_ours),
        .cpu_percent = asked(limits->cpu_quota_percent),
    };
    if (limits->memory_bytes != 0) {
        wanted.swap_bytes = limits->swap_bytes; /* 0 unless it was asked for */
    }
    return wanted;
}

uint64_t sbx_grouped_tasks_of_ours(const struct sbx_spec *spec)
{
    return spec->pid_namespace ? 2 : 0;
}

/* A tree that is attached to is where it is. */
static bool wants_group(const struct sbx_spec *spec)
{
    return !sbx_spec_attaches(spec) && spec->backend != SBX_BACKEND_PROC;
}

static void note_armed(const struct sbx_leaf_limits *armed, struct sbx_record *record)
{
    record->armed = (struct sbx_armed){.memory_bytes = armed->memory_bytes,
                                       .swap_bytes = armed->swap_bytes,
                                       .threads_count = armed->threads_count,
                                       .cpu_quota_percent = armed->cpu_percent};
}

static void note_others(struct sbx_grouped *grouped, int proc_fd, pid_t first_pid)
{
    const pid_t pids[SBX_GROUPED_OTHERS] = {getpid(), first_pid};
    for (size_t i = 0; i < SBX_GROUPED_OTHERS; i++) {
        struct sbx_proc_stat stat;
        if (sbx_proc_stat_at(proc_fd, pids[i], &stat) == 0) {
            grouped->others[i] = pids[i];
            grouped->others_start_ticks[i] = stat.start_ticks;
        }
    }
}

/* A run needs about as many for itself as a leaf does, and can do without a leaf. */
static bool is_short_of_descriptors(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < DESCRIPTORS_MIN;
}

static int open_group(struct sbx_grouped *grouped, const struct sbx_spec *spec,
                      pid_t first_pid, struct sbx_error *err)
{
    SBX_AUTO_CLOSE int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct sbx_proc_stat self;
    int r = proc_fd < 0 ? -errno : sbx_proc_stat_at(proc_fd, getpid(), &self);
    if (r < 0) {
        /* The run itself will say what it thinks of that. */
        (void)snprintf(grouped->group.why_none, sizeof grouped->group.why_none,
                       "/proc cannot be read: %s", sbx_errno_text(-r).text);
        return 0;
    }
    if (spec->cgroup_root == NULL && is_short_of_descriptors()) {
        (void)snprintf(grouped->group.why_none, sizeof grouped->group.why_none,
                       "too few descriptors (RLIMIT_NOFILE): it takes %d",
                       DESCRIPTORS_MIN);
        return 0;
    }
    struct sbx_group_wish wish = {
        .root = spec->cgroup_root,
        .root_directory_fd = spec->cgroup_root_directory_fd >= 0
                                 ? spec->cgroup_root_directory_fd
                                 : AT_FDCWD,
        .limits = limits_of(spec),
        .measured = SBX_CONTROLLER_BIT(SBX_CONTROLLER_MEMORY) |
                    SBX_CONTROLLER_BIT(SBX_CONTROLLER_PIDS),
        .owner = {.pid = getpid(),
                  .start_ticks = self.start_ticks,
                  .lives = sbx_grouped_owner_lives,
                  .context = &proc_fd},
        .ours = {getpid(), first_pid},
        .ours_count = first_pid != getpid() ? 2 : 1,
    };
    note_others(grouped, proc_fd, first_pid);
    return sbx_group_open(proc_fd, &wish, &grouped->group, err);
}

static int demand(const struct sbx_grouped *grouped, const struct sbx_spec *spec,
                  struct sbx_error *err)
{
    const struct sbx_group *group = &grouped->group;
    const struct sbx_armament armament = {
        .has_leaf = group->leaf.fd >= 0,
        .armed = group->armed,
        .why_none = group->why_none,
        .why = {group->place.why[0], group->place.why[1], group->place.why[2]}};
    return sbx_armament_check(spec, &armament, err);
}

int sbx_grouped_open(struct sbx_grouped *grouped, const struct sbx_spec *spec,
                     struct sbx_record *record, pid_t first_pid, struct sbx_error *err)
{
    if (!wants_group(spec)) {
        return 0;
    }
    int r = open_group(grouped, spec, first_pid, err);
    if (r < 0) {
        return r;
    }
    grouped->open = true;
    grouped->tasks_of_ours = sbx_grouped_tasks_of_ours(spec);
    r = demand(grouped, spec, err);
    if (r == 0 && sbx_grouped_is_on(grouped)) {
        r = sbx_statistics_open(grouped->group.leaf.fd, &grouped->statistics, err);
    }
    if (r < 0) {
        sbx_grouped_close(grouped, record, false);
        return r;
    }
    if (sbx_grouped_is_on(grouped)) {
        note_armed(&grouped->group.armed, record);
        sbx_statistics_read(&grouped->statistics, SBX_FILES_ALL, &grouped->before);
    }
    return 0;
}

/* --- the end --- */

static void raise_to(uint64_t *peak, uint64_t value)
{
    if (value != SBX_UNKNOWN && (*peak == SBX_UNKNOWN || value > *peak)) {
        *peak = value;
    }
}

void sbx_grouped_take_figures(const struct sbx_grouped *grouped,
                              struct sbx_record *record)
{
    struct sbx_usage *usage = &record->usage;
    struct sbx_figures figures;
    sbx_statistics_read(&grouped->statistics, SBX_FILES_ALL, &figures);
    /* More than that was seen of a tree that has left the group. */
    if (figures.memory_peak_bytes != SBX_UNKNOWN &&
        (usage->memory_peak_bytes == SBX_UNKNOWN ||
         figures.memory_peak_bytes >= usage->memory_peak_bytes)) {
        usage->memory_peak_bytes = figures.memory_peak_bytes;
        usage->memory_method = SBX_MEMORY_CGROUP;
    }
    raise_to(&usage->swap_peak_bytes, figures.swap_peak_bytes);
    if (figures.tasks_peak != SBX_UNKNOWN &&
        figures.tasks_peak > grouped->tasks_of_ours) {
        raise_to(&usage->threads_peak, figures.tasks_peak - grouped->tasks_of_ours);
    }
    /* Taken away already by who died before it could say so: then nothing is told. */
    raise_to(&usage->oom_kills, figures.oom_kill);
    raise_to(&usage->memory_pressure_us, figures.memory_pressure_us);
    /* Who has left the group is in our own count alone. */
    if (figures.cpu_us != SBX_UNKNOWN &&
        (usage->cpu_us == SBX_UNKNOWN ||
         figures.cpu_us + figures.cpu_us / CPU_SLACK_PART + CPU_SLACK_US >=
             usage->cpu_us)) {
        usage->cpu_us = figures.cpu_us;
        usage->cpu_user_us = figures.cpu_user_us;
        usage->cpu_system_us = figures.cpu_system_us;
        usage->cpu_method = SBX_METHOD_CGROUP;
        usage->cpu_complete = true;
    }
}

/* The servants are its children, and never is one of the run: with the monitor alive
 * those who lose their parent fall to that. */
static bool recall_children(const struct sbx_grouped *grouped, int proc_fd, pid_t guard)
{
    char file[64];
    char list[4096];
    char *rest = NULL;
    bool met = false;
    (void)snprintf(file, sizeof file, "%d/task/%d/children", (int)guard, (int)guard);
    if (sbx_fd_read_text_at(proc_fd, file, list, sizeof list) < 0) {
        return false;
    }
    for (char *word = strtok_r(list, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        pid_t pid = (pid_t)strtol(word, NULL, 10);
        met |= sbx_group_recall(&grouped->group, proc_fd, pid) > 0;
    }
    return met;
}

void sbx_grouped_step_out(const struct sbx_grouped *grouped, struct sbx_record *record)
{
    SBX_AUTO_CLOSE int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool met = false;
    if (!sbx_grouped_is_on(grouped) || proc_fd < 0) {
        return;
    }
    for (size_t i = 0; i < SBX_GROUPED_OTHERS; i++) {
        pid_t pid = grouped->others[i];
        if (pid == 0 ||
            !sbx_grouped_owner_lives(pid, grouped->others_start_ticks[i], &proc_fd)) {
            continue; /* the number may be a member's by now */
        }
        met |= sbx_group_recall(&grouped->group, proc_fd, pid) > 0;
        if (i == 0 && pid != getpid()) {
            met |= recall_children(grouped, proc_fd, pid);
        }
    }
    met |= sbx_group_recall(&grouped->group, proc_fd, getpid()) > 0;
    if (met) {
        sbx_record_warn(record, "the command moved a process of ours into its cgroup");
    }
}

void sbx_grouped_free_monitor(const struct sbx_grouped *grouped, pid_t monitor)
{
    SBX_AUTO_CLOSE int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (sbx_grouped_is_on(grouped) && proc_fd >= 0) {
        (void)sbx_group_recall(&grouped->group, proc_fd, monitor);
    }
}

bool sbx_grouped_end_rest(const struct sbx_grouped *grouped, struct sbx_record *record)
{
    sbx_grouped_step_out(grouped, record);
    const struct timespec moment = {.tv_nsec = LOOK_NS};
    int leaf = grouped->group.leaf.fd;
    uint64_t until = sbx_clock_us() + END_BOUND_US;
    bool killed = sbx_leaf_kill(leaf) == 0;
    while (sbx_leaf_populated(leaf) == 1 && sbx_clock_us() < until) {
        (void)nanosleep(&moment, NULL);
    }
    return killed;
}

void sbx_grouped_close(struct sbx_grouped *grouped, struct sbx_record *record, bool kept)
{
    if (!grouped->open) {
        return;
    }
    grouped->open = false;
    bool on = grouped->group.leaf.fd >= 0;
    sbx_ancestors_close(&grouped->ancestors);
    sbx_statistics_close(&grouped->statistics);
    int r = sbx_group_close(&grouped->group, kept);
    if (on && (r < 0 || kept)) {
        (void)snprintf(record->group_left, sizeof record->group_left, "%.*s",
                       (int)sizeof record->group_left - 1, grouped->group.path);
    }
    atomic_store(&grouped->area->closed, 1);
}

void sbx_grouped_leave(struct sbx_grouped *grouped)
{
    if (!grouped->open) {
        return;
    }
    grouped->open = false;
    sbx_ancestors_close(&grouped->ancestors);
    sbx_statistics_close(&grouped->statistics);
    sbx_group_drop(&grouped->group);
}

void sbx_grouped_done(struct sbx_grouped *grouped, struct sbx_record *record)
{
    if (!grouped->open) {
        return;
    }
    if (atomic_load(&grouped->area->closed) == 0) {
        sbx_grouped_close(grouped, record, false);
        return;
    }
    sbx_grouped_leave(grouped);
}
