/*
 * test_statistics.c - what a group tells about itself: the readers on text and on
 * captured files (tests/data/cgroup), figures and alarm on real groups, bare ones and,
 * where they can be had, those with controllers; and whose OOM killer it was.
 */
#include "cgroup/ancestors.h"
#include "cgroup/statistics.h"
#include "cgroup/statistics_text.h"

#include "base/clock.h"
#include "base/fd.h"
#include "tests/fixture.h"
#include "tests/ward_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define UNKNOWN UINT64_MAX
#define MIB (1024U * 1024U)

/* --- texts -------------------------------------------------------------------------- */

#define AT(member) offsetof(struct sbx_figures, member)

static const struct {
    enum sbx_statistics_file file;
    const char *text;
    size_t offset;
    uint64_t value;
} texts[] = {
    {SBX_FILE_MEMORY_CURRENT, "0\n", AT(memory_bytes), 0},
    {SBX_FILE_MEMORY_CURRENT, "4096\n", AT(memory_bytes), 4096},
    {SBX_FILE_MEMORY_CURRENT, "18446744073709551614\n", AT(memory_bytes), UNKNOWN - 1},
    {SBX_FILE_MEMORY_CURRENT, "18446744073709551616\n", AT(memory_bytes), UNKNOWN},
    {SBX_FILE_MEMORY_CURRENT, "184467440737095516150\n", AT(memory_bytes), UNKNOWN},
    {SBX_FILE_MEMORY_CURRENT, "max\n", AT(memory_bytes), UNKNOWN},
    {SBX_FILE_MEMORY_CURRENT, "", AT(memory_bytes), UNKNOWN},
    {SBX_FILE_MEMORY_CURRENT, "\n", AT(memory_bytes), UNKNOWN},
    {SBX_FILE_MEMORY_CURRENT, "409", AT(memory_bytes), UNKNOWN}, /* cut */
    {SBX_FILE_MEMORY_CURRENT, "4096\n\n", AT(memory_bytes), UNKNOWN},
    {SBX_FILE_MEMORY_CURRENT, " 4096\n", AT(memory_bytes), UNKNOWN},
    {SBX_FILE_MEMORY_CURRENT, "+4096\n", AT(memory_bytes), UNKNOWN},
    {SBX_FILE_MEMORY_CURRENT, "-1\n", AT(memory_bytes), UNKNOWN},
    {SBX_FILE_MEMORY_CURRENT, "010\n", AT(memory_bytes), UNKNOWN},
    {SBX_FILE_MEMORY_CURRENT, "0x10\n", AT(memory_bytes), UNKNOWN},
    {SBX_FILE_MEMORY_PEAK, "7\n", AT(memory_peak_bytes), 7},
    {SBX_FILE_SWAP_CURRENT, "8\n", AT(swap_bytes), 8},
    {SBX_FILE_SWAP_PEAK, "9\n", AT(swap_peak_bytes), 9},
    {SBX_FILE_PIDS_CURRENT, "10\n", AT(tasks), 10},
    {SBX_FILE_PIDS_PEAK, "11\n", AT(tasks_peak), 11},
    {SBX_FILE_MEMORY_STAT, "inactive_anon 1\nanon 2\n", AT(anon_bytes), 2},
    {SBX_FILE_MEMORY_STAT, "anon_thp 1\nxanon 3\n", AT(anon_bytes), UNKNOWN},
    {SBX_FILE_MEMORY_STAT, "anon 5\nanon 6\n", AT(anon_bytes), 5},
    {SBX_FILE_MEMORY_STAT, "anon 5", AT(anon_bytes), UNKNOWN},
    {SBX_FILE_MEMORY_STAT, "anon\nanon  5\nanon\t5\n", AT(anon_bytes), UNKNOWN},
    {SBX_FILE_MEMORY_STAT, "file 1\nshmem_thp 2\nshmem 3\n", AT(shmem_bytes), 3},
    {SBX_FILE_MEMORY_EVENTS, "oom_kill 1\noom 2\n", AT(oom), 2},
    {SBX_FILE_MEMORY_EVENTS, "oom 2\noom_group_kill 3\noom_kill 4\n", AT(oom_kill), 4},
    {SBX_FILE_MEMORY_EVENTS, "oom 2\noom_group_kill 3\n", AT(oom_kill), UNKNOWN},
    {SBX_FILE_MEMORY_EVENTS, "oom_group_kill 3\n", AT(oom_group_kill), 3},
    {SBX_FILE_MEMORY_EVENTS, "oom 2 \n", AT(oom), UNKNOWN},
    {SBX_FILE_MEMORY_EVENTS_LOCAL, "max 9\noom 6\n", AT(local_oom), 6},
    {SBX_FILE_PIDS_EVENTS, "max 3\n", AT(forks_refused), 3},
    {SBX_FILE_PIDS_EVENTS, "max max\n", AT(forks_refused), UNKNOWN},
    {SBX_FILE_PIDS_EVENTS_LOCAL, "max 4\n", AT(forks_refused_local), 4},
    {SBX_FILE_CPU, "usage_usec 5\nuser_usec 3\n", AT(cpu_us), 5},
    {SBX_FILE_CPU, "usage_usec 5\nuser_usec 3\n", AT(cpu_user_us), 3},
    {SBX_FILE_CPU, "usage_usec 5\nuser_usec 3\n", AT(cpu_system_us), UNKNOWN},
    {SBX_FILE_MEMORY_PRESSURE, "some avg10=0.00 avg60=0.00 avg300=0.00 total=12\n",
     AT(memory_pressure_us), 12},
    {SBX_FILE_MEMORY_PRESSURE, "full avg10=0.00 avg60=0.00 avg300=0.00 total=12\n",
     AT(memory_pressure_us), UNKNOWN},
    {SBX_FILE_MEMORY_PRESSURE, "some avg10=0.00 total=12 x=1\n", AT(memory_pressure_us),
     UNKNOWN},
    {SBX_FILE_MEMORY_PRESSURE, "some\n", AT(memory_pressure_us), UNKNOWN},
};

START_TEST(text_gives)
{
    struct sbx_figures figures;
    uint64_t value;
    sbx_statistics_forget(&figures);
    /* A copy of exactly that length: a sanitizer sees who reads past it. */
    size_t length = strlen(texts[_i].text);
    char *copy = malloc(length + 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy + 1, texts[_i].text, length);
    sbx_statistics_parse(texts[_i].file, copy + 1, length, &figures);
    free(copy);
    memcpy(&value, (const char *)&figures + texts[_i].offset, sizeof value);
    ck_assert_msg(value == texts[_i].value, "'%s': %llu", texts[_i].text,
                  (unsigned long long)value);
}
END_TEST

START_TEST(populated_unless_a_zero_says_so)
{
    static const struct {
        const char *text;
        bool populated;
        bool frozen;
    } rows[] = {{"populated 0\nfrozen 0\n", false, false},
                {"populated 1\nfrozen 1\n", true, true},
                {"frozen 1\npopulated 0\n", false, true},
                {"populated 0", true, false},
                {"populated 00\n", true, false},
                {"", true, false},
                {"unpopulated 0\nfrozen 2\n", true, false}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct sbx_figures figures;
        sbx_statistics_forget(&figures);
        sbx_statistics_parse(SBX_FILE_EVENTS, rows[i].text, strlen(rows[i].text),
                             &figures);
        ck_assert_msg(figures.populated == rows[i].populated &&
                          figures.frozen == rows[i].frozen,
                      "row %zu", i);
    }
}
END_TEST

/* --- captured files ----------------------------------------------------------------- */

static int open_directory(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
    return fd;
}

/* Files of which the kernel tells no changes: the alarm has no members. */
START_TEST(captured)
{
    static const char *const names[] = {"6.1", "6.12"};
    char path[512];
    bool newer = _i == 1;
    (void)snprintf(path, sizeof path, "%s/cgroup/%s", SBX_TEST_DATA, names[_i]);
    SBX_AUTO_CLOSE int fd = open_directory(path);
    struct sbx_statistics statistics;
    struct sbx_figures figures;
    ck_assert_int_eq(sbx_statistics_open(fd, &statistics, NULL), 0);
    ck_assert_int_eq(statistics.alarm, -1);
    sbx_statistics_quiet(&statistics);
    sbx_statistics_read(&statistics, SBX_FILES_ALL, &figures);
    ck_assert(figures.populated && !figures.frozen);
    ck_assert_uint_gt(figures.cpu_us, 1000000);
    ck_assert_uint_eq(figures.memory_peak_bytes, 33554432);
    ck_assert_uint_eq(figures.shmem_bytes, 5242880);
    ck_assert_uint_ge(figures.anon_bytes, 3000000);
    ck_assert_uint_lt(figures.anon_bytes, 4000000);
    ck_assert_uint_eq(figures.swap_bytes, 0);
    ck_assert_uint_eq(figures.swap_peak_bytes, newer ? 0 : UNKNOWN);
    ck_assert_uint_ge(figures.oom, 1);
    ck_assert_uint_eq(figures.oom_kill, 1);
    ck_assert_uint_eq(figures.oom_group_kill, 0);
    ck_assert_uint_eq(figures.local_oom, figures.oom);
    ck_assert_uint_gt(figures.memory_pressure_us, 0);
    ck_assert_uint_lt(figures.memory_pressure_us, 10000000);
    ck_assert_uint_eq(figures.tasks, 2);
    ck_assert_uint_eq(figures.tasks_peak, 8);
    ck_assert_uint_eq(figures.forks_refused, 1);
    ck_assert_uint_eq(figures.forks_refused_local, newer ? 1 : UNKNOWN);

    sbx_statistics_read(&statistics, SBX_FILE_BIT(SBX_FILE_PIDS_PEAK), &figures);
    ck_assert_uint_eq(figures.tasks_peak, 8);
    ck_assert_uint_eq(figures.memory_bytes, UNKNOWN); /* nobody asked */
    sbx_statistics_close(&statistics);
}
END_TEST

static void put(const char *directory, const char *name, const char *text, size_t length)
{
    char path[SBX_FIXTURE_PATH_SIZE + 64];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    SBX_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    ck_assert_msg(fd >= 0 && write(fd, text, length) == (ssize_t)length, "%s", path);
}

static void put_text(const char *directory, const char *name, const char *text)
{
    put(directory, name, text, strlen(text));
}

START_TEST(needs_events_and_cpu)
{
    struct sbx_statistics statistics;
    struct sbx_error error = {0};
    SBX_AUTO_CLOSE int fd = open_directory(sbx_fixture_dir());
    ck_assert_int_eq(sbx_statistics_open(fd, &statistics, &error), -ENOENT);
    ck_assert_ptr_nonnull(strstr(error.message, "cgroup.events"));
    put_text(sbx_fixture_dir(), "cgroup.events", "populated 0\n");
    ck_assert_int_eq(sbx_statistics_open(fd, &statistics, &error), -ENOENT);
    ck_assert_ptr_nonnull(strstr(error.message, "cpu.stat"));
    put_text(sbx_fixture_dir(), "cpu.stat", "usage_usec 5\n");
    ck_assert_int_eq(sbx_statistics_open(fd, &statistics, &error), 0);
    struct sbx_figures figures;
    sbx_statistics_read(&statistics, SBX_FILES_ALL, &figures);
    ck_assert(!figures.populated);
    ck_assert_uint_eq(figures.cpu_us, 5);
    ck_assert_uint_eq(figures.memory_bytes, UNKNOWN);
    ck_assert_uint_eq(figures.oom_kill, UNKNOWN);
    sbx_statistics_close(&statistics);
}
END_TEST

/* A memory.stat that does not fit: its beginning counts. */
START_TEST(long_stat)
{
    static char text[40000];
    size_t length = 0;
    while (length < sizeof text - 100) {
        length += (size_t)sprintf(text + length, "filler_%zu 1\n", length);
        if (length > 9000 && length < 9020) {
            length += (size_t)sprintf(text + length, "anon 77\n");
        }
    }
    (void)sprintf(text + length, "shmem 88\n");
    put_text(sbx_fixture_dir(), "cgroup.events", "");
    put_text(sbx_fixture_dir(), "cpu.stat", "");
    put_text(sbx_fixture_dir(), "memory.stat", text);
    SBX_AUTO_CLOSE int fd = open_directory(sbx_fixture_dir());
    struct sbx_statistics statistics;
    struct sbx_figures figures;
    ck_assert_int_eq(sbx_statistics_open(fd, &statistics, NULL), 0);
    sbx_statistics_read(&statistics, SBX_FILES_ALL, &figures);
    ck_assert_uint_eq(figures.anon_bytes, 77);
    ck_assert_uint_eq(figures.shmem_bytes, UNKNOWN);
    ck_assert(figures.populated); /* the file said nothing */
    sbx_statistics_close(&statistics);
}
END_TEST

/* Below groups without a limit of their own counts, or with one that was never reached;
 * what one that was reached may have refused, there or further below, is its own affair.
 */
START_TEST(refused_below)
{
    static const struct {
        const char *group;
        const char *max;
        const char *events;
        const char *peak;
    } rows[] = {{"", "max\n", "max 100\n", "9\n"}, /* itself: not below */
                {"a", "max\n", "max 3\n", "9\n"},
                {"a/b", "max\n", "max 4\n", NULL},
                {"a/limited", "20\n", "max 1000\n", "20\n"},
                {"a/limited/free", "max\n", "max 2000\n", "9\n"},
                {"a/older", "20\n", "max 4000\n", NULL},
                {"a/roomy", "20\n", "max 5\n", "19\n"},
                {"a/roomy/free", "max\n", "max 20\n", "19\n"},
                {"a/lowered", "20\n", "max 8000\n", "21\n"},
                {"c", "max\n", "nothing\n", "9\n"}};
    char path[SBX_FIXTURE_PATH_SIZE];
    for (size_t i = 0; i < COUNT(rows); i++) {
        (void)sbx_fixture_path(path, rows[i].group);
        ck_assert(mkdir(path, 0755) == 0 || errno == EEXIST);
        put_text(path, "pids.max", rows[i].max);
        put_text(path, "pids.events", rows[i].events);
        if (rows[i].peak != NULL) {
            put_text(path, "pids.peak", rows[i].peak);
        }
    }
    SBX_AUTO_CLOSE int fd = open_directory(sbx_fixture_dir());
    ck_assert_uint_eq(sbx_statistics_refused_below(fd), 32);
    ck_assert_uint_eq(sbx_statistics_refused_below(fd), 32); /* nothing was moved */
    ck_assert_uint_eq(sbx_statistics_refused_below(-1), 0);
}
END_TEST

/* --- ancestors ---------------------------------------------------------------------- */

static void put_oom(const char *group, int count)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char text[64];
    int length = snprintf(text, sizeof text, "low 0\noom %d\noom_kill 9\n", count);
    put(sbx_fixture_path(path, group), "memory.events.local", text, (size_t)length);
}

START_TEST(ancestors_are_blamed)
{
    static const char *const groups[] = {"a", "a/b", "a/b/c", "a/b/c/leaf"};
    char path[SBX_FIXTURE_PATH_SIZE];
    for (size_t i = 0; i < COUNT(groups); i++) {
        ck_assert_int_eq(mkdir(sbx_fixture_path(path, groups[i]), 0755), 0);
    }
    put_oom("a", 5);
    put_oom("a/b/c", 1);
    put_oom("a/b/c/leaf", 1);
    struct sbx_ancestors ancestors;
    sbx_ancestors_open(sbx_fixture_dir(), "/a/b/c/leaf", &ancestors);
    ck_assert_uint_eq(ancestors.count, 2); /* a/b and the root have no such file */
    ck_assert_int_eq(sbx_ancestors_blame(&ancestors), -1);
    put_oom("a/b/c/leaf", 2);
    ck_assert_int_eq(sbx_ancestors_blame(&ancestors), -1);
    put_oom("a", 6);
    ck_assert_int_eq(sbx_ancestors_blame(&ancestors), 1);
    put_oom("a/b/c", 2);
    ck_assert_int_eq(sbx_ancestors_blame(&ancestors), 3); /* the nearest one */
    sbx_ancestors_close(&ancestors);
    put_oom("", 0);
    sbx_ancestors_open(sbx_fixture_dir(), "/a", &ancestors);
    ck_assert_uint_eq(ancestors.count, 1);
    put_oom("", 1);
    ck_assert_int_eq(sbx_ancestors_blame(&ancestors), 0); /* the root */
    sbx_ancestors_close(&ancestors);
    static const char *const nowhere[] = {"/", "", "/../a/b", "a/b"};
    for (size_t i = 0; i < COUNT(nowhere); i++) {
        sbx_ancestors_open(sbx_fixture_dir(), nowhere[i], &ancestors);
        ck_assert_msg(ancestors.count == 0, "'%s'", nowhere[i]);
    }
}
END_TEST

/* --- real groups -------------------------------------------------------------------- */

static bool rings(const struct sbx_statistics *statistics, int timeout_ms)
{
    struct pollfd alarm = {.fd = statistics->alarm, .events = POLLIN};
    ck_assert_int_ge(statistics->alarm, 0);
    return poll(&alarm, 1, timeout_ms) == 1;
}

/* Rings until the figures are so, at most 20 s. */
static void await_figures(const struct sbx_statistics *statistics,
                          bool (*wanted)(const struct sbx_figures *figures),
                          struct sbx_figures *figures)
{
    uint64_t end = sbx_clock_us() + 20 * SBX_US_PER_S;
    do {
        ck_assert_msg(rings(statistics, 20000), "nobody rings");
        sbx_statistics_quiet(statistics);
        sbx_statistics_read(statistics, SBX_FILES_ALL, figures);
    } while (!wanted(figures) && sbx_clock_us() < end);
    ck_assert(wanted(figures));
}

static bool is_populated(const struct sbx_figures *figures)
{
    return figures->populated;
}

static bool is_empty(const struct sbx_figures *figures)
{
    return !figures->populated;
}

static void open_at(const char *path, struct sbx_statistics *statistics)
{
    struct sbx_error error = {0};
    SBX_AUTO_CLOSE int fd = open_directory(path);
    ck_assert_msg(sbx_statistics_open(fd, statistics, &error) == 0, "%s", error.message);
}

static int burn(void *context)
{
    (void)context;
    uint64_t end = sbx_clock_cpu_us() + 100000;
    while (sbx_clock_cpu_us() < end) {
        continue;
    }
    return 0;
}

START_TEST(bare_group)
{
    char path[SBX_GROUP_KIT_SIZE];
    struct sbx_statistics statistics;
    struct sbx_figures figures;
    struct sbx_ward ward;
    if (!sbx_ward_make(false, path)) {
        return;
    }
    open_at(path, &statistics);
    ck_assert_msg(!rings(&statistics, 0), "it rings for what is no news");
    sbx_statistics_read(&statistics, SBX_FILES_ALL, &figures);
    ck_assert(!figures.populated);
    uint64_t before = figures.cpu_us;
    sbx_ward_start(path, burn, NULL, &ward);
    await_figures(&statistics, is_populated, &figures);
    ck_assert_int_eq(sbx_ward_wait(&ward), 0);
    await_figures(&statistics, is_empty, &figures);
    ck_assert_uint_ge(figures.cpu_us, before + 90000);
    ck_assert_uint_ge(figures.cpu_us, figures.cpu_user_us);
    ck_assert_msg(!rings(&statistics, 0), "it was quieted");
    sbx_statistics_close(&statistics);
    sbx_group_kit_remove(path);
}
END_TEST

static int take_memory(void *context)
{
    size_t size = *(const size_t *)context;
    char *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return 1;
    }
    memset(memory, 1, size);
    return 0;
}

static bool had_oom(const struct sbx_figures *figures)
{
    return figures->oom_kill != UNKNOWN && figures->oom_kill > 0;
}

START_TEST(memory_of_a_group)
{
    char path[SBX_GROUP_KIT_SIZE];
    char below[SBX_GROUP_KIT_SIZE];
    struct sbx_statistics statistics;
    struct sbx_statistics inner;
    struct sbx_figures figures;
    struct sbx_ward ward;
    struct sbx_ancestors ancestors;
    size_t size = 16 * MIB;
    if (!sbx_ward_make(true, path)) {
        return;
    }
    (void)sbx_group_kit_write(path, "memory.swap.max", "0");
    ck_assert_int_eq(sbx_group_kit_write(path, "memory.max", "67108864"), 0);
    ck_assert_int_eq(sbx_group_kit_write(path, "cgroup.subtree_control", "+memory"), 0);
    sbx_group_kit_below(path, "below", below);
    open_at(path, &statistics);
    open_at(below, &inner);
    sbx_ancestors_open(path, "/below", &ancestors);
    ck_assert_uint_eq(ancestors.count, 1);
    sbx_ward_start(below, take_memory, &size, &ward);
    ck_assert_int_eq(sbx_ward_wait(&ward), 0);
    sbx_statistics_read(&statistics, SBX_FILES_ALL, &figures);
    bool peak = sbx_group_kit_number(path, "memory.peak", NULL) >= 0;
    ck_assert(peak == (figures.memory_peak_bytes != UNKNOWN));
    ck_assert(!peak || figures.memory_peak_bytes >= size);
    ck_assert_uint_eq(figures.oom_kill, 0);
    ck_assert_uint_eq(figures.local_oom, 0);
    ck_assert_uint_lt(figures.anon_bytes, 4 * MIB);
    ck_assert_uint_ne(figures.shmem_bytes, UNKNOWN);

    size = 256UL * MIB; /* over the outer one's limit, in the inner one */
    sbx_ward_start(below, take_memory, &size, &ward);
    ck_assert_int_eq(sbx_ward_wait(&ward), 128 + SIGKILL);
    await_figures(&statistics, had_oom, &figures);
    ck_assert_uint_eq(figures.oom_kill, 1);
    ck_assert_uint_ge(figures.local_oom, 1);
    await_figures(&inner, had_oom, &figures);
    ck_assert_uint_eq(figures.local_oom, 0); /* not the limit of that one */
    ck_assert_int_eq(sbx_ancestors_blame(&ancestors), 0);
    sbx_ancestors_close(&ancestors);
    sbx_statistics_close(&inner);
    sbx_statistics_close(&statistics);
    sbx_group_kit_remove(path);
}
END_TEST

/* How many forks were refused. */
static int fork_too_much(void *context)
{
    int refused = 0;
    (void)context;
    for (int i = 0; i < 8; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            (void)pause();
            _exit(0);
        }
        refused += pid < 0 ? 1 : 0;
    }
    (void)signal(SIGTERM, SIG_IGN);
    return refused;
}

static bool was_refused(const struct sbx_figures *figures)
{
    return figures->forks_refused != UNKNOWN && figures->forks_refused > 0;
}

START_TEST(tasks_of_a_group)
{
    char path[SBX_GROUP_KIT_SIZE];
    struct sbx_statistics statistics;
    struct sbx_figures figures;
    struct sbx_ward ward;
    if (!sbx_ward_make(true, path)) {
        return;
    }
    ck_assert_int_eq(sbx_group_kit_write(path, "pids.max", "5"), 0);
    open_at(path, &statistics);
    sbx_ward_start(path, fork_too_much, NULL, &ward);
    ck_assert_int_eq(sbx_ward_wait(&ward), 4); /* itself and four of eight */
    await_figures(&statistics, was_refused, &figures);
    ck_assert_uint_eq(figures.forks_refused, 4);
    ck_assert(figures.forks_refused_local == 4 || figures.forks_refused_local == UNKNOWN);
    ck_assert_uint_eq(figures.tasks, 4);
    ck_assert(figures.tasks_peak == 5 || figures.tasks_peak == UNKNOWN);
    sbx_statistics_close(&statistics);
    sbx_group_kit_remove(path);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR) {
        continue;
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("statistics");
    TCase *tests = sbx_fixture_case(suite, "text", 20);
    tcase_add_loop_test(tests, text_gives, 0, (int)COUNT(texts));
    tcase_add_test(tests, populated_unless_a_zero_says_so);
    tests = sbx_fixture_case(suite, "files", 20);
    tcase_add_loop_test(tests, captured, 0, 2);
    tcase_add_test(tests, needs_events_and_cpu);
    tcase_add_test(tests, long_stat);
    tcase_add_test(tests, refused_below);
    tcase_add_test(tests, ancestors_are_blamed);
    tests = sbx_fixture_case(suite, "groups", 60);
    tcase_add_test(tests, bare_group);
    tcase_add_test(tests, memory_of_a_group);
    tcase_add_test(tests, tasks_of_a_group);
    return suite;
}

int main(void)
{
    return sbx_fixture_run(suite());
}
