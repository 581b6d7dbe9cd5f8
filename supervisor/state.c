/*
 * state.c - the state directory: made, locked, with its key, and listed (see place.h).
 *
 * All that decides is done under the lock, so that of two that start at once one fails
 * before it has changed anything but that directories are there.
 */
#include "supervisor/place.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "reaper/pidref.h"
#include "supervisor/file.h"
#include "supervisor/place_private.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#define TRIES 16
#define LOCK_TRIES 300 /* of 10 ms */
#define LOCK_TRIES_LIVING 30
#define OPEN_BUDGET ((size_t)100 * 1000)

/* --- directories ---------------------------------------------------------------------
 */

/* Unless it is there. */
static int make_directory(int parent, const char *name, struct sbx_error *err)
{
    int r = mkdirat(parent, name, S_IRWXU);
    int code = errno;
    if (r == 0) {
        /* The umask may have taken what its owner needs. */
        int fd = sbx_open_own_directory(parent, name);
        sbx_closep(&fd);
        return 0;
    }
    /* Some file systems refuse before they look. */
    if (code == EEXIST || faccessat(parent, name, F_OK, 0) == 0) {
        return 0;
    }
    return sbx_error_set(err, code, SBX_STAGE_CHECK, "cannot make the directory %s: %s",
                         name, sbx_errno_text(code).text);
}

/* The directories on the way are made as the last one is. */
static int make_path(const char *path, struct sbx_error *err)
{
    char part[PATH_MAX];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof part) {
        return sbx_error_set(err, length == 0 ? ENOENT : ENAMETOOLONG, SBX_STAGE_CHECK,
                             "the path of the state directory is empty or too long");
    }
    memcpy(part, path, length + 1);
    for (size_t i = 1; i <= length; i++) {
        char end = part[i];
        if (end != '/' && end != '\0') {
            continue;
        }
        part[i] = '\0';
        int r = make_directory(AT_FDCWD, part, err);
        if (r < 0) {
            return r;
        }
        part[i] = end;
    }
    return 0;
}

int sbx_state_open_directory(int parent, const char *name, struct sbx_error *err)
{
    /* The path of the whole may lead through links; what is in it may not be one. */
    int follow = parent == AT_FDCWD ? 0 : O_NOFOLLOW;
    SBX_AUTO_CLOSE int fd =
        openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | follow);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0) {
        return sbx_error_set(err, errno, SBX_STAGE_CHECK,
                             "cannot open the state directory (%s): %s", name,
                             sbx_errno_text(errno).text);
    }
    if (status.st_uid != geteuid()) {
        return sbx_error_set(err, EPERM, SBX_STAGE_CHECK,
                             "the state directory (%s) belongs to user %ju, not to %ju",
                             name, (uintmax_t)status.st_uid, (uintmax_t)geteuid());
    }
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return sbx_error_set(err, EPERM, SBX_STAGE_CHECK,
                             "others may write to the state directory (%s): chmod go-w",
                             name);
    }
    return sbx_fd_steal(&fd);
}

static int open_part(int directory, const char *name, struct sbx_error *err)
{
    int r = make_directory(directory, name, err);
    return r < 0 ? r : sbx_state_open_directory(directory, name, err);
}

/* --- the lock --------------------------------------------------------------------------
 */

static int busy(int fd, struct sbx_error *err)
{
    char text[32];
    ssize_t length = sbx_fd_pread_text(fd, text, sizeof text);
    size_t digits = length > 0 ? strspn(text, "0123456789") : 0;
    if (digits == 0) {
        return sbx_error_set(err, EBUSY, SBX_STAGE_CHECK,
                             "another process serves this state directory");
    }
    return sbx_error_set(err, EBUSY, SBX_STAGE_CHECK,
                         "another process (%.*s) serves this state directory",
                         (int)digits, text);
}

/* An sbxd that was killed while it started a keeper leaves a child with its descriptors,
 * until that executes the keeper. */
static bool holder_is_gone(int fd)
{
    char text[32];
    uint64_t pid = 0;
    ssize_t length = sbx_fd_pread_text(fd, text, sizeof text);
    if (length > 0 && text[length - 1] == '\n') {
        text[length - 1] = '\0';
    }
    return length > 0 && sbx_text_count(text, &pid) == 0 && pid > 1 && pid <= INT_MAX &&
           !sbx_pid_exists((pid_t)pid);
}

/* One that is alive may be about to end: SIGKILL takes a moment. */
static int lock_soon(int fd)
{
    static const struct timespec pause = {.tv_nsec = 10000000L};
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
        int code = errno;
        if (code != EWOULDBLOCK || i == LOCK_TRIES ||
            (i >= LOCK_TRIES_LIVING && !holder_is_gone(fd))) {
            return -code;
        }
        (void)nanosleep(&pause, NULL);
    }
    return 0;
}

/* Whether the lock that is held is still the one that others will ask for. */
static bool is_current(int directory, int fd)
{
    struct stat held;
    struct stat named;
    return fstat(fd, &held) == 0 &&
           fstatat(directory, "lock", &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           held.st_dev == named.st_dev && held.st_ino == named.st_ino &&
           S_ISREG(held.st_mode);
}

static int take_lock(int directory, struct sbx_error *err)
{
    for (int i = 0; i < TRIES; i++) {
        SBX_AUTO_CLOSE int fd =
            openat(directory, "lock",
                   O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                   S_IRUSR | S_IWUSR);
        if (fd < 0) {
            return sbx_error_set(err, errno, SBX_STAGE_CHECK,
                                 "cannot open the lock of the state directory: %s",
                                 sbx_errno_text(errno).text);
        }
        int r = lock_soon(fd);
        if (r < 0) {
            return r == -EWOULDBLOCK
                       ? busy(fd, err)
                       : sbx_error_set(err, -r, SBX_STAGE_CHECK,
                                       "cannot lock the state directory: %s",
                                       sbx_errno_text(-r).text);
        }
        if (!is_current(directory, fd)) {
            continue;
        }
        char text[32];
        int length = snprintf(text, sizeof text, "%jd\n", (intmax_t)getpid());
        (void)fchmod(fd, S_IRUSR | S_IWUSR);
        /* For the message of another one: not worth a failure. */
        (void)(ftruncate(fd, 0) < 0 || sbx_file_write(fd, text, (size_t)length, 0) < 0);
        return sbx_fd_steal(&fd);
    }
    return sbx_error_set(err, EBUSY, SBX_STAGE_CHECK,
                         "the lock of the state directory is replaced all the time");
}

/* --- the key ----------------------------------------------------------------------- */

static bool find_any(const char *id, void *context)
{
    (void)id;
    *(bool *)context = true;
    return false;
}

static int fill_key(unsigned char key[static SBX_KEY_SIZE])
{
    ssize_t size;
    do {
        size = getrandom(key, SBX_KEY_SIZE, 0);
    } while (size < 0 && errno == EINTR);
    return size == SBX_KEY_SIZE ? 0 : size < 0 ? -errno : -EIO;
}

/* Complete before it has its name. */
static int make_key(struct sbx_state *state, struct sbx_error *err)
{
    char name[SBX_ID_SIZE];
    unsigned char key[SBX_KEY_SIZE];
    int r = sbx_id_make(name);
    if (r == 0) {
        r = fill_key(key);
    }
    if (r < 0) {
        return sbx_error_set(err, -r, SBX_STAGE_CHECK, "cannot make a key: %s",
                             sbx_errno_text(-r).text);
    }
    SBX_AUTO_CLOSE int fd = sbx_file_create(state->new_places, name, 0, err);
    if (fd < 0) {
        return fd;
    }
    r = sbx_file_write(fd, key, sizeof key, 0);
    if (r == 0 && (fsync(fd) < 0 ||
                   renameat(state->new_places, name, state->directory, "key") < 0)) {
        r = -errno;
    }
    if (r < 0) {
        (void)unlinkat(state->new_places, name, 0);
        return sbx_error_set(err, -r, SBX_STAGE_CHECK, "cannot write the key: %s",
                             sbx_errno_text(-r).text);
    }
    memcpy(state->key, key, sizeof key);
    return 0;
}

static int get_key(struct sbx_state *state, struct sbx_error *err)
{
    uint64_t size = 0;
    SBX_AUTO_CLOSE int fd = sbx_file_open(state->directory, "key", O_RDONLY, &size);
    if (fd >= 0 && size == SBX_KEY_SIZE &&
        sbx_file_read(fd, state->key, sizeof state->key, 0) == 0) {
        return 0;
    }
    bool unfinished = fd == -ENOENT || (fd >= 0 && size < SBX_KEY_SIZE);
    bool any = false;
    int r = unfinished ? sbx_state_list(state, find_any, &any) : -EBADMSG;
    if (r == 0 && !any) {
        return make_key(state, err);
    }
    return sbx_error_set(err, EBADMSG, SBX_STAGE_CHECK,
                         "the key of the state directory is missing or damaged, and "
                         "the executions there depend on it");
}

/* --- all of it --------------------------------------------------------------------- */

static int open_all(struct sbx_state *state, const char *path, struct sbx_error *err)
{
    int r = make_path(path, err);
    if (r < 0) {
        return r;
    }
    state->directory = sbx_state_open_directory(AT_FDCWD, path, err);
    if (state->directory < 0) {
        return state->directory;
    }
    state->lock = take_lock(state->directory, err);
    if (state->lock < 0) {
        return state->lock;
    }
    state->new_places = open_part(state->directory, "new", err);
    if (state->new_places < 0) {
        return state->new_places;
    }
    state->executions = open_part(state->directory, "executions", err);
    if (state->executions < 0) {
        return state->executions;
    }
    (void)sbx_discard_all(state->new_places, OPEN_BUDGET);
    return get_key(state, err);
}

int sbx_state_open(const char *path, struct sbx_state **ret_state, struct sbx_error *err)
{
    struct sbx_state *state = malloc(sizeof *state);
    if (state == NULL) {
        return sbx_error_set(err, ENOMEM, SBX_STAGE_CHECK,
                             "no memory for the state directory");
    }
    *state = (struct sbx_state){
        .directory = -1, .lock = -1, .new_places = -1, .executions = -1};
    int r = open_all(state, path, err);
    if (r < 0) {
        sbx_error_prefix(err, "%s", path);
        sbx_state_close(state);
        return r;
    }
    *ret_state = state;
    return 0;
}

void sbx_state_close(struct sbx_state *state)
{
    if (state == NULL) {
        return;
    }
    explicit_bzero(state->key, sizeof state->key);
    sbx_closep(&state->executions);
    sbx_closep(&state->new_places);
    sbx_closep(&state->directory);
    sbx_closep(&state->lock); /* last: now another one may open it */
    free(state);
}

const unsigned char *sbx_state_key(const struct sbx_state *state)
{
    return state->key;
}

static bool is_directory(int parent, const struct dirent *entry)
{
    struct stat status;
    return entry->d_type == DT_DIR ||
           (entry->d_type == DT_UNKNOWN &&
            fstatat(parent, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISDIR(status.st_mode));
}

int sbx_state_list(struct sbx_state *state, sbx_state_callback *callback, void *context)
{
    SBX_AUTO_CLOSEDIR DIR *list = sbx_fd_list(state->executions);
    if (list == NULL) {
        return -errno;
    }
    struct dirent *entry;
    bool on = true;
    while (on && (errno = 0, entry = readdir(list)) != NULL) {
        if (sbx_id_is_valid(entry->d_name) && is_directory(state->executions, entry)) {
            on = callback(entry->d_name, context);
        }
    }
    return on ? -errno : 0;
}
