/*
 * sbx-watch.c - the command line: options from argv into a specification, the help from
 * the option table, and the library's answer as message and exit status.
 *
 * Sees nothing of the project but <sbx/sbx.h>. Whatever is wrong with the options, the
 * command does not run: the first error is the one that counts, and the remaining options
 * are looked at only so that a report that was asked for says why nothing ran. Before the
 * run it changes no signal but USR1, which it blocks, and no descriptor but closed ones
 * of 0 to 2; the library does that. No message of its own waits without end.
 */
#include <sbx/sbx.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define NAME_SIZE 64
#define LETTER_SIZE 8
/* How long a message may wait until stderr takes it. */
#define PATIENCE_S 2

/* Shape of the help. */
#define HELP_COLUMN 32
#define HELP_WIDTH 80

enum action { ACTION_RUN, ACTION_HELP, ACTION_VERSION };

/* A walk through argv. */
struct scan {
    struct sbx_spec *spec;
    char **argv;
    int next; /* index of the argument to look at; at the end, of the command */
    enum action action;
    struct sbx_error failure; /* the first one; code 0: none */
    const char *hint;         /* goes with the failure */
    bool no_stdout;           /* it was closed when we started */
    bool no_stderr;
    bool attaches;          /* --pid, --cgroup: no command is wanted */
    const char *run_option; /* the first that was given, of those that are about a run */
    /* The same of a verification, which has a mode of its own. */
    const char *verify_option;
    struct sbx_verification *verification;
    bool verifies;
    bool json;
};

static const char help_hint[] = " (try sbx-watch --help)";
static const char usage_hint[] = " (usage: sbx-watch [OPTION]... [--] COMMAND [ARG]...)";

static const struct sbx_option own_options[] = {
    {"help", 'h', NULL, "Other", "print this text and exit"},
    {"version", 'V', NULL, "Other", "print the version and exit"},
};
#define OWN_COUNT (sizeof own_options / sizeof own_options[0])

static void interrupt(int signal_number)
{
    (void)signal_number;
}

/* From PATIENCE_S on a write that blocks is interrupted, and again if that came too early
 * to hit it. */
static void limit_patience(void)
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

/* A line on stderr. The reader may be gone: that must not turn our exit status into a
 * death by SIGPIPE, nor one that reads nothing, or a terminal, make us wait for ever.
 * Nothing is started after this, so nothing inherits the dispositions. */
static void complain(const char *message, const char *hint)
{
    char line[SBX_ERROR_MESSAGE_SIZE + 128];
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGTTOU, SIG_IGN);
    int length = snprintf(line, sizeof line, "sbx-watch: %s%s\n", message, hint);
    if (length < 0) {
        return;
    }
    limit_patience();
    (void)!write(STDERR_FILENO, line, strlen(line));
}

/* Else the next file that is opened would become the command's standard stream. */
static int open_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", O_RDWR) < 0) { /* NOLINT(android-cloexec-open) */
            return -errno;
        }
    }
    return 0;
}

static const struct sbx_option *find_in(const struct sbx_option *table, size_t count,
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

/* By name, or by letter where name is NULL. */
static const struct sbx_option *find_option(const char *name, char letter)
{
    size_t count = 0;
    const struct sbx_option *table = sbx_options(&count);
    const struct sbx_option *found = find_in(own_options, OWN_COUNT, name, letter);
    found = found != NULL ? found : find_in(table, count, name, letter);
    table = sbx_verification_options(&count);
    return found != NULL ? found : find_in(table, count, name, letter);
}

static bool is_about_verification(const struct sbx_option *option)
{
    size_t count = 0;
    const struct sbx_option *table = sbx_verification_options(&count);
    return option >= table && option < table + count;
}

/* Keeps the first failure. */
static void fail(struct scan *scan, const struct sbx_error *failure, const char *hint)
{
    if (scan->failure.code == 0) {
        scan->failure = *failure;
        scan->hint = hint;
    }
}

/* What we have opened in the place of a closed stream would swallow what is meant for it.
 */
static void refuse_closed(struct scan *scan, const char *name, const char *value)
{
    struct sbx_error error = {.code = EBADF, .stage = SBX_STAGE_OPTIONS};
    bool by_fd = strcmp(name, "report-fd") == 0;
    const char *what = NULL;
    if (scan->no_stderr && ((strcmp(name, "report") == 0 && strcmp(value, "-") == 0) ||
                            (strcmp(name, "log") == 0 && strcmp(value, "stderr") == 0) ||
                            (by_fd && strcmp(value, "2") == 0))) {
        what = "standard error";
    } else if (scan->no_stdout &&
               (strcmp(name, "detach") == 0 || (by_fd && strcmp(value, "1") == 0))) {
        what = "standard output";
    }
    if (what != NULL) {
        (void)snprintf(error.message, sizeof error.message,
                       "option --%s: %s%s%s is closed", name, value != NULL ? value : "",
                       value != NULL ? ": " : "", what);
        fail(scan, &error, "");
    }
}

static void apply_to_verification(struct scan *scan, const struct sbx_option *option,
                                  const char *value)
{
    struct sbx_error error = {.code = EINVAL, .stage = SBX_STAGE_OPTIONS};
    scan->verify_option =
        scan->verify_option != NULL ? scan->verify_option : option->name;
    if (option->value == NULL && value != NULL) {
        (void)snprintf(error.message, sizeof error.message, "option --%s: takes no value",
                       option->name);
        fail(scan, &error, "");
    } else if (strcmp(option->name, "verify") == 0) {
        scan->verifies = true;
    } else if (strcmp(option->name, "json") == 0) {
        scan->json = true;
    } else if (sbx_verification_set(scan->verification, option->name, value, &error) <
               0) {
        fail(scan, &error, "");
    }
}

/* `option` is NULL for a name that no option has. */
static void apply_to_run(struct scan *scan, const struct sbx_option *option,
                         const char *name, const char *value)
{
    struct sbx_error error = {.code = EINVAL, .stage = SBX_STAGE_OPTIONS};
    if (sbx_spec_set(scan->spec, name, value, &error) < 0) {
        fail(scan, &error, option == NULL ? help_hint : "");
        return;
    }
    scan->run_option = scan->run_option != NULL ? scan->run_option : option->name;
    if (strcmp(name, "pid") == 0 || strcmp(name, "cgroup") == 0) {
        scan->attaches = true;
    } else {
        refuse_closed(scan, name, value);
    }
}

/* Carries out one option. --help and --version end the walk, unless an error came first:
 * that must not exit 0. */
static void apply(struct scan *scan, const struct sbx_option *option, const char *name,
                  const char *value)
{
    struct sbx_error error = {.code = EINVAL, .stage = SBX_STAGE_OPTIONS};
    bool own = option >= own_options && option < own_options + OWN_COUNT;
    if (own && value != NULL) {
        (void)snprintf(error.message, sizeof error.message, "option --%s: takes no value",
                       name);
        fail(scan, &error, "");
    } else if (own && scan->failure.code == 0) {
        scan->action = option == own_options ? ACTION_HELP : ACTION_VERSION;
    } else if (is_about_verification(option)) {
        apply_to_verification(scan, option, value);
    } else if (!own) {
        apply_to_run(scan, option, name, value);
    }
}

/* The argument of an option that did not bring it along; NULL at the end of argv. */
static const char *take_value(struct scan *scan)
{
    const char *value = scan->argv[scan->next];
    if (value != NULL) {
        scan->next++;
    }
    return value;
}

/* --name, --name=VALUE, --name VALUE. */
static void scan_long(struct scan *scan, const char *text)
{
    char name[NAME_SIZE];
    size_t length = strcspn(text, "=");
    /* A name that is cut here is longer than any that exists, and stays unknown. */
    (void)snprintf(name, sizeof name, "%.*s",
                   (int)(length < NAME_SIZE ? length : NAME_SIZE), text);
    const struct sbx_option *option = find_option(name, 0);
    const char *value = NULL;
    if (text[length] == '=') {
        value = text + length + 1;
    } else if (option != NULL && option->value != NULL) {
        value = take_value(scan);
    }
    apply(scan, option, name, value);
}

static void refuse_letter(struct scan *scan, unsigned char letter)
{
    struct sbx_error error = {.code = EINVAL, .stage = SBX_STAGE_OPTIONS};
    if (letter > ' ' && letter < 0x7f) {
        (void)snprintf(error.message, sizeof error.message, "unknown option -%c", letter);
    } else {
        (void)snprintf(error.message, sizeof error.message, "unknown option -\\x%02X",
                       letter);
    }
    fail(scan, &error, help_hint);
}

/* A bundle of flags, the last of which may be an option with its argument: -q, -qw5,
 * -qw 5. After an unknown letter the rest of the bundle means nothing. */
static void scan_letters(struct scan *scan, const char *letters)
{
    for (; *letters != '\0' && scan->action == ACTION_RUN; letters++) {
        const struct sbx_option *option = find_option(NULL, *letters);
        if (option == NULL) {
            refuse_letter(scan, (unsigned char)*letters);
            return;
        }
        if (option->value != NULL) {
            const char *value = letters[1] != '\0' ? letters + 1 : take_value(scan);
            apply(scan, option, option->name, value);
            return;
        }
        apply(scan, option, option->name, NULL);
    }
}

/* Stops at the first operand, after "--", and at an option that asks for the help. An
 * operand after an error ends the walk too: what follows belongs to the command, and a
 * `-r FILE` of its own must not be overwritten with our report. */
static void scan_arguments(struct scan *scan)
{
    while (scan->action == ACTION_RUN) {
        const char *argument = scan->argv[scan->next];
        if (argument == NULL || argument[0] != '-' || argument[1] == '\0') {
            return;
        }
        scan->next++;
        if (strcmp(argument, "--") == 0) {
            return;
        }
        if (argument[1] == '-') {
            scan_long(scan, argument + 2);
        } else {
            scan_letters(scan, argument + 1);
        }
    }
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

static void print_options(const struct sbx_option *table, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct sbx_option *option = &table[i];
        if (i == 0 || strcmp(option->group, table[i - 1].group) != 0) {
            (void)printf("\n%s:\n", option->group);
        }
        const char letter[] = {'-', option->letter, ',', '\0'};
        char head[NAME_SIZE];
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

static void print_help(void)
{
    size_t count = 0;
    const struct sbx_option *table = sbx_options(&count);
    (void)fputs("Usage: sbx-watch [OPTION]... [--] COMMAND [ARG]...\n"
                "  or:  sbx-watch [OPTION]... --pid PID\n"
                "  or:  sbx-watch [OPTION]... --cgroup PATH\n"
                "  or:  sbx-watch --verify [OPTION]...\n"
                "Run COMMAND, hold its whole process tree to limits, leave no process "
                "behind,\nreport how it ended. Or attach to a tree that runs already. Or "
                "verify what this\nhost can hold.\n",
                stdout);
    print_options(table, count);
    table = sbx_verification_options(&count);
    print_options(table, count);
    print_options(own_options, OWN_COUNT);
    (void)fputs(
        "\n"
        "DUR is digits with an optional fraction and one of us ms s m h d; a bare "
        "number\n"
        "is seconds. SIZE is digits with an optional fraction and one of K M G T (1024,\n"
        "also KiB) or KB MB GB TB (1000); a bare number is bytes. Options end at the\n"
        "first operand. Whatever does not parse is an error, and nothing runs.\n"
        "\n"
        "Exit status: the command's own; 128+N when signal N ended it or the run; 124\n"
        "for a breach of a limit; 125 when sbx-watch failed, survivors are left or the\n"
        "report could not be written; 126 when COMMAND cannot be executed, 127 when it\n"
        "is not found. The report tells them apart. With --verify: 0 when the sandbox\n"
        "runs and all of --need holds, else 1. See sbx-watch(1).\n",
        stdout);
}

static int close_stdout(void)
{
    /* Both: fclose alone forgets an error of an earlier flush. */
    bool failed = ferror(stdout) != 0;
    failed = fclose(stdout) != 0 || failed;
    if (failed) {
        complain("cannot write to stdout", "");
        return SBX_STATUS_FAILED;
    }
    return EXIT_SUCCESS;
}

static int print_and_close(enum action action)
{
    if (action == ACTION_HELP) {
        print_help();
    } else {
        (void)printf("sbx-watch %s\n", sbx_version());
    }
    return close_stdout();
}

/* Nothing runs. The report goes first: it is the truth, and stderr may be a pipe that
 * nobody reads. */
static int give_up(struct scan *scan)
{
    struct sbx_error error = {0};
    int result = sbx_report_failure(scan->spec, &scan->failure, &error);
    complain(scan->failure.message, scan->hint);
    if (result < 0) {
        complain(error.message, "");
    }
    return SBX_STATUS_FAILED;
}

static int run(struct scan *scan)
{
    /* Also after an error, so that the report names what did not run. */
    struct sbx_error error = {0};
    const char *const *command = (const char *const *)(scan->argv + scan->next);
    bool wanted = !scan->attaches || command[0] != NULL; /* too much is refused later */
    if (wanted && sbx_spec_set_command(scan->spec, command, &error) < 0) {
        fail(scan, &error, usage_hint);
    }
    if (scan->failure.code != 0) {
        return give_up(scan);
    }
    int status = SBX_STATUS_FAILED;
    if (sbx_run_in_place(scan->spec, &status, &error) < 0) {
        complain(error.message, "");
    }
    return status;
}

/* What does not go together with a verification, or without one. */
static void check_verification(struct scan *scan)
{
    struct sbx_error error = {.code = EINVAL, .stage = SBX_STAGE_OPTIONS};
    if (!scan->verifies) {
        (void)snprintf(error.message, sizeof error.message,
                       "option --%s: goes with --verify alone", scan->verify_option);
    } else if (scan->run_option != NULL) {
        (void)snprintf(error.message, sizeof error.message,
                       "option --%s: does not go with --verify, which runs no command",
                       scan->run_option);
    } else if (scan->argv[scan->next] != NULL) {
        (void)snprintf(error.message, sizeof error.message,
                       "option --verify: takes no command");
    } else {
        return;
    }
    fail(scan, &error, "");
}

static int verify(struct scan *scan)
{
    struct sbx_error error = {0};
    check_verification(scan);
    if (scan->failure.code != 0) {
        return give_up(scan);
    }
    if (sbx_verification_run(scan->verification, &error) < 0) {
        complain(error.message, "");
        return SBX_STATUS_FAILED;
    }
    const char *found = scan->json ? sbx_verification_json(scan->verification)
                                   : sbx_verification_text(scan->verification);
    if (found == NULL) {
        complain("no memory", "");
        return SBX_STATUS_FAILED;
    }
    (void)fputs(found, stdout);
    int status = close_stdout();
    if (status == EXIT_SUCCESS && !sbx_verification_holds(scan->verification)) {
        status = EXIT_FAILURE;
    }
    return status;
}

/* USR1 asks a run for its usage. Until the run is there to take it, it waits: its default
 * would end us. */
static void hold_usr1(void)
{
    sigset_t held;
    (void)sigemptyset(&held);
    (void)sigaddset(&held, SIGUSR1);
    (void)sigprocmask(SIG_BLOCK, &held, NULL);
}

int main(int argc, char *argv[])
{
    hold_usr1();
    bool no_stdout = fcntl(STDOUT_FILENO, F_GETFD) < 0;
    bool no_stderr = fcntl(STDERR_FILENO, F_GETFD) < 0;
    if (open_standard_streams() < 0) {
        return SBX_STATUS_FAILED;
    }
    struct scan scan = {.argv = argv,
                        .next = argc > 0 ? 1 : 0,
                        .no_stdout = no_stdout,
                        .no_stderr = no_stderr};
    scan.spec = sbx_spec_new();
    scan.verification = sbx_verification_new();
    if (scan.spec == NULL || scan.verification == NULL) {
        complain("no memory", "");
        return SBX_STATUS_FAILED;
    }
    scan_arguments(&scan);
    int status = 0;
    if (scan.action != ACTION_RUN) {
        status = print_and_close(scan.action);
    } else {
        status = scan.verify_option != NULL ? verify(&scan) : run(&scan);
    }
    sbx_verification_free(scan.verification);
    sbx_spec_free(scan.spec);
    return status;
}
