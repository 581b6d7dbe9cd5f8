/*
 * runner.c - see runner.h. Everything lies in one directory that an ordinary user can
 * enter, since the build may lie where that user cannot go.
 */
#include "bench/runner.h"

#include "base/clock.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534

void sbx_bench_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fputs("bench: ", stderr);
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

/* --- the directory
 * ----------------------------------------------------------------------- */

static void copy(const char *from_path, const char *to_path)
{
    struct stat status;
    SBX_AUTO_CLOSE int from = open(from_path, O_RDONLY | O_CLOEXEC);
    SBX_AUTO_CLOSE int to = open(to_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    if (from < 0 || to < 0 || fstat(from, &status) < 0 || fchmod(to, 0755) < 0) {
        sbx_bench_fail("cannot copy %s: %s", from_path, strerror(errno));
    }
    for (off_t done = 0; done < status.st_size;) {
        if (sendfile(to, from, &done, (size_t)(status.st_size - done)) <= 0) {
            sbx_bench_fail("cannot copy %s: %s", from_path, strerror(errno));
        }
    }
}

static void copy_helpers(const struct sbx_bench *bench)
{
    static const char *const names[] = {"crowd", "measure_nothing", "setsid_bomb",
                                        "touch"};
    char from[SBX_BENCH_PATH];
    char to[SBX_BENCH_PATH];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(from, sizeof(from), "%s/%s", SBX_BENCH_HELPERS, names[i]);
        (void)snprintf(to, sizeof(to), "%s/%s", bench->directory, names[i]);
        copy(from, to);
    }
}

void sbx_bench_init(struct sbx_bench *bench, bool quick)
{
    bench->quick = quick;
    (void)snprintf(bench->directory, sizeof(bench->directory), "/tmp/sbx-bench.XXXXXX");
    if (mkdtemp(bench->directory) == NULL ||
        chmod(bench->directory, geteuid() == 0 ? 0777 : 0755) < 0) {
        sbx_bench_fail("no directory: %s", strerror(errno));
    }
    (void)snprintf(bench->watch, sizeof(bench->watch), "%s/sbx-watch", bench->directory);
    copy(SBX_BENCH_WATCH, bench->watch);
    /* Beside each other, as in a build. */
    char inner[SBX_BENCH_PATH];
    (void)snprintf(bench->run, sizeof(bench->run), "%s/sbx-run", bench->directory);
    (void)snprintf(inner, sizeof(inner), "%s/sbx-inner", bench->directory);
    copy(SBX_BENCH_RUN, bench->run);
    copy(SBX_BENCH_INNER, inner);
    copy_helpers(bench);
}

void sbx_bench_done(const struct sbx_bench *bench)
{
    SBX_AUTO_CLOSEDIR DIR *directory = opendir(bench->directory);
    const struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        if (entry->d_type == DT_REG) {
            (void)unlinkat(dirfd(directory), entry->d_name, 0);
        }
    }
    (void)rmdir(bench->directory);
}

/* --- one run
 * ------------------------------------------------------------------------------- */

static void resolve(const struct sbx_bench *bench, const char *word,
                    char path[static SBX_BENCH_PATH])
{
    if (word[0] == '@') {
        (void)snprintf(path, SBX_BENCH_PATH, "%s/%s", bench->directory, word + 1);
    } else if (strcmp(word, "%W") == 0) {
        (void)snprintf(path, SBX_BENCH_PATH, "%s", bench->watch);
    } else if (strcmp(word, "%S") == 0) {
        (void)snprintf(path, SBX_BENCH_PATH, "%s", bench->run);
    } else if (strcmp(word, "%R") == 0) {
        (void)snprintf(path, SBX_BENCH_PATH, "%s/report", bench->directory);
    } else {
        (void)snprintf(path, SBX_BENCH_PATH, "%s", word);
    }
}

static _Noreturn void become(const struct sbx_bench_run *run, char *const *argv,
                             int output)
{
    if (run->net != NULL) {
        sbx_net_enter(run->net);
    }
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (dup2(nowhere, 0) == 0 && dup2(output, 1) == 1 && dup2(nowhere, 2) == 2 &&
        (!run->as_nobody ||
         (setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
          setresuid(NOBODY, NOBODY, NOBODY) == 0))) {
        (void)execvp(argv[0], argv);
    }
    _exit(96);
}

void sbx_bench_start(const struct sbx_bench *bench, struct sbx_bench_run *run)
{
    static char storage[SBX_BENCH_WORDS][SBX_BENCH_PATH];
    char *argv[SBX_BENCH_WORDS + 1] = {NULL};
    char report[SBX_BENCH_PATH];
    int ends[2];
    resolve(bench, "%R", report);
    (void)unlink(report);
    for (size_t i = 0; i < SBX_BENCH_WORDS && run->words[i] != NULL; i++) {
        resolve(bench, run->words[i], storage[i]);
        argv[i] = storage[i];
    }
    if (pipe2(ends, O_CLOEXEC) < 0) {
        sbx_bench_fail("pipe: %s", strerror(errno));
    }
    run->started_us = sbx_clock_us();
    run->pid = fork();
    if (run->pid < 0) {
        sbx_bench_fail("fork: %s", strerror(errno));
    }
    if (run->pid == 0) {
        become(run, argv, ends[1]);
    }
    (void)close(ends[1]);
    run->output = ends[0];
}

void sbx_bench_wait_up(struct sbx_bench_run *run)
{
    char first;
    if (read(run->output, &first, 1) != 1) {
        sbx_bench_fail("%s has not come up", run->words[0]);
    }
}

void sbx_bench_finish(const struct sbx_bench *bench, struct sbx_bench_run *run)
{
    int status = 0;
    if (waitpid(run->pid, &status, 0) != run->pid) {
        sbx_bench_fail("waitpid: %s", strerror(errno));
    }
    run->elapsed_us = sbx_clock_us() - run->started_us;
    run->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    sbx_fd_drop(&run->output);
    char path[SBX_BENCH_PATH];
    resolve(bench, "%R", path);
    if (sbx_fd_read_text_at(AT_FDCWD, path, run->report, sizeof(run->report)) < 0) {
        run->report[0] = '\0';
    }
}

void sbx_bench_run(const struct sbx_bench *bench, struct sbx_bench_run *run)
{
    sbx_bench_start(bench, run);
    sbx_bench_finish(bench, run);
}

/* --- numbers
 * -------------------------------------------------------------------------------- */

uint64_t sbx_bench_number(const struct sbx_bench_run *run, const char *key)
{
    char pattern[64];
    (void)snprintf(pattern, sizeof(pattern), "\"%s\":", key);
    const char *found = strstr(run->report, pattern);
    return found != NULL ? strtoull(found + strlen(pattern), NULL, 10) : 0;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;
    return (left > right) - (left < right);
}

double sbx_bench_quantile(double *values, size_t count, double part)
{
    qsort(values, count, sizeof(*values), compare);
    size_t index = (size_t)((double)count * part);
    return values[index < count ? index : count - 1];
}
