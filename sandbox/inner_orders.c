/*
 * inner_orders.c - taking the orders apart, see inner.h and orders.h.
 *
 * They come from our own sbx-run; but what is not exactly as agreed means that the two
 * are not of one build, or worse, and then nothing is run. Strict: every byte of the file
 * has a meaning, and every string ends inside of it. Never allocates.
 */
#include "sandbox/inner.h"

#include "base/error.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* "A=" and its NUL. */
#define VARIABLE_SIZE_MIN 3

#define SIGNAL_BIT(number) (UINT64_C(1) << ((number)-1))

size_t sbx_inner_table_room(size_t size)
{
    return size + 4; /* each string takes a byte; a free place, and the three ends */
}

static int wrong(struct sbx_error *err, const char *what, uint64_t value)
{
    return sbx_error_set(err, EINVAL, SBX_STAGE_LAUNCH,
                         "orders: %s: %" PRIu64 " (EINVAL)", what, value);
}

/* The next string of those between *next and end. NULL: it does not end there. */
static const char *take_string(const char **next, const char *end)
{
    const char *text = *next;
    const char *nul = memchr(text, '\0', (size_t)(end - text));
    if (nul == NULL) {
        return NULL;
    }
    *next = nul + 1;
    return text;
}

static int find_kind(int resource)
{
    for (int i = 0; i < SBX_CEILING_COUNT; i++) {
        if (sbx_ceiling_kinds[i].resource == resource) {
            return i;
        }
    }
    return -1;
}

static int take_ceilings(struct sbx_inner_orders *orders, struct sbx_error *err)
{
    if (orders->head.ceiling_count > SBX_ORDERS_CEILINGS) {
        return wrong(err, "more ceilings than there is room for",
                     orders->head.ceiling_count);
    }
    for (uint32_t i = 0; i < orders->head.ceiling_count; i++) {
        const struct sbx_orders_ceiling *ceiling = &orders->head.ceilings[i];
        int kind = find_kind(ceiling->resource);
        if (kind < 0 || ceiling->unused != 0 || ceiling->soft > ceiling->hard ||
            orders->ceilings[kind].asked) {
            return wrong(err, "a ceiling that is unknown, twofold or upside down", i);
        }
        orders->ceilings[kind] = (struct sbx_ceiling){
            .asked = true, .soft = ceiling->soft, .hard = ceiling->hard};
    }
    return 0;
}

static int check_numbers(const struct sbx_orders *head, size_t size,
                         struct sbx_error *err)
{
    const uint64_t never = SIGNAL_BIT(SIGKILL) | SIGNAL_BIT(SIGSTOP);
    if (head->magic != SBX_ORDERS_MAGIC) {
        return wrong(err, "made by another build, magic number", head->magic);
    }
    if (head->size != size) {
        return wrong(err, "not the size of the file", head->size);
    }
    if (head->status_fd <= STDERR_FILENO || head->stderr_fd < -1 ||
        head->seccomp_fd < -1 ||
        (head->seccomp_fd >= 0 && head->seccomp_fd <= STDERR_FILENO)) {
        return wrong(err, "a descriptor that cannot be, beside socket",
                     (uint64_t)head->status_fd);
    }
    if (head->status_fd == head->stderr_fd || head->status_fd == head->seccomp_fd ||
        (head->stderr_fd >= 0 && head->stderr_fd == head->seccomp_fd)) {
        return wrong(err, "a descriptor for two purposes, beside socket",
                     (uint64_t)head->status_fd);
    }
    if (head->removes > 1) {
        return wrong(err, "removes", head->removes);
    }
    if ((head->ignored & never) != 0) {
        return wrong(err, "ignored signals", head->ignored);
    }
    return 0;
}

static int take_environment(struct sbx_inner_orders *orders, const char **next,
                            const char *end, const char **environment,
                            struct sbx_error *err)
{
    uint32_t count = orders->head.environment_count;
    if (count > (size_t)(end - *next) / VARIABLE_SIZE_MIN) {
        return wrong(err, "more variables than fit", count);
    }
    for (uint32_t i = 0; i < count; i++) {
        const char *variable = take_string(next, end);
        const char *equals = variable != NULL ? strchr(variable, '=') : NULL;
        if (equals == NULL || equals == variable) {
            return wrong(err, "not NAME=VALUE, variable", i);
        }
        environment[i] = variable;
    }
    environment[count] = NULL;
    orders->environment = environment;
    return 0;
}

static int take_places(struct sbx_inner_orders *orders, const char *next, const char *end,
                       const char **places, struct sbx_error *err)
{
    uint32_t count = orders->head.place_count;
    if (count > (size_t)(end - next)) {
        return wrong(err, "more places than fit", count);
    }
    for (uint32_t i = 0; i < count; i++) {
        places[i] = take_string(&next, end);
        if (places[i] == NULL) {
            return wrong(err, "no end of place", i);
        }
    }
    if (next != end) {
        return wrong(err, "bytes behind the places", (uint64_t)(end - next));
    }
    places[count] = NULL;
    orders->places = places;
    return 0;
}

/* The place in front is for the shell, should the command turn out to be a script. */
static int take_arguments(struct sbx_inner_orders *orders, const char **next,
                          const char *end, const char **table, struct sbx_error *err)
{
    uint32_t count = orders->head.argument_count;
    if (count == 0 || count > (size_t)(end - *next)) {
        return wrong(err, "no arguments, or more than fit", count);
    }
    table[0] = NULL;
    for (uint32_t i = 1; i <= count; i++) {
        table[i] = take_string(next, end);
        if (table[i] == NULL) {
            return wrong(err, "no end of argument", i - 1);
        }
    }
    table[count + 1] = NULL;
    orders->arguments = table;
    return 0;
}

int sbx_inner_orders_parse(const char *data, size_t size, const char **table,
                           struct sbx_inner_orders *ret, struct sbx_error *err)
{
    struct sbx_inner_orders orders;
    memset(&orders, 0, sizeof orders);
    if (size < sizeof orders.head || size > SBX_ORDERS_SIZE_MAX) {
        return wrong(err, "size", size);
    }
    memcpy(&orders.head, data, sizeof orders.head);
    int error = check_numbers(&orders.head, size, err);
    if (error == 0) {
        error = take_ceilings(&orders, err);
    }
    if (error < 0) {
        return error;
    }
    const char *end = data + size;
    const char *next = data + sizeof orders.head;
    orders.directory = take_string(&next, end);
    if (orders.directory == NULL || orders.directory[0] != '/') {
        return wrong(err, "no absolute working directory, size", size);
    }
    orders.file = take_string(&next, end);
    if (orders.file == NULL) {
        return wrong(err, "nothing to execute, size", size);
    }
    error = take_arguments(&orders, &next, end, table, err);
    if (error < 0) {
        return error;
    }
    const char **environment = table + orders.head.argument_count + 2;
    error = take_environment(&orders, &next, end, environment, err);
    if (error == 0) {
        error = take_places(&orders, next, end,
                            environment + orders.head.environment_count + 1, err);
    }
    if (error == 0) {
        *ret = orders;
    }
    return error;
}
