/*
 * verify.c - the verification as <sbx/sbx.h> has it: what is asked for, who is meant, and
 * what is to be made of what was found.
 */
#include "sandbox/verify.h"

#include "base/error.h"
#include "base/text.h"
#include "sandbox/find.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define GROUP_NAME "Verification"
#define NAME_SIZE 64
#define SHOWN_SIZE 128

static const struct sbx_option options[] = {
    {"verify", 0, NULL, GROUP_NAME,
     "run no command; try what this host can hold, each limit, ceiling and sandbox once, "
     "and print it"},
    {"json", 0, NULL, GROUP_NAME, "print it as one line of JSON"},
    {"need", 0, "LIST", GROUP_NAME,
     "checks, or groups of them, that must hold for exit status 0 (repeatable, or "
     "separated by commas)"},
    {"as-user", 0, "UID:GID", GROUP_NAME,
     "for this user, who is to run sandboxes and commands (needs root)"},
    {"bwrap", 0, "PATH", GROUP_NAME, "the bubblewrap that is to be used"},
};

const struct sbx_option *sbx_verification_options(size_t *ret_count)
{
    *ret_count = sizeof options / sizeof options[0];
    return options;
}

struct sbx_verification *sbx_verification_new(void)
{
    struct sbx_verification *verification = calloc(1, sizeof *verification);
    if (verification != NULL) {
        verification->uid = geteuid();
        verification->gid = getegid();
    }
    return verification;
}

/* What was found is that of one run. */
static void forget(struct sbx_verification *verification)
{
    free(verification->json);
    free(verification->text);
    verification->json = NULL;
    verification->text = NULL;
    if (verification->board != NULL) {
        (void)munmap(verification->board, sizeof *verification->board);
        verification->board = NULL;
    }
}

void sbx_verification_free(struct sbx_verification *verification)
{
    if (verification != NULL) {
        forget(verification);
        free(verification->bwrap);
        free(verification);
    }
}

/* --- options --- */

static const char *shown(const char *text, char buffer[static SHOWN_SIZE])
{
    (void)sbx_text_escape(buffer, SHOWN_SIZE, text, strlen(text));
    return buffer;
}

/* The table's own spelling of a name that it has. */
static const char *kept_name(const char *name)
{
    for (size_t i = 0; i < sbx_check_count; i++) {
        const struct sbx_check_kind *kind = &sbx_check_kinds[i];
        if (strcmp(kind->name, name) == 0) {
            return kind->name;
        }
        if (kind->group != NULL && strcmp(kind->group, name) == 0) {
            return kind->group;
        }
    }
    return NULL;
}

static void note_need(struct sbx_verification *verification, const char *name)
{
    for (size_t i = 0; i < sbx_check_count; i++) {
        const struct sbx_check_kind *kind = &sbx_check_kinds[i];
        verification->named[i] = verification->named[i] || strcmp(kind->name, name) == 0;
        verification->grouped[i] =
            verification->grouped[i] ||
            (kind->group != NULL && strcmp(kind->group, name) == 0);
    }
    for (size_t i = 0; i < verification->need_count; i++) {
        if (verification->needs[i] == name) {
            return;
        }
    }
    if (verification->need_count < SBX_NEED_MAX) {
        verification->needs[verification->need_count++] = name;
    }
}

static int refuse_need(const char *name, struct sbx_error *err)
{
    char buffer[SHOWN_SIZE];
    return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                         "option --need: '%s' is no check (accepted: sandbox, network, "
                         "the groups limits ceilings namespaces kernel cgroup "
                         "controllers, and every name that sbx-watch --verify lists)",
                         shown(name, buffer));
}

/* All names of the list, or none of them. */
static int set_need(struct sbx_verification *verification, const char *value,
                    struct sbx_error *err)
{
    for (int pass = 0; pass < 2; pass++) {
        const char *next = value;
        for (;;) {
            char name[NAME_SIZE];
            size_t length = strcspn(next, ",");
            (void)snprintf(name, sizeof name, "%.*s",
                           (int)(length < NAME_SIZE ? length : NAME_SIZE), next);
            const char *kept = kept_name(name);
            if (kept == NULL || length >= NAME_SIZE) {
                return refuse_need(name, err);
            }
            if (pass == 1) {
                note_need(verification, kept);
            }
            if (next[length] == '\0') {
                break;
            }
            next += length + 1;
        }
    }
    return 0;
}

static bool parse_id(const char *text, size_t length, unsigned *ret_id)
{
    char digits[16];
    uint64_t id = 0;
    if (length >= sizeof digits) {
        return false;
    }
    memcpy(digits, text, length);
    digits[length] = '\0';
    /* The highest one means "leave as it is" to the kernel. */
    if (sbx_text_count(digits, &id) < 0 || id >= UINT_MAX) {
        return false;
    }
    *ret_id = (unsigned)id;
    return true;
}

static int set_user(struct sbx_verification *verification, const char *value,
                    struct sbx_error *err)
{
    char buffer[SHOWN_SIZE];
    unsigned uid = 0;
    unsigned gid = 0;
    size_t length = strcspn(value, ":");
    if (value[length] != ':' || !parse_id(value, length, &uid) ||
        !parse_id(value + length + 1, strlen(value + length + 1), &gid)) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "option --as-user: '%s' is not a user (accepted: UID:GID, "
                             "in digits, below %u)",
                             shown(value, buffer), UINT_MAX);
    }
    verification->as_user = true;
    verification->uid = uid;
    verification->gid = gid;
    return 0;
}

static int set_bwrap(struct sbx_verification *verification, const char *value,
                     struct sbx_error *err)
{
    char cwd[PATH_MAX] = "";
    char *path = NULL;
    if (value[0] == '\0') {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "option --bwrap: '' is no path");
    }
    if (value[0] != '/' && getcwd(cwd, sizeof cwd) == NULL) {
        return sbx_error_set(err, errno, SBX_STAGE_OPTIONS,
                             "option --bwrap: the working directory is not known: %s",
                             sbx_errno_text(errno).text);
    }
    if (asprintf(&path, "%s%s%s", cwd, value[0] != '/' ? "/" : "", value) < 0) {
        return sbx_error_set(err, ENOMEM, SBX_STAGE_OPTIONS, "option --bwrap: no memory");
    }
    free(verification->bwrap);
    verification->bwrap = path;
    return 0;
}

int sbx_verification_set(struct sbx_verification *verification, const char *name,
                         const char *value, struct sbx_error *err)
{
    static const struct {
        const char *name;
        int (*set)(struct sbx_verification *, const char *, struct sbx_error *);
    } setters[] = {{"need", set_need}, {"as-user", set_user}, {"bwrap", set_bwrap}};
    char buffer[SHOWN_SIZE];
    for (size_t i = 0; i < sizeof setters / sizeof setters[0]; i++) {
        if (strcmp(setters[i].name, name) != 0) {
            continue;
        }
        if (value == NULL) {
            return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                                 "option --%s: takes a value", setters[i].name);
        }
        return setters[i].set(verification, value, err);
    }
    return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                         "'%s' is no option of a verification (accepted: need, as-user, "
                         "bwrap)",
                         shown(name, buffer));
}

/* --- the run --- */

static int check(const struct sbx_verification *verification, struct sbx_error *err)
{
    bool other = verification->uid != geteuid() || verification->gid != getegid();
    if (other && geteuid() != 0) {
        return sbx_error_set(err, EPERM, SBX_STAGE_CHECK,
                             "option --as-user: only root can act for user %u:%u",
                             verification->uid, verification->gid);
    }
    return 0;
}

int sbx_verification_run(struct sbx_verification *verification, struct sbx_error *err)
{
    struct utsname name;
    struct stat status;
    char probe[PATH_MAX];
    int r = check(verification, err);
    if (r < 0) {
        return r;
    }
    forget(verification);
    struct sbx_verify_board *board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE,
                                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED) {
        return sbx_error_set(err, errno, SBX_STAGE_LAUNCH,
                             "no memory for a verification");
    }
    verification->board = board;
    if (verification->bwrap != NULL) {
        (void)snprintf(verification->found_bwrap, sizeof verification->found_bwrap, "%s",
                       verification->bwrap);
    } else if (!sbx_find_bwrap(verification->found_bwrap, &status)) {
        verification->found_bwrap[0] = '\0';
    }
    /* Where it should be, if it is not there. */
    (void)sbx_find_ours("sbx-probe", "SBX_PROBE", SBX_PROBE_INSTALLED, probe, &status);
    if (uname(&name) == 0) {
        (void)snprintf(verification->kernel, sizeof verification->kernel, "%s",
                       name.release);
    }
    struct sbx_verifier verifier = {
        .uid = verification->uid,
        .gid = verification->gid,
        .as_user = verification->as_user &&
                   (verification->uid != geteuid() || verification->gid != getegid()),
        .bwrap = verification->found_bwrap[0] != '\0' ? verification->found_bwrap : NULL,
        .probe = probe,
        .directory_fd = -1,
        .board = board,
    };
    r = sbx_verify_run(&verifier, err);
    if (r < 0) {
        forget(verification);
    }
    return r;
}

/* --- what it means --- */

static enum sbx_verdict verdict_of(const struct sbx_verification *verification,
                                   size_t index)
{
    return verification->board != NULL ? verification->board->findings[index].verdict
                                       : SBX_VERDICT_OPEN;
}

bool sbx_verification_check_holds(const struct sbx_verification *verification,
                                  size_t index)
{
    enum sbx_verdict verdict = verdict_of(verification, index);
    return verdict == SBX_VERDICT_YES ||
           (!verification->named[index] &&
            (!verification->grouped[index] || verdict == SBX_VERDICT_NOT_APPLICABLE));
}

bool sbx_verification_is_yes(const struct sbx_verification *verification,
                             const char *name)
{
    int index = sbx_check_find(name);
    return index >= 0 && verdict_of(verification, (size_t)index) == SBX_VERDICT_YES;
}

bool sbx_verification_group_holds(const struct sbx_verification *verification,
                                  const char *group)
{
    for (size_t i = 0; i < sbx_check_count; i++) {
        enum sbx_verdict verdict = verdict_of(verification, i);
        const char *in = sbx_check_kinds[i].group;
        if (in != NULL && strcmp(in, group) == 0 && verdict != SBX_VERDICT_YES &&
            verdict != SBX_VERDICT_NOT_APPLICABLE) {
            return false;
        }
    }
    return true;
}

int sbx_verification_holds(const struct sbx_verification *verification)
{
    for (size_t i = 0; i < sbx_check_count; i++) {
        if (!sbx_verification_check_holds(verification, i)) {
            return 0;
        }
    }
    return sbx_verification_is_yes(verification, "sandbox");
}
