/*
 * inner_attack attack | limit | orphans [N] | regroup [1]
 *
 * attack: tries from inside of a namespace all that it can do to process 1 of the same
 * user: every signal by kill, by a queued one with a forged sender and by a descriptor,
 * tracing, reading. Status 0 when nothing of it had an effect, and none of the signals
 * came back to it; else it says what had.
 * limit: status 0 when it cannot set a limit on process 1's processor time.
 * orphans: makes N processes that nobody of its own reaps, and ends with 7 while the last
 * ones do.
 * regroup: goes to the process group of a child, or of process 1, says "up", and ends
 * with 42 when it gets TERM.
 */
#include "helper.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define ORPHANS_MAX 5000UL

static volatile sig_atomic_t caught;

static void catch (int number)
{
    caught = number;
}

static _Noreturn void had_effect(const char *what)
{
    helper_say("%s (%s)\n", what, strerror(errno));
    _exit(1);
}

/* Waits until process 1 has reaped an orphan: so it has seen all that was before, and is
 * at work. */
static void await_turn(void)
{
    int ends[2];
    pid_t orphan = -1;
    if (pipe2(ends, O_CLOEXEC) < 0) {
        helper_fail("pipe");
    }
    pid_t child = helper_fork();
    if (child == 0) {
        pid_t grandchild = helper_fork();
        if (grandchild > 0 && write(ends[1], &grandchild, sizeof(grandchild)) < 0) {
            _exit(1);
        }
        _exit(0);
    }
    (void)waitpid(child, NULL, 0);
    if (read(ends[0], &orphan, sizeof(orphan)) != sizeof(orphan)) {
        helper_fail("orphan");
    }
    (void)close(ends[0]);
    (void)close(ends[1]);
    while (kill(orphan, 0) == 0) {
        helper_nap_us(1000);
    }
}

/* A queued signal says of its sender what it wants. */
static void forge(int number)
{
    siginfo_t info;
    memset(&info, 0, sizeof(info));
    info.si_signo = number;
    info.si_code = SI_QUEUE;
    info.si_pid = 0;
    (void)syscall(SYS_rt_sigqueueinfo, 1, number, &info);
    info.si_code = SI_USER;
    if (syscall(SYS_rt_sigqueueinfo, 1, number, &info) == 0) {
        had_effect("a forged sender");
    }
}

static void send_signals(void)
{
    int fd = (int)syscall(SYS_pidfd_open, 1, 0);
    for (int number = 1; number < NSIG; number++) {
        if (number != SIGALRM) {
            (void)signal(number, catch);
        }
    }
    for (int number = 1; number < NSIG; number++) {
        (void)kill(1, number);
        (void)syscall(SYS_tgkill, 1, 1, number);
        forge(number);
        if (fd >= 0) {
            (void)syscall(SYS_pidfd_send_signal, fd, number, NULL, 0);
        }
    }
    (void)signal(SIGCHLD, SIG_DFL);
    caught = 0;
    await_turn();
    if (caught != 0) {
        helper_say("signal %d came back\n", (int)caught);
        _exit(1);
    }
    if (fd >= 0 && syscall(SYS_pidfd_getfd, fd, 3, 0) >= 0) {
        had_effect("pidfd_getfd");
    }
}

static void look(const char *path)
{
    if (open(path, O_RDONLY | O_CLOEXEC) >= 0) {
        had_effect(path);
    }
    /* Not there at all: the test has no procfs of this namespace. */
    if (errno != EACCES && errno != EPERM) {
        had_effect(path);
    }
}

static void trace(void)
{
    char byte = 0;
    struct iovec local = {&byte, 1};
    struct iovec remote = {(void *)&byte, 1};
    if (ptrace(PTRACE_SEIZE, 1, NULL, NULL) >= 0 || errno != EPERM) {
        had_effect("PTRACE_SEIZE");
    }
    if (ptrace(PTRACE_ATTACH, 1, NULL, NULL) >= 0 || errno != EPERM) {
        had_effect("PTRACE_ATTACH");
    }
    if (process_vm_readv(1, &local, 1, &remote, 1, 0) >= 0 || errno != EPERM) {
        had_effect("process_vm_readv");
    }
    look("/proc/1/environ");
    look("/proc/1/mem");
    look("/proc/1/maps");
    look("/proc/1/cwd");
    look("/proc/1/exe");
}

static int attack(void)
{
    trace();
    send_signals();
    await_turn();
    return 0;
}

static int set_limit(void)
{
    const struct rlimit one = {.rlim_cur = 1, .rlim_max = 1};
    if (prlimit(1, RLIMIT_CPU, &one, NULL) == 0 || errno != EPERM) {
        had_effect("prlimit");
    }
    return prlimit(1, RLIMIT_CPU, NULL, NULL) == 0 ? 0 : 1;
}

/* One after the other, so that they are never too many. */
static int make_orphans(unsigned long count)
{
    for (unsigned long i = 0; i < count; i++) {
        pid_t child = helper_fork();
        if (child == 0) {
            (void)helper_fork();
            _exit(3);
        }
        if (waitpid(child, NULL, 0) != child) {
            helper_fail("waitpid");
        }
    }
    return 7;
}

static _Noreturn void end_well(int number)
{
    (void)number;
    _exit(42);
}

static int regroup(bool to_first)
{
    (void)signal(SIGTERM, end_well);
    pid_t child = helper_fork();
    if (child == 0) {
        (void)signal(SIGTERM, SIG_IGN);
        helper_idle();
    }
    if (setpgid(child, child) < 0 || setpgid(0, to_first ? 1 : child) < 0) {
        helper_fail("setpgid");
    }
    helper_up();
    helper_idle();
}

int main(int argc, char **argv)
{
    helper_bound(HELPER_LIFETIME_SECONDS);
    if (argc > 1 && strcmp(argv[1], "attack") == 0) {
        return attack();
    }
    if (argc > 1 && strcmp(argv[1], "limit") == 0) {
        return set_limit();
    }
    if (argc > 1 && strcmp(argv[1], "orphans") == 0) {
        return make_orphans(helper_number(argc, argv, 2, 100, ORPHANS_MAX));
    }
    if (argc > 1 && strcmp(argv[1], "regroup") == 0) {
        return regroup(argc > 2);
    }
    return 92;
}
