/*
 * web_kit.c - see web_kit.h.
 */
#include "tests/web_kit.h"

#include "base/clock.h"
#include "base/fd.h"
#include "monitor/loop.h"
#include "supervisor/service.h"
#include "supervisor/supervisor_private.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HEAD_MAX ((size_t)64 * 1024)
#define BODY_MAX ((size_t)64 * 1024 * 1024)
#define SECONDS 30.0

/* --- deadlines that a test can wait for --- */

static unsigned hurry;

int __real_event_add(struct event *event, const struct timeval *timeout);
int __wrap_event_add(struct event *event, const struct timeval *timeout);
int __wrap_event_add(struct event *event, const struct timeval *timeout)
{
    if (timeout == NULL || hurry == 0) {
        return __real_event_add(event, timeout);
    }
    uint64_t us = ((uint64_t)timeout->tv_sec * SBX_US_PER_S + (uint64_t)timeout->tv_usec);
    us = us >= SBX_US_PER_S ? us / hurry : us;
    const struct timeval shorter = {.tv_sec = (time_t)(us / SBX_US_PER_S),
                                    .tv_usec = (suseconds_t)(us % SBX_US_PER_S)};
    return __real_event_add(event, &shorter);
}

/* --- the service --- */

void web_main(int argc, char *argv[])
{
    const char *name = strrchr(argv[0], '/');
    name = name != NULL ? name + 1 : argv[0];
    if (strcmp(name, "sbx-keeper") == 0) {
        exit(sbx_keeper_main(argc, argv));
    }
}

static int set_up(struct sbx_supervisor *supervisor, const struct web *web,
                  struct sbx_error *error)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    int r =
        sbx_supervisor_set(supervisor, "state", sbx_fixture_path(path, "state"), error);
    if (r == 0) {
        r = sbx_supervisor_set(supervisor, "socket", web->socket, error);
    }
    for (size_t i = 0; r == 0 && web->options != NULL && web->options[i] != NULL;
         i += 2) {
        r = sbx_supervisor_set(supervisor, web->options[i], web->options[i + 1], error);
    }
    return r;
}

static int limit_descriptors(uint64_t count)
{
    const struct rlimit limit = {count, count};
    return count > 0 && setrlimit(RLIMIT_NOFILE, &limit) < 0 ? -errno : 0;
}

static int serve(const struct web *web, int ready, struct sbx_error *error)
{
    struct sbx_service_http *service = NULL;
    struct sbx_supervisor *supervisor = sbx_supervisor_new();
    int r = supervisor == NULL ? -ENOMEM : set_up(supervisor, web, error);
    r = r < 0 ? r : sbx_supervisor_open(supervisor, error);
    r = r < 0 ? r : sbx_supervisor_open_signals(supervisor, error);
    r = r < 0 ? r : limit_descriptors(web->descriptors);
    r = r < 0 ? r : sbx_service_open(supervisor, &service, error);
    r = r < 0 ? r : limit_descriptors(web->descriptors_later);
    if (r == 0) {
        hurry = web->hurry;
        r = write(ready, "+", 1) == 1 ? sbx_loop_run(supervisor->loop) : -EIO;
        sbx_service_close(service);
    }
    sbx_supervisor_free(supervisor);
    return r;
}

/* It says which process it is for, so that one has to set it. */
static void pass_socket(int fd)
{
    char pid[16];
    (void)snprintf(pid, sizeof pid, "%d", (int)getpid());
    ck_assert_int_eq(dup2(fd, 3), 3);
    ck_assert_int_eq(setenv("LISTEN_FDS", "1", 1), 0);
    ck_assert_int_eq(setenv("LISTEN_PID", pid, 1), 0);
}

static _Noreturn void be_service(const struct web *web, int ready)
{
    struct sbx_error error = {.message = ""};
    if (web->passed > 0) {
        ready = fcntl(ready, F_DUPFD_CLOEXEC, 10);
        pass_socket(web->passed);
    }
    int r = serve(web, ready, &error);
    if (r < 0) {
        (void)!write(ready, error.message, strlen(error.message));
    }
    (void)close(ready);
    exit(-r & 0xff);
}

int web_try(struct web *web, char message[static 512])
{
    int ends[2];
    if (web->socket[0] == '\0') {
        (void)sbx_fixture_path(web->socket, "sock");
    }
    char program[SBX_FIXTURE_PATH_SIZE];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    ck_assert_int_gt(length, 0);
    program[length] = '\0';
    ck_assert_int_eq(setenv("SBX_KEEPER", program, 1), 0);
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    web->pid = fork();
    ck_assert_int_ge(web->pid, 0);
    if (web->pid == 0) {
        (void)close(ends[0]);
        be_service(web, ends[1]);
    }
    (void)close(ends[1]);
    memset(message, 0, 512);
    length = read(ends[0], message, 511);
    (void)close(ends[0]);
    if (length == 1 && message[0] == '+') {
        return 0;
    }
    int status = 0;
    ck_assert_int_eq(waitpid(web->pid, &status, 0), web->pid);
    ck_assert_msg(WIFEXITED(status), "the service ended by signal %d", WTERMSIG(status));
    web->pid = 0;
    ck_assert_int_ne(WEXITSTATUS(status), 0);
    return -WEXITSTATUS(status);
}

void web_start(struct web *web)
{
    char message[512];
    int r = web_try(web, message);
    ck_assert_msg(r == 0, "the service cannot be started: %s", message);
}

static void wait_end(struct web *web)
{
    int status = 0;
    uint64_t end = sbx_clock_us() + 60 * SBX_US_PER_S;
    while (waitpid(web->pid, &status, WNOHANG) == 0) {
        ck_assert_msg(sbx_clock_us() < end, "the service does not end");
        const struct timespec nap = {.tv_nsec = 1000000};
        (void)nanosleep(&nap, NULL);
    }
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
                  "the service ended with status 0x%x", (unsigned)status);
    web->pid = 0;
}

void web_stop(struct web *web)
{
    struct answer answer;
    web_ask(web, 202, "POST", "/v1/shutdown", "{\"cancel\": true}", &answer);
    answer_done(&answer);
    wait_end(web);
    web_wait_alone();
}

/* The test's time limit is the bound. */
void web_wait_alone(void)
{
    while (waitpid(-1, NULL, 0) > 0) {
    }
}

void web_terminate(struct web *web)
{
    ck_assert_int_eq(kill(web->pid, SIGTERM), 0);
    wait_end(web);
}

/* --- a client --- */

int web_connect(const struct web *web)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    ck_assert_uint_lt(strlen(web->socket), sizeof address.sun_path);
    memcpy(address.sun_path, web->socket, strlen(web->socket) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_msg(connect(fd, (const struct sockaddr *)&address, sizeof address) == 0,
                  "%s: %s", web->socket, strerror(errno));
    return fd;
}

void web_push(int fd, const char *data, size_t length)
{
    while (length > 0) {
        ssize_t sent = send(fd, data, length, MSG_NOSIGNAL);
        if (sent < 0) {
            return;
        }
        data += sent;
        length -= (size_t)sent;
    }
}

void web_send(int fd, const char *data, size_t length)
{
    while (length > 0) {
        ssize_t sent = send(fd, data, length, MSG_NOSIGNAL);
        ck_assert_msg(sent > 0, "send: %s", strerror(errno));
        data += sent;
        length -= (size_t)sent;
    }
}

void web_print(int fd, const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    ck_assert_int_ge(length, 0);
    web_send(fd, text, (size_t)length);
    free(text);
}

/* What comes until `end`: at least one byte; 0: it was closed. */
static size_t receive(int fd, char *buffer, size_t size, uint64_t end)
{
    uint64_t now = sbx_clock_us();
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    int wait_ms = end > now ? (int)((end - now) / 1000) + 1 : 0;
    int ready = poll(&poll_fd, 1, wait_ms);
    ck_assert_msg(ready == 1, "no answer");
    ssize_t length = recv(fd, buffer, size, 0);
    return length > 0 ? (size_t)length : 0;
}

const char *answer_header(const struct answer *answer, const char *name)
{
    static char value[256];
    size_t length = strlen(name);
    const char *line = answer->head;
    while (line != NULL && (line = strstr(line, "\r\n")) != NULL) {
        line += 2;
        if (strncasecmp(line, name, length) == 0 && line[length] == ':') {
            line += length + 1;
            line += strspn(line, " ");
            (void)snprintf(value, sizeof value, "%.*s", (int)strcspn(line, "\r"), line);
            return value;
        }
    }
    return NULL;
}

int64_t answer_number(const struct answer *answer, const char *name)
{
    char *end = NULL;
    const char *text = answer_header(answer, name);
    ck_assert_msg(text != NULL && text[0] != '\0', "no header %s", name);
    long long number = strtoll(text, &end, 10);
    ck_assert_msg(*end == '\0', "%s: %s", name, text);
    return number;
}

/* Byte by byte: what follows is the next reader's. */
static void read_head(int fd, struct answer *answer, uint64_t end)
{
    size_t used = 0;
    answer->head = calloc(1, HEAD_MAX);
    ck_assert_ptr_nonnull(answer->head);
    while (used < 4 || memcmp(answer->head + used - 4, "\r\n\r\n", 4) != 0) {
        ck_assert_uint_lt(used, HEAD_MAX - 1);
        if (receive(fd, answer->head + used, 1, end) == 0) {
            answer->closed = true;
            return;
        }
        used++;
    }
    ck_assert_msg(strncmp(answer->head, "HTTP/1.", 7) == 0, "%s", answer->head);
    answer->status = (int)strtol(answer->head + 9, NULL, 10);
}

static void read_body(int fd, struct answer *answer, uint64_t end)
{
    bool counted = answer_header(answer, "Content-Length") != NULL;
    size_t length = counted ? (size_t)answer_number(answer, "Content-Length") : 0;
    ck_assert_uint_lt(length, BODY_MAX);
    answer->body = calloc(1, length + 1);
    ck_assert_ptr_nonnull(answer->body);
    while (answer->length < length && !answer->closed) {
        size_t more =
            receive(fd, answer->body + answer->length, length - answer->length, end);
        answer->closed = more == 0;
        answer->length += more;
    }
}

static uint64_t after(double seconds)
{
    return sbx_clock_us() + (uint64_t)(seconds * 1e6);
}

void web_read_head(int fd, struct answer *ret_answer, double seconds)
{
    *ret_answer = (struct answer){.status = 0};
    read_head(fd, ret_answer, after(seconds));
}

void web_read(int fd, struct answer *ret_answer, double seconds)
{
    uint64_t end = after(seconds);
    *ret_answer = (struct answer){.status = 0};
    read_head(fd, ret_answer, end);
    if (ret_answer->status != 0) {
        read_body(fd, ret_answer, end);
    }
}

void answer_done(struct answer *answer)
{
    free(answer->head);
    free(answer->body);
    *answer = (struct answer){.status = 0};
}

void web_wait_closed(int fd, double seconds)
{
    char dropped[4096];
    uint64_t end = after(seconds);
    while (receive(fd, dropped, sizeof dropped, end) > 0) {
    }
}

void web_request(int fd, const char *method, const char *path, const char *body)
{
    if (body == NULL) {
        web_print(fd, "%s %s HTTP/1.1\r\nHost: sbx\r\n\r\n", method, path);
        return;
    }
    web_print(fd, "%s %s HTTP/1.1\r\nHost: sbx\r\nContent-Length: %zu\r\n\r\n%s", method,
              path, strlen(body), body);
}

void web_ask(const struct web *web, int status, const char *method, const char *path,
             const char *body, struct answer *ret_answer)
{
    int fd = web_connect(web);
    web_request(fd, method, path, body);
    web_read(fd, ret_answer, SECONDS);
    (void)close(fd);
    ck_assert_msg(ret_answer->status == status, "%s %s: %d: %s", method, path,
                  ret_answer->status, ret_answer->body != NULL ? ret_answer->body : "");
}

json_t *web_json(const struct web *web, int status, const char *method, const char *path,
                 const char *body)
{
    struct answer answer;
    web_ask(web, status, method, path, body, &answer);
    json_t *value = NULL;
    if (answer.length > 0) {
        ck_assert_str_eq(answer_header(&answer, "Content-Type"), "application/json");
        value = json_loadb(answer.body, answer.length, 0, NULL);
        ck_assert_msg(value != NULL, "%s", answer.body);
    }
    answer_done(&answer);
    return value;
}

void web_refused(const struct web *web, int status, const char *code, const char *method,
                 const char *path, const char *body)
{
    json_t *value = web_json(web, status, method, path, body);
    const json_t *error = json_object_get(value, "error");
    const char *found = json_string_value(json_object_get(error, "code"));
    const char *message = json_string_value(json_object_get(error, "message"));
    ck_assert_msg(found != NULL && strcmp(found, code) == 0, "%s %s: %s", method, path,
                  found != NULL ? found : "no code");
    ck_assert_ptr_nonnull(message);
    ck_assert_str_ne(message, "");
    json_decref(value);
}

void web_execute(const struct web *web, const char *id, const char *script,
                 const char *more)
{
    json_t *text = json_string(script);
    char *quoted = json_dumps(text, JSON_ENCODE_ANY);
    char *body = NULL;
    ck_assert_int_gt(asprintf(&body,
                              "{\"id\":\"%s\",\"command\":\"/bin/sh\","
                              "\"args\":[\"-c\",%s]%s%s}",
                              id, quoted, more[0] != '\0' ? "," : "", more),
                     0);
    json_decref(web_json(web, 201, "POST", "/v1/executions", body));
    free(body);
    free(quoted);
    json_decref(text);
}

const char *web_settled(const struct web *web, const char *id)
{
    static char status[32];
    char path[256];
    uint64_t next = 0;
    uint64_t end = after(SECONDS);
    bool finished = false;
    while (!finished) {
        ck_assert_msg(sbx_clock_us() < end, "%s is not settled", id);
        (void)snprintf(path, sizeof path, "/v1/executions/%s/events?after=%llu&wait=10s",
                       id, (unsigned long long)next);
        json_t *events = web_json(web, 200, "GET", path, NULL);
        size_t index;
        json_t *event;
        json_array_foreach(json_object_get(events, "events"), index, event)
        {
            const char *type = json_string_value(json_object_get(event, "type"));
            next = (uint64_t)json_integer_value(json_object_get(event, "sequence"));
            if (strcmp(type, "finished") == 0) {
                finished = true;
                (void)snprintf(status, sizeof status, "%s",
                               json_string_value(json_object_get(event, "status")));
            }
        }
        json_decref(events);
    }
    return status;
}

static int64_t stat_of(const struct answer *answer, const char *key)
{
    json_t *stats = json_loadb(answer->body, answer->length, 0, NULL);
    const json_t *value = json_object_get(stats, key);
    ck_assert_msg(json_is_integer(value), "no number %s: %s", key, answer->body);
    int64_t number = json_integer_value(value);
    json_decref(stats);
    return number;
}

int64_t web_stat(const struct web *web, const char *key)
{
    struct answer answer;
    web_ask(web, 200, "GET", "/v1/stats", NULL, &answer);
    int64_t number = stat_of(&answer, key);
    answer_done(&answer);
    return number;
}

void web_wait_stat(const struct web *web, const char *key, int64_t value, double seconds)
{
    uint64_t end = after(seconds);
    int64_t last = -1;
    int fd = web_connect(web);
    while (last != value) {
        struct answer answer;
        ck_assert_msg(sbx_clock_us() < end, "%s is %lld, not %lld", key, (long long)last,
                      (long long)value);
        web_request(fd, "GET", "/v1/stats", NULL);
        web_read(fd, &answer, seconds);
        ck_assert_int_eq(answer.status, 200);
        last = stat_of(&answer, key);
        answer_done(&answer);
    }
    (void)close(fd);
}
