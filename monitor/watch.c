/*
 * watch.c - see watch.h: from nothing to a running leader, and the record at the end. One
 * struct is one run; what happens in between is in events.c and ending.c.
 */
#include "monitor/watch.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "monitor/release.h"
#include "monitor/watch_private.h"
#include "reaper/boost.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

/* Descriptors of ours that are not kept for members. */
#define FD_RESERVE 64U

/* --- from nothing to a running leader --- */

static int open_signals(struct sbx_error *err)
{
    static const int numbers[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigset_t heard;
    (void)sigemptyset(&heard);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        (void)sigaddset(&heard, numbers[i]);
    }
    int fd = signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd >= 0 ? fd
                   : sbx_error_set(err, errno, SBX_STAGE_LAUNCH, "signalfd: %s",
                                   sbx_errno_text(errno).text);
}

static int open_loop(struct sbx_watch *watch, struct sbx_error *err)
{
    int r = sbx_loop_new(&watch->loop, err);
    if (r < 0) {
        return r;
    }
    struct sbx_loop *loop = watch->loop;
    const struct sbx_pair_link *link = watch->link;
    if (sbx_loop_add_fd(loop, watch->signals, sbx_watch_on_signals, watch,
                        &watch->on_signals) < 0 ||
        sbx_loop_add_fd(loop, link->socket, sbx_watch_on_messages, watch,
                        &watch->on_socket) < 0 ||
        sbx_loop_add_fd(loop, link->guard_pidfd, sbx_watch_on_guard_lost, watch,
                        &watch->on_guard) < 0 ||
        sbx_loop_add_timer(loop, sbx_watch_on_sample, watch, &watch->on_sample) < 0 ||
        sbx_loop_add_timer(loop, sbx_watch_on_deadline, watch, &watch->on_wall) < 0 ||
        sbx_loop_add_timer(loop, sbx_watch_on_phase, watch, &watch->on_phase) < 0) {
        return sbx_error_set(err, ENOMEM, SBX_STAGE_LAUNCH,
                             "the event loop cannot watch: no memory");
    }
    r = sbx_watch_open_output(watch, err);
    return r < 0 ? r : sbx_watch_open_group(watch, err);
}

/* Our own soft limit of descriptors goes up to the hard one (the command gets the old one
 * back), for members' files. */
static size_t raise_nofile(struct rlimit *ret_before)
{
    if (getrlimit(RLIMIT_NOFILE, ret_before) < 0) {
        *ret_before = (struct rlimit){FD_RESERVE, FD_RESERVE};
        return 0;
    }
    struct rlimit raised = {ret_before->rlim_max, ret_before->rlim_max};
    rlim_t soft = ret_before->rlim_cur;
    if (raised.rlim_max > soft && setrlimit(RLIMIT_NOFILE, &raised) == 0) {
        soft = raised.rlim_cur;
    }
    return soft > FD_RESERVE ? (size_t)(soft - FD_RESERVE) : 0;
}

static int prepare(struct sbx_watch *watch, struct rlimit *ret_nofile,
                   struct sbx_error *err)
{
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0) {
        return sbx_error_set(err, errno, SBX_STAGE_LAUNCH,
                             "the monitor cannot become a child subreaper: %s",
                             sbx_errno_text(errno).text);
    }
    watch->record->tracking = watch->attach.on             ? SBX_TRACKING_REMEMBERED
                              : watch->spec->pid_namespace ? SBX_TRACKING_NAMESPACE
                                                           : SBX_TRACKING_SUBREAPER;
    sbx_boost(); /* before the launch: a bomb doubles every few milliseconds */
    size_t fd_budget = raise_nofile(ret_nofile);
    watch->proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (watch->proc_fd < 0) {
        return sbx_error_set(
            err, errno, SBX_STAGE_LAUNCH,
            "/proc cannot be opened: %s (the tree would be unmeasurable)",
            sbx_errno_text(errno).text);
    }
    watch->signals = open_signals(err);
    if (watch->signals < 0) {
        return watch->signals;
    }
    int r = watch->attach.on ? sbx_attach_open_tree(watch, fd_budget, err)
                             : sbx_tree_new(watch->proc_fd, fd_budget, &watch->tree, err);
    if (r < 0) {
        return r;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    watch->cpus = online > 0 ? (unsigned)online : 1;
    r = sbx_pss_new(watch->proc_fd, watch->pss_area, watch->link, &watch->pss);
    if (r < 0) {
        return sbx_error_set(err, -r, SBX_STAGE_LAUNCH, "no memory for the meter");
    }
    sbx_meter_init(&watch->meter, watch->proc_fd, &watch->spec->limits, watch->pss,
                   &watch->record->usage);
    return open_loop(watch, err);
}

/* *ret_array stays NULL where the caller's is to be used as it is. */
static int make_environment(struct sbx_watch *watch, const char ***ret_array,
                            struct sbx_error *err)
{
    const struct sbx_environment *wanted = &watch->spec->environment;
    if (!wanted->clear && wanted->from_files.count == 0 && wanted->given.count == 0) {
        return 0;
    }
    int r = sbx_environment_make(wanted, (const char *const *)environ, watch->record,
                                 ret_array);
    return r < 0 ? sbx_error_set(err, -r, SBX_STAGE_LAUNCH,
                                 "no memory for the command's environment")
                 : 0;
}

static int launch(struct sbx_watch *watch, const struct rlimit *nofile,
                  struct sbx_error *err)
{
    const struct sbx_spec *spec = watch->spec;
    const struct sbx_terminal *terminal = watch->link->terminal;
    SBX_AUTO_FREE const char **environment = NULL;
    int r = make_environment(watch, &environment, err);
    if (r < 0) {
        return r;
    }
    watch->own_group = !terminal->shared;
    struct sbx_launch launch = {
        .argv = (const char *const *)spec->argv,
        .envp = environment != NULL ? environment : (const char *const *)environ,
        .ceilings = spec->ceilings,
        .keep_fds = spec->keep_fds,
        .keep_fd_count = spec->keep_fd_count,
        .own_group = watch->own_group,
        .start = &spec->start,
        .note = spec->pid_namespace ? &watch->link->pair->note : NULL,
        .stays = spec->strays == SBX_STRAYS_KEEP,
        .group_fd =
            sbx_grouped_is_on(watch->grouped) ? watch->grouped->group.leaf.fd : -1,
        .tty_fd =
            sbx_terminal_hands_over(terminal) && terminal->foreground ? terminal->fd : -1,
        .inherited_ignored = watch->link->inherited_ignored,
        .nofile = *nofile,
    };
    watch->record->started_real_us = sbx_clock_real_us();
    watch->launched_us = sbx_clock_us();
    watch->record->current.launched_us = watch->launched_us;
    /* From here on there may be somebody who holds us up. */
    atomic_store(&watch->link->pair->due_us, watch->launched_us);
    memcpy(launch.stdio, watch->capture->stdio, sizeof launch.stdio);
    return sbx_launch(&launch, &watch->leader, &watch->record->failed_status, err);
}

/* Out of reach of the terminal and of signals to the caller's group. A session of our own
 * has a share of the processor of its own: worth it only where that could be raised. At
 * normal priority kernel 6.18 has been seen to leave such a session waiting for half a
 * minute, as long as a crowd in another one called sched_yield, but nobody in that other
 * session. And not in one with a terminal: a leader whose parent is in another session is
 * in an orphaned group, and those have no job control. What the group was sent until now
 * the guard has too, and counts: here it would count twice. */
static void step_aside(const struct sbx_watch *watch)
{
    static const struct timespec at_once;
    sigset_t requests;
    (void)sigemptyset(&requests);
    (void)sigaddset(&requests, SIGINT);
    (void)sigaddset(&requests, SIGTERM);
    (void)sigaddset(&requests, SIGHUP);
    (void)sigaddset(&requests, SIGQUIT);
    bool raised = getpriority(PRIO_PROCESS, 0) < 0;
    if (watch->link->terminal->fd >= 0 || !raised || setsid() < 0) {
        (void)setpgid(0, 0);
    }
    while (sigtimedwait(&requests, NULL, &at_once) > 0) {
        continue;
    }
}

static void supervise(struct sbx_watch *watch)
{
    const struct sbx_spec *spec = watch->spec;
    struct sbx_record *record = watch->record;
    record->leader_pid = watch->leader;
    sbx_watch_note_front(watch);
    if (!watch->attach.on) { /* else the guard would give it the terminal */
        atomic_store(&watch->link->pair->leader_pid, watch->leader);
    }
    atomic_store(&watch->link->pair->phase, SBX_PAIR_RUNNING);
    sbx_release_streams(watch->release);
    sbx_pair_send(watch->link->socket, SBX_MESSAGE_STARTED, 0);
    step_aside(watch);
    sbx_boost_session(watch->proc_fd);
    record->sampling.interval_us = spec->interval_us;
    struct sbx_termination_plan plan = {
        .grace_us = spec->grace_us,
        .linger_us = spec->linger_us,
        .after_leader = spec->strays == SBX_STRAYS_KEEP   ? SBX_AFTER_KEEP
                        : spec->strays == SBX_STRAYS_WAIT ? SBX_AFTER_WAIT
                                                          : SBX_AFTER_KILL,
    };
    sbx_terminate_init(&watch->terminate, &plan);
    sbx_watch_set_overdue(watch);
    (void)sbx_source_arm(watch->on_sample, watch->launched_us + SBX_PERIOD_MIN_US);
    atomic_store(&watch->link->pair->due_us, watch->launched_us + SBX_PERIOD_MIN_US);
    if (spec->limits.wall_us != 0) {
        sbx_tree_set_deadline(watch->tree,
                              sbx_clock_add(watch->launched_us, spec->limits.wall_us));
        (void)sbx_source_arm(watch->on_wall,
                             sbx_clock_add(watch->launched_us, spec->limits.wall_us));
    }
    sbx_watch_start_idle(watch);
    if (sbx_loop_run(watch->loop) < 0) {
        sbx_record_warn(record, "the event loop failed");
        sbx_watch_breach_plain(watch, SBX_REASON_UNMEASURABLE);
        if (watch->terminate.phase == SBX_PHASE_POLITE) {
            sbx_watch_sweep(watch);
        }
    }
}

/* --- the record --- */

static enum sbx_outcome outcome_of(const struct sbx_watch *watch)
{
    const struct sbx_record *record = watch->record;
    if (record->breach.reason != SBX_REASON_NONE) {
        return SBX_OUTCOME_BREACH;
    }
    if (record->cancel_signal != 0) {
        return SBX_OUTCOME_CANCELLED;
    }
    if (watch->attach.on) {
        return SBX_OUTCOME_OBSERVED;
    }
    if (!watch->leader_ended) {
        return SBX_OUTCOME_LOST;
    }
    return record->has_exit_code ? SBX_OUTCOME_EXITED : SBX_OUTCOME_SIGNALED;
}

/* Its last figures, and its end: before the report is published, which names a group that
 * is left. */
static void take_group(struct sbx_watch *watch)
{
    struct sbx_grouped *grouped = watch->grouped;
    if (!sbx_grouped_is_on(grouped)) {
        return;
    }
    bool kept = sbx_watch_keeps_group(watch);
    sbx_grouped_take_figures(grouped, watch->record);
    sbx_watch_close_group(watch);
    sbx_grouped_close(grouped, watch->record, kept);
}

static void complete(struct sbx_watch *watch)
{
    struct sbx_record *record = watch->record;
    sbx_watch_complete_group(watch);
    sbx_watch_complete_namespace(watch);
    bool empty = !watch->attach.on && record->termination.proof != SBX_PROOF_NONE;
    sbx_watch_take_heir(watch);
    if (watch->ending_us != 0) {
        record->termination.duration_us = sbx_clock_us() - watch->ending_us;
    }
    sbx_watch_drain_output(watch);
    record->outcome = outcome_of(watch);
    sbx_meter_finish(&watch->meter, watch->tree, empty);
    take_group(watch);
    if (watch->attach.on) {
        sbx_attach_complete(watch);
    }
    record->sampling.monitor_cpu_us = sbx_clock_cpu_us() + sbx_pss_cost_us(watch->pss);
    record->finished_real_us = sbx_clock_real_us();
}

static void release(struct sbx_watch *watch)
{
    sbx_source_free(watch->on_signals);
    sbx_source_free(watch->on_socket);
    sbx_source_free(watch->on_guard);
    sbx_source_free(watch->on_sample);
    sbx_source_free(watch->on_wall);
    sbx_source_free(watch->on_phase);
    sbx_watch_close_output(watch);
    sbx_watch_close_group(watch);
    sbx_attach_release(watch);
    sbx_loop_free(watch->loop);
    sbx_pss_free(watch->pss);
    sbx_tree_free(watch->tree);
    sbx_fd_drop(&watch->signals);
    sbx_fd_drop(&watch->proc_fd);
}

void sbx_watch_run(const struct sbx_spec *spec, struct sbx_record *record,
                   const struct sbx_watch_means *means)
{
    struct sbx_watch watch = {.spec = spec,
                              .record = record,
                              .pss_area = means->pss,
                              .capture = means->capture,
                              .logger = means->logger,
                              .link = means->link,
                              .grouped = means->grouped,
                              .release = means->release,
                              .tells = means->tells,
                              .proc_fd = -1,
                              .signals = -1,
                              .attach = {.on = sbx_spec_attaches(spec),
                                         .observes = !spec->attach.enforce,
                                         .roll = means->roll,
                                         .awaited_fd = -1}};
    struct rlimit nofile;
    record->failed_status = SBX_STATUS_FAILED;
    int r = prepare(&watch, &nofile, &record->error);
    if (r == 0) {
        r = watch.attach.on ? sbx_attach_begin(&watch, &record->error)
                            : launch(&watch, &nofile, &record->error);
    }
    if (r < 0) {
        record->outcome = SBX_OUTCOME_LAUNCH_FAILED;
        record->termination.proof = SBX_PROOF_NO_CHILDREN;
        sbx_watch_close_group(&watch);
        sbx_grouped_close(watch.grouped, record, false);
        record->finished_real_us = sbx_clock_real_us();
    } else {
        supervise(&watch);
        complete(&watch);
    }
    release(&watch);
}
