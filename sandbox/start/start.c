/*
 * start.c - how sbx-inner comes to life and reaches the kernel, on x86-64, without
 * the C library's start: what that does before main, and its size in the file that is
 * copied into every sandbox, would cost more than all the rest of starting one.
 *
 * Has exactly those functions of the C library that sbx-inner's sources call, as that
 * declares them (text.c has those that need no kernel); what is missing is an
 * error at link time. One thread, no locale, errno a plain variable. Elsewhere the C
 * library itself is linked, with the same sources.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Of asm/prctl.h, and of the kernel's signal masks. */
#define SET_FS 0x1002
#define MASK_SIZE 8

static int error_number;

int *__errno_location(void)
{
    return &error_number;
}

/* NOLINTNEXTLINE(readability-function-size): as the kernel takes them */
static long call(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result = number;
    __asm__ volatile("syscall"
                     : "+a"(result)
                     : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    if (result < 0 && result > -4096) {
        error_number = (int)-result;
        return -1;
    }
    return result;
}

#define CALL0(number) call(number, 0, 0, 0, 0, 0, 0)
#define CALL1(number, a) call(number, (long)(a), 0, 0, 0, 0, 0)
#define CALL2(number, a, b) call(number, (long)(a), (long)(b), 0, 0, 0, 0)
#define CALL3(number, a, b, c) call(number, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define CALL4(number, a, b, c, d)                                                        \
    call(number, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

/* --- the start --- */

int main(int argc, char *argv[]);

__asm__(".text\n"
        ".globl _start\n"
        ".type _start, @function\n"
        "_start:\n"
        "    xor %ebp, %ebp\n"
        "    mov %rsp, %rdi\n"
        "    and $-16, %rsp\n"
        "    call sbx_inner_begin\n"
        "    hlt\n");

/* What the compiler's stack protection compares with lies here, at a place fixed by it.
 */
static struct {
    uintptr_t unused[5];
    uintptr_t canary;
} thread_block;

/* NOLINTBEGIN(bugprone-reserved-identifier, cert-dcl37-c, readability-identifier-naming):
 * called by what the compiler makes */
_Noreturn void __stack_chk_fail(void);
_Noreturn void __stack_chk_fail(void)
{
    __builtin_trap();
}
/* NOLINTEND(bugprone-reserved-identifier, cert-dcl37-c, readability-identifier-naming) */

static const void *random_bytes(const long *auxiliary)
{
    for (; auxiliary[0] != AT_NULL; auxiliary += 2) {
        if (auxiliary[0] == AT_RANDOM) {
            /* NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel hands it over so */
            return (const void *)auxiliary[1];
        }
    }
    return NULL;
}

/* `stack` as the kernel has made it: argc, argv, NULL, the environment, NULL, pairs. */
_Noreturn void sbx_inner_begin(long *stack);
_Noreturn void sbx_inner_begin(long *stack)
{
    char **argv = (char **)(stack + 1);
    char **next = argv + stack[0] + 1;
    while (*next != NULL) {
        next++;
    }
    const void *random = random_bytes((const long *)(next + 1));
    if (random != NULL) {
        memcpy(&thread_block.canary, random, sizeof thread_block.canary);
        thread_block.canary &= ~(uintptr_t)0xff; /* a string does not get across it */
    }
    (void)CALL2(SYS_arch_prctl, SET_FS, &thread_block);
    _exit(main((int)stack[0], argv));
}

/* --- the kernel's calls --- */

long syscall(long number, ...)
{
    long args[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) {
        args[i] = va_arg(list, long);
    }
    va_end(list);
    return call(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}

void _exit(int status)
{
    for (;;) {
        (void)CALL1(SYS_exit_group, status);
    }
}

pid_t fork(void)
{
    return (pid_t)CALL1(SYS_clone, SIGCHLD);
}

int execve(const char *path, char *const argv[], char *const envp[])
{
    return (int)CALL3(SYS_execve, path, argv, envp);
}

pid_t waitpid(pid_t pid, int *status, int options)
{
    return (pid_t)CALL4(SYS_wait4, pid, status, options, NULL);
}

pid_t getpid(void)
{
    return (pid_t)CALL0(SYS_getpid);
}

pid_t getpgid(pid_t pid)
{
    return (pid_t)CALL1(SYS_getpgid, pid);
}

int setpgid(pid_t pid, pid_t group)
{
    return (int)CALL2(SYS_setpgid, pid, group);
}

int kill(pid_t pid, int number)
{
    return (int)CALL2(SYS_kill, pid, number);
}

int prctl(int option, ...)
{
    long args[4];
    va_list list;
    va_start(list, option);
    for (int i = 0; i < 4; i++) {
        args[i] = va_arg(list, long);
    }
    va_end(list);
    return (int)call(SYS_prctl, option, args[0], args[1], args[2], args[3], 0);
}

int getrlimit(__rlimit_resource_t resource, struct rlimit *limit)
{
    return (int)CALL2(SYS_getrlimit, resource, limit);
}

int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
    return (int)CALL2(SYS_setrlimit, resource, limit);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    return (int)CALL2(SYS_clock_gettime, clock, now);
}

/* --- signals --- */

int sigfillset(sigset_t *set)
{
    memset(set, 0xff, sizeof *set);
    return 0;
}

int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    return (int)CALL4(SYS_rt_sigprocmask, how, set, old, MASK_SIZE);
}

int signalfd(int fd, const sigset_t *mask, int flags)
{
    return (int)CALL4(SYS_signalfd4, fd, mask, MASK_SIZE, flags);
}

/* As the C library counts: the two below are its own for threads. */
int __libc_current_sigrtmin(void)
{
    return 34;
}

int __libc_current_sigrtmax(void)
{
    return 64;
}

/* --- descriptors --- */

int open(const char *path, int flags, ...)
{
    return (int)CALL4(SYS_openat, AT_FDCWD, path, flags, 0); /* nothing is made here */
}

int close(int fd)
{
    return (int)CALL1(SYS_close, fd);
}

int close_range(unsigned first, unsigned last, int flags)
{
    return (int)CALL3(SYS_close_range, first, last, flags);
}

int dup2(int from, int to)
{
    return (int)CALL2(SYS_dup2, from, to);
}

int fcntl(int fd, int command, ...)
{
    va_list list;
    va_start(list, command);
    long argument = va_arg(list, long);
    va_end(list);
    return (int)CALL3(SYS_fcntl, fd, command, argument);
}

int pipe2(int ends[2], int flags)
{
    return (int)CALL2(SYS_pipe2, ends, flags);
}

int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    return (int)CALL3(SYS_poll, fds, count, timeout);
}

ssize_t read(int fd, void *buffer, size_t size)
{
    return CALL3(SYS_read, fd, buffer, size);
}

ssize_t pread(int fd, void *buffer, size_t size, off_t offset)
{
    return CALL4(SYS_pread64, fd, buffer, size, offset);
}

ssize_t write(int fd, const void *data, size_t size)
{
    return CALL3(SYS_write, fd, data, size);
}

ssize_t recv(int fd, void *buffer, size_t size, int flags)
{
    return CALL4(SYS_recvfrom, fd, buffer, size, flags);
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
    return CALL4(SYS_sendto, fd, data, size, flags);
}

int shutdown(int fd, int how)
{
    return (int)CALL2(SYS_shutdown, fd, how);
}

int getsockopt(int fd, int level, int name, void *value, socklen_t *size)
{
    return (int)call(SYS_getsockopt, fd, level, name, (long)value, (long)size, 0);
}

/* --- files --- */

int chdir(const char *path)
{
    return (int)CALL1(SYS_chdir, path);
}

int unlink(const char *path)
{
    return (int)CALL1(SYS_unlink, path);
}

int stat(const char *path, struct stat *status)
{
    return (int)CALL2(SYS_stat, path, status);
}

int fstat(int fd, struct stat *status)
{
    return (int)CALL2(SYS_fstat, fd, status);
}

/* --- memory --- */

/* NOLINTNEXTLINE(readability-function-size): as the C library declares it */
void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    long result =
        call(SYS_mmap, (long)address, (long)size, protection, flags, fd, offset);
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): so it comes from the kernel */
    return (void *)result;
}

/* For the one buffer of its life. */
void *malloc(size_t size)
{
    void *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void free(void *memory)
{
    (void)memory;
}
