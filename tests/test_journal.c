/*
 * test_journal.c - events in a file, as another process reads them: numbers without
 * holes, what is dropped, a writer at full speed, killed, and followed by another, and
 * files that are not what they should be.
 *
 * Everything in an event of these tests follows from its number, so that each that is
 * read can be told to be the right one.
 */
#include "supervisor/journal.h"

#include "base/fd.h"
#include "tests/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define LARGEST SBX_EVENT_DATA_MAX

static int directory(void)
{
    int fd = open(sbx_fixture_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    return fd;
}

static uint64_t mixed(uint64_t number)
{
    return (number + 1) * UINT64_C(0x9E3779B97F4A7C15);
}

static char pattern[LARGEST + 256];

static void fill_pattern(void)
{
    for (size_t i = 0; i < sizeof pattern; i++) {
        pattern[i] = (char)(mixed(i) >> 56);
    }
}

/* What the event with that number is, with data of that length. */
static struct sbx_event event_of(uint64_t sequence, size_t length)
{
    return (struct sbx_event){
        .sequence = sequence,
        .type = (enum sbx_event_type)(1 + sequence % SBX_EVENT_FINISHED),
        .stream = (int)(sequence % 3),
        .at_real_us = mixed(sequence),
        .offset = mixed(sequence + 1),
        .value = mixed(sequence + 2),
        .length = length,
        .data = pattern + sequence % 256};
}

static bool is_right(const struct sbx_event *event)
{
    struct sbx_event right = event_of(event->sequence, event->length);
    return event->type == right.type && event->stream == right.stream &&
           event->at_real_us == right.at_real_us && event->offset == right.offset &&
           event->value == right.value && event->length <= LARGEST &&
           memcmp(event->data, right.data, event->length) == 0;
}

/* Lengths that differ, some 0, some the largest, as a function of the number. */
static size_t any_length(uint64_t sequence)
{
    uint64_t dice = mixed(sequence) >> 32;
    return dice % 7 == 0 ? 0 : dice % 11 == 0 ? LARGEST : dice % 3000;
}

static void append(struct sbx_journal *journal, size_t length)
{
    uint64_t sequence = sbx_journal_latest(journal) + 1;
    struct sbx_event event = event_of(sequence, length);
    event.sequence = 4711; /* is not looked at */
    if (sbx_journal_append(journal, &event) != sequence ||
        sbx_journal_latest(journal) != sequence) {
        ck_abort_msg("event %ju got another number", (uintmax_t)sequence);
    }
}

static struct sbx_journal *create(int where, uint64_t events_count)
{
    struct sbx_journal *journal = NULL;
    struct sbx_error err = {0};
    int r = sbx_journal_create(where, "events", events_count, &journal, &err);
    ck_assert_msg(r == 0, "%s", err.message);
    return journal;
}

/* What a walk has seen. */
struct seen {
    uint64_t first; /* 0: nothing */
    uint64_t last;
    uint64_t count;
    uint64_t until; /* ends the walk behind so many; 0: never */
};

static bool see(const struct sbx_event *event, void *context)
{
    struct seen *seen = context;
    if (seen->count > 0 && event->sequence != seen->last + 1) {
        ck_abort_msg("%ju comes after %ju", (uintmax_t)event->sequence,
                     (uintmax_t)seen->last);
    }
    if (!is_right(event)) {
        ck_abort_msg("event %ju is wrong", (uintmax_t)event->sequence);
    }
    seen->first = seen->count == 0 ? event->sequence : seen->first;
    seen->last = event->sequence;
    seen->count++;
    return seen->count != seen->until;
}

static struct seen walk(int where, uint64_t after, uint64_t until,
                        struct sbx_journal_state *ret_state)
{
    struct seen seen = {.until = until};
    int r = sbx_journal_read(where, "events", after, see, &seen, ret_state);
    if (r != 0) {
        ck_abort_msg("reading behind %ju: %d", (uintmax_t)after, r);
    }
    return seen;
}

static void expect_kept(int where, uint64_t first, uint64_t latest)
{
    struct sbx_journal_state state;
    ck_assert_int_eq(sbx_journal_look(where, "events", &state), 0);
    ck_assert_uint_eq(state.first_sequence, first);
    ck_assert_uint_eq(state.latest_sequence, latest);
    struct seen seen = walk(where, 0, 0, &state);
    ck_assert_uint_eq(state.first_sequence, first);
    ck_assert_uint_eq(state.latest_sequence, latest);
    ck_assert_uint_eq(seen.count, latest + 1 - first);
    if (seen.count > 0) {
        ck_assert_uint_eq(seen.first, first);
        ck_assert_uint_eq(seen.last, latest);
    }
}

/* --- bounds ------------------------------------------------------------------------ */

static const struct {
    uint64_t count; /* asked for */
    size_t length;  /* of each event */
    uint64_t total;
    uint64_t first; /* that is kept */
} bounds[] = {
    {8, 0, 0, 1},          {8, 0, 1, 1},
    {8, 0, 8, 1},          {8, 0, 9, 2},
    {8, 0, 10000, 9993},   {1, 10, 9, 2},         /* at least eight */
    {8, LARGEST, 8, 1},                           /* eight of the largest */
    {8, LARGEST, 100, 93}, {64, LARGEST, 8, 1},   /* 64 KiB are eight of them */
    {64, LARGEST, 9, 2},   {100, LARGEST, 13, 2}, /* 100 KiB: twelve, and a half */
    {512, 1024, 512, 1},   {512, 1024, 5120, 4609},
    {512, 1025, 512, 2},   {512, 1, 100000, 99489},
};

START_TEST(keeps_what_the_bounds_say)
{
    SBX_AUTO_CLOSE int where = directory();
    struct sbx_journal *journal = create(where, bounds[_i].count);
    for (uint64_t i = 0; i < bounds[_i].total; i++) {
        append(journal, bounds[_i].length);
    }
    expect_kept(where, bounds[_i].first, bounds[_i].total);
    sbx_journal_close(journal);
    expect_kept(where, bounds[_i].first, bounds[_i].total);
}
END_TEST

START_TEST(a_walk_begins_and_ends_where_it_is_told)
{
    static const struct {
        uint64_t after, until, first, count;
    } rows[] = {
        {0, 0, 93, 8},  {0, 3, 93, 3},  {92, 0, 93, 8},
        {93, 0, 94, 7}, {95, 1, 96, 1}, {99, 0, 100, 1},
        {100, 0, 0, 0}, {101, 0, 0, 0}, {UINT64_MAX, 0, 0, 0},
    };
    SBX_AUTO_CLOSE int where = directory();
    struct sbx_journal *journal = create(where, 8);
    for (uint64_t i = 1; i <= 100; i++) {
        append(journal, any_length(i));
    }
    for (size_t i = 0; i < LENGTH(rows); i++) {
        struct sbx_journal_state state;
        struct seen seen = walk(where, rows[i].after, rows[i].until, &state);
        ck_assert_uint_eq(seen.first, rows[i].first);
        ck_assert_uint_eq(seen.count, rows[i].count);
        ck_assert_uint_eq(state.latest_sequence, 100);
    }
    sbx_journal_close(journal);
}
END_TEST

START_TEST(data_that_is_too_long_is_cut)
{
    static char data[LARGEST + 1];
    SBX_AUTO_CLOSE int where = directory();
    struct sbx_journal *journal = create(where, 8);
    struct sbx_event event = event_of(1, LARGEST);
    memcpy(data, event.data, LARGEST);
    event.data = data;
    event.length = sizeof data;
    ck_assert_uint_eq(sbx_journal_append(journal, &event), 1);
    event = event_of(2, 0);
    event.data = NULL;
    ck_assert_uint_eq(sbx_journal_append(journal, &event), 2);
    sbx_journal_close(journal);
    expect_kept(where, 1, 2);
}
END_TEST

START_TEST(names_are_those_of_the_contract)
{
    static const char *const names[] = {NULL,  "started", "stdout", "stderr",
                                        "gap", "warning", "breach", "finished"};
    for (size_t i = 1; i < LENGTH(names); i++) {
        ck_assert_str_eq(sbx_event_type_name((enum sbx_event_type)i), names[i]);
    }
    ck_assert_ptr_null(sbx_event_type_name((enum sbx_event_type)0));
    ck_assert_ptr_null(sbx_event_type_name((enum sbx_event_type)LENGTH(names)));
    ck_assert_ptr_null(sbx_event_type_name((enum sbx_event_type)(-1)));
}
END_TEST

/* --- while it is written ----------------------------------------------------------- */

static pid_t write_in_child(int where, uint64_t events_count, uint64_t total)
{
    struct sbx_journal *journal = create(where, events_count);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        for (uint64_t i = 1; i <= total; i++) {
            append(journal, any_length(i));
        }
        _exit(0);
    }
    sbx_journal_close(journal);
    return pid;
}

static void reap(pid_t pid, int signal)
{
    int status = 0;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(WIFSIGNALED(status) ? WTERMSIG(status) : 0, signal);
    ck_assert(signal != 0 || WEXITSTATUS(status) == 0);
}

static const uint64_t races[] = {8, 100, 4096};

START_TEST(a_reader_gets_each_event_once_and_right)
{
    const uint64_t total = 300000;
    SBX_AUTO_CLOSE int where = directory();
    pid_t pid = write_in_child(where, races[_i], total);
    uint64_t after = 0;
    uint64_t got = 0;
    while (after < total) {
        struct sbx_journal_state state;
        struct seen seen = walk(where, after, 0, &state);
        if (seen.count > 0) {
            if (seen.first <= after || state.latest_sequence < seen.last) {
                ck_abort_msg("%ju after %ju, latest %ju", (uintmax_t)seen.first,
                             (uintmax_t)after, (uintmax_t)state.latest_sequence);
            }
            after = seen.last;
        }
        got += seen.count;
    }
    ck_assert_uint_ge(got, 8);
    reap(pid, 0);
}
END_TEST

START_TEST(another_writes_on_behind_a_killed_one)
{
    SBX_AUTO_CLOSE int where = directory();
    for (int round = 0; round < 20; round++) {
        pid_t pid = write_in_child(where, 8, UINT64_MAX);
        struct sbx_journal_state state = {0};
        while (state.latest_sequence < 1000) {
            ck_assert_int_eq(sbx_journal_look(where, "events", &state), 0);
        }
        ck_assert_int_eq(kill(pid, SIGKILL), 0);
        reap(pid, SIGKILL);
        ck_assert_int_eq(sbx_journal_look(where, "events", &state), 0);
        expect_kept(where, state.first_sequence, state.latest_sequence);
        struct sbx_journal *journal = NULL;
        ck_assert_int_eq(sbx_journal_open(where, "events", &journal, NULL), 0);
        uint64_t latest = state.latest_sequence;
        ck_assert_uint_eq(sbx_journal_latest(journal), latest);
        for (uint64_t i = 0; i < 20; i++) {
            append(journal, i % 3 == 0 ? LARGEST : 5);
            walk(where, 0, 0, &state);
            ck_assert_uint_eq(state.latest_sequence, ++latest);
        }
        sbx_journal_close(journal);
        expect_kept(where, latest - 7, latest);
        ck_assert_int_eq(unlinkat(where, "events", 0), 0);
    }
}
END_TEST

START_TEST(another_writes_on_from_the_beginning)
{
    SBX_AUTO_CLOSE int where = directory();
    sbx_journal_close(create(where, 8));
    struct sbx_journal *journal = NULL;
    ck_assert_int_eq(sbx_journal_open(where, "events", &journal, NULL), 0);
    append(journal, 10);
    expect_kept(where, 1, 1);
    for (uint64_t i = 2; i <= 1000; i++) {
        append(journal, any_length(i));
    }
    sbx_journal_close(journal);
    expect_kept(where, 993, 1000);
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
    SBX_AUTO_CLOSE int where = directory();
    struct sbx_journal *journal = NULL;
    failed_allocation = ENOSPC;
    ck_assert_int_eq(sbx_journal_create(where, "events", 8, &journal, NULL), -ENOSPC);
    ck_assert_int_eq(faccessat(where, "events", F_OK, AT_SYMLINK_NOFOLLOW), -1);
    failed_allocation = 0;
    ck_assert_int_eq(sbx_journal_create(where, "events", UINT64_MAX, &journal, NULL),
                     -EINVAL);
    ck_assert_int_eq(faccessat(where, "events", F_OK, AT_SYMLINK_NOFOLLOW), -1);
    ck_assert_ptr_null(journal);
    sbx_journal_close(create(where, 8));
    ck_assert_int_eq(sbx_journal_create(where, "events", 8, &journal, NULL), -EEXIST);
    struct stat status;
    ck_assert_int_eq(fstatat(where, "events", &status, AT_SYMLINK_NOFOLLOW), 0);
    ck_assert_uint_eq(status.st_mode & 07777U, 0600);
    ck_assert_int_ge(status.st_blocks * 512, status.st_size);
}
END_TEST

/* Without the signal that would end the process. */
START_TEST(a_limit_on_files_is_told)
{
    SBX_AUTO_CLOSE int where = directory();
    struct sbx_journal *journal = NULL;
    struct rlimit before;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit less = {.rlim_cur = 50000, .rlim_max = before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &less), 0);
    int r = sbx_journal_create(where, "events", 8, &journal, NULL);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    ck_assert_int_eq(r, -EFBIG);
    DIR *list = sbx_fd_list(where);
    for (const struct dirent *entry = readdir(list); entry != NULL;
         entry = readdir(list)) {
        ck_assert_msg(entry->d_name[0] == '.', "%s is left", entry->d_name);
    }
    (void)closedir(list);
}
END_TEST

static bool count_anything(const struct sbx_event *event, void *context)
{
    uint64_t *count = context;
    (*count)++;
    return event->length <= LARGEST;
}

static void expect_bad(int where, int code)
{
    struct sbx_journal_state state = {.first_sequence = 77, .latest_sequence = 78};
    struct sbx_journal *journal = NULL;
    uint64_t count = 0;
    ck_assert_int_eq(sbx_journal_look(where, "events", &state), code);
    ck_assert_int_eq(sbx_journal_read(where, "events", 0, count_anything, &count, &state),
                     code);
    ck_assert_int_eq(sbx_journal_open(where, "events", &journal, NULL), code);
    ck_assert_ptr_null(journal);
    ck_assert_uint_eq(state.first_sequence + state.latest_sequence, 77 + 78);
    ck_assert_uint_eq(count, 0);
}

START_TEST(what_is_no_journal_is_told)
{
    SBX_AUTO_CLOSE int where = directory();
    expect_bad(where, -ENOENT);
    ck_assert_int_eq(symlinkat("/dev/zero", where, "events"), 0);
    expect_bad(where, -EBADMSG);
    ck_assert_int_eq(unlinkat(where, "events", 0), 0);
    ck_assert_int_eq(mkfifoat(where, "events", 0600), 0);
    expect_bad(where, -EBADMSG);
    ck_assert_int_eq(unlinkat(where, "events", 0), 0);
    SBX_AUTO_CLOSE int fd = openat(where, "events", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    expect_bad(where, -EBADMSG);
    ck_assert_int_eq(ftruncate(fd, 1024 * 1024), 0);
    expect_bad(where, -EBADMSG);
}
END_TEST

static const uint64_t odd[] = {
    0, 1, 7, 9, 50, 1U << 24, UINT64_MAX, UINT64_MAX / 2, UINT64_MAX / 2 + 1};

START_TEST(a_damaged_head_is_told)
{
    SBX_AUTO_CLOSE int where = directory();
    struct sbx_journal *journal = create(where, 8);
    for (uint64_t i = 0; i < 40; i++) {
        append(journal, 100);
    }
    sbx_journal_close(journal);
    SBX_AUTO_CLOSE int fd = openat(where, "events", O_RDWR | O_CLOEXEC);
    for (off_t word = 0; word < 3; word++) {
        uint64_t good = 0;
        ck_assert_int_eq(pread(fd, &good, 8, word * 8), 8);
        for (size_t i = 0; i < LENGTH(odd); i++) {
            ck_assert_int_eq(pwrite(fd, &odd[i], 8, word * 8), 8);
            expect_bad(where, -EBADMSG);
        }
        ck_assert_int_eq(pwrite(fd, &good, 8, word * 8), 8);
    }
    expect_kept(where, 33, 40);
    ck_assert_int_eq(ftruncate(fd, 5000), 0);
    expect_bad(where, -EBADMSG);
}
END_TEST

/* Whatever a word is, a walk ends, within what there can be, and so does a writer. */
START_TEST(any_word_is_survived)
{
    SBX_AUTO_CLOSE int where = directory();
    struct sbx_journal *journal = create(where, 8);
    for (uint64_t i = 0; i < 40; i++) {
        append(journal, 100);
    }
    sbx_journal_close(journal);
    SBX_AUTO_CLOSE int fd = openat(where, "events", O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    static char whole[256 * 1024];
    ssize_t size = pread(fd, whole, sizeof whole, 0);
    ck_assert_int_gt(size, 4096 + 8 * 48);
    for (size_t word = 3; word < 512 + 8 * 6; word = word == 4 ? 512 : word + 1) {
        for (size_t i = 0; i < LENGTH(odd); i++) {
            ck_assert_int_eq(pwrite(fd, &odd[i], 8, (off_t)word * 8), 8);
            struct sbx_journal_state state;
            uint64_t count = 0;
            int r = sbx_journal_read(where, "events", 0, count_anything, &count, &state);
            ck_assert(r == 0 || r == -EBADMSG);
            ck_assert_uint_le(count, 8);
            r = sbx_journal_open(where, "events", &journal, NULL);
            ck_assert(r == 0 || r == -EBADMSG);
            for (uint64_t j = 0; r == 0 && j < 10; j++) {
                const struct sbx_event event = event_of(j, any_length(j));
                (void)sbx_journal_append(journal, &event);
            }
            if (r == 0) {
                sbx_journal_close(journal);
            }
            struct stat status;
            ck_assert_int_eq(fstat(fd, &status), 0);
            ck_assert_int_eq(status.st_size, size);
            ck_assert_int_eq(pwrite(fd, whole, (size_t)size, 0), size);
        }
    }
    expect_kept(where, 33, 40);
}
END_TEST

int main(void)
{
    fill_pattern();
    Suite *suite = suite_create("journal");
    TCase *tcase = sbx_fixture_case(suite, "journal", 60);
    tcase_add_loop_test(tcase, keeps_what_the_bounds_say, 0, (int)LENGTH(bounds));
    tcase_add_test(tcase, a_walk_begins_and_ends_where_it_is_told);
    tcase_add_test(tcase, data_that_is_too_long_is_cut);
    tcase_add_test(tcase, names_are_those_of_the_contract);
    tcase_add_loop_test(tcase, a_reader_gets_each_event_once_and_right, 0,
                        (int)LENGTH(races));
    tcase_add_test(tcase, another_writes_on_behind_a_killed_one);
    tcase_add_test(tcase, another_writes_on_from_the_beginning);
    tcase_add_test(tcase, a_file_is_whole_or_not_there);
    tcase_add_test(tcase, a_limit_on_files_is_told);
    tcase_add_test(tcase, what_is_no_journal_is_told);
    tcase_add_test(tcase, a_damaged_head_is_told);
    tcase_add_test(tcase, any_word_is_survived);
    return sbx_fixture_run(suite);
}
