/*
 * fuzz_place.c - the files of an execution, with any bytes in them, as whoever reads them
 * sees them: request, page, stream, journal.
 *
 * The first byte says which file it is and how large it is made. Of stream and journal
 * the input is the head and what comes first behind it, in a file of the size that the
 * head asks for if that is small, since else nothing behind the size would be seen.
 * Beside memory safety: what is accepted is within its bounds, walks are as short as
 * they must be, and what is refused changes nothing.
 */
#include "fuzz/fuzz.h"

#include "base/fd.h"
#include "supervisor/journal.h"
#include "supervisor/place.h"
#include "supervisor/place_private.h"
#include "supervisor/status.h"
#include "supervisor/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define PAGE ((size_t)4096)
#define SIZE_MAX_TRIED (UINT64_C(1) << 20)
#define NAME "file"

/* --- a directory for one file --------------------------------------------------------
 */

static int directory = -1;
static char path[] = "/dev/shm/sbx-fuzz.XXXXXX"; /* faster than a disk, where it is */

static void remove_directory(void)
{
    (void)unlinkat(directory, NAME, 0);
    (void)unlinkat(directory, "page", 0);
    (void)rmdir(path);
}

static void make_directory(void)
{
    if (directory < 0) {
        if (mkdtemp(path) == NULL) {
            (void)strcpy(path, "/tmp/sbx-fuzz.XXXXXX");
            SBX_MUST(mkdtemp(path) != NULL);
        }
        directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        SBX_MUST(directory >= 0);
        SBX_MUST(atexit(remove_directory) == 0);
    }
}

/* Cut to that size, and at least as large. */
static int put_file(const char *name, const uint8_t *data, size_t size, uint64_t whole)
{
    int fd = openat(directory, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    SBX_MUST(fd >= 0);
    size_t part = size < whole ? size : (size_t)whole;
    SBX_MUST(part == 0 || pwrite(fd, data, part, 0) == (ssize_t)part);
    SBX_MUST(ftruncate(fd, (off_t)whole) == 0);
    return fd;
}

static uint64_t word(const uint8_t *data, size_t size, size_t index)
{
    uint64_t value = 0;
    if (size >= (index + 1) * sizeof value) {
        memcpy(&value, data + index * sizeof value, sizeof value);
    }
    return value;
}

/* The input with what belongs behind the page moved there: all but the first 64 bytes. */
static int put_paged(const uint8_t *data, size_t size, uint64_t whole)
{
    size_t head = size < 64 ? size : 64;
    int fd = put_file(NAME, data, head, whole);
    if (size > head && whole > PAGE) {
        size_t rest = size - head;
        rest = rest < whole - PAGE ? rest : (size_t)(whole - PAGE);
        SBX_MUST(pwrite(fd, data + head, rest, (off_t)PAGE) == (ssize_t)rest);
    }
    return fd;
}

/* --- each kind -----------------------------------------------------------------------
 */

static void try_request(const uint8_t *data, size_t size)
{
    struct sbx_facts facts;
    struct sbx_facts again;
    char text[SBX_FACTS_TEXT_SIZE];
    int r = sbx_facts_read((const char *)data, size, &facts);
    SBX_MUST(r == 0 || r == -EBADMSG);
    if (r < 0) {
        return;
    }
    SBX_MUST(sbx_id_is_valid(facts.id));
    SBX_MUST(strnlen(facts.boot, sizeof facts.boot) < sizeof facts.boot);
    ssize_t length = sbx_facts_write(&facts, text);
    SBX_MUST(length > 0 && sbx_facts_read(text, (size_t)length, &again) == 0);
    SBX_MUST(strcmp(facts.id, again.id) == 0 && strcmp(facts.boot, again.boot) == 0);
    SBX_MUST(memcmp(facts.digest, again.digest, sizeof facts.digest) == 0);
    SBX_MUST(facts.created_real_us == again.created_real_us &&
             facts.retention_us == again.retention_us &&
             facts.output_limit_bytes == again.output_limit_bytes &&
             facts.event_limit_count == again.event_limit_count &&
             facts.pause_when_full == again.pause_when_full && facts.uid == again.uid);
}

static void try_page(const uint8_t *data, size_t size, bool cut)
{
    struct sbx_page page;
    (void)close(put_file("page", data, size, cut ? size : PAGE));
    int r = sbx_page_read(directory, &page);
    SBX_MUST(r == 0 || r == -EBADMSG);
    SBX_MUST(r < 0 || (page.phase <= SBX_PHASE_FINISHED && page.leader_pid >= 0 &&
                       page.status <= SBX_EXECUTION_LOST));
    page = (struct sbx_page){.phase = SBX_PHASE_FINISHED};
    bool written = sbx_page_write(directory, &page) == 0;
    SBX_MUST(!written || sbx_page_read(directory, &page) == 0);
}

static void try_stream(const uint8_t *data, size_t size, bool cut)
{
    static char buffer[256 * 1024];
    uint64_t whole = PAGE + word(data, size, 1) + word(data, size, 3);
    if (cut || whole > SIZE_MAX_TRIED) {
        whole = size;
    }
    (void)close(put_paged(data, size, whole));
    struct sbx_stream_state state;
    int looked = sbx_stream_look(directory, NAME, &state);
    SBX_MUST(looked == 0 || looked == -EBADMSG);
    uint64_t offset = 0;
    for (int i = 0; i < 16; i++) {
        struct sbx_stream_piece piece;
        int r = sbx_stream_read(directory, NAME, offset, buffer, sizeof buffer, &piece);
        SBX_MUST(r == looked);
        if (r < 0) {
            return;
        }
        SBX_MUST(piece.length <= sizeof buffer &&
                 piece.offset == offset + piece.gap_bytes);
        offset = piece.offset + piece.length;
        SBX_MUST(offset <= state.total_bytes);
        if (piece.length == 0) {
            SBX_MUST(offset == state.total_bytes);
            break;
        }
    }
    SBX_MUST(state.head_bytes <= state.tail_offset &&
             state.tail_offset <= state.total_bytes);
}

struct seen {
    uint64_t last;
    uint64_t count;
};

static bool see(const struct sbx_event *event, void *context)
{
    struct seen *seen = context;
    SBX_MUST(seen->count == 0 || event->sequence == seen->last + 1);
    SBX_MUST(sbx_event_type_name(event->type) != NULL);
    SBX_MUST(event->stream >= 0 && event->stream <= 2);
    SBX_MUST(event->length <= SBX_EVENT_DATA_MAX);
    seen->last = event->sequence;
    seen->count++;
    return true;
}

static void try_journal(const uint8_t *data, size_t size, bool cut)
{
    uint64_t slots = word(data, size, 1);
    uint64_t whole = slots < SIZE_MAX_TRIED / 64 ? PAGE + slots * 48 + word(data, size, 2)
                                                 : SIZE_MAX_TRIED + 1;
    if (cut || whole > SIZE_MAX_TRIED) {
        whole = size;
    }
    SBX_AUTO_CLOSE int fd = put_paged(data, size, whole);
    struct sbx_journal_state state;
    struct seen seen = {0};
    int r = sbx_journal_read(directory, NAME, word(data, size, 6), see, &seen, &state);
    SBX_MUST(r == 0 || r == -EBADMSG);
    SBX_MUST(seen.count <= slots);
    SBX_MUST(r < 0 || state.first_sequence <= state.latest_sequence + 1);
    struct sbx_journal *journal = NULL;
    r = sbx_journal_open(directory, NAME, &journal, NULL);
    SBX_MUST(r == 0 || r == -EBADMSG);
    for (uint64_t i = 0; r == 0 && i < 12; i++) {
        const struct sbx_event event = {.type = SBX_EVENT_STDOUT,
                                        .length = size < 3000 ? size : 3000,
                                        .data = (const char *)data};
        (void)sbx_journal_append(journal, &event);
    }
    if (r == 0) {
        sbx_journal_close(journal);
    }
    struct stat status;
    SBX_MUST(fstat(fd, &status) == 0 && (uint64_t)status.st_size == whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    make_directory();
    bool cut = (data[0] & 4U) != 0;
    switch (data[0] & 3U) {
    case 0:
        try_request(data + 1, size - 1);
        break;
    case 1:
        try_page(data + 1, size - 1, cut);
        break;
    case 2:
        try_stream(data + 1, size - 1, cut);
        break;
    default:
        try_journal(data + 1, size - 1, cut);
        break;
    }
    return 0;
}
