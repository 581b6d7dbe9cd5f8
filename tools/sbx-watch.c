/*
 * sbx-watch.c - the command line: options from argv into a specification, the help from
 * the option table, and the library's answer as message and exit status.
 *
 * Sees nothing of the project but <sbx/sbx.h>, and command_line.h. Whatever is wrong
 * with the options, the command does not run: the first error is the one that counts, and
 * the remaining options are looked at only so that a report that was asked for says why
 * nothing ran. Before the run it changes no signal but USR1, which it blocks, and no
 * descriptor but closed ones of 0 to 2; the library does that. No message of its own
 * waits without end.
 */
#include "tools/command_line.h"

#include <sbx/sbx.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_SIZE 64
#define LETTER_SIZE 8

static const char program[] = "sbx-watch";

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
static const char run_hint[] =
    " (it is sbx-run's: sbx-watch [OPTION]... -- sbx-run [OPTION]... -- COMMAND)";
static const char usage_hint[] = " (usage: sbx-watch [OPTION]... [--] COMMAND [ARG]...)";

static const struct sbx_option own_options[] = {
    {"help", 'h', NULL, "Other", "print this text and exit"},
    {"version", 'V', NULL, "Other", "print the version and exit"},
};
#define OWN_COUNT (sizeof own_options / sizeof own_options[0])

/* By name, or by letter where name is NULL. */
static const struct sbx_option *find_option(const char *name, char letter)
{
    size_t count = 0;
    const struct sbx_option *table = sbx_options(&count);
    const struct sbx_option *found = sbx_line_find(own_options, OWN_COUNT, name, letter);
    found = found != NULL ? found : sbx_line_find(table, count, name, letter);
    table = sbx_verification_options(&count);
    return found != NULL ? found : sbx_line_find(table, count, name, letter);
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

/* Who comes from the other program is told so. */
static const char *hint_at(const char *name)
{
    size_t count = 0;
    const struct sbx_option *others = sbx_sandbox_options(&count);
    return sbx_line_find(others, count, name, 0) != NULL ? run_hint : help_hint;
}

/* `option` is NULL for a name that no option has. */
static void apply_to_run(struct scan *scan, const struct sbx_option *option,
                         const char *name, const char *value)
{
    struct sbx_error error = {.code = EINVAL, .stage = SBX_STAGE_OPTIONS};
    if (sbx_spec_set(scan->spec, name, value, &error) < 0) {
        fail(scan, &error, option == NULL ? hint_at(name) : "");
        return;
    }
    if (option != NULL && scan->run_option == NULL) {
        scan->run_option = option->name;
    }
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
    sbx_line_print_options(table, count);
    table = sbx_verification_options(&count);
    sbx_line_print_options(table, count);
    sbx_line_print_options(own_options, OWN_COUNT);
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

static int print_and_close(enum action action)
{
    if (action == ACTION_HELP) {
        print_help();
    } else {
        (void)printf("sbx-watch %s\n", sbx_version());
    }
    return sbx_line_close_stdout(program);
}

/* Nothing runs. The report goes first: it is the truth, and stderr may be a pipe that
 * nobody reads. */
static int give_up(struct scan *scan)
{
    struct sbx_error error = {0};
    int result = sbx_report_failure(scan->spec, &scan->failure, &error);
    sbx_line_complain(program, "", scan->failure.message, scan->hint);
    if (result < 0) {
        sbx_line_complain(program, "", error.message, "");
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
        sbx_line_complain(program, "", error.message, "");
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
        sbx_line_complain(program, "", error.message, "");
        return SBX_STATUS_FAILED;
    }
    const char *found = scan->json ? sbx_verification_json(scan->verification)
                                   : sbx_verification_text(scan->verification);
    if (found == NULL) {
        sbx_line_complain(program, "", "no memory", "");
        return SBX_STATUS_FAILED;
    }
    (void)fputs(found, stdout);
    int status = sbx_line_close_stdout(program);
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
    if (sbx_line_open_standard_streams() < 0) {
        return SBX_STATUS_FAILED;
    }
    struct scan scan = {.argv = argv,
                        .next = argc > 0 ? 1 : 0,
                        .no_stdout = no_stdout,
                        .no_stderr = no_stderr};
    scan.spec = sbx_spec_new();
    scan.verification = sbx_verification_new();
    if (scan.spec == NULL || scan.verification == NULL) {
        sbx_line_complain(program, "", "no memory", "");
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
