/*
 * paths.c - see paths.h.
 */
#include "sandbox/paths.h"

#include <errno.h>
#include <string.h>

/* Appends one component. */
static bool append(char path[static PATH_MAX], size_t *used, const char *name,
                   size_t length)
{
    if (*used + 1 + length >= PATH_MAX) {
        return false;
    }
    path[(*used)++] = '/';
    memcpy(path + *used, name, length);
    *used += length;
    return true;
}

static bool append_all(char path[static PATH_MAX], size_t *used, const char *text)
{
    while (*text != '\0') {
        size_t length = strcspn(text, "/");
        bool says_nothing = length == 0 || (length == 1 && *text == '.');
        if (!says_nothing && !append(path, used, text, length)) {
            return false;
        }
        text += length + (text[length] == '/' ? 1 : 0);
    }
    return true;
}

int sbx_path_absolute(const char *base, const char *path, char ret_path[static PATH_MAX])
{
    char made[PATH_MAX];
    size_t used = 0;
    bool fits = (path[0] == '/' || append_all(made, &used, base)) &&
                append_all(made, &used, path);
    if (!fits) {
        return -ENAMETOOLONG;
    }
    if (used == 0) {
        made[used++] = '/';
    }
    memcpy(ret_path, made, used);
    ret_path[used] = '\0';
    return 0;
}

bool sbx_path_climbs(const char *path)
{
    for (const char *at = path; *at != '\0';) {
        at += strspn(at, "/");
        size_t length = strcspn(at, "/");
        if (length == 2 && at[0] == '.' && at[1] == '.') {
            return true;
        }
        at += length;
    }
    return false;
}

bool sbx_path_is_within(const char *path, const char *top)
{
    size_t length = strlen(top);
    if (length == 1) { /* "/" */
        return true;
    }
    return strncmp(path, top, length) == 0 &&
           (path[length] == '\0' || path[length] == '/');
}

const char *sbx_path_rest(const char *path, const char *top)
{
    const char *rest = path + (strlen(top) == 1 ? 0 : strlen(top));
    return strcmp(rest, "/") == 0 ? "" : rest;
}

size_t sbx_path_depth(const char *path)
{
    size_t depth = 0;
    for (const char *at = path; *at != '\0'; at++) {
        depth += *at == '/' && at[1] != '\0' ? 1U : 0U;
    }
    return depth;
}
