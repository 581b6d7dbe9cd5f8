/*
 * verify_run.c - the verifier: a process that the caller forks, in which and below which
 * all checks are made, and the caller's bounded wait for it.
 *
 * It is a child subreaper, so that whatever a check leaves comes to it, and it does not
 * end before the kernel has told it that it has no child. It ends early when its parent
 * is gone, or a signal says that nobody waits any more. Nothing that a check does reaches
 * the caller, but for what it writes on the board.
 */
#include "sandbox/verify.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "cgroup/group.h"
#include "reaper/pidref.h"
#include "reaper/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The slowest check takes a second of CPU; this is for machines that do much else. */
#define CHECKS_BOUND_US UINT64_C(40000000)
#define SWEEP_BOUND_US UINT64_C(5000000)
#define SWEEP_LOOK_US UINT64_C(10000)
#define CALLER_BOUND_US UINT64_C(60000000)

struct verification_run {
    const struct sbx_verifier *verifier;
    struct sbx_group group;
    pid_t tasks[SBX_CHECK_MAX]; /* 0: over, or not begun */
    sigset_t awaited;
};

static void unblock_all(void)
{
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* --- a check --- */

static _Noreturn void make_check(struct verification_run *run, size_t index)
{
    const struct sbx_check_kind *kind = &sbx_check_kinds[index];
    struct sbx_finding finding = {0};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    sbx_group_drop(&run->group);
    unblock_all();
    kind->run(run->verifier, kind, &finding);
    run->verifier->board->findings[index] = finding;
    _exit(0);
}

static void begin_checks(struct verification_run *run)
{
    for (size_t i = 0; i < sbx_check_count; i++) {
        struct sbx_finding *finding = &run->verifier->board->findings[i];
        if (sbx_check_kinds[i].run == NULL) {
            continue;
        }
        pid_t pid = fork();
        if (pid == 0) {
            make_check(run, i);
        }
        if (pid < 0) {
            sbx_finding_no(finding, "kernel", "allow this user more processes",
                           "could not be tried: fork: %s", sbx_errno_text(errno).text);
        } else {
            run->tasks[i] = pid;
        }
    }
}

static void note_end(struct verification_run *run, pid_t pid, int status)
{
    char name[SBX_SIGNAL_NAME_SIZE];
    for (size_t i = 0; i < sbx_check_count; i++) {
        struct sbx_finding *finding = &run->verifier->board->findings[i];
        if (run->tasks[i] != pid) {
            continue;
        }
        run->tasks[i] = 0;
        if (finding->verdict == SBX_VERDICT_OPEN) {
            sbx_finding_no(finding, "kernel", "", "its process was ended by %s",
                           WIFSIGNALED(status)
                               ? sbx_text_signal_name(WTERMSIG(status), name)
                               : "itself");
        }
    }
}

static bool is_under_way(const struct verification_run *run)
{
    for (size_t i = 0; i < sbx_check_count; i++) {
        if (run->tasks[i] != 0) {
            return true;
        }
    }
    return false;
}

/* False: there are no children. */
static bool reap(struct verification_run *run)
{
    int status = 0;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0) {
        note_end(run, pid, status);
    }
    return pid == 0;
}

/* Waits for a signal, until then at most. Returns it, 0 when the time is over. */
static int wait_for_signal(const struct verification_run *run, uint64_t until_us)
{
    uint64_t now_us = sbx_clock_us();
    uint64_t left_us = until_us > now_us ? until_us - now_us : 0;
    const struct timespec left = {.tv_sec = (time_t)(left_us / SBX_US_PER_S),
                                  .tv_nsec = (long)(left_us % SBX_US_PER_S) * 1000};
    int number = sigtimedwait(&run->awaited, NULL, &left);
    return number > 0 ? number : 0;
}

static void await_checks(struct verification_run *run, pid_t caller)
{
    uint64_t until_us = sbx_clock_us() + CHECKS_BOUND_US;
    while (is_under_way(run) && getppid() == caller) {
        int number = wait_for_signal(run, until_us);
        if (number == SIGCHLD) {
            (void)reap(run);
        } else if (number != 0 || sbx_clock_us() >= until_us) {
            return;
        }
    }
}

static void name_unfinished(struct verification_run *run)
{
    for (size_t i = 0; i < sbx_check_count; i++) {
        if (run->tasks[i] != 0) {
            sbx_finding_no(&run->verifier->board->findings[i], "time",
                           "verify on a machine that has less to do",
                           "not finished within %u s",
                           (unsigned)(CHECKS_BOUND_US / SBX_US_PER_S));
        }
    }
}

static int kill_one(pid_t pid, void *context)
{
    (void)context;
    (void)sbx_child_signal(pid, SIGKILL);
    return 0;
}

/* Whoever is left becomes our child sooner or later. */
static void sweep(struct verification_run *run)
{
    uint64_t until_us = sbx_clock_us() + SWEEP_BOUND_US;
    SBX_AUTO_CLOSE int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (reap(run) && sbx_clock_us() < until_us) {
        SBX_AUTO_CLOSE int children = sbx_proc_open_children(proc_fd, getpid(), getpid());
        if (children >= 0) {
            (void)sbx_proc_read_children(children, kill_one, NULL);
        }
        (void)wait_for_signal(run, sbx_clock_us() + SWEEP_LOOK_US);
    }
}

/* --- the verifier --- */

/* Nothing that a check prints, or reads, is the caller's. */
static void close_the_doors(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++) {
        (void)dup2(null, fd); /* NOLINT(android-cloexec-dup2) */
    }
    if (null > STDERR_FILENO) {
        (void)close(null);
    }
    (void)sbx_fd_cloexec_from(STDERR_FILENO + 1);
}

static void await_by_default(struct verification_run *run)
{
    static const int ends[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    sigset_t all;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)sigemptyset(&run->awaited);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        (void)sigaddset(&run->awaited, ends[i]);
    }
    for (int number = 1; number < NSIG; number++) {
        (void)signal(number, SIG_DFL); /* NOLINT(cert-err33-c): some cannot be */
    }
}

/* A fresh directory of that user's. From then on he can put anything in its place, a link
 * to one of root's files above all: all that is done there is done through the
 * descriptor. */
static void make_directory(struct sbx_verifier *verifier, char path[static PATH_MAX])
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    const char *top = secure_getenv("TMPDIR");
    (void)snprintf(path, PATH_MAX, "%s/sbx-verify-XXXXXX",
                   top != NULL && top[0] == '/' ? top : "/tmp");
    if (mkdtemp(path) == NULL) {
        return;
    }
    verifier->directory_fd = open(path, flags);
    if (verifier->as_user && verifier->directory_fd >= 0 &&
        fchown(verifier->directory_fd, verifier->uid, verifier->gid) < 0) {
        sbx_fd_drop(&verifier->directory_fd);
    }
    if (verifier->directory_fd < 0) {
        (void)rmdir(path);
    }
}

/* When nobody is left of ours who could put more there. */
static void remove_directory(const struct sbx_verifier *verifier, const char *path)
{
    if (verifier->directory_fd < 0) {
        return;
    }
    SBX_AUTO_CLOSEDIR DIR *directory = fdopendir(verifier->directory_fd);
    const struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        (void)unlinkat(dirfd(directory), entry->d_name, 0);
    }
    (void)rmdir(path); /* of a link it is none */
}

static _Noreturn void be_verifier(struct sbx_verifier *verifier, pid_t caller)
{
    static struct verification_run run;
    static char directory[PATH_MAX];
    uint64_t began_us = sbx_clock_us();
    run.verifier = verifier;
    await_by_default(&run);
    (void)prctl(PR_SET_NAME, "sbx-verify", 0, 0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    close_the_doors();
    verifier->probe_fd = open(verifier->probe, O_PATH | O_CLOEXEC);
    if (verifier->probe_fd < 0) {
        verifier->probe_fd = -errno;
    }
    make_directory(verifier, directory);
    sbx_verify_groups(verifier, caller, &run.group);
    begin_checks(&run);
    await_checks(&run, caller);
    name_unfinished(&run);
    sweep(&run);
    remove_directory(verifier, directory);
    (void)sbx_group_close(&run.group, false);
    verifier->board->took_us = sbx_clock_us() - began_us;
    verifier->board->complete = true;
    _exit(0);
}

/* --- the caller --- */

/* Bounded. False: it was killed for being late. */
static bool await_verifier(pid_t pid)
{
    uint64_t until_us = sbx_clock_us() + CALLER_BOUND_US;
    int status = 0;
    SBX_AUTO_CLOSE int pidfd = sbx_pidfd_open(pid);
    bool ended = pidfd < 0; /* without one there is no bound but its own */
    while (!ended && sbx_clock_us() < until_us) {
        struct pollfd poll_fd = {.fd = pidfd, .events = POLLIN};
        ended = poll(&poll_fd, 1, (int)(CALLER_BOUND_US / 1000)) == 1;
    }
    if (!ended) {
        (void)sbx_child_signal(pid, SIGKILL);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        continue;
    }
    return ended;
}

/* Processes of the user that is verified had the board, too. */
static void end_texts(struct sbx_verify_board *board)
{
    for (size_t i = 0; i < sbx_check_count; i++) {
        struct sbx_layer *layer = &board->findings[i].layer;
        layer->layer[sizeof layer->layer - 1] = '\0';
        layer->detail[sizeof layer->detail - 1] = '\0';
        layer->remedy[sizeof layer->remedy - 1] = '\0';
        layer->version[sizeof layer->version - 1] = '\0';
    }
}

int sbx_verify_run(struct sbx_verifier *verifier, struct sbx_error *err)
{
    pid_t caller = getpid();
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    int code = errno;
    if (pid == 0) {
        be_verifier(verifier, caller);
    }
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    if (pid < 0) {
        return sbx_error_set(err, code, SBX_STAGE_LAUNCH, "verification: fork: %s",
                             sbx_errno_text(code).text);
    }
    (void)await_verifier(pid);
    if (!verifier->board->complete) {
        return sbx_error_set(err, EIO, SBX_STAGE_MONITOR,
                             "verification: its process has not come to its end");
    }
    end_texts(verifier->board);
    return 0;
}
