/*
 * option_group.c - options about control groups: that of a run, and one that is observed
 * (see options.c for the table). Opens nothing but the directory that a relative path
 * starts at: whether a group can be had is found out when the run is armed.
 */
#include "monitor/option_rules.h"

int sbx_set_cgroup_root(struct sbx_spec *spec, const struct sbx_rule *rule,
                        const char *value, struct sbx_error *err)
{
    return sbx_option_held_path(rule, value, &spec->cgroup_root,
                                &spec->cgroup_root_directory_fd, err);
}

int sbx_set_cgroup(struct sbx_spec *spec, const struct sbx_rule *rule, const char *value,
                   struct sbx_error *err)
{
    return sbx_option_held_path(rule, value, &spec->attach.cgroup,
                                &spec->attach.cgroup_directory_fd, err);
}

int sbx_set_require(struct sbx_spec *spec, const struct sbx_rule *rule, const char *value,
                    struct sbx_error *err)
{
    int word = sbx_option_word(rule, value, err);
    if (word < 0) {
        return word;
    }
    spec->require |= 1U << (unsigned)word;
    return 0;
}
