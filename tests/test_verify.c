/*
 * test_verify.c - what `sbx-watch --verify` says of this host, as several users, and of
 * hosts that refuse: without user namespaces, without bubblewrap, with one that is too
 * old, below a system call filter, with one that is setuid root. And that nothing is left
 * of it, however it ends, and nothing goes that is not its own.
 *
 * All of these run at the same time, since most of their time is waiting. Those that are
 * about a refusal do without sbx-probe, which they would not get to. The programs are
 * copies in the test's directory: the build may lie where other users cannot go.
 */
#include "tests/fixture.h"
#include "tests/group_kit.h"

#include "base/clock.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <jansson.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sbx/sbx.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define OUTPUT_SIZE (64UL * 1024)
#define WORDS_MAX 16
/* bubblewrap that is setuid root maps no overflow uid. */
#define SOMEBODY 12345U
#define BWRAP "/usr/bin/bwrap"
#define PYTHON "/usr/bin/python3"
#define SEARCH_PATH "/usr/local/bin:/usr/bin:/bin"
#define LONG_S 60

/* --- the programs --- */

static void copy_file(const char *from_path, const char *to_path)
{
    struct stat status;
    SBX_AUTO_CLOSE int from = open(from_path, O_RDONLY | O_CLOEXEC);
    SBX_AUTO_CLOSE int to = open(to_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    ck_assert_msg(from >= 0 && to >= 0 && fstat(from, &status) == 0, "%s: %s", from_path,
                  strerror(errno));
    for (off_t done = 0; done < status.st_size;) {
        ck_assert_int_gt(sendfile(to, from, &done, (size_t)(status.st_size - done)), 0);
    }
}

static void copy_programs(void)
{
    static const char *const programs[][2] = {{"sbx-probe", SBX_TEST_PROBE},
                                              {"sbx-inner", SBX_TEST_INNER},
                                              {"sbx-watch", NULL}};
    char path[SBX_FIXTURE_PATH_SIZE];
    for (size_t i = 0; i < LENGTH(programs); i++) {
        const char *from = programs[i][1] != NULL ? programs[i][1] : sbx_fixture_watch();
        copy_file(from, sbx_fixture_path(path, programs[i][0]));
    }
    ck_assert_int_eq(mkdir(sbx_fixture_path(path, "tmp"), 01777), 0);
    ck_assert_int_eq(chmod(path, 01777), 0);
}

/* --- a verification on some host --- */

struct expectation {
    const char *check;
    char verdict;      /* y, n, - (does not apply), or ? (- or y) */
    const char *layer; /* of a no; NULL: any */
};

struct scene {
    const char *name;
    const char *words[WORDS_MAX]; /* behind --verify --json; "@NAME" a file of the test */
    bool full;                    /* with sbx-probe */
    uid_t uid;                    /* becomes that, if the test is root; 0: as it is */
    bool filtered;
    bool without_namespaces; /* in a user namespace that can have no more */
    int status;              /* -1: 0 or 1 */
    const struct expectation *expectations;

    pid_t pid;
    json_t *found;
};

static const char *find_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static const json_t *find_check(const json_t *found, const char *name)
{
    size_t index;
    json_t *check;
    json_array_foreach(json_object_get(found, "checks"), index, check)
    {
        if (strcmp(find_text(check, "name"), name) == 0) {
            return check;
        }
    }
    ck_abort_msg("no check %s", name);
}

static char verdict_of(const json_t *check)
{
    const json_t *ok = json_object_get(check, "ok");
    return ok == NULL ? '-' : json_is_true(ok) ? 'y' : 'n';
}

static void expect(const struct scene *scene, const struct expectation *expectation)
{
    const json_t *check = find_check(scene->found, expectation->check);
    char verdict = verdict_of(check);
    const char *layer = find_text(check, "layer");
    bool fits = verdict == expectation->verdict ||
                (expectation->verdict == '?' && verdict != 'n');
    ck_assert_msg(
        fits && (expectation->layer == NULL || strcmp(expectation->layer, layer) == 0),
        "%s: %s: %c instead of %c %s; layer %s: %s; %s", scene->name, expectation->check,
        verdict, expectation->verdict,
        expectation->layer != NULL ? expectation->layer : "", layer,
        find_text(check, "detail"), find_text(check, "remedy"));
}

/* In the child. unshare, and clone with CLONE_NEWUSER, as containers refuse them. */
static void refuse_namespaces(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_NEWUSER, 1, 2),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = LENGTH(filter), .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0) {
        _exit(99);
    }
}

static void become(const struct scene *scene)
{
    if (scene->uid != 0 && geteuid() == 0 &&
        (setgroups(0, NULL) < 0 || setresgid(scene->uid, scene->uid, scene->uid) < 0 ||
         setresuid(scene->uid, scene->uid, scene->uid) < 0)) {
        _exit(99);
    }
    if (scene->filtered) {
        refuse_namespaces();
    }
}

static int open_output(const struct scene *scene)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    return open(sbx_fixture_path(path, scene->name),
                O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
}

static _Noreturn void execute(const struct scene *scene)
{
    static const char *const launcher[] = {
        "unshare",
        "-Ur",
        "sh",
        "-c",
        "echo 0 >/proc/sys/user/max_user_namespaces && exec \"$@\"",
        "sh"};
    const char *argv[WORDS_MAX + 12] = {NULL};
    char paths[WORDS_MAX][SBX_FIXTURE_PATH_SIZE];
    char watch[SBX_FIXTURE_PATH_SIZE];
    char tmp[SBX_FIXTURE_PATH_SIZE];
    size_t count = 0;
    for (size_t i = 0; scene->without_namespaces && i < LENGTH(launcher); i++) {
        argv[count++] = launcher[i];
    }
    argv[count++] = sbx_fixture_path(watch, "sbx-watch");
    argv[count++] = "--verify";
    argv[count++] = "--json";
    for (size_t i = 0; i < WORDS_MAX && scene->words[i] != NULL; i++) {
        const char *word = scene->words[i];
        argv[count++] = word[0] == '@' ? sbx_fixture_path(paths[i], word + 1) : word;
    }
    int out = open_output(scene);
    if (out < 0 || dup2(out, STDOUT_FILENO) < 0 || setenv("PATH", SEARCH_PATH, 1) < 0 ||
        setenv("TMPDIR", sbx_fixture_path(tmp, "tmp"), 1) < 0 ||
        (!scene->full && setenv("SBX_PROBE", "/nonexistent/sbx-probe", 1) < 0)) {
        _exit(99);
    }
    become(scene);
    (void)execvp(argv[0], (char *const *)(const void *)argv);
    _exit(99);
}

static void start(struct scene *scene)
{
    scene->pid = fork();
    ck_assert_int_ge(scene->pid, 0);
    if (scene->pid == 0) {
        execute(scene);
    }
}

static void finish(struct scene *scene)
{
    int status = 0;
    char path[SBX_FIXTURE_PATH_SIZE];
    json_error_t error;
    ck_assert_int_eq(waitpid(scene->pid, &status, 0), scene->pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) <= 1, "%s: wait status %#x",
                  scene->name, (unsigned)status);
    ck_assert_msg(scene->status < 0 || WEXITSTATUS(status) == scene->status,
                  "%s: status %d", scene->name, WEXITSTATUS(status));
    scene->found = json_load_file(sbx_fixture_path(path, scene->name),
                                  JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(scene->found != NULL, "%s: %s", scene->name, error.text);
    bool holds = json_is_true(json_object_get(scene->found, "holds"));
    ck_assert_msg(holds == (WEXITSTATUS(status) == 0), "%s: status %d", scene->name,
                  WEXITSTATUS(status));
}

/* Nothing of it is left: its leaf, files for cores. (Processes the fixture looks for.) */
static void expect_clean(const struct scene *scene)
{
    const char *detail = find_text(find_check(scene->found, "cgroup-leaf"), "detail");
    if (strncmp(detail, "made ", 5) == 0) {
        ck_assert_msg(access(detail + 5, F_OK) < 0, "%s: left: %s", scene->name,
                      detail + 5);
    }
}

/* A limit is held by the kernel where its controller can be had, as by a run that is
 * alone. */
static void expect_holders(const struct scene *scene)
{
    static const char *const pairs[][2] = {{"cgroup-memory", "limit-memory"},
                                           {"cgroup-pids", "limit-threads"}};
    for (size_t i = 0; scene->full && i < LENGTH(pairs); i++) {
        bool controlled = verdict_of(find_check(scene->found, pairs[i][0])) == 'y';
        const char *detail = find_text(find_check(scene->found, pairs[i][1]), "detail");
        const char *holder = controlled ? "held by the kernel" : "held by the monitor";
        ck_assert_msg(strstr(detail, holder) != NULL, "%s: %s: %s, and not %s",
                      scene->name, pairs[i][1], detail, holder);
    }
}

static void expect_no_file(void)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    SBX_AUTO_CLOSEDIR DIR *directory = opendir(sbx_fixture_path(path, "tmp"));
    const struct dirent *entry;
    ck_assert_ptr_nonnull(directory);
    while ((entry = readdir(directory)) != NULL) {
        ck_assert_msg(entry->d_name[0] == '.', "left: %s", entry->d_name);
    }
}

/* --- what is to be found --- */

/* By whom the kernel exempts from no ceiling. */
static const struct expectation ordinary[] = {
    {"limit-wall", 'y', NULL},
    {"limit-cpu", 'y', NULL},
    {"limit-memory", 'y', NULL},
    {"limit-processes", 'y', NULL},
    {"limit-threads", 'y', NULL},
    {"limit-output", 'y', NULL},
    {"limit-idle", 'y', NULL},
    {"ceiling-as", 'y', NULL},
    {"ceiling-cpu", 'y', NULL},
    {"ceiling-data", 'y', NULL},
    {"ceiling-fsize", 'y', NULL},
    {"ceiling-locks", 'n', "kernel"},
    {"ceiling-memlock", 'y', NULL},
    {"ceiling-msgqueue", '?', NULL},
    {"ceiling-nice", 'y', NULL},
    {"ceiling-nofile", 'y', NULL},
    {"ceiling-nproc", 'y', NULL},
    {"ceiling-rss", 'n', "kernel"},
    {"ceiling-rtprio", 'y', NULL},
    {"ceiling-rttime", '?', NULL},
    {"ceiling-sigpending", 'y', NULL},
    {"ceiling-stack", 'y', NULL},
    {"seccomp", 'y', NULL},
    {"kernel-version", 'y', NULL},
    {"pidfd", 'y', NULL},
    {NULL, 0, NULL},
};

/* What is the same for root; the rest depends on its capabilities. */
static const struct expectation root[] = {
    {"limit-wall", 'y', NULL},        {"limit-cpu", 'y', NULL},
    {"limit-memory", 'y', NULL},      {"limit-processes", 'y', NULL},
    {"limit-threads", 'y', NULL},     {"limit-output", 'y', NULL},
    {"limit-idle", 'y', NULL},        {"ceiling-as", 'y', NULL},
    {"ceiling-cpu", 'y', NULL},       {"ceiling-data", 'y', NULL},
    {"ceiling-fsize", 'y', NULL},     {"ceiling-locks", 'n', "kernel"},
    {"ceiling-nofile", 'y', NULL},    {"ceiling-nproc", 'n', "kernel"},
    {"ceiling-rss", 'n', "kernel"},   {"ceiling-sigpending", 'y', NULL},
    {"ceiling-stack", 'y', NULL},     {"seccomp", 'y', NULL},
    {"kernel-version", 'y', NULL},    {"pidfd", 'y', NULL},
    {"setuid-bubblewrap", '-', NULL}, {NULL, 0, NULL},
};

static const struct expectation no_namespaces[] = {
    {"sandbox", 'n', "sysctl"},
    {"network", 'n', "sysctl"},
    {"user-namespaces", 'n', "sysctl"},
    {"nested-proc", 'n', "sysctl"},
    {"ceiling-as", 'n', "package"},
    {"limit-wall", 'n', "package"},
    {NULL, 0, NULL},
};

static const struct expectation no_bwrap[] = {
    {"sandbox", 'n', "package"},
    {"bubblewrap", 'n', "package"},
    {"setuid-bubblewrap", '-', NULL},
    {NULL, 0, NULL},
};

static const struct expectation refused[] = {
    {"sandbox", 'n', "seccomp"},
    {"network", 'n', "seccomp"},
    {"user-namespaces", 'n', "seccomp"},
    {"nested-proc", 'n', "seccomp"},
    {"pidfd", 'y', NULL},
    {NULL, 0, NULL},
};

static const struct expectation with_setuid[] = {
    {"sandbox", 'y', NULL},
    {"network", 'y', NULL},
    {"setuid-bubblewrap", 'y', NULL},
    {NULL, 0, NULL},
};

static struct scene scenes[] = {
    {.name = "self", .full = true, .status = -1},
    {.name = "as-user",
     .full = true,
     .words = {"--as-user", "65534:65534", "--need=limits,ceilings"},
     .status = -1,
     .expectations = ordinary},
    {.name = "setuid",
     .full = true,
     .uid = SOMEBODY,
     .words = {"--bwrap", "@bwrap-setuid", "--need", "setuid-bubblewrap,network"},
     .status = 0,
     .expectations = with_setuid},
    {.name = "no-namespaces",
     .without_namespaces = true,
     .status = 1,
     .expectations = no_namespaces},
    {.name = "no-bwrap",
     .words = {"--bwrap", "@nothing"},
     .status = 1,
     .expectations = no_bwrap},
    {.name = "old-bwrap",
     .words = {"--bwrap", "@bwrap-old"},
     .status = 1,
     .expectations = (const struct expectation[]){{"sandbox", 'n', "package"},
                                                  {"bubblewrap", 'n', "package"},
                                                  {NULL, 0, NULL}}},
    {.name = "filtered", .filtered = true, .status = 1, .expectations = refused},
};

static bool makes_user_namespaces(void)
{
    int status = 0;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        _exit(unshare(CLONE_NEWUSER) == 0 ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status == 0;
}

/* Those that need what is not here are left out, and said to be. */
static bool is_possible(const struct scene *scene)
{
    const char *why = NULL;
    struct statvfs files;
    if (geteuid() != 0 && (strcmp(scene->name, "as-user") == 0 || scene->uid != 0)) {
        why = "only root can be somebody else";
    } else if (access(BWRAP, X_OK) < 0 && strcmp(scene->name, "setuid") == 0) {
        why = "bubblewrap is not installed";
    } else if (scene->uid == SOMEBODY && statvfs(sbx_fixture_dir(), &files) == 0 &&
               (files.f_flag & ST_NOSUID) != 0) {
        why = "the test's directory is on a file system without setuid";
    } else if (scene->without_namespaces && !makes_user_namespaces()) {
        why = "user namespaces cannot be made";
    }
    if (why != NULL) {
        (void)fprintf(stderr, "SKIP: %s: %s\n", scene->name, why);
    }
    return why == NULL;
}

static void prepare_bwraps(void)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    static const char old[] = "#!/bin/sh\necho bubblewrap 0.4.0\n";
    int fd =
        open(sbx_fixture_path(path, "bwrap-old"), O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(sbx_fd_write_all(fd, old, sizeof old - 1), 0);
    ck_assert_int_eq(close(fd), 0);
    if (geteuid() == 0 && access(BWRAP, X_OK) == 0) {
        copy_file(BWRAP, sbx_fixture_path(path, "bwrap-setuid"));
        ck_assert_int_eq(chmod(path, 04755), 0);
    }
}

static int validate(const char *list)
{
    char command[4096];
    (void)snprintf(command, sizeof command,
                   "cd '%s' && " PYTHON " -W ignore '%s' --schema '%s' %s >said 2>&1",
                   sbx_fixture_dir(), SBX_TEST_VALIDATOR, SBX_TEST_SCHEMA, list);
    int status = system(command); /* NOLINT(cert-env33-c): our own words */
    ck_assert_msg(WIFEXITED(status), "%s", command);
    return WEXITSTATUS(status);
}

/* The answers are as they should be; changed ones are not. */
static void check_schema(const char *good, const struct scene *scene)
{
    static const struct {
        const char *key;
        json_t *(*make)(void);
    } changes[] = {{"unheard_of", json_true},
                   {"supported", NULL},
                   {"uid", json_true},
                   {"schema", json_true},
                   {"checks", json_array}};
    char names[256] = "";
    char path[SBX_FIXTURE_PATH_SIZE];
    char said[4096] = "";
    int status = access(PYTHON, X_OK) == 0 ? validate(good) : 77;
    if (status == 77) {
        (void)fprintf(stderr, "SKIP: no validation: python3-jsonschema is missing\n");
        return;
    }
    (void)sbx_fd_read_text_at(AT_FDCWD, sbx_fixture_path(path, "said"), said,
                              sizeof said);
    ck_assert_msg(status == 0, "%s", said);
    for (size_t i = 0; i < LENGTH(changes); i++) {
        char name[32];
        json_t *copy = json_deep_copy(scene->found);
        int r = changes[i].make == NULL
                    ? json_object_del(copy, changes[i].key)
                    : json_object_set_new(copy, changes[i].key, changes[i].make());
        ck_assert_int_eq(r, 0);
        (void)snprintf(name, sizeof name, "changed.%zu", i);
        FILE *file = fopen(sbx_fixture_path(path, name), "we");
        ck_assert_int_eq(json_dumpf(copy, file, JSON_COMPACT), 0);
        ck_assert_int_eq(fputc('\n', file), '\n');
        ck_assert_int_eq(fclose(file), 0);
        json_decref(copy);
        (void)strcat(strcat(names, name), " ");
    }
    ck_assert_int_eq(validate(names), 1);
    (void)sbx_fd_read_text_at(AT_FDCWD, sbx_fixture_path(path, "said"), said,
                              sizeof said);
    for (size_t i = 0; i < LENGTH(changes); i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "changed.%zu: ", i);
        ck_assert_msg(strstr(said, name) != NULL, "not noticed: %s in %s", changes[i].key,
                      said);
    }
}

/* Where nothing is in the way a sandbox must run. */
static void expect_sandbox(const struct scene *scene)
{
    static const struct expectation both[] = {{"sandbox", 'y', NULL},
                                              {"network", 'y', NULL},
                                              {"user-namespaces", 'y', NULL},
                                              {"bubblewrap", 'y', NULL}};
    if (access(BWRAP, X_OK) < 0 || !makes_user_namespaces()) {
        (void)fprintf(stderr, "SKIP: no sandbox here\n");
        return;
    }
    for (size_t i = 0; i < LENGTH(both); i++) {
        expect(scene, &both[i]);
    }
    ck_assert(json_is_true(json_object_get(scene->found, "supported")));
    ck_assert(json_is_true(json_object_get(scene->found, "network_isolation")));
    ck_assert(json_is_true(json_object_get(scene->found, "resource_limits")));
    ck_assert(json_is_true(json_object_get(scene->found, "holds")));
    ck_assert_str_ne(find_text(scene->found, "bwrap_version"), "");
}

START_TEST(test_hosts)
{
    char names[1024] = "";
    copy_programs();
    prepare_bwraps();
    scenes[0].expectations = geteuid() == 0 ? root : ordinary;
    for (size_t i = 0; i < LENGTH(scenes); i++) {
        if (is_possible(&scenes[i])) {
            start(&scenes[i]);
        }
    }
    for (size_t i = 0; i < LENGTH(scenes); i++) {
        struct scene *scene = &scenes[i];
        if (scene->pid == 0) {
            continue;
        }
        finish(scene);
        for (const struct expectation *next = scene->expectations; next->check != NULL;
             next++) {
            expect(scene, next);
        }
        expect_holders(scene);
        expect_clean(scene);
        size_t used = strlen(names);
        (void)snprintf(names + used, sizeof names - used, "%s ", scene->name);
    }
    expect_no_file();
    expect_sandbox(&scenes[0]);
    check_schema(names, &scenes[0]);
    for (size_t i = 0; i < LENGTH(scenes); i++) {
        json_decref(scenes[i].found);
    }
}
END_TEST

/* --- the command line --- */

static int run_front(const char *const words[], char *err_text, size_t size)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    int status = 0;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        const char *argv[WORDS_MAX] = {"sbx-watch"};
        for (size_t i = 0; words[i] != NULL; i++) {
            argv[i + 1] = words[i];
        }
        int out = open(sbx_fixture_path(path, "front-out"),
                       O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        int err = open(sbx_fixture_path(path, "front-err"),
                       O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0 ||
            setenv("SBX_PROBE", "/nonexistent/sbx-probe", 1) < 0) {
            _exit(99);
        }
        (void)execv(sbx_fixture_watch(), (char *const *)(const void *)argv);
        _exit(99);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    err_text[0] = '\0';
    (void)sbx_fd_read_text_at(AT_FDCWD, sbx_fixture_path(path, "front-err"), err_text,
                              size);
    return WEXITSTATUS(status);
}

/* Whatever is wrong: 125, one line, and nothing is tried. */
START_TEST(test_refused_options)
{
    static const struct {
        const char *words[6];
        const char *said;
    } cases[] = {
        {{"--json"}, "option --json: goes with --verify alone"},
        {{"--need", "limits", "true"}, "option --need: goes with --verify alone"},
        {{"--bwrap", "/usr/bin/bwrap", "--", "true"},
         "option --bwrap: goes with --verify alone"},
        {{"--verify", "true"}, "option --verify: takes no command"},
        {{"--verify", "--", "true"}, "option --verify: takes no command"},
        {{"--verify", "--wall", "5"}, "option --wall: does not go with --verify"},
        {{"-q", "--verify"}, "option --quiet: does not go with --verify"},
        {{"--verify", "--pid", "1"}, "option --pid: does not go with --verify"},
        {{"--verify=1"}, "option --verify: takes no value"},
        {{"--verify", "--json=yes"}, "option --json: takes no value"},
        {{"--verify", "--need", "nosuch"}, "option --need: 'nosuch' is no check"},
        {{"--verify", "--need", "limits,nosuch"}, "option --need: 'nosuch' is no check"},
        {{"--verify", "--need", "limits,"}, "option --need: '' is no check"},
        {{"--verify", "--need="}, "option --need: '' is no check"},
        {{"--verify", "--need", "limit"}, "option --need: 'limit' is no check"},
        {{"--verify", "--need"}, "option --need: takes a value"},
        {{"--verify", "--as-user", "1"}, "option --as-user: '1' is not a user"},
        {{"--verify", "--as-user", "1:"}, "option --as-user: '1:' is not a user"},
        {{"--verify", "--as-user", "1:-1"}, "option --as-user: '1:-1' is not a user"},
        {{"--verify", "--as-user", "4294967295:1"}, "is not a user"},
        {{"--verify", "--as-user", "nobody:nogroup"}, "is not a user"},
        {{"--verify", "--bwrap", ""}, "option --bwrap: '' is no path"},
        {{"--verify", "--nosuch"}, "--nosuch"},
    };
    char said[2048];
    for (size_t i = 0; i < LENGTH(cases); i++) {
        char path[SBX_FIXTURE_PATH_SIZE];
        struct stat status;
        ck_assert_int_eq(run_front(cases[i].words, said, sizeof said), 125);
        ck_assert_msg(strstr(said, cases[i].said) != NULL &&
                          strncmp(said, "sbx-watch: ", 11) == 0 &&
                          strchr(said, '\n') == said + strlen(said) - 1,
                      "%zu: %s", i, said);
        ck_assert_int_eq(stat(sbx_fixture_path(path, "front-out"), &status), 0);
        ck_assert_int_eq(status.st_size, 0);
    }
    if (geteuid() != 0) {
        static const char *const words[] = {"--verify", "--as-user", "1:1", NULL};
        ck_assert_int_eq(run_front(words, said, sizeof said), 125);
        ck_assert_msg(strstr(said, "only root can act for user 1:1") != NULL, "%s", said);
    }
}
END_TEST

/* The table for people has a line for every check of the JSON. */
START_TEST(test_table)
{
    static const char *const table[] = {"--verify", "--need", "ceilings", NULL};
    static const char *const json[] = {"--verify", "--json", NULL};
    char path[SBX_FIXTURE_PATH_SIZE];
    char text[32 * 1024];
    char said[1024];
    ck_assert_int_eq(run_front(table, said, sizeof said), 1); /* there is no sbx-probe */
    ck_assert_str_eq(said, "");
    (void)sbx_fixture_path(path, "front-out");
    ck_assert_int_gt(sbx_fd_read_text_at(AT_FDCWD, path, text, sizeof text), 0);
    ck_assert_ptr_nonnull(strstr(text, "\nneeded, and does not hold: "));
    (void)run_front(json, said, sizeof said);
    json_t *found = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    size_t index;
    json_t *check;
    ck_assert_ptr_nonnull(found);
    ck_assert_uint_gt(json_array_size(json_object_get(found, "checks")), 30);
    json_array_foreach(json_object_get(found, "checks"), index, check)
    {
        char line[64];
        char verdict = verdict_of(check);
        (void)snprintf(line, sizeof line, "\n%-5s%-20s ",
                       verdict == 'y'   ? "yes"
                       : verdict == 'n' ? "no"
                                        : "n.a.",
                       find_text(check, "name"));
        ck_assert_msg(strstr(text, line) != NULL, "no line: %s", line + 1);
    }
    json_decref(found);
}
END_TEST

/* --- the end in the middle --- */

/* Children of a process, as the kernel lists them; the first one in *ret_first. */
static size_t count_children(pid_t pid, pid_t *ret_first)
{
    char path[64];
    char text[4096];
    size_t count = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    if (sbx_fd_read_text_at(AT_FDCWD, path, text, sizeof text) <= 0) {
        return 0;
    }
    *ret_first = (pid_t)strtol(text, NULL, 10);
    for (const char *blank = text; (blank = strchr(blank, ' ')) != NULL; blank++) {
        count++;
    }
    return count;
}

static void nap(void)
{
    const struct timespec pause = {.tv_nsec = 2000000};
    (void)nanosleep(&pause, NULL);
}

/* How many directories of that pid's leaf there are where a leaf of ours would be. */
static size_t count_leaves(pid_t owner)
{
    char own[SBX_GROUP_KIT_SIZE];
    char mark[32];
    size_t count = 0;
    (void)snprintf(mark, sizeof mark, "-%d-", (int)owner);
    if (!sbx_group_kit_own(own)) {
        return 0;
    }
    SBX_AUTO_CLOSEDIR DIR *directory = opendir(own);
    const struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        count +=
            strncmp(entry->d_name, "sbx-", 4) == 0 && strstr(entry->d_name, mark) != NULL;
    }
    return count;
}

/* The program is killed while everything is under way: all of it ends, in order. */
START_TEST(test_killed)
{
    struct scene scene = {.name = "killed", .full = true};
    pid_t verifier = 0;
    pid_t first = 0;
    uint64_t until_us = sbx_clock_us() + LONG_S * SBX_US_PER_S;
    copy_programs();
    start(&scene);
    while (count_children(scene.pid, &verifier) == 0 ||
           count_children(verifier, &first) < 5) {
        ck_assert_uint_lt(sbx_clock_us(), until_us);
        nap();
    }
    ck_assert_int_eq(kill(scene.pid, SIGKILL), 0); /* our child, not reaped */
    for (;;) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0) {
            ck_assert_int_eq(errno, ECHILD);
            break;
        }
        ck_assert_uint_lt(sbx_clock_us(), until_us);
        if (pid == 0) {
            nap();
        }
    }
    ck_assert_uint_eq(count_leaves(verifier), 0);
    expect_no_file();
}
END_TEST

/* --- a user who is not to be trusted --- */

/* In the place of the directory that is made for him he puts a link to another one. */
static _Noreturn void put_link(void)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    uint64_t until_us = sbx_clock_us() + LONG_S * SBX_US_PER_S;
    if (chdir(sbx_fixture_path(path, "tmp")) < 0 || setgroups(0, NULL) < 0 ||
        setresgid(SOMEBODY, SOMEBODY, SOMEBODY) < 0 ||
        setresuid(SOMEBODY, SOMEBODY, SOMEBODY) < 0) {
        _exit(1);
    }
    while (sbx_clock_us() < until_us) {
        const struct timespec moment = {.tv_nsec = 100000};
        SBX_AUTO_CLOSEDIR DIR *directory = opendir(".");
        const struct dirent *entry;
        while (directory != NULL && (entry = readdir(directory)) != NULL) {
            if (entry->d_name[0] == 's' && rename(entry->d_name, "moved") == 0) {
                _exit(symlink("../kept", entry->d_name) == 0 ? 0 : 1);
            }
        }
        (void)nanosleep(&moment, NULL);
    }
    _exit(1);
}

START_TEST(test_moved_directory)
{
    struct scene scene = {
        .name = "moved", .words = {"--as-user", "12345:12345"}, .status = 1};
    char path[SBX_FIXTURE_PATH_SIZE];
    int status = 0;
    if (geteuid() != 0) {
        (void)fprintf(stderr, "SKIP: only root can be somebody else\n");
        return;
    }
    copy_programs();
    ck_assert_int_eq(mkdir(sbx_fixture_path(path, "kept"), 0755), 0);
    int file = open(sbx_fixture_path(path, "kept/file"), O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(close(file), 0);
    pid_t thief = fork();
    ck_assert_int_ge(thief, 0);
    if (thief == 0) {
        put_link();
    }
    /* He may come too late; then for the next one. */
    do {
        start(&scene);
        finish(&scene);
        json_decref(scene.found);
    } while (waitpid(thief, &status, WNOHANG) == 0);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%#x", (unsigned)status);
    ck_assert_int_eq(access(path, F_OK), 0);
}
END_TEST

/* --- the library --- */

START_TEST(test_library)
{
    struct sbx_error error = {0};
    struct sbx_verification *verification = sbx_verification_new();
    sigset_t before;
    sigset_t after;
    ck_assert_ptr_nonnull(verification);
    ck_assert_ptr_null(sbx_verification_json(verification));
    ck_assert_ptr_null(sbx_verification_text(verification));
    ck_assert_int_eq(sbx_verification_holds(verification), 0);
    ck_assert_int_eq(sbx_verification_set(verification, "nosuch", "x", &error), -EINVAL);
    ck_assert_int_eq(sbx_verification_set(verification, "need", NULL, &error), -EINVAL);
    ck_assert_int_eq(error.stage, SBX_STAGE_OPTIONS);
    ck_assert_int_eq(sbx_verification_set(verification, "need", "kernel,psi", NULL),
                     -EINVAL); /* and so not even the kernel */
    ck_assert_int_eq(setenv("SBX_PROBE", "/nonexistent/sbx-probe", 1), 0);
    ck_assert_int_eq(sigprocmask(SIG_SETMASK, NULL, &before), 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_msg(sbx_verification_run(verification, &error) == 0, "%s",
                      error.message);
        ck_assert_ptr_nonnull(
            strstr(sbx_verification_json(verification), "\"need\":[],\"missing\":[]"));
        ck_assert_ptr_eq(sbx_verification_json(verification),
                         sbx_verification_json(verification));
        ck_assert_ptr_nonnull(strstr(sbx_verification_text(verification), "ceiling-as"));
        ck_assert_int_eq(sbx_verification_holds(verification), 0);
    }
    ck_assert_int_eq(sigprocmask(SIG_SETMASK, NULL, &after), 0);
    for (int number = 1; number < NSIG; number++) {
        ck_assert_int_eq(sigismember(&before, number), sigismember(&after, number));
    }
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1); /* no child */
    sbx_verification_free(verification);
    sbx_verification_free(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verify");
    TCase *verify = sbx_fixture_case(suite, "verify", 120);
    tcase_add_test(verify, test_hosts);
    tcase_add_test(verify, test_refused_options);
    tcase_add_test(verify, test_table);
    tcase_add_test(verify, test_killed);
    tcase_add_test(verify, test_moved_directory);
    tcase_add_test(verify, test_library);
    return sbx_group_kit_finish(sbx_fixture_run(suite));
}
