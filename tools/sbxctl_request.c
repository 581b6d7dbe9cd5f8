/*
 * sbxctl_request.c - from options to the JSON of a request. Which options there are, the
 * tables of sbx-watch and sbx-run say: one that is new there needs nothing here. Values
 * stand in the request as they stand on the command line; what they mean, the service
 * knows.
 *
 * What is relative to us is made absolute or is replaced by its value here: paths,
 * variables that are named alone, our standard input.
 */
#include "tools/command_line.h"
#include "tools/sbxctl.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define KEY_SIZE 64
#define READ_FIRST ((size_t)64 * 1024)
#define READ_MAX ((size_t)16 * 1024 * 1024)
#define ID_BYTES 16

static const char sandbox_prefix[] = "sandbox-";

/* --- which options there are --- */

static bool is_listed(const char *const *list, const char *name)
{
    while (*list != NULL && strcmp(*list, name) != 0) {
        list++;
    }
    return *list != NULL;
}

/* About a terminal, a report, messages, attaching or descriptors: not in a request. */
static bool is_of_run(const struct sbx_option *option)
{
    static const char *const groups[] = {"Report and messages", "Exit status",
                                         "Attaching", NULL};
    static const char *const names[] = {"keep-fd", "die-with-parent", "detach", "stdin",
                                        NULL};
    return !is_listed(groups, option->group) && !is_listed(names, option->name);
}

/* A sandbox has the variables and the directory of the run. */
static bool is_of_sandbox(const struct sbx_option *option)
{
    static const char *const names[] = {"chdir", "env", "env-from", NULL};
    return !is_listed(names, option->name);
}

static bool is_in(const struct sbx_option *option, const struct sbx_option *table,
                  size_t count)
{
    return option >= table && option < table + count;
}

const struct sbx_option *sbx_ctl_request_option(const char *name, char letter)
{
    size_t count = 0;
    size_t prefix = sizeof sandbox_prefix - 1;
    const struct sbx_option *table = sbx_options(&count);
    const struct sbx_option *found = sbx_line_find(table, count, name, letter);
    if (found != NULL) {
        return is_of_run(found) ? found : NULL;
    }
    if (name == NULL || strncmp(name, sandbox_prefix, prefix) != 0) {
        return NULL;
    }
    table = sbx_sandbox_options(&count);
    found = sbx_line_find(table, count, name + prefix, 0);
    return found != NULL && is_of_sandbox(found) ? found : NULL;
}

static void print_those(const struct sbx_option *table, size_t count,
                        bool (*wanted)(const struct sbx_option *), const char *prefix)
{
    struct sbx_option *shown = calloc(count, sizeof *shown);
    char *names = calloc(count, KEY_SIZE);
    size_t used = 0;
    for (size_t i = 0; shown != NULL && names != NULL && i < count; i++) {
        if (wanted(&table[i])) {
            char *name = names + used * KEY_SIZE;
            (void)snprintf(name, KEY_SIZE, "%s%s", prefix, table[i].name);
            shown[used] = table[i];
            shown[used++].name = name;
        }
    }
    if (shown != NULL) {
        sbx_line_print_options(shown, used);
    }
    free(names);
    free(shown);
}

void sbx_ctl_request_help(void)
{
    size_t count = 0;
    const struct sbx_option *table = sbx_options(&count);
    print_those(table, count, is_of_run, "");
    table = sbx_sandbox_options(&count);
    (void)fputs("\nWith any of these, or --sandbox, it is confined as sbx-run does:\n",
                stdout);
    print_those(table, count, is_of_sandbox, sandbox_prefix);
}

/* --- JSON --- */

static int no_memory(void)
{
    (void)sbx_ctl_fail("no memory");
    return SBX_STATUS_FAILED;
}

/* An object in the draft, made where it is not there yet. NULL: no memory. */
static json_t *object_in(json_t *draft, const char *name)
{
    json_t *object = json_object_get(draft, name);
    if (object == NULL && json_object_set_new(draft, name, json_object()) == 0) {
        object = json_object_get(draft, name);
    }
    return object;
}

static int text_value(const char *name, const char *text, json_t **ret_value)
{
    json_t *value = json_string(text);
    if (value == NULL) {
        return sbx_ctl_fail("option --%s: the value is no UTF-8", name);
    }
    *ret_value = value;
    return 0;
}

static int set_take(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) < 0 ? no_memory() : 0;
}

static int add_take(json_t *object, const char *key, json_t *value)
{
    json_t *list = json_object_get(object, key);
    if (list == NULL) {
        if (json_object_set_new(object, key, json_array()) < 0) {
            json_decref(value);
            return no_memory();
        }
        list = json_object_get(object, key);
    }
    return json_array_append_new(list, value) < 0 ? no_memory() : 0;
}

/* --max-x of a table is max_x in a request. */
static void key_of(const char *name, char key[static KEY_SIZE])
{
    (void)snprintf(key, KEY_SIZE, "%s", name);
    for (char *at = key; *at != '\0'; at++) {
        *at = *at == '-' ? '_' : *at;
    }
}

/* --- values --- */

/* NAME=VALUE, or NAME where `alone` allows that: *ret_value is NULL then. */
static int split(const char *option, const char *text, bool alone, char **ret_name,
                 const char **ret_value)
{
    size_t length = strcspn(text, "=");
    if (length == 0 || (text[length] == '\0' && !alone)) {
        return sbx_ctl_fail("option --%s: '%.64s' is not NAME=VALUE", option, text);
    }
    char *name = strndup(text, length);
    if (name == NULL) {
        return no_memory();
    }
    *ret_name = name;
    *ret_value = text[length] == '=' ? text + length + 1 : NULL;
    return 0;
}

static int set_named(json_t *object, const char *option, const char *text, bool alone)
{
    char *name = NULL;
    const char *value = NULL;
    json_t *json = NULL;
    if (object == NULL) {
        return no_memory();
    }
    int status = split(option, text, alone, &name, &value);
    if (status != 0) {
        return status;
    }
    value = value != NULL ? value : getenv(name);
    if (value == NULL) {
        status =
            sbx_ctl_fail("option --%s: there is no variable '%.64s' here", option, name);
    }
    status = status == 0 ? text_value(option, value, &json) : status;
    if (status == 0 && json_object_set_new(object, name, json) < 0) {
        status = sbx_ctl_fail("option --%s: the name is no UTF-8", option);
    }
    free(name);
    return status;
}

/* What the service opens it finds from the root; but the name of a group is no file. */
static bool is_path(const struct sbx_option *option)
{
    const char *value = option->value;
    return strcmp(option->name, "cgroup-root") != 0 &&
           (strstr(value, "PATH") != NULL || strstr(value, "FILE") != NULL ||
            strstr(value, "DIR") != NULL);
}

static int path_value(const char *name, const char *path, json_t **ret_value)
{
    char directory[PATH_MAX];
    char *whole = NULL;
    if (path[0] == '/' || path[0] == '\0') {
        return text_value(name, path, ret_value);
    }
    if (getcwd(directory, sizeof directory) == NULL) {
        return sbx_ctl_fail("option --%s: '%.64s' is relative, and there is no "
                            "working directory",
                            name, path);
    }
    bool here = strcmp(path, ".") == 0;
    if (asprintf(&whole, "%s%s%s", directory,
                 here || strcmp(directory, "/") == 0 ? "" : "/", here ? "" : path) < 0) {
        return no_memory();
    }
    int status = text_value(name, whole, ret_value);
    free(whole);
    return status;
}

/* An option of one of the tables, in the object of its section. */
static int set_option(json_t *object, const struct sbx_option *option, const char *name,
                      const char *value)
{
    char key[KEY_SIZE];
    json_t *json = NULL;
    if (object == NULL) {
        return no_memory();
    }
    key_of(option->name, key);
    if (option->value == NULL) {
        return set_take(object, key, json_true());
    }
    int status =
        is_path(option) ? path_value(name, value, &json) : text_value(name, value, &json);
    if (status != 0) {
        return status;
    }
    bool repeatable = strstr(option->help, "repeatable") != NULL;
    return repeatable ? add_take(object, key, json) : set_take(object, key, json);
}

static int set_of_sandbox(json_t *draft, const struct sbx_option *option,
                          const char *name, const char *value)
{
    json_t *sandbox = object_in(draft, "sandbox");
    if (sandbox != NULL && strcmp(option->name, "rlimit") == 0) {
        return set_named(object_in(sandbox, "ceilings"), name, value, false);
    }
    return set_option(sandbox, option, name, value);
}

static int set_of_run(json_t *draft, const struct sbx_option *option, const char *value)
{
    const char *name = option->name;
    json_t *json = NULL;
    if (strcmp(name, "rlimit") == 0) {
        return set_named(object_in(draft, "ceilings"), name, value, false);
    }
    if (strcmp(name, "env") == 0) {
        return set_named(object_in(draft, "env"), name, value, true);
    }
    if (strcmp(name, "chdir") == 0) {
        int status = path_value(name, value, &json);
        return status == 0 ? set_take(draft, "cwd", json) : status;
    }
    /* --output-keep stands among the limits, and is none. */
    bool limit = strcmp(option->group, "Limits of the tree") == 0 &&
                 strcmp(name, "output-keep") != 0;
    return set_option(limit ? object_in(draft, "limits") : draft, option, name, value);
}

/* Those of sbxctl itself that are keys, too. */
static int set_own(json_t *draft, const struct sbx_option *option, const char *value)
{
    static const char *const no_keys[] = {"wait", "follow", "request", "stdin", NULL};
    if (strcmp(option->name, "sandbox") == 0) {
        return object_in(draft, "sandbox") != NULL ? 0 : no_memory();
    }
    return is_listed(no_keys, option->name)
               ? 0
               : set_option(draft, option, option->name, value);
}

int sbx_ctl_request_set(json_t *draft, const struct sbx_option *option, const char *name,
                        const char *value)
{
    size_t count = 0;
    const struct sbx_option *table = sbx_options(&count);
    if (is_in(option, table, count)) {
        return set_of_run(draft, option, value);
    }
    table = sbx_sandbox_options(&count);
    return is_in(option, table, count) ? set_of_sandbox(draft, option, name, value)
                                       : set_own(draft, option, value);
}

/* --- the whole of it --- */

/* All of a descriptor, with a bound. Status. */
static int read_all(int fd, const char *what, char **ret_data, size_t *ret_length)
{
    size_t length = 0;
    size_t size = READ_FIRST;
    char *data = malloc(size);
    while (data != NULL) {
        ssize_t r = read(fd, data + length, size - length);
        if (r == 0) {
            *ret_data = data;
            *ret_length = length;
            return 0;
        }
        if (r < 0 && errno != EINTR) {
            int code = errno;
            free(data);
            return sbx_ctl_fail("%s: %s (%s)", what, strerrordesc_np(code),
                                strerrorname_np(code));
        }
        length += r > 0 ? (size_t)r : 0;
        if (length > READ_MAX) {
            free(data);
            return sbx_ctl_fail("%s: more than %zu bytes", what, READ_MAX);
        }
        if (length == size) {
            char *more = realloc(data, size *= 2);
            if (more == NULL) {
                free(data);
            }
            data = more;
        }
    }
    return no_memory();
}

/* RFC 4648, with padding. NULL: no memory. */
static char *base64_of(const char *data, size_t length)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc((length + 2) / 3 * 4 + 1);
    char *at = text;
    for (size_t i = 0; text != NULL && i < length; i += 3) {
        size_t rest = length - i;
        unsigned group = (unsigned)(unsigned char)data[i] << 16;
        group |= rest > 1 ? (unsigned)(unsigned char)data[i + 1] << 8 : 0;
        group |= rest > 2 ? (unsigned)(unsigned char)data[i + 2] : 0;
        *at++ = digits[group >> 18];
        *at++ = digits[group >> 12 & 63];
        *at++ = '=';
        *at++ = '=';
        if (rest > 1) {
            at[-2] = digits[group >> 6 & 63];
        }
        if (rest > 2) {
            at[-1] = digits[group & 63];
        }
    }
    if (text != NULL) {
        *at = '\0';
    }
    return text;
}

static int set_stdin(json_t *draft, const char *value)
{
    char *data = NULL;
    size_t length = 0;
    json_t *json = NULL;
    if (strcmp(value, "-") != 0) {
        int status = text_value("stdin", value, &json);
        return status == 0 ? set_take(draft, "stdin", json) : status;
    }
    int status = read_all(STDIN_FILENO, "standard input", &data, &length);
    if (status != 0 || data == NULL) {
        return status;
    }
    char *text = base64_of(data, length);
    explicit_bzero(data, length);
    free(data);
    json = text != NULL ? json_pack("{s:s}", "data_base64", text) : NULL;
    free(text);
    return set_take(draft, "stdin", json);
}

/* The request of a file, on top of which the draft comes. */
static int load_request(const char *path, json_t **ret_request)
{
    bool ours = strcmp(path, "-") == 0;
    const char *what = ours ? "standard input" : path;
    char *data = NULL;
    size_t length = 0;
    json_error_t error;
    int fd = ours ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return sbx_ctl_fail("option --request: %s: %s (%s)", path, strerrordesc_np(errno),
                            strerrorname_np(errno));
    }
    int status = read_all(fd, what, &data, &length);
    if (!ours) {
        (void)close(fd);
    }
    if (status != 0) {
        return status;
    }
    json_t *request =
        json_loadb(data, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    free(data);
    if (!json_is_object(request)) {
        json_decref(request);
        return sbx_ctl_fail("option --request: %s: %s", what,
                            request != NULL ? "it is no JSON object" : error.text);
    }
    *ret_request = request;
    return 0;
}

static int set_command(json_t *request, char *const *words)
{
    json_t *json = NULL;
    if (words[0] == NULL) {
        return json_object_get(request, "command") != NULL
                   ? 0
                   : sbx_ctl_fail(
                         "no command given (usage: sbxctl start [OPTION]... [--] "
                         "COMMAND [ARG]...)");
    }
    json = json_string(words[0]);
    int status = json != NULL ? set_take(request, "command", json)
                              : sbx_ctl_fail("the command is no UTF-8");
    (void)json_object_del(request, "args");
    for (size_t i = 1; status == 0 && words[i] != NULL; i++) {
        json = json_string(words[i]);
        status = json != NULL ? add_take(request, "args", json)
                              : sbx_ctl_fail("argument %zu is no UTF-8", i);
    }
    return status;
}

/* Made here, so that a start whose answer is lost can be asked for again. */
static int set_id(json_t *request)
{
    unsigned char random[ID_BYTES];
    char id[2 * ID_BYTES + 1];
    if (json_object_get(request, "id") != NULL) {
        return 0;
    }
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        return sbx_ctl_fail("no random numbers for an id");
    }
    for (size_t i = 0; i < sizeof random; i++) {
        (void)snprintf(id + 2 * i, 3, "%02x", random[i]);
    }
    return set_take(request, "id", json_string(id));
}

static int complete(struct sbx_ctl *ctl, json_t *request)
{
    const char *input = sbx_ctl_value(ctl, "stdin");
    int status = json_object_update_recursive(request, ctl->draft) < 0 ? no_memory() : 0;
    status = status == 0 && input != NULL ? set_stdin(request, input) : status;
    status = status == 0 ? set_command(request, ctl->operands) : status;
    return status == 0 ? set_id(request) : status;
}

int sbx_ctl_request_text(struct sbx_ctl *ctl, char **ret_text, char **ret_id)
{
    const char *input = sbx_ctl_value(ctl, "stdin");
    const char *file = sbx_ctl_value(ctl, "request");
    json_t *request = NULL;
    int status = 0;
    if (input != NULL && file != NULL && strcmp(input, "-") == 0 &&
        strcmp(file, "-") == 0) {
        return sbx_ctl_fail("--stdin - and --request - cannot both be standard input");
    }
    if (file != NULL) {
        status = load_request(file, &request);
    } else {
        request = json_object();
    }
    status = status == 0 ? complete(ctl, request) : status;
    if (status == 0) {
        const char *id = json_string_value(json_object_get(request, "id"));
        char *text = json_dumps(request, JSON_COMPACT);
        char *copy = id != NULL ? strdup(id) : NULL;
        if (text == NULL || copy == NULL) {
            free(text);
            free(copy);
            status = id == NULL ? sbx_ctl_fail("the id of the request is no string")
                                : no_memory();
        } else {
            *ret_text = text;
            *ret_id = copy;
        }
    }
    json_decref(request);
    return status;
}
