/*
 * verify_ceilings.c - whether a ceiling holds for this user on this host: it is set as a
 * run would set it, and sbx-probe goes beyond it.
 *
 * Not all do, whatever getrlimit(2) says: the kernel has given some up, and exempts who
 * has certain capabilities from others.
 */
#include "sandbox/verify.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "reaper/ceiling.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define PATTERN_SIZE 256

#define DROP_PRIVILEGES                                                                  \
    "run as an ordinary user (--as-user), or in sbx-run, which drops all capabilities"
#define BOUND_MEMORY "use --memory, which bounds the tree"

struct trial {
    const char *name;
    const char *value; /* as of --rlimit */
    int signal;        /* that ends who goes beyond it; 0: a call is refused */
    const char *why;   /* a no: who is to blame, and what helps */
    const char *remedy;
};

static const struct trial trials[] = {
    {"as", "as=64M", 0, "", BOUND_MEMORY},
    {"core", "core=0", 0, "", ""},
    {"cpu", "cpu=1", SIGXCPU, "", "use --cpu, which bounds the tree"},
    {"data", "data=16M", 0, "", BOUND_MEMORY},
    {"fsize", "fsize=4096", SIGXFSZ, "", "use a quota of the file system"},
    {"locks", "locks=1", 0, "no kernel since 2.4.25 counts them", "there is none"},
    {"memlock", "memlock=4096", 0, "CAP_IPC_LOCK is above it", DROP_PRIVILEGES},
    {"msgqueue", "msgqueue=0", 0, "", "use an IPC namespace, as sbx-run does"},
    {"nice", "nice=0", 0, "CAP_SYS_NICE is above it", DROP_PRIVILEGES},
    {"nofile", "nofile=16", 0, "", ""},
    {"nproc", "nproc=1", 0, "the kernel does not hold it for uid 0 and CAP_SYS_ADMIN",
     "use --processes, which bounds the tree"},
    {"rss", "rss=1M", 0, "no kernel since 2.6 looks at it", BOUND_MEMORY},
    {"rtprio", "rtprio=0", 0, "CAP_SYS_NICE is above it", DROP_PRIVILEGES},
    {"rttime", "rttime=50ms:400ms", SIGXCPU, "", ""},
    {"sigpending", "sigpending=1", 0, "", ""},
    {"stack", "stack=256K", SIGSEGV, "", ""},
};

static const struct trial *find_trial(const char *name)
{
    for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++) {
        if (strcmp(trials[i].name, name) == 0) {
            return &trials[i];
        }
    }
    return NULL;
}

static void refuse_probe(const struct sbx_verifier *verifier, int code,
                         struct sbx_finding *ret)
{
    sbx_finding_no(ret, code == ENOENT || code == EACCES ? "package" : "kernel",
                   "install sbx-probe with the library, or set SBX_PROBE",
                   "%.150s cannot be run: %s", verifier->probe,
                   sbx_errno_text(code).text);
}

static void not_held(const struct trial *trial, const char *text, struct sbx_finding *ret)
{
    sbx_finding_no(ret, "kernel", trial->remedy, "%.40s: %s%s%s", trial->value, text,
                   trial->why[0] != '\0' ? "; " : "", trial->why);
}

static void judge(const struct trial *trial, int status, const char *text,
                  struct sbx_finding *ret)
{
    char name[SBX_SIGNAL_NAME_SIZE];
    if (WIFSIGNALED(status) && WTERMSIG(status) == trial->signal) {
        sbx_finding_yes(ret, "%s: %s", trial->value,
                        sbx_text_signal_name(trial->signal, name));
    } else if (WIFSIGNALED(status)) {
        sbx_finding_no(ret, "kernel", "", "%s: ended by %s", trial->value,
                       sbx_text_signal_name(WTERMSIG(status), name));
    } else if (WEXITSTATUS(status) == 0) {
        sbx_finding_yes(ret, "%s: %s", trial->value, text);
    } else if (WEXITSTATUS(status) == 1) {
        not_held(trial, text, ret);
    } else if (WEXITSTATUS(status) == SBX_PROBE_FAILED) {
        sbx_finding_no(ret, "permissions", "", "%s: %s", trial->value, text);
    } else {
        sbx_finding_skip(ret, "%s: %s", trial->value, text);
    }
}

static int try_value(const struct sbx_verifier *verifier, const char *value,
                     struct sbx_probe *probe, int *ret_status,
                     char text[static SBX_PROBE_TEXT_SIZE])
{
    struct sbx_ceiling ceilings[SBX_CEILING_COUNT] = {{0}};
    int r = sbx_ceiling_parse(value, ceilings, NULL);
    probe->ceilings = ceilings;
    r = r < 0 ? r : sbx_probe_run(verifier, probe, ret_status, text);
    probe->ceilings = NULL;
    return r;
}

/* --- core --- */

static void try_core(const struct sbx_verifier *verifier, struct sbx_finding *ret)
{
    char text[SBX_PROBE_TEXT_SIZE] = "";
    int without = 0;
    int with = 0;
    struct sbx_probe probe = {.word = "core", .in_directory = true};
    int r = try_value(verifier, "core=16M", &probe, &without, text);
    r = r < 0 ? r : try_value(verifier, "core=0", &probe, &with, text);
    if (r < 0) {
        refuse_probe(verifier, -r, ret);
    } else if (!WIFSIGNALED(without) || !WCOREDUMP(without)) {
        sbx_finding_skip(ret, "core=0: there is no core without it either%s%s",
                         text[0] != '\0' ? ": " : "", text);
    } else if (!WIFSIGNALED(with) || WCOREDUMP(with)) {
        sbx_finding_no(ret, "kernel", "sysctl -w kernel.core_pattern=core",
                       "core=0: a core was dumped all the same");
    } else {
        sbx_finding_yes(ret, "core=0: none was dumped, and one without it");
    }
}

/* A core must be left nowhere: it is tried where the kernel would write it to a directory
 * of ours. */
static void verify_core(const struct sbx_verifier *verifier, struct sbx_finding *ret)
{
    char pattern[PATTERN_SIZE] = "";
    (void)sbx_fd_read_text_at(AT_FDCWD, "/proc/sys/kernel/core_pattern", pattern,
                              sizeof pattern);
    pattern[strcspn(pattern, "\n")] = '\0';
    if (pattern[0] == '|') {
        sbx_finding_no(ret, "kernel",
                       "sysctl -w kernel.core_pattern=core, or trust in that program to "
                       "look at the limit",
                       "core_pattern is a program, which gets a core whatever the limit "
                       "is: %.100s",
                       pattern);
    } else if (strchr(pattern, '/') != NULL) {
        sbx_finding_skip(ret,
                         "not tried, since a core would be left behind: core_pattern is "
                         "%.100s",
                         pattern);
    } else if (verifier->directory_fd < 0) {
        sbx_finding_skip(ret, "not tried: no directory for a core can be made");
    } else {
        try_core(verifier, ret);
    }
}

/* --- all others --- */

/* A run refuses it for uid 0, whatever capabilities that has. */
static void note_refusal(const struct sbx_verifier *verifier, const struct trial *trial,
                         struct sbx_finding *ret)
{
    if (verifier->uid == 0 && strcmp(trial->name, "nproc") == 0 &&
        ret->verdict == SBX_VERDICT_YES) {
        sbx_finding_no(ret, "kernel", trial->remedy,
                       "it bites in this user namespace, but sbx-watch refuses it for "
                       "uid 0");
    }
}

void sbx_verify_ceiling(const struct sbx_verifier *verifier,
                        const struct sbx_check_kind *kind, struct sbx_finding *ret)
{
    const struct trial *trial = find_trial(kind->subject);
    if (strcmp(kind->subject, "core") == 0) {
        verify_core(verifier, ret);
        return;
    }
    int status = 0;
    char text[SBX_PROBE_TEXT_SIZE] = "";
    struct sbx_probe probe = {.word = kind->subject,
                              .realtime = strcmp(kind->subject, "rttime") == 0};
    int r = try_value(verifier, trial->value, &probe, &status, text);
    if (r < 0) {
        refuse_probe(verifier, -r, ret);
        return;
    }
    /* With the limit of a user reached, even that is refused. */
    if (strcmp(text, "execve: EAGAIN") == 0) {
        sbx_finding_yes(ret, "%s: %s", trial->value, text);
        return;
    }
    judge(trial, status, text, ret);
    note_refusal(verifier, trial, ret);
}
