/*
 * orders.h - what sbx-run and the program inside of the sandbox (sbx-inner) say to each
 * other. Both are of one build: the layout is no promise to anybody else.
 *
 * sbx-inner is process 1 of the sandbox's PID namespace. Its one argument is the number
 * of a descriptor: of a sealed memory file with one struct sbx_orders and the strings
 * behind it. So no value of the environment is ever in an argument; bubblewrap, which
 * takes only so many, need not carry the command's; and it starts with an empty
 * environment: a variable that is meant for the command must not reach the dynamic loader
 * of a program that is not confined yet.
 *
 * Over a SOCK_SEQPACKET socket go records up (struct sbx_inner_record) and words down
 * (struct sbx_inner_word). It is the lifeline as well: when the other end closes, because
 * sbx-run was killed say, sbx-inner ends, and the kernel with it all that is in the
 * namespace. Should it have been stopped, the parent-death signal ends it: bubblewrap,
 * its parent, dies with sbx-run.
 *
 * What to mind at sbx-run's end: it reads until the end of file, also when a word of its
 * own found nobody any more (EPIPE). After ENDED it hangs up or sends STAY: sbx-inner
 * waits two seconds for that, and ends. End of file before FAILED or ENDED means that the
 * namespace was killed as a whole.
 */
#ifndef SBX_SANDBOX_ORDERS_H
#define SBX_SANDBOX_ORDERS_H

#include "reaper/wrapper.h"

#include <sbx/sbx.h>
#include <stddef.h>
#include <stdint.h>

/* Where it lies in the sandbox while it is being started: it removes itself from there
 * before the command runs. Its name is how a monitor knows it. */
#define SBX_INNER_PATH "/run/" SBX_INNER_NAME

#define SBX_ORDERS_MAGIC UINT32_C(0x6f786273)
#define SBX_ORDERS_CEILINGS 16
/* The whole file. Above what the kernel takes for arguments and environment (6 MiB). */
#define SBX_ORDERS_SIZE_MAX ((size_t)8 << 20)

struct sbx_orders_ceiling {
    int32_t resource; /* RLIMIT_… */
    int32_t unused;
    uint64_t soft;
    uint64_t hard;
};

struct sbx_orders {
    uint32_t magic;
    uint32_t size;     /* of the whole file, strings included */
    int32_t status_fd; /* the socket */
    int32_t stderr_fd; /* becomes descriptor 2: until now that was a pipe of sbx-run, for
                          what bubblewrap has to say; -1: 2 stays as it is */
    int32_t
        seccomp_fd;   /* a BPF program (struct sock_filter[]) for the command; -1: none */
    uint32_t removes; /* 1: it lies at SBX_INNER_PATH and removes itself */
    uint64_t
        ignored; /* bit N-1: signal N was ignored by the caller (nohup), and stays so */
    uint32_t ceiling_count;
    uint32_t argument_count; /* of the command, argv[0] included */
    uint32_t environment_count;
    uint32_t place_count;
    struct sbx_orders_ceiling ceilings[SBX_ORDERS_CEILINGS];
    /* Behind it, each ended by NUL: the working directory, the path to execute (without a
     * slash it is looked up in the PATH of the new environment), argument_count
     * arguments, environment_count times NAME=VALUE, place_count places. Nothing else.
     *
     * A place is "FD:/PATH": what lies there inside, without following any link, has to
     * be the file that the descriptor is open on; or "-:/PATH": something has to be
     * mounted there. With ? for the colon it may also be out of reach for the command's
     * identity. */
};

enum sbx_inner_kind {
    SBX_INNER_READY = 1, /* the sandbox stands; the command does not run yet */
    SBX_INNER_FAILED,    /* the command did not run: `error`, `status` 125, 126 or 127 */
    SBX_INNER_STARTED,   /* the command was executed; or a signal ended it just before, as
                            ENDED tells then */
    SBX_INNER_ENDED,     /* `status` is its wait status; others are still alive */
    SBX_INNER_ENDED_ALONE, /* the same, and nobody else is left inside */
    SBX_INNER_STAYS        /* after ENDED and STAY: bubblewrap may end now */
};

struct sbx_inner_record {
    int32_t kind;
    int32_t status;
    struct sbx_error error;
};

enum sbx_inner_order {
    SBX_INNER_SIGNAL = 1, /* send `number` to the command's process group */
    SBX_INNER_STAY /* after ENDED: do not end the others, wait until the last one is gone
                    */
};

struct sbx_inner_word {
    int32_t order;
    int32_t number;
};

#endif
