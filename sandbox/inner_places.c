/*
 * inner_places.c - whether the sandbox is what was planned, see inner.h and orders.h.
 *
 * bubblewrap looks names up, when it takes its sources, when it mounts them and when it
 * makes what is to be mounted on. Who may write in a directory above can put a link there
 * in between. What comes of it is looked at here, from inside and before anything runs:
 * the places are looked up without following links, and compared with the files that
 * sbx-run has opened.
 */
#include "sandbox/inner.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SHOWN_SIZE 200

/* One of them, taken apart. */
struct place {
    int fd; /* of what has to be there; -1: any mount point */
    bool may_be_closed;
    const char *path;
};

static int complain(struct sbx_error *err, int code, const char *path, const char *what)
{
    char shown[SHOWN_SIZE];
    (void)sbx_text_escape(shown, sizeof shown, path, strlen(path));
    return sbx_error_set(err, code, SBX_STAGE_LAUNCH, "'%s' inside: %s%s", shown, what,
                         sbx_errno_text(code).text);
}

/* "FD:/PATH", "FD?/PATH", "-:/PATH", "-?/PATH". */
static bool take_apart(const char *text, struct place *ret)
{
    size_t length = strcspn(text, ":?");
    char number[16];
    uint64_t fd = 0;
    if (length == 0 || length >= sizeof number || text[length] == '\0' ||
        text[length + 1] != '/') {
        return false;
    }
    memcpy(number, text, length);
    number[length] = '\0';
    *ret = (struct place){
        .fd = -1, .may_be_closed = text[length] == '?', .path = text + length + 1};
    if (length == 1 && number[0] == '-') {
        return true;
    }
    if (sbx_text_count(number, &fd) < 0 || fd <= STDERR_FILENO || fd > INT32_MAX) {
        return false;
    }
    ret->fd = (int)fd;
    return true;
}

static int compare(const struct place *place, int fd, struct sbx_error *err)
{
    static const char swapped[] = "something took its place while the sandbox was made: ";
    struct stat there;
    struct stat meant;
    struct statx more;
    memset(&more, 0, sizeof more);
    if (place->fd >= 0) {
        if (fstat(fd, &there) < 0 || fstat(place->fd, &meant) < 0) {
            return complain(err, errno, place->path, "");
        }
        bool same = there.st_dev == meant.st_dev && there.st_ino == meant.st_ino;
        return same ? 0 : complain(err, ESTALE, place->path, swapped);
    }
    if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_TYPE, &more) < 0) {
        return complain(err, errno, place->path, "");
    }
    /* Kernels before 5.8 do not say. */
    bool unknown = (more.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) == 0;
    bool mounted = (more.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
    return unknown || mounted ? 0 : complain(err, ESTALE, place->path, swapped);
}

static int check(const struct place *place, struct sbx_error *err)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
    SBX_AUTO_CLOSE int fd =
        (int)syscall(SYS_openat2, AT_FDCWD, place->path, &how, sizeof how);
    if (fd < 0 && errno == EACCES && place->may_be_closed) {
        return 0; /* to the command as well */
    }
    if (fd < 0) {
        return complain(err, errno, place->path, "");
    }
    return compare(place, fd, err);
}

int sbx_inner_check_places(const struct sbx_inner_orders *orders, struct sbx_error *err)
{
    struct place place;
    int error = 0;
    for (uint32_t i = 0; error == 0 && i < orders->head.place_count; i++) {
        error = take_apart(orders->places[i], &place)
                    ? check(&place, err)
                    : complain(err, EINVAL, orders->places[i], "orders: ");
    }
    return error;
}
