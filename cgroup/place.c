/*
 * place.c - see place.h.
 *
 * The rules are the kernel's (Documentation/admin-guide/cgroup-v2.rst): a group other
 * than the hierarchy's root has either processes or children with controllers; a process
 * may be moved by who can write cgroup.procs of the target and of the nearest group above
 * both; nobody can be put below a threaded group who is not part of it. The root is told
 * by its having no cgroup.type. Only looks, so all of it may have changed when it is
 * used: making and arming the leaf tell then.
 */
#include "cgroup/place.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "cgroup/leaf.h"
#include "cgroup/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SELF_NAME "sbx-self"
#define FILE_PATH_SIZE ((size_t)2 * SBX_GROUP_PATH_SIZE)

/* What is needed all the way up. */
struct look {
    int proc_fd;
    const struct sbx_place_request *request;
    struct sbx_hierarchy hierarchy;
};

/* A group that is looked at. */
struct group {
    int fd;
    char path[FILE_PATH_SIZE]; /* in the file system, for messages */
    bool is_root;              /* of the hierarchy */
};

/* ---- words ---- */

/* before + path + after; of a path that is too long the end is told, which is what tells
 * groups apart. */
static void tell(char why[static SBX_WHY_SIZE], const char *before, const char *path,
                 const char *after)
{
    char text[FILE_PATH_SIZE];
    size_t others = strlen(before) + strlen(after);
    size_t room = others < SBX_WHY_SIZE - 1 ? SBX_WHY_SIZE - 1 - others : 0;
    size_t length = sbx_text_escape(text, sizeof(text), path, strlen(path));
    const char *end = text;
    const char *dots = "";
    if (length > room) {
        dots = "...";
        end = text + length - (room > 3 ? room - 3 : 0);
        while (((unsigned char)*end & 0xc0) == 0x80) { /* not within a character */
            end++;
        }
    }
    (void)snprintf(why, SBX_WHY_SIZE, "%s%s%.*s%s", before, dots, (int)room, end, after);
}

/* "PATH/FILE cannot be DONE: reason" */
static void tell_failure(char why[static SBX_WHY_SIZE], const struct group *group,
                         const char *file, const char *done, int code)
{
    char after[SBX_WHY_SIZE];
    (void)snprintf(after, sizeof(after), "%s cannot be %s: %s", file, done,
                   sbx_errno_text(code).text);
    tell(why, "", group->path, after);
}

/* ---- names and paths ---- */

static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* Makes a path that of the group above; false when there is none. */
static bool go_up(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash == NULL || strcmp(path, "/") == 0) {
        return false;
    }
    slash[slash == path ? 1 : 0] = '\0';
    return true;
}

/* Where a group below the mount is in the file system. */
static void file_path(const struct look *look, const char *path,
                      char ret_path[static FILE_PATH_SIZE])
{
    const char *mount = look->hierarchy.mount;
    (void)snprintf(ret_path, FILE_PATH_SIZE, "%s%s", strcmp(mount, "/") == 0 ? "" : mount,
                   strcmp(path, "/") == 0 && mount[1] != '\0' ? "" : path);
}

/* ---- one group ---- */

/* 0 or a negative errno. */
static int may_write(int fd, const char *name)
{
    return faccessat(fd, name, W_OK, AT_EACCESS) == 0 ? 0 : -errno;
}

/* The controllers that a file lists; -errno. */
static int read_controllers(int fd, const char *file)
{
    char text[1024];
    ssize_t length = sbx_fd_read_text_at(fd, file, text, sizeof(text));
    return length < 0 ? (int)length : (int)sbx_controllers_parse(text);
}

/* Whether somebody has bounded the group. A limit that cannot be read may be one. */
static bool carries_limit(int fd)
{
    static const struct {
        const char *file;
        const char *free; /* how it begins when it bounds nothing */
    } limits[] = {{"memory.max", "max"},      {"memory.high", "max"},
                  {"memory.swap.max", "max"}, {"pids.max", "max"},
                  {"cpu.max", "max"},         {"io.max", ""},
                  {"cpuset.cpus", ""},        {"cpuset.mems", ""}};
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        char text[64];
        ssize_t length = sbx_fd_read_text_at(fd, limits[i].file, text, sizeof(text));
        if (length < 0 && length != -ENOENT) {
            return true;
        }
        if (length >= 0) {
            text[strcspn(text, " \n")] = '\0';
            if (strcmp(text, limits[i].free) != 0) {
                return true;
            }
        }
    }
    return false;
}

/* Whether a leaf can be made here and a process put into it. 0, or a negative errno and
 * why: -EOPNOTSUPP for a threaded group. */
static int check_group(struct group *group, char why[static SBX_WHY_SIZE])
{
    char type[64];
    int result = may_write(group->fd, ".");
    if (result < 0) {
        tell_failure(why, group, "", "written", -result);
        return result;
    }
    result = may_write(group->fd, "cgroup.procs");
    if (result < 0) {
        tell_failure(why, group, "/cgroup.procs", "written", -result);
        return result;
    }
    ssize_t length = sbx_fd_read_text_at(group->fd, "cgroup.type", type, sizeof(type));
    group->is_root = length == -ENOENT;
    if (length < 0 && !group->is_root) {
        tell_failure(why, group, "/cgroup.type", "read", (int)-length);
        return (int)length;
    }
    if (length >= 0 && strcmp(type, "domain\n") != 0) {
        char after[SBX_WHY_SIZE];
        type[strcspn(type, "\n")] = '\0';
        (void)snprintf(after, sizeof(after),
                       "/cgroup.type says \"%s\": below a threaded group none can have "
                       "processes and a memory limit of its own",
                       type);
        tell(why, "", group->path, after);
        return -EOPNOTSUPP;
    }
    return 0;
}

/* ---- who is in it ---- */

enum occupants { OCCUPANTS_NONE, OCCUPANTS_OURS, OCCUPANTS_OTHERS };

static bool is_ours(const struct sbx_place_request *request, long pid)
{
    for (size_t i = 0; i < request->ours_count; i++) {
        if (request->ours[i] == pid && pid > 0) {
            return true;
        }
    }
    return false;
}

/* Names a process that is in the way. */
static void tell_stranger(const struct look *look, const struct group *group, long pid,
                          char why[static SBX_WHY_SIZE])
{
    char file[32];
    char name[64];
    char shown[80] = "";
    char before[160];
    (void)snprintf(file, sizeof(file), "%ld/comm", pid);
    if (pid <= 0) { /* as the kernel lists those whose pids mean nothing here */
        (void)snprintf(before, sizeof(before),
                       "a process of another PID namespace is in ");
    } else {
        ssize_t length = sbx_fd_read_text_at(look->proc_fd, file, name, sizeof(name));
        if (length > 0) {
            length -= name[length - 1] == '\n' ? 1 : 0;
            (void)sbx_text_escape(shown, sizeof(shown), name, (size_t)length);
        }
        (void)snprintf(before, sizeof(before), "process %ld%s%s%s is in ", pid,
                       shown[0] != '\0' ? " (" : "", shown, shown[0] != '\0' ? ")" : "");
    }
    tell(why, before, group->path,
         ", and a group with processes has no controllers for its children");
}

/* OTHERS also when nobody can tell; then, and only then, with why. */
static enum occupants find_occupants(const struct look *look, const struct group *group,
                                     char why[static SBX_WHY_SIZE])
{
    struct sbx_lines lines;
    char *line;
    enum occupants found = OCCUPANTS_NONE;
    int result = sbx_lines_open(group->fd, "cgroup.procs", &lines);
    if (result < 0) {
        tell_failure(why, group, "/cgroup.procs", "read", -result);
        return OCCUPANTS_OTHERS;
    }
    while ((result = sbx_lines_next(&lines, &line)) > 0) {
        long pid = strtol(line, NULL, 10);
        found = OCCUPANTS_OURS;
        if (!is_ours(look->request, pid)) {
            tell_stranger(look, group, pid, why);
            found = OCCUPANTS_OTHERS;
            break;
        }
    }
    if (result < 0) {
        tell_failure(why, group, "/cgroup.procs", "read", -result);
        found = OCCUPANTS_OTHERS;
    }
    sbx_lines_close(&lines);
    return found;
}

/* ---- controllers ---- */

/* Why no controller that is offered can be switched on; "" when it can. */
static void find_obstacle(const struct look *look, const struct group *group,
                          bool *ret_ours, char why[static SBX_WHY_SIZE])
{
    why[0] = '\0';
    int result = may_write(group->fd, "cgroup.subtree_control");
    if (result < 0) {
        tell_failure(why, group, "/cgroup.subtree_control", "written", -result);
    } else if (!group->is_root) {
        *ret_ours = find_occupants(look, group, why) == OCCUPANTS_OURS;
    }
}

static void tell_missing(const struct look *look, const struct group *group,
                         unsigned controller, char why[static SBX_WHY_SIZE])
{
    bool held = (look->hierarchy.held_by_v1 & SBX_CONTROLLER_BIT(controller)) != 0;
    tell(why, "not in ", group->path,
         held ? "/cgroup.controllers (a cgroup v1 hierarchy has it)"
              : "/cgroup.controllers");
}

/* on, offered, must_leave and why of a place. */
static void survey(const struct look *look, const struct group *group,
                   struct sbx_place *place)
{
    bool ours = false;
    char obstacle[SBX_WHY_SIZE] = "";
    int there = read_controllers(group->fd, "cgroup.controllers");
    int on = read_controllers(group->fd, "cgroup.subtree_control");
    place->on = on > 0 ? (unsigned)on : 0;
    unsigned available = there > 0 ? (unsigned)there : 0;
    if ((available & ~place->on) != 0) {
        find_obstacle(look, group, &ours, obstacle);
    }
    for (unsigned i = 0; i < SBX_CONTROLLER_COUNT; i++) {
        unsigned bit = SBX_CONTROLLER_BIT(i);
        if ((place->on & bit) != 0) {
            continue;
        }
        if (there < 0) {
            tell_failure(place->why[i], group, "/cgroup.controllers", "read", -there);
        } else if ((available & bit) == 0) {
            tell_missing(look, group, i, place->why[i]);
        } else if (obstacle[0] != '\0') {
            memcpy(place->why[i], obstacle, sizeof(obstacle));
        } else {
            place->offered |= bit;
        }
    }
    place->must_leave = ours;
}

/* ---- the climb ---- */

/* How many of the wanted controllers can be had. */
static int worth(const struct sbx_place *place, unsigned wanted)
{
    return __builtin_popcount((place->on | place->offered) & wanted);
}

/* Takes the group for the place if it is better than what there is (fd -1: nothing). */
static void consider(const struct look *look, struct group *group, const char *path,
                     struct sbx_place *best)
{
    struct sbx_place place = {.fd = -1};
    unsigned wanted = look->request->wanted;
    survey(look, group, &place);
    if (best->fd >= 0 && worth(&place, wanted) <= worth(best, wanted)) {
        return;
    }
    sbx_place_done(best);
    place.is_own = strcmp(path, look->hierarchy.own) == 0;
    memcpy(place.path, path, strlen(path) + 1);
    place.fd = sbx_fd_steal(&group->fd);
    *best = place;
}

/* One group on the way up. Whether to go on above it. */
static bool visit(const struct look *look, const char *path, struct sbx_place *best,
                  char why[static SBX_WHY_SIZE])
{
    struct group group = {.fd = -1};
    char refusal[SBX_WHY_SIZE];
    file_path(look, path, group.path);
    int result = sbx_hierarchy_open_group(&look->hierarchy, path, &group.fd);
    if (result == -EINVAL) {
        tell(refusal, "", group.path,
             " is not on the cgroup2 that mountinfo shows there");
    } else if (result < 0) {
        tell_failure(refusal, &group, "", "opened", -result);
    } else {
        result = check_group(&group, refusal);
    }
    if (result < 0 && why[0] == '\0') {
        memcpy(why, refusal, sizeof(refusal));
    }
    bool go_on = result == 0 || result == -EOPNOTSUPP;
    if (go_on) {
        go_on = !carries_limit(group.fd) && !sbx_leaf_is_name(last_name(path));
    }
    /* Whom we have made room for may be there; a leaf may not, or it is never empty. */
    if (result == 0 && strcmp(last_name(path), SELF_NAME) != 0) {
        consider(look, &group, path, best);
    }
    sbx_fd_drop(&group.fd);
    return go_on;
}

static bool is_complete(const struct look *look, const struct sbx_place *place)
{
    unsigned wanted = look->request->wanted;
    return place->fd >= 0 && ((place->on | place->offered) & wanted) == wanted;
}

static int climb(const struct look *look, struct sbx_place *ret_place,
                 char ret_why[static SBX_WHY_SIZE])
{
    char path[SBX_GROUP_PATH_SIZE];
    char why[SBX_WHY_SIZE] = "";
    struct sbx_place best = {.fd = -1};
    memcpy(path, look->hierarchy.own, strlen(look->hierarchy.own) + 1);
    while (visit(look, path, &best, why) && !is_complete(look, &best)) {
        if (!go_up(path)) {
            break;
        }
    }
    if (best.fd < 0 && why[0] == '\0') {
        tell(why, "", path, " is for processes that made room");
    }
    if (best.fd < 0) {
        memcpy(ret_why, why, sizeof(why));
        return 0;
    }
    *ret_place = best;
    return 1;
}

/* ---- the one that was named ---- */

#define REMEDY                                                                           \
    "; it must be delegated to this user (systemd-run --user --scope -p Delegate=yes)"

static bool is_same_file(int a, int b)
{
    struct stat first;
    struct stat second;
    return fstat(a, &first) == 0 && fstat(b, &second) == 0 &&
           first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

/* How much of both paths is the same group. */
static void common_ancestor(const char *a, const char *b,
                            char ret_path[static SBX_GROUP_PATH_SIZE])
{
    size_t same = 0;
    size_t i = 0;
    for (; a[i] != '\0' && a[i] == b[i]; i++) {
        same = a[i] == '/' ? i : same;
    }
    if ((a[i] == '\0' || a[i] == '/') && (b[i] == '\0' || b[i] == '/')) {
        same = i;
    }
    same = same > 0 ? same : 1;
    memcpy(ret_path, a, same);
    ret_path[same] = '\0';
}

/* Whether we may move from our own group to one below `path`. */
static int check_way(const struct look *look, const char *path,
                     char why[static SBX_WHY_SIZE])
{
    char common[SBX_GROUP_PATH_SIZE];
    struct group group = {.fd = -1};
    if (look->hierarchy.own[0] == '\0') {
        return 0;
    }
    common_ancestor(look->hierarchy.own, path, common);
    file_path(look, common, group.path);
    int result = sbx_hierarchy_open_group(&look->hierarchy, common, &group.fd);
    if (result < 0) {
        return 0; /* cannot be told here: the launch will tell */
    }
    result = may_write(group.fd, "cgroup.procs");
    if (result < 0) {
        char after[SBX_WHY_SIZE];
        (void)snprintf(after, sizeof(after),
                       "/cgroup.procs, above it and our own group, cannot be written: %s",
                       sbx_errno_text(-result).text);
        tell(why, "", group.path, after);
    }
    sbx_fd_drop(&group.fd);
    return result;
}

/* Of the named group, whose path is known: 0, or a negative errno and why it is no place.
 */
static int examine(const struct look *look, int fd, struct sbx_place *place,
                   char why[static SBX_WHY_SIZE])
{
    struct group group = {.fd = fd};
    int there = -1;
    bool below = sbx_hierarchy_open_group(&look->hierarchy, place->path, &there) == 0 &&
                 is_same_file(there, fd);
    sbx_fd_drop(&there);
    if (below) {
        file_path(look, place->path, group.path);
    } else {
        (void)snprintf(group.path, sizeof(group.path), "%s", place->path);
    }
    int result = check_group(&group, why);
    if (result == 0 && below) {
        result = check_way(look, place->path, why);
    }
    if (result < 0) {
        return result;
    }
    survey(look, &group, place);
    place->is_own = below && strcmp(place->path, look->hierarchy.own) == 0;
    return 0;
}

static int take_root(const struct look *look, struct sbx_place *ret_place,
                     struct sbx_error *err)
{
    struct sbx_place place = {.fd = -1};
    struct sbx_named_group named;
    char why[SBX_WHY_SIZE] = "";
    const char *root = look->request->root;
    int result = sbx_hierarchy_open(&look->hierarchy, look->request->root_directory_fd,
                                    root, &named, err);
    if (result < 0) {
        sbx_error_prefix(err, "--cgroup-root");
        return result;
    }
    SBX_AUTO_CLOSE int fd = named.fd;
    memcpy(place.path, named.path, sizeof(place.path));
    result = examine(look, fd, &place, why);
    if (result < 0) {
        return sbx_error_set(err, -result, SBX_STAGE_ARM,
                             "--cgroup-root %.120s: no group can be made there: %s%s",
                             root, why, result == -EOPNOTSUPP ? "" : REMEDY);
    }
    place.fd = sbx_fd_steal(&fd);
    *ret_place = place;
    return 1;
}

/* ---- */

int sbx_place_find(int proc_fd, const struct sbx_place_request *request,
                   struct sbx_place *ret_place, char ret_why[static SBX_WHY_SIZE],
                   struct sbx_error *err)
{
    struct look look = {.proc_fd = proc_fd, .request = request};
    int result = sbx_hierarchy_find(proc_fd, &look.hierarchy, err);
    if (result < 0) {
        return result;
    }
    if (request->root != NULL) {
        return take_root(&look, ret_place, err);
    }
    if (look.hierarchy.kind == SBX_HIERARCHY_NONE) {
        (void)snprintf(ret_why, SBX_WHY_SIZE, "no cgroup2 file system is mounted");
        return 0;
    }
    if (look.hierarchy.own[0] == '\0') {
        tell(ret_why, "our own group is not visible below ", look.hierarchy.mount,
             ": that shows another part of the hierarchy");
        return 0;
    }
    if (look.hierarchy.read_only) {
        tell(ret_why, "", look.hierarchy.mount, " is mounted read-only");
        return 0;
    }
    return climb(&look, ret_place, ret_why);
}

void sbx_place_done(struct sbx_place *place)
{
    sbx_fd_drop(&place->fd);
}
