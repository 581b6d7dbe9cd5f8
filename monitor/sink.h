/*
 * sink.h - writing to descriptors that somebody else holds the other end of: a reader may
 * be slow, absent or hostile, and must not hold us up.
 *
 * The shared file description of an inherited descriptor is never made non-blocking:
 * others write there too. All signals that writing raises (SIGPIPE, SIGXFSZ, SIGTTOU) are
 * blocked by the caller. Never allocates.
 */
#ifndef SBX_MONITOR_SINK_H
#define SBX_MONITOR_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a reader is given to make room, in all. */
#define SBX_SINK_PATIENCE_US UINT64_C(2000000)

/* A descriptor to write to with patience. */
struct sbx_sink {
    int fd;
    bool socket;
    bool blocking; /* a write may block: look first, and write little at a time */
};

/* Writes all of it. 0, -ETIMEDOUT when the patience is used up, another negative errno.
 */
int sbx_sink_write(const struct sbx_sink *sink, const char *text, size_t length);

enum sbx_sink_start {
    SBX_SINK_AS_IT_IS = 0,
    SBX_SINK_OWN_LINE, /* a file whose last line is unfinished gets a line feed first */
};

/* The same to an inherited descriptor, of whatever kind it is. */
int sbx_sink_put(int fd, const char *text, size_t length, enum sbx_sink_start start);

/* Writes one line to an inherited descriptor if that can be done at once; never waits.
 * Whether all of it was written. */
bool sbx_sink_try(int fd, const char *text, size_t length);

#endif
