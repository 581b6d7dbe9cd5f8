/*
 * service_kit.c - see service_kit.h. Never signals what is not the test's own descendant.
 */
#include "tests/service_kit.h"

#include "base/fd.h"
#include "tests/ask_kit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UP_SECONDS 20.0
#define END_SECONDS 30.0
#define FAMILY_MAX 8192
#define SAID_SIZE 8192

double service_now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

void service_nap_ms(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&time, NULL);
}

/* --- the daemon --------------------------------------------------------------------- */

static void place_path(char buffer[static SBX_FIXTURE_PATH_SIZE], const char *directory,
                       const char *name)
{
    int length = snprintf(buffer, SBX_FIXTURE_PATH_SIZE, "%s/%s", directory, name);
    ck_assert_int_lt(length, SBX_FIXTURE_PATH_SIZE);
}

static void name_paths(struct service *service)
{
    static int number;
    char name[32];
    if (service->directory[0] == '\0') {
        (void)snprintf(name, sizeof(name), "sbxd.%d", ++number);
        (void)sbx_fixture_path(service->directory, name);
        ck_assert_int_eq(mkdir(service->directory, 0755), 0);
        if (service->uid != 0) {
            ck_assert_int_eq(chown(service->directory, service->uid, service->uid), 0);
        }
    }
    if (service->state[0] == '\0') {
        place_path(service->state, service->directory, "state");
    }
    if (service->socket[0] == '\0') {
        place_path(service->socket, service->directory, "socket");
    }
}

/* What a sanitizer has to say goes to a file: the streams of most of the processes lead
 * to where nobody looks. */
static void set_sanitizers(const struct service *service)
{
#if defined(__SANITIZE_ADDRESS__)
    char options[SBX_FIXTURE_PATH_SIZE + 64];
    (void)snprintf(options, sizeof(options), "log_path=%s/sanitizer", service->directory);
    (void)setenv("ASAN_OPTIONS", options, 1);
    (void)snprintf(options, sizeof(options), "print_stacktrace=1:log_path=%s/sanitizer",
                   service->directory);
    (void)setenv("UBSAN_OPTIONS", options, 1);
#else
    (void)service;
#endif
}

static _Noreturn void become(const struct service *service)
{
    char options[1024];
    char path[SBX_FIXTURE_PATH_SIZE];
    char *argv[SERVICE_WORDS_MAX + 6];
    size_t count = 0;
    char *rest = NULL;
    (void)snprintf(options, sizeof(options), "%s",
                   service->options != NULL ? service->options : "");
    argv[count++] = strdup(SBX_TEST_SBXD);
    argv[count++] = strdup("--socket");
    argv[count++] = strdup(service->socket);
    argv[count++] = strdup("--state");
    argv[count++] = strdup(service->state);
    for (char *word = strtok_r(options, " ", &rest);
         word != NULL && count < SERVICE_WORDS_MAX; word = strtok_r(NULL, " ", &rest)) {
        argv[count++] = word;
    }
    argv[count] = NULL;
    place_path(path, service->directory, "said");
    int said = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (said < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(said, 2) < 0 ||
        setenv("SBX_KEEPER", SBX_TEST_KEEPER, 1) != 0 ||
        setenv("SBX_RUN", SBX_TEST_RUN, 1) != 0 ||
        setenv("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", 1) != 0) {
        _exit(121);
    }
    set_sanitizers(service);
    if (service->uid != 0 && (setgroups(0, NULL) < 0 ||
                              setresgid(service->uid, service->uid, service->uid) < 0 ||
                              setresuid(service->uid, service->uid, service->uid) < 0)) {
        _exit(121);
    }
    (void)execv(argv[0], argv);
    _exit(122);
}

void service_spawn(struct service *service)
{
    name_paths(service);
    ck_assert_int_eq(service->pid, 0);
    service->pid = fork();
    ck_assert_int_ge(service->pid, 0);
    if (service->pid == 0) {
        become(service);
    }
}

const char *service_said(const struct service *service)
{
    static char text[SAID_SIZE];
    char path[SBX_FIXTURE_PATH_SIZE];
    place_path(path, service->directory, "said");
    ssize_t length = sbx_fd_read_text_at(AT_FDCWD, path, text, sizeof(text));
    text[length > 0 ? length : 0] = '\0';
    return text;
}

void service_start(struct service *service)
{
    service_spawn(service);
    sbx_client_free(service->client);
    service->client = sbx_client_new(service->socket);
    ck_assert_ptr_nonnull(service->client);
    double end = service_now() + UP_SECONDS;
    const struct sbx_call call = {
        .method = "GET", .path = "/v1/stats", .timeout_us = 10000000};
    for (;;) {
        struct sbx_reply *reply = NULL;
        int r = sbx_client_call(service->client, &call, &reply, NULL);
        int status = r == 0 ? sbx_reply_status(reply) : 0;
        sbx_reply_free(reply);
        if (status == 200) {
            return;
        }
        siginfo_t info = {0};
        (void)waitid(P_PID, (id_t)service->pid, &info, WEXITED | WNOHANG | WNOWAIT);
        ck_assert_msg(info.si_pid == 0, "sbxd has ended (%d): %s", info.si_status,
                      service_said(service));
        ck_assert_msg(service_now() < end, "sbxd does not serve (%d, status %d): %s", r,
                      status, service_said(service));
        service_nap_ms(2);
    }
}

int service_wait(struct service *service, double seconds)
{
    int status = 0;
    double end = service_now() + seconds;
    while (waitpid(service->pid, &status, WNOHANG) == 0) {
        ck_assert_msg(service_now() < end, "sbxd is there after %.1f s: %s", seconds,
                      service_said(service));
        service_nap_ms(1);
    }
    service->pid = 0;
    sbx_client_free(service->client);
    service->client = NULL;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void service_kill(struct service *service)
{
    ck_assert_int_gt(service->pid, 0);
    ck_assert_int_eq(kill(service->pid, SIGKILL), 0);
    ck_assert_int_eq(service_wait(service, END_SECONDS), 128 + SIGKILL);
}

void service_stop(struct service *service)
{
    ck_assert_int_gt(service->pid, 0);
    ck_assert_int_eq(kill(service->pid, SIGTERM), 0);
    int status = service_wait(service, END_SECONDS);
    ck_assert_msg(status == 0, "sbxd has ended with %d: %s", status,
                  service_said(service));
}

static void look_for_complaints(const struct service *service)
{
    char path[2 * SBX_FIXTURE_PATH_SIZE];
    char text[SAID_SIZE];
    SBX_AUTO_CLOSEDIR DIR *directory = opendir(service->directory);
    ck_assert_ptr_nonnull(directory);
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        if (strncmp(entry->d_name, "sanitizer", 9) != 0) {
            continue;
        }
        (void)snprintf(path, sizeof(path), "%s/%s", service->directory, entry->d_name);
        SBX_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t length = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
        text[length > 0 ? length : 0] = '\0';
        ck_abort_msg("%s: %s", entry->d_name, text);
    }
}

void service_done(struct service *service)
{
    if (service->pid > 0) {
        ask_expect(ask_post(service, "/v1/shutdown", "{'cancel': true}"), 202);
        int status = service_wait(service, END_SECONDS);
        ck_assert_msg(status == 0, "sbxd has ended with %d: %s", status,
                      service_said(service));
    }
    service_wait_alone(service, END_SECONDS);
    sbx_client_free(service->client);
    service->client = NULL;
    ask_forget();
    look_for_complaints(service);
}

/* --- who is there ------------------------------------------------------------------- */

struct family {
    pid_t pids[FAMILY_MAX];
    size_t count;
};

static void add_children(struct family *family, pid_t parent)
{
    static char list[128 * 1024];
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent,
                   (int)parent);
    SBX_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    ssize_t got;
    while (fd >= 0 && length < sizeof(list) - 1 &&
           (got = read(fd, list + length, sizeof(list) - 1 - length)) > 0) {
        length += (size_t)got;
    }
    list[length] = '\0';
    char *at = list;
    for (char *blank; (blank = strchr(at, ' ')) != NULL; at = blank + 1) {
        pid_t pid = (pid_t)strtol(at, NULL, 10);
        if (pid > 1 && family->count < FAMILY_MAX) {
            family->pids[family->count++] = pid;
        }
    }
}

/* All below `root`, level by level, without itself. */
static void find_family(struct family *family, pid_t root)
{
    family->count = 0;
    add_children(family, root);
    for (size_t i = 0; i < family->count; i++) {
        add_children(family, family->pids[i]);
    }
}

void service_reap(const struct service *service)
{
    siginfo_t info = {0};
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 &&
           info.si_pid != 0 && info.si_pid != service->pid) {
        (void)waitpid(info.si_pid, NULL, WNOHANG | __WALL);
        info.si_pid = 0;
    }
}

size_t service_others(const struct service *service)
{
    static struct family family;
    service_reap(service);
    find_family(&family, getpid());
    size_t count = 0;
    for (size_t i = 0; i < family.count; i++) {
        count += family.pids[i] != service->pid ? 1 : 0;
    }
    return count;
}

static void name_others(const struct service *service, char *text, size_t size)
{
    static struct family family;
    size_t length = 0;
    find_family(&family, getpid());
    for (size_t i = 0; i < family.count && length + 64 < size; i++) {
        char path[64];
        char words[48] = "";
        if (family.pids[i] == service->pid) {
            continue;
        }
        (void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)family.pids[i]);
        SBX_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t got = fd >= 0 ? read(fd, words, sizeof(words) - 1) : 0;
        words[got > 0 ? got - 1 : 0] = '\0';
        length += (size_t)snprintf(text + length, size - length, " %d (%s)",
                                   (int)family.pids[i], words);
    }
}

void service_wait_alone(const struct service *service, double seconds)
{
    double end = service_now() + seconds;
    while (service_others(service) > 0) {
        if (service_now() > end) {
            char text[1024] = "";
            name_others(service, text, sizeof(text));
            ck_abort_msg("left after %.1f s:%s", seconds, text);
        }
        service_nap_ms(2);
    }
}

/* --- an execution's place and processes ----------------------------------------------
 */

static const char *place_of(const struct service *service, const char *id,
                            char path[static 2 * SBX_FIXTURE_PATH_SIZE])
{
    (void)snprintf(path, 2 * SBX_FIXTURE_PATH_SIZE, "%s/executions/%s", service->state,
                   id);
    return path;
}

bool service_place_exists(const struct service *service, const char *id)
{
    char path[2 * SBX_FIXTURE_PATH_SIZE];
    struct stat status;
    return lstat(place_of(service, id, path), &status) == 0;
}

static uint64_t counted_blocks;

static int count_one(const char *path, const struct stat *status, int type,
                     struct FTW *walk)
{
    (void)path;
    (void)type;
    (void)walk;
    counted_blocks += (uint64_t)status->st_blocks;
    return 0;
}

uint64_t service_place_bytes(const struct service *service, const char *id)
{
    char path[2 * SBX_FIXTURE_PATH_SIZE];
    counted_blocks = 0;
    ck_assert_int_eq(nftw(place_of(service, id, path), count_one, 8, FTW_PHYS), 0);
    return counted_blocks * 512;
}

/* Whether the process has that very file open. */
static bool has_open(pid_t pid, dev_t device, ino_t inode)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    SBX_AUTO_CLOSEDIR DIR *directory = opendir(path);
    const struct dirent *entry;
    struct stat status;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        if (fstatat(dirfd(directory), entry->d_name, &status, 0) == 0 &&
            status.st_dev == device && status.st_ino == inode) {
            return true;
        }
    }
    return false;
}

size_t service_processes(const struct service *service, const char *id, pid_t *ret_pids,
                         size_t max)
{
    static struct family family;
    char path[2 * SBX_FIXTURE_PATH_SIZE];
    struct stat status;
    size_t count = 0;
    (void)place_of(service, id, path);
    strncat(path, "/lock", sizeof(path) - strlen(path) - 1);
    if (lstat(path, &status) < 0) {
        return 0;
    }
    /* Level by level: so the keeper comes first, then its guard, then the others. */
    find_family(&family, getpid());
    for (size_t i = 0; i < family.count && count < max; i++) {
        if (family.pids[i] != service->pid &&
            has_open(family.pids[i], status.st_dev, status.st_ino)) {
            ret_pids[count++] = family.pids[i];
        }
    }
    return count;
}

/* --- what a process uses --------------------------------------------------------------
 */

size_t service_descriptors(pid_t pid)
{
    char path[64];
    size_t count = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    SBX_AUTO_CLOSEDIR DIR *directory = opendir(path);
    const struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        count += entry->d_name[0] != '.' ? 1 : 0;
    }
    return count;
}

static uint64_t rollup_value(const char *text, const char *name)
{
    const char *found = strstr(text, name);
    return found != NULL ? strtoull(found + strlen(name), NULL, 10) : 0;
}

struct service_memory service_memory(pid_t pid)
{
    char path[64];
    char text[4096];
    (void)snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
    ssize_t length = sbx_fd_read_text_at(AT_FDCWD, path, text, sizeof(text));
    text[length > 0 ? length : 0] = '\0';
    return (struct service_memory){.pss_kib = rollup_value(text, "\nPss:"),
                                   .rss_kib = rollup_value(text, "\nRss:"),
                                   .dirty_kib = rollup_value(text, "\nPrivate_Dirty:")};
}
