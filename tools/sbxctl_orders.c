/*
 * sbxctl_orders.c - what is done to an execution that is there, and to the service. Each
 * is one question, but for those that wait longer than the service lets one wait.
 */
#include "tools/sbxctl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK ((size_t)64 * 1024)
/* How long the service lets us wait in one question. */
#define POLL_US (20 * SBX_CTL_US_PER_S)

/* --- one question --- */

static int post(struct sbx_ctl *ctl, const char *part, const char *body)
{
    char path[SBX_CTL_PATH_SIZE];
    const struct sbx_ctl_question question = {.method = "POST",
                                              .path = path,
                                              .body = body,
                                              .length = body != NULL ? strlen(body) : 0};
    int status = sbx_ctl_path(path, ctl->operands[0], "/%s", part);
    return status == 0 ? sbx_ctl_ask(ctl, &question, NULL) : status;
}

int sbx_ctl_pause(struct sbx_ctl *ctl)
{
    return post(ctl, "pause", NULL);
}

int sbx_ctl_resume(struct sbx_ctl *ctl)
{
    return post(ctl, "resume", NULL);
}

int sbx_ctl_signal(struct sbx_ctl *ctl)
{
    json_t *request = json_pack("{s:s}", "signal", ctl->operands[1]);
    char *body = request != NULL ? json_dumps(request, JSON_COMPACT) : NULL;
    int status = body != NULL ? post(ctl, "signal", body)
                              : sbx_ctl_fail("'%.64s' is no signal", ctl->operands[1]);
    free(body);
    json_decref(request);
    return status;
}

int sbx_ctl_shutdown(struct sbx_ctl *ctl)
{
    bool cancel = sbx_ctl_value(ctl, "cancel") != NULL;
    const char *body = cancel ? "{\"cancel\":true}" : "{\"cancel\":false}";
    const struct sbx_ctl_question question = {.method = "POST",
                                              .path = "/v1/shutdown",
                                              .body = body,
                                              .length = strlen(body),
                                              .wait_us = POLL_US};
    return sbx_ctl_ask(ctl, &question, NULL);
}

/* --- until nothing is left --- */

/* What is left of the time that was given, as much of it as goes into one question. */
struct patience {
    const char *text; /* NULL: there is no wait */
    uint64_t until_us;
    uint64_t slice_us;
};

static int begin_patience(const struct sbx_ctl *ctl, struct patience *patience)
{
    uint64_t given_us = 0;
    patience->text = sbx_ctl_value(ctl, "wait");
    int status =
        patience->text != NULL ? sbx_ctl_duration("wait", patience->text, &given_us) : 0;
    patience->until_us = sbx_ctl_now_us() + given_us;
    return status;
}

static const char *next_slice(struct patience *patience, char query[static 64])
{
    uint64_t now_us = sbx_ctl_now_us();
    uint64_t left_us = patience->until_us > now_us ? patience->until_us - now_us : 0;
    patience->slice_us = left_us < POLL_US ? left_us : POLL_US;
    query[0] = '\0';
    if (patience->text != NULL) {
        (void)snprintf(query, 64, "?wait=%" PRIu64 "us", patience->slice_us);
    }
    return query;
}

/* Asks until the answer says that it is done, or the time is over. `gone`: that there is
 * none any more is what was wanted, once it was there. */
static int ask_until_done(struct sbx_ctl *ctl, const char *method, const char *part,
                          bool gone)
{
    char path[SBX_CTL_PATH_SIZE];
    char query[64];
    struct patience patience = {.text = NULL};
    struct sbx_error error = {0};
    bool accepted = false;
    int status = begin_patience(ctl, &patience);
    while (status == 0) {
        struct sbx_reply *reply = NULL;
        status = sbx_ctl_path(path, ctl->operands[0], "%s%s", part,
                              next_slice(&patience, query));
        const struct sbx_ctl_question question = {.method = method,
                                                  .path = path,
                                                  .wait_us = patience.slice_us,
                                                  .care = accepted ? SBX_CTL_PATIENT
                                                                   : SBX_CTL_SAFE};
        if (status != 0) {
            return status;
        }
        if (sbx_ctl_call(ctl->client, &question, &reply, &error) < 0) {
            return sbx_ctl_fail("%s", error.message);
        }
        int answer = sbx_reply_status(reply);
        bool done = answer == 200 || answer == 204 || (accepted && gone && answer == 404);
        if (!done && answer != 202) {
            status = sbx_ctl_refusal(reply);
        }
        sbx_reply_free(reply);
        if (done || (status == 0 && patience.text == NULL)) {
            return 0;
        }
        accepted = true;
        if (status == 0 && sbx_ctl_now_us() >= patience.until_us) {
            (void)sbx_ctl_fail("%s: not all of it has ended within %s", ctl->operands[0],
                               patience.text);
            return SBX_CTL_NO;
        }
    }
    return status;
}

int sbx_ctl_cancel(struct sbx_ctl *ctl)
{
    return ask_until_done(ctl, "POST", "/cancel", false);
}

int sbx_ctl_rm(struct sbx_ctl *ctl)
{
    return ask_until_done(ctl, "DELETE", "", true);
}

/* --- standard input --- */

/* Takes as long as the command takes to read: there is no room until then. A piece whose
 * fate is not known is not sent again. */
static int send_piece(struct sbx_ctl *ctl, const char *data, size_t length, bool close)
{
    char path[SBX_CTL_PATH_SIZE];
    const struct sbx_ctl_question question = {
        .method = "POST", .path = path, .body = data, .length = length};
    int status =
        sbx_ctl_path(path, ctl->operands[0], "/stdin%s", close ? "?close=1" : "");
    while (status == 0) {
        struct sbx_error error = {0};
        struct sbx_reply *reply = NULL;
        if (sbx_ctl_call(ctl->client, &question, &reply, &error) < 0) {
            return sbx_ctl_fail("%s", error.message);
        }
        int answer = sbx_reply_status(reply);
        bool full = answer == 429;
        if (answer > 299 && !full) {
            status = sbx_ctl_refusal(reply);
        }
        sbx_reply_free(reply);
        if (!full) {
            return status;
        }
        sbx_ctl_nap();
    }
    return status;
}

/* Also where there is nothing to send it is asked whether it could be. */
int sbx_ctl_stdin(struct sbx_ctl *ctl)
{
    static char buffer[CHUNK];
    bool close = sbx_ctl_value(ctl, "close") != NULL;
    bool sent = false;
    int status = 0;
    while (status == 0) {
        ssize_t r = read(STDIN_FILENO, buffer, sizeof buffer);
        if (r == 0) {
            return close || !sent ? send_piece(ctl, "", 0, close) : 0;
        }
        if (r > 0) {
            status = send_piece(ctl, buffer, (size_t)r, false);
            sent = true;
        } else if (errno != EINTR) {
            return sbx_ctl_fail("standard input: %s (%s)", strerrordesc_np(errno),
                                strerrorname_np(errno));
        }
    }
    return status;
}
