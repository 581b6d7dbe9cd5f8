/*
 * test_state.c - the state directory: who may have it, one at a time, its key, and what
 * is left in it; ids. What is done in it is in test_places.c.
 */
#include "supervisor/place.h"

#include "base/fd.h"
#include "tests/state_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char path[SBX_FIXTURE_PATH_SIZE];

/* Tries to, and wants that failure with those words. */
static void expect_refused(int code, const char *words)
{
    struct sbx_state *state = NULL;
    struct sbx_error err = {0};
    int r = sbx_state_open(sbx_fixture_path(path, "state"), &state, &err);
    ck_assert_int_eq(r, -code);
    ck_assert_int_eq(err.code, code);
    ck_assert_ptr_null(state);
    ck_assert_msg(strstr(err.message, words) != NULL, "%s", err.message);
    ck_assert_msg(strstr(err.message, path) != NULL, "%s", err.message);
}

/* --- ids -------------------------------------------------------------------------------
 */

static const struct {
    const char *id;
    bool valid;
} ids[] = {
    {"a", true},    {"Z", true},    {"0", true},      {"a.b_c:d-e", true}, {"9.", true},
    {"a-", true},   {"", false},    {".", false},     {"..", false},       {".a", false},
    {"-a", false},  {"_a", false},  {":a", false},    {"a/b", false},      {"/a", false},
    {"a b", false}, {"a\n", false}, {"a\x80", false}, {"\xc3\xa4", false}, {"a%", false},
    {"a..", true},  {"a\\", false}, {"a+b", false},   {"a@b", false},
};

START_TEST(ids_are_told_from_what_is_none)
{
    for (size_t i = 0; i < LENGTH(ids); i++) {
        ck_assert_msg(sbx_id_is_valid(ids[i].id) == ids[i].valid, "%s", ids[i].id);
    }
    char longest[SBX_ID_SIZE + 1];
    memset(longest, 'x', sizeof longest);
    longest[SBX_ID_SIZE] = '\0';
    ck_assert(!sbx_id_is_valid(longest));
    longest[SBX_ID_SIZE - 1] = '\0';
    ck_assert(sbx_id_is_valid(longest));
}
END_TEST

START_TEST(new_ids_are_valid_and_differ)
{
    char some[64][SBX_ID_SIZE];
    for (size_t i = 0; i < LENGTH(some); i++) {
        ck_assert_int_eq(sbx_id_make(some[i]), 0);
        ck_assert(sbx_id_is_valid(some[i]));
        ck_assert_uint_eq(strlen(some[i]), 32);
        for (size_t j = 0; j < i; j++) {
            ck_assert_str_ne(some[i], some[j]);
        }
    }
}
END_TEST

/* --- the directory ---------------------------------------------------------------------
 */

static void expect_mode(int directory, const char *name, mode_t mode)
{
    struct stat status;
    ck_assert_int_eq(fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW), 0);
    ck_assert_msg((status.st_mode & 07777U) == mode, "%s has mode %o", name,
                  status.st_mode & 07777U);
    ck_assert_uint_eq(status.st_uid, geteuid());
}

START_TEST(makes_what_is_missing)
{
    static const mode_t masks[] = {0, 022, 0777};
    mode_t before = umask(masks[_i]);
    struct sbx_state *state = NULL;
    struct sbx_error err = {0};
    int r = sbx_state_open(sbx_fixture_path(path, "a/b/state"), &state, &err);
    ck_assert_msg(r == 0, "%s", err.message);
    struct sbx_place place = sbx_kit_reserve(state, "x");
    (void)umask(before);
    expect_mode(state->directory, ".", 0700);
    expect_mode(state->directory, "new", 0700);
    expect_mode(state->directory, "executions", 0700);
    expect_mode(state->directory, "lock", 0600);
    expect_mode(state->directory, "key", 0600);
    expect_mode(place.directory, ".", 0700);
    expect_mode(place.directory, "lock", 0600);
    expect_mode(place.directory, "request", 0600);
    expect_mode(place.directory, "page", 0600);
    sbx_place_close(&place);
    sbx_state_close(state);
}
END_TEST

START_TEST(one_at_a_time_has_it)
{
    struct sbx_state *state = sbx_kit_state();
    char words[32];
    (void)snprintf(words, sizeof words, "(%jd)", (intmax_t)getpid());
    expect_refused(EBUSY, words);
    sbx_state_close(state);
    sbx_state_close(sbx_kit_state());
    ck_assert_int_eq(unlink(sbx_fixture_path(path, "state/lock")), 0);
    sbx_state_close(sbx_kit_state());
    sbx_state_close(NULL);
}
END_TEST

/* Many at once, on nothing: one has it, all others are told. */
START_TEST(those_that_start_at_once_do_not_meet)
{
    enum { MANY = 12 };
    int go[2];
    int told[2];
    int end[2];
    ck_assert_int_eq(pipe2(go, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(told, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(end, O_CLOEXEC), 0);
    for (int i = 0; i < MANY; i++) {
        pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            struct sbx_state *state = NULL;
            char byte = 0;
            (void)close(go[1]);
            (void)close(end[1]);
            (void)!read(go[0], &byte, 1);
            int r = sbx_state_open(sbx_fixture_path(path, "state"), &state, NULL);
            char answer = r == 0 ? 'y' : r == -EBUSY ? 'n' : '?';
            (void)!write(told[1], &answer, 1);
            (void)!read(end[0], &byte, 1);
            _exit(0);
        }
    }
    (void)close(go[1]);
    (void)close(told[1]);
    char answers[MANY];
    for (int i = 0; i < MANY; i++) {
        ck_assert_int_eq(read(told[0], &answers[i], 1), 1);
    }
    (void)close(end[1]);
    int winners = 0;
    for (int i = 0; i < MANY; i++) {
        ck_assert_int_ne(answers[i], '?');
        winners += answers[i] == 'y' ? 1 : 0;
        ck_assert_int_gt(wait(NULL), 0);
    }
    ck_assert_int_eq(winners, 1);
    (void)close(go[0]);
    (void)close(told[0]);
    (void)close(end[0]);
    sbx_state_close(sbx_kit_state());
}
END_TEST

START_TEST(what_others_may_change_is_refused)
{
    static const char *const names[] = {"state", "state/new", "state/executions"};
    static const mode_t modes[] = {0770, 0702, 0777};
    sbx_state_close(sbx_kit_state());
    for (size_t i = 0; i < LENGTH(names); i++) {
        ck_assert_int_eq(chmod(sbx_fixture_path(path, names[i]), modes[i]), 0);
        expect_refused(EPERM, "chmod go-w");
        ck_assert_int_eq(chmod(sbx_fixture_path(path, names[i]), 0755), 0);
        sbx_state_close(sbx_kit_state());
    }
    if (geteuid() == 0) {
        for (size_t i = 0; i < LENGTH(names); i++) {
            ck_assert_int_eq(chown(sbx_fixture_path(path, names[i]), 65534, 65534), 0);
            expect_refused(EPERM, "belongs to user 65534");
            ck_assert_int_eq(chown(sbx_fixture_path(path, names[i]), 0, 0), 0);
        }
    }
}
END_TEST

START_TEST(a_link_leads_to_the_whole_but_not_to_a_part)
{
    char target[SBX_FIXTURE_PATH_SIZE];
    ck_assert_int_eq(mkdir(sbx_fixture_path(target, "real"), 0700), 0);
    ck_assert_int_eq(symlink(target, sbx_fixture_path(path, "state")), 0);
    sbx_state_close(sbx_kit_state());
    ck_assert_int_eq(rmdir(sbx_fixture_path(path, "real/new")), 0);
    ck_assert_int_eq(symlink("/", path), 0);
    struct sbx_state *state = NULL;
    ck_assert_int_lt(sbx_state_open(sbx_fixture_path(path, "state"), &state, NULL), 0);
    ck_assert_ptr_null(state);
}
END_TEST

START_TEST(a_path_that_leads_nowhere_is_told)
{
    char file[SBX_FIXTURE_PATH_SIZE];
    struct sbx_state *state = NULL;
    struct sbx_error err = {0};
    sbx_kit_put(AT_FDCWD, sbx_fixture_path(file, "file"), "x", 1);
    ck_assert_int_eq(sbx_state_open("", &state, &err), -ENOENT);
    ck_assert_int_eq(sbx_state_open(file, &state, &err), -ENOTDIR);
    ck_assert_int_eq(sbx_state_open(sbx_fixture_path(file, "file/x"), &state, &err),
                     -ENOTDIR);
    ck_assert_ptr_nonnull(strstr(err.message, "file/x"));
    ck_assert_ptr_null(state);
}
END_TEST

/* --- the key ---------------------------------------------------------------------------
 */

START_TEST(the_key_stays_as_it_is)
{
    unsigned char key[SBX_KEY_SIZE];
    static const unsigned char zeroes[SBX_KEY_SIZE];
    struct sbx_state *state = sbx_kit_state();
    memcpy(key, sbx_state_key(state), sizeof key);
    ck_assert_mem_ne(key, zeroes, sizeof key);
    sbx_state_close(state);
    state = sbx_kit_state();
    ck_assert_mem_eq(sbx_state_key(state), key, sizeof key);
    sbx_state_close(state);
}
END_TEST

START_TEST(an_unfinished_key_is_made_anew_only_if_nothing_depends_on_it)
{
    static const size_t sizes[] = {0, 31};
    char text[SBX_FIXTURE_PATH_SIZE];
    unsigned char key[SBX_KEY_SIZE] = {0};
    for (size_t i = 0; i < LENGTH(sizes) + 1; i++) {
        struct sbx_state *state = sbx_kit_state();
        memcpy(key, sbx_state_key(state), sizeof key);
        struct sbx_place place = sbx_kit_reserve(state, "x");
        sbx_place_close(&place);
        if (i < LENGTH(sizes)) {
            sbx_kit_put(state->directory, "key", key, sizes[i]);
        } else {
            ck_assert_int_eq(unlinkat(state->directory, "key", 0), 0);
        }
        sbx_state_close(state);
        expect_refused(EBADMSG, "key");
        ck_assert_int_eq(rename(sbx_fixture_path(path, "state/executions/x"),
                                sbx_fixture_path(text, "state/new/x")),
                         0);
        state = sbx_kit_state();
        ck_assert_mem_ne(sbx_state_key(state), key, sizeof key);
        ck_assert_uint_eq(sbx_kit_entries(state, "new"), 0);
        sbx_state_close(state);
    }
}
END_TEST

START_TEST(a_key_that_is_none_is_refused)
{
    char text[SBX_FIXTURE_PATH_SIZE];
    char longer[33] = {0};
    sbx_state_close(sbx_kit_state());
    sbx_kit_put(AT_FDCWD, sbx_fixture_path(text, "state/key"), longer, sizeof longer);
    expect_refused(EBADMSG, "key");
    ck_assert_int_eq(unlink(text), 0);
    ck_assert_int_eq(symlink("/dev/zero", text), 0);
    expect_refused(EBADMSG, "key");
}
END_TEST

/* --- what is left ----------------------------------------------------------------- */

START_TEST(what_is_left_in_new_goes_when_it_is_opened)
{
    struct sbx_state *state = sbx_kit_state();
    ck_assert_int_eq(mkdirat(state->new_places, "half", 0700), 0);
    ck_assert_int_eq(mkdirat(state->new_places, "half/sub", 0700), 0);
    sbx_kit_put(state->new_places, "half/sub/lock", "", 0);
    sbx_kit_put(state->new_places, "file", "", 0);
    struct sbx_place place = sbx_kit_reserve(state, "x");
    sbx_place_close(&place);
    sbx_state_close(state);
    state = sbx_kit_state();
    ck_assert_uint_eq(sbx_kit_entries(state, "new"), 0);
    ck_assert_uint_eq(sbx_kit_count(state), 1);
    sbx_state_close(state);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("state");
    TCase *tcase = sbx_fixture_case(suite, "state", 60);
    tcase_add_test(tcase, ids_are_told_from_what_is_none);
    tcase_add_test(tcase, new_ids_are_valid_and_differ);
    tcase_add_loop_test(tcase, makes_what_is_missing, 0, 3);
    tcase_add_test(tcase, one_at_a_time_has_it);
    tcase_add_test(tcase, those_that_start_at_once_do_not_meet);
    tcase_add_test(tcase, what_others_may_change_is_refused);
    tcase_add_test(tcase, a_link_leads_to_the_whole_but_not_to_a_part);
    tcase_add_test(tcase, a_path_that_leads_nowhere_is_told);
    tcase_add_test(tcase, the_key_stays_as_it_is);
    tcase_add_test(tcase, an_unfinished_key_is_made_anew_only_if_nothing_depends_on_it);
    tcase_add_test(tcase, a_key_that_is_none_is_refused);
    tcase_add_test(tcase, what_is_left_in_new_goes_when_it_is_opened);
    return sbx_fixture_run(suite);
}
