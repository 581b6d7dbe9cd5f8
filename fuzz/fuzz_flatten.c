/*
 * fuzz_flatten.c - the walk over a report's JSON, and the forms made of it, on any bytes.
 *
 * Beside memory safety: values lie inside the text, one behind the other, and paths are
 * terminated; kv has a line for each; what is accepted once is accepted always, and a
 * text that is refused is refused by both forms.
 */
#include "fuzz/fuzz.h"

#include "monitor/flatten.h"
#include "monitor/render.h"

#include <errno.h>
#include <string.h>

#define OUT_SIZE ((size_t)512 * 1024)

struct seen {
    const char *next; /* no value begins before */
    const char *end;
    size_t count;
};

static bool look(const struct sbx_flat *flat, void *context)
{
    struct seen *seen = context;
    SBX_MUST(strnlen(flat->path, SBX_FLATTEN_PATH_SIZE) < SBX_FLATTEN_PATH_SIZE);
    SBX_MUST(flat->length > 0 && flat->value >= seen->next);
    SBX_MUST(flat->length <= (size_t)(seen->end - flat->value));
    seen->next = flat->value + flat->length;
    seen->count++;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char out[OUT_SIZE];
    char *text = malloc(size + 1);
    if (text == NULL) {
        return 0;
    }
    if (size > 0) {
        memcpy(text, data, size);
    }
    struct seen seen = {.next = text, .end = text + size};
    int r = sbx_flatten(text, size, look, &seen);
    SBX_MUST(r == 0 || r == -EINVAL || r == -ENOBUFS);
    ssize_t kv = sbx_render_kv(text, size, out, sizeof out);
    SBX_MUST(kv == -ENOBUFS || (r == 0 ? kv >= 0 : kv == r));
    if (kv >= 0) {
        SBX_MUST((size_t)kv < sizeof out && out[kv] == '\0');
        SBX_MUST((size_t)kv >= 2 * seen.count);
    }
    ssize_t people = sbx_render_text(text, size, out, sizeof out);
    SBX_MUST(people == -ENOBUFS || (r == 0 ? people >= 0 : people == r));
    free(text);
    return 0;
}
