/*
 * service.h - an sbxd for the benches: with a state directory and a socket below the
 * bench's directory, asked by the client of the library through one kept connection.
 */
#ifndef SBX_BENCH_SERVICE_H
#define SBX_BENCH_SERVICE_H

#include "bench/runner.h"

#include <sbx/sbx.h>

struct sbx_bench_service {
    char directory[SBX_BENCH_PATH];
    pid_t pid;
    struct sbx_client *client;
};

/* Starts it, and waits until it serves. */
void sbx_bench_service_start(const struct sbx_bench *bench,
                             struct sbx_bench_service *service);
/* Cancels what runs, waits until nothing is left, and removes all of it. */
void sbx_bench_service_stop(struct sbx_bench_service *service);

/* Asks, and ends the program unless the status is that one. `body`: ' stands for ";
 * NULL: none. The answer's body is static, until the next call. */
const char *sbx_bench_ask(const struct sbx_bench_service *service, int status,
                          const char *method, const char *path, const char *body);

/* PSS of a process, KiB; 0: it is gone. */
double sbx_bench_pss(pid_t pid);

/* All descendants of a process, level by level; at most `max`. */
size_t sbx_bench_family(pid_t root, pid_t *ret_pids, size_t max);

#endif
