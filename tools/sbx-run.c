/*
 * sbx-run.c - the command line of a sandbox: options, help, the plan on request, and
 * ending as the confined command has ended.
 *
 * Sees nothing of the project but <sbx/sbx.h>, and command_line.h. Errors go to stderr,
 * one line that begins with "sbx-run: ", and mean that nothing has run: status 125, or
 * 126 and 127 as of a shell.
 */
#include "tools/command_line.h"

#include <sbx/sbx.h>

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define NAME_SIZE 64

static const char program[] = "sbx-run";

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
static const char watch_hint[] =
    " (it is sbx-watch's: sbx-watch [OPTION]... -- sbx-run [OPTION]... -- COMMAND)";

static const struct sbx_option own_options[] = {
    {"plan", 0, NULL, "Other", "print the plan as JSON and run nothing"},
    {"help", 'h', NULL, "Other", "print this text and exit"},
    {"version", 'V', NULL, "Other", "print the version and exit"},
};
#define OWN_COUNT (sizeof own_options / sizeof own_options[0])

static void fail(struct scan *scan, const struct sbx_error *failure, const char *hint)
{
    if (scan->failure.code == 0) {
        scan->failure = *failure;
        scan->hint = hint;
    }
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

/* Who comes from the other program is told so. */
static const char *hint_at(const char *name)
{
    size_t count = 0;
    const struct sbx_option *others = sbx_options(&count);
    return sbx_line_find(others, count, name, 0) != NULL ? watch_hint : help_hint;
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
    const struct sbx_option *own = sbx_line_find(own_options, OWN_COUNT, name, 0);
    const struct sbx_option *option = sbx_line_find(table, count, name, 0);
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
        fail(scan, &error, option == NULL ? hint_at(name) : "");
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
    sbx_line_print_options(table, count);
    sbx_line_print_options(own_options, OWN_COUNT);
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
        sbx_line_complain(program, "warning: ", warning, "");
    }
    if (sbx_plan_run(plan, &ending, &status, &error) < 0) {
        sbx_line_complain(program, "", error.message, "");
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
        sbx_line_complain(program, "", scan->failure.message, scan->hint);
        return SBX_STATUS_FAILED;
    }
    int status = SBX_STATUS_FAILED;
    if (!scan->plan) {
        status = run(plan);
    } else if (sbx_plan_json(plan) != NULL) {
        (void)fputs(sbx_plan_json(plan), stdout);
        status = sbx_line_close_stdout(program);
    }
    sbx_plan_free(plan);
    return status;
}

int main(int argc, char *argv[])
{
    struct scan scan = {.argv = argv, .next = argc > 0 ? 1 : 0, .hint = ""};
    /* A limit on files, or a reader that is gone, is an error, and must not end us. */
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN);
    if (sbx_line_open_standard_streams() < 0) {
        return SBX_STATUS_FAILED;
    }
    scan.sandbox = sbx_sandbox_new();
    if (scan.sandbox == NULL) {
        sbx_line_complain(program, "", "no memory", "");
        return SBX_STATUS_FAILED;
    }
    scan_arguments(&scan);
    int status = EXIT_SUCCESS;
    if (scan.help) {
        print_help();
        status = sbx_line_close_stdout(program);
    } else if (scan.version) {
        (void)printf("sbx-run %s\n", sbx_version());
        status = sbx_line_close_stdout(program);
    } else {
        status = plan_and_run(&scan);
    }
    sbx_sandbox_free(scan.sandbox);
    return status;
}
