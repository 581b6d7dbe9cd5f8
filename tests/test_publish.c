/*
 * test_publish.c - the report in a file: replaced in one step, or untouched with nothing
 * left behind.
 *
 * Each step of the way can be made to fail by the linker's --wrap; the other failures are
 * the kernel's own. What is written in place is in test_publish_in_place.c.
 */
#include "base/fd.h"
#include "monitor/report.h"
#include "tests/fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define NOBODY 65534

static const char report[] = "{\"schema\":\"sbx.report/1\"}\n";

/* --- steps that fail --------------------------------------------------------------- */

enum step {
    STEP_NONE,
    STEP_WRITE,
    STEP_FSYNC,
    STEP_CLOSE,
    STEP_RENAME,
    STEP_CHOWN,
    STEP_CHMOD
};

static struct {
    enum step step;
    int code;
    unsigned spared; /* calls that go through before the failure */
} broken;

static bool breaks(enum step step)
{
    if (broken.step != step) {
        return false;
    }
    if (broken.spared > 0) {
        broken.spared--;
        return false;
    }
    errno = broken.code;
    return true;
}

ssize_t __real_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_close(int fd);
int __wrap_close(int fd);
int __real_renameat(int from, const char *old, int to, const char *new);
int __wrap_renameat(int from, const char *old, int to, const char *new);
int __real_fchown(int fd, uid_t owner, gid_t group);
int __wrap_fchown(int fd, uid_t owner, gid_t group);
int __real_fchmod(int fd, mode_t mode);
int __wrap_fchmod(int fd, mode_t mode);

ssize_t __wrap_write(int fd, const void *data, size_t size)
{
    if (breaks(STEP_WRITE)) {
        return -1;
    }
    /* The call before the failure takes only a part, as on a disk that fills up. */
    bool partial = broken.step == STEP_WRITE && size > 1;
    return __real_write(fd, data, partial ? size / 2 : size);
}

int __wrap_fsync(int fd)
{
    return breaks(STEP_FSYNC) ? -1 : __real_fsync(fd);
}

int __wrap_close(int fd)
{
    int r = __real_close(fd);
    return breaks(STEP_CLOSE) ? -1 : r;
}

int __wrap_renameat(int from, const char *old, int to, const char *new)
{
    return breaks(STEP_RENAME) ? -1 : __real_renameat(from, old, to, new);
}

int __wrap_fchown(int fd, uid_t owner, gid_t group)
{
    return breaks(STEP_CHOWN) ? -1 : __real_fchown(fd, owner, group);
}

int __wrap_fchmod(int fd, mode_t mode)
{
    return breaks(STEP_CHMOD) ? -1 : __real_fchmod(fd, mode);
}

/* --- helpers ----------------------------------------------------------------------- */

static struct sbx_spec spec_of(char *path)
{
    return (struct sbx_spec){.report_path = path, .report_directory_fd = -1};
}

static int publish(char *path, struct sbx_error *err)
{
    struct sbx_spec spec = spec_of(path);
    return sbx_report_publish(&spec, report, sizeof report - 1, err);
}

static int check(char *path, struct sbx_error *err)
{
    struct sbx_spec spec = spec_of(path);
    return sbx_report_check(&spec, err);
}

static void put_file(const char *path, const char *text, mode_t mode)
{
    SBX_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
    ck_assert_int_eq(__real_write(fd, text, strlen(text)), (int)strlen(text));
    ck_assert_int_eq(fchmod(fd, mode), 0);
}

static void assert_file(const char *path, const char *text)
{
    char found[4096];
    ssize_t length = sbx_fd_read_text_at(AT_FDCWD, path, found, sizeof found);
    ck_assert_msg(length >= 0, "%s: %s", path, strerror((int)-length));
    ck_assert_str_eq(found, text);
}

static mode_t mode_of(const char *path)
{
    struct stat status;
    ck_assert_msg(lstat(path, &status) == 0, "%s: %s", path, strerror(errno));
    return status.st_mode;
}

static ino_t inode_of(const char *path)
{
    struct stat status;
    ck_assert_int_eq(stat(path, &status), 0);
    return status.st_ino;
}

static size_t entries(const char *directory)
{
    SBX_AUTO_CLOSEDIR DIR *listing = opendir(directory);
    ck_assert_ptr_nonnull(listing);
    size_t count = 0;
    while (readdir(listing) != NULL) {
        count++;
    }
    return count - 2;
}

static void assert_error(const struct sbx_error *error, int code)
{
    ck_assert_msg(error->code == code, "%s, expected %s", strerror(error->code),
                  strerror(code));
    ck_assert_int_eq(error->stage, SBX_STAGE_REPORT);
    ck_assert_ptr_eq(strstr(error->message, "report "), error->message);
    ck_assert_ptr_null(strchr(error->message, '\n'));
}

/* --- tests ------------------------------------------------------------------------- */

START_TEST(test_none)
{
    struct sbx_error error = {0};
    ck_assert_int_eq(check(NULL, &error), 0);
    ck_assert_int_eq(publish(NULL, &error), 0);
    ck_assert_int_eq(error.code, 0);
}
END_TEST

static const mode_t umasks[] = {0, 022, 027, 077};

START_TEST(test_new)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    (void)sbx_fixture_path(path, "r.json");
    (void)umask(umasks[_i]);
    ck_assert_int_eq(check(path, NULL), 0);
    ck_assert_uint_eq(entries(sbx_fixture_dir()), 0);
    ck_assert_int_eq(publish(path, NULL), 0);
    assert_file(path, report);
    ck_assert_uint_eq(mode_of(path), S_IFREG | (0666 & ~umasks[_i]));
    ck_assert_uint_eq(entries(sbx_fixture_dir()), 1);
}
END_TEST

static const mode_t modes[] = {0600, 0640, 0644, 0666, 0755, 0400};

/* Whoever has the old file open keeps the old text: nothing was written into it. */
START_TEST(test_replace)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char old[SBX_FIXTURE_PATH_SIZE];
    (void)umask(022);
    put_file(sbx_fixture_path(path, "r.json"), "old", modes[_i]);
    ck_assert_int_eq(link(path, sbx_fixture_path(old, "old")), 0);
    ck_assert_int_eq(check(path, NULL), 0);
    ck_assert_uint_eq(inode_of(path), inode_of(old));
    ck_assert_int_eq(publish(path, NULL), 0);
    assert_file(path, report);
    assert_file(old, "old");
    ck_assert_uint_eq(mode_of(path), S_IFREG | modes[_i]);
    ck_assert_uint_ne(inode_of(path), inode_of(old));
    ck_assert_uint_eq(entries(sbx_fixture_dir()), 2);
}
END_TEST

START_TEST(test_owner_is_kept)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    struct stat status;
    put_file(sbx_fixture_path(path, "r.json"), "old", 0640);
    if (chown(path, NOBODY, NOBODY) < 0) {
        puts("SKIP: test_owner_is_kept needs the right to change owners");
        return;
    }
    ck_assert_int_eq(publish(path, NULL), 0);
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_uint_eq(status.st_uid, NOBODY);
    ck_assert_uint_eq(status.st_gid, NOBODY);
    ck_assert_uint_eq(status.st_mode, S_IFREG | 0640);
}
END_TEST

/* Where the group cannot be kept, its bits are not given to another. */
START_TEST(test_group_is_not_widened)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    put_file(sbx_fixture_path(path, "r.json"), "old", 0664);
    broken.step = STEP_CHOWN;
    broken.code = EPERM;
    ck_assert_int_eq(publish(path, NULL), 0);
    assert_file(path, report);
    ck_assert_uint_eq(mode_of(path), S_IFREG | 0604);
}
END_TEST

/* What replaces a private file is private from its first byte. */
START_TEST(test_private_stays_private)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    (void)umask(0);
    put_file(sbx_fixture_path(path, "r.json"), "old", 0640);
    broken.step = STEP_CHMOD;
    broken.code = EPERM;
    ck_assert_int_eq(publish(path, NULL), 0);
    assert_file(path, report);
    ck_assert_uint_eq(mode_of(path), S_IFREG | 0600);
}
END_TEST

/* Relative paths start at the directory that was held, wherever we are now. */
START_TEST(test_relative)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    static char names[][16] = {"r.json", "./r.json", "sub/../r.json"};
    ck_assert_int_eq(mkdir(sbx_fixture_path(path, "sub"), 0755), 0);
    SBX_AUTO_CLOSE int directory =
        open(sbx_fixture_dir(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(directory, 0);
    ck_assert_int_eq(chdir("/"), 0);
    (void)sbx_fixture_path(path, "r.json");
    for (size_t i = 0; i < LENGTH(names); i++) {
        struct sbx_spec spec = spec_of(names[i]);
        spec.report_directory_fd = directory;
        ck_assert_int_eq(sbx_report_check(&spec, NULL), 0);
        ck_assert_int_eq(sbx_report_publish(&spec, report, sizeof report - 1, NULL), 0);
        assert_file(path, report);
        ck_assert_int_eq(unlink(path), 0);
    }
    /* Without one, at the working directory; absolute paths need neither. */
    ck_assert_int_eq(chdir(sbx_fixture_dir()), 0);
    ck_assert_int_eq(publish(names[0], NULL), 0);
    assert_file(path, report);
}
END_TEST

static const struct {
    const char *links[3][2]; /* name, target */
    const char *published;   /* to this */
    const char *target;      /* lands here */
    bool exists;
} followed[] = {
    {{{"l", "r.json"}}, "l", "r.json", true},
    {{{"l", "r.json"}}, "l", "r.json", false},
    {{{"l", "sub/r"}}, "l", "sub/r", true},
    {{{"sub/l", "../r.json"}}, "sub/l", "r.json", false},
    {{{"l", "sub/m"}, {"sub/m", "n"}, {"sub/n", "r"}}, "l", "sub/r", false},
    {{{"d", "sub"}}, "d/r", "sub/r", true},
};

START_TEST(test_links)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char target[SBX_FIXTURE_PATH_SIZE];
    ck_assert_int_eq(mkdir(sbx_fixture_path(path, "sub"), 0755), 0);
    size_t links = 0;
    for (; links < 3 && followed[_i].links[links][0] != NULL; links++) {
        (void)sbx_fixture_path(path, followed[_i].links[links][0]);
        ck_assert_int_eq(symlink(followed[_i].links[links][1], path), 0);
    }
    (void)sbx_fixture_path(target, followed[_i].target);
    if (followed[_i].exists) {
        put_file(target, "old", 0604);
    }
    (void)sbx_fixture_path(path, followed[_i].published);
    ck_assert_int_eq(check(path, NULL), 0);
    ck_assert_int_eq(publish(path, NULL), 0);
    assert_file(target, report);
    ck_assert(S_ISREG(mode_of(target)));
    for (size_t i = 0; i < links; i++) {
        (void)sbx_fixture_path(path, followed[_i].links[i][0]);
        ck_assert_msg(S_ISLNK(mode_of(path)), "%s is no link any more", path);
    }
}
END_TEST

/* Check and publish refuse alike; nothing is made on the way. */
static const struct {
    const char *name;
    int code;
} refused[] = {
    {".", EISDIR},       {"sub", EISDIR},          {"sub/", EISDIR}, {"new/", EISDIR},
    {"to-sub", EISDIR},  {"none/r", ENOENT},       {"loop", ELOOP},  {"file/r", ENOTDIR},
    {"to-none", ENOENT}, {"two\nlines/r", ENOENT}, {"..", EISDIR},
};

START_TEST(test_refused)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    struct sbx_error error = {0};
    ck_assert_int_eq(mkdir(sbx_fixture_path(path, "sub"), 0755), 0);
    put_file(sbx_fixture_path(path, "file"), "old", 0644);
    ck_assert_int_eq(symlink("sub", sbx_fixture_path(path, "to-sub")), 0);
    ck_assert_int_eq(symlink("none/r", sbx_fixture_path(path, "to-none")), 0);
    ck_assert_int_eq(symlink("loop", sbx_fixture_path(path, "loop")), 0);
    (void)sbx_fixture_path(path, refused[_i].name);
    int code = refused[_i].code;
    ck_assert_int_eq(check(path, &error), -code);
    assert_error(&error, code);
    error = (struct sbx_error){0};
    ck_assert_int_eq(publish(path, &error), -code);
    assert_error(&error, code);
    ck_assert_uint_eq(entries(sbx_fixture_dir()), 5);
    ck_assert_uint_eq(entries(sbx_fixture_path(path, "sub")), 0);
}
END_TEST

/* Permissions are no answer there, not for root. */
START_TEST(test_where_nothing_can_be_made)
{
    static char path[] = "/proc/report";
    struct sbx_error error = {0};
    int code = -check(path, &error);
    ck_assert_int_gt(code, 0);
    assert_error(&error, code);
    ck_assert_int_eq(publish(path, NULL), -code);
}
END_TEST

/* To root it looks as if it could be written to. */
START_TEST(test_removed_directory)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char name[] = "report";
    struct sbx_error error = {0};
    ck_assert_int_eq(mkdir(sbx_fixture_path(path, "gone"), 0755), 0);
    SBX_AUTO_CLOSE int directory = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(rmdir(path), 0);
    struct sbx_spec spec = spec_of(name);
    spec.report_directory_fd = directory;
    ck_assert_int_eq(sbx_report_check(&spec, &error), -ENOENT);
    assert_error(&error, ENOENT);
}
END_TEST

START_TEST(test_long_names)
{
    static const struct {
        size_t length;
        int code;
    } rows[] = {{200, 0}, {255, 0}, {256, ENAMETOOLONG}, {4000, ENAMETOOLONG}};
    static char name[5000];
    SBX_AUTO_CLOSE int directory =
        open(sbx_fixture_dir(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < LENGTH(rows); i++) {
        memset(name, 'n', rows[i].length);
        name[rows[i].length] = '\0';
        struct sbx_spec spec = spec_of(name);
        spec.report_directory_fd = directory;
        ck_assert_int_eq(sbx_report_check(&spec, NULL), -rows[i].code);
        ck_assert_int_eq(sbx_report_publish(&spec, report, sizeof report - 1, NULL),
                         -rows[i].code);
    }
    ck_assert_uint_eq(entries(sbx_fixture_dir()), 2);
    memset(name, '/', 4096);
    name[4096] = '\0';
    ck_assert_int_eq(check(name, NULL), -ENAMETOOLONG);
    name[0] = '\0';
    ck_assert_int_eq(check(name, NULL), -ENOENT);
}
END_TEST

/* Runs body as an ordinary user, in a child if we are root. */
static void as_nobody(void (*body)(void))
{
    if (geteuid() != 0) {
        body();
        return;
    }
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
            setresuid(NOBODY, NOBODY, NOBODY) < 0) {
            _exit(9);
        }
        body();
        _exit(0);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
}

static char unwritable[SBX_FIXTURE_PATH_SIZE];

static void expect_unwritable(void)
{
    struct sbx_error error = {0};
    ck_assert_int_eq(check(unwritable, &error), -EACCES);
    assert_error(&error, EACCES);
    ck_assert_int_eq(publish(unwritable, NULL), -EACCES);
}

/* Neither a new file nor, although it may be written to itself, an old one. */
START_TEST(test_unwritable_directory)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    ck_assert_int_eq(mkdir(sbx_fixture_path(path, "shut"), 0755), 0);
    put_file(sbx_fixture_path(path, "shut/old"), "old", 0666);
    ck_assert_int_eq(chmod(sbx_fixture_path(path, "shut"), 0555), 0);
    (void)sbx_fixture_path(unwritable, "shut/new");
    as_nobody(expect_unwritable);
    (void)sbx_fixture_path(unwritable, "shut/old");
    as_nobody(expect_unwritable);
    assert_file(unwritable, "old");
    ck_assert_uint_eq(entries(path), 1);
    ck_assert_int_eq(chmod(path, 0755), 0);
}
END_TEST

static void expect_sticky(void)
{
    struct sbx_error error = {0};
    ck_assert_int_eq(check(unwritable, &error), -EPERM);
    assert_error(&error, EPERM);
    ck_assert_int_eq(publish(unwritable, NULL), -EPERM);
}

/* In a directory like /tmp, the file of another user stays his. */
START_TEST(test_sticky_directory)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    if (geteuid() != 0) {
        puts("SKIP: test_sticky_directory needs two users");
        return;
    }
    ck_assert_int_eq(mkdir(sbx_fixture_path(path, "tmp"), 0755), 0);
    ck_assert_int_eq(chmod(path, 01777), 0);
    put_file(sbx_fixture_path(unwritable, "tmp/old"), "old", 0666);
    as_nobody(expect_sticky);
    assert_file(unwritable, "old");
    ck_assert_uint_eq(entries(path), 1);

    /* And a link that he has put there leads nowhere. */
    char link[SBX_FIXTURE_PATH_SIZE];
    ck_assert_int_eq(symlink("../precious", sbx_fixture_path(link, "tmp/link")), 0);
    ck_assert_int_eq(lchown(link, NOBODY, NOBODY), 0);
    put_file(sbx_fixture_path(path, "precious"), "old", 0644);
    ck_assert_int_eq(check(link, NULL), -EACCES);
    ck_assert_int_eq(publish(link, NULL), -EACCES);
    assert_file(path, "old");
    ck_assert_int_eq(lchown(link, 0, 0), 0);
    ck_assert_int_eq(publish(link, NULL), 0);
    assert_file(path, report);
}
END_TEST

static const struct {
    const char *name;
    enum step step;
    int code;
    unsigned spared;
    int result;
} steps[] = {
    {"write: disk full", STEP_WRITE, ENOSPC, 0, -ENOSPC},
    {"write: disk full after a part", STEP_WRITE, ENOSPC, 1, -ENOSPC},
    {"write: quota after two parts", STEP_WRITE, EDQUOT, 2, -EDQUOT},
    {"fsync: disk fault", STEP_FSYNC, EIO, 0, -EIO},
    {"fsync: nothing to synchronize", STEP_FSYNC, EINVAL, 0, 0},
    {"close: quota told late", STEP_CLOSE, EDQUOT, 0, -EDQUOT},
    {"close: interrupted", STEP_CLOSE, EINTR, 0, 0},
    {"rename: refused", STEP_RENAME, EBUSY, 0, -EBUSY},
};

START_TEST(test_broken_step)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    struct sbx_error error = {0};
    for (int old = 0; old < 2; old++) {
        put_file(sbx_fixture_path(path, "r.json"), "old", 0644);
        if (old == 0) {
            ck_assert_int_eq(unlink(path), 0);
        }
        broken.step = steps[_i].step;
        broken.code = steps[_i].code;
        broken.spared = steps[_i].spared;
        int r = publish(path, &error);
        /* close is also called for the directories on the way. */
        broken.step = STEP_NONE;
        ck_assert_msg(r == steps[_i].result, "%s: %d", steps[_i].name, r);
        if (r == 0) {
            assert_file(path, report);
            continue;
        }
        assert_error(&error, -steps[_i].result);
        ck_assert_uint_eq(entries(sbx_fixture_dir()), (size_t)old);
        if (old == 1) {
            assert_file(path, "old");
        }
    }
}
END_TEST

/* SIGXFSZ ignored, and as it is by default: it would end the program. */
START_TEST(test_file_size_limit)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    struct sbx_error error = {0};
    struct rlimit old;
    sigset_t pending;
    put_file(sbx_fixture_path(path, "r.json"), "old", 0644);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
    const struct rlimit small = {8, old.rlim_max};
    (void)signal(SIGXFSZ, _i == 0 ? SIG_IGN : SIG_DFL);
    /* Check writes to a file at each of its assertions: none in between. */
    int set = setrlimit(RLIMIT_FSIZE, &small);
    int r = publish(path, &error);
    int reset = setrlimit(RLIMIT_FSIZE, &old);
    ck_assert_int_eq(set, 0);
    ck_assert_int_eq(reset, 0);
    ck_assert_int_eq(r, -EFBIG);
    assert_error(&error, EFBIG);
    assert_file(path, "old");
    ck_assert_uint_eq(entries(sbx_fixture_dir()), 1);
    ck_assert_int_eq(sigpending(&pending), 0);
    ck_assert_int_eq(sigismember(&pending, SIGXFSZ), 0);
    ck_assert_int_eq(sigprocmask(SIG_BLOCK, NULL, &pending), 0);
    ck_assert_int_eq(sigismember(&pending, SIGXFSZ), 0);
}
END_TEST

static bool put_proc(const char *file, const char *text)
{
    SBX_AUTO_CLOSE int fd = open(file, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && __real_write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* A user namespace in which we are root: a user that it does not know makes no files. */
static bool private_users(void)
{
    char uid_map[64];
    char gid_map[64];
    (void)snprintf(uid_map, sizeof uid_map, "0 %u 1", geteuid());
    (void)snprintf(gid_map, sizeof gid_map, "0 %u 1", getegid());
    return unshare(CLONE_NEWUSER) == 0 && put_proc("/proc/self/uid_map", uid_map) &&
           put_proc("/proc/self/setgroups", "deny") &&
           put_proc("/proc/self/gid_map", gid_map);
}

/* A mount namespace of our own; false, and said, where there is none to be had. */
static bool private_mounts(const char *test)
{
    bool own = (geteuid() == 0 || private_users()) && unshare(CLONE_NEWNS) == 0;
    if (own && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0) {
        return true;
    }
    printf("SKIP: %s needs a mount namespace: %s\n", test, strerror(errno));
    return false;
}

START_TEST(test_full_disk)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char disk[SBX_FIXTURE_PATH_SIZE];
    static char filling[64 * 1024];
    struct sbx_error error = {0};
    ck_assert_int_eq(mkdir(sbx_fixture_path(disk, "disk"), 0777), 0);
    if (!private_mounts("test_full_disk")) {
        return;
    }
    if (mount("none", disk, "tmpfs", 0, "size=16k") < 0) {
        printf("SKIP: test_full_disk: no tmpfs: %s\n", strerror(errno));
        return;
    }
    put_file(sbx_fixture_path(path, "disk/r.json"), "old", 0644);
    char full[SBX_FIXTURE_PATH_SIZE];
    int fd =
        open(sbx_fixture_path(full, "disk/full"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    while (__real_write(fd, filling, sizeof filling) > 0) {
    }
    (void)__real_close(fd);
    ck_assert_int_eq(publish(path, &error), -ENOSPC);
    assert_error(&error, ENOSPC);
    assert_file(path, "old");
    ck_assert_uint_eq(entries(disk), 2);
    ck_assert_int_eq(unlink(full), 0);
    ck_assert_int_eq(publish(path, NULL), 0);
    assert_file(path, report);

    /* Read-only: known before anything runs. */
    ck_assert_int_eq(mount(NULL, disk, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    ck_assert_int_eq(check(path, NULL), -EROFS);
    ck_assert_int_eq(publish(path, NULL), -EROFS);
    ck_assert_int_eq(umount2(disk, MNT_DETACH), 0);
}
END_TEST

/* A file with a mount of its own cannot be renamed over: in place, and cut to length. */
START_TEST(test_mount_point)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char outside[SBX_FIXTURE_PATH_SIZE];
    static const char old[] = "an old report that is longer than the new one by far\n";
    put_file(sbx_fixture_path(path, "r.json"), "below", 0644);
    put_file(sbx_fixture_path(outside, "outside"), old, 0644);
    if (!private_mounts("test_mount_point")) {
        return;
    }
    if (mount(outside, path, NULL, MS_BIND, NULL) < 0) {
        printf("SKIP: test_mount_point: no bind mount: %s\n", strerror(errno));
        return;
    }
    ck_assert_int_eq(check(path, NULL), 0);
    assert_file(path, old);
    ck_assert_int_eq(publish(path, NULL), 0);
    assert_file(outside, report);
    ck_assert_uint_eq(entries(sbx_fixture_dir()), 2);
    ck_assert_int_eq(umount2(path, MNT_DETACH), 0);
    assert_file(path, "below");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("publish");
    TCase *files = sbx_fixture_case(suite, "files", 60);
    tcase_add_test(files, test_none);
    tcase_add_loop_test(files, test_new, 0, (int)LENGTH(umasks));
    tcase_add_loop_test(files, test_replace, 0, (int)LENGTH(modes));
    tcase_add_test(files, test_owner_is_kept);
    tcase_add_test(files, test_group_is_not_widened);
    tcase_add_test(files, test_private_stays_private);
    tcase_add_test(files, test_relative);
    tcase_add_loop_test(files, test_links, 0, (int)LENGTH(followed));
    tcase_add_loop_test(files, test_refused, 0, (int)LENGTH(refused));
    tcase_add_test(files, test_where_nothing_can_be_made);
    tcase_add_test(files, test_removed_directory);
    tcase_add_test(files, test_long_names);
    TCase *failures = sbx_fixture_case(suite, "failures", 60);
    tcase_add_test(failures, test_unwritable_directory);
    tcase_add_test(failures, test_sticky_directory);
    tcase_add_loop_test(failures, test_broken_step, 0, (int)LENGTH(steps));
    tcase_add_loop_test(failures, test_file_size_limit, 0, 2);
    tcase_add_test(failures, test_full_disk);
    tcase_add_test(failures, test_mount_point);
    return sbx_fixture_run(suite);
}
