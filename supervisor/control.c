/*
 * control.c - see control.h. Sockets are reached through /proc/self/fd, since the path of
 * a state directory may be longer than the address of a socket.
 */
#include "supervisor/control.h"

#include "base/fd.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define HEAD_SIZE offsetof(struct sbx_control, data)
#define BACKLOG 8

int sbx_control_send(int socket, const struct sbx_control *message, int fd)
{
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {.iov_base = (void *)(uintptr_t)message,
                         .iov_len = HEAD_SIZE + message->length};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        header.msg_control = room;
        header.msg_controllen = sizeof room;
        struct cmsghdr *extra = CMSG_FIRSTHDR(&header);
        extra->cmsg_level = SOL_SOCKET;
        extra->cmsg_type = SCM_RIGHTS;
        extra->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(extra), &fd, sizeof fd);
    }
    ssize_t sent;
    do {
        sent = sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent >= 0) {
        return 0;
    }
    return errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM || errno == ETOOMANYREFS
               ? -EAGAIN
               : -EPIPE;
}

/* At most one descriptor has room: the kernel lets none be received beyond that. (The
 * space of one, which is aligned, would be room for two.) */
static int take_fd(struct msghdr *header)
{
    int fd = -1;
    struct cmsghdr *extra = CMSG_FIRSTHDR(header);
    if (extra != NULL && extra->cmsg_level == SOL_SOCKET &&
        extra->cmsg_type == SCM_RIGHTS && extra->cmsg_len == CMSG_LEN(sizeof fd)) {
        memcpy(&fd, CMSG_DATA(extra), sizeof fd);
    }
    return fd;
}

int sbx_control_receive(int socket, struct sbx_control *ret_message, int *ret_fd)
{
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int))];
    struct iovec part = {.iov_base = ret_message, .iov_len = sizeof *ret_message};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = room,
                            .msg_controllen = ret_fd != NULL ? CMSG_LEN(sizeof(int)) : 0};
    ssize_t size;
    int resets = 0;
    /* A peer that has gone with something of ours unread is told once, before what it has
     * sent: that is read all the same. */
    do {
        size = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (size < 0 && (errno == EINTR || (errno == ECONNRESET && resets++ == 0)));
    if (size < 0 && errno == EAGAIN) {
        return 0;
    }
    if (size <= 0) {
        return -EPIPE;
    }
    SBX_AUTO_CLOSE int fd = take_fd(&header);
    bool whole = (size_t)size >= HEAD_SIZE && (header.msg_flags & MSG_TRUNC) == 0 &&
                 ret_message->length <= SBX_CONTROL_DATA_MAX &&
                 (size_t)size == HEAD_SIZE + ret_message->length;
    if (whole && ret_fd != NULL) {
        *ret_fd = sbx_fd_steal(&fd);
    }
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
    /* cppcheck-suppress nullPointer; nobody asks for the address */
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
