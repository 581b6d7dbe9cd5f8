/*
 * test_places.c - places in a state directory: reserving, finding and removing them, the
 * page, the lock that a run passes on, and what a command of the same user may do to all
 * of these.
 */
#include "supervisor/place.h"

#include "base/fd.h"
#include "supervisor/status.h"
#include "tests/state_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

/* --- reserved and found ----------------------------------------------------------------
 */

START_TEST(what_was_reserved_is_found)
{
    struct sbx_state *state = sbx_kit_state();
    const struct sbx_facts facts = sbx_kit_facts("a.b:c_d-E9");
    struct sbx_place place = sbx_kit_reserve(state, facts.id);
    struct sbx_place found = {.directory = -1, .lock = -1};
    struct sbx_facts read;
    ck_assert_int_eq(sbx_state_find(state, facts.id, &found, &read, NULL), 0);
    ck_assert_int_eq(found.lock, -1);
    ck_assert_str_eq(read.id, facts.id);
    ck_assert_uint_eq(read.created_real_us, facts.created_real_us);
    ck_assert_uint_eq(read.retention_us, facts.retention_us);
    ck_assert_uint_eq(read.output_limit_bytes, facts.output_limit_bytes);
    ck_assert_uint_eq(read.event_limit_count, facts.event_limit_count);
    ck_assert(read.pause_when_full);
    ck_assert_uint_eq(read.uid, facts.uid);
    ck_assert_mem_eq(read.digest, facts.digest, SBX_DIGEST_SIZE);
    char boot[SBX_BOOT_SIZE];
    sbx_boot_id(boot);
    ck_assert_uint_eq(strlen(boot), SBX_BOOT_SIZE - 1);
    ck_assert_str_eq(read.boot, boot);
    ck_assert_uint_eq(sbx_kit_count(state), 1);
    ck_assert_uint_eq(sbx_kit_entries(state, "new"), 0);
    sbx_place_close(&found);
    sbx_place_close(&place);
    ck_assert_int_eq(place.directory, -1);
    ck_assert_int_eq(place.lock, -1);
    sbx_state_close(state);
}
END_TEST

START_TEST(an_id_is_taken_once)
{
    struct sbx_state *state = sbx_kit_state();
    struct sbx_place place = sbx_kit_reserve(state, "x");
    struct sbx_place second = {.directory = -7, .lock = -8};
    struct sbx_facts facts = sbx_kit_facts("x");
    struct sbx_error err = {0};
    ck_assert_int_eq(sbx_state_reserve(state, &facts, &second, &err), -EEXIST);
    ck_assert_ptr_nonnull(strstr(err.message, "id x"));
    ck_assert_int_eq(second.directory, -7);
    ck_assert_int_eq(second.lock, -8);
    ck_assert_uint_eq(sbx_kit_entries(state, "new"), 0);
    (void)snprintf(facts.id, sizeof facts.id, "../x");
    ck_assert_int_eq(sbx_state_reserve(state, &facts, &second, NULL), -EINVAL);
    ck_assert_uint_eq(sbx_kit_count(state), 1);
    sbx_place_close(&place);
    sbx_state_close(state);
}
END_TEST

/* Whatever keeps two that have the same state open from each other fails: the id holds.
 */
START_TEST(of_many_that_reserve_an_id_one_gets_it)
{
    enum { MANY = 8, ROUNDS = 20 };
    struct sbx_state *state = sbx_kit_state();
    int told[2];
    ck_assert_int_eq(pipe2(told, O_CLOEXEC), 0);
    for (int i = 0; i < MANY; i++) {
        pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            char wins = 0;
            for (int round = 0; round < ROUNDS; round++) {
                struct sbx_facts facts = sbx_kit_facts("");
                (void)snprintf(facts.id, sizeof facts.id, "id-%d", round);
                struct sbx_place place;
                int r = sbx_state_reserve(state, &facts, &place, NULL);
                wins = (char)(wins + (r == 0 ? 1 : 0));
            }
            (void)!write(told[1], &wins, 1);
            _exit(0);
        }
    }
    int wins = 0;
    for (int i = 0; i < MANY; i++) {
        char some = 0;
        ck_assert_int_eq(read(told[0], &some, 1), 1);
        wins += some;
        ck_assert_int_gt(wait(NULL), 0);
    }
    ck_assert_uint_eq(sbx_kit_count(state), ROUNDS);
    ck_assert_int_eq(wins, ROUNDS);
    (void)close(told[0]);
    (void)close(told[1]);
    sbx_state_close(state);
}
END_TEST

static int failed_rename;

int __real_renameat2(int from, const char *old, int to, const char *new, unsigned flags);
int __wrap_renameat2(int from, const char *old, int to, const char *new, unsigned flags);

int __wrap_renameat2(int from, const char *old, int to, const char *new, unsigned flags)
{
    if (failed_rename != 0) {
        errno = failed_rename;
        return -1;
    }
    return __real_renameat2(from, old, to, new, flags);
}

START_TEST(an_old_file_system_will_do)
{
    static const int codes[] = {ENOSYS, EINVAL};
    struct sbx_state *state = sbx_kit_state();
    for (size_t i = 0; i < LENGTH(codes); i++) {
        failed_rename = codes[i];
        struct sbx_place place = sbx_kit_reserve(state, "x");
        const struct sbx_facts facts = sbx_kit_facts("x");
        struct sbx_place second;
        ck_assert_int_eq(sbx_state_reserve(state, &facts, &second, NULL), -EEXIST);
        ck_assert_uint_eq(sbx_kit_entries(state, "new"), 0);
        struct sbx_page page;
        ck_assert_int_eq(sbx_page_read(place.directory, &page), 0);
        sbx_place_close(&place);
        ck_assert_int_eq(sbx_state_remove(state, "x", NULL), 0);
    }
    sbx_state_close(state);
}
END_TEST

static int failed_allocation;

int __real_posix_fallocate(int fd, off_t offset, off_t size);
int __wrap_posix_fallocate(int fd, off_t offset, off_t size);

int __wrap_posix_fallocate(int fd, off_t offset, off_t size)
{
    return failed_allocation != 0 ? failed_allocation
                                  : __real_posix_fallocate(fd, offset, size);
}

START_TEST(a_full_disk_leaves_nothing)
{
    struct sbx_state *state = sbx_kit_state();
    const struct sbx_facts facts = sbx_kit_facts("x");
    struct sbx_place place;
    struct sbx_error err = {0};
    failed_allocation = ENOSPC;
    ck_assert_int_eq(sbx_state_reserve(state, &facts, &place, &err), -ENOSPC);
    ck_assert_int_eq(err.code, ENOSPC);
    failed_allocation = 0;
    ck_assert_uint_eq(sbx_kit_entries(state, "new"), 0);
    ck_assert_uint_eq(sbx_kit_entries(state, "executions"), 0);
    sbx_state_close(state);
}
END_TEST

START_TEST(what_is_not_there_is_told)
{
    static const char *const none[] = {"y", "", ".", "..", "../x", "x/", "/"};
    struct sbx_state *state = sbx_kit_state();
    struct sbx_place place = sbx_kit_reserve(state, "x");
    for (size_t i = 0; i < LENGTH(none); i++) {
        struct sbx_place found = {.directory = -7, .lock = -8};
        struct sbx_facts facts;
        ck_assert_int_eq(sbx_state_find(state, none[i], &found, &facts, NULL), -ENOENT);
        ck_assert_int_eq(found.directory, -7);
        ck_assert_int_eq(sbx_state_remove(state, none[i], NULL), -ENOENT);
    }
    ck_assert_uint_eq(sbx_kit_count(state), 1);
    sbx_place_close(&place);
    sbx_state_close(state);
}
END_TEST

/* --- the file request
 * ------------------------------------------------------------------- */

#define DIGEST "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define BOOT "11111111-2222-3333-4444-555555555555"
#define START "{\"format\":\"sbx.place/1\",\"id\":\"x\",\"created_real_us\":1,"
#define MIDDLE "\"retention_us\":2,\"output_limit_bytes\":3,\"event_limit_count\":4,"
#define REST "\"pause_when_full\":false,\"uid\":5,\"digest\":\"" DIGEST "\","
#define WHOLE START MIDDLE REST "\"boot\":\"" BOOT "\"}\n"

static const char *const good[] = {
    WHOLE,
    START MIDDLE REST "\"boot\":\"\"}\n",
    START MIDDLE REST "\"boot\":\"\"}",
};

static const char *const bad[] = {
    "",
    "\n",
    "{}\n",
    "[]\n",
    "[" WHOLE "]",
    WHOLE WHOLE,
    WHOLE " ",
    START MIDDLE REST "\"boot\":\"" BOOT "\"",
    START MIDDLE REST "\"uid\":5}", /* twice, and one is missing */
    START MIDDLE REST "\"boot\":\"\",\"more\":1}",
    START MIDDLE REST "\"boot\":{\"boot\":\"\"}}",
    START MIDDLE REST "\"boot\":[]}",
    START MIDDLE REST "\"boot\":1}",
    START MIDDLE REST "\"boot\":\"" BOOT "0\"}",
    START MIDDLE REST "\"boot\":\"G1111111-2222-3333-4444-555555555555\"}",
    START MIDDLE "\"pause_when_full\":0,\"uid\":5,\"digest\":\"" DIGEST
                 "\",\"boot\":\"\"}",
    START MIDDLE "\"pause_when_full\":true,\"uid\":4294967296,\"digest\":\"" DIGEST
                 "\",\"boot\":\"\"}",
    START MIDDLE "\"pause_when_full\":true,\"uid\":-1,\"digest\":\"" DIGEST
                 "\",\"boot\":\"\"}",
    START MIDDLE "\"pause_when_full\":true,\"uid\":\"1\",\"digest\":\"" DIGEST
                 "\",\"boot\":\"\"}",
    START MIDDLE "\"pause_when_full\":true,\"uid\":1,\"digest\":\"" DIGEST
                 "00\",\"boot\":\"\"}",
    START MIDDLE "\"pause_when_full\":true,\"uid\":1,\"digest\":\"\",\"boot\":\"\"}",
    "{\"format\":\"sbx.place/1\",\"id\":\"y\",\"created_real_us\":1," MIDDLE REST
    "\"boot\":\"\"}",
    "{\"format\":\"sbx.place/1\",\"id\":\"\",\"created_real_us\":1," MIDDLE REST
    "\"boot\":\"\"}",
    "{\"format\":\"sbx.place/2\",\"id\":\"x\",\"created_real_us\":1," MIDDLE REST
    "\"boot\":\"\"}",
    "{\"format\":\"sbx.place/1\",\"id\":\"\\x\",\"created_real_us\":1," MIDDLE REST
    "\"boot\":\"\"}",
    "{\"format\":\"sbx.place/"
    "1\",\"id\":\"x\",\"created_real_us\":18446744073709551616," MIDDLE REST
    "\"boot\":\"\"}",
    "{\"format\":\"sbx.place/1\",\"id\":\"x\",\"created_real_us\":1.0," MIDDLE REST
    "\"boot\":\"\"}",
};

static void expect_found(struct sbx_state *state, int code)
{
    struct sbx_place found = {.directory = -7, .lock = -8};
    struct sbx_facts facts;
    memset(&facts, 0x5a, sizeof facts);
    const struct sbx_facts before = facts;
    struct sbx_error err = {0};
    ck_assert_int_eq(sbx_state_find(state, "x", &found, &facts, &err), code);
    ck_assert_int_ge(found.directory, 0);
    ck_assert_int_eq(found.lock, -1);
    if (code < 0) {
        ck_assert_mem_eq(&facts, &before, sizeof facts);
        ck_assert_ptr_nonnull(strstr(err.message, "execution x"));
    }
    sbx_place_close(&found);
}

START_TEST(a_request_is_whole_or_damaged)
{
    struct sbx_state *state = sbx_kit_state();
    struct sbx_place place = sbx_kit_reserve(state, "x");
    for (size_t i = 0; i < LENGTH(good); i++) {
        sbx_kit_put(place.directory, "request", good[i], strlen(good[i]));
        expect_found(state, 0);
    }
    for (size_t i = 0; i < LENGTH(bad); i++) {
        sbx_kit_put(place.directory, "request", bad[i], strlen(bad[i]));
        expect_found(state, -EBADMSG);
    }
    /* With a NUL in it, and at every length that it may be cut to. */
    char text[sizeof WHOLE] = WHOLE;
    text[10] = '\0';
    sbx_kit_put(place.directory, "request", text, strlen(WHOLE));
    expect_found(state, -EBADMSG);
    for (size_t length = 0; length < strlen(WHOLE) - 1; length++) {
        sbx_kit_put(place.directory, "request", WHOLE, length);
        expect_found(state, -EBADMSG);
    }
    static char large[64 * 1024];
    memset(large, ' ', sizeof large);
    sbx_kit_put(place.directory, "request", large, sizeof large);
    expect_found(state, -EBADMSG);
    ck_assert_int_eq(unlinkat(place.directory, "request", 0), 0);
    expect_found(state, -EBADMSG);
    ck_assert_int_eq(mkfifoat(place.directory, "request", 0600), 0);
    expect_found(state, -EBADMSG);
    sbx_place_close(&place);
    sbx_state_close(state);
}
END_TEST

START_TEST(what_is_no_place_is_not_listed)
{
    struct sbx_state *state = sbx_kit_state();
    struct sbx_place place = sbx_kit_reserve(state, "x");
    sbx_kit_put(state->executions, "file", "", 0);
    ck_assert_int_eq(symlinkat("/", state->executions, "link"), 0);
    ck_assert_int_eq(mkdirat(state->executions, "-x", 0700), 0);
    ck_assert_uint_eq(sbx_kit_count(state), 1);
    static const char *const others[] = {"file", "link"};
    for (size_t i = 0; i < LENGTH(others); i++) {
        struct sbx_place found = {.directory = 99, .lock = 99};
        struct sbx_facts facts;
        ck_assert_int_eq(sbx_state_find(state, others[i], &found, &facts, NULL),
                         -EBADMSG);
        ck_assert_int_eq(found.directory, -1);
        ck_assert_int_eq(sbx_state_remove(state, others[i], NULL), 0);
        ck_assert_int_eq(sbx_state_remove(state, others[i], NULL), -ENOENT);
    }
    ck_assert_int_eq(access("/", F_OK), 0);
    ck_assert_uint_eq(sbx_kit_entries(state, "new"), 0);
    sbx_place_close(&place);
    sbx_state_close(state);
}
END_TEST

/* --- the page
 * --------------------------------------------------------------------------- */

START_TEST(a_page_is_read_as_it_was_written)
{
    struct sbx_state *state = sbx_kit_state();
    struct sbx_place place = sbx_kit_reserve(state, "x");
    struct sbx_page page;
    ck_assert_int_eq(sbx_page_read(place.directory, &page), 0);
    ck_assert_uint_eq(page.magic, SBX_PAGE_MAGIC);
    ck_assert_uint_eq(page.phase, SBX_PHASE_RESERVED);
    ck_assert_uint_eq(page.started_real_us + page.finished_real_us, 0);
    struct sbx_page *mapped = sbx_page_map(place.directory);
    ck_assert_ptr_nonnull(mapped);
    mapped->leader_pid = 4711;
    mapped->started_real_us = 17;
    mapped->stdin_open = 1;
    mapped->phase = SBX_PHASE_RUNNING;
    ck_assert_int_eq(sbx_page_read(place.directory, &page), 0);
    ck_assert_int_eq(page.leader_pid, 4711);
    ck_assert_uint_eq(page.started_real_us, 17);
    ck_assert_uint_eq(page.stdin_open, 1);
    ck_assert_uint_eq(page.phase, SBX_PHASE_RUNNING);
    page.phase = SBX_PHASE_FINISHED;
    page.status = SBX_EXECUTION_LOST;
    page.finished_real_us = 18;
    ck_assert_int_eq(sbx_page_write(place.directory, &page), 0);
    ck_assert_uint_eq(mapped->phase, SBX_PHASE_FINISHED);
    ck_assert_uint_eq(mapped->status, SBX_EXECUTION_LOST);
    ck_assert_uint_eq(mapped->finished_real_us, 18);
    ck_assert_int_eq(mapped->leader_pid, 4711);
    sbx_page_unmap(mapped);
    sbx_page_unmap(NULL);
    sbx_place_close(&place);
    sbx_state_close(state);
}
END_TEST

static void expect_bad_page(int directory, int code)
{
    struct sbx_page page;
    ck_assert_int_eq(sbx_page_read(directory, &page), code);
    page = (struct sbx_page){.magic = SBX_PAGE_MAGIC};
    bool can_open = faccessat(directory, "page", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    struct sbx_page *mapped = sbx_page_map(directory);
    ck_assert(can_open || mapped == NULL);
    sbx_page_unmap(mapped);
}

START_TEST(a_page_that_cannot_be_is_told)
{
    static const struct {
        off_t offset;
        uint32_t value;
    } words[] = {
        {0, 0},
        {offsetof(struct sbx_page, phase), SBX_PHASE_FINISHED + 1},
        {offsetof(struct sbx_page, phase), UINT32_MAX},
        {offsetof(struct sbx_page, status), SBX_EXECUTION_LOST + 1},
        {offsetof(struct sbx_page, status), UINT32_MAX},
        {offsetof(struct sbx_page, leader_pid), UINT32_MAX},
    };
    static char zeroes[8192];
    struct sbx_state *state = sbx_kit_state();
    struct sbx_place place = sbx_kit_reserve(state, "x");
    for (size_t i = 0; i < LENGTH(words); i++) {
        SBX_AUTO_CLOSE int fd = openat(place.directory, "page", O_RDWR | O_CLOEXEC);
        uint32_t before = 0;
        ck_assert_int_eq(pread(fd, &before, 4, words[i].offset), 4);
        ck_assert_int_eq(pwrite(fd, &words[i].value, 4, words[i].offset), 4);
        expect_bad_page(place.directory, -EBADMSG);
        ck_assert_int_eq(pwrite(fd, &before, 4, words[i].offset), 4);
        expect_bad_page(place.directory, 0);
    }
    static const size_t sizes[] = {0, 10, 4095, 4097, 8192};
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        sbx_kit_put(place.directory, "page", zeroes, sizes[i]);
        struct sbx_page page = {.magic = SBX_PAGE_MAGIC};
        expect_bad_page(place.directory, -EBADMSG);
        ck_assert_int_eq(sbx_page_write(place.directory, &page), -EBADMSG);
        errno = 0;
        ck_assert_ptr_null(sbx_page_map(place.directory));
        ck_assert_int_eq(errno, EBADMSG);
    }
    ck_assert_int_eq(unlinkat(place.directory, "page", 0), 0);
    expect_bad_page(place.directory, -ENOENT);
    sbx_place_close(&place);
    sbx_state_close(state);
}
END_TEST

/* --- the lock
 * --------------------------------------------------------------------------- */

START_TEST(the_lock_is_held_until_the_last_is_gone)
{
    struct sbx_state *state = sbx_kit_state();
    struct sbx_place place = sbx_kit_reserve(state, "x");
    int end[2];
    ck_assert_int_eq(pipe2(end, O_CLOEXEC), 0);
    ck_assert(sbx_place_is_held(place.directory));
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        char byte = 0;
        (void)close(end[1]);
        (void)!read(end[0], &byte, 1);
        _exit(0);
    }
    sbx_fd_drop(&place.lock);
    ck_assert(sbx_place_is_held(place.directory));
    ck_assert(sbx_place_is_held(place.directory)); /* to look takes nothing away */
    (void)close(end[1]);
    (void)close(end[0]);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert(!sbx_place_is_held(place.directory));
    ck_assert_int_eq(unlinkat(place.directory, "lock", 0), 0);
    ck_assert(!sbx_place_is_held(place.directory));
    sbx_place_close(&place);
    sbx_state_close(state);
}
END_TEST

/* --- removed
 * ---------------------------------------------------------------------------- */

START_TEST(an_id_is_free_when_it_was_removed)
{
    struct sbx_state *state = sbx_kit_state();
    for (int i = 0; i < 3; i++) {
        struct sbx_place place = sbx_kit_reserve(state, "x");
        ck_assert_int_eq(sbx_state_remove(state, "x", NULL), 0);
        ck_assert_uint_eq(sbx_kit_count(state), 0);
        ck_assert_uint_eq(sbx_kit_entries(state, "new"), 0);
        sbx_place_close(&place);
    }
    sbx_state_close(state);
}
END_TEST

static void make_socket(int directory, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    SBX_AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s",
                   directory, name);
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
}

/* A row of directories, each in the one before, each with a file. */
static void make_deep(int directory, unsigned depth)
{
    SBX_AUTO_CLOSE int at = dup(directory);
    for (unsigned i = 0; i < depth; i++) {
        sbx_kit_put(at, "file", "", 0);
        ck_assert_int_eq(mkdirat(at, "deeper", 0700), 0);
        int next = openat(at, "deeper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ck_assert_int_ge(next, 0);
        (void)close(at);
        at = next;
    }
}

START_TEST(a_place_is_removed_whatever_is_in_it)
{
    struct sbx_state *state = sbx_kit_state();
    char outside[SBX_FIXTURE_PATH_SIZE];
    char file[SBX_FIXTURE_PATH_SIZE];
    ck_assert_int_eq(mkdir(sbx_fixture_path(outside, "outside"), 0755), 0);
    sbx_kit_put(AT_FDCWD, sbx_fixture_path(file, "outside/file"), "x", 1);
    struct sbx_place place = sbx_kit_reserve(state, "x");
    int in = place.directory;
    ck_assert_int_eq(symlinkat(outside, in, "link"), 0);
    ck_assert_int_eq(symlinkat(file, in, "control"), 0);
    ck_assert_int_eq(unlinkat(in, "page", 0), 0);
    ck_assert_int_eq(symlinkat(outside, in, "page"), 0);
    ck_assert_int_eq(linkat(AT_FDCWD, file, in, "hard", 0), 0);
    ck_assert_int_eq(mkfifoat(in, "fifo", 0600), 0);
    make_socket(in, "socket");
    ck_assert_int_eq(mkdirat(in, "empty", 0), 0);
    ck_assert_int_eq(mkdirat(in, "shut", 0700), 0);
    make_deep(in, 300);
    SBX_AUTO_CLOSE int shut = openat(in, "shut", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sbx_kit_put(shut, "file", "", 0);
    ck_assert_int_eq(mkdirat(shut, "sub", 0700), 0);
    ck_assert_int_eq(mkdirat(shut, "sub/sub", 0), 0);
    ck_assert_int_eq(symlinkat(outside, shut, "link"), 0);
    ck_assert_int_eq(fchmodat(shut, "sub", 0, 0), 0);
    ck_assert_int_eq(fchmod(shut, 0), 0);
    ck_assert_int_eq(fchmod(in, 0500), 0);
    ck_assert_int_eq(sbx_state_remove(state, "x", NULL), 0);
    ck_assert_uint_eq(sbx_kit_entries(state, "new"), 0);
    ck_assert_uint_eq(sbx_kit_entries(state, "executions"), 0);
    ck_assert_int_eq(access(file, F_OK), 0);
    struct stat status;
    ck_assert_int_eq(stat(outside, &status), 0);
    ck_assert_uint_eq(status.st_mode & 07777U, 0755);
    sbx_place_close(&place);
    sbx_state_close(state);
}
END_TEST

/* A file system that a command mounted is no part of the place. */
START_TEST(nothing_is_removed_beyond_a_mount)
{
    char outside[SBX_FIXTURE_PATH_SIZE];
    char file[SBX_FIXTURE_PATH_SIZE];
    char inside[SBX_FIXTURE_PATH_SIZE];
    if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        return; /* needs root, and to be let */
    }
    struct sbx_state *state = sbx_kit_state();
    ck_assert_int_eq(mkdir(sbx_fixture_path(outside, "outside"), 0755), 0);
    sbx_kit_put(AT_FDCWD, sbx_fixture_path(file, "outside/file"), "x", 1);
    struct sbx_place place = sbx_kit_reserve(state, "x");
    ck_assert_int_eq(mkdirat(place.directory, "in", 0755), 0);
    sbx_fixture_path(inside, "state/executions/x/in");
    ck_assert_int_eq(mount(outside, inside, NULL, MS_BIND, NULL), 0);
    ck_assert_int_eq(sbx_state_remove(state, "x", NULL), 0);
    ck_assert_int_eq(access(file, F_OK), 0);
    ck_assert_uint_eq(sbx_kit_count(state), 0);
    ck_assert_uint_eq(sbx_kit_entries(state, "new"), 1);
    ck_assert_int_eq(fchdir(place.directory), 0);
    ck_assert_int_eq(umount2("in", MNT_DETACH), 0);
    ck_assert_int_eq(chdir("/"), 0);
    sbx_place_close(&place);
    sbx_state_close(state);
    state = sbx_kit_state();
    ck_assert_uint_eq(sbx_kit_entries(state, "new"), 0);
    ck_assert_int_eq(access(file, F_OK), 0);
    sbx_state_close(state);
}
END_TEST

START_TEST(a_report_that_could_not_be_published_has_its_room)
{
    static const char report[] = "{\"outcome\":\"exited\"}\n";
    struct sbx_state *state = sbx_kit_state();
    struct sbx_place place = sbx_kit_reserve(state, "x");
    size_t length = 0;
    uint64_t written_us = 0;
    struct stat status;
    /* Blocks and all, and given back when nobody needs it. */
    ck_assert_int_eq(sbx_place_spare_report(place.directory, NULL), 0);
    ck_assert_int_eq(fstatat(place.directory, "spare", &status, 0), 0);
    ck_assert_int_ge(status.st_blocks * 512, status.st_size);
    ck_assert_int_eq(sbx_place_spare_report(place.directory, NULL), -EEXIST);
    sbx_place_use_spare(place.directory, NULL, 0);
    ck_assert_int_ne(faccessat(place.directory, "spare", F_OK, 0), 0);
    ck_assert_ptr_null(sbx_place_report(place.directory, &length, &written_us));
    /* It becomes the report where there is none. */
    ck_assert_int_eq(sbx_place_spare_report(place.directory, NULL), 0);
    sbx_place_use_spare(place.directory, report, sizeof report - 1);
    char *text = sbx_place_report(place.directory, &length, &written_us);
    ck_assert_ptr_nonnull(text);
    ck_assert_uint_eq(length, sizeof report - 1);
    ck_assert_str_eq(text, report);
    free(text);
    /* One that was published stays. */
    ck_assert_int_eq(sbx_place_spare_report(place.directory, NULL), 0);
    sbx_place_use_spare(place.directory, "{}\n", 3);
    text = sbx_place_report(place.directory, &length, &written_us);
    ck_assert_str_eq(text, report);
    free(text);
    ck_assert_int_ne(faccessat(place.directory, "spare", F_OK, 0), 0);
    sbx_place_close(&place);
    sbx_state_close(state);
}
END_TEST

/* More than is removed in one go: the id is free at once, and all is gone in the end. */
START_TEST(much_is_removed_bit_by_bit)
{
    enum { MANY = 10000 };
    struct sbx_state *state = sbx_kit_state();
    struct sbx_place place = sbx_kit_reserve(state, "x");
    for (int i = 0; i < MANY; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "f%d", i);
        ck_assert_int_eq(linkat(place.directory, "lock", place.directory, name, 0), 0);
    }
    sbx_place_close(&place);
    ck_assert_int_eq(sbx_state_remove(state, "x", NULL), 0);
    ck_assert_uint_eq(sbx_kit_entries(state, "executions"), 0);
    ck_assert_uint_eq(sbx_kit_entries(state, "new"), 1);
    int rounds = 0;
    while (sbx_kit_entries(state, "new") > 0) {
        ck_assert_int_le(++rounds, 3);
        place = sbx_kit_reserve(state, "x");
        sbx_place_close(&place);
        ck_assert_int_eq(sbx_state_remove(state, "x", NULL), 0);
    }
    sbx_state_close(state);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("places");
    TCase *tcase = sbx_fixture_case(suite, "places", 60);
    tcase_add_test(tcase, what_was_reserved_is_found);
    tcase_add_test(tcase, an_id_is_taken_once);
    tcase_add_test(tcase, of_many_that_reserve_an_id_one_gets_it);
    tcase_add_test(tcase, an_old_file_system_will_do);
    tcase_add_test(tcase, a_full_disk_leaves_nothing);
    tcase_add_test(tcase, what_is_not_there_is_told);
    tcase_add_test(tcase, a_request_is_whole_or_damaged);
    tcase_add_test(tcase, what_is_no_place_is_not_listed);
    tcase_add_test(tcase, a_page_is_read_as_it_was_written);
    tcase_add_test(tcase, a_page_that_cannot_be_is_told);
    tcase_add_test(tcase, the_lock_is_held_until_the_last_is_gone);
    tcase_add_test(tcase, an_id_is_free_when_it_was_removed);
    tcase_add_test(tcase, a_place_is_removed_whatever_is_in_it);
    tcase_add_test(tcase, nothing_is_removed_beyond_a_mount);
    tcase_add_test(tcase, a_report_that_could_not_be_published_has_its_room);
    tcase_add_test(tcase, much_is_removed_bit_by_bit);
    return sbx_fixture_run(suite);
}
