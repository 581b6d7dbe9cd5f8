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

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

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
    spec->report_directory_fd = -1;
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
    free(spec->report_path);
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

const char *sbx_version(void)
{
    return SBX_VERSION;
}
