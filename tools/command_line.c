/*
 * command_line.c - see command_line.h.
 */
#include "tools/command_line.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define HEAD_SIZE 64
/* How long a message may wait until stderr takes it. */
#define PATIENCE_S 2

/* Shape of the help. */
#define HELP_COLUMN 32
#define HELP_WIDTH 80

/* --- messages --- */

static void interrupt(int signal_number)
{
    (void)signal_number;
}

/* From PATIENCE_S on a write that blocks is interrupted, and again if that came too early
 * to hit it. */
static void begin_patience(void)
{
    const struct itimerval timer = {.it_interval = {.tv_usec = 100000},
                                    .it_value = {.tv_sec = PATIENCE_S}};
    struct sigaction action = {.sa_handler = interrupt}; /* without SA_RESTART */
    sigset_t alarms;
    (void)sigemptyset(&alarms);
    (void)sigaddset(&alarms, SIGALRM);
    (void)sigaction(SIGALRM, &action, NULL);
    (void)sigprocmask(SIG_UNBLOCK, &alarms, NULL);
    (void)setitimer(ITIMER_REAL, &timer, NULL);
}

static void end_patience(void)
{
    const struct itimerval never = {.it_value = {.tv_sec = 0}};
    (void)setitimer(ITIMER_REAL, &never, NULL);
}

void sbx_line_complain(const char *program, const char *what, const char *message,
                       const char *hint)
{
    char line[SBX_ERROR_MESSAGE_SIZE + 160];
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGTTOU, SIG_IGN);
    int length =
        snprintf(line, sizeof line, "%s: %s%s%s\n", program, what, message, hint);
    if (length < 0) {
        return;
    }
    begin_patience();
    (void)!write(STDERR_FILENO, line, strlen(line));
    end_patience();
}

/* --- options --- */

const struct sbx_option *sbx_line_find(const struct sbx_option *table, size_t count,
                                       const char *name, char letter)
{
    for (size_t i = 0; i < count; i++) {
        bool found = name != NULL ? strcmp(table[i].name, name) == 0
                                  : letter != 0 && table[i].letter == letter;
        if (found) {
            return &table[i];
        }
    }
    return NULL;
}

/* Words of text from the current column on, wrapped. */
static void print_wrapped(const char *text)
{
    size_t column = HELP_COLUMN;
    const char *word = text;
    while (*word != '\0') {
        size_t length = strcspn(word, " ");
        if (word != text && column + 1 + length > HELP_WIDTH) {
            (void)printf("\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
        } else if (word != text) {
            (void)putchar(' ');
            column++;
        }
        (void)printf("%.*s", (int)length, word);
        column += length;
        word += length + strspn(word + length, " ");
    }
    (void)putchar('\n');
}

void sbx_line_print_options(const struct sbx_option *table, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct sbx_option *option = &table[i];
        if (i == 0 || strcmp(option->group, table[i - 1].group) != 0) {
            (void)printf("\n%s:\n", option->group);
        }
        const char letter[] = {'-', option->letter, ',', '\0'};
        char head[HEAD_SIZE];
        (void)snprintf(head, sizeof head, "  %3s --%s%s%s",
                       option->letter != 0 ? letter : "", option->name,
                       option->value != NULL ? " " : "",
                       option->value != NULL ? option->value : "");
        /* A long one has a line of its own. */
        if (strlen(head) >= HELP_COLUMN) {
            (void)printf("%s\n", head);
            head[0] = '\0';
        }
        (void)printf("%-*s", HELP_COLUMN, head);
        print_wrapped(option->help);
    }
}

/* --- standard streams --- */

int sbx_line_close_stdout(const char *program)
{
    /* Both: fclose alone forgets an error of an earlier flush. */
    bool failed = ferror(stdout) != 0;
    failed = fclose(stdout) != 0 || failed;
    if (failed) {
        sbx_line_complain(program, "", "cannot write to stdout", "");
        return SBX_STATUS_FAILED;
    }
    return EXIT_SUCCESS;
}

int sbx_line_open_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", O_RDWR) < 0) { /* NOLINT(android-cloexec-open) */
            return -errno;
        }
    }
    return 0;
}
