/*
 * test_observe.c - sbx-watch --cgroup on groups that the test makes: who counts, what the
 * kernel's account of the group gives, how it ends, and that nobody is touched. Where no
 * group can be made only what is refused is tested; memory and tasks need controllers.
 */
#include "tests/attach_kit.h"
#include "tests/ward_kit.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MIB (1024U * 1024U)

static const char *options_for(const char *path, const char *more)
{
    static char text[2 * SBX_GROUP_KIT_SIZE];
    (void)snprintf(text, sizeof text, "--interval 20ms --cgroup %s %s", path, more);
    return text;
}

static void start(struct sbx_trial *trial, const char *path, pid_t known)
{
    trial->options = options_for(path, "");
    sbx_trial_start(trial);
    sbx_attach_wait_known(trial, known);
}

static void expect_observed(const struct sbx_trial *trial, const char *proof)
{
    sbx_trial_expect(trial, 0, "observed", NULL);
    ck_assert(!sbx_trial_has(trial, "leader_pid") && !sbx_trial_has(trial, "command"));
    ck_assert(!sbx_trial_has(trial, "termination.signal"));
    ck_assert(!sbx_trial_has(trial, "containment.kill"));
    ck_assert_int_eq(sbx_trial_integer(trial, "termination.killed_count"), 0);
    ck_assert_int_eq(sbx_trial_integer(trial, "termination.strays_count"), 0);
    ck_assert_str_eq(sbx_trial_string(trial, "containment.tracking"), "cgroup2");
    ck_assert_str_eq(sbx_trial_string(trial, "termination.proof"), proof);
}

/* --- what is refused ---------------------------------------------------------------- */

static const struct refused_row {
    const char *options;
    const char *word; /* of a command; NULL: none */
    const char *message;
} refused_rows[] = {
    {"--cgroup /x --wall 1s", NULL, "--wall: does not go with --cgroup, which only"},
    {"-c 1s --cgroup /x", NULL, "--cpu: does not go with --cgroup, which only"},
    {"--cgroup /x -m 1G", NULL, "--memory: does not go with --cgroup, which only"},
    {"--cgroup /x --processes 5", NULL, "--processes: does not go with --cgroup"},
    {"--cgroup /x --threads 5", NULL, "--threads: does not go with --cgroup"},
    {"--cgroup /x --rlimit nofile=9", NULL, "--rlimit: does not go with --cgroup"},
    {"--cgroup /x --grace 1s", NULL, "--grace: does not go with --cgroup"},
    {"--cgroup /x --enforce", NULL, "--enforce: does not go with --cgroup"},
    {"--cgroup /x --enforce -w 1s", NULL, "--enforce: does not go with --cgroup"},
    {"--cgroup /x --output 5", NULL, "--output: does not go with --cgroup"},
    {"--cgroup /x --strays keep", NULL, "--strays: does not go with --cgroup"},
    {"--cgroup /x --chdir /", NULL, "--chdir: does not go with --cgroup"},
    {"--cgroup /x --pid 1", NULL, "--cgroup: does not go with --pid"},
    {"--cgroup /x --require complete", NULL, "--require: does not go with --cgroup"},
    {"--cgroup /x", "true", "--cgroup: takes no command"},
    {"--cgroup=", NULL, "--cgroup: '' is not a path"},
    {"--cgroup /no/such/group", NULL, "--cgroup: /no/such/group: no such file"},
    {"--cgroup no/such/group", NULL, "--cgroup: no/such/group: no such file"},
    {"--cgroup /proc", NULL, "--cgroup: /proc is no directory of a cgroup2"},
    {"--cgroup /proc/self/stat", NULL, "--cgroup: /proc/self/stat"},
};

START_TEST(refused)
{
    const struct refused_row *row = &refused_rows[_i];
    const char *command[] = {row->word, NULL};
    struct sbx_trial trial = {.options = row->options, .command = command};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 125, "launch-failed", NULL);
    const char *message = sbx_trial_string(&trial, "error.message");
    ck_assert_msg(strstr(message, row->message) != NULL, "%s: %s", row->options, message);
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(nobody_is_in_it)
{
    char path[SBX_GROUP_KIT_SIZE];
    if (!sbx_ward_make(false, path)) {
        return;
    }
    struct sbx_trial trial = {.command = (const char *const[]){NULL},
                              .options = options_for(path, "")};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 125, "launch-failed", NULL);
    ck_assert_ptr_nonnull(strstr(sbx_trial_string(&trial, "error.message"), "nobody is"));
    ck_assert_str_eq(sbx_trial_string(&trial, "error.stage"), "check");
    sbx_trial_done(&trial);
    sbx_group_kit_remove(path);
}
END_TEST

/* --- who counts --------------------------------------------------------------------- */

static void burn(uint64_t us)
{
    uint64_t end = sbx_clock_cpu_us() + us;
    while (sbx_clock_cpu_us() < end) {
        continue;
    }
}

/* A child in a session of its own that outlives its parent: no descendant of anybody in
 * the group, but in it. */
static int leave_a_daemon(void *context)
{
    (void)context;
    burn(50000);
    if (fork() == 0) {
        (void)setsid();
        burn(150000);
        _exit(0);
    }
    return 0;
}

static void reap_all(void)
{
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR) {
        continue;
    }
}

START_TEST(ends_with_the_last_one)
{
    char path[SBX_GROUP_KIT_SIZE];
    char below[SBX_GROUP_KIT_SIZE];
    struct sbx_ward ward;
    if (!sbx_ward_make(false, path)) {
        return;
    }
    sbx_group_kit_below(path, "below", below); /* whoever is below is in it */
    struct sbx_trial trial = {.command = (const char *const[]){NULL}};
    sbx_ward_start(below, leave_a_daemon, NULL, &ward);
    start(&trial, path, ward.pid);
    ck_assert_int_eq(sbx_ward_wait(&ward), 0);
    sbx_trial_wait(&trial);
    expect_observed(&trial, "group-empty");
    int64_t cpu = sbx_trial_integer(&trial, "usage.cpu_us");
    ck_assert_int_ge(cpu, 190000);
    ck_assert_int_le(cpu, sbx_group_kit_number(path, "cpu.stat", "usage_usec"));
    ck_assert(sbx_trial_boolean(&trial, "usage.cpu_complete"));
    ck_assert_int_eq(sbx_trial_integer(&trial, "usage.processes_total"), 2);
    ck_assert_int_ge(sbx_trial_integer(&trial, "usage.wall_us"), 100000);
    sbx_trial_done(&trial);
    reap_all();
    sbx_group_kit_remove(path);
}
END_TEST

/* Who is moved out of the group is no member any more, though its parent is one. */
START_TEST(who_leaves_is_no_member)
{
    char path[SBX_GROUP_KIT_SIZE];
    char other[SBX_GROUP_KIT_SIZE];
    char number[16];
    struct sbx_ward inside;
    struct sbx_ward outside;
    if (!sbx_ward_make(false, path) || !sbx_ward_make(false, other)) {
        return;
    }
    struct sbx_trial trial = {.command = (const char *const[]){NULL}};
    sbx_ward_start(path, leave_a_daemon, NULL, &inside);
    sbx_ward_start(path, leave_a_daemon, NULL, &outside);
    start(&trial, path, outside.pid);
    (void)snprintf(number, sizeof number, "%d", (int)outside.pid);
    ck_assert_int_eq(sbx_group_kit_write(other, "cgroup.procs", number), 0);
    ck_assert_int_eq(sbx_ward_wait(&inside), 0);
    sbx_trial_wait(&trial);
    expect_observed(&trial, "group-empty");
    ck_assert(sbx_attach_is_alive(outside.pid));
    ck_assert_int_eq(sbx_trial_integer(&trial, "usage.processes_total"), 3);
    sbx_trial_done(&trial);
    ck_assert_int_eq(sbx_ward_wait(&outside), 0);
    reap_all();
    sbx_group_kit_remove(other);
    sbx_group_kit_remove(path);
}
END_TEST

static void into_parent(const struct sbx_trial *trial)
{
    const char *path = trial->context;
    if (chdir(path) < 0) {
        _exit(98);
    }
}

/* A relative path; and a group that is taken away as soon as it can be. */
START_TEST(taken_away_at_once)
{
    char path[SBX_GROUP_KIT_SIZE];
    struct sbx_ward ward;
    if (!sbx_ward_make(false, path)) {
        return;
    }
    char *name = strrchr(path, '/');
    *name = '\0';
    struct sbx_trial trial = {
        .command = (const char *const[]){NULL}, .prepare = into_parent, .context = path};
    char whole[SBX_GROUP_KIT_SIZE];
    (void)snprintf(whole, sizeof whole, "%.400s/%.100s", path, name + 1);
    sbx_ward_start(whole, leave_a_daemon, NULL, &ward);
    start(&trial, name + 1, ward.pid);
    ck_assert_int_eq(sbx_ward_wait(&ward), 0);
    uint64_t end = sbx_clock_us() + 20 * SBX_US_PER_S;
    while (rmdir(whole) < 0 && sbx_clock_us() < end) {
        ck_assert_int_eq(errno, EBUSY);
    }
    sbx_trial_wait(&trial);
    expect_observed(&trial, "group-empty");
    ck_assert(sbx_trial_has(&trial, "usage.cpu_us"));
    sbx_trial_done(&trial);
    reap_all();
    ck_assert(!sbx_group_kit_is_there(whole));
}
END_TEST

/* --- nobody is touched -------------------------------------------------------------- */

static bool has_line(pid_t pid, const char *line)
{
    char path[64];
    char text[8192];
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    ck_assert_int_gt(sbx_fd_read_text_at(AT_FDCWD, path, text, sizeof text), 0);
    return strstr(text, line) != NULL;
}

/* Every signal that can be blocked is: what was sent would be pending. */
static int stay(void *context)
{
    (void)context;
    (void)prctl(PR_SET_NAME, "stays", 0, 0, 0);
    sigset_t all;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_BLOCK, &all, NULL);
    (void)pause();
    return 96;
}

static const int leave_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGKILL};

/* Asked to leave it does, and reports; killed, guard and monitor leave all alone too. */
START_TEST(left_alone)
{
    char path[SBX_GROUP_KIT_SIZE];
    struct sbx_ward ward;
    if (!sbx_ward_make(false, path)) {
        return;
    }
    int number = leave_signals[_i];
    struct sbx_trial trial = {.command = (const char *const[]){NULL}};
    sbx_ward_start(path, stay, NULL, &ward);
    sbx_ward_go(&ward);
    uint64_t end = sbx_clock_us() + 20 * SBX_US_PER_S;
    while (!has_line(ward.pid, "Name:\tstays\n")) {
        ck_assert(sbx_clock_us() < end);
    }
    start(&trial, path, ward.pid);
    pid_t monitor = sbx_attach_monitor(&trial);
    ck_assert_int_gt(monitor, 0);
    ck_assert_int_eq(kill(number == SIGKILL ? monitor : trial.pid, number), 0);
    sbx_trial_wait(&trial);
    if (number == SIGKILL) {
        sbx_trial_expect(&trial, 125, "lost", NULL);
        ck_assert_ptr_nonnull(strstr(sbx_trial_string(&trial, "error.message"), "alone"));
    } else {
        expect_observed(&trial, "none");
    }
    ck_assert(sbx_attach_is_alive(ward.pid));
    ck_assert(has_line(ward.pid, "SigPnd:\t0000000000000000\n"));
    ck_assert(has_line(ward.pid, "ShdPnd:\t0000000000000000\n"));
    ck_assert(has_line(ward.pid, "State:\tS"));
    ck_assert_int_eq(sbx_group_kit_number(path, "cgroup.events", "frozen"), 0);
    sbx_trial_done(&trial);
    ck_assert_int_eq(kill(ward.pid, SIGKILL), 0);
    ck_assert_int_eq(sbx_ward_wait(&ward), 128 + SIGKILL);
    sbx_group_kit_remove(path);
}
END_TEST

/* --- with controllers --------------------------------------------------------------- */

static char *take(size_t size)
{
    char *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        _exit(97);
    }
    memset(memory, 1, size);
    return memory;
}

static void run_children(int count, size_t size)
{
    for (int i = 0; i < count; i++) {
        if (fork() == 0) {
            (void)take(size);
            burn(100000);
            _exit(0);
        }
    }
    while (wait(NULL) > 0) {
        continue;
    }
}

/* Four tasks at a time with 12 MiB each, and one that is killed for want of memory. */
static int work(void *context)
{
    (void)context;
    run_children(3, 12UL * MIB);
    run_children(1, 256UL * MIB);
    burn(50000);
    return 0;
}

START_TEST(the_kernels_account)
{
    char path[SBX_GROUP_KIT_SIZE];
    struct sbx_ward ward;
    if (!sbx_ward_make(true, path)) {
        return;
    }
    (void)sbx_group_kit_write(path, "memory.swap.max", "0");
    ck_assert_int_eq(sbx_group_kit_write(path, "memory.max", "67108864"), 0);
    struct sbx_trial trial = {.command = (const char *const[]){NULL}};
    sbx_ward_start(path, work, NULL, &ward);
    start(&trial, path, ward.pid);
    ck_assert_int_eq(sbx_ward_wait(&ward), 0);
    sbx_trial_wait(&trial);
    expect_observed(&trial, "group-empty");
    ck_assert_str_eq(sbx_trial_string(&trial, "usage.memory_method"), "cgroup2");
    ck_assert_str_eq(sbx_trial_string(&trial, "usage.cpu_method"), "cgroup2");
    int64_t peak = sbx_group_kit_number(path, "memory.peak", NULL);
    int64_t reported = sbx_trial_integer(&trial, "usage.memory_peak_bytes");
    if (peak >= 0) { /* from kernel 5.19 on */
        ck_assert_msg(reported >= peak - peak / 50 && reported <= peak + peak / 50,
                      "%" PRId64 ", not %" PRId64, reported, peak);
    }
    ck_assert_int_ge(reported, 60 * (int64_t)MIB);
    ck_assert_int_eq(sbx_trial_integer(&trial, "usage.oom_kills"), 1);
    int64_t anon = sbx_trial_integer(&trial, "usage.memory_anon_peak_bytes");
    ck_assert_int_ge(anon, 30 * (int64_t)MIB);
    ck_assert_int_le(anon, 64 * (int64_t)MIB);
    ck_assert_int_eq(sbx_trial_integer(&trial, "usage.threads_peak"), 4);
    ck_assert_int_ge(sbx_trial_integer(&trial, "usage.processes_total"), 4);
    int64_t cpu = sbx_trial_integer(&trial, "usage.cpu_us");
    int64_t total = sbx_group_kit_number(path, "cpu.stat", "usage_usec");
    ck_assert_msg(cpu <= total && cpu >= total / 2, "%" PRId64 " of %" PRId64, cpu,
                  total);
    sbx_trial_done(&trial);
    sbx_group_kit_remove(path);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("observe");
    TCase *tests = sbx_fixture_case(suite, "refused", 60);
    tcase_add_loop_test(tests, refused, 0, (int)COUNT(refused_rows));
    tcase_add_test(tests, nobody_is_in_it);
    tests = sbx_fixture_case(suite, "groups", 90);
    tcase_add_test(tests, ends_with_the_last_one);
    tcase_add_test(tests, who_leaves_is_no_member);
    tcase_add_test(tests, taken_away_at_once);
    tcase_add_loop_test(tests, left_alone, 0, (int)COUNT(leave_signals));
    tests = sbx_fixture_case(suite, "controllers", 120);
    tcase_add_test(tests, the_kernels_account);
    return suite;
}

int main(void)
{
    return sbx_fixture_run(suite());
}
