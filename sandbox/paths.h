/*
 * paths.h - paths as text: made absolute, tidied, compared by component. Looks at
 * nothing.
 */
#ifndef SBX_SANDBOX_PATHS_H
#define SBX_SANDBOX_PATHS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* path, or base/path where it is relative, without "//", "/./" and a slash at the end.
 * ".." stays: what it means depends on links. 0 or -ENAMETOOLONG. */
int sbx_path_absolute(const char *base, const char *path, char ret_path[static PATH_MAX]);

/* Whether an absolute path has a component "..". */
bool sbx_path_climbs(const char *path);

/* Whether `path` is `top` or lies below it. Both absolute and tidy. */
bool sbx_path_is_within(const char *path, const char *top);

/* What is left of `path` below `top`: "" or "/rest". `path` is within `top`. */
const char *sbx_path_rest(const char *path, const char *top);

/* How many components it has; 0 for "/". */
size_t sbx_path_depth(const char *path);

#endif
