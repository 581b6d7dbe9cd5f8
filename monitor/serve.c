/*
 * serve.c - see serve.h, and what the program sbx-monitor does: take the specification,
 * let go of every descriptor of the caller's that is not meant for the run, run.
 *
 * Started by spawn.c with all signals blocked, which they stay. Trusts the caller no
 * further than it has to: what does not arrive as a whole is not run.
 */
#include "monitor/serve.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "monitor/run.h"
#include "monitor/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Asked for; what the kernel gives is twice net.core.wmem_max at most. */
#define SEND_BUFFER (1024 * 1024)
/* Of that, so much may be filled with progress that nobody reads. */
#define PROGRESS_SHARE 32768
/* How long a result waits for a caller, where it does not fit. */
#define PATIENCE_US (10 * (uint64_t)SBX_US_PER_S)
/* How long a specification that was begun may take: the caller sends it in one go. */
#define SPEC_BOUND_US (60 * (uint64_t)SBX_US_PER_S)

/* --- progress and result --- */

uint64_t sbx_service_progress(struct sbx_service *service,
                              const struct sbx_record *record)
{
    uint64_t now = sbx_clock_us();
    if (service->period_us == 0) {
        return SBX_FOREVER_US;
    }
    if (now < service->next_us) {
        return service->next_us;
    }
    service->next_us = sbx_clock_add(now, service->period_us);
    const struct sbx_current sample = record->current;
    int unread = 0;
    bool full = ioctl(service->socket, SIOCOUTQ, &unread) < 0 || unread > PROGRESS_SHARE;
    if (full || sample.sampled_us == service->sampled_us) {
        return service->next_us;
    }
    service->sampled_us = sample.sampled_us;
    const struct sbx_wire_progress frame = {
        .head = {SBX_WIRE_PROGRESS, (int32_t)getpid()},
        .progress = {.elapsed_us = sample.sampled_us - sample.launched_us,
                     .cpu_us = record->usage.cpu_us,
                     .memory_bytes = sample.memory_bytes,
                     .processes = sample.processes,
                     .threads = sample.threads},
    };
    (void)sbx_wire_send(service->socket, &frame, sizeof frame, 0);
    return service->next_us;
}

void sbx_service_finish(const struct sbx_service *service,
                        const struct sbx_service_result *result)
{
    const struct sbx_record *record = result->record;
    struct sbx_wire_result frame = {
        .head = {SBX_WIRE_RESULT, (int32_t)getpid()},
        .outcome = (int32_t)record->outcome,
        .reason = record->outcome == SBX_OUTCOME_BREACH ? (int32_t)record->breach.reason
                                                        : SBX_REASON_NONE,
        .status = result->status,
        .exit_code = record->has_exit_code ? record->exit_code & 0xff : -1,
        .signal = record->has_exit_code ? 0 : record->signal,
        .length = result->length,
        .error = record->error.code != 0 ? record->error : *result->error,
    };
    uint64_t deadline_us = sbx_clock_add(sbx_clock_us(), PATIENCE_US);
    if (sbx_wire_send(service->socket, &frame, sizeof frame, deadline_us) == 0) {
        (void)sbx_wire_send_text(service->socket, result->report, result->length,
                                 deadline_us);
    }
}

/* --- taking the specification --- */

/* Waits for a frame. Its size; 0 at the end; or a negative errno. */
static ssize_t await_frame(int socket, union sbx_wire_frame *frame, uint64_t deadline_us)
{
    for (;;) {
        ssize_t size = sbx_wire_receive(socket, frame);
        uint64_t now = sbx_clock_us();
        if (size != -EAGAIN) {
            return size;
        }
        if (now >= deadline_us) {
            return -ETIMEDOUT;
        }
        struct pollfd fd = {.fd = socket, .events = POLLIN};
        (void)poll(&fd, 1, (int)((deadline_us - now) / 1000U) + 1);
    }
}

/* The text of the specification, for the caller to free; NULL when there is none to be
 * had: nobody is there, or what is there is no caller of this version. */
static char *take_text(int socket, size_t *ret_length)
{
    union sbx_wire_frame frame;
    uint64_t deadline_us = sbx_clock_add(sbx_clock_us(), SPEC_BOUND_US);
    ssize_t size = await_frame(socket, &frame, deadline_us);
    if (size <= 0 || frame.head.kind != SBX_WIRE_SPEC ||
        frame.spec.protocol != SBX_WIRE_PROTOCOL ||
        frame.spec.length > SBX_WIRE_SPEC_MAX || frame.spec.length == 0) {
        return NULL;
    }
    size_t length = (size_t)frame.spec.length;
    SBX_AUTO_FREE char *text = malloc(length);
    for (size_t used = 0; text != NULL && used < length;) {
        size = await_frame(socket, &frame, deadline_us);
        size_t part = (size_t)size - offsetof(struct sbx_wire_text, text);
        if (size <= 0 || frame.head.kind != SBX_WIRE_TEXT || part > length - used) {
            return NULL;
        }
        memcpy(text + used, frame.text.text, part);
        used += part;
    }
    char *taken = text;
    text = NULL;
    *ret_length = length;
    return taken;
}

/* --- the program --- */

struct guest {
    struct sbx_service service;
    char *text;
    size_t length;
};

static int keep_only(int *keep, size_t count, struct sbx_error *err)
{
    int r = sbx_fd_close_others(keep, count);
    return r < 0 ? sbx_error_set(err, -r, SBX_STAGE_LAUNCH,
                                 "the caller's descriptors cannot be closed: %s",
                                 sbx_errno_text(-r).text)
                 : 0;
}

static int let_go(const struct guest *guest, struct sbx_error *err)
{
    int keep[SBX_WIRE_FDS_MAX + 2] = {guest->service.socket, guest->service.caller_pidfd};
    size_t count = 2;
    count += sbx_wire_fds(guest->text, guest->length, keep + count, SBX_WIRE_FDS_MAX);
    for (size_t i = 0; i < 2; i++) {
        (void)fcntl(keep[i], F_SETFD, FD_CLOEXEC);
    }
    return keep_only(keep, count, err);
}

/* The launch knows what the command keeps. */
static int close_on_exec(struct sbx_error *err)
{
    int r = sbx_fd_cloexec_from(STDERR_FILENO + 1);
    return r < 0 ? sbx_error_set(err, -r, SBX_STAGE_LAUNCH, "close-on-exec: %s",
                                 sbx_errno_text(-r).text)
                 : 0;
}

static void grow_buffer(int socket)
{
    int size = SEND_BUFFER;
    (void)setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
}

static bool is_gone(int socket)
{
    struct pollfd fd = {.fd = socket, .events = POLLIN};
    return poll(&fd, 1, 0) > 0 && (fd.revents & (POLLHUP | POLLERR)) != 0;
}

static int serve(struct guest *guest)
{
    const struct sbx_wire_head hello = {SBX_WIRE_HELLO, (int32_t)getpid()};
    struct sbx_spec *spec = sbx_spec_new();
    struct sbx_error error = {0};
    if (spec == NULL) {
        return SBX_STATUS_FAILED; /* the caller sees us go without a word */
    }
    int r = let_go(guest, &error);
    if (r == 0) {
        r = sbx_wire_replay(guest->text, guest->length, spec, &error);
    }
    if (r == 0) {
        r = close_on_exec(&error);
    }
    grow_buffer(guest->service.socket);
    if (sbx_wire_send(guest->service.socket, &hello, sizeof hello, 0) == 0 &&
        !is_gone(guest->service.socket)) {
        guest->service.period_us = spec->progress_us;
        sbx_run_served(spec, r < 0 ? &error : NULL, &guest->service);
    }
    sbx_spec_free(spec);
    return 0;
}

void sbx_serve_forked(const struct sbx_spec *spec, struct sbx_service *service)
{
    struct sbx_error error = {0};
    int keep[SBX_SPEC_FDS_MAX + 3] = {service->socket, service->caller_pidfd};
    size_t count = 2;
    if (service->shared_fd >= 0) {
        keep[count++] = service->shared_fd;
    }
    count += sbx_spec_fds(spec, keep + count);
    int r = keep_only(keep, count, &error);
    if (r == 0) {
        r = close_on_exec(&error);
    }
    grow_buffer(service->socket);
    service->period_us = spec->progress_us;
    sbx_run_served(spec, r < 0 ? &error : NULL, service);
}

void sbx_service_leave(struct sbx_service *service)
{
    sbx_fd_drop(&service->socket);
    sbx_fd_drop(&service->caller_pidfd);
    sbx_fd_drop(&service->shared_fd);
}

/* An open descriptor above 2. */
static bool parse_fd(const char *text, int *ret_fd)
{
    uint64_t number = 0;
    if (sbx_text_count(text, &number) < 0 || number > INT_MAX ||
        number <= STDERR_FILENO || fcntl((int)number, F_GETFD) < 0) {
        return false;
    }
    *ret_fd = (int)number;
    return true;
}

int sbx_monitor_main(int argc, char *argv[])
{
    struct guest guest = {.service = {.shared_fd = -1}};
    if (argc != 3 || !parse_fd(argv[1], &guest.service.socket) ||
        !parse_fd(argv[2], &guest.service.caller_pidfd) || sbx_fd_open_standard() < 0) {
        return SBX_STATUS_FAILED;
    }
    (void)prctl(PR_SET_NAME, "sbx-guard", 0, 0, 0);
    guest.text = take_text(guest.service.socket, &guest.length);
    if (guest.text == NULL) {
        return SBX_STATUS_FAILED;
    }
    int status = serve(&guest);
    free(guest.text);
    return status;
}
