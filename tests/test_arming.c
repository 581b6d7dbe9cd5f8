/*
 * test_arming.c - ceilings for processes that run already: every member has them, or
 * nobody has anything that it did not have before; with prlimit made to fail at each of
 * its calls in turn.
 */
#include "tests/tree_kit.h"

#include "tests/fixture.h"

#include "reaper/arming.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

int __real_prlimit(pid_t pid, __rlimit_resource_t resource, const struct rlimit *set,
                   struct rlimit *get);
int __wrap_prlimit(pid_t pid, __rlimit_resource_t resource, const struct rlimit *set,
                   struct rlimit *get);

/* Which of the calls fails, counted from 1; 0: none. Or one reads back something else. */
static struct {
    int fails_at;
    int code;
    int lies_at;
    int calls;
} fault;

int __wrap_prlimit(pid_t pid, __rlimit_resource_t resource, const struct rlimit *set,
                   struct rlimit *get)
{
    fault.calls++;
    if (fault.calls == fault.fails_at) {
        errno = fault.code;
        return -1;
    }
    int r = __real_prlimit(pid, resource, set, get);
    if (r == 0 && get != NULL && fault.calls == fault.lies_at) {
        get->rlim_cur++;
    }
    return r;
}

#define MEMBERS 3

static void make_tree(struct sbx_kit *kit)
{
    sbx_kit_open(kit, 0);
    (void)sbx_kit_helper((const char *const[]){"crowd", "3", "1", NULL});
    sbx_kit_settle(kit, MEMBERS);
}

/* Soft limits only: those everybody may raise again. */
static void ask(struct sbx_ceiling ceilings[static SBX_CEILING_COUNT])
{
    static const int resources[] = {RLIMIT_NOFILE, RLIMIT_STACK};
    memset(ceilings, 0, SBX_CEILING_COUNT * sizeof ceilings[0]);
    for (int i = 0; i < SBX_CEILING_COUNT; i++) {
        for (size_t k = 0; k < sizeof resources / sizeof resources[0]; k++) {
            struct rlimit own;
            if (sbx_ceiling_kinds[i].resource != resources[k]) {
                continue;
            }
            ck_assert_int_eq(getrlimit((__rlimit_resource_t)resources[k], &own), 0);
            rlim_t soft = resources[k] == RLIMIT_NOFILE ? 77 : 7777792;
            ceilings[i] = (struct sbx_ceiling){true, soft, own.rlim_max};
        }
    }
}

struct limits {
    struct rlimit of[MEMBERS][2];
};

static struct limits read_limits(struct sbx_kit *kit)
{
    struct limits limits;
    for (size_t i = 0; i < MEMBERS; i++) {
        pid_t pid = sbx_tree_member(kit->tree, i)->stat.pid;
        ck_assert_int_eq(__real_prlimit(pid, RLIMIT_NOFILE, NULL, &limits.of[i][0]), 0);
        ck_assert_int_eq(__real_prlimit(pid, RLIMIT_STACK, NULL, &limits.of[i][1]), 0);
    }
    return limits;
}

static int round_of(struct sbx_kit *kit, const struct sbx_ceiling *ceilings,
                    bool *ret_changed, struct sbx_error *error)
{
    struct sbx_arming *arming = NULL;
    ck_assert_int_eq(sbx_arming_new(kit->proc_fd, ceilings, &arming), 0);
    int r = sbx_arming_round(arming, kit->tree, ret_changed, error);
    if (r < 0) {
        sbx_arming_undo(arming, error);
    }
    sbx_arming_free(arming);
    return r;
}

START_TEST(all_have_them_and_a_second_round_changes_nothing)
{
    struct sbx_kit kit;
    struct sbx_error error = {0};
    struct sbx_ceiling ceilings[SBX_CEILING_COUNT];
    bool changed = false;
    make_tree(&kit);
    ask(ceilings);
    ck_assert_msg(round_of(&kit, ceilings, &changed, &error) == 0, "%s", error.message);
    ck_assert(changed);
    const struct limits limits = read_limits(&kit);
    for (size_t i = 0; i < MEMBERS; i++) {
        ck_assert_uint_eq(limits.of[i][0].rlim_cur, 77);
        ck_assert_uint_eq(limits.of[i][1].rlim_cur, 7777792);
    }
    ck_assert_int_eq(round_of(&kit, ceilings, &changed, &error), 0);
    ck_assert(!changed);
    sbx_kit_close(&kit);
}
END_TEST

/* For each member and ceiling: read in the first pass, read in the second, set, read
 * back. The undoing makes calls of its own, which are let through. */
#define CALLS (MEMBERS * 2 * 4)

START_TEST(a_failure_leaves_everything_as_it_was)
{
    struct sbx_kit kit;
    struct sbx_ceiling ceilings[SBX_CEILING_COUNT];
    make_tree(&kit);
    ask(ceilings);
    const struct limits before = read_limits(&kit);
    for (int call = 1; call <= CALLS; call++) {
        struct sbx_error error = {0};
        bool changed = false;
        fault.calls = 0;
        fault.fails_at = call;
        fault.code = EPERM;
        int r = round_of(&kit, ceilings, &changed, &error);
        fault.fails_at = 0;
        ck_assert_msg(r == -EPERM, "call %d: %d", call, r);
        ck_assert_int_eq(error.stage, SBX_STAGE_ARM);
        ck_assert_msg(strstr(error.message, " of process ") != NULL &&
                          strstr(error.message, "EPERM") != NULL &&
                          strstr(error.message, "could not be raised") == NULL,
                      "%s", error.message);
        const struct limits after = read_limits(&kit);
        ck_assert_msg(memcmp(&before, &after, sizeof before) == 0,
                      "call %d: limits are not what they were", call);
    }
    fault.calls = 0;
    bool changed = false;
    ck_assert_int_eq(round_of(&kit, ceilings, &changed, NULL), 0);
    ck_assert_int_eq(fault.calls, CALLS); /* so each of them was made to fail */
    sbx_kit_close(&kit);
}
END_TEST

START_TEST(who_ends_meanwhile_is_no_failure)
{
    struct sbx_kit kit;
    struct sbx_ceiling ceilings[SBX_CEILING_COUNT];
    make_tree(&kit);
    ask(ceilings);
    for (int call = 1; call <= CALLS; call++) {
        bool changed = false;
        fault.calls = 0;
        fault.fails_at = call;
        fault.code = ESRCH;
        ck_assert_int_eq(round_of(&kit, ceilings, &changed, NULL), 0);
    }
    fault.fails_at = 0;
    sbx_kit_close(&kit);
}
END_TEST

START_TEST(what_reads_back_differently_is_a_failure)
{
    struct sbx_kit kit;
    struct sbx_error error = {0};
    struct sbx_ceiling ceilings[SBX_CEILING_COUNT];
    bool changed = false;
    make_tree(&kit);
    ask(ceilings);
    const struct limits before = read_limits(&kit);
    fault.lies_at = MEMBERS * 2 + 3; /* the first pass reads; read, set, read back */
    ck_assert_int_eq(round_of(&kit, ceilings, &changed, &error), -EIO);
    ck_assert_msg(strstr(error.message, "another value") != NULL, "%s", error.message);
    const struct limits after = read_limits(&kit);
    ck_assert_int_eq(memcmp(&before, &after, sizeof before), 0);
    sbx_kit_close(&kit);
}
END_TEST

/* What cannot be put back is said. */
START_TEST(what_stays_lowered_is_said)
{
    struct sbx_kit kit;
    struct sbx_error error = {0};
    struct sbx_ceiling ceilings[SBX_CEILING_COUNT];
    struct sbx_arming *arming = NULL;
    bool changed = false;
    make_tree(&kit);
    ask(ceilings);
    ck_assert_int_eq(sbx_arming_new(kit.proc_fd, ceilings, &arming), 0);
    ck_assert_int_eq(sbx_arming_round(arming, kit.tree, &changed, &error), 0);
    (void)snprintf(error.message, sizeof error.message, "why");
    fault.calls = 0;
    fault.fails_at = 1;
    fault.code = EPERM;
    sbx_arming_undo(arming, &error);
    fault.fails_at = 0;
    ck_assert_str_eq(error.message, "why; 1 lowered limits could not be raised again");
    sbx_arming_free(arming);
    sbx_kit_close(&kit);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("arming");
    TCase *arming = sbx_fixture_case(suite, "arming", 60);
    tcase_add_test(arming, all_have_them_and_a_second_round_changes_nothing);
    tcase_add_test(arming, a_failure_leaves_everything_as_it_was);
    tcase_add_test(arming, who_ends_meanwhile_is_no_failure);
    tcase_add_test(arming, what_reads_back_differently_is_a_failure);
    tcase_add_test(arming, what_stays_lowered_is_said);
    return sbx_fixture_run(suite);
}
