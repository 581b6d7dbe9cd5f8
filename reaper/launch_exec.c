/*
 * launch_exec.c - finding the command and executing it, as execvp does, but without
 * allocating, with the environment that was given, and with an error that tells a missing
 * command from one that is there and cannot be executed.
 *
 * Runs between fork and exec with the ceilings in force: paths are built in buffers on
 * the stack, and a file is opened only when the kernel has refused to execute it.
 */
#include "reaper/launch_child.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#define SHELL "/bin/sh"
#define HEAD_SIZE 128
#define SHOWN_SIZE 200

/* The exec family takes pointers to what it does not change. */
#define MUTABLE(array) ((char *const *)(uintptr_t)(array))

/* One file that was tried. */
struct attempt {
    int code;               /* errno of execve; 0: none was tried */
    int shell_code;         /* errno of executing the shell for it; 0: not tried */
    bool lacks_interpreter; /* the file is there, so ENOENT means another one */
    char path[PATH_MAX];
};

/* Every number below a low nofile ceiling may be taken by descriptors that exec is going
 * to close: close one now. */
static bool free_descriptor(int error_fd)
{
    for (int fd = STDERR_FILENO + 1; fd < 1024; fd++) {
        int flags = fd == error_fd ? -1 : fcntl(fd, F_GETFD);
        if (flags >= 0 && (flags & FD_CLOEXEC) != 0) {
            return close(fd) == 0;
        }
    }
    return false;
}

/* The first bytes of a file. -errno when it cannot be read. */
static ssize_t read_head(const char *path, int error_fd, char head[static HEAD_SIZE])
{
    const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    SBX_AUTO_CLOSE int fd = open(path, flags);
    if (fd < 0 && errno == EMFILE && free_descriptor(error_fd)) {
        fd = open(path, flags);
    }
    if (fd < 0) {
        return -errno;
    }
    ssize_t length = pread(fd, head, HEAD_SIZE, 0);
    return length < 0 ? -errno : length;
}

/* A file without "#!" that may be a script. Programs for another machine, and damaged
 * ones, are not for the shell to guess at. */
static bool is_script(const char *path, int error_fd)
{
    char head[HEAD_SIZE] = "";
    ssize_t length = read_head(path, error_fd, head);
    if (length < 0 || memchr(head, '\0', (size_t)length) != NULL) {
        return false;
    }
    return length < 4 || memcmp(head, "\177ELF", 4) != 0;
}

static int exec_by_shell(const struct sbx_launch_child *child, const char *path)
{
    char plain[PATH_MAX + 2];
    plain[0] = '\0';
    if (path[0] == '-') { /* not an option of the shell's */
        memcpy(plain, "./", 3);
    }
    strncat(plain, path, sizeof plain - 3);
    child->shell_argv[1] = plain;
    (void)execve(SHELL, MUTABLE(child->shell_argv), MUTABLE(child->launch->envp));
    return errno;
}

/* Executes attempt->path. Comes back when that has failed. */
static void try_exec(const struct sbx_launch_child *child, struct attempt *attempt)
{
    const struct sbx_launch *launch = child->launch;
    struct stat status;
    attempt->shell_code = 0;
    (void)execve(attempt->path, MUTABLE(launch->argv), MUTABLE(launch->envp));
    attempt->code = errno;
    attempt->lacks_interpreter =
        attempt->code == ENOENT && stat(attempt->path, &status) == 0;
    if (attempt->code == ENOEXEC && is_script(attempt->path, child->error_fd)) {
        attempt->shell_code = exec_by_shell(child, attempt->path);
    }
}

/* "#! /no/such -x" names "/no/such". False when the file does not say. */
static bool read_interpreter(const char *path, int error_fd, char name[static HEAD_SIZE])
{
    char head[HEAD_SIZE] = "";
    ssize_t length = read_head(path, error_fd, head);
    if (length < 3 || head[0] != '#' || head[1] != '!') {
        return false;
    }
    ssize_t from = 2;
    while (from < length && (head[from] == ' ' || head[from] == '\t')) {
        from++;
    }
    ssize_t to = from;
    while (to < length && strchr(" \t\n", head[to]) == NULL) {
        to++;
    }
    memcpy(name, head + from, (size_t)(to - from));
    name[to - from] = '\0';
    return to > from;
}

/* What is shown of a path or name: one line, cut. */
static const char *shown(const char *text, char buffer[static SHOWN_SIZE])
{
    (void)sbx_text_escape(buffer, SHOWN_SIZE, text, strlen(text));
    return buffer;
}

static int lacks_interpreter(const struct sbx_launch_child *child,
                             const struct attempt *attempt, struct sbx_error *err)
{
    char path[SHOWN_SIZE];
    char name[HEAD_SIZE];
    char interpreter[SHOWN_SIZE];
    (void)shown(attempt->path, path);
    if (!read_interpreter(attempt->path, child->error_fd, name)) {
        return sbx_error_set(
            err, ENOENT, SBX_STAGE_EXEC,
            "exec %s: its interpreter or dynamic loader is missing (ENOENT)", path);
    }
    return sbx_error_set(err, ENOENT, SBX_STAGE_EXEC,
                         "exec %s: its interpreter %s is missing (ENOENT)", path,
                         shown(name, interpreter));
}

static int explain(const struct sbx_launch_child *child, const struct attempt *attempt,
                   struct sbx_error *err)
{
    char path[SHOWN_SIZE];
    struct stat status;
    if (attempt->lacks_interpreter) {
        return lacks_interpreter(child, attempt, err);
    }
    (void)shown(attempt->path, path);
    if (attempt->shell_code != 0) {
        return sbx_error_set(err, attempt->shell_code, SBX_STAGE_EXEC,
                             "exec %s: no interpreter named, and " SHELL ": %s", path,
                             sbx_errno_text(attempt->shell_code).text);
    }
    bool directory = attempt->code == EACCES && stat(attempt->path, &status) == 0 &&
                     S_ISDIR(status.st_mode);
    const char *more = directory ? "a directory: " : "";
    if (attempt->code == EAGAIN) { /* of execve: only this */
        more = "the user has more processes than nproc allows: ";
    }
    return sbx_error_set(err, attempt->code, SBX_STAGE_EXEC, "exec %s: %s%s", path, more,
                         sbx_errno_text(attempt->code).text);
}

static const char *file_of(const struct sbx_launch_child *child)
{
    return child->file != NULL ? child->file : child->launch->argv[0];
}

static const char *find_path(const struct sbx_launch_child *child)
{
    for (const char *const *entry = child->launch->envp; *entry != NULL; entry++) {
        if (strncmp(*entry, "PATH=", 5) == 0) {
            return *entry + 5;
        }
    }
    return child->default_path;
}

/* DIRECTORY/NAME, or NAME for an empty directory, which means the current one. False when
 * that is too long to be a path. */
static bool join(const char *directory, size_t length, const char *name,
                 char path[static PATH_MAX])
{
    size_t name_size = strlen(name) + 1;
    if (length + 1 + name_size > PATH_MAX) {
        return false;
    }
    memcpy(path, directory, length);
    if (length > 0) {
        path[length++] = '/';
    }
    memcpy(path + length, name, name_size);
    return true;
}

/* As execvp: nothing there, go on to the next directory. */
static bool is_absent(const struct attempt *attempt)
{
    switch (attempt->code) {
    case ENOENT:
        return !attempt->lacks_interpreter;
    case ENOTDIR:
    case ESTALE:
    case ENODEV:
    case ETIMEDOUT:
        return true;
    default:
        return false;
    }
}

/* Tries the command in every directory of PATH. *ret_worst is the failure to report: one
 * that ended the search, or else the first that was more than absence. */
static void search(const struct sbx_launch_child *child, struct attempt *ret_worst)
{
    const char *name = file_of(child);
    const char *directory = find_path(child);
    struct attempt attempt;
    ret_worst->code = 0;
    for (;;) {
        size_t length = strcspn(directory, ":");
        if (join(directory, length, name, attempt.path)) {
            try_exec(child, &attempt);
            bool remembered = attempt.code == EACCES || attempt.lacks_interpreter;
            if (!remembered && !is_absent(&attempt)) {
                *ret_worst = attempt;
                return;
            }
            if (remembered && ret_worst->code == 0) {
                *ret_worst = attempt;
            }
        }
        if (directory[length] == '\0') {
            return;
        }
        directory += length + 1;
    }
}

int sbx_launch_exec(const struct sbx_launch_child *child, int *ret_status,
                    struct sbx_error *err)
{
    const char *name = file_of(child);
    char buffer[SHOWN_SIZE];
    struct attempt attempt = {.code = 0};
    *ret_status = SBX_STATUS_NOT_EXECUTABLE;
    bool is_path = strchr(name, '/') != NULL;
    if (strlen(name) > (size_t)(is_path ? PATH_MAX - 1 : NAME_MAX)) {
        return sbx_error_set(err, ENAMETOOLONG, SBX_STAGE_EXEC,
                             "exec %s: file name too long (ENAMETOOLONG)",
                             shown(name, buffer));
    }
    if (is_path) {
        memcpy(attempt.path, name, strlen(name) + 1);
        try_exec(child, &attempt);
    } else if (*name != '\0') {
        search(child, &attempt);
    }
    if (attempt.code != 0) {
        if (attempt.code == ENOENT && !attempt.lacks_interpreter) {
            *ret_status = SBX_STATUS_NOT_FOUND;
        }
        return explain(child, &attempt, err);
    }
    *ret_status = SBX_STATUS_NOT_FOUND;
    return sbx_error_set(
        err, ENOENT, SBX_STAGE_EXEC, "exec \"%s\": %s (ENOENT)", shown(name, buffer),
        *name == '\0' ? "no such file or directory" : "not found in PATH");
}

bool sbx_launch_is_fault(int signal_number)
{
    switch (signal_number) {
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
    case SIGABRT:
    case SIGTRAP:
    case SIGSYS:
        return true;
    default:
        return false;
    }
}
