/*
 * option_report.c - the option that names a descriptor for the report (see options.c for
 * the table). What it names must be there and fit for the purpose when it is given: at
 * the end of a run it would be too late to say so. Never writes, never changes a
 * descriptor.
 */
#include "monitor/option_rules.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>

int sbx_set_report_fd(struct sbx_spec *spec, const struct sbx_rule *rule,
                      const char *value, struct sbx_error *err)
{
    uint64_t number = 0;
    int result = sbx_option_number(rule, value, &number, err);
    if (result < 0) {
        return result;
    }
    int fd = (int)number;
    /* One of our own may have landed on a number that the caller believes to be its own:
     * all of ours are close-on-exec, and what is inherited is not. */
    int flags = fcntl(fd, F_GETFD);
    if (flags < 0 || (flags & FD_CLOEXEC) != 0) {
        return sbx_error_set(err, EBADF, SBX_STAGE_OPTIONS,
                             "option --%s: descriptor %d is not open%s", rule->name, fd,
                             flags < 0 ? "" : " for others: it is close-on-exec");
    }
    int mode = fcntl(fd, F_GETFL);
    bool writable = (mode & O_PATH) == 0 &&
                    ((mode & O_ACCMODE) == O_WRONLY || (mode & O_ACCMODE) == O_RDWR);
    if (mode < 0 || !writable) {
        return sbx_error_set(err, EBADF, SBX_STAGE_OPTIONS,
                             "option --%s: descriptor %d is not open for writing",
                             rule->name, fd);
    }
    spec->report_fd = fd;
    return 0;
}
