/*
 * executions.c - has sbxd run a command, waits for its end by events, and prints how it
 * ended.
 *
 *     executions SOCKET ID COMMAND
 *
 * The command outlives this program: started again with the same ID and COMMAND, it finds
 * the same execution, and goes on where that is. COMMAND is a word or a shell script with
 * none of the characters " and \, which JSON would want to have escaped.
 */
#include <sbx/sbx.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sbx_reply *ask(struct sbx_client *client, const char *method,
                             const char *path, const char *body)
{
    struct sbx_error error = {0};
    struct sbx_reply *reply = NULL;
    struct sbx_call call = {.method = method, .path = path, .body = body};
    call.length = body != NULL ? strlen(body) : 0;
    call.timeout_us = 60 * 1000000;
    if (sbx_client_call(client, &call, &reply, &error) < 0) {
        fprintf(stderr, "executions: %s\n", error.message);
    } else if (sbx_reply_status(reply) >= 300) {
        fprintf(stderr, "executions: %s", sbx_reply_body(reply, NULL));
        sbx_reply_free(reply);
        reply = NULL;
    }
    return reply;
}

/* Waits for events behind number *after, and moves that on. 1: "finished" was among them;
 * 0: not yet; -1: it failed. In JSON, what the command has written cannot be taken for a
 * key: its quotation marks are escaped. */
static int take_events(struct sbx_client *client, const char *id, long long *after)
{
    static const char key[] = "\"sequence\":";
    char path[256];
    snprintf(path, sizeof path, "/v1/executions/%s/events?after=%lld&wait=25s", id,
             *after);
    struct sbx_reply *reply = ask(client, "GET", path, NULL);
    if (reply == NULL) {
        return -1;
    }
    const char *at = sbx_reply_body(reply, NULL);
    int finished = strstr(at, "\"type\":\"finished\"") != NULL;
    while ((at = strstr(at, key)) != NULL) {
        at += sizeof key - 1;
        *after = strtoll(at, NULL, 10);
    }
    sbx_reply_free(reply);
    return finished;
}

/* Prints the first of what it wrote, and its snapshot, which has the report. */
static int show(struct sbx_client *client, const char *id)
{
    static const char *const parts[] = {"/stdout?offset=0", ""};
    char path[256];
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        size_t length = 0;
        snprintf(path, sizeof path, "/v1/executions/%s%s", id, parts[i]);
        struct sbx_reply *reply = ask(client, "GET", path, NULL);
        if (reply == NULL) {
            return 1;
        }
        const char *body = sbx_reply_body(reply, &length);
        fwrite(body, 1, length, stdout);
        sbx_reply_free(reply);
    }
    return 0;
}

int main(int argc, char *argv[])
{
    char request[1024];
    long long last = 0;
    if (argc != 4 || strpbrk(argv[3], "\"\\") != NULL) {
        fprintf(stderr, "usage: executions SOCKET ID COMMAND\n");
        return 2;
    }
    struct sbx_client *client = sbx_client_new(argv[1]);
    snprintf(request, sizeof request,
             "{\"id\": \"%s\", \"command\": \"sh\", \"args\": [\"-c\", \"%s\"],"
             " \"limits\": {\"wall\": \"30s\", \"memory\": \"256M\"}}",
             argv[2], argv[3]);
    struct sbx_reply *reply =
        client != NULL ? ask(client, "POST", "/v1/executions", request) : NULL;
    if (reply == NULL) {
        sbx_client_free(client);
        return 1;
    }
    printf("%s\n", sbx_reply_status(reply) == 201 ? "started" : "found");
    sbx_reply_free(reply);
    int finished = 0;
    while (finished == 0) {
        finished = take_events(client, argv[2], &last);
    }
    int status = finished == 1 ? show(client, argv[2]) : 1;
    sbx_client_free(client);
    return status;
}
