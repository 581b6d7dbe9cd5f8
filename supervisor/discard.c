/*
 * discard.c - removing places, whatever a command has put into them.
 *
 * Nothing here recurses: a directory in a directory is moved up, under a random name, and
 * is then one among the others. Every step is below a descriptor and by one name, and
 * links are unlinked, not followed; so nothing is reached that was not put there.
 */
#include "supervisor/place_private.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct discard {
    int top;
    size_t budget; /* steps that are left */
    size_t done;   /* steps that have changed something */
    bool left;     /* something is there that could not be removed, or was moved up */
};

/* Whether there is one more step. */
static bool may_go_on(struct discard *discard)
{
    if (discard->budget == 0) {
        discard->left = true;
        return false;
    }
    discard->budget--;
    return true;
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

int sbx_open_own_directory(int parent, const char *name)
{
    SBX_AUTO_CLOSE int handle =
        openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (handle < 0) {
        return -errno;
    }
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", handle);
    (void)chmod(path, S_IRWXU);
    int fd = openat(handle, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static bool remove_one(int parent, const char *name)
{
    return unlinkat(parent, name, 0) == 0 || unlinkat(parent, name, AT_REMOVEDIR) == 0;
}

int sbx_discard_move(int parent, const char *name, int top)
{
    char random[SBX_ID_SIZE];
    int r = sbx_id_make(random);
    if (r < 0) {
        return r;
    }
    if (renameat(parent, name, top, random) == 0) {
        return 0;
    }
    if (errno != EACCES) {
        return -errno;
    }
    /* A directory changes when it gets another parent: its owner must be let in. */
    int fd = sbx_open_own_directory(parent, name);
    sbx_closep(&fd);
    return renameat(parent, name, top, random) == 0 ? 0 : -errno;
}

static void empty(struct discard *discard, const char *name)
{
    SBX_AUTO_CLOSE int fd = sbx_open_own_directory(discard->top, name);
    SBX_AUTO_CLOSEDIR DIR *list = fd < 0 ? NULL : sbx_fd_list(fd);
    struct dirent *entry;
    while (list != NULL && (entry = readdir(list)) != NULL) {
        if (is_dots(entry->d_name)) {
            continue;
        }
        if (!may_go_on(discard)) {
            return;
        }
        bool removed = remove_one(fd, entry->d_name);
        bool moved = !removed && sbx_discard_move(fd, entry->d_name, discard->top) == 0;
        discard->done += removed || moved ? 1 : 0;
        discard->left = discard->left || !removed;
    }
}

/* One time over all that is there. */
static void pass(struct discard *discard)
{
    SBX_AUTO_CLOSEDIR DIR *list = sbx_fd_list(discard->top);
    struct dirent *entry;
    discard->left = list == NULL;
    while (list != NULL && (entry = readdir(list)) != NULL) {
        if (is_dots(entry->d_name)) {
            continue;
        }
        if (!may_go_on(discard)) {
            return;
        }
        if (!remove_one(discard->top, entry->d_name)) {
            empty(discard, entry->d_name);
            if (!remove_one(discard->top, entry->d_name)) {
                discard->left = true;
                continue;
            }
        }
        discard->done++;
    }
}

bool sbx_discard_all(int directory, size_t budget)
{
    struct discard discard = {.top = directory, .budget = budget};
    do {
        discard.done = 0;
        pass(&discard);
    } while (discard.left && discard.done > 0 && discard.budget > 0);
    return !discard.left;
}
