/*
 * handle.c - the caller's side of a run: the functions of <sbx/sbx.h> that start one,
 * listen to it and let go of it.
 *
 * The run itself is in the processes of sbx-monitor (serve.c), at the other end of one
 * socket. Its end of file says that those are gone. Relies on spawn.c to leave the
 * caller's process state alone; never waits for anything of the caller's, and touches no
 * descriptor but its own.
 */
#include "monitor/flatten.h"
#include "monitor/handle_private.h"
#include "monitor/record.h"
#include "monitor/run.h"
#include "monitor/spawn.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "reaper/guard.h"
#include "reaper/pidref.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* How long sbx-monitor may take to read a specification that the socket does not hold. */
#define SPEC_BOUND_US (30 * (uint64_t)SBX_US_PER_S)
/* From its last word, a guard that is our child has only to end. */
#define GUARD_ENDS_MS 100

#define NUMBER_SIZE 12

#define NOT_TAKEN                                                                        \
    "sbx-monitor has ended without taking the specification: is it of version %s?"

/* --- starting --- */

int sbx_run_above_standard(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO) {
        return fd;
    }
    int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int code = errno;
    (void)close(fd);
    errno = code;
    return above;
}

int sbx_run_open_sockets(int ret_ends[static 2], struct sbx_error *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
        return sbx_error_set(err, errno, SBX_STAGE_LAUNCH, "socketpair: %s",
                             sbx_errno_text(errno).text);
    }
    ret_ends[0] = sbx_run_above_standard(ends[0]);
    int code = errno;
    ret_ends[1] = sbx_run_above_standard(ends[1]);
    if (ret_ends[0] >= 0 && ret_ends[1] >= 0) {
        return 0;
    }
    code = ret_ends[0] < 0 ? code : errno;
    sbx_fd_drop(&ret_ends[0]);
    sbx_fd_drop(&ret_ends[1]);
    return sbx_error_set(err, code, SBX_STAGE_LAUNCH, "socketpair: %s",
                         sbx_errno_text(code).text);
}

int sbx_run_check_settings(const struct sbx_spec *spec, struct sbx_error *err)
{
    if (spec->detach) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_CHECK,
                             "option --detach: a run of the library is bound to its "
                             "caller");
    }
    if (spec->report_path != NULL && strcmp(spec->report_path, "-") == 0 &&
        fcntl(STDERR_FILENO, F_GETFD) < 0) {
        return sbx_error_set(err, EBADF, SBX_STAGE_CHECK,
                             "option --report: '-' is standard error, which is closed");
    }
    return 0;
}

/* NULL: -EINVAL, and *err says so. */
static const char *find_monitor(const struct sbx_spec *spec, struct sbx_error *err)
{
    const char *path = spec->monitor_path;
    if (path == NULL) {
        path = secure_getenv("SBX_MONITOR");
    }
    if (path == NULL) {
        path = SBX_MONITOR_PATH;
    }
    if (path[0] != '/') {
        (void)sbx_error_set(err, EINVAL, SBX_STAGE_CHECK,
                            "SBX_MONITOR is no absolute path");
        return NULL;
    }
    return path;
}

/* What the program gets to see of the caller's descriptors. */
struct passed {
    int fds[SBX_WIRE_FDS_MAX + 3]; /* the library's own come first */
    size_t count;
};

/* The descriptors that options name, which may have been closed since, so that one of
 * ours has such a number now. */
static int pass_named(struct passed *passed, const char *text, size_t length,
                      struct sbx_error *err)
{
    int named[SBX_WIRE_FDS_MAX];
    size_t count = sbx_wire_fds(text, length, named, SBX_WIRE_FDS_MAX);
    size_t own = passed->count;
    for (size_t i = 0; i < count; i++) {
        bool open = fcntl(named[i], F_GETFD) >= 0;
        for (size_t k = 0; k < own; k++) {
            open = open && passed->fds[k] != named[i];
        }
        if (!open) {
            return sbx_error_set(err, EBADF, SBX_STAGE_CHECK,
                                 "descriptor %d, which an option names, is not open",
                                 named[i]);
        }
        passed->fds[passed->count++] = named[i];
    }
    return 0;
}

/* Executes sbx-monitor with its end of the socket and the two other descriptors. */
static int spawn_monitor(const struct sbx_spec *spec, const struct passed *passed,
                         int *ret_pidfd, struct sbx_error *err)
{
    char numbers[2][NUMBER_SIZE];
    const char *path = find_monitor(spec, err);
    if (path == NULL) {
        return -EINVAL;
    }
    char name[] = "sbx-monitor";
    char *argv[] = {name, numbers[0], numbers[1], NULL};
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(numbers[i], NUMBER_SIZE, "%d", passed->fds[i]);
    }
    const struct sbx_spawn spawn = {.path = path,
                                    .argv = argv,
                                    .envp = environ,
                                    .fds = passed->fds,
                                    .fd_count = passed->count};
    struct sbx_error why = {0};
    int r = sbx_spawn_orphan(&spawn, ret_pidfd, &why);
    bool executed = strncmp(why.message, path, strlen(path)) == 0;
    return r == 0 ? 0
                  : sbx_error_set(err, -r, SBX_STAGE_LAUNCH,
                                  "sbx-monitor cannot be started: %s%s", why.message,
                                  executed ? " (environment variable SBX_MONITOR: where "
                                             "it is)"
                                           : "");
}

static int send_spec(int socket, const char *text, size_t length, struct sbx_error *err)
{
    const struct sbx_wire_spec frame = {.head = {SBX_WIRE_SPEC, (int32_t)getpid()},
                                        .protocol = SBX_WIRE_PROTOCOL,
                                        .length = length};
    uint64_t deadline_us = sbx_clock_add(sbx_clock_us(), SPEC_BOUND_US);
    int r = sbx_wire_send(socket, &frame, sizeof frame, deadline_us);
    if (r == 0) {
        r = sbx_wire_send_text(socket, text, length, deadline_us);
    }
    if (r == -EPIPE) {
        return sbx_error_set(err, EPROTO, SBX_STAGE_LAUNCH, NOT_TAKEN, sbx_version());
    }
    return r == 0 ? 0
                  : sbx_error_set(err, -r, SBX_STAGE_LAUNCH,
                                  "sbx-monitor does not take the specification: %s",
                                  sbx_errno_text(-r).text);
}

/* `text` is the specification; the run's socket is set on success. */
static int launch(const struct sbx_spec *spec, const char *text, size_t length,
                  struct sbx_run *run, struct sbx_error *err)
{
    int ends[2] = {-1, -1};
    int r = sbx_run_open_sockets(ends, err);
    SBX_AUTO_CLOSE int mine = ends[0];
    SBX_AUTO_CLOSE int theirs = ends[1];
    if (r < 0) {
        return r;
    }
    SBX_AUTO_CLOSE int self = sbx_run_above_standard(sbx_pidfd_open(getpid()));
    if (self < 0) {
        int code = self < -1 ? -self : errno;
        return sbx_error_set(err, code, SBX_STAGE_LAUNCH, "pidfd_open: %s",
                             sbx_errno_text(code).text);
    }
    struct passed passed = {.fds = {theirs, self}, .count = 2};
    /* Not passed on, but it must not be meant by a number either. */
    struct passed guarded = passed;
    guarded.fds[guarded.count++] = mine;
    r = pass_named(&guarded, text, length, err);
    if (r == 0) {
        r = pass_named(&passed, text, length, err);
    }
    if (r == 0) {
        r = spawn_monitor(spec, &passed, &run->guard_pidfd, err);
    }
    sbx_fd_drop(&theirs);
    if (r == 0) {
        r = send_spec(mine, text, length, err);
    }
    if (r == 0) {
        run->socket = sbx_fd_steal(&mine);
    }
    return r;
}

struct sbx_run *sbx_run_new(struct sbx_error *err)
{
    struct sbx_run *run = calloc(1, sizeof *run);
    if (run == NULL) {
        (void)sbx_error_set(err, ENOMEM, SBX_STAGE_LAUNCH, "no memory for a run");
        return NULL;
    }
    run->socket = -1;
    run->owner = getpid();
    run->guard_pidfd = -1;
    return run;
}

static int start(const struct sbx_spec *spec, struct sbx_run **ret_run,
                 struct sbx_error *err)
{
    SBX_AUTO_FREE char *text = NULL;
    size_t length = 0;
    int r = sbx_run_check_settings(spec, err);
    if (r == 0) {
        r = sbx_run_check(spec, err);
    }
    if (r == 0) {
        r = sbx_wire_pack(spec, &text, &length, err);
    }
    if (r < 0) {
        return r;
    }
    struct sbx_run *run = sbx_run_new(err);
    if (run == NULL) {
        return -ENOMEM;
    }
    r = launch(spec, text, length, run, err);
    if (r < 0) {
        sbx_run_free(run);
        return r;
    }
    *ret_run = run;
    return 0;
}

int sbx_run_start(const struct sbx_spec *spec, struct sbx_run **ret_run,
                  struct sbx_error *err)
{
    int before = PTHREAD_CANCEL_ENABLE;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    int r = start(spec, ret_run, err);
    (void)pthread_setcancelstate(before, NULL);
    return r;
}

/* --- listening --- */

int sbx_run_fd(const struct sbx_run *run)
{
    return run->socket;
}

static void begin_answer(struct sbx_run *run, const struct sbx_wire_result *answer)
{
    run->answer = *answer;
    run->answered = true;
    free(run->report);
    run->report = NULL;
    run->report_length = 0;
    if (answer->length > 0 && answer->length < SIZE_MAX) {
        run->report = malloc((size_t)answer->length + 1);
    }
}

static void add_report(struct sbx_run *run, const union sbx_wire_frame *frame,
                       size_t length)
{
    if (run->report == NULL || frame->head.sender != run->answer.head.sender ||
        length > run->answer.length - run->report_length) {
        return;
    }
    memcpy(run->report + run->report_length, frame->text.text, length);
    run->report_length += length;
    run->report[run->report_length] = '\0';
}

static const char *reason_of(const struct sbx_wire_result *answer)
{
    return answer->reason == SBX_REASON_NONE
               ? NULL
               : sbx_reason_name((enum sbx_reason)answer->reason);
}

/* The processes of the run are gone: what they have said is the result. */
static void settle(struct sbx_run *run)
{
    struct sbx_result *result = &run->result;
    const struct sbx_wire_result *answer = &run->answer;
    *result = (struct sbx_result){.status = SBX_STATUS_FAILED, .exit_code = -1};
    if (!run->greeted) {
        result->outcome = sbx_outcome_name(SBX_OUTCOME_LAUNCH_FAILED);
        (void)sbx_error_set(&result->error, EPROTO, SBX_STAGE_LAUNCH, NOT_TAKEN,
                            sbx_version());
    } else if (!run->answered) {
        result->outcome = sbx_outcome_name(SBX_OUTCOME_LOST);
        (void)sbx_error_set(&result->error, ESRCH, SBX_STAGE_MONITOR,
                            "guard and monitor have ended without a result; if both "
                            "were killed, processes of the run may be left");
    } else {
        result->outcome = sbx_outcome_name((enum sbx_outcome)answer->outcome);
        result->status = answer->status;
        result->exit_code = answer->exit_code;
        result->signal = answer->signal;
        result->reason = reason_of(answer);
        result->error = answer->error;
    }
    if (run->answered && run->report != NULL && run->report_length == answer->length) {
        result->report = run->report;
        result->report_length = run->report_length;
    }
    if (run->guard_pidfd >= 0 && sbx_spawn_reap(run->guard_pidfd, GUARD_ENDS_MS)) {
        sbx_fd_drop(&run->guard_pidfd);
    }
    run->ended = true;
}

/* Takes one frame. True for progress. */
static bool take(struct sbx_run *run, const union sbx_wire_frame *frame, size_t size,
                 struct sbx_progress *ret_progress)
{
    switch ((enum sbx_wire_kind)frame->head.kind) {
    case SBX_WIRE_HELLO:
        run->greeted = true;
        return false;
    case SBX_WIRE_PROGRESS:
        if (ret_progress != NULL) {
            *ret_progress = frame->progress.progress;
        }
        return true;
    case SBX_WIRE_RESULT:
        begin_answer(run, &frame->result);
        return false;
    case SBX_WIRE_TEXT:
        add_report(run, frame, size - offsetof(struct sbx_wire_text, text));
        return false;
    case SBX_WIRE_NOTICE:
        sbx_run_take_notice(run, &frame->notice);
        return false;
    case SBX_WIRE_SPEC:
        break;
    }
    return false;
}

enum sbx_run_event sbx_run_next(struct sbx_run *run, struct sbx_progress *ret_progress)
{
    while (!run->ended) {
        union sbx_wire_frame frame;
        ssize_t size = sbx_wire_receive(run->socket, &frame);
        if (size == -EAGAIN) {
            return SBX_RUN_NOTHING;
        }
        if (size > 0 && take(run, &frame, (size_t)size, ret_progress)) {
            return SBX_RUN_PROGRESS;
        }
        if (size <= 0 && size != -EBADMSG) {
            settle(run);
        }
    }
    return SBX_RUN_FINISHED;
}

/* Until the descriptor is readable, not beyond the deadline. */
static void await_input(int fd, uint64_t rest_us)
{
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    uint64_t rest_ms = rest_us / 1000U + 1;
    (void)poll(&entry, 1, rest_ms < INT_MAX ? (int)rest_ms : INT_MAX);
}

int sbx_run_wait(struct sbx_run *run, uint64_t timeout_us)
{
    uint64_t deadline_us = sbx_clock_add(sbx_clock_us(), timeout_us);
    for (;;) {
        enum sbx_run_event event = sbx_run_next(run, NULL);
        if (event == SBX_RUN_FINISHED) {
            return 0;
        }
        uint64_t now = sbx_clock_us();
        if (event == SBX_RUN_PROGRESS) {
            continue;
        }
        if (now >= deadline_us) {
            return -ETIMEDOUT;
        }
        await_input(run->socket, deadline_us - now);
    }
}

const struct sbx_result *sbx_run_result(const struct sbx_run *run)
{
    return run->ended ? &run->result : NULL;
}

/* --- orders: from any thread, so they change nothing in the run --- */

static int order(const struct sbx_run *run, enum sbx_pair_message_kind kind, int value)
{
    const struct sbx_pair_message message = {.kind = (int32_t)kind, .value = value};
    int r = sbx_wire_send(run->socket, &message, sizeof message, 0);
    return r == 0 || r == -EAGAIN ? r : -ESRCH;
}

int sbx_run_cancel(struct sbx_run *run)
{
    int r = order(run, SBX_MESSAGE_CANCEL, SIGTERM);
    if (run->notices != NULL) {
        /* Forked from us: its command may have stopped it, and could not be ended. */
        (void)sbx_pidfd_signal(run->guard_pidfd, SIGCONT);
    }
    return r;
}

int sbx_run_signal(struct sbx_run *run, int signal_number)
{
    if (signal_number < 1 || signal_number > SIGRTMAX) {
        return -EINVAL;
    }
    return order(run, SBX_MESSAGE_PASS, signal_number);
}

int sbx_run_pause(struct sbx_run *run)
{
    return order(run, SBX_MESSAGE_PAUSE, 0);
}

int sbx_run_resume(struct sbx_run *run)
{
    return order(run, SBX_MESSAGE_RESUME, 0);
}

/* --- the end --- */

void sbx_run_free(struct sbx_run *run)
{
    if (run == NULL) {
        return;
    }
    bool owned = run->owner == getpid();
    if (run->socket >= 0) {
        /* A process that the caller has forked meanwhile may hold it too. When that
         * cleans up behind itself, the caller's run goes on. */
        if (owned) {
            (void)shutdown(run->socket, SHUT_RDWR);
        }
        (void)close(run->socket);
    }
    if (run->guard_pidfd >= 0) {
        if (owned) {
            (void)sbx_spawn_reap(run->guard_pidfd, run->ended ? GUARD_ENDS_MS : 0);
        }
        (void)close(run->guard_pidfd);
    }
    for (size_t i = 0; i < run->string_count; i++) {
        free(run->strings[i]);
    }
    free(run->strings);
    free(run->notices);
    free(run->report);
    free(run);
}

int sbx_run(const struct sbx_spec *spec, struct sbx_run **ret_run, struct sbx_error *err)
{
    struct sbx_run *run = NULL;
    int r = sbx_run_start(spec, &run, err);
    if (r < 0) {
        return r;
    }
    (void)sbx_run_wait(run, UINT64_MAX);
    *ret_run = run;
    return 0;
}

/* --- values of the report --- */

static int find(const struct sbx_run *run, const char *path, struct sbx_flat *ret_flat)
{
    const struct sbx_result *result = &run->result;
    if (!run->ended || result->report == NULL ||
        !sbx_flatten_find(result->report, result->report_length, path, ret_flat)) {
        return -ENOENT;
    }
    return 0;
}

int sbx_run_report_number(const struct sbx_run *run, const char *path,
                          uint64_t *ret_number)
{
    struct sbx_flat flat;
    char digits[24];
    int r = find(run, path, &flat);
    if (r < 0) {
        return r;
    }
    if (flat.length >= sizeof digits) {
        return -EINVAL;
    }
    memcpy(digits, flat.value, flat.length);
    digits[flat.length] = '\0';
    return sbx_text_count(digits, ret_number) < 0 ? -EINVAL : 0;
}

/* Without its quotes. Our writer escapes nothing but quotes and backslashes. */
static char *unquote(const struct sbx_flat *flat)
{
    char *text = malloc(flat->length);
    size_t used = 0;
    for (size_t i = 1; text != NULL && i + 1 < flat->length; i++) {
        i += flat->value[i] == '\\' ? 1 : 0;
        text[used++] = flat->value[i];
    }
    if (text != NULL) {
        text[used] = '\0';
    }
    return text;
}

int sbx_run_report_string(struct sbx_run *run, const char *path, const char **ret_string)
{
    struct sbx_flat flat;
    int r = find(run, path, &flat);
    if (r < 0) {
        return r;
    }
    if (flat.length < 2 || flat.value[0] != '"') {
        return -EINVAL;
    }
    char **strings =
        realloc(run->strings, (run->string_count + 1) * sizeof *run->strings);
    if (strings == NULL) {
        return -ENOMEM;
    }
    run->strings = strings;
    char *text = unquote(&flat);
    if (text == NULL) {
        return -ENOMEM;
    }
    strings[run->string_count++] = text;
    *ret_string = text;
    return 0;
}
