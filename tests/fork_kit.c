/*
 * fork_kit.c - see fork_kit.h. Signals only children of the test process.
 */
#include "tests/fork_kit.h"

#include "base/clock.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define NAMES_MAX 32
#define NAME_SIZE 32
#define LONG_US LIBRARY_LONG_US

static void nap(void)
{
    const struct timespec moment = {.tv_nsec = 2000000};
    (void)nanosleep(&moment, NULL);
}

/* --- a run ---------------------------------------------------------------------------
 */

static void open_pipe(int ends[static 2])
{
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
}

static struct sbx_spec *spec_of(const char *options, const char *script)
{
    const char *const command[] = {"sh", "-c", script, "sh", sbx_fixture_dir(), NULL};
    return library_spec(options, command);
}

void fork_start(struct fork_run *fork, const char *options, const char *script)
{
    struct sbx_error error = {0};
    int in[2];
    int out[2];
    int err[2];
    memset(fork, 0, sizeof *fork);
    open_pipe(in);
    open_pipe(out);
    open_pipe(err);
    (void)sbx_fixture_path(fork->lock_path, "lock");
    int held = open(fork->lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(held, 0);
    ck_assert_int_eq(flock(held, LOCK_EX | LOCK_NB), 0);
    struct sbx_spec *spec = spec_of(options, script);
    const struct sbx_run_family family = {.stdio = {in[0], out[1], err[1]},
                                          .shared_fd = held};
    ck_assert_msg(sbx_run_fork(spec, &family, &fork->run, &error) == 0, "%s",
                  error.message);
    sbx_spec_free(spec);
    (void)close(held);
    (void)close(in[0]);
    (void)close(out[1]);
    (void)close(err[1]);
    fork->in = in[1];
    fork->out = out[0];
    fork->err = err[0];
    fork->lock = open(fork->lock_path, O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(fork->lock, 0);
}

void fork_done(struct fork_run *fork)
{
    sbx_run_free(fork->run);
    sbx_fd_drop(&fork->in);
    sbx_fd_drop(&fork->out);
    sbx_fd_drop(&fork->err);
    sbx_fd_drop(&fork->lock);
}

bool fork_step(struct fork_run *fork, size_t notices)
{
    uint64_t until = sbx_clock_us() + LONG_US;
    for (;;) {
        enum sbx_run_event event = sbx_run_next(fork->run, NULL);
        struct sbx_notice *next = &fork->notices[fork->notice_count];
        while (sbx_run_notice(fork->run, next) == 1) {
            next = &fork->notices[++fork->notice_count];
            ck_assert_uint_lt(fork->notice_count, 24);
        }
        if (event == SBX_RUN_FINISHED || fork->notice_count >= notices) {
            return event == SBX_RUN_FINISHED;
        }
        ck_assert_msg(sbx_clock_us() < until, "%zu notices", fork->notice_count);
        struct pollfd entry = {.fd = sbx_run_fd(fork->run), .events = POLLIN};
        (void)poll(&entry, 1, 1000);
    }
}

const struct sbx_result *fork_finish(struct fork_run *fork, const char *outcome)
{
    ck_assert(fork_step(fork, SIZE_MAX));
    const struct sbx_result *result = sbx_run_result(fork->run);
    ck_assert_ptr_nonnull(result);
    ck_assert_msg(strcmp(result->outcome, outcome) == 0, "%s: %s %s", result->outcome,
                  result->error.message, result->report != NULL ? result->report : "");
    return result;
}

bool fork_is_refused(const struct sbx_result *result, const char *what)
{
    if (result == NULL || strcmp(result->outcome, "launch-failed") != 0 ||
        result->error.stage != SBX_STAGE_ARM) {
        return false;
    }
    (void)fprintf(stderr, "not tested: %s: %s\n", what, result->error.message);
    return true;
}

const char *fork_read_all(int fd)
{
    static char text[4096];
    size_t used = 0;
    uint64_t until = sbx_clock_us() + LONG_US;
    for (;;) {
        struct pollfd entry = {.fd = fd, .events = POLLIN};
        ck_assert_msg(sbx_clock_us() < until, "the end does not come: %.*s", (int)used,
                      text);
        if (poll(&entry, 1, 1000) <= 0) {
            continue;
        }
        ssize_t length = read(fd, text + used, sizeof text - 1 - used);
        ck_assert_int_ge(length, 0);
        if (length == 0) {
            text[used] = '\0';
            return text;
        }
        used += (size_t)length;
    }
}

/* --- the lock ------------------------------------------------------------------------
 */

bool fork_is_locked(const struct fork_run *fork)
{
    if (flock(fork->lock, LOCK_EX | LOCK_NB) == 0) {
        ck_assert_int_eq(flock(fork->lock, LOCK_UN), 0);
        return false;
    }
    ck_assert_int_eq(errno, EWOULDBLOCK);
    return true;
}

void fork_await_unlocked(const struct fork_run *fork)
{
    uint64_t until = sbx_clock_us() + LONG_US;
    while (fork_is_locked(fork)) {
        ck_assert_msg(sbx_clock_us() < until, "held by: %s", fork_holders(fork->lock));
        nap();
    }
}

/* --- processes -----------------------------------------------------------------------
 */

static bool read_file(pid_t pid, const char *name, char *text, size_t size)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    ssize_t length = sbx_fd_read_text_at(AT_FDCWD, path, text, size);
    if (length > 0 && text[length - 1] == '\n') {
        text[length - 1] = '\0';
    }
    return length > 0;
}

static pid_t find_below(pid_t parent, const char *name)
{
    char file[64];
    char list[4096];
    char comm[NAME_SIZE];
    char *rest = NULL;
    (void)snprintf(file, sizeof file, "task/%d/children", (int)parent);
    if (!read_file(parent, file, list, sizeof list)) {
        return 0;
    }
    for (char *word = strtok_r(list, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        pid_t pid = (pid_t)strtol(word, NULL, 10);
        if (read_file(pid, "comm", comm, sizeof comm) && strcmp(comm, name) == 0) {
            return pid;
        }
        pid_t below = find_below(pid, name);
        if (below != 0) {
            return below;
        }
    }
    return 0;
}

pid_t fork_find(const char *name)
{
    return find_below(getpid(), name);
}

pid_t fork_await_process(const char *name)
{
    uint64_t until = sbx_clock_us() + LONG_US;
    for (;;) {
        pid_t pid = fork_find(name);
        if (pid != 0) {
            return pid;
        }
        ck_assert_msg(sbx_clock_us() < until, "there is no %s", name);
        nap();
    }
}

char fork_state(pid_t pid)
{
    char text[1024];
    const char *end = NULL;
    if (read_file(pid, "stat", text, sizeof text)) {
        end = strrchr(text, ')');
    }
    return end != NULL && end[1] == ' ' ? end[2] : '\0';
}

/* How many live ones descend from it; -1: some of them are not stopped. Who has lent its
 * memory to a child (vfork) is stopped by that. */
static int count_stopped_below(pid_t parent)
{
    char file[64];
    char list[4096];
    char *rest = NULL;
    int count = 0;
    (void)snprintf(file, sizeof file, "task/%d/children", (int)parent);
    if (!read_file(parent, file, list, sizeof list)) {
        return 0;
    }
    for (char *word = strtok_r(list, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        pid_t pid = (pid_t)strtol(word, NULL, 10);
        char state = fork_state(pid);
        int below = count_stopped_below(pid);
        bool ended = state == 'Z' || state == '\0';
        bool stopped = state == 'T' || (state == 'D' && below > 0);
        if (below < 0 || (!ended && !stopped)) {
            return -1;
        }
        count += below + (ended ? 0 : 1);
    }
    return count;
}

bool fork_is_stopped(void)
{
    pid_t monitor = fork_find("sbx-monitor");
    return monitor != 0 && count_stopped_below(monitor) > 0;
}

static bool holds(pid_t pid, const struct stat *file)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    SBX_AUTO_CLOSEDIR DIR *directory = opendir(path);
    const struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        struct stat its;
        if (fstatat(dirfd(directory), entry->d_name, &its, 0) == 0 &&
            its.st_dev == file->st_dev && its.st_ino == file->st_ino) {
            return true;
        }
    }
    return false;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static size_t add_name(char names[static NAMES_MAX][NAME_SIZE], size_t count, pid_t pid)
{
    char comm[NAME_SIZE];
    if (count == NAMES_MAX || !read_file(pid, "comm", comm, sizeof comm)) {
        return count;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], comm) == 0) {
            return count;
        }
    }
    memcpy(names[count], comm, sizeof comm);
    return count + 1;
}

const char *fork_holders(int fd)
{
    static char text[NAMES_MAX * NAME_SIZE];
    char names[NAMES_MAX][NAME_SIZE];
    size_t count = 0;
    struct stat file;
    ck_assert_int_eq(fstat(fd, &file), 0);
    SBX_AUTO_CLOSEDIR DIR *proc = opendir("/proc");
    const struct dirent *entry;
    while (proc != NULL && (entry = readdir(proc)) != NULL) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 0 && pid != getpid() && holds(pid, &file)) {
            count = add_name(names, count, pid);
        }
    }
    qsort(names, count, NAME_SIZE, by_text);
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s",
                                 i > 0 ? " " : "", names[i]);
    }
    return text;
}

void fork_await_holders(int fd, const char *names)
{
    uint64_t until = sbx_clock_us() + LONG_US / 4;
    while (strcmp(fork_holders(fd), names) != 0) {
        ck_assert_msg(sbx_clock_us() < until, "held by '%s', not '%s'", fork_holders(fd),
                      names);
        nap();
    }
}

static void kill_children(void)
{
    char file[64];
    char list[4096];
    char *rest = NULL;
    (void)snprintf(file, sizeof file, "task/%d/children", (int)getpid());
    if (!read_file(getpid(), file, list, sizeof list)) {
        return;
    }
    for (char *word = strtok_r(list, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        (void)kill((pid_t)strtol(word, NULL, 10), SIGKILL); /* ours to reap */
    }
}

void fork_end_children(void)
{
    uint64_t until = sbx_clock_us() + LONG_US;
    for (;;) {
        kill_children();
        pid_t pid = waitpid(-1, NULL, WNOHANG | __WALL);
        if (pid < 0) {
            ck_assert_int_eq(errno, ECHILD);
            return;
        }
        ck_assert_msg(sbx_clock_us() < until, "processes are left");
        if (pid == 0) {
            nap();
        }
    }
}
