/*
 * cgroup_scene.c - see cgroup_scene.h.
 */
#include "tests/cgroup_scene.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

char sbx_scene_place[SBX_GROUP_KIT_SIZE];

/* The subtree_control of the place and all groups above it, one after the other. */
static char before[8192];

static bool is_given; /* the place was there before */

static void read_controls(char text[static sizeof before])
{
    char path[SBX_GROUP_KIT_SIZE];
    size_t used = 0;
    (void)snprintf(path, sizeof path, "%s", sbx_scene_place);
    text[0] = '\0';
    for (char *slash; (slash = strrchr(path, '/')) > path; *slash = '\0') {
        char one[256];
        (void)sbx_group_kit_read(path, "cgroup.subtree_control", one, sizeof one);
        int length = snprintf(text + used, sizeof before - used, "%s: %s\n", path, one);
        ck_assert_int_gt(length, 0);
        used += (size_t)length;
        ck_assert_uint_lt(used, sizeof before);
    }
}

/* Marks the beginning; the place is there. */
static bool begin(void)
{
    read_controls(before);
    return true;
}

bool sbx_scene_bare(const char *what)
{
    if (!sbx_group_kit_make(sbx_scene_place)) {
        sbx_group_kit_skip(what, "no cgroup can be made here");
        return false;
    }
    return begin();
}

bool sbx_scene_in(const char *path)
{
    (void)snprintf(sbx_scene_place, sizeof sbx_scene_place, "%s", path);
    is_given = true;
    return begin();
}

bool sbx_scene_without_enabled(const char *what)
{
    const char *delegated = getenv("SBX_GUEST_CGROUP");
    ck_assert_msg(delegated != NULL || getenv("SBX_GUEST") == NULL,
                  "a guest without a group to run it in: %s", what);
    if (delegated == NULL) {
        sbx_group_kit_skip(what, "SBX_GUEST_CGROUP names no group with controllers");
        return false;
    }
    ck_assert_msg(sbx_group_kit_make_in(delegated, sbx_scene_place),
                  "no group can be made in %s: %s", delegated, strerror(errno));
    return begin();
}

bool sbx_scene_with_controllers(const char *what)
{
    if (!sbx_scene_without_enabled(what)) {
        return false;
    }
    int error = sbx_group_kit_write(sbx_scene_place, "cgroup.subtree_control",
                                    "+memory +pids +cpu");
    ck_assert_msg(error == 0, "%s: %s", sbx_scene_place, strerror(-error));
    return begin();
}

void sbx_scene_assert_clean(void)
{
    char name[SBX_GROUP_KIT_SIZE];
    char after[sizeof before];
    size_t count = sbx_group_kit_count(sbx_scene_place, "sbx-", name);
    ck_assert_msg(count == 0, "%zu groups are left in %s, such as %s", count,
                  sbx_scene_place, name);
    read_controls(after);
    ck_assert_msg(strcmp(before, after) == 0, "controls before:\n%safter:\n%s", before,
                  after);
}

void sbx_scene_end(void)
{
    sbx_scene_assert_clean();
    if (!is_given) {
        sbx_group_kit_remove(sbx_scene_place);
    }
}

const char *sbx_scene_options(const char *format, ...)
{
    static char options[1024];
    int used = snprintf(options, sizeof options, "--cgroup-root %s ", sbx_scene_place);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(options + used, sizeof options - (size_t)used, format, args);
    va_end(args);
    return options;
}

void sbx_scene_tell(const struct sbx_trial *trial)
{
    (void)trial;
    if (setenv("P", sbx_scene_place, 1) < 0) {
        _exit(121);
    }
}

void sbx_scene_enter(const struct sbx_trial *trial)
{
    sbx_scene_tell(trial);
    if (sbx_group_kit_write(sbx_scene_place, "cgroup.procs", "0") < 0) {
        _exit(121);
    }
}

const char *sbx_scene_group_of(const char *text, char group[static SBX_GROUP_KIT_SIZE])
{
    const char *line = strncmp(text, "0::", 3) == 0 ? text + 3 : strstr(text, "\n0::");
    ck_assert_msg(line != NULL, "no cgroup2 in: %s", text);
    line += *line == '\n' ? 4 : 0;
    (void)snprintf(group, SBX_GROUP_KIT_SIZE, "%.*s", (int)strcspn(line, "\n"), line);
    return group;
}

void sbx_scene_text(const struct sbx_trial *trial, const char *path, const char *text)
{
    const char *is = sbx_trial_string(trial, path);
    ck_assert_msg(strcmp(is, text) == 0, "report: %s is %s, not %s", path, is, text);
}

void sbx_scene_number(const struct sbx_trial *trial, const char *path, int64_t low,
                      int64_t high)
{
    int64_t is = sbx_trial_integer(trial, path);
    ck_assert_msg(is >= low && is <= high, "report: %s is %jd, not from %jd to %jd", path,
                  (intmax_t)is, (intmax_t)low, (intmax_t)high);
}

void sbx_scene_absent(const struct sbx_trial *trial, const char *path)
{
    ck_assert_msg(!sbx_trial_has(trial, path), "report: there is %s", path);
}

void sbx_scene_expect_contained(const struct sbx_trial *trial, const char *kill)
{
    sbx_trial_expect_empty(trial);
    sbx_scene_text(trial, "containment.tracking", "cgroup2");
    sbx_scene_text(trial, "containment.guarantee", "complete");
    sbx_scene_text(trial, "termination.proof", "group-empty");
    sbx_scene_absent(trial, "containment.group_left");
    if (kill != NULL) {
        sbx_scene_text(trial, "containment.kill", kill);
    }
}

void sbx_scene_expect_refused(const struct sbx_trial *trial, const char *stage,
                              const char *const words[])
{
    char path[SBX_FIXTURE_PATH_SIZE];
    sbx_trial_expect(trial, 125, "launch-failed", NULL);
    sbx_scene_text(trial, "error.stage", stage);
    const char *message = sbx_trial_string(trial, "error.message");
    for (size_t i = 0; words[i] != NULL; i++) {
        ck_assert_msg(strstr(message, words[i]) != NULL, "no \"%s\" in: %s", words[i],
                      message);
    }
    ck_assert_msg(access(sbx_trial_path(trial, path, "ran"), F_OK) < 0,
                  "the command has run");
    sbx_trial_expect_empty(trial);
}

/* The first of our children that is called so, with its name; false: there is none. */
static bool find_child(const char *prefix, char name[static 64])
{
    char path[64];
    char list[4096] = "";
    char *rest = NULL;
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    (void)sbx_fd_read_text_at(AT_FDCWD, path, list, sizeof list);
    for (char *word = strtok_r(list, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        (void)snprintf(path, sizeof path, "/proc/%.16s/comm", word);
        if (sbx_fd_read_text_at(AT_FDCWD, path, name, 64) > 0 &&
            strncmp(name, prefix, strlen(prefix)) == 0) {
            return true;
        }
    }
    return false;
}

void sbx_scene_wait_gone(const char *prefix, double seconds)
{
    uint64_t end_us = sbx_clock_us() + (uint64_t)(seconds * 1e6);
    const struct timespec rest = {.tv_nsec = 2000000};
    char name[64] = "";
    for (;;) {
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
        if (!find_child(prefix, name)) {
            return;
        }
        ck_assert_msg(sbx_clock_us() < end_us, "a child lives on after %.0f s: %s",
                      seconds, name);
        (void)nanosleep(&rest, NULL);
    }
}
