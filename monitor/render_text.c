/*
 * render_text.c - the report for people, see render.h: the verdict in a sentence, then
 * one section after the other, with numbers in units that people use and the exact ones
 * beside them.
 *
 * Everything that the report holds is shown: what this file has no place for comes last,
 * under its own name. Works nothing out but units. Each value is one line, since names
 * and messages in a report have no control characters.
 */
#include "monitor/render.h"

#include "monitor/flatten.h"
#include "monitor/human.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LABEL_WIDTH 26
#define COMMAND_SHOWN 2000U
#define WORD_SIZE 256

struct source {
    const char *json;
    size_t length;
};

/* --- values --- */

static bool find(const struct source *source, const char *path, struct sbx_flat *ret_flat)
{
    return sbx_flatten_find(source->json, source->length, path, ret_flat);
}

static bool is(const struct source *source, const char *path, const char *value)
{
    struct sbx_flat flat;
    return find(source, path, &flat) && flat.length == strlen(value) &&
           memcmp(flat.value, value, flat.length) == 0;
}

static bool is_string(const struct sbx_flat *flat)
{
    return flat->length >= 2 && flat->value[0] == '"';
}

static bool is_empty(const struct sbx_flat *flat)
{
    return flat->value[0] == '[' || flat->value[0] == '{';
}

/* A string without its quotes and JSON's own escapes; all else as it is. */
static void put_value(struct sbx_out *out, const struct sbx_flat *flat)
{
    if (!is_string(flat)) {
        sbx_out_bytes(out, flat->value, flat->length);
        return;
    }
    for (size_t i = 1; i + 1 < flat->length; i++) {
        if (flat->value[i] == '\\') {
            i++;
        }
        sbx_out_bytes(out, flat->value + i, 1);
    }
}

static void put_found(struct sbx_out *out, const struct source *source, const char *path)
{
    struct sbx_flat flat;
    if (find(source, path, &flat)) {
        put_value(out, &flat);
    } else {
        sbx_out_text(out, "unknown");
    }
}

static bool has_suffix(const char *text, size_t length, const char *suffix)
{
    size_t wanted = strlen(suffix);
    return length > wanted && memcmp(text + length - wanted, suffix, wanted) == 0;
}

/* The unit that a key names: "us", "bytes" or "". */
static const char *unit_of(const char *path)
{
    size_t length = strlen(path);
    if (has_suffix(path, length, "_us")) {
        return "us";
    }
    return has_suffix(path, length, "_bytes") ? "bytes" : "";
}

/* "1.00s" or "200.0 MiB"; without a unit the number as it is. */
static void put_amount(struct sbx_out *out, const struct sbx_flat *flat, const char *unit)
{
    char text[SBX_HUMAN_SIZE];
    uint64_t number = strtoull(flat->value, NULL, 10);
    if (strcmp(unit, "us") == 0) {
        sbx_out_text(out, sbx_human_us(number, text));
    } else if (strcmp(unit, "bytes") == 0) {
        sbx_out_text(out, sbx_human_bytes(number, text));
    } else {
        put_value(out, flat);
    }
}

/* The same with the exact number beside it. */
static void put_measured(struct sbx_out *out, const struct sbx_flat *flat,
                         const char *unit)
{
    put_amount(out, flat, unit);
    if (unit[0] == '\0' || is_string(flat)) {
        return;
    }
    sbx_out_text(out, " (");
    put_value(out, flat);
    sbx_out_text(out, " ");
    sbx_out_text(out, unit);
    sbx_out_text(out, ")");
}

/* --- the verdict --- */

static const char *breach_unit(const struct source *source)
{
    if (is(source, "breach.unit", "\"us\"")) {
        return "us";
    }
    return is(source, "breach.unit", "\"bytes\"") ? "bytes" : "";
}

static void say_breach(struct sbx_out *out, const struct source *source)
{
    struct sbx_flat flat;
    const char *unit = breach_unit(source);
    put_found(out, source, "breach.reason");
    if (is(source, "breach.reason", "\"oom\"")) {
        sbx_out_text(out, ": a process of it was killed, but for no limit of this run");
    }
    if (find(source, "breach.name", &flat)) {
        sbx_out_text(out, " ");
        put_value(out, &flat);
    }
    if (find(source, "breach.limit", &flat)) {
        sbx_out_text(out, " limit ");
        put_amount(out, &flat, unit);
    }
    if (find(source, "breach.observed", &flat)) {
        sbx_out_text(out, ", observed ");
        put_measured(out, &flat, unit);
    }
    if (find(source, "breach.culprit.name", &flat)) {
        sbx_out_text(out, ", most of it in ");
        put_value(out, &flat);
    }
}

/* How the command itself ended, where that is known. */
static void say_own_end(struct sbx_out *out, const struct source *source,
                        const char *before)
{
    struct sbx_flat flat;
    if (find(source, "exit_code", &flat)) {
        sbx_out_text(out, before);
        sbx_out_text(out, "the command exited with ");
        put_value(out, &flat);
    } else if (find(source, "signal", &flat)) {
        sbx_out_text(out, before);
        sbx_out_text(out, "the command was ended by ");
        put_value(out, &flat);
        sbx_out_text(out, is(source, "core_dumped", "true") ? " (core dumped)" : "");
    }
}

static void say_outcome(struct sbx_out *out, const struct source *source)
{
    put_found(out, source, "outcome");
    sbx_out_text(out, ": ");
    if (is(source, "outcome", "\"breach\"")) {
        say_breach(out, source);
        say_own_end(out, source, "; ");
    } else if (is(source, "outcome", "\"cancelled\"")) {
        put_found(out, source, "cancel_signal");
        sbx_out_text(out, " asked for the end");
        say_own_end(out, source, "; ");
    } else if (is(source, "outcome", "\"launch-failed\"")) {
        sbx_out_text(out, "nothing ran: ");
        put_found(out, source, "error.message");
    } else if (is(source, "outcome", "\"lost\"")) {
        sbx_out_text(out, "the monitor died before the run ended");
        say_own_end(out, source, "; ");
    } else {
        say_own_end(out, source, "");
    }
}

static void say_emptiness(struct sbx_out *out, const struct source *source)
{
    struct sbx_flat flat;
    bool survivors = find(source, "termination.survivors_count", &flat) &&
                     !is(source, "termination.survivors_count", "0");
    if (survivors) {
        sbx_out_text(out, "; survivors: ");
        put_value(out, &flat);
    } else if (is(source, "termination.proof", "\"none\"")) {
        sbx_out_text(out, "; nothing proves that its tree is empty");
    } else if (find(source, "termination.proof", &flat)) {
        sbx_out_text(out, "; nothing of its tree is left");
    }
    sbx_out_text(out, "\n");
}

/* --- the rest, section by section --- */

struct section {
    struct sbx_out *out;
    const char *name; /* the first part of the paths; "" for what has only one */
    bool headed;      /* its heading is written */
    char item[SBX_FLATTEN_PATH_SIZE]; /* of the list entry that this line is about */
    bool line_open;
    size_t command_used; /* of what is shown of the command */
    bool command_cut;
};

/* The order in which they are shown; all others come behind. */
static const char *const sections[] = {
    "usage", "breach",   "warnings", "error",       "termination", "limits",
    "armed", "ceilings", "",         "containment", "sampling",
};
#define SECTION_COUNT (sizeof sections / sizeof sections[0])

static size_t first_part(const char *path)
{
    return strcspn(path, ".");
}

/* Whether a path stands in the first section: alone at the top, or part of the command.
 */
static bool is_plain(const char *path)
{
    return path[first_part(path)] == '\0' || strncmp(path, "command.", 8) == 0;
}

static bool is_in(const struct sbx_flat *flat, const char *name)
{
    bool plain = is_plain(flat->path);
    if (name[0] == '\0') {
        /* An empty list or object at the top is a section without lines, and so are no
         * warnings. */
        bool none = is_empty(flat) ||
                    (strcmp(flat->path, "warnings_count") == 0 && flat->value[0] == '0');
        return plain && strcmp(flat->path, "schema") != 0 && !none;
    }
    size_t length = first_part(flat->path);
    return !plain && strlen(name) == length && memcmp(flat->path, name, length) == 0 &&
           flat->path[length] == '.';
}

static void end_line(struct section *section)
{
    if (section->line_open) {
        sbx_out_text(section->out, "\n");
    }
    section->line_open = false;
}

/* "memory_peak_bytes" as "memory peak": the unit stands behind the number. */
static void put_label(struct section *section, const char *key, size_t length)
{
    char label[SBX_FLATTEN_PATH_SIZE];
    end_line(section);
    if (!section->headed) {
        sbx_out_text(section->out, "\n");
        sbx_out_text(section->out, section->name[0] != '\0' ? section->name : "run");
        sbx_out_text(section->out, "\n");
    }
    section->headed = true;
    for (size_t i = 0; i < length; i++) {
        label[i] = key[i];
        if (key[i] == '_' || key[i] == '.') {
            label[i] = ' ';
        }
    }
    label[length] = '\0';
    char padded[SBX_FLATTEN_PATH_SIZE + LABEL_WIDTH];
    (void)snprintf(padded, sizeof padded, "  %-*s", length > 0 ? LABEL_WIDTH : 0, label);
    sbx_out_text(section->out, padded);
    section->line_open = true;
}

static size_t without_unit(const char *key)
{
    size_t length = strlen(key);
    const char *unit = unit_of(key);
    return unit[0] != '\0' ? length - strlen(unit) - 1 : length;
}

/* The part of a path that is a number: a place in a list. NULL: it has none. Not the
 * first: a report is an object. */
static const char *list_index(const char *path)
{
    for (const char *dot = strchr(path, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
        if (dot[1] >= '0' && dot[1] <= '9') {
            return dot + 1;
        }
    }
    return NULL;
}

/* Whether a shell would take it for one plain word. */
static bool is_word(const struct sbx_flat *flat)
{
    for (size_t i = 1; i + 1 < flat->length; i++) {
        if (strchr(" \"'\\$`*?;&|<>()#~[]{}!", flat->value[i]) != NULL) {
            return false;
        }
    }
    return flat->length > 2;
}

/* The command on one line, with quotes around what is no plain word. A long one is cut:
 * it is in the other forms of the report. */
static void put_word(struct section *section, const struct sbx_flat *flat)
{
    struct sbx_out *out = section->out;
    bool first = strcmp(flat->path, "command.0") == 0;
    if (first) {
        put_label(section, "command", strlen("command"));
    } else if (!section->command_cut) {
        sbx_out_text(out, " ");
    }
    section->command_used += flat->length + 1;
    if (section->command_used > COMMAND_SHOWN) {
        sbx_out_text(out, section->command_cut ? "" : "...");
        section->command_cut = true;
    } else if (is_word(flat)) {
        put_value(out, flat);
    } else {
        sbx_out_bytes(out, flat->value, flat->length);
    }
}

/* All values of one entry of a list on one line. */
static void put_entry(struct section *section, const struct sbx_flat *flat,
                      const char *index)
{
    size_t list_length = (size_t)(index - flat->path) - 1;
    size_t item_length = list_length + 1 + first_part(index);
    bool same = section->line_open && strlen(section->item) == item_length &&
                strncmp(section->item, flat->path, item_length) == 0;
    if (same) {
        sbx_out_text(section->out, " ");
    } else {
        size_t name = strlen(section->name);
        size_t skip = list_length > name ? name + 1 : list_length;
        put_label(section, flat->path + skip, list_length - skip);
        memcpy(section->item, flat->path, item_length);
        section->item[item_length] = '\0';
    }
    put_value(section->out, flat);
}

static bool put_item(const struct sbx_flat *flat, void *context)
{
    struct section *section = context;
    if (!is_in(flat, section->name)) {
        return true;
    }
    if (strncmp(flat->path, "command.", 8) == 0) {
        put_word(section, flat);
        return !section->out->overflow;
    }
    const char *index = list_index(flat->path);
    if (index != NULL) {
        put_entry(section, flat, index);
        return !section->out->overflow;
    }
    const char *key =
        section->name[0] != '\0' ? flat->path + strlen(section->name) + 1 : flat->path;
    put_label(section, key, without_unit(key));
    if (is_empty(flat)) {
        bool ceiling = strcmp(section->name, "ceilings") == 0;
        sbx_out_text(section->out, ceiling ? "unlimited" : "none");
    } else {
        put_measured(section->out, flat, unit_of(key));
    }
    return !section->out->overflow;
}

static void put_section(struct sbx_out *out, const struct source *source,
                        const char *name)
{
    struct section section = {.out = out, .name = name};
    (void)sbx_flatten(source->json, source->length, put_item, &section);
    end_line(&section);
}

/* What later versions may have added: each new first part once. */
struct others {
    struct sbx_out *out;
    const struct source *source;
    char last[WORD_SIZE];
};

static bool put_other(const struct sbx_flat *flat, void *context)
{
    struct others *others = context;
    char name[WORD_SIZE];
    size_t length = first_part(flat->path);
    if (is_plain(flat->path) || length >= sizeof name) {
        return true;
    }
    memcpy(name, flat->path, length);
    name[length] = '\0';
    for (size_t i = 0; i < SECTION_COUNT; i++) {
        if (strcmp(sections[i], name) == 0) {
            return true;
        }
    }
    if (strcmp(name, others->last) != 0) {
        memcpy(others->last, name, length + 1);
        put_section(others->out, others->source, name);
    }
    return !others->out->overflow;
}

ssize_t sbx_render_text(const char *json, size_t length, char *buffer, size_t size)
{
    struct sbx_out out = {.buffer = buffer, .size = size};
    struct source source = {.json = json, .length = length};
    say_outcome(&out, &source);
    say_emptiness(&out, &source);
    for (size_t i = 0; i < SECTION_COUNT; i++) {
        put_section(&out, &source, sections[i]);
    }
    struct others others = {.out = &out, .source = &source};
    int r = sbx_flatten(json, length, put_other, &others);
    return r < 0 ? r : sbx_out_finish(&out);
}
