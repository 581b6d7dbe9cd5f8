/*
 * test_launch.c - what the leader is born with.
 *
 * Most tests launch this program anew with the argument "report": it writes down what it
 * finds itself with (descriptors, mask, dispositions, group, limits), before it opens
 * anything. How exec fails is in test_launch_exec.c, how the other
 * steps do in test_launch_broken.c.
 */
#include "reaper/launch.h"

#include "base/fd.h"
#include "tests/fixture.h"
#include "tests/launch_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define REPORT_SIZE 4096
#define SCANNED_FDS 4096

/* --- the leader that reports -------------------------------------------------------- */

static void add(char text[static REPORT_SIZE], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add(char text[static REPORT_SIZE], const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text + used, REPORT_SIZE - used, format, args);
    va_end(args);
}

static void add_status_lines(char text[static REPORT_SIZE])
{
    char line[256];
    FILE *file = fopen("/proc/self/status", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "SigBlk:", 7) == 0 || strncmp(line, "SigIgn:", 7) == 0) {
            line[strcspn(line, "\t")] = ' ';
            add(text, "%s", line);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

static int report_self(const char *path)
{
    char text[REPORT_SIZE] = "fds:";
    char oom[32] = "";
    struct rlimit nofile;
    struct rlimit core;
    for (int fd = 0; fd < SCANNED_FDS; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) {
            add(text, " %d", fd);
        }
    }
    add(text, "\n");
    add_status_lines(text);
    (void)sbx_fd_read_text_at(AT_FDCWD, "/proc/self/oom_score_adj", oom, sizeof oom);
    (void)getrlimit(RLIMIT_NOFILE, &nofile);
    (void)getrlimit(RLIMIT_CORE, &core);
    add(text, "oom: %s", oom);
    add(text, "group: %s\n", getpgrp() == getpid() ? "own" : "inherited");
    add(text, "nofile: %ju:%ju\n", (uintmax_t)nofile.rlim_cur,
        (uintmax_t)nofile.rlim_max);
    add(text, "core: %ju:%ju\n", (uintmax_t)core.rlim_cur, (uintmax_t)core.rlim_max);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    return fd >= 0 && sbx_fd_write_all(fd, text, strlen(text)) == 0 ? 0 : 1;
}

/* --- launching ---------------------------------------------------------------------- */

/* Launches the reporting leader as *launch says but for argv, and reads its report. */
static void report(struct sbx_launch *launch, char text[static REPORT_SIZE])
{
    char path[SBX_FIXTURE_PATH_SIZE];
    (void)sbx_fixture_path(path, "report");
    const char *const argv[] = {"/proc/self/exe", "report", path, NULL};
    launch->argv = argv;
    sbx_kit_assert_exited(sbx_kit_run(launch), 0);
    ck_assert_int_gt(sbx_fd_read_text_at(AT_FDCWD, path, text, REPORT_SIZE), 0);
}

static void assert_line(const char *text, const char *line)
{
    ck_assert_msg(strstr(text, line) != NULL, "no \"%s\" in:\n%s", line, text);
}

/* --- what the leader is born with --------------------------------------------------- */

/* Also the two signals that the C library hides, ignored by a caller that is no C
 * program. The kernel's struct is its handler and then zeros on the machines we test. */
static void ignore_raw(int number)
{
    struct {
        void (*handler)(int);
        unsigned long rest[8];
    } action = {.handler = SIG_IGN};
    ck_assert_int_eq(syscall(SYS_rt_sigaction, number, &action, NULL, (size_t)8), 0);
}

START_TEST(signals_are_reset)
{
    char text[REPORT_SIZE];
    struct sbx_launch launch = sbx_kit_launch(NULL);
    for (int number = 1; number <= SIGRTMAX; number++) {
        if (number != SIGKILL && number != SIGSTOP && number != SIGCHLD) {
            ignore_raw(number);
        }
    }
    report(&launch, text);
    assert_line(text, "SigBlk: 0000000000000000\n");
    assert_line(text, "SigIgn: 0000000000000000\n");
}
END_TEST

START_TEST(ignored_by_nohup_stays_ignored)
{
    char text[REPORT_SIZE];
    struct sbx_launch launch = sbx_kit_launch(NULL);
    ck_assert(signal(SIGUSR1, SIG_IGN) != SIG_ERR);
    (void)sigaddset(&launch.inherited_ignored, SIGHUP);
    (void)sigaddset(&launch.inherited_ignored, SIGTERM);
    report(&launch, text);
    assert_line(text, "SigBlk: 0000000000000000\n");
    assert_line(text, "SigIgn: 0000000000004001\n");
}
END_TEST

START_TEST(descriptors_are_closed)
{
    char text[REPORT_SIZE];
    struct sbx_launch launch = sbx_kit_launch(NULL);
    ck_assert_int_eq(dup2(0, 199), 199); /* not close-on-exec */
    int low = dup(0);
    ck_assert_int_gt(low, 2);
    report(&launch, text);
    assert_line(text, "fds: 0 1 2\n");
    (void)close(low);
    (void)close(199);
}
END_TEST

START_TEST(descriptors_are_kept)
{
    char text[REPORT_SIZE];
    char line[64];
    struct sbx_launch launch = sbx_kit_launch(NULL);
    int highest = launch.nofile.rlim_cur < SCANNED_FDS ? (int)launch.nofile.rlim_cur - 1
                                                       : SCANNED_FDS - 1;
    const int keep[] = {highest, 1, 40};
    ck_assert_int_eq(dup3(0, highest, O_CLOEXEC), highest);
    ck_assert_int_eq(dup3(0, 40, O_CLOEXEC), 40);
    ck_assert_int_eq(dup2(0, 41), 41);
    launch.keep_fds = keep;
    launch.keep_fd_count = LENGTH(keep);
    report(&launch, text);
    (void)snprintf(line, sizeof line, "fds: 0 1 2 40 %d\n", highest);
    assert_line(text, line);
    /* Ours are as they were. */
    ck_assert_int_eq(fcntl(40, F_GETFD), FD_CLOEXEC);
    ck_assert_int_eq(fcntl(41, F_GETFD), 0);
    (void)close(highest);
    (void)close(40);
    (void)close(41);
}
END_TEST

/* A number that is not open could turn out to be the error pipe's. */
START_TEST(kept_descriptor_must_be_open)
{
    static const char *const argv[] = {"true", NULL};
    struct sbx_error error;
    struct sbx_launch launch = sbx_kit_launch(argv);
    for (int fd = 3; fd < 20; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) {
            continue;
        }
        launch.keep_fds = &fd;
        launch.keep_fd_count = 1;
        ck_assert_int_eq(sbx_kit_fail(&launch, &error), 125);
        ck_assert_int_eq(error.code, EBADF);
        ck_assert_int_eq(error.stage, SBX_STAGE_LAUNCH);
        assert_line(error.message, "keep descriptor ");
    }
}
END_TEST

/* Row: which of 0, 1, 2 are closed, as bits; once as it is, once opened first as a
 * program does. The error pipe then has one of these numbers. */
START_TEST(standard_descriptors_may_be_closed)
{
    char text[2][REPORT_SIZE];
    char line[32] = "fds:";
    int saved[3];
    struct sbx_launch launch = sbx_kit_launch(NULL);
    for (int fd = 0; fd < 3; fd++) {
        saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 100);
        ck_assert_int_ge(saved[fd], 100);
    }
    for (int fd = 0; fd < 3; fd++) {
        if ((_i & (1 << fd)) != 0) {
            (void)close(fd);
        } else {
            (void)snprintf(line + strlen(line), sizeof line - strlen(line), " %d", fd);
        }
    }
    report(&launch, text[0]);
    int opened = sbx_fd_open_standard();
    report(&launch, text[1]);
    for (int fd = 0; fd < 3; fd++) {
        (void)dup2(saved[fd], fd);
        (void)close(saved[fd]);
    }
    ck_assert_int_eq(opened, 0);
    strncat(line, "\n", 2);
    assert_line(text[0], line);
    assert_line(text[1], "fds: 0 1 2\n");
}
END_TEST

/* Each where it belongs, also when one is used twice. */
START_TEST(streams_are_placed)
{
    static const char *const argv[] = {"sh", "-c", "cat; echo err >&2", NULL};
    int in[2];
    int out[2];
    char text[64] = "";
    ck_assert_int_eq(pipe2(in, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
    ck_assert_int_eq(write(in[1], "in\n", 3), 3);
    (void)close(in[1]);
    struct sbx_launch launch = sbx_kit_launch(argv);
    launch.stdio[0] = in[0];
    launch.stdio[1] = out[1];
    launch.stdio[2] = out[1];
    sbx_kit_assert_exited(sbx_kit_run(&launch), 0);
    (void)close(out[1]);
    ck_assert_int_eq(read(out[0], text, sizeof text - 1), 7);
    ck_assert_str_eq(text, "in\nerr\n");
    (void)close(out[0]);
    (void)close(in[0]);
}
END_TEST

/* With them closed, the error pipe would come to lie where they are put. */
START_TEST(streams_are_placed_beside_the_error_pipe)
{
    static const char *const argv[] = {"/no/such/command", NULL};
    struct sbx_error error;
    int saved[3];
    struct sbx_launch launch = sbx_kit_launch(argv);
    for (int fd = 0; fd < 3; fd++) {
        saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 100);
        ck_assert_int_ge(saved[fd], 100);
        launch.stdio[fd] = saved[fd];
    }
    for (int fd = 0; fd < 3; fd++) {
        (void)close(fd);
    }
    int status = sbx_kit_fail(&launch, &error);
    for (int fd = 0; fd < 3; fd++) {
        (void)dup2(saved[fd], fd);
        (void)close(saved[fd]);
    }
    ck_assert_int_eq(status, 127);
    ck_assert_int_eq(error.stage, SBX_STAGE_EXEC);
}
END_TEST

START_TEST(streams_must_be_open_and_out_of_the_way)
{
    static const char *const argv[] = {"true", NULL};
    for (int which = 0; which < 3; which++) {
        for (int fd = 1; fd <= 3; fd++) {
            struct sbx_error error;
            struct sbx_launch launch = sbx_kit_launch(argv);
            launch.stdio[which] = fd < 3 ? fd : SCANNED_FDS;
            ck_assert_int_eq(sbx_kit_fail(&launch, &error), 125);
            ck_assert_int_eq(error.code, EBADF);
            ck_assert_ptr_nonnull(strstr(error.message, "standard streams"));
        }
    }
}
END_TEST

START_TEST(group_is_own_or_inherited)
{
    char text[REPORT_SIZE];
    struct sbx_launch launch = sbx_kit_launch(NULL);
    report(&launch, text);
    assert_line(text, "group: own\n");
    launch.own_group = false;
    report(&launch, text);
    assert_line(text, "group: inherited\n");
}
END_TEST

/* The caller works with a higher limit, and more descriptors, than it was started with.
 */
START_TEST(descriptor_limit_is_restored)
{
    char text[REPORT_SIZE];
    struct sbx_ceiling ceilings[SBX_CEILING_COUNT] = {{.asked = false}};
    struct sbx_launch launch = sbx_kit_launch(NULL);
    struct sbx_kit_fill fill = sbx_kit_fill();
    const int keep[] = {fill.fds[fill.count - 1]};
    char line[64];
    launch.nofile.rlim_cur = SBX_KIT_FILL_COUNT;
    launch.nofile.rlim_max = 1000;
    launch.keep_fds = keep;
    launch.keep_fd_count = LENGTH(keep);
    report(&launch, text);
    assert_line(text, "nofile: 32:1000\n");
    (void)snprintf(line, sizeof line, "fds: 0 1 2 %d\n", keep[0]);
    assert_line(text, line);
    ck_assert_int_eq(sbx_ceiling_parse("nofile=10:11", ceilings, NULL), 0);
    ck_assert_int_eq(sbx_ceiling_parse("core=0", ceilings, NULL), 0);
    launch.ceilings = ceilings;
    report(&launch, text);
    assert_line(text, "nofile: 10:11\n");
    assert_line(text, "core: 0:0\n");
    sbx_kit_unfill(&fill);
}
END_TEST

static bool set_oom_score(const char *score)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && write(fd, score, strlen(score)) == (ssize_t)strlen(score);
    if (fd >= 0) {
        (void)close(fd);
    }
    return written;
}

START_TEST(oom_score_is_not_negative)
{
    char text[REPORT_SIZE];
    struct sbx_launch launch = sbx_kit_launch(NULL);
    if (set_oom_score("-17")) {
        report(&launch, text);
        assert_line(text, "oom: 0\n");
    } else {
        (void)fprintf(stderr, "skipped: a negative oom_score_adj needs CAP_SYS_RESOURCE "
                              "(test_launch_broken pretends one)\n");
    }
    ck_assert(set_oom_score("321"));
    report(&launch, text);
    assert_line(text, "oom: 321\n");
}
END_TEST

/* In a session of its own, on a terminal of its own. 0, or the line that failed. */
static int use_terminal(void)
{
    static const char *const idle[] = {"sleep", "60", NULL};
    static const char *const missing[] = {"./missing", NULL};
    int status = -1;
    pid_t pid = -1;
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (setsid() < 0 || master < 0 || grantpt(master) < 0 || unlockpt(master) < 0) {
        return __LINE__;
    }
    const char *name = ptsname(master);
    int tty = name != NULL ? open(name, O_RDWR | O_CLOEXEC) : -1;
    if (tty < 0 || tcgetpgrp(tty) != getpgrp()) {
        return __LINE__;
    }
    struct sbx_launch launch = sbx_kit_launch(idle);
    launch.tty_fd = tty;
    if (sbx_kit_start(&launch, &pid, &status, NULL) < 0) {
        return __LINE__;
    }
    bool handed_over = tcgetpgrp(tty) == pid && getpgid(pid) == pid;
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTTOU);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    if (!handed_over || tcsetpgrp(tty, getpgrp()) < 0) {
        return __LINE__;
    }
    launch.argv = missing;
    if (sbx_kit_start(&launch, &pid, &status, NULL) != -ENOENT || status != 127) {
        return __LINE__;
    }
    return tcgetpgrp(tty) == getpgrp() ? 0 : __LINE__;
}

START_TEST(terminal_is_handed_over)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        int line = use_terminal();
        if (line != 0) {
            (void)fprintf(stderr, "use_terminal failed at line %d\n", line);
        }
        _exit(line == 0 ? 0 : 1);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    sbx_kit_assert_exited(status, 0);
}
END_TEST

START_TEST(arguments_and_environment_arrive)
{
    static const char *const argv[] = {
        "sh",
        "-c",
        "[ \"$1\" = 'a b' ] && [ -z \"$2\" ] && [ $# = 2 ] && [ \"$X\" = y ] "
        "&& [ -z \"$HOME\" ] || exit 9; exit 3",
        "sh",
        "a b",
        "",
        NULL};
    static const char *const environment[] = {"X=y", "PATH=/bin:/usr/bin", NULL};
    struct sbx_launch launch = sbx_kit_launch(argv);
    launch.envp = environment;
    sbx_kit_assert_exited(sbx_kit_run(&launch), 3);
}
END_TEST

/* --- refusals, and many ------------------------------------------------------------- */

START_TEST(nothing_runs_beyond_a_hard_limit)
{
    static const char *const argv[] = {"touch", "ran", NULL};
    struct sbx_ceiling ceilings[SBX_CEILING_COUNT] = {{.asked = false}};
    struct sbx_error error;
    ck_assert_int_eq(chdir(sbx_fixture_dir()), 0);
    struct sbx_launch launch = sbx_kit_launch(argv);
    launch.ceilings = ceilings;
    /* More than fs.nr_open is refused to anybody. */
    ck_assert_int_eq(sbx_ceiling_parse("nofile=unlimited", ceilings, NULL), 0);
    ck_assert_int_eq(sbx_kit_fail(&launch, &error), 125);
    ck_assert_int_eq(error.code, EPERM);
    ck_assert_int_eq(error.stage, SBX_STAGE_ARM);
    assert_line(error.message,
                "ceiling nofile: wanted unlimited, hard limit in force is ");
    ck_assert_int_lt(access("ran", F_OK), 0);
    ck_assert_int_eq(sbx_ceiling_parse("nofile=20", ceilings, NULL), 0);
    sbx_kit_assert_exited(sbx_kit_run(&launch), 0);
    ck_assert_int_eq(access("ran", F_OK), 0);
}
END_TEST

START_TEST(callers_mistakes_are_told)
{
    static const char *const nothing[] = {NULL};
    static const char *const argv[] = {"true", NULL};
    struct sbx_error error;
    struct sbx_launch launch = sbx_kit_launch(nothing);
    ck_assert_int_eq(sbx_kit_fail(&launch, &error), 125);
    ck_assert_int_eq(error.code, EINVAL);
    launch.argv = argv;
    ck_assert(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
    ck_assert_int_eq(sbx_kit_fail(&launch, &error), 125);
    ck_assert_int_eq(error.code, EINVAL);
    assert_line(error.message, "SIGCHLD");
}
END_TEST

/* The fixture sees what they leave open; here it is the children that count. */
START_TEST(many_launches_leave_nothing)
{
    static const char *const good[] = {"true", NULL};
    static const char *const bad[] = {"./missing", NULL};
    for (int i = 0; i < 200; i++) {
        struct sbx_launch launch = sbx_kit_launch(i % 2 == 0 ? good : bad);
        if (i % 2 == 0) {
            sbx_kit_assert_exited(sbx_kit_run(&launch), 0);
        } else {
            pid_t pid = -7;
            int status = -1;
            ck_assert_int_eq(sbx_kit_start(&launch, &pid, &status, NULL), -ENOENT);
            ck_assert_int_eq(status, 127);
        }
        sbx_kit_assert_no_child();
    }
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "report") == 0) {
        return report_self(argv[2]);
    }
    Suite *suite = suite_create("launch");
    TCase *born = sbx_fixture_case(suite, "born", 60);
    tcase_add_test(born, signals_are_reset);
    tcase_add_test(born, ignored_by_nohup_stays_ignored);
    tcase_add_test(born, descriptors_are_closed);
    tcase_add_test(born, descriptors_are_kept);
    tcase_add_test(born, kept_descriptor_must_be_open);
    tcase_add_loop_test(born, standard_descriptors_may_be_closed, 0, 8);
    tcase_add_test(born, streams_are_placed);
    tcase_add_test(born, streams_are_placed_beside_the_error_pipe);
    tcase_add_test(born, streams_must_be_open_and_out_of_the_way);
    tcase_add_test(born, group_is_own_or_inherited);
    tcase_add_test(born, descriptor_limit_is_restored);
    tcase_add_test(born, oom_score_is_not_negative);
    tcase_add_test(born, terminal_is_handed_over);
    tcase_add_test(born, arguments_and_environment_arrive);
    TCase *rest = sbx_fixture_case(suite, "rest", 120);
    tcase_add_test(rest, nothing_runs_beyond_a_hard_limit);
    tcase_add_test(rest, callers_mistakes_are_told);
    tcase_add_test(rest, many_launches_leave_nothing);
    return sbx_fixture_run(suite);
}
