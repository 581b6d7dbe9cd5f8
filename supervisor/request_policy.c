/*
 * request_policy.c - what the operator allows, and what another user may not ask of a
 * service that has rights which that user has not: it opens files, reads variables and
 * raises ceilings for nobody but root and its own user.
 */
#include "supervisor/request_private.h"

#include "monitor/option_rules.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_WALL "120s"
/* Where nothing but samples holds the operator's limit. */
#define INTERVAL_MOST_US UINT64_C(1000000)

/* Of other users' requests; `forced`: only where the sandbox is the operator's wish. */
static const struct {
    const char *option;
    const char *why;
    enum sbx_section section;
    bool forced;
} barred[] = {
    {"stdout", "opens a file as the user of sbxd", SBX_SECTION_TOP, false},
    {"stderr", "opens a file as the user of sbxd", SBX_SECTION_TOP, false},
    {"env-from", "opens a file as the user of sbxd", SBX_SECTION_TOP, false},
    {"cgroup-root", "makes a cgroup as the user of sbxd", SBX_SECTION_TOP, false},
    {"as-user", "the command runs as who has asked", SBX_SECTION_SANDBOX, false},
    {"bwrap", "the sandbox is the operator's", SBX_SECTION_SANDBOX, true},
};

static const char *why_barred(enum sbx_section section, const char *option, bool forced)
{
    for (size_t i = 0; i < SBX_LENGTH(barred); i++) {
        if (barred[i].section == section && strcmp(barred[i].option, option) == 0 &&
            (forced || !barred[i].forced)) {
            return barred[i].why;
        }
    }
    return NULL;
}

int sbx_policy_option(const struct sbx_draft *draft, enum sbx_section section,
                      const struct sbx_option *option, struct sbx_error *err)
{
    char key[SBX_KEY_NAME_SIZE];
    char path[2 * SBX_KEY_NAME_SIZE];
    const char *name = sbx_section_name(section);
    const char *why = draft->policy->trusted ? NULL
                                             : why_barred(section, option->name,
                                                          draft->policy->force_sandbox);
    if (why == NULL || !sbx_request_key(option, section, key)) {
        return 0;
    }
    (void)snprintf(path, sizeof path, "%s%s%s", name, name[0] != '\0' ? "." : "", key);
    return sbx_request_refuse(err, EPERM, path, "is not for other users: %s", why);
}

bool sbx_policy_default(const struct sbx_draft *draft, enum sbx_section section,
                        const char *option, char value[static SBX_POLICY_VALUE_SIZE])
{
    const struct sbx_request_policy *policy = draft->policy;
    if (section == SBX_SECTION_LIMITS && strcmp(option, "wall") == 0) {
        (void)snprintf(value, SBX_POLICY_VALUE_SIZE, "%s", DEFAULT_WALL);
        return true;
    }
    if (section == SBX_SECTION_LIMITS && strcmp(option, "memory") == 0 &&
        policy->max_memory_bytes != 0) {
        (void)snprintf(value, SBX_POLICY_VALUE_SIZE, "%" PRIu64,
                       policy->max_memory_bytes);
        return true;
    }
    if (section != SBX_SECTION_TOP || policy->trusted) {
        return false;
    }
    if (strcmp(option, "user") == 0 && geteuid() == 0) {
        (void)snprintf(value, SBX_POLICY_VALUE_SIZE, "%u:%u", (unsigned)policy->uid,
                       (unsigned)policy->gid);
        return true;
    }
    return strcmp(option, "clear-env") == 0;
}

/* --- all in all --- */

static int check_memory(const struct sbx_draft *draft, struct sbx_error *err)
{
    uint64_t most = draft->policy->max_memory_bytes;
    const struct sbx_limits *limits = &draft->request->spec->limits;
    if (most == 0) {
        return 0;
    }
    if (limits->memory_bytes > most) {
        return sbx_request_refuse(err, EPERM, "limits.memory",
                                  "%" PRIu64 " bytes are more than the operator allows "
                                  "(max-memory: %" PRIu64 " bytes)",
                                  limits->memory_bytes, most);
    }
    if (limits->swap_bytes > most - limits->memory_bytes) {
        return sbx_request_refuse(err, EPERM, "limits.swap",
                                  "%" PRIu64 " bytes beside limits.memory, %" PRIu64
                                  " bytes, are more than the operator allows "
                                  "(max-memory: %" PRIu64 " bytes)",
                                  limits->swap_bytes, limits->memory_bytes, most);
    }
    if (draft->sandbox != NULL && draft->sandbox->tmp_size_bytes > most) {
        return sbx_request_refuse(err, EPERM, "sandbox.tmp_size",
                                  "%" PRIu64 " bytes are more than the operator allows "
                                  "(max-memory: %" PRIu64 " bytes)",
                                  draft->sandbox->tmp_size_bytes, most);
    }
    return 0;
}

/* By which the operator's limit would hold for a part of the tree or of the time only. */
static int check_watch(const struct sbx_draft *draft, struct sbx_error *err)
{
    const struct sbx_request_policy *policy = draft->policy;
    const struct sbx_spec *spec = draft->request->spec;
    bool bounded = policy->max_memory_bytes != 0;
    if (spec->strays == SBX_STRAYS_KEEP && (bounded || !policy->trusted)) {
        return sbx_request_refuse(err, EPERM, "strays",
                                  "'keep' leaves processes without limits, which the "
                                  "operator does not allow (accepted: kill, wait)");
    }
    if (bounded && spec->interval_us > INTERVAL_MOST_US) {
        return sbx_request_refuse(err, EPERM, "interval",
                                  "is more than the operator's limit of memory allows "
                                  "(accepted: at most 1s)");
    }
    return 0;
}

/* Ceilings are set before the command becomes somebody else: root could raise them. */
static int check_ceilings(const struct sbx_draft *draft, struct sbx_error *err)
{
    char key[SBX_KEY_NAME_SIZE];
    for (size_t i = 0; i < SBX_CEILING_COUNT; i++) {
        const struct sbx_ceiling *ceiling = &draft->request->spec->ceilings[i];
        struct rlimit own = {0, 0};
        (void)getrlimit((__rlimit_resource_t)sbx_ceiling_kinds[i].resource, &own);
        if (ceiling->asked && ceiling->hard > own.rlim_max) {
            (void)snprintf(key, sizeof key, "ceilings.%s", sbx_ceiling_kinds[i].name);
            return sbx_request_refuse(err, EPERM, key,
                                      "%" PRIu64 " is above the hard limit of sbxd, "
                                      "%" PRIu64 ", which is not for other users",
                                      (uint64_t)ceiling->hard, (uint64_t)own.rlim_max);
        }
    }
    return 0;
}

static int check_user(const struct sbx_draft *draft, struct sbx_error *err)
{
    const struct sbx_start *start = &draft->request->spec->start;
    if (start->user_asked &&
        (start->uid != draft->policy->uid || start->gid != draft->policy->gid)) {
        return sbx_request_refuse(err, EPERM, "user",
                                  "%u:%u is not who asks, %u:%u, and other users run "
                                  "nothing as somebody else",
                                  (unsigned)start->uid, (unsigned)start->gid,
                                  (unsigned)draft->policy->uid,
                                  (unsigned)draft->policy->gid);
    }
    return 0;
}

/* Where sbxd is no root a command of another user runs as sbxd's, whose files are what
 * the sandbox is there for. */
static int check_sandbox(const struct sbx_draft *draft, struct sbx_error *err)
{
    const struct sbx_sandbox *sandbox = draft->sandbox;
    static const char why[] = "is not for other users: the sandbox is the operator's";
    if (!draft->policy->force_sandbox || sandbox == NULL) {
        return 0;
    }
    if (sandbox->filter != SBX_FILTER_DEFAULT) {
        return sbx_request_refuse(err, EPERM, "sandbox.seccomp", "'none' %s", why);
    }
    if (geteuid() == 0) {
        return 0;
    }
    if (sandbox->no_default_masks) {
        return sbx_request_refuse(err, EPERM, "sandbox.no_default_masks", "%s", why);
    }
    if (sandbox->bind_count > 0) {
        return sbx_request_refuse(
            err, EPERM, sandbox->binds[0].writable ? "sandbox.bind" : "sandbox.ro_bind",
            "%s", why);
    }
    return 0;
}

int sbx_policy_check(const struct sbx_draft *draft, struct sbx_error *err)
{
    int r = check_memory(draft, err);
    r = r == 0 ? check_watch(draft, err) : r;
    if (r < 0 || draft->policy->trusted) {
        return r;
    }
    r = check_ceilings(draft, err);
    r = r == 0 ? check_user(draft, err) : r;
    return r == 0 ? check_sandbox(draft, err) : r;
}
