/*
 * environment.c - see environment.h. A file may hold some hundred thousand variables, so
 * nothing here compares each with each.
 */
#include "monitor/environment.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_SIZE 96

/* --- strings --- */

void sbx_strings_done(struct sbx_strings *strings)
{
    for (size_t i = 0; i < strings->count; i++) {
        free(strings->items[i]);
    }
    free(strings->items);
    *strings = (struct sbx_strings){.items = NULL};
}

void sbx_environment_done(struct sbx_environment *environment)
{
    sbx_strings_done(&environment->from_files);
    sbx_strings_done(&environment->given);
}

/* Grows when the count is a power of two: room needs no field of its own. */
int sbx_strings_add(struct sbx_strings *strings, const char *text, size_t length)
{
    size_t count = strings->count;
    SBX_AUTO_FREE char *copy = strndup(text, length);
    if (copy == NULL) {
        return -ENOMEM;
    }
    if ((count & (count - 1)) == 0) {
        size_t room = count == 0 ? 1 : 2 * count;
        char **items = reallocarray(strings->items, room, sizeof *items);
        if (items == NULL) {
            return -ENOMEM;
        }
        strings->items = items;
    }
    strings->items[count] = copy;
    strings->count++;
    copy = NULL;
    return 0;
}

/* Moves all of them. 0 or -ENOMEM: then nothing has changed that counts. */
static int append(struct sbx_strings *strings, struct sbx_strings *more)
{
    struct sbx_strings all = {.items = NULL};
    size_t room = 1;
    while (room < strings->count + more->count) {
        room *= 2; /* as sbx_strings_add expects it */
    }
    all.items = calloc(room, sizeof *all.items);
    if (all.items == NULL) {
        return -ENOMEM;
    }
    if (strings->count > 0) {
        memcpy(all.items, strings->items, strings->count * sizeof *all.items);
    }
    if (more->count > 0) {
        memcpy(all.items + strings->count, more->items, more->count * sizeof *all.items);
    }
    all.count = strings->count + more->count;
    free(strings->items);
    free(more->items);
    *strings = all;
    *more = (struct sbx_strings){.items = NULL};
    return 0;
}

/* --- files --- */

/* NAME=VALUE. In a line a blank in the name means that something else was meant, such as
 * "export NAME=VALUE". */
static bool is_assignment(const char *text, size_t length, bool line)
{
    const char *equals = memchr(text, '=', length);
    if (equals == NULL || equals == text) {
        return false;
    }
    for (const char *at = text; line && at < equals; at++) {
        if ((unsigned char)*at <= ' ' || *at == 0x7f) {
            return false;
        }
    }
    return true;
}

static int take_entries(const char *text, size_t length, struct sbx_strings *strings,
                        struct sbx_error *err)
{
    bool lines = memchr(text, '\0', length) == NULL;
    const char *end = text + length;
    size_t number = 1;
    for (const char *at = text; at < end; number++) {
        const char *mark = memchr(at, lines ? '\n' : '\0', (size_t)(end - at));
        size_t size = (size_t)((mark != NULL ? mark : end) - at);
        const char *entry = at;
        at += size + 1;
        if (lines && (size == 0 || *entry == '#')) {
            continue;
        }
        if (!is_assignment(entry, size, lines)) {
            return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                                 "%s %zu is not NAME=VALUE", lines ? "line" : "entry",
                                 number);
        }
        if (sbx_strings_add(strings, entry, size) < 0) {
            return sbx_error_set(err, ENOMEM, SBX_STAGE_OPTIONS, "no memory for %s %zu",
                                 lines ? "line" : "entry", number);
        }
    }
    return 0;
}

int sbx_environment_add_file(struct sbx_environment *environment, const char *text,
                             size_t length, struct sbx_error *err)
{
    struct sbx_strings taken = {.items = NULL};
    int error = length > 0 ? take_entries(text, length, &taken, err) : 0;
    if (error == 0 && append(&environment->from_files, &taken) < 0) {
        error = sbx_error_set(err, ENOMEM, SBX_STAGE_OPTIONS, "no memory");
    }
    sbx_strings_done(&taken);
    return error;
}

/* --- putting it together --- */

struct entry {
    const char *text; /* without '=': takes the name away */
    size_t name_length;
    size_t order;
    bool last; /* of its name */
};

static int compare_order(const void *left, const void *right)
{
    const struct entry *a = left;
    const struct entry *b = right;
    return a->order < b->order ? -1 : a->order > b->order;
}

/* Entries of one name in their order. */
static int compare_names(const void *left, const void *right)
{
    const struct entry *a = left;
    const struct entry *b = right;
    size_t common = a->name_length < b->name_length ? a->name_length : b->name_length;
    int order = memcmp(a->text, b->text, common);
    if (order != 0) {
        return order;
    }
    if (a->name_length != b->name_length) {
        return a->name_length < b->name_length ? -1 : 1;
    }
    return compare_order(left, right);
}

static bool same_name(const struct entry *a, const struct entry *b)
{
    return a->name_length == b->name_length &&
           memcmp(a->text, b->text, a->name_length) == 0;
}

static void mark_last_ones(struct entry *entries, size_t count)
{
    qsort(entries, count, sizeof *entries, compare_names);
    for (size_t i = 0; i < count; i++) {
        entries[i].last = i + 1 == count || !same_name(&entries[i], &entries[i + 1]);
    }
    qsort(entries, count, sizeof *entries, compare_order);
}

static void add_entry(struct entry *entries, size_t *count, const char *text)
{
    entries[*count] =
        (struct entry){.text = text, .name_length = strcspn(text, "="), .order = *count};
    (*count)++;
}

/* The caller's variable of that name, or the name itself where it has none. */
static const char *inherit(const char *name, const char *const *base,
                           struct sbx_record *record)
{
    char shown[SHOWN_SIZE];
    size_t length = strlen(name);
    for (size_t i = 0; base[i] != NULL; i++) {
        if (strncmp(base[i], name, length) == 0 && base[i][length] == '=') {
            return base[i];
        }
    }
    if (record != NULL) {
        (void)sbx_text_escape(shown, sizeof shown, name, length);
        sbx_record_warn(record, "env %s: the caller has none, so the command has none",
                        shown);
    }
    return name;
}

static size_t count_base(const char *const *base)
{
    size_t count = 0;
    while (base[count] != NULL) {
        count++;
    }
    return count;
}

/* A caller's entry without '=' is no variable, and is left out. */
static size_t collect(const struct sbx_environment *environment, const char *const *base,
                      struct sbx_record *record, struct entry *entries)
{
    size_t count = 0;
    for (size_t i = 0; !environment->clear && base[i] != NULL; i++) {
        add_entry(entries, &count, base[i]);
    }
    for (size_t i = 0; i < environment->from_files.count; i++) {
        add_entry(entries, &count, environment->from_files.items[i]);
    }
    for (size_t i = 0; i < environment->given.count; i++) {
        const char *text = environment->given.items[i];
        add_entry(entries, &count,
                  strchr(text, '=') != NULL ? text : inherit(text, base, record));
    }
    return count;
}

int sbx_environment_make(const struct sbx_environment *environment,
                         const char *const *base, struct sbx_record *record,
                         const char ***ret_array)
{
    size_t most =
        count_base(base) + environment->from_files.count + environment->given.count;
    SBX_AUTO_FREE struct entry *entries = calloc(most + 1, sizeof *entries);
    SBX_AUTO_FREE const char **array = calloc(most + 1, sizeof *array);
    if (entries == NULL || array == NULL) {
        return -ENOMEM;
    }
    size_t count = collect(environment, base, record, entries);
    mark_last_ones(entries, count);
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (entries[i].last && entries[i].text[entries[i].name_length] == '=') {
            array[used++] = entries[i].text;
        }
    }
    *ret_array = array;
    array = NULL;
    return 0;
}
