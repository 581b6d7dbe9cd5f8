/*
 * test_publish_in_place.c - the report to what cannot be replaced: devices, FIFOs,
 * sockets, links of /proc, terminals, and standard error; never waiting for ever.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "monitor/report.h"
#include "tests/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static const char report[] = "{\"schema\":\"sbx.report/1\"}\n";

/* More than any pipe or socket here takes without a reader. */
static char large[SBX_REPORT_SIZE * 4];

/* Patience is 2 s; a machine that is busy may add much to it. */
#define PATIENCE_US UINT64_C(2000000)
#define BOUND_US (PATIENCE_US + UINT64_C(30000000))

static int publish_text(char *path, const char *text, struct sbx_error *err)
{
    struct sbx_spec spec = {.report_path = path, .report_directory_fd = -1};
    return sbx_report_publish(&spec, text, strlen(text), err);
}

static int publish(char *path)
{
    return publish_text(path, report, NULL);
}

static int check(char *path)
{
    struct sbx_spec spec = {.report_path = path, .report_directory_fd = -1};
    return sbx_report_check(&spec, NULL);
}

/* Publishes and expects that patience, and no more, was spent before it failed. */
static void expect_given_up(char *path, const char *text, int code)
{
    uint64_t start = sbx_clock_us();
    struct sbx_error error = {0};
    int r = publish_text(path, text, &error);
    uint64_t spent = sbx_clock_us() - start;
    ck_assert_msg(r == -code, "%s", strerror(-r));
    ck_assert_int_eq(error.code, code);
    ck_assert_int_eq(error.stage, SBX_STAGE_REPORT);
    ck_assert_msg(spent >= PATIENCE_US - 1000 && spent < BOUND_US, "after %llu us",
                  (unsigned long long)spent);
}

static void fill_large(void)
{
    memset(large, 'l', sizeof large - 2);
    large[sizeof large - 2] = '\n';
}

static int status_flags(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    ck_assert_int_ge(flags, 0);
    return flags;
}

/* Everything that is there to read now. */
static void assert_readable(int fd, const char *text)
{
    char found[4096];
    size_t used = 0;
    while (used < strlen(text)) {
        ssize_t length = read(fd, found + used, sizeof found - 1 - used);
        ck_assert_msg(length > 0, "after %zu bytes: %s", used,
                      length < 0 ? strerror(errno) : "end");
        used += (size_t)length;
    }
    found[used] = '\0';
    ck_assert_str_eq(found, text);
}

/* --- devices and links of /proc ---------------------------------------------------- */

START_TEST(test_devices)
{
    char null[] = "/dev/null";
    char full[] = "/dev/full";
    struct sbx_error error = {0};
    ck_assert_int_eq(check(null), 0);
    ck_assert_int_eq(publish(null), 0);
    ck_assert_int_eq(check(full), 0);
    ck_assert_int_eq(publish_text(full, report, &error), -ENOSPC);
    ck_assert_int_eq(error.code, ENOSPC);
    struct stat status;
    ck_assert_int_eq(lstat(null, &status), 0);
    ck_assert(S_ISCHR(status.st_mode));
    ck_assert_int_eq(lstat(full, &status), 0);
    ck_assert(S_ISCHR(status.st_mode));
}
END_TEST

/* What /dev/stdout is when it is a file: others write there too, so that it is neither
 * replaced nor cut. */
START_TEST(test_proc_link)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char link[SBX_FIXTURE_PATH_SIZE];
    char target[64];
    char found[256];
    SBX_AUTO_CLOSE int fd =
        open(sbx_fixture_path(path, "out"), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(sbx_fd_write_all(fd, "before\n", 7), 0);
    (void)snprintf(target, sizeof target, "/proc/self/fd/%d", fd);
    ck_assert_int_eq(symlink(target, sbx_fixture_path(link, "link")), 0);
    ck_assert_int_eq(check(link), 0);
    ck_assert_int_eq(publish(link), 0);
    ck_assert_int_gt(sbx_fd_pread_text(fd, found, sizeof found), 0);
    ck_assert_str_eq(found, "before\n{\"schema\":\"sbx.report/1\"}\n");
}
END_TEST

/* --- FIFOs ------------------------------------------------------------------------- */

START_TEST(test_fifo)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    ck_assert_int_eq(mkfifo(sbx_fixture_path(path, "fifo"), 0600), 0);
    ck_assert_int_eq(check(path), 0);
    SBX_AUTO_CLOSE int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ck_assert_int_ge(reader, 0);
    ck_assert_int_eq(publish(path), 0);
    assert_readable(reader, report);
}
END_TEST

START_TEST(test_fifo_without_reader)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    ck_assert_int_eq(mkfifo(sbx_fixture_path(path, "fifo"), 0600), 0);
    expect_given_up(path, report, ENXIO);
}
END_TEST

START_TEST(test_fifo_with_idle_reader)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    fill_large();
    ck_assert_int_eq(mkfifo(sbx_fixture_path(path, "fifo"), 0600), 0);
    SBX_AUTO_CLOSE int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ck_assert_int_ge(reader, 0);
    expect_given_up(path, large, ETIMEDOUT);
}
END_TEST

/* A reader that comes with the writer, as `cat fifo &` does, gets all of it, however much
 * more than a pipe holds. */
START_TEST(test_fifo_with_reader)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    fill_large();
    ck_assert_int_eq(mkfifo(sbx_fixture_path(path, "fifo"), 0600), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        static char found[4096];
        size_t used = 0;
        int reader = open(path, O_RDONLY | O_CLOEXEC);
        for (ssize_t length; (length = read(reader, found, sizeof found)) > 0;) {
            used += (size_t)length;
        }
        _exit(used == sizeof large - 1 ? 0 : 1);
    }
    ck_assert_int_eq(publish_text(path, large, NULL), 0);
    int status = -1;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}
END_TEST

/* --- sockets ----------------------------------------------------------------------- */

static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM};

static int listen_at(const char *path, int type)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    ck_assert_uint_lt(strlen(path), sizeof address.sun_path);
    (void)strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert(type == SOCK_DGRAM || listen(fd, 1) == 0);
    return fd;
}

START_TEST(test_socket)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    (void)sbx_fixture_path(path, "socket");
    int fd = listen_at(path, types[_i]);
    ck_assert_int_eq(check(path), 0);
    ck_assert_int_eq(publish(path), 0);
    if (types[_i] == SOCK_DGRAM) {
        assert_readable(fd, report);
    } else {
        SBX_AUTO_CLOSE int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        ck_assert_int_ge(peer, 0);
        assert_readable(peer, report);
    }
    ck_assert_int_eq(close(fd), 0);
    ck_assert_int_eq(publish(path), -ECONNREFUSED);
}
END_TEST

START_TEST(test_socket_with_idle_reader)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    fill_large();
    (void)sbx_fixture_path(path, "socket");
    SBX_AUTO_CLOSE int fd = listen_at(path, SOCK_STREAM);
    ck_assert_int_ge(fd, 0);
    expect_given_up(path, large, ETIMEDOUT);
}
END_TEST

/* --- standard error ---------------------------------------------------------------- */

/* The test's own standard error, put back at its end for Check and the fixture. */
static int own_stderr = -1;

static void set_stderr(int fd)
{
    if (own_stderr < 0) {
        own_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
        ck_assert_int_ge(own_stderr, 0);
    }
    ck_assert_int_eq(dup2(fd, STDERR_FILENO), STDERR_FILENO);
}

static void reset_stderr(void)
{
    ck_assert_int_eq(dup2(own_stderr, STDERR_FILENO), STDERR_FILENO);
    sbx_fd_drop(&own_stderr);
}

static char dash[] = "-";

static const struct {
    const char *before;
    const char *after;
    int flags;
} unfinished[] = {
    {"", "{\"schema\":\"sbx.report/1\"}\n", 0},
    {"line\n", "line\n{\"schema\":\"sbx.report/1\"}\n", 0},
    {"no newline", "no newline\n{\"schema\":\"sbx.report/1\"}\n", 0},
    {"no newline", "no newline\n{\"schema\":\"sbx.report/1\"}\n", O_APPEND},
    {"line\n", "line\n{\"schema\":\"sbx.report/1\"}\n", O_APPEND},
};

/* In a file it can be known whether the last line is finished: the report is a line of
 * its own there. */
START_TEST(test_stderr_file)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char found[256];
    SBX_AUTO_CLOSE int fd =
        open(sbx_fixture_path(path, "err"),
             O_RDWR | O_CREAT | O_CLOEXEC | unfinished[_i].flags, 0600);
    ck_assert_int_ge(fd, 0);
    size_t length = strlen(unfinished[_i].before);
    ck_assert_int_eq(sbx_fd_write_all(fd, unfinished[_i].before, length), 0);
    set_stderr(fd);
    int r = publish(dash);
    reset_stderr();
    ck_assert_int_eq(r, 0);
    ck_assert_int_gt(sbx_fd_pread_text(fd, found, sizeof found), 0);
    ck_assert_str_eq(found, unfinished[_i].after);
}
END_TEST

static const struct {
    int flags;
    bool large;
    int result;
} pipes[] = {
    {0, false, 0},
    {O_NONBLOCK, false, 0},
    {0, true, ETIMEDOUT},
    {O_NONBLOCK, true, ETIMEDOUT},
};

/* Bounded on a pipe that nobody empties, and the mode that others rely on stays. */
START_TEST(test_stderr_pipe)
{
    int ends[2];
    fill_large();
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC | pipes[_i].flags), 0);
    int before = status_flags(ends[1]);
    set_stderr(ends[1]);
    if (pipes[_i].result == 0) {
        ck_assert_int_eq(publish(dash), 0);
        assert_readable(ends[0], report);
    } else {
        expect_given_up(dash, large, pipes[_i].result);
    }
    reset_stderr();
    ck_assert_int_eq(status_flags(ends[1]), before);
    ck_assert_int_eq(close(ends[0]), 0);
    ck_assert_int_eq(close(ends[1]), 0);
}
END_TEST

/* Not even where the description is shared and cannot be had once more. */
START_TEST(test_stderr_shared_pipe)
{
    int ends[2];
    fill_large();
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_int_eq(fchmod(ends[1], 0), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        if (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0) {
            _exit(9);
        }
        set_stderr(ends[1]);
        if (open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_CLOEXEC) >= 0) {
            _exit(8);
        }
        expect_given_up(dash, large, ETIMEDOUT);
        _exit(0);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(close(ends[0]), 0);
    ck_assert_int_eq(close(ends[1]), 0);
}
END_TEST

/* The reader is gone: an error, and neither death by SIGPIPE nor one that comes later. */
START_TEST(test_stderr_closed_pipe)
{
    int ends[2];
    sigset_t pending;
    (void)signal(SIGPIPE, SIG_DFL);
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_int_eq(close(ends[0]), 0);
    set_stderr(ends[1]);
    int r = publish(dash);
    reset_stderr();
    ck_assert_int_eq(close(ends[1]), 0);
    ck_assert_int_eq(r, -EPIPE);
    ck_assert_int_eq(sigpending(&pending), 0);
    ck_assert_int_eq(sigismember(&pending, SIGPIPE), 0);
    ck_assert_int_eq(sigprocmask(SIG_BLOCK, NULL, &pending), 0);
    ck_assert_int_eq(sigismember(&pending, SIGPIPE), 0);
}
END_TEST

/* One that was already waiting stays for whoever it is meant for. */
START_TEST(test_pending_signal_stays)
{
    int ends[2];
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGPIPE);
    ck_assert_int_eq(sigprocmask(SIG_BLOCK, &set, NULL), 0);
    ck_assert_int_eq(raise(SIGPIPE), 0);
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_int_eq(close(ends[0]), 0);
    set_stderr(ends[1]);
    int r = publish(dash);
    reset_stderr();
    ck_assert_int_eq(close(ends[1]), 0);
    ck_assert_int_eq(r, -EPIPE);
    const struct timespec at_once = {0};
    ck_assert_int_eq(sigtimedwait(&set, NULL, &at_once), SIGPIPE);
}
END_TEST

START_TEST(test_stderr_socket)
{
    int ends[2];
    fill_large();
    (void)signal(SIGPIPE, SIG_DFL);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    set_stderr(ends[1]);
    ck_assert_int_eq(publish(dash), 0);
    assert_readable(ends[0], report);
    expect_given_up(dash, large, ETIMEDOUT);
    ck_assert_int_eq(close(ends[0]), 0);
    int r = publish(dash);
    reset_stderr();
    ck_assert_int_eq(close(ends[1]), 0);
    ck_assert_msg(r == -EPIPE || r == -ECONNRESET, "%d", r);
}
END_TEST

static void open_terminal(int *ret_master, int *ret_slave)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert_int_ge(master, 0);
    ck_assert_int_eq(grantpt(master), 0);
    ck_assert_int_eq(unlockpt(master), 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert_int_ge(slave, 0);
    struct termios mode;
    ck_assert_int_eq(tcgetattr(slave, &mode), 0);
    cfmakeraw(&mode);
    ck_assert_int_eq(tcsetattr(slave, TCSANOW, &mode), 0);
    *ret_master = master;
    *ret_slave = slave;
}

/* A terminal takes the report; one that was stopped (^S) costs patience, not for ever. */
START_TEST(test_stderr_terminal)
{
    SBX_AUTO_CLOSE int master = -1;
    SBX_AUTO_CLOSE int slave = -1;
    open_terminal(&master, &slave);
    int before = status_flags(slave);
    set_stderr(slave);
    ck_assert_int_eq(publish(dash), 0);
    assert_readable(master, report);
    ck_assert_int_eq(tcflow(slave, TCOOFF), 0);
    expect_given_up(dash, report, ETIMEDOUT);
    ck_assert_int_eq(tcflow(slave, TCOON), 0);
    reset_stderr();
    ck_assert_int_eq(status_flags(slave), before);
}
END_TEST

/* The master's side: opened again, it would be a terminal that nobody looks at. */
START_TEST(test_stderr_master)
{
    SBX_AUTO_CLOSE int master = -1;
    SBX_AUTO_CLOSE int slave = -1;
    open_terminal(&master, &slave);
    set_stderr(master);
    int r = publish(dash);
    reset_stderr();
    ck_assert_int_eq(r, 0);
    assert_readable(slave, report);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("publish_in_place");
    TCase *nodes = sbx_fixture_case(suite, "nodes", 120);
    tcase_add_test(nodes, test_devices);
    tcase_add_test(nodes, test_proc_link);
    tcase_add_test(nodes, test_fifo);
    tcase_add_test(nodes, test_fifo_without_reader);
    tcase_add_test(nodes, test_fifo_with_idle_reader);
    tcase_add_test(nodes, test_fifo_with_reader);
    tcase_add_loop_test(nodes, test_socket, 0, (int)LENGTH(types));
    tcase_add_test(nodes, test_socket_with_idle_reader);
    TCase *standard = sbx_fixture_case(suite, "stderr", 120);
    tcase_add_loop_test(standard, test_stderr_file, 0, (int)LENGTH(unfinished));
    tcase_add_loop_test(standard, test_stderr_pipe, 0, (int)LENGTH(pipes));
    tcase_add_test(standard, test_stderr_shared_pipe);
    tcase_add_test(standard, test_stderr_closed_pipe);
    tcase_add_test(standard, test_pending_signal_stays);
    tcase_add_test(standard, test_stderr_socket);
    tcase_add_test(standard, test_stderr_terminal);
    tcase_add_test(standard, test_stderr_master);
    return sbx_fixture_run(suite);
}
