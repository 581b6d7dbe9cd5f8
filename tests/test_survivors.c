/*
 * test_survivors.c - whatever the command starts, nothing of it is alive when the run is
 * reported as finished.
 *
 * One row for each way in which processes get away from those who end them: run under a
 * wall limit, or left behind by a leader that exits 0. After each run the kernel has to
 * say that the test (a subreaper above sbx-watch) has no child, and no process may have
 * the run's mark in its environment. As root, each row runs as root and as an ordinary
 * user. A row counts only when its program had become what it is meant to be ("up"):
 * with a slow machine the wall limit is made longer until it has.
 */
#include "tests/fixture.h"
#include "tests/trial.h"

#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORDS 5
#define SLACK_US 10000000 /* a noisy machine */

/* How such a tree ends: what has no objection, by the polite signal alone. */
enum ending { POLITELY, KILLED, EITHER };

struct row {
    const char *command[WORDS];
    double wall; /* seconds it needs to become what it is */
    double grace;
    enum ending ending;
};

static const struct row breaches[] = {
    {{"@setsid_child"}, 0.5, 20, POLITELY},
    {{"@daemon"}, 0.5, 20, POLITELY},
    {{"@stubborn"}, 0.5, 0.3, KILLED},
    {{"@stopped"}, 0.5, 20, POLITELY},
    {{"@stopped", "--leader"}, 0.5, 20, POLITELY},
    {{"@subreaper"}, 0.5, 20, POLITELY},
    {{"@hopper", "8", "1500"}, 0.5, 0.3, EITHER},
    {{"@hopper", "32", "200"}, 0.5, 0.3, EITHER},
    {{"@thread_forker"}, 0.5, 20, POLITELY},
    {{"@zombie_leader"}, 0.5, 20, POLITELY},
    {{"@named", "a b c"}, 0.5, 20, POLITELY},
    {{"@named", "x) Z 1 1 1 (y"}, 0.5, 20, POLITELY},
    {{"@named", "new\nline"}, 0.5, 20, POLITELY},
    {{"@crowd", "1000", "10"}, 2, 20, POLITELY},
    {{"@crowd", "1000", "999"}, 2, 20, POLITELY},
    /* Deep, but not too deep: the kernel takes longer for each fork below a fork. */
    {{"@crowd", "200", "1"}, 2, 20, POLITELY},
};
#define BREACH_COUNT (int)(sizeof(breaches) / sizeof(breaches[0]))

/* Runs it, with a longer wall when the command was not up in time. */
static void run_until_up(struct sbx_trial *trial, double wall, double grace)
{
    char options[128];
    for (int attempt = 0;; attempt++) {
        (void)snprintf(options, sizeof(options), "--wall %.1f --grace %.1f", wall, grace);
        trial->options = options;
        sbx_trial_run(trial);
        trial->options = NULL;
        if (strstr(trial->out, "up ") != NULL) {
            return;
        }
        ck_assert_msg(attempt < 4, "the command was not up within %.1f s; stderr: %s",
                      wall, trial->err);
        sbx_trial_expect_empty(trial);
        sbx_trial_done(trial);
        wall *= 3;
    }
}

START_TEST(nothing_outlives_a_breach)
{
    const struct row *row = &breaches[_i % BREACH_COUNT];
    struct sbx_trial trial = {.command = row->command, .as_nobody = _i >= BREACH_COUNT};
    run_until_up(&trial, row->wall, row->grace);
    sbx_trial_expect(&trial, 124, "breach", "wall");
    sbx_trial_expect_empty(&trial);
    int64_t wall_us = sbx_trial_integer(&trial, "breach.limit");
    ck_assert_int_ge(sbx_trial_integer(&trial, "breach.observed"), wall_us);
    ck_assert_int_ge((int64_t)trial.elapsed_us, wall_us);
    ck_assert_int_lt((int64_t)trial.elapsed_us,
                     wall_us + (int64_t)(row->grace * 1e6) + SLACK_US);
    ck_assert_str_eq(sbx_trial_string(&trial, "termination.signal"), "SIGTERM");
    if (row->ending != EITHER) {
        int64_t killed = sbx_trial_integer(&trial, "termination.killed_count");
        ck_assert_int_eq(sbx_trial_boolean(&trial, "termination.escalated"),
                         row->ending == KILLED);
        ck_assert_msg(row->ending == KILLED ? killed >= 2 : killed == 0,
                      "%lld were killed", (long long)killed);
    }
    sbx_trial_done(&trial);
}
END_TEST

/* A leader that ends by itself; what it leaves is named, as it calls itself. */
static const struct left_row {
    const char *command[WORDS];
    const char *name;
} left_rows[] = {
    {{"@leaver"}, "leaver"},
    {{"@named", "--stray", "a b c"}, "a b c"},
    {{"@named", "--stray", "x) Z 1 1 1 (y"}, "x) Z 1 1 1 (y"},
    {{"@named", "--stray", "new\nline"}, "new\\x0Aline"},
    {{"@named", "--stray", "back\\slash"}, "back\\x5Cslash"},
    {{"@named", "--stray", "\xff\x01"}, "\\xFF\\x01"},
};
#define LEFT_COUNT (int)(sizeof(left_rows) / sizeof(left_rows[0]))

START_TEST(a_stray_is_ended_and_named)
{
    const struct left_row *row = &left_rows[_i % LEFT_COUNT];
    struct sbx_trial trial = {.command = row->command,
                              .as_nobody = _i >= LEFT_COUNT,
                              .options = "--wall 30 --grace 1"};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    sbx_trial_expect_empty(&trial);
    ck_assert_int_eq(sbx_trial_integer(&trial, "exit_code"), 0);
    ck_assert_int_eq(sbx_trial_integer(&trial, "termination.strays_count"), 1);
    ck_assert_str_eq(sbx_trial_string(&trial, "termination.strays.0.name"), row->name);
    char up[32];
    (void)snprintf(up, sizeof(up), "up %d\n",
                   (int)sbx_trial_integer(&trial, "termination.strays.0.pid"));
    ck_assert_str_eq(trial.out, up);
    ck_assert_msg(strncmp(trial.err, "sbx-watch: ", 11) == 0, "stderr: %s", trial.err);
    ck_assert_int_lt((int64_t)trial.elapsed_us, SLACK_US);
    sbx_trial_done(&trial);
}
END_TEST

/* The stopped one gets the polite signal and may act on it, as it is continued. */
static void expect_term_handled(bool leader, bool as_nobody)
{
    const char *const plain[] = {"@stopped", "@/handled", NULL};
    const char *const leading[] = {"@stopped", "--leader", "@/handled", NULL};
    struct sbx_trial trial = {.command = leader ? leading : plain,
                              .as_nobody = as_nobody};
    run_until_up(&trial, 0.5, 10);
    sbx_trial_expect(&trial, 124, "breach", "wall");
    sbx_trial_expect_empty(&trial);
    char path[SBX_FIXTURE_PATH_SIZE];
    ck_assert_msg(access(sbx_trial_path(&trial, path, "handled"), F_OK) == 0,
                  "the stopped process has not had its handler run");
    if (leader) {
        ck_assert_int_eq(sbx_trial_integer(&trial, "exit_code"), 3);
    }
    sbx_trial_done(&trial);
}

START_TEST(a_stopped_process_can_handle_the_signal)
{
    expect_term_handled(_i % 2 == 1, _i >= 2);
}
END_TEST

/* --- the same in a PID namespace -------------------------------------------------- */

/* Made by us, or by a launcher and found. Most rows run side by side: they wait. */
static const struct rung {
    const char *options;
    const char *launcher[8];
} rungs[] = {
    {"--backend proc --pid-namespace", {NULL}},
    {"--backend proc", {"bwrap", "--unshare-pid", "--dev-bind", "/", "/", NULL}},
};
#define RUNG_COUNT (int)(sizeof(rungs) / sizeof(rungs[0]))
#define ROW_WORDS (WORDS + 8)

struct batch {
    struct sbx_trial trials[BREACH_COUNT + LEFT_COUNT];
    char options[BREACH_COUNT + LEFT_COUNT][160];
    const char *commands[BREACH_COUNT + LEFT_COUNT][ROW_WORDS];
};

static bool is_up(const struct sbx_trial *trial)
{
    return strstr(trial->out, "up ") != NULL;
}

static void start_row(struct batch *batch, int i, const struct rung *rung, double wall,
                      bool as_nobody)
{
    bool breach = i < BREACH_COUNT;
    const char *const *words =
        breach ? breaches[i].command : left_rows[i - BREACH_COUNT].command;
    size_t used = 0;
    for (size_t j = 0; rung->launcher[j] != NULL; j++) {
        batch->commands[i][used++] = rung->launcher[j];
    }
    for (size_t j = 0; j < WORDS && words[j] != NULL; j++) {
        batch->commands[i][used++] = words[j];
    }
    batch->commands[i][used] = NULL;
    (void)snprintf(batch->options[i], sizeof(batch->options[i]),
                   "%s --wall %.1f --grace %.1f", rung->options, wall,
                   breach ? breaches[i].grace : 1);
    batch->trials[i] = (struct sbx_trial){.options = batch->options[i],
                                          .command = batch->commands[i],
                                          .as_nobody = as_nobody};
    sbx_trial_start(&batch->trials[i]);
}

static void expect_on_rung(const struct sbx_trial *trial)
{
    sbx_trial_expect_proof(trial);
    ck_assert_str_eq(sbx_trial_string(trial, "containment.tracking"), "pid-namespace");
    ck_assert_str_eq(sbx_trial_string(trial, "termination.proof"), "namespace-gone");
    ck_assert_int_eq(sbx_trial_integer(trial, "termination.survivors_count"), 0);
}

static void expect_breach_row(const struct sbx_trial *trial, const struct row *row)
{
    sbx_trial_expect(trial, 124, "breach", "wall");
    expect_on_rung(trial);
    if (row->ending == KILLED) {
        ck_assert_str_eq(sbx_trial_string(trial, "containment.kill"), "namespace-init");
        ck_assert_int_ge(sbx_trial_integer(trial, "termination.killed_count"), 2);
    } else if (row->ending == POLITELY) {
        ck_assert_msg(!sbx_trial_has(trial, "containment.kill"), "%s was killed",
                      row->command[0]);
    }
}

/* A launcher's own end with its command leaves no stray: its init ends the rest. */
static void expect_left_row(const struct sbx_trial *trial, const struct left_row *row,
                            bool made)
{
    sbx_trial_expect(trial, 0, "exited", NULL);
    sbx_trial_expect_proof(trial);
    if (made) {
        expect_on_rung(trial);
        ck_assert_str_eq(sbx_trial_string(trial, "containment.kill"), "namespace-init");
        ck_assert_int_eq(sbx_trial_integer(trial, "termination.strays_count"), 1);
        ck_assert_str_eq(sbx_trial_string(trial, "termination.strays.0.name"), row->name);
    }
}

static bool has_launcher(const struct rung *rung)
{
    bool works = rung->launcher[0] == NULL ||
                 system("bwrap --unshare-pid --dev-bind / / true 2>/dev/null") == 0;
    (void)sbx_trial_end_children(20); /* its init comes to us */
    if (!works) {
        (void)fprintf(stderr, "SKIPPED: %s runs nothing here\n", rung->launcher[0]);
    }
    return works;
}

/* These want the processor for themselves. */
static bool is_noisy(int i)
{
    return i < BREACH_COUNT && (strcmp(breaches[i].command[0], "@hopper") == 0 ||
                                strcmp(breaches[i].command[0], "@crowd") == 0);
}

/* On a busy machine a launcher may be done so late that no sample shows its namespace. */
static bool was_seen(const struct sbx_trial *trial, int i)
{
    return is_up(trial) &&
           (i >= BREACH_COUNT || strcmp(sbx_trial_string(trial, "containment.tracking"),
                                        "pid-namespace") == 0);
}

/* Waits for it, and looks at all that came of it. */
static void finish_row(struct batch *batch, int i, const struct rung *rung,
                       bool as_nobody)
{
    struct sbx_trial *trial = &batch->trials[i];
    sbx_trial_wait(trial);
    for (double wall = 5; !was_seen(trial, i) && wall < 100; wall *= 3) {
        sbx_trial_done(trial);
        start_row(batch, i, rung, wall, as_nobody);
        sbx_trial_wait(trial);
    }
    ck_assert(is_up(trial));
    if (i < BREACH_COUNT) {
        expect_breach_row(trial, &breaches[i]);
    } else {
        expect_left_row(trial, &left_rows[i - BREACH_COUNT], rung == &rungs[0]);
    }
}

START_TEST(nothing_outlives_a_namespace)
{
    const struct rung *rung = &rungs[_i % RUNG_COUNT];
    bool as_nobody = _i >= RUNG_COUNT;
    bool noisy = getenv("SBX_LONG") != NULL || as_nobody == (rung != &rungs[0]);
    struct batch *batch = calloc(1, sizeof(*batch));
    ck_assert_ptr_nonnull(batch);
    if (!has_launcher(rung)) {
        free(batch);
        return;
    }
    for (int i = 0; i < BREACH_COUNT + LEFT_COUNT; i++) {
        if (!is_noisy(i)) {
            start_row(batch, i, rung, i < BREACH_COUNT ? 1 : 30, as_nobody);
        }
    }
    for (int i = 0; i < BREACH_COUNT + LEFT_COUNT; i++) {
        if (!is_noisy(i)) {
            finish_row(batch, i, rung, as_nobody);
        }
    }
    for (int i = 0; i < BREACH_COUNT + LEFT_COUNT; i++) {
        if (noisy && is_noisy(i)) {
            start_row(batch, i, rung, breaches[i].wall / 2 + 0.3, as_nobody);
            finish_row(batch, i, rung, as_nobody);
        }
    }
    for (int i = 0; i < BREACH_COUNT + LEFT_COUNT; i++) {
        if (noisy || !is_noisy(i)) {
            sbx_trial_expect_empty(&batch->trials[i]);
            sbx_trial_done(&batch->trials[i]);
        }
    }
    free(batch);
}
END_TEST

/* --- the bomb, in a net ---------------------------------------------------------- */

#define NET_TASKS "1800"
#define NET_NAME "sbx-test-net-" /* and the test process */
#define BOMB_SECONDS 15

/* A pids group that holds the bomb whatever it does; empty path: there is none. */
struct net {
    char path[256];
};

/* Where the hierarchy with the pids controller has our own group; else -1. */
static int find_pids_group(char *path, size_t size)
{
    static char text[16 * 1024];
    if (sbx_fd_read_text_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text)) <= 0) {
        return -1;
    }
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char *group = strstr(line, ":pids:/");
        if (group != NULL) {
            (void)snprintf(path, size, "/sys/fs/cgroup/pids%s", group + strlen(":pids:"));
            return 0;
        }
    }
    return -1;
}

static void write_file(const char *directory, const char *name, const char *text)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
    SBX_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
    ck_assert_msg(fd >= 0 && sbx_fd_write_all(fd, text, strlen(text)) == 0, "%s: %s",
                  path, strerror(errno));
}

/* Groups of test processes that failed before they could remove theirs. */
static void remove_stale_nets(const char *own)
{
    SBX_AUTO_CLOSEDIR DIR *directory = opendir(own);
    const struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        if (strncmp(entry->d_name, NET_NAME, strlen(NET_NAME)) != 0) {
            continue;
        }
        pid_t owner = (pid_t)strtol(entry->d_name + strlen(NET_NAME), NULL, 10);
        if (owner > 1 && kill(owner, 0) < 0 && errno == ESRCH) {
            (void)unlinkat(dirfd(directory), entry->d_name, AT_REMOVEDIR);
        }
    }
}

static void make_net(struct net *net)
{
    char own[200];
    net->path[0] = '\0';
    if (geteuid() != 0 || find_pids_group(own, sizeof(own)) < 0) {
        return;
    }
    remove_stale_nets(own);
    (void)snprintf(net->path, sizeof(net->path), "%s/" NET_NAME "%d", own, getpid());
    if (mkdir(net->path, 0755) < 0) {
        net->path[0] = '\0';
        return;
    }
    write_file(net->path, "pids.max", NET_TASKS);
}

static void remove_net(const struct net *net)
{
    if (net->path[0] != '\0') {
        ck_assert_msg(rmdir(net->path) == 0, "%s: %s", net->path, strerror(errno));
    }
}

static void enter_net(const struct sbx_trial *trial)
{
    const struct net *net = trial->context;
    if (net->path[0] != '\0') {
        write_file(net->path, "cgroup.procs", "0");
    }
}

START_TEST(a_bomb_ends_or_is_named)
{
    struct net net;
    make_net(&net);
    /* An ordinary user's monitor gets one share among as many as there are sessions: with
     * 1,500 it does not run before the bomb has ended by itself. */
    const char *count = net.path[0] != '\0' && _i == 0 && getuid() == 0 ? "1500" : "300";
    const char *const command[] = {"@setsid_bomb", count, "15", NULL};
    struct sbx_trial trial = {.command = command,
                              .options = "--wall 2 --grace 1",
                              .as_nobody = _i == 1,
                              .prepare = enter_net,
                              .context = &net};
    sbx_trial_run(&trial);
    ck_assert_msg(strstr(trial.out, "up ") != NULL, "the bomb has not gone off");
    bool survived = sbx_trial_has(&trial, "termination.survivors.0");
    (void)fprintf(stderr,
                  "# bomb of %s as %s: %s after %.2f s in all, %.3f s of them ending\n",
                  count, trial.as_nobody ? "nobody" : "caller",
                  survived ? "survivors named" : "ended", (double)trial.elapsed_us / 1e6,
                  (double)trial.elapsed_us / 1e6 - 2);
    if (survived) {
        sbx_trial_expect(&trial, 125, "breach", "wall");
        ck_assert_str_eq(sbx_trial_string(&trial, "termination.proof"), "none");
        ck_assert_int_gt(sbx_trial_integer(&trial, "termination.survivors_count"), 0);
        (void)sbx_trial_string(&trial, "termination.survivors.0.why");
    } else {
        sbx_trial_expect(&trial, 124, "breach", "wall");
        sbx_trial_expect_empty(&trial);
    }
    (void)sbx_trial_end_children(BOMB_SECONDS + 15);
    remove_net(&net);
    sbx_trial_done(&trial);
}
END_TEST

int main(void)
{
    int identities = sbx_trial_identities();
    Suite *suite = suite_create("survivors");
    TCase *matrix = sbx_fixture_case(suite, "matrix", 120);
    tcase_add_loop_test(matrix, nothing_outlives_a_breach, 0, identities * BREACH_COUNT);
    tcase_add_loop_test(matrix, a_stray_is_ended_and_named, 0, identities * LEFT_COUNT);
    tcase_add_loop_test(matrix, a_stopped_process_can_handle_the_signal, 0,
                        identities * 2);
    TCase *namespaces = sbx_fixture_case(suite, "namespaces", 120);
    tcase_add_loop_test(namespaces, nothing_outlives_a_namespace, 0,
                        identities * RUNG_COUNT);
    TCase *bomb = sbx_fixture_case(suite, "bomb", 120);
    tcase_add_loop_test(bomb, a_bomb_ends_or_is_named, 0, identities);
    return sbx_fixture_run(suite);
}
