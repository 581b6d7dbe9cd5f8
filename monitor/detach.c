/*
 * detach.c - see detach.h. Relies on every descriptor of ours being close-on-exec: those
 * that are not were the caller's. Signals only the guard, which is an un-reaped child of
 * the calling process. Every wait is bounded.
 */
#include "monitor/detach.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "monitor/json.h"
#include "monitor/sink.h"
#include "reaper/pidref.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The launch is bounded itself (reaper/launch.h): a minute and a half, and a sweep. */
#define START_BOUND_US (150 * SBX_US_PER_S)

#define PATH_SIZE ((size_t)2 * PATH_MAX)
#define LINE_SIZE (4 * PATH_SIZE + 256)

enum word_kind { WORD_STARTED = 1, WORD_ENDED };

struct word {
    int32_t kind;
    int32_t status;
};

static int refuse(struct sbx_error *err, enum sbx_stage stage, const char *why)
{
    return sbx_error_set(err, EINVAL, stage, "option --detach: %s", why);
}

int sbx_detach_check(const struct sbx_spec *spec, struct sbx_error *err)
{
    if (spec->report_path == NULL || strcmp(spec->report_path, "-") == 0) {
        return refuse(err, SBX_STAGE_OPTIONS,
                      "needs --report FILE: nobody else is told how the run ends");
    }
    if (spec->die_with_parent) {
        return refuse(err, SBX_STAGE_CHECK,
                      "contradicts --die-with-parent: the caller may end first");
    }
    return 0;
}

/* --- the calling process --- */

/* "/DIRECTORY/NAME" for a relative path. 0 or a negative errno. */
static int absolute_path(const struct sbx_spec *spec, char path[static PATH_SIZE])
{
    char link[40];
    char directory[PATH_MAX] = "";
    if (spec->report_path[0] != '/') {
        (void)snprintf(link, sizeof link, "/proc/self/fd/%d", spec->report_directory_fd);
        ssize_t length = readlink(link, directory, sizeof directory - 1);
        if (length < 0) {
            return -errno;
        }
        directory[length] = '\0';
    }
    int length = snprintf(path, PATH_SIZE, "%s%s%s", directory,
                          directory[0] != '\0' ? "/" : "", spec->report_path);
    return length >= 0 && (size_t)length < PATH_SIZE ? 0 : -ENAMETOOLONG;
}

/* What standard output is going to say. The length, or a negative errno. */
static ssize_t make_line(const struct sbx_spec *spec, const char *run_id, pid_t guard,
                         char line[static LINE_SIZE])
{
    char path[PATH_SIZE];
    struct sbx_json json;
    int r = absolute_path(spec, path);
    if (r < 0) {
        return r;
    }
    sbx_json_init(&json, line, LINE_SIZE);
    sbx_json_object(&json, NULL);
    sbx_json_string(&json, "run_id", run_id);
    sbx_json_number(&json, "pid", (uint64_t)guard);
    sbx_json_bytes(&json, "report", path, strlen(path));
    sbx_json_close(&json);
    return sbx_json_finish(&json);
}

static int say_start(const struct sbx_spec *spec, const char *run_id, pid_t guard,
                     struct sbx_error *err)
{
    char line[LINE_SIZE];
    ssize_t length = make_line(spec, run_id, guard, line);
    int r = length < 0
                ? (int)length
                : sbx_sink_put(STDOUT_FILENO, line, (size_t)length, SBX_SINK_AS_IT_IS);
    if (r < 0) {
        (void)sbx_child_signal(guard, SIGTERM);
        return sbx_error_set(err, -r, SBX_STAGE_LAUNCH,
                             "--detach: standard output cannot be told of the run: %s; "
                             "it is ended",
                             sbx_errno_text(-r).text);
    }
    return 0;
}

/* 1: *ret_word is what the guard says; 0: it is gone; or a negative errno. */
static int hear(int fd, struct word *ret_word)
{
    uint64_t deadline_us = sbx_clock_us() + START_BOUND_US;
    for (;;) {
        uint64_t now_us = sbx_clock_us();
        if (now_us >= deadline_us) {
            return -ETIMEDOUT;
        }
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (poll(&ready, 1, (int)((deadline_us - now_us) / 1000) + 1) <= 0) {
            continue;
        }
        ssize_t length = read(fd, ret_word, sizeof *ret_word);
        if (length >= 0 || errno != EINTR) {
            return length == (ssize_t)sizeof *ret_word ? 1 : 0;
        }
    }
}

static int await_start(int fd, const struct sbx_spec *spec, const char *run_id,
                       pid_t guard, struct sbx_error *err)
{
    struct word word;
    sigset_t all;
    int heard = hear(fd, &word);
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    if (heard < 0) {
        (void)sbx_child_signal(guard, SIGTERM);
        return sbx_error_set(err, -heard, SBX_STAGE_LAUNCH,
                             "--detach: the guard says nothing; the run is ended");
    }
    if (heard == 0) {
        return sbx_error_set(err, ESRCH, SBX_STAGE_LAUNCH,
                             "--detach: the guard is gone, and with it the run");
    }
    if (word.kind == WORD_ENDED) {
        return word.status;
    }
    return say_start(spec, run_id, guard, err);
}

/* --- the guard --- */

static bool is_needed(const struct sbx_spec *spec, int fd)
{
    for (size_t i = 0; i < spec->keep_fd_count; i++) {
        if (spec->keep_fds[i] == fd) {
            return true;
        }
    }
    return fd == spec->report_fd;
}

/* Somebody may wait for the end of a pipe, or for a lock, that the caller has left open.
 */
static void close_foreign(const struct sbx_spec *spec)
{
    SBX_AUTO_CLOSEDIR DIR *directory = opendir("/proc/self/fd");
    const struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        char *end = NULL;
        long fd = strtol(entry->d_name, &end, 10);
        if (end == entry->d_name || *end != '\0' || fd <= STDERR_FILENO) {
            continue;
        }
        int flags = fcntl((int)fd, F_GETFD);
        if (flags >= 0 && (flags & FD_CLOEXEC) == 0 && !is_needed(spec, (int)fd)) {
            (void)close((int)fd);
        }
    }
}

int sbx_detach(struct sbx_detach *detach, const struct sbx_spec *spec, const char *run_id,
               int *ret_status, struct sbx_error *err)
{
    int ends[2];
    *ret_status = SBX_STATUS_FAILED;
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return sbx_error_set(err, errno, SBX_STAGE_LAUNCH, "pipe: %s",
                             sbx_errno_text(errno).text);
    }
    SBX_AUTO_CLOSE int read_end = ends[0];
    SBX_AUTO_CLOSE int write_end = ends[1];
    pid_t guard = fork();
    if (guard < 0) {
        return sbx_error_set(err, errno, SBX_STAGE_LAUNCH, "fork of the guard: %s",
                             sbx_errno_text(errno).text);
    }
    if (guard == 0) {
        (void)setsid();
        close_foreign(spec);
        detach->pipe = sbx_fd_steal(&write_end);
        return 1;
    }
    detach->forked = true;
    sbx_fd_drop(&write_end);
    int r = await_start(read_end, spec, run_id, guard, err);
    if (r < 0) {
        return r;
    }
    *ret_status = r;
    return 0;
}

/* SIGPIPE is blocked, like all signals of a guard. */
static bool tell(struct sbx_detach *detach, enum word_kind kind, int status)
{
    struct word word = {.kind = (int32_t)kind, .status = status};
    ssize_t written;
    if (detach->pipe < 0) {
        return true;
    }
    do {
        written = write(detach->pipe, &word, sizeof word);
    } while (written < 0 && errno == EINTR);
    sbx_fd_drop(&detach->pipe);
    return written == (ssize_t)sizeof word;
}

bool sbx_detach_tell_start(struct sbx_detach *detach)
{
    return tell(detach, WORD_STARTED, 0);
}

void sbx_detach_tell_end(struct sbx_detach *detach, int status)
{
    (void)tell(detach, WORD_ENDED, status);
}
