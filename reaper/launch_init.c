/*
 * launch_init.c - the init of a PID namespace that a run makes, see namespace.h: it gets
 * a /proc that shows the namespace alone, forks the command, reaps, and writes down how
 * the command has started and ended.
 *
 * While the command runs it dies with the front. When that has ended and others are left,
 * it dies with the process that launched: with those who are to be kept, with nobody.
 *
 * Never executes anything: that is how it is told from a command that is an init itself
 * (wrapper.h). All its signals are blocked, and to those from inside an init is deaf in
 * any case.
 */
#include "reaper/launch_namespace.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "reaper/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* How often it looks whether a front that is to end was stopped instead. */
#define NUDGE_MS 20

struct init {
    const struct sbx_launch *launch;
    struct sbx_namespace_note *note;
    pid_t command; /* 0: it has ended */
    int exec_fd;   /* its end of file: the command was executed, or has ended */
    int error_fd;  /* held open until it is known which; the launch waits for it */
    int socket;    /* to the front; -1: that is gone */
    int front_pidfd;
    int front_stat;
    int caller_pidfd;
    int signals;
    bool told;  /* the front, that the command has ended */
    bool heard; /* and it is not stopped, which nobody would notice any more */
};

/* --- becoming one ----------------------------------------------------------------- */

static bool is_over(int pidfd)
{
    struct pollfd end = {.fd = pidfd, .events = POLLIN};
    return poll(&end, 1, 0) == 1;
}

static void die_with_parent(bool yes)
{
    (void)prctl(PR_SET_PDEATHSIG, yes ? (unsigned long)SIGKILL : 0UL, 0UL, 0UL, 0UL);
}

static int write_file(const char *path, const char *text)
{
    SBX_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? -errno : sbx_fd_write_all(fd, text, strlen(text));
}

/* User and group stay what they are, and are the only ones there. */
static int map_ids(const struct sbx_namespace_birth *birth, struct sbx_error *err)
{
    char text[32];
    int r = write_file("/proc/self/setgroups", "deny");
    if (r < 0) {
        return sbx_namespace_refused(-r, "write to setgroups", true, err);
    }
    (void)snprintf(text, sizeof text, "%u %u 1", birth->uid, birth->uid);
    r = write_file("/proc/self/uid_map", text);
    if (r == -EPERM && birth->uid == 0) {
        return sbx_error_set(
            err, EPERM, SBX_STAGE_ARM,
            "option --pid-namespace: root that may make no namespaces may "
            "not be in a user namespace either (layer permissions: no "
            "CAP_SYS_ADMIN, no CAP_SETFCAP; grant one of them, or run it "
            "as an ordinary user)");
    }
    if (r < 0) {
        return sbx_namespace_refused(-r, "write to uid_map", true, err);
    }
    (void)snprintf(text, sizeof text, "%u %u 1", birth->gid, birth->gid);
    r = write_file("/proc/self/gid_map", text);
    return r < 0 ? sbx_namespace_refused(-r, "write to gid_map", true, err) : 0;
}

/* What is mounted outside appears here, nothing the other way round: so a disk that is
 * unmounted outside does not stay busy with us. */
static int mount_proc(const struct sbx_namespace_birth *birth, struct sbx_error *err)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0) {
        return sbx_namespace_refused(errno, "keeping mounts inside", birth->new_user,
                                     err);
    }
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0) {
        return sbx_namespace_refused(errno, "mounting a /proc of its own",
                                     birth->new_user, err);
    }
    return 0;
}

/* --- the command ------------------------------------------------------------------ */

/* Its pid as those know it who live outside: by the /proc from there. */
static void note_own_pid(int outer_proc, struct sbx_namespace_note *note)
{
    char text[16];
    ssize_t length = readlinkat(outer_proc, "self", text, sizeof text - 1);
    if (length > 0) {
        text[length] = '\0';
        atomic_store(&note->command_pid, (int)strtol(text, NULL, 10));
    }
}

static void learn_of_exec(struct init *init)
{
    if (init->exec_fd < 0) {
        return;
    }
    if (!sbx_launch_is_without_exec(init->command)) {
        atomic_store(&init->note->executed, 1);
    }
    sbx_fd_drop(&init->exec_fd);
    if (atomic_load(&init->note->executed) != 0) {
        sbx_fd_drop(&init->error_fd); /* else when we end, a moment later */
    }
}

static void note_end(struct init *init, int status)
{
    atomic_store(&init->note->status, status);
    atomic_store(&init->note->ended, 1);
    init->command = 0;
}

/* What only its zombie can tell. */
static void look_at_dead_command(struct init *init)
{
    siginfo_t info = {.si_pid = 0};
    struct sbx_proc_stat stat;
    if (init->command == 0 ||
        waitid(P_PID, (id_t)init->command, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
        info.si_pid != init->command) {
        return;
    }
    learn_of_exec(init);
    SBX_AUTO_CLOSE int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (sbx_proc_stat_at(proc_fd, init->command, &stat) == 0) {
        atomic_store(&init->note->cpu_us, sbx_proc_own_cpu_us(&stat));
    }
}

/* A front that was stopped with the command has to go on with it. It shares the group,
 * and cannot be reached otherwise from in here. */
static void nudge_front(const struct init *init)
{
    char text[SBX_PROC_STAT_SIZE];
    struct sbx_proc_stat stat;
    ssize_t length = sbx_fd_pread_text(init->front_stat, text, sizeof text);
    if (length > 0 && sbx_proc_parse_stat(text, (size_t)length, &stat) == 0 &&
        stat.state == 'T' && init->launch->own_group) {
        (void)kill(0, SIGCONT);
    }
}

static void look_at_stopped_command(struct init *init)
{
    siginfo_t info = {.si_pid = 0};
    if (init->command == 0 ||
        waitid(P_PID, (id_t)init->command, &info, WSTOPPED | WCONTINUED | WNOHANG) < 0 ||
        info.si_pid != init->command) {
        return;
    }
    if (info.si_code == CLD_CONTINUED) {
        nudge_front(init);
    } else if (init->exec_fd >= 0 && sbx_launch_is_without_exec(init->command)) {
        (void)kill(init->command, SIGCONT); /* nobody would wait for it: see launch.c */
    } else if (info.si_code == CLD_STOPPED) {
        sbx_namespace_say(init->socket, SBX_NAMESPACE_STOPPED, info.si_status);
    }
}

/* Who is in our group has what the group was sent. */
static void pass_on(const struct init *init, int signal_number)
{
    bool reached = init->launch->own_group && init->command > 0 &&
                   getpgid(init->command) == getpgrp();
    if (init->command > 0 && !reached) {
        (void)kill(init->command, signal_number);
    }
}

/* --- its work --------------------------------------------------------------------- */

/* True while children are left. */
static bool reap(struct init *init)
{
    struct sbx_namespace_note *note = init->note;
    for (;;) {
        int status = 0;
        look_at_dead_command(init);
        pid_t pid = waitpid(-1, &status, WNOHANG | __WALL);
        if (pid <= 0) {
            return pid == 0;
        }
        if (pid == init->command) {
            note_end(init, status);
        } else if (pid == atomic_load(&note->heir_pid_inside)) {
            atomic_store(&note->heir_status, status);
            atomic_store(&note->heir_ended_us, sbx_clock_us());
        }
    }
}

/* The front ends before us when others are left, after us when not. */
static void tell_end(struct init *init, bool others)
{
    if (!init->told && others) {
        die_with_parent(false);
    }
    if (!init->told) {
        init->told = true;
        sbx_namespace_say(init->socket, others ? SBX_NAMESPACE_LEFT : SBX_NAMESPACE_ENDED,
                          0);
    }
}

/* Once the front is gone. */
static void stay(struct init *init)
{
    if (init->front_pidfd < 0 || !is_over(init->front_pidfd)) {
        return;
    }
    sbx_fd_drop(&init->front_pidfd);
    if (!init->launch->stays) {
        die_with_parent(true);
        if (is_over(init->caller_pidfd)) {
            _exit(0); /* it was our parent, or whoever takes its place ends us anyway */
        }
    }
    sbx_fd_drop(&init->caller_pidfd);
}

static void take_words(struct init *init)
{
    struct sbx_namespace_word word;
    int r;
    if (init->socket < 0) {
        return;
    }
    while ((r = sbx_namespace_hear(init->socket, &word)) == 1) {
        if (word.kind == SBX_NAMESPACE_HEARD) {
            init->heard = true;
        } else {
            pass_on(init, word.number);
        }
    }
    if (r < 0) {
        sbx_fd_drop(&init->socket);
        init->heard = true;
    }
}

static void await_events(struct init *init)
{
    bool front_ends = init->told && init->front_pidfd >= 0;
    struct pollfd fds[] = {
        {.fd = init->signals, .events = POLLIN},
        {.fd = init->exec_fd, .events = POLLIN},
        {.fd = init->socket, .events = POLLIN},
        {.fd = front_ends ? init->front_pidfd : -1, .events = POLLIN},
    };
    struct signalfd_siginfo info;
    if (poll(fds, sizeof fds / sizeof fds[0], front_ends ? NUDGE_MS : -1) == 0) {
        nudge_front(init);
    }
    if (fds[1].revents != 0) {
        learn_of_exec(init);
    }
    while (read(init->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        continue;
    }
}

/* As process 1 it could be read by the command for what that was not given. The command
 * has a copy, and waits with its execution until `forgotten` is closed. */
static void forget_environment(int forgotten)
{
    for (char **variable = environ; variable != NULL && *variable != NULL; variable++) {
        explicit_bzero(*variable, strlen(*variable));
    }
    (void)close(forgotten);
}

static void await_forgetting(int ends[static 2])
{
    char none;
    (void)close(ends[1]);
    while (read(ends[0], &none, sizeof none) < 0 && errno == EINTR) {
        continue;
    }
    (void)close(ends[0]);
}

static _Noreturn void be_init(struct init *init)
{
    const int kept[] = {init->exec_fd,     init->error_fd,   init->socket,
                        init->front_pidfd, init->front_stat, init->caller_pidfd,
                        init->signals};
    sbx_namespace_let_go(kept, sizeof kept / sizeof kept[0]);
    for (;;) {
        look_at_stopped_command(init);
        bool others = reap(init);
        take_words(init);
        if (init->command == 0 && !others && init->heard) {
            _exit(0);
        }
        if (init->command == 0) {
            tell_end(init, others);
            stay(init);
        }
        await_events(init);
    }
}

static int open_signals(void)
{
    sigset_t heard;
    (void)sigemptyset(&heard);
    (void)sigaddset(&heard, SIGCHLD);
    return signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK);
}

int sbx_namespace_init(const struct sbx_namespace_birth *birth, struct sbx_error *err)
{
    int ends[2] = {-1, -1};
    int forgotten[2] = {-1, -1};
    (void)prctl(PR_SET_NAME, SBX_NAMESPACE_INIT_NAME, 0, 0, 0);
    die_with_parent(true);
    if (is_over(birth->front_pidfd)) {
        _exit(0);
    }
    SBX_AUTO_CLOSE int outer_proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (outer_proc < 0) {
        return sbx_launch_failed(err, errno, "open /proc");
    }
    int error = birth->new_user ? map_ids(birth, err) : 0;
    error = error < 0 ? error : mount_proc(birth, err);
    if (error < 0) {
        return error;
    }
    struct init init = {
        .launch = birth->child->launch,
        .note = birth->child->launch->note,
        .error_fd = birth->child->error_fd,
        .socket = birth->socket,
        .front_pidfd = birth->front_pidfd,
        .front_stat = birth->front_stat,
        .caller_pidfd = birth->caller_pidfd,
        .signals = open_signals(),
    };
    error = init.signals < 0 ? -errno : sbx_launch_open_pipe(ends);
    error = error < 0 ? error : sbx_launch_open_pipe(forgotten);
    if (error < 0) {
        return sbx_launch_failed(err, -error, "descriptors of the init");
    }
    init.exec_fd = ends[0];
    init.command = fork();
    if (init.command < 0) {
        return sbx_launch_failed(err, errno, "fork of the command");
    }
    if (init.command == 0) {
        note_own_pid(outer_proc, init.note);
        await_forgetting(forgotten);
        return 0;
    }
    (void)close(ends[1]);
    forget_environment(forgotten[1]);
    be_init(&init);
}
