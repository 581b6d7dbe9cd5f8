/*
 * option_attach.c - --cgroup: which group is observed (see options.c for the table).
 * Opens nothing but the directory that a relative path starts at.
 */
#include "monitor/option_rules.h"

#include "base/error.h"
#include "base/fd.h"

int sbx_set_cgroup(struct sbx_spec *spec, const struct sbx_rule *rule, const char *value,
                   struct sbx_error *err)
{
    struct sbx_attach_asked *asked = &spec->attach;
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
    int result = sbx_option_path(rule, value, rule->bounds, &asked->cgroup, err);
    if (result == 0) {
        sbx_fd_drop(&asked->cgroup_directory_fd);
        asked->cgroup_directory_fd = sbx_fd_steal(&directory);
    }
    return result;
}
