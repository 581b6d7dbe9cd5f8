/*
 * library_kit.c - see library_kit.h. Sends no signal.
 */
#include "tests/library_kit.h"

#include "base/clock.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#define WORDS_SIZE 1024

static void nap(void)
{
    const struct timespec pause = {.tv_nsec = 2000000};
    (void)nanosleep(&pause, NULL);
}

static uint64_t after(double seconds)
{
    return sbx_clock_us() + (uint64_t)(seconds * 1e6);
}

void library_use_built_monitor(const char *path)
{
    (void)setenv("SBX_MONITOR", path, 1);
}

bool library_is_proved(const char *report)
{
    return strstr(report, "\"proof\":\"no-children\"") != NULL ||
           strstr(report, "\"proof\":\"group-empty\"") != NULL ||
           strstr(report, "\"proof\":\"namespace-gone\"") != NULL;
}

static void set_word(struct sbx_spec *spec, char *word)
{
    struct sbx_error error = {0};
    char *value = strchr(word, '=');
    if (value != NULL) {
        *value++ = '\0';
    }
    LIBRARY_WANT(sbx_spec_set(spec, word, value, &error) == 0, "%s", error.message);
}

struct sbx_spec *library_spec(const char *options, const char *const *command)
{
    char words[WORDS_SIZE];
    char *rest = NULL;
    struct sbx_error error = {0};
    struct sbx_spec *spec = sbx_spec_new();
    LIBRARY_WANT(spec != NULL, "no memory");
    (void)snprintf(words, sizeof words, "%s", options);
    for (char *word = strtok_r(words, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        set_word(spec, word);
    }
    LIBRARY_WANT(command == NULL || sbx_spec_set_command(spec, command, &error) == 0,
                 "%s", error.message);
    return spec;
}

struct sbx_spec *library_script(const char *options, const char *script)
{
    const char *const command[] = {"sh", "-c", script, NULL};
    return library_spec(options, command);
}

struct sbx_run *library_start(struct sbx_spec *spec)
{
    struct sbx_error error = {0};
    struct sbx_run *run = NULL;
    LIBRARY_WANT(sbx_run_start(spec, &run, &error) == 0, "%s", error.message);
    sbx_spec_free(spec);
    return run;
}

pid_t library_fork(int (*body)(void *context), void *context)
{
    pid_t pid = fork();
    ck_assert_msg(pid >= 0, "fork: %s", strerror(errno));
    if (pid == 0) {
        _exit(body(context));
    }
    return pid;
}

void library_expect_success(pid_t pid)
{
    int status = 0;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
                  "the caller has failed: wait status %#x", (unsigned)status);
}

void library_expect_no_child(double seconds)
{
    uint64_t until = after(seconds);
    for (;;) {
        pid_t pid = waitpid(-1, NULL, WNOHANG | __WALL);
        if (pid < 0) {
            ck_assert_int_eq(errno, ECHILD);
            return;
        }
        ck_assert_msg(sbx_clock_us() < until, "processes are left");
        if (pid == 0) {
            nap();
        }
    }
}

size_t library_count_fds(void)
{
    SBX_AUTO_CLOSEDIR DIR *directory = opendir("/proc/self/fd");
    size_t count = 0;
    LIBRARY_WANT(directory != NULL, "/proc/self/fd");
    while (readdir(directory) != NULL) {
        count++;
    }
    return count;
}

bool library_has_no_child(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0 &&
           errno == ECHILD;
}

bool library_file_comes(const char *path, double seconds)
{
    uint64_t until = after(seconds);
    while (library_read_pid(path) < 0) {
        if (sbx_clock_us() >= until) {
            return false;
        }
        nap();
    }
    return true;
}

pid_t library_read_pid(const char *path)
{
    char text[32];
    char *end = text;
    if (sbx_fd_read_text_at(AT_FDCWD, path, text, sizeof text) <= 0) {
        return -1;
    }
    long pid = strtol(text, &end, 10);
    return *end == '\n' ? (pid_t)pid : -1;
}
