/*
 * socket_path.c - see socket_path.h. Root has one place whatever its environment says:
 * sudo keeps XDG_RUNTIME_DIR in some settings, and a client would look elsewhere.
 */
#include "supervisor/socket_path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME "/sbx/sbxd.sock"

int sbx_socket_default(char *buffer, size_t size)
{
    char user_directory[64] = "/run";
    const char *directory = user_directory;
    uid_t user = geteuid();
    if (user != 0) {
        const char *named = getenv("XDG_RUNTIME_DIR");
        (void)snprintf(user_directory, sizeof user_directory, "/run/user/%lu",
                       (unsigned long)user);
        directory = named != NULL && named[0] == '/' ? named : user_directory;
    }
    size_t length = strlen(directory);
    if (length >= size || size - length < sizeof NAME) {
        return -ENAMETOOLONG;
    }
    (void)snprintf(buffer, size, "%s%s", directory, NAME);
    return 0;
}
