/*
 * test_sweep.c - a sweep ends a tree, proves it, and names whom it could not end; the
 * polite signal reaches everybody once.
 */
#include "tests/fixture.h"
#include "tests/tree_kit.h"

#include "base/clock.h"
#include "base/fd.h"
#include "reaper/wrapper.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MANY 4096U
#define NAMED_MAX 16

/* What the hooks were told. */
struct account {
    struct sbx_kit kit;
    struct sbx_sweep_result result;
    unsigned met;
    unsigned met_twice;
    pid_t met_pids[512];
    unsigned survivors;
    pid_t survivor[NAMED_MAX];
    char why[NAMED_MAX][64];
    uint64_t took_us;
};

static void note_met(const struct sbx_member *member, void *context)
{
    struct account *account = context;
    for (unsigned i = 0; i < account->met; i++) {
        account->met_twice += account->met_pids[i] == member->stat.pid ? 1U : 0U;
    }
    if (account->met < 512) {
        account->met_pids[account->met++] = member->stat.pid;
    }
}

static void note_survivor(const struct sbx_member *member, const char *why, void *context)
{
    struct account *account = context;
    if (account->survivors < NAMED_MAX) {
        account->survivor[account->survivors] = member->stat.pid;
        (void)snprintf(account->why[account->survivors], sizeof account->why[0], "%s",
                       why);
    }
    account->survivors++;
}

static int reap(void *context)
{
    struct account *account = context;
    return sbx_kit_reap(&account->kit);
}

static int sweep(struct account *account)
{
    struct sbx_sweep_hooks hooks = {
        .reap = reap, .met = note_met, .survivor = note_survivor, .context = account};
    uint64_t before = sbx_clock_us();
    int r = sbx_sweep(account->kit.tree, account->kit.proc_fd, &hooks, &account->result);
    account->took_us = sbx_clock_us() - before;
    return r;
}

/* The kernel's own word. */
static void expect_no_children(void)
{
    siginfo_t info;
    ck_assert_int_eq(waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL), -1);
    ck_assert_int_eq(errno, ECHILD);
}

static void sweep_to_the_end(struct account *account)
{
    ck_assert_int_eq(sweep(account), 0);
    ck_assert(account->result.empty);
    ck_assert_uint_eq(account->survivors, 0);
    ck_assert_uint_eq(account->met_twice, 0);
    ck_assert_uint_lt(account->took_us, SBX_SWEEP_BOUND_US + 10 * SBX_US_PER_S);
    expect_no_children();
}

START_TEST(nobody_is_empty_at_once)
{
    struct account account = {0};
    sbx_kit_open(&account.kit, MANY);
    sweep_to_the_end(&account);
    ck_assert_uint_eq(account.result.killed_count, 0);
    ck_assert_uint_eq(account.met, 0);
    sbx_kit_close(&account.kit);
}
END_TEST

/* Known to the tree before, or met by the sweep; with descriptors kept or not. */
static const struct {
    const char *command[4];
    unsigned members; /* 0: they come and go too fast to be counted */
    size_t alive;     /* to wait for, where they do not */
} trees[] = {
    {{"spin", "60000"}, 1, 1},
    {{"setsid_child"}, 2, 2},
    {{"daemon"}, 2, 2},
    {{"thread_forker"}, 2, 2},
    {{"zombie_leader"}, 1, 1},
    {{"stopped"}, 2, 2},
    {{"stopped", "--leader"}, 1, 1},
    {{"stubborn"}, 2, 2},
    {{"subreaper"}, 7, 7},
    {{"crowd", "200", "1"}, 200, 200},
    {{"crowd", "200", "199"}, 200, 200},
    {{"named", "x) Z 1 1 1 (y"}, 1, 1},
    {{"hopper", "8", "1500"}, 0, 0},
    {{"hopper", "16", "300"}, 0, 0},
};
#define TREE_COUNT (int)(sizeof trees / sizeof trees[0])

START_TEST(whatever_there_is_ends)
{
    int row = _i % TREE_COUNT;
    bool known = _i / TREE_COUNT == 1;
    struct account account = {0};
    sbx_kit_open(&account.kit, known ? MANY : 0);
    (void)sbx_kit_helper_ups(trees[row].command,
                             strcmp(trees[row].command[0], "subreaper") == 0 ? 5 : 1);
    if (trees[row].alive > 0) {
        struct sbx_kit looking;
        sbx_kit_open(&looking, 0);
        sbx_kit_settle(known ? &account.kit : &looking, trees[row].alive);
        sbx_tree_free(looking.tree);
        (void)close(looking.proc_fd);
    }
    sweep_to_the_end(&account);
    if (trees[row].members > 0) {
        ck_assert_uint_eq(account.met, trees[row].members);
        ck_assert_uint_eq(account.result.killed_count, trees[row].members);
    } else {
        ck_assert_uint_ge(account.result.killed_count, 1);
    }
    ck_assert_uint_eq(sbx_kit_walk(&account.kit), 0);
    sbx_kit_close(&account.kit);
}
END_TEST

/* Whoever had ended was not killed by us; the stray beside it was. */
START_TEST(the_dead_are_not_counted_as_killed)
{
    struct account account = {0};
    sbx_kit_open(&account.kit, MANY);
    for (int i = 0; i < 20; i++) {
        pid_t pid = sbx_kit_fork();
        if (pid == 0) {
            _exit(0);
        }
        sbx_kit_wait_state(&account.kit, pid, 'Z');
    }
    (void)sbx_kit_helper((const char *const[]){"trap", NULL});
    ck_assert_uint_eq(sbx_kit_walk(&account.kit), 21);
    sweep_to_the_end(&account);
    ck_assert_uint_eq(account.result.killed_count, 1);
    ck_assert_uint_eq(account.met, 1);
    sbx_kit_close(&account.kit);
}
END_TEST

/* Zombies that the sweep's own killing uncovers: children that a parent never waited for
 * come to us dead. */
START_TEST(zombies_of_the_killed_are_not_counted)
{
    struct account account = {0};
    int ready[2];
    sbx_kit_open(&account.kit, MANY);
    ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
    pid_t parent = sbx_kit_fork();
    if (parent == 0) {
        for (int i = 0; i < 50; i++) {
            pid_t pid = sbx_kit_fork();
            if (pid == 0) {
                _exit(0);
            }
            siginfo_t info;
            (void)waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
        }
        sbx_kit_tell(ready[1]);
        sbx_kit_idle();
    }
    sbx_kit_hear(ready[0]);
    sweep_to_the_end(&account);
    ck_assert_uint_eq(account.result.killed_count, 1);
    ck_assert_uint_eq(account.met, 1);
    (void)close(ready[0]);
    (void)close(ready[1]);
    sbx_kit_close(&account.kit);
}
END_TEST

/* --- survivors --- */

/* Ends when the pipe does, and on nothing else that a nobody can send. It has a child
 * that has ended and that it does not wait for. */
static _Noreturn void live_as_root(int fd)
{
    char byte;
    pid_t dead = sbx_kit_fork();
    if (dead == 0) {
        _exit(0);
    }
    _exit(read(fd, &byte, 1) == 0 ? 0 : 1);
}

static void expect_named(const struct account *account, pid_t pid, const char *why)
{
    for (unsigned i = 0; i < account->survivors && i < NAMED_MAX; i++) {
        if (account->survivor[i] == pid) {
            ck_assert_str_eq(account->why[i], why);
            return;
        }
    }
    ck_abort_msg("%d is not named", (int)pid);
}

START_TEST(who_may_not_be_signalled_is_named)
{
    struct account account = {0};
    int pipe_fds[2];
    if (getuid() != 0) {
        sbx_kit_skip("a survivor", "needs root, to be two users");
        return;
    }
    sbx_kit_open(&account.kit, MANY);
    ck_assert_int_eq(pipe2(pipe_fds, O_CLOEXEC), 0);
    pid_t root = sbx_kit_fork();
    if (root == 0) {
        (void)close(pipe_fds[1]);
        live_as_root(pipe_fds[0]);
    }
    sbx_kit_walk_until(&account.kit, 1);
    ck_assert_int_eq(setresuid(SBX_KIT_NOBODY, SBX_KIT_NOBODY, SBX_KIT_NOBODY), 0);
    (void)prctl(PR_SET_DUMPABLE, 1); /* our /proc entries are ours again */
    /* Forked, not executed: the build may lie where this user cannot go. */
    for (int i = 0; i < 2; i++) {
        if (sbx_kit_fork() == 0) {
            (void)setsid();
            sbx_kit_idle();
        }
    }
    ck_assert_int_eq(sweep(&account), 0);
    ck_assert(!account.result.empty);
    ck_assert_uint_eq(account.result.killed_count, 2);
    expect_named(&account, root, "not permitted (EPERM)");
    /* its zombie may be named beside it, and nobody else */
    ck_assert_uint_le(account.survivors, 2);
    ck_assert_uint_ge(account.took_us, SBX_SWEEP_REFUSED_US);
    ck_assert_msg(account.took_us < SBX_SWEEP_BOUND_US / 2, "it took %llu us",
                  (unsigned long long)account.took_us);
    (void)close(pipe_fds[0]);
    (void)close(pipe_fds[1]);
    sbx_kit_close(&account.kit);
}
END_TEST

/* --- the polite signal --- */

/* How often each of a few processes got a signal, counted by themselves. */
struct counters {
    atomic_int ready;
    atomic_int terms[8];
    atomic_int continued[8];
};

static struct counters *counters;
static int my_number;

static void on_term(int signal_number)
{
    (void)signal_number;
    (void)atomic_fetch_add(&counters->terms[my_number], 1);
}

static void on_cont(int signal_number)
{
    (void)signal_number;
    (void)atomic_fetch_add(&counters->continued[my_number], 1);
}

static _Noreturn void count_signals(int number, bool catches)
{
    my_number = number;
    if (catches) {
        (void)signal(SIGTERM, on_term);
        (void)signal(SIGCONT, on_cont);
    }
    (void)atomic_fetch_add(&counters->ready, 1);
    sbx_kit_idle();
}

static void share_counters(void)
{
    counters = mmap(NULL, sizeof *counters, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(counters, MAP_FAILED);
}

static void wait_for(const atomic_int *value, int wanted)
{
    uint64_t end = sbx_clock_us() + 20 * SBX_US_PER_S;
    while (atomic_load(value) < wanted) {
        ck_assert_msg(sbx_clock_us() < end, "%d instead of %d", atomic_load(value),
                      wanted);
        struct timespec rest = {0, 1000000};
        (void)nanosleep(&rest, NULL);
    }
}

/* A leader, a child in its own session, a stopped grandchild; one that has ended. */
START_TEST(everybody_hears_it_once)
{
    struct account account = {0};
    share_counters();
    sbx_kit_open(&account.kit, MANY);
    pid_t zombie = sbx_kit_fork();
    if (zombie == 0) {
        _exit(0);
    }
    sbx_kit_wait_state(&account.kit, zombie, 'Z');
    pid_t leader = sbx_kit_fork();
    if (leader == 0) {
        if (sbx_kit_fork() == 0) {
            (void)setsid();
            if (sbx_kit_fork() == 0) {
                count_signals(2, true);
            }
            count_signals(1, true);
        }
        count_signals(0, true);
    }
    wait_for(&counters->ready, 3);
    sbx_kit_walk_until(&account.kit, 3);
    pid_t stopped = sbx_tree_member(account.kit.tree, 3)->stat.pid;
    ck_assert_int_eq(kill(stopped, SIGSTOP), 0);
    sbx_kit_wait_state(&account.kit, stopped, 'T');
    (void)sbx_kit_walk(&account.kit);
    ck_assert_uint_eq(sbx_polite(account.kit.tree, account.kit.proc_fd, SIGTERM), 3);
    for (int i = 0; i < 3; i++) {
        wait_for(&counters->terms[i], 1);
        wait_for(&counters->continued[i], 1);
    }
    /* Each gets TERM before CONT, and both were sent when we returned. */
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(atomic_load(&counters->terms[i]), 1);
        ck_assert_int_eq(atomic_load(&counters->continued[i]), 1);
    }
    sbx_kit_close(&account.kit);
}
END_TEST

START_TEST(wrappers_do_not_hear_it)
{
    struct account account = {0};
    share_counters();
    sbx_kit_open(&account.kit, MANY);
    pid_t wrapper = sbx_kit_fork();
    if (wrapper == 0) {
        if (sbx_kit_fork() == 0) {
            count_signals(1, true);
        }
        count_signals(0, true);
    }
    wait_for(&counters->ready, 2);
    sbx_kit_walk_until(&account.kit, 2);
    sbx_tree_find(account.kit.tree, wrapper)->launcher = true;
    ck_assert_uint_eq(sbx_polite(account.kit.tree, account.kit.proc_fd, SIGTERM), 1);
    wait_for(&counters->terms[1], 1);
    wait_for(&counters->continued[0], 1); /* sent after the other */
    ck_assert_int_eq(atomic_load(&counters->terms[0]), 0);
    sbx_kit_close(&account.kit);
}
END_TEST

/* The kernel would drop it for an init without a handler; one with a handler hears it
 * from outside like anybody else. */
START_TEST(an_init_hears_it_if_it_listens)
{
    for (int catches = 0; catches <= 1; catches++) {
        struct account account = {0};
        struct sbx_proc_status status;
        share_counters();
        sbx_kit_open(&account.kit, MANY);
        pid_t outer = sbx_kit_fork();
        if (outer == 0) {
            if (unshare(getuid() == 0 ? CLONE_NEWPID : CLONE_NEWUSER | CLONE_NEWPID) <
                0) {
                _exit(0);
            }
            if (sbx_kit_fork() == 0) {
                count_signals(1, catches == 1);
            }
            count_signals(0, true);
        }
        uint64_t end = sbx_clock_us() + 20 * SBX_US_PER_S;
        while (atomic_load(&counters->ready) < 2 && sbx_clock_us() < end) {
            siginfo_t info = {0};
            (void)waitid(P_PID, (id_t)outer, &info, WEXITED | WNOHANG | WNOWAIT);
            if (info.si_pid == outer) {
                sbx_kit_skip("the init of a namespace",
                             "no PID namespace may be made here");
                sbx_kit_close(&account.kit);
                return;
            }
        }
        ck_assert_uint_eq(sbx_kit_walk(&account.kit), 2);
        struct sbx_member *init = sbx_tree_member(account.kit.tree, 1);
        ck_assert_int_eq(sbx_proc_status_at(account.kit.proc_fd, init->stat.pid, &status),
                         0);
        ck_assert(sbx_wrapper_is_namespace_init(&status));
        init->namespace_init = true;
        ck_assert_uint_eq(sbx_polite(account.kit.tree, account.kit.proc_fd, SIGTERM),
                          1U + (unsigned)catches);
        wait_for(&counters->terms[0], 1);
        if (catches == 1) {
            wait_for(&counters->terms[1], 1);
        }
        sweep_to_the_end(&account);
        (void)munmap(counters, sizeof *counters);
        sbx_kit_close(&account.kit);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sweep");
    TCase *tcase = sbx_fixture_case(suite, "sweep", 60);
    tcase_add_test(tcase, nobody_is_empty_at_once);
    tcase_add_loop_test(tcase, whatever_there_is_ends, 0, 2 * TREE_COUNT);
    tcase_add_test(tcase, the_dead_are_not_counted_as_killed);
    tcase_add_test(tcase, zombies_of_the_killed_are_not_counted);
    tcase_add_test(tcase, who_may_not_be_signalled_is_named);
    tcase_add_test(tcase, everybody_hears_it_once);
    tcase_add_test(tcase, wrappers_do_not_hear_it);
    tcase_add_test(tcase, an_init_hears_it_if_it_listens);
    return sbx_fixture_run(suite);
}
