/*
 * test_start.c - how the command starts: directory, environment, user, processors, umask,
 * session, privileges, as a small program that prints them finds them.
 *
 * Runs the built program, as root also as an ordinary user. That another user's processes
 * are measured, held and ended like any others is here too. How the values are read is in
 * test_options.c and test_start_values.c, how the steps fail in test_launch_broken.c, the
 * terminal in test_terminal.c.
 */
#include "tests/fixture.h"
#include "tests/trial.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define MIB (1024 * 1024)
#define SECRET "hunter2-of-the-test"

static const char *const print_start[] = {"@print_start", NULL};

static bool is_root(void)
{
    return geteuid() == 0;
}

/* A row's test as root, and again as an ordinary user; or only as the user that we are.
 */
static bool as_nobody(int index, size_t rows)
{
    return (size_t)index >= rows;
}

static void expect_out(const struct sbx_trial *trial, const char *text)
{
    ck_assert_msg(strstr(trial->out, text) != NULL, "no \"%s\" in: %s", text, trial->out);
}

static void write_file(const struct sbx_trial *trial, const char *name, const void *text,
                       size_t length, mode_t mode)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    int fd =
        open(sbx_trial_path(trial, path, name), O_WRONLY | O_CREAT | O_CLOEXEC, mode);
    if (fd < 0 || fchmod(fd, mode) < 0 || sbx_fd_write_all(fd, text, length) < 0 ||
        close(fd) < 0) {
        _exit(1);
    }
}

/* --- without a wish ------------------------------------------------------------------
 */

/* The same program with and without sbx-watch: all that differs is the group. */
START_TEST(without_a_wish_nothing_changes)
{
    const char *const launcher[] = {
        "sh", "-c",           "\"$1\" >\"$2\"; shift 2; umask 0246; exec \"$@\"",
        "sh", "@print_start", "@/plain",
        NULL};
    struct sbx_trial trial = {
        .command = print_start, .launcher = launcher, .as_nobody = _i == 1};
    char path[SBX_FIXTURE_PATH_SIZE];
    char plain[16 * 1024];
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    ssize_t length = sbx_fd_read_text_at(AT_FDCWD, sbx_trial_path(&trial, path, "plain"),
                                         plain, sizeof plain);
    ck_assert_int_gt(length, 0);
    expect_out(&trial, "umask 0246\n");
    expect_out(&trial, "group own\n");
    unsigned lines = 0;
    char *rest = NULL;
    for (char *line = strtok_r(plain, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "umask", 5) != 0 && strncmp(line, "group ", 6) != 0) {
            expect_out(&trial, line);
            lines++;
        }
    }
    ck_assert_uint_ge(lines, 10);
    ck_assert(!sbx_trial_has(&trial, "warnings.0"));
    sbx_trial_done(&trial);
}
END_TEST

/* --- one wish each -------------------------------------------------------------------
 */

static const struct wish_row {
    const char *options;
    const char *says;
} wishes[] = {
    {"--umask 027", "umask 0027\n"},
    {"--umask 0", "umask 0000\n"},
    {"--umask 0777", "umask 0777\n"},
    {"--umask 7 --umask 70", "umask 0070\n"},
    {"--chdir /", "cwd /\n"},
    {"--chdir /usr/./lib/..", "cwd /usr\n"},
    {"--new-session", "session own\ngroup own\ntty no\n"},
    {"--no-new-privs", "no_new_privs 1\n"},
};
#define WISH_COUNT LENGTH(wishes)

START_TEST(a_wish_is_fulfilled)
{
    const struct wish_row *row = &wishes[(size_t)_i % WISH_COUNT];
    struct sbx_trial trial = {.command = print_start,
                              .options = row->options,
                              .as_nobody = as_nobody(_i, WISH_COUNT)};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    expect_out(&trial, row->says);
    sbx_trial_expect_empty(&trial);
    sbx_trial_done(&trial);
}
END_TEST

/* Each processor that we may use, alone; and all of them together. */
START_TEST(processors_are_those_asked_for)
{
    cpu_set_t mine;
    char all[8192] = "--cpus ";
    char says[8192] = "cpus";
    ck_assert_int_eq(sched_getaffinity(0, sizeof mine, &mine), 0);
    for (unsigned cpu = 0, found = 0; cpu < CPU_SETSIZE && found < 64; cpu++) {
        if (!CPU_ISSET(cpu, &mine)) {
            continue;
        }
        char options[32];
        char line[32];
        (void)snprintf(options, sizeof options, "--cpus %u", cpu);
        (void)snprintf(line, sizeof line, "cpus %u\n", cpu);
        (void)snprintf(all + strlen(all), sizeof all - strlen(all), "%s%u",
                       found > 0 ? "," : "", cpu);
        (void)snprintf(says + strlen(says), sizeof says - strlen(says), " %u", cpu);
        if (found++ < 2) {
            struct sbx_trial one = {
                .command = print_start, .options = options, .as_nobody = _i == 1};
            sbx_trial_run(&one);
            sbx_trial_expect(&one, 0, "exited", NULL);
            expect_out(&one, line);
            sbx_trial_done(&one);
        }
    }
    (void)snprintf(says + strlen(says), sizeof says - strlen(says), "\n");
    struct sbx_trial trial = {
        .command = print_start, .options = all, .as_nobody = _i == 1};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    expect_out(&trial, says);
    sbx_trial_done(&trial);
}
END_TEST

static void make_place(const struct sbx_trial *trial)
{
    static const char script[] = "#!/bin/sh\necho \"here $PWD\"\n";
    if (chdir(trial->directory) < 0 || mkdir("place", 0755) < 0) {
        _exit(1);
    }
    write_file(trial, "place/tool", script, sizeof script - 1, 0755);
}

/* A relative command is looked for where it is to run. */
START_TEST(a_relative_directory_is_the_callers)
{
    const char *const command[] = {"./tool", NULL};
    struct sbx_trial trial = {.command = command,
                              .options = "--chdir nowhere --chdir place",
                              .prepare = make_place,
                              .as_nobody = _i == 1};
    char says[SBX_FIXTURE_PATH_SIZE + 16];
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    (void)snprintf(says, sizeof says, "here %s/place\n", trial.directory);
    ck_assert_str_eq(trial.out, says);
    sbx_trial_done(&trial);
}
END_TEST

/* --- refusals ------------------------------------------------------------------------
 */

static const struct refusal_row {
    const char *options;
    const char *stage;
    const char *says;
    bool nobody; /* refused to an ordinary user only */
} refusals[] = {
    {"--chdir @/nowhere", "launch", "working directory: chdir to ", false},
    {"--chdir @/report/x", "launch", "/report/x: no such file or directory (ENOENT)",
     false},
    {"--cpus 8191", "launch", "cpus: CPU 8191 is not there or not allowed", false},
    {"--env-from @/nowhere", "options", "/nowhere': no such file or directory (ENOENT)",
     false},
    {"--env-from /", "options", "option --env-from: '/': is a directory (EISDIR)", false},
    {"--env-from /dev/zero", "options", "'/dev/zero': is larger than 1 MiB", false},
    {"--env =" SECRET, "options", "option --env: the name is empty", false},
    {"--user 4000000000", "options", "uid 4000000000 has no entry in /etc/passwd", false},
    {"--user 0:0", "check", "option --user: to run as 0:0 takes root's CAP_SETUID", true},
    {"--user 65534:0", "launch", "user: becoming 65534:0: set", true},
};
#define REFUSAL_COUNT LENGTH(refusals)

START_TEST(what_cannot_be_had_runs_nothing)
{
    const struct refusal_row *row = &refusals[(size_t)_i % REFUSAL_COUNT];
    bool nobody = as_nobody(_i, REFUSAL_COUNT);
    char path[SBX_FIXTURE_PATH_SIZE];
    const char *const command[] = {"touch", "@/ran", NULL};
    if (row->nobody && !nobody && (is_root() || getuid() != 65534)) {
        return;
    }
    struct sbx_trial trial = {
        .command = command, .options = row->options, .as_nobody = nobody};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 125, "launch-failed", NULL);
    ck_assert_str_eq(sbx_trial_string(&trial, "error.stage"), row->stage);
    const char *message = sbx_trial_string(&trial, "error.message");
    ck_assert_msg(strstr(message, row->says) != NULL, "%s", message);
    ck_assert_ptr_nonnull(strstr(trial.err, row->says));
    ck_assert_ptr_null(strstr(trial.err, SECRET));
    ck_assert_ptr_null(strstr(message, SECRET));
    ck_assert_int_lt(access(sbx_trial_path(&trial, path, "ran"), F_OK), 0);
    sbx_trial_expect_empty(&trial);
    sbx_trial_done(&trial);
}
END_TEST

/* One that is there and one that is not: nothing is quietly made less. */
START_TEST(a_processor_that_is_not_there_is_named)
{
    cpu_set_t mine;
    unsigned cpu = 0;
    char options[64];
    const char *const command[] = {"touch", "@/ran", NULL};
    ck_assert_int_eq(sched_getaffinity(0, sizeof mine, &mine), 0);
    while (!CPU_ISSET(cpu, &mine)) {
        cpu++;
    }
    (void)snprintf(options, sizeof options, "--cpus 8000-8001,%u", cpu);
    struct sbx_trial trial = {.command = command, .options = options};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 125, "launch-failed", NULL);
    ck_assert_ptr_nonnull(strstr(trial.err, "cpus: CPU 8000 is not there"));
    sbx_trial_done(&trial);
}
END_TEST

/* --- the environment -----------------------------------------------------------------
 */

static void prepare_environment(const struct sbx_trial *trial)
{
    static const char lines[] = "# a remark\n\nB=file\nC=\nD=a = b \n"
                                "TOKEN=" SECRET "\nNOT_HERE=file";
    static const char block[] = "E=1\n2\0F=\0";
    write_file(trial, "lines", lines, sizeof lines - 1, 0600);
    write_file(trial, "block", block, sizeof block - 1, 0600);
    if (trial->as_nobody) {
        char path[SBX_FIXTURE_PATH_SIZE];
        (void)!chown(sbx_trial_path(trial, path, "lines"), 65534, 65534);
        (void)!chown(sbx_trial_path(trial, path, "block"), 65534, 65534);
    }
    (void)setenv("A", "caller", 1);
    (void)setenv("B", "caller", 1);
    (void)setenv("Z", SECRET, 1);
    (void)unsetenv("NOT_HERE");
}

/* What the environment is, from the first "env" on. */
static const struct environment_row {
    const char *options;
    const char *environment; /* NULL: only `has` and `lacks` are looked at */
    const char *has;
    const char *lacks;
} environments[] = {
    {"--clear-env", "", NULL, NULL},
    {"--clear-env --env A", "env A=caller\n", NULL, NULL},
    {"--env X=1 --clear-env --env Y=2 --env X=3", "env Y=2\nenv X=3\n", NULL, NULL},
    {"--env A= --clear-env --env-from @/lines --env B --env NOT_HERE",
     "env C=\nenv D=a = b \nenv TOKEN=" SECRET "\nenv A=\nenv B=caller\n", NULL, NULL},
    {"--clear-env --env-from @/block --env F=1", "env E=1\n2\nenv F=1\n", NULL, NULL},
    {"--clear-env --env-from @/block --env-from @/block", "env E=1\n2\nenv F=\n", NULL,
     NULL},
    {"--env B=own=1", NULL, "env B=own=1\n", "env B=caller\n"},
    {"--env B=own", NULL, "env A=caller\n", NULL},
    {"--env-from @/lines", NULL, "env B=file\n", "env B=caller\n"},
    {"--env NOT_HERE", NULL, "env A=caller\n", "NOT_HERE"},
};
#define ENVIRONMENT_COUNT LENGTH(environments)

START_TEST(the_environment_is_what_was_said)
{
    const struct environment_row *row = &environments[(size_t)_i % ENVIRONMENT_COUNT];
    struct sbx_trial trial = {.command = print_start,
                              .options = row->options,
                              .prepare = prepare_environment,
                              .as_nobody = as_nobody(_i, ENVIRONMENT_COUNT)};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    const char *found = strstr(trial.out, "\nenv ");
    if (row->environment != NULL) {
        ck_assert_str_eq(found != NULL ? found + 1 : "", row->environment);
    } else {
        expect_out(&trial, row->has);
        ck_assert(row->lacks == NULL || strstr(trial.out, row->lacks) == NULL);
    }
    char *report = json_dumps(trial.report, 0);
    ck_assert_ptr_nonnull(report);
    ck_assert_ptr_null(strstr(report, SECRET));
    free(report);
    ck_assert_str_eq(trial.err, "");
    bool warned = strstr(row->options, "NOT_HERE") != NULL;
    ck_assert_int_eq(sbx_trial_has(&trial, "warnings.0"), warned);
    if (warned) {
        ck_assert_str_eq(sbx_trial_string(&trial, "warnings.0"),
                         "env NOT_HERE: the caller has none, so the command has none");
    }
    sbx_trial_done(&trial);
}
END_TEST

static void make_tool(const struct sbx_trial *trial)
{
    char variable[SBX_FIXTURE_PATH_SIZE + 16];
    make_place(trial);
    (void)snprintf(variable, sizeof variable, "PATH=%s/place\n", trial->directory);
    write_file(trial, "path", variable, strlen(variable), 0644);
}

START_TEST(the_command_is_looked_up_in_its_own_path)
{
    const char *const command[] = {"tool", NULL};
    struct sbx_trial trial = {.command = command,
                              .options = "--env-from @/path",
                              .prepare = make_tool,
                              .as_nobody = _i == 1};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    ck_assert_msg(strncmp(trial.out, "here ", 5) == 0, "%s", trial.out);
    sbx_trial_done(&trial);
}
END_TEST

/* What every user of the machine can see of our processes. */
START_TEST(values_are_in_no_command_line)
{
    const char *const command[] = {
        "sh", "-c", "echo \"$TOKEN$Z\"; tr '\\0' ' ' </proc/$PPID/cmdline", NULL};
    struct sbx_trial trial = {.command = command,
                              .options = "--env-from @/lines --env Z",
                              .prepare = prepare_environment,
                              .as_nobody = _i == 1};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    ck_assert_int_eq(strncmp(trial.out, SECRET SECRET "\n", strlen(SECRET SECRET) + 1),
                     0);
    const char *line = strchr(trial.out, '\n');
    ck_assert_ptr_nonnull(strstr(line, "--env-from"));
    ck_assert_ptr_null(strstr(line, SECRET));
    sbx_trial_done(&trial);
}
END_TEST

/* --- the user ------------------------------------------------------------------------
 */

static void have_groups(const struct sbx_trial *trial)
{
    static const gid_t groups[] = {1, 4, 27};
    (void)trial;
    if (is_root() && setgroups(LENGTH(groups), groups) < 0) {
        _exit(1);
    }
}

static const struct user_row {
    const char *options;
    const char *says;
    bool anybody; /* who is uid 65534 already */
} users[] = {
    {"--user 65534:65534", "uid 65534 65534 65534\ngid 65534 65534 65534\ngroups\n",
     true},
    {"--user 65534 --new-session",
     "uid 65534 65534 65534\ngid 65534 65534 65534\ngroups\n", true},
    {"--user 4242:99", "uid 4242 4242 4242\ngid 99 99 99\ngroups\n", false},
    {"--user 0:7", "uid 0 0 0\ngid 7 7 7\ngroups\n", false},
    {"--user 0", "uid 0 0 0\ngid 0 0 0\ngroups\n", false},
    {"--user 4242:99 --no-new-privs --umask 5 --chdir /usr", "cwd /usr\numask 0005\n",
     false},
    {"--user 4242:99 --rlimit nofile=20 --rlimit core=0", "uid 4242 4242 4242\n", false},
};
#define USER_COUNT LENGTH(users)

START_TEST(the_command_is_that_user_for_good)
{
    const struct user_row *row = &users[(size_t)_i % USER_COUNT];
    bool nobody = as_nobody(_i, USER_COUNT);
    if ((nobody || !is_root()) && (!row->anybody || (!nobody && getuid() != 65534))) {
        return;
    }
    struct sbx_trial trial = {.command = print_start,
                              .options = row->options,
                              .prepare = have_groups,
                              .as_nobody = nobody,
                              .local_copies = true};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    expect_out(&trial, row->says);
    expect_out(&trial, "group own\n");
    sbx_trial_expect_empty(&trial);
    sbx_trial_done(&trial);
}
END_TEST

static void make_closed(const struct sbx_trial *trial)
{
    if (chdir(trial->directory) < 0 || mkdir("closed", 0700) < 0) {
        _exit(1);
    }
}

/* Whether a directory may be entered is asked of the new user. */
START_TEST(the_directory_is_entered_as_the_user)
{
    struct sbx_trial mine = {.command = print_start,
                             .options = "--chdir closed",
                             .prepare = make_closed,
                             .local_copies = true};
    struct sbx_trial theirs = {.command = print_start,
                               .options = "--chdir closed --user 4242:99",
                               .prepare = make_closed,
                               .local_copies = true};
    if (!is_root()) {
        return;
    }
    sbx_trial_run(&mine);
    sbx_trial_expect(&mine, 0, "exited", NULL);
    sbx_trial_run(&theirs);
    sbx_trial_expect(&theirs, 125, "launch-failed", NULL);
    ck_assert_ptr_nonnull(strstr(theirs.err, "working directory: chdir to closed as uid "
                                             "4242: permission denied (EACCES)"));
    sbx_trial_done(&mine);
    sbx_trial_done(&theirs);
}
END_TEST

/* Root without some of its rights: refused where the command would be out of our reach,
 * or could become root again. */
static const struct rights_row {
    const char *launcher[5];
    const char *stage;
    const char *says;
} rights[] = {
    {{"setpriv", "--bounding-set", "-kill"},
     "check",
     "option --user: to run as 65534:65534 takes root's CAP_KILL, which uid 0 lacks "
     "here"},
    {{"setpriv", "--bounding-set", "-setgid"}, "check", "takes root's CAP_SETGID"},
    {{"setpriv", "--securebits", "+no_setuid_fixup"},
     "launch",
     "user: becoming 65534:65534: the way back to root is open"},
};

START_TEST(a_user_that_is_half_changed_is_refused)
{
    const struct rights_row *row = &rights[_i];
    const char *const command[] = {"touch", "@/ran", NULL};
    char path[SBX_FIXTURE_PATH_SIZE];
    struct sbx_trial trial = {
        .command = command, .launcher = row->launcher, .options = "--user 65534:65534"};
    if (!is_root()) {
        return;
    }
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 125, "launch-failed", NULL);
    ck_assert_str_eq(sbx_trial_string(&trial, "error.stage"), row->stage);
    ck_assert_msg(strstr(trial.err, row->says) != NULL, "%s", trial.err);
    ck_assert_int_lt(access(sbx_trial_path(&trial, path, "ran"), F_OK), 0);
    sbx_trial_done(&trial);
}
END_TEST

/* A user that nobody else in here is: the kernel counts all of its processes. */
static unsigned lonely_uid(void)
{
    return 40000U + (unsigned)getpid() % 20000U;
}

/* Refused for root, and not for what root becomes: there it bites. */
START_TEST(the_ceiling_of_processes_holds_for_the_user)
{
    const char *const command[] = {"@fork_count", "8", NULL};
    char options[64];
    if (!is_root()) {
        return;
    }
    (void)snprintf(options, sizeof options, "--user %u:99 --rlimit nproc=4",
                   lonely_uid());
    struct sbx_trial trial = {
        .command = command, .options = options, .local_copies = true};
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    ck_assert_str_eq(trial.out, "forked 3\n");
    ck_assert_int_eq(sbx_trial_integer(&trial, "ceilings.nproc.soft"), 4);
    sbx_trial_done(&trial);
    trial.options = "--rlimit nproc=4 --user 0:5";
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 125, "launch-failed", NULL);
    ck_assert_ptr_nonnull(
        strstr(trial.err, "ceiling nproc: the kernel does not hold it"));
    sbx_trial_done(&trial);
}
END_TEST

/* The kernel says so at exec, and no clearer than that nothing is to be had. */
START_TEST(a_user_with_too_many_processes_is_told)
{
    const char *const idle[] = {"@trap", NULL};
    const char *const command[] = {"@print_start", NULL};
    char first[64];
    char second[64];
    if (!is_root()) {
        return;
    }
    (void)snprintf(first, sizeof first, "--user %u:99", lonely_uid());
    (void)snprintf(second, sizeof second, "--user %u:99 --rlimit nproc=0", lonely_uid());
    struct sbx_trial one = {.command = idle, .options = first, .local_copies = true};
    struct sbx_trial more = {.command = command, .options = second, .local_copies = true};
    sbx_trial_start(&one);
    sbx_trial_wait_output(&one, "up", 60);
    sbx_trial_run(&more);
    sbx_trial_expect(&more, 126, "launch-failed", NULL);
    ck_assert_ptr_nonnull(
        strstr(more.err, "the user has more processes than nproc allows: resource "
                         "temporarily unavailable (EAGAIN)"));
    ck_assert_int_eq(kill(one.pid, SIGTERM), 0);
    sbx_trial_wait(&one);
    sbx_trial_expect(&one, 128 + SIGTERM, "cancelled", NULL);
    ck_assert_int_eq(sbx_trial_integer(&one, "exit_code"), 42); /* the trap ran */
    sbx_trial_expect_empty(&one);
    sbx_trial_done(&one);
    sbx_trial_done(&more);
}
END_TEST

/* --- another user's processes are supervised like any others --------------------------
 */

#define AS_ANOTHER "--user 65534:65534 "

START_TEST(its_memory_is_measured_and_held)
{
    const char *const command[] = {"@touch", "400", "2", NULL};
    struct sbx_trial trial = {
        .command = command, .options = AS_ANOTHER "--memory 100M", .local_copies = true};
    if (!is_root()) {
        return;
    }
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 124, "breach", "memory");
    sbx_trial_expect_empty(&trial);
    ck_assert_str_eq(sbx_trial_string(&trial, "usage.memory_method"), "pss");
    ck_assert_int_gt(sbx_trial_integer(&trial, "breach.observed"), 100 * MIB);
    ck_assert_int_gt(sbx_trial_integer(&trial, "usage.process_memory_peak_bytes"),
                     10 * MIB);
    sbx_trial_done(&trial);
}
END_TEST

/* Shared memory counts once: that takes the reader's look into its files. */
START_TEST(its_shared_memory_counts_once)
{
    const char *const command[] = {"@share", "60", "4", "300", NULL};
    struct sbx_trial trial = {.command = command,
                              .options = AS_ANOTHER "--memory 150M --wall 30",
                              .local_copies = true};
    if (!is_root()) {
        return;
    }
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    ck_assert_str_eq(sbx_trial_string(&trial, "usage.memory_method"), "pss");
    ck_assert_int_gt(sbx_trial_integer(&trial, "usage.memory_peak_bytes"), 40 * MIB);
    sbx_trial_done(&trial);
}
END_TEST

static const struct cpu_row {
    const char *command[5];
    bool complete;
} cpus[] = {
    {{"@spin", "200", "2"}, true},
    {{"@short_children", "30", "2", "ignored"}, false},
};

START_TEST(its_cpu_is_as_complete_as_any)
{
    const struct cpu_row *row = &cpus[_i];
    struct sbx_trial trial = {
        .command = row->command, .options = AS_ANOTHER "--wall 50", .local_copies = true};
    if (!is_root()) {
        return;
    }
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    bool group = strcmp(sbx_trial_string(&trial, "containment.tracking"), "cgroup2") == 0;
    ck_assert_int_eq(sbx_trial_boolean(&trial, "usage.cpu_complete"),
                     row->complete || group);
    if (row->complete) {
        ck_assert_int_ge(sbx_trial_integer(&trial, "usage.cpu_us"), 390000);
    }
    sbx_trial_done(&trial);
}
END_TEST

static const char *const leavers[][3] = {{"@daemon"}, {"@setsid_child"}, {"@stubborn"}};

/* Sessions of their own, deaf ones: nothing of another user is left either. */
START_TEST(its_tree_is_ended)
{
    struct sbx_trial trial = {.command = leavers[_i],
                              .options = AS_ANOTHER "--wall 0.6 --grace 0.3",
                              .local_copies = true};
    if (!is_root()) {
        return;
    }
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 124, "breach", "wall");
    sbx_trial_expect_empty(&trial);
    ck_assert_int_eq(sbx_trial_integer(&trial, "termination.survivors_count"), 0);
    sbx_trial_done(&trial);
}
END_TEST

/* A pipe of ours belongs to it as one of its own would. */
START_TEST(it_can_open_its_captured_output)
{
    static const char *const command[] = {
        "sh", "-c", "echo one >/dev/stdout && echo two >/dev/stderr", NULL};
    struct sbx_trial trial = {.command = command, .options = AS_ANOTHER "--output 1M"};
    if (!is_root()) {
        return;
    }
    sbx_trial_run(&trial);
    sbx_trial_expect(&trial, 0, "exited", NULL);
    ck_assert_str_eq(trial.out, "one\n");
    ck_assert_str_eq(trial.err, "two\n");
    sbx_trial_done(&trial);
}
END_TEST

static void add_tests(Suite *suite)
{
    int identities = sbx_trial_identities();
    TCase *wish = sbx_fixture_case(suite, "wishes", 120);
    tcase_add_loop_test(wish, without_a_wish_nothing_changes, 0, identities);
    tcase_add_loop_test(wish, a_wish_is_fulfilled, 0, (int)WISH_COUNT * identities);
    tcase_add_loop_test(wish, processors_are_those_asked_for, 0, identities);
    tcase_add_loop_test(wish, a_relative_directory_is_the_callers, 0, identities);
    TCase *refused = sbx_fixture_case(suite, "refusals", 120);
    tcase_add_loop_test(refused, what_cannot_be_had_runs_nothing, 0,
                        (int)REFUSAL_COUNT * identities);
    tcase_add_test(refused, a_processor_that_is_not_there_is_named);
    TCase *environment = sbx_fixture_case(suite, "environment", 120);
    tcase_add_loop_test(environment, the_environment_is_what_was_said, 0,
                        (int)ENVIRONMENT_COUNT * identities);
    tcase_add_loop_test(environment, the_command_is_looked_up_in_its_own_path, 0,
                        identities);
    tcase_add_loop_test(environment, values_are_in_no_command_line, 0, identities);
    TCase *user = sbx_fixture_case(suite, "user", 120);
    tcase_add_loop_test(user, the_command_is_that_user_for_good, 0,
                        (int)USER_COUNT * identities);
    tcase_add_test(user, the_directory_is_entered_as_the_user);
    tcase_add_loop_test(user, a_user_that_is_half_changed_is_refused, 0,
                        (int)LENGTH(rights));
    tcase_add_test(user, the_ceiling_of_processes_holds_for_the_user);
    tcase_add_test(user, a_user_with_too_many_processes_is_told);
    TCase *supervised = sbx_fixture_case(suite, "supervised", 120);
    tcase_add_test(supervised, its_memory_is_measured_and_held);
    tcase_add_test(supervised, its_shared_memory_counts_once);
    tcase_add_loop_test(supervised, its_cpu_is_as_complete_as_any, 0, (int)LENGTH(cpus));
    tcase_add_test(supervised, it_can_open_its_captured_output);
    tcase_add_loop_test(supervised, its_tree_is_ended, 0, (int)LENGTH(leavers));
}

int main(void)
{
    Suite *suite = suite_create("start");
    add_tests(suite);
    return sbx_fixture_run(suite);
}
