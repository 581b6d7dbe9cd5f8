/*
 * test_meter_torn.c - sums of shared memory while members leave: a page that two had in
 * turn counts twice, which must break no limit; nor may anybody hide behind that.
 *
 * The members are real and idle; what their smaps_rollup says is played, by the linker's
 * --wrap, and time is what the sample is told.
 */
#include "tests/fixture.h"
#include "tests/tree_kit.h"

#include "base/clock.h"
#include "monitor/meter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS 3
#define LIMIT_BYTES UINT64_C(4096) /* below the RSS of any process: it is always read */
#define TICK_US 100000U

/* What a reading of one member says. */
struct said {
    uint64_t pss_bytes;
    uint64_t private_bytes;
    int error;
};

/* The script of a test: what every reading says, in turn; the last one again and again.
 */
static struct {
    const struct said (*readings)[MEMBERS];
    size_t count;
    size_t next; /* entry, counted through all readings */
} script;

int __wrap_sbx_proc_smaps_at(int proc_fd, pid_t pid, struct sbx_proc_smaps *ret_smaps);

int __wrap_sbx_proc_smaps_at(int proc_fd, pid_t pid, struct sbx_proc_smaps *ret_smaps)
{
    (void)proc_fd;
    (void)pid;
    size_t reading = script.next / MEMBERS;
    const struct said *said =
        &script.readings[reading < script.count ? reading : script.count - 1]
                        [script.next % MEMBERS];
    script.next++;
    if (said->error != 0) {
        return said->error;
    }
    *ret_smaps = (struct sbx_proc_smaps){
        .rss_bytes = said->pss_bytes,
        .pss_bytes = said->pss_bytes,
        .anon_bytes = said->pss_bytes,
        .shmem_bytes = 0,
        .swap_pss_bytes = 0,
        .private_clean_bytes = 0,
        .private_dirty_bytes = said->private_bytes,
    };
    return 0;
}

/* 0: only the peak is of interest. */
static uint64_t limit_bytes = LIMIT_BYTES;

/* What the report would have. */
static struct sbx_usage usage;

/* Samples the tree of three, a tick apart, until one knows the memory; how many it took,
 * and what the last one said. */
static unsigned samples_until_known(const struct said (*readings)[MEMBERS], size_t count,
                                    uint64_t *ret_memory)
{
    static struct sbx_pss_area area;
    const struct sbx_limits limits = {.memory_bytes = limit_bytes};
    struct sbx_record record;
    struct sbx_kit kit;
    struct sbx_pss *pss = NULL;
    struct sbx_meter meter;
    sbx_record_init(&record);
    sbx_kit_open(&kit, 64);
    ck_assert_int_eq(sbx_pss_new(kit.proc_fd, &area, NULL, &pss), 0);
    sbx_meter_init(&meter, kit.proc_fd, &limits, pss, &record.usage);
    for (int i = 0; i < MEMBERS; i++) {
        if (sbx_kit_fork() == 0) {
            sbx_kit_idle();
        }
    }
    sbx_kit_settle(&kit, MEMBERS);
    script.readings = readings;
    script.count = count;
    script.next = 0;
    struct sbx_sample sample = {.memory_bytes = SBX_UNKNOWN};
    unsigned samples = 0;
    while (sample.memory_bytes == SBX_UNKNOWN && samples < 100) {
        struct sbx_error error = {0};
        samples++;
        int r = sbx_meter_sample(&meter, kit.tree, (uint64_t)samples * TICK_US, &sample,
                                 &error);
        ck_assert_msg(r == 0, "%s", error.message);
        ck_assert_uint_eq(script.next % MEMBERS, 0);
    }
    *ret_memory = sample.memory_bytes;
    usage = record.usage;
    sbx_pss_free(pss);
    sbx_kit_close(&kit);
    return samples;
}

#define GONE                                                                             \
    {                                                                                    \
        0, 0, -ESRCH                                                                     \
    }
/* One page of 6,000 bytes that all three share, and then two, and then one. */
#define ALL                                                                              \
    {2000, 0, 0}, {2000, 0, 0},                                                          \
    {                                                                                    \
        2000, 0, 0                                                                       \
    }

START_TEST(what_all_share_and_keep_counts_at_once)
{
    static const struct said readings[][MEMBERS] = {{ALL}};
    uint64_t memory = 0;
    ck_assert_uint_eq(samples_until_known(readings, 1, &memory), 1);
    ck_assert_uint_eq(memory, 6000);
    ck_assert_uint_eq(script.next, 2 * MEMBERS); /* the second confirms the first */
}
END_TEST

/* No reading is like the one before: somebody leaves in each. It is the last who has what
 * there is, and that is below the limit. */
START_TEST(a_crowd_that_leaves_breaks_no_limit)
{
    static const struct said readings[][MEMBERS] = {
        {{1000, 0, 0}, {1500, 0, 0}, {3000, 3000, 0}}, /* 5,500, of 3,000 */
        {GONE, {1500, 0, 0}, {3000, 3000, 0}},         /* 4,500 */
        {GONE, GONE, {3000, 3000, 0}},
    };
    uint64_t memory = 0;
    ck_assert_uint_eq(samples_until_known(readings, 3, &memory), 1);
    ck_assert_uint_eq(memory, 3000);
}
END_TEST

/* As above, but each sample has time for one torn sum after another. */
START_TEST(a_torn_sum_is_doubted_until_it_is_whole)
{
    static const struct said readings[][MEMBERS] = {
        {{1500, 0, 0}, {1500, 0, 0}, {3000, 3000, 0}},
        {GONE, {3000, 0, 0}, {3000, 3000, 0}},
        {GONE, GONE, {4500, 3000, 0}}, /* the sample ends in doubt */
        {GONE, GONE, {3000, 3000, 0}},
    };
    uint64_t memory = 0;
    ck_assert_uint_eq(samples_until_known(readings, 4, &memory), 2);
    ck_assert_uint_eq(memory, 3000);
}
END_TEST

/* Half a second and several samples long nothing but torn sums above the limit: who goes
 * on so is over it. */
START_TEST(nobody_hides_behind_those_who_leave)
{
    static struct said readings[300][MEMBERS];
    for (int i = 0; i < 300; i++) {
        for (int j = 0; j < MEMBERS; j++) {
            bool gone = j < i % 3; /* in each sample nobody, then one, then two */
            readings[i][j] =
                gone ? (struct said){.error = -ESRCH}
                     : (struct said){.pss_bytes = 9000U / (3U - (unsigned)i % 3U)};
        }
    }
    uint64_t memory = 0;
    unsigned samples =
        samples_until_known((const struct said(*)[MEMBERS])readings, 300, &memory);
    ck_assert_uint_ge(samples, 2);
    ck_assert_uint_le(samples, 8);
    ck_assert_uint_gt(memory, LIMIT_BYTES);
}
END_TEST

/* What members have to themselves cannot count twice. */
START_TEST(private_memory_is_not_doubted)
{
    static const struct said readings[][MEMBERS] = {
        {{2000, 2000, 0}, {2000, 2000, 0}, {2000, 2000, 0}},
        {GONE, {2000, 2000, 0}, {2000, 2000, 0}},
    };
    uint64_t memory = 0;
    ck_assert_uint_eq(samples_until_known(readings, 2, &memory), 1);
    ck_assert_uint_eq(memory, 6000);
    ck_assert_uint_eq(script.next, MEMBERS);
}
END_TEST

/* Nor does a crowd that leaves make a peak that never was. */
START_TEST(a_torn_sum_is_no_peak)
{
    static const struct said readings[][MEMBERS] = {
        {{1000, 0, 0}, {1500, 0, 0}, {3000, 1000, 0}}, /* 5,500, of 3,000 */
        {GONE, {1500, 0, 0}, {3000, 1000, 0}},         /* 4,500 */
    };
    uint64_t memory = 0;
    limit_bytes = 0;
    ck_assert_uint_eq(samples_until_known(readings, 2, &memory), 1);
    ck_assert_uint_eq(memory, 1000); /* what somebody had alone */
    ck_assert_uint_eq(usage.memory_peak_bytes, 1000);
}
END_TEST

/* Unknown is not 0: a command that has ended before it could be asked used some. */
START_TEST(who_is_gone_was_not_measured)
{
    static const struct said readings[][MEMBERS] = {{GONE, GONE, GONE}};
    uint64_t memory = 0;
    limit_bytes = 0;
    (void)samples_until_known(readings, 1, &memory);
    ck_assert_uint_eq(usage.memory_peak_bytes, SBX_UNKNOWN);
    ck_assert_uint_eq(usage.memory_anon_peak_bytes, SBX_UNKNOWN);
    ck_assert_uint_eq(usage.swap_peak_bytes, SBX_UNKNOWN);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("meter_torn");
    TCase *torn = sbx_fixture_case(suite, "torn", 60);
    tcase_add_test(torn, what_all_share_and_keep_counts_at_once);
    tcase_add_test(torn, a_crowd_that_leaves_breaks_no_limit);
    tcase_add_test(torn, a_torn_sum_is_doubted_until_it_is_whole);
    tcase_add_test(torn, nobody_hides_behind_those_who_leave);
    tcase_add_test(torn, private_memory_is_not_doubted);
    tcase_add_test(torn, a_torn_sum_is_no_peak);
    tcase_add_test(torn, who_is_gone_was_not_measured);
    return sbx_fixture_run(suite);
}
