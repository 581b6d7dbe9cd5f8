/*
 * service_kit.h - an sbxd of its own for each test, over its real socket.
 *
 * State directory and socket lie in the test's directory, so that nothing is shared and
 * all of it goes with the test. The test process is a child subreaper: whatever becomes
 * an orphan because sbxd was killed becomes its child, and "no descendant but sbxd" is
 * proof that nothing of an execution is left. Every function fails the test when
 * something goes wrong that is not the matter of the test. Under the sanitizers, what any
 * of the processes has to complain of makes service_done fail.
 */
#ifndef SBX_TESTS_SERVICE_KIT_H
#define SBX_TESTS_SERVICE_KIT_H

#include "tests/fixture.h"

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SERVICE_WORDS_MAX 32

/* A zeroed struct is a service with defaults. */
struct service {
    const char *options; /* words separated by blanks; NULL: none */
    uid_t uid;           /* whose it is, with that gid; 0: ours */

    char directory[SBX_FIXTURE_PATH_SIZE]; /* of state, socket and messages */
    char state[SBX_FIXTURE_PATH_SIZE];
    char socket[SBX_FIXTURE_PATH_SIZE];
    pid_t pid; /* 0: none */
    struct sbx_client *client;
    uint64_t started_us;
};

/* Starts it, and waits until it serves. Again after a kill or a stop: on the same state.
 */
void service_start(struct service *service);

/* The same, without waiting: for one that will refuse. */
void service_spawn(struct service *service);

/* Waits for its end. Its exit status, or 128 + signal. */
int service_wait(struct service *service, double seconds);

/* What it has written to its standard error so far; static storage. */
const char *service_said(const struct service *service);

/* SIGKILL; returns when it is gone. */
void service_kill(struct service *service);

/* SIGTERM, which leaves executions alone; it must exit with 0. */
void service_stop(struct service *service);

/* Shutdown with cancel (if it runs); then nothing must be left of anything. */
void service_done(struct service *service);

/* Reaps what has ended and was left to the test, as an init would. */
void service_reap(const struct service *service);

/* Descendants of the test but sbxd. Reaps what has ended. */
size_t service_others(const struct service *service);

/* Waits until there are none; fails the test after `seconds`, naming them. */
void service_wait_alone(const struct service *service, double seconds);

/* The processes of that execution, from the keeper down to the leader, that are there
 * now: *ret_pids receives at most `max`, in the order keeper, guard, then all others (the
 * leader is none of them). Returns how many. */
size_t service_processes(const struct service *service, const char *id, pid_t *ret_pids,
                         size_t max);

/* Of a process; 0 where it is gone. */
size_t service_descriptors(pid_t pid);
struct service_memory {
    uint64_t pss_kib;
    uint64_t rss_kib;
    uint64_t dirty_kib; /* its own alone, whoever else has the same program */
};
struct service_memory service_memory(pid_t pid);

/* Bytes on the disk below the place of an execution; its files. */
uint64_t service_place_bytes(const struct service *service, const char *id);
bool service_place_exists(const struct service *service, const char *id);

/* Seconds of CLOCK_MONOTONIC, and a nap between two looks at something. */
double service_now(void);
void service_nap_ms(long ms);

#endif
