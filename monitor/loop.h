/*
 * loop.h - the event loop of the monitor: descriptors that become readable, and timers.
 * The only file that knows libevent.
 *
 * Times are CLOCK_MONOTONIC microseconds. A callback may free its own source.
 */
#ifndef SBX_MONITOR_LOOP_H
#define SBX_MONITOR_LOOP_H

#include <sbx/sbx.h>
#include <stdint.h>

struct sbx_loop;
struct sbx_source;

typedef void sbx_callback(void *context);

int sbx_loop_new(struct sbx_loop **ret_loop, struct sbx_error *err);
void sbx_loop_free(struct sbx_loop *loop);

/* Calls back whenever fd is readable or hung up; fd stays the caller's. */
int sbx_loop_add_fd(struct sbx_loop *loop, int fd, sbx_callback *callback, void *context,
                    struct sbx_source **ret_source);

/* A timer, not armed. */
int sbx_loop_add_timer(struct sbx_loop *loop, sbx_callback *callback, void *context,
                       struct sbx_source **ret_source);

/* Arms a timer for that time, in place of any earlier one; SBX_FOREVER_US disarms it. 0
 * or a negative errno. */
int sbx_source_arm(struct sbx_source *source, uint64_t at_us);

/* NULL is allowed. */
void sbx_source_free(struct sbx_source *source);

/* Runs until sbx_loop_stop. 0, or a negative errno when the loop itself failed. */
int sbx_loop_run(struct sbx_loop *loop);
void sbx_loop_stop(struct sbx_loop *loop);

#endif
