/*
 * made.c - see made.h.
 *
 * Two runs may make the group at the same moment: then one of them finds it there. One
 * may take it away while another has it open already, and is about to make its leaf: that
 * gets ENOENT, and makes it again. A run that is killed between the making and the marker
 * leaves an empty group, which no later run takes for ours.
 */
#include "cgroup/made.h"

#include "base/error.h"
#include "base/fd.h"
#include "cgroup/hierarchy.h"
#include "cgroup/provision.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARKER "sbx-made"

bool sbx_made_is_marked(int place_fd)
{
    return faccessat(place_fd, MARKER, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* "a/b/" is in "a" and is called "b". false: such a path has no parent to make it in. */
static bool split(const char *root, char parent[static SBX_GROUP_PATH_SIZE],
                  char name[static NAME_MAX + 1])
{
    size_t length = strlen(root);
    while (length > 1 && root[length - 1] == '/') {
        length--;
    }
    size_t start = length;
    while (start > 0 && root[start - 1] != '/') {
        start--;
    }
    if (length - start == 0 || length - start > NAME_MAX ||
        start >= SBX_GROUP_PATH_SIZE) {
        return false;
    }
    (void)snprintf(name, NAME_MAX + 1, "%.*s", (int)(length - start), root + start);
    (void)snprintf(parent, SBX_GROUP_PATH_SIZE, "%.*s", start > 0 ? (int)start : 1,
                   start > 0 ? root : ".");
    return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static bool is_there(const struct sbx_hierarchy *hierarchy, int directory_fd,
                     const char *root)
{
    struct sbx_named_group found = {.fd = -1};
    if (sbx_hierarchy_open(hierarchy, directory_fd, root, &found, NULL) == 0) {
        sbx_fd_drop(&found.fd);
        return true;
    }
    return faccessat(directory_fd, root, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_same_directory(int a, int b)
{
    struct stat first;
    struct stat second;
    return fstat(a, &first) == 0 && fstat(b, &second) == 0 &&
           first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

/* The group's path below the mount, and what its parent has on. false: its parent is no
 * group below the mount. */
static bool find_group(const struct sbx_hierarchy *hierarchy, int directory_fd,
                       const char *root, char group[static SBX_GROUP_PATH_SIZE],
                       unsigned *ret_on)
{
    char parent[SBX_GROUP_PATH_SIZE];
    char name[NAME_MAX + 1];
    char text[1024];
    struct sbx_named_group above = {.fd = -1};
    int same = -1;
    if (!split(root, parent, name) ||
        sbx_hierarchy_open(hierarchy, directory_fd, parent, &above, NULL) < 0) {
        return false;
    }
    SBX_AUTO_CLOSE int above_fd = above.fd;
    bool below = sbx_hierarchy_open_group(hierarchy, above.path, &same) == 0 &&
                 is_same_directory(same, above_fd);
    sbx_fd_drop(&same);
    int length = snprintf(group, SBX_GROUP_PATH_SIZE, "%s/%s",
                          strcmp(above.path, "/") == 0 ? "" : above.path, name);
    *ret_on =
        sbx_fd_read_text_at(above_fd, "cgroup.subtree_control", text, sizeof(text)) < 0
            ? 0
            : sbx_controllers_parse(text);
    return below && length < SBX_GROUP_PATH_SIZE;
}

bool sbx_made_is_possible(int proc_fd, const char *root, int directory_fd)
{
    struct sbx_hierarchy hierarchy = {.kind = SBX_HIERARCHY_NONE};
    char group[SBX_GROUP_PATH_SIZE];
    unsigned on;
    return geteuid() == 0 && sbx_hierarchy_find(proc_fd, &hierarchy, NULL) == 0 &&
           hierarchy.kind != SBX_HIERARCHY_NONE &&
           find_group(&hierarchy, directory_fd, root, group, &on);
}

static int mark(const struct sbx_hierarchy *hierarchy, const char *group, int *ret_fd)
{
    SBX_AUTO_CLOSE int fd = -1;
    int rc = sbx_hierarchy_open_group(hierarchy, group, &fd);
    if (rc < 0) {
        return rc;
    }
    if (mkdirat(fd, MARKER, 0755) < 0 && errno != EEXIST) {
        return -errno;
    }
    *ret_fd = sbx_fd_steal(&fd);
    return 0;
}

int sbx_made_open(int proc_fd, const struct sbx_made_wish *wish, int *ret_fd,
                  struct sbx_error *err)
{
    struct sbx_hierarchy hierarchy = {.kind = SBX_HIERARCHY_NONE};
    char group[SBX_GROUP_PATH_SIZE];
    unsigned on;
    int rc = geteuid() != 0 ? 0 : sbx_hierarchy_find(proc_fd, &hierarchy, err);
    if (rc < 0) {
        return rc;
    }
    if (geteuid() != 0 || hierarchy.kind == SBX_HIERARCHY_NONE ||
        is_there(&hierarchy, wish->root_directory_fd, wish->root) ||
        !find_group(&hierarchy, wish->root_directory_fd, wish->root, group, &on)) {
        return 0;
    }
    rc = sbx_provision_create(hierarchy.mount, group, wish->wanted & on, err);
    if (rc == -EEXIST) {
        return 0; /* another run was quicker */
    }
    if (rc < 0) {
        sbx_error_prefix(err, "--cgroup-root");
        return rc;
    }
    rc = mark(&hierarchy, group, ret_fd);
    if (rc < 0) {
        (void)sbx_provision_remove(hierarchy.mount, group, NULL);
        return sbx_error_set(err, -rc, SBX_STAGE_ARM,
                             "--cgroup-root %.120s: what we made cannot be marked: %s",
                             wish->root, sbx_errno_text(-rc).text);
    }
    return 1;
}

/* 1: there is a group in it beside the marker, 0, or a negative errno. */
static int has_others(int place_fd)
{
    SBX_AUTO_CLOSEDIR DIR *directory = sbx_fd_list(place_fd);
    if (directory == NULL) {
        return -errno;
    }
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        if (entry->d_type == DT_DIR && strcmp(entry->d_name, ".") != 0 &&
            strcmp(entry->d_name, "..") != 0 && strcmp(entry->d_name, MARKER) != 0) {
            return 1;
        }
    }
    return 0;
}

/* The directory above, and what this one is called there; or a negative errno. */
static int open_above(int place_fd, char name[static NAME_MAX + 1])
{
    char link[64];
    char path[SBX_GROUP_PATH_SIZE];
    struct stat here;
    struct stat there;
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", place_fd);
    ssize_t length = readlink(link, path, sizeof(path) - 1);
    if (length <= 0) {
        return length < 0 ? -errno : -ENOENT;
    }
    path[length] = '\0';
    const char *slash = strrchr(path, '/');
    (void)snprintf(name, NAME_MAX + 1, "%.*s", NAME_MAX,
                   slash != NULL ? slash + 1 : path);
    SBX_AUTO_CLOSE int above = openat(place_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (above < 0 || fstat(place_fd, &here) < 0 ||
        fstatat(above, name, &there, AT_SYMLINK_NOFOLLOW) < 0) {
        return -errno;
    }
    return here.st_ino == there.st_ino && here.st_dev == there.st_dev
               ? sbx_fd_steal(&above)
               : -ENOENT;
}

int sbx_made_take_away(int place_fd)
{
    char name[NAME_MAX + 1];
    if (!sbx_made_is_marked(place_fd)) {
        return 0;
    }
    int others = has_others(place_fd);
    if (others != 0) {
        return others < 0 ? others : 0;
    }
    SBX_AUTO_CLOSE int above = open_above(place_fd, name);
    if (above < 0) {
        return above;
    }
    if (unlinkat(place_fd, MARKER, AT_REMOVEDIR) < 0 && errno != ENOENT) {
        return -errno;
    }
    if (unlinkat(above, name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
        return 0;
    }
    int rc = -errno;
    (void)mkdirat(place_fd, MARKER, 0755);
    return rc == -EBUSY ? 0 : rc; /* somebody came: it is not ours alone any more */
}
