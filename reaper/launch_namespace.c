/*
 * launch_namespace.c - the front of a command in a PID namespace of its own, see
 * namespace.h: it makes the init, stops when the command stops, hands on what it is sent,
 * and ends when the command has ended. Not with more ceremony: how the command has ended
 * stands in the shared note.
 *
 * It shares its process group with init and command, so that the terminal, ^C and ^Z
 * reach the command as if there were no namespace. So it is sent whatever the group is
 * sent, and blocks all of it.
 *
 * It dies with the process that launches, and the init with it, whose end is the
 * namespace's. The signals for that are bound to the thread that forked: there is only
 * one in each.
 *
 * Holds nothing open but its socket and its signals: not the command's streams, whose
 * readers wait for their end, nor locks that say that a monitor lives.
 */
#include "reaper/launch_namespace.h"

#include "base/error.h"
#include "base/fd.h"
#include "reaper/pidref.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- what front and init have in common ------------------------------------------- */

int sbx_namespace_hear(int socket, struct sbx_namespace_word *ret_word)
{
    ssize_t length = recv(socket, ret_word, sizeof *ret_word, MSG_DONTWAIT);
    if (length == (ssize_t)sizeof *ret_word) {
        return 1;
    }
    return length < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -EPIPE;
}

void sbx_namespace_say(int socket, enum sbx_namespace_word_kind kind, int number)
{
    const struct sbx_namespace_word word = {.kind = (int32_t)kind, .number = number};
    (void)send(socket, &word, sizeof word, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static bool is_kept(const int *kept, size_t count, int fd)
{
    for (size_t i = 0; i < count; i++) {
        if (kept[i] == fd) {
            return true;
        }
    }
    return false;
}

/* For kernels, and filters of system calls, without close_range. */
static void close_by_listing(const int *kept, size_t count)
{
    SBX_AUTO_CLOSEDIR DIR *directory = opendir("/proc/self/fd");
    const struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        char *end = NULL;
        long fd = strtol(entry->d_name, &end, 10);
        if (end != entry->d_name && *end == '\0' && fd != dirfd(directory) &&
            !is_kept(kept, count, (int)fd)) {
            (void)close((int)fd);
        }
    }
}

static int next_kept(const int *kept, size_t count, int from)
{
    int next = -1;
    for (size_t i = 0; i < count; i++) {
        if (kept[i] >= from && (next < 0 || kept[i] < next)) {
            next = kept[i];
        }
    }
    return next;
}

static void close_others(const int *kept, size_t count)
{
    unsigned from = 0;
    for (size_t i = 0; i <= count; i++) {
        int next = next_kept(kept, count, (int)from);
        unsigned last = next < 0 ? ~0U : (unsigned)next - 1;
        if ((next < 0 || (unsigned)next > from) && close_range(from, last, 0) < 0) {
            close_by_listing(kept, count);
            return;
        }
        if (next < 0) {
            return;
        }
        from = (unsigned)next + 1;
    }
}

void sbx_namespace_let_go(const int *kept, size_t count)
{
    bool left = chdir("/") == 0; /* else it stays busy */
    (void)left;
    close_others(kept, count);
}

/* --- the front -------------------------------------------------------------------- */

struct front {
    const struct sbx_namespace_note *note;
    pid_t init;
    int socket;
    int signals;
};

/* As the command was stopped: by a signal of the terminal, or by SIGSTOP. */
static void stop(int number)
{
    bool terminal = number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, terminal ? number : SIGSTOP);
    (void)kill(getpid(), terminal ? number : SIGSTOP);
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL); /* from here until SIGCONT */
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
}

/* Nobody has said how the command has ended: it was killed together with the init. */
static _Noreturn void end_after_init(const struct front *front, int status)
{
    if (atomic_load(&front->note->ended) == 0 && !WIFEXITED(status)) {
        (void)kill(getpid(), SIGKILL);
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 0);
}

static void look_at_init(const struct front *front)
{
    int status = 0;
    if (waitpid(front->init, &status, WNOHANG | WUNTRACED) != front->init) {
        return;
    }
    if (!WIFSTOPPED(status)) {
        end_after_init(front, status);
    }
    (void)kill(front->init, SIGCONT); /* stopped with the group: nobody else would */
}

/* What the kernel sends on behalf of the terminal, it sends to those whom it is for. */
static void take_signals(const struct front *front)
{
    struct signalfd_siginfo info;
    while (read(front->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo != SIGCHLD && info.ssi_code != SI_KERNEL) {
            sbx_namespace_say(front->socket, SBX_NAMESPACE_PASS, (int)info.ssi_signo);
        }
    }
}

static void take_words(struct front *front)
{
    struct sbx_namespace_word word;
    int r = 0;
    while (front->socket >= 0 && (r = sbx_namespace_hear(front->socket, &word)) == 1) {
        if (word.kind == SBX_NAMESPACE_LEFT) {
            _exit(0);
        } else if (word.kind == SBX_NAMESPACE_ENDED) {
            sbx_namespace_say(front->socket, SBX_NAMESPACE_HEARD, 0);
        } else {
            stop(word.number);
        }
    }
    if (r < 0) {
        sbx_fd_drop(&front->socket); /* the init is ending */
    }
}

static int open_signals(void)
{
    static const int numbers[] = {SIGCHLD, SIGCONT, SIGTSTP, SIGUSR2, SIGWINCH, SIGHUP};
    static const int stops[] = {SIGTSTP, SIGTTIN, SIGTTOU};
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t heard;
    (void)sigemptyset(&heard);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        (void)sigaddset(&heard, numbers[i]);
    }
    for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++) {
        (void)sigaction(stops[i], &standard, NULL);
    }
    return signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK);
}

static _Noreturn void be_front(struct front *front)
{
    const int kept[] = {front->socket, front->signals};
    sbx_namespace_let_go(kept, sizeof kept / sizeof kept[0]);
    for (;;) {
        take_signals(front);
        take_words(front);
        look_at_init(front);
        struct pollfd fds[] = {{.fd = front->signals, .events = POLLIN},
                               {.fd = front->socket, .events = POLLIN}};
        (void)poll(fds, 2, -1);
    }
}

/* --- the birth of the init -------------------------------------------------------- */

/* Who has no right to make namespaces needs a user namespace around them. */
static bool may_make_namespaces(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
    return syscall(SYS_capget, &header, data) == 0 &&
           (data[0].effective & 1U << CAP_SYS_ADMIN) != 0;
}

/* Dies with its parent, which lived when that was set. */
static bool is_bound_to(pid_t parent)
{
    return prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0UL, 0UL, 0UL) == 0 &&
           getppid() == parent;
}

/* Everything is a copy, as with fork; clone3 would be no better, and filters refuse it.
 * In the child: 0. Else its pid, or a negative errno. */
static pid_t clone_init(bool new_user, _Atomic int *ret_pid)
{
    unsigned long flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_PARENT_SETTID |
                          (new_user ? CLONE_NEWUSER : 0UL) | (unsigned long)SIGCHLD;
#ifdef __s390x__
    long pid = syscall(SYS_clone, NULL, flags, ret_pid, NULL, NULL);
#else
    long pid = syscall(SYS_clone, flags, NULL, ret_pid, NULL, NULL);
#endif
    return pid < 0 ? -errno : (pid_t)pid;
}

static int open_birth(struct sbx_namespace_birth *birth, struct sbx_error *err)
{
    birth->front_pidfd = sbx_pidfd_open(getpid());
    birth->caller_pidfd = sbx_pidfd_open(birth->child->caller_pid);
    birth->front_stat = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (birth->front_pidfd < 0 || birth->caller_pidfd < 0) {
        int code = birth->front_pidfd < 0 ? -birth->front_pidfd : -birth->caller_pidfd;
        return sbx_launch_failed(err, code, "pidfd_open");
    }
    return birth->front_stat < 0 ? sbx_launch_failed(err, errno, "open /proc/self/stat")
                                 : 0;
}

int sbx_launch_enter_namespace(const struct sbx_launch_child *child,
                               struct sbx_error *err)
{
    struct sbx_namespace_note *note = child->launch->note;
    int sockets[2];
    if (note == NULL) {
        return 0;
    }
    (void)prctl(PR_SET_NAME, "sbx-front", 0, 0, 0);
    if (!is_bound_to(child->caller_pid)) {
        return sbx_launch_failed(err, ESRCH, "who launches has ended");
    }
    struct sbx_namespace_birth birth = {.child = child,
                                        .new_user = !may_make_namespaces(),
                                        .uid = geteuid(),
                                        .gid = getegid()};
    int error = open_birth(&birth, err);
    if (error < 0) {
        return error;
    }
    struct front front = {.note = note, .signals = open_signals()};
    if (front.signals < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0) {
        return sbx_launch_failed(err, errno, "descriptors of the front");
    }
    front.socket = sockets[0];
    birth.socket = sockets[1];
    front.init = clone_init(birth.new_user, &note->init_pid);
    if (front.init == 0) {
        (void)close(front.socket);
        (void)close(front.signals);
        return sbx_namespace_init(&birth, err);
    }
    if (front.init < 0) {
        return sbx_namespace_refused(-front.init, "clone", birth.new_user, err);
    }
    be_front(&front);
}
