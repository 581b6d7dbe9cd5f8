/*
 * verify_sandbox.c - the minimal sandbox, really run, with the network of the host and
 * without any; and whether bubblewrap is setuid root with effect.
 *
 * sbx-probe looks around inside: a sandbox that comes up without a wall is a no.
 */
#include "sandbox/verify.h"

#include "base/error.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAID_SIZE 192

/* Runs bubblewrap with these arguments as the user that is verified; its wait status, and
 * the beginning of what it and the command have said. */
static int run_bwrap(const struct sbx_verifier *verifier, char *const argv[],
                     int *ret_status, char said[static SAID_SIZE])
{
    int ends[2];
    size_t used = 0;
    ssize_t got = 1;
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return -errno;
    }
    pid_t pid = fork();
    if (pid == 0) {
        char *const environment[] = {NULL};
        if (sbx_layer_become(verifier->uid, verifier->gid) == 0 &&
            prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && /* setuid clears it */
            dup2(ends[1], STDOUT_FILENO) >= 0 && dup2(ends[1], STDERR_FILENO) >= 0) {
            (void)execve(verifier->bwrap, argv, environment);
        }
        _exit(SBX_STATUS_FAILED);
    }
    int code = errno;
    (void)close(ends[1]);
    while (pid > 0 && used < SAID_SIZE - 1 && (got > 0 || (got < 0 && errno == EINTR))) {
        got = read(ends[0], said + used, SAID_SIZE - 1 - used);
        used += got > 0 ? (size_t)got : 0;
    }
    said[used] = '\0';
    (void)close(ends[0]);
    if (pid < 0) {
        return -code;
    }
    while (waitpid(pid, ret_status, 0) < 0) {
        if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

/* --- setuid --- */

/* In a namespace of its own it would not be setuid with effect: as an ordinary user it
 * makes one whenever it is not root. */
static void try_setuid(const struct sbx_verifier *verifier, struct sbx_finding *ret)
{
    char name[] = "bwrap";
    char option[] = "--ro-bind";
    char root[] = "/";
    char word[] = "user-namespace";
    char said[SAID_SIZE] = "";
    char ours[SAID_SIZE] = "";
    int status = 0;
    char *probe = strdup(verifier->probe);
    char *const argv[] = {name, option, root, root, probe, word, NULL};
    int r = probe == NULL ? -ENOMEM : run_bwrap(verifier, argv, &status, said);
    free(probe);
    if (readlink("/proc/self/ns/user", ours, sizeof ours - 1) < 0) {
        r = r < 0 ? r : -errno;
    }
    if (r < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        sbx_finding_no(ret, "permissions", "see the check user-namespaces",
                       "it is setuid root, and does not run: %.120s",
                       r < 0 ? sbx_errno_text(-r).text : said);
    } else if (strcmp(said, ours) != 0) {
        sbx_finding_no(ret, "permissions",
                       "mount its file system without nosuid, and run it without "
                       "no_new_privs",
                       "it is setuid root, and that has no effect");
    } else {
        sbx_finding_yes(ret, "it makes its namespaces as root");
    }
}

void sbx_verify_setuid(const struct sbx_verifier *verifier,
                       const struct sbx_check_kind *kind, struct sbx_finding *ret)
{
    struct stat status;
    (void)kind;
    if (verifier->bwrap == NULL || stat(verifier->bwrap, &status) < 0) {
        sbx_finding_skip(ret, "there is no bubblewrap");
    } else if (verifier->uid == 0) {
        sbx_finding_skip(ret, "root does not need it");
    } else if (status.st_uid != 0 || (status.st_mode & S_ISUID) == 0) {
        sbx_finding_skip(ret, "it is not setuid root: it needs user namespaces");
    } else {
        try_setuid(verifier, ret);
    }
}

/* --- the sandbox --- */

static int describe(const struct sbx_verifier *verifier, const char *word,
                    struct sbx_sandbox *sandbox, struct sbx_error *err)
{
    char user[32];
    const char *const command[] = {verifier->probe, word, NULL};
    bool isolated = strcmp(word, "network") == 0;
    (void)snprintf(user, sizeof user, "%u:%u", verifier->uid, verifier->gid);
    int r = verifier->bwrap == NULL
                ? 0
                : sbx_sandbox_set(sandbox, "bwrap", verifier->bwrap, err);
    r = r < 0 ? r : sbx_sandbox_set(sandbox, "ro-bind", verifier->probe, err);
    r = r < 0 ? r : sbx_sandbox_set(sandbox, "network", isolated ? "none" : "host", err);
    if (r == 0 && verifier->as_user) {
        r = sbx_sandbox_set(sandbox, "as-user", user, err);
    }
    return r < 0 ? r : sbx_sandbox_set_command(sandbox, command, err);
}

/* Plans it, runs it, and reads what the command has said. 0: it ran. */
static int run_sandbox(const struct sbx_verifier *verifier, const char *word,
                       struct sbx_ending *ret_ending, char said[static SAID_SIZE],
                       struct sbx_error *err)
{
    int ends[2] = {-1, -1};
    int status = 0;
    struct sbx_plan *plan = NULL;
    struct sbx_sandbox *sandbox = sbx_sandbox_new();
    int r = sandbox == NULL ? -ENOMEM : describe(verifier, word, sandbox, err);
    r = r < 0 ? r : sbx_sandbox_plan(sandbox, &plan, err);
    sbx_sandbox_free(sandbox);
    if (r == 0 &&
        (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0 || dup2(ends[1], STDOUT_FILENO) < 0)) {
        r = sbx_error_set(err, errno, SBX_STAGE_LAUNCH, "pipe: %s",
                          sbx_errno_text(errno).text);
    }
    r = r < 0 ? r : sbx_plan_run(plan, ret_ending, &status, err);
    sbx_plan_free(plan);
    ssize_t got = r < 0 ? 0 : read(ends[0], said, SAID_SIZE - 1);
    said[got > 0 ? got : 0] = '\0';
    sbx_fd_drop(&ends[0]);
    sbx_fd_drop(&ends[1]);
    return r;
}

/* Who is to blame: what bubblewrap needs is tried alone. */
static void blame(const struct sbx_verifier *verifier, const struct sbx_error *error,
                  struct sbx_finding *ret)
{
    struct sbx_layer layer = {.ok = true};
    bool known =
        sbx_layer_find(verifier->bwrap, verifier->uid, verifier->gid, false, &layer);
    bool missing = verifier->probe_fd < 0;
    const char *remedy = known ? layer.remedy : "see sbx-run(1)";
    if (missing && !known) {
        remedy = "install sbx-probe with the library, or set SBX_PROBE";
    }
    sbx_finding_no(ret,
                   known     ? layer.layer
                   : missing ? "package"
                             : "sbx-run",
                   remedy, "%.230s", known ? layer.detail : error->message);
}

void sbx_verify_sandbox(const struct sbx_verifier *verifier,
                        const struct sbx_check_kind *kind, struct sbx_finding *ret)
{
    struct sbx_error error = {.code = ENOMEM, .message = "no memory"};
    struct sbx_ending ending = {0};
    char said[SAID_SIZE] = "";
    if (run_sandbox(verifier, kind->subject, &ending, said, &error) < 0) {
        blame(verifier, &error, ret);
    } else if (ending.exit_code == 0) {
        sbx_finding_yes(ret, "%s", said);
    } else {
        sbx_finding_no(ret, "sbx-run", "",
                       "it ran, and does not hold what it should: %s (status %d, signal "
                       "%d)",
                       said, ending.exit_code, ending.signal);
    }
}
