/*
 * test_client.c - the client of sbxd against servers that are forked here: answers of
 * every form, whole and in pieces; connections that are kept, closed, refused, silent or
 * slow; that no request is ever sent twice, and by sbxctl only where that does no harm.
 */
#include "tests/fixture.h"

#include "base/clock.h"
#include "base/fd.h"
#include "supervisor/reply.h"
#include "supervisor/socket_path.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_US (20 * SBX_US_PER_S)
#define LARGE ((size_t)3 * 1024 * 1024)

/* --- answers --- */

struct answer {
    const char *text;
    int result;       /* 1: complete; 0: more is wanted; else of the reader */
    int status;       /* 0: none */
    const char *body; /* NULL: not compared */
    bool keeps;
    bool no_body; /* to HEAD */
    int at_end;   /* of sbx_reply_reader_end; 0: not called */
};

#define OK_LINE "HTTP/1.1 200 OK\r\n"
#define CHUNKED OK_LINE "Transfer-Encoding: chunked\r\n\r\n"

static const struct answer answers[] = {
    {OK_LINE "Content-Length: 5\r\n\r\nhello", 1, 200, "hello", true, false, 1},
    {"HTTP/1.1 404 Not Found\r\ncontent-length:0\r\n\r\n", 1, 404, "", true, false, 1},
    {"HTTP/1.1 404\r\nContent-Length: 0\r\n\r\n", 1, 404, "", true, false, 1},
    {"HTTP/1.1 204 No Content\r\n\r\n", 1, 204, "", true, false, 1},
    {OK_LINE "Content-Length: 5\r\n\r\n", 1, 200, "", true, true, 1},
    {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", 1, 200, "hi", false, false, 1},
    {OK_LINE "Connection: close\r\nContent-Length: 2\r\n\r\nhi", 1, 200, "hi", false,
     false, 1},
    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\nx", 1,
     201, "x", true, false, 1},
    /* chunks */
    {CHUNKED "5\r\nhello\r\n6;name=value\r\n world\r\n0\r\n\r\n", 1, 200, "hello world",
     true, false, 1},
    {CHUNKED "00A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n", 1, 200, "0123456789", true,
     false, 1},
    {CHUNKED "0\r\n\r\n", 1, 200, "", true, false, 1},
    {CHUNKED "5\r\nhell", 0, 0, NULL, false, false, -EPIPE},
    {CHUNKED "5\r\nhello!\r\n", -EPROTO, 0, NULL, false, false, 0},
    {CHUNKED "g\r\n", -EPROTO, 0, NULL, false, false, 0},
    {CHUNKED "\r\n", -EPROTO, 0, NULL, false, false, 0},
    {CHUNKED "-1\r\n", -EPROTO, 0, NULL, false, false, 0},
    {CHUNKED "5x\r\nhello\r\n", -EPROTO, 0, NULL, false, false, 0},
    {CHUNKED "ffffffffffffffff5\r\n", -EMSGSIZE, 0, NULL, false, false, 0},
    {CHUNKED "0\r\nno trailer\r\n\r\n", -EPROTO, 0, NULL, false, false, 0},
    /* until the end of the connection */
    {OK_LINE "\r\nall of it", 0, 200, "all of it", false, false, 1},
    /* cut off */
    {"", 0, 0, NULL, false, false, -EPIPE},
    {"HTTP/1.1 200", 0, 0, NULL, false, false, -EPIPE},
    {OK_LINE "Content-Length: 5\r\n", 0, 0, NULL, false, false, -EPIPE},
    {OK_LINE "Content-Length: 5\r\n\r\nhell", 0, 0, NULL, false, false, -EPIPE},
    /* of no form */
    {"HTTP/2 200\r\n", -EPROTO, 0, NULL, false, false, 0},
    {"HTTP/1.1 20\r\n", -EPROTO, 0, NULL, false, false, 0},
    {"HTTP/1.1 200OK\r\n", -EPROTO, 0, NULL, false, false, 0},
    {"HTTP/1.1 999 No\r\n", -EPROTO, 0, NULL, false, false, 0},
    {"http/1.1 200 OK\r\n", -EPROTO, 0, NULL, false, false, 0},
    {"SSH-2.0-OpenSSH_9.2\r\n", -EPROTO, 0, NULL, false, false, 0},
    {"HTTP/1.1 200 OK\n", -EPROTO, 0, NULL, false, false, 0},
    {"HTTP/1.1 200 O\001K\r\n", -EPROTO, 0, NULL, false, false, 0},
    {"HTTP/1.1 101 Switching Protocols\r\n\r\n", -EPROTO, 0, NULL, false, false, 0},
    {OK_LINE "no colon\r\n", -EPROTO, 0, NULL, false, false, 0},
    {OK_LINE ": no name\r\n", -EPROTO, 0, NULL, false, false, 0},
    {OK_LINE "Name : x\r\n", -EPROTO, 0, NULL, false, false, 0},
    {OK_LINE "A: b\r\n folded\r\n", -EPROTO, 0, NULL, false, false, 0},
    {OK_LINE "A: b\rc\r\n", -EPROTO, 0, NULL, false, false, 0},
    /* lengths that cannot be, or contradict each other */
    {OK_LINE "Content-Length: -1\r\n\r\n", -EPROTO, 0, NULL, false, false, 0},
    {OK_LINE "Content-Length: 1 2\r\n\r\n", -EPROTO, 0, NULL, false, false, 0},
    {OK_LINE "Content-Length:\r\n\r\n", -EPROTO, 0, NULL, false, false, 0},
    {OK_LINE "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", -EPROTO, 0, NULL, false,
     false, 0},
    {OK_LINE "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", -EPROTO, 0, NULL,
     false, false, 0},
    {OK_LINE "Transfer-Encoding: gzip, chunked\r\n\r\n", -EPROTO, 0, NULL, false, false,
     0},
    {"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", -EPROTO, 0, NULL, false,
     false, 0},
    {OK_LINE "Content-Length: 16777217\r\n\r\n", -EMSGSIZE, 0, NULL, false, false, 0},
    {OK_LINE "Content-Length: 99999999999999999999999\r\n\r\n", -EMSGSIZE, 0, NULL, false,
     false, 0},
};

static void expect_body(const struct sbx_reply *reply, const char *wanted)
{
    size_t length = 0;
    const char *body = sbx_reply_body(reply, &length);
    ck_assert_uint_eq(length, strlen(wanted));
    ck_assert_str_eq(body, wanted);
}

/* In pieces of that size. */
static void expect_answer(const struct answer *answer, size_t piece)
{
    struct sbx_reply_reader *reader = sbx_reply_reader_new(answer->no_body);
    struct sbx_error error = {0};
    size_t length = strlen(answer->text);
    int r = 0;
    ck_assert_ptr_nonnull(reader);
    for (size_t at = 0; r == 0 && at < length; at += piece) {
        size_t used = 0;
        size_t size = length - at < piece ? length - at : piece;
        r = sbx_reply_reader_take(reader, answer->text + at, size, &used, &error);
        ck_assert(r < 0 || used == size);
    }
    ck_assert_msg(r == answer->result, "%d instead of %d (%s) for\n%s", r, answer->result,
                  error.message, answer->text);
    ck_assert(r >= 0 || (error.code == -r && error.message[0] != '\0'));
    ck_assert(sbx_reply_reader_keeps(reader) == answer->keeps);
    if (answer->at_end != 0) {
        ck_assert_int_eq(sbx_reply_reader_end(reader, &error), answer->at_end);
    }
    if (answer->status != 0) {
        struct sbx_reply *reply = sbx_reply_reader_steal(reader);
        ck_assert_int_eq(sbx_reply_status(reply), answer->status);
        expect_body(reply, answer->body);
        sbx_reply_free(reply);
    }
    sbx_reply_reader_free(reader);
}

START_TEST(answers_are_read_strictly)
{
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        expect_answer(&answers[i], SIZE_MAX / 2);
        for (size_t piece = 1; piece < 30; piece++) {
            expect_answer(&answers[i], piece);
        }
    }
}
END_TEST

START_TEST(headers_are_found_whatever_their_case)
{
    static const char text[] = OK_LINE "X-Sbx-Offset: \t 12 \r\nX-SBX-EOF:\r\n"
                                       "Content-Length: 3\r\nX-Sbx-Offset: 13\r\n\r\n"
                                       "a\0bHTTP";
    struct sbx_reply_reader *reader = sbx_reply_reader_new(false);
    size_t used = 0;
    size_t length = 0;
    ck_assert_int_eq(sbx_reply_reader_take(reader, text, sizeof text - 1, &used, NULL),
                     1);
    ck_assert_uint_eq(used, sizeof text - 1 - 4); /* what follows is none of it */
    struct sbx_reply *reply = sbx_reply_reader_steal(reader);
    ck_assert_str_eq(sbx_reply_header(reply, "x-sbx-offset"), "12");
    ck_assert_str_eq(sbx_reply_header(reply, "X-Sbx-Eof"), "");
    ck_assert_ptr_null(sbx_reply_header(reply, "X-Sbx"));
    ck_assert_ptr_null(sbx_reply_header(reply, "12"));
    ck_assert_mem_eq(sbx_reply_body(reply, &length), "a\0b\0", 4);
    ck_assert_uint_eq(length, 3);
    sbx_reply_free(reply);
    sbx_reply_free(NULL);
    sbx_reply_reader_free(reader);
    sbx_reply_reader_free(NULL);
}
END_TEST

/* Feeds `text` again and again until the reader refuses it. Returns how, and after how
 * many bytes. */
static int feed_endlessly(const char *first, const char *text, size_t *ret_bytes)
{
    struct sbx_reply_reader *reader = sbx_reply_reader_new(false);
    size_t used = 0;
    size_t bytes = strlen(first);
    int r = sbx_reply_reader_take(reader, first, bytes, &used, NULL);
    while (r == 0 && bytes < 3 * SBX_REPLY_BODY_MAX) {
        r = sbx_reply_reader_take(reader, text, strlen(text), &used, NULL);
        bytes += strlen(text);
    }
    sbx_reply_reader_free(reader);
    *ret_bytes = bytes;
    return r;
}

START_TEST(what_has_no_end_is_bounded)
{
    static char block[64 * 1024];
    size_t bytes = 0;
    memset(block, 'x', sizeof block - 1);
    ck_assert_int_eq(feed_endlessly("HTTP/1.1 200 ", "OK", &bytes), -EPROTO);
    ck_assert_uint_le(bytes, SBX_REPLY_HEAD_MAX + 2);
    ck_assert_int_eq(feed_endlessly(OK_LINE, "A: b\r\n", &bytes), -EPROTO);
    ck_assert_uint_le(bytes, SBX_REPLY_HEAD_MAX + 8);
    ck_assert_int_eq(feed_endlessly("", "HTTP/1.1 100 \r\n\r\n", &bytes), -EPROTO);
    ck_assert_uint_le(bytes, SBX_REPLY_HEAD_MAX + 32);
    ck_assert_int_eq(feed_endlessly(CHUNKED "0\r\n", "A: b\r\n", &bytes), -EPROTO);
    ck_assert_uint_le(bytes, SBX_REPLY_HEAD_MAX + 128);
    ck_assert_int_eq(feed_endlessly(CHUNKED, "0", &bytes), -EPROTO);
    ck_assert_uint_le(bytes, 1024);
    ck_assert_int_eq(feed_endlessly(OK_LINE "\r\n", block, &bytes), -EMSGSIZE);
    ck_assert_uint_le(bytes, SBX_REPLY_BODY_MAX + 2 * sizeof block);
    ck_assert_int_eq(feed_endlessly(CHUNKED, "10\r\n0123456789abcdef\r\n", &bytes),
                     -EMSGSIZE);
}
END_TEST

/* --- servers --- */

struct server {
    pid_t pid;
    int listener; /* in the server */
    char path[SBX_FIXTURE_PATH_SIZE];
};

typedef void behaviour(int listener);

static int listen_at(const char *path, int backlog)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    ck_assert_uint_lt(strlen(path), sizeof address.sun_path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(fd, backlog), 0);
    return fd;
}

static void start_server(struct server *server, behaviour *behave)
{
    sbx_fixture_path(server->path, "socket");
    int listener = listen_at(server->path, 16);
    server->pid = fork();
    ck_assert_int_ge(server->pid, 0);
    if (server->pid == 0) {
        (void)signal(SIGPIPE, SIG_IGN);
        (void)alarm(60);
        behave(listener);
        _exit(0);
    }
    ck_assert_int_eq(close(listener), 0);
}

static void stop_server(struct server *server)
{
    ck_assert_int_eq(kill(server->pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(server->pid, NULL, 0), server->pid);
}

/* Reads a request: its head, and so much of its body as the head tells. The head is in
 * `head`. False: there is none any more. */
static bool read_request(int fd, char *head, size_t size)
{
    size_t length = 0;
    char *end = NULL;
    while (end == NULL) {
        ssize_t r = recv(fd, head + length, size - 1 - length, 0);
        if (r <= 0) {
            return false;
        }
        length += (size_t)r;
        head[length] = '\0';
        end = strstr(head, "\r\n\r\n");
    }
    const char *told = strstr(head, "Content-Length: ");
    size_t body = told != NULL ? strtoul(told + 16, NULL, 10) : 0;
    size_t have = length - (size_t)(end + 4 - head);
    while (have < body) {
        static char rest[64 * 1024];
        ssize_t r = recv(fd, rest, sizeof rest, 0);
        if (r <= 0) {
            return false;
        }
        have += (size_t)r;
    }
    return true;
}

static void say(int fd, const char *text)
{
    if (send(fd, text, strlen(text), MSG_NOSIGNAL) < 0) {
        _exit(1);
    }
}

static int next_connection(int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) {
        _exit(1);
    }
    return fd;
}

/* Answers with the number of the connection, that of the request in it, and the head. */
static void echo(int fd, int connection, int request, const char *head)
{
    char body[8192];
    char answer[9000];
    (void)snprintf(body, sizeof body, "%d %d\n%s", connection, request, head);
    (void)snprintf(answer, sizeof answer, OK_LINE "Content-Length: %zu\r\n\r\n%s",
                   strlen(body), body);
    say(fd, answer);
}

static void serve_always(int listener)
{
    for (int connection = 1;; connection++) {
        int fd = next_connection(listener);
        char head[4096];
        for (int i = 1; read_request(fd, head, sizeof head); i++) {
            echo(fd, connection, i, head);
        }
        (void)close(fd);
    }
}

/* The file that says that a connection is closed. */
static const char *closed_mark(char path[static SBX_FIXTURE_PATH_SIZE], int connection)
{
    char name[32];
    (void)snprintf(name, sizeof name, "closed-%d", connection);
    return sbx_fixture_path(path, name);
}

/* Promises to keep the connection, and does not. */
static void serve_once_each(int listener)
{
    for (int connection = 1;; connection++) {
        char path[SBX_FIXTURE_PATH_SIZE];
        char head[4096];
        int fd = next_connection(listener);
        if (read_request(fd, head, sizeof head)) {
            echo(fd, connection, 1, head);
        }
        (void)close(fd);
        fd = open(closed_mark(path, connection), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        (void)!write(fd, "x", 1);
        (void)close(fd);
    }
}

/* The first request gets no answer. The second is to be the same one; after that it
 * echoes. */
static void serve_second(int listener)
{
    char first[4096];
    char second[4096];
    int fd = next_connection(listener);
    (void)read_request(fd, first, sizeof first);
    (void)close(fd);
    fd = next_connection(listener);
    if (read_request(fd, second, sizeof second)) {
        bool same = strcmp(first, second) == 0;
        say(fd, same ? "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"
                     : "HTTP/1.1 500 Other\r\nContent-Length: 0\r\n\r\n");
    }
    (void)close(fd);
    serve_always(listener);
}

/* The second request of the first connection gets no answer. */
static void serve_one_and_leave(int listener)
{
    char head[4096];
    int fd = next_connection(listener);
    if (read_request(fd, head, sizeof head)) {
        echo(fd, 1, 1, head);
    }
    (void)read_request(fd, head, sizeof head);
    (void)close(fd);
    serve_always(listener);
}

static void serve_nothing(int listener)
{
    (void)next_connection(listener);
    (void)pause();
}

/* A byte now and then, for ever. */
static void serve_drops(int listener)
{
    int fd = next_connection(listener);
    say(fd, OK_LINE "Content-Length: 100000\r\n\r\n");
    for (;;) {
        (void)poll(NULL, 0, 5);
        say(fd, "x");
    }
}

/* Has an answer before the body has come, and does not read that. */
static void serve_refusal(int listener)
{
    char head[1024];
    int fd = next_connection(listener);
    if (recv(fd, head, sizeof head, 0) > 0) {
        say(fd, "HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\n\r\nno!\n");
    }
    (void)close(fd);
    serve_always(listener);
}

/* More than was asked for: must not become the answer to the next question. */
static void serve_too_much(int listener)
{
    char head[4096];
    int fd = next_connection(listener);
    if (read_request(fd, head, sizeof head)) {
        say(fd,
            OK_LINE "Content-Length: 2\r\n\r\nhi" OK_LINE "Content-Length: 3\r\n\r\nbad");
    }
    serve_always(listener);
}

static void serve_large(int listener)
{
    static char block[LARGE];
    char head[4096];
    char line[128];
    memset(block, 'y', sizeof block);
    int fd = next_connection(listener);
    while (read_request(fd, head, sizeof head)) {
        (void)snprintf(line, sizeof line, OK_LINE "Content-Length: %zu\r\n\r\n",
                       sizeof block);
        say(fd, line);
        if (sbx_fd_write_all(fd, block, sizeof block) < 0) {
            _exit(1);
        }
    }
}

/* --- calls --- */

static struct sbx_reply *ask(struct sbx_client *client, const char *method,
                             const char *path, const char *body)
{
    struct sbx_error error = {0};
    struct sbx_reply *reply = NULL;
    const struct sbx_call call = {.method = method,
                                  .path = path,
                                  .body = body,
                                  .length = body != NULL ? strlen(body) : 0,
                                  .timeout_us = PATIENCE_US};
    int r = sbx_client_call(client, &call, &reply, &error);
    ck_assert_msg(r == 0, "%s %s: %d, %s", method, path, r, error.message);
    return reply;
}

/* Connection and request as the server has counted them, and the head as it came. */
static void expect_echo(struct sbx_client *client, const char *method, const char *body,
                        const char *wanted)
{
    struct sbx_reply *reply = ask(client, method, "/v1/x?after=3", body);
    ck_assert_int_eq(sbx_reply_status(reply), 200);
    const char *got = sbx_reply_body(reply, NULL);
    ck_assert_msg(strncmp(got, wanted, strlen(wanted)) == 0, "%s\nwanted:\n%s", got,
                  wanted);
    sbx_reply_free(reply);
}

static int ask_in_vain(struct sbx_client *client, const char *method, const char *path,
                       uint64_t timeout_us, struct sbx_error *ret_error)
{
    struct sbx_reply *reply = NULL;
    const struct sbx_call call = {
        .method = method, .path = path, .timeout_us = timeout_us};
    int r = sbx_client_call(client, &call, &reply, ret_error);
    ck_assert_ptr_null(reply);
    ck_assert_int_eq(ret_error->code, -r);
    return r;
}

START_TEST(one_connection_serves_many_requests)
{
    struct server server;
    start_server(&server, serve_always);
    struct sbx_client *client = sbx_client_new(server.path);
    ck_assert_str_eq(sbx_client_socket(client), server.path);
    expect_echo(client, "GET", NULL,
                "1 1\nGET /v1/x?after=3 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    expect_echo(client, "POST", "{}",
                "1 2\nPOST /v1/x?after=3 HTTP/1.1\r\nHost: localhost\r\n"
                "Content-Length: 2\r\n\r\n{}");
    expect_echo(client, "POST", NULL,
                "1 3\nPOST /v1/x?after=3 HTTP/1.1\r\nHost: localhost\r\n"
                "Content-Length: 0\r\n\r\n");
    expect_echo(client, "DELETE", NULL, "1 4\nDELETE ");
    sbx_client_free(client);
    stop_server(&server);
}
END_TEST

START_TEST(a_closed_connection_is_made_again)
{
    struct server server;
    start_server(&server, serve_once_each);
    struct sbx_client *client = sbx_client_new(server.path);
    for (int i = 1; i <= 4; i++) {
        char path[SBX_FIXTURE_PATH_SIZE];
        char wanted[16];
        (void)snprintf(wanted, sizeof wanted, "%d 1\n", i);
        expect_echo(client, i % 2 == 0 ? "POST" : "GET", i % 2 == 0 ? "x" : NULL, wanted);
        sbx_fixture_wait_file(closed_mark(path, i), 20);
    }
    sbx_client_free(client);
    stop_server(&server);
}
END_TEST

/* The server that counts would have two of them. */
START_TEST(no_request_is_sent_twice)
{
    struct server server;
    struct sbx_error error = {0};
    start_server(&server, serve_one_and_leave);
    struct sbx_client *client = sbx_client_new(server.path);
    expect_echo(client, "GET", NULL, "1 1\n");
    ck_assert_int_eq(ask_in_vain(client, "POST", "/v1/executions", PATIENCE_US, &error),
                     -EPIPE);
    ck_assert_str_eq(error.message, "the answer was cut off");
    expect_echo(client, "GET", NULL, "1 1\n"); /* the first of the next server */
    sbx_client_free(client);
    stop_server(&server);
}
END_TEST

static void expect_timeout(behaviour *behave)
{
    struct server server;
    struct sbx_error error = {0};
    start_server(&server, behave);
    struct sbx_client *client = sbx_client_new(server.path);
    uint64_t begun_us = sbx_clock_us();
    ck_assert_int_eq(ask_in_vain(client, "GET", "/", 150000, &error), -ETIMEDOUT);
    uint64_t took_us = sbx_clock_us() - begun_us;
    ck_assert_uint_ge(took_us, 150000);
    ck_assert_uint_lt(took_us, 10 * SBX_US_PER_S);
    ck_assert_str_eq(error.message, "no answer within 150 ms");
    sbx_client_free(client);
    stop_server(&server);
}

START_TEST(a_silent_service_costs_the_time_that_was_given)
{
    expect_timeout(serve_nothing);
}
END_TEST

START_TEST(a_slow_service_does_not_stretch_it)
{
    expect_timeout(serve_drops);
}
END_TEST

START_TEST(a_full_backlog_does_not_stretch_it)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    struct sbx_error error = {0};
    struct sbx_client *clients[4];
    int listener = listen_at(sbx_fixture_path(path, "socket"), 0);
    int late = 0;
    for (size_t i = 0; i < 4; i++) {
        clients[i] = sbx_client_new(path);
        ck_assert_int_eq(ask_in_vain(clients[i], "GET", "/", 50000, &error), -ETIMEDOUT);
        late++;
    }
    ck_assert_int_eq(late, 4);
    for (size_t i = 0; i < 4; i++) {
        sbx_client_free(clients[i]);
    }
    ck_assert_int_eq(close(listener), 0);
}
END_TEST

START_TEST(an_answer_before_the_request_is_whole_counts)
{
    struct server server;
    static char body[LARGE];
    memset(body, 'b', sizeof body - 1);
    start_server(&server, serve_refusal);
    struct sbx_client *client = sbx_client_new(server.path);
    struct sbx_reply *reply = ask(client, "POST", "/v1/x", body);
    ck_assert_int_eq(sbx_reply_status(reply), 413);
    expect_body(reply, "no!\n");
    sbx_reply_free(reply);
    expect_echo(client, "POST", body, "1 1\nPOST "); /* through another connection */
    sbx_client_free(client);
    stop_server(&server);
}
END_TEST

START_TEST(what_comes_behind_an_answer_is_dropped)
{
    struct server server;
    start_server(&server, serve_too_much);
    struct sbx_client *client = sbx_client_new(server.path);
    struct sbx_reply *reply = ask(client, "GET", "/", NULL);
    expect_body(reply, "hi");
    sbx_reply_free(reply);
    expect_echo(client, "GET", NULL, "1 1\n");
    sbx_client_free(client);
    stop_server(&server);
}
END_TEST

static void ignore(int signal_number)
{
    (void)signal_number;
}

/* Also while signals interrupt every call. */
START_TEST(large_answers_come_whole)
{
    struct server server;
    const struct sigaction action = {.sa_handler = ignore}; /* without SA_RESTART */
    const struct itimerval often = {.it_interval = {.tv_usec = 500},
                                    .it_value = {.tv_usec = 500}};
    const struct itimerval never = {.it_value = {.tv_sec = 0}};
    start_server(&server, serve_large);
    struct sbx_client *client = sbx_client_new(server.path);
    ck_assert_int_eq(sigaction(SIGALRM, &action, NULL), 0);
    ck_assert_int_eq(setitimer(ITIMER_REAL, &often, NULL), 0);
    for (int i = 0; i < 3; i++) {
        size_t length = 0;
        struct sbx_reply *reply = ask(client, "GET", "/", NULL);
        const char *body = sbx_reply_body(reply, &length);
        ck_assert_uint_eq(length, LARGE);
        ck_assert_uint_eq(strspn(body, "y"), LARGE);
        sbx_reply_free(reply);
    }
    ck_assert_int_eq(setitimer(ITIMER_REAL, &never, NULL), 0);
    sbx_client_free(client);
    stop_server(&server);
}
END_TEST

START_TEST(nobody_there_is_told)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char longer[200];
    struct sbx_error error = {0};
    sbx_fixture_path(path, "socket");
    struct sbx_client *client = sbx_client_new(path);
    ck_assert_int_eq(ask_in_vain(client, "GET", "/", 0, &error), -ENOENT);
    ck_assert_ptr_nonnull(strstr(error.message, path));
    ck_assert_ptr_nonnull(strstr(error.message, "is sbxd running?"));
    ck_assert_int_eq(close(listen_at(path, 1)), 0);
    ck_assert_int_eq(ask_in_vain(client, "GET", "/", 0, &error), -ECONNREFUSED);
    sbx_client_free(client);

    memset(longer, 'x', sizeof longer - 1);
    longer[0] = '/';
    longer[sizeof longer - 1] = '\0';
    client = sbx_client_new(longer);
    ck_assert_int_eq(ask_in_vain(client, "GET", "/", 0, &error), -ENAMETOOLONG);
    sbx_client_free(client);
    sbx_client_free(NULL);
}
END_TEST

START_TEST(requests_that_could_be_read_as_more_are_refused)
{
    static const struct {
        const char *method;
        const char *path;
    } wrong[] = {
        {"get", "/"}, {"", "/"},      {"GET /x", "/"},      {"GET", ""},
        {"GET", "x"}, {"GET", "/ x"}, {"GET", "/\r\nX: y"}, {"GET", "/\x7f"},
        {NULL, "/"},  {"GET", NULL},  {"GET", "/\xc3\xa4"}, {"GET\r\nX:", "/"},
    };
    struct sbx_error error = {0};
    struct sbx_client *client = sbx_client_new("/nonexistent/socket");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ck_assert_int_eq(ask_in_vain(client, wrong[i].method, wrong[i].path, 0, &error),
                         -EINVAL);
    }
    sbx_client_free(client);
}
END_TEST

/* Runs sbxctl with these arguments. Its exit status. */
static int run_sbxctl(const char *socket_path, const char *const *arguments)
{
    const char *argv[8] = {SBX_TEST_CTL, "--socket", socket_path};
    size_t count = 3;
    int status = 0;
    while (*arguments != NULL && count < 7) {
        argv[count++] = *arguments++;
    }
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void)execv(argv[0], (char *const *)(uintptr_t)argv);
        _exit(122);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* The id was made before the first time, so that the second finds what that has begun. */
START_TEST(sbxctl_asks_again_for_a_start_whose_answer_was_lost)
{
    static const char *const arguments[] = {"start", "true", NULL};
    struct server server;
    start_server(&server, serve_second);
    ck_assert_int_eq(run_sbxctl(server.path, arguments), 0);
    stop_server(&server);
}
END_TEST

/* What was lost may have been done: a second time it would be another signal. */
START_TEST(sbxctl_gives_an_order_once)
{
    static const char *const arguments[] = {"signal", "x", "TERM", NULL};
    struct server server;
    start_server(&server, serve_second);
    ck_assert_int_eq(run_sbxctl(server.path, arguments), SBX_STATUS_FAILED);
    struct sbx_client *client = sbx_client_new(server.path);
    struct sbx_reply *reply = ask(client, "GET", "/", NULL);
    ck_assert_int_eq(sbx_reply_status(reply), 500); /* ours is the second */
    sbx_reply_free(reply);
    sbx_client_free(client);
    stop_server(&server);
}
END_TEST

/* Where that is, socket_path.h says. */
START_TEST(the_socket_is_where_sbxd_of_this_user_has_it)
{
    char path[SBX_SOCKET_PATH_SIZE];
    char longer[200];
    struct sbx_error error = {0};
    ck_assert_int_eq(setenv("XDG_RUNTIME_DIR", "/run/user/x", 1), 0);
    ck_assert_int_eq(sbx_socket_default(path, sizeof path), 0);
    struct sbx_client *client = sbx_client_new(NULL);
    ck_assert_str_eq(sbx_client_socket(client), path);
    ck_assert_str_eq(path,
                     geteuid() == 0 ? "/run/sbx/sbxd.sock" : "/run/user/x/sbx/sbxd.sock");
    sbx_client_free(client);
    if (geteuid() == 0) {
        return; /* whatever the environment says */
    }
    memset(longer, 'x', sizeof longer - 1);
    longer[0] = '/';
    longer[sizeof longer - 1] = '\0';
    ck_assert_int_eq(setenv("XDG_RUNTIME_DIR", longer, 1), 0);
    client = sbx_client_new(NULL);
    ck_assert_int_eq(ask_in_vain(client, "GET", "/", 0, &error), -ENAMETOOLONG);
    sbx_client_free(client);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client");
    TCase *answers_case = sbx_fixture_case(suite, "answers", 60);
    tcase_add_test(answers_case, answers_are_read_strictly);
    tcase_add_test(answers_case, headers_are_found_whatever_their_case);
    tcase_add_test(answers_case, what_has_no_end_is_bounded);
    TCase *calls = sbx_fixture_case(suite, "calls", 60);
    tcase_add_test(calls, one_connection_serves_many_requests);
    tcase_add_test(calls, a_closed_connection_is_made_again);
    tcase_add_test(calls, no_request_is_sent_twice);
    tcase_add_test(calls, a_silent_service_costs_the_time_that_was_given);
    tcase_add_test(calls, a_slow_service_does_not_stretch_it);
    tcase_add_test(calls, a_full_backlog_does_not_stretch_it);
    tcase_add_test(calls, an_answer_before_the_request_is_whole_counts);
    tcase_add_test(calls, what_comes_behind_an_answer_is_dropped);
    tcase_add_test(calls, large_answers_come_whole);
    tcase_add_test(calls, nobody_there_is_told);
    tcase_add_test(calls, requests_that_could_be_read_as_more_are_refused);
    tcase_add_test(calls, sbxctl_asks_again_for_a_start_whose_answer_was_lost);
    tcase_add_test(calls, sbxctl_gives_an_order_once);
    tcase_add_test(calls, the_socket_is_where_sbxd_of_this_user_has_it);
    return sbx_fixture_run(suite);
}
