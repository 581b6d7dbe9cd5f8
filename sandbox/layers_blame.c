/*
 * layers_blame.c - who is to blame for a refusal: from the step and its errno, and what
 * the host says about itself below /proc.
 *
 * An errno alone does not tell: EPERM is what a sysctl, a system call filter, AppArmor
 * and the plain lack of a right have in common. The more special reason is looked for
 * first. Reads only; the root of /proc is a descriptor, so that tests have pretended
 * ones.
 */
#include "sandbox/layers.h"

#include "base/error.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_SIZE 4096
#define MOUNTS_SIZE ((size_t)64 * 1024)

static const struct {
    const char *what;
    const char *sysctl; /* below sys/user; NULL: none bounds it */
} steps[] = {
    [SBX_LAYER_IDENTITY] = {"becoming that user", NULL},
    [SBX_LAYER_USER] = {"a user namespace", "max_user_namespaces"},
    [SBX_LAYER_MAP] = {"the uid map of a user namespace", NULL},
    [SBX_LAYER_MOUNT_SPACE] = {"a mount namespace in a user namespace",
                               "max_mnt_namespaces"},
    [SBX_LAYER_MOUNT] = {"a mount in a user namespace", NULL},
    [SBX_LAYER_PID_SPACE] = {"a PID namespace in a user namespace", "max_pid_namespaces"},
    [SBX_LAYER_PROC] = {"a procfs in a PID namespace", NULL},
};

struct refusal {
    int proc_fd;
    enum sbx_layer_step step;
    int code;
    uid_t uid;
};

__attribute__((format(printf, 4, 5))) static bool blame(struct sbx_layer *ret,
                                                        const char *layer,
                                                        const char *remedy,
                                                        const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(ret->detail, sizeof ret->detail, format, arguments);
    va_end(arguments);
    (void)snprintf(ret->layer, sizeof ret->layer, "%s", layer);
    (void)snprintf(ret->remedy, sizeof ret->remedy, "%s", remedy);
    return true;
}

/* The number in a file, -1 when there is none. */
static long number_in(int proc_fd, const char *path)
{
    char text[64];
    char *end = text;
    if (sbx_fd_read_text_at(proc_fd, path, text, sizeof text) <= 0) {
        return -1;
    }
    long number = strtol(text, &end, 10);
    return end != text ? number : -1;
}

static bool is_filtered(int proc_fd)
{
    char text[TEXT_SIZE];
    if (sbx_fd_read_text_at(proc_fd, "self/status", text, sizeof text) <= 0) {
        return false;
    }
    const char *line = strstr(text, "\nSeccomp:");
    return line != NULL && strtol(line + strlen("\nSeccomp:"), NULL, 10) == 2;
}

/* --- one layer after the other: true when it is the one --- */

static bool is_sysctl_maximum(const struct refusal *refusal, struct sbx_layer *ret)
{
    const char *name = steps[refusal->step].sysctl;
    char path[64];
    char remedy[SBX_LAYER_TEXT_SIZE];
    if (name == NULL || (refusal->code != ENOSPC && refusal->code != EUSERS)) {
        return false;
    }
    (void)snprintf(path, sizeof path, "sys/user/%s", name);
    (void)snprintf(remedy, sizeof remedy, "sysctl -w user.%s=10000", name);
    long maximum = number_in(refusal->proc_fd, path);
    if (maximum == 0) {
        return blame(ret, "sysctl", remedy, "user.%s is 0", name);
    }
    if (maximum > 0) {
        return blame(ret, "sysctl", remedy,
                     "user.%s (%ld here; that of a namespace above us counts too) is "
                     "used up, or namespaces are nested too deep",
                     name, maximum);
    }
    return blame(ret, "kernel", "nest fewer user namespaces", "%s: %s",
                 steps[refusal->step].what, sbx_errno_text(refusal->code).text);
}

static bool is_unprivileged_sysctl(const struct refusal *refusal, struct sbx_layer *ret)
{
    if (refusal->step != SBX_LAYER_USER || refusal->code != EPERM ||
        number_in(refusal->proc_fd, "sys/kernel/unprivileged_userns_clone") != 0) {
        return false;
    }
    return blame(ret, "sysctl", "sysctl -w kernel.unprivileged_userns_clone=1",
                 "kernel.unprivileged_userns_clone is 0");
}

/* Where it restricts them, a user namespace can be made and is good for nothing. (Or none
 * can be made; below a filter that is more likely the filter's doing.) */
static bool is_apparmor_restriction(const struct refusal *refusal, struct sbx_layer *ret)
{
    if (refusal->uid == 0 || (refusal->code != EPERM && refusal->code != EACCES) ||
        (refusal->step == SBX_LAYER_USER && is_filtered(refusal->proc_fd)) ||
        number_in(refusal->proc_fd, "sys/kernel/apparmor_restrict_unprivileged_userns") <=
            0) {
        return false;
    }
    return blame(ret, "apparmor",
                 "an AppArmor profile for bwrap that allows userns, or sysctl -w "
                 "kernel.apparmor_restrict_unprivileged_userns=0",
                 "kernel.apparmor_restrict_unprivileged_userns is 1: %s is refused (%s)",
                 steps[refusal->step].what, sbx_errno_name(refusal->code));
}

static bool is_seccomp(const struct refusal *refusal, struct sbx_layer *ret)
{
    bool typical =
        refusal->code == EPERM || refusal->code == EACCES || refusal->code == ENOSYS;
    if (!typical || refusal->step == SBX_LAYER_MAP || !is_filtered(refusal->proc_fd)) {
        return false;
    }
    return blame(ret, "seccomp",
                 "run where the filter allows unshare, clone and mount (a container: "
                 "--security-opt seccomp=unconfined, or a profile that allows them)",
                 "%s is refused (%s), and a system call filter is on us (Seccomp: 2)",
                 steps[refusal->step].what, sbx_errno_name(refusal->code));
}

/* The first mount point below /proc itself: such a one must not be uncovered by a second
 * procfs, says the kernel. */
static bool find_cover(int proc_fd, char cover[static TEXT_SIZE])
{
    SBX_AUTO_FREE char *text = malloc(MOUNTS_SIZE);
    SBX_AUTO_CLOSE int fd = openat(proc_fd, "self/mountinfo", O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t got = 1;
    while (text != NULL && fd >= 0 && got > 0 && used < MOUNTS_SIZE - 1) {
        got = read(fd, text + used, MOUNTS_SIZE - 1 - used);
        used += got > 0 ? (size_t)got : 0;
    }
    if (used == 0) {
        return false;
    }
    text[used] = '\0';
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char point[TEXT_SIZE];
        if (sscanf(line, "%*d %*d %*s %*s %4095s", point) == 1 &&
            strncmp(point, "/proc/", 6) == 0) {
            (void)snprintf(cover, TEXT_SIZE, "%s", point);
            return true;
        }
    }
    return false;
}

static bool is_covered_proc(const struct refusal *refusal, struct sbx_layer *ret)
{
    char cover[TEXT_SIZE];
    if (refusal->step != SBX_LAYER_PROC || refusal->code != EPERM ||
        !find_cover(refusal->proc_fd, cover)) {
        return false;
    }
    return blame(
        ret, "proc",
        "do without --proc, or uncover /proc (a container: --security-opt "
        "systempaths=unconfined)",
        "parts of our /proc are covered, such as %.100s, so the kernel allows no "
        "new one",
        cover);
}

/* What we are confined by ourselves. */
static bool is_security_module(const struct refusal *refusal, struct sbx_layer *ret)
{
    char label[TEXT_SIZE];
    if ((refusal->code != EPERM && refusal->code != EACCES) ||
        sbx_fd_read_text_at(refusal->proc_fd, "self/attr/current", label, sizeof label) <=
            0) {
        return false;
    }
    label[strcspn(label, "\n")] = '\0';
    const char *colon = strchr(label, ':');
    bool selinux = colon != NULL && strchr(colon + 1, ':') != NULL;
    if (!selinux && strstr(label, "(enforce)") == NULL) {
        return false;
    }
    return blame(ret, selinux ? "selinux" : "apparmor",
                 selinux ? "a policy that allows it, or another context (see ausearch -m "
                           "avc)"
                         : "a profile that allows it (see aa-status)",
                 "%s is refused (%s) to who is confined as %.100s",
                 steps[refusal->step].what, sbx_errno_name(refusal->code), label);
}

static bool is_kernel(const struct refusal *refusal, struct sbx_layer *ret)
{
    if (refusal->code != EINVAL && refusal->code != ENOSYS && refusal->code != ENODEV) {
        return false;
    }
    return blame(ret, "kernel",
                 "a kernel with CONFIG_USER_NS, CONFIG_PID_NS and CONFIG_TMPFS",
                 "the kernel does not know %s (%s)", steps[refusal->step].what,
                 sbx_errno_name(refusal->code));
}

void sbx_layer_blame(int proc_fd, enum sbx_layer_step step, int code, uid_t uid,
                     struct sbx_layer *ret)
{
    static bool (*const layers[])(const struct refusal *, struct sbx_layer *) = {
        is_sysctl_maximum, is_unprivileged_sysctl,
        is_covered_proc,   is_apparmor_restriction,
        is_seccomp,        is_security_module,
        is_kernel,
    };
    const struct refusal refusal = {
        .proc_fd = proc_fd, .step = step, .code = code, .uid = uid};
    memset(ret, 0, sizeof *ret);
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        if (layers[i](&refusal, ret)) {
            return;
        }
    }
    (void)blame(ret, "permissions",
                step == SBX_LAYER_IDENTITY
                    ? "only root can act for another user"
                    : "run as root or outside of a chroot or container",
                "%s is refused (%s)", steps[step].what, sbx_errno_name(code));
}
