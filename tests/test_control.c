/*
 * test_control.c - records between sbxd and a keeper, from somebody who may be neither:
 * what is no record is refused, and no descriptor that comes along is left open. (The
 * fixture counts them around each test.)
 */
#include "supervisor/control.h"

#include "base/fd.h"
#include "tests/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD_SIZE offsetof(struct sbx_control, data)
#define FDS_MAX 3

static void open_pair(int ends[2])
{
    ck_assert_int_eq(
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
}

/* `count` copies of one descriptor go along. */
static void send_with(int socket, const void *data, size_t size, size_t count)
{
    char room[CMSG_SPACE(FDS_MAX * sizeof(int))] = {0};
    int fds[FDS_MAX] = {STDERR_FILENO, STDERR_FILENO, STDERR_FILENO};
    struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        header.msg_control = room;
        header.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *extra = CMSG_FIRSTHDR(&header);
        ck_assert_ptr_nonnull(extra);
        extra->cmsg_level = SOL_SOCKET;
        extra->cmsg_type = SCM_RIGHTS;
        extra->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(extra), fds, count * sizeof(int));
    }
    ck_assert_int_eq(sendmsg(socket, &header, MSG_NOSIGNAL), (ssize_t)size);
}

static const struct {
    size_t fds;
    bool asked;
    bool received;
} passed[] = {{0, true, false},  {1, true, true},   {2, true, true},   {3, true, true},
              {0, false, false}, {1, false, false}, {2, false, false}, {3, false, false}};

START_TEST(at_most_one_descriptor_is_received)
{
    struct sbx_control message = {.kind = SBX_CONTROL_STDIN, .ticket = 7};
    struct sbx_control taken;
    int ends[2];
    int fd = -1;
    open_pair(ends);
    send_with(ends[0], &message, HEAD_SIZE, passed[_i].fds);
    ck_assert_int_eq(sbx_control_receive(ends[1], &taken, passed[_i].asked ? &fd : NULL),
                     1);
    ck_assert_uint_eq(taken.ticket, 7);
    ck_assert_int_eq(fd >= 0, passed[_i].received);
    sbx_fd_drop(&fd);
    sbx_fd_drop(&ends[0]);
    sbx_fd_drop(&ends[1]);
}
END_TEST

static const struct {
    size_t size;
    uint32_t length;
} broken[] = {{1, 0},
              {HEAD_SIZE - 1, 0},
              {HEAD_SIZE, 1},
              {HEAD_SIZE + 1, 0},
              {HEAD_SIZE + 2, 1},
              {HEAD_SIZE, UINT32_MAX},
              {HEAD_SIZE + SBX_CONTROL_DATA_MAX, SBX_CONTROL_DATA_MAX + 1},
              {HEAD_SIZE + SBX_CONTROL_DATA_MAX + 1, SBX_CONTROL_DATA_MAX}};

START_TEST(what_is_no_record_is_refused)
{
    static union {
        struct sbx_control message;
        char bytes[sizeof(struct sbx_control) + 64];
    } text;
    struct sbx_control taken;
    int ends[2];
    int fd = -1;
    open_pair(ends);
    text.message.length = broken[_i].length;
    send_with(ends[0], text.bytes, broken[_i].size, 1);
    ck_assert_int_eq(sbx_control_receive(ends[1], &taken, &fd), -EBADMSG);
    ck_assert_int_eq(fd, -1);
    sbx_fd_drop(&ends[0]);
    ck_assert_int_eq(sbx_control_receive(ends[1], &taken, &fd), -EPIPE);
    sbx_fd_drop(&ends[1]);
}
END_TEST

/* A keeper that has said its last word while an order was on its way. */
START_TEST(a_last_word_is_heard_behind_an_order_too_late)
{
    const struct sbx_control order = {.kind = SBX_CONTROL_STDIN};
    const struct sbx_control last = {.kind = SBX_CONTROL_FINISHED};
    struct sbx_control taken;
    int ends[2];
    open_pair(ends);
    ck_assert_int_eq(sbx_control_send(ends[0], &last, -1), 0);
    ck_assert_int_eq(sbx_control_send(ends[1], &order, -1), 0);
    sbx_fd_drop(&ends[0]);
    ck_assert_int_eq(sbx_control_receive(ends[1], &taken, NULL), 1);
    ck_assert_uint_eq(taken.kind, SBX_CONTROL_FINISHED);
    ck_assert_int_eq(sbx_control_receive(ends[1], &taken, NULL), -EPIPE);
    sbx_fd_drop(&ends[1]);
}
END_TEST

START_TEST(a_record_comes_as_it_was_sent)
{
    static struct sbx_control message = {.kind = SBX_CONTROL_STDIN,
                                         .length = SBX_CONTROL_DATA_MAX};
    static struct sbx_control taken;
    int ends[2];
    int fd = -1;
    memset(message.data, 'x', sizeof message.data);
    open_pair(ends);
    ck_assert_int_eq(sbx_control_receive(ends[1], &taken, &fd), 0);
    ck_assert_int_eq(sbx_control_send(ends[0], &message, STDERR_FILENO), 0);
    ck_assert_int_eq(sbx_control_receive(ends[1], &taken, &fd), 1);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
    ck_assert_mem_eq(&taken, &message, sizeof taken);
    sbx_fd_drop(&fd);
    sbx_fd_drop(&ends[1]);
    ck_assert_int_eq(sbx_control_send(ends[0], &message, -1), -EPIPE);
    sbx_fd_drop(&ends[0]);
}
END_TEST

#define LENGTH(array) (int)(sizeof(array) / sizeof((array)[0]))

int main(void)
{
    Suite *suite = suite_create("control");
    TCase *tcase = sbx_fixture_case(suite, "control", 20);
    tcase_add_loop_test(tcase, at_most_one_descriptor_is_received, 0, LENGTH(passed));
    tcase_add_loop_test(tcase, what_is_no_record_is_refused, 0, LENGTH(broken));
    tcase_add_test(tcase, a_record_comes_as_it_was_sent);
    tcase_add_test(tcase, a_last_word_is_heard_behind_an_order_too_late);
    return sbx_fixture_run(suite);
}
