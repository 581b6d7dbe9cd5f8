/*
 * provision_files.c - see provision_private.h.
 */
#include "cgroup/provision_private.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "cgroup/hierarchy.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#define STAGE SBX_STAGE_ARM
#define SUBTREE "cgroup.subtree_control"

bool sbx_provision_is_cgroup2(int fd)
{
    struct statfs about;
    return fstatfs(fd, &about) == 0 && about.f_type == CGROUP2_SUPER_MAGIC;
}

static bool is_plain_path(const char *group)
{
    if (group[0] != '/' || group[1] == '\0' || strlen(group) >= SBX_GROUP_PATH_SIZE) {
        return false;
    }
    for (const char *name = group; *name != '\0';) {
        name++;
        size_t length = strcspn(name, "/");
        if (length == 0 || (length == 1 && name[0] == '.') ||
            (length == 2 && name[0] == '.' && name[1] == '.')) {
            return false;
        }
        name += length;
    }
    return true;
}

struct sbx_provision_name sbx_provision_where(const char *mount, const char *group,
                                              const char *file)
{
    char whole[2 * SBX_GROUP_PATH_SIZE];
    struct sbx_provision_name shown = {.text = ""};
    (void)snprintf(whole, sizeof(whole), "%s%s%s%s", mount, group,
                   file[0] != '\0' ? "/" : "", file);
    size_t length = strlen(whole);
    size_t cut = length > 100 ? length - 100 : 0;
    (void)sbx_text_escape(shown.text, sizeof(shown.text), whole + cut, length - cut);
    return shown;
}

int sbx_provision_open_parent(const char *mount, const char *group, const char **ret_name,
                              struct sbx_error *err)
{
    char below[SBX_GROUP_PATH_SIZE];
    if (!is_plain_path(group)) {
        return sbx_error_set(err, EINVAL, STAGE,
                             "\"%.100s\" is not the path of a group (\"/a/b\")", group);
    }
    const char *name = strrchr(group, '/') + 1;
    (void)snprintf(below, sizeof(below), ".%.*s", (int)(name - 1 - group), group);
    SBX_AUTO_CLOSE int top = open(mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    SBX_AUTO_CLOSE int fd =
        top < 0 ? -1 : openat(top, below, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || !sbx_provision_is_cgroup2(fd)) {
        int code = fd < 0 ? errno : EINVAL;
        return sbx_error_set(err, code, STAGE, "%s: %s",
                             sbx_provision_where(mount, below + 1, "").text,
                             fd < 0 ? sbx_errno_text(code).text
                                    : "not a directory of a cgroup2 file system");
    }
    *ret_name = name;
    return sbx_fd_steal(&fd);
}

int sbx_provision_open_group(const char *mount, const char *group, struct sbx_error *err)
{
    const char *name = "";
    SBX_AUTO_CLOSE int parent = sbx_provision_open_parent(mount, group, &name, err);
    if (parent < 0) {
        return parent;
    }
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 ? fd
                   : sbx_error_set(err, errno, STAGE, "%s: %s",
                                   sbx_provision_where(mount, group, "").text,
                                   sbx_errno_text(errno).text);
}

unsigned sbx_provision_controllers(int fd, const char *file)
{
    char text[SBX_PROVISION_TEXT_SIZE];
    return sbx_fd_read_text_at(fd, file, text, sizeof(text)) < 0
               ? 0
               : sbx_controllers_parse(text);
}

int sbx_provision_write(int fd, const char *file, const char *text)
{
    SBX_AUTO_CLOSE int to = openat(fd, file, O_WRONLY | O_CLOEXEC);
    return to < 0 ? -errno : sbx_fd_write_all(to, text, strlen(text));
}

/* ---- making ---- */

/* The path of the ancestor at that depth, "" for the root; false: that is the group. */
static bool ancestor_at(const char *group, size_t depth,
                        char ret_path[static SBX_GROUP_PATH_SIZE])
{
    const char *end = group;
    for (size_t i = 0; i < depth && end != NULL; i++) {
        end = strchr(end + 1, '/');
    }
    if (end == NULL) {
        return false;
    }
    (void)snprintf(ret_path, SBX_GROUP_PATH_SIZE, "%.*s", (int)(end - group), group);
    return true;
}

int sbx_provision_read_above(const char *mount, const char *group,
                             struct sbx_provision_above *ret_above, struct sbx_error *err)
{
    char path[SBX_GROUP_PATH_SIZE];
    ret_above->count = 0;
    for (size_t i = 0; ancestor_at(group, i, path); i++) {
        char file[2 * SBX_GROUP_PATH_SIZE + 32];
        if (i >= SBX_PROVISION_DEPTH_MAX) {
            return sbx_error_set(
                err, ENAMETOOLONG, STAGE, "%s: more than %d groups above it",
                sbx_provision_where(mount, group, "").text, SBX_PROVISION_DEPTH_MAX);
        }
        (void)snprintf(file, sizeof(file), "%s%s/" SUBTREE, mount, path);
        ssize_t length = sbx_fd_read_text_at(AT_FDCWD, file, ret_above->text[i],
                                             SBX_PROVISION_TEXT_SIZE);
        if (length < 0) {
            return sbx_error_set(err, (int)-length, STAGE, "%s cannot be read: %s",
                                 sbx_provision_where(mount, path, SUBTREE).text,
                                 sbx_errno_text((int)-length).text);
        }
        ret_above->count++;
    }
    return 0;
}

/* All of them are on in every group above: so the library has nothing to switch on. */
int sbx_provision_check_above(const char *mount, const char *group, unsigned controllers,
                              const struct sbx_provision_above *above,
                              struct sbx_error *err)
{
    for (size_t i = 0; i < above->count; i++) {
        unsigned missing = controllers & ~sbx_controllers_parse(above->text[i]);
        if (missing != 0) {
            char path[SBX_GROUP_PATH_SIZE];
            (void)ancestor_at(group, i, path);
            const char *name =
                sbx_controller_name((enum sbx_controller)__builtin_ctz(missing));
            return sbx_error_set(
                err, EOPNOTSUPP, STAGE,
                "%s of %s is not on in %s, and what is above a group is not changed for "
                "it: write +%s there first",
                name, sbx_provision_where("", group, "").text,
                sbx_provision_where(mount, path, SUBTREE).text, name);
        }
    }
    return 0;
}

/* The group has what was asked for, and nothing above it has changed. */
int sbx_provision_verify(const char *mount, const char *group, unsigned controllers,
                         const struct sbx_provision_above *before, struct sbx_error *err)
{
    struct sbx_provision_above after;
    SBX_AUTO_CLOSE int fd = sbx_provision_open_group(mount, group, err);
    if (fd < 0) {
        return fd;
    }
    if ((controllers & ~sbx_provision_controllers(fd, "cgroup.controllers")) != 0) {
        return sbx_error_set(
            err, EIO, STAGE, "%s lacks a controller that it should have",
            sbx_provision_where(mount, group, "cgroup.controllers").text);
    }
    int rc = controllers == 0 ? 0 : sbx_provision_read_above(mount, group, &after, err);
    for (size_t i = 0; rc == 0 && controllers != 0 && i < after.count; i++) {
        if (strcmp(before->text[i], after.text[i]) != 0) {
            char path[SBX_GROUP_PATH_SIZE];
            (void)ancestor_at(group, i, path);
            rc = sbx_error_set(err, EIO, STAGE, "%s has changed meanwhile",
                               sbx_provision_where(mount, path, SUBTREE).text);
        }
    }
    return rc;
}
