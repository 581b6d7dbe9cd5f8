/*
 * option_values.c - options whose values are more than a number, a flag or a word (see
 * options.c for the table). Opens nothing but the directory that a relative report path
 * starts at.
 */
#include "monitor/option_rules.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

int sbx_set_grace(struct sbx_spec *spec, const struct sbx_rule *rule, const char *value,
                  struct sbx_error *err)
{
    int result = sbx_set_number(spec, rule, value, err);
    if (result == 0) {
        spec->grace_asked = true;
    }
    return result;
}

int sbx_set_rlimit(struct sbx_spec *spec, const struct sbx_rule *rule, const char *value,
                   struct sbx_error *err)
{
    int result = sbx_ceiling_parse(value, spec->ceilings, err);
    if (result < 0) {
        sbx_error_prefix(err, "option --%s", rule->name);
    }
    return result;
}

int sbx_set_signal(struct sbx_spec *spec, const struct sbx_rule *rule, const char *value,
                   struct sbx_error *err)
{
    char quoted[SBX_QUOTE_SIZE];
    int number = 0;
    int result = sbx_text_signal(value, &number);
    if (result < 0) {
        return sbx_error_set(err, -result, SBX_STAGE_OPTIONS,
                             "option --%s: '%s' is not a signal (accepted: %s)",
                             rule->name, sbx_option_quote(quoted, value), rule->bounds);
    }
    if (number == SIGSTOP || number == SIGTSTP || number == SIGTTIN ||
        number == SIGTTOU) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "option --%s: '%s' would stop the processes instead of "
                             "asking them to end (accepted: any other signal)",
                             rule->name, sbx_option_quote(quoted, value));
    }
    spec->signal = number;
    return 0;
}

/* Above 2, so that it never stands in for a closed standard stream. */
int sbx_option_hold_directory(void)
{
    SBX_AUTO_CLOSE int fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    if (fd > 2) {
        return sbx_fd_steal(&fd);
    }
    int above = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return above < 0 ? -errno : above;
}

int sbx_option_held_path(const struct sbx_rule *rule, const char *value, char **path,
                         int *directory_fd, struct sbx_error *err)
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
    int result = sbx_option_path(rule, value, rule->bounds, path, err);
    if (result == 0) {
        sbx_fd_drop(directory_fd);
        *directory_fd = sbx_fd_steal(&directory);
    }
    return result;
}

int sbx_set_report(struct sbx_spec *spec, const struct sbx_rule *rule, const char *value,
                   struct sbx_error *err)
{
    if (strcmp(value, "-") != 0) {
        return sbx_option_held_path(rule, value, &spec->report_path,
                                    &spec->report_directory_fd, err);
    }
    int result = sbx_option_path(rule, value, rule->bounds, &spec->report_path, err);
    if (result == 0) {
        sbx_fd_drop(&spec->report_directory_fd);
    }
    return result;
}

int sbx_set_keep_fd(struct sbx_spec *spec, const struct sbx_rule *rule, const char *value,
                    struct sbx_error *err)
{
    uint64_t number = 0;
    int result = sbx_option_number(rule, value, &number, err);
    if (result < 0) {
        return result;
    }
    int fd = (int)number;
    /* Our own descriptor may have landed on a number that the caller believes to be its
     * own. */
    if (fcntl(fd, F_GETFD) < 0 || sbx_spec_holds(spec, fd)) {
        return sbx_error_set(err, EBADF, SBX_STAGE_OPTIONS,
                             "option --%s: descriptor %d is not open", rule->name, fd);
    }
    for (size_t i = 0; i < spec->keep_fd_count; i++) {
        if (spec->keep_fds[i] == fd) {
            return 0;
        }
    }
    if (spec->keep_fd_count == SBX_LENGTH(spec->keep_fds)) {
        return sbx_error_set(err, ERANGE, SBX_STAGE_OPTIONS,
                             "option --%s: descriptor %d is one too many (accepted: %zu)",
                             rule->name, fd, SBX_LENGTH(spec->keep_fds));
    }
    spec->keep_fds[spec->keep_fd_count++] = fd;
    return 0;
}
