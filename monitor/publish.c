/*
 * publish.c - the way of the report to where the user wants it (see report.h).
 *
 * A regular or absent file is replaced: temporary file beside it, fsync, rename. All else
 * is written in place with bounded patience (sink.c). Everything is done through a
 * descriptor of the directory, so that nothing can be moved between two steps. Never
 * allocates.
 */
#include "monitor/report.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "monitor/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <time.h>

#define READER_RETRY_NS 10000000L
#define LINKS_MAX 40   /* as the kernel */
#define NAME_SHOWN 200 /* of the file's name, in that of the temporary file */
#define FD_PATH_SIZE 40

/* Where the report goes: an entry of a held directory, links already followed. */
struct place {
    int directory; /* O_PATH */
    char name[NAME_MAX + 1];
    bool exists;
    bool magic; /* a link of /proc, to an open file of some process */
    bool mount; /* a mount point: cannot be renamed over */
    mode_t mode;
    uid_t owner;
    gid_t group;
};

static int fail(const struct sbx_spec *spec, int r, const char *what,
                struct sbx_error *err)
{
    char path[SBX_ERROR_MESSAGE_SIZE / 2];
    (void)sbx_text_escape(path, sizeof path, spec->report_path,
                          strlen(spec->report_path));
    return sbx_error_set(err, -r, SBX_STAGE_REPORT, "report %s: %s: %s", path, what,
                         sbx_errno_text(-r).text);
}

/* Splits path into the directory, which is opened and held, and the last name. */
static int enter(struct place *place, int base, char *path)
{
    char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const char *directory = ".";
    if (path[0] == '\0') {
        return -ENOENT;
    }
    if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        return -EISDIR;
    }
    size_t length = strlen(name);
    if (length > NAME_MAX) {
        return -ENAMETOOLONG;
    }
    memcpy(place->name, name, length + 1);
    if (slash == path) {
        directory = "/";
    } else if (slash != NULL) {
        *slash = '\0';
        directory = path;
    }
    int start = place->directory >= 0 ? place->directory : base;
    int opened = openat(start, directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (opened < 0) {
        return -errno;
    }
    sbx_fd_drop(&place->directory);
    place->directory = opened;
    return 0;
}

static int look(struct place *place)
{
    struct statx status;
    if (statx(place->directory, place->name, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS,
              &status) < 0) {
        place->exists = false;
        return errno == ENOENT ? 0 : -errno;
    }
    place->exists = true;
    place->mode = status.stx_mode;
    place->owner = status.stx_uid;
    place->group = status.stx_gid;
    place->mount = (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
    return 0;
}

/* The kernel's rule for links in a sticky directory that all may write to: only one's own
 * are followed. Followed by hand, they need it by hand. */
static bool may_follow(const struct place *place)
{
    struct stat directory;
    if (fstat(place->directory, &directory) < 0) {
        return false;
    }
    mode_t open_to_all = S_ISVTX | S_IWOTH;
    return place->owner == geteuid() || place->owner == directory.st_uid ||
           (directory.st_mode & open_to_all) != open_to_all;
}

/* Reads the link that `place` is into path. A link of /proc has no path that counts: it
 * is kept, as magic. */
static int read_link(struct place *place, char path[static PATH_MAX])
{
    SBX_AUTO_CLOSE int link =
        openat(place->directory, place->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (link < 0) {
        return -errno;
    }
    struct statfs filesystem;
    if (fstatfs(link, &filesystem) < 0) {
        return -errno;
    }
    if (filesystem.f_type == PROC_SUPER_MAGIC) {
        place->magic = true;
        return 0;
    }
    if (!may_follow(place)) {
        return -EACCES;
    }
    ssize_t length = readlinkat(link, "", path, PATH_MAX);
    if (length < 0) {
        return -errno;
    }
    if (length == PATH_MAX) {
        return -ENAMETOOLONG;
    }
    path[length] = '\0';
    return 0;
}

static void place_done(struct place *place)
{
    sbx_fd_drop(&place->directory);
}

/* Follows report_path to its end. On success the place is the caller's (place_done). */
static int locate(const struct sbx_spec *spec, struct place *ret_place)
{
    struct place place = {.directory = -1};
    char path[PATH_MAX];
    int base = spec->report_directory_fd >= 0 ? spec->report_directory_fd : AT_FDCWD;
    if (strlen(spec->report_path) >= sizeof path) {
        return -ENAMETOOLONG;
    }
    (void)snprintf(path, sizeof path, "%s", spec->report_path);
    int r = -ELOOP;
    for (int links = 0; links <= LINKS_MAX; links++) {
        r = enter(&place, base, path);
        r = r < 0 ? r : look(&place);
        if (spec->report_replaces && !S_ISDIR(place.mode)) {
            place.exists = false; /* for a rename it is as if there were nothing */
        }
        bool is_link = r == 0 && place.exists && S_ISLNK(place.mode);
        r = is_link ? read_link(&place, path) : r;
        if (r < 0 || !is_link || place.magic) {
            break;
        }
        r = -ELOOP;
    }
    if (r == 0 && place.exists && S_ISDIR(place.mode)) {
        r = -EISDIR;
    }
    if (r < 0) {
        place_done(&place);
        return r;
    }
    *ret_place = place;
    return 0;
}

static bool in_place(const struct place *place)
{
    return place->exists && (place->mount || !S_ISREG(place->mode));
}

/* Renaming over a file in a sticky directory is for its owner and that of the directory.
 */
static int check_sticky(const struct place *place)
{
    struct stat directory;
    if (fstat(place->directory, &directory) < 0) {
        return -errno;
    }
    uid_t uid = geteuid();
    bool refused = place->exists && (directory.st_mode & S_ISVTX) != 0 && uid != 0 &&
                   uid != place->owner && uid != directory.st_uid;
    return refused ? -EPERM : 0;
}

/* Makes the temporary file: hidden, beside the file that it will become. Its name follows
 * from the text, which has a random run id in it: whoever publishes this report after
 * another was killed over it finds what that one has left, and takes it away. */
static int create_temporary(const struct place *place, uint64_t number,
                            char name[static NAME_MAX + 1], int *ret_fd)
{
    /* A file that is replaced has its own mode; until that is set, nobody looks in. */
    mode_t mode = place->exists ? 0600 : 0666;
    for (int attempt = 0; attempt < 16; attempt++) {
        if (attempt > 1 &&
            getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number) {
            number = sbx_clock_us() ^ ((uint64_t)getpid() << 40);
        }
        (void)snprintf(name, NAME_MAX + 1, ".%.*s.%016" PRIx64 ".tmp", NAME_SHOWN,
                       place->name, number);
        int fd = openat(place->directory, name,
                        O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (fd >= 0) {
            *ret_fd = fd;
            return 0;
        }
        if (errno != EEXIST) {
            return -errno;
        }
        if (attempt == 0) {
            (void)unlinkat(place->directory, name, 0);
        }
    }
    return -EEXIST;
}

/* Whether a file can be made there. Permissions do not tell all: nothing can be made in
 * /proc, in an immutable directory, or where the inodes are used up. A file without a
 * name leaves nothing behind, whatever happens to us; not every file system has such. */
static int try_to_make(const struct place *place)
{
    SBX_AUTO_CLOSE int fd =
        openat(place->directory, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (fd >= 0) {
        return 0;
    }
    char name[NAME_MAX + 1];
    int r =
        create_temporary(place, sbx_clock_us() ^ ((uint64_t)getpid() << 40), name, &fd);
    if (r == 0) {
        (void)unlinkat(place->directory, name, 0);
    }
    return r;
}

static int check_place(const struct sbx_spec *spec, const struct place *place,
                       struct sbx_error *err)
{
    if (in_place(place)) {
        return faccessat(place->directory, place->name, W_OK, AT_EACCESS) < 0
                   ? fail(spec, -errno, "cannot be written", err)
                   : 0;
    }
    int r = try_to_make(place);
    if (r < 0) {
        return fail(spec, r, "no file can be made in its directory", err);
    }
    r = check_sticky(place);
    return r < 0 ? fail(spec, r, "cannot be replaced", err) : 0;
}

int sbx_report_check(const struct sbx_spec *spec, struct sbx_error *err)
{
    struct place place;
    if (spec->report_path == NULL || strcmp(spec->report_path, "-") == 0) {
        return 0;
    }
    int r = locate(spec, &place);
    if (r < 0) {
        return fail(spec, r, "cannot be written", err);
    }
    r = check_place(spec, &place, err);
    place_done(&place);
    return r;
}

bool sbx_report_replaces(const struct sbx_spec *spec, const struct stat *file)
{
    struct place place;
    struct stat old;
    if (spec->report_path == NULL || strcmp(spec->report_path, "-") == 0 ||
        locate(spec, &place) < 0) {
        return false;
    }
    bool same = place.exists && !place.magic &&
                fstatat(place.directory, place.name, &old, AT_SYMLINK_NOFOLLOW) == 0 &&
                S_ISREG(old.st_mode) && old.st_dev == file->st_dev &&
                old.st_ino == file->st_ino;
    place_done(&place);
    return same;
}

/* Fowler, Noll and Vo: FNV-1a. */
static uint64_t fingerprint(const char *text, size_t length)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* Owner, group and mode of the file that is replaced, as far as they can be had. The mode
 * comes last: a change of owner takes bits away. */
static void keep_attributes(const struct place *place, int fd)
{
    if (!place->exists) {
        return;
    }
    mode_t mode = place->mode & 0777;
    if (fchown(fd, place->owner, place->group) < 0 &&
        fchown(fd, (uid_t)-1, place->group) < 0) {
        /* Under another group its bits would open the file to the wrong people. */
        mode &= ~(mode_t)0070;
    }
    (void)fchmod(fd, mode);
}

static int sync_file(int fd)
{
    /* EINVAL: this file system has nothing to synchronize. */
    return fsync(fd) < 0 && errno != EINVAL ? -errno : 0;
}

static int fill(int *fd, const char *text, size_t length)
{
    int r = sbx_fd_write_all(*fd, text, length);
    if (r == 0) {
        r = sync_file(*fd);
    }
    /* Some file systems tell of a full disk only now; the descriptor is gone either way.
     */
    if (close(sbx_fd_steal(fd)) < 0 && r == 0 && errno != EINTR) {
        r = -errno;
    }
    return r;
}

static int replace(const struct place *place, const char *text, size_t length)
{
    char name[NAME_MAX + 1];
    SBX_AUTO_CLOSE int fd = -1;
    int r = create_temporary(place, fingerprint(text, length), name, &fd);
    if (r < 0) {
        return r;
    }
    keep_attributes(place, fd);
    r = fill(&fd, text, length);
    if (r == 0 && renameat(place->directory, name, place->directory, place->name) < 0) {
        r = -errno;
    }
    if (r < 0) {
        (void)unlinkat(place->directory, name, 0);
    }
    return r;
}

/* Connects to the socket that `place` is; streams first, then the kinds that keep
 * messages apart. */
static int connect_socket(const struct place *place)
{
    static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM};
    SBX_AUTO_CLOSE int node = openat(place->directory, place->name, O_PATH | O_CLOEXEC);
    if (node < 0) {
        return -errno;
    }
    /* Through the descriptor: the path may be longer than an address. */
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, FD_PATH_SIZE, "/proc/self/fd/%d", node);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        SBX_AUTO_CLOSE int fd =
            socket(AF_UNIX, types[i] | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0) {
            return -errno;
        }
        if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0) {
            return sbx_fd_steal(&fd);
        }
        if (errno != EPROTOTYPE) {
            return -errno;
        }
    }
    return -EPROTOTYPE;
}

/* Opens what is written in place. A FIFO that nobody reads yet gets some time. */
static int open_in_place(const struct place *place)
{
    int flags = O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    flags |= place->magic ? O_APPEND : O_NOFOLLOW;
    flags |= S_ISREG(place->mode) ? O_TRUNC : 0;
    uint64_t deadline_us = sbx_clock_us() + SBX_SINK_PATIENCE_US;
    for (;;) {
        int fd = openat(place->directory, place->name, flags);
        if (fd >= 0) {
            return fd;
        }
        bool reader = errno == ENXIO && S_ISFIFO(place->mode);
        if (errno != EINTR && (!reader || sbx_clock_us() >= deadline_us)) {
            return -errno;
        }
        const struct timespec pause = {.tv_nsec = READER_RETRY_NS};
        (void)nanosleep(&pause, NULL);
    }
}

static int write_in_place(const struct place *place, const char *text, size_t length)
{
    bool is_socket = !place->magic && S_ISSOCK(place->mode);
    SBX_AUTO_CLOSE int fd = is_socket ? connect_socket(place) : open_in_place(place);
    if (fd < 0) {
        return fd;
    }
    struct sbx_sink sink = {.fd = fd, .socket = is_socket};
    int r = sbx_sink_write(&sink, text, length);
    struct stat status;
    if (r == 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
        r = sync_file(fd);
    }
    return r;
}

/* Signals that a write can raise; they must not end or stop the one who publishes. */
struct shield {
    sigset_t mask;
    sigset_t pending;
};

static void shield_up(struct shield *shield)
{
    sigset_t blocked;
    (void)sigemptyset(&blocked);
    (void)sigaddset(&blocked, SIGPIPE);
    (void)sigaddset(&blocked, SIGXFSZ);
    (void)sigaddset(&blocked, SIGTTOU);
    (void)sigprocmask(SIG_BLOCK, &blocked, &shield->mask);
    (void)sigpending(&shield->pending);
}

static void shield_down(const struct shield *shield)
{
    static const int raised[] = {SIGPIPE, SIGXFSZ};
    for (size_t i = 0; i < sizeof raised / sizeof raised[0]; i++) {
        sigset_t set;
        (void)sigemptyset(&set);
        (void)sigaddset(&set, raised[i]);
        if (sigismember(&shield->pending, raised[i]) == 0) {
            const struct timespec at_once = {0};
            (void)sigtimedwait(&set, NULL, &at_once);
        }
    }
    (void)sigprocmask(SIG_SETMASK, &shield->mask, NULL);
}

static int publish_path(const struct sbx_spec *spec, const char *text, size_t length)
{
    struct place place;
    if (strcmp(spec->report_path, "-") == 0) {
        return sbx_sink_put(STDERR_FILENO, text, length, SBX_SINK_OWN_LINE);
    }
    int r = locate(spec, &place);
    if (r < 0) {
        return r;
    }
    r = in_place(&place) ? write_in_place(&place, text, length)
                         : replace(&place, text, length);
    place_done(&place);
    return r;
}

static int publish_fd(const struct sbx_spec *spec, const char *text, size_t length)
{
    struct stat status;
    int r = sbx_sink_put(spec->report_fd, text, length, SBX_SINK_AS_IT_IS);
    if (r == 0 && fstat(spec->report_fd, &status) == 0 && S_ISREG(status.st_mode)) {
        r = sync_file(spec->report_fd);
    }
    return r;
}

bool sbx_report_wanted(const struct sbx_spec *spec)
{
    return spec->report_path != NULL || spec->report_fd != 0;
}

/* Each destination has its chance, whatever became of the other. */
int sbx_report_publish(const struct sbx_spec *spec, const char *text, size_t length,
                       struct sbx_error *err)
{
    if (!sbx_report_wanted(spec)) {
        return 0;
    }
    struct shield shield;
    shield_up(&shield);
    int by_fd = spec->report_fd != 0 ? publish_fd(spec, text, length) : 0;
    int by_path = spec->report_path != NULL ? publish_path(spec, text, length) : 0;
    shield_down(&shield);
    if (by_path < 0) {
        return fail(spec, by_path, "cannot be written", err);
    }
    if (by_fd < 0) {
        return sbx_error_set(err, -by_fd, SBX_STAGE_REPORT,
                             "report descriptor %d: cannot be written: %s",
                             spec->report_fd, sbx_errno_text(-by_fd).text);
    }
    return 0;
}
