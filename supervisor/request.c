/*
 * request.c - see request.h: the whole of a request, in the order in which it is made,
 * and those keys that are no options.
 *
 * The order is the same whatever the order of the keys is, so that the fingerprint, to
 * which every step adds, is too. Relies on nothing but the request and its policy; of
 * files it opens those of `env_from` alone.
 */
#include "supervisor/request_private.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "monitor/option_rules.h"
#include "monitor/run.h"
#include "sandbox/find.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUTPUT_DEFAULT_BYTES (UINT64_C(64) * 1024)
#define OUTPUT_MIN_BYTES UINT64_C(1024)
#define EVENTS_DEFAULT_COUNT UINT64_C(512)
#define EVENTS_MIN_COUNT UINT64_C(8)
#define BWRAP_PLACE "/usr/bin/bwrap"

/* --- JSON --- */

/* An upper bound of the number of values. Each costs some hundred bytes once it is
 * parsed, and may be as short as two in the text. */
static size_t count_values(const char *json, size_t length)
{
    size_t count = 1;
    bool inside = false;
    for (size_t i = 0; i < length; i++) {
        if (json[i] == '\\' && inside) {
            i++;
        } else if (json[i] == '"') {
            inside = !inside;
        } else if (!inside && (json[i] == ',' || json[i] == '[' || json[i] == '{')) {
            count++;
        }
    }
    return count;
}

/* What jansson has found near may be a value of the environment; of a key that is there
 * twice it is the key. */
static int refuse_text(const json_error_t *error, struct sbx_error *err)
{
    char text[2 * JSON_ERROR_TEXT_LENGTH];
    char quoted[SBX_QUOTE_SIZE];
    enum json_error_code code = json_error_code(error);
    /* It says so, or nothing. */
    if (code == json_error_out_of_memory || error->text[0] == '\0') {
        return sbx_request_no_memory(err);
    }
    (void)snprintf(text, sizeof text, "%s", error->text);
    char *near = strstr(text, " near ");
    if (near != NULL && code != json_error_duplicate_key) {
        *near = '\0';
    }
    return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                         "request: not JSON that can be used: line %d, column %d: %s",
                         error->line, error->column, sbx_option_quote(quoted, text));
}

static int load(const char *json, size_t length, json_t **ret_root, struct sbx_error *err)
{
    json_error_t error = {.line = 0};
    if (length > SBX_REQUEST_SIZE_MAX) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "request: %zu bytes are too many (accepted: %zu)", length,
                             SBX_REQUEST_SIZE_MAX);
    }
    /* A zero would be the end of the text to the parser. */
    if (length == 0 || memchr(json, '\0', length) != NULL) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "request: not JSON that can be used: %s",
                             length == 0 ? "it is empty" : "a byte is zero");
    }
    if (count_values(json, length) > SBX_REQUEST_VALUES_MAX) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "request: too many values (accepted: %zu)",
                             SBX_REQUEST_VALUES_MAX);
    }
    json_t *root = json_loadb(json, length, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        return refuse_text(&error, err);
    }
    if (!json_is_object(root)) {
        const char *type = sbx_value_type(root);
        json_decref(root);
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "request: is %s (accepted: an object)", type);
    }
    *ret_root = root;
    return 0;
}

/* --- the steps --- */

/* A string that is there; NULL: it is not. */
static int take_string(const json_t *root, const char *key, const char **ret_string,
                       struct sbx_error *err)
{
    const json_t *value = json_object_get(root, key);
    if (value != NULL && !json_is_string(value)) {
        return sbx_request_refuse(err, EINVAL, key, "is %s (accepted: a string)",
                                  sbx_value_type(value));
    }
    *ret_string = value != NULL ? json_string_value(value) : NULL;
    return 0;
}

static int take_id(struct sbx_draft *draft, const json_t *root, struct sbx_error *err)
{
    char quoted[SBX_QUOTE_SIZE];
    const char *id = NULL;
    int r = take_string(root, "id", &id, err);
    if (r < 0 || id == NULL) {
        return r;
    }
    if (!sbx_id_is_valid(id)) {
        return sbx_request_refuse(err, EINVAL, "id",
                                  "'%s' is no id (accepted: a letter or digit, then at "
                                  "most 127 of letters, digits and ._:-)",
                                  sbx_option_quote(quoted, id));
    }
    memcpy(draft->request->facts.id, id, strlen(id) + 1);
    return 0;
}

/* A number of a request's own, with what the operator allows of it. */
struct bound {
    const char *key;
    const struct sbx_number_kind *kind;
    enum sbx_value_kind form;
    uint64_t minimum;
    const char *accepted;
    const char *option; /* of sbxd */
    const char *unit;   /* of both numbers, in a message */
    uint64_t most;
    uint64_t standard;
    uint64_t *field;
};

static int take_bound(struct sbx_draft *draft, const json_t *root,
                      const struct bound *bound, struct sbx_error *err)
{
    SBX_AUTO_FREE char *text = NULL;
    char digits[24];
    uint64_t number = bound->standard < bound->most ? bound->standard : bound->most;
    const json_t *value = json_object_get(root, bound->key);
    if (value != NULL) {
        const struct sbx_rule rule = {.name = bound->key,
                                      .kind = bound->kind,
                                      .minimum = bound->minimum,
                                      .maximum = SBX_NUMBER_MAX,
                                      .bounds = bound->accepted};
        int r = sbx_value_text(value, bound->form, bound->key, &text, err);
        if (r < 0) {
            return r;
        }
        r = sbx_option_number(&rule, text, &number, err);
        if (r < 0) {
            return sbx_request_blame(bound->key, r, err);
        }
    }
    if (number > bound->most) {
        return sbx_request_refuse(err, EPERM, bound->key,
                                  "%" PRIu64 " is more than the operator allows (%s: "
                                  "%" PRIu64 "%s)",
                                  number, bound->option, bound->most, bound->unit);
    }
    (void)snprintf(digits, sizeof digits, "%" PRIu64, number);
    sbx_draft_note(draft, bound->key, digits);
    *bound->field = number;
    return 0;
}

static int take_bounds(struct sbx_draft *draft, const json_t *root, struct sbx_error *err)
{
    const struct sbx_request_policy *policy = draft->policy;
    struct sbx_facts *facts = &draft->request->facts;
    const struct bound bounds[] = {
        {"retention", &sbx_kind_duration, SBX_VALUE_DURATION, 1, "above 0",
         "max-retention", " us", policy->max_retention_us, policy->default_retention_us,
         &facts->retention_us},
        {"output_limit", &sbx_kind_size, SBX_VALUE_SIZE, OUTPUT_MIN_BYTES, "at least 1K",
         "max-output", " bytes", policy->max_output_bytes, OUTPUT_DEFAULT_BYTES,
         &facts->output_limit_bytes},
        {"event_limit", &sbx_kind_count, SBX_VALUE_COUNT, EVENTS_MIN_COUNT, "at least 8",
         "max-events", "", policy->max_events_count, EVENTS_DEFAULT_COUNT,
         &facts->event_limit_count},
    };
    int r = 0;
    for (size_t i = 0; r == 0 && i < SBX_LENGTH(bounds); i++) {
        r = take_bound(draft, root, &bounds[i], err);
    }
    return r;
}

static int take_when_full(struct sbx_draft *draft, const json_t *root,
                          struct sbx_error *err)
{
    char quoted[SBX_QUOTE_SIZE];
    const char *word = NULL;
    int r = take_string(root, "when_full", &word, err);
    if (r < 0) {
        return r;
    }
    word = word != NULL ? word : "drop";
    if (strcmp(word, "drop") != 0 && strcmp(word, "pause") != 0) {
        return sbx_request_refuse(err, EINVAL, "when_full",
                                  "'%s' is unknown (accepted: drop, pause)",
                                  sbx_option_quote(quoted, word));
    }
    draft->request->facts.pause_when_full = *word == 'p';
    sbx_draft_note(draft, "when_full", word);
    return 0;
}

static int take_options(struct sbx_draft *draft, const json_t *root,
                        struct sbx_error *err)
{
    const json_t *limits = NULL;
    const json_t *ceilings = NULL;
    int r = sbx_draft_options(draft, SBX_SECTION_TOP, root, err);
    r = r == 0 ? sbx_draft_object(root, "limits", &limits, err) : r;
    r = r == 0 ? sbx_draft_options(draft, SBX_SECTION_LIMITS, limits, err) : r;
    r = r == 0 ? sbx_draft_object(root, "ceilings", &ceilings, err) : r;
    return r == 0 ? sbx_draft_ceilings(draft, SBX_SECTION_TOP, ceilings, err) : r;
}

/* bubblewrap by its path: whoever sets PATH for sbx-run would choose it. */
static int name_bwrap(struct sbx_draft *draft, struct sbx_error *err)
{
    char path[PATH_MAX];
    struct stat status;
    return sbx_draft_sandbox_option(
        draft, "bwrap", sbx_find_bwrap(path, &status) ? path : BWRAP_PLACE, err);
}

static int take_sandbox(struct sbx_draft *draft, const json_t *root,
                        struct sbx_error *err)
{
    const json_t *object = NULL;
    const json_t *ceilings = NULL;
    int r = sbx_draft_object(root, "sandbox", &object, err);
    if (r < 0 || (object == NULL && !draft->policy->force_sandbox)) {
        return r;
    }
    sbx_draft_note(draft, "sandbox", "");
    draft->sandbox = sbx_sandbox_new();
    if (draft->sandbox == NULL) {
        return sbx_request_no_memory(err);
    }
    r = sbx_draft_options(draft, SBX_SECTION_SANDBOX, object, err);
    if (r == 0 && object != NULL) {
        const json_t *value = json_object_get(object, "ceilings");
        if (value != NULL && !json_is_object(value)) {
            return sbx_request_refuse(err, EINVAL, "sandbox.ceilings",
                                      "is %s (accepted: an object)",
                                      sbx_value_type(value));
        }
        ceilings = value;
    }
    r = r == 0 ? sbx_draft_ceilings(draft, SBX_SECTION_SANDBOX, ceilings, err) : r;
    return r == 0 && json_object_get(object, "bwrap") == NULL ? name_bwrap(draft, err)
                                                              : r;
}

/* Without `cwd` the directory of sbxd is not the client's either. */
static int take_directory(struct sbx_draft *draft, const json_t *root,
                          struct sbx_error *err)
{
    SBX_AUTO_FREE char *path = NULL;
    const json_t *value = json_object_get(root, "cwd");
    int r = value != NULL ? sbx_value_text(value, SBX_VALUE_PATH, "cwd", &path, err) : 0;
    if (r < 0) {
        return r;
    }
    bool outside = draft->sandbox == NULL && path != NULL;
    r = sbx_spec_set(draft->request->spec, "chdir", outside ? path : "/", err);
    if (r == 0 && draft->sandbox != NULL && path != NULL) {
        r = sbx_sandbox_set(draft->sandbox, "chdir", path, err);
        r = r == 0 ? sbx_draft_sandbox_option(draft, "chdir", path, err) : r;
    }
    if (r < 0) {
        return sbx_request_blame("cwd", r, err);
    }
    if (path != NULL && (draft->sandbox != NULL || strcmp(path, "/") != 0)) {
        sbx_draft_note(draft, "cwd", path);
    }
    return 0;
}

static int take_environment(struct sbx_draft *draft, const json_t *root,
                            struct sbx_error *err)
{
    const json_t *object = NULL;
    int r = sbx_draft_object(root, "env", &object, err);
    return r == 0 ? sbx_draft_environment(draft, object, err) : r;
}

/* --- standard input --- */

static int take_data(struct sbx_draft *draft, const json_t *object, struct sbx_error *err)
{
    struct sbx_request *request = draft->request;
    const json_t *plain = json_object_get(object, "data");
    const json_t *base64 = json_object_get(object, "data_base64");
    const json_t *value = plain != NULL ? plain : base64;
    const char *key = plain != NULL ? "stdin.data" : "stdin.data_base64";
    if (value == NULL || json_object_size(object) != 1) {
        return sbx_request_refuse(err, EINVAL, "stdin",
                                  "is an object of something else (accepted: one of "
                                  "data, data_base64)");
    }
    if (!json_is_string(value)) {
        return sbx_request_refuse(err, EINVAL, key, "is %s (accepted: a string)",
                                  sbx_value_type(value));
    }
    size_t length = json_string_length(value);
    const char *text = json_string_value(value);
    request->stdin_kind = SBX_REQUEST_STDIN_DATA;
    if (plain != NULL) {
        request->stdin_data = strndup(text, length);
        request->stdin_length = length;
        return request->stdin_data != NULL ? 0 : sbx_request_no_memory(err);
    }
    int r = sbx_value_base64(text, length, &request->stdin_data, &request->stdin_length);
    if (r == -ENOMEM) {
        return sbx_request_no_memory(err);
    }
    return r < 0 ? sbx_request_refuse(err, EINVAL, key,
                                      "is not base64 (accepted: that of "
                                      "RFC 4648, with its padding)")
                 : 0;
}

static int take_stdin(struct sbx_draft *draft, const json_t *root, struct sbx_error *err)
{
    static const char *const kinds[] = {"null", "open", "data"};
    struct sbx_request *request = draft->request;
    const json_t *value = json_object_get(root, "stdin");
    const char *word = json_is_string(value) ? json_string_value(value) : "";
    int r = 0;
    if (json_is_object(value)) {
        r = take_data(draft, value, err);
    } else if (strcmp(word, "open") == 0) {
        request->stdin_kind = SBX_REQUEST_STDIN_OPEN;
    } else if (value != NULL && strcmp(word, "null") != 0) {
        r = sbx_request_refuse(err, EINVAL, "stdin",
                               "is something else than it can be (accepted: \"null\", "
                               "\"open\", {\"data\": TEXT}, {\"data_base64\": TEXT})");
    }
    if (r == 0) {
        sbx_draft_note(draft, "stdin", kinds[request->stdin_kind]);
        sbx_fingerprint_add(draft->fingerprint, "data", request->stdin_data,
                            request->stdin_length);
    }
    return r;
}

/* --- the command line --- */

static int add_list(struct sbx_draft *draft, const json_t *root, const char *key,
                    struct sbx_strings *line, struct sbx_error *err)
{
    const json_t *list = json_object_get(root, key);
    if (list != NULL && !json_is_array(list)) {
        return sbx_request_refuse(err, EINVAL, key,
                                  "is %s (accepted: an array of strings)",
                                  sbx_value_type(list));
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        if (!json_is_string(item)) {
            return sbx_request_refuse(err, EINVAL, key,
                                      "its entry %zu is %s (accepted: a string)", i,
                                      sbx_value_type(item));
        }
        const char *text = json_string_value(item);
        sbx_draft_note(draft, key, text);
        if (sbx_strings_add(line, text, strlen(text)) < 0) {
            return sbx_request_no_memory(err);
        }
    }
    return 0;
}

static int add_program(struct sbx_draft *draft, const json_t *root,
                       struct sbx_strings *line, struct sbx_error *err)
{
    const char *command = NULL;
    size_t before = line->count;
    int r = add_list(draft, root, "launcher", line, err);
    if (r == 0 && line->count > before && line->items[before][0] == '\0') {
        return sbx_request_refuse(err, EINVAL, "launcher", "begins with an empty string");
    }
    r = r == 0 ? take_string(root, "command", &command, err) : r;
    if (r < 0) {
        return r;
    }
    if (command == NULL || command[0] == '\0') {
        return sbx_request_refuse(err, EINVAL, "command", "%s (accepted: a string)",
                                  command == NULL ? "is missing" : "is empty");
    }
    sbx_draft_note(draft, "command", command);
    return sbx_strings_add(line, command, strlen(command)) < 0
               ? sbx_request_no_memory(err)
               : 0;
}

/* The sandbox, the launcher, the command, in one line. */
static int fill_line(struct sbx_draft *draft, const json_t *root,
                     struct sbx_strings *line, struct sbx_error *err)
{
    const char *program = draft->policy->sandbox_program;
    const struct sbx_strings *options = &draft->sandbox_options;
    if (draft->sandbox != NULL) {
        int r = sbx_strings_add(line, program, strlen(program));
        for (size_t i = 0; r == 0 && i < options->count; i++) {
            r = sbx_strings_add(line, options->items[i], strlen(options->items[i]));
        }
        if (r < 0 || sbx_strings_add(line, "--", 2) < 0) {
            return sbx_request_no_memory(err);
        }
    }
    int r = add_program(draft, root, line, err);
    return r == 0 ? add_list(draft, root, "args", line, err) : r;
}

static int take_command(struct sbx_draft *draft, const json_t *root,
                        struct sbx_error *err)
{
    struct sbx_strings line = {.items = NULL};
    int r = fill_line(draft, root, &line, err);
    const char **argv = r == 0 ? calloc(line.count + 1, sizeof *argv) : NULL;
    if (argv != NULL) {
        for (size_t i = 0; i < line.count; i++) {
            argv[i] = line.items[i];
        }
        r = sbx_spec_set_command(draft->request->spec, argv, err);
    } else if (r == 0) {
        r = sbx_request_no_memory(err);
    }
    free(argv);
    sbx_strings_done(&line);
    return r;
}

/* What makes no sense together, and what is not allowed. */
static int check(struct sbx_draft *draft, const json_t *root, struct sbx_error *err)
{
    (void)root;
    int r = sbx_policy_check(draft, err);
    if (r < 0) {
        return r;
    }
    r = sbx_run_check(draft->request->spec, err);
    return r < 0 ? sbx_request_blame_option(r, err) : 0;
}

static int (*const steps[])(struct sbx_draft *draft, const json_t *root,
                            struct sbx_error *err) = {
    take_options,   take_id,          take_bounds, take_when_full, take_sandbox,
    take_directory, take_environment, take_stdin,  take_command,   check,
};

/* --- all of it --- */

static int fill(struct sbx_draft *draft, const json_t *root, struct sbx_error *err)
{
    struct sbx_request *request = draft->request;
    char uid[24];
    request->facts.uid = draft->policy->uid;
    request->spec = sbx_spec_new();
    if (request->spec == NULL) {
        return sbx_request_no_memory(err);
    }
    (void)snprintf(uid, sizeof uid, "%" PRIu32, request->facts.uid);
    sbx_draft_note(draft, "uid", uid);
    int r = 0;
    for (size_t i = 0; r == 0 && i < SBX_LENGTH(steps); i++) {
        r = steps[i](draft, root, err);
    }
    if (r == 0) {
        sbx_fingerprint_digest(draft->fingerprint, request->facts.digest);
    }
    return r;
}

static int make(const json_t *root, const struct sbx_request_policy *policy,
                struct sbx_request **ret_request, struct sbx_error *err)
{
    struct sbx_draft draft = {.policy = policy,
                              .request = calloc(1, sizeof *draft.request),
                              .fingerprint = sbx_fingerprint_new(policy->key)};
    int r = draft.request != NULL && draft.fingerprint != NULL
                ? fill(&draft, root, err)
                : sbx_request_no_memory(err);
    sbx_fingerprint_free(draft.fingerprint);
    sbx_strings_done(&draft.sandbox_options);
    sbx_sandbox_free(draft.sandbox);
    if (r < 0) {
        sbx_request_free(draft.request);
        return r;
    }
    *ret_request = draft.request;
    return 0;
}

int sbx_request_parse(const char *json, size_t length,
                      const struct sbx_request_policy *policy,
                      struct sbx_request **ret_request, struct sbx_error *err)
{
    json_t *root = NULL;
    int r = load(json, length, &root, err);
    if (r < 0) {
        return r;
    }
    r = make(root, policy, ret_request, err);
    json_decref(root);
    return r;
}

void sbx_request_free(struct sbx_request *request)
{
    if (request == NULL) {
        return;
    }
    sbx_spec_free(request->spec);
    free(request->stdin_data);
    free(request);
}
