/*
 * statistics_text.c - see statistics_text.h. A key counts only as the whole first word of
 * a line ("oom" is not "oom_kill", "anon" not "inactive_anon"), and a number only if
 * nothing but digits stands there. Nothing here allocates or depends on a locale.
 */
#include "cgroup/statistics_text.h"

#include <string.h>

#define UNKNOWN UINT64_MAX
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* All of the text is one number. UINT64_MAX itself would be taken for unknown: it is. */
static bool whole_number(const char *at, const char *end, uint64_t *ret_value)
{
    uint64_t value = 0;
    if (at == end || (*at == '0' && end - at > 1)) {
        return false;
    }
    for (; at < end; at++) {
        if (*at < '0' || *at > '9' || __builtin_mul_overflow(value, 10U, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value)) {
            return false;
        }
    }
    *ret_value = value;
    return true;
}

/* The first line that starts with the key and a blank: what follows it, up to the line
 * feed. NULL: there is none. */
static const char *find_line(const char *text, size_t length, const char *key,
                             const char **ret_end)
{
    const char *line = text;
    const char *end = text + length;
    size_t key_length = strlen(key);
    while (line < end) {
        const char *feed = memchr(line, '\n', (size_t)(end - line));
        if (feed == NULL) {
            return NULL;
        }
        if ((size_t)(feed - line) > key_length && line[key_length] == ' ' &&
            memcmp(line, key, key_length) == 0) {
            *ret_end = feed;
            return line + key_length + 1;
        }
        line = feed + 1;
    }
    return NULL;
}

bool sbx_statistics_find(const char *text, size_t length, const char *key,
                         uint64_t *ret_value)
{
    const char *end = NULL;
    const char *value = find_line(text, length, key, &end);
    return value != NULL && whole_number(value, end, ret_value);
}

/* ---- which number stands where ---- */

struct place {
    enum sbx_statistics_file file;
    const char *key; /* NULL: the file is that one number */
    size_t offset;
};

#define AT(member) offsetof(struct sbx_figures, member)

static const struct place places[] = {
    {SBX_FILE_CPU, "usage_usec", AT(cpu_us)},
    {SBX_FILE_CPU, "user_usec", AT(cpu_user_us)},
    {SBX_FILE_CPU, "system_usec", AT(cpu_system_us)},
    {SBX_FILE_MEMORY_CURRENT, NULL, AT(memory_bytes)},
    {SBX_FILE_MEMORY_PEAK, NULL, AT(memory_peak_bytes)},
    {SBX_FILE_MEMORY_STAT, "anon", AT(anon_bytes)},
    {SBX_FILE_MEMORY_STAT, "shmem", AT(shmem_bytes)},
    {SBX_FILE_MEMORY_EVENTS, "oom", AT(oom)},
    {SBX_FILE_MEMORY_EVENTS, "oom_kill", AT(oom_kill)},
    {SBX_FILE_MEMORY_EVENTS, "oom_group_kill", AT(oom_group_kill)},
    {SBX_FILE_MEMORY_EVENTS_LOCAL, "oom", AT(local_oom)},
    {SBX_FILE_SWAP_CURRENT, NULL, AT(swap_bytes)},
    {SBX_FILE_SWAP_PEAK, NULL, AT(swap_peak_bytes)},
    {SBX_FILE_PIDS_CURRENT, NULL, AT(tasks)},
    {SBX_FILE_PIDS_PEAK, NULL, AT(tasks_peak)},
    {SBX_FILE_PIDS_EVENTS, "max", AT(forks_refused)},
    {SBX_FILE_PIDS_EVENTS_LOCAL, "max", AT(forks_refused_local)},
};

static uint64_t *number_at(struct sbx_figures *figures, size_t offset)
{
    return (uint64_t *)(void *)((char *)figures + offset);
}

void sbx_statistics_forget(struct sbx_figures *ret_figures)
{
    struct sbx_figures figures = {.populated = true, .memory_pressure_us = UNKNOWN};
    for (size_t i = 0; i < COUNT(places); i++) {
        *number_at(&figures, places[i].offset) = UNKNOWN;
    }
    *ret_figures = figures;
}

/* "populated 1\nfrozen 0\n". Only a plain 0 says that nobody is there. */
static void parse_events(const char *text, size_t length, struct sbx_figures *figures)
{
    uint64_t value = 0;
    if (sbx_statistics_find(text, length, "populated", &value)) {
        figures->populated = value != 0;
    }
    if (sbx_statistics_find(text, length, "frozen", &value)) {
        figures->frozen = value == 1;
    }
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=123\n" */
static void parse_pressure(const char *text, size_t length, struct sbx_figures *figures)
{
    static const char mark[] = " total=";
    const char *end = NULL;
    const char *at = find_line(text, length, "some", &end);
    const char *total =
        at == NULL ? NULL : memmem(at, (size_t)(end - at), mark, sizeof(mark) - 1);
    if (total != NULL) {
        (void)whole_number(total + sizeof(mark) - 1, end, &figures->memory_pressure_us);
    }
}

/* "123\n" */
static void parse_number(const char *text, size_t length, uint64_t *value)
{
    if (length > 1 && text[length - 1] == '\n') {
        (void)whole_number(text, text + length - 1, value);
    }
}

void sbx_statistics_parse(enum sbx_statistics_file file, const char *text, size_t length,
                          struct sbx_figures *figures)
{
    if (file == SBX_FILE_EVENTS) {
        parse_events(text, length, figures);
        return;
    }
    if (file == SBX_FILE_MEMORY_PRESSURE) {
        parse_pressure(text, length, figures);
        return;
    }
    for (size_t i = 0; i < COUNT(places); i++) {
        if (places[i].file != file) {
            continue;
        }
        uint64_t *value = number_at(figures, places[i].offset);
        if (places[i].key == NULL) {
            parse_number(text, length, value);
        } else {
            (void)sbx_statistics_find(text, length, places[i].key, value);
        }
    }
}
