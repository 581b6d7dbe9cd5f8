/*
 * option_streams.c - --stdin, --stdout and --stderr: where the command's streams lead
 * (see options.c for the table). Opens nothing but the directory that a relative path
 * starts at.
 */
#include "monitor/option_rules.h"

#include "base/fd.h"

#include <stdlib.h>
#include <string.h>

static int set(struct sbx_stream *stream, const struct sbx_rule *rule, const char *value,
               struct sbx_error *err)
{
    return sbx_option_held_path(rule, value, &stream->path, &stream->directory_fd, err);
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
    return fd == spec->attach.cgroup_directory_fd || fd == spec->report_directory_fd ||
           fd == spec->start.directory_fd || fd == spec->log.directory_fd ||
           fd == spec->streams[0].directory_fd || fd == spec->streams[1].directory_fd ||
           fd == spec->streams[2].directory_fd || fd == spec->cgroup_root_directory_fd;
}
