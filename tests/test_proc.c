/*
 * test_proc.c - the readers of /proc on text: tables of good and bad lines, and a
 * captured tree (tests/data/proc). What they say of live processes is compared with
 * libproc2 in test_proc_cross.c.
 *
 * Every text is copied to the end of a page that is followed by an inaccessible one, so
 * that a parser which reads past its end is killed, with or without a sanitizer.
 */
#include "reaper/proc.h"

#include "base/fd.h"
#include "tests/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A copy whose end is the end of accessible memory; one at a time. */
static const char *at_page_end(const char *text, size_t length)
{
    static char *pages;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    ck_assert_uint_le(length, page);
    if (pages == NULL) {
        pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                     -1, 0);
        ck_assert_ptr_ne(pages, MAP_FAILED);
        ck_assert_int_eq(mprotect(pages + page, page, PROT_NONE), 0);
    }
    char *copy = pages + page - length;
    memcpy(copy, text, length);
    return copy;
}

/* Outputs are filled with this before a call that must fail. */
static bool untouched(const void *memory, size_t size)
{
    const unsigned char *bytes = memory;
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != 0xa5) {
            return false;
        }
    }
    return true;
}

/* ---- stat ---- */

/* Fields 3 to 24 and the rest of a line. */
#define TAIL                                                                             \
    " S 7 8 9 34816 -1 4194304 100 200 3 4 11 12 13 14 20 0 2 0 777 17289216 2884 "      \
    "18446744073709551615 1 1 0 0 0 0 0 4096 0 1 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
#define UP_TO_RSS " S 7 8 9 0 -1 0 1 2 3 4 11 12 13 14 20 0 2 0 777 17289216 "

static const struct {
    const char *text;
    pid_t pid;
    const char *name;
} good_stat[] = {
    {"5955 (cat)" TAIL, 5955, "cat"},
    {"4194304 (cat)" TAIL, 4194304, "cat"},
    {"2147483647 (cat)" TAIL, INT_MAX, "cat"},
    {"1 ()" TAIL, 1, ""},
    {"12 (a b c)" TAIL, 12, "a b c"},
    {"12 (x) Z 1 1 1 (y)" TAIL, 12, "x) Z 1 1 1 (y"},
    {"12 () Z 1 1 (x)" TAIL, 12, ") Z 1 1 (x"},
    {"12 (()))" TAIL, 12, "())"},
    {"12 (a\nVmHWM:\t9 kB)" TAIL, 12, "a\nVmHWM:\t9 kB"},
    {"12 (\xff\x01\x1b[31m)" TAIL, 12, "\xff\x01\x1b[31m"},
    {"12 (fifteen-bytes-x)" TAIL, 12, "fifteen-bytes-x"},
    {"12 (kworker/u8:3-events_unbound)" TAIL, 12, "kworker/u8:3-ev"},
};

START_TEST(stat_of_every_name)
{
    struct sbx_proc_stat stat;
    const char *text = good_stat[_i].text;
    size_t length = strlen(text);
    ck_assert_int_eq(sbx_proc_parse_stat(at_page_end(text, length), length, &stat), 0);
    ck_assert_int_eq(stat.pid, good_stat[_i].pid);
    ck_assert_str_eq(stat.name, good_stat[_i].name);
    ck_assert_int_eq(stat.state, 'S');
    ck_assert_int_eq(stat.ppid, 7);
    ck_assert_int_eq(stat.pgrp, 8);
    ck_assert_int_eq(stat.session, 9);
    ck_assert_uint_eq(stat.utime_ticks, 11);
    ck_assert_uint_eq(stat.stime_ticks, 12);
    ck_assert_uint_eq(stat.cutime_ticks, 13);
    ck_assert_uint_eq(stat.cstime_ticks, 14);
    ck_assert_uint_eq(stat.threads, 2);
    ck_assert_uint_eq(stat.start_ticks, 777);
    ck_assert_uint_eq(stat.rss_pages, 2884);
}
END_TEST

/* Cut at any byte, a line is refused: no prefix of it means something else. */
START_TEST(stat_cut_anywhere)
{
    const char *text = good_stat[_i].text;
    struct sbx_proc_stat stat;
    for (size_t length = 0; length < strlen(text); length++) {
        memset(&stat, 0xa5, sizeof(stat));
        int rc = sbx_proc_parse_stat(at_page_end(text, length), length, &stat);
        ck_assert_msg(rc == -EBADMSG, "cut to %zu bytes: %d", length, rc);
        ck_assert(untouched(&stat, sizeof(stat)));
    }
}
END_TEST

static const struct {
    const char *text;
    int rc;
} bad_stat[] = {
    {"\n", -EBADMSG},
    {")\n", -EBADMSG},
    {"(x)\n", -EBADMSG},
    {"garbage\n", -EBADMSG},
    {"12 (x\n", -EBADMSG},
    {"12 x)" TAIL, -EBADMSG},
    {"12(x)" TAIL, -EBADMSG},
    {"12  (x)" TAIL, -EBADMSG},
    {" 12 (x)" TAIL, -EBADMSG},
    {"+12 (x)" TAIL, -EBADMSG},
    {"-12 (x)" TAIL, -EBADMSG},
    {"0 (x)" TAIL, -EBADMSG},
    {"012 (x)" TAIL, -EBADMSG},
    {"0x12 (x)" TAIL, -EBADMSG},
    {"2147483648 (x)" TAIL, -EBADMSG},
    {"18446744073709551628 (x)" TAIL, -EBADMSG}, /* 2^64 + 12 */
    {"12 (x) " TAIL, -EBADMSG},
    {"12 (x) SS 7 8 9 0 -1 0 1 2 3 4 11 12 13 14 20 0 2 0 777 1 1 0\n", -EBADMSG},
    {"12 (x) 5 7 8 9 0 -1 0 1 2 3 4 11 12 13 14 20 0 2 0 777 1 1 0\n", -EBADMSG},
    {"12 (x) S  7 8 9 0 -1 0 1 2 3 4 11 12 13 14 20 0 2 0 777 1 1 0\n", -EBADMSG},
    {"12 (x) S 7\t8 9 0 -1 0 1 2 3 4 11 12 13 14 20 0 2 0 777 1 1 0\n", -EBADMSG},
    {"12 (x) S -7 8 9 0 -1 0 1 2 3 4 11 12 13 14 20 0 2 0 777 1 1 0\n", -EBADMSG},
    {"12 (x) S 7 -8 9 0 -1 0 1 2 3 4 11 12 13 14 20 0 2 0 777 1 1 0\n", -EBADMSG},
    {"12 (x) S 7 8 -1 0 -1 0 1 2 3 4 11 12 13 14 20 0 2 0 777 1 1 0\n", -EBADMSG},
    {"12 (x) S 7 -1 -1 0 -1 0 1 2 3 4 11 12 13 14 20 0 2 0 777 1 1 0\n", -EBADMSG},
    {"12 (x) S 2147483648 8 9 0 -1 0 1 2 3 4 11 12 13 14 20 0 2 0 777 1 1 0\n", -EBADMSG},
    {"12 (x) S 7 8 9 0 - 0 1 2 3 4 11 12 13 14 20 0 2 0 777 1 1 0\n", -EBADMSG},
    {"12 (x) S 7 8 9 0 --1 0 1 2 3 4 11 12 13 14 20 0 2 0 777 1 1 0\n", -EBADMSG},
    {"12 (x) S 7 8 9 0 -1 0 1 2 3 4 -11 12 13 14 20 0 2 0 777 1 1 0\n", -EBADMSG},
    {"12 (x) S 7 8 9 0 -1 0 1 2 3 4 11 12 -13 14 20 0 2 0 777 1 1 0\n", -EBADMSG},
    {"12 (x) S 7 8 9 0 -1 0 1 2 3 4 11 12 13 14 20 0 2 0 -777 1 1 0\n", -EBADMSG},
    {"12 (x) S 7 8 9 0 -1 0 1 2 3 4 011 12 13 14 20 0 2 0 777 1 1 0\n", -EBADMSG},
    {"12 (x) S 7 8 9 0 -1 0 1 2 3 4 1e3 12 13 14 20 0 2 0 777 1 1 0\n", -EBADMSG},
    {"12 (x) S 7 8 9 0 -1 0 1 2 3 4 18446744073709551616 12 13 14 20 0 2 0 777 1 1 0\n",
     -EBADMSG},
    {"12 (x) S 7 8 9 0 -1 0 1 2 3 4 99999999999999999999999 12 1 1 20 0 2 0 777 1 1 0\n",
     -EBADMSG},
    {"12 (x)" UP_TO_RSS "18446744073709551616 0\n", -EBADMSG},
    {"12 (x)" UP_TO_RSS "2884\n", -EBADMSG},
    {"12 (x)" UP_TO_RSS "\n", -EBADMSG},
    {"12 (x)" UP_TO_RSS "2884 0 (y)\n", -EBADMSG},
    /* reaped while the line was written; captured */
    {"22940 (bench) R 0 -1 -1 0 -1 4227148 17 0 0 0 0 0 0 0 20 0 0 0 129228 0 0 0 0\n",
     -ESRCH},
};

START_TEST(stat_that_is_refused)
{
    struct sbx_proc_stat stat;
    const char *text = bad_stat[_i].text;
    size_t length = strlen(text);
    memset(&stat, 0xa5, sizeof(stat));
    int rc = sbx_proc_parse_stat(at_page_end(text, length), length, &stat);
    ck_assert_msg(rc == bad_stat[_i].rc, "%s: %d", text, rc);
    ck_assert(untouched(&stat, sizeof(stat)));
}
END_TEST

START_TEST(stat_numbers_at_their_bounds)
{
    static const char text[] = "12 (x) R 0 0 0 -2147483648 -1 4294967295 0 0 0 0 "
                               "18446744073709551615 0 0 0 -100 "
                               "-20 1 0 18446744073709551615 0 18446744073709551615 0\n";
    static const char dipped[] = "12 (x)" UP_TO_RSS "-5 0\n";
    static const char nul[] = "12 (a\0b)" TAIL;
    struct sbx_proc_stat stat;
    ck_assert_int_eq(
        sbx_proc_parse_stat(at_page_end(text, sizeof(text) - 1), sizeof(text) - 1, &stat),
        0);
    ck_assert_int_eq(stat.ppid, 0);
    ck_assert_uint_eq(stat.utime_ticks, UINT64_MAX);
    ck_assert_uint_eq(stat.start_ticks, UINT64_MAX);
    ck_assert_uint_eq(stat.rss_pages, UINT64_MAX);
    ck_assert_uint_eq(sbx_proc_own_cpu_us(&stat), SBX_UNKNOWN);
    ck_assert_uint_eq(sbx_proc_tree_cpu_us(&stat), SBX_UNKNOWN);
    ck_assert_uint_eq(sbx_proc_rss_bytes(&stat), SBX_UNKNOWN);
    ck_assert_int_eq(sbx_proc_parse_stat(dipped, sizeof(dipped) - 1, &stat), 0);
    ck_assert_uint_eq(stat.rss_pages, 0);
    ck_assert_int_eq(sbx_proc_parse_stat(nul, sizeof(nul) - 1, &stat), -EBADMSG);
}
END_TEST

START_TEST(units)
{
    uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);
    struct sbx_proc_stat stat = {.utime_ticks = 2 * hz,
                                 .stime_ticks = hz + hz / 2,
                                 .cutime_ticks = 10 * hz,
                                 .cstime_ticks = 1,
                                 .rss_pages = 3};
    ck_assert_uint_eq(sbx_proc_own_cpu_us(&stat), 3500000);
    ck_assert_uint_eq(sbx_proc_tree_cpu_us(&stat), 13500000 + 1000000 / hz);
    ck_assert_uint_eq(sbx_proc_rss_bytes(&stat), 3 * (uint64_t)sysconf(_SC_PAGESIZE));
    stat.utime_ticks = 1000000000000000; /* three hundred thousand years */
    ck_assert_uint_eq(sbx_proc_own_cpu_us(&stat),
                      1000000000000000 / hz * 1000000 + 1500000);
}
END_TEST

/* ---- statm, schedstat ---- */

static const struct {
    const char *text;
    size_t count; /* of its numbers; 0: neither a statm nor a schedstat */
} number_lines[] = {
    {"765 427 399 5 0 123 0\n", 7},
    {"0 0 0 0 0 0 0\n", 7},
    {"18446744073709551615 1 2 3 4 5 6\n", 7},
    {"195407 0 1\n", 3},
    {"0 0 0\n", 3},
    {"18446744073709551616 1 2 3 4 5 6\n", 0},
    {"18446744073709551616 0 1\n", 0},
    {"765 427 399 5 0 123\n", 0},
    {"765 427 399 5 0 123 0 0\n", 0},
    {"765 427 399 5 0 123 0", 0},
    {"765 427 399 5 0 123 0 \n", 0},
    {"765 427 399 5 0 123 0\n\n", 0},
    {"765  427 399 5 0 123 0\n", 0},
    {" 765 427 399 5 0 123 0\n", 0},
    {"-765 427 399 5 0 123 0\n", 0},
    {"765 427 x 5 0 123 0\n", 0},
    {"195407 0\n", 0},
    {"195407 0 1", 0},
    {"195407 0 01\n", 0},
    {"-1 0 1\n", 0},
    {"\n", 0},
    {"", 0},
};

START_TEST(statm_and_schedstat)
{
    const char *text = number_lines[_i].text;
    size_t length = strlen(text);
    struct sbx_proc_statm statm;
    uint64_t cpu_ns;
    memset(&statm, 0xa5, sizeof(statm));
    memset(&cpu_ns, 0xa5, sizeof(cpu_ns));
    text = at_page_end(text, length);
    int rc = sbx_proc_parse_statm(text, length, &statm);
    ck_assert_int_eq(rc, number_lines[_i].count == 7 ? 0 : -EBADMSG);
    ck_assert(rc == 0 || untouched(&statm, sizeof(statm)));
    rc = sbx_proc_parse_schedstat(text, length, &cpu_ns);
    ck_assert_int_eq(rc, number_lines[_i].count == 3 ? 0 : -EBADMSG);
    ck_assert(rc == 0 || untouched(&cpu_ns, sizeof(cpu_ns)));
}
END_TEST

START_TEST(statm_and_schedstat_values)
{
    struct sbx_proc_statm statm;
    uint64_t cpu_ns;
    ck_assert_int_eq(
        sbx_proc_parse_statm(number_lines[0].text, strlen(number_lines[0].text), &statm),
        0);
    ck_assert_uint_eq(statm.size_pages, 765);
    ck_assert_uint_eq(statm.resident_pages, 427);
    ck_assert_uint_eq(statm.shared_pages, 399);
    ck_assert_int_eq(sbx_proc_parse_schedstat(number_lines[3].text,
                                              strlen(number_lines[3].text), &cpu_ns),
                     0);
    ck_assert_uint_eq(cpu_ns, 195407);
}
END_TEST

/* ---- status ---- */

static const struct {
    const char *text;
    int rc;
} status_texts[] = {
    {"Name:\tx\n", 0},
    {"Name:\t\n", 0},
    {"Name:\tx\nGroups:\t \nNo colon at all\n\nx86_Thread_features:\t\n", 0},
    {"Name:\tx\nVmHWM:\t    1696 kB\n", 0},
    {"Name:\tx\nVmHWM:\t18014398509481983 kB\n", 0},
    {"Name:\tx\nUid:\t0\t1\t2\t4294967295\n", 0},
    {"Name:\tx\nNSpid:\t4108\t2\n", 0},
    {"Name:\tx\nSigCgt:\tffffffffffffffff\n", 0},
    {"", -EBADMSG},
    {"\n", -EBADMSG},
    {"Name:\tx", -EBADMSG},
    {"Name: x\n", -EBADMSG},
    {"VmHWM:\t1 kB\n", -EBADMSG},
    {"VmHWM:\t1 kB\nName:\tx\n", -EBADMSG},
    {"\nName:\tx\n", -EBADMSG},
    {"Name:\tx\nVmHWM:\t1696 kB", -EBADMSG},
    {"Name:\tx\nVmHWM:\t1696\n", -EBADMSG},
    {"Name:\tx\nVmHWM:\t1696 MB\n", -EBADMSG},
    {"Name:\tx\nVmHWM:\t1696 kB \n", -EBADMSG},
    {"Name:\tx\nVmHWM:\t-1 kB\n", -EBADMSG},
    {"Name:\tx\nVmHWM:\t kB\n", -EBADMSG},
    {"Name:\tx\nVmHWM:\n", -EBADMSG},
    {"Name:\tx\nVmHWM:\t18014398509481984 kB\n", -EBADMSG}, /* 2^64 bytes */
    {"Name:\tx\nVmHWM:\t18446744073709551616 kB\n", -EBADMSG},
    {"Name:\tx\nVmHWM:\t1 kB\nVmHWM:\t1 kB\n", -EBADMSG},
    {"Name:\tx\nUid:\t0\t1\t2\n", -EBADMSG},
    {"Name:\tx\nUid:\t0\t1\t2\t3\t4\n", -EBADMSG},
    {"Name:\tx\nUid:\t4294967296\t1\t2\t3\n", -EBADMSG},
    {"Name:\tx\nUid:\t0 1 2 3\n", -EBADMSG},
    {"Name:\tx\nUid:\t0\t0\t0\t0\nUid:\t1\t1\t1\t1\n", -EBADMSG},
    {"Name:\tx\nNSpid:\n", -EBADMSG},
    {"Name:\tx\nNSpid:\t\n", -EBADMSG},
    {"Name:\tx\nNSpid:\t2147483648\n", -EBADMSG},
    {"Name:\tx\nNSpid:\t5\nNSpid:\t6\n", -EBADMSG},
    {"Name:\tx\nSigCgt:\t0\n", -EBADMSG},
    {"Name:\tx\nSigCgt:\t00000000000000000\n", -EBADMSG},
    {"Name:\tx\nSigCgt:\t000000000000000G\n", -EBADMSG},
    {"Name:\tx\nSigCgt:\t000000000000000A\n", -EBADMSG},
    {"Name:\tx\nSigCgt:\t0000000000000000\nSigCgt:\t0000000000000000\n", -EBADMSG},
};

START_TEST(status_lines)
{
    const char *text = status_texts[_i].text;
    size_t length = strlen(text);
    struct sbx_proc_status status;
    memset(&status, 0xa5, sizeof(status));
    int rc = sbx_proc_parse_status(at_page_end(text, length), length, &status);
    ck_assert_msg(rc == status_texts[_i].rc, "%s: %d", text, rc);
    ck_assert(rc == 0 || untouched(&status, sizeof(status)));
}
END_TEST

static void check_all_unknown(const struct sbx_proc_status *status)
{
    ck_assert_uint_eq(status->hwm_bytes, SBX_UNKNOWN);
    ck_assert_uint_eq(status->rss_bytes, SBX_UNKNOWN);
    ck_assert_uint_eq(status->anon_bytes, SBX_UNKNOWN);
    ck_assert_uint_eq(status->shmem_bytes, SBX_UNKNOWN);
    ck_assert_uint_eq(status->swap_bytes, SBX_UNKNOWN);
}

START_TEST(status_values)
{
    static const char text[] =
        "Name:\tVmHWM:\\n\t7 kB\nUmask:\t0022\nUid:\t1000\t0\t0\t0\nNSpid:\t900\t20\t3\n"
        "VmPeak:\t    9999 kB\nVmHWM:\t    1696 kB\nVmRSS:\t    1600 kB\n"
        "RssAnon:\t     112 kB\nRssFile:\t    1584 kB\nRssShmem:\t       4 kB\n"
        "VmSwap:\t       0 kB\nSigPnd:\t0000000000000001\nSigBlk:\t0000000000000002\n"
        "SigIgn:\t0000000000001000\nSigCgt:\t8000000000004abf\n";
    struct sbx_proc_status status;
    ck_assert_int_eq(sbx_proc_parse_status(text, sizeof(text) - 1, &status), 0);
    ck_assert_uint_eq(status.hwm_bytes, 1696 * 1024);
    ck_assert_uint_eq(status.rss_bytes, 1600 * 1024);
    ck_assert_uint_eq(status.anon_bytes, 112 * 1024);
    ck_assert_uint_eq(status.shmem_bytes, 4 * 1024);
    ck_assert_uint_eq(status.swap_bytes, 0);
    ck_assert_uint_eq(status.sig_blocked, 2);
    ck_assert_uint_eq(status.sig_ignored, 0x1000);
    ck_assert_uint_eq(status.sig_caught, 0x8000000000004abf);
    ck_assert_uint_eq(status.real_uid, 1000);
    ck_assert_int_eq(status.namespace_pid, 3);
    ck_assert_uint_eq(status.namespace_depth, 3);

    ck_assert_int_eq(sbx_proc_parse_status("Name:\tx\n", 8, &status), 0);
    check_all_unknown(&status);
    ck_assert_uint_eq(status.sig_blocked, SBX_UNKNOWN);
    ck_assert_uint_eq(status.sig_ignored, SBX_UNKNOWN);
    ck_assert_uint_eq(status.sig_caught, SBX_UNKNOWN);
    ck_assert_uint_eq(status.real_uid, (uid_t)-1);
    ck_assert_int_eq(status.namespace_pid, 0);
    ck_assert_uint_eq(status.namespace_depth, 0);
}
END_TEST

/* ---- smaps_rollup ---- */

#define HEADER "5619a965e000-7ffe95d7c000 ---p 00000000 00:00 0           [rollup]\n"

static const struct {
    const char *text;
    int rc;
} smaps_texts[] = {
    {HEADER "Rss:     1624 kB\nPss:      337 kB\nSwapPss:    0 kB\nLocked:  0 kB\n"
            "Private_Clean:        4 kB\nPrivate_Dirty:       96 kB\n",
     0},
    {HEADER "Rss:     1624 kB\nPss:      337 kB\nSome new line\n", 0},
    {"", -EBADMSG},
    {HEADER, -EBADMSG},
    {HEADER "Rss:     1624 kB\n", -EBADMSG},
    {HEADER "Pss:     1624 kB\n", -EBADMSG},
    {"Rss:     1624 kB\nPss:      337 kB\n", -EBADMSG},
    {"-7ffe95d7c000 ---p [rollup]\nRss:     1624 kB\nPss:      337 kB\n", -EBADMSG},
    {"5619a965e000-7ffe95d7c000 r--p\nRss:     1624 kB\nPss:      337 kB\n", -EBADMSG},
    {HEADER "Rss:     1624 kB\nPss:      337 kB", -EBADMSG},
    {HEADER "Rss:     1624 kB\nPss:      337 kB\nPss:      337 kB\n", -EBADMSG},
    {HEADER "Rss:     1624 kB\nPss:      337\n", -EBADMSG},
    {HEADER "Rss:     1624 kB\nPss:      -37 kB\n", -EBADMSG},
    {HEADER "Rss:     1624 kB\nPss:      18446744073709551616 kB\n", -EBADMSG},
};

START_TEST(smaps_lines)
{
    const char *text = smaps_texts[_i].text;
    size_t length = strlen(text);
    struct sbx_proc_smaps smaps;
    memset(&smaps, 0xa5, sizeof(smaps));
    int rc = sbx_proc_parse_smaps_rollup(at_page_end(text, length), length, &smaps);
    ck_assert_msg(rc == smaps_texts[_i].rc, "%s: %d", text, rc);
    ck_assert(rc == 0 || untouched(&smaps, sizeof(smaps)));
    if (rc == 0) {
        ck_assert_uint_eq(smaps.rss_bytes, 1624 * 1024);
        ck_assert_uint_eq(smaps.pss_bytes, 337 * 1024);
        ck_assert_uint_eq(smaps.anon_bytes, SBX_UNKNOWN);
        ck_assert_uint_eq(smaps.shmem_bytes, SBX_UNKNOWN);
        ck_assert_uint_eq(smaps.swap_pss_bytes, _i == 0 ? 0 : SBX_UNKNOWN);
        ck_assert_uint_eq(smaps.private_clean_bytes, _i == 0 ? 4 * 1024 : SBX_UNKNOWN);
        ck_assert_uint_eq(smaps.private_dirty_bytes, _i == 0 ? 96 * 1024 : SBX_UNKNOWN);
    }
}
END_TEST

/* ---- lists of children, from a file ---- */

struct sum {
    size_t count;
    uint64_t total;
    size_t stop_at; /* 0: never */
};

static int add(pid_t pid, void *context)
{
    struct sum *sum = context;
    ck_assert_int_gt(pid, 0);
    sum->count++;
    sum->total += (uint64_t)pid;
    return sum->count == sum->stop_at ? 77 : 0;
}

static int file_of(const char *text, size_t length)
{
    int fd = memfd_create("text", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(sbx_fd_write_all(fd, text, length), 0);
    return fd;
}

static const struct {
    const char *text;
    int rc;
    size_t count;
    uint64_t total;
} lists[] = {
    {"", 0, 0, 0},
    {"5857 ", 0, 1, 5857},
    {"5857 5858 5859 ", 0, 3, 17574},
    {"4194304 2147483647 1 ", 0, 3, 2151677952},
    {"5857", -EBADMSG, 0, 0},
    {"5857 58", -EBADMSG, 1, 5857},
    {"5857  5858 ", -EBADMSG, 1, 5857},
    {" 5857 ", -EBADMSG, 0, 0},
    {"5857\n", -EBADMSG, 0, 0},
    {"0 ", -EBADMSG, 0, 0},
    {"05 ", -EBADMSG, 0, 0},
    {"-5 ", -EBADMSG, 0, 0},
    {"2147483648 ", -EBADMSG, 0, 0},
    {"18446744073709551617 ", -EBADMSG, 0, 0},
    {"5857 x ", -EBADMSG, 1, 5857},
};

START_TEST(children_lists)
{
    struct sum sum = {0};
    SBX_AUTO_CLOSE int fd = file_of(lists[_i].text, strlen(lists[_i].text));
    ck_assert_int_eq(sbx_proc_read_children(fd, add, &sum), lists[_i].rc);
    ck_assert_uint_eq(sum.count, lists[_i].count);
    ck_assert_uint_eq(sum.total, lists[_i].total);
}
END_TEST

/* Lists of many lengths: wherever a read ends, the number it cuts is put together. */
START_TEST(children_list_cut_by_reads)
{
    for (int shift = 0; shift < 8; shift++) {
        static char text[64 * 1024];
        struct sum expected = {0};
        size_t length = 0;
        for (int i = 0; i < shift; i++) {
            (void)add(1, &expected);
            length += (size_t)snprintf(text + length, sizeof(text) - length, "1 ");
        }
        for (pid_t pid = 4190000; pid < 4194304; pid++) {
            (void)add(pid, &expected);
            length += (size_t)snprintf(text + length, sizeof(text) - length, "%d ", pid);
        }
        struct sum sum = {0};
        SBX_AUTO_CLOSE int fd = file_of(text, length);
        ck_assert_int_eq(sbx_proc_read_children(fd, add, &sum), 0);
        ck_assert_uint_eq(sum.count, expected.count);
        ck_assert_uint_eq(sum.total, expected.total);
        sum = (struct sum){.stop_at = 1000};
        ck_assert_int_eq(sbx_proc_read_children(fd, add, &sum), 77);
        ck_assert_uint_eq(sum.count, 1000);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proc");
    TCase *tcase = sbx_fixture_case(suite, "text", 30);
    tcase_add_loop_test(tcase, stat_of_every_name, 0, (int)COUNT(good_stat));
    tcase_add_loop_test(tcase, stat_cut_anywhere, 0, (int)COUNT(good_stat));
    tcase_add_loop_test(tcase, stat_that_is_refused, 0, (int)COUNT(bad_stat));
    tcase_add_test(tcase, stat_numbers_at_their_bounds);
    tcase_add_test(tcase, units);
    tcase_add_loop_test(tcase, statm_and_schedstat, 0, (int)COUNT(number_lines));
    tcase_add_test(tcase, statm_and_schedstat_values);
    tcase_add_loop_test(tcase, status_lines, 0, (int)COUNT(status_texts));
    tcase_add_test(tcase, status_values);
    tcase_add_loop_test(tcase, smaps_lines, 0, (int)COUNT(smaps_texts));
    tcase_add_loop_test(tcase, children_lists, 0, (int)COUNT(lists));
    tcase_add_test(tcase, children_list_cut_by_reads);
    return sbx_fixture_run(suite);
}
