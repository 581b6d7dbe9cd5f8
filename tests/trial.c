/*
 * trial.c - runs the built sbx-watch, and collects all that came of it.
 *
 * Relies on the fixture for clean-up: what a failing test leaves behind is ended there.
 * Never signals what is not the test's own child.
 */
#include "tests/trial.h"

#include "base/clock.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOBODY 65534
#define WORDS_MAX 96
#define WORD_SIZE SBX_FIXTURE_PATH_SIZE
#define DEFAULT_SECONDS 60
#define HARNESS_STATUS 121
#define VALIDATOR_ABSENT 77 /* what the script says when its module is missing */
#define SEARCH_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define MARKER_NAME "SBX_TEST_MARKER"

/* The words to execute, with their storage. */
struct words {
    size_t count;
    char *argv[WORDS_MAX + 1];
    char storage[WORDS_MAX][WORD_SIZE];
};

static void nap_ms(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&time, NULL);
}

const char *sbx_trial_path(const struct sbx_trial *trial,
                           char buffer[static SBX_FIXTURE_PATH_SIZE], const char *name)
{
    int length = snprintf(buffer, SBX_FIXTURE_PATH_SIZE, "%s/%s", trial->directory, name);
    ck_assert_int_lt(length, SBX_FIXTURE_PATH_SIZE);
    return buffer;
}

/* --- starting ----------------------------------------------------------------------- */

/* A copy in the run's directory: the build may lie where an ordinary user cannot go. */
static const char *local_copy(const struct sbx_trial *trial, const char *path,
                              char buffer[static SBX_FIXTURE_PATH_SIZE])
{
    struct stat status;
    const char *base = strrchr(path, '/');
    char name[64];
    (void)snprintf(name, sizeof(name), "%s", base != NULL ? base + 1 : path);
    (void)sbx_trial_path(trial, buffer, name);
    SBX_AUTO_CLOSE int from = open(path, O_RDONLY | O_CLOEXEC);
    SBX_AUTO_CLOSE int to = open(buffer, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    if (to < 0 && errno == EEXIST) {
        return buffer;
    }
    ck_assert_msg(from >= 0 && to >= 0 && fstat(from, &status) == 0 &&
                      fchmod(to, 0755) == 0,
                  "cannot copy %s to %s: %s", path, buffer, strerror(errno));
    for (off_t done = 0; done < status.st_size;) {
        ssize_t sent = sendfile(to, from, &done, (size_t)(status.st_size - done));
        ck_assert_msg(sent > 0, "cannot copy %s: %s", path, strerror(errno));
    }
    return buffer;
}

static void add_word(const struct sbx_trial *trial, struct words *words, const char *word)
{
    ck_assert_uint_lt(words->count, WORDS_MAX);
    char *slot = words->storage[words->count];
    char helper[SBX_FIXTURE_PATH_SIZE];
    if (strncmp(word, "@/", 2) == 0) {
        (void)sbx_trial_path(trial, slot, word + 2);
    } else if (word[0] == '@' && (trial->as_nobody || trial->local_copies)) {
        (void)local_copy(trial, sbx_fixture_helper(helper, word + 1), slot);
    } else if (word[0] == '@') {
        (void)sbx_fixture_helper(slot, word + 1);
    } else {
        ck_assert_uint_lt(strlen(word), WORD_SIZE);
        (void)snprintf(slot, WORD_SIZE, "%s", word);
    }
    words->argv[words->count++] = slot;
    words->argv[words->count] = NULL;
}

static void add_list(const struct sbx_trial *trial, struct words *words,
                     const char *const *list)
{
    for (size_t i = 0; list != NULL && list[i] != NULL; i++) {
        add_word(trial, words, list[i]);
    }
}

static struct words *make_words(const struct sbx_trial *trial)
{
    struct words *words = calloc(1, sizeof(*words));
    ck_assert_ptr_nonnull(words);
    add_list(trial, words, trial->launcher);
    char binary[SBX_FIXTURE_PATH_SIZE];
    add_word(trial, words,
             trial->as_nobody ? local_copy(trial, sbx_fixture_watch(), binary)
                              : sbx_fixture_watch());
    if (!trial->without_report) {
        add_word(trial, words, "--report");
        add_word(trial, words, "@/report");
    }
    char options[1024] = "";
    char *rest = NULL;
    if (trial->options != NULL) {
        ck_assert_uint_lt(strlen(trial->options), sizeof(options));
        (void)snprintf(options, sizeof(options), "%s", trial->options);
    }
    for (char *word = strtok_r(options, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        add_word(trial, words, word);
    }
    add_word(trial, words, "--");
    add_list(trial, words, trial->command);
    return words;
}

/* In the child: descriptor `which` becomes what was asked for. 0 or -1. */
static int place_stream(const struct sbx_trial *trial, int which)
{
    static const char *const names[] = {"/dev/null", "out", "err"};
    int wanted = trial->stdio[which];
    if (wanted == SBX_TRIAL_CLOSED) {
        return close(which) == 0 || errno == EBADF ? 0 : -1;
    }
    if (wanted > 2) {
        return dup2(wanted, which) == which ? 0 : -1;
    }
    char path[SBX_FIXTURE_PATH_SIZE] = "/dev/null";
    if (which > 0) {
        (void)sbx_trial_path(trial, path, names[which]);
    }
    int fd = open(path, which == 0 ? O_RDONLY : O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (fd < 0 || fd == which) {
        return fd;
    }
    return dup2(fd, which) == which && close(fd) == 0 ? 0 : -1;
}

static _Noreturn void become(const struct sbx_trial *trial, struct words *words)
{
    /* From 2 down: with 0 closed, an open would land there. */
    for (int which = 2; which >= 0; which--) {
        if (place_stream(trial, which) < 0) {
            _exit(HARNESS_STATUS);
        }
    }
    char marker[sizeof(trial->marker)];
    (void)snprintf(marker, sizeof(marker), "%s", trial->marker);
    if (putenv(marker) != 0 || setenv("PATH", SEARCH_PATH, 1) != 0) {
        _exit(HARNESS_STATUS);
    }
    if (trial->prepare != NULL) {
        trial->prepare(trial);
    }
    if (trial->as_nobody &&
        (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
         setresuid(NOBODY, NOBODY, NOBODY) < 0)) {
        _exit(HARNESS_STATUS);
    }
    (void)execvp(words->argv[0], words->argv);
    _exit(HARNESS_STATUS);
}

void sbx_trial_start(struct sbx_trial *trial)
{
    static int number;
    char name[32];
    (void)snprintf(name, sizeof(name), "run.%d", ++number);
    (void)sbx_fixture_path(trial->directory, name);
    ck_assert_int_eq(mkdir(trial->directory, 0755), 0);
    if (trial->as_nobody) {
        ck_assert_int_eq(chown(trial->directory, NOBODY, NOBODY), 0);
    }
    (void)snprintf(trial->marker, sizeof(trial->marker), "%s=%d.%d.%llx", MARKER_NAME,
                   (int)getpid(), number, (unsigned long long)sbx_clock_us());
    struct words *words = make_words(trial);
    trial->out = NULL;
    trial->err = NULL;
    trial->report = NULL;
    trial->started_us = sbx_clock_us();
    trial->pid = fork();
    ck_assert_int_ge(trial->pid, 0);
    if (trial->pid == 0) {
        become(trial, words);
    }
    free(words);
}

/* --- its end -------------------------------------------------------------------------
 */

static char *read_stream(const struct sbx_trial *trial, const char *name)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char *text = calloc(1, SBX_TRIAL_TEXT_SIZE);
    ck_assert_ptr_nonnull(text);
    SBX_AUTO_CLOSE int fd = open(sbx_trial_path(trial, path, name), O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ck_assert_int_ge(read(fd, text, SBX_TRIAL_TEXT_SIZE - 1), 0);
    }
    return text;
}

static bool has_suffix(const char *text, const char *suffix)
{
    size_t length = strlen(text);
    size_t wanted = strlen(suffix);
    return length >= wanted && strcmp(text + length - wanted, suffix) == 0;
}

/* Absent means unknown: so there is no null. Numbers with a unit are whole and not
 * negative; there are no others. A list that is cut says how long it was. */
static void check_form(const json_t *value, const char *name)
{
    const char *key;
    json_t *item;
    size_t index;
    ck_assert_msg(!json_is_null(value) && !json_is_real(value),
                  "report: %s is null or not whole", name);
    if (has_suffix(name, "_us") || has_suffix(name, "_bytes") ||
        has_suffix(name, "_count")) {
        ck_assert_msg(json_is_integer(value) && json_integer_value(value) >= 0,
                      "report: %s is not a count", name);
    }
    json_array_foreach(value, index, item)
    {
        check_form(item, "list");
    }
    json_object_foreach((json_t *)(uintptr_t)value, key, item)
    {
        check_form(item, key);
    }
}

static void check_report(const struct sbx_trial *trial)
{
    static const char *const required[] = {"schema", "outcome"};
    static const char *const outcomes[] = {
        "exited", "signaled", "breach", "cancelled", "launch-failed", "lost", "observed"};
    for (size_t i = 0; i < sizeof(required) / sizeof(required[0]); i++) {
        ck_assert_msg(sbx_trial_has(trial, required[i]), "report without %s",
                      required[i]);
    }
    ck_assert_str_eq(sbx_trial_string(trial, "schema"), "sbx.report/1");
    const char *outcome = sbx_trial_string(trial, "outcome");
    bool known = false;
    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
        known = known || strcmp(outcomes[i], outcome) == 0;
    }
    ck_assert_msg(known, "report: outcome %s", outcome);
    check_form(trial->report, "report");
}

static void read_report(struct sbx_trial *trial)
{
    json_error_t error;
    char *text = read_stream(trial, "report");
    if (text[0] != '\0') {
        trial->report = json_loads(text, JSON_REJECT_DUPLICATES, &error);
        ck_assert_msg(trial->report != NULL, "report: %s: %s", error.text, text);
        const char *line_feed = strchr(text, '\n');
        ck_assert_msg(line_feed != NULL && line_feed[1] == '\0',
                      "the report is not one line: %s", text);
        check_report(trial);
        sbx_fixture_collect(text);
    }
    free(text);
}

void sbx_trial_wait(struct sbx_trial *trial)
{
    double seconds = trial->seconds > 0 ? trial->seconds : DEFAULT_SECONDS;
    SBX_AUTO_CLOSE int pidfd = (int)syscall(SYS_pidfd_open, trial->pid, 0);
    ck_assert_msg(pidfd >= 0, "pidfd_open: %s", strerror(errno));
    struct pollfd end = {.fd = pidfd, .events = POLLIN};
    int ready = poll(&end, 1, (int)(seconds * 1000));
    trial->elapsed_us = sbx_clock_us() - trial->started_us;
    trial->out = read_stream(trial, "out");
    trial->err = read_stream(trial, "err");
    ck_assert_msg(ready == 1, "sbx-watch has not ended after %.1f s; stderr: %s", seconds,
                  trial->err);
    int status;
    ck_assert_int_eq(waitpid(trial->pid, &status, 0), trial->pid);
    trial->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    ck_assert_msg(trial->status != HARNESS_STATUS, "the harness could not start it");
    read_report(trial);
}

void sbx_trial_run(struct sbx_trial *trial)
{
    sbx_trial_start(trial);
    sbx_trial_wait(trial);
}

void sbx_trial_done(struct sbx_trial *trial)
{
    free(trial->out);
    free(trial->err);
    json_decref(trial->report);
    trial->out = NULL;
    trial->err = NULL;
    trial->report = NULL;
}

void sbx_trial_wait_output(const struct sbx_trial *trial, const char *text,
                           double seconds)
{
    uint64_t end_us = sbx_clock_us() + (uint64_t)(seconds * 1e6);
    for (;;) {
        char *out = read_stream(trial, "out");
        bool found = strstr(out, text) != NULL;
        free(out);
        if (found) {
            return;
        }
        ck_assert_msg(sbx_clock_us() < end_us, "no %s in the output after %.1f s", text,
                      seconds);
        nap_ms(2);
    }
}

/* --- expectations --------------------------------------------------------------------
 */

void sbx_trial_expect(const struct sbx_trial *trial, int status, const char *outcome,
                      const char *reason)
{
    char *dump = trial->report != NULL ? json_dumps(trial->report, 0) : NULL;
    const char *report = dump != NULL ? dump : "none";
    ck_assert_msg(trial->status == status,
                  "status %d, expected %d; stderr: %s; report: %s", trial->status, status,
                  trial->err, report);
    if (outcome != NULL) {
        ck_assert_msg(trial->report != NULL, "no report; stderr: %s", trial->err);
        ck_assert_msg(strcmp(sbx_trial_string(trial, "outcome"), outcome) == 0,
                      "expected outcome %s; stderr: %s; report: %s", outcome, trial->err,
                      report);
        ck_assert_msg(sbx_trial_has(trial, "breach") == (reason != NULL),
                      "expected breach %s; report: %s", reason != NULL ? reason : "none",
                      report);
        if (reason != NULL) {
            ck_assert_str_eq(sbx_trial_string(trial, "breach.reason"), reason);
        }
    }
    free(dump);
}

/* The pids of our children, as the kernel lists them, in a text. */
static void list_children(char *text, size_t size)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    SBX_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, text, size - 1) : 0;
    text[length > 0 ? length : 0] = '\0';
}

/* Whether the environment of this process has the marker among its variables. A process
 * that is no more, or not ours to read, has not. */
static bool has_marker(const char *pid, const char *marker)
{
    static char environment[256 * 1024];
    char path[300];
    (void)snprintf(path, sizeof(path), "/proc/%s/environ", pid);
    SBX_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, environment, sizeof(environment)) : 0;
    return length > 0 &&
           memmem(environment, (size_t)length, marker, strlen(marker) + 1) != NULL;
}

static void expect_no_marker(const struct sbx_trial *trial)
{
    SBX_AUTO_CLOSEDIR DIR *proc = opendir("/proc");
    ck_assert_ptr_nonnull(proc);
    const struct dirent *entry;
    while ((entry = readdir(proc)) != NULL) {
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9') {
            ck_assert_msg(!has_marker(entry->d_name, trial->marker),
                          "process %s of the run is alive", entry->d_name);
        }
    }
}

void sbx_trial_expect_proof(const struct sbx_trial *trial)
{
    const char *proof = sbx_trial_string(trial, "termination.proof");
    ck_assert_msg(strcmp(proof, "no-children") == 0 ||
                      strcmp(proof, "group-empty") == 0 ||
                      strcmp(proof, "namespace-gone") == 0,
                  "proof %s", proof);
}

void sbx_trial_expect_empty(const struct sbx_trial *trial)
{
    siginfo_t info;
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0) {
        char children[512];
        char first[1024] = "?";
        char path[64];
        list_children(children, sizeof(children));
        (void)snprintf(path, sizeof(path), "/proc/%ld/stat", strtol(children, NULL, 10));
        (void)sbx_fd_read_text_at(AT_FDCWD, path, first, sizeof(first));
        ck_abort_msg("the run has left processes: %s; first: %s; stderr: %s", children,
                     first, trial->err);
    }
    expect_no_marker(trial);
    if (trial->report != NULL &&
        strcmp(sbx_trial_string(trial, "outcome"), "launch-failed") != 0) {
        sbx_trial_expect_proof(trial);
        ck_assert(!sbx_trial_has(trial, "termination.survivors.0"));
    }
}

int sbx_trial_end_children(double seconds)
{
    uint64_t end_us = sbx_clock_us() + (uint64_t)(seconds * 1e6);
    int reaped = 0;
    for (;;) {
        char children[16 * 1024];
        list_children(children, sizeof(children));
        /* A pid counts when a blank follows: else the buffer's end may have cut it. */
        char *start = children;
        for (char *blank; (blank = strchr(start, ' ')) != NULL; start = blank + 1) {
            pid_t child = (pid_t)strtol(start, NULL, 10);
            if (child > 1) {
                (void)kill(child, SIGKILL);
            }
        }
        pid_t pid = 0;
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
            reaped++;
        }
        if (pid < 0) {
            return reaped;
        }
        ck_assert_msg(sbx_clock_us() < end_us, "children are left: %s", children);
        nap_ms(1);
    }
}

void sbx_trial_validate(const struct sbx_trial *trial)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    if (getenv("SBX_TEST_REPORTS") != NULL) {
        return; /* it was collected, and is held against the schema with all others */
    }
    (void)sbx_trial_path(trial, path, "report");
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void)execlp("python3", "python3", SBX_TEST_DATA "/../validate_report.py", path,
                     NULL);
        _exit(VALIDATOR_ABSENT);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status) && (WEXITSTATUS(status) == 0 ||
                                        WEXITSTATUS(status) == VALIDATOR_ABSENT),
                  "the report does not follow its schema");
}

/* --- items of the report ----------------------------------------------------------- */

const json_t *sbx_trial_item(const struct sbx_trial *trial, const char *path)
{
    const json_t *item = trial->report;
    char copy[256];
    char *rest = NULL;
    (void)snprintf(copy, sizeof(copy), "%s", path);
    for (char *key = strtok_r(copy, ".", &rest); key != NULL && item != NULL;
         key = strtok_r(NULL, ".", &rest)) {
        item = json_is_array(item) ? json_array_get(item, strtoul(key, NULL, 10))
                                   : json_object_get(item, key);
    }
    return item;
}

bool sbx_trial_has(const struct sbx_trial *trial, const char *path)
{
    return sbx_trial_item(trial, path) != NULL;
}

int64_t sbx_trial_integer(const struct sbx_trial *trial, const char *path)
{
    const json_t *item = sbx_trial_item(trial, path);
    ck_assert_msg(json_is_integer(item), "report: no number %s", path);
    return json_integer_value(item);
}

const char *sbx_trial_string(const struct sbx_trial *trial, const char *path)
{
    const json_t *item = sbx_trial_item(trial, path);
    ck_assert_msg(json_is_string(item), "report: no text %s", path);
    return json_string_value(item);
}

bool sbx_trial_boolean(const struct sbx_trial *trial, const char *path)
{
    const json_t *item = sbx_trial_item(trial, path);
    ck_assert_msg(json_is_boolean(item), "report: no boolean %s", path);
    return json_is_true(item);
}

int sbx_trial_identities(void)
{
    return geteuid() == 0 ? 2 : 1;
}
