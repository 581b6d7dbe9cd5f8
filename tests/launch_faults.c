/*
 * launch_faults.c - see launch_faults.h. Everything goes through to the C library until
 * sbx_faults_begin, since the test program's own calls are wrapped too.
 */
#include "tests/launch_faults.h"

#include "base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static struct fault faults[FAULT_MAX];
static pid_t caller; /* 0: nothing is broken */
static bool odd_target;

/* The fault that this call meets, or NULL. Each process counts for itself. */
static const struct fault *strike(const char *call)
{
    if (caller == 0) {
        return NULL;
    }
    bool in_caller = getpid() == caller;
    for (size_t i = 0; i < FAULT_MAX; i++) {
        struct fault *fault = &faults[i];
        if (fault->call == NULL || strcmp(fault->call, call) != 0 ||
            fault->in_caller != in_caller || fault->times < 0) {
            continue;
        }
        if (fault->skip > 0) {
            fault->skip--;
            continue;
        }
        fault->times = fault->times > 1 ? fault->times - 1 : -1;
        if (fault->kind == RAISE) {
            (void)raise(fault->with);
            return NULL;
        }
        if (fault->kind == EXIT) {
            _exit(fault->with);
        }
        while (fault->kind == HANG) {
            (void)pause();
        }
        errno = fault->with;
        return fault;
    }
    return NULL;
}

#define WRAP(type, name, parameters, arguments)                                          \
    type __real_##name parameters;                                                       \
    type __wrap_##name parameters;                                                       \
    type __wrap_##name parameters                                                        \
    {                                                                                    \
        return strike(#name) != NULL ? (type)-1 : __real_##name arguments;               \
    }

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): ld's names */
WRAP(int, tcsetpgrp, (int fd, pid_t group), (fd, group))
WRAP(int, setrlimit, (__rlimit_resource_t resource, const struct rlimit *limit),
     (resource, limit))
WRAP(int, close_range, (unsigned first, unsigned last, int flags), (first, last, flags))
WRAP(int, sigaction, (int number, const struct sigaction *action, struct sigaction *old),
     (number, action, old))
WRAP(int, sigprocmask, (int how, const sigset_t *set, sigset_t *old), (how, set, old))
WRAP(int, execve, (const char *path, char *const *argv, char *const *envp),
     (path, argv, envp))
WRAP(pid_t, fork, (void), ())
WRAP(int, dup2, (int from, int to), (from, to))
WRAP(int, pipe2, (int *ends, int flags), (ends, flags))
WRAP(int, poll, (struct pollfd * fds, nfds_t count, int timeout), (fds, count, timeout))
WRAP(pid_t, setsid, (void), ())

/* The lie is that it has been done. */
#define WRAP_DONE(name, parameters, arguments)                                           \
    int __real_##name parameters;                                                        \
    int __wrap_##name parameters;                                                        \
    int __wrap_##name parameters                                                         \
    {                                                                                    \
        const struct fault *fault = strike(#name);                                       \
        if (fault != NULL) {                                                             \
            return fault->kind == LIE ? 0 : -1;                                          \
        }                                                                                \
        return __real_##name arguments;                                                  \
    }

WRAP_DONE(sched_setaffinity, (pid_t pid, size_t size, const cpu_set_t *cpus),
          (pid, size, cpus))
WRAP_DONE(setgroups, (size_t count, const gid_t *groups), (count, groups))
WRAP_DONE(setresgid, (gid_t real, gid_t effective, gid_t saved), (real, effective, saved))
WRAP_DONE(setresuid, (uid_t real, uid_t effective, uid_t saved), (real, effective, saved))
WRAP_DONE(setuid, (uid_t uid), (uid))
WRAP_DONE(fchdir, (int fd), (fd))
WRAP_DONE(chdir, (const char *path), (path))

/* The lie is that there are `with` groups. */
int __real_getgroups(int size, gid_t *groups);
int __wrap_getgroups(int size, gid_t *groups);
int __wrap_getgroups(int size, gid_t *groups)
{
    const struct fault *fault = strike("getgroups");
    if (fault != NULL) {
        return fault->kind == LIE ? fault->with : -1;
    }
    return __real_getgroups(size, groups);
}

/* The lie is that all three are `with`. */
#define WRAP_IDS(type, name)                                                             \
    int __real_##name(type *real, type *effective, type *saved);                         \
    int __wrap_##name(type *real, type *effective, type *saved);                         \
    int __wrap_##name(type *real, type *effective, type *saved)                          \
    {                                                                                    \
        const struct fault *fault = strike(#name);                                       \
        if (fault == NULL) {                                                             \
            return __real_##name(real, effective, saved);                                \
        }                                                                                \
        *real = (type)fault->with;                                                       \
        *effective = (type)fault->with;                                                  \
        *saved = (type)fault->with;                                                      \
        return fault->kind == LIE ? 0 : -1;                                              \
    }

WRAP_IDS(uid_t, getresuid)
WRAP_IDS(gid_t, getresgid)

/* The lie is that CPU `with` is there too. */
int __real_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *cpus);
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *cpus);
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *cpus)
{
    const struct fault *fault = strike("sched_getaffinity");
    if (fault != NULL && fault->kind == FAIL) {
        return -1;
    }
    int result = __real_sched_getaffinity(pid, size, cpus);
    if (fault != NULL) {
        CPU_SET_S((size_t)fault->with, size, cpus);
    }
    return result;
}

/* The lie is that it has been done. */
int __real_prctl(int option, ...);
int __wrap_prctl(int option, ...);
int __wrap_prctl(int option, ...)
{
    va_list args;
    va_start(args, option);
    unsigned long value = va_arg(args, unsigned long);
    va_end(args);
    const struct fault *fault = strike("prctl");
    if (fault != NULL) {
        return fault->kind == LIE ? 0 : -1;
    }
    return __real_prctl(option, value, 0UL, 0UL, 0UL);
}

ssize_t __real_read(int fd, void *buffer, size_t size);
ssize_t __wrap_read(int fd, void *buffer, size_t size);
ssize_t __wrap_read(int fd, void *buffer, size_t size)
{
    return strike("read") != NULL ? -1 : __real_read(fd, buffer, size);
}

/* What read is called where the compiler knows the buffer's size. */
ssize_t __real___read_chk(int fd, void *buffer, size_t size, size_t room);
ssize_t __wrap___read_chk(int fd, void *buffer, size_t size, size_t room);
ssize_t __wrap___read_chk(int fd, void *buffer, size_t size, size_t room)
{
    return strike("read") != NULL ? -1 : __real___read_chk(fd, buffer, size, room);
}

int __real_setpgid(pid_t pid, pid_t group);
int __wrap_setpgid(pid_t pid, pid_t group);
int __wrap_setpgid(pid_t pid, pid_t group)
{
    odd_target = odd_target || (getpid() == caller && (pid <= 1 || group <= 1));
    return strike("setpgid") != NULL ? -1 : __real_setpgid(pid, group);
}

int __real_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number)
{
    odd_target = odd_target || (getpid() == caller && pid <= 1);
    return __real_kill(pid, number);
}

int __real_getrlimit(__rlimit_resource_t resource, struct rlimit *limit);
int __wrap_getrlimit(__rlimit_resource_t resource, struct rlimit *limit);
int __wrap_getrlimit(__rlimit_resource_t resource, struct rlimit *limit)
{
    const struct fault *fault = strike("getrlimit");
    if (fault != NULL && fault->kind == FAIL) {
        return -1;
    }
    int result = __real_getrlimit(resource, limit);
    if (fault != NULL) {
        limit->rlim_cur--;
    }
    return result;
}

int __real_openat(int directory, const char *path, int flags, ...);
int __wrap_openat(int directory, const char *path, int flags, ...);
int __wrap_openat(int directory, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = (flags & O_CREAT) != 0 ? va_arg(args, mode_t) : 0;
    va_end(args);
    return strike("openat") != NULL ? -1 : __real_openat(directory, path, flags, mode);
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = (flags & O_CREAT) != 0 ? va_arg(args, mode_t) : 0;
    va_end(args);
    return strike("open") != NULL ? -1 : __real_open(path, flags, mode);
}

/* The lie is what a process reads whose oom_score_adj is negative. */
ssize_t __real_pread(int fd, void *buffer, size_t size, off_t offset);
ssize_t __wrap_pread(int fd, void *buffer, size_t size, off_t offset);
ssize_t __wrap_pread(int fd, void *buffer, size_t size, off_t offset)
{
    static const char negative[] = "-500\n";
    const struct fault *fault = strike("pread");
    if (fault == NULL) {
        return __real_pread(fd, buffer, size, offset);
    }
    if (fault->kind == FAIL || size < sizeof negative) {
        return -1;
    }
    memcpy(buffer, negative, sizeof negative - 1);
    return (ssize_t)sizeof negative - 1;
}

ssize_t __real_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size)
{
    const struct fault *fault = strike("write");
    if (fault == NULL) {
        return __real_write(fd, data, size);
    }
    return fault->kind == PARTLY ? __real_write(fd, data, (size_t)fault->with) : -1;
}

DIR *__real_opendir(const char *path);
DIR *__wrap_opendir(const char *path);
DIR *__wrap_opendir(const char *path)
{
    return strike("opendir") != NULL ? NULL : __real_opendir(path);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return strike("calloc") != NULL ? NULL : __real_calloc(count, size);
}

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    int flags = command == F_SETFD ? va_arg(args, int) : 0;
    va_end(args);
    return strike("fcntl") != NULL ? -1 : __real_fcntl(fd, command, flags);
}

/* In the code under test only as rt_sigaction. */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    va_list args;
    va_start(args, number);
    long a = va_arg(args, long);
    long b = va_arg(args, long);
    long c = va_arg(args, long);
    long d = va_arg(args, long);
    va_end(args);
    return strike("syscall") != NULL ? -1 : __real_syscall(number, a, b, c, d);
}

/* The lie is that nothing has ended: a tracer holds the child. */
int __real_waitid(idtype_t type, id_t id, siginfo_t *info, int options);
int __wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options);
int __wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
    const struct fault *fault = strike("waitid");
    if (fault != NULL) {
        return fault->kind == LIE ? 0 : -1;
    }
    return __real_waitid(type, id, info, options);
}

/* The lie is that `with` seconds pass from one call to the next. */
uint64_t __real_sbx_clock_us(void);
uint64_t __wrap_sbx_clock_us(void);
uint64_t __wrap_sbx_clock_us(void)
{
    static uint64_t ahead_us;
    const struct fault *fault = strike("sbx_clock_us");
    if (fault != NULL) {
        ahead_us += (uint64_t)fault->with * SBX_US_PER_S;
    }
    return __real_sbx_clock_us() + ahead_us;
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

void sbx_faults_begin(const struct fault *rows, size_t count)
{
    memset(faults, 0, sizeof faults);
    memcpy(faults, rows, count * sizeof faults[0]);
    odd_target = false;
    caller = getpid();
}

bool sbx_faults_end(void)
{
    caller = 0;
    return odd_target;
}
