/*
 * test_run_work.c - sbx-watch around sbx-run: limits hold for what is confined, as a
 * whole and without the wrapper's own processes, ends are told as they were; and a
 * workload such as an agent's, from the clone of a repository to the daemons that its
 * tests leave behind.
 *
 * As root, as an ordinary user, and with a setuid bubblewrap.
 */
#include "tests/run_kit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS 120.0
#define UP_SECONDS 20.0
#define WATCHED(OPTIONS) .launcher = "$WATCH --report $R " OPTIONS " --"
#define INSIDE_H "--ro-bind $H "

/* Two that stay, each of two processes; when it goes on they are there. */
#define DAEMONS(WORD)                                                                    \
    "setsid sh -c 'sleep 60 & : >/tmp/a; wait' " WORD " >/dev/null 2>&1 & "              \
    "sh -c '(sleep 60 & : >/tmp/b; wait) & exit' " WORD " >/dev/null 2>&1; "             \
    "until [ -e /tmp/a ] && [ -e /tmp/b ]; do sleep 0.02; done;"

/* --- limits and ends ---------------------------------------------------------------- */

static const struct sbx_scene watched[] = {
    {.name = "nothing much",
     WATCHED(""),
     .inside = "exit 0",
     .report = "outcome=exited exit_code=0 termination.strays_count=0 "
               "termination.survivors_count=0"},
    {.name = "as many processes as are allowed",
     WATCHED("--processes 4 --interval 20ms"),
     .inside = "for i in 1 2 3; do sleep 1.2 & done; wait; echo ran",
     .out = "ran\n",
     .report = "outcome=exited exit_code=0 usage.processes_peak=4"},
    {.name = "one more",
     WATCHED("--processes 4 --interval 20ms"),
     .inside = "for i in 1 2 3 4; do sleep 30 & done; wait; echo ran",
     .status = 124,
     .err = "processes",
     .report = "outcome=breach breach.reason=processes breach.limit=4 breach.observed=5 "
               "termination.survivors_count=0"},
    {.name = "a command alone is one process",
     WATCHED("--processes 1 --interval 20ms"),
     .command = "sleep 1",
     .report = "outcome=exited exit_code=0 usage.processes_peak=1"},
    {.name = "memory",
     WATCHED("--memory 60M --interval 20ms"),
     .options = INSIDE_H,
     .inside = "%H/touch 100 4",
     .status = 124,
     .out = "*",
     .err = "memory",
     .report = "outcome=breach breach.reason=memory"},
    {.name = "processor time",
     WATCHED("--cpu 200ms --interval 20ms"),
     .options = INSIDE_H,
     .inside = "%H/spin 30000 2",
     .status = 124,
     .out = "*",
     .err = "cpu",
     .report = "outcome=breach breach.reason=cpu"},
    {.name = "time",
     WATCHED("--wall 300ms"),
     .inside = "exec sleep 60",
     .status = 124,
     .err = "wall",
     .report = "outcome=breach breach.reason=wall signal=SIGTERM "
               "termination.survivors_count=0"},
    /* At any moment of the start the signal finds who keeps it for the command. */
    {.name = "time, at once",
     WATCHED("--wall 1ms"),
     .inside = "exec sleep 60",
     .status = 124,
     .err = "wall",
     .report = "outcome=breach breach.reason=wall signal=SIGTERM "
               "termination.survivors_count=0"},
    {.name = "time, soon",
     WATCHED("--wall 6ms"),
     .inside = "exec sleep 60",
     .status = 124,
     .err = "wall",
     .report = "outcome=breach breach.reason=wall signal=SIGTERM "
               "termination.survivors_count=0"},
    {.name = "time, a little later",
     WATCHED("--wall 15ms"),
     .inside = "exec sleep 60",
     .status = 124,
     .err = "wall",
     .report = "outcome=breach breach.reason=wall signal=SIGTERM "
               "termination.survivors_count=0"},
    {.name = "output, and who does not care",
     WATCHED("--output 1K --grace 200ms"),
     .inside = "trap '' TERM; (trap '' TERM; sleep 60; :) & head -c 3000 /dev/zero; "
               "sleep 60; :",
     .status = 124,
     .out = "*",
     .err = "output",
     .report = "outcome=breach breach.reason=output signal=SIGKILL "
               "termination.escalated=true termination.survivors_count=0"},
    {.name = "output, and who cleans up",
     WATCHED("--output 1K"),
     .inside =
         "trap 'exit 42' TERM; head -c 3000 /dev/zero; while :; do sleep 0.02; done",
     .status = 124,
     .out = "*",
     .err = "*",
     .report = "outcome=breach breach.reason=output exit_code=42"},
    {.name = "output",
     WATCHED("--output 1K"),
     .inside = "while :; do echo 0123456789; done",
     .status = 124,
     .out = "*",
     .err = "output",
     .report = "outcome=breach breach.reason=output"},
    {.name = "a ceiling",
     WATCHED(""),
     .options = "--rlimit fsize=4K",
     .inside = "exec head -c 9000 /dev/zero >/tmp/f",
     .status = 128 + SIGXFSZ,
     .report = "outcome=signaled signal=SIGXFSZ"},
    {.name = "a code",
     WATCHED(""),
     .inside = "exit 42",
     .status = 42,
     .report = "outcome=exited exit_code=42"},
    {.name = "a signal",
     WATCHED(""),
     .inside = "kill -SEGV $$",
     .status = 128 + SIGSEGV,
     .report = "outcome=signaled signal=SIGSEGV"},
    {.name = "a code that looks like a signal",
     WATCHED(""),
     .inside = "exit 139",
     .status = 139,
     .report = "outcome=exited exit_code=139"},
    {.name = "a sandbox that cannot be",
     WATCHED(""),
     .options = "--bind $W/none",
     .status = 125,
     .err = "sbx-run: ",
     .report = "outcome=exited exit_code=125"},
    {.name = "what is left behind",
     WATCHED("--interval 20ms"),
     .inside = DAEMONS("\"$0\"") " exit 3",
     .status = 3,
     .err = "strays",
     .report = "outcome=exited exit_code=3 termination.strays_count=4 "
               "termination.survivors_count=0"},
};

START_TEST(test_watched)
{
    enum sbx_identity identity = (enum sbx_identity)_i;
    if (sbx_kit_identity(identity)) {
        sbx_scenes_play(watched, sizeof(watched) / sizeof(watched[0]), identity);
    }
}
END_TEST

/* --- cancels ------------------------------------------------------------------------ */

START_TEST(test_cancelled)
{
    static const struct sbx_scene scenes[] = {
        {.name = "cancelled, with a trap",
         WATCHED(""),
         .inside = "trap 'echo trapped; exit 42' TERM; echo up; "
                   "while :; do sleep 0.02; done",
         .status = 128 + SIGTERM,
         .out = "up\ntrapped\n",
         .err = "*",
         .report = "outcome=cancelled exit_code=42 termination.escalated=false"},
        {.name = "cancelled, with a slow trap that is told once",
         WATCHED("--grace 20s"),
         .options = INSIDE_H,
         .command = "\"$H/trap\" --count",
         .status = 128 + SIGTERM,
         .out = "*",
         .report = "outcome=cancelled exit_code=42 termination.escalated=false"},
        {.name = "cancelled, by default",
         WATCHED(""),
         .inside = "echo up; exec sleep 60",
         .status = 128 + SIGTERM,
         .out = "up\n",
         .report = "outcome=cancelled signal=SIGTERM"},
    };
    enum sbx_identity identity = (enum sbx_identity)_i;
    if (!sbx_kit_identity(identity)) {
        return;
    }
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
        struct sbx_play play = {.scene = &scenes[i], .identity = identity};
        ck_assert(sbx_play_start(&play));
        sbx_play_wait_output(&play, "up", UP_SECONDS);
        ck_assert_int_eq(kill(play.pid, SIGTERM), 0);
        sbx_play_finish(&play);
        ck_assert_msg(i != 1 || strstr(play.out, "got 1 ") != NULL,
                      "the command was not told once: %s", play.out);
        sbx_play_done(&play);
    }
}
END_TEST

/* --- a workload --------------------------------------------------------------------- */

#define REPOSITORY                                                                       \
    "mkdir ../repo; cd ../repo; export HOME=\"$D/none\" GIT_CONFIG_NOSYSTEM=1; "         \
    "git init -q .; git config user.email a@b; git config user.name a; "                 \
    "printf '#include <stdio.h>\\nint main(void) { puts(\"works\"); return 0; }\\n' "    \
    ">prog.c; "                                                                          \
    "printf 'prog: prog.c\\n\\t$(CC) -o $@ prog.c\\ntest: prog\\n\\t./prog\\n"           \
    "\\tsh ./daemons\\n' >Makefile; "                                                    \
    "cat >daemons <<'END'\n" DAEMONS("\"$MARK\"") "\nEND\n"                              \
                                                  "git add .; git commit -q -m work"

static const struct sbx_scene work[] = {
    {.name = "an agent's work",
     .needs = "command -v git && command -v make && command -v cc",
     .before = REPOSITORY,
     WATCHED("--wall 60s --memory 2G --processes 60 --interval 20ms"),
     .options = "--ro-bind $D/repo --bind $W --chdir $W --network none --env HOME=/tmp "
                "--env MARK --rlimit core=0 --rlimit nofile=256",
     .inside = "git clone -q %D/repo src && cd src && make -s prog && make -s test && "
               "touch %D/repo/new 2>/dev/null; git log --oneline | wc -l",
     .out = "works\n1\n",
     .err = "strays",
     .leaves = "*",
     .report = "outcome=exited exit_code=0 termination.strays_count=4 "
               "termination.survivors_count=0",
     .after =
         "[ \"$(ls -A)\" = src ]; [ \"$(ls -A src | tr '\\n' ' ')\" = "
         "'.git Makefile daemons prog prog.c ' ]; [ \"$(src/prog)\" = works ]; "
         "[ -z \"$(find . -size 0 -type f ! -path './src/.git/*')\" ]; "
         "[ \"$(ls -A ../repo | tr '\\n' ' ')\" = '.git Makefile daemons prog.c ' ]; "
         "[ \"$(ls -A .. | tr '\\n' ' ')\" = 'err out repo report work ' ]"},
};

START_TEST(test_work)
{
    enum sbx_identity identity = (enum sbx_identity)_i;
    if (sbx_kit_identity(identity)) {
        sbx_scenes_play(work, sizeof(work) / sizeof(work[0]), identity);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run_work");
    TCase *tcase = sbx_fixture_case(suite, "work", SECONDS);
    tcase_add_loop_test(tcase, test_watched, 0, SBX_IDENTITY_COUNT);
    tcase_add_loop_test(tcase, test_cancelled, 0, SBX_IDENTITY_COUNT);
    tcase_add_loop_test(tcase, test_work, 0, SBX_IDENTITY_COUNT);
    return sbx_fixture_run(suite);
}
