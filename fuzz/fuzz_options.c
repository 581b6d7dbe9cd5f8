/*
 * fuzz_options.c - sbx_spec_set on any sequence of NAME NUL VALUE NUL; a value of one
 * byte 0x01 stands for none.
 *
 * Beside memory safety and leaks: a failure leaves the specification as it was, byte for
 * byte, and says why in one printable line; what was accepted once is accepted again;
 * limits are never 0; no more descriptors are held than there are paths. Files of
 * variables are not read here (any file of the machine could be named): see
 * fuzz_environment.c.
 */
#include "fuzz/fuzz.h"

#include "monitor/spec.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#define INPUT_MAX 4096
#define NO_VALUE "\x01"

static void check_error(const struct sbx_error *error, int result)
{
    SBX_MUST(error->code == -result);
    SBX_MUST(error->stage == SBX_STAGE_OPTIONS);
    size_t length = strnlen(error->message, sizeof error->message);
    SBX_MUST(length > 0 && length < sizeof error->message);
    SBX_MUST(strstr(error->message, "option --") != NULL);
    for (size_t i = 0; i < length; i++) {
        SBX_MUST((unsigned char)error->message[i] >= 0x20);
    }
}

static void check_bounds(const struct sbx_spec *spec)
{
    SBX_MUST(spec->warn_percent >= 1 && spec->warn_percent <= 100);
    SBX_MUST(spec->interval_us >= 1000);
    SBX_MUST(spec->breach_status >= 1 && spec->breach_status <= 255);
    SBX_MUST(spec->keep_fd_count <= SBX_KEEP_FD_MAX);
    SBX_MUST(spec->signal >= 1 && spec->signal != SIGSTOP && spec->signal != SIGTSTP);
    SBX_MUST(spec->limits.wall_us <= INT64_MAX && spec->limits.cpu_us <= INT64_MAX);
    SBX_MUST(spec->limits.memory_bytes <= INT64_MAX);
    SBX_MUST(spec->report_directory_fd == -1 || spec->report_directory_fd > 2);
    SBX_MUST(spec->report_directory_fd == -1 || spec->report_path[0] != '/');
    SBX_MUST(spec->start.directory_fd == -1 || spec->start.directory_fd > 2);
    SBX_MUST(spec->start.directory_fd == -1 || spec->start.directory[0] != '/');
    SBX_MUST(spec->start.umask <= 0777);
    SBX_MUST(spec->start.uid != (uid_t)-1 && spec->start.gid != (gid_t)-1);
    SBX_MUST(spec->log.directory_fd == -1 || spec->log.directory_fd > 2);
    SBX_MUST(spec->log.target_count <= SBX_LOG_SINK_MAX);
    for (size_t i = 0; i < spec->log.target_count; i++) {
        const struct sbx_log_target *target = &spec->log.targets[i];
        SBX_MUST((target->kind == SBX_LOG_FILE) == (target->path != NULL));
    }
    for (size_t i = 0; i < SBX_CEILING_COUNT; i++) {
        SBX_MUST(spec->ceilings[i].soft <= spec->ceilings[i].hard);
    }
}

/* A limit that was set is there: 0 would mean that there is none. */
static void check_limit(const struct sbx_spec *spec, const char *name)
{
    const struct {
        const char *name;
        uint64_t value;
    } limits[] = {{"wall", spec->limits.wall_us},
                  {"cpu", spec->limits.cpu_us},
                  {"memory", spec->limits.memory_bytes},
                  {"processes", spec->limits.processes_count},
                  {"threads", spec->limits.threads_count}};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        SBX_MUST(strcmp(limits[i].name, name) != 0 || limits[i].value > 0);
    }
}

static void set_one(struct sbx_spec *spec, const char *name, const char *value)
{
    struct sbx_error error = {0};
    struct sbx_spec before;
    char path[INPUT_MAX] = "";
    memcpy(&before, spec, sizeof before);
    if (spec->report_path != NULL) {
        (void)snprintf(path, sizeof path, "%s", spec->report_path);
    }
    int result = sbx_spec_set(spec, name, value, &error);
    SBX_MUST(result <= 0);
    if (result < 0) {
        check_error(&error, result);
        /* Padding included: nothing was written at all. */
        SBX_MUST(memcmp(&before, spec, sizeof before) == 0); /* NOLINT(bugprone-*) */
        SBX_MUST(spec->report_path == NULL || strcmp(spec->report_path, path) == 0);
        SBX_MUST(sbx_spec_set(spec, name, value, NULL) == result);
        return;
    }
    check_limit(spec, name);
    SBX_MUST(sbx_spec_set(spec, name, value, NULL) == 0);
    check_bounds(spec);
}

static char *next_text(char **rest, const char *end)
{
    char *text = *rest;
    size_t length = strnlen(text, (size_t)(end - text));
    *rest = text + length < end ? text + length + 1 : text + length;
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size >= INPUT_MAX) {
        return 0;
    }
    char text[INPUT_MAX];
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    const char *end = text + size;
    char *rest = text;
    struct sbx_spec *spec = sbx_spec_new();
    SBX_MUST(spec != NULL);
    while (rest < end) {
        const char *name = next_text(&rest, end);
        const char *value = next_text(&rest, end);
        if (strcmp(name, "env-from") != 0) {
            set_one(spec, name, strcmp(value, NO_VALUE) == 0 ? NULL : value);
        }
    }
    sbx_spec_free(spec);
    return 0;
}
