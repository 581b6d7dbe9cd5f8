/*
 * inner.h - what the files of sbx-inner (inner*.c) say to each other. Private to them.
 *
 * sbx-inner is linked statically and small, and uses of the other rooms only what is said
 * in its CMake target: it has to start fast in a sandbox where nothing else is yet.
 */
#ifndef SBX_SANDBOX_INNER_H
#define SBX_SANDBOX_INNER_H

#include "reaper/ceiling.h"
#include "sandbox/orders.h"

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct sock_filter;

/* The orders, taken apart. The strings are those of the file. */
struct sbx_inner_orders {
    struct sbx_orders head;
    const char *directory;
    const char *file;               /* to execute */
    const char **arguments;         /* a free place, then argv, then NULL */
    const char *const *environment; /* NULL-terminated */
    const char *const *places;      /* as many as the head says */
    struct sbx_ceiling ceilings[SBX_CEILING_COUNT];
};

/* How many places arguments and environment in a file of that size may take. */
size_t sbx_inner_table_room(size_t size);

/*
 * Takes the file's `size` bytes apart; the pointers to arguments and environment go to
 * `table`, which has sbx_inner_table_room(size) places. Looks at no descriptor. 0, or
 * -EINVAL (stage launch) with *ret untouched.
 */
int sbx_inner_orders_parse(const char *data, size_t size, const char **table,
                           struct sbx_inner_orders *ret, struct sbx_error *err);

/* Whether each of the places is what it was meant to be. 0, or a negative errno: -ESTALE,
 * -ELOOP ... (stage launch). */
int sbx_inner_check_places(const struct sbx_inner_orders *orders, struct sbx_error *err);

/* All that the command's child needs, made before the fork. */
struct sbx_inner_job {
    struct sbx_inner_orders orders;
    struct sock_filter *program; /* NULL: none */
    size_t program_count;
};

/* The child's side: the steps, and exec. After a failure one struct sbx_launch_record
 * goes to error_fd. */
_Noreturn void sbx_inner_child(const struct sbx_inner_job *job, int error_fd);

/* Ignores a signal, or gives it its default action. Any number of the kernel's, those
 * that the C library keeps for itself included. 0 or -1 with errno. */
int sbx_inner_set_action(int number, bool ignored);

/* Closes all that is open but `kept`, ascending. 0 or a negative errno. */
int sbx_inner_close_all_but(const int *kept, size_t count);

/* What goes up and comes down the socket. Nothing here blocks. */
#define SBX_INNER_QUEUE 4
struct sbx_inner_talk {
    int fd; /* -1: the other end is gone */
    bool stays;
    size_t queued;
    struct sbx_inner_record queue[SBX_INNER_QUEUE]; /* oldest first */
};

/* Puts a record in the queue, and sends what can be sent. `error` may be NULL. */
void sbx_inner_tell(struct sbx_inner_talk *talk, enum sbx_inner_kind kind, int status,
                    const struct sbx_error *error);
void sbx_inner_flush(struct sbx_inner_talk *talk);

/* Takes the next word that has come. False: there is none, and talk->fd is -1 when there
 * never will be. */
bool sbx_inner_hear(struct sbx_inner_talk *talk, struct sbx_inner_word *ret_word);

/* Hangs up so that the other end reads all that was told before it reads the end. */
void sbx_inner_hang_up(struct sbx_inner_talk *talk);

#endif
