/*
 * test_wrapper.c - launchers are told from the command: with the real ones where this
 * host lets them work.
 */
#include "tests/fixture.h"
#include "tests/tree_kit.h"

#include "base/clock.h"
#include "base/fd.h"
#include "monitor/meter.h"
#include "reaper/polite.h"
#include "reaper/sweep.h"
#include "reaper/wrapper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MANY 4096U
#define NOBODY 65534U

START_TEST(an_init_is_number_one_in_a_namespace_below)
{
    const struct {
        pid_t pid;
        unsigned depth;
        bool init;
    } rows[] = {
        {0, 0, false}, /* not told */
        {1, 1, false}, /* of our own namespace */
        {77, 1, false}, {1, 2, true}, {77, 2, false}, {1, 3, true}, {2, 3, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sbx_proc_status status = {.namespace_pid = rows[i].pid,
                                         .namespace_depth = rows[i].depth};
        ck_assert_msg(sbx_wrapper_is_namespace_init(&status) == rows[i].init, "row %zu",
                      i);
    }
}
END_TEST

struct run {
    struct sbx_kit kit;
    struct sbx_usage usage;
    struct sbx_meter meter;
    struct sbx_pss_area *area;
    struct sbx_pss *pss;
    struct sbx_sample sample;
    pid_t leader;
};

static void finish(struct run *run)
{
    sbx_pss_free(run->pss);
    free(run->area);
    sbx_kit_close(&run->kit);
}

/* Starts it and samples until `members` are there and its helper is up. False, with a
 * visible skip, when the launcher does not work here. */
static bool start(struct run *run, const char *const argv[], size_t members)
{
    const struct sbx_limits none = {0};
    char text[64] = "";
    int out = -1;
    *run = (struct run){0};
    sbx_kit_open(&run->kit, MANY);
    run->area = calloc(1, sizeof *run->area);
    ck_assert_ptr_nonnull(run->area);
    ck_assert_int_eq(sbx_pss_new(run->kit.proc_fd, run->area, NULL, &run->pss), 0);
    sbx_meter_init(&run->meter, run->kit.proc_fd, &none, run->pss, &run->usage);
    run->leader = sbx_kit_start(argv, -1, &out);
    struct pollfd readable = {.fd = out, .events = POLLIN};
    bool up = poll(&readable, 1, 20000) == 1 && read(out, text, sizeof text - 1) > 0 &&
              strncmp(text, "up ", 3) == 0;
    (void)close(out);
    if (!up) {
        sbx_kit_skip(argv[0], "it does not run a command in a PID namespace here");
        finish(run);
        return false;
    }
    sbx_kit_settle(&run->kit, members);
    ck_assert_int_eq(
        sbx_meter_sample(&run->meter, run->kit.tree, 1000, &run->sample, NULL), 0);
    return true;
}

static struct sbx_member *member_named(struct run *run, const char *name)
{
    for (size_t i = 0; i < sbx_tree_count(run->kit.tree); i++) {
        struct sbx_member *member = sbx_tree_member(run->kit.tree, i);
        if (strcmp(member->stat.name, name) == 0) {
            return member;
        }
    }
    ck_abort_msg("no member is called %s", name);
    return NULL;
}

static size_t count_wrappers(struct run *run)
{
    size_t count = 0;
    for (size_t i = 0; i < sbx_tree_count(run->kit.tree); i++) {
        count += sbx_tree_member(run->kit.tree, i)->wrapper ? 1U : 0U;
    }
    return count;
}

/* The leader's own end, as its exit status. */
static int status_of_leader(struct run *run)
{
    int status = -1;
    uint64_t end = sbx_clock_us() + 20 * SBX_US_PER_S;
    while (waitpid(run->leader, &status, WNOHANG) == 0) {
        ck_assert_msg(sbx_clock_us() < end, "the leader does not end");
        (void)poll(NULL, 0, 2);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* `unshare -pf CMD`: its init is the command. */
START_TEST(an_init_that_execd_is_the_command)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    struct run run;
    const char *as_root[] = {"unshare", "-pf", sbx_fixture_helper(path, "trap"), NULL};
    const char *as_user[] = {"unshare", "-Upf", path, NULL};
    if (!start(&run, getuid() == 0 ? as_root : as_user, 2)) {
        return;
    }
    struct sbx_member *init = member_named(&run, "trap");
    ck_assert(init->namespace_init);
    ck_assert(!init->wrapper);
    ck_assert_ptr_eq(sbx_wrapper_init(run.kit.tree), init);
    ck_assert_uint_eq(count_wrappers(&run), 0);
    ck_assert_uint_eq(run.sample.processes, 2);
    ck_assert_int_eq(sbx_wrapper_command(run.kit.tree, run.leader), run.leader);
    /* it listens, so it is told */
    ck_assert_uint_eq(sbx_polite(run.kit.tree, run.kit.proc_fd, SIGTERM), 2);
    finish(&run);
}
END_TEST

/* bwrap outside, bwrap as init, the command. */
START_TEST(a_launcher_is_not_the_command)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    struct run run;
    const char *argv[] = {
        "bwrap", "--unshare-pid", "--ro-bind", "/", "/", sbx_fixture_helper(path, "trap"),
        NULL};
    if (!start(&run, argv, 3)) {
        return;
    }
    struct sbx_member *command = member_named(&run, "trap");
    ck_assert(!command->wrapper);
    ck_assert_int_eq(sbx_wrapper_init(run.kit.tree)->stat.pid, command->stat.ppid);
    ck_assert_uint_eq(count_wrappers(&run), 2);
    ck_assert_uint_eq(run.sample.processes, 1);
    ck_assert_uint_eq(run.sample.threads, 1);
    ck_assert_int_eq(sbx_wrapper_command(run.kit.tree, run.leader), command->stat.pid);
    /* only the command hears of its end, and has its say: 42 */
    ck_assert_uint_eq(sbx_polite(run.kit.tree, run.kit.proc_fd, SIGTERM), 1);
    ck_assert_int_eq(status_of_leader(&run), 42);
    finish(&run);
}
END_TEST

/* A shell around it belongs to the launcher, one inside to the command. */
START_TEST(what_is_outside_of_a_launcher_is_one)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    struct run run;
    const char *argv[] = {"sh", "-c",
                          "bwrap --unshare-pid --ro-bind / / sh -c '\"$0\"; exit $?' "
                          "\"$0\"; exit $?",
                          sbx_fixture_helper(path, "trap"), NULL};
    if (!start(&run, argv, 5)) {
        return;
    }
    ck_assert_uint_eq(count_wrappers(&run), 3);
    ck_assert_uint_eq(run.sample.processes, 2);
    const struct sbx_member *command =
        sbx_tree_find(run.kit.tree, sbx_wrapper_command(run.kit.tree, run.leader));
    ck_assert_ptr_nonnull(command);
    ck_assert_str_eq(command->stat.name, "sh");
    ck_assert_int_ne(command->stat.pid, run.leader);
    ck_assert_int_eq(member_named(&run, "trap")->stat.ppid, command->stat.pid);
    finish(&run);
}
END_TEST

/* Who looks after more than a launcher is the command, is counted, and is told. And the
 * launcher is counted with it: anybody can look like one. */
START_TEST(what_runs_a_launcher_beside_others_is_none)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    struct run run;
    const char *argv[] = {"sh", "-c",
                          "sleep 60 & sh -c 'bwrap --unshare-pid --ro-bind / / \"$0\"; "
                          "exit $?' \"$0\"; exit $?",
                          sbx_fixture_helper(path, "trap"), NULL};
    if (!start(&run, argv, 6)) {
        return;
    }
    ck_assert_uint_eq(count_wrappers(&run), 0);
    ck_assert_uint_eq(run.sample.processes, 6);
    ck_assert_ptr_null(sbx_wrapper_init(run.kit.tree));
    ck_assert_int_eq(sbx_wrapper_command(run.kit.tree, run.leader), run.leader);
    ck_assert_uint_eq(sbx_polite(run.kit.tree, run.kit.proc_fd, SIGTERM), 3);
    finish(&run);
}
END_TEST

/* --- what only looks like a launcher -------------------------------------------------
 */

/* In the child: 0. */
static pid_t fork_init(bool new_user)
{
    unsigned long flags =
        CLONE_NEWPID | (new_user ? CLONE_NEWUSER : 0UL) | (unsigned long)SIGCHLD;
    pid_t pid = (pid_t)syscall(SYS_clone, flags, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        (void)alarm(SBX_KIT_LIFETIME_S);
    }
    return pid;
}

enum crowd { BESIDE, ORPHANED, BELOW };

/* A leader with three inits that execute nothing: beside each other, each of its own
 * parent that ends at once, or one below the other. */
static _Noreturn void hide_in_namespaces(enum crowd crowd)
{
    bool user = getuid() != 0;
    for (int i = 0; i < 3; i++) {
        pid_t between = crowd == ORPHANED ? fork() : 0;
        if (between > 0) {
            (void)waitpid(between, NULL, 0);
            continue;
        }
        pid_t pid = fork_init(user && (crowd != BELOW || i == 0));
        if (pid == 0 && crowd != BELOW) {
            sbx_kit_idle();
        }
        if (crowd == ORPHANED) {
            _exit(0);
        }
        if (crowd == BELOW && pid != 0) {
            break;
        }
    }
    sbx_kit_idle();
}

START_TEST(only_one_way_down_is_a_launcher)
{
    static const size_t wrappers[] = {
        [BESIDE] = 0, [ORPHANED] = 0, [BELOW] = 4 /* no way to tell, but only few */};
    for (enum crowd crowd = BESIDE; crowd <= BELOW; crowd++) {
        struct sbx_kit kit;
        sbx_kit_open(&kit, MANY);
        pid_t leader = sbx_kit_fork();
        if (leader == 0) {
            hide_in_namespaces(crowd);
        }
        struct run run = {.kit = kit};
        sbx_kit_settle(&run.kit, 4);
        sbx_wrapper_mark(run.kit.tree, run.kit.proc_fd);
        ck_assert_msg(count_wrappers(&run) == wrappers[crowd], "crowd %d: %zu",
                      (int)crowd, count_wrappers(&run));
        ck_assert((sbx_wrapper_init(run.kit.tree) != NULL) == (crowd == BELOW));
        sbx_kit_close(&run.kit);
    }
}
END_TEST

static const char *named_copy(const char *helper, const char *name, char *path);

/* Our own program inside of a sandbox has executed, and is none of the command all the
 * same; also when it has lost who was outside. */
START_TEST(our_inner_program_is_a_launcher)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    struct run run;
    const char *copy = named_copy("crowd", SBX_INNER_NAME, path);
    const char *as_root[] = {"unshare", "-pf", copy, "3", "2", NULL};
    const char *as_user[] = {"unshare", "-Upf", copy, "3", "2", NULL};
    if (!start(&run, getuid() == 0 ? as_root : as_user, 4)) {
        return;
    }
    struct sbx_member *init = sbx_wrapper_init(run.kit.tree);
    ck_assert_ptr_nonnull(init);
    ck_assert_str_eq(init->stat.name, SBX_INNER_NAME);
    ck_assert_uint_eq(count_wrappers(&run), 2);
    pid_t command = sbx_wrapper_command(run.kit.tree, run.leader);
    ck_assert_int_eq(sbx_tree_find(run.kit.tree, command)->stat.ppid, init->stat.pid);
    sbx_kit_kill(run.leader);
    sbx_tree_reaped(run.kit.tree, run.leader);
    sbx_kit_settle(&run.kit, 3);
    sbx_wrapper_mark(run.kit.tree, run.kit.proc_fd);
    ck_assert_uint_eq(count_wrappers(&run), 1);
    ck_assert_str_eq(sbx_wrapper_init(run.kit.tree)->stat.name, SBX_INNER_NAME);
    finish(&run);
}
END_TEST

/* Nor does a launcher's init become the command when its outside is killed. */
START_TEST(an_init_stays_what_it_was)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    struct run run;
    const char *argv[] = {
        "bwrap", "--unshare-pid", "--ro-bind", "/", "/", sbx_fixture_helper(path, "trap"),
        NULL};
    if (!start(&run, argv, 3)) {
        return;
    }
    ck_assert_uint_eq(count_wrappers(&run), 2);
    sbx_kit_kill(run.leader);
    sbx_tree_reaped(run.kit.tree, run.leader);
    sbx_kit_settle(&run.kit, 2);
    sbx_wrapper_mark(run.kit.tree, run.kit.proc_fd);
    ck_assert_uint_eq(count_wrappers(&run), 1);
    ck_assert_str_eq(sbx_wrapper_init(run.kit.tree)->stat.name, "bwrap");
    finish(&run);
}
END_TEST

START_TEST(without_a_namespace_nothing_is_one)
{
    struct sbx_kit kit;
    sbx_kit_open(&kit, MANY);
    pid_t leader = sbx_kit_helper((const char *const[]){"crowd", "3", "1", NULL});
    sbx_kit_settle(&kit, 3);
    sbx_wrapper_mark(kit.tree, kit.proc_fd);
    for (size_t i = 0; i < 3; i++) {
        ck_assert(!sbx_tree_member(kit.tree, i)->wrapper);
    }
    ck_assert_int_eq(sbx_wrapper_command(kit.tree, leader), leader);
    /* a mark of before goes when nothing speaks for it any more */
    sbx_tree_member(kit.tree, 0)->wrapper = true;
    ck_assert_int_eq(sbx_wrapper_command(kit.tree, leader),
                     sbx_tree_member(kit.tree, 1)->stat.pid);
    sbx_wrapper_mark(kit.tree, kit.proc_fd);
    ck_assert(!sbx_tree_member(kit.tree, 0)->wrapper);
    sbx_kit_close(&kit);
}
END_TEST

START_TEST(a_launcher_alone_has_no_command_yet)
{
    struct sbx_kit kit;
    sbx_kit_open(&kit, MANY);
    pid_t leader = sbx_kit_helper((const char *const[]){"trap", NULL});
    pid_t zombie = sbx_kit_fork();
    if (zombie == 0) {
        _exit(0);
    }
    sbx_kit_wait_state(&kit, zombie, 'Z');
    sbx_kit_settle(&kit, 2);
    sbx_tree_find(kit.tree, leader)->wrapper = true;
    ck_assert_int_eq(sbx_wrapper_command(kit.tree, leader), 0);
    /* and a leader that nobody knows is what it was called */
    ck_assert_int_eq(sbx_wrapper_command(kit.tree, 1), 1);
    sbx_kit_close(&kit);
}
END_TEST

/* A copy of a helper under another name. */
static const char *named_copy(const char *helper, const char *name, char *path)
{
    char built[SBX_FIXTURE_PATH_SIZE];
    struct stat status;
    SBX_AUTO_CLOSE int from =
        open(sbx_fixture_helper(built, helper), O_RDONLY | O_CLOEXEC);
    SBX_AUTO_CLOSE int to =
        open(sbx_fixture_path(path, name), O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    ck_assert(from >= 0 && to >= 0 && fstat(from, &status) == 0);
    for (off_t done = 0; done < status.st_size;) {
        ck_assert_int_gt(sendfile(to, from, &done, (size_t)(status.st_size - done)), 0);
    }
    ck_assert_int_eq(fchmod(to, 0755), 0);
    return path;
}

/* su is spared since its child is told; where we may not tell that, su can. And only su:
 * what runs another program under that name is not known. */
START_TEST(a_launcher_is_told_when_its_child_cannot_be)
{
    static const struct {
        const char *name;
        uid_t child;
        uint64_t told;
        bool spared;
    } table[] = {
        {"su", NOBODY, 1, true}, /* the child alone */
        {"su", 1, 1, true},      /* su alone */
        {"other", NOBODY, 2, false},
    };
    if (getuid() != 0) {
        sbx_kit_skip("launchers that change the user", "only root can be one here");
        return;
    }
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char path[SBX_FIXTURE_PATH_SIZE];
        char uid[16];
        char text[64] = "";
        int out = -1;
        struct sbx_kit kit;
        sbx_kit_open(&kit, MANY);
        (void)snprintf(uid, sizeof uid, "%u", table[i].child);
        const char *argv[] = {named_copy("switcher", table[i].name, path), "65534", uid,
                              NULL};
        pid_t leader = sbx_kit_start(argv, -1, &out);
        ck_assert_int_gt(read(out, text, sizeof text - 1), 0);
        sbx_kit_settle(&kit, 2);
        /* from here on an ordinary user, who may signal his own */
        ck_assert_int_eq(setresuid(NOBODY, NOBODY, 0), 0);
        uint64_t told = sbx_polite(kit.tree, kit.proc_fd, SIGTERM);
        ck_assert_int_eq(setresuid(0, 0, 0), 0);
        ck_assert_msg(told == table[i].told, "row %zu: %d were told", i, (int)told);
        ck_assert_msg(sbx_tree_find(kit.tree, leader)->spared == table[i].spared,
                      "row %zu", i);
        if (table[i].child == 1) {
            ck_assert_int_eq(read(out, text, sizeof text - 1), 5);
        }
        (void)close(out);
        sbx_kit_close(&kit);
    }
}
END_TEST

/* A shell blocks all signals while it starts a command, and would be told too late for
 * what is looked at here. */
static void await_open_to_signals(const struct sbx_kit *kit, pid_t pid)
{
    struct sbx_proc_status status = {.sig_blocked = UINT64_MAX};
    uint64_t end_us = sbx_clock_us() + 20 * (uint64_t)SBX_US_PER_S;
    while (sbx_proc_status_at(kit->proc_fd, pid, &status) < 0 ||
           status.sig_blocked != 0) {
        ck_assert_msg(sbx_clock_us() < end_us, "%d blocks signals", pid);
        (void)poll(NULL, 0, 1);
    }
}

/* A shell that still lived could reap the command, and take its status into its death. */
START_TEST(who_waits_is_dead_before_the_command_hears)
{
    const char *argv[] = {
        "sh", "-c",
        "sh -c 'trap \"answer\" TERM; answer() { while read -r key value; do"
        " [ \"$key$value\" != \"PPid:$PPID\" ] || exit 43; done </proc/$$/status; exit "
        "42; };"
        " sleep 50 & wait'; exit $?",
        NULL};
    for (int i = 0; i < 3; i++) {
        struct sbx_kit kit;
        int status = 0;
        int out = -1;
        sbx_kit_open(&kit, MANY);
        pid_t leader = sbx_kit_start(argv, -1, &out);
        sbx_kit_settle(&kit, 3);
        pid_t command = sbx_tree_find(kit.tree, leader)->stat.pid;
        for (size_t j = 0; j < sbx_tree_count(kit.tree); j++) {
            const struct sbx_member *member = sbx_tree_member(kit.tree, j);
            command = member->stat.ppid == leader ? member->stat.pid : command;
        }
        await_open_to_signals(&kit, leader);
        uint64_t begun_us = sbx_clock_us();
        ck_assert_uint_eq(sbx_polite(kit.tree, kit.proc_fd, SIGTERM), 3);
        /* On a machine that has no processor for the shell nothing is waited for longer.
         */
        bool bound_reached = sbx_clock_us() - begun_us >= SBX_POLITE_BOUND_US;
        ck_assert_int_eq(waitpid(leader, &status, 0), leader);
        ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
        if (!bound_reached) {
            ck_assert_int_eq(waitpid(command, &status, 0), command);
            ck_assert_int_eq(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 42);
        }
        (void)close(out);
        sbx_kit_close(&kit);
    }
}
END_TEST

static const char *heir_of(const struct sbx_kit *kit, pid_t leader, int signal_number)
{
    sbx_polite_choose(kit->tree, kit->proc_fd, signal_number);
    const struct sbx_member *heir = sbx_polite_heir(kit->tree, leader);
    return heir != NULL ? heir->stat.name : "nobody";
}

static void read_text(const char *path, char *text, size_t size)
{
    SBX_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, text, size - 1) : -1;
    ck_assert_int_ge(length, 0);
    text[length] = '\0';
}

/* Waits for `sleep` to be asleep in it. False: the kernel does not tell where. */
static bool falls_asleep(pid_t pid)
{
    uint64_t end = sbx_clock_us() + 10 * SBX_US_PER_S;
    while (sbx_clock_us() < end) {
        char path[64];
        char name[64];
        (void)snprintf(path, sizeof path, "/proc/%d/wchan", pid);
        read_text(path, name, sizeof name);
        if (strstr(name, "nanosleep") != NULL) {
            return true;
        }
        (void)poll(NULL, 0, 1);
    }
    return false;
}

/* Whose end is the command's: the last one whose parent would die of the signal. */
START_TEST(who_waits_is_spoken_for)
{
    static const struct {
        const char *script; /* $0 is the helper that waits for TERM */
        size_t members;
        const char *heir;
    } table[] = {
        {"exec \"$0\"", 1, "nobody"},
        {"\"$0\"; exit", 2, "trap"},
        {"sh -c '\"$0\"; exit' \"$0\"; exit", 3, "trap"},
        {"trap '' TERM; sh -c '\"$0\"; exit' \"$0\"; exit", 3, "nobody"},
        {"trap : TERM; sh -c '\"$0\"; exit' \"$0\"; exit", 3, "nobody"},
        {"timeout 60 sh -c '\"$0\"; exit' \"$0\"; exit", 4, "trap"},
        {"timeout 60 \"$0\"; exit", 3, "timeout"},
        {"\"$0\" & \"$0\"; exit", 3, "nobody"}, /* nobody speaks for two */
        {"\"$0\" & wait; exit", 2, "trap"},
        {"exec 3>&1; text=$(\"$0\" 4>&1 >&3); exit", 2, "trap"},
        {"\"$0\" & exec sleep 60", 2, "nobody"}, /* it waits for something else */
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char path[SBX_FIXTURE_PATH_SIZE];
        char text[64] = "";
        int out = -1;
        struct sbx_kit kit;
        sbx_kit_open(&kit, MANY);
        const char *argv[] = {"sh", "-c", table[i].script,
                              sbx_fixture_helper(path, "trap"), NULL};
        pid_t leader = sbx_kit_start(argv, -1, &out);
        ck_assert_int_gt(read(out, text, sizeof text - 1), 0);
        sbx_kit_settle(&kit, table[i].members);
        bool sleeper = strstr(table[i].script, "exec sleep") != NULL;
        if (sleeper && !falls_asleep(leader)) {
            sbx_kit_skip(table[i].script, "the kernel does not say where who sleeps");
            (void)close(out);
            sbx_kit_close(&kit);
            continue;
        }
        const char *heir = heir_of(&kit, leader, SIGTERM);
        ck_assert_msg(strcmp(heir, table[i].heir) == 0, "row %zu: %s", i, heir);
        ck_assert_str_eq(heir_of(&kit, leader, SIGWINCH), "nobody"); /* none dies */
        (void)close(out);
        sbx_kit_close(&kit);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wrapper");
    TCase *tcase = sbx_fixture_case(suite, "wrapper", 60);
    tcase_add_test(tcase, an_init_is_number_one_in_a_namespace_below);
    tcase_add_test(tcase, an_init_that_execd_is_the_command);
    tcase_add_test(tcase, a_launcher_is_not_the_command);
    tcase_add_test(tcase, what_is_outside_of_a_launcher_is_one);
    tcase_add_test(tcase, what_runs_a_launcher_beside_others_is_none);
    tcase_add_test(tcase, only_one_way_down_is_a_launcher);
    tcase_add_test(tcase, our_inner_program_is_a_launcher);
    tcase_add_test(tcase, an_init_stays_what_it_was);
    tcase_add_test(tcase, without_a_namespace_nothing_is_one);
    tcase_add_test(tcase, a_launcher_alone_has_no_command_yet);
    tcase_add_test(tcase, a_launcher_is_told_when_its_child_cannot_be);
    tcase_add_test(tcase, who_waits_is_dead_before_the_command_hears);
    tcase_add_test(tcase, who_waits_is_spoken_for);
    return sbx_fixture_run(suite);
}
