/*
 * test_inner.c - sbx-inner, process 1 of a sandbox: how the command is born and how its
 * end is told, what passes on to it, whom it outlives, and that nothing inside can do
 * anything to it.
 *
 * Runs the built program, as sbx-run does, but without bubblewrap.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "sandbox/inner.h"
#include "sandbox/seccomp.h"
#include "tests/fixture.h"
#include "tests/inner_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH(array) (int)(sizeof(array) / sizeof((array)[0]))

static const enum sbx_inner_kind started[] = {SBX_INNER_READY, SBX_INNER_STARTED, 0};
static const enum sbx_inner_kind ended[] = {SBX_INNER_ENDED, 0};
static const enum sbx_inner_kind all[] = {SBX_INNER_READY, SBX_INNER_STARTED,
                                          SBX_INNER_ENDED, 0};
static const enum sbx_inner_kind refused[] = {SBX_INNER_READY, SBX_INNER_FAILED, 0};

static struct sbx_kit_inner_job shell(const char *const argv[static 4])
{
    return (struct sbx_kit_inner_job){.argv = argv, .file = "/bin/sh"};
}

#define SHELL(script)                                                                    \
    (const char *const[])                                                                \
    {                                                                                    \
        "sh", "-c", (script), NULL                                                       \
    }

static void assert_exited(int status, int code)
{
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == code, "wait status %#x",
                  status);
}

/* A run from the beginning to the command's end; its wait status. */
static int run(const struct sbx_kit_inner_job *job)
{
    struct sbx_kit_inner inner = sbx_kit_inner_start(job);
    struct sbx_inner_record last = sbx_kit_inner_expect(&inner, all);
    sbx_kit_inner_hang_up(&inner);
    assert_exited(sbx_kit_inner_end(&inner), 0);
    return last.status;
}

/* --- the end --- */

static const struct ending {
    const char *script;
    int status;
} endings[] = {
    {"exit 0", 0},
    {"exit 42", 42 << 8},
    {"exit 255", 255 << 8},
    {"ulimit -c 0; kill -SEGV $$", SIGSEGV},
    {"kill -KILL $$", SIGKILL},
    {"kill -TERM $$", SIGTERM},
    /* Children that end before, after and at the same moment. */
    {"sh -c 'exit 1' & sh -c 'exit 2' & sh -c 'kill -9 $$' & exit 5", 5 << 8},
    {"(sh -c 'exit 1' &); (sh -c 'exit 2' &); exit 6", 6 << 8},
};

START_TEST(the_end_is_told_as_it_was)
{
    struct sbx_kit_inner_job job = shell(SHELL(endings[_i].script));
    ck_assert_int_eq(run(&job), endings[_i].status);
}
END_TEST

/* Whether the command was the last one: sbx-run need not leave anybody to a supervisor
 * then. */
START_TEST(who_is_left_is_told)
{
    const struct sbx_kit_inner_job quiet = shell(SHELL("sh -c 'exit 1' & wait; exit 0"));
    struct sbx_kit_inner inner = sbx_kit_inner_start(&quiet);
    ck_assert_int_eq(sbx_kit_inner_expect(&inner, all).kind, SBX_INNER_ENDED_ALONE);
    sbx_kit_inner_hang_up(&inner);
    assert_exited(sbx_kit_inner_end(&inner), 0);
    const struct sbx_kit_inner_job busy = shell(SHELL("sleep 100 & exit 0"));
    inner = sbx_kit_inner_start(&busy);
    ck_assert_int_eq(sbx_kit_inner_expect(&inner, all).kind, SBX_INNER_ENDED);
    sbx_kit_inner_hang_up(&inner);
    assert_exited(sbx_kit_inner_end(&inner), 0);
}
END_TEST

START_TEST(orphans_are_reaped)
{
    char helper[SBX_FIXTURE_PATH_SIZE];
    const char *const argv[] = {sbx_fixture_helper(helper, "inner_attack"), "orphans",
                                "2000", NULL};
    const struct sbx_kit_inner_job job = {.argv = argv};
    ck_assert_int_eq(run(&job), 7 << 8);
}
END_TEST

/* --- the birth --- */

START_TEST(the_command_has_what_was_ordered_and_nothing_else)
{
    char helper[SBX_FIXTURE_PATH_SIZE];
    char wanted[1024];
    const char *const argv[] = {"any name", NULL};
    const char *const environment[] = {"B=two words", "A=", "PATH=/nowhere", "B=again",
                                       NULL};
    const struct sbx_kit_inner_job job = {.argv = argv,
                                          .file =
                                              sbx_fixture_helper(helper, "print_start"),
                                          .environment = environment};
    ck_assert_int_eq(run(&job), 0);
    const char *text = sbx_kit_inner_text("out");
    (void)snprintf(wanted, sizeof wanted, "cwd %s\n", sbx_fixture_dir());
    ck_assert_ptr_eq(strstr(text, wanted), text);
    ck_assert_ptr_nonnull(strstr(text, "\ngroup own\n"));
    const char *rest = strstr(text, "\nno_new_privs 1\n");
    ck_assert_ptr_nonnull(rest);
    ck_assert_str_eq(rest, "\nno_new_privs 1\nenv B=two words\nenv A=\nenv "
                           "PATH=/nowhere\nenv B=again\n");
}
END_TEST

START_TEST(arguments_are_kept)
{
    const char *const argv[] = {
        "own name", "-c", "echo \"$0|$1|$2|$#\"", "zero", "one word", "", NULL};
    const struct sbx_kit_inner_job job = {.argv = argv, .file = "/bin/sh"};
    ck_assert_int_eq(run(&job), 0);
    ck_assert_str_eq(sbx_kit_inner_text("out"), "zero|one word||2\n");
}
END_TEST

START_TEST(stderr_is_put_in_place)
{
    struct sbx_kit_inner_job job = shell(SHELL("echo out; echo err >&2"));
    ck_assert_int_eq(run(&job), 0);
    ck_assert_str_eq(sbx_kit_inner_text("out"), "out\n");
    ck_assert_str_eq(sbx_kit_inner_text("err"), "err\n");
    ck_assert_str_eq(sbx_kit_inner_text("early"), "");
}
END_TEST

START_TEST(descriptors_are_closed)
{
    /* Whichever way there is to look. */
    struct sbx_kit_inner_job job =
        shell(SHELL("for n in 3 4 5 6 7 8 9; do (true <&$n) 2>/dev/null && echo $n; "
                    "done; cd /proc/self/fd && echo [0-9]*"));
    ck_assert_int_eq(run(&job), 0);
    ck_assert_str_eq(sbx_kit_inner_text("out"), "0 1 2 3\n"); /* 3: that of echo */
}
END_TEST

/* Who reads from the command is to see when it closes its end: the output file carries a
 * lock that is there as long as anybody has it open. */
START_TEST(it_holds_nothing_of_the_commands)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    struct sbx_kit_inner_job job =
        shell(SHELL("exec >&- 2>&- <&-; echo up >up; sleep 60"));
    struct sbx_kit_inner inner = sbx_kit_inner_start(&job);
    (void)sbx_kit_inner_expect(&inner, started);
    sbx_fixture_wait_file(sbx_fixture_path(path, "up"), 20);
    int fd = open(sbx_fixture_path(path, "out"), O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
    ck_assert_int_eq(close(fd), 0);
    sbx_kit_inner_hang_up(&inner);
    assert_exited(sbx_kit_inner_end(&inner), 0);
}
END_TEST

START_TEST(signals_are_fresh_but_for_those_ignored)
{
    char helper[SBX_FIXTURE_PATH_SIZE];
    const char *const argv[] = {sbx_fixture_helper(helper, "print_signals"), NULL};
    const struct sbx_kit_inner_job job = {
        .argv = argv, .ignored = 1U << (SIGHUP - 1) | UINT64_C(1) << (SIGRTMAX - 1)};
    char wanted[64];
    (void)snprintf(wanted, sizeof wanted, "blocked\nignored %d %d\n", SIGHUP, SIGRTMAX);
    ck_assert_int_eq(run(&job), 0);
    ck_assert_str_eq(sbx_kit_inner_text("out"), wanted);
}
END_TEST

START_TEST(scripts_without_a_line_for_it_are_the_shells)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char variable[SBX_FIXTURE_PATH_SIZE + 32];
    int fd = open(sbx_fixture_path(path, "script"), O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(sbx_fd_write_all(fd, "echo \"$0|$1|$#\"; exit 9\n", 23), 0);
    ck_assert_int_eq(fchmod(fd, 0755), 0);
    ck_assert_int_eq(close(fd), 0);
    (void)snprintf(variable, sizeof variable, "PATH=/nowhere:%s", sbx_fixture_dir());
    const char *const argv[] = {"another", "argument", NULL};
    const char *const environment[] = {variable, NULL};
    /* Two descriptors more than none: the script can be looked into. */
    struct sbx_kit_inner_job job = {
        .argv = argv,
        .file = "script",
        .environment = environment,
        .ceilings = {{.resource = RLIMIT_NOFILE, .soft = 12, .hard = 12}},
        .ceiling_count = 1};
    ck_assert_int_eq(run(&job), 9 << 8);
    char wanted[SBX_FIXTURE_PATH_SIZE + 32];
    (void)snprintf(wanted, sizeof wanted, "%s|argument|1\n", path);
    ck_assert_str_eq(sbx_kit_inner_text("out"), wanted);
}
END_TEST

START_TEST(ceilings_are_set_on_both_sides)
{
    struct sbx_kit_inner_job job =
        shell(SHELL("for k in n s f v d c t; do ulimit -S$k; ulimit -H$k; done"));
    const struct sbx_orders_ceiling ceilings[] = {
        {.resource = RLIMIT_NOFILE, .soft = 5, .hard = 5},
        {.resource = RLIMIT_STACK, .soft = 1 << 20, .hard = 1 << 20},
        {.resource = RLIMIT_FSIZE, .soft = 1 << 20, .hard = 1 << 20},
        {.resource = RLIMIT_AS, .soft = 1 << 28, .hard = 1 << 28},
        {.resource = RLIMIT_DATA, .soft = 1 << 27, .hard = 1 << 27},
        {.resource = RLIMIT_CORE, .soft = 0, .hard = 0},
        {.resource = RLIMIT_CPU, .soft = 7, .hard = 8},
    };
    memcpy(job.ceilings, ceilings, sizeof ceilings);
    job.ceiling_count = LENGTH(ceilings);
    ck_assert_int_eq(run(&job), 0);
    ck_assert_str_eq(
        sbx_kit_inner_text("out"),
        "5\n5\n1024\n1024\n2048\n2048\n262144\n262144\n131072\n131072\n0\n0\n7\n8\n");
}
END_TEST

/* So low that the child itself could not live with it, were it to need anything. */
START_TEST(the_lowest_ceilings_are_survived_until_exec)
{
    static const int resources[] = {RLIMIT_AS,     RLIMIT_STACK, RLIMIT_DATA,
                                    RLIMIT_NOFILE, RLIMIT_FSIZE, RLIMIT_MEMLOCK};
    struct sbx_kit_inner_job job = {.argv = SHELL("exit 0"), .file = "no/such/command"};
    for (int i = 0; i < LENGTH(resources); i++) {
        job.ceilings[i] = (struct sbx_orders_ceiling){.resource = resources[i]};
    }
    job.ceiling_count = LENGTH(resources);
    struct sbx_kit_inner inner = sbx_kit_inner_start(&job);
    struct sbx_inner_record last = sbx_kit_inner_expect(&inner, refused);
    ck_assert_int_eq(last.status, SBX_STATUS_NOT_FOUND);
    ck_assert_str_eq(last.error.message,
                     "exec no/such/command: no such file or directory (ENOENT)");
    (void)sbx_kit_inner_end(&inner);
}
END_TEST

START_TEST(it_removes_itself)
{
    struct sbx_kit_inner_job job = shell(SHELL("ls -A /run | wc -l"));
    job.removes = true;
    ck_assert_int_eq(run(&job), 0);
    ck_assert_str_eq(sbx_kit_inner_text("out"), "0\n");
}
END_TEST

/* --- what does not run --- */

static const struct sock_filter kills_exec[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
    BPF_JUMP(BPF_JMP | BPF_K | BPF_JEQ, SYS_execve, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};
static const struct sock_filter ends_quietly[] = {
    /* exec and the pipe are refused: neither is there a word. */
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
    BPF_JUMP(BPF_JMP | BPF_K | BPF_JEQ, SYS_execve, 1, 0),
    BPF_JUMP(BPF_JMP | BPF_K | BPF_JEQ, SYS_write, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};
static const struct sock_filter nonsense[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
};

static const struct failure {
    const char *file;
    const char *directory;
    const struct sock_filter *program;
    size_t program_count;
    struct sbx_orders_ceiling ceiling;
    int status;
    enum sbx_stage stage;
    int code;
    const char *message; /* its beginning */
} failures[] = {
    {.file = "missing",
     .status = 127,
     .stage = SBX_STAGE_EXEC,
     .code = ENOENT,
     .message = "exec \"missing\": not found in PATH (ENOENT)"},
    {.file = "/no/such",
     .status = 127,
     .stage = SBX_STAGE_EXEC,
     .code = ENOENT,
     .message = "exec /no/such: no such file or directory (ENOENT)"},
    {.file = "/etc/passwd",
     .status = 126,
     .stage = SBX_STAGE_EXEC,
     .code = EACCES,
     .message = "exec /etc/passwd: permission denied (EACCES)"},
    {.file = "/usr",
     .status = 126,
     .stage = SBX_STAGE_EXEC,
     .code = EACCES,
     .message = "exec /usr: a directory: permission denied (EACCES)"},
    {.directory = "/no/such\ndirectory",
     .status = 125,
     .stage = SBX_STAGE_LAUNCH,
     .code = ENOENT,
     .message = "working directory /no/such\\x0Adirectory: no such file"},
    {.ceiling = {.resource = RLIMIT_NOFILE, .soft = 1 << 30, .hard = 1 << 30},
     .status = 125,
     .stage = SBX_STAGE_ARM,
     .code = EPERM,
     .message = "ceiling nofile: wanted 1073741824, hard limit in force is "},
    {.program = nonsense,
     .program_count = LENGTH(nonsense),
     .status = 125,
     .stage = SBX_STAGE_LAUNCH,
     .code = EINVAL,
     .message = "seccomp filter: invalid argument (EINVAL)"},
    {.program = kills_exec,
     .program_count = LENGTH(kills_exec),
     .status = 125,
     .stage = SBX_STAGE_LAUNCH,
     .code = EPROTO,
     .message = "the child was ended by SIGSYS before exec (EPROTO)"},
    {.program = ends_quietly,
     .program_count = LENGTH(ends_quietly),
     .status = 125,
     .stage = SBX_STAGE_LAUNCH,
     .code = EPROTO,
     .message = "the child exited with status 125 before exec, and told no reason"},
};

START_TEST(what_fails_is_told_and_nothing_runs)
{
    const struct failure *row = &failures[_i];
    const char *const *argv = SHELL("echo ran");
    const struct sbx_kit_inner_job job = {.argv = argv,
                                          .file =
                                              row->file != NULL ? row->file : "/bin/sh",
                                          .directory = row->directory,
                                          .program = row->program,
                                          .program_count = row->program_count,
                                          .ceilings = {row->ceiling},
                                          .ceiling_count = row->ceiling.hard != 0};
    struct sbx_kit_inner inner = sbx_kit_inner_start(&job);
    struct sbx_inner_record last = sbx_kit_inner_expect(&inner, refused);
    ck_assert_int_eq(last.status, row->status);
    ck_assert_int_eq(last.error.code, row->code);
    ck_assert_int_eq((int)last.error.stage, (int)row->stage);
    ck_assert_msg(strncmp(last.error.message, row->message, strlen(row->message)) == 0,
                  "%s", last.error.message);
    ck_assert(!sbx_kit_inner_hear(&inner, &last));
    assert_exited(sbx_kit_inner_end(&inner), SBX_STATUS_FAILED);
    ck_assert_str_eq(sbx_kit_inner_text("out"), "");
}
END_TEST

/* Without orders that can be understood, there is only stderr. */
static void fail_early(struct sbx_kit_inner_job *job, const char *message)
{
    struct sbx_inner_record record;
    struct sbx_kit_inner inner = sbx_kit_inner_start(job);
    ck_assert(!sbx_kit_inner_hear(&inner, &record));
    assert_exited(sbx_kit_inner_end(&inner), SBX_STATUS_FAILED);
    ck_assert_str_eq(sbx_kit_inner_text("early"), message);
    ck_assert_str_eq(sbx_kit_inner_text("out"), "");
}

START_TEST(orders_of_another_build_are_refused)
{
    struct sbx_kit_inner_job job = shell(SHELL("echo ran"));
    job.broken = true;
    fail_early(&job,
               "sbx-inner: orders: made by another build, magic number: 1 (EINVAL)\n");
}
END_TEST

START_TEST(it_must_be_process_1)
{
    struct sbx_kit_inner_job job = shell(SHELL("echo ran"));
    job.unwatched = true;
    fail_early(&job, "sbx-inner: not process 1 of a namespace: invalid argument "
                     "(EINVAL)\n");
}
END_TEST

/* --- signals --- */

static const int passed[] = {SIGHUP,  SIGINT,   SIGQUIT, SIGTERM, SIGUSR1,
                             SIGUSR2, SIGWINCH, SIGCONT, 36,      64};

/* A command that says that it is up, and ends with 42 on the signal. */
static struct sbx_kit_inner start_trap(int number, char script[static 128])
{
    char path[SBX_FIXTURE_PATH_SIZE];
    (void)snprintf(script, 128, "trap 'exit 42' %d; sleep 60 & echo up >up; wait; exit 1",
                   number);
    struct sbx_kit_inner_job job = shell(SHELL(script));
    struct sbx_kit_inner inner = sbx_kit_inner_start(&job);
    (void)sbx_kit_inner_expect(&inner, started);
    sbx_fixture_wait_file(sbx_fixture_path(path, "up"), 20);
    return inner;
}

START_TEST(signals_from_outside_are_passed_on)
{
    char script[128];
    struct sbx_kit_inner inner = start_trap(passed[_i], script);
    ck_assert_int_eq(kill(inner.pid, passed[_i]), 0);
    ck_assert_int_eq(sbx_kit_inner_expect(&inner, ended).status, 42 << 8);
    sbx_kit_inner_hang_up(&inner);
    assert_exited(sbx_kit_inner_end(&inner), 0);
}
END_TEST

START_TEST(words_are_passed_on)
{
    char script[128];
    struct sbx_kit_inner inner = start_trap(passed[_i], script);
    /* None of these is a word, or does anything. */
    sbx_kit_inner_send(&inner, SBX_INNER_SIGNAL, 0);
    sbx_kit_inner_send(&inner, SBX_INNER_SIGNAL, -9);
    sbx_kit_inner_send(&inner, SBX_INNER_SIGNAL, 65);
    sbx_kit_inner_send(&inner, (enum sbx_inner_order)77, SIGKILL);
    sbx_kit_inner_send(&inner, SBX_INNER_SIGNAL, SIGSTOP);
    sbx_kit_inner_send(&inner, SBX_INNER_SIGNAL, passed[_i]);
    sbx_kit_inner_send(&inner, SBX_INNER_SIGNAL, SIGCONT);
    ck_assert_int_eq(sbx_kit_inner_expect(&inner, ended).status, 42 << 8);
    sbx_kit_inner_hang_up(&inner);
    assert_exited(sbx_kit_inner_end(&inner), 0);
}
END_TEST

/* The whole group gets it: here the background job, which the shell waits for. */
START_TEST(the_group_gets_it)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    struct sbx_kit_inner_job job =
        shell(SHELL("trap '' TERM; sh -c \"trap 'echo got >got; exit 1' TERM; echo up "
                    ">up; while :; do sleep 0.02; done\"; exit 8"));
    struct sbx_kit_inner inner = sbx_kit_inner_start(&job);
    (void)sbx_kit_inner_expect(&inner, started);
    sbx_fixture_wait_file(sbx_fixture_path(path, "up"), 20);
    sbx_kit_inner_send(&inner, SBX_INNER_SIGNAL, SIGTERM);
    /* Ignored signals cannot be trapped by a shell that was born with them ignored. */
    sbx_kit_inner_send(&inner, SBX_INNER_SIGNAL, SIGINT);
    struct sbx_inner_record last = sbx_kit_inner_expect(&inner, ended);
    ck_assert_msg(WIFSIGNALED(last.status) && WTERMSIG(last.status) == SIGINT,
                  "status %#x", last.status);
    sbx_kit_inner_hang_up(&inner);
    assert_exited(sbx_kit_inner_end(&inner), 0);
}
END_TEST

START_TEST(a_command_in_another_group_gets_it_too)
{
    char helper[SBX_FIXTURE_PATH_SIZE];
    char path[SBX_FIXTURE_PATH_SIZE];
    const char *const argv[] = {sbx_fixture_helper(helper, "inner_attack"), "regroup",
                                _i == 0 ? NULL : "1", NULL};
    const struct sbx_kit_inner_job job = {.argv = argv};
    struct sbx_kit_inner inner = sbx_kit_inner_start(&job);
    (void)sbx_kit_inner_expect(&inner, started);
    sbx_fixture_wait_file(sbx_fixture_path(path, "out"), 20);
    ck_assert_int_eq(kill(inner.pid, SIGTERM), 0);
    ck_assert_int_eq(sbx_kit_inner_expect(&inner, ended).status, 42 << 8);
    sbx_kit_inner_hang_up(&inner);
    assert_exited(sbx_kit_inner_end(&inner), 0);
}
END_TEST

/* Whether it is just before exec or after, that is how the command ends. */
START_TEST(a_signal_at_the_start_is_the_commands_end)
{
    struct sbx_kit_inner_job job = shell(SHELL("sleep 60"));
    job.crammed = true;
    struct sbx_kit_inner inner = sbx_kit_inner_start(&job);
    sbx_kit_inner_send(&inner, SBX_INNER_SIGNAL, _i == 0 ? SIGTERM : SIGKILL);
    ck_assert_int_eq(sbx_kit_inner_expect(&inner, all).status,
                     _i == 0 ? SIGTERM : SIGKILL);
    sbx_kit_inner_hang_up(&inner);
    assert_exited(sbx_kit_inner_end(&inner), 0);
}
END_TEST

START_TEST(nothing_inside_can_touch_it)
{
    char helper[SBX_FIXTURE_PATH_SIZE];
    const char *const argv[] = {sbx_fixture_helper(helper, "inner_attack"), "attack",
                                NULL};
    const struct sbx_kit_inner_job job = {.argv = argv};
    int status = run(&job);
    ck_assert_msg(status == 0, "status %#x, %s", status, sbx_kit_inner_text("out"));
}
END_TEST

START_TEST(the_default_filter_is_put_on_the_command)
{
    char helper[SBX_FIXTURE_PATH_SIZE];
    struct sock_filter *program = NULL;
    size_t count = 0;
    const char *const argv[] = {sbx_fixture_helper(helper, "inner_attack"),
                                _i == 0 ? "limit" : "attack", NULL};
    ck_assert_int_eq(sbx_seccomp_default(&program, &count, NULL), 0);
    const struct sbx_kit_inner_job job = {
        .argv = argv, .program = program, .program_count = count};
    int status = run(&job);
    ck_assert_msg(status == 0, "status %#x, %s", status, sbx_kit_inner_text("out"));
    free(program);
}
END_TEST

/* --- how long it stays --- */

START_TEST(it_ends_with_the_socket)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    struct sbx_kit_inner_job job =
        shell(SHELL("(sleep 1; echo late >late) & echo up >up; sleep 60"));
    struct sbx_kit_inner inner = sbx_kit_inner_start(&job);
    (void)sbx_kit_inner_expect(&inner, started);
    sbx_fixture_wait_file(sbx_fixture_path(path, "up"), 20);
    sbx_kit_inner_hang_up(&inner);
    assert_exited(sbx_kit_inner_end(&inner), 0);
    ck_assert_str_eq(sbx_kit_inner_text("late"), "");
}
END_TEST

/* Without an answer, two seconds after the end at the latest. */
START_TEST(it_does_not_wait_long_for_an_answer)
{
    struct sbx_kit_inner_job job = shell(SHELL("sleep 60 & exit 3"));
    struct sbx_kit_inner inner = sbx_kit_inner_start(&job);
    ck_assert_int_eq(sbx_kit_inner_expect(&inner, all).status, 3 << 8);
    uint64_t begin_us = sbx_clock_us();
    assert_exited(sbx_kit_inner_end(&inner), 0);
    ck_assert_uint_lt(sbx_clock_us() - begin_us, 20 * SBX_US_PER_S);
}
END_TEST

/* STAY before or after the end, with or without somebody at the other end: it stays until
 * the last one is gone. */
START_TEST(it_stays_when_it_is_told_to)
{
    bool before = (_i & 1) != 0;
    bool hangs_up = (_i & 2) != 0;
    struct sbx_kit_inner_job job =
        shell(SHELL("(until [ -e go ]; do sleep 0.02; done; echo late >late) & exit 3"));
    struct sbx_kit_inner inner = sbx_kit_inner_start(&job);
    if (before) {
        sbx_kit_inner_send(&inner, SBX_INNER_STAY, 0);
    }
    ck_assert_int_eq(sbx_kit_inner_expect(&inner, all).status, 3 << 8);
    if (!before) {
        sbx_kit_inner_send(&inner, SBX_INNER_STAY, 0);
    }
    if (hangs_up) {
        sbx_kit_inner_hang_up(&inner);
    }
    char path[SBX_FIXTURE_PATH_SIZE];
    int fd = open(sbx_fixture_path(path, "go"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(close(fd), 0);
    assert_exited(sbx_kit_inner_end(&inner), 0);
    ck_assert_str_eq(sbx_kit_inner_text("late"), "late\n");
}
END_TEST

/* Nobody reads: the command runs all the same, and all is told in the end. */
START_TEST(a_full_socket_holds_nothing_up)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    struct sbx_kit_inner_job job = shell(SHELL("echo ran >ran; exit 4"));
    job.crammed = true;
    struct sbx_kit_inner inner = sbx_kit_inner_start(&job);
    sbx_fixture_wait_file(sbx_fixture_path(path, "ran"), 20);
    ck_assert_int_eq(sbx_kit_inner_expect(&inner, all).status, 4 << 8);
    sbx_kit_inner_hang_up(&inner);
    assert_exited(sbx_kit_inner_end(&inner), 0);
}
END_TEST

/* What was told before the end is read before the end, also when there was a word that it
 * has not read. */
START_TEST(the_last_record_is_not_lost)
{
    const char *const argv[] = {"missing", NULL};
    const struct sbx_kit_inner_job job = {.argv = argv, .crammed = true};
    struct sbx_kit_inner inner = sbx_kit_inner_start(&job);
    for (int i = 0; i < 4; i++) {
        sbx_kit_inner_send(&inner, SBX_INNER_SIGNAL, SIGWINCH);
    }
    struct sbx_inner_record last = sbx_kit_inner_expect(&inner, refused);
    ck_assert_int_eq(last.status, SBX_STATUS_NOT_FOUND);
    assert_exited(sbx_kit_inner_end(&inner), SBX_STATUS_FAILED);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("inner");
    TCase *birth = sbx_fixture_case(suite, "birth", 60);
    tcase_add_test(birth, the_command_has_what_was_ordered_and_nothing_else);
    tcase_add_test(birth, arguments_are_kept);
    tcase_add_test(birth, stderr_is_put_in_place);
    tcase_add_test(birth, descriptors_are_closed);
    tcase_add_test(birth, it_holds_nothing_of_the_commands);
    tcase_add_test(birth, signals_are_fresh_but_for_those_ignored);
    tcase_add_test(birth, scripts_without_a_line_for_it_are_the_shells);
    tcase_add_test(birth, ceilings_are_set_on_both_sides);
    tcase_add_test(birth, the_lowest_ceilings_are_survived_until_exec);
    tcase_add_test(birth, it_removes_itself);
    TCase *failing = sbx_fixture_case(suite, "failing", 60);
    tcase_add_loop_test(failing, what_fails_is_told_and_nothing_runs, 0,
                        LENGTH(failures));
    tcase_add_test(failing, orders_of_another_build_are_refused);
    tcase_add_test(failing, it_must_be_process_1);
    TCase *signals = sbx_fixture_case(suite, "signals", 60);
    tcase_add_loop_test(signals, signals_from_outside_are_passed_on, 0, LENGTH(passed));
    tcase_add_loop_test(signals, words_are_passed_on, 0, LENGTH(passed));
    tcase_add_test(signals, the_group_gets_it);
    tcase_add_loop_test(signals, a_command_in_another_group_gets_it_too, 0, 2);
    tcase_add_loop_test(signals, a_signal_at_the_start_is_the_commands_end, 0, 2);
    tcase_add_test(signals, nothing_inside_can_touch_it);
    tcase_add_loop_test(signals, the_default_filter_is_put_on_the_command, 0, 2);
    TCase *end = sbx_fixture_case(suite, "end", 60);
    tcase_add_loop_test(end, the_end_is_told_as_it_was, 0, LENGTH(endings));
    tcase_add_test(end, who_is_left_is_told);
    tcase_add_test(end, orphans_are_reaped);
    tcase_add_test(end, it_ends_with_the_socket);
    tcase_add_test(end, it_does_not_wait_long_for_an_answer);
    tcase_add_loop_test(end, it_stays_when_it_is_told_to, 0, 4);
    tcase_add_test(end, a_full_socket_holds_nothing_up);
    tcase_add_test(end, the_last_record_is_not_lost);
    return sbx_fixture_run(suite);
}
