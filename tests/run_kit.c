/*
 * run_kit.c - plays scenes: one child for each, which becomes sh and then sbx-run.
 *
 * Relies on the fixture for clean-up: what a failing test leaves behind is ended there.
 * Never signals what is not the test's own child.
 */
#include "tests/run_kit.h"

#include "base/clock.h"
#include "base/fd.h"
#include "tests/run_check.h"
#include "tests/run_listing.h"
#include "tests/run_stage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define USER_ID 65534
/* A setuid bubblewrap maps the overflow id as well, and so cannot serve that one. */
#define SETUID_USER_ID 65533
#define SIDE_BY_SIDE 5
#define SCENE_SECONDS 30
#define HARNESS_STATUS 121
#define MET_STATUS 0
#define SEARCH_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static double seconds_now(void)
{
    return (double)sbx_clock_us() / 1e6;
}

static void nap_ms(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&time, NULL);
}

const char *sbx_play_path(const struct sbx_play *play,
                          char buffer[static SBX_FIXTURE_PATH_SIZE], const char *name)
{
    int length = snprintf(buffer, SBX_FIXTURE_PATH_SIZE, "%s/%s", play->directory, name);
    ck_assert_int_lt(length, SBX_FIXTURE_PATH_SIZE);
    return buffer;
}

/* --- the programs, where every identity can go -------------------------------------- */

static void copy_program(const char *from_path, const char *to_path, mode_t mode)
{
    struct stat status;
    SBX_AUTO_CLOSE int from = open(from_path, O_RDONLY | O_CLOEXEC);
    SBX_AUTO_CLOSE int to = open(to_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    if (to < 0 && errno == EEXIST) {
        return;
    }
    ck_assert_msg(from >= 0 && to >= 0 && fstat(from, &status) == 0,
                  "cannot copy %s to %s: %s", from_path, to_path, strerror(errno));
    for (off_t done = 0; done < status.st_size;) {
        ssize_t sent = sendfile(to, from, &done, (size_t)(status.st_size - done));
        ck_assert_msg(sent > 0, "cannot copy %s: %s", from_path, strerror(errno));
    }
    ck_assert_int_eq(fchmod(to, mode), 0);
}

const char *sbx_kit_helper(char buffer[static SBX_FIXTURE_PATH_SIZE], const char *name)
{
    char built[SBX_FIXTURE_PATH_SIZE];
    char below[64];
    (void)snprintf(below, sizeof(below), "h/%s", name);
    (void)sbx_fixture_path(buffer, below);
    copy_program(sbx_fixture_helper(built, name), buffer, 0755);
    return buffer;
}

static void copy_programs(void)
{
    static const char *const helpers[] = {"confined", "crowd", "spin", "touch", "trap"};
    static const char *const built[] = {SBX_TEST_RUN, SBX_TEST_WATCH, SBX_TEST_INNER};
    char path[SBX_FIXTURE_PATH_SIZE];
    if (mkdir(sbx_fixture_path(path, "h"), 0755) < 0) {
        ck_assert_int_eq(errno, EEXIST);
        return;
    }
    for (size_t i = 0; i < sizeof(helpers) / sizeof(helpers[0]); i++) {
        (void)sbx_kit_helper(path, helpers[i]);
    }
    for (size_t i = 0; i < sizeof(built) / sizeof(built[0]); i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "h%s", strrchr(built[i], '/'));
        copy_program(built[i], sbx_fixture_path(path, name), 0755);
    }
    char plain[SBX_FIXTURE_PATH_SIZE];
    copy_program(sbx_kit_helper(plain, "confined"), sbx_fixture_path(path, "h/setuid"),
                 geteuid() == 0 ? 04755 : 0755);
}

/* Where bubblewrap is installed, NULL: it is not. */
static const char *installed_bwrap(void)
{
    static const char *const places[] = {"/usr/bin/bwrap", "/bin/bwrap",
                                         "/usr/local/bin/bwrap"};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (access(places[i], X_OK) == 0) {
            return places[i];
        }
    }
    return NULL;
}

static const char *bwrap_of(enum sbx_identity identity,
                            char buffer[static SBX_FIXTURE_PATH_SIZE])
{
    const char *bwrap = installed_bwrap();
    ck_assert_ptr_nonnull(bwrap);
    if (identity != SBX_AS_SETUID) {
        (void)snprintf(buffer, SBX_FIXTURE_PATH_SIZE, "%s", bwrap);
        return buffer;
    }
    (void)sbx_fixture_path(buffer, "bwrap-setuid");
    copy_program(bwrap, buffer, 04755);
    return buffer;
}

static const char *why_not(enum sbx_identity identity)
{
    struct statvfs place;
    if (installed_bwrap() == NULL) {
        return "bubblewrap is not installed";
    }
    if (identity == SBX_AS_ROOT && geteuid() != 0) {
        return "we are not root";
    }
    if (identity != SBX_AS_SETUID) {
        return NULL;
    }
    if (geteuid() != 0) {
        return "only root can make a setuid bubblewrap";
    }
    if (statvfs(sbx_fixture_dir(), &place) == 0 && (place.f_flag & ST_NOSUID) != 0) {
        return "the tests' directory is mounted nosuid";
    }
    return prctl(PR_GET_NO_NEW_PRIVS, 0UL, 0UL, 0UL, 0UL) == 1
               ? "we have no_new_privs, so nothing is setuid"
               : NULL;
}

bool sbx_kit_identity(enum sbx_identity identity)
{
    static const char *const names[] = {"root", "an ordinary user", "setuid bubblewrap"};
    const char *reason = why_not(identity);
    if (reason != NULL) {
        (void)fprintf(stderr, "not tested with %s: %s\n", names[identity], reason);
    }
    return reason == NULL;
}

static bool drops(enum sbx_identity identity)
{
    return geteuid() == 0 && identity != SBX_AS_ROOT;
}

static uid_t id_of(enum sbx_identity identity)
{
    return identity == SBX_AS_SETUID ? SETUID_USER_ID : USER_ID;
}

/* In a child. */
static int become_identity(enum sbx_identity identity)
{
    uid_t id = id_of(identity);
    return !drops(identity) || (setgroups(0, NULL) == 0 && setresgid(id, id, id) == 0 &&
                                setresuid(id, id, id) == 0)
               ? 0
               : -1;
}

pid_t sbx_kit_fork_as(enum sbx_identity identity)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0 && become_identity(identity) < 0) {
        _exit(HARNESS_STATUS);
    }
    return pid;
}

/* --- one scene ---------------------------------------------------------------------- */

/* For all scripts: the environment is the test's own, which plays one after the other. */
static void set_environment(const struct sbx_play *play)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char *inside = sbx_play_expanded(
        play, play->scene->inside != NULL ? play->scene->inside : "echo ran");
    const char *const pairs[][2] = {
        {"D", play->directory}, {"PATH", SEARCH_PATH}, {"MARK", play->mark},
        {"ME", play->user},     {"INSIDE", inside},
    };
    const char *const paths[][2] = {{"H", "h"},
                                    {"RUN", "h/sbx-run"},
                                    {"WATCH", "h/sbx-watch"},
                                    {"SBX_INNER", "h/sbx-inner"}};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        (void)setenv(pairs[i][0], pairs[i][1], 1);
    }
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        (void)setenv(paths[i][0], sbx_fixture_path(path, paths[i][1]), 1);
    }
    (void)setenv("W", sbx_play_path(play, path, "work"), 1);
    (void)setenv("R", sbx_play_path(play, path, "report"), 1);
    (void)setenv("BW", bwrap_of(play->identity, path), 1);
    free(inside);
}

/* In a child: descriptor `which` becomes what was asked for. 0 or -1. */
static int place_stream(const struct sbx_play *play, int which)
{
    char path[SBX_FIXTURE_PATH_SIZE] = "/dev/null";
    if (play->stdio[which] > 2) {
        return dup2(play->stdio[which], which) == which ? 0 : -1;
    }
    if (which > 0) {
        (void)sbx_play_path(play, path, which == 1 ? "out" : "err");
    }
    int fd = open(path, which == 0 ? O_RDONLY : O_WRONLY | O_CREAT | O_APPEND, 0644);
    uid_t id = id_of(play->identity);
    if (fd > 0 && which > 0 && drops(play->identity) && fchown(fd, id, id) < 0) {
        return -1;
    }
    return fd >= 0 && (fd == which || (dup2(fd, which) == which && close(fd) == 0)) ? 0
                                                                                    : -1;
}

static _Noreturn void become_script(const struct sbx_play *play, const char *script)
{
    char work[SBX_FIXTURE_PATH_SIZE];
    (void)sbx_play_path(play, work, "work");
    if (place_stream(play, 2) < 0 || place_stream(play, 1) < 0 ||
        place_stream(play, 0) < 0) {
        _exit(HARNESS_STATUS);
    }
    if (play->on_terminal && (setsid() < 0 || ioctl(0, TIOCSCTTY, 0) < 0)) {
        _exit(HARNESS_STATUS);
    }
    char stage[SBX_FIXTURE_PATH_SIZE];
    if (play->scene->stage != NULL &&
        sbx_stage_enter(sbx_play_path(play, stage, "stage"), sbx_fixture_dir(),
                        play->scene->stage) < 0) {
        _exit(HARNESS_STATUS);
    }
    if (become_identity(play->identity) < 0 || chdir(work) < 0) {
        _exit(HARNESS_STATUS);
    }
    (void)execl("/bin/sh", "sh", "-c", script, NULL);
    _exit(HARNESS_STATUS);
}

/* Runs a short script of the scene to its end, without stage. Its exit status. */
static int run_script(const struct sbx_play *play, const char *script)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        char work[SBX_FIXTURE_PATH_SIZE];
        if (become_identity(play->identity) < 0 ||
            chdir(sbx_play_path(play, work, "work")) < 0 ||
            dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), 1) < 0) {
            _exit(HARNESS_STATUS);
        }
        (void)execl("/bin/sh", "sh", "-euc", script, NULL);
        _exit(HARNESS_STATUS);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : HARNESS_STATUS;
}

static void make_directories(struct sbx_play *play)
{
    static int number;
    static const char *const names[] = {"", "work", "stage"};
    char name[32];
    (void)snprintf(name, sizeof(name), "s%d", ++number);
    (void)sbx_fixture_path(play->directory, name);
    (void)snprintf(play->mark, sizeof(play->mark), "mark.%d.%d.%llx", (int)getpid(),
                   number, (unsigned long long)sbx_clock_us());
    (void)snprintf(play->user, sizeof(play->user), "%u",
                   drops(play->identity) ? id_of(play->identity) : getuid());
    for (size_t i = 0; i < (play->scene->stage != NULL ? 3 : 2); i++) {
        char path[SBX_FIXTURE_PATH_SIZE];
        (void)sbx_play_path(play, path, names[i]);
        ck_assert_int_eq(mkdir(path, 0755), 0);
        if (drops(play->identity)) {
            ck_assert_int_eq(chown(path, id_of(play->identity), id_of(play->identity)),
                             0);
        }
    }
}

/* Scenes that want a root of their own, where we may not make one. */
static unsigned unstaged;

static bool is_skipped(const struct sbx_play *play)
{
    const struct sbx_scene *scene = play->scene;
    if (scene->stage != NULL && !sbx_stage_possible()) {
        unstaged++;
        return true;
    }
    if (scene->needs != NULL && run_script(play, scene->needs) != MET_STATUS) {
        (void)fprintf(stderr, "not tested: %s: %s\n", scene->name, scene->needs);
        return true;
    }
    return false;
}

static void compose(const struct sbx_scene *scene, char *script, size_t size)
{
    int length = snprintf(
        script, size, "IFS=; set -f; %s exec %s \"$RUN\" --bwrap \"$BW\" %s -- %s",
        scene->setting != NULL ? scene->setting : "",
        scene->launcher != NULL ? scene->launcher : "",
        scene->options != NULL ? scene->options : "",
        scene->command != NULL ? scene->command : "sh -c \"$INSIDE\" \"$MARK\"");
    ck_assert_int_lt(length, (int)size);
}

bool sbx_play_start(struct sbx_play *play)
{
    char script[8192];
    copy_programs();
    make_directories(play);
    set_environment(play);
    play->out = NULL;
    play->err = NULL;
    play->complaint = NULL;
    if (is_skipped(play)) {
        return false;
    }
    const struct sbx_scene *scene = play->scene;
    if (scene->before != NULL) {
        int status = run_script(play, scene->before);
        ck_assert_msg(status == 0, "%s: its preparation has ended with %d", scene->name,
                      status);
    }
    compose(scene, script, sizeof(script));
    play->listing = sbx_listing_take(play->directory, SBX_PLAY_OWN_NAMES);
    play->deadline = seconds_now() + SCENE_SECONDS;
    play->pid = fork();
    ck_assert_int_ge(play->pid, 0);
    if (play->pid == 0) {
        become_script(play, script);
    }
    play->pidfd = (int)syscall(SYS_pidfd_open, play->pid, 0);
    ck_assert_msg(play->pidfd >= 0, "pidfd_open: %s", strerror(errno));
    return true;
}

/* --- its end ------------------------------------------------------------------------ */

void sbx_play_wait_output(const struct sbx_play *play, const char *text, double seconds)
{
    double end = seconds_now() + seconds;
    for (;;) {
        char *out = sbx_play_read(play, "out");
        bool found = strstr(out, text) != NULL;
        free(out);
        if (found) {
            return;
        }
        if (seconds_now() > end) {
            char *err = sbx_play_read(play, "err");
            ck_abort_msg("%s: no %s in the output after %.1f s; stderr: %s",
                         play->scene->name, text, seconds, err);
        }
        nap_ms(2);
    }
}

/* When the process has ended, or its time. */
static void conclude(struct sbx_play *play)
{
    pid_t left = 0;
    if (waitpid(play->pid, &play->wait_status, WNOHANG) == 0) {
        sbx_play_complain(play, "it has not ended after %d s", SCENE_SECONDS);
        (void)kill(play->pid, SIGKILL);
        (void)waitpid(play->pid, &play->wait_status, 0);
    } else {
        left = sbx_kit_marked(play->mark);
    }
    (void)close(play->pidfd);
    if (left != 0) {
        sbx_play_complain(play, "process %d of it is alive", (int)left);
    }
    sbx_play_check(play);
    set_environment(play);
    if (play->scene->after != NULL && run_script(play, play->scene->after) != 0) {
        sbx_play_complain(play, "what looks at it afterwards has failed");
    }
    if (play->complaint != NULL) {
        sbx_play_complain(play, "stdout: %s", play->out);
        sbx_play_complain(play, "stderr: %s", play->err);
    }
}

void sbx_play_done(struct sbx_play *play)
{
    free(play->out);
    free(play->err);
    free(play->complaint);
}

void sbx_play_finish(struct sbx_play *play)
{
    struct pollfd end = {.fd = play->pidfd, .events = POLLIN};
    double rest = play->deadline - seconds_now();
    (void)poll(&end, 1, rest > 0 ? (int)(rest * 1000) : 0);
    conclude(play);
    ck_assert_msg(play->complaint == NULL, "%s:%s", play->scene->name, play->complaint);
}

/* --- all of them -------------------------------------------------------------------- */

/* What all the plays of a table share. */
struct stand {
    const struct sbx_scene *scenes;
    size_t count;
    size_t next;
    enum sbx_identity identity;
    struct sbx_play plays[SIDE_BY_SIDE];
    bool busy[SIDE_BY_SIDE];
    char *complaints;
};

static bool is_for(const struct sbx_scene *scene, enum sbx_identity identity)
{
    return scene->who == 0 || (scene->who & 1U << identity) != 0;
}

static void fill(struct stand *stand)
{
    for (size_t i = 0; i < SIDE_BY_SIDE; i++) {
        while (!stand->busy[i] && stand->next < stand->count) {
            const struct sbx_scene *scene = &stand->scenes[stand->next++];
            stand->plays[i] =
                (struct sbx_play){.scene = scene, .identity = stand->identity};
            stand->busy[i] =
                is_for(scene, stand->identity) && sbx_play_start(&stand->plays[i]);
        }
    }
}

static void collect(struct stand *stand, struct sbx_play *play)
{
    conclude(play);
    if (play->complaint != NULL) {
        char *all = NULL;
        ck_assert_int_ge(asprintf(&all, "%s\n  %s:%s",
                                  stand->complaints != NULL ? stand->complaints : "",
                                  play->scene->name, play->complaint),
                         0);
        free(stand->complaints);
        stand->complaints = all;
    }
    sbx_play_done(play);
}

/* Waits until one of them has ended or its time is over. False: there is none. */
static bool wait_for_some(struct stand *stand)
{
    struct pollfd ends[SIDE_BY_SIDE];
    bool any = false;
    double now = seconds_now();
    double deadline = now + SCENE_SECONDS;
    for (size_t i = 0; i < SIDE_BY_SIDE; i++) {
        bool busy = stand->busy[i];
        any = any || busy;
        ends[i] =
            (struct pollfd){.fd = busy ? stand->plays[i].pidfd : -1, .events = POLLIN};
        if (busy && stand->plays[i].deadline < deadline) {
            deadline = stand->plays[i].deadline;
        }
    }
    if (any) {
        (void)poll(ends, SIDE_BY_SIDE,
                   deadline > now ? (int)((deadline - now) * 1000) + 1 : 0);
    }
    now = seconds_now();
    for (size_t i = 0; i < SIDE_BY_SIDE; i++) {
        if (stand->busy[i] && (ends[i].revents != 0 || now >= stand->plays[i].deadline)) {
            collect(stand, &stand->plays[i]);
            stand->busy[i] = false;
        }
    }
    return any;
}

/* Who was killed and has not been put away yet is no child that was left. */
static void expect_alone(void)
{
    const struct timespec moment = {.tv_nsec = 10000000};
    double until = seconds_now() + 5;
    pid_t pid = 0;
    while ((pid = waitpid(-1, NULL, WNOHANG)) >= 0 && seconds_now() < until) {
        if (pid == 0) {
            (void)nanosleep(&moment, NULL);
        }
    }
    ck_assert_msg(pid < 0 && errno == ECHILD, "a scene has left children");
}

void sbx_scenes_play(const struct sbx_scene *scenes, size_t count,
                     enum sbx_identity identity)
{
    struct stand stand = {.scenes = scenes, .count = count, .identity = identity};
    do {
        fill(&stand);
    } while (wait_for_some(&stand));
    if (unstaged > 0) {
        (void)fprintf(stderr,
                      "not tested: %u scenes in a root directory of their own, "
                      "which needs root\n",
                      unstaged);
    }
    if (stand.complaints != NULL) {
        /* All of it: Check would cut a message. */
        (void)fprintf(stderr, "scenes that were not as they should be:%s\n",
                      stand.complaints);
        ck_abort_msg("scenes were not as they should be, see above");
    }
    expect_alone();
}

/* --- who is there ------------------------------------------------------------------- */

static bool has_argument(const char *pid, const char *text)
{
    static char arguments[128 * 1024];
    char path[300];
    (void)snprintf(path, sizeof(path), "/proc/%s/cmdline", pid);
    SBX_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, arguments, sizeof(arguments)) : 0;
    return length > 0 && memmem(arguments, (size_t)length, text, strlen(text)) != NULL;
}

pid_t sbx_kit_marked(const char *mark)
{
    SBX_AUTO_CLOSEDIR DIR *proc = opendir("/proc");
    ck_assert_ptr_nonnull(proc);
    const struct dirent *entry;
    while ((entry = readdir(proc)) != NULL) {
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            has_argument(entry->d_name, mark)) {
            return (pid_t)strtol(entry->d_name, NULL, 10);
        }
    }
    return 0;
}

void sbx_kit_wait_unmarked(const char *mark, double seconds)
{
    double end = seconds_now() + seconds;
    pid_t pid;
    while ((pid = sbx_kit_marked(mark)) != 0) {
        ck_assert_msg(seconds_now() < end, "process %d is alive after %.1f s", (int)pid,
                      seconds);
        nap_ms(10);
    }
}

void sbx_kit_reap(double seconds)
{
    double end = seconds_now() + seconds;
    while (waitpid(-1, NULL, WNOHANG | __WALL) >= 0) {
        ck_assert_msg(seconds_now() < end, "children are left after %.1f s", seconds);
        nap_ms(1);
    }
}
