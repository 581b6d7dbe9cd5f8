/*
 * test_verdict.c - what the kernel's counters of a group mean, and whether what was
 * demanded of the kernel is what it holds: both by tables, on numbers alone.
 */
#include "tests/fixture.h"

#include "monitor/armament.h"
#include "monitor/verdict.h"

#include <errno.h>
#include <string.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define NO SBX_UNKNOWN
#define MIB (UINT64_C(1) << 20)

/* --- counters --- */

/* What has changed since the group was opened; an absent file is NO. */
struct counters {
    uint64_t oom;
    uint64_t oom_kill;
    uint64_t local_oom;
    uint64_t refused;
    uint64_t refused_local;
    uint64_t memory_peak;
    uint64_t tasks_peak;
};

struct verdict_row {
    const char *name;
    struct counters grown;
    uint64_t memory; /* armed; NO: not */
    uint64_t threads;
    uint64_t anon_peak;
    uint64_t refused_below;
    enum sbx_reason reason; /* SBX_REASON_NONE: nothing was crossed */
    uint64_t limit;
    uint64_t observed;
};

/* clang-format off */
static const struct verdict_row verdicts[] = {
    {"nothing happened", {0, 0, 0, 0, 0, 0, 0}, 64 * MIB, 20, 0, 0, SBX_REASON_NONE, 0, 0},
    {"no file is there", {NO, NO, NO, NO, NO, NO, NO}, NO, NO, NO, 0, SBX_REASON_NONE, 0, 0},
    {"no file is there, both armed", {NO, NO, NO, NO, NO, NO, NO}, 64 * MIB, 20, NO, 0,
     SBX_REASON_NONE, 0, 0},

    {"our limit, the kernel knows the peak", {1, 1, 1, 0, 0, 65 * MIB, 3}, 64 * MIB, NO, 5 * MIB,
     0, SBX_REASON_MEMORY, 64 * MIB, 65 * MIB},
    {"a peak just below it is never shown below it", {1, 1, 1, 0, 0, 64 * MIB - 4096, 3}, 64 * MIB,
     NO, NO, 0, SBX_REASON_MEMORY, 64 * MIB, 64 * MIB},
    {"no memory.peak: the largest sample", {1, 1, 1, 0, 0, NO, 3}, 64 * MIB, NO, 70 * MIB, 0,
     SBX_REASON_MEMORY, 64 * MIB, 70 * MIB},
    {"no memory.peak, an old sample", {1, 1, 1, 0, 0, NO, 3}, 64 * MIB, NO, 9 * MIB, 0,
     SBX_REASON_MEMORY, 64 * MIB, 64 * MIB},
    {"no memory.peak, no sample", {1, 1, 1, 0, 0, NO, 3}, 64 * MIB, NO, NO, 0, SBX_REASON_MEMORY,
     64 * MIB, 64 * MIB},
    {"our limit, nobody could be killed", {1, 0, 1, 0, 0, 64 * MIB, 3}, 64 * MIB, NO, NO, 0,
     SBX_REASON_MEMORY, 64 * MIB, 64 * MIB},
    {"our limit and one that the command set", {2, 2, 1, 0, 0, 64 * MIB, 3}, 64 * MIB, NO, NO, 0,
     SBX_REASON_MEMORY, 64 * MIB, 64 * MIB},
    {"a limit that the command set below", {1, 1, 0, 0, 0, 10 * MIB, 3}, 64 * MIB, NO, NO, 0,
     SBX_REASON_NONE, 0, 0},
    {"the same without a limit of ours", {1, 1, 0, 0, 0, 10 * MIB, 3}, NO, NO, NO, 0,
     SBX_REASON_NONE, 0, 0},
    {"somebody else set a limit in our leaf", {1, 1, 1, 0, 0, 10 * MIB, 3}, NO, NO, NO, 0,
     SBX_REASON_NONE, 0, 0},

    {"samples are another's to judge", {0, 0, 0, 0, 0, 300 * MIB, 3}, 64 * MIB, NO, 300 * MIB, 0,
     SBX_REASON_NONE, 0, 0},
    {"page cache fills any group", {0, 0, 0, 0, 0, 300 * MIB, 3}, 64 * MIB, NO, 60 * MIB, 0,
     SBX_REASON_NONE, 0, 0},

    {"killed from outside", {0, 1, 0, 0, 0, 10 * MIB, 3}, 64 * MIB, NO, NO, 0, SBX_REASON_OOM, NO,
     NO},
    {"killed from outside, no limit", {0, 3, 0, 0, 0, NO, NO}, NO, NO, NO, 0, SBX_REASON_OOM, NO,
     NO},
    {"outside or below: the command's own affair", {1, 2, 0, 0, 0, 10 * MIB, 3}, 64 * MIB, NO, NO,
     0, SBX_REASON_NONE, 0, 0},

    {"a fork refused by our limit", {0, 0, 0, 0, 1, 0, 20}, NO, 20, NO, 0, SBX_REASON_THREADS, 20,
     21},
    {"many of them", {0, 0, 0, 999, 998, 0, 20}, NO, 20, NO, 0, SBX_REASON_THREADS, 20, 21},
    {"refused by a limit below, as the kernel says", {0, 0, 0, 7, 0, 0, 20}, NO, 20, NO, 7,
     SBX_REASON_NONE, 0, 0},
    {"no limit of ours", {0, 0, 0, 5, 5, 0, 9}, NO, NO, NO, 5, SBX_REASON_NONE, 0, 0},
    {"old kernel: refused in the leaf", {0, 0, 0, 1, NO, 0, 20}, NO, 20, NO, 0, SBX_REASON_THREADS,
     20, 21},
    {"old kernel: refused in a group below", {0, 0, 0, 0, NO, 0, 20}, NO, 20, NO, 1,
     SBX_REASON_THREADS, 20, 21},
    {"old kernel: refused, but not by ours", {0, 0, 0, 4, NO, 0, 19}, NO, 20, NO, 2,
     SBX_REASON_NONE, 0, 0},
    {"older kernel without a peak", {0, 0, 0, 1, NO, 0, NO}, NO, 20, NO, 0, SBX_REASON_THREADS, 20,
     21},
    {"older kernel, nothing refused", {0, 0, 0, 0, NO, 0, NO}, NO, 20, NO, 0, SBX_REASON_NONE, 0,
     0},

    {"memory before threads", {1, 1, 1, 0, 1, 64 * MIB, 20}, 64 * MIB, 20, NO, 0,
     SBX_REASON_MEMORY, 64 * MIB, 64 * MIB},
    {"threads before oom", {0, 1, 0, 0, 1, 10 * MIB, 20}, 64 * MIB, 20, NO, 0, SBX_REASON_THREADS,
     20, 21},
};
/* clang-format on */

static uint64_t after(uint64_t before, uint64_t more)
{
    return more == NO ? NO : before + more;
}

static struct sbx_evidence evidence_of(const struct verdict_row *row, uint64_t before)
{
    const struct counters *grown = &row->grown;
    struct sbx_evidence evidence = {
        .armed = {.memory_bytes = row->memory,
                  .swap_bytes = NO,
                  .threads_count = row->threads,
                  .cpu_percent = NO},
        .anon_peak_bytes = row->anon_peak,
        .refused_below = row->refused_below,
    };
    struct sbx_figures *then = &evidence.before;
    then->oom = then->oom_kill = then->local_oom = before;
    then->forks_refused = then->forks_refused_local = before;
    evidence.now = (struct sbx_figures){
        .oom = after(before, grown->oom),
        .oom_kill = after(before, grown->oom_kill),
        .local_oom = after(before, grown->local_oom),
        .forks_refused = after(before, grown->refused),
        .forks_refused_local = after(before, grown->refused_local),
        .memory_peak_bytes = grown->memory_peak,
        .tasks_peak = grown->tasks_peak,
    };
    return evidence;
}

static void expect_verdict(const struct verdict_row *row,
                           const struct sbx_evidence *evidence)
{
    struct sbx_verdict verdict = {SBX_REASON_NONE, 0, 0};
    bool crossed = sbx_verdict(evidence, &verdict);
    ck_assert_msg(crossed == (row->reason != SBX_REASON_NONE), "%s", row->name);
    ck_assert_msg(verdict.reason == row->reason, "%s: %s", row->name,
                  sbx_reason_name(verdict.reason));
    ck_assert_msg(verdict.limit == row->limit, "%s: limit %llu", row->name,
                  (unsigned long long)verdict.limit);
    ck_assert_msg(verdict.observed == row->observed, "%s: observed %llu", row->name,
                  (unsigned long long)verdict.observed);
}

/* What was counted before the run is not the run's: a fresh leaf has counted nothing, a
 * group that was there may have. */
START_TEST(test_verdict)
{
    static const uint64_t befores[] = {0, 1, 1000};
    for (size_t i = 0; i < LENGTH(befores); i++) {
        struct sbx_evidence evidence = evidence_of(&verdicts[_i], befores[i]);
        expect_verdict(&verdicts[_i], &evidence);
    }
}
END_TEST

/* A file that was not there at first, or is not there at last. */
/* Directories are walked for it: only where nothing else can tell. */
START_TEST(test_below_is_asked)
{
    static const struct {
        const char *name;
        struct counters grown;
        uint64_t threads;
        bool needed;
    } rows[] = {
        {"old kernel, the limit was reached", {0, 0, 0, 0, NO, 0, 20}, 20, true},
        {"older kernel without a peak", {0, 0, 0, 0, NO, 0, NO}, 20, true},
        {"never reached", {0, 0, 0, 0, NO, 0, 19}, 20, false},
        {"refused in the leaf: that is enough", {0, 0, 0, 1, NO, 0, 20}, 20, false},
        {"the kernel says whose limit it was", {0, 0, 0, 0, 0, 0, 20}, 20, false},
        {"no limit of ours", {0, 0, 0, 0, NO, 0, 20}, NO, false},
        {"no pids controller", {0, 0, 0, NO, NO, 0, NO}, 20, false},
    };
    for (size_t i = 0; i < LENGTH(rows); i++) {
        const struct verdict_row row = {
            .grown = rows[i].grown, .memory = NO, .threads = rows[i].threads};
        const struct sbx_evidence evidence = evidence_of(&row, 7);
        ck_assert_msg(sbx_verdict_needs_below(&evidence) == rows[i].needed, "%s",
                      rows[i].name);
    }
}
END_TEST

START_TEST(test_verdict_of_half_a_story)
{
    struct sbx_evidence evidence = evidence_of(&verdicts[0], 0);
    struct sbx_verdict verdict;
    evidence.before.local_oom = NO;
    evidence.before.oom_kill = NO;
    ck_assert(!sbx_verdict(&evidence, &verdict));
    evidence.now.local_oom = 1;
    ck_assert(sbx_verdict(&evidence, &verdict));
    ck_assert_int_eq(verdict.reason, SBX_REASON_MEMORY);
    evidence = evidence_of(&verdicts[0], 7);
    evidence.now.oom_kill = NO;
    evidence.now.local_oom = 3; /* a counter does not go back */
    ck_assert(!sbx_verdict(&evidence, &verdict));
}
END_TEST

/* --- demands --- */

#define BIT(what) (1U << (unsigned)SBX_REQUIRE_##what)
#define HELP "systemd-run --user --scope -p Delegate=yes"

struct demand {
    const char *name;
    struct {
        uint64_t memory;
        uint64_t threads;
        uint64_t swap;
        uint64_t cpu_quota;
        enum sbx_backend backend;
        unsigned require;
    } asked;
    bool no_leaf;
    struct {
        uint64_t memory;
        uint64_t threads;
        uint64_t swap;
        uint64_t cpu;
    } armed;
    const char *says[4]; /* parts of the message; none: content */
};

#define NOTHING                                                                          \
    {                                                                                    \
        NO, NO, NO, NO                                                                   \
    }

/* clang-format off */
static const struct demand demands[] = {
    {"auto, nothing to be had", {.memory = 1, .threads = 2}, true, NOTHING, {NULL}},
    {"auto, a bare leaf", {.memory = 1, .threads = 2}, false, NOTHING, {NULL}},
    {"complete needs no leaf", {.require = BIT(COMPLETE)}, true, NOTHING, {NULL}},
    {"cgroup2 and a bare leaf", {.memory = 1, .require = BIT(CGROUP2)}, false, NOTHING, {NULL}},
    {"cgroup2 and none", {.require = BIT(CGROUP2)}, true, NOTHING,
     {"option --require: cgroup2 ", "no leaf here", HELP, "--cgroup-root"}},
    {"backend and a bare leaf", {.memory = 1, .backend = SBX_BACKEND_CGROUP2}, false, NOTHING,
     {NULL}},
    {"backend and none", {.backend = SBX_BACKEND_CGROUP2}, true, NOTHING,
     {"option --backend: cgroup2 ", "no leaf here", HELP}},
    {"kernel-limits without a limit", {.require = BIT(KERNEL_LIMITS)}, true, NOTHING, {NULL}},
    {"kernel-limits of others", {.cpu_quota = 50, .require = BIT(KERNEL_LIMITS)}, false,
     {NO, NO, NO, 50}, {NULL}},
    {"kernel-limits, held",
     {.memory = 4096, .threads = 9, .require = BIT(KERNEL_LIMITS)}, false, {4096, 9, 0, NO}, {NULL}},
    {"kernel-limits, memory not held",
     {.memory = 4096, .threads = 9, .require = BIT(KERNEL_LIMITS)}, false, {NO, 9, NO, NO},
     {"--require kernel-limits: --memory", "controller memory, memory.max", "no memory here", HELP}},
    {"kernel-limits, threads not held",
     {.memory = 4096, .threads = 9, .require = BIT(KERNEL_LIMITS)}, false, {4096, NO, 0, NO},
     {"--require kernel-limits: --threads", "controller pids, pids.max", "no pids here", HELP}},
    {"kernel-limits, no leaf", {.memory = 4096, .require = BIT(KERNEL_LIMITS)}, true, NOTHING,
     {"--require kernel-limits: --memory", "memory.max", "no leaf here", HELP}},
    {"all that can be required",
     {.memory = 4096, .require = BIT(KERNEL_LIMITS) | BIT(CGROUP2) | BIT(COMPLETE)}, false,
     {4096, NO, 0, NO}, {NULL}},
    {"swap, held", {.memory = 4096, .swap = 4096}, false, {4096, NO, 4096, NO}, {NULL}},
    {"swap, not held", {.memory = 4096, .swap = 4096}, false, NOTHING,
     {"option --swap: ", "controller memory, memory.swap.max", "no memory here", HELP}},
    {"swap, no leaf", {.memory = 4096, .swap = 4096}, true, NOTHING,
     {"option --swap: ", "memory.swap.max", "no leaf here", HELP}},
    {"quota, held", {.cpu_quota = 150}, false, {NO, NO, NO, 150}, {NULL}},
    {"quota, not held", {.cpu_quota = 150}, false, NOTHING,
     {"option --cpu-quota: ", "controller cpu, cpu.max", "no cpu here", HELP}},
    {"no leaf, whatever it says of limits",
     {.memory = 4096, .require = BIT(KERNEL_LIMITS)}, true, {0, 0, 0, 0},
     {"--require kernel-limits: --memory", "no leaf here"}},
    {"quota, no leaf", {.cpu_quota = 150}, true, NOTHING,
     {"option --cpu-quota: ", "cpu.max", "no leaf here", "--cgroup-root"}},
};
/* clang-format on */

static struct sbx_spec *spec_of(const struct demand *row)
{
    struct sbx_spec *spec = sbx_spec_new();
    ck_assert_ptr_nonnull(spec);
    spec->limits.memory_bytes = row->asked.memory;
    spec->limits.threads_count = row->asked.threads;
    spec->limits.swap_bytes = row->asked.swap;
    spec->limits.cpu_quota_percent = row->asked.cpu_quota;
    spec->backend = row->asked.backend;
    spec->require = row->asked.require;
    return spec;
}

START_TEST(test_demand)
{
    const struct demand *row = &demands[_i];
    struct sbx_spec *spec = spec_of(row);
    struct sbx_armament armament = {
        .has_leaf = !row->no_leaf,
        .armed = {.memory_bytes = row->armed.memory,
                  .swap_bytes = row->armed.swap,
                  .threads_count = row->armed.threads,
                  .cpu_percent = row->armed.cpu},
        .why_none = "no leaf here",
    };
    armament.why[SBX_CONTROLLER_MEMORY] = "no memory here";
    armament.why[SBX_CONTROLLER_PIDS] = "no pids here";
    armament.why[SBX_CONTROLLER_CPU] = "no cpu here";
    struct sbx_error error = {0};
    int result = sbx_armament_check(spec, &armament, &error);
    ck_assert_msg(result == (row->says[0] != NULL ? -ENOTSUP : 0), "%s: %d %s", row->name,
                  result, error.message);
    ck_assert_int_eq(sbx_armament_check(spec, &armament, NULL), result);
    ck_assert_int_eq(error.stage, result < 0 ? SBX_STAGE_ARM : 0);
    for (size_t i = 0; i < LENGTH(row->says) && row->says[i] != NULL; i++) {
        ck_assert_msg(strstr(error.message, row->says[i]) != NULL, "%s: '%s' lacks '%s'",
                      row->name, error.message, row->says[i]);
    }
    sbx_spec_free(spec);
}
END_TEST

/* A reason as long as one can be: what helps is still in the message. */
START_TEST(test_demand_has_room)
{
    char why[SBX_WHY_SIZE];
    memset(why, 'w', sizeof why - 1);
    why[sizeof why - 1] = '\0';
    struct sbx_spec *spec = sbx_spec_new();
    ck_assert_ptr_nonnull(spec);
    spec->limits.memory_bytes = 1;
    spec->require = BIT(KERNEL_LIMITS);
    struct sbx_armament armament = {
        .has_leaf = true, .armed = {NO, NO, false, NO, NO}, .why_none = ""};
    for (size_t i = 0; i < SBX_CONTROLLER_COUNT; i++) {
        armament.why[i] = why;
    }
    struct sbx_error error = {0};
    ck_assert_int_eq(sbx_armament_check(spec, &armament, &error), -ENOTSUP);
    ck_assert_ptr_nonnull(strstr(error.message, why));
    ck_assert_ptr_nonnull(strstr(error.message, "--cgroup-root"));
    armament.why[SBX_CONTROLLER_MEMORY] = "";
    ck_assert_int_eq(sbx_armament_check(spec, &armament, &error), -ENOTSUP);
    ck_assert_ptr_nonnull(strstr(error.message, "the group has not got it"));
    sbx_spec_free(spec);
}
END_TEST

/* --- what goes together --- */

static const struct {
    const char *set[3][2];
    const char *says[2]; /* none: it does */
} combinations[] = {
    {{{"backend", "proc"}}, {NULL}},
    {{{"backend", "proc"}, {"memory", "1M"}, {"require", "complete"}}, {NULL}},
    {{{"backend", "auto"}, {"memory", "1M"}, {"swap", "1M"}}, {NULL}},
    {{{"backend", "cgroup2"}, {"cpu-quota", "50"}, {"cgroup-root", "/a"}}, {NULL}},
    {{{"backend", "proc"}, {"cpu-quota", "50"}}, {"--cpu-quota", "--backend proc"}},
    {{{"memory", "1M"}, {"swap", "1M"}, {"backend", "proc"}},
     {"--swap", "--backend proc"}},
    {{{"cgroup-root", "/a"}, {"backend", "proc"}}, {"--cgroup-root", "--backend proc"}},
    {{{"require", "cgroup2"}, {"backend", "proc"}},
     {"--require cgroup2", "--backend proc"}},
    {{{"backend", "proc"}, {"require", "kernel-limits"}},
     {"--require kernel-limits", "--backend proc"}},
    {{{"swap", "1M"}}, {"--swap", "--memory"}},
};

static void expect_parts(const struct sbx_error *error, const char *const parts[static 2])
{
    for (size_t i = 0; i < 2; i++) {
        ck_assert_msg(strstr(error->message, parts[i]) != NULL, "'%s' lacks '%s'",
                      error->message, parts[i]);
    }
}

START_TEST(test_combination)
{
    struct sbx_spec *spec = sbx_spec_new();
    ck_assert_ptr_nonnull(spec);
    for (size_t i = 0; i < 3 && combinations[_i].set[i][0] != NULL; i++) {
        const char *const *pair = combinations[_i].set[i];
        ck_assert_int_eq(sbx_spec_set(spec, pair[0], pair[1], NULL), 0);
    }
    struct sbx_error error = {0};
    int result = sbx_armament_check_options(spec, &error);
    if (combinations[_i].says[0] == NULL) {
        ck_assert_msg(result == 0, "%s", error.message);
        sbx_spec_free(spec);
        return;
    }
    ck_assert_int_eq(result, -EINVAL);
    ck_assert_int_eq(error.stage, SBX_STAGE_CHECK);
    expect_parts(&error, combinations[_i].says);
    sbx_spec_free(spec);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verdict");
    TCase *verdict = sbx_fixture_case(suite, "verdict", 20);
    tcase_add_loop_test(verdict, test_verdict, 0, (int)LENGTH(verdicts));
    tcase_add_test(verdict, test_verdict_of_half_a_story);
    tcase_add_test(verdict, test_below_is_asked);
    TCase *demand = sbx_fixture_case(suite, "demand", 20);
    tcase_add_loop_test(demand, test_demand, 0, (int)LENGTH(demands));
    tcase_add_test(demand, test_demand_has_room);
    tcase_add_loop_test(demand, test_combination, 0, (int)LENGTH(combinations));
    return sbx_fixture_run(suite);
}
