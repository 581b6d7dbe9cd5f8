/*
 * option_log.c - where lines and rows are to go (see options.c for the table). Opens
 * nothing but the directory that relative paths start at: files are opened when the run
 * is checked.
 */
#include "monitor/option_rules.h"

#include "base/error.h"
#include "base/fd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_PREFIX "file:"

static bool is_here(int directory)
{
    struct stat held;
    struct stat here;
    return fstat(directory, &held) == 0 && stat(".", &here) == 0 &&
           held.st_dev == here.st_dev && held.st_ino == here.st_ino;
}

/* Once for all paths: they are given in the same directory. */
static int hold(struct sbx_spec *spec, const struct sbx_rule *rule, const char *path,
                int *ret_directory, struct sbx_error *err)
{
    if (*path == '/' || *path == '\0') {
        return 0;
    }
    if (spec->log.directory_fd >= 0) {
        return is_here(spec->log.directory_fd)
                   ? 0
                   : sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                                   "option --%s: the working directory is another one "
                                   "than at an earlier path; give an absolute path",
                                   rule->name);
    }
    int directory = sbx_option_hold_directory();
    if (directory < 0) {
        return sbx_error_set(err, -directory, SBX_STAGE_OPTIONS,
                             "option --%s: working directory: %s; give an absolute path",
                             rule->name, sbx_errno_text(-directory).text);
    }
    *ret_directory = directory;
    return 0;
}

static void keep(struct sbx_spec *spec, int *directory)
{
    if (*directory >= 0) {
        spec->log.directory_fd = sbx_fd_steal(directory);
    }
}

/* The kind that the value begins with; the path goes to *ret_path for a file. */
static int parse(const char *value, enum sbx_log_kind *ret_kind, const char **ret_path)
{
    static const struct {
        const char *word;
        enum sbx_log_kind kind;
    } words[] = {{"stderr", SBX_LOG_STDERR},
                 {"syslog", SBX_LOG_SYSLOG},
                 {"journal", SBX_LOG_JOURNAL}};
    *ret_path = NULL;
    if (strncmp(value, FILE_PREFIX, strlen(FILE_PREFIX)) == 0) {
        *ret_kind = SBX_LOG_FILE;
        *ret_path = value + strlen(FILE_PREFIX);
        return **ret_path != '\0' ? 0 : -EINVAL;
    }
    for (size_t i = 0; i < SBX_LENGTH(words); i++) {
        if (strcmp(value, words[i].word) == 0) {
            *ret_kind = words[i].kind;
            return 0;
        }
    }
    return -EINVAL;
}

static bool is_there(const struct sbx_log_plan *plan, enum sbx_log_kind kind,
                     const char *path)
{
    for (size_t i = 0; i < plan->target_count; i++) {
        const struct sbx_log_target *target = &plan->targets[i];
        if (target->kind == kind && (path == NULL || strcmp(target->path, path) == 0)) {
            return true;
        }
    }
    return false;
}

int sbx_set_log(struct sbx_spec *spec, const struct sbx_rule *rule, const char *value,
                struct sbx_error *err)
{
    struct sbx_log_plan *plan = &spec->log;
    SBX_AUTO_CLOSE int directory = -1;
    SBX_AUTO_FREE char *copy = NULL;
    struct sbx_log_target target;
    const char *path = NULL;
    char quoted[SBX_QUOTE_SIZE];
    if (parse(value, &target.kind, &path) < 0) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "option --%s: '%s' is not a sink (accepted: %s)", rule->name,
                             sbx_option_quote(quoted, value), rule->bounds);
    }
    if (is_there(plan, target.kind, path)) {
        return 0; /* each line once */
    }
    if (plan->target_count == SBX_LOG_SINK_MAX) {
        return sbx_error_set(err, ERANGE, SBX_STAGE_OPTIONS,
                             "option --%s: '%s' is one too many (accepted: %d)",
                             rule->name, sbx_option_quote(quoted, value),
                             SBX_LOG_SINK_MAX);
    }
    if (path != NULL) {
        int result = sbx_option_path(rule, path, rule->bounds, &copy, err);
        result = result < 0 ? result : hold(spec, rule, path, &directory, err);
        if (result < 0) {
            return result;
        }
    }
    target.path = copy;
    copy = NULL;
    plan->targets[plan->target_count++] = target;
    keep(spec, &directory);
    return 0;
}

int sbx_set_timeline(struct sbx_spec *spec, const struct sbx_rule *rule,
                     const char *value, struct sbx_error *err)
{
    SBX_AUTO_CLOSE int directory = -1;
    int result = hold(spec, rule, value, &directory, err);
    result = result < 0
                 ? result
                 : sbx_option_path(rule, value, "a path", &spec->log.timeline_path, err);
    if (result == 0) {
        keep(spec, &directory);
    }
    return result;
}

void sbx_log_plan_done(struct sbx_log_plan *plan)
{
    for (size_t i = 0; i < plan->target_count; i++) {
        free(plan->targets[i].path);
    }
    free(plan->timeline_path);
    sbx_fd_drop(&plan->directory_fd);
}
