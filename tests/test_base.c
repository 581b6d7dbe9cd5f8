/*
 * test_base.c - errors, descriptors and clocks. (Text has a test of its own.)
 */
#include "tests/fixture.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- errors --- */

START_TEST(an_error_is_described)
{
    struct sbx_error error = {0};
    ck_assert_int_eq(
        sbx_error_set(&error, ENOENT, SBX_STAGE_EXEC, "%s: number %d", "x", 7), -ENOENT);
    ck_assert_int_eq(error.code, ENOENT);
    ck_assert_int_eq((int)error.stage, (int)SBX_STAGE_EXEC);
    ck_assert_str_eq(error.message, "x: number 7");
    sbx_error_prefix(&error, "run %s", "y");
    ck_assert_str_eq(error.message, "run y: x: number 7");
    ck_assert_int_eq(error.code, ENOENT);
    ck_assert_int_eq((int)error.stage, (int)SBX_STAGE_EXEC);
}
END_TEST

START_TEST(nobody_need_listen)
{
    ck_assert_int_eq(sbx_error_set(NULL, EPERM, SBX_STAGE_ARM, "%d", 1), -EPERM);
    sbx_error_prefix(NULL, "%d", 1);
}
END_TEST

/* Whatever the lengths: terminated, and cut at the end. */
START_TEST(long_messages_are_cut)
{
    static const size_t lengths[] = {0,
                                     1,
                                     100,
                                     400,
                                     SBX_ERROR_MESSAGE_SIZE - 4,
                                     SBX_ERROR_MESSAGE_SIZE - 3,
                                     SBX_ERROR_MESSAGE_SIZE - 2,
                                     SBX_ERROR_MESSAGE_SIZE - 1,
                                     SBX_ERROR_MESSAGE_SIZE,
                                     SBX_ERROR_MESSAGE_SIZE + 100};
    const size_t count = sizeof lengths / sizeof lengths[0];
    char text[SBX_ERROR_MESSAGE_SIZE + 128];
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            struct {
                struct sbx_error error;
                char guard[64];
            } box;
            memset(&box, 0x7f, sizeof box);
            memset(text, 'm', sizeof text);
            text[lengths[i]] = '\0';
            (void)sbx_error_set(&box.error, EIO, SBX_STAGE_LAUNCH, "%s", text);
            memset(text, 'c', sizeof text);
            text[lengths[j]] = '\0';
            sbx_error_prefix(&box.error, "%s", text);
            size_t length = strnlen(box.error.message, SBX_ERROR_MESSAGE_SIZE);
            ck_assert_uint_lt(length, SBX_ERROR_MESSAGE_SIZE);
            size_t whole = lengths[i] + lengths[j] + 2;
            ck_assert_msg(length == whole || length == SBX_ERROR_MESSAGE_SIZE - 1,
                          "message %zu, context %zu: %zu bytes", lengths[i], lengths[j],
                          length);
            ck_assert_ptr_nonnull(strstr(box.error.message, ": "));
            for (size_t k = 0; k < sizeof box.guard; k++) {
                ck_assert_int_eq(box.guard[k], 0x7f);
            }
        }
    }
}
END_TEST

START_TEST(an_error_goes_through_a_pipe_in_one_write)
{
    ck_assert_uint_le(sizeof(struct sbx_error), PIPE_BUF);
}
END_TEST

START_TEST(stages_and_errnos_have_names)
{
    const char *names[] = {"none",   "options", "check",   "arm",
                           "launch", "exec",    "monitor", "report"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        ck_assert_str_eq(sbx_stage_name((enum sbx_stage)i), names[i]);
    }
    ck_assert_str_eq(sbx_stage_name((enum sbx_stage)8), "none");
    ck_assert_str_eq(sbx_stage_name((enum sbx_stage)1000), "none");
    ck_assert_str_eq(sbx_errno_name(ENOENT), "ENOENT");
    ck_assert_str_eq(sbx_errno_name(ESRCH), "ESRCH");
    ck_assert_str_eq(sbx_errno_name(-1), "errno");
    ck_assert_str_eq(sbx_errno_name(99999), "errno");
}
END_TEST

/* --- descriptors --- */

static int file_with(const char *text, size_t length)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    int fd = open(sbx_fixture_path(path, "file"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC,
                  0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(sbx_fd_write_all(fd, text, length), 0);
    return fd;
}

START_TEST(a_text_is_read_whole_or_not_at_all)
{
    SBX_AUTO_CLOSE int fd = file_with("0123456789", 10);
    char buffer[16];
    memset(buffer, 'x', sizeof buffer);
    ck_assert_int_eq(sbx_fd_pread_text(fd, buffer, sizeof buffer), 10);
    ck_assert_str_eq(buffer, "0123456789");
    ck_assert_int_eq(sbx_fd_pread_text(fd, buffer, 11), 10);
    ck_assert_int_eq(sbx_fd_pread_text(fd, buffer, 10), -ENOBUFS);
    ck_assert_int_eq(sbx_fd_pread_text(fd, buffer, 1), -ENOBUFS);
    /* from the beginning again each time */
    ck_assert_int_eq(sbx_fd_pread_text(fd, buffer, sizeof buffer), 10);
    ck_assert_int_eq(sbx_fd_pread_text(-1, buffer, sizeof buffer), -EBADF);
    SBX_AUTO_CLOSE int empty = file_with("", 0);
    ck_assert_int_eq(sbx_fd_pread_text(empty, buffer, sizeof buffer), 0);
    ck_assert_str_eq(buffer, "");
}
END_TEST

START_TEST(a_text_is_read_by_its_name)
{
    int fd = file_with("abc", 3);
    (void)close(fd);
    SBX_AUTO_CLOSE int directory =
        open(sbx_fixture_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char buffer[8];
    ck_assert_int_eq(sbx_fd_read_text_at(directory, "file", buffer, sizeof buffer), 3);
    ck_assert_str_eq(buffer, "abc");
    ck_assert_int_eq(sbx_fd_read_text_at(directory, "absent", buffer, sizeof buffer),
                     -ENOENT);
    ck_assert_int_eq(sbx_fd_read_text_at(directory, "file", buffer, 3), -ENOBUFS);
    ck_assert_int_eq(sbx_fd_read_text_at(directory, ".", buffer, sizeof buffer), -EISDIR);
}
END_TEST

/* More than a pipe holds at once. */
START_TEST(all_is_written_however_long_it_takes)
{
    static char data[300000];
    int pipe_fds[2];
    ck_assert_int_eq(pipe2(pipe_fds, O_CLOEXEC), 0);
    pid_t reader = fork();
    ck_assert_int_ge(reader, 0);
    if (reader == 0) {
        static char piece[1000];
        size_t total = 0;
        ssize_t got;
        (void)close(pipe_fds[1]);
        while ((got = read(pipe_fds[0], piece, sizeof piece)) > 0) {
            total += (size_t)got;
        }
        _exit(total == sizeof data ? 0 : 1);
    }
    (void)close(pipe_fds[0]);
    ck_assert_int_eq(sbx_fd_write_all(pipe_fds[1], data, sizeof data), 0);
    ck_assert_int_eq(sbx_fd_write_all(pipe_fds[1], data, 0), 0);
    (void)close(pipe_fds[1]);
    int status = -1;
    ck_assert_int_eq(waitpid(reader, &status, 0), reader);
    ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(writing_tells_why_it_failed)
{
    int pipe_fds[2];
    ck_assert_int_eq(sbx_fd_write_all(-1, "x", 1), -EBADF);
    ck_assert_int_eq(pipe2(pipe_fds, O_CLOEXEC), 0);
    (void)close(pipe_fds[0]);
    (void)signal(SIGPIPE, SIG_IGN);
    ck_assert_int_eq(sbx_fd_write_all(pipe_fds[1], "x", 1), -EPIPE);
    (void)close(pipe_fds[1]);
}
END_TEST

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

START_TEST(scopes_close_what_they_hold)
{
    int seen;
    int stolen;
    {
        SBX_AUTO_CLOSE int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        SBX_AUTO_CLOSE int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
        SBX_AUTO_CLOSE int none = -1;
        SBX_AUTO_FREE char *memory = malloc(10);
        SBX_AUTO_FREE char *nothing = NULL;
        SBX_AUTO_CLOSEDIR DIR *directory = opendir("/");
        SBX_AUTO_CLOSEDIR DIR *no_directory = NULL;
        ck_assert(memory != NULL && nothing == NULL && directory != NULL);
        ck_assert(no_directory == NULL && none == -1);
        seen = fd;
        stolen = sbx_fd_steal(&other);
        ck_assert_int_eq(other, -1);
    }
    ck_assert(!is_open(seen));
    ck_assert(is_open(stolen));
    sbx_fd_drop(&stolen);
    ck_assert_int_eq(stolen, -1);
    sbx_fd_drop(&stolen);
}
END_TEST

/* Which of 0, 1, 2 are closed: all eight ways. The child tells by its status. */
START_TEST(standard_descriptors_are_filled_up)
{
    for (int closed = 0; closed < 8; closed++) {
        pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            int spare = open("/dev/zero", O_RDONLY | O_CLOEXEC);
            for (int fd = 0; fd <= 2; fd++) {
                (void)dup2(spare, fd);
                if ((closed & 1 << fd) != 0) {
                    (void)close(fd);
                }
            }
            if (sbx_fd_open_standard() != 0) {
                _exit(10);
            }
            struct stat null;
            struct stat got;
            (void)stat("/dev/null", &null);
            for (int fd = 0; fd <= 2; fd++) {
                bool filled = fstat(fd, &got) == 0 && got.st_rdev == null.st_rdev;
                bool wanted = (closed & 1 << fd) != 0;
                if (filled != wanted || fcntl(fd, F_GETFD) != 0) {
                    _exit(20 + fd);
                }
            }
            _exit(0);
        }
        int status = -1;
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_msg(status == 0, "closed %d: status %#x", closed, (unsigned)status);
    }
}
END_TEST

/* From here on close_range fails with that errno: kernels before 5.9 and before 5.11, and
 * one that forbids it. */
static int break_close_range(int code)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)code),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {4, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                   prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0
               ? 0
               : -1;
}

/* 0: not broken. */
static int cloexec_child(int broken, int wanted)
{
    const int fds[] = {10, 11, 12, 200};
    for (size_t i = 0; i < 4; i++) {
        if (dup2(STDERR_FILENO, fds[i]) < 0) {
            return 10;
        }
    }
    if (broken != 0 && break_close_range(broken) != 0) {
        return 11;
    }
    if (sbx_fd_cloexec_from(11) != wanted) {
        return 12;
    }
    if (wanted < 0) {
        return 0;
    }
    for (size_t i = 0; i < 4; i++) {
        int flags = fcntl(fds[i], F_GETFD);
        if (flags != (fds[i] < 11 ? 0 : FD_CLOEXEC)) {
            return 20 + (int)i;
        }
    }
    return 0;
}

START_TEST(descriptors_from_a_number_up_close_on_exec)
{
    const struct {
        int broken;
        int wanted;
    } rows[] = {{0, 0}, {ENOSYS, 0}, {EINVAL, 0}, {EPERM, -EPERM}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            _exit(cloexec_child(rows[i].broken, rows[i].wanted));
        }
        int status = -1;
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_msg(status == 0, "row %zu: status %#x", i, (unsigned)status);
    }
}
END_TEST

/* --- clocks --- */

START_TEST(sums_of_times_saturate)
{
    ck_assert_uint_eq(sbx_clock_add(1, 2), 3);
    ck_assert_uint_eq(sbx_clock_add(SBX_FOREVER_US, 0), SBX_FOREVER_US);
    ck_assert_uint_eq(sbx_clock_add(SBX_FOREVER_US, 1), SBX_FOREVER_US);
    ck_assert_uint_eq(sbx_clock_add(SBX_FOREVER_US - 5, 4), SBX_FOREVER_US - 1);
    ck_assert_uint_eq(sbx_clock_add(SBX_FOREVER_US - 5, 6), SBX_FOREVER_US);
    ck_assert_uint_eq(sbx_clock_add(SBX_FOREVER_US, SBX_FOREVER_US), SBX_FOREVER_US);
}
END_TEST

START_TEST(times_are_written_in_utc)
{
    const struct {
        uint64_t us;
        const char *text;
    } rows[] = {
        {0, "1970-01-01T00:00:00.000000Z"},
        {1, "1970-01-01T00:00:00.000001Z"},
        {UINT64_C(951782400) * 1000000, "2000-02-29T00:00:00.000000Z"},
        {UINT64_C(1709251199) * 1000000 + 999999, "2024-02-29T23:59:59.999999Z"},
        {UINT64_C(4102444800) * 1000000 + 123456, "2100-01-01T00:00:00.123456Z"},
    };
    (void)setenv("TZ", "Asia/Kathmandu", 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char buffer[SBX_CLOCK_TEXT_SIZE];
        ck_assert_str_eq(sbx_clock_text(rows[i].us, buffer), rows[i].text);
    }
    char buffer[SBX_CLOCK_TEXT_SIZE];
    ck_assert_uint_lt(strlen(sbx_clock_text(UINT64_MAX, buffer)), SBX_CLOCK_TEXT_SIZE);
}
END_TEST

START_TEST(clocks_go_forward)
{
    uint64_t before = sbx_clock_us();
    uint64_t cpu_before = sbx_clock_cpu_us();
    while (sbx_clock_cpu_us() < cpu_before + 20000) {
        ck_assert_uint_lt(sbx_clock_us(), before + 20 * SBX_US_PER_S);
    }
    /* One thread cannot have used more time than has passed. */
    uint64_t used = sbx_clock_cpu_us() - cpu_before;
    ck_assert_uint_ge(sbx_clock_us() - before + 1000, used);
    /* After this was written, and before the clock was wrong by a century. */
    ck_assert_uint_gt(sbx_clock_real_us(), UINT64_C(1700000000) * SBX_US_PER_S);
    ck_assert_uint_lt(sbx_clock_real_us(), UINT64_C(5000000000) * SBX_US_PER_S);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base");
    TCase *tcase = sbx_fixture_case(suite, "base", 30);
    tcase_add_test(tcase, an_error_is_described);
    tcase_add_test(tcase, nobody_need_listen);
    tcase_add_test(tcase, long_messages_are_cut);
    tcase_add_test(tcase, an_error_goes_through_a_pipe_in_one_write);
    tcase_add_test(tcase, stages_and_errnos_have_names);
    tcase_add_test(tcase, a_text_is_read_whole_or_not_at_all);
    tcase_add_test(tcase, a_text_is_read_by_its_name);
    tcase_add_test(tcase, all_is_written_however_long_it_takes);
    tcase_add_test(tcase, writing_tells_why_it_failed);
    tcase_add_test(tcase, scopes_close_what_they_hold);
    tcase_add_test(tcase, standard_descriptors_are_filled_up);
    tcase_add_test(tcase, descriptors_from_a_number_up_close_on_exec);
    tcase_add_test(tcase, sums_of_times_saturate);
    tcase_add_test(tcase, times_are_written_in_utc);
    tcase_add_test(tcase, clocks_go_forward);
    return sbx_fixture_run(suite);
}
