/*
 * service_socket.c - the socket that the service listens on: passed by systemd, or made
 * here.
 *
 * Whoever makes one holds a lock on a file beside it as long as it lives. So a socket
 * that is there and answers nobody is a dead one's, and is removed; one that answers, or
 * anything else at that path, is not touched. With --allow-uid its mode lets everybody
 * connect, since that is no right yet: each peer is asked who it is.
 */
#include "supervisor/service_private.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define PASSED_FD 3
#define LOCK_TRIES 30 /* of 10 ms */
#define BACKLOG 4096  /* the kernel cuts that to what it allows */

static int fail(struct sbx_error *err, int code, const char *path, const char *what)
{
    return sbx_error_set(err, code, SBX_STAGE_CHECK, "%s: %s: %s", path, what,
                         sbx_errno_text(code).text);
}

/* --- one that was passed --- */

static bool environment_is(const char *name, uint64_t wanted)
{
    uint64_t number = 0;
    const char *text = getenv(name);
    return text != NULL && sbx_text_count(text, &number) == 0 && number == wanted;
}

/* Whether it is one to accept connections from. */
static bool is_listener(int fd)
{
    int domain = 0;
    int type = 0;
    int listens = 0;
    socklen_t size = sizeof domain;
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 &&
           domain == AF_UNIX && type == SOCK_STREAM && listens != 0;
}

/* 1: it was passed; 0: none was. */
static int take_passed(struct sbx_service_socket *place, struct sbx_error *err)
{
    if (!environment_is("LISTEN_PID", (uint64_t)getpid())) {
        return 0;
    }
    bool one = environment_is("LISTEN_FDS", 1);
    /* They are about this process, and must not be believed by one that it starts. */
    (void)unsetenv("LISTEN_PID");
    (void)unsetenv("LISTEN_FDS");
    (void)unsetenv("LISTEN_FDNAMES");
    if (!one || !is_listener(PASSED_FD)) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_CHECK,
                             "what LISTEN_FDS says was passed is not one listening "
                             "stream socket of the Unix domain (descriptor %d)",
                             PASSED_FD);
    }
    int flags = fcntl(PASSED_FD, F_GETFL);
    if (flags < 0 || fcntl(PASSED_FD, F_SETFL, flags | O_NONBLOCK) < 0 ||
        fcntl(PASSED_FD, F_SETFD, FD_CLOEXEC) < 0) {
        return fail(err, errno, "the socket that was passed", "fcntl");
    }
    place->fd = PASSED_FD;
    return 1;
}

/* --- one of our own --- */

static int name_path(const struct sbx_supervisor_plan *plan,
                     struct sbx_service_socket *place, struct sbx_error *err)
{
    const char *path = plan->socket_path;
    int r = path != NULL ? 0 : sbx_socket_default(place->path, sizeof place->path);
    if (path != NULL && strlen(path) < sizeof place->path) {
        (void)snprintf(place->path, sizeof place->path, "%s", path);
    } else if (path != NULL || r < 0) {
        return sbx_error_set(err, ENAMETOOLONG, SBX_STAGE_CHECK,
                             "%s: too long for the path of a socket, which has %zu bytes "
                             "at most",
                             path != NULL ? path : "XDG_RUNTIME_DIR",
                             sizeof place->path - 1);
    }
    return 0;
}

/* One level: what is above it is the system's or the user's. */
static int make_directory(const struct sbx_supervisor_plan *plan, const char *path,
                          struct sbx_error *err)
{
    char directory[SBX_SOCKET_PATH_SIZE];
    mode_t mode = plan->allowed_count > 0 ? S_IRWXU | S_IXGRP | S_IXOTH : S_IRWXU;
    size_t length = (size_t)(strrchr(path, '/') - path);
    if (length == 0) {
        return 0;
    }
    (void)snprintf(directory, sizeof directory, "%.*s", (int)length, path);
    if (mkdir(directory, S_IRWXU) < 0) {
        return errno == EEXIST ? 0
                               : fail(err, errno, directory,
                                      "cannot make the directory of the socket (option "
                                      "--socket names another)");
    }
    return chmod(directory, mode) < 0 ? fail(err, errno, directory, "chmod") : 0;
}

static int take_lock(struct sbx_service_socket *place, struct sbx_error *err)
{
    char path[SBX_SOCKET_PATH_SIZE + sizeof ".lock"];
    (void)snprintf(path, sizeof path, "%s.lock", place->path);
    int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY;
    place->lock = open(path, flags, S_IRUSR | S_IWUSR);
    if (place->lock < 0) {
        return fail(err, errno, path, "open");
    }
    static const struct timespec pause = {.tv_nsec = 10000000L};
    int r = flock(place->lock, LOCK_EX | LOCK_NB);
    /* A child of an sbxd that was killed may just be about to let go of it. */
    for (int i = 0; r < 0 && errno == EWOULDBLOCK && i < LOCK_TRIES; i++) {
        (void)nanosleep(&pause, NULL);
        r = flock(place->lock, LOCK_EX | LOCK_NB);
    }
    if (r < 0) {
        int code = errno == EWOULDBLOCK ? EADDRINUSE : errno;
        return fail(err, code, place->path, "another sbxd serves there");
    }
    return 0;
}

static struct sockaddr_un address_of(const struct sbx_service_socket *place)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, place->path, strlen(place->path) + 1);
    return address;
}

/* Whether somebody accepts there, or may. */
static bool is_served(const struct sockaddr_un *address)
{
    SBX_AUTO_CLOSE int fd =
        socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return fd < 0 ||
           connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 ||
           (errno != ECONNREFUSED && errno != ENOENT);
}

static int remove_stale(const struct sbx_service_socket *place, struct sbx_error *err)
{
    const struct sockaddr_un address = address_of(place);
    struct stat status;
    if (lstat(place->path, &status) < 0) {
        return errno == ENOENT ? 0 : fail(err, errno, place->path, "lstat");
    }
    if (!S_ISSOCK(status.st_mode)) {
        return fail(err, EEXIST, place->path, "it is no socket");
    }
    if (is_served(&address)) {
        return fail(err, EADDRINUSE, place->path, "somebody serves there");
    }
    return unlink(place->path) < 0 ? fail(err, errno, place->path, "unlink") : 0;
}

/* No moment in which more may connect than shall. */
static int bind_private(int fd, const struct sockaddr_un *address)
{
    mode_t before = umask(S_IRWXG | S_IRWXO | S_IXUSR);
    int r = bind(fd, (const struct sockaddr *)address, sizeof *address);
    int code = r < 0 ? errno : 0;
    (void)umask(before);
    return -code;
}

static int make_own(const struct sbx_supervisor_plan *plan,
                    struct sbx_service_socket *place, struct sbx_error *err)
{
    const struct sockaddr_un address = address_of(place);
    mode_t everybody =
        plan->allowed_count > 0 ? S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH : 0;
    struct stat status;
    place->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (place->fd < 0) {
        return fail(err, errno, place->path, "socket");
    }
    int r = bind_private(place->fd, &address);
    if (r < 0) {
        return fail(err, -r, place->path, "bind");
    }
    if (lstat(place->path, &status) == 0) {
        place->device = status.st_dev;
        place->inode = status.st_ino;
    }
    if (chmod(place->path, S_IRUSR | S_IWUSR | everybody) < 0 ||
        listen(place->fd, BACKLOG) < 0) {
        return fail(err, errno, place->path, "chmod, listen");
    }
    return 0;
}

int sbx_service_socket_open(const struct sbx_supervisor_plan *plan,
                            struct sbx_service_socket *ret_socket, struct sbx_error *err)
{
    struct sbx_service_socket place = {.fd = -1, .lock = -1};
    int r = take_passed(&place, err);
    if (r == 0) {
        r = name_path(plan, &place, err);
        r = r < 0 ? r : make_directory(plan, place.path, err);
        r = r < 0 ? r : take_lock(&place, err);
        r = r < 0 ? r : remove_stale(&place, err);
        r = r < 0 ? r : make_own(plan, &place, err);
    }
    if (r < 0) {
        sbx_service_socket_close(&place);
        return r;
    }
    *ret_socket = place;
    return 0;
}

/* The file of the lock stays: who waits for one that is removed has nothing. */
void sbx_service_socket_close(struct sbx_service_socket *place)
{
    struct stat status;
    if (place->fd >= 0 && place->inode != 0 && lstat(place->path, &status) == 0 &&
        status.st_dev == place->device && status.st_ino == place->inode) {
        (void)unlink(place->path);
    }
    sbx_fd_drop(&place->fd);
    sbx_fd_drop(&place->lock);
}
