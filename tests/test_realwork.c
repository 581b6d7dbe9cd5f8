/*
 * test_realwork.c - real programs under the built sbx-watch: a parallel build of this
 * project, a Python multiprocessing pool, stress-ng.
 *
 * They do what they do without it: the same status, the same output, the same files. And
 * the numbers of the report are those of others: time(1), which runs inside and waits for
 * the same processes, and the kernel's PSS as the pool has read it. What is not installed
 * is skipped visibly.
 */
#include "tests/fixture.h"
#include "tests/net.h"
#include "tests/trial.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS 24
#define US_PER_S 1000000
#define SOURCE SBX_TEST_DATA "/../.."

static bool is_there(const char *program)
{
    if (access(program, X_OK) == 0) {
        return true;
    }
    (void)fprintf(stderr, "# SKIP: no %s\n", program);
    return false;
}

/* Without sbx-watch; output to a file. Its exit status. */
static int run_bare(const char *const *command, const char *output)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        char *argv[WORDS + 1] = {NULL};
        for (size_t i = 0; i < WORDS && command[i] != NULL; i++) {
            argv[i] = strdup(command[i]);
        }
        int fd = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        if (fd >= 0 && dup2(fd, STDOUT_FILENO) >= 0 && dup2(fd, STDERR_FILENO) >= 0) {
            (void)execvp(argv[0], argv);
        }
        _exit(99);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static char *read_all(const char *path)
{
    struct stat status;
    SBX_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_msg(fd >= 0 && fstat(fd, &status) == 0, "%s: %s", path, strerror(errno));
    char *text = calloc(1, (size_t)status.st_size + 1);
    ck_assert_ptr_nonnull(text);
    ck_assert_int_eq(read(fd, text, (size_t)status.st_size), status.st_size);
    return text;
}

/* --- against time(1) -------------------------------------------------------------------
 */

struct timed {
    int64_t memory_bytes;
    int64_t cpu_us;
};

/* What `time -f '%M %U %S'` has written, last line. */
static struct timed read_timed(const struct sbx_trial *trial)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    SBX_AUTO_FREE char *text = read_all(sbx_trial_path(trial, path, "timed"));
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == '\n') {
        text[--length] = '\0';
    }
    const char *line = strrchr(text, '\n');
    char *rest = NULL;
    long long kib = strtoll(line != NULL ? line + 1 : text, &rest, 10);
    double user = strtod(rest, &rest);
    double system = strtod(rest, &rest);
    ck_assert_msg(kib > 0 && *rest == '\0', "time says: %s", text);
    return (struct timed){kib * 1024, (int64_t)((user + system) * US_PER_S)};
}

/* Within 10 %, and what time(1) cuts off. */
static void expect_close(const char *what, int64_t ours, int64_t theirs, int64_t cut)
{
    (void)fprintf(stderr, "#   %s: %lld, time says %lld (%.3f)\n", what, (long long)ours,
                  (long long)theirs, (double)ours / (double)theirs);
    ck_assert_msg(ours > theirs * 9 / 10 - cut && ours < theirs * 11 / 10 + cut,
                  "%s: %lld instead of %lld", what, (long long)ours, (long long)theirs);
}

static void expect_timed(const struct sbx_trial *trial)
{
    struct timed timed = read_timed(trial);
    expect_close("largest process, bytes",
                 sbx_trial_integer(trial, "usage.process_memory_peak_bytes"),
                 timed.memory_bytes, 0);
    expect_close("cpu, us", sbx_trial_integer(trial, "usage.cpu_us"), timed.cpu_us,
                 20000);
    ck_assert(sbx_trial_boolean(trial, "usage.cpu_complete"));
}

/* --- a build
 * ---------------------------------------------------------------------------- */

static void configure(const char *build)
{
    char output[SBX_FIXTURE_PATH_SIZE];
    const char *const command[] = {"cmake",
                                   "-S",
                                   SOURCE,
                                   "-B",
                                   build,
                                   "-G",
                                   "Unix Makefiles",
                                   "-DSBX_TESTS=OFF",
                                   "-DCMAKE_BUILD_TYPE=None",
                                   "-DCMAKE_C_FLAGS=-O0",
                                   NULL};
    (void)snprintf(output, sizeof(output), "%.500s.log", build);
    ck_assert_msg(run_bare(command, output) == 0, "cmake: see %s", output);
}

static void expect_same_file(const char *a, const char *b)
{
    char output[SBX_FIXTURE_PATH_SIZE];
    const char *const command[] = {"cmp", a, b, NULL};
    ck_assert_msg(run_bare(command, sbx_fixture_path(output, "cmp")) == 0,
                  "%s and %s differ", a, b);
}

START_TEST(a_parallel_build_is_as_ever)
{
    char bare[SBX_FIXTURE_PATH_SIZE];
    char watched[SBX_FIXTURE_PATH_SIZE];
    char output[SBX_FIXTURE_PATH_SIZE];
    char made[2][SBX_FIXTURE_PATH_SIZE + 16];
    if (!is_there("/usr/bin/time") || !is_there("/usr/bin/cmake") ||
        !is_there("/usr/bin/make")) {
        return;
    }
    configure(sbx_fixture_path(bare, "bare"));
    configure(sbx_fixture_path(watched, "watched"));
    const char *const plain[] = {"make", "-C", bare, "-j4", "sbx_static", NULL};
    ck_assert_int_eq(run_bare(plain, sbx_fixture_path(output, "output")), 0);
    const char *const command[] = {"/usr/bin/time", "-o",         "@/timed", "-f",
                                   "%M %U %S",      "make",       "-C",      watched,
                                   "-j4",           "sbx_static", NULL};
    struct sbx_trial trial = {
        .command = command,
        .options =
            "--wall 200 --cpu 200 --memory 4G --processes 100 --rlimit nofile=1024",
        .seconds = 220};
    sbx_trial_run(&trial);
    (void)fprintf(stderr, "# a parallel build of this project:\n");
    sbx_trial_expect(&trial, 0, "exited", NULL);
    sbx_trial_expect_empty(&trial);
    expect_timed(&trial);
    int64_t most = sbx_trial_integer(&trial, "usage.processes_peak");
    ck_assert_msg(most >= 5 && most <= 40, "%lld processes", (long long)most);
    ck_assert_int_ge(sbx_trial_integer(&trial, "usage.memory_peak_bytes"),
                     sbx_trial_integer(&trial, "usage.process_memory_peak_bytes") / 2);
    (void)snprintf(made[0], sizeof(made[0]), "%s/libsbx.a", bare);
    (void)snprintf(made[1], sizeof(made[1]), "%s/libsbx.a", watched);
    expect_same_file(made[0], made[1]);
    sbx_trial_done(&trial);
}
END_TEST

/* A build that fails fails in the same way. */
START_TEST(a_failing_build_fails)
{
    char makefile[SBX_FIXTURE_PATH_SIZE];
    if (!is_there("/usr/bin/make")) {
        return;
    }
    FILE *file = fopen(sbx_fixture_path(makefile, "makefile"), "we");
    ck_assert_ptr_nonnull(file);
    (void)fputs("all: a b\na b:\n\t@sleep 0.1; test $@ = a\n", file);
    ck_assert_int_eq(fclose(file), 0);
    const char *const command[] = {"make", "-j2", "-k", "-f", makefile, NULL};
    struct sbx_trial trial = {.command = command, .options = "--wall 60"};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 2, "exited", NULL);
    sbx_trial_expect_empty(&trial);
    sbx_trial_done(&trial);
}
END_TEST

/* --- a pool
 * ------------------------------------------------------------------------------ */

START_TEST(a_pool_is_measured_as_the_kernel_does)
{
    char output[SBX_FIXTURE_PATH_SIZE];
    char truth[SBX_FIXTURE_PATH_SIZE];
    if (!is_there("/usr/bin/python3") || !is_there("/usr/bin/time")) {
        return;
    }
    (void)sbx_fixture_path(truth, "truth");
    const char *const plain[] = {"/usr/bin/python3", SBX_TEST_DATA "/pool.py", truth,
                                 NULL};
    ck_assert_int_eq(run_bare(plain, sbx_fixture_path(output, "output")), 3);
    const char *const command[] = {"/usr/bin/time",    "-o", "@/timed", "-f", "%M %U %S",
                                   "/usr/bin/python3", "-",  "@/truth", NULL};
    /* Open already: the source may lie where an ordinary user cannot go. */
    SBX_AUTO_CLOSE int pool = open(SBX_TEST_DATA "/pool.py", O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(pool, 0);
    struct sbx_trial trial = {.command = command,
                              .as_nobody = _i == 1,
                              .stdio = {pool, 0, 0},
                              .options =
                                  "--wall 100 --memory 1G --processes 20 --cpu 60"};
    sbx_trial_run(&trial);
    (void)fprintf(stderr, "# a pool of Python:\n");
    sbx_trial_expect(&trial, 3, "exited", NULL);
    sbx_trial_expect_empty(&trial);
    SBX_AUTO_FREE char *before = read_all(output);
    ck_assert_str_eq(trial.out, before);
    expect_timed(&trial);
    SBX_AUTO_FREE char *text = read_all(sbx_trial_path(&trial, truth, "truth"));
    int64_t held = strtoll(text, NULL, 10);
    int64_t peak = sbx_trial_integer(&trial, "usage.memory_peak_bytes");
    double ratio = (double)peak / (double)held;
    (void)fprintf(stderr, "#   memory: %lld, the pool says %lld (%.3f)\n",
                  (long long)peak, (long long)held, ratio);
    ck_assert_msg(ratio > 0.9 && ratio < 1.15, "%lld bytes instead of %lld",
                  (long long)peak, (long long)held);
    ck_assert_int_eq(sbx_trial_integer(&trial, "usage.processes_peak"), 6); /* and time */
    sbx_trial_done(&trial);
}
END_TEST

/* --- stress-ng
 * ---------------------------------------------------------------------------- */

#define STRESS "/usr/bin/stress-ng"
#define LATE_US (12 * US_PER_S) /* they would go on for 30 s */

/* Stressors of stress-ng, bounded in time and number by themselves too. */
static const struct stress_row {
    const char *options;
    const char *stressor[7];
    int status;
    const char *outcome;
    const char *reason;
    bool timed; /* time(1) runs inside and waits for all */
} stress_rows[] = {
    {"--wall 60 --cpu 60", {"--cpu", "2", "--timeout", "1"}, 0, "exited", NULL, true},
    {"--wall 60 --memory 2G",
     {"--vm", "2", "--vm-bytes", "256M", "--vm-keep", "--timeout", "1"},
     0,
     "exited",
     NULL,
     true},
    {"--wall 60 --memory 150M",
     {"--vm", "2", "--vm-bytes", "1G", "--vm-keep", "--timeout", "30"},
     124,
     "breach",
     "memory",
     false},
    {"--cpu 1", {"--cpu", "2", "--timeout", "30"}, 124, "breach", "cpu", false},
    {"--wall 1 --grace 0.5",
     {"--fork", "4", "--fork-max", "8", "--timeout", "30"},
     124,
     "breach",
     "wall",
     false},
    {"--wall 1 --grace 0.5",
     {"--zombie", "2", "--zombie-max", "64", "--timeout", "30"},
     124,
     "breach",
     "wall",
     false},
    {"--wall 1 --grace 0.5",
     {"--daemon", "2", "--timeout", "30"},
     124,
     "breach",
     "wall",
     false},
    {"--wall 1 --grace 0.5",
     {"--pthread", "2", "--pthread-max", "64", "--timeout", "30"},
     124,
     "breach",
     "wall",
     false},
    /* A crowd that yields the processor all the time: the deadline holds all the same. */
    {"--wall 1.5 --grace 0.2",
     {"--sem", "40", "--timeout", "30"},
     124,
     "breach",
     "wall",
     false},
    {"--wall 60 --processes 30",
     {"--sem", "40", "--timeout", "30"},
     124,
     "breach",
     "processes",
     false},
};
#define STRESS_COUNT (int)(sizeof(stress_rows) / sizeof(stress_rows[0]))

static void enter_net(const struct sbx_trial *trial)
{
    sbx_net_enter(trial->context);
}

START_TEST(stress_is_borne)
{
    const struct stress_row *row = &stress_rows[_i % STRESS_COUNT];
    const char *words[WORDS] = {"/usr/bin/time", "-o", "@/timed", "-f", "%M %U %S"};
    size_t count = row->timed ? 5 : 0;
    if (!is_there(STRESS) || !is_there("/usr/bin/time")) {
        return;
    }
    words[count++] = STRESS;
    words[count++] = "--temp-path";
    words[count++] = "@/.";
    for (size_t i = 0; i < 7 && row->stressor[i] != NULL; i++) {
        words[count++] = row->stressor[i];
    }
    struct sbx_net net;
    (void)sbx_net_make(&net, 2000);
    struct sbx_trial trial = {.command = words,
                              .options = row->options,
                              .as_nobody = _i >= STRESS_COUNT,
                              .prepare = enter_net,
                              .context = &net};
    sbx_trial_run(&trial);
    (void)fprintf(stderr, "# stress-ng %s: %s\n", row->stressor[0], row->outcome);
    sbx_trial_expect(&trial, row->status, row->outcome, row->reason);
    sbx_trial_expect_empty(&trial);
    if (row->timed) {
        expect_timed(&trial);
    }
    if (row->reason != NULL) {
        ck_assert_msg(trial.elapsed_us < LATE_US, "it took %.1f s to end",
                      (double)trial.elapsed_us / US_PER_S);
    }
    ck_assert(sbx_net_remove(&net));
    sbx_trial_done(&trial);
}
END_TEST

int main(void)
{
    int identities = sbx_trial_identities();
    Suite *suite = suite_create("realwork");
    TCase *builds = sbx_fixture_case(suite, "builds", 280);
    tcase_add_test(builds, a_parallel_build_is_as_ever);
    tcase_add_test(builds, a_failing_build_fails);
    TCase *programs = sbx_fixture_case(suite, "programs", 120);
    tcase_add_loop_test(programs, a_pool_is_measured_as_the_kernel_does, 0, identities);
    tcase_add_loop_test(programs, stress_is_borne, 0, identities * STRESS_COUNT);
    return sbx_fixture_run(suite);
}
