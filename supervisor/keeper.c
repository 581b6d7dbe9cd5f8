/*
 * keeper.c - see keeper.h, and what the program sbx-keeper does: takes its order, makes
 * the files of its place, forks the run, writes down what happens and how it ended.
 *
 * Started by keeper_spawn.c with all signals blocked, which they stay. One thread, and no
 * child but the run, whose processes hold the lock of the place as this one does. What
 * fails before the run is a report as well: of a launch that failed.
 */
#include "supervisor/keeper_private.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "monitor/release.h"
#include "monitor/run.h"
#include "monitor/wire.h"
#include "supervisor/request.h"
#include "supervisor/status.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

/* A run that was cancelled has ended by then, or nothing ends it. */
#define GIVE_UP_BOUND_US (300 * SBX_US_PER_S)

void sbx_keeper_note(struct sbx_keeper *keeper, struct sbx_event event)
{
    if (keeper->journal == NULL) {
        return;
    }
    if (event.at_real_us == 0) {
        event.at_real_us = sbx_clock_real_us();
    }
    (void)sbx_journal_append(keeper->journal, &event);
    sbx_keeper_tell_news(keeper);
}

/* --- the order --- */

static int fail(struct sbx_error *err, int code, const char *what)
{
    return sbx_error_set(err, code, SBX_STAGE_LAUNCH, "%s: %s", what,
                         sbx_errno_text(code).text);
}

/* `length` bytes from there, with a terminator; the caller's. NULL and errno. */
static char *take_part(int fd, uint64_t length, uint64_t offset)
{
    char *part = malloc((size_t)length + 1);
    ssize_t got = part == NULL ? -1 : pread(fd, part, (size_t)length, (off_t)offset);
    if (got < 0 || (uint64_t)got != length) {
        free(part);
        errno = got >= 0 ? EPROTO : errno;
        return NULL;
    }
    part[length] = '\0';
    return part;
}

static int take_head(int fd, struct sbx_keeper_order *order)
{
    struct stat status;
    if (pread(fd, order, sizeof *order, 0) != (ssize_t)sizeof *order ||
        order->magic != SBX_KEEPER_MAGIC || order->protocol != SBX_KEEPER_PROTOCOL ||
        order->spec_length == 0 || order->spec_length > SBX_KEEPER_SPEC_MAX ||
        order->stdin_length > SBX_KEEPER_STDIN_MAX || fstat(fd, &status) < 0 ||
        (uint64_t)status.st_size !=
            sizeof *order + order->spec_length + order->stdin_length) {
        return -EPROTO;
    }
    return 0;
}

/* The report goes into the place, whatever the working directory is. */
static int name_report(const struct sbx_keeper *keeper, struct sbx_error *err)
{
    SBX_AUTO_CLOSE int before = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (before < 0 || fchdir(keeper->directory) < 0) {
        return fail(err, errno, "working directory");
    }
    /* The command may have laid a link there. */
    keeper->spec->report_replaces = true;
    int r = sbx_spec_set(keeper->spec, "report", "report.json", err);
    if (r == 0) {
        r = sbx_spec_set(keeper->spec, "quiet", NULL, err);
    }
    if (fchdir(before) < 0 && r == 0) {
        r = fail(err, errno, "working directory");
    }
    return r;
}

static int take_spec(struct sbx_keeper *keeper, int fd, struct sbx_error *err)
{
    const struct sbx_keeper_order *order = &keeper->order;
    SBX_AUTO_FREE char *text = take_part(fd, order->spec_length, sizeof *order);
    keeper->spec = sbx_spec_new();
    if (text == NULL || keeper->spec == NULL) {
        return fail(err, text == NULL ? errno : ENOMEM, "the order");
    }
    int r = sbx_wire_replay(text, (size_t)order->spec_length, keeper->spec, err);
    return r < 0 ? r : name_report(keeper, err);
}

/* The command is to have what it would have without the service. */
static void restore_limit(const struct sbx_keeper_order *order)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && order->descriptors_soft > 0 &&
        order->descriptors_soft < limit.rlim_cur) {
        limit.rlim_cur = (rlim_t)order->descriptors_soft;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* --- the run --- */

static void see_start(struct sbx_keeper *keeper, pid_t leader, uint64_t at_real_us)
{
    if (keeper->started) {
        return;
    }
    keeper->started = true;
    atomic_store(&keeper->page->leader_pid, leader);
    atomic_store(&keeper->page->started_real_us, at_real_us);
    atomic_store(&keeper->page->phase, SBX_PHASE_RUNNING);
    sbx_keeper_note(keeper, (struct sbx_event){.type = SBX_EVENT_STARTED,
                                               .at_real_us = at_real_us,
                                               .value = (uint64_t)leader});
    sbx_keeper_read_outputs(keeper);
}

static void take_notices(struct sbx_keeper *keeper)
{
    struct sbx_notice notice;
    while (sbx_run_notice(keeper->run, &notice) == 1) {
        if (notice.kind == SBX_NOTICE_STARTED) {
            see_start(keeper, notice.leader_pid, notice.at_real_us);
        } else {
            sbx_keeper_note(keeper,
                            (struct sbx_event){.type = notice.kind == SBX_NOTICE_WARNING
                                                           ? SBX_EVENT_WARNING
                                                           : SBX_EVENT_BREACH,
                                               .at_real_us = notice.at_real_us,
                                               .data = notice.text,
                                               .length = strlen(notice.text)});
        }
    }
}

static void on_run(void *context)
{
    struct sbx_keeper *keeper = context;
    enum sbx_run_event event = sbx_run_next(keeper->run, NULL);
    take_notices(keeper);
    if (event == SBX_RUN_FINISHED) {
        sbx_loop_stop(keeper->loop);
    }
}

static void on_children(void *context)
{
    struct sbx_keeper *keeper = context;
    struct signalfd_siginfo info;
    while (read(keeper->children, &info, sizeof info) == (ssize_t)sizeof info) {
        continue; /* each of them is looked for below */
    }
    sbx_run_continue_guard(keeper->run);
}

static int watch_children(struct sbx_keeper *keeper)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    keeper->children = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return keeper->children < 0
               ? -errno
               : sbx_loop_add_fd(keeper->loop, keeper->children, on_children, keeper,
                                 &keeper->on_children);
}

struct pipes {
    int input[2];
    int outputs[2][2];
};

static void close_pipes(struct pipes *pipes)
{
    sbx_fd_drop(&pipes->input[0]);
    sbx_fd_drop(&pipes->input[1]);
    for (int i = 0; i < 2; i++) {
        sbx_fd_drop(&pipes->outputs[i][0]);
        sbx_fd_drop(&pipes->outputs[i][1]);
    }
}

static int make_pipe(int ends[2], int ours)
{
    return pipe2(ends, O_CLOEXEC) < 0 || fcntl(ends[ours], F_SETFL, O_NONBLOCK) < 0
               ? -errno
               : 0;
}

static int make_pipes(const struct sbx_keeper *keeper, struct pipes *pipes)
{
    int r = 0;
    if (keeper->order.stdin_kind == SBX_REQUEST_STDIN_NULL) {
        pipes->input[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        r = pipes->input[0] < 0 ? -errno : 0;
    } else {
        r = make_pipe(pipes->input, 1);
    }
    r = r < 0 ? r : make_pipe(pipes->outputs[0], 0);
    return r < 0 ? r : make_pipe(pipes->outputs[1], 0);
}

/* Our ends of the pipes are the keeper's from now on. */
static int open_streams(struct sbx_keeper *keeper, int order_fd, struct pipes *pipes,
                        struct sbx_error *err)
{
    int r = make_pipes(keeper, pipes);
    if (r < 0) {
        return fail(err, -r, "pipe");
    }
    for (int i = 0; i < 2; i++) {
        keeper->outputs[i].pipe = sbx_fd_steal(&pipes->outputs[i][0]);
    }
    keeper->input.pipe = sbx_fd_steal(&pipes->input[1]);
    r = sbx_keeper_open_outputs(keeper, err);
    if (r < 0 || keeper->order.stdin_kind == SBX_REQUEST_STDIN_NULL) {
        return r;
    }
    bool open = keeper->order.stdin_kind == SBX_REQUEST_STDIN_OPEN;
    char *data = NULL;
    if (keeper->order.stdin_length > 0) {
        data = take_part(order_fd, keeper->order.stdin_length,
                         sizeof keeper->order + keeper->order.spec_length);
        if (data == NULL) {
            return fail(err, errno, "standard input");
        }
    }
    keeper->input.closes = !open;
    atomic_store(&keeper->page->stdin_open, open ? 1U : 0U);
    r = sbx_keeper_open_input(keeper, data, (size_t)keeper->order.stdin_length);
    return r < 0 ? fail(err, -r, "standard input") : 0;
}

static int start_run(struct sbx_keeper *keeper, int order_fd, struct sbx_error *err)
{
    struct pipes pipes = {{-1, -1}, {{-1, -1}, {-1, -1}}};
    int r = open_streams(keeper, order_fd, &pipes, err);
    if (r == 0) {
        const struct sbx_run_family family = {
            .stdio = {pipes.input[0], pipes.outputs[0][1], pipes.outputs[1][1]},
            .shared_fd = keeper->lock};
        atomic_store(&keeper->page->phase, SBX_PHASE_LAUNCHING);
        r = sbx_run_fork(keeper->spec, &family, &keeper->run, err);
    }
    close_pipes(&pipes);
    if (r == 0) {
        r = sbx_loop_add_fd(keeper->loop, sbx_run_fd(keeper->run), on_run, keeper,
                            &keeper->on_run);
        r = r < 0 ? r : watch_children(keeper);
        r = r < 0 ? fail(err, -r, "the event loop") : 0;
    }
    return r;
}

/* Everything that the run needs, then the run. */
static int begin(struct sbx_keeper *keeper, int control, int order_fd,
                 struct sbx_error *err)
{
    int r = take_spec(keeper, order_fd, err);
    keeper->page = sbx_page_map(keeper->directory);
    if (keeper->page == NULL) {
        r = fail(err, errno, "the page of the execution");
    }
    if (keeper->page != NULL) {
        atomic_store(&keeper->page->keeper_pid, getpid());
    }
    r = r < 0 ? r : sbx_loop_new(&keeper->loop, err);
    r = r < 0 ? r : sbx_keeper_open_control(keeper, control, err);
    r = r < 0
            ? r
            : sbx_journal_create(keeper->directory, "events",
                                 keeper->order.event_limit_count, &keeper->journal, err);
    r = r < 0 ? r : sbx_place_spare_report(keeper->directory, err);
    return r < 0 ? r : start_run(keeper, order_fd, err);
}

/* --- the end --- */

/* NULL unless guard or monitor have published one without telling us. */
static char *find_report(const struct sbx_keeper *keeper, size_t *ret_length)
{
    uint64_t written_us = 0;
    return sbx_place_report(keeper->directory, ret_length, &written_us);
}

static enum sbx_execution_status read_status(const struct sbx_keeper *keeper)
{
    const struct sbx_result *result =
        keeper->run != NULL ? sbx_run_result(keeper->run) : NULL;
    if (result != NULL && result->report != NULL) {
        return sbx_execution_status_of(result->report, result->report_length);
    }
    if (result == NULL || strcmp(result->outcome, "lost") != 0) {
        return SBX_EXECUTION_FAILED;
    }
    size_t length = 0;
    SBX_AUTO_FREE char *report = find_report(keeper, &length);
    return report != NULL ? sbx_execution_status_of(report, length) : SBX_EXECUTION_LOST;
}

/* Guard and monitor have ended without a word: the tree is ours to end now. They may have
 * published before that. */
static void bury(const struct sbx_keeper *keeper)
{
    const struct sbx_result *result =
        keeper->run != NULL ? sbx_run_result(keeper->run) : NULL;
    if (result != NULL && result->report == NULL) {
        size_t length = 0;
        SBX_AUTO_FREE char *report = find_report(keeper, &length);
        sbx_run_bury(keeper->spec, report == NULL);
    }
}

/* What could not be published has its place all the same. */
static void use_spare(const struct sbx_keeper *keeper)
{
    const struct sbx_result *result =
        keeper->run != NULL ? sbx_run_result(keeper->run) : NULL;
    sbx_place_use_spare(keeper->directory, result != NULL ? result->report : NULL,
                        result != NULL ? result->report_length : 0);
}

static void finish(struct sbx_keeper *keeper)
{
    if (keeper->run != NULL) {
        take_notices(keeper);
    }
    bury(keeper);
    use_spare(keeper);
    sbx_keeper_end_outputs(keeper);
    sbx_keeper_close_input(keeper);
    enum sbx_execution_status status = read_status(keeper);
    uint64_t now = sbx_clock_real_us();
    sbx_keeper_note(keeper, (struct sbx_event){.type = SBX_EVENT_FINISHED,
                                               .at_real_us = now,
                                               .value = (uint64_t)status});
    if (keeper->journal != NULL) {
        sbx_journal_end(keeper->journal);
    }
    atomic_store(&keeper->page->paused, 0);
    atomic_store(&keeper->page->status, (uint32_t)status);
    atomic_store(&keeper->page->finished_real_us, now);
    atomic_store(&keeper->page->phase, SBX_PHASE_FINISHED);
    sbx_keeper_tell_finished(keeper);
}

static void let_go(struct sbx_keeper *keeper)
{
    sbx_source_free(keeper->on_run);
    sbx_source_free(keeper->on_children);
    sbx_fd_drop(&keeper->children);
    sbx_run_free(keeper->run);
    if (keeper->page != NULL) {
        sbx_keeper_close_input(keeper);
    }
    sbx_keeper_close_control(keeper);
    for (int i = 0; i < 2; i++) {
        sbx_source_free(keeper->outputs[i].source);
        sbx_fd_drop(&keeper->outputs[i].pipe);
        sbx_stream_close(keeper->outputs[i].writer);
    }
    sbx_journal_close(keeper->journal);
    sbx_page_unmap(keeper->page);
    sbx_loop_free(keeper->loop);
    sbx_spec_free(keeper->spec);
    sbx_fd_drop(&keeper->directory);
    sbx_fd_drop(&keeper->lock);
}

/* --- the program --- */

/* The loop or its memory has failed under a run: that is ended, and its report waited
 * for. */
static void give_up(struct sbx_keeper *keeper)
{
    (void)sbx_run_cancel(keeper->run);
    (void)sbx_run_wait(keeper->run, GIVE_UP_BOUND_US);
}

/* Closes the order. */
static void keep(struct sbx_keeper *keeper, int control, int order_take)
{
    struct sbx_error error = {0};
    int r = begin(keeper, control, order_take, &error);
    (void)close(order_take); /* it holds the environment */
    if (r < 0 && keeper->run == NULL && keeper->spec != NULL) {
        (void)sbx_report_failure(keeper->spec, &error, NULL);
    }
    r = r < 0 ? r : sbx_loop_run(keeper->loop);
    if (r < 0 && keeper->run != NULL) {
        give_up(keeper);
    }
    if (keeper->page != NULL) {
        finish(keeper);
    }
}

/* An open descriptor above 2. */
static bool parse_fd(const char *text, int *ret_fd)
{
    uint64_t number = 0;
    if (sbx_text_count(text, &number) < 0 || number > INT_MAX ||
        number <= STDERR_FILENO || fcntl((int)number, F_SETFD, FD_CLOEXEC) < 0) {
        return false;
    }
    *ret_fd = (int)number;
    return true;
}

/* What sbxd was started with is not ours: whoever waits for the end of its output is not
 * to wait for us. */
static int leave_others(const struct sbx_keeper *keeper, int control, int order_fd)
{
    int keep[] = {control, keeper->directory, keeper->lock, order_fd};
    sbx_release_streams(SBX_RELEASE_ALL);
    return sbx_fd_close_others(keep, sizeof keep / sizeof keep[0]);
}

int sbx_keeper_main(int argc, char *argv[])
{
    struct sbx_keeper keeper = {.directory = -1,
                                .lock = -1,
                                .input = {.pipe = -1},
                                .outputs = {{.pipe = -1}, {.pipe = -1}},
                                .children = -1,
                                .listener = -1};
    int control = -1;
    int order_fd = -1;
    if (argc != 5 || !parse_fd(argv[1], &control) ||
        !parse_fd(argv[2], &keeper.directory) || !parse_fd(argv[3], &keeper.lock) ||
        !parse_fd(argv[4], &order_fd) || sbx_fd_open_standard() < 0 ||
        leave_others(&keeper, control, order_fd) < 0 ||
        take_head(order_fd, &keeper.order) < 0) {
        return SBX_STATUS_FAILED;
    }
    for (int i = 0; i < 2; i++) {
        keeper.outputs[i].keeper = &keeper;
        keeper.outputs[i].stream = i + 1;
    }
    for (size_t i = 0; i < SBX_KEEPER_PEERS; i++) {
        keeper.peers[i] = (struct sbx_keeper_peer){.keeper = &keeper, .socket = -1};
    }
    /* ^C in the terminal of an sbxd is not meant for what it has started. */
    (void)setsid();
    (void)prctl(PR_SET_NAME, "sbx-keeper", 0, 0, 0);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    restore_limit(&keeper.order);
    keep(&keeper, control, order_fd);
    let_go(&keeper);
    return 0;
}
