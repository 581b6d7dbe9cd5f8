/*
 * launch_namespace.h - the two processes between the caller of a launch and a command in
 * a PID namespace of its own (namespace.h), and what they say to each other. Private to
 * launch*.c.
 */
#ifndef SBX_REAPER_LAUNCH_NAMESPACE_H
#define SBX_REAPER_LAUNCH_NAMESPACE_H

#include "reaper/launch_child.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Through the socket between front and init, one record each. */
enum sbx_namespace_word_kind {
    SBX_NAMESPACE_STOPPED = 1, /* init: the command was stopped by signal `number` */
    SBX_NAMESPACE_LEFT,        /* init: the command has ended, others have not */
    SBX_NAMESPACE_ENDED,       /* init: it has, and nobody else is there */
    SBX_NAMESPACE_HEARD, /* front: of that; from now on it only waits for the init */
    SBX_NAMESPACE_PASS   /* front: somebody has sent it signal `number` */
};

struct sbx_namespace_word {
    int32_t kind;
    int32_t number;
};

/* What the init has from the front, all of them open before it was born. */
struct sbx_namespace_birth {
    const struct sbx_launch_child *child;
    int socket;
    int front_pidfd;
    int front_stat;   /* its /proc/PID/stat, which the new /proc will not show */
    int caller_pidfd; /* of the process that launches */
    bool new_user;    /* the namespace has a user namespace around it */
    uid_t uid;        /* of the front, which it keeps in there */
    gid_t gid;
};

/* The init, from its birth on. Returns 0 in the command's process alone, where the launch
 * goes on; after a failure a negative errno in the init itself. */
int sbx_namespace_init(const struct sbx_namespace_birth *birth, struct sbx_error *err);

/* Closes every descriptor but these (each of them -1 or once), and leaves the working
 * directory: what the command does not hold is not to be held for it. */
void sbx_namespace_let_go(const int *kept, size_t count);

/* A word from the other one: 1, 0 none now, -EPIPE it is gone. Never waits, as sending
 * does not. */
int sbx_namespace_hear(int socket, struct sbx_namespace_word *ret_word);
void sbx_namespace_say(int socket, enum sbx_namespace_word_kind kind, int number);

/* Fills in that the namespace cannot be had, since `what` failed with `code`: which layer
 * of the host refuses it, as far as that can be read, and what helps. Returns -code. */
int sbx_namespace_refused(int code, const char *what, bool new_user,
                          struct sbx_error *err);

#endif
