/*
 * supervise.c - sbx-run while its sandbox runs: waits, passes signals on, and learns how
 * it ended from the program inside, never from a text or a mere exit status.
 *
 * It ends the sandbox by closing the socket, which the kernel does for it too, however it
 * dies. Its own parent's end is watched by pidfd: a parent-death signal would come when
 * that thread of the parent ends which has started us.
 */
#include "sandbox/launch.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "monitor/option_rules.h"
#include "reaper/namespace.h"
#include "sandbox/layers.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* bubblewrap's mounts may be on a slow network; on a dead one they would hang for ever.
 */
#define READY_BOUND_US (60 * (uint64_t)SBX_US_PER_S)
/* From the end of the command the kernel only has to end the rest. */
#define END_BOUND_US (30 * (uint64_t)SBX_US_PER_S)
/* From SIGKILL on; one that hangs in such a mount does not hear even that. */
#define KILL_BOUND_US (5 * (uint64_t)SBX_US_PER_S)
/* That it stays, sbx-inner only has to say; who was stopped there does not. */
#define AGREEMENT_BOUND_US (2 * (uint64_t)SBX_US_PER_S)
#define STATUS_SIZE 512

struct watch {
    struct sbx_flight *flight;
    int signals;
    int parent; /* pidfd; -1: it cannot be watched */
    bool ready;
    bool failed; /* `record` says why */
    bool started;
    bool ended; /* `record` says how */
    bool alone; /* nobody was left inside */
    bool stays; /* whatever becomes of bubblewrap */
    bool parent_ended;
    bool hung;
    struct sbx_inner_record record;
    uint64_t deadline_us; /* by which it must be ready */
    char said[SBX_SAID_SIZE];
    size_t said_used;
    char status[STATUS_SIZE];
    size_t status_used;
    int killed_by; /* the signal that ended bubblewrap; 0: none */
};

/* --- the parent --- */

static int watch_parent(void)
{
    pid_t parent = getppid();
    if (parent <= 0) {
        return -1; /* in another PID namespace, whose end would be ours */
    }
    int fd = (int)syscall(SYS_pidfd_open, parent, 0);
    if (fd >= 0 && getppid() != parent) {
        (void)close(fd);
        return -1; /* adopted meanwhile: it has ended, and the new one is a stranger */
    }
    return fd;
}

/* With --pid-namespace. No file of the command's could be that process: it is older. */
static bool parent_is_init_of_ours(void)
{
    static const char name[] = SBX_NAMESPACE_INIT_NAME "\n";
    char text[32];
    return getppid() == 1 &&
           sbx_fd_read_text_at(AT_FDCWD, "/proc/1/comm", text, sizeof text) > 0 &&
           strcmp(text, name) == 0;
}

/* A monitor of ours ends what is left after the command, and wants to name it before. */
static bool parent_sweeps(void)
{
    char link[32];
    char path[PATH_MAX];
    (void)snprintf(link, sizeof link, "/proc/%d/exe", (int)getppid());
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) {
        return parent_is_init_of_ours(); /* whose file an ordinary user may not see */
    }
    path[length] = '\0';
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    return strcmp(name, "sbx-watch") == 0 || strcmp(name, "sbx-monitor") == 0 ||
           strcmp(name, "sbx-keeper") == 0;
}

/* --- words down --- */

/* Nobody there any more: the end is on its way. */
static void tell(const struct watch *watch, enum sbx_inner_order order, int number)
{
    const struct sbx_inner_word word = {.order = (int32_t)order, .number = number};
    (void)send(watch->flight->socket, &word, sizeof word, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void pass_on(struct watch *watch, int number)
{
    if (number == SIGTSTP) {
        tell(watch, SBX_INNER_SIGNAL, SIGSTOP);
        (void)kill(getpid(), SIGSTOP);
        return;
    }
    tell(watch, SBX_INNER_SIGNAL, number);
}

/* --- what is heard --- */

static void reap(struct watch *watch)
{
    struct sbx_flight *flight = watch->flight;
    int status = 0;
    if (flight->bwrap > 0 && waitpid(flight->bwrap, &status, WNOHANG) == flight->bwrap) {
        flight->bwrap = 0;
        watch->killed_by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    }
}

static void hear_signal(struct watch *watch)
{
    struct signalfd_siginfo info;
    while (read(watch->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD) {
            reap(watch);
        } else {
            pass_on(watch, (int)info.ssi_signo);
        }
    }
}

static void take_record(struct watch *watch, const struct sbx_inner_record *record)
{
    switch (record->kind) {
    case SBX_INNER_READY:
        watch->ready = true;
        break;
    case SBX_INNER_STARTED:
        watch->started = true;
        break;
    case SBX_INNER_STAYS:
        watch->stays = true;
        break;
    case SBX_INNER_FAILED:
        watch->failed = true;
        watch->record = *record;
        break;
    case SBX_INNER_ENDED:
    case SBX_INNER_ENDED_ALONE:
        watch->alone = record->kind == SBX_INNER_ENDED_ALONE;
        watch->started = true;
        watch->ended = true;
        watch->record = *record;
        break;
    default:
        break;
    }
}

/* False at the end. */
static bool hear_record(struct watch *watch)
{
    struct sbx_inner_record record;
    ssize_t length = recv(watch->flight->socket, &record, sizeof record, MSG_DONTWAIT);
    if (length == (ssize_t)sizeof record) {
        record.error.message[sizeof record.error.message - 1] = '\0';
        take_record(watch, &record);
        return true;
    }
    /* Reset: words of ours were left unread; what was told before is still to come. */
    return length < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNRESET);
}

/* Appends what there is, the rest is dropped. False at the end. */
static bool hear_text(int fd, char *buffer, size_t size, size_t *used)
{
    char rest[256];
    size_t room = size - 1 - *used;
    ssize_t length =
        room > 0 ? read(fd, buffer + *used, room) : read(fd, rest, sizeof rest);
    if (length > 0 && room > 0) {
        *used += (size_t)length;
        buffer[*used] = '\0';
    }
    return length > 0 || (length < 0 && (errno == EAGAIN || errno == EINTR));
}

static bool is_over(const struct watch *watch)
{
    return watch->ended || watch->failed || watch->parent_ended || watch->hung ||
           watch->flight->bwrap == 0;
}

static int time_left_ms(const struct watch *watch)
{
    uint64_t now_us = sbx_clock_us();
    if (watch->ready || watch->started) {
        return -1;
    }
    return now_us >= watch->deadline_us ? 0
                                        : (int)((watch->deadline_us - now_us) / 1000) + 1;
}

/* One that has nothing more to say is looked at no more. */
static void look(struct watch *watch, struct pollfd *polled)
{
    struct sbx_flight *flight = watch->flight;
    const short any = POLLIN | POLLHUP | POLLERR;
    if ((polled[1].revents & any) != 0 && !hear_record(watch)) {
        polled[1].fd = -1;
    }
    if ((polled[2].revents & any) != 0 &&
        !hear_text(flight->said, watch->said, sizeof watch->said, &watch->said_used)) {
        polled[2].fd = -1;
    }
    if ((polled[3].revents & any) != 0 &&
        !hear_text(flight->status, watch->status, sizeof watch->status,
                   &watch->status_used)) {
        polled[3].fd = -1;
    }
    if ((polled[4].revents & any) != 0) {
        watch->parent_ended = true;
    }
    if ((polled[0].revents & any) != 0) {
        hear_signal(watch);
    }
}

static void wait_for_end(struct watch *watch)
{
    struct pollfd polled[] = {
        {.fd = watch->signals, .events = POLLIN},
        {.fd = watch->flight->socket, .events = POLLIN},
        {.fd = watch->flight->said, .events = POLLIN},
        {.fd = watch->flight->status, .events = POLLIN},
        {.fd = watch->parent, .events = POLLIN},
    };
    while (!is_over(watch)) {
        int left_ms = time_left_ms(watch);
        if (left_ms == 0) {
            watch->hung = true;
            return;
        }
        if (poll(polled, sizeof polled / sizeof polled[0], left_ms) > 0) {
            look(watch, polled);
        }
    }
    /* What it has said before it ended. */
    while (hear_record(watch) && !watch->ended && !watch->failed) {
        struct pollfd more = {.fd = watch->flight->socket, .events = POLLIN};
        if (poll(&more, 1, 0) <= 0) {
            break;
        }
    }
    for (int i = 0; i < 8 && watch->flight->bwrap == 0; i++) {
        (void)hear_text(watch->flight->said, watch->said, sizeof watch->said,
                        &watch->said_used);
    }
}

/* --- the end --- */

/* The one that bubblewrap has made to be inside, when that is an orphan and so our child
 * (we are a subreaper): an outer process that fails half way, set-user-id above all,
 * leaves it behind, waiting for ever. 0: there is none. */
static pid_t find_orphan(const struct watch *watch)
{
    static const char key[] = "\"child-pid\": ";
    siginfo_t info = {.si_pid = 0};
    const char *at = strstr(watch->status, key);
    long pid = at != NULL ? strtol(at + sizeof key - 1, NULL, 10) : 0; /* told in time */
    if (at == NULL) {
        return sbx_flight_find_orphan(watch->flight);
    }
    if (pid <= 1 || pid > INT_MAX ||
        waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0) {
        return 0;
    }
    return (pid_t)pid;
}

static void end_orphan(const struct watch *watch, uint64_t until_us)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    pid_t pid = find_orphan(watch);
    if (pid == 0) {
        return;
    }
    (void)kill(pid, SIGKILL); /* our own un-reaped child */
    while (waitpid(pid, NULL, WNOHANG) == 0 && sbx_clock_us() < until_us) {
        (void)nanosleep(&moment, NULL);
    }
}

static void await_bwrap(struct watch *watch, uint64_t until_us)
{
    while (watch->flight->bwrap > 0 && sbx_clock_us() < until_us) {
        struct pollfd signals = {.fd = watch->signals, .events = POLLIN};
        struct signalfd_siginfo info;
        (void)poll(&signals, 1, 1000);
        while (read(watch->signals, &info, sizeof info) == (ssize_t)sizeof info) {
            continue; /* too late for any other */
        }
        reap(watch);
    }
}

/* Waits for bubblewrap, which ends when the namespace has: then nobody is left in it. */
static void finish(struct watch *watch)
{
    struct sbx_flight *flight = watch->flight;
    uint64_t until_us = sbx_clock_add(sbx_clock_us(), END_BOUND_US);
    sbx_fd_drop(&flight->socket);
    if ((watch->hung || watch->parent_ended) && flight->bwrap > 0) {
        (void)kill(flight->bwrap, SIGKILL);
    }
    await_bwrap(watch, until_us);
    if (flight->bwrap > 0) {
        (void)kill(flight->bwrap, SIGKILL);
        await_bwrap(watch, sbx_clock_add(sbx_clock_us(), KILL_BOUND_US));
    }
    end_orphan(watch, until_us);
}

/* Others are alive inside: they are for the monitor above us to see, to name and to end,
 * as it would without a sandbox. The namespace stays until then; the one outside has no
 * more to do. */
static void leave(struct watch *watch)
{
    struct sbx_flight *flight = watch->flight;
    uint64_t until_us = sbx_clock_add(sbx_clock_us(), AGREEMENT_BOUND_US);
    tell(watch, SBX_INNER_STAY, 0);
    while (!watch->stays && sbx_clock_us() < until_us) {
        struct pollfd polled = {.fd = flight->socket, .events = POLLIN};
        if (poll(&polled, 1, 100) > 0 && !hear_record(watch)) {
            break;
        }
    }
    if (flight->bwrap > 0 && kill(flight->bwrap, SIGKILL) == 0) {
        await_bwrap(watch, sbx_clock_add(sbx_clock_us(), KILL_BOUND_US));
    }
}

/* The last line, without line feeds, in place. */
static const char *last_line(char *text)
{
    size_t length = strlen(text);
    while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == ' ')) {
        text[--length] = '\0';
    }
    char *line = strrchr(text, '\n');
    line = line != NULL ? line + 1 : text;
    return strncmp(line, "bwrap: ", 7) == 0 ? line + 7 : line;
}

/* The path of the source that is spoken of by its descriptor; NULL: none. */
static const char *find_source(const struct sbx_flight *flight, const char *said)
{
    for (size_t i = 0; i < flight->plan->argument_count && flight->argv != NULL; i++) {
        const struct sbx_argument *argument = &flight->plan->arguments[i];
        const char *number = flight->argv[i];
        const char *at = argument->kind == SBX_ARGUMENT_SOURCE && number != NULL
                             ? strstr(said, number)
                             : NULL;
        if (at != NULL && strspn(at + strlen(number), "0123456789") == 0) {
            return argument->mount->source;
        }
    }
    return NULL;
}

/* A source is opened by us, but looked up by bubblewrap, as the user who it is. */
static int explain_source(const struct watch *watch, const char *source, const char *said,
                          struct sbx_error *err)
{
    const struct sbx_plan *plan = watch->flight->plan;
    char quoted[SBX_QUOTE_SIZE];
    char line[SBX_ERROR_MESSAGE_SIZE / 2];
    (void)sbx_text_escape(line, sizeof line, said, strlen(said));
    return sbx_error_set(err, EACCES, SBX_STAGE_LAUNCH,
                         "'%s' cannot be shown; uid %u gid %u has to be able to reach it "
                         "(bubblewrap: %s)",
                         sbx_option_quote(quoted, source), plan->uid, plan->gid, line);
}

/* Whoever has said nothing was ended. */
static int explain_end(const struct watch *watch, struct sbx_error *err)
{
    char name[SBX_SIGNAL_NAME_SIZE];
    if (watch->parent_ended) {
        return sbx_error_set(err, ECANCELED, SBX_STAGE_LAUNCH,
                             "whoever started this ended before the command ran");
    }
    return sbx_error_set(err, EINTR, SBX_STAGE_LAUNCH,
                         "bubblewrap was ended by %s before the command ran",
                         sbx_text_signal_name(watch->killed_by, name));
}

/* Nothing has run. */
static int explain(struct watch *watch, int *ret_status, struct sbx_error *err)
{
    const struct sbx_plan *plan = watch->flight->plan;
    char line[SBX_ERROR_MESSAGE_SIZE / 2];
    int code = 0;
    *ret_status = SBX_STATUS_FAILED;
    if (watch->failed) {
        if (watch->record.status == SBX_STATUS_NOT_EXECUTABLE ||
            watch->record.status == SBX_STATUS_NOT_FOUND) {
            *ret_status = watch->record.status;
        }
        if (err != NULL) {
            *err = watch->record.error;
        }
        return -(watch->record.error.code > 0 ? watch->record.error.code : EPROTO);
    }
    if (watch->hung) {
        return sbx_error_set(
            err, ETIMEDOUT, SBX_STAGE_LAUNCH,
            "bubblewrap did not set the sandbox up within 60 s%s (ETIMEDOUT)",
            watch->flight->bwrap > 0 ? ", and SIGKILL does not end it" : "");
    }
    if (read(watch->flight->exec_failed, &code, sizeof code) == (ssize_t)sizeof code) {
        return sbx_error_set(err, code, SBX_STAGE_LAUNCH, "%s: %s", plan->bwrap,
                             sbx_errno_text(code).text);
    }
    const char *said = last_line(watch->said);
    if (watch->parent_ended || (watch->killed_by != 0 && said[0] == '\0')) {
        return explain_end(watch, err);
    }
    const char *source = find_source(watch->flight, said);
    if (source != NULL && strstr(said, "Permission denied") != NULL) {
        return explain_source(watch, source, said, err);
    }
    (void)sbx_text_escape(line, sizeof line, said, strlen(said));
    bool has_namespaces = strstr(watch->status, "child-pid") != NULL;
    int r = sbx_error_set(err, EPERM, SBX_STAGE_LAUNCH, "bubblewrap could not %s: %s",
                          has_namespaces ? "set the sandbox up" : "make the namespaces",
                          line[0] != '\0' ? line : "it said nothing");
    sbx_layer_explain(plan->bwrap, plan->uid, plan->gid, plan->proc, err);
    return r;
}

static void tell_ending(const struct watch *watch, struct sbx_ending *ret_ending)
{
    int status = watch->record.status;
    *ret_ending = (struct sbx_ending){.exit_code = -1, .signal = SIGKILL};
    if (!watch->ended) {
        return; /* the namespace was ended from outside */
    }
    if (WIFEXITED(status)) {
        *ret_ending = (struct sbx_ending){.exit_code = WEXITSTATUS(status)};
    } else if (WIFSIGNALED(status)) {
        ret_ending->signal = WTERMSIG(status);
        ret_ending->core_dumped = WCOREDUMP(status) ? 1 : 0;
    }
}

static int open_signals(void)
{
    static const int passed_on[] = {SIGHUP,  SIGINT,   SIGQUIT, SIGTERM, SIGUSR1,
                                    SIGUSR2, SIGWINCH, SIGCONT, SIGTSTP, SIGCHLD};
    sigset_t set;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof passed_on / sizeof passed_on[0]; i++) {
        (void)sigaddset(&set, passed_on[i]);
    }
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int sbx_flight_watch(struct sbx_flight *flight, struct sbx_ending *ret_ending,
                     int *ret_status, struct sbx_error *err)
{
    SBX_AUTO_CLOSE int signals = open_signals();
    int code = errno;
    SBX_AUTO_CLOSE int parent = watch_parent();
    struct watch watch = {
        .flight = flight,
        .signals = signals,
        .parent = parent,
        .deadline_us = sbx_clock_add(sbx_clock_us(), READY_BOUND_US),
    };
    if (signals < 0) {
        watch.hung = true; /* it is not waited for */
        finish(&watch);
        return sbx_error_set(err, code, SBX_STAGE_LAUNCH, "signalfd: %s",
                             sbx_errno_text(code).text);
    }
    wait_for_end(&watch);
    if (watch.ended && !watch.alone && !watch.parent_ended && parent_sweeps()) {
        leave(&watch);
    } else {
        finish(&watch);
    }
    if (!watch.started) {
        return explain(&watch, ret_status, err);
    }
    tell_ending(&watch, ret_ending);
    *ret_status =
        ret_ending->signal != 0 ? 128 + ret_ending->signal : ret_ending->exit_code;
    return 0;
}
