/*
 * launch.c - the caller's side of starting the leader, see launch.h: what is prepared
 * before the fork, the fork, and what became of the child.
 *
 * The birth itself is launch_birth.c, the child's side launch_child.c. Its end of the
 * error pipe is close-on-exec, so end of file says only that the child either executed
 * the command or ended. Which of the two, the kernel knows: it marks a process that was
 * forked and has not executed anything.
 *
 * Signals only the child, which is not yet reaped. Every wait here is bounded.
 */
#include "reaper/launch.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "reaper/launch_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

/* An executable on a slow network may take long, one on a dead one would take for ever.
 */
#define EXEC_BOUND_US (60 * (uint64_t)SBX_US_PER_S)

/* How often to look after a child that is not heard of. */
#define LOOK_US UINT64_C(50000)

/* From its last word the child only has to die. A busy machine takes its time, a tracer
 * may hold it for ever. */
#define REAP_BOUND_US (30 * (uint64_t)SBX_US_PER_S)

/* Of the flags in /proc/PID/stat (PF_FORKNOEXEC of linux/sched.h): cleared by exec before
 * it closes the descriptors that are close-on-exec. */
#define FORKED_WITHOUT_EXEC 0x40UL

static int failed(struct sbx_error *err, int code, const char *what)
{
    return sbx_error_set(err, code, SBX_STAGE_LAUNCH, "%s: %s", what,
                         sbx_errno_text(code).text);
}

/* A kept descriptor that is not open could turn out to be the error pipe, and then the
 * command would hold that open. */
static int check(const struct sbx_launch *launch, struct sbx_error *err)
{
    if (launch->argv == NULL || launch->argv[0] == NULL) {
        return failed(err, EINVAL, "no command");
    }
    struct sigaction action;
    if (sigaction(SIGCHLD, NULL, &action) < 0) {
        return failed(err, errno, "sigaction of SIGCHLD");
    }
    if (action.sa_handler == SIG_IGN || (action.sa_flags & SA_NOCLDWAIT) != 0) {
        return failed(err, EINVAL, "SIGCHLD is ignored, the leader's end would be lost");
    }
    for (int i = 0; i < 3; i++) {
        if (launch->stdio[i] > 0 &&
            (launch->stdio[i] <= STDERR_FILENO || fcntl(launch->stdio[i], F_GETFD) < 0)) {
            return failed(err, EBADF, "descriptors for the standard streams");
        }
    }
    for (size_t i = 0; i < launch->keep_fd_count; i++) {
        if (fcntl(launch->keep_fds[i], F_GETFD) < 0) {
            char what[64];
            (void)snprintf(what, sizeof what, "keep descriptor %d", launch->keep_fds[i]);
            return failed(err, errno, what);
        }
    }
    return 0;
}

/* argv of the shell that runs a script without interpreter line: see launch_child.h. */
static const char **make_shell_argv(const char *const *argv)
{
    size_t count = 0;
    while (argv[count] != NULL) {
        count++;
    }
    const char **shell = calloc(count + 2, sizeof *shell);
    if (shell != NULL) {
        shell[0] = "/bin/sh";
        memcpy(shell + 2, argv + 1, (count - 1) * sizeof *shell);
    }
    return shell;
}

/* The terminal may stop the child on its way (^Z, or a background group whose other
 * members read): nobody would ever wait for it to go on. The command can be stopped when
 * it runs. */
static void continue_if_stopped(pid_t pid)
{
    siginfo_t stop = {.si_pid = 0};
    if (waitid(P_PID, (id_t)pid, &stop, WSTOPPED | WNOHANG) == 0 && stop.si_pid == pid) {
        (void)kill(pid, SIGCONT);
    }
}

/* Waits for the record or end of file. Returns the bytes read, or a negative errno. */
static ssize_t read_record(pid_t pid, int fd, struct sbx_launch_record *record)
{
    uint64_t deadline_us = sbx_clock_add(sbx_clock_us(), EXEC_BOUND_US);
    size_t used = 0;
    while (used < sizeof *record) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        uint64_t now_us = sbx_clock_us();
        if (now_us >= deadline_us) {
            return -ETIMEDOUT;
        }
        uint64_t wait_us = deadline_us - now_us;
        wait_us = wait_us < LOOK_US ? wait_us : LOOK_US;
        int count = poll(&ready, 1, (int)(wait_us / 1000) + 1);
        if (count == 0 || (count < 0 && errno == EINTR)) {
            continue_if_stopped(pid);
            continue;
        }
        ssize_t length = read(fd, (char *)record + used, sizeof *record - used);
        if (length == 0) {
            break;
        }
        if (length > 0) {
            used += (size_t)length;
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return (ssize_t)used;
}

/* Waits until the child has ended, and reaps it unless `flags` has WNOWAIT. 0,
 * -ETIMEDOUT, or another negative errno. */
static int await_end(pid_t pid, int flags, siginfo_t *ret_end)
{
    uint64_t deadline_us = sbx_clock_add(sbx_clock_us(), REAP_BOUND_US);
    struct timespec pause = {.tv_nsec = 50000};
    for (;;) {
        siginfo_t end = {.si_pid = 0};
        if (waitid(P_PID, (id_t)pid, &end, WEXITED | WNOHANG | flags) < 0) {
            if (errno != EINTR) {
                return -errno;
            }
        } else if (end.si_pid == pid) {
            *ret_end = end;
            return 0;
        }
        if (sbx_clock_us() >= deadline_us) {
            return -ETIMEDOUT;
        }
        (void)nanosleep(&pause, NULL);
        if (pause.tv_nsec < 5000000) {
            pause.tv_nsec *= 2;
        }
    }
}

static void reap(pid_t pid, struct sbx_error *err)
{
    siginfo_t end;
    int error = await_end(pid, 0, &end);
    if (error < 0 && error != -ECHILD) {
        sbx_error_prefix(err, "child %d cannot be reaped (%s), after", (int)pid,
                         sbx_errno_name(-error));
    }
}

/* Whether the child is as it was forked. An entry that cannot be read is not ours any
 * more: the command was executed with another uid. */
bool sbx_launch_is_without_exec(pid_t pid)
{
    char path[32];
    char text[1024];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (sbx_fd_read_text_at(AT_FDCWD, path, text, sizeof text) < 0) {
        return false;
    }
    const char *next = strrchr(text, ')');
    /* ") state ppid pgrp session tty_nr tpgid flags" */
    for (int field = 0; field < 7 && next != NULL; field++) {
        next = strchr(next + 1, ' ');
    }
    return next != NULL && (strtoul(next, NULL, 10) & FORKED_WITHOUT_EXEC) != 0;
}

/* The front of a namespace executes nothing; the init has seen what the command did. */
static bool has_executed(const struct sbx_launch *launch, pid_t pid)
{
    return launch->note != NULL ? atomic_load(&launch->note->executed) != 0
                                : !sbx_launch_is_without_exec(pid);
}

/* How the command's process has ended, where that is not the leader. */
static void take_noted_end(const struct sbx_namespace_note *note, siginfo_t *end)
{
    if (note != NULL && atomic_load(&note->ended) != 0) {
        int status = atomic_load(&note->status);
        end->si_code = WIFEXITED(status) ? CLD_EXITED : CLD_KILLED;
        end->si_status = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
    }
}

/*
 * End of file without a record, and nothing was executed: the child is ending. Ended by a
 * signal from outside (it was pending when the mask was emptied, or is SIGKILL), that is
 * the leader's end, which is left for the caller to see. By a fault or without a word,
 * the failure is ours.
 */
static int judge_silence(const struct sbx_launch *launch, pid_t pid,
                         struct sbx_error *err)
{
    siginfo_t end = {.si_pid = 0};
    char name[SBX_SIGNAL_NAME_SIZE];
    int error = await_end(pid, WNOWAIT, &end);
    take_noted_end(launch->note, &end);
    if (error < 0) {
        (void)kill(pid, SIGKILL);
        error = failed(err, -error, "the child does not end, and executed nothing");
    } else if (end.si_code == CLD_EXITED) {
        error = sbx_error_set(err, EPROTO, SBX_STAGE_LAUNCH,
                              "the child exited with status %d before exec, and told no "
                              "reason (EPROTO)",
                              end.si_status);
    } else if (sbx_launch_is_fault(end.si_status)) {
        error = sbx_error_set(err, EPROTO, SBX_STAGE_LAUNCH,
                              "the child was ended by %s before exec (EPROTO)",
                              sbx_text_signal_name(end.si_status, name));
    } else {
        return 0;
    }
    reap(pid, err);
    return error;
}

/* The child's own words, or what is left of them. */
static int judge_record(pid_t pid, const struct sbx_launch_record *record, size_t length,
                        int *ret_status, struct sbx_error *err)
{
    int error;
    if (length == sizeof *record) {
        *ret_status = record->status;
        error = -record->error.code;
        if (err != NULL) {
            *err = record->error;
        }
    } else {
        error = failed(err, EPROTO, "the child's error record is cut short");
    }
    reap(pid, err);
    return error;
}

/* The pipe is silent and open. The kill may come too late: then the command was executed,
 * and its end is the leader's. */
static int judge_hang(const struct sbx_launch *launch, pid_t pid, int code,
                      struct sbx_error *err)
{
    siginfo_t end;
    (void)kill(pid, SIGKILL);
    (void)await_end(pid, WNOWAIT, &end);
    if (has_executed(launch, pid)) {
        return 0;
    }
    int error = failed(err, code, "no word from the child before exec");
    reap(pid, err);
    return error;
}

/* An init that its front has not waited for has come to us. */
static void reap_init(const struct sbx_namespace_note *note, struct sbx_error *err)
{
    pid_t pid = note != NULL ? atomic_load(&note->init_pid) : 0;
    siginfo_t end;
    if (pid > 0 && waitid(P_PID, (id_t)pid, &end, WEXITED | WNOHANG | WNOWAIT) == 0) {
        (void)kill(pid, SIGKILL);
        reap(pid, err);
    }
}

/* What became of the child. After an error it is reaped. */
static int await_exec(const struct sbx_launch *launch, pid_t pid, int error_fd,
                      int *ret_status, struct sbx_error *err)
{
    struct sbx_launch_record record;
    ssize_t length = read_record(pid, error_fd, &record);
    if (length < 0) {
        return judge_hang(launch, pid, (int)-length, err);
    }
    if (length > 0) {
        return judge_record(pid, &record, (size_t)length, ret_status, err);
    }
    return has_executed(launch, pid) ? 0 : judge_silence(launch, pid, err);
}

/* Where the command's streams are put, the pipe must not be. */
int sbx_launch_open_pipe(int ends[static 2])
{
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return -errno;
    }
    if (ends[1] > STDERR_FILENO) {
        return 0;
    }
    int above = fcntl(ends[1], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int code = errno;
    (void)close(ends[1]);
    ends[1] = above;
    if (above < 0) {
        (void)close(ends[0]);
    }
    return above < 0 ? -code : 0;
}

/* Forks the child and sees what becomes of it, through a pipe of its own. */
static int launch_through_pipe(const struct sbx_launch *launch,
                               struct sbx_launch_child *child, pid_t *ret_pid,
                               int *ret_status, struct sbx_error *err)
{
    int ends[2] = {-1, -1};
    int opened = sbx_launch_open_pipe(ends);
    if (opened < 0) {
        return failed(err, -opened, "error pipe");
    }
    SBX_AUTO_CLOSE int read_end = ends[0];
    SBX_AUTO_CLOSE int write_end = ends[1];
    child->error_fd = write_end;
    /* What the child takes and then fails to use would be left to a group that is gone.
     */
    pid_t foreground = launch->tty_fd >= 0 ? tcgetpgrp(launch->tty_fd) : -1;
    pid_t pid = -1;
    int error = sbx_launch_birth(child, &pid, err);
    if (error < 0) {
        return error;
    }
    sbx_fd_drop(&write_end);
    bool new_session = launch->start != NULL && launch->start->new_session;
    if (launch->own_group && !new_session) { /* a group's leader gets no session */
        /* The child does it too: whoever is first, the group is there when either goes
         * on. Refused once the child has executed the command. */
        (void)setpgid(pid, pid);
    }
    error = await_exec(launch, pid, read_end, ret_status, err);
    if (error < 0) {
        reap_init(launch->note, err);
        if (foreground > 0 && tcgetpgrp(launch->tty_fd) == pid) {
            (void)tcsetpgrp(launch->tty_fd, foreground);
        }
        return error;
    }
    *ret_pid = pid;
    return 0;
}

/*
 * Kernels that tell by a number whether a fork has met a cgroup.kill (6.18 does, 6.12
 * does not) take it from the caller's group, and compare it with that of the group that
 * the child is born in: where the caller's group was ever ended so, they kill every such
 * child before its first instruction.
 */
static bool was_killed_at_birth(const struct sbx_launch *launch,
                                const struct sbx_launch_child *child, pid_t pid)
{
    siginfo_t end = {.si_pid = 0};
    return launch->group_fd >= 0 && !child->moves &&
           waitid(P_PID, (id_t)pid, &end, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           end.si_pid == pid && end.si_code == CLD_KILLED && end.si_status == SIGKILL &&
           !has_executed(launch, pid);
}

/* Nothing has run when a child was killed at its birth, by whomever: it is made again,
 * once, and goes into its group by itself. */
static int launch_twice(const struct sbx_launch *launch, struct sbx_launch_child *child,
                        pid_t *ret_pid, int *ret_status, struct sbx_error *err)
{
    pid_t pid = -1;
    int error = launch_through_pipe(launch, child, &pid, ret_status, err);
    if (error == 0 && was_killed_at_birth(launch, child, pid)) {
        reap(pid, NULL);
        reap_init(launch->note, NULL); /* a front may have got as far as that */
        if (launch->note != NULL) {
            memset(launch->note, 0, sizeof *launch->note);
        }
        child->forks = true;
        error = launch_through_pipe(launch, child, &pid, ret_status, err);
    }
    if (error == 0) {
        *ret_pid = pid;
    }
    return error;
}

int sbx_launch(const struct sbx_launch *launch, pid_t *ret_pid, int *ret_status,
               struct sbx_error *err)
{
    int status = SBX_STATUS_FAILED;
    char default_path[256] = "/bin:/usr/bin";
    int error = check(launch, err);
    if (error == 0) {
        SBX_AUTO_FREE const char **shell_argv = make_shell_argv(launch->argv);
        if (shell_argv == NULL) {
            error = failed(err, ENOMEM, "arguments");
        } else {
            (void)confstr(_CS_PATH, default_path, sizeof default_path);
            struct sbx_launch_child child = {.launch = launch,
                                             .caller_pid = getpid(),
                                             .error_fd = -1,
                                             .shell_argv = shell_argv,
                                             .default_path = default_path};
            error = launch_twice(launch, &child, ret_pid, &status, err);
        }
    }
    if (error < 0) {
        *ret_status = status;
    }
    return error;
}
