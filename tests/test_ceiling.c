/*
 * test_ceiling.c - ceilings are parsed strictly, refused where they would not bite, and
 * in force exactly as asked or an error.
 *
 * What arms does so in a process of its own, which gives up root first where it has it: a
 * privileged process may raise hard limits, an ordinary one may not, and the test wants
 * the latter.
 */
#include "reaper/ceiling.h"

#include "tests/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define INF RLIM_INFINITY
#define KIB ((rlim_t)1024)
#define NOBODY 65534
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static int index_of(int resource)
{
    for (int i = 0; i < SBX_CEILING_COUNT; i++) {
        if (sbx_ceiling_kinds[i].resource == resource) {
            return i;
        }
    }
    ck_abort_msg("resource %d is not in the table", resource);
    return -1;
}

static const struct {
    const char *text;
    int resource;
    rlim_t soft;
    rlim_t hard;
} good[] = {
    {"nofile=64", RLIMIT_NOFILE, 64, 64},
    {"nofile=64:128", RLIMIT_NOFILE, 64, 128},
    {"nofile=64:unlimited", RLIMIT_NOFILE, 64, INF},
    {"nofile=unlimited", RLIMIT_NOFILE, INF, INF},
    {"nofile=unlimited:unlimited", RLIMIT_NOFILE, INF, INF},
    {"core=0", RLIMIT_CORE, 0, 0},
    {"core=0:unlimited", RLIMIT_CORE, 0, INF},
    {"core=4K:1M", RLIMIT_CORE, 4 * KIB, KIB *KIB},
    {"as=1G", RLIMIT_AS, KIB *KIB *KIB, KIB *KIB *KIB},
    {"as=1GB", RLIMIT_AS, 1000000000, 1000000000},
    {"as=18446744073709551614", RLIMIT_AS, INF - 1, INF - 1},
    {"data=1.5K", RLIMIT_DATA, 1536, 1536},
    {"fsize=1B", RLIMIT_FSIZE, 1, 1},
    {"memlock=64KiB", RLIMIT_MEMLOCK, 64 * KIB, 64 * KIB},
    {"msgqueue=819200", RLIMIT_MSGQUEUE, 819200, 819200},
    {"rss=1M", RLIMIT_RSS, KIB *KIB, KIB *KIB},
    {"stack=8M", RLIMIT_STACK, 8 * KIB *KIB, 8 * KIB *KIB},
    {"locks=3", RLIMIT_LOCKS, 3, 3},
    {"nice=40", RLIMIT_NICE, 40, 40},
    {"rtprio=0:99", RLIMIT_RTPRIO, 0, 99},
    {"nproc=100", RLIMIT_NPROC, 100, 100},
    {"sigpending=0", RLIMIT_SIGPENDING, 0, 0},
    {"rttime=1500us", RLIMIT_RTTIME, 1500, 1500},
    {"rttime=200ms:1", RLIMIT_RTTIME, 200000, 1000000},
    {"cpu=5", RLIMIT_CPU, 5, 6},
    {"cpu=0", RLIMIT_CPU, 0, 1},
    {"cpu=5:5", RLIMIT_CPU, 5, 5},
    {"cpu=5:9", RLIMIT_CPU, 5, 9},
    {"cpu=90s", RLIMIT_CPU, 90, 91},
    {"cpu=2m", RLIMIT_CPU, 120, 121},
    {"cpu=0.5m", RLIMIT_CPU, 30, 31},
    {"cpu=3000ms", RLIMIT_CPU, 3, 4},
    {"cpu=unlimited", RLIMIT_CPU, INF, INF},
    {"cpu=1:unlimited", RLIMIT_CPU, 1, INF},
    {"cpu=18446744072", RLIMIT_CPU, 18446744072, 18446744073},
    {"cpu=18446744073:18446744073", RLIMIT_CPU, 18446744073, 18446744073},
};

START_TEST(parses)
{
    struct sbx_ceiling ceilings[SBX_CEILING_COUNT] = {{.asked = false}};
    struct sbx_error error = {.code = 0};
    int result = sbx_ceiling_parse(good[_i].text, ceilings, &error);
    ck_assert_msg(result == 0, "%s: %s", good[_i].text, error.message);
    int index = index_of(good[_i].resource);
    for (int i = 0; i < SBX_CEILING_COUNT; i++) {
        ck_assert_msg(ceilings[i].asked == (i == index), "%s: entry %d", good[_i].text,
                      i);
    }
    ck_assert_msg(ceilings[index].soft == good[_i].soft &&
                      ceilings[index].hard == good[_i].hard,
                  "%s: %ju:%ju", good[_i].text, (uintmax_t)ceilings[index].soft,
                  (uintmax_t)ceilings[index].hard);
}
END_TEST

static const struct {
    const char *text;
    int code;
    const char *message; /* part of it */
} bad[] = {
    {"", EINVAL, "NAME=VALUE"},
    {"nofile", EINVAL, "NAME=VALUE"},
    {"nofile:64", EINVAL, "NAME=VALUE"},
    {"=64", EINVAL, "name of a ceiling"},
    {"files=64", EINVAL, "rttime sigpending"},
    {"NOFILE=64", EINVAL, "name of a ceiling"},
    {"RLIMIT_NOFILE=64", EINVAL, "name of a ceiling"},
    {"nofil=64", EINVAL, "name of a ceiling"},
    {"nofiles=64", EINVAL, "name of a ceiling"},
    {" nofile=64", EINVAL, "name of a ceiling"},
    {"nofile =64", EINVAL, "name of a ceiling"},
    {"nofile=", EINVAL, "a count in digits"},
    {"nofile= 64", EINVAL, "a count in digits"},
    {"nofile=64 ", EINVAL, "a count in digits"},
    {"nofile=64\n", EINVAL, "nofile=64\\x0A"},
    {"nofile=-1", EINVAL, "a count in digits"},
    {"nofile=+1", EINVAL, "a count in digits"},
    {"nofile=0x10", EINVAL, "a count in digits"},
    {"nofile=010", EINVAL, "a count in digits"},
    {"nofile=1e3", EINVAL, "a count in digits"},
    {"nofile=64K", EINVAL, "a count in digits"},
    {"nofile=1.0", EINVAL, "a count in digits"},
    {"nofile==64", EINVAL, "a count in digits"},
    {"nofile=64:", EINVAL, "a count in digits"},
    {"nofile=:64", EINVAL, "a count in digits"},
    {"nofile=:", EINVAL, "a count in digits"},
    {"nofile=1:2:3", EINVAL, "a count in digits"},
    {"nofile=1,2", EINVAL, "a count in digits"},
    {"nofile=Unlimited", EINVAL, "unlimited"},
    {"nofile=infinity", EINVAL, "unlimited"},
    {"nofile=unlimitedx", EINVAL, "unlimited"},
    {"nofile=128:64", EINVAL, "soft limit above its hard limit"},
    {"nofile=unlimited:64", EINVAL, "soft limit above its hard limit"},
    {"nofile=18446744073709551615", ERANGE, "out of range"},
    {"nofile=18446744073709551616", ERANGE, "out of range"},
    {"nofile=1:18446744073709551615", ERANGE, "out of range"},
    {"nofile=18446744073709551680", ERANGE, "out of range"},
    {"nice=-5", EINVAL, "a count in digits"},
    {"rtprio=1s", EINVAL, "a count in digits"},
    {"as=1g", EINVAL, "a size such as"},
    {"as=1Gx", EINVAL, "a size such as"},
    {"as=1s", EINVAL, "a size such as"},
    {"as=16777216T", ERANGE, "out of range"},
    {"as=18446744073709551615", ERANGE, "out of range"},
    {"cpu=1.5", EINVAL, "whole seconds"},
    {"cpu=1500ms", EINVAL, "whole seconds"},
    {"cpu=1us", EINVAL, "whole seconds"},
    {"cpu=5K", EINVAL, "whole seconds"},
    {"cpu=5s garbage", EINVAL, "whole seconds"},
    /* The kernel would wrap these and fire at once. */
    {"cpu=18446744073", ERANGE, "out of range"},
    {"cpu=18446744074:unlimited", ERANGE, "out of range"},
    {"cpu=1:18446744074", ERANGE, "out of range"},
    {"cpu=99999999999999999999", ERANGE, "out of range"},
    {"rttime=1.0000001", EINVAL, "a duration such as"},
    {"rttime=nan", EINVAL, "a duration such as"},
    {"rttime=18446744073709551615us", ERANGE, "out of range"},
    {"as=00000000000000000000000000000000000000000000000000000000000000000000000001:2",
     EINVAL, "a size such as"},
};

START_TEST(refuses)
{
    struct sbx_ceiling ceilings[SBX_CEILING_COUNT];
    struct sbx_ceiling before[SBX_CEILING_COUNT];
    memset(ceilings, 0x5a, sizeof ceilings);
    memcpy(before, ceilings, sizeof before);
    struct sbx_error error = {.code = 0};
    int result = sbx_ceiling_parse(bad[_i].text, ceilings, &error);
    ck_assert_msg(result == -bad[_i].code, "%s: %d", bad[_i].text, result);
    ck_assert_int_eq(error.code, bad[_i].code);
    ck_assert_int_eq(error.stage, SBX_STAGE_OPTIONS);
    ck_assert_msg(strstr(error.message, bad[_i].message) != NULL, "%s", error.message);
    ck_assert_ptr_null(strchr(error.message, '\n'));
    ck_assert_mem_eq(ceilings, before, sizeof before);
    ck_assert_int_eq(sbx_ceiling_parse(bad[_i].text, ceilings, NULL), -bad[_i].code);
}
END_TEST

/* A later one replaces the whole earlier one, and leaves the others. */
START_TEST(replaces)
{
    struct sbx_ceiling ceilings[SBX_CEILING_COUNT] = {{.asked = false}};
    ck_assert_int_eq(sbx_ceiling_parse("nofile=10:20", ceilings, NULL), 0);
    ck_assert_int_eq(sbx_ceiling_parse("core=0", ceilings, NULL), 0);
    ck_assert_int_eq(sbx_ceiling_parse("nofile=30", ceilings, NULL), 0);
    const struct sbx_ceiling *nofile = &ceilings[index_of(RLIMIT_NOFILE)];
    ck_assert_uint_eq(nofile->soft, 30);
    ck_assert_uint_eq(nofile->hard, 30);
    ck_assert(ceilings[index_of(RLIMIT_CORE)].asked);
}
END_TEST

/* The names are those of prlimit(1), each resource once, in the order of the contract. */
START_TEST(table_is_complete)
{
    static const char names[] =
        "as core cpu data fsize locks memlock msgqueue nice nofile "
        "nproc rss rtprio rttime sigpending stack ";
    char joined[256] = "";
    bool seen[RLIM_NLIMITS] = {false};
    ck_assert_int_eq(RLIM_NLIMITS, SBX_CEILING_COUNT);
    for (int i = 0; i < SBX_CEILING_COUNT; i++) {
        strncat(joined, sbx_ceiling_kinds[i].name, 32);
        strncat(joined, " ", 2);
        ck_assert(!seen[sbx_ceiling_kinds[i].resource]);
        seen[sbx_ceiling_kinds[i].resource] = true;
    }
    ck_assert_str_eq(joined, names);
}
END_TEST

START_TEST(nproc_is_refused_for_root)
{
    struct sbx_ceiling ceilings[SBX_CEILING_COUNT] = {{.asked = false}};
    struct sbx_error error = {.code = 0};
    ck_assert_int_eq(sbx_ceiling_parse("nofile=1", ceilings, NULL), 0);
    ck_assert_int_eq(sbx_ceiling_check(ceilings, 0, &error), 0);
    ck_assert_int_eq(sbx_ceiling_parse("nproc=50", ceilings, NULL), 0);
    ck_assert_int_eq(sbx_ceiling_check(ceilings, NOBODY, &error), 0);
    ck_assert_int_eq(error.code, 0);
    ck_assert_int_eq(sbx_ceiling_check(ceilings, 0, &error), -EINVAL);
    ck_assert_int_eq(error.stage, SBX_STAGE_ARM);
    ck_assert_ptr_nonnull(strstr(error.message, "nproc"));
    ck_assert_ptr_nonnull(strstr(error.message, "--processes"));
}
END_TEST

/* What a process that armed ceilings found. */
struct armed {
    int result;
    struct sbx_error error;
    struct rlimit limits[SBX_CEILING_COUNT];
};

static void read_limits(struct rlimit limits[static SBX_CEILING_COUNT])
{
    for (int i = 0; i < SBX_CEILING_COUNT; i++) {
        unsigned resource = (unsigned)sbx_ceiling_kinds[i].resource;
        if (getrlimit(resource, &limits[i]) < 0) {
            _exit(3);
        }
    }
}

/* Parses blank-separated texts; an end of the process that does not. */
static void parse_all(const char *texts,
                      struct sbx_ceiling ceilings[static SBX_CEILING_COUNT])
{
    char copy[256];
    (void)snprintf(copy, sizeof copy, "%s", texts);
    for (char *text = strtok(copy, " "); text != NULL; text = strtok(NULL, " ")) {
        if (sbx_ceiling_parse(text, ceilings, NULL) < 0) {
            _exit(1);
        }
    }
}

static _Noreturn void arm_and_tell(const char *inherited, const char *wanted, int fd)
{
    struct sbx_ceiling lower[SBX_CEILING_COUNT] = {{.asked = false}};
    struct sbx_ceiling ceilings[SBX_CEILING_COUNT] = {{.asked = false}};
    struct armed armed;
    memset(&armed, 0, sizeof armed);
    parse_all(inherited, lower);
    parse_all(wanted, ceilings);
    if (sbx_ceiling_arm(lower, NULL) < 0 ||
        (getuid() == 0 && setresuid(NOBODY, NOBODY, NOBODY) < 0)) {
        _exit(2);
    }
    armed.result = sbx_ceiling_arm(ceilings, &armed.error);
    read_limits(armed.limits);
    _exit(write(fd, &armed, sizeof armed) == (ssize_t)sizeof armed ? 0 : 4);
}

/* Arms what is wanted in a process of its own, without root, after lowering the inherited
 * limits that `inherited` names. */
static struct armed arm(const char *inherited, const char *wanted)
{
    struct armed armed;
    int ends[2];
    int status = 0;
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        arm_and_tell(inherited, wanted, ends[1]);
    }
    (void)close(ends[1]);
    ssize_t length = read(ends[0], &armed, sizeof armed);
    (void)close(ends[0]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(length, (ssize_t)sizeof armed);
    return armed;
}

START_TEST(arms_exactly)
{
    struct armed armed =
        arm("", "nofile=20:33 core=0 cpu=7 fsize=1M:2M stack=1M as=900000001 rttime=5ms "
                "data=800M locks=7 memlock=4K msgqueue=1K nice=0 nproc=9 rss=1M rtprio=0 "
                "sigpending=11");
    ck_assert_msg(armed.result == 0, "%s", armed.error.message);
    static const struct {
        int resource;
        rlim_t soft;
        rlim_t hard;
    } rows[] = {
        {RLIMIT_NOFILE, 20, 33},
        {RLIMIT_CORE, 0, 0},
        {RLIMIT_CPU, 7, 8},
        {RLIMIT_FSIZE, KIB * KIB, 2 * KIB * KIB},
        {RLIMIT_STACK, KIB * KIB, KIB * KIB},
        {RLIMIT_AS, 900000001, 900000001},
        {RLIMIT_RTTIME, 5000, 5000},
        {RLIMIT_DATA, 800 * KIB * KIB, 800 * KIB * KIB},
        {RLIMIT_LOCKS, 7, 7},
        {RLIMIT_MEMLOCK, 4 * KIB, 4 * KIB},
        {RLIMIT_MSGQUEUE, KIB, KIB},
        {RLIMIT_NICE, 0, 0},
        {RLIMIT_NPROC, 9, 9},
        {RLIMIT_RSS, KIB * KIB, KIB * KIB},
        {RLIMIT_RTPRIO, 0, 0},
        {RLIMIT_SIGPENDING, 11, 11},
    };
    for (size_t i = 0; i < LENGTH(rows); i++) {
        const struct rlimit *limit = &armed.limits[index_of(rows[i].resource)];
        ck_assert_msg(limit->rlim_cur == rows[i].soft && limit->rlim_max == rows[i].hard,
                      "row %zu: %ju:%ju", i, (uintmax_t)limit->rlim_cur,
                      (uintmax_t)limit->rlim_max);
    }
}
END_TEST

/* Everything at its narrowest, in the order of the table, does not stop what comes after
 * it. */
START_TEST(narrow_ceilings_do_not_stop_arming)
{
    struct armed armed =
        arm("", "as=0 core=0 data=0 fsize=0 memlock=0 msgqueue=0 nofile=0 "
                "nproc=0 rss=0 sigpending=0 stack=0");
    ck_assert_msg(armed.result == 0, "%s", armed.error.message);
    ck_assert_uint_eq(armed.limits[index_of(RLIMIT_AS)].rlim_max, 0);
    ck_assert_uint_eq(armed.limits[index_of(RLIMIT_STACK)].rlim_max, 0);
}
END_TEST

/* What was not asked for stays as it was. */
START_TEST(leaves_the_rest)
{
    struct armed before = arm("", "");
    struct armed after = arm("", "core=0");
    ck_assert_int_eq(after.result, 0);
    for (int i = 0; i < SBX_CEILING_COUNT; i++) {
        if (sbx_ceiling_kinds[i].resource != RLIMIT_CORE) {
            ck_assert_mem_eq(&before.limits[i], &after.limits[i],
                             sizeof before.limits[i]);
        }
    }
}
END_TEST

static const struct {
    const char *inherited;
    const char *wanted;
    const char *message; /* whole */
} beyond[] = {
    {"nofile=64", "nofile=128",
     "ceiling nofile: wanted 128, hard limit in force is 64: EPERM (not permitted)"},
    {"nofile=64", "nofile=32:65",
     "ceiling nofile: wanted 32:65, hard limit in force is 64: EPERM (not permitted)"},
    {"as=1G", "as=unlimited",
     "ceiling as: wanted unlimited, hard limit in force is 1073741824: EPERM (not "
     "permitted)"},
    {"cpu=10:10", "cpu=10",
     "ceiling cpu: wanted 10:11, hard limit in force is 10: EPERM (not permitted)"},
    {"core=0", "core=0:unlimited",
     "ceiling core: wanted 0:unlimited, hard limit in force is 0: EPERM (not permitted)"},
};

START_TEST(never_weakens)
{
    struct armed armed = arm(beyond[_i].inherited, beyond[_i].wanted);
    ck_assert_int_eq(armed.result, -EPERM);
    ck_assert_int_eq(armed.error.code, EPERM);
    ck_assert_int_eq(armed.error.stage, SBX_STAGE_ARM);
    ck_assert_str_eq(armed.error.message, beyond[_i].message);
}
END_TEST

/* At the inherited limit there is nothing to raise. */
START_TEST(takes_what_is_inherited)
{
    struct armed armed = arm("nofile=64 core=0", "nofile=64 core=0");
    ck_assert_msg(armed.result == 0, "%s", armed.error.message);
    ck_assert_uint_eq(armed.limits[index_of(RLIMIT_NOFILE)].rlim_max, 64);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ceiling");
    TCase *parse = sbx_fixture_case(suite, "parse", 30);
    tcase_add_loop_test(parse, parses, 0, (int)LENGTH(good));
    tcase_add_loop_test(parse, refuses, 0, (int)LENGTH(bad));
    tcase_add_test(parse, replaces);
    tcase_add_test(parse, table_is_complete);
    tcase_add_test(parse, nproc_is_refused_for_root);
    TCase *arming = sbx_fixture_case(suite, "arm", 30);
    tcase_add_test(arming, arms_exactly);
    tcase_add_test(arming, narrow_ceilings_do_not_stop_arming);
    tcase_add_test(arming, leaves_the_rest);
    tcase_add_loop_test(arming, never_weakens, 0, (int)LENGTH(beyond));
    tcase_add_test(arming, takes_what_is_inherited);
    return sbx_fixture_run(suite);
}
