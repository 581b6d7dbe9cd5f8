/*
 * option_streams.c - --stdin, --stdout and --stderr: where the command's streams lead
 * (see options.c for the table). Opens nothing but the directory that a relative path
 * starts at.
 */
#include "monitor/option_rules.h"

#include "base/error.h"
#include "base/fd.h"

#include <stdlib.h>
#include <string.h>

static int set(struct sbx_stream *stream, const struct sbx_rule *rule, const char *value,
               struct sbx_error *err)
{
    SBX_AUTO_CLOSE int directory = -1;
    if (*value != '/' && *value != '\0') {
        directory = sbx_option_hold_directory();
        if (directory < 0) {
            return sbx_error_set(err, -directory, SBX_STAGE_OPTIONS,
                                 "option --%s: working directory: %s; give an absolute "
                                 "path",
                                 rule->name, sbx_errno_text(-directory).text);
        }
    }
    int result = sbx_option_path(rule, value, rule->bounds, &stream->path, err);
    if (result == 0) {
        sbx_fd_drop(&stream->directory_fd);
        stream->directory_fd = sbx_fd_steal(&directory);
    }
    return result;
}

int sbx_set_stdin(struct sbx_spec *spec, const struct sbx_rule *rule, const char *value,
                  struct sbx_error *err)
{
    struct sbx_stream *stream = &spec->streams[0];
    if (strcmp(value, "inherit") == 0) {
        free(stream->path);
        stream->path = NULL;
        sbx_fd_drop(&stream->directory_fd);
        return 0;
    }
    return set(stream, rule, strcmp(value, "null") == 0 ? "/dev/null" : value, err);
}

int sbx_set_stdout(struct sbx_spec *spec, const struct sbx_rule *rule, const char *value,
                   struct sbx_error *err)
{
    return set(&spec->streams[1], rule, value, err);
}

int sbx_set_stderr(struct sbx_spec *spec, const struct sbx_rule *rule, const char *value,
                   struct sbx_error *err)
{
    return set(&spec->streams[2], rule, value, err);
}

bool sbx_spec_holds(const struct sbx_spec *spec, int fd)
{
    return fd == spec->report_directory_fd || fd == spec->start.directory_fd ||
           fd == spec->log.directory_fd || fd == spec->streams[0].directory_fd ||
           fd == spec->streams[1].directory_fd || fd == spec->streams[2].directory_fd;
}
