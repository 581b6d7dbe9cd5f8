/*
 * logger.c - see logger.h: the side of guard and monitor. What it costs them is a system
 * call for each message, and at the end a wait with a bound. Never allocates.
 */
#include "monitor/logger.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define FILE_MODE 0640
#define NAME_SHOWN 72
/* Of what the servant was told: at the end, and before a sweep that waits for us. */
#define LEAVES_EARLIER_US UINT64_C(200000)
#define PAUSE_US 100000U

/* --- opening --- */

static int fail(struct sbx_error *err, int r, const char *option, const char *path)
{
    char shown[SBX_ERROR_MESSAGE_SIZE / 2];
    (void)sbx_text_escape(shown, sizeof shown, path, strlen(path));
    return sbx_error_set(err, -r, SBX_STAGE_CHECK,
                         "option --%s: %s cannot be written: %s", option, shown,
                         sbx_errno_text(-r).text);
}

static int open_sink(struct sbx_logger *logger, const struct sbx_log_target *target,
                     struct sbx_error *err)
{
    struct sbx_logger_sink sink = {.target = *target, .file = SBX_NO_LOG_FILE};
    int base = logger->plan->directory_fd >= 0 ? logger->plan->directory_fd : AT_FDCWD;
    if (target->kind == SBX_LOG_FILE) {
        int r = sbx_log_file_open(base, target->path, FILE_MODE, &sink.file);
        if (r < 0) {
            return fail(err, r, "log", target->path);
        }
    }
    logger->sinks[logger->sink_count++] = sink;
    return 0;
}

int sbx_logger_open(struct sbx_logger *logger, struct sbx_error *err)
{
    const struct sbx_log_plan *plan = logger->plan;
    int result = 0;
    for (size_t i = 0; i < plan->target_count; i++) {
        int r = open_sink(logger, &plan->targets[i], result < 0 ? NULL : err);
        result = result < 0 ? result : r;
    }
    if (plan->target_count == 0 && plan->verbose) {
        const struct sbx_log_target target = {.kind = SBX_LOG_STDERR};
        (void)open_sink(logger, &target, NULL);
    }
    if (plan->timeline_path == NULL || logger->refused) {
        return result;
    }
    int base = plan->directory_fd >= 0 ? plan->directory_fd : AT_FDCWD;
    int r = sbx_timeline_open(base, plan->timeline_path, &logger->timeline);
    logger->has_timeline = r == 0;
    if (r < 0 && result == 0) {
        result = fail(err, r, "timeline", plan->timeline_path);
    }
    return result;
}

void sbx_logger_without_stderr(struct sbx_logger *logger)
{
    size_t kept = 0;
    for (size_t i = 0; i < logger->sink_count; i++) {
        if (logger->sinks[i].target.kind != SBX_LOG_STDERR) {
            logger->sinks[kept++] = logger->sinks[i];
        }
    }
    logger->sink_count = kept;
}

/* --- the servant --- */

static bool has_work(const struct sbx_logger *logger)
{
    return logger->sink_count > 0 || (logger->has_timeline && !logger->refused);
}

int sbx_logger_start(struct sbx_logger *logger, struct sbx_error *err)
{
    int sockets[2];
    if (!has_work(logger)) {
        return 0;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0) {
        return sbx_error_set(err, errno, SBX_STAGE_LAUNCH, "socketpair: %s",
                             sbx_errno_text(errno).text);
    }
    struct sbx_log_service service = {.logger = logger,
                                      .socket = sockets[1],
                                      .guard = getpid(),
                                      .bound = SBX_TIMELINE_BOUND_BYTES};
    int r =
        sbx_servant_start(&logger->servant, "sbx-logger", sbx_log_serve, &service, err);
    (void)close(sockets[1]);
    if (r < 0) {
        (void)close(sockets[0]);
        return r;
    }
    logger->socket = sockets[0];
    return 0;
}

/* --- messages --- */

static bool transmit(int socket, const struct sbx_log_message *message, size_t size)
{
    ssize_t sent;
    size += offsetof(struct sbx_log_message, is);
    do {
        sent = send(socket, message, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    return sent >= 0;
}

/* For the last ones, which may wait until the servant has got to them. */
static void insist(int socket, const struct sbx_log_message *message, size_t size,
                   uint64_t until_us)
{
    while (!transmit(socket, message, size) && errno == EAGAIN) {
        uint64_t now_us = sbx_clock_us();
        if (now_us >= until_us) {
            return;
        }
        struct pollfd room = {.fd = socket, .events = POLLOUT};
        (void)poll(&room, 1, (int)((until_us - now_us) / 1000U) + 1);
    }
}

/* `until_us`: how long it may take; 0: no time at all. */
static void tell(const struct sbx_logger *logger, const struct sbx_log_message *message,
                 uint64_t until_us)
{
    if (logger->sink_count == 0 ||
        message->is.line.level > sbx_log_level_of(logger->plan)) {
        return;
    }
    atomic_fetch_add(&logger->area->lines_sent, 1);
    insist(logger->socket, message, sizeof message->is.line, until_us);
}

static const char *const phase_names[] = {
    [SBX_PHASE_RUNNING] = "running", [SBX_PHASE_LINGERING] = "lingering",
    [SBX_PHASE_WAITING] = "waiting", [SBX_PHASE_POLITE] = "polite",
    [SBX_PHASE_SWEEPING] = "sweep",  [SBX_PHASE_DONE] = "done",
};

void sbx_logger_look(struct sbx_logger *logger, const struct sbx_record *record,
                     enum sbx_phase phase)
{
    struct sbx_log_message message = {.kind = SBX_LOG_TELL};
    struct sbx_log_area *area = logger->area;
    if (logger->socket < 0) {
        return;
    }
    if (!area->started && record->leader_pid > 0) {
        area->started = true;
        sbx_log_started(&message.is.line, record);
        tell(logger, &message, 0);
    }
    while (area->warned < record->warnings_count && area->warned < SBX_WARNING_MAX) {
        sbx_log_warned(&message.is.line, record, area->warned++);
        tell(logger, &message, 0);
    }
    if (!area->breached && record->breach.reason != SBX_REASON_NONE) {
        area->breached = true;
        sbx_log_breached(&message.is.line, record);
        tell(logger, &message, 0);
    }
    if (area->phase != phase) {
        area->phase = phase;
        sbx_log_phase(&message.is.line, record, phase_names[phase],
                      phase == SBX_PHASE_POLITE ? logger->polite_signal : 0);
        tell(logger, &message, 0);
    }
}

void sbx_logger_row(const struct sbx_logger *logger, const struct sbx_sample *sample)
{
    if (logger->socket < 0 || !logger->has_timeline) {
        return;
    }
    struct sbx_log_message message;
    message.kind = SBX_LOG_ROW;
    message.is.row = sbx_timeline_row_of(sample);
    atomic_fetch_add(&logger->area->rows_sent, 1);
    (void)transmit(logger->socket, &message, sizeof message.is.row);
}

/* --- the end --- */

/* The servant gets that much time for what it has been told. */
static void end_servant(struct sbx_logger *logger, uint64_t until_us)
{
    if (logger->socket >= 0) {
        struct sbx_log_message message = {.kind = SBX_LOG_END};
        sbx_servant_continue(&logger->servant);
        uint64_t now_us = sbx_clock_us();
        uint64_t left_us = until_us > now_us ? until_us - now_us : 0;
        /* Earlier than we end it: it may tell what was lost and why. */
        uint64_t earlier_us = left_us > 2 * LEAVES_EARLIER_US ? LEAVES_EARLIER_US : 0;
        message.is.until_us = until_us - earlier_us;
        insist(logger->socket, &message, sizeof message.is.until_us, until_us);
        sbx_fd_drop(&logger->socket);
        (void)sbx_servant_wait(&logger->servant, until_us);
    }
    sbx_servant_done(&logger->servant);
}

/* What is missing, as a message; false when nothing is. */
static bool spell_loss(const struct sbx_log_told *told, uint64_t sent, const char *name,
                       const char *what, char text[static SBX_WARNING_SIZE])
{
    uint64_t written = atomic_load(&told->written);
    int code = atomic_load(&told->code);
    char shown[NAME_SHOWN];
    if (written >= sent) {
        return false;
    }
    (void)sbx_text_escape(shown, sizeof shown, name, strlen(name));
    (void)snprintf(text, SBX_WARNING_SIZE, "%s: %" PRIu64 " of %" PRIu64 " %s lost: %s",
                   shown, sent - written, sent, what,
                   sbx_errno_name(code != 0 ? code : ETIMEDOUT));
    return true;
}

/* Loss `index`, of sink after sink and then the timeline. */
static bool spell_loss_at(const struct sbx_logger *logger, size_t index,
                          char text[static SBX_WARNING_SIZE])
{
    const struct sbx_log_area *area = logger->area;
    char name[NAME_SHOWN];
    if (index < logger->sink_count) {
        char target[NAME_SHOWN - 4];
        sbx_log_target_name(&logger->sinks[index].target, target, sizeof target);
        (void)snprintf(name, sizeof name, "log %s", target);
        return spell_loss(&area->sinks[index], atomic_load(&area->lines_sent), name,
                          "lines", text);
    }
    if (!logger->has_timeline) {
        return false;
    }
    (void)snprintf(name, sizeof name, "timeline %s", logger->plan->timeline_path);
    return spell_loss(&area->timeline, atomic_load(&area->rows_sent), name, "rows", text);
}

/* Whether there is nobody who could tell the end, and why (0: there is). */
static void note_silence(const struct sbx_logger *logger, int code)
{
    struct sbx_log_area *area = logger->area;
    atomic_store(&area->mute, code != 0);
    for (size_t i = 0; i < logger->sink_count && code != 0; i++) {
        sbx_log_fault(&area->sinks[i], code);
    }
    if (code != 0) {
        sbx_log_fault(&area->timeline, code);
    }
}

void sbx_logger_finish(struct sbx_logger *logger, struct sbx_record *record)
{
    struct sbx_log_message message = {.kind = SBX_LOG_TELL};
    struct sbx_error error = {0};
    char text[SBX_WARNING_SIZE];
    if (!has_work(logger)) {
        return;
    }
    uint64_t until_us = sbx_clock_us() + SBX_LOGGER_BOUND_US;
    if (logger->socket < 0 || sbx_servant_wait(&logger->servant, 0)) {
        sbx_fd_drop(&logger->socket);
        sbx_servant_done(&logger->servant);
        int r = sbx_logger_start(logger, &error);
        note_silence(logger, r < 0 ? -r : 0);
    }
    sbx_servant_continue(&logger->servant); /* what comes now may need room */
    sbx_logger_look(logger, record, logger->area->phase);
    sbx_log_finished(&message.is.line, record);
    tell(logger, &message, until_us);
    end_servant(logger, until_us);
    for (size_t i = 0; i <= logger->sink_count; i++) {
        if (spell_loss_at(logger, i, text)) {
            sbx_record_warn(record, "%s", text);
        }
    }
}

void sbx_logger_pause(struct sbx_logger *logger)
{
    end_servant(logger, sbx_clock_us() + PAUSE_US);
}

void sbx_logger_close(struct sbx_logger *logger)
{
    sbx_fd_drop(&logger->socket);
    sbx_servant_done(&logger->servant);
    for (size_t i = 0; i < logger->sink_count; i++) {
        sbx_log_file_close(&logger->sinks[i].file);
    }
    logger->sink_count = 0;
    sbx_timeline_close(&logger->timeline);
    logger->has_timeline = false;
}

bool sbx_logger_has_stderr(const struct sbx_logger *logger)
{
    for (size_t i = 0; i < logger->sink_count; i++) {
        if (logger->sinks[i].target.kind == SBX_LOG_STDERR) {
            return !atomic_load(&logger->area->mute);
        }
    }
    return false;
}

size_t sbx_logger_complaints(const struct sbx_logger *logger, char *buffer, size_t size)
{
    char text[SBX_WARNING_SIZE];
    size_t used = 0;
    for (size_t i = 0; i <= logger->sink_count; i++) {
        bool own =
            i < logger->sink_count && logger->sinks[i].target.kind == SBX_LOG_STDERR;
        if (own || !has_work(logger) || !spell_loss_at(logger, i, text)) {
            continue;
        }
        int length = snprintf(buffer + used, size - used, "sbx-watch: %s\n", text);
        if (length > 0 && (size_t)length < size - used) {
            used += (size_t)length;
        }
    }
    return used;
}
