/*
 * request_keys.c - which options are keys, and what a key does: it sets its option, and
 * is part of the fingerprint where that changes anything.
 *
 * Every option of the two tables is a key unless it is listed here, with `_` for `-`. An
 * option that is new in a table is one at once; a test wants to be told of it.
 */
#include "supervisor/request_private.h"

#include "base/fd.h"
#include "monitor/option_rules.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "sandbox.ceilings.nofile" */
#define PATH_SIZE ((size_t)2 * SBX_KEY_NAME_SIZE)

/* Of sbx-watch: about a terminal, a report, messages, attaching or descriptors; what has
 * a form of its own in a request; what an execution decides. */
static const char *const not_of_run[] = {"report",
                                         "report-fd",
                                         "format",
                                         "quiet",
                                         "log",
                                         "log-level",
                                         "log-format",
                                         "verbose",
                                         "timeline",
                                         "keep-fd",
                                         "pid",
                                         "enforce",
                                         "cgroup",
                                         "detach",
                                         "die-with-parent",
                                         "preserve-status",
                                         "breach-status",
                                         "rlimit", /* ceilings */
                                         "chdir",  /* cwd */
                                         "env",
                                         "stdin",
                                         NULL};

/* Of sbx-run: variables and directory are those of the run. */
static const char *const not_of_sandbox[] = {"chdir", "env", "env-from", "rlimit", NULL};

static const char *const top_others[] = {
    "id",        "command",      "args",        "launcher",  "cwd",
    "env",       "stdin",        "limits",      "sandbox",   "ceilings",
    "retention", "output_limit", "event_limit", "when_full", NULL};
static const char *const no_others[] = {NULL};
static const char *const sandbox_others[] = {"ceilings", NULL};

static bool is_listed(const char *const *list, const char *name)
{
    while (*list != NULL && strcmp(*list, name) != 0) {
        list++;
    }
    return *list != NULL;
}

/* --- names --- */

const char *sbx_section_name(enum sbx_section section)
{
    static const char *const names[] = {"", "limits", "sandbox"};
    return names[section];
}

const struct sbx_option *sbx_section_options(enum sbx_section section, size_t *ret_count)
{
    return section == SBX_SECTION_SANDBOX ? sbx_sandbox_options(ret_count)
                                          : sbx_options(ret_count);
}

const char *const *sbx_section_others(enum sbx_section section)
{
    return section == SBX_SECTION_TOP       ? top_others
           : section == SBX_SECTION_SANDBOX ? sandbox_others
                                            : no_others;
}

bool sbx_request_key(const struct sbx_option *option, enum sbx_section section,
                     char key[static SBX_KEY_NAME_SIZE])
{
    bool of_sandbox = section == SBX_SECTION_SANDBOX;
    /* --output-keep ends nothing: it stands there because of what it counts. */
    bool limit = !of_sandbox && strcmp(option->group, "Limits of the tree") == 0 &&
                 strcmp(option->name, "output-keep") != 0;
    if (is_listed(of_sandbox ? not_of_sandbox : not_of_run, option->name) ||
        limit != (section == SBX_SECTION_LIMITS)) {
        return false;
    }
    (void)snprintf(key, SBX_KEY_NAME_SIZE, "%s", option->name);
    for (char *at = key; *at != '\0'; at++) {
        *at = *at == '-' ? '_' : *at;
    }
    return true;
}

static bool is_key(enum sbx_section section, const char *name)
{
    char key[SBX_KEY_NAME_SIZE];
    size_t count = 0;
    const struct sbx_option *options = sbx_section_options(section, &count);
    for (size_t i = 0; i < count; i++) {
        if (sbx_request_key(&options[i], section, key) && strcmp(key, name) == 0) {
            return true;
        }
    }
    return is_listed(sbx_section_others(section), name);
}

/* "limits.wall" */
static const char *path_of(enum sbx_section section, const char *key,
                           char path[static PATH_SIZE])
{
    const char *name = sbx_section_name(section);
    (void)snprintf(path, PATH_SIZE, "%s%s%s", name, name[0] != '\0' ? "." : "", key);
    return path;
}

static int check_keys(enum sbx_section section, const json_t *object,
                      struct sbx_error *err)
{
    static const enum sbx_section sections[] = {SBX_SECTION_TOP, SBX_SECTION_LIMITS,
                                                SBX_SECTION_SANDBOX};
    char path[SBX_QUOTE_SIZE + SBX_KEY_NAME_SIZE];
    char quoted[SBX_QUOTE_SIZE];
    const char *name;
    json_t *value;
    /* The iterator takes no const object, and changes nothing. */
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        if (is_key(section, name)) {
            continue;
        }
        (void)snprintf(path, sizeof path, "%s%s%s", sbx_section_name(section),
                       section != SBX_SECTION_TOP ? "." : "",
                       sbx_option_quote(quoted, name));
        for (size_t i = 0; i < SBX_LENGTH(sections); i++) {
            if (is_key(sections[i], name)) {
                return sbx_request_refuse(
                    err, EINVAL, path, "unknown key (it is one %s%s)",
                    i == 0 ? "at the top" : "of ", sbx_section_name(sections[i]));
            }
        }
        return sbx_request_refuse(err, EINVAL, path, "unknown key");
    }
    return 0;
}

int sbx_draft_object(const json_t *root, const char *name, const json_t **ret_object,
                     struct sbx_error *err)
{
    const json_t *object = json_object_get(root, name);
    if (object != NULL && !json_is_object(object)) {
        return sbx_request_refuse(err, EINVAL, name, "is %s (accepted: an object)",
                                  sbx_value_type(object));
    }
    *ret_object = object;
    return 0;
}

int sbx_request_blame_option(int result, struct sbx_error *err)
{
    char key[SBX_KEY_NAME_SIZE];
    char path[PATH_SIZE] = "request";
    size_t count = 0;
    const struct sbx_option *options = sbx_options(&count);
    const char *name =
        err != NULL && strncmp(err->message, "option --", 9) == 0 ? err->message + 9 : "";
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(options[i].name);
        if (strncmp(name, options[i].name, length) != 0 || name[length] != ':') {
            continue;
        }
        for (int section = SBX_SECTION_TOP; section <= SBX_SECTION_LIMITS; section++) {
            if (sbx_request_key(&options[i], (enum sbx_section)section, key)) {
                (void)path_of((enum sbx_section)section, key, path);
            }
        }
    }
    return sbx_request_blame(path, result, err);
}

/* --- setting --- */

void sbx_draft_note(struct sbx_draft *draft, const char *name, const char *value)
{
    sbx_fingerprint_add(draft->fingerprint, name, value, strlen(value));
}

/* One option of one section on its way. */
struct setting {
    enum sbx_section section;
    const struct sbx_option *option;
    enum sbx_value_kind kind;
    const char *key; /* with its section */
    bool repeatable;
    bool changes;    /* it is another than without */
    char *canonical; /* owned; NULL: a flag */
};

static bool names(const struct setting *setting, const char *option)
{
    return strcmp(setting->option->name, option) == 0;
}

static char *user_text(const struct sbx_start *start)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%u:%u", (unsigned)start->uid,
                   (unsigned)start->gid);
    return strdup(text);
}

/* Some have more than one spelling, and their meaning only once they are set. */
static char *spelling(const struct setting *setting, const struct sbx_spec *spec,
                      const char *value)
{
    char text[16];
    if (names(setting, "user") || names(setting, "as-user")) {
        return user_text(&spec->start);
    }
    if (names(setting, "umask")) {
        (void)snprintf(text, sizeof text, "%o", (unsigned)spec->start.umask);
        return strdup(text);
    }
    return sbx_value_canonical(setting->kind, value);
}

/* In a specification of its own first: what the value is, and whether it is what would be
 * without it, so that a default that was written down makes no other request. */
static int try_in_run(struct setting *setting, const char *value, struct sbx_error *err)
{
    struct sbx_spec before;
    struct sbx_spec after;
    struct sbx_spec *spec = sbx_spec_new();
    if (spec == NULL) {
        return sbx_request_no_memory(err);
    }
    memcpy(&before, spec, sizeof before);
    int r = sbx_spec_set(spec, setting->option->name, value, err);
    memcpy(&after, spec, sizeof after);
    after.settings = before.settings;
    after.attach = before.attach;
    setting->changes =
        memcmp(&before, &after, sizeof before) != 0; /* NOLINT(bugprone-*) */
    if (r == 0 && value != NULL) {
        setting->canonical = spelling(setting, spec, value);
        r = setting->canonical != NULL ? 0 : sbx_request_no_memory(err);
    }
    sbx_spec_free(spec);
    return r;
}

static int set_in_run(struct sbx_draft *draft, struct setting *setting, const char *value,
                      struct sbx_error *err)
{
    int r = setting->repeatable ? 0 : try_in_run(setting, value, err);
    if (r == 0 && names(setting, "env-from")) {
        r = sbx_draft_check_file(setting->key, value, err);
        if (r < 0) {
            return r;
        }
    }
    r = r == 0
            ? sbx_spec_set(draft->request->spec, setting->option->name,
                           setting->canonical != NULL ? setting->canonical : value, err)
            : r;
    return r < 0 ? sbx_request_blame(setting->key, r, err) : 0;
}

int sbx_draft_sandbox_option(struct sbx_draft *draft, const char *name, const char *value,
                             struct sbx_error *err)
{
    size_t size = strlen(name) + (value != NULL ? strlen(value) : 0) + sizeof "--=";
    SBX_AUTO_FREE char *text = malloc(size);
    if (text == NULL) {
        return sbx_request_no_memory(err);
    }
    (void)snprintf(text, size, "--%s%s%s", name, value != NULL ? "=" : "",
                   value != NULL ? value : "");
    return sbx_strings_add(&draft->sandbox_options, text, strlen(text)) < 0
               ? sbx_request_no_memory(err)
               : 0;
}

static int set_in_sandbox(struct sbx_draft *draft, struct setting *setting,
                          const char *value, struct sbx_error *err)
{
    struct sbx_sandbox *sandbox = draft->sandbox;
    struct sbx_sandbox before;
    bool user = names(setting, "as-user");
    if (names(setting, "seccomp") && value != NULL && strcmp(value, "default") != 0 &&
        strcmp(value, "none") != 0) {
        return sbx_request_refuse(err, EINVAL, setting->key,
                                  "is no filter (accepted: default, none)");
    }
    memcpy(&before, sandbox, sizeof before);
    int r = sbx_sandbox_set(sandbox, setting->option->name, value, err);
    if (r < 0) {
        return sbx_request_blame(setting->key, r, err);
    }
    setting->changes =
        user || memcmp(&before, sandbox, sizeof before) != 0; /* NOLINT(bugprone-*) */
    if (value != NULL) {
        setting->canonical = spelling(setting, sandbox->spec, value);
        if (setting->canonical == NULL) {
            return sbx_request_no_memory(err);
        }
    }
    return sbx_draft_sandbox_option(draft, setting->option->name, setting->canonical,
                                    err);
}

static int apply(struct sbx_draft *draft, struct setting *setting, const char *value,
                 struct sbx_error *err)
{
    setting->changes = true;
    int r = setting->section == SBX_SECTION_SANDBOX
                ? set_in_sandbox(draft, setting, value, err)
                : set_in_run(draft, setting, value, err);
    if (r == 0 && setting->changes) {
        const char *text = setting->canonical != NULL ? setting->canonical : value;
        sbx_draft_note(draft, setting->key, text != NULL ? text : "");
    }
    free(setting->canonical);
    setting->canonical = NULL;
    return r;
}

/* --- from JSON --- */

static int apply_json(struct sbx_draft *draft, struct setting *setting,
                      const json_t *value, struct sbx_error *err)
{
    SBX_AUTO_FREE char *text = NULL;
    int r = sbx_value_text(value, setting->kind, setting->key, &text, err);
    return r < 0 ? r : apply(draft, setting, text, err);
}

static int apply_list(struct sbx_draft *draft, struct setting *setting,
                      const json_t *value, struct sbx_error *err)
{
    if (!json_is_array(value)) {
        return apply_json(draft, setting, value, err);
    }
    int r = 0;
    for (size_t i = 0; r == 0 && i < json_array_size(value); i++) {
        r = apply_json(draft, setting, json_array_get(value, i), err);
    }
    return r;
}

static int apply_flag(struct sbx_draft *draft, struct setting *setting,
                      const json_t *value, struct sbx_error *err)
{
    if (!json_is_boolean(value)) {
        return sbx_request_refuse(err, EINVAL, setting->key,
                                  "is %s (accepted: true, false)", sbx_value_type(value));
    }
    return json_is_true(value) ? apply(draft, setting, NULL, err) : 0;
}

static int apply_default(struct sbx_draft *draft, struct setting *setting,
                         struct sbx_error *err)
{
    char value[SBX_POLICY_VALUE_SIZE];
    if (!sbx_policy_default(draft, setting->section, setting->option->name, value)) {
        return 0;
    }
    return apply(draft, setting, setting->kind == SBX_VALUE_FLAG ? NULL : value, err);
}

static int apply_option(struct sbx_draft *draft, struct setting *setting,
                        const json_t *value, struct sbx_error *err)
{
    if (value == NULL || json_is_false(value)) {
        /* What is not a flag says so below. */
        if (value == NULL || setting->kind == SBX_VALUE_FLAG) {
            return apply_default(draft, setting, err);
        }
    }
    if (json_is_null(value) && strcmp(setting->key, "limits.wall") == 0) {
        return 0;
    }
    int r = sbx_policy_option(draft, setting->section, setting->option, err);
    if (r < 0) {
        return r;
    }
    if (setting->kind == SBX_VALUE_FLAG) {
        return apply_flag(draft, setting, value, err);
    }
    return setting->repeatable ? apply_list(draft, setting, value, err)
                               : apply_json(draft, setting, value, err);
}

int sbx_draft_options(struct sbx_draft *draft, enum sbx_section section,
                      const json_t *object, struct sbx_error *err)
{
    size_t count = 0;
    const struct sbx_option *options = sbx_section_options(section, &count);
    int r = object != NULL ? check_keys(section, object, err) : 0;
    for (size_t i = 0; r == 0 && i < count; i++) {
        char key[SBX_KEY_NAME_SIZE];
        char path[PATH_SIZE];
        if (!sbx_request_key(&options[i], section, key)) {
            continue;
        }
        struct setting setting = {.section = section,
                                  .option = &options[i],
                                  .kind = sbx_value_kind_of(&options[i]),
                                  .key = path_of(section, key, path),
                                  .repeatable =
                                      strstr(options[i].help, "repeatable") != NULL};
        r = apply_option(draft, &setting, json_object_get(object, key), err);
    }
    return r;
}

/* --- ceilings --- */

static int set_ceiling(struct sbx_draft *draft, enum sbx_section section,
                       const char *name, const json_t *value, struct sbx_error *err)
{
    char key[PATH_SIZE];
    char given[SBX_KEY_NAME_SIZE];
    SBX_AUTO_FREE char *text = NULL;
    (void)snprintf(given, sizeof given, "ceilings.%s", name);
    int r = sbx_value_text(value, SBX_VALUE_CEILING, path_of(section, given, key), &text,
                           err);
    if (r < 0) {
        return r;
    }
    size_t size = strlen(name) + strlen(text) + sizeof "=";
    SBX_AUTO_FREE char *option = malloc(size);
    if (option == NULL) {
        return sbx_request_no_memory(err);
    }
    (void)snprintf(option, size, "%s=%s", name, text);
    if (section == SBX_SECTION_SANDBOX) {
        r = sbx_sandbox_set(draft->sandbox, "rlimit", option, err);
        r = r < 0 ? sbx_request_blame(key, r, err)
                  : sbx_draft_sandbox_option(draft, "rlimit", option, err);
        return r;
    }
    r = sbx_spec_set(draft->request->spec, "rlimit", option, err);
    return r < 0 ? sbx_request_blame(key, r, err) : 0;
}

static void note_ceiling(struct sbx_draft *draft, enum sbx_section section, size_t index)
{
    char key[PATH_SIZE];
    char name[SBX_KEY_NAME_SIZE];
    char text[64];
    const struct sbx_spec *spec =
        section == SBX_SECTION_SANDBOX ? draft->sandbox->spec : draft->request->spec;
    const struct sbx_ceiling *ceiling = &spec->ceilings[index];
    (void)snprintf(name, sizeof name, "ceilings.%s", sbx_ceiling_kinds[index].name);
    (void)snprintf(text, sizeof text, "%" PRIu64 ":%" PRIu64, (uint64_t)ceiling->soft,
                   (uint64_t)ceiling->hard);
    sbx_draft_note(draft, path_of(section, name, key), text);
}

static int refuse_ceiling(enum sbx_section section, const char *name,
                          struct sbx_error *err)
{
    char key[SBX_QUOTE_SIZE + SBX_KEY_NAME_SIZE];
    char quoted[SBX_QUOTE_SIZE];
    (void)snprintf(key, sizeof key, "%s%sceilings.%s", sbx_section_name(section),
                   section != SBX_SECTION_TOP ? "." : "", sbx_option_quote(quoted, name));
    return sbx_request_refuse(err, EINVAL, key,
                              "unknown key (accepted: names as in prlimit(1))");
}

int sbx_draft_ceilings(struct sbx_draft *draft, enum sbx_section section,
                       const json_t *object, struct sbx_error *err)
{
    size_t known = 0;
    int r = 0;
    for (size_t i = 0; r == 0 && i < SBX_CEILING_COUNT; i++) {
        const char *name = sbx_ceiling_kinds[i].name;
        const json_t *value = json_object_get(object, name);
        if (value != NULL) {
            known++;
            r = set_ceiling(draft, section, name, value, err);
            if (r == 0) {
                note_ceiling(draft, section, i);
            }
        }
    }
    if (r < 0 || known == json_object_size(object)) {
        return r;
    }
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        bool found = false;
        for (size_t i = 0; !found && i < SBX_CEILING_COUNT; i++) {
            found = strcmp(sbx_ceiling_kinds[i].name, name) == 0;
        }
        if (!found) {
            return refuse_ceiling(section, name, err);
        }
    }
    return 0;
}
