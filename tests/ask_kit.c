/*
 * ask_kit.c - see ask_kit.h. What events say is in replay_kit.c.
 */
#include "tests/ask_kit.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CALL_US UINT64_C(60000000)
#define HEAD_MAX (64UL * 1024)
#define BODY_MAX (256UL * 1024 * 1024)

/* All that were given out. */
struct kept {
    struct kept *next;
    struct answer answer;
};
static struct kept *all_kept;

static struct answer *keep(void)
{
    struct kept *kept = calloc(1, sizeof(*kept));
    ck_assert_ptr_nonnull(kept);
    kept->next = all_kept;
    all_kept = kept;
    return &kept->answer;
}

void ask_forget(void)
{
    while (all_kept != NULL) {
        struct kept *next = all_kept->next;
        free(all_kept->answer.head);
        free(all_kept->answer.body);
        json_decref(all_kept->answer.json);
        free(all_kept);
        all_kept = next;
    }
}

static uint64_t number_of(const char *text)
{
    return text != NULL ? strtoull(text, NULL, 10) : UINT64_MAX;
}

/* The body was filled in. */
static void complete(struct answer *answer)
{
    answer->json = json_loadb(answer->body, answer->length, JSON_ALLOW_NUL, NULL);
}

/* --- by the client of the library ------------------------------------------------------
 */

const struct answer *ask_bytes(const struct service *service, const char *method,
                               const char *path, const void *body, size_t length)
{
    struct sbx_error error = {0};
    struct sbx_reply *reply = NULL;
    const struct sbx_call call = {.method = method,
                                  .path = path,
                                  .body = body,
                                  .length = length,
                                  .timeout_us = CALL_US};
    ck_assert_ptr_nonnull(service->client);
    int r = sbx_client_call(service->client, &call, &reply, &error);
    ck_assert_msg(r == 0, "%s %s: %d: %s", method, path, r, error.message);
    struct answer *answer = keep();
    const char *bytes = sbx_reply_body(reply, &answer->length);
    const char *eof = sbx_reply_header(reply, "x-sbx-eof");
    answer->status = sbx_reply_status(reply);
    answer->body = calloc(1, answer->length + 1);
    ck_assert_ptr_nonnull(answer->body);
    if (answer->length > 0) {
        memcpy(answer->body, bytes, answer->length);
    }
    answer->offset = number_of(sbx_reply_header(reply, "X-Sbx-Offset"));
    answer->next = number_of(sbx_reply_header(reply, "X-Sbx-Next"));
    answer->gap = number_of(sbx_reply_header(reply, "X-SBX-GAP"));
    answer->eof = eof != NULL && (strcmp(eof, "1") == 0 || strcmp(eof, "true") == 0);
    sbx_reply_free(reply);
    complete(answer);
    return answer;
}

const struct answer *ask(const struct service *service, const char *method,
                         const char *path, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, path);
    int length = vsnprintf(text, sizeof(text), path, arguments);
    va_end(arguments);
    ck_assert_int_lt(length, (int)sizeof(text));
    return ask_bytes(service, method, text, NULL, 0);
}

/* ' becomes ". */
static char *json_text(const char *format, va_list arguments)
    __attribute__((format(printf, 1, 0)));

static char *json_text(const char *format, va_list arguments)
{
    char *text = NULL;
    ck_assert_int_ge(vasprintf(&text, format, arguments), 0);
    for (char *quote = text; (quote = strchr(quote, '\'')) != NULL;) {
        *quote = '"';
    }
    return text;
}

const struct answer *ask_post(const struct service *service, const char *path,
                              const char *json, ...)
{
    va_list arguments;
    va_start(arguments, json);
    SBX_AUTO_FREE char *text = json_text(json, arguments);
    va_end(arguments);
    return ask_bytes(service, "POST", path, text, strlen(text));
}

const struct answer *ask_start(const struct service *service, int status,
                               const char *json, ...)
{
    va_list arguments;
    va_start(arguments, json);
    SBX_AUTO_FREE char *text = json_text(json, arguments);
    va_end(arguments);
    const struct answer *answer =
        ask_bytes(service, "POST", "/v1/executions", text, strlen(text));
    ck_assert_msg(answer->status == status, "status %d and not %d for %s: %s",
                  answer->status, status, text, answer->body);
    return answer;
}

const struct answer *ask_script(const struct service *service, const char *id,
                                const char *keys, const char *script)
{
    SBX_AUTO_FREE char *more = NULL;
    ck_assert_int_ge(asprintf(&more, "{%s}", keys != NULL ? keys : ""), 0);
    for (char *quote = more; (quote = strchr(quote, '\'')) != NULL;) {
        *quote = '"';
    }
    json_t *request = json_loads(more, 0, NULL);
    ck_assert_msg(request != NULL, "no JSON: %s", more);
    json_t *words = json_pack("{s:s, s:s, s:[s, s]}", "id", id, "command", "sh", "args",
                              "-c", script);
    ck_assert_int_eq(json_object_update(request, words), 0);
    SBX_AUTO_FREE char *text = json_dumps(request, 0);
    json_decref(words);
    json_decref(request);
    return ask_expect(ask_bytes(service, "POST", "/v1/executions", text, strlen(text)),
                      201);
}

/* --- what came back --------------------------------------------------------------------
 */

const struct answer *ask_expect(const struct answer *answer, int status)
{
    ck_assert_ptr_nonnull(answer);
    ck_assert_msg(answer->status == status, "status %d and not %d: %s", answer->status,
                  status, answer->body);
    return answer;
}

const json_t *ask_item(const json_t *json, const char *path)
{
    char key[64];
    while (json != NULL && *path != '\0') {
        size_t length = strcspn(path, ".");
        ck_assert_uint_lt(length, sizeof(key));
        memcpy(key, path, length);
        key[length] = '\0';
        json = json_is_array(json) ? json_array_get(json, strtoul(key, NULL, 10))
                                   : json_object_get(json, key);
        path += length + (path[length] == '.' ? 1 : 0);
    }
    return json;
}

const char *ask_string(const struct answer *answer, const char *path)
{
    const json_t *item = ask_item(answer->json, path);
    ck_assert_msg(json_is_string(item), "%s is no text in: %s", path, answer->body);
    return json_string_value(item);
}

int64_t ask_integer(const struct answer *answer, const char *path)
{
    const json_t *item = ask_item(answer->json, path);
    ck_assert_msg(json_is_integer(item), "%s is no number in: %s", path, answer->body);
    return json_integer_value(item);
}

const char *ask_code(const struct answer *answer)
{
    const char *message = ask_string(answer, "error.message");
    ck_assert_msg(message[0] != '\0' && strchr(message, '\n') == NULL,
                  "no message of one line: %s", answer->body);
    return ask_string(answer, "error.code");
}

const struct answer *ask_settled(const struct service *service, const char *id,
                                 double seconds)
{
    double end = service_now() + seconds;
    for (;;) {
        const struct answer *snapshot =
            ask_expect(ask(service, "GET", "/v1/executions/%s", id), 200);
        if (strcmp(ask_string(snapshot, "status"), "running") != 0) {
            return snapshot;
        }
        ck_assert_msg(service_now() < end, "%s runs after %.1f s", id, seconds);
        (void)ask_expect(ask(service, "GET", "/v1/executions/%s/events?after=%lld&wait=1",
                             id, (long long)ask_integer(snapshot, "latest_sequence")),
                         200);
    }
}

const struct answer *ask_ends(const struct service *service, const char *id,
                              const char *status)
{
    const struct answer *snapshot = ask_settled(service, id, 60);
    ck_assert_msg(strcmp(ask_string(snapshot, "status"), status) == 0, "%s is not %s: %s",
                  id, status, snapshot->body);
    return snapshot;
}

void ask_wait_output(const struct service *service, const char *id, const char *text)
{
    double end = service_now() + 30;
    uint64_t next = 0;
    for (;;) {
        const struct answer *all =
            ask_expect(ask(service, "GET", "/v1/executions/%s/stdout?offset=0", id), 200);
        if (memmem(all->body, all->length, text, strlen(text)) != NULL) {
            return;
        }
        ck_assert_msg(service_now() < end && !all->eof, "%s has not written %s but %s",
                      id, text, all->body);
        next = all->next;
        (void)ask_expect(ask(service, "GET",
                             "/v1/executions/%s/stdout?offset=%llu&wait=1", id,
                             (unsigned long long)next),
                         200);
    }
}

uint64_t ask_stat(const struct service *service, const char *name)
{
    return (uint64_t)ask_integer(ask_expect(ask(service, "GET", "/v1/stats"), 200), name);
}

char *ask_output(const struct service *service, const char *id, const char *stream,
                 size_t *ret_length, uint64_t *ret_gap)
{
    char *all = NULL;
    size_t length = 0;
    uint64_t gap = 0;
    for (uint64_t next = 0;;) {
        const struct answer *part =
            ask_expect(ask(service, "GET", "/v1/executions/%s/%s?offset=%llu&wait=10", id,
                           stream, (unsigned long long)next),
                       200);
        ck_assert_msg(
            part->offset == next + part->gap && part->next == part->offset + part->length,
            "asked for %llu: offset %llu, gap %llu, next %llu, length %zu",
            (unsigned long long)next, (unsigned long long)part->offset,
            (unsigned long long)part->gap, (unsigned long long)part->next, part->length);
        ck_assert(part->length > 0 || part->eof);
        gap += part->gap;
        all = realloc(all, length + part->length + 1);
        ck_assert_ptr_nonnull(all);
        memcpy(all + length, part->body, part->length);
        length += part->length;
        next = part->next;
        if (part->eof) {
            break;
        }
    }
    all[length] = '\0';
    *ret_length = length;
    if (ret_gap != NULL) {
        *ret_gap = gap;
    }
    return all;
}

/* --- connections of one's own
 * ------------------------------------------------------------ */

int ask_connect(const struct service *service)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    ck_assert_uint_lt(strlen(service->socket), sizeof(address.sun_path));
    memcpy(address.sun_path, service->socket, strlen(service->socket) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
        int error = errno;
        (void)close(fd);
        return -error;
    }
    return fd;
}

bool ask_send(int fd, const char *method, const char *path, const char *body,
              size_t length)
{
    SBX_AUTO_FREE char *head = NULL;
    int head_length = asprintf(&head,
                               "%s %s HTTP/1.1\r\nHost: sbx\r\nContent-Length: %zu\r\n"
                               "Connection: close\r\n\r\n",
                               method, path, length);
    ck_assert_int_gt(head_length, 0);
    const char *parts[] = {head, body};
    const size_t lengths[] = {(size_t)head_length, length};
    for (int i = 0; i < 2; i++) {
        for (size_t done = 0; done < lengths[i];) {
            ssize_t sent = send(fd, parts[i] + done, lengths[i] - done, MSG_NOSIGNAL);
            if (sent < 0) {
                ck_assert_msg(errno == EPIPE || errno == ECONNRESET, "send: %s",
                              strerror(errno));
                return false;
            }
            done += (size_t)sent;
        }
    }
    return true;
}

/* What has come so far. */
struct incoming {
    char *bytes;
    size_t length;
    size_t room;
};

/* False: that was all. */
static bool receive_more(int fd, struct incoming *incoming, double end)
{
    if (incoming->room - incoming->length < 65536) {
        incoming->room = incoming->room * 2 + 131072;
        ck_assert_uint_lt(incoming->room, BODY_MAX * 4);
        incoming->bytes = realloc(incoming->bytes, incoming->room);
        ck_assert_ptr_nonnull(incoming->bytes);
    }
    double rest = end - service_now();
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    int ready = poll(&polled, 1, rest > 0 ? (int)(rest * 1000) : 0);
    ck_assert_msg(ready > 0, "no answer in time (%zu bytes so far)", incoming->length);
    ssize_t got = recv(fd, incoming->bytes + incoming->length,
                       incoming->room - incoming->length - 1, 0);
    if (got <= 0) {
        return false;
    }
    incoming->length += (size_t)got;
    incoming->bytes[incoming->length] = '\0';
    return true;
}

static uint64_t header_number(const char *head, const char *name)
{
    const char *found = strcasestr(head, name);
    return found != NULL ? number_of(found + strlen(name)) : UINT64_MAX;
}

static const struct answer *answer_of(const struct incoming *incoming, size_t head_length)
{
    struct answer *answer = keep();
    answer->head = strndup(incoming->bytes, head_length);
    ck_assert_ptr_nonnull(answer->head);
    answer->length = incoming->length - head_length;
    answer->body = calloc(1, answer->length + 1);
    ck_assert_ptr_nonnull(answer->body);
    memcpy(answer->body, incoming->bytes + head_length, answer->length);
    ck_assert_msg(strncmp(answer->head, "HTTP/1.", 7) == 0, "no HTTP: %s", answer->head);
    answer->status = (int)strtol(answer->head + 9, NULL, 10);
    answer->offset = header_number(answer->head, "\nX-Sbx-Offset: ");
    answer->next = header_number(answer->head, "\nX-Sbx-Next: ");
    answer->gap = header_number(answer->head, "\nX-Sbx-Gap: ");
    complete(answer);
    return answer;
}

const struct answer *ask_receive(int fd, double seconds)
{
    struct incoming incoming = {0};
    const struct answer *answer = NULL;
    double end = service_now() + seconds;
    uint64_t wanted = UINT64_MAX;
    size_t head_length = 0;
    while ((head_length == 0 || incoming.length - head_length < wanted) &&
           receive_more(fd, &incoming, end)) {
        const char *blank = head_length == 0 ? strstr(incoming.bytes, "\r\n\r\n") : NULL;
        if (blank != NULL) {
            head_length = (size_t)(blank - incoming.bytes) + 4;
            wanted = strncmp(incoming.bytes + 9, "204", 3) == 0
                         ? 0
                         : header_number(incoming.bytes, "\nContent-Length: ");
        }
    }
    if (head_length > 0) {
        answer = answer_of(&incoming, head_length);
    }
    free(incoming.bytes);
    (void)close(fd);
    return answer;
}
