/*
 * test_terminal.c - sbx-watch on a terminal, as a shell's job.
 *
 * Each test is an interactive shell as far as job control goes: it leads a session on a
 * pseudo-terminal of its own, starts jobs in groups of their own, gives the terminal to
 * them and takes it back, and is told of stops by waitpid. It also is the user: what it
 * writes to the master is typed, what it reads there is on the screen.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "tests/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define BOUND_SECONDS 60
#define QUICK_US 25000000
#define SCREEN_SIZE ((size_t)64 * 1024)
#define WORDS_MAX 32

#define CTRL_C "\003"
#define CTRL_Z "\032"
#define CTRL_BACKSLASH "\034"

/* The shell's terminal. */
static struct {
    int master;
    int slave;
    char screen[SCREEN_SIZE]; /* all that was ever written */
    size_t length;
    size_t seen; /* expect looks from here on */
} shell;

/* --- the terminal ---------------------------------------------------------------------
 */

static void set_size(unsigned short rows, unsigned short columns)
{
    struct winsize size = {.ws_row = rows, .ws_col = columns};
    ck_assert_int_eq(ioctl(shell.master, TIOCSWINSZ, &size), 0);
}

/* No echo, so that the screen has only what programs say. */
static void set_modes(void)
{
    struct termios modes;
    ck_assert_int_eq(tcgetattr(shell.slave, &modes), 0);
    modes.c_lflag &= ~(tcflag_t)(ECHO | ECHOE | ECHOK | ECHOCTL | TOSTOP);
    modes.c_lflag |= ISIG | ICANON;
    modes.c_oflag &= ~(tcflag_t)OPOST;
    ck_assert_int_eq(tcsetattr(shell.slave, TCSANOW, &modes), 0);
}

/* This process becomes the session's leader on a terminal of its own, as a shell's login
 * does. */
static void open_terminal(void)
{
    static const int ignored[] = {SIGTTOU, SIGTTIN, SIGTSTP, SIGINT, SIGQUIT, SIGHUP};
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++) {
        (void)signal(ignored[i], SIG_IGN);
    }
    ck_assert_msg(setsid() > 0 || getsid(0) == getpid(), "setsid: %s", strerror(errno));
    shell.master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert_int_ge(shell.master, 0);
    ck_assert_int_eq(grantpt(shell.master), 0);
    ck_assert_int_eq(unlockpt(shell.master), 0);
    char name[64];
    ck_assert_int_eq(ptsname_r(shell.master, name, sizeof(name)), 0);
    shell.slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert_int_ge(shell.slave, 0);
    ck_assert_int_eq(ioctl(shell.slave, TIOCSCTTY, 0), 0);
    set_modes();
    set_size(33, 77);
    shell.length = 0;
    shell.seen = 0;
}

static void close_terminal(void)
{
    sbx_fd_drop(&shell.master);
    sbx_fd_drop(&shell.slave);
}

/* For another one. */
static void leave_terminal(void)
{
    (void)ioctl(shell.slave, TIOCNOTTY, 0);
    close_terminal();
}

/* Reads what is on the screen now, or waits for it that long. */
static void look(int wait_ms)
{
    struct pollfd fd = {.fd = shell.master, .events = POLLIN};
    if (poll(&fd, 1, wait_ms) == 1 && (fd.revents & POLLIN) != 0) {
        ck_assert_uint_lt(shell.length, SCREEN_SIZE - 1);
        ssize_t length = read(shell.master, shell.screen + shell.length,
                              SCREEN_SIZE - 1 - shell.length);
        shell.length += length > 0 ? (size_t)length : 0;
    }
    shell.screen[shell.length] = '\0';
}

/* Waits until that comes up on the screen, after what was expected before. */
static void expect(const char *text)
{
    uint64_t end_us = sbx_clock_us() + BOUND_SECONDS * SBX_US_PER_S;
    const char *found;
    while ((found = strstr(shell.screen + shell.seen, text)) == NULL) {
        ck_assert_msg(sbx_clock_us() < end_us, "no \"%s\" on the screen: %s", text,
                      shell.screen);
        look(100);
    }
    shell.seen = (size_t)(found - shell.screen) + strlen(text);
}

static int count_of(const char *text)
{
    int count = 0;
    look(0);
    for (const char *at = shell.screen; (at = strstr(at, text)) != NULL; at++) {
        count++;
    }
    return count;
}

static void type(const char *keys)
{
    size_t length = strlen(keys);
    ck_assert_int_eq(write(shell.master, keys, length), (ssize_t)length);
}

static pid_t foreground(void)
{
    return tcgetpgrp(shell.slave);
}

static void give_terminal(pid_t pgid)
{
    ck_assert_msg(tcsetpgrp(shell.slave, pgid) == 0, "tcsetpgrp(%d): %s", (int)pgid,
                  strerror(errno));
}

/* --- jobs -----------------------------------------------------------------------------
 */

struct words {
    char *argv[WORDS_MAX + 1];
    char storage[WORDS_MAX][SBX_FIXTURE_PATH_SIZE];
};

/* "@NAME" is a helper, "@/NAME" a file in the test's directory, "@@" sbx-watch with a
 * report. */
static void put_words(struct words *words, const char *const *list)
{
    size_t count = 0;
    for (size_t i = 0; list[i] != NULL; i++) {
        ck_assert_uint_lt(count + 3, WORDS_MAX);
        char *slot = words->storage[count];
        words->argv[count++] = slot;
        if (strcmp(list[i], "@@") == 0) {
            (void)snprintf(slot, SBX_FIXTURE_PATH_SIZE, "%s", sbx_fixture_watch());
            words->argv[count] = words->storage[count];
            (void)snprintf(words->storage[count++], SBX_FIXTURE_PATH_SIZE, "--report");
            words->argv[count] = words->storage[count];
            (void)sbx_fixture_path(words->storage[count++], "report");
        } else if (strncmp(list[i], "@/", 2) == 0) {
            (void)sbx_fixture_path(slot, list[i] + 2);
        } else if (list[i][0] == '@') {
            (void)sbx_fixture_helper(slot, list[i] + 1);
        } else {
            ck_assert_uint_lt(strlen(list[i]), SBX_FIXTURE_PATH_SIZE);
            (void)snprintf(slot, SBX_FIXTURE_PATH_SIZE, "%s", list[i]);
        }
    }
    words->argv[count] = NULL;
}

enum place { FRONT, BACK };

/* One process of a job; pgid 0: it leads the job's group. in and out: -1 is the
 * terminal. */
struct start {
    const char *const *command;
    enum place place;
    pid_t pgid;
    int in;
    int out;
    bool ignores_hangup;
};

static _Noreturn void become(const struct start *start, char *const *argv)
{
    static const int standard[] = {SIGTTOU, SIGTTIN, SIGTSTP, SIGINT, SIGQUIT, SIGHUP};
    (void)setpgid(0, start->pgid);
    if (start->place == FRONT) {
        (void)tcsetpgrp(shell.slave, getpgrp());
    }
    for (size_t i = 0; i < sizeof(standard) / sizeof(standard[0]); i++) {
        (void)signal(standard[i], SIG_DFL);
    }
    if (start->ignores_hangup) {
        (void)signal(SIGHUP, SIG_IGN);
    }
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (dup2(start->in >= 0 ? start->in : shell.slave, 0) != 0 ||
        dup2(start->out >= 0 ? start->out : shell.slave, 1) != 1 ||
        dup2(shell.slave, 2) != 2) {
        _exit(121);
    }
    (void)execvp(argv[0], argv);
    _exit(121);
}

static pid_t start_process(const struct start *start)
{
    struct words *words = calloc(1, sizeof(*words));
    ck_assert_ptr_nonnull(words);
    put_words(words, start->command);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        become(start, words->argv);
    }
    (void)setpgid(pid, start->pgid == 0 ? pid : start->pgid);
    if (start->place == FRONT && start->pgid == 0) {
        give_terminal(pid);
    }
    free(words);
    return pid;
}

static pid_t start_job(enum place place, const char *const *command)
{
    struct start start = {.command = command, .place = place, .in = -1, .out = -1};
    return start_process(&start);
}

/* The next that the kernel has to tell of that job: its end or a stop. */
static int await_change(pid_t pid)
{
    uint64_t end_us = sbx_clock_us() + BOUND_SECONDS * SBX_US_PER_S;
    for (;;) {
        int status;
        pid_t found = waitpid(pid, &status, WUNTRACED | WNOHANG);
        ck_assert_int_ge(found, 0);
        if (found == pid) {
            return status;
        }
        ck_assert_msg(sbx_clock_us() < end_us, "no news of the job; screen: %s",
                      shell.screen);
        if (shell.master >= 0) {
            look(5); /* a full screen would hold it */
        } else {
            const struct timespec rest = {0, 5000000};
            (void)nanosleep(&rest, NULL);
        }
    }
}

static void await_stop(pid_t job, int signal_number)
{
    int status = await_change(job);
    ck_assert_msg(WIFSTOPPED(status), "not stopped, but status %x; screen: %s", status,
                  shell.screen);
    ck_assert_int_eq(WSTOPSIG(status), signal_number);
}

/* As a shell, takes the terminal back when a job has ended or was stopped. */
static void await_exit(pid_t job, int code)
{
    int status = await_change(job);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == code,
                  "status %x, not exit %d; screen: %s", status, code, shell.screen);
}

static void bring_to_front(pid_t job)
{
    give_terminal(job);
    ck_assert_int_eq(kill(-job, SIGCONT), 0);
}

/* The job is done with: nothing of it is left, and the report says what it should. */
static json_t *read_report(void)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    json_error_t error;
    ck_assert_msg(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD,
                  "processes are left");
    json_t *report =
        json_load_file(sbx_fixture_path(path, "report"), JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(report != NULL, "report: %s", error.text);
    char text[16 * 1024];
    ck_assert_int_gt(sbx_fd_read_text_at(AT_FDCWD, path, text, sizeof text), 0);
    sbx_fixture_collect(text);
    return report;
}

static void expect_report(const char *outcome, const char *reason)
{
    json_t *report = read_report();
    const char *found = json_string_value(json_object_get(report, "outcome"));
    ck_assert_str_eq(found, outcome);
    const json_t *breach = json_object_get(report, "breach");
    ck_assert_int_eq(breach != NULL, reason != NULL);
    if (reason != NULL) {
        ck_assert_str_eq(json_string_value(json_object_get(breach, "reason")), reason);
    }
    json_decref(report);
}

/* --- in the foreground -----------------------------------------------------------------
 */

START_TEST(a_tty_stays_a_tty)
{
    static const char *const command[] = {"@@", "--", "@tty_probe", "--read", NULL};
    open_terminal();
    pid_t job = start_job(FRONT, command);
    expect("tty 111 33x77 front\n");
    type("hello\n");
    expect("line hello\n");
    type("exit 7\n");
    await_exit(job, 7);
    /* Nobody but the shell has it now, if it does not take it back itself. */
    ck_assert_int_eq(foreground(), job);
    expect_report("exited", NULL);
    close_terminal();
}
END_TEST

/* Only the stream that is redirected is another; and what is captured comes to the
 * screen, also of one whose background processes may not write there. */
START_TEST(other_streams_stay_a_tty)
{
    static const struct {
        const char *command[8];
        const char *seen;
    } rows[] = {
        {{"@@", "--stderr", "/dev/null", "--", "@tty_probe", "--read", NULL},
         "tty 110 33x77 front\n"},
        {{"@@", "--stdin", "null", "--", "@tty_probe", "--tty", NULL}, "tty 011 "},
        {{"@@", "--output", "1M", "--", "@tty_probe", "--read", NULL},
         "tty 100 33x77 front\n"},
    };
    struct termios modes;
    open_terminal();
    ck_assert_int_eq(tcgetattr(shell.slave, &modes), 0);
    modes.c_lflag |= TOSTOP;
    ck_assert_int_eq(tcsetattr(shell.slave, TCSANOW, &modes), 0);
    pid_t job = start_job(FRONT, rows[_i].command);
    expect(rows[_i].seen);
    type("hello\n");
    expect("line hello\n");
    type("exit 7\n");
    await_exit(job, 7);
    expect_report("exited", NULL);
    close_terminal();
}
END_TEST

static const char *const probe[] = {"@@", "--", "@tty_probe", "--read", NULL};

static const struct key_row {
    const char *key;
    const char *got;
    int signal_number;
} keys[] = {{CTRL_C, "got 2\n", SIGINT}, {CTRL_BACKSLASH, "got 3\n", SIGQUIT}};
#define KEY_COUNT (int)(sizeof(keys) / sizeof(keys[0]))

START_TEST(a_key_reaches_the_command_once_and_is_its_own_matter)
{
    open_terminal();
    pid_t job = start_job(FRONT, probe);
    expect("up ");
    expect("front\n");
    for (int i = 1; i <= 3; i++) {
        type(keys[_i].key);
        expect(keys[_i].got);
        type("hello\n"); /* it is there and can be talked to */
        expect("line hello\n");
        ck_assert_int_eq(count_of(keys[_i].got), i);
    }
    type("exit 3\n");
    await_exit(job, 3);
    expect_report("exited", NULL);
    close_terminal();
}
END_TEST

static void without_core(void)
{
    const struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
}

START_TEST(a_key_ends_the_command_by_its_own_default)
{
    static const char *const command[] = {"@@",     "--",      "@tty_probe",
                                          "--read", "--plain", NULL};
    without_core();
    open_terminal();
    pid_t job = start_job(FRONT, command);
    expect("front\n");
    type(keys[_i].key);
    await_exit(job, 128 + keys[_i].signal_number);
    expect_report("signaled", NULL);
    close_terminal();
}
END_TEST

/* A session of its own has no terminal: ^C asks us to end the run, ^Z does nothing, and
 * neither does it in a pipeline. */
START_TEST(a_new_session_is_out_of_reach_of_the_terminal)
{
    static const char *const command[] = {
        "@@",         "--new-session", "--grace", "30",      "--",
        "@tty_probe", "--say",         "2",       "--plain", NULL};
    int ends[2];
    open_terminal();
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    struct start start = {.command = command, .in = _i == 0 ? -1 : ends[0], .out = -1};
    pid_t job = start_process(&start);
    expect(_i == 0 ? "tty 111" : "tty 011");
    expect("back\n");
    type(CTRL_Z);
    type(keys[0].key);
    await_exit(job, 128 + SIGINT);
    ck_assert_int_eq(foreground(), job);
    expect_report("cancelled", NULL);
    (void)close(ends[0]);
    (void)close(ends[1]);
    close_terminal();
}
END_TEST

START_TEST(a_change_of_size_reaches_the_command_once)
{
    open_terminal();
    pid_t job = start_job(FRONT, probe);
    expect("front\n");
    set_size(44, 88);
    expect("got 28 44x88\n");
    type("exit 0\n");
    await_exit(job, 0);
    ck_assert_int_eq(count_of("got 28"), 1);
    close_terminal();
    expect_report("exited", NULL);
}
END_TEST

START_TEST(the_command_can_open_its_terminal)
{
    static const char *const command[] = {"@@", "--", "@tty_probe", "--tty", NULL};
    open_terminal();
    SBX_AUTO_CLOSE int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct start start = {.command = command, .in = null, .out = -1};
    pid_t job = start_process(&start);
    expect("tty 011 33x77 front\n");
    type("exit 8\n");
    await_exit(job, 8);
    expect_report("exited", NULL);
    close_terminal();
}
END_TEST

/* --- stopped and continued -------------------------------------------------------------
 */

START_TEST(a_stop_stops_the_job_and_the_foreground_brings_it_back)
{
    open_terminal();
    pid_t job = start_job(FRONT, probe);
    expect("front\n");
    for (int i = 1; i <= 3; i++) {
        type(CTRL_Z);
        await_stop(job, SIGTSTP);
        ck_assert_int_eq(foreground(), job); /* not with the stopped command */
        give_terminal(getpid());
        bring_to_front(job);
        expect("got 18\n");
        type("hello\n");
        expect("line hello\n");
        ck_assert_int_eq(count_of("got 18\n"), i);
    }
    type("exit 5\n");
    await_exit(job, 5);
    ck_assert_int_eq(foreground(), job);
    expect_report("exited", NULL);
    close_terminal();
}
END_TEST

/* Also before the command is there to be stopped. */
START_TEST(a_stop_at_any_moment_of_the_start_is_no_end)
{
    for (long delay_us = 0; delay_us < 6000; delay_us += 150) {
        const struct timespec delay = {0, delay_us * 1000};
        uint64_t started_us = sbx_clock_us();
        open_terminal();
        pid_t job = start_job(FRONT, probe);
        (void)nanosleep(&delay, NULL);
        type(CTRL_Z);
        type("exit 5\n");
        int status = await_change(job);
        if (WIFSTOPPED(status)) {
            give_terminal(getpid());
            bring_to_front(job);
            status = await_change(job);
        }
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 5,
                      "status %x after %ld us; screen: %s", status, delay_us,
                      shell.screen);
        ck_assert_uint_lt(sbx_clock_us() - started_us, QUICK_US);
        expect_report("exited", NULL);
        leave_terminal();
    }
}
END_TEST

START_TEST(a_command_that_ignores_the_stop_goes_on)
{
    static const char *const command[] = {"@@",     "--",        "@tty_probe",
                                          "--read", "--no-stop", NULL};
    open_terminal();
    pid_t job = start_job(FRONT, command);
    expect("front\n");
    type(CTRL_Z);
    type("hello\n");
    expect("line hello\n");
    type("exit 5\n");
    await_exit(job, 5); /* and no news of a stop before */
    expect_report("exited", NULL);
    close_terminal();
}
END_TEST

/* A command that is stopped by somebody else in the foreground: a shell would say so. */
START_TEST(a_plain_stop_in_the_foreground_is_told_too)
{
    open_terminal();
    pid_t job = start_job(FRONT, probe);
    expect("up ");
    expect("front\n");
    pid_t command = (pid_t)strtol(strstr(shell.screen, "up ") + 3, NULL, 10);
    ck_assert_int_eq(getpgid(command), command);
    ck_assert_int_eq(kill(command, SIGSTOP), 0);
    await_stop(job, SIGTSTP);
    ck_assert_int_eq(foreground(), job);
    give_terminal(getpid());
    bring_to_front(job);
    expect("got 18\n");
    type("exit 6\n");
    await_exit(job, 6);
    expect_report("exited", NULL);
    close_terminal();
}
END_TEST

START_TEST(the_deadline_runs_on_while_the_job_is_stopped)
{
    static const char *const command[] = {"@@", "--wall",     "4",      "--grace", "0.3",
                                          "--", "@tty_probe", "--read", NULL};
    open_terminal();
    uint64_t started_us = sbx_clock_us();
    pid_t job = start_job(FRONT, command);
    expect("front\n");
    type(CTRL_Z);
    await_stop(job, SIGTSTP);
    give_terminal(getpid());
    await_exit(job, 124); /* nobody has brought it back */
    ck_assert_uint_lt(sbx_clock_us() - started_us, QUICK_US);
    ck_assert_int_eq(foreground(), getpid()); /* the terminal is the shell's still */
    expect_report("breach", "wall");
    close_terminal();
}
END_TEST

/* --- in the background -----------------------------------------------------------------
 */

START_TEST(reading_in_the_background_stops_the_job)
{
    open_terminal();
    pid_t job = start_job(BACK, probe);
    expect("back\n");
    await_stop(job, SIGTTIN);
    ck_assert_int_eq(foreground(), getpid());
    bring_to_front(job);
    expect("got 18\n");
    type("exit 4\n");
    await_exit(job, 4);
    expect_report("exited", NULL);
    close_terminal();
}
END_TEST

static const char *const late_probe[] = {"@@",     "--",     "@tty_probe",
                                         "--read", "--late", NULL};

/* A shell sends no signal to a job that was never stopped. */
START_TEST(a_running_job_is_brought_to_the_foreground)
{
    open_terminal();
    pid_t job = start_job(BACK, late_probe);
    expect("back\n");
    give_terminal(job);
    ck_assert_int_eq(kill(job, SIGUSR2), 0); /* now it reads */
    expect("got 12\n");
    type("exit 4\n");
    await_exit(job, 4);
    expect_report("exited", NULL);
    close_terminal();
}
END_TEST

/* ^Z, bg, and then it wants to read: the shell has the terminal all the while. */
START_TEST(a_job_sent_to_the_background_leaves_the_terminal_alone)
{
    open_terminal();
    pid_t job = start_job(FRONT, late_probe);
    expect("front\n");
    type(CTRL_Z);
    await_stop(job, SIGTSTP);
    give_terminal(getpid());
    ck_assert_int_eq(kill(-job, SIGCONT), 0);
    expect("got 18\n");
    ck_assert_int_eq(foreground(), getpid());
    ck_assert_int_eq(kill(job, SIGUSR2), 0);
    await_stop(job, SIGTTIN);
    ck_assert_int_eq(foreground(), getpid());
    bring_to_front(job);
    type("exit 9\n");
    await_exit(job, 9);
    expect_report("exited", NULL);
    close_terminal();
}
END_TEST

START_TEST(a_job_that_ends_in_the_background_leaves_the_terminal_alone)
{
    static const char *const command[] = {"@@", "--", "@tty_probe", NULL};
    open_terminal();
    pid_t job = start_job(FRONT, command);
    expect("front\n");
    type(CTRL_Z);
    await_stop(job, SIGTSTP);
    give_terminal(getpid());
    ck_assert_int_eq(kill(-job, SIGCONT), 0);
    expect("got 18\n");
    ck_assert_int_eq(kill(job, SIGUSR2), 0);
    await_exit(job, 42);
    ck_assert_int_eq(foreground(), getpid());
    expect_report("exited", NULL);
    close_terminal();
}
END_TEST

/* As `kill -TSTP %1` does it. */
START_TEST(a_stop_sent_to_the_job_stops_the_command)
{
    static const char *const command[] = {"@@", "--", "@tty_probe", NULL};
    open_terminal();
    pid_t job = start_job(BACK, command);
    expect("back\n");
    ck_assert_int_eq(kill(-job, SIGTSTP), 0);
    await_stop(job, SIGTSTP);
    ck_assert_int_eq(kill(-job, SIGCONT), 0);
    expect("got 18\n");
    ck_assert_int_eq(kill(job, SIGUSR2), 0);
    await_exit(job, 42);
    expect_report("exited", NULL);
    close_terminal();
}
END_TEST

/* --- in a pipeline ---------------------------------------------------------------------
 */

struct pipeline {
    pid_t watch; /* leads the group */
    pid_t reader;
};

static void expect_all_up(void)
{
    uint64_t end_us = sbx_clock_us() + BOUND_SECONDS * SBX_US_PER_S;
    while (count_of("up ") < 2) {
        ck_assert_msg(sbx_clock_us() < end_us, "not all are up: %s", shell.screen);
        look(100);
    }
}

static struct pipeline start_pipeline(enum place place, const char *const *watch)
{
    static const char *const reader[] = {"@tty_probe", "--tty", "--plain", NULL};
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    struct start first = {.command = watch, .place = place, .in = -1, .out = ends[1]};
    struct pipeline job = {.watch = start_process(&first)};
    expect("up "); /* from now on the command is in the group, too */
    struct start second = {
        .command = reader, .place = place, .pgid = job.watch, .in = ends[0], .out = -1};
    job.reader = start_process(&second);
    (void)close(ends[0]);
    (void)close(ends[1]);
    return job;
}

static const char *const piped[] = {"@@", "--", "@tty_probe", "--say", "2", NULL};

START_TEST(the_other_program_of_a_pipeline_keeps_the_terminal)
{
    open_terminal();
    struct pipeline job = start_pipeline(FRONT, piped);
    expect("tty 101");
    expect("front\n");
    expect("tty 011");
    expect("front\n");
    type("hello\n");
    expect("line hello\n");
    ck_assert_int_eq(foreground(), job.watch);
    ck_assert_int_eq(kill(job.watch, SIGUSR2), 0);
    expect("got 12\n");
    await_exit(job.watch, 42);
    type("exit 0\n");
    await_exit(job.reader, 0);
    expect_report("exited", NULL);
    close_terminal();
}
END_TEST

/* The same key reaches all; the command has it once, and its end is its own. */
START_TEST(a_key_in_a_pipeline_reaches_all_once)
{
    open_terminal();
    struct pipeline job = start_pipeline(FRONT, piped);
    expect_all_up();
    type(CTRL_C);
    expect("got 2\n");
    int status = await_change(job.reader);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    ck_assert_int_eq(kill(job.watch, SIGUSR2), 0);
    await_exit(job.watch, 42);
    ck_assert_int_eq(count_of("got 2\n"), 1);
    expect_report("exited", NULL);
    close_terminal();
}
END_TEST

START_TEST(a_pipeline_is_stopped_and_continued_as_one)
{
    open_terminal();
    struct pipeline job = start_pipeline(FRONT, piped);
    expect_all_up();
    for (int i = 0; i < 3; i++) {
        type(CTRL_Z);
        await_stop(job.watch, SIGTSTP);
        await_stop(job.reader, SIGTSTP);
        give_terminal(getpid());
        bring_to_front(job.watch);
        expect("got 18\n");
        expect("got 18\n");
        type("hello\n");
        expect("line hello\n");
    }
    ck_assert_int_eq(kill(job.watch, SIGUSR2), 0);
    await_exit(job.watch, 42); /* and no second stop of its own before */
    type("exit 0\n");
    await_exit(job.reader, 0);
    expect_report("exited", NULL);
    close_terminal();
}
END_TEST

/* Started with `&`, brought to the foreground: the pager needs the terminal. */
START_TEST(a_pipeline_from_the_background_keeps_the_terminal)
{
    open_terminal();
    struct pipeline job = start_pipeline(BACK, piped);
    await_stop(job.reader, SIGTTIN);
    await_stop(job.watch, SIGTTIN); /* to the whole group */
    bring_to_front(job.watch);
    type("hello\n");
    expect("line hello\n");
    ck_assert_int_eq(foreground(), job.watch);
    ck_assert_int_eq(kill(job.watch, SIGUSR2), 0);
    await_exit(job.watch, 42);
    type("exit 0\n");
    await_exit(job.reader, 0);
    expect_report("exited", NULL);
    close_terminal();
}
END_TEST

/* --- below a script --------------------------------------------------------------------
 */

/* What comes next in a script has the terminal again. */
static const char *const scripts[] = {
    "\"$@\" true; read line; echo \"<$line>\"",
    "\"$@\" sh -c 'exit 3'; read line; echo \"<$line>\"",
    "\"$@\" /nonexistent/command 2>/dev/null; read line; echo \"<$line>\"",
    "\"$@\" --wall 0.2 --grace 0 sleep 50 2>/dev/null; read line; echo \"<$line>\"",
    /* A shell with job control in between: its jobs have groups of their own. */
    "\"$@\" sh -mc 'sleep 0.01; true'; read line; echo \"<$line>\"",
    /* Beside the script's own use of the terminal. */
    "\"$@\" sleep 50 & read line; kill $!; wait; echo \"<$line>\"",
};
#define SCRIPT_COUNT (int)(sizeof(scripts) / sizeof(scripts[0]))

START_TEST(a_script_has_the_terminal_again)
{
    const char *const command[] = {"sh", "-c", scripts[_i], "sh", "@@", NULL};
    open_terminal();
    pid_t job = start_job(FRONT, command);
    type("hello\n");
    expect("<hello>\n");
    await_exit(job, 0);
    ck_assert_int_eq(foreground(), job);
    close_terminal();
}
END_TEST

/* Bystanders, and a terminal: front and guard in one group. */
START_TEST(a_front_is_stopped_and_continued_with_its_guard)
{
    static const char *const command[] = {
        "sh", "-c", "sleep 50 </dev/null >/dev/null 2>&1 & exec \"$@\" --read",
        "sh", "@@", "@tty_probe",
        NULL};
    open_terminal();
    pid_t job = start_job(FRONT, command);
    expect("tty 111 33x77 front\n");
    type(CTRL_C);
    expect("got 2\n");
    for (int i = 1; i <= 2; i++) {
        type(CTRL_Z);
        await_stop(job, SIGTSTP);
        ck_assert_int_eq(foreground(), job);
        give_terminal(getpid());
        bring_to_front(job);
        expect("got 18\n");
        type("hello\n");
        expect("line hello\n");
    }
    ck_assert_int_eq(count_of("got 2\n"), 1);
    type("exit 5\n");
    await_exit(job, 5);
    ck_assert_int_eq(kill(-job, SIGKILL), 0); /* the bystander */
    while (waitpid(-1, NULL, 0) > 0) {
    }
    expect_report("exited", NULL);
    close_terminal();
}
END_TEST

/* --- hung up ---------------------------------------------------------------------------
 */

static void expect_hangup_report(void)
{
    json_t *report = read_report();
    const char *outcome = json_string_value(json_object_get(report, "outcome"));
    const char *cancel = json_string_value(json_object_get(report, "cancel_signal"));
    const char *ended = json_string_value(json_object_get(report, "signal"));
    if (strcmp(outcome, "cancelled") == 0) {
        ck_assert_str_eq(cancel, "SIGHUP");
    } else {
        ck_assert_str_eq(outcome, "signaled"); /* the command was told directly */
        ck_assert_str_eq(ended, "SIGHUP");
    }
    json_decref(report);
}

/* The window is closed: the kernel tells the shell, and that its jobs. */
START_TEST(a_hangup_ends_the_run)
{
    static const char *const command[] = {"@@", "--grace",    "0.3",
                                          "--", "@tty_probe", NULL};
    open_terminal();
    pid_t job = start_job(FRONT, command);
    expect("front\n");
    sbx_fd_drop(&shell.master);
    ck_assert_int_eq(kill(-job, SIGHUP), 0);
    ck_assert_int_eq(kill(-job, SIGCONT), 0);
    await_exit(job, 128 + SIGHUP);
    expect_hangup_report();
    close_terminal();
}
END_TEST

START_TEST(a_run_under_nohup_survives_the_hangup)
{
    static const char *const command[] = {
        "@@",
        "--",
        "sh",
        "-c",
        "echo up .; while [ ! -e \"$1\" ]; do sleep 0.01; done; exit 9",
        "sh",
        "@/go",
        NULL};
    char path[SBX_FIXTURE_PATH_SIZE];
    open_terminal();
    struct start start = {
        .command = command, .in = -1, .out = -1, .ignores_hangup = true};
    pid_t job = start_process(&start);
    expect("up .");
    sbx_fd_drop(&shell.master);
    ck_assert_int_eq(kill(-job, SIGHUP), 0);
    ck_assert_int_eq(kill(-job, SIGCONT), 0);
    ck_assert_int_eq(mkdir(sbx_fixture_path(path, "go"), 0700), 0);
    await_exit(job, 9);
    expect_report("exited", NULL);
    close_terminal();
}
END_TEST

/* A session's leader that ends, or is sbx-watch itself (`ssh -t HOST sbx-watch …`). */
enum leader { LEADER_ENDS, LEADER_IS_WATCH, LEADER_IS_WATCH_IN_PIPELINE, LEADER_COUNT };

static _Noreturn void lead_session(enum leader leader, struct words *words)
{
    (void)close(shell.master);
    int slave = shell.slave;
    if (setsid() < 0 || ioctl(slave, TIOCSCTTY, 0) < 0) {
        _exit(121);
    }
    struct start start = {.in = -1, .out = -1, .pgid = getpid()};
    if (leader == LEADER_IS_WATCH_IN_PIPELINE) {
        int ends[2];
        start.out = pipe2(ends, O_CLOEXEC) == 0 ? ends[1] : -1;
    }
    if (leader == LEADER_ENDS) {
        pid_t job = fork();
        if (job == 0) {
            start.pgid = 0;
            become(&start, words->argv);
        }
        (void)pause();
        _exit(121);
    }
    become(&start, words->argv);
}

START_TEST(the_end_of_the_session_ends_the_run)
{
    static const char *const command[] = {"@@",         "--grace", "0.3", "--",
                                          "@tty_probe", "--say",   "2",   NULL};
    enum leader leader = (enum leader)_i;
    struct words words;
    put_words(&words, command);
    shell.master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert(shell.master >= 0 && grantpt(shell.master) == 0 &&
              unlockpt(shell.master) == 0);
    char name[64];
    ck_assert_int_eq(ptsname_r(shell.master, name, sizeof(name)), 0);
    shell.slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert_int_ge(shell.slave, 0);
    (void)signal(SIGTTOU, SIG_IGN);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        lead_session(leader, &words);
    }
    sbx_fd_drop(&shell.slave);
    expect("front");
    if (leader == LEADER_ENDS) {
        ck_assert_int_eq(kill(pid, SIGKILL), 0);
    } else {
        sbx_fd_drop(&shell.master);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    if (leader != LEADER_ENDS) {
        ck_assert_int_eq(WEXITSTATUS(status), 128 + SIGHUP);
    }
    while (waitpid(-1, NULL, 0) > 0) {
    }
    expect_hangup_report();
    close_terminal();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("terminal");
    shell.master = -1;
    shell.slave = -1;
    TCase *front = sbx_fixture_case(suite, "foreground", 120);
    tcase_add_test(front, a_tty_stays_a_tty);
    tcase_add_loop_test(front, other_streams_stay_a_tty, 0, 3);
    tcase_add_loop_test(front, a_key_reaches_the_command_once_and_is_its_own_matter, 0,
                        KEY_COUNT);
    tcase_add_loop_test(front, a_key_ends_the_command_by_its_own_default, 0, KEY_COUNT);
    tcase_add_loop_test(front, a_new_session_is_out_of_reach_of_the_terminal, 0, 2);
    tcase_add_test(front, a_change_of_size_reaches_the_command_once);
    tcase_add_test(front, the_command_can_open_its_terminal);
    TCase *stops = sbx_fixture_case(suite, "stops", 120);
    tcase_add_test(stops, a_stop_stops_the_job_and_the_foreground_brings_it_back);
    tcase_add_test(stops, a_stop_at_any_moment_of_the_start_is_no_end);
    tcase_add_test(stops, a_command_that_ignores_the_stop_goes_on);
    tcase_add_test(stops, a_plain_stop_in_the_foreground_is_told_too);
    tcase_add_test(stops, the_deadline_runs_on_while_the_job_is_stopped);
    TCase *back = sbx_fixture_case(suite, "background", 120);
    tcase_add_test(back, reading_in_the_background_stops_the_job);
    tcase_add_test(back, a_running_job_is_brought_to_the_foreground);
    tcase_add_test(back, a_job_sent_to_the_background_leaves_the_terminal_alone);
    tcase_add_test(back, a_job_that_ends_in_the_background_leaves_the_terminal_alone);
    tcase_add_test(back, a_stop_sent_to_the_job_stops_the_command);
    TCase *pipes = sbx_fixture_case(suite, "pipelines", 120);
    tcase_add_test(pipes, the_other_program_of_a_pipeline_keeps_the_terminal);
    tcase_add_test(pipes, a_key_in_a_pipeline_reaches_all_once);
    tcase_add_test(pipes, a_pipeline_is_stopped_and_continued_as_one);
    tcase_add_test(pipes, a_pipeline_from_the_background_keeps_the_terminal);
    TCase *below = sbx_fixture_case(suite, "scripts", 120);
    tcase_add_loop_test(below, a_script_has_the_terminal_again, 0, SCRIPT_COUNT);
    tcase_add_test(below, a_front_is_stopped_and_continued_with_its_guard);
    TCase *hangups = sbx_fixture_case(suite, "hangups", 120);
    tcase_add_test(hangups, a_hangup_ends_the_run);
    tcase_add_test(hangups, a_run_under_nohup_survives_the_hangup);
    tcase_add_loop_test(hangups, the_end_of_the_session_ends_the_run, 0, LEADER_COUNT);
    return sbx_fixture_run(suite);
}
