/*
 * test_logs.c - the log of the built sbx-watch: every sink gets every line once, a sink
 * that fails costs the run nothing but a bounded wait at its end and is told in the
 * report, and whoever of the run's processes is killed, its end is told.
 *
 * syslog and journal are sockets of the test in a mount namespace (see log_kit.h).
 */
#include "tests/log_kit.h"

#include "base/clock.h"
#include "base/fd.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define SECOND SBX_US_PER_S
/* What the end may wait for a sink, and as much again for a busy machine. */
#define BOUND_US (4 * SECOND)

static const char *const idle[] = {"sleep", "60", NULL};
static const char *const quick[] = {"true", NULL};

static bool has_library(void)
{
    void *library = dlopen("libsystemd.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        (void)fprintf(stderr, "# SKIP: no libsystemd here\n");
        return false;
    }
    (void)dlclose(library);
    return true;
}

static void expect_warning(const struct sbx_trial *trial, const char *text, bool wanted)
{
    char *dump = json_dumps(sbx_trial_item(trial, "warnings"), 0);
    ck_assert_msg((strstr(dump, text) != NULL) == wanted, "%s: %s in %s",
                  wanted ? "not" : "unexpected", text, dump);
    free(dump);
}

/* The guard's child of that name; waits for it. 0 at once when it is not wanted. */
static pid_t find_child(pid_t guard, const char *name)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", guard, guard);
    for (uint64_t until = sbx_clock_us() + 20 * SECOND; sbx_clock_us() < until;) {
        char text[256] = "";
        char *rest = NULL;
        (void)sbx_fd_read_text_at(AT_FDCWD, path, text, sizeof text);
        for (const char *word = strtok_r(text, " \n", &rest); word != NULL;
             word = strtok_r(NULL, " \n", &rest)) {
            char comm[64] = "";
            char file[64];
            (void)snprintf(file, sizeof file, "/proc/%s/comm", word);
            (void)sbx_fd_read_text_at(AT_FDCWD, file, comm, sizeof comm);
            if (strncmp(comm, name, strlen(name)) == 0) {
                return (pid_t)strtol(word, NULL, 10);
            }
        }
        (void)poll(NULL, 0, 2);
    }
    ck_abort_msg("no %s below %d", name, guard);
    return 0;
}

static void wait_for_line(const struct sbx_trial *trial, const char *name,
                          const char *text)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char content[4096];
    (void)sbx_trial_path(trial, path, name);
    for (uint64_t until = sbx_clock_us() + 20 * SECOND; sbx_clock_us() < until;) {
        ssize_t length = sbx_fd_read_text_at(AT_FDCWD, path, content, sizeof content);
        if (length > 0 && strstr(content, text) != NULL) {
            return;
        }
        (void)poll(NULL, 0, 2);
    }
    ck_abort_msg("no %s in %s", text, name);
}

static void expect_breach_line(const json_t *lines, const struct sbx_trial *trial)
{
    const json_t *line = sbx_kit_only(lines, "breach");
    ck_assert_str_eq(sbx_kit_string(line, "reason"), "wall");
    ck_assert_str_eq(sbx_kit_string(line, "unit"), "us");
    ck_assert_int_eq(sbx_kit_integer(line, "limit"), 300000);
    ck_assert_int_eq(sbx_kit_integer(line, "observed"),
                     sbx_trial_integer(trial, "breach.observed"));
    ck_assert_int_eq(sbx_kit_integer(line, "leader_pid"),
                     sbx_trial_integer(trial, "leader_pid"));
    ck_assert_str_eq(sbx_kit_string(line, "run_id"), sbx_trial_string(trial, "run_id"));
    line = sbx_kit_only(lines, "finished");
    ck_assert_str_eq(sbx_kit_string(line, "outcome"), "breach");
    ck_assert_str_eq(sbx_kit_string(line, "signal"), "SIGTERM");
    ck_assert_int_eq(sbx_kit_integer(line, "wall_us"),
                     sbx_trial_integer(trial, "usage.wall_us"));
    ck_assert_uint_eq(sbx_kit_count(lines, "warning"), 1);
    ck_assert_uint_eq(json_array_size(lines), 3);
}

static void expect_journal(struct sbx_kit_host *host, const struct sbx_trial *trial)
{
    json_t *entries = sbx_kit_journal_entries(host);
    const json_t *entry = sbx_kit_only(entries, "breach");
    ck_assert_uint_eq(json_array_size(entries), 3);
    ck_assert_str_eq(sbx_kit_string(entry, "PRIORITY"), "4");
    ck_assert_str_eq(sbx_kit_string(entry, "SYSLOG_IDENTIFIER"), "sbx-watch");
    ck_assert_str_eq(sbx_kit_string(entry, "SBX_REASON"), "wall");
    ck_assert_str_eq(sbx_kit_string(entry, "SBX_LIMIT"), "300000");
    ck_assert_int_eq(strtoll(sbx_kit_string(entry, "SBX_OBSERVED"), NULL, 10),
                     sbx_trial_integer(trial, "breach.observed"));
    ck_assert_str_eq(sbx_kit_string(entry, "SBX_UNIT"), "us");
    ck_assert_str_eq(sbx_kit_string(entry, "SBX_RUN_ID"),
                     sbx_trial_string(trial, "run_id"));
    ck_assert_ptr_nonnull(strstr(sbx_kit_string(entry, "MESSAGE"), "wall"));
    entry = sbx_kit_only(entries, "finished");
    ck_assert_str_eq(sbx_kit_string(entry, "PRIORITY"), "6");
    ck_assert_str_eq(sbx_kit_string(entry, "SBX_OUTCOME"), "breach");
    json_decref(entries);
}

/* Bits of _i: form, user, kind of syslog's socket. */
START_TEST(each_sink_gets_each_line_once)
{
    struct sbx_kit_host host;
    bool journal = has_library();
    if (!sbx_kit_host_open(&host, true, (_i & 4) != 0)) {
        return;
    }
    char options[256];
    (void)snprintf(options, sizeof options,
                   "--wall 300ms --warn 50 --log stderr --log file:@/log --log syslog "
                   "%s --log-format %s",
                   journal ? "--log journal" : "", (_i & 1) != 0 ? "json" : "kv");
    /* "@/" is replaced only at the start of a word. */
    char log[2 * SBX_FIXTURE_PATH_SIZE];
    char *at = strstr(options, "@/log");
    (void)snprintf(log, sizeof log, "%.*s%s/log%s", (int)(at - options), options,
                   sbx_fixture_dir(), at + 5);
    ck_assert_int_eq(chmod(sbx_fixture_dir(), 0777), 0);
    struct sbx_trial trial = {.command = idle,
                              .options = log,
                              .as_nobody = (_i & 2) != 0,
                              .prepare = sbx_kit_enter_host,
                              .context = &host};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 124, "breach", "wall");
    sbx_trial_expect_empty(&trial);
    ck_assert_int_eq(sbx_trial_integer(&trial, "warnings_count"), 1);
    ck_assert_ptr_null(strstr(trial.err, "sbx-watch:"));
    json_t *lines = sbx_kit_lines(trial.err);
    expect_breach_line(lines, &trial);
    json_decref(lines);
    char path[SBX_FIXTURE_PATH_SIZE];
    struct stat status;
    lines = sbx_kit_file_lines(sbx_fixture_path(path, "log"));
    expect_breach_line(lines, &trial);
    json_decref(lines);
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_int_eq(status.st_mode & 0777 & ~0640U, 0);
    lines = sbx_kit_syslog_lines(&host);
    expect_breach_line(lines, &trial);
    ck_assert_int_eq(sbx_kit_integer(sbx_kit_only(lines, "breach"), "severity"), 4);
    ck_assert_int_eq(sbx_kit_integer(sbx_kit_only(lines, "breach"), "syslog_pid"),
                     trial.pid);
    json_decref(lines);
    if (journal) {
        expect_journal(&host, &trial);
    }
    sbx_trial_done(&trial);
    sbx_kit_host_close(&host);
}
END_TEST

START_TEST(a_hostile_name_stays_a_name)
{
    static const char name[] = "a\" b=c\nd\\";
    char helper[SBX_FIXTURE_PATH_SIZE];
    char path[SBX_FIXTURE_PATH_SIZE];
    ck_assert_int_eq(
        symlink(sbx_fixture_helper(helper, "stubborn"), sbx_fixture_path(path, name)), 0);
    const char *const command[] = {path, NULL};
    struct sbx_trial trial = {.command = command,
                              .options = "--memory 4K --wall 20 --log stderr"};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 124, "breach", "memory");
    json_t *lines = sbx_kit_lines(trial.err);
    const json_t *line = sbx_kit_only(lines, "breach");
    ck_assert_str_eq(sbx_kit_string(line, "culprit_name"), "a\\x22 b=c\\x0Ad\\x5C");
    ck_assert_int_eq(sbx_kit_integer(line, "culprit_pid"),
                     sbx_trial_integer(&trial, "leader_pid"));
    ck_assert_ptr_null(json_object_get(line, "b"));
    json_decref(lines);
    sbx_trial_done(&trial);
}
END_TEST

/* --- sinks that fail --- */

START_TEST(a_full_disk_is_told_and_no_more)
{
    struct sbx_trial trial = {.command = idle,
                              .options = "--wall 200ms --log file:/dev/full "
                                         "--timeline /dev/full"};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 124, "breach", "wall");
    sbx_trial_expect_empty(&trial);
    expect_warning(&trial, "lines lost: ENOSPC", true);
    expect_warning(&trial, "timeline /dev/full: ", true);
    ck_assert_ptr_nonnull(strstr(trial.err, "sbx-watch: log file:/dev/full: "));
    ck_assert_ptr_nonnull(strstr(trial.err, "sbx-watch: timeline /dev/full: "));
    sbx_trial_done(&trial);
    /* The report there too. */
    trial = (struct sbx_trial){
        .command = idle,
        .without_report = true,
        .options = "--report /dev/full --wall 200ms --log file:/dev/full"};
    sbx_trial_run(&trial);
    ck_assert_int_eq(trial.status, 125);
    sbx_trial_expect_empty(&trial);
    ck_assert_ptr_nonnull(strstr(trial.err, "breach: wall limit 200ms"));
    ck_assert_ptr_nonnull(strstr(trial.err, "log file:/dev/full: "));
    ck_assert_ptr_nonnull(strstr(trial.err, "report /dev/full: cannot be written"));
    sbx_trial_done(&trial);
}
END_TEST

static void allow_one_page(const struct sbx_trial *trial)
{
    (void)trial;
    const struct rlimit page = {4096, 4096};
    if (setrlimit(RLIMIT_FSIZE, &page) < 0) {
        _exit(1);
    }
}

/* A part of a row fits: nobody waits at the end for the room that its rest would need. */
START_TEST(a_torn_row_does_not_delay_the_end)
{
    struct sbx_trial trial = {.command = idle,
                              .options = "--wall 500ms --interval 1ms --timeline @/rows",
                              .prepare = allow_one_page};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 124, "breach", "wall");
    sbx_trial_expect_empty(&trial);
    expect_warning(&trial, "rows lost: EFBIG", true);
    int64_t run_us = sbx_trial_integer(&trial, "usage.wall_us");
    ck_assert_int_lt((int64_t)trial.elapsed_us - run_us, 3 * SECOND / 2);
    sbx_trial_done(&trial);
}
END_TEST

/* A pipe that takes nothing more; the descriptors of its two ends. */
static void make_full_pipe(const char *path, int ends[2])
{
    static const char bytes[4096];
    if (path != NULL) {
        ck_assert_int_eq(mkfifo(path, 0666), 0);
        ends[0] = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        ends[1] = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    } else {
        ck_assert_int_eq(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    }
    ck_assert_int_ge(ends[0], 0);
    ck_assert_int_ge(ends[1], 0);
    while (write(ends[1], bytes, sizeof bytes) > 0) {
    }
    ck_assert_int_eq(errno, EAGAIN);
}

/* A FIFO that is full, one that nobody reads, and standard error, which others have as
 * blocking. */
START_TEST(sinks_that_take_nothing_delay_the_end_by_the_bound)
{
    int ends[2];
    int streams[2];
    char full[SBX_FIXTURE_PATH_SIZE];
    char lonely[SBX_FIXTURE_PATH_SIZE];
    char path[SBX_FIXTURE_PATH_SIZE];
    char options[4 * SBX_FIXTURE_PATH_SIZE];
    make_full_pipe(sbx_fixture_path(full, "full"), ends);
    make_full_pipe(NULL, streams);
    ck_assert_int_eq(fcntl(streams[1], F_SETFL, 0), 0);
    ck_assert_int_eq(mkfifo(sbx_fixture_path(lonely, "lonely"), 0666), 0);
    (void)snprintf(options, sizeof options,
                   "--wall 200ms --log file:%s --log file:%s --log stderr --log file:%s",
                   full, lonely, sbx_fixture_path(path, "log"));
    struct sbx_trial trial = {.command = idle, .options = options};
    trial.stdio[2] = streams[1];
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 124, "breach", "wall");
    sbx_trial_expect_empty(&trial);
    ck_assert_uint_ge(trial.elapsed_us, 1 * SECOND);
    ck_assert_uint_lt(trial.elapsed_us, 2 * BOUND_US);
    expect_warning(&trial, "full: ", true);
    expect_warning(&trial, "lines lost: ETIMEDOUT", true);
    expect_warning(&trial, "lines lost: ENXIO", true);
    expect_warning(&trial, "log stderr: ", true);
    json_t *lines = sbx_kit_file_lines(path);
    (void)sbx_kit_only(lines, "breach");
    (void)sbx_kit_only(lines, "finished");
    json_decref(lines);
    sbx_trial_done(&trial);
    for (int i = 0; i < 2; i++) {
        (void)close(ends[i]);
        (void)close(streams[i]);
    }
}
END_TEST

START_TEST(a_fifo_waits_for_a_reader_that_comes_late)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char options[2 * SBX_FIXTURE_PATH_SIZE];
    ck_assert_int_eq(mkfifo(sbx_fixture_path(path, "fifo"), 0666), 0);
    (void)snprintf(options, sizeof options, "--wall 20 -v --log file:%s", path);
    struct sbx_trial trial = {.command = idle, .options = options};
    sbx_trial_start(&trial);
    (void)find_child(trial.pid, "sbx-logger");
    SBX_AUTO_CLOSE int reader = open(path, O_RDONLY | O_CLOEXEC); /* waits for a writer */
    ck_assert_int_ge(reader, 0);
    ck_assert_int_eq(kill(trial.pid, SIGTERM), 0);
    sbx_trial_wait(&trial);
    sbx_trial_expect(&trial, 143, "cancelled", NULL);
    expect_warning(&trial, "lost", false);
    char text[4096];
    ssize_t length = read(reader, text, sizeof text - 1);
    ck_assert_int_gt(length, 0);
    text[length] = '\0';
    json_t *lines = sbx_kit_lines(text);
    (void)sbx_kit_only(lines, "started");
    ck_assert_str_eq(sbx_kit_string(sbx_kit_only(lines, "finished"), "cancel_signal"),
                     "SIGTERM");
    json_decref(lines);
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(a_reader_that_leaves_is_told)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char options[2 * SBX_FIXTURE_PATH_SIZE];
    ck_assert_int_eq(mkfifo(sbx_fixture_path(path, "fifo"), 0666), 0);
    (void)snprintf(options, sizeof options, "--wall 20 --log file:%s", path);
    int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct sbx_trial trial = {.command = idle, .options = options};
    sbx_trial_start(&trial);
    (void)find_child(trial.pid, "sbx-logger");
    (void)close(reader);
    ck_assert_int_eq(kill(trial.pid, SIGTERM), 0);
    sbx_trial_wait(&trial);
    sbx_trial_expect(&trial, 143, "cancelled", NULL);
    expect_warning(&trial, "1 of 1 lines lost: EPIPE", true);
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(no_syslog_and_no_journal_are_told)
{
    struct sbx_kit_host host;
    if (!sbx_kit_host_open(&host, false, false)) {
        return;
    }
    struct sbx_trial trial = {.command = quick,
                              .options = "--log syslog --log journal --quiet",
                              .prepare = sbx_kit_enter_host,
                              .context = &host};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    expect_warning(&trial, "log syslog: 1 of 1 lines lost: ENOENT", true);
    expect_warning(&trial, "log journal: 1 of 1 lines lost: ENOENT", true);
    ck_assert_str_eq(trial.err, "");
    ck_assert_uint_lt(trial.elapsed_us, 20 * SECOND);
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(a_missing_library_is_told)
{
    struct sbx_kit_host host;
    void *library = has_library() ? dlopen("libsystemd.so.0", RTLD_NOW) : NULL;
    if (library == NULL || !sbx_kit_host_open(&host, true, false)) {
        return;
    }
    struct link_map *map = NULL;
    ck_assert_int_eq(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
    (void)snprintf(host.hidden, sizeof host.hidden, "%s", map->l_name);
    struct sbx_trial trial = {.command = quick,
                              .options = "--log syslog --log journal",
                              .prepare = sbx_kit_enter_host,
                              .context = &host};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    expect_warning(&trial, "log journal: 1 of 1 lines lost: ELIBACC", true);
    ck_assert_int_eq(sbx_trial_integer(&trial, "warnings_count"), 1);
    json_t *lines = sbx_kit_syslog_lines(&host);
    (void)sbx_kit_only(lines, "finished");
    json_decref(lines);
    sbx_trial_done(&trial);
    (void)dlclose(library);
    sbx_kit_host_close(&host);
}
END_TEST

/* A journal that is there and reads nothing: its queue fills. */
START_TEST(a_journal_that_does_not_read_holds_up_nothing)
{
    struct sbx_kit_host host;
    if (!has_library() || !sbx_kit_host_open(&host, true, false)) {
        return;
    }
    char path[SBX_FIXTURE_PATH_SIZE];
    char options[2 * SBX_FIXTURE_PATH_SIZE];
    (void)snprintf(options, sizeof options,
                   "--log journal --log file:%s -v --interval 1ms",
                   sbx_fixture_path(path, "log"));
    bool lost = false;
    for (int i = 0; i < 300 && !lost; i++) {
        struct sbx_trial trial = {.command = quick,
                                  .options = options,
                                  .prepare = sbx_kit_enter_host,
                                  .context = &host};
        sbx_trial_run(&trial);
        sbx_trial_expect(&trial, 0, "exited", NULL);
        lost = sbx_trial_integer(&trial, "warnings_count") > 0;
        if (lost) {
            expect_warning(&trial, "lines lost: ETIMEDOUT", true);
        }
        ck_assert_uint_lt(trial.elapsed_us, BOUND_US + 4 * SECOND);
        sbx_trial_done(&trial);
    }
    ck_assert(lost);
    sbx_kit_host_close(&host);
}
END_TEST

/* --- processes that are killed --- */

START_TEST(a_killed_monitor_is_told_as_lost)
{
    struct sbx_trial trial = {.command = idle, .options = "--log stderr -v"};
    sbx_trial_start(&trial);
    wait_for_line(&trial, "err", "event=started");
    ck_assert_int_eq(kill(find_child(trial.pid, "sbx-monitor"), SIGKILL), 0);
    sbx_trial_wait(&trial);
    sbx_trial_expect(&trial, 125, "lost", NULL);
    sbx_trial_expect_empty(&trial);
    ck_assert_int_eq(sbx_trial_integer(&trial, "termination.strays_count"), 0);
    ck_assert_int_eq(sbx_trial_integer(&trial, "termination.survivors_count"), 0);
    json_t *lines = sbx_kit_lines(trial.err);
    (void)sbx_kit_only(lines, "started");
    const json_t *line = sbx_kit_only(lines, "finished");
    ck_assert_str_eq(sbx_kit_string(line, "outcome"), "lost");
    ck_assert_str_eq(sbx_kit_string(line, "level"), "error");
    ck_assert_str_eq(sbx_kit_string(line, "stage"), "monitor");
    ck_assert_ptr_null(strstr(trial.err, "sbx-watch:"));
    expect_warning(&trial, "lost", false);
    json_decref(lines);
    sbx_trial_done(&trial);
}
END_TEST

/* The breach was told before; it is not told again. */
START_TEST(a_monitor_killed_in_the_grace_has_told_the_breach)
{
    const char *const command[] = {"@stubborn", NULL};
    struct sbx_trial trial = {.command = command,
                              .options = "--log stderr --wall 300ms --grace 30"};
    sbx_trial_start(&trial);
    wait_for_line(&trial, "err", "event=breach");
    ck_assert_int_eq(kill(find_child(trial.pid, "sbx-monitor"), SIGKILL), 0);
    sbx_trial_wait(&trial);
    sbx_trial_expect(&trial, 125, "lost", NULL);
    sbx_trial_expect_empty(&trial);
    json_t *lines = sbx_kit_lines(trial.err);
    (void)sbx_kit_only(lines, "breach");
    ck_assert_str_eq(sbx_kit_string(sbx_kit_only(lines, "finished"), "outcome"), "lost");
    json_decref(lines);
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(a_killed_guard_is_told)
{
    struct sbx_trial trial = {.command = idle, .options = "--log stderr -v"};
    sbx_trial_start(&trial);
    wait_for_line(&trial, "err", "event=started");
    ck_assert_int_eq(kill(trial.pid, SIGKILL), 0);
    char path[SBX_FIXTURE_PATH_SIZE];
    sbx_fixture_wait_file(sbx_trial_path(&trial, path, "report"), 20);
    sbx_trial_wait(&trial);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR) {
    } /* monitor, servants and reader come to us, and end by themselves */
    sbx_trial_expect(&trial, 137, "breach", "guard-lost");
    json_t *lines = sbx_kit_lines(trial.err);
    ck_assert_str_eq(sbx_kit_string(sbx_kit_only(lines, "breach"), "reason"),
                     "guard-lost");
    (void)sbx_kit_only(lines, "finished");
    json_decref(lines);
    sbx_trial_done(&trial);
}
END_TEST

/* 0: it is killed, and another one tells the end; 1: it is stopped, and continued. */
START_TEST(a_lost_servant_does_not_harm_the_run)
{
    struct sbx_trial trial = {.command = idle, .options = "--log stderr -v"};
    sbx_trial_start(&trial);
    wait_for_line(&trial, "err", "event=started");
    pid_t logger = find_child(trial.pid, "sbx-logger");
    SBX_AUTO_CLOSE int pidfd = (int)syscall(SYS_pidfd_open, logger, 0);
    struct pollfd death = {.fd = pidfd, .events = POLLIN};
    ck_assert_int_eq(kill(logger, _i == 0 ? SIGKILL : SIGSTOP), 0);
    /* What is sent to one that is still dying is lost with it. */
    ck_assert_int_eq(_i == 0 ? poll(&death, 1, 20000) : 1, 1);
    ck_assert_int_eq(kill(trial.pid, SIGTERM), 0);
    sbx_trial_wait(&trial);
    sbx_trial_expect(&trial, 143, "cancelled", NULL);
    sbx_trial_expect_empty(&trial);
    ck_assert_uint_lt(trial.elapsed_us, BOUND_US + 4 * SECOND);
    json_t *lines = sbx_kit_lines(trial.err);
    (void)sbx_kit_only(lines, "finished");
    if (_i == 1) {
        expect_warning(&trial, "lines lost", false);
    }
    json_decref(lines);
    sbx_trial_done(&trial);
}
END_TEST

/* Nobody is left to tell it the end. */
START_TEST(a_servant_without_masters_ends)
{
    struct sbx_trial trial = {.command = idle, .options = "--log stderr -v"};
    sbx_trial_start(&trial);
    wait_for_line(&trial, "err", "event=started");
    SBX_AUTO_CLOSE int logger =
        (int)syscall(SYS_pidfd_open, find_child(trial.pid, "sbx-logger"), 0);
    pid_t monitor = find_child(trial.pid, "sbx-monitor");
    ck_assert_int_ge(logger, 0);
    ck_assert_int_eq(kill(monitor, SIGSTOP), 0);
    ck_assert_int_eq(kill(trial.pid, SIGKILL), 0);
    ck_assert_int_eq(kill(monitor, SIGKILL), 0);
    struct pollfd end = {.fd = logger, .events = POLLIN};
    ck_assert_int_eq(poll(&end, 1, 20000), 1);
    sbx_trial_wait(&trial);
    (void)sbx_trial_end_children(20);
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(a_caller_with_children_of_its_own_is_no_hindrance)
{
    static const char *const launcher[] = {"sh", "-c", "sleep 30 & exec \"$@\"", "sh",
                                           NULL};
    struct sbx_trial trial = {.command = quick, .options = "-v", .launcher = launcher};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    json_t *lines = sbx_kit_lines(trial.err);
    (void)sbx_kit_only(lines, "started");
    (void)sbx_kit_only(lines, "finished");
    json_decref(lines);
    ck_assert_int_eq(sbx_trial_end_children(20), 1);
    sbx_trial_done(&trial);
}
END_TEST

/* --- what is told --- */

static const struct {
    const char *options;
    size_t started, phases, warnings, breaches, finished;
    bool plain; /* the line that there is without a log */
} levels[] = {
    {"--log file:L --log-level error", 0, 0, 0, 0, 0, true},
    {"--log file:L --log-level warning", 0, 0, 1, 1, 0, true},
    {"--log file:L --log-level info", 0, 0, 1, 1, 1, true},
    {"--log file:L", 0, 0, 1, 1, 1, true},
    {"--log file:L --quiet", 0, 0, 1, 1, 1, false},
    {"--log file:L --log file:L", 0, 0, 1, 1, 1, true},
    {"--log file:L --log stderr", 0, 0, 1, 1, 1, false},
    {"--log file:L --log-level debug", 1, 2, 1, 1, 1, true},
    {"--log file:L -v", 1, 2, 1, 1, 1, true},
    {"--log file:L --log-level error -v --log-format json", 1, 2, 1, 1, 1, true},
};

START_TEST(levels_choose)
{
    char options[3 * SBX_FIXTURE_PATH_SIZE] = "--wall 200ms --warn 50 ";
    char log[SBX_FIXTURE_PATH_SIZE];
    size_t used = strlen(options);
    (void)sbx_fixture_path(log, "log");
    for (const char *from = levels[_i].options; *from != '\0'; from++) {
        bool place = *from == 'L';
        used += (size_t)snprintf(options + used, sizeof options - used, "%.*s",
                                 place ? (int)strlen(log) : 1, place ? log : from);
    }
    SBX_AUTO_CLOSE int fd = open(log, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_eq(write(fd, "event=before\n", 13), 13); /* it is appended to */
    struct sbx_trial trial = {.command = idle, .options = options};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 124, "breach", "wall");
    json_t *lines = sbx_kit_file_lines(log);
    ck_assert_uint_eq(sbx_kit_count(lines, "before"), 1);
    ck_assert_uint_eq(sbx_kit_count(lines, "started"), levels[_i].started);
    ck_assert_uint_eq(sbx_kit_count(lines, "phase"), levels[_i].phases);
    ck_assert_uint_eq(sbx_kit_count(lines, "warning"), levels[_i].warnings);
    ck_assert_uint_eq(sbx_kit_count(lines, "breach"), levels[_i].breaches);
    ck_assert_uint_eq(sbx_kit_count(lines, "finished"), levels[_i].finished);
    ck_assert_int_eq(strstr(trial.err, "sbx-watch: breach") != NULL, levels[_i].plain);
    json_decref(lines);
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(verbose_alone_is_stderr)
{
    struct sbx_trial trial = {.command = quick, .options = "-v"};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    json_t *lines = sbx_kit_lines(trial.err);
    ck_assert_str_eq(sbx_kit_string(sbx_kit_only(lines, "started"), "command"), "true");
    ck_assert_int_eq(sbx_kit_integer(sbx_kit_only(lines, "finished"), "exit_code"), 0);
    json_decref(lines);
    sbx_trial_done(&trial);
}
END_TEST

/* Strays are worth a line without any log, so they are one with it. */
START_TEST(strays_are_told_at_level_warning)
{
    const char *const command[] = {"@named", "--stray", "lost-dog", NULL};
    struct sbx_trial trial = {.command = command,
                              .options = "--log stderr --log-level warning"};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    json_t *lines = sbx_kit_lines(trial.err);
    ck_assert_int_eq(sbx_kit_integer(sbx_kit_only(lines, "finished"), "strays_count"), 1);
    ck_assert_uint_eq(json_array_size(lines), 1);
    ck_assert_ptr_null(strstr(trial.err, "sbx-watch:"));
    json_decref(lines);
    sbx_trial_done(&trial);
}
END_TEST

/* --- nothing ran --- */

static const struct {
    const char *options;
    int status;
    const char *stage;
    const char *said; /* on stderr */
} refusals[] = {
    {"--log file:L --log file:/nonexistent/log", 125, "check", "/nonexistent/log"},
    {"--log file:L --timeline /nonexistent/rows", 125, "check", "/nonexistent/rows"},
    {"--log file:L --timeline /", 125, "check", "--timeline"},
    {"--log file:L --log file:/", 125, "check", "option --log: /"},
    {"--log file:L --report /nonexistent/report", 125, "report", "/nonexistent/report"},
    {"--log file:L --wall 0", 125, "options", "--wall"},
    {"--log file:L --rlimit nofile=99999999", 125, "arm", "nofile"},
};

START_TEST(a_refused_run_is_told)
{
    char options[3 * SBX_FIXTURE_PATH_SIZE];
    char log[SBX_FIXTURE_PATH_SIZE];
    char ran[SBX_FIXTURE_PATH_SIZE];
    (void)snprintf(options, sizeof options, "--log file:%s%s",
                   sbx_fixture_path(log, "log"), refusals[_i].options + 12);
    const char *const command[] = {"touch", sbx_fixture_path(ran, "ran"), NULL};
    struct sbx_trial trial = {
        .command = command, .options = options, .without_report = true};
    sbx_trial_run(&trial);
    ck_assert_msg(trial.status == refusals[_i].status, "status %d: %s", trial.status,
                  trial.err);
    ck_assert_int_ne(access(ran, F_OK), 0);
    ck_assert_msg(strstr(trial.err, refusals[_i].said) != NULL, "%s", trial.err);
    json_t *lines = sbx_kit_file_lines(log);
    ck_assert_uint_eq(json_array_size(lines), 1);
    const json_t *line = sbx_kit_only(lines, "finished");
    ck_assert_str_eq(sbx_kit_string(line, "outcome"), "launch-failed");
    ck_assert_str_eq(sbx_kit_string(line, "level"), "error");
    ck_assert_str_eq(sbx_kit_string(line, "stage"), refusals[_i].stage);
    sbx_trial_expect_empty(&trial);
    json_decref(lines);
    sbx_trial_done(&trial);
}
END_TEST

/* One line or the other, whoever says it. */
START_TEST(a_failure_is_said_once_on_stderr)
{
    static const char *const missing[] = {"/nonexistent/command", NULL};
    static const char *const options[] = {"--log stderr", "--log stderr --wall 0",
                                          "--log stderr --report /nonexistent/report"};
    struct sbx_trial trial = {
        .command = missing, .options = options[_i], .without_report = true};
    sbx_trial_run(&trial);
    ck_assert_int_eq(trial.status, _i == 0 ? 127 : 125);
    const char *first = strchr(trial.err, '\n');
    ck_assert_msg(first != NULL && first[1] == '\0', "not one line: %s", trial.err);
    ck_assert_int_eq(strncmp(trial.err, "sbx-watch:", 10) == 0, _i > 0);
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(relative_paths_start_where_we_did)
{
    const char *const launcher[] = {"sh", "-c", "cd \"$0\" && exec \"$@\"",
                                    sbx_fixture_dir(), NULL};
    struct sbx_trial trial = {.command = quick,
                              .launcher = launcher,
                              .options = "--log file:here.log --timeline rows.csv"};
    char path[SBX_FIXTURE_PATH_SIZE];
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    json_t *lines = sbx_kit_file_lines(sbx_fixture_path(path, "here.log"));
    (void)sbx_kit_only(lines, "finished");
    json_decref(lines);
    ck_assert_int_eq(access(sbx_fixture_path(path, "rows.csv"), F_OK), 0);
    sbx_trial_done(&trial);
}
END_TEST

static size_t count_lines(const char *text)
{
    size_t count = 0;
    for (; (text = strchr(text, '\n')) != NULL; text++) {
        count++;
    }
    return count;
}

static bool has_pipe(pid_t pid)
{
    bool found = false;
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/fd", pid);
    SBX_AUTO_CLOSEDIR DIR *directory = opendir(path);
    ck_assert_ptr_nonnull(directory);
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        char target[64] = "";
        (void)!readlinkat(dirfd(directory), entry->d_name, target, sizeof target - 1);
        found = found || strncmp(target, "pipe:", 5) == 0;
    }
    return found;
}

static void wait_until_without_pipe(pid_t pid)
{
    for (uint64_t until = sbx_clock_us() + 20 * SECOND; has_pipe(pid);) {
        ck_assert_msg(sbx_clock_us() < until, "%d keeps a pipe", pid);
        (void)poll(NULL, 0, 2);
    }
}

/* The servant holds nothing of what the run was given, and the command nothing of the
 * servant's. */
START_TEST(nobody_holds_what_is_not_his)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    const char *const command[] = {"@print_fds", NULL};
    struct sbx_trial trial = {.command = command, .options = "-v"};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    size_t with = count_lines(trial.out);
    sbx_trial_done(&trial);
    trial.options = NULL;
    sbx_trial_run(&trial);
    ck_assert_uint_eq(count_lines(trial.out), with);
    sbx_trial_done(&trial);
    trial = (struct sbx_trial){.command = idle, .options = "--log syslog"};
    trial.stdio[1] = ends[1];
    sbx_trial_start(&trial);
    pid_t logger = find_child(trial.pid, "sbx-logger");
    wait_until_without_pipe(logger);
    ck_assert_int_eq(kill(trial.pid, SIGTERM), 0);
    sbx_trial_wait(&trial);
    sbx_trial_expect_empty(&trial);
    ck_assert_int_eq(kill(logger, 0), -1);
    sbx_trial_done(&trial);
    (void)close(ends[0]);
    (void)close(ends[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("logs");
    bool root = sbx_trial_identities() > 1;
    TCase *sinks = sbx_fixture_case(suite, "sinks", 60);
    for (int i = 0; i < 8; i++) {
        if (root || (i & 2) == 0) {
            tcase_add_loop_test(sinks, each_sink_gets_each_line_once, i, i + 1);
        }
    }
    tcase_add_test(sinks, a_hostile_name_stays_a_name);
    TCase *failing = sbx_fixture_case(suite, "failing", 60);
    tcase_add_test(failing, a_full_disk_is_told_and_no_more);
    tcase_add_test(failing, a_torn_row_does_not_delay_the_end);
    tcase_add_test(failing, sinks_that_take_nothing_delay_the_end_by_the_bound);
    tcase_add_test(failing, a_fifo_waits_for_a_reader_that_comes_late);
    tcase_add_test(failing, a_reader_that_leaves_is_told);
    tcase_add_test(failing, no_syslog_and_no_journal_are_told);
    tcase_add_test(failing, a_missing_library_is_told);
    tcase_add_test(failing, a_journal_that_does_not_read_holds_up_nothing);
    TCase *killed = sbx_fixture_case(suite, "killed", 60);
    tcase_add_test(killed, a_killed_monitor_is_told_as_lost);
    tcase_add_test(killed, a_monitor_killed_in_the_grace_has_told_the_breach);
    tcase_add_test(killed, a_killed_guard_is_told);
    tcase_add_loop_test(killed, a_lost_servant_does_not_harm_the_run, 0, 2);
    tcase_add_test(killed, a_servant_without_masters_ends);
    tcase_add_test(killed, a_caller_with_children_of_its_own_is_no_hindrance);
    TCase *told = sbx_fixture_case(suite, "told", 60);
    tcase_add_loop_test(told, levels_choose, 0, LENGTH(levels));
    tcase_add_test(told, verbose_alone_is_stderr);
    tcase_add_test(told, strays_are_told_at_level_warning);
    tcase_add_loop_test(told, a_refused_run_is_told, 0, LENGTH(refusals));
    tcase_add_loop_test(told, a_failure_is_said_once_on_stderr, 0, 3);
    tcase_add_test(told, relative_paths_start_where_we_did);
    tcase_add_test(told, nobody_holds_what_is_not_his);
    return sbx_fixture_run(suite);
}
