/*
 * control.h - what goes between sbxd and the keeper of an execution: records through a
 * SOCK_SEQPACKET socket. The first of these is made with the keeper; later ones by
 * connecting to the socket `control` in the place of the execution, for an sbxd that
 * finds the keeper there.
 *
 * The keeper goes on without anybody at the other end, and waits for nobody there. It
 * answers orders one by one, in order. Both ends are of the same version or refuse each
 * other.
 */
#ifndef SBX_SUPERVISOR_CONTROL_H
#define SBX_SUPERVISOR_CONTROL_H

#include <sbx/sbx.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SBX_CONTROL_PROTOCOL 1U

/* Of standard input in one order: so much in the record itself, more in a file in memory
 * that goes along. */
#define SBX_CONTROL_DATA_MAX ((size_t)16 * 1024)
#define SBX_STDIN_MAX ((size_t)1024 * 1024)

enum sbx_control_kind {
    /* sbxd: answered by ANSWER with the same ticket. */
    SBX_CONTROL_CANCEL = 0x58425401, /* idempotent */
    SBX_CONTROL_SIGNAL,              /* value: the signal */
    SBX_CONTROL_PAUSE,
    SBX_CONTROL_RESUME,
    SBX_CONTROL_STDIN, /* value: 1 closes it behind the data */
    /* sbxd: not answered. */
    SBX_CONTROL_WATCH, /* wants NEWS once something is behind these marks; the last holds
                        */
    SBX_CONTROL_TAKEN, /* a reader has taken `value` bytes of stream `stream` */
    /* keeper */
    SBX_CONTROL_HELLO,  /* first; value: the protocol */
    SBX_CONTROL_ANSWER, /* value: 0 or an errno */
    SBX_CONTROL_NEWS,   /* the watch is over with that */
    SBX_CONTROL_FINISHED,
};

/* What is behind the marks of a WATCH is news. UINT64_MAX: of no interest. */
struct sbx_control_marks {
    uint64_t sequence;  /* an event with a greater number */
    uint64_t output[2]; /* more bytes of stdout, stderr than that, or its end */
};

struct sbx_control {
    uint32_t kind;
    uint32_t ticket;
    uint64_t value;
    uint32_t stream; /* 1, 2 */
    uint32_t length; /* of data */
    struct sbx_control_marks marks;
    char data[SBX_CONTROL_DATA_MAX]; /* only so much of it goes as is used */
};

/* Sends one record without waiting; `fd` goes along unless it is -1. 0; -EAGAIN: no room
 * now; -EPIPE: nobody is there. */
int sbx_control_send(int socket, const struct sbx_control *message, int fd);

/* Receives one without waiting. 1; 0: none now; -EPIPE: the other side is gone; -EBADMSG:
 * what came is none. *ret_fd is what went along, the caller's, or -1; ret_fd NULL: closes
 * it. */
int sbx_control_receive(int socket, struct sbx_control *ret_message, int *ret_fd);

/* In the keeper: makes the socket `control` in that directory, mode 0600. A descriptor
 * that listens, or a negative errno. */
int sbx_control_listen(int directory);

/* Takes a connection if there is one and its peer is root or the same user; others are
 * closed. A descriptor, or -EAGAIN, or another negative errno. */
int sbx_control_accept(int listener);

/* In sbxd: connects to the keeper of that place. A descriptor, or a negative errno:
 * -ECONNREFUSED, -ENOENT: nobody is there. */
int sbx_control_connect(int directory);

#endif
