/*
 * trial.h - a harness for tests that run the built sbx-watch and look at all that came
 * of it.
 *
 * A zeroed struct with `command` set is a plain run. Each run has a directory of its own
 * below the test's; standard output and error go to files there, the report too. Words of
 * `options`, `command` and `launcher` that begin with "@" are replaced: "@NAME" is the
 * built helper of that name, "@/NAME" a file in the run's directory. Every function fails
 * the test when something goes wrong that is not the matter of the test.
 *
 * The test process is a subreaper, so that what sbx-watch leaves behind becomes its
 * child: when the kernel then says that it has none, that is proof.
 */
#ifndef SBX_TESTS_TRIAL_H
#define SBX_TESTS_TRIAL_H

#include "tests/fixture.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SBX_TRIAL_CLOSED (-1)
#define SBX_TRIAL_TEXT_SIZE (64UL * 1024)

struct sbx_trial {
    /* What to do. */
    const char *options;         /* words separated by blanks; NULL: none */
    const char *const *command;  /* NULL-terminated */
    const char *const *launcher; /* comes first: "sh", "-c", "exec \"$@\"", "sh" */
    bool as_nobody;              /* as uid and gid 65534: needs root */
    bool local_copies;           /* helpers lie where any user can go */
    bool without_report;
    int stdio[3]; /* 0: /dev/null, a file, a file; SBX_TRIAL_CLOSED; or a descriptor */
    /* Called in the child before it changes its user and executes. */
    void (*prepare)(const struct sbx_trial *trial);
    const void *context; /* for prepare */
    double seconds;      /* the longest it may take; 0: 60 */

    /* What came of it. */
    char directory[SBX_FIXTURE_PATH_SIZE];
    char marker[64]; /* "SBX_TEST_MARKER=…", in the environment of all its processes */
    pid_t pid;
    uint64_t started_us;
    uint64_t elapsed_us;
    int status; /* as a shell has it: the exit status, or 128 + signal */
    char *out;  /* the beginning, NUL-terminated; "" when it went elsewhere */
    char *err;
    json_t *report; /* NULL: there is none */
};

/* Starts it; returns when the child exists. */
void sbx_trial_start(struct sbx_trial *trial);

/* Waits for its end, and reads output and report. The report is checked for form. */
void sbx_trial_wait(struct sbx_trial *trial);

/* Both. */
void sbx_trial_run(struct sbx_trial *trial);

/* Frees what a run has allocated. */
void sbx_trial_done(struct sbx_trial *trial);

/* Path of a file in the run's directory. */
const char *sbx_trial_path(const struct sbx_trial *trial,
                           char buffer[static SBX_FIXTURE_PATH_SIZE], const char *name);

/* Waits until the run's standard output holds that text. */
void sbx_trial_wait_output(const struct sbx_trial *trial, const char *text,
                           double seconds);

/* Fails with everything that is known unless it ended so. reason: NULL for no breach. */
void sbx_trial_expect(const struct sbx_trial *trial, int status, const char *outcome,
                      const char *reason);

/* Fails unless the report says that the tree is proved empty, on whichever rung. */
void sbx_trial_expect_proof(const struct sbx_trial *trial);

/* Fails unless nothing of the run is alive: we have no child, and no process has the
 * run's marker in its environment; and unless the report says so, if there is one. */
void sbx_trial_expect_empty(const struct sbx_trial *trial);

/* Checks the report against its schema, where Python and its jsonschema are there: at
 * once, or where reports are collected with all others. */
void sbx_trial_validate(const struct sbx_trial *trial);

/* Kills and reaps our children until there are none, at most that long. For what a run
 * was told to leave alone. Returns how many it has reaped. */
int sbx_trial_end_children(double seconds);

/* Items of the report by their path, "termination.strays.0.name". NULL when absent. */
const json_t *sbx_trial_item(const struct sbx_trial *trial, const char *path);
bool sbx_trial_has(const struct sbx_trial *trial, const char *path);
/* These fail the test when the item is absent or of another type. */
int64_t sbx_trial_integer(const struct sbx_trial *trial, const char *path);
const char *sbx_trial_string(const struct sbx_trial *trial, const char *path);
bool sbx_trial_boolean(const struct sbx_trial *trial, const char *path);

/* How many identities a matrix has: 2 as root (root, nobody), else 1. */
int sbx_trial_identities(void);

#endif
