/*
 * test_hierarchy.c - where the hierarchy is and where we are in it: on captured mountinfo
 * and cgroup files (tests/data/cgroup), on lines made by hand, and on this host. And the
 * opening of a group that a user names.
 */
#include "cgroup/hierarchy.h"

#include "base/fd.h"
#include "cgroup/lines.h"
#include "tests/fixture.h"
#include "tests/place_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ALL                                                                              \
    (SBX_CONTROLLER_BIT(SBX_CONTROLLER_MEMORY) |                                         \
     SBX_CONTROLLER_BIT(SBX_CONTROLLER_PIDS) | SBX_CONTROLLER_BIT(SBX_CONTROLLER_CPU))

static int open_directory(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
    return fd;
}

static void expect(const struct sbx_hierarchy *found, const char *what,
                   enum sbx_hierarchy_kind kind, bool read_only, const char *mount,
                   const char *own)
{
    ck_assert_msg(found->kind == kind, "%s: kind %d", what, (int)found->kind);
    ck_assert_msg(found->read_only == read_only, "%s: read-only %d", what,
                  found->read_only);
    ck_assert_msg(strcmp(found->mount, mount) == 0, "%s: mount '%.99s'", what,
                  found->mount);
    ck_assert_msg(strcmp(found->own, own) == 0, "%s: own group '%.99s'", what,
                  found->own);
}

/* ---- controllers ---- */

START_TEST(controllers_are_told_by_whole_words)
{
    static const struct {
        const char *text;
        unsigned found;
    } cases[] = {
        {"", 0},
        {"\n", 0},
        {"cpuset cpu io memory hugetlb pids rdma misc\n", ALL},
        {"cpuset io cpuacct memory2 xpids\n", 0},
        {"pids", SBX_CONTROLLER_BIT(SBX_CONTROLLER_PIDS)},
        {"cpuset memory\n", SBX_CONTROLLER_BIT(SBX_CONTROLLER_MEMORY)},
        {"cpu\n", SBX_CONTROLLER_BIT(SBX_CONTROLLER_CPU)},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        ck_assert_uint_eq(sbx_controllers_parse(cases[i].text), cases[i].found);
    }
    for (unsigned i = 0; i < SBX_CONTROLLER_COUNT; i++) {
        ck_assert_uint_eq(sbx_controllers_parse(sbx_controller_name(i)),
                          SBX_CONTROLLER_BIT(i));
    }
}
END_TEST

/* ---- captured ---- */

#define OWN "/user.slice/user-1000.slice/lane/run"

static const struct {
    const char *name;
    enum sbx_hierarchy_kind kind;
    bool read_only;
    const char *mount;
    const char *own;
} captured[] = {
    {"pure", SBX_HIERARCHY_PURE, false, "/sys/fs/cgroup", OWN},
    {"hybrid", SBX_HIERARCHY_HYBRID, false, "/sys/fs/cgroup/unified", "/"},
    {"none", SBX_HIERARCHY_NONE, false, "", ""},
    {"read_only", SBX_HIERARCHY_PURE, true, "/sys/fs/cgroup", OWN},
    {"read_only_first", SBX_HIERARCHY_PURE, false, "/mnt/ro", OWN},
    {"bind", SBX_HIERARCHY_PURE, false, "/mnt/a b", "/user-1000.slice/lane/run"},
    {"bind_beside", SBX_HIERARCHY_PURE, false, "/sys/fs/cgroup", OWN},
    {"own_beside", SBX_HIERARCHY_PURE, false, "/sys/fs/cgroup", OWN},
    {"elsewhere", SBX_HIERARCHY_PURE, false, "/mnt/a b", ""},
    {"covered", SBX_HIERARCHY_NONE, false, "", ""},
    {"covered_again", SBX_HIERARCHY_PURE, false, "/sys/fs/cgroup/again", OWN},
    {"namespace", SBX_HIERARCHY_PURE, false, "/sys/fs/cgroup", ""},
    {"container", SBX_HIERARCHY_PURE, true, "/sys/fs/cgroup", "/"},
    {"namespace_left", SBX_HIERARCHY_PURE, false, "/sys/fs/cgroup", ""},
    {"namespace_left_outside", SBX_HIERARCHY_PURE, false, "/mnt/own", ""},
};

START_TEST(captured_surroundings_are_read)
{
    for (size_t i = 0; i < COUNT(captured); i++) {
        char path[SBX_FIXTURE_PATH_SIZE];
        struct sbx_hierarchy found;
        (void)snprintf(path, sizeof(path), SBX_TEST_DATA "/cgroup/%s", captured[i].name);
        SBX_AUTO_CLOSE int proc = open_directory(path);
        memset(&found, 0xa5, sizeof(found));
        ck_assert_int_eq(sbx_hierarchy_find(proc, &found, NULL), 0);
        expect(&found, captured[i].name, captured[i].kind, captured[i].read_only,
               captured[i].mount, captured[i].own);
        bool hybrid = captured[i].kind == SBX_HIERARCHY_HYBRID;
        ck_assert_uint_eq(found.held_by_v1, hybrid ? ALL : 0);
    }
}
END_TEST

/* ---- made by hand ---- */

static int make_proc(const char *mounts, const char *groups)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    sbx_kit_file("proc/self/mountinfo", "%s", mounts);
    sbx_kit_file("proc/self/cgroup", "%s", groups);
    return open_directory(sbx_fixture_path(path, "proc"));
}

static const struct {
    const char *mounts;
    const char *groups;
    enum sbx_hierarchy_kind kind;
    bool read_only;
    const char *mount;
    const char *own;
} made[] = {
    /* escapes, any number of optional fields, one of them like a type, an empty source */
    {"9 1 0:5 / /a\\040b\\011\\012\\134c rw master:1 shared:2 cgroup2 - cgroup2  rw\n",
     "0::/x\n", SBX_HIERARCHY_PURE, false, "/a b\t\n\\c", "/x"},
    {"9 1 0:5 /a\\040b /m rw - cgroup2 none rw\n", "0::/a b/c\n", SBX_HIERARCHY_PURE,
     false, "/m", "/c"},
    /* what is no escape stays */
    {"9 1 0:5 / /m\\04\\999\\000 rw - cgroup2 none rw\n", "0::/x\n", SBX_HIERARCHY_PURE,
     false, "/m\\04\\999\\000", "/x"},
    /* a part of the tree: our group is its root, below it, beside it, spelled like it */
    {"9 1 0:5 /a /m rw - cgroup2 none rw\n", "0::/a\n", SBX_HIERARCHY_PURE, false, "/m",
     "/"},
    {"9 1 0:5 /a /m rw - cgroup2 none rw\n", "0::/a/b\n", SBX_HIERARCHY_PURE, false, "/m",
     "/b"},
    {"9 1 0:5 /a /m rw - cgroup2 none rw\n", "0::/ab\n", SBX_HIERARCHY_PURE, false, "/m",
     ""},
    {"9 1 0:5 /a /m rw - cgroup2 none rw\n", "0::/\n", SBX_HIERARCHY_PURE, false, "/m",
     ""},
    /* namespaces: outside of ours; a mount from above, our group beside its namespace */
    {"9 1 0:5 / /m rw - cgroup2 none rw\n", "0::/../x\n", SBX_HIERARCHY_PURE, false, "/m",
     ""},
    {"9 1 0:5 / /m rw - cgroup2 none rw\n", "0::/..\n", SBX_HIERARCHY_PURE, false, "/m",
     ""},
    {"9 1 0:5 /.. /m rw - cgroup2 none rw\n", "0::/../x/y\n", SBX_HIERARCHY_PURE, false,
     "/m", "/x/y"},
    {"9 1 0:5 /.. /m rw - cgroup2 none rw\n", "0::/../../x\n", SBX_HIERARCHY_PURE, false,
     "/m", ""},
    {"9 1 0:5 / /m rw - cgroup2 none rw\n", "0::/..x/y..\n", SBX_HIERARCHY_PURE, false,
     "/m", "/..x/y.."},
    /* which of several: shown before writable, then how much is shown, then the first */
    {"9 1 0:5 /z /a rw - cgroup2 none rw\n10 1 0:5 / /b ro - cgroup2 none rw\n",
     "0::/x\n", SBX_HIERARCHY_PURE, true, "/b", "/x"},
    {"9 1 0:5 /x /a rw - cgroup2 none rw\n10 1 0:5 / /b rw - cgroup2 none rw\n",
     "0::/x\n", SBX_HIERARCHY_PURE, false, "/b", "/x"},
    {"9 1 0:5 / /a rw - cgroup2 none rw\n10 1 0:5 / /b rw - cgroup2 none rw\n", "0::/x\n",
     SBX_HIERARCHY_PURE, false, "/a", "/x"},
    {"9 1 0:5 / /a rw - cgroup2 none ro\n10 1 0:5 / /b rw - cgroup2 none rw\n", "0::/x\n",
     SBX_HIERARCHY_PURE, false, "/b", "/x"},
    /* "ro" is a word, not a part of one */
    {"9 1 0:5 / /a rw,error - cgroup2 none rw,rodeo\n", "0::/x\n", SBX_HIERARCHY_PURE,
     false, "/a", "/x"},
    /* mounted over: by another type, by the same, elsewhere */
    {"9 1 0:5 / /a rw - cgroup2 none rw\n10 9 0:6 / /a rw - tmpfs none rw\n", "0::/x\n",
     SBX_HIERARCHY_NONE, false, "", ""},
    {"9 1 0:5 / /a rw - cgroup2 none rw\n10 9 0:5 / /a ro - cgroup2 none rw\n", "0::/x\n",
     SBX_HIERARCHY_PURE, true, "/a", "/x"},
    {"9 1 0:5 / /a rw - cgroup2 none rw\n10 9 0:6 / /a/b rw - tmpfs none rw\n", "0::/x\n",
     SBX_HIERARCHY_PURE, false, "/a", "/x"},
    /* v1 beside: with controllers, with a name alone */
    {"9 1 0:5 / /a rw - cgroup2 none rw\n",
     "2:cpu,cpuacct:/y\n1:name=systemd:/z\n0::/x\n", SBX_HIERARCHY_HYBRID, false, "/a",
     "/x"},
    {"9 1 0:5 / /a rw - cgroup2 none rw\n", "1:name=systemd:/z\n0::/x\n",
     SBX_HIERARCHY_PURE, false, "/a", "/x"},
    /* neither a type, nor a mount point, nor our group is what looks like it */
    {"9 1 0:5 / /cgroup2 rw - tmpfs cgroup2 rw,cgroup2\n9 1 0:5 / /b rw - cgroup none "
     "rw,memory\n",
     "0::/x\n", SBX_HIERARCHY_NONE, false, "", ""},
    {"9 1 0:5 / /a rw - cgroup2 none rw\n", "10::/x\n0:cpu:/y\n", SBX_HIERARCHY_HYBRID,
     false, "/a", ""},
    {"9 1 0:5 / /a rw - cgroup2 none rw\n", "0::/a:b\n", SBX_HIERARCHY_PURE, false, "/a",
     "/a:b"},
    /* lines that are none, an end without a line feed, nothing at all */
    {"\n9\n9 1 0:5 / /z rw cgroup2 none rw\n9 1 0:5 / /y rw - cgroup2\n9 1 0:5 / x rw - "
     "cgroup2 none rw\n9 1 0:5 / /a rw - cgroup2 none rw",
     "\n:\n0\n0:\n0::/x", SBX_HIERARCHY_PURE, false, "/a", "/x"},
    {"", "", SBX_HIERARCHY_NONE, false, "", ""},
};

START_TEST(lines_made_by_hand_are_read)
{
    for (size_t i = 0; i < COUNT(made); i++) {
        struct sbx_hierarchy found;
        char what[32];
        SBX_AUTO_CLOSE int proc = make_proc(made[i].mounts, made[i].groups);
        (void)snprintf(what, sizeof(what), "case %zu", i);
        memset(&found, 0xa5, sizeof(found));
        ck_assert_int_eq(sbx_hierarchy_find(proc, &found, NULL), 0);
        expect(&found, what, made[i].kind, made[i].read_only, made[i].mount, made[i].own);
    }
}
END_TEST

static FILE *append_to(const char *name)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    FILE *file = fopen(sbx_fixture_path(path, name), "ae");
    ck_assert_ptr_nonnull(file);
    return file;
}

static void put(FILE *file, char byte, size_t count)
{
    for (; count > 0; count--) {
        ck_assert_int_ne(fputc(byte, file), EOF);
    }
}

/* Many mounts, lines of every length around the buffer's, more cgroup2 mounts than are
 * remembered: the right one, at the end, is found. */
START_TEST(a_huge_mountinfo_is_read)
{
    struct sbx_hierarchy found;
    SBX_AUTO_CLOSE int proc = make_proc("", "0::/x/y\n");
    FILE *file = append_to("proc/self/mountinfo");
    for (int i = 0; i < 30000; i++) {
        ck_assert_int_gt(fprintf(file,
                                 "%d 1 0:7 / /some/where/%d rw,relatime shared:%d - "
                                 "overlay overlay rw,lowerdir=/a:/b:/c\n",
                                 i + 100, i, i),
                         0);
    }
    for (int i = 0; i < 40; i++) {
        ck_assert_int_gt(
            fprintf(file, "%d 1 0:5 /z /n%d rw - cgroup2 none rw\n", i + 40000, i), 0);
    }
    for (size_t length = 65530; length < 65540; length++) {
        put(file, 'x', length);
        put(file, '\n', 1);
    }
    put(file, 'x', 300000);
    put(file, '\n', 1);
    /* of a line that is too long, the rest is no line of its own */
    put(file, 'x', 65536);
    ck_assert_int_gt(fprintf(file, "9 1 0:5 / /wrong rw - cgroup2 none rw\n"), 0);
    /* the longest that the kernel prints: each byte of a path escaped */
    ck_assert_int_gt(fprintf(file, "50000 1 0:7 /x /"), 0);
    for (int i = 0; i < 4094; i++) {
        ck_assert_int_gt(fprintf(file, "\\040"), 0);
    }
    ck_assert_int_gt(fprintf(file, " rw - cgroup2 none rw\n"), 0);
    ck_assert_int_gt(fprintf(file, "50001 1 0:5 / /right rw - cgroup2 none rw\n"), 0);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(sbx_hierarchy_find(proc, &found, NULL), 0);
    expect(&found, "huge", SBX_HIERARCHY_PURE, false, "/right", "/x/y");
}
END_TEST

/* Paths that are longer than any can be are not shown, rather than cut. */
START_TEST(paths_that_do_not_fit_do_not_count)
{
    struct sbx_hierarchy found;
    SBX_AUTO_CLOSE int proc = make_proc("9 1 0:5 / /m rw - cgroup2 none rw\n", "");
    FILE *file = append_to("proc/self/cgroup");
    ck_assert_int_gt(fprintf(file, "0::/"), 0);
    put(file, 'x', SBX_GROUP_PATH_SIZE - 1);
    ck_assert_int_eq(fclose(file), 0);
    file = append_to("proc/self/mountinfo");
    ck_assert_int_gt(fprintf(file, "10 1 0:5 / /"), 0);
    put(file, 'x', SBX_GROUP_PATH_SIZE - 1);
    ck_assert_int_gt(fprintf(file, " rw - cgroup2 none rw\n"), 0);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(sbx_hierarchy_find(proc, &found, NULL), 0);
    expect(&found, "long", SBX_HIERARCHY_PURE, false, "/m", "");
}
END_TEST

START_TEST(a_missing_proc_is_a_failure_and_missing_groups_are_none)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    struct sbx_error error = {0};
    struct sbx_hierarchy found;
    unsigned char before[sizeof(found)];
    memset(&found, 0xa5, sizeof(found));
    memcpy(before, &found, sizeof(found));
    SBX_AUTO_CLOSE int proc = make_proc("9 1 0:5 / /m rw - cgroup2 none rw\n", "0::/\n");
    ck_assert_int_eq(unlink(sbx_fixture_path(path, "proc/self/mountinfo")), 0);
    ck_assert_int_eq(sbx_hierarchy_find(proc, &found, &error), -ENOENT);
    ck_assert_int_eq(memcmp(before, &found, sizeof(found)), 0);
    ck_assert_int_eq(error.stage, SBX_STAGE_ARM);
    ck_assert_ptr_nonnull(strstr(error.message, "/proc/self/mountinfo"));
    /* a kernel without groups has the one file and not the other */
    sbx_kit_file("proc/self/mountinfo", "9 1 0:5 / /m rw - tmpfs none rw\n");
    ck_assert_int_eq(unlink(sbx_fixture_path(path, "proc/self/cgroup")), 0);
    ck_assert_int_eq(sbx_hierarchy_find(proc, &found, &error), 0);
    expect(&found, "no groups", SBX_HIERARCHY_NONE, false, "", "");
}
END_TEST

/* Lines one by one, the empty one and the unfinished one too, but for those too long. */
START_TEST(lines_come_one_by_one)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char *line;
    struct sbx_lines lines;
    sbx_kit_file("lines", "first\n\n");
    FILE *file = append_to("lines");
    put(file, 'x', 65536);
    ck_assert_int_gt(fprintf(file, "rest\nlast"), 0);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(sbx_lines_open(AT_FDCWD, sbx_fixture_path(path, "lines"), &lines),
                     0);
    static const char *const expected[] = {"first", "", "last"};
    for (size_t i = 0; i < COUNT(expected); i++) {
        ck_assert_int_eq(sbx_lines_next(&lines, &line), 1);
        ck_assert_str_eq(line, expected[i]);
    }
    ck_assert_int_eq(sbx_lines_next(&lines, &line), 0);
    ck_assert_int_eq(sbx_lines_next(&lines, &line), 0);
    sbx_lines_close(&lines);
    file = append_to("lines");
    put(file, 'x', 65536 - strlen("last"));
    ck_assert_int_gt(fprintf(file, "rest"), 0);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(sbx_lines_open(AT_FDCWD, path, &lines), 0);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(sbx_lines_next(&lines, &line), 1);
    }
    ck_assert_int_eq(sbx_lines_next(&lines, &line), 0);
    sbx_lines_close(&lines);
}
END_TEST

/* A file that does not end is left at 64 MiB. */
START_TEST(reading_is_bounded)
{
    char *line;
    struct sbx_lines lines;
    SBX_AUTO_CLOSE int device = open_directory("/dev");
    ck_assert_int_eq(sbx_lines_open(device, "zero", &lines), 0);
    ck_assert_int_eq(sbx_lines_next(&lines, &line), -EFBIG);
    ck_assert_uint_le(lines.total, UINT64_C(65) * 1024 * 1024);
    sbx_lines_close(&lines);
    sbx_lines_close(&lines);
    ck_assert_int_eq(sbx_lines_open(device, "no such device", &lines), -ENOENT);
}
END_TEST

/* ---- a group that is named ---- */

static struct sbx_hierarchy pretended(void)
{
    struct sbx_hierarchy hierarchy = {.kind = SBX_HIERARCHY_PURE, .own = "/"};
    char mount[SBX_FIXTURE_PATH_SIZE];
    sbx_kit_group("/a/b c", "domain\n", "", "", "");
    (void)snprintf(hierarchy.mount, sizeof(hierarchy.mount), "%s", sbx_kit_mount(mount));
    return hierarchy;
}

static void expect_open(const struct sbx_hierarchy *hierarchy, int directory,
                        const char *path, const char *as)
{
    struct sbx_named_group found;
    struct sbx_error error = {0};
    int result = sbx_hierarchy_open(hierarchy, directory, path, &found, &error);
    ck_assert_msg(result == 0, "%s: %s", path, error.message);
    ck_assert_msg(strcmp(found.path, as) == 0, "%s: '%s'", path, found.path);
    ck_assert_int_gt(found.fd, 2);
    ck_assert_int_eq(fcntl(found.fd, F_GETFD), FD_CLOEXEC);
    ck_assert_int_eq(fcntl(found.fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    (void)close(found.fd);
}

START_TEST(a_group_is_opened_by_either_path)
{
    struct sbx_hierarchy hierarchy = pretended();
    char path[SBX_FIXTURE_PATH_SIZE];
    SBX_AUTO_CLOSE int mount = open_directory(hierarchy.mount);
    expect_open(&hierarchy, AT_FDCWD, "/", "/");
    expect_open(&hierarchy, AT_FDCWD, "/a", "/a");
    expect_open(&hierarchy, AT_FDCWD, "/a/b c", "/a/b c");
    expect_open(&hierarchy, AT_FDCWD, "//a//b c/", "/a/b c");
    expect_open(&hierarchy, AT_FDCWD, hierarchy.mount, "/");
    expect_open(&hierarchy, AT_FDCWD, sbx_fixture_path(path, "groups/a/b c/"), "/a/b c");
    expect_open(&hierarchy, mount, "a/b c", "/a/b c");
    expect_open(&hierarchy, mount, "./a/..", "/");
    /* on a cgroup2 too (here, all is), but another one */
    sbx_kit_file("groups2/cgroup.procs", "\n");
    expect_open(&hierarchy, mount, "../groups2", "../groups2");
    hierarchy.kind = SBX_HIERARCHY_NONE;
    hierarchy.mount[0] = '\0';
    expect_open(&hierarchy, AT_FDCWD, sbx_fixture_path(path, "groups/a"), path);
}
END_TEST

static void expect_refused(const struct sbx_hierarchy *hierarchy, const char *path,
                           int code, const char *why)
{
    struct sbx_named_group found = {.fd = -7, .path = "untouched"};
    struct sbx_error error = {0};
    int result = sbx_hierarchy_open(hierarchy, AT_FDCWD, path, &found, &error);
    ck_assert_msg(result == -code, "%s: %d", path, result);
    ck_assert_int_eq(error.code, code);
    ck_assert_int_eq(error.stage, SBX_STAGE_ARM);
    ck_assert_msg(strstr(error.message, why) != NULL, "%s", error.message);
    ck_assert_int_eq(found.fd, -7);
    ck_assert_str_eq(found.path, "untouched");
}

START_TEST(what_is_no_group_is_refused)
{
    struct sbx_hierarchy hierarchy = pretended();
    char path[SBX_FIXTURE_PATH_SIZE];
    char longest[SBX_GROUP_PATH_SIZE + 1];
    memset(longest, 'x', sizeof(longest));
    longest[0] = '/';
    longest[SBX_GROUP_PATH_SIZE] = '\0';
    expect_refused(&hierarchy, "", ENOENT, "no such file or directory (ENOENT)");
    expect_refused(&hierarchy, "/a/c", ENOENT, "/a/c: no such file or directory");
    expect_refused(&hierarchy, "no/such/group", ENOENT, "no/such/group: ");
    expect_refused(&hierarchy, "/a/b c/cgroup.procs", ENOENT, "/a/b c/cgroup.procs: ");
    expect_refused(&hierarchy, sbx_fixture_path(path, "groups/a/b c/cgroup.procs"),
                   ENOTDIR, "not a directory (ENOTDIR)");
    expect_refused(&hierarchy, longest, ENAMETOOLONG, "/xxx");
    expect_refused(&hierarchy, "/proc", EINVAL,
                   "/proc is no directory of a cgroup2 file system, and no group below");
    expect_refused(&hierarchy, ".", EINVAL, ". is no directory of a cgroup2");
    sbx_kit_file_system(CGROUP_SUPER_MAGIC);
    expect_refused(&hierarchy, hierarchy.mount, EINVAL,
                   "is a directory of cgroup v1, not of cgroup2");
    sbx_kit_file_system(TMPFS_MAGIC);
    expect_refused(&hierarchy, "/a", ENOENT, "/a: no such file");
    hierarchy.kind = SBX_HIERARCHY_NONE;
    expect_refused(&hierarchy, "/", EINVAL, "none is mounted");
}
END_TEST

/* ---- this host ---- */

/* Our own group, where it is visible, is the one that has us in it. */
START_TEST(our_own_group_has_us_in_it)
{
    struct sbx_hierarchy found;
    SBX_AUTO_CLOSE int proc = open_directory("/proc");
    ck_assert_int_eq(sbx_hierarchy_find(proc, &found, NULL), 0);
    if (found.kind == SBX_HIERARCHY_NONE || found.own[0] == '\0') {
        (void)fprintf(stderr, "# SKIP our own group: none is visible here\n");
        return;
    }
    SBX_AUTO_CLOSE int fd = -1;
    ck_assert_int_eq(sbx_hierarchy_open_group(&found, found.own, &fd), 0);
    struct sbx_lines lines;
    char *line;
    bool in_it = false;
    ck_assert_int_eq(sbx_lines_open(fd, "cgroup.procs", &lines), 0);
    while (sbx_lines_next(&lines, &line) > 0) {
        in_it = in_it || strtol(line, NULL, 10) == (long)getpid();
    }
    sbx_lines_close(&lines);
    ck_assert_msg(in_it, "%s%s", found.mount, found.own);
    struct stat here;
    ck_assert_int_eq(fstat(fd, &here), 0);
    bool root = fstatat(fd, "cgroup.type", &here, 0) < 0;
    ck_assert_msg(!root || strcmp(found.own, "/") == 0, "%s", found.own);
    expect_open(&found, AT_FDCWD, found.own, found.own);
}
END_TEST

START_TEST(a_real_v1_directory_is_told_from_cgroup2)
{
    struct statfs status;
    struct sbx_hierarchy found;
    SBX_AUTO_CLOSE int proc = open_directory("/proc");
    if (statfs("/sys/fs/cgroup/memory", &status) < 0 ||
        (unsigned long)status.f_type != CGROUP_SUPER_MAGIC) {
        (void)fprintf(stderr, "# SKIP a real v1 directory: none is mounted here\n");
        return;
    }
    ck_assert_int_eq(sbx_hierarchy_find(proc, &found, NULL), 0);
    expect_refused(&found, "/sys/fs/cgroup/memory", EINVAL,
                   "/sys/fs/cgroup/memory is a directory of cgroup v1");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hierarchy");
    TCase *all = sbx_fixture_case(suite, "hierarchy", 60);
    tcase_add_test(all, controllers_are_told_by_whole_words);
    tcase_add_test(all, captured_surroundings_are_read);
    tcase_add_test(all, lines_made_by_hand_are_read);
    tcase_add_test(all, a_huge_mountinfo_is_read);
    tcase_add_test(all, paths_that_do_not_fit_do_not_count);
    tcase_add_test(all, a_missing_proc_is_a_failure_and_missing_groups_are_none);
    tcase_add_test(all, lines_come_one_by_one);
    tcase_add_test(all, reading_is_bounded);
    tcase_add_test(all, a_group_is_opened_by_either_path);
    tcase_add_test(all, what_is_no_group_is_refused);
    tcase_add_test(all, our_own_group_has_us_in_it);
    tcase_add_test(all, a_real_v1_directory_is_told_from_cgroup2);
    return sbx_fixture_run(suite);
}
