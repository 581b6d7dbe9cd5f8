/*
 * request_probe.c - requests, for scripts: `request_probe keys` lists every key with the
 * objects that it stands in ("limits.wall"); `request_probe FILE...` says of each file
 * "ok", or why it is refused.
 */
#include "supervisor/request_private.h"

#include "reaper/ceiling.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX ((size_t)1024 * 1024)

static const unsigned char no_key[SBX_KEY_SIZE];

static void print_section(enum sbx_section section)
{
    char key[SBX_KEY_NAME_SIZE];
    size_t count = 0;
    const char *name = sbx_section_name(section);
    const char *dot = section == SBX_SECTION_TOP ? "" : ".";
    const struct sbx_option *options = sbx_section_options(section, &count);
    for (size_t i = 0; i < count; i++) {
        if (sbx_request_key(&options[i], section, key)) {
            (void)printf("%s%s%s\n", name, dot, key);
        }
    }
    for (const char *const *other = sbx_section_others(section); *other != NULL;
         other++) {
        (void)printf("%s%s%s\n", name, dot, *other);
    }
    for (size_t i = 0; section != SBX_SECTION_LIMITS && i < SBX_CEILING_COUNT; i++) {
        (void)printf("%s%sceilings.%s\n", name, dot, sbx_ceiling_kinds[i].name);
    }
}

static int try_file(const char *path, char *text)
{
    const struct sbx_request_policy policy = {
        .key = no_key,
        .max_output_bytes = UINT64_C(64) << 20,
        .max_events_count = 65536,
        .max_retention_us = UINT64_C(604800000000),
        .default_retention_us = UINT64_C(900000000),
        .sandbox_program = "/usr/bin/sbx-run",
        .trusted = true,
        .uid = geteuid(),
        .gid = getegid(),
    };
    struct sbx_request *request = NULL;
    struct sbx_error error = {0};
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        perror(path);
        return -1;
    }
    size_t length = fread(text, 1, FILE_MAX, file);
    (void)fclose(file);
    int r = sbx_request_parse(text, length, &policy, &request, &error);
    (void)printf("%s\n", r == 0 ? "ok" : error.message);
    sbx_request_free(request);
    return 0;
}

int main(int argc, char *argv[])
{
    if (argc == 2 && strcmp(argv[1], "keys") == 0) {
        print_section(SBX_SECTION_TOP);
        print_section(SBX_SECTION_LIMITS);
        print_section(SBX_SECTION_SANDBOX);
        return EXIT_SUCCESS;
    }
    char *text = malloc(FILE_MAX);
    int r = text == NULL || argc < 2 ? -1 : 0;
    for (int i = 1; r == 0 && i < argc; i++) {
        r = try_file(argv[i], text);
    }
    free(text);
    return r == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
