/*
 * fuzz_orders.c - the orders of sbx-inner on any bytes.
 *
 * The bytes are the file; its two fields that hardly any input would have right, magic
 * number and size, are put right first, unless the last byte is odd. Beside memory
 * safety: on failure nothing is changed and the error is one line; what is accepted has
 * all its strings inside of the file, one behind the other, up to the end.
 */
#include "fuzz/fuzz.h"

#include "sandbox/inner.h"

#include <errno.h>
#include <string.h>

#define FILE_MAX 16384

static void check_failure(const struct sbx_inner_orders *orders, int result,
                          const struct sbx_error *error)
{
    SBX_MUST(result == -EINVAL);
    SBX_MUST(error->code == EINVAL && error->stage == SBX_STAGE_LAUNCH);
    SBX_MUST(memchr(error->message, '\0', sizeof error->message) != NULL);
    SBX_MUST(error->message[0] != '\0' && strpbrk(error->message, "\r\n\t\033") == NULL);
    SBX_MUST(orders->file == NULL && orders->environment == NULL);
}

static void check_success(const struct sbx_inner_orders *orders, const char *data,
                          size_t size)
{
    const char *next = data + sizeof orders->head;
    uint32_t asked = 0;
    SBX_MUST(orders->directory == next && *next == '/');
    next += strlen(next) + 1;
    SBX_MUST(orders->file == next);
    next += strlen(next) + 1;
    SBX_MUST(orders->head.argument_count > 0 && orders->arguments[0] == NULL);
    for (uint32_t i = 1; i <= orders->head.argument_count; i++) {
        SBX_MUST(orders->arguments[i] == next);
        next += strlen(next) + 1;
    }
    SBX_MUST(orders->arguments[orders->head.argument_count + 1] == NULL);
    for (uint32_t i = 0; i < orders->head.environment_count; i++) {
        SBX_MUST(orders->environment[i] == next);
        SBX_MUST(strchr(next, '=') != NULL && *next != '=');
        next += strlen(next) + 1;
    }
    SBX_MUST(orders->environment[orders->head.environment_count] == NULL);
    for (uint32_t i = 0; i < orders->head.place_count; i++) {
        SBX_MUST(orders->places[i] == next);
        next += strlen(next) + 1;
    }
    SBX_MUST(orders->places[orders->head.place_count] == NULL);
    SBX_MUST(next == data + size);
    for (int i = 0; i < SBX_CEILING_COUNT; i++) {
        asked += orders->ceilings[i].asked ? 1U : 0U;
        SBX_MUST(orders->ceilings[i].soft <= orders->ceilings[i].hard);
    }
    SBX_MUST(asked == orders->head.ceiling_count);
    SBX_MUST(orders->head.status_fd > 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint32_t magic = SBX_ORDERS_MAGIC;
    const uint32_t number = (uint32_t)size;
    if (size > FILE_MAX) {
        return 0;
    }
    struct sbx_inner_orders orders = {.file = NULL};
    struct sbx_error error = {.code = 0};
    /* Exactly as large as promised, so that a step beyond is seen. */
    char *file = malloc(size > 0 ? size : 1);
    const char **table = calloc(sbx_inner_table_room(size), sizeof *table);
    SBX_MUST(file != NULL && table != NULL);
    if (size > 0) {
        memcpy(file, data, size);
    }
    if (size >= sizeof orders.head && (data[size - 1] & 1) == 0) {
        memcpy(file, &magic, sizeof magic);
        memcpy(file + offsetof(struct sbx_orders, size), &number, sizeof number);
    }
    int result = sbx_inner_orders_parse(file, size, table, &orders, &error);
    if (result < 0) {
        check_failure(&orders, result, &error);
    } else {
        SBX_MUST(result == 0);
        check_success(&orders, file, size);
    }
    free(table);
    free(file);
    return 0;
}
