/*
 * flatten.c - see flatten.h. One pass without recursion: the open lists and objects are a
 * small stack, each with the length that the path had when it was opened.
 */
#include "monitor/flatten.h"

#include "monitor/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A list or object that is open. */
struct level {
    char close;         /* the bracket that ends it */
    size_t path_length; /* of its own path */
    size_t index;       /* of the next value of a list */
};

struct walk {
    const char *next;
    const char *end;
    char path[SBX_FLATTEN_PATH_SIZE];
    size_t path_length;
    struct level levels[SBX_JSON_DEPTH];
    size_t depth;
    sbx_flatten_callback *callback;
    void *context;
    bool ended; /* by the callback */
};

static bool at_end(const struct walk *walk)
{
    return walk->next == walk->end;
}

static char look(const struct walk *walk)
{
    return at_end(walk) ? '\0' : *walk->next;
}

static int push_part(struct walk *walk, const char *part, size_t length)
{
    size_t used = walk->path_length;
    bool dot = used > 0;
    if (used + dot + length >= sizeof walk->path) {
        return -ENOBUFS;
    }
    if (dot) {
        walk->path[used++] = '.';
    }
    memcpy(walk->path + used, part, length);
    walk->path_length = used + length;
    walk->path[walk->path_length] = '\0';
    return 0;
}

static void cut_path(struct walk *walk, size_t length)
{
    walk->path_length = length;
    walk->path[length] = '\0';
}

/* The end of the string that begins here, behind its quote; NULL when it has none. */
static const char *string_end(const struct walk *walk)
{
    const char *at = walk->next + 1;
    while (at < walk->end && *at != '"') {
        at += *at == '\\' && walk->end - at > 1 ? 2 : 1;
    }
    return at < walk->end ? at + 1 : NULL;
}

/* The end of the scalar that begins here; NULL when there is none. */
static const char *scalar_end(const struct walk *walk)
{
    if (look(walk) == '"') {
        return string_end(walk);
    }
    const char *at = walk->next;
    while (at < walk->end && strchr(",]}[{:\"\n", *at) == NULL) {
        at++;
    }
    return at > walk->next ? at : NULL;
}

static int give(struct walk *walk, const char *end)
{
    struct sbx_flat flat = {
        .path = walk->path, .value = walk->next, .length = (size_t)(end - walk->next)};
    walk->next = end;
    walk->ended = !walk->callback(&flat, walk->context);
    return 0;
}

static int open_level(struct walk *walk)
{
    char close = look(walk) == '{' ? '}' : ']';
    if (walk->end - walk->next > 1 && walk->next[1] == close) {
        return give(walk, walk->next + 2);
    }
    if (walk->depth == SBX_JSON_DEPTH) {
        return -EINVAL;
    }
    walk->levels[walk->depth++] =
        (struct level){.close = close, .path_length = walk->path_length};
    walk->next++;
    return 0;
}

/* The name or number of the next value of the innermost level goes to the path. */
static int enter_item(struct walk *walk)
{
    struct level *level = &walk->levels[walk->depth - 1];
    if (level->close == ']') {
        char number[24];
        int length = snprintf(number, sizeof number, "%zu", level->index++);
        return push_part(walk, number, (size_t)length);
    }
    const char *end = look(walk) == '"' ? string_end(walk) : NULL;
    if (end == NULL || end == walk->end || *end != ':') {
        return -EINVAL;
    }
    int r = push_part(walk, walk->next + 1, (size_t)(end - walk->next) - 2);
    walk->next = end + 1;
    return r;
}

static int take_value(struct walk *walk)
{
    int r = walk->depth > 0 ? enter_item(walk) : 0;
    if (r < 0) {
        return r;
    }
    if (look(walk) == '{' || look(walk) == '[') {
        return open_level(walk);
    }
    const char *end = walk->depth > 0 ? scalar_end(walk) : NULL;
    return end != NULL ? give(walk, end) : -EINVAL;
}

/* Behind a value: what it was the last of is closed, and a comma leads to the next.
 * 1: there is a next one; 0: that was all. */
static int leave_values(struct walk *walk)
{
    while (walk->depth > 0) {
        const struct level *level = &walk->levels[walk->depth - 1];
        cut_path(walk, level->path_length);
        if (look(walk) == ',') {
            walk->next++;
            return 1;
        }
        if (at_end(walk) || look(walk) != level->close) {
            return -EINVAL;
        }
        walk->next++;
        walk->depth--;
    }
    return 0;
}

int sbx_flatten(const char *json, size_t length, sbx_flatten_callback *callback,
                void *context)
{
    struct walk walk = {
        .next = json, .end = json + length, .callback = callback, .context = context};
    int r = 1;
    while (r == 1) {
        size_t depth = walk.depth;
        r = take_value(&walk);
        if (r < 0 || walk.ended) {
            return r;
        }
        r = walk.depth > depth ? 1 : leave_values(&walk);
    }
    if (r < 0) {
        return r;
    }
    if (look(&walk) == '\n') {
        walk.next++;
    }
    return at_end(&walk) ? 0 : -EINVAL;
}

struct search {
    const char *path;
    struct sbx_flat found;
};

static bool compare(const struct sbx_flat *flat, void *context)
{
    struct search *search = context;
    if (strcmp(flat->path, search->path) != 0) {
        return true;
    }
    search->found = *flat;
    return false;
}

bool sbx_flatten_find(const char *json, size_t length, const char *path,
                      struct sbx_flat *ret_flat)
{
    struct search search = {.path = path};
    (void)sbx_flatten(json, length, compare, &search);
    if (search.found.value == NULL) {
        return false;
    }
    search.found.path = path; /* the walk's own is gone */
    *ret_flat = search.found;
    return true;
}
