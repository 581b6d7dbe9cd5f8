/*
 * test_launch_broken.c - every step between fork and exec is broken in turn, and each
 * time one precise error record comes up and the command has never run.
 *
 * The linker's --wrap puts strike() in front of the calls of launch*.c, ceiling.c and
 * fd.c (the list is in CMakeLists.txt). A row says which calls go wrong, in the caller or
 * in the child, and how; what is not named goes through. The command leaves a file
 * behind, and does so in the rows that must succeed.
 */
#include "reaper/launch.h"
#include "reaper/launch_child.h"
#include "tests/fixture.h"
#include "tests/launch_faults.h"
#include "tests/launch_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define KEPT 198
#define NOT_KEPT 199

/* --- rows --------------------------------------------------------------------------- */

/* A launch that ends in an error: status, stage, errno, and a part of the message. */
struct row {
    struct fault faults[FAULT_MAX];
    int status;
    enum sbx_stage stage;
    int code;
    const char *message;
};

static const struct row failures[] = {
    /* The caller's side. */
    {{CALLER("sigaction", FAIL, EINVAL)},
     125,
     SBX_STAGE_LAUNCH,
     EINVAL,
     "sigaction of SIGCHLD: invalid argument (EINVAL)"},
    {{CALLER("fcntl", FAIL, EBADF)},
     125,
     SBX_STAGE_LAUNCH,
     EBADF,
     "keep descriptor 198: bad file descriptor (EBADF)"},
    {{CALLER("calloc", FAIL, ENOMEM)},
     125,
     SBX_STAGE_LAUNCH,
     ENOMEM,
     "arguments: cannot allocate memory (ENOMEM)"},
    {{CALLER("pipe2", FAIL, EMFILE)},
     125,
     SBX_STAGE_LAUNCH,
     EMFILE,
     "error pipe: too many open files (EMFILE)"},
    {{CALLER("fork", FAIL, EAGAIN)},
     125,
     SBX_STAGE_LAUNCH,
     EAGAIN,
     "fork: resource temporarily unavailable (EAGAIN)"},
    /* The steps, in their order. */
    {{CHILD("setpgid", FAIL, EPERM)},
     125,
     SBX_STAGE_LAUNCH,
     EPERM,
     "process group: setpgid: operation not permitted (EPERM)"},
    {{CHILD("tcsetpgrp", FAIL, EIO)},
     125,
     SBX_STAGE_LAUNCH,
     EIO,
     "terminal: tcsetpgrp on descriptor 198: input/output error (EIO)"},
    {{CHILD("tcsetpgrp", FAIL, ENOTTY)},
     125,
     SBX_STAGE_LAUNCH,
     ENOTTY,
     "terminal: tcsetpgrp"},
    {{CHILD("openat", FAIL, EACCES)},
     125,
     SBX_STAGE_LAUNCH,
     EACCES,
     "oom score: read /proc/self/oom_score_adj: permission denied (EACCES)"},
    {{CHILD("pread", FAIL, EIO)},
     125,
     SBX_STAGE_LAUNCH,
     EIO,
     "oom score: read /proc/self/oom"},
    {{CHILD("pread", LIE, 0), CHILD("open", FAIL, EACCES)},
     125,
     SBX_STAGE_LAUNCH,
     EACCES,
     "oom score: open /proc/self/oom_score_adj: permission denied (EACCES)"},
    {{CHILD("pread", LIE, 0), CHILD("write", FAIL, EPERM)},
     125,
     SBX_STAGE_LAUNCH,
     EPERM,
     "oom score: write 0 to /proc/self/oom_score_adj: operation not permitted (EPERM)"},
    {{CHILD("pread", LIE, 0), CHILD("pread", FAIL, EIO)},
     125,
     SBX_STAGE_LAUNCH,
     EIO,
     "oom score: read /proc/self/oom_score_adj"},
    {{CHILD("pread", LIE, 0, .times = 2)},
     125,
     SBX_STAGE_LAUNCH,
     EIO,
     "but -500 was read back"},
    {{CHILD("dup2", FAIL, EBUSY)},
     125,
     SBX_STAGE_LAUNCH,
     EBUSY,
     "standard streams: dup2 of descriptor 198 to 1: device or resource busy (EBUSY)"},
    {{CHILD("close_range", FAIL, EPERM)},
     125,
     SBX_STAGE_LAUNCH,
     EPERM,
     "descriptors: close-on-exec from 3 up: operation not permitted (EPERM)"},
    {{CHILD("close_range", FAIL, ENOSYS), CHILD("opendir", FAIL, EMFILE)},
     125,
     SBX_STAGE_LAUNCH,
     EMFILE,
     "descriptors: close-on-exec from 3 up: too many open files (EMFILE)"},
    {{CHILD("close_range", FAIL, ENOSYS), CHILD("fcntl", FAIL, EIO)},
     125,
     SBX_STAGE_LAUNCH,
     EIO,
     "descriptors: close-on-exec from 3 up: input/output error (EIO)"},
    {{CHILD("fcntl", FAIL, EBADF)},
     125,
     SBX_STAGE_LAUNCH,
     EBADF,
     "descriptors: keep descriptor 198: bad file descriptor (EBADF)"},
    {{CHILD("fcntl", FAIL, EINVAL, .skip = 1)},
     125,
     SBX_STAGE_LAUNCH,
     EINVAL,
     "descriptors: keep descriptor 198: invalid argument (EINVAL)"},
    {{CHILD("setrlimit", FAIL, EPERM)},
     125,
     SBX_STAGE_LAUNCH,
     EPERM,
     "descriptor limit: setrlimit nofile back to 300:400: operation not permitted"},
    {{CHILD("getrlimit", FAIL, EFAULT)},
     125,
     SBX_STAGE_LAUNCH,
     EFAULT,
     "descriptor limit: getrlimit nofile: bad address (EFAULT)"},
    {{CHILD("getrlimit", LIE, 0)},
     125,
     SBX_STAGE_LAUNCH,
     EIO,
     "descriptor limit: nofile: wanted 300:400 back, but 299:400 was read"},
    {{CHILD("setrlimit", FAIL, EPERM, .skip = 1)},
     125,
     SBX_STAGE_ARM,
     EPERM,
     "ceiling core: wanted 0, hard limit in force is "},
    {{CHILD("setrlimit", FAIL, EINVAL, .skip = 2)},
     125,
     SBX_STAGE_ARM,
     EINVAL,
     "ceiling nofile: wanted 250:260, hard limit in force is 400: EINVAL"},
    {{CHILD("getrlimit", FAIL, EFAULT, .skip = 2)},
     125,
     SBX_STAGE_ARM,
     EFAULT,
     "ceiling nofile: wanted 250:260, cannot be read back: EFAULT"},
    {{CHILD("getrlimit", LIE, 0, .skip = 2)},
     125,
     SBX_STAGE_ARM,
     EIO,
     "ceiling nofile: wanted 250:260, but 249:260 was read back"},
    {{CHILD("sigaction", FAIL, EINVAL)},
     125,
     SBX_STAGE_LAUNCH,
     EINVAL,
     "signal dispositions: sigaction of signal 1: invalid argument (EINVAL)"},
    {{CHILD("sigaction", FAIL, EINVAL, .skip = 59)},
     125,
     SBX_STAGE_LAUNCH,
     EINVAL,
     "signal dispositions: sigaction of signal 64: invalid argument (EINVAL)"},
    {{CHILD("syscall", FAIL, ENOSYS)},
     125,
     SBX_STAGE_LAUNCH,
     ENOSYS,
     "signal dispositions: sigaction of signal 32: function not implemented (ENOSYS)"},
    {{CHILD("sigprocmask", FAIL, EINVAL)},
     125,
     SBX_STAGE_LAUNCH,
     EINVAL,
     "signal mask: sigprocmask: invalid argument (EINVAL)"},
    {{CHILD("execve", FAIL, EACCES)},
     126,
     SBX_STAGE_EXEC,
     EACCES,
     "exec /bin/sh: permission denied (EACCES)"},
    {{CHILD("execve", FAIL, ENOMEM)},
     126,
     SBX_STAGE_EXEC,
     ENOMEM,
     "exec /bin/sh: cannot allocate memory (ENOMEM)"},
    {{CHILD("execve", FAIL, ETXTBSY)}, 126, SBX_STAGE_EXEC, ETXTBSY, "(ETXTBSY)"},
    {{CHILD("execve", FAIL, ENOEXEC)},
     126,
     SBX_STAGE_EXEC,
     ENOEXEC,
     "exec /bin/sh: exec format error (ENOEXEC)"},
    {{CHILD("execve", FAIL, ENOENT)},
     126,
     SBX_STAGE_EXEC,
     ENOENT,
     "exec /bin/sh: its interpreter or dynamic loader is missing (ENOENT)"},
    /* How the record travels. */
    {{CHILD("setpgid", FAIL, EPERM), CHILD("write", PARTLY, 10)},
     125,
     SBX_STAGE_LAUNCH,
     EPERM,
     "process group: setpgid: operation not permitted (EPERM)"},
    {{CHILD("setpgid", FAIL, EPERM), CHILD("write", FAIL, EINTR)},
     125,
     SBX_STAGE_LAUNCH,
     EPERM,
     "process group: setpgid: operation not permitted (EPERM)"},
    {{CHILD("setpgid", FAIL, EPERM), CALLER("read", FAIL, EINTR)},
     125,
     SBX_STAGE_LAUNCH,
     EPERM,
     "process group: setpgid: operation not permitted (EPERM)"},
    {{CHILD("setpgid", FAIL, EPERM), CALLER("waitid", FAIL, EINTR)},
     125,
     SBX_STAGE_LAUNCH,
     EPERM,
     "process group: setpgid: operation not permitted (EPERM)"},
    {{CHILD("setpgid", FAIL, EPERM), CHILD("write", FAIL, EIO)},
     125,
     SBX_STAGE_LAUNCH,
     EPROTO,
     "the child exited with status 125 before exec, and told no reason (EPROTO)"},
    {{CHILD("setpgid", FAIL, EPERM), CHILD("write", PARTLY, 10),
      CHILD("write", FAIL, EIO)},
     125,
     SBX_STAGE_LAUNCH,
     EPROTO,
     "the child's error record is cut short"},
    {{CHILD("execve", FAIL, EACCES), CHILD("write", RAISE, SIGTERM)},
     126,
     SBX_STAGE_EXEC,
     EACCES,
     "exec /bin/sh: permission denied (EACCES)"},
    /* A child that does not say what happened to it. */
    {{CHILD("sigprocmask", EXIT, 0)},
     125,
     SBX_STAGE_LAUNCH,
     EPROTO,
     "the child exited with status 0 before exec, and told no reason (EPROTO)"},
    {{CHILD("execve", EXIT, 7)},
     125,
     SBX_STAGE_LAUNCH,
     EPROTO,
     "the child exited with status 7 before exec, and told no reason (EPROTO)"},
    {{CHILD("execve", RAISE, SIGSEGV)},
     125,
     SBX_STAGE_LAUNCH,
     EPROTO,
     "the child was ended by SIGSEGV before exec (EPROTO)"},
    {{CHILD("execve", HANG, 0), CALLER("sbx_clock_us", LIE, 61, .skip = 1)},
     125,
     SBX_STAGE_LAUNCH,
     ETIMEDOUT,
     "no word from the child before exec: connection timed out (ETIMEDOUT)"},
};

/* The same for the steps that have to be asked for: launches with what ask() asks for.
 * Rows about the user ask for one; its ids are changed in name only, so that the test
 * need not be root. */
static const struct row start_failures[] = {
    {{CHILD("setsid", FAIL, EPERM)},
     125,
     SBX_STAGE_LAUNCH,
     EPERM,
     "process group: setsid: operation not permitted (EPERM)"},
    {{CHILD("sched_setaffinity", FAIL, EPERM)},
     125,
     SBX_STAGE_LAUNCH,
     EPERM,
     "cpus: sched_setaffinity: operation not permitted (EPERM)"},
    {{CHILD("sched_getaffinity", FAIL, EINVAL)},
     125,
     SBX_STAGE_LAUNCH,
     EINVAL,
     "cpus: sched_getaffinity: invalid argument (EINVAL)"},
    {{CHILD("sched_getaffinity", LIE, 8000)},
     125,
     SBX_STAGE_LAUNCH,
     EIO,
     "cpus: others than those asked for were read back: input/output error (EIO)"},
    {{CHILD("getgroups", LIE, 1), CHILD("setgroups", FAIL, EPERM)},
     125,
     SBX_STAGE_LAUNCH,
     EPERM,
     "user: becoming 4242:99: setgroups: operation not permitted (EPERM)"},
    {{CHILD("getgroups", FAIL, EFAULT), CHILD("setgroups", FAIL, EPERM)},
     125,
     SBX_STAGE_LAUNCH,
     EPERM,
     "user: becoming 4242:99: setgroups: operation not permitted (EPERM)"},
    {{CHILD("getgroups", LIE, 1, .times = 2), CHILD("setgroups", LIE, 0)},
     125,
     SBX_STAGE_LAUNCH,
     EIO,
     "user: becoming 4242:99: groups are left"},
    {{CHILD("getgroups", LIE, 0), CHILD("setresgid", FAIL, EINVAL)},
     125,
     SBX_STAGE_LAUNCH,
     EINVAL,
     "user: becoming 4242:99: setresgid: invalid argument (EINVAL)"},
    {{CHILD("getgroups", LIE, 0), CHILD("setresgid", LIE, 0),
      CHILD("setresuid", FAIL, EAGAIN)},
     125,
     SBX_STAGE_LAUNCH,
     EAGAIN,
     "user: becoming 4242:99: setresuid: resource temporarily unavailable (EAGAIN)"},
    {{CHILD("getgroups", LIE, 0), CHILD("setresgid", LIE, 0), CHILD("setresuid", LIE, 0)},
     125,
     SBX_STAGE_LAUNCH,
     EIO,
     "user: becoming 4242:99: other ids were read back"},
    {{CHILD("getgroups", LIE, 0), CHILD("setresgid", LIE, 0), CHILD("setresuid", LIE, 0),
      CHILD("getresuid", LIE, 4242, .times = ALWAYS),
      CHILD("getresgid", LIE, 98, .times = ALWAYS)},
     125,
     SBX_STAGE_LAUNCH,
     EIO,
     "user: becoming 4242:99: other ids were read back"},
    {{CHILD("getgroups", LIE, 0), CHILD("setresgid", LIE, 0), CHILD("setresuid", LIE, 0),
      CHILD("getresuid", LIE, 4242, .times = ALWAYS),
      CHILD("getresgid", LIE, 99, .times = ALWAYS), CHILD("setuid", LIE, 0)},
     125,
     SBX_STAGE_LAUNCH,
     EIO,
     "user: becoming 4242:99: the way back to root is open"},
    {{CHILD("fchdir", FAIL, EACCES)},
     125,
     SBX_STAGE_LAUNCH,
     EACCES,
     "working directory: chdir to .: permission denied (EACCES)"},
    {{CHILD("chdir", FAIL, ENOENT)},
     125,
     SBX_STAGE_LAUNCH,
     ENOENT,
     "working directory: chdir to .: no such file or directory (ENOENT)"},
    {{CHILD("prctl", FAIL, EINVAL)},
     125,
     SBX_STAGE_LAUNCH,
     EINVAL,
     "new privileges: prctl: invalid argument (EINVAL)"},
    {{CHILD("prctl", FAIL, EINVAL, .skip = 1)},
     125,
     SBX_STAGE_LAUNCH,
     EINVAL,
     "new privileges: -1 was read back: invalid argument (EINVAL)"},
    {{CHILD("prctl", LIE, 0)},
     125,
     SBX_STAGE_LAUNCH,
     EIO,
     "new privileges: 0 was read back: input/output error (EIO)"},
};

/* Launches that succeed all the same: by a fallback, or because it was tried again. */
static const struct fault recoveries[][FAULT_MAX] = {
    {{.call = NULL}},
    {CHILD("close_range", FAIL, ENOSYS)},
    {CHILD("close_range", FAIL, EINVAL)},
    {CHILD("pread", LIE, 0)},
    {CHILD("pread", FAIL, EINTR)},
    {CALLER("read", FAIL, EINTR)},
    {CALLER("poll", FAIL, EINTR)},
    {CALLER("poll", FAIL, EINVAL, .times = ALWAYS)},
    {CALLER("setpgid", FAIL, EACCES)}, /* the child was first */
    {CALLER("openat", FAIL, EACCES)},  /* cannot look: a setuid command */
};

/* The leader was ended by a signal before it could become the command. */
static const struct {
    struct fault fault;
    int signal_number;
} early_ends[] = {
    {CHILD("setpgid", RAISE, SIGKILL), SIGKILL},
    {CHILD("sigprocmask", RAISE, SIGTERM),
     SIGTERM}, /* pending until the mask is emptied */
    {CHILD("sigprocmask", RAISE, SIGXCPU), SIGXCPU},
    {CHILD("execve", RAISE, SIGTERM), SIGTERM},
    {CHILD("execve", RAISE, SIGKILL), SIGKILL},
};

/* --- the launch --------------------------------------------------------------------- */

static struct sbx_ceiling ceilings[SBX_CEILING_COUNT];

/* A command that leaves the file "ran" if it has the kept descriptor and no other. */
static struct sbx_launch prepare(void)
{
    static const int keep[] = {KEPT};
    static const char *const argv[] = {
        "/bin/sh", "-c", "[ -e /dev/fd/198 ] && [ ! -e /dev/fd/199 ] && : >ran", NULL};
    const struct rlimit no_core = {0, 0};
    struct sbx_launch launch = sbx_kit_launch(argv);
    ck_assert_int_eq(chdir(sbx_fixture_dir()), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_CORE, &no_core), 0);
    ck_assert_int_eq(sbx_ceiling_parse("core=0", ceilings, NULL), 0);
    ck_assert_int_eq(sbx_ceiling_parse("nofile=250:260", ceilings, NULL), 0);
    ck_assert_int_eq(dup3(0, KEPT, O_CLOEXEC), KEPT);
    ck_assert_int_eq(dup2(0, NOT_KEPT), NOT_KEPT);
    launch.ceilings = ceilings;
    launch.keep_fds = keep;
    launch.keep_fd_count = 1;
    launch.nofile.rlim_cur = 300;
    launch.nofile.rlim_max = 400;
    return launch;
}

/* Everything that start.h has, but for the user. */
static void ask(struct sbx_launch *launch)
{
    static char here[] = ".";
    static struct sbx_start start;
    cpu_set_t mine;
    unsigned cpu = 0;
    ck_assert_int_eq(sched_getaffinity(0, sizeof mine, &mine), 0);
    while (!CPU_ISSET(cpu, &mine)) {
        cpu++;
    }
    start = (struct sbx_start){
        .new_session = true,
        .cpus_asked = true,
        .umask_asked = true,
        .umask = 022,
        .directory = here,
        .directory_fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC),
        .no_new_privs = true,
    };
    start.cpus.words[cpu / SBX_CPU_WORD_BITS] = 1UL << cpu % SBX_CPU_WORD_BITS;
    ck_assert_int_ge(start.directory_fd, 0);
    launch->start = &start;
}

static void ask_for_user(struct sbx_launch *launch, struct sbx_start *start)
{
    *start = *launch->start;
    start->user_asked = true;
    start->uid = 4242;
    start->gid = 99;
    launch->start = start;
}

static void clean_up(void)
{
    ck_assert(!sbx_faults_end());
    (void)close(KEPT);
    (void)close(NOT_KEPT);
}

static void assert_ran(bool ran)
{
    ck_assert_msg((access("ran", F_OK) == 0) == ran, "the command has %srun",
                  ran ? "not " : "");
}

START_TEST(a_broken_step_is_told)
{
    const struct row *row = &failures[_i];
    struct sbx_error error;
    struct sbx_launch launch = prepare();
    if (strcmp(row->faults[0].call, "tcsetpgrp") == 0) {
        launch.tty_fd = KEPT;
    }
    if (strcmp(row->faults[0].call, "dup2") == 0) {
        launch.stdio[1] = KEPT;
    }
    sbx_faults_begin(row->faults, FAULT_MAX);
    int status = sbx_kit_fail(&launch, &error);
    clean_up();
    ck_assert_msg(strstr(error.message, row->message) != NULL, "%s", error.message);
    ck_assert_int_eq(status, row->status);
    ck_assert_int_eq(error.stage, row->stage);
    ck_assert_int_eq(error.code, row->code);
    assert_ran(false);
}
END_TEST

START_TEST(a_broken_wish_is_told)
{
    const struct row *row = &start_failures[_i];
    struct sbx_error error;
    struct sbx_start with_user;
    struct sbx_launch launch = prepare();
    ask(&launch);
    if (strncmp(row->message, "user: ", 6) == 0) {
        ask_for_user(&launch, &with_user);
    }
    sbx_faults_begin(row->faults, FAULT_MAX);
    int status = sbx_kit_fail(&launch, &error);
    clean_up();
    (void)close(launch.start->directory_fd);
    ck_assert_msg(strstr(error.message, row->message) != NULL, "%s", error.message);
    ck_assert_int_eq(status, row->status);
    ck_assert_int_eq(error.stage, row->stage);
    ck_assert_int_eq(error.code, row->code);
    assert_ran(false);
}
END_TEST

/* Not broken, the same launch runs. */
START_TEST(a_whole_wish_is_fulfilled)
{
    const struct fault none = {.call = NULL};
    struct sbx_launch launch = prepare();
    ask(&launch);
    sbx_faults_begin(&none, 1);
    int status = sbx_kit_run(&launch);
    clean_up();
    (void)close(launch.start->directory_fd);
    sbx_kit_assert_exited(status, 0);
    assert_ran(true);
}
END_TEST

START_TEST(a_fallback_works)
{
    struct sbx_launch launch = prepare();
    sbx_faults_begin(recoveries[_i], FAULT_MAX);
    int status = sbx_kit_run(&launch);
    clean_up();
    sbx_kit_assert_exited(status, 0);
    assert_ran(true);
}
END_TEST

START_TEST(an_early_signal_is_the_leaders_end)
{
    struct sbx_launch launch = prepare();
    sbx_faults_begin(&early_ends[_i].fault, 1);
    int status = sbx_kit_run(&launch);
    clean_up();
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == early_ends[_i].signal_number,
                  "wait status %#x", (unsigned)status);
    assert_ran(false);
}
END_TEST

/* A tracer keeps the zombie: the wait for it ends, and the error says so. */
START_TEST(an_unreapable_child_is_told)
{
    static const struct fault rows[] = {
        CHILD("setpgid", FAIL, EPERM),
        CALLER("waitid", LIE, 0, .times = ALWAYS),
        CALLER("sbx_clock_us", LIE, 11, .times = ALWAYS),
    };
    struct sbx_error error = {.code = 0};
    pid_t pid = -7;
    int status = -1;
    struct sbx_launch launch = prepare();
    sbx_faults_begin(rows, LENGTH(rows));
    int result = sbx_kit_start(&launch, &pid, &status, &error);
    clean_up();
    ck_assert_int_eq(result, -EPERM);
    ck_assert_int_eq(pid, -7);
    ck_assert_int_eq(status, 125);
    ck_assert_ptr_nonnull(strstr(error.message, "cannot be reaped (ETIMEDOUT), after: "
                                                "process group: setpgid"));
    ck_assert_int_gt(waitpid(-1, NULL, 0), 1);
    assert_ran(false);
}
END_TEST

/* The bound passes at once, and the kill meets the child anywhere: where the launch is
 * said to have failed, nothing has run; else the leader is there to be waited for. */
START_TEST(a_late_kill_is_told_from_an_early_one)
{
    struct fault rows[] = {
        CALLER("sbx_clock_us", LIE, 61),
        CALLER("read", FAIL, EINTR, .times = ALWAYS),
    };
    struct sbx_launch launch = prepare();
    for (int i = 0; i < 50; i++) {
        struct sbx_error error = {.code = 0};
        pid_t pid = -7;
        int status = -1;
        rows[0].skip = i % 5 == 0 ? 2 : 1;
        /* From no time at all to enough for the command to have ended: poll waits until
         * the pipe speaks, so the later rows see exec done. */
        sbx_faults_begin(rows, LENGTH(rows));
        int result = sbx_kit_start(&launch, &pid, &status, &error);
        ck_assert(!sbx_faults_end());
        if (result == 0) {
            ck_assert_int_eq(waitpid(pid, &status, 0), pid);
            ck_assert_int_eq(unlink("ran") < 0 ? errno : ENOENT, ENOENT);
        } else {
            ck_assert_int_eq(result, -ETIMEDOUT);
            ck_assert_int_eq(status, 125);
            sbx_kit_assert_no_child();
            assert_ran(false);
        }
    }
    clean_up();
}
END_TEST

/* What goes up the pipe is never torn by the kernel. */
START_TEST(record_fits_a_pipe)
{
    ck_assert_uint_le(sizeof(struct sbx_launch_record), 4096);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("launch_broken");
    TCase *broken = sbx_fixture_case(suite, "broken", 60);
    tcase_add_loop_test(broken, a_broken_step_is_told, 0, (int)LENGTH(failures));
    tcase_add_loop_test(broken, a_broken_wish_is_told, 0, (int)LENGTH(start_failures));
    tcase_add_test(broken, a_whole_wish_is_fulfilled);
    tcase_add_loop_test(broken, a_fallback_works, 0, (int)LENGTH(recoveries));
    tcase_add_loop_test(broken, an_early_signal_is_the_leaders_end, 0,
                        (int)LENGTH(early_ends));
    tcase_add_test(broken, an_unreapable_child_is_told);
    tcase_add_test(broken, a_late_kill_is_told_from_an_early_one);
    tcase_add_test(broken, record_fits_a_pipe);
    return sbx_fixture_run(suite);
}
