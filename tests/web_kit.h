/*
 * web_kit.h - a service of its own for each test, in a process that the test forks, and
 * a client of it that sends any bytes and reads answers to the letter.
 *
 * For what is about connections. What a user sees of the installed programs is another
 * kit's. The test program is the keeper as well: its main calls web_main.
 */
#ifndef SBX_TESTS_WEB_KIT_H
#define SBX_TESTS_WEB_KIT_H

#include "tests/fixture.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define WEB_OPTIONS_MAX 8

/* A zeroed struct is a service with defaults. */
struct web {
    const char *const *options;         /* name, value (NULL for a flag), ... and NULL */
    uint64_t descriptors;               /* limit of the service; 0: as it is */
    uint64_t descriptors_later;         /* the same, once it listens */
    unsigned hurry;                     /* deadlines of connections are divided by that */
    int passed;                         /* a descriptor, as by systemd; 0: none */
    char socket[SBX_FIXTURE_PATH_SIZE]; /* "": web_start names one */
    pid_t pid;
};

/* First thing in main: does not return in a keeper. */
void web_main(int argc, char *argv[]);

/* Starts it, and waits until it listens. */
void web_start(struct web *web);

/* The same, where it may fail: what it returned, 0 when it listens. */
int web_try(struct web *web, char message[static 512]);

/* Has it cancel everything, and waits for its end, which has to be in order. */
void web_stop(struct web *web);

/* SIGTERM, and waits for its end. */
void web_terminate(struct web *web);

/* Waits until the test has no child: orphans of the service become its own. */
void web_wait_alone(void);

/* --- a client --- */

struct answer {
    int status; /* 0: the connection was closed before there was an answer */
    char *head; /* all of it, from its first line on */
    char *body; /* terminated behind its last byte */
    size_t length;
    bool closed; /* after that, or in the middle of it */
};

int web_connect(const struct web *web);
void web_send(int fd, const char *data, size_t length);
void web_print(int fd, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As much as goes, for a service that may close meanwhile. */
void web_push(int fd, const char *data, size_t length);

/* The next answer, within `seconds`. */
void web_read(int fd, struct answer *ret_answer, double seconds);
/* Without a body whatever its length says. */
void web_read_head(int fd, struct answer *ret_answer, double seconds);
void answer_done(struct answer *answer);

/* Waits until the service has closed; whatever it has sent until then is dropped. */
void web_wait_closed(int fd, double seconds);

/* Value of a header, static storage; NULL: it is not there. */
const char *answer_header(const struct answer *answer, const char *name);
int64_t answer_number(const struct answer *answer, const char *name);

/* Sends a request. body NULL: none. */
void web_request(int fd, const char *method, const char *path, const char *body);

/* A request on a connection of its own, and its answer, which must have that status. */
void web_ask(const struct web *web, int status, const char *method, const char *path,
             const char *body, struct answer *ret_answer);

/* The same, and the body as JSON, for the caller to decref; NULL: it has none. */
json_t *web_json(const struct web *web, int status, const char *method, const char *path,
                 const char *body);

/* The same for an error, which must have that code. */
void web_refused(const struct web *web, int status, const char *code, const char *method,
                 const char *path, const char *body);

/* Starts one of that id: sh -c SCRIPT, with further keys ("\"stdin\":\"open\"") or "". */
void web_execute(const struct web *web, const char *id, const char *script,
                 const char *more);

/* Waits until it is settled; its status, static storage. */
const char *web_settled(const struct web *web, const char *id);

/* A number of /v1/stats. */
int64_t web_stat(const struct web *web, const char *key);
/* Waits until it has that value, on a connection that is kept. */
void web_wait_stat(const struct web *web, const char *key, int64_t value, double seconds);

#endif
