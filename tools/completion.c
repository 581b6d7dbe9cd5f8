/*
 * completion.c PROGRAM - makes the completion of sbx-watch or sbx-run for bash from its
 * option table, at build time: what the command line takes and what is completed cannot
 * drift apart.
 *
 * Sees nothing of the project but <sbx/sbx.h>. What an option's argument is follows from
 * how the table calls it: a|b|c are words, FILE, PATH and DIR are files, SIG is a signal.
 * Names of ceilings and signals are those that the library accepts. Writes the script to
 * standard output; a table that it can make nothing of is an error, and so a failed
 * build.
 */
#include <sbx/sbx.h>

#include <ctype.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct sbx_option watch_own[] = {
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
     watch_own,
     sizeof watch_own / sizeof watch_own[0]},
    {"sbx-run",
     "_sbx_run",
     {sbx_sandbox_options, NULL},
     run_own,
     sizeof run_own / sizeof run_own[0]},
};
static const struct program *program;

static _Noreturn void give_up(const char *what)
{
    (void)fprintf(stderr, "completion: %s\n", what);
    exit(EXIT_FAILURE);
}

/* Option I; those of the front are behind the tables; NULL at the end. */
static const struct sbx_option *option_at(size_t i)
{
    size_t count = 0;
    for (size_t table = 0; program->tables[table] != NULL; table++) {
        const struct sbx_option *options = program->tables[table](&count);
        if (i < count) {
            return &options[i];
        }
        i -= count;
    }
    return i < program->own_count ? &program->own[i] : NULL;
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

static void print_options(void)
{
    const char *blank = "";
    (void)printf("%s_options='", program->prefix);
    const struct sbx_option *option;
    for (size_t i = 0; (option = option_at(i)) != NULL; i++) {
        (void)printf("%s--%s", blank, option->name);
        if (option->letter != 0) {
            (void)printf(" -%c", option->letter);
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
    if (value == NULL) {
        return "none";
    }
    if (strcmp(option->name, "rlimit") == 0) {
        return "ceiling";
    }
    if (strcmp(value, "SIG") == 0) {
        return "signal";
    }
    if (strstr(value, "DIR") != NULL || strncmp(option->name, "cgroup", 6) == 0) {
        return "directory";
    }
    if (names_file(value)) {
        return "file";
    }
    if (strncmp(value, "USER", 4) == 0) {
        return "user";
    }
    return strncmp(option->name, "env", 3) == 0 ? "export" : "value";
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

int main(int argc, char *argv[])
{
    const struct sbx_option *option;
    for (size_t i = 0; argc == 2 && i < sizeof programs / sizeof programs[0]; i++) {
        if (strcmp(argv[1], programs[i].name) == 0) {
            program = &programs[i];
        }
    }
    if (program == NULL) {
        give_up("usage: sbx-completion sbx-watch|sbx-run");
    }
    (void)printf("# Completion of %s for bash, made from its table of options.\n\n",
                 program->name);
    print_options();
    print_signals();
    print_ceilings();
    (void)printf("\n# What an option takes.\n%s_kind()\n{\n    case $1 in\n",
                 program->prefix);
    for (size_t i = 0; (option = option_at(i)) != NULL; i++) {
        print_kind(option);
    }
    (void)printf("    *) kind=unknown ;;\n    esac\n}\n");
    return ferror(stdout) == 0 && fclose(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
