/*
 * verify_host.c - what the host can do, each thing tried once: namespaces, bubblewrap, a
 * system call filter, pidfds, pressure stall information.
 *
 * Each runs in a process of its own, which becomes the user that is verified where that
 * matters, and ends after it.
 */
#include "sandbox/verify.h"

#include "base/error.h"
#include "base/fd.h"
#include "reaper/pidref.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define KERNEL_MAJOR 5
#define KERNEL_MINOR 10
#define WAKE_MS 5000
/* A refusal by our own filter, which nothing else makes. */
#define OWN_REFUSAL ENOTUNIQ
#define PRESSURE_FILE "/proc/pressure/memory"
/* A window of two seconds: shorter ones need a capability. */
#define TRIGGER "some 150000 2000000"

static void take_layer(int r, const struct sbx_layer *layer, struct sbx_finding *ret)
{
    if (r < 0) {
        sbx_finding_no(ret, "kernel", "", "could not be tried: %s",
                       sbx_errno_text(-r).text);
    } else {
        sbx_finding_layer(ret, layer);
    }
}

void sbx_verify_user_namespaces(const struct sbx_verifier *verifier,
                                const struct sbx_check_kind *kind,
                                struct sbx_finding *ret)
{
    struct sbx_layer layer = {0};
    (void)kind;
    take_layer(sbx_layer_user_namespaces(verifier->uid, verifier->gid, &layer), &layer,
               ret);
}

void sbx_verify_nested_proc(const struct sbx_verifier *verifier,
                            const struct sbx_check_kind *kind, struct sbx_finding *ret)
{
    struct sbx_layer layer = {0};
    (void)kind;
    take_layer(sbx_layer_nested_proc(verifier->uid, verifier->gid, &layer), &layer, ret);
}

void sbx_verify_bwrap(const struct sbx_verifier *verifier,
                      const struct sbx_check_kind *kind, struct sbx_finding *ret)
{
    struct sbx_layer layer = {0};
    (void)kind;
    take_layer(sbx_layer_bwrap(verifier->bwrap, verifier->uid, verifier->gid, &layer),
               &layer, ret);
}

/* --- seccomp --- */

void sbx_verify_seccomp(const struct sbx_verifier *verifier,
                        const struct sbx_check_kind *kind, struct sbx_finding *ret)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpriority, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | OWN_REFUSAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof filter / sizeof filter[0],
                                       .filter = filter};
    (void)kind;
    if (sbx_layer_become(verifier->uid, verifier->gid) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0) {
        int code = errno;
        sbx_finding_no(ret, code == EPERM || code == EACCES ? "seccomp" : "kernel",
                       code == EPERM || code == EACCES
                           ? "run where prctl(PR_SET_SECCOMP) is allowed"
                           : "a kernel with CONFIG_SECCOMP_FILTER, or sbx-run --seccomp "
                             "none",
                       "no filter can be installed: %s", sbx_errno_text(code).text);
        return;
    }
    if (syscall(SYS_getpriority, 0, 0) >= 0 || errno != OWN_REFUSAL) {
        sbx_finding_no(ret, "kernel", "use sbx-run --seccomp none",
                       "a filter was installed and refuses nothing");
        return;
    }
    sbx_finding_yes(ret, "a filter refuses a system call");
}

/* --- the kernel --- */

void sbx_verify_kernel(const struct sbx_verifier *verifier,
                       const struct sbx_check_kind *kind, struct sbx_finding *ret)
{
    struct utsname name;
    (void)verifier;
    (void)kind;
    if (uname(&name) < 0) {
        sbx_finding_no(ret, "kernel", "", "uname: %s", sbx_errno_text(errno).text);
        return;
    }
    char *end = name.release;
    long major = strtol(name.release, &end, 10);
    long minor = *end == '.' ? strtol(end + 1, NULL, 10) : 0;
    if (major > KERNEL_MAJOR || (major == KERNEL_MAJOR && minor >= KERNEL_MINOR)) {
        sbx_finding_yes(ret, "%.60s", name.release);
    } else {
        sbx_finding_no(ret, "kernel", "a kernel from 5.10 on", "%.60s", name.release);
    }
}

/* Opens, looks, kills, hears of the end. Returns what has failed, NULL for nothing. */
static const char *try_pidfd(pid_t child)
{
    SBX_AUTO_CLOSE int fd = sbx_pidfd_open(child);
    if (fd < 0) {
        errno = -fd;
        return "pidfd_open";
    }
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    int r = sbx_pidfd_signal(fd, SIGKILL);
    if (r < 0) {
        errno = -r;
        return "pidfd_send_signal";
    }
    if (poll(&poll_fd, 1, WAKE_MS) != 1) {
        errno = ETIMEDOUT;
        return "poll of a pidfd";
    }
    return NULL;
}

void sbx_verify_pidfd(const struct sbx_verifier *verifier,
                      const struct sbx_check_kind *kind, struct sbx_finding *ret)
{
    (void)kind;
    (void)sbx_layer_become(verifier->uid, verifier->gid);
    pid_t child = fork();
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        for (;;) {
            (void)pause();
        }
    }
    const char *failed = child < 0 ? "fork" : try_pidfd(child);
    int code = errno;
    if (child > 0) {
        (void)sbx_child_signal(child, SIGKILL);
        (void)waitpid(child, NULL, 0);
    }
    if (failed != NULL) {
        sbx_finding_no(ret, code == EPERM ? "seccomp" : "kernel",
                       code == EPERM ? "run where that system call is allowed"
                                     : "a kernel from 5.10 on",
                       "%s: %s", failed, sbx_errno_text(code).text);
    } else {
        sbx_finding_yes(ret, "opened one, killed by it, heard of the end");
    }
}

void sbx_verify_pressure(const struct sbx_verifier *verifier,
                         const struct sbx_check_kind *kind, struct sbx_finding *ret)
{
    char text[512];
    (void)kind;
    (void)sbx_layer_become(verifier->uid, verifier->gid);
    ssize_t length = sbx_fd_read_text_at(AT_FDCWD, PRESSURE_FILE, text, sizeof text);
    if (length <= 0) {
        sbx_finding_no(ret, "kernel",
                       "boot with psi=1 (CONFIG_PSI); without it reports lack "
                       "memory_pressure_us, no more",
                       PRESSURE_FILE ": %s",
                       sbx_errno_text(length < 0 ? (int)-length : ENODATA).text);
        return;
    }
    SBX_AUTO_CLOSE int fd = open(PRESSURE_FILE, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    bool triggers = fd >= 0 && write(fd, TRIGGER, sizeof TRIGGER) > 0;
    sbx_finding_yes(ret, "can be read%s", triggers ? ", and takes a trigger" : "");
}
