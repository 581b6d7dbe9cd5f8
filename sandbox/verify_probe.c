/*
 * verify_probe.c - runs sbx-probe once, below ceilings and with the identity that is
 * verified, and listens to what it says.
 *
 * Ceilings are set by the code that sets them for a command, in the child, before the
 * change of user. After them the child does nothing that takes memory or a descriptor.
 * The waits have no bound of their own: the process of a check is ended when it takes too
 * long.
 */
#include "sandbox/verify.h"

#include "base/error.h"
#include "base/fd.h"
#include "reaper/ceiling.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void tell_failure(const char *what, int code)
{
    char text[SBX_PROBE_TEXT_SIZE];
    (void)snprintf(text, sizeof text, "%s%s", what,
                   code != 0 ? sbx_errno_name(code) : "");
    (void)!write(STDOUT_FILENO, text, strlen(text));
    _exit(SBX_PROBE_FAILED);
}

static _Noreturn void become_probe(const struct sbx_verifier *verifier,
                                   const struct sbx_probe *probe, int out)
{
    char name[] = "sbx-probe";
    char word[64];
    (void)snprintf(word, sizeof word, "%s", probe->word);
    char *const argv[] = {name, word, NULL};
    char *const environment[] = {NULL};
    struct sbx_error error = {0};
    const struct sched_param parameters = {.sched_priority = 1};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (dup2(out, STDOUT_FILENO) < 0) {
        _exit(SBX_PROBE_FAILED);
    }
    if (probe->in_directory && fchdir(verifier->directory_fd) < 0) {
        tell_failure("fchdir: ", errno);
    }
    if (probe->realtime) {
        (void)sched_setscheduler(0, SCHED_RR, &parameters); /* it says itself if not */
    }
    if (probe->ceilings != NULL && sbx_ceiling_arm(probe->ceilings, &error) < 0) {
        tell_failure(error.message, 0);
    }
    int r = sbx_layer_become(verifier->uid, verifier->gid);
    if (r < 0) {
        tell_failure("setresuid: ", -r);
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* the change of user clears it */
    (void)syscall(SYS_execveat, verifier->probe_fd, "", argv, environment, AT_EMPTY_PATH);
    tell_failure("execve: ", errno);
}

static ssize_t listen_to(int fd, char text[static SBX_PROBE_TEXT_SIZE])
{
    size_t used = 0;
    ssize_t got = 1;
    while (got != 0 && used < SBX_PROBE_TEXT_SIZE - 1) {
        got = read(fd, text + used, SBX_PROBE_TEXT_SIZE - 1 - used);
        if (got < 0 && errno != EINTR) {
            return -errno;
        }
        used += got > 0 ? (size_t)got : 0;
    }
    text[used] = '\0';
    return (ssize_t)used;
}

int sbx_probe_run(const struct sbx_verifier *verifier, const struct sbx_probe *probe,
                  int *ret_status, char ret_text[static SBX_PROBE_TEXT_SIZE])
{
    int ends[2];
    int status = 0;
    if (verifier->probe_fd < 0) {
        return verifier->probe_fd;
    }
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return -errno;
    }
    pid_t pid = fork();
    if (pid == 0) {
        become_probe(verifier, probe, ends[1]);
    }
    int code = errno;
    (void)close(ends[1]);
    ssize_t got = pid < 0 ? -code : listen_to(ends[0], ret_text);
    (void)close(ends[0]);
    if (pid < 0) {
        return -code;
    }
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return -errno;
        }
    }
    *ret_status = status;
    return got < 0 ? (int)got : 0;
}
