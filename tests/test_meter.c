/*
 * test_meter.c - what the meter says of real processes, against what they were told to
 * use.
 *
 * Bounds are those of the numbers themselves (ticks, page counts); CPU time does not
 * depend on how busy the machine is, and nothing here depends on how long it takes.
 */
#include "tests/fixture.h"
#include "tests/tree_kit.h"

#include "base/clock.h"
#include "base/fd.h"
#include "monitor/meter.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MANY 4096U
#define MB UINT64_C(1000000)
#define MIB (UINT64_C(1) << 20)

/* A tree that is sampled. */
struct run {
    struct sbx_kit kit;
    struct sbx_record record;
    struct sbx_pss_area *area;
    struct sbx_pss *pss; /* memory is read by ourselves */
    struct sbx_meter meter;
    struct sbx_sample last;
    uint64_t started_us;
    uint64_t most_memory; /* of the samples that know it */
};

static void open_run(struct run *run, const struct sbx_limits *limits)
{
    *run = (struct run){.started_us = sbx_clock_us()};
    sbx_record_init(&run->record);
    sbx_kit_open(&run->kit, MANY);
    run->area = calloc(1, sizeof *run->area);
    ck_assert_ptr_nonnull(run->area);
    ck_assert_int_eq(sbx_pss_new(run->kit.proc_fd, run->area, NULL, &run->pss), 0);
    sbx_meter_init(&run->meter, run->kit.proc_fd, limits, run->pss, &run->record.usage);
}

static uint64_t memory_of(const struct sbx_sample *sample)
{
    return sample->memory_bytes != SBX_UNKNOWN ? sample->memory_bytes
                                               : sample->memory_bound_bytes;
}

static void sample(struct run *run)
{
    struct sbx_error error = {0};
    uint64_t cpu_before = run->last.cpu_us;
    int r = sbx_meter_sample(&run->meter, run->kit.tree, sbx_clock_us() - run->started_us,
                             &run->last, &error);
    ck_assert_msg(r == 0, "%s", error.message);
    ck_assert_msg(run->last.cpu_us >= cpu_before, "CPU has gone back");
    ck_assert_msg(run->last.memory_bytes == SBX_UNKNOWN ||
                      run->last.memory_bytes <= run->last.memory_bound_bytes,
                  "PSS of %llu above its bound of %llu",
                  (unsigned long long)run->last.memory_bytes,
                  (unsigned long long)run->last.memory_bound_bytes);
    if (run->last.memory_bytes != SBX_UNKNOWN &&
        run->last.memory_bytes > run->most_memory) {
        run->most_memory = run->last.memory_bytes;
    }
}

static void nap_ms(long ms)
{
    struct timespec rest = {0, ms * 1000000L};
    (void)nanosleep(&rest, NULL);
}

/* Reaps as the monitor does. True when there is nobody left. */
static bool reap(struct run *run)
{
    for (;;) {
        struct rusage rusage;
        pid_t pid = wait4(-1, NULL, WNOHANG | __WALL, &rusage);
        if (pid <= 0) {
            return pid < 0 && errno == ECHILD;
        }
        sbx_meter_reaped(&run->meter, &rusage, sbx_tree_reaped(run->kit.tree, pid));
    }
}

/* Samples until all have ended by themselves. */
static void sample_to_the_end(struct run *run)
{
    uint64_t end = sbx_clock_us() + 50 * SBX_US_PER_S;
    do {
        ck_assert_msg(sbx_clock_us() < end, "the processes do not end");
        sample(run);
        nap_ms(2);
    } while (!reap(run));
    sbx_meter_finish(&run->meter, run->kit.tree, true);
}

static void close_run(struct run *run)
{
    sbx_pss_free(run->pss);
    free(run->area);
    sbx_kit_close(&run->kit);
}

static pid_t start_helper(const char *const argv[])
{
    char path[SBX_FIXTURE_PATH_SIZE];
    const char *words[8] = {sbx_fixture_helper(path, argv[0])};
    int out = -1;
    for (size_t i = 1; i < 7 && argv[i] != NULL; i++) {
        words[i] = argv[i];
    }
    pid_t pid = sbx_kit_start(words, -1, &out);
    (void)close(out);
    return pid;
}

/* --- CPU --- */

static const struct {
    const char *command[6];
    uint64_t spent_us;
    bool complete;
} spenders[] = {
    {{"spin", "300"}, 300000, true},
    {{"spin", "150", "3"}, 450000, true},
    {{"short_children", "60", "5"}, 300000, true},
    {{"short_children", "60", "5", "orphans"}, 300000, true},
    {{"short_children", "200", "2", "ignored"}, 400000, false},
};

START_TEST(cpu_is_what_was_spent)
{
    const struct sbx_limits none = {0};
    struct run run;
    open_run(&run, &none);
    (void)start_helper(spenders[_i].command);
    sample_to_the_end(&run);
    const struct sbx_usage *usage = &run.record.usage;
    ck_assert_int_eq((int)usage->cpu_method, (int)SBX_METHOD_RUSAGE);
    ck_assert_uint_le(usage->cpu_us, spenders[_i].spent_us * 3 / 2 + 100000);
    ck_assert_int_eq(usage->cpu_complete, spenders[_i].complete);
    if (spenders[_i].complete) {
        ck_assert_uint_ge(usage->cpu_us, spenders[_i].spent_us * 85 / 100);
        ck_assert_uint_eq(usage->cpu_us, usage->cpu_user_us + usage->cpu_system_us);
    }
    close_run(&run);
}
END_TEST

/* While all are alive, and after the parent has waited for one of them: each tick is
 * counted once. */
START_TEST(cpu_of_the_living_is_seen)
{
    const struct sbx_limits none = {0};
    struct run run;
    open_run(&run, &none);
    pid_t leader = start_helper((const char *const[]){"spin", "60000", "2", NULL});
    uint64_t end = sbx_clock_us() + 40 * SBX_US_PER_S;
    do {
        ck_assert_uint_lt(sbx_clock_us(), end);
        nap_ms(5);
        sample(&run);
    } while (run.last.cpu_us < 300000);
    struct sbx_proc_stat stat;
    ck_assert_int_eq(sbx_proc_stat_at(run.kit.proc_fd, leader, &stat), 0);
    ck_assert_uint_le(sbx_proc_own_cpu_us(&stat), run.last.cpu_us + SBX_US_PER_S);
    ck_assert_int_ne(run.last.cpu_culprit.pid, 0);
    ck_assert_str_eq(run.last.cpu_culprit.name, "spin");
    ck_assert_uint_le(run.last.cpu_culprit.value, run.last.cpu_us);
    sbx_meter_finish(&run.meter, run.kit.tree, false);
    ck_assert(!run.record.usage.cpu_complete);
    close_run(&run);
}
END_TEST

static void burn_us(uint64_t us)
{
    while (sbx_clock_cpu_us() < us) {
    }
}

/* A child that was seen to have used CPU, and whose parent does not wait: what was seen
 * stays counted. */
START_TEST(cpu_that_nobody_waited_for_is_kept_as_seen)
{
    const struct sbx_limits none = {0};
    struct run run;
    int go[2];
    int said[2];
    open_run(&run, &none);
    ck_assert_int_eq(pipe2(go, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(said, O_CLOEXEC), 0);
    if (sbx_kit_fork() == 0) {
        (void)signal(SIGCHLD, SIG_IGN);
        if (sbx_kit_fork() == 0) {
            burn_us(300000);
            sbx_kit_tell(said[1]);
            sbx_kit_hear(go[0]);
            _exit(0);
        }
        (void)waitpid(-1, NULL, 0);
        sbx_kit_tell(said[1]);
        sbx_kit_idle();
    }
    sbx_kit_hear(said[0]);
    sample(&run);
    uint64_t seen = run.last.cpu_us;
    ck_assert_uint_ge(seen, 250000);
    sbx_kit_tell(go[1]);
    sbx_kit_hear(said[0]);
    sample(&run);
    ck_assert_uint_ge(run.meter.lost_cpu_us, 250000);
    ck_assert_uint_ge(run.last.cpu_us, seen);
    ck_assert(!run.record.usage.cpu_complete);
    for (int i = 0; i < 2; i++) {
        (void)close(go[i]);
        (void)close(said[i]);
    }
    close_run(&run);
}
END_TEST

/* --- memory --- */

static char *touched(size_t size)
{
    char *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        _exit(95);
    }
    memset(memory, 1, size);
    return memory;
}

struct vforker {
    int said;
    int go;
};

/* The child has our memory until it ends; we wait for that in the kernel. */
static void *vfork_and_wait(void *context)
{
    const struct vforker *vforker = context;
    sbx_kit_tell(vforker->said);
    pid_t pid = vfork();
    if (pid == 0) {
        char byte = 'v';
        struct timespec rest = {0, 300000000};
        (void)!write(vforker->said, &byte, 1);
        (void)!read(vforker->go, &byte, 1);
        (void)nanosleep(&rest, NULL);
        _exit(0);
    }
    (void)waitpid(pid, NULL, 0);
    return NULL;
}

static _Noreturn void live_with_vfork(const struct vforker *vforker, bool thread)
{
    pthread_t other;
    (void)touched(100 * MIB);
    if (!thread) {
        (void)vfork_and_wait((void *)(uintptr_t)vforker);
    } else if (pthread_create(&other, NULL, vfork_and_wait, (void *)(uintptr_t)vforker) ==
               0) {
        (void)pthread_join(other, NULL);
    }
    sbx_kit_idle();
}

/* By the main thread; by another, so that the process itself does not look asleep. With a
 * limit, for which each sample is exact, and for the peak alone. */
START_TEST(a_vfork_does_not_double_memory)
{
    const struct sbx_limits limits[] = {{0}, {.memory_bytes = 1}};
    struct run run;
    int said[2];
    int go[2];
    open_run(&run, &limits[_i % 2]);
    ck_assert_int_eq(pipe2(said, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(go, O_CLOEXEC), 0);
    const struct vforker vforker = {said[1], go[0]};
    if (sbx_kit_fork() == 0) {
        live_with_vfork(&vforker, _i / 2 == 1);
    }
    sbx_kit_hear(said[0]);
    sample(&run);
    uint64_t before = memory_of(&run.last);
    ck_assert_uint_ge(before, 100 * MIB);
    sbx_kit_hear(said[0]);
    for (int i = 0; i < 20; i++) {
        sample(&run);
        ck_assert_uint_eq(run.last.processes, 2);
        ck_assert_msg(run.most_memory < before + before / 4,
                      "%llu bytes, and %llu before the vfork",
                      (unsigned long long)run.most_memory, (unsigned long long)before);
        nap_ms(5);
    }
    sbx_kit_tell(go[1]);
    uint64_t end = sbx_clock_us() + 20 * SBX_US_PER_S;
    while (run.last.processes == 2 && sbx_clock_us() < end) {
        sample(&run);
    }
    ck_assert_uint_eq(run.last.processes, 1);
    ck_assert_uint_lt(run.record.usage.memory_peak_bytes, before + before / 4);
    for (int i = 0; i < 2; i++) {
        (void)close(said[i]);
        (void)close(go[i]);
    }
    close_run(&run);
}
END_TEST

/* An ordinary fork shares pages, and PSS knows; but what the child writes is its own. */
START_TEST(a_fork_that_writes_counts_twice)
{
    const struct sbx_limits limits = {.memory_bytes = 1};
    struct run run;
    int said[2];
    open_run(&run, &limits);
    ck_assert_int_eq(pipe2(said, O_CLOEXEC), 0);
    if (sbx_kit_fork() == 0) {
        char *memory = touched(50 * MIB);
        if (sbx_kit_fork() == 0) {
            memset(memory, 2, 50 * MIB);
            sbx_kit_tell(said[1]);
        }
        sbx_kit_idle();
    }
    sbx_kit_hear(said[0]);
    sample(&run);
    ck_assert_uint_eq(run.last.processes, 2);
    ck_assert_uint_ge(run.last.memory_bytes, 100 * MIB);
    ck_assert_int_eq((int)run.record.usage.memory_method, (int)SBX_MEMORY_PSS);
    close_run(&run);
    (void)close(said[0]);
    (void)close(said[1]);
}
END_TEST

START_TEST(shared_memory_counts_once)
{
    const struct sbx_limits limits = {.memory_bytes = 300 * MIB};
    struct run run;
    open_run(&run, &limits);
    (void)sbx_kit_helper((const char *const[]){"share", "95", "5", NULL});
    sample(&run);
    ck_assert_uint_ge(run.last.memory_bound_bytes, 475 * MIB);
    ck_assert_uint_ge(run.last.memory_bytes, 95 * MB);
    ck_assert_uint_le(run.last.memory_bytes, 125 * MB);
    ck_assert_uint_eq(run.record.usage.memory_peak_bytes, run.last.memory_bytes);
    ck_assert_uint_ge(run.record.usage.memory_anon_peak_bytes, 95 * MB);
    ck_assert_uint_le(run.record.usage.memory_anon_peak_bytes, 125 * MB);
    ck_assert_int_eq((int)run.record.usage.memory_method, (int)SBX_MEMORY_PSS);
    close_run(&run);
}
END_TEST

START_TEST(a_spike_is_seen_by_the_high_water_mark)
{
    const struct sbx_limits none = {0};
    struct run run;
    open_run(&run, &none);
    (void)start_helper((const char *const[]){"spike", "150", "1", "200", NULL});
    sample_to_the_end(&run);
    ck_assert_uint_ge(run.record.usage.process_memory_peak_bytes, 150 * MIB);
    ck_assert_uint_lt(run.record.usage.process_memory_peak_bytes, 200 * MIB);
    close_run(&run);
}
END_TEST

/* Of a child that was too short to be sampled, wait tells as much. */
START_TEST(a_spike_of_the_unseen_is_told_by_wait)
{
    const struct sbx_limits none = {0};
    struct run run;
    open_run(&run, &none);
    (void)start_helper((const char *const[]){"spike", "150", "0", "0", NULL});
    while (!reap(&run)) {
        nap_ms(2);
    }
    sbx_meter_finish(&run.meter, run.kit.tree, true);
    ck_assert_uint_ge(run.record.usage.process_memory_peak_bytes, 150 * MIB);
    ck_assert_uint_eq(run.record.usage.processes_total, 1);
    close_run(&run);
}
END_TEST

/* wait's figure begins with what we had when we forked. */
START_TEST(our_own_size_is_not_the_childs)
{
    const struct sbx_limits none = {0};
    struct run run;
    char *mine = touched(64 * MIB);
    open_run(&run, &none);
    (void)start_helper((const char *const[]){"spin", "5", NULL});
    while (!reap(&run)) {
        nap_ms(2);
    }
    uint64_t peak = run.record.usage.process_memory_peak_bytes;
    ck_assert_msg(peak == SBX_UNKNOWN || peak < 32 * MIB, "%llu bytes",
                  (unsigned long long)peak);
    close_run(&run);
    (void)munmap(mine, 64 * MIB);
}
END_TEST

START_TEST(the_biggest_is_the_culprit)
{
    const struct sbx_limits limits = {.memory_bytes = 1};
    struct run run;
    open_run(&run, &limits);
    (void)sbx_kit_helper((const char *const[]){"crowd", "5", "2", NULL});
    pid_t big = sbx_kit_helper((const char *const[]){"zombie_leader", "30", NULL});
    sample(&run);
    ck_assert_int_eq(run.last.memory_culprit.pid, big);
    ck_assert_uint_ge(run.last.memory_culprit.value, 30 * MIB);
    ck_assert_uint_ge(run.last.memory_bytes, 30 * MIB);
    close_run(&run);
}
END_TEST

/* --- memory that may not be read --- */

/* As root: a process of root, measured by this test when it is nobody. */
static void start_unreadable_as_nobody(void)
{
    int said[2];
    ck_assert_int_eq(pipe2(said, O_CLOEXEC), 0);
    if (sbx_kit_fork() == 0) {
        (void)touched(30 * MIB);
        sbx_kit_tell(said[1]);
        /* So that the nobody that we are then can end us. */
        if (setresuid(SBX_KIT_NOBODY, 0, 0) == 0) {
            sbx_kit_tell(said[1]);
        }
        sbx_kit_idle();
    }
    sbx_kit_hear(said[0]);
    sbx_kit_hear(said[0]);
    (void)close(said[0]);
    (void)close(said[1]);
    ck_assert_int_eq(setresuid(SBX_KIT_NOBODY, SBX_KIT_NOBODY, SBX_KIT_NOBODY), 0);
    (void)prctl(PR_SET_DUMPABLE, 1); /* our /proc entries are ours again */
}

/* As an ordinary user: a set-user-ID program that waits for its input. False when there
 * is none. */
static bool start_unreadable(struct run *run, int ret_input[2])
{
    static const char *const command[] = {"sh", "-c", "exec su root -c true 2>/dev/null",
                                          NULL};
    int out = -1;
    ck_assert_int_eq(pipe2(ret_input, O_CLOEXEC), 0);
    pid_t pid = sbx_kit_start(command, ret_input[0], &out);
    (void)close(out);
    uint64_t end = sbx_clock_us() + 5 * SBX_US_PER_S;
    while (sbx_clock_us() < end) {
        struct sbx_proc_smaps smaps;
        sbx_kit_walk(&run->kit);
        const struct sbx_member *member = sbx_tree_find(run->kit.tree, pid);
        if (member == NULL || sbx_member_ended(member)) {
            return false;
        }
        if (strcmp(member->stat.name, "su") == 0 && member->stat.state == 'S') {
            return sbx_proc_smaps_at(run->kit.proc_fd, pid, &smaps) == -EACCES;
        }
        nap_ms(2);
    }
    return false;
}

START_TEST(what_cannot_be_read_counts_with_its_rss)
{
    const struct sbx_limits limits = {.memory_bytes = 1};
    struct run run;
    int input[2] = {-1, -1};
    open_run(&run, &limits);
    if (getuid() == 0) {
        start_unreadable_as_nobody();
    } else if (!start_unreadable(&run, input)) {
        sbx_kit_skip("memory that may not be read",
                     "no set-user-ID program that waits (su)");
        sbx_fd_drop(&input[0]);
        sbx_fd_drop(&input[1]);
        close_run(&run);
        return;
    }
    sample(&run);
    ck_assert_uint_eq(run.last.processes, 1);
    ck_assert_uint_gt(run.last.memory_bytes, 0);
    ck_assert_uint_eq(run.last.memory_bytes, run.last.memory_bound_bytes);
    ck_assert_int_eq((int)run.record.usage.memory_method, (int)SBX_MEMORY_RSS);
    sbx_fd_drop(&input[0]);
    sbx_fd_drop(&input[1]);
    close_run(&run);
}
END_TEST

/* --- counts --- */

START_TEST(counts_processes_and_threads)
{
    static const struct {
        const char *command[4];
        uint64_t processes;
        uint64_t threads;
    } rows[] = {
        {{"trap"}, 1, 1},
        {{"thread_forker"}, 2, 3},
        {{"crowd", "30", "3"}, 30, 30},
        {{"setsid_child"}, 2, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct sbx_limits none = {0};
        struct run run;
        open_run(&run, &none);
        (void)sbx_kit_helper(rows[i].command);
        sbx_kit_settle(&run.kit, (size_t)rows[i].processes);
        pid_t zombie = sbx_kit_fork(); /* does not count */
        if (zombie == 0) {
            _exit(0);
        }
        sbx_kit_wait_state(&run.kit, zombie, 'Z');
        sample(&run);
        const struct sbx_usage *usage = &run.record.usage;
        ck_assert_msg(run.last.processes == rows[i].processes &&
                          run.last.threads == rows[i].threads,
                      "row %zu: %llu processes, %llu threads", i,
                      (unsigned long long)run.last.processes,
                      (unsigned long long)run.last.threads);
        ck_assert_uint_eq(usage->processes_peak, rows[i].processes);
        ck_assert_uint_eq(usage->threads_peak, rows[i].threads);
        ck_assert_uint_eq(usage->processes_total, rows[i].processes + 1);
        close_run(&run);
    }
}
END_TEST

START_TEST(the_one_with_most_children_is_the_culprit)
{
    const struct sbx_limits limits = {.processes_count = 10};
    struct run run;
    open_run(&run, &limits);
    (void)sbx_kit_helper((const char *const[]){"trap", NULL});
    pid_t leader = sbx_kit_helper((const char *const[]){"crowd", "20", "19", NULL});
    sample(&run);
    ck_assert_uint_eq(run.last.processes, 21);
    ck_assert_int_eq(run.last.processes_culprit.pid, leader);
    ck_assert_uint_eq(run.last.processes_culprit.value, 19);
    close_run(&run);
}
END_TEST

/* What looks like a launcher (an init that never exec'd) is left out of the count, but a
 * crowd of them does not escape the limit that way. */
START_TEST(a_crowd_of_false_launchers_is_counted)
{
    enum { PAIRS = 30 };
    const struct sbx_limits none = {0};
    struct run run;
    int said[2];
    open_run(&run, &none);
    ck_assert_int_eq(pipe2(said, O_CLOEXEC), 0);
    pid_t leader = sbx_kit_fork();
    if (leader == 0) {
        for (int i = 0; i < PAIRS; i++) {
            if (sbx_kit_fork() == 0) {
                if (unshare(getuid() == 0 ? CLONE_NEWPID : CLONE_NEWUSER | CLONE_NEWPID) <
                    0) {
                    sbx_kit_tell(said[1]);
                    _exit(0);
                }
                if (sbx_kit_fork() == 0) {
                    sbx_kit_tell(said[1]);
                }
                sbx_kit_idle();
            }
        }
        sbx_kit_idle();
    }
    for (int i = 0; i < PAIRS; i++) {
        sbx_kit_hear(said[0]);
    }
    sample(&run);
    sample(&run);
    if (sbx_tree_count(run.kit.tree) != 2 * PAIRS + 1) {
        sbx_kit_skip("false launchers", "no PID namespaces may be made here");
    } else {
        ck_assert(!sbx_tree_find(run.kit.tree, leader)->wrapper); /* of so many? */
        ck_assert_uint_eq(run.last.processes, 2 * PAIRS + 1);
        ck_assert_uint_eq(run.last.threads, 2 * PAIRS + 1);
    }
    (void)close(said[0]);
    (void)close(said[1]);
    close_run(&run);
}
END_TEST

START_TEST(nobody_is_nothing)
{
    const struct sbx_limits limits = {.memory_bytes = 1};
    struct run run;
    open_run(&run, &limits);
    sample(&run);
    ck_assert_uint_eq(run.last.processes, 0);
    ck_assert_uint_eq(run.last.threads, 0);
    ck_assert_uint_eq(run.last.memory_bytes, 0);
    ck_assert_uint_eq(run.last.cpu_us, 0);
    close_run(&run);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("meter");
    TCase *tcase = sbx_fixture_case(suite, "cpu", 60);
    tcase_add_loop_test(tcase, cpu_is_what_was_spent, 0,
                        (int)(sizeof spenders / sizeof spenders[0]));
    tcase_add_test(tcase, cpu_of_the_living_is_seen);
    tcase_add_test(tcase, cpu_that_nobody_waited_for_is_kept_as_seen);
    tcase = sbx_fixture_case(suite, "memory", 60);
    tcase_add_loop_test(tcase, a_vfork_does_not_double_memory, 0, 4);
    tcase_add_test(tcase, a_fork_that_writes_counts_twice);
    tcase_add_test(tcase, shared_memory_counts_once);
    tcase_add_test(tcase, a_spike_is_seen_by_the_high_water_mark);
    tcase_add_test(tcase, a_spike_of_the_unseen_is_told_by_wait);
    tcase_add_test(tcase, our_own_size_is_not_the_childs);
    tcase_add_test(tcase, the_biggest_is_the_culprit);
    tcase_add_test(tcase, what_cannot_be_read_counts_with_its_rss);
    tcase = sbx_fixture_case(suite, "counts", 60);
    tcase_add_test(tcase, counts_processes_and_threads);
    tcase_add_test(tcase, the_one_with_most_children_is_the_culprit);
    tcase_add_test(tcase, a_crowd_of_false_launchers_is_counted);
    tcase_add_test(tcase, nobody_is_nothing);
    return sbx_fixture_run(suite);
}
