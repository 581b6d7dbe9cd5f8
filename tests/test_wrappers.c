/*
 * test_wrappers.c - the polite signal through real launchers: the command's trap runs
 * once, the grace is not cut short, and the status is the command's.
 *
 * One row for each launcher. The command (helpers/trap.c) stays for a while after the
 * first signal, in which a second one would show and an end of the grace would cut it
 * off, says what it got, and exits 42. The rows of a batch run side by side: they mostly
 * wait. A row whose tool or privilege is not there is skipped, says so, and is counted.
 */
#include "tests/fixture.h"
#include "tests/trial.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534
#define WORDS_MAX 16
#define BATCH_MAX 48
#define UP_SECONDS 40
#define STAY_US 290000 /* what the command stays, with room for its clock's */

enum who { BOTH = 0, ROOT, USER };

/* What leader_pid and wrapper_pid say. */
enum named {
    ITSELF = 0, /* leader_pid is the command, and there is no launcher left */
    OUTER,      /* the launcher is the leader: it is one that counts */
    WRAPPED,    /* both are named, the command with its number here (HEIR) or below */
    HEIR,
    ANY, /* as the shell does it: some execute the last command, some do not */
};

struct row {
    const char *words[WORDS_MAX]; /* "%t" and "%l": the helpers trap and launcher */
    enum who who;
    enum named named;
    int gots;  /* how many say that they got it; 0: one */
    bool deaf; /* it ends by SIGKILL, not with 42 */
};

#define ROW(WHO, NAMED, ...)                                                             \
    {                                                                                    \
        .words = {__VA_ARGS__}, .who = (WHO), .named = (NAMED)                           \
    }
#define CROWD_ROW(WHO, NAMED, ...)                                                       \
    {                                                                                    \
        .words = {__VA_ARGS__}, .who = (WHO), .named = (NAMED), .gots = 4                \
    }
#define DEAF_ROW(WHO, NAMED, ...)                                                        \
    {                                                                                    \
        .words = {__VA_ARGS__}, .who = (WHO), .named = (NAMED), .deaf = true             \
    }
#define BWRAP "bwrap", "--dev-bind", "/", "/"
#define COUNT "%t", "--count"
/* TRAP is in the environment. */
#define SCRIPT "\"$TRAP\" --count"
#define WAITING SCRIPT "; exit $?"

static const struct row rows[] = {
    /* These execute the command in their place. */
    ROW(BOTH, ITSELF, COUNT),
    ROW(BOTH, ITSELF, "env", "A=b", COUNT),
    ROW(BOTH, ITSELF, "nice", "-n", "5", COUNT),
    ROW(BOTH, ITSELF, "stdbuf", "-o0", COUNT),
    ROW(BOTH, ITSELF, "ionice", "-c3", COUNT),
    ROW(BOTH, ITSELF, "chrt", "-b", "0", COUNT),
    ROW(BOTH, ITSELF, "setpriv", "--no-new-privs", COUNT),
    ROW(ROOT, ITSELF, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
        COUNT),
    ROW(ROOT, ITSELF, "chroot", "/", COUNT),
    ROW(USER, ITSELF, "unshare", "-r", "chroot", "/", COUNT),
    ROW(BOTH, ITSELF, "sh", "-c", "exec " SCRIPT),
    /* These wait for it, and would die of the signal. */
    ROW(BOTH, ANY, "sh", "-c", SCRIPT),
    ROW(BOTH, HEIR, "sh", "-c", WAITING),
    ROW(BOTH, HEIR, "sh", "-c", "sh -c '" WAITING "'; exit $?"),
    ROW(BOTH, HEIR, "bash", "-c", WAITING),
    ROW(BOTH, HEIR, "setsid", "-w", COUNT),
    ROW(BOTH, HEIR, "flock", "%t", COUNT),
    CROWD_ROW(BOTH, HEIR, "sh", "-c", SCRIPT " 300 3; exit $?"),
    /* This one keeps the signal from itself. */
    ROW(BOTH, OUTER, "sh", "-c", "trap '' TERM; " WAITING),
    /* These would pass it on, or kill. */
    ROW(BOTH, OUTER, "timeout", "50", COUNT),
    ROW(BOTH, OUTER, "timeout", "--foreground", "50", "sh", "-c", "exec " SCRIPT),
    ROW(BOTH, OUTER, "script", "-qec", "exec " SCRIPT, "/dev/null"),
    ROW(ROOT, ANY, "su", "-s", "/bin/sh", "-c", SCRIPT, "nobody"),
    ROW(ROOT, HEIR, "su", "-s", "/bin/sh", "-c", WAITING, "nobody"),
    ROW(ROOT, OUTER, "su", "-c", "exec " SCRIPT " 2500"), /* su would wait for 2 s */
    ROW(ROOT, OUTER, "runuser", "-u", "nobody", "--", COUNT),
    ROW(ROOT, HEIR, "runuser", "-s", "/bin/sh", "-c", WAITING, "nobody"),
    ROW(ROOT, OUTER, "sudo", "-n", "--", COUNT),
    ROW(ROOT, OUTER, "sudo", "-n", "-u", "nobody", "--", COUNT),
    /* These leave a process outside of a namespace. */
    ROW(ROOT, OUTER, "unshare", "-pf", COUNT),
    ROW(ROOT, OUTER, "unshare", "-pf", "--mount-proc", COUNT),
    ROW(ROOT, OUTER, "unshare", "-pf", "--kill-child", COUNT),
    ROW(ROOT, OUTER, "unshare", "-mf", COUNT),
    ROW(ROOT, OUTER, "unshare", "-pf", "sh", "-c", WAITING),
    ROW(USER, OUTER, "unshare", "-Urpf", COUNT),
    ROW(USER, OUTER, "unshare", "-Urpf", "--mount-proc", COUNT),
    ROW(USER, OUTER, "unshare", "-Urpf", "--kill-child", COUNT),
    ROW(BOTH, OUTER, BWRAP, COUNT),
    ROW(BOTH, OUTER, BWRAP, "--die-with-parent", COUNT),
    ROW(BOTH, WRAPPED, BWRAP, "--unshare-pid", COUNT),
    ROW(BOTH, WRAPPED, BWRAP, "--unshare-pid", "--die-with-parent", COUNT),
    ROW(BOTH, WRAPPED, BWRAP, "--unshare-all", "--die-with-parent", "--new-session",
        COUNT),
    ROW(BOTH, OUTER, BWRAP, "--unshare-pid", "--as-pid-1", COUNT),
    ROW(BOTH, OUTER, BWRAP, "--unshare-pid", "--as-pid-1", "--die-with-parent", COUNT),
    CROWD_ROW(BOTH, WRAPPED, BWRAP, "--unshare-all", "--die-with-parent", COUNT, "300",
              "3"),
    /* One in another. */
    ROW(BOTH, WRAPPED, BWRAP, "--unshare-pid", "--die-with-parent", "sh", "-c",
        "exec " SCRIPT),
    ROW(BOTH, WRAPPED, BWRAP, "--unshare-pid", "--die-with-parent", "timeout", "50",
        COUNT),
    ROW(BOTH, OUTER, "sh", "-c",
        "bwrap --dev-bind / / --unshare-pid --as-pid-1 --die-with-parent \"$TRAP\" "
        "--count;"
        "exit $?"),
    ROW(BOTH, WRAPPED, "timeout", "50", BWRAP, "--unshare-pid", "--die-with-parent",
        COUNT),
    ROW(ROOT, WRAPPED, "unshare", "-pf", BWRAP, "--unshare-pid", COUNT),
    ROW(USER, WRAPPED, "unshare", "-Urpf", BWRAP, "--unshare-pid", COUNT),
    ROW(USER, WRAPPED, BWRAP, "--unshare-pid", "unshare", "-Urpf", COUNT),
    /* Its supervisor is nobody's child, and its first process waits on a pipe. */
    ROW(BOTH, OUTER, "%l", COUNT),
    ROW(BOTH, WRAPPED, "%l", "--init", COUNT),
    ROW(BOTH, OUTER, "%l", "--plain", COUNT),
};
#define ROW_COUNT (sizeof rows / sizeof rows[0])

/* A command that does not care is killed when the grace is over, whatever is around it,
 * and a shell that acts on INT itself says so. */
#define DEAF "%t", "--ignore"
static const struct row deaf_rows[] = {
    DEAF_ROW(BOTH, ITSELF, DEAF),
    DEAF_ROW(BOTH, HEIR, "sh", "-c", "\"$TRAP\" --ignore; exit $?"),
    DEAF_ROW(BOTH, OUTER, "timeout", "50", DEAF),
    DEAF_ROW(BOTH, WRAPPED, BWRAP, "--unshare-pid", DEAF),
    DEAF_ROW(BOTH, OUTER, BWRAP, "--unshare-pid", "--as-pid-1", "--die-with-parent",
             DEAF),
};

static const struct row int_rows[] = {
    ROW(BOTH, ITSELF, COUNT),
    ROW(BOTH, ITSELF, "sh", "-c", "exec " SCRIPT),
    ROW(BOTH, HEIR, "setsid", "-w", COUNT),
    ROW(BOTH, OUTER, "timeout", "50", COUNT),
    ROW(BOTH, OUTER, BWRAP, "--die-with-parent", COUNT),
    ROW(BOTH, WRAPPED, BWRAP, "--unshare-pid", "--die-with-parent", COUNT),
    ROW(BOTH, OUTER, BWRAP, "--unshare-pid", "--as-pid-1", "--die-with-parent", COUNT),
    ROW(ROOT, OUTER, "unshare", "-pf", COUNT),
    ROW(USER, OUTER, "unshare", "-Urpf", COUNT),
    ROW(ROOT, OUTER, "su", "-c", "exec " SCRIPT),
    ROW(BOTH, OUTER, "%l", COUNT),
};

/* --- the rows of one batch ---------------------------------------------------------- */

struct runs {
    const struct row *rows[BATCH_MAX];
    const char *words[BATCH_MAX][WORDS_MAX + 1];
    struct sbx_trial trials[BATCH_MAX];
    size_t count;
};

static struct {
    char trap[SBX_FIXTURE_PATH_SIZE];
    char launcher[SBX_FIXTURE_PATH_SIZE];
    bool as_nobody;
    bool root; /* the commands are started by root */
    unsigned skipped;
} setup;

/* The build may lie where an ordinary user cannot go. */
static void copy_helper(const char *name, char path[static SBX_FIXTURE_PATH_SIZE])
{
    char built[SBX_FIXTURE_PATH_SIZE];
    struct stat status;
    SBX_AUTO_CLOSE int from = open(sbx_fixture_helper(built, name), O_RDONLY | O_CLOEXEC);
    (void)sbx_fixture_path(path, name);
    SBX_AUTO_CLOSE int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    ck_assert(from >= 0 && to >= 0 && fstat(from, &status) == 0);
    for (off_t done = 0; done < status.st_size;) {
        ck_assert_int_gt(sendfile(to, from, &done, (size_t)(status.st_size - done)), 0);
    }
    ck_assert_int_eq(fchmod(to, 0755), 0);
}

static void prepare(bool as_nobody)
{
    setup.as_nobody = as_nobody;
    setup.root = geteuid() == 0 && !as_nobody;
    setup.skipped = 0;
    copy_helper("trap", setup.trap);
    copy_helper("launcher", setup.launcher);
    ck_assert_int_eq(setenv("TRAP", setup.trap, 1), 0);
}

static const char *word_for(const char *word, const char *trap)
{
    return strcmp(word, "%t") == 0   ? trap
           : strcmp(word, "%l") == 0 ? setup.launcher
                                     : word;
}

static _Noreturn void try_out(const struct row *row)
{
    const char *words[WORDS_MAX + 1] = {NULL};
    for (size_t i = 0; i < WORDS_MAX && row->words[i] != NULL; i++) {
        words[i] = word_for(row->words[i], "/bin/true");
    }
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 ||
        setenv("TRAP", "/bin/true", 1) != 0 ||
        (setup.as_nobody &&
         (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
          setresuid(NOBODY, NOBODY, NOBODY) < 0))) {
        _exit(1);
    }
    (void)alarm(UP_SECONDS);
    (void)execvp(words[0], (char **)(uintptr_t)words);
    _exit(errno == ENOENT ? 127 : 126);
}

static const char *described(const struct row *row)
{
    static char text[512];
    size_t used = 0;
    for (size_t i = 0; i < WORDS_MAX && row->words[i] != NULL; i++) {
        (void)snprintf(text + used, sizeof text - used, " %s", row->words[i]);
        used += strlen(text + used);
    }
    return text;
}

/* Whether the launcher works here, with a command that ends at once. */
static bool works(const struct row *row)
{
    int status;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        try_out(row);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        return true;
    }
    setup.skipped++;
    bool absent = WIFEXITED(status) && WEXITSTATUS(status) == 127;
    (void)fprintf(stderr, "SKIPPED: as %s:%s: %s\n",
                  setup.root ? "root" : "an ordinary user", described(row),
                  absent ? "not found" : "it runs nothing here");
    return false;
}

static void add_row(struct runs *runs, const struct row *row)
{
    ck_assert_uint_lt(runs->count, BATCH_MAX);
    const char **words = runs->words[runs->count];
    for (size_t i = 0; i < WORDS_MAX && row->words[i] != NULL; i++) {
        words[i] = word_for(row->words[i], setup.trap);
    }
    runs->rows[runs->count] = row;
    runs->trials[runs->count++].command = words;
}

static struct runs *choose_rows(const struct row *table, size_t count)
{
    struct runs *runs = calloc(1, sizeof *runs);
    ck_assert_ptr_nonnull(runs);
    for (size_t i = 0; i < count; i++) {
        bool ours = table[i].who != (setup.root ? USER : ROOT);
        if (ours && works(&table[i])) {
            add_row(runs, &table[i]);
        }
    }
    return runs;
}

static void launch_rows(struct runs *runs, const char *options)
{
    for (size_t i = 0; i < runs->count; i++) {
        struct sbx_trial *trial = &runs->trials[i];
        trial->options = options;
        trial->as_nobody = setup.as_nobody;
        sbx_trial_start(trial);
    }
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++) {
        count++;
    }
    return count;
}

static size_t gots_of(const struct row *row)
{
    return row->gots == 0 ? 1U : (size_t)row->gots;
}

/* All of the command's processes are up. */
static void wait_up(const struct runs *runs)
{
    for (size_t i = 0; i < runs->count; i++) {
        char path[SBX_FIXTURE_PATH_SIZE];
        char out[1024] = "";
        uint64_t end = sbx_clock_us() + UP_SECONDS * SBX_US_PER_S;
        (void)sbx_trial_path(&runs->trials[i], path, "out");
        while (count_of(out, "up ") < gots_of(runs->rows[i])) {
            ck_assert_msg(sbx_clock_us() < end, "%s does not start",
                          described(runs->rows[i]));
            (void)sbx_fd_read_text_at(AT_FDCWD, path, out, sizeof out);
            (void)poll(NULL, 0, 2);
        }
    }
}

/* --- what is expected of each ------------------------------------------------------- */

static void expect_names(const struct row *row, const struct sbx_trial *trial)
{
    const char *line = strstr(trial->out, "up ");
    ck_assert_ptr_nonnull(line);
    int64_t own = strtol(line + 3, NULL, 10);
    int64_t leader = sbx_trial_integer(trial, "leader_pid");
    bool wrapped = sbx_trial_has(trial, "wrapper_pid");
    if (row->named == ITSELF || row->named == OUTER) {
        ck_assert_msg(!wrapped, "%s: wrapper_pid is there", described(row));
        ck_assert_msg((leader == own) == (row->named == ITSELF), "%s: leader_pid",
                      described(row));
    } else if (row->named != ANY) {
        ck_assert_msg(wrapped && leader != sbx_trial_integer(trial, "wrapper_pid"),
                      "%s: wrapper_pid", described(row));
        /* with several processes it is the parent, and may not be the first to speak */
        ck_assert_msg(row->named != HEIR || row->gots > 1 || leader == own,
                      "%s: leader_pid", described(row));
    }
}

static void expect_deaf(const struct row *row, const struct sbx_trial *trial)
{
    /* A launcher outside of the command says in its own way that it was killed. */
    bool own = row->named == ITSELF || row->named == HEIR;
    if (own || sbx_trial_has(trial, "signal")) {
        ck_assert_str_eq(sbx_trial_string(trial, "signal"), "SIGKILL");
    } else {
        ck_assert_int_eq(sbx_trial_integer(trial, "exit_code"), 128 + SIGKILL);
    }
    ck_assert(sbx_trial_boolean(trial, "termination.escalated"));
    ck_assert_msg(count_of(trial->out, "term\n") == 1, "%s: %s", described(row),
                  trial->out);
    ck_assert_int_ge(sbx_trial_integer(trial, "termination.duration_us"), 400000);
}

static void expect_heard(const struct row *row, const struct sbx_trial *trial)
{
    ck_assert_msg(sbx_trial_has(trial, "exit_code") &&
                      sbx_trial_integer(trial, "exit_code") == 42,
                  "%s: not 42", described(row));
    ck_assert_msg(count_of(trial->out, "got 1 ") == gots_of(row) &&
                      count_of(trial->out, "got ") == gots_of(row),
                  "%s: %s", described(row), trial->out);
    ck_assert_int_ge(sbx_trial_integer(trial, "termination.duration_us"), STAY_US);
    /* An init may have to put away what its namespace has left. */
    bool inside = row->named == WRAPPED || row->named == OUTER;
    ck_assert(inside || !sbx_trial_boolean(trial, "termination.escalated"));
}

static void expect_rows(struct runs *runs, const char *outcome, int status,
                        const char *reason)
{
    for (size_t i = 0; i < runs->count; i++) {
        sbx_trial_wait(&runs->trials[i]);
    }
    for (size_t i = 0; i < runs->count; i++) {
        const struct row *row = runs->rows[i];
        struct sbx_trial *trial = &runs->trials[i];
        sbx_trial_expect(trial, status, outcome, reason);
        sbx_trial_expect_empty(trial);
        expect_names(row, trial);
        if (row->deaf) {
            expect_deaf(row, trial);
        } else {
            expect_heard(row, trial);
        }
        sbx_trial_done(trial);
    }
    ck_assert_msg(runs->count > 0, "nothing was tried");
    if (setup.skipped > 0) {
        (void)fprintf(stderr, "SKIPPED: %u rows in all\n", setup.skipped);
    }
    free(runs);
}

static void cancel_rows(const struct row *table, size_t count, const char *options)
{
    struct runs *runs = choose_rows(table, count);
    (void)sbx_trial_end_children(20); /* inits of launchers that were tried out */
    launch_rows(runs, options);
    wait_up(runs);
    for (size_t i = 0; i < runs->count; i++) {
        ck_assert_int_eq(kill(runs->trials[i].pid, SIGTERM), 0);
    }
    expect_rows(runs, "cancelled", 128 + SIGTERM, NULL);
}

/* --- tests -------------------------------------------------------------------------- */

/* Loops: as who we are, and as nobody where we can. */
START_TEST(a_cancelled_command_has_its_say)
{
    prepare(_i == 1);
    cancel_rows(rows, ROW_COUNT, "--wall 50 --grace 20");
}
END_TEST

START_TEST(so_it_has_with_another_signal)
{
    prepare(_i == 1);
    cancel_rows(int_rows, sizeof int_rows / sizeof int_rows[0],
                "--wall 50 --grace 20 --signal INT");
}
END_TEST

START_TEST(who_does_not_listen_is_killed)
{
    prepare(_i == 1);
    cancel_rows(deaf_rows, sizeof deaf_rows / sizeof deaf_rows[0],
                "--wall 50 --grace 0.5");
}
END_TEST

/* The same at a deadline, and the status is passed on. As the deadline comes by itself,
 * few at a time: they have to be up by then. */
START_TEST(a_breach_passes_the_status_on)
{
    static const struct row few[] = {
        ROW(BOTH, ITSELF, "env", "A=b", COUNT),
        ROW(BOTH, HEIR, "sh", "-c", WAITING),
        ROW(BOTH, OUTER, "timeout", "50", COUNT),
        ROW(ROOT, HEIR, "su", "-s", "/bin/sh", "-c", WAITING, "nobody"),
        ROW(ROOT, OUTER, "unshare", "-pf", COUNT),
        ROW(USER, OUTER, "unshare", "-Urpf", COUNT),
        ROW(BOTH, WRAPPED, BWRAP, "--unshare-pid", "--die-with-parent", COUNT),
        ROW(BOTH, OUTER, BWRAP, "--unshare-pid", "--as-pid-1", "--die-with-parent",
            COUNT),
        ROW(BOTH, OUTER, "%l", COUNT),
    };
    prepare(_i == 1);
    struct runs *runs = choose_rows(few, sizeof few / sizeof few[0]);
    (void)sbx_trial_end_children(20);
    launch_rows(runs, "--wall 3 --grace 10 --preserve-status");
    expect_rows(runs, "breach", 42, "wall");
}
END_TEST

/* A shell that is not told would go on to the next command of its script. (The init of a
 * namespace cannot be told, unless it catches the signal.) */
START_TEST(nothing_new_is_begun)
{
#define TWO SCRIPT "; echo next"
    static const struct row scripts[] = {
        ROW(BOTH, ANY, "sh", "-c", TWO),
        ROW(BOTH, ANY, "sh", "-c",
            "trap 'exit 42' TERM; sh -c '" SCRIPT "; exit $?'; echo next"),
        ROW(BOTH, ANY, "timeout", "50", "sh", "-c", TWO),
        ROW(BOTH, ANY, "setsid", "-w", "sh", "-c", TWO),
        ROW(ROOT, ANY, "su", "-s", "/bin/sh", "-c", TWO, "nobody"),
        ROW(BOTH, ANY, BWRAP, "sh", "-c", TWO),
        ROW(BOTH, ANY, BWRAP, "--unshare-pid", "sh", "-c", TWO),
        ROW(BOTH, ANY, BWRAP, "--unshare-pid", "--die-with-parent", "sh", "-c", TWO),
        ROW(BOTH, ANY, "%l", "--plain", "sh", "-c", TWO),
    };
    prepare(_i == 1);
    struct runs *runs = choose_rows(scripts, sizeof scripts / sizeof scripts[0]);
    (void)sbx_trial_end_children(20);
    launch_rows(runs, "--wall 50 --grace 20");
    wait_up(runs);
    for (size_t i = 0; i < runs->count; i++) {
        ck_assert_int_eq(kill(runs->trials[i].pid, SIGTERM), 0);
    }
    for (size_t i = 0; i < runs->count; i++) {
        sbx_trial_wait(&runs->trials[i]);
    }
    for (size_t i = 0; i < runs->count; i++) {
        struct sbx_trial *trial = &runs->trials[i];
        sbx_trial_expect(trial, 128 + SIGTERM, "cancelled", NULL);
        sbx_trial_expect_empty(trial);
        ck_assert_msg(strstr(trial->out, "next") == NULL, "%s: %s",
                      described(runs->rows[i]), trial->out);
        sbx_trial_done(trial);
    }
    ck_assert_uint_gt(runs->count, 0);
    free(runs);
}
END_TEST

/* Waits for a child of `pid`, and returns it. */
static pid_t child_of(pid_t pid)
{
    char path[64];
    char text[64] = "";
    uint64_t end = sbx_clock_us() + UP_SECONDS * SBX_US_PER_S;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    while (strchr(text, ' ') == NULL) {
        ck_assert_msg(sbx_clock_us() < end, "unshare starts nothing");
        (void)sbx_fd_read_text_at(AT_FDCWD, path, text, sizeof text);
        (void)poll(NULL, 0, 2);
    }
    return (pid_t)strtol(text, NULL, 10);
}

/* Into a PID namespace that is not of the run: nsenter waits outside, and the command is
 * no init there. */
START_TEST(a_command_in_a_foreign_namespace_has_its_say)
{
    prepare(false);
    const char *how = setup.root ? "-pf" : "-Urpf";
    const struct row made = {.words = {"unshare", how, "%t"}};
    if (!works(&made)) {
        return;
    }
    pid_t outside = fork();
    ck_assert_int_ge(outside, 0);
    if (outside == 0) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        (void)dup2(null, STDOUT_FILENO);
        (void)execlp("unshare", "unshare", how, setup.trap, "--ignore", NULL);
        _exit(1);
    }
    char target[16];
    pid_t init = child_of(outside);
    (void)snprintf(target, sizeof target, "%d", init);
    const struct row as_root = {.words = {"nsenter", "-t", target, "-p", COUNT},
                                .named = OUTER};
    const struct row as_user = {
        .words = {"nsenter", "-t", target, "-U", "--preserve-credentials", "-p", COUNT},
        .named = OUTER};
    struct runs *runs = choose_rows(setup.root ? &as_root : &as_user, 1);
    launch_rows(runs, "--wall 50 --grace 20");
    wait_up(runs);
    for (size_t i = 0; i < runs->count; i++) {
        ck_assert_int_eq(kill(runs->trials[i].pid, SIGTERM), 0);
        sbx_trial_wait(&runs->trials[i]);
    }
    ck_assert_int_eq(kill(init, SIGKILL), 0); /* our grandchild: its parent waits */
    ck_assert_int_eq(waitpid(outside, NULL, 0), outside);
    for (size_t i = 0; i < runs->count; i++) {
        struct sbx_trial *trial = &runs->trials[i];
        sbx_trial_expect(trial, 128 + SIGTERM, "cancelled", NULL);
        sbx_trial_expect_empty(trial);
        expect_names(runs->rows[i], trial);
        expect_heard(runs->rows[i], trial);
        sbx_trial_done(trial);
    }
    free(runs);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wrappers");
    TCase *tcase = sbx_fixture_case(suite, "wrappers", 120);
    int identities = sbx_trial_identities();
    tcase_add_loop_test(tcase, a_cancelled_command_has_its_say, 0, identities);
    tcase_add_loop_test(tcase, so_it_has_with_another_signal, 0, identities);
    tcase_add_loop_test(tcase, who_does_not_listen_is_killed, 0, identities);
    tcase_add_loop_test(tcase, a_breach_passes_the_status_on, 0, identities);
    tcase_add_loop_test(tcase, nothing_new_is_begun, 0, identities);
    tcase_add_test(tcase, a_command_in_a_foreign_namespace_has_its_say);
    return sbx_fixture_run(suite);
}
