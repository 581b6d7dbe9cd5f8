/*
 * test_attached.c - who is a member of a tree that somebody else started, and that the
 * sweep of such a tree ends them and nobody else; on real processes.
 *
 * The test is the parent of the root and, as a subreaper, adopts the orphans: what
 * sbx-watch itself never is. Its other children, in the same session, are strangers.
 */
#include "tests/attach_kit.h"
#include "tests/tree_kit.h"

#include "base/clock.h"
#include "base/fd.h"
#include "reaper/attached.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MANY 4096U

/* An attached tree beside the kit's own, which is the one below the test. */
struct fixture {
    struct sbx_kit kit;
    struct sbx_tree *tree;
};

static void attach(struct fixture *fixture, pid_t root, size_t fd_budget)
{
    struct sbx_error error = {0};
    const struct sbx_pidref ref = {root, sbx_kit_start_ticks(&fixture->kit, root)};
    ck_assert_msg(sbx_tree_new_attached(fixture->kit.proc_fd, fd_budget, &fixture->tree,
                                        &error) == 0,
                  "%s", error.message);
    ck_assert_msg(sbx_tree_load_scan(fixture->tree, &error) == 0, "%s", error.message);
    ck_assert_int_eq(sbx_tree_remember(fixture->tree, &ref), 0);
    ck_assert_int_eq(sbx_tree_remember(fixture->tree, &ref), 0); /* known already */
}

static void done(struct fixture *fixture)
{
    sbx_tree_free(fixture->tree);
    sbx_kit_close(&fixture->kit);
}

static size_t walk(struct fixture *fixture)
{
    struct sbx_error error = {0};
    ck_assert_msg(sbx_tree_walk(fixture->tree, NULL, &error) == 0, "%s", error.message);
    return sbx_tree_count(fixture->tree);
}

static bool knows(const struct fixture *fixture, pid_t pid)
{
    return sbx_tree_find(fixture->tree, pid) != NULL;
}

/* The host is not looked at as often as one likes. */
static void walk_until_known(struct fixture *fixture, pid_t pid)
{
    for (int i = 0; i < 20000 && !knows(fixture, pid); i++) {
        (void)walk(fixture);
        (void)usleep(1000);
    }
    ck_assert(knows(fixture, pid));
}

/* Puppets: processes that do as they are told, each through a pipe of its own: a digit
 * says which puppet the next child will be, 'f' forks it, 's' makes a session, 'g' a
 * group, 'x' ends it. But for the first and the last the answer is a pid: the child's, or
 * its own. */
#define PUPPETS 6
static int orders[PUPPETS][2];
static int answers[PUPPETS][2];

static _Noreturn void be_puppet(void)
{
    int self = 0;
    int next = 0;
    (void)alarm(SBX_KIT_LIFETIME_S);
    for (;;) {
        char what = 0;
        pid_t pid = getpid();
        if (read(orders[self][0], &what, 1) != 1 || what == 'x') {
            _exit(0);
        }
        if (what >= '0' && what < '0' + PUPPETS) {
            next = what - '0';
            continue;
        }
        if (what == 'f') {
            pid = fork();
            if (pid == 0) {
                (void)alarm(SBX_KIT_LIFETIME_S);
                self = next;
                continue;
            }
        } else if (what == 's') {
            (void)setsid();
        } else if (what == 'g') {
            (void)setpgid(0, 0);
        }
        if (write(answers[self][1], &pid, sizeof pid) != (ssize_t)sizeof pid) {
            _exit(1);
        }
    }
}

static void open_strings(void)
{
    for (int i = 0; i < PUPPETS; i++) {
        ck_assert_int_eq(pipe2(orders[i], O_CLOEXEC), 0);
        ck_assert_int_eq(pipe2(answers[i], O_CLOEXEC), 0);
    }
}

static void close_strings(void)
{
    for (int i = 0; i < PUPPETS; i++) {
        for (int end = 0; end < 2; end++) {
            (void)close(orders[i][end]);
            (void)close(answers[i][end]);
        }
    }
}

/* With zombies: none of them waits for its children, or hears that they have ended. */
static pid_t start_puppets(bool zombies)
{
    pid_t pid = sbx_kit_fork();
    if (pid == 0) {
        (void)signal(SIGCHLD, zombies ? SIG_DFL : SIG_IGN);
        be_puppet();
    }
    return pid;
}

static pid_t start_puppet(void)
{
    return start_puppets(false);
}

static pid_t tell(int puppet, char what)
{
    pid_t pid = -1;
    ck_assert_int_eq(write(orders[puppet][1], &what, 1), 1);
    ck_assert_int_eq(read(answers[puppet][0], &pid, sizeof pid), sizeof pid);
    return pid;
}

/* Its child becomes puppet `child`. */
static pid_t tell_fork(int puppet, int child)
{
    char number = (char)('0' + child);
    ck_assert_int_eq(write(orders[puppet][1], &number, 1), 1);
    return tell(puppet, 'f');
}

/* Ends one that is not our child, or is, and waits until it is gone. */
static void end(int puppet, pid_t pid)
{
    ck_assert_int_eq(write(orders[puppet][1], "x", 1), 1);
    sbx_attach_wait_gone(pid);
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}

/* --- members --------------------------------------------------------------------------
 */

static const size_t budgets[] = {0, MANY};

START_TEST(descendants_are_members_and_others_are_not)
{
    struct fixture fixture;
    open_strings();
    sbx_kit_open(&fixture.kit, 0);
    pid_t root = start_puppet();
    pid_t other = sbx_kit_fork();
    if (other == 0) {
        sbx_kit_idle();
    }
    pid_t child = tell_fork(0, 1);
    pid_t grandchild = tell_fork(1, 2);
    attach(&fixture, root, budgets[_i % 2]);
    if (_i >= 2) {
        sbx_tree_force_scan(fixture.tree);
    }
    sbx_tree_scan_always(fixture.tree);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(walk(&fixture), 3);
        ck_assert(knows(&fixture, root) && knows(&fixture, child));
        ck_assert(knows(&fixture, grandchild) && !knows(&fixture, other));
        ck_assert_int_eq(sbx_tree_member(fixture.tree, 0)->stat.pid, root);
    }
    done(&fixture);
    close_strings();
}
END_TEST

/* Known once, and then without parents, in a session of its own, with a child. */
START_TEST(who_was_met_stays_one)
{
    struct fixture fixture;
    open_strings();
    sbx_kit_open(&fixture.kit, 0);
    pid_t root = start_puppet();
    pid_t between = tell_fork(0, 1);
    pid_t stray = tell_fork(1, 2);
    (void)tell(2, 's');
    attach(&fixture, root, budgets[_i]);
    ck_assert_uint_eq(walk(&fixture), 3);
    end(1, between);
    end(0, root);
    pid_t late = tell_fork(2, 3);
    ck_assert_uint_eq(walk(&fixture), 2);
    ck_assert(knows(&fixture, stray) && knows(&fixture, late));
    ck_assert(sbx_tree_find(fixture.tree, stray)->outside);
    ck_assert(!sbx_tree_find(fixture.tree, late)->outside);
    done(&fixture);
    close_strings();
}
END_TEST

/* Its parent was known and is gone, and it was not met before: found by what its parent
 * has made, but only when somebody has vanished. */
START_TEST(an_orphan_is_found_by_session_or_group)
{
    bool session = _i % 2 == 0;
    bool zombies = _i / 2 == 1;
    struct fixture fixture;
    open_strings();
    sbx_kit_open(&fixture.kit, 0);
    pid_t root = start_puppets(zombies);
    if (session) {
        (void)tell(0, 's');
    }
    pid_t between = tell_fork(0, 1);
    (void)tell(1, session ? 's' : 'g');
    pid_t last = tell_fork(1, 2);
    attach(&fixture, root, MANY);
    sbx_tree_scan_next(fixture.tree);
    ck_assert_uint_eq(walk(&fixture), 3);
    sbx_kit_next_tick();
    pid_t orphan = tell_fork(2, 3);
    end(2, last);
    walk_until_known(&fixture, orphan);
    /* And the next one, whose parent is the last in that session or group. */
    end(1, between);
    pid_t next = tell_fork(3, 4);
    end(3, orphan);
    sbx_tree_scan_next(fixture.tree); /* that number does not count for long any more */
    (void)walk(&fixture);
    ck_assert(knows(&fixture, next));
    done(&fixture);
    close_strings();
}
END_TEST

/* In the root's group, as the second half of a pipeline is, and a child of the process
 * that adopts orphans. */
START_TEST(a_neighbour_in_the_group_is_none)
{
    struct fixture fixture;
    open_strings();
    sbx_kit_open(&fixture.kit, 0);
    pid_t root = start_puppet();
    (void)tell(0, 'g');
    pid_t neighbour = sbx_kit_fork();
    if (neighbour == 0) {
        sbx_kit_idle();
    }
    ck_assert_int_eq(setpgid(neighbour, root), 0);
    pid_t child = tell_fork(0, 1);
    sbx_kit_next_tick();
    attach(&fixture, root, MANY);
    sbx_tree_scan_always(fixture.tree);
    ck_assert_uint_eq(walk(&fixture), 2);
    end(1, child);
    ck_assert_uint_eq(walk(&fixture), 1);
    ck_assert(!knows(&fixture, neighbour));
    done(&fixture);
    close_strings();
}
END_TEST

START_TEST(who_is_excluded_is_none)
{
    struct fixture fixture;
    open_strings();
    sbx_kit_open(&fixture.kit, 0);
    pid_t root = start_puppet();
    (void)tell(0, 's');
    pid_t one = tell_fork(0, 1);
    pid_t below = tell_fork(1, 2);
    pid_t two = tell_fork(0, 3);
    pid_t child = tell_fork(3, 4);
    attach(&fixture, root, MANY);
    const struct sbx_pidref ref = {one, sbx_kit_start_ticks(&fixture.kit, one)};
    ck_assert_int_eq(sbx_tree_exclude(fixture.tree, &ref), 0);
    sbx_tree_exclude_children(fixture.tree, two);
    ck_assert_uint_eq(walk(&fixture), 2);
    ck_assert(knows(&fixture, root) && knows(&fixture, two));
    ck_assert(!knows(&fixture, one) && !knows(&fixture, child));
    ck_assert(!knows(&fixture, below));
    done(&fixture);
    close_strings();
}
END_TEST

/* --- numbers that are given again ------------------------------------------------------
 */

static pid_t recycle(pid_t pid)
{
    sbx_kit_next_tick();
    pid_t again = sbx_kit_fork_as(pid);
    if (again == 0) {
        (void)setsid();
        if (fork() == 0) {
            (void)alarm(SBX_KIT_LIFETIME_S);
            sbx_kit_idle();
        }
        sbx_kit_idle();
    }
    if (again < 0) {
        sbx_kit_skip("a recycled pid", "no process may be given a pid of choice here");
    }
    return again;
}

/* The pid of a member, of the root, and of one that made a session is given to somebody
 * who makes a session of that number himself. */
START_TEST(a_recycled_pid_is_nobody)
{
    struct fixture fixture;
    bool of_root = _i % 2 == 1;
    open_strings();
    sbx_kit_open(&fixture.kit, 0);
    pid_t root = start_puppet();
    pid_t child = tell_fork(0, 1);
    (void)tell(of_root ? 0 : 1, 's');
    pid_t victim = of_root ? root : child;
    attach(&fixture, root, budgets[_i / 2]);
    sbx_tree_scan_next(fixture.tree);
    ck_assert_uint_eq(walk(&fixture), 2);
    end(of_root ? 0 : 1, victim);
    if (!of_root) {
        end(0, root);
    }
    pid_t again = recycle(victim);
    if (again > 0) {
        ck_assert_int_eq(again, victim);
        pid_t below = sbx_attach_child(again);
        sbx_tree_scan_always(fixture.tree);
        for (int i = 0; i < 2; i++) {
            ck_assert_uint_eq(walk(&fixture), of_root ? 1 : 0);
            ck_assert(!knows(&fixture, again) && !knows(&fixture, below));
        }
        const struct sbx_pidref old = {again, 1};
        ck_assert_int_eq(sbx_tree_remember(fixture.tree, &old), -ESRCH);
    }
    done(&fixture);
    close_strings();
}
END_TEST

/* --- the sweep -------------------------------------------------------------------------
 */

struct counts {
    int met;
    int survivors;
};

static void note_met(const struct sbx_member *member, void *context)
{
    (void)member;
    ((struct counts *)context)->met++;
}

static void note_survivor(const struct sbx_member *member, const char *why, void *context)
{
    (void)fprintf(stderr, "# %s (%d) survived: %s\n", member->stat.name, member->stat.pid,
                  why);
    ((struct counts *)context)->survivors++;
}

static struct sbx_sweep_result sweep(struct fixture *fixture, struct counts *counts)
{
    struct sbx_sweep_result result = {0};
    const struct sbx_sweep_hooks hooks = {
        .met = note_met, .survivor = note_survivor, .context = counts};
    (void)sbx_sweep_remembered(fixture->tree, fixture->kit.proc_fd, &hooks, &result);
    return result;
}

START_TEST(a_sweep_ends_members_and_nobody_else)
{
    struct fixture fixture;
    struct counts counts = {0};
    open_strings();
    sbx_kit_open(&fixture.kit, 0);
    pid_t root = start_puppet();
    pid_t other = sbx_kit_fork();
    if (other == 0) {
        sbx_kit_idle();
    }
    pid_t between = tell_fork(0, 1);
    pid_t stray = tell_fork(1, 2);
    (void)tell(2, 's');
    attach(&fixture, root, MANY);
    ck_assert_uint_eq(walk(&fixture), 3);
    end(0, root);
    pid_t late = tell_fork(2, 3);
    const struct sbx_sweep_result result = sweep(&fixture, &counts);
    ck_assert(result.empty);
    ck_assert_uint_eq(result.killed_count, 3);
    ck_assert_int_eq(counts.met, 3);
    ck_assert_int_eq(counts.survivors, 0);
    ck_assert(!sbx_attach_is_alive(between) && !sbx_attach_is_alive(stray));
    ck_assert(!sbx_attach_is_alive(late) && sbx_attach_is_alive(other));
    done(&fixture);
    close_strings();
}
END_TEST

/* Forks all the time, in sessions of its own: whoever is met, and what comes of him, is
 * ended, in bounded time. */
START_TEST(a_sweep_catches_who_forks)
{
    static const char *const rows[][4] = {
        {"hopper", "8", "1500", NULL}, {"crowd", "1000", "10", NULL},
        {"crowd", "200", "1", NULL},   {"stubborn", NULL},
        {"thread_forker", NULL},
    };
    struct fixture fixture;
    struct counts counts = {0};
    sbx_kit_open(&fixture.kit, 0);
    pid_t root = sbx_kit_helper(rows[_i]);
    attach(&fixture, root, MANY);
    uint64_t started = sbx_clock_us();
    const struct sbx_sweep_result result = sweep(&fixture, &counts);
    ck_assert_uint_lt(sbx_clock_us() - started, 45 * SBX_US_PER_S);
    ck_assert(result.empty);
    ck_assert(!sbx_attach_is_alive(root));
    if (_i > 0) {
        (void)sbx_kit_walk(&fixture.kit);
        ck_assert_uint_eq(sbx_kit_alive(&fixture.kit), 0);
    }
    done(&fixture);
}
END_TEST

START_TEST(who_may_not_be_signalled_is_named)
{
    struct fixture fixture;
    struct counts counts = {0};
    if (getuid() != 0) {
        sbx_kit_skip("a process of another user", "only root can be two");
        return;
    }
    open_strings();
    sbx_kit_open(&fixture.kit, 0);
    pid_t root = start_puppet();
    attach(&fixture, root, MANY);
    ck_assert_uint_eq(walk(&fixture), 1);
    ck_assert_int_eq(seteuid(SBX_KIT_NOBODY), 0);
    ck_assert_int_eq(setresuid(SBX_KIT_NOBODY, SBX_KIT_NOBODY, 0), 0);
    const struct sbx_sweep_result result = sweep(&fixture, &counts);
    ck_assert_int_eq(setresuid(0, 0, 0), 0);
    ck_assert(!result.empty);
    ck_assert_uint_eq(result.killed_count, 0);
    ck_assert_int_eq(counts.survivors, 1);
    ck_assert(sbx_attach_is_alive(root));
    done(&fixture);
    close_strings();
}
END_TEST

/* --- the built program, in a PID namespace of its own ----------------------------------
 */

#define SCENE_SKIPPED 77

/* Fails the scene with a line of its own: ck_ functions belong to the test's process. */
#define SCENE(condition)                                                                 \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            (void)fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                \
            _exit(1);                                                                    \
        }                                                                                \
    } while (0)

static pid_t start_watch(pid_t root, const char *report)
{
    pid_t pid = fork();
    if (pid == 0) {
        char number[16];
        (void)snprintf(number, sizeof number, "%d", (int)root);
        (void)execl(sbx_fixture_watch(), "sbx-watch", "--report", report, "--interval",
                    "20ms", "--grace", "1s", "--rlimit", "core=0:12345", "--enforce",
                    "--pid", number, NULL);
        _exit(127);
    }
    return pid;
}

static bool is_armed(pid_t pid)
{
    struct rlimit now = {0};
    return prlimit(pid, RLIMIT_CORE, NULL, &now) == 0 && now.rlim_max == 12345;
}

static void wait_armed(pid_t pid)
{
    for (int i = 0; i < 20000 && !is_armed(pid); i++) {
        (void)usleep(1000);
    }
    SCENE(is_armed(pid));
}

static pid_t first_child(pid_t pid)
{
    pid_t child = 0;
    for (int i = 0; i < 20000 && sbx_attach_children(pid, &child, 1) == 0; i++) {
        (void)usleep(1000);
    }
    SCENE(child > 1);
    return child;
}

static pid_t start_family(void)
{
    pid_t root = fork();
    if (root == 0) {
        (void)alarm(SBX_KIT_LIFETIME_S);
        if (fork() == 0) {
            (void)alarm(SBX_KIT_LIFETIME_S);
            (void)setsid();
            if (fork() == 0) {
                (void)alarm(SBX_KIT_LIFETIME_S);
                (void)setsid();
                sbx_kit_idle();
            }
            sbx_kit_idle();
        }
        sbx_kit_idle();
    }
    return root;
}

/* As the init of the namespace. Root, a member, and one below it; root and member end,
 * a stranger gets the member's pid; the run is cancelled. */
static _Noreturn void play_recycled(const char *report)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("proc", "/proc", "proc", 0, NULL) < 0) {
        _exit(SCENE_SKIPPED);
    }
    pid_t root = start_family();
    pid_t member = first_child(root);
    pid_t last = first_child(member);
    pid_t watch = start_watch(root, report);
    wait_armed(last);
    SCENE(kill(root, SIGKILL) == 0 && waitpid(root, NULL, 0) == root);
    SCENE(kill(member, SIGKILL) == 0 && waitpid(member, NULL, 0) == member);
    sbx_kit_next_tick();
    pid_t stranger = sbx_kit_fork_as(member);
    if (stranger == 0) {
        (void)setsid();
        sbx_kit_idle();
    }
    if (stranger < 0) {
        _exit(SCENE_SKIPPED);
    }
    SCENE(stranger == member);
    int status = 0;
    SCENE(kill(watch, SIGTERM) == 0 && waitpid(watch, &status, 0) == watch);
    SCENE(WIFEXITED(status) && WEXITSTATUS(status) == 143);
    SCENE(sbx_attach_is_alive(stranger));
    SCENE(!sbx_attach_is_alive(last));
    _exit(0);
}

START_TEST(a_stranger_with_a_members_pid_is_not_touched)
{
    char report[SBX_FIXTURE_PATH_SIZE];
    (void)sbx_fixture_path(report, "report");
    pid_t outer = fork();
    ck_assert_int_ge(outer, 0);
    if (outer == 0) {
        if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0) {
            _exit(SCENE_SKIPPED);
        }
        pid_t init = fork();
        if (init == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            play_recycled(report);
        }
        int status = 0;
        (void)waitpid(init, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(outer, &status, 0), outer);
    ck_assert(WIFEXITED(status));
    if (WEXITSTATUS(status) == SCENE_SKIPPED) {
        sbx_kit_skip("a stranger with a member's pid", "no PID namespace may be made, or "
                                                       "no pid be chosen, here");
        return;
    }
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    ck_assert_int_eq(access(report, F_OK), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("attached");
    TCase *members = sbx_fixture_case(suite, "members", 60);
    tcase_add_loop_test(members, descendants_are_members_and_others_are_not, 0, 4);
    tcase_add_loop_test(members, who_was_met_stays_one, 0, 2);
    tcase_add_loop_test(members, an_orphan_is_found_by_session_or_group, 0, 4);
    tcase_add_test(members, a_neighbour_in_the_group_is_none);
    tcase_add_test(members, who_is_excluded_is_none);
    tcase_add_loop_test(members, a_recycled_pid_is_nobody, 0, 4);
    TCase *swept = sbx_fixture_case(suite, "swept", 120);
    tcase_add_test(swept, a_sweep_ends_members_and_nobody_else);
    tcase_add_loop_test(swept, a_sweep_catches_who_forks, 0, 5);
    tcase_add_test(swept, who_may_not_be_signalled_is_named);
    tcase_add_test(swept, a_stranger_with_a_members_pid_is_not_touched);
    return sbx_fixture_run(suite);
}
