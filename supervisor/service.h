/*
 * service.h - executions over HTTP/1.1 on a Unix socket, by libevent's evhttp.
 *
 * Every connection and every answer is bounded, in bytes and in time; who waits (a long
 * poll) costs a waiter and the connection, and nothing once it has left. A peer is who
 * the kernel says that it is.
 */
#ifndef SBX_SUPERVISOR_SERVICE_H
#define SBX_SUPERVISOR_SERVICE_H

#include "supervisor/supervisor.h"

#include <sbx/sbx.h>

struct sbx_service_http;

/* Listens: on the descriptor that systemd has passed (LISTEN_FDS), or on a socket that it
 * makes (mode 0600; a stale one is removed: the lock of the state directory, and one
 * beside the socket, say that nobody serves it). With --allow-uid anybody may connect to
 * it (0666), and is refused by what the kernel says that he is. -EADDRINUSE: somebody
 * serves there. SIGPIPE has to be blocked or ignored. */
int sbx_service_open(struct sbx_supervisor *supervisor,
                     struct sbx_service_http **ret_service, struct sbx_error *err);

/* Removes the socket that it has made, closes all connections. NULL is allowed. */
void sbx_service_close(struct sbx_service_http *service);

#endif
