/*
 * sbxctl_follow.c - what goes on until an execution has ended: its output, its events,
 * the wait for its end, and how that is passed on as an exit status.
 *
 * An sbxd that is restarted meanwhile is waited for: offsets and numbers say where to go
 * on, so that nothing comes twice and nothing is left out.
 */
#include "tools/sbxctl.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long the service lets us wait in one question. */
#define POLL_US (20 * SBX_CTL_US_PER_S)
#define POLL_TEXT "20s"
/* Behind all events there can be: then only the end is news. */
#define NO_EVENT INT64_MAX

#define SIGNAL_BASE 128

/* --- the end --- */

int sbx_ctl_wait(struct sbx_ctl *ctl, const char *id, json_t **ret_snapshot)
{
    char show[SBX_CTL_PATH_SIZE];
    char news[SBX_CTL_PATH_SIZE];
    bool again = false;
    int status = sbx_ctl_path(show, id, "%s", "");
    status = status == 0
                 ? sbx_ctl_path(news, id, "/events?after=%" PRId64 "&wait=" POLL_TEXT,
                                NO_EVENT)
                 : status;
    while (status == 0) {
        json_t *snapshot = NULL;
        json_t *events = NULL;
        status = sbx_ctl_get(ctl, show, SBX_CTL_PATIENT, 0, &snapshot);
        const char *state = json_string_value(json_object_get(snapshot, "status"));
        if (status == 0 && (state == NULL || strcmp(state, "running") != 0)) {
            *ret_snapshot = snapshot;
            return 0;
        }
        json_decref(snapshot);
        if (again) {
            sbx_ctl_nap(); /* a service that leaves does not let us wait */
        }
        again = true;
        status = status == 0 ? sbx_ctl_get(ctl, news, SBX_CTL_PATIENT, POLL_US, &events)
                             : status;
        json_decref(events);
    }
    return status;
}

static int signal_number(const json_t *name)
{
    const char *text = json_string_value(name);
    int offset = 0;
    if (text == NULL || strncmp(text, "SIG", 3) != 0) {
        return 0;
    }
    for (int number = 1; number < NSIG; number++) {
        const char *known = sigabbrev_np(number);
        if (known != NULL && strcmp(known, text + 3) == 0) {
            return number;
        }
    }
    return sscanf(text, "SIGRTMIN+%d", &offset) == 1 /* NOLINT(cert-err34-c) */
               ? SIGRTMIN + offset
               : 0;
}

static int status_of_signal(const json_t *name)
{
    int number = signal_number(name);
    return number > 0 && number < SIGNAL_BASE ? SIGNAL_BASE + number : SBX_STATUS_FAILED;
}

static int status_of_launch(const json_t *error)
{
    const char *stage = json_string_value(json_object_get(error, "stage"));
    json_int_t code = json_integer_value(json_object_get(error, "errno"));
    if (stage == NULL || strcmp(stage, "exec") != 0) {
        return SBX_STATUS_FAILED;
    }
    return code == ENOENT ? SBX_STATUS_NOT_FOUND : SBX_STATUS_NOT_EXECUTABLE;
}

int sbx_ctl_status_of(const json_t *snapshot)
{
    const json_t *report = json_object_get(snapshot, "report");
    const json_t *termination = json_object_get(report, "termination");
    const json_t *code = json_object_get(report, "exit_code");
    const char *outcome = json_string_value(json_object_get(report, "outcome"));
    if (outcome == NULL ||
        json_integer_value(json_object_get(termination, "survivors_count")) > 0) {
        return SBX_STATUS_FAILED;
    }
    if (strcmp(outcome, "exited") == 0 && json_is_integer(code)) {
        return (int)(json_integer_value(code) & 0xff);
    }
    if (strcmp(outcome, "signaled") == 0) {
        return status_of_signal(json_object_get(report, "signal"));
    }
    if (strcmp(outcome, "cancelled") == 0) {
        return status_of_signal(json_object_get(report, "cancel_signal"));
    }
    if (strcmp(outcome, "launch-failed") == 0) {
        return status_of_launch(json_object_get(report, "error"));
    }
    return strcmp(outcome, "breach") == 0 ? SBX_STATUS_BREACH : SBX_STATUS_FAILED;
}

/* --- output --- */

/* One stream on its way to a descriptor of ours. */
struct copy {
    struct sbx_client *client;
    const char *id;
    const char *stream; /* "stdout", "stderr" */
    int fd;
    bool follow;
    uint64_t offset;
    int result;              /* 0, or a negative errno: `error` */
    struct sbx_reply *reply; /* one that is no success */
    struct sbx_error error;
};

static uint64_t number_of(const struct sbx_reply *reply, const char *header)
{
    const char *text = sbx_reply_header(reply, header);
    char *end = NULL;
    errno = 0;
    uint64_t number = text != NULL ? strtoull(text, &end, 10) : 0;
    return text != NULL && end != text && *end == '\0' && errno == 0 ? number : 0;
}

static bool is_at_end(const struct sbx_reply *reply)
{
    const char *text = sbx_reply_header(reply, "X-Sbx-Eof");
    return text != NULL && (strcmp(text, "true") == 0 || strcmp(text, "1") == 0);
}

/* 1: there may be more; 0: that was all; a negative errno. */
static int take_piece(struct copy *copy, const struct sbx_reply *reply)
{
    size_t length = 0;
    const char *body = sbx_reply_body(reply, &length);
    uint64_t gap = number_of(reply, "X-Sbx-Gap");
    uint64_t next = number_of(reply, "X-Sbx-Next");
    if (length > 0 && next <= copy->offset) {
        (void)snprintf(copy->error.message, sizeof copy->error.message,
                       "what the service answers goes nowhere: %s from byte %" PRIu64
                       " to %" PRIu64,
                       copy->stream, copy->offset, next);
        return -EPROTO;
    }
    if (gap > 0) {
        (void)dprintf(STDERR_FILENO, "[%" PRIu64 " bytes dropped]\n", gap);
    }
    int r = sbx_ctl_write(copy->fd, body, length);
    if (r < 0) {
        (void)snprintf(copy->error.message, sizeof copy->error.message,
                       "cannot write to %s: %s (%s)", copy->stream, strerrordesc_np(-r),
                       strerrorname_np(-r));
        return r;
    }
    copy->offset = next > copy->offset ? next : copy->offset;
    bool more = !is_at_end(reply) && (copy->follow || length > 0);
    if (more && length == 0) {
        sbx_ctl_nap(); /* as above */
    }
    return more;
}

/* Once round. As above. */
static int copy_some(struct copy *copy)
{
    char path[SBX_CTL_PATH_SIZE];
    struct sbx_reply *reply = NULL;
    const struct sbx_ctl_question question = {.method = "GET",
                                              .path = path,
                                              .wait_us = copy->follow ? POLL_US : 0,
                                              .care = copy->follow ? SBX_CTL_PATIENT
                                                                   : SBX_CTL_SAFE};
    if (sbx_ctl_path(path, copy->id, "/%s?offset=%" PRIu64 "%s", copy->stream,
                     copy->offset, copy->follow ? "&wait=" POLL_TEXT : "") != 0) {
        return -EINVAL;
    }
    int r = sbx_ctl_call(copy->client, &question, &reply, &copy->error);
    if (r == 0 && sbx_reply_status(reply) != 200) {
        copy->reply = reply;
        return 0;
    }
    if (r == 0) {
        r = take_piece(copy, reply);
        sbx_reply_free(reply);
    }
    return r;
}

static void *copy_all(void *context)
{
    struct copy *copy = context;
    int r = 1;
    while (r == 1) {
        r = copy_some(copy);
    }
    copy->result = r;
    return NULL;
}

/* Tells what went wrong. Status. */
static int end_copy(struct copy *copy)
{
    int status = 0;
    if (copy->reply != NULL) {
        status = sbx_ctl_refusal(copy->reply);
    } else if (copy->result < 0) {
        status = sbx_ctl_fail("%s", copy->error.message);
    }
    sbx_reply_free(copy->reply);
    copy->reply = NULL;
    return status;
}

/* Both at once: each is waited for in a question of its own. */
static int copy_both(struct sbx_ctl *ctl, const char *id, bool follow)
{
    struct copy out = {.client = ctl->client,
                       .id = id,
                       .stream = "stdout",
                       .fd = STDOUT_FILENO,
                       .follow = follow};
    struct copy err = {
        .id = id, .stream = "stderr", .fd = STDERR_FILENO, .follow = follow};
    pthread_t thread;
    err.client = sbx_client_new(sbx_client_socket(ctl->client));
    if (err.client == NULL) {
        return sbx_ctl_fail("no memory");
    }
    int status = 0;
    if (pthread_create(&thread, NULL, copy_all, &err) == 0) {
        (void)copy_all(&out);
        (void)pthread_join(thread, NULL);
        status = end_copy(&out);
        int other = end_copy(&err);
        status = status == 0 ? other : status;
    } else {
        status = sbx_ctl_fail("no thread");
    }
    sbx_client_free(err.client);
    return status;
}

int sbx_ctl_copy_streams(struct sbx_ctl *ctl, const char *id)
{
    return copy_both(ctl, id, true);
}

/* Digits alone. Status. */
static int number_option(const char *option, const char *text, uint64_t *ret_number)
{
    char *end = NULL;
    errno = 0;
    uint64_t number = strtoull(text, &end, 10);
    if (strspn(text, "0123456789") != strlen(text) || end == text || errno != 0) {
        return sbx_ctl_fail("option --%s: '%.64s' is no number", option, text);
    }
    *ret_number = number;
    return 0;
}

int sbx_ctl_logs(struct sbx_ctl *ctl)
{
    const char *offset = sbx_ctl_value(ctl, "offset");
    bool both = sbx_ctl_value(ctl, "both") != NULL;
    bool error = sbx_ctl_value(ctl, "stderr") != NULL;
    struct copy copy = {.client = ctl->client,
                        .id = ctl->operands[0],
                        .stream = error ? "stderr" : "stdout",
                        .fd = STDOUT_FILENO,
                        .follow = sbx_ctl_value(ctl, "follow") != NULL};
    char path[SBX_CTL_PATH_SIZE];
    int status = sbx_ctl_path(path, copy.id, "%s", "");
    if (status == 0 && both && (error || offset != NULL)) {
        status = sbx_ctl_fail("option --both: does not go with --%s",
                              error ? "stderr" : "offset");
    }
    if (status == 0 && offset != NULL) {
        status = number_option("offset", offset, &copy.offset);
    }
    if (status != 0) {
        return status;
    }
    if (both) {
        return copy_both(ctl, copy.id, copy.follow);
    }
    (void)copy_all(&copy);
    return end_copy(&copy);
}

/* --- events --- */

struct reading {
    uint64_t after;
    size_t count; /* in the last answer */
    bool finished;
};

static bool is_finished(const json_t *event)
{
    const char *type = json_string_value(json_object_get(event, "type"));
    return type != NULL && strcmp(type, "finished") == 0;
}

/* Prints them, and moves on behind the last one. Status. */
static int print_events(const struct sbx_ctl *ctl, const json_t *answer,
                        struct reading *reading)
{
    size_t i = 0;
    json_t *event = NULL;
    const json_t *events = json_object_get(answer, "events");
    json_int_t first = json_integer_value(json_object_get(answer, "first_sequence"));
    if (json_is_true(json_object_get(answer, "expired")) && first > 0 &&
        (uint64_t)first > reading->after + 1) {
        (void)dprintf(STDERR_FILENO, "[%" PRIu64 " events dropped]\n",
                      (uint64_t)first - reading->after - 1);
    }
    for (; (event = json_array_get(events, i)) != NULL; i++) {
        json_int_t number = json_integer_value(json_object_get(event, "sequence"));
        if (number <= 0 || (uint64_t)number <= reading->after) {
            return sbx_ctl_fail("what the service answers goes nowhere: event %" PRId64
                                " behind %" PRIu64,
                                (int64_t)number, reading->after);
        }
        if (ctl->json) {
            sbx_ctl_print_json(event);
        } else {
            sbx_ctl_print_event(event);
        }
        reading->finished = reading->finished || is_finished(event);
        reading->after = (uint64_t)number;
    }
    (void)fflush(stdout);
    reading->count = i;
    return 0;
}

/* Nothing came: whether nothing will, because it ended before what was asked for. */
static int look_for_end(struct sbx_ctl *ctl, struct reading *reading)
{
    char path[SBX_CTL_PATH_SIZE];
    json_t *snapshot = NULL;
    int status = sbx_ctl_path(path, ctl->operands[0], "%s", "");
    status = status == 0 ? sbx_ctl_get(ctl, path, SBX_CTL_PATIENT, 0, &snapshot) : status;
    const char *state = json_string_value(json_object_get(snapshot, "status"));
    json_int_t latest = json_integer_value(json_object_get(snapshot, "latest_sequence"));
    reading->finished = state != NULL && strcmp(state, "running") != 0 &&
                        (latest < 0 || (uint64_t)latest <= reading->after);
    if (!reading->finished) {
        sbx_ctl_nap();
    }
    json_decref(snapshot);
    return status;
}

static int read_events(struct sbx_ctl *ctl, const char *path, bool follow,
                       struct reading *reading)
{
    json_t *answer = NULL;
    int status = sbx_ctl_get(ctl, path, follow ? SBX_CTL_PATIENT : SBX_CTL_SAFE,
                             follow ? POLL_US : 0, &answer);
    status = status == 0 ? print_events(ctl, answer, reading) : status;
    json_decref(answer);
    if (status == 0 && follow && reading->count == 0) {
        status = look_for_end(ctl, reading);
    }
    return status;
}

int sbx_ctl_events(struct sbx_ctl *ctl)
{
    const char *text = sbx_ctl_value(ctl, "after");
    bool follow = sbx_ctl_value(ctl, "follow") != NULL;
    char path[SBX_CTL_PATH_SIZE];
    struct reading reading = {.count = 1};
    int status = text != NULL ? number_option("after", text, &reading.after) : 0;
    while (status == 0 && !reading.finished && (follow || reading.count > 0)) {
        status = sbx_ctl_path(path, ctl->operands[0], "/events?after=%" PRIu64 "%s",
                              reading.after, follow ? "&wait=" POLL_TEXT : "");
        if (status == 0 && ctl->json && !follow) {
            return sbx_ctl_copy(ctl, path);
        }
        status = status == 0 ? read_events(ctl, path, follow, &reading) : status;
    }
    return status;
}
