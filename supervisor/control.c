/*
 * control.c - see control.h. Sockets are reached through /proc/self/fd, since the path of
 * a state directory may be longer than the address of a socket.
 */
#include "supervisor/control.h"

#include "base/fd.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define HEAD_SIZE offsetof(struct sbx_control, data)
#define BACKLOG 8

int sbx_control_send(int socket, const struct sbx_control *message)
{
    ssize_t sent;
    do {
        sent = send(socket, message, HEAD_SIZE + message->length,
                    MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent >= 0) {
        return 0;
    }
    return errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM ? -EAGAIN : -EPIPE;
}

int sbx_control_receive(int socket, struct sbx_control *ret_message)
{
    ssize_t size;
    do {
        size = recv(socket, ret_message, sizeof *ret_message, MSG_DONTWAIT | MSG_TRUNC);
    } while (size < 0 && errno == EINTR);
    if (size < 0 && errno == EAGAIN) {
        return 0;
    }
    if (size <= 0) {
        return -EPIPE;
    }
    bool whole = (size_t)size >= HEAD_SIZE &&
                 ret_message->length <= SBX_CONTROL_DATA_MAX &&
                 (size_t)size == HEAD_SIZE + ret_message->length;
    return whole ? 1 : -EBADMSG;
}

static struct sockaddr_un address_in(int directory)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/control",
                   directory);
    return address;
}

int sbx_control_listen(int directory)
{
    SBX_AUTO_CLOSE int fd =
        socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const struct sockaddr_un address = address_in(directory);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) < 0 ||
        fchmodat(directory, "control", S_IRUSR | S_IWUSR, 0) < 0 ||
        listen(fd, BACKLOG) < 0) {
        return -errno;
    }
    return sbx_fd_steal(&fd);
}

int sbx_control_accept(int listener)
{
    SBX_AUTO_CLOSE int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (fd < 0) {
        return errno == ECONNABORTED || errno == EINTR ? -EAGAIN : -errno;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ||
        (peer.uid != 0 && peer.uid != geteuid())) {
        return -EAGAIN;
    }
    return sbx_fd_steal(&fd);
}

int sbx_control_connect(int directory)
{
    SBX_AUTO_CLOSE int fd =
        socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const struct sockaddr_un address = address_in(directory);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) < 0) {
        return -errno;
    }
    return sbx_fd_steal(&fd);
}
