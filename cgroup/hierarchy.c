/*
 * hierarchy.c - see hierarchy.h.
 *
 * Relies on the formats of proc(5) and cgroups(7): /proc/self/cgroup has the line
 * "0::PATH", mountinfo the root of each cgroup2 mount, and both are seen from the root of
 * our cgroup namespace. Where that does not tell how one lies in the other ("/.." in
 * either), our group counts as not visible. Never changes anything.
 */
#include "cgroup/hierarchy.h"

#include "base/error.h"
#include "base/fd.h"
#include "cgroup/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

/* ---- controllers ---- */

static const char *const controller_names[SBX_CONTROLLER_COUNT] = {
    [SBX_CONTROLLER_MEMORY] = "memory",
    [SBX_CONTROLLER_PIDS] = "pids",
    [SBX_CONTROLLER_CPU] = "cpu",
};

const char *sbx_controller_name(enum sbx_controller controller)
{
    return controller_names[controller];
}

/* Whether `word` is among those in `list`, which any of `delimiters` separates. */
static bool has_word(const char *list, const char *delimiters, const char *word)
{
    size_t length = strlen(word);
    for (list += strspn(list, delimiters); *list != '\0';) {
        size_t here = strcspn(list, delimiters);
        if (here == length && memcmp(list, word, length) == 0) {
            return true;
        }
        list += here;
        list += strspn(list, delimiters);
    }
    return false;
}

static unsigned controllers_in(const char *list, const char *delimiters)
{
    unsigned found = 0;
    for (unsigned i = 0; i < SBX_CONTROLLER_COUNT; i++) {
        found |=
            has_word(list, delimiters, controller_names[i]) ? SBX_CONTROLLER_BIT(i) : 0;
    }
    return found;
}

unsigned sbx_controllers_parse(const char *text)
{
    return controllers_in(text, " \n");
}

/* Of a path that fits. */
static void copy_path(char to[static SBX_GROUP_PATH_SIZE], const char *from)
{
    memcpy(to, from, strlen(from) + 1);
}

/* ---- /proc/self/cgroup ---- */

struct membership {
    char own[SBX_GROUP_PATH_SIZE]; /* "" when it is not told */
    unsigned held_by_v1;
    bool v1; /* some v1 hierarchy has a controller */
};

/* "ID:CONTROLLERS:PATH", the version 2 one with ID 0 and no controllers. */
static void read_member_line(char *line, struct membership *membership)
{
    char *controllers = strchr(line, ':');
    char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (path == NULL) {
        return;
    }
    *controllers++ = '\0';
    *path++ = '\0';
    if (strcmp(line, "0") == 0 && controllers[0] == '\0') {
        if (strlen(path) < sizeof(membership->own)) {
            copy_path(membership->own, path);
        }
    } else if (controllers[0] != '\0' && strncmp(controllers, "name=", 5) != 0) {
        membership->v1 = true;
        membership->held_by_v1 |= controllers_in(controllers, ",");
    }
}

static int read_membership(int proc_fd, struct membership *membership)
{
    struct sbx_lines lines;
    char *line;
    int result = sbx_lines_open(proc_fd, "self/cgroup", &lines);
    if (result < 0) {
        return result;
    }
    while ((result = sbx_lines_next(&lines, &line)) > 0) {
        read_member_line(line, membership);
    }
    sbx_lines_close(&lines);
    return result;
}

/* ---- mountinfo ---- */

/* The fields of a line that are looked at. */
struct mount_line {
    char *id;
    char *parent;
    char *root;
    char *point;
    char *options;
    char *type;
    char *super_options;
};

static bool is_octal(char byte, char last)
{
    return byte >= '0' && byte <= last;
}

/* "\040" and the like, in place; the kernel never prints "\000". */
static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; to++) {
        if (from[0] == '\\' && is_octal(from[1], '3') && is_octal(from[2], '7') &&
            is_octal(from[3], '7') && strncmp(from + 1, "000", 3) != 0) {
            *to = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

/* ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [OPTIONAL]... - TYPE SOURCE SUPER-OPTIONS. A
 * field may be empty (the source). */
static bool split_mount(char *line, struct mount_line *mount)
{
    char *rest = line;
    mount->id = strsep(&rest, " ");
    mount->parent = strsep(&rest, " ");
    (void)strsep(&rest, " ");
    mount->root = strsep(&rest, " ");
    mount->point = strsep(&rest, " ");
    mount->options = strsep(&rest, " ");
    const char *optional = strsep(&rest, " ");
    while (optional != NULL && strcmp(optional, "-") != 0) {
        optional = strsep(&rest, " ");
    }
    mount->type = strsep(&rest, " ");
    (void)strsep(&rest, " ");
    mount->super_options = rest;
    if (rest == NULL) {
        return false;
    }
    unescape(mount->root);
    unescape(mount->point);
    return mount->root[0] == '/' && mount->point[0] == '/';
}

#define CANDIDATES_MAX 8
#define ID_SIZE 24

struct candidate {
    char id[ID_SIZE]; /* "": free */
    int rank;
    unsigned order;
    bool read_only;
    char mount[SBX_GROUP_PATH_SIZE];
    char own[SBX_GROUP_PATH_SIZE];
};

struct search {
    struct membership membership;
    struct candidate candidates[CANDIDATES_MAX];
    unsigned count; /* of all cgroup2 mounts so far */
};

static bool climbs(const char *path)
{
    for (const char *at = strstr(path, "/.."); at != NULL; at = strstr(at + 1, "/..")) {
        if (at[3] == '/' || at[3] == '\0') {
            return true;
        }
    }
    return false;
}

/* Our group `own` as seen in a mount whose root is the group `root`. */
static const char *seen_below(const char *root, const char *own)
{
    size_t length = strcmp(root, "/") == 0 ? 0 : strlen(root);
    if (own[0] != '/' || strncmp(own, root, length) != 0) {
        return "";
    }
    const char *seen = own + length;
    if (*seen == '\0') {
        return "/";
    }
    return *seen != '/' || climbs(seen) ? "" : seen;
}

/* What lies below a mount on its very root cannot be reached any more. */
static void drop_covered(struct search *search, const struct mount_line *mount)
{
    for (size_t i = 0; i < CANDIDATES_MAX; i++) {
        struct candidate *candidate = &search->candidates[i];
        if (candidate->id[0] != '\0' && strcmp(candidate->id, mount->parent) == 0 &&
            strcmp(candidate->mount, mount->point) == 0) {
            candidate->id[0] = '\0';
        }
    }
}

/* Of two: the better one, or that which shows more of the groups above ours, or the
 * earlier. Free ones are the worst. */
static bool is_better(const struct candidate *a, const struct candidate *b)
{
    if (a->id[0] == '\0' || b->id[0] == '\0') {
        return a->id[0] != '\0';
    }
    if (a->rank != b->rank) {
        return a->rank > b->rank;
    }
    size_t a_length = strlen(a->own);
    size_t b_length = strlen(b->own);
    return a_length != b_length ? a_length > b_length : a->order < b->order;
}

static void add_candidate(struct search *search, const struct mount_line *mount)
{
    struct candidate *worst = &search->candidates[0];
    struct candidate new = {.order = search->count++};
    const char *own = seen_below(mount->root, search->membership.own);
    if (mount->id[0] == '\0' || strlen(mount->id) >= sizeof(new.id) ||
        strlen(mount->point) >= sizeof(new.mount)) {
        return;
    }
    for (size_t i = 1; i < CANDIDATES_MAX; i++) {
        worst = is_better(worst, &search->candidates[i]) ? &search->candidates[i] : worst;
    }
    memcpy(new.id, mount->id, strlen(mount->id) + 1);
    copy_path(new.mount, mount->point);
    copy_path(new.own, own);
    new.read_only =
        has_word(mount->options, ",", "ro") || has_word(mount->super_options, ",", "ro");
    new.rank = (own[0] != '\0' ? 2 : 0) + (new.read_only ? 0 : 1);
    if (is_better(&new, worst)) {
        *worst = new;
    }
}

static int read_mounts(int proc_fd, struct search *search)
{
    struct sbx_lines lines;
    char *line;
    int result = sbx_lines_open(proc_fd, "self/mountinfo", &lines);
    if (result < 0) {
        return result;
    }
    while ((result = sbx_lines_next(&lines, &line)) > 0) {
        struct mount_line mount;
        if (!split_mount(line, &mount)) {
            continue;
        }
        drop_covered(search, &mount);
        if (strcmp(mount.type, "cgroup2") == 0) {
            add_candidate(search, &mount);
        }
    }
    sbx_lines_close(&lines);
    return result;
}

static void conclude(const struct search *search, struct sbx_hierarchy *ret_hierarchy)
{
    const struct candidate *best = &search->candidates[0];
    for (size_t i = 1; i < CANDIDATES_MAX; i++) {
        if (is_better(&search->candidates[i], best)) {
            best = &search->candidates[i];
        }
    }
    memset(ret_hierarchy, 0, sizeof(*ret_hierarchy));
    ret_hierarchy->held_by_v1 = search->membership.held_by_v1;
    if (best->id[0] == '\0') {
        return;
    }
    ret_hierarchy->kind =
        search->membership.v1 ? SBX_HIERARCHY_HYBRID : SBX_HIERARCHY_PURE;
    ret_hierarchy->read_only = best->read_only;
    copy_path(ret_hierarchy->mount, best->mount);
    copy_path(ret_hierarchy->own, best->own);
}

int sbx_hierarchy_find(int proc_fd, struct sbx_hierarchy *ret_hierarchy,
                       struct sbx_error *err)
{
    SBX_AUTO_FREE struct search *search = calloc(1, sizeof(*search));
    if (search == NULL) {
        return sbx_error_set(err, ENOMEM, SBX_STAGE_ARM, "no memory to look for groups");
    }
    int result = read_membership(proc_fd, &search->membership);
    if (result < 0 && result != -ENOENT) { /* without: a kernel that has no cgroups */
        return sbx_error_set(err, -result, SBX_STAGE_ARM, "/proc/self/cgroup: %s",
                             sbx_errno_text(-result).text);
    }
    result = read_mounts(proc_fd, search);
    if (result < 0) {
        return sbx_error_set(err, -result, SBX_STAGE_ARM, "/proc/self/mountinfo: %s",
                             sbx_errno_text(-result).text);
    }
    conclude(search, ret_hierarchy);
    return 0;
}

/* ---- opening ---- */

/* Opens a directory. -EINVAL when it is not on a cgroup2; *ret_magic is then what it is
 * on, and 0 when it could not be opened. */
static int open_verified(int at, const char *path, unsigned long *ret_magic, int *ret_fd)
{
    struct statfs status;
    *ret_magic = 0;
    SBX_AUTO_CLOSE int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    if (fd <= STDERR_FILENO) {
        int higher = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        if (higher < 0) {
            return -errno;
        }
        sbx_fd_drop(&fd);
        fd = higher;
    }
    if (fstatfs(fd, &status) < 0) {
        return -errno;
    }
    *ret_magic = (unsigned long)status.f_type;
    if (*ret_magic != CGROUP2_SUPER_MAGIC) {
        return -EINVAL;
    }
    *ret_fd = sbx_fd_steal(&fd);
    return 0;
}

int sbx_hierarchy_open_group(const struct sbx_hierarchy *hierarchy, const char *group,
                             int *ret_fd)
{
    unsigned long magic;
    /* In two steps: each of both paths may be as long as a path can be. */
    SBX_AUTO_CLOSE int mount = open(hierarchy->mount, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (mount < 0) {
        return -errno;
    }
    group += strspn(group, "/");
    return open_verified(mount, group[0] != '\0' ? group : ".", &magic, ret_fd);
}

/* The group behind a descriptor as seen below the mount; false when it is elsewhere. */
static bool path_below(const struct sbx_hierarchy *hierarchy, int fd,
                       char path[static SBX_GROUP_PATH_SIZE])
{
    char link[64];
    char target[SBX_GROUP_PATH_SIZE];
    size_t length = strlen(hierarchy->mount);
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t found = readlink(link, target, sizeof(target));
    if (length == 0 || found < (ssize_t)length || (size_t)found == sizeof(target)) {
        return false;
    }
    target[found] = '\0';
    if (strcmp(hierarchy->mount, "/") == 0) {
        length = 0;
    }
    if (memcmp(target, hierarchy->mount, length) != 0 ||
        (target[length] != '/' && target[length] != '\0')) {
        return false;
    }
    copy_path(path, target[length] != '\0' ? target + length : "/");
    return true;
}

/* Why a named directory is no group. */
static int refuse(const struct sbx_hierarchy *hierarchy, const char *path, int code,
                  unsigned long magic, struct sbx_error *err)
{
    if (magic == CGROUP_SUPER_MAGIC) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_ARM,
                             "%s is a directory of cgroup v1, not of cgroup2", path);
    }
    if (magic == 0) {
        return sbx_error_set(err, code, SBX_STAGE_ARM, "%s: %s", path,
                             sbx_errno_text(code).text);
    }
    if (hierarchy->kind == SBX_HIERARCHY_NONE || path[0] != '/') {
        return sbx_error_set(
            err, EINVAL, SBX_STAGE_ARM, "%s is no directory of a cgroup2 file system%s",
            path, hierarchy->kind == SBX_HIERARCHY_NONE ? ": none is mounted" : "");
    }
    return sbx_error_set(err, EINVAL, SBX_STAGE_ARM,
                         "%s is no directory of a cgroup2 file system, and no group "
                         "below %s",
                         path, hierarchy->mount);
}

int sbx_hierarchy_open(const struct sbx_hierarchy *hierarchy, int directory_fd,
                       const char *path, struct sbx_named_group *ret_group,
                       struct sbx_error *err)
{
    SBX_AUTO_CLOSE int fd = -1;
    unsigned long magic;
    if (strlen(path) >= SBX_GROUP_PATH_SIZE) {
        return sbx_error_set(err, ENAMETOOLONG, SBX_STAGE_ARM, "%.64s...: %s", path,
                             sbx_errno_text(ENAMETOOLONG).text);
    }
    int result = open_verified(directory_fd, path, &magic, &fd);
    if (result < 0 && path[0] == '/' && hierarchy->kind != SBX_HIERARCHY_NONE &&
        sbx_hierarchy_open_group(hierarchy, path, &fd) == 0) {
        result = 0;
    }
    if (result < 0) {
        return refuse(hierarchy, path, -result, magic, err);
    }
    if (!path_below(hierarchy, fd, ret_group->path)) {
        copy_path(ret_group->path, path);
    }
    ret_group->fd = sbx_fd_steal(&fd);
    return 0;
}
