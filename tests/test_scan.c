/*
 * test_scan.c - the scan of the whole host: it finds the test's own child, stops when
 * asked, and says precisely when libproc2 cannot be had (dlopen and dlsym are wrapped by
 * the linker).
 */
#include "reaper/scan.h"

#include "reaper/proc.h"
#include "tests/fixture.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

void *__real_dlopen(const char *path, int flags);
void *__wrap_dlopen(const char *path, int flags);
void *__real_dlsym(void *library, const char *name);
void *__wrap_dlsym(void *library, const char *name);

static const char *other_library; /* opened instead, when set */
static const char *lost_symbol;   /* looked up under a name that nobody has, when set */

void *__wrap_dlopen(const char *path, int flags)
{
    return __real_dlopen(other_library != NULL ? other_library : path, flags);
}

void *__wrap_dlsym(void *library, const char *name)
{
    bool lost = lost_symbol != NULL && strcmp(name, lost_symbol) == 0;
    return __real_dlsym(library, lost ? "no_such_symbol_of_libproc2" : name);
}

/* clang's leak check asks a symbolizer about what libproc2 keeps per thread, finds
 * nothing to report, and leaves that helper process to the fixture, which takes it for
 * ours. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "symbolize=0";
}

struct seen {
    pid_t wanted;
    int times;
    int all;
    struct sbx_scanned process;
    int stop_at; /* 0: never */
};

static int look(const struct sbx_scanned *process, void *context)
{
    struct seen *seen = context;
    seen->all++;
    if (process->pid == seen->wanted) {
        seen->times++;
        seen->process = *process;
    }
    return seen->all == seen->stop_at ? 77 : 0;
}

static pid_t start_waiting(void)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)prctl(PR_SET_NAME, "x) Z 1 1 1 (y");
        (void)alarm(60);
        (void)pause();
        _exit(0);
    }
    return pid;
}

START_TEST(finds_our_child)
{
    struct sbx_scan *scan = NULL;
    struct sbx_error error = {0};
    struct sbx_proc_stat stat;
    int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pid_t pid = start_waiting();
    ck_assert_int_eq(sbx_proc_stat_at(proc_fd, pid, &stat), 0);
    ck_assert_int_eq(close(proc_fd), 0);
    ck_assert_msg(sbx_scan_new(&scan, &error) == 0, "%s", error.message);
    struct seen seen = {.wanted = pid};
    ck_assert_msg(sbx_scan_run(scan, look, &seen, &error) == 0, "%s", error.message);
    ck_assert_int_eq(seen.times, 1);
    ck_assert_int_eq(seen.process.ppid, getpid());
    ck_assert_int_eq(seen.process.pgrp, getpgrp());
    ck_assert_int_eq(seen.process.session, getsid(0));
    ck_assert_uint_eq(seen.process.start_ticks, stat.start_ticks);
    ck_assert_int_gt(seen.all, 2);

    /* Stopped early, and whole again the next time. */
    struct seen some = {.wanted = pid, .stop_at = 2};
    ck_assert_int_eq(sbx_scan_run(scan, look, &some, &error), 77);
    ck_assert_int_eq(some.all, 2);
    seen = (struct seen){.wanted = pid};
    ck_assert_int_eq(sbx_scan_run(scan, look, &seen, &error), 0);
    ck_assert_int_eq(seen.times, 1);

    /* What has ended and was waited for is not in the next scan. */
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    seen = (struct seen){.wanted = pid};
    ck_assert_int_eq(sbx_scan_run(scan, look, &seen, &error), 0);
    ck_assert_int_eq(seen.times, 0);
    sbx_scan_free(scan);
}
END_TEST

START_TEST(made_and_freed_again_and_again)
{
    for (int i = 0; i < 20; i++) {
        struct sbx_scan *scan = NULL;
        struct seen seen = {.wanted = getpid()};
        ck_assert_int_eq(sbx_scan_new(&scan, NULL), 0);
        ck_assert_int_eq(sbx_scan_run(scan, look, &seen, NULL), 0);
        ck_assert_int_eq(seen.times, 1);
        ck_assert_int_eq(seen.process.ppid, getppid());
        sbx_scan_free(scan);
    }
    sbx_scan_free(NULL);
}
END_TEST

static void check_refused(const char *part)
{
    struct sbx_scan *const untouched = (struct sbx_scan *)&lost_symbol;
    struct sbx_scan *scan = untouched;
    struct sbx_error error = {0};
    ck_assert_int_eq(sbx_scan_new(&scan, &error), -ELIBACC);
    ck_assert_ptr_eq(scan, untouched);
    ck_assert_int_eq(error.code, ELIBACC);
    ck_assert_msg(strstr(error.message, "libproc2.so.0") != NULL, "%s", error.message);
    ck_assert_msg(strstr(error.message, "install") != NULL, "%s", error.message);
    ck_assert_msg(strstr(error.message, part) != NULL, "%s", error.message);
    ck_assert_int_eq(sbx_scan_new(&scan, NULL), -ELIBACC);
}

START_TEST(the_library_is_missing)
{
    other_library = "libproc2-that-nobody-has.so.0";
    check_refused("libproc2-that-nobody-has.so.0: cannot open");
}
END_TEST

START_TEST(the_library_is_another_one)
{
    static const char *const symbols[] = {"procps_pids_new", "procps_pids_reap",
                                          "procps_pids_unref"};
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        lost_symbol = symbols[i];
        check_refused("no_such_symbol_of_libproc2");
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("scan");
    TCase *tcase = sbx_fixture_case(suite, "scan", 60);
    tcase_add_test(tcase, finds_our_child);
    tcase_add_test(tcase, made_and_freed_again_and_again);
    tcase_add_test(tcase, the_library_is_missing);
    tcase_add_test(tcase, the_library_is_another_one);
    return sbx_fixture_run(suite);
}
