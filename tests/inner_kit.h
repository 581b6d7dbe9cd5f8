/*
 * inner_kit.h - sbx-inner without bubblewrap: the test plays sbx-run, and process 1 is
 * started by a clone into namespaces of its own, as user 65534, with a procfs where the
 * kernel allows one.
 */
#ifndef SBX_TESTS_INNER_KIT_H
#define SBX_TESTS_INNER_KIT_H

#include "sandbox/orders.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct sock_filter;

/* What is zero, is usual. */
struct sbx_kit_inner_job {
    const char *const *argv;        /* of the command */
    const char *file;               /* NULL: argv[0] */
    const char *directory;          /* NULL: the test's */
    const char *const *environment; /* NULL: PATH */
    struct sbx_orders_ceiling ceilings[SBX_ORDERS_CEILINGS];
    uint32_t ceiling_count;
    uint64_t ignored;
    const struct sock_filter *program;
    size_t program_count;
    bool removes;   /* it is started from where it removes itself */
    bool crammed;   /* the socket is full of other things at first */
    bool broken;    /* the orders are of another build */
    bool unwatched; /* not as process 1 */
};

struct sbx_kit_inner {
    int fd; /* the socket */
    pid_t pid;
    size_t crammed; /* messages */
};

/* Its standard output goes to the file "out" in the test's directory, which it holds
 * locked (flock) for as long as that is open, its stderr to "err", and what it says on
 * stderr before it has its orders to "early". */
struct sbx_kit_inner sbx_kit_inner_start(const struct sbx_kit_inner_job *job);

/* The next record; false at the end of file. At most half a minute. */
bool sbx_kit_inner_hear(struct sbx_kit_inner *inner, struct sbx_inner_record *ret);

/* Reads records until the last one of a run: `kinds` says what they must be, ended by 0.
 * Returns the last. */
struct sbx_inner_record sbx_kit_inner_expect(struct sbx_kit_inner *inner,
                                             const enum sbx_inner_kind *kinds);

void sbx_kit_inner_send(struct sbx_kit_inner *inner, enum sbx_inner_order order,
                        int number);

void sbx_kit_inner_hang_up(struct sbx_kit_inner *inner);

/* Waits until it has ended, hangs up if that has not been done, and returns its wait
 * status. */
int sbx_kit_inner_end(struct sbx_kit_inner *inner);

/* Text of a file in the test's directory, "" when there is none; the caller's until the
 * next call. */
const char *sbx_kit_inner_text(const char *name);

/* A file of orders in memory, as sbx-run makes them. `size`: what was written. */
int sbx_kit_inner_orders(const struct sbx_kit_inner_job *job, struct sbx_orders *head);

#endif
