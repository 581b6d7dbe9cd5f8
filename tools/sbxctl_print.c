/*
 * sbxctl_print.c - messages, and what the service answers, for people: tables and text,
 * or JSON as it came. Names and output of commands are from anybody: nothing that a
 * terminal would act on is printed.
 */
#include "tools/command_line.h"
#include "tools/sbxctl.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIME_WIDTH 20 /* "2026-11-30T14:03:11Z" */
#define LABEL_WIDTH 12

int sbx_ctl_fail(const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    sbx_line_complain("sbxctl", "", length < 0 ? "no memory" : text, "");
    free(length < 0 ? NULL : text);
    return SBX_STATUS_FAILED;
}

void sbx_ctl_print_json(const json_t *json)
{
    (void)json_dumpf(json, stdout, JSON_COMPACT | JSON_ENCODE_ANY);
    (void)putchar('\n');
}

/* Control characters, those of U+0080 to U+009F too, as '?'. Returns how many columns. */
static int put_text(const char *text)
{
    int columns = 0;
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        bool control = *at < 0x20 || *at == 0x7f;
        if (*at == 0xc2 && at[1] >= 0x80 && at[1] <= 0x9f) {
            control = true;
            at++;
        }
        (void)putchar(control ? '?' : *at);
        columns += (*at & 0xc0) != 0x80 || control;
    }
    return columns;
}

static void put_padded(const char *text, int width)
{
    for (int columns = put_text(text); columns < width; columns++) {
        (void)putchar(' ');
    }
}

static const char *string_in(const json_t *object, const char *key, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : otherwise;
}

/* Without the fraction of its second. */
static const char *time_in(const json_t *object, const char *key,
                           char text[static TIME_WIDTH + 1])
{
    const char *whole = string_in(object, key, "-");
    (void)snprintf(text, TIME_WIDTH + 1, "%.*s%s", TIME_WIDTH - 1, whole,
                   strlen(whole) >= TIME_WIDTH ? "Z" : "");
    return text;
}

/* --- list --- */

void sbx_ctl_print_list(const json_t *list)
{
    char text[TIME_WIDTH + 1];
    int width = 2;
    size_t i = 0;
    json_t *item = NULL;
    const json_t *items = json_object_get(list, "executions");
    for (i = 0; (item = json_array_get(items, i)) != NULL; i++) {
        size_t length = strlen(string_in(item, "id", ""));
        width = length > (size_t)width && length < 200 ? (int)length : width;
    }
    put_padded("ID", width + 2);
    (void)puts("STATUS     CREATED               FINISHED              OUTCOME");
    for (i = 0; (item = json_array_get(items, i)) != NULL; i++) {
        put_padded(string_in(item, "id", "-"), width + 2);
        put_padded(string_in(item, "status", "-"), 11);
        put_padded(time_in(item, "created_at", text), TIME_WIDTH + 2);
        put_padded(time_in(item, "finished_at", text), TIME_WIDTH + 2);
        (void)put_text(string_in(item, "outcome", "-"));
        (void)putchar('\n');
    }
}

/* --- one of them --- */

static void put_label(const char *label)
{
    (void)printf("%-*s", LABEL_WIDTH, label);
}

/* "1.250s", "12.3 MiB", "3": a value by the unit that ends its name. */
static void put_measure(const char *name, json_int_t value)
{
    size_t length = strlen(name);
    bool us = length > 3 && strcmp(name + length - 3, "_us") == 0;
    bool bytes = length > 6 && strcmp(name + length - 6, "_bytes") == 0;
    if (us) {
        (void)printf("%.3fs", (double)value / 1e6);
    } else if (bytes && value >= (json_int_t)1024 * 1024) {
        (void)printf("%.1f MiB", (double)value / (1024.0 * 1024.0));
    } else if (bytes) {
        (void)printf("%.1f KiB", (double)value / 1024.0);
    } else {
        (void)printf("%" JSON_INTEGER_FORMAT, value);
    }
}

static void put_outcome(const json_t *report)
{
    const json_t *code = json_object_get(report, "exit_code");
    put_label("outcome");
    (void)put_text(string_in(report, "outcome", "-"));
    if (json_is_integer(code)) {
        (void)printf(", exit code %" JSON_INTEGER_FORMAT, json_integer_value(code));
    }
    if (json_object_get(report, "signal") != NULL) {
        (void)printf(", ");
        (void)put_text(string_in(report, "signal", ""));
    }
    (void)putchar('\n');
}

/* Limit and observed value, in the unit that the breach tells. */
static void put_breach(const json_t *breach)
{
    static const char *const keys[] = {"limit", "observed"};
    char name[32];
    if (breach == NULL) {
        return;
    }
    put_label("breach");
    (void)put_text(string_in(breach, "reason", "-"));
    (void)snprintf(name, sizeof name, "x_%.16s", string_in(breach, "unit", ""));
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const json_t *value = json_object_get(breach, keys[i]);
        if (json_is_integer(value)) {
            (void)printf(", %s ", keys[i]);
            put_measure(name, json_integer_value(value));
        }
    }
    (void)putchar('\n');
}

static void put_usage(const json_t *usage)
{
    static const struct {
        const char *key;
        const char *label;
    } shown[] = {{"wall_us", "wall"},
                 {"cpu_us", "cpu"},
                 {"memory_peak_bytes", "memory peak"},
                 {"processes_peak", "processes peak"},
                 {"output_bytes", "output"}};
    const char *comma = "";
    put_label("usage");
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        const json_t *value = json_object_get(usage, shown[i].key);
        if (json_is_integer(value)) {
            (void)printf("%s%s ", comma, shown[i].label);
            put_measure(shown[i].key, json_integer_value(value));
            comma = ", ";
        }
    }
    (void)puts(*comma == '\0' ? "-" : "");
}

static void put_processes(const char *label, const json_t *list, json_int_t count)
{
    size_t i = 0;
    json_t *item = NULL;
    if (count <= 0) {
        return;
    }
    put_label(label);
    (void)printf("%" JSON_INTEGER_FORMAT, count);
    for (; (item = json_array_get(list, i)) != NULL; i++) {
        (void)printf("%s %" JSON_INTEGER_FORMAT " ", i == 0 ? ":" : ",",
                     json_integer_value(json_object_get(item, "pid")));
        (void)put_text(string_in(item, "name", ""));
    }
    (void)putchar('\n');
}

static void put_termination(const json_t *termination)
{
    static const char *const keys[] = {"strays", "survivors"};
    char count[32];
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        (void)snprintf(count, sizeof count, "%s_count", keys[i]);
        put_processes(keys[i], json_object_get(termination, keys[i]),
                      json_integer_value(json_object_get(termination, count)));
    }
    if (json_object_get(termination, "proof") != NULL) {
        put_label("proof");
        (void)put_text(string_in(termination, "proof", ""));
        (void)putchar('\n');
    }
}

static void put_message(const char *label, const char *text)
{
    if (text != NULL) {
        put_label(label);
        (void)put_text(text);
        (void)putchar('\n');
    }
}

/* To the byte: these are where its output can be read up to. */
static void put_written(const json_t *snapshot)
{
    const json_t *out = json_object_get(snapshot, "stdout_bytes");
    const json_t *err = json_object_get(snapshot, "stderr_bytes");
    if (out != NULL && err != NULL) {
        put_label("written");
        (void)printf("%" JSON_INTEGER_FORMAT " bytes to stdout, %" JSON_INTEGER_FORMAT
                     " to stderr\n",
                     json_integer_value(out), json_integer_value(err));
    }
}

void sbx_ctl_print_snapshot(const json_t *snapshot)
{
    static const struct {
        const char *key;
        const char *label;
    } lines[] = {{"id", "id"},
                 {"status", "status"},
                 {"created_at", "created"},
                 {"started_at", "started"},
                 {"finished_at", "finished"}};
    size_t i = 0;
    json_t *warning = NULL;
    for (i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        put_message(lines[i].label, string_in(snapshot, lines[i].key, NULL));
    }
    if (json_is_true(json_object_get(snapshot, "paused"))) {
        put_message("paused", "yes");
    }
    put_label("events");
    (void)printf("%" JSON_INTEGER_FORMAT "\n",
                 json_integer_value(json_object_get(snapshot, "latest_sequence")));
    put_written(snapshot);
    const json_t *report = json_object_get(snapshot, "report");
    if (report == NULL) {
        return;
    }
    put_outcome(report);
    put_breach(json_object_get(report, "breach"));
    put_usage(json_object_get(report, "usage"));
    put_termination(json_object_get(report, "termination"));
    const json_t *warnings = json_object_get(report, "warnings");
    for (i = 0; (warning = json_array_get(warnings, i)) != NULL; i++) {
        put_message("warning", json_string_value(warning));
    }
    put_message("error", string_in(json_object_get(report, "error"), "message", NULL));
}

/* --- events --- */

/* "3 2026-11-30T14:03:12.100200Z stdout offset=0 length=3 data="42\n"". */
void sbx_ctl_print_event(const json_t *event)
{
    static const char *const known[] = {"sequence", "at", "type", "report"};
    const char *key;
    json_t *value;
    (void)printf("%" JSON_INTEGER_FORMAT " ",
                 json_integer_value(json_object_get(event, "sequence")));
    (void)put_text(string_in(event, "at", "-"));
    (void)putchar(' ');
    (void)put_text(string_in(event, "type", "-"));
    json_t *copy = json_copy((json_t *)(uintptr_t)event); /* to walk over it */
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        (void)json_object_del(copy, known[i]);
    }
    json_object_foreach(copy, key, value)
    {
        (void)putchar(' ');
        (void)put_text(key);
        (void)putchar('=');
        /* Nothing but ASCII, and control characters escaped. */
        (void)json_dumpf(value, stdout,
                         JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    }
    (void)putchar('\n');
    json_decref(copy);
}

/* --- the service --- */

void sbx_ctl_print_stats(const json_t *stats)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)stats, key, value)
    {
        const char *inner;
        json_t *number;
        if (!json_is_object(value)) {
            put_padded(key, 26);
            sbx_ctl_print_json(value);
            continue;
        }
        json_object_foreach(value, inner, number)
        {
            char name[128];
            (void)snprintf(name, sizeof name, "%s.%s", key, inner);
            put_padded(name, 26);
            sbx_ctl_print_json(number);
        }
    }
}

/* Nothing where there is no text. */
static void put_bracketed(const char *before, const char *text, const char *behind)
{
    if (*text != '\0') {
        (void)fputs(before, stdout);
        (void)put_text(text);
        (void)fputs(behind, stdout);
    }
}

void sbx_ctl_print_verify(const json_t *verify)
{
    static const char *const answers[] = {"supported", "network_isolation",
                                          "resource_limits"};
    json_t *check = NULL;
    const json_t *checks = json_object_get(verify, "checks");
    for (size_t i = 0; (check = json_array_get(checks, i)) != NULL; i++) {
        const json_t *ok = json_object_get(check, "ok");
        put_padded(json_is_true(ok) ? "yes" : ok != NULL ? "no" : "n.a.", 6);
        put_padded(string_in(check, "name", "-"), 24);
        (void)put_text(string_in(check, "detail", ""));
        put_bracketed(" [", string_in(check, "layer", ""), "]");
        put_bracketed(" remedy: ", string_in(check, "remedy", ""), "");
        (void)putchar('\n');
    }
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        (void)printf("%s: %s\n", answers[i],
                     json_is_true(json_object_get(verify, answers[i])) ? "yes" : "no");
    }
}
