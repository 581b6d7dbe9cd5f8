/*
 * loop.h - the event loop: descriptors that become readable or writable, and timers. But
 * for the service (supervisor/service.h), the only one that knows libevent.
 *
 * Times are CLOCK_MONOTONIC microseconds. A callback may free its own source.
 */
#ifndef SBX_MONITOR_LOOP_H
#define SBX_MONITOR_LOOP_H

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stdint.h>

struct sbx_loop;
struct sbx_source;

typedef void sbx_callback(void *context);

int sbx_loop_new(struct sbx_loop **ret_loop, struct sbx_error *err);
void sbx_loop_free(struct sbx_loop *loop);

/* Calls back whenever fd is readable or hung up; fd stays the caller's. */
int sbx_loop_add_fd(struct sbx_loop *loop, int fd, sbx_callback *callback, void *context,
                    struct sbx_source **ret_source);

/* The same while it is writable, or broken. */
int sbx_loop_add_writer(struct sbx_loop *loop, int fd, sbx_callback *callback,
                        void *context, struct sbx_source **ret_source);

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

/* Calls back what is due; with `wait`, waits for the first of it. 0 or a negative errno.
 */
int sbx_loop_step(struct sbx_loop *loop, bool wait);

/* libevent's own, for who works with that. */
struct event_base;
struct event_base *sbx_loop_base(struct sbx_loop *loop);

#endif
