/*
 * ask_kit.h - questions to an sbxd, and what came back.
 *
 * Answers belong to the kit, until ask_forget or service_done. In every JSON text that a
 * function here formats, ' stands for ", so that requests can be read in a C file; what
 * shall have a ' or is not to be formatted goes through ask_bytes.
 */
#ifndef SBX_TESTS_ASK_KIT_H
#define SBX_TESTS_ASK_KIT_H

#include "tests/service_kit.h"

#include <jansson.h>

struct answer {
    int status;
    char *head; /* status line and headers, where it was read here; else NULL */
    char *body; /* terminated */
    size_t length;
    json_t *json;               /* NULL: the body is none */
    uint64_t offset, next, gap; /* X-Sbx-…; UINT64_MAX: not there */
    bool eof;
};

/* By the client of the library. `path` is formatted. */
const struct answer *ask(const struct service *service, const char *method,
                         const char *path, ...) __attribute__((format(printf, 3, 4)));
const struct answer *ask_bytes(const struct service *service, const char *method,
                               const char *path, const void *body, size_t length);
/* POST of a JSON text to a path. */
const struct answer *ask_post(const struct service *service, const char *path,
                              const char *json, ...)
    __attribute__((format(printf, 3, 4)));
/* POST /v1/executions; the status has to be that one. */
const struct answer *ask_start(const struct service *service, int status,
                               const char *json, ...)
    __attribute__((format(printf, 3, 4)));

/* Starts sh -c SCRIPT under that id, with further keys ("'linger': 1"; NULL: none). Both
 * are taken as they are, but for ' in the keys. */
const struct answer *ask_script(const struct service *service, const char *id,
                                const char *keys, const char *script);

void ask_forget(void);

/* Fails the test unless that was the status; the message has the answer. Returns it. */
const struct answer *ask_expect(const struct answer *answer, int status);

/* Of an error. */
const char *ask_code(const struct answer *answer);

/* Items by their path, "report.outcome", "executions.0.id". These fail the test when
 * there is no such, or of another type; ask_item is NULL then. */
const json_t *ask_item(const json_t *json, const char *path);
const char *ask_string(const struct answer *answer, const char *path);
int64_t ask_integer(const struct answer *answer, const char *path);

/* Waits (with long polls) until that execution is settled. Returns its snapshot. */
const struct answer *ask_settled(const struct service *service, const char *id,
                                 double seconds);
/* The same, and its status has to be that one. */
const struct answer *ask_ends(const struct service *service, const char *id,
                              const char *status);
/* Waits until its standard output holds that text. */
void ask_wait_output(const struct service *service, const char *id, const char *text);
/* A number of /v1/stats. */
uint64_t ask_stat(const struct service *service, const char *name);

/* --- connections of one's own: many at once, half a request, gone before the answer ---
 */

int ask_connect(const struct service *service);
/* Writes a whole request. False: the other side has closed. */
bool ask_send(int fd, const char *method, const char *path, const char *body,
              size_t length);
/* Reads an answer and closes. NULL: it was closed without one. Fails after `seconds`. */
const struct answer *ask_receive(int fd, double seconds);

/* --- what events say --- */

struct replay {
    uint64_t after; /* sequence number of the last event that was taken */
    uint64_t
        first_after_gap; /* where it went on when events were not kept; 0: they were */
    char *data[2];       /* stdout, stderr, as events have it; gaps are left out */
    size_t length[2];
    uint64_t next[2]; /* offset of the next byte */
    uint64_t dropped[2];
    size_t events, texts, base64, warnings, breaches;
    bool started, finished;
    json_t *report;
    char status[16];
};

/* Takes the events behind `after` that one poll gives, and holds each of them against
 * what came before: no hole, none twice, `started` first, nothing behind `finished`,
 * offsets without a hole but for told ones. `wait` is a duration, or NULL. Returns how
 * many. */
size_t replay_poll(const struct service *service, struct replay *replay, const char *id,
                   const char *wait);
/* Until `finished`. */
void replay_all(const struct service *service, struct replay *replay, const char *id,
                double seconds);
void replay_done(struct replay *replay);

/* An execution of the helper emit, which writes `size` bytes of the pattern, `chunk` at a
 * time. `keys` of the request, with a comma behind the last; ' stands for ". */
void ask_start_emit(const struct service *service, const char *id, const char *keys,
                    const char *size, const char *chunk);
void ask_expect_pattern(const char *bytes, uint64_t offset, size_t length);

/* All of a stream, by reads of the output; for the caller to free. *ret_gap: dropped. */
char *ask_output(const struct service *service, const char *id, const char *stream,
                 size_t *ret_length, uint64_t *ret_gap);

#endif
