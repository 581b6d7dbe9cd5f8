/*
 * layers.c - the experiments of layers.h: what a sandbox needs is tried, in a process of
 * its own that tells its parent the step that failed, and ends.
 *
 * Whatever happens to such a process, the wait for it is bounded, and its namespaces go
 * with it. Nothing outside of them is changed.
 */
#include "sandbox/layers.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BOUND_US UINT64_C(5000000)
#define ANSWER_SIZE 256
#define MAP_SIZE 64

/* What an experiment tells: the step that failed and why; code 0: none has. */
struct answer {
    int32_t step;
    int32_t code;
};

struct identity {
    uid_t uid;
    gid_t gid;
};

/* --- in the child --- */

int sbx_layer_become(uid_t uid, gid_t gid)
{
    if (getuid() == uid && geteuid() == uid && getgid() == gid && getegid() == gid) {
        return 0;
    }
    return setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 ||
                   setresuid(uid, uid, uid) < 0
               ? -errno
               : 0;
}

/* Its files in /proc are root's as long as nobody else may look into it; and it has to
 * write some of them. From then on that user's processes can read what it has of its
 * parent, who may be root: the variables are not for them. */
static int become_open(const struct identity *identity)
{
    bool changes = getuid() != identity->uid || getgid() != identity->gid;
    for (char **entry = environ; changes && entry != NULL && *entry != NULL; entry++) {
        explicit_bzero(*entry, strlen(*entry));
    }
    int r = sbx_layer_become(identity->uid, identity->gid);
    if (r == 0 && changes && prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0) {
        r = -errno;
    }
    return r;
}

static int put(const char *path, const char *text)
{
    SBX_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? -errno : sbx_fd_write_all(fd, text, strlen(text));
}

static int map_one(const char *path, unsigned id)
{
    char map[MAP_SIZE];
    (void)snprintf(map, sizeof map, "%u %u 1\n", id, id);
    return put(path, map);
}

static int map_ourselves(const struct identity *identity)
{
    int r = put("/proc/self/setgroups", "deny");
    if (r == 0 || r == -ENOENT) {
        r = map_one("/proc/self/uid_map", identity->uid);
    }
    return r == 0 ? map_one("/proc/self/gid_map", identity->gid) : r;
}

static int result_of(int returned)
{
    return returned < 0 ? -errno : 0;
}

/* Up to a mount in a mount namespace in a user namespace. */
static struct answer try_user_namespace(const struct identity *identity)
{
    struct answer answer = {.step = SBX_LAYER_IDENTITY, .code = -become_open(identity)};
    if (answer.code == 0) {
        answer.step = SBX_LAYER_USER;
        answer.code = -result_of(unshare(CLONE_NEWUSER));
    }
    if (answer.code == 0) {
        answer.step = SBX_LAYER_MAP;
        answer.code = -map_ourselves(identity);
    }
    if (answer.code == 0) {
        answer.step = SBX_LAYER_MOUNT_SPACE;
        answer.code = -result_of(unshare(CLONE_NEWNS));
    }
    if (answer.code == 0) {
        answer.step = SBX_LAYER_MOUNT;
        answer.code = -result_of(mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL));
    }
    if (answer.code == 0) {
        answer.code = -result_of(mount("tmpfs", "/", "tmpfs", 0, "size=4k"));
    }
    return answer;
}

/* The init of the new PID namespace tells its errno as its exit status. */
static int mount_proc_below(void)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        _exit(-result_of(mount("proc", "/proc", "proc", 0, NULL)));
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0) {
        return errno;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
}

static struct answer try_nested_proc(const struct identity *identity)
{
    struct answer answer = try_user_namespace(identity);
    if (answer.code == 0) {
        answer.step = SBX_LAYER_PID_SPACE;
        answer.code = -result_of(unshare(CLONE_NEWPID));
    }
    if (answer.code == 0) {
        answer.step = SBX_LAYER_PROC;
        answer.code = mount_proc_below();
    }
    return answer;
}

/* --- the parent --- */

/* Reads until the end of the file, the buffer's end, or the bound. Returns the number of
 * bytes or a negative errno; -ETIMEDOUT: somebody still has it open. */
static ssize_t read_bounded(int fd, void *buffer, size_t size)
{
    uint64_t until_us = sbx_clock_us() + BOUND_US;
    size_t used = 0;
    while (used < size) {
        uint64_t now_us = sbx_clock_us();
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        int left_ms = now_us < until_us ? (int)((until_us - now_us) / 1000) + 1 : 0;
        int ready = poll(&poll_fd, 1, left_ms);
        if (ready == 0 && left_ms == 0) {
            return -ETIMEDOUT;
        }
        ssize_t got = ready > 0 ? read(fd, (char *)buffer + used, size - used) : -1;
        if (got == 0) {
            break;
        }
        if (got < 0 && ready != 0 && errno != EINTR) {
            return -errno;
        }
        used += got > 0 ? (size_t)got : 0;
    }
    return (ssize_t)used;
}

/* Of an experiment that has told all that it has to tell, or nothing in time. */
static void end_child(pid_t pid)
{
    (void)kill(pid, SIGKILL); /* our own, not reaped */
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        continue;
    }
}

typedef struct answer experiment(const struct identity *identity);

static int make_experiment(experiment *what, const struct identity *identity,
                           struct answer *ret_answer)
{
    int ends[2];
    struct answer answer = {0};
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return -errno;
    }
    pid_t pid = fork();
    if (pid == 0) {
        answer = what(identity);
        (void)!write(ends[1], &answer, sizeof answer);
        _exit(0);
    }
    int code = errno;
    (void)close(ends[1]);
    ssize_t got = pid < 0 ? -code : read_bounded(ends[0], &answer, sizeof answer);
    (void)close(ends[0]);
    if (pid > 0) {
        end_child(pid);
    }
    if (got < 0) {
        return (int)got;
    }
    if ((size_t)got != sizeof answer) {
        return -EIO; /* somebody has ended it */
    }
    *ret_answer = answer;
    return 0;
}

static int try_and_blame(experiment *what, const struct identity *identity,
                         const char *success, struct sbx_layer *ret)
{
    struct answer answer = {0};
    int r = make_experiment(what, identity, &answer);
    if (r < 0) {
        return r;
    }
    memset(ret, 0, sizeof *ret);
    if (answer.code == 0) {
        ret->ok = true;
        (void)snprintf(ret->detail, sizeof ret->detail, "%s", success);
        return 0;
    }
    SBX_AUTO_CLOSE int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sbx_layer_blame(proc_fd, (enum sbx_layer_step)answer.step, answer.code, identity->uid,
                    ret);
    return 0;
}

int sbx_layer_user_namespaces(uid_t uid, gid_t gid, struct sbx_layer *ret)
{
    const struct identity identity = {.uid = uid, .gid = gid};
    return try_and_blame(try_user_namespace, &identity,
                         "made one, with a mount of its own in it", ret);
}

int sbx_layer_nested_proc(uid_t uid, gid_t gid, struct sbx_layer *ret)
{
    const struct identity identity = {.uid = uid, .gid = gid};
    return try_and_blame(try_nested_proc, &identity, "mounted one in a PID namespace",
                         ret);
}

/* --- bubblewrap --- */

static int parse_number(const char **text, unsigned *ret_number)
{
    char *end = NULL;
    if (**text < '0' || **text > '9') {
        return -EINVAL;
    }
    unsigned long number = strtoul(*text, &end, 10);
    if (number > UINT_MAX) {
        return -EINVAL;
    }
    *ret_number = (unsigned)number;
    *text = end;
    return 0;
}

int sbx_layer_bwrap_version(const char *text,
                            char ret_version[static SBX_LAYER_NAME_SIZE],
                            bool *ret_new_enough)
{
    static const char name[] = "bubblewrap ";
    unsigned major = 0;
    unsigned minor = 0;
    if (strncmp(text, name, sizeof name - 1) != 0) {
        return -EINVAL;
    }
    const char *version = text + sizeof name - 1;
    const char *at = version;
    if (parse_number(&at, &major) < 0 || *at++ != '.' || parse_number(&at, &minor) < 0) {
        return -EINVAL;
    }
    (void)snprintf(ret_version, SBX_LAYER_NAME_SIZE, "%.*s",
                   (int)strspn(version, "0123456789."), version);
    *ret_new_enough =
        major > SBX_BWRAP_MAJOR || (major == SBX_BWRAP_MAJOR && minor >= SBX_BWRAP_MINOR);
    return 0;
}

/* Executes it as that user with an empty environment; what it prints goes to `out`, what
 * fails before to `failed`. */
static _Noreturn void ask_version(const char *path, const struct identity *identity,
                                  int out, int failed)
{
    char name[] = "bwrap";
    char option[] = "--version";
    char *const argv[] = {name, option, NULL};
    char *const environment[] = {NULL};
    sigset_t none;
    (void)sigemptyset(&none);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int code = -sbx_layer_become(identity->uid, identity->gid);
    if (code == 0 && (null < 0 || dup2(null, STDIN_FILENO) < 0 ||
                      dup2(null, STDERR_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0)) {
        code = errno;
    }
    if (code == 0) {
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        (void)execve(path, argv, environment);
        code = errno;
    }
    (void)!write(failed, &code, sizeof code);
    _exit(1);
}

/* What it prints, as text. -errno when it could not be executed. */
static int read_version(const char *path, const struct identity *identity,
                        char text[static ANSWER_SIZE])
{
    int out[2];
    int failed[2];
    int code = 0;
    if (pipe2(out, O_CLOEXEC) < 0) {
        return -errno;
    }
    SBX_AUTO_CLOSE int out_read = out[0];
    SBX_AUTO_CLOSE int out_write = out[1];
    if (pipe2(failed, O_CLOEXEC) < 0) {
        return -errno;
    }
    SBX_AUTO_CLOSE int failed_read = failed[0];
    SBX_AUTO_CLOSE int failed_write = failed[1];
    pid_t pid = fork();
    if (pid < 0) {
        return -errno;
    }
    if (pid == 0) {
        ask_version(path, identity, out_write, failed_write);
    }
    sbx_fd_drop(&out_write);
    sbx_fd_drop(&failed_write);
    ssize_t got = read_bounded(failed_read, &code, sizeof code);
    if (got == 0) {
        got = read_bounded(out_read, text, ANSWER_SIZE - 1);
    } else if (got > 0) {
        got = -code;
    }
    end_child(pid);
    text[got > 0 ? got : 0] = '\0';
    return got < 0 ? (int)got : 0;
}

__attribute__((format(printf, 3, 4))) static void
no(struct sbx_layer *ret, const char *layer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(ret->detail, sizeof ret->detail, format, arguments);
    va_end(arguments);
    (void)snprintf(ret->layer, sizeof ret->layer, "%s", layer);
    ret->ok = false;
}

static void advise(struct sbx_layer *ret, const char *remedy)
{
    (void)snprintf(ret->remedy, sizeof ret->remedy, "%s", remedy);
}

static void refuse_bwrap(const char *path, int code, struct sbx_layer *ret)
{
    if (code == ENOENT || code == ENOTDIR) {
        no(ret, "package", "%.160s is not %s", path != NULL ? path : "bwrap",
           path != NULL ? "there" : "in PATH");
        advise(ret, "install bubblewrap 0.8 or newer (package bubblewrap), or name it "
                    "with --bwrap PATH");
    } else if (code == EACCES || code == EPERM) {
        no(ret, "permissions", "%.160s may not be executed (%s)", path,
           sbx_errno_name(code));
        advise(ret, "give this user the right to execute it, on every directory above "
                    "it too");
    } else {
        no(ret, "package", "%.120s --version: %s", path, sbx_errno_text(code).text);
        advise(ret, "is it bubblewrap, for this machine?");
    }
}

int sbx_layer_bwrap(const char *path, uid_t uid, gid_t gid, struct sbx_layer *ret)
{
    const struct identity identity = {.uid = uid, .gid = gid};
    char text[ANSWER_SIZE] = "";
    bool new_enough = false;
    int r = path == NULL ? -ENOENT : read_version(path, &identity, text);
    if (r == -EMFILE || r == -ENFILE || r == -EAGAIN || r == -ENOMEM) {
        return r;
    }
    memset(ret, 0, sizeof *ret);
    if (r < 0) {
        refuse_bwrap(path, -r, ret);
    } else if (sbx_layer_bwrap_version(text, ret->version, &new_enough) < 0) {
        no(ret, "package", "%.160s tells no version of bubblewrap", path);
        advise(ret, "name bubblewrap with --bwrap PATH");
    } else if (!new_enough) {
        no(ret, "package", "%.160s is version %s", path, ret->version);
        advise(ret, "install bubblewrap 0.8 or newer");
    } else {
        ret->ok = true;
        (void)snprintf(ret->detail, sizeof ret->detail, "%.160s is version %s", path,
                       ret->version);
    }
    return 0;
}

/* --- why something has failed --- */

static void append(struct sbx_error *err, const struct sbx_layer *layer)
{
    size_t used = strlen(err->message);
    (void)snprintf(err->message + used, sizeof err->message - used, " (%s: %s%s%s)",
                   layer->layer, layer->detail, layer->remedy[0] != '\0' ? "; " : "",
                   layer->remedy);
}

/* One that is setuid root makes its namespaces as root, so what an ordinary user may do
 * says nothing about it; a sysctl of 0 holds for everybody. */
static bool concerns(const char *bwrap, const struct sbx_layer *layer)
{
    struct stat status;
    bool is_setuid = stat(bwrap, &status) == 0 && status.st_uid == 0 &&
                     (status.st_mode & S_ISUID) != 0;
    return !is_setuid || strstr(layer->detail, "max_") != NULL;
}

bool sbx_layer_find(const char *bwrap, uid_t uid, gid_t gid, bool wants_proc,
                    struct sbx_layer *ret)
{
    struct sbx_layer layer = {.ok = true};
    int r = sbx_layer_bwrap(bwrap, uid, gid, &layer);
    if (r == 0 && layer.ok) {
        r = sbx_layer_user_namespaces(uid, gid, &layer);
        if (r == 0 && !layer.ok && !concerns(bwrap, &layer)) {
            return false;
        }
    }
    if (r == 0 && layer.ok && wants_proc) {
        r = sbx_layer_nested_proc(uid, gid, &layer);
    }
    if (r < 0 || layer.ok) {
        return false;
    }
    *ret = layer;
    return true;
}

void sbx_layer_explain(const char *bwrap, uid_t uid, gid_t gid, bool wants_proc,
                       struct sbx_error *err)
{
    struct sbx_layer layer;
    if (err != NULL && sbx_layer_find(bwrap, uid, gid, wants_proc, &layer)) {
        append(err, &layer);
    }
}
