/*
 * sbxctl_ask.c - questions to the service, and what its answers mean for people and
 * scripts: a message, an exit status.
 *
 * Nothing is asked again unless the caller says that this does no harm. What comes back
 * is believed as far as it is of the form that it should have.
 */
#include "tools/sbxctl.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* An sbxd that has not answered by then does not. */
#define ANSWER_US (30 * SBX_CTL_US_PER_S)
/* How long it may be away when it is restarted. */
#define PATIENCE_US (10 * SBX_CTL_US_PER_S)
#define NAP_MS 100

/* --- time --- */

uint64_t sbx_ctl_now_us(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SBX_CTL_US_PER_S + (uint64_t)now.tv_nsec / 1000;
}

void sbx_ctl_nap(void)
{
    (void)poll(NULL, 0, NAP_MS);
}

/* What is left of it once the library has found it to be a duration. */
static double unit_of(const char *unit)
{
    static const struct {
        const char *name;
        double us;
    } units[] = {{"us", 1}, {"ms", 1e3}, {"m", 60e6}, {"h", 3600e6}, {"d", 86400e6}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(unit, units[i].name) == 0) {
            return units[i].us;
        }
    }
    return 1e6;
}

int sbx_ctl_duration(const char *option, const char *text, uint64_t *ret_us)
{
    struct sbx_error error = {.message = "no memory"};
    struct sbx_spec *spec = sbx_spec_new();
    int r = spec != NULL ? sbx_spec_set(spec, "linger", text, &error) : -ENOMEM;
    sbx_spec_free(spec);
    if (r < 0) {
        const char *why = strstr(error.message, ": ");
        return sbx_ctl_fail("option --%s: %s", option,
                            why != NULL ? why + 2 : error.message);
    }
    char *unit = NULL;
    double us = strtod(text, &unit) * unit_of(unit);
    *ret_us = us < 1e18 ? (uint64_t)us : UINT64_C(1000000000000000000);
    return 0;
}

/* --- paths --- */

#define ALNUM "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

/* Nothing else becomes part of a path. */
static bool is_id(const char *id)
{
    size_t length = strspn(id, ALNUM "._:-");
    return strspn(id, ALNUM) > 0 && length <= 128 && id[length] == '\0';
}

int sbx_ctl_path(char path[static SBX_CTL_PATH_SIZE], const char *id, const char *format,
                 ...)
{
    char rest[SBX_CTL_PATH_SIZE / 2];
    if (!is_id(id)) {
        return sbx_ctl_fail("'%.64s' is no id (accepted: up to 128 letters, digits and "
                            "._:-, a letter or digit first)",
                            id);
    }
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(rest, sizeof rest, format, arguments);
    va_end(arguments);
    (void)snprintf(path, SBX_CTL_PATH_SIZE, "/v1/executions/%s%s", id, rest);
    return 0;
}

/* --- asking --- */

/* Nobody was there, or has left; or the answer says that it is leaving. */
static bool is_away(int result, const struct sbx_reply *reply)
{
    if (result == 0) {
        return sbx_reply_status(reply) == 503;
    }
    return result == -ENOENT || result == -ECONNREFUSED || result == -ECONNRESET ||
           result == -EPIPE;
}

struct attempts {
    int lost;          /* connections that were cut off */
    uint64_t begun_us; /* when the first of them failed */
};

static bool asks_again(const struct sbx_ctl_question *question, int result,
                       const struct sbx_reply *reply, struct attempts *attempts)
{
    uint64_t now_us = sbx_ctl_now_us();
    bool away = is_away(result, reply);
    attempts->begun_us = attempts->begun_us != 0 ? attempts->begun_us : now_us;
    attempts->lost += result == -EPIPE;
    bool patient = away && now_us - attempts->begun_us < PATIENCE_US;
    switch (question->care) {
    case SBX_CTL_SAFE: /* who was never there is not waited for */
        return patient && attempts->lost == 1;
    case SBX_CTL_PATIENT:
        return patient;
    case SBX_CTL_ONCE:
    default:
        return false;
    }
}

int sbx_ctl_call(struct sbx_client *client, const struct sbx_ctl_question *question,
                 struct sbx_reply **ret_reply, struct sbx_error *err)
{
    const struct sbx_call call = {.method = question->method,
                                  .path = question->path,
                                  .body = question->body,
                                  .length = question->length,
                                  .timeout_us = ANSWER_US + question->wait_us};
    struct attempts attempts = {0};
    for (;;) {
        struct sbx_reply *reply = NULL;
        int r = sbx_client_call(client, &call, &reply, err);
        if (!asks_again(question, r, reply, &attempts)) {
            if (r == 0) {
                *ret_reply = reply;
            }
            return r;
        }
        sbx_reply_free(reply);
        sbx_ctl_nap();
    }
}

int sbx_ctl_parse(const struct sbx_reply *reply, json_t **ret_object)
{
    size_t length = 0;
    const char *body = sbx_reply_body(reply, &length);
    json_t *object = json_loadb(body, length, JSON_ALLOW_NUL, NULL);
    if (!json_is_object(object)) {
        json_decref(object);
        return sbx_ctl_fail("what the service answers is no JSON object");
    }
    *ret_object = object;
    return 0;
}

int sbx_ctl_refusal(const struct sbx_reply *reply)
{
    size_t length = 0;
    int status = sbx_reply_status(reply);
    const char *body = sbx_reply_body(reply, &length);
    json_t *answer = json_loadb(body, length, 0, NULL);
    const char *message =
        json_string_value(json_object_get(json_object_get(answer, "error"), "message"));
    if (message != NULL) {
        (void)sbx_ctl_fail("%.480s", message);
    } else {
        (void)sbx_ctl_fail("the service answers with status %d", status);
    }
    json_decref(answer);
    bool clear = status == 403 || status == 404 || status == 409 || status == 429;
    return clear ? SBX_CTL_NO : SBX_STATUS_FAILED;
}

int sbx_ctl_ask(struct sbx_ctl *ctl, const struct sbx_ctl_question *question,
                struct sbx_reply **ret_reply)
{
    struct sbx_error error = {0};
    struct sbx_reply *reply = NULL;
    int status = 0;
    if (sbx_ctl_call(ctl->client, question, &reply, &error) < 0) {
        return sbx_ctl_fail("%s", error.message);
    }
    int answer = sbx_reply_status(reply);
    if (answer < 200 || answer > 299) {
        status = sbx_ctl_refusal(reply);
    } else if (ret_reply != NULL) {
        *ret_reply = reply;
        return 0;
    }
    sbx_reply_free(reply);
    return status;
}

int sbx_ctl_get(struct sbx_ctl *ctl, const char *path, enum sbx_ctl_care care,
                uint64_t wait_us, json_t **ret_object)
{
    const struct sbx_ctl_question question = {
        .method = "GET", .path = path, .wait_us = wait_us, .care = care};
    struct sbx_reply *reply = NULL;
    int status = sbx_ctl_ask(ctl, &question, &reply);
    if (status == 0) {
        status = sbx_ctl_parse(reply, ret_object);
        sbx_reply_free(reply);
    }
    return status;
}

int sbx_ctl_copy(struct sbx_ctl *ctl, const char *path)
{
    const struct sbx_ctl_question question = {
        .method = "GET", .path = path, .wait_us = ANSWER_US, .care = SBX_CTL_SAFE};
    struct sbx_reply *reply = NULL;
    int status = sbx_ctl_ask(ctl, &question, &reply);
    if (status == 0) {
        size_t length = 0;
        const char *body = sbx_reply_body(reply, &length);
        (void)fwrite(body, 1, length, stdout);
        sbx_reply_free(reply);
    }
    return status;
}

int sbx_ctl_write(int fd, const void *data, size_t length)
{
    const char *at = data;
    while (length > 0) {
        ssize_t r = write(fd, at, length);
        if (r >= 0) {
            at += r;
            length -= (size_t)r;
        } else if (errno == EAGAIN) {
            struct pollfd room = {.fd = fd, .events = POLLOUT};
            (void)poll(&room, 1, -1);
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}
