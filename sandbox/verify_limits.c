/*
 * verify_limits.c - whether a limit of sbx-watch holds: a real run, with guard, monitor
 * and report, of a small command that goes beyond it.
 *
 * The process of the check becomes the guard of that run, and reads the report from a
 * file in memory.
 */
#include "sandbox/verify.h"

#include "base/error.h"
#include "base/fd.h"
#include "monitor/flatten.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define REPORT_SIZE ((size_t)256 * 1024)
#define SHOWN_SIZE 120

static const struct {
    const char *name;
    const char *value;
    const char *armed; /* in the report when the kernel holds it; NULL: it never does */
} trials[] = {
    {"wall", "100ms", NULL},
    {"cpu", "100ms", NULL},
    {"memory", "24M", "armed.memory_bytes"},
    {"processes", "4", NULL},
    {"threads", "4", "armed.threads"},
    {"output", "4K", NULL},
    {"idle", "150ms", NULL},
};
#define TRIAL_COUNT (sizeof trials / sizeof trials[0])

/* A value of the report, without the quotes of a string; false: there is none. */
static bool find(const char *report, const char *path, char value[static SHOWN_SIZE])
{
    struct sbx_flat flat;
    if (!sbx_flatten_find(report, strlen(report), path, &flat)) {
        return false;
    }
    bool quoted = flat.length >= 2 && flat.value[0] == '"';
    (void)snprintf(value, SHOWN_SIZE, "%.*s", (int)(flat.length - (quoted ? 2 : 0)),
                   flat.value + (quoted ? 1 : 0));
    return true;
}

static int fill_spec(const struct sbx_verifier *verifier, size_t trial, int report_fd,
                     struct sbx_spec *spec, struct sbx_error *err)
{
    char word[32];
    char fd[16];
    char user[32];
    (void)snprintf(word, sizeof word, "hungry-%s", trials[trial].name);
    (void)snprintf(fd, sizeof fd, "%d", report_fd);
    (void)snprintf(user, sizeof user, "%u:%u", verifier->uid, verifier->gid);
    const char *const command[] = {verifier->probe, word, NULL};
    int r = sbx_spec_set(spec, trials[trial].name, trials[trial].value, err);
    r = r < 0 ? r : sbx_spec_set(spec, "quiet", NULL, err);
    r = r < 0 ? r : sbx_spec_set(spec, "interval", "20ms", err);
    r = r < 0 ? r : sbx_spec_set(spec, "die-with-parent", NULL, err);
    r = r < 0 ? r : sbx_spec_set(spec, "report-fd", fd, err);
    if (r == 0 && verifier->as_user) {
        r = sbx_spec_set(spec, "user", user, err);
    }
    return r < 0 ? r : sbx_spec_set_command(spec, command, err);
}

/* The report, as text. */
static int run_trial(const struct sbx_verifier *verifier, size_t trial, char *report,
                     struct sbx_error *err)
{
    /* A descriptor that is meant to be kept over an exec; the command does not get it. */
    SBX_AUTO_CLOSE int fd = memfd_create("sbx-verify", 0); /* NOLINT(android-cloexec-*) */
    struct sbx_spec *spec = sbx_spec_new();
    int status = 0;
    if (fd < 0 || spec == NULL) {
        sbx_spec_free(spec);
        return sbx_error_set(err, fd < 0 ? errno : ENOMEM, SBX_STAGE_LAUNCH,
                             "no memory for a report");
    }
    int r = fill_spec(verifier, trial, fd, spec, err);
    r = r < 0 ? r : sbx_run_in_place(spec, &status, err);
    sbx_spec_free(spec);
    ssize_t length = r < 0 ? r : sbx_fd_pread_text(fd, report, REPORT_SIZE);
    if (r == 0 && length <= 0) {
        return sbx_error_set(err, length < 0 ? (int)-length : ENODATA, SBX_STAGE_REPORT,
                             "there is no report");
    }
    return r;
}

static void describe_breach(size_t trial, const char *report, struct sbx_finding *ret)
{
    char observed[SHOWN_SIZE] = "?";
    char unit[SHOWN_SIZE] = "";
    char at[SHOWN_SIZE] = "0";
    char method[SHOWN_SIZE] = "";
    char armed[SHOWN_SIZE];
    bool by_kernel =
        trials[trial].armed != NULL && find(report, trials[trial].armed, armed);
    (void)find(report, "breach.observed", observed);
    (void)find(report, "breach.unit", unit);
    (void)find(report, "breach.at_us", at);
    const char *holder = by_kernel ? "held by the kernel" : "held by the monitor";
    if (strcmp(trials[trial].name, "memory") == 0) {
        holder = by_kernel ? "held by the kernel (memory.max)" : "held by the monitor (";
        if (!by_kernel && find(report, "usage.memory_method", method)) {
            (void)snprintf(method + strlen(method), sizeof method - strlen(method), ")");
        }
    }
    sbx_finding_yes(ret, "%s: %s%s, breach at %s %s after %llu ms", trials[trial].value,
                    holder, method, observed, unit, strtoull(at, NULL, 10) / 1000);
}

void sbx_verify_limit(const struct sbx_verifier *verifier,
                      const struct sbx_check_kind *kind, struct sbx_finding *ret)
{
    size_t trial = 0;
    while (trial < TRIAL_COUNT - 1 && strcmp(trials[trial].name, kind->subject) != 0) {
        trial++;
    }
    struct sbx_error error = {0};
    char outcome[SHOWN_SIZE] = "?";
    char reason[SHOWN_SIZE] = "";
    char message[SHOWN_SIZE] = "";
    SBX_AUTO_FREE char *report = calloc(1, REPORT_SIZE);
    if (report == NULL) {
        sbx_finding_no(ret, "kernel", "", "could not be tried: no memory");
        return;
    }
    if (run_trial(verifier, trial, report, &error) < 0) {
        sbx_finding_no(ret, "sbx-watch", "", "%.200s", error.message);
        return;
    }
    (void)find(report, "outcome", outcome);
    (void)find(report, "breach.reason", reason);
    (void)find(report, "error.message", message);
    if (strcmp(outcome, "breach") == 0 && strcmp(reason, kind->subject) == 0) {
        describe_breach(trial, report, ret);
        return;
    }
    bool missing = strcmp(outcome, "launch-failed") == 0 && verifier->probe_fd < 0;
    sbx_finding_no(ret, missing ? "package" : "sbx-watch",
                   missing ? "install sbx-probe with the library, or set SBX_PROBE" : "",
                   "%s: the run's outcome is %s %s%s%s", trials[trial].value, outcome,
                   reason, message[0] != '\0' ? ": " : "", message);
}
