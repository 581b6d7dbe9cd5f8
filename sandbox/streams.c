/*
 * streams.c - standard input, output and error as doors: the command gets the caller's
 * own descriptors, and a directory among them leads out of the sandbox, a file on which
 * it may write leads to the host's file.
 */
#include "sandbox/plan.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const names[] = {"standard input", "standard output",
                                    "standard error"};

/* Whether the identity that the command will have could write to the file: through this
 * descriptor, or by opening it once more (/proc/self/fd/0), or by changing its mode.
 * Groups beside the main one are ignored for another user, who gets none. */
static bool could_write(const struct sbx_plan *plan, const struct stat *status)
{
    int flags = fcntl(STDIN_FILENO, F_GETFL);
    if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY) {
        return true;
    }
    if (status->st_uid == plan->uid || plan->uid == 0) {
        return true;
    }
    if ((status->st_mode & S_IWOTH) != 0) {
        return true;
    }
    return (status->st_mode & S_IWGRP) != 0 &&
           (status->st_gid == plan->gid ||
            (!plan->as_user &&
             faccessat(STDIN_FILENO, "", W_OK, AT_EMPTY_PATH | AT_EACCESS) == 0));
}

int sbx_plan_streams(struct sbx_plan *plan, const struct sbx_sandbox *sandbox,
                     struct sbx_error *err)
{
    struct stat status;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        int flags = fcntl(fd, F_GETFL);
        if (flags < 0 || fstat(fd, &status) < 0) {
            continue; /* closed: the launch opens /dev/null there */
        }
        if (S_ISDIR(status.st_mode) || (flags & O_PATH) != 0) {
            return sbx_error_set(err, EISDIR, SBX_STAGE_CHECK,
                                 "%s is a directory, which would lead out of the sandbox "
                                 "(accepted: a file, a pipe, a terminal, /dev/null)",
                                 names[fd]);
        }
    }
    if (fstat(STDIN_FILENO, &status) < 0 || !S_ISREG(status.st_mode) ||
        !could_write(plan, &status)) {
        return 0;
    }
    if (sandbox->strict_stdin) {
        return sbx_error_set(err, EACCES, SBX_STAGE_CHECK,
                             "standard input is a file that the command could write to "
                             "(--strict-stdin; use a pipe: cat FILE | sbx-run ...)");
    }
    sbx_plan_warn(plan,
                  "standard input is a file that the command could write to; a pipe "
                  "is safe: cat FILE | sbx-run ...");
    return 0;
}
