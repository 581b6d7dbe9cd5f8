/*
 * test_stream.c - what is kept of a stream in a file, as another process reads it:
 * bounds, gaps, a writer at full speed or killed, and files that are not what they should
 * be.
 *
 * The byte at offset n of every stream here follows from n alone, so that each byte that
 * is read can be told to be the right one.
 */
#include "supervisor/stream.h"

#include "base/fd.h"
#include "tests/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define CHUNK SBX_STREAM_CHUNK
#define KIB ((uint64_t)1024)

static int directory(void)
{
    int fd = open(sbx_fixture_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    return fd;
}

/* Binary, never the same for some 64 KiB, and not periodic in any power of two. */
static char byte_at(uint64_t offset)
{
    return (char)((offset * UINT64_C(0x9E3779B97F4A7C15)) >> 56);
}

static void check_bytes(const char *bytes, uint64_t offset, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != byte_at(offset + i)) {
            ck_abort_msg("the byte at %ju is wrong", (uintmax_t)(offset + i));
        }
    }
}

/* Writes `size` bytes more, in pieces of at most `piece`. */
static void put(struct sbx_stream_writer *writer, uint64_t size, size_t piece)
{
    while (size > 0) {
        uint64_t total = sbx_stream_total(writer);
        size_t room = 0;
        char *target = sbx_stream_reserve(writer, &room);
        if (room == 0 || room > CHUNK) { /* an assertion that holds costs a system call */
            ck_abort_msg("%zu bytes are reserved", room);
        }
        size_t part = room < piece ? room : piece;
        part = part < size ? part : (size_t)size;
        for (size_t i = 0; i < part; i++) {
            target[i] = byte_at(total + i);
        }
        sbx_stream_commit(writer, part);
        size -= part;
    }
}

static struct sbx_stream_writer *create(int where, uint64_t head, uint64_t tail)
{
    const struct sbx_stream_bounds bounds = {.head_bytes = head, .tail_bytes = tail};
    struct sbx_stream_writer *writer = NULL;
    struct sbx_error err = {0};
    int r = sbx_stream_create(where, "out", &bounds, &writer, &err);
    ck_assert_msg(r == 0, "%s", err.message);
    return writer;
}

static struct sbx_stream_state look(int where)
{
    struct sbx_stream_state state;
    ck_assert_int_eq(sbx_stream_look(where, "out", &state), 0);
    return state;
}

static struct sbx_stream_piece read_at(int where, uint64_t offset, char *buffer,
                                       size_t size)
{
    struct sbx_stream_piece piece;
    ck_assert_int_eq(sbx_stream_read(where, "out", offset, buffer, size, &piece), 0);
    ck_assert_uint_le(piece.length, size);
    ck_assert_uint_ge(piece.offset + piece.gap_bytes, piece.gap_bytes);
    check_bytes(buffer, piece.offset, piece.length);
    return piece;
}

/* --- bounds ------------------------------------------------------------------------ */

static const struct {
    uint64_t head;
    uint64_t tail;
    uint64_t total;
    uint64_t kept_head;
    uint64_t tail_offset;
} bounds[] = {
    {4, 4, 0, 0, 0},
    {4, 4, 1, 1, 1},
    {4, 4, 4, 4, 4},
    {4, 4, 5, 4, 4},
    {4, 4, 8, 4, 4}, /* exactly full */
    {4, 4, 9, 4, 5}, /* one is gone */
    {4, 4, 1000000, 4, 999996},
    {0, 1, 0, 0, 0},
    {0, 1, 1, 0, 0},
    {0, 1, 2, 0, 1},
    {0, 64 * KIB, 64 * KIB, 0, 0},
    {0, 64 * KIB, 64 * KIB + 1, 0, 1},
    {0, 64 * KIB + 1, 64 * KIB + 2, 0, 1},
    {0, 65 * KIB, 1000 * KIB + 7, 0, 935 * KIB + 7},
    {32 * KIB, 32 * KIB, 64 * KIB, 32 * KIB, 32 * KIB},
    {32 * KIB, 32 * KIB, 1000 * KIB, 32 * KIB, 968 * KIB},
    {100 * KIB, 1, 100 * KIB, 100 * KIB, 100 * KIB},
    {100 * KIB, 1, 100 * KIB + 1, 100 * KIB, 100 * KIB},
    {100 * KIB, 1, 100 * KIB + 2, 100 * KIB, 100 * KIB + 1},
    {200 * KIB + 3, 300 * KIB + 5, 900 * KIB, 200 * KIB + 3, 600 * KIB - 5},
};

static const size_t pieces[] = {1, 777, 4096, CHUNK};

static void read_all(int where, size_t row, size_t step)
{
    char *buffer = malloc(step);
    ck_assert_ptr_nonnull(buffer);
    uint64_t offset = 0;
    uint64_t gaps = 0;
    uint64_t gap = bounds[row].tail_offset - bounds[row].kept_head;
    while (true) {
        struct sbx_stream_piece piece = read_at(where, offset, buffer, step);
        ck_assert_uint_eq(piece.offset, offset + piece.gap_bytes);
        if (piece.gap_bytes > 0) {
            ck_assert_uint_eq(offset, bounds[row].kept_head);
        }
        gaps += piece.gap_bytes;
        offset = piece.offset + piece.length;
        if (piece.length == 0) {
            break;
        }
    }
    ck_assert_uint_eq(offset, bounds[row].total);
    ck_assert_uint_eq(gaps, gap);
    free(buffer);
}

START_TEST(keeps_what_the_bounds_say)
{
    size_t row = (size_t)_i / LENGTH(pieces);
    size_t piece = pieces[(size_t)_i % LENGTH(pieces)];
    SBX_AUTO_CLOSE int where = directory();
    struct sbx_stream_writer *writer = create(where, bounds[row].head, bounds[row].tail);
    put(writer, bounds[row].total, piece);
    ck_assert_uint_eq(sbx_stream_total(writer), bounds[row].total);
    ck_assert_uint_eq(sbx_stream_dropped(writer),
                      bounds[row].tail_offset - bounds[row].kept_head);
    struct sbx_stream_state state = look(where);
    ck_assert_uint_eq(state.total_bytes, bounds[row].total);
    ck_assert_uint_eq(state.head_bytes, bounds[row].kept_head);
    ck_assert_uint_eq(state.tail_offset, bounds[row].tail_offset);
    ck_assert(!state.ended);
    read_all(where, row, 512 * KIB);
    read_all(where, row, 1000);
    sbx_stream_end(writer);
    ck_assert(look(where).ended);
    ck_assert_uint_eq(look(where).total_bytes, bounds[row].total);
    sbx_stream_close(writer);
    read_all(where, row, 100 * KIB);
}
END_TEST

START_TEST(what_is_reserved_overwrites_nothing_that_is_kept)
{
    static char buffer[256 * 1024];
    SBX_AUTO_CLOSE int where = directory();
    struct sbx_stream_writer *writer = create(where, 10, CHUNK);
    put(writer, 10 + 5 * CHUNK + 4321, 5000);
    for (size_t i = 0; i < 100; i++) {
        size_t room = 0;
        char *target = sbx_stream_reserve(writer, &room);
        memset(target, '!', room);
        struct sbx_stream_piece piece = read_at(where, 10, buffer, sizeof buffer);
        ck_assert_uint_eq(piece.length, CHUNK);
        ck_assert_uint_eq(piece.offset + CHUNK, sbx_stream_total(writer));
        put(writer, 7777, CHUNK);
    }
    sbx_stream_close(writer);
}
END_TEST

START_TEST(a_read_ends_and_begins_where_the_gap_does)
{
    static const struct {
        uint64_t asked, offset, gap;
        size_t length;
    } rows[] = {
        {0, 0, 0, 100},           {99, 99, 0, 1},     {100, 950, 850, 50},
        {500, 950, 450, 50},      {949, 950, 1, 50},  {950, 950, 0, 50},
        {999, 999, 0, 1},         {1000, 1000, 0, 0}, {1001, 1000, 0, 0},
        {UINT64_MAX, 1000, 0, 0},
    };
    SBX_AUTO_CLOSE int where = directory();
    struct sbx_stream_writer *writer = create(where, 100, 50);
    put(writer, 1000, 333);
    sbx_stream_end(writer);
    for (size_t i = 0; i < LENGTH(rows); i++) {
        char buffer[4096];
        struct sbx_stream_piece piece =
            read_at(where, rows[i].asked, buffer, sizeof buffer);
        ck_assert_uint_eq(piece.offset, rows[i].offset);
        ck_assert_uint_eq(piece.gap_bytes, rows[i].gap);
        ck_assert_uint_eq(piece.length, rows[i].length);
        ck_assert(piece.state.ended);
    }
    sbx_stream_close(writer);
}
END_TEST

/* --- overwritten while it is read -------------------------------------------------- */

/* What the writer does between the reader's first look and its first bytes. */
static struct {
    struct sbx_stream_writer *writer; /* NULL: nothing */
    uint64_t size;
} meanwhile;

ssize_t __real_pread(int fd, void *buffer, size_t size, off_t offset);
ssize_t __wrap_pread(int fd, void *buffer, size_t size, off_t offset);

ssize_t __wrap_pread(int fd, void *buffer, size_t size, off_t offset)
{
    if (meanwhile.writer != NULL && offset >= 4096) {
        put(meanwhile.writer, meanwhile.size, CHUNK);
        size_t room = 0;
        char *target = sbx_stream_reserve(meanwhile.writer, &room);
        memset(target, '!', room); /* the next chunk is under way */
        meanwhile.writer = NULL;
    }
    return __real_pread(fd, buffer, size, offset);
}

static const struct {
    uint64_t head;
    uint64_t before;    /* bytes, when the reader looks */
    uint64_t asked;     /* of the reader */
    uint64_t meanwhile; /* more bytes */
    uint64_t offset;    /* that the reader gets */
    uint64_t end;
} overwritten[] = {
    /* Tail 64 KiB, so the ring is 128: the chunk under way takes what is not kept. */
    {0, 128 * KIB, 64 * KIB, 0, 64 * KIB, 128 * KIB},
    {0, 128 * KIB, 64 * KIB, 1, 64 * KIB + 1, 128 * KIB},
    {0, 128 * KIB, 64 * KIB, 10000, 64 * KIB + 10000, 128 * KIB},
    {0, 128 * KIB, 100 * KIB, 10000, 100 * KIB, 128 * KIB},
    {0, 128 * KIB, 100 * KIB, 40 * KIB, 104 * KIB, 128 * KIB},
    /* All of it: once more, behind the gap, and with less. */
    {0, 128 * KIB, 64 * KIB, 64 * KIB, 128 * KIB, 192 * KIB},
    {0, 128 * KIB, 64 * KIB, 1000 * KIB, 1064 * KIB, 1128 * KIB},
    /* The head stays, and what is read ends there then. */
    {100, 64 * KIB, 0, 0, 0, 64 * KIB},
    {100, 64 * KIB, 0, 128 * KIB, 0, 100},
    {100, 64 * KIB, 99, 128 * KIB, 99, 100},
    {100, 64 * KIB, 100, 101, 101, 64 * KIB},
};

START_TEST(what_is_overwritten_while_it_is_read_counts_as_dropped)
{
    static char buffer[128 * 1024];
    SBX_AUTO_CLOSE int where = directory();
    struct sbx_stream_writer *writer = create(where, overwritten[_i].head, 64 * KIB);
    put(writer, overwritten[_i].before, CHUNK);
    meanwhile.writer = writer;
    meanwhile.size = overwritten[_i].meanwhile;
    struct sbx_stream_piece piece =
        read_at(where, overwritten[_i].asked, buffer, sizeof buffer);
    ck_assert_ptr_null(meanwhile.writer);
    ck_assert_uint_eq(piece.offset, overwritten[_i].offset);
    ck_assert_uint_eq(piece.gap_bytes, piece.offset - overwritten[_i].asked);
    ck_assert_uint_eq(piece.offset + piece.length, overwritten[_i].end);
    ck_assert_uint_eq(piece.state.total_bytes, sbx_stream_total(writer));
    sbx_stream_close(writer);
}
END_TEST

/* --- while it is written ----------------------------------------------------------- */

static pid_t write_in_child(int where, uint64_t head, uint64_t tail, uint64_t total)
{
    struct sbx_stream_writer *writer = create(where, head, tail);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        put(writer, total, 10007);
        sbx_stream_end(writer);
        _exit(0);
    }
    sbx_stream_close(writer);
    return pid;
}

static void reap(pid_t pid, int signal)
{
    int status = 0;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(WIFSIGNALED(status) ? WTERMSIG(status) : 0, signal);
    ck_assert(signal != 0 || WEXITSTATUS(status) == 0);
}

static const struct {
    uint64_t head, tail;
    size_t step;
} races[] = {
    {32 * KIB, 32 * KIB, 64 * KIB},
    {32 * KIB, 64 * KIB, 64 * KIB},
    {0, 1, 256 * KIB},
    {1, 1000 * KIB, 5000},
};

START_TEST(a_reader_gets_right_bytes_only)
{
    const uint64_t total = 16 * 1024 * KIB;
    SBX_AUTO_CLOSE int where = directory();
    SBX_AUTO_FREE char *buffer = malloc(races[_i].step);
    ck_assert_ptr_nonnull(buffer);
    pid_t pid = write_in_child(where, races[_i].head, races[_i].tail, total);
    uint64_t offset = 0;
    uint64_t got = 0;
    uint64_t gaps = 0;
    struct sbx_stream_piece piece;
    do {
        piece = read_at(where, offset, buffer, races[_i].step);
        ck_assert_uint_eq(piece.offset, offset + piece.gap_bytes);
        got += piece.length;
        gaps += piece.gap_bytes;
        offset = piece.offset + piece.length;
    } while (!piece.state.ended || offset < piece.state.total_bytes);
    ck_assert_uint_eq(offset, total);
    ck_assert_uint_eq(got + gaps, total);
    ck_assert_uint_ge(got, races[_i].head + races[_i].tail);
    reap(pid, 0);
}
END_TEST

START_TEST(a_killed_writer_leaves_what_it_had_committed)
{
    static char buffer[128 * 1024];
    SBX_AUTO_CLOSE int where = directory();
    pid_t pid = write_in_child(where, KIB, 60 * KIB, UINT64_MAX / 4);
    while (look(where).total_bytes < 1024 * KIB) {
    }
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    reap(pid, SIGKILL);
    struct sbx_stream_state state = look(where);
    ck_assert(!state.ended);
    ck_assert_uint_eq(read_at(where, 0, buffer, sizeof buffer).length, KIB);
    struct sbx_stream_piece piece = read_at(where, KIB, buffer, sizeof buffer);
    ck_assert_uint_eq(piece.length, 60 * KIB);
    ck_assert_uint_eq(piece.offset, state.tail_offset);
    ck_assert_uint_eq(piece.offset + piece.length, state.total_bytes);
}
END_TEST

/* --- files that are not what they should be ----------------------------------------- */

static int failed_allocation;

int __real_posix_fallocate(int fd, off_t offset, off_t size);
int __wrap_posix_fallocate(int fd, off_t offset, off_t size);

int __wrap_posix_fallocate(int fd, off_t offset, off_t size)
{
    return failed_allocation != 0 ? failed_allocation
                                  : __real_posix_fallocate(fd, offset, size);
}

START_TEST(a_file_is_whole_or_not_there)
{
    const struct sbx_stream_bounds some = {.head_bytes = 1, .tail_bytes = 1};
    SBX_AUTO_CLOSE int where = directory();
    struct sbx_stream_writer *writer = NULL;
    struct sbx_error err = {0};
    failed_allocation = ENOSPC;
    ck_assert_int_eq(sbx_stream_create(where, "out", &some, &writer, &err), -ENOSPC);
    ck_assert_ptr_null(writer);
    ck_assert_int_eq(err.code, ENOSPC);
    ck_assert_ptr_nonnull(strstr(err.message, "out"));
    ck_assert_int_eq(faccessat(where, "out", F_OK, AT_SYMLINK_NOFOLLOW), -1);
    failed_allocation = 0;
    writer = create(where, 1, 1);
    struct sbx_stream_writer *second = NULL;
    ck_assert_int_eq(sbx_stream_create(where, "out", &some, &second, NULL), -EEXIST);
    ck_assert_ptr_null(second);
    struct stat status;
    ck_assert_int_eq(fstatat(where, "out", &status, AT_SYMLINK_NOFOLLOW), 0);
    ck_assert_uint_eq(status.st_mode & 07777U, 0600);
    ck_assert_int_ge(status.st_blocks * 512, status.st_size);
    sbx_stream_close(writer);
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

/* ENOSYS, EINVAL: a file system that knows no rename that replaces nothing. */
START_TEST(a_file_gets_its_name_last)
{
    static const struct {
        int code, result;
    } rows[] = {{0, 0}, {ENOSYS, 0}, {EINVAL, 0}, {EACCES, -EACCES}};
    const struct sbx_stream_bounds some = {.tail_bytes = 1};
    SBX_AUTO_CLOSE int where = directory();
    for (size_t i = 0; i < LENGTH(rows); i++) {
        struct sbx_stream_writer *writer = NULL;
        failed_rename = rows[i].code;
        int r = sbx_stream_create(where, "out", &some, &writer, NULL);
        ck_assert_int_eq(r, rows[i].result);
        ck_assert_int_eq(writer != NULL, r == 0);
        if (r == 0) {
            ck_assert_uint_eq(look(where).total_bytes, 0);
            r = sbx_stream_create(where, "out", &some, &writer, NULL);
            ck_assert_int_eq(r, -EEXIST);
            ck_assert_int_eq(unlinkat(where, "out", 0), 0);
        }
        sbx_stream_close(writer);
    }
    DIR *list = sbx_fd_list(where);
    for (const struct dirent *entry = readdir(list); entry != NULL;
         entry = readdir(list)) {
        ck_assert_msg(entry->d_name[0] == '.', "%s is left", entry->d_name);
    }
    (void)closedir(list);
}
END_TEST

START_TEST(a_disk_that_is_full_is_told_before_anything_runs)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        return; /* needs root, and to be let */
    }
    ck_assert_int_eq(mkdir(sbx_fixture_path(path, "small"), 0700), 0);
    ck_assert_int_eq(mount("none", path, "tmpfs", 0, "size=256k"), 0);
    int where = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(where, 0);
    const struct sbx_stream_bounds too_much = {.head_bytes = 0, .tail_bytes = 256 * KIB};
    struct sbx_stream_writer *writer = NULL;
    ck_assert_int_eq(sbx_stream_create(where, "out", &too_much, &writer, NULL), -ENOSPC);
    sbx_stream_close(create(where, KIB, KIB)); /* nothing was left */
    ck_assert_int_eq(close(where), 0);
    ck_assert_int_eq(umount2(path, MNT_DETACH), 0);
    ck_assert_int_eq(rmdir(path), 0);
}
END_TEST

START_TEST(bounds_that_make_no_sense_are_refused)
{
    static const struct sbx_stream_bounds rows[] = {
        {0, 0}, {1, 0}, {UINT64_MAX, 1}, {1, UINT64_MAX}, {UINT64_MAX, UINT64_MAX}};
    SBX_AUTO_CLOSE int where = directory();
    for (size_t i = 0; i < LENGTH(rows); i++) {
        struct sbx_stream_writer *writer = NULL;
        ck_assert_int_eq(sbx_stream_create(where, "out", &rows[i], &writer, NULL),
                         -EINVAL);
    }
    ck_assert_int_eq(faccessat(where, "out", F_OK, AT_SYMLINK_NOFOLLOW), -1);
}
END_TEST

static void expect_bad(int where, int code)
{
    char buffer[64];
    struct sbx_stream_state state;
    struct sbx_stream_piece piece;
    memset(&state, 0x5a, sizeof state);
    memset(&piece, 0x5a, sizeof piece);
    const struct sbx_stream_state old_state = state;
    const struct sbx_stream_piece old_piece = piece;
    ck_assert_int_eq(sbx_stream_look(where, "out", &state), code);
    ck_assert_int_eq(sbx_stream_read(where, "out", 0, buffer, sizeof buffer, &piece),
                     code);
    ck_assert_mem_eq(&state, &old_state, sizeof state);
    ck_assert_mem_eq(&piece, &old_piece, sizeof piece);
}

START_TEST(what_is_no_stream_is_told)
{
    SBX_AUTO_CLOSE int where = directory();
    expect_bad(where, -ENOENT);
    ck_assert_int_eq(symlinkat("/dev/zero", where, "out"), 0);
    expect_bad(where, -EBADMSG);
    ck_assert_int_eq(unlinkat(where, "out", 0), 0);
    ck_assert_int_eq(mkfifoat(where, "out", 0600), 0);
    expect_bad(where, -EBADMSG);
    ck_assert_int_eq(unlinkat(where, "out", 0), 0);
    ck_assert_int_eq(mkdirat(where, "out", 0700), 0);
    expect_bad(where, -EBADMSG);
    ck_assert_int_eq(unlinkat(where, "out", AT_REMOVEDIR), 0);
    SBX_AUTO_CLOSE int fd = openat(where, "out", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    expect_bad(where, -EBADMSG);
    ck_assert_int_eq(ftruncate(fd, 1024 * 1024), 0);
    expect_bad(where, -EBADMSG);
    ck_assert_int_eq(unlinkat(where, "out", 0), 0);
    sbx_stream_close(create(where, 1, 1));
    ck_assert_int_eq(renameat(where, "out", where, "real"), 0);
    ck_assert_int_eq(symlinkat("real", where, "out"), 0);
    expect_bad(where, -EBADMSG);
}
END_TEST

START_TEST(a_damaged_head_is_told)
{
    /* The words: magic, head, tail, ring. */
    static const uint64_t values[] = {0, 65537, UINT64_MAX, UINT64_MAX / 2};
    SBX_AUTO_CLOSE int where = directory();
    struct sbx_stream_writer *writer = create(where, 100, 5000);
    put(writer, 10000, 1000);
    sbx_stream_close(writer);
    SBX_AUTO_CLOSE int fd = openat(where, "out", O_RDWR | O_CLOEXEC);
    for (off_t word = 0; word < 4; word++) {
        uint64_t good = 0;
        ck_assert_int_eq(pread(fd, &good, 8, word * 8), 8);
        for (size_t i = 0; i < LENGTH(values); i++) {
            ck_assert_int_eq(pwrite(fd, &values[i], 8, word * 8), 8);
            expect_bad(where, -EBADMSG);
        }
        ck_assert_int_eq(pwrite(fd, &good, 8, word * 8), 8);
    }
    ck_assert_uint_eq(look(where).total_bytes, 10000);
    ck_assert_int_eq(ftruncate(fd, 60000), 0);
    expect_bad(where, -EBADMSG);
}
END_TEST

START_TEST(any_total_is_survived)
{
    static const uint64_t values[] = {
        0, 1, UINT64_MAX, UINT64_MAX - 1, UINT64_MAX / 2, 1U << 20, 10000 * 2 + 1};
    static const uint64_t offsets[] = {
        0, 99, 100, 101, 5000, 1U << 19, UINT64_MAX / 2, UINT64_MAX};
    static char buffer[200 * 1024];
    SBX_AUTO_CLOSE int where = directory();
    struct sbx_stream_writer *writer = create(where, 100, 5000);
    sbx_stream_close(writer);
    SBX_AUTO_CLOSE int fd = openat(where, "out", O_RDWR | O_CLOEXEC);
    for (size_t i = 0; i < LENGTH(values); i++) {
        ck_assert_int_eq(pwrite(fd, &values[i], 8, 32), 8);
        ck_assert_uint_eq(look(where).total_bytes, values[i] / 2);
        for (size_t j = 0; j < LENGTH(offsets); j++) {
            struct sbx_stream_piece piece;
            ck_assert_int_eq(
                sbx_stream_read(where, "out", offsets[j], buffer, sizeof buffer, &piece),
                0);
            ck_assert_uint_le(piece.length, 5100);
            ck_assert_uint_le(piece.offset + piece.length, values[i] / 2);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stream");
    TCase *tcase = sbx_fixture_case(suite, "stream", 60);
    tcase_add_loop_test(tcase, keeps_what_the_bounds_say, 0,
                        (int)(LENGTH(bounds) * LENGTH(pieces)));
    tcase_add_test(tcase, what_is_reserved_overwrites_nothing_that_is_kept);
    tcase_add_test(tcase, a_read_ends_and_begins_where_the_gap_does);
    tcase_add_loop_test(tcase, what_is_overwritten_while_it_is_read_counts_as_dropped, 0,
                        (int)LENGTH(overwritten));
    tcase_add_loop_test(tcase, a_reader_gets_right_bytes_only, 0, (int)LENGTH(races));
    tcase_add_test(tcase, a_killed_writer_leaves_what_it_had_committed);
    tcase_add_test(tcase, a_file_is_whole_or_not_there);
    tcase_add_test(tcase, a_file_gets_its_name_last);
    tcase_add_test(tcase, a_disk_that_is_full_is_told_before_anything_runs);
    tcase_add_test(tcase, bounds_that_make_no_sense_are_refused);
    tcase_add_test(tcase, what_is_no_stream_is_told);
    tcase_add_test(tcase, a_damaged_head_is_told);
    tcase_add_test(tcase, any_total_is_survived);
    return sbx_fixture_run(suite);
}
