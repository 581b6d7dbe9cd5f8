/*
 * test_wire.c - a specification as text and back again, byte for byte; no text that is
 * cut or changed is taken for one; frames through a socket that is full, closed or reset.
 */
#include "tests/fixture.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "monitor/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define CASE_SECONDS 60

static const char *const command[] = {"cmd", "", "a b", "\xff\n", "-x", NULL};

static struct sbx_spec *full_spec(int fd)
{
    char number[16];
    (void)snprintf(number, sizeof number, "%d", fd);
    const char *const settings[][2] = {
        {"wall", "5s"},      {"memory", "1G"},   {"rlimit", "core=0"},
        {"quiet", NULL},     {"wall", "6s"},     {"rlimit", "nofile=64:128"},
        {"keep-fd", number}, {"signal", "USR1"}, {"report", "/tmp/some where"},
    };
    struct sbx_spec *spec = sbx_spec_new();
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        ck_assert_int_eq(sbx_spec_set(spec, settings[i][0], settings[i][1], NULL), 0);
    }
    /* What was refused is not remembered. */
    ck_assert_int_lt(sbx_spec_set(spec, "wall", "0", NULL), 0);
    ck_assert_int_lt(sbx_spec_set(spec, "no-such-option", "1", NULL), 0);
    ck_assert_int_eq(sbx_spec_set_command(spec, command, NULL), 0);
    ck_assert_int_eq(sbx_spec_set_progress(spec, 12345, NULL), 0);
    return spec;
}

START_TEST(a_specification_is_the_same_on_the_other_side)
{
    char *text = NULL;
    char *again = NULL;
    size_t length = 0;
    size_t length_again = 0;
    int fds[4] = {-1, -1, -1, -1};
    SBX_AUTO_CLOSE int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct sbx_spec *spec = full_spec(fd);
    struct sbx_spec *copy = sbx_spec_new();
    struct sbx_error error = {0};
    ck_assert_int_eq(sbx_wire_pack(spec, &text, &length, NULL), 0);
    ck_assert_msg(sbx_wire_replay(text, length, copy, &error) == 0, "%s", error.message);
    ck_assert_uint_eq(copy->limits.wall_us, 6000000);
    ck_assert_uint_eq(copy->progress_us, 12345);
    ck_assert(copy->quiet);
    ck_assert_int_eq(copy->keep_fds[0], fd);
    for (size_t i = 0; i < sizeof command / sizeof command[0] - 1; i++) {
        ck_assert_str_eq(copy->argv[i], command[i]);
    }
    ck_assert_int_eq(sbx_wire_pack(copy, &again, &length_again, NULL), 0);
    ck_assert_uint_eq(length, length_again);
    ck_assert_mem_eq(text, again, length);
    ck_assert_uint_eq(sbx_wire_fds(text, length, fds, 4), 1);
    ck_assert_int_eq(fds[0], fd);
    ck_assert_uint_eq(sbx_wire_fds(text, length, fds, 0), 0);
    free(text);
    free(again);
    sbx_spec_free(spec);
    sbx_spec_free(copy);
}
END_TEST

START_TEST(a_text_that_is_cut_is_refused)
{
    char *text = NULL;
    size_t length = 0;
    SBX_AUTO_CLOSE int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct sbx_spec *spec = full_spec(fd);
    ck_assert_int_eq(sbx_wire_pack(spec, &text, &length, NULL), 0);
    for (size_t cut = 0; cut < length; cut++) {
        struct sbx_error error = {0};
        struct sbx_spec *copy = sbx_spec_new();
        ck_assert_int_eq(sbx_wire_replay(text, cut, copy, &error), -EPROTO);
        ck_assert_int_eq(error.code, EPROTO);
        sbx_spec_free(copy);
    }
    free(text);
    sbx_spec_free(spec);
}
END_TEST

/* Texts that no specification gives; the length counts the NUL at the end. */
static const struct bad_row {
    const char *text;
    size_t length;
    int code;
} bad[] = {
    {"", 1, EPROTO},
    {"X", 2, EPROTO},                        /* no such tag */
    {"Vvalue\0E", 10, EPROTO},               /* a value of nothing */
    {"Owall\0E", 9, EPROTO},                 /* an option without its value */
    {"Owall\0Fquiet\0E", 16, EPROTO},        /* likewise */
    {"E\0E", 4, EPROTO},                     /* something behind the end */
    {"I1x\0E", 7, EPROTO},                   /* no number */
    {"I1\0E", 6, ERANGE},                    /* a number out of range */
    {"Owall\0Vnever\0E", 16, EINVAL},        /* what the option refuses */
    {"Fwall\0E", 9, EINVAL},                 /* no flag */
    {"Fno-such-option\0E", 19, EINVAL},      /* of another version */
    {"D2147483\0Oreport\0Vx\0E", 23, EBADF}, /* likewise */
    {"Dx\0Oreport\0Vx\0E", 17, EPROTO},      /* no number */
    {"Okeep-fd\0V2147483\0E", 21, EBADF},    /* not open here */
};

START_TEST(a_text_that_is_none_is_refused)
{
    struct sbx_error error = {0};
    struct sbx_spec *spec = sbx_spec_new();
    ck_assert_int_eq(sbx_wire_replay(bad[_i].text, bad[_i].length, spec, &error),
                     -bad[_i].code);
    ck_assert_ptr_null(spec->report_path);
    ck_assert_int_eq(error.code, bad[_i].code);
    sbx_spec_free(spec);
}
END_TEST

/* The working directory is another for one option, and then the same as before. */
START_TEST(a_relative_path_means_the_directory_of_its_time)
{
    char *text = NULL;
    size_t length = 0;
    int fds[3] = {-1, -1, -1};
    struct stat before;
    struct stat held;
    struct stat after;
    struct sbx_spec *spec = sbx_spec_new();
    struct sbx_spec *copy = sbx_spec_new();
    ck_assert_int_eq(chdir(sbx_fixture_dir()), 0);
    ck_assert_int_eq(sbx_spec_set(spec, "report", "somewhere", NULL), 0);
    ck_assert_int_eq(sbx_spec_set(spec, "cgroup-root", "group", NULL), 0);
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_int_eq(sbx_wire_pack(spec, &text, &length, NULL), 0);
    ck_assert_uint_eq(sbx_wire_fds(text, length, fds, 3), 2);
    ck_assert_int_eq(fds[0], spec->report_directory_fd);
    ck_assert_int_eq(fds[1], spec->cgroup_root_directory_fd);
    ck_assert_int_eq(sbx_wire_replay(text, length, copy, NULL), 0);
    ck_assert_int_eq(stat(sbx_fixture_dir(), &before), 0);
    ck_assert_int_eq(fstat(copy->report_directory_fd, &held), 0);
    ck_assert_uint_eq(held.st_ino, before.st_ino);
    ck_assert_str_eq(copy->cgroup_root, "group");
    ck_assert_int_eq(fstat(copy->cgroup_root_directory_fd, &held), 0);
    ck_assert_uint_eq(held.st_ino, before.st_ino);
    ck_assert_int_eq(stat("/", &before), 0);
    ck_assert_int_eq(stat(".", &after), 0);
    ck_assert_uint_eq(after.st_ino, before.st_ino);
    free(text);
    sbx_spec_free(spec);
    sbx_spec_free(copy);
}
END_TEST

START_TEST(names_of_descriptor_options_are_known_by_their_end)
{
    ck_assert(sbx_wire_names_fd("keep-fd"));
    ck_assert(sbx_wire_names_fd("report-fd"));
    ck_assert(!sbx_wire_names_fd("-fd"));
    ck_assert(!sbx_wire_names_fd("fd"));
    ck_assert(!sbx_wire_names_fd("wall"));
}
END_TEST

START_TEST(too_large_a_command_is_refused)
{
    enum { LENGTH = 1024 * 1024, ARGUMENTS = 17 };
    char *text = NULL;
    size_t length = 0;
    struct sbx_error error = {0};
    char *argument = malloc(LENGTH);
    const char *many[ARGUMENTS + 1] = {NULL};
    ck_assert_ptr_nonnull(argument);
    memset(argument, 'x', LENGTH - 1);
    argument[LENGTH - 1] = '\0';
    for (int i = 0; i < ARGUMENTS; i++) {
        many[i] = argument;
    }
    struct sbx_spec *spec = sbx_spec_new();
    ck_assert_int_eq(sbx_spec_set_command(spec, many, NULL), 0);
    ck_assert_int_eq(sbx_wire_pack(spec, &text, &length, &error), -E2BIG);
    ck_assert_int_eq(error.code, E2BIG);
    ck_assert_ptr_null(text);
    free(argument);
    sbx_spec_free(spec);
}
END_TEST

/* --- frames ----------------------------------------------------------------------------
 */

static void open_pair(int ends[2])
{
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
}

static int send_hello(int socket)
{
    const struct sbx_wire_head hello = {SBX_WIRE_HELLO, 1};
    return sbx_wire_send(socket, &hello, sizeof hello, 0);
}

/* A notice ends with its text, which is terminated. */
static const struct notice_row {
    const char *text; /* of the size that follows */
    size_t size;
    bool whole;
} notice_rows[] = {
    {"", 0, false},
    {"", 1, true},
    {"near", 4, false},
    {"near", 5, true},
};

START_TEST(a_notice_is_terminated)
{
    int ends[2];
    union sbx_wire_frame frame;
    const struct notice_row *row = &notice_rows[_i];
    struct sbx_wire_notice notice = {.head = {SBX_WIRE_NOTICE, 1},
                                     .kind = SBX_NOTICE_WARNING};
    size_t size = offsetof(struct sbx_wire_notice, text) + row->size;
    memcpy(notice.text, row->text, row->size);
    open_pair(ends);
    ck_assert_int_eq(sbx_wire_send(ends[1], &notice, size, 0), 0);
    ck_assert_int_eq(sbx_wire_receive(ends[0], &frame),
                     row->whole ? (ssize_t)size : -EBADMSG);
    (void)close(ends[0]);
    (void)close(ends[1]);
}
END_TEST

START_TEST(frames_arrive_whole_or_are_refused)
{
    int ends[2];
    union sbx_wire_frame frame;
    const struct sbx_wire_head cut = {SBX_WIRE_RESULT, 1};
    open_pair(ends);
    ck_assert_int_eq(sbx_wire_receive(ends[0], &frame), -EAGAIN);
    ck_assert_int_eq(send_hello(ends[1]), 0);
    ck_assert_int_eq(sbx_wire_receive(ends[0], &frame), sizeof frame.head);
    ck_assert_uint_eq(frame.head.kind, SBX_WIRE_HELLO);
    ck_assert_int_eq(sbx_wire_send(ends[1], &cut, sizeof cut, 0), 0);
    ck_assert_int_eq(sbx_wire_receive(ends[0], &frame), -EBADMSG);
    ck_assert_int_eq(sbx_wire_send(ends[1], "x", 1, 0), 0);
    ck_assert_int_eq(sbx_wire_receive(ends[0], &frame), -EBADMSG);
    (void)close(ends[1]);
    ck_assert_int_eq(sbx_wire_receive(ends[0], &frame), 0);
    ck_assert_int_eq(send_hello(ends[0]), -EPIPE);
    (void)close(ends[0]);
}
END_TEST

/* What the other side has said counts, also when it went without reading. */
START_TEST(a_reset_does_not_hide_what_was_sent)
{
    int ends[2];
    union sbx_wire_frame frame;
    open_pair(ends);
    ck_assert_int_eq(send_hello(ends[0]), 0);
    ck_assert_int_eq(send_hello(ends[1]), 0);
    (void)close(ends[1]);
    ck_assert_int_eq(sbx_wire_receive(ends[0], &frame), sizeof frame.head);
    ck_assert_int_eq(sbx_wire_receive(ends[0], &frame), 0);
    (void)close(ends[0]);
}
END_TEST

START_TEST(a_full_socket_waits_no_longer_than_it_may)
{
    int ends[2];
    int r;
    static const char chunk[SBX_WIRE_CHUNK];
    open_pair(ends);
    while ((r = sbx_wire_send_text(ends[0], chunk, sizeof chunk, 0)) == 0) {
        continue;
    }
    ck_assert_int_eq(r, -EAGAIN);
    uint64_t before = sbx_clock_us();
    ck_assert_int_eq(sbx_wire_send_text(ends[0], chunk, sizeof chunk, before + 50000),
                     -ETIMEDOUT);
    ck_assert_uint_ge(sbx_clock_us() - before, 50000);
    (void)close(ends[0]);
    (void)close(ends[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire");
    TCase *tests = sbx_fixture_case(suite, "wire", CASE_SECONDS);
    tcase_add_test(tests, a_specification_is_the_same_on_the_other_side);
    tcase_add_test(tests, a_text_that_is_cut_is_refused);
    tcase_add_loop_test(tests, a_text_that_is_none_is_refused, 0,
                        sizeof bad / sizeof bad[0]);
    tcase_add_test(tests, a_relative_path_means_the_directory_of_its_time);
    tcase_add_test(tests, names_of_descriptor_options_are_known_by_their_end);
    tcase_add_test(tests, too_large_a_command_is_refused);
    tcase_add_test(tests, frames_arrive_whole_or_are_refused);
    tcase_add_loop_test(tests, a_notice_is_terminated, 0,
                        (int)(sizeof notice_rows / sizeof notice_rows[0]));
    tcase_add_test(tests, a_reset_does_not_hide_what_was_sent);
    tcase_add_test(tests, a_full_socket_waits_no_longer_than_it_may);
    return sbx_fixture_run(suite);
}
