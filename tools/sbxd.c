/*
 * sbxd.c - the command line of the service: options from argv into a supervisor, help
 * from the option table, and the library does the rest.
 *
 * Sees nothing of the project but <sbx/sbx.h>, and command_line.h. Errors go to stderr,
 * one line that begins with "sbxd: ", and mean that nothing is served; status 125. 0 when
 * it was asked to end: executions go on then.
 */
#include "tools/command_line.h"

#include <sbx/sbx.h>

#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_SIZE 64
#define LARGE_BYTES (64 * 1024) /* what goes back to the kernel when it is freed */

static const char program[] = "sbxd";

struct scan {
    struct sbx_supervisor *supervisor;
    char **argv;
    int next;
    bool help;
    bool version;
    struct sbx_error failure; /* the first one; code 0: none */
    const char *hint;
};

static const char help_hint[] = " (try sbxd --help)";

static const struct sbx_option own_options[] = {
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

static const struct sbx_option *find_option(const char *name, char letter)
{
    size_t count = 0;
    const struct sbx_option *table = sbx_supervisor_options(&count);
    const struct sbx_option *found = sbx_line_find(own_options, OWN_COUNT, name, letter);
    return found != NULL ? found : sbx_line_find(table, count, name, letter);
}

/* `option` is NULL for a name that no option has. */
static void apply(struct scan *scan, const struct sbx_option *option, const char *name,
                  const char *value)
{
    struct sbx_error error = {.code = EINVAL, .stage = SBX_STAGE_OPTIONS};
    bool own = option >= own_options && option < own_options + OWN_COUNT;
    if (own && value != NULL) {
        (void)snprintf(error.message, sizeof error.message, "option --%s: takes no value",
                       name);
        fail(scan, &error, "");
    } else if (own) {
        scan->help = scan->help || option == &own_options[0];
        scan->version = scan->version || option == &own_options[1];
    } else if (sbx_supervisor_set(scan->supervisor, name, value, &error) < 0) {
        fail(scan, &error, option == NULL ? help_hint : "");
    }
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
    const struct sbx_option *option = find_option(name, 0);
    const char *value = text[length] == '=' ? text + length + 1 : NULL;
    if (value == NULL && option != NULL && option->value != NULL) {
        value = take_value(scan);
    }
    apply(scan, option, name, value);
}

/* A bundle of flags, the last of which may be an option with its argument. */
static void scan_letters(struct scan *scan, const char *letters)
{
    struct sbx_error error = {.code = EINVAL, .stage = SBX_STAGE_OPTIONS};
    for (; *letters != '\0'; letters++) {
        const struct sbx_option *option = find_option(NULL, *letters);
        unsigned char letter = (unsigned char)*letters;
        if (option == NULL) {
            (void)snprintf(error.message, sizeof error.message,
                           letter > ' ' && letter < 0x7f ? "unknown option -%c"
                                                         : "unknown option -\\x%02X",
                           letter);
            fail(scan, &error, help_hint);
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

/* There are no operands. */
static void scan_arguments(struct scan *scan)
{
    struct sbx_error error = {.code = EINVAL, .stage = SBX_STAGE_OPTIONS};
    while (scan->argv[scan->next] != NULL && scan->failure.code == 0) {
        const char *argument = scan->argv[scan->next++];
        if (argument[0] == '-' && argument[1] == '-' && argument[2] != '\0') {
            scan_long(scan, argument + 2);
        } else if (argument[0] == '-' && argument[1] != '-' && argument[1] != '\0') {
            scan_letters(scan, argument + 1);
        } else {
            (void)snprintf(error.message, sizeof error.message,
                           "takes no arguments: '%.64s'", argument);
            fail(scan, &error, help_hint);
        }
    }
}

static void print_help(void)
{
    size_t count = 0;
    const struct sbx_option *table = sbx_supervisor_options(&count);
    (void)fputs("Usage: sbxd [OPTION]...\n"
                "Serve executions over HTTP on a Unix socket: commands that are started "
                "under an\nid, held to limits, and outlive whoever has asked for them, "
                "also sbxd.\n",
                stdout);
    sbx_line_print_options(table, count);
    sbx_line_print_options(own_options, OWN_COUNT);
    (void)fputs("\n"
                "SIGTERM and SIGINT end the service alone; executions go on, and the "
                "next sbxd\nfinds them. Exit status: 0, or 125 when it cannot serve. See "
                "sbxd(8), sbxctl(1).\n",
                stdout);
}

static int act(struct scan *scan)
{
    struct sbx_error error = {0};
    if (scan->failure.code != 0) {
        sbx_line_complain(program, "", scan->failure.message, scan->hint);
        return SBX_STATUS_FAILED;
    }
    if (scan->help || scan->version) {
        if (scan->help) {
            print_help();
        } else {
            (void)printf("sbxd %s\n", sbx_version());
        }
        return sbx_line_close_stdout(program);
    }
    /* Else the first large answer that is freed raises this, and what the next ones took
     * stays here. */
    (void)mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
    if (sbx_supervisor_serve(scan->supervisor, &error) < 0) {
        sbx_line_complain(program, "", error.message, "");
        return SBX_STATUS_FAILED;
    }
    return EXIT_SUCCESS;
}

int main(int argc, char *argv[])
{
    if (sbx_line_open_standard_streams() < 0) {
        return SBX_STATUS_FAILED;
    }
    struct scan scan = {.argv = argv, .next = argc > 0 ? 1 : 0};
    scan.supervisor = sbx_supervisor_new();
    if (scan.supervisor == NULL) {
        sbx_line_complain(program, "", "no memory", "");
        return SBX_STATUS_FAILED;
    }
    scan_arguments(&scan);
    int status = act(&scan);
    sbx_supervisor_free(scan.supervisor);
    return status;
}
