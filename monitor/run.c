/*
 * run.c - one run from specification to published report: check, guard and monitor,
 * publishing. What guard and monitor share lies in one anonymous mapping, so that nothing
 * has to be copied between them and nothing is lost with either.
 */
#include "monitor/run.h"

#include "monitor/armament.h"
#include "monitor/attach.h"
#include "monitor/detach.h"
#include "monitor/logger.h"
#include "monitor/notice.h"
#include "monitor/record.h"
#include "monitor/release.h"
#include "monitor/report.h"
#include "monitor/rivals.h"
#include "monitor/serve.h"
#include "monitor/spec.h"
#include "monitor/usage.h"
#include "monitor/watch.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "reaper/guard.h"
#include "reaper/pidref.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

/* In memory that guard and monitor share. */
struct shared {
    struct sbx_pair pair;
    struct sbx_record record;
    struct sbx_error
        publish_error; /* code 0: none, or the report is where it should be */
    struct sbx_pss_area pss;
    struct sbx_capture_area capture;
    struct sbx_log_area log;
    struct sbx_attach_roll roll; /* touched only with --pid */
    struct sbx_grouped_area grouped;
    struct sbx_notice_area notices;
    char text[SBX_REPORT_SIZE];  /* touched only when the report is made */
    char other[SBX_RENDER_SIZE]; /* touched only for a form that is not JSON */
};

struct run {
    const struct sbx_spec *spec;
    struct shared *shared;
    struct sbx_detach detach;
    struct sbx_capture capture; /* of this process */
    struct sbx_logger logger;
    struct sbx_grouped grouped;  /* of this process */
    pid_t first_pid;             /* that the caller knows */
    struct sbx_service *service; /* NULL: none but the calling process wants to know */
};

static bool tells(const struct run *run)
{
    return run->service != NULL && run->service->notices;
}

/* Once the command has its standard streams, these are nobody's but its own. A service
 * run says nothing there. */
static unsigned released(const struct run *run)
{
    return tells(run) ? SBX_RELEASE_ALL : run->spec->detach ? SBX_RELEASE_DETACHED : 0U;
}

static void release(const struct run *run)
{
    sbx_release_streams(sbx_release_unneeded(run->spec, released(run)));
}

/* --- publishing --- */

/* With the patience of a report that goes to stderr: a command may have filled that pipe,
 * and whoever should read it may wait for us. */
static void say(const struct sbx_spec *spec, const struct sbx_record *record,
                const struct sbx_logger *logger)
{
    char path[] = "-";
    struct sbx_spec to_stderr = {.report_path = path, .report_directory_fd = -1};
    char text[SBX_REPORT_LINE_SIZE + SBX_LOGGER_COMPLAINTS_SIZE] = "";
    size_t length = 0;
    if (!sbx_logger_has_stderr(logger)) {
        length = strlen(sbx_report_line(spec, record, text));
    }
    if (length > 0) {
        text[length++] = '\n';
    }
    if (!spec->quiet) {
        length += sbx_logger_complaints(logger, text + length, sizeof text - length);
    }
    if (length > 0) {
        (void)sbx_report_publish(&to_stderr, text, length, NULL);
    }
}

static int publish_text(const struct sbx_spec *spec, struct shared *shared,
                        struct sbx_error *err)
{
    const char *text = NULL;
    ssize_t length =
        sbx_report_render(spec, &shared->record, shared->text, shared->other, &text);
    if (length < 0) {
        return sbx_error_set(err, (int)-length, SBX_STAGE_REPORT,
                             "the report does not fit into its buffer");
    }
    return sbx_report_publish(spec, text, (size_t)length, err);
}

static int publish_record(const struct run *run, struct sbx_error *err)
{
    return sbx_report_wanted(run->spec) ? publish_text(run->spec, run->shared, err) : 0;
}

static int status(void *context)
{
    struct run *run = context;
    if (run->shared->publish_error.code != 0) {
        return SBX_STATUS_FAILED;
    }
    return sbx_report_status(run->spec, &run->shared->record);
}

/* The report that the caller gets is JSON, whatever was asked for elsewhere. */
static void finish_service(struct run *run)
{
    struct shared *shared = run->shared;
    ssize_t length =
        sbx_report_format(run->spec, &shared->record, shared->text, SBX_REPORT_SIZE);
    const struct sbx_service_result result = {.record = &shared->record,
                                              .status = status(run),
                                              .error = &shared->publish_error,
                                              .report = shared->text,
                                              .length = length > 0 ? (size_t)length : 0};
    if (tells(run)) {
        sbx_notice_send_rest(run->service->socket, &shared->notices, &shared->record);
    }
    sbx_service_finish(run->service, &result);
}

static void publish(void *context)
{
    struct run *run = context;
    struct shared *shared = run->shared;
    struct sbx_error error = {0};
    if (run->service == NULL) {
        say(run->spec, &shared->record, &run->logger);
    }
    if (publish_record(run, &error) < 0) {
        shared->publish_error = error;
    }
    if (run->service != NULL) {
        finish_service(run);
    }
}

/* --- servants: processes for what may block --- */

static int open_servants(void *context, struct sbx_error *err)
{
    struct run *run = context;
    /* First, since processes of ours may have to move for it. */
    int r = sbx_grouped_open(&run->grouped, run->spec, &run->shared->record,
                             run->first_pid, err);
    r = r < 0 ? r : sbx_capture_open(&run->capture, err);
    return r < 0 ? r : sbx_logger_start(&run->logger, err);
}

static void close_servants(void *context)
{
    struct run *run = context;
    sbx_grouped_done(&run->grouped, &run->shared->record);
    sbx_logger_close(&run->logger);
    sbx_capture_close(&run->capture);
}

/* --- the other hooks --- */

static int monitor(const struct sbx_pair_link *link, void *context)
{
    struct run *run = context;
    (void)prctl(PR_SET_NAME, "sbx-monitor", 0, 0, 0);
    /* Stopped together with the guard, nobody else would let us end what it leaves. */
    (void)prctl(PR_SET_PDEATHSIG, SIGCONT, 0, 0, 0);
    const struct sbx_watch_means means = {
        .link = link,
        .pss = &run->shared->pss,
        .capture = &run->capture,
        .logger = &run->logger,
        .roll = &run->shared->roll,
        .grouped = &run->grouped,
        .release = sbx_release_unneeded(run->spec, released(run)),
        .tells = tells(run)};
    sbx_watch_run(run->spec, &run->shared->record, &means);
    sbx_logger_finish(&run->logger, &run->shared->record);
    sbx_pair_finish(link, publish, context);
    return 0;
}

static void reader(int socket, void *context)
{
    struct run *run = context;
    sbx_release_streams(released(run));
    sbx_capture_leave(&run->capture);
    sbx_grouped_leave(&run->grouped);
    if (run->service != NULL) {
        sbx_service_leave(run->service);
    }
    sbx_pss_serve(&run->shared->pss, socket);
}

static void lost(struct sbx_pair *pair, void *context)
{
    struct run *run = context;
    release(run); /* it may have died before it said that the command runs */
    /* The servants are children of the guard like what it has to end. */
    sbx_capture_hand_over(&run->capture);
    sbx_logger_pause(&run->logger);
    if (sbx_spec_attaches(run->spec)) {
        sbx_attach_lost(run->spec, &run->shared->record, &run->shared->roll);
    } else {
        sbx_watch_lost(run->spec, &run->shared->record, pair, &run->grouped);
    }
    sbx_capture_recover(&run->capture, &run->shared->record);
    sbx_logger_finish(&run->logger, &run->shared->record);
}

static void usage(void *context)
{
    struct run *run = context;
    sbx_usage_tell(run->spec, &run->shared->record);
}

static void late(pid_t monitor_pid, void *context)
{
    struct run *run = context;
    sbx_grouped_free_monitor(&run->grouped, monitor_pid);
}

static void news(int what, void *context)
{
    struct run *run = context;
    if (tells(run)) {
        sbx_notice_send(run->service->socket, &run->shared->notices, &run->shared->record,
                        (unsigned)what);
    }
}

static bool started(void *context)
{
    struct run *run = context;
    release(run);
    news((int)SBX_NEWS_STARTED, context);
    return sbx_detach_tell_start(&run->detach);
}

static void fail(struct sbx_record *record, const struct sbx_error *err)
{
    record->outcome = SBX_OUTCOME_LAUNCH_FAILED;
    record->failed_status = SBX_STATUS_FAILED;
    record->error = *err;
    record->termination.proof = SBX_PROOF_NO_CHILDREN;
    record->finished_real_us = sbx_clock_real_us();
}

static void failed(const struct sbx_error *err, void *context)
{
    struct run *run = context;
    fail(&run->shared->record, err);
    sbx_logger_finish(&run->logger, &run->shared->record);
}

static uint64_t progress(void *context)
{
    struct run *run = context;
    return sbx_service_progress(run->service, &run->shared->record);
}

/* --- entry --- */

/* 128 random bits; when those cannot be had, pid and time make it unique on this host. */
static void make_run_id(char id[static SBX_RUN_ID_SIZE])
{
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, GRND_NONBLOCK) == (ssize_t)sizeof bytes) {
        for (size_t i = 0; i < sizeof bytes; i++) {
            (void)snprintf(id + 2 * i, 3, "%02x", bytes[i]);
        }
        return;
    }
    (void)snprintf(id, SBX_RUN_ID_SIZE, "%llx-%x",
                   (unsigned long long)sbx_clock_real_us(), (unsigned)getpid());
}

static void start_record(struct sbx_record *record)
{
    sbx_record_init(record);
    make_run_id(record->run_id);
    record->started_real_us = sbx_clock_real_us();
}

int sbx_run_check(const struct sbx_spec *spec, struct sbx_error *err)
{
    if (spec->argv == NULL && !sbx_spec_attaches(spec)) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS, "no command was given");
    }
    if (sbx_child_would_be_init()) {
        return sbx_error_set(err, ENOTSUP, SBX_STAGE_CHECK,
                             "the next child would be the init of a new PID namespace "
                             "(unshare), with which all others end: make it first "
                             "(unshare --fork)");
    }
    int r = sbx_attach_check(spec, err);
    r = r < 0 ? r : sbx_armament_check_options(spec, err);
    if (r == 0 && !sbx_spec_attaches(spec)) {
        r = sbx_ceiling_check(spec->ceilings, sbx_start_uid(&spec->start), err);
        r = r < 0 ? r : sbx_start_check(&spec->start, err);
    }
    if (r < 0) {
        return r;
    }
    r = spec->detach ? sbx_detach_check(spec, err) : 0;
    if (r < 0) {
        return r;
    }
    return spec->report_path != NULL ? sbx_report_check(spec, err) : 0;
}

static struct shared *map_shared(void)
{
    void *memory = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* What was asked for in sinks, as far as they can be opened. */
static int open_logger(struct run *run, bool refused, struct sbx_error *err)
{
    run->logger = SBX_NO_LOGGER;
    run->logger.plan = &run->spec->log;
    run->logger.identity =
        (struct sbx_log_identity){run->shared->record.run_id, run->spec->argv};
    run->logger.polite_signal = run->spec->signal;
    run->logger.area = &run->shared->log;
    run->logger.refused = refused;
    int r = sbx_logger_open(&run->logger, err);
    return r == 0 && !refused ? sbx_rivals_check(run->spec, err) : r;
}

/* Nothing ran. Log and report say so, where they can be written. */
static int refuse(struct run *run, const struct sbx_error *failure, struct sbx_error *err)
{
    run->logger.refused = true;
    if (failure->stage == SBX_STAGE_REPORT) {
        sbx_logger_without_stderr(&run->logger); /* the caller says it there */
    }
    failed(failure, run);
    if (failure->stage == SBX_STAGE_REPORT) {
        /* The path is no place for a report: that is the failure. A descriptor may be. */
        struct sbx_spec by_fd = *run->spec;
        by_fd.report_path = NULL;
        (void)publish_text(&by_fd, run->shared, NULL);
        if (err != NULL) {
            *err = *failure;
        }
        return -failure->code;
    }
    if (run->service == NULL) {
        say(run->spec, &run->shared->record, &run->logger);
    }
    return publish_record(run, err);
}

/* The calling process of a detached run is done. What its guard has not published for
 * want of a guard is to be published here. */
static int leave(struct run *run, int result, const struct sbx_error *failure,
                 struct sbx_error *err)
{
    if (result < 0 && !run->detach.forked) {
        return refuse(run, failure, err);
    }
    if (result < 0 && err != NULL) {
        *err = *failure;
    }
    return result;
}

static struct sbx_guard_hooks hooks_of(struct run *run)
{
    return (struct sbx_guard_hooks){.open = open_servants,
                                    .close = close_servants,
                                    .monitor = monitor,
                                    .reader = reader,
                                    .lost = lost,
                                    .publish = publish,
                                    .status = status,
                                    .failed = failed,
                                    .progress = run->service != NULL ? progress : NULL,
                                    .no_terminal = run->service != NULL ||
                                                   run->spec->start.new_session,
                                    .started = started,
                                    .news = news,
                                    .late = late,
                                    .usage = run->service != NULL ? NULL : usage,
                                    .context = run};
}

int sbx_run_in_place(const struct sbx_spec *spec, int *ret_status, struct sbx_error *err)
{
    struct shared *shared = map_shared();
    if (shared == NULL) {
        *ret_status = SBX_STATUS_FAILED;
        return sbx_error_set(err, ENOMEM, SBX_STAGE_LAUNCH, "no memory for a run");
    }
    start_record(&shared->record);
    struct run run = {
        .spec = spec, .shared = shared, .detach = {.pipe = -1}, .first_pid = getpid()};
    sbx_capture_init(&run.capture, spec, &shared->capture);
    sbx_grouped_init(&run.grouped, &shared->grouped);
    struct sbx_error failure = {0};
    int r = sbx_run_check(spec, &failure);
    int opened = open_logger(&run, r < 0, r < 0 ? NULL : &failure);
    if (r < 0 || opened < 0) {
        *ret_status = SBX_STATUS_FAILED;
        r = refuse(&run, &failure, err);
        sbx_logger_close(&run.logger);
        (void)munmap(shared, sizeof *shared);
        return r;
    }
    if (spec->detach) {
        r = sbx_detach(&run.detach, spec, shared->record.run_id, ret_status, &failure);
        if (r <= 0) { /* the calling process, or there is no other */
            r = leave(&run, r, &failure, err);
            sbx_logger_close(&run.logger);
            (void)munmap(shared, sizeof *shared);
            return r;
        }
    }
    struct sbx_guard_hooks hooks = hooks_of(&run);
    *ret_status = sbx_guard_run(&shared->pair, &hooks, spec->die_with_parent);
    sbx_logger_close(&run.logger); /* a front's own */
    sbx_detach_tell_end(&run.detach, *ret_status);
    failure = shared->publish_error;
    (void)munmap(shared, sizeof *shared);
    if (failure.code == 0) {
        return 0;
    }
    if (err != NULL) {
        *err = failure;
    }
    return -failure.code;
}

static void serve_without_memory(const struct sbx_service *service)
{
    static struct sbx_record record; /* too large for a stack that may be small */
    struct sbx_error error = {0};
    sbx_record_init(&record);
    (void)sbx_error_set(&error, ENOMEM, SBX_STAGE_LAUNCH, "no memory for a run");
    fail(&record, &error);
    const struct sbx_service_result result = {
        .record = &record, .status = SBX_STATUS_FAILED, .error = &error, .report = ""};
    sbx_service_finish(service, &result);
}

void sbx_run_served(const struct sbx_spec *spec, const struct sbx_error *failure,
                    struct sbx_service *service)
{
    struct shared *shared = map_shared();
    if (shared == NULL) {
        serve_without_memory(service);
        return;
    }
    start_record(&shared->record);
    struct run run = {.spec = spec,
                      .shared = shared,
                      .detach = {.pipe = -1},
                      .first_pid = getpid(),
                      .service = service};
    sbx_capture_init(&run.capture, spec, &shared->capture);
    sbx_grouped_init(&run.grouped, &shared->grouped);
    struct sbx_guard_hooks hooks = hooks_of(&run);
    struct sbx_error error = {0};
    if (failure == NULL && sbx_run_check(spec, &error) < 0) {
        failure = &error;
    }
    int opened = open_logger(&run, failure != NULL, failure != NULL ? NULL : &error);
    if (failure == NULL && opened < 0) {
        failure = &error;
    }
    if (failure == NULL) {
        const struct sbx_guard_bonds bonds = {.caller_pidfd = service->caller_pidfd,
                                              .caller_is_ours = service->notices,
                                              .front_socket = -1,
                                              .control_socket = service->socket};
        (void)sbx_guard_run_bound(&shared->pair, &hooks, &bonds);
    } else {
        (void)refuse(&run, failure, &shared->publish_error);
        finish_service(&run);
    }
    sbx_logger_close(&run.logger);
    (void)munmap(shared, sizeof *shared);
}

int sbx_report_failure(const struct sbx_spec *spec, const struct sbx_error *failure,
                       struct sbx_error *err)
{
    if (!sbx_report_wanted(spec) && spec->log.target_count == 0) {
        return 0;
    }
    struct shared *shared = map_shared();
    if (shared == NULL) {
        return sbx_error_set(err, ENOMEM, SBX_STAGE_REPORT, "no memory for a report");
    }
    start_record(&shared->record);
    struct run run = {.spec = spec, .shared = shared};
    (void)open_logger(&run, true, NULL);
    sbx_logger_without_stderr(&run.logger); /* the caller says it there */
    failed(failure, &run);
    sbx_logger_close(&run.logger);
    int r = sbx_report_wanted(spec) ? publish_text(spec, shared, err) : 0;
    (void)munmap(shared, sizeof *shared);
    return r;
}

void sbx_run_bury(const struct sbx_spec *spec, bool publishes)
{
    struct shared *shared = map_shared();
    if (shared == NULL) {
        return;
    }
    struct run run = {.spec = spec, .shared = shared};
    start_record(&shared->record);
    sbx_grouped_init(&run.grouped, &shared->grouped);
    (void)sbx_error_set(&shared->record.error, ESRCH, SBX_STAGE_MONITOR,
                        "guard and monitor were killed; their caller has ended the tree");
    sbx_watch_lost(spec, &shared->record, &shared->pair, &run.grouped);
    if (publishes) {
        (void)publish_record(&run, NULL);
    }
    (void)munmap(shared, sizeof *shared);
}
