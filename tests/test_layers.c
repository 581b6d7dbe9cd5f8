/*
 * test_layers.c - who is blamed for a refusal: on pretended /proc trees for hosts that
 * this one is not, and by real experiments where it can be made to refuse.
 */
#include "sandbox/layers.h"

#include "base/fd.h"
#include "tests/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define NOBODY 65534U

/* --- pretended hosts --- */

#define MAXIMUM "sys/user/max_user_namespaces"
#define CLONES "sys/kernel/unprivileged_userns_clone"
#define APPARMOR "sys/kernel/apparmor_restrict_unprivileged_userns"
#define STATUS "self/status"
#define LABEL "self/attr/current"
#define MOUNTS "self/mountinfo"
#define FILTERED "Name:\tx\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n"
#define UNFILTERED "Name:\tx\nSeccomp:\t0\n"
#define COVERED                                                                          \
    "22 1 0:21 / / rw - ext4 /dev/a rw\n23 22 0:22 / /proc rw - proc proc rw\n"          \
    "24 23 0:23 / /proc/kcore rw - tmpfs tmpfs rw\n"
#define UNCOVERED "23 22 0:22 / /proc rw - proc proc rw\n24 22 0:23 / /procx rw - a b c\n"

static const struct {
    const char *files[3][2]; /* path and text; NULL behind the last */
    enum sbx_layer_step step;
    int code;
    uid_t uid;
    const char *layer;
    const char *detail; /* parts that must be there */
    const char *remedy;
} refusals[] = {
    {{{MAXIMUM, "0\n"}},
     SBX_LAYER_USER,
     ENOSPC,
     0,
     "sysctl",
     "max_user_namespaces is 0",
     "sysctl -w user.max_user_namespaces="},
    {{{MAXIMUM, "7\n"}},
     SBX_LAYER_USER,
     ENOSPC,
     1,
     "sysctl",
     "max_user_namespaces (7 here",
     "sysctl -w user.max_user_namespaces="},
    {{{"sys/user/max_mnt_namespaces", "0\n"}},
     SBX_LAYER_MOUNT_SPACE,
     ENOSPC,
     1,
     "sysctl",
     "max_mnt_namespaces is 0",
     "max_mnt_namespaces="},
    {{{"sys/user/max_pid_namespaces", "0\n"}},
     SBX_LAYER_PID_SPACE,
     ENOSPC,
     1,
     "sysctl",
     "max_pid_namespaces is 0",
     "max_pid_namespaces="},
    {{{NULL}}, SBX_LAYER_USER, ENOSPC, 1, "kernel", "ENOSPC", ""},
    {{{CLONES, "0\n"}},
     SBX_LAYER_USER,
     EPERM,
     1,
     "sysctl",
     "unprivileged_userns_clone is 0",
     "unprivileged_userns_clone=1"},
    /* The sysctl is asked before the filter: it holds for everybody. */
    {{{CLONES, "0\n"}, {STATUS, FILTERED}}, SBX_LAYER_USER, EPERM, 1, "sysctl", "", ""},
    {{{CLONES, "1\n"}, {STATUS, FILTERED}},
     SBX_LAYER_USER,
     EPERM,
     1,
     "seccomp",
     "Seccomp: 2",
     "seccomp=unconfined"},
    {{{STATUS, FILTERED}}, SBX_LAYER_USER, ENOSYS, 1, "seccomp", "ENOSYS", ""},
    {{{STATUS, FILTERED}}, SBX_LAYER_MOUNT, EPERM, 1, "seccomp", "mount", ""},
    /* A filter sees no uid map. */
    {{{STATUS, FILTERED}}, SBX_LAYER_MAP, EPERM, 1, "permissions", "uid map", ""},
    {{{APPARMOR, "1\n"}},
     SBX_LAYER_MAP,
     EACCES,
     1,
     "apparmor",
     "restrict_unprivileged_userns is 1",
     "profile for bwrap"},
    {{{APPARMOR, "1\n"}, {STATUS, FILTERED}},
     SBX_LAYER_MOUNT,
     EPERM,
     1,
     "apparmor",
     "",
     ""},
    {{{APPARMOR, "1\n"}, {STATUS, FILTERED}},
     SBX_LAYER_USER,
     EPERM,
     1,
     "seccomp",
     "",
     ""},
    {{{APPARMOR, "1\n"}, {STATUS, UNFILTERED}},
     SBX_LAYER_USER,
     EPERM,
     1,
     "apparmor",
     "",
     ""},
    {{{APPARMOR, "1\n"}}, SBX_LAYER_MAP, EPERM, 0, "permissions", "", ""},
    {{{APPARMOR, "0\n"}}, SBX_LAYER_MAP, EPERM, 1, "permissions", "", ""},
    {{{LABEL, "docker-default (enforce)\n"}},
     SBX_LAYER_MOUNT,
     EACCES,
     1,
     "apparmor",
     "docker-default",
     "profile"},
    {{{LABEL, "unconfined\n"}}, SBX_LAYER_MOUNT, EACCES, 1, "permissions", "", ""},
    {{{LABEL, "system_u:system_r:container_t:s0:c1\n"}},
     SBX_LAYER_USER,
     EACCES,
     1,
     "selinux",
     "container_t",
     "policy"},
    {{{MOUNTS, COVERED}}, SBX_LAYER_PROC, EPERM, 1, "proc", "/proc/kcore", "--proc"},
    {{{MOUNTS, COVERED}, {STATUS, FILTERED}}, SBX_LAYER_PROC, EPERM, 1, "proc", "", ""},
    {{{MOUNTS, UNCOVERED}}, SBX_LAYER_PROC, EPERM, 1, "permissions", "procfs", ""},
    {{{STATUS, UNFILTERED}},
     SBX_LAYER_USER,
     EINVAL,
     1,
     "kernel",
     "EINVAL",
     "CONFIG_USER_NS"},
    {{{STATUS, UNFILTERED}}, SBX_LAYER_USER, ENOSYS, 1, "kernel", "", ""},
    {{{NULL}}, SBX_LAYER_USER, EPERM, 1, "permissions", "EPERM", "root"},
    {{{NULL}}, SBX_LAYER_IDENTITY, EPERM, 1, "permissions", "", "only root"},
};

static void make_parents(int root, const char *path)
{
    char part[128];
    for (const char *slash = strchr(path, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        (void)snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        ck_assert(mkdirat(root, part, 0755) == 0 || errno == EEXIST);
    }
}

static int pretend(size_t index)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char name[32];
    (void)snprintf(name, sizeof name, "proc.%zu", index);
    ck_assert_int_eq(mkdir(sbx_fixture_path(path, name), 0755), 0);
    int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(root, 0);
    for (size_t i = 0; i < 3 && refusals[index].files[i][0] != NULL; i++) {
        const char *text = refusals[index].files[i][1];
        make_parents(root, refusals[index].files[i][0]);
        int fd = openat(root, refusals[index].files[i][0],
                        O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(sbx_fd_write_all(fd, text, strlen(text)), 0);
        ck_assert_int_eq(close(fd), 0);
    }
    return root;
}

START_TEST(test_pretended_hosts)
{
    for (size_t i = 0; i < LENGTH(refusals); i++) {
        struct sbx_layer layer;
        memset(&layer, 'x', sizeof layer);
        int root = pretend(i);
        sbx_layer_blame(root, refusals[i].step, refusals[i].code, refusals[i].uid,
                        &layer);
        ck_assert_int_eq(close(root), 0);
        ck_assert_msg(!layer.ok && strcmp(layer.layer, refusals[i].layer) == 0 &&
                          strstr(layer.detail, refusals[i].detail) != NULL &&
                          strstr(layer.remedy, refusals[i].remedy) != NULL &&
                          layer.remedy[0] != '\0' && layer.detail[0] != '\0',
                      "%zu: %s: %s; %s", i, layer.layer, layer.detail, layer.remedy);
    }
}
END_TEST

/* --- versions --- */

START_TEST(test_versions)
{
    static const struct {
        const char *text;
        const char *version; /* NULL: no text of bubblewrap */
        bool new_enough;
    } cases[] = {
        {"bubblewrap 0.8.0\n", "0.8.0", true},
        {"bubblewrap 0.8\n", "0.8", true},
        {"bubblewrap 0.11.2\n", "0.11.2", true},
        {"bubblewrap 1.0.0", "1.0.0", true},
        {"bubblewrap 0.7.9\n", "0.7.9", false},
        {"bubblewrap 0.4.0\n", "0.4.0", false},
        {"bubblewrap 0.9.0-dirty\n", "0.9.0", true},
        {"bubblewrap 0\n", NULL, false},
        {"bubblewrap 99999999999.9\n", NULL, false},
        {"bubblewrap .8\n", NULL, false},
        {"bubblewrap\n", NULL, false},
        {"wrap 0.8.0\n", NULL, false},
        {"", NULL, false},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        char version[SBX_LAYER_NAME_SIZE] = "untouched";
        bool new_enough = false;
        int r = sbx_layer_bwrap_version(cases[i].text, version, &new_enough);
        ck_assert_int_eq(r, cases[i].version != NULL ? 0 : -EINVAL);
        ck_assert_str_eq(version, r == 0 ? cases[i].version : "untouched");
        ck_assert_msg(new_enough == cases[i].new_enough, "%s", cases[i].text);
    }
}
END_TEST

static void write_program(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(sbx_fd_write_all(fd, text, strlen(text)), 0);
    ck_assert_int_eq(fchmod(fd, mode), 0);
    ck_assert_int_eq(close(fd), 0);
}

START_TEST(test_programs)
{
    static const struct {
        const char *text; /* NULL: there is none */
        mode_t mode;
        const char *layer; /* "": it is good */
        const char *detail;
        const char *version;
    } cases[] = {
        {"#!/bin/sh\necho bubblewrap 0.8.0\n", 0755, "", "version 0.8.0", "0.8.0"},
        {"#!/bin/sh\necho bubblewrap 0.4.0\n", 0755, "package", "version 0.4.0", "0.4.0"},
        {"#!/bin/sh\necho hello\n", 0755, "package", "no version", ""},
        {"#!/bin/sh\necho \"$LEAK\" >&2; test $# = 1 && test \"$1\" = --version\n", 0755,
         "package", "no version", ""},
        {"nothing that can be executed", 0755, "package", "ENOEXEC", ""},
        {"#!/bin/sh\necho bubblewrap 0.8.0\n", 0644, "permissions", "EACCES", ""},
        {NULL, 0, "package", "is not there", ""},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        char path[SBX_FIXTURE_PATH_SIZE];
        char name[32];
        struct sbx_layer layer = {0};
        (void)snprintf(name, sizeof name, "bwrap.%zu", i);
        (void)sbx_fixture_path(path, name);
        if (cases[i].text != NULL) {
            write_program(path, cases[i].text, cases[i].mode);
        }
        ck_assert_int_eq(sbx_layer_bwrap(path, geteuid(), getegid(), &layer), 0);
        ck_assert_msg(layer.ok == (cases[i].layer[0] == '\0') &&
                          strcmp(layer.layer, cases[i].layer) == 0 &&
                          strstr(layer.detail, cases[i].detail) != NULL &&
                          strcmp(layer.version, cases[i].version) == 0,
                      "%zu: %s: %s; %s", i, layer.layer, layer.detail, layer.remedy);
    }
    struct sbx_layer layer = {0};
    ck_assert_int_eq(sbx_layer_bwrap(NULL, geteuid(), getegid(), &layer), 0);
    ck_assert_str_eq(layer.layer, "package");
}
END_TEST

/* --- this host --- */

/* Forks; the child's exit status is what body returns. */
static int in_child(int (*body)(void))
{
    int status = 0;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        _exit(body());
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status), "wait status %#x", (unsigned)status);
    return WEXITSTATUS(status);
}

static int put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int r = fd < 0 ? -errno : sbx_fd_write_all(fd, text, strlen(text));
    return fd >= 0 && close(fd) < 0 ? -errno : r;
}

/* What the experiment must find out, done by hand and once more. */
static int makes_user_namespace(void)
{
    return unshare(CLONE_NEWUSER) == 0;
}

START_TEST(test_user_namespaces_here)
{
    struct sbx_layer layer = {0};
    bool can = in_child(makes_user_namespace) == 1;
    ck_assert_int_eq(sbx_layer_user_namespaces(geteuid(), getegid(), &layer), 0);
    ck_assert_msg(layer.ok == can || (can && !layer.ok && layer.layer[0] != '\0'),
                  "%s: %s", layer.layer, layer.detail);
    ck_assert_msg(layer.ok == (layer.layer[0] == '\0'), "%s", layer.layer);
    if (geteuid() == 0) {
        ck_assert_int_eq(sbx_layer_user_namespaces(NOBODY, NOBODY, &layer), 0);
        ck_assert_msg(layer.ok == (layer.layer[0] == '\0'), "%s", layer.layer);
    } else {
        ck_assert_int_eq(sbx_layer_user_namespaces(1, 1, &layer), 0);
        ck_assert_str_eq(layer.layer, "permissions");
    }
    /* The experiment has changed nothing here. */
    ck_assert_int_eq(in_child(makes_user_namespace), can);
}
END_TEST

START_TEST(test_nested_proc_here)
{
    struct sbx_layer spaces = {0};
    struct sbx_layer layer = {0};
    ck_assert_int_eq(sbx_layer_user_namespaces(geteuid(), getegid(), &spaces), 0);
    ck_assert_int_eq(sbx_layer_nested_proc(geteuid(), getegid(), &layer), 0);
    ck_assert_msg(spaces.ok || !layer.ok, "without user namespaces there is none");
    ck_assert_msg(layer.ok == (layer.layer[0] == '\0'), "%s: %s", layer.layer,
                  layer.detail);
}
END_TEST

/* Says what was found to the test, as an exit status: 0 when it is as wanted. */
static int judge(const struct sbx_layer *layer, const char *wanted, const char *detail)
{
    if (!layer->ok && strcmp(layer->layer, wanted) == 0 &&
        strstr(layer->detail, detail) != NULL) {
        return 0;
    }
    (void)fprintf(stderr, "found %s: %s\n", layer->layer, layer->detail);
    return 1;
}

#define NOT_HERE 77

/* In a user namespace of its own, in which no more can be made. */
static int without_namespaces(void)
{
    struct sbx_layer layer = {0};
    struct sbx_error error = {.message = "it failed"};
    char map[64];
    char group_map[64];
    (void)snprintf(map, sizeof map, "0 %u 1", geteuid());
    (void)snprintf(group_map, sizeof group_map, "0 %u 1", getegid());
    if (unshare(CLONE_NEWUSER) < 0 || put("/proc/self/setgroups", "deny") < 0 ||
        put("/proc/self/uid_map", map) < 0 || put("/proc/self/gid_map", group_map) < 0 ||
        put("/proc/sys/user/max_user_namespaces", "0") < 0) {
        return NOT_HERE;
    }
    if (sbx_layer_user_namespaces(0, 0, &layer) < 0 ||
        judge(&layer, "sysctl", "max_user_namespaces is 0") != 0) {
        return 1;
    }
    if (sbx_layer_nested_proc(0, 0, &layer) < 0 ||
        judge(&layer, "sysctl", "max_user_namespaces is 0") != 0) {
        return 1;
    }
    /* /bin/true is no bubblewrap, which is the first thing to say. */
    sbx_layer_explain("/bin/true", 0, 0, false, &error);
    return strncmp(error.message, "it failed (package: ", 20) == 0 ? 0 : 1;
}

START_TEST(test_without_namespaces)
{
    int status = in_child(without_namespaces);
    if (status == NOT_HERE) {
        (void)fprintf(stderr, "SKIP: user namespaces cannot be made here\n");
        return;
    }
    ck_assert_int_eq(status, 0);
}
END_TEST

/* As in a container: unshare and clone with CLONE_NEWUSER are refused. */
static int filtered(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = LENGTH(filter), .filter = filter};
    struct sbx_layer layer = {0};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0) {
        return NOT_HERE;
    }
    return sbx_layer_user_namespaces(geteuid(), getegid(), &layer) < 0
               ? 1
               : judge(&layer, "seccomp", "Seccomp: 2");
}

START_TEST(test_filtered)
{
    ck_assert_int_eq(in_child(filtered), 0);
}
END_TEST

START_TEST(test_explain)
{
    struct sbx_error error = {.message = "bubblewrap failed"};
    sbx_layer_explain("/nonexistent/bwrap", geteuid(), getegid(), true, &error);
    ck_assert_str_eq(error.message,
                     "bubblewrap failed (package: /nonexistent/bwrap is not there; "
                     "install bubblewrap 0.8 or newer (package bubblewrap), or name it "
                     "with --bwrap PATH)");
    /* Cut, not overrun, when there is no room. */
    memset(error.message, 'x', sizeof error.message - 1);
    error.message[sizeof error.message - 10] = '\0';
    sbx_layer_explain("/nonexistent/bwrap", geteuid(), getegid(), true, &error);
    ck_assert_uint_eq(strlen(error.message), sizeof error.message - 1);
    sbx_layer_explain("/nonexistent/bwrap", geteuid(), getegid(), true, NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("layers");
    TCase *layers = sbx_fixture_case(suite, "layers", 60);
    tcase_add_test(layers, test_pretended_hosts);
    tcase_add_test(layers, test_versions);
    tcase_add_test(layers, test_programs);
    tcase_add_test(layers, test_user_namespaces_here);
    tcase_add_test(layers, test_nested_proc_here);
    tcase_add_test(layers, test_without_namespaces);
    tcase_add_test(layers, test_filtered);
    tcase_add_test(layers, test_explain);
    return sbx_fixture_run(suite);
}
