/*
 * fuzz_query.c - path and query of a request, and the small bodies of calls, on any
 * bytes. The input is a path, a question mark, a query; all of it is also tried as a
 * body.
 *
 * Beside memory safety: results are untouched on failure; an id that comes out is one,
 * and comes out the same when it is spelled plainly; what a query says is within its
 * bounds, and says the same when it is written from what was understood.
 */
#include "fuzz/fuzz.h"

#include "base/error.h"
#include "supervisor/query.h"
#include "supervisor/view.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX 4096
#define UNTOUCHED 0x5a
#define ALL                                                                              \
    (SBX_PARAMETER_AFTER | SBX_PARAMETER_OFFSET | SBX_PARAMETER_WAIT |                   \
     SBX_PARAMETER_CLOSE)

static bool is_untouched(const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != UNTOUCHED) {
            return false;
        }
    }
    return true;
}

static void check_plain(const char *id, enum sbx_resource resource)
{
    char path[SBX_ID_SIZE + 32];
    char again[SBX_ID_SIZE];
    enum sbx_resource found = SBX_RESOURCE_METRICS;
    (void)snprintf(path, sizeof path, "/v1/executions/%s%s", id,
                   resource == SBX_RESOURCE_EXECUTION ? "" : "/events");
    SBX_MUST(sbx_path_parse(path, &found, again, NULL) == 0);
    SBX_MUST(strcmp(again, id) == 0);
    SBX_MUST(found == (resource == SBX_RESOURCE_EXECUTION ? SBX_RESOURCE_EXECUTION
                                                          : SBX_RESOURCE_EVENTS));
}

static void check_path(const char *path)
{
    struct sbx_error error = {.message = ""};
    enum sbx_resource resource = SBX_RESOURCE_METRICS;
    char id[SBX_ID_SIZE];
    memset(id, UNTOUCHED, sizeof id);
    memset(&resource, UNTOUCHED, sizeof resource);
    int r = sbx_path_parse(path, &resource, id, &error);
    SBX_MUST(r == 0 || r == -ENOENT || r == -EINVAL);
    if (r < 0) {
        SBX_MUST(is_untouched(id, sizeof id) && is_untouched(&resource, sizeof resource));
        SBX_MUST((r == -EINVAL) == (error.message[0] != '\0'));
        return;
    }
    SBX_MUST(resource <= SBX_RESOURCE_METRICS);
    bool has_id = resource >= SBX_RESOURCE_EXECUTION && resource <= SBX_RESOURCE_RESUME;
    SBX_MUST(has_id ? sbx_id_is_valid(id) : id[0] == '\0');
    if (has_id) {
        check_plain(id, resource);
    }
}

static bool is_same(const struct sbx_query *a, const struct sbx_query *b)
{
    return a->after == b->after && a->offset == b->offset && a->wait_us == b->wait_us &&
           a->has_wait == b->has_wait && a->close == b->close;
}

static void check_query(const char *text)
{
    char written[256];
    struct sbx_query query;
    struct sbx_query again;
    memset(&query, UNTOUCHED, sizeof query);
    int r = sbx_query_parse(text, ALL, &query, NULL);
    SBX_MUST(r == 0 || r == -EINVAL);
    if (r < 0) {
        SBX_MUST(is_untouched(&query, sizeof query));
        return;
    }
    SBX_MUST(query.wait_us <= SBX_WAIT_MAX_US && (query.has_wait || query.wait_us == 0));
    (void)snprintf(written, sizeof written, "after=%" PRIu64 "&offset=%" PRIu64 "%s",
                   query.after, query.offset, query.close ? "&close=1" : "");
    if (query.has_wait) {
        size_t used = strlen(written);
        (void)snprintf(written + used, sizeof written - used, "&wait=%" PRIu64 "us",
                       query.wait_us);
    }
    SBX_MUST(sbx_query_parse(written, ALL, &again, NULL) == 0 && is_same(&query, &again));
    /* Where nothing is allowed, only nothing is. */
    SBX_MUST((sbx_query_parse(text, 0, &again, NULL) == 0) == (text[0] == '\0'));
}

static void check_body(const char *body, size_t length)
{
    int number = -7;
    bool cancel = true;
    int r = sbx_view_parse_signal(body, length, &number, NULL);
    SBX_MUST(r == 0 ? number >= 1 && number <= SIGRTMAX : r == -EINVAL && number == -7);
    r = sbx_view_parse_shutdown(body, length, &cancel, NULL);
    SBX_MUST(r == 0 || (r == -EINVAL && cancel));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > TEXT_MAX) {
        return 0;
    }
    char *text = malloc(size + 1);
    SBX_MUST(text != NULL);
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    check_body(text, size);
    char *query = strchr(text, '?');
    if (query != NULL) {
        *query++ = '\0';
        check_query(query);
    }
    check_path(text);
    free(text);
    return 0;
}
