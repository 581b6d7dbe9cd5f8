/*
 * completion.c PROGRAM - makes the completion of sbx-watch, sbx-run, sbxd or sbxctl for
 * bash from its option tables, at build time: what the command line takes and what is
 * completed cannot drift apart.
 *
 * Sees nothing of the project but <sbx/sbx.h>, and the tables of sbxctl. What an option's
 * argument is follows from how the table calls it: a|b|c are words, FILE, PATH and DIR
 * are files, SIG is a signal. Names of ceilings and signals are those that the library
 * accepts. Writes the script to standard output; a table that it can make nothing of is
 * an error, and so a failed build.
 */
#include "tools/sbxctl.h"

#include <ctype.h>
#include <sbx/sbx.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS_MAX 256
#define NAME_SIZE 64
#define SANDBOX_PREFIX "sandbox-"

static const struct sbx_option common_own[] = {
    {"help", 'h', NULL, "", ""},
    {"version", 'V', NULL, "", ""},
};
static const struct sbx_option run_own[] = {
    {"plan", 0, NULL, "", ""},
    {"help", 'h', NULL, "", ""},
    {"version", 'V', NULL, "", ""},
};

static const struct program {
    const char *name;
    const char *prefix; /* of what bash keeps for it */
    const struct sbx_option *(*tables[3])(size_t *ret_count);
    const struct sbx_option *own;
    size_t own_count;
} programs[] = {
    {"sbx-watch",
     "_sbx_watch",
     {sbx_options, sbx_verification_options, NULL},
     common_own,
     sizeof common_own / sizeof common_own[0]},
    {"sbx-run",
     "_sbx_run",
     {sbx_sandbox_options, NULL},
     run_own,
     sizeof run_own / sizeof run_own[0]},
    {"sbxd",
     "_sbxd",
     {sbx_supervisor_options, NULL},
     common_own,
     sizeof common_own / sizeof common_own[0]},
    {"sbxctl", "_sbxctl", {sbx_ctl_common_options, NULL}, NULL, 0},
};
static const struct program *program;

/* Those that are to be printed. */
static struct sbx_option options[OPTIONS_MAX];
static size_t options_count;

static _Noreturn void give_up(const char *what)
{
    (void)fprintf(stderr, "completion: %s\n", what);
    exit(EXIT_FAILURE);
}

/* --- which options there are --- */

static void add_option(const struct sbx_option *option)
{
    if (options_count == OPTIONS_MAX) {
        give_up("too many options");
    }
    options[options_count++] = *option;
}

static void add_options(const struct sbx_option *table, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        add_option(&table[i]);
    }
}

/* Of the program, whatever its command is. */
static void begin_options(void)
{
    size_t count = 0;
    options_count = 0;
    for (size_t i = 0; program->tables[i] != NULL; i++) {
        const struct sbx_option *table = program->tables[i](&count);
        add_options(table, count);
    }
    add_options(program->own, program->own_count);
}

/* What can be in a request. */
static void add_request_options(void)
{
    static char names[OPTIONS_MAX][NAME_SIZE];
    size_t count = 0;
    const struct sbx_option *table = sbx_options(&count);
    for (size_t i = 0; i < count; i++) {
        if (sbx_ctl_request_option(table[i].name, 0) == &table[i]) {
            add_option(&table[i]);
        }
    }
    table = sbx_sandbox_options(&count);
    for (size_t i = 0; i < count && i < OPTIONS_MAX; i++) {
        struct sbx_option option = table[i];
        (void)snprintf(names[i], NAME_SIZE, SANDBOX_PREFIX "%s", table[i].name);
        option.name = names[i];
        option.letter = 0;
        if (sbx_ctl_request_option(names[i], 0) == &table[i]) {
            add_option(&option);
        }
    }
}

static bool accepts(const char *option, const char *value)
{
    struct sbx_spec *spec = sbx_spec_new();
    if (spec == NULL) {
        give_up("no memory");
    }
    bool accepted = sbx_spec_set(spec, option, value, NULL) == 0;
    sbx_spec_free(spec);
    return accepted;
}

/* `suffix`: of the command, "_start"; "" for none. */
static void print_options(const char *suffix)
{
    const char *blank = "";
    (void)printf("%s_options%s='", program->prefix, suffix);
    for (size_t i = 0; i < options_count; i++) {
        (void)printf("%s--%s", blank, options[i].name);
        if (options[i].letter != 0) {
            (void)printf(" -%c", options[i].letter);
        }
        blank = " ";
    }
    (void)printf("'\n");
}

static void print_signals(void)
{
    const char *blank = "";
    (void)printf("%s_signals='", program->prefix);
    for (int number = 1; number <= SIGSYS; number++) {
        const char *name = sigabbrev_np(number);
        if (name != NULL && accepts("signal", name)) {
            (void)printf("%s%s", blank, name);
            blank = " ";
        }
    }
    (void)printf("'\n");
}

/* The error about an unknown one names all that there are, behind the last colon. */
static void print_ceilings(void)
{
    struct sbx_error error = {.message = ""};
    struct sbx_spec *spec = sbx_spec_new();
    if (spec == NULL || sbx_spec_set(spec, "rlimit", "?=0", &error) == 0) {
        give_up("ceilings cannot be asked for");
    }
    sbx_spec_free(spec);
    const char *names = strrchr(error.message, ':');
    (void)printf("%s_ceilings='", program->prefix);
    const char *blank = "";
    char *rest = NULL;
    char *words = strdup(names != NULL ? names + 1 : "");
    for (char *word = words != NULL ? strtok_r(words, " ", &rest) : NULL; word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        char value[64];
        (void)snprintf(value, sizeof value, "%s=0", word);
        if (!accepts("rlimit", value)) {
            give_up("the names of ceilings are not what they were");
        }
        (void)printf("%s%s", blank, word);
        blank = " ";
    }
    if (*blank == '\0') {
        give_up("no ceiling has a name");
    }
    free(words);
    (void)printf("'\n");
}

/* Prints the parts of a|b|c that are words to be written as they are. */
static void print_words(const char *value)
{
    const char *blank = "";
    for (const char *part = value; *part != '\0'; part += *part == '|') {
        size_t length = strcspn(part, "|");
        bool plain = length > 0;
        for (size_t i = 0; i < length; i++) {
            plain = plain && (islower((unsigned char)part[i]) ||
                              isdigit((unsigned char)part[i]) || part[i] == '-');
        }
        if (plain) {
            (void)printf("%s%.*s", blank, (int)length, part);
            blank = " ";
        }
        part += length;
    }
}

static bool has_lower(const char *text)
{
    while (*text != '\0' && !islower((unsigned char)*text)) {
        text++;
    }
    return *text != '\0';
}

static bool names_file(const char *value)
{
    return strstr(value, "FILE") != NULL || strstr(value, "PATH") != NULL;
}

/* What kind of argument it is, for what is not a choice of words. */
static const char *kind_of(const struct sbx_option *option)
{
    const char *value = option->value;
    const char *name = option->name;
    if (value == NULL) {
        return "none";
    }
    if (strncmp(name, SANDBOX_PREFIX, sizeof SANDBOX_PREFIX - 1) == 0) {
        name += sizeof SANDBOX_PREFIX - 1;
    }
    if (strcmp(name, "rlimit") == 0) {
        return "ceiling";
    }
    if (strcmp(value, "SIG") == 0) {
        return "signal";
    }
    if (strstr(value, "DIR") != NULL || strncmp(name, "cgroup", 6) == 0) {
        return "directory";
    }
    if (names_file(value)) {
        return "file";
    }
    if (strncmp(value, "USER", 4) == 0) {
        return "user";
    }
    return strncmp(name, "env", 3) == 0 ? "export" : "value";
}

static void print_kind(const struct sbx_option *option)
{
    const char *value = option->value;
    (void)printf("    --%s", option->name);
    if (option->letter != 0) {
        (void)printf(" | -%c", option->letter);
    }
    /* A single word in lower case is a choice too. */
    if (value != NULL && has_lower(value)) {
        (void)printf(") kind='%s' words='", names_file(value) ? "words-files" : "words");
        print_words(value);
        (void)printf("' ;;\n");
    } else {
        (void)printf(") kind='%s' ;;\n", kind_of(option));
    }
}

static void print_kinds(const char *suffix)
{
    (void)printf("\n%s_kind%s()\n{\n    case $1 in\n", program->prefix, suffix);
    for (size_t i = 0; i < options_count; i++) {
        print_kind(&options[i]);
    }
    (void)printf("    *) kind=unknown ;;\n    esac\n}\n");
}

/* Each command of sbxctl has options of its own. */
static void print_commands(void)
{
    char suffix[NAME_SIZE];
    size_t count = 0;
    const struct sbx_ctl_command *commands = sbx_ctl_commands(&count);
    (void)printf("%s_commands='", program->prefix);
    for (size_t i = 0; i < count; i++) {
        (void)printf("%s%s", i > 0 ? " " : "", commands[i].name);
    }
    (void)printf("'\n");
    for (size_t i = 0; i < count; i++) {
        begin_options();
        add_options(commands[i].options, commands[i].options_count);
        if (commands[i].operands < 0) {
            add_request_options();
        }
        (void)snprintf(suffix, sizeof suffix, "_%s", commands[i].name);
        print_options(suffix);
        print_kinds(suffix);
    }
}

int main(int argc, char *argv[])
{
    for (size_t i = 0; argc == 2 && i < sizeof programs / sizeof programs[0]; i++) {
        if (strcmp(argv[1], programs[i].name) == 0) {
            program = &programs[i];
        }
    }
    if (program == NULL) {
        give_up("usage: sbx-completion sbx-watch|sbx-run|sbxd|sbxctl");
    }
    bool has_commands = strcmp(program->name, "sbxctl") == 0;
    (void)printf("# Completion of %s for bash, made from its table of options.\n\n",
                 program->name);
    if (strcmp(program->name, "sbxd") == 0) {
        (void)printf("%s_operands='none'\n", program->prefix);
    }
    begin_options();
    print_options(has_commands ? "_" : "");
    print_signals();
    print_ceilings();
    (void)printf("\n# What an option takes.");
    print_kinds(has_commands ? "_" : "");
    if (has_commands) {
        print_commands();
    }
    return ferror(stdout) == 0 && fclose(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
