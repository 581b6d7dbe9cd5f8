/*
 * rivals.c - see rivals.h. A report that goes to an open file by a link of /proc
 * (/dev/stderr) replaces nothing, and is no rival.
 */
#include "monitor/rivals.h"

#include "base/text.h"
#include "monitor/report.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define NAME_SIZE 256

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool look_up(const struct sbx_log_plan *plan, const char *path,
                    struct stat *ret_file)
{
    int at = plan->directory_fd >= 0 ? plan->directory_fd : AT_FDCWD;
    return path != NULL && fstatat(at, path, ret_file, 0) == 0 &&
           S_ISREG(ret_file->st_mode);
}

static bool is_log(const struct sbx_log_plan *plan, const struct stat *file)
{
    struct stat log;
    for (size_t i = 0; i < plan->target_count; i++) {
        if (plan->targets[i].kind == SBX_LOG_FILE &&
            look_up(plan, plan->targets[i].path, &log) && same_file(file, &log)) {
            return true;
        }
    }
    return false;
}

const char *sbx_rival_of_stream(const struct sbx_spec *spec, const struct stat *file)
{
    struct stat timeline;
    if (sbx_report_replaces(spec, file)) {
        return "the same file as --report, which would replace it";
    }
    if (look_up(&spec->log, spec->log.timeline_path, &timeline) &&
        same_file(file, &timeline)) {
        return "the same file as --timeline, which would be written over";
    }
    if (is_log(&spec->log, file)) {
        return "the same file as --log, which would be written over";
    }
    return NULL;
}

static int refuse(const char *option, const char *path, const char *what,
                  struct sbx_error *err)
{
    char name[NAME_SIZE];
    (void)sbx_text_escape(name, sizeof name, path, strlen(path));
    return sbx_error_set(err, EINVAL, SBX_STAGE_CHECK, "option --%s: '%s': %s (EINVAL)",
                         option, name, what);
}

int sbx_rivals_check(const struct sbx_spec *spec, struct sbx_error *err)
{
    const struct sbx_log_plan *plan = &spec->log;
    struct stat file;
    for (size_t i = 0; i < plan->target_count; i++) {
        const char *path = plan->targets[i].path;
        if (plan->targets[i].kind == SBX_LOG_FILE && look_up(plan, path, &file) &&
            sbx_report_replaces(spec, &file)) {
            return refuse("log", path,
                          "the same file as --report, which would replace it", err);
        }
    }
    if (!look_up(plan, plan->timeline_path, &file)) {
        return 0;
    }
    if (sbx_report_replaces(spec, &file)) {
        return refuse("timeline", plan->timeline_path,
                      "the same file as --report, which would replace it", err);
    }
    return is_log(plan, &file)
               ? refuse("timeline", plan->timeline_path,
                        "the same file as --log, which would be emptied", err)
               : 0;
}
