/*
 * attach_group.c - see attach.h: a control group that somebody else made, observed until
 * nobody is in it.
 *
 * The kernel keeps the account: CPU time, and with controllers memory and tasks, of the
 * group and all below it. What it has no account of (the number of processes, their own
 * peaks; memory without its controller) is measured on the members as with --pid; those
 * are whom cgroup.procs names, and nobody else. Nothing is written, nobody is signalled.
 */
#include "monitor/attach.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "cgroup/hierarchy.h"
#include "monitor/watch_private.h"
#include "reaper/attached.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#define DEPTH_MAX 32
/* Whoever makes groups faster than we look at them is not waited for. */
#define WALK_BOUND_US 500000U
#define CHUNK 2048
#define SHOWN_SIZE 256

/* --- who is in it --- */

struct naming {
    sbx_proc_visit *visit;
    void *context;
    struct sbx_watch_group *group;
    pid_t self;
    uint64_t until_us;
};

static int name_one(struct naming *naming, uint64_t pid)
{
    if (pid == 0 || pid > INT_MAX) {
        naming->group->holds_hidden = true; /* it has no pid in our PID namespace */
        return 0;
    }
    if ((pid_t)pid == naming->self) {
        naming->group->holds_us = true;
    }
    return naming->visit((pid_t)pid, naming->context);
}

/* One pid a line; a number may be cut between two reads. */
static int name_in(struct naming *naming, int fd)
{
    char text[CHUNK];
    uint64_t pid = 0;
    bool digits = false;
    for (;;) {
        ssize_t length = read(fd, text, sizeof text);
        if (length < 0 && errno == EINTR) {
            continue;
        }
        if (length <= 0) {
            return 0; /* the end; or the group is gone, or a threaded one: see below */
        }
        for (ssize_t i = 0; i < length; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                pid = pid * 10 + (uint64_t)(text[i] - '0');
                digits = true;
                continue;
            }
            int r = digits ? name_one(naming, pid) : 0;
            pid = 0;
            digits = false;
            if (r != 0) {
                return r;
            }
        }
    }
}

/* A group that is gone meanwhile has nobody; the processes of a threaded one are named in
 * the group above that holds its domain. */
static int name_below(struct naming *naming, int group_fd, int depth)
{
    /* Aligned for the entries that getdents64 puts there. */
    _Alignas(struct dirent64) char entries[CHUNK];
    SBX_AUTO_CLOSE int procs = openat(group_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    int r = procs < 0 ? 0 : name_in(naming, procs);
    if (r == 0 && sbx_clock_us() >= naming->until_us) {
        r = -ETIMEDOUT;
    }
    if (r != 0 || depth == DEPTH_MAX) {
        return r;
    }
    SBX_AUTO_CLOSE int fd = openat(group_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ssize_t length = 0;
    while (fd >= 0 && (length = getdents64(fd, entries, sizeof entries)) > 0) {
        for (ssize_t at = 0; at < length && r == 0;) {
            const struct dirent64 *entry = (const void *)(entries + at);
            at += entry->d_reclen;
            if (entry->d_type != DT_DIR || entry->d_name[0] == '.') {
                continue;
            }
            SBX_AUTO_CLOSE int child =
                openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            r = child < 0 ? 0 : name_below(naming, child, depth + 1);
        }
        if (r != 0) {
            return r;
        }
    }
    return 0;
}

static int name_members(sbx_proc_visit *visit, void *visit_context, void *context)
{
    struct sbx_watch *watch = context;
    struct naming naming = {.visit = visit,
                            .context = visit_context,
                            .group = &watch->attach.group,
                            .self = getpid(),
                            .until_us = sbx_clock_us() + WALK_BOUND_US};
    return name_below(&naming, watch->attach.group.fd, 0);
}

/* --- what the kernel says of it --- */

static uint64_t since(uint64_t now, uint64_t before)
{
    return before == SBX_UNKNOWN ? now : now > before ? now - before : 0;
}

static void set_since(uint64_t *value, uint64_t now, uint64_t before)
{
    if (now != SBX_UNKNOWN) {
        *value = since(now, before);
    }
}

static void raise_to(uint64_t *peak, uint64_t value)
{
    if (value != SBX_UNKNOWN && (*peak == SBX_UNKNOWN || value > *peak)) {
        *peak = value;
    }
}

static void take_cpu(struct sbx_watch *watch, const struct sbx_figures *now)
{
    const struct sbx_figures *before = &watch->attach.group.before;
    struct sbx_usage *usage = &watch->record->usage;
    set_since(&usage->cpu_us, now->cpu_us, before->cpu_us);
    set_since(&usage->cpu_user_us, now->cpu_user_us, before->cpu_user_us);
    set_since(&usage->cpu_system_us, now->cpu_system_us, before->cpu_system_us);
    if (now->cpu_us != SBX_UNKNOWN || usage->cpu_method == SBX_METHOD_NONE) {
        usage->cpu_method = SBX_METHOD_CGROUP;
    }
}

static bool has_memory(const struct sbx_figures *figures)
{
    return figures->memory_bytes != SBX_UNKNOWN;
}

/* memory.peak (from kernel 5.19 on) is of the group's whole life: when a peak was that
 * stood before we came is not known. */
static void take_memory(struct sbx_watch *watch, const struct sbx_figures *now,
                        struct sbx_sample *sample)
{
    struct sbx_usage *usage = &watch->record->usage;
    const struct sbx_figures *before = &watch->attach.group.before;
    if (!has_memory(now)) {
        return;
    }
    bool lifetime = now->memory_peak_bytes != SBX_UNKNOWN;
    uint64_t peak = lifetime ? now->memory_peak_bytes : now->memory_bytes;
    if (usage->memory_peak_bytes == SBX_UNKNOWN || peak > usage->memory_peak_bytes) {
        bool older = lifetime && peak == before->memory_peak_bytes;
        usage->memory_peak_bytes = peak;
        usage->memory_peak_at_us = older ? SBX_UNKNOWN : sample->elapsed_us;
    }
    usage->memory_method = SBX_MEMORY_CGROUP;
    uint64_t swap = now->swap_bytes != SBX_UNKNOWN ? now->swap_bytes : 0;
    if (now->anon_bytes != SBX_UNKNOWN && now->shmem_bytes != SBX_UNKNOWN) {
        sample->memory_bytes = now->anon_bytes + now->shmem_bytes + swap;
        raise_to(&usage->memory_anon_peak_bytes, now->anon_bytes + now->shmem_bytes);
    }
    raise_to(&usage->swap_peak_bytes, now->swap_bytes);
    raise_to(&usage->swap_peak_bytes, now->swap_peak_bytes);
    set_since(&usage->oom_kills, now->oom_kill, before->oom_kill);
    set_since(&usage->memory_pressure_us, now->memory_pressure_us,
              before->memory_pressure_us);
}

/* A group can be taken away as soon as nobody is in it, and then tells nothing more. */
static bool is_gone(const struct sbx_watch_group *group)
{
    char byte;
    return pread(group->statistics.fds[SBX_FILE_EVENTS], &byte, 1, 0) < 0 &&
           errno == ENODEV;
}

void sbx_attach_group_figures(struct sbx_watch *watch, struct sbx_sample *sample)
{
    struct sbx_watch_group *group = &watch->attach.group;
    struct sbx_usage *usage = &watch->record->usage;
    struct sbx_figures now;
    /* Whether somebody is in it comes first: then the figures are the last ones. */
    sbx_statistics_read(&group->statistics, SBX_FILE_BIT(SBX_FILE_EVENTS), &now);
    bool empty = !now.populated;
    sbx_statistics_read(&group->statistics, SBX_FILES_ALL, &now);
    group->unread = now.cpu_us == SBX_UNKNOWN;
    group->empty = empty || (group->unread && is_gone(group));
    take_cpu(watch, &now);
    take_memory(watch, &now, sample);
    raise_to(&usage->threads_peak, now.tasks);
    raise_to(&usage->threads_peak, now.tasks_peak);
    sample->cpu_us = usage->cpu_us;
}

/* --- from its beginning to its end --- */

static void on_alarm(void *context)
{
    struct sbx_watch *watch = context;
    const struct sbx_watch_group *group = &watch->attach.group;
    struct sbx_figures now;
    sbx_statistics_quiet(&group->statistics);
    sbx_statistics_read(&group->statistics, SBX_FILE_BIT(SBX_FILE_EVENTS), &now);
    if (!now.populated || is_gone(group)) {
        sbx_watch_on_sample(watch); /* else it can wait for its turn */
    }
}

static void note_unseen(struct sbx_watch *watch)
{
    struct sbx_watch_group *group = &watch->attach.group;
    if (group->told || !(group->holds_us || group->holds_hidden)) {
        return;
    }
    group->told = true;
    if (group->holds_us) {
        sbx_record_warn(watch->record, "sbx-watch is in the group itself: its own use "
                                       "counts, and only a signal ends it");
    }
    if (group->holds_hidden) {
        sbx_record_warn(watch->record, "processes of the group are outside of our PID "
                                       "namespace: they are not counted");
    }
}

void sbx_attach_group_sampled(struct sbx_watch *watch)
{
    note_unseen(watch);
    if (watch->attach.group.empty) {
        watch->record->termination.proof = SBX_PROOF_GROUP_EMPTY;
        sbx_watch_empty(watch);
    }
}

static int open_group(struct sbx_watch *watch, const char *shown, struct sbx_error *err)
{
    struct sbx_watch_group *group = &watch->attach.group;
    const struct sbx_attach_asked *asked = &watch->spec->attach;
    struct sbx_hierarchy hierarchy;
    struct sbx_named_group named = {.fd = -1};
    int r = sbx_hierarchy_find(watch->proc_fd, &hierarchy, err);
    if (r == 0) {
        int directory = asked->cgroup_directory_fd;
        r = sbx_hierarchy_open(&hierarchy, directory >= 0 ? directory : AT_FDCWD,
                               asked->cgroup, &named, err);
    }
    if (r < 0) {
        return r;
    }
    group->fd = named.fd;
    r = sbx_statistics_open(group->fd, &group->statistics, err);
    if (r == -ENOENT) {
        r = sbx_error_set(err, ENOENT, SBX_STAGE_CHECK,
                          "%s has no cgroup.events: it is the root of the hierarchy, "
                          "which never ends",
                          shown);
    }
    if (r < 0) {
        sbx_fd_drop(&group->fd);
        return r;
    }
    group->on = true;
    sbx_statistics_read(&group->statistics, SBX_FILES_ALL, &group->before);
    return group->before.populated
               ? 0
               : sbx_error_set(err, ESRCH, SBX_STAGE_CHECK, "nobody is in %s", shown);
}

static int listen_to_it(struct sbx_watch *watch, struct sbx_error *err)
{
    struct sbx_watch_group *group = &watch->attach.group;
    if (group->statistics.alarm < 0) {
        return 0; /* each sample looks */
    }
    return sbx_loop_add_fd(watch->loop, group->statistics.alarm, on_alarm, watch,
                           &group->on_alarm) < 0
               ? sbx_error_set(err, ENOMEM, SBX_STAGE_CHECK,
                               "the event loop cannot watch: no memory")
               : 0;
}

int sbx_attach_group_begin(struct sbx_watch *watch, struct sbx_error *err)
{
    char shown[SHOWN_SIZE];
    const char *path = watch->spec->attach.cgroup;
    (void)sbx_text_escape(shown, sizeof shown, path, strlen(path));
    int r = open_group(watch, shown, err);
    if (r == 0) {
        r = sbx_attach_exclude_us(watch, err);
    }
    if (r == 0) {
        sbx_tree_follow(watch->tree, name_members, watch);
        r = sbx_meter_attach(&watch->meter, watch->tree, err);
    }
    if (r == 0) {
        r = listen_to_it(watch, err);
    }
    if (r < 0) {
        sbx_error_prefix(err, "option --cgroup");
        if (err != NULL) {
            err->stage = SBX_STAGE_CHECK;
        }
        return r;
    }
    if (has_memory(&watch->attach.group.before)) {
        /* No reading of members' pages, which would only disturb them. */
        watch->meter.peak_retry_us = SBX_FOREVER_US;
    }
    watch->record->tracking = SBX_TRACKING_CGROUP;
    return 0;
}

void sbx_attach_group_release(struct sbx_watch *watch)
{
    struct sbx_watch_group *group = &watch->attach.group;
    if (!group->on) {
        return;
    }
    sbx_source_free(group->on_alarm);
    group->on_alarm = NULL;
    sbx_statistics_close(&group->statistics);
    sbx_fd_drop(&group->fd);
}
