/*
 * test_run_end.c - how a confined command ends, and how it does not even start: exit
 * status and signals, and all that stands in the way of a sandbox.
 *
 * Tables of scenes (run_kit.h), each played as root, as an ordinary user, and with a
 * setuid bubblewrap.
 */
#include "base/fd.h"
#include "tests/run_kit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECONDS 120.0
#define INSIDE_H "--ro-bind $H"

/* --- the end ------------------------------------------------------------------------ */

#define CODE(code)                                                                       \
    {                                                                                    \
        .name = "exit " #code, .inside = "exit " #code, .status = (code), .err = "*"     \
    }
#define SIGNAL(word)                                                                     \
    {                                                                                    \
        .name = "SIG" #word, .inside = "kill -" #word " $$", .signal = SIG##word         \
    }

static const struct sbx_scene ends[] = {
    CODE(0),
    CODE(1),
    CODE(42),
    CODE(124),
    CODE(125),
    CODE(126),
    CODE(127),
    CODE(128),
    CODE(137),
    CODE(139),
    CODE(255),
    SIGNAL(SEGV),
    SIGNAL(KILL),
    SIGNAL(TERM),
    SIGNAL(INT),
    SIGNAL(ABRT),
    SIGNAL(HUP),
    SIGNAL(USR1),
    SIGNAL(PIPE),
    {.name = "a signal of what the command waits for is its own affair",
     .inside = "sh -c 'kill -SEGV $$' 2>/dev/null; echo $?",
     .out = "139\n"},
    {.name = "no such command",
     .command = "sbx-no-such-command",
     .status = 127,
     .err = "sbx-run: |sbx-no-such-command"},
    {.name = "no such path",
     .command = "/usr/none",
     .status = 127,
     .err = "sbx-run: |/usr/none"},
    {.name = "not in the PATH that it is given",
     .options = "--env PATH=/none",
     .command = "ls",
     .status = 127,
     .err = "sbx-run: |ls"},
    {.name = "not executable",
     .before = "echo x >f",
     .options = "--bind $W",
     .command = "\"$W/f\"",
     .status = 126,
     .err = "sbx-run: |%W/f"},
    {.name = "a script that names no interpreter",
     .before = "echo echo ran >f; chmod 755 f",
     .options = "--bind $W",
     .command = "\"$W/f\"",
     .out = "ran\n"},
    {.name = "a command on a way that is not inside",
     .before = "mkdir a b; printf '#!/bin/sh\\necho ran\\n' >b/tool; chmod 755 b/tool",
     .command = "\"$W/a/../b/tool\"",
     .out = "ran\n"},
    {.name = "a command where the caller is, who is not inside",
     .before = "printf '#!/bin/sh\\necho ran\\n' >tool; chmod 755 tool",
     .command = "./tool",
     .status = 125,
     .err = "sbx-run: |./tool|--ro-bind ."},
    {.name = "installed in some other place",
     .before = "mkdir -p p/bin p/libexec/sbx; cp \"$RUN\" p/bin; "
               "cp \"$SBX_INNER\" p/libexec/sbx",
     .setting = "env -u SBX_INNER \"$W/p/bin/sbx-run\" --plan -- true | "
                "sed 's/.*\"inner\":\"//; s/\".*//'; RUN=$W/p/bin/sbx-run; "
                "unset SBX_INNER;",
     .out = "%W/p/libexec/sbx/sbx-inner\nran\n"},
    {.name = "a broken program",
     .before = "printf '\\177ELF\\0\\0\\0' >f; chmod 755 f",
     .options = "--bind $W",
     .command = "\"$W/f\"",
     .status = 126,
     .err = "sbx-run: |%W/f"},
    {.name = "a directory as command",
     .command = "/usr",
     .status = 126,
     .err = "sbx-run: |/usr"},
    {.name = "a script without its interpreter",
     .before = "echo '#!/none' >f; chmod 755 f",
     .options = "--bind $W",
     .command = "\"$W/f\"",
     .status = 126,
     .err = "sbx-run: |%W/f|/none"},
    {.name = "many arguments",
     .needs = "command -v xargs && command -v seq && echo | xargs -s 1000000 -n 30000",
     .before = "seq 20000 >list",
     .launcher = "xargs -a list -s 1000000 -n 30000",
     .command = "sh -c 'echo $#' x",
     .err = "*", /* the list may be its standard input */
     .out = "20000\n"},
    {.name = "nothing to run", .command = "", .status = 125, .err = "command"},
    {.name = "an empty name", .command = "''", .status = 127, .err = "sbx-run: "},
    {.name = "no such option",
     .options = "--no-such-option",
     .status = 125,
     .err = "--no-such-option"},
    {.name = "an option of sbx-watch",
     .options = "--wall 3",
     .status = 125,
     .err = "unknown option --wall|sbx-watch's"},
    {.name = "an option of sbx-run, for sbx-watch",
     .launcher = "$WATCH --network none --",
     .status = 125,
     .err = "unknown option --network|sbx-run's"},
    {.name = "an option without value",
     .setting = "exec \"$RUN\" --bind;",
     .status = 125,
     .err = "--bind"},
    {.name = "a flag with a value",
     .options = "--proc=1",
     .status = 125,
     .err = "--proc"},
};

/* --- what stands in the way --------------------------------------------------------- */

#define FAKE(VERSION, REST)                                                              \
    "printf '#!/bin/sh\\n[ \"$1\" != --version ] || { echo " VERSION "; exit 0; }\\n"    \
    "%s\\n' '" REST "' >fake; chmod 755 fake"
#define OFF                                                                              \
    "unshare -Ur sh -c 'echo 0 >/proc/sys/user/max_user_namespaces; exec \"$@\"' sh"

static const struct sbx_scene obstacles[] = {
    {.name = "bubblewrap is missing",
     .options = "--bwrap $W/none",
     .status = 125,
     .err = "--bwrap|%W/none"},
    {.name = "bubblewrap is not in PATH",
     .setting = "PATH=/none; exec \"$RUN\" -- /bin/echo ran;",
     .status = 125,
     .err = "bubblewrap|--bwrap"},
    {.name = "bubblewrap is a directory",
     .options = "--bwrap $W",
     .status = 125,
     .err = "%W"},
    {.name = "bubblewrap cannot be executed",
     .before = "echo x >f",
     .options = "--bwrap $W/f",
     .status = 125,
     .err = "%W/f"},
    {.name = "bubblewrap is too old",
     .before = FAKE("bubblewrap 0.4.1", "echo bwrap: Unknown option >&2; exit 1"),
     .options = "--bwrap $W/fake",
     .status = 125,
     .err = "0.4.1|0.8"},
    {.name = "bubblewrap has no version",
     .before = FAKE("hello", "exit 0"),
     .options = "--bwrap $W/fake",
     .status = 125,
     .err = "%W/fake"},
    {.name = "bubblewrap says why it fails",
     .before = FAKE("bubblewrap 0.8.0", "echo bwrap: no luck today >&2; exit 1"),
     .options = "--bwrap $W/fake",
     .status = 125,
     .err = "no luck today"},
    {.name = "bubblewrap says nothing and succeeds",
     .before = FAKE("bubblewrap 0.8.0", "exit 0"),
     .options = "--bwrap $W/fake",
     .status = 125,
     .err = "sbx-run: "},
    {.name = "bubblewrap is killed",
     .before = FAKE("bubblewrap 0.8.0", "kill -KILL $$"),
     .options = "--bwrap $W/fake",
     .status = 125,
     .err = "bubblewrap was ended by SIGKILL"},
    {.name = "bubblewrap is killed, and leaves one that waits",
     .before = "mkfifo fifo; " FAKE("bubblewrap 0.8.0",
                                    "(sh -c \"echo \\$PPID\" >pid; read x <fifo) & "
                                    "while [ ! -s pid ]; do :; done; kill -KILL $$"),
     .options = "--bwrap $W/fake",
     .status = 125,
     .err = "bubblewrap was ended by SIGKILL",
     .leaves = "pid",
     .after = "[ -s pid ] && ! kill -0 $(cat pid) 2>/dev/null"},
    {.name = "bubblewrap has a newer version",
     .who = SBX_PLAIN,
     .before = "printf '#!/bin/sh\\n[ \"$1\" != --version ] || "
               "{ echo bubblewrap 1.10.2; exit 0; }\\nexec %s \"$@\"\\n' \"$BW\" >fake; "
               "chmod 755 fake",
     .options = "--bwrap $W/fake",
     .out = "ran\n"},
    {.name = "no user namespaces",
     .needs = "unshare -Ur true",
     .launcher = OFF,
     .status = 125,
     .err = "sbx-run: |max_user_namespaces"},
    {.name = "no user namespaces, as JSON or not", /* a plan needs none */
     .needs = "unshare -Ur true",
     .launcher = OFF,
     .options = "--plan",
     .out = "*",
     .err = "*"},
    {.name = "a directory that is gone",
     .before = "mkdir d",
     .setting = "cd d; rmdir ../d;",
     .out = "ran\n",
     .leaves = "-d"},
    {.name = "files of no size", .setting = "ulimit -f 0;", .status = 125, .err = "*"},
    {.name = "few descriptors",
     .setting = "ulimit -n 8;",
     .status = 125,
     .err = "EMFILE"},
    {.name = "a sandbox in a sandbox",
     .options = INSIDE_H " --env SBX_INNER --proc",
     .inside = "%H/sbx-run -- echo ran",
     .status = 125,
     .err = "sbx-run: |namespace"},
    {.name = "a procfs is refused",
     .stage = "mount --bind /dev/null proc/version",
     .options = "--proc",
     .status = 125,
     .err = "proc"},
    {.name = "without it there is no obstacle",
     .stage = "mount --bind /dev/null proc/version",
     .out = "ran\n"},
};

#define PLAY(name)                                                                       \
    START_TEST(test_##name)                                                              \
    {                                                                                    \
        enum sbx_identity identity = (enum sbx_identity)_i;                              \
        if (sbx_kit_identity(identity)) {                                                \
            sbx_scenes_play(name, sizeof(name) / sizeof((name)[0]), identity);           \
        }                                                                                \
    }                                                                                    \
    END_TEST

PLAY(ends)
PLAY(obstacles)

/* --- signals ------------------------------------------------------------------------ */

static void expect_passed_on(enum sbx_identity identity, int signal_number,
                             const char *word)
{
    char inside[256];
    char out[64];
    (void)snprintf(inside, sizeof(inside),
                   "trap 'echo %s; exit 42' %s; echo up; while :; do sleep 0.02; done",
                   word, word);
    (void)snprintf(out, sizeof(out), "up\n%s\n", word);
    const struct sbx_scene scene = {
        .name = word, .inside = inside, .status = 42, .out = out, .err = "*"};
    struct sbx_play play = {.scene = &scene, .identity = identity};
    ck_assert(sbx_play_start(&play));
    sbx_play_wait_output(&play, "up", 20);
    ck_assert_int_eq(kill(play.pid, signal_number), 0);
    sbx_play_finish(&play);
    sbx_play_done(&play);
}

START_TEST(test_signals)
{
    enum sbx_identity identity = (enum sbx_identity)_i;
    if (sbx_kit_identity(identity)) {
        expect_passed_on(identity, SIGTERM, "TERM");
        expect_passed_on(identity, SIGINT, "INT");
        expect_passed_on(identity, SIGUSR1, "USR1");
    }
}
END_TEST

/* One that does not care for it ends by it. */
START_TEST(test_signal_by_default)
{
    static const struct sbx_scene scene = {.name = "TERM by default",
                                           .inside = "echo up; exec sleep 60",
                                           .signal = SIGTERM,
                                           .out = "up\n"};
    enum sbx_identity identity = (enum sbx_identity)_i;
    if (!sbx_kit_identity(identity)) {
        return;
    }
    struct sbx_play play = {.scene = &scene, .identity = identity};
    ck_assert(sbx_play_start(&play));
    sbx_play_wait_output(&play, "up", 20);
    ck_assert_int_eq(kill(play.pid, SIGTERM), 0);
    sbx_play_finish(&play);
    sbx_play_done(&play);
}
END_TEST

static char state_of(pid_t pid)
{
    char path[64];
    char text[1024] = "";
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    (void)sbx_fd_read_text_at(AT_FDCWD, path, text, sizeof(text));
    const char *end = strrchr(text, ')');
    return end != NULL && end[1] == ' ' ? end[2] : '?';
}

/* The terminal's stop: the shell must see that its job has stopped, the command with it.
 */
START_TEST(test_stopped)
{
    static const struct sbx_scene scene = {
        .name = "stopped and continued",
        .options = "--bind $W",
        .inside = "echo up; until [ -e %W/go ]; do sleep 0.02; done; echo done",
        .out = "up\ndone\n",
        .err = "*",
        .leaves = "go",
    };
    enum sbx_identity identity = (enum sbx_identity)_i;
    if (!sbx_kit_identity(identity)) {
        return;
    }
    char path[SBX_FIXTURE_PATH_SIZE];
    struct sbx_play play = {.scene = &scene, .identity = identity};
    ck_assert(sbx_play_start(&play));
    sbx_play_wait_output(&play, "up", 20);
    ck_assert_int_eq(kill(play.pid, SIGTSTP), 0);
    int status = 0;
    ck_assert_int_eq(waitpid(play.pid, &status, WUNTRACED), play.pid);
    ck_assert(WIFSTOPPED(status) && state_of(play.pid) == 'T');
    SBX_AUTO_CLOSE int go =
        open(sbx_play_path(&play, path, "work/go"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ck_assert_int_ge(go, 0);
    sbx_fd_drop(&go);
    ck_assert_int_eq(kill(play.pid, SIGCONT), 0);
    sbx_play_finish(&play);
    sbx_play_done(&play);
}
END_TEST

/* A signal that comes while the sandbox is being made is not lost. */
START_TEST(test_early_signal)
{
    static const struct sbx_scene scene = {
        .name = "TERM while it starts", .inside = "exec sleep 60", .signal = SIGTERM};
    enum sbx_identity identity = (enum sbx_identity)_i;
    for (long i = 0; i < 6 && sbx_kit_identity(identity); i++) {
        const struct timespec time = {0, i * i * 1000000};
        struct sbx_play play = {.scene = &scene, .identity = identity};
        ck_assert(sbx_play_start(&play));
        (void)nanosleep(&time, NULL);
        ck_assert_int_eq(kill(play.pid, SIGTERM), 0);
        sbx_play_finish(&play);
        sbx_play_done(&play);
        sbx_kit_reap(20); /* one that was asked for its version */
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run_end");
    TCase *tcase = sbx_fixture_case(suite, "end", SECONDS);
    tcase_add_loop_test(tcase, test_ends, 0, SBX_IDENTITY_COUNT);
    tcase_add_loop_test(tcase, test_obstacles, 0, SBX_IDENTITY_COUNT);
    tcase_add_loop_test(tcase, test_signals, 0, SBX_IDENTITY_COUNT);
    tcase_add_loop_test(tcase, test_signal_by_default, 0, SBX_IDENTITY_COUNT);
    tcase_add_loop_test(tcase, test_stopped, 0, SBX_IDENTITY_COUNT);
    tcase_add_loop_test(tcase, test_early_signal, 0, SBX_IDENTITY_COUNT);
    return sbx_fixture_run(suite);
}
