/*
 * test_launch_exec.c - commands are found as execvp finds them, and a command that cannot
 * be executed is told from one that is not there.
 */
#include "base/fd.h"
#include "reaper/launch.h"
#include "tests/fixture.h"
#include "tests/launch_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static void make_file(const char *name, const char *content, size_t size, mode_t mode)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(sbx_fd_write_all(fd, content, size), 0);
    ck_assert_int_eq(fchmod(fd, mode), 0);
    ck_assert_int_eq(close(fd), 0);
}

static void make_script(const char *name, const char *content)
{
    make_file(name, content, strlen(content), 0755);
}

static void make_commands(void)
{
    static const char damaged[] = "\177ELF damaged";
    static const char binary[] = "ab\0cd";
    ck_assert_int_eq(chdir(sbx_fixture_dir()), 0);
    make_file("noexec", "#!/bin/sh\n", 10, 0644);
    make_file("damaged", damaged, sizeof damaged - 1, 0755);
    make_file("binary", binary, sizeof binary, 0755);
    make_script("orphan", "#! /no/such/interpreter -x\n");
    make_script("carriage", "#!/bin/sh\r\n");
    make_script("refused", "#!/etc/passwd\n");
    make_script("plain", "echo \"$0,$1,$#\" >output; exit 7\n");
    make_script("empty", "");
    ck_assert_int_eq(mkdir("dir", 0755), 0);
    ck_assert_int_eq(mkdir("other", 0755), 0);
    ck_assert_int_eq(mkdir("dir/directory", 0755), 0);
    ck_assert_int_eq(symlink("/no/such/target", "dangling"), 0);
    ck_assert_int_eq(symlink("loop", "loop"), 0);
    make_file("dir/first", "#!/bin/sh\nexit 1\n", 17, 0644);
    make_script("other/first", "#!/bin/sh\nexit 21\n");
    make_script("dir/second", "#!/no/such/interpreter\n");
    make_script("other/second", "#!/bin/sh\nexit 22\n");
    make_script("dir/third", "#!/no/such/interpreter\n");
    make_script("other/fourth", "exit 24\n");
}

static const struct failure {
    const char *command;
    const char *path; /* NULL: unset */
    int status;
    int code;
    const char *message; /* whole */
} failures[] = {
    {"./missing", "", 127, ENOENT, "exec ./missing: no such file or directory (ENOENT)"},
    {"no-such-dir/x", "", 127, ENOENT,
     "exec no-such-dir/x: no such file or directory (ENOENT)"},
    {"./dangling", "", 127, ENOENT,
     "exec ./dangling: no such file or directory (ENOENT)"},
    {"", "dir", 127, ENOENT, "exec \"\": no such file or directory (ENOENT)"},
    {"missing", "dir:other:", 127, ENOENT,
     "exec \"missing\": not found in PATH (ENOENT)"},
    {"missing\n", "dir", 127, ENOENT,
     "exec \"missing\\x0A\": not found in PATH (ENOENT)"},
    {"missing", "dir/first:noexec", 127, ENOENT,
     "exec \"missing\": not found in PATH (ENOENT)"},
    {"no-such-command-anywhere", NULL, 127, ENOENT,
     "exec \"no-such-command-anywhere\": not found in PATH (ENOENT)"},
    {"./noexec", "", 126, EACCES, "exec ./noexec: permission denied (EACCES)"},
    {"./dir", "", 126, EACCES, "exec ./dir: a directory: permission denied (EACCES)"},
    {"directory", "other:dir", 126, EACCES,
     "exec dir/directory: a directory: permission denied (EACCES)"},
    {"first", "dir", 126, EACCES, "exec dir/first: permission denied (EACCES)"},
    {"first", "dir:no-such-dir", 126, EACCES,
     "exec dir/first: permission denied (EACCES)"},
    {"./noexec/x", "", 126, ENOTDIR, "exec ./noexec/x: not a directory (ENOTDIR)"},
    {"./loop", "", 126, ELOOP, "exec ./loop: too many levels of symbolic links (ELOOP)"},
    {"./orphan", "", 126, ENOENT,
     "exec ./orphan: its interpreter /no/such/interpreter is missing (ENOENT)"},
    {"./carriage", "", 126, ENOENT,
     "exec ./carriage: its interpreter /bin/sh\\x0D is missing (ENOENT)"},
    {"third", "other:dir", 126, ENOENT,
     "exec dir/third: its interpreter /no/such/interpreter is missing (ENOENT)"},
    {"./refused", "", 126, EACCES, "exec ./refused: permission denied (EACCES)"},
    {"./damaged", "", 126, ENOEXEC, "exec ./damaged: exec format error (ENOEXEC)"},
    {"./binary", "", 126, ENOEXEC, "exec ./binary: exec format error (ENOEXEC)"},
};

static void assert_failure(const struct failure *expected, int status,
                           const struct sbx_error *error)
{
    ck_assert_msg(status == expected->status && error->code == expected->code &&
                      error->stage == SBX_STAGE_EXEC,
                  "status %d, stage %d, errno %d, %s", status, (int)error->stage,
                  error->code, error->message);
}

/* With ceilings that leave nothing, the record is the same. A file cannot be looked into
 * then, which costs some messages a name. */
START_TEST(exec_failures_are_told)
{
    char path[64];
    const char *environment[] = {NULL, NULL};
    const char *argv[] = {failures[_i].command, NULL};
    struct sbx_ceiling narrow[SBX_CEILING_COUNT] = {{.asked = false}};
    static const char *const ceilings[] = {"as=0",    "data=0",   "stack=0",
                                           "fsize=0", "nofile=0", "memlock=0",
                                           "nproc=0", "core=0",   "sigpending=0"};
    struct sbx_error error;
    make_commands();
    struct sbx_launch launch = sbx_kit_launch(argv);
    if (failures[_i].path != NULL) {
        (void)snprintf(path, sizeof path, "PATH=%s", failures[_i].path);
        environment[0] = path;
    }
    launch.envp = environment;
    assert_failure(&failures[_i], sbx_kit_fail(&launch, &error), &error);
    ck_assert_str_eq(error.message, failures[_i].message);
    for (size_t i = 0; i < LENGTH(ceilings); i++) {
        ck_assert_int_eq(sbx_ceiling_parse(ceilings[i], narrow, NULL), 0);
    }
    launch.ceilings = narrow;
    assert_failure(&failures[_i], sbx_kit_fail(&launch, &error), &error);
}
END_TEST

START_TEST(too_long_is_told)
{
    static char long_text[256 * 1024];
    memset(long_text, 'x', sizeof long_text - 1);
    const char *argv[] = {"true", long_text, NULL};
    struct sbx_error error;
    struct sbx_launch launch = sbx_kit_launch(argv);
    ck_assert_int_eq(sbx_kit_fail(&launch, &error), 126);
    ck_assert_int_eq(error.code, E2BIG);
    ck_assert_int_eq(error.stage, SBX_STAGE_EXEC);
    ck_assert_ptr_nonnull(strstr(error.message, "true: argument list too long (E2BIG)"));
    argv[0] = long_text;
    argv[1] = NULL;
    long_text[NAME_MAX + 1] = '\0';
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(sbx_kit_fail(&launch, &error), 126);
        ck_assert_int_eq(error.code, ENAMETOOLONG);
        memset(long_text, '/', (size_t)2 * PATH_MAX);
    }
}
END_TEST

static const struct {
    const char *command;
    const char *path; /* NULL: unset */
    int exit_code;
    const char *output; /* of the script "plain", or NULL */
} successes[] = {
    {"true", NULL, 0, NULL},
    {"first", "dir:other", 21, NULL},
    {"second", "dir:other", 22, NULL},
    {"fourth", "dir::other:", 24, NULL},
    {"./empty", "", 0, NULL},
    {"./plain", "", 7, "./plain,two words,1\n"},
    {"plain", "", 7, "plain,two words,1\n"},
    {"plain", "dir:.", 7, "./plain,two words,1\n"},
    {"plain", "dir::other", 7, "plain,two words,1\n"},
    {"-d/plain", "", 7, "./-d/plain,two words,1\n"},
};

START_TEST(commands_are_found)
{
    char text[64] = "";
    char path[64];
    const char *environment[] = {NULL, NULL};
    const char *argv[] = {successes[_i].command, "two words", NULL};
    make_commands();
    ck_assert_int_eq(symlink(".", "-d"), 0);
    struct sbx_launch launch = sbx_kit_launch(argv);
    if (successes[_i].path != NULL) {
        (void)snprintf(path, sizeof path, "PATH=%s", successes[_i].path);
        environment[0] = path;
    }
    launch.envp = environment;
    sbx_kit_assert_exited(sbx_kit_run(&launch), successes[_i].exit_code);
    if (successes[_i].output != NULL) {
        ck_assert_int_gt(sbx_fd_read_text_at(AT_FDCWD, "output", text, sizeof text), 0);
        ck_assert_str_eq(text, successes[_i].output);
    }
}
END_TEST

/* Directories of PATH that make no path are passed over, however long PATH is. */
START_TEST(long_path_is_searched)
{
    static char path[(size_t)3 * PATH_MAX] = "PATH=";
    const char *environment[] = {path, NULL};
    static const char *const argv[] = {"first", NULL};
    make_commands();
    struct sbx_launch launch = sbx_kit_launch(argv);
    memset(path + 5, 'x', (size_t)2 * PATH_MAX);
    strncat(path, ":other", 7);
    launch.envp = environment;
    sbx_kit_assert_exited(sbx_kit_run(&launch), 21);
}
END_TEST

/* The numbers below the ceiling are taken by descriptors that exec would close. */
START_TEST(script_under_low_ceiling_runs)
{
    struct sbx_ceiling ceilings[SBX_CEILING_COUNT] = {{.asked = false}};
    static const char *const argv[] = {"./plain", NULL};
    make_commands();
    struct sbx_launch launch = sbx_kit_launch(argv);
    launch.ceilings = ceilings;
    ck_assert_int_eq(sbx_ceiling_parse("nofile=12", ceilings, NULL), 0);
    struct sbx_kit_fill fill = sbx_kit_fill();
    sbx_kit_assert_exited(sbx_kit_run(&launch), 7);
    sbx_kit_unfill(&fill);
}
END_TEST

static uintptr_t stack_start(void)
{
    char line[512];
    uintptr_t start = 0;
    FILE *file = fopen("/proc/self/maps", "re");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (strstr(line, "[stack]") != NULL) {
            start = (uintptr_t)strtoull(line, NULL, 16);
        }
    }
    (void)fclose(file);
    ck_assert_uint_ne(start, 0);
    return start;
}

/* Launches from so deep that the stack has to grow for what comes. */
static int fail_deep(const struct sbx_launch *launch, struct sbx_error *ret_error,
                     uintptr_t start)
{
    volatile char frame[1024];
    frame[0] = 0;
    if ((uintptr_t)frame > start + (uintptr_t)4096) {
        int status = fail_deep(launch, ret_error, start);
        frame[1] = frame[0];
        return status;
    }
    return sbx_kit_fail(launch, ret_error);
}

START_TEST(stack_has_grown_before_its_ceiling)
{
    static const char *const argv[] = {"./missing", NULL};
    struct sbx_ceiling ceilings[SBX_CEILING_COUNT] = {{.asked = false}};
    struct sbx_error error;
    struct sbx_launch launch = sbx_kit_launch(argv);
    launch.ceilings = ceilings;
    ck_assert_int_eq(sbx_ceiling_parse("stack=0", ceilings, NULL), 0);
    int status = fail_deep(&launch, &error, stack_start());
    ck_assert_msg(status == 127 && error.code == ENOENT, "%s", error.message);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("launch_exec");
    TCase *exec = sbx_fixture_case(suite, "exec", 60);
    tcase_add_loop_test(exec, exec_failures_are_told, 0, (int)LENGTH(failures));
    tcase_add_test(exec, too_long_is_told);
    tcase_add_loop_test(exec, commands_are_found, 0, (int)LENGTH(successes));
    tcase_add_test(exec, long_path_is_searched);
    tcase_add_test(exec, script_under_low_ceiling_runs);
    tcase_add_test(exec, stack_has_grown_before_its_ceiling);
    return sbx_fixture_run(suite);
}
