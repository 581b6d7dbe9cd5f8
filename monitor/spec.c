/*
 * spec.c - the life of a specification: defaults, the command, release. What the options
 * mean is in options.c.
 *
 * Owns the copies of the command, of paths and of variables, and the descriptors that
 * relative paths start at. Never opens or starts anything by itself.
 */
#include "monitor/spec.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROGRESS_MIN_US 1000U
#define PATH_SHOWN 256

struct sbx_spec *sbx_spec_new(void)
{
    struct sbx_spec *spec = calloc(1, sizeof *spec);
    if (spec == NULL) {
        return NULL;
    }
    spec->warn_percent = 90;
    spec->signal = SIGTERM;
    spec->grace_us = 2 * (uint64_t)SBX_US_PER_S;
    spec->interval_us = 250000;
    spec->attach.cgroup_directory_fd = -1;
    spec->report_directory_fd = -1;
    spec->cgroup_root_directory_fd = -1;
    spec->start.directory_fd = -1;
    for (size_t i = 0; i < 3; i++) {
        spec->streams[i].directory_fd = -1;
    }
    spec->breach_status = SBX_STATUS_BREACH;
    spec->log.level = SBX_LOG_INFO;
    spec->log.directory_fd = -1;
    return spec;
}

static void free_command(char **argv)
{
    for (size_t i = 0; argv != NULL && argv[i] != NULL; i++) {
        free(argv[i]);
    }
    free(argv);
}

void sbx_spec_free(struct sbx_spec *spec)
{
    if (spec == NULL) {
        return;
    }
    free_command(spec->argv);
    free(spec->attach.cgroup);
    sbx_fd_drop(&spec->attach.cgroup_directory_fd);
    free(spec->report_path);
    free(spec->cgroup_root);
    sbx_fd_drop(&spec->cgroup_root_directory_fd);
    free(spec->monitor_path);
    sbx_settings_done(&spec->settings);
    sbx_fd_drop(&spec->report_directory_fd);
    sbx_environment_done(&spec->environment);
    free(spec->start.directory);
    sbx_fd_drop(&spec->start.directory_fd);
    sbx_log_plan_done(&spec->log);
    for (size_t i = 0; i < 3; i++) {
        free(spec->streams[i].path);
        sbx_fd_drop(&spec->streams[i].directory_fd);
    }
    free(spec);
}

/* A copy of the array and of its strings, or NULL. */
static char **copy_command(const char *const argv[], size_t count)
{
    char **copy = calloc(count + 1, sizeof *copy);
    if (copy == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        copy[i] = strdup(argv[i]);
        if (copy[i] == NULL) {
            free_command(copy);
            return NULL;
        }
    }
    return copy;
}

int sbx_spec_set_command(struct sbx_spec *spec, const char *const argv[],
                         struct sbx_error *err)
{
    size_t count = 0;
    while (argv != NULL && argv[count] != NULL) {
        count++;
    }
    if (count == 0) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS, "no command given");
    }
    char **copy = copy_command(argv, count);
    if (copy == NULL) {
        return sbx_error_set(err, ENOMEM, SBX_STAGE_OPTIONS,
                             "no memory for a command of %zu arguments", count);
    }
    free_command(spec->argv);
    spec->argv = copy;
    return 0;
}

int sbx_spec_set_progress(struct sbx_spec *spec, uint64_t interval_us,
                          struct sbx_error *err)
{
    if (interval_us > INT64_MAX || (interval_us != 0 && interval_us < PROGRESS_MIN_US)) {
        return sbx_error_set(err, ERANGE, SBX_STAGE_OPTIONS,
                             "progress interval: %llu us is out of range (accepted: at "
                             "least %u us, or 0 for none)",
                             (unsigned long long)interval_us, PROGRESS_MIN_US);
    }
    spec->progress_us = interval_us;
    return 0;
}

int sbx_spec_set_monitor(struct sbx_spec *spec, const char *path, struct sbx_error *err)
{
    char *copy = NULL;
    if (path != NULL && path[0] != '/') {
        char shown[PATH_SHOWN];
        (void)sbx_text_escape(shown, sizeof shown, path, strlen(path));
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "sbx-monitor: '%s' is not an absolute path", shown);
    }
    if (path != NULL) {
        copy = strdup(path);
        if (copy == NULL) {
            return sbx_error_set(err, ENOMEM, SBX_STAGE_OPTIONS, "no memory for a path");
        }
    }
    free(spec->monitor_path);
    spec->monitor_path = copy;
    return 0;
}

static size_t note_fd(int fd, int *fds, size_t count)
{
    if (fd > STDERR_FILENO) {
        fds[count++] = fd;
    }
    return count;
}

size_t sbx_spec_fds(const struct sbx_spec *spec, int fds[static SBX_SPEC_FDS_MAX])
{
    size_t count = 0;
    count = note_fd(spec->attach.cgroup_directory_fd, fds, count);
    count = note_fd(spec->report_directory_fd, fds, count);
    count = note_fd(spec->cgroup_root_directory_fd, fds, count);
    count = note_fd(spec->start.directory_fd, fds, count);
    count = note_fd(spec->log.directory_fd, fds, count);
    count = note_fd(spec->report_fd, fds, count);
    for (size_t i = 0; i < 3; i++) {
        count = note_fd(spec->streams[i].directory_fd, fds, count);
    }
    for (size_t i = 0; i < spec->keep_fd_count; i++) {
        count = note_fd(spec->keep_fds[i], fds, count);
    }
    return count;
}

const char *sbx_version(void)
{
    return SBX_VERSION;
}
