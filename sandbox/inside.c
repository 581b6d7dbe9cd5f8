/*
 * inside.c - see inside.h.
 *
 * The last mount whose destination is at or above a place is what lies there: later ones
 * cover earlier ones. In the root, and in fresh places, a directory exists where a
 * destination lies below it.
 */
#include "sandbox/inside.h"

#include "sandbox/paths.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MAX 40

struct walk {
    const struct sbx_plan *plan;
    struct sbx_inside at;
    char rest[PATH_MAX]; /* not yet followed; no slash in front */
    int links;
};

static const struct sbx_mount *find_mount(const struct sbx_plan *plan, const char *path)
{
    for (size_t i = plan->mount_count; i > 0; i--) {
        const struct sbx_mount *mount = &plan->mounts[i - 1];
        if (sbx_path_is_within(path, mount->destination)) {
            return mount;
        }
    }
    return NULL;
}

/* Whether a destination at or below makes it a directory of the sandbox's own. */
static bool is_implied(const struct sbx_plan *plan, const char *path)
{
    for (size_t i = 0; i < plan->mount_count; i++) {
        if (sbx_path_is_within(plan->mounts[i].destination, path)) {
            return true;
        }
    }
    return strcmp(path, "/") == 0;
}

static int look_at_host(struct sbx_inside *at)
{
    struct stat status;
    const char *rest = sbx_path_rest(at->path, at->mount->destination);
    size_t length = strlen(at->mount->source);
    if (length + strlen(rest) >= sizeof at->host) {
        return -ENAMETOOLONG;
    }
    memcpy(at->host, at->mount->source, length + 1);
    if (strcmp(at->host, "/") == 0 && *rest != '\0') {
        at->host[0] = '\0';
    }
    strncat(at->host, rest, sizeof at->host - 1 - strlen(at->host));
    at->exists = lstat(at->host, &status) == 0;
    if (!at->exists && errno != ENOENT && errno != ENOTDIR) {
        return -errno;
    }
    at->mode = at->exists ? status.st_mode : 0;
    return 0;
}

/* What is at at->path. */
static int look(const struct sbx_plan *plan, struct sbx_inside *at)
{
    at->mount = find_mount(plan, at->path);
    at->host[0] = '\0';
    at->exists = false;
    at->mode = 0;
    bool exact = at->mount != NULL && strcmp(at->mount->destination, at->path) == 0;
    if (at->mount != NULL &&
        (at->mount->kind == SBX_MOUNT_BIND || at->mount->kind == SBX_MOUNT_RO_BIND)) {
        return look_at_host(at);
    }
    if (exact && at->mount->kind == SBX_MOUNT_SYMLINK) {
        at->exists = true;
        at->mode = S_IFLNK;
    } else if (exact && at->mount->kind == SBX_MOUNT_MASK_FILE) {
        at->exists = true;
        at->mode = S_IFREG;
    } else if (is_implied(plan, at->path)) {
        at->exists = true;
        at->mode = S_IFDIR;
    }
    return 0;
}

static ssize_t read_link(const struct sbx_inside *at, char target[static PATH_MAX])
{
    if (at->mount->kind == SBX_MOUNT_SYMLINK) {
        size_t length = strlen(at->mount->source);
        memcpy(target, at->mount->source, length + 1);
        return (ssize_t)length;
    }
    ssize_t length = readlink(at->host, target, PATH_MAX - 1);
    if (length >= 0) {
        target[length] = '\0';
    }
    return length < 0 ? -errno : length;
}

static void go_up(char *path)
{
    char *slash = strrchr(path, '/');
    slash[slash == path ? 1 : 0] = '\0';
}

/* The link's text takes the place of its name. */
static int follow(struct walk *walk)
{
    char target[PATH_MAX];
    ssize_t length = read_link(&walk->at, target);
    if (length < 0) {
        return (int)length;
    }
    if (++walk->links > LINKS_MAX) {
        return -ELOOP;
    }
    size_t rest = strlen(walk->rest);
    if ((size_t)length + 1 + rest >= sizeof walk->rest) {
        return -ENAMETOOLONG;
    }
    memmove(walk->rest + length + 1, walk->rest, rest + 1);
    memcpy(walk->rest, target, (size_t)length);
    walk->rest[length] = '/';
    go_up(walk->at.path);
    if (target[0] == '/') {
        memcpy(walk->at.path, "/", 2);
    }
    return 0;
}

/* Takes the next component off the rest; its length, 0 at the end. */
static size_t take(struct walk *walk, char name[static PATH_MAX])
{
    size_t skip = strspn(walk->rest, "/");
    size_t length = strcspn(walk->rest + skip, "/");
    memcpy(name, walk->rest + skip, length);
    name[length] = '\0';
    memmove(walk->rest, walk->rest + skip + length,
            strlen(walk->rest + skip + length) + 1);
    return length;
}

static int step(struct walk *walk, const char *name)
{
    if (strcmp(name, ".") == 0) {
        return 0;
    }
    if (strcmp(name, "..") == 0) {
        go_up(walk->at.path);
        return look(walk->plan, &walk->at);
    }
    size_t used = strlen(walk->at.path);
    if (used + 1 + strlen(name) >= sizeof walk->at.path) {
        return -ENAMETOOLONG;
    }
    if (used > 1) {
        walk->at.path[used++] = '/';
    }
    memcpy(walk->at.path + used, name, strlen(name) + 1);
    int r = look(walk->plan, &walk->at);
    if (r == 0 && walk->at.exists && S_ISLNK(walk->at.mode)) {
        r = follow(walk);
        r = r == 0 ? look(walk->plan, &walk->at) : r;
    }
    return r;
}

int sbx_inside(const struct sbx_plan *plan, const char *path, struct sbx_inside *ret)
{
    char name[PATH_MAX];
    struct walk walk = {.plan = plan, .at.path = "/"};
    if (strlen(path) >= sizeof walk.rest) {
        return -ENAMETOOLONG;
    }
    memcpy(walk.rest, path, strlen(path) + 1);
    int r = look(plan, &walk.at);
    while (r == 0 && take(&walk, name) > 0) {
        r = step(&walk, name);
    }
    if (r == 0) {
        *ret = walk.at;
    }
    return r;
}
