/*
 * fixture.c - the fixture around each test.
 *
 * Check forks a process for each test. The set-up of that process forks once more: the
 * child goes on as the test, the parent stays as its sentinel. Check skips the tear-down
 * of a test that fails and its time limit misses what called setsid; the sentinel sees
 * both. It is a subreaper, so all that a test leaves behind becomes its own child in the
 * end, and is named and killed as one: an un-reaped child's pid cannot mean another
 * process. Then it removes the test's directory, and ends as the test has ended, or with
 * a failure of its own in Check's record.
 *
 * Relies on nothing of the library under test. Never signals what is not its own child.
 */
#include "tests/fixture.h"

#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CASE_MAX 8
#define DESCRIPTOR_MAX 256
#define NAMED_MAX 8
#define TEXT_SIZE 1024
#define SWEEP_SECONDS 30.0
#define CHECK_MARGIN_SECONDS 60.0

/* Time limit of each case, by its number. */
static double case_seconds[CASE_MAX];
static size_t case_count;

struct descriptor {
    int fd;
    dev_t device;
    ino_t inode;
};

/* The test that this process runs, or watches over. */
static struct {
    char directory[SBX_FIXTURE_PATH_SIZE];
    struct descriptor before[DESCRIPTOR_MAX];
    size_t before_count;
    bool *finished; /* shared: the tear-down was reached */
} current;

/* What a sentinel has to say against its test. */
struct complaint {
    char text[TEXT_SIZE];
    size_t length;
    pid_t named[NAMED_MAX];
    size_t named_count;
};

static double now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static struct timespec timespec_of(double seconds)
{
    time_t whole = (time_t)seconds;
    return (struct timespec){.tv_sec = whole,
                             .tv_nsec = (long)((seconds - (double)whole) * 1e9)};
}

static void nap(double seconds)
{
    struct timespec time = timespec_of(seconds);
    (void)nanosleep(&time, NULL);
}

static void complain(struct complaint *complaint, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void complain(struct complaint *complaint, const char *format, ...)
{
    va_list arguments;
    size_t room = sizeof(complaint->text) - complaint->length;
    va_start(arguments, format);
    int length = vsnprintf(complaint->text + complaint->length, room, format, arguments);
    va_end(arguments);
    if (length > 0) {
        complaint->length += (size_t)length < room ? (size_t)length : room - 1;
    }
}

/* --- descriptors ------------------------------------------------------------------ */

static size_t list_descriptors(struct descriptor list[static DESCRIPTOR_MAX])
{
    SBX_AUTO_CLOSEDIR DIR *directory = opendir("/proc/self/fd");
    ck_assert_msg(directory != NULL, "/proc/self/fd: %s", strerror(errno));
    size_t count = 0;
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        struct stat status;
        int fd = (int)strtol(entry->d_name, NULL, 10);
        if (entry->d_name[0] == '.' || fd == dirfd(directory) || fstat(fd, &status) < 0) {
            continue;
        }
        ck_assert_msg(count < DESCRIPTOR_MAX, "more than %d descriptors are open",
                      DESCRIPTOR_MAX);
        list[count++] = (struct descriptor){fd, status.st_dev, status.st_ino};
    }
    return count;
}

static const struct descriptor *find_descriptor(const struct descriptor *list,
                                                size_t count, int fd)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i].fd == fd) {
            return &list[i];
        }
    }
    return NULL;
}

static void compare_descriptors(void)
{
    struct descriptor after[DESCRIPTOR_MAX];
    size_t count = list_descriptors(after);
    for (size_t i = 0; i < count; i++) {
        const struct descriptor *old =
            find_descriptor(current.before, current.before_count, after[i].fd);
        char link[64];
        char target[256] = "?";
        (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", after[i].fd);
        ssize_t length = readlink(link, target, sizeof(target) - 1);
        target[length > 0 ? length : 1] = '\0';
        ck_assert_msg(old != NULL, "descriptor %d was left open (%s)", after[i].fd,
                      target);
        ck_assert_msg(old->device == after[i].device && old->inode == after[i].inode,
                      "descriptor %d is another file than before (%s)", after[i].fd,
                      target);
    }
    for (size_t i = 0; i < current.before_count; i++) {
        ck_assert_msg(find_descriptor(after, count, current.before[i].fd) != NULL,
                      "descriptor %d was closed", current.before[i].fd);
    }
}

/* --- the sentinel ------------------------------------------------------------------ */

static void name_process(struct complaint *complaint, pid_t pid)
{
    for (size_t i = 0; i < complaint->named_count; i++) {
        if (complaint->named[i] == pid) {
            return;
        }
    }
    if (complaint->named_count == NAMED_MAX) {
        return;
    }
    char path[64];
    char name[64] = "";
    (void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    SBX_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, name, sizeof(name) - 1) : 0;
    name[length > 0 ? length - 1 : 0] = '\0';
    complain(complaint, "%s%d (%s)", complaint->named_count == 0 ? "left behind: " : ", ",
             (int)pid, name);
    complaint->named[complaint->named_count++] = pid;
}

/* Names and kills each child that the kernel lists; as we are single-threaded and have
 * not waited for them, these pids are theirs. */
static void end_children(struct complaint *complaint)
{
    static char list[64 * 1024];
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    SBX_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, list, sizeof(list) - 1) : 0;
    list[length > 0 ? length : 0] = '\0';
    /* A number that the end of the buffer cuts would be another process: only what a
     * blank ends counts. */
    char *start = list;
    for (char *blank; (blank = strchr(start, ' ')) != NULL; start = blank + 1) {
        pid_t pid = (pid_t)strtol(start, NULL, 10);
        if (pid > 1) {
            name_process(complaint, pid);
            (void)kill(pid, SIGKILL);
        }
    }
}

/* Kills and reaps until the kernel says that no child is left: what was deeper in the
 * tree comes up to us as its parents die. */
static void sweep(struct complaint *complaint)
{
    double end = now() + SWEEP_SECONDS;
    for (;;) {
        siginfo_t info;
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0) {
            return;
        }
        end_children(complaint);
        while (waitpid(-1, NULL, WNOHANG | __WALL) > 0) {
        }
        if (now() > end) {
            complain(complaint, " (and some live on)");
            return;
        }
        nap(0.0002);
    }
}

static int remove_one(const char *path, const struct stat *status, int type,
                      struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path) == 0 ? 0 : errno;
}

static void remove_directory(struct complaint *complaint)
{
    int error = nftw(current.directory, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    if (error != 0) {
        complain(complaint, "%scannot remove the directory %s: %s",
                 complaint->length > 0 ? "; " : "", current.directory,
                 strerror(error < 0 ? errno : error));
    }
}

enum end { END_ITSELF, END_LATE, END_STOPPED };

/* Waits for the test's end, its time limit, or a signal that tells us to stop. */
static enum end wait_for_test(pid_t test, double seconds, const sigset_t *signals,
                              int *ret_status)
{
    double deadline = now() + seconds;
    enum end end = END_ITSELF;
    while (waitpid(test, ret_status, WNOHANG) == 0) {
        double rest = deadline - now();
        if (end == END_ITSELF && rest <= 0) {
            end = END_LATE;
        }
        if (end != END_ITSELF) {
            (void)kill(test, SIGKILL);
            rest = 0.1;
        }
        struct timespec time = timespec_of(rest);
        int got = sigtimedwait(signals, NULL, &time);
        if (got > 0 && got != SIGCHLD) {
            end = END_STOPPED;
        }
    }
    return end;
}

static _Noreturn void end_like(int status)
{
    if (WIFSIGNALED(status)) {
        const struct rlimit none = {0, 0};
        sigset_t all;
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)signal(WTERMSIG(status), SIG_DFL);
        (void)sigfillset(&all);
        (void)sigprocmask(SIG_UNBLOCK, &all, NULL);
        (void)raise(WTERMSIG(status));
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static _Noreturn void watch_over(pid_t test, double seconds, const sigset_t *signals)
{
    struct complaint complaint = {0};
    int status = 0;
    /* Out of the test's group, which Check kills: we have to be there to clean up. */
    (void)setpgid(0, getpgid(getppid()));
    enum end end = wait_for_test(test, seconds, signals, &status);
    if (end == END_LATE) {
        complain(&complaint, "the time limit of %.1f s has passed; ", seconds);
    } else if (WIFSIGNALED(status)) {
        complain(&complaint, "the test was ended by signal %d; ", WTERMSIG(status));
    } else if (WEXITSTATUS(status) == 0 && !*current.finished) {
        complain(&complaint, "the test has called exit; ");
    }
    size_t opening = complaint.length;
    sweep(&complaint);
    remove_directory(&complaint);
    bool clean = complaint.length == opening;
    if (end == END_STOPPED) {
        _exit(1);
    }
    if (clean && (opening == 0 || WIFSIGNALED(status)) && end != END_LATE) {
        end_like(status);
    }
    /* Check keeps the first failure that it is told of: that of the test, if it had one.
     */
    ck_abort_msg("%s", complaint.text);
    _exit(1);
}

/* --- around each test --------------------------------------------------------------- */

static void make_directory(void)
{
    const char *root = getenv("TMPDIR");
    (void)snprintf(current.directory, sizeof(current.directory), "%s/sbx-test-XXXXXX",
                   root != NULL && root[0] == '/' ? root : "/tmp");
    ck_assert_msg(mkdtemp(current.directory) != NULL, "cannot make %s: %s",
                  current.directory, strerror(errno));
    ck_assert_int_eq(chmod(current.directory, 0755), 0);
}

static void set_up(double seconds)
{
    sigset_t signals;
    sigset_t old;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGCHLD);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &signals, &old);
    (void)signal(SIGCHLD, SIG_DFL); /* the others are Check's handlers here */
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGALRM, SIG_DFL);
    ck_assert_int_eq(prctl(PR_SET_PDEATHSIG, SIGTERM), 0);
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    current.finished = mmap(NULL, sizeof(*current.finished), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(current.finished, MAP_FAILED);
    make_directory();

    pid_t sentinel = getpid();
    pid_t test = fork();
    if (test < 0) {
        int error = errno;
        (void)rmdir(current.directory);
        ck_abort_msg("cannot fork: %s", strerror(error));
    }
    if (test > 0) {
        watch_over(test, seconds, &signals);
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != sentinel) {
        _exit(1);
    }
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
    current.before_count = list_descriptors(current.before);
}

static void tear_down(void)
{
    *current.finished = true;
    compare_descriptors();
}

/* Check calls a set-up without saying for which case: each case has one of its own. */
#define SET_UP(number)                                                                   \
    static void set_up_##number(void)                                                    \
    {                                                                                    \
        set_up(case_seconds[number]);                                                    \
    }
SET_UP(0)
SET_UP(1)
SET_UP(2)
SET_UP(3)
SET_UP(4)
SET_UP(5)
SET_UP(6)
SET_UP(7)
static const SFun set_ups[CASE_MAX] = {set_up_0, set_up_1, set_up_2, set_up_3,
                                       set_up_4, set_up_5, set_up_6, set_up_7};

TCase *sbx_fixture_case(Suite *suite, const char *name, double seconds)
{
    if (case_count == CASE_MAX) {
        (void)fprintf(stderr, "more than %d test cases\n", CASE_MAX);
        abort();
    }
    case_seconds[case_count] = seconds;
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, set_ups[case_count], tear_down);
    case_count++;
    /* Check's own limit is for a sentinel that fails. */
    tcase_set_timeout(tcase, seconds + SWEEP_SECONDS + CHECK_MARGIN_SECONDS);
    suite_add_tcase(suite, tcase);
    return tcase;
}

int sbx_fixture_run(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_FORK);
    srunner_run_all(runner, CK_ENV);
    int run = srunner_ntests_run(runner);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    if (run == 0) {
        (void)fprintf(stderr, "no test was run\n");
    }
    return run > 0 && failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* --- for the tests ------------------------------------------------------------------ */

const char *sbx_fixture_dir(void)
{
    return current.directory;
}

static const char *join(char buffer[static SBX_FIXTURE_PATH_SIZE], const char *directory,
                        const char *name)
{
    int length = snprintf(buffer, SBX_FIXTURE_PATH_SIZE, "%s/%s", directory, name);
    ck_assert_int_lt(length, SBX_FIXTURE_PATH_SIZE);
    return buffer;
}

const char *sbx_fixture_path(char buffer[static SBX_FIXTURE_PATH_SIZE], const char *name)
{
    return join(buffer, current.directory, name);
}

void sbx_fixture_wait_file(const char *path, double seconds)
{
    double deadline = now() + seconds;
    struct stat status;
    while (stat(path, &status) < 0 || status.st_size == 0) {
        ck_assert_msg(now() < deadline, "%s is absent or empty after %.1f s", path,
                      seconds);
        nap(0.002);
    }
}

const char *sbx_fixture_watch(void)
{
    return SBX_TEST_WATCH;
}

const char *sbx_fixture_helper(char buffer[static SBX_FIXTURE_PATH_SIZE],
                               const char *name)
{
    return join(buffer, SBX_TEST_HELPERS, name);
}

void sbx_fixture_collect(const char *report)
{
    const char *path = getenv("SBX_TEST_REPORTS");
    if (path == NULL || path[0] == '\0') {
        return;
    }
    /* One write: tests run in parallel. */
    SBX_AUTO_CLOSE int fd =
        open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644);
    ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
    ck_assert_int_eq(write(fd, report, strlen(report)), (ssize_t)strlen(report));
}
