/*
 * inner.c - sbx-inner, process 1 of a sandbox: starts the command, tells sbx-run what
 * becomes of it, passes signals on, reaps everybody, and ends when sbx-run does. See
 * orders.h.
 *
 * Inside of its namespace it is process 1: no signal from there can end or stop it. It
 * blocks all of them and reads them from a descriptor, and passes on only those that come
 * from outside. It is not dumpable: nobody of the same user can trace it or look into
 * it. After the fork it needs no memory and no descriptor any more, so that limits that
 * somebody inside sets on it do not matter; but for one on processor time, which only the
 * default filter keeps away from it.
 *
 * Whether the command was executed, the kernel knows: it lets a parent change a child's
 * process group until the child executes something. (There may be no /proc here.)
 *
 * Ends in one way only: all else in the namespace ends with it, killed by the kernel.
 * There is no bound to how long it waits for exec or for the command: that is for who
 * holds the other end of the socket, which ends it.
 */
#include "sandbox/inner.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "reaper/launch_child.h"
#include "sandbox/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* From its last word on, how long sbx-run may take to say what comes next. */
#define FAREWELL_US (2 * SBX_US_PER_S)

/* Of each, in one turn: a crowd that ends faster than it is reaped, or signals without
 * end, must not keep the rest waiting. */
#define REAPED_MAX 256
#define SIGNALS_MAX 32

enum phase {
    PHASE_LAUNCHING, /* the pipe is open */
    PHASE_SILENT,    /* it was closed without exec: the child is ending */
    PHASE_RUNNING,
    PHASE_OVER /* the last word was said, or is in the queue */
};

struct inner {
    struct sbx_inner_talk talk;
    int signal_fd;
    int pipe_fd;
    pid_t command; /* also its process group */
    enum phase phase;
    bool failed;          /* the command was never executed */
    bool alone;           /* everybody was reaped */
    bool crowded;         /* there may be more to reap */
    bool agreed;          /* that it stays */
    uint64_t leave_at_us; /* 0: not yet said all */
};

static int failed(struct sbx_error *err, int code, const char *what)
{
    return sbx_error_set(err, code, SBX_STAGE_LAUNCH, "%s: %s", what,
                         sbx_errno_text(code).text);
}

/* --- before the fork --- */

/* Reads all of the file. What it holds is in memory of ours then, whoever else holds it.
 */
static int read_orders(int fd, struct sbx_inner_job *job, struct sbx_error *err)
{
    struct stat status;
    if (fstat(fd, &status) < 0) {
        return failed(err, errno, "orders");
    }
    if (!S_ISREG(status.st_mode) || status.st_size < (off_t)sizeof(struct sbx_orders) ||
        status.st_size > (off_t)SBX_ORDERS_SIZE_MAX) {
        return failed(err, EINVAL, "orders: neither a file nor of such a size");
    }
    size_t size = (size_t)status.st_size;
    size_t table_size = sbx_inner_table_room(size) * sizeof(char *);
    char *room = mmap(NULL, table_size + size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) {
        return failed(err, errno, "room for the orders");
    }
    char *data = room + table_size;
    size_t used = 0;
    while (used < size) {
        ssize_t length = pread(fd, data + used, size - used, (off_t)used);
        if (length == 0 || (length < 0 && errno != EINTR)) {
            return failed(err, length == 0 ? ENODATA : errno, "orders");
        }
        used += length > 0 ? (size_t)length : 0;
    }
    const char **table = (const char **)(void *)room;
    return sbx_inner_orders_parse(data, size, table, &job->orders, err);
}

static int check_descriptors(const struct sbx_orders *head, int orders_fd,
                             struct sbx_error *err)
{
    int type = 0;
    socklen_t size = sizeof type;
    if (getsockopt(head->status_fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0) {
        return failed(err, errno, "status socket");
    }
    if (type != SOCK_SEQPACKET) {
        return failed(err, EPROTOTYPE, "status socket");
    }
    const int others[] = {head->stderr_fd, head->seccomp_fd};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (others[i] >= 0 && fcntl(others[i], F_GETFD) < 0) {
            return failed(err, errno, "descriptor for stderr or filter");
        }
        if (others[i] == orders_fd || head->status_fd == orders_fd) {
            return failed(err, EINVAL, "a descriptor for two purposes");
        }
    }
    return 0;
}

static int take_orders(char *const *argv, struct sbx_inner_job *job,
                       struct sbx_error *err)
{
    uint64_t fd = 0;
    if (argv[0] == NULL || argv[1] == NULL || argv[2] != NULL ||
        sbx_text_count(argv[1], &fd) < 0 || fd <= STDERR_FILENO || fd > INT32_MAX) {
        return failed(err, EINVAL, "usage: sbx-inner FD");
    }
    if (getpid() != 1) {
        return failed(err, EINVAL, "not process 1 of a namespace");
    }
    int error = read_orders((int)fd, job, err);
    if (error == 0) {
        error = check_descriptors(&job->orders.head, (int)fd, err);
    }
    return error;
}

/* All signals are read from a descriptor. SIGCHLD ignored would lose the command's end.
 */
static int take_signals(struct inner *inner, struct sbx_error *err)
{
    sigset_t all;
    (void)sigfillset(&all);
    if (sigprocmask(SIG_SETMASK, &all, NULL) < 0 ||
        sbx_inner_set_action(SIGCHLD, false) < 0) {
        return failed(err, errno, "signals");
    }
    inner->signal_fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    return inner->signal_fd < 0 ? failed(err, errno, "signalfd") : 0;
}

static int arrange(struct inner *inner, struct sbx_inner_job *job, struct sbx_error *err)
{
    const struct sbx_orders *head = &job->orders.head;
    if (head->stderr_fd >= 0 && dup2(head->stderr_fd, STDERR_FILENO) < 0) {
        return failed(err, errno, "stderr");
    }
    if (head->removes != 0 && unlink(SBX_INNER_PATH) < 0) {
        return failed(err, errno, "unlink " SBX_INNER_PATH);
    }
    if (head->seccomp_fd >= 0) {
        int error =
            sbx_seccomp_read(head->seccomp_fd, &job->program, &job->program_count, err);
        if (error < 0) {
            return error;
        }
    }
    return take_signals(inner, err);
}

static void sort(int *numbers, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        for (size_t k = i; k > 0 && numbers[k - 1] > numbers[k]; k--) {
            int number = numbers[k];
            numbers[k] = numbers[k - 1];
            numbers[k - 1] = number;
        }
    }
}

/* Nothing is held open that is the command's to close. */
static void keep_own(const struct inner *inner)
{
    int kept[] = {inner->talk.fd, inner->signal_fd, inner->pipe_fd};
    sort(kept, sizeof kept / sizeof kept[0]);
    (void)sbx_inner_close_all_but(kept, sizeof kept / sizeof kept[0]);
}

static int start(struct inner *inner, const struct sbx_inner_job *job,
                 struct sbx_error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) {
        return failed(err, errno, "pipe");
    }
    pid_t pid = fork();
    if (pid == 0) {
        sbx_inner_child(job, ends[1]);
    }
    int code = errno;
    (void)close(ends[1]);
    if (pid < 0) {
        (void)close(ends[0]);
        return failed(err, code, "fork");
    }
    (void)setpgid(pid, pid); /* so that the group is there for signals */
    inner->command = pid;
    inner->pipe_fd = ends[0];
    inner->phase = PHASE_LAUNCHING;
    keep_own(inner);
    return 0;
}

/* --- what becomes of the child --- */

static void say_failed(struct inner *inner, int status, const struct sbx_error *error)
{
    inner->failed = true;
    inner->phase = PHASE_OVER;
    sbx_inner_tell(&inner->talk, SBX_INNER_FAILED, status, error);
}

static void say_started(struct inner *inner)
{
    inner->phase = PHASE_RUNNING;
    sbx_inner_tell(&inner->talk, SBX_INNER_STARTED, 0, NULL);
}

/* Until it has executed something, its group can be changed (and is what it is told to
 * be); a session of its own it has only made after that. */
static bool has_executed(pid_t child)
{
    return setpgid(child, child) < 0 && (errno == EACCES || errno == EPERM);
}

static void look_at_pipe(struct inner *inner)
{
    struct sbx_launch_record record;
    ssize_t length = read(inner->pipe_fd, &record, sizeof record);
    if (length < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    (void)close(inner->pipe_fd);
    inner->pipe_fd = -1;
    if (length == (ssize_t)sizeof record) {
        say_failed(inner, record.status, &record.error);
    } else if (length != 0) {
        struct sbx_error error;
        (void)failed(&error, EPROTO, "the child's error record");
        say_failed(inner, SBX_STATUS_FAILED, &error);
    } else if (has_executed(inner->command)) {
        say_started(inner);
    } else {
        inner->phase = PHASE_SILENT;
    }
}

/* It ended before exec, without a word. A signal that came from somewhere is the
 * command's end; all else is our failure. */
static void judge_silence(struct inner *inner, int status)
{
    struct sbx_error error;
    char name[SBX_SIGNAL_NAME_SIZE];
    if (WIFEXITED(status)) {
        (void)sbx_error_set(&error, EPROTO, SBX_STAGE_LAUNCH,
                            "the child exited with status %d before exec, and told no "
                            "reason (EPROTO)",
                            WEXITSTATUS(status));
        say_failed(inner, SBX_STATUS_FAILED, &error);
    } else if (sbx_launch_is_fault(WTERMSIG(status))) {
        (void)sbx_error_set(&error, EPROTO, SBX_STAGE_LAUNCH,
                            "the child was ended by %s before exec (EPROTO)",
                            sbx_text_signal_name(WTERMSIG(status), name));
        say_failed(inner, SBX_STATUS_FAILED, &error);
    } else {
        say_started(inner);
    }
}

/* When all that could be reaped was, so that it is known who is left. */
static void command_ended(struct inner *inner, int status)
{
    if (inner->phase == PHASE_SILENT) {
        judge_silence(inner, status);
    }
    if (inner->phase == PHASE_RUNNING) {
        inner->phase = PHASE_OVER;
        sbx_inner_tell(&inner->talk,
                       inner->alone ? SBX_INNER_ENDED_ALONE : SBX_INNER_ENDED, status,
                       NULL);
    }
}

/* Until the pipe has told what became of it, the child is not reaped: the kernel is to be
 * asked about it. There is nobody else to reap then. */
static void reap(struct inner *inner)
{
    int ending = 0;
    bool ended = false;
    inner->crowded = false;
    for (int i = 0; i < REAPED_MAX; i++) {
        int status = 0;
        pid_t pid = waitpid(-1, &status, WNOHANG | __WALL);
        if (pid <= 0) {
            inner->alone = pid < 0 && errno == ECHILD;
            break;
        }
        if (pid == inner->command && inner->phase != PHASE_OVER) {
            ending = status;
            ended = true;
        }
        inner->crowded = i == REAPED_MAX - 1;
    }
    if (ended) {
        command_ended(inner, ending);
    }
}

/* --- signals --- */

/* To the group; and to the command itself, should it have gone to another group, unless
 * it has ended. */
static void pass_on(const struct inner *inner, int number)
{
    (void)kill(-inner->command, number);
    if (inner->phase != PHASE_OVER && getpgid(inner->command) != inner->command) {
        (void)kill(inner->command, number);
    }
}

static bool is_passed_on(uint32_t number)
{
    switch (number) {
    case SIGHUP:
    case SIGINT:
    case SIGQUIT:
    case SIGTERM:
    case SIGUSR1:
    case SIGUSR2:
    case SIGWINCH:
    case SIGCONT:
        return true;
    default:
        return number >= (uint32_t)SIGRTMIN && number <= (uint32_t)SIGRTMAX;
    }
}

/* A sender outside of the namespace has no number here. Only of what kill and tgkill send
 * does the kernel itself fill in who it was: a queued signal says what its sender wants.
 */
static bool is_from_outside(const struct signalfd_siginfo *signal)
{
    return signal->ssi_pid == 0 &&
           (signal->ssi_code == SI_USER || signal->ssi_code == SI_TKILL);
}

static void take_pending(const struct inner *inner)
{
    struct signalfd_siginfo signals[SIGNALS_MAX];
    ssize_t length = read(inner->signal_fd, signals, sizeof signals);
    for (size_t i = 0; length > 0 && i < (size_t)length / sizeof signals[0]; i++) {
        if (is_from_outside(&signals[i]) && is_passed_on(signals[i].ssi_signo)) {
            pass_on(inner, (int)signals[i].ssi_signo);
        }
    }
}

static void take_words(struct inner *inner)
{
    struct sbx_inner_word word;
    for (int i = 0; i < SIGNALS_MAX && sbx_inner_hear(&inner->talk, &word); i++) {
        if (word.order == SBX_INNER_STAY) {
            inner->talk.stays = true;
        } else if (word.order == SBX_INNER_SIGNAL && word.number > 0 &&
                   word.number <= SIGRTMAX) {
            pass_on(inner, word.number);
        }
    }
}

/* --- the loop --- */

/* How long to sleep at most, in milliseconds; -1: until something happens. */
static int patience_ms(const struct inner *inner)
{
    if (inner->crowded) {
        return 0;
    }
    if (inner->leave_at_us == 0) {
        return -1;
    }
    uint64_t now_us = sbx_clock_us();
    return now_us < inner->leave_at_us ? (int)((inner->leave_at_us - now_us) / 1000) + 1
                                       : 0;
}

/* Whether there is nothing left to do here. */
static bool is_done(struct inner *inner)
{
    bool said_all = inner->phase == PHASE_OVER && inner->talk.queued == 0;
    if (inner->talk.stays && !inner->failed) {
        inner->leave_at_us = 0;
        return inner->alone && said_all;
    }
    if (inner->talk.fd < 0) {
        return true;
    }
    if (!said_all) {
        return false;
    }
    if (inner->leave_at_us == 0) {
        inner->leave_at_us = sbx_clock_add(sbx_clock_us(), FAREWELL_US);
    }
    return inner->failed || sbx_clock_us() >= inner->leave_at_us;
}

/* When we are to stay, the end of those outside must not be ours. */
static void agree_to_stay(struct inner *inner)
{
    if (inner->talk.stays && !inner->agreed && inner->phase == PHASE_OVER) {
        inner->agreed = true;
        (void)prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
        sbx_inner_tell(&inner->talk, SBX_INNER_STAYS, 0, NULL);
    }
}

static void serve(struct inner *inner)
{
    while (!is_done(inner)) {
        short wanted = (short)(inner->talk.queued > 0 ? POLLIN | POLLOUT : POLLIN);
        struct pollfd ready[] = {
            {.fd = inner->signal_fd, .events = POLLIN},
            {.fd = inner->talk.fd, .events = wanted},
            {.fd = inner->pipe_fd, .events = POLLIN},
        };
        (void)poll(ready, sizeof ready / sizeof ready[0], patience_ms(inner));
        sbx_inner_flush(&inner->talk);
        take_words(inner);
        take_pending(inner);
        if (inner->phase == PHASE_LAUNCHING) {
            look_at_pipe(inner);
        }
        if (inner->phase != PHASE_LAUNCHING) {
            reap(inner);
        }
        agree_to_stay(inner);
    }
}

/* Who wanted the command may have ended meanwhile. */
static int check_lifeline(const struct inner *inner, struct sbx_error *err)
{
    struct pollfd end = {.fd = inner->talk.fd, .events = 0};
    return poll(&end, 1, 0) > 0 && (end.revents & POLLHUP) != 0
               ? failed(err, EPIPE, "sbx-run has ended")
               : 0;
}

static int run(char *const *argv, struct inner *inner, struct sbx_error *err)
{
    struct sbx_inner_job job = {.program = NULL};
    int error = take_orders(argv, &job, err);
    if (error < 0) {
        return error;
    }
    inner->talk.fd = job.orders.head.status_fd;
    error = arrange(inner, &job, err);
    if (error == 0) {
        error = sbx_inner_check_places(&job.orders, err);
    }
    if (error == 0) {
        sbx_inner_tell(&inner->talk, SBX_INNER_READY, 0, NULL);
        error = check_lifeline(inner, err);
    }
    if (error == 0) {
        error = start(inner, &job, err);
    }
    if (error < 0) {
        say_failed(inner, SBX_STATUS_FAILED, err);
    }
    serve(inner);
    return error;
}

int main(int argc, char *argv[])
{
    static struct inner inner = {.talk = {.fd = -1}, .signal_fd = -1, .pipe_fd = -1};
    struct sbx_error error = {.code = 0};
    (void)argc;
    /* First: until here it could be looked into. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) {
        (void)failed(&error, errno, "PR_SET_DUMPABLE");
    } else if (prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0, 0, 0) < 0) {
        /* Of bubblewrap's end, or sbx-run's, the socket tells; but not while somebody
         * outside has stopped us. */
        (void)failed(&error, errno, "PR_SET_PDEATHSIG");
    } else if (run(argv, &inner, &error) == 0) {
        sbx_inner_hang_up(&inner.talk);
        return inner.failed ? SBX_STATUS_FAILED : 0;
    }
    if (inner.phase != PHASE_OVER) {
        /* Nobody can be told in the way agreed on. */
        static const char who[] = "sbx-inner: ";
        (void)sbx_fd_write_all(STDERR_FILENO, who, sizeof who - 1);
        (void)sbx_fd_write_all(STDERR_FILENO, error.message, strlen(error.message));
        (void)sbx_fd_write_all(STDERR_FILENO, "\n", 1);
    }
    sbx_inner_hang_up(&inner.talk);
    return SBX_STATUS_FAILED;
}
