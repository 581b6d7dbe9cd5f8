/*
 * test_seccomp.c - the default filter: its numbers beside those of the kernel's headers,
 * the program run by hand for every call there is, and by the kernel on those that it
 * refuses, also through the gate for 32-bit programs; and that ordinary programs do not
 * notice it.
 */
#include "base/fd.h"
#include "sandbox/seccomp.h"
#include "sandbox/seccomp_calls.h"
#include "tests/fixture.h"
#include "tests/seccomp_numbers.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH(array) (int)(sizeof(array) / sizeof((array)[0]))

/* Our own answer in place of EPERM, to tell the filter's from the kernel's. */
#define MARK EHWPOISON

struct program {
    struct sock_filter *code;
    size_t count;
};

static struct program make_default(void)
{
    struct program program;
    struct sbx_error error;
    ck_assert_int_eq(sbx_seccomp_default(&program.code, &program.count, &error), 0);
    return program;
}

/* --- the table --- */

static const struct machine {
    const char *name;
    const struct sbx_kit_number *known;
    int found_min;
} machines[] = {
    [SBX_MACHINE_X86_64] = {"x86-64", sbx_kit_numbers_x86_64, 45},
    [SBX_MACHINE_I386] = {"i386", sbx_kit_numbers_i386, 45},
    [SBX_MACHINE_AARCH64] = {"aarch64", sbx_kit_numbers_aarch64, 38},
};

/* -1: not a call of that machine, or one that the headers are too old for. */
static long known_number(const struct sbx_kit_number *known, const char *name)
{
    size_t length = strcspn(name, "(");
    for (; known->name != NULL; known++) {
        if (strlen(known->name) == length && memcmp(known->name, name, length) == 0) {
            char *end = NULL;
            long number = strtol(known->number, &end, 10);
            return end != known->number && *end == '\0' ? number : -1;
        }
    }
    ck_abort_msg("%s is in no table of numbers", name);
}

START_TEST(numbers_are_those_of_the_headers)
{
    const struct machine *machine = &machines[_i];
    size_t count = 0;
    const struct sbx_seccomp_call *calls = sbx_seccomp_calls(&count);
    int found = 0;
    for (size_t i = 0; machine->known->name != NULL && i < count; i++) {
        long known = known_number(machine->known, calls[i].name);
        ck_assert_msg(known < 0 || known == calls[i].numbers[_i],
                      "%s of %s is %ld, not %d", calls[i].name, machine->name, known,
                      calls[i].numbers[_i]);
        found += known >= 0 ? 1 : 0;
    }
    ck_assert(machine->known->name == NULL || found >= machine->found_min);
}
END_TEST

static bool is_refused(const char *name)
{
    size_t count = 0;
    const char *const *shown = sbx_seccomp_refused(&count);
    for (size_t i = 0; i < count; i++) {
        size_t length = strcspn(shown[i], "(");
        if (strlen(name) == length && memcmp(shown[i], name, length) == 0) {
            return true;
        }
    }
    return false;
}

START_TEST(names_are_those_of_the_table)
{
    size_t count = 0;
    size_t shown_count = 0;
    const struct sbx_seccomp_call *calls = sbx_seccomp_calls(&count);
    const char *const *shown = sbx_seccomp_refused(&shown_count);
    ck_assert_uint_eq(shown_count, count);
    for (size_t i = 0; i < count; i++) {
        ck_assert_str_eq(shown[i], calls[i].name);
    }
    ck_assert_str_eq(shown[0], "keyctl");
    for (const struct sbx_kit_number *wanted = sbx_kit_numbers_aarch64;
         wanted->name != NULL; wanted++) {
        ck_assert_msg(is_refused(wanted->name), "%s is not in the table", wanted->name);
    }
}
END_TEST

/* --- run by hand --- */

/* What the program answers, and in how many steps. Every instruction that it has must be
 * one of those below. */
static uint32_t answer_of(const struct program *program, const struct seccomp_data *data,
                          int *ret_steps)
{
    uint32_t value = 0;
    size_t at = 0;
    for (*ret_steps = 1; *ret_steps < 1000; (*ret_steps)++) {
        ck_assert_uint_lt(at, program->count);
        const struct sock_filter *step = &program->code[at++];
        bool holds = false;
        switch (step->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            ck_assert_uint_le(step->k, sizeof *data - sizeof value);
            memcpy(&value, (const char *)data + step->k, sizeof value);
            continue;
        case BPF_RET | BPF_K:
            return step->k;
        case BPF_JMP | BPF_JA:
            at += step->k;
            continue;
        case BPF_JMP | BPF_K | BPF_JEQ:
            holds = value == step->k;
            break;
        case BPF_JMP | BPF_K | BPF_JGE:
            holds = value >= step->k;
            break;
        case BPF_JMP | BPF_K | BPF_JSET:
            holds = (value & step->k) != 0;
            break;
        default:
            ck_abort_msg("instruction %#x", step->code);
        }
        at += holds ? step->jt : step->jf;
    }
    ck_abort_msg("no end");
}

#define ALLOW SECCOMP_RET_ALLOW
#define REFUSED (SECCOMP_RET_ERRNO | EPERM)
#define NO_SUCH (SECCOMP_RET_ERRNO | ENOSYS)

static uint32_t expected_of(enum sbx_seccomp_machine machine, int number)
{
    size_t count = 0;
    const struct sbx_seccomp_call *calls = sbx_seccomp_calls(&count);
    for (size_t i = 0; i < count; i++) {
        if (calls[i].numbers[machine] == number) {
            switch (calls[i].rule) {
            case SBX_RULE_REFUSE:
                return REFUSED;
            case SBX_RULE_UNKNOWN:
                return NO_SUCH;
            case SBX_RULE_CLONE:
            case SBX_RULE_UNSHARE:
            case SBX_RULE_SETTING:
            case SBX_RULE_FIRST:
            case SBX_RULE_PRIORITY:
            case SBX_RULE_TERMINAL:
                return ALLOW; /* with the arguments that are tried here */
            }
        }
    }
    return ALLOW;
}

static void try_all(const struct program *program, enum sbx_seccomp_machine machine,
                    uint32_t architecture)
{
    for (int number = 0; number < 1200; number++) {
        struct seccomp_data data = {.nr = number, .arch = architecture};
        int steps = 0;
        uint32_t answer = answer_of(program, &data, &steps);
        ck_assert_msg(answer == expected_of(machine, number), "call %d of %s gives %#x",
                      number, machines[machine].name, answer);
        ck_assert_msg(steps <= 24, "call %d of %s takes %d steps", number,
                      machines[machine].name, steps);
    }
}

#if defined(__x86_64__)
#define NATIVE SBX_MACHINE_X86_64
#define NATIVE_ARCHITECTURE AUDIT_ARCH_X86_64
#else
#define NATIVE SBX_MACHINE_AARCH64
#define NATIVE_ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

START_TEST(every_number_is_answered_by_the_table)
{
    struct program program = make_default();
    try_all(&program, NATIVE, NATIVE_ARCHITECTURE);
#if defined(__x86_64__)
    try_all(&program, SBX_MACHINE_I386, AUDIT_ARCH_I386);
#endif
    free(program.code);
}
END_TEST

#define HIGH (UINT64_C(7) << 32)

static const struct row {
    uint32_t architecture;
    long number;
    uint64_t args[6];
    uint32_t answer;
} rows[] = {
    {NATIVE_ARCHITECTURE, SYS_ioctl, {0, TIOCSTI}, REFUSED},
    {NATIVE_ARCHITECTURE, SYS_ioctl, {0, TIOCSTI | HIGH}, REFUSED},
    {NATIVE_ARCHITECTURE, SYS_ioctl, {0, TIOCLINUX | HIGH}, REFUSED},
    {NATIVE_ARCHITECTURE, SYS_ioctl, {0, TIOCGWINSZ}, ALLOW},
    {NATIVE_ARCHITECTURE, SYS_ioctl, {TIOCSTI, 0, TIOCSTI}, ALLOW},
    {NATIVE_ARCHITECTURE, SYS_unshare, {CLONE_NEWUSER}, REFUSED},
    {NATIVE_ARCHITECTURE, SYS_unshare, {CLONE_NEWNS | HIGH}, REFUSED},
    {NATIVE_ARCHITECTURE, SYS_unshare, {0x80}, REFUSED},
    {NATIVE_ARCHITECTURE, SYS_unshare, {CLONE_FILES | CLONE_FS}, ALLOW},
    {NATIVE_ARCHITECTURE, SYS_clone, {CLONE_NEWUSER | SIGCHLD | HIGH}, REFUSED},
    {NATIVE_ARCHITECTURE, SYS_clone, {CLONE_NEWNS}, REFUSED},
    {NATIVE_ARCHITECTURE, SYS_clone, {CLONE_NEWPID | SIGCHLD}, REFUSED},
    {NATIVE_ARCHITECTURE, SYS_clone, {CLONE_NEWNET}, REFUSED},
    {NATIVE_ARCHITECTURE, SYS_clone, {CLONE_NEWIPC}, REFUSED},
    {NATIVE_ARCHITECTURE, SYS_clone, {CLONE_NEWUTS}, REFUSED},
    {NATIVE_ARCHITECTURE, SYS_clone, {CLONE_NEWCGROUP}, REFUSED},
    {NATIVE_ARCHITECTURE, SYS_clone, {CLONE_VM | CLONE_VFORK | SIGCHLD}, ALLOW},
    {NATIVE_ARCHITECTURE, SYS_clone, {0x80}, ALLOW},
    {NATIVE_ARCHITECTURE, SYS_prlimit64, {1, RLIMIT_CPU, 4096}, REFUSED},
    {NATIVE_ARCHITECTURE, SYS_prlimit64, {1 | HIGH, RLIMIT_CPU, HIGH}, REFUSED},
    {NATIVE_ARCHITECTURE, SYS_prlimit64, {1, RLIMIT_CPU, 0, 4096}, ALLOW},
    {NATIVE_ARCHITECTURE, SYS_prlimit64, {0, RLIMIT_CPU, 4096}, ALLOW},
    {NATIVE_ARCHITECTURE, SYS_prlimit64, {2, RLIMIT_CPU, 4096}, ALLOW},
    {NATIVE_ARCHITECTURE, SYS_sched_setscheduler, {1 | HIGH}, REFUSED},
    {NATIVE_ARCHITECTURE, SYS_sched_setscheduler, {2, 1, 1}, ALLOW},
    {NATIVE_ARCHITECTURE, SYS_sched_setattr, {1}, REFUSED},
    {NATIVE_ARCHITECTURE, SYS_sched_setparam, {1}, REFUSED},
    {NATIVE_ARCHITECTURE, SYS_sched_setaffinity, {1, 8, 4096}, REFUSED},
    {NATIVE_ARCHITECTURE, SYS_sched_setaffinity, {0, 1, 1}, ALLOW},
    {NATIVE_ARCHITECTURE, SYS_setpriority, {PRIO_PROCESS, 1 | HIGH, 19}, REFUSED},
    {NATIVE_ARCHITECTURE, SYS_setpriority, {PRIO_PGRP, 0, 19}, REFUSED},
    {NATIVE_ARCHITECTURE, SYS_setpriority, {PRIO_USER | HIGH, 0, 19}, REFUSED},
    {NATIVE_ARCHITECTURE, SYS_setpriority, {PRIO_PROCESS, 0, 1}, ALLOW},
    {NATIVE_ARCHITECTURE, SYS_setpriority, {PRIO_PROCESS | HIGH, 2, 1}, ALLOW},
#if defined(__x86_64__)
    {AUDIT_ARCH_I386, 54, {0, TIOCSTI}, REFUSED},
    {AUDIT_ARCH_I386, 54, {0, TIOCGWINSZ}, ALLOW},
    {AUDIT_ARCH_I386, 120, {CLONE_NEWUSER}, REFUSED},
    {AUDIT_ARCH_I386, 120, {SIGCHLD}, ALLOW},
    {AUDIT_ARCH_I386, 435, {0}, NO_SUCH},
    {AUDIT_ARCH_X86_64, 0x40000000L, {0}, REFUSED}, /* x32: read */
    {AUDIT_ARCH_X86_64, 0x40000000L + 39, {0}, REFUSED},
    {AUDIT_ARCH_X86_64, 0x7fffffffL, {0}, REFUSED},
    {AUDIT_ARCH_X86_64, -2, {0}, REFUSED},
    {AUDIT_ARCH_X86_64, -1, {0}, ALLOW}, /* a tracer skips a call */
    {AUDIT_ARCH_AARCH64, 64, {0}, REFUSED},
#else
    {AUDIT_ARCH_X86_64, 1, {0}, REFUSED},
#endif
    {AUDIT_ARCH_ARM, 4, {0}, REFUSED},
    {0, 0, {0}, REFUSED},
};

START_TEST(arguments_decide)
{
    const struct row *row = &rows[_i];
    struct program program = make_default();
    struct seccomp_data data = {.nr = (int)row->number, .arch = row->architecture};
    int steps = 0;
    memcpy(data.args, row->args, sizeof data.args);
    uint32_t answer = answer_of(&program, &data, &steps);
    ck_assert_msg(answer == row->answer, "row %d: call %ld gives %#x", _i, row->number,
                  answer);
    free(program.code);
}
END_TEST

/* --- run by the kernel --- */

/* Under the program from here on; to be called in a child. */
static void enter(const struct program *program)
{
    const struct sock_fprog filter = {.len = (unsigned short)program->count,
                                      .filter = program->code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) < 0) {
        _exit(100);
    }
}

static void mark(struct program *program)
{
    for (size_t i = 0; i < program->count; i++) {
        struct sock_filter *step = &program->code[i];
        if (step->code == (BPF_RET | BPF_K) && step->k == REFUSED) {
            step->k = SECCOMP_RET_ERRNO | MARK;
        }
    }
}

/* A row of the table in the kernel's hands, with arguments that would do nothing if it
 * were let through. Gives the errno, 0 for none. */
static int try_native(long number, const long args[static 3])
{
    errno = 0;
    long result = syscall(number, args[0], args[1], args[2], -1L, -1L, -1L);
    if (result == 0 && number == SYS_clone) {
        _exit(101);
    }
    return result < 0 ? errno : 0;
}

#if defined(__x86_64__)
static int try_i386(long number, const long args[static 3])
{
    long result = number;
    __asm__ volatile("int $0x80"
                     : "+a"(result)
                     : "b"(args[0]), "c"(args[1]), "d"(args[2]), "S"(-1L), "D"(-1L)
                     : "memory", "r8", "r9", "r10", "r11");
    if (result == 0 && number == 120) {
        _exit(101);
    }
    return (int)result < 0 ? -(int)result : 0;
}

/* Where the kernel has no gate for them, the instruction is a fault. */
static bool has_i386(void)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        const long none[3] = {0};
        (void)try_i386(20, none); /* getpid */
        _exit(0);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status);
}
#endif

static void arguments_of(const struct sbx_seccomp_call *call, long args[static 3])
{
    args[0] = -1;
    args[1] = -1;
    args[2] = -1;
    switch (call->rule) {
    case SBX_RULE_CLONE:
        args[0] = CLONE_NEWUSER | SIGCHLD;
        args[1] = 0;
        break;
    case SBX_RULE_UNSHARE:
        args[0] = CLONE_NEWUSER;
        break;
    case SBX_RULE_SETTING:
        args[0] = 1;
        args[1] = RLIMIT_CPU;
        break;
    case SBX_RULE_FIRST:
        args[0] = 1;
        break;
    case SBX_RULE_PRIORITY:
        args[0] = PRIO_PROCESS;
        args[1] = 1;
        break;
    case SBX_RULE_TERMINAL:
        args[1] = strstr(call->name, "STI") != NULL ? TIOCSTI : TIOCLINUX;
        break;
    case SBX_RULE_REFUSE:
    case SBX_RULE_UNKNOWN:
        break;
    }
}

/* In the child: index of the first row that is not answered so, plus one, or 0. */
static int first_wrong(enum sbx_seccomp_machine machine, int refusal,
                       int (*try)(long number, const long args[static 3]))
{
    size_t count = 0;
    const struct sbx_seccomp_call *calls = sbx_seccomp_calls(&count);
    for (size_t i = 0; i < count; i++) {
        long args[3];
        int wanted = calls[i].rule == SBX_RULE_UNKNOWN ? ENOSYS : refusal;
        arguments_of(&calls[i], args);
        if (calls[i].numbers[machine] >= 0 &&
            try(calls[i].numbers[machine], args) != wanted) {
            return (int)i + 1;
        }
    }
    return 0;
}

static void check_kernel(enum sbx_seccomp_machine machine, bool marked,
                         int (*try)(long number, const long args[static 3]))
{
    struct program program = make_default();
    if (marked) {
        mark(&program);
    }
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void)setsid(); /* no terminal to hang up */
        enter(&program);
        _exit(first_wrong(machine, marked ? MARK : EPERM, try));
    }
    int status = 0;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    size_t count = 0;
    const struct sbx_seccomp_call *calls = sbx_seccomp_calls(&count);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) < 100, "status %#x", status);
    ck_assert_msg(WEXITSTATUS(status) == 0, "%s of %s is not refused",
                  calls[WEXITSTATUS(status) - 1].name, machines[machine].name);
    free(program.code);
}

START_TEST(the_kernel_refuses)
{
    check_kernel(NATIVE, _i == 0, try_native);
}
END_TEST

START_TEST(the_kernel_refuses_in_32_bits)
{
#if defined(__x86_64__)
    if (has_i386()) {
        check_kernel(SBX_MACHINE_I386, _i == 0, try_i386);
    }
#endif
}
END_TEST

/* --- ordinary programs --- */

static void *count_up(void *counter)
{
    ++*(int *)counter;
    return counter;
}

static bool threads_work(void)
{
    int counter = 0;
    void *result = NULL;
    pthread_t thread;
    return pthread_create(&thread, NULL, count_up, &counter) == 0 &&
           pthread_join(thread, &result) == 0 && counter == 1;
}

static bool ended_well(pid_t pid)
{
    int status = -1;
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static bool children_work(void)
{
    char *argv[] = {(char[]){"sh"}, (char[]){"-c"},
                    (char[]){"echo a | { read x; test \"$x\" = a; }"}, NULL};
    char *envp[] = {NULL};
    pid_t spawned = -1;
    pid_t forked = fork();
    if (forked == 0) {
        _exit(0);
    }
    return ended_well(forked) &&
           posix_spawn(&spawned, "/bin/sh", NULL, NULL, argv, envp) == 0 &&
           ended_well(spawned);
}

static bool limits_and_descriptors_work(void)
{
    struct rlimit limit;
    int pair[2];
    void *memory =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory != MAP_FAILED && munmap(memory, 4096) == 0 &&
           getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
           setrlimit(RLIMIT_NOFILE, &limit) == 0 &&
           socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0 &&
           close(pair[0]) == 0 && close(pair[1]) == 0 && unshare(CLONE_FILES) == 0;
}

/* A debugger's: a child that lets itself be traced, and is let go on. */
static bool tracing_works(void)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0) {
            _exit(1);
        }
        (void)raise(SIGSTOP);
        _exit(0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) &&
           ptrace(PTRACE_CONT, pid, NULL, NULL) == 0 && ended_well(pid);
}

START_TEST(ordinary_programs_work)
{
    struct program program = make_default();
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        enter(&program);
        int wrong = 0;
        wrong |= threads_work() ? 0 : 1;
        wrong |= children_work() ? 0 : 2;
        wrong |= limits_and_descriptors_work() ? 0 : 4;
        wrong |= tracing_works() ? 0 : 8;
        _exit(wrong);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    free(program.code);
}
END_TEST

/* --- a filter of the caller's --- */

static int make_file(const void *data, size_t size)
{
    int fd = memfd_create("filter", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(sbx_fd_write_all(fd, data, size), 0);
    ck_assert_int_eq((int)lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

START_TEST(a_program_is_read)
{
    struct program program = make_default();
    struct program again = {.code = NULL};
    struct sbx_error error;
    int fd = make_file(program.code, program.count * sizeof *program.code);
    ck_assert_int_eq((int)lseek(fd, sizeof *program.code, SEEK_SET),
                     (int)sizeof *program.code);
    ck_assert_int_eq(sbx_seccomp_read(fd, &again.code, &again.count, &error), 0);
    ck_assert_uint_eq(again.count, program.count - 1);
    ck_assert_int_eq(
        memcmp(again.code, program.code + 1, again.count * sizeof *again.code), 0);
    ck_assert_int_eq(close(fd), 0);
    free(again.code);
    free(program.code);
}
END_TEST

static const struct size_row {
    size_t size;
    int result;
} sizes[] = {
    {0, -EINVAL},
    {1, -EINVAL},
    {12, -EINVAL},
    {sizeof(struct sock_filter), 0},
    {sizeof(struct sock_filter) * 4096, 0},
    {sizeof(struct sock_filter) * 4096 + 1, -EINVAL},
    {sizeof(struct sock_filter) * 4097, -EINVAL},
    {sizeof(struct sock_filter) * 9999, -EINVAL},
};

START_TEST(a_program_has_whole_instructions)
{
    static const char zeros[sizeof(struct sock_filter) * 9999];
    struct sock_filter *code = NULL;
    size_t count = 77;
    struct sbx_error error = {.code = 0};
    int fd = make_file(zeros, sizes[_i].size);
    ck_assert_int_eq(sbx_seccomp_read(fd, &code, &count, &error), sizes[_i].result);
    if (sizes[_i].result < 0) {
        ck_assert_int_eq(error.code, EINVAL);
        ck_assert_ptr_null(code);
        ck_assert_uint_eq(count, 77);
        ck_assert_ptr_nonnull(strstr(error.message, "seccomp filter from descriptor"));
    } else {
        ck_assert_uint_eq(count * sizeof *code, sizes[_i].size);
    }
    free(code);
    ck_assert_int_eq(close(fd), 0);
}
END_TEST

START_TEST(a_descriptor_that_cannot_be_read_is_an_error)
{
    struct sock_filter *code = NULL;
    size_t count = 0;
    struct sbx_error error;
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(sbx_seccomp_read(fd, &code, &count, &error), -EBADF);
    ck_assert_int_eq(close(fd), 0);
    ck_assert_int_eq(sbx_seccomp_read(fd, &code, &count, &error), -EBADF);
    ck_assert_ptr_null(code);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("seccomp");
    TCase *table = sbx_fixture_case(suite, "table", 30);
    tcase_add_loop_test(table, numbers_are_those_of_the_headers, 0, SBX_MACHINE_COUNT);
    tcase_add_test(table, names_are_those_of_the_table);
    tcase_add_test(table, every_number_is_answered_by_the_table);
    tcase_add_loop_test(table, arguments_decide, 0, LENGTH(rows));
    TCase *kernel = sbx_fixture_case(suite, "kernel", 30);
    tcase_add_loop_test(kernel, the_kernel_refuses, 0, 2);
    tcase_add_loop_test(kernel, the_kernel_refuses_in_32_bits, 0, 2);
    tcase_add_test(kernel, ordinary_programs_work);
    TCase *given = sbx_fixture_case(suite, "given", 30);
    tcase_add_test(given, a_program_is_read);
    tcase_add_loop_test(given, a_program_has_whole_instructions, 0, LENGTH(sizes));
    tcase_add_test(given, a_descriptor_that_cannot_be_read_is_an_error);
    return sbx_fixture_run(suite);
}
