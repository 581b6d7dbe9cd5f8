/*
 * fuzz_environment.c - files of variables, and the environment that comes of them, on any
 * bytes.
 *
 * Beside memory safety: a file is taken whole or not at all, a message says nothing of
 * what it holds, and the environment has each name once, with what was said last.
 */
#include "fuzz/fuzz.h"

#include "monitor/environment.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define INPUT_MAX 4096

static bool same_name(const char *a, const char *b)
{
    size_t length = strcspn(a, "=");
    return length == strcspn(b, "=") && memcmp(a, b, length) == 0;
}

static void check_made(const struct sbx_strings *said, const char **made)
{
    size_t count = 0;
    for (; made[count] != NULL; count++) {
        const char *last = NULL;
        for (size_t k = 0; k < said->count; k++) {
            last = same_name(said->items[k], made[count]) ? said->items[k] : last;
        }
        SBX_MUST(last == made[count]);
        for (size_t k = 0; k < count; k++) {
            SBX_MUST(!same_name(made[k], made[count]));
        }
    }
    SBX_MUST(count > 0 || said->count == 0);
}

static void check_error(const struct sbx_error *error)
{
    size_t number = strcspn(error->message, "0123456789");
    size_t digits = strspn(error->message + number, "0123456789");
    SBX_MUST(error->code == EINVAL && digits > 0);
    SBX_MUST(strncmp(error->message, "line ", number) == 0 ||
             strncmp(error->message, "entry ", number) == 0);
    SBX_MUST(strcmp(error->message + number + digits, " is not NAME=VALUE") == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const base[] = {"A=1", "B=2", NULL};
    struct sbx_environment environment = {.clear = true};
    struct sbx_error error = {0};
    const char **made = NULL;
    if (size > INPUT_MAX) {
        return 0;
    }
    char *text = malloc(size + (size == 0));
    SBX_MUST(text != NULL);
    if (size > 0) {
        memcpy(text, data, size);
    }
    int result = sbx_environment_add_file(&environment, text, size, &error);
    SBX_MUST(result == 0 || result == -EINVAL);
    if (result < 0) {
        check_error(&error);
        SBX_MUST(environment.from_files.count == 0);
    } else {
        SBX_MUST(sbx_environment_make(&environment, base, NULL, &made) == 0);
        check_made(&environment.from_files, made);
    }
    free(made);
    free(text);
    sbx_environment_done(&environment);
    return 0;
}
