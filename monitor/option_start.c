/*
 * option_start.c - options that say how the command starts, where their values are more
 * than a flag (see options.c for the table).
 *
 * Reads files when the option is set: a relative path means what it meant to whoever
 * wrote it, and the command's user does not matter. Values of variables never get into a
 * message. Users and groups are numbers; the one look-up there is reads /etc/passwd
 * itself, so that no name service is loaded.
 */
#include "monitor/option_rules.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PASSWD_FILE "/etc/passwd"
#define PASSWD_LINE_SIZE 4096
#define ID_SIZE 24
/* The number beyond it means "leave it as it is" to the kernel. */
#define ID_MAX (UINT32_MAX - 1)
#define UMASK_DIGITS 4

/* --- environment --- */

int sbx_set_env(struct sbx_spec *spec, const struct sbx_rule *rule, const char *value,
                struct sbx_error *err)
{
    if (*value == '\0' || *value == '=') {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "option --%s: the name is empty (accepted: NAME, to take "
                             "the caller's, or NAME=VALUE)",
                             rule->name);
    }
    if (sbx_strings_add(&spec->environment.given, value, strlen(value)) < 0) {
        return sbx_error_set(err, ENOMEM, SBX_STAGE_OPTIONS, "option --%s: no memory",
                             rule->name);
    }
    return 0;
}

/* All of the file, or -EFBIG, or another negative errno. As patient as any program that
 * reads a file that it was given: nothing runs yet. */
static ssize_t read_file(const char *path, char *buffer, size_t size)
{
    SBX_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    size_t used = 0;
    if (fd < 0) {
        return -errno;
    }
    while (used < size) {
        ssize_t length = read(fd, buffer + used, size - used);
        if (length == 0) {
            return (ssize_t)used;
        }
        if (length > 0) {
            used += (size_t)length;
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return -EFBIG;
}

int sbx_set_env_from(struct sbx_spec *spec, const struct sbx_rule *rule,
                     const char *value, struct sbx_error *err)
{
    char quoted[SBX_QUOTE_SIZE];
    if (*value == '\0') {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "option --%s: '' is not a path (accepted: a path)",
                             rule->name);
    }
    SBX_AUTO_FREE char *text = malloc(SBX_ENVIRONMENT_FILE_MAX + 1);
    ssize_t length =
        text != NULL ? read_file(value, text, SBX_ENVIRONMENT_FILE_MAX + 1) : -ENOMEM;
    if (length < 0) {
        int code = (int)-length;
        const struct sbx_errno_text reason = sbx_errno_text(code);
        const char *why = code == EFBIG ? "is larger than 1 MiB" : reason.text;
        return sbx_error_set(err, code, SBX_STAGE_OPTIONS, "option --%s: '%s': %s",
                             rule->name, sbx_option_quote(quoted, value), why);
    }
    int error = sbx_environment_add_file(&spec->environment, text, (size_t)length, err);
    explicit_bzero(text, (size_t)length);
    if (error < 0) {
        sbx_error_prefix(err, "option --%s: '%s'", rule->name,
                         sbx_option_quote(quoted, value));
    }
    return error;
}

/* --- user --- */

static bool parse_id(const char *text, size_t length, uint32_t *ret_id)
{
    char digits[ID_SIZE];
    uint64_t number = 0;
    if (length >= sizeof digits) {
        return false;
    }
    memcpy(digits, text, length);
    digits[length] = '\0';
    if (sbx_text_count(digits, &number) < 0 || number > ID_MAX) {
        return false;
    }
    *ret_id = (uint32_t)number;
    return true;
}

/* The primary group of a user by the local file. */
static bool find_group(uid_t uid, gid_t *ret_gid)
{
    struct passwd entry = {.pw_uid = 0};
    struct passwd *found = NULL;
    char line[PASSWD_LINE_SIZE];
    FILE *file = fopen(PASSWD_FILE, "re");
    if (file == NULL) {
        return false;
    }
    bool known = false;
    while (!known && fgetpwent_r(file, &entry, line, sizeof line, &found) == 0) {
        /* "+" and "-" are remarks for a name service. */
        known = entry.pw_uid == uid && strchr("+-", entry.pw_name[0]) == NULL;
    }
    if (known) {
        *ret_gid = entry.pw_gid;
    }
    (void)fclose(file);
    return known;
}

int sbx_set_user(struct sbx_spec *spec, const struct sbx_rule *rule, const char *value,
                 struct sbx_error *err)
{
    char quoted[SBX_QUOTE_SIZE];
    uint32_t uid = 0;
    uint32_t gid = 0;
    size_t length = strcspn(value, ":");
    bool has_gid = value[length] == ':';
    if (!parse_id(value, length, &uid) ||
        (has_gid && !parse_id(value + length + 1, strlen(value + length + 1), &gid))) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "option --%s: '%s' is not a user (accepted: UID or UID:GID, "
                             "in digits, at most %u)",
                             rule->name, sbx_option_quote(quoted, value), ID_MAX);
    }
    if (!has_gid && !find_group(uid, &gid)) {
        return sbx_error_set(err, ENOENT, SBX_STAGE_OPTIONS,
                             "option --%s: uid %u has no entry in " PASSWD_FILE
                             " that tells its group: give UID:GID",
                             rule->name, uid);
    }
    spec->start.uid = uid;
    spec->start.gid = gid;
    spec->start.user_asked = true;
    return 0;
}

/* --- the rest --- */

int sbx_set_chdir(struct sbx_spec *spec, const struct sbx_rule *rule, const char *value,
                  struct sbx_error *err)
{
    return sbx_option_held_path(rule, value, &spec->start.directory,
                                &spec->start.directory_fd, err);
}

int sbx_set_cpus(struct sbx_spec *spec, const struct sbx_rule *rule, const char *value,
                 struct sbx_error *err)
{
    char quoted[SBX_QUOTE_SIZE];
    struct sbx_cpus cpus;
    int result = sbx_cpus_parse(value, &cpus);
    if (result < 0) {
        return sbx_error_set(err, -result, SBX_STAGE_OPTIONS,
                             "option --%s: '%s' is %s (accepted: numbers and ranges "
                             "such as 0-3,5, below %u)",
                             rule->name, sbx_option_quote(quoted, value),
                             result == -ERANGE ? "out of range" : "not a list of CPUs",
                             SBX_CPU_MAX);
    }
    spec->start.cpus = cpus;
    spec->start.cpus_asked = true;
    return 0;
}

int sbx_set_umask(struct sbx_spec *spec, const struct sbx_rule *rule, const char *value,
                  struct sbx_error *err)
{
    char quoted[SBX_QUOTE_SIZE];
    mode_t mode = 0;
    size_t length = strspn(value, "01234567");
    for (size_t i = 0; i < length && i < UMASK_DIGITS; i++) {
        mode = mode * 8 + (mode_t)(value[i] - '0');
    }
    if (length == 0 || length > UMASK_DIGITS || value[length] != '\0' || mode > 0777) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "option --%s: '%s' is not a mode (accepted: 1 to 4 octal "
                             "digits, 0 to 0777)",
                             rule->name, sbx_option_quote(quoted, value));
    }
    spec->start.umask = mode;
    spec->start.umask_asked = true;
    return 0;
}
