/*
 * test_place.c - below which group a leaf can be made, and why not: scenes on pretended
 * hierarchies, on this host, and in a group that was delegated to this user (a guest's).
 */
#include "cgroup/place.h"

#include "base/fd.h"
#include "tests/fixture.h"
#include "tests/place_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MEMORY SBX_CONTROLLER_BIT(SBX_CONTROLLER_MEMORY)
#define PIDS SBX_CONTROLLER_BIT(SBX_CONTROLLER_PIDS)
#define CPU SBX_CONTROLLER_BIT(SBX_CONTROLLER_CPU)
#define ALL (MEMORY | PIDS | CPU)
#define NODES 5
#define OURS 3

/* A group of a scene; further files come in pairs of name and text. */
struct node {
    const char *group;
    const char *type;
    const char *controllers;
    const char *on;
    const char *procs;
    const char *files[4];
};

/* What is told is a pattern of fnmatch(3). */
struct scene {
    const char *what;
    const char *own;
    struct node nodes[NODES];
    const char *refuse; /* this file cannot be written */
    unsigned wanted;    /* 0: all */
    int ours[OURS];
    const char *path; /* of the place; NULL: there is none */
    unsigned on;
    unsigned offered;
    bool must_leave;
    const char *why; /* for all that is neither on nor offered, or why there is none */
};

#define EVERY "cpuset cpu io memory pids\n"
#define D "domain\n"
#define LEAF "sbx-00000000000a1b2c-77-123456-0"

static const struct scene scenes[] = {
    /* the root of a hierarchy may have processes beside everything */
    {.what = "a bare root",
     .own = "/",
     .nodes = {{"/", NULL, "", "", "1\n4101\n", {0}}},
     .path = "/",
     .why = "not in */groups/cgroup.controllers"},
    {.what = "the root offers",
     .own = "/",
     .nodes = {{"/", NULL, EVERY, "pids\n", "1\n4101\n", {0}}},
     .path = "/",
     .on = PIDS,
     .offered = MEMORY | CPU},
    {.what = "the root cannot be changed",
     .own = "/",
     .nodes = {{"/", NULL, EVERY, "pids\n", "1\n", {0}}},
     .refuse = "/cgroup.subtree_control",
     .path = "/",
     .on = PIDS,
     .why = "*/groups/cgroup.subtree_control cannot be written: permission denied "
            "(EACCES)"},
    /* our own group: nobody in it, we, somebody else */
    {.what = "nobody in our own",
     .own = "/a",
     .nodes = {{"/", NULL, EVERY, EVERY, "", {0}}, {"/a", D, EVERY, "", "", {0}}},
     .path = "/a",
     .offered = ALL},
    {.what = "we in our own",
     .own = "/a",
     .nodes = {{"/", NULL, EVERY, "", "", {0}},
               {"/a", D, EVERY, "", "4101\n4102\n", {0}}},
     .ours = {4102, 4101},
     .path = "/a",
     .offered = ALL,
     .must_leave = true},
    {.what = "one more in our own, and above nothing is better",
     .own = "/a",
     .nodes = {{"/", NULL, "", "", "", {0}},
               {"/a", D, EVERY, "", "4101\n4103\n4102\n", {0}}},
     .ours = {4102, 4101},
     .path = "/a",
     .why = "process 4103 (a\\\\x0Ab) is in */groups/a, and a group with processes has "
            "no controllers for its children"},
    {.what = "one whose name is not known",
     .own = "/a",
     .nodes = {{"/", NULL, "", "", "", {0}}, {"/a", D, EVERY, "", "77\n", {0}}},
     .path = "/a",
     .why = "process 77 is in */groups/a, and a group with processes has no controllers "
            "for its children"},
    {.what = "one of another PID namespace",
     .own = "/a",
     .nodes = {{"/", NULL, "", "", "", {0}}, {"/a", D, EVERY, "", "0\n4101\n", {0}}},
     .ours = {4101},
     .path = "/a",
     .why = "a process of another PID namespace is in */groups/a, and a group *"},
    {.what = "we in our own, which cannot be changed",
     .own = "/a",
     .nodes = {{"/", NULL, "", "", "", {0}}, {"/a", D, EVERY, "", "4101\n", {0}}},
     .refuse = "/a/cgroup.subtree_control",
     .ours = {4101},
     .path = "/a",
     .why = "*/groups/a/cgroup.subtree_control cannot be written: *(EACCES)"},
    {.what = "we in our own, which has nothing to offer",
     .own = "/a",
     .nodes = {{"/", NULL, "", "", "", {0}}, {"/a", D, "io\n", "", "4101\n", {0}}},
     .ours = {4101},
     .path = "/a",
     .why = "not in */groups/a/cgroup.controllers"},
    {.what = "what is on needs no right to change it",
     .own = "/a",
     .nodes = {{"/", NULL, "", "", "", {0}}, {"/a", D, EVERY, EVERY, "", {0}}},
     .refuse = "/a/cgroup.subtree_control",
     .path = "/a",
     .on = ALL},
    /* up: for all that is wanted, or for more, and no further than needed */
    {.what = "up to the one that has all on",
     .own = "/a/b/c",
     .nodes = {{"/", NULL, EVERY, EVERY, "", {0}},
               {"/a", D, EVERY, EVERY, "", {0}},
               {"/a/b", D, EVERY, EVERY, "", {0}},
               {"/a/b/c", D, EVERY, "", "77\n", {0}}},
     .path = "/a/b",
     .on = ALL},
    {.what = "the nearest with all",
     .own = "/a/b",
     .nodes = {{"/", NULL, EVERY, EVERY, "", {0}},
               {"/a", D, EVERY, EVERY, "", {0}},
               {"/a/b", D, EVERY, "", "4101\n", {0}}},
     .ours = {4101},
     .path = "/a/b",
     .offered = ALL,
     .must_leave = true},
    {.what = "the nearest with most of them",
     .own = "/a/b/c",
     .nodes = {{"/", NULL, "memory pids\n", "memory pids\n", "", {0}},
               {"/a", D, "memory pids\n", "memory pids\n", "", {0}},
               {"/a/b", D, "memory pids\n", "pids\n", "", {0}},
               {"/a/b/c", D, "pids\n", "", "", {0}}},
     .path = "/a/b",
     .on = PIDS,
     .offered = MEMORY,
     .why = "not in */groups/a/b/cgroup.controllers"},
    {.what = "no further than for what is wanted",
     .own = "/a/b",
     .nodes = {{"/", NULL, EVERY, EVERY, "", {0}},
               {"/a", D, EVERY, EVERY, "", {0}},
               {"/a/b", D, "cpu\n", "", "", {0}}},
     .wanted = CPU,
     .path = "/a/b",
     .offered = CPU,
     .why = "not in */groups/a/b/cgroup.controllers"},
    {.what = "nothing is better above",
     .own = "/a",
     .nodes = {{"/", NULL, "", "", "", {0}}, {"/a", D, "", "", "77\n", {0}}},
     .path = "/a",
     .why = "not in */groups/a/cgroup.controllers"},
    /* as far as we may write: the directory, and whom to put there */
    {.what = "not above what we cannot write",
     .own = "/a/b",
     .nodes = {{"/", NULL, EVERY, EVERY, "", {0}},
               {"/a", D, EVERY, "", "", {0}},
               {"/a/b", D, EVERY, "", "77\n", {0}}},
     .refuse = "/a",
     .path = "/a/b",
     .why = "process 77 *"},
    {.what = "not above whose processes we cannot write",
     .own = "/a/b",
     .nodes = {{"/", NULL, EVERY, EVERY, "", {0}},
               {"/a", D, EVERY, "", "", {0}},
               {"/a/b", D, "", "", "", {0}}},
     .refuse = "/a/cgroup.procs",
     .path = "/a/b",
     .why = "not in */groups/a/b/cgroup.controllers"},
    {.what = "not where we are, so nowhere",
     .own = "/a",
     .nodes = {{"/", NULL, EVERY, EVERY, "", {0}}, {"/a", D, EVERY, "", "", {0}}},
     .refuse = "/a",
     .why = "*/groups/a cannot be written: permission denied (EACCES)"},
    {.what = "nobody may be put where we are, so nowhere",
     .own = "/a",
     .nodes = {{"/", NULL, EVERY, EVERY, "", {0}}, {"/a", D, EVERY, "", "", {0}}},
     .refuse = "/a/cgroup.procs",
     .why = "*/groups/a/cgroup.procs cannot be written: permission denied (EACCES)"},
    /* not away from a limit */
    {.what = "a limit of memory",
     .own = "/a/b",
     .nodes = {{"/a", D, EVERY, EVERY, "", {0}},
               {"/a/b", D, EVERY, "", "77\n", {"memory.max", "4096\n"}}},
     .path = "/a/b",
     .why = "process 77 *"},
    {.what = "a soft limit of memory",
     .own = "/a/b",
     .nodes = {{"/a", D, EVERY, EVERY, "", {0}},
               {"/a/b", D, EVERY, "", "77\n", {"memory.high", "0\n"}}},
     .path = "/a/b",
     .why = "process 77 *"},
    {.what = "a limit of swap",
     .own = "/a/b",
     .nodes = {{"/a", D, EVERY, EVERY, "", {0}},
               {"/a/b", D, EVERY, "", "77\n", {"memory.swap.max", "0\n"}}},
     .path = "/a/b",
     .why = "process 77 *"},
    {.what = "a limit of tasks",
     .own = "/a/b",
     .nodes = {{"/a", D, EVERY, EVERY, "", {0}},
               {"/a/b", D, EVERY, "", "77\n", {"pids.max", "20\n"}}},
     .path = "/a/b",
     .why = "process 77 *"},
    {.what = "a limit of processor time",
     .own = "/a/b",
     .nodes = {{"/a", D, EVERY, EVERY, "", {0}},
               {"/a/b", D, EVERY, "", "77\n", {"cpu.max", "50000 100000\n"}}},
     .path = "/a/b",
     .why = "process 77 *"},
    {.what = "a limit of input and output",
     .own = "/a/b",
     .nodes = {{"/a", D, EVERY, EVERY, "", {0}},
               {"/a/b", D, EVERY, "", "77\n", {"io.max", "8:0 rbps=1048576\n"}}},
     .path = "/a/b",
     .why = "process 77 *"},
    {.what = "a choice of processors",
     .own = "/a/b",
     .nodes = {{"/a", D, EVERY, EVERY, "", {0}},
               {"/a/b", D, EVERY, "", "77\n", {"cpuset.cpus", "0\n"}}},
     .path = "/a/b",
     .why = "process 77 *"},
    {.what = "no choice of processors, and no limit of input and output",
     .own = "/a/b",
     .nodes = {{"/", NULL, "", "", "", {0}},
               {"/a", D, EVERY, EVERY, "", {0}},
               {"/a/b", D, EVERY, "", "77\n", {"cpuset.cpus", "\n", "io.max", ""}}},
     .path = "/a",
     .on = ALL},
    {.what = "a limit that says nothing",
     .own = "/a/b",
     .nodes = {{"/a", D, EVERY, EVERY, "", {0}},
               {"/a/b", D, EVERY, "", "77\n", {"cpu.max", ""}}},
     .path = "/a/b",
     .why = "process 77 *"},
    {.what = "a limit that cannot be read",
     .own = "/a/b",
     .nodes = {{"/a", D, EVERY, EVERY, "", {0}},
               {"/a/b", D, EVERY, "", "77\n", {"pids.max/is-a-directory", ""}}},
     .path = "/a/b",
     .why = "process 77 *"},
    {.what = "files of limits that are none",
     .own = "/a/b",
     .nodes = {{"/", NULL, "", "", "", {0}},
               {"/a", D, EVERY, EVERY, "", {0}},
               {"/a/b",
                D,
                EVERY,
                "",
                "77\n",
                {"cpu.max", "max 100000\n", "memory.max", "max\n"}}},
     .path = "/a",
     .on = ALL},
    {.what = "a limit on the way is the end of it, and still a place",
     .own = "/a/b/c",
     .nodes = {{"/a", D, EVERY, EVERY, "", {0}},
               {"/a/b", D, EVERY, "", "", {"pids.max", "9\n"}},
               {"/a/b/c", D, "", "", "", {0}}},
     .path = "/a/b",
     .offered = ALL},
    /* not out of another run */
    {.what = "not out of a leaf",
     .own = "/a/" LEAF,
     .nodes = {{"/a", D, EVERY, EVERY, "", {0}}, {"/a/" LEAF, D, EVERY, "", "77\n", {0}}},
     .path = "/a/" LEAF,
     .why = "process 77 *"},
    {.what = "up to a leaf",
     .own = "/a/" LEAF "/b",
     .nodes = {{"/a", D, EVERY, EVERY, "", {0}},
               {"/a/" LEAF, D, EVERY, "memory\n", "", {0}},
               {"/a/" LEAF "/b", D, EVERY, "", "77\n", {0}}},
     .path = "/a/" LEAF,
     .on = MEMORY,
     .offered = PIDS | CPU},
    {.what = "what only looks like a leaf",
     .own = "/a/sbx-00000000000a1b2c-77-123456-",
     .nodes = {{"/", NULL, "", "", "", {0}},
               {"/a", D, EVERY, EVERY, "", {0}},
               {"/a/sbx-00000000000a1b2c-77-123456-", D, EVERY, "", "77\n", {0}}},
     .path = "/a",
     .on = ALL},
    {.what = "out of where one of us made room, and not in it",
     .own = "/a/sbx-self",
     .nodes = {{"/", NULL, "", "", "", {0}},
               {"/a", D, EVERY, EVERY, "", {0}},
               {"/a/sbx-self", D, EVERY, "", "", {0}}},
     .path = "/a",
     .on = ALL},
    {.what = "made room in what we cannot write",
     .own = "/a/sbx-self",
     .nodes = {{"/a", D, EVERY, EVERY, "", {0}}, {"/a/sbx-self", D, EVERY, "", "", {0}}},
     .refuse = "/a",
     .why = "*/groups/a cannot be written: *"},
    /* threads */
    {.what = "out of threaded groups",
     .own = "/a/b/c",
     .nodes = {{"/", NULL, "", "", "", {0}},
               {"/a", D, EVERY, EVERY, "", {0}},
               {"/a/b", "domain threaded\n", "cpu pids\n", "cpu\n", "77\n", {0}},
               {"/a/b/c", "threaded\n", "cpu\n", "", "", {0}}},
     .path = "/a",
     .on = ALL},
    {.what = "a threaded group that we cannot leave",
     .own = "/a/b",
     .nodes = {{"/a", "domain threaded\n", EVERY, "", "", {0}},
               {"/a/b", "threaded\n", "cpu\n", "", "", {"cpu.max", "1000 100000\n"}}},
     .why = "*/groups/a/b/cgroup.type says \"threaded\": below a threaded group *"},
    {.what = "an invalid group",
     .own = "/a/b",
     .nodes = {{"/a", "domain invalid\n", EVERY, "", "", {0}},
               {"/a/b", "domain invalid\n", EVERY, "", "", {0}}},
     .refuse = "/",
     .why = "*/groups/a/b/cgroup.type says \"domain invalid\": *"},
};

static void build(const struct scene *scene)
{
    sbx_kit_group("/", NULL, "", "", "");
    for (size_t i = 0; i < NODES && scene->nodes[i].group != NULL; i++) {
        const struct node *node = &scene->nodes[i];
        sbx_kit_group(node->group, node->type, node->controllers, node->on, node->procs);
        for (size_t k = 0; k < COUNT(node->files) && node->files[k] != NULL; k += 2) {
            char name[SBX_FIXTURE_PATH_SIZE];
            (void)snprintf(name, sizeof(name), "groups%s/%s", node->group,
                           node->files[k]);
            sbx_kit_file(name, "%s", node->files[k + 1]);
        }
    }
    sbx_kit_file("proc/4101/comm", "bash\n");
    sbx_kit_file("proc/4103/comm", "a\nb\n");
    sbx_kit_refuse(scene->refuse, EACCES);
}

static void expect_told(const struct scene *scene, const char *told)
{
    ck_assert_msg(scene->why != NULL && fnmatch(scene->why, told, 0) == 0, "%s: \"%s\"",
                  scene->what, told);
}

static void expect_place(const struct scene *scene, const struct sbx_place *place)
{
    ck_assert_msg(strcmp(place->path, scene->path) == 0, "%s: in %s", scene->what,
                  place->path);
    ck_assert_msg(place->on == scene->on && place->offered == scene->offered,
                  "%s: on %#x, offered %#x", scene->what, place->on, place->offered);
    ck_assert_msg(place->must_leave == scene->must_leave, "%s: must leave: %d",
                  scene->what, place->must_leave);
    ck_assert_int_eq(place->is_own, strcmp(scene->own, scene->path) == 0);
    for (unsigned i = 0; i < SBX_CONTROLLER_COUNT; i++) {
        if (((place->on | place->offered) & SBX_CONTROLLER_BIT(i)) != 0) {
            ck_assert_str_eq(place->why[i], "");
        } else {
            expect_told(scene, place->why[i]);
        }
    }
    ck_assert_int_gt(place->fd, 2);
    ck_assert_int_eq(fcntl(place->fd, F_GETFD), FD_CLOEXEC);
    struct stat here;
    struct stat there;
    char mount[SBX_FIXTURE_PATH_SIZE];
    char path[2 * SBX_FIXTURE_PATH_SIZE];
    (void)snprintf(path, sizeof(path), "%s%s", sbx_kit_mount(mount), scene->path);
    ck_assert_int_eq(stat(path, &there), 0);
    ck_assert_int_eq(fstat(place->fd, &here), 0);
    ck_assert_uint_eq(here.st_ino, there.st_ino);
}

START_TEST(the_nearest_place_counts)
{
    const struct scene *scene = &scenes[_i];
    struct sbx_place place = {.fd = -1};
    char why[SBX_WHY_SIZE] = "";
    struct sbx_place_request request = {
        .wanted = scene->wanted != 0 ? scene->wanted : ALL, .ours = scene->ours};
    while (request.ours_count < OURS && scene->ours[request.ours_count] != 0) {
        request.ours_count++;
    }
    build(scene);
    SBX_AUTO_CLOSE int proc = sbx_kit_proc(scene->own);
    int found = sbx_place_find(proc, &request, &place, why, NULL);
    ck_assert_msg(found == (scene->path != NULL), "%s: %d, \"%s\"", scene->what, found,
                  why);
    if (found > 0) {
        expect_place(scene, &place);
        ck_assert_str_eq(why, "");
    } else {
        expect_told(scene, why);
        ck_assert_int_eq(place.fd, -1);
    }
    sbx_place_done(&place);
    sbx_place_done(&place);
}
END_TEST

/* ---- where there is no place at all ---- */

START_TEST(without_a_hierarchy_there_is_no_place)
{
    static const struct {
        const char *mounts;
        const char *groups;
        const char *why;
    } cases[] = {
        {"9 1 0:5 / /m rw - cgroup none rw,memory\n", "1:memory:/\n",
         "no cgroup2 file system is mounted"},
        {"9 1 0:5 / /m rw - cgroup2 none rw\n", "0::/../x\n",
         "our own group is not visible below /m: *"},
        {"9 1 0:5 / /m ro - cgroup2 none rw\n", "0::/x\n", "/m is mounted read-only"},
        {"9 1 0:5 / /proc rw - cgroup2 none rw\n", "0::/self\n",
         "/proc/self is not on the cgroup2 that mountinfo shows there"},
        {"9 1 0:5 / /m/none rw - cgroup2 none rw\n", "0::/x\n",
         "/m/none/x cannot be opened: no such file or directory (ENOENT)"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sbx_place place = {.fd = -7};
        char path[SBX_FIXTURE_PATH_SIZE];
        char why[SBX_WHY_SIZE] = "";
        struct sbx_place_request request = {.wanted = ALL};
        sbx_kit_file("proc/self/mountinfo", "%s", cases[i].mounts);
        sbx_kit_file("proc/self/cgroup", "%s", cases[i].groups);
        SBX_AUTO_CLOSE int proc =
            open(sbx_fixture_path(path, "proc"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ck_assert_int_eq(sbx_place_find(proc, &request, &place, why, NULL), 0);
        ck_assert_msg(fnmatch(cases[i].why, why, 0) == 0, "\"%s\"", why);
        ck_assert_int_eq(place.fd, -7);
    }
}
END_TEST

START_TEST(a_missing_proc_is_a_failure)
{
    struct sbx_error error = {0};
    struct sbx_place place = {.fd = -7};
    char why[SBX_WHY_SIZE] = "";
    struct sbx_place_request request = {.wanted = ALL};
    SBX_AUTO_CLOSE int nothing =
        open(sbx_fixture_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(sbx_place_find(nothing, &request, &place, why, &error), -ENOENT);
    ck_assert_int_eq(place.fd, -7);
    ck_assert_ptr_nonnull(strstr(error.message, "/proc/self/mountinfo"));
}
END_TEST

/* Of a path that is too long for a message, the end is told. */
START_TEST(a_long_path_is_told_by_its_end)
{
    char own[SBX_FIXTURE_PATH_SIZE] = "";
    char why[SBX_WHY_SIZE] = "";
    struct sbx_place place = {.fd = -1};
    struct sbx_place_request request = {.wanted = MEMORY};
    for (size_t i = 0; i < 6; i++) {
        size_t length = strlen(own);
        (void)snprintf(own + length, sizeof(own) - length,
                       "/run-\xc3\xa4-of-somebody-with-a-long-name-%zu.slice", i);
    }
    const struct scene scene = {.nodes = {{own, D, EVERY, "", "4101\n", {0}}}};
    build(&scene);
    SBX_AUTO_CLOSE int proc = sbx_kit_proc(own);
    ck_assert_int_eq(sbx_place_find(proc, &request, &place, why, NULL), 1);
    ck_assert_msg(fnmatch("process 4101 (bash) is in ...*long-name-5.slice, and a group "
                          "with processes has no controllers for its children",
                          place.why[SBX_CONTROLLER_MEMORY], 0) == 0,
                  "\"%s\"", place.why[SBX_CONTROLLER_MEMORY]);
    sbx_place_done(&place);
}
END_TEST

/* Pid 0 stands for whoever has no pid here, so it is never ours. */
START_TEST(pid_0_is_never_ours)
{
    static const int ours[] = {0, 4101};
    const struct scene scene = {.nodes = {{"/a", D, EVERY, "", "4101\n0\n", {0}}}};
    struct sbx_place place = {.fd = -1};
    char why[SBX_WHY_SIZE] = "";
    struct sbx_place_request request = {.wanted = ALL, .ours = ours, .ours_count = 2};
    build(&scene);
    SBX_AUTO_CLOSE int proc = sbx_kit_proc("/a");
    ck_assert_int_eq(sbx_place_find(proc, &request, &place, why, NULL), 1);
    ck_assert_uint_eq(place.offered, 0);
    ck_assert(!place.must_leave);
    sbx_place_done(&place);
}
END_TEST

/* What a v1 hierarchy has is told so. */
START_TEST(controllers_of_a_v1_hierarchy_are_told)
{
    const struct scene scene = {.nodes = {{"/", NULL, "cpu\n", "", "", {0}}}};
    struct sbx_place place = {.fd = -1};
    char why[SBX_WHY_SIZE] = "";
    struct sbx_place_request request = {.wanted = ALL};
    build(&scene);
    SBX_AUTO_CLOSE int proc = sbx_kit_proc("/");
    sbx_kit_file("proc/self/cgroup", "3:blkio,memory:/x\n0::/\n");
    ck_assert_int_eq(sbx_place_find(proc, &request, &place, why, NULL), 1);
    ck_assert_int_eq(fnmatch("not in */cgroup.controllers (a cgroup v1 hierarchy has it)",
                             place.why[SBX_CONTROLLER_MEMORY], 0),
                     0);
    ck_assert_int_eq(
        fnmatch("not in */cgroup.controllers", place.why[SBX_CONTROLLER_PIDS], 0), 0);
    ck_assert_uint_eq(place.offered, CPU);
    sbx_place_done(&place);
}
END_TEST

/* ---- the one that was named ---- */

static const struct scene delegated = {
    .nodes = {{"/", NULL, EVERY, EVERY, "", {0}},
              {"/a", D, EVERY, EVERY, "", {"memory.max", "4096\n"}},
              {"/a/b", D, EVERY, "", "4101\n", {0}},
              {"/a/c", D, EVERY, "", "77\n", {0}},
              {"/t", "threaded\n", EVERY, "", "", {0}}}};

START_TEST(the_named_place_is_the_only_one)
{
    static const struct {
        const char *root;
        const char *path;
        unsigned on;
        unsigned offered;
        bool must_leave;
        bool is_own;
    } cases[] = {
        {"/a/b", "/a/b", 0, ALL, true, true},       {"/a/c", "/a/c", 0, 0, false, false},
        {"/", "/", ALL, 0, false, false},           {"a", "/a", ALL, 0, false, false},
        {"./a/../a/b", "/a/b", 0, ALL, true, true},
    };
    static const int ours[] = {4101};
    char path[SBX_FIXTURE_PATH_SIZE];
    build(&delegated);
    SBX_AUTO_CLOSE int proc = sbx_kit_proc("/a/b");
    SBX_AUTO_CLOSE int mount =
        open(sbx_kit_mount(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sbx_error error = {0};
        struct sbx_place place = {.fd = -1};
        char why[SBX_WHY_SIZE] = "";
        struct sbx_place_request request = {.root = cases[i].root,
                                            .root_directory_fd = mount,
                                            .wanted = ALL,
                                            .ours = ours,
                                            .ours_count = 1};
        int found = sbx_place_find(proc, &request, &place, why, &error);
        ck_assert_msg(found == 1, "%s: %s", cases[i].root, error.message);
        ck_assert_str_eq(place.path, cases[i].path);
        ck_assert_uint_eq(place.on, cases[i].on);
        ck_assert_uint_eq(place.offered, cases[i].offered);
        ck_assert_int_eq(place.must_leave, cases[i].must_leave);
        ck_assert_int_eq(place.is_own, cases[i].is_own);
        ck_assert_int_gt(place.fd, 2);
        sbx_place_done(&place);
    }
}
END_TEST

START_TEST(a_named_place_that_cannot_be_used_is_an_error)
{
    static const struct {
        const char *root;
        const char *refuse;
        int code;
        int refused_with;
        const char *message;
    } cases[] = {
        {"/a/none", NULL, ENOENT, 0,
         "--cgroup-root: /a/none: no such file or directory (ENOENT)"},
        {"/proc", NULL, EINVAL, 0, "--cgroup-root: /proc is no directory of a cgroup2 *"},
        {"/a/c", "/a/c", EACCES, EACCES,
         "--cgroup-root /a/c: no group can be made there: */groups/a/c cannot be "
         "written: "
         "permission denied (EACCES); it must be delegated to this user (systemd-run "
         "--user --scope -p Delegate=yes)"},
        {"/a/c", "/a/c/cgroup.procs", EROFS, EROFS,
         "--cgroup-root /a/c: *: */groups/a/c/cgroup.procs cannot be written: read-only "
         "file system (EROFS); *"},
        {"/a/c", "/a/cgroup.procs", EACCES, EACCES,
         "--cgroup-root /a/c: *: */groups/a/cgroup.procs, above it and our own group, "
         "cannot be written: permission denied (EACCES); *"},
        {"/", "/cgroup.procs", EACCES, EACCES, "--cgroup-root /: *"},
        {"/t", NULL, EOPNOTSUPP, 0,
         "--cgroup-root /t: no group can be made there: */groups/t/cgroup.type says "
         "\"threaded\": *"},
    };
    build(&delegated);
    SBX_AUTO_CLOSE int proc = sbx_kit_proc("/a/b");
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sbx_error error = {0};
        struct sbx_place place = {.fd = -7};
        char why[SBX_WHY_SIZE] = "";
        struct sbx_place_request request = {
            .root = cases[i].root, .root_directory_fd = AT_FDCWD, .wanted = ALL};
        sbx_kit_refuse(cases[i].refuse, cases[i].refused_with);
        int found = sbx_place_find(proc, &request, &place, why, &error);
        ck_assert_msg(found == -cases[i].code, "case %zu: %d", i, found);
        ck_assert_msg(fnmatch(cases[i].message, error.message, 0) == 0, "\"%s\"",
                      error.message);
        ck_assert_int_eq(error.stage, SBX_STAGE_ARM);
        ck_assert_int_eq(error.code, cases[i].code);
        ck_assert_int_eq(place.fd, -7);
    }
}
END_TEST

/* What refuses /a/x must not refuse the way to /a/b/d: the nearest group above both is
 * asked, by whole components. */
START_TEST(the_way_to_the_named_place_is_asked_for_at_the_nearest)
{
    static const struct {
        const char *own;
        const char *root;
        const char *asked;
    } cases[] = {
        {"/a/b/c", "/a/b/d", "/a/b"},
        {"/a/b", "/a/b/d", "/a/b"},
        {"/a/b/c", "/a/b", "/a/b"},
        {"/a/b", "/a/bc", "/a"},
        {"/a/bc", "/a/b", "/a"},
        {"/b", "/a/b", "/"},
        {"/", "/a", "/"},
        {"/a", "/", "/"},
        {"/a/b", "/a/b", "/a/b"},
    };
    static const char *const groups[] = {"/",     "/a",     "/b",    "/a/b",
                                         "/a/bc", "/a/b/c", "/a/b/d"};
    for (size_t i = 0; i < COUNT(groups); i++) {
        sbx_kit_group(groups[i], strcmp(groups[i], "/") == 0 ? NULL : D, "", "", "");
    }
    for (size_t i = 0; i < COUNT(cases); i++) {
        SBX_AUTO_CLOSE int proc = sbx_kit_proc(cases[i].own);
        for (size_t k = 0; k < COUNT(groups); k++) {
            struct sbx_place place = {.fd = -1};
            char refused[SBX_FIXTURE_PATH_SIZE];
            char why[SBX_WHY_SIZE] = "";
            struct sbx_place_request request = {
                .root = cases[i].root, .root_directory_fd = AT_FDCWD, .wanted = ALL};
            (void)snprintf(refused, sizeof(refused), "%s/cgroup.procs",
                           strcmp(groups[k], "/") == 0 ? "" : groups[k]);
            sbx_kit_refuse(refused, EACCES);
            bool needed = strcmp(groups[k], cases[i].asked) == 0 ||
                          strcmp(groups[k], cases[i].root) == 0;
            int found = sbx_place_find(proc, &request, &place, why, NULL);
            ck_assert_msg(found == (needed ? -EACCES : 1), "%s to %s without %s: %d",
                          cases[i].own, cases[i].root, refused, found);
            sbx_place_done(&place);
        }
    }
}
END_TEST

/* ---- this host ---- */

static int open_proc(void)
{
    int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    return fd;
}

/* A group can be made in what was found, and has the controllers that are on. */
static void expect_usable(const struct sbx_place *place)
{
    char name[64];
    char file[128];
    char text[1024];
    (void)snprintf(name, sizeof(name), "sbxtest-%d", (int)getpid());
    (void)snprintf(file, sizeof(file), "%s/cgroup.controllers", name);
    ck_assert_msg(mkdirat(place->fd, name, 0755) == 0, "%s: %s", place->path,
                  strerror(errno));
    ssize_t length = sbx_fd_read_text_at(place->fd, file, text, sizeof(text));
    ck_assert_int_eq(unlinkat(place->fd, name, AT_REMOVEDIR), 0);
    ck_assert_int_ge(length, 0);
    ck_assert_uint_eq(sbx_controllers_parse(text), place->on);
}

START_TEST(what_is_found_on_this_host_can_be_used)
{
    struct sbx_hierarchy hierarchy;
    struct sbx_place place = {.fd = -1};
    char why[SBX_WHY_SIZE] = "";
    struct sbx_place_request request = {.wanted = ALL};
    SBX_AUTO_CLOSE int proc = open_proc();
    ck_assert_int_eq(sbx_hierarchy_find(proc, &hierarchy, NULL), 0);
    int found = sbx_place_find(proc, &request, &place, why, NULL);
    ck_assert_int_ge(found, 0);
    if (found == 0) {
        ck_assert_str_ne(why, "");
        (void)fprintf(stderr, "# SKIP a place on this host: %s\n", why);
        return;
    }
    expect_usable(&place);
    for (unsigned i = 0; i < SBX_CONTROLLER_COUNT; i++) {
        bool had = ((place.on | place.offered) & SBX_CONTROLLER_BIT(i)) != 0;
        ck_assert_int_eq(had, place.why[i][0] == '\0');
        if ((hierarchy.held_by_v1 & SBX_CONTROLLER_BIT(i)) != 0) {
            ck_assert_int_eq(
                fnmatch("not in */cgroup.controllers (a cgroup v1 *", place.why[i], 0),
                0);
        }
    }
    sbx_place_done(&place);
}
END_TEST

/* What counts is the effective user, who is what we are when groups are made. */
START_TEST(nobody_is_refused_where_root_is_not)
{
    struct sbx_hierarchy hierarchy;
    struct sbx_place place = {.fd = -1};
    struct sbx_error error = {0};
    char why[SBX_WHY_SIZE] = "";
    struct sbx_place_request request = {.wanted = ALL};
    if (getuid() != 0) {
        (void)fprintf(stderr, "# SKIP nobody beside root: only root can be two\n");
        return;
    }
    SBX_AUTO_CLOSE int proc = open_proc();
    ck_assert_int_eq(sbx_hierarchy_find(proc, &hierarchy, NULL), 0);
    if (hierarchy.own[0] == '\0' || hierarchy.read_only) {
        (void)fprintf(stderr, "# SKIP nobody beside root: root has no place here\n");
        return;
    }
    ck_assert_int_eq(seteuid(65534), 0);
    int found = sbx_place_find(proc, &request, &place, why, NULL);
    request.root = "/";
    request.root_directory_fd = AT_FDCWD;
    int named = sbx_place_find(proc, &request, &place, why, &error);
    ck_assert_int_eq(seteuid(0), 0);
    ck_assert_int_eq(found, 0);
    ck_assert_msg(fnmatch("/* cannot be written: permission denied (EACCES)", why, 0) ==
                      0,
                  "\"%s\"", why);
    ck_assert_int_eq(named, -EACCES);
    ck_assert_msg(strncmp(error.message, "--cgroup-root /: ", 17) == 0, "%s",
                  error.message);
}
END_TEST

/* ---- a delegated group, with controllers ---- */

#define PIDS_MAX 64

/* All that are in a group. */
static size_t list_processes(int group, int pids[static PIDS_MAX])
{
    char text[4096];
    size_t count = 0;
    ck_assert_int_ge(sbx_fd_read_text_at(group, "cgroup.procs", text, sizeof(text)), 0);
    for (char *at = text; *at != '\0' && count < PIDS_MAX;) {
        pids[count++] = (int)strtol(at, &at, 10);
        at += *at == '\n' ? 1 : 0;
    }
    return count;
}

static void put(int directory, const char *file, const char *text)
{
    SBX_AUTO_CLOSE int fd = openat(directory, file, O_WRONLY | O_CLOEXEC);
    ck_assert_msg(fd >= 0, "%s: %s", file, strerror(errno));
    int result = sbx_fd_write_all(fd, text, strlen(text));
    ck_assert_msg(result == 0, "'%s' to %s: %s", text, file, strerror(-result));
}

/* Our own group and that above it, which is the delegated one. */
struct guest {
    int proc;
    int own;
    struct sbx_named_group lane; /* the delegated one */
};

static bool enter_guest(struct guest *guest, const char *what)
{
    struct sbx_hierarchy hierarchy;
    const char *delegated_path = sbx_kit_delegated(what);
    if (delegated_path == NULL) {
        return false;
    }
    guest->proc = open_proc();
    ck_assert_int_eq(sbx_hierarchy_find(guest->proc, &hierarchy, NULL), 0);
    ck_assert_int_eq(hierarchy.kind, SBX_HIERARCHY_PURE);
    ck_assert_int_eq(sbx_hierarchy_open_group(&hierarchy, hierarchy.own, &guest->own), 0);
    ck_assert_int_eq(
        sbx_hierarchy_open(&hierarchy, AT_FDCWD, delegated_path, &guest->lane, NULL), 0);
    size_t length = strlen(guest->lane.path);
    ck_assert_msg(strncmp(hierarchy.own, guest->lane.path, length) == 0 &&
                      hierarchy.own[length] == '/' &&
                      strchr(hierarchy.own + length + 1, '/') == NULL,
                  "we are in %s, not right below %s", hierarchy.own, guest->lane.path);
    return true;
}

static void leave_guest(const struct guest *guest)
{
    (void)close(guest->proc);
    (void)close(guest->own);
    (void)close(guest->lane.fd);
}

static void find(const struct guest *guest, const int *ours, size_t ours_count,
                 struct sbx_place *place)
{
    char why[SBX_WHY_SIZE] = "";
    struct sbx_place_request request = {
        .wanted = ALL, .ours = ours, .ours_count = ours_count};
    int found = sbx_place_find(guest->proc, &request, place, why, NULL);
    ck_assert_msg(found == 1, "\"%s\"", why);
}

START_TEST(in_a_delegated_group_all_can_be_had)
{
    struct guest guest;
    struct sbx_place place = {.fd = -1};
    int pids[PIDS_MAX];
    if (!enter_guest(&guest, "all controllers")) {
        return;
    }
    size_t count = list_processes(guest.own, pids);
    ck_assert_uint_ge(count, 2);
    /* With somebody else in our own group: in the one above it, which has all on. */
    int self = (int)getpid();
    find(&guest, &self, 1, &place);
    ck_assert_str_eq(place.path, guest.lane.path);
    ck_assert_uint_eq(place.on, ALL);
    ck_assert(!place.is_own && !place.must_leave);
    expect_usable(&place);
    sbx_place_done(&place);
    /* With nobody but us there: in it, if we leave it. */
    find(&guest, pids, count, &place);
    ck_assert_uint_eq(place.on, 0);
    ck_assert_uint_eq(place.offered, ALL);
    ck_assert(place.is_own && place.must_leave);
    expect_usable(&place);
    sbx_place_done(&place);
    leave_guest(&guest);
}
END_TEST

START_TEST(a_delegated_group_can_be_named)
{
    struct guest guest;
    struct sbx_place place = {.fd = -1};
    struct sbx_error error = {0};
    char why[SBX_WHY_SIZE] = "";
    if (!enter_guest(&guest, "--cgroup-root")) {
        return;
    }
    struct sbx_place_request request = {
        .root = guest.lane.path, .root_directory_fd = AT_FDCWD, .wanted = ALL};
    ck_assert_int_eq(sbx_place_find(guest.proc, &request, &place, why, NULL), 1);
    ck_assert_str_eq(place.path, guest.lane.path);
    ck_assert_uint_eq(place.on, ALL);
    expect_usable(&place);
    sbx_place_done(&place);
    /* The group above is not delegated. */
    request.root = "..";
    request.root_directory_fd = guest.lane.fd;
    int found = sbx_place_find(guest.proc, &request, &place, why, &error);
    if (geteuid() == 0) {
        ck_assert_int_eq(found, 1);
        expect_usable(&place);
        sbx_place_done(&place);
    } else {
        ck_assert_int_eq(found, -EACCES);
        ck_assert_msg(fnmatch("--cgroup-root ..: * cannot be written: permission denied "
                              "(EACCES); it must be delegated *",
                              error.message, 0) == 0,
                      "%s", error.message);
    }
    leave_guest(&guest);
}
END_TEST

/* Below a new group `sbxtest-…`, a group for this process alone. */
struct nest {
    int outer;
    int inner;
    char name[64];
    char outer_path[2 * SBX_GROUP_PATH_SIZE];
};

static void make_nest(const struct guest *guest, struct nest *nest)
{
    (void)snprintf(nest->name, sizeof(nest->name), "sbxtest-%d", (int)getpid());
    (void)snprintf(nest->outer_path, sizeof(nest->outer_path), "%s/%s", guest->lane.path,
                   nest->name);
    ck_assert_int_eq(mkdirat(guest->lane.fd, nest->name, 0755), 0);
    nest->outer = openat(guest->lane.fd, nest->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(mkdirat(nest->outer, "inner", 0755), 0);
    nest->inner = openat(nest->outer, "inner", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert(nest->outer >= 0 && nest->inner >= 0);
}

static void remove_nest(const struct guest *guest, const struct nest *nest)
{
    put(guest->own, "cgroup.procs", "0");
    ck_assert_int_eq(unlinkat(nest->outer, "inner", AT_REMOVEDIR), 0);
    ck_assert_int_eq(unlinkat(guest->lane.fd, nest->name, AT_REMOVEDIR), 0);
    (void)close(nest->outer);
    (void)close(nest->inner);
}

START_TEST(a_real_limit_is_not_climbed_over)
{
    struct guest guest;
    struct nest nest;
    struct sbx_place place = {.fd = -1};
    if (!enter_guest(&guest, "a real limit")) {
        return;
    }
    make_nest(&guest, &nest);
    put(nest.outer, "cgroup.subtree_control", "+memory +pids +cpu");
    put(nest.inner, "cgroup.procs", "0");
    find(&guest, NULL, 0, &place);
    ck_assert_str_eq(place.path, nest.outer_path);
    ck_assert_uint_eq(place.on, ALL);
    sbx_place_done(&place);
    static const char *const limits[][3] = {{"memory.max", "100000000", "max"},
                                            {"memory.high", "100000000", "max"},
                                            {"pids.max", "100", "max"},
                                            {"cpu.max", "90000 100000", "max"}};
    for (size_t i = 0; i < COUNT(limits); i++) {
        put(nest.inner, limits[i][0], limits[i][1]);
        find(&guest, NULL, 0, &place);
        ck_assert_msg(place.is_own, "over %s to %s", limits[i][0], place.path);
        ck_assert_uint_eq(place.on | place.offered, 0);
        sbx_place_done(&place);
        put(nest.inner, limits[i][0], limits[i][2]);
        find(&guest, NULL, 0, &place);
        ck_assert_str_eq(place.path, nest.outer_path);
        sbx_place_done(&place);
    }
    remove_nest(&guest, &nest);
    leave_guest(&guest);
}
END_TEST

START_TEST(real_threaded_groups_are_left)
{
    struct guest guest;
    struct nest nest;
    struct sbx_place place = {.fd = -1};
    if (!enter_guest(&guest, "threaded groups")) {
        return;
    }
    make_nest(&guest, &nest);
    put(nest.inner, "cgroup.type", "threaded");
    put(nest.outer, "cgroup.procs", "0");
    put(nest.inner, "cgroup.procs", "0");
    find(&guest, NULL, 0, &place);
    ck_assert_str_eq(place.path, guest.lane.path);
    ck_assert_uint_eq(place.on, ALL);
    sbx_place_done(&place);
    remove_nest(&guest, &nest);
    leave_guest(&guest);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("place");
    TCase *all = sbx_fixture_case(suite, "place", 60);
    tcase_add_loop_test(all, the_nearest_place_counts, 0, (int)COUNT(scenes));
    tcase_add_test(all, without_a_hierarchy_there_is_no_place);
    tcase_add_test(all, a_missing_proc_is_a_failure);
    tcase_add_test(all, a_long_path_is_told_by_its_end);
    tcase_add_test(all, pid_0_is_never_ours);
    tcase_add_test(all, controllers_of_a_v1_hierarchy_are_told);
    tcase_add_test(all, the_named_place_is_the_only_one);
    tcase_add_test(all, a_named_place_that_cannot_be_used_is_an_error);
    tcase_add_test(all, the_way_to_the_named_place_is_asked_for_at_the_nearest);
    tcase_add_test(all, what_is_found_on_this_host_can_be_used);
    tcase_add_test(all, nobody_is_refused_where_root_is_not);
    tcase_add_test(all, in_a_delegated_group_all_can_be_had);
    tcase_add_test(all, a_delegated_group_can_be_named);
    tcase_add_test(all, a_real_limit_is_not_climbed_over);
    tcase_add_test(all, real_threaded_groups_are_left);
    return sbx_fixture_run(suite);
}
