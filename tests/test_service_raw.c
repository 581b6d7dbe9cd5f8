/*
 * test_service_raw.c - the service under clients that do what they should not: bytes that
 * are no request, or half of one, or too many; that leave, or stay and do not read; that
 * come by the thousand, or are not to come at all. And the socket that it listens on.
 *
 * Deadlines are of the service itself, which counts them faster here.
 */
#include "tests/web_kit.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define IT "/v1/executions/it"
#define STATS "GET /v1/stats HTTP/1.1\r\nHost: sbx\r\n\r\n"
#define KIB 1024

static void must_serve(const struct web *web)
{
    json_decref(web_json(web, 200, "GET", "/v1/stats", NULL));
}

static void expect(int fd, int status)
{
    struct answer answer;
    web_read(fd, &answer, 20);
    ck_assert_msg(answer.status == status, "%d, not %d: %s", answer.status, status,
                  answer.body != NULL ? answer.body : "");
    answer_done(&answer);
}

/* --- bytes --- */

struct sending {
    const char *name;
    const char *bytes;
    int status;       /* of the answer; 0: none, it closes */
    const char *code; /* of the error in it; NULL: it is none */
    bool closes;
};

static const struct sending sendings[] = {
    {"garbage", "\x16\x03\x01\x02garbage\r\n\r\n", 400, "bad_request", true},
    {"no version", "GET /v1/stats\r\n\r\n", 400, "bad_request", true},
    {"version 2", "GET /v1/stats HTTP/2.0\r\n\r\n", 400, "bad_request", true},
    {"no colon", "GET /v1/stats HTTP/1.1\r\nHost\r\n\r\n", 400, "bad_request", true},
    {"length of letters", "POST /v1/executions HTTP/1.1\r\nContent-Length: x\r\n\r\n",
     400, "bad_request", true},
    {"negative length", "POST /v1/executions HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400,
     "bad_request", true},
    {"length too large",
     "POST /v1/executions HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", 413, "too_large",
     true},
    {"length beyond numbers",
     "POST /v1/executions HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", 413,
     "too_large", true},
    {"too large, but it asks",
     "POST /v1/executions HTTP/1.1\r\nExpect: 100-continue\r\n"
     "Content-Length: 99999999\r\n\r\n",
     413, "too_large", true},
    {"expects magic",
     "POST /v1/executions HTTP/1.1\r\nExpect: magic\r\nContent-Length: 2\r\n\r\n{}", 417,
     "bad_request", true},
    {"chunk too large",
     "POST /v1/executions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n7fffffff\r\n",
     413, "too_large", true},
    {"chunk of letters",
     "POST /v1/executions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 413,
     "too_large", true},
    {"coding that is unknown",
     "POST /v1/executions HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 400,
     "bad_request", true},
    {"chunked",
     "POST /v1/executions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
     "1\r\n{\r\n5\r\n\"a\":1\r\n1\r\n}\r\n0\r\n\r\n",
     400, "bad_request", false},
    {"HTTP/1.0", "GET /v1/stats HTTP/1.0\r\n\r\n", 200, NULL, true},
    {"HTTP/1.0 that is kept", "GET /v1/stats HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
     200, NULL, false},
    {"HTTP/1.1 that is not kept", "GET /v1/stats HTTP/1.1\r\nConnection: close\r\n\r\n",
     200, NULL, true},
    {"absolute", "GET http://sbx/v1/stats HTTP/1.1\r\nHost: sbx\r\n\r\n", 200, NULL,
     true},
    {"line feeds alone", "GET /v1/stats HTTP/1.1\nHost: sbx\n\n", 200, NULL, false},
    {"body where none belongs",
     "GET /v1/stats HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 200, NULL, false},
    {"connect", "CONNECT sbx:1 HTTP/1.1\r\n\r\n", 404, "not_found", false},
    {"everything", "OPTIONS * HTTP/1.1\r\n\r\n", 404, "not_found", true},
    {"method that a path has not",
     "DELETE /v1/stats HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 405, "bad_method",
     false},
    {"unknown method, unknown path", "BREW / HTTP/1.1\r\nContent-Length: 3\r\n\r\nGET",
     404, "not_found", true},
    {"unknown method", "BREW /v1/stats HTTP/1.1\r\nContent-Length: 3\r\n\r\nGET", 405,
     "bad_method", true},
};

static void check_error(const struct answer *answer, const char *code)
{
    json_t *value = json_loadb(answer->body, answer->length, 0, NULL);
    const json_t *error = json_object_get(value, "error");
    const char *found = json_string_value(json_object_get(error, "code"));
    ck_assert_msg(found != NULL && strcmp(found, code) == 0, "%s", answer->body);
    ck_assert_str_eq(answer_header(answer, "Content-Type"), "application/json");
    json_decref(value);
}

START_TEST(bytes)
{
    struct web web = {0};
    web_start(&web);
    for (size_t i = 0; i < LENGTH(sendings); i++) {
        const struct sending *sending = &sendings[i];
        struct answer answer;
        int fd = web_connect(&web);
        web_send(fd, sending->bytes, strlen(sending->bytes));
        web_read(fd, &answer, 20);
        ck_assert_msg(answer.status == sending->status, "%s: %d: %s", sending->name,
                      answer.status, answer.head);
        if (sending->code != NULL) {
            check_error(&answer, sending->code);
        }
        answer_done(&answer);
        if (sending->closes) {
            web_wait_closed(fd, 20);
        } else {
            web_send(fd, STATS, strlen(STATS));
            expect(fd, 200);
        }
        (void)close(fd);
        must_serve(&web);
    }
    web_stop(&web);
}
END_TEST

START_TEST(heads)
{
    struct web web = {0};
    struct answer answer;
    char *large = malloc(20 * KIB + 1);
    ck_assert_ptr_nonnull(large);
    memset(large, 'x', 20 * KIB);
    large[20 * KIB] = '\0';
    web_start(&web);
    int fd = web_connect(&web);
    web_print(fd, "GET /v1/stats HTTP/1.1\r\nX-Large: %s\r\n\r\n", large);
    web_read(fd, &answer, 20);
    ck_assert_int_eq(answer.status, 400);
    check_error(&answer, "bad_request");
    answer_done(&answer);
    web_wait_closed(fd, 20);
    (void)close(fd);
    /* A first line without an end. */
    fd = web_connect(&web);
    web_push(fd, large, 20 * KIB);
    expect(fd, 400);
    (void)close(fd);
    /* No body in the answer to HEAD. */
    fd = web_connect(&web);
    web_request(fd, "HEAD", "/v1/stats", NULL);
    web_read_head(fd, &answer, 20);
    ck_assert_int_eq(answer.status, 405);
    ck_assert_str_eq(answer_header(&answer, "Allow"), "GET");
    answer_done(&answer);
    char more;
    ck_assert_int_eq(recv(fd, &more, 1, 0), 0);
    (void)close(fd);
    free(large);
    web_stop(&web);
}
END_TEST

/* A body right below the bound is taken, piece by piece, and one above it is not. */
START_TEST(bodies)
{
    enum { MOST = 2 * KIB * KIB, PIECE = 10000 };
    struct web web = {0};
    char *body = malloc(MOST);
    ck_assert_ptr_nonnull(body);
    memset(body, ' ', MOST);
    web_start(&web);
    int fd = web_connect(&web);
    web_print(fd, "POST /v1/executions HTTP/1.1\r\nContent-Length: %d\r\n\r\n", MOST);
    for (size_t done = 0; done < MOST; done += PIECE) {
        web_send(fd, body + done, MOST - done < PIECE ? MOST - done : PIECE);
    }
    expect(fd, 400); /* blanks are no JSON */
    web_print(fd, "POST /v1/executions HTTP/1.1\r\nExpect: 100-continue\r\n"
                  "Content-Length: 2\r\n\r\n");
    struct answer answer;
    web_read_head(fd, &answer, 20);
    ck_assert_int_eq(answer.status, 100);
    answer_done(&answer);
    web_send(fd, "{}", 2);
    expect(fd, 400);
    web_print(fd, "POST /v1/executions HTTP/1.1\r\nContent-Length: %d\r\n\r\n", MOST + 1);
    expect(fd, 413);
    (void)close(fd);
    free(body);
    web_stop(&web);
}
END_TEST

START_TEST(pipelined)
{
    struct web web = {0};
    web_start(&web);
    web_execute(&web, "it", "exec sleep 1000", "");
    int fd = web_connect(&web);
    for (int i = 0; i < 50; i++) {
        web_send(fd, STATS, strlen(STATS));
    }
    for (int i = 0; i < 50; i++) {
        expect(fd, 200);
    }
    /* Behind one that waits, and in pieces: their turn comes after it. */
    web_request(fd, "GET", IT "/stdout?wait=300ms", NULL);
    web_wait_stat(&web, "waiters_count", 1, 10);
    for (size_t i = 0; i < strlen(STATS); i++) {
        web_send(fd, &STATS[i], 1);
    }
    web_send(fd, STATS, strlen(STATS));
    expect(fd, 200);
    expect(fd, 200);
    expect(fd, 200);
    (void)close(fd);
    web_stop(&web);
}
END_TEST

/* Junk without an end behind a call that waits is not kept. */
START_TEST(flooded)
{
    enum { PIECE = 64 * KIB };
    struct web web = {.hurry = 40};
    char *junk = calloc(1, PIECE);
    ck_assert_ptr_nonnull(junk);
    web_start(&web);
    web_execute(&web, "it", "exec sleep 1000", "");
    int fd = web_connect(&web);
    web_request(fd, "GET", IT "/stdout?wait=60s", NULL);
    ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    size_t taken = 0;
    struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};
    while (poll(&poll_fd, 1, 200) == 1 && (poll_fd.revents & POLLERR) == 0) {
        ssize_t sent = send(fd, junk, PIECE, MSG_NOSIGNAL);
        if (sent <= 0 && errno != EAGAIN) {
            break;
        }
        taken += sent > 0 ? (size_t)sent : 0;
        ck_assert_uint_lt(taken, 4 * KIB * KIB);
    }
    (void)close(fd);
    free(junk);
    web_wait_stat(&web, "waiters_count", 0, 20);
    web_stop(&web);
}
END_TEST

/* --- clients that leave, or do not --- */

START_TEST(leaving)
{
    static const char *const paths[] = {IT "/events?after=1&wait=60s",
                                        IT "/stdout?wait=60s", IT "/stderr?wait=60s"};
    struct web web = {0};
    int fds[LENGTH(paths)];
    web_start(&web);
    web_execute(&web, "it", "exec sleep 1000", "");
    json_decref(web_json(&web, 200, "GET", IT "/events?after=0&wait=30s", NULL));
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < LENGTH(paths); i++) {
            fds[i] = web_connect(&web);
            web_request(fds[i], "GET", paths[i], NULL);
        }
        web_wait_stat(&web, "waiters_count", LENGTH(paths), 20);
        for (size_t i = 0; i < LENGTH(paths); i++) {
            (void)close(fds[i]);
        }
        web_wait_stat(&web, "waiters_count", 0, 20);
    }
    /* What was asked for is done all the same. */
    int fd = web_connect(&web);
    web_request(fd, "DELETE", IT "?wait=60s", NULL);
    (void)close(fd);
    web_wait_stat(&web, "active_count", 0, 20);
    web_wait_stat(&web, "waiters_count", 0, 20);
    web_stop(&web);
}
END_TEST

/* One that has closed its own direction gets all of its answer, which is more than goes
 * into a socket at once. */
START_TEST(half_closed)
{
    struct web web = {0};
    struct answer answer;
    web_start(&web);
    web_execute(&web, "it", "head -c 1000000 /dev/zero", "\"output_limit\":\"1M\"");
    ck_assert_str_eq(web_settled(&web, "it"), "completed");
    for (int i = 0; i < 20; i++) {
        int fd = web_connect(&web);
        web_request(fd, "GET", IT "/stdout", NULL);
        ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
        web_read(fd, &answer, 20);
        ck_assert_int_eq(answer.status, 200);
        ck_assert_uint_eq(answer.length, 256 * KIB);
        answer_done(&answer);
        web_wait_closed(fd, 20);
        (void)close(fd);
    }
    web_stop(&web);
}
END_TEST

/* As many as a limit of descriptors lets this process and the service have. */
START_TEST(thousand)
{
    enum { COUNT = 1000 };
    struct web web = {0};
    struct rlimit limit;
    static int fds[COUNT];
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    int count = limit.rlim_cur > 2 * COUNT + 100 ? COUNT : (int)limit.rlim_cur / 4;
    web_start(&web);
    web_execute(&web, "it", "cat", "\"stdin\":\"open\"");
    json_decref(web_json(&web, 200, "GET", IT "/events?after=0&wait=30s", NULL));
    for (int i = 0; i < count; i++) {
        fds[i] = web_connect(&web);
        web_request(fds[i], "GET",
                    i % 2 == 0 ? IT "/events?after=1&wait=60s" : IT "/stdout?wait=60s",
                    NULL);
    }
    web_wait_stat(&web, "waiters_count", count, 30);
    /* Half of them leave, and the others all hear of the news. */
    for (int i = 0; i < count; i += 4) {
        (void)close(fds[i]);
        (void)close(fds[i + 1]);
    }
    web_wait_stat(&web, "waiters_count", count / 2, 30);
    ck_assert_ptr_null(web_json(&web, 204, "POST", IT "/stdin", "news"));
    for (int i = 2; i < count; i += 4) {
        for (int k = i; k < i + 2; k++) {
            struct answer answer;
            web_read(fds[k], &answer, 30);
            ck_assert_int_eq(answer.status, 200);
            ck_assert_ptr_nonnull(strstr(answer.body, "news"));
            answer_done(&answer);
            (void)close(fds[k]);
        }
    }
    web_wait_stat(&web, "waiters_count", 0, 30);
    web_stop(&web);
}
END_TEST

/* --- deadlines --- */

START_TEST(too_slow)
{
    struct web web = {.hurry = 40};
    web_start(&web);
    uint64_t begin = sbx_clock_us();
    int idle = web_connect(&web);
    int half = web_connect(&web);
    int half_body = web_connect(&web);
    web_print(half, "GET /v1/st");
    web_print(half_body, "POST /v1/executions HTTP/1.1\r\nContent-Length: 10\r\n\r\n{");
    web_wait_closed(half, 20);
    web_wait_closed(half_body, 20);
    web_wait_closed(idle, 20);
    ck_assert_uint_ge(sbx_clock_us() - begin, 60 * SBX_US_PER_S / 40);
    /* Byte by byte does not help. */
    int drip = web_connect(&web);
    for (int i = 0; i < 1000; i++) {
        struct pollfd poll_fd = {.fd = drip, .events = POLLIN};
        if (send(drip, "x", 1, MSG_NOSIGNAL) < 0 || poll(&poll_fd, 1, 10) != 0) {
            break;
        }
        ck_assert_int_lt(i, 999);
    }
    (void)close(idle);
    (void)close(half);
    (void)close(half_body);
    (void)close(drip);
    web_stop(&web);
}
END_TEST

/* Who does not read what it asked for is given up, and nobody else waits for that. */
START_TEST(does_not_read)
{
    enum { READERS = 20 };
    struct web web = {.hurry = 40};
    int fds[READERS];
    web_start(&web);
    web_execute(&web, "it", "head -c 2000000 /dev/zero", "\"output_limit\":\"2M\"");
    ck_assert_str_eq(web_settled(&web, "it"), "completed");
    for (int i = 0; i < READERS; i++) {
        fds[i] = web_connect(&web);
        for (int k = 0; k < 10; k++) {
            web_request(fds[i], "GET", IT "/stdout", NULL);
        }
    }
    must_serve(&web);
    struct answer answer;
    for (;;) {
        web_ask(&web, 200, "GET", "/metrics", NULL, &answer);
        bool alone = strstr(answer.body, "\nsbx_connections 1\n") != NULL;
        answer_done(&answer);
        if (alone) {
            break;
        }
    }
    for (int i = 0; i < READERS; i++) {
        (void)close(fds[i]);
    }
    web_stop(&web);
}
END_TEST

/* What nobody takes has a bound for all of them together. Small answers come beyond it,
 * and large ones once there is room again. */
START_TEST(held_up)
{
    enum { READERS = 300 }; /* of 256 KiB each */
    struct web web = {0};
    struct answer answer;
    static int fds[READERS];
    const uint64_t end = sbx_clock_us() + 40 * SBX_US_PER_S;
    web_start(&web);
    web_execute(&web, "it", "head -c 1000000 /dev/zero", "\"output_limit\":\"1M\"");
    ck_assert_str_eq(web_settled(&web, "it"), "completed");
    for (int i = 0; i < READERS; i++) {
        fds[i] = web_connect(&web);
        web_request(fds[i], "GET", IT "/stdout", NULL);
    }
    bool busy = true;
    for (int step = 0; step < 2; step++) {
        int status;
        do {
            int fd = web_connect(&web);
            web_request(fd, "GET", IT "/stdout", NULL);
            web_read(fd, &answer, 20);
            status = answer.status;
            ck_assert(status == 200 || strstr(answer.body, "\"busy\"") != NULL);
            answer_done(&answer);
            (void)close(fd);
            ck_assert_uint_lt(sbx_clock_us(), end);
        } while (status != (busy ? 503 : 200));
        must_serve(&web);
        for (int i = 0; busy && i < READERS; i++) {
            (void)close(fds[i]);
        }
        busy = false;
    }
    web_stop(&web);
}
END_TEST

/* --- who --- */

/* In a process of another user: 0, or the status that was not expected. */
static void as_user(const struct web *web, uid_t uid, int status, const char *path)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct answer answer;
        if (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0) {
            _exit(1);
        }
        int fd = web_connect(web);
        web_request(fd, "GET", path, NULL);
        web_read(fd, &answer, 20);
        _exit(answer.status == status ? 0 : 1);
    }
    int ended = 0;
    ck_assert_int_eq(waitpid(pid, &ended, 0), pid);
    ck_assert_msg(WIFEXITED(ended) && WEXITSTATUS(ended) == 0, "uid %u, %s: not %d",
                  (unsigned)uid, path, status);
}

START_TEST(strangers)
{
    static const char *const options[] = {"allow-uid", "12345", NULL};
    struct web web = {.options = options};
    struct stat status;
    if (geteuid() != 0) {
        return; /* no other user can be had */
    }
    web_start(&web);
    ck_assert_int_eq(stat(web.socket, &status), 0);
    ck_assert_uint_eq(status.st_mode & 0777, 0666);
    web_execute(&web, "it", "exec sleep 1000", "");
    as_user(&web, 12345, 200, "/v1/stats");
    as_user(&web, 12345, 404, IT); /* which is root's */
    as_user(&web, 12346, 403, "/v1/stats");
    as_user(&web, 12346, 403, "/nothing");
    web_stop(&web);
}
END_TEST

/* --- the socket --- */

START_TEST(one_service)
{
    struct web web = {0};
    struct web other;
    char message[512];
    struct stat status;
    web_start(&web);
    ck_assert_int_eq(stat(web.socket, &status), 0);
    ck_assert_uint_eq(status.st_mode & 0777, 0600);
    other = web;
    ck_assert_int_eq(web_try(&other, message), -EBUSY); /* of the state directory */
    must_serve(&web);
    /* Killed, it leaves the socket; the next one takes its place. */
    ck_assert_int_eq(kill(web.pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(web.pid, NULL, 0), web.pid);
    ck_assert_int_eq(access(web.socket, F_OK), 0);
    web_start(&web);
    must_serve(&web);
    web_terminate(&web);
    ck_assert_int_ne(access(web.socket, F_OK), 0);
}
END_TEST

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(fd, 5), 0);
    return fd;
}

START_TEST(taken_places)
{
    struct web web = {0};
    char message[512];
    (void)sbx_fixture_path(web.socket, "sock");
    /* Somebody else's that answers. */
    int fd = listen_at(web.socket);
    ck_assert_int_eq(web_try(&web, message), -EADDRINUSE);
    (void)close(fd);
    ck_assert_int_eq(unlink(web.socket), 0);
    /* What is no socket. */
    fd = open(web.socket, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    (void)close(fd);
    ck_assert_int_eq(web_try(&web, message), -EEXIST);
    ck_assert_int_eq(access(web.socket, F_OK), 0);
    ck_assert_int_eq(unlink(web.socket), 0);
    ck_assert_int_eq(symlink("/nowhere", web.socket), 0);
    ck_assert_int_eq(web_try(&web, message), -EEXIST);
    ck_assert_int_eq(unlink(web.socket), 0);
    /* A directory is made, but not two. */
    (void)sbx_fixture_path(web.socket, "one/two/sock");
    ck_assert_int_eq(web_try(&web, message), -ENOENT);
    (void)sbx_fixture_path(web.socket, "one/sock");
    web_start(&web);
    struct stat status;
    char path[SBX_FIXTURE_PATH_SIZE];
    ck_assert_int_eq(stat(sbx_fixture_path(path, "one"), &status), 0);
    ck_assert_uint_eq(status.st_mode & 0777, 0700);
    web_terminate(&web);
    /* Longer than an address is. */
    memset(web.socket, 0, sizeof web.socket);
    memset(web.socket, 'x', 200);
    web.socket[0] = '/';
    ck_assert_int_eq(web_try(&web, message), -ENAMETOOLONG);
    ck_assert_ptr_nonnull(strstr(message, "too long"));
}
END_TEST

START_TEST(passed)
{
    struct web web = {0};
    char message[512];
    struct stat status;
    (void)sbx_fixture_path(web.socket, "sock");
    int fd = listen_at(web.socket);
    web.passed = fd;
    web_start(&web);
    must_serve(&web);
    web_terminate(&web);
    ck_assert_int_eq(stat(web.socket, &status), 0); /* it is not ours to remove */
    (void)close(fd);
    /* What is no such socket is refused, and not looked for elsewhere. */
    web.passed = open("/dev/null", O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(web_try(&web, message), -EINVAL);
    (void)close(web.passed);
}
END_TEST

/* --- descriptors --- */

START_TEST(few_descriptors)
{
    enum { COUNT = 100 };
    struct web web = {.descriptors = 60};
    int fds[COUNT];
    web_start(&web);
    for (int i = 0; i < COUNT; i++) {
        fds[i] = web_connect(&web);
    }
    /* Half of them are for clients. Those that were accepted are served; the others wait
     * until there is room. */
    struct answer answer;
    web_request(fds[0], "GET", "/metrics", NULL);
    web_read(fds[0], &answer, 20);
    ck_assert_ptr_nonnull(strstr(answer.body, "\nsbx_connections 30\n"));
    answer_done(&answer);
    for (int i = 0; i < COUNT; i++) {
        web_send(fds[i], STATS, strlen(STATS));
        expect(fds[i], 200);
        (void)close(fds[i]);
    }
    web_stop(&web);
}
END_TEST

static uint64_t cpu_us(pid_t pid)
{
    clockid_t clock;
    struct timespec time;
    ck_assert_int_eq(clock_getcpuclockid(pid, &clock), 0);
    ck_assert_int_eq(clock_gettime(clock, &time), 0);
    return (uint64_t)time.tv_sec * SBX_US_PER_S + (uint64_t)time.tv_nsec / 1000;
}

/* When none is left, accept fails at once, and again: that must not be all it does. */
START_TEST(no_descriptors)
{
    enum { COUNT = 50, LOOK_MS = 400 };
    struct web web = {.descriptors_later = 40};
    int fds[COUNT];
    web_start(&web);
    for (int i = 0; i < COUNT; i++) {
        fds[i] = web_connect(&web);
    }
    web_send(fds[0], STATS, strlen(STATS));
    expect(fds[0], 200);
    web_send(fds[COUNT - 1], STATS, strlen(STATS));
    uint64_t before = cpu_us(web.pid);
    struct pollfd poll_fd = {.fd = fds[COUNT - 1], .events = POLLIN};
    ck_assert_int_eq(poll(&poll_fd, 1, LOOK_MS), 0);
    ck_assert_uint_lt(cpu_us(web.pid) - before, LOOK_MS * 1000 / 4);
    for (int i = 0; i < COUNT - 1; i++) {
        (void)close(fds[i]);
    }
    expect(fds[COUNT - 1], 200);
    (void)close(fds[COUNT - 1]);
    web_stop(&web);
}
END_TEST

int main(int argc, char *argv[])
{
    web_main(argc, argv);
    (void)signal(SIGPIPE, SIG_IGN);
    Suite *suite = suite_create("service_raw");
    TCase *sent = sbx_fixture_case(suite, "bytes", 60);
    tcase_add_test(sent, bytes);
    tcase_add_test(sent, heads);
    tcase_add_test(sent, bodies);
    tcase_add_test(sent, pipelined);
    tcase_add_test(sent, flooded);
    TCase *clients = sbx_fixture_case(suite, "clients", 90);
    tcase_add_test(clients, leaving);
    tcase_add_test(clients, half_closed);
    tcase_add_test(clients, thousand);
    tcase_add_test(clients, too_slow);
    tcase_add_test(clients, does_not_read);
    tcase_add_test(clients, held_up);
    tcase_add_test(clients, strangers);
    TCase *places = sbx_fixture_case(suite, "socket", 60);
    tcase_add_test(places, one_service);
    tcase_add_test(places, taken_places);
    tcase_add_test(places, passed);
    tcase_add_test(places, few_descriptors);
    tcase_add_test(places, no_descriptors);
    return sbx_fixture_run(suite);
}
