/*
 * run_kit.h - tests of the built sbx-run from outside: scenes in tables, each played for
 * every identity that a sandbox may be made with.
 *
 * A scene is data: what is prepared, the options, what runs inside, and what has to come
 * of it. It is played in a fresh directory $D with a workspace $W (D/work), which is the
 * working directory. Scripts are for sh, words are sh's words; unquoted variables are not
 * split. They find
 *
 *   $W $D   as above                  $H      copies of the helper programs
 *   $RUN $WATCH  the built programs   $BW     the bubblewrap of this identity
 *   $R      a report's path           $MARK   in the arguments of what runs inside
 *   $ME     number of user and group
 *
 * Held for every scene, without a word in the table: it ends in time, nothing that has
 * its mark is alive afterwards, and in $D nothing has come, gone or changed but what
 * `leaves` names. A scene that ends with 125, without launcher, says why in one line on
 * standard error, unless its `err` is "*".
 */
#ifndef SBX_TESTS_RUN_KIT_H
#define SBX_TESTS_RUN_KIT_H

#include "tests/fixture.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Who starts sbx-run, and which bubblewrap it uses. */
enum sbx_identity {
    SBX_AS_ROOT = 0, /* root; bubblewrap as it is installed */
    SBX_AS_USER,     /* uid 65534, or the user who runs the tests */
    SBX_AS_SETUID,   /* uid 65533, with a copy of bubblewrap that is setuid root */
    SBX_IDENTITY_COUNT
};
#define SBX_ROOT (1U << SBX_AS_ROOT)
#define SBX_USER (1U << SBX_AS_USER)
#define SBX_SETUID (1U << SBX_AS_SETUID)
#define SBX_PLAIN (SBX_ROOT | SBX_USER) /* a bubblewrap that is not setuid */

struct sbx_scene {
    const char *name;
    unsigned who; /* bits as above; 0: everybody */
    const char
        *needs; /* a script: unless it succeeds the scene is skipped, and says so */

    /* What is prepared. */
    const char *stage;  /* as root, in a mount namespace of its own and the directory that
                           will be its root: that has usr, etc, dev, proc, the links for
                           a merged usr, and empty tmp, home, root, var, run and opt */
    const char *before; /* as the identity, in $W */

    /* One command line: SETTING exec LAUNCHER sbx-run OPTIONS -- sh -c INSIDE $MARK */
    const char *setting;  /* "exec 9<secret;" */
    const char *launcher; /* words: "$WATCH --report $R --" */
    const char *options;
    const char *inside;  /* a script; NULL: "echo ran" */
    const char *command; /* words, in place of sh -c INSIDE $MARK */
    const char *after;   /* as the identity, when all has ended */

    /* What has to come of it. Here and in `inside` %W %D %H stand for the paths, %U for
     * the number of the user (and group). */
    int status;
    int signal;         /* that it ends by, in place of a status */
    const char *out;    /* exactly; NULL: nothing; "*": anything */
    const char *err;    /* pieces of it, with | between; NULL: nothing; "*": anything */
    const char *leaves; /* names below $W: new or changed; "-NAME" gone; "*" anything */
    const char *never;  /* a text that neither of them has */
    const char *report; /* PATH=VALUE words that $R has */
};

/* One scene under way. */
struct sbx_play {
    const struct sbx_scene *scene;
    enum sbx_identity identity;
    int stdio[3];     /* 0: /dev/null and files; else a descriptor */
    bool on_terminal; /* it leads a session, whose terminal its descriptor 0 is */

    char directory[SBX_FIXTURE_PATH_SIZE]; /* $D */
    char mark[64];
    char user[16];
    pid_t pid;
    int pidfd;
    int wait_status;
    double deadline;
    char *out;
    char *err;
    void *listing; /* what was in $D */
    char
        *complaint; /* what is wrong with it, for all to be told at once; NULL: nothing */
};

/* Whether this identity can be had here; if not it says why, once in each test. */
bool sbx_kit_identity(enum sbx_identity identity);

/* Plays all of them, some side by side, and fails the test with everything that was not
 * as it should be. */
void sbx_scenes_play(const struct sbx_scene *scenes, size_t count,
                     enum sbx_identity identity);

/* The steps of that, for who has something to do meanwhile. start returns false when the
 * scene is skipped. finish waits, looks at everything, and fails the test on a complaint.
 * done frees what the play has allocated. */
bool sbx_play_start(struct sbx_play *play);
void sbx_play_finish(struct sbx_play *play);
void sbx_play_done(struct sbx_play *play);

/* Waits until its standard output holds that text; fails the test else. */
void sbx_play_wait_output(const struct sbx_play *play, const char *text, double seconds);

/* "DIRECTORY/NAME" of a play, in a buffer of the caller's. */
const char *sbx_play_path(const struct sbx_play *play,
                          char buffer[static SBX_FIXTURE_PATH_SIZE], const char *name);

/* Whether a process lives that has that text in its arguments; its pid, or 0. */
pid_t sbx_kit_marked(const char *mark);

/* Waits until none does; fails the test after `seconds`. */
void sbx_kit_wait_unmarked(const char *mark, double seconds);

/* Reaps all of our children until there are none; fails the test after `seconds`. For who
 * was killed, whose children become ours. */
void sbx_kit_reap(double seconds);

/* A child of the test as that identity. */
pid_t sbx_kit_fork_as(enum sbx_identity identity);

/* The path of a copy of a helper, where every identity can go. */
const char *sbx_kit_helper(char buffer[static SBX_FIXTURE_PATH_SIZE], const char *name);

#endif
