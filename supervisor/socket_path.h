/*
 * socket_path.h - where the socket of sbxd lies unless somebody says otherwise: one
 * answer for the service and for its clients. Only says where; makes nothing.
 */
#ifndef SBX_SUPERVISOR_SOCKET_PATH_H
#define SBX_SUPERVISOR_SOCKET_PATH_H

#include <stddef.h>

/* Of a path in the address of a socket, with its terminator. */
#define SBX_SOCKET_PATH_SIZE ((size_t)108)

/* Of the calling user: "/run/sbx/sbxd.sock" for root, else "sbx/sbxd.sock" below
 * $XDG_RUNTIME_DIR, or below /run/user/UID where that is not set or not absolute. 0, or
 * -ENAMETOOLONG; the buffer is untouched then. */
int sbx_socket_default(char *buffer, size_t size);

#endif
