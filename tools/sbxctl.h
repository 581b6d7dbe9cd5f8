/*
 * sbxctl.h - what the files of sbxctl share: its commands and their options
 * (sbxctl_options.c), the command line (sbxctl.c), questions to the service
 * (sbxctl_ask.c), requests (sbxctl_request.c), and what the commands do
 * (sbxctl_start.c, sbxctl_orders.c, sbxctl_follow.c, sbxctl_show.c, sbxctl_print.c).
 *
 * Like all tools it sees nothing of the project but <sbx/sbx.h>. Functions that return
 * `int status` have told what went wrong on stderr, and return the exit status: 0, 1 for
 * a clear "no" of the service, 125 for all else.
 */
#ifndef SBX_TOOLS_SBXCTL_H
#define SBX_TOOLS_SBXCTL_H

#include <jansson.h>
#include <sbx/sbx.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SBX_CTL_NO 1

#define SBX_CTL_OPTIONS_MAX 16
#define SBX_CTL_US_PER_S UINT64_C(1000000)

/* Of a path: an id of 128 letters, and what is around it. */
#define SBX_CTL_PATH_SIZE 320

struct sbx_ctl;

struct sbx_ctl_command {
    const char *name;
    const char *usage; /* behind the name */
    const char *help;
    const struct sbx_option *options; /* its own; at most SBX_CTL_OPTIONS_MAX */
    size_t options_count;
    int operands; /* how many; -1: a command line, at which options end */
    int (*run)(struct sbx_ctl *ctl);
};

struct sbx_ctl {
    const struct sbx_ctl_command *command;
    const char *socket_path; /* NULL: the default */
    struct sbx_client *client;
    bool json;
    const char *values[SBX_CTL_OPTIONS_MAX]; /* of its options, "" for a flag */
    char **operands;                         /* NULL-terminated */
    json_t *draft;                           /* what `start` is to ask for */
};

/* --- sbxctl_options.c --- */

/* The table of commands, static. */
const struct sbx_ctl_command *sbx_ctl_commands(size_t *ret_count);

/* Options that every command has. */
const struct sbx_option *sbx_ctl_common_options(size_t *ret_count);

/* The value of an option of the command, by its name; NULL: it was not given. */
const char *sbx_ctl_value(const struct sbx_ctl *ctl, const char *name);

/* --- sbxctl_ask.c --- */

/* Microseconds of CLOCK_MONOTONIC. */
uint64_t sbx_ctl_now_us(void);
void sbx_ctl_nap(void);

/* The duration that an option has: digits, fraction, unit, as everywhere. Status. */
int sbx_ctl_duration(const char *option, const char *text, uint64_t *ret_us);

/* "/v1/executions/ID" and what comes behind it; an operand that is no id is refused.
 * Status. */
int sbx_ctl_path(char path[static SBX_CTL_PATH_SIZE], const char *id, const char *format,
                 ...) __attribute__((format(printf, 3, 4)));

enum sbx_ctl_care {
    SBX_CTL_ONCE,   /* asked once */
    SBX_CTL_SAFE,   /* may be asked again when the connection was lost: once */
    SBX_CTL_PATIENT /* may be asked again, for some seconds: sbxd is being restarted */
};

struct sbx_ctl_question {
    const char *method;
    const char *path;
    const char *body; /* NULL: none */
    size_t length;
    uint64_t wait_us; /* the service may take that much longer */
    enum sbx_ctl_care care;
};

/* Asks. 0 and an answer of whichever status, or a negative errno; tells nothing. For use
 * in more than one thread, each with a client of its own. */
int sbx_ctl_call(struct sbx_client *client, const struct sbx_ctl_question *question,
                 struct sbx_reply **ret_reply, struct sbx_error *err);

/* Tells what the service says in an answer that is no success. Status. */
int sbx_ctl_refusal(const struct sbx_reply *reply);

/* Asks, and tells what went wrong if anything did. Status; 0: *ret_reply (may be NULL) is
 * an answer of 2xx. */
int sbx_ctl_ask(struct sbx_ctl *ctl, const struct sbx_ctl_question *question,
                struct sbx_reply **ret_reply);

/* GET, with JSON in the answer, an object. Status. */
int sbx_ctl_get(struct sbx_ctl *ctl, const char *path, enum sbx_ctl_care care,
                uint64_t wait_us, json_t **ret_object);

/* GET, and the answer on stdout as it came. Status. */
int sbx_ctl_copy(struct sbx_ctl *ctl, const char *path);

/* The body of an answer as JSON, an object. Status. */
int sbx_ctl_parse(const struct sbx_reply *reply, json_t **ret_object);

/* All of it, also where that has to be waited for. 0 or a negative errno. */
int sbx_ctl_write(int fd, const void *data, size_t length);

/* --- sbxctl_request.c --- */

/* Which option of sbx-watch or sbx-run that is in a request ("sandbox-" goes before those
 * of sbx-run), by name, or by letter where name is NULL; NULL: it is none. */
const struct sbx_option *sbx_ctl_request_option(const char *name, char letter);

/* Puts an option, own or of those tables, into the draft. Status. */
int sbx_ctl_request_set(json_t *draft, const struct sbx_option *option, const char *name,
                        const char *value);

/* The tables, as they are in a request, on stdout. */
void sbx_ctl_request_help(void);

/* The whole request, as JSON for the caller to free, with command and id. Status. */
int sbx_ctl_request_text(struct sbx_ctl *ctl, char **ret_text, char **ret_id);

/* --- sbxctl_follow.c --- */

/* Waits until it is settled. Status, and its snapshot. */
int sbx_ctl_wait(struct sbx_ctl *ctl, const char *id, json_t **ret_snapshot);

/* Copies both streams to ours until they have ended. Status. */
int sbx_ctl_copy_streams(struct sbx_ctl *ctl, const char *id);

/* The exit status that says how it ended, as that of sbx-watch. */
int sbx_ctl_status_of(const json_t *snapshot);

/* --- sbxctl_print.c --- */

/* "sbxctl: MESSAGE" on stderr; returns 125. */
int sbx_ctl_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* For people, on stdout. */
void sbx_ctl_print_list(const json_t *list);
void sbx_ctl_print_snapshot(const json_t *snapshot);
void sbx_ctl_print_event(const json_t *event);
void sbx_ctl_print_stats(const json_t *stats);
void sbx_ctl_print_verify(const json_t *verify);

/* One line of JSON. */
void sbx_ctl_print_json(const json_t *json);

/* --- the commands --- */

int sbx_ctl_start(struct sbx_ctl *ctl);
int sbx_ctl_list(struct sbx_ctl *ctl);
int sbx_ctl_show(struct sbx_ctl *ctl);
int sbx_ctl_events(struct sbx_ctl *ctl);
int sbx_ctl_logs(struct sbx_ctl *ctl);
int sbx_ctl_stdin(struct sbx_ctl *ctl);
int sbx_ctl_signal(struct sbx_ctl *ctl);
int sbx_ctl_pause(struct sbx_ctl *ctl);
int sbx_ctl_resume(struct sbx_ctl *ctl);
int sbx_ctl_cancel(struct sbx_ctl *ctl);
int sbx_ctl_rm(struct sbx_ctl *ctl);
int sbx_ctl_stats(struct sbx_ctl *ctl);
int sbx_ctl_metrics(struct sbx_ctl *ctl);
int sbx_ctl_verify(struct sbx_ctl *ctl);
int sbx_ctl_shutdown(struct sbx_ctl *ctl);

#endif
