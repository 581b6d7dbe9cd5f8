/*
 * test_timeout.c - side by side with timeout(1): whoever replaces `timeout -k 1 5 CMD` by
 * `sbx-watch -w 5 -k 1 CMD` sees the same statuses and the same bytes, but for the few
 * rows that say otherwise.
 *
 * Each row is a shell script with "$@" in place of the wrapper. Both run it in an empty
 * directory of their own, with pipes for standard input, output and error. Needs
 * timeout(1) of GNU coreutils.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "tests/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BOUND_SECONDS 60
#define STREAM_SIZE ((size_t)4 * 1024 * 1024)
#define BIG_SIZE 1000000 /* more than any pipe holds */

/* Which wrapper, with which limits. */
enum wrapper {
    NORMAL,
    SHORT,
    SHORT_KILL,
    SHORT_INT,
    SHORT_PRESERVE,
    SHORT_KILL_PRESERVE,
    SECONDS,
    MINUTES,
    ZERO
};

static const struct wrapper_row {
    const char *timeout[8];
    const char *watch[10];
} wrappers[] = {
    [NORMAL] = {{"timeout", "-k", "1", "50"}, {"@", "-w", "50", "-k", "1", "--"}},
    [SHORT] = {{"timeout", "-k", "30", "1.5"},
               {"@", "-q", "-w", "1.5", "-k", "30", "--"}},
    [SHORT_KILL] = {{"timeout", "-k", "0.3", "1.5"},
                    {"@", "-q", "-w", "1.5", "-k", "0.3", "--"}},
    [SHORT_INT] = {{"timeout", "-s", "INT", "-k", "30", "1.5"},
                   {"@", "-q", "-s", "INT", "-w", "1.5", "-k", "30", "--"}},
    [SHORT_PRESERVE] = {{"timeout", "--preserve-status", "-k", "30", "1.5"},
                        {"@", "-q", "--preserve-status", "-w", "1.5", "-k", "30", "--"}},
    [SHORT_KILL_PRESERVE] = {{"timeout", "--preserve-status", "-k", "0.3", "1.5"},
                             {"@", "-q", "--preserve-status", "-w", "1.5", "-k", "0.3",
                              "--"}},
    [SECONDS] = {{"timeout", "50.5s"}, {"@", "-w", "50.5s"}},
    [MINUTES] = {{"timeout", "-k", "1m", "0.9m"}, {"@", "-k", "1m", "-w", "0.9m"}},
    [ZERO] = {{"timeout", "0"}, {"@", "-w", "0"}},
};

/* The wrapper's own messages differ in their words, and a shell may comment the end of a
 * child that got the polite signal with it. And timeout ends by the signal that
 * ended its command, which the shell comments; sbx-watch exits with 128 and its number.
 */
enum errors { SAME, OWN };

static const struct row {
    const char *name;
    const char *script;
    int status;       /* of timeout */
    int watch_status; /* -1: the same */
    enum wrapper wrapper;
    enum errors errors;
} rows[] = {
    /* The command's own end. */
    {"exit 0", "\"$@\" true", 0, -1, NORMAL, SAME},
    {"exit 1", "\"$@\" false", 1, -1, NORMAL, SAME},
    {"exit 7", "\"$@\" sh -c 'exit 7'", 7, -1, NORMAL, SAME},
    {"exit 124", "\"$@\" sh -c 'exit 124'", 124, -1, NORMAL, SAME},
    {"exit 125", "\"$@\" sh -c 'exit 125'", 125, -1, NORMAL, SAME},
    {"exit 126", "\"$@\" sh -c 'exit 126'", 126, -1, NORMAL, SAME},
    {"exit 127", "\"$@\" sh -c 'exit 127'", 127, -1, NORMAL, SAME},
    {"exit 255", "\"$@\" sh -c 'exit 255'", 255, -1, NORMAL, SAME},
    {"TERM", "\"$@\" sh -c 'kill -TERM $$'", 143, -1, NORMAL, OWN},
    {"KILL", "\"$@\" sh -c 'kill -KILL $$'", 137, -1, NORMAL, OWN},
    {"HUP", "\"$@\" sh -c 'kill -HUP $$'", 129, -1, NORMAL, OWN},
    {"INT", "\"$@\" sh -c 'kill -INT $$'; exit $?", 130, -1, NORMAL, SAME},
    {"USR1", "\"$@\" sh -c 'kill -USR1 $$'", 138, -1, NORMAL, OWN},
    {"SEGV", "\"$@\" sh -c 'kill -SEGV $$'", 139, -1, NORMAL, OWN},

    /* What cannot be executed, and what only looks so. */
    {"not found", "\"$@\" no-such-command-anywhere", 127, -1, NORMAL, OWN},
    {"no such path", "\"$@\" ./nowhere/command", 127, -1, NORMAL, OWN},
    {"not executable", "echo true >f; chmod 644 f; \"$@\" ./f", 126, -1, NORMAL, OWN},
    {"a directory", "\"$@\" /", 126, -1, NORMAL, OWN},
    {"no interpreter", "echo '#!/no/such' >f; chmod 755 f; \"$@\" ./f", 127, 126, NORMAL,
     OWN}, /* the command is there, so that it is not "not found" */
    {"script without #!",
     "echo 'echo \"$0|$1|$2\"; exit 5' >f; chmod 755 f; \"$@\" ./f a 'b c'", 5, -1,
     NORMAL, SAME},
    {"found in PATH",
     "mkdir d; echo 'echo here' >d/cmd; chmod 755 d/cmd; PATH=$PWD/d:$PATH; \"$@\" cmd",
     0, -1, NORMAL, SAME},

    /* What the command is given. */
    {"arguments", "\"$@\" printf '<%s>' '' 'a b' -- -w --wall '*' '$x' \"\n\"", 0, -1,
     NORMAL, SAME},
    {"environment", "X='1 2' \"$@\" sh -c 'echo \"$X\"'", 0, -1, NORMAL, SAME},
    {"directory", "mkdir d; cd d; \"$@\" sh -c 'basename \"$PWD\"'", 0, -1, NORMAL, SAME},
    {"umask", "umask 027; \"$@\" sh -c umask", 0, -1, NORMAL, SAME},
    {"limits", "ulimit -n 99; \"$@\" sh -c 'ulimit -n'", 0, -1, NORMAL, SAME},

    /* Streams. */
    {"stdin", "\"$@\" cat", 0, -1, NORMAL, SAME},
    {"stdin in part", "\"$@\" head -c 5 | cat", 0, -1, NORMAL, SAME},
    {"stdin in a pipeline", "cat | \"$@\" wc -c | cat", 0, -1, NORMAL, SAME},
    {"stdin from a file", "echo data >f; \"$@\" cat <f", 0, -1, NORMAL, SAME},
    {"much output", "\"$@\" sh -c 'head -c 3000000 /dev/zero'", 0, -1, NORMAL, SAME},
    {"both streams", "\"$@\" sh -c 'echo out; echo err >&2; printf nolf'", 0, -1, NORMAL,
     SAME},
    {"both in one", "\"$@\" sh -c 'echo 1; echo 2 >&2; echo 3' 2>&1", 0, -1, NORMAL,
     SAME},
    {"SIGPIPE", "{ \"$@\" yes; echo $? >&2; } | head -n 3", 0, -1, NORMAL, SAME},
    {"a closed pipe", "{ \"$@\" sh -c 'exit 3'; echo $? >&2; } | true", 0, -1, NORMAL,
     SAME},
    {"status of a pipeline", "\"$@\" sh -c 'cat; exit 6' | cat >/dev/null; echo done", 0,
     -1, NORMAL, SAME},
    {"substitution", "x=$(\"$@\" echo in); echo \"<$x>\"", 0, -1, NORMAL, SAME},
    {"a loop that reads",
     "printf '1\\n2\\n3\\n' | while read x; do \"$@\" echo $x </dev/null; done", 0, -1,
     NORMAL, SAME},
    {"one in the other", "\"$@\" \"$@\" sh -c 'exit 4'", 4, -1, NORMAL, SAME},

    /* Time. */
    {"too long", "\"$@\" sleep 50", 124, -1, SHORT, SAME},
    {"output before", "\"$@\" sh -c 'echo begun; exec sleep 50'", 124, -1, SHORT, SAME},
    {"a tree", "\"$@\" sh -c 'sleep 50 & sleep 50 & wait'", 124, -1, SHORT, SAME},
    {"TERM trapped",
     "\"$@\" sh -c 'trap \"echo bye; exit 3\" TERM; echo up; while :; do sleep 0.02; "
     "done'",
     124, -1, SHORT, OWN},
    {"INT instead",
     "\"$@\" sh -c 'trap \"echo bye; exit 3\" INT; echo up; while :; do sleep 0.02; "
     "done'",
     124, -1, SHORT_INT, OWN},
    {"preserved", "\"$@\" sleep 50", 143, -1, SHORT_PRESERVE, SAME},
    {"preserved exit",
     "\"$@\" sh -c 'trap \"exit 3\" TERM; while :; do sleep 0.02; done'", 3, -1,
     SHORT_PRESERVE, OWN},
    {"preserved KILL", "\"$@\" sh -c 'trap \"\" TERM; exec sleep 50'", 137, -1,
     SHORT_KILL_PRESERVE, OWN},
    {"stopped", "\"$@\" sh -c 'kill -STOP $$'", 124, -1, SHORT, SAME},
    {"in time, in seconds", "\"$@\" sh -c 'exit 2'", 2, -1, SECONDS, SAME},
    {"in time, in minutes", "\"$@\" sh -c 'exit 2'", 2, -1, MINUTES, SAME},

    /* Where the two differ, by contract. A breach is 124, whatever signal it took. */
    {"KILL needed", "\"$@\" sh -c 'trap \"\" TERM; exec sleep 50'", 137, 124, SHORT_KILL,
     OWN},
    /* A signal to the wrapper cancels, whatever the command makes of it. */
    {"cancelled",
     "\"$@\" sh -c 'trap \"exit 4\" TERM; >up; while :; do sleep 0.02; done' &\n"
     "until [ -e up ]; do sleep 0.01; done\n"
     /* timeout runs away from its command when it gets one before it waits for it */
     "until [ \"$(cut -d' ' -f3 /proc/$!/stat)\" = S ]; do sleep 0.01; done\n"
     "kill -TERM $!; wait $!",
     4, 143, NORMAL, OWN},
    /* A limit of 0 is no limit, so it is none to be taken for one. */
    {"no limit", "\"$@\" true", 0, 125, ZERO, OWN},
};
#define ROW_COUNT (int)(sizeof(rows) / sizeof(rows[0]))

/* --- one run -------------------------------------------------------------------------
 */

struct stream {
    int fd;
    size_t length;
    char *bytes;
};

struct result {
    int status; /* as the script's shell has it */
    struct stream out;
    struct stream err;
};

/* In the child. A core dump takes long. */
static _Noreturn void become(const char *directory, const char *script,
                             const char *const *wrapper, const int fds[3])
{
    const char *argv[16] = {"sh", "-c", script, "sh"};
    const struct rlimit none = {0, 0};
    for (size_t i = 0; wrapper[i] != NULL; i++) {
        argv[4 + i] = strcmp(wrapper[i], "@") == 0 ? sbx_fixture_watch() : wrapper[i];
    }
    for (int i = 0; i < 3; i++) {
        if (dup2(fds[i], i) != i) {
            _exit(121);
        }
    }
    (void)signal(SIGPIPE, SIG_DFL);
    (void)setrlimit(RLIMIT_CORE, &none);
    /* A directory in it that may not be searched makes "not found" a "permission denied".
     */
    if (setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 1) == 0 && chdir(directory) == 0) {
        (void)execvp("sh", (char *const *)(uintptr_t)argv);
    }
    _exit(121);
}

/* Reads what there is; closes at the end. */
static void drain(struct stream *stream)
{
    ck_assert_uint_lt(stream->length, STREAM_SIZE);
    ssize_t length =
        read(stream->fd, stream->bytes + stream->length, STREAM_SIZE - stream->length);
    if (length > 0) {
        stream->length += (size_t)length;
    } else {
        sbx_fd_drop(&stream->fd);
    }
}

/* Writes more of the input; closes when there is no more, or no reader. */
static void feed(int *fd, const char *input, size_t size, size_t *done)
{
    ssize_t length = write(*fd, input + *done, size - *done);
    *done += length > 0 ? (size_t)length : 0;
    if (*done == size || (length < 0 && errno != EAGAIN)) {
        sbx_fd_drop(fd);
    }
}

static void serve(struct result *result, int *input_fd, const char *name)
{
    static char input[BIG_SIZE];
    size_t done = 0;
    for (size_t i = 0; i < sizeof(input); i++) {
        input[i] = (char)(i * 31 + i / 251);
    }
    uint64_t end_us = sbx_clock_us() + BOUND_SECONDS * SBX_US_PER_S;
    while (result->out.fd >= 0 || result->err.fd >= 0) {
        struct pollfd fds[] = {{.fd = result->out.fd, .events = POLLIN},
                               {.fd = result->err.fd, .events = POLLIN},
                               {.fd = *input_fd, .events = POLLOUT}};
        ck_assert_msg(sbx_clock_us() < end_us, "%s: too slow; stderr: %.*s", name,
                      (int)result->err.length, result->err.bytes);
        (void)poll(fds, 3, 1000);
        if (fds[0].revents != 0) {
            drain(&result->out);
        }
        if (fds[1].revents != 0) {
            drain(&result->err);
        }
        if (fds[2].revents != 0) {
            feed(input_fd, input, sizeof(input), &done);
        }
    }
    sbx_fd_drop(input_fd);
}

static void run(const struct row *row, const char *const *wrapper, const char *directory,
                struct result *result)
{
    int pipes[3][2];
    char path[SBX_FIXTURE_PATH_SIZE];
    ck_assert_int_eq(mkdir(sbx_fixture_path(path, directory), 0755), 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(pipe2(pipes[i], O_CLOEXEC), 0);
    }
    ck_assert_int_eq(fcntl(pipes[0][1], F_SETFL, O_WRONLY | O_NONBLOCK), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        const int fds[3] = {pipes[0][0], pipes[1][1], pipes[2][1]};
        become(path, row->script, wrapper, fds);
    }
    (void)close(pipes[0][0]);
    (void)close(pipes[1][1]);
    (void)close(pipes[2][1]);
    result->out = (struct stream){.fd = pipes[1][0], .bytes = malloc(STREAM_SIZE)};
    result->err = (struct stream){.fd = pipes[2][0], .bytes = malloc(STREAM_SIZE)};
    ck_assert(result->out.bytes != NULL && result->err.bytes != NULL);
    serve(result, &pipes[0][1], wrapper[0]);
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    while (waitpid(-1, NULL, 0) > 0) { /* whom timeout has ended and not waited for */
    }
    result->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void release(struct result *result)
{
    free(result->out.bytes);
    free(result->err.bytes);
}

/* --- both ----------------------------------------------------------------------------
 */

static void compare(const char *name, const char *which, const struct stream *timeout,
                    const struct stream *watch)
{
    bool same = timeout->length == watch->length &&
                memcmp(timeout->bytes, watch->bytes, watch->length) == 0;
    ck_assert_msg(same, "%s: %s differs: %zu bytes \"%.*s\", not %zu bytes \"%.*s\"",
                  name, which, watch->length,
                  (int)(watch->length < 200 ? watch->length : 200), watch->bytes,
                  timeout->length, (int)(timeout->length < 200 ? timeout->length : 200),
                  timeout->bytes);
}

START_TEST(both_do_the_same)
{
    const struct row *row = &rows[_i];
    const struct wrapper_row *wrapper = &wrappers[row->wrapper];
    struct result timeout;
    struct result watch;
    (void)signal(SIGPIPE, SIG_IGN);
    run(row, wrapper->timeout, "timeout", &timeout);
    ck_assert_msg(timeout.status == row->status, "%s: timeout has status %d, expected %d",
                  row->name, timeout.status, row->status);
    run(row, wrapper->watch, "watch", &watch);
    int expected = row->watch_status < 0 ? row->status : row->watch_status;
    ck_assert_msg(watch.status == expected, "%s: status %d, expected %d; stderr: %.*s",
                  row->name, watch.status, expected, (int)watch.err.length,
                  watch.err.bytes);
    if (row->watch_status != 125) {
        compare(row->name, "stdout", &timeout.out, &watch.out);
    }
    if (row->errors == SAME) {
        compare(row->name, "stderr", &timeout.err, &watch.err);
    }
    release(&timeout);
    release(&watch);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("timeout");
    TCase *both = sbx_fixture_case(suite, "side-by-side", 150);
    tcase_add_loop_test(both, both_do_the_same, 0, ROW_COUNT);
    return sbx_fixture_run(suite);
}
