/*
 * tty_probe [OPTION]... - says what it sees of its terminal, and every signal that
 * reaches it.
 *
 * Says "up PID tty IOE ROWSxCOLS GROUP", where I, O and E are 1 for a standard stream
 * that is a terminal, and GROUP is "front" when the controlling terminal is with its
 * process group, else "back". Then "got N" for each INT, QUIT, USR2, CONT and WINCH (with
 * the new size), and waits; USR2 makes it exit 42.
 *
 * --read       reads lines from standard input: "line TEXT"; a line "exit N" ends it
 * --tty        reads from /dev/tty instead
 * --late       begins to read when USR2 has come, and only then
 * --say N      speaks on that descriptor, not on standard output
 * --plain      leaves INT and QUIT to their default actions
 * --keep-term  says TERM too, and goes on
 * --no-stop    ignores TSTP
 */
#include "helper.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/ioctl.h>

static int say_fd = STDOUT_FILENO;
static int size_fd = STDIN_FILENO;
static bool late;
static volatile sig_atomic_t told;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if (length > 0 && (size_t)length < sizeof(line) &&
        write(say_fd, line, (size_t)length) != length) {
        _exit(90);
    }
}

static struct winsize size(void)
{
    struct winsize found = {0};
    (void)ioctl(size_fd, TIOCGWINSZ, &found);
    return found;
}

static void on_signal(int signal_number)
{
    int error = errno;
    if (signal_number == SIGWINCH) {
        struct winsize now = size();
        say("got %d %dx%d\n", signal_number, now.ws_row, now.ws_col);
    } else {
        say("got %d\n", signal_number);
    }
    if (signal_number == SIGUSR2 && !late) {
        _exit(42);
    }
    told = told || signal_number == SIGUSR2;
    errno = error;
}

static void hear(int signal_number)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    (void)sigfillset(&action.sa_mask); /* one line at a time */
    (void)sigaction(signal_number, &action, NULL);
}

/* A terminal gives one line at a time. */
static _Noreturn void read_lines(int fd)
{
    char line[256];
    for (;;) {
        ssize_t length = read(fd, line, sizeof(line) - 1);
        if (length < 0 && errno == EINTR) {
            continue;
        }
        if (length <= 0) {
            say("end %d\n", length < 0 ? errno : 0);
            _exit(43);
        }
        line[length] = '\0';
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "exit ", 5) == 0) {
            _exit((int)strtol(line + 5, NULL, 10));
        }
        say("line %s\n", line);
    }
}

static void wait_until_told(void)
{
    sigset_t usr2;
    sigset_t old;
    (void)sigemptyset(&usr2);
    (void)sigaddset(&usr2, SIGUSR2);
    (void)sigprocmask(SIG_BLOCK, &usr2, &old);
    while (!told) {
        (void)sigsuspend(&old);
    }
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
}

int main(int argc, char **argv)
{
    helper_bound(HELPER_LIFETIME_SECONDS);
    bool reads = false;
    bool plain = false;
    int tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
    int read_fd = STDIN_FILENO;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--read") == 0) {
            reads = true;
        } else if (strcmp(argv[i], "--tty") == 0) {
            reads = true;
            read_fd = tty;
        } else if (strcmp(argv[i], "--late") == 0) {
            late = true;
        } else if (strcmp(argv[i], "--plain") == 0) {
            plain = true;
        } else if (strcmp(argv[i], "--keep-term") == 0) {
            hear(SIGTERM);
        } else if (strcmp(argv[i], "--no-stop") == 0) {
            (void)signal(SIGTSTP, SIG_IGN);
        } else if (strcmp(argv[i], "--say") == 0) {
            say_fd = (int)helper_number(argc, argv, ++i, 1, 9);
        } else {
            return 92;
        }
    }
    size_fd = tty >= 0 ? tty : STDIN_FILENO;
    if (!plain) {
        hear(SIGINT);
        hear(SIGQUIT);
    }
    hear(SIGUSR2);
    hear(SIGCONT);
    hear(SIGWINCH);
    struct winsize now = size();
    say("up %d tty %d%d%d %dx%d %s\n", (int)getpid(), isatty(0), isatty(1), isatty(2),
        now.ws_row, now.ws_col,
        tty >= 0 && tcgetpgrp(tty) == getpgrp() ? "front" : "back");
    if (late) {
        wait_until_told();
    }
    if (reads) {
        read_lines(read_fd);
    }
    helper_idle();
}
