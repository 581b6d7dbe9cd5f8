/*
 * launch_refused.c - why the kernel makes no PID namespace, see launch_namespace.h: the
 * layer of the host that says no, by the error and by what can be read in /proc/sys, and
 * what helps.
 *
 * Reads, and decides nothing: a namespace that cannot be had is never done without.
 */
#include "reaper/launch_namespace.h"

#include "base/error.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

/* A setting that has that value explains that error. */
struct setting {
    int code;
    bool of_users; /* only where a user namespace is needed */
    const char *file;
    long value;
    const char *reason; /* layer, what was seen, and what helps */
};

#define SYSCTL(name, value) "layer sysctl: " name " is " value
#define AS_ROOT "or run it as root"

static const struct setting settings[] = {
    {ENOSPC, true, "/proc/sys/user/max_user_namespaces", 0,
     SYSCTL("user.max_user_namespaces", "0") "; raise it, " AS_ROOT},
    {ENOSPC, false, "/proc/sys/user/max_pid_namespaces", 0,
     SYSCTL("user.max_pid_namespaces", "0") "; raise it"},
    {ENOSPC, false, "/proc/sys/user/max_mnt_namespaces", 0,
     SYSCTL("user.max_mnt_namespaces", "0") "; raise it"},
    {EPERM, true, "/proc/sys/kernel/unprivileged_userns_clone", 0,
     SYSCTL("kernel.unprivileged_userns_clone", "0") "; set it to 1, " AS_ROOT},
    {EPERM, true, "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 1,
     "layer apparmor: kernel.apparmor_restrict_unprivileged_userns is 1; give sbx-watch "
     "a "
     "profile with 'userns', set it to 0, " AS_ROOT},
    {EACCES, true, "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 1,
     "layer apparmor: kernel.apparmor_restrict_unprivileged_userns is 1; give sbx-watch "
     "a "
     "profile with 'userns', set it to 0, " AS_ROOT},
};

static bool reads_as(const char *file, long value)
{
    char text[32];
    char *end = NULL;
    return sbx_fd_read_text_at(AT_FDCWD, file, text, sizeof text) > 0 &&
           strtol(text, &end, 10) == value && end != text;
}

static const char *by_error(int code, bool new_user)
{
    switch (code) {
    case ENOSPC:
    case EUSERS:
        return "layer kernel: as many namespaces as allowed (user.max_*_namespaces), or "
               "32 "
               "in each other; raise the limit, or end some";
    case EPERM:
    case EACCES:
        return new_user ? "layer container: a filter of system calls, a security module, "
                          "a chroot or a covered /proc around us; allow user namespaces "
                          "and an uncovered /proc there, " AS_ROOT
                        : "layer container: a filter of system calls, a security module "
                          "or a covered /proc around us; allow it there";
    case EINVAL:
    case ENOSYS:
        return "layer kernel: built without PID or user namespaces; needs another kernel";
    case EAGAIN:
    case ENOMEM:
        return "layer kernel: no more processes or memory (pids.max, RLIMIT_NPROC)";
    default:
        return "layer unknown";
    }
}

int sbx_namespace_refused(int code, const char *what, bool new_user,
                          struct sbx_error *err)
{
    const char *reason = by_error(code, new_user);
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        const struct setting *setting = &settings[i];
        if (setting->code == code && (new_user || !setting->of_users) &&
            reads_as(setting->file, setting->value)) {
            reason = setting->reason;
            break;
        }
    }
    return sbx_error_set(err, code, SBX_STAGE_ARM,
                         "option --pid-namespace: the kernel refuses it here: %s: %s "
                         "(%s)",
                         what, sbx_errno_text(code).text, reason);
}
