/*
 * inner_child.c - the command's side of the fork in sbx-inner: a list of steps, and exec.
 *
 * The order matters. The working directory and the closing of descriptors may need some
 * of what the ceilings take away, so they come before. From the ceilings on nothing takes
 * memory or a descriptor. Signals stay blocked until the dispositions are reset: none can
 * be lost, and one that was pending then ends the child by its default action. The filter
 * is last, since it may refuse anything; what it must let pass is the exec itself.
 *
 * As in launch_child.c, never returns, never runs exit handlers, never allocates. It
 * cannot be read or traced by anybody here: it is a copy of a process that is not
 * dumpable, until exec.
 */
#include "sandbox/inner.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "reaper/launch_child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Of the kernel; those that the C library hides included. */
#define SIGNAL_MAX 64
#define MASK_SIZE ((size_t)SIGNAL_MAX / 8)

/* Where close_range is missing: how far up descriptors are looked for. */
#define DESCRIPTOR_MAX ((rlim_t)1 << 20)

#define STACK_RESERVE_SIZE ((size_t)64 * 1024)

static int failed(struct sbx_error *err, int code, const char *what)
{
    return sbx_error_set(err, code, SBX_STAGE_LAUNCH, "%s: %s", what,
                         sbx_errno_text(code).text);
}

static int close_between(int first, int last)
{
    struct rlimit limit;
    if (first > last || close_range((unsigned)first, (unsigned)last, 0) == 0) {
        return 0;
    }
    /* An old kernel, or a filter that does not know the call. */
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) {
        return -errno;
    }
    rlim_t end = limit.rlim_max < DESCRIPTOR_MAX ? limit.rlim_max : DESCRIPTOR_MAX;
    for (int fd = first; fd <= last && (rlim_t)fd < end; fd++) {
        (void)close(fd);
    }
    return 0;
}

int sbx_inner_close_all_but(const int *kept, size_t count)
{
    int first = 0;
    for (size_t i = 0; i < count; i++) {
        int error = close_between(first, kept[i] - 1);
        if (error < 0) {
            return error;
        }
        first = kept[i] + 1;
    }
    return close_between(first, INT32_MAX);
}

static int enter_group(const struct sbx_inner_job *job, struct sbx_error *err)
{
    (void)job;
    return setpgid(0, 0) < 0 ? failed(err, errno, "setpgid") : 0;
}

static int enter_directory(const struct sbx_inner_job *job, struct sbx_error *err)
{
    if (chdir(job->orders.directory) < 0) {
        int code = errno;
        char shown[200];
        (void)sbx_text_escape(shown, sizeof shown, job->orders.directory,
                              strlen(job->orders.directory));
        return sbx_error_set(err, code, SBX_STAGE_LAUNCH, "working directory %s: %s",
                             shown, sbx_errno_text(code).text);
    }
    return 0;
}

/* Under a ceiling on stack or as, the stack could not grow any more: let it have grown
 * before. */
static __attribute__((noinline)) void reserve_stack(void)
{
    volatile char room[STACK_RESERVE_SIZE];
    for (size_t i = 0; i < sizeof room; i += 1024) {
        room[i] = 0;
    }
}

static int arm_ceilings(const struct sbx_inner_job *job, struct sbx_error *err)
{
    if (job->orders.head.ceiling_count > 0) {
        reserve_stack();
    }
    return sbx_ceiling_arm(job->orders.ceilings, err);
}

/* Straight to the kernel. The action is the first word of its struct, and zeros are the
 * default action, without flags. */
int sbx_inner_set_action(int number, bool ignored)
{
    unsigned long action[8] = {(unsigned long)(ignored ? SIG_IGN : SIG_DFL)};
    return (int)syscall(SYS_rt_sigaction, number, action, NULL, MASK_SIZE);
}

static int reset_signals(const struct sbx_inner_job *job, struct sbx_error *err)
{
    const uint64_t none = 0;
    for (int number = 1; number <= SIGNAL_MAX; number++) {
        bool ignored = (job->orders.head.ignored >> (number - 1) & 1) != 0;
        if (number != SIGKILL && number != SIGSTOP &&
            sbx_inner_set_action(number, ignored) < 0) {
            return failed(err, errno, "sigaction");
        }
    }
    if (syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, MASK_SIZE) < 0) {
        return failed(err, errno, "sigprocmask");
    }
    return 0;
}

static int bar_privileges(const struct sbx_inner_job *job, struct sbx_error *err)
{
    (void)job;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        return failed(err, errno, "PR_SET_NO_NEW_PRIVS");
    }
    return 0;
}

static int install_filter(const struct sbx_inner_job *job, struct sbx_error *err)
{
    const struct sock_fprog program = {.len = (unsigned short)job->program_count,
                                       .filter = job->program};
    if (job->program != NULL &&
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0) {
        return failed(err, errno, "seccomp filter");
    }
    return 0;
}

static int (*const steps[])(const struct sbx_inner_job *job, struct sbx_error *err) = {
    enter_group,   enter_directory, arm_ceilings,
    reset_signals, bar_privileges,  install_filter,
};

/* Far up where it takes no number from what is opened under a low ceiling on them. */
static int keep_only(int *error_fd)
{
    int far = fcntl(*error_fd, F_DUPFD_CLOEXEC, 64);
    if (far >= 0) {
        *error_fd = far;
    }
    const int kept[] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, *error_fd};
    return sbx_inner_close_all_but(kept, sizeof kept / sizeof kept[0]);
}

static void run(const struct sbx_inner_job *job, int error_fd,
                struct sbx_launch_record *record)
{
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        if (steps[i](job, &record->error) < 0) {
            return;
        }
    }
    const struct sbx_launch launch = {.argv = job->orders.arguments + 1,
                                      .envp = job->orders.environment};
    const struct sbx_launch_child child = {.launch = &launch,
                                           .error_fd = error_fd,
                                           .shell_argv = job->orders.arguments,
                                           .file = job->orders.file,
                                           .default_path = DEFAULT_PATH};
    job->orders.arguments[0] = "/bin/sh";
    (void)sbx_launch_exec(&child, &record->status, &record->error);
}

_Noreturn void sbx_inner_child(const struct sbx_inner_job *job, int error_fd)
{
    struct sbx_launch_record record;
    memset(&record, 0, sizeof record);
    record.status = SBX_STATUS_FAILED;
    int error = keep_only(&error_fd);
    if (error < 0) {
        (void)failed(&record.error, -error, "descriptors above 2");
    } else {
        run(job, error_fd, &record);
    }
    (void)sbx_fd_write_all(error_fd, &record, sizeof record);
    _exit(SBX_STATUS_FAILED);
}
