/*
 * verify.h - the insides of a verification (sbx_verification_run): the table of what is
 * checked, what was found, and who finds it.
 *
 * All of it happens below one process, the verifier, which the caller forks and waits for
 * (verify_run.c). It forks one process for each check, side by side: most of their time
 * is waiting. What they find lies in a mapping that all of them share.
 */
#ifndef SBX_SANDBOX_VERIFY_H
#define SBX_SANDBOX_VERIFY_H

#include "sandbox/layers.h"

#include <limits.h>
#include <sbx/sbx.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SBX_CHECK_MAX 48
#define SBX_NEED_MAX 48
#define SBX_KERNEL_SIZE 96

enum sbx_verdict {
    SBX_VERDICT_OPEN = 0, /* nothing was found out: counts as no */
    SBX_VERDICT_YES,
    SBX_VERDICT_NO,
    SBX_VERDICT_NOT_APPLICABLE /* there is nothing here that could be held or used */
};

/* One line of the answer. `layer` and `remedy` go with a no. */
struct sbx_finding {
    enum sbx_verdict verdict;
    struct sbx_layer layer; /* its texts alone */
};

/* Shared by all processes of a verification. */
struct sbx_verify_board {
    bool complete; /* the verifier has come to its end */
    struct sbx_finding findings[SBX_CHECK_MAX];
    uint64_t took_us;
};

/* What is verified, as the checks see it. */
struct sbx_verifier {
    uid_t uid; /* the identity that launcher and command will have */
    gid_t gid;
    bool as_user;      /* that is not ours */
    const char *bwrap; /* absolute; NULL: there is none in PATH */
    const char *probe; /* absolute path of sbx-probe, be it there or not */
    int probe_fd;      /* that, open; or a negative errno */
    int directory_fd;  /* for files that vanish; -1: none could be made */
    struct sbx_verify_board *board;
};

struct sbx_check_kind;
typedef void sbx_check_run(const struct sbx_verifier *verifier,
                           const struct sbx_check_kind *kind, struct sbx_finding *ret);

struct sbx_check_kind {
    const char *name;    /* "limit-wall" */
    const char *group;   /* "limits"; NULL: in none */
    const char *subject; /* "wall": what the check is told to check */
    sbx_check_run *run;  /* in a process of its own; NULL: the verifier's own affair */
};

extern const struct sbx_check_kind sbx_check_kinds[];
extern const size_t sbx_check_count;

/* Index of a check by its name, -1: there is none. */
int sbx_check_find(const char *name);

struct sbx_verification {
    bool as_user;
    uid_t uid;
    gid_t gid;
    char *bwrap;                     /* owned; NULL: looked up in PATH */
    bool named[SBX_CHECK_MAX];       /* needed by its own name */
    bool grouped[SBX_CHECK_MAX];     /* needed by that of its group */
    const char *needs[SBX_NEED_MAX]; /* as asked for, once each; of the table */
    size_t need_count;
    char found_bwrap[PATH_MAX]; /* which one it was; "": none */
    char kernel[SBX_KERNEL_SIZE];
    struct sbx_verify_board *board; /* mapped; NULL: not run yet */
    char *json;                     /* owned; NULL: not asked for yet */
    char *text;
};

/* Whether check `index` is as --need wants it: not asked for, or a yes; what does not
 * apply is no obstacle for a group. */
bool sbx_verification_check_holds(const struct sbx_verification *verification,
                                  size_t index);
bool sbx_verification_is_yes(const struct sbx_verification *verification,
                             const char *name);
/* All of a group that apply. */
bool sbx_verification_group_holds(const struct sbx_verification *verification,
                                  const char *group);

/* The verifier's whole life, and the caller's wait for it. 0 or a negative errno. */
int sbx_verify_run(struct sbx_verifier *verifier, struct sbx_error *err);

/* --- findings --- */

void sbx_finding_yes(struct sbx_finding *ret, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void sbx_finding_skip(struct sbx_finding *ret, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void sbx_finding_no(struct sbx_finding *ret, const char *layer, const char *remedy,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));
void sbx_finding_layer(struct sbx_finding *ret, const struct sbx_layer *layer);

/* --- the checks --- */

sbx_check_run sbx_verify_sandbox; /* verify_sandbox.c */
sbx_check_run sbx_verify_setuid;
sbx_check_run sbx_verify_user_namespaces; /* verify_host.c */
sbx_check_run sbx_verify_nested_proc;
sbx_check_run sbx_verify_bwrap;
sbx_check_run sbx_verify_seccomp;
sbx_check_run sbx_verify_kernel;
sbx_check_run sbx_verify_pidfd;
sbx_check_run sbx_verify_pressure;
sbx_check_run sbx_verify_limit;   /* verify_limits.c */
sbx_check_run sbx_verify_ceiling; /* verify_ceilings.c */

/* All checks of control groups, and a group in which those controllers are on that can be
 * had, for as long as the others run: a run would switch them on itself, were it alone.
 * verify_group.c; close it in the process that has opened it. */
struct sbx_group;
void sbx_verify_groups(const struct sbx_verifier *verifier, pid_t caller,
                       struct sbx_group *ret_group);

/* --- sbx-probe --- */

struct sbx_ceiling;
struct sbx_probe {
    const char *word;                   /* its argument */
    const struct sbx_ceiling *ceilings; /* SBX_CEILING_COUNT of them; NULL: none */
    bool in_directory;                  /* in that of the verifier, else where we are */
    bool realtime;                      /* wants real-time scheduling, if it may be had */
};
#define SBX_PROBE_TEXT_SIZE 160
/* It could not be executed, or the ceilings not be set: its exit status. */
#define SBX_PROBE_FAILED 3

/* Runs it with the identity that is verified, and gives its wait status and what it has
 * said. 0 or a negative errno. verify_probe.c */
int sbx_probe_run(const struct sbx_verifier *verifier, const struct sbx_probe *probe,
                  int *ret_status, char ret_text[static SBX_PROBE_TEXT_SIZE]);

#endif
