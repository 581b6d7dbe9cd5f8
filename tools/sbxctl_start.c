/*
 * sbxctl_start.c - starts an execution, and stays with it by wish. The id is known before
 * the service is asked, so that a start whose answer is lost is asked for again, and
 * finds what it has begun.
 */
#include "tools/sbxctl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void spell(char *text, size_t size, const json_t *number, const char *unit)
{
    json_int_t value = json_integer_value(number);
    if (!json_is_integer(number)) {
        (void)snprintf(text, size, "unknown");
    } else if (strcmp(unit, "us") == 0) {
        (void)snprintf(text, size, "%.3fs", (double)value / 1e6);
    } else {
        (void)snprintf(text, size, "%" JSON_INTEGER_FORMAT "%s", value,
                       strcmp(unit, "bytes") == 0 ? " bytes" : "");
    }
}

/* As sbx-watch says it: a status alone tells no reason. */
static void tell_breach(const char *id, const json_t *breach)
{
    char limit[32];
    char observed[32];
    const char *reason = json_string_value(json_object_get(breach, "reason"));
    const char *unit = json_string_value(json_object_get(breach, "unit"));
    if (reason == NULL) {
        return;
    }
    if (json_object_get(breach, "limit") == NULL) {
        (void)sbx_ctl_fail("%s: breach: %s", id, reason);
        return;
    }
    unit = unit != NULL ? unit : "";
    spell(limit, sizeof limit, json_object_get(breach, "limit"), unit);
    spell(observed, sizeof observed, json_object_get(breach, "observed"), unit);
    (void)sbx_ctl_fail("%s: breach: %s limit %s, observed %s", id, reason, limit,
                       observed);
}

/* Waits, with its output by wish, and ends as it did. */
static int stay(struct sbx_ctl *ctl, const char *id, bool follow)
{
    json_t *snapshot = NULL;
    int status = follow ? sbx_ctl_copy_streams(ctl, id) : 0;
    status = status == 0 ? sbx_ctl_wait(ctl, id, &snapshot) : status;
    if (status != 0) {
        /* That would say how the command ended. */
        return SBX_STATUS_FAILED;
    }
    status = sbx_ctl_status_of(snapshot);
    const json_t *error = json_object_get(json_object_get(snapshot, "report"), "error");
    const char *message = json_string_value(json_object_get(error, "message"));
    if (ctl->json && !follow) {
        sbx_ctl_print_json(snapshot);
    }
    tell_breach(id, json_object_get(json_object_get(snapshot, "report"), "breach"));
    if (message != NULL) {
        (void)sbx_ctl_fail("%s", message);
    } else if (json_object_get(snapshot, "report") == NULL) {
        (void)sbx_ctl_fail("%s: what became of it is not known", id);
    }
    json_decref(snapshot);
    return status;
}

int sbx_ctl_start(struct sbx_ctl *ctl)
{
    bool follow = sbx_ctl_value(ctl, "follow") != NULL;
    bool wait = sbx_ctl_value(ctl, "wait") != NULL;
    char *text = NULL;
    char *id = NULL;
    struct sbx_reply *reply = NULL;
    int status = sbx_ctl_request_text(ctl, &text, &id);
    if (status != 0) {
        return status;
    }
    const struct sbx_ctl_question question = {.method = "POST",
                                              .path = "/v1/executions",
                                              .body = text,
                                              .length = strlen(text),
                                              .care = SBX_CTL_SAFE};
    status = sbx_ctl_ask(ctl, &question, &reply);
    explicit_bzero(text, strlen(text));
    free(text);
    if (status == 0 && !follow && ctl->json && !wait) {
        (void)fputs(sbx_reply_body(reply, NULL), stdout);
    } else if (status == 0 && !follow && !ctl->json) {
        (void)puts(id);
    }
    (void)fflush(stdout);
    sbx_reply_free(reply);
    if (status == 0 && (follow || wait)) {
        status = stay(ctl, id, follow);
    } else if (status != 0 && (follow || wait)) {
        status = SBX_STATUS_FAILED;
    }
    free(id);
    return status;
}
