/*
 * sbx-run.c - the command line of a sandbox: options, help, the plan on request, and
 * ending as the confined command has ended.
 *
 * Sees nothing of the project but <sbx/sbx.h>. Errors go to stderr, one line that begins
 * with "sbx-run: ", and mean that nothing has run: status 125, or 126 and 127 as of a
 * shell.
 */
#include <sbx/sbx.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#define NAME_SIZE 64
#define PATIENCE_S 2 /* how long a message may wait until stderr takes it */
#define HELP_COLUMN 28
#define HELP_WIDTH 80

struct scan {
    struct sbx_sandbox *sandbox;
    char **argv;
    int next;
    bool plan;
    bool help;
    bool version;
    struct sbx_error failure; /* the first one; code 0: none */
    const char *hint;
};

static const char usage_hint[] = " (usage: sbx-run [OPTION]... [--] COMMAND [ARG]...)";
static const char help_hint[] = " (try sbx-run --help)";

static const struct sbx_option own_options[] = {
    {"plan", 0, NULL, "Other", "print the plan as JSON and run nothing"},
    {"help", 'h', NULL, "Other", "print this text and exit"},
    {"version", 'V', NULL, "Other", "print the version and exit"},
};
#define OWN_COUNT (sizeof own_options / sizeof own_options[0])

static void interrupt(int signal_number)
{
    (void)signal_number;
}

/* A line on stderr, for which nobody waits for ever. */
static void complain(const char *what, const char *message, const char *hint)
{
    char line[SBX_ERROR_MESSAGE_SIZE + 160];
    const struct itimerval timer = {.it_interval = {.tv_usec = 100000},
                                    .it_value = {.tv_sec = PATIENCE_S}};
    struct sigaction action = {.sa_handler = interrupt};
    sigset_t alarms;
    int length = snprintf(line, sizeof line, "sbx-run: %s%s%s\n", what, message, hint);
    if (length < 0) {
        return;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGTTOU, SIG_IGN);
    (void)sigemptyset(&alarms);
    (void)sigaddset(&alarms, SIGALRM);
    (void)sigaction(SIGALRM, &action, NULL);
    (void)sigprocmask(SIG_UNBLOCK, &alarms, NULL);
    (void)setitimer(ITIMER_REAL, &timer, NULL);
    (void)!write(STDERR_FILENO, line, strlen(line));
    const struct itimerval never = {.it_value = {.tv_sec = 0}};
    (void)setitimer(ITIMER_REAL, &never, NULL);
}

static void fail(struct scan *scan, const struct sbx_error *failure, const char *hint)
{
    if (scan->failure.code == 0) {
        scan->failure = *failure;
        scan->hint = hint;
    }
}

static const struct sbx_option *find_in(const struct sbx_option *table, size_t count,
                                        const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(table[i].name, name) == 0) {
            return &table[i];
        }
    }
    return NULL;
}

/* --- the command line --- */

static void apply_own(struct scan *scan, const struct sbx_option *own, const char *value)
{
    struct sbx_error error = {.code = EINVAL, .stage = SBX_STAGE_OPTIONS};
    if (value != NULL) {
        (void)snprintf(error.message, sizeof error.message, "option --%s: takes no value",
                       own->name);
        fail(scan, &error, "");
    } else if (own == &own_options[0]) {
        scan->plan = true;
    } else if (scan->failure.code == 0) {
        scan->help = own == &own_options[1];
        scan->version = own == &own_options[2];
    }
}

/* --name, --name=VALUE, --name VALUE. */
static void scan_long(struct scan *scan, const char *text)
{
    char name[NAME_SIZE];
    struct sbx_error error;
    size_t count = 0;
    size_t length = strcspn(text, "=");
    const struct sbx_option *table = sbx_sandbox_options(&count);
    (void)snprintf(name, sizeof name, "%.*s",
                   (int)(length < NAME_SIZE ? length : NAME_SIZE), text);
    const struct sbx_option *own = find_in(own_options, OWN_COUNT, name);
    const struct sbx_option *option = find_in(table, count, name);
    const char *value = text[length] == '=' ? text + length + 1 : NULL;
    if (own != NULL) {
        apply_own(scan, own, value);
        return;
    }
    if (value == NULL && option != NULL && option->value != NULL &&
        scan->argv[scan->next] != NULL) {
        value = scan->argv[scan->next++];
    }
    if (sbx_sandbox_set(scan->sandbox, name, value, &error) < 0) {
        fail(scan, &error, option == NULL ? help_hint : "");
    }
}

static void scan_letter(struct scan *scan, const char *text)
{
    struct sbx_error error = {.code = EINVAL, .stage = SBX_STAGE_OPTIONS};
    for (size_t i = 0; i < OWN_COUNT; i++) {
        if (own_options[i].letter != 0 && text[0] == own_options[i].letter &&
            text[1] == '\0') {
            apply_own(scan, &own_options[i], NULL);
            return;
        }
    }
    unsigned char letter = (unsigned char)text[0];
    (void)snprintf(error.message, sizeof error.message,
                   letter > ' ' && letter < 0x7f ? "unknown option -%c"
                                                 : "unknown option -\\x%02X",
                   letter);
    fail(scan, &error, help_hint);
}

static void scan_arguments(struct scan *scan)
{
    while (!scan->help && !scan->version) {
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
            scan_letter(scan, argument + 1);
        }
    }
}

/* --- texts --- */

static void print_wrapped(const char *text)
{
    size_t column = HELP_COLUMN;
    for (const char *word = text; *word != '\0';) {
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
        char head[NAME_SIZE];
        const char letter[] = {'-', option->letter, ',', '\0'};
        if (i == 0 || strcmp(option->group, table[i - 1].group) != 0) {
            (void)printf("\n%s:\n", option->group);
        }
        (void)snprintf(head, sizeof head, "  %3s --%s%s%s",
                       option->letter != 0 ? letter : "", option->name,
                       option->value != NULL ? " " : "",
                       option->value != NULL ? option->value : "");
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
    const struct sbx_option *table = sbx_sandbox_options(&count);
    (void)fputs(
        "Usage: sbx-run [OPTION]... [--] COMMAND [ARG]...\n"
        "Run COMMAND confined by bubblewrap, and end as it ends. It sees /usr, "
        "/etc and\n/opt read-only, fresh /dev, /tmp and /run, what is bound, and "
        "nothing else; it\nhas no capabilities and gains none. Under sbx-watch "
        "the whole of it is\nsupervised: sbx-watch ... -- sbx-run ... -- COMMAND\n",
        stdout);
    print_options(table, count);
    print_options(own_options, OWN_COUNT);
    (void)fputs("\n"
                "SIZE is digits with an optional fraction and one of K M G T (1024, also "
                "KiB) or\nKB MB GB TB (1000); a bare number is bytes. Options end at the "
                "first operand.\nWhatever does not parse is an error, and nothing runs.\n"
                "\n"
                "Exit status: the command's own, and a signal stays a signal; 125 when "
                "the\nsandbox could not be set up; 126 when COMMAND cannot be executed, "
                "127 when it is\nnot found. See sbx-run(1).\n",
                stdout);
}

static int close_stdout(void)
{
    bool failed = ferror(stdout) != 0;
    failed = fclose(stdout) != 0 || failed;
    if (failed) {
        complain("", "cannot write to stdout", "");
        return SBX_STATUS_FAILED;
    }
    return EXIT_SUCCESS;
}

/* --- running --- */

/* So that whoever waits for us sees what has happened to the command. A core would be of
 * us. */
static _Noreturn void end_by(int signal_number)
{
    const struct rlimit none = {0, 0};
    sigset_t set;
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)signal(signal_number, SIG_DFL);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, signal_number);
    (void)kill(getpid(), signal_number);
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
    _exit(128 + signal_number);
}

static int run(struct sbx_plan *plan)
{
    struct sbx_error error = {0};
    struct sbx_ending ending = {.exit_code = -1};
    int status = SBX_STATUS_FAILED;
    const char *warning = NULL;
    for (size_t i = 0; (warning = sbx_plan_warning(plan, i)) != NULL; i++) {
        complain("warning: ", warning, "");
    }
    if (sbx_plan_run(plan, &ending, &status, &error) < 0) {
        complain("", error.message, "");
        return status;
    }
    if (ending.signal != 0) {
        end_by(ending.signal);
    }
    return ending.exit_code;
}

static int plan_and_run(struct scan *scan)
{
    struct sbx_error error = {0};
    struct sbx_plan *plan = NULL;
    const char *const *command = (const char *const *)(scan->argv + scan->next);
    if (sbx_sandbox_set_command(scan->sandbox, command, &error) < 0) {
        fail(scan, &error, usage_hint);
    }
    if (scan->failure.code == 0 && sbx_sandbox_plan(scan->sandbox, &plan, &error) < 0) {
        fail(scan, &error, "");
    }
    if (scan->failure.code != 0) {
        complain("", scan->failure.message, scan->hint);
        return SBX_STATUS_FAILED;
    }
    int status = SBX_STATUS_FAILED;
    if (!scan->plan) {
        status = run(plan);
    } else if (sbx_plan_json(plan) != NULL) {
        (void)fputs(sbx_plan_json(plan), stdout);
        status = close_stdout();
    }
    sbx_plan_free(plan);
    return status;
}

static bool open_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", O_RDWR) < 0) { /* NOLINT(android-cloexec-open) */
            return false;
        }
    }
    return true;
}

int main(int argc, char *argv[])
{
    struct scan scan = {.argv = argv, .next = argc > 0 ? 1 : 0, .hint = ""};
    /* A limit on files, or a reader that is gone, is an error, and must not end us. */
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN);
    if (!open_standard_streams()) {
        return SBX_STATUS_FAILED;
    }
    scan.sandbox = sbx_sandbox_new();
    if (scan.sandbox == NULL) {
        complain("", "no memory", "");
        return SBX_STATUS_FAILED;
    }
    scan_arguments(&scan);
    int status = EXIT_SUCCESS;
    if (scan.help) {
        print_help();
        status = close_stdout();
    } else if (scan.version) {
        (void)printf("sbx-run %s\n", sbx_version());
        status = close_stdout();
    } else {
        status = plan_and_run(&scan);
    }
    sbx_sandbox_free(scan.sandbox);
    return status;
}
