/*
 * service_verify.c - what this host can hold, for a client that asks. To find out takes a
 * second or two, so a child does it: one at a time, whose answer goes to all that wait,
 * and to those who ask within the next minute.
 *
 * The child has nothing of ours but one end of a pipe. What it starts ends with it.
 */
#include "supervisor/service_private.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/http.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT_MAX ((size_t)256 * 1024)
#define READ_SIZE ((size_t)16 * 1024)
#define FIRST_FREE 3

/* --- the child --- */

static void close_others(int kept)
{
    if (dup2(kept, FIRST_FREE) < 0 || fcntl(FIRST_FREE, F_SETFD, FD_CLOEXEC) < 0) {
        _exit(1);
    }
    if (syscall(SYS_close_range, FIRST_FREE + 1, ~0U, 0) < 0) {
        /* A kernel without it: all are marked, so that nothing that is executed has them.
         */
        (void)sbx_fd_cloexec_from(FIRST_FREE);
    }
}

static void reset_signals(void)
{
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;
    for (int number = 1; number <= SIGRTMAX; number++) {
        (void)sigaction(number, &plain, NULL); /* some cannot be, and need not */
    }
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void verify(int out, pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    if (getppid() != parent) {
        _exit(1);
    }
    close_others(out);
    reset_signals();
    struct sbx_verification *verification = sbx_verification_new();
    if (verification == NULL || sbx_verification_run(verification, NULL) < 0) {
        _exit(1);
    }
    const char *json = sbx_verification_json(verification);
    bool written = json != NULL && sbx_fd_write_all(FIRST_FREE, json, strlen(json)) == 0;
    _exit(written ? 0 : 1);
}

/* --- its end --- */

static bool waits(const struct sbx_connection *connection)
{
    return connection->call.request != NULL &&
           connection->call.resource == SBX_RESOURCE_VERIFY &&
           connection->call.resume != NULL;
}

/* To all that wait. Answering one changes nothing about another. */
static void tell_all(struct sbx_service_http *service, int code)
{
    struct sbx_connection *connection = NULL;
    LIST_FOREACH(connection, &service->connections, link)
    {
        if (waits(connection)) {
            sbx_call_go_on(connection, code);
        }
    }
}

static void stop_reading(struct sbx_service_verify *verify)
{
    if (verify->readable != NULL) {
        event_free(verify->readable);
        verify->readable = NULL;
    }
    if (verify->bound != NULL) {
        event_free(verify->bound);
        verify->bound = NULL;
    }
    sbx_fd_drop(&verify->fd);
}

/* Ends the child, if it has not ended, and takes its status. */
static int reap(struct sbx_service_verify *verify, bool ended)
{
    int status = 0;
    pid_t pid = verify->pid;
    verify->pid = 0;
    if (!ended) {
        (void)kill(pid, SIGKILL);
    }
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return -1;
        }
    }
    return status;
}

static void conclude(struct sbx_service_http *service, bool ended)
{
    struct sbx_service_verify *verify = &service->verify;
    stop_reading(verify);
    int status = reap(verify, ended);
    bool valid = ended && WIFEXITED(status) && WEXITSTATUS(status) == 0 &&
                 verify->length > 0 && verify->length < TEXT_MAX;
    verify->until_us = valid ? sbx_clock_us() + SBX_VERIFIED_US : 0;
    tell_all(service, valid ? 0 : EIO);
}

static void on_readable(evutil_socket_t fd, short what, void *context)
{
    struct sbx_service_http *service = context;
    struct sbx_service_verify *verify = &service->verify;
    char rest[READ_SIZE];
    (void)what;
    ssize_t length = read(fd, rest, sizeof rest);
    if (length < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (length <= 0) {
        conclude(service, true);
        return;
    }
    size_t room = TEXT_MAX - verify->length;
    size_t taken = (size_t)length < room ? (size_t)length : room;
    memcpy(verify->text + verify->length, rest, taken);
    verify->length += taken;
}

static void on_bound(evutil_socket_t fd, short what, void *context)
{
    (void)fd;
    (void)what;
    conclude(context, false);
}

/* --- its beginning --- */

static int read_child(struct sbx_service_http *service)
{
    static const struct timeval bound = {.tv_sec = SBX_VERIFY_US / SBX_US_PER_S};
    struct sbx_service_verify *verify = &service->verify;
    verify->readable =
        event_new(service->base, verify->fd, EV_READ | EV_PERSIST, on_readable, service);
    verify->bound = event_new(service->base, -1, 0, on_bound, service);
    bool reads = verify->readable != NULL && verify->bound != NULL &&
                 event_add(verify->readable, NULL) == 0 &&
                 event_add(verify->bound, &bound) == 0;
    return reads ? 0 : -ENOMEM;
}

static int begin(struct sbx_service_http *service)
{
    struct sbx_service_verify *verify_state = &service->verify;
    int ends[2];
    if (verify_state->text == NULL) {
        verify_state->text = malloc(TEXT_MAX);
    }
    if (verify_state->text == NULL || pipe2(ends, O_CLOEXEC) < 0) {
        return verify_state->text == NULL ? -ENOMEM : -errno;
    }
    SBX_AUTO_CLOSE int out = ends[1];
    verify_state->fd = ends[0];
    verify_state->length = 0;
    verify_state->until_us = 0;
    pid_t parent = getpid();
    int r = fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0 ? -errno : read_child(service);
    verify_state->pid = r < 0 ? -1 : fork();
    if (verify_state->pid == 0) {
        verify(out, parent);
    }
    if (verify_state->pid < 0) {
        r = r < 0 ? r : -errno;
        verify_state->pid = 0;
        stop_reading(verify_state);
    }
    return r;
}

/* --- the call --- */

static void answer_verified(struct sbx_connection *connection, int code)
{
    const struct sbx_service_verify *verify_state = &connection->service->verify;
    if (code != 0) {
        sbx_answer_error(connection, HTTP_SERVUNAVAIL, "verify_failed",
                         "the verification came to no end");
        return;
    }
    sbx_answer_copy(connection, HTTP_OK, verify_state->text, verify_state->length);
}

void sbx_call_verify(struct sbx_connection *connection)
{
    struct sbx_service_http *service = connection->service;
    const struct sbx_service_verify *verify_state = &service->verify;
    if (verify_state->pid == 0 && sbx_clock_us() < verify_state->until_us) {
        answer_verified(connection, 0);
        return;
    }
    int r = verify_state->pid == 0 ? begin(service) : 0;
    if (r < 0) {
        sbx_answer_errno(connection, -r, "the verification cannot be started");
        return;
    }
    sbx_call_await_other(connection, answer_verified,
                         sbx_clock_add(sbx_clock_us(), SBX_VERIFY_US));
}

void sbx_service_verify_close(struct sbx_service_http *service)
{
    struct sbx_service_verify *verify_state = &service->verify;
    stop_reading(verify_state);
    if (verify_state->pid > 0) {
        (void)reap(verify_state, false);
    }
    free(verify_state->text);
    verify_state->text = NULL;
}
