/*
 * sbxctl.c - the command line of a client of sbxd: options, commands, help.
 *
 * Sees nothing of the project but <sbx/sbx.h>, command_line.h and sbxctl.h. Parsing is
 * strict: the first error is told, and nothing was asked. Options of a command may stand
 * behind its operands, but for `start`, whose command line begins with its first operand.
 */
#include "tools/sbxctl.h"
#include "tools/command_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_SIZE 64
#define OPERANDS_MAX 8

static const char program[] = "sbxctl";

/* A walk through argv. */
struct scan {
    struct sbx_ctl *ctl;
    char **argv;
    int next;
    bool help;
    bool version;
    int status; /* not 0: it was told what is wrong */
    int operands_count;
    char *operands[OPERANDS_MAX + 1];
};

/* --- one option --- */

static const struct sbx_option *find_option(const struct scan *scan, const char *name,
                                            char letter)
{
    const struct sbx_ctl_command *command = scan->ctl->command;
    size_t count = 0;
    const struct sbx_option *common = sbx_ctl_common_options(&count);
    const struct sbx_option *found = sbx_line_find(common, count, name, letter);
    if (found == NULL && command != NULL && command->options != NULL) {
        found = sbx_line_find(command->options, command->options_count, name, letter);
    }
    if (found == NULL && command != NULL && command->operands < 0) {
        found = sbx_ctl_request_option(name, letter);
    }
    return found;
}

static void apply_common(struct scan *scan, const struct sbx_option *option,
                         const char *value)
{
    if (strcmp(option->name, "socket") == 0) {
        scan->ctl->socket_path = value;
    } else if (strcmp(option->name, "json") == 0) {
        scan->ctl->json = true;
    } else if (strcmp(option->name, "help") == 0) {
        scan->help = true;
    } else {
        scan->version = true;
    }
}

static bool is_among(const struct sbx_option *option, const struct sbx_option *table,
                     size_t count)
{
    return table != NULL && option >= table && option < table + count;
}

/* `name` as it was written, with the prefix of another table. */
static void apply(struct scan *scan, const struct sbx_option *option, const char *name,
                  const char *value)
{
    const struct sbx_ctl_command *command = scan->ctl->command;
    size_t count = 0;
    const struct sbx_option *common = sbx_ctl_common_options(&count);
    if ((option->value == NULL) != (value == NULL)) {
        scan->status = sbx_ctl_fail("option --%s: %s", name,
                                    value != NULL ? "takes no value" : "needs a value");
        return;
    }
    if (is_among(option, common, count)) {
        apply_common(scan, option, value);
        return;
    }
    if (command == NULL) {
        return;
    }
    if (is_among(option, command->options, command->options_count)) {
        scan->ctl->values[option - command->options] = value != NULL ? value : "";
    }
    if (command->operands < 0) {
        scan->status = sbx_ctl_request_set(scan->ctl->draft, option, name, value);
    }
}

static const char *hint(const struct scan *scan)
{
    static char text[NAME_SIZE];
    const struct sbx_ctl_command *command = scan->ctl->command;
    (void)snprintf(text, sizeof text, "(try sbxctl %s%s--help)",
                   command != NULL ? command->name : "", command != NULL ? " " : "");
    return text;
}

static const char *take_value(struct scan *scan)
{
    const char *value = scan->argv[scan->next];
    scan->next += value != NULL;
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
    const struct sbx_option *option = find_option(scan, name, 0);
    const char *value = text[length] == '=' ? text + length + 1 : NULL;
    if (option == NULL) {
        scan->status = sbx_ctl_fail("unknown option --%s %s", name, hint(scan));
        return;
    }
    if (value == NULL && option->value != NULL) {
        value = take_value(scan);
    }
    apply(scan, option, name, value);
}

/* A bundle of flags, the last of which may be an option with its argument. */
static void scan_letters(struct scan *scan, const char *letters)
{
    for (; *letters != '\0' && scan->status == 0; letters++) {
        const struct sbx_option *option = find_option(scan, NULL, *letters);
        if (option == NULL) {
            unsigned char letter = (unsigned char)*letters;
            bool plain = letter > ' ' && letter < 0x7f;
            scan->status =
                sbx_ctl_fail("unknown option -%c %s", plain ? letter : '?', hint(scan));
        } else if (option->value != NULL) {
            const char *value = letters[1] != '\0' ? letters + 1 : take_value(scan);
            apply(scan, option, option->name, value);
            return;
        } else {
            apply(scan, option, option->name, NULL);
        }
    }
}

/* Takes an operand where options may follow. */
static void take_operand(struct scan *scan, char *operand)
{
    if (scan->operands_count == OPERANDS_MAX) {
        scan->status = sbx_ctl_fail("too many arguments %s", hint(scan));
        return;
    }
    scan->operands[scan->operands_count++] = operand;
}

/* Up to the end, or to the first operand where that begins something else. */
static void scan_arguments(struct scan *scan, bool stops)
{
    bool options = true;
    while (scan->status == 0 && scan->argv[scan->next] != NULL) {
        char *argument = scan->argv[scan->next];
        if (!options || argument[0] != '-' || argument[1] == '\0') {
            if (stops) {
                return;
            }
            take_operand(scan, argument);
            scan->next++;
            continue;
        }
        scan->next++;
        if (strcmp(argument, "--") == 0) {
            options = false;
            if (stops) {
                return;
            }
        } else if (argument[1] == '-') {
            scan_long(scan, argument + 2);
        } else {
            scan_letters(scan, argument + 1);
        }
    }
}

/* --- help --- */

static void print_commands(void)
{
    size_t count = 0;
    size_t common_count = 0;
    const struct sbx_ctl_command *commands = sbx_ctl_commands(&count);
    const struct sbx_option *common = sbx_ctl_common_options(&common_count);
    (void)fputs("Usage: sbxctl [--socket PATH] [--json] COMMAND [ARGUMENT]...\n"
                "Start commands that outlive their caller, look at them, end them.\n"
                "\nCommands:\n",
                stdout);
    for (size_t i = 0; i < count; i++) {
        (void)printf("  %-10s %s\n", commands[i].name, commands[i].help);
    }
    sbx_line_print_options(common, common_count);
    (void)fputs(
        "\n"
        "Exit status: 0; 1 when the service says no (there is no such id, it is\n"
        "another's, there are too many, it has not ended in time); 125 when\n"
        "something is wrong with the command line, the request or the service.\n"
        "`start` with --wait or --follow ends as the command does, as sbx-watch:\n"
        "its status, 128+N for a signal, 124 for a breach of a limit, 125 to 127.\n"
        "See sbxctl(1).\n",
        stdout);
}

static void print_help(const struct sbx_ctl_command *command)
{
    size_t count = 0;
    const struct sbx_option *common = sbx_ctl_common_options(&count);
    if (command == NULL) {
        print_commands();
        return;
    }
    (void)printf("Usage: sbxctl %s%s%s\n%c%s.\n", command->name,
                 *command->usage != '\0' ? " " : "", command->usage,
                 command->help[0] - 'a' + 'A', command->help + 1);
    sbx_line_print_options(command->options, command->options_count);
    if (command->operands < 0) {
        sbx_ctl_request_help();
    }
    sbx_line_print_options(common, count);
    if (command->operands < 0) {
        (void)fputs("\nThe command starts in / unless --chdir says otherwise, and ends "
                    "after 120\n"
                    "seconds unless --wall does. See sbxctl(1), sbxd(8).\n",
                    stdout);
    }
}

/* --- from argv to a command --- */

static void take_command(struct scan *scan)
{
    size_t count = 0;
    const struct sbx_ctl_command *commands = sbx_ctl_commands(&count);
    const char *name = scan->argv[scan->next];
    if (name == NULL) {
        scan->status = sbx_ctl_fail("no command given %s", hint(scan));
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            scan->ctl->command = &commands[i];
            scan->next++;
            return;
        }
    }
    scan->status = sbx_ctl_fail("unknown command '%.64s' %s", name, hint(scan));
}

static void check_operands(struct scan *scan)
{
    const struct sbx_ctl_command *command = scan->ctl->command;
    bool line = command->operands < 0;
    scan->ctl->operands = line ? scan->argv + scan->next : scan->operands;
    if (!line && scan->operands_count != command->operands) {
        scan->status = sbx_ctl_fail(
            "%s arguments (usage: sbxctl %s%s%s)",
            scan->operands_count < command->operands ? "missing" : "too many",
            command->name, *command->usage != '\0' ? " " : "", command->usage);
    }
}

static int run(struct sbx_ctl *ctl)
{
    const char *named = getenv("SBX_SOCKET");
    const char *path = ctl->socket_path;
    if (path == NULL && named != NULL && *named != '\0') {
        path = named;
    }
    ctl->client = sbx_client_new(path);
    if (ctl->client == NULL) {
        return sbx_ctl_fail("no memory");
    }
    int status = ctl->command->run(ctl);
    sbx_client_free(ctl->client);
    return status;
}

static int act(struct scan *scan)
{
    scan_arguments(scan, true);
    if (scan->status == 0 && !scan->help && !scan->version) {
        take_command(scan);
    }
    if (scan->ctl->command != NULL) {
        scan_arguments(scan, scan->ctl->command->operands < 0);
    }
    if (scan->status != 0) {
        return scan->status;
    }
    if (scan->help) {
        print_help(scan->ctl->command);
        return 0;
    }
    if (scan->version) {
        (void)printf("sbxctl %s\n", sbx_version());
        return 0;
    }
    if (scan->ctl->command == NULL) {
        return SBX_STATUS_FAILED;
    }
    check_operands(scan);
    return scan->status != 0 ? scan->status : run(scan->ctl);
}

int main(int argc, char *argv[])
{
    if (sbx_line_open_standard_streams() < 0) {
        return SBX_STATUS_FAILED;
    }
    struct sbx_ctl ctl = {.draft = json_object()};
    struct scan scan = {.ctl = &ctl, .argv = argv, .next = argc > 0 ? 1 : 0};
    int status = ctl.draft != NULL ? act(&scan) : sbx_ctl_fail("no memory");
    json_decref(ctl.draft);
    int closed = sbx_line_close_stdout(program);
    return status == 0 ? closed : status;
}
