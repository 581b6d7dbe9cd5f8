/*
 * test_plan.c - what a plan says of a description, without running it: paths, what a path
 * means inside, masks, binds, directories, commands, streams, and what is refused.
 *
 * The scenes lie in the test's own directory, which is shown by no bind of the system.
 */
#include "sandbox/inside.h"
#include "sandbox/paths.h"
#include "sandbox/plan.h"

#include "tests/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define WORDS_MAX 16

/* --- paths as text --- */

START_TEST(test_absolute)
{
    static const struct {
        const char *base;
        const char *path;
        const char *expected;
    } rows[] = {
        {"/base", "x", "/base/x"},
        {"/base", "/x", "/x"},
        {"/", "x", "/x"},
        {"/base", ".", "/base"},
        {"/base", "", "/base"},
        {"/base", "//x///y/.//", "/x/y"},
        {"/base", "../x", "/base/../x"},
        {"/", ".", "/"},
        {"/a/", "b/./c/", "/a/b/c"},
        {"/", "/.../x", "/.../x"},
    };
    for (size_t i = 0; i < LENGTH(rows); i++) {
        char made[PATH_MAX];
        ck_assert_int_eq(sbx_path_absolute(rows[i].base, rows[i].path, made), 0);
        ck_assert_str_eq(made, rows[i].expected);
    }
    char most[PATH_MAX];
    char made[PATH_MAX] = "as it was";
    memset(most, 'x', sizeof most - 1);
    most[sizeof most - 1] = '\0';
    ck_assert_int_eq(sbx_path_absolute("/", most, made), -ENAMETOOLONG);
    ck_assert_str_eq(made, "as it was");
}
END_TEST

START_TEST(test_within)
{
    static const struct {
        const char *path;
        const char *top;
        const char *rest; /* NULL: it is not */
    } rows[] = {
        {"/a/b", "/a", "/b"}, {"/a", "/a", ""},        {"/ab", "/a", NULL},
        {"/a", "/a/b", NULL}, {"/a", "/", "/a"},       {"/", "/", ""},
        {"/", "/a", NULL},    {"/a/bc", "/a/b", NULL},
    };
    for (size_t i = 0; i < LENGTH(rows); i++) {
        ck_assert_int_eq(sbx_path_is_within(rows[i].path, rows[i].top),
                         rows[i].rest != NULL);
        if (rows[i].rest != NULL) {
            ck_assert_str_eq(sbx_path_rest(rows[i].path, rows[i].top), rows[i].rest);
        }
    }
    ck_assert(sbx_path_climbs("/a/.."));
    ck_assert(sbx_path_climbs("../a"));
    ck_assert(!sbx_path_climbs("/a/..b/c../..."));
    ck_assert_uint_eq(sbx_path_depth("/"), 0);
    ck_assert_uint_eq(sbx_path_depth("/a"), 1);
    ck_assert_uint_eq(sbx_path_depth("/a/b/c"), 3);
}
END_TEST

/* --- plans --- */

/* "@" at the start of a word, and after a colon, is the test's directory. */
static void expand(const char *word, char text[static PATH_MAX])
{
    size_t used = 0;
    text[0] = '\0';
    for (const char *at = word; *at != '\0'; at++) {
        bool marks = *at == '@' && (at == word || at[-1] == ':' || at[-1] == '=');
        int length = marks
                         ? snprintf(text + used, PATH_MAX - used, "%s", sbx_fixture_dir())
                         : snprintf(text + used, PATH_MAX - used, "%c", *at);
        ck_assert(length > 0 && used + (size_t)length < PATH_MAX);
        used += (size_t)length;
    }
}

/* Options as "--name VALUE --flag -- COMMAND ARG": words divided by blanks. */
static int make_plan(const char *words, struct sbx_plan **ret_plan, struct sbx_error *err)
{
    static char kept[WORDS_MAX][PATH_MAX];
    const char *argv[WORDS_MAX] = {NULL};
    char *copy = strdup(words);
    size_t count = 0;
    ck_assert_ptr_nonnull(copy);
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " ")) {
        ck_assert_uint_lt(count, WORDS_MAX - 1);
        expand(word, kept[count]);
        argv[count] = kept[count];
        count++;
    }
    free(copy);
    struct sbx_sandbox *sandbox = sbx_sandbox_new();
    ck_assert_ptr_nonnull(sandbox);
    size_t next = 0;
    int r = 0;
    for (; r == 0 && next < count && strcmp(argv[next], "--") != 0; next++) {
        const char *name = argv[next] + 2;
        bool flag = strcmp(name, "proc") == 0 || strcmp(name, "no-default-masks") == 0 ||
                    strcmp(name, "strict-stdin") == 0;
        r = sbx_sandbox_set(sandbox, name, flag ? NULL : argv[++next], err);
    }
    static const char *const nothing[] = {"true", NULL};
    const char *const *command = next + 1 < count ? argv + next + 1 : nothing;
    r = r == 0 ? sbx_sandbox_set_command(sandbox, command, err) : r;
    r = r == 0 ? sbx_sandbox_plan(sandbox, ret_plan, err) : r;
    sbx_sandbox_free(sandbox);
    return r;
}

static struct sbx_plan *plan_of(const char *words)
{
    struct sbx_plan *plan = NULL;
    struct sbx_error error = {0};
    int r = make_plan(words, &plan, &error);
    ck_assert_msg(r == 0, "%s: %s", words, error.message);
    return plan;
}

static void expect_refused(const char *words, int code, const char *said)
{
    struct sbx_plan *plan = NULL;
    struct sbx_error error = {0};
    int r = make_plan(words, &plan, &error);
    ck_assert_msg(r == -code && error.code == code, "%s: %d (%s), expected %d", words, r,
                  error.message, -code);
    ck_assert_msg(strstr(error.message, said) != NULL, "%s: '%s' lacks '%s'", words,
                  error.message, said);
    ck_assert_ptr_null(plan);
}

static void put(const char *name, const char *text)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    FILE *file = fopen(sbx_fixture_path(path, name), "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

static void make_directory(const char *name)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    ck_assert_int_eq(mkdir(sbx_fixture_path(path, name), 0755), 0);
}

static void make_link(const char *target, const char *name)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    ck_assert_int_eq(symlink(target, sbx_fixture_path(path, name)), 0);
}

/* ws/file, ws/sub, ws/out -> ../other, ws/etc -> /etc, ws/in -> sub; other/file; link ->
 * ws. Standard input is nothing, whatever the tests were started with. */
static void build_scene(void)
{
    make_directory("ws");
    make_directory("ws/sub");
    make_directory("other");
    put("ws/file", "of ws\n");
    put("other/file", "of other\n");
    make_link("../other", "ws/out");
    make_link("/etc", "ws/etc");
    make_link("sub", "ws/in");
    make_link("ws", "link");
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(dup2(fd, STDIN_FILENO), STDIN_FILENO);
    ck_assert_int_eq(close(fd), 0);
}

static const struct sbx_mount *mount_at(const struct sbx_plan *plan, const char *word)
{
    char path[PATH_MAX];
    expand(word, path);
    for (size_t i = plan->mount_count; i > 0; i--) {
        if (strcmp(plan->mounts[i - 1].destination, path) == 0) {
            return &plan->mounts[i - 1];
        }
    }
    return NULL;
}

static void expect_mount(const struct sbx_plan *plan, const char *word,
                         enum sbx_mount_kind kind, const char *source)
{
    const struct sbx_mount *mount = mount_at(plan, word);
    ck_assert_msg(mount != NULL, "nothing at %s", word);
    ck_assert_msg(mount->kind == kind, "%s: kind %d", word, (int)mount->kind);
    if (source != NULL) {
        char path[PATH_MAX];
        expand(source, path);
        ck_assert_str_eq(mount->source, path);
    }
}

START_TEST(test_refused)
{
    static const struct {
        const char *words;
        int code;
        const char *said;
    } rows[] = {
        {"--bind @/none", ENOENT, "--bind"},
        {"--ro-bind @/none", ENOENT, "--ro-bind"},
        {"--bind @/ws:/x:/y", EINVAL, "more than one"},
        {"--bind @/ws:/x:ro", EINVAL, "--ro-bind read-only"},
        {"--ro-bind @/ws:/x:rw", EINVAL, "a mode behind DEST"},
        {"--bind @/ws:x", ENOENT, "DEST is an absolute path"},
        {"--bind @/ws:/x/../y", EINVAL, "'..'"},
        {"--bind @/ws:/dev", EINVAL, "fresh"},
        {"--bind @/ws:/run", EINVAL, "fresh"},
        {"--bind @/ws:/proc/x", EINVAL, "fresh"},
        {"--bind @/ws:/run/sbx-inner", EINVAL, "in use"},
        {"--bind /proc", EINVAL, "--proc"},
        {"--bind /proc/self:/x", EINVAL, "--proc"},
        {"--bind @/ws --ro-bind @/ws", EINVAL, "two different"},
        {"--bind @/ws --bind @/other:@/ws", EINVAL, "two different"},
        {"--bind @/ws --bind @/other:@/ws/none", ENOENT, "made on the host"},
        {"--bind @/ws --bind @/other:@/ws/file", ENOTDIR, "its source is one"},
        {"--bind @/ws --bind @/other/file:@/ws/sub", EISDIR, "its source is none"},
        {"--bind @/other:/usr/none", ENOENT, "made on the host"},
        {"--mask @/none", ENOENT, "--mask"},
        {"--mask /", EINVAL, "root"},
        {"--mask /dev/null", EINVAL, "fresh"},
        {"--mask /run", EINVAL, "fresh"},
        {"--proc --mask /proc", EINVAL, "fresh"},
        {"--bind @/ws --mask @/ws", EINVAL, "--mask as well"},
        {"--bind @/ws:/x --mask @/ws", EINVAL, "--mask as well"},
        {"--bind @/link --mask @/ws", EINVAL, "--mask as well"},
        {"--bind @/ws --mask @/ws/sub --bind @/other:@/ws/sub/x", EINVAL, "below a path"},
        {"--bind @/ws/sub:/x --mask @/ws", EINVAL, "below a path"},
        {"--bind @/ws --chdir @/other", ENOENT, "does not exist inside"},
        {"--bind @/ws --chdir @/ws/out", ENOENT, "does not exist inside"},
        {"--bind @/ws --chdir @/ws/etc", EACCES, "links are followed"},
        {"--bind @/ws --chdir @/ws/../other", ENOENT, "does not exist inside"},
        {"--bind @/ws --chdir @/ws/..", EACCES, "does not lie inside"},
        {"--bind @/ws --chdir @/ws/file", ENOTDIR, "no directory"},
        {"--chdir /usr", EACCES, "does not lie inside"},
        {"--chdir /tmp", EACCES, "does not lie inside"},
        {"--bind @/ws --mask @/ws/sub --chdir @/ws/sub", EACCES, "does not lie inside"},
        {"--proc --self-exe /usr/bin/env", EINVAL, "--self-exe"},
        {"--self-exe env", EINVAL, "absolute"},
        {"--self-exe /usr/bin/none", ENOENT, "no file inside"},
        {"--self-exe @/ws/file", ENOENT, "no file inside"},
        {"--env A-B=1", EINVAL, "'A-B' is not a name"},
        {"--env 1A", EINVAL, "not a name"},
        {"--env =1", EINVAL, "not a name"},
        {"--rlimit nofile=3:4", EINVAL, "soft and a hard"},
        {"--rlimit nofile=x", EINVAL, "nofile takes a count"},
        {"--rlimit nofile", EINVAL, "'nofile' is not NAME=VALUE"},
        {"--tmp-size 4K", ERANGE, "--tmp-size"},
        {"--network some", EINVAL, "host, none"},
        {"--seccomp 2", ERANGE, "--seccomp"},
        {"--seccomp 1234567", EBADF, "--seccomp"},
        {"--bwrap @/none", ENOENT, "--bwrap"},
        {"--bwrap @/ws/file", EACCES, "--bwrap"},
        {"--mask /usr/bin -- /usr/bin/true", EACCES, "hidden by a mask"},
        {"--as-user x", EINVAL, "--as-user"},
        {"--ro-bind @/ws:/", ENOTDIR, "no directory /dev"},
    };
    build_scene();
    for (size_t i = 0; i < LENGTH(rows); i++) {
        expect_refused(rows[i].words, rows[i].code, rows[i].said);
    }
    if (getuid() == 0) {
        expect_refused("--rlimit nproc=5", EINVAL, "--processes");
    } else {
        expect_refused("--as-user 0:0", EPERM, "--as-user");
    }
}
END_TEST

START_TEST(test_binds)
{
    build_scene();
    struct sbx_plan *plan = plan_of("--bind @/link --ro-bind @/other:/x/y");
    expect_mount(plan, "@/link", SBX_MOUNT_BIND,
                 "@/ws"); /* resolved, at the name given */
    expect_mount(plan, "/x/y", SBX_MOUNT_RO_BIND, "@/other");
    expect_mount(plan, "/usr", SBX_MOUNT_RO_BIND, NULL);
    sbx_plan_free(plan);

    /* Parents first, however they were named; and a destination through a link of a bind
     * is where that leads. */
    plan = plan_of("--bind @/other:@/ws/in --bind @/ws");
    expect_mount(plan, "@/ws/sub", SBX_MOUNT_BIND, "@/other");
    ck_assert_ptr_null(mount_at(plan, "@/ws/in"));
    ck_assert(mount_at(plan, "@/ws") < mount_at(plan, "@/ws/sub"));
    sbx_plan_free(plan);

    /* Twice the same is once. */
    plan = plan_of("--bind @/ws --bind @/ws");
    size_t count = plan->mount_count;
    sbx_plan_free(plan);
    plan = plan_of("--bind @/ws");
    ck_assert_uint_eq(plan->mount_count, count);
    sbx_plan_free(plan);
}
END_TEST

START_TEST(test_masks)
{
    build_scene();
    /* About the host's file, so by every name that it has inside. */
    struct sbx_plan *plan = plan_of("--bind @/ws --ro-bind @/ws:/again --mask @/ws/in");
    expect_mount(plan, "@/ws/sub", SBX_MOUNT_MASK, NULL);
    expect_mount(plan, "/again/sub", SBX_MOUNT_MASK, NULL);
    sbx_plan_free(plan);

    plan = plan_of("--bind @/ws --mask @/ws/file");
    expect_mount(plan, "@/ws/file", SBX_MOUNT_MASK_FILE, NULL);
    sbx_plan_free(plan);

    /* A system root that is masked is not there at all, and links into it neither. */
    plan = plan_of("--mask /usr");
    ck_assert_ptr_null(mount_at(plan, "/usr"));
    sbx_plan_free(plan);

    plan = plan_of("--ro-bind /");
    expect_mount(plan, "/", SBX_MOUNT_RO_BIND, "/");
    expect_mount(plan, "/root", SBX_MOUNT_MASK, NULL);
    expect_mount(plan, "/proc", SBX_MOUNT_MASK, NULL);
    expect_mount(plan, "/sys", SBX_MOUNT_MASK, NULL);
    expect_mount(plan, "/run", SBX_MOUNT_TMPFS, NULL);
    sbx_plan_free(plan);
    plan = plan_of("--ro-bind /:/host");
    expect_mount(plan, "/host/root", SBX_MOUNT_MASK, NULL);
    expect_mount(plan, "/host/proc", SBX_MOUNT_MASK, NULL);
    expect_mount(plan, "/host/dev", SBX_MOUNT_MASK, NULL);
    sbx_plan_free(plan);

    /* An explicit bind at or below a default mask is shown. */
    plan = plan_of("--ro-bind /var:/var");
    expect_mount(plan, "/var", SBX_MOUNT_RO_BIND, NULL);
    sbx_plan_free(plan);
    plan = plan_of("--bind @/ws:/home/someone/ws");
    expect_mount(plan, "/home/someone/ws", SBX_MOUNT_BIND, "@/ws");
    ck_assert(mount_at(plan, "/home") < mount_at(plan, "/home/someone/ws"));
    sbx_plan_free(plan);
    plan = plan_of("--no-default-masks");
    ck_assert_ptr_null(mount_at(plan, "/home"));
    sbx_plan_free(plan);
}
END_TEST

START_TEST(test_directories)
{
    static const struct {
        const char *words;
        const char *expected;
    } rows[] = {
        {"--bind @/ws --chdir @/ws", "@/ws"},
        {"--bind @/ws --chdir @/ws/in", "@/ws/sub"},
        {"--bind @/ws --chdir @/link", "@/ws"}, /* outside, but it leads inside */
        {"--bind @/ws --ro-bind @/other --chdir @/ws/out", "@/other"},
        {"--bind @/ws:/w --chdir /w/sub/../sub", "/w/sub"},
        {"--bind @/ws", "/"},
        {"--bind @/link --chdir @/link", "@/link"},
    };
    build_scene();
    for (size_t i = 0; i < LENGTH(rows); i++) {
        char expected[PATH_MAX];
        struct sbx_plan *plan = plan_of(rows[i].words);
        expand(rows[i].expected, expected);
        ck_assert_str_eq(plan->directory, expected);
        sbx_plan_free(plan);
    }
    /* The caller's own, where it is inside. */
    char path[SBX_FIXTURE_PATH_SIZE];
    ck_assert_int_eq(chdir(sbx_fixture_path(path, "ws/sub")), 0);
    struct sbx_plan *plan = plan_of("--bind @/ws");
    ck_assert_str_eq(plan->directory, path);
    sbx_plan_free(plan);
    plan = plan_of("--bind ..:/up --bind .");
    expect_mount(plan, "@/ws/sub", SBX_MOUNT_BIND, "@/ws/sub");
    expect_mount(plan, "/up", SBX_MOUNT_BIND, "@/ws");
    sbx_plan_free(plan);
}
END_TEST

START_TEST(test_commands)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    build_scene();
    put("other/tool", "#!/bin/sh\n");
    ck_assert_int_eq(chmod(sbx_fixture_path(path, "other/tool"), 0755), 0);
    make_link("other/tool", "tool");

    /* Its file and nothing beside it. */
    struct sbx_plan *plan = plan_of("-- @/other/tool");
    expect_mount(plan, "@/other/tool", SBX_MOUNT_RO_BIND, "@/other/tool");
    ck_assert_ptr_null(mount_at(plan, "@/other"));
    sbx_plan_free(plan);
    plan = plan_of("-- @/tool");
    expect_mount(plan, "@/tool", SBX_MOUNT_RO_BIND, "@/other/tool");
    sbx_plan_free(plan);
    plan = plan_of("-- @/ws/../other/tool"); /* ws is not there */
    ck_assert_str_eq(plan->executable, sbx_fixture_path(path, "other/tool"));
    expect_mount(plan, "@/other/tool", SBX_MOUNT_RO_BIND, "@/other/tool");
    sbx_plan_free(plan);
    plan = plan_of("--bind @/other -- @/other/tool"); /* shown by the bind */
    ck_assert_ptr_null(mount_at(plan, "@/other/tool"));
    sbx_plan_free(plan);
    plan = plan_of("--bind @/ws --chdir @/ws -- ./none"); /* left for exec to say */
    ck_assert_ptr_null(mount_at(plan, "@/ws/none"));
    sbx_plan_free(plan);
    expect_refused("--mask @/other -- @/other/tool", EACCES, "hidden by a mask");
    expect_refused("--mask @/other -- @/tool", EACCES, "hidden by a mask");
    /* Where the caller is, the command is not. */
    ck_assert_int_eq(chdir(sbx_fixture_path(path, "other")), 0);
    expect_refused("-- ./tool", ENOENT, "would start in '/', where it is not");
    expect_refused("--bind @/ws --chdir @/ws -- ./tool", ENOENT, "--ro-bind .");
    plan = plan_of("--ro-bind . -- ./tool");
    ck_assert_str_eq(plan->directory, sbx_fixture_path(path, "other"));
    sbx_plan_free(plan);
    plan = plan_of("-- ./file-that-is-nowhere"); /* left for exec to say */
    ck_assert_str_eq(plan->executable, "./file-that-is-nowhere");
    sbx_plan_free(plan);
}
END_TEST

START_TEST(test_streams)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    build_scene();
    int before = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    ck_assert_int_ge(before, 0);
    int fd = open(sbx_fixture_path(path, "ws"), O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(dup2(fd, STDIN_FILENO), STDIN_FILENO);
    expect_refused("-- true", EISDIR, "standard input");
    ck_assert_int_eq(close(fd), 0);
    fd = open(sbx_fixture_path(path, "ws/file"), O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(dup2(fd, STDIN_FILENO), STDIN_FILENO); /* it is ours: it can be */
    ck_assert_int_eq(close(fd), 0);
    struct sbx_plan *plan = plan_of("-- true");
    ck_assert_ptr_nonnull(sbx_plan_warning(plan, 0));
    ck_assert_ptr_nonnull(strstr(sbx_plan_warning(plan, 0), "standard input"));
    ck_assert_ptr_null(sbx_plan_warning(plan, 1));
    sbx_plan_free(plan);
    expect_refused("--strict-stdin -- true", EACCES, "--strict-stdin");
    ck_assert_int_eq(dup2(before, STDIN_FILENO), STDIN_FILENO);
    ck_assert_int_eq(close(before), 0);
}
END_TEST

/* The same bytes twice, and no value of a variable. */
START_TEST(test_json)
{
    build_scene();
    ck_assert_int_eq(setenv("SBX_TEST_SECRET", "s3cr3t-inherited", 1), 0);
    put("env", "FROM_FILE=s3cr3t-file\n");
    const char *words = "--bind @/ws --env SBX_TEST_SECRET --env GIVEN=s3cr3t-given "
                        "--env-from @/env --env NOT_THERE --proc";
    struct sbx_plan *plan = plan_of(words);
    struct sbx_plan *again = plan_of(words);
    ck_assert_ptr_nonnull(sbx_plan_json(plan));
    ck_assert_str_eq(sbx_plan_json(plan), sbx_plan_json(again));
    ck_assert_ptr_null(strstr(sbx_plan_json(plan), "s3cr3t"));
    ck_assert_ptr_nonnull(strstr(sbx_plan_warning(plan, 0), "NOT_THERE"));
    json_error_t error;
    json_t *root = json_loads(sbx_plan_json(plan), 0, &error);
    ck_assert_msg(root != NULL, "%s", error.text);
    const json_t *names = json_object_get(root, "environment");
    static const char *const expected[] = {"PATH", "FROM_FILE", "SBX_TEST_SECRET",
                                           "GIVEN"};
    ck_assert_uint_eq(json_array_size(names), LENGTH(expected));
    for (size_t i = 0; i < LENGTH(expected); i++) {
        ck_assert_str_eq(json_string_value(json_array_get(names, i)), expected[i]);
    }
    ck_assert(json_is_true(json_object_get(json_object_get(root, "dev_fd"), "works")));
    json_decref(root);
    sbx_plan_free(plan);
    sbx_plan_free(again);
}
END_TEST

/* --- inside --- */

START_TEST(test_inside)
{
    static const struct {
        const char *path;
        const char *expected;
        bool exists;
    } rows[] = {
        {"/bin/sh", "/usr/bin/dash", true},
        {"/", "/", true},
        {"/..", "/", true},
        {"@/ws/in/../file", "@/ws/file", true},
        {"@/ws/out", "@/other", false},
        {"@/ws/etc/passwd", "/etc/passwd", true},
        {"@/ws/none/x", "@/ws/none/x", false},
        {"/tmp", "/tmp", true},
        {"/tmp/none", "/tmp/none", false},
        {"/home", "/home", true},
    };
    struct sbx_inside at;
    build_scene();
    make_link("loop", "ws/loop");
    struct sbx_plan *plan = plan_of("--bind @/ws");
    for (size_t i = 0; i < LENGTH(rows); i++) {
        char path[PATH_MAX];
        char expected[PATH_MAX];
        expand(rows[i].path, path);
        expand(rows[i].expected, expected);
        ck_assert_int_eq(sbx_inside(plan, path, &at), 0);
        ck_assert_msg(at.exists == rows[i].exists, "%s", path);
        if (i > 0) { /* what sh is differs */
            ck_assert_str_eq(at.path, expected);
        }
    }
    char path[PATH_MAX];
    expand("@/ws/loop", path);
    ck_assert_int_eq(sbx_inside(plan, path, &at), -ELOOP);
    sbx_plan_free(plan);
}
END_TEST

int main(void)
{
    if (setenv("SBX_INNER", SBX_TEST_INNER, 1) < 0) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("plan");
    TCase *texts = sbx_fixture_case(suite, "paths", 20);
    tcase_add_test(texts, test_absolute);
    tcase_add_test(texts, test_within);
    TCase *plans = sbx_fixture_case(suite, "plans", 60);
    tcase_add_test(plans, test_refused);
    tcase_add_test(plans, test_binds);
    tcase_add_test(plans, test_masks);
    tcase_add_test(plans, test_directories);
    tcase_add_test(plans, test_commands);
    tcase_add_test(plans, test_streams);
    tcase_add_test(plans, test_json);
    tcase_add_test(plans, test_inside);
    return sbx_fixture_run(suite);
}
